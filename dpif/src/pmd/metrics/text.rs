//! Metrics as operators read them.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::{Histogram, HistogramRow, Metrics, Sample};

fn per(total: u64, count: u64) -> u64 {
    total.checked_div(count).unwrap_or(0)
}

fn ratio(total: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { total as f64 / count as f64 }
}

/// The latest rounds, at most so many, the latest first.
pub(super) fn iteration_history(rounds: &VecDeque<Sample>, most: usize) -> String {
    let mut text = format!(
        "   {:<17}   {:<10}   {:<10}   {:<10}   {:<10}   {:<10}   {:<10}   {:<10}\n",
        "iter",
        "cycles",
        "packets",
        "cycles/pkt",
        "pkts/batch",
        "vhost qlen",
        "upcalls",
        "cycles/upcall"
    );
    for round in rounds.iter().rev().take(most) {
        let Sample { at, cycles, packets, batches, upcalls, upcall_cycles, .. } = *round;
        let _ = writeln!(
            text,
            "   {at:<17}   {cycles:<11}  {packets:<11}  {:<11}  {:<11}  {:<11}  {upcalls:<11}  {:<11}",
            per(cycles, packets),
            per(packets, batches),
            0,
            per(upcall_cycles, upcalls)
        );
    }
    text
}

impl Metrics {
    /// The histograms beside each other, and the means below them.
    pub fn histograms_text(&self) -> String {
        let mut text = String::from("Histograms\n");
        let titles = |text: &mut String, queue_length: &str| {
            let _ = writeln!(
                text,
                "   {:<21}  {:<21}  {:<21}  {:<21}  {queue_length:<21}  {:<21}  {:<21}",
                "cycles/it",
                "packets/it",
                "cycles/pkt",
                "pkts/batch",
                "upcalls/it",
                "cycles/upcall"
            );
        };
        titles(&mut text, "max vhost qlen");
        // No port here tells how full the queue of a guest is.
        let mut queue_lengths = Histogram::logarithmic(0, 512);
        queue_lengths.add_times(0, self.cycles.rows().map(|row| row.count).sum());
        let mut columns = [
            &self.cycles,
            &self.packets,
            &self.cycles_per_packet,
            &self.packets_per_batch,
            &queue_lengths,
            &self.upcalls,
            &self.cycles_per_upcall,
        ]
        .map(|histogram| histogram.rows());
        while let [Some(first), rest @ ..] = columns.each_mut().map(Iterator::next) {
            let cells = [first].into_iter().chain(rest.into_iter().flatten());
            let cells = cells.map(|HistogramRow { wall, count }| {
                let wall = wall.map_or(">".to_owned(), |wall| wall.to_string());
                format!("{wall:<9} {count:<11}")
            });
            let _ = writeln!(text, "   {}", cells.collect::<Vec<_>>().join("  "));
        }
        let _ = writeln!(text, "{}", "-".repeat(154));
        titles(&mut text, "vhost qlen");
        let Sample {
            iterations,
            cycles,
            busy_cycles,
            packets,
            batches,
            upcalls,
            upcall_cycles,
            ..
        } = self.totals;
        let _ = writeln!(
            text,
            "   {:<21}  {:<21.5}  {:<21}  {:<21.5}  {:<21.5}  {:<21.5}  {:<21}",
            per(cycles, iterations),
            ratio(packets, iterations),
            per(busy_cycles, packets),
            ratio(packets, batches),
            0.0,
            ratio(upcalls, iterations),
            per(upcall_cycles, upcalls)
        );
        text
    }

    /// The latest rounds, at most so many, the latest first.
    pub fn iterations_text(&self, most: usize) -> String {
        iteration_history(&self.iterations, most)
    }

    /// The latest milliseconds, at most so many, the latest first.
    pub fn milliseconds_text(&self, most: usize) -> String {
        let mut text = format!(
            "   {:<12}   {:<10}   {:<10}   {:<10}   {:<10}   {:<10}   {:<10}   {:<10}   {:<10}\n",
            "ms",
            "iterations",
            "cycles/it",
            "Kpps",
            "cycles/pkt",
            "pkts/batch",
            "vhost qlen",
            "upcalls",
            "cycles/upcall"
        );
        for sample in self.milliseconds.iter().rev().take(most) {
            let Sample { at, iterations, cycles, busy_cycles, packets, .. } = *sample;
            let Sample { batches, upcalls, upcall_cycles, .. } = *sample;
            let _ = writeln!(
                text,
                "   {at:<12}   {iterations:<11}  {:<11}  {packets:<11}  {:<11}  {:<11}  {:<11}  \
                 {upcalls:<11}  {:<11}",
                per(cycles, iterations),
                per(busy_cycles, packets),
                per(packets, batches),
                0,
                per(upcall_cycles, upcalls)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::IterationLog;
    use super::*;

    fn metrics() -> Metrics {
        let mut metrics = Metrics::new(IterationLog::default());
        metrics.end_iteration(5, 600, 0);
        metrics.batch(32);
        metrics.batch(1);
        metrics.upcall(4000);
        metrics.end_iteration(5, 66_000, 33);
        metrics.end_iteration(6, 400, 0);
        metrics
    }

    #[test]
    fn histories_start_with_the_latest() {
        assert_eq!(
            metrics().iterations_text(2),
            "   iter                cycles       packets      cycles/pkt   pkts/batch   \
             vhost qlen   upcalls      cycles/upcall\n   \
             3                   400          0            0            0            0            \
             0            0          \n   \
             2                   66000        33           2000         16           0            \
             1            4000       \n"
        );
        assert_eq!(
            metrics().milliseconds_text(9),
            "   ms             iterations   cycles/it    Kpps         cycles/pkt   pkts/batch   \
             vhost qlen   upcalls      cycles/upcall\n   \
             5              2            33300        33           2000         16           \
             0            1            4000       \n"
        );
    }

    #[test]
    fn histograms_have_a_row_for_each_bin() {
        let text = metrics().histograms_text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 32 + 3);
        assert_eq!(
            lines[2],
            [
                "   499       1          ",
                "0         2          ",
                "100       0          ",
                "0         0          ",
                "0         3          ",
                "0         2          ",
                "999       0          "
            ]
            .join("  ")
        );
        let last = [">         0          "; 7].join("  ");
        assert_eq!(lines[33], format!("   {last}"));
        assert_eq!(lines[34], "-".repeat(154));
        assert_eq!(
            lines[36],
            [
                "   33300                ",
                "16.50000             ",
                "2000                 ",
                "16.50000             ",
                "0.00000              ",
                "0.50000              ",
                "4000                 "
            ]
            .join("  ")
        );
    }
}
