//! The tags of a packet, and what ports make of them.

use dpif::flow::{FlowKey, MAX_VLANS, VlanKey};
use netdev::wire::ethernet::ether_type;
use netdev::wire::vlan;

use crate::port_settings::{PortSettings, PriorityTags, VlanMode};

/// A tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tag {
    /// Tag protocol, or 0 where there is no tag.
    pub(super) tpid: u16,
    pub(super) vlan: u16,
    /// The three bits where the tag control information has them.
    pub(super) priority: u16,
}

/// Bits of the tag control information that hold the priority.
pub(super) const PRIORITY_MASK: u16 = 7 << vlan::PCP_SHIFT;

/// The tags of a packet, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tags(pub(super) [Tag; MAX_VLANS]);

impl Tags {
    /// The tags of a packet with this key.
    pub(super) fn of(key: &FlowKey) -> Self {
        let mut tags = Self::default();
        for (to, from) in tags.0.iter_mut().zip(&key.vlans) {
            let (tpid, tci) = (from.tpid.get(), from.tci.get());
            if !vlan::is_tag(tpid) || tci & vlan::CFI == 0 {
                break;
            }
            *to = Tag { tpid, vlan: tci & vlan::VID_MASK, priority: tci & PRIORITY_MASK };
        }
        tags
    }

    /// The outermost.
    pub(super) fn outer(&self) -> Tag {
        let [outer, ..] = self.0;
        outer
    }

    fn outer_mut(&mut self) -> &mut Tag {
        let [outer, ..] = &mut self.0;
        outer
    }

    /// The one behind the outermost.
    pub(super) fn inner(&self) -> Tag {
        let [_, inner, ..] = self.0;
        inner
    }

    fn pop(&mut self) {
        let [outer, inner] = &mut self.0;
        *outer = std::mem::take(inner);
    }

    fn push(&mut self, tag: Tag) {
        let [outer, inner] = &mut self.0;
        *inner = std::mem::replace(outer, tag);
    }

    /// What tags that come in on a port mean within the switch.
    pub(super) fn received_on(self, port: &PortSettings) -> Self {
        let outer = self.outer();
        let native = Tag {
            tpid: if outer.tpid == 0 { ether_type::VLAN } else { outer.tpid },
            vlan: port.tag,
            priority: outer.priority,
        };
        let mut tags = self;
        match port.vlan_mode {
            VlanMode::Access => {
                tags = Self::default();
                *tags.outer_mut() = native;
            }
            VlanMode::NativeTagged | VlanMode::NativeUntagged if outer.vlan == 0 => {
                *tags.outer_mut() = native;
            }
            VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged => {}
            VlanMode::Dot1qTunnel => {
                tags.push(Tag { tpid: port.qinq_ethertype, vlan: port.tag, priority: 0 });
            }
        }
        tags
    }

    /// The same with another VLAN in the outermost.
    pub(super) fn in_vlan(self, vlan: u16) -> Self {
        let mut tags = self;
        tags.outer_mut().vlan = vlan;
        tags
    }

    /// The tags with which a packet in the VLAN of these leaves by a port. `priority` is that of
    /// the packet.
    pub(super) fn sent_on(self, port: &PortSettings, priority: u16) -> Self {
        let mut tags = self;
        match port.vlan_mode {
            VlanMode::Access => tags = Self::default(),
            VlanMode::NativeUntagged if self.outer().vlan == port.tag => tags.pop(),
            VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged => {}
            VlanMode::Dot1qTunnel => tags.pop(),
        }
        if port.priority_tags != PriorityTags::Never {
            tags.outer_mut().priority = priority;
        }
        tags
    }

    /// The same as a flow key has them. An outermost tag that says nothing is left out.
    pub(super) fn to_key(self, priority_tags: PriorityTags) -> [VlanKey; MAX_VLANS] {
        let [outer, inner] = self.0;
        let is_kept = priority_tags == PriorityTags::Always && outer.tpid != 0;
        let tags = match outer.vlan | outer.priority {
            0 if !is_kept => [inner, Tag::default()],
            _ => self.0,
        };
        tags.map(|tag| {
            if tag == Tag::default() {
                return VlanKey::default();
            }
            let tpid = if tag.tpid == 0 { ether_type::VLAN } else { tag.tpid };
            VlanKey { tci: (tag.vlan | tag.priority | vlan::CFI).into(), tpid: tpid.into() }
        })
    }
}
