//! An extractor written from the protocol documents, byte by byte, to compare with.

use netdev::packet::{NO_LAYER, VlanTag};

use crate::flow::{Field, FlowKey};

/// What is known beside the bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside {
    pub(super) l3_type: u16,
    pub(super) vlan: Option<VlanTag>,
    pub(super) vlan_limit: usize,
}

/// The key and the offsets of the network and transport header.
pub(super) fn extract(packet: &[u8], beside: Beside) -> (FlowKey, u16, u16) {
    let mut found = Found { key: FlowKey::default(), l3: NO_LAYER, l4: NO_LAYER };
    found.packet(packet, beside);
    (found.key, found.l3, found.l4)
}

struct Found {
    key: FlowKey,
    l3: u16,
    l4: u16,
}

/// Unsigned number of `length` bytes at `at`, if the packet has them.
fn number(packet: &[u8], at: usize, length: usize) -> Option<u128> {
    let bytes = packet.get(at..at + length)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
}

impl Found {
    /// Sets `field` to the number at `at`.
    fn copy(&mut self, field: Field, packet: &[u8], at: usize) -> Option<()> {
        let length = field.range().len();
        self.key.set(field, number(packet, at, length)?);
        Some(())
    }

    fn packet(&mut self, packet: &[u8], beside: Beside) -> Option<()> {
        let mut at = 0;
        let eth_type;
        if beside.l3_type != 0 {
            self.key.set(Field::PacketNamespace, 1);
            self.key.set(Field::PacketType, beside.l3_type.into());
            eth_type = u128::from(beside.l3_type);
        } else {
            number(packet, 0, 14)?;
            self.copy(Field::EthDst, packet, 0)?;
            self.copy(Field::EthSrc, packet, 6)?;
            at = 12;
            let mut tags = vec![];
            if let Some(tag) = beside.vlan {
                tags.push((u128::from(tag.tpid), u128::from(tag.tci)));
            }
            while tags.len() < beside.vlan_limit
                && matches!(number(packet, at, 2)?, 0x8100 | 0x88a8)
                && packet.len() >= at + 6
            {
                tags.push((number(packet, at, 2)?, number(packet, at + 2, 2)?));
                at += 4;
            }
            tags.truncate(beside.vlan_limit);
            let places =
                [(Field::VlanTpid, Field::VlanTci), (Field::InnerVlanTpid, Field::InnerVlanTci)];
            for ((tpid, tci), (place_tpid, place_tci)) in tags.into_iter().zip(places) {
                self.key.set(place_tpid, tpid);
                self.key.set(place_tci, tci | 0x1000);
            }
            let field = number(packet, at, 2)?;
            at += 2;
            eth_type = if field >= 0x600 {
                field
            } else if number(packet, at, 6) == Some(0xaaaa_0300_0000)
                && let Some(snap) = number(packet, at + 6, 2)
            {
                at += 8;
                if snap >= 0x600 { snap } else { 0x5ff }
            } else {
                0x5ff
            };
        }
        self.key.set(Field::EthType, eth_type);
        if matches!(eth_type, 0x8847 | 0x8848) {
            let mut labels = [Field::Mpls0, Field::Mpls1, Field::Mpls2].into_iter();
            while let Some(entry) = number(packet, at, 4) {
                if let Some(field) = labels.next() {
                    self.key.set(field, entry);
                }
                at += 4;
                if entry & 0x100 != 0 {
                    break;
                }
            }
        }
        self.l3 = at as u16;
        match eth_type {
            0x0800 => self.ipv4(packet, at),
            0x86dd => self.ipv6(packet, at),
            0x0806 | 0x8035 => self.arp(packet, at),
            0x894f => self.nsh(packet, at),
            _ => None,
        }
    }

    fn ipv4(&mut self, packet: &[u8], at: usize) -> Option<()> {
        number(packet, at, 20)?;
        let header = usize::from(packet[at] % 16) * 4;
        let total = number(packet, at + 2, 2)? as usize;
        if header < 20 || total < header || at + total > packet.len() {
            return None;
        }
        let packet = &packet[..at + total];
        self.copy(Field::Ipv4Src, packet, at + 12)?;
        self.copy(Field::Ipv4Dst, packet, at + 16)?;
        self.copy(Field::IpTos, packet, at + 1)?;
        self.copy(Field::IpTtl, packet, at + 8)?;
        self.copy(Field::IpProto, packet, at + 9)?;
        let offset = number(packet, at + 6, 2)? % 0x2000;
        let more = packet[at + 6] & 0x20 != 0;
        self.key.set(Field::IpFrag, if offset != 0 { 3 } else { u128::from(more) });
        self.transport(packet, at + header)
    }

    fn ipv6(&mut self, packet: &[u8], at: usize) -> Option<()> {
        let payload = number(packet, at + 4, 2)? as usize;
        number(packet, at, 40)?;
        let packet = packet.get(..at + 40 + payload)?;
        self.copy(Field::Ipv6Src, packet, at + 8)?;
        self.copy(Field::Ipv6Dst, packet, at + 24)?;
        let mut protocol = packet[at + 6];
        let mut fragment = 0;
        let mut next = at + 40;
        while matches!(protocol, 0 | 43 | 44 | 51 | 60) {
            number(packet, next, 8)?;
            let (this, length) = (protocol, usize::from(packet[next + 1]));
            protocol = packet[next];
            next += match this {
                44 => 8,
                51 => (length + 2) * 4,
                _ => (length + 1) * 8,
            };
            if next > packet.len() {
                return None;
            }
            if this == 44 {
                let offset_more = number(packet, next - 6, 2)?;
                if offset_more != 0 {
                    fragment = 1;
                }
                if offset_more >= 8 {
                    (protocol, fragment) = (44, 3);
                    break;
                }
            }
        }
        self.key.set(Field::Ipv6Label, number(packet, at + 1, 3)? & 0xf_ffff);
        self.key.set(Field::IpTos, number(packet, at, 2)? >> 4 & 0xff);
        self.copy(Field::IpTtl, packet, at + 7)?;
        self.key.set(Field::IpProto, protocol.into());
        self.key.set(Field::IpFrag, fragment);
        self.transport(packet, next)
    }

    fn transport(&mut self, packet: &[u8], at: usize) -> Option<()> {
        self.l4 = at as u16;
        if self.key.ip_frag >= 2 {
            return None;
        }
        match self.key.ip_proto {
            6 => {
                number(packet, at, 20)?;
                let header = usize::from(packet[at + 12] >> 4) * 4;
                if header < 20 || at + header > packet.len() {
                    return None;
                }
                self.key.set(Field::TcpFlags, number(packet, at + 12, 2)? & 0xfff);
                self.copy(Field::TpSrc, packet, at)?;
                self.copy(Field::TpDst, packet, at + 2)
            }
            17 | 132 => {
                number(packet, at, if self.key.ip_proto == 17 { 8 } else { 12 })?;
                self.copy(Field::TpSrc, packet, at)?;
                self.copy(Field::TpDst, packet, at + 2)
            }
            protocol @ (1 | 2 | 58) => {
                number(packet, at, 8)?;
                self.key.set(Field::TpSrc, number(packet, at, 1)?);
                self.key.set(Field::TpDst, number(packet, at + 1, 1)?);
                if protocol == 2 {
                    self.copy(Field::IgmpGroup, packet, at + 4)?;
                }
                if protocol == 58 && matches!(number(packet, at, 2)?, 0x8700 | 0x8800) {
                    self.copy(Field::IgmpGroup, packet, at + 4)?;
                    self.neighbour(packet, at + 8)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    fn neighbour(&mut self, packet: &[u8], at: usize) -> Option<()> {
        self.copy(Field::NdTarget, packet, at)?;
        let mut at = at + 16;
        while let Some(option) = packet.get(at..at + 8) {
            let length = usize::from(option[1]) * 8;
            if length == 0 || at + length > packet.len() {
                break;
            }
            if let ([1 | 2, 1], address) = option.split_at(2) {
                let field = if option[0] == 1 { Field::ArpSha } else { Field::ArpTha };
                if self.key.get(field) != 0 {
                    for field in [Field::NdTarget, Field::ArpSha, Field::ArpTha] {
                        self.key.set(field, 0);
                    }
                    break;
                }
                self.key.set(field, number(address, 0, 6)?);
                if self.key.nd_option == 0 {
                    self.key.nd_option = option[0];
                }
            }
            at += length;
        }
        Some(())
    }

    fn arp(&mut self, packet: &[u8], at: usize) -> Option<()> {
        number(packet, at, 28)?;
        if number(packet, at, 6)? != 0x0001_0800_0604 {
            return None;
        }
        let operation = number(packet, at + 6, 2)?;
        self.key.set(Field::IpProto, if operation < 256 { operation } else { 0 });
        self.copy(Field::ArpSha, packet, at + 8)?;
        self.copy(Field::Ipv4Src, packet, at + 14)?;
        self.copy(Field::ArpTha, packet, at + 18)?;
        self.copy(Field::Ipv4Dst, packet, at + 24)
    }

    fn nsh(&mut self, packet: &[u8], at: usize) -> Option<()> {
        let base = number(packet, at, 8)?;
        let length = (base >> 48 & 0x3f) as usize * 4;
        let version = base >> 62;
        if version != 0 || at + length > packet.len() {
            return None;
        }
        let md_type = base >> 40 & 0xff;
        match md_type {
            1 if length != 24 => return None,
            2 if length < 8 => return None,
            _ => {}
        }
        self.key.set(Field::NshFlags, base >> 60 & 3);
        self.key.set(Field::NshTtl, base >> 54 & 0x3f);
        self.key.set(Field::NshMdType, md_type);
        self.key.set(Field::NshNextProtocol, base >> 32 & 0xff);
        self.key.set(Field::NshPath, base & 0xffff_ffff);
        if md_type == 1 {
            let fields = [Field::NshC1, Field::NshC2, Field::NshC3, Field::NshC4];
            for (index, field) in fields.into_iter().enumerate() {
                self.copy(field, packet, at + 8 + 4 * index)?;
            }
        }
        Some(())
    }
}
