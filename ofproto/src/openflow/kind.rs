//! The kinds of OpenFlow messages: how headers tell them apart and how long they may be.
//!
//! A kind is one wire format. A message whose format changed over the versions has one kind for
//! each format, named after the version that brought it.

use std::sync::LazyLock;

use bytes::BufMut;

use super::error::{NICIRA, ONF, OfError};
use super::header::{self, HEADER_LEN, Header};
use super::version::Version;
use super::wire::{Reader, patch_u16};

/// Header type of vendor messages in every version.
const TYPE_VENDOR: u8 = 4;
/// Statistics type of vendor statistics.
const STATS_VENDOR: u16 = 0xffff;
/// Statistics flag: more replies follow.
const REPLY_MORE: u16 = 1;

/// What the headers of a message say beside version and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The type of the OpenFlow header.
    Plain(u8),
    /// Vendor and subtype of a vendor message.
    Vendor(u32, u32),
    /// The type of a statistics (multipart) request.
    StatsRequest(u16),
    /// The type of a statistics (multipart) reply.
    StatsReply(u16),
    /// Vendor and subtype of a vendor's statistics request.
    VendorRequest(u32, u32),
    /// Vendor and subtype of a vendor's statistics reply.
    VendorReply(u32, u32),
}

/// Header types of statistics requests and replies.
fn stats_types(version: u8) -> (u8, u8) {
    if version == Version::V10 as u8 { (16, 17) } else { (18, 19) }
}

impl Form {
    /// Reads the headers of a whole message.
    fn parse(header: &Header, message: &[u8]) -> Result<Form, OfError> {
        let mut reader = Reader::new(message, OfError::BadRequestLen);
        reader.skip(HEADER_LEN)?;
        let (request, reply) = stats_types(header.version);
        if header.kind == TYPE_VENDOR {
            let (vendor, subtype) = (reader.u32()?, reader.u32()?);
            return match vendor {
                NICIRA | ONF => Ok(Form::Vendor(vendor, subtype)),
                _ => Err(OfError::BadRequestVendor),
            };
        }
        if header.kind != request && header.kind != reply {
            return Ok(Form::Plain(header.kind));
        }
        let is_request = header.kind == request;
        let kind = reader.u16()?;
        reader.skip(2)?;
        if header.version != Version::V10 as u8 {
            reader.skip(4)?;
        }
        if kind != STATS_VENDOR {
            return Ok(if is_request { Form::StatsRequest(kind) } else { Form::StatsReply(kind) });
        }
        let vendor = reader.u32()?;
        if vendor != NICIRA && !(vendor == ONF && header.version != Version::V10 as u8) {
            return Err(OfError::BadRequestVendor);
        }
        let subtype = reader.u32()?;
        if header.version == Version::V10 as u8 {
            reader.skip(4)?;
        }
        Ok(match is_request {
            true => Form::VendorRequest(vendor, subtype),
            false => Form::VendorReply(vendor, subtype),
        })
    }

    /// Bytes of all headers in `version`.
    fn headers_len(self, version: u8) -> usize {
        let old = version == Version::V10 as u8;
        match self {
            Form::Plain(_) => HEADER_LEN,
            Form::Vendor(..) => 16,
            Form::StatsRequest(_) | Form::StatsReply(_) if old => 12,
            Form::StatsRequest(_) | Form::StatsReply(_) => 16,
            Form::VendorRequest(..) | Form::VendorReply(..) => 24,
        }
    }

    /// The low byte of what tells it from others of its variant.
    fn low_byte(self) -> u8 {
        match self {
            Form::Plain(kind) => kind,
            Form::StatsRequest(kind) | Form::StatsReply(kind) => kind as u8,
            Form::Vendor(_, subtype)
            | Form::VendorRequest(_, subtype)
            | Form::VendorReply(_, subtype) => subtype as u8,
        }
    }

    fn is_stats(self) -> bool {
        !matches!(self, Form::Plain(_) | Form::Vendor(..))
    }
}

macro_rules! kinds {
    ($($variant:ident $name:literal $first:literal ..= $last:literal
       $form:ident($($part:expr),+) $minimum:literal $multiple:literal,)+) => {
        /// A wire format of OpenFlow messages. The variant's documentation is its common name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$variant),+];

            /// The common name, such as `OFPST_DESC request`.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name),+ }
            }

            fn rules(self) -> Rules {
                match self {
                    $(Kind::$variant => Rules {
                        first: $first,
                        last: $last,
                        form: Form::$form($($part),+),
                        minimum: $minimum,
                        multiple: $multiple,
                    }),+
                }
            }
        }
    };
}

/// The versions, headers and lengths of a kind.
struct Rules {
    first: u8,
    last: u8,
    form: Form,
    /// Least bytes of the body, the part after all headers.
    minimum: usize,
    /// The body is longer than `minimum` by a multiple of this many bytes; 0 means never longer.
    multiple: usize,
}

kinds! {
    Hello "OFPT_HELLO" 1..=255 Plain(0) 0 1,
    Error "OFPT_ERROR" 1..=255 Plain(1) 4 1,
    EchoRequest "OFPT_ECHO_REQUEST" 1..=255 Plain(2) 0 1,
    EchoReply "OFPT_ECHO_REPLY" 1..=255 Plain(3) 0 1,
    FeaturesRequest "OFPT_FEATURES_REQUEST" 1..=6 Plain(5) 0 0,
    FeaturesReply10 "OFPT_FEATURES_REPLY" 1..=1 Plain(6) 24 48,
    FeaturesReply11 "OFPT_FEATURES_REPLY" 2..=3 Plain(6) 24 64,
    FeaturesReply13 "OFPT_FEATURES_REPLY" 4..=6 Plain(6) 24 0,
    GetConfigRequest "OFPT_GET_CONFIG_REQUEST" 1..=6 Plain(7) 0 0,
    GetConfigReply "OFPT_GET_CONFIG_REPLY" 1..=6 Plain(8) 4 0,
    SetConfig "OFPT_SET_CONFIG" 1..=6 Plain(9) 4 0,
    PacketIn10 "OFPT_PACKET_IN" 1..=1 Plain(10) 10 1,
    PacketIn11 "OFPT_PACKET_IN" 2..=2 Plain(10) 16 1,
    PacketIn12 "OFPT_PACKET_IN" 3..=3 Plain(10) 8 1,
    PacketIn13 "OFPT_PACKET_IN" 4..=6 Plain(10) 16 1,
    NxPacketIn "NXT_PACKET_IN" 1..=6 Vendor(NICIRA, 17) 24 1,
    NxPacketIn2 "NXT_PACKET_IN2" 1..=6 Vendor(NICIRA, 30) 0 8,
    FlowRemoved10 "OFPT_FLOW_REMOVED" 1..=1 Plain(11) 80 0,
    FlowRemoved11 "OFPT_FLOW_REMOVED" 2..=5 Plain(11) 40 8,
    FlowRemoved15 "OFPT_FLOW_REMOVED" 6..=6 Plain(11) 16 8,
    NxFlowRemoved "NXT_FLOW_REMOVED" 1..=6 Vendor(NICIRA, 14) 40 8,
    PortStatus10 "OFPT_PORT_STATUS" 1..=1 Plain(12) 56 0,
    PortStatus11 "OFPT_PORT_STATUS" 2..=4 Plain(12) 72 0,
    PortStatus14 "OFPT_PORT_STATUS" 5..=6 Plain(12) 48 8,
    PacketOut10 "OFPT_PACKET_OUT" 1..=1 Plain(13) 8 1,
    PacketOut11 "OFPT_PACKET_OUT" 2..=5 Plain(13) 16 1,
    PacketOut15 "OFPT_PACKET_OUT" 6..=6 Plain(13) 8 1,
    FlowMod10 "OFPT_FLOW_MOD" 1..=1 Plain(14) 64 8,
    FlowMod11 "OFPT_FLOW_MOD" 2..=6 Plain(14) 40 8,
    NxFlowMod "NXT_FLOW_MOD" 1..=6 Vendor(NICIRA, 13) 32 8,
    NxGroupMod "NXT_GROUP_MOD" 1..=1 Vendor(NICIRA, 31) 16 8,
    GroupMod11 "OFPT_GROUP_MOD" 2..=5 Plain(15) 8 8,
    GroupMod15 "OFPT_GROUP_MOD" 6..=6 Plain(15) 16 8,
    PortMod10 "OFPT_PORT_MOD" 1..=1 Plain(15) 24 0,
    PortMod11 "OFPT_PORT_MOD" 2..=4 Plain(16) 32 0,
    PortMod14 "OFPT_PORT_MOD" 5..=6 Plain(16) 24 8,
    TableMod11 "OFPT_TABLE_MOD" 2..=4 Plain(17) 8 0,
    TableMod14 "OFPT_TABLE_MOD" 5..=6 Plain(17) 8 8,
    BarrierRequest10 "OFPT_BARRIER_REQUEST" 1..=1 Plain(18) 0 0,
    BarrierRequest11 "OFPT_BARRIER_REQUEST" 2..=6 Plain(20) 0 0,
    BarrierReply10 "OFPT_BARRIER_REPLY" 1..=1 Plain(19) 0 0,
    BarrierReply11 "OFPT_BARRIER_REPLY" 2..=6 Plain(21) 0 0,
    QueueGetConfigRequest10 "OFPT_QUEUE_GET_CONFIG_REQUEST" 1..=1 Plain(20) 4 0,
    QueueGetConfigRequest11 "OFPT_QUEUE_GET_CONFIG_REQUEST" 2..=4 Plain(22) 8 0,
    QueueGetConfigReply10 "OFPT_QUEUE_GET_CONFIG_REPLY" 1..=1 Plain(21) 8 8,
    QueueGetConfigReply11 "OFPT_QUEUE_GET_CONFIG_REPLY" 2..=4 Plain(23) 8 8,
    RoleRequest12 "OFPT_ROLE_REQUEST" 3..=6 Plain(24) 16 0,
    NxRoleRequest "NXT_ROLE_REQUEST" 1..=6 Vendor(NICIRA, 10) 4 0,
    RoleReply12 "OFPT_ROLE_REPLY" 3..=6 Plain(25) 16 0,
    NxRoleReply "NXT_ROLE_REPLY" 1..=6 Vendor(NICIRA, 11) 4 0,
    GetAsyncRequest13 "OFPT_GET_ASYNC_REQUEST" 4..=4 Plain(26) 0 0,
    GetAsyncRequest14 "OFPT_GET_ASYNC_REQUEST" 5..=6 Plain(26) 0 0,
    GetAsyncReply13 "OFPT_GET_ASYNC_REPLY" 4..=4 Plain(27) 24 0,
    GetAsyncReply14 "OFPT_GET_ASYNC_REPLY" 5..=6 Plain(27) 0 8,
    SetAsync13 "OFPT_SET_ASYNC" 4..=4 Plain(28) 24 0,
    NxSetAsyncConfig "NXT_SET_ASYNC_CONFIG" 1..=6 Vendor(NICIRA, 19) 24 0,
    NxSetAsyncConfig2 "NXT_SET_ASYNC_CONFIG2" 1..=4 Vendor(NICIRA, 27) 0 8,
    SetAsync14 "OFPT_SET_ASYNC" 5..=6 Plain(28) 0 8,
    MeterMod13 "OFPT_METER_MOD" 4..=6 Plain(29) 8 8,
    OnfRoleStatus13 "ONFT_ROLE_STATUS" 4..=4 Vendor(ONF, 1911) 16 8,
    RoleStatus14 "OFPT_ROLE_STATUS" 5..=6 Plain(30) 16 8,
    TableStatus14 "OFPT_TABLE_STATUS" 5..=6 Plain(31) 8 8,
    NxRequestforward "NXT_REQUESTFORWARD" 1..=3 Vendor(NICIRA, 132) 8 8,
    OnfRequestforward13 "ONFT_REQUESTFORWARD" 4..=4 Vendor(ONF, 2350) 8 8,
    Requestforward14 "OFPT_REQUESTFORWARD" 5..=6 Plain(32) 8 8,
    BundleControl14 "OFPT_BUNDLE_CONTROL" 5..=6 Plain(33) 8 8,
    OnfBundleControl13 "ONFT_BUNDLE_CONTROL" 4..=4 Vendor(ONF, 2300) 8 8,
    BundleAddMessage14 "OFPT_BUNDLE_ADD_MESSAGE" 5..=6 Plain(34) 8 1,
    OnfBundleAddMessage13 "ONFT_BUNDLE_ADD_MESSAGE" 4..=4 Vendor(ONF, 2301) 8 1,
    DescStatsRequest "OFPST_DESC request" 1..=6 StatsRequest(0) 0 0,
    DescStatsReply "OFPST_DESC reply" 1..=6 StatsReply(0) 1056 0,
    FlowStatsRequest10 "OFPST_FLOW request" 1..=1 StatsRequest(1) 44 0,
    FlowStatsRequest11 "OFPST_FLOW request" 2..=6 StatsRequest(1) 32 8,
    NxFlowStatsRequest "NXST_FLOW request" 1..=1 VendorRequest(NICIRA, 0) 8 8,
    FlowStatsReply10 "OFPST_FLOW reply" 1..=1 StatsReply(1) 0 1,
    FlowStatsReply11 "OFPST_FLOW reply" 2..=3 StatsReply(1) 0 1,
    FlowStatsReply13 "OFPST_FLOW reply" 4..=5 StatsReply(1) 0 1,
    FlowStatsReply15 "OFPST_FLOW reply" 6..=6 StatsReply(1) 0 1,
    NxFlowStatsReply "NXST_FLOW reply" 1..=1 VendorReply(NICIRA, 0) 0 1,
    AggregateStatsRequest10 "OFPST_AGGREGATE request" 1..=1 StatsRequest(2) 44 0,
    AggregateStatsRequest11 "OFPST_AGGREGATE request" 2..=5 StatsRequest(2) 32 8,
    AggregateStatsRequest15 "OFPST_AGGREGATE request" 6..=6 StatsRequest(2) 32 8,
    NxAggregateStatsRequest "NXST_AGGREGATE request" 1..=1 VendorRequest(NICIRA, 1) 8 8,
    AggregateStatsReply "OFPST_AGGREGATE reply" 1..=5 StatsReply(2) 24 0,
    AggregateStatsReply15 "OFPST_AGGREGATE reply" 6..=6 StatsReply(2) 0 1,
    NxAggregateStatsReply "NXST_AGGREGATE reply" 1..=1 VendorReply(NICIRA, 1) 24 0,
    TableStatsRequest "OFPST_TABLE request" 1..=6 StatsRequest(3) 0 0,
    TableStatsReply10 "OFPST_TABLE reply" 1..=1 StatsReply(3) 0 64,
    TableStatsReply11 "OFPST_TABLE reply" 2..=2 StatsReply(3) 0 88,
    TableStatsReply12 "OFPST_TABLE reply" 3..=3 StatsReply(3) 0 128,
    TableStatsReply13 "OFPST_TABLE reply" 4..=6 StatsReply(3) 0 24,
    PortStatsRequest10 "OFPST_PORT request" 1..=1 StatsRequest(4) 8 0,
    PortStatsRequest11 "OFPST_PORT request" 2..=6 StatsRequest(4) 8 0,
    PortStatsReply10 "OFPST_PORT reply" 1..=1 StatsReply(4) 0 104,
    PortStatsReply11 "OFPST_PORT reply" 2..=3 StatsReply(4) 0 104,
    PortStatsReply13 "OFPST_PORT reply" 4..=4 StatsReply(4) 0 112,
    PortStatsReply14 "OFPST_PORT reply" 5..=6 StatsReply(4) 0 8,
    QueueStatsRequest10 "OFPST_QUEUE request" 1..=1 StatsRequest(5) 8 0,
    QueueStatsRequest11 "OFPST_QUEUE request" 2..=6 StatsRequest(5) 8 0,
    QueueStatsReply10 "OFPST_QUEUE reply" 1..=1 StatsReply(5) 0 32,
    QueueStatsReply11 "OFPST_QUEUE reply" 2..=3 StatsReply(5) 0 32,
    QueueStatsReply13 "OFPST_QUEUE reply" 4..=4 StatsReply(5) 0 40,
    QueueStatsReply14 "OFPST_QUEUE reply" 5..=6 StatsReply(5) 0 8,
    NxGroupStatsRequest "NXST_GROUP request" 1..=1 VendorRequest(NICIRA, 7) 8 0,
    GroupStatsRequest11 "OFPST_GROUP request" 2..=6 StatsRequest(6) 8 0,
    NxGroupStatsReply "NXST_GROUP reply" 1..=1 VendorReply(NICIRA, 7) 0 8,
    GroupStatsReply11 "OFPST_GROUP reply" 2..=3 StatsReply(6) 0 8,
    GroupStatsReply13 "OFPST_GROUP reply" 4..=6 StatsReply(6) 0 8,
    NxGroupDescStatsRequest "NXST_GROUP_DESC request" 1..=1 VendorRequest(NICIRA, 8) 8 0,
    GroupDescStatsRequest11 "OFPST_GROUP_DESC request" 2..=5 StatsRequest(7) 0 0,
    GroupDescStatsRequest15 "OFPST_GROUP_DESC request" 6..=6 StatsRequest(7) 8 0,
    NxGroupDescStatsReply "NXST_GROUP_DESC reply" 1..=1 VendorReply(NICIRA, 8) 0 8,
    GroupDescStatsReply11 "OFPST_GROUP_DESC reply" 2..=6 StatsReply(7) 0 8,
    NxGroupFeaturesStatsRequest "NXST_GROUP_FEATURES request" 1..=2 VendorRequest(NICIRA, 9) 0 0,
    GroupFeaturesStatsRequest12 "OFPST_GROUP_FEATURES request" 3..=6 StatsRequest(8) 0 0,
    NxGroupFeaturesStatsReply "NXST_GROUP_FEATURES reply" 1..=2 VendorReply(NICIRA, 9) 40 0,
    GroupFeaturesStatsReply12 "OFPST_GROUP_FEATURES reply" 3..=6 StatsReply(8) 40 0,
    MeterStatsRequest13 "OFPST_METER request" 4..=6 StatsRequest(9) 8 0,
    MeterStatsReply13 "OFPST_METER reply" 4..=6 StatsReply(9) 0 8,
    MeterConfigStatsRequest13 "OFPST_METER_CONFIG request" 4..=6 StatsRequest(10) 8 0,
    MeterConfigStatsReply13 "OFPST_METER_CONFIG reply" 4..=6 StatsReply(10) 0 8,
    MeterFeaturesStatsRequest13 "OFPST_METER_FEATURES request" 4..=6 StatsRequest(11) 0 0,
    MeterFeaturesStatsReply13 "OFPST_METER_FEATURES reply" 4..=6 StatsReply(11) 16 0,
    TableFeaturesStatsRequest13 "OFPST_TABLE_FEATURES request" 4..=6 StatsRequest(12) 0 8,
    TableFeaturesStatsReply13 "OFPST_TABLE_FEATURES reply" 4..=6 StatsReply(12) 64 8,
    TableDescStatsRequest14 "OFPST_TABLE_DESC request" 5..=6 StatsRequest(14) 0 0,
    TableDescStatsReply14 "OFPST_TABLE_DESC reply" 5..=6 StatsReply(14) 8 8,
    PortDescStatsRequest10 "OFPST_PORT_DESC request" 1..=5 StatsRequest(13) 0 0,
    PortDescStatsRequest15 "OFPST_PORT_DESC request" 6..=6 StatsRequest(13) 8 0,
    PortDescStatsReply10 "OFPST_PORT_DESC reply" 1..=1 StatsReply(13) 0 48,
    PortDescStatsReply11 "OFPST_PORT_DESC reply" 2..=4 StatsReply(13) 0 64,
    PortDescStatsReply14 "OFPST_PORT_DESC reply" 5..=6 StatsReply(13) 0 8,
    QueueDescStatsRequest14 "OFPST_QUEUE_DESC request" 5..=6 StatsRequest(15) 8 0,
    QueueDescStatsReply14 "OFPST_QUEUE_DESC reply" 5..=6 StatsReply(15) 0 8,
    FlowMonitorStatsRequest14 "OFPST_FLOW_MONITOR request" 5..=6 StatsRequest(16) 0 8,
    OnfFlowMonitorStatsRequest13 "ONFST_FLOW_MONITOR request" 4..=4 VendorRequest(ONF, 1870) 0 8,
    NxFlowMonitorStatsRequest "NXST_FLOW_MONITOR request" 1..=3 VendorRequest(NICIRA, 2) 0 8,
    FlowMonitorStatsReply14 "OFPST_FLOW_MONITOR reply" 5..=6 StatsReply(16) 0 8,
    OnfFlowMonitorStatsReply13 "ONFST_FLOW_MONITOR reply" 4..=4 VendorReply(ONF, 1870) 0 8,
    NxFlowMonitorStatsReply "NXST_FLOW_MONITOR reply" 1..=3 VendorReply(NICIRA, 2) 0 8,
    OnfFlowMonitorCancel13 "ONFT_FLOW_MONITOR_CANCEL" 4..=4 Vendor(ONF, 1870) 4 0,
    NxFlowMonitorCancel "NXT_FLOW_MONITOR_CANCEL" 1..=3 Vendor(NICIRA, 21) 4 0,
    OnfFlowMonitorPaused13 "ONFT_FLOW_MONITOR_PAUSED" 4..=4 Vendor(ONF, 1871) 0 0,
    NxFlowMonitorPaused "NXT_FLOW_MONITOR_PAUSED" 1..=3 Vendor(NICIRA, 22) 0 0,
    OnfFlowMonitorResumed13 "ONFT_FLOW_MONITOR_RESUMED" 4..=4 Vendor(ONF, 1872) 0 0,
    NxFlowMonitorResumed "NXT_FLOW_MONITOR_RESUMED" 1..=3 Vendor(NICIRA, 23) 0 0,
    NxSetFlowFormat "NXT_SET_FLOW_FORMAT" 1..=1 Vendor(NICIRA, 12) 4 0,
    NxFlowModTableId "NXT_FLOW_MOD_TABLE_ID" 1..=6 Vendor(NICIRA, 15) 8 0,
    NxSetPacketInFormat "NXT_SET_PACKET_IN_FORMAT" 1..=6 Vendor(NICIRA, 16) 4 0,
    NxFlowAge "NXT_FLOW_AGE" 1..=6 Vendor(NICIRA, 18) 0 0,
    NxSetControllerId "NXT_SET_CONTROLLER_ID" 1..=6 Vendor(NICIRA, 20) 8 0,
    NxTlvTableMod "NXT_TLV_TABLE_MOD" 1..=6 Vendor(NICIRA, 24) 8 8,
    NxTlvTableRequest "NXT_TLV_TABLE_REQUEST" 1..=6 Vendor(NICIRA, 25) 0 0,
    NxTlvTableReply "NXT_TLV_TABLE_REPLY" 1..=6 Vendor(NICIRA, 26) 16 8,
    NxResume "NXT_RESUME" 1..=6 Vendor(NICIRA, 28) 0 8,
    NxCtFlushZone "NXT_CT_FLUSH_ZONE" 1..=6 Vendor(NICIRA, 29) 8 0,
    NxCtFlush "NXT_CT_FLUSH" 1..=6 Vendor(NICIRA, 32) 8 8,
    NxIpfixBridgeStatsRequest "NXST_IPFIX_BRIDGE request" 1..=6 VendorRequest(NICIRA, 3) 0 0,
    NxIpfixBridgeStatsReply "NXST_IPFIX_BRIDGE reply" 1..=6 VendorReply(NICIRA, 3) 88 0,
    NxIpfixFlowStatsRequest "NXST_IPFIX_FLOW request" 1..=6 VendorRequest(NICIRA, 4) 0 0,
    NxIpfixFlowStatsReply "NXST_IPFIX_FLOW reply" 1..=6 VendorReply(NICIRA, 4) 0 88,
}

/// The kinds by the low byte of their forms, so that few are compared with a message.
static BY_LOW_BYTE: LazyLock<Vec<Vec<Kind>>> = LazyLock::new(|| {
    let kinds = |byte: u8| {
        let all = Kind::ALL.iter().copied();
        all.filter(|kind| kind.rules().form.low_byte() == byte).collect()
    };
    (0..=u8::MAX).map(kinds).collect()
});

/// A received message whose kind and length are known to be valid.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// The OpenFlow header.
    pub header: Header,
    /// The kind of message.
    pub kind: Kind,
    /// The bytes after all headers.
    pub body: &'a [u8],
    /// The whole message.
    pub message: &'a [u8],
}

impl<'a> Raw<'a> {
    /// Finds the kind of a whole message and checks its length.
    ///
    /// # Errors
    /// `BadRequestVendor`, `BadRequestSubtype`, `BadRequestStat` and `BadRequestType` for unknown
    /// messages, `BadRequestLen` for a length that the kind cannot have.
    pub fn parse(message: &'a [u8]) -> Result<Raw<'a>, OfError> {
        let header = Header::parse(message)?;
        let message = message.get(..usize::from(header.length)).ok_or(OfError::BadRequestLen)?;
        let (kind, form) = Kind::find(&header, message)?;
        let rules = kind.rules();
        let body = message.get(form.headers_len(header.version)..).ok_or(OfError::BadRequestLen)?;
        let extra = body.len().checked_sub(rules.minimum).ok_or(OfError::BadRequestLen)?;
        let fits = if rules.multiple == 0 { extra == 0 } else { extra % rules.multiple == 0 };
        if !fits {
            return Err(OfError::BadRequestLen);
        }
        Ok(Raw { header, kind, body, message })
    }

    /// The version of the message, `None` for a hello, error or echo of an unknown version.
    pub fn version(&self) -> Option<Version> {
        Version::from_wire(self.header.version)
    }

    /// Whether this is a statistics message, and one that more parts follow.
    pub fn more(&self) -> bool {
        let flags = self.message.get(10..12);
        self.kind.rules().form.is_stats()
            && flags.is_some_and(|flags| flags.last().is_some_and(|low| low & 1 != 0))
    }
}

impl Kind {
    /// The kind of a message, of which the headers suffice.
    ///
    /// # Errors
    /// `BadRequestLen` without the headers, else as [`Raw::parse`].
    pub fn of(message: &[u8]) -> Result<Kind, OfError> {
        Ok(Kind::find(&Header::parse(message)?, message)?.0)
    }

    fn find(header: &Header, message: &[u8]) -> Result<(Kind, Form), OfError> {
        let form = Form::parse(header, message)?;
        let unknown = match form {
            Form::Plain(_) => OfError::BadRequestType,
            Form::StatsRequest(_) | Form::StatsReply(_) => OfError::BadRequestStat,
            _ => OfError::BadRequestSubtype,
        };
        let candidates = BY_LOW_BYTE.get(usize::from(form.low_byte())).into_iter().flatten();
        let kind = candidates.copied().find(|kind| {
            let rules = kind.rules();
            rules.form == form && (rules.first..=rules.last).contains(&header.version)
        });
        Ok((kind.ok_or(unknown)?, form))
    }

    /// Whether `version` has this kind of message.
    pub fn exists_in(self, version: Version) -> bool {
        let rules = self.rules();
        (rules.first..=rules.last).contains(&(version as u8))
    }

    /// Whether the kind is a statistics (multipart) request or reply.
    pub fn is_stats(self) -> bool {
        self.rules().form.is_stats()
    }

    /// Whether the kind is a statistics (multipart) request.
    pub fn is_stats_request(self) -> bool {
        matches!(self.rules().form, Form::StatsRequest(_) | Form::VendorRequest(..))
    }

    /// Whether a message of the kind has something after all headers.
    pub fn needs_body(self) -> bool {
        self.rules().minimum > 0
    }

    /// Bytes of all headers in `version`.
    pub fn headers_len(self, version: Version) -> usize {
        self.rules().form.headers_len(version as u8)
    }

    /// Starts a message of this kind: all headers, with a length that [`header::finish`] fills in.
    pub(crate) fn start(self, version: Version, xid: u32) -> Vec<u8> {
        let (request, reply) = stats_types(version as u8);
        let old = version == Version::V10;
        let stats = |out: &mut Vec<u8>, kind: u16| {
            out.put_u16(kind);
            out.put_bytes(0, if old { 2 } else { 6 });
        };
        let vendor_stats = |out: &mut Vec<u8>, vendor: u32, subtype: u32| {
            stats(out, STATS_VENDOR);
            out.put_u32(vendor);
            out.put_u32(subtype);
            out.put_bytes(0, if old { 4 } else { 0 });
        };
        let form = self.rules().form;
        let kind = match form {
            Form::Plain(kind) => kind,
            Form::Vendor(..) => TYPE_VENDOR,
            Form::StatsRequest(_) | Form::VendorRequest(..) => request,
            Form::StatsReply(_) | Form::VendorReply(..) => reply,
        };
        let mut out = header::start(version, kind, xid);
        match form {
            Form::Plain(_) => {}
            Form::Vendor(vendor, subtype) => {
                out.put_u32(vendor);
                out.put_u32(subtype);
            }
            Form::StatsRequest(kind) | Form::StatsReply(kind) => stats(&mut out, kind),
            Form::VendorRequest(vendor, subtype) | Form::VendorReply(vendor, subtype) => {
                vendor_stats(&mut out, vendor, subtype);
            }
        }
        out
    }
}

/// Collects the parts of a statistics reply into messages of at most 65,535 bytes, all but the
/// last marked as having more to follow.
#[derive(Debug)]
pub struct Replies {
    messages: Vec<Vec<u8>>,
    headers_len: usize,
    current: Vec<u8>,
}

impl Replies {
    /// Starts replies of `kind` to the request with transaction id `xid`.
    pub fn new(kind: Kind, version: Version, xid: u32) -> Replies {
        let current = kind.start(version, xid);
        Replies { messages: Vec::new(), headers_len: kind.headers_len(version), current }
    }

    /// Appends one part, which is never divided between messages. A part that no message can hold
    /// is left out and `false` returned.
    pub fn push(&mut self, part: &[u8]) -> bool {
        let limit = usize::from(u16::MAX);
        if self.headers_len + part.len() > limit {
            return false;
        }
        if self.current.len() + part.len() > limit {
            let next = self.current.get(..self.headers_len).unwrap_or_default().to_vec();
            let mut full = std::mem::replace(&mut self.current, next);
            patch_u16(&mut full, 10, REPLY_MORE);
            self.messages.push(header::finish(full));
        }
        self.current.extend_from_slice(part);
        true
    }

    /// The messages that are full, which are given away.
    pub(crate) fn take_full(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.messages)
    }

    /// The messages that are left, at least one.
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        self.messages.push(header::finish(self.current));
        self.messages
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_least_message_of_every_kind_and_version_is_recognised() {
        for kind in Kind::ALL {
            for version in Version::ALL.into_iter().filter(|version| kind.exists_in(*version)) {
                let mut message = kind.start(version, 9);
                assert_eq!(message.len(), kind.headers_len(version));
                message.resize(message.len() + kind.rules().minimum, 0);
                let message = header::finish(message);
                let raw = Raw::parse(&message).unwrap();
                assert_eq!((raw.kind, raw.header.xid, raw.more()), (*kind, 9, false));
                assert_eq!(raw.body.len(), kind.rules().minimum);
                let mut long = message.clone();
                long.push(0);
                let long = header::finish(long);
                if kind.rules().multiple != 1 {
                    assert_eq!(Raw::parse(&long).err(), Some(OfError::BadRequestLen));
                }
            }
        }
    }

    #[test]
    fn unknown_messages_have_their_errors() {
        let parse = |bytes: &[u8]| Raw::parse(bytes).err();
        assert_eq!(parse(&[4, 99, 0, 8, 0, 0, 0, 0]), Some(OfError::BadRequestType));
        assert_eq!(
            parse(&[4, 4, 0, 16, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1]),
            Some(OfError::BadRequestVendor)
        );
        assert_eq!(
            parse(&[4, 4, 0, 16, 0, 0, 0, 0, 0, 0, 0x23, 0x20, 0, 0, 9, 1]),
            Some(OfError::BadRequestSubtype)
        );
        assert_eq!(
            parse(&[4, 18, 0, 16, 0, 0, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0]),
            Some(OfError::BadRequestStat)
        );
        assert_eq!(parse(&[4, 18, 0, 10, 0, 0, 0, 0, 0, 0]), Some(OfError::BadRequestLen));
    }

    #[test]
    fn long_replies_are_split_between_parts() {
        let mut replies = Replies::new(Kind::FlowStatsReply13, Version::V13, 5);
        for number in 0..100u8 {
            assert!(replies.push(&vec![number; 1000]));
        }
        assert!(!replies.push(&vec![0; 65520]));
        let messages = replies.finish();
        let raws: Vec<Raw<'_>> = messages.iter().map(|m| Raw::parse(m).unwrap()).collect();
        let shapes: Vec<(usize, bool)> = raws.iter().map(|r| (r.body.len(), r.more())).collect();
        assert_eq!(shapes, [(65_000, true), (35_000, false)]);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let (Some(version), Some(len)) = (bytes.first().copied(), u8::try_from(bytes.len()).ok()) {
                bytes[0] = version % 7;
                if bytes.len() > 3 {
                    bytes[2] = 0;
                    bytes[3] = len;
                }
            }
            let _ = Raw::parse(&bytes);
        }
    }
}
