//! Addresses of the byte streams that carry the frames of dummy ports.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where to connect to or to listen at. Prints as it was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    text: String,
    pub(super) endpoint: Endpoint,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A unix socket.
    Unix(PathBuf),
    /// A host (name or IP address) and a port.
    Tcp(String, u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadAddress {
    #[error("expected unix:PATH or tcp:HOST:PORT")]
    Active,
    #[error("expected punix:PATH or ptcp:PORT[:IP]")]
    Passive,
}

impl Address {
    /// Parses `unix:PATH` and `tcp:HOST:PORT`. A relative path starts from `directory`.
    pub(super) fn parse_active(text: &str, directory: &Path) -> Result<Self, BadAddress> {
        let endpoint = match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Endpoint::Unix(directory.join(path)),
            Some(("tcp", host_port)) => {
                let (host, port) = host_port.rsplit_once(':').ok_or(BadAddress::Active)?;
                let port = port.parse().map_err(|_| BadAddress::Active)?;
                Endpoint::Tcp(without_brackets(host).to_owned(), port)
            }
            _ => return Err(BadAddress::Active),
        };
        Ok(Self { text: text.to_owned(), endpoint })
    }

    /// Parses `punix:PATH` and `ptcp:PORT[:IP]`; without an IP address, all of IPv4. A relative
    /// path starts from `directory`.
    pub(super) fn parse_passive(text: &str, directory: &Path) -> Result<Self, BadAddress> {
        let endpoint = match text.split_once(':') {
            Some(("punix", path)) if !path.is_empty() => Endpoint::Unix(directory.join(path)),
            Some(("ptcp", port_ip)) => {
                let (port, ip) = port_ip.split_once(':').unwrap_or((port_ip, "0.0.0.0"));
                let port = port.parse().map_err(|_| BadAddress::Passive)?;
                Endpoint::Tcp(without_brackets(ip).to_owned(), port)
            }
            _ => return Err(BadAddress::Passive),
        };
        Ok(Self { text: text.to_owned(), endpoint })
    }
}

fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_it_prints() {
        let unix = Endpoint::Unix(PathBuf::from("/run/p0.sock"));
        let tcp = |host: &str, port| Endpoint::Tcp(host.to_owned(), port);
        for (text, endpoint) in [
            ("unix:/run/p0.sock", unix.clone()),
            ("unix:p0.sock", unix.clone()),
            ("tcp:192.0.2.1:4000", tcp("192.0.2.1", 4000)),
            ("tcp:[2001:db8::1]:4000", tcp("2001:db8::1", 4000)),
        ] {
            let address = Address::parse_active(text, Path::new("/run")).unwrap();
            assert_eq!((address.to_string(), address.endpoint), (text.to_owned(), endpoint));
        }
        for (text, endpoint) in [
            ("punix:/run/p0.sock", unix),
            ("ptcp:4000", tcp("0.0.0.0", 4000)),
            ("ptcp:0:[::1]", tcp("::1", 0)),
        ] {
            let address = Address::parse_passive(text, Path::new("/run")).unwrap();
            assert_eq!((address.to_string(), address.endpoint), (text.to_owned(), endpoint));
        }
    }

    #[test]
    fn refuses_what_it_cannot_open() {
        for text in ["", "unix", "unix:", "tcp:host", "tcp:host:port", "ssl:host:1", "punix:/x"] {
            assert_eq!(Address::parse_active(text, Path::new("/run")), Err(BadAddress::Active));
        }
        for text in ["", "punix:", "ptcp:", "ptcp:70000", "unix:/x"] {
            assert_eq!(Address::parse_passive(text, Path::new("/run")), Err(BadAddress::Passive));
        }
    }
}
