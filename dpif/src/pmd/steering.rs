//! Which of a port's transmit queues a packet leaves by (`tx-steering`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netdev::packet::{BATCH_SIZE, Batch, FramePool, PacketMut};
use netdev::queue::{SendReport, TxQueue};
use netdev::transmit;

use crate::flow::{PacketKey, extract, five_tuple_hash};

/// How long a thread that sends nothing keeps a queue that it shares with others.
const HOLD: Duration = Duration::from_millis(500);

/// The transmit queues of a port, for one thread.
pub(crate) enum TxQueues {
    /// One that no other thread uses.
    Own(Box<dyn TxQueue>),
    /// Fewer than there are threads.
    Shared(SharedQueues),
    /// All of them, by flow.
    Hashed(HashedQueues),
}

impl TxQueues {
    /// Sends the packets of `batch`, which is left empty.
    #[inline]
    pub(crate) fn send(&mut self, batch: &mut Batch, now: Duration) -> SendReport {
        match self {
            Self::Own(queue) => transmit::send(&mut **queue, batch),
            Self::Shared(queues) => queues.send(batch, now),
            Self::Hashed(queues) => queues.send(batch),
        }
    }

    /// Leaves a shared queue that was not used of late to other threads.
    pub(crate) fn release_idle(&mut self, now: Duration) {
        if let Self::Shared(queues) = self
            && !queues.is_held(now)
        {
            queues.release();
        }
    }
}

/// How many threads hold each transmit queue of a port.
#[derive(Debug)]
pub(crate) struct Holders(Mutex<Vec<usize>>);

impl Holders {
    /// None, for each of `queues`.
    pub(crate) fn new(queues: usize) -> Self {
        Self(Mutex::new(vec![0; queues]))
    }

    fn counts(&self) -> MutexGuard<'_, Vec<usize>> {
        // Nothing that runs under the lock can leave the counts half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a queue that the fewest hold.
    fn take(&self) -> usize {
        let mut counts = self.counts();
        match counts.iter_mut().enumerate().min_by_key(|(_, count)| **count) {
            Some((queue, count)) => {
                *count += 1;
                queue
            }
            None => 0,
        }
    }

    fn release(&self, queue: usize) {
        if let Some(count) = self.counts().get_mut(queue) {
            *count -= 1;
        }
    }
}

/// Queues that threads share: each thread holds one as long as it sends, one that the fewest
/// hold.
pub(crate) struct SharedQueues {
    queues: Vec<Box<dyn TxQueue>>,
    holders: Arc<Holders>,
    held: Option<usize>,
    last_use: Duration,
}

impl SharedQueues {
    pub(crate) fn new(queues: Vec<Box<dyn TxQueue>>, holders: Arc<Holders>) -> Self {
        Self { queues, holders, held: None, last_use: Duration::ZERO }
    }

    fn is_held(&self, now: Duration) -> bool {
        self.held.is_some() && now.saturating_sub(self.last_use) < HOLD
    }

    fn release(&mut self) {
        if let Some(queue) = self.held.take() {
            self.holders.release(queue);
        }
    }

    fn send(&mut self, batch: &mut Batch, now: Duration) -> SendReport {
        if !self.is_held(now) {
            self.release();
        }
        self.last_use = now;
        let queue = *self.held.get_or_insert_with(|| self.holders.take());
        match self.queues.get_mut(queue) {
            Some(queue) => transmit::send(&mut **queue, batch),
            None => {
                let device_error = batch.len() as u64;
                batch.clear();
                SendReport { device_error, ..SendReport::default() }
            }
        }
    }
}

impl Drop for SharedQueues {
    fn drop(&mut self) {
        self.release();
    }
}

struct HashedQueue {
    queue: Box<dyn TxQueue>,
    chosen: Option<Batch>,
}

/// Queues among which packets are spread by the hash over addresses and ports.
pub(crate) struct HashedQueues {
    queues: Vec<HashedQueue>,
    scratch: Box<PacketKey>,
    seed: u64,
}

impl HashedQueues {
    pub(crate) fn new(queues: Vec<Box<dyn TxQueue>>, seed: u64) -> Self {
        let queues = queues.into_iter().map(|queue| HashedQueue { queue, chosen: None });
        Self { queues: queues.collect(), scratch: Box::default(), seed }
    }

    fn hash(&mut self, packet: &mut PacketMut<'_>) -> u32 {
        let known = packet.view().descriptor().rss_hash();
        known.unwrap_or_else(|| {
            extract(packet, None, 1, &mut self.scratch);
            five_tuple_hash(self.scratch.key(), self.seed)
        })
    }

    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let (count, pool) = (batch.len(), Arc::clone(batch.pool()));
        let mut places = [0; BATCH_SIZE];
        for (mut packet, place) in batch.iter_mut().zip(&mut places) {
            let hash = self.hash(&mut packet) as usize;
            *place = hash.checked_rem(self.queues.len()).unwrap_or(0);
        }
        let mut drain = batch.drain();
        for &place in places.iter().take(count) {
            if let Some(queue) = self.queues.get_mut(place) {
                drain.move_next_to(room_for(&mut queue.chosen, &pool));
            }
        }
        let mut report = SendReport::default();
        for HashedQueue { queue, chosen } in &mut self.queues {
            if let Some(chosen) = chosen.as_mut().filter(|chosen| !chosen.is_empty()) {
                report += transmit::send(&mut **queue, chosen);
            }
        }
        report
    }
}

/// A batch for packets of `pool` in the place of one that is empty, or nothing.
pub(super) fn room_for<'a>(place: &'a mut Option<Batch>, pool: &Arc<FramePool>) -> &'a mut Batch {
    place.take_if(|batch| !Arc::ptr_eq(batch.pool(), pool));
    place.get_or_insert_with(|| Batch::new(pool))
}

#[cfg(test)]
mod tests {
    use netdev::port::Port as _;

    use super::*;
    use crate::testing::{MemoryPort, udp};

    fn frames(count: u16) -> Vec<Vec<u8>> {
        (0..count).map(|number| udp(1, 2, [number, 7], b"data")).collect()
    }

    fn batch(pool: &Arc<FramePool>, frames: &[Vec<u8>]) -> Batch {
        let mut batch = Batch::new(pool);
        for frame in frames {
            assert!(batch.push(pool.packet_with(frame).unwrap()).is_ok());
        }
        batch
    }

    fn open(ports: &mut [MemoryPort]) -> Vec<Box<dyn TxQueue>> {
        ports.iter_mut().map(|port| port.open_tx(0).unwrap()).collect()
    }

    #[test]
    fn threads_hold_the_queue_that_the_fewest_hold() {
        let pool = FramePool::new(64).unwrap();
        // Each queue is the port of a kind of its own, to tell them apart.
        let mut ports = ["q0", "q1"].map(|name| MemoryPort::new(name, 1, true));
        let holders = Arc::new(Holders::new(2));
        let mut threads = [(); 3]
            .map(|()| TxQueues::Shared(SharedQueues::new(open(&mut ports), Arc::clone(&holders))));
        let mut send = |thread: usize, milliseconds: u64| {
            let report = threads[thread]
                .send(&mut batch(&pool, &frames(3)), Duration::from_millis(milliseconds));
            assert_eq!(report, SendReport { sent: 3, ..SendReport::default() });
            ports.each_ref().map(|port| port.take_sent().len())
        };
        assert_eq!(send(0, 1000), [3, 0]);
        assert_eq!(send(1, 1000), [0, 3]);
        assert_eq!(send(2, 1000), [3, 0]);
        assert_eq!(send(1, 1499), [0, 3]);
        assert_eq!(send(0, 1499), [3, 0]);
        // The third has been idle for too long. It holds no queue when it chooses anew, so both
        // have one holder each, and the first of them is taken.
        assert_eq!(send(2, 1500), [3, 0]);
        assert_eq!(*holders.counts(), [2, 1]);
        threads[0].release_idle(Duration::from_millis(1998));
        assert_eq!(*holders.counts(), [2, 1]);
        threads[0].release_idle(Duration::from_millis(1999));
        assert_eq!(*holders.counts(), [1, 1]);
        drop(threads);
        assert_eq!(*holders.counts(), [0, 0]);
        assert_eq!(pool.counts().held, 0);
    }

    #[test]
    fn flows_are_spread_by_their_hash_and_keep_their_order() {
        const SEED: u64 = 9;
        let pool = FramePool::new(128).unwrap();
        let mut ports = ["q0", "q1", "q2"].map(|name| MemoryPort::new(name, 1, true));
        let mut queues = TxQueues::Hashed(HashedQueues::new(open(&mut ports), SEED));
        let frames = frames(32);
        let mut expected = [const { vec![] }; 3];
        for round in 0..2 {
            for (number, frame) in (0u32..).zip(&frames) {
                // The hash of a device goes before our own.
                let hash = (number % 2 == 0).then_some(number + round);
                let mut key = PacketKey::default();
                extract(&mut pool.packet_with(frame).unwrap().view_mut(), None, 1, &mut key);
                let hash = hash.unwrap_or_else(|| five_tuple_hash(key.key(), SEED));
                expected[hash as usize % 3].push(frame.clone());
            }
            let mut batch = batch(&pool, &frames);
            for (mut packet, number) in batch.iter_mut().zip(0u32..) {
                let hash = (number % 2 == 0).then_some(number + round);
                packet.descriptor_mut().set_rss_hash(hash);
            }
            let report = queues.send(&mut batch, Duration::ZERO);
            assert_eq!(report, SendReport { sent: 32, ..SendReport::default() });
        }
        assert!(expected.iter().all(|frames| frames.len() > 8));
        assert_eq!(ports.map(|port| port.take_sent()), expected);
        drop(queues);
        assert_eq!(pool.counts().held, 0);
    }
}
