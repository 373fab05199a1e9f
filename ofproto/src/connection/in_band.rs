//! In-band control: rules that carry the connections to controllers over the switch itself,
//! whatever the rules of the controllers say.
//!
//! The rules are those of Open vSwitch (`in-band control` in its design documents), but for the
//! two that name the hardware address of the next hop to a controller.

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::sync::Arc;

use super::bridge::Bridge;
use super::connections::Connections;
use crate::openflow::action::Action;
use crate::openflow::flow_match::{Match, eth_type, ip_proto};
use crate::openflow::message::FlowRemovedReason;
use crate::openflow::port::PortNo;
use crate::openflow::slot::Slot;
use crate::port::PortNumber;
use crate::rule::{Rule, RuleParts};
use crate::tables::Source;

/// Priorities of the rules, above all that controllers can set.
const FROM_LOCAL_DHCP: u32 = 180_000;
const TO_LOCAL_ARP: u32 = 180_001;
const FROM_LOCAL_ARP: u32 = 180_002;
const TO_REMOTE_ARP: u32 = 180_005;
const FROM_REMOTE_ARP: u32 = 180_006;
const TO_REMOTE_TCP: u32 = 180_007;
const FROM_REMOTE_TCP: u32 = 180_008;

/// Operations of ARP (RFC 826).
const REQUEST: u128 = 1;
const REPLY: u128 = 2;
/// Ports of DHCP (RFC 2131).
const DHCP_SERVER: u128 = 67;
const DHCP_CLIENT: u128 = 68;

/// What the rules are made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Basis {
    /// Addresses and ports of the controllers.
    remotes: BTreeSet<SocketAddrV4>,
    /// Hardware address of the local port.
    address: [u8; 6],
    /// Queue that the packets go through.
    queue: Option<u32>,
}

/// The rules that are there.
#[derive(Debug, Default)]
pub(super) struct InBand {
    basis: Basis,
    rules: Vec<Arc<Rule>>,
    /// Queue that the packets go through (`in-band-queue`).
    queue: Option<u32>,
}

impl Basis {
    /// The rules by match and priority.
    fn rules(&self) -> Vec<(Match, u32)> {
        if self.remotes.is_empty() {
            return vec![];
        }
        let address = self.address.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
        let make = |kind: u16, fields: &[(Slot, u128)]| {
            let mut flow_match = Match::new();
            flow_match.require_ethernet();
            flow_match.set_exact(Slot::ETH_TYPE, kind.into());
            fields.iter().for_each(|(slot, value)| flow_match.set_exact(*slot, *value));
            flow_match
        };
        let arp = |operation, slot, value| {
            make(eth_type::ARP, &[(Slot::NW_PROTO, operation), (slot, value)])
        };
        let mut rules = vec![];
        if address != 0 {
            let dhcp = [
                (Slot::IN_PORT, PortNo::LOCAL.0.into()),
                (Slot::ETH_SRC, address),
                (Slot::NW_PROTO, ip_proto::UDP.into()),
                (Slot::TP_SRC, DHCP_CLIENT),
                (Slot::TP_DST, DHCP_SERVER),
            ];
            rules.push((make(eth_type::IPV4, &dhcp), FROM_LOCAL_DHCP));
            rules.push((arp(REPLY, Slot::ETH_DST, address), TO_LOCAL_ARP));
            rules.push((arp(REQUEST, Slot::ETH_SRC, address), FROM_LOCAL_ARP));
        }
        for remote in &self.remotes {
            let (ip, port) = (remote.ip().to_bits().into(), remote.port().into());
            let tcp = |to: Slot, by: Slot| {
                make(
                    eth_type::IPV4,
                    &[(Slot::NW_PROTO, ip_proto::TCP.into()), (to, ip), (by, port)],
                )
            };
            rules.push((arp(REPLY, Slot::NW_DST, ip), TO_REMOTE_ARP));
            rules.push((arp(REQUEST, Slot::NW_SRC, ip), FROM_REMOTE_ARP));
            rules.push((tcp(Slot::NW_DST, Slot::TP_DST), TO_REMOTE_TCP));
            rules.push((tcp(Slot::NW_SRC, Slot::TP_SRC), FROM_REMOTE_TCP));
        }
        rules
    }

    /// What all rules do.
    fn actions(&self) -> Arc<[Action]> {
        let normal = Action::Output { port: PortNo::NORMAL, max_len: 0 };
        self.queue.map(Action::SetQueue).into_iter().chain([normal]).collect()
    }
}

impl Connections {
    /// Sets the queue that the packets of in-band control go through.
    pub fn set_in_band_queue(&mut self, queue: Option<u32>) {
        self.in_band.queue = queue;
    }

    /// Brings the rules of in-band control in line with controllers and local port.
    pub(super) fn run_in_band(&mut self, bridge: &mut Bridge<'_>) {
        let remotes: BTreeSet<_> = self.in_band_remotes().collect();
        bridge.switch.set_in_band(!remotes.is_empty());
        if remotes.is_empty() && self.in_band.rules.is_empty() {
            return;
        }
        let local = bridge.switch.port(PortNumber::LOCAL);
        let address = local.map_or([0; 6], |port| port.described().hw_addr);
        let basis = Basis { remotes, address, queue: self.in_band.queue };
        let in_band = &mut self.in_band;
        if in_band.basis == basis && !in_band.rules.iter().any(|rule| rule.is_removed()) {
            return;
        }
        let mut transaction = bridge.switch.tables().begin();
        for rule in in_band.rules.drain(..) {
            transaction.remove(&rule, FlowRemovedReason::DELETE, Source::Switch);
        }
        let actions = basis.actions();
        for (flow_match, priority) in basis.rules() {
            let actions = Arc::clone(&actions);
            let parts = RuleParts { flow_match, actions, ..RuleParts::normal(priority) };
            // In a table that is full of other rules there is none for it.
            in_band.rules.extend(transaction.add(parts));
        }
        transaction.commit();
        in_band.basis = basis;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openflow::text::{NoNames, print_match};

    fn texts(basis: &Basis) -> Vec<String> {
        let text = |(flow_match, priority): &(Match, u32)| {
            let mut text = format!("{priority} ");
            print_match(
                &mut text,
                flow_match,
                u16::try_from(*priority).unwrap_or(0x8000),
                &NoNames,
            );
            text
        };
        basis.rules().iter().map(text).collect()
    }

    #[test]
    fn rules_let_the_switch_reach_its_controllers() {
        let remotes = BTreeSet::from([SocketAddrV4::new([240, 0, 0, 1].into(), 6653)]);
        let mut basis = Basis { remotes, address: [2, 0, 0, 0, 0, 9], queue: Some(7) };
        assert_eq!(
            texts(&basis),
            [
                "180000 udp,in_port=LOCAL,dl_src=02:00:00:00:00:09,tp_src=68,tp_dst=67",
                "180001 arp,dl_dst=02:00:00:00:00:09,arp_op=2",
                "180002 arp,dl_src=02:00:00:00:00:09,arp_op=1",
                "180005 arp,arp_tpa=240.0.0.1,arp_op=2",
                "180006 arp,arp_spa=240.0.0.1,arp_op=1",
                "180007 tcp,nw_dst=240.0.0.1,tp_dst=6653",
                "180008 tcp,nw_src=240.0.0.1,tp_src=6653",
            ]
        );
        let normal = Action::Output { port: PortNo::NORMAL, max_len: 0 };
        assert_eq!(*basis.actions(), [Action::SetQueue(7), normal.clone()]);
        basis = Basis { address: [0; 6], queue: None, ..basis };
        assert_eq!((texts(&basis).len(), &*basis.actions()), (4, &[normal][..]));
        assert_eq!(texts(&Basis::default()), [""; 0]);
    }
}
