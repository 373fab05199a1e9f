//! What drivers tell of their devices (linux/ethtool.h).

use rustix::io::Errno;

use super::ioctl;
use crate::features::{Duplex, Features, LinkFeatures, LinkSpeed};

/// Names that a driver gives itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DriverInfo {
    pub(super) driver: String,
    pub(super) version: String,
    pub(super) firmware_version: String,
}

impl DriverInfo {
    /// Asks the driver of device `name`.
    pub(super) fn read(name: &str) -> Result<Self, Errno> {
        let structure = ioctl::driver_info(name)?;
        let (texts, _) = structure.split_at(4 + 3 * 32);
        let mut texts = texts.iter().skip(4).copied();
        let mut text = || {
            let bytes: Vec<u8> = texts.by_ref().take(32).collect();
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
        };
        Ok(Self { driver: text(), version: text(), firmware_version: text() })
    }
}

/// `ETH_FLAG_RXVLAN`.
const TAKES_TAGS_OUT: u32 = 1 << 8;

/// Whether device `name` takes VLAN tags out of the frames that it receives.
pub(crate) fn takes_tags_out(name: &str) -> Result<bool, Errno> {
    let [_, _, _, _, a, b, c, d] = ioctl::flags(name)?;
    Ok(u32::from_ne_bytes([a, b, c, d]) & TAKES_TAGS_OUT != 0)
}

/// Receive queues of device `name`: those for receiving alone, and those for both ways.
pub(crate) fn receive_queues(name: &str) -> Result<u32, Errno> {
    let structure = ioctl::channels(name)?;
    let word = |at: usize| {
        let bytes = structure.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    };
    Ok(word(20).saturating_add(word(32)))
}

/// State of a link as its driver tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkSettings {
    pub(super) speed: LinkSpeed,
    pub(super) duplex: Option<Duplex>,
    pub(super) features: LinkFeatures,
}

/// `SPEED_UNKNOWN`.
const UNKNOWN_SPEED: u32 = u32::MAX;
const DUPLEX_HALF: u8 = 0;
const DUPLEX_FULL: u8 = 1;
const PORT_TP: u8 = 0;
const PORT_FIBRE: u8 = 3;

/// `SUPPORTED_*` and `ADVERTISED_*`: bit and feature.
const MODES: [(u32, Features); 20] = [
    (0, Features::MBPS_10_HALF),
    (1, Features::MBPS_10_FULL),
    (2, Features::MBPS_100_HALF),
    (3, Features::MBPS_100_FULL),
    (4, Features::GBPS_1_HALF),
    (5, Features::GBPS_1_FULL),
    (6, Features::AUTONEGOTIATION),
    (7, Features::COPPER),
    (10, Features::FIBER),
    (12, Features::GBPS_10_FULL),
    (13, Features::PAUSE),
    (14, Features::PAUSE_ASYMMETRIC),
    (17, Features::GBPS_1_FULL),
    (18, Features::GBPS_10_FULL),
    (19, Features::GBPS_10_FULL),
    (20, Features::GBPS_10_FULL),
    (23, Features::GBPS_40_FULL),
    (24, Features::GBPS_40_FULL),
    (25, Features::GBPS_40_FULL),
    (26, Features::GBPS_40_FULL),
];

impl LinkSettings {
    /// Asks the driver of device `name`.
    pub(super) fn read(name: &str) -> Result<Self, Errno> {
        Ok(Self::parse(ioctl::settings(name)?))
    }

    /// Reads a `struct ethtool_cmd`.
    fn parse(structure: [u8; ioctl::SETTINGS_LENGTH]) -> Self {
        let byte = |at: usize| structure.get(at).copied().unwrap_or_default();
        let half = |at: usize| u16::from_ne_bytes([byte(at), byte(at + 1)]);
        let word = |at: usize| u32::from_ne_bytes([at, at + 1, at + 2, at + 3].map(byte));
        let (supported, advertised) = (modes(word(4)), modes(word(8)));
        let speed = u32::from(half(28)) << 16 | u32::from(half(12));
        let speed = if speed == UNKNOWN_SPEED { 0 } else { speed };
        let (duplex, port, autonegotiation) = (byte(14), byte(15), byte(18));
        let is_full = duplex != DUPLEX_HALF;
        let mut current = match (speed, is_full) {
            (0, _) => Features::empty(),
            (10, false) => Features::MBPS_10_HALF,
            (10, true) => Features::MBPS_10_FULL,
            (100, false) => Features::MBPS_100_HALF,
            (100, true) => Features::MBPS_100_FULL,
            (1_000, false) => Features::GBPS_1_HALF,
            (1_000, true) => Features::GBPS_1_FULL,
            (10_000, _) => Features::GBPS_10_FULL,
            (40_000, _) => Features::GBPS_40_FULL,
            (100_000, _) => Features::GBPS_100_FULL,
            (1_000_000, _) => Features::TBPS_1_FULL,
            _ => Features::OTHER_RATE,
        };
        current |= match port {
            PORT_TP => Features::COPPER,
            PORT_FIBRE => Features::FIBER,
            _ => Features::empty(),
        };
        if autonegotiation != 0 {
            current |= Features::AUTONEGOTIATION;
        }
        Self {
            speed: LinkSpeed { current: speed, max: supported.max_mbps() },
            duplex: match duplex {
                DUPLEX_HALF => Some(Duplex::Half),
                DUPLEX_FULL => Some(Duplex::Full),
                _ => None,
            },
            features: LinkFeatures { current, advertised, supported, peer: Features::empty() },
        }
    }
}

fn modes(bits: u32) -> Features {
    let is_set = |(bit, _): &(u32, Features)| bits & 1 << bit != 0;
    MODES.into_iter().filter(is_set).map(|(_, feature)| feature).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_link_settings() {
        let mut structure = [0; ioctl::SETTINGS_LENGTH];
        structure[4..8].copy_from_slice(&0b1_0000_1110_1000_u32.to_ne_bytes());
        structure[8..12].copy_from_slice(&0b10_0000_u32.to_ne_bytes());
        structure[12..14].copy_from_slice(&10_000_u16.to_ne_bytes());
        (structure[14], structure[15], structure[18]) = (DUPLEX_FULL, PORT_FIBRE, 1);
        let expected = LinkSettings {
            speed: LinkSpeed { current: 10_000, max: 10_000 },
            duplex: Some(Duplex::Full),
            features: LinkFeatures {
                current: Features::GBPS_10_FULL | Features::FIBER | Features::AUTONEGOTIATION,
                advertised: Features::GBPS_1_FULL,
                supported: Features::MBPS_100_FULL
                    | Features::GBPS_1_FULL
                    | Features::AUTONEGOTIATION
                    | Features::COPPER
                    | Features::GBPS_10_FULL,
                peer: Features::empty(),
            },
        };
        assert_eq!(LinkSettings::parse(structure), expected);
    }

    #[test]
    fn unknown_speed_and_duplex_are_none() {
        let mut structure = [0; ioctl::SETTINGS_LENGTH];
        structure[12..14].copy_from_slice(&[0xff; 2]);
        structure[28..30].copy_from_slice(&[0xff; 2]);
        (structure[14], structure[15]) = (0xff, 0xef);
        let expected = LinkSettings {
            speed: LinkSpeed::default(),
            duplex: None,
            features: LinkFeatures::default(),
        };
        assert_eq!(LinkSettings::parse(structure), expected);
    }

    #[test]
    fn speeds_above_16_bits_have_a_high_half() {
        let mut structure = [0; ioctl::SETTINGS_LENGTH];
        structure[12..14].copy_from_slice(&(200_000_u32 as u16).to_ne_bytes());
        structure[28..30].copy_from_slice(&3_u16.to_ne_bytes());
        let settings = LinkSettings::parse(structure);
        assert_eq!(settings.speed, LinkSpeed { current: 200_000, max: 0 });
        assert_eq!(settings.features.current, Features::OTHER_RATE | Features::COPPER);
    }
}
