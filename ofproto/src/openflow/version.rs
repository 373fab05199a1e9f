//! OpenFlow protocol versions and their negotiation.

use std::fmt;

/// A version of the OpenFlow wire protocol that this crate speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// OpenFlow 1.0.
    V10 = 1,
    /// OpenFlow 1.1.
    V11 = 2,
    /// OpenFlow 1.2.
    V12 = 3,
    /// OpenFlow 1.3.
    V13 = 4,
    /// OpenFlow 1.4.
    V14 = 5,
    /// OpenFlow 1.5.
    V15 = 6,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Version; 6] =
        [Version::V10, Version::V11, Version::V12, Version::V13, Version::V14, Version::V15];

    /// The version with the number of an OpenFlow header, `None` when unknown.
    pub fn from_wire(number: u8) -> Option<Version> {
        Self::ALL.into_iter().find(|version| *version as u8 == number)
    }

    /// The name that the `protocols` column of a bridge uses, such as `OpenFlow13`.
    pub fn protocol_name(self) -> &'static str {
        match self {
            Version::V10 => "OpenFlow10",
            Version::V11 => "OpenFlow11",
            Version::V12 => "OpenFlow12",
            Version::V13 => "OpenFlow13",
            Version::V14 => "OpenFlow14",
            Version::V15 => "OpenFlow15",
        }
    }

    /// The version with the given name of the `protocols` column.
    pub fn from_protocol_name(name: &str) -> Option<Version> {
        Self::ALL.into_iter().find(|version| version.protocol_name() == name)
    }
}

impl fmt::Display for Version {
    /// Writes the number that people use, such as `1.3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", *self as u8 - 1)
    }
}

/// A set of wire version numbers 1 to 31, as the version bitmap of a hello message carries it
/// (OpenFlow 1.3.1, section 7.5.1). It may hold versions that [`Version`] does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionSet(u32);

impl VersionSet {
    /// The set with the bits of a wire bitmap; version 0 does not exist and is dropped.
    pub fn from_bits(bits: u32) -> VersionSet {
        VersionSet(bits & !1)
    }

    /// Every version from 1 to `number`, which is what a hello without a bitmap means.
    pub fn up_to(number: u8) -> VersionSet {
        if number < 32 {
            VersionSet::from_bits((1u32 << number).wrapping_sub(1) | (1u32 << number))
        } else {
            VersionSet::from_bits(u32::MAX)
        }
    }

    /// The bits of the set; bit N stands for wire version N.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether the set holds no version.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `version` belongs to the set.
    pub fn contains(self, version: Version) -> bool {
        self.0 & (1 << version as u8) != 0
    }

    /// The greatest wire version number of the set, 0 when the set is empty.
    pub fn greatest(self) -> u8 {
        self.0.checked_ilog2().map_or(0, |bit| bit as u8)
    }

    /// The greatest version that both sides speak.
    ///
    /// ```
    /// use ofproto::openflow::version::{Version, VersionSet};
    /// let ours: VersionSet = [Version::V10, Version::V13].into_iter().collect();
    /// assert_eq!(ours.negotiate(VersionSet::up_to(6)), Some(Version::V13));
    /// assert_eq!(ours.negotiate(VersionSet::up_to(3)), Some(Version::V10));
    /// ```
    pub fn negotiate(self, peer: VersionSet) -> Option<Version> {
        Version::from_wire(VersionSet(self.0 & peer.0).greatest())
    }
}

impl FromIterator<Version> for VersionSet {
    fn from_iter<I: IntoIterator<Item = Version>>(versions: I) -> Self {
        VersionSet(versions.into_iter().fold(0, |bits, version| bits | 1 << version as u8))
    }
}

impl fmt::Display for VersionSet {
    /// Writes the wire numbers, such as `0x01, 0x04`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for number in (1..32).filter(|number| self.0 & (1 << number) != 0) {
            write!(f, "{separator}{number:#04x}")?;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiation_takes_the_greatest_common_version() {
        let ours: VersionSet = Version::ALL.into_iter().collect();
        assert_eq!(ours.bits(), 0x7e);
        assert_eq!(ours.negotiate(VersionSet::from_bits(0x12)), Some(Version::V13));
        assert_eq!(ours.negotiate(VersionSet::up_to(0x41)), Some(Version::V15));
        assert_eq!(ours.negotiate(VersionSet::from_bits(0x100)), None);
        assert_eq!(ours.negotiate(VersionSet::up_to(0)), None);
    }

    #[test]
    fn text() {
        assert_eq!(VersionSet::from_bits(0x13).to_string(), "0x01, 0x04");
        assert_eq!(Version::V14.to_string(), "1.4");
        assert_eq!(Version::from_protocol_name("OpenFlow12"), Some(Version::V12));
        assert_eq!(Version::from_protocol_name("OpenFlow16"), None);
    }
}
