//! The control side of offload: which ports take rules, and the workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use netdev::flow_api::{Capabilities, DeviceId, FlowApiError, FlowDevice};
use netdev::port::Port;
use tracing::{info, warn};

use super::dummy::{DummyHardware, DummyPort, DummyPorts};
use super::engine::OpenPort;
use super::hardware::HardwarePort;
use super::inbox::Inbox;
use super::mark::QueueDrain;
use super::provider::ProviderPort;
use super::reason::Reason;
use super::statistics::WorkerSnapshot;
use super::worker::{Request, Worker, WorkerHandle};
use crate::datapath::PortNumber;
use crate::flow_table::FlowRecord;

/// Requests that are in flight at most, per port and worker.
const QUEUE_DEPTH: usize = 4096;
/// How long [`Offload::count`] waits for a worker.
const COUNT_LIMIT: Duration = Duration::from_millis(100);
/// The provider for ports with a flow API.
const FLOW_API: &str = "sim";

/// The provider for dummy ports.
const DUMMY: &str = "dummy";

/// The kinds of hardware there are, in the order in which ports are offered to them.
pub const PROVIDERS: &[&str] = &[DUMMY, FLOW_API];

/// Settings of offload (`Open_vSwitch.other_config`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffloadSettings {
    /// Whether flows are put into hardware (`hw-offload`).
    pub is_enabled: bool,
    /// Workers (`n-offload-threads`). A change counts when offload is switched on.
    pub threads: u32,
    /// The kinds of hardware to use (`hw-offload-priority`); all when not given.
    pub priority: Option<Vec<String>>,
}

impl Default for OffloadSettings {
    fn default() -> Self {
        Self { is_enabled: false, threads: 1, priority: None }
    }
}

/// A port that takes rules.
struct OffloadedPort {
    name: String,
    hardware: Hardware,
    capabilities: Capabilities,
}

/// What is behind a port.
enum Hardware {
    FlowApi(Arc<dyn FlowDevice>),
    Dummy(Arc<DummyHardware>),
}

impl Hardware {
    fn provider(&self) -> &'static str {
        match self {
            Self::FlowApi(_) => FLOW_API,
            Self::Dummy(_) => DUMMY,
        }
    }

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
    ports: BTreeMap<PortNumber, OffloadedPort>,
    dummies: DummyPorts,
}

impl Offload {
    pub(crate) fn is_enabled(&self) -> bool {
        self.settings.is_enabled
    }

    /// Takes settings; returns whether offload was switched on or off.
    pub(crate) fn set(&mut self, settings: OffloadSettings) -> bool {
        let is_switched = settings.is_enabled != self.settings.is_enabled;
        self.settings = settings;
        if is_switched && self.settings.is_enabled {
            self.start();
            info!(target: "dpif_offload", "Flow HW offload is enabled");
        }
        is_switched
    }

    fn start(&mut self) {
        let count = self.settings.threads;
        for number in 0..count {
            match Worker::start(number, count) {
                Ok(worker) => self.workers.push(worker),
                Err(error) => {
                    warn!(target: "dpif_offload", "cannot start offload thread {number}: {error}");
                }
            }
        }
    }

    /// Ends the workers; their rules go with them.
    pub(crate) fn stop(&mut self) {
        self.ports.clear();
        self.workers.clear();
    }

    pub(crate) fn handles(&self) -> Vec<WorkerHandle> {
        self.workers.iter().map(|worker| worker.handle.clone()).collect()
    }

    /// What the hardware of the ports that take rules can do.
    pub(crate) fn capabilities(&self) -> Vec<(PortNumber, Capabilities)> {
        self.ports.iter().map(|(number, port)| (*number, port.capabilities)).collect()
    }

    /// Takes a port, if it has hardware that takes rules, and returns what that can do.
    pub(crate) fn open(
        &mut self,
        number: PortNumber,
        port: &dyn Port,
        drains: &[Arc<QueueDrain>],
    ) -> Option<Capabilities> {
        if !self.settings.is_enabled || self.ports.contains_key(&number) {
            return None;
        }
        let hardware = self.hardware(number, port)?;
        for worker in &self.workers {
            let own = match hardware.open() {
                Ok(own) => own,
                Err(error) => {
                    warn!(target: "dpif_offload", "{}: takes no rules: {error}", port.name());
                    self.close(number, Reason::Device);
                    return None;
                }
            };
            let (provider, device) = (hardware.provider(), hardware.device(number));
            let drains = drains.to_vec();
            let open = OpenPort { number, provider, device, hardware: own, drains };
            worker.handle.send(Request::Open(open));
        }
        let (name, capabilities) = (port.name().to_owned(), hardware.capabilities());
        self.ports.insert(number, OffloadedPort { name, hardware, capabilities });
        Some(capabilities)
    }

    /// The hardware of a port, of a kind that is to be used.
    fn hardware(&self, number: PortNumber, port: &dyn Port) -> Option<Hardware> {
        let priority = self.settings.priority.as_ref();
        let is_used =
            |kind: &str| priority.is_none_or(|names| names.iter().any(|name| name == kind));
        if let Some(dummy) = port.dummy().filter(|_| is_used(DUMMY)) {
            return Some(Hardware::Dummy(DummyHardware::open(dummy, number, &self.dummies)));
        }
        port.flow_device().filter(|_| is_used(FLOW_API)).map(Hardware::FlowApi)
    }

    /// Gives up a port. Its rules are gone when this returns. No thread may offer flows of it
    /// meanwhile.
    pub(crate) fn close(&mut self, port: PortNumber, reason: Reason) {
        if let Some(OffloadedPort { hardware: Hardware::Dummy(dummy), .. }) =
            self.ports.remove(&port)
        {
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
        for worker in self.workers.iter().filter(|_| !self.ports.is_empty()) {
            let (done, wait) = sync_channel(1);
            worker.handle.send(Request::Count { done });
            let _ = wait.recv_timeout(COUNT_LIMIT);
        }
    }

    /// The kind of hardware of a port that takes rules.
    pub(crate) fn provider(&self, port: PortNumber) -> Option<&'static str> {
        self.ports.get(&port).map(|port| port.hardware.provider())
    }

    /// The ports that take rules.
    pub(crate) fn ports(&self) -> Vec<PortNumber> {
        self.ports.keys().copied().collect()
    }

    /// Offers flows that were there before.
    pub(crate) fn offer(&self, flow: &Arc<FlowRecord>, inbox: &Arc<Inbox>) {
        let place = flow.mask().hash(flow.key(), 0) as usize % self.workers.len().max(1);
        if let Some(worker) = self.workers.get(place) {
            let (flow, inbox) = (Arc::clone(flow), Arc::clone(inbox));
            worker.handle.send(Request::Put { flow, inbox, offered: netdev::cpu::cycles() });
        }
    }

    /// What the kinds of hardware have to tell.
    pub(crate) fn status(&self) -> Vec<ProviderStatus> {
        let providers = PROVIDERS.iter().map(|provider| {
            let own = self.ports.iter().filter(|(_, port)| port.hardware.provider() == *provider);
            let ports = own.map(|(number, port)| PortOffload {
                number: *number,
                name: port.name.clone(),
                counters: port.hardware.counters(),
            });
            let workers = self.workers.iter();
            let workers = workers.map(|worker| worker.handle.statistics().snapshot()).collect();
            ProviderStatus { name: provider, ports: ports.collect(), workers }
        });
        providers.collect()
    }
}
