//! The OpenFlow message header and the splitting of a byte stream into messages.

use bytes::BufMut;

use super::error::OfError;
use super::version::Version;
use super::wire::{Reader, patch_u16};

/// Bytes of the header that starts every message.
pub const HEADER_LEN: usize = 8;

/// The header that starts every message (OpenFlow 1.0, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Wire version number; [`Version::from_wire`] knows the supported ones.
    pub version: u8,
    /// Message type; what it means depends on the version.
    pub kind: u8,
    /// Bytes of the whole message, header included.
    pub length: u16,
    /// Transaction id, which a reply copies from its request.
    pub xid: u32,
}

impl Header {
    /// Reads the header at the front of `data`.
    ///
    /// # Errors
    /// `BadRequestLen` when `data` is shorter than a header.
    pub fn parse(data: &[u8]) -> Result<Header, OfError> {
        let mut reader = Reader::new(data, OfError::BadRequestLen);
        Ok(Header {
            version: reader.u8()?,
            kind: reader.u8()?,
            length: reader.u16()?,
            xid: reader.u32()?,
        })
    }
}

/// Starts a message whose length [`finish`] fills in.
pub(crate) fn start(version: Version, kind: u8, xid: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.put_u8(version as u8);
    out.put_u8(kind);
    out.put_u16(0);
    out.put_u32(xid);
    out
}

/// Stores the length of a message in its header. Encoders keep messages within 65,535 bytes; one
/// that is longer says 65,535, the greatest length there is, and is cut to it.
pub(crate) fn finish(mut message: Vec<u8>) -> Vec<u8> {
    message.truncate(usize::from(u16::MAX));
    let len = message.len() as u16;
    patch_u16(&mut message, 2, len);
    message
}

/// A header that claims fewer bytes than a header has: the stream cannot be followed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("received too-short ofp_header ({length} bytes)")]
pub struct BadLength {
    /// The claimed length of the whole message.
    pub length: u16,
}

/// Cuts a received byte stream into messages. It holds at most one incomplete message, that is
/// fewer than 65,535 bytes beyond what one call of [`Splitter::push`] adds.
#[derive(Debug, Default)]
pub struct Splitter {
    buffer: Vec<u8>,
    consumed: usize,
}

impl Splitter {
    /// Adds received bytes.
    pub fn push(&mut self, data: &[u8]) {
        self.buffer.drain(..self.consumed);
        self.consumed = 0;
        self.buffer.extend_from_slice(data);
    }

    /// The next complete message, `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`BadLength`] when the next header's length is below 8; the connection must be closed.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, BadLength> {
        let rest = self.buffer.get(self.consumed..).unwrap_or_default();
        let Ok(header) = Header::parse(rest) else { return Ok(None) };
        let length = usize::from(header.length);
        if length < HEADER_LEN {
            return Err(BadLength { length: header.length });
        }
        let message = rest.get(..length);
        if message.is_some() {
            self.consumed += length;
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(length: u16, xid: u32) -> Vec<u8> {
        let mut message = vec![4, 2];
        message.put_u16(length);
        message.put_u32(xid);
        message.resize(usize::from(length), 0xaa);
        message
    }

    proptest! {
        #[test]
        fn any_fragmentation_yields_the_same_messages(
            lengths in prop::collection::vec(8u16..300, 1..8),
            cuts in prop::collection::vec(1usize..64, 1..40),
        ) {
            let messages: Vec<Vec<u8>> =
                lengths.iter().zip(0..).map(|(length, xid)| message(*length, xid)).collect();
            let stream = messages.concat();
            let mut splitter = Splitter::default();
            let mut seen = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                let (chunk, tail) = rest.split_at((*cut).min(rest.len()));
                rest = tail;
                splitter.push(chunk);
                while let Some(found) = splitter.next_message().unwrap() {
                    seen.push(found.to_vec());
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(seen, messages);
        }
    }

    #[test]
    fn a_length_below_the_header_is_an_error() {
        let mut splitter = Splitter::default();
        splitter.push(&[1, 0, 0, 7, 0, 0, 0]);
        assert_eq!(splitter.next_message(), Ok(None));
        splitter.push(&[0]);
        assert_eq!(splitter.next_message(), Err(BadLength { length: 7 }));
    }
}
