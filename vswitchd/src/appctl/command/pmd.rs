//! `dpif-netdev/*`: what the threads of the datapath do, and how well.

use std::fmt::Write as _;

use dpif::datapath::{Datapath, ThreadStatus};
use dpif::pmd::statistics::{LOAD_INTERVAL, LOAD_INTERVALS, Snapshot};
use serde_json::{Value, json};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::{command, find_datapath};

const NO_DATAPATH: &str = "please specify an existing datapath";

pub(super) const COMMANDS: &[Command] = &[
    command("dpif-netdev/pmd-stats-show", "[-pmd core] [dp]", (0, 3), Handler::Now(show)),
    command("dpif-netdev/pmd-stats-clear", "[-pmd core] [dp]", (0, 3), Handler::Now(clear)),
    command(
        "dpif-netdev/pmd-rxq-show",
        "[-pmd core] [-secs secs] [dp]",
        (0, 5),
        Handler::Now(show_queues),
    ),
    command("dpif-netdev/pmd-sleep-show", "[dp]", (0, 1), Handler::Now(show_sleeps)),
    command("dpif-netdev/pmd-rxq-rebalance", "[dp]", (0, 1), Handler::Now(rebalance)),
];

/// What the arguments of these commands choose.
pub(super) struct Choice<'a> {
    pub(super) datapath: &'a Datapath,
    /// The core of the one thread that is asked for.
    core: Option<u32>,
    /// Seconds to look back.
    seconds: Option<u64>,
}

impl Choice<'_> {
    /// The chosen threads.
    pub(super) fn threads(&self) -> Vec<ThreadStatus> {
        let threads = self.datapath.thread_status().into_iter();
        threads
            .filter(|thread| {
                self.core.is_none_or(|core| thread.core.is_some_and(|own| own.core == core))
            })
            .collect()
    }
}

pub(super) fn choose<'a>(daemon: &'a Daemon, arguments: &[String]) -> Result<Choice<'a>, String> {
    let mut arguments = arguments.iter().map(String::as_str);
    let (mut core, mut seconds, mut name) = (None, None, None);
    let number = |option: &str, text: Option<&str>| {
        let text = text.ok_or_else(|| format!("{option} needs a number"))?;
        text.parse::<u32>().map_err(|_| format!("{option}: \"{text}\" is not a number"))
    };
    while let Some(argument) = arguments.next() {
        match argument {
            "-pmd" => core = Some(number(argument, arguments.next())?),
            // What is no number of seconds asks for all there is, as in Open vSwitch.
            "-secs" => {
                let number = arguments.next().and_then(|text| text.parse().ok());
                seconds = number.filter(|seconds| *seconds > 0);
            }
            _ => name = Some(argument),
        }
    }
    let datapath = find_datapath(daemon, name).ok_or(NO_DATAPATH)?;
    Ok(Choice { datapath, core, seconds })
}

/// How a thread is called.
pub(super) fn title(thread: &ThreadStatus) -> String {
    match thread.core {
        Some(core) => format!("pmd thread numa_id {} core_id {}:", core.numa, core.core),
        None => "main thread:".to_owned(),
    }
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let choice = choose(daemon, &call.arguments)?;
    let threads = choice.threads();
    Ok(match call.format {
        Format::Text => Output::Text(threads.iter().map(stats_text).collect()),
        Format::Json => Output::Json(threads.iter().map(status_json).collect()),
    })
}

fn clear(daemon: &mut Daemon, call: &Call) -> Outcome {
    let choice = choose(daemon, &call.arguments)?;
    choice.datapath.clear_statistics(choice.core);
    Ok(Output::none())
}

pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The layout of Open vSwitch 3.x, which tells the cycles that a packet costs.
fn stats_text(thread: &ThreadStatus) -> String {
    let counters = &thread.counters;
    let passes = counters.received + counters.recirculated;
    let cycles = counters.idle_cycles + counters.busy_cycles;
    let mut text = title(thread);
    let mut line = |label: &str, value: String| {
        let _ = write!(text, "\n  {label}: {value}");
    };
    line("packets received", counters.received.to_string());
    line("packet recirculations", counters.recirculated.to_string());
    line("avg. datapath passes per packet", format!("{:.2}", ratio(passes, counters.received)));
    line("phwol hits", counters.mark_hits.to_string());
    line("mfex opt hits", "0".to_owned());
    line("simple match hits", counters.simple_hits.to_string());
    line("emc hits", counters.exact_hits.to_string());
    line("smc hits", counters.signature_hits.to_string());
    line("megaflow hits", counters.megaflow_hits.to_string());
    line(
        "avg. subtable lookups per megaflow hit",
        format!("{:.2}", ratio(counters.subtables_visited, counters.megaflow_hits)),
    );
    line("miss with success upcall", counters.upcalls.to_string());
    line("miss with failed upcall", counters.lost_upcalls.to_string());
    line(
        "avg. packets per output batch",
        format!("{:.2}", ratio(counters.sent, counters.sent_batches)),
    );
    if cycles > 0 {
        let part = |part: u64| format!("{part} ({:.2}%)", ratio(part, cycles) * 100.0);
        line("idle cycles", part(counters.idle_cycles));
        line("processing cycles", part(counters.busy_cycles));
    }
    if cycles > 0 && counters.received > 0 {
        let per_packet = |cycles: u64| {
            format!("{:.2} ({cycles}/{})", ratio(cycles, counters.received), counters.received)
        };
        line("avg cycles per packet", per_packet(cycles));
        line("avg processing cycles per packet", per_packet(counters.busy_cycles));
    }
    text + "\n"
}

pub(super) fn status_json(thread: &ThreadStatus) -> Value {
    let Snapshot { received, recirculated, busy_cycles, idle_cycles, sleep_cycles, .. } =
        thread.counters;
    let counters = &thread.counters;
    let core = thread.core.map(|core| json!({"core-id": core.core, "numa-id": core.numa}));
    json!({
        "thread": core.unwrap_or_else(|| json!("main")),
        "seconds": thread.elapsed.as_secs_f64(),
        "packets-received": received,
        "packet-recirculations": recirculated,
        "phwol-hits": counters.mark_hits,
        "simple-match-hits": counters.simple_hits,
        "emc-hits": counters.exact_hits,
        "smc-hits": counters.signature_hits,
        "megaflow-hits": counters.megaflow_hits,
        "subtable-lookups": counters.subtables_visited,
        "upcalls": counters.upcalls,
        "lost-upcalls": counters.lost_upcalls,
        "upcall-cycles": counters.upcall_cycles,
        "packets-sent": counters.sent,
        "batches-sent": counters.sent_batches,
        "idle-cycles": idle_cycles,
        "processing-cycles": busy_cycles,
        "sleep-cycles": sleep_cycles,
    })
}

fn show_queues(daemon: &mut Daemon, call: &Call) -> Outcome {
    let choice = choose(daemon, &call.arguments)?;
    let interval = LOAD_INTERVAL.as_secs();
    let longest = interval * LOAD_INTERVALS as u64;
    let seconds = choice.seconds.unwrap_or(longest).clamp(interval, longest);
    let seconds = seconds.next_multiple_of(interval);
    let intervals = (seconds / interval) as usize;
    let usage = |cycles: u64, total: u64| match total {
        0 => "NOT AVAIL".to_owned(),
        _ => format!("{:2.0} %", ratio(cycles, total) * 100.0),
    };
    // What a busy thread did beside the work on its queues.
    let overhead = |thread: &ThreadStatus| {
        let queues = thread.queues.iter().map(|queue| queue.load.cycles(intervals));
        thread.load.busy.cycles(intervals).saturating_sub(queues.sum())
    };
    let threads = choice.threads();
    let polling = || threads.iter().filter(|thread| thread.core.is_some());
    if call.format == Format::Json {
        let threads = polling().map(|thread| {
            let queues = thread.queues.iter().map(|queue| {
                json!({
                    "port": queue.name,
                    "queue-id": queue.queue,
                    "cycles": queue.load.cycles(intervals),
                })
            });
            json!({
                "core-id": thread.core.map(|core| core.core),
                "numa-id": thread.core.map(|core| core.numa),
                "isolated": thread.is_isolated,
                "queues": queues.collect::<Vec<_>>(),
                "overhead-cycles": overhead(thread),
                "total-cycles": thread.load.total.cycles(intervals),
            })
        });
        return Ok(Output::Json(threads.collect()));
    }
    let mut text = format!("Displaying last {seconds} seconds pmd usage %\n");
    for thread in polling() {
        let _ = writeln!(text, "{}\n  isolated : {}", title(thread), thread.is_isolated);
        // One interval alone may be a short one.
        let is_known = thread.load.total.past(2).is_some();
        let total = if is_known { thread.load.total.cycles(intervals) } else { 0 };
        for queue in &thread.queues {
            let cycles = queue.load.cycles(intervals);
            let _ = writeln!(
                text,
                "  port: {:<16}  queue-id: {:2} (enabled)   pmd usage: {}",
                queue.name,
                queue.queue,
                usage(cycles, total)
            );
        }
        if !thread.queues.is_empty() {
            let _ = writeln!(text, "  overhead: {}", usage(overhead(thread), total));
        }
    }
    Ok(Output::Text(text))
}

fn rebalance(daemon: &mut Daemon, call: &Call) -> Outcome {
    let datapath = find_datapath(daemon, call.argument(0)).ok_or(NO_DATAPATH)?;
    let name = datapath.name().to_owned();
    daemon.bridges.rebalance(&name);
    Ok(Output::Text("pmd rxq rebalance requested.\n".to_owned()))
}

fn show_sleeps(daemon: &mut Daemon, call: &Call) -> Outcome {
    let choice = choose(daemon, &call.arguments)?;
    let default = choice.datapath.pmd_settings().max_sleep;
    let threads = choice.threads();
    let polling = threads.iter().filter(|thread| thread.core.is_some());
    if call.format == Format::Json {
        let threads = polling.map(|thread| {
            json!({"core-id": thread.core.map(|core| core.core), "max-sleep": thread.max_sleep})
        });
        let threads: Vec<_> = threads.collect();
        return Ok(Output::Json(json!({"default-max-sleep": default, "threads": threads})));
    }
    let mut text = format!("Default max sleep: {default:4} us\n");
    for thread in polling {
        let _ = writeln!(text, "{}\n  max sleep: {:4} us", title(thread), thread.max_sleep);
    }
    Ok(Output::Text(text))
}
