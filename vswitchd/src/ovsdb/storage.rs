//! A database in a file.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use stream::error_text;
use tracing::{info, warn};

use super::database::{Changes, Database};
use super::datum::Datum;
use super::error::Error;
use super::lock_file::{LockError, LockFile};
use super::log_file::{Damage, LogFile, LogReader, encode};
use super::record;
use super::schema::DatabaseSchema;
use super::transaction::Transaction;

/// Least time between automatic compactions.
const MIN_COMPACTION_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Time after which the log is compacted if anything was written.
const MAX_COMPACTION_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// A log that is smaller is not compacted because it grew.
const MIN_GROWN_LENGTH: u64 = 10 * 1024 * 1024;
/// A log with fewer records is not compacted because it grew.
const MIN_GROWN_RECORDS: usize = 100;

/// Why a database file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Another process has it open.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The system refused.
    #[error("{path}: {operation} failed: {}", error_text(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It is not an OVSDB file, or its schema is damaged.
    #[error("{path}: no standalone OVSDB database: {damage}")]
    Format {
        /// The file.
        path: PathBuf,
        /// Where and why.
        damage: Damage,
    },
    /// Its schema is none.
    #[error("{path}: {source}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// What is wrong with the schema.
        source: Error,
    },
    /// It is another database.
    #[error("{path}: contains database {found}, expected {expected}")]
    Name {
        /// The file.
        path: PathBuf,
        /// The name in its schema.
        found: String,
        /// The name asked for.
        expected: String,
    },
    /// Its content does not fit the schema asked for.
    #[error("{path}: cannot convert to schema version {version}: {source}")]
    Convert {
        /// The file.
        path: PathBuf,
        /// The version of the schema asked for.
        version: String,
        /// What does not fit.
        source: Error,
    },
    /// It cannot be written.
    #[error("{0}")]
    Write(Error),
}

/// A compaction that runs beside the server.
#[derive(Debug)]
struct Compaction {
    thread: JoinHandle<Result<LogFile, StorageError>>,
    /// Records committed since it started.
    missed: Vec<u8>,
    missed_count: usize,
}

/// A database file that is open for writing.
#[derive(Debug)]
pub struct Storage {
    log: LogFile,
    /// Bytes of the log after the last compaction.
    base: u64,
    /// Records in the log besides the schema and the content that the last compaction wrote.
    records: usize,
    compaction: Option<Compaction>,
    compacted_at: Duration,
    sync: bool,
    _lock: LockFile,
}

impl Storage {
    /// Opens the database file `path`, or creates it. The database has the schema `schema`: a
    /// file with another version of it is converted. `now` is the time on the clock of the
    /// timers, `date` the time since the Unix epoch; `sync` says whether records are on the disk
    /// when [`Self::append`] returns.
    ///
    /// A damaged end of the file is reported in the log and cut off.
    ///
    /// # Errors
    /// See [`StorageError`].
    pub fn open(
        path: &Path,
        schema: DatabaseSchema,
        sync: bool,
        now: Duration,
        date: Duration,
    ) -> Result<(Self, Database), StorageError> {
        let path = resolve(path);
        let io_error =
            |operation, source| StorageError::Io { path: path.clone(), operation, source };
        let lock = LockFile::acquire(&path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o660)
            .open(&path)
            .map_err(|error| io_error("open", error))?;
        let copy = file.try_clone().map_err(|error| io_error("open", error))?;
        let mut reader = LogReader::new(copy).map_err(|error| io_error("read", error))?;
        let first =
            reader.read().map_err(|damage| StorageError::Format { path: path.clone(), damage })?;
        let (database, records) = match &first {
            None => (Database::new(schema.clone()), 0),
            Some(json) => {
                let found = DatabaseSchema::from_json(json)
                    .map_err(|source| StorageError::Schema { path: path.clone(), source })?;
                if found.name != schema.name {
                    return Err(StorageError::Name {
                        path,
                        found: found.name,
                        expected: schema.name,
                    });
                }
                read_records(&path, &mut reader, Database::new(found))
            }
        };
        let mut storage = Self {
            log: LogFile::new(file, &path, reader.offset(), sync),
            base: reader.offset(),
            records,
            compaction: None,
            compacted_at: now,
            sync,
            _lock: lock,
        };
        if first.is_none() {
            storage.log.append(&encode(&schema.to_json())).map_err(StorageError::Write)?;
            storage.log.sync_directory().map_err(|error| io_error("fsync of directory", error))?;
        } else if *database.schema() != schema {
            let database = storage.convert(&database, schema, date)?;
            return Ok((storage, database));
        } else {
            storage.log.cut().map_err(StorageError::Write)?;
        }
        Ok((storage, database))
    }

    /// Replaces the file by one with another version of its schema, and keeps a copy.
    fn convert(
        &mut self,
        old: &Database,
        schema: DatabaseSchema,
        date: Duration,
    ) -> Result<Database, StorageError> {
        let path = self.log.path().to_owned();
        let (from, to) = (&old.schema().version, schema.version.clone());
        let database = convert(old, schema).map_err(|source| StorageError::Convert {
            path: path.clone(),
            version: to.clone(),
            source,
        })?;
        let checksum = old.schema().checksum.split(' ').next().unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let backup = path.with_file_name(format!("{name}.backup{from}-{checksum}"));
        fs::copy(&path, &backup).map_err(|source| StorageError::Io {
            path: backup.clone(),
            operation: "copy",
            source,
        })?;
        info!(
            target: "ovsdb_file",
            "{}: converted database from schema version \"{from}\" to \"{to}\", kept the old one \
             as {}",
            path.display(),
            backup.display()
        );
        let comment = "converted to a new schema";
        let new = write_compacted(&path, &database, comment, date, self.sync)?;
        self.replace(new)?;
        Ok(database)
    }

    /// Appends the record of `changes` to `database`, if there is anything to record.
    ///
    /// # Errors
    /// An I/O error; the file is as before then.
    pub fn append(
        &mut self,
        database: &Database,
        changes: &Changes,
        date: Duration,
    ) -> Result<(), Error> {
        let Some(json) = record::to_json(database, changes, date) else { return Ok(()) };
        let record = encode(&json);
        self.log.append(&record)?;
        self.records += 1;
        if let Some(compaction) = &mut self.compaction {
            compaction.missed.extend_from_slice(&record);
            compaction.missed_count += 1;
        }
        Ok(())
    }

    /// Whether it is time to compact the file.
    pub fn should_compact(&self, now: Duration) -> bool {
        let since = now.saturating_sub(self.compacted_at);
        if self.compaction.is_some() || since < MIN_COMPACTION_INTERVAL {
            false
        } else if since < MAX_COMPACTION_INTERVAL {
            let length = self.log.length();
            self.records >= MIN_GROWN_RECORDS && length > MIN_GROWN_LENGTH && length / 2 > self.base
        } else {
            self.records > 0
        }
    }

    /// Starts to write `database`, which the file holds, into a new file, on a thread that calls
    /// `done` at its end; [`Self::finish_compaction`] must be called then. Does nothing if that
    /// is going on already.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start_compaction(
        &mut self,
        database: Database,
        now: Duration,
        date: Duration,
        done: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        if self.compaction.is_some() {
            return Ok(());
        }
        let path = self.log.path().to_owned();
        let sync = self.sync;
        let thread = thread::Builder::new().name("ovsdb_compact".into()).spawn(move || {
            let comment = "compacting database online";
            let result = write_compacted(&path, &database, comment, date, sync);
            done();
            result
        })?;
        self.compacted_at = now;
        self.compaction = Some(Compaction { thread, missed: Vec::new(), missed_count: 0 });
        Ok(())
    }

    /// Puts the new file in place of the old one once it is written, which this waits for.
    ///
    /// # Errors
    /// The file could not be written or put in place; the old one stays in use then.
    pub fn finish_compaction(&mut self) -> Result<(), StorageError> {
        let Some(Compaction { thread, missed, missed_count }) = self.compaction.take() else {
            return Ok(());
        };
        let mut new = match thread.join() {
            Ok(written) => written?,
            Err(_) => {
                let source = io::Error::other("the thread ended early");
                let path = self.log.path().to_owned();
                return Err(StorageError::Io { path, operation: "compaction", source });
            }
        };
        let base = new.length();
        new.append(&missed).map_err(StorageError::Write)?;
        self.replace(new)?;
        self.base = base;
        self.records = missed_count;
        Ok(())
    }

    fn replace(&mut self, mut new: LogFile) -> Result<(), StorageError> {
        let path = self.log.path().to_owned();
        new.rename(&path).map_err(|source| StorageError::Io {
            path,
            operation: "renaming the compacted file to it",
            source,
        })?;
        self.base = new.length();
        self.records = 0;
        self.log = new;
        Ok(())
    }
}

/// The file that `path` leads to, which is the one to lock and to replace. A relative name
/// becomes absolute, since the daemon changes its directory.
fn resolve(path: &Path) -> PathBuf {
    fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or(path.to_owned())
}

/// Applies the records after the schema, as far as they can be read.
fn read_records(path: &Path, reader: &mut LogReader, mut database: Database) -> (Database, usize) {
    let mut records = 0;
    let damage = loop {
        let offset = reader.offset();
        match reader.read() {
            Ok(None) => return (database, records),
            Err(damage) => break damage,
            Ok(Some(record)) => {
                if let Err(error) = replay(&record, &mut database) {
                    reader.unread(offset);
                    break Damage { offset, reason: error.to_string() };
                }
                records += 1;
            }
        }
    };
    warn!(
        target: "ovsdb_file",
        "{}: {damage}; ignoring the rest of the file", path.display()
    );
    (database, records)
}

fn replay(json: &Value, database: &mut Database) -> Result<(), Error> {
    let mut transaction = Transaction::new(database);
    record::replay(json, &mut transaction)?;
    let changes = transaction.prepare()?;
    database.apply(&changes);
    Ok(())
}

/// A new file beside `path` with the schema and the content of `database`.
fn write_compacted(
    path: &Path,
    database: &Database,
    comment: &str,
    date: Duration,
    sync: bool,
) -> Result<LogFile, StorageError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let path = path.with_file_name(format!("{name}.tmp"));
    let io_error = |operation, source| StorageError::Io { path: path.clone(), operation, source };
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io_error("removing an old temporary file", error));
        }
        _ => {}
    }
    let mut log = LogFile::create(&path, sync).map_err(|error| io_error("create", error))?;
    let mut records = encode(&database.schema().to_json());
    records.extend(encode(&record::database_to_json(database, comment, date)));
    log.append(&records).map_err(StorageError::Write)?;
    Ok(log)
}

/// The content of `old` in another version of its schema: what the new schema lacks goes, what
/// it adds gets its default.
fn convert(old: &Database, schema: DatabaseSchema) -> Result<Database, Error> {
    let mut new = Database::new(schema);
    let mut transaction = Transaction::new(&new);
    for table in old.tables() {
        let from = table.schema();
        let Some(index) = new.table_index(from.name()) else { continue };
        let to = new.table(index).schema();
        for (uuid, row) in table.rows() {
            let mut converted = new.table(index).default().clone();
            for (column, from_column) in from.own_columns() {
                let Some((to_index, to_column)) = to.column(&from_column.name) else { continue };
                let value = if from_column.column_type == to_column.column_type {
                    row[column].clone()
                } else {
                    Datum::from_json(&row[column].to_json(), &to_column.column_type, None)?
                };
                converted.set(to_index, value);
            }
            transaction.insert(index, uuid, converted);
        }
    }
    let changes = transaction.prepare()?;
    new.apply(&changes);
    Ok(new)
}

#[cfg(test)]
mod tests;
