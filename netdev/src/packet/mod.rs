//! Packet memory: frames, what is known about them, and who owns them.
//!
//! A [`FramePool`] is one mapped region cut into frames of [`FRAME_SIZE`] bytes with one
//! [`Descriptor`] of a cache line beside each. A frame has exactly one owner: the pool, a
//! [`Batch`], a [`Packet`], or the frame before it in a packet of several frames. Owners give
//! their frames back when dropped; a batch does so for all at once. Each thread keeps a small
//! stack of free frames per pool, so that taking and returning frames takes no lock as long as
//! that stack neither runs dry nor overflows.
//!
//! [`PacketRef`] and [`PacketMut`] are what the code between receive and transmit works with.

mod batch;
mod cache;
mod descriptor;
mod loan;
mod memory;
mod pool;
mod single;
mod view;

pub use batch::{BATCH_SIZE, Batch, Drain};
pub use descriptor::{Checksum, Descriptor, Layer, NO_LAYER, Segmentation, VlanTag};
pub(crate) use loan::{Loan, MAX_PIECES, Piece};
pub use memory::{FRAME_SIZE, PageKind};
pub use pool::{FrameCounts, FramePool, PoolError};
pub use single::Packet;
pub use view::{PacketMut, PacketRef, Segments};

#[cfg(test)]
mod tests;
