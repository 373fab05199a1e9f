//! Reading matches.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::field::{Field, Form, Prerequisite};
use super::super::flow_match::{Match, eth_type, ip_proto};
use super::super::slot::Slot;
use super::super::value::{Value, low_ones};
use super::Names;
use super::scan::{Pairs, ParseError, Word, strip_hex};
use super::value::{CT_STATES, FRAGMENTS, TCP_FLAGS, TUNNEL_FLAGS};

/// Words for protocols: Ethernet type and IP protocol.
pub(super) const PROTOCOLS: [(&str, u16, Option<u8>); 17] = [
    ("ip", eth_type::IPV4, None),
    ("ipv4", eth_type::IPV4, None),
    ("ip4", eth_type::IPV4, None),
    ("arp", eth_type::ARP, None),
    ("icmp", eth_type::IPV4, Some(ip_proto::ICMP)),
    ("tcp", eth_type::IPV4, Some(ip_proto::TCP)),
    ("udp", eth_type::IPV4, Some(ip_proto::UDP)),
    ("sctp", eth_type::IPV4, Some(ip_proto::SCTP)),
    ("ipv6", eth_type::IPV6, None),
    ("ip6", eth_type::IPV6, None),
    ("icmp6", eth_type::IPV6, Some(ip_proto::ICMPV6)),
    ("tcp6", eth_type::IPV6, Some(ip_proto::TCP)),
    ("udp6", eth_type::IPV6, Some(ip_proto::UDP)),
    ("sctp6", eth_type::IPV6, Some(ip_proto::SCTP)),
    ("rarp", eth_type::RARP, None),
    ("mpls", eth_type::MPLS, None),
    ("mplsm", eth_type::MPLS_MULTICAST, None),
];

/// Reads a match such as `in_port=1,tcp,nw_src=10.0.0.0/8`.
///
/// # Errors
/// For a word that is not understood, and for a field whose prerequisites no word before meets.
pub fn parse_match(text: &str, names: &dyn Names) -> Result<Match, ParseError> {
    parse_match_words(text, names, &mut |_, _| None)
}

/// Takes a word that names no field, with its value. Returns `None` for an unknown word.
pub type OtherWords<'a> = dyn FnMut(&str, &str) -> Option<Result<(), String>> + 'a;

/// As [`parse_match`]. Words that name no field go to `other`.
///
/// # Errors
/// Also the messages of `other`.
pub fn parse_match_words(
    text: &str,
    names: &dyn Names,
    other: &mut OtherWords<'_>,
) -> Result<Match, ParseError> {
    let mut flow_match = Match::new();
    for pair in Pairs::new(Word::new(text)) {
        let word = pair.key.text;
        let protocol = PROTOCOLS.iter().find(|(name, ..)| *name == word);
        if let Some((_, kind, proto)) = protocol {
            flow_match.require_ethernet();
            flow_match.set_exact(Slot::ETH_TYPE, (*kind).into());
            if let Some(proto) = proto {
                flow_match.set_exact(Slot::NW_PROTO, (*proto).into());
            }
        } else if word == "eth" {
            flow_match.set_exact(Slot::PACKET_TYPE, 0);
        } else if let Some(field) = Field::from_name(word).or_else(|| Field::from_oxm_name(word)) {
            set_field(&mut flow_match, field, pair.key, pair.value, names)?;
        } else {
            match other(word, pair.value.text) {
                Some(result) => result.map_err(|message| pair.key.error(message))?,
                None => return Err(pair.key.error("unknown keyword")),
            }
        }
    }
    Ok(flow_match)
}

fn set_field(
    flow_match: &mut Match,
    field: Field,
    key: Word<'_>,
    text: Word<'_>,
    names: &dyn Names,
) -> Result<(), ParseError> {
    let (value, mask) = if text.text.is_empty() {
        // The word alone matches packets that have the field.
        (Value::ZERO, Value::ZERO)
    } else {
        parse_value(field, text, names)?
    };
    if field.prerequisite() != Prerequisite::None {
        flow_match.require_ethernet();
    }
    // A name such as tp_src stands for the field of whatever protocol came before.
    let same = |other: &Field| {
        (other.slot(), other.bytes(), other.bits()) == (field.slot(), field.bytes(), field.bits())
    };
    let met = |field: &Field| field.prerequisite_met(flow_match);
    let Some(field) = std::iter::once(field).chain(Field::all().filter(same)).find(met) else {
        return Err(key.error("prerequisites of the field are not met"));
    };
    if let Some(index) = field.slot().tun_metadata_index() {
        let bytes = value.significant_bytes().max(if mask.is_ones(field.bytes() * 8) {
            0
        } else {
            mask.significant_bytes()
        });
        let masked = !mask.is_ones(field.bytes() * 8);
        let set = flow_match.set_tun_metadata(index, &value, &mask, bytes, masked);
        return set.map_err(|error| key.error(error.to_string()));
    }
    flow_match.set_field(field, &value, &mask).map_err(|error| key.error(error.to_string()))
}

/// Reads value and mask of a field; without a mask all bits count.
pub(super) fn parse_value(
    field: Field,
    text: Word<'_>,
    names: &dyn Names,
) -> Result<(Value, Value), ParseError> {
    let bits = field.bytes() * 8;
    let all = Value::ones(bits);
    if text.text == "*" {
        return Ok((Value::ZERO, Value::ZERO));
    }
    let (first, second) = match text.split("/") {
        Some((value, mask)) => (value, Some(mask)),
        None => (text, None),
    };
    let (value, mask) = match field.form() {
        Form::Decimal | Form::Hex => {
            (integer(first, bits)?, second.map_or(Ok(all.clone()), |mask| integer(mask, bits))?)
        }
        Form::Mac => (mac(first)?, second.map_or(Ok(all.clone()), mac)?),
        Form::Ipv4 => {
            let address = first.text.parse::<Ipv4Addr>();
            let address = address.map_err(|_| text.error("invalid IPv4 address"))?;
            let mask = second.map_or(Ok(u32::MAX.into()), |mask| {
                let dotted = mask.text.parse::<Ipv4Addr>().map(|mask| u32::from(mask).into());
                dotted.or_else(|_| prefix(mask, 32))
            });
            (Value::from(u128::from(u32::from(address))), Value::from(mask?))
        }
        Form::Ipv6 => {
            let address = first.text.parse::<Ipv6Addr>();
            let address = address.map_err(|_| text.error("invalid IPv6 address"))?;
            let mask = second.map_or(Ok(u128::MAX), |mask| {
                mask.text.parse::<Ipv6Addr>().map(u128::from).or_else(|_| prefix(mask, 128))
            });
            (Value::from(u128::from(address)), Value::from(mask?))
        }
        Form::Port | Form::WidePort if second.is_none() => {
            let port = first.port(names)?;
            let wide = field.form() == Form::WidePort;
            let number = if wide { port.to_u32() } else { port.0.into() };
            (Value::from(u128::from(number)), all.clone())
        }
        Form::Port | Form::WidePort => {
            let mask = second.map_or(Ok(all.clone()), |mask| integer(mask, bits))?;
            (integer(first, bits)?, mask)
        }
        Form::Frag => {
            let found = FRAGMENTS.iter().find(|(name, ..)| first.text.eq_ignore_ascii_case(name));
            let (_, mask, value) = found.ok_or_else(|| text.error("unknown fragment type"))?;
            // The upper bits of the mask make an exact match out of one of all fragment bits.
            (Value::from(u128::from(*value)), Value::from(u128::from(*mask | 0xfc)))
        }
        Form::TunnelFlags => flags(text, &TUNNEL_FLAGS, bits)?,
        Form::TcpFlags => flags(text, &TCP_FLAGS, bits)?,
        Form::CtState => flags(text, &CT_STATES, bits)?,
        Form::PacketType => (packet_type(text)?, all.clone()),
    };
    if !field.is_mask_valid(&mask) {
        return Err(text.error(format!("invalid mask for field {}", field.name())));
    }
    let no_vlan = field == Field::DL_VLAN && value.low() == 0xffff;
    if !field.is_value_valid(&value) && !mask.is_zero() && !no_vlan {
        return Err(text.error(format!("not a valid value for {}", field.name())));
    }
    Ok((value.and(&mask), mask))
}

/// A number of at most `bits` bits.
pub(super) fn integer(text: Word<'_>, bits: usize) -> Result<Value, ParseError> {
    let value = match strip_hex(text.text) {
        Some(digits) if digits.len() > 32 => {
            wide_integer(digits).ok_or_else(|| text.error("not a number"))?
        }
        _ => Value::from(text.number::<u128>()?),
    };
    match value.significant_bytes() * 8 > bits {
        true => Err(text.error(format!("value too large for a {}-byte field", bits / 8))),
        false => Ok(value),
    }
}

fn wide_integer(digits: &str) -> Option<Value> {
    let digits: Vec<u8> = digits
        .bytes()
        .map(|digit| (digit as char).to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .rchunks(2)
        .rev()
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect();
    Some(Value::from_bytes(&bytes))
}

fn prefix(text: Word<'_>, bits: usize) -> Result<u128, ParseError> {
    let len: usize = text.number()?;
    match len <= bits {
        true => Ok(low_ones(bits) & !low_ones(bits - len)),
        false => Err(text.error("invalid network mask")),
    }
}

fn mac(text: Word<'_>) -> Result<Value, ParseError> {
    let bytes = text.text.split(':').map(|byte| match byte.len() {
        1 | 2 => u8::from_str_radix(byte, 16).ok(),
        _ => None,
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    match bytes.filter(|bytes| bytes.len() == 6) {
        Some(bytes) => Ok(Value::from_bytes(&bytes)),
        None => Err(text.error("invalid Ethernet address")),
    }
}

/// The address of a mac-valued action.
pub(super) fn mac_bytes(text: Word<'_>) -> Result<[u8; 6], ParseError> {
    let [_, _, address @ ..] = (mac(text)?.low() as u64).to_be_bytes();
    Ok(address)
}

/// `+set-clear`, `a|b` for exactly these, or a number with an optional mask.
fn flags(text: Word<'_>, names: &[&str], bits: usize) -> Result<(Value, Value), ParseError> {
    let starts_with_digit = text.text.starts_with(|c: char| c.is_ascii_digit());
    if starts_with_digit {
        let (value, mask) = match text.split("/") {
            Some((value, mask)) => (value, integer(mask, bits)?),
            None => (text, Value::ones(bits)),
        };
        return Ok((integer(value, bits)?, mask));
    }
    let bit = |name: &str| {
        let place = names.iter().position(|known| *known == name);
        place.map(|place| 1u128 << place).ok_or_else(|| text.error("unknown flag"))
    };
    if !text.text.starts_with(['+', '-']) {
        let set = text.text.split('|').try_fold(0, |set, name| Ok(set | bit(name)?))?;
        return Ok((Value::from(set), Value::ones(bits)));
    }
    let (mut value, mut mask) = (0, 0);
    let mut rest = text.text;
    while let Some(sign) = rest.chars().next() {
        let name_on = rest.get(1..).unwrap_or_default();
        let end = name_on.find(['+', '-']).unwrap_or(name_on.len());
        let (name, tail) = name_on.split_at_checked(end).unwrap_or((name_on, ""));
        let bit = bit(name)?;
        if mask & bit != 0 {
            return Err(text.error(format!("{name}: each flag may be given once")));
        }
        mask |= bit;
        value |= if sign == '+' { bit } else { 0 };
        rest = tail;
    }
    Ok((Value::from(value), Value::from(mask)))
}

/// `(namespace,type)`, the parentheses of which may have been taken away already.
fn packet_type(text: Word<'_>) -> Result<Value, ParseError> {
    let inner = text.text.trim_start_matches('(').trim_end_matches(')');
    let parts = inner.split_once(',');
    let (namespace, kind) = parts.ok_or_else(|| text.error("not a packet type"))?;
    let part = |part: &str| Word { text: part, position: text.position }.number::<u16>();
    Ok(Value::from(u128::from(part(namespace)?) << 16 | u128::from(part(kind)?)))
}
