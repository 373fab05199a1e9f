//! Type-length-value properties, which several messages and actions carry.
//!
//! OpenFlow 1.4, "Property": type, length without padding, value, padding to 8 bytes. Types that
//! announce an experimenter are followed by the experimenter and its own type.

use bytes::BufMut;

use super::error::OfError;
use super::wire::{Reader, pad8, patch_u16};

/// The type of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The experimenter, 0 for a standard property.
    experimenter: u32,
    number: u32,
}

/// The standard type that announces an experimenter.
const EXPERIMENTER: u16 = 0xffff;

impl Kind {
    pub(crate) const fn standard(number: u16) -> Kind {
        Kind { experimenter: 0, number: number as u32 }
    }

    pub(crate) const fn experimenter(experimenter: u32, number: u32) -> Kind {
        Kind { experimenter, number }
    }

    pub(crate) fn is_experimenter(self) -> bool {
        self.experimenter != 0
    }
}

/// A received property.
#[derive(Clone, Debug)]
pub(crate) struct Property<'a> {
    pub(crate) kind: Kind,
    /// The value.
    pub(crate) body: Reader<'a>,
    /// Bytes of the property's header.
    header_len: usize,
}

/// Reads the property at the front, of which type 0xffff announces an experimenter.
///
/// # Errors
/// `BadPropertyLen` and `BadPropertyExperimenter`.
pub(crate) fn read<'a>(reader: &mut Reader<'a>) -> Result<Property<'a>, OfError> {
    read_with(reader, 8, EXPERIMENTER)
}

/// As [`read`], with the property padded to `alignment` bytes and types from `first_experimenter`
/// on announcing an experimenter.
pub(crate) fn read_with<'a>(
    reader: &mut Reader<'a>,
    alignment: usize,
    first_experimenter: u16,
) -> Result<Property<'a>, OfError> {
    let mut header = reader.with_error(OfError::BadPropertyLen);
    let (kind, len) = (header.u16()?, usize::from(header.u16()?));
    let mut body = reader.with_error(OfError::BadPropertyLen).sub(len)?;
    reader.with_error(OfError::BadPropertyLen).skip(len.next_multiple_of(alignment))?;
    body.skip(4)?;
    let (kind, header_len) = if kind < first_experimenter {
        (Kind::standard(kind), 4)
    } else {
        let (experimenter, number) = (body.u32()?, body.u32()?);
        if experimenter == 0 {
            return Err(OfError::BadPropertyExperimenter);
        }
        (Kind { experimenter, number }, 12)
    };
    reader.skip(len.next_multiple_of(alignment))?;
    Ok(Property { kind, body, header_len })
}

impl<'a> Property<'a> {
    /// The value, which must be exactly 32 bits.
    pub(crate) fn u32(&mut self) -> Result<u32, OfError> {
        let value = self.body.u32()?;
        self.end().map(|()| value)
    }

    /// The value, of which the first 16 bits count.
    pub(crate) fn u16(&mut self) -> Result<u16, OfError> {
        self.body.u16()
    }

    /// The value, of which the first 8 bits count.
    pub(crate) fn u8(&mut self) -> Result<u8, OfError> {
        self.body.u8()
    }

    /// The value, which must be exactly 128 bits.
    pub(crate) fn array16(&mut self) -> Result<[u8; 16], OfError> {
        let value = self.body.array()?;
        self.end().map(|()| value)
    }

    /// The value, which must be exactly 64 bits, after padding of the header to 8 bytes.
    pub(crate) fn u64(&mut self) -> Result<u64, OfError> {
        let value = self.nested()?.u64()?;
        match self.body.len() == 8 + self.header_padding() {
            true => Ok(value),
            false => Err(OfError::BadPropertyLen),
        }
    }

    fn header_padding(&self) -> usize {
        self.header_len.next_multiple_of(8) - self.header_len
    }

    /// The value after padding of the header to 8 bytes.
    pub(crate) fn nested(&self) -> Result<Reader<'a>, OfError> {
        let mut body = self.body.clone();
        body.skip(self.header_padding())?;
        Ok(body)
    }

    /// Checks that the value has been read to its end.
    pub(crate) fn end(&self) -> Result<(), OfError> {
        if self.body.is_empty() { Ok(()) } else { Err(OfError::BadPropertyLen) }
    }

    /// The error for a property that is not known and matters.
    pub(crate) fn unknown(&self) -> OfError {
        match self.kind.is_experimenter() {
            true => OfError::BadPropertyExpType,
            false => OfError::BadPropertyType,
        }
    }
}

/// Appends a property with `value` and padding to 8 bytes.
pub(crate) fn put(out: &mut Vec<u8>, kind: Kind, value: &[u8]) {
    let start = start(out, kind);
    out.put_slice(value);
    end(out, start);
}

/// Appends a property with a number of 16 bits and padding.
pub(crate) fn put_u16(out: &mut Vec<u8>, kind: Kind, value: u16) {
    let [high, low] = value.to_be_bytes();
    put(out, kind, &[high, low, 0, 0]);
}

/// Appends the header of a property, which [`end`] completes, and returns its place.
pub(crate) fn start(out: &mut Vec<u8>, kind: Kind) -> usize {
    let start = out.len();
    out.put_u16(if kind.is_experimenter() { EXPERIMENTER } else { kind.number as u16 });
    out.put_u16(0);
    if kind.is_experimenter() {
        out.put_u32(kind.experimenter);
        out.put_u32(kind.number);
    }
    start
}

/// Stores the length of the property at `start` and pads it to 8 bytes.
pub(crate) fn end(out: &mut Vec<u8>, start: usize) {
    let len = out.len() - start;
    patch_u16(out, start + 2, len as u16);
    pad8(out, start);
}

/// Appends a property whose value starts at a multiple of 8 bytes.
pub(crate) fn put_nested(out: &mut Vec<u8>, kind: Kind, value: &[u8]) {
    let start = start(out, kind);
    pad8(out, start);
    out.put_slice(value);
    end(out, start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_round_trip() {
        let mut out = Vec::new();
        put(&mut out, Kind::standard(3), &[1, 2, 3]);
        put_nested(&mut out, Kind::experimenter(7, 9), &[5; 8]);
        let mut reader = Reader::new(&out, OfError::BadRequestLen);
        let first = read(&mut reader).unwrap();
        assert_eq!((first.kind, first.body.rest()), (Kind::standard(3), &[1, 2, 3][..]));
        let mut second = read(&mut reader).unwrap();
        assert_eq!(second.kind, Kind::experimenter(7, 9));
        assert_eq!(second.u64(), Ok(0x0505_0505_0505_0505));
        assert_eq!(second.unknown(), OfError::BadPropertyExpType);
        assert!(reader.is_empty());
    }

    #[test]
    fn bad_lengths() {
        let error = |bytes: &[u8]| read(&mut Reader::new(bytes, OfError::BadRequestLen)).err();
        assert_eq!(error(&[0, 1, 0, 3, 0, 0, 0, 0]), Some(OfError::BadPropertyLen));
        assert_eq!(error(&[0, 1, 0, 9, 0, 0, 0, 0, 1]), Some(OfError::BadPropertyLen));
        assert_eq!(error(&[0xff, 0xff, 0, 8, 0, 0, 0, 1]), Some(OfError::BadPropertyLen));
        let anonymous = [0xff, 0xff, 0, 12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(error(&anonymous), Some(OfError::BadPropertyExperimenter));
    }
}
