//! A bounds-checked cursor over received bytes.

use super::error::OfError;

/// Reads big-endian values from the front of a byte slice. Every read that runs past the end
/// yields the error that the reader was made with.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    data: &'a [u8],
    error: OfError,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(data: &'a [u8], error: OfError) -> Reader<'a> {
        Reader { data, error }
    }

    /// The bytes that have not been read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.data
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], OfError> {
        let (front, rest) = self.data.split_at_checked(count).ok_or(self.error)?;
        self.data = rest;
        Ok(front)
    }

    /// A reader over the next `count` bytes, with the same error.
    pub(crate) fn sub(&mut self, count: usize) -> Result<Reader<'a>, OfError> {
        Ok(Reader::new(self.bytes(count)?, self.error))
    }

    /// The same bytes with another error.
    pub(crate) fn with_error(&self, error: OfError) -> Reader<'a> {
        Reader::new(self.data, error)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<(), OfError> {
        self.bytes(count).map(|_| ())
    }

    /// Reads `count` bytes of padding that must be zero, else fails with `nonzero`.
    pub(crate) fn zeros(&mut self, count: usize, nonzero: OfError) -> Result<(), OfError> {
        match self.bytes(count)?.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(nonzero),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], OfError> {
        let (front, rest) = self.data.split_first_chunk::<N>().ok_or(self.error)?;
        self.data = rest;
        Ok(*front)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, OfError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, OfError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, OfError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, OfError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, OfError> {
        self.array().map(u128::from_be_bytes)
    }

    /// The next two bytes, without reading them.
    pub(crate) fn peek_u16(&self) -> Result<u16, OfError> {
        self.clone().u16()
    }
}

/// A fixed-length text field: the bytes before the first zero byte.
pub(crate) fn text_field(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().take_while(|byte| *byte != 0).collect()
}

/// Appends `text` cut to `width - 1` bytes and filled with zeros to `width`.
pub(crate) fn put_text_field(out: &mut Vec<u8>, text: &[u8], width: usize) {
    let start = out.len();
    out.extend(text.iter().copied().take(width.saturating_sub(1)));
    out.resize(start + width, 0);
}

/// Appends zeros until the bytes after `start` are a multiple of 8.
pub(crate) fn pad8(out: &mut Vec<u8>, start: usize) {
    let len = out.len() - start;
    out.resize(start + len.next_multiple_of(8), 0);
}

/// Stores `value` in the two bytes at `offset`, which the caller has written before.
pub(crate) fn patch_u16(out: &mut [u8], offset: usize, value: u16) {
    if let Some(place) = out.get_mut(offset..offset + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}
