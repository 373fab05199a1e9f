//! How the control thread learns that there is something for controllers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Wakes the control thread when upcalls or tables have something for controllers, from any thread.
/// Clones wake the same.
#[derive(Clone, Debug, Default)]
pub struct News(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Whether something arrived that was not looked at.
    is_new: AtomicBool,
    arrived: Notify,
}

impl News {
    /// Says that there is something.
    pub(crate) fn arrive(&self) {
        if !self.0.is_new.swap(true, Ordering::AcqRel) {
            self.0.arrived.notify_one();
        }
    }

    /// Says that whatever has arrived is going to be looked at.
    pub fn take(&self) -> bool {
        self.0.is_new.swap(false, Ordering::AcqRel)
    }

    /// Completes when something arrived that nobody [took](Self::take).
    pub async fn arrived(&self) {
        while !self.take() {
            self.0.arrived.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn what_was_taken_is_no_news() {
        let news = News::default();
        news.arrive();
        assert!(news.take() && !news.take());
        let arrived = std::pin::pin!(news.arrived());
        let mut arrived = arrived;
        let is_ready =
            poll_fn(|context| Poll::Ready(arrived.as_mut().poll(context).is_ready())).await;
        assert!(!is_ready);
        news.arrive();
        arrived.await;
        assert!(!news.take());
    }
}
