//! Datapaths: ports, the threads that poll them, and the flows that these have.
//!
//! All bridges of one type share one datapath, as on Open vSwitch: a patch between two bridges
//! then costs nothing, and port numbers are unique across bridges.
//!
//! A datapath belongs to the thread that controls it. That thread polls the ports that no poll
//! thread does, by calling [`Datapath::poll`].

mod balance;
mod flows;
mod numbers;
mod offload;
mod reconfigure;
mod senders;
mod threads;
mod tunnels;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use netdev::clock;
use netdev::packet::{FramePool, Packet, PoolError};
use thiserror::Error;
use tracing::info;

use crate::action::Action;
use crate::flow_table::WorkerId;
use crate::meter::{MAX_BANDS, MAX_METERS, Meter, MeterConfig};
use crate::offload::control::Offload;
use crate::pmd::assign::{Algorithm, Core};
use crate::pmd::metrics::IterationLog;
use crate::pmd::pipeline::{FlowIndex, Shared};
use crate::pmd::worker::Worker;
use crate::pmd::{Ended, Knobs};
use crate::tunnel::Tunnel;
use crate::upcall::UpcallHandler;
use balance::Balance;
pub use balance::BalanceSettings;
pub use flows::{FlowChange, FlowError, FlowPut, FlowView, PutMode, key_ufid};
use numbers::PortNumbers;
pub use numbers::{DatapathError, DatapathType, PortNumber};
pub use reconfigure::ReconfigureError;
use reconfigure::{PlacementInput, PortState};
pub use senders::TxSteering;
use threads::{MainThread, PollThread};
pub use threads::{QueueStatus, ThreadStatus};

/// The cores that poll threads may run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The cores, and their NUMA nodes.
    pub cores: Vec<Core>,
    /// Whether these are the cores of this machine, so that threads can be kept on them. Tests
    /// make others up (`--dummy-numa`).
    pub is_real: bool,
}

/// What a datapath is made of.
#[derive(Clone)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: DatapathType,
    /// The cores that poll threads may run on.
    pub topology: Topology,
    /// Frames for packets, per NUMA node in use.
    pub frames: u32,
    /// Says what to do with packets that have no flow.
    pub handler: Arc<dyn UpcallHandler>,
    /// Seed of all hashes. A secret one keeps others from choosing packets that collide.
    pub seed: u64,
}

/// How receive queues and poll threads come together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmdSettings {
    /// Cores with a poll thread (`pmd-cpu-mask`); one per NUMA node when not given.
    pub cores: Option<Vec<u32>>,
    /// How queues are dealt out (`pmd-rxq-assign`).
    pub algorithm: Algorithm,
    /// Whether a core with a pinned queue gets no others (`pmd-rxq-isolate`).
    pub isolate: bool,
    /// Longest sleep of an idle poll thread in microseconds, where `core_sleeps` says nothing
    /// else (`pmd-sleep-max`).
    pub max_sleep: u32,
    /// The same for some cores.
    pub core_sleeps: BTreeMap<u32, u32>,
    /// When queues are dealt out anew because of the load.
    pub balance: BalanceSettings,
}

impl Default for PmdSettings {
    fn default() -> Self {
        Self {
            cores: None,
            algorithm: Algorithm::default(),
            isolate: true,
            max_sleep: 0,
            core_sleeps: BTreeMap::new(),
            balance: BalanceSettings::default(),
        }
    }
}

impl PmdSettings {
    /// Longest sleep of the poll thread on a core, in microseconds.
    fn max_sleep_of(&self, core: u32) -> u32 {
        self.core_sleeps.get(&core).copied().unwrap_or(self.max_sleep)
    }
}

/// Settings of a port that concern the datapath (`Interface.other_config`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Cores of receive queues (`pmd-rxq-affinity`).
    pub affinity: BTreeMap<usize, u32>,
    /// Whether its packets may enter the exact-match cache (`emc-enable`).
    pub exact_cache: bool,
    /// How packets are spread over its transmit queues (`tx-steering`).
    pub tx_steering: TxSteering,
    /// Kinds of hardware in the order in which they are asked to take its flows, if not in that
    /// of the datapath (`hw-offload-priority`).
    pub offload_priority: Option<Vec<String>>,
}

impl Default for PortSettings {
    fn default() -> Self {
        Self {
            affinity: BTreeMap::new(),
            exact_cache: true,
            tx_steering: TxSteering::default(),
            offload_priority: None,
        }
    }
}

/// Why a meter could not be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MeterError {
    /// The number is too high.
    #[error("meter {number} is out of range: there are {MAX_METERS} meters from 0 on")]
    Number {
        /// The number.
        number: u32,
    },
    /// It has too many bands.
    #[error("meter {number} has {bands} bands, at most {MAX_BANDS} are possible")]
    Bands {
        /// Number of the meter.
        number: u32,
        /// Number of bands.
        bands: usize,
    },
    /// All numbers are taken.
    #[error("all {MAX_METERS} meters are in use")]
    Full,
}

/// See the [module](self).
pub struct Datapath {
    kind: DatapathType,
    topology: Topology,
    frames: u32,
    shared: Shared,
    numbers: PortNumbers,
    ports: BTreeMap<PortNumber, PortState>,
    port_settings: BTreeMap<PortNumber, PortSettings>,
    tunnels: BTreeMap<PortNumber, Arc<Tunnel>>,
    pools: BTreeMap<u32, Arc<FramePool>>,
    main: MainThread,
    threads: BTreeMap<Core, PollThread>,
    settings: PmdSettings,
    /// Longest sleep of poll threads without a setting of their own, as it was last logged.
    logged_sleep: Option<u32>,
    /// From what the queues were last placed.
    placed: Option<PlacementInput>,
    balance: Balance,
    knobs: Knobs,
    iteration_log: IterationLog,
    meters: BTreeMap<u32, Arc<Meter>>,
    offload: Offload,
    /// All meters below this are in use.
    first_free_meter: u32,
}

impl Datapath {
    /// A datapath without ports and poll threads.
    pub fn new(config: Config) -> Self {
        let Config { name, kind, topology, frames, handler, seed } = config;
        let index = Arc::new(FlowIndex::new());
        let shared = Shared { name: name.into(), handler, index, seed };
        Self {
            kind,
            topology,
            frames,
            main: MainThread::new(shared.clone()),
            shared,
            numbers: PortNumbers::new(kind),
            ports: BTreeMap::new(),
            port_settings: BTreeMap::new(),
            tunnels: BTreeMap::new(),
            pools: BTreeMap::new(),
            threads: BTreeMap::new(),
            settings: PmdSettings::default(),
            logged_sleep: None,
            placed: None,
            balance: Balance::default(),
            knobs: Knobs::default(),
            iteration_log: IterationLog::default(),
            meters: BTreeMap::new(),
            offload: Offload::default(),
            first_free_meter: 0,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Type and name, as tools write them: `netdev@ovs-netdev`.
    pub fn title(&self) -> String {
        format!("{}@{}", self.kind.name(), self.name())
    }

    /// Its type.
    pub fn kind(&self) -> DatapathType {
        self.kind
    }

    /// How queues and poll threads are to come together.
    pub fn pmd_settings(&self) -> &PmdSettings {
        &self.settings
    }

    /// Gives the port `name` a number. It carries packets from the next
    /// [`reconfigure`](Self::reconfigure) on.
    ///
    /// # Errors
    /// When the name is taken or all numbers are in use.
    pub fn add_port(&mut self, name: &str) -> Result<PortNumber, DatapathError> {
        self.numbers.add_port(name)
    }

    /// Does the same with a number of the caller's choice.
    ///
    /// # Errors
    /// When the name or the number is taken.
    pub fn add_port_at(&mut self, name: &str, number: PortNumber) -> Result<(), DatapathError> {
        self.numbers.add_port_at(name, number)
    }

    /// Number of the port `name`.
    pub fn port_number(&self, name: &str) -> Option<PortNumber> {
        self.numbers.port_number(name)
    }

    /// The frames for packets of NUMA node `numa`.
    ///
    /// # Errors
    /// When the system has no memory for them.
    pub fn pool(&mut self, numa: u32) -> Result<Arc<FramePool>, PoolError> {
        if let Some(pool) = self.pools.get(&numa) {
            return Ok(Arc::clone(pool));
        }
        let pool = FramePool::new(self.frames)?;
        let pages = pool.pages().name();
        info!(
            target: "dpif_netdev",
            "{} frames for packets of numa node {numa} lie in {pages} pages", self.frames
        );
        self.pools.insert(numa, Arc::clone(&pool));
        Ok(pool)
    }

    /// The pools in use, by NUMA node.
    pub fn pools(&self) -> impl Iterator<Item = (u32, &FramePool)> {
        self.pools.iter().map(|(&numa, pool)| (numa, &**pool))
    }

    /// Receives and processes what waits at the ports that no poll thread polls, once round.
    /// Returns the number of packets received; when it is not 0, more may wait.
    pub fn poll(&mut self) -> usize {
        self.main.poll()
    }

    /// Become readable when a port has something for [`Self::poll`].
    pub fn wait_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.main.wait_fds()
    }

    /// Does `actions` to a packet of one of the [pools](Self::pool), on the calling thread.
    pub fn execute(&mut self, packet: Packet, actions: &[Action]) {
        self.main.execute(packet, actions);
    }

    /// Gives all threads these settings.
    pub fn set_knobs(&mut self, knobs: Knobs) {
        if knobs != self.knobs {
            log_knobs(&self.knobs, &knobs);
            self.knobs = knobs;
            self.run_everywhere(move |worker| worker.set_knobs(knobs));
        }
    }

    /// Makes a meter under the lowest number that is free, and returns that.
    ///
    /// # Errors
    /// When the number of bands is out of range or no number is free.
    pub fn add_meter(&mut self, config: MeterConfig) -> Result<u32, MeterError> {
        let mut free = (self.first_free_meter..MAX_METERS).filter(|n| !self.meters.contains_key(n));
        let number = free.next().ok_or(MeterError::Full)?;
        self.set_meter(number, config)?;
        self.first_free_meter = number + 1;
        Ok(number)
    }

    /// Changes how suspicious rounds of poll threads are logged.
    pub fn set_iteration_log(&mut self, log: IterationLog) {
        self.iteration_log = log;
        self.run_everywhere(move |worker| worker.set_iteration_log(log));
    }

    /// Makes a meter, or replaces the one that has the number.
    ///
    /// # Errors
    /// When the number or the number of bands is out of range.
    pub fn set_meter(&mut self, number: u32, config: MeterConfig) -> Result<(), MeterError> {
        if number >= MAX_METERS {
            return Err(MeterError::Number { number });
        }
        if config.bands.len() > MAX_BANDS {
            return Err(MeterError::Bands { number, bands: config.bands.len() });
        }
        let meter = Arc::new(Meter::new(config, clock::now().as_millis() as u64));
        self.meters.insert(number, Arc::clone(&meter));
        self.run_everywhere(move |worker| {
            worker.pipeline.meters.insert(number, Arc::clone(&meter));
        });
        Ok(())
    }

    /// Removes a meter and returns it, for a last look at its counters.
    pub fn remove_meter(&mut self, number: u32) -> Option<Arc<Meter>> {
        let meter = self.meters.remove(&number)?;
        self.first_free_meter = self.first_free_meter.min(number);
        self.run_everywhere(move |worker| {
            worker.pipeline.meters.remove(&number);
        });
        Some(meter)
    }

    /// A meter.
    pub fn meter(&self, number: u32) -> Option<&Arc<Meter>> {
        self.meters.get(&number)
    }

    /// Has one thread do something.
    fn run<R: Send + 'static>(
        &mut self,
        id: WorkerId,
        work: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Result<R, Ended> {
        match id {
            WorkerId::Main => Ok(work(&mut self.main.worker)),
            WorkerId::Core(number) => {
                let thread = self.threads.iter().find(|(core, _)| core.core == number);
                thread.ok_or(Ended)?.1.mailbox.run(work)
            }
        }
    }

    /// Has every thread do something, one after the other.
    fn run_everywhere(&mut self, work: impl Fn(&mut Worker) + Clone + Send + 'static) {
        work(&mut self.main.worker);
        for thread in self.threads.values() {
            // A thread that has ended has nothing left to change.
            let _ = thread.mailbox.run(work.clone());
        }
    }

    /// The threads, poll threads first.
    fn worker_ids(&self) -> Vec<WorkerId> {
        let cores = self.threads.keys().map(|core| WorkerId::Core(core.core));
        cores.chain([WorkerId::Main]).collect()
    }
}

/// A probability of one in so many, as the log tells it.
struct Probability(u32);

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("zero"),
            one_in => write!(f, "1/{one_in} (~{:.2}%)", 100.0 / f64::from(one_in)),
        }
    }
}

/// Tells the log what changes.
fn log_knobs(old: &Knobs, new: &Knobs) {
    if new.flush_interval != old.flush_interval {
        let interval = new.flush_interval.as_micros();
        info!(target: "dpif_netdev", "Flushing interval for tx queues set to {interval} us");
    }
    if new.exact_one_in != old.exact_one_in {
        let probability = Probability(new.exact_one_in);
        info!(target: "dpif_netdev", "EMC insertion probability changed to {probability}");
    }
    if new.signature_cache != old.signature_cache {
        let state = if new.signature_cache { "enabled" } else { "disabled" };
        info!(target: "dpif_netdev", "SMC cache is {state}");
    }
    if new.metrics != old.metrics {
        let state = if new.metrics { "enabled" } else { "disabled" };
        info!(target: "dpif_netdev", "PMD performance metrics collection {state}");
    }
}

#[cfg(test)]
mod tests;
