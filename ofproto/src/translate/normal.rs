//! The action `NORMAL`: the switch as one that learns where stations are.

use dpif::flow::Field;
use netdev::ethernet_address::EthernetAddress;
use netdev::wire::ethernet::ether_type;
use netdev::wire::vlan;

use super::TraceKind;
use super::context::Context;
use super::vlan::Tags;
use crate::port_settings::VlanMode;
use crate::switches::PortSnapshot;

/// The address of all stations.
const BROADCAST: EthernetAddress = EthernetAddress([0xff; 6]);
/// Operation of an ARP request (RFC 826).
const ARP_REQUEST: u128 = 1;

impl Context<'_> {
    /// Does what `NORMAL` says.
    pub(super) fn normal(&mut self, is_last: bool) {
        let source = self.read_address(Field::EthSrc);
        let destination = self.read_address(Field::EthDst);
        self.note_vlan(0);
        let in_port = self.in_port();
        if in_port.is_none() && !self.is_of_controller() {
            let number = self.in_port_number();
            self.report_error(|_| format!("received packet on unknown port {number}"));
            return self.drop("no input bundle, dropping");
        }
        let name = in_port.map_or("OFPP_NONE", |port| &port.name);
        if vlan::is_tag(self.flow.packet.eth_type.get())
            && self.flow.packet.vlans[0].tci.get() & vlan::CFI == 0
        {
            self.report_error(|_| {
                format!("dropping packet with partial VLAN tag received on port {name}")
            });
            return self.drop("partial VLAN tag, dropping");
        }
        if self.switch.mirrors.is_output(self.in_port_number()) {
            if self.request.is_packet {
                self.report_error(|_| only_for_mirroring(name));
            }
            return self.drop("input port is mirror output port, dropping");
        }
        let received = Tags::of(&self.flow.packet);
        let is_admitted = in_port.is_none_or(|port| self.admits_vlan(port, received.outer().vlan));
        if !is_admitted {
            return self.drop("disallowed VLAN VID for this input port, dropping");
        }
        let settings = in_port.map(|port| port.settings.clone()).unwrap_or_default();
        if settings.vlan_mode == VlanMode::Dot1qTunnel {
            // There is room for two tags: in front of two, the new one displaces the last.
            self.note_vlan(1);
        }
        let tags = received.received_on(&settings);
        let vlan = tags.outer().vlan;
        if in_port.is_some() && !self.switch.forwards_reserved && is_reserved(destination) {
            return self.report(TraceKind::Detail, |_| {
                "packet has reserved destination MAC, dropping".to_owned()
            });
        }
        self.note_gratuitous_arp(destination);
        if in_port.is_some() && self.flow.packet.is_ethernet() && self.sight(vlan, source) {
            self.report(TraceKind::Detail, |_| {
                format!("learned that {source} is on port {name} in VLAN {vlan}")
            });
        }
        let Some(known) = self.switch.mac_table.lookup(vlan, destination) else {
            self.report(TraceKind::Detail, |_| {
                "no learned MAC for destination, flooding".to_owned()
            });
            return self.flood(tags, is_last);
        };
        if self.switch.mirrors.is_output(known) {
            return self.drop("learned port is a mirror port, dropping");
        }
        match self.switch.ports.get(&known) {
            None => self.drop("learned port is unknown, dropping"),
            Some(_) if known == self.in_port_number() => self
                .report(TraceKind::Detail, |_| "learned port is input port, dropping".to_owned()),
            Some(port) => {
                self.report(TraceKind::Detail, |_| "forwarding to learned port".to_owned());
                self.output_tagged(port, tags, is_last);
            }
        }
    }

    /// Notes what tells gratuitous ARP from other packets. Nothing here depends on it, but flows
    /// are as narrow as those of OVS, which operators compare them with.
    fn note_gratuitous_arp(&mut self, destination: EthernetAddress) {
        if self.flow.packet.eth_type.get() == ether_type::ARP
            && destination == BROADCAST
            && self.read(Field::IpProto) == ARP_REQUEST
        {
            self.read(Field::Ipv4Src);
            self.read(Field::Ipv4Dst);
        }
    }

    fn drop(&mut self, why: &str) {
        self.report(TraceKind::Warning, |_| why.to_owned());
    }

    /// Whether a port takes packets whose outermost tag is of `vlan`, 0 for none.
    pub(super) fn admits_vlan(&mut self, port: &PortSnapshot, vlan: u16) -> bool {
        let (name, settings) = (&port.name, &port.settings);
        match settings.vlan_mode {
            VlanMode::Access if vlan != 0 => self.report_error(|_| {
                format!(
                    "dropping VLAN {vlan} tagged packet received on port {name} configured as \
                     VLAN {} access port",
                    settings.tag
                )
            }),
            // A port always carries its native VLAN.
            VlanMode::NativeTagged | VlanMode::NativeUntagged if vlan == 0 => return true,
            VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged
                if !settings.trunks(vlan) =>
            {
                self.report_error(|_| {
                    format!(
                        "dropping VLAN {vlan} packet received on port {name} not configured for \
                         trunking VLAN {vlan}"
                    )
                });
            }
            VlanMode::Dot1qTunnel if !settings.takes_customer_vlan(vlan) => {
                self.report_error(|_| {
                    format!(
                        "dropping VLAN {vlan} packet received on dot1q-tunnel port {name} that \
                         excludes this VLAN"
                    )
                });
            }
            _ => return true,
        }
        false
    }
}

/// What is wrong with a packet that came in on a port for the copies of mirrors.
pub(super) fn only_for_mirroring(port: &str) -> String {
    format!("dropping packet received on port {port}, which is reserved exclusively for mirroring")
}

/// Whether packets to this address are for the bridge itself and its neighbour alone: IEEE 802.1D
/// table 7-10, and the protocols of Extreme and Cisco that do the same.
pub(super) fn is_reserved(EthernetAddress(address): EthernetAddress) -> bool {
    match address {
        [0x01, 0x80, 0xc2, 0x00, 0x00, last] => last < 0x10,
        [0x00, 0xe0, 0x2b, 0x00, 0x00, last] => matches!(last, 0x00 | 0x04 | 0x06),
        [0x01, 0x00, 0x0c, 0x00, 0x00, 0x00] => true,
        [0x01, 0x00, 0x0c, 0xcc, 0xcc, last] => matches!(last, 0xc0..=0xc7 | 0xcc | 0xcd),
        [0x01, 0x00, 0x0c, 0xcd, 0xcd, 0xcd] => true,
        _ => false,
    }
}
