//! Cutting a large TCP or UDP packet into packets that fit the wire, in software.

use crate::checksum::{InvalidHeader, finish_ipv4_header, range};
use crate::headers::{Headers, IpVersion};
use crate::offload::TransmitOffloads;
use crate::packet::{
    Batch, Checksum, Descriptor, Layer, NO_LAYER, PacketMut, PacketRef, Segmentation,
};
use crate::wire::tcp::{FIN, TcpHeader};
use crate::wire::{ip_protocol, split};

/// TCP flag: deliver what has arrived (RFC 9293 section 3.1).
const PSH: u16 = 0x008;
/// TCP flag: the congestion window was reduced (RFC 3168 section 6.1.2).
const CWR: u16 = 0x080;

const IPV4_LENGTH_OFFSET: usize = 2;
const IPV4_IDENTIFICATION_OFFSET: usize = 4;
const IPV6_LENGTH_OFFSET: usize = 4;
const TCP_SEQUENCE_OFFSET: usize = 4;
const TCP_FLAGS_OFFSET: usize = 12;
const UDP_LENGTH_OFFSET: usize = 4;
const UDP_CHECKSUM_OFFSET: usize = 6;
const UDP_HEADER_LENGTH: usize = 8;
/// Room for the headers that every segment repeats: a tunnel's, and those inside it.
const MAX_HEADERS_LENGTH: usize = 512;

/// Whether a packet is to be cut for a device with `offloads`.
#[inline]
pub(crate) fn is_pending(descriptor: &Descriptor, offloads: TransmitOffloads) -> bool {
    let needed = match descriptor.segmentation {
        Segmentation::None => return false,
        Segmentation::TcpIpv4 | Segmentation::TcpIpv6 => TransmitOffloads::TCP_SEGMENTATION,
        Segmentation::Udp => TransmitOffloads::UDP_SEGMENTATION,
    };
    // No device of ours is told where the headers inside a tunnel are.
    !offloads.contains(needed) || descriptor.inner_l3 != NO_LAYER
}

/// Bytes of the longest packet that a large one is cut into.
///
/// # Errors
/// When the packet is not what its descriptor says, or its headers are cut short.
pub(crate) fn longest_segment(packet: PacketRef<'_>) -> Result<usize, InvalidHeader> {
    let layout = Layout::find(packet).ok_or(InvalidHeader)?;
    Ok(layout.inner.end.min(layout.payload + usize::from(packet.descriptor().segment_size)))
}

/// Where the parts of a large packet are.
#[derive(Debug)]
struct Layout {
    /// The headers that carry the payload, and those of a tunnel around them.
    inner: Headers,
    outer: Option<Headers>,
    protocol: u8,
    l4: usize,
    /// Where the headers end and the payload starts.
    payload: usize,
}

impl Layout {
    fn find(packet: PacketRef<'_>) -> Option<Self> {
        let descriptor = packet.descriptor();
        let outermost = Headers::outer(packet)?;
        let (inner, outer) = match descriptor.inner_l3 {
            NO_LAYER => (outermost, None),
            inner_l3 => (Headers::at(packet, inner_l3.into())?, Some(outermost)),
        };
        let transport = inner.transport?;
        let (protocol, version) = match descriptor.segmentation {
            Segmentation::None => return None,
            Segmentation::TcpIpv4 => (ip_protocol::TCP, Some(IpVersion::V4)),
            Segmentation::TcpIpv6 => (ip_protocol::TCP, Some(IpVersion::V6)),
            Segmentation::Udp => (ip_protocol::UDP, None),
        };
        let is_as_said = transport.protocol == protocol
            && version.is_none_or(|version| version == inner.version)
            && descriptor.segment_size > 0;
        is_as_said.then_some(())?;
        let header_length = match protocol {
            ip_protocol::TCP => {
                let mut scratch = [0; size_of::<TcpHeader>()];
                let bytes = packet.header(transport.l4, size_of::<TcpHeader>(), &mut scratch)?;
                let length = split::<TcpHeader>(bytes)?.0.header_length();
                (length >= size_of::<TcpHeader>()).then_some(length)?
            }
            _ => UDP_HEADER_LENGTH,
        };
        let payload = transport.l4 + header_length;
        (payload <= inner.end).then_some(Self { inner, outer, protocol, l4: transport.l4, payload })
    }
}

/// A large packet under the knife.
#[derive(Debug)]
pub(crate) struct Segmenter<'a> {
    packet: PacketRef<'a>,
    layout: Layout,
    segment_size: usize,
    headers: [u8; MAX_HEADERS_LENGTH],
    /// Segments made.
    made: usize,
}

impl<'a> Segmenter<'a> {
    /// # Errors
    /// When the packet is not what its descriptor says, or its headers are cut short.
    pub(crate) fn new(packet: PacketRef<'a>) -> Result<Self, InvalidHeader> {
        let layout = Layout::find(packet).ok_or(InvalidHeader)?;
        let mut headers = [0; MAX_HEADERS_LENGTH];
        let room = headers.get_mut(..layout.payload).ok_or(InvalidHeader)?;
        packet.copy_out(0, room);
        let segment_size = packet.descriptor().segment_size.into();
        Ok(Self { packet, layout, segment_size, headers, made: 0 })
    }

    /// Segments that are still to be made.
    pub(crate) fn left(&self) -> usize {
        self.total() - self.made
    }

    fn total(&self) -> usize {
        (self.layout.inner.end - self.layout.payload).div_ceil(self.segment_size).max(1)
    }

    /// Appends segments to `batch` as long as there are any and they fit, and returns how many.
    /// Their transport checksums are partial. Fewer than fit are made when the pool of the batch
    /// has too few free frames.
    pub(crate) fn fill(&mut self, batch: &mut Batch) -> usize {
        let mut added = 0;
        while self.left() > 0 && batch.fill(1) == 1 {
            let last = batch.len() - 1;
            let made = batch.get_mut(last).and_then(|mut segment| self.make(&mut segment));
            if made.is_none() {
                batch.remove(last);
                break;
            }
            self.made += 1;
            added += 1;
        }
        added
    }

    /// Makes the next segment from an empty packet; nothing when the pool has too few frames.
    fn make(&self, segment: &mut PacketMut<'_>) -> Option<()> {
        let start = self.layout.payload + self.made * self.segment_size;
        let end = self.layout.inner.end.min(start + self.segment_size);
        segment.append(self.headers.get(..self.layout.payload)?).then_some(())?;
        for bytes in range(self.packet, start, end) {
            segment.append(bytes).then_some(())?;
        }
        let descriptor = segment.descriptor_mut();
        descriptor.copy_knowledge(self.packet.descriptor());
        (descriptor.segmentation, descriptor.segment_size) = (Segmentation::None, 0);

        self.set_transport(segment)?;
        self.set_ip(segment, &self.layout.inner)?;
        let descriptor = segment.descriptor_mut();
        if let Some(outer) = &self.layout.outer {
            descriptor.set_checksum(Layer::InnerIp, Checksum::Good);
            descriptor.set_checksum(Layer::InnerTransport, Checksum::Partial);
            self.set_tunnel(segment, outer)?;
        } else {
            descriptor.set_checksum(Layer::Ip, Checksum::Good);
            descriptor.set_checksum(Layer::Transport, Checksum::Partial);
        }
        Some(())
    }

    /// Sets what differs in the TCP or UDP header of a segment.
    fn set_transport(&self, segment: &mut PacketMut<'_>) -> Option<()> {
        if self.layout.protocol == ip_protocol::UDP {
            return set_length(segment, self.layout.l4, UDP_LENGTH_OFFSET);
        }
        let (header, _) =
            split::<TcpHeader>(self.headers.get(self.layout.l4..self.layout.payload)?)?;
        let skipped = (self.made * self.segment_size) as u32;
        let sequence = header.sequence.get().wrapping_add(skipped);
        let mut flags = header.offset_flags.get();
        if self.left() > 1 {
            flags &= !(FIN | PSH);
        }
        if self.made > 0 {
            flags &= !CWR;
        }
        let done = segment.write(self.layout.l4 + TCP_SEQUENCE_OFFSET, &sequence.to_be_bytes())
            && segment.write(self.layout.l4 + TCP_FLAGS_OFFSET, &flags.to_be_bytes());
        done.then_some(())
    }

    /// Makes an IP header say how long its packet is, and which of the segments.
    fn set_ip(&self, segment: &mut PacketMut<'_>, headers: &Headers) -> Option<()> {
        if headers.version == IpVersion::V6 {
            let length = segment.view().len().checked_sub(headers.l3_end)?;
            let place = headers.l3 + IPV6_LENGTH_OFFSET;
            return segment.write(place, &u16::try_from(length).ok()?.to_be_bytes()).then_some(());
        }
        set_length(segment, headers.l3, IPV4_LENGTH_OFFSET)?;
        let place = headers.l3 + IPV4_IDENTIFICATION_OFFSET;
        let identification = self.half_word(place)?.wrapping_add(self.made as u16);
        segment.write(place, &identification.to_be_bytes()).then_some(())?;
        finish_ipv4_header(segment, headers)
    }

    /// Sets what differs in the headers of a tunnel.
    fn set_tunnel(&self, segment: &mut PacketMut<'_>, outer: &Headers) -> Option<()> {
        self.set_ip(segment, outer)?;
        segment.descriptor_mut().set_checksum(Layer::Ip, Checksum::Good);
        let Some(udp) = outer.transport.filter(|outer| outer.protocol == ip_protocol::UDP) else {
            return Some(());
        };
        set_length(segment, udp.l4, UDP_LENGTH_OFFSET)?;
        let has_checksum = self.half_word(udp.l4 + UDP_CHECKSUM_OFFSET)? != 0
            || self.packet.descriptor().checksum(Layer::Transport) == Checksum::Partial;
        let state = if has_checksum { Checksum::Partial } else { Checksum::Good };
        segment.descriptor_mut().set_checksum(Layer::Transport, state);
        Some(())
    }

    /// A half word of the headers of the large packet.
    fn half_word(&self, place: usize) -> Option<u16> {
        let bytes = self.headers.get(place..place + 2)?;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    }
}

/// Writes the number of bytes from `header` to the end of a packet into the half word `place` bytes
/// behind.
fn set_length(packet: &mut PacketMut<'_>, header: usize, place: usize) -> Option<()> {
    let length = packet.view().len().checked_sub(header)?;
    packet.write(header + place, &u16::try_from(length).ok()?.to_be_bytes()).then_some(())
}

#[cfg(test)]
mod tests;
