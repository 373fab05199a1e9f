//! One OpenFlow connection as a state machine: bytes in, bytes out.

use thiserror::Error;

use crate::openflow::error::{ErrorMessage, OfError};
use crate::openflow::header::{BadLength, HEADER_LEN, Header, Splitter};
use crate::openflow::version::{Version, VersionSet};

// Types of the messages that are the same in every version (OpenFlow 1.0, section 5.1).
const HELLO: u8 = 0;
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;

/// Hello element with a bitmap of versions (OpenFlow 1.3.1, section 7.5.1).
const ELEMENT_VERSION_BITMAP: u16 = 1;

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The stream cannot be cut into messages.
    #[error(transparent)]
    Length(#[from] BadLength),
    /// The peer's first message is no hello.
    #[error("received message of type {kind} while expecting hello")]
    NoHello {
        /// Type of the message.
        kind: u8,
    },
    /// There is no version that both sides speak.
    #[error("version negotiation failed (we support versions {ours}, peer supports {theirs})")]
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
    allowed: VersionSet,
    /// The version agreed on, once the peer has said hello.
    version: Option<Version>,
    input: Splitter,
    output: Vec<u8>,
}

impl Session {
    /// A connection on which the versions `allowed` may be spoken; it begins with our hello.
    pub fn new(allowed: VersionSet) -> Self {
        let output = hello(allowed);
        Self { allowed, version: None, input: Splitter::default(), output }
    }

    /// The version agreed on, once there is one.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// What is to be sent to the peer; the session forgets it.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Takes bytes from the peer in. What it has to be told is in
    /// [`take_output`](Self::take_output) afterwards, also when the connection is to end.
    ///
    /// # Errors
    /// When the connection is to end.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        self.input.push(bytes);
        while let Some(message) = self.input.next_message()? {
            // A message is never shorter than its header.
            let Ok(header) = Header::parse(message) else { continue };
            let body = message.get(HEADER_LEN..).unwrap_or_default();
            let Some(version) = self.version else {
                self.version = Some(negotiate(self.allowed, header, body, &mut self.output)?);
                continue;
            };
            let reply = if header.version != version as u8 {
                Some(ErrorMessage::reply(OfError::BadRequestVersion, version, message))
            } else {
                match header.kind {
                    HELLO | ERROR | ECHO_REPLY => None,
                    ECHO_REQUEST => Some(echo_reply(message)),
                    _ => Some(ErrorMessage::reply(OfError::BadRequestType, version, message)),
                }
            };
            self.output.extend(reply.into_iter().flatten());
        }
        Ok(())
    }
}

/// The version that both sides speak, from the peer's first message. Without one, the error that
/// tells the peer so is appended to `output`.
fn negotiate(
    allowed: VersionSet,
    header: Header,
    body: &[u8],
    output: &mut Vec<u8>,
) -> Result<Version, SessionError> {
    if header.kind != HELLO {
        return Err(SessionError::NoHello { kind: header.kind });
    }
    let theirs = version_bitmap(body).unwrap_or_else(|| VersionSet::up_to(header.version));
    allowed.negotiate(theirs).ok_or_else(|| {
        let error = SessionError::NoCommonVersion { ours: allowed, theirs };
        let explanation = ErrorMessage {
            error: OfError::HelloIncompatible,
            data: error.to_string().into_bytes(),
        };
        output.extend(explanation.encode(ours(allowed), header.xid));
        error
    })
}

/// The version in which we say hello: the greatest that we speak.
fn ours(allowed: VersionSet) -> Version {
    Version::from_wire(allowed.greatest()).unwrap_or(Version::V10)
}

/// Our hello: the greatest version in the header and all of them in a bitmap.
fn hello(allowed: VersionSet) -> Vec<u8> {
    let [v0, v1, v2, v3] = allowed.bits().to_be_bytes();
    let [element_high, element_low] = ELEMENT_VERSION_BITMAP.to_be_bytes();
    vec![
        ours(allowed) as u8,
        HELLO,
        0,
        16,
        0,
        0,
        0,
        1, // header
        element_high,
        element_low,
        0,
        8,
        v0,
        v1,
        v2,
        v3,
    ]
}

/// The versions in the bitmap element of a hello, if it has one.
fn version_bitmap(mut elements: &[u8]) -> Option<VersionSet> {
    loop {
        let (&[t0, t1, l0, l1], _) = elements.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let content = elements.get(4..length)?;
        if u16::from_be_bytes([t0, t1]) == ELEMENT_VERSION_BITMAP {
            return Some(VersionSet::from_bits(u32::from_be_bytes(*content.first_chunk()?)));
        }
        // Elements are padded to multiples of 8 bytes.
        elements = elements.get(length.next_multiple_of(8)..)?;
    }
}

/// An echo reply: the request with another type.
fn echo_reply(request: &[u8]) -> Vec<u8> {
    let mut reply = request.to_vec();
    if let Some(kind) = reply.get_mut(1) {
        *kind = ECHO_REPLY;
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> VersionSet {
        Version::ALL.into_iter().collect()
    }

    /// A session after our hello and the peer's, which speaks OpenFlow 1.3.
    fn open() -> Session {
        let mut session = Session::new(all());
        session.take_output();
        session.receive(&[4, HELLO, 0, 8, 0, 0, 0, 9]).unwrap();
        assert_eq!(session.version(), Some(Version::V13));
        assert_eq!(session.take_output(), []);
        session
    }

    #[test]
    fn says_hello_first() {
        let mut session = Session::new(all());
        assert_eq!(session.take_output(), [6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x7e]);
        assert_eq!(session.take_output(), []);
    }

    #[test]
    fn the_bitmap_counts_more_than_the_header() {
        let mut session = Session::new(all());
        // Another element comes first; the bitmap says 1.0 and 1.2.
        let hello =
            [6, HELLO, 0, 24, 0, 0, 0, 1, 0, 9, 0, 5, 1, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0b1010];
        session.receive(&hello).unwrap();
        assert_eq!(session.version(), Some(Version::V12));
    }

    #[test]
    fn malformed_elements_leave_the_header() {
        for element in [&[0, 1, 0, 3][..], &[0, 1, 0, 8, 0, 0][..], &[0, 1, 0, 6, 0, 0][..], &[0]] {
            let mut hello = vec![2, HELLO, 0, 8 + element.len() as u8, 0, 0, 0, 1];
            hello.extend(element);
            let mut session = Session::new(all());
            session.receive(&hello).unwrap();
            assert_eq!(session.version(), Some(Version::V11), "{element:?}");
        }
    }

    #[test]
    fn no_common_version_is_told() {
        let only_13 = [Version::V13].into_iter().collect();
        let mut session = Session::new(only_13);
        session.take_output();
        let error = session.receive(&[1, HELLO, 0, 8, 0, 0, 0, 7]).unwrap_err();
        let text = "version negotiation failed (we support versions 0x04, peer supports 0x01)";
        assert_eq!(error.to_string(), text);
        let mut told = vec![4, ERROR, 0, (12 + text.len()) as u8, 0, 0, 0, 7, 0, 0, 0, 0];
        told.extend(text.as_bytes());
        assert_eq!(session.take_output(), told);
    }

    #[test]
    fn the_first_message_is_a_hello() {
        let mut session = Session::new(all());
        let error = session.receive(&[1, ECHO_REQUEST, 0, 8, 0, 0, 0, 7]).unwrap_err();
        assert_eq!(error, SessionError::NoHello { kind: ECHO_REQUEST });
    }

    #[test]
    fn echoes_come_back_however_they_are_cut() {
        let request = [4, ECHO_REQUEST, 0, 11, 1, 2, 3, 4, b'a', b'b', b'c'];
        let reply = [4, ECHO_REPLY, 0, 11, 1, 2, 3, 4, b'a', b'b', b'c'];
        let mut session = open();
        session.receive(&request[..5]).unwrap();
        assert_eq!(session.take_output(), []);
        session.receive(&request[5..]).unwrap();
        assert_eq!(session.take_output(), reply);
        session.receive(&[request, request].concat()).unwrap();
        assert_eq!(session.take_output(), [reply, reply].concat());
    }

    #[test]
    fn other_requests_and_versions_are_refused() {
        let mut session = open();
        session.receive(&[4, 5, 0, 8, 0, 0, 0, 1]).unwrap();
        assert_eq!(
            session.take_output(),
            [4, ERROR, 0, 20, 0, 0, 0, 1, 0, 1, 0, 1, 4, 5, 0, 8, 0, 0, 0, 1]
        );
        session.receive(&[1, ECHO_REQUEST, 0, 8, 0, 0, 0, 2]).unwrap();
        assert_eq!(
            session.take_output(),
            [4, ERROR, 0, 20, 0, 0, 0, 2, 0, 1, 0, 0, 1, 2, 0, 8, 0, 0, 0, 2]
        );
        // Neither hello, error nor echo reply is answered.
        session.receive(&[4, HELLO, 0, 8, 0, 0, 0, 3, 4, ECHO_REPLY, 0, 8, 0, 0, 0, 4]).unwrap();
        session.receive(&[4, ERROR, 0, 12, 0, 0, 0, 5, 0, 1, 0, 1]).unwrap();
        assert_eq!(session.take_output(), []);
        assert_eq!(session.receive(&[4, 5, 0, 7, 0, 0, 0, 1]), Err(BadLength { length: 7 }.into()));
    }
}
