//! The wire forms of actions: numbers, versions and lengths.

use bytes::BufMut;

use super::super::error::{NICIRA, ONF, OfError};
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16};

/// The action type of experimenter actions.
const TYPE_VENDOR: u16 = 0xffff;
/// Actions are a multiple of so many bytes long.
pub(super) const ALIGN: usize = 8;
/// The greatest length of an action.
const MAX_LEN: usize = 65_528;

/// How some versions write an action.
struct Form {
    raw: Raw,
    first: u8,
    last: u8,
    vendor: u32,
    kind: u16,
    /// Least bytes; exactly so many unless extensible.
    min_len: usize,
    extensible: bool,
}

macro_rules! vendor {
    (of) => {
        0
    };
    (nx) => {
        NICIRA
    };
    (onf) => {
        ONF
    };
}

macro_rules! forms {
    ($($raw:ident { $($vendor:ident $first:literal ..= $last:literal ($kind:literal)
        $min:literal $($extensible:ident)?),+ })+) => {
        /// A wire form of an action.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Raw { $($raw),+ }

        static FORMS: &[Form] = &[$($(Form {
            raw: Raw::$raw,
            first: $first,
            last: $last,
            vendor: vendor!($vendor),
            kind: $kind,
            min_len: $min,
            extensible: !stringify!($($extensible)?).is_empty(),
        },)+)+];
    };
}

// Standard actions: OpenFlow 1.0 section 5.2.4, 1.1 to 1.5 "Action Structures".
// Vendor, versions (wire numbers), type, bytes.
forms! {
    Output10 { of 1..=1 (0) 8 }
    Output11 { of 2..=6 (0) 16 }
    SetVlanVid10 { of 1..=1 (1) 8 }
    SetVlanPcp10 { of 1..=1 (2) 8 }
    SetVlanVid11 { of 2..=6 (1) 8 }
    SetVlanPcp11 { of 2..=6 (2) 8 }
    PushVlan { of 2..=6 (17) 8 }
    StripVlan { of 1..=1 (3) 8 }
    PopVlan { of 2..=6 (18) 8 }
    SetEthSrc { of 1..=1 (4) 16, of 2..=6 (3) 16 }
    SetEthDst { of 1..=1 (5) 16, of 2..=6 (4) 16 }
    SetIpv4Src { of 1..=1 (6) 8, of 2..=6 (5) 8 }
    SetIpv4Dst { of 1..=1 (7) 8, of 2..=6 (6) 8 }
    SetIpDscp { of 1..=1 (8) 8, of 2..=6 (7) 8 }
    SetIpEcn { of 2..=6 (8) 8 }
    SetTransportSrc { of 1..=6 (9) 8 }
    SetTransportDst { of 1..=6 (10) 8 }
    Enqueue { of 1..=1 (11) 16 }
    SetMplsLabel { nx 1..=1 (30) 16, of 2..=6 (13) 8 }
    SetMplsTc { nx 1..=1 (31) 16, of 2..=6 (14) 8 }
    SetMplsTtl { nx 1..=1 (25) 16, of 2..=6 (15) 8 }
    DecMplsTtl { nx 1..=1 (26) 16, of 2..=6 (16) 8 }
    PushMpls { nx 1..=1 (23) 16, of 2..=6 (19) 8 }
    PopMpls { nx 1..=1 (24) 16, of 2..=6 (20) 8 }
    SetQueue { nx 1..=1 (4) 16, of 2..=6 (21) 8 }
    Group { nx 1..=1 (40) 16, of 2..=6 (22) 8 }
    SetIpTtl { of 2..=6 (23) 8 }
    DecTtl { nx 1..=1 (18) 16, of 2..=6 (24) 8 }
    DecTtlIds { nx 1..=6 (21) 16 extensible }
    SetField12 { of 3..=5 (25) 8 extensible }
    SetField15 { of 6..=6 (25) 8 extensible }
    Load { nx 1..=5 (7) 24 }
    Load2 { nx 1..=5 (33) 16 extensible }
    CopyField15 { of 6..=6 (28) 16 extensible }
    CopyField13 { onf 4..=5 (3200) 24 extensible }
    Move { nx 1..=5 (6) 16 extensible }
    Meter { of 6..=6 (29) 8 }
    Resubmit { nx 1..=6 (1) 16 }
    ResubmitTable { nx 1..=6 (14) 16 }
    ResubmitTableCt { nx 1..=6 (44) 16 }
    SetTunnel { nx 1..=6 (2) 16 }
    SetTunnel64 { nx 1..=6 (9) 24 }
    PopQueue { nx 1..=6 (5) 16 }
    Note { nx 1..=6 (8) 16 extensible }
    Multipath { nx 1..=6 (10) 32 }
    Bundle { nx 1..=6 (12) 32 extensible }
    BundleLoad { nx 1..=6 (13) 32 extensible }
    OutputReg { nx 1..=6 (15) 24 }
    OutputReg2 { nx 1..=6 (32) 24 }
    Learn { nx 1..=6 (16) 32 extensible }
    Learn2 { nx 1..=6 (45) 40 extensible }
    Exit { nx 1..=6 (17) 16 }
    FinTimeout { nx 1..=6 (19) 16 }
    Controller { nx 1..=6 (20) 16 }
    Controller2 { nx 1..=6 (37) 16 extensible }
    WriteMetadata { nx 1..=6 (22) 32 }
    StackPush { nx 1..=6 (27) 24 }
    StackPop { nx 1..=6 (28) 24 }
    Sample { nx 1..=6 (29) 24 }
    Sample2 { nx 1..=6 (38) 32 }
    Sample3 { nx 1..=6 (41) 32 }
    Sample4 { nx 1..=6 (51) 40 }
    Conjunction { nx 1..=6 (34) 16 }
    Ct { nx 1..=6 (35) 24 extensible }
    Nat { nx 1..=6 (36) 16 extensible }
    OutputTrunc { nx 1..=6 (39) 16 }
    Clone { nx 1..=6 (42) 16 extensible }
    CtClear { nx 1..=6 (43) 16 }
    Encap { nx 4..=6 (46) 16 extensible }
    Decap { nx 4..=6 (47) 16 extensible }
    DecNshTtl { nx 4..=6 (48) 16 }
    CheckPktLarger { nx 1..=6 (49) 24 extensible }
    DeleteField { nx 1..=6 (50) 24 }
    DebugSlow { nx 1..=6 (254) 16 }
    DebugRecirc { nx 1..=6 (255) 16 }
}

/// Reads the header of the action at the front of `reader` and checks its length. The reader that
/// is returned stands after the header: the type, length and, for experimenter actions, the
/// experimenter and subtype. The length of that header comes with it.
///
/// # Errors
/// `BadActionType`, `BadActionVendor`, `BadActionVendorType` and `BadActionLen`.
pub(super) fn read<'a>(
    reader: &mut Reader<'a>,
    version: Version,
) -> Result<(Raw, usize, Reader<'a>), OfError> {
    let mut header = reader.with_error(OfError::BadActionLen);
    let (kind, len) = (header.u16()?, usize::from(header.u16()?));
    let vendor = header.u32()?;
    let (vendor, kind, header_len) = match (kind, vendor) {
        (TYPE_VENDOR, NICIRA | ONF) => {
            let subtype = header.u16()?;
            header.skip(6)?;
            (vendor, subtype, 10)
        }
        (TYPE_VENDOR, _) => return Err(OfError::BadActionVendor),
        _ => (0, kind, 4),
    };
    let number = version as u8;
    let form = FORMS.iter().find(|form| {
        (form.vendor, form.kind) == (vendor, kind) && (form.first..=form.last).contains(&number)
    });
    let form = form.ok_or(match vendor {
        0 => OfError::BadActionType,
        _ => OfError::BadActionVendorType,
    })?;
    let max_len = if form.extensible { MAX_LEN } else { form.min_len };
    if len > reader.len() || !(form.min_len..=max_len).contains(&len) || len % ALIGN != 0 {
        return Err(OfError::BadActionLen);
    }
    let mut action = reader.with_error(OfError::BadActionLen).sub(len)?;
    reader.skip(len)?;
    action.skip(header_len)?;
    Ok((form.raw, header_len, action))
}

/// Appends an action: its header, `body` and zeros up to its least length and alignment.
///
/// The form is that of `version`, or the action's first form when `version` has none: then the
/// caller has chosen an extension that the peer may know nevertheless.
pub(super) fn put(out: &mut Vec<u8>, version: Version, raw: Raw, body: &[u8]) {
    let number = version as u8;
    let mut forms = FORMS.iter().filter(|form| form.raw == raw);
    let form = forms
        .clone()
        .find(|form| (form.first..=form.last).contains(&number))
        .or_else(|| forms.next());
    let Some(form) = form else { return };
    let start = out.len();
    out.put_u16(if form.vendor == 0 { form.kind } else { TYPE_VENDOR });
    out.put_u16(0);
    if form.vendor != 0 {
        out.put_u32(form.vendor);
        out.put_u16(form.kind);
    }
    out.put_slice(body);
    let len = (out.len() - start).max(form.min_len).next_multiple_of(ALIGN);
    out.resize(start + len, 0);
    patch_u16(out, start + 2, len as u16);
}

/// Appends an action with one argument of `bytes` bytes, which experimenter actions align.
pub(super) fn put_number(out: &mut Vec<u8>, version: Version, raw: Raw, bytes: usize, number: u64) {
    let vendor = FORMS.iter().any(|form| {
        form.raw == raw && form.vendor != 0 && (form.first..=form.last).contains(&(version as u8))
    });
    let mut body = Vec::new();
    if vendor {
        body.resize(10usize.next_multiple_of(bytes) - 10, 0);
    }
    body.put_uint(number, bytes);
    put(out, version, raw, &body);
}

/// The single argument of an action, `bytes` bytes long. The reader stands after a header of
/// `header_len` bytes; the argument is aligned to its size.
pub(super) fn number(
    reader: &mut Reader<'_>,
    header_len: usize,
    bytes: usize,
) -> Result<u64, OfError> {
    reader.skip(header_len.next_multiple_of(bytes) - header_len)?;
    Ok(reader.bytes(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
