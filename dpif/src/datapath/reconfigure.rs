//! Bringing threads and queues in line with ports and settings.
//!
//! A queue is taken from the thread that has it before it is given to another, so no two threads
//! ever poll one. A queue that stays where it is keeps being polled meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use netdev::packet::PoolError;
use netdev::port::{Port, PortError};
use thiserror::Error;
use tracing::{info, warn};

use super::senders::Senders;
use super::threads::PollThread;
use super::{Datapath, PmdSettings, PortNumber, PortSettings, Probability};
use crate::flow_table::WorkerId;
use crate::offload::{QueueDrain, Reason};
use crate::pmd::assign::{Algorithm, Core, Queue, assign};
use crate::pmd::mailbox::Mailbox;
use crate::pmd::pipeline::Pipeline;
use crate::pmd::statistics::{LOAD_INTERVALS, Load, Statistics, ThreadLoad};
use crate::pmd::thread;
use crate::pmd::worker::{Receive, Worker};

/// A port that carries packets.
pub(super) struct PortState {
    pub(super) name: String,
    numa: u32,
    needs_pmd: bool,
    queue_generation: u64,
    exact_cache: bool,
    pub(super) queues: Vec<QueueState>,
    pub(super) senders: Senders,
}

impl PortState {
    /// Whether every queue of the port that is open has a thread.
    fn is_placed(&self) -> bool {
        self.queues.iter().all(|queue| queue.idle.is_none())
    }
}

/// What placing queues depends on, but for their load.
#[derive(PartialEq)]
pub(super) struct PlacementInput {
    queues: Vec<Queue>,
    cores: Vec<Core>,
    algorithm: Algorithm,
    isolate: bool,
}

/// A receive queue.
pub(super) struct QueueState {
    pub(super) owner: Option<WorkerId>,
    pub(super) load: Arc<Load>,
    /// Tells when nothing is left that hardware has marked before.
    pub(super) drain: Arc<QueueDrain>,
    /// The queue itself, while no thread has it.
    idle: Option<Receive>,
}

/// Why a port does not carry packets, or not all of them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReconfigureError {
    /// The port could not open a queue.
    #[error(transparent)]
    Port(#[from] PortError),
    /// There is no memory for packets.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A poll thread could not be started.
    #[error("cannot start a poll thread on core {core}: {reason}")]
    Thread {
        /// The core.
        core: u32,
        /// What the system said.
        reason: String,
    },
}

impl Datapath {
    /// Changes how queues and poll threads come together, at the next reconfiguration.
    pub fn set_pmd_settings(&mut self, settings: PmdSettings) {
        if settings.algorithm != self.settings.algorithm {
            info!(
                target: "dpif_netdev",
                "Rxq to PMD assignment mode changed to: '{}'.", settings.algorithm.name()
            );
        }
        if settings.isolate != self.settings.isolate {
            let does = if settings.isolate { "isolates" } else { "does not isolate" };
            info!(target: "dpif_netdev", "pmd-rxq-affinity {does} PMD core");
        }
        self.balance.log(settings.balance);
        self.settings = settings;
    }

    /// Changes the settings of a port, at the next reconfiguration.
    pub fn set_port_settings(&mut self, number: PortNumber, settings: PortSettings) {
        let old = self.port_settings.get(&number).cloned().unwrap_or_default();
        let name = self.numbers.name(number).unwrap_or_default();
        if old.exact_cache != settings.exact_cache {
            let probability = Probability(self.knobs.exact_one_in);
            let (state, note) = match settings.exact_cache {
                true => ("enabled", format!(" Current insertion probability is {probability}.")),
                false => ("disabled", String::new()),
            };
            info!(target: "dpif_netdev", "{name}: EMC has been {state}.{note}");
        }
        if old.tx_steering != settings.tx_steering {
            let mode = settings.tx_steering.name();
            info!(
                target: "dpif_netdev",
                "{name}: Tx packet steering mode has been set to '{mode}'."
            );
        }
        self.port_settings.insert(number, settings);
    }

    /// Takes the port `name` off at once; false if there is none. Its flows stay until someone
    /// removes them.
    pub fn remove_port(&mut self, name: &str) -> bool {
        let Some(number) = self.numbers.port_number(name) else { return false };
        self.close_port(number);
        self.remove_tunnel(number);
        self.port_settings.remove(&number);
        self.numbers.remove_port(name)
    }

    /// Brings threads and queues in line with the settings and with `ports`, which are those that
    /// the datapath has a number for. Ports that did not change are not disturbed. Returns what
    /// went wrong, by port; poll threads that could not start are reported for every port that
    /// needs them.
    pub fn reconfigure(
        &mut self,
        ports: &mut [(PortNumber, &mut (dyn Port + 'static))],
    ) -> Vec<(PortNumber, ReconfigureError)> {
        let mut errors = vec![];
        for (number, port) in ports.iter_mut() {
            if let Err(error) = self.open_port(*number, *port) {
                self.close_port(*number);
                errors.push((*number, error));
            }
        }
        if let Err(error) = self.fit_threads() {
            let polled = self.ports.iter().filter(|(_, port)| port.needs_pmd);
            errors.extend(polled.map(|(&number, _)| (number, error.clone())));
        }
        self.set_sleeps();
        // A thread that receives must be able to send.
        for (number, port) in ports.iter_mut() {
            if let Err(error) = self.open_senders(*number, *port) {
                errors.push((*number, error.into()));
            }
        }
        self.open_offload(ports);
        self.move_queues();
        errors
    }

    /// Opens the receive queues of a port that is new, or has other queues than before.
    fn open_port(
        &mut self,
        number: PortNumber,
        port: &mut dyn Port,
    ) -> Result<(), ReconfigureError> {
        let settings = self.port_settings.get(&number).cloned().unwrap_or_default();
        let is_same = self.ports.get(&number).is_some_and(|state| {
            state.name == port.name()
                && state.queues.len() == port.rx_queues()
                && state.needs_pmd == port.needs_pmd()
                && state.queue_generation == port.queue_generation()
                && state.numa == port.numa_node().unwrap_or(0)
        });
        if is_same {
            self.enable_exact_cache(number, settings.exact_cache);
            return Ok(());
        }
        self.close_port(number);
        let numa = port.numa_node().unwrap_or(0);
        let pool = self.pool(numa)?;
        let queues = (0..port.rx_queues()).map(|queue| {
            let load = Arc::new(Load::default());
            let rx = port.open_rx(queue, &pool)?;
            let receive =
                Receive::new(number, queue, rx, settings.exact_cache, Arc::clone(&load), &pool);
            let drain = Arc::clone(&receive.watch.drain);
            Ok(QueueState { owner: None, load, drain, idle: Some(receive) })
        });
        let queues = queues.collect::<Result<_, PortError>>()?;
        let state = PortState {
            name: port.name().to_owned(),
            numa,
            needs_pmd: port.needs_pmd(),
            queue_generation: port.queue_generation(),
            exact_cache: settings.exact_cache,
            queues,
            senders: Senders::default(),
        };
        self.ports.insert(number, state);
        Ok(())
    }

    /// Lets packets of a port enter the exact-match cache, or not.
    fn enable_exact_cache(&mut self, number: PortNumber, is_enabled: bool) {
        let Some(state) = self.ports.get_mut(&number) else { return };
        if std::mem::replace(&mut state.exact_cache, is_enabled) == is_enabled {
            return;
        }
        let mut owners = BTreeSet::new();
        for queue in &mut state.queues {
            owners.extend(queue.owner);
            if let Some(idle) = &mut queue.idle {
                idle.exact_enabled = is_enabled;
            }
        }
        for owner in owners {
            let _ = self.run(owner, move |worker| {
                let queues = worker.queues.iter_mut().filter(|queue| queue.port == number);
                queues.for_each(|queue| queue.exact_enabled = is_enabled);
            });
        }
    }

    /// Closes all queues of a port.
    fn close_port(&mut self, number: PortNumber) {
        self.close_offload(number, Reason::NoHardware);
        self.offload.release(number);
        let Some(state) = self.ports.remove(&number) else { return };
        for (queue, state) in state.queues.iter().enumerate() {
            if let Some(owner) = state.owner {
                // Dropped here, when its thread has let go of it.
                let _ = self.run(owner, move |worker| worker.take_queue(number, queue));
            }
        }
        for sender in state.senders.threads {
            let _ = self.run(sender, move |worker| {
                worker.pipeline.flush(true);
                worker.pipeline.transmit.remove(number);
            });
        }
    }

    /// The cores that are to have a poll thread.
    fn wanted_cores(&self) -> BTreeSet<Core> {
        if !self.ports.values().any(|port| port.needs_pmd) {
            return BTreeSet::new();
        }
        let cores = self.topology.cores.iter().copied();
        match &self.settings.cores {
            Some(wanted) => cores.filter(|core| wanted.contains(&core.core)).collect(),
            None => {
                let mut first = BTreeMap::new();
                cores.collect::<BTreeSet<_>>().into_iter().for_each(|core| {
                    first.entry(core.numa).or_insert(core);
                });
                first.into_values().collect()
            }
        }
    }

    /// Ends poll threads that are not wanted any more and starts those that are missing.
    fn fit_threads(&mut self) -> Result<(), ReconfigureError> {
        let wanted = self.wanted_cores();
        let unwanted: Vec<Core> =
            self.threads.keys().copied().filter(|core| !wanted.contains(core)).collect();
        let mut is_changed = !unwanted.is_empty();
        for core in unwanted {
            self.end_thread(core);
        }
        let mut result = Ok(());
        for &core in &wanted {
            if self.threads.contains_key(&core) {
                continue;
            }
            match self.start_thread(core) {
                Ok(thread) => {
                    let Core { numa, core: number } = core;
                    info!(
                        target: "dpif_netdev",
                        "PMD thread on numa_id: {numa}, core id: {number:2} created."
                    );
                    self.threads.insert(core, thread);
                    is_changed = true;
                }
                Err(error) => {
                    result = Err(ReconfigureError::Thread {
                        core: core.core,
                        reason: error.to_string(),
                    });
                }
            }
        }
        if is_changed {
            let mut per_node: BTreeMap<u32, usize> = BTreeMap::new();
            for core in &wanted {
                *per_node.entry(core.numa).or_default() += 1;
            }
            for (numa, count) in per_node {
                info!(
                    target: "dpif_netdev",
                    "There are {count} pmd threads on numa node {numa}"
                );
            }
        }
        result
    }

    fn start_thread(&self, core: Core) -> Result<PollThread, std::io::Error> {
        let statistics = Arc::new(Statistics::new());
        let load = Arc::new(ThreadLoad::default());
        let id = WorkerId::Core(core.core);
        let mut pipeline = Pipeline::new(id, self.shared.clone(), Arc::clone(&statistics));
        let meters = self.meters.iter().map(|(&number, meter)| (number, Arc::clone(meter)));
        pipeline.meters.extend(meters);
        for (&number, tunnel) in &self.tunnels {
            pipeline.tunnels.insert(number, Arc::clone(tunnel));
        }
        self.prepare_offload(&mut pipeline);
        let inbox = Arc::clone(pipeline.offload.inbox());
        let mut worker = Worker::new(pipeline, Arc::clone(&statistics), Arc::clone(&load));
        worker.set_iteration_log(self.iteration_log);
        worker.set_knobs(self.knobs);
        let mailbox = Arc::new(Mailbox::new().map_err(std::io::Error::from)?);
        let used: BTreeSet<usize> = self.threads.values().map(|thread| thread.tx_queue).collect();
        // The controlling thread sends to queue 0.
        let tx_queue = (1..).find(|queue| !used.contains(queue)).unwrap_or(0);
        let pinned = self.topology.is_real.then_some(core.core);
        let handle = thread::start(
            core.core,
            pinned,
            worker,
            Arc::clone(&mailbox),
            Arc::clone(&statistics),
        )?;
        let max_sleep = self.settings.max_sleep_of(core.core);
        worker_sleeps(&mailbox, max_sleep);
        log_sleep(core, max_sleep);
        Ok(PollThread {
            mailbox,
            statistics,
            load,
            is_isolated: false,
            max_sleep,
            tx_queue,
            inbox,
            handle,
        })
    }

    /// Ends a poll thread. Its queues wait for another.
    fn end_thread(&mut self, core: Core) {
        let id = WorkerId::Core(core.core);
        self.take_queues(|_, _, owner| owner == id);
        for state in self.ports.values_mut() {
            state.senders.threads.remove(&id);
        }
        let Some(thread) = self.threads.remove(&core) else { return };
        let _ = thread.mailbox.run(|worker| {
            worker.pipeline.flush(true);
            worker.pipeline.remove_all();
            worker.is_quitting = true;
        });
        // What a thread dies of, it has logged itself.
        let _ = thread.handle.join();
        let Core { numa, core } = core;
        info!(
            target: "dpif_netdev",
            "PMD thread on numa_id: {numa}, core id: {core:2} destroyed."
        );
    }

    /// Tells each poll thread how long it may sleep.
    fn set_sleeps(&mut self) {
        let settings = &self.settings;
        let changed = self.threads.iter_mut().filter_map(|(core, thread)| {
            let max_sleep = settings.max_sleep_of(core.core);
            (thread.max_sleep != max_sleep).then_some((thread, max_sleep))
        });
        let mut is_changed = false;
        for (thread, max_sleep) in changed {
            thread.max_sleep = max_sleep;
            worker_sleeps(&thread.mailbox, max_sleep);
            is_changed = true;
        }
        let default = self.settings.max_sleep;
        if self.logged_sleep.replace(default) != Some(default) || is_changed {
            info!(target: "dpif_netdev", "Default PMD thread max sleep: {default:4} us.");
            self.threads.iter().for_each(|(&core, thread)| log_sleep(core, thread.max_sleep));
        }
    }

    /// Takes those queues from their threads for which `is_meant` holds.
    fn take_queues(&mut self, is_meant: impl Fn(PortNumber, usize, WorkerId) -> bool) {
        let mut taken = vec![];
        for (&number, state) in &self.ports {
            let owned = state.queues.iter().enumerate();
            let owned = owned.filter_map(|(queue, state)| Some((number, queue, state.owner?)));
            taken.extend(owned.filter(|&(number, queue, owner)| is_meant(number, queue, owner)));
        }
        for (number, queue, owner) in taken {
            let receive = self.run(owner, move |worker| worker.take_queue(number, queue));
            let state = self.ports.get_mut(&number).and_then(|port| port.queues.get_mut(queue));
            if let Some(state) = state {
                state.owner = None;
                state.load.reset();
                state.idle = receive.ok().flatten();
            }
        }
    }

    /// Deals all receive queues out anew, by the load that they have by now.
    pub fn rebalance(&mut self) {
        self.placed = None;
        self.move_queues();
    }

    /// Places queues and moves those that belong elsewhere. Where nothing changed that the
    /// placement follows from, but the load, all stay where they are.
    fn move_queues(&mut self) {
        let polled = self.polled_queues();
        let without_load = polled.iter().map(|queue| Queue { cycles: 0, ..queue.clone() });
        let input = PlacementInput {
            queues: without_load.collect(),
            cores: self.threads.keys().copied().collect(),
            algorithm: self.settings.algorithm,
            isolate: self.settings.isolate,
        };
        let is_complete = self.ports.values().all(PortState::is_placed);
        if is_complete && self.placed.as_ref() == Some(&input) {
            return;
        }
        let owners = self.place_queues(&polled, &input);
        self.placed = Some(input);
        self.balance.is_changed = true;
        self.take_queues(|number, queue, owner| owners.get(&(number, queue)) != Some(&owner));
        for ((number, queue), owner) in owners {
            let state = self.ports.get_mut(&number).and_then(|port| port.queues.get_mut(queue));
            let Some(receive) = state.and_then(|state| state.idle.take()) else { continue };
            let given = self.run(owner, move |worker| worker.queues.push(receive));
            let state = self.ports.get_mut(&number).and_then(|port| port.queues.get_mut(queue));
            if let Some(state) = state
                && given.is_ok()
            {
                state.owner = Some(owner);
            }
        }
    }

    /// The queues that need poll threads.
    pub(super) fn polled_queues(&self) -> Vec<Queue> {
        let ports = self.ports.iter().filter(|(_, state)| state.needs_pmd);
        let queues = ports.flat_map(|(&port, state)| {
            let settings = self.port_settings.get(&port);
            state.queues.iter().enumerate().map(move |(queue, queue_state)| Queue {
                port,
                name: state.name.clone(),
                queue,
                numa: state.numa,
                pinned: settings.and_then(|settings| settings.affinity.get(&queue).copied()),
                cycles: queue_state.load.cycles(LOAD_INTERVALS),
            })
        });
        queues.collect()
    }

    /// The thread that each queue belongs to.
    fn place_queues(
        &mut self,
        polled: &[Queue],
        input: &PlacementInput,
    ) -> BTreeMap<(PortNumber, usize), WorkerId> {
        let placement = assign(polled, &input.cores, input.algorithm, input.isolate);
        for note in &placement.notes {
            if note.is_warning() {
                warn!(target: "dpif_netdev", "{note}");
            } else {
                info!(target: "dpif_netdev", "{note}");
            }
        }
        for (core, thread) in &mut self.threads {
            thread.is_isolated = placement.isolated.contains(core);
        }
        let polled = polled.iter().zip(&placement.cores).filter_map(|(queue, core)| {
            Some(((queue.port, queue.queue), WorkerId::Core((*core)?.core)))
        });
        let others = self.ports.iter().filter(|(_, state)| !state.needs_pmd);
        let others = others.flat_map(|(&port, state)| {
            (0..state.queues.len()).map(move |queue| ((port, queue), WorkerId::Main))
        });
        polled.chain(others).collect()
    }
}

fn worker_sleeps(mailbox: &Mailbox<Worker>, max_sleep: u32) {
    let max_sleep = Duration::from_micros(max_sleep.into());
    // A thread that has ended sleeps for good.
    let _ = mailbox.run(move |worker| worker.max_sleep = max_sleep);
}

fn log_sleep(Core { numa, core }: Core, max_sleep: u32) {
    info!(
        target: "dpif_netdev",
        "PMD thread on numa_id: {numa}, core id: {core:2}, max sleep: {max_sleep:4} us."
    );
}

impl Drop for Datapath {
    fn drop(&mut self) {
        let cores: Vec<Core> = self.threads.keys().copied().collect();
        cores.into_iter().for_each(|core| self.end_thread(core));
    }
}
