//! What is known about a packet beside its bytes: one cache line per frame.

use super::memory::Frame;

/// Value of a layer offset that is not known or does not exist.
pub const NO_LAYER: u16 = u16::MAX;

/// State of one checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Checksum {
    /// Nothing is known; the bytes say what they say.
    #[default]
    Unknown = 0,
    /// Checked and right.
    Good = 1,
    /// Checked and wrong.
    Bad = 2,
    /// To be finished by whoever transmits: the field holds the sum of the pseudo header, and
    /// [`Descriptor::checksum_start`] and [`Descriptor::checksum_offset`] say where.
    Partial = 3,
}

/// A header whose checksum state is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The outermost IPv4 header.
    Ip,
    /// The outermost TCP, UDP or SCTP header.
    Transport,
    /// The IPv4 header inside a tunnel.
    InnerIp,
    /// The TCP, UDP or SCTP header inside a tunnel.
    InnerTransport,
}

/// How a packet longer than the wire allows is to be cut up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Segmentation {
    /// Not at all.
    #[default]
    None,
    /// TCP over IPv4, each segment with its own sequence number.
    TcpIpv4,
    /// TCP over IPv6, likewise.
    TcpIpv6,
    /// UDP, each segment a datagram of its own.
    Udp,
}

/// An 802.1Q tag carried beside the frame, as devices with tag offload hand it over. It is the
/// outermost tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanTag {
    /// Tag protocol: 0x8100 or 0x88a8. Never 0.
    pub tpid: u16,
    /// Priority (3 bits), drop eligible (1 bit), VLAN (12 bits).
    pub tci: u16,
}

/// What is known about a frame. In a packet of several frames the first frame speaks for the
/// packet; the others use only `offset`, `length` and `next`.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Descriptor {
    // Written on receive and read by every stage.
    /// Where the data starts in the frame, in bytes.
    pub(super) offset: u16,
    /// Bytes of data in this frame.
    pub(super) length: u16,
    /// Datapath port on which the packet came in.
    pub in_port: u32,
    rss_hash: u32,
    /// Flow mark set by the port's hardware; 0 is none.
    pub mark: u32,
    // Written by key extraction.
    /// Offset of the network header from the start of the data, or [`NO_LAYER`].
    pub l3: u16,
    /// Offset of the transport header, or [`NO_LAYER`].
    pub l4: u16,
    /// Offset of the network header inside a tunnel, or [`NO_LAYER`].
    pub inner_l3: u16,
    /// Offset of the transport header inside a tunnel, or [`NO_LAYER`].
    pub inner_l4: u16,
    // What the ports at both ends agree on.
    /// Where a partial checksum starts summing, from the start of the data; 0 when nobody said
    /// so. Of the innermost of several.
    pub checksum_start: u16,
    /// Where a partial checksum is stored, from `checksum_start`.
    pub checksum_offset: u16,
    vlan_tci: u16,
    vlan_tpid: u16,
    /// Payload bytes of each segment, when `segmentation` is not `None`.
    pub segment_size: u16,
    /// How to segment the packet.
    pub segmentation: Segmentation,
    checksums: u8,
    /// The frame that continues the packet.
    pub(super) next: Option<Frame>,
    // What earlier passes through the pipeline left.
    /// Recirculation that the packet continues; 0 for the first pass.
    pub recirc_id: u32,
    /// Hash computed by a hash action; 0 is none.
    pub dp_hash: u32,
    /// Packet mark (`skb_mark`).
    pub skb_mark: u32,
    /// Quality of service class (`skb_priority`).
    pub skb_priority: u32,
    /// Index of the record with tunnel and connection tracking fields, which the datapath keeps;
    /// 0 is none.
    pub metadata: u32,
    /// Ethertype of a packet that starts with its network header; 0 when it starts with Ethernet.
    pub l3_type: u16,
    rss_valid: bool,
}

const _: () = assert!(size_of::<Descriptor>() == 64);

impl Default for Descriptor {
    fn default() -> Self {
        Self {
            offset: 0,
            length: 0,
            in_port: 0,
            rss_hash: 0,
            mark: 0,
            l3: NO_LAYER,
            l4: NO_LAYER,
            inner_l3: NO_LAYER,
            inner_l4: NO_LAYER,
            checksum_start: 0,
            checksum_offset: 0,
            vlan_tci: 0,
            vlan_tpid: 0,
            segment_size: 0,
            segmentation: Segmentation::None,
            checksums: 0,
            next: None,
            recirc_id: 0,
            dp_hash: 0,
            skb_mark: 0,
            skb_priority: 0,
            metadata: 0,
            l3_type: 0,
            rss_valid: false,
        }
    }
}

impl Descriptor {
    /// A frame without data, which will start at `offset`.
    pub(super) fn empty_at(offset: u16) -> Self {
        Self { offset, ..Self::default() }
    }

    /// Everything that `from` knows about its packet, for a copy whose data lies elsewhere.
    pub(crate) fn copy_knowledge(&mut self, from: &Self) {
        *self = Self { offset: self.offset, length: self.length, next: self.next.take(), ..*from };
    }

    /// Whether all data of the packet is in this frame.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.next.is_none()
    }

    /// Hash over addresses and ports, from the device or computed earlier.
    #[inline]
    pub fn rss_hash(&self) -> Option<u32> {
        self.rss_valid.then_some(self.rss_hash)
    }

    /// Sets or forgets the hash over addresses and ports.
    #[inline]
    pub fn set_rss_hash(&mut self, hash: Option<u32>) {
        self.rss_valid = hash.is_some();
        self.rss_hash = hash.unwrap_or(0);
    }

    /// The tag carried beside the frame.
    #[inline]
    pub fn vlan(&self) -> Option<VlanTag> {
        (self.vlan_tpid != 0).then_some(VlanTag { tpid: self.vlan_tpid, tci: self.vlan_tci })
    }

    /// Sets or removes the tag carried beside the frame.
    pub fn set_vlan(&mut self, tag: Option<VlanTag>) {
        let VlanTag { tpid, tci } = tag.unwrap_or(VlanTag { tpid: 0, tci: 0 });
        self.vlan_tpid = tpid;
        self.vlan_tci = tci;
    }

    /// State of the checksum of `layer`.
    pub fn checksum(&self, layer: Layer) -> Checksum {
        match self.checksums >> (layer as u8 * 2) & 3 {
            0 => Checksum::Unknown,
            1 => Checksum::Good,
            2 => Checksum::Bad,
            _ => Checksum::Partial,
        }
    }

    /// Whether whoever transmits has nothing to do to the packet: no checksum to finish, nothing to
    /// cut up, no tag to put in.
    #[inline]
    pub fn is_finished(&self) -> bool {
        // Both bits of a layer are set in `Checksum::Partial` alone.
        let partial = self.checksums & self.checksums >> 1 & 0b0101_0101;
        let rest = u16::from(self.segmentation as u8 | partial) | self.vlan_tpid;
        rest == 0
    }

    /// Whether the checksum of the outermost IPv4 header is all that is to be finished.
    #[inline]
    pub(crate) fn lacks_ip_checksum_alone(&self) -> bool {
        self.checksums & self.checksums >> 1 & 0b0101_0101 == 1 << (Layer::Ip as u8 * 2)
    }

    /// Sets the state of the checksum of `layer`.
    pub fn set_checksum(&mut self, layer: Layer, state: Checksum) {
        let shift = layer as u8 * 2;
        self.checksums = self.checksums & !(3 << shift) | (state as u8) << shift;
    }

    /// Moves every offset by `by` bytes after data was put (`by > 0`) or taken at the front.
    /// Offsets that would fall before the data are forgotten.
    pub(super) fn shift(&mut self, by: i32) {
        for layer in [&mut self.l3, &mut self.l4, &mut self.inner_l3, &mut self.inner_l4] {
            if *layer != NO_LAYER {
                *layer = u16::try_from(i32::from(*layer) + by).unwrap_or(NO_LAYER);
            }
        }
        if self.checksum_start != 0 {
            let start = i32::from(self.checksum_start) + by;
            self.checksum_start = u16::try_from(start).unwrap_or(0);
        }
    }
}
