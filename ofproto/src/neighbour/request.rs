//! Asking for neighbours (RFC 826; RFC 4861, section 4.3).

use std::net::{IpAddr, Ipv6Addr};

use dpif::flow::{ComposeError, FlowKey, compose};
use netdev::wire::arp;
use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::icmpv6::NEIGHBOUR_SOLICITATION;
use netdev::wire::ip_protocol::ICMPV6;

use crate::port::PortNumber;
use crate::switches::SwitchId;

/// Hop limit that shows that a packet passed no router (RFC 4861, section 4.3).
const NEXT_TO_US: u8 = 255;

/// A request for the Ethernet address of a neighbour, which a port of a switch is to receive as if
/// its host had sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourRequest {
    /// The switch.
    pub switch: SwitchId,
    /// Its port.
    pub port: PortNumber,
    /// The port's Ethernet address.
    pub ethernet: MacAddress,
    /// The port's address.
    pub source: IpAddr,
    /// The address of the neighbour.
    pub target: IpAddr,
}

impl NeighbourRequest {
    /// The frame: ARP for IPv4, neighbour discovery for IPv6.
    ///
    /// # Errors
    /// When the addresses are of different versions of IP.
    pub fn frame(&self) -> Result<Vec<u8>, ComposeError> {
        let mut key = FlowKey::default();
        key.eth_src = self.ethernet;
        match (self.source, self.target) {
            (source, IpAddr::V4(target)) => {
                key.eth_dst = MacAddress([0xff; 6]);
                key.eth_type.set(ether_type::ARP);
                key.ip_proto = arp::REQUEST as u8;
                if let IpAddr::V4(source) = source {
                    key.ipv4_src.set(source.to_bits());
                }
                key.ipv4_dst.set(target.to_bits());
                key.arp_sha = self.ethernet;
            }
            (source, IpAddr::V6(target)) => {
                let group = solicited(target);
                let [.., a, b, c, d] = group.octets();
                // RFC 2464, section 7.
                key.eth_dst = MacAddress([0x33, 0x33, a, b, c, d]);
                key.eth_type.set(ether_type::IPV6);
                key.ip_proto = ICMPV6;
                key.ip_ttl = NEXT_TO_US;
                if let IpAddr::V6(source) = source {
                    key.ipv6_src = source.octets();
                }
                key.ipv6_dst = group.octets();
                key.tp_src.set(NEIGHBOUR_SOLICITATION.into());
                key.nd_target = target.octets();
                key.arp_sha = self.ethernet;
            }
        }
        compose(&key, None)
    }
}

/// The group in which the station with an address is (RFC 4291, section 2.7.1).
fn solicited(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let prefix = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0);
    Ipv6Addr::from_bits(prefix.to_bits() | u128::from(u32::from_be_bytes([0, a, b, c])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn request(source: &str, target: &str) -> NeighbourRequest {
        NeighbourRequest {
            switch: SwitchId([0; 16]),
            port: PortNumber::LOCAL,
            ethernet: MacAddress([0xaa, 0x55, 0xaa, 0x55, 0, 0]),
            source: source.parse().unwrap(),
            target: target.parse().unwrap(),
        }
    }

    #[test]
    fn arp_asks_everybody() {
        let frame = request("1.1.2.88", "1.1.2.92").frame().unwrap();
        assert_eq!(
            hex(&frame),
            "ffffffffffffaa55aa55000008060001080006040001aa55aa550000010102580000000000000101025c"
        );
    }

    #[test]
    fn neighbour_discovery_asks_the_group() {
        let frame = request("2001:cafe::88", "2001:cafe::92").frame().unwrap();
        assert_eq!(
            hex(&frame),
            "3333ff000092aa55aa55000086dd6000000000203aff2001cafe000000000000000000000088ff02000000\
             00000000000001ff00009287004d48000000002001cafe0000000000000000000000920101aa55aa550000"
        );
    }
}
