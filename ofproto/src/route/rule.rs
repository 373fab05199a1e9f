//! Rules that say which routing tables packets are looked up in.

use std::net::IpAddr;

use netdev::network::Network;
use netdev::route::table;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRule {
    /// Rules with smaller numbers come first.
    pub priority: u32,
    /// Whether an operator added it.
    pub is_user: bool,
    /// Whether it takes the packets that do not match.
    pub is_inverted: bool,
    /// The sources of packets, which also tell the version of IP.
    pub from: Network,
    /// Number of the table.
    pub table: u32,
}

impl RouteRule {
    /// Whether it is of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.from.address.is_ipv4()
    }

    /// Whether it takes packets from `source`, which is of the same version of IP.
    fn takes(&self, source: IpAddr) -> bool {
        self.from.contains(source) != self.is_inverted
    }

    /// Whether it is what an operator describes; a `priority` of 0 stands for any.
    fn is_like(&self, wanted: &Self) -> bool {
        (wanted.priority == 0 || self.priority == wanted.priority)
            && Self { priority: wanted.priority, ..*self } == *wanted
    }
}

/// The rules in the order in which they apply.
#[derive(Clone, Debug)]
pub(super) struct RouteRules(Vec<RouteRule>);

impl Default for RouteRules {
    /// Those that the kernel starts with.
    fn default() -> Self {
        let standard = |priority, address, table| RouteRule {
            priority,
            is_user: false,
            is_inverted: false,
            from: Network { address, prefix_length: 0 },
            table,
        };
        let (ipv4, ipv6) = ([0; 4].into(), [0; 16].into());
        Self(vec![
            standard(0, ipv4, table::LOCAL),
            standard(0, ipv6, table::LOCAL),
            standard(32766, ipv4, table::MAIN),
            standard(32766, ipv6, table::MAIN),
            standard(32767, ipv4, table::DEFAULT),
        ])
    }
}

impl RouteRules {
    pub(super) fn iter(&self) -> impl Iterator<Item = &RouteRule> {
        self.0.iter()
    }

    /// The tables that packets from `source` are looked up in.
    pub(super) fn tables(&self, source: IpAddr) -> impl Iterator<Item = u32> {
        let rules = self.0.iter().filter(move |rule| rule.is_ipv4() == source.is_ipv4());
        rules.filter(move |rule| rule.takes(source)).map(|rule| rule.table)
    }

    /// Adds a rule behind those of the same priority. One of priority 0 goes in front of the first
    /// rule with a priority, or where there is room behind.
    pub(super) fn add(&mut self, mut rule: RouteRule) {
        if rule.priority == 0 {
            let mut previous = 0;
            for other in self.0.iter().map(|rule| rule.priority) {
                if other != 0 && (rule.priority == 0 || other - previous > 1) {
                    rule.priority = other - 1;
                }
                previous = other;
            }
        }
        self.insert(rule);
    }

    fn insert(&mut self, rule: RouteRule) {
        let at = self.0.partition_point(|other| other.priority <= rule.priority);
        self.0.insert(at, rule);
    }

    /// Removes the first rule of an operator that is like `wanted`, where a priority of 0 stands
    /// for any. Returns whether there was one.
    pub(super) fn remove(&mut self, wanted: &RouteRule) -> bool {
        let at = self.0.iter().position(|rule| rule.is_like(wanted));
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// Makes these the rules of the system.
    pub(super) fn set_system(&mut self, rules: impl IntoIterator<Item = RouteRule>) {
        self.0.retain(|rule| rule.is_user);
        rules.into_iter().for_each(|rule| self.insert(rule));
    }
}
