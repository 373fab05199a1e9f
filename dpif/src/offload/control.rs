//! The control side of offload: which ports take rules, and the workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use netdev::flow_api::{self, Capabilities, DeviceId, FlowApiError, FlowDevice};
use netdev::port::Port;
use tracing::{info, warn};

use super::dummy::{self, DummyHardware, DummyPort, DummyPorts};
use super::engine::OpenPort;
use super::hardware::HardwarePort;
use super::inbox::Inbox;
use super::mark::QueueDrain;
use super::provider::{ProviderPort, TunnelEnd, TunnelEnds};
use super::reason::Reason;
use super::statistics::WorkerSnapshot;
use super::worker::{Request, Worker, WorkerHandle};
use crate::datapath::PortNumber;
use crate::flow_table::FlowRecord;
use crate::tunnel::{self, TunnelPort};

/// Requests that are in flight at most, per port and worker.
const QUEUE_DEPTH: usize = 4096;
/// How long [`Offload::count`] waits for a worker.
const COUNT_LIMIT: Duration = Duration::from_millis(100);
/// The provider for ports with a flow API.
const FLOW_API: &str = "sim";

/// The providers for dummy ports. They differ in nothing but their names, so that an order of them
/// can be tried.
const DUMMIES: [&str; 2] = ["dummy", "dummy_x"];

/// The kinds of hardware there are, in the order in which they are asked to take a port.
pub const PROVIDERS: &[&str] = &[DUMMIES[0], DUMMIES[1], FLOW_API];

/// In the order of a port: no kind of hardware behind it is asked.
const NONE: &str = "none";

/// Settings of offload (`Open_vSwitch.other_config`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffloadSettings {
    /// Whether flows are put into hardware (`hw-offload`).
    pub is_enabled: bool,
    /// Workers (`n-offload-threads`). A change counts when offload is switched on.
    pub threads: u32,
    /// The kinds of hardware to use, in the order in which they are asked to take a port
    /// (`hw-offload-priority`); all when not given.
    pub priority: Option<Vec<String>>,
}

impl Default for OffloadSettings {
    fn default() -> Self {
        Self { is_enabled: false, threads: 1, priority: None }
    }
}

/// A port that some kind of hardware has taken.
struct TakenPort {
    name: String,
    provider: &'static str,
    /// Where its rules go, while offload is on.
    open: Option<OpenHardware>,
}

struct OpenHardware {
    hardware: Hardware,
    capabilities: Capabilities,
}

/// What is behind a port.
enum Hardware {
    FlowApi(Arc<dyn FlowDevice>),
    Dummy(Arc<DummyHardware>),
}

impl Hardware {
    fn device(&self, number: PortNumber) -> DeviceId {
        match self {
            Self::FlowApi(device) => device.id(),
            Self::Dummy(_) => DeviceId(number.0),
        }
    }

    fn capabilities(&self) -> Capabilities {
        match self {
            Self::FlowApi(device) => device.capabilities(),
            Self::Dummy(_) => Capabilities::MARK | Capabilities::FULL | Capabilities::COUNT,
        }
    }

    /// One worker's way to the rules.
    fn open(&self) -> Result<Box<dyn ProviderPort>, FlowApiError> {
        Ok(match self {
            Self::FlowApi(device) => Box::new(HardwarePort::open(Arc::clone(device), QUEUE_DEPTH)?),
            Self::Dummy(hardware) => Box::new(DummyPort::new(hardware)),
        })
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::FlowApi(device) => vec![("rules", device.rules() as u64)],
            Self::Dummy(hardware) => hardware.counters(),
        }
    }
}

/// What is known of a port that takes rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOffload {
    /// Its number.
    pub number: PortNumber,
    /// Its name.
    pub name: String,
    /// Counters of the hardware, by name.
    pub counters: Vec<(&'static str, u64)>,
}

/// A kind of hardware and its ports.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderStatus {
    /// Name of the kind.
    pub name: &'static str,
    /// Its ports.
    pub ports: Vec<PortOffload>,
    /// The workers.
    pub workers: Vec<WorkerSnapshot>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Offload {
    settings: OffloadSettings,
    workers: Vec<Worker>,
    ports: BTreeMap<PortNumber, TakenPort>,
    tunnels: TunnelEnds,
    dummies: DummyPorts,
}

impl Offload {
    pub(crate) fn is_enabled(&self) -> bool {
        self.settings.is_enabled
    }

    /// Takes settings; returns whether offload was switched on or off. The order of the kinds of
    /// hardware counts for ports that none has taken yet.
    pub(crate) fn set(&mut self, settings: OffloadSettings) -> bool {
        let is_switched = settings.is_enabled != self.settings.is_enabled;
        if settings.priority != self.settings.priority {
            let names = settings.priority.iter().flatten();
            for name in names.filter(|name| !PROVIDERS.contains(&name.as_str())) {
                warn!(
                    target: "dpif_offload",
                    "hw-offload-priority configuration has an unknown type; {name}"
                );
            }
        }
        self.settings = settings;
        if is_switched && self.settings.is_enabled {
            self.start();
            info!(target: "dpif_offload", "Flow HW offload is enabled");
        }
        is_switched
    }

    /// The kinds of hardware to use, in the order in which they are asked.
    pub(crate) fn priority(&self) -> Vec<&'static str> {
        let Some(names) = &self.settings.priority else { return PROVIDERS.to_vec() };
        let known = |name: &String| PROVIDERS.iter().copied().find(|known| known == name);
        names.iter().filter_map(known).collect()
    }

    /// Lets the first kind of hardware in the port's own order that can do so take it.
    pub(crate) fn take(&mut self, number: PortNumber, port: &dyn Port, own: Option<&[String]>) {
        if self.ports.contains_key(&number) {
            return;
        }
        let used = self.priority();
        let find = |name: &String| used.iter().copied().find(|used| used == name);
        let order: Vec<&str> = match own {
            None => used.clone(),
            Some(own) => own.iter().take_while(|name| *name != NONE).filter_map(find).collect(),
        };
        let (is_dummy, has_rules) = (port.dummy().is_some(), port.flow_device().is_some());
        let can = |name: &&str| if DUMMIES.contains(name) { is_dummy } else { has_rules };
        if let Some(provider) = order.into_iter().find(can) {
            let name = port.name().to_owned();
            self.ports.insert(number, TakenPort { name, provider, open: None });
        }
    }

    /// Forgets a port that is gone.
    pub(crate) fn release(&mut self, number: PortNumber) {
        self.ports.remove(&number);
    }

    fn start(&mut self) {
        let count = self.settings.threads;
        for number in 0..count {
            match Worker::start(number, count) {
                Ok(worker) => {
                    for (&port, &end) in &self.tunnels {
                        worker.handle.send(Request::OpenTunnel { port, end });
                    }
                    self.workers.push(worker);
                }
                Err(error) => {
                    warn!(target: "dpif_offload", "cannot start offload thread {number}: {error}");
                }
            }
        }
    }

    /// Ends the workers; their rules go with them.
    pub(crate) fn stop(&mut self) {
        self.ports.values_mut().for_each(|port| port.open = None);
        self.workers.clear();
    }

    pub(crate) fn handles(&self) -> Vec<WorkerHandle> {
        self.workers.iter().map(|worker| worker.handle.clone()).collect()
    }

    /// What the hardware of the ports that take rules can do.
    pub(crate) fn capabilities(&self) -> Vec<(PortNumber, Capabilities)> {
        let open =
            self.ports.iter().filter_map(|(number, port)| Some((number, port.open.as_ref()?)));
        let open = open.map(|(number, open)| (*number, open.capabilities));
        open.chain(self.tunnels().map(|number| (number, Capabilities::MARK))).collect()
    }

    /// The tunnel ports whose flows may become rules.
    pub(crate) fn tunnels(&self) -> impl Iterator<Item = PortNumber> {
        self.tunnels.keys().copied().filter(|_| self.is_enabled())
    }

    /// Takes a tunnel port, if there may be devices that know its protocol.
    pub(crate) fn open_tunnel(&mut self, number: PortNumber, port: TunnelPort) {
        let kind = match port.kind {
            tunnel::TunnelKind::Vxlan if !port.gbp => flow_api::TunnelKind::Vxlan,
            tunnel::TunnelKind::Geneve => flow_api::TunnelKind::Geneve,
            _ => return,
        };
        let end = TunnelEnd { kind, udp_port: port.udp_port };
        self.tunnels.insert(number, end);
        for worker in &self.workers {
            worker.handle.send(Request::OpenTunnel { port: number, end });
        }
    }

    /// Gives up a tunnel port. Its rules go.
    pub(crate) fn close_tunnel(&mut self, port: PortNumber) {
        if self.tunnels.remove(&port).is_some() {
            for worker in &self.workers {
                worker.handle.send(Request::CloseTunnel { port });
            }
        }
    }

    /// Lets rules go to the hardware that has taken a port, and returns what that can do. Nothing
    /// happens while offload is off, or when they do already.
    pub(crate) fn open(
        &mut self,
        number: PortNumber,
        port: &dyn Port,
        drains: &[Arc<QueueDrain>],
    ) -> Option<Capabilities> {
        let taken = self.ports.get(&number).filter(|_| self.settings.is_enabled)?;
        let provider = taken.open.is_none().then_some(taken.provider)?;
        let hardware = match port.dummy() {
            Some(dummy) => Hardware::Dummy(DummyHardware::open(dummy, number, &self.dummies)),
            None => Hardware::FlowApi(port.flow_device()?),
        };
        for worker in &self.workers {
            let own = match hardware.open() {
                Ok(own) => own,
                Err(error) => {
                    warn!(target: "dpif_offload", "{}: takes no rules: {error}", port.name());
                    self.close(number, Reason::Device);
                    return None;
                }
            };
            let (device, drains) = (hardware.device(number), drains.to_vec());
            let open = OpenPort { number, provider, device, hardware: own, drains };
            worker.handle.send(Request::Open(open));
        }
        let capabilities = hardware.capabilities();
        if let Some(taken) = self.ports.get_mut(&number) {
            taken.open = Some(OpenHardware { hardware, capabilities });
        }
        Some(capabilities)
    }

    /// Gives up a port. Its rules are gone when this returns. No thread may offer flows of it
    /// meanwhile.
    pub(crate) fn close(&mut self, port: PortNumber, reason: Reason) {
        let open = self.ports.get_mut(&port).and_then(|taken| taken.open.take());
        if let Some(OpenHardware { hardware: Hardware::Dummy(dummy), .. }) = open {
            dummy.close(port);
        }
        for worker in &self.workers {
            let (done, wait) = sync_channel(1);
            worker.handle.send(Request::Close { port, reason, done });
            // A worker that has ended has no rules.
            let _ = wait.recv();
        }
    }

    /// Lets flows know what hardware has counted, unless a worker is too busy for that.
    pub(crate) fn count(&self) {
        for worker in self.workers.iter().filter(|_| !self.open_ports().is_empty()) {
            let (done, wait) = sync_channel(1);
            worker.handle.send(Request::Count { done });
            let _ = wait.recv_timeout(COUNT_LIMIT);
        }
    }

    /// The kind of hardware of a port that takes rules.
    pub(crate) fn provider(&self, port: PortNumber) -> Option<&'static str> {
        self.ports.get(&port).filter(|port| port.open.is_some()).map(|port| port.provider)
    }

    /// The ports that take rules.
    pub(crate) fn open_ports(&self) -> Vec<PortNumber> {
        let open = self.ports.iter().filter(|(_, port)| port.open.is_some());
        open.map(|(number, _)| *number).collect()
    }

    /// Offers flows that were there before.
    pub(crate) fn offer(&self, flow: &Arc<FlowRecord>, inbox: &Arc<Inbox>) {
        let place = flow.mask().hash(flow.key(), 0) as usize % self.workers.len().max(1);
        if let Some(worker) = self.workers.get(place) {
            let (flow, inbox) = (Arc::clone(flow), Arc::clone(inbox));
            worker.handle.send(Request::Put { flow, inbox, offered: netdev::cpu::cycles() });
        }
    }

    /// What the kinds of hardware have to tell, in the order in which they are asked.
    pub(crate) fn status(&self) -> Vec<ProviderStatus> {
        let providers = self.priority().into_iter().map(|provider| {
            let own = self.ports.iter().filter(|(_, port)| port.provider == provider);
            let ports = own.map(|(number, port)| PortOffload {
                number: *number,
                name: port.name.clone(),
                counters: port.counters(),
            });
            let workers = self.workers.iter();
            let workers = workers.map(|worker| worker.handle.statistics().snapshot()).collect();
            ProviderStatus { name: provider, ports: ports.collect(), workers }
        });
        providers.collect()
    }
}

impl TakenPort {
    fn counters(&self) -> Vec<(&'static str, u64)> {
        match &self.open {
            Some(open) => open.hardware.counters(),
            None if DUMMIES.contains(&self.provider) => dummy::Counters::default().named(),
            None => vec![("rules", 0)],
        }
    }
}
