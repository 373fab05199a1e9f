//! Waiting for any of several queues to have something to receive, from asynchronous code.
#![expect(unsafe_code, reason = "the runtime takes descriptors on trust")]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create, wait};
use tokio::io::unix::AsyncFd;
use tracing::error;

/// Most descriptors that are collected at a time; the others keep the set ready.
const EVENTS: usize = 256;

/// Waits for any of a set of file descriptors.
pub struct Poller(AsyncFd<OwnedFd>);

impl Poller {
    /// Waits for the `descriptors`, as long as they are open.
    ///
    /// # Errors
    /// When the system has no descriptor left for this.
    pub fn new<'a>(descriptors: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<Self> {
        let epoll = create(CreateFlags::CLOEXEC)?;
        for descriptor in descriptors {
            // Edge-triggered, since what is ready is drained each time.
            let events = EventFlags::IN | EventFlags::ET;
            add(&epoll, descriptor, EventData::new_u64(0), events)?;
        }
        // SAFETY: the descriptor is owned by what is made here, and so open until that is gone.
        let epoll = unsafe { AsyncFd::register(epoll) }?;
        Ok(Self(epoll))
    }

    /// Completes when something arrived at one of the descriptors since the last completion.
    /// Never again when the system fails, which the log tells.
    pub async fn ready(&self) {
        if let Err(error) = self.collect().await {
            error!(target: "poll_loop", "cannot wait for packets any more: {error}");
            std::future::pending().await
        }
    }

    async fn collect(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        // Collected, what is ready is told of again when more arrives.
        let mut events = Vec::with_capacity(EVENTS);
        wait(self.0.get_ref(), spare_capacity(&mut events), Some(&Timespec::default()))?;
        Ok(())
    }
}
