//! What travels with a packet that went through a tunnel or connection tracking.

use super::key::TunnelKey;

/// The addresses and ports of the first packet of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OriginalTuple {
    /// Not known.
    #[default]
    None,
    /// Of an IPv4 connection.
    Ipv4 {
        /// Source address.
        source: u32,
        /// Destination address.
        destination: u32,
        /// Protocol.
        protocol: u8,
        /// Source port, or ICMP type.
        source_port: u16,
        /// Destination port, or ICMP code.
        destination_port: u16,
    },
    /// Of an IPv6 connection.
    Ipv6 {
        /// Source address.
        source: [u8; 16],
        /// Destination address.
        destination: [u8; 16],
        /// Protocol.
        protocol: u8,
        /// Source port, or ICMPv6 type.
        source_port: u16,
        /// Destination port, or ICMPv6 code.
        destination_port: u16,
    },
}

/// What connection tracking found out about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conntrack {
    /// State, one bit each; 0 when the packet was not tracked.
    pub state: u8,
    /// Zone.
    pub zone: u16,
    /// Mark of the connection.
    pub mark: u32,
    /// Labels of the connection, most significant byte first.
    pub label: [u8; 16],
    /// First packet of the connection.
    pub original: OriginalTuple,
}

/// The record to which [`netdev::packet::Descriptor::metadata`] refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metadata {
    /// Tunnel through which the packet came.
    pub tunnel: TunnelKey,
    /// Connection to which it belongs.
    pub conntrack: Conntrack,
}

/// The records of the packets that a thread has in hand. They last until the thread is done with
/// what it received together; a packet's copies share one, so none is ever changed.
#[derive(Debug, Default)]
pub(crate) struct MetadataTable(Vec<Metadata>);

impl MetadataTable {
    /// Records that are kept room for.
    const ROOM: usize = 256;

    /// The record with this number, which a descriptor holds.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Metadata> {
        self.0.get((number as usize).checked_sub(1)?)
    }

    /// Adds a record and returns its number; never 0.
    pub(crate) fn add(&mut self, record: Metadata) -> u32 {
        self.0.push(record);
        self.0.len() as u32
    }

    /// Forgets all records.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if !self.0.is_empty() {
            self.0.clear();
            self.0.shrink_to(Self::ROOM);
        }
    }
}
