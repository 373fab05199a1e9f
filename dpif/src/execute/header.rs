//! Reading and changing a header where it lies in a packet, across frames.

use netdev::packet::{PacketMut, PacketRef};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A copy of the header at `offset`; nothing when the packet ends before.
pub(super) fn read<T: FromBytes>(packet: PacketRef<'_>, offset: usize) -> Option<T> {
    let mut scratch = [0; 64];
    let bytes = packet.header(offset, size_of::<T>(), &mut scratch)?;
    T::read_from_bytes(bytes).ok()
}

/// Changes the header at `offset`. Nothing happens when the packet ends before.
pub(super) fn edit<T>(
    packet: &mut PacketMut<'_>,
    offset: usize,
    change: impl FnOnce(&mut T),
) -> Option<()>
where
    T: FromBytes + IntoBytes + Immutable + KnownLayout,
{
    let mut header: T = read(packet.view(), offset)?;
    change(&mut header);
    packet.write(offset, header.as_bytes()).then_some(())
}
