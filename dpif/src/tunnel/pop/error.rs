//! Why a tunnel's headers could not be taken off a packet.

use thiserror::Error;

use crate::tunnel::events::Event;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum PopError {
    #[error("{header} header is cut short")]
    Truncated { header: &'static str },
    #[error("{header} packet is truncated ({header} length {says}, actual {actual})")]
    Length { header: &'static str, says: usize, actual: usize },
    #[error("outer packet is a fragment")]
    Fragment,
    #[error("ip options not supported on tunnel packets ({length} bytes)")]
    IpOptions { length: usize },
    #[error("ip packet has invalid version ({version})")]
    IpVersion { version: u8 },
    #[error("ip packet has invalid checksum")]
    IpChecksum,
    #[error("udp packet has invalid checksum")]
    UdpChecksum,
    #[error("gre packet has invalid checksum")]
    GreChecksum,
    #[error("outer packet is of protocol {protocol}, which is not that of the tunnel")]
    Protocol { protocol: u16 },
    #[error("invalid vxlan flags={flags:#x} vni={vni:#x}")]
    Vxlan { flags: u32, vni: u32 },
    #[error("unknown geneve version: {version}")]
    GeneveVersion { version: u8 },
    #[error("geneve options do not add up to {length} bytes")]
    GeneveOptions { length: usize },
    #[error("invalid gre flags={flags:#x}")]
    Gre { flags: u16 },
    #[error("ERSPAN version error {version}")]
    ErspanVersion { version: u8 },
    #[error("invalid gtpu flags={flags:#x}")]
    Gtpu { flags: u8 },
    #[error("invalid srv6 segments_left={segments_left}")]
    SegmentsLeft { segments_left: u8 },
    #[error("invalid srv6 routing header of type {routing_type}")]
    Routing { routing_type: u8 },
    #[error("unknown encapsulated protocol: {protocol:#x}")]
    Payload { protocol: u16 },
}

impl PopError {
    /// As what it is counted.
    pub(crate) fn event(self) -> Event {
        match self {
            Self::Truncated { .. } | Self::Length { .. } => Event::Truncated,
            Self::Fragment => Event::Fragment,
            Self::IpOptions { .. } => Event::IpOptions,
            Self::IpChecksum => Event::IpWrong,
            Self::UdpChecksum => Event::UdpWrong,
            Self::GreChecksum => Event::GreWrong,
            Self::Protocol { .. } => Event::WrongProtocol,
            Self::GeneveOptions { .. } => Event::BadOptions,
            Self::Payload { .. } => Event::BadPayload,
            Self::IpVersion { .. }
            | Self::Vxlan { .. }
            | Self::GeneveVersion { .. }
            | Self::Gre { .. }
            | Self::ErspanVersion { .. }
            | Self::Gtpu { .. }
            | Self::SegmentsLeft { .. }
            | Self::Routing { .. } => Event::BadHeader,
        }
    }

    /// Whether it is worth a warning. What anybody on the network may cause without a fault of the
    /// other end's is counted alone.
    pub(crate) fn is_logged(self) -> bool {
        !matches!(
            self,
            Self::UdpChecksum
                | Self::GreChecksum
                | Self::Gre { .. }
                | Self::Gtpu { .. }
                | Self::Routing { .. }
                | Self::Protocol { .. }
                | Self::Fragment
                | Self::Truncated { .. }
        )
    }
}
