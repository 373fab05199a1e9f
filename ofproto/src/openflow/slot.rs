//! The places in which a [`super::flow_match::Match`] stores field values.
//!
//! Several fields may be views of one slot: `vlan_vid` and `vlan_pcp` are parts of the VLAN tag,
//! `tcp_src` and `udp_src` the same bytes, and the registers parts of the 128-bit ones.

/// One place of a match. Slots are ordered as matches list them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

/// Number of 128-bit registers.
pub const N_XXREGS: u8 = 8;
/// Number of tunnel metadata fields.
pub const N_TUN_METADATA: u8 = 64;
/// Greatest number of bytes of one tunnel metadata field.
pub const TUN_METADATA_LEN: usize = 124;

macro_rules! slots {
    ($($constant:ident $bytes:literal $text:literal,)+) => {
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "become constants")]
        enum Place { $($constant,)+ End }

        /// Bytes of the slots before the numbered ones.
        static BYTES: &[u8] = &[$($bytes),+];
        static NAMES: &[&str] = &[$(stringify!($constant)),+];

        impl Slot {
            $(#[doc = $text] pub const $constant: Slot = Slot(Place::$constant as u8);)+
        }
    };
}

slots! {
    PACKET_TYPE 4 "Packet type: namespace and type within it; zero is Ethernet.",
    DP_HASH 4 "Hash that the datapath computed.",
    RECIRC_ID 4 "Recirculation round.",
    CONJ_ID 4 "Conjunction that a conjunctive match satisfied.",
    IN_PORT 2 "OpenFlow input port.",
    ACTSET_OUTPUT 2 "Output port of the action set.",
    SKB_PRIORITY 4 "Queue priority.",
    TUN_ID 8 "Tunnel key.",
    TUN_SRC 4 "Outer IPv4 source.",
    TUN_DST 4 "Outer IPv4 destination.",
    TUN_IPV6_SRC 16 "Outer IPv6 source.",
    TUN_IPV6_DST 16 "Outer IPv6 destination.",
    TUN_FLAGS 2 "Tunnel flags.",
    TUN_TTL 1 "Outer time to live.",
    TUN_TOS 1 "Outer type of service.",
    TUN_GBP_ID 2 "VXLAN group policy id.",
    TUN_GBP_FLAGS 1 "VXLAN group policy flags.",
    TUN_ERSPAN_IDX 4 "ERSPAN index.",
    TUN_ERSPAN_VER 1 "ERSPAN version.",
    TUN_ERSPAN_DIR 1 "ERSPAN direction.",
    TUN_ERSPAN_HWID 1 "ERSPAN hardware id.",
    TUN_GTPU_FLAGS 1 "GTP-U flags.",
    TUN_GTPU_MSGTYPE 1 "GTP-U message type.",
    METADATA 8 "OpenFlow metadata.",
    PKT_MARK 4 "Packet mark.",
    CT_STATE 4 "Connection tracking state bits.",
    CT_ZONE 2 "Connection tracking zone.",
    CT_MARK 4 "Connection tracking mark.",
    CT_LABEL 16 "Connection tracking label.",
    CT_NW_PROTO 1 "Protocol of the tracked connection.",
    CT_NW_SRC 4 "IPv4 source of the tracked connection.",
    CT_NW_DST 4 "IPv4 destination of the tracked connection.",
    CT_IPV6_SRC 16 "IPv6 source of the tracked connection.",
    CT_IPV6_DST 16 "IPv6 destination of the tracked connection.",
    CT_TP_SRC 2 "Source port of the tracked connection.",
    CT_TP_DST 2 "Destination port of the tracked connection.",
    ETH_SRC 6 "Ethernet source.",
    ETH_DST 6 "Ethernet destination.",
    ETH_TYPE 2 "Ethernet type.",
    VLAN_TCI 2 "Outer VLAN tag; bit 12 says that there is one.",
    MPLS_LSE 4 "Outer MPLS label stack entry.",
    NW_SRC 4 "IPv4 source or ARP sender protocol address.",
    NW_DST 4 "IPv4 destination or ARP target protocol address.",
    IPV6_SRC 16 "IPv6 source.",
    IPV6_DST 16 "IPv6 destination.",
    IPV6_LABEL 4 "IPv6 flow label.",
    NW_PROTO 1 "IP protocol or the low byte of the ARP opcode.",
    NW_TOS 1 "IP type of service or traffic class.",
    NW_TTL 1 "IP time to live or hop limit.",
    NW_FRAG 1 "Fragment bits: 1 any fragment, 2 not the first.",
    ARP_SHA 6 "ARP sender or ND source hardware address.",
    ARP_THA 6 "ARP target or ND target hardware address.",
    TP_SRC 2 "Transport source port or ICMP type.",
    TP_DST 2 "Transport destination port or ICMP code.",
    TCP_FLAGS 2 "TCP flags or ND option type.",
    ND_TARGET 16 "ND target address.",
    ND_RESERVED 4 "Reserved bits of a neighbor advertisement.",
    NSH_FLAGS 1 "NSH flags.",
    NSH_MDTYPE 1 "NSH metadata type.",
    NSH_NP 1 "NSH next protocol.",
    NSH_PATH 4 "NSH service path (24 bits) and index (8 bits).",
    NSH_C1 4 "NSH context 1.",
    NSH_C2 4 "NSH context 2.",
    NSH_C3 4 "NSH context 3.",
    NSH_C4 4 "NSH context 4.",
    NSH_TTL 1 "NSH time to live.",
}

impl Slot {
    /// The 128-bit register `index`, below [`N_XXREGS`].
    pub const fn xxreg(index: u8) -> Slot {
        Slot(Place::End as u8 + index % N_XXREGS)
    }

    /// The tunnel metadata field `index`, below [`N_TUN_METADATA`].
    pub const fn tun_metadata(index: u8) -> Slot {
        Slot(Place::End as u8 + N_XXREGS + index % N_TUN_METADATA)
    }

    /// All slots but those of tunnel metadata, in order.
    pub fn fixed() -> impl Iterator<Item = Slot> {
        (0..Slot::tun_metadata(0).0).map(Slot)
    }

    /// The index of a tunnel metadata slot, `None` for any other.
    pub fn tun_metadata_index(self) -> Option<u8> {
        self.0.checked_sub(Slot::tun_metadata(0).0)
    }

    /// Bytes of the slot, the most for tunnel metadata.
    pub fn bytes(self) -> usize {
        match BYTES.get(usize::from(self.0)) {
            Some(bytes) => usize::from(*bytes),
            None if self.tun_metadata_index().is_some() => TUN_METADATA_LEN,
            None => 16,
        }
    }

    /// The number by which a packed match names the slot.
    pub(super) fn code(self) -> u8 {
        self.0
    }

    /// The slot with the given number.
    pub(super) fn from_code(code: u8) -> Slot {
        Slot(code)
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (NAMES.get(usize::from(self.0)), self.tun_metadata_index()) {
            (Some(name), _) => f.write_str(name),
            (None, Some(index)) => write!(f, "TUN_METADATA{index}"),
            (None, None) => write!(f, "XXREG{}", self.0 - Place::End as u8),
        }
    }
}
