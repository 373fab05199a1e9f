//! OpenFlow port numbers.

use super::error::OfError;

/// An OpenFlow port number of the switch: 16 bits, as in OpenFlow 1.0. Later versions write the
/// reserved numbers with the upper half all ones and cannot name ports in between.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortNo(pub u16);

/// What must be added to a reserved port number of OpenFlow 1.0 to get that of 1.1 and later.
const RESERVED_OFFSET: u32 = 0xffff_0000;

impl PortNo {
    /// The number from which on ports are reserved.
    pub const MAX: PortNo = PortNo(0xff00);
    /// The action set has no output action (a value of the field `actset_output`).
    pub const UNSET: PortNo = PortNo(0xfff7);
    /// The port on which the packet arrived.
    pub const IN_PORT: PortNo = PortNo(0xfff8);
    /// Submit the packet of a packet-out to the flow tables.
    pub const TABLE: PortNo = PortNo(0xfff9);
    /// Process like an ordinary learning switch.
    pub const NORMAL: PortNo = PortNo(0xfffa);
    /// All ports but the input port and those with flooding disabled.
    pub const FLOOD: PortNo = PortNo(0xfffb);
    /// All ports but the input port.
    pub const ALL: PortNo = PortNo(0xfffc);
    /// The controllers.
    pub const CONTROLLER: PortNo = PortNo(0xfffd);
    /// The bridge's own port.
    pub const LOCAL: PortNo = PortNo(0xfffe);
    /// No port; as a wildcard, any port.
    pub const NONE: PortNo = PortNo(0xffff);

    /// The port number that OpenFlow 1.1 and later write as `number`.
    ///
    /// # Errors
    /// `BadActionOutPort` for a number between the ordinary and the reserved ones.
    pub fn from_u32(number: u32) -> Result<PortNo, OfError> {
        let reserved = number.checked_sub(RESERVED_OFFSET);
        let port = reserved.filter(|low| *low >= u32::from(PortNo::MAX.0)).unwrap_or(number);
        match u16::try_from(port) {
            Ok(port) if port < PortNo::MAX.0 || reserved.is_some() => Ok(PortNo(port)),
            _ => Err(OfError::BadActionOutPort),
        }
    }

    /// The number in OpenFlow 1.1 and later.
    pub fn to_u32(self) -> u32 {
        let number = u32::from(self.0);
        if self < PortNo::MAX { number } else { number + RESERVED_OFFSET }
    }

    /// The name of a reserved port.
    pub fn reserved_name(self) -> Option<&'static str> {
        Some(match self {
            PortNo::IN_PORT => "IN_PORT",
            PortNo::TABLE => "TABLE",
            PortNo::NORMAL => "NORMAL",
            PortNo::FLOOD => "FLOOD",
            PortNo::ALL => "ALL",
            PortNo::CONTROLLER => "CONTROLLER",
            PortNo::LOCAL => "LOCAL",
            PortNo::NONE => "ANY",
            PortNo::UNSET => "UNSET",
            _ => return None,
        })
    }
}

impl std::fmt::Debug for PortNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl std::fmt::Display for PortNo {
    /// Writes the name of a reserved port, else the number.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reserved_name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl std::str::FromStr for PortNo {
    type Err = String;

    /// Reads a decimal number, 16 or 32 bits wide, or the name of a reserved port in any letter case.
    fn from_str(text: &str) -> Result<PortNo, String> {
        if let Ok(number) = text.parse::<u32>() {
            let narrow = u16::try_from(number).map(PortNo);
            return narrow.or_else(|_| PortNo::from_u32(number)).map_err(|_| {
                format!("{text} is neither a 16-bit port number nor a reserved 32-bit one")
            });
        }
        let reserved = (0xff00..=0xffff).map(PortNo);
        reserved
            .filter_map(|port| Some((port, port.reserved_name()?)))
            .find(|(port, name)| {
                text.eq_ignore_ascii_case(name)
                    || (*port == PortNo::NONE && text.eq_ignore_ascii_case("NONE"))
            })
            .map(|(port, _)| port)
            .ok_or_else(|| format!("{text}: no such OpenFlow port"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_numbers_map_the_reserved_range_only() {
        assert_eq!(PortNo::from_u32(0xfeff), Ok(PortNo(0xfeff)));
        assert_eq!(PortNo::from_u32(0xff00), Err(OfError::BadActionOutPort));
        assert_eq!(PortNo::from_u32(0xffff_feff), Err(OfError::BadActionOutPort));
        assert_eq!(PortNo::from_u32(0xffff_ff00), Ok(PortNo::MAX));
        assert_eq!(PortNo::from_u32(0xffff_fffe), Ok(PortNo::LOCAL));
        for number in 0..=u16::MAX {
            assert_eq!(PortNo::from_u32(PortNo(number).to_u32()), Ok(PortNo(number)));
        }
    }

    #[test]
    fn text_round_trips() {
        for number in [0, 1, 0xfeff, 0xfff7, 0xfff8, 0xfffe, 0xffff] {
            assert_eq!(PortNo(number).to_string().parse(), Ok(PortNo(number)));
        }
        assert_eq!("local".parse(), Ok(PortNo::LOCAL));
        assert_eq!("none".parse(), Ok(PortNo::NONE));
        assert_eq!("4294967293".parse(), Ok(PortNo::CONTROLLER));
        assert!("65536".parse::<PortNo>().is_err());
    }
}
