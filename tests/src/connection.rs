//! A JSON-RPC connection under full control of the test, down to single bytes.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::de::IoRead;
use serde_json::{Deserializer, StreamDeserializer, Value, json};

use crate::process::LIMIT;

/// A client of a unix socket that speaks JSON-RPC 1.0 (RFC 7047 section 4).
pub struct Connection {
    stream: UnixStream,
    incoming: StreamDeserializer<'static, IoRead<UnixStream>, Value>,
    last_id: u64,
}

impl Connection {
    /// Connects to a socket.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let stream = UnixStream::connect(path)
            .unwrap_or_else(|error| panic!("connecting to {}: {error}", path.display()));
        stream.set_read_timeout(Some(LIMIT)).expect("a read timeout");
        stream.set_write_timeout(Some(LIMIT)).expect("a write timeout");
        let reader = stream.try_clone().expect("a second handle of a socket");
        Self { stream, incoming: Deserializer::from_reader(reader).into_iter(), last_id: 0 }
    }

    /// Sends raw bytes. The error is that of the socket: the peer may hang up on nonsense.
    ///
    /// # Errors
    /// When the peer closed the connection or takes nothing for too long.
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Says that nothing more will be sent.
    pub fn finish(&self) {
        // The peer may have hung up before.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Sends a request and returns its number.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let request = json!({"id": self.last_id, "method": method, "params": params});
        let sent = self.write(request.to_string().as_bytes());
        sent.unwrap_or_else(|error| panic!("sending {method}: {error}"));
        self.last_id
    }

    /// The next message, or `None` when the peer closed the connection or sent no JSON.
    pub fn receive(&mut self) -> Option<Value> {
        self.incoming.next()?.ok()
    }

    /// Sends a request and returns the `result` of its reply, or its `error`. Echo requests
    /// and notifications in between are passed over.
    ///
    /// # Errors
    /// The error that the peer answered with.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        loop {
            let Some(message) = self.receive() else {
                panic!("{method}: the connection was closed instead of a reply")
            };
            if message["id"] == json!(id) {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => Err(error.clone()),
                };
            }
        }
    }

    /// Runs one OVSDB transaction on `Open_vSwitch` and returns the results of its operations.
    #[track_caller]
    pub fn transact(&mut self, operations: &[Value]) -> Value {
        let mut params = vec![json!("Open_vSwitch")];
        params.extend_from_slice(operations);
        self.call("transact", &Value::Array(params))
            .unwrap_or_else(|error| panic!("transact: {error}"))
    }
}
