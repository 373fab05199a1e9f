//! Cuts a byte stream into JSON texts.
//!
//! A text ends where its brackets outside strings are balanced; whether it is valid JSON is for
//! the parser to say. What makes reading costly, length and nesting, is limited here.

/// Deepest nesting of arrays and objects. It bounds the stack that recursive parsing, printing and
/// dropping of a text take.
pub const MAX_DEPTH: usize = 1000;

/// Bytes of buffer that are kept between texts.
const KEPT_CAPACITY: usize = 64 * 1024;

/// Why the bytes are no sequence of JSON texts. Offsets count from the start of the stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Something other than a text or white space between two texts.
    #[error("byte 0x{byte:02x} at offset {offset} begins no JSON object or array")]
    Garbage {
        /// Where it is.
        offset: u64,
        /// What is there.
        byte: u8,
    },
    /// A text is longer than allowed.
    #[error("JSON text at offset {offset} is longer than {limit} bytes")]
    TooLong {
        /// Where the text begins.
        offset: u64,
        /// Bytes allowed.
        limit: usize,
    },
    /// A text is nested deeper than [`MAX_DEPTH`].
    #[error("JSON at offset {offset} is nested deeper than {MAX_DEPTH} levels")]
    TooDeep {
        /// Where the bracket that is too much is.
        offset: u64,
    },
    /// A text is not UTF-8.
    #[error("invalid UTF-8 at offset {offset}")]
    Utf8 {
        /// Where the first invalid byte is.
        offset: u64,
    },
    /// The stream ended within a text.
    #[error("input ended within the JSON text that begins at offset {offset}")]
    Truncated {
        /// Where the text begins.
        offset: u64,
    },
}

/// Takes bytes as they come, gives out whole JSON texts. After an error the stream has no further
/// meaning.
#[derive(Debug)]
pub struct Framer {
    /// Bytes not given out yet, from the beginning of a text once `depth` is not 0.
    buffer: Vec<u8>,
    /// Bytes at the start of `buffer` that were given out.
    consumed: usize,
    /// Bytes at the start of `buffer` that were looked at.
    scanned: usize,
    /// Offset in the stream of the start of `buffer`.
    offset: u64,
    depth: usize,
    in_string: bool,
    escaped: bool,
    limit: usize,
}

impl Framer {
    /// A framer for texts of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            consumed: 0,
            scanned: 0,
            offset: 0,
            depth: 0,
            in_string: false,
            escaped: false,
            limit,
        }
    }

    /// Adds bytes that came from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.consumed);
        self.offset += self.consumed as u64;
        self.scanned -= self.consumed;
        self.consumed = 0;
        if self.buffer.is_empty() {
            // One long text must not cost its memory for ever.
            self.buffer.shrink_to(KEPT_CAPACITY);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole text, or `None` until more bytes come.
    pub fn next_text(&mut self) -> Result<Option<String>, FrameError> {
        let unscanned = self.buffer.get(self.scanned..).unwrap_or_default();
        for &byte in unscanned {
            let offset = self.offset + self.scanned as u64;
            self.scanned += 1;
            if self.depth == 0 {
                match byte {
                    b' ' | b'\t' | b'\r' | b'\n' => self.consumed = self.scanned,
                    b'{' | b'[' => self.depth = 1,
                    _ => return Err(FrameError::Garbage { offset, byte }),
                }
                continue;
            }
            if self.scanned - self.consumed > self.limit {
                let offset = self.offset + self.consumed as u64;
                return Err(FrameError::TooLong { offset, limit: self.limit });
            }
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' if self.depth == MAX_DEPTH => {
                    return Err(FrameError::TooDeep { offset });
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return self.take_text().map(Some);
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn take_text(&mut self) -> Result<String, FrameError> {
        let start = self.offset + self.consumed as u64;
        let text = self.buffer.get(self.consumed..self.scanned).unwrap_or_default().to_vec();
        self.consumed = self.scanned;
        String::from_utf8(text).map_err(|error| FrameError::Utf8 {
            offset: start + error.utf8_error().valid_up_to() as u64,
        })
    }

    /// Checks, when the stream has ended, that it did not end within a text.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.depth == 0 {
            Ok(())
        } else {
            Err(FrameError::Truncated { offset: self.offset + self.consumed as u64 })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type End = Result<(), FrameError>;

    /// Everything that comes out of `pieces`, and the end.
    fn frames(limit: usize, pieces: &[&[u8]]) -> (Vec<String>, End) {
        let mut framer = Framer::new(limit);
        let mut texts = Vec::new();
        for piece in pieces {
            framer.push(piece);
            loop {
                match framer.next_text() {
                    Ok(Some(text)) => texts.push(text),
                    Ok(None) => break,
                    Err(error) => return (texts, Err(error)),
                }
            }
        }
        (texts, framer.finish())
    }

    #[test]
    fn texts_and_errors() {
        let deep_enough = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let too_deep = format!("{{}}{}", "[".repeat(MAX_DEPTH + 1));
        let cases: &[(&[u8], &[&str], End)] = &[
            (b"", &[], Ok(())),
            (b" \t\r\n", &[], Ok(())),
            (b"{}[]", &["{}", "[]"], Ok(())),
            (b" {\"a\": [1]}\n[2] ", &["{\"a\": [1]}", "[2]"], Ok(())),
            (b"[\"}\\\"]\\\\\"]{}", &["[\"}\\\"]\\\\\"]", "{}"], Ok(())),
            (deep_enough.as_bytes(), &[&deep_enough], Ok(())),
            (
                too_deep.as_bytes(),
                &["{}"],
                Err(FrameError::TooDeep { offset: MAX_DEPTH as u64 + 2 }),
            ),
            (b"{}x", &["{}"], Err(FrameError::Garbage { offset: 2, byte: b'x' })),
            (b"{}}", &["{}"], Err(FrameError::Garbage { offset: 2, byte: b'}' })),
            (b"{} {\"a", &["{}"], Err(FrameError::Truncated { offset: 3 })),
            (b"[] [\"a\xff\"]", &["[]"], Err(FrameError::Utf8 { offset: 6 })),
        ];
        for (input, texts, end) in cases {
            let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(frames(usize::MAX, &[input]), (texts, end.clone()), "{input:?}");
        }
    }

    #[test]
    fn the_limit_is_per_text() {
        let fits = (vec!["[12345]".to_owned(); 3], Ok(()));
        assert_eq!(frames(7, &[b"[12345] [12345][12345]"]), fits);
        let error = Err(FrameError::TooLong { offset: 3, limit: 7 });
        assert_eq!(frames(7, &[b"[] [123456]"]), (vec!["[]".to_owned()], error));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            input in prop_oneof![
                r#"([\[\]{} "\\x]|\[\]|\{"[\[}\\"]*"\})*"#.prop_map(String::into_bytes),
                prop::collection::vec(any::<u8>(), 0..64),
            ],
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
            cuts.extend([0, input.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> =
                cuts.windows(2).map(|ends| &input[ends[0]..ends[1]]).collect();
            prop_assert_eq!(frames(24, &pieces), frames(24, &[&input]));
        }

        #[test]
        fn texts_come_back(texts in prop::collection::vec(r#"\[("[^"\\]{0,5}",)*1\]"#, 0..6)) {
            let (got, end) = frames(usize::MAX, &[texts.join(" ").as_bytes()]);
            prop_assert_eq!((got, end), (texts, Ok(())));
        }
    }
}
