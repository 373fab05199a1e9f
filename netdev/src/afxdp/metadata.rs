//! What the XDP program puts in front of a packet (`xdp/metadata.c`).

use crate::packet::{PacketMut, VlanTag};

/// Length of `struct metadata`.
const LENGTH: usize = 16;
const MAGIC: u32 = 0x534c_4d31;
const HAS_HASH: u32 = 1;
const HAS_TAG: u32 = 2;

/// Takes over what the program says of `packet`, if it says anything.
#[inline]
pub(super) fn apply(packet: &mut PacketMut<'_>) {
    let Some(bytes) = packet.push_front(LENGTH) else { return };
    let words = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).copied();
    let (magic, flags) = (words(0).map(u32::from_ne_bytes), words(4).map(u32::from_ne_bytes));
    let hash = words(8).map(u32::from_ne_bytes);
    let tag = match bytes {
        [.., a, b, c, d] => {
            VlanTag { tpid: u16::from_be_bytes([*a, *b]), tci: u16::from_ne_bytes([*c, *d]) }
        }
        _ => VlanTag { tpid: 0, tci: 0 },
    };
    let is_there = magic == Some(MAGIC);
    // It must not be taken for that of the next packet in this frame.
    bytes.fill(0);
    packet.pull_front(LENGTH);
    if !is_there {
        return;
    }
    let flags = flags.unwrap_or(0);
    let descriptor = packet.descriptor_mut();
    if flags & HAS_HASH != 0 {
        descriptor.set_rss_hash(hash);
    }
    if flags & HAS_TAG != 0 && tag.tpid != 0 {
        descriptor.set_vlan(Some(tag));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FramePool;

    fn written(magic: u32, flags: u32) -> Vec<u8> {
        let mut bytes = [magic, flags, 0x1234_5678].map(u32::to_ne_bytes).concat();
        bytes.extend(0x88a8_u16.to_be_bytes());
        bytes.extend(0x6007_u16.to_ne_bytes());
        bytes
    }

    #[test]
    fn takes_over_what_is_said_once() {
        let (hash, tag) = (0x1234_5678, VlanTag { tpid: 0x88a8, tci: 0x6007 });
        for (magic, flags, expected) in [
            (MAGIC, 0, (None, None)),
            (MAGIC, HAS_HASH, (Some(hash), None)),
            (MAGIC, HAS_TAG, (None, Some(tag))),
            (MAGIC, HAS_HASH | HAS_TAG, (Some(hash), Some(tag))),
            (MAGIC + 1, HAS_HASH | HAS_TAG, (None, None)),
        ] {
            let pool = FramePool::new(1).unwrap();
            let frame = [written(magic, flags), b"the packet".to_vec()].concat();
            let mut packet = pool.packet_with(&frame).unwrap();
            let mut view = packet.view_mut();
            view.pull_front(LENGTH);
            for expected in [expected, (None, None)] {
                view.descriptor_mut().set_rss_hash(None);
                view.descriptor_mut().set_vlan(None);
                apply(&mut view);
                let descriptor = view.view().descriptor();
                assert_eq!((descriptor.rss_hash(), descriptor.vlan()), expected);
                assert_eq!(view.view().data(), b"the packet");
            }
        }
    }
}
