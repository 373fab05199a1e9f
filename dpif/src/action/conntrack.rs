//! The action that tracks connections.

use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::flow::scan::Scanner;
use crate::flow::text::{Ipv6Text, List, write_hex};

/// Longest name of a helper.
const MAX_HELPER: usize = 15;
/// Longest name of a timeout policy.
const MAX_TIMEOUT: usize = 31;

/// Tracks the packet's connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConntrackAction {
    /// Remember the connection.
    pub commit: bool,
    /// Remember it in the direction of this packet, even if it is known the other way round.
    pub force: bool,
    /// Zone.
    pub zone: u16,
    /// Mark to set: value and mask.
    pub mark: Option<(u32, u32)>,
    /// Labels to set: value and mask.
    pub label: Option<(u128, u128)>,
    /// Application whose further connections are to be expected.
    pub helper: Option<String>,
    /// Timeout policy.
    pub timeout: Option<String>,
    /// Address translation.
    pub nat: Option<Nat>,
}

/// Address translation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nat {
    /// What to translate in a new connection. Without it only known connections are translated.
    pub kind: Option<NatKind>,
    /// First and last address to use.
    pub addresses: Option<(IpAddr, Option<IpAddr>)>,
    /// First and last port to use.
    pub ports: Option<(u16, Option<u16>)>,
    /// The choice survives a restart.
    pub persistent: bool,
    /// Choose ports by hash.
    pub hash: bool,
    /// Choose ports at random.
    pub random: bool,
}

/// What address translation changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NatKind {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

impl ConntrackAction {
    pub(super) fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ct")?;
        if *self == Self::default() {
            return Ok(());
        }
        out.write_char('(')?;
        let mut list = List::new(out);
        if self.commit {
            list.item()?.write_str("commit")?;
        }
        if self.force {
            list.item()?.write_str("force_commit")?;
        }
        if self.zone != 0 {
            write!(list.item()?, "zone={}", self.zone)?;
        }
        if let Some((value, mask)) = self.mark {
            list.item()?.write_str("mark=")?;
            write_hex(list.out, value.into())?;
            list.out.write_char('/')?;
            write_hex(list.out, mask.into())?;
        }
        if let Some((value, mask)) = self.label {
            list.item()?.write_str("label=")?;
            write_hex(list.out, value)?;
            if mask != u128::MAX {
                list.out.write_char('/')?;
                write_hex(list.out, mask)?;
            }
        }
        if let Some(helper) = &self.helper {
            write!(list.item()?, "helper={helper}")?;
        }
        if let Some(timeout) = &self.timeout {
            write!(list.item()?, "timeout={timeout}")?;
        }
        if let Some(nat) = &self.nat {
            nat.write(list.item()?)?;
        }
        out.write_char(')')
    }

    /// Reads what follows `ct`.
    pub(super) fn read(scanner: &mut Scanner<'_>) -> Option<Self> {
        let mut action = Self::default();
        if !scanner.eat("(") {
            return Some(action);
        }
        loop {
            scanner.skip_delimiters();
            if scanner.eat(")") {
                break;
            } else if scanner.eat("commit") {
                action.commit = true;
            } else if scanner.eat("force_commit") {
                action.force = true;
            } else if scanner.eat("zone=") {
                action.zone = scanner.decimal(16)? as u16;
            } else if scanner.eat("mark=") {
                let value = scanner.hex(32)? as u32;
                let mask = if scanner.eat("/") { scanner.hex(32)? as u32 } else { u32::MAX };
                action.mark = (mask != 0).then_some((value, mask));
            } else if scanner.eat("label=") {
                let value = scanner.number(128)?;
                let mask = if scanner.eat("/") { scanner.number(128)? } else { u128::MAX };
                action.label = (mask != 0).then_some((value, mask));
            } else if scanner.eat("helper=") {
                action.helper = Some(name(scanner, MAX_HELPER)?);
            } else if scanner.eat("timeout=") {
                action.timeout = Some(name(scanner, MAX_TIMEOUT)?);
            } else if scanner.eat("nat") {
                action.nat = Some(Nat::read(scanner)?);
            } else {
                return None;
            }
        }
        (!(action.commit && action.force)).then_some(action)
    }
}

fn name(scanner: &mut Scanner<'_>, longest: usize) -> Option<String> {
    let name = scanner.take_while(|next| !matches!(next, ',' | ' ' | '\t' | '\r' | '\n' | ')'));
    (1..=longest).contains(&name.len()).then(|| name.to_owned())
}

fn write_address(out: &mut fmt::Formatter<'_>, address: IpAddr, ports: bool) -> fmt::Result {
    match address {
        IpAddr::V6(address) if ports => write!(out, "[{}]", Ipv6Text(address)),
        IpAddr::V6(address) => write!(out, "{}", Ipv6Text(address)),
        IpAddr::V4(address) => write!(out, "{address}"),
    }
}

fn read_address(scanner: &mut Scanner<'_>) -> Option<IpAddr> {
    if let Some(address) = scanner.ipv4() {
        return Some(Ipv4Addr::from_bits(address).into());
    }
    let bracket = scanner.eat("[");
    let address = Ipv6Addr::from_bits(scanner.ipv6()?);
    if bracket {
        scanner.need("]")?;
    }
    Some(address.into())
}

/// The last element of a range whose first is `first`, unless it adds nothing.
fn range_end<T: PartialOrd>(first: &T, last: Option<T>) -> Option<Option<T>> {
    match last {
        Some(last) if last < *first => None,
        last => Some(last.filter(|last| last != first)),
    }
}

impl Nat {
    fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("nat")?;
        let Some(kind) = self.kind else { return Ok(()) };
        out.write_str(match kind {
            NatKind::Source => "(src",
            NatKind::Destination => "(dst",
        })?;
        if let Some((first, last)) = self.addresses {
            out.write_char('=')?;
            write_address(out, first, self.ports.is_some())?;
            if let Some(last) = last {
                out.write_char('-')?;
                write_address(out, last, self.ports.is_some())?;
            }
            if let Some((first, last)) = self.ports {
                write!(out, ":{first}")?;
                if let Some(last) = last {
                    write!(out, "-{last}")?;
                }
            }
        }
        for (set, name) in
            [(self.persistent, ",persistent"), (self.hash, ",hash"), (self.random, ",random")]
        {
            if set {
                out.write_str(name)?;
            }
        }
        out.write_char(')')
    }

    /// Reads what follows `nat`.
    fn read(scanner: &mut Scanner<'_>) -> Option<Self> {
        let mut nat = Self::default();
        if !scanner.eat("(") {
            return Some(nat);
        }
        loop {
            scanner.skip_delimiters();
            if scanner.eat(")") {
                break;
            } else if scanner.rest().starts_with("src") || scanner.rest().starts_with("dst") {
                let kind = if scanner.eat("src") { NatKind::Source } else { NatKind::Destination };
                scanner.eat("dst");
                if nat.kind.is_some_and(|other| other != kind) {
                    return None;
                }
                nat.kind = Some(kind);
                if scanner.eat("=") {
                    nat.read_range(scanner)?;
                }
            } else if scanner.eat("persistent") {
                nat.persistent = true;
            } else if scanner.eat("hash") {
                nat.hash = true;
            } else if scanner.eat("random") {
                nat.random = true;
            } else {
                return None;
            }
        }
        if nat.kind.is_none() {
            // Options without a kind say nothing.
            return Some(Self::default());
        }
        (!(nat.hash && nat.random)).then_some(nat)
    }

    fn read_range(&mut self, scanner: &mut Scanner<'_>) -> Option<()> {
        let first = read_address(scanner)?;
        let last = if scanner.eat("-") { Some(read_address(scanner)?) } else { None };
        if last.is_some_and(|last| last.is_ipv4() != first.is_ipv4()) {
            return None;
        }
        self.addresses = Some((first, range_end(&first, last)?));
        self.ports = None;
        if scanner.eat(":") {
            let first = scanner.decimal(16)? as u16;
            let last = if scanner.eat("-") { Some(scanner.decimal(16)? as u16) } else { None };
            // Port 0 means none.
            self.ports = if first == 0 { None } else { Some((first, range_end(&first, last)?)) };
        }
        Some(())
    }
}
