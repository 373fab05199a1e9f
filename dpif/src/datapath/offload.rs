//! Switching offload on and off, and keeping it in line with the ports.

use std::collections::BTreeSet;
use std::sync::Arc;

use netdev::flow_api::Capabilities;
use netdev::port::Port;

use super::{Datapath, PortNumber};
use crate::flow_table::WorkerId;
use crate::offload::{OffloadSettings, ProviderStatus, Reason};
use crate::pmd::pipeline::Pipeline;
use crate::tunnel::TunnelPort;

impl Datapath {
    /// Switches offload on or off. Ports take rules from the next reconfiguration on; when this
    /// switches it off, all rules are gone when it returns.
    pub fn set_offload(&mut self, settings: OffloadSettings) {
        let is_enabled = settings.is_enabled;
        if self.offload.is_enabled() && !is_enabled {
            for port in self.offload.open_ports() {
                self.close_offload(port, Reason::Off);
            }
        }
        if !self.offload.set(settings) {
            return;
        }
        let handles = self.offload.handles();
        self.run_everywhere(move |worker| {
            worker.pipeline.offload.set_workers(handles.clone());
        });
        let tunnels: Vec<PortNumber> = self.tunnels.keys().copied().collect();
        let taken: Vec<PortNumber> = self.offload.tunnels().collect();
        for number in tunnels {
            let ability =
                if taken.contains(&number) { Capabilities::MARK } else { Capabilities::empty() };
            self.set_capabilities(number, ability);
        }
        if !is_enabled {
            self.offload.stop();
        }
    }

    /// Lets flows of a tunnel port become rules.
    pub(super) fn open_offload_tunnel(&mut self, number: PortNumber, port: TunnelPort) {
        self.offload.open_tunnel(number, port);
        if self.offload.tunnels().any(|taken| taken == number) {
            self.set_capabilities(number, Capabilities::MARK);
        }
    }

    /// Takes the rules of a tunnel port's flows off all ports.
    pub(super) fn close_offload_tunnel(&mut self, number: PortNumber) {
        self.set_capabilities(number, Capabilities::empty());
        self.offload.close_tunnel(number);
    }

    /// Whether flows are put into hardware.
    pub fn is_offload_enabled(&self) -> bool {
        self.offload.is_enabled()
    }

    /// Lets flows know what hardware has counted by now.
    pub fn count_offloaded(&self) {
        self.offload.count();
    }

    /// The kind of hardware that takes flows of a port, if any does.
    pub fn offload_provider(&self, port: PortNumber) -> Option<&'static str> {
        self.offload.provider(port)
    }

    /// What the kinds of hardware have to tell.
    pub fn offload_status(&self) -> Vec<ProviderStatus> {
        self.offload.status()
    }

    /// Lets the hardware of ports take rules that could not before, and offers it the flows that
    /// are there.
    pub(super) fn open_offload(&mut self, ports: &[(PortNumber, &mut (dyn Port + 'static))]) {
        let mut opened = BTreeSet::new();
        for (number, port) in ports {
            let settings = self.port_settings.get(number);
            let priority = settings.and_then(|settings| settings.offload_priority.as_deref());
            self.offload.take(*number, &**port, priority);
            let Some(state) = self.ports.get(number) else { continue };
            let drains: Vec<_> = state.queues.iter().map(|q| Arc::clone(&q.drain)).collect();
            let Some(capabilities) = self.offload.open(*number, &**port, &drains) else { continue };
            self.set_capabilities(*number, capabilities);
            opened.insert(*number);
        }
        if opened.is_empty() {
            return;
        }
        // Those that are installed from here on come by themselves.
        for flow in self.dump_flows(None) {
            let number = PortNumber(flow.key().in_port.get());
            if !opened.contains(&number) && !self.tunnels.contains_key(&number) {
                continue;
            }
            let inbox = match flow.worker() {
                WorkerId::Main => Some(self.main.worker.pipeline.offload.inbox()),
                WorkerId::Core(number) => {
                    let mut threads = self.threads.iter();
                    let thread = threads.find(|(core, _)| core.core == number);
                    thread.map(|(_, thread)| &thread.inbox)
                }
            };
            if let Some(inbox) = inbox {
                self.offload.offer(&flow, inbox);
            }
        }
    }

    /// Takes all rules off a port.
    pub(super) fn close_offload(&mut self, port: PortNumber, reason: Reason) {
        if self.offload.provider(port).is_some() {
            self.set_capabilities(port, Capabilities::empty());
            self.offload.close(port, reason);
        }
    }

    fn set_capabilities(&mut self, port: PortNumber, capabilities: Capabilities) {
        self.run_everywhere(move |worker| {
            worker.pipeline.offload.ports.set(port, capabilities);
        });
    }

    /// Brings a new thread's view of offload up to date.
    pub(super) fn prepare_offload(&self, pipeline: &mut Pipeline) {
        pipeline.offload.set_workers(self.offload.handles());
        for (port, capabilities) in self.offload.capabilities() {
            pipeline.offload.ports.set(port, capabilities);
        }
    }
}
