//! `make bench-offload`: what offload costs and saves.
//!
//! Variants run interleaved, forward and backward, and each run takes their medians. That is done in
//! several processes, since where tables happen to lie in memory alone moves figures: what is printed
//! is the median over processes with a 95 % bootstrap interval, and beside it the median of what the
//! row is of the first row of its table in the same process.

mod installation;
mod lookup;
mod path;
mod rules;
mod table;

use std::process::Command;

use table::{say, summarize};

/// Processes, unless `SLUICE_BENCH_RUNS` says how many.
const RUNS: usize = 10;

#[test]
#[ignore = "a benchmark: make bench-offload"]
fn bench_offload() {
    let asked = std::env::var("SLUICE_BENCH_RUNS").ok().and_then(|runs| runs.parse().ok());
    let runs: Vec<String> = (0..asked.unwrap_or(RUNS))
        .map(|_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--ignored", "--exact", "--nocapture", "offload::bench::one_run"]);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    summarize(&runs);
}

/// What each process of [`bench_offload`] does.
#[test]
#[ignore = "a part of a benchmark: make bench-offload"]
fn one_run() {
    // The name of the test is on the line so far.
    say("");
    lookup::lookups_for_recovery();
    lookup::marks_and_caches();
    rules::rates();
    installation::flows_to_marks();
    installation::upcalls();
}
