//! The text forms of values.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::action::Subfield;
use super::super::field::{Field, Form};
use super::super::port::PortNo;
use super::super::value::Value;
use super::{Names, put, put_port};

/// Names of connection states from the lowest bit on.
pub(super) const CT_STATES: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
/// Names of TCP flags from the lowest bit on.
pub(super) const TCP_FLAGS: [&str; 12] =
    ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];
/// Names of tunnel flags from the lowest bit on.
pub(super) const TUNNEL_FLAGS: [&str; 4] = ["oam", "df", "csum", "key"];
/// How fragments are matched: name, mask, value.
pub(super) const FRAGMENTS: [(&str, u8, u8); 6] = [
    ("no", 3, 0),
    ("first", 3, 1),
    ("later", 3, 3),
    ("no", 1, 0),
    ("yes", 1, 1),
    ("not_later", 2, 0),
];

/// Appends a number in hexadecimal, `0` for zero.
pub(crate) fn put_hex(out: &mut String, bytes: &[u8]) {
    let mut significant = bytes.iter().skip_while(|byte| **byte == 0);
    match significant.next() {
        None => out.push('0'),
        Some(first) => {
            put(out, format_args!("{first:#x}"));
            significant.for_each(|byte| put(out, format_args!("{byte:02x}")));
        }
    }
}

/// Appends bytes in hexadecimal with dots between.
pub(crate) fn put_dotted_hex(out: &mut String, bytes: &[u8]) {
    for (index, byte) in bytes.iter().enumerate() {
        put(out, format_args!("{}{byte:02x}", if index == 0 { "" } else { "." }));
    }
}

/// A number as C's `%#x` writes it: without a prefix if it is zero.
pub(crate) fn alternate_hex(number: u64) -> String {
    if number == 0 { "0".into() } else { format!("{number:#x}") }
}

/// Appends the bits of `flags` by name: all of them if `mask` is `full`, else with a sign each.
pub(super) fn put_flags(out: &mut String, names: &[&str], flags: u32, mask: u32, full: u32) {
    let bits = |set: u32| (0..32).map(|bit| 1u32 << bit).filter(move |bit| set & bit != 0);
    let name = |bit: u32| names.get(bit.trailing_zeros() as usize).copied();
    if mask == full {
        if flags == 0 {
            out.push('0');
        }
        let mut known: Vec<String> =
            bits(flags).filter_map(|bit| name(bit).map(str::to_owned)).collect();
        let unknown = bits(flags).filter(|bit| name(*bit).is_none()).fold(0, |all, bit| all | bit);
        if unknown != 0 {
            known.push(format!("{unknown:#x}"));
        }
        out.push_str(&known.join("|"));
    } else if mask == 0 {
        out.push_str("0/0");
    } else {
        for bit in bits(mask) {
            out.push(if flags & bit != 0 { '+' } else { '-' });
            out.push_str(name(bit).unwrap_or("[Unknown]"));
        }
    }
}

pub(super) fn put_mac(out: &mut String, address: u64) {
    let bytes: Vec<String> =
        address.to_be_bytes().iter().skip(2).map(|byte| format!("{byte:02x}")).collect();
    out.push_str(&bytes.join(":"));
}

pub(super) fn put_mac_masked(out: &mut String, address: u64, mask: u64) {
    put_mac(out, address);
    if mask != 0xffff_ffff_ffff {
        out.push('/');
        put_mac(out, mask);
    }
}

/// The length of a prefix, if the mask is that of one.
fn prefix_len(mask: u128, bits: u32) -> Option<u32> {
    let mask = mask << (128 - bits);
    let len = mask.leading_ones();
    (mask.checked_shl(len).unwrap_or(0) == 0).then_some(len)
}

pub(super) fn put_ipv4_masked(out: &mut String, address: u32, mask: u32) {
    put(out, format_args!("{}", Ipv4Addr::from(address)));
    if mask != u32::MAX {
        match prefix_len(mask.into(), 32) {
            Some(len) => put(out, format_args!("/{len}")),
            None => put(out, format_args!("/{}", Ipv4Addr::from(mask))),
        }
    }
}

/// Appends an IPv6 address as the C library does, which writes the last 32 bits of an address
/// with 96 zeros in front as an IPv4 address.
pub(crate) fn put_ipv6(out: &mut String, address: Ipv6Addr) {
    let number = u128::from(address);
    match u32::try_from(number) {
        Ok(low) if low > 0xffff => put(out, format_args!("::{}", Ipv4Addr::from(low))),
        _ => put(out, format_args!("{address}")),
    }
}

pub(super) fn put_ipv6_masked(out: &mut String, address: u128, mask: u128) {
    put_ipv6(out, address.into());
    if mask != u128::MAX {
        out.push('/');
        match prefix_len(mask, 128) {
            Some(len) => put(out, format_args!("{len}")),
            None => put_ipv6(out, mask.into()),
        }
    }
}

/// Appends a packet type with mask.
pub(super) fn put_packet_type(out: &mut String, value: u32, mask: u32) {
    if (value, mask) == (0, u32::MAX) {
        out.push_str("eth");
        return;
    }
    let half = |out: &mut String, value: u16, mask: u16| {
        match (value, mask) {
            (_, 0) => out.push('*'),
            (0..=9, _) => put(out, format_args!("{value}")),
            _ => put(out, format_args!("{value:#x}")),
        }
        if mask != 0 && mask != u16::MAX {
            put(out, format_args!("/{mask:#x}"));
        }
    };
    out.push_str("packet_type=(");
    half(out, (value >> 16) as u16, (mask >> 16) as u16);
    out.push(',');
    half(out, value as u16, mask as u16);
    out.push(')');
}

/// Appends the value of a field, with its mask unless that is all ones.
pub(crate) fn put_value(
    out: &mut String,
    field: Field,
    value: &Value,
    mask: Option<&Value>,
    names: &dyn Names,
) {
    let bits = field.bytes() * 8;
    if mask.is_some_and(Value::is_zero) {
        out.push_str("ANY");
        return;
    }
    let mask = mask.filter(|mask| !mask.is_ones(bits));
    let number = value.low();
    let mask_number = mask.map_or(u128::MAX, Value::low);
    match field.form() {
        Form::WidePort if mask.is_none() => {
            let port = PortNo::from_u32(number as u32).unwrap_or(PortNo::NONE);
            put_port(out, port, names);
        }
        Form::Port if mask.is_none() => put_port(out, PortNo(number as u16), names),
        Form::Mac => put_mac_masked(out, number as u64, mask_number as u64 & 0xffff_ffff_ffff),
        Form::Ipv4 => put_ipv4_masked(out, number as u32, mask_number as u32),
        Form::Ipv6 => put_ipv6_masked(out, number, mask_number),
        Form::Frag => {
            let mask = mask_number as u8 & 3;
            let found = FRAGMENTS
                .iter()
                .find(|(_, bits, fragments)| *bits == mask && *fragments == number as u8 & mask);
            out.push_str(found.map_or("<error>", |(name, ..)| name));
        }
        Form::TunnelFlags => {
            put_flags(out, &TUNNEL_FLAGS, number as u32, mask_number as u32 & 1, 1);
        }
        Form::TcpFlags => {
            put_flags(out, &TCP_FLAGS, number as u32, mask_number as u32 & 0xfff, 0xfff);
        }
        Form::CtState => {
            put_flags(out, &CT_STATES, number as u32, mask_number as u32, u16::MAX.into());
        }
        Form::PacketType => put_packet_type(out, number as u32, mask_number as u32),
        form => {
            match form {
                Form::Hex => put_hex(out, &value.to_bytes(field.bytes())),
                _ => put(out, format_args!("{}", number as i64)),
            }
            if let Some(mask) = mask {
                out.push('/');
                put_hex(out, &mask.to_bytes(field.bytes()));
            }
        }
    }
}

/// Appends a field's name with the range of bits.
pub(crate) fn put_subfield(out: &mut String, subfield: &Subfield) {
    let field = subfield.field;
    out.push_str(field.oxm_name().unwrap_or(field.name()));
    let (first, bits) = (subfield.offset, subfield.bits);
    if subfield.is_whole() {
        out.push_str("[]");
    } else if bits == 1 {
        put(out, format_args!("[{first}]"));
    } else {
        put(out, format_args!("[{first}..{}]", i32::from(first) + i32::from(bits) - 1));
    }
}
