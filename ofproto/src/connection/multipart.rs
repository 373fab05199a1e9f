//! Requests that a peer sends in several messages (OpenFlow 1.3, section 7.3.5).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::openflow::error::OfError;
use crate::openflow::header::Header;
use crate::openflow::kind::{Kind, Raw};
use crate::openflow::version::Version;

/// How long the next part may take.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Most bytes of the parts of a request. Table features can be over 1 MB.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// A request of which parts are missing.
#[derive(Debug)]
struct Partial {
    kind: Kind,
    parts: Vec<Vec<u8>>,
    bytes: usize,
    has_body: bool,
    timeout: Duration,
}

/// Whether more parts follow this one.
fn says_more(message: &[u8]) -> bool {
    message.get(10..12).is_some_and(|flags| flags.last().is_some_and(|low| low & 1 != 0))
}

/// The requests of a peer of which parts are missing, by their transaction ids.
#[derive(Debug, Default)]
pub(super) struct Multiparts(BTreeMap<u32, Partial>);

impl Multiparts {
    /// Takes a message in. Returns the parts of the request that it completes, of which those
    /// without a body are left out, but for one; a message that is no multipart request is
    /// complete itself.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub(super) fn take(
        &mut self,
        message: &[u8],
        now: Duration,
    ) -> Result<Option<Vec<Vec<u8>>>, OfError> {
        let kind = match Kind::of(message) {
            Ok(kind) if kind.is_stats_request() => kind,
            _ => return Ok(Some(vec![message.to_vec()])),
        };
        let version = message.first().copied().and_then(Version::from_wire);
        let version = version.ok_or(OfError::BadRequestVersion)?;
        let headers = kind.headers_len(version);
        let has_body = message.len() > headers;
        if has_body {
            Raw::parse(message)?;
        }
        let xid = Header::parse(message)?.xid;
        let partial = self.0.entry(xid).or_insert_with(|| Partial {
            kind,
            parts: vec![],
            bytes: 0,
            has_body: false,
            timeout: now,
        });
        partial.timeout = now.saturating_add(TIMEOUT);
        partial.bytes += message.len();
        partial.has_body |= has_body;
        let more = version >= Version::V13 && says_more(message);
        let error = if partial.kind != kind {
            Some(OfError::BadRequestStat)
        } else if partial.bytes > MOST_BYTES {
            Some(OfError::BadRequestMultipartBufferOverflow)
        } else if !more && !partial.has_body && kind.needs_body() {
            Some(OfError::BadRequestLen)
        } else {
            None
        };
        if let Some(error) = error {
            self.0.remove(&xid);
            return Err(error);
        }
        partial.parts.push(message.to_vec());
        if more {
            return Ok(None);
        }
        let mut parts = self.0.remove(&xid).map(|partial| partial.parts).unwrap_or_default();
        let first = parts.first().cloned();
        parts.retain(|part| part.len() > headers);
        if parts.is_empty() {
            parts.extend(first);
        }
        Ok(Some(parts))
    }

    /// Forgets the requests of which the next part did not come in time and returns the first part
    /// of each.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<Vec<u8>> {
        let late: Vec<_> = self.0.extract_if(.., |_, partial| partial.timeout <= now).collect();
        late.into_iter().filter_map(|(_, partial)| partial.parts.into_iter().next()).collect()
    }

    /// When the next one is to be forgotten.
    pub(super) fn due(&self) -> Option<Duration> {
        self.0.values().map(|partial| partial.timeout).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table features request of OpenFlow 1.3 with `body`, perhaps with more to follow.
    fn part(xid: u8, more: bool, body: &[u8]) -> Vec<u8> {
        let length = 16 + body.len() as u8;
        let head = [4, 18, 0, length, 0, 0, 0, xid, 0, 12, 0, u8::from(more), 0, 0, 0, 0];
        [&head[..], body].concat()
    }

    #[test]
    fn parts_come_together() {
        let mut multiparts = Multiparts::default();
        let now = Duration::ZERO;
        let [first, other, empty, last] = [
            part(1, true, &[1; 8]),
            part(2, true, &[]),
            part(1, true, &[]),
            part(1, false, &[2; 8]),
        ];
        assert_eq!(multiparts.take(&first, now), Ok(None));
        assert_eq!(multiparts.take(&other, now), Ok(None));
        assert_eq!(multiparts.take(&empty, now), Ok(None));
        assert_eq!(multiparts.take(&last, now), Ok(Some(vec![first, last])));
        let end = part(2, false, &[]);
        assert_eq!(multiparts.take(&end, now), Ok(Some(vec![other])));
        // Anything else passes.
        let hello = vec![4, 0, 0, 8, 0, 0, 0, 1];
        assert_eq!(multiparts.take(&hello, now), Ok(Some(vec![hello])));
    }

    #[test]
    fn what_never_ends_is_forgotten() {
        let mut multiparts = Multiparts::default();
        let first = part(1, true, &[1; 8]);
        assert_eq!(multiparts.take(&first, Duration::ZERO), Ok(None));
        assert_eq!(multiparts.due(), Some(TIMEOUT));
        assert_eq!(multiparts.expire(TIMEOUT / 2), Vec::<Vec<u8>>::new());
        assert_eq!(multiparts.expire(TIMEOUT), [first]);
        assert_eq!(multiparts.due(), None);
    }

    #[test]
    fn contradictions_are_refused() {
        let mut multiparts = Multiparts::default();
        let now = Duration::ZERO;
        assert_eq!(multiparts.take(&part(1, true, &[]), now), Ok(None));
        let mut other = part(1, true, &[]);
        other[9] = 13;
        assert_eq!(multiparts.take(&other, now), Err(OfError::BadRequestStat));
        // A group statistics request needs a body.
        let mut group = part(3, false, &[]);
        group[9] = 6;
        assert_eq!(multiparts.take(&group, now), Err(OfError::BadRequestLen));
        assert_eq!(multiparts.due(), None);
    }
}
