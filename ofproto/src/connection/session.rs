//! One OpenFlow connection as a state machine: bytes in, messages out.

use thiserror::Error;
use tracing::{debug, error, warn};

use crate::openflow::error::{ErrorMessage, OfError};
use crate::openflow::header::{BadLength, Header, Splitter};
use crate::openflow::kind::{Kind, Raw};
use crate::openflow::message::Hello;
use crate::openflow::text::{NoNames, print_message};
use crate::openflow::version::{Version, VersionSet};

/// Transaction id of our hello.
const HELLO_XID: u32 = 1;

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The stream cannot be cut into messages.
    #[error(transparent)]
    Length(#[from] BadLength),
    /// The peer's first message is no hello.
    #[error("received message while expecting hello: {message}")]
    NoHello {
        /// The message as text.
        message: String,
    },
    /// There is no version that both sides speak.
    #[error("version negotiation failed (we support {}, peer supports {})", text(*ours), text(*theirs))]
    NoCommonVersion {
        /// What we speak.
        ours: VersionSet,
        /// What the peer speaks.
        theirs: VersionSet,
    },
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    /// The peer as log lines call it.
    peer: String,
    allowed: VersionSet,
    /// The version agreed on, once the peer has said hello.
    version: Option<Version>,
    input: Splitter,
    output: Vec<u8>,
}

impl Session {
    /// A connection with `peer` on which the versions `allowed` may be spoken; it begins with our
    /// hello.
    pub fn new(peer: &str, allowed: VersionSet) -> Self {
        let output = Hello::encode(allowed, HELLO_XID);
        log_sent(peer, &output);
        let input = Splitter::default();
        Self { peer: peer.to_owned(), allowed, version: None, input, output }
    }

    /// The version agreed on, once there is one.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// What is to be sent to the peer; the session forgets it.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Takes bytes from the peer in and appends the messages after its hello to `messages`. What
    /// it has to be told is in [`take_output`](Self::take_output) afterwards, also when the
    /// connection is to end.
    ///
    /// # Errors
    /// When the connection is to end.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        messages: &mut Vec<Vec<u8>>,
    ) -> Result<(), SessionError> {
        self.input.push(bytes);
        while let Some(message) = self.input.next_message()? {
            log_message(&self.peer, "received", message);
            let Some(version) = self.version else {
                let hello = negotiate(&self.peer, self.allowed, message, &mut self.output);
                self.version = Some(hello?);
                continue;
            };
            match wrong_version(&self.peer, version, message) {
                Some(reply) => self.output.extend(reply),
                None => messages.push(message.to_vec()),
            }
        }
        Ok(())
    }
}

/// Logs a message that was sent to `peer`.
pub(super) fn log_sent(peer: &str, message: &[u8]) {
    log_message(peer, "sent (Success)", message);
}

fn log_message(peer: &str, what: &str, message: &[u8]) {
    if tracing::event_enabled!(target: "vconn", tracing::Level::DEBUG) {
        let mut text = String::new();
        print_message(&mut text, message, &NoNames);
        debug!(target: "vconn", "{peer}: {what}: {}", text.trim_end_matches('\n'));
    }
}

/// The error for a message of another version than `version`, if it may not have one.
fn wrong_version(peer: &str, version: Version, message: &[u8]) -> Option<Vec<u8>> {
    let header = Header::parse(message).ok()?;
    let any_version = [Kind::Hello, Kind::Error, Kind::EchoRequest, Kind::EchoReply];
    if header.version == version as u8
        || Raw::parse(message).is_ok_and(|raw| any_version.contains(&raw.kind))
    {
        return None;
    }
    error!(
        target: "vconn", limited = true,
        "{peer}: received OpenFlow version {:#04x} != expected {:02x}", header.version, version as u8
    );
    let theirs = Version::from_wire(header.version).unwrap_or(Version::V10);
    let reply = ErrorMessage::reply(OfError::BadRequestVersion, theirs, message);
    log_sent(peer, &reply);
    Some(reply)
}

/// The version that both sides speak, from the peer's first message. Without one, the error that
/// tells the peer so is appended to `output`.
fn negotiate(
    peer: &str,
    ours: VersionSet,
    message: &[u8],
    output: &mut Vec<u8>,
) -> Result<Version, SessionError> {
    let raw = Raw::parse(message).ok().filter(|raw| raw.kind == Kind::Hello);
    let raw = raw.ok_or_else(|| {
        let mut text = String::new();
        print_message(&mut text, message, &NoNames);
        SessionError::NoHello { message: text.trim_end_matches('\n').to_owned() }
    })?;
    let Hello { versions: theirs, strange } = Hello::decode(&raw);
    if strange {
        warn!(target: "vconn", limited = true, "{peer}: unknown data in hello");
    }
    let Some(version) = ours.negotiate(theirs) else {
        let told =
            format!("We support {}, you support {}, no common versions.", text(ours), text(theirs));
        let told = ErrorMessage { error: OfError::HelloIncompatible, data: told.into_bytes() };
        let version = Version::from_wire(theirs.greatest()).unwrap_or(Version::V10);
        let told = told.encode(version, 0);
        log_sent(peer, &told);
        output.extend(told);
        return Err(SessionError::NoCommonVersion { ours, theirs });
    };
    debug!(
        target: "vconn",
        "{peer}: negotiated OpenFlow version {:#04x} (we support {}, peer supports {})",
        version as u8, text(ours), text(theirs)
    );
    Ok(version)
}

/// Versions in words.
fn text(versions: VersionSet) -> String {
    let greatest = versions.greatest();
    match versions {
        _ if versions.is_empty() => "no versions".to_owned(),
        _ if versions.bits().is_power_of_two() => format!("version {greatest:#04x}"),
        _ if versions == VersionSet::up_to(greatest) => {
            format!("version {greatest:#04x} and earlier")
        }
        _ => format!("versions {versions}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: u8 = 0;
    const ERROR: u8 = 1;
    const ECHO_REQUEST: u8 = 2;

    fn all() -> VersionSet {
        Version::ALL.into_iter().collect()
    }

    fn receive(session: &mut Session, bytes: &[u8]) -> Result<Vec<Vec<u8>>, SessionError> {
        let mut messages = vec![];
        session.receive(bytes, &mut messages).map(|()| messages)
    }

    /// A session after our hello and the peer's, which speaks OpenFlow 1.3.
    fn open() -> Session {
        let mut session = Session::new("peer", all());
        session.take_output();
        assert_eq!(receive(&mut session, &[4, HELLO, 0, 8, 0, 0, 0, 9]), Ok(vec![]));
        assert_eq!(session.version(), Some(Version::V13));
        assert_eq!(session.take_output(), []);
        session
    }

    #[test]
    fn says_hello_first() {
        let mut session = Session::new("peer", all());
        assert_eq!(session.take_output(), [6, 0, 0, 8, 0, 0, 0, 1]);
        assert_eq!(session.take_output(), []);
        let some = [Version::V10, Version::V13].into_iter().collect();
        let mut session = Session::new("peer", some);
        assert_eq!(session.take_output(), [4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x12]);
    }

    #[test]
    fn the_bitmap_counts_more_than_the_header() {
        let mut session = Session::new("peer", all());
        // Another element comes first; the bitmap says 1.0 and 1.2.
        let hello =
            [6, HELLO, 0, 24, 0, 0, 0, 1, 0, 9, 0, 5, 1, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0b1010];
        assert_eq!(receive(&mut session, &hello), Ok(vec![]));
        assert_eq!(session.version(), Some(Version::V12));
    }

    #[test]
    fn malformed_elements_leave_the_header() {
        for element in [&[0, 1, 0, 3][..], &[0, 1, 0, 8, 0, 0][..], &[0, 1, 0, 6, 0, 0][..], &[0]] {
            let mut hello = vec![2, HELLO, 0, 8 + element.len() as u8, 0, 0, 0, 1];
            hello.extend(element);
            let mut session = Session::new("peer", all());
            assert_eq!(receive(&mut session, &hello), Ok(vec![]));
            assert_eq!(session.version(), Some(Version::V11), "{element:?}");
        }
    }

    #[test]
    fn no_common_version_is_told() {
        let only_13 = [Version::V13].into_iter().collect();
        let mut session = Session::new("peer", only_13);
        session.take_output();
        let error = receive(&mut session, &[2, HELLO, 0, 8, 0, 0, 0, 7]).unwrap_err();
        let text = "version negotiation failed (we support version 0x04, peer supports version \
                    0x02 and earlier)";
        assert_eq!(error.to_string(), text);
        let text =
            "We support version 0x04, you support version 0x02 and earlier, no common versions.";
        let mut told = vec![2, ERROR, 0, (12 + text.len()) as u8, 0, 0, 0, 0, 0, 0, 0, 0];
        told.extend(text.as_bytes());
        assert_eq!(session.take_output(), told);
    }

    #[test]
    fn the_first_message_is_a_hello() {
        let mut session = Session::new("peer", all());
        let error = receive(&mut session, &[1, ECHO_REQUEST, 0, 8, 0, 0, 0, 7]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "received message while expecting hello: OFPT_ECHO_REQUEST (xid=0x7): 0 bytes of \
             payload"
        );
    }

    #[test]
    fn messages_arrive_however_they_are_cut() {
        let message = vec![4, ECHO_REQUEST, 0, 11, 1, 2, 3, 4, b'a', b'b', b'c'];
        let mut session = open();
        assert_eq!(receive(&mut session, &message[..5]), Ok(vec![]));
        assert_eq!(receive(&mut session, &message[5..]), Ok(vec![message.clone()]));
        let two = vec![message.clone(), message];
        assert_eq!(receive(&mut session, &two.concat()), Ok(two));
        assert_eq!(session.take_output(), []);
    }

    #[test]
    fn other_versions_are_refused_in_that_version() {
        let mut session = open();
        assert_eq!(receive(&mut session, &[1, 5, 0, 8, 0, 0, 0, 2]), Ok(vec![]));
        assert_eq!(
            session.take_output(),
            [1, ERROR, 0, 20, 0, 0, 0, 2, 0, 1, 0, 0, 1, 5, 0, 8, 0, 0, 0, 2]
        );
        // An echo may be of any version.
        let echo = vec![1, ECHO_REQUEST, 0, 8, 0, 0, 0, 2];
        assert_eq!(receive(&mut session, &echo), Ok(vec![echo]));
        assert_eq!(
            receive(&mut session, &[4, 5, 0, 7, 0, 0, 0, 1]),
            Err(BadLength { length: 7 }.into())
        );
    }
}
