//! Packets that the datapath looks up again, or that a controller is to resume: what translation
//! knew of them when it stopped, under a number that the datapath carries along.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dpif::flow::TunnelKey;
use netdev::clock;
use zerocopy::IntoBytes;

use crate::flow::{Flow, Registers};
use crate::openflow::action::Action;
use crate::openflow::tlv_map::TunnelMetadata;
use crate::openflow::value::Value;
use crate::port::PortNumber;
use crate::switches::SwitchId;

/// The greatest number. Text has them in 28 bits.
const MAX_ID: u32 = (1 << 28) - 1;
/// How long a number stays valid after its last user. Packets that are under way have it, and
/// flows that were installed just now are not known to revalidation yet.
const LINGER: Duration = Duration::from_secs(5);

/// What rules noted down of a packet, which its headers do not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenMetadata {
    /// The tunnel through which it came or is to go.
    pub tunnel: TunnelKey,
    /// Options of that tunnel that are mapped to fields.
    pub tunnel_metadata: TunnelMetadata,
    /// Registers.
    pub registers: Registers,
    /// OpenFlow metadata.
    pub metadata: u64,
    /// The port on which it came, as OpenFlow 1.0 writes it.
    pub in_port: u16,
}

impl FrozenMetadata {
    /// That of a packet.
    pub fn of(flow: &Flow) -> Self {
        Self {
            tunnel: flow.packet.tunnel,
            tunnel_metadata: flow.tunnel_metadata,
            registers: flow.registers,
            metadata: flow.metadata.get(),
            in_port: flow.in_port.get(),
        }
    }

    /// Gives it to a packet.
    pub fn restore(&self, flow: &mut Flow) {
        flow.packet.tunnel = self.tunnel;
        flow.tunnel_metadata = self.tunnel_metadata;
        flow.registers = self.registers;
        flow.metadata.set(self.metadata);
        flow.in_port.set(self.in_port);
    }
}

/// A value on the stack of rules: its bytes, and the value itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StackValue {
    /// Number of bytes.
    pub bytes: u8,
    /// The value.
    pub value: Value,
}

/// The state of a translation that stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenState {
    /// The switch that goes on with the packet.
    pub switch: SwitchId,
    /// The table in which it goes on when there are no actions left.
    pub table: u8,
    /// What rules noted down.
    pub metadata: FrozenMetadata,
    /// The stack, its top last.
    pub stack: Vec<StackValue>,
    /// The mirrors that have the packet already, one bit each.
    pub mirrors: u32,
    /// Whether connection tracking has seen the packet in this switch.
    pub conntracked: bool,
    /// Whether the packet had labels before.
    pub was_mpls: bool,
    /// The switch and its port on which the packet came from the datapath.
    pub entry: Option<(SwitchId, PortNumber)>,
    /// The actions left.
    pub actions: Vec<Action>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// Bytes for the controller.
    pub userdata: Vec<u8>,
}

impl FrozenState {
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.switch, self.table, &self.metadata.registers).hash(&mut hasher);
        (self.metadata.metadata, self.metadata.in_port, self.metadata.tunnel.as_bytes())
            .hash(&mut hasher);
        self.metadata.tunnel_metadata.as_bytes().hash(&mut hasher);
        (&self.stack, self.mirrors, self.conntracked, self.was_mpls).hash(&mut hasher);
        (self.actions.len(), self.action_set.len(), &self.userdata).hash(&mut hasher);
        hasher.finish()
    }
}

/// A state under its number. Whoever holds it keeps the number valid.
#[derive(Debug, PartialEq, Eq)]
pub struct Recirculation {
    /// The number; never 0.
    pub id: u32,
    /// The state.
    pub state: FrozenState,
}

/// The states of all packets on a datapath.
#[derive(Debug, Default)]
pub struct Recirculations {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    by_id: BTreeMap<u32, Known>,
    /// The numbers of the states with a hash.
    by_hash: HashMap<u64, Vec<u32>>,
    last_id: u32,
}

#[derive(Debug)]
struct Known {
    recirculation: Arc<Recirculation>,
    hash: u64,
    /// When somebody was last known to use it.
    used: Duration,
    /// Whether that was a flow that may be installed without being known to hold it yet.
    is_for_flow: bool,
}

impl Known {
    /// Whether somebody uses it, so that an equal state gets the same number.
    fn is_used(&self, now: Duration) -> bool {
        Arc::strong_count(&self.recirculation) > 1
            || self.is_for_flow && now.saturating_sub(self.used) < LINGER
    }
}

impl Recirculations {
    /// The state with a number.
    pub fn get(&self, id: u32) -> Option<Arc<Recirculation>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.by_id.get(&id).map(|known| Arc::clone(&known.recirculation))
    }

    /// Gives a state its number: the one that an equal state in use has, or the next one that is
    /// free. `None` when there is none. `is_for_flow` says that it may be in use for some time
    /// without being held.
    pub fn insert(&self, state: FrozenState, is_for_flow: bool) -> Option<Arc<Recirculation>> {
        let hash = state.hash();
        let now = clock::now();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        let ids = inner.by_hash.entry(hash).or_default();
        for id in ids.iter() {
            if let Some(known) = inner.by_id.get_mut(id)
                && known.recirculation.state == state
                && known.is_used(now)
            {
                known.used = now;
                known.is_for_flow |= is_for_flow;
                return Some(Arc::clone(&known.recirculation));
            }
        }
        if inner.by_id.len() >= MAX_ID as usize {
            return None;
        }
        let id = loop {
            inner.last_id = inner.last_id % MAX_ID + 1;
            if !inner.by_id.contains_key(&inner.last_id) {
                break inner.last_id;
            }
        };
        ids.push(id);
        let recirculation = Arc::new(Recirculation { id, state });
        let known =
            Known { recirculation: Arc::clone(&recirculation), hash, used: now, is_for_flow };
        inner.by_id.insert(id, known);
        Some(recirculation)
    }

    /// Forgets the states that nobody has used for a while.
    pub fn expire(&self, now: Duration) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { by_id, by_hash, .. } = &mut *inner;
        by_id.retain(|id, known| {
            if Arc::strong_count(&known.recirculation) > 1 {
                known.used = now;
            }
            let is_kept = now.saturating_sub(known.used) < LINGER;
            if !is_kept && let Some(ids) = by_hash.get_mut(&known.hash) {
                ids.retain(|other| other != id);
                if ids.is_empty() {
                    by_hash.remove(&known.hash);
                }
            }
            is_kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(table: u8, mirrors: u32) -> FrozenState {
        FrozenState {
            switch: SwitchId([1; 16]),
            table,
            metadata: FrozenMetadata::of(&Flow::default()),
            stack: Vec::new(),
            mirrors,
            conntracked: false,
            was_mpls: false,
            entry: None,
            actions: Vec::new(),
            action_set: Vec::new(),
            userdata: Vec::new(),
        }
    }

    #[test]
    fn equal_states_share_a_number() {
        let known = Recirculations::default();
        let id = |state| known.insert(state, true).map(|recirculation| recirculation.id);
        assert_eq!(id(state(0, 0)), Some(1));
        assert_eq!(id(state(1, 0)), Some(2));
        assert_eq!(id(state(0, 0)), Some(1));
        let other = FrozenState { actions: vec![Action::Exit], ..state(0, 0) };
        assert_eq!(id(other.clone()), Some(3));
        assert_eq!(known.get(3).map(|found| found.state.clone()), Some(other));
        assert_eq!(known.get(4), None);
        // Who only asked does not keep the number.
        let ask = || known.insert(state(5, 0), false).map(|asked| asked.id);
        assert_eq!((ask(), ask()), (Some(4), Some(5)));
    }

    #[test]
    fn numbers_outlive_their_users_for_a_while() {
        let known = Recirculations::default();
        let kept = known.insert(state(0, 1), true).unwrap();
        known.insert(state(0, 2), true).unwrap();
        let now = clock::now();
        known.expire(now);
        assert!(known.get(1).is_some() && known.get(2).is_some());
        known.expire(now + LINGER);
        assert!(known.get(1).is_some() && known.get(2).is_none());
        drop(kept);
        known.expire(now + LINGER);
        assert!(known.get(1).is_some());
        known.expire(now + LINGER * 2);
        assert!(known.get(1).is_none());
        // A number that is free again is not used at once.
        assert_eq!(known.insert(state(0, 1), true).map(|found| found.id), Some(3));
    }
}
