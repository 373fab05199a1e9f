//! Ports of types `afxdp` and `afxdp-nonpmd`: network devices whose packets come through AF_XDP
//! sockets, past the kernel's own network stack.
//!
//! An XDP program hands the packets of each receive queue to a socket; the frames of the datapath
//! are the memory that socket and kernel exchange packets in. All sockets of the same kind share
//! one registration of that memory, so that a packet goes from one port to another without being
//! copied. Kernel documentation: `Documentation/networking/af_xdp.rst`.

mod attachment;
mod doctor;
mod error;
mod kernel_functions;
mod metadata;
mod options;
mod port;
mod ports;
mod program;
mod queue;
mod ring;
mod socket;
mod system;

#[cfg(test)]
mod tests;

pub(crate) use port::AfxdpPort;
pub use ports::AfxdpPorts;
pub use queue::SocketFrames;
