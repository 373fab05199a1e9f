//! The 48-bit hardware address of an Ethernet station (IEEE 802, EUI-48).

use std::fmt;
use std::str::FromStr;

/// A 48-bit Ethernet address, in the order of its bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EthernetAddress(pub [u8; 6]);

impl EthernetAddress {
    /// Whether the address names a group of stations (broadcast included).
    pub fn is_multicast(self) -> bool {
        let [first, ..] = self.0;
        first & 1 != 0
    }

    /// The address with its first byte made that of one locally administered station, as random
    /// addresses must have.
    pub fn made_local_station(self) -> Self {
        let [first, rest @ ..] = self.0;
        let [b, c, d, e, f] = rest;
        Self([first & !1 | 2, b, c, d, e, f])
    }
}

impl fmt::Display for EthernetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text that is not an Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an Ethernet address (expected six hexadecimal bytes, xx:xx:xx:xx:xx:xx)")]
pub struct BadEthernetAddress(pub String);

impl FromStr for EthernetAddress {
    type Err = BadEthernetAddress;

    /// Six groups of one or two hexadecimal digits with colons between them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadEthernetAddress(text.to_owned());
        let mut groups = text.split(':');
        let mut bytes = [0; 6];
        for byte in &mut bytes {
            let group = groups.next().ok_or_else(bad)?;
            let is_hexadecimal = group.bytes().all(|digit| digit.is_ascii_hexdigit());
            if !is_hexadecimal || !(1..=2).contains(&group.len()) {
                return Err(bad());
            }
            *byte = u8::from_str_radix(group, 16).map_err(|_| bad())?;
        }
        match groups.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses() {
        let address = EthernetAddress([0xaa, 0x55, 0xaa, 0x55, 0x00, 0x0f]);
        assert_eq!(address.to_string(), "aa:55:aa:55:00:0f");
        assert_eq!("aa:55:AA:55:0:0f".parse(), Ok(address));
        for bad in
            ["", "aa:55:aa:55:00", "aa:55:aa:55:00:0f:", "aa:55:aa:55:00:+f", "0aa:5:5:5:5:5"]
        {
            assert_eq!(bad.parse::<EthernetAddress>(), Err(BadEthernetAddress(bad.to_owned())));
        }
    }

    #[test]
    fn tells_groups_from_stations() {
        assert!(EthernetAddress([0xff; 6]).is_multicast());
        assert!(EthernetAddress([0x01, 0, 0x5e, 0, 0, 1]).is_multicast());
        assert!(!EthernetAddress([0xaa, 0x55, 0, 0, 0, 1]).is_multicast());
        assert_eq!(
            EthernetAddress([0xfd, 1, 2, 3, 4, 5]).made_local_station(),
            EthernetAddress([0xfe, 1, 2, 3, 4, 5])
        );
    }
}
