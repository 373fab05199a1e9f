//! Protocol versions that an operator allows.

use std::str::FromStr;

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

/// Allowed protocol versions, lowest to highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols {
    tls12: bool,
    tls13: bool,
}

/// Why a text names no [`Protocols`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A word is no protocol version.
    #[error("{0}: SSL/TLS protocol not recognized, expected TLSv1.2 or TLSv1.3")]
    Unknown(String),
    /// There is no word.
    #[error("SSL/TLS protocol settings are empty, expected for example TLSv1.2+")]
    Empty,
}

impl Default for Protocols {
    fn default() -> Self {
        Self { tls12: true, tls13: true }
    }
}

impl FromStr for Protocols {
    type Err = ProtocolError;

    /// Parses `TLSv1.2`, `TLSv1.2+` (it and later), `TLSv1.2-TLSv1.3`, or a list separated by
    /// spaces and commas.
    fn from_str(text: &str) -> Result<Self, ProtocolError> {
        let (list, later) = match text.strip_suffix('+') {
            Some(lowest) => (lowest, true),
            None => (text, false),
        };
        let mut protocols = Self { tls12: false, tls13: later };
        // A range of two neighbours is the list of both.
        let words = list.split([' ', ',', '\t', '-']).filter(|word| !word.is_empty());
        let mut count = 0;
        for word in words {
            match word {
                "TLSv1.2" => protocols.tls12 = true,
                "TLSv1.3" => protocols.tls13 = true,
                _ => return Err(ProtocolError::Unknown(word.to_owned())),
            }
            count += 1;
        }
        if count == 0 { Err(ProtocolError::Empty) } else { Ok(protocols) }
    }
}

impl Protocols {
    pub(super) fn versions(self) -> Vec<&'static SupportedProtocolVersion> {
        [(self.tls12, &TLS12), (self.tls13, &TLS13)]
            .into_iter()
            .filter_map(|(allowed, version)| allowed.then_some(version))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        let both = Protocols { tls12: true, tls13: true };
        let only12 = Protocols { tls12: true, tls13: false };
        let only13 = Protocols { tls12: false, tls13: true };
        let unknown = |word: &str| Err(ProtocolError::Unknown(word.to_owned()));
        let cases = [
            ("TLSv1.2+", Ok(both)),
            ("TLSv1.3+", Ok(only13)),
            ("TLSv1.2-TLSv1.3", Ok(both)),
            ("TLSv1.2,TLSv1.3", Ok(both)),
            ("TLSv1.2", Ok(only12)),
            (" TLSv1.3\t", Ok(only13)),
            ("TLSv1.1 TLSv1.2", unknown("TLSv1.1")),
            ("SSLv3+", unknown("SSLv3")),
            ("", Err(ProtocolError::Empty)),
            (" ,", Err(ProtocolError::Empty)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), expected, "{text}");
        }
        assert_eq!(Protocols::default(), both);
    }
}
