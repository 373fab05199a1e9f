//! Options of tunnels as text: VXLAN group policy, Geneve, ERSPAN, GTP-U.

use std::fmt::{self, Write};

use netdev::wire::geneve::{GeneveOption, MAX_OPTIONS};
use netdev::wire::split;

use super::attribute::Format;
use super::key::TunnelKey;
use super::scan::Scanner;
use super::text::{List, write_hex, write_masked};

/// Writes the options of `tunnel` that are set.
pub(crate) fn write_tunnel_options(
    list: &mut List<'_, '_>,
    tunnel: &TunnelKey,
    mask: Option<&TunnelKey>,
    verbose: bool,
) -> fmt::Result {
    let exact = (u16::MAX, u8::MAX);
    if tunnel.gbp_id.get() != 0 || tunnel.gbp_flags != 0 {
        let (id, flags) = mask.map_or(exact, |mask| (mask.gbp_id.get(), mask.gbp_flags));
        list.item()?.write_str("vxlan(gbp(")?;
        let mut inner = List::new(list.out);
        let id = (tunnel.gbp_id.get().into(), id.into());
        write_masked(&mut inner, "id", Format::Decimal(16), id, verbose)?;
        let flags = (tunnel.gbp_flags.into(), flags.into());
        write_masked(&mut inner, "flags", Format::Hex(8), flags, verbose)?;
        list.out.write_str("))")?;
    }
    if tunnel.options_length != 0 {
        list.item()?.write_str("geneve(")?;
        let options = tunnel.used_options();
        let mask = mask.map(|mask| mask.options.get(..options.len()).unwrap_or(&mask.options));
        write_geneve_options(list.out, options, mask, verbose)?;
        list.out.write_char(')')?;
    }
    if matches!(tunnel.erspan_version, 1 | 2) {
        list.item()?.write_str("erspan(")?;
        write_erspan(&mut List::new(list.out), tunnel, mask, verbose)?;
        list.out.write_char(')')?;
    }
    if tunnel.gtpu_flags != 0 && tunnel.gtpu_message_type != 0 {
        let (flags, kind) = mask.map_or((u8::MAX, u8::MAX), |mask| {
            // OVS takes a mask that leaves one of them out for none.
            if mask.gtpu_flags != 0 && mask.gtpu_message_type != 0 {
                (mask.gtpu_flags, mask.gtpu_message_type)
            } else {
                (0, 0)
            }
        });
        list.item()?.write_str("gtpu(")?;
        let mut inner = List::new(list.out);
        let flags = (tunnel.gtpu_flags.into(), flags.into());
        write_masked(&mut inner, "flags", Format::Hex(8), flags, verbose)?;
        let kind = (tunnel.gtpu_message_type.into(), kind.into());
        write_masked(&mut inner, "msgtype", Format::Decimal(8), kind, verbose)?;
        list.out.write_char(')')?;
    }
    Ok(())
}

fn write_erspan(
    list: &mut List<'_, '_>,
    tunnel: &TunnelKey,
    mask: Option<&TunnelKey>,
    verbose: bool,
) -> fmt::Result {
    // OVS takes a mask whose version is neither 1 nor 2 for none.
    let empty = TunnelKey::default();
    let mask = mask.map(|mask| if matches!(mask.erspan_version, 1 | 2) { mask } else { &empty });
    let version = mask.map_or(u8::MAX, |mask| mask.erspan_version);
    let version = (tunnel.erspan_version.into(), version.into());
    write_masked(list, "ver", Format::Decimal(8), version, verbose)?;
    if tunnel.erspan_version == 1 {
        list.item()?.write_str("idx=")?;
        write_hex(list.out, tunnel.erspan_index.get().into())?;
        if let Some(mask) = mask {
            list.out.write_char('/')?;
            write_hex(list.out, mask.erspan_index.get().into())?;
        }
        return Ok(());
    }
    let (dir, hwid) = mask.map_or((u8::MAX, u8::MAX), |mask| (mask.erspan_dir, mask.erspan_hwid));
    let dir = (tunnel.erspan_dir.into(), dir.into());
    write_masked(list, "dir", Format::Decimal(8), dir, verbose)?;
    let hwid = (tunnel.erspan_hwid.into(), hwid.into());
    write_masked(list, "hwid", Format::Hex(8), hwid, verbose)
}

/// Writes bytes as one number.
pub(crate) fn write_bytes(out: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let Some(first) = bytes.iter().position(|byte| *byte != 0) else { return out.write_char('0') };
    write!(out, "{:#x}", bytes[first])?;
    bytes[first + 1..].iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Writes options as they are on the wire. `mask` is as long as they are.
pub(crate) fn write_geneve_options(
    out: &mut fmt::Formatter<'_>,
    options: &[u8],
    mask: Option<&[u8]>,
    verbose: bool,
) -> fmt::Result {
    let (mut options, mut mask) = (options, mask);
    while !options.is_empty() {
        let Some((option, behind)) = split::<GeneveOption>(options) else {
            return write!(out, "opt len {} less than minimum 4", options.len());
        };
        let length = option.data_length();
        let Some((data, rest)) = behind.split_at_checked(length) else {
            let (length, left) = (length + size_of::<GeneveOption>(), options.len());
            return write!(out, "opt len {length} greater than remaining {left}");
        };
        let of_mask = mask.and_then(split::<GeneveOption>);
        let option_mask = of_mask.map(|(mask, _)| mask);
        let data_mask = of_mask.map(|(_, behind)| behind.get(..length).unwrap_or(behind));
        mask = of_mask.map(|(_, behind)| behind.get(length..).unwrap_or(&[]));
        options = rest;

        out.write_char('{')?;
        let mut list = List::new(out);
        let class = option_mask.map_or(u16::MAX, |mask| mask.class.get());
        let class = (option.class.get().into(), class.into());
        write_masked(&mut list, "class", Format::Hex(16), class, verbose)?;
        let kind = option_mask.map_or(u8::MAX, |mask| mask.option_type);
        let kind = (option.option_type.into(), kind.into());
        write_masked(&mut list, "type", Format::Hex(8), kind, verbose)?;
        let length_mask = option_mask.map_or(u8::MAX, |mask| match mask.length & 0x1f {
            0x1f => u8::MAX,
            some => some,
        });
        let length_masked = (length as u128, length_mask.into());
        write_masked(&mut list, "len", Format::Decimal(8), length_masked, verbose)?;
        let all = |byte: u8| data_mask.is_some_and(|mask| mask.iter().all(|mask| *mask == byte));
        if length > 0 && (verbose || !all(0)) {
            write_bytes(list.item()?, data)?;
            if let Some(data_mask) = data_mask.filter(|_| !all(u8::MAX)) {
                list.out.write_char('/')?;
                write_bytes(list.out, data_mask)?;
            }
        }
        out.write_char('}')?;
    }
    Ok(())
}

/// A value and its mask, or the whole mask when none is written.
pub(crate) fn read_masked(scanner: &mut Scanner<'_>, bits: u32, masks: bool) -> Option<(u64, u64)> {
    let value = scanner.number(bits)? as u64;
    let all = u64::MAX >> (64 - bits);
    let mask = if masks && scanner.eat("/") { scanner.number(bits)? as u64 } else { all };
    Some((value, mask))
}

/// Reads `name=value/mask` and the comma behind it, if the name comes next; else the value is 0
/// and does not matter.
fn read_optional(scanner: &mut Scanner<'_>, name: &str, bits: u32) -> Option<(u64, u64)> {
    let masked = if scanner.eat(name) { read_masked(scanner, bits, true)? } else { (0, 0) };
    scanner.eat(",");
    Some(masked)
}

/// Reads one of the options of a tunnel up to its closing parenthesis, if one comes next. The
/// inner `Option` is none when there is none.
pub(crate) fn read_tunnel_option(
    scanner: &mut Scanner<'_>,
    key: &mut TunnelKey,
    mask: &mut TunnelKey,
) -> Option<Option<()>> {
    if scanner.eat("vxlan(gbp(") {
        let (id, id_mask) = read_optional(scanner, "id=", 16)?;
        let (flags, flags_mask) = read_optional(scanner, "flags=", 8)?;
        scanner.need("))")?;
        key.gbp_id.set(id as u16);
        mask.gbp_id.set(id_mask as u16);
        (key.gbp_flags, mask.gbp_flags) = (flags as u8, flags_mask as u8);
    } else if scanner.eat("erspan(") {
        let (version, version_mask) = read_optional(scanner, "ver=", 8)?;
        (key.erspan_version, mask.erspan_version) = (version as u8, version_mask as u8);
        match version {
            1 => {
                let (index, index_mask) = read_optional(scanner, "idx=", 32)?;
                key.erspan_index.set(index as u32);
                mask.erspan_index.set(index_mask as u32);
            }
            2 => {
                let (dir, dir_mask) = read_optional(scanner, "dir=", 8)?;
                let (hwid, hwid_mask) = read_optional(scanner, "hwid=", 8)?;
                (key.erspan_dir, mask.erspan_dir) = (dir as u8, dir_mask as u8);
                (key.erspan_hwid, mask.erspan_hwid) = (hwid as u8, hwid_mask as u8);
            }
            _ => return None,
        }
        scanner.need(")")?;
    } else if scanner.eat("gtpu(") {
        let (flags, flags_mask) = read_optional(scanner, "flags=", 8)?;
        let (kind, kind_mask) = read_optional(scanner, "msgtype=", 8)?;
        scanner.need(")")?;
        (key.gtpu_flags, mask.gtpu_flags) = (flags as u8, flags_mask as u8);
        (key.gtpu_message_type, mask.gtpu_message_type) = (kind as u8, kind_mask as u8);
    } else if scanner.eat("geneve(") {
        let (options, options_mask) = read_geneve_options(scanner)?;
        key.options_length = options.len() as u8;
        mask.options_length = u8::MAX;
        for (key, option) in key.options.iter_mut().zip(options) {
            *key = option;
        }
        for (mask, option) in mask.options.iter_mut().zip(options_mask) {
            *mask = option;
        }
    } else {
        return Some(None);
    }
    Some(Some(()))
}

/// Reads options up to their closing parenthesis: as on the wire, and the mask.
pub(crate) fn read_geneve_options(scanner: &mut Scanner<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut options, mut masks) = (vec![], vec![]);
    while scanner.eat("{") {
        let (class, class_mask) = read_optional(scanner, "class=", 16)?;
        let (kind, kind_mask) = read_optional(scanner, "type=", 8)?;
        let (length, length_mask) = read_optional(scanner, "len=", 8)?;
        if length > 124 || length % 4 != 0 {
            return None;
        }
        options.extend((class as u16).to_be_bytes());
        options.extend([kind as u8, length as u8 / 4]);
        masks.extend((class_mask as u16).to_be_bytes());
        masks.extend([kind_mask as u8, length_mask as u8 & 0x1f]);
        let length = length as usize;
        let (mut data, mut data_mask) = (vec![0; length], vec![0; length]);
        if !scanner.rest().starts_with('}') {
            data = scanner.bytes(length)?;
            let masked = scanner.eat("/");
            data_mask = if masked { scanner.bytes(length)? } else { vec![u8::MAX; length] };
        }
        options.append(&mut data);
        masks.append(&mut data_mask);
        scanner.need("}")?;
        if options.len() > MAX_OPTIONS {
            return None;
        }
    }
    scanner.need(")")?;
    Some((options, masks))
}
