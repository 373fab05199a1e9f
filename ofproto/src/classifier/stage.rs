//! The stages in which a lookup compares fields.
//!
//! A lookup stops at the first stage that no rule of a subtable agrees with, and has not looked
//! at the fields of later ones. Fields that differ between few packets come first.

use std::sync::LazyLock;

use dpif::flow::VlanKey;
use netdev::wire::ethernet::MacAddress;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::flow::Flow;

/// Number of stages: what is known besides the packet, link layer, network layer, transport.
pub(super) const STAGES: usize = 4;

/// The bits of a flow that belong to each stage.
pub(super) static STAGE_BITS: LazyLock<[Flow; STAGES]> = LazyLock::new(|| {
    let (link, network, transport) = (link(), network(), transport());
    let mut metadata = Flow::default();
    metadata.words_mut().fill(u64::MAX);
    for later in [&link, &network, &transport] {
        for (word, bits) in metadata.words_mut().iter_mut().zip(later.words()) {
            *word &= !bits;
        }
    }
    [metadata, link, network, transport]
});

/// A value all of whose bits are ones.
fn ones<T: FromBytes + FromZeros + IntoBytes + Immutable>() -> T {
    let mut value = T::new_zeroed();
    value.as_mut_bytes().fill(0xff);
    value
}

fn link() -> Flow {
    let mut flow = Flow::default();
    let packet = &mut flow.packet;
    packet.eth_dst = ones::<MacAddress>();
    packet.eth_src = ones::<MacAddress>();
    packet.eth_type = ones();
    packet.vlans = packet.vlans.map(|_| ones::<VlanKey>());
    packet.mpls = packet.mpls.map(|_| ones());
    flow
}

fn network() -> Flow {
    let mut flow = Flow::default();
    let packet = &mut flow.packet;
    (packet.ipv4_src, packet.ipv4_dst) = (ones(), ones());
    (packet.ct_ipv4_src, packet.ct_ipv4_dst) = (ones(), ones());
    (packet.ipv6_src, packet.ipv6_dst) = (ones(), ones());
    (packet.ct_ipv6_src, packet.ct_ipv6_dst) = (ones(), ones());
    packet.ipv6_label = ones();
    (packet.ip_frag, packet.ip_tos, packet.ip_ttl, packet.ip_proto) = (0xff, 0xff, 0xff, 0xff);
    flow
}

fn transport() -> Flow {
    let mut flow = Flow::default();
    let packet = &mut flow.packet;
    packet.nd_target = ones();
    (packet.arp_sha, packet.arp_tha) = (ones(), ones());
    packet.tcp_flags = ones();
    packet.nd_option = 0xff;
    packet.nsh = ones();
    (packet.tp_src, packet.tp_dst) = (ones(), ones());
    (packet.ct_tp_src, packet.ct_tp_dst) = (ones(), ones());
    packet.igmp_group = ones();
    flow
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_belongs_to_one_stage() {
        let mut seen = Flow::default();
        for stage in STAGE_BITS.iter() {
            for (seen, bits) in seen.words_mut().iter_mut().zip(stage.words()) {
                assert_eq!(*seen & bits, 0);
                *seen |= bits;
            }
        }
        assert!(seen.words().iter().all(|word| *word == u64::MAX));
    }
}
