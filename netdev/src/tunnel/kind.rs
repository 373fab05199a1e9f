//! The protocols of tunnels.

/// UDP port of Geneve (RFC 8926, section 3.3).
const GENEVE_PORT: u16 = 6081;
/// UDP port of VXLAN (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4789;
/// UDP port of GTP-U (3GPP TS 29.281, section 4.4.2).
const GTPU_PORT: u16 = 2152;

/// The protocol of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TunnelKind {
    /// Any protocol directly in UDP.
    Bareudp,
    /// ERSPAN over IPv4.
    Erspan,
    /// Geneve.
    Geneve,
    /// GRE over IPv4.
    Gre,
    /// GTP-U.
    Gtpu,
    /// ERSPAN over IPv6.
    Ip6erspan,
    /// GRE over IPv6.
    Ip6gre,
    /// Segment routing over IPv6.
    Srv6,
    /// VXLAN.
    Vxlan,
}

impl TunnelKind {
    /// All protocols, by name.
    pub const ALL: [Self; 9] = [
        Self::Bareudp,
        Self::Erspan,
        Self::Geneve,
        Self::Gre,
        Self::Gtpu,
        Self::Ip6erspan,
        Self::Ip6gre,
        Self::Srv6,
        Self::Vxlan,
    ];

    /// The name of the port type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bareudp => "bareudp",
            Self::Erspan => "erspan",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
            Self::Gtpu => "gtpu",
            Self::Ip6erspan => "ip6erspan",
            Self::Ip6gre => "ip6gre",
            Self::Srv6 => "srv6",
            Self::Vxlan => "vxlan",
        }
    }

    /// The protocol whose port type has the name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The front of the name of the datapath port that all tunnels of the protocol share.
    pub(super) fn datapath_prefix(self) -> &'static str {
        match self {
            Self::Bareudp => "udp_sys",
            Self::Erspan => "erspan_sys",
            Self::Geneve => "genev_sys",
            Self::Gre => "gre_sys",
            Self::Gtpu => "gtpu_sys",
            Self::Ip6erspan => "ip6erspan_sys",
            Self::Ip6gre => "ip6gre_sys",
            Self::Srv6 => "srv6_sys",
            Self::Vxlan => "vxlan_sys",
        }
    }

    /// Whether it is carried in UDP.
    pub fn uses_udp(self) -> bool {
        matches!(self, Self::Bareudp | Self::Geneve | Self::Gtpu | Self::Vxlan)
    }

    /// The UDP port to which packets go where none is set; 0 where it has none.
    pub fn default_udp_port(self) -> u16 {
        match self {
            Self::Geneve => GENEVE_PORT,
            Self::Gtpu => GTPU_PORT,
            Self::Vxlan => VXLAN_PORT,
            _ => 0,
        }
    }

    /// Whether it is GRE, or has its header.
    pub fn is_gre(self) -> bool {
        matches!(self, Self::Erspan | Self::Gre | Self::Ip6erspan | Self::Ip6gre)
    }

    /// Whether it is ERSPAN.
    pub fn is_erspan(self) -> bool {
        matches!(self, Self::Erspan | Self::Ip6erspan)
    }

    /// Whether its header, or UDP's, may have a checksum at will.
    pub(super) fn has_checksum(self) -> bool {
        self.is_gre() || matches!(self, Self::Geneve | Self::Vxlan)
    }

    /// Whether it can carry Ethernet frames. VXLAN can so without its extension as with it.
    pub(super) fn carries_ethernet(self) -> bool {
        !matches!(self, Self::Bareudp | Self::Gtpu | Self::Srv6)
    }

    /// Whether it can carry packets without an Ethernet header, VXLAN with the extension
    /// (`exts=gpe`).
    pub(super) fn carries_network(self, gpe: bool) -> bool {
        match self {
            Self::Bareudp | Self::Gre | Self::Gtpu | Self::Srv6 => true,
            Self::Vxlan => gpe,
            Self::Erspan | Self::Geneve | Self::Ip6erspan | Self::Ip6gre => false,
        }
    }
}
