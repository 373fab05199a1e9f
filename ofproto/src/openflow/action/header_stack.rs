//! The actions that add and remove whole headers: encap and decap.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::version::Version;
use super::super::wire::{Reader, pad8};
use super::raw::{self, Raw};
use super::*;

/// The class of properties of network service headers.
const CLASS_NSH: u16 = 4;
/// The property with the metadata type.
const NSH_MD_TYPE: u8 = 1;
/// The property with a metadata value.
const NSH_TLV: u8 = 2;
/// Bytes of a property with a metadata type, padding aside.
const NSH_MD_TYPE_LEN: u8 = 5;
/// Bytes of a property with a metadata value before the value.
const NSH_TLV_HEADER: usize = 8;

pub(super) fn read_encap(body: &mut Reader<'_>) -> Result<Action, OfError> {
    let (header_size, kind) = (body.u16()?, body.u32()?);
    let known =
        [packet_type::ETHERNET, packet_type::NSH, packet_type::MPLS, packet_type::MPLS_MULTICAST];
    if !known.contains(&kind) {
        return Err(OfError::BadActionHeaderType);
    }
    let mut properties = Vec::new();
    while !body.is_empty() {
        properties.push(read_property(body)?);
    }
    Ok(Action::Encap(Box::new(Encap { packet_type: kind, header_size, properties })))
}

fn read_property(body: &mut Reader<'_>) -> Result<EncapProperty, OfError> {
    let mut header = body.clone();
    let (class, kind, len) = (header.u16()?, header.u8()?, usize::from(header.u8()?));
    if len < 4 {
        return Err(OfError::BadActionLen);
    }
    let mut property = body.sub(len.next_multiple_of(8))?;
    property.skip(4)?;
    match (class, kind) {
        (CLASS_NSH, NSH_MD_TYPE) if len > 8 => Err(OfError::BadActionEdProp),
        (CLASS_NSH, NSH_MD_TYPE) => Ok(EncapProperty::NshMdType(property.u8()?)),
        (CLASS_NSH, NSH_TLV) => {
            let (class, kind) = (property.u16()?, property.u8()?);
            let data_len = usize::from(property.u8()?);
            if len != NSH_TLV_HEADER + data_len.next_multiple_of(8) {
                return Err(OfError::BadActionEdProp);
            }
            let data = property.bytes(data_len)?.to_vec();
            Ok(EncapProperty::NshTlv { class, kind, data })
        }
        _ => Err(OfError::BadActionUnknownEdProp),
    }
}

pub(super) fn put_encap(out: &mut Vec<u8>, version: Version, encap: &Encap) {
    let mut body = Vec::new();
    body.put_u16(encap.header_size);
    body.put_u32(encap.packet_type);
    for property in &encap.properties {
        let start = body.len();
        body.put_u16(CLASS_NSH);
        match property {
            EncapProperty::NshMdType(md_type) => {
                body.put_slice(&[NSH_MD_TYPE, NSH_MD_TYPE_LEN, *md_type]);
            }
            EncapProperty::NshTlv { class, kind, data } => {
                let len = NSH_TLV_HEADER + data.len().next_multiple_of(8);
                body.put_slice(&[NSH_TLV, len as u8]);
                body.put_u16(*class);
                body.put_slice(&[*kind, data.len() as u8]);
                body.put_slice(data);
            }
        }
        pad8(&mut body, start);
    }
    raw::put(out, version, Raw::Encap, &body);
}

pub(super) fn read_decap(body: &mut Reader<'_>) -> Result<Action, OfError> {
    body.skip(2)?;
    let kind = body.u32()?;
    match body.is_empty() {
        true => Ok(Action::Decap(kind)),
        false => Err(OfError::BadActionUnknownEdProp),
    }
}

pub(super) fn put_decap(out: &mut Vec<u8>, version: Version, kind: u32) {
    let mut body = vec![0, 0];
    body.put_u32(kind);
    raw::put(out, version, Raw::Decap, &body);
}
