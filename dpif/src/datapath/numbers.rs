//! Which ports a datapath has, and under which numbers.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

/// Number of a port within its datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNumber(pub u32);

impl PortNumber {
    /// The datapath's own internal port.
    pub const LOCAL: Self = Self(0);
    /// Highest number that is given to a port whose name asks for none.
    pub const MAX: Self = Self(65535);
    /// Stands for "no port" where OVS's datapath interface needs a number.
    pub const NONE: Self = Self(u32::MAX);
}

impl fmt::Display for PortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Kind of a datapath: `Bridge.datapath_type` in normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DatapathType {
    /// Every port is a dummy and port numbers follow port names, for tests.
    Dummy,
    /// Real packets on poll threads of this process.
    Netdev,
}

impl DatapathType {
    /// The name in `Bridge.datapath_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dummy => "dummy",
            Self::Netdev => "netdev",
        }
    }

    /// Name of the one datapath of this type.
    pub fn datapath_name(self) -> &'static str {
        match self {
            Self::Dummy => "ovs-dummy",
            Self::Netdev => "ovs-netdev",
        }
    }

    /// The type to open a port of `Interface.type` `port_type` as on this datapath.
    pub fn port_open_type(self, port_type: &str) -> &str {
        match (self, port_type) {
            (Self::Dummy, "internal") => "dummy-internal",
            _ => port_type,
        }
    }
}

/// Why a port could not join a datapath.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DatapathError {
    /// Another port of the datapath has this name.
    #[error("port {name} is already on the datapath as port {number}")]
    NameTaken {
        /// The name.
        name: String,
        /// Number of the port that has it.
        number: PortNumber,
    },
    /// Another port of the datapath has this number.
    #[error("number {number} for port {name} belongs to port {owner}")]
    NumberTaken {
        /// Name of the port that wanted it.
        name: String,
        /// The number.
        number: PortNumber,
        /// Name of the port that has it.
        owner: String,
    },
    /// All numbers are in use.
    #[error("no port number is left for {name}: the datapath has {max} ports", max = PortNumber::MAX)]
    Full {
        /// Name of the port.
        name: String,
    },
}

/// The numbers and names of the ports of a datapath.
#[derive(Debug)]
pub(super) struct PortNumbers {
    kind: DatapathType,
    ports: BTreeMap<PortNumber, String>,
    numbers: BTreeMap<String, PortNumber>,
    /// Every number below this one is in use, so that adding thousands of ports stays linear.
    lowest_free: u32,
}

impl PortNumbers {
    /// No ports.
    pub(super) fn new(kind: DatapathType) -> Self {
        Self { kind, ports: BTreeMap::new(), numbers: BTreeMap::new(), lowest_free: 1 }
    }

    /// Gives the port `name` a number.
    ///
    /// # Errors
    /// When the name is taken or all numbers are in use.
    pub(super) fn add_port(&mut self, name: &str) -> Result<PortNumber, DatapathError> {
        if let Some(&number) = self.numbers.get(name) {
            return Err(DatapathError::NameTaken { name: name.to_owned(), number });
        }
        let number = match self.kind {
            DatapathType::Dummy => number_from_name(name),
            DatapathType::Netdev => None,
        };
        let number = number
            .filter(|number| !self.ports.contains_key(number))
            .or_else(|| self.take_lowest_free())
            .ok_or_else(|| DatapathError::Full { name: name.to_owned() })?;
        self.add_port_at(name, number)?;
        Ok(number)
    }

    /// Gives the port `name` the number `number`.
    ///
    /// # Errors
    /// When the name or the number is taken.
    pub(super) fn add_port_at(
        &mut self,
        name: &str,
        number: PortNumber,
    ) -> Result<(), DatapathError> {
        let name = name.to_owned();
        if let Some(&number) = self.numbers.get(&name) {
            return Err(DatapathError::NameTaken { name, number });
        }
        if let Some(owner) = self.ports.get(&number).cloned() {
            return Err(DatapathError::NumberTaken { name, number, owner });
        }
        self.ports.insert(number, name.clone());
        self.numbers.insert(name, number);
        Ok(())
    }

    /// Takes the port `name` off; false if there is none.
    pub(super) fn remove_port(&mut self, name: &str) -> bool {
        let Some(number) = self.numbers.remove(name) else {
            return false;
        };
        self.ports.remove(&number);
        // The local number is only given on request.
        self.lowest_free = self.lowest_free.min(number.0.max(1));
        true
    }

    /// Number of the port `name`.
    pub(super) fn port_number(&self, name: &str) -> Option<PortNumber> {
        self.numbers.get(name).copied()
    }

    /// Name of the port `number`.
    pub(super) fn name(&self, number: PortNumber) -> Option<&str> {
        self.ports.get(&number).map(String::as_str)
    }

    fn take_lowest_free(&mut self) -> Option<PortNumber> {
        let free = (self.lowest_free..=PortNumber::MAX.0)
            .map(PortNumber)
            .find(|number| !self.ports.contains_key(number))?;
        self.lowest_free = free.0 + 1;
        Some(free)
    }
}

/// The number that a dummy datapath gives a port by its name, so that tests can tell it: the first
/// digits in the name, plus 100 for bridges.
fn number_from_name(name: &str) -> Option<PortNumber> {
    let base = if name.starts_with("br") { 100 } else { 0 };
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = digits.split(|c: char| !c.is_ascii_digit()).next().filter(|d| !d.is_empty())?;
    let number = PortNumber(digits.parse::<u32>().ok()?.checked_add(base)?);
    (number > PortNumber::LOCAL && number < PortNumber::NONE).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(kind: DatapathType, names: &[&str]) -> Vec<u32> {
        let mut datapath = PortNumbers::new(kind);
        names.iter().map(|name| datapath.add_port(name).unwrap().0).collect()
    }

    #[test]
    fn dummy_numbers_follow_names() {
        let names = ["br0", "p7", "vm7", "p0", "br1", "eth", "p70000", "p1"];
        assert_eq!(numbers(DatapathType::Dummy, &names), [100, 7, 1, 2, 101, 3, 70000, 4]);
    }

    #[test]
    fn netdev_numbers_are_the_lowest_free() {
        assert_eq!(numbers(DatapathType::Netdev, &["br0", "p7", "p3"]), [1, 2, 3]);
    }

    #[test]
    fn a_removed_number_is_given_again() {
        let mut datapath = PortNumbers::new(DatapathType::Netdev);
        for name in ["a", "b", "c"] {
            datapath.add_port(name).unwrap();
        }
        assert!(datapath.remove_port("b"));
        assert!(!datapath.remove_port("b"));
        assert_eq!(datapath.port_number("b"), None);
        assert_eq!(datapath.add_port("d"), Ok(PortNumber(2)));
        assert_eq!(datapath.add_port("e"), Ok(PortNumber(4)));
        assert_eq!(
            datapath.add_port("d"),
            Err(DatapathError::NameTaken { name: "d".to_owned(), number: PortNumber(2) })
        );
    }

    #[test]
    fn a_number_can_be_chosen() {
        let mut datapath = PortNumbers::new(DatapathType::Netdev);
        assert_eq!(datapath.add_port_at("local", PortNumber::LOCAL), Ok(()));
        assert_eq!(datapath.add_port_at("a", PortNumber(1)), Ok(()));
        assert_eq!(
            datapath.add_port_at("b", PortNumber(1)),
            Err(DatapathError::NumberTaken {
                name: "b".to_owned(),
                number: PortNumber(1),
                owner: "a".to_owned()
            })
        );
        assert_eq!(
            datapath.add_port_at("a", PortNumber(2)),
            Err(DatapathError::NameTaken { name: "a".to_owned(), number: PortNumber(1) })
        );
        assert_eq!(datapath.add_port("b"), Ok(PortNumber(2)));
    }
}
