//! Tables of measurements.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A name, and what measures once.
pub(super) type Variant<'a> = (&'a str, Box<dyn FnMut() -> f64 + 'a>);

#[expect(clippy::print_stdout, reason = "a benchmark prints its tables")]
pub(super) fn say(line: &str) {
    println!("{line}");
}

/// Processor time of this thread: others may be at work on the machine.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn middle(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Median of `samples`, and the interval that 95 % of the medians of resampled ones lie in.
fn interval(samples: &[f64]) -> [f64; 3] {
    let mut state = 1u64;
    let mut resampled = || {
        let of = (0..samples.len()).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            samples[(state >> 33) as usize % samples.len()]
        });
        middle(&mut of.collect::<Vec<_>>())
    };
    let mut medians: Vec<f64> = (0..1000).map(|_| resampled()).collect();
    medians.sort_by(f64::total_cmp);
    [middle(&mut samples.to_vec()), medians[25], medians[974]]
}

/// Runs variants in turn, forward and backward, and returns the samples of each.
pub(super) fn interleave<T>(
    rounds: usize,
    variants: &mut [Box<dyn FnMut() -> T + '_>],
) -> Vec<Vec<T>> {
    let mut samples: Vec<Vec<T>> = variants.iter().map(|_| vec![]).collect();
    for round in 0..=rounds {
        let mut order: Vec<usize> = (0..variants.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let sample = variants[index]();
            // The first round warms up.
            if round > 0 {
                samples[index].push(sample);
            }
        }
    }
    samples
}

/// Tells of one row of one table in this process.
pub(super) fn tell(title: &str, unit: &str, row: &str, mut samples: Vec<f64>) {
    say(&format!("{title}\t{unit}\t{row}\t{}", middle(&mut samples)));
}

/// Measures the rows of a table.
pub(super) fn measure(title: &str, unit: &str, rounds: usize, variants: Vec<Variant<'_>>) {
    let (names, mut runs): (Vec<_>, Vec<_>) = variants.into_iter().unzip();
    for (name, samples) in names.into_iter().zip(interleave(rounds, &mut runs)) {
        tell(title, unit, name, samples);
    }
}

/// Prints the tables of what several processes have told.
pub(super) fn summarize(runs: &[String]) {
    let mut order: Vec<[String; 3]> = vec![];
    let mut values: BTreeMap<[String; 3], Vec<f64>> = BTreeMap::new();
    for line in runs.iter().flat_map(|run| run.lines()) {
        let Ok([title, unit, row, value]) =
            <[&str; 4]>::try_from(line.split('\t').collect::<Vec<_>>())
        else {
            continue;
        };
        let name = [title, unit, row].map(str::to_owned);
        if !values.contains_key(&name) {
            order.push(name.clone());
        }
        values.entry(name).or_default().push(value.parse().unwrap());
    }
    say(&format!("Medians over {} processes, with 95 % intervals.", runs.len()));
    for rows in order.chunk_by(|row, next| row[..2] == next[..2]) {
        let [title, unit, _] = &rows[0];
        say(&format!("\n{title} ({unit})"));
        let first = &values[&rows[0]];
        for row in rows {
            let samples = &values[row];
            let [center, low, high] = interval(samples);
            let of_first = samples.iter().zip(first).map(|(sample, first)| sample / first);
            let [part, least, most] = interval(&of_first.collect::<Vec<_>>());
            say(&format!(
                "  {:<44} {center:>9.2} [{low:.2}, {high:.2}]   {part:.3} [{least:.3}, {most:.3}]",
                row[2]
            ));
        }
    }
}
