//! The servers of a client, as operators list them.

use std::path::Path;

use stream::{Remote, RemoteError};

/// The port of OVSDB (RFC 7047 section 7).
const DEFAULT_PORT: u16 = 6640;

/// Why a text names no servers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemotesError {
    /// One of the remotes is not understood.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// There is none.
    #[error("no database server given, expected for example unix:/run/sluice/db.sock")]
    Empty,
}

/// Parses remotes that commas separate, such as `tcp:10.0.0.1:6640,tcp:10.0.0.2:6640`. Relative
/// file names are relative to `run_directory`.
pub fn parse_remotes(text: &str, run_directory: &Path) -> Result<Vec<Remote>, RemotesError> {
    let mut remotes = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (first, others) = split_remote(rest);
        remotes.push(Remote::parse(first.trim(), Some(DEFAULT_PORT), run_directory)?);
        rest = others.trim();
    }
    if remotes.is_empty() { Err(RemotesError::Empty) } else { Ok(remotes) }
}

/// Splits at the first comma that a connection method follows; others are part of a file name.
fn split_remote(text: &str) -> (&str, &str) {
    let commas = text.match_indices(',').filter_map(|(at, _)| text.split_at_checked(at));
    for (first, rest) in commas {
        let rest = rest.trim_start_matches(',').trim_start();
        let method = rest.split_once(':').map_or("", |(method, _)| method);
        if !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return (first, rest);
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_remotes() {
        let parse = |text| {
            parse_remotes(text, Path::new("/run"))
                .map(|remotes| remotes.iter().map(ToString::to_string).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        let cases: [(&str, &[&str]); 4] = [
            ("unix:db.sock", &["unix:db.sock"]),
            (" tcp:10.0.0.1:1, ssl:b,unix:c ", &["tcp:10.0.0.1:1", "ssl:b", "unix:c"]),
            ("unix:a,b,c,tcp:d", &["unix:a,b,c", "tcp:d"]),
            ("ptcp:0", &["ptcp:0"]),
        ];
        for (text, remotes) in cases {
            assert_eq!(parse(text).unwrap(), remotes, "{text}");
        }
        assert_eq!(
            parse(" ").unwrap_err(),
            "no database server given, expected for example unix:/run/sluice/db.sock"
        );
        assert!(parse("unix:a,cid:b").unwrap_err().starts_with("cid:b: unknown connection method"));
    }
}
