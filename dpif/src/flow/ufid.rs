//! Unique flow identifiers.

use std::fmt;

/// Identifies a flow of a datapath. Its text looks like a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ufid(pub u128);

impl Ufid {
    /// Reads `ufid:` and the identifier from the front of `text`; returns what follows too.
    pub fn parse_prefix(text: &str) -> Option<(Self, &str)> {
        let text = text.strip_prefix("ufid:")?;
        let (uuid, rest) = text.split_at_checked(36)?;
        let mut value = 0;
        for (index, character) in uuid.chars().enumerate() {
            if matches!(index, 8 | 13 | 18 | 23) {
                if character != '-' {
                    return None;
                }
            } else {
                value = value << 4 | u128::from(character.to_digit(16)?);
            }
        }
        Some((Self(value), rest))
    }
}

impl fmt::Display for Ufid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, bits: u32| self.0 >> shift & ((1 << bits) - 1);
        write!(
            f,
            "ufid:{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            part(96, 32),
            part(80, 16),
            part(64, 16),
            part(48, 16),
            part(0, 48)
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reads_what_it_prints(value in any::<u128>(), rest in "[, a-z0-9]{0,4}") {
            let text = format!("{}{rest}", Ufid(value));
            prop_assert_eq!(Ufid::parse_prefix(&text), Some((Ufid(value), &rest[..])));
        }
    }

    #[test]
    fn prints_like_a_uuid_and_reads_nothing_else() {
        let ufid = Ufid(0x6a1a_c8a3_0001_4000_8bad_f00d_dead_beef);
        assert_eq!(ufid.to_string(), "ufid:6a1ac8a3-0001-4000-8bad-f00ddeadbeef");
        for bad in [
            "ufid:",
            "6a1ac8a3-0001-4000-8bad-f00ddeadbeef",
            "ufid:6a1ac8a3-0001-4000-8bad-f00ddeadbee",
            "ufid:6a1ac8a300001-4000-8bad-f00ddeadbeef",
            "ufid:6a1ac8a3-0001-4000-8bad-f00ddeadbeeg",
            "ufid:6a1ac8a3-0001-4000-8bad-f00ddeadbe\u{e9}f",
        ] {
            assert_eq!(Ufid::parse_prefix(bad), None, "{bad}");
        }
    }
}
