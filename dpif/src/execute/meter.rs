//! Meters: token buckets that several threads share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Most bands of a meter.
pub const MAX_BANDS: usize = 8;
/// Number of the meters of a datapath: 0 to this, exclusive.
pub const MAX_METERS: u32 = 1 << 18;

/// One limit of a meter. Packets over it are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandConfig {
    /// Kilobits, or packets, per second.
    pub rate: u32,
    /// Kilobits, or packets, that may come at once. 0 gives one second's worth.
    pub burst: u32,
}

/// A meter as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Whether rates count packets rather than kilobits.
    pub in_packets: bool,
    /// The limits, at most [`MAX_BANDS`].
    pub bands: Vec<BandConfig>,
}

/// What a meter, or one band of it, has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterCount {
    /// Packets.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// A meter in use.
#[derive(Debug)]
pub struct Meter {
    config: MeterConfig,
    /// When the buckets were last filled, in milliseconds of the switch's clock.
    filled: AtomicU64,
    created: u64,
    seen: Count,
    bands: Vec<Band>,
}

#[derive(Debug, Default)]
struct Count {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    fn add(&self, bytes: u64) {
        self.packets.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> MeterCount {
        MeterCount {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

#[derive(Debug)]
struct Band {
    rate: u64,
    /// Bits, or thousandths of packets.
    capacity: u64,
    bucket: AtomicU64,
    dropped: Count,
}

impl Band {
    /// Takes `volume` out of the bucket if it is there.
    fn take(&self, volume: u64) -> bool {
        let take = |bucket: u64| bucket.checked_sub(volume);
        self.bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn fill(&self, milliseconds: u64) {
        // Kilobits per second are bits per millisecond; packets likewise in thousandths.
        let added = milliseconds.saturating_mul(self.rate);
        let _ = self.bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bucket| {
            Some(bucket.saturating_add(added).min(self.capacity))
        });
    }
}

impl Meter {
    /// A meter with full buckets. `now` is in milliseconds of the switch's clock.
    pub fn new(config: MeterConfig, now: u64) -> Self {
        let bands = config.bands.iter().map(|band| {
            let burst = if band.burst == 0 { band.rate } else { band.burst };
            let capacity = u64::from(burst) * 1000;
            let bucket = AtomicU64::new(capacity);
            Band { rate: band.rate.into(), capacity, bucket, dropped: Count::default() }
        });
        let bands = bands.collect();
        Self { config, filled: AtomicU64::new(now), created: now, seen: Count::default(), bands }
    }

    /// How it is configured.
    pub fn config(&self) -> &MeterConfig {
        &self.config
    }

    /// When it was made, in milliseconds of the switch's clock.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// What came to it.
    pub fn seen(&self) -> MeterCount {
        self.seen.get()
    }

    /// What each band dropped.
    pub fn dropped(&self) -> Vec<MeterCount> {
        self.bands.iter().map(|band| band.dropped.get()).collect()
    }

    /// Counts a packet of `bytes` bytes; false when it is to be dropped. The band with the highest
    /// rate that it is over counts it as dropped.
    pub fn admit(&self, bytes: usize, now: u64) -> bool {
        let bytes = bytes as u64;
        let filled = self.filled.fetch_max(now, Ordering::Relaxed);
        if let Some(elapsed) = now.checked_sub(filled).filter(|&elapsed| elapsed > 0) {
            self.bands.iter().for_each(|band| band.fill(elapsed));
        }
        self.seen.add(bytes);
        let volume = if self.config.in_packets { 1000 } else { 8 * bytes };
        let over = self.bands.iter().fold(None, |over: Option<&Band>, band| {
            let is_within = band.take(volume);
            let is_higher = over.is_none_or(|other| band.rate > other.rate);
            if !is_within && is_higher { Some(band) } else { over }
        });
        if let Some(band) = over {
            band.dropped.add(bytes);
        }
        over.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(bands: &[(u32, u32)]) -> Meter {
        let bands = bands.iter().map(|&(rate, burst)| BandConfig { rate, burst }).collect();
        Meter::new(MeterConfig { in_packets: true, bands }, 0)
    }

    #[test]
    fn a_bucket_empties_and_fills() {
        let meter = packets(&[(1, 2)]);
        assert_eq!([(); 3].map(|()| meter.admit(60, 0)), [true, true, false]);
        assert!(!meter.admit(60, 999));
        assert!(meter.admit(60, 1000));
        assert!(!meter.admit(60, 1000));
        assert_eq!([(); 3].map(|()| meter.admit(60, 1_000_000)), [true, true, false]);
        assert_eq!(meter.seen(), MeterCount { packets: 9, bytes: 540 });
        assert_eq!(meter.dropped(), [MeterCount { packets: 4, bytes: 240 }]);
    }

    #[test]
    fn the_highest_rate_that_is_exceeded_counts() {
        let meter = packets(&[(1, 1), (3, 3), (2, 2)]);
        assert_eq!([(); 4].map(|()| meter.admit(1, 0)), [true, false, false, false]);
        let dropped: Vec<u64> = meter.dropped().iter().map(|count| count.packets).collect();
        assert_eq!(dropped, [1, 1, 1]);
    }

    #[test]
    fn kilobits_count_bytes_and_do_not_overflow() {
        let bands = vec![BandConfig { rate: 4_294_967_295, burst: 4_294_967_295 }];
        let meter = Meter::new(MeterConfig { in_packets: false, bands }, 0);
        assert!(meter.admit(65_535, u64::MAX));
        let bands = vec![BandConfig { rate: 1, burst: 1 }];
        let meter = Meter::new(MeterConfig { in_packets: false, bands }, 5);
        assert_eq!(
            [meter.admit(100, 5), meter.admit(26, 5), meter.admit(25, 5)],
            [true, false, true]
        );
        assert_eq!(meter.dropped(), [MeterCount { packets: 1, bytes: 26 }]);
    }
}
