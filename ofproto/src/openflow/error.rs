//! The OpenFlow error codes and ERROR messages.
//!
//! One name stands for one meaning in all versions; type, code and experimenter vary by version
//! (OpenFlow specifications 1.0 to 1.5, "Error Message"; the Nicira and ONF extensions use the
//! numbers of Open vSwitch).

use std::fmt;

use bytes::BufMut;

use super::header::{self, Header};
use super::version::Version;
use super::wire::Reader;

/// The experimenter identifier of the Nicira extensions.
pub const NICIRA: u32 = 0x0000_2320;
/// The experimenter identifier of the Open Networking Foundation.
pub const ONF: u32 = 0x4f4e_4600;

/// Error type of Nicira errors before OpenFlow 1.2.
const TYPE_NICIRA: u16 = 0xb0c2;
/// Error code of Nicira errors before OpenFlow 1.2.
const CODE_NICIRA: u16 = 0;
/// Error type of experimenter errors since OpenFlow 1.2.
const TYPE_EXPERIMENTER: u16 = 0xffff;

/// How the versions `first..=last` carry an error.
struct Wire {
    vendor: u32,
    first: u8,
    last: u8,
    kind: u16,
    code: u16,
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

macro_rules! errors {
    ($($variant:ident $name:literal {
        $($vendor:ident $first:literal ..= $last:literal ($kind:literal, $code:literal)),+
    })+) => {
        /// An OpenFlow error. The variant's documentation is the name in the specifications.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum OfError {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
        }

        impl OfError {
            /// Every error, in the order of types and codes.
            pub const ALL: &[OfError] = &[$(OfError::$variant),+];

            /// The name in the specifications, such as `OFPBAC_BAD_TYPE`.
            pub fn name(self) -> &'static str {
                match self { $(OfError::$variant => $name),+ }
            }

            fn wire(self) -> &'static [Wire] {
                match self {
                    $(OfError::$variant => &[$(Wire {
                        vendor: vendor!($vendor),
                        first: $first,
                        last: $last,
                        kind: $kind,
                        code: $code,
                    }),+]),+
                }
            }
        }
    };
}

errors! {
    HelloIncompatible "OFPHFC_INCOMPATIBLE" { of 1..=6 (0, 0) }
    HelloEperm "OFPHFC_EPERM" { of 1..=6 (0, 1) }
    BadRequestVersion "OFPBRC_BAD_VERSION" { of 1..=6 (1, 0) }
    BadRequestType "OFPBRC_BAD_TYPE" { of 1..=6 (1, 1) }
    BadRequestStat "OFPBRC_BAD_STAT" { of 1..=6 (1, 2) }
    BadRequestVendor "OFPBRC_BAD_VENDOR" { of 1..=6 (1, 3) }
    BadRequestSubtype "OFPBRC_BAD_SUBTYPE" { of 1..=6 (1, 4) }
    BadRequestEperm "OFPBRC_EPERM" { of 1..=6 (1, 5) }
    BadRequestLen "OFPBRC_BAD_LEN" { of 1..=6 (1, 6) }
    BadRequestBufferEmpty "OFPBRC_BUFFER_EMPTY" { of 1..=6 (1, 7) }
    BadRequestBufferUnknown "OFPBRC_BUFFER_UNKNOWN" { of 1..=6 (1, 8) }
    BadRequestTableId "OFPBRC_BAD_TABLE_ID" { nx 1..=1 (1, 512), of 2..=6 (1, 9) }
    BadRequestIsSecondary "OFPBRC_IS_SECONDARY" { of 1..=2 (1, 5), of 3..=6 (1, 10) }
    BadRequestPort "OFPBRC_BAD_PORT" { nx 1..=2 (1, 514), of 3..=6 (1, 11) }
    BadRequestPacket "OFPBRC_BAD_PACKET" { of 3..=6 (1, 12) }
    BadRequestMultipartBufferOverflow "OFPBRC_MULTIPART_BUFFER_OVERFLOW" { of 4..=6 (1, 13) }
    BadRequestMultipartRequestTimeout "OFPBRC_MULTIPART_REQUEST_TIMEOUT" { onf 4..=4 (2640, 0), of 5..=6 (1, 14) }
    BadRequestMultipartReplyTimeout "OFPBRC_MULTIPART_REPLY_TIMEOUT" { onf 4..=4 (2641, 0), of 5..=6 (1, 15) }
    BadRequestMultipartBadSched "OFPBRC_MULTIPART_BAD_SCHED" { of 6..=6 (1, 16) }
    BadRequestPipelineFieldsOnly "OFPBRC_PIPELINE_FIELDS_ONLY" { of 6..=6 (1, 17) }
    BadRequestUnknown "OFPBRC_UNKNOWN" { of 6..=6 (1, 18) }
    BadRequestNxmInvalid "NXBRC_NXM_INVALID" { nx 1..=2 (1, 256), nx 3..=6 (2, 0) }
    BadRequestNxmBadType "NXBRC_NXM_BAD_TYPE" { nx 1..=2 (1, 257), nx 3..=6 (3, 0) }
    BadRequestMustBeZero "NXBRC_MUST_BE_ZERO" { nx 1..=2 (1, 515), nx 3..=6 (4, 0) }
    BadRequestReason "NXBRC_BAD_REASON" { nx 1..=2 (1, 516), nx 3..=6 (5, 0) }
    BadRequestFmBadEvent "NXBRC_FM_BAD_EVENT" { nx 1..=2 (1, 520), nx 3..=6 (9, 0) }
    BadRequestUnencodableError "NXBRC_UNENCODABLE_ERROR" { nx 1..=2 (1, 521), nx 3..=6 (10, 0) }
    BadActionType "OFPBAC_BAD_TYPE" { of 1..=6 (2, 0) }
    BadActionLen "OFPBAC_BAD_LEN" { of 1..=6 (2, 1) }
    BadActionVendor "OFPBAC_BAD_VENDOR" { of 1..=6 (2, 2) }
    BadActionVendorType "OFPBAC_BAD_VENDOR_TYPE" { of 1..=6 (2, 3) }
    BadActionOutPort "OFPBAC_BAD_OUT_PORT" { of 1..=6 (2, 4) }
    BadActionArgument "OFPBAC_BAD_ARGUMENT" { of 1..=6 (2, 5) }
    BadActionEperm "OFPBAC_EPERM" { of 1..=6 (2, 6) }
    BadActionTooMany "OFPBAC_TOO_MANY" { of 1..=6 (2, 7) }
    BadActionQueue "OFPBAC_BAD_QUEUE" { of 1..=6 (2, 8) }
    BadActionOutGroup "OFPBAC_BAD_OUT_GROUP" { nx 1..=1 (2, 9), of 2..=6 (2, 9) }
    BadActionMatchInconsistent "OFPBAC_MATCH_INCONSISTENT" { nx 1..=1 (1, 522), of 2..=6 (2, 10) }
    BadActionUnsupportedOrder "OFPBAC_UNSUPPORTED_ORDER" { of 2..=6 (2, 11) }
    BadActionTag "OFPBAC_BAD_TAG" { of 2..=6 (2, 12) }
    BadActionSetType "OFPBAC_BAD_SET_TYPE" { nx 1..=2 (1, 523), of 3..=6 (2, 13) }
    BadActionSetLen "OFPBAC_BAD_SET_LEN" { nx 1..=2 (1, 524), of 3..=6 (2, 14) }
    BadActionSetArgument "OFPBAC_BAD_SET_ARGUMENT" { nx 1..=2 (1, 525), of 3..=6 (2, 15) }
    BadActionSetMask "OFPBAC_BAD_SET_MASK" { onf 4..=5 (4250, 0), of 6..=6 (2, 16) }
    BadActionMeter "OFPBAC_BAD_METER" { of 6..=6 (2, 17) }
    BadActionMustBeZero "NXBAC_MUST_BE_ZERO" { nx 1..=2 (2, 256), nx 3..=6 (11, 0) }
    BadActionConjunction "NXBAC_BAD_CONJUNCTION" { nx 1..=2 (2, 526), nx 3..=6 (15, 0) }
    BadActionHeaderType "NXBAC_BAD_HEADER_TYPE" { nx 4..=6 (39, 0) }
    BadActionUnknownEdProp "NXBAC_UNKNOWN_ED_PROP" { nx 4..=6 (40, 0) }
    BadActionEdProp "NXBAC_BAD_ED_PROP" { nx 4..=6 (41, 0) }
    BadActionCtDatapathSupport "NXBAC_CT_DATAPATH_SUPPORT" { nx 1..=2 (1, 265), nx 3..=6 (42, 0) }
    BadInstructionUnknownInst "OFPBIC_UNKNOWN_INST" { of 2..=6 (3, 0) }
    BadInstructionUnsupInst "OFPBIC_UNSUP_INST" { nx 1..=1 (2, 257), of 2..=6 (3, 1) }
    BadInstructionTableId "OFPBIC_BAD_TABLE_ID" { of 2..=6 (3, 2) }
    BadInstructionUnsupMetadata "OFPBIC_UNSUP_METADATA" { of 2..=6 (3, 3) }
    BadInstructionUnsupMetadataMask "OFPBIC_UNSUP_METADATA_MASK" { of 2..=6 (3, 4) }
    BadInstructionExperimenter "OFPBIC_BAD_EXPERIMENTER" { of 2..=6 (3, 5) }
    BadInstructionExpType "OFPBIC_BAD_EXP_TYPE" { of 2..=2 (3, 5), of 3..=6 (3, 6) }
    BadInstructionLen "OFPBIC_BAD_LEN" { of 3..=6 (3, 7) }
    BadInstructionEperm "OFPBIC_EPERM" { of 3..=6 (3, 8) }
    BadInstructionDupInst "OFPBIC_DUP_INST" { nx 2..=2 (3, 256), onf 3..=4 (2600, 0), of 5..=6 (3, 9) }
    BadMatchType "OFPBMC_BAD_TYPE" { of 2..=6 (4, 0) }
    BadMatchLen "OFPBMC_BAD_LEN" { of 2..=6 (4, 1) }
    BadMatchTag "OFPBMC_BAD_TAG" { of 2..=6 (4, 2) }
    BadMatchDlAddrMask "OFPBMC_BAD_DL_ADDR_MASK" { of 2..=6 (4, 3) }
    BadMatchNwAddrMask "OFPBMC_BAD_NW_ADDR_MASK" { of 2..=6 (4, 4) }
    BadMatchWildcards "OFPBMC_BAD_WILDCARDS" { nx 1..=1 (1, 262), of 2..=6 (4, 5) }
    BadMatchField "OFPBMC_BAD_FIELD" { nx 1..=1 (0, 263), of 2..=6 (4, 6) }
    BadMatchValue "OFPBMC_BAD_VALUE" { nx 1..=1 (1, 258), of 2..=6 (4, 7) }
    BadMatchMask "OFPBMC_BAD_MASK" { nx 1..=2 (1, 259), of 3..=6 (4, 8) }
    BadMatchPrereq "OFPBMC_BAD_PREREQ" { nx 1..=2 (1, 260), of 3..=6 (4, 9) }
    BadMatchDupField "OFPBMC_DUP_FIELD" { nx 1..=2 (1, 261), of 3..=6 (4, 10) }
    BadMatchEperm "OFPBMC_EPERM" { of 3..=6 (4, 11) }
    BadMatchCtDatapathSupport "NXBMC_CT_DATAPATH_SUPPORT" { nx 1..=2 (1, 264), nx 3..=6 (43, 0) }
    FlowModUnknown "OFPFMFC_UNKNOWN" { of 2..=6 (5, 0) }
    FlowModTableFull "OFPFMFC_TABLE_FULL" { of 1..=1 (3, 0), of 2..=6 (5, 1) }
    FlowModBadTableId "OFPFMFC_BAD_TABLE_ID" { of 2..=6 (5, 2) }
    FlowModOverlap "OFPFMFC_OVERLAP" { of 1..=1 (3, 1), of 2..=6 (5, 3) }
    FlowModEperm "OFPFMFC_EPERM" { of 1..=1 (3, 2), of 2..=6 (5, 4) }
    FlowModBadTimeout "OFPFMFC_BAD_TIMEOUT" { of 2..=6 (5, 5) }
    FlowModBadEmergTimeout "OFPFMFC_BAD_EMERG_TIMEOUT" { of 1..=1 (3, 3) }
    FlowModBadCommand "OFPFMFC_BAD_COMMAND" { of 1..=1 (3, 4), of 2..=6 (5, 6) }
    FlowModBadFlags "OFPFMFC_BAD_FLAGS" { nx 1..=1 (3, 258), nx 2..=2 (5, 258), of 3..=6 (5, 7) }
    FlowModCantSync "OFPFMFC_CANT_SYNC" { of 5..=6 (5, 8) }
    FlowModBadPriority "OFPFMFC_BAD_PRIORITY" { onf 4..=4 (2360, 0), of 5..=6 (5, 9) }
    FlowModIsSync "OFPFMFC_IS_SYNC" { of 5..=6 (5, 10) }
    FlowModUnsupported "OFPFMFC_UNSUPPORTED" { of 1..=1 (3, 5) }
    FlowModHardware "NXFMFC_HARDWARE" { nx 1..=2 (5, 256), nx 3..=6 (12, 0) }
    NxFlowModBadTableId "NXFMFC_BAD_TABLE_ID" { nx 1..=2 (5, 257), nx 3..=6 (13, 0) }
    FlowModInvalidTlvField "NXFMFC_INVALID_TLV_FIELD" { nx 1..=2 (1, 536), nx 3..=6 (37, 0) }
    GroupModGroupExists "OFPGMFC_GROUP_EXISTS" { nx 1..=1 (6, 0), of 2..=6 (6, 0) }
    GroupModInvalidGroup "OFPGMFC_INVALID_GROUP" { nx 1..=1 (6, 1), of 2..=6 (6, 1) }
    GroupModWeightUnsupported "OFPGMFC_WEIGHT_UNSUPPORTED" { nx 1..=1 (6, 2), of 2..=6 (6, 2) }
    GroupModOutOfGroups "OFPGMFC_OUT_OF_GROUPS" { nx 1..=1 (6, 3), of 2..=6 (6, 3) }
    GroupModOutOfBuckets "OFPGMFC_OUT_OF_BUCKETS" { nx 1..=1 (6, 4), of 2..=6 (6, 4) }
    GroupModChainingUnsupported "OFPGMFC_CHAINING_UNSUPPORTED" { nx 1..=1 (6, 5), of 2..=6 (6, 5) }
    GroupModWatchUnsupported "OFPGMFC_WATCH_UNSUPPORTED" { nx 1..=1 (6, 6), of 2..=6 (6, 6) }
    GroupModLoop "OFPGMFC_LOOP" { nx 1..=1 (6, 7), of 2..=6 (6, 7) }
    GroupModUnknownGroup "OFPGMFC_UNKNOWN_GROUP" { nx 1..=1 (6, 8), of 2..=6 (6, 8) }
    GroupModChainedGroup "OFPGMFC_CHAINED_GROUP" { nx 1..=1 (6, 9), of 3..=6 (6, 9) }
    GroupModBadType "OFPGMFC_BAD_TYPE" { nx 1..=1 (6, 10), of 3..=6 (6, 10) }
    GroupModBadCommand "OFPGMFC_BAD_COMMAND" { nx 1..=1 (6, 11), of 3..=6 (6, 11) }
    GroupModBadBucket "OFPGMFC_BAD_BUCKET" { nx 1..=1 (6, 12), of 3..=6 (6, 12) }
    GroupModBadWatch "OFPGMFC_BAD_WATCH" { nx 1..=1 (6, 13), of 3..=6 (6, 13) }
    GroupModEperm "OFPGMFC_EPERM" { nx 1..=1 (6, 14), of 3..=6 (6, 14) }
    GroupModUnknownBucket "OFPGMFC_UNKNOWN_BUCKET" { nx 1..=1 (6, 15), of 6..=6 (6, 15) }
    GroupModBucketExists "OFPGMFC_BUCKET_EXISTS" { nx 1..=1 (6, 16), of 6..=6 (6, 16) }
    PortModBadPort "OFPPMFC_BAD_PORT" { of 1..=1 (4, 0), of 2..=6 (7, 0) }
    PortModBadHwAddr "OFPPMFC_BAD_HW_ADDR" { of 1..=1 (4, 1), of 2..=6 (7, 1) }
    PortModBadConfig "OFPPMFC_BAD_CONFIG" { of 2..=6 (7, 2) }
    PortModBadAdvertise "OFPPMFC_BAD_ADVERTISE" { of 2..=6 (7, 3) }
    PortModEperm "OFPPMFC_EPERM" { of 3..=6 (7, 4) }
    TableModBadTable "OFPTMFC_BAD_TABLE" { of 2..=6 (8, 0) }
    TableModBadConfig "OFPTMFC_BAD_CONFIG" { of 2..=6 (8, 1) }
    TableModEperm "OFPTMFC_EPERM" { of 3..=6 (8, 2) }
    QueueOpBadPort "OFPQOFC_BAD_PORT" { of 1..=1 (5, 0), of 2..=6 (9, 0) }
    QueueOpBadQueue "OFPQOFC_BAD_QUEUE" { of 1..=1 (5, 1), of 2..=6 (9, 1) }
    QueueOpEperm "OFPQOFC_EPERM" { of 1..=1 (5, 2), of 2..=6 (9, 2) }
    QueueOpQueueError "NXQOFC_QUEUE_ERROR" { nx 5..=6 (23, 0) }
    SwitchConfigBadFlags "OFPSCFC_BAD_FLAGS" { of 2..=6 (10, 0) }
    SwitchConfigBadLen "OFPSCFC_BAD_LEN" { of 2..=6 (10, 1) }
    SwitchConfigEperm "OFPSCFC_EPERM" { of 3..=6 (10, 2) }
    RoleRequestStale "OFPRRFC_STALE" { of 3..=6 (11, 0) }
    RoleRequestUnsup "OFPRRFC_UNSUP" { of 3..=6 (11, 1) }
    RoleRequestBadRole "OFPRRFC_BAD_ROLE" { nx 1..=2 (1, 513), of 3..=6 (11, 2) }
    RoleRequestIdUnsup "OFPRRFC_ID_UNSUP" { of 6..=6 (11, 3) }
    RoleRequestIdInUse "OFPRRFC_ID_IN_USE" { of 6..=6 (11, 4) }
    MeterModUnknown "OFPMMFC_UNKNOWN" { of 4..=6 (12, 0) }
    MeterModMeterExists "OFPMMFC_METER_EXISTS" { of 4..=6 (12, 1) }
    MeterModInvalidMeter "OFPMMFC_INVALID_METER" { of 4..=6 (12, 2) }
    MeterModUnknownMeter "OFPMMFC_UNKNOWN_METER" { of 4..=6 (12, 3) }
    MeterModBadCommand "OFPMMFC_BAD_COMMAND" { of 4..=6 (12, 4) }
    MeterModBadFlags "OFPMMFC_BAD_FLAGS" { of 4..=6 (12, 5) }
    MeterModBadRate "OFPMMFC_BAD_RATE" { of 4..=6 (12, 6) }
    MeterModBadBurst "OFPMMFC_BAD_BURST" { of 4..=6 (12, 7) }
    MeterModBadBand "OFPMMFC_BAD_BAND" { of 4..=6 (12, 8) }
    MeterModBadBandValue "OFPMMFC_BAD_BAND_VALUE" { of 4..=6 (12, 9) }
    MeterModOutOfMeters "OFPMMFC_OUT_OF_METERS" { of 4..=6 (12, 10) }
    MeterModOutOfBands "OFPMMFC_OUT_OF_BANDS" { of 4..=6 (12, 11) }
    TableFeaturesBadTable "OFPTFFC_BAD_TABLE" { of 4..=6 (13, 0) }
    TableFeaturesBadMetadata "OFPTFFC_BAD_METADATA" { of 4..=6 (13, 1) }
    TableFeaturesEperm "OFPTFFC_EPERM" { of 4..=6 (13, 5) }
    TableFeaturesBadCapa "OFPTFFC_BAD_CAPA" { of 6..=6 (13, 6) }
    TableFeaturesBadMaxEnt "OFPTFFC_BAD_MAX_ENT" { of 6..=6 (13, 7) }
    TableFeaturesBadFeatures "OFPTFFC_BAD_FEATURES" { of 6..=6 (13, 8) }
    TableFeaturesBadCommand "OFPTFFC_BAD_COMMAND" { of 6..=6 (13, 9) }
    TableFeaturesTooMany "OFPTFFC_TOO_MANY" { of 6..=6 (13, 10) }
    TableFeaturesDupTable "NXTFFC_DUP_TABLE" { nx 4..=6 (44, 0) }
    BadPropertyType "OFPBPC_BAD_TYPE" { nx 1..=2 (13, 2), nx 3..=3 (25, 0), of 4..=4 (13, 2), of 5..=6 (14, 0) }
    BadPropertyLen "OFPBPC_BAD_LEN" { nx 1..=2 (13, 3), nx 3..=3 (26, 0), of 4..=4 (13, 3), of 5..=6 (14, 1) }
    BadPropertyValue "OFPBPC_BAD_VALUE" { nx 1..=2 (13, 4), nx 3..=3 (27, 0), of 4..=4 (13, 4), of 5..=6 (14, 2) }
    BadPropertyTooMany "OFPBPC_TOO_MANY" { nx 1..=2 (14, 3), nx 3..=3 (28, 0), onf 4..=4 (4443, 0), of 5..=6 (14, 3) }
    BadPropertyDupType "OFPBPC_DUP_TYPE" { nx 1..=2 (14, 4), nx 3..=3 (29, 0), onf 4..=4 (4444, 0), of 5..=6 (14, 4) }
    BadPropertyExperimenter "OFPBPC_BAD_EXPERIMENTER" { nx 1..=2 (14, 5), nx 3..=3 (30, 0), onf 4..=4 (4445, 0), of 5..=6 (14, 5) }
    BadPropertyExpType "OFPBPC_BAD_EXP_TYPE" { nx 1..=2 (14, 6), nx 3..=3 (31, 0), onf 4..=4 (4446, 0), of 5..=6 (14, 6) }
    BadPropertyExpValue "OFPBPC_BAD_EXP_VALUE" { nx 1..=2 (14, 7), nx 3..=3 (32, 0), onf 4..=4 (4447, 0), of 5..=6 (14, 7) }
    BadPropertyEperm "OFPBPC_EPERM" { nx 1..=2 (14, 8), nx 3..=3 (33, 0), onf 4..=4 (4448, 0), of 5..=6 (14, 8) }
    AsyncConfigInvalid "OFPACFC_INVALID" { onf 4..=4 (2370, 0), of 5..=6 (15, 0) }
    AsyncConfigUnsupported "OFPACFC_UNSUPPORTED" { onf 4..=4 (2371, 0), of 5..=6 (15, 1) }
    AsyncConfigEperm "OFPACFC_EPERM" { onf 4..=4 (2372, 0), of 5..=6 (15, 2) }
    BundleUnknown "OFPBFC_UNKNOWN" { onf 4..=4 (2300, 0), of 5..=6 (17, 0) }
    BundleEperm "OFPBFC_EPERM" { onf 4..=4 (2301, 0), of 5..=6 (17, 1) }
    BundleBadId "OFPBFC_BAD_ID" { onf 4..=4 (2302, 0), of 5..=6 (17, 2) }
    BundleBundleExist "OFPBFC_BUNDLE_EXIST" { onf 4..=4 (2303, 0), of 5..=6 (17, 3) }
    BundleBundleClosed "OFPBFC_BUNDLE_CLOSED" { onf 4..=4 (2304, 0), of 5..=6 (17, 4) }
    BundleOutOfBundles "OFPBFC_OUT_OF_BUNDLES" { onf 4..=4 (2305, 0), of 5..=6 (17, 5) }
    BundleBadType "OFPBFC_BAD_TYPE" { onf 4..=4 (2306, 0), of 5..=6 (17, 6) }
    BundleBadFlags "OFPBFC_BAD_FLAGS" { onf 4..=4 (2307, 0), of 5..=6 (17, 7) }
    BundleMsgBadLen "OFPBFC_MSG_BAD_LEN" { onf 4..=4 (2308, 0), of 5..=6 (17, 8) }
    BundleMsgBadXid "OFPBFC_MSG_BAD_XID" { onf 4..=4 (2309, 0), of 5..=6 (17, 9) }
    BundleMsgUnsup "OFPBFC_MSG_UNSUP" { onf 4..=4 (2310, 0), of 5..=6 (17, 10) }
    BundleMsgConflict "OFPBFC_MSG_CONFLICT" { onf 4..=4 (2311, 0), of 5..=6 (17, 11) }
    BundleMsgTooMany "OFPBFC_MSG_TOO_MANY" { onf 4..=4 (2312, 0), of 5..=6 (17, 12) }
    BundleMsgFailed "OFPBFC_MSG_FAILED" { onf 4..=4 (2313, 0), of 5..=6 (17, 13) }
    BundleTimeout "OFPBFC_TIMEOUT" { onf 4..=4 (2314, 0), of 5..=6 (17, 14) }
    BundleBundleInProgress "OFPBFC_BUNDLE_IN_PROGRESS" { onf 4..=4 (2315, 0), of 5..=6 (17, 15) }
    BundleSchedNotSupported "OFPBFC_SCHED_NOT_SUPPORTED" { of 6..=6 (17, 16) }
    BundleSchedFuture "OFPBFC_SCHED_FUTURE" { of 6..=6 (17, 17) }
    BundleSchedPast "OFPBFC_SCHED_PAST" { of 6..=6 (17, 18) }
    BundleBadVersion "OFPBFC_BAD_VERSION" { nx 5..=6 (22, 0) }
    FlowMonitorUnknown "OFPMOFC_UNKNOWN" { of 5..=6 (16, 0) }
    FlowMonitorMonitorExists "OFPMOFC_MONITOR_EXISTS" { nx 1..=2 (1, 517), nx 3..=4 (6, 0), of 5..=6 (16, 1) }
    FlowMonitorInvalidMonitor "OFPMOFC_INVALID_MONITOR" { of 5..=6 (16, 2) }
    FlowMonitorUnknownMonitor "OFPMOFC_UNKNOWN_MONITOR" { nx 1..=2 (1, 519), nx 3..=4 (8, 0), of 5..=6 (16, 3) }
    FlowMonitorBadCommand "OFPMOFC_BAD_COMMAND" { of 5..=6 (16, 4) }
    FlowMonitorBadFlags "OFPMOFC_BAD_FLAGS" { nx 1..=2 (1, 518), nx 3..=4 (7, 0), of 5..=6 (16, 5) }
    FlowMonitorBadTableId "OFPMOFC_BAD_TABLE_ID" { of 5..=6 (16, 6) }
    FlowMonitorBadOut "OFPMOFC_BAD_OUT" { of 5..=6 (16, 7) }
    TlvTableModBadCommand "NXTTMFC_BAD_COMMAND" { nx 1..=2 (1, 527), nx 3..=6 (16, 0) }
    TlvTableModBadOptLen "NXTTMFC_BAD_OPT_LEN" { nx 1..=2 (1, 528), nx 3..=6 (17, 0) }
    TlvTableModBadFieldIdx "NXTTMFC_BAD_FIELD_IDX" { nx 1..=2 (1, 529), nx 3..=6 (18, 0) }
    TlvTableModTableFull "NXTTMFC_TABLE_FULL" { nx 1..=2 (1, 530), nx 3..=6 (19, 0) }
    TlvTableModAlreadyMapped "NXTTMFC_ALREADY_MAPPED" { nx 1..=2 (1, 531), nx 3..=6 (20, 0) }
    TlvTableModDupEntry "NXTTMFC_DUP_ENTRY" { nx 1..=2 (1, 532), nx 3..=6 (21, 0) }
    TlvTableModInvalidTlvDel "NXTTMFC_INVALID_TLV_DEL" { nx 1..=2 (1, 537), nx 3..=6 (38, 0) }
    ResumeNotSupported "NXR_NOT_SUPPORTED" { nx 1..=2 (1, 533), nx 3..=6 (34, 0) }
    ResumeStale "NXR_STALE" { nx 1..=2 (1, 534), nx 3..=6 (35, 0) }
    StatsNotConfigured "NXST_NOT_CONFIGURED" { nx 1..=2 (1, 535), nx 3..=6 (36, 0) }
}

impl fmt::Display for OfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for OfError {}

impl OfError {
    /// The error with the given name of the specifications.
    pub fn from_name(name: &str) -> Option<OfError> {
        Self::ALL.iter().copied().find(|error| error.name() == name)
    }

    fn wire_in(self, version: Version) -> Option<&'static Wire> {
        let number = version as u8;
        self.wire().iter().find(|wire| (wire.first..=wire.last).contains(&number))
    }

    /// Experimenter (0 for standard errors), type and code in `version`, `None` when that version
    /// has no such error. Experimenter errors since OpenFlow 1.2 have no code; theirs reads 0.
    pub fn to_wire(self, version: Version) -> Option<(u32, u16, u16)> {
        self.wire_in(version).map(|wire| (wire.vendor, wire.kind, wire.code))
    }

    /// The error that `version` writes as experimenter, type and code. Where two errors share
    /// numbers the first of [`OfError::ALL`] is meant.
    pub fn from_wire(version: Version, vendor: u32, kind: u16, code: u16) -> Option<OfError> {
        Self::ALL.iter().copied().find(|error| error.to_wire(version) == Some((vendor, kind, code)))
    }
}

/// An ERROR message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// What went wrong.
    pub error: OfError,
    /// The start of the request that failed, or an explanation for a hello failure.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    /// Encodes the message in `version`. An error that `version` cannot express becomes
    /// `NXBRC_UNENCODABLE_ERROR`; the data are cut to what a message can hold.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let error = match self.error.to_wire(version) {
            Some(_) => self.error,
            None => OfError::BadRequestUnencodableError,
        };
        let (vendor, kind, code) = error.to_wire(version).unwrap_or((0, 0, 0));
        let mut out = header::start(version, 1, xid);
        if vendor == 0 {
            out.put_u16(kind);
            out.put_u16(code);
        } else if version < Version::V12 {
            out.put_u16(TYPE_NICIRA);
            out.put_u16(CODE_NICIRA);
            out.put_u32(vendor);
            out.put_u16(kind);
            out.put_u16(code);
        } else {
            out.put_u16(TYPE_EXPERIMENTER);
            out.put_u16(kind);
            out.put_u32(vendor);
        }
        let room = usize::from(u16::MAX) - out.len();
        out.extend(self.data.iter().take(room));
        header::finish(out)
    }

    /// The reply to a request that failed with `error`; it carries the whole request, as Open
    /// vSwitch sends it (the specifications ask for at least 64 bytes).
    pub fn reply(error: OfError, version: Version, request: &[u8]) -> Vec<u8> {
        let xid = Header::parse(request).map_or(0, |header| header.xid);
        ErrorMessage { error, data: request.to_vec() }.encode(version, xid)
    }

    /// Decodes the body of an ERROR message, the bytes after the OpenFlow header.
    ///
    /// # Errors
    /// `BadRequestLen` for a short body or an unknown error.
    pub fn decode(version: Version, body: &[u8]) -> Result<ErrorMessage, OfError> {
        let mut reader = Reader::new(body, OfError::BadRequestLen);
        let (mut vendor, mut kind, mut code) = (0, reader.u16()?, reader.u16()?);
        if kind == TYPE_NICIRA && code == CODE_NICIRA {
            (vendor, kind, code) = (reader.u32()?, reader.u16()?, reader.u16()?);
        } else if kind == TYPE_EXPERIMENTER {
            (vendor, kind, code) = (reader.u32()?, code, 0);
        }
        let error =
            OfError::from_wire(version, vendor, kind, code).ok_or(OfError::BadRequestLen)?;
        Ok(ErrorMessage { error, data: reader.rest().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_a_version_round_trips_or_has_an_elder_twin() {
        for version in Version::ALL {
            for error in OfError::ALL {
                let message = ErrorMessage { error: *error, data: vec![1, 2, 3] };
                let encoded = message.encode(version, 7);
                let decoded = ErrorMessage::decode(version, &encoded[8..]).unwrap();
                assert_eq!(decoded.data, [1, 2, 3]);
                match error.to_wire(version) {
                    None => assert_eq!(decoded.error, OfError::BadRequestUnencodableError),
                    Some(wire) => {
                        assert_eq!(decoded.error.to_wire(version), Some(wire));
                        assert!(decoded.error <= *error);
                    }
                }
            }
        }
    }

    #[test]
    fn experimenter_errors_change_their_form_in_1_2() {
        let message = ErrorMessage { error: OfError::BadRequestMustBeZero, data: vec![] };
        assert_eq!(
            message.encode(Version::V10, 1),
            [1, 1, 0, 20, 0, 0, 0, 1, 0xb0, 0xc2, 0, 0, 0, 0, 0x23, 0x20, 0, 1, 2, 3]
        );
        assert_eq!(
            message.encode(Version::V13, 1),
            [4, 1, 0, 16, 0, 0, 0, 1, 0xff, 0xff, 0, 4, 0, 0, 0x23, 0x20]
        );
    }

    #[test]
    fn names_are_found() {
        assert_eq!(OfError::from_name("OFPBAC_BAD_TYPE"), Some(OfError::BadActionType));
        assert_eq!(OfError::from_name("OFPBAC_NO_SUCH"), None);
    }
}
