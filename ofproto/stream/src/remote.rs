//! Where a stream goes to or comes from, as operators write it: `unix:db.sock`, `ptcp:6640`.

use std::fmt;
use std::path::{Path, PathBuf};

/// A parsed connection method. It displays as the text that it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    text: String,
    address: Address,
}

/// What a [`Remote`] names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Connect to a unix socket.
    Unix(PathBuf),
    /// Connect to a TCP port of a host name or address (IPv6 without brackets).
    Tcp {
        /// Host name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// As [`Address::Tcp`], then speak TLS.
    Ssl {
        /// Host name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// Listen on a unix socket.
    PassiveUnix(PathBuf),
    /// Listen on a TCP port, of all local addresses unless one is given.
    PassiveTcp {
        /// Local address to listen on.
        host: Option<String>,
        /// TCP port; 0 lets the kernel choose.
        port: u16,
    },
    /// As [`Address::PassiveTcp`], then speak TLS.
    PassiveSsl {
        /// Local address to listen on.
        host: Option<String>,
        /// TCP port; 0 lets the kernel choose.
        port: u16,
    },
}

/// Why a text is not a [`Remote`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// The word before the first colon is no connection method.
    #[error(
        "{0}: unknown connection method, expected unix:FILE, tcp:HOST[:PORT], ssl:HOST[:PORT], \
         punix:FILE, ptcp:[PORT][:HOST] or pssl:[PORT][:HOST]"
    )]
    Method(String),
    /// A unix method without a file name.
    #[error("{0}: a file name must follow the colon")]
    FileMissing(String),
    /// An active TCP or TLS method without a host.
    #[error("{0}: host must be specified")]
    HostMissing(String),
    /// No port in the text and no default for it.
    #[error("{0}: port must be specified")]
    PortMissing(String),
    /// The port is no number from 0 to 65535.
    #[error("{text}: bad port number \"{port}\", expected 0 to 65535")]
    Port {
        /// The whole text.
        text: String,
        /// The part that should be a port.
        port: String,
    },
}

impl Remote {
    /// Parses a connection method. `default_port` stands in for a port that the text leaves out;
    /// relative file names are relative to `run_directory`.
    pub fn parse(
        text: &str,
        default_port: Option<u16>,
        run_directory: &Path,
    ) -> Result<Self, RemoteError> {
        let (method, rest) =
            text.split_once(':').ok_or_else(|| RemoteError::Method(text.to_owned()))?;
        let file = || match rest {
            "" => Err(RemoteError::FileMissing(text.to_owned())),
            file => Ok(run_directory.join(file)),
        };
        let port = |port: Option<&str>| match port {
            Some(port) => port
                .parse::<u16>()
                .map_err(|_| RemoteError::Port { text: text.to_owned(), port: port.to_owned() }),
            None => default_port.ok_or_else(|| RemoteError::PortMissing(text.to_owned())),
        };
        let active = || {
            let (host, number) = split(rest, HostIs::First);
            let host = host.ok_or_else(|| RemoteError::HostMissing(text.to_owned()))?;
            Ok((host.to_owned(), port(number)?))
        };
        let passive = || {
            let (host, number) = split(rest, HostIs::Second);
            Ok((host.map(str::to_owned), port(number)?))
        };
        let address = match method {
            "unix" => Address::Unix(file()?),
            "punix" => Address::PassiveUnix(file()?),
            "tcp" => active().map(|(host, port)| Address::Tcp { host, port })?,
            "ssl" => active().map(|(host, port)| Address::Ssl { host, port })?,
            "ptcp" => passive().map(|(host, port)| Address::PassiveTcp { host, port })?,
            "pssl" => passive().map(|(host, port)| Address::PassiveSsl { host, port })?,
            _ => return Err(RemoteError::Method(text.to_owned())),
        };
        Ok(Self { text: text.to_owned(), address })
    }

    /// What the remote names.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Whether streams are accepted on this remote rather than opened to it.
    pub fn is_passive(&self) -> bool {
        match self.address {
            Address::Unix(_) | Address::Tcp { .. } | Address::Ssl { .. } => false,
            Address::PassiveUnix(_) | Address::PassiveTcp { .. } | Address::PassiveSsl { .. } => {
                true
            }
        }
    }

    /// Whether the other side can vanish without the kernel telling, so that silence must be
    /// probed. It cannot on a unix socket.
    pub fn needs_probes(&self) -> bool {
        !matches!(self.address, Address::Unix(_) | Address::PassiveUnix(_))
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Which side of the colon the host is on.
#[derive(Clone, Copy)]
enum HostIs {
    First,
    Second,
}

/// Splits into host and port at the only colon outside brackets, and takes the brackets away.
/// Text with more colons is a bare IPv6 address. Empty parts are `None`.
fn split(text: &str, host_is: HostIs) -> (Option<&str>, Option<&str>) {
    let mut in_brackets = false;
    let mut colons = text.char_indices().filter_map(|(at, letter)| {
        match letter {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            ':' if !in_brackets => return Some(at),
            _ => {}
        }
        None
    });
    let (first, second) = match (colons.next(), colons.next()) {
        (None, _) => (text, ""),
        (Some(at), None) => {
            let (before, after) = text.split_at(at);
            (before, after.trim_start_matches(':'))
        }
        (Some(_), Some(_)) => return (present(text), None),
    };
    match host_is {
        HostIs::First => (present(first), present(second)),
        HostIs::Second => (present(second), present(first)),
    }
}

fn present(part: &str) -> Option<&str> {
    let part = part.strip_prefix('[').and_then(|part| part.strip_suffix(']')).unwrap_or(part);
    (!part.is_empty()).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Remote, RemoteError> {
        Remote::parse(text, Some(6640), Path::new("/run/sluice"))
    }

    #[test]
    fn every_method_parses_and_displays_as_written() {
        let host = |host: &str| host.to_owned();
        let cases = [
            ("unix:db.sock", Address::Unix("/run/sluice/db.sock".into())),
            ("unix:/tmp/a:b", Address::Unix("/tmp/a:b".into())),
            ("punix:br0.mgmt", Address::PassiveUnix("/run/sluice/br0.mgmt".into())),
            ("tcp:10.0.0.1", Address::Tcp { host: host("10.0.0.1"), port: 6640 }),
            ("tcp:10.0.0.1:1", Address::Tcp { host: host("10.0.0.1"), port: 1 }),
            ("tcp:[::1]:4242", Address::Tcp { host: host("::1"), port: 4242 }),
            ("tcp:[fe80::1%eth0]", Address::Tcp { host: host("fe80::1%eth0"), port: 6640 }),
            ("tcp:fe80::1", Address::Tcp { host: host("fe80::1"), port: 6640 }),
            ("ssl:example.org:65535", Address::Ssl { host: host("example.org"), port: 65535 }),
            ("ptcp:", Address::PassiveTcp { host: None, port: 6640 }),
            ("ptcp:0", Address::PassiveTcp { host: None, port: 0 }),
            ("ptcp:1:127.0.0.1", Address::PassiveTcp { host: Some(host("127.0.0.1")), port: 1 }),
            ("ptcp::127.0.0.1", Address::PassiveTcp { host: Some(host("127.0.0.1")), port: 6640 }),
            ("pssl:1:[::]", Address::PassiveSsl { host: Some(host("::")), port: 1 }),
        ];
        for (text, address) in cases {
            let remote = parse(text).unwrap();
            assert_eq!(*remote.address(), address, "{text}");
            assert_eq!(remote.to_string(), text);
            assert_eq!(remote.is_passive(), text.starts_with('p'), "{text}");
            assert_eq!(remote.needs_probes(), !text.contains("unix"), "{text}");
        }
    }

    #[test]
    fn errors_name_the_text_and_what_is_allowed() {
        let cases = [
            ("", "unknown connection method, expected unix:FILE"),
            ("db.sock", "unknown connection method, expected unix:FILE"),
            ("udp:10.0.0.1", "unknown connection method, expected unix:FILE"),
            ("unix:", "a file name must follow the colon"),
            ("tcp:", "host must be specified"),
            ("tcp::1", "host must be specified"),
            ("tcp:a:x", "bad port number \"x\", expected 0 to 65535"),
            ("ptcp:65536", "bad port number \"65536\", expected 0 to 65535"),
        ];
        for (text, message) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text}: {message}")), "{error}");
        }
        assert_eq!(
            Remote::parse("tcp:10.0.0.1", None, Path::new("/")),
            Err(RemoteError::PortMissing("tcp:10.0.0.1".to_owned()))
        );
    }
}
