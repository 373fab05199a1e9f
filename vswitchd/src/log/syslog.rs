//! Messages to the system's log: RFC 3164 datagrams to a local socket or to UDP, and RFC 5424
//! datagrams to a second target.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

use super::level::Level;

/// Where the C library sends messages for the system's log.
const LOCAL_SOCKET: &str = "/dev/log";
/// UDP port of syslog, RFC 3164 section 2.
const PORT: u16 = 514;

/// What kind of program a message comes from, in the place it has in a priority (RFC 5424
/// section 6.2.1: the facility's number times 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facility(u8);

const FACILITIES: [(&str, u8); 23] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("clock", 9),
    ("ftp", 11),
    ("ntp", 12),
    ("audit", 13),
    ("alert", 14),
    ("clock2", 15),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

impl Facility {
    /// None was chosen; it has the number of `kern`, which programs do not use.
    pub(super) const UNSET: Self = Self(0);
    const DAEMON: Self = Self(3 << 3);
    const LOCAL0: Self = Self(16 << 3);

    /// The facility of that name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        let named = |(facility, _): &&(&str, u8)| facility.eq_ignore_ascii_case(name);
        FACILITIES.iter().find(named).map(|(_, number)| Self(number << 3))
    }

    /// The default of messages laid out by a pattern.
    pub(super) fn or_local0(self) -> Self {
        if self == Self::UNSET { Self::LOCAL0 } else { self }
    }

    fn or_daemon(self) -> Self {
        if self == Self::UNSET { Self::DAEMON } else { self }
    }

    /// The number between angle brackets at the start of a datagram.
    pub(super) fn priority(self, level: Level) -> u8 {
        self.0 | level.syslog_severity()
    }
}

/// How messages reach the system's log: `libc`, `unix:FILE`, `udp:HOST[:PORT]` or `null`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogMethod {
    /// They do not.
    Null,
    /// Through `/dev/log`, in the format of the C library's `syslog(3)`.
    Libc,
    /// Through the Unix datagram socket of that name.
    Unix(PathBuf),
    /// Through UDP.
    Udp(UdpTarget),
}

/// A host and a UDP port on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpTarget {
    host: String,
    port: u16,
}

/// Why messages cannot be sent to the system's log as asked.
#[derive(Debug, Error)]
pub enum SyslogError {
    /// The method has an unknown name.
    #[error("unsupported syslog method '{0}'")]
    UnknownMethod(String),
    /// A target is not of the form HOST:PORT.
    #[error("syslog target '{0}' is not of the form HOST:PORT")]
    BadTarget(String),
    /// A target has no address, or none that a socket can be connected to.
    #[error("cannot send to syslog target '{host}:{port}': {error}")]
    Unreachable {
        /// Host of the target.
        host: String,
        /// UDP port of the target.
        port: u16,
        /// What the system said.
        error: io::Error,
    },
}

impl FromStr for SyslogMethod {
    type Err = SyslogError;

    /// An empty text, such as that of an environment variable set to nothing, is the default.
    fn from_str(text: &str) -> Result<Self, SyslogError> {
        match text.split_once(':') {
            None if text.is_empty() || text == "libc" => Ok(Self::Libc),
            None if text == "null" => Ok(Self::Null),
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("udp", target)) => UdpTarget::parse(target, Some(PORT)).map(Self::Udp),
            _ => Err(SyslogError::UnknownMethod(text.to_owned())),
        }
    }
}

impl FromStr for UdpTarget {
    type Err = SyslogError;

    fn from_str(text: &str) -> Result<Self, SyslogError> {
        Self::parse(text, None)
    }
}

impl UdpTarget {
    /// Parses `HOST:PORT`, with brackets around the host when it is an IPv6 address.
    fn parse(text: &str, default_port: Option<u16>) -> Result<Self, SyslogError> {
        let bad = || SyslogError::BadTarget(text.to_owned());
        let (host, port) = if let Some(inside) = text.strip_prefix('[') {
            let (host, rest) = inside.split_once(']').ok_or_else(bad)?;
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err(bad()),
            }
        } else {
            text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
        };
        let port = match port {
            Some(port) => port.parse().map_err(|_| bad())?,
            None => default_port.ok_or_else(bad)?,
        };
        if host.is_empty() {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), port })
    }

    fn connect(&self) -> Result<UdpSocket, SyslogError> {
        self.connect_to_any_address().map_err(|error| SyslogError::Unreachable {
            host: self.host.clone(),
            port: self.port,
            error,
        })
    }

    fn connect_to_any_address(&self) -> io::Result<UdpSocket> {
        let mut result = Err(io::Error::from(io::ErrorKind::NotFound));
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            let any: SocketAddr = match address {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            result = UdpSocket::bind(any).and_then(|socket| {
                socket.connect(address)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            });
            if result.is_ok() {
                break;
            }
        }
        result
    }
}

/// The way to the system's log. Its sockets never block: a message that finds a full queue is
/// lost, as the switch must not wait for a log.
#[derive(Debug)]
pub(super) struct Syslog {
    method: SyslogMethod,
    route: Route,
    /// The second target, in the format of RFC 5424.
    target: Option<UdpSocket>,
}

#[derive(Debug)]
enum Route {
    Nowhere,
    /// A socket that is `None` when not connected; sending tries again.
    Unix {
        path: PathBuf,
        socket: Option<UnixDatagram>,
    },
    Udp(UdpSocket),
}

impl Syslog {
    /// Prepares to send. A Unix socket may come to be later; a UDP target must have an address.
    pub(super) fn new(method: SyslogMethod) -> Result<Self, SyslogError> {
        let route = match &method {
            SyslogMethod::Null => Route::Nowhere,
            SyslogMethod::Libc => Route::Unix { path: LOCAL_SOCKET.into(), socket: None },
            SyslogMethod::Unix(path) => Route::Unix { path: path.clone(), socket: None },
            SyslogMethod::Udp(target) => Route::Udp(target.connect()?),
        };
        Ok(Self { method, route, target: None })
    }

    /// Sends a copy of every message to `target` too.
    pub(super) fn set_target(&mut self, target: &UdpTarget) -> Result<(), SyslogError> {
        self.target = Some(target.connect()?);
        Ok(())
    }

    pub(super) fn has_target(&self) -> bool {
        self.target.is_some()
    }

    /// The pattern of what precedes each message on the wire, for operators.
    pub(super) fn prefix(&self) -> &'static str {
        match self.method {
            SyslogMethod::Null => "",
            SyslogMethod::Libc => "<%B> %D{%h %e %T} %E %A:",
            SyslogMethod::Unix(_) | SyslogMethod::Udp(_) => "<%B>",
        }
    }

    /// Whether lines start with the date and the program's name, as `syslog(3)` writes them.
    pub(super) fn wants_header(&self) -> bool {
        self.method == SyslogMethod::Libc
    }

    /// Sends one line; failures have nowhere to be told.
    pub(super) fn send(&mut self, facility: Facility, level: Level, line: &str) {
        let datagram = format!("<{}>{line}", facility.or_daemon().priority(level));
        match &mut self.route {
            Route::Nowhere => {}
            Route::Udp(socket) => {
                let _ = send_shortened(&datagram, |bytes| socket.send(bytes));
            }
            Route::Unix { path, socket } => {
                let sent = socket.as_ref().is_some_and(|socket| {
                    match send_shortened(&datagram, |bytes| socket.send(bytes)) {
                        // A full queue is no reason to connect anew.
                        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
                        Ok(()) => true,
                    }
                });
                if !sent {
                    // The log daemon may have started, or started again, since the last attempt.
                    *socket = connect_unix(path).ok();
                    if let Some(socket) = socket {
                        let _ = send_shortened(&datagram, |bytes| socket.send(bytes));
                    }
                }
            }
        }
    }

    /// Sends one RFC 5424 message to the second target.
    pub(super) fn send_to_target(&self, message: &str) {
        if let Some(target) = &self.target {
            let _ = send_shortened(message, |bytes| target.send(bytes));
        }
    }
}

fn connect_unix(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(path)?;
    Ok(socket)
}

/// Sends as much of `datagram` as one datagram can hold.
fn send_shortened(datagram: &str, send: impl Fn(&[u8]) -> io::Result<usize>) -> io::Result<()> {
    let mut datagram = datagram.as_bytes();
    loop {
        match send(datagram) {
            Err(error) if is_too_long(&error) && !datagram.is_empty() => {
                let shorter = datagram.len() - datagram.len().div_ceil(20);
                datagram = datagram.get(..shorter).unwrap_or_default();
            }
            result => return result.map(drop),
        }
    }
}

fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(host: &str, port: u16) -> UdpTarget {
        UdpTarget { host: host.to_owned(), port }
    }

    fn receive(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn methods_are_parsed() {
        for (text, want) in [
            ("", SyslogMethod::Libc),
            ("libc", SyslogMethod::Libc),
            ("null", SyslogMethod::Null),
            ("unix:/run/log", SyslogMethod::Unix("/run/log".into())),
            ("udp:127.0.0.1", SyslogMethod::Udp(udp("127.0.0.1", 514))),
            ("udp:host:10514", SyslogMethod::Udp(udp("host", 10514))),
            ("udp:[::1]", SyslogMethod::Udp(udp("::1", 514))),
            ("udp:[::1]:99", SyslogMethod::Udp(udp("::1", 99))),
        ] {
            assert_eq!(text.parse::<SyslogMethod>().unwrap(), want, "{text:?}");
        }
        for (text, want) in [
            ("tcp:host", "unsupported syslog method 'tcp:host'"),
            ("LIBC", "unsupported syslog method 'LIBC'"),
            ("udp:", "syslog target '' is not of the form HOST:PORT"),
            ("udp:host:x", "syslog target 'host:x' is not of the form HOST:PORT"),
            ("udp:[::1", "syslog target '[::1' is not of the form HOST:PORT"),
        ] {
            assert_eq!(text.parse::<SyslogMethod>().unwrap_err().to_string(), want, "{text:?}");
        }
        assert!("host".parse::<UdpTarget>().is_err());
        assert_eq!("host:1".parse::<UdpTarget>().unwrap(), udp("host", 1));
    }

    #[test]
    fn sending_survives_a_restart_of_the_log_daemon() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut syslog = Syslog::new(SyslogMethod::Unix(path.clone())).unwrap();
        syslog.send(Facility::UNSET, Level::Info, "lost");
        for round in ["one", "two"] {
            let server = UnixDatagram::bind(&path).unwrap();
            syslog.send(Facility::UNSET, Level::Info, round);
            assert_eq!(receive(&server), format!("<29>{round}"));
            syslog.send(Facility::named("local7").unwrap(), Level::Debug, round);
            assert_eq!(receive(&server), format!("<191>{round}"));
            drop(server);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_line_too_long_for_a_datagram_is_cut() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = udp("127.0.0.1", receiver.local_addr().unwrap().port());
        let mut syslog = Syslog::new(SyslogMethod::Udp(target)).unwrap();
        syslog.send(Facility::UNSET, Level::Info, &"x".repeat(100_000));
        let mut buffer = vec![0; 100_000];
        let length = receiver.recv(&mut buffer).unwrap();
        assert!(length > 60_000);
        assert!(buffer.starts_with(b"<29>xxxx"));
    }
}
