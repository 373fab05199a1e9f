//! Reading text from the front.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Characters between attributes and between actions.
const DELIMITERS: &[char] = &[',', ' ', '\t', '\r', '\n'];

/// Why text is no flow or no action, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("syntax error at {}", .rest)]
pub struct SyntaxError {
    /// Bytes before the attribute or action that cannot be read.
    pub position: usize,
    /// The text from there on.
    pub rest: String,
    /// Whether all that is wrong is that the attribute says too much.
    pub is_too_long: bool,
}

/// A place in a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or("")
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// An error that names this place.
    pub(crate) fn error(&self) -> SyntaxError {
        SyntaxError { position: self.position, rest: self.rest().to_owned(), is_too_long: false }
    }

    pub(crate) fn skip(&mut self, bytes: usize) {
        self.position += bytes;
    }

    /// Skips `text` if it comes next.
    pub(crate) fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.position += text.len();
        }
        found
    }

    /// Skips `text`, which has to come next.
    pub(crate) fn need(&mut self, text: &str) -> Option<()> {
        self.eat(text).then_some(())
    }

    pub(crate) fn skip_delimiters(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start_matches(DELIMITERS).len();
    }

    /// Takes characters as long as `accept` does.
    pub(crate) fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = rest.find(|next| !accept(next)).map_or(rest, |end| &rest[..end]);
        self.position += taken.len();
        taken
    }

    /// A number of at most `bits` bits: hexadecimal with `0x`, octal with `0`, else decimal.
    pub(crate) fn number(&mut self, bits: u32) -> Option<u128> {
        let start = self.position;
        self.take_while(|next| next.is_ascii_whitespace());
        let radix = if self.eat("0x") || self.eat("0X") {
            16
        } else if self.rest().starts_with('0') {
            8
        } else {
            10
        };
        let digits = self.take_while(|next| next.is_digit(radix));
        let value = u128::from_str_radix(digits, radix).ok();
        let value = value.filter(|value| bits == 128 || value >> bits == 0);
        if value.is_none() {
            self.position = start;
        }
        value
    }

    /// A decimal number of at most `bits` bits.
    pub(crate) fn decimal(&mut self, bits: u32) -> Option<u128> {
        let digits = self.take_while(|next| next.is_ascii_digit());
        digits.parse().ok().filter(|value: &u128| value >> bits == 0)
    }

    /// A hexadecimal number of at most `bits` bits, with or without `0x`.
    pub(crate) fn hex(&mut self, bits: u32) -> Option<u128> {
        self.eat("0x");
        let digits = self.take_while(|next| next.is_ascii_hexdigit());
        let value = u128::from_str_radix(digits, 16).ok();
        value.filter(|value| bits == 128 || value >> bits == 0)
    }

    pub(crate) fn ipv4(&mut self) -> Option<u32> {
        let start = self.position;
        let text = self.take_while(|next| next.is_ascii_digit() || next == '.');
        let address = text.parse::<Ipv4Addr>().ok();
        if address.is_none() {
            self.position = start;
        }
        address.map(Ipv4Addr::to_bits)
    }

    pub(crate) fn ipv6(&mut self) -> Option<u128> {
        let start = self.position;
        let text = self.take_while(|next| next.is_ascii_hexdigit() || matches!(next, ':' | '.'));
        let address = text.parse::<Ipv6Addr>().ok();
        if address.is_none() {
            self.position = start;
        }
        address.map(Ipv6Addr::to_bits)
    }

    pub(crate) fn mac(&mut self) -> Option<u64> {
        let mut address = 0;
        for index in 0..6 {
            if index > 0 {
                self.need(":")?;
            }
            let byte = self.take_while(|next| next.is_ascii_hexdigit());
            address = address << 8 | u64::from(u8::from_str_radix(byte, 16).ok()?);
        }
        Some(address)
    }

    /// `length` bytes as a number, big-endian; hexadecimal digits may be as many as the bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Option<Vec<u8>> {
        if self.eat("0x") || self.eat("0X") {
            let digits = self.take_while(|next| next.is_ascii_hexdigit());
            let digits = digits.trim_start_matches('0');
            let padding = (2 * length).checked_sub(digits.len())?;
            return from_hex(&format!("{}{digits}", "0".repeat(padding)));
        }
        let value = self.number(64)?.to_be_bytes();
        let zeros = length.saturating_sub(value.len());
        let value = value.split_at_checked(value.len().saturating_sub(length))?;
        if value.0.iter().any(|byte| *byte != 0) {
            return None;
        }
        Some([&vec![0; zeros], value.1].concat())
    }
}

/// Bytes from pairs of hexadecimal digits.
pub(crate) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
