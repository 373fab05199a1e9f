//! What an Ethernet link can do: rates, duplex, medium and negotiation.

use bitflags::bitflags;

bitflags! {
    /// A set of link features. The bit numbers are those of `OFPPF_*` in OpenFlow 1.1 and later
    /// (OpenFlow 1.3.5, section 7.2.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Features: u32 {
        /// 10 Mbit/s, half duplex.
        const MBPS_10_HALF = 1 << 0;
        /// 10 Mbit/s, full duplex.
        const MBPS_10_FULL = 1 << 1;
        /// 100 Mbit/s, half duplex.
        const MBPS_100_HALF = 1 << 2;
        /// 100 Mbit/s, full duplex.
        const MBPS_100_FULL = 1 << 3;
        /// 1 Gbit/s, half duplex.
        const GBPS_1_HALF = 1 << 4;
        /// 1 Gbit/s, full duplex.
        const GBPS_1_FULL = 1 << 5;
        /// 10 Gbit/s, full duplex.
        const GBPS_10_FULL = 1 << 6;
        /// 40 Gbit/s, full duplex.
        const GBPS_40_FULL = 1 << 7;
        /// 100 Gbit/s, full duplex.
        const GBPS_100_FULL = 1 << 8;
        /// 1 Tbit/s, full duplex.
        const TBPS_1_FULL = 1 << 9;
        /// A rate that has no bit of its own.
        const OTHER_RATE = 1 << 10;
        /// Copper medium.
        const COPPER = 1 << 11;
        /// Fibre medium.
        const FIBER = 1 << 12;
        /// Negotiates rate and duplex with its peer.
        const AUTONEGOTIATION = 1 << 13;
        /// Pause frames both ways.
        const PAUSE = 1 << 14;
        /// Pause frames one way.
        const PAUSE_ASYMMETRIC = 1 << 15;
    }
}

impl Features {
    /// The fastest rate in the set in Mbit/s, or 0.
    pub fn max_mbps(self) -> u32 {
        [
            (Self::TBPS_1_FULL, 1_000_000),
            (Self::GBPS_100_FULL, 100_000),
            (Self::GBPS_40_FULL, 40_000),
            (Self::GBPS_10_FULL, 10_000),
            (Self::GBPS_1_HALF | Self::GBPS_1_FULL, 1_000),
            (Self::MBPS_100_HALF | Self::MBPS_100_FULL, 100),
            (Self::MBPS_10_HALF | Self::MBPS_10_FULL, 10),
        ]
        .into_iter()
        .find(|(features, _)| self.intersects(*features))
        .map_or(0, |(_, mbps)| mbps)
    }
}

/// The four feature sets of a link, as OpenFlow port descriptions show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFeatures {
    /// In use now.
    pub current: Features,
    /// Offered to the peer.
    pub advertised: Features,
    /// What the device can do.
    pub supported: Features,
    /// Offered by the peer.
    pub peer: Features,
}

/// Whether a link sends and receives at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// One way at a time.
    Half,
    /// Both ways at once.
    Full,
}

/// Rates of a link in Mbit/s; 0 where unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSpeed {
    /// In use now.
    pub current: u32,
    /// The fastest the device supports.
    pub max: u32,
}
