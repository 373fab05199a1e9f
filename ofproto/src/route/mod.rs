//! Routing: by which device and from which address packets are sent.
//!
//! The routes are those of the kernel, those that come with addresses of dummy ports, and those
//! that operators add. As in the kernel, rules lead to tables by the source of a packet, and in a
//! table the longest prefix wins. Packets with a mark see only the routes with that mark.

mod rule;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netdev::network::Network;
use netdev::route::{DeviceAddresses, KernelRoute, KernelRule, RoutingChange, table as number};
use thiserror::Error;

pub use rule::RouteRule;
use rule::RouteRules;
pub use table::{Hop, ShownRoute};
use table::{Route, RouteTable, Source, choose_source};
pub use text::{RoutesText, RulesText, is_standard};

/// A route that an operator wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedRoute {
    /// Number of the table.
    pub table: u32,
    /// Where it leads.
    pub network: Network,
    /// The mark that packets must have.
    pub mark: u32,
    /// The device by which packets leave.
    pub device: String,
    /// The next station, if the network is not on the device's link.
    pub gateway: Option<IpAddr>,
    /// The address that packets are to be sent from, which the device must have.
    pub source: Option<IpAddr>,
}

/// A route that cannot be: its device has no address to send from.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{device} has no address to send to {network} from")]
pub struct NoSource {
    /// The device.
    pub device: String,
    /// Where the route was to lead.
    pub network: Network,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Router {
    tables: BTreeMap<u32, RouteTable>,
    rules: RouteRules,
    /// Addresses of the kernel's devices.
    kernel_addresses: DeviceAddresses,
    /// Addresses of dummy ports.
    dummy_addresses: DeviceAddresses,
    /// Both.
    addresses: DeviceAddresses,
}

impl Router {
    /// The addresses of devices.
    pub fn addresses(&self) -> &DeviceAddresses {
        &self.addresses
    }

    /// Finds the way to a destination for packets with a mark. If they have a source, it must be
    /// an address of the host.
    pub fn lookup(&self, destination: IpAddr, mark: u32, source: Option<IpAddr>) -> Option<Hop> {
        if let Some(source) = source {
            let local = self.tables.get(&number::LOCAL)?;
            let is_ours = |mark| local.lookup(source, mark, &self.addresses).is_some();
            if !is_ours(mark) && !is_ours(0) {
                return None;
            }
        }
        let unspecified: IpAddr = match destination {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let tables = self.rules.tables(source.unwrap_or(unspecified));
        let hops = tables.filter_map(|table| {
            self.tables.get(&table)?.lookup(destination, mark, &self.addresses)
        });
        let hop = { hops }.next()?;
        Some(Hop { source: source.unwrap_or(hop.source), ..hop })
    }

    /// The address of a device from which its neighbour is asked for.
    pub fn source_towards(&self, device: &str, neighbour: IpAddr) -> Option<IpAddr> {
        choose_source(&self.addresses, device, neighbour, None, None)
    }

    /// Adds a route of an operator, in the place of one with its network and mark.
    ///
    /// # Errors
    /// When the device has no source address for it.
    pub fn add_user_route(&mut self, wanted: WantedRoute) -> Result<(), NoSource> {
        let WantedRoute { table, network, mark, device, gateway, source } = wanted;
        let chosen = choose_source(&self.addresses, &device, network.address, gateway, source);
        let source = chosen.ok_or_else(|| NoSource { device: device.clone(), network })?;
        let route = Route { metric: 0, device, gateway, source: Source::Fixed(source) };
        self.tables.entry(table).or_default().add(network, mark, true, route, true);
        Ok(())
    }

    /// Removes a route of an operator. Returns whether there was one.
    pub fn remove_user_route(&mut self, table: u32, network: Network, mark: u32) -> bool {
        let table = self.tables.get_mut(&table);
        table.is_some_and(|table| table.remove(network, mark, true, |_| true))
    }

    /// Whether there is a table with this number.
    pub fn has_table(&self, table: u32) -> bool {
        self.tables.contains_key(&table)
    }

    /// Gives a dummy port an address, and makes the routes that the kernel would make for it.
    pub fn add_dummy_address(&mut self, device: &str, address: Network) {
        self.dummy_addresses.entry(device.to_owned()).or_default().push(address);
        self.gather_addresses();
        let route = || Route {
            metric: 0,
            device: device.to_owned(),
            gateway: None,
            source: Source::Fixed(address.address),
        };
        let host = Network::of_host(address.address);
        self.tables.entry(number::LOCAL).or_default().add(host, 0, false, route(), true);
        self.tables.entry(number::MAIN).or_default().add(address, 0, false, route(), true);
    }

    fn gather_addresses(&mut self) {
        self.addresses = self.kernel_addresses.clone();
        for (device, own) in &self.dummy_addresses {
            self.addresses.entry(device.clone()).or_default().extend(own);
        }
    }

    /// Adds a rule of an operator. If its priority is 0, it gets one.
    pub fn add_user_rule(&mut self, rule: RouteRule) {
        self.rules.add(rule);
    }

    /// Removes the first rule of an operator that is like `wanted`, where a priority of 0 stands
    /// for any. Returns whether there was one.
    pub fn remove_user_rule(&mut self, wanted: &RouteRule) -> bool {
        self.rules.remove(wanted)
    }

    /// The rules of a version of IP in the order in which they apply.
    pub fn rules(&self, is_ipv4: bool) -> impl Iterator<Item = &RouteRule> {
        self.rules.iter().filter(move |rule| rule.is_ipv4() == is_ipv4)
    }

    /// The routes of a table, in the order in which OVS lists them. Those of the system in tables
    /// to which no rule leads are not among them.
    pub fn routes(&self, table: u32) -> Vec<ShownRoute> {
        let Some(routes) = self.tables.get(&table) else { return vec![] };
        let is_used = self.rules.iter().any(|rule| rule.table == table);
        let mut shown = routes.show(table, &self.addresses);
        shown.retain(|route| route.is_user || is_used);
        shown
    }

    /// The routes of all tables.
    pub fn all_routes(&self) -> Vec<ShownRoute> {
        self.tables.keys().flat_map(|table| self.routes(*table)).collect()
    }

    /// Follows the kernel. Returns the network to which packets may go by other ways now, or none
    /// when that may be so for all.
    pub fn follow(&mut self, change: RoutingChange) -> Option<Network> {
        match change {
            RoutingChange::Routes(routes) => {
                self.tables.values_mut().for_each(RouteTable::clear_kernel);
                for route in routes {
                    self.add_kernel_route(route, false);
                }
                None
            }
            RoutingChange::Rules(rules) => {
                self.rules.set_system(rules.into_iter().map(of_kernel));
                None
            }
            RoutingChange::Addresses(addresses) => {
                self.kernel_addresses = addresses;
                self.gather_addresses();
                None
            }
            RoutingChange::Added { route, replaces } => {
                let network = route.network;
                self.add_kernel_route(route, replaces);
                Some(network)
            }
            RoutingChange::Removed(route) => {
                let (number, network, mark, way) = split(route);
                if let Some(table) = self.tables.get_mut(&number) {
                    table.remove_way(network, mark, &way);
                }
                Some(network)
            }
        }
    }

    fn add_kernel_route(&mut self, route: KernelRoute, replaces: bool) {
        let (number, network, mark, way) = split(route);
        self.tables.entry(number).or_default().add(network, mark, false, way, replaces);
    }
}

/// Table, network, mark and way of a route of the kernel.
fn split(route: KernelRoute) -> (u32, Network, u32, Route) {
    let KernelRoute { table, network, mark, metric, device, gateway, preferred_source } = route;
    let source = Source::Of(preferred_source);
    (table, network, mark, Route { metric, device, gateway, source })
}

fn of_kernel(rule: KernelRule) -> RouteRule {
    let KernelRule { priority, is_inverted, from, table } = rule;
    RouteRule { priority, is_user: false, is_inverted, from, table }
}
