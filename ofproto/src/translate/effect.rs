//! What a translation does beside its actions: what is to be counted, and what switches learn.
//!
//! A translation lists its effects. They are applied to the packet that caused it, and again and
//! again to the packets that take the flow made of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use netdev::tunnel::TunnelTraffic;

use super::Sighting;
use crate::group::{Group, GroupBucket};
use crate::mirror::MirrorStatistics;
use crate::rule::Rule;
use crate::tables::{Learned, Tables};
use crate::underlay::Underlay;

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
    /// It came through a tunnel or a patch.
    Received(Arc<TunnelTraffic>),
    /// It left through a tunnel or a patch.
    Sent(Arc<TunnelTraffic>),
    /// A neighbour of a bridge was of use.
    Neighbour {
        /// What knows it.
        underlay: Arc<Underlay>,
        /// The bridge.
        bridge: Arc<str>,
        /// Its address.
        address: IpAddr,
    },
    /// What it does inside the header of a tunnel.
    Encapsulated {
        /// Bytes of the header.
        header: usize,
        /// What it does.
        effects: Vec<Effect>,
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
            Self::Received(counts) => counts.add_received(packets, bytes),
            Self::Sent(counts) => counts.add_sent(packets, bytes),
            Self::Neighbour { underlay, bridge, address } => {
                underlay.use_neighbour(bridge, *address);
            }
            Self::Encapsulated { header, effects } => {
                let traffic = Traffic { bytes: bytes + packets * *header as u64, ..*traffic };
                effects.iter().for_each(|effect| effect.apply(&traffic));
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
