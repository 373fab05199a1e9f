//! The traffic and the rules of the benchmark of the packet path, and a test that every packet
//! takes the way that a scan of the rules finds.

use std::sync::Arc;

use crate::action::Action;
use crate::datapath::PortNumber;
use crate::flow::{Field, FlowKey};
use crate::testing::{TestHandler, ip, udp};

pub(super) const IN_PORT: PortNumber = PortNumber(1);
pub(super) const OUT_PORTS: [PortNumber; 4] =
    [PortNumber(2), PortNumber(3), PortNumber(4), PortNumber(5)];

/// A small generator of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

/// Source address of a flow.
fn source(flow: u32) -> u32 {
    0x0a00_0000 + flow % 65536
}

/// Destination address of a flow: neighbours of a /16, in no order.
fn destination(flow: u32) -> u32 {
    0x1400_0000 + (flow >> 16 << 16) + flow.wrapping_mul(7919) % 65536
}

/// Ports of a flow.
fn ports(flow: u32) -> [u16; 2] {
    [(1024 + flow.wrapping_mul(31) % 60_000) as u16, (80 + flow % 8) as u16]
}

/// The frame of a flow: 60 bytes of UDP over IPv4.
pub(super) fn frame(flow: u32) -> Vec<u8> {
    udp(source(flow), destination(flow), ports(flow), &[0; 18])
}

/// The same with a VLAN tag.
pub(super) fn tagged(flow: u32) -> Vec<u8> {
    let mut frame = frame(flow);
    frame.splice(12..12, [0x81, 0, 0, 5]);
    frame
}

/// UDP over IPv6.
pub(super) fn ipv6(flow: u32) -> Vec<u8> {
    let ports = ports(flow).map(u16::to_be_bytes).concat();
    let mut frame = ip(true, 17, [&ports[..], &[0, 26, 0, 0], &[0; 18]].concat(), 6);
    frame[50..54].copy_from_slice(&destination(flow).to_be_bytes());
    frame
}

/// The frames of `flows` flows in no order, often enough to fill batches.
pub(super) fn shuffled(flows: u32) -> Vec<Vec<u8>> {
    let mut order: Vec<u32> = (0..flows).collect();
    let mut numbers = Numbers(1);
    for last in (1..flows).rev() {
        order.swap(last as usize, numbers.below(last + 1) as usize);
    }
    let count = 2048_u32.next_multiple_of(flows) as usize;
    order.into_iter().cycle().take(count).map(frame).collect()
}

/// A capture file of frames.
pub(super) fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1_u32];
    let mut bytes = header.map(u32::to_le_bytes).concat();
    for frame in frames {
        let length = frame.len() as u32;
        bytes.extend([0, 0, length, length].map(u32::to_le_bytes).concat());
        bytes.extend(frame);
    }
    bytes
}

/// A rule: values of fields, under masks.
#[derive(Clone)]
struct Rule {
    matches: Vec<(Field, u128, u128)>,
    out: PortNumber,
}

impl Rule {
    fn matches(&self, key: &FlowKey) -> bool {
        self.matches.iter().all(|(field, value, mask)| key.get(*field) & mask == *value)
    }
}

/// Rules by priority; the first that matches decides.
#[derive(Clone, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    /// What every flow looks at besides.
    looks_at: Vec<Field>,
    /// Whether flows of different rules have different masks.
    has_mask_per_rule: bool,
}

impl Rules {
    fn add(&mut self, matches: &[(Field, u128, u128)], out: usize) {
        let out = OUT_PORTS[out % OUT_PORTS.len()];
        self.rules.push(Rule { matches: matches.to_vec(), out });
    }

    /// One rule that looks at the port alone.
    pub(super) fn one() -> Self {
        let mut rules = Self { looks_at: vec![Field::IpFrag], ..Self::default() };
        rules.add(&[], 0);
        rules
    }

    /// One rule for each UDP port: one mask.
    pub(super) fn ports() -> Self {
        Self::by_port(|_| 0)
    }

    /// The same with several ports to send to.
    pub(super) fn spread() -> Self {
        Self::by_port(|port| port)
    }

    fn by_port(out: impl Fn(usize) -> usize) -> Self {
        let mut rules = Self { looks_at: vec![Field::IpFrag, Field::IpProto], ..Self::default() };
        for port in 80..88 {
            rules.add(&[(Field::TpDst, port, 0xffff)], out(port as usize));
        }
        rules.add(&[], 0);
        rules
    }

    /// One rule for which every five-tuple is a flow.
    pub(super) fn exact() -> Self {
        let five = [Field::Ipv4Src, Field::Ipv4Dst, Field::TpSrc, Field::TpDst, Field::IpProto];
        let mut rules = Self { looks_at: five.to_vec(), ..Self::default() };
        rules.add(&[], 0);
        rules
    }

    /// Hundreds of rules for destination prefixes of seven lengths.
    pub(super) fn prefixes() -> Self {
        let mut rules = Self { looks_at: vec![Field::IpFrag, Field::IpProto], ..Self::default() };
        let mut numbers = Numbers(3);
        for length in [32, 28, 24, 20, 16, 12, 8] {
            let mask = u32::MAX << (32 - length);
            for index in 0..60 {
                let address = match length {
                    // Nothing is sent to these.
                    8 => 0x1500_0000 + (index << 24),
                    _ => destination(numbers.below(100_000)) & mask,
                };
                let prefix = (Field::Ipv4Dst, address.into(), mask.into());
                rules.add(&[prefix, (Field::TpDst, (80 + index % 8).into(), 0xffff)], 0);
            }
        }
        rules.add(&[], 0);
        rules
    }

    /// Rules whose flows have so many masks, each as often as another.
    pub(super) fn subtables(count: usize) -> Self {
        let looks_at = vec![Field::TpDst, Field::Ipv4Src];
        let mut rules = Self { looks_at, has_mask_per_rule: true, ..Self::default() };
        for value in 0..count as u128 {
            rules.add(&[(Field::Ipv4Src, value, count as u128 - 1)], 0);
        }
        rules
    }

    /// Where packets with this key go.
    pub(super) fn output(&self, key: &FlowKey) -> Option<PortNumber> {
        self.rules.iter().find(|rule| rule.matches(key)).map(|rule| rule.out)
    }

    /// Bits of a key without which another rule might match.
    fn mask(&self, key: &FlowKey) -> FlowKey {
        let mut bits = FlowKey::default();
        for field in [Field::InPort, Field::RecircId, Field::EthType, Field::PacketType]
            .iter()
            .chain(&self.looks_at)
        {
            bits.set(*field, field.bits());
        }
        for (index, rule) in self.rules.iter().enumerate() {
            for (field, value, mask) in &rule.matches {
                // The bits down to the first that differs from the rule.
                let differs = (key.get(*field) ^ value) & mask;
                let seen = match differs.checked_ilog2() {
                    Some(first) => *mask & (u128::MAX << first),
                    None => *mask,
                };
                bits.set(*field, bits.get(*field) | seen);
            }
            if rule.matches(key) {
                if self.has_mask_per_rule {
                    bits.set(Field::TpSrc, index as u128);
                }
                break;
            }
        }
        bits
    }

    /// Answers upcalls.
    pub(super) fn handler(&self) -> Arc<TestHandler> {
        let rules = self.clone();
        TestHandler::new(move |key| {
            let out = rules.output(key)?;
            Some((rules.mask(key), vec![Action::Output(out.0)]))
        })
    }
}
