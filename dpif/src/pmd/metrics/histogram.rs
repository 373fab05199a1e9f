//! Distributions of numbers.

/// Bins of a histogram. The last takes everything above the others.
const BINS: usize = 32;

/// How often numbers occurred, by bins whose bounds are fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Highest number of each bin, ascending.
    walls: [u64; BINS],
    counts: [u64; BINS],
}

/// A bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramRow {
    /// Its highest number; none for the last bin.
    pub wall: Option<u64>,
    /// Numbers in it.
    pub count: u64,
}

impl Histogram {
    /// A histogram whose bins but the last end at equal distances from `least` to `most`.
    pub(super) fn linear(least: u64, most: u64) -> Self {
        let wall = |bin: usize| match bin {
            ..31 => least + bin as u64 * (most - least) / (BINS as u64 - 2),
            _ => u64::MAX,
        };
        Self { walls: std::array::from_fn(wall), counts: [0; BINS] }
    }

    /// A histogram whose bins get wider by the same factor each, where whole numbers allow it.
    /// With `least` 0 the first bin is that of 0.
    pub(super) fn logarithmic(least: u64, most: u64) -> Self {
        let (first, lowest) = if least == 0 { (1, 1.0) } else { (0, least as f64) };
        let (low, high) = (f64::ln(lowest), f64::ln(most as f64));
        let steps = BINS - 2 - first;
        let mut next = first as u64;
        let mut walls = [0; BINS];
        for (step, wall) in walls.iter_mut().skip(first).take(steps + 1).enumerate() {
            let exact = f64::exp(low + step as f64 * (high - low) / steps as f64);
            *wall = next.max(exact as u64);
            next = *wall + 1;
        }
        let [.., last_but_one, last] = &mut walls;
        *last_but_one = (*last_but_one).max(most);
        *last = u64::MAX;
        Self { walls, counts: [0; BINS] }
    }

    /// Counts a number.
    pub(super) fn add(&mut self, number: u64) {
        self.add_times(number, 1);
    }

    /// Counts a number several times.
    pub(super) fn add_times(&mut self, number: u64, times: u64) {
        let bin = self.walls.partition_point(|wall| *wall < number);
        if let Some(count) = self.counts.get_mut(bin) {
            *count += times;
        }
    }

    /// The bins, from the lowest numbers on.
    pub fn rows(&self) -> impl Iterator<Item = HistogramRow> {
        let rows = self.walls.iter().zip(&self.counts);
        rows.map(|(wall, count)| HistogramRow {
            wall: (*wall != u64::MAX).then_some(*wall),
            count: *count,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn walls(histogram: &Histogram) -> Vec<u64> {
        histogram.rows().filter_map(|row| row.wall).collect()
    }

    #[test]
    fn bounds_are_those_that_operators_know() {
        let batches = walls(&Histogram::linear(0, 32));
        assert_eq!(batches.len(), 31);
        assert_eq!((batches[..4].to_vec(), batches[30]), (vec![0, 1, 2, 3], 32));
        let packets = walls(&Histogram::logarithmic(0, 1000));
        assert!(packets[..12].iter().copied().eq(0..12));
        assert_eq!(packets[12..16], [13, 17, 22, 28]);
        assert_eq!(packets[28..], [621, 788, 1000]);
        let cycles = walls(&Histogram::logarithmic(500, 24_000_000));
        assert_eq!((cycles[0], cycles[1], cycles[30]), (499, 716, 24_000_000));
    }

    proptest! {
        #[test]
        fn numbers_count_in_the_first_bin_that_takes_them(numbers in prop::collection::vec(0u64..2000, 0..50)) {
            let mut histogram = Histogram::logarithmic(0, 1000);
            numbers.iter().for_each(|number| histogram.add(*number));
            let mut least = 0;
            for row in histogram.rows() {
                let most = row.wall.unwrap_or(u64::MAX);
                let expected = numbers.iter().filter(|number| (least..=most).contains(*number));
                prop_assert_eq!(row.count, expected.count() as u64);
                least = most.wrapping_add(1);
            }
        }
    }
}
