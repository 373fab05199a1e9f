//! IP addresses with the prefix of their network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address, and how many of its bits are those of its network (RFC 4632, RFC 4291 section
/// 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// The address.
    pub address: IpAddr,
    /// Number of bits: at most 32 or 128.
    pub prefix_length: u8,
}

/// Why a text is no network. The messages are those of OVS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNetwork {
    /// No IPv4 address, or what follows is neither a length nor a mask.
    #[error("{0}: invalid IP address")]
    Ipv4(String),
    /// No IPv6 address, or what follows is no length.
    #[error("{0}: invalid IPv6 address")]
    Ipv6(String),
    /// The mask has gaps.
    #[error("{0}: CIDR network required")]
    Gaps(String),
    /// The prefix is longer than an IPv4 address.
    #[error("{0}: IP network prefix bits not between 0 and 32, inclusive")]
    Ipv4Length(String),
    /// The prefix is longer than an IPv6 address.
    #[error("{0}: IPv6 network prefix bits not between 0 and 128, inclusive")]
    Ipv6Length(String),
}

impl Network {
    /// The network of one address alone.
    pub fn of_host(address: IpAddr) -> Self {
        let prefix_length = if address.is_ipv4() { 32 } else { 128 };
        Self { address, prefix_length }
    }

    /// Reads `ADDRESS[/PREFIX]`, where the prefix may be a mask too.
    ///
    /// # Errors
    /// When the text is anything else.
    pub fn parse_ipv4(text: &str) -> Result<Self, BadNetwork> {
        let invalid = || BadNetwork::Ipv4(text.to_owned());
        let (address, prefix) = text.split_once('/').unwrap_or((text, "32"));
        let address: Ipv4Addr = address.trim_start().parse().map_err(|_| invalid())?;
        let address = address.into();
        if let Ok(mask) = prefix.parse::<Ipv4Addr>() {
            let ones = mask.to_bits().leading_ones();
            if ones != mask.to_bits().count_ones() {
                return Err(BadNetwork::Gaps(text.to_owned()));
            }
            return Ok(Self { address, prefix_length: ones as u8 });
        }
        match prefix.parse() {
            Ok(prefix_length @ 0..=32) => Ok(Self { address, prefix_length }),
            Ok(_) => Err(BadNetwork::Ipv4Length(text.to_owned())),
            Err(_) => Err(invalid()),
        }
    }

    /// Reads `ADDRESS[/PREFIX]`.
    ///
    /// # Errors
    /// When the text is anything else.
    pub fn parse_ipv6(text: &str) -> Result<Self, BadNetwork> {
        let invalid = || BadNetwork::Ipv6(text.to_owned());
        let (address, prefix) = text.split_once('/').unwrap_or((text, "128"));
        let address: Ipv6Addr = address.trim_start().parse().map_err(|_| invalid())?;
        match prefix.parse() {
            Ok(prefix_length @ 0..=128) => Ok(Self { address: address.into(), prefix_length }),
            Ok(_) => Err(BadNetwork::Ipv6Length(text.to_owned())),
            Err(_) => Err(invalid()),
        }
    }

    /// The network with the other bits of its address cleared.
    pub fn masked(self) -> Self {
        let Self { address, prefix_length } = self;
        Self { address: mask(address, prefix_length), prefix_length }
    }

    /// Whether an address is in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && mask(address, self.prefix_length) == self.masked().address
    }
}

/// The first bits of an address.
pub fn mask(address: IpAddr, prefix_length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(prefix_length.into()).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & !host).into()
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(prefix_length.into()).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & !host).into()
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_prefixes() {
        let ipv4 = |text| Network::parse_ipv4(text).map(|network| network.to_string());
        assert_eq!(ipv4("1.1.2.88/24"), Ok("1.1.2.88/24".to_owned()));
        assert_eq!(ipv4("1.1.2.88/255.255.0.0"), Ok("1.1.2.88/16".to_owned()));
        assert_eq!(ipv4("1.1.2.88"), Ok("1.1.2.88/32".to_owned()));
        for (bad, error) in [
            ("1.1.2/24", "1.1.2/24: invalid IP address"),
            ("1.1.2.3/x", "1.1.2.3/x: invalid IP address"),
            ("1.1.2.3/33", "1.1.2.3/33: IP network prefix bits not between 0 and 32, inclusive"),
            ("1.1.2.3/255.0.255.0", "1.1.2.3/255.0.255.0: CIDR network required"),
        ] {
            assert_eq!(Network::parse_ipv4(bad).unwrap_err().to_string(), error);
        }
        let ipv6 = |text| Network::parse_ipv6(text).map(|network| network.to_string());
        assert_eq!(ipv6("fc00::1/64"), Ok("fc00::1/64".to_owned()));
        assert_eq!(ipv6("fc00::1"), Ok("fc00::1/128".to_owned()));
        for (bad, error) in [
            ("1.1.2.3", "1.1.2.3: invalid IPv6 address"),
            (
                "fc00::1/129",
                "fc00::1/129: IPv6 network prefix bits not between 0 and 128, inclusive",
            ),
        ] {
            assert_eq!(Network::parse_ipv6(bad).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn networks_contain_what_has_their_prefix() {
        for (network, address, is_in) in [
            ("10.0.0.1/8", "10.255.0.0", true),
            ("10.0.0.1/8", "11.0.0.1", false),
            ("10.0.0.1/32", "10.0.0.1", true),
            ("10.0.0.1/32", "10.0.0.0", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::", false),
        ] {
            let network = Network::parse_ipv4(network).unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), is_in, "{network} {address}");
        }
        let network = Network::parse_ipv6("fc00::1:1/112").unwrap();
        assert_eq!(network.masked().to_string(), "fc00::1:0/112");
        assert!(network.contains("fc00::1:ffff".parse().unwrap()));
        assert!(!network.contains("fc00::2:1".parse().unwrap()));
        assert!(Network::parse_ipv6("::/0").unwrap().contains("ff02::1".parse().unwrap()));
    }
}
