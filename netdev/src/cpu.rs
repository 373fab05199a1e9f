//! The processor: its cycle counter and its caches.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "two instructions that the language has no safe words for")
)]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// When and at which count the counter was first looked at. The switch's own clock would not do:
/// tests stop it, and the counter goes on.
static FIRST: LazyLock<(u64, Instant)> = LazyLock::new(|| (cycles(), Instant::now()));

/// Shortest time over which [`cycles_per_second`] trusts its measurement.
const CALIBRATION: Duration = Duration::from_millis(10);

/// The cycle counter of the processor: it runs at one rate on all cores, whatever their clock.
/// On processors without one, nanoseconds.
#[inline]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a register that user space may read on every Linux system.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Rate of [`cycles`] per second, measured from the first call on. That first call takes 10 ms.
pub fn cycles_per_second() -> u64 {
    let (first, start) = *FIRST;
    if let Some(missing) = CALIBRATION.checked_sub(start.elapsed()) {
        std::thread::sleep(missing);
    }
    let rate = (cycles() - first) as f64 / start.elapsed().as_secs_f64();
    rate as u64
}

/// Asks for the cache line at `target` ahead of its use.
#[inline]
pub fn prefetch<T>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint on the address of a live reference; it changes nothing but the caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(target).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = target;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_goes_up_at_a_plausible_rate() {
        let before = cycles();
        let rate = cycles_per_second();
        assert!(cycles() > before);
        assert!((100_000_000..20_000_000_000).contains(&rate), "{rate}");
        let value = 7;
        prefetch(&value);
        assert_eq!(value, 7);
    }
}
