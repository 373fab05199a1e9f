//! PMD auto load balance: dealing queues out anew when a poll thread has too much to do
//! (`pmd-auto-lb` and what goes with it).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use netdev::clock;
use tracing::{debug, info};

use super::{Datapath, PortNumber};
use crate::flow_table::WorkerId;
use crate::pmd::assign::{Algorithm, Core, Queue, assign};
use crate::pmd::statistics::{LOAD_INTERVALS, ThreadLoad};

/// When queues are dealt out anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceSettings {
    /// Whether they are (`pmd-auto-lb`).
    pub is_enabled: bool,
    /// Minutes between two looks at the load (`pmd-auto-lb-rebal-interval`).
    pub interval: u64,
    /// Percentage of a thread's time from which on it has too much to do
    /// (`pmd-auto-lb-load-threshold`).
    pub load_threshold: u64,
    /// Percentage by which the variance of the load has to get smaller
    /// (`pmd-auto-lb-improvement-threshold`).
    pub improvement_threshold: u64,
}

impl Default for BalanceSettings {
    fn default() -> Self {
        Self { is_enabled: false, interval: 1, load_threshold: 95, improvement_threshold: 25 }
    }
}

/// What is known about the balance of a datapath.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// The settings that the log has told of.
    logged: Option<BalanceSettings>,
    /// When the load was last looked at.
    checked: Option<Duration>,
    /// Whether queues were placed since then.
    pub(super) is_changed: bool,
    /// Whether another placement can make a difference, as of then.
    can_differ: bool,
}

impl Balance {
    /// Tells the log of new settings.
    pub(super) fn log(&mut self, settings: BalanceSettings) {
        let BalanceSettings { is_enabled, interval, load_threshold, improvement_threshold } =
            settings;
        let old = self.logged.replace(settings);
        let is_new =
            |value: fn(&BalanceSettings) -> u64| old.as_ref().map(value) != Some(value(&settings));
        let parts = [
            (is_new(|new| new.interval), format!("interval set to {interval} mins\n")),
            (
                is_new(|new| new.improvement_threshold),
                format!("improvement threshold set to {improvement_threshold}%"),
            ),
            (is_new(|new| new.load_threshold), format!("load threshold set to {load_threshold}%")),
        ];
        for (_, text) in parts.iter().filter(|(is_new, _)| *is_new) {
            info!(target: "dpif_netdev", "PMD auto load balance {text}");
        }
        if old == Some(settings) {
            return;
        }
        if is_enabled {
            info!(
                target: "dpif_netdev",
                "PMD auto load balance is enabled, interval {interval} mins, pmd load threshold \
                 {load_threshold}%, improvement threshold {improvement_threshold}%."
            );
        } else {
            self.checked = None;
            info!(target: "dpif_netdev", "PMD auto load balance is disabled.");
        }
    }
}

/// The percentages of time that a thread was busy in each of the past intervals, the latest first.
fn busy_percentages(load: &ThreadLoad) -> impl Iterator<Item = u64> {
    (1..=LOAD_INTERVALS).map_while(|back| {
        let (busy, total) = (load.busy.past(back)?, load.total.past(back)?);
        Some((busy * 100).checked_div(total).unwrap_or(0))
    })
}

/// The variance of numbers, in whole ones.
fn variance(numbers: &[u64]) -> u64 {
    let count = numbers.len() as u64;
    let sum: u64 = numbers.iter().sum();
    let mean = sum.checked_div(count).unwrap_or(0);
    let squares: u64 = numbers.iter().map(|number| number.abs_diff(mean).pow(2)).sum();
    squares.checked_div(count).unwrap_or(0)
}

impl Datapath {
    /// When the load is to be looked at next, by the switch's clock.
    pub fn balance_due(&self) -> Option<Duration> {
        let settings = self.settings.balance;
        let interval = Duration::from_secs(60 * settings.interval);
        let due = self.balance.checked.map_or(Duration::ZERO, |checked| checked + interval);
        settings.is_enabled.then_some(due)
    }

    /// Looks at the load of poll threads if it is time to, and deals the queues out anew if that
    /// would make it more even.
    pub fn balance(&mut self) {
        let now = clock::now();
        if self.balance_due().is_none_or(|due| due > now) {
            return;
        }
        // It is not before one interval that there is something to look at.
        if self.balance.checked.replace(now).is_none() {
            return;
        }
        let threshold = self.settings.balance.load_threshold;
        let is_overloaded = |load: &ThreadLoad| {
            let busy = busy_percentages(load).filter(|percentage| *percentage >= threshold);
            busy.count() == LOAD_INTERVALS
        };
        let mut threads = self.threads.values();
        let is_needed = threads.any(|thread| !thread.is_isolated && is_overloaded(&thread.load));
        if is_needed && self.can_differ() && self.would_be_better() {
            info!(
                target: "dpif_netdev",
                "PMD auto load balance dry run. Requesting datapath reconfigure."
            );
            self.rebalance();
        }
    }

    /// Whether there is any choice in placing queues.
    fn can_differ(&mut self) -> bool {
        if !std::mem::take(&mut self.balance.is_changed) {
            if !self.balance.can_differ {
                debug!(
                    target: "dpif_netdev",
                    "PMD auto load balance nothing to do, no configuration changes since last \
                     check."
                );
            }
            return self.balance.can_differ;
        }
        let status = self.thread_status();
        let mut shared =
            status.iter().filter(|thread| thread.core.is_some() && !thread.is_isolated);
        let is_round_robin = self.settings.algorithm == Algorithm::RoundRobin;
        let is_choice = shared.clone().count() > 1 && shared.any(|thread| thread.queues.len() > 1);
        if is_round_robin {
            debug!(
                target: "dpif_netdev",
                "PMD auto load balance nothing to do, pmd-rxq-assign=roundrobin assignment type \
                 configured."
            );
        } else if !is_choice {
            debug!(
                target: "dpif_netdev",
                "PMD auto load balance nothing to do, not enough non-isolated PMDs or RxQs."
            );
        }
        self.balance.can_differ = is_choice && !is_round_robin;
        self.balance.can_differ
    }

    /// Whether another placement of queues would spread the load more evenly, by enough on any
    /// NUMA node.
    fn would_be_better(&self) -> bool {
        debug!(target: "dpif_netdev", "PMD auto load balance performing dry run.");
        let queues = self.polled_queues();
        let cores: Vec<Core> = self.threads.keys().copied().collect();
        let placement = assign(&queues, &cores, self.settings.algorithm, self.settings.isolate);
        placement.notes.iter().for_each(|note| debug!(target: "dpif_netdev", "{note}"));
        let crosses = |(queue, core): (&Queue, &Option<Core>)| {
            core.is_some_and(|core| {
                queue.pinned.is_none()
                    && core.numa != queue.numa
                    && !placement.isolated.contains(&core)
            })
        };
        let nodes: BTreeSet<u32> = cores.iter().map(|core| core.numa).collect();
        if nodes.len() > 1 && queues.iter().zip(&placement.cores).any(crosses) {
            debug!(
                target: "dpif_netdev",
                "PMD auto load balance detected cross-numa polling with multiple numa nodes. \
                 Unable to accurately estimate."
            );
            return false;
        }
        let now = self.current_cores();
        let current = queues.iter().map(|queue| now.get(&(queue.port, queue.queue)).copied());
        let current: Vec<_> = current.collect();
        let threshold = self.settings.balance.improvement_threshold;
        let mut is_met = false;
        for node in nodes {
            let isolated_now =
                |core: &Core| self.threads.get(core).is_some_and(|thread| thread.is_isolated);
            let current = variance(&self.busy_on(node, &queues, &current, isolated_now));
            let isolated_then = |core: &Core| placement.isolated.contains(core);
            let estimate = variance(&self.busy_on(node, &queues, &placement.cores, isolated_then));
            let gain = current.saturating_sub(estimate);
            let improvement = (gain * 100).checked_div(current).unwrap_or(0);
            debug!(
                target: "dpif_netdev",
                "Numa node {node}. Current variance {current} Estimated variance {estimate}. \
                 Variance improvement {improvement}%."
            );
            is_met |= improvement >= threshold;
        }
        let met = if is_met { "met" } else { "not met" };
        debug!(
            target: "dpif_netdev",
            "PMD load variance improvement threshold {threshold}% is {met}."
        );
        is_met
    }

    /// The core whose thread polls each queue.
    fn current_cores(&self) -> BTreeMap<(PortNumber, usize), Core> {
        let core_of =
            |id: WorkerId| self.threads.keys().find(|core| id == WorkerId::Core(core.core));
        let ports = self.ports.iter();
        let queues = ports.flat_map(|(&port, state)| {
            state.queues.iter().enumerate().map(move |(queue, state)| (port, queue, state.owner))
        });
        queues.filter_map(|(port, queue, owner)| Some(((port, queue), *core_of(owner?)?))).collect()
    }

    /// The percentages of time that the threads of a NUMA node are busy, isolated ones left out,
    /// if `cores` poll the queues.
    fn busy_on(
        &self,
        node: u32,
        queues: &[Queue],
        cores: &[Option<Core>],
        is_isolated: impl Fn(&Core) -> bool,
    ) -> Vec<u64> {
        let threads =
            self.threads.iter().filter(|(core, _)| core.numa == node && !is_isolated(core));
        let percentages = threads.map(|(&core, thread)| {
            let own = queues.iter().zip(cores).filter(|(_, owner)| **owner == Some(core));
            let cycles: u64 = own.map(|(queue, _)| queue.cycles).sum();
            let total = thread.load.total.cycles(LOAD_INTERVALS);
            (cycles * 100).checked_div(total).unwrap_or(0)
        });
        percentages.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variances_are_whole_numbers() {
        assert_eq!(variance(&[]), 0);
        assert_eq!(variance(&[7]), 0);
        assert_eq!(variance(&[100, 0]), 2500);
        assert_eq!(variance(&[50, 50, 51]), 0);
        assert_eq!(variance(&[10, 20, 60]), 466);
    }

    #[test]
    fn percentages_are_those_of_past_intervals() {
        let load = ThreadLoad::default();
        assert_eq!(busy_percentages(&load).count(), 0);
        for (busy, total) in [(0, 0), (1, 4), (9, 9)] {
            load.busy.add(busy);
            load.total.add(total);
            load.busy.end_interval();
            load.total.end_interval();
        }
        assert_eq!(busy_percentages(&load).collect::<Vec<_>>(), [100, 25, 0]);
    }
}
