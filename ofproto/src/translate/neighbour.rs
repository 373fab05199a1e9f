//! Packets to the hosts of bridges: those of tunnels are taken from them, and of those that tell
//! of neighbours note is taken.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dpif::flow::Field;
use netdev::ethernet_address::EthernetAddress;
use netdev::wire::arp;
use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::icmpv6::NEIGHBOUR_ADVERTISEMENT;
use netdev::wire::ip_protocol::ICMPV6;

use super::context::Context;
use crate::switches::PortSnapshot;

impl Context<'_> {
    /// The datapath port of the tunnels that the packet, which is to leave by `port`, is for.
    pub(super) fn terminate_tunnel(&mut self, port: &PortSnapshot) -> Option<u32> {
        let switches = self.switches;
        // Where there is no address, the packet is not even looked at.
        if !switches.has_native_tunnels() || !self.has_address(port) {
            return None;
        }
        let found = switches.listeners().find(&self.flow, &mut self.read);
        match found {
            None => {
                if self.is_reply_to_us() || self.is_gratuitous_arp() {
                    self.snoop();
                }
            }
            Some(_) if self.request.is_packet && self.flow.packet.is_ip() => {
                let packet = &self.flow.packet;
                let source: IpAddr = match packet.eth_type.get() {
                    ether_type::IPV4 => Ipv4Addr::from(packet.ipv4_src.get()).into(),
                    _ => Ipv6Addr::from(packet.ipv6_src).into(),
                };
                self.learn_neighbour(source, packet.eth_src);
            }
            Some(_) => {}
        }
        found
    }

    fn has_address(&self, port: &PortSnapshot) -> bool {
        let router = self.switches.underlay().router();
        router.addresses().get(&port.name).is_some_and(|own| !own.is_empty())
    }

    fn learn_neighbour(&self, address: IpAddr, ethernet: MacAddress) {
        let ethernet = EthernetAddress(ethernet.0);
        self.switches.underlay().set_neighbour(&self.switch.name, address, ethernet);
    }

    fn is_arp(&self) -> bool {
        self.flow.packet.eth_type.get() == ether_type::ARP
    }

    /// Whether ARP or ICMPv6 is for an address of the switch's ports.
    fn is_reply_to_us(&self) -> bool {
        let packet = &self.flow.packet;
        if !self.is_arp() && packet.ip_proto != ICMPV6 {
            return false;
        }
        let (ipv4, ipv6) = (Ipv4Addr::from(packet.ipv4_dst.get()), Ipv6Addr::from(packet.ipv6_dst));
        let router = self.switches.underlay().router();
        let names = self.switch.ports.values().map(|port| &port.name);
        let own = names.filter_map(|name| router.addresses().get(name)).flatten();
        own.map(|network| network.address).any(|address| match address {
            IpAddr::V4(address) => self.is_arp() && address == ipv4,
            IpAddr::V6(address) => is_for(ipv6, address),
        })
    }

    /// Whether the packet is ARP by which a station tells of itself.
    fn is_gratuitous_arp(&mut self) -> bool {
        self.is_arp() && self.read(Field::Ipv4Src) == self.read(Field::Ipv4Dst)
    }

    /// Takes note of the neighbour that the packet tells of, if it does.
    fn snoop(&mut self) {
        if self.is_arp() {
            self.snoop_arp();
        } else {
            self.snoop_discovery();
        }
    }

    fn snoop_arp(&mut self) {
        let tells = self.is_gratuitous_arp() || self.read(Field::IpProto) == arp::REPLY.into();
        if tells && self.read(Field::ArpSha) != 0 {
            self.read(Field::Ipv4Src);
            if self.request.is_packet {
                let packet = &self.flow.packet;
                let address = Ipv4Addr::from(packet.ipv4_src.get()).into();
                self.learn_neighbour(address, packet.arp_sha);
            }
        }
    }

    fn snoop_discovery(&mut self) {
        if self.flow.packet.eth_type.get() != ether_type::IPV6
            || self.read(Field::IpProto) != ICMPV6.into()
            || self.read(Field::TpDst) != 0
        {
            return;
        }
        // Linux leaves the address out of answers to requests that were sent to it alone.
        if self.read(Field::TpSrc) != NEIGHBOUR_ADVERTISEMENT.into()
            || self.read(Field::ArpTha) == 0
        {
            return;
        }
        for field in [Field::Ipv6Src, Field::Ipv6Dst, Field::NdTarget] {
            self.read(field);
        }
        if self.request.is_packet {
            let packet = &self.flow.packet;
            let address = Ipv6Addr::from(packet.nd_target).into();
            self.learn_neighbour(address, packet.arp_tha);
        }
    }
}

/// Whether a packet to `destination` is for the station with an address: to this or to the group
/// in which those are asked for that have it (RFC 4291, section 2.7.1).
fn is_for(destination: Ipv6Addr, address: Ipv6Addr) -> bool {
    const SUFFIX: u128 = 0xff_ffff;
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).to_bits();
    let solicited = group | address.to_bits() & SUFFIX;
    destination == address || destination.to_bits() == solicited
}
