//! What a rule does to the packets that match it.

use std::num::NonZeroU32;
use std::sync::Arc;

use bitflags::bitflags;

use super::{DeviceId, TunnelKind};
use crate::wire::ethernet::MacAddress;

bitflags! {
    /// Kinds of actions, for [templates](super::Template) and
    /// [capabilities](super::Capabilities).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ActionKinds: u16 {
        /// [`RuleActions::mark`].
        const MARK = 1;
        /// [`Fate::Queue`] other than by hash.
        const QUEUE = 1 << 1;
        /// [`Fate::Drop`].
        const DROP = 1 << 2;
        /// [`Fate::Port`].
        const PORT = 1 << 3;
        /// [`Fate::Jump`].
        const JUMP = 1 << 4;
        /// [`RuleActions::count`].
        const COUNT = 1 << 5;
        /// [`RuleActions::age`].
        const AGE = 1 << 6;
        /// Any of [`RuleActions::edits`] but those of tunnels.
        const EDIT = 1 << 7;
        /// [`Edit::Decapsulate`].
        const DECAPSULATE = 1 << 8;
        /// [`Edit::Encapsulate`].
        const ENCAPSULATE = 1 << 9;
    }
}

/// Where packets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// To software, on the receive queue that their hash picks.
    #[default]
    Software,
    /// To software, on this receive queue.
    Queue(u16),
    /// Nowhere.
    Drop,
    /// Out of the wire of a port of the same device family.
    Port(DeviceId),
    /// On to the rules of a higher group; to software where none of these matches.
    Jump(u32),
}

/// A change to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Removes the outer headers and those of the tunnel.
    Decapsulate(TunnelKind),
    /// Puts these bytes in front: a whole set of outer headers. Lengths of an outer IPv4 and UDP
    /// header are made to fit.
    Encapsulate(Arc<[u8]>),
    /// Sets the Ethernet destination.
    SetEthernetDestination(MacAddress),
    /// Sets the Ethernet source.
    SetEthernetSource(MacAddress),
    /// Puts a VLAN tag in front of the others.
    PushVlan {
        /// Tag protocol.
        tpid: u16,
        /// Priority and VLAN.
        tci: u16,
    },
    /// Removes the outermost VLAN tag.
    PopVlan,
}

/// Everything that a rule does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleActions {
    /// Changes, in order.
    pub edits: Option<Arc<[Edit]>>,
    /// The mark that packets carry to software.
    pub mark: Option<NonZeroU32>,
    /// Whether packets and bytes are counted.
    pub count: bool,
    /// Seconds without a packet after which the rule is reported, 24 bits; 0 is never.
    pub age: u32,
    /// Where packets go.
    pub fate: Fate,
}

impl RuleActions {
    /// The kinds of actions that these are.
    pub fn kinds(&self) -> ActionKinds {
        let fate = match self.fate {
            Fate::Software => ActionKinds::empty(),
            Fate::Queue(_) => ActionKinds::QUEUE,
            Fate::Drop => ActionKinds::DROP,
            Fate::Port(_) => ActionKinds::PORT,
            Fate::Jump(_) => ActionKinds::JUMP,
        };
        let optional = [
            (self.mark.is_some(), ActionKinds::MARK),
            (self.count, ActionKinds::COUNT),
            (self.age > 0, ActionKinds::AGE),
        ];
        let optional = optional.into_iter().filter(|(is_set, _)| *is_set).map(|(_, kind)| kind);
        let edits = self.edits.iter().flat_map(|edits| edits.iter()).map(|edit| match edit {
            Edit::Decapsulate(_) => ActionKinds::DECAPSULATE,
            Edit::Encapsulate(_) => ActionKinds::ENCAPSULATE,
            _ => ActionKinds::EDIT,
        });
        optional.chain(edits).fold(fate, ActionKinds::union)
    }
}
