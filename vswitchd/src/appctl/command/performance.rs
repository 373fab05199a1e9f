//! `dpif-netdev/pmd-perf-*`: what poll threads do with their time, round by round.

use std::fmt::Write as _;

use dpif::datapath::ThreadStatus;
use dpif::pmd::metrics::{HISTORY, Histogram, IterationLog, MAX_AROUND, Metrics, Sample};
use dpif::pmd::statistics::Snapshot;
use netdev::cpu;
use serde_json::{Value, json};
use tracing::info;

use super::command;
use super::pmd::{choose, ratio, status_json, title};
use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

pub(super) const COMMANDS: &[Command] = &[
    command(
        "dpif-netdev/pmd-perf-show",
        "[-nh] [-it iter-history-len] [-ms ms-history-len] [-pmd core] [dp]",
        (0, 8),
        Handler::Now(show),
    ),
    command(
        "dpif-netdev/pmd-perf-log-set",
        "on|off [-b before] [-a after] [-e|-ne] [-us usec] [-q qlen]",
        (0, 10),
        Handler::Now(set_log),
    ),
];

/// Which parts of the metrics are shown.
struct Parts {
    histograms: bool,
    iterations: usize,
    milliseconds: usize,
}

impl Parts {
    /// Takes the options off the front of `arguments`; returns what is left too.
    fn parse(arguments: &[String]) -> (Self, &[String]) {
        let mut parts = Self { histograms: true, iterations: 0, milliseconds: 0 };
        let mut rest = arguments;
        // What is no number asks for nothing, as in Open vSwitch.
        let length = |text: &str| text.parse().unwrap_or(0).min(HISTORY);
        loop {
            rest = match rest {
                [option, behind @ ..] if option == "-nh" => {
                    parts.histograms = false;
                    behind
                }
                [option, number, behind @ ..] if option == "-it" => {
                    parts.iterations = length(number);
                    behind
                }
                [option, number, behind @ ..] if option == "-ms" => {
                    parts.milliseconds = length(number);
                    behind
                }
                _ => return (parts, rest),
            };
        }
    }

    fn text(&self, metrics: &Metrics) -> String {
        let mut text = String::new();
        if self.histograms {
            text = text + "\n" + &metrics.histograms_text();
        }
        if self.iterations > 0 {
            text = text + "\n" + &metrics.iterations_text(self.iterations);
        }
        if self.milliseconds > 0 {
            text = text + "\n" + &metrics.milliseconds_text(self.milliseconds);
        }
        text
    }

    fn json(&self, metrics: &Metrics) -> Value {
        let histogram = |histogram: &Histogram| -> Value {
            histogram.rows().map(|row| json!([row.wall, row.count])).collect()
        };
        let latest = |samples: &std::collections::VecDeque<Sample>, most| -> Value {
            samples.iter().rev().take(most).map(sample_json).collect()
        };
        json!({
            "histograms": self.histograms.then(|| json!({
                "cycles/it": histogram(&metrics.cycles),
                "packets/it": histogram(&metrics.packets),
                "cycles/pkt": histogram(&metrics.cycles_per_packet),
                "pkts/batch": histogram(&metrics.packets_per_batch),
                "upcalls/it": histogram(&metrics.upcalls),
                "cycles/upcall": histogram(&metrics.cycles_per_upcall),
            })),
            "iterations": latest(&metrics.iterations, self.iterations),
            "milliseconds": latest(&metrics.milliseconds, self.milliseconds),
            "totals": sample_json(&metrics.totals),
        })
    }
}

fn sample_json(sample: &Sample) -> Value {
    json!({
        "at": sample.at,
        "iterations": sample.iterations,
        "cycles": sample.cycles,
        "busy-cycles": sample.busy_cycles,
        "packets": sample.packets,
        "batches": sample.batches,
        "upcalls": sample.upcalls,
        "upcall-cycles": sample.upcall_cycles,
    })
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (parts, rest) = Parts::parse(&call.arguments);
    let choice = choose(daemon, rest)?;
    let threads = choice.threads().into_iter().map(|thread| {
        let metrics = thread.core.and_then(|core| choice.datapath.metrics(core.core));
        (thread, metrics)
    });
    Ok(match call.format {
        Format::Text => Output::Text(threads.fold(String::new(), |text, (thread, metrics)| {
            let details = metrics.map(|metrics| parts.text(&metrics)).unwrap_or_default();
            text + &overall_text(&thread) + &details
        })),
        Format::Json => Output::Json(
            threads
                .map(|(thread, metrics)| {
                    let mut json = status_json(&thread);
                    if let Some(metrics) = metrics {
                        json["metrics"] = parts.json(&metrics);
                    }
                    json
                })
                .collect(),
        ),
    })
}

/// What a thread has done in all, in the layout of Open vSwitch 4.0.
fn overall_text(thread: &ThreadStatus) -> String {
    let counters = &thread.counters;
    let now = jiff::Zoned::now();
    let seconds = thread.elapsed.as_secs_f64();
    let mut text = format!(
        "\nTime: {}\nMeasurement duration: {seconds:.3} s\n\n{}\n\n",
        now.strftime("%H:%M:%S%.3f"),
        title(thread)
    );
    if thread.elapsed.is_zero() {
        return text;
    }
    let mut line = |label: &str, value: u64, note: String| {
        let note = if note.is_empty() { note } else { format!("  ({note})") };
        let _ = writeln!(text, "  {label:<20}{value:>12}{note}");
    };
    let percent = |part: u64, whole: u64, of: &str| {
        let of = if of.is_empty() { String::new() } else { format!(" of {of}") };
        format!("{:5.1} %{of}", ratio(part, whole) * 100.0)
    };
    let microseconds = |cycles: u64| cycles as f64 * 1e6 / cpu::cycles_per_second() as f64;
    let has_iterations = thread.core.is_some();
    if has_iterations {
        let Snapshot { idle_iterations, busy_iterations, sleep_iterations, .. } = *counters;
        let iterations = idle_iterations + busy_iterations;
        let used = counters.idle_cycles + counters.busy_cycles;
        let total = (seconds * cpu::cycles_per_second() as f64) as u64;
        let each = microseconds(used + counters.sleep_cycles) / (iterations.max(1) as f64);
        line("Iterations:", iterations, format!("{each:.2} us/it"));
        line("- Used TSC cycles:", used, percent(used, total, "total cycles"));
        line(
            "- idle iterations:",
            idle_iterations,
            percent(counters.idle_cycles, used, "used cycles"),
        );
        line(
            "- busy iterations:",
            busy_iterations,
            percent(counters.busy_cycles, used, "used cycles"),
        );
        line(
            "- sleep iterations:",
            sleep_iterations,
            percent(sleep_iterations, iterations, "iterations"),
        );
        let slept = microseconds(counters.sleep_cycles);
        let each = slept / (sleep_iterations.max(1) as f64);
        line("Sleep time (us):", slept as u64, format!("{each:3.0} us/iteration avg."));
    }
    if counters.received == 0 {
        line("Rx packets:", 0, String::new());
    } else {
        let passes = counters.received + counters.recirculated;
        let rate = |packets: u64| packets as f64 / seconds.max(1e-9) / 1000.0;
        let cost = ratio(counters.busy_cycles, counters.received);
        let cost = if has_iterations { format!(", {cost:.0} cycles/pkt") } else { String::new() };
        line(
            "Rx packets:",
            counters.received,
            format!("{:.0} Kpps{cost}", rate(counters.received)),
        );
        let each = ratio(passes, counters.received);
        line("Datapath passes:", passes, format!("{each:.2} passes/pkt"));
        let share = |hits: u64| percent(hits, passes, "");
        line("- PHWOL hits:", counters.mark_hits, share(counters.mark_hits));
        line("- Simple Match hits:", counters.simple_hits, share(counters.simple_hits));
        line("- EMC hits:", counters.exact_hits, share(counters.exact_hits));
        line("- SMC hits:", counters.signature_hits, share(counters.signature_hits));
        let visits = ratio(counters.subtables_visited, counters.megaflow_hits);
        line(
            "- Megaflow hits:",
            counters.megaflow_hits,
            format!("{}, {visits:.2} subtbl lookups/hit", share(counters.megaflow_hits)),
        );
        let each = microseconds(counters.upcall_cycles) / (counters.upcalls.max(1) as f64);
        let each = if has_iterations { format!(", {each:.1} us/upcall") } else { String::new() };
        line("- Upcalls:", counters.upcalls, format!("{}{each}", share(counters.upcalls)));
        line("- Lost upcalls:", counters.lost_upcalls, share(counters.lost_upcalls));
    }
    if counters.sent == 0 {
        line("Tx packets:", 0, String::new());
        text.push('\n');
    } else {
        let rate = counters.sent as f64 / seconds.max(1e-9) / 1000.0;
        line("Tx packets:", counters.sent, format!("{rate:.0} Kpps"));
        let each = ratio(counters.sent, counters.sent_batches);
        line("Tx batches:", counters.sent_batches, format!("{each:.2} pkts/batch"));
    }
    text
}

/// Reads what is said on top of `log`.
fn parse_log(mut log: IterationLog, arguments: &[String]) -> Option<IterationLog> {
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next()?.parse::<u32>().ok();
        let around = |number: u32| (number as usize).min(MAX_AROUND);
        match argument {
            "on" => log.is_on = true,
            "off" => log.is_on = false,
            "-e" => log.extends = true,
            "-ne" => log.extends = false,
            "-b" => log.before = around(number()?),
            "-a" => log.after = around(number()?),
            "-us" => log.microseconds = number()?.into(),
            // The queues of guests, of which there are none here.
            "-q" => {
                number()?;
            }
            _ => return None,
        }
    }
    log.after = log.after.min(MAX_AROUND - log.before);
    Some(log)
}

fn set_log(daemon: &mut Daemon, call: &Call) -> Outcome {
    let log = parse_log(daemon.bridges.iteration_log(), &call.arguments).ok_or(
        "Usage: ovs-appctl dpif-netdev/pmd-perf-log-set [on|off] [-b before] [-a after] [-e|-ne] \
         [-us usec] [-q qlen]",
    )?;
    let IterationLog { is_on, before, after, extends, microseconds } = log;
    info!(
        target: "pmd_perf",
        "pmd-perf-log-set: {}, before={before}, after={after}, extend={extends}, \
         us_thr={microseconds}\n",
        if is_on { "on" } else { "off" }
    );
    daemon.bridges.set_iteration_log(log);
    Ok(Output::none())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dpif::WorkerId;
    use dpif::pmd::assign::Core;

    use super::*;

    fn texts(arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn options_bound_the_history() {
        let arguments = texts(&["-nh", "-it", "20", "-ms", "2000", "-pmd", "1"]);
        let (parts, rest) = Parts::parse(&arguments);
        assert_eq!((parts.histograms, parts.iterations, parts.milliseconds), (false, 20, HISTORY));
        assert_eq!(rest, ["-pmd", "1"]);
    }

    #[test]
    fn logs_of_iterations_are_read_on_top_of_what_was() {
        let parse = |arguments: &[&str]| parse_log(IterationLog::default(), &texts(arguments));
        let default = IterationLog::default();
        assert_eq!(
            parse(&["on", "-b", "3", "-a", "9", "-e", "-us", "100", "-q", "64"]),
            Some(IterationLog {
                is_on: true,
                before: 3,
                after: 9,
                extends: true,
                microseconds: 100
            })
        );
        assert_eq!(
            parse(&["-b", "5000", "-a", "7"]),
            Some(IterationLog { before: MAX_AROUND, after: 0, ..default })
        );
        for bad in [&["-b"][..], &["-us", "x"], &["maybe"]] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_poll_threads_have_iterations() {
        let counters = Snapshot {
            received: 20,
            exact_hits: 19,
            upcalls: 1,
            sent: 20,
            sent_batches: 10,
            busy_iterations: 4,
            busy_cycles: 2000,
            ..Snapshot::default()
        };
        let thread = |core: Option<Core>| ThreadStatus {
            id: core.map_or(WorkerId::Main, |core| WorkerId::Core(core.core)),
            core,
            counters,
            elapsed: Duration::from_secs(1),
            is_isolated: false,
            max_sleep: 0,
            queues: vec![],
            load: std::sync::Arc::default(),
        };
        let main = overall_text(&thread(None));
        let lines: Vec<_> = main.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "",
                "main thread:",
                "",
                "  Rx packets:                   20  (0 Kpps)",
                "  Datapath passes:              20  (1.00 passes/pkt)",
                "  - PHWOL hits:                  0  (  0.0 %)",
                "  - Simple Match hits:           0  (  0.0 %)",
                "  - EMC hits:                   19  ( 95.0 %)",
                "  - SMC hits:                    0  (  0.0 %)",
                "  - Megaflow hits:               0  (  0.0 %, 0.00 subtbl lookups/hit)",
                "  - Upcalls:                     1  (  5.0 %)",
                "  - Lost upcalls:                0  (  0.0 %)",
                "  Tx packets:                   20  (0 Kpps)",
                "  Tx batches:                   10  (2.00 pkts/batch)",
            ]
        );
        let polling = overall_text(&thread(Some(Core { numa: 1, core: 2 })));
        let lines: Vec<_> = polling.lines().skip(4).collect();
        assert_eq!(lines[0], "pmd thread numa_id 1 core_id 2:");
        assert_eq!(lines[8], "  Rx packets:                   20  (0 Kpps, 100 cycles/pkt)");
        assert!(lines[15].ends_with("us/upcall)"), "{}", lines[15]);
    }
}
