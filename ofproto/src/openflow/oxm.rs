//! Extensible matches: Nicira's NXM and OpenFlow's OXM entries to and from a [`Match`].
//!
//! OpenFlow 1.2, section A.2.3; a match in NXM form is the same sequence of entries without the
//! header.

use bytes::BufMut;

use super::error::OfError;
use super::field::{Field, OxmHeader, Prerequisite};
use super::flow_match::{Match, VLAN_PCP, VLAN_PRESENT, VLAN_VID, ip_proto};
use super::slot::{N_TUN_METADATA, N_XXREGS, Slot};
use super::tlv_map::{TlvMap, TlvOption};
use super::value::{Value, low_ones};
use super::version::Version;
use super::wire::{Reader, pad8, patch_u16};

/// The match type of OXM matches.
const MATCH_TYPE_OXM: u16 = 1;

/// How to read a match.
#[derive(Clone, Copy, Debug)]
pub struct MatchRules<'a> {
    /// Reject unknown fields and unmet prerequisites; else skip the former and ignore the latter.
    pub strict: bool,
    /// Reject fields that belong to the packet.
    pub pipeline_only: bool,
    /// The switch's tunnel options. Without them every length is taken as it comes.
    pub tlv: Option<&'a TlvMap>,
}

impl MatchRules<'_> {
    /// The rules for messages to a switch without a TLV table.
    pub const STRICT: MatchRules<'static> =
        MatchRules { strict: true, pipeline_only: false, tlv: None };
    /// The rules for data that came from a switch.
    pub const LOOSE: MatchRules<'static> =
        MatchRules { strict: false, pipeline_only: false, tlv: None };
}

/// The pseudo-field by which NXM matches a flow's cookie.
fn is_cookie(header: &OxmHeader) -> bool {
    (header.class, header.number, header.value_len()) == (1, 30, 8)
        && header.length == if header.has_mask { 16 } else { 8 }
}

/// A field with value and mask as a message carries them. The mask is `None` when none was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValue {
    /// The field.
    pub field: Field,
    /// The value.
    pub value: Value,
    /// The bits that count.
    pub mask: Option<Value>,
}

/// Checks that the switch maps a tunnel metadata field.
pub(crate) fn check_mapped(field: Field, tlv: Option<&TlvMap>) -> Result<(), OfError> {
    match (field.slot().tun_metadata_index(), tlv) {
        (Some(index), Some(tlv)) if tlv.get(index).is_none() => {
            Err(OfError::FlowModInvalidTlvField)
        }
        _ => Ok(()),
    }
}

/// The bytes that a value of `field` has here.
pub(crate) fn mapped_bytes(field: Field, tlv: Option<&TlvMap>) -> usize {
    let mapped = field.slot().tun_metadata_index().and_then(|index| tlv?.get(index));
    mapped.map_or(field.bytes(), TlvOption::bytes)
}

/// Reads an entry's header and finds its field.
///
/// # Errors
/// The errors of the header, else `unknown(header)` for a field that is not known.
pub(crate) fn read_header(
    reader: &mut Reader<'_>,
    tlv: Option<&TlvMap>,
) -> Result<(OxmHeader, Result<Field, OfError>), OfError> {
    let header = OxmHeader::parse(reader)?;
    let field = Field::from_oxm_header(&header).ok_or(OfError::BadMatchField);
    if let Ok(field) = field {
        check_mapped(field, tlv)?;
    }
    Ok((header, field))
}

/// Reads value and mask after a header.
fn read_payload(
    reader: &mut Reader<'_>,
    header: &OxmHeader,
    field: Option<Field>,
    tlv: Option<&TlvMap>,
) -> Result<(Value, Option<Value>), OfError> {
    let mut payload = reader.with_error(OfError::BadMatchLen).sub(header.payload_len())?;
    reader.skip(header.payload_len())?;
    let width = header.value_len();
    let (value, mask) =
        (payload.bytes(width)?, payload.bytes(if header.has_mask { width } else { 0 })?);
    if value.iter().zip(mask).any(|(value, mask)| value & !mask != 0) {
        return Err(OfError::BadMatchWildcards);
    }
    let len = field.map_or(width, |field| mapped_bytes(field, tlv));
    let number = |bytes: &[u8]| Value::from_bytes(bytes.get(..len).unwrap_or(bytes));
    Ok((number(value), header.has_mask.then(|| number(mask))))
}

/// Reads one entry of an action, which may have a mask.
///
/// # Errors
/// `BadActionSetLen` and `BadActionSetType` for unknown fields, else as for matches.
pub(crate) fn read_action_entry(
    reader: &mut Reader<'_>,
    tlv: Option<&TlvMap>,
) -> Result<FieldValue, OfError> {
    let (header, field) = read_header(reader, tlv)?;
    let field = field.map_err(|_| match Field::wrong_length(&header) {
        true => OfError::BadActionSetLen,
        false => OfError::BadActionSetType,
    })?;
    let (value, mask) = read_payload(reader, &header, Some(field), tlv)?;
    Ok(FieldValue { field, value, mask })
}

/// Reads a list of fields with values and without masks, as group properties carry it.
pub(crate) fn read_field_array(mut reader: Reader<'_>) -> Result<Vec<(Field, Value)>, OfError> {
    let mut fields: Vec<(Field, Value)> = Vec::new();
    while !reader.is_empty() {
        let (header, field) = read_header(&mut reader, None)?;
        let (value, mask) = read_payload(&mut reader, &header, field.ok(), None)?;
        if mask.is_some() {
            return Err(OfError::BadMatchMask);
        }
        let field = field?;
        match fields.binary_search_by_key(&field, |(field, _)| *field) {
            Ok(_) => return Err(OfError::BadMatchDupField),
            Err(_) if !field.is_mask_valid(&value) => return Err(OfError::BadMatchMask),
            Err(place) => fields.insert(place, (field, value)),
        }
    }
    Ok(fields)
}

/// A cookie and the bits of it that count.
pub type CookieMatch = (u64, u64);

/// Reads entries until the bytes end. A cookie is allowed when `cookie` is given.
fn read_entries(
    mut reader: Reader<'_>,
    rules: &MatchRules<'_>,
    mut cookie: Option<&mut CookieMatch>,
) -> Result<Match, OfError> {
    let mut flow_match = Match::new();
    while !reader.is_empty() {
        let (header, field) = read_header(&mut reader, rules.tlv)?;
        let (value, mask) = read_payload(&mut reader, &header, field.ok(), rules.tlv)?;
        let field = match field {
            Ok(field) => field,
            Err(_) if cookie.is_some() && is_cookie(&header) => {
                let cookie = cookie.as_mut().ok_or(OfError::BadMatchField)?;
                if cookie.1 != 0 {
                    return Err(OfError::BadMatchDupField);
                }
                let mask = mask.map_or(u64::MAX, |mask| mask.low() as u64);
                **cookie = (value.low() as u64, mask);
                continue;
            }
            Err(_) if !rules.strict => continue,
            Err(error) => return Err(error),
        };
        let masked = mask.is_some();
        let mask = mask.unwrap_or_else(|| Value::ones(field.bytes() * 8));
        if !field.is_mask_valid(&mask) {
            return Err(OfError::BadMatchMask);
        }
        if !field.is_value_valid(&value) {
            return Err(OfError::BadMatchValue);
        }
        if rules.strict && !field.prerequisite_met(&flow_match) {
            return Err(OfError::BadMatchPrereq);
        }
        if !flow_match.is_wild(field) {
            return Err(OfError::BadMatchDupField);
        }
        if rules.pipeline_only && !field.is_pipeline() {
            return Err(OfError::BadRequestPipelineFieldsOnly);
        }
        let mapped = field.slot().tun_metadata_index().zip(rules.tlv);
        let stored = match mapped.and_then(|(index, tlv)| Some((index, tlv.get(index)?))) {
            Some((index, option)) => {
                let len = option.bytes();
                let masked = len == 0 || masked && !mask.is_ones(len * 8);
                flow_match.set_tun_metadata(index, &value, &mask, len, masked)
            }
            None => flow_match.set_field(field, &value, &mask),
        };
        stored.map_err(|_| OfError::BadMatchValue)?;
        if field.prerequisite() != Prerequisite::None {
            flow_match.require_ethernet();
        }
    }
    Ok(flow_match)
}

/// Reads a match in NXM form of `match_len` bytes, and the padding after it, from the front of
/// `reader`. When `cookie` is given the match may contain a cookie.
///
/// # Errors
/// The error that Open vSwitch replies with: `BadMatch...` or `FlowModInvalidTlvField`.
pub(crate) fn read_nxm(
    reader: &mut Reader<'_>,
    match_len: usize,
    rules: &MatchRules<'_>,
    cookie: Option<&mut CookieMatch>,
) -> Result<Match, OfError> {
    let mut padded = reader.with_error(OfError::BadMatchLen).sub(match_len.next_multiple_of(8))?;
    reader.skip(match_len.next_multiple_of(8))?;
    read_entries(padded.sub(match_len)?, rules, cookie)
}

/// Reads a match in OXM form, header and padding included, from the front of `reader`.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(crate) fn read_oxm(reader: &mut Reader<'_>, rules: &MatchRules<'_>) -> Result<Match, OfError> {
    let mut header = reader.with_error(OfError::BadMatchLen);
    let (kind, len) = (header.u16()?, usize::from(header.u16()?));
    if len < 4 {
        return Err(OfError::BadMatchLen);
    }
    if kind != MATCH_TYPE_OXM {
        return Err(OfError::BadMatchType);
    }
    let mut padded = reader.with_error(OfError::BadMatchLen).sub(len.next_multiple_of(8))?;
    reader.skip(len.next_multiple_of(8))?;
    padded.skip(4)?;
    read_entries(padded.sub(len - 4)?, rules, None)
}

/// Reads a bare sequence of OXM entries, as packet-in properties carry it.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(crate) fn read_raw(data: &[u8], rules: &MatchRules<'_>) -> Result<Match, OfError> {
    read_entries(Reader::new(data, OfError::BadMatchLen), rules, None)
}

/// Appends an entry: the header for `version` (NXM for `None`), the value and the mask if any, each
/// of `len` bytes. A field that has no header is left out.
pub(crate) fn put_entry(
    out: &mut Vec<u8>,
    version: Option<Version>,
    field: Field,
    value: &Value,
    mask: Option<&Value>,
    len: usize,
) {
    if let Some(header) = field.oxm_header(version, mask.is_some(), len) {
        header.put(out);
        out.extend(value.to_bytes(len));
        out.extend(mask.iter().flat_map(|mask| mask.to_bytes(len)));
    }
}

/// Writes the fields of a match as entries.
struct Writer<'a> {
    out: Vec<u8>,
    version: Option<Version>,
    flow_match: &'a Match,
    implied_ethernet: bool,
}

impl Writer<'_> {
    fn entry(&mut self, field: Field, value: u128, mask: Option<u128>) {
        let mask = mask.map(Value::from);
        let value = Value::from(value);
        put_entry(&mut self.out, self.version, field, &value, mask.as_ref(), field.bytes());
        self.implied_ethernet |= field.prerequisite() != Prerequisite::None;
    }

    /// Writes a field if it is matched, with its mask unless that is all ones.
    fn field(&mut self, field: Field) {
        let (value, mask) = self.flow_match.field(field);
        let all = match field {
            // These masks cannot cover all bits of their bytes.
            Field::NSH_SPI | Field::IP_FRAG => low_ones(field.bits()),
            Field::VLAN_VID => u128::from(VLAN_PRESENT | VLAN_VID),
            _ => low_ones(field.bytes() * 8),
        };
        if !mask.is_zero() {
            let mask = Some(mask.low()).filter(|mask| *mask != all);
            self.entry(field, value.low(), mask);
        }
    }

    /// Writes a field that cannot have a mask if any bit of it is matched.
    fn exact(&mut self, field: Field) {
        let (value, mask) = self.flow_match.field(field);
        if !mask.is_zero() {
            self.entry(field, value.low(), None);
        }
    }

    fn fields(&mut self, fields: &[Field]) {
        fields.iter().for_each(|field| self.field(*field));
    }

    fn exacts(&mut self, fields: &[Field]) {
        fields.iter().for_each(|field| self.exact(*field));
    }

    fn vlan(&mut self) {
        if self.version.is_none() {
            return self.field(Field::VLAN_TCI);
        }
        self.field(Field::VLAN_VID);
        let (value, mask) = self.flow_match.get(Slot::VLAN_TCI);
        if value & u128::from(VLAN_PRESENT | VLAN_VID) != 0 && mask & u128::from(VLAN_PCP) != 0 {
            self.exact(Field::VLAN_PCP);
        }
    }

    fn ip(&mut self) {
        self.fields(match self.flow_match.meets(Prerequisite::Ipv4) {
            true => &[Field::IPV4_SRC, Field::IPV4_DST],
            false => &[Field::IPV6_SRC, Field::IPV6_DST],
        });
        self.field(Field::IP_FRAG);
        self.exact(if self.version.is_some() { Field::IP_DSCP_SHIFTED } else { Field::IP_DSCP });
        self.exacts(&[Field::IP_ECN, Field::IP_TTL]);
        self.field(Field::IPV6_LABEL);
        if self.flow_match.mask(Slot::NW_PROTO) == 0 {
            return;
        }
        self.exact(Field::IP_PROTO);
        match self.flow_match.value(Slot::NW_PROTO) as u8 {
            ip_proto::TCP => self.fields(&[Field::TCP_SRC, Field::TCP_DST, Field::TCP_FLAGS]),
            ip_proto::UDP => self.fields(&[Field::UDP_SRC, Field::UDP_DST]),
            ip_proto::SCTP => self.fields(&[Field::SCTP_SRC, Field::SCTP_DST]),
            _ if self.flow_match.meets(Prerequisite::Icmpv4) => {
                self.exacts(&[Field::ICMPV4_TYPE, Field::ICMPV4_CODE]);
            }
            _ if self.flow_match.meets(Prerequisite::Icmpv6) => {
                self.exacts(&[Field::ICMPV6_TYPE, Field::ICMPV6_CODE]);
                if self.flow_match.is_neighbor_discovery() {
                    self.exact(Field::ND_RESERVED);
                    self.field(Field::ND_TARGET);
                    self.exact(Field::ND_OPTIONS_TYPE);
                    self.field(match self.flow_match.meets(Prerequisite::NdSolicit) {
                        true => Field::ND_SLL,
                        false => Field::ND_TLL,
                    });
                }
            }
            _ => {}
        }
    }

    fn tunnel(&mut self) {
        self.fields(&[
            Field::TUN_ID,
            Field::TUN_FLAGS,
            Field::TUN_SRC,
            Field::TUN_DST,
            Field::TUN_IPV6_SRC,
            Field::TUN_IPV6_DST,
            Field::TUN_GBP_ID,
            Field::TUN_GBP_FLAGS,
        ]);
        for index in 0..N_TUN_METADATA {
            if let Some(entry) = self.flow_match.entry(Slot::tun_metadata(index)) {
                let mask = entry.masked.then_some(&entry.mask);
                let field = Field::tun_metadata(index);
                put_entry(&mut self.out, self.version, field, &entry.value, mask, entry.len);
            }
        }
        self.fields(&[
            Field::TUN_ERSPAN_IDX,
            Field::TUN_ERSPAN_VER,
            Field::TUN_ERSPAN_DIR,
            Field::TUN_ERSPAN_HWID,
            Field::TUN_GTPU_FLAGS,
            Field::TUN_GTPU_MSGTYPE,
        ]);
    }

    /// The order is Open vSwitch's, so that its tools print what they are used to.
    fn run(mut self, cookie: CookieMatch) -> Vec<u8> {
        if !self.flow_match.is_ethernet_only() {
            self.field(Field::PACKET_TYPE);
        }
        self.field(Field::DP_HASH);
        self.exacts(&[Field::RECIRC_ID, Field::CONJ_ID]);
        self.exact(if self.version.is_some() { Field::IN_PORT_OXM } else { Field::IN_PORT });
        self.exact(Field::ACTSET_OUTPUT);
        self.fields(&[Field::ETH_SRC, Field::ETH_DST, Field::ETH_TYPE]);
        self.vlan();
        if self.flow_match.meets(Prerequisite::Mpls) {
            self.exacts(&[Field::MPLS_TC, Field::MPLS_BOS, Field::MPLS_TTL, Field::MPLS_LABEL]);
        }
        if self.flow_match.is_ip() {
            self.ip();
        } else if self.flow_match.meets(Prerequisite::Arp) {
            self.exact(Field::ARP_OP);
            self.fields(&[Field::ARP_SPA, Field::ARP_TPA, Field::ARP_SHA, Field::ARP_THA]);
        }
        self.tunnel();
        self.fields(&[
            Field::NSH_FLAGS,
            Field::NSH_TTL,
            Field::NSH_MDTYPE,
            Field::NSH_NP,
            Field::NSH_SPI,
            Field::NSH_SI,
            Field::NSH_C1,
            Field::NSH_C2,
            Field::NSH_C3,
            Field::NSH_C4,
        ]);
        if self.version.is_some_and(|version| version >= Version::V15) {
            (0..N_XXREGS * 2).for_each(|index| self.field(Field::xreg(index)));
        } else {
            (0..N_XXREGS * 4).for_each(|index| self.field(Field::reg(index)));
        }
        self.fields(&[
            Field::PKT_MARK,
            Field::CT_STATE,
            Field::CT_ZONE,
            Field::CT_MARK,
            Field::CT_LABEL,
            Field::CT_NW_SRC,
            Field::CT_IPV6_SRC,
            Field::CT_NW_DST,
            Field::CT_IPV6_DST,
        ]);
        if self.flow_match.value(Slot::CT_NW_PROTO) != 0 {
            self.fields(&[Field::CT_NW_PROTO, Field::CT_TP_SRC, Field::CT_TP_DST]);
        }
        self.field(Field::METADATA);
        if cookie.1 != 0 {
            let has_mask = cookie.1 != u64::MAX;
            let length = if has_mask { 16 } else { 8 };
            OxmHeader { class: 1, vendor: 0, number: 30, has_mask, length }.put(&mut self.out);
            self.out.put_u64(cookie.0 & cookie.1);
            if has_mask {
                self.out.put_u64(cookie.1);
            }
        }
        if self.flow_match.is_ethernet_only() && !self.implied_ethernet {
            let mut all = Vec::new();
            let field = Field::PACKET_TYPE;
            put_entry(&mut all, self.version, field, &Value::ZERO, None, field.bytes());
            all.append(&mut self.out);
            return all;
        }
        self.out
    }
}

/// The entries of a match: OXM for `version`, NXM for `None`, with a cookie if its mask is not 0.
pub(crate) fn raw_entries(
    flow_match: &Match,
    version: Option<Version>,
    cookie: CookieMatch,
) -> Vec<u8> {
    Writer { out: Vec::new(), version, flow_match, implied_ethernet: false }.run(cookie)
}

/// Appends a match in NXM form with padding, and returns its length without padding.
pub(crate) fn put_nxm(out: &mut Vec<u8>, flow_match: &Match, cookie: CookieMatch) -> usize {
    let start = out.len();
    out.extend(raw_entries(flow_match, None, cookie));
    let len = out.len() - start;
    pad8(out, start);
    len
}

/// Appends a match in OXM form, header and padding included, and returns its length without
/// padding.
pub(crate) fn put_oxm(out: &mut Vec<u8>, flow_match: &Match, version: Version) -> usize {
    let start = out.len();
    out.put_u16(MATCH_TYPE_OXM);
    out.put_u16(0);
    out.extend(raw_entries(flow_match, Some(version), (0, 0)));
    let len = out.len() - start;
    patch_u16(out, start + 2, len as u16);
    pad8(out, start);
    len
}

#[cfg(test)]
pub(crate) mod tests;
