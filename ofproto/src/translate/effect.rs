//! What a translation does beside its actions: what is to be counted, and what switches learn.
//!
//! A translation lists its effects. They are applied to the packet that caused it, and again and
//! again to the packets that take the flow made of it.

use std::sync::Arc;
use std::time::Duration;

use super::Sighting;
use crate::group::{Group, GroupBucket};
use crate::mirror::MirrorStatistics;
use crate::rule::Rule;
use crate::tables::{Learned, Tables};

/// Flags of TCP that end a connection.
const FIN_OR_RESET: u16 = 0x01 | 0x04;

/// Packets that took a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Number of packets.
    pub packets: u64,
    /// Number of their bytes.
    pub bytes: u64,
    /// When the last of them came, by the switch's clock.
    pub used: Duration,
    /// TCP flags that any of them had.
    pub tcp_flags: u16,
}

/// An effect.
#[derive(Clone, Debug)]
pub enum Effect {
    /// It was looked up in a table.
    Table {
        /// The tables of the switch.
        tables: Arc<Tables>,
        /// Which of them.
        table: u8,
        /// Whether a rule took it there.
        is_match: bool,
    },
    /// A rule took the packet.
    Rule(Arc<Rule>),
    /// A rule learned another. A packet that causes a translation is learned from at once.
    Learned {
        /// The tables of the switch.
        tables: Arc<Tables>,
        /// The rule that is learned.
        learned: Arc<Learned>,
    },
    /// A rule's timeouts get shorter if the packet ends a connection. Those of a packet that
    /// causes a translation do so at once.
    Timeouts {
        /// The tables of the switch.
        tables: Arc<Tables>,
        /// The rule.
        rule: Arc<Rule>,
        /// Seconds without packets; 0 changes nothing.
        idle: u16,
        /// Seconds in all; 0 changes nothing.
        hard: u16,
    },
    /// A group took it.
    Group {
        /// The group.
        group: Arc<Group>,
        /// The bucket that it chose; all of them without one.
        bucket: Option<Arc<GroupBucket>>,
    },
    /// A mirror got a copy of it.
    Mirror(Arc<MirrorStatistics>),
    /// It showed a station. A packet that causes a translation is learned from at once.
    Station(Sighting),
}

impl Effect {
    /// Counts packets, and learns from them.
    pub fn apply(&self, traffic: &Traffic) {
        let &Traffic { packets, bytes, used, .. } = traffic;
        if packets == 0 {
            return;
        }
        match self {
            Self::Table { tables, table, is_match } => tables.count(*table, *is_match, packets),
            Self::Rule(rule) => rule.statistics().add(packets, bytes, used),
            Self::Learned { tables, learned } => {
                // The error was told when the rule was learned first.
                let _ = tables.learn(learned, used);
            }
            Self::Timeouts { tables, rule, idle, hard } => {
                if traffic.tcp_flags & FIN_OR_RESET != 0 {
                    tables.shorten_timeouts(rule, *idle, *hard);
                }
            }
            Self::Group { group, bucket } => {
                group.add(packets, bytes);
                match bucket {
                    Some(bucket) => bucket.add(packets, bytes),
                    None => group.buckets.iter().for_each(|bucket| bucket.add(packets, bytes)),
                }
            }
            Self::Mirror(statistics) => statistics.add(packets, bytes),
            Self::Station(Sighting { table, vlan, address, port }) => {
                table.refresh(*vlan, *address, *port, used);
            }
        }
    }

    /// Whether translation does it for the packet that causes it, so that what follows sees it.
    pub fn is_immediate(&self) -> bool {
        matches!(self, Self::Station(_) | Self::Learned { .. } | Self::Timeouts { .. })
    }
}
