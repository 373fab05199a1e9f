//! The file format of standalone OVSDB databases (ovsdb(5), `File Formats`): a sequence of
//! records, each a header line with length and SHA-1 and a line of JSON.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha1::{Digest, Sha1};
use stream::error_text;
use tracing::warn;

use super::error::{Error, ErrorKind};

/// The longest header line that is read.
const MAX_HEADER: u64 = 128;
const MAGIC: &str = "OVSDB JSON ";

/// A place from which on a log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record at offset {offset}: {reason}")]
pub struct Damage {
    /// Bytes before the record that is damaged.
    pub offset: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// The header of a record: the length of the JSON line and its hash.
fn parse_header(line: &str) -> Option<(u64, &str)> {
    let (length, hash) = line.strip_prefix(MAGIC)?.strip_suffix('\n')?.split_once(' ')?;
    let length = length.parse().ok().filter(|length| *length > 0)?;
    (hash.len() == 40).then_some((length, hash))
}

fn hash(bytes: &[u8]) -> String {
    Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A record as it is in the file.
pub fn encode(json: &Value) -> Vec<u8> {
    let body = format!("{json}\n");
    format!("{MAGIC}{} {}\n{body}", body.len(), hash(body.as_bytes())).into_bytes()
}

/// Reads the records of a log one by one.
pub struct LogReader {
    reader: BufReader<File>,
    /// Where the next record starts.
    offset: u64,
    length: u64,
}

impl LogReader {
    /// Reads from the start of `file`.
    ///
    /// # Errors
    /// The system refused.
    pub fn new(mut file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(0))?;
        Ok(Self { reader: BufReader::new(file), offset: 0, length })
    }

    /// Where the next record starts.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Makes the log end at `offset`, before a record that was read but makes no sense.
    pub fn unread(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// The next record; `None` at the end of the file.
    ///
    /// # Errors
    /// What is there is no whole record. Nothing more can be read then.
    pub fn read(&mut self) -> Result<Option<Value>, Damage> {
        let damage = |reason: String| Damage { offset: self.offset, reason };
        let read_error = |error: io::Error| damage(format!("read failed: {}", error_text(&error)));
        let mut header = Vec::new();
        self.reader.by_ref().take(MAX_HEADER).read_until(b'\n', &mut header).map_err(read_error)?;
        if header.is_empty() {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&header);
        let (length, expected) = parse_header(&line)
            .ok_or_else(|| damage(format!("\"{}\" is no header line", line.trim_end())))?;
        let start = self.offset + header.len() as u64;
        let left = self.length.saturating_sub(start);
        if length > left {
            return Err(damage(format!("{length} bytes of data announced, {left} are there")));
        }
        let mut body = Vec::new();
        self.reader.by_ref().take(length).read_to_end(&mut body).map_err(read_error)?;
        let actual = hash(&body);
        if actual != expected {
            return Err(damage(format!("data has SHA-1 {actual}, should have {expected}")));
        }
        let json: Value = serde_json::from_slice(&body)
            .map_err(|error| damage(format!("data is not valid JSON ({error})")))?;
        if !json.is_object() {
            return Err(damage("data is not a JSON object".into()));
        }
        self.offset = start + length;
        Ok(Some(json))
    }
}

/// A log that records are appended to.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    path: PathBuf,
    /// Bytes of whole records; what may be behind them is not part of the log.
    length: u64,
    /// Whether there may be something behind the whole records.
    torn: bool,
    sync: bool,
}

impl LogFile {
    /// Appends to `file`, whose records end at `length`. `sync` says whether each record is on
    /// the disk when [`Self::append`] returns.
    pub fn new(file: File, path: &Path, length: u64, sync: bool) -> Self {
        Self { file, path: path.to_owned(), length, torn: true, sync }
    }

    /// Starts a log in a new file.
    ///
    /// # Errors
    /// The file exists or cannot be created.
    pub fn create(path: &Path, sync: bool) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o660).open(path)?;
        Ok(Self { file, path: path.to_owned(), length: 0, torn: false, sync })
    }

    /// Bytes of all records.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends records. The file is as before if this fails.
    ///
    /// # Errors
    /// An I/O error that names the file and the cause.
    pub fn append(&mut self, records: &[u8]) -> Result<(), Error> {
        self.cut()?;
        let written = self
            .file
            .write_all_at(records, self.length)
            .map_err(|error| self.io_error("write", &error))
            .and_then(|()| self.sync());
        if let Err(error) = written {
            warn!(target: "ovsdb_log", limited = true, "{}", error.details);
            self.torn = self.file.set_len(self.length).is_err();
            return Err(error);
        }
        self.length += records.len() as u64;
        Ok(())
    }

    /// Takes it that there is nothing behind the records.
    #[cfg(test)]
    pub(super) fn assume_whole(&mut self) {
        self.torn = false;
    }

    /// Cuts off what is behind the whole records.
    ///
    /// # Errors
    /// An I/O error that names the file and the cause.
    pub fn cut(&mut self) -> Result<(), Error> {
        if self.torn {
            self.file
                .set_len(self.length)
                .map_err(|error| self.io_error("cutting off a torn record", &error))?;
            self.torn = false;
        }
        Ok(())
    }

    /// Waits until everything is on the disk, if this log does that.
    fn sync(&self) -> Result<(), Error> {
        if !self.sync {
            return Ok(());
        }
        self.file.sync_data().map_err(|error| self.io_error("fsync", &error))
    }

    fn io_error(&self, what: &str, error: &io::Error) -> Error {
        let problem = format!("{}: {what} failed: {}", self.path.display(), error_text(error));
        Error::new(ErrorKind::Io, problem)
    }

    /// Renames the file to `path`, in place of what is there, so that it stays there when the
    /// system fails.
    ///
    /// # Errors
    /// The system refused.
    pub fn rename(&mut self, path: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, path)?;
        self.path = path.to_owned();
        self.sync_directory()
    }

    /// Makes the name of the file survive a failure of the system, if this log does that.
    ///
    /// # Errors
    /// The system refused.
    pub fn sync_directory(&self) -> io::Result<()> {
        if !self.sync {
            return Ok(());
        }
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}
