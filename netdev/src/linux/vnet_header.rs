//! The virtio network header, in which the kernel says what is left to do to a packet
//! (virtio 1.2 section 5.1.6, `linux/virtio_net.h`). Fields are in native byte order.

use crate::checksum::{InvalidHeader, prepare_for_device};
use crate::packet::{Checksum, Layer, PacketMut, Segmentation};

/// Length of the header in front of frames of tap devices: with the number of buffers, which is
/// not used.
pub(super) const TAP_LENGTH: usize = 12;
/// Length of the header in front of frames of packet sockets: without it.
pub(super) const PACKET_LENGTH: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;

const GSO_NONE: u8 = 0;
const GSO_TCP_IPV4: u8 = 1;
const GSO_TCP_IPV6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Bit beside the type: the first segment carries congestion information.
const GSO_ECN: u8 = 0x80;

/// Bytes of a transport header without options, to tell the kernel where headers end.
const TCP_HEADER_LENGTH: u16 = 20;
const UDP_HEADER_LENGTH: u16 = 8;

/// The kernel wants a packet cut up in a way that the switch does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnknownSegmentation;

/// What the kernel says or is told about one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VnetHeader {
    flags: u8,
    gso_type: u8,
    header_length: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl VnetHeader {
    pub(super) fn parse(bytes: [u8; PACKET_LENGTH]) -> Self {
        let [flags, gso_type, a, b, c, d, e, f, g, h] = bytes;
        Self {
            flags,
            gso_type,
            header_length: u16::from_ne_bytes([a, b]),
            gso_size: u16::from_ne_bytes([c, d]),
            checksum_start: u16::from_ne_bytes([e, f]),
            checksum_offset: u16::from_ne_bytes([g, h]),
        }
    }

    /// The header for a packet that is to be sent. Prepares a partial checksum as the kernel
    /// expects it.
    pub(super) fn of(packet: &mut PacketMut<'_>) -> Result<Self, InvalidHeader> {
        let descriptor = packet.view().descriptor();
        let (segmentation, gso_size) = (descriptor.segmentation, descriptor.segment_size);
        let is_partial = |layer| descriptor.checksum(layer) == Checksum::Partial;
        let layer = if is_partial(Layer::InnerTransport) {
            Layer::InnerTransport
        } else if is_partial(Layer::Transport) || segmentation != Segmentation::None {
            Layer::Transport
        } else {
            return Ok(Self::default());
        };
        let (checksum_start, checksum_offset) = prepare_for_device(packet, layer)?;
        let (gso_type, gso_size, transport) = match segmentation {
            Segmentation::None => (GSO_NONE, 0, 0),
            Segmentation::TcpIpv4 => (GSO_TCP_IPV4, gso_size, TCP_HEADER_LENGTH),
            Segmentation::TcpIpv6 => (GSO_TCP_IPV6, gso_size, TCP_HEADER_LENGTH),
            Segmentation::Udp => (GSO_UDP, gso_size, UDP_HEADER_LENGTH),
        };
        let header_length = match segmentation {
            Segmentation::None => 0,
            _ => checksum_start.saturating_add(transport),
        };
        let flags = NEEDS_CHECKSUM;
        Ok(Self { flags, gso_type, header_length, gso_size, checksum_start, checksum_offset })
    }

    pub(super) fn bytes(&self) -> [u8; TAP_LENGTH] {
        let [a, b] = self.header_length.to_ne_bytes();
        let [c, d] = self.gso_size.to_ne_bytes();
        let [e, f] = self.checksum_start.to_ne_bytes();
        let [g, h] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h, 0, 0]
    }

    /// Takes over what is said about a received packet.
    pub(super) fn apply(&self, packet: &mut PacketMut<'_>) -> Result<(), UnknownSegmentation> {
        let segmentation = match self.gso_type & !GSO_ECN {
            GSO_NONE => Segmentation::None,
            GSO_TCP_IPV4 => Segmentation::TcpIpv4,
            GSO_TCP_IPV6 => Segmentation::TcpIpv6,
            GSO_UDP => Segmentation::Udp,
            _ => return Err(UnknownSegmentation),
        };
        let descriptor = packet.descriptor_mut();
        if segmentation != Segmentation::None {
            (descriptor.segmentation, descriptor.segment_size) = (segmentation, self.gso_size);
        }
        if self.flags & NEEDS_CHECKSUM != 0 {
            descriptor.set_checksum(Layer::Transport, Checksum::Partial);
            descriptor.checksum_start = self.checksum_start;
            descriptor.checksum_offset = self.checksum_offset;
        } else if self.flags & DATA_VALID != 0 {
            descriptor.set_checksum(Layer::Transport, Checksum::Good);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FramePool;
    use crate::sample::{Kind, Sample};

    const TCP: Kind = Kind::Tcp { sequence: 7, flags: 0x18, option_words: 3 };

    fn header(flags: u8, gso_type: u8, gso_size: u16, start: u16, offset: u16) -> VnetHeader {
        let header_length = match gso_type {
            0 => 0,
            5 => start + 8,
            _ => start + 20,
        };
        VnetHeader {
            flags,
            gso_type,
            header_length,
            gso_size,
            checksum_start: start,
            checksum_offset: offset,
        }
    }

    #[test]
    fn what_comes_in_goes_out() {
        let pool = FramePool::new(8).unwrap();
        let tcp4 = Sample::new(false, TCP, vec![1; 3000]);
        let tcp6 = Sample { is_ipv6: true, ..tcp4.clone() };
        let udp = Sample { kind: Kind::Udp, ..tcp4.clone() };
        let start = |sample: &Sample| sample.l4() as u16;
        for (sample, header) in [
            (&tcp4, VnetHeader::default()),
            (&tcp4, header(1, 0, 0, start(&tcp4), 16)),
            (&udp, header(1, 0, 0, start(&udp), 6)),
            (&tcp4, header(1, 1, 1448, start(&tcp4), 16)),
            (&tcp6, header(1, 4, 1428, start(&tcp6), 16)),
            (&udp, header(1, 5, 1400, start(&udp), 6)),
            // A place in the middle of nowhere.
            (&udp, header(1, 0, 0, 100, 6)),
        ] {
            let mut packet = pool.packet_with(&sample.frame()).unwrap();
            let bytes = header.bytes();
            let parsed = VnetHeader::parse(*bytes.first_chunk().unwrap());
            assert_eq!((parsed, &bytes[PACKET_LENGTH..]), (header, &[0, 0][..]));
            assert_eq!(header.apply(&mut packet.view_mut()), Ok(()));
            assert_eq!(VnetHeader::of(&mut packet.view_mut()), Ok(header));
        }
    }

    #[test]
    fn knows_what_was_checked_and_what_it_cannot_cut() {
        let pool = FramePool::new(8).unwrap();
        let mut packet = pool.packet_with(&[0; 60]).unwrap();
        assert_eq!(header(2, 0, 0, 0, 0).apply(&mut packet.view_mut()), Ok(()));
        let checksum = packet.view().descriptor().checksum(Layer::Transport);
        assert_eq!(checksum, Checksum::Good);
        assert_eq!(VnetHeader::of(&mut packet.view_mut()), Ok(VnetHeader::default()));
        assert_eq!(header(1, 0x81, 1400, 34, 16).apply(&mut packet.view_mut()), Ok(()));
        assert_eq!(packet.view().descriptor().segmentation, Segmentation::TcpIpv4);
        for gso_type in [2, 3, 6, 0x7f] {
            let header = header(1, gso_type, 1400, 34, 6);
            assert_eq!(header.apply(&mut packet.view_mut()), Err(UnknownSegmentation));
        }
        // Large, but no TCP packet.
        packet.view_mut().descriptor_mut().checksum_start = 0;
        assert_eq!(VnetHeader::of(&mut packet.view_mut()), Err(InvalidHeader));
    }
}
