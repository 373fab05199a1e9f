//! Doing to a packet what the actions of its flow say.

mod checksum;
mod header;
pub mod meter;
mod push;
mod set;
mod tunnel;

use std::collections::HashMap;
use std::sync::Arc;

use netdev::packet::{Batch, Packet};
use netdev::transmit;
use tracing::warn;

use crate::action::{Action, HashAlgorithm, Userspace};
use crate::datapath::PortNumber;
use crate::drop::{DropReason, Drops};
use crate::flow::path_hash::symmetric_l3l4;
use crate::flow::{MetadataTable, PacketKey, extract, five_tuple_hash};
use crate::pmd::statistics::Counters;
use crate::pmd::transmit::Transmit;
use crate::tunnel::Tunnels;
use crate::upcall::UpcallHandler;
use meter::Meter;

/// How often a packet may go through the datapath again.
pub(crate) const MAX_RECIRCULATIONS: u32 = 8;
/// How deep actions may nest, counting those that the user of the datapath answers.
const MAX_NESTING: u32 = 16;

/// What an execution needs of its thread.
pub(crate) struct Executor<'a> {
    pub(crate) transmit: &'a mut Transmit,
    pub(crate) counters: &'a Counters,
    pub(crate) drops: &'a mut Drops,
    pub(crate) meters: &'a HashMap<u32, Arc<Meter>>,
    pub(crate) tunnels: &'a mut Tunnels,
    pub(crate) metadata: &'a mut MetadataTable,
    pub(crate) handler: &'a dyn UpcallHandler,
    /// Packets that go through the datapath again.
    pub(crate) recirculated: &'a mut Vec<Batch>,
    pub(crate) scratch: &'a mut PacketKey,
    pub(crate) random: &'a mut Random,
    pub(crate) vlan_limit: usize,
    pub(crate) seed: u64,
    /// Milliseconds of the switch's clock.
    pub(crate) now: u64,
    /// Passes that the packets have behind them.
    pub(crate) depth: u32,
    pub(crate) nesting: u32,
}

/// A small generator of numbers that need not be unpredictable (xorshift, Marsaglia 2003).
#[derive(Debug)]
pub(crate) struct Random(u32);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self((seed ^ seed >> 32) as u32 | 1)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}

/// A packet on its way through a list of actions. The last action that needs a packet gets this
/// one, those before get copies.
struct Current {
    packet: Packet,
    /// What the next output sends at most.
    limit: Option<usize>,
}

impl Executor<'_> {
    /// Does `actions` to `packet`.
    pub(crate) fn run(&mut self, packet: Packet, actions: &[Action]) {
        self.run_list(Current { packet, limit: None }, actions);
    }

    fn run_list(&mut self, current: Current, actions: &[Action]) {
        if self.nesting == MAX_NESTING {
            self.drops.add(DropReason::RecursionTooDeep, 1);
            return;
        }
        self.nesting += 1;
        self.run_each(current, actions);
        self.nesting -= 1;
    }

    fn run_each(&mut self, mut current: Current, actions: &[Action]) {
        let Some((last, before)) = actions.split_last() else {
            self.drops.add(DropReason::Pipeline, 1);
            return;
        };
        for (place, action) in before.iter().enumerate() {
            if let Action::TunnelPush(push) = action
                && tunnel::must_cut(&current.packet, push)
            {
                return self.cut_and_run(current, actions.get(place..).unwrap_or(&[]));
            }
            if consumes(action) {
                let limit = current.limit;
                match current.packet.copy() {
                    Some(packet) => self.give(Current { packet, limit }, action),
                    None => self.drops.add(DropReason::NoFrame, 1),
                }
                current.limit = limit.filter(|_| !is_limited(action));
            } else if let Err(reason) = self.change(&mut current, action) {
                self.drops.add(reason, 1);
                return;
            }
        }
        if consumes(last) {
            self.give(current, last);
        } else if let Err(reason) = self.change(&mut current, last) {
            self.drops.add(reason, 1);
        }
    }

    /// Does an action that ends with the packet going somewhere.
    fn give(&mut self, mut current: Current, action: &Action) {
        if let Some(limit) = current.limit.filter(|_| is_limited(action)) {
            current.packet.view_mut().truncate(limit);
        }
        match action {
            Action::Output(port) => self.output(PortNumber(*port), current.packet),
            Action::Userspace(userspace) => self.userspace(current.packet, userspace),
            Action::Recirculate(id) => self.recirculate(current.packet, *id),
            Action::Sample { probability, actions }
                if *probability == u32::MAX || self.random.next() < *probability =>
            {
                self.run_list(current, actions);
            }
            Action::Clone(actions) => self.run_list(current, actions),
            Action::CheckPacketLength { length, greater, less_equal } => {
                let limit = current.limit.unwrap_or(usize::MAX);
                let packet = current.packet.view();
                // A packet that is to be cut up counts by what it becomes.
                let frame = transmit::longest_frame(packet).unwrap_or(packet.len());
                let is_greater = frame.min(limit) > usize::from(*length);
                self.run_list(current, if is_greater { greater } else { less_equal });
            }
            Action::TunnelPop(port) => self.tunnel_pop(current.packet, PortNumber(*port)),
            Action::LoadBalancedOutput(_) => {
                self.drops.add(DropReason::UnsupportedAction, 1);
            }
            _ => {}
        }
    }

    /// Does an action that leaves the packet where it is.
    fn change(&mut self, current: &mut Current, action: &Action) -> Result<(), DropReason> {
        match action {
            Action::TunnelPush(push) => return self.tunnel_push(current, push),
            Action::SetTunnel(tunnel) => {
                self.set_tunnel(&mut current.packet, tunnel);
                return Ok(());
            }
            _ => {}
        }
        let mut packet = current.packet.view_mut();
        let done = match action {
            Action::Set(fields) => {
                extract(&mut packet, None, self.vlan_limit, self.scratch);
                let label = push::label_offset(&packet);
                set::set(&mut packet, self.scratch.key(), fields, label)
            }
            Action::Conntrack(_) => return Err(DropReason::UnsupportedAction),
            Action::PushVlan { tpid, tci } => push::push_vlan(&mut packet, *tpid, *tci),
            Action::PopVlan => push::pop_vlan(&mut packet),
            Action::PushMpls { entry, eth_type } => push::push_mpls(&mut packet, *entry, *eth_type),
            Action::PopMpls { eth_type } => push::pop_mpls(&mut packet, *eth_type),
            Action::AddMpls { entry, eth_type, layer3 } => {
                push::add_mpls(&mut packet, *entry, *eth_type, *layer3)
            }
            Action::PushEthernet { source, destination } => {
                push::push_ethernet(&mut packet, *source, *destination)
            }
            Action::PopEthernet => push::pop_ethernet(&mut packet),
            Action::PushNsh(nsh) => push::push_nsh(&mut packet, nsh),
            Action::PopNsh => {
                return push::pop_nsh(&mut packet).ok_or(DropReason::NshDecapError);
            }
            Action::Hash { algorithm, basis } => {
                self.hash(&mut current.packet, *algorithm, *basis);
                Some(())
            }
            Action::Truncate(length) => {
                current.limit = Some(*length as usize);
                Some(())
            }
            Action::Meter(number) => {
                let length = current.packet.view().len();
                let meter = self.meters.get(number);
                if meter.is_some_and(|meter| !meter.admit(length, self.now)) {
                    return Err(DropReason::Meter);
                }
                Some(())
            }
            Action::Drop { reason } => return Err(DropReason::of_action(*reason)),
            // psample is the kernel's, and nothing is tracked that could be forgotten.
            _ => Some(()),
        };
        done.ok_or(DropReason::MalformedPacket)
    }

    fn output(&mut self, port: PortNumber, packet: Packet) {
        self.transmit.push(port, packet, self.counters, self.drops);
    }

    fn userspace(&mut self, mut packet: Packet, userspace: &Userspace) {
        let metadata = self.metadata.get(packet.view().descriptor().metadata);
        extract(&mut packet.view_mut(), metadata, self.vlan_limit, self.scratch);
        match self.handler.userspace(packet.view(), self.scratch.key(), userspace) {
            Ok(actions) if actions.is_empty() => {}
            Ok(actions) => self.run(packet, &actions),
            Err(_) => self.drops.add(DropReason::UserspaceError, 1),
        }
    }

    fn recirculate(&mut self, mut packet: Packet, id: u32) {
        packet.view_mut().descriptor_mut().recirc_id = id;
        self.pass_again(packet);
    }

    /// Lets a packet go through the datapath again.
    fn pass_again(&mut self, packet: Packet) {
        if self.depth >= MAX_RECIRCULATIONS {
            warn!(target: "dpif_netdev", limited = true, "Packet dropped. Max recirculation depth exceeded.");
            self.drops.add(DropReason::RecirculationError, 1);
            return;
        }
        let packet = match self.recirculated.last_mut() {
            Some(batch) => match batch.push(packet) {
                Ok(()) => return,
                Err(packet) => packet,
            },
            None => packet,
        };
        let mut batch = Batch::new(packet.pool());
        // An empty batch takes it.
        let _ = batch.push(packet);
        self.recirculated.push(batch);
    }

    fn hash(&mut self, packet: &mut Packet, algorithm: HashAlgorithm, basis: u32) {
        let known = packet.view().descriptor().rss_hash();
        let hash = match (algorithm, known) {
            (HashAlgorithm::L4, Some(hash)) => mix(hash, basis),
            (algorithm, _) => {
                extract(&mut packet.view_mut(), None, self.vlan_limit, self.scratch);
                let key = self.scratch.key();
                match algorithm {
                    HashAlgorithm::L4 => mix(five_tuple_hash(key, self.seed), basis),
                    HashAlgorithm::SymmetricL4 => symmetric_l3l4(key, basis, false),
                }
            }
        };
        // 0 would say that no hash was computed.
        packet.view_mut().descriptor_mut().dp_hash = hash.max(1);
    }
}

/// Whether an action needs a packet of its own.
fn consumes(action: &Action) -> bool {
    matches!(
        action,
        Action::Output(_)
            | Action::Userspace(_)
            | Action::Recirculate(_)
            | Action::Sample { .. }
            | Action::Clone(_)
            | Action::CheckPacketLength { .. }
            | Action::LoadBalancedOutput(_)
            | Action::TunnelPop(_)
    )
}

/// Whether `trunc` cuts what the action gets.
fn is_limited(action: &Action) -> bool {
    matches!(action, Action::Output(_) | Action::Userspace(_) | Action::TunnelPop(_))
}

/// Mixes two numbers (the finaliser of MurmurHash3).
fn mix(hash: u32, basis: u32) -> u32 {
    let mut mixed = hash ^ basis.wrapping_mul(0x9e37_79b1);
    mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85eb_ca6b);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 16
}

#[cfg(test)]
mod tests;
