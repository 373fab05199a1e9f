//! Bundles of OpenFlow 1.4 and the ONF's extension for 1.3, and forwarded requests.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::header::{self, HEADER_LEN, Header};
use super::super::kind::{Kind, Raw};
use super::super::version::Version;
use super::super::wire::Reader;

/// What a bundle control message says (`ofp14_bundle_ctrl_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleType(pub u16);

impl BundleType {
    /// Open a bundle; each request is one less than its reply.
    pub const OPEN_REQUEST: BundleType = BundleType(0);
    /// Close the bundle to further messages.
    pub const CLOSE_REQUEST: BundleType = BundleType(2);
    /// Execute the bundle.
    pub const COMMIT_REQUEST: BundleType = BundleType(4);
    /// Forget the bundle.
    pub const DISCARD_REQUEST: BundleType = BundleType(6);

    /// The reply to this request.
    pub fn reply(self) -> BundleType {
        BundleType(self.0 | 1)
    }

    /// The name, `None` for an unknown number.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 8] = [
            "OPEN_REQUEST",
            "OPEN_REPLY",
            "CLOSE_REQUEST",
            "CLOSE_REPLY",
            "COMMIT_REQUEST",
            "COMMIT_REPLY",
            "DISCARD_REQUEST",
            "DISCARD_REPLY",
        ];
        NAMES.get(usize::from(self.0)).copied()
    }
}

/// Flags of bundles (`ofp14_bundle_flags`).
pub mod bundle_flag {
    /// All or nothing.
    pub const ATOMIC: u16 = 1;
    /// In the order of the messages.
    pub const ORDERED: u16 = 2;
}

/// A bundle control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleControl {
    /// The bundle.
    pub bundle_id: u32,
    /// What to do.
    pub bundle_type: BundleType,
    /// Bits of [`bundle_flag`].
    pub flags: u16,
}

impl BundleControl {
    /// Reads the message.
    ///
    /// # Errors
    /// `BadRequestLen`, never for a message that `Raw` has accepted.
    pub fn decode(raw: &Raw<'_>) -> Result<BundleControl, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        Ok(BundleControl {
            bundle_id: body.u32()?,
            bundle_type: BundleType(body.u16()?),
            flags: body.u16()?,
        })
    }

    /// Encodes the message; OpenFlow 1.3 and later.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let kind = match version >= Version::V14 {
            true => Kind::BundleControl14,
            false => Kind::OnfBundleControl13,
        };
        let mut out = kind.start(version, xid);
        out.put_u32(self.bundle_id);
        out.put_u16(self.bundle_type.0);
        out.put_u16(self.flags);
        header::finish(out)
    }
}

/// A message added to a bundle.
#[derive(Clone, Copy, Debug)]
pub struct BundleAdd<'a> {
    /// The bundle.
    pub bundle_id: u32,
    /// Bits of [`bundle_flag`].
    pub flags: u16,
    /// The message.
    pub message: Raw<'a>,
}

/// The messages that a bundle may hold.
const BUNDLABLE: [Kind; 12] = [
    Kind::PortMod10,
    Kind::PortMod11,
    Kind::PortMod14,
    Kind::FlowMod10,
    Kind::FlowMod11,
    Kind::NxFlowMod,
    Kind::GroupMod11,
    Kind::GroupMod15,
    Kind::NxGroupMod,
    Kind::PacketOut10,
    Kind::PacketOut11,
    Kind::PacketOut15,
];

impl<'a> BundleAdd<'a> {
    /// Reads the message and finds the kind of the message in it.
    ///
    /// # Errors
    /// `Bundle...` errors.
    pub fn decode(raw: &Raw<'a>) -> Result<BundleAdd<'a>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let bundle_id = body.u32()?;
        body.skip(2)?;
        let flags = body.u16()?;
        let inner = inner_message(&body)?;
        if inner.version != raw.header.version {
            return Err(OfError::BundleBadVersion);
        }
        let message = whole_message(body, &inner)?;
        if inner.xid != raw.header.xid {
            return Err(OfError::BundleMsgBadXid);
        }
        let message = Raw::parse(message).map_err(|_| OfError::BundleMsgUnsup)?;
        match BUNDLABLE.contains(&message.kind) {
            true => Ok(BundleAdd { bundle_id, flags, message }),
            false => Err(OfError::BundleMsgUnsup),
        }
    }

    /// Encodes the message that adds `message`, whose transaction id it has, to a bundle.
    pub fn encode(bundle_id: u32, flags: u16, message: &[u8], version: Version) -> Vec<u8> {
        let kind = match version >= Version::V14 {
            true => Kind::BundleAddMessage14,
            false => Kind::OnfBundleAddMessage13,
        };
        let xid = Header::parse(message).map_or(0, |header| header.xid);
        let mut out = kind.start(version, xid);
        out.put_u32(bundle_id);
        out.put_u16(0);
        out.put_u16(flags);
        out.put_slice(message);
        header::finish(out)
    }
}

fn inner_message(body: &Reader<'_>) -> Result<Header, OfError> {
    Header::parse(body.rest()).map_err(|_| OfError::BundleMsgBadLen)
}

/// The bytes of the message with this header at the front.
fn whole_message<'a>(body: Reader<'a>, header: &Header) -> Result<&'a [u8], OfError> {
    let len = usize::from(header.length);
    let message = body.rest().get(..len).filter(|_| len >= HEADER_LEN);
    message.ok_or(OfError::BundleMsgBadLen)
}

/// Finds the request that a request-forward message carries: a group or meter modification.
///
/// # Errors
/// The error that Open vSwitch reports.
pub fn decode_request_forward<'a>(raw: &Raw<'a>) -> Result<Raw<'a>, OfError> {
    let body = Reader::new(raw.body, OfError::BadRequestLen);
    let inner = inner_message(&body)?;
    let message = whole_message(body, &inner)?;
    if inner.version != raw.header.version {
        return Err(OfError::BadRequestVersion);
    }
    let message = Raw::parse(message)?;
    match message.kind {
        Kind::GroupMod11 | Kind::GroupMod15 | Kind::NxGroupMod | Kind::MeterMod13 => Ok(message),
        _ => Err(OfError::BundleMsgUnsup),
    }
}

/// The message that forwards `request` to other controllers.
pub fn encode_request_forward(request: &[u8], version: Version, xid: u32) -> Vec<u8> {
    let kind = match version {
        Version::V10 | Version::V11 | Version::V12 => Kind::NxRequestforward,
        Version::V13 => Kind::OnfRequestforward13,
        Version::V14 | Version::V15 => Kind::Requestforward14,
    };
    let mut out = kind.start(version, xid);
    out.put_slice(request);
    header::finish(out)
}
