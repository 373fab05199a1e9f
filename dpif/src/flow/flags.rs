//! Sets of flags as text: `syn|ack`, or `+syn-ack` with a mask.

use std::fmt::{self, Write};

use super::scan::Scanner;
use super::text::write_hex;

/// Names of flags, the lowest bit first; an empty name is a flag without.
pub(crate) type FlagNames = &'static [&'static str];

/// Connection states.
pub(crate) const CT_STATE: FlagNames = &["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
/// TCP flags.
pub(crate) const TCP_FLAGS: FlagNames =
    &["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];
/// Tunnel flags.
pub(crate) const TUNNEL_FLAGS: FlagNames = &["oam", "df", "csum", "key"];

/// Writes the flags that are set, or 0.
pub(crate) fn write_flags(
    out: &mut fmt::Formatter<'_>,
    names: FlagNames,
    flags: u32,
    separator: char,
) -> fmt::Result {
    if flags == 0 {
        return out.write_char('0');
    }
    let mut left = flags;
    for (bit, name) in names.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 != 0) {
        if left != flags {
            out.write_char(separator)?;
        }
        out.write_str(name)?;
        left &= !(1 << bit);
    }
    if left != 0 {
        if left != flags {
            out.write_char(separator)?;
        }
        write_hex(out, left.into())?;
    }
    Ok(())
}

/// Writes each flag of the mask as set or not. A mask of `all` is none.
pub(crate) fn write_flags_masked(
    out: &mut fmt::Formatter<'_>,
    names: FlagNames,
    flags: u32,
    mask: u32,
    all: u32,
) -> fmt::Result {
    if mask == all {
        return write_flags(out, names, flags, '|');
    }
    if mask == 0 {
        return out.write_str("0/0");
    }
    for bit in (0..32).filter(|bit| mask >> bit & 1 != 0) {
        out.write_char(if flags >> bit & 1 != 0 { '+' } else { '-' })?;
        out.write_str(names.get(bit).unwrap_or(&"[Unknown]"))?;
    }
    Ok(())
}

/// Reads flags up to a closing parenthesis, which is left: numbers or names with `|` or `,`
/// between them, `value/mask`, or names with a sign each. Without signs the mask is whole.
pub(crate) fn read_flags(scanner: &mut Scanner<'_>, names: FlagNames) -> Option<(u32, u32)> {
    let all = u32::MAX >> (32 - names.len());
    let start = *scanner;
    if let (Some(value), true) = (scanner.number(32), scanner.eat("/"))
        && let Some(mask) = scanner.number(32)
    {
        let (value, mask) = (value as u32, mask as u32);
        return ((value | mask) & !all == 0).then_some((value, mask));
    }
    *scanner = start;
    let (mut value, mut mask) = (0, 0);
    if scanner.peek().is_some_and(|next| matches!(next, '+' | '-')) {
        while !scanner.rest().starts_with(')') {
            let set = scanner.eat("+");
            if !set && !scanner.eat("-") {
                return None;
            }
            let bit = read_name(scanner, names, &['+', '-', ')'])?;
            if mask & bit != 0 {
                return None;
            }
            mask |= bit;
            value |= if set { bit } else { 0 };
        }
        return Some((value, mask));
    }
    while !scanner.rest().starts_with(')') {
        match scanner.number(32) {
            Some(flags) => value |= flags as u32,
            None => value |= read_name(scanner, names, &['|', ',', ')'])?,
        }
        let _ = scanner.eat("|") || scanner.eat(",");
    }
    (value & !all == 0).then_some((value, u32::MAX))
}

fn read_name(scanner: &mut Scanner<'_>, names: FlagNames, ends: &[char]) -> Option<u32> {
    let rest = scanner.rest();
    let matches =
        |name: &str| rest.strip_prefix(name).is_some_and(|behind| behind.starts_with(ends));
    let bit = names.iter().position(|name| !name.is_empty() && matches(name))?;
    scanner.eat(names.get(bit)?);
    Some(1 << bit)
}
