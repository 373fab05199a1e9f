//! The fixed match structures of OpenFlow 1.0 and 1.1.

use bytes::BufMut;

use super::error::OfError;
use super::field::Prerequisite;
use super::flow_match::{Match, VLAN_PCP, VLAN_PRESENT, VLAN_VID, ip_proto};
use super::oxm::{self, MatchRules};
use super::port::PortNo;
use super::slot::Slot;
use super::value::low_ones;
use super::version::Version;
use super::wire::Reader;

/// Bytes of the match of OpenFlow 1.0.
const LEN_10: usize = 40;
/// Bytes of the match of OpenFlow 1.1.
const LEN_11: u16 = 88;

/// Wildcard bits of OpenFlow 1.0 (`ofp_flow_wildcards`).
mod wildcard10 {
    pub(super) const IN_PORT: u32 = 1 << 0;
    pub(super) const VLAN: u32 = 1 << 1;
    pub(super) const ETH_SRC: u32 = 1 << 2;
    pub(super) const ETH_DST: u32 = 1 << 3;
    pub(super) const ETH_TYPE: u32 = 1 << 4;
    pub(super) const NW_PROTO: u32 = 1 << 5;
    pub(super) const TP_SRC: u32 = 1 << 6;
    pub(super) const TP_DST: u32 = 1 << 7;
    pub(super) const NW_SRC_SHIFT: u32 = 8;
    pub(super) const NW_DST_SHIFT: u32 = 14;
    pub(super) const VLAN_PCP: u32 = 1 << 20;
    pub(super) const NW_TOS: u32 = 1 << 21;
    pub(super) const ALL: u32 = (1 << 22) - 1;
    /// Every bit whose field needs an Ethernet packet, addresses aside.
    pub(super) const ETHERNET: u32 = ALL & !IN_PORT & !(0xfff << NW_SRC_SHIFT);
}

/// The VLAN id of OpenFlow 1.0 and 1.1 for packets without a tag.
const VLAN_NONE: u16 = 0xffff;
/// The VLAN id of OpenFlow 1.1 for packets with any tag.
const VLAN_ANY: u16 = 0xfffe;

/// The mask of an IPv4 address of which `wild` low bits do not count.
fn prefix_mask(wild: u32) -> u32 {
    u32::MAX.checked_shl(wild & 0x3f).unwrap_or(0)
}

/// The match of OpenFlow 1.0 (section 5.2.3), read from 40 bytes.
///
/// The second value tells whether no field is wild, which gives a flow the highest priority.
pub(crate) fn read_10(reader: &mut Reader<'_>) -> Result<(Match, bool), OfError> {
    use wildcard10 as wild;

    let mut body = reader.sub(LEN_10)?;
    let wildcards = body.u32()? & wild::ALL;
    let in_port = body.u16()?;
    let (eth_src, eth_dst) = (mac(&mut body)?, mac(&mut body)?);
    let (vlan, pcp) = (body.u16()?, body.u8()?);
    body.skip(1)?;
    let eth_type = body.u16()?;
    let (tos, proto) = (body.u8()?, body.u8()?);
    body.skip(2)?;
    let (nw_src, nw_dst) = (body.u32()?, body.u32()?);
    let (tp_src, tp_dst) = (body.u16()?, body.u16()?);

    let mut flow_match = Match::new();
    let nw_src_mask = prefix_mask(wildcards >> wild::NW_SRC_SHIFT);
    let nw_dst_mask = prefix_mask(wildcards >> wild::NW_DST_SHIFT);
    if wildcards & wild::ETHERNET != wild::ETHERNET || nw_src_mask | nw_dst_mask != 0 {
        flow_match.require_ethernet();
    }
    let fields = [
        (wild::IN_PORT, Slot::IN_PORT, u128::from(in_port), 0xffff),
        (wild::ETH_SRC, Slot::ETH_SRC, eth_src, low_ones(48)),
        (wild::ETH_DST, Slot::ETH_DST, eth_dst, low_ones(48)),
        (wild::ETH_TYPE, Slot::ETH_TYPE, u128::from(eth_type), 0xffff),
        (wild::NW_TOS, Slot::NW_TOS, u128::from(tos), 0xfc),
        (wild::NW_PROTO, Slot::NW_PROTO, u128::from(proto), 0xff),
        (wild::TP_SRC, Slot::TP_SRC, u128::from(tp_src), 0xffff),
        (wild::TP_DST, Slot::TP_DST, u128::from(tp_dst), 0xffff),
    ];
    for (bit, slot, value, mask) in fields {
        if wildcards & bit == 0 {
            flow_match.set(slot, value, mask);
        }
    }
    flow_match.set(Slot::NW_SRC, u128::from(nw_src), u128::from(nw_src_mask));
    flow_match.set(Slot::NW_DST, u128::from(nw_dst), u128::from(nw_dst_mask));
    if wildcards & wild::VLAN == 0 && vlan == VLAN_NONE {
        flow_match.set_exact(Slot::VLAN_TCI, 0);
    } else {
        let vid_mask = if wildcards & wild::VLAN == 0 { VLAN_VID | VLAN_PRESENT } else { 0 };
        let pcp_mask = if wildcards & wild::VLAN_PCP == 0 { VLAN_PCP | VLAN_PRESENT } else { 0 };
        let tag = vlan & VLAN_VID | u16::from(pcp) << 13 | VLAN_PRESENT;
        flow_match.set(Slot::VLAN_TCI, u128::from(tag), u128::from(vid_mask | pcp_mask));
    }
    Ok((flow_match, wildcards == 0))
}

fn mac(reader: &mut Reader<'_>) -> Result<u128, OfError> {
    Ok(u128::from(reader.u16()?) << 32 | u128::from(reader.u32()?))
}

fn put_mac(out: &mut Vec<u8>, mac: u128) {
    out.put_uint(mac as u64, 6);
}

/// Bits of an IPv4 address that do not count, if those are the low ones; else those below the
/// first bit that does not.
fn wild_bits(mask: u128) -> u32 {
    32 - (mask as u32).leading_ones()
}

/// Appends the match of OpenFlow 1.0. Fields that it cannot express are left out.
pub(crate) fn put_10(out: &mut Vec<u8>, flow_match: &Match) {
    use wildcard10 as wild;

    let value = |slot| flow_match.value(slot);
    let mut wildcards = wild_bits(flow_match.mask(Slot::NW_SRC)) << wild::NW_SRC_SHIFT
        | wild_bits(flow_match.mask(Slot::NW_DST)) << wild::NW_DST_SHIFT;
    let bits = [
        (wild::IN_PORT, Slot::IN_PORT, u128::MAX),
        (wild::ETH_SRC, Slot::ETH_SRC, u128::MAX),
        (wild::ETH_DST, Slot::ETH_DST, u128::MAX),
        (wild::ETH_TYPE, Slot::ETH_TYPE, u128::MAX),
        (wild::NW_TOS, Slot::NW_TOS, 0xfc),
        (wild::NW_PROTO, Slot::NW_PROTO, u128::MAX),
        (wild::TP_SRC, Slot::TP_SRC, u128::MAX),
        (wild::TP_DST, Slot::TP_DST, u128::MAX),
    ];
    for (bit, slot, mask) in bits {
        if flow_match.mask(slot) & mask == 0 {
            wildcards |= bit;
        }
    }
    let (tag, tag_mask) = vlan_tag(flow_match);
    let (mut vlan, mut pcp) = (0, 0);
    if tag_mask == 0 {
        wildcards |= wild::VLAN | wild::VLAN_PCP;
    } else if tag_mask & VLAN_PRESENT != 0 && tag & VLAN_PRESENT == 0 {
        vlan = VLAN_NONE;
    } else {
        match tag_mask & VLAN_VID {
            0 => wildcards |= wild::VLAN,
            _ => vlan = tag & VLAN_VID,
        }
        match tag_mask & VLAN_PCP {
            0 => wildcards |= wild::VLAN_PCP,
            _ => pcp = tag >> 13,
        }
    }
    out.put_u32(wildcards);
    out.put_u16(value(Slot::IN_PORT) as u16);
    put_mac(out, value(Slot::ETH_SRC));
    put_mac(out, value(Slot::ETH_DST));
    out.put_u16(vlan);
    out.put_u8(pcp as u8);
    out.put_u8(0);
    out.put_u16(value(Slot::ETH_TYPE) as u16);
    out.put_u8(value(Slot::NW_TOS) as u8 & 0xfc);
    out.put_u8(value(Slot::NW_PROTO) as u8);
    out.put_u16(0);
    out.put_u32(value(Slot::NW_SRC) as u32);
    out.put_u32(value(Slot::NW_DST) as u32);
    out.put_u16(value(Slot::TP_SRC) as u16);
    out.put_u16(value(Slot::TP_DST) as u16);
}

fn vlan_tag(flow_match: &Match) -> (u16, u16) {
    let (tag, mask) = flow_match.get(Slot::VLAN_TCI);
    (tag as u16, mask as u16)
}

/// Wildcard bits of OpenFlow 1.1 (`ofp_flow_wildcards`).
mod wildcard11 {
    pub(super) const IN_PORT: u32 = 1 << 0;
    pub(super) const VLAN: u32 = 1 << 1;
    pub(super) const VLAN_PCP: u32 = 1 << 2;
    pub(super) const ETH_TYPE: u32 = 1 << 3;
    pub(super) const NW_TOS: u32 = 1 << 4;
    pub(super) const NW_PROTO: u32 = 1 << 5;
    pub(super) const TP_SRC: u32 = 1 << 6;
    pub(super) const TP_DST: u32 = 1 << 7;
    pub(super) const MPLS_LABEL: u32 = 1 << 8;
    pub(super) const MPLS_TC: u32 = 1 << 9;
}

/// The VLAN tag and mask that the fields of OpenFlow 1.1 mean.
fn vlan_11(vlan: u16, pcp: Option<u8>) -> Result<(u16, u16), OfError> {
    let (mut tag, mut mask) = match vlan {
        VLAN_NONE => return Ok((0, u16::MAX)),
        VLAN_ANY => (VLAN_PRESENT, VLAN_PRESENT),
        vid if vid <= VLAN_VID => (VLAN_PRESENT | vid, VLAN_PRESENT | VLAN_VID),
        _ => return Err(OfError::BadMatchValue),
    };
    if let Some(pcp) = pcp {
        if pcp > 7 {
            return Err(OfError::BadMatchValue);
        }
        tag |= u16::from(pcp) << 13;
        mask |= VLAN_PCP;
    }
    Ok((tag, mask))
}

/// The match of OpenFlow 1.1 (section A.2.3) after its type and length.
fn read_11(mut body: Reader<'_>) -> Result<Match, OfError> {
    use wildcard11 as wild;

    let (in_port, wildcards) = (body.u32()?, body.u32()?);
    let mut macs = [0; 4];
    for address in &mut macs {
        *address = mac(&mut body)?;
    }
    let [eth_src, eth_src_mask, eth_dst, eth_dst_mask] = macs;
    let (vlan, pcp) = (body.u16()?, body.u8()?);
    body.skip(1)?;
    let (kind, tos, proto) = (body.u16()?, body.u8()?, body.u8()?);
    let (nw_src, nw_src_mask) = (body.u32()?, body.u32()?);
    let (nw_dst, nw_dst_mask) = (body.u32()?, body.u32()?);
    let (tp_src, tp_dst) = (body.u16()?, body.u16()?);
    let (label, class) = (body.u32()?, body.u8()?);
    body.skip(3)?;
    let (metadata, metadata_mask) = (body.u64()?, body.u64()?);
    let given = |bit: u32| wildcards & bit == 0;

    let mut flow_match = Match::new();
    if given(wild::IN_PORT) {
        let port = PortNo::from_u32(in_port).map_err(|_| OfError::BadMatchValue)?;
        flow_match.set_exact(Slot::IN_PORT, u128::from(port.0));
    }
    let (eth_src_mask, eth_dst_mask) = (!eth_src_mask & low_ones(48), !eth_dst_mask & low_ones(48));
    if eth_src_mask | eth_dst_mask != 0 {
        flow_match.set(Slot::ETH_SRC, eth_src, eth_src_mask);
        flow_match.set(Slot::ETH_DST, eth_dst, eth_dst_mask);
        flow_match.require_ethernet();
    }
    if given(wild::VLAN) {
        let (tag, mask) = vlan_11(vlan, given(wild::VLAN_PCP).then_some(pcp))?;
        flow_match.set(Slot::VLAN_TCI, u128::from(tag), u128::from(mask));
        flow_match.require_ethernet();
    }
    if given(wild::ETH_TYPE) {
        flow_match.set_exact(Slot::ETH_TYPE, u128::from(kind));
        flow_match.require_ethernet();
    }
    let ipv4 = flow_match.meets(Prerequisite::Ipv4);
    if ipv4 && given(wild::NW_TOS) {
        if tos & 3 != 0 {
            return Err(OfError::BadMatchValue);
        }
        flow_match.set(Slot::NW_TOS, u128::from(tos), 0xfc);
    }
    if ipv4 || flow_match.meets(Prerequisite::Arp) {
        if given(wild::NW_PROTO) {
            flow_match.set_exact(Slot::NW_PROTO, u128::from(proto));
        }
        flow_match.set(Slot::NW_SRC, u128::from(nw_src), u128::from(!nw_src_mask));
        flow_match.set(Slot::NW_DST, u128::from(nw_dst), u128::from(!nw_dst_mask));
    }
    let proto = flow_match.value(Slot::NW_PROTO) as u8;
    for (bit, slot, port) in
        [(wild::TP_SRC, Slot::TP_SRC, tp_src), (wild::TP_DST, Slot::TP_DST, tp_dst)]
    {
        match proto {
            _ if !ipv4 || !given(bit) => {}
            ip_proto::ICMP if port > 0xff => return Err(OfError::BadMatchField),
            ip_proto::ICMP | ip_proto::TCP | ip_proto::UDP | ip_proto::SCTP => {
                flow_match.set_exact(slot, u128::from(port));
            }
            _ => {}
        }
    }
    if flow_match.meets(Prerequisite::Mpls) {
        let parts = [
            (wild::MPLS_LABEL, u128::from(label) << 12, 0xffff_f000),
            (wild::MPLS_TC, u128::from(class) << 9, 0xe00),
        ];
        for (_, part, part_mask) in parts.into_iter().filter(|(bit, ..)| given(*bit)) {
            let (value, mask) = flow_match.get(Slot::MPLS_LSE);
            flow_match.set(Slot::MPLS_LSE, value | part & part_mask, mask | part_mask);
        }
    }
    flow_match.set(Slot::METADATA, u128::from(metadata), u128::from(!metadata_mask));
    Ok(flow_match)
}

/// Appends the match of OpenFlow 1.1. Fields that it cannot express are left out.
fn put_11(out: &mut Vec<u8>, flow_match: &Match) {
    use wildcard11 as wild;

    let value = |slot| flow_match.value(slot);
    let mask = |slot| flow_match.mask(slot);
    let mut wildcards = 0;
    let bits = [
        (wild::IN_PORT, Slot::IN_PORT, u128::MAX),
        (wild::ETH_TYPE, Slot::ETH_TYPE, u128::MAX),
        (wild::NW_TOS, Slot::NW_TOS, 0xfc),
        (wild::NW_PROTO, Slot::NW_PROTO, u128::MAX),
        (wild::TP_SRC, Slot::TP_SRC, u128::MAX),
        (wild::TP_DST, Slot::TP_DST, u128::MAX),
        (wild::MPLS_LABEL, Slot::MPLS_LSE, 0xffff_f000),
        (wild::MPLS_TC, Slot::MPLS_LSE, 0xe00),
    ];
    for (bit, slot, bits) in bits {
        if mask(slot) & bits == 0 {
            wildcards |= bit;
        }
    }
    let (tag, tag_mask) = vlan_tag(flow_match);
    let (mut vlan, mut pcp) = (0, 0);
    if tag_mask == 0 {
        wildcards |= wild::VLAN | wild::VLAN_PCP;
    } else if tag_mask & VLAN_PRESENT != 0 && tag & VLAN_PRESENT == 0 {
        vlan = VLAN_NONE;
        wildcards |= wild::VLAN_PCP;
    } else {
        vlan = if tag_mask & VLAN_VID == 0 { VLAN_ANY } else { tag & VLAN_VID };
        match tag_mask & VLAN_PCP {
            0 => wildcards |= wild::VLAN_PCP,
            _ => pcp = tag >> 13,
        }
    }
    out.put_u16(0);
    out.put_u16(LEN_11);
    let in_port = PortNo(value(Slot::IN_PORT) as u16).to_u32();
    out.put_u32(if mask(Slot::IN_PORT) == 0 { 0 } else { in_port });
    out.put_u32(wildcards);
    for slot in [Slot::ETH_SRC, Slot::ETH_DST] {
        put_mac(out, value(slot));
        put_mac(out, !mask(slot) & low_ones(48));
    }
    out.put_u16(vlan);
    out.put_u8(pcp as u8);
    out.put_u8(0);
    out.put_u16(value(Slot::ETH_TYPE) as u16);
    out.put_u8(value(Slot::NW_TOS) as u8 & 0xfc);
    out.put_u8(value(Slot::NW_PROTO) as u8);
    for slot in [Slot::NW_SRC, Slot::NW_DST] {
        out.put_u32(value(slot) as u32);
        out.put_u32(!mask(slot) as u32);
    }
    out.put_u16(value(Slot::TP_SRC) as u16);
    out.put_u16(value(Slot::TP_DST) as u16);
    out.put_u32((value(Slot::MPLS_LSE) >> 12) as u32);
    out.put_u8((value(Slot::MPLS_LSE) >> 9) as u8 & 7);
    out.put_bytes(0, 3);
    out.put_u64(value(Slot::METADATA) as u64);
    out.put_u64(!mask(Slot::METADATA) as u64);
}

/// Reads the match of OpenFlow 1.1 and later, in either form.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(crate) fn read(reader: &mut Reader<'_>, rules: &MatchRules<'_>) -> Result<Match, OfError> {
    let mut header = reader.with_error(OfError::BadMatchLen);
    match (header.u16()?, header.u16()?) {
        (0, LEN_11) => {
            let mut body = reader.with_error(OfError::BadMatchLen).sub(usize::from(LEN_11))?;
            reader.skip(usize::from(LEN_11))?;
            body.skip(4)?;
            read_11(body)
        }
        (0, _) => Err(OfError::BadMatchLen),
        (1, _) => oxm::read_oxm(reader, rules),
        _ => Err(OfError::BadMatchType),
    }
}

/// Appends the match in the form of `version`, which is at least 1.1.
pub(crate) fn put(out: &mut Vec<u8>, flow_match: &Match, version: Version) {
    if version <= Version::V11 {
        put_11(out, flow_match);
    } else {
        oxm::put_oxm(out, flow_match, version);
    }
}

impl Match {
    /// Stops matching fields that packets of the matched protocols do not have. The fixed match of
    /// OpenFlow 1.0 can say such things; they mean nothing. Returns whether anything changed.
    pub fn normalize(&mut self) -> bool {
        let before = self.clone();
        let ethernet = self.mask(Slot::PACKET_TYPE) == 0 || self.is_ethernet_only();
        let proto = self.value(Slot::NW_PROTO) as u8;
        let ipv4 = self.meets(Prerequisite::Ipv4);
        let ipv6 = self.meets(Prerequisite::Ipv6);
        let arp = self.meets(Prerequisite::Arp);
        let transport = [ip_proto::TCP, ip_proto::UDP, ip_proto::SCTP].contains(&proto);
        let icmpv6 = ipv6 && proto == ip_proto::ICMPV6;
        let neighbor = |kind| icmpv6 && self.value(Slot::TP_SRC) == kind;
        let (solicit, advert) = (neighbor(135), neighbor(136));
        let ports = (ipv4 && (transport || proto == ip_proto::ICMP))
            || (ipv6 && (transport || proto == ip_proto::ICMPV6));
        let rules = [
            (ethernet, [Slot::ETH_SRC, Slot::ETH_DST].as_slice()),
            (ipv4 || arp, &[Slot::NW_SRC, Slot::NW_DST]),
            (ports, &[Slot::TP_SRC, Slot::TP_DST]),
            (ipv4 || ipv6 || arp, &[Slot::NW_PROTO]),
            (ipv4 || ipv6, &[Slot::NW_TOS, Slot::NW_TTL]),
            (arp || solicit, &[Slot::ARP_SHA]),
            (arp || advert, &[Slot::ARP_THA]),
            (ipv6, &[Slot::IPV6_SRC, Slot::IPV6_DST, Slot::IPV6_LABEL]),
            (solicit || advert, &[Slot::ND_TARGET]),
            (self.meets(Prerequisite::Mpls), &[Slot::MPLS_LSE]),
        ];
        for (_, slots) in rules.into_iter().filter(|(may_match, _)| !may_match) {
            slots.iter().for_each(|slot| self.remove(*slot));
        }
        *self != before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A match that both fixed structures can express.
    fn simple_match() -> Match {
        let mut flow_match = Match::new();
        flow_match.require_ethernet();
        flow_match.set_exact(Slot::IN_PORT, 3);
        flow_match.set_exact(Slot::ETH_SRC, 0x0200_0000_0001);
        flow_match.set(Slot::VLAN_TCI, 0x1064, 0x1fff);
        flow_match.set_exact(Slot::ETH_TYPE, 0x0800);
        flow_match.set(Slot::NW_TOS, 0x20, 0xfc);
        flow_match.set_exact(Slot::NW_PROTO, 6);
        flow_match.set(Slot::NW_SRC, 0xc000_0200, 0xffff_ff00);
        flow_match.set_exact(Slot::NW_DST, 0xc633_6401);
        flow_match.set_exact(Slot::TP_DST, 80);
        flow_match
    }

    #[test]
    fn both_structures_round_trip() {
        let flow_match = simple_match();
        let mut out = Vec::new();
        put_10(&mut out, &flow_match);
        let mut reader = Reader::new(&out, OfError::BadRequestLen);
        assert_eq!(read_10(&mut reader), Ok((flow_match.clone(), false)));
        assert!(reader.is_empty());

        let mut out = Vec::new();
        put(&mut out, &flow_match, Version::V11);
        assert_eq!(out.len(), usize::from(LEN_11));
        let mut reader = Reader::new(&out, OfError::BadRequestLen);
        assert_eq!(read(&mut reader, &MatchRules::STRICT), Ok(flow_match));
        assert!(reader.is_empty());
    }

    #[test]
    fn normalization_removes_fields_of_other_protocols() {
        let mut flow_match = simple_match();
        assert!(!flow_match.normalize());
        flow_match.set_exact(Slot::ETH_TYPE, 0x0806);
        assert!(flow_match.normalize());
        let slots: Vec<Slot> = flow_match.entries().map(|entry| entry.slot).collect();
        assert_eq!(
            slots,
            [
                Slot::PACKET_TYPE,
                Slot::IN_PORT,
                Slot::ETH_SRC,
                Slot::ETH_TYPE,
                Slot::VLAN_TCI,
                Slot::NW_SRC,
                Slot::NW_DST,
                Slot::NW_PROTO,
            ]
        );
    }

    #[test]
    fn vlan_of_1_1() {
        assert_eq!(vlan_11(VLAN_NONE, Some(9)), Ok((0, 0xffff)));
        assert_eq!(vlan_11(VLAN_ANY, Some(3)), Ok((0x7000, 0xf000)));
        assert_eq!(vlan_11(5, None), Ok((0x1005, 0x1fff)));
        assert_eq!(vlan_11(5, Some(8)), Err(OfError::BadMatchValue));
        assert_eq!(vlan_11(0x1000, None), Err(OfError::BadMatchValue));
    }

    proptest! {
        #[test]
        fn any_40_bytes_are_a_match_and_settle(bytes in prop::array::uniform(any::<u8>())) {
            let bytes: [u8; LEN_10] = bytes;
            let settle = |bytes: &[u8]| {
                let mut flow_match =
                    read_10(&mut Reader::new(bytes, OfError::BadRequestLen)).unwrap().0;
                flow_match.normalize();
                let mut out = Vec::new();
                put_10(&mut out, &flow_match);
                // Fields that normalization removed may have required Ethernet.
                flow_match.remove(Slot::PACKET_TYPE);
                (flow_match, out)
            };
            let (flow_match, out) = settle(&bytes);
            prop_assert_eq!(settle(&out), (flow_match, out.clone()));
        }

        #[test]
        fn any_88_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            if let Some(header) = bytes.get_mut(..4) {
                header.copy_from_slice(&[0, 0, 0, LEN_11 as u8]);
            }
            let _ = read(&mut Reader::new(&bytes, OfError::BadRequestLen), &MatchRules::STRICT);
        }
    }
}
