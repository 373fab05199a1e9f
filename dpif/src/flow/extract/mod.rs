//! From a packet to its flow key.
//!
//! Malformed headers are no errors: a packet is what its intact headers say. A header cut short
//! reads as absent, and so does everything behind it. Bytes behind the length that the IP header
//! gives are padding. An IPv4 header whose lengths contradict each other, or the packet, gives
//! no addresses, and an IPv6 header whose extensions are cut short gives nothing but addresses.

mod common;
mod network;
mod transport;

use netdev::packet::{Descriptor, NO_LAYER, PacketMut};
use netdev::wire::ethernet::{self, EthernetHeader, MacAddress, SnapHeader, ether_type};
use netdev::wire::mpls::{self, MplsEntry};
use netdev::wire::{split, vlan};
use zerocopy::network_endian::{U16, U32};

use super::field::Field;
use super::key::{
    ETH_TYPE_NONE, FlowKey, LINE_WORDS, LineSet, MAX_MPLS_LABELS, MAX_VLANS, VlanKey,
};
use super::metadata::{Metadata, OriginalTuple};

/// In a packet of several frames, headers are looked for in this many bytes at least.
const HEADER_BYTES: usize = 1024;

/// A place to extract keys to, one after the other. It knows which lines the key before left
/// behind, so that only those are cleared.
#[derive(Debug, Clone, Default)]
pub struct PacketKey {
    key: FlowKey,
    lines: LineSet,
}

impl PacketKey {
    /// The key extracted last.
    #[inline]
    pub fn key(&self) -> &FlowKey {
        &self.key
    }

    /// The lines outside of which that key is 0.
    #[inline]
    pub fn lines(&self) -> LineSet {
        self.lines
    }

    /// Makes this the key of a packet of which nothing is needed but its port and TCP flags.
    pub(crate) fn set_bare(&mut self, in_port: u32, tcp_flags: u16) {
        self.clear_all_but(LineSet::FIRST);
        self.lines = LineSet::FIRST;
        self.key.lines_mut()[0] = [0; LINE_WORDS];
        self.key.in_port.set(in_port);
        self.key.tcp_flags.set(tcp_flags);
    }

    /// Zeroes the lines in use but those of `kept`.
    #[inline]
    fn clear_all_but(&mut self, kept: LineSet) {
        if kept.contains(self.lines) {
            return;
        }
        for line in self.lines.without(kept).indices() {
            self.key.lines_mut()[line] = [0; LINE_WORDS];
        }
    }
}

impl From<FlowKey> for PacketKey {
    fn from(key: FlowKey) -> Self {
        let lines = LineSet::used_by(&key);
        Self { key, lines }
    }
}

/// Extracts the key of `packet` to `to` and sets the offsets of its network and transport header.
/// `metadata` is the record that the descriptor names, and at most `vlan_limit` VLAN tags are
/// taken off.
#[inline]
pub fn extract(
    packet: &mut PacketMut<'_>,
    metadata: Option<&Metadata>,
    vlan_limit: usize,
    to: &mut PacketKey,
) {
    let (descriptor, bytes) = packet.parts_mut();
    if descriptor.is_whole() {
        let bytes = &*bytes;
        return extract_bytes(bytes, bytes.len(), descriptor, metadata, vlan_limit, to);
    }
    let length = packet.view().len();
    if packet.view().data().len() < length.min(HEADER_BYTES) {
        let mut headers = [0; HEADER_BYTES];
        let copied = packet.view().copy_out(0, &mut headers);
        let headers = headers.get(..copied).unwrap_or(&headers);
        return general(headers, length, packet.descriptor_mut(), metadata, vlan_limit, to);
    }
    let (descriptor, bytes) = packet.parts_mut();
    extract_bytes(bytes, length, descriptor, metadata, vlan_limit, to);
}

/// The same for the bytes at the front of a packet of `length` bytes.
#[inline]
pub fn extract_bytes(
    bytes: &[u8],
    length: usize,
    descriptor: &mut Descriptor,
    metadata: Option<&Metadata>,
    vlan_limit: usize,
    to: &mut PacketKey,
) {
    if length != bytes.len()
        || metadata.is_some()
        || !common::extract(bytes, descriptor, vlan_limit, to)
    {
        general(bytes, length, descriptor, metadata, vlan_limit, to);
    }
}

/// The rest of a packet. `hidden` bytes follow those in `bytes` that are there to read.
#[derive(Clone, Copy)]
struct Rest<'a> {
    bytes: &'a [u8],
    hidden: usize,
    offset: usize,
}

impl<'a> Rest<'a> {
    /// Bytes that are left.
    fn len(&self) -> usize {
        self.bytes.len() + self.hidden
    }

    /// Offset from the start of the packet, for a descriptor.
    fn offset(&self) -> u16 {
        u16::try_from(self.offset).unwrap_or(NO_LAYER)
    }

    /// The header at the front, not taken off.
    fn peek<T>(&self) -> Option<&'a T>
    where
        T: zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
    {
        Some(split::<T>(self.bytes)?.0)
    }

    /// Takes `count` bytes off.
    fn skip(&mut self, count: usize) -> Option<()> {
        self.bytes = self.bytes.get(count..)?;
        self.offset += count;
        Some(())
    }

    /// Takes off the header at the front.
    fn pull<T>(&mut self) -> Option<&'a T>
    where
        T: zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
    {
        let header = self.peek()?;
        self.skip(size_of::<T>())?;
        Some(header)
    }

    /// Drops what is behind the first `length` bytes.
    fn cut(&mut self, length: usize) {
        self.bytes = self.bytes.get(..length).unwrap_or(self.bytes);
        self.hidden = length.saturating_sub(self.bytes.len());
    }
}

/// An extraction under way.
struct Extraction<'a> {
    key: &'a mut FlowKey,
    lines: &'a mut LineSet,
    descriptor: &'a mut Descriptor,
    original: &'a OriginalTuple,
    rest: Rest<'a>,
}

fn general(
    bytes: &[u8],
    length: usize,
    descriptor: &mut Descriptor,
    metadata: Option<&Metadata>,
    vlan_limit: usize,
    to: &mut PacketKey,
) {
    to.clear_all_but(LineSet::default());
    to.lines = LineSet::FIRST;
    descriptor.l3 = NO_LAYER;
    descriptor.l4 = NO_LAYER;
    let hidden = length.saturating_sub(bytes.len());
    let mut extraction = Extraction {
        key: &mut to.key,
        lines: &mut to.lines,
        descriptor,
        original: metadata.map_or(&OriginalTuple::None, |known| &known.conntrack.original),
        rest: Rest { bytes, hidden, offset: 0 },
    };
    extraction.metadata(metadata);
    // A header that is cut short ends the extraction; what was found stays.
    let _ = extraction.packet(vlan_limit.min(MAX_VLANS));
}

impl Extraction<'_> {
    fn use_lines_of(&mut self, fields: &[Field]) {
        for field in fields {
            *self.lines = self.lines.union(LineSet::of(*field));
        }
    }

    fn metadata(&mut self, metadata: Option<&Metadata>) {
        let (key, descriptor) = (&mut *self.key, &*self.descriptor);
        key.in_port.set(descriptor.in_port);
        key.recirc_id.set(descriptor.recirc_id);
        key.dp_hash.set(descriptor.dp_hash);
        key.skb_mark.set(descriptor.skb_mark);
        key.skb_priority.set(descriptor.skb_priority);
        if descriptor.l3_type != 0 {
            key.packet_namespace.set(1);
            key.packet_type.set(descriptor.l3_type);
        }
        let Some(Metadata { tunnel, conntrack }) = metadata else { return };
        if tunnel.has_destination() {
            key.tunnel = *tunnel;
            *self.lines = self.lines.union(LineSet::TUNNEL);
        }
        if conntrack.state != 0 {
            key.ct_state = conntrack.state;
            key.ct_zone.set(conntrack.zone);
            key.ct_mark.set(conntrack.mark);
            key.ct_label = conntrack.label;
            self.use_lines_of(&[Field::CtState, Field::CtLabel]);
        }
    }

    /// Ethernet, VLAN tags, MPLS labels, and on to the network layer.
    fn packet(&mut self, vlan_limit: usize) -> Option<()> {
        let eth_type = if self.descriptor.l3_type != 0 {
            self.descriptor.l3_type
        } else {
            self.ethernet(vlan_limit)?
        };
        self.key.eth_type.set(eth_type);
        if mpls::is_mpls(eth_type) {
            self.mpls();
        }
        self.descriptor.l3 = self.rest.offset();
        match eth_type {
            ether_type::IPV4 => self.ipv4(),
            ether_type::IPV6 => self.ipv6(),
            ether_type::ARP | ether_type::RARP => self.arp(),
            ether_type::NSH => self.nsh(),
            _ => None,
        }
    }

    /// Takes off the Ethernet header and VLAN tags; returns the Ethertype.
    fn ethernet(&mut self, vlan_limit: usize) -> Option<u16> {
        let header: &EthernetHeader = self.rest.peek()?;
        self.key.eth_dst = header.destination;
        self.key.eth_src = header.source;
        self.rest.skip(2 * size_of::<MacAddress>())?;

        let beside = self
            .descriptor
            .vlan()
            .map(|tag| VlanKey { tci: U16::new(tag.tci | vlan::CFI), tpid: U16::new(tag.tpid) });
        let mut tags = self.key.vlans.iter_mut().take(vlan_limit);
        if let Some(beside) = beside
            && let Some(tag) = tags.next()
        {
            *tag = beside;
        }
        for tag in tags {
            // A tag without the type of what follows is cut short.
            let Some(header) = self.rest.peek::<vlan::VlanHeader>() else { break };
            if !vlan::is_tag(header.tpid.get()) || self.rest.len() < 6 {
                break;
            }
            tag.tpid = header.tpid;
            tag.tci.set(header.tci.get() | vlan::CFI);
            self.rest.skip(size_of::<vlan::VlanHeader>())?;
        }

        let eth_type = self.rest.pull::<U16>()?.get();
        if eth_type >= ethernet::MIN_TYPE {
            return Some(eth_type);
        }
        match self.rest.peek::<SnapHeader>() {
            Some(snap) if snap.llc == SnapHeader::LLC && snap.organisation == [0; 3] => {
                self.rest.skip(size_of::<SnapHeader>())?;
                Some(match snap.ether_type.get() {
                    eth_type @ ethernet::MIN_TYPE.. => eth_type,
                    _ => ETH_TYPE_NONE,
                })
            }
            _ => Some(ETH_TYPE_NONE),
        }
    }

    /// Takes off the label stack; the key gets the outermost labels.
    fn mpls(&mut self) {
        let mut index = 0;
        while let Some(MplsEntry(entry)) = self.rest.pull() {
            if let Some(label) = self.key.mpls.get_mut(index) {
                *label = *entry;
                self.use_lines_of(&[[Field::Mpls0, Field::Mpls1, Field::Mpls2][index]]);
            }
            index += 1;
            if entry.get() & mpls::BOTTOM != 0 {
                break;
            }
        }
    }
}

const _: () = assert!(MAX_MPLS_LABELS == 3 && size_of::<MplsEntry>() == size_of::<U32>());

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
