//! How other threads change what a poll thread owns: they send it work, which it does between two
//! batches, and wait until it is done.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use thiserror::Error;

/// Work that waits at most; senders of more wait for room.
const CAPACITY: usize = 64;

type Work<W> = Box<dyn FnOnce(&mut W) + Send>;

/// The poll thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the poll thread has ended")]
pub struct Ended;

struct Queue<W> {
    work: VecDeque<Work<W>>,
    is_closed: bool,
}

/// Work for the owner of a `W`.
pub(crate) struct Mailbox<W> {
    queue: Mutex<Queue<W>>,
    room: Condvar,
    /// Whether the queue may have work; looked at once per round.
    has_work: AtomicBool,
    wake: OwnedFd,
}

impl<W> Mailbox<W> {
    /// An empty mailbox.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self {
            queue: Mutex::new(Queue { work: VecDeque::new(), is_closed: false }),
            room: Condvar::new(),
            has_work: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    fn queue(&self) -> MutexGuard<'_, Queue<W>> {
        // Nothing that runs under the lock can leave the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the owner do `work`, and waits for the result. The owner must not wait for the caller.
    ///
    /// # Errors
    /// When the owner ended before it came to it.
    pub(crate) fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut W) -> R + Send + 'static,
    ) -> Result<R, Ended> {
        let (done, result) = mpsc::sync_channel(1);
        let work = move |owner: &mut W| {
            // Nobody waits any more when this fails.
            let _ = done.send(work(owner));
        };
        let queue = self.queue();
        let has_room = |queue: &mut Queue<W>| queue.work.len() >= CAPACITY && !queue.is_closed;
        let waited = self.room.wait_while(queue, has_room);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        if queue.is_closed {
            return Err(Ended);
        }
        queue.work.push_back(Box::new(work));
        self.has_work.store(true, Ordering::Release);
        drop(queue);
        // A counter that runs over has woken the owner long ago.
        let _ = write(&self.wake, &1u64.to_ne_bytes());
        result.recv().map_err(|_| Ended)
    }

    /// Takes the oldest work, for the owner to do.
    #[inline]
    pub(crate) fn take(&self) -> Option<Work<W>> {
        if !self.has_work.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = self.queue();
        let work = queue.work.pop_front();
        self.has_work.store(!queue.work.is_empty(), Ordering::Relaxed);
        drop(queue);
        self.room.notify_one();
        work
    }

    /// Becomes readable when there is work.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Makes [`Self::wake_fd`] unreadable again, until the next work.
    pub(crate) fn clear_wake(&self) {
        // Nothing to read is as good as having read it.
        let _ = read(&self.wake, &mut [0; 8]);
    }

    /// Refuses further work and drops what waits. Its senders get an error.
    pub(crate) fn close(&self) {
        let mut queue = self.queue();
        queue.is_closed = true;
        let work = std::mem::take(&mut queue.work);
        drop(queue);
        self.room.notify_all();
        drop(work);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn work_is_done_in_order_and_its_result_comes_back() {
        let mailbox = Arc::new(Mailbox::<Vec<u32>>::new().unwrap());
        let owner = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                let mut owned = vec![];
                while owned.len() < 1000 {
                    while let Some(work) = mailbox.take() {
                        work(&mut owned);
                    }
                    thread::yield_now();
                }
                mailbox.close();
                owned
            })
        };
        let senders = (0..4).map(|sender| {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                for number in 0..250 {
                    let length = mailbox.run(move |owned| {
                        owned.push(sender * 1000 + number);
                        owned.len()
                    });
                    assert!((1..=1000).contains(&length.unwrap()));
                }
            })
        });
        for sender in senders.collect::<Vec<_>>() {
            sender.join().unwrap();
        }
        let owned = owner.join().unwrap();
        for sender in 0..4 {
            let of_sender = owned.iter().filter(|value| *value / 1000 == sender);
            assert!(of_sender.map(|value| value % 1000).eq(0..250));
        }
        assert_eq!(mailbox.run(|_| ()), Err(Ended));
    }

    #[test]
    fn closing_answers_those_who_wait() {
        let mailbox = Arc::new(Mailbox::<()>::new().unwrap());
        let senders: Vec<_> = (0..CAPACITY + 8)
            .map(|_| {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || mailbox.run(|()| ()))
            })
            .collect();
        while mailbox.queue().work.len() < CAPACITY {
            thread::yield_now();
        }
        mailbox.close();
        assert!(senders.into_iter().all(|sender| sender.join().unwrap() == Err(Ended)));
    }
}
