//! The actions that put a header of any kind in front of the packet, or take the first one off.

use dpif::action::{MAX_NSH_OPTIONS, slow_path};
use dpif::flow::{FlowKey, MAX_MPLS_LABELS, NshKey};
use netdev::wire::ethernet::ether_type;
use netdev::wire::{nsh, vlan};

use super::commit::Pending;
use super::context::Context;
use super::{TraceKind, TranslateError, header};
use crate::openflow::action::{Encap, EncapProperty, packet_type};

/// Next protocols of a network service header (RFC 8300, section 2.2).
mod next_protocol {
    pub(super) const IPV4: u8 = 1;
    pub(super) const IPV6: u8 = 2;
    pub(super) const ETHERNET: u8 = 3;
    pub(super) const NSH: u8 = 4;
}

/// Name space of packet types that are Ethertypes.
const NAMESPACE_ETHERTYPE: u16 = 1;
/// The greatest time to live of a network service header, and the greatest service index.
const NSH_TTL: u8 = 63;
const NSH_INDEX: u32 = 255;

fn set_packet_type(key: &mut FlowKey, packet_type: u32) {
    key.packet_namespace.set((packet_type >> 16) as u16);
    key.packet_type.set(packet_type as u16);
}

fn packet_type_of(key: &FlowKey) -> u32 {
    u32::from(key.packet_namespace.get()) << 16 | u32::from(key.packet_type.get())
}

const fn of_ethertype(eth_type: u16) -> u32 {
    (NAMESPACE_ETHERTYPE as u32) << 16 | eth_type as u32
}

const PT_IPV4: u32 = of_ethertype(ether_type::IPV4);
const PT_IPV6: u32 = of_ethertype(ether_type::IPV6);

impl Context<'_> {
    /// Does an encap action.
    pub(super) fn encapsulate(&mut self, encap: &Encap) {
        self.commit();
        let nsh_options = match encap.packet_type {
            packet_type::ETHERNET => self.put_ethernet(),
            packet_type::NSH => self.put_nsh(encap),
            packet_type::MPLS | packet_type::MPLS_MULTICAST => {
                self.note_add_mpls();
                self.put_mpls(encap.packet_type)
            }
            other => self.refuse(format!("encap({other:#x}) is not supported")),
        };
        if let Some(nsh_options) = nsh_options {
            self.pending = Pending::Encap { nsh_options };
        }
    }

    /// Has the slow path add and remove labels where the datapath cannot.
    fn note_add_mpls(&mut self) {
        if !self.features().add_mpls {
            self.slow |= slow_path::ACTION;
        }
    }

    /// Drops the packet.
    fn refuse<T>(&mut self, why: String) -> Option<T> {
        self.report(TraceKind::Action, |_| why);
        self.error = Some(TranslateError::UnsupportedPacketType);
        None
    }

    /// Puts an Ethernet header without addresses in front.
    fn put_ethernet(&mut self) -> Option<Vec<u8>> {
        let packet = &mut self.flow.packet;
        if packet.packet_namespace.get() != NAMESPACE_ETHERTYPE {
            return self.refuse(
                "Dropping packet as encap(ethernet) is not supported for packet type ethernet."
                    .to_owned(),
            );
        }
        packet.eth_type = packet.packet_type;
        set_packet_type(packet, packet_type::ETHERNET);
        (packet.eth_src, packet.eth_dst) = Default::default();
        Some(Vec::new())
    }

    /// Takes the Ethernet header off, for a port that carries none.
    pub(super) fn strip_ethernet(&mut self) {
        let packet = &mut self.flow.packet;
        set_packet_type(packet, of_ethertype(packet.eth_type.get()));
        if matches!(self.pending, Pending::Encap { .. }) {
            // It was not put in front yet.
            self.pending = Pending::None;
        }
    }

    /// Puts a label in front of the whole packet.
    fn put_mpls(&mut self, packet_type: u32) -> Option<Vec<u8>> {
        let labels = header::mpls_labels(&self.flow.packet, &mut self.read.packet);
        if labels >= MAX_MPLS_LABELS {
            self.too_many_labels("an encap MPLS action can't be performed as it would have");
            return None;
        }
        let (packet, read) = (&mut self.flow.packet, &mut self.read.packet);
        if packet.is_ethernet() && packet.eth_type.get() == ether_type::MPLS {
            // The labels are behind an Ethernet header, which now is of what follows the new one.
            packet.mpls = Default::default();
            read.mpls = Default::default();
            self.base.packet.mpls = Default::default();
        }
        set_packet_type(packet, packet_type);
        header::push_mpls(packet, labels, packet_type as u16, read);
        (packet.eth_src, packet.eth_dst) = Default::default();
        Some(Vec::new())
    }

    /// Puts a network service header in front. Returns its options.
    fn put_nsh(&mut self, encap: &Encap) -> Option<Vec<u8>> {
        let packet = &mut self.flow.packet;
        let next_protocol = match packet_type_of(packet) {
            packet_type::ETHERNET => next_protocol::ETHERNET,
            PT_IPV4 => next_protocol::IPV4,
            PT_IPV6 => next_protocol::IPV6,
            packet_type::NSH => next_protocol::NSH,
            other => {
                return self.refuse(format!(
                    "Dropping packet as encap(nsh) is not supported for packet type ({},{})",
                    other >> 16,
                    format_args!("{:#x}", other & 0xffff)
                ));
            }
        };
        let (md_type, mut options) = nsh_properties(&encap.properties);
        header::clear_headers(packet);
        set_packet_type(packet, packet_type::NSH);
        packet.eth_type.set(ether_type::NSH);
        packet.nsh = NshKey {
            ttl: NSH_TTL,
            md_type,
            next_protocol,
            path: NSH_INDEX.into(),
            ..NshKey::default()
        };
        if md_type != nsh::MD_TYPE2 {
            options.clear();
        }
        Some(options)
    }

    /// Does a decap action; returns whether what is inside has to be found out.
    pub(super) fn decapsulate(&mut self, new_type: u32) -> bool {
        self.commit();
        let packet = &mut self.flow.packet;
        match packet_type_of(packet) {
            packet_type::ETHERNET => {
                let [tag, _] = &packet.vlans;
                if tag.tci.get() & vlan::CFI != 0 {
                    let why = "Dropping packet, cannot decap Ethernet if VLAN is present.";
                    self.refuse::<()>(why.to_owned());
                    return false;
                }
                set_packet_type(packet, of_ethertype(packet.eth_type.get()));
                (packet.eth_src, packet.eth_dst) = Default::default();
                false
            }
            packet_type::NSH => self.take_nsh_off(),
            packet_type::MPLS | packet_type::MPLS_MULTICAST => self.take_label_off(new_type),
            other => {
                self.refuse::<()>(format!(
                    "Dropping packet as the decap() does not support packet type ({},{:#x})",
                    other >> 16,
                    other & 0xffff
                ));
                false
            }
        }
    }

    fn take_nsh_off(&mut self) -> bool {
        let packet = &mut self.flow.packet;
        let inside = match packet.nsh.next_protocol {
            next_protocol::ETHERNET => packet_type::ETHERNET,
            next_protocol::IPV4 => PT_IPV4,
            next_protocol::IPV6 => PT_IPV6,
            next_protocol::NSH => packet_type::NSH,
            other => {
                self.refuse::<()>(format!(
                    "Dropping packet as NSH next protocol {other} is not supported"
                ));
                return false;
            }
        };
        set_packet_type(packet, inside);
        self.read.packet.nsh.next_protocol = u8::MAX;
        self.pending = Pending::Decap;
        true
    }

    fn take_label_off(&mut self, new_type: u32) -> bool {
        let (packet, read) = (&mut self.flow.packet, &mut self.read.packet);
        set_packet_type(packet, new_type);
        let eth_type = match new_type as u16 {
            0 => ether_type::TEB,
            eth_type => eth_type,
        };
        let labels = header::mpls_labels(packet, read);
        if header::pop_mpls(packet, labels, eth_type, read) {
            self.note_add_mpls();
            self.pending = Pending::Decap;
            return labels == 1;
        }
        if labels >= MAX_MPLS_LABELS {
            self.too_many_labels("an MPLS decap can't be performed as it has");
            self.actions.clear();
        }
        false
    }
}

/// Metadata type of a network service header, and its options as on the wire.
fn nsh_properties(properties: &[EncapProperty]) -> (u8, Vec<u8>) {
    let (mut of_type, mut options) = (nsh::MD_TYPE1, Vec::new());
    for property in properties {
        match property {
            EncapProperty::NshMdType(md_type) => of_type = *md_type,
            EncapProperty::NshTlv { class, kind, data } => {
                options.extend(class.to_be_bytes());
                options.extend([*kind, data.len() as u8]);
                options.extend(data);
                options.resize(options.len().next_multiple_of(4), 0);
            }
        }
    }
    if options.len() > MAX_NSH_OPTIONS {
        options.clear();
    }
    (of_type, options)
}
