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

/// The bits of `new` that are 1 in `mask`, the others of `old`.
pub(super) trait Masked {
    /// See [`Masked`].
    fn masked(self, new: Self, mask: Self) -> Self;
}

macro_rules! masked {
    ($($integer:ty)*) => {$(
        impl Masked for $integer {
            fn masked(self, new: Self, mask: Self) -> Self {
                self & !mask | new & mask
            }
        }
    )*};
}

masked!(u8 u16 u32 u64 u128);

/// The same for bytes.
pub(super) fn mask_bytes<const N: usize>(old: &mut [u8; N], new: &[u8; N], mask: &[u8; N]) {
    for ((old, new), mask) in old.iter_mut().zip(new).zip(mask) {
        *old = old.masked(*new, *mask);
    }
}
