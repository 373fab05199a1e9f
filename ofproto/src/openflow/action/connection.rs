//! The actions of connection tracking: ct and nat.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16};
use super::decode::{Outer, field_of_short_header, read_nested, set_offset_and_bits};
use super::encode::{put_actions, short_header};
use super::instruction::Instruction;
use super::raw::{self, Raw};
use super::*;

/// Which parts of a nat range a message carries (`nx_nat_range`).
mod range {
    pub(super) const IPV4_MIN: u16 = 1;
    pub(super) const IPV4_MAX: u16 = 2;
    pub(super) const IPV6_MIN: u16 = 4;
    pub(super) const IPV6_MAX: u16 = 8;
    pub(super) const PROTO_MIN: u16 = 16;
    pub(super) const PROTO_MAX: u16 = 32;
}

/// The known flags of a nat action.
const NAT_FLAGS: u16 = Nat::SRC | Nat::DST | Nat::PERSISTENT | Nat::PROTO_HASH | Nat::PROTO_RANDOM;

pub(super) fn read_ct(
    body: &mut Reader<'_>,
    context: &DecodeContext<'_>,
    depth: usize,
) -> Result<Action, OfError> {
    let flags = body.u16()?;
    let (zone_header, zone) = (body.u32()?, body.u16()?);
    let recirc_table = body.u8()?;
    body.skip(3)?;
    let alg = body.u16()?;
    if flags & Ct::FORCE != 0 && flags & Ct::COMMIT == 0 {
        return Err(OfError::BadActionArgument);
    }
    let zone = match zone_header {
        0 => Number::Immediate(zone),
        header => {
            let mut src = field_of_short_header(header, context)?;
            set_offset_and_bits(&mut src, zone);
            src.check_source(None)?;
            if src.bits != 16 {
                return Err(OfError::BadActionSetLen);
            }
            Number::Field(src)
        }
    };
    let allowed = &[Instruction::ApplyActions];
    let actions = read_nested(body, body.len(), context, allowed, Outer::Ct, depth + 1)?;
    // Without commit there is no connection to change.
    let plain_nat = |action: &Action| matches!(action, Action::Nat(nat) if nat.flags == 0 && nat.addresses.is_none());
    if flags & Ct::COMMIT == 0 && !actions.iter().all(plain_nat) {
        return Err(OfError::BadActionArgument);
    }
    Ok(Action::Ct(Box::new(Ct { flags, zone, recirc_table, alg, actions })))
}

pub(super) fn put_ct(out: &mut Vec<u8>, version: Version, ct: &Ct) {
    let mut body = Vec::new();
    body.put_u16(ct.flags);
    let (header, zone) = match ct.zone {
        Number::Immediate(zone) => (0, zone),
        Number::Field(src) => (short_header(&src), offset_and_bits(&src)),
    };
    body.put_u32(header);
    body.put_u16(zone);
    body.put_u8(ct.recirc_table);
    body.put_bytes(0, 3);
    body.put_u16(ct.alg);
    put_actions(&mut body, &ct.actions, version);
    raw::put(out, version, Raw::Ct, &body);
}

/// Offset and number of bits as older actions hold them in 16 bits.
pub(super) fn offset_and_bits(subfield: &Subfield) -> u16 {
    subfield.offset << 6 | (subfield.bits.wrapping_sub(1) & 0x3f)
}

pub(super) fn read_nat(body: &mut Reader<'_>) -> Result<Action, OfError> {
    body.skip(2)?;
    let (flags, present) = (body.u16()?, body.u16()?);
    let both = |a: u16, b: u16| flags & a != 0 && flags & b != 0;
    if flags & !NAT_FLAGS != 0
        || both(Nat::SRC, Nat::DST)
        || both(Nat::PROTO_HASH, Nat::PROTO_RANDOM)
    {
        return Err(OfError::BadActionArgument);
    }
    // The action's length counts as an argument: what the bits announce must be there.
    let body = &mut body.with_error(OfError::BadActionArgument);
    let has = |bit: u16| present & bit != 0;
    let bad = OfError::BadActionArgument;
    let addresses = if has(range::IPV4_MIN) {
        if has(range::IPV6_MIN) || has(range::IPV6_MAX) {
            return Err(bad);
        }
        let min = Ipv4Addr::from(body.u32()?);
        let max = has(range::IPV4_MAX).then(|| body.u32().map(Ipv4Addr::from)).transpose()?;
        if min.is_unspecified() || max.is_some_and(|max| max < min) {
            return Err(bad);
        }
        Some(NatAddresses::V4(min, max))
    } else if has(range::IPV4_MAX) {
        return Err(bad);
    } else if has(range::IPV6_MIN) {
        let min = Ipv6Addr::from(body.u128()?);
        let max = has(range::IPV6_MAX).then(|| body.u128().map(Ipv6Addr::from)).transpose()?;
        if min.is_unspecified() || max.is_some_and(|max| max < min) {
            return Err(bad);
        }
        Some(NatAddresses::V6(min, max))
    } else if has(range::IPV6_MAX) {
        return Err(bad);
    } else {
        None
    };
    let (mut port_min, mut port_max) = (0, 0);
    if has(range::PROTO_MIN) {
        port_min = body.u16()?;
        if addresses.is_none() || port_min == 0 {
            return Err(bad);
        }
        if has(range::PROTO_MAX) {
            port_max = body.u16()?;
            if port_max < port_min {
                return Err(bad);
            }
        }
    } else if has(range::PROTO_MAX) {
        return Err(bad);
    }
    Ok(Action::Nat(Box::new(Nat { flags, addresses, port_min, port_max })))
}

pub(super) fn put_nat(out: &mut Vec<u8>, version: Version, nat: &Nat) {
    let mut body = vec![0, 0];
    body.put_u16(nat.flags);
    body.put_u16(0);
    let mut present = 0;
    match nat.addresses {
        Some(NatAddresses::V4(min, max)) => {
            present |= range::IPV4_MIN;
            body.put_u32(min.into());
            if let Some(max) = max {
                present |= range::IPV4_MAX;
                body.put_u32(max.into());
            }
        }
        Some(NatAddresses::V6(min, max)) => {
            present |= range::IPV6_MIN;
            body.put_u128(min.into());
            if let Some(max) = max {
                present |= range::IPV6_MAX;
                body.put_u128(max.into());
            }
        }
        None => {}
    }
    for (bit, port) in [(range::PROTO_MIN, nat.port_min), (range::PROTO_MAX, nat.port_max)] {
        if nat.addresses.is_some() && port != 0 {
            present |= bit;
            body.put_u16(port);
        }
    }
    patch_u16(&mut body, 4, present);
    raw::put(out, version, Raw::Nat, &body);
}
