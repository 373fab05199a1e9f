//! The datapaths that bridges share, and how packets come to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dpif::datapath::{Config, Datapath, DatapathType, PortNumber, Topology};
use netdev::clock;
use netdev::linux::poller::Poller;
use netdev::port::Port;
use ofproto::epoch::Epoch;
use ofproto::revalidate::Revalidator;
use ofproto::switches::Switches;
use ofproto::upcall::Upcalls;
use tracing::warn;
use uuid::Uuid;

use super::Bridges;
use crate::config::diff::InterfaceName;
use crate::config::model::DatapathConfig;

/// Frames of a datapath on each NUMA node: 2 KiB each, touched only as far as they are in use.
const FRAMES: u32 = 32 * 1024;
/// Rounds over the ports that the control thread polls before it looks at anything else.
const ROUNDS: usize = 16;

/// A datapath, and what its bridges share.
pub(super) struct SharedDatapath {
    pub(super) datapath: Datapath,
    pub(super) upcalls: Arc<Upcalls>,
    /// Counts changes of what its flows depend on.
    pub(super) epoch: Arc<Epoch>,
    revalidator: Revalidator,
    /// Waits for the ports that the control thread polls; absent when the system refused it.
    pub(super) poller: Option<Poller>,
}

impl SharedDatapath {
    pub(super) fn new(kind: DatapathType, topology: &Topology) -> Self {
        let epoch = Arc::new(Epoch::default());
        let upcalls = Arc::new(Upcalls::new(Arc::clone(&epoch)));
        let datapath = Datapath::new(Config {
            kind,
            topology: topology.clone(),
            frames: FRAMES,
            handler: Arc::clone(&upcalls) as Arc<_>,
            seed: Uuid::new_v4().as_u64_pair().0,
        });
        let revalidator = Revalidator::new(Arc::clone(&upcalls));
        Self { datapath, upcalls, epoch, revalidator, poller: None }
    }
}

impl Bridges {
    /// Brings the datapaths in line with the ports of the switches and with `config`, and tells
    /// translation of both. Interfaces that carry no packets are closed, and count as failed.
    pub(super) fn reconfigure_datapaths(&mut self, config: &DatapathConfig) {
        let kinds: Vec<_> = self.datapaths.keys().copied().collect();
        for kind in kinds {
            let failures = self.reconfigure_datapath(kind, config);
            for (name, error) in failures {
                warn!(target: "dpif", "{}: {error}", name.interface);
                let applied = self.applied.get(&name.bridge);
                let state = applied.and_then(|bridge| bridge.interfaces.get(&name.interface));
                let Some(interface) = state.map(|state| state.config.clone()) else { continue };
                self.delete_interface(&name);
                self.fail_interface(&name, &interface, error);
            }
            self.publish_switches(kind);
        }
    }

    /// Returns the interfaces that carry no packets, and why.
    fn reconfigure_datapath(
        &mut self,
        kind: DatapathType,
        config: &DatapathConfig,
    ) -> Vec<(InterfaceName, String)> {
        let Some(shared) = self.datapaths.get_mut(&kind) else { return vec![] };
        let datapath = &mut shared.datapath;
        datapath.set_pmd_settings(config.pmd.clone());
        datapath.set_knobs(config.knobs);
        shared.revalidator.set_settings(config.revalidation);
        let mut names = BTreeMap::new();
        let mut ports: Vec<(PortNumber, &mut dyn Port)> = vec![];
        for (bridge, switch) in &mut self.switches {
            if self.applied.get(bridge).and_then(|applied| applied.datapath) != Some(kind) {
                continue;
            }
            for (_, port) in switch.ports_mut() {
                let Some(number) = port.datapath_number else { continue };
                let interface = port.port.name().to_owned();
                names.insert(number, InterfaceName { bridge: bridge.clone(), interface });
                ports.push((number, port.port.as_mut()));
            }
        }
        let errors = datapath.reconfigure(&mut ports);
        shared.poller = Poller::new(shared.datapath.wait_fds())
            .inspect_err(|error| {
                warn!(target: "dpif", "cannot wait for ports: {error}; they receive nothing");
            })
            .ok();
        errors
            .into_iter()
            .filter_map(|(number, error)| Some((names.remove(&number)?, error.to_string())))
            .collect()
    }

    /// Gives translation a new picture of the switches on a datapath.
    fn publish_switches(&mut self, kind: DatapathType) {
        let Some(shared) = self.datapaths.get_mut(&kind) else { return };
        let mut snapshots = vec![];
        for (bridge, switch) in &self.switches {
            let Some(applied) = self.applied.get(bridge) else { continue };
            if applied.datapath != Some(kind) {
                continue;
            }
            snapshots.push(switch.snapshot());
        }
        shared.upcalls.publish(Switches::new(snapshots));
    }

    /// When revalidation or a MAC table has something to do.
    pub fn maintenance_due(&self) -> Option<Duration> {
        let due = self.datapaths.values().filter_map(|shared| {
            let has_flows = shared.datapath.flow_count() > 0;
            shared.revalidator.due().filter(|_| has_flows)
        });
        due.chain(self.stations_expire).min()
    }

    /// Does what is due: forgets silent stations and looks at flows again.
    pub fn maintain(&mut self) {
        let now = clock::now();
        self.stations_expire =
            self.switches.values().filter_map(|switch| switch.mac_table().expire()).min();
        for shared in self.datapaths.values_mut() {
            if shared.revalidator.due().is_some_and(|due| due <= now)
                && shared.datapath.flow_count() > 0
            {
                shared.revalidator.run(&mut shared.datapath);
            }
        }
    }

    /// Looks at all flows again now.
    pub fn revalidate(&mut self) {
        for shared in self.datapaths.values_mut() {
            shared.revalidator.run(&mut shared.datapath);
        }
    }

    /// Removes all flows.
    pub fn purge_flows(&mut self) {
        for shared in self.datapaths.values_mut() {
            shared.revalidator.purge(&mut shared.datapath);
        }
    }

    /// Stops looking at flows again, or goes on with it.
    pub fn pause_revalidation(&mut self, paused: bool) {
        for shared in self.datapaths.values_mut() {
            shared.revalidator.set_paused(paused);
        }
    }

    /// Sets whether flows take all packets for which the answer is the same, or as few as they
    /// can. Those that are there go.
    pub fn set_megaflows(&mut self, on: bool) {
        for shared in self.datapaths.values_mut() {
            shared.upcalls.set_megaflows(on);
            shared.revalidator.purge(&mut shared.datapath);
        }
    }

    /// Sets the most flows that upcalls make.
    pub fn set_flow_limit(&mut self, limit: usize) {
        self.datapaths.values().for_each(|shared| shared.upcalls.set_flow_limit(limit));
    }

    /// The datapaths, each with its title and what revalidates its flows.
    pub fn shared_datapaths(&self) -> impl Iterator<Item = (String, &Datapath, &Revalidator)> {
        self.datapaths.iter().map(|(kind, shared)| {
            let title = format!("{}@{}", kind.name(), kind.datapath_name());
            (title, &shared.datapath, &shared.revalidator)
        })
    }

    /// Receives and forwards what waits at the ports that the control thread polls. Returns
    /// whether more may wait.
    pub fn poll(&mut self) -> bool {
        let mut more = false;
        for shared in self.datapaths.values_mut() {
            more |= (0..ROUNDS).all(|_| shared.datapath.poll() > 0);
        }
        more
    }

    /// Completes when a port that the control thread polls may have something to receive.
    pub async fn arrival(&self) {
        let kernel = self.datapaths.values().filter_map(|shared| shared.poller.as_ref());
        let kernel: Vec<_> = kernel.map(|poller| Box::pin(poller.ready())).collect();
        let kernel = async {
            if kernel.is_empty() {
                std::future::pending::<()>().await;
            }
            futures::future::select_all(kernel).await;
        };
        tokio::select! {
            () = kernel => {}
            () = self.registry.dummies().received() => {}
        }
    }
}
