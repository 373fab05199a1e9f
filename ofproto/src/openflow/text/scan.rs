//! Splitting a flow's text into words, and reading numbers.

use std::fmt;

use super::super::action::Subfield;
use super::super::field::Field;
use super::super::port::PortNo;
use super::Names;

/// What is wrong with a text and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Byte offset of the word.
    pub position: usize,
    /// The word.
    pub word: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at character {})", self.word, self.message, self.position + 1)
    }
}

impl std::error::Error for ParseError {}

/// A piece of a text that knows where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) position: usize,
}

impl<'a> Word<'a> {
    pub(super) fn new(text: &'a str) -> Word<'a> {
        Word { text, position: 0 }
    }

    pub(super) fn error(&self, message: impl Into<String>) -> ParseError {
        let (position, word) = (self.position, self.text.to_owned());
        ParseError { position, word, message: message.into() }
    }

    /// The part from byte `start` on.
    fn from(&self, start: usize) -> Word<'a> {
        let text = self.text.get(start..).unwrap_or_default();
        Word { text, position: self.position + start }
    }

    fn until(&self, end: usize) -> Word<'a> {
        Word { text: self.text.get(..end).unwrap_or(self.text), position: self.position }
    }

    /// The parts before and after the first `separator`.
    pub(super) fn split(&self, separator: &str) -> Option<(Word<'a>, Word<'a>)> {
        let at = self.text.find(separator)?;
        Some((self.until(at), self.from(at + separator.len())))
    }

    pub(super) fn trim(&self) -> Word<'a> {
        let start = self.text.len() - self.text.trim_start().len();
        let rest = self.from(start);
        rest.until(rest.text.trim_end().len())
    }

    /// A number in decimal, hexadecimal (`0x`) or octal (`0`) notation.
    pub(super) fn number<T: TryFrom<u128>>(&self) -> Result<T, ParseError> {
        let text = self.text.trim();
        let parsed = if let Some(digits) = strip_hex(text) {
            u128::from_str_radix(digits, 16)
        } else if text.len() > 1 && text.starts_with('0') {
            u128::from_str_radix(text, 8)
        } else {
            text.parse()
        };
        let number = parsed.map_err(|_| self.error("not a number"))?;
        T::try_from(number).map_err(|_| self.error("number out of range"))
    }

    pub(super) fn port(&self, names: &dyn Names) -> Result<PortNo, ParseError> {
        let text = self.text.trim();
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let named = names.port_by_name(quoted.unwrap_or(text));
        match text.parse::<PortNo>() {
            Ok(port) => Ok(port),
            Err(_) => named.ok_or_else(|| self.error("no such OpenFlow port")),
        }
    }

    pub(super) fn table(&self, names: &dyn Names) -> Result<u8, ParseError> {
        let text = self.text.trim();
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let named = names.table_by_name(quoted.unwrap_or(text));
        match text.parse::<u8>() {
            Ok(table) => Ok(table),
            Err(_) => named.ok_or_else(|| self.error("unknown table")),
        }
    }

    /// A field by its common name or that of an extensible-match header.
    pub(super) fn field(&self) -> Result<Field, ParseError> {
        let name = self.text.trim();
        Field::from_name(name)
            .or_else(|| Field::from_oxm_name(name))
            .ok_or_else(|| self.error("unknown field"))
    }

    /// Some bits of a field: `name`, `name[]`, `name[bit]` or `name[first..last]`.
    pub(super) fn subfield(&self) -> Result<Subfield, ParseError> {
        let Some((name, range)) = self.split("[") else {
            return self.field().map(Subfield::whole);
        };
        let whole = Subfield::whole(name.field()?);
        let end = range.text.trim_end();
        let Some(range) = end.strip_suffix(']').map(|end| range.until(end.len())) else {
            return Err(self.error("missing ] after the bits"));
        };
        if range.text.is_empty() {
            return Ok(whole);
        }
        let (first, last) = match range.split("..") {
            Some((first, last)) => (first.number::<u16>()?, last.number::<u16>()?),
            None => (range.number::<u16>()?, range.number::<u16>()?),
        };
        if first > last {
            return Err(self.error(format!("starting bit {first} is after ending bit {last}")));
        }
        if last >= whole.bits {
            let bits = whole.bits;
            return Err(self.error(format!("bit {last} is not among the field's {bits} bits")));
        }
        Ok(Subfield { offset: first, bits: last - first + 1, ..whole })
    }

    /// Bytes in hexadecimal with dots between.
    pub(super) fn dotted_hex(&self) -> Result<Vec<u8>, ParseError> {
        let digits: Vec<u8> = self.text.bytes().filter(|byte| *byte != b'.').collect();
        let pairs = digits.chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        });
        pairs.collect::<Option<Vec<u8>>>().ok_or_else(|| self.error("bad hexadecimal digits"))
    }
}

/// The digits of a hexadecimal number.
pub(super) fn strip_hex(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

/// A key with an argument, which is empty if there is none: `key`, `key=value`, `key:value` or
/// `key(value)`; for `key(value)->more` the argument is `value)->more`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) key: Word<'a>,
    pub(super) value: Word<'a>,
}

impl<'a> Pair<'a> {
    /// The value, which must not be empty.
    pub(super) fn required(&self) -> Result<Word<'a>, ParseError> {
        match self.value.text.is_empty() {
            true => Err(self.key.error("missing value")),
            false => Ok(self.value),
        }
    }
}

/// Walks over the pairs of a text, which commas and white space separate.
#[derive(Clone, Debug)]
pub(super) struct Pairs<'a> {
    rest: Word<'a>,
}

fn is_separator(character: char) -> bool {
    matches!(character, ',' | ' ' | '\t' | '\r' | '\n')
}

/// The length of the value at the front of `text`, which ends where `ends` holds outside of
/// parentheses.
fn value_len(text: &str, ends: impl Fn(char) -> bool) -> usize {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        if depth == 0 && ends(character) {
            return at;
        }
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' if depth > 0 => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

impl<'a> Pairs<'a> {
    pub(super) fn new(text: Word<'a>) -> Pairs<'a> {
        Pairs { rest: text }
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        let start = self.rest.text.find(|character| !is_separator(character))?;
        let text = self.rest.from(start);
        let ends_key = |c: char| is_separator(c) || matches!(c, ':' | '=' | '(');
        let key_len = text.text.find(ends_key).unwrap_or(text.text.len());
        let (key, rest) = (text.until(key_len), text.from(key_len));
        let Some(delimiter) = rest.text.chars().next().filter(|c| !is_separator(*c)) else {
            self.rest = rest;
            return Some(Pair { key, value: rest.until(0) });
        };
        let body = rest.from(1);
        let mut len = match delimiter {
            '(' => value_len(body.text, |c| c == ')'),
            _ => value_len(body.text, is_separator),
        };
        if delimiter == '(' && body.from(len).text.starts_with(")->") {
            len += 1 + value_len(body.from(len + 1).text, is_separator);
        }
        self.rest = body.from(len + body.from(len).text.chars().next().map_or(0, char::len_utf8));
        Some(Pair { key, value: body.until(len) })
    }
}
