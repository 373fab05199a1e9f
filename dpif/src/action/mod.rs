//! Datapath actions.

use std::sync::Arc;

use netdev::wire::ethernet::MacAddress;

use crate::datapath::PortNumber;
use crate::flow::{FlowKey, NshKey};

/// One step of what is done to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends a copy to a port.
    Output(PortNumber),
    /// Hands a copy to the user of the datapath.
    Userspace(Userspace),
    /// Sets the bits of fields that are 1 in `mask`.
    Set {
        /// Values.
        key: Box<FlowKey>,
        /// Which bits of them count.
        mask: Box<FlowKey>,
    },
    /// Puts a VLAN tag in front.
    PushVlan {
        /// Tag protocol.
        tpid: u16,
        /// Tag control information.
        tci: u16,
    },
    /// Takes the outermost VLAN tag off.
    PopVlan,
    /// Puts an MPLS label in front of the network header.
    PushMpls {
        /// Label stack entry.
        entry: u32,
        /// Ethertype of the frame from then on.
        eth_type: u16,
    },
    /// Takes the outermost MPLS label off; `eth_type` is the Ethertype of the frame from then on.
    PopMpls {
        /// Ethertype of what is inside.
        eth_type: u16,
    },
    /// Puts an Ethernet header in front of a packet that has none.
    PushEthernet {
        /// Source.
        source: MacAddress,
        /// Destination.
        destination: MacAddress,
    },
    /// Takes the Ethernet header off.
    PopEthernet,
    /// Puts a network service header in front.
    PushNsh(Box<NshKey>),
    /// Takes the network service header off.
    PopNsh,
    /// Computes `dp_hash`.
    Hash {
        /// Over what.
        algorithm: HashAlgorithm,
        /// Seed.
        basis: u32,
    },
    /// Sends the packet through the datapath again.
    Recirculate(u32),
    /// Cuts what the next output or userspace action sends to this many bytes.
    Truncate(u32),
    /// Does the actions for one packet in so many.
    Sample {
        /// Share of packets, of 2^32 - 1.
        probability: u32,
        /// What to do with them.
        actions: Arc<[Action]>,
    },
    /// Does the actions on a copy.
    Clone(Arc<[Action]>),
    /// Does one thing or another depending on the length of the packet.
    CheckPacketLength {
        /// Bytes.
        length: u16,
        /// Done to longer packets.
        greater: Arc<[Action]>,
        /// Done to others.
        less_or_equal: Arc<[Action]>,
    },
    /// Drops what runs over a meter.
    Meter(u32),
    /// Drops the packet for a reason, given by the number that OVS gives it.
    Drop(u32),
}

/// What `dp_hash` is computed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// Addresses and ports.
    Layer4,
    /// The same, alike in both directions.
    SymmetricLayer4,
}

/// What the user of the datapath wants to know of a packet that it gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Userspace {
    /// Data for the user.
    pub userdata: Vec<u8>,
}
