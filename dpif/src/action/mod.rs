//! What the datapath does to a packet, and its text form.

mod conntrack;
mod parse;
mod text;
mod tunnel_push;
mod userspace;

use netdev::wire::ethernet::MacAddress;

pub use conntrack::{ConntrackAction, Nat, NatKind};
pub use parse::parse_actions;
pub use text::ActionsText;
pub use tunnel_push::{TunnelPush, tunnel_type};
pub use userspace::{SampleDirection, Userdata, Userspace, slow_path};

use crate::flow::{Attribute, Field, TunnelKey};

/// One action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sends to a port.
    Output(u32),
    /// Sends to the member that a bond picks by hash.
    LoadBalancedOutput(u32),
    /// Hands the packet to userspace.
    Userspace(Box<Userspace>),
    /// Sets fields.
    Set(Box<SetFields>),
    /// Sets the tunnel through which outputs that follow go.
    SetTunnel(Box<TunnelKey>),
    /// Puts a VLAN tag in front of the others.
    PushVlan {
        /// Tag protocol.
        tpid: u16,
        /// Tag control information, with the bit that says that there is a tag.
        tci: u16,
    },
    /// Removes the outermost VLAN tag.
    PopVlan,
    /// Puts an MPLS label in front of the others, behind the Ethernet header.
    PushMpls {
        /// Label stack entry.
        entry: u32,
        /// Ethertype to give the packet.
        eth_type: u16,
    },
    /// Removes the outermost MPLS label.
    PopMpls {
        /// Ethertype to give the packet.
        eth_type: u16,
    },
    /// Puts an MPLS label in front of the packet.
    AddMpls {
        /// Label stack entry.
        entry: u32,
        /// Ethertype to give the packet.
        eth_type: u16,
        /// Whether it goes in front of the network header, not of the Ethernet header. Text does
        /// not tell.
        layer3: bool,
    },
    /// Puts an Ethernet header in front of the packet.
    PushEthernet {
        /// Source address.
        source: MacAddress,
        /// Destination address.
        destination: MacAddress,
    },
    /// Removes the Ethernet header.
    PopEthernet,
    /// Puts a network service header in front of the packet.
    PushNsh(Box<PushNsh>),
    /// Removes it.
    PopNsh,
    /// Cuts the packet to this many bytes for the output that follows.
    Truncate(u32),
    /// Computes a hash for the recirculation that follows.
    Hash {
        /// What to hash.
        algorithm: HashAlgorithm,
        /// Start value.
        basis: u32,
    },
    /// Looks the packet up again under this number.
    Recirculate(u32),
    /// Does the actions to a copy of some packets.
    Sample {
        /// How many, of 2^32 - 1.
        probability: u32,
        /// What.
        actions: Vec<Action>,
    },
    /// Does the actions to a copy of the packet.
    Clone(Vec<Action>),
    /// Does one or the other, by the packet's length.
    CheckPacketLength {
        /// Length in bytes.
        length: u16,
        /// For packets longer than that.
        greater: Vec<Action>,
        /// For the others.
        less_equal: Vec<Action>,
    },
    /// Drops packets that exceed a meter.
    Meter(u32),
    /// Tracks the packet's connection.
    Conntrack(Box<ConntrackAction>),
    /// Forgets what connection tracking found out.
    ConntrackClear,
    /// Puts a tunnel's headers in front of the packet and sends it.
    TunnelPush(Box<TunnelPush>),
    /// Hands the packet to a tunnel port, which takes the headers off.
    TunnelPop(u32),
    /// Copies the packet to a psample group.
    Psample {
        /// Group.
        group: u32,
        /// Identifies the flow; at most [`MAX_PSAMPLE_COOKIE`] bytes.
        cookie: Vec<u8>,
    },
    /// Drops the packet.
    Drop {
        /// Number of the translation error that it counts as; 0 is none.
        reason: u32,
    },
}

/// Most bytes of a psample cookie.
pub const MAX_PSAMPLE_COOKIE: usize = 16;

/// A hash over a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// Addresses, protocol and ports.
    L4,
    /// The same, equal for both directions.
    SymmetricL4,
}

/// Fields of one attribute to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetFields {
    /// The header or metadata.
    pub attribute: Attribute,
    /// Its fields.
    pub fields: Vec<MaskedField>,
}

/// A field to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskedField {
    /// Which field.
    pub field: Field,
    /// Its bits, right-aligned.
    pub value: u128,
    /// Which of them to set.
    pub mask: u128,
}

/// A network service header to push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushNsh {
    /// Flags.
    pub flags: u8,
    /// Time to live.
    pub ttl: u8,
    /// Next protocol.
    pub next_protocol: u8,
    /// Service path, 24 bits.
    pub service_path: u32,
    /// Service index.
    pub service_index: u8,
    /// What follows.
    pub metadata: NshMetadata,
}

/// Metadata of a network service header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NshMetadata {
    /// Type 1: four words of context.
    Type1([u32; 4]),
    /// Type 2: options as on the wire, a multiple of 4 bytes, at most [`MAX_NSH_OPTIONS`].
    Type2(Vec<u8>),
}

/// Most bytes of options of a network service header.
pub const MAX_NSH_OPTIONS: usize = 248;

#[cfg(test)]
mod tests;
