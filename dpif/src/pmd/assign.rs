//! Which poll thread polls which receive queue (`pmd-rxq-assign`, `pmd-rxq-affinity`,
//! `pmd-rxq-isolate`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::datapath::PortNumber;

/// A core that has a poll thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Core {
    /// NUMA node of the core.
    pub numa: u32,
    /// Number of the core.
    pub core: u32,
}

/// How queues that are not pinned are dealt out (`other_config:pmd-rxq-assign`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Busiest queue first, to the cores in turn: up, down, up and so on.
    #[default]
    Cycles,
    /// To the cores in turn, regardless of load.
    RoundRobin,
    /// Busiest queue first, each to the core with the least load so far.
    Group,
}

impl Algorithm {
    /// The name in `pmd-rxq-assign`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::RoundRobin => "roundrobin",
            Self::Group => "group",
        }
    }
}

/// A receive queue that needs a poll thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Number of its port.
    pub port: PortNumber,
    /// Name of its port.
    pub name: String,
    /// Number within the port.
    pub queue: usize,
    /// NUMA node of the device.
    pub numa: u32,
    /// Core to which the operator pinned it.
    pub pinned: Option<u32>,
    /// Cycles spent on its packets of late.
    pub cycles: u64,
}

/// The outcome of [`assign`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The core of each queue, in the order of the queues; `None` when no core is left for it.
    pub cores: Vec<Option<Core>>,
    /// Cores that poll pinned queues only.
    pub isolated: BTreeSet<Core>,
    /// What the operator should read about it, in order.
    pub notes: Vec<Note>,
}

/// A line for the log. [`Self::is_warning`] tells its level: warning, or information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A queue is pinned to a core without a poll thread.
    NoSuchCore {
        /// Core that the operator named.
        core: u32,
        /// Name of the port.
        name: String,
        /// Number of the queue.
        queue: usize,
    },
    /// A queue went to the core that it is pinned to.
    Pinned {
        /// That core.
        core: Core,
        /// Name of the port.
        name: String,
        /// Number of the queue.
        queue: usize,
        /// Its load, for algorithms that look at it.
        cycles: Option<u64>,
    },
    /// Queues that are not pinned are about to be dealt out.
    Start(Algorithm),
    /// A queue goes to another NUMA node than its port's.
    OtherNode {
        /// NUMA node of the port.
        from: u32,
        /// Name of the port.
        name: String,
        /// Number of the queue.
        queue: usize,
        /// NUMA node of the poll thread.
        to: u32,
    },
    /// A queue went to a core.
    Assigned {
        /// That core.
        core: Core,
        /// Name of the port.
        name: String,
        /// Number of the queue.
        queue: usize,
        /// Its load, for algorithms that look at it.
        cycles: Option<u64>,
    },
    /// No core is left for a queue.
    NotPolled {
        /// Name of the port.
        name: String,
        /// Number of the queue.
        queue: usize,
        /// Its load, for algorithms that look at it.
        cycles: Option<u64>,
    },
}

impl Note {
    /// Whether the line is a warning.
    pub fn is_warning(&self) -> bool {
        matches!(self, Self::NoSuchCore { .. } | Self::NotPolled { .. })
    }
}

/// The load of a queue as the lines end.
struct Load(Option<u64>);

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cycles) => write!(f, " (measured processing cycles {cycles})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchCore { core, name, queue } => write!(
                f,
                "Core {core:2} cannot be pinned with port '{name}' rx queue {queue}. Use \
                 pmd-cpu-mask to enable a pmd on core {core}. An alternative core will be assigned."
            ),
            Self::Pinned { core: Core { numa, core }, name, queue, cycles } => write!(
                f,
                "Core {core:2} on numa node {numa} is pinned with port '{name}' rx queue {queue}{}",
                Load(*cycles)
            ),
            Self::Start(algorithm) => write!(
                f,
                "Performing pmd to rx queue assignment using {} algorithm.",
                algorithm.name()
            ),
            Self::OtherNode { from, name, queue, to } => write!(
                f,
                "There's no available (non-isolated) pmd thread on numa node {from}. Port \
                 '{name}' rx queue {queue} will be assigned to a pmd on numa node {to}. This may \
                 lead to reduced performance."
            ),
            Self::Assigned { core: Core { numa, core }, name, queue, cycles } => write!(
                f,
                "Core {core:2} on numa node {numa} assigned port '{name}' rx queue {queue}{}.",
                Load(*cycles)
            ),
            Self::NotPolled { name, queue, cycles } => write!(
                f,
                "No non-isolated pmd on any numa available for port '{name}' rx queue {queue}{}. \
                 This rx queue will not be polled.",
                Load(*cycles)
            ),
        }
    }
}

/// The cores of one NUMA node and whose turn it is.
#[derive(Default)]
struct Node {
    cores: Vec<Slot>,
    turn: usize,
    down: bool,
}

struct Slot {
    core: Core,
    isolated: bool,
    queues: usize,
    cycles: u64,
}

impl Slot {
    fn add(&mut self, queue: &Queue) -> Core {
        self.queues += 1;
        self.cycles += queue.cycles;
        self.core
    }
}

impl Node {
    fn is_available(&self) -> bool {
        self.cores.iter().any(|slot| !slot.isolated)
    }

    /// The core that gets the next queue.
    fn choose(&mut self, algorithm: Algorithm, has_load: bool) -> Option<&mut Slot> {
        if algorithm == Algorithm::Group {
            let available = self.cores.iter_mut().filter(|slot| !slot.isolated);
            return available.min_by_key(
                |slot| {
                    if has_load { slot.cycles } else { slot.queues as u64 }
                },
            );
        }
        // Up and down visits each core once in every two rounds at the latest.
        for _ in 0..2 * self.cores.len() {
            let index = self.take_turn(algorithm == Algorithm::Cycles);
            if self.cores.get(index).is_some_and(|slot| !slot.isolated) {
                return self.cores.get_mut(index);
            }
        }
        None
    }

    /// Whose turn it is: 0 1 2 2 1 0 0 when turning around, 0 1 2 0 1 2 when not.
    fn take_turn(&mut self, turn_around: bool) -> usize {
        let index = self.turn;
        if self.down {
            match self.turn.checked_sub(1) {
                Some(lower) => self.turn = lower,
                None => self.down = false,
            }
        } else if self.turn + 1 < self.cores.len() {
            self.turn += 1;
        } else if turn_around {
            self.down = true;
        } else {
            self.turn = 0;
        }
        index
    }
}

/// Deals `queues`, which come in the order of their ports, out to `cores`. Pinned queues come
/// first, and with `isolate` their cores get no others. The others stay on the NUMA node of their
/// port when it has a core for them.
pub fn assign(queues: &[Queue], cores: &[Core], algorithm: Algorithm, isolate: bool) -> Placement {
    let mut nodes: BTreeMap<u32, Node> = BTreeMap::new();
    let sorted: BTreeSet<Core> = cores.iter().copied().collect();
    for &core in &sorted {
        let slot = Slot { core, isolated: false, queues: 0, cycles: 0 };
        nodes.entry(core.numa).or_default().cores.push(slot);
    }
    let load = |queue: &Queue| (algorithm != Algorithm::RoundRobin).then_some(queue.cycles);

    let mut placed: BTreeMap<usize, Core> = BTreeMap::new();
    let mut notes = vec![];
    let mut rest: Vec<(usize, &Queue)> = vec![];
    for (index, queue) in queues.iter().enumerate() {
        let Some(core) = queue.pinned else {
            rest.push((index, queue));
            continue;
        };
        let mut slots = nodes.values_mut().flat_map(|node| &mut node.cores);
        let name = queue.name.clone();
        let Some(slot) = slots.find(|slot| slot.core.core == core) else {
            notes.push(Note::NoSuchCore { core, name, queue: queue.queue });
            rest.push((index, queue));
            continue;
        };
        slot.isolated |= isolate;
        let core = slot.add(queue);
        notes.push(Note::Pinned { core, name, queue: queue.queue, cycles: load(queue) });
        placed.insert(index, core);
    }

    if algorithm != Algorithm::RoundRobin {
        rest.sort_by_key(|(_, queue)| (u64::MAX - queue.cycles, queue.port, queue.queue));
    }
    if !rest.is_empty() {
        notes.push(Note::Start(algorithm));
    }
    let mut last_other = None;
    for (index, queue) in rest {
        let name = queue.name.clone();
        let local = nodes.get(&queue.numa).is_some_and(Node::is_available).then_some(queue.numa);
        let numa = local.or_else(|| {
            let other = next_available(&nodes, last_other);
            last_other = other.or(last_other);
            other
        });
        let slot = numa
            .and_then(|numa| nodes.get_mut(&numa))
            .and_then(|node| node.choose(algorithm, queue.cycles > 0));
        let Some(slot) = slot else {
            notes.push(Note::NotPolled { name, queue: queue.queue, cycles: load(queue) });
            continue;
        };
        let core = slot.add(queue);
        if core.numa != queue.numa {
            let name = name.clone();
            notes.push(Note::OtherNode {
                from: queue.numa,
                name,
                queue: queue.queue,
                to: core.numa,
            });
        }
        notes.push(Note::Assigned { core, name, queue: queue.queue, cycles: load(queue) });
        placed.insert(index, core);
    }

    let slots = nodes.values().flat_map(|node| &node.cores);
    Placement {
        cores: (0..queues.len()).map(|index| placed.get(&index).copied()).collect(),
        isolated: slots.filter(|slot| slot.isolated).map(|slot| slot.core).collect(),
        notes,
    }
}

/// The node with a core to spare that comes after `last`, going round.
fn next_available(nodes: &BTreeMap<u32, Node>, last: Option<u32>) -> Option<u32> {
    let after = nodes.iter().filter(|(numa, _)| Some(**numa) > last);
    let before = nodes.iter().filter(|(numa, _)| Some(**numa) <= last);
    after.chain(before).find(|(_, node)| node.is_available()).map(|(&numa, _)| numa)
}

#[cfg(test)]
mod tests;
