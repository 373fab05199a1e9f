//! What the kernel says of routing, and how that changes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::network::Network;

/// Numbers of routing tables that the kernel has by itself (`linux/rtnetlink.h`).
pub mod table {
    /// Empty unless somebody fills it.
    pub const DEFAULT: u32 = 253;
    /// Where routes go unless something else is said.
    pub const MAIN: u32 = 254;
    /// The addresses of the host.
    pub const LOCAL: u32 = 255;
}

/// A route of the kernel by one next hop. One with several is several of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRoute {
    /// Number of the table that has it.
    pub table: u32,
    /// Where it leads.
    pub network: Network,
    /// The mark that packets must have.
    pub mark: u32,
    /// Of several routes to a network, that with the smallest is used.
    pub metric: u32,
    /// The device by which packets leave.
    pub device: String,
    /// The next hop, if the network is not on the device's link.
    pub gateway: Option<IpAddr>,
    /// The address that the host sends from.
    pub preferred_source: Option<IpAddr>,
}

/// A rule of the kernel that leads packets to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRule {
    /// Rules with smaller numbers come first.
    pub priority: u32,
    /// Whether it takes the packets that do not match.
    pub is_inverted: bool,
    /// The sources of packets, which also tell the version of IP.
    pub from: Network,
    /// Number of the table.
    pub table: u32,
}

/// The IP addresses of devices by their names.
pub type DeviceAddresses = BTreeMap<String, Vec<Network>>;

/// A change of routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutingChange {
    /// These are all routes.
    Routes(Vec<KernelRoute>),
    /// These are all rules.
    Rules(Vec<KernelRule>),
    /// These are the addresses of all devices.
    Addresses(DeviceAddresses),
    /// There is a new route.
    Added {
        /// The route.
        route: KernelRoute,
        /// Whether it takes the place of those with its network and metric.
        replaces: bool,
    },
    /// A route is gone.
    Removed(KernelRoute),
}
