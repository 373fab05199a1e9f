//! One routing table.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use netdev::network::{Network, mask};
use netdev::route::DeviceAddresses;

/// What routes of operators get over those of the system with the same prefix.
const USER_BONUS: u16 = 32;
/// What IPv4 prefixes get, which count as prefixes of IPv6 addresses that stand for IPv4 ones.
const IPV4_BONUS: u16 = 96;

/// How packets that a route takes find their way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The device by which they leave.
    pub device: String,
    /// The next station, if the destination is not on the device's link.
    pub gateway: Option<IpAddr>,
    /// The address that they are sent from.
    pub source: IpAddr,
}

/// Where the source address of a route comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It was given or found when the route was made.
    Fixed(IpAddr),
    /// It is chosen among the addresses that the device has when it is needed: this one, if there
    /// is one and the device has it.
    Of(Option<IpAddr>),
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Of several to a network, that with the smallest is used.
    pub(super) metric: u32,
    pub(super) device: String,
    pub(super) gateway: Option<IpAddr>,
    pub(super) source: Source,
}

impl Route {
    /// Whether it is the same way, wherever the source comes from.
    fn is_same_way(&self, other: &Self) -> bool {
        self.metric == other.metric && self.device == other.device && self.gateway == other.gateway
    }

    /// The hop, if the device has a source address for it.
    fn hop(&self, network: Network, addresses: &DeviceAddresses) -> Option<Hop> {
        let source = match self.source {
            Source::Fixed(source) => source,
            Source::Of(preferred) => {
                let Self { device, gateway, .. } = self;
                choose_source(addresses, device, network.address, *gateway, preferred)?
            }
        };
        Some(Hop { device: self.device.clone(), gateway: self.gateway, source })
    }
}

/// The address that packets to a destination, or else to the gateway before it, are sent from by a
/// device: `wanted`, if the device has it there, or else that of the smallest network.
pub(super) fn choose_source(
    addresses: &DeviceAddresses,
    device: &str,
    destination: IpAddr,
    gateway: Option<IpAddr>,
    wanted: Option<IpAddr>,
) -> Option<IpAddr> {
    let own = addresses.get(device)?;
    let towards = |target: IpAddr| {
        let near = own.iter().filter(|network| network.contains(target));
        let near = near.filter(|network| wanted.is_none_or(|wanted| network.address == wanted));
        // Of several, the first.
        near.rev().max_by_key(|network| network.prefix_length).map(|network| network.address)
    };
    towards(destination).or_else(|| gateway.and_then(towards))
}

/// Which routes come before others: those with the longest prefix, where those of operators count
/// for longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Precedence {
    priority: Reverse<u16>,
    is_user: bool,
    is_ipv4: bool,
    prefix_length: u8,
}

impl Precedence {
    fn new(network: Network, is_user: bool) -> Self {
        let is_ipv4 = network.address.is_ipv4();
        let bits = mapped_length(network) + if is_user { USER_BONUS } else { 0 };
        Self { priority: Reverse(bits), is_user, is_ipv4, prefix_length: network.prefix_length }
    }
}

/// The length of a network's prefix among IPv6 addresses.
fn mapped_length(network: Network) -> u16 {
    let bonus = if network.address.is_ipv4() { IPV4_BONUS } else { 0 };
    u16::from(network.prefix_length) + bonus
}

/// What routes to one network and mark there are, in the order in which they came.
#[derive(Clone, Debug, Default)]
struct Ways {
    /// Position in the order in which networks came.
    serial: u64,
    routes: Vec<Route>,
}

/// Network and mark.
type Key = (IpAddr, u32);

/// A route as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownRoute {
    /// Number of the table.
    pub table: u32,
    /// Where it leads.
    pub network: Network,
    /// The mark that packets must have.
    pub mark: u32,
    /// Whether an operator added it.
    pub is_user: bool,
    /// How packets go there.
    pub hop: Hop,
}

/// Routes, of which the one with the longest prefix takes a packet.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteTable {
    by_precedence: BTreeMap<Precedence, HashMap<Key, Ways>>,
    last_serial: u64,
}

impl RouteTable {
    /// Adds a route. If it `replaces`, those with its network, mark and metric go.
    pub(super) fn add(
        &mut self,
        network: Network,
        mark: u32,
        is_user: bool,
        route: Route,
        replaces: bool,
    ) {
        let network = network.masked();
        let same = self.by_precedence.entry(Precedence::new(network, is_user)).or_default();
        let ways = same.entry((network.address, mark)).or_default();
        if ways.serial == 0 {
            self.last_serial += 1;
            ways.serial = self.last_serial;
        }
        ways.routes.retain(|old| {
            let goes = replaces && old.metric == route.metric || old.is_same_way(&route);
            !goes
        });
        ways.routes.push(route);
    }

    /// Removes those of the routes to a network that `goes` says. Returns whether there were any.
    pub(super) fn remove(
        &mut self,
        network: Network,
        mark: u32,
        is_user: bool,
        goes: impl Fn(&Route) -> bool,
    ) -> bool {
        let network = network.masked();
        let precedence = Precedence::new(network, is_user);
        let key = (network.address, mark);
        let Some(same) = self.by_precedence.get_mut(&precedence) else { return false };
        let Some(ways) = same.get_mut(&key) else { return false };
        let before = ways.routes.len();
        ways.routes.retain(|route| !goes(route));
        let is_found = ways.routes.len() < before;
        if ways.routes.is_empty() {
            same.remove(&key);
        }
        if same.is_empty() {
            self.by_precedence.remove(&precedence);
        }
        is_found
    }

    /// Removes the way of a route of the system.
    pub(super) fn remove_way(&mut self, network: Network, mark: u32, route: &Route) -> bool {
        self.remove(network, mark, false, |other| other.is_same_way(route))
    }

    /// Removes the routes of which the kernel tells.
    pub(super) fn clear_kernel(&mut self) {
        for same in self.by_precedence.values_mut() {
            for ways in same.values_mut() {
                ways.routes.retain(|route| matches!(route.source, Source::Fixed(_)));
            }
            same.retain(|_, ways| !ways.routes.is_empty());
        }
        self.by_precedence.retain(|_, same| !same.is_empty());
    }

    /// The hop of the route that takes packets with this mark to a destination.
    pub(super) fn lookup(
        &self,
        destination: IpAddr,
        mark: u32,
        addresses: &DeviceAddresses,
    ) -> Option<Hop> {
        let same_version = self
            .by_precedence
            .iter()
            .filter(|(precedence, _)| precedence.is_ipv4 == destination.is_ipv4());
        same_version
            .filter_map(|(precedence, same)| {
                let Precedence { prefix_length, .. } = *precedence;
                let address = mask(destination, prefix_length);
                let ways = same.get(&(address, mark))?;
                best(&ways.routes, Network { address, prefix_length }, addresses)
            })
            .next()
    }

    /// Its routes in the order in which OVS lists them.
    pub(super) fn show(&self, table: u32, addresses: &DeviceAddresses) -> Vec<ShownRoute> {
        // Routes with prefixes of one length are together, where the best of them belongs.
        let mut best_of_length: HashMap<u16, Reverse<u16>> = HashMap::new();
        let mut shown = vec![];
        for (precedence, same) in &self.by_precedence {
            let Precedence { priority, is_user, prefix_length, .. } = *precedence;
            for (&(address, mark), ways) in same {
                let network = Network { address, prefix_length };
                let Some(hop) = best(&ways.routes, network, addresses) else { continue };
                let length = mapped_length(network);
                let place = *best_of_length.entry(length).or_insert(priority);
                let route = ShownRoute { table, network, mark, is_user, hop };
                shown.push(((place, Reverse(length), ways.serial), route));
            }
        }
        shown.sort_by_key(|(place, _)| *place);
        shown.into_iter().map(|(_, route)| route).collect()
    }
}

/// The hop of the route with the smallest metric that can be used.
fn best(routes: &[Route], network: Network, addresses: &DeviceAddresses) -> Option<Hop> {
    let usable = routes.iter().filter_map(|route| {
        let hop = route.hop(network, addresses)?;
        Some((route.metric, hop))
    });
    usable.min_by_key(|(metric, _)| *metric).map(|(_, hop)| hop)
}
