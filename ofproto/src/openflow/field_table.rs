//! The table of all match fields.
//!
//! Numbers and since-versions of OpenFlow extensible matches: the "Flow Match Fields" sections of
//! the OpenFlow specifications 1.2 to 1.5; NXM and experimenter fields as Open vSwitch numbers
//! them.

use super::field::{Class, FieldInfo, Form, Oxm, Prerequisite};
use super::slot::Slot;

macro_rules! flag {
    (rw) => {
        true
    };
    (ro) => {
        false
    };
    (Any) => {
        true
    };
    (None) => {
        false
    };
}

macro_rules! since {
    (v0) => {
        0
    };
    (v3) => {
        3
    };
    (v4) => {
        4
    };
    (v6) => {
        6
    };
}

/// Makes the table and a constant for each field's place in it.
///
/// A row reads: constant, names, bytes, bits, masks allowed (`Any`) or not (`None`), text form,
/// prerequisite, writable by actions or not, place in a match, and the extensible-match headers
/// (class, number, length, first version of OpenFlow, name), oldest first.
macro_rules! fields {
    ($($constant:ident $name:literal $(| $other:literal)? $bytes:literal $bits:literal $mask:ident
       $form:ident $prerequisite:ident $access:ident ($slot:expr, $offset:literal)
       [$($class:ident $number:literal $length:literal $since:ident $oxm:literal),*];)+) => {
        /// Properties of all fields, in the order of [`super::field::Field`].
        pub(super) static FIELDS: &[FieldInfo] = &[$(FieldInfo {
            name: $name,
            other_name: [$($other,)? ""][0],
            bytes: $bytes,
            bits: $bits,
            maskable: flag!($mask),
            form: Form::$form,
            prerequisite: Prerequisite::$prerequisite,
            writable: flag!($access),
            slot: $slot,
            offset: $offset,
            oxms: &[$(Oxm {
                class: Class::$class,
                number: $number,
                length: $length,
                since: since!($since),
                name: $oxm,
            }),*],
        }),+];

        /// The places of the fields in [`FIELDS`].
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "become constants")]
        pub(super) enum Place { $($constant),+ }

        impl super::field::Field {
            $(#[doc = concat!("`", $name, "`")]
            pub const $constant: Self = Self(Place::$constant as u8);)+
        }
    };
}

fields! {
    DP_HASH "dp_hash" 4 32 Any Hex None ro (Slot::DP_HASH, 0)
        [NX_ET 0 8 v0 "NXOXM_ET_DP_HASH", NXM_1 35 4 v0 "NXM_NX_DP_HASH"];
    RECIRC_ID "recirc_id" 4 32 None Decimal None ro (Slot::RECIRC_ID, 0)
        [NXM_1 36 4 v0 "NXM_NX_RECIRC_ID"];
    PACKET_TYPE "packet_type" 4 32 None PacketType None ro (Slot::PACKET_TYPE, 0)
        [BASIC 44 4 v6 "OXM_OF_PACKET_TYPE"];
    CONJ_ID "conj_id" 4 32 None Decimal None ro (Slot::CONJ_ID, 0) [NXM_1 37 4 v0 "NXM_NX_CONJ_ID"];
    TUN_ID "tun_id" | "tunnel_id" 8 64 Any Hex None rw (Slot::TUN_ID, 0)
        [NXM_1 16 8 v0 "NXM_NX_TUN_ID", BASIC 38 8 v4 "OXM_OF_TUNNEL_ID"];
    TUN_SRC "tun_src" 4 32 Any Ipv4 None rw (Slot::TUN_SRC, 0)
        [NXM_1 31 4 v0 "NXM_NX_TUN_IPV4_SRC"];
    TUN_DST "tun_dst" 4 32 Any Ipv4 None rw (Slot::TUN_DST, 0)
        [NXM_1 32 4 v0 "NXM_NX_TUN_IPV4_DST"];
    TUN_IPV6_SRC "tun_ipv6_src" 16 128 Any Ipv6 None rw (Slot::TUN_IPV6_SRC, 0)
        [NXM_1 109 16 v0 "NXM_NX_TUN_IPV6_SRC"];
    TUN_IPV6_DST "tun_ipv6_dst" 16 128 Any Ipv6 None rw (Slot::TUN_IPV6_DST, 0)
        [NXM_1 110 16 v0 "NXM_NX_TUN_IPV6_DST"];
    TUN_FLAGS "tun_flags" 2 1 Any TunnelFlags None rw (Slot::TUN_FLAGS, 0)
        [NXM_1 104 2 v0 "NXM_NX_TUN_FLAGS"];
    TUN_TTL "tun_ttl" 1 8 None Decimal None ro (Slot::TUN_TTL, 0) [];
    TUN_TOS "tun_tos" 1 8 None Decimal None ro (Slot::TUN_TOS, 0) [];
    TUN_GBP_ID "tun_gbp_id" 2 16 Any Decimal None rw (Slot::TUN_GBP_ID, 0)
        [NXM_1 38 2 v0 "NXM_NX_TUN_GBP_ID"];
    TUN_GBP_FLAGS "tun_gbp_flags" 1 8 Any Hex None rw (Slot::TUN_GBP_FLAGS, 0)
        [NXM_1 39 1 v0 "NXM_NX_TUN_GBP_FLAGS"];
    TUN_ERSPAN_IDX "tun_erspan_idx" 4 20 Any Hex None rw (Slot::TUN_ERSPAN_IDX, 0)
        [NX_ET 11 8 v0 "NXOXM_ET_ERSPAN_IDX"];
    TUN_ERSPAN_VER "tun_erspan_ver" 1 4 Any Decimal None rw (Slot::TUN_ERSPAN_VER, 0)
        [NX_ET 12 5 v0 "NXOXM_ET_ERSPAN_VER"];
    TUN_ERSPAN_DIR "tun_erspan_dir" 1 1 Any Decimal None rw (Slot::TUN_ERSPAN_DIR, 0)
        [NX_ET 13 5 v0 "NXOXM_ET_ERSPAN_DIR"];
    TUN_ERSPAN_HWID "tun_erspan_hwid" 1 6 Any Hex None rw (Slot::TUN_ERSPAN_HWID, 0)
        [NX_ET 14 5 v0 "NXOXM_ET_ERSPAN_HWID"];
    TUN_GTPU_FLAGS "tun_gtpu_flags" 1 8 Any Hex None ro (Slot::TUN_GTPU_FLAGS, 0)
        [NX_ET 15 5 v0 "NXOXM_ET_GTPU_FLAGS"];
    TUN_GTPU_MSGTYPE "tun_gtpu_msgtype" 1 8 Any Decimal None ro (Slot::TUN_GTPU_MSGTYPE, 0)
        [NX_ET 16 5 v0 "NXOXM_ET_GTPU_MSGTYPE"];
    TUN_METADATA0 "tun_metadata0" 124 992 Any Hex None rw (Slot::tun_metadata(0), 0)
        [NXM_1 40 124 v0 "NXM_NX_TUN_METADATA0"];
    TUN_METADATA1 "tun_metadata1" 124 992 Any Hex None rw (Slot::tun_metadata(1), 0)
        [NXM_1 41 124 v0 "NXM_NX_TUN_METADATA1"];
    TUN_METADATA2 "tun_metadata2" 124 992 Any Hex None rw (Slot::tun_metadata(2), 0)
        [NXM_1 42 124 v0 "NXM_NX_TUN_METADATA2"];
    TUN_METADATA3 "tun_metadata3" 124 992 Any Hex None rw (Slot::tun_metadata(3), 0)
        [NXM_1 43 124 v0 "NXM_NX_TUN_METADATA3"];
    TUN_METADATA4 "tun_metadata4" 124 992 Any Hex None rw (Slot::tun_metadata(4), 0)
        [NXM_1 44 124 v0 "NXM_NX_TUN_METADATA4"];
    TUN_METADATA5 "tun_metadata5" 124 992 Any Hex None rw (Slot::tun_metadata(5), 0)
        [NXM_1 45 124 v0 "NXM_NX_TUN_METADATA5"];
    TUN_METADATA6 "tun_metadata6" 124 992 Any Hex None rw (Slot::tun_metadata(6), 0)
        [NXM_1 46 124 v0 "NXM_NX_TUN_METADATA6"];
    TUN_METADATA7 "tun_metadata7" 124 992 Any Hex None rw (Slot::tun_metadata(7), 0)
        [NXM_1 47 124 v0 "NXM_NX_TUN_METADATA7"];
    TUN_METADATA8 "tun_metadata8" 124 992 Any Hex None rw (Slot::tun_metadata(8), 0)
        [NXM_1 48 124 v0 "NXM_NX_TUN_METADATA8"];
    TUN_METADATA9 "tun_metadata9" 124 992 Any Hex None rw (Slot::tun_metadata(9), 0)
        [NXM_1 49 124 v0 "NXM_NX_TUN_METADATA9"];
    TUN_METADATA10 "tun_metadata10" 124 992 Any Hex None rw (Slot::tun_metadata(10), 0)
        [NXM_1 50 124 v0 "NXM_NX_TUN_METADATA10"];
    TUN_METADATA11 "tun_metadata11" 124 992 Any Hex None rw (Slot::tun_metadata(11), 0)
        [NXM_1 51 124 v0 "NXM_NX_TUN_METADATA11"];
    TUN_METADATA12 "tun_metadata12" 124 992 Any Hex None rw (Slot::tun_metadata(12), 0)
        [NXM_1 52 124 v0 "NXM_NX_TUN_METADATA12"];
    TUN_METADATA13 "tun_metadata13" 124 992 Any Hex None rw (Slot::tun_metadata(13), 0)
        [NXM_1 53 124 v0 "NXM_NX_TUN_METADATA13"];
    TUN_METADATA14 "tun_metadata14" 124 992 Any Hex None rw (Slot::tun_metadata(14), 0)
        [NXM_1 54 124 v0 "NXM_NX_TUN_METADATA14"];
    TUN_METADATA15 "tun_metadata15" 124 992 Any Hex None rw (Slot::tun_metadata(15), 0)
        [NXM_1 55 124 v0 "NXM_NX_TUN_METADATA15"];
    TUN_METADATA16 "tun_metadata16" 124 992 Any Hex None rw (Slot::tun_metadata(16), 0)
        [NXM_1 56 124 v0 "NXM_NX_TUN_METADATA16"];
    TUN_METADATA17 "tun_metadata17" 124 992 Any Hex None rw (Slot::tun_metadata(17), 0)
        [NXM_1 57 124 v0 "NXM_NX_TUN_METADATA17"];
    TUN_METADATA18 "tun_metadata18" 124 992 Any Hex None rw (Slot::tun_metadata(18), 0)
        [NXM_1 58 124 v0 "NXM_NX_TUN_METADATA18"];
    TUN_METADATA19 "tun_metadata19" 124 992 Any Hex None rw (Slot::tun_metadata(19), 0)
        [NXM_1 59 124 v0 "NXM_NX_TUN_METADATA19"];
    TUN_METADATA20 "tun_metadata20" 124 992 Any Hex None rw (Slot::tun_metadata(20), 0)
        [NXM_1 60 124 v0 "NXM_NX_TUN_METADATA20"];
    TUN_METADATA21 "tun_metadata21" 124 992 Any Hex None rw (Slot::tun_metadata(21), 0)
        [NXM_1 61 124 v0 "NXM_NX_TUN_METADATA21"];
    TUN_METADATA22 "tun_metadata22" 124 992 Any Hex None rw (Slot::tun_metadata(22), 0)
        [NXM_1 62 124 v0 "NXM_NX_TUN_METADATA22"];
    TUN_METADATA23 "tun_metadata23" 124 992 Any Hex None rw (Slot::tun_metadata(23), 0)
        [NXM_1 63 124 v0 "NXM_NX_TUN_METADATA23"];
    TUN_METADATA24 "tun_metadata24" 124 992 Any Hex None rw (Slot::tun_metadata(24), 0)
        [NXM_1 64 124 v0 "NXM_NX_TUN_METADATA24"];
    TUN_METADATA25 "tun_metadata25" 124 992 Any Hex None rw (Slot::tun_metadata(25), 0)
        [NXM_1 65 124 v0 "NXM_NX_TUN_METADATA25"];
    TUN_METADATA26 "tun_metadata26" 124 992 Any Hex None rw (Slot::tun_metadata(26), 0)
        [NXM_1 66 124 v0 "NXM_NX_TUN_METADATA26"];
    TUN_METADATA27 "tun_metadata27" 124 992 Any Hex None rw (Slot::tun_metadata(27), 0)
        [NXM_1 67 124 v0 "NXM_NX_TUN_METADATA27"];
    TUN_METADATA28 "tun_metadata28" 124 992 Any Hex None rw (Slot::tun_metadata(28), 0)
        [NXM_1 68 124 v0 "NXM_NX_TUN_METADATA28"];
    TUN_METADATA29 "tun_metadata29" 124 992 Any Hex None rw (Slot::tun_metadata(29), 0)
        [NXM_1 69 124 v0 "NXM_NX_TUN_METADATA29"];
    TUN_METADATA30 "tun_metadata30" 124 992 Any Hex None rw (Slot::tun_metadata(30), 0)
        [NXM_1 70 124 v0 "NXM_NX_TUN_METADATA30"];
    TUN_METADATA31 "tun_metadata31" 124 992 Any Hex None rw (Slot::tun_metadata(31), 0)
        [NXM_1 71 124 v0 "NXM_NX_TUN_METADATA31"];
    TUN_METADATA32 "tun_metadata32" 124 992 Any Hex None rw (Slot::tun_metadata(32), 0)
        [NXM_1 72 124 v0 "NXM_NX_TUN_METADATA32"];
    TUN_METADATA33 "tun_metadata33" 124 992 Any Hex None rw (Slot::tun_metadata(33), 0)
        [NXM_1 73 124 v0 "NXM_NX_TUN_METADATA33"];
    TUN_METADATA34 "tun_metadata34" 124 992 Any Hex None rw (Slot::tun_metadata(34), 0)
        [NXM_1 74 124 v0 "NXM_NX_TUN_METADATA34"];
    TUN_METADATA35 "tun_metadata35" 124 992 Any Hex None rw (Slot::tun_metadata(35), 0)
        [NXM_1 75 124 v0 "NXM_NX_TUN_METADATA35"];
    TUN_METADATA36 "tun_metadata36" 124 992 Any Hex None rw (Slot::tun_metadata(36), 0)
        [NXM_1 76 124 v0 "NXM_NX_TUN_METADATA36"];
    TUN_METADATA37 "tun_metadata37" 124 992 Any Hex None rw (Slot::tun_metadata(37), 0)
        [NXM_1 77 124 v0 "NXM_NX_TUN_METADATA37"];
    TUN_METADATA38 "tun_metadata38" 124 992 Any Hex None rw (Slot::tun_metadata(38), 0)
        [NXM_1 78 124 v0 "NXM_NX_TUN_METADATA38"];
    TUN_METADATA39 "tun_metadata39" 124 992 Any Hex None rw (Slot::tun_metadata(39), 0)
        [NXM_1 79 124 v0 "NXM_NX_TUN_METADATA39"];
    TUN_METADATA40 "tun_metadata40" 124 992 Any Hex None rw (Slot::tun_metadata(40), 0)
        [NXM_1 80 124 v0 "NXM_NX_TUN_METADATA40"];
    TUN_METADATA41 "tun_metadata41" 124 992 Any Hex None rw (Slot::tun_metadata(41), 0)
        [NXM_1 81 124 v0 "NXM_NX_TUN_METADATA41"];
    TUN_METADATA42 "tun_metadata42" 124 992 Any Hex None rw (Slot::tun_metadata(42), 0)
        [NXM_1 82 124 v0 "NXM_NX_TUN_METADATA42"];
    TUN_METADATA43 "tun_metadata43" 124 992 Any Hex None rw (Slot::tun_metadata(43), 0)
        [NXM_1 83 124 v0 "NXM_NX_TUN_METADATA43"];
    TUN_METADATA44 "tun_metadata44" 124 992 Any Hex None rw (Slot::tun_metadata(44), 0)
        [NXM_1 84 124 v0 "NXM_NX_TUN_METADATA44"];
    TUN_METADATA45 "tun_metadata45" 124 992 Any Hex None rw (Slot::tun_metadata(45), 0)
        [NXM_1 85 124 v0 "NXM_NX_TUN_METADATA45"];
    TUN_METADATA46 "tun_metadata46" 124 992 Any Hex None rw (Slot::tun_metadata(46), 0)
        [NXM_1 86 124 v0 "NXM_NX_TUN_METADATA46"];
    TUN_METADATA47 "tun_metadata47" 124 992 Any Hex None rw (Slot::tun_metadata(47), 0)
        [NXM_1 87 124 v0 "NXM_NX_TUN_METADATA47"];
    TUN_METADATA48 "tun_metadata48" 124 992 Any Hex None rw (Slot::tun_metadata(48), 0)
        [NXM_1 88 124 v0 "NXM_NX_TUN_METADATA48"];
    TUN_METADATA49 "tun_metadata49" 124 992 Any Hex None rw (Slot::tun_metadata(49), 0)
        [NXM_1 89 124 v0 "NXM_NX_TUN_METADATA49"];
    TUN_METADATA50 "tun_metadata50" 124 992 Any Hex None rw (Slot::tun_metadata(50), 0)
        [NXM_1 90 124 v0 "NXM_NX_TUN_METADATA50"];
    TUN_METADATA51 "tun_metadata51" 124 992 Any Hex None rw (Slot::tun_metadata(51), 0)
        [NXM_1 91 124 v0 "NXM_NX_TUN_METADATA51"];
    TUN_METADATA52 "tun_metadata52" 124 992 Any Hex None rw (Slot::tun_metadata(52), 0)
        [NXM_1 92 124 v0 "NXM_NX_TUN_METADATA52"];
    TUN_METADATA53 "tun_metadata53" 124 992 Any Hex None rw (Slot::tun_metadata(53), 0)
        [NXM_1 93 124 v0 "NXM_NX_TUN_METADATA53"];
    TUN_METADATA54 "tun_metadata54" 124 992 Any Hex None rw (Slot::tun_metadata(54), 0)
        [NXM_1 94 124 v0 "NXM_NX_TUN_METADATA54"];
    TUN_METADATA55 "tun_metadata55" 124 992 Any Hex None rw (Slot::tun_metadata(55), 0)
        [NXM_1 95 124 v0 "NXM_NX_TUN_METADATA55"];
    TUN_METADATA56 "tun_metadata56" 124 992 Any Hex None rw (Slot::tun_metadata(56), 0)
        [NXM_1 96 124 v0 "NXM_NX_TUN_METADATA56"];
    TUN_METADATA57 "tun_metadata57" 124 992 Any Hex None rw (Slot::tun_metadata(57), 0)
        [NXM_1 97 124 v0 "NXM_NX_TUN_METADATA57"];
    TUN_METADATA58 "tun_metadata58" 124 992 Any Hex None rw (Slot::tun_metadata(58), 0)
        [NXM_1 98 124 v0 "NXM_NX_TUN_METADATA58"];
    TUN_METADATA59 "tun_metadata59" 124 992 Any Hex None rw (Slot::tun_metadata(59), 0)
        [NXM_1 99 124 v0 "NXM_NX_TUN_METADATA59"];
    TUN_METADATA60 "tun_metadata60" 124 992 Any Hex None rw (Slot::tun_metadata(60), 0)
        [NXM_1 100 124 v0 "NXM_NX_TUN_METADATA60"];
    TUN_METADATA61 "tun_metadata61" 124 992 Any Hex None rw (Slot::tun_metadata(61), 0)
        [NXM_1 101 124 v0 "NXM_NX_TUN_METADATA61"];
    TUN_METADATA62 "tun_metadata62" 124 992 Any Hex None rw (Slot::tun_metadata(62), 0)
        [NXM_1 102 124 v0 "NXM_NX_TUN_METADATA62"];
    TUN_METADATA63 "tun_metadata63" 124 992 Any Hex None rw (Slot::tun_metadata(63), 0)
        [NXM_1 103 124 v0 "NXM_NX_TUN_METADATA63"];
    METADATA "metadata" 8 64 Any Hex None rw (Slot::METADATA, 0) [BASIC 2 8 v3 "OXM_OF_METADATA"];
    IN_PORT "in_port" 2 16 None Port None rw (Slot::IN_PORT, 0) [NXM_0 0 2 v0 "NXM_OF_IN_PORT"];
    IN_PORT_OXM "in_port_oxm" 4 32 None WidePort None rw (Slot::IN_PORT, 0)
        [BASIC 0 4 v3 "OXM_OF_IN_PORT"];
    ACTSET_OUTPUT "actset_output" 4 32 None WidePort None ro (Slot::ACTSET_OUTPUT, 0)
        [ONF_ET 43 8 v4 "ONFOXM_ET_ACTSET_OUTPUT", BASIC 43 4 v6 "OXM_OF_ACTSET_OUTPUT"];
    SKB_PRIORITY "skb_priority" 4 32 None Hex None ro (Slot::SKB_PRIORITY, 0) [];
    PKT_MARK "pkt_mark" 4 32 Any Hex None rw (Slot::PKT_MARK, 0) [NXM_1 33 4 v0 "NXM_NX_PKT_MARK"];
    CT_STATE "ct_state" 4 32 Any CtState None ro (Slot::CT_STATE, 0)
        [NXM_1 105 4 v0 "NXM_NX_CT_STATE"];
    CT_ZONE "ct_zone" 2 16 None Hex None ro (Slot::CT_ZONE, 0) [NXM_1 106 2 v0 "NXM_NX_CT_ZONE"];
    CT_MARK "ct_mark" 4 32 Any Hex None rw (Slot::CT_MARK, 0) [NXM_1 107 4 v0 "NXM_NX_CT_MARK"];
    CT_LABEL "ct_label" 16 128 Any Hex None rw (Slot::CT_LABEL, 0)
        [NXM_1 108 16 v0 "NXM_NX_CT_LABEL"];
    CT_NW_PROTO "ct_nw_proto" 1 8 None Decimal Ct ro (Slot::CT_NW_PROTO, 0)
        [NXM_1 119 1 v0 "NXM_NX_CT_NW_PROTO"];
    CT_NW_SRC "ct_nw_src" 4 32 Any Ipv4 Ct ro (Slot::CT_NW_SRC, 0)
        [NXM_1 120 4 v0 "NXM_NX_CT_NW_SRC"];
    CT_NW_DST "ct_nw_dst" 4 32 Any Ipv4 Ct ro (Slot::CT_NW_DST, 0)
        [NXM_1 121 4 v0 "NXM_NX_CT_NW_DST"];
    CT_IPV6_SRC "ct_ipv6_src" 16 128 Any Ipv6 Ct ro (Slot::CT_IPV6_SRC, 0)
        [NXM_1 122 16 v0 "NXM_NX_CT_IPV6_SRC"];
    CT_IPV6_DST "ct_ipv6_dst" 16 128 Any Ipv6 Ct ro (Slot::CT_IPV6_DST, 0)
        [NXM_1 123 16 v0 "NXM_NX_CT_IPV6_DST"];
    CT_TP_SRC "ct_tp_src" 2 16 Any Decimal Ct ro (Slot::CT_TP_SRC, 0)
        [NXM_1 124 2 v0 "NXM_NX_CT_TP_SRC"];
    CT_TP_DST "ct_tp_dst" 2 16 Any Decimal Ct ro (Slot::CT_TP_DST, 0)
        [NXM_1 125 2 v0 "NXM_NX_CT_TP_DST"];
    REG0 "reg0" 4 32 Any Hex None rw (Slot::xxreg(0), 96) [NXM_1 0 4 v0 "NXM_NX_REG0"];
    REG1 "reg1" 4 32 Any Hex None rw (Slot::xxreg(0), 64) [NXM_1 1 4 v0 "NXM_NX_REG1"];
    REG2 "reg2" 4 32 Any Hex None rw (Slot::xxreg(0), 32) [NXM_1 2 4 v0 "NXM_NX_REG2"];
    REG3 "reg3" 4 32 Any Hex None rw (Slot::xxreg(0), 0) [NXM_1 3 4 v0 "NXM_NX_REG3"];
    REG4 "reg4" 4 32 Any Hex None rw (Slot::xxreg(1), 96) [NXM_1 4 4 v0 "NXM_NX_REG4"];
    REG5 "reg5" 4 32 Any Hex None rw (Slot::xxreg(1), 64) [NXM_1 5 4 v0 "NXM_NX_REG5"];
    REG6 "reg6" 4 32 Any Hex None rw (Slot::xxreg(1), 32) [NXM_1 6 4 v0 "NXM_NX_REG6"];
    REG7 "reg7" 4 32 Any Hex None rw (Slot::xxreg(1), 0) [NXM_1 7 4 v0 "NXM_NX_REG7"];
    REG8 "reg8" 4 32 Any Hex None rw (Slot::xxreg(2), 96) [NXM_1 8 4 v0 "NXM_NX_REG8"];
    REG9 "reg9" 4 32 Any Hex None rw (Slot::xxreg(2), 64) [NXM_1 9 4 v0 "NXM_NX_REG9"];
    REG10 "reg10" 4 32 Any Hex None rw (Slot::xxreg(2), 32) [NXM_1 10 4 v0 "NXM_NX_REG10"];
    REG11 "reg11" 4 32 Any Hex None rw (Slot::xxreg(2), 0) [NXM_1 11 4 v0 "NXM_NX_REG11"];
    REG12 "reg12" 4 32 Any Hex None rw (Slot::xxreg(3), 96) [NXM_1 12 4 v0 "NXM_NX_REG12"];
    REG13 "reg13" 4 32 Any Hex None rw (Slot::xxreg(3), 64) [NXM_1 13 4 v0 "NXM_NX_REG13"];
    REG14 "reg14" 4 32 Any Hex None rw (Slot::xxreg(3), 32) [NXM_1 14 4 v0 "NXM_NX_REG14"];
    REG15 "reg15" 4 32 Any Hex None rw (Slot::xxreg(3), 0) [NXM_1 15 4 v0 "NXM_NX_REG15"];
    REG16 "reg16" 4 32 Any Hex None rw (Slot::xxreg(4), 96) [NX_ET 17 8 v0 "NXOXM_ET_REG16"];
    REG17 "reg17" 4 32 Any Hex None rw (Slot::xxreg(4), 64) [NX_ET 18 8 v0 "NXOXM_ET_REG17"];
    REG18 "reg18" 4 32 Any Hex None rw (Slot::xxreg(4), 32) [NX_ET 19 8 v0 "NXOXM_ET_REG18"];
    REG19 "reg19" 4 32 Any Hex None rw (Slot::xxreg(4), 0) [NX_ET 20 8 v0 "NXOXM_ET_REG19"];
    REG20 "reg20" 4 32 Any Hex None rw (Slot::xxreg(5), 96) [NX_ET 21 8 v0 "NXOXM_ET_REG20"];
    REG21 "reg21" 4 32 Any Hex None rw (Slot::xxreg(5), 64) [NX_ET 22 8 v0 "NXOXM_ET_REG21"];
    REG22 "reg22" 4 32 Any Hex None rw (Slot::xxreg(5), 32) [NX_ET 23 8 v0 "NXOXM_ET_REG22"];
    REG23 "reg23" 4 32 Any Hex None rw (Slot::xxreg(5), 0) [NX_ET 24 8 v0 "NXOXM_ET_REG23"];
    REG24 "reg24" 4 32 Any Hex None rw (Slot::xxreg(6), 96) [NX_ET 25 8 v0 "NXOXM_ET_REG24"];
    REG25 "reg25" 4 32 Any Hex None rw (Slot::xxreg(6), 64) [NX_ET 26 8 v0 "NXOXM_ET_REG25"];
    REG26 "reg26" 4 32 Any Hex None rw (Slot::xxreg(6), 32) [NX_ET 27 8 v0 "NXOXM_ET_REG26"];
    REG27 "reg27" 4 32 Any Hex None rw (Slot::xxreg(6), 0) [NX_ET 28 8 v0 "NXOXM_ET_REG27"];
    REG28 "reg28" 4 32 Any Hex None rw (Slot::xxreg(7), 96) [NX_ET 29 8 v0 "NXOXM_ET_REG28"];
    REG29 "reg29" 4 32 Any Hex None rw (Slot::xxreg(7), 64) [NX_ET 30 8 v0 "NXOXM_ET_REG29"];
    REG30 "reg30" 4 32 Any Hex None rw (Slot::xxreg(7), 32) [NX_ET 31 8 v0 "NXOXM_ET_REG30"];
    REG31 "reg31" 4 32 Any Hex None rw (Slot::xxreg(7), 0) [NX_ET 32 8 v0 "NXOXM_ET_REG31"];
    XREG0 "xreg0" 8 64 Any Hex None rw (Slot::xxreg(0), 64) [REGISTERS 0 8 v4 "OXM_OF_PKT_REG0"];
    XREG1 "xreg1" 8 64 Any Hex None rw (Slot::xxreg(0), 0) [REGISTERS 1 8 v4 "OXM_OF_PKT_REG1"];
    XREG2 "xreg2" 8 64 Any Hex None rw (Slot::xxreg(1), 64) [REGISTERS 2 8 v4 "OXM_OF_PKT_REG2"];
    XREG3 "xreg3" 8 64 Any Hex None rw (Slot::xxreg(1), 0) [REGISTERS 3 8 v4 "OXM_OF_PKT_REG3"];
    XREG4 "xreg4" 8 64 Any Hex None rw (Slot::xxreg(2), 64) [REGISTERS 4 8 v4 "OXM_OF_PKT_REG4"];
    XREG5 "xreg5" 8 64 Any Hex None rw (Slot::xxreg(2), 0) [REGISTERS 5 8 v4 "OXM_OF_PKT_REG5"];
    XREG6 "xreg6" 8 64 Any Hex None rw (Slot::xxreg(3), 64) [REGISTERS 6 8 v4 "OXM_OF_PKT_REG6"];
    XREG7 "xreg7" 8 64 Any Hex None rw (Slot::xxreg(3), 0) [REGISTERS 7 8 v4 "OXM_OF_PKT_REG7"];
    XREG8 "xreg8" 8 64 Any Hex None rw (Slot::xxreg(4), 64) [REGISTERS 8 8 v4 "OXM_OF_PKT_REG8"];
    XREG9 "xreg9" 8 64 Any Hex None rw (Slot::xxreg(4), 0) [REGISTERS 9 8 v4 "OXM_OF_PKT_REG9"];
    XREG10 "xreg10" 8 64 Any Hex None rw (Slot::xxreg(5), 64)
        [REGISTERS 10 8 v4 "OXM_OF_PKT_REG10"];
    XREG11 "xreg11" 8 64 Any Hex None rw (Slot::xxreg(5), 0) [REGISTERS 11 8 v4 "OXM_OF_PKT_REG11"];
    XREG12 "xreg12" 8 64 Any Hex None rw (Slot::xxreg(6), 64)
        [REGISTERS 12 8 v4 "OXM_OF_PKT_REG12"];
    XREG13 "xreg13" 8 64 Any Hex None rw (Slot::xxreg(6), 0) [REGISTERS 13 8 v4 "OXM_OF_PKT_REG13"];
    XREG14 "xreg14" 8 64 Any Hex None rw (Slot::xxreg(7), 64)
        [REGISTERS 14 8 v4 "OXM_OF_PKT_REG14"];
    XREG15 "xreg15" 8 64 Any Hex None rw (Slot::xxreg(7), 0) [REGISTERS 15 8 v4 "OXM_OF_PKT_REG15"];
    XXREG0 "xxreg0" 16 128 Any Hex None rw (Slot::xxreg(0), 0) [NXM_1 111 16 v0 "NXM_NX_XXREG0"];
    XXREG1 "xxreg1" 16 128 Any Hex None rw (Slot::xxreg(1), 0) [NXM_1 112 16 v0 "NXM_NX_XXREG1"];
    XXREG2 "xxreg2" 16 128 Any Hex None rw (Slot::xxreg(2), 0) [NXM_1 113 16 v0 "NXM_NX_XXREG2"];
    XXREG3 "xxreg3" 16 128 Any Hex None rw (Slot::xxreg(3), 0) [NXM_1 114 16 v0 "NXM_NX_XXREG3"];
    XXREG4 "xxreg4" 16 128 Any Hex None rw (Slot::xxreg(4), 0) [NX_ET 33 20 v0 "NXOXM_ET_XXREG4"];
    XXREG5 "xxreg5" 16 128 Any Hex None rw (Slot::xxreg(5), 0) [NX_ET 34 20 v0 "NXOXM_ET_XXREG5"];
    XXREG6 "xxreg6" 16 128 Any Hex None rw (Slot::xxreg(6), 0) [NX_ET 35 20 v0 "NXOXM_ET_XXREG6"];
    XXREG7 "xxreg7" 16 128 Any Hex None rw (Slot::xxreg(7), 0) [NX_ET 36 20 v0 "NXOXM_ET_XXREG7"];
    ETH_SRC "eth_src" | "dl_src" 6 48 Any Mac Ethernet rw (Slot::ETH_SRC, 0)
        [NXM_0 2 6 v0 "NXM_OF_ETH_SRC", BASIC 4 6 v3 "OXM_OF_ETH_SRC"];
    ETH_DST "eth_dst" | "dl_dst" 6 48 Any Mac Ethernet rw (Slot::ETH_DST, 0)
        [NXM_0 1 6 v0 "NXM_OF_ETH_DST", BASIC 3 6 v3 "OXM_OF_ETH_DST"];
    ETH_TYPE "eth_type" | "dl_type" 2 16 None Hex Ethernet ro (Slot::ETH_TYPE, 0)
        [NXM_0 3 2 v0 "NXM_OF_ETH_TYPE", BASIC 5 2 v3 "OXM_OF_ETH_TYPE"];
    VLAN_TCI "vlan_tci" 2 16 Any Hex Ethernet rw (Slot::VLAN_TCI, 0)
        [NXM_0 4 2 v0 "NXM_OF_VLAN_TCI"];
    DL_VLAN "dl_vlan" 2 12 None Decimal Ethernet rw (Slot::VLAN_TCI, 0) [];
    VLAN_VID "vlan_vid" 2 12 Any Decimal Ethernet rw (Slot::VLAN_TCI, 0)
        [BASIC 6 2 v3 "OXM_OF_VLAN_VID"];
    DL_VLAN_PCP "dl_vlan_pcp" 1 3 None Decimal Ethernet rw (Slot::VLAN_TCI, 13) [];
    VLAN_PCP "vlan_pcp" 1 3 None Decimal Vlan rw (Slot::VLAN_TCI, 13)
        [BASIC 7 1 v3 "OXM_OF_VLAN_PCP"];
    MPLS_LABEL "mpls_label" 4 20 None Decimal Mpls rw (Slot::MPLS_LSE, 12)
        [BASIC 34 4 v3 "OXM_OF_MPLS_LABEL"];
    MPLS_TC "mpls_tc" 1 3 None Decimal Mpls rw (Slot::MPLS_LSE, 9) [BASIC 35 1 v3 "OXM_OF_MPLS_TC"];
    MPLS_BOS "mpls_bos" 1 1 None Decimal Mpls ro (Slot::MPLS_LSE, 8)
        [BASIC 36 1 v4 "OXM_OF_MPLS_BOS"];
    MPLS_TTL "mpls_ttl" 1 8 None Decimal Mpls rw (Slot::MPLS_LSE, 0)
        [NXM_1 30 1 v0 "NXM_NX_MPLS_TTL"];
    IPV4_SRC "ip_src" | "nw_src" 4 32 Any Ipv4 Ipv4 rw (Slot::NW_SRC, 0)
        [NXM_0 7 4 v0 "NXM_OF_IP_SRC", BASIC 11 4 v3 "OXM_OF_IPV4_SRC"];
    IPV4_DST "ip_dst" | "nw_dst" 4 32 Any Ipv4 Ipv4 rw (Slot::NW_DST, 0)
        [NXM_0 8 4 v0 "NXM_OF_IP_DST", BASIC 12 4 v3 "OXM_OF_IPV4_DST"];
    IPV6_SRC "ipv6_src" 16 128 Any Ipv6 Ipv6 rw (Slot::IPV6_SRC, 0)
        [NXM_1 19 16 v0 "NXM_NX_IPV6_SRC", BASIC 26 16 v3 "OXM_OF_IPV6_SRC"];
    IPV6_DST "ipv6_dst" 16 128 Any Ipv6 Ipv6 rw (Slot::IPV6_DST, 0)
        [NXM_1 20 16 v0 "NXM_NX_IPV6_DST", BASIC 27 16 v3 "OXM_OF_IPV6_DST"];
    IPV6_LABEL "ipv6_label" 4 20 Any Hex Ipv6 rw (Slot::IPV6_LABEL, 0)
        [NXM_1 27 4 v0 "NXM_NX_IPV6_LABEL", BASIC 28 4 v3 "OXM_OF_IPV6_FLABEL"];
    IP_PROTO "nw_proto" | "ip_proto" 1 8 None Decimal Ip ro (Slot::NW_PROTO, 0)
        [NXM_0 6 1 v0 "NXM_OF_IP_PROTO", BASIC 10 1 v3 "OXM_OF_IP_PROTO"];
    IP_DSCP "nw_tos" 1 8 None Decimal Ip rw (Slot::NW_TOS, 0) [NXM_0 5 1 v0 "NXM_OF_IP_TOS"];
    IP_DSCP_SHIFTED "ip_dscp" 1 6 None Decimal Ip rw (Slot::NW_TOS, 2)
        [BASIC 8 1 v3 "OXM_OF_IP_DSCP"];
    IP_ECN "nw_ecn" | "ip_ecn" 1 2 None Decimal Ip rw (Slot::NW_TOS, 0)
        [NXM_1 28 1 v0 "NXM_NX_IP_ECN", BASIC 9 1 v3 "OXM_OF_IP_ECN"];
    IP_TTL "nw_ttl" 1 8 None Decimal Ip rw (Slot::NW_TTL, 0) [NXM_1 29 1 v0 "NXM_NX_IP_TTL"];
    IP_FRAG "ip_frag" | "nw_frag" 1 2 Any Frag Ip ro (Slot::NW_FRAG, 0)
        [NXM_1 26 1 v0 "NXM_NX_IP_FRAG"];
    ARP_OP "arp_op" 2 16 None Decimal Arp rw (Slot::NW_PROTO, 0)
        [NXM_0 15 2 v0 "NXM_OF_ARP_OP", BASIC 21 2 v3 "OXM_OF_ARP_OP"];
    ARP_SPA "arp_spa" 4 32 Any Ipv4 Arp rw (Slot::NW_SRC, 0)
        [NXM_0 16 4 v0 "NXM_OF_ARP_SPA", BASIC 22 4 v3 "OXM_OF_ARP_SPA"];
    ARP_TPA "arp_tpa" 4 32 Any Ipv4 Arp rw (Slot::NW_DST, 0)
        [NXM_0 17 4 v0 "NXM_OF_ARP_TPA", BASIC 23 4 v3 "OXM_OF_ARP_TPA"];
    ARP_SHA "arp_sha" 6 48 Any Mac Arp rw (Slot::ARP_SHA, 0)
        [NXM_1 17 6 v0 "NXM_NX_ARP_SHA", BASIC 24 6 v3 "OXM_OF_ARP_SHA"];
    ARP_THA "arp_tha" 6 48 Any Mac Arp rw (Slot::ARP_THA, 0)
        [NXM_1 18 6 v0 "NXM_NX_ARP_THA", BASIC 25 6 v3 "OXM_OF_ARP_THA"];
    TCP_SRC "tcp_src" | "tp_src" 2 16 Any Decimal Tcp rw (Slot::TP_SRC, 0)
        [NXM_0 9 2 v0 "NXM_OF_TCP_SRC", BASIC 13 2 v3 "OXM_OF_TCP_SRC"];
    TCP_DST "tcp_dst" | "tp_dst" 2 16 Any Decimal Tcp rw (Slot::TP_DST, 0)
        [NXM_0 10 2 v0 "NXM_OF_TCP_DST", BASIC 14 2 v3 "OXM_OF_TCP_DST"];
    TCP_FLAGS "tcp_flags" 2 12 Any TcpFlags Tcp ro (Slot::TCP_FLAGS, 0)
        [NXM_1 34 2 v0 "NXM_NX_TCP_FLAGS",
         ONF_ET 42 6 v4 "ONFOXM_ET_TCP_FLAGS", BASIC 42 2 v6 "OXM_OF_TCP_FLAGS"];
    UDP_SRC "udp_src" 2 16 Any Decimal Udp rw (Slot::TP_SRC, 0)
        [NXM_0 11 2 v0 "NXM_OF_UDP_SRC", BASIC 15 2 v3 "OXM_OF_UDP_SRC"];
    UDP_DST "udp_dst" 2 16 Any Decimal Udp rw (Slot::TP_DST, 0)
        [NXM_0 12 2 v0 "NXM_OF_UDP_DST", BASIC 16 2 v3 "OXM_OF_UDP_DST"];
    SCTP_SRC "sctp_src" 2 16 Any Decimal Sctp rw (Slot::TP_SRC, 0)
        [BASIC 17 2 v3 "OXM_OF_SCTP_SRC"];
    SCTP_DST "sctp_dst" 2 16 Any Decimal Sctp rw (Slot::TP_DST, 0)
        [BASIC 18 2 v3 "OXM_OF_SCTP_DST"];
    ICMPV4_TYPE "icmp_type" 1 8 None Decimal Icmpv4 rw (Slot::TP_SRC, 0)
        [NXM_0 13 1 v0 "NXM_OF_ICMP_TYPE", BASIC 19 1 v3 "OXM_OF_ICMPV4_TYPE"];
    ICMPV4_CODE "icmp_code" 1 8 None Decimal Icmpv4 rw (Slot::TP_DST, 0)
        [NXM_0 14 1 v0 "NXM_OF_ICMP_CODE", BASIC 20 1 v3 "OXM_OF_ICMPV4_CODE"];
    ICMPV6_TYPE "icmpv6_type" 1 8 None Decimal Icmpv6 rw (Slot::TP_SRC, 0)
        [NXM_1 21 1 v0 "NXM_NX_ICMPV6_TYPE", BASIC 29 1 v3 "OXM_OF_ICMPV6_TYPE"];
    ICMPV6_CODE "icmpv6_code" 1 8 None Decimal Icmpv6 rw (Slot::TP_DST, 0)
        [NXM_1 22 1 v0 "NXM_NX_ICMPV6_CODE", BASIC 30 1 v3 "OXM_OF_ICMPV6_CODE"];
    ND_TARGET "nd_target" 16 128 Any Ipv6 Nd rw (Slot::ND_TARGET, 0)
        [NXM_1 23 16 v0 "NXM_NX_ND_TARGET", BASIC 31 16 v3 "OXM_OF_IPV6_ND_TARGET"];
    ND_SLL "nd_sll" 6 48 Any Mac NdSolicit rw (Slot::ARP_SHA, 0)
        [NXM_1 24 6 v0 "NXM_NX_ND_SLL", BASIC 32 6 v3 "OXM_OF_IPV6_ND_SLL"];
    ND_TLL "nd_tll" 6 48 Any Mac NdAdvert rw (Slot::ARP_THA, 0)
        [NXM_1 25 6 v0 "NXM_NX_ND_TLL", BASIC 33 6 v3 "OXM_OF_IPV6_ND_TLL"];
    ND_RESERVED "nd_reserved" 4 32 None Decimal Nd rw (Slot::ND_RESERVED, 0)
        [ERICSSON 1 4 v0 "ERICOXM_OF_ICMPV6_ND_RESERVED"];
    ND_OPTIONS_TYPE "nd_options_type" 1 8 None Decimal Nd rw (Slot::TCP_FLAGS, 0)
        [ERICSSON 2 1 v0 "ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE"];
    NSH_FLAGS "nsh_flags" 1 8 Any Decimal Nsh rw (Slot::NSH_FLAGS, 0)
        [NSH_ET 1 5 v0 "NXOXM_NSH_FLAGS"];
    NSH_MDTYPE "nsh_mdtype" 1 8 None Decimal Nsh ro (Slot::NSH_MDTYPE, 0)
        [NSH_ET 2 5 v0 "NXOXM_NSH_MDTYPE"];
    NSH_NP "nsh_np" 1 8 None Decimal Nsh ro (Slot::NSH_NP, 0) [NSH_ET 3 5 v0 "NXOXM_NSH_NP"];
    NSH_SPI "nsh_spi" | "nsp" 4 24 None Hex Nsh rw (Slot::NSH_PATH, 8)
        [NSH_ET 4 8 v0 "NXOXM_NSH_SPI"];
    NSH_SI "nsh_si" | "nsi" 1 8 None Decimal Nsh rw (Slot::NSH_PATH, 0)
        [NSH_ET 5 5 v0 "NXOXM_NSH_SI"];
    NSH_C1 "nsh_c1" | "nshc1" 4 32 Any Hex Nsh rw (Slot::NSH_C1, 0) [NSH_ET 6 8 v0 "NXOXM_NSH_C1"];
    NSH_C2 "nsh_c2" | "nshc2" 4 32 Any Hex Nsh rw (Slot::NSH_C2, 0) [NSH_ET 7 8 v0 "NXOXM_NSH_C2"];
    NSH_C3 "nsh_c3" | "nshc3" 4 32 Any Hex Nsh rw (Slot::NSH_C3, 0) [NSH_ET 8 8 v0 "NXOXM_NSH_C3"];
    NSH_C4 "nsh_c4" | "nshc4" 4 32 Any Hex Nsh rw (Slot::NSH_C4, 0) [NSH_ET 9 8 v0 "NXOXM_NSH_C4"];
    NSH_TTL "nsh_ttl" 1 8 None Decimal Nsh rw (Slot::NSH_TTL, 0) [NSH_ET 10 5 v0 "NXOXM_NSH_TTL"];
}
