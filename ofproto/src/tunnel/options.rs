//! Tunnel options: from the bytes of a header to the fields of a switch, and back.

use dpif::flow::TunnelKey;
use netdev::wire::geneve::{GeneveOption, MAX_OPTIONS};
use netdev::wire::split;
use thiserror::Error;
use zerocopy::IntoBytes;

use crate::openflow::tlv_map::{TlvMap, TunnelMetadata};
use crate::openflow::value::Value;

/// Bit of an option's type that says that it must be understood (RFC 8926, section 3.5).
const CRITICAL: u8 = 0x80;

/// Options that a switch cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("tunnel options are cut short, of another length than mapped, or critical and not mapped")]
pub struct InvalidOptions;

/// The fields of a packet with these options. Those that are not mapped are left out.
///
/// # Errors
/// When an option is cut short, longer or shorter than mapped, or not mapped but critical.
pub(crate) fn metadata_of(options: &[u8], tlv: &TlvMap) -> Result<TunnelMetadata, InvalidOptions> {
    let mut metadata = TunnelMetadata::default();
    let mut rest = options;
    while !rest.is_empty() {
        let (header, behind) = split::<GeneveOption>(rest).ok_or(InvalidOptions)?;
        let data;
        (data, rest) = behind.split_at_checked(header.data_length()).ok_or(InvalidOptions)?;
        match tlv.find(header.class.get(), header.option_type) {
            Some((index, option)) if option.bytes() == data.len() => {
                let all = Value::ones(8 * data.len());
                metadata.set(index, option, &Value::from_bytes(data), &all);
            }
            Some(_) => return Err(InvalidOptions),
            None if header.option_type & CRITICAL != 0 => return Err(InvalidOptions),
            None => {}
        }
    }
    Ok(metadata)
}

/// Gives a tunnel the options of a packet's fields. Returns whether there is room for them.
pub(crate) fn put_options(metadata: &TunnelMetadata, tlv: &TlvMap, tunnel: &mut TunnelKey) -> bool {
    let mut options = Vec::new();
    for (_, option) in tlv.iter().filter(|(index, _)| metadata.has(*index)) {
        let bytes = option.bytes();
        let header = GeneveOption {
            class: option.class.into(),
            option_type: option.kind,
            length: (bytes / 4) as u8,
        };
        options.extend_from_slice(header.as_bytes());
        options.extend(metadata.value(option).to_bytes(bytes));
    }
    tunnel.options = [0; MAX_OPTIONS];
    tunnel.options_length = options.len().min(MAX_OPTIONS) as u8;
    for (byte, new) in tunnel.options.iter_mut().zip(&options) {
        *byte = *new;
    }
    options.len() <= MAX_OPTIONS
}

/// Notes in the mask of a received tunnel that these bits of its fields were looked at. Which
/// options there are, and in which order, is then looked at too.
pub(crate) fn note_options(
    tunnel: &TunnelKey,
    read: &TunnelMetadata,
    tlv: &TlvMap,
    mask: &mut TunnelKey,
) {
    let mut bits = Vec::new();
    let mut rest = tunnel.used_options();
    while let Some((header, behind)) = split::<GeneveOption>(rest) {
        let length = header.data_length();
        bits.extend([u8::MAX, u8::MAX, u8::MAX, LENGTH_BITS]);
        match tlv.find(header.class.get(), header.option_type) {
            Some((_, option)) => bits.extend(read.value(option).to_bytes(length)),
            None => bits.resize(bits.len() + length, 0),
        }
        rest = behind.get(length..).unwrap_or(&[]);
    }
    mask.options_length = u8::MAX;
    for (byte, bits) in mask.options.iter_mut().zip(bits) {
        *byte = bits;
    }
}

/// Bits of the last byte of an option's header that say its length.
const LENGTH_BITS: u8 = 0x1f;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openflow::message::TlvMapping;

    fn map() -> TlvMap {
        let mut map = TlvMap::default();
        for (option_type, option_len, index) in [(1, 8, 5), (0x82, 0, 1), (3, 4, 0)] {
            let mapping = TlvMapping { option_class: 0xffff, option_type, option_len, index };
            map.add(&mapping).unwrap();
        }
        map
    }

    /// An option of the class that is mapped.
    fn option(kind: u8, data: &[u8]) -> Vec<u8> {
        [&[0xff, 0xff, kind, data.len() as u8 / 4], data].concat()
    }

    #[test]
    fn fields_become_options_in_their_order() {
        let map = map();
        let received = [
            option(1, &[1, 2, 3, 4, 5, 6, 7, 8]),
            option(9, &[9; 4]),
            option(3, &[0xa, 0xb, 0xc, 0xd]),
            option(0x82, &[]),
        ]
        .concat();
        let metadata = metadata_of(&received, &map).unwrap();
        let mut tunnel = TunnelKey::default();
        assert!(put_options(&metadata, &map, &mut tunnel));
        let sent = [
            option(3, &[0xa, 0xb, 0xc, 0xd]),
            option(0x82, &[]),
            option(1, &[1, 2, 3, 4, 5, 6, 7, 8]),
        ];
        assert_eq!(tunnel.used_options(), sent.concat());
        assert_eq!(metadata_of(tunnel.used_options(), &map), Ok(metadata));
    }

    #[test]
    fn bad_options_are_refused() {
        let map = map();
        for bad in [
            vec![0xff, 0xff, 9],
            vec![0xff, 0xff, 9, 1, 0, 0],
            option(1, &[0; 4]),
            option(0x81, &[]),
        ] {
            assert_eq!(metadata_of(&bad, &map), Err(InvalidOptions), "{bad:?}");
        }
        assert_eq!(metadata_of(&option(9, &[7; 8]), &map), Ok(TunnelMetadata::default()));
    }

    #[test]
    fn masks_have_the_layout_of_the_options() {
        let map = map();
        let mut tunnel = TunnelKey::default();
        let received = [option(9, &[9; 4]), option(3, &[1, 2, 3, 4])].concat();
        tunnel.options_length = received.len() as u8;
        tunnel.options[..received.len()].copy_from_slice(&received);
        let mut read = TunnelMetadata::default();
        let bits = Value::from(0x0f_u128);
        read.set(0, map.get(0).unwrap(), &bits, &bits);
        let mut mask = TunnelKey::default();
        note_options(&tunnel, &read, &map, &mut mask);
        let header = [0xff, 0xff, 0xff, 0x1f];
        let expected = [&header[..], &[0; 4], &header, &[0, 0, 0, 0x0f]].concat();
        assert_eq!(mask.options_length, u8::MAX);
        assert_eq!(mask.options[..received.len()], expected);
        assert_eq!(mask.options[received.len()..], [0; MAX_OPTIONS - 16]);
    }
}
