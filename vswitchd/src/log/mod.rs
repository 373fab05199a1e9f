//! The log: lines in the format of Open vSwitch, to standard error, a file and syslog.
//!
//! The crates of the switch log through [`tracing`]'s macros, with the name of a [`Module`] as
//! the target and one formatted text. The field `limited = true` makes the place that logs subject
//! to a limit of one message a minute with bursts of five.
//!
//! [`Log`] is the handle through which the daemon sets all this up and operators change it:
//!
//! ```no_run
//! use vswitchd::log::{Log, SyslogMethod};
//!
//! let log = Log::new("sluice-vswitchd", SyslogMethod::Libc)?;
//! log.install()?;
//! log.apply(&"console:vconn:dbg".parse()?);
//! tracing::debug!(target: "vconn", "unix:br0.mgmt: connected");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod destination;
mod layer;
mod level;
mod module;
mod pattern;
mod rate_limit;
mod spec;
mod syslog;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use netdev::clock;
use thiserror::Error;
use tracing::callsite;
use tracing::subscriber::SetGlobalDefaultError;
use tracing::{info, warn};
use tracing_subscriber::layer::SubscriberExt;

use crate::errno;

pub use destination::Destination;
pub use level::Level;
pub use module::Module;
pub use spec::{Spec, SpecError};
pub use syslog::{Facility, SyslogError, SyslogMethod, UdpTarget};

use destination::{LogFile, PerDestination, write_console};
use pattern::{Pattern, Record};
use rate_limit::{RateLimit, Verdict};
use syslog::Syslog;

const CONSOLE_PATTERN: &str = "%D{%Y-%m-%dT%H:%M:%SZ}|%05N|%c%T|%p|%m";
const FILE_PATTERN: &str = "%D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m";
const SYSLOG_PATTERN: &str = "ovs|%05N|%c%T|%p|%m";
/// What `syslog(3)` writes between the priority and the message.
const SYSLOG_HEADER: &str = "%d{%h %e %T} %A: ";
/// A whole message of RFC 5424.
const SYSLOG_TARGET_PATTERN: &str = "<%B>1 %D{%Y-%m-%dT%H:%M:%S.###Z} %E %A %P %c - \u{feff}%m";

thread_local! {
    /// Messages logged by this thread so far.
    static MESSAGES: Cell<u32> = const { Cell::new(0) };
}

/// Why the log file cannot be opened (again).
#[derive(Debug, Error)]
pub enum LogFileError {
    /// There is none.
    #[error("Logging to file not configured")]
    NotConfigured,
    /// The system refuses.
    #[error("failed to open {path} for logging: {reason}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

/// Handle on the log. Clones share it.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    program: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Indexed by [`Module::index`].
    modules: Vec<Settings>,
    patterns: PerDestination<Pattern>,
    header: Pattern,
    target: Pattern,
    facility: Facility,
    file: LogFile,
    syslog: Syslog,
    rate_limits: HashMap<callsite::Identifier, RateLimit>,
}

/// Settings of one module.
#[derive(Clone, Copy, Debug)]
struct Settings {
    levels: PerDestination<Level>,
    limited: bool,
}

impl Log {
    /// A log for the program of that name: everything from [`Level::Info`] on goes to standard
    /// error and to syslog by `method`; there is no file yet.
    ///
    /// # Errors
    /// [`SyslogError::Unreachable`] when `method` names a host without an address.
    pub fn new(program: &str, method: SyslogMethod) -> Result<Self, SyslogError> {
        let levels =
            PerDestination { syslog: Level::Info, console: Level::Info, file: Level::Info };
        let state = State {
            modules: vec![Settings { levels, limited: true }; Module::COUNT],
            patterns: PerDestination {
                syslog: Pattern::new(SYSLOG_PATTERN),
                console: Pattern::new(CONSOLE_PATTERN),
                file: Pattern::new(FILE_PATTERN),
            },
            header: Pattern::new(SYSLOG_HEADER),
            target: Pattern::new(SYSLOG_TARGET_PATTERN),
            facility: Facility::UNSET,
            file: LogFile::default(),
            syslog: Syslog::new(method)?,
            rate_limits: HashMap::new(),
        };
        Ok(Self(Arc::new(Shared { program: program.to_owned(), state: Mutex::new(state) })))
    }

    /// Name of the program whose log it is.
    pub fn program(&self) -> &str {
        &self.0.program
    }

    /// Makes this the log of the whole process.
    ///
    /// # Errors
    /// When the process has one already.
    pub fn install(&self) -> Result<(), SetGlobalDefaultError> {
        let subscriber = tracing_subscriber::registry().with(self.clone());
        tracing::subscriber::set_global_default(subscriber)
    }

    /// Sends a copy of every message that syslog gets to `target`, in the format of RFC 5424.
    ///
    /// # Errors
    /// [`SyslogError::Unreachable`] when `target` has no address.
    pub fn add_syslog_target(&self, target: &UdpTarget) -> Result<(), SyslogError> {
        self.state().syslog.set_target(target)?;
        warn!(target: "vlog", "--syslog-target flag is deprecated, use --syslog-method instead");
        Ok(())
    }

    /// Changes levels, a pattern or the facility.
    pub fn apply(&self, spec: &Spec) {
        let each = |destination: &Option<Destination>| match destination {
            Some(destination) => vec![*destination],
            None => Destination::ALL.to_vec(),
        };
        let mut state = self.state();
        match spec {
            Spec::Level { module, destination, level } => {
                for settings in state.settings_mut(*module) {
                    for destination in each(destination) {
                        *settings.levels.get_mut(destination) = *level;
                    }
                }
            }
            Spec::Pattern { destination, pattern } => {
                for destination in each(destination) {
                    *state.patterns.get_mut(destination) = Pattern::new(pattern);
                }
            }
            Spec::Facility(facility) => state.facility = *facility,
        }
        drop(state);
        callsite::rebuild_interest_cache();
    }

    /// Turns the rate limit of a module, or of all when `None`, on or off.
    pub fn limit_rate(&self, module: Option<Module>, on: bool) {
        for settings in self.state().settings_mut(module) {
            settings.limited = on;
        }
    }

    /// The levels of every module, as `vlog/list` shows them.
    pub fn levels(&self) -> String {
        let state = self.state();
        let mut text = String::from(
            "                 console    syslog    file\n\
             \x20                -------    ------    ------\n",
        );
        for (module, settings) in Module::all().zip(&state.modules) {
            let PerDestination { syslog, console, file } = settings.levels;
            let note = if settings.limited { "" } else { "    (rate limiting disabled)" };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{:<16}  {:>4}       {:>4}       {:>4}{note}",
                module.name(),
                console.name(),
                syslog.name(),
                file.name()
            );
        }
        text
    }

    /// The pattern of every destination, as `vlog/list-pattern` shows them.
    pub fn patterns(&self) -> String {
        let state = self.state();
        let mut text = String::from(
            "         prefix                            format\n\
             \x20        ------                            ------\n",
        );
        for destination in Destination::ALL {
            let prefix = match destination {
                Destination::Syslog => state.syslog.prefix(),
                Destination::Console | Destination::File => "none",
            };
            let pattern = state.patterns.get(destination).text();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:<7}  {prefix:<32}  {pattern}", destination.name());
        }
        text
    }

    /// Name of the log file, open or closed.
    pub fn file(&self) -> Option<PathBuf> {
        self.state().file.path().map(Path::to_owned)
    }

    /// Logs to the file at `path` from now on, appending to what it holds. Nothing happens if
    /// that file is open already.
    ///
    /// # Errors
    /// [`LogFileError::Open`], which is logged too; the former file stays in use.
    pub fn open_file(&self, path: &Path) -> Result<(), LogFileError> {
        let file = LogFile::open(path).map_err(|error| {
            let error = LogFileError::Open { path: path.to_owned(), reason: errno::text(&error) };
            warn!(target: "vlog", "{error}");
            error
        })?;
        let state = self.state();
        if state.file.is_same(&file) {
            return Ok(());
        }
        let replaces = state.file.is_open();
        drop(state);
        if replaces {
            info!(target: "vlog", "closing log file");
        }
        self.state().file = file;
        callsite::rebuild_interest_cache();
        info!(target: "vlog", "opened log file {}", path.display());
        Ok(())
    }

    /// Opens the log file again under its name, after a rotation or [`Self::close`].
    ///
    /// # Errors
    /// [`LogFileError`]
    pub fn reopen(&self) -> Result<(), LogFileError> {
        self.open_file(&self.file().ok_or(LogFileError::NotConfigured)?)
    }

    /// Closes the log file, if any, until [`Self::reopen`].
    pub fn close(&self) {
        self.state().file.close();
        callsite::rebuild_interest_cache();
    }

    /// Stops logging to standard error: the daemon has left its terminal.
    pub fn close_console(&self) {
        self.apply(&Spec::Level {
            module: None,
            destination: Some(Destination::Console),
            level: Level::Off,
        });
    }

    /// Says why the process cannot go on: at level [`Level::Emergency`] in the log file and
    /// syslog, and after the program's name on standard error, whatever its level.
    /// `target` names the module, as in an event.
    pub fn fatal(&self, target: &str, message: &str) {
        if let Some(module) = Module::of_target(target) {
            self.apply(&Spec::Level {
                module: Some(module),
                destination: Some(Destination::Console),
                level: Level::Off,
            });
            self.write(module, Level::Emergency, message);
        }
        write_console(&format!("{}: {message}", self.0.program));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not silence the log; no change of the state is made in parts.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_enabled(&self, module: Module, level: Level) -> bool {
        self.state().wants(module, level) != PerDestination::default()
    }

    /// The least severe level that any destination takes.
    fn most_verbose_level(&self) -> Level {
        let state = self.state();
        let levels = |settings: &Settings| {
            let PerDestination { syslog, console, file } = settings.levels;
            syslog.max(console).max(if state.file.is_open() { file } else { Level::Off })
        };
        state.modules.iter().map(levels).max().unwrap_or(Level::Off)
    }

    /// What the rate limit of a place in the code says about a message.
    fn admit(&self, module: Module, place: callsite::Identifier) -> Verdict {
        let now = clock::now();
        let mut state = self.state();
        if !state.modules.get(module.index()).is_some_and(|settings| settings.limited) {
            return Verdict::Pass;
        }
        state.rate_limits.entry(place).or_insert_with(|| RateLimit::new(now)).admit(now)
    }

    /// Writes a message to every destination that takes it.
    fn write(&self, module: Module, level: Level, message: &str) {
        let current = thread::current();
        let mut state = self.state();
        let wants = state.wants(module, level);
        if wants == PerDestination::default() {
            return;
        }
        let record = Record {
            program: &self.0.program,
            module: module.name(),
            level,
            message,
            number: next_message_number(),
            thread: current.name().filter(|name| *name != "main"),
            wall: clock::wall(),
            elapsed: clock::now(),
            facility: state.facility,
        };
        if wants.console {
            write_console(&state.patterns.console.format(&record));
        }
        if wants.syslog {
            let header = if state.syslog.wants_header() {
                state.header.format(&record)
            } else {
                String::new()
            };
            let lines = state.patterns.syslog.format(&record);
            for line in lines.split('\n').filter(|line| !line.is_empty()) {
                state.syslog.send(record.facility, level, &format!("{header}{line}"));
            }
            if state.syslog.has_target() {
                state.syslog.send_to_target(&state.target.format(&record));
            }
        }
        if wants.file {
            let line = state.patterns.file.format(&record);
            state.file.write(line);
        }
    }
}

impl State {
    /// The settings of a module, or of all when `None`.
    fn settings_mut(&mut self, module: Option<Module>) -> impl Iterator<Item = &mut Settings> {
        let wanted = move |index: usize| module.is_none_or(|module| module.index() == index);
        let modules = self.modules.iter_mut().enumerate();
        modules.filter(move |(index, _)| wanted(*index)).map(|(_, settings)| settings)
    }

    /// Which destinations take a message.
    fn wants(&self, module: Module, level: Level) -> PerDestination<bool> {
        let Some(settings) = self.modules.get(module.index()) else {
            return PerDestination::default();
        };
        PerDestination {
            syslog: settings.levels.syslog >= level,
            console: settings.levels.console >= level,
            file: settings.levels.file >= level && self.file.is_open(),
        }
    }
}

fn next_message_number() -> u32 {
    MESSAGES.with(|messages| {
        let number = messages.get().wrapping_add(1);
        messages.set(number);
        number
    })
}
