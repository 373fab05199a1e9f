//! Capture files in the classic pcap format with Ethernet frames
//! (draft-ietf-opsawg-pcap, "PCAP Capture File Format").

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION: (u16, u16) = (2, 4);
const LINKTYPE_ETHERNET: u32 = 1;
/// Longest frame that a file may hold.
const SNAPSHOT_LENGTH: u32 = 262_144;

/// Why a capture file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The file could not be opened.
    #[error("{}: could not open capture file ({source})", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A frame could not be written.
    #[error("{}: could not write frame ({source})", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The file could not be read.
    #[error("{}: could not read at offset {offset} ({source})", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Bytes from the start of the file.
        offset: u64,
        /// Cause.
        source: io::Error,
    },
    /// The file ends inside a header or a frame.
    #[error("{}: cut short at offset {offset}: {found} bytes of {wanted}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where the header or the frame starts, in bytes from the start of the file.
        offset: u64,
        /// Its bytes in the file.
        found: usize,
        /// Its whole length.
        wanted: usize,
    },
    /// The file is no capture file.
    #[error(
        "{}: magic number {magic:#010x} is not that of a pcap file (0xa1b2c3d4 or 0xa1b23c4d)",
        path.display()
    )]
    Magic {
        /// The file.
        path: PathBuf,
        /// Its first four bytes, little-endian.
        magic: u32,
    },
    /// The file holds frames of another kind of link.
    #[error("{}: link type {link_type} is not supported (only 1, Ethernet)", path.display())]
    LinkType {
        /// The file.
        path: PathBuf,
        /// Its link type.
        link_type: u32,
    },
    /// A frame claims an absurd length.
    #[error("{}: frame of {length} bytes at offset {offset} (at most 262144)", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Where its header starts, in bytes from the start of the file.
        offset: u64,
        /// The length it claims.
        length: u32,
    },
}

/// Appends frames to a capture file. Each frame is in the file when [`write`](Self::write)
/// returns.
#[derive(Debug)]
pub struct PcapWriter {
    path: PathBuf,
    file: File,
}

impl PcapWriter {
    /// Opens `path` to append to it, and starts it with a file header if it is empty.
    ///
    /// # Errors
    /// When the file cannot be opened or its header not be written.
    pub fn append(path: &Path) -> Result<Self, PcapError> {
        let open = || {
            let mut file = OpenOptions::new().append(true).create(true).open(path)?;
            if file.metadata()?.len() == 0 {
                file.write_all(&file_header())?;
            }
            Ok(file)
        };
        let file = open().map_err(|source| PcapError::Open { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Appends `frame`, stamped with the time of day.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, frame: &[u8]) -> Result<(), PcapError> {
        let now = clock::wall();
        let seconds = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let mut record = Vec::with_capacity(RECORD_HEADER_LENGTH + frame.len());
        for word in [seconds, now.subsec_micros(), length, length] {
            record.extend(word.to_ne_bytes());
        }
        record.extend(frame);
        self.file
            .write_all(&record)
            .map_err(|source| PcapError::Write { path: self.path.clone(), source })
    }
}

fn file_header() -> Vec<u8> {
    let (major, minor) = VERSION;
    let mut header = MAGIC_MICROSECONDS.to_ne_bytes().to_vec();
    header.extend(major.to_ne_bytes());
    header.extend(minor.to_ne_bytes());
    // Two reserved words come first.
    for word in [0, 0, SNAPSHOT_LENGTH, LINKTYPE_ETHERNET] {
        header.extend(u32::to_ne_bytes(word));
    }
    header
}

const FILE_HEADER_WORDS: usize = 6;
const RECORD_HEADER_WORDS: usize = 4;
const RECORD_HEADER_LENGTH: usize = RECORD_HEADER_WORDS * 4;

/// A frame out of a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// When it was captured, since the Unix epoch.
    pub time: Duration,
    /// Its bytes, as many as were captured.
    pub bytes: Vec<u8>,
    /// Its length on the wire.
    pub original_length: u32,
}

/// Reads the frames of a capture file of either byte order, in micro- or nanoseconds. After an
/// error the iteration ends.
#[derive(Debug)]
pub struct PcapReader {
    path: PathBuf,
    file: BufReader<File>,
    offset: u64,
    is_swapped: bool,
    is_nanoseconds: bool,
    is_done: bool,
}

impl PcapReader {
    /// Opens `path` and reads its file header.
    ///
    /// # Errors
    /// When the file cannot be read or is no capture of Ethernet frames.
    pub fn open(path: &Path) -> Result<Self, PcapError> {
        let file =
            File::open(path).map_err(|source| PcapError::Open { path: path.to_owned(), source })?;
        let mut reader = Self {
            path: path.to_owned(),
            file: BufReader::new(file),
            offset: 0,
            is_swapped: false,
            is_nanoseconds: false,
            is_done: false,
        };
        let Some([magic, _, _, _, _, link_type]) = reader.words::<FILE_HEADER_WORDS>()? else {
            return Err(PcapError::Truncated {
                path: path.to_owned(),
                offset: 0,
                found: 0,
                wanted: FILE_HEADER_WORDS * 4,
            });
        };
        (reader.is_swapped, reader.is_nanoseconds) = match magic {
            MAGIC_MICROSECONDS => (false, false),
            MAGIC_NANOSECONDS => (false, true),
            _ => match magic.swap_bytes() {
                MAGIC_MICROSECONDS => (true, false),
                MAGIC_NANOSECONDS => (true, true),
                _ => return Err(PcapError::Magic { path: path.to_owned(), magic }),
            },
        };
        // The upper bits tell of frame check sequences.
        let link_type = reader.in_order(link_type) & 0xffff;
        if link_type != LINKTYPE_ETHERNET {
            return Err(PcapError::LinkType { path: path.to_owned(), link_type });
        }
        Ok(reader)
    }

    fn frame(&mut self) -> Result<Option<CapturedFrame>, PcapError> {
        let offset = self.offset;
        let Some(words) = self.words::<RECORD_HEADER_WORDS>()? else {
            return Ok(None);
        };
        let [seconds, fraction, length, original_length] = words.map(|word| self.in_order(word));
        if length > SNAPSHOT_LENGTH {
            return Err(PcapError::Length { path: self.path.clone(), offset, length });
        }
        let fraction = if self.is_nanoseconds {
            Duration::from_nanos(fraction.into())
        } else {
            Duration::from_micros(fraction.into())
        };
        let mut bytes = vec![0; length as usize];
        let start = self.offset;
        let found = self.fill(&mut bytes)?;
        if found < bytes.len() {
            return Err(self.truncated(start, found, bytes.len()));
        }
        let time = Duration::from_secs(seconds.into()).saturating_add(fraction);
        Ok(Some(CapturedFrame { time, bytes, original_length }))
    }

    /// The next `N` little-endian words, or none at the end of the file.
    fn words<const N: usize>(&mut self) -> Result<Option<[u32; N]>, PcapError> {
        let offset = self.offset;
        let mut bytes = vec![0; N * 4];
        let found = self.fill(&mut bytes)?;
        if found == 0 {
            return Ok(None);
        }
        if found < bytes.len() {
            return Err(self.truncated(offset, found, bytes.len()));
        }
        let mut words = [0; N];
        let (chunks, _) = bytes.as_chunks();
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u32::from_le_bytes(*chunk);
        }
        Ok(Some(words))
    }

    /// Reads until `bytes` is full or the file ends.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, PcapError> {
        let mut found = 0;
        while let Some(rest) = bytes.get_mut(found..).filter(|rest| !rest.is_empty()) {
            match self.file.read(rest) {
                Ok(0) => break,
                Ok(n) => {
                    found += n;
                    self.offset += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let (path, offset) = (self.path.clone(), self.offset);
                    return Err(PcapError::Read { path, offset, source });
                }
            }
        }
        Ok(found)
    }

    fn in_order(&self, word: u32) -> u32 {
        if self.is_swapped { word.swap_bytes() } else { word }
    }

    fn truncated(&self, offset: u64, found: usize, wanted: usize) -> PcapError {
        PcapError::Truncated { path: self.path.clone(), offset, found, wanted }
    }
}

impl Iterator for PcapReader {
    type Item = Result<CapturedFrame, PcapError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let frame = self.frame().transpose();
        self.is_done = !matches!(frame, Some(Ok(_)));
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(path: &Path) -> Result<Vec<CapturedFrame>, PcapError> {
        PcapReader::open(path)?.collect()
    }

    fn words(big_endian: bool, words: &[u32]) -> Vec<u8> {
        let word = |word: &u32| if big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
        words.iter().flat_map(word).collect()
    }

    #[test]
    fn appends_to_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p1.pcap");
        let frames = [vec![1; 60], vec![], vec![2; 70_000]];
        for frame in &frames {
            PcapWriter::append(&path).unwrap().write(frame).unwrap();
        }
        let found = read(&path).unwrap();
        let bytes: Vec<_> = found.iter().map(|frame| frame.bytes.clone()).collect();
        assert_eq!(bytes, frames);
        assert_eq!(found.iter().map(|f| f.original_length).collect::<Vec<_>>(), [60, 0, 70_000]);
        let length = std::fs::metadata(&path).unwrap().len();
        assert_eq!(length, 24 + 3 * 16 + 60 + 70_000);
    }

    #[test]
    fn reads_either_byte_order_and_resolution() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for big_endian in [false, true] {
            for (magic, nanoseconds) in [(0xa1b2_c3d4, 5000), (0xa1b2_3c4d, 5)] {
                let mut bytes = words(big_endian, &[magic, 0, 0, 0, 65535, 0xf000_0001]);
                bytes.extend(words(big_endian, &[7, 5, 3, 100]));
                bytes.extend([1, 2, 3]);
                std::fs::write(file.path(), &bytes).unwrap();
                let expected = CapturedFrame {
                    time: Duration::new(7, nanoseconds),
                    bytes: vec![1, 2, 3],
                    original_length: 100,
                };
                assert_eq!(read(file.path()).unwrap(), [expected]);
            }
        }
    }

    #[test]
    fn says_where_a_file_is_bad() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display();
        let header = words(false, &[MAGIC_MICROSECONDS, 0, 0, 0, 65535, 1]);
        let with = |rest: &[u8]| [&header, rest].concat();
        for (bytes, message) in [
            (vec![], format!("{path}: cut short at offset 0: 0 bytes of 24")),
            (vec![0xd4], format!("{path}: cut short at offset 0: 1 bytes of 24")),
            (
                vec![0; 24],
                format!(
                    "{path}: magic number 0x00000000 is not that of a pcap file (0xa1b2c3d4 or \
                     0xa1b23c4d)"
                ),
            ),
            (
                words(false, &[MAGIC_MICROSECONDS, 0, 0, 0, 0, 113]),
                format!("{path}: link type 113 is not supported (only 1, Ethernet)"),
            ),
            (with(&[0; 15]), format!("{path}: cut short at offset 24: 15 bytes of 16")),
            (
                with(&words(false, &[0, 0, 4, 4, 9, 9])[..19]),
                format!("{path}: cut short at offset 40: 3 bytes of 4"),
            ),
            (
                with(&words(false, &[0, 0, 262_145, 0])),
                format!("{path}: frame of 262145 bytes at offset 24 (at most 262144)"),
            ),
        ] {
            std::fs::write(file.path(), &bytes).unwrap();
            assert_eq!(read(file.path()).unwrap_err().to_string(), message);
        }
        let missing = Path::new("/nonexistent/p1.pcap");
        let message = "/nonexistent/p1.pcap: could not open capture file (No such file or directory (os error 2))";
        assert_eq!(PcapReader::open(missing).unwrap_err().to_string(), message);
        assert_eq!(PcapWriter::append(missing).unwrap_err().to_string(), message);
    }

    #[test]
    fn ends_after_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes = words(false, &[MAGIC_MICROSECONDS, 0, 0, 0, 65535, 1, 0, 0, 8, 8]);
        std::fs::write(file.path(), bytes).unwrap();
        let mut reader = PcapReader::open(file.path()).unwrap();
        assert!(matches!(reader.next(), Some(Err(PcapError::Truncated { offset: 40, .. }))));
        assert!(reader.next().is_none());
    }

    proptest! {
        #[test]
        fn every_cut_yields_the_frames_before_it(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut writer = PcapWriter::append(file.path()).unwrap();
            let mut ends = vec![24];
            for frame in &frames {
                writer.write(frame).unwrap();
                ends.push(ends.last().unwrap() + 16 + frame.len());
            }
            let mut bytes = std::fs::read(file.path()).unwrap();
            prop_assert_eq!(bytes.len(), *ends.last().unwrap());
            bytes.truncate(cut.index(bytes.len() + 1));
            std::fs::write(file.path(), &bytes).unwrap();
            if bytes.len() < 24 {
                prop_assert!(PcapReader::open(file.path()).is_err());
            } else {
                let whole = ends.iter().filter(|end| **end <= bytes.len()).count() - 1;
                let found: Vec<_> = PcapReader::open(file.path()).unwrap().collect();
                let good: Vec<_> =
                    found.iter().flatten().map(|frame| frame.bytes.clone()).collect();
                prop_assert_eq!(&good, &frames[..whole]);
                prop_assert_eq!(found.len() > whole, !ends.contains(&bytes.len()));
            }
        }
    }
}
