//! What the kernel's messages about routes and rules say (`linux/rtnetlink.h`,
//! `linux/fib_rules.h`).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteScope, RouteType, RouteVia,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};

use crate::network::Network;
use crate::route::{KernelRoute, KernelRule};

pub(super) const IPV4: AddressFamily = AddressFamily::Inet;
pub(super) const IPV6: AddressFamily = AddressFamily::Inet6;

/// Names of devices by their numbers.
pub(super) type DeviceNames = HashMap<u32, String>;

/// The address of no host of a version of IP.
fn unspecified(family: AddressFamily) -> Option<IpAddr> {
    match family {
        IPV4 => Some(Ipv4Addr::UNSPECIFIED.into()),
        IPV6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}

fn of_route(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

/// Where a hop leads to.
fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(address) => of_route(address),
        RouteAttribute::Via(RouteVia::Inet(address)) => Some((*address).into()),
        RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
        _ => None,
    })
}

/// The routes that a message is about, one for each next hop; none when it is of no concern.
/// `None` when it is of a device that has no name in `names`.
pub(super) fn routes(message: &RouteMessage, names: &DeviceNames) -> Option<Vec<KernelRoute>> {
    let header = &message.header;
    let is_usable = matches!(header.kind, RouteType::Unicast | RouteType::Local)
        && header.scope != RouteScope::NoWhere
        && header.tos == 0
        && header.source_prefix_length == 0
        && !header.flags.contains(RouteFlags::Cloned);
    let Some(mut address) = unspecified(header.address_family).filter(|_| is_usable) else {
        return Some(vec![]);
    };
    let mut table = u32::from(header.table);
    let (mut mark, mut metric, mut preferred_source) = (0, 0, None);
    let mut hops = vec![];
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(destination) => {
                address = of_route(destination).unwrap_or(address);
            }
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Mark(own) => mark = *own,
            RouteAttribute::Priority(own) => metric = *own,
            RouteAttribute::PrefSource(source) => preferred_source = of_route(source),
            RouteAttribute::Oif(index) => hops.push((*index, gateway(&message.attributes))),
            RouteAttribute::MultiPath(several) => {
                hops.extend(
                    several.iter().map(|hop| (hop.interface_index, gateway(&hop.attributes))),
                );
            }
            _ => {}
        }
    }
    let network = Network { address, prefix_length: header.destination_prefix_length };
    let routes = hops.into_iter().map(|(index, gateway)| {
        let device = names.get(&index)?.clone();
        Some(KernelRoute { table, network, mark, metric, device, gateway, preferred_source })
    });
    routes.collect()
}

/// The rule that a message is about, if it only asks for the source of packets.
pub(super) fn rule(message: &RuleMessage) -> Option<KernelRule> {
    let header = &message.header;
    if header.action != RuleAction::ToTable || header.tos != 0 || header.dst_len != 0 {
        return None;
    }
    let (mut address, mut priority, mut table) = (unspecified(header.family)?, 0, None);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Source(source) => address = *source,
            RuleAttribute::Priority(own) => priority = *own,
            RuleAttribute::Table(number) => table = Some(*number),
            RuleAttribute::SuppressPrefixLen(u32::MAX) | RuleAttribute::Protocol(_) => {}
            _ => return None,
        }
    }
    let is_inverted = header.flags.contains(RuleFlags::Invert);
    let from = Network { address, prefix_length: header.src_len };
    // One that takes nothing.
    let is_empty = is_inverted && from.prefix_length == 0;
    Some(KernelRule { priority, is_inverted, from, table: table? }).filter(|_| !is_empty)
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_route::route::RouteNextHop;

    use super::*;

    fn names() -> DeviceNames {
        DeviceNames::from([(2, "eth0".to_owned()), (3, "eth1".to_owned())])
    }

    fn ipv4(text: &str) -> RouteAddress {
        RouteAddress::Inet(text.parse().unwrap())
    }

    fn route_message(attributes: Vec<RouteAttribute>) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = IPV4;
        message.header.destination_prefix_length = 8;
        message.header.table = 254;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![RouteAttribute::Destination(ipv4("10.0.0.0"))];
        message.attributes.extend(attributes);
        message
    }

    #[test]
    fn a_route_is_one_for_each_hop() {
        let one = KernelRoute {
            table: 300,
            network: Network::parse_ipv4("10.0.0.0/8").unwrap(),
            mark: 0,
            metric: 7,
            device: "eth0".to_owned(),
            gateway: Some("192.0.2.1".parse().unwrap()),
            preferred_source: Some("192.0.2.9".parse().unwrap()),
        };
        let common = [
            RouteAttribute::Table(300),
            RouteAttribute::Priority(7),
            RouteAttribute::PrefSource(ipv4("192.0.2.9")),
        ];
        let single = [RouteAttribute::Oif(2), RouteAttribute::Gateway(ipv4("192.0.2.1"))];
        let message = route_message([&common[..], &single].concat());
        assert_eq!(routes(&message, &names()), Some(vec![one.clone()]));

        let hop = |index| {
            let mut hop = RouteNextHop::default();
            hop.interface_index = index;
            hop.attributes = vec![RouteAttribute::Gateway(ipv4("192.0.2.1"))];
            hop
        };
        let several = RouteAttribute::MultiPath(vec![hop(2), hop(3)]);
        let message = route_message([&common[..], &[several]].concat());
        let other = KernelRoute { device: "eth1".to_owned(), ..one.clone() };
        assert_eq!(routes(&message, &names()), Some(vec![one, other]));

        let unknown = route_message(vec![RouteAttribute::Oif(4)]);
        assert_eq!(routes(&unknown, &names()), None);
        let mut unreachable = route_message(vec![]);
        unreachable.header.kind = RouteType::Unreachable;
        assert_eq!(routes(&unreachable, &names()), Some(vec![]));
    }

    #[test]
    fn rules_that_ask_for_more_than_the_source_do_not_count() {
        let mut message = RuleMessage::default();
        message.header.family = IPV4;
        message.header.src_len = 24;
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![
            RuleAttribute::Priority(100),
            RuleAttribute::Source("10.0.0.0".parse().unwrap()),
            RuleAttribute::SuppressPrefixLen(u32::MAX),
            RuleAttribute::Table(11),
        ];
        let expected = KernelRule {
            priority: 100,
            is_inverted: false,
            from: Network::parse_ipv4("10.0.0.0/24").unwrap(),
            table: 11,
        };
        assert_eq!(rule(&message), Some(expected));
        message.header.flags = RuleFlags::Invert;
        assert_eq!(rule(&message), Some(KernelRule { is_inverted: true, ..expected }));
        message.attributes.push(RuleAttribute::FwMark(1));
        assert_eq!(rule(&message), None);
    }
}
