//! The one clock that every timer of the switch reads.
//!
//! It counts from the start of the process and never goes backwards. Tests stop it and move it
//! forward by hand (`time/stop`, `time/warp`), in every thread at once; sleepers are woken when
//! that happens.

use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

/// Value of [`STOPPED_AT`] while the clock runs.
const RUNNING: u64 = u64::MAX;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Nanoseconds since [`START`] at which the clock was stopped, or [`RUNNING`].
static STOPPED_AT: AtomicU64 = AtomicU64::new(RUNNING);
/// Nanoseconds added by [`warp`].
static WARPED: AtomicU64 = AtomicU64::new(0);
static CHANGED: Notify = Notify::const_new();

fn real() -> u64 {
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(RUNNING - 1)
}

/// Time since the process started, as the timers of the switch see it.
pub fn now() -> Duration {
    let base = match STOPPED_AT.load(Ordering::Acquire) {
        RUNNING => real(),
        stopped => stopped,
    };
    Duration::from_nanos(base.saturating_add(WARPED.load(Ordering::Acquire)))
}

/// Time since the Unix epoch by the wall clock, which stopping and warping leave alone.
pub fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Stops the clock for good; from here on only [`warp`] moves it.
pub fn stop() {
    let _ = STOPPED_AT.compare_exchange(RUNNING, real(), Ordering::AcqRel, Ordering::Acquire);
    CHANGED.notify_waiters();
}

/// Whether [`stop`] was called.
pub fn is_stopped() -> bool {
    STOPPED_AT.load(Ordering::Acquire) != RUNNING
}

/// Moves the clock forward by `step` and wakes every sleeper to look again.
pub fn warp(step: Duration) {
    let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
    let _ = WARPED.fetch_update(Ordering::AcqRel, Ordering::Acquire, |warped| {
        Some(warped.saturating_add(step))
    });
    CHANGED.notify_waiters();
}

/// Completes once [`now`] has reached `deadline`.
pub async fn sleep_until(deadline: Duration) {
    loop {
        // Created before the clock is read, so that a warp in between is not missed.
        let changed = CHANGED.notified();
        let left = deadline.saturating_sub(now());
        if left.is_zero() {
            return;
        }
        if is_stopped() {
            changed.await;
        } else {
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}

type Sleep = Pin<Box<dyn Future<Output = ()>>>;

/// A sleeper that is set again and again, most often to later than before, which costs little.
#[derive(Default)]
pub struct Alarm {
    /// The sleep under way and its end, which may be earlier than what was asked for last.
    sleep: Option<(Duration, Sleep)>,
}

impl Alarm {
    /// Completes once [`now`] has reached `deadline`.
    pub async fn ring_at(&mut self, deadline: Duration) {
        while now() < deadline {
            match &mut self.sleep {
                Some((end, sleep)) if *end <= deadline => {
                    sleep.await;
                    self.sleep = None;
                }
                _ => self.sleep = Some((deadline, Box::pin(sleep_until(deadline)))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_put_off_and_brought_forward() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut alarm = Alarm::default();
            let (start, millisecond) = (now(), Duration::from_millis(1));
            for deadline in [3_600_000, 1, 4].map(|milliseconds| start + milliseconds * millisecond)
            {
                tokio::select! {
                    () = alarm.ring_at(deadline) => assert!(now() >= deadline),
                    () = tokio::task::yield_now() => {}
                }
            }
            alarm.ring_at(start + 3 * millisecond).await;
            alarm.ring_at(start + 5 * millisecond).await;
            assert!(now() >= start + 5 * millisecond);
        });
    }

    // One test, because the clock is shared by the whole process.
    #[test]
    fn stops_and_warps() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let before = now();
        runtime.block_on(sleep_until(before + Duration::from_millis(2)));
        assert!(now() >= before + Duration::from_millis(2));

        stop();
        let stopped = now();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(now(), stopped);

        let sleeper = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(sleep_until(stopped + Duration::from_secs(3600)));
            now()
        });
        std::thread::sleep(Duration::from_millis(5));
        warp(Duration::from_secs(1800));
        assert_eq!(now(), stopped + Duration::from_secs(1800));
        warp(Duration::from_secs(1800));
        assert_eq!(sleeper.join().unwrap(), stopped + Duration::from_secs(3600));
    }
}
