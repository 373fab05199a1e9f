//! Match fields: their names, widths, headers on the wire and rules.

use bytes::BufMut;

use super::error::{NICIRA, ONF, OfError};
use super::field_table::FIELDS;
use super::flow_match::Match;
use super::port::PortNo;
use super::slot::{N_TUN_METADATA, Slot};
use super::value::{Value, low_ones};
use super::version::Version;
use super::wire::Reader;

/// How people write the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A decimal number.
    Decimal,
    /// A hexadecimal number.
    Hex,
    /// `xx:xx:xx:xx:xx:xx`.
    Mac,
    /// A dotted quad.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// An OpenFlow port as 16 bits.
    Port,
    /// An OpenFlow port as 32 bits.
    WidePort,
    /// `no`, `yes`, `first`, `later` or `not_later`.
    Frag,
    /// Names of tunnel flags with signs.
    TunnelFlags,
    /// Names of TCP flags with signs.
    TcpFlags,
    /// Names of connection states with signs.
    CtState,
    /// `(namespace,type)`.
    PacketType,
}

/// What a match must say before it may say anything about a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prerequisite {
    /// Nothing.
    None,
    /// An Ethernet packet.
    Ethernet,
    /// ARP or RARP.
    Arp,
    /// A VLAN tag.
    Vlan,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// IPv4 or IPv6.
    Ip,
    /// Network service header.
    Nsh,
    /// A valid tracked connection.
    Ct,
    /// MPLS.
    Mpls,
    /// TCP over IP, not a later fragment.
    Tcp,
    /// UDP over IP, not a later fragment.
    Udp,
    /// SCTP over IP, not a later fragment.
    Sctp,
    /// ICMP over IPv4.
    Icmpv4,
    /// ICMPv6.
    Icmpv6,
    /// Neighbor solicitation or advertisement.
    Nd,
    /// Neighbor solicitation.
    NdSolicit,
    /// Neighbor advertisement.
    NdAdvert,
}

/// A class of extensible-match headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "names of the standards")]
pub(super) enum Class {
    /// Nicira's first class.
    NXM_0,
    /// Nicira's second class.
    NXM_1,
    /// Ericsson's class.
    ERICSSON,
    /// The standard class.
    BASIC,
    /// Packet registers.
    REGISTERS,
    /// Nicira's experimenter fields.
    NX_ET,
    /// The ONF's experimenter fields.
    ONF_ET,
    /// Network service header fields.
    NSH_ET,
}

impl Class {
    /// Class number and experimenter, 0 for a class that is not experimental.
    fn numbers(self) -> (u16, u32) {
        match self {
            Class::NXM_0 => (0, 0),
            Class::NXM_1 => (1, 0),
            Class::ERICSSON => (0x1000, 0),
            Class::BASIC => (0x8000, 0),
            Class::REGISTERS => (0x8001, 0),
            Class::NX_ET => (EXPERIMENTER, NICIRA),
            Class::ONF_ET => (EXPERIMENTER, ONF),
            Class::NSH_ET => (EXPERIMENTER, 0x005a_d650),
        }
    }
}

/// The class whose headers carry an experimenter id.
const EXPERIMENTER: u16 = 0xffff;

/// An extensible-match header of a field.
#[derive(Debug)]
pub(super) struct Oxm {
    pub(super) class: Class,
    pub(super) number: u8,
    /// Bytes of the value, and of the experimenter id if any.
    pub(super) length: u8,
    /// Wire number of the first OpenFlow version that has the header, 0 for extensions.
    pub(super) since: u8,
    pub(super) name: &'static str,
}

impl Oxm {
    /// Whether a header has this class, experimenter and number.
    fn is(&self, header: &OxmHeader) -> bool {
        (self.class.numbers(), self.number) == ((header.class, header.vendor), header.number)
    }
}

/// A row of the field table.
#[derive(Debug)]
pub(super) struct FieldInfo {
    pub(super) name: &'static str,
    /// A second name, or nothing.
    pub(super) other_name: &'static str,
    pub(super) bytes: u8,
    pub(super) bits: u16,
    pub(super) maskable: bool,
    pub(super) form: Form,
    pub(super) prerequisite: Prerequisite,
    pub(super) writable: bool,
    pub(super) slot: Slot,
    /// The lowest bit of the slot that belongs to the field.
    pub(super) offset: u8,
    pub(super) oxms: &'static [Oxm],
}

/// The header of an extensible-match entry (OpenFlow 1.2, section A.2.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OxmHeader {
    /// Class number.
    pub class: u16,
    /// Experimenter id of class 0xffff, else 0.
    pub vendor: u32,
    /// Field number within the class.
    pub number: u8,
    /// Whether a mask follows the value.
    pub has_mask: bool,
    /// Bytes that follow the header; an experimenter id is counted in.
    pub length: u8,
}

impl OxmHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// `BadMatchLen` when the bytes end or the length leaves no room for the experimenter id.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<OxmHeader, OfError> {
        let mut reader_with_error = reader.with_error(OfError::BadMatchLen);
        let class = reader_with_error.u16()?;
        let number = reader_with_error.u8()?;
        let length = reader_with_error.u8()?;
        let vendor = if class == EXPERIMENTER { reader_with_error.u32()? } else { 0 };
        if class == EXPERIMENTER && length < 4 {
            return Err(OfError::BadMatchLen);
        }
        reader.skip(if class == EXPERIMENTER { 8 } else { 4 })?;
        Ok(OxmHeader { class, vendor, number: number >> 1, has_mask: number & 1 != 0, length })
    }

    /// Bytes of value and mask together.
    pub fn payload_len(&self) -> usize {
        usize::from(self.length) - if self.class == EXPERIMENTER { 4 } else { 0 }
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        if self.has_mask { self.payload_len() / 2 } else { self.payload_len() }
    }

    /// The length that the header would have without a mask.
    fn exact_length(&self) -> usize {
        self.value_len() + usize::from(self.length) - self.payload_len()
    }

    /// Appends the header.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u16(self.class);
        out.put_u8(self.number << 1 | u8::from(self.has_mask));
        out.put_u8(self.length);
        if self.class == EXPERIMENTER {
            out.put_u32(self.vendor);
        }
    }
}

/// A match field.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field(pub(super) u8);

impl std::fmt::Debug for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Field {
    /// Every field, in the order of the table.
    pub fn all() -> impl Iterator<Item = Field> {
        (0..FIELDS.len()).map(|place| Field(place as u8))
    }

    fn info(self) -> &'static FieldInfo {
        // Every field is one of the table's constants or moved within a numbered run by the
        // functions below, so the first row is never used in another's place.
        FIELDS.get(usize::from(self.0)).unwrap_or(&FIELDS[0])
    }

    /// The 32-bit register `index`, below 32.
    pub fn reg(index: u8) -> Field {
        Field(Field::REG0.0 + index % 32)
    }

    /// The 64-bit register `index`, below 16.
    pub fn xreg(index: u8) -> Field {
        Field(Field::XREG0.0 + index % 16)
    }

    /// The tunnel metadata field `index`, below 64.
    pub fn tun_metadata(index: u8) -> Field {
        Field(Field::TUN_METADATA0.0 + index % N_TUN_METADATA)
    }

    /// The field with a place in the table, which table-features messages number bits by.
    pub fn from_place(place: u8) -> Option<Field> {
        (usize::from(place) < FIELDS.len()).then_some(Field(place))
    }

    /// The common name, such as `ip_src`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The field with the given name or second name, or the given name of an extensible match.
    pub fn from_name(name: &str) -> Option<Field> {
        Field::all().find(|field| {
            field.name() == name || (field.info().other_name == name && !name.is_empty())
        })
    }

    /// The field that has an extensible-match header of the given name, such as `NXM_OF_IN_PORT`.
    pub fn from_oxm_name(name: &str) -> Option<Field> {
        Field::all().find(|field| field.info().oxms.iter().any(|oxm| oxm.name == name))
    }

    /// Bytes of a value; the greatest number for a field of variable length.
    pub fn bytes(self) -> usize {
        usize::from(self.info().bytes)
    }

    /// Bits that a value may use.
    pub fn bits(self) -> usize {
        usize::from(self.info().bits)
    }

    /// Whether matches may cover some bits only.
    pub fn maskable(self) -> bool {
        self.info().maskable
    }

    /// How people write values.
    pub fn form(self) -> Form {
        self.info().form
    }

    /// What a match must say first.
    pub fn prerequisite(self) -> Prerequisite {
        self.info().prerequisite
    }

    /// Whether actions may change the field.
    pub fn writable(self) -> bool {
        self.info().writable
    }

    /// Whether the field's length varies with the mapping of tunnel options.
    pub fn is_variable(self) -> bool {
        self.slot().tun_metadata_index().is_some()
    }

    /// The place of a match that holds the field.
    pub fn slot(self) -> Slot {
        self.info().slot
    }

    /// The lowest bit of the slot that belongs to the field.
    pub(crate) fn offset(self) -> usize {
        usize::from(self.info().offset)
    }

    /// Whether the field is a part of the pipeline's state rather than of the packet, so that a
    /// packet-out of OpenFlow 1.5 may carry it.
    pub fn is_pipeline(self) -> bool {
        let slot = self.slot();
        let tunnel = (Slot::TUN_ID..=Slot::METADATA).contains(&slot)
            && !(Slot::TUN_TTL..=Slot::TUN_TOS).contains(&slot);
        tunnel || slot >= Slot::xxreg(0) || [Slot::IN_PORT, Slot::PACKET_TYPE].contains(&slot)
    }

    /// The extensible-match header for `version`, or the oldest one, Nicira's where there is one,
    /// when `version` is `None`. A field without any header yields `None`.
    fn oxm(self, version: Option<Version>) -> Option<&'static Oxm> {
        let number = version.map_or(0, |version| version as u8);
        let oxms = self.info().oxms;
        oxms.iter().rfind(|oxm| number >= oxm.since).or(oxms.first())
    }

    /// The name of the header that `oxm_header` would choose for no particular version.
    pub fn oxm_name(self) -> Option<&'static str> {
        self.oxm(None).map(|oxm| oxm.name)
    }

    /// Whether the field can be matched in extensible matches.
    pub fn has_oxm(self) -> bool {
        !self.info().oxms.is_empty()
    }

    /// The number of the field's header in the standard class, if `version` has it.
    pub fn basic_number(self, version: Version) -> Option<u8> {
        let oxm = self.oxm(Some(version))?;
        (oxm.class == Class::BASIC && version as u8 >= oxm.since).then_some(oxm.number)
    }

    /// The header with which `version` writes a value of `value_len` bytes; `None` stands for the
    /// oldest form (NXM).
    pub fn oxm_header(
        self,
        version: Option<Version>,
        has_mask: bool,
        value_len: usize,
    ) -> Option<OxmHeader> {
        let oxm = self.oxm(version)?;
        let (class, vendor) = oxm.class.numbers();
        let payload = value_len * if has_mask { 2 } else { 1 };
        let length = payload + if class == EXPERIMENTER { 4 } else { 0 };
        Some(OxmHeader { class, vendor, number: oxm.number, has_mask, length: length as u8 })
    }

    /// The field that `header` names, if its length is right.
    pub fn from_oxm_header(header: &OxmHeader) -> Option<Field> {
        let (field, oxm) = Field::with_header(header)?;
        let fits = header.exact_length() == usize::from(oxm.length) || field.is_variable();
        fits.then_some(field)
    }

    /// The field that `header` names, whatever its length.
    fn with_header(header: &OxmHeader) -> Option<(Field, &'static Oxm)> {
        Field::all().find_map(|field| {
            field.info().oxms.iter().find(|oxm| oxm.is(header)).map(|oxm| (field, oxm))
        })
    }

    /// Whether `header` names a known field with a wrong length.
    pub(crate) fn wrong_length(header: &OxmHeader) -> bool {
        header.length > 0
            && Field::from_oxm_header(header).is_none()
            && Field::with_header(header).is_some()
    }

    /// Whether a match may have this mask.
    pub fn is_mask_valid(self, mask: &Value) -> bool {
        self.maskable() || mask.is_zero() || mask.is_ones(self.bytes() * 8)
    }

    /// Whether it makes sense to test for the value: bits outside of the field must be zero.
    pub fn is_value_valid(self, value: &Value) -> bool {
        let value = value.low();
        match self {
            Field::IN_PORT_OXM | Field::ACTSET_OUTPUT => PortNo::from_u32(value as u32).is_ok(),
            Field::IP_DSCP => value & 3 == 0,
            Field::ARP_OP => value <= 0xff,
            Field::VLAN_VID => value <= 0x1fff,
            Field::TUN_FLAGS => value <= 1,
            Field::CT_STATE => value <= 0xff,
            Field::NSH_TTL => value <= 63,
            Field::NSH_MDTYPE => value == 1 || value == 2,
            Field::TUN_ERSPAN_IDX
            | Field::TUN_ERSPAN_VER
            | Field::TUN_ERSPAN_DIR
            | Field::TUN_ERSPAN_HWID => true,
            _ => self.is_variable() || value <= low_ones(self.bits()),
        }
    }

    /// Whether `flow_match` meets the field's prerequisite.
    pub fn prerequisite_met(self, flow_match: &Match) -> bool {
        flow_match.meets(self.prerequisite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_consistent() {
        assert_eq!(Field::all().count(), 211);
        for field in Field::all() {
            assert_eq!(Field::from_name(field.name()), Some(field));
            assert!(field.bits() <= field.bytes() * 8, "{field:?}");
            for oxm in field.info().oxms {
                let (class, vendor) = oxm.class.numbers();
                let header = OxmHeader {
                    class,
                    vendor,
                    number: oxm.number,
                    has_mask: false,
                    length: oxm.length,
                };
                assert_eq!(header.value_len(), field.bytes(), "{field:?}");
                assert_eq!(Field::from_oxm_header(&header), Some(field));
                let masked = OxmHeader {
                    has_mask: true,
                    length: oxm.length + header.value_len() as u8,
                    ..header
                };
                assert_eq!(Field::from_oxm_header(&masked), Some(field));
                assert_eq!(Field::from_oxm_name(oxm.name), Some(field));
            }
        }
    }

    #[test]
    fn headers_follow_the_version() {
        let header = |field: Field, version| field.oxm_header(version, false, 4).unwrap();
        assert_eq!(header(Field::TCP_FLAGS, None).class, 1);
        assert_eq!(header(Field::TCP_FLAGS, Some(Version::V12)).class, 1);
        assert_eq!(header(Field::TCP_FLAGS, Some(Version::V13)).vendor, ONF);
        assert_eq!(header(Field::TCP_FLAGS, Some(Version::V15)).class, 0x8000);
        assert_eq!(header(Field::IN_PORT_OXM, None).class, 0x8000);
        assert_eq!(header(Field::DP_HASH, None).class, 1);
        assert_eq!(Field::SKB_PRIORITY.oxm_header(None, false, 4), None);
    }
}
