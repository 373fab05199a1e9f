//! The transmit queues of ports, and how threads come by them.

use std::collections::BTreeSet;
use std::sync::Arc;

use netdev::port::{Port, PortError};
use netdev::queue::TxQueue;

use super::{Datapath, PortNumber};
use crate::flow_table::WorkerId;
use crate::pmd::steering::{HashedQueues, Holders, SharedQueues, TxQueues};

/// How packets are spread over the transmit queues of a port (`tx-steering`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TxSteering {
    /// A thread sends to one queue.
    #[default]
    Thread,
    /// A packet goes to the queue that its hash says.
    Hash,
}

impl TxSteering {
    /// The name in `tx-steering`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Hash => "hash",
        }
    }
}

/// Who sends to a port, and how.
#[derive(Debug, Default)]
pub(super) struct Senders {
    sharing: Sharing,
    /// Threads that can send to the port.
    pub(super) threads: BTreeSet<WorkerId>,
    /// The threads' use of shared queues.
    holders: Option<Arc<Holders>>,
}

/// How threads get along with the transmit queues of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sharing {
    /// Each has a queue of its own, or the only one.
    #[default]
    Own,
    /// They share so many queues.
    Shared(usize),
    /// All use so many queues, by the hash of packets.
    Hashed(usize),
}

impl Sharing {
    fn new(steering: TxSteering, queues: usize, threads: usize) -> Self {
        match steering {
            _ if queues <= 1 => Self::Own,
            TxSteering::Hash => Self::Hashed(queues),
            TxSteering::Thread if queues < threads => Self::Shared(queues),
            TxSteering::Thread => Self::Own,
        }
    }
}

impl Datapath {
    /// Lets every thread send to a port.
    pub(super) fn open_senders(
        &mut self,
        number: PortNumber,
        port: &mut dyn Port,
    ) -> Result<(), PortError> {
        let threads =
            self.threads.iter().map(|(core, thread)| (WorkerId::Core(core.core), thread.tx_queue));
        let senders: Vec<_> = threads.chain([(WorkerId::Main, 0)]).collect();
        let settings = self.port_settings.get(&number).cloned().unwrap_or_default();
        let sharing = Sharing::new(settings.tx_steering, port.tx_queues(), senders.len());
        let Some(state) = self.ports.get_mut(&number) else { return Ok(()) };
        if state.senders.sharing != sharing {
            // All get other queues.
            let holders = match sharing {
                Sharing::Shared(queues) => Some(Arc::new(Holders::new(queues))),
                Sharing::Own | Sharing::Hashed(_) => None,
            };
            state.senders = Senders { sharing, threads: BTreeSet::new(), holders };
        }
        let holders = state.senders.holders.clone();
        let missing: Vec<_> =
            senders.into_iter().filter(|(id, _)| !state.senders.threads.contains(id)).collect();
        for (id, tx_queue) in missing {
            let queues = match (sharing, &holders) {
                (Sharing::Hashed(count), _) => {
                    TxQueues::Hashed(HashedQueues::new(open_all(port, count)?, self.shared.seed))
                }
                (Sharing::Shared(count), Some(holders)) => {
                    TxQueues::Shared(SharedQueues::new(open_all(port, count)?, Arc::clone(holders)))
                }
                _ => TxQueues::Own(port.open_tx(tx_queue)?),
            };
            let added = self.run(id, move |worker| {
                worker.pipeline.flush(true);
                worker.pipeline.transmit.add(number, queues);
            });
            if let Some(state) = self.ports.get_mut(&number)
                && added.is_ok()
            {
                state.senders.threads.insert(id);
            }
        }
        Ok(())
    }
}

fn open_all(port: &mut dyn Port, count: usize) -> Result<Vec<Box<dyn TxQueue>>, PortError> {
    (0..count).map(|queue| port.open_tx(queue)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_follows_from_steering_and_numbers() {
        use TxSteering::{Hash, Thread};
        for (steering, queues, threads, expected) in [
            (Thread, 1, 3, Sharing::Own),
            (Thread, 2, 3, Sharing::Shared(2)),
            (Thread, 3, 3, Sharing::Own),
            (Hash, 0, 3, Sharing::Own),
            (Hash, 1, 3, Sharing::Own),
            (Hash, 2, 3, Sharing::Hashed(2)),
            (Hash, 4, 1, Sharing::Hashed(4)),
        ] {
            assert_eq!(Sharing::new(steering, queues, threads), expected);
        }
    }
}
