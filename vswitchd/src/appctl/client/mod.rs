//! The client side of the control socket, which `sluice-appctl` is made of.
//!
//! A request is a JSON object `{"id":0,"method":"COMMAND","params":["ARGUMENT",...]}` on a Unix
//! stream socket, and the reply `{"id":0,"result":"TEXT","error":null}`; nothing separates the
//! objects.

mod args;

use std::ffi::OsString;
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::de::IoRead;
use serde_json::{Deserializer, Value, json};
use thiserror::Error;

use crate::daemonize::read_pidfile;
use crate::directories::Directories;
use crate::errno;

pub use args::{Args, Format};

/// The daemons to talk to when none is named, in the order in which they are tried.
const DEFAULT_TARGETS: [&str; 2] = ["sluice-vswitchd", "ovs-vswitchd"];

/// Why there is no reply. Texts are those of `ovs-appctl`.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The daemon's process is not known.
    #[error("cannot read pidfile \"{path}\" ({reason})", path = path.display(),
            reason = errno::text(reason))]
    Pidfile {
        /// The daemon's pidfile.
        path: PathBuf,
        /// What is wrong with it.
        reason: io::Error,
    },
    /// The daemon does not answer.
    #[error("cannot connect to \"{path}\" ({reason})", path = path.display(),
            reason = errno::text(reason))]
    Connect {
        /// The daemon's control socket.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The connection broke, or what came is not a reply.
    #[error("{target}: transaction error ({reason})")]
    Transaction {
        /// The daemon, as the operator calls it.
        target: String,
        /// What is wrong.
        reason: String,
    },
    /// The daemon refused the command.
    #[error("{target}: server returned an error")]
    Refused {
        /// The daemon, as the operator calls it.
        target: String,
        /// The daemon's words.
        text: String,
    },
    /// The reply is not a text.
    #[error("Unexpected reply type in JSON rpc reply: {0}")]
    NotText(&'static str),
}

/// A daemon that can be talked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What the operator calls it.
    name: String,
    /// Its control socket.
    socket: PathBuf,
}

impl Target {
    /// Finds a daemon: `target` is its name or the absolute path of its socket; without one it is
    /// the switch that is running. `variable` looks an environment variable up
    /// ([`std::env::var_os`]).
    ///
    /// # Errors
    /// [`ClientError::Pidfile`] when the daemon is not running.
    pub fn find(
        target: Option<&str>,
        program: &str,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ClientError> {
        let by_name = |name: &str| {
            let directory = Directories::new(name, &variable).run;
            let path = directory.join(format!("{name}.pid"));
            match read_pidfile(&path) {
                Ok(pid) => Ok(Self {
                    name: name.to_owned(),
                    socket: directory.join(format!("{name}.{pid}.ctl")),
                }),
                Err(reason) => Err(ClientError::Pidfile { path, reason }),
            }
        };
        match target {
            Some(path) if path.starts_with('/') => {
                Ok(Self { name: path.to_owned(), socket: path.into() })
            }
            Some(name) => by_name(name),
            None => {
                let [ours, theirs] = DEFAULT_TARGETS;
                if program.starts_with("ovs") {
                    return by_name(theirs);
                }
                // If neither is running, the first is the one to complain about.
                by_name(ours).or_else(|error| by_name(theirs).map_err(|_| error))
            }
        }
    }
}

/// A connection to a daemon.
pub struct Client {
    target: String,
    requests: UnixStream,
    replies: Deserializer<IoRead<BufReader<UnixStream>>>,
    next_id: u64,
}

/// A reply, in which a member that is null may be left out.
#[derive(Deserialize)]
struct Reply {
    id: Value,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Value,
}

impl Client {
    /// Connects to `target`.
    ///
    /// # Errors
    /// [`ClientError::Connect`]
    pub fn connect(target: Target) -> Result<Self, ClientError> {
        let connect = |path: &Path| {
            let requests = UnixStream::connect(path)?;
            let replies = Deserializer::from_reader(BufReader::new(requests.try_clone()?));
            Ok((requests, replies))
        };
        match connect(&target.socket) {
            Ok((requests, replies)) => {
                Ok(Self { target: target.name, requests, replies, next_id: 0 })
            }
            Err(reason) => Err(ClientError::Connect { path: target.socket, reason }),
        }
    }

    /// Has the daemon run a command and returns what the operator sees, with a new-line at the
    /// end unless it is empty.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn run(
        &mut self,
        command: &str,
        arguments: &[String],
        format: Format,
        pretty: bool,
    ) -> Result<String, ClientError> {
        if format == Format::Json {
            self.call("set-options", &["--format".to_owned(), "json".to_owned()])?;
        }
        let result = self.call(command, arguments)?;
        let mut text = match (format, result) {
            (Format::Text, Value::String(text)) => text,
            (Format::Text, other) => return Err(ClientError::NotText(type_name(&other))),
            (Format::Json, result) if pretty => {
                serde_json::to_string_pretty(&result).map_err(|error| self.broken(&error))?
            }
            (Format::Json, result) => result.to_string(),
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }

    fn call(&mut self, method: &str, params: &[String]) -> Result<Value, ClientError> {
        let id = Value::from(self.next_id);
        self.next_id += 1;
        let request = json!({ "id": id, "method": method, "params": params }).to_string();
        self.requests
            .write_all(request.as_bytes())
            .map_err(|error| self.broken(&errno::text(&error)))?;

        let reply = Reply::deserialize(&mut self.replies).map_err(|error| {
            if error.is_eof() { self.broken(&"End of file") } else { self.broken(&error) }
        })?;
        match (reply.result, reply.error) {
            _ if reply.id != id => {
                Err(self.broken(&format!("reply to request {}, not {id}", reply.id)))
            }
            (result, Value::Null) if !result.is_null() => Ok(result),
            (Value::Null, Value::String(text)) => {
                Err(ClientError::Refused { target: self.target.clone(), text })
            }
            _ => Err(self.broken(&"reply with neither one result nor one error")),
        }
    }

    fn broken(&self, reason: &dyn std::fmt::Display) -> ClientError {
        ClientError::Transaction { target: self.target.clone(), reason: reason.to_string() }
    }
}

/// What RFC 8259 calls the type of `value`.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Read;
    use std::os::unix::net::UnixListener;
    use std::thread::{self, JoinHandle};

    use tempfile::TempDir;

    /// A server that expects the requests and sends the replies, in turn and each in two pieces,
    /// and then closes the connection.
    fn serve(script: &[(&'static str, &'static str)]) -> (TempDir, Target, JoinHandle<()>) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("ctl");
        let listener = UnixListener::bind(&socket).unwrap();
        let script = script.to_vec();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for (request, reply) in script {
                let mut received = vec![0; request.len()];
                stream.read_exact(&mut received).unwrap();
                assert_eq!(String::from_utf8(received).unwrap(), request);
                let (first, second) = reply.split_at(reply.len() / 2);
                stream.write_all(first.as_bytes()).unwrap();
                // The client may have closed the connection on what it saw.
                let _ = stream.write_all(second.as_bytes());
            }
        });
        (directory, Target { name: "daemon".to_owned(), socket }, server)
    }

    fn run(
        script: &[(&'static str, &'static str)],
        words: &[&str],
        format: Format,
        pretty: bool,
    ) -> Result<String, ClientError> {
        let (_directory, target, server) = serve(script);
        let arguments: Vec<String> = words[1..].iter().map(|word| (*word).to_owned()).collect();
        let result = Client::connect(target).unwrap().run(words[0], &arguments, format, pretty);
        server.join().unwrap();
        result
    }

    #[test]
    fn a_text_ends_with_a_new_line() {
        let request = r#"{"id":0,"method":"exit","params":["--cleanup","ä\"b"]}"#;
        for (reply, want) in [
            (r#"{"id":0,"result":"","error":null}"#, ""),
            (r#"{"id":0,"result":"a\nb","error":null}"#, "a\nb\n"),
            (r#" {"error":null, "result":"a\n", "id":0}"#, "a\n"),
        ] {
            let words = ["exit", "--cleanup", "ä\"b"];
            assert_eq!(run(&[(request, reply)], &words, Format::Text, false).unwrap(), want);
        }
    }

    #[test]
    fn json_is_asked_for_first() {
        let script = [
            (
                r#"{"id":0,"method":"set-options","params":["--format","json"]}"#,
                r#"{"id":0,"result":"","error":null}"#,
            ),
            (
                r#"{"id":1,"method":"fdb/show","params":["br0"]}"#,
                r#"{"id":1,"result":{"b":[1],"a":"x"},"error":null}"#,
            ),
        ];
        let words = ["fdb/show", "br0"];
        assert_eq!(run(&script, &words, Format::Json, false).unwrap(), "{\"a\":\"x\",\"b\":[1]}\n");
        assert_eq!(
            run(&script, &words, Format::Json, true).unwrap(),
            "{\n  \"a\": \"x\",\n  \"b\": [\n    1\n  ]\n}\n"
        );
    }

    #[test]
    fn a_refusal_has_the_words_of_the_daemon() {
        for reply in [
            r#"{"id":0,"result":null,"error":"no such thing\n"}"#,
            r#"{"id":0,"error":"no such thing\n"}"#,
        ] {
            let script = [(r#"{"id":0,"method":"x","params":[]}"#, reply)];
            let error = run(&script, &["x"], Format::Text, false).unwrap_err();
            assert_eq!(error.to_string(), "daemon: server returned an error");
            let ClientError::Refused { text, .. } = error else { panic!("{error:?}") };
            assert_eq!(text, "no such thing\n");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for (reply, want) in [
            ("", "daemon: transaction error (End of file)"),
            (r#"{"id":0,"result":"#, "daemon: transaction error (End of file)"),
            (
                r#"{"id":0,"result":"a","error":"b"}"#,
                "daemon: transaction error (reply with neither one result nor one error)",
            ),
            (
                r#"{"id":7,"result":"a","error":null}"#,
                "daemon: transaction error (reply to request 7, not 0)",
            ),
            (
                r#"{"id":0,"result":["a"],"error":null}"#,
                "Unexpected reply type in JSON rpc reply: array",
            ),
            ("xx", "daemon: transaction error (expected value at line 1 column 1)"),
        ] {
            let script = [(r#"{"id":0,"method":"x","params":[]}"#, reply)];
            let error = run(&script, &["x"], Format::Text, false).unwrap_err();
            assert_eq!(error.to_string(), want, "{reply:?}");
        }
    }

    #[test]
    fn targets_are_sockets_or_names() {
        let directory = tempfile::tempdir().unwrap();
        let find = |target, program| {
            Target::find(target, program, |name| {
                (name == "OVS_RUNDIR").then(|| directory.path().into())
            })
        };
        let socket = "/run/a.ctl".to_owned();
        assert_eq!(
            find(Some("/run/a.ctl"), "sluice-appctl").unwrap(),
            Target { name: socket.clone(), socket: socket.into() }
        );
        for (target, program, file) in [
            (Some("ovsdb-server"), "sluice-appctl", "ovsdb-server"),
            (None, "sluice-appctl", "sluice-vswitchd"),
            (None, "ovs-appctl", "ovs-vswitchd"),
        ] {
            let path = directory.path().join(format!("{file}.pid"));
            assert_eq!(
                find(target, program).unwrap_err().to_string(),
                format!("cannot read pidfile \"{}\" (No such file or directory)", path.display())
            );
        }
    }

    #[test]
    fn a_socket_that_nobody_listens_on_is_named() {
        let target = Target { name: "daemon".to_owned(), socket: "/nonexistent/a.ctl".into() };
        assert_eq!(
            Client::connect(target).err().unwrap().to_string(),
            "cannot connect to \"/nonexistent/a.ctl\" (No such file or directory)"
        );
    }
}
