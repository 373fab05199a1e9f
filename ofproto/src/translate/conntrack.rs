//! Connection tracking.

use std::net::IpAddr;

use dpif::action::{Action as DpAction, ConntrackAction, Nat as DpNat, NatKind};

use super::TraceKind;
use super::context::Context;
use super::field::is_frozen_metadata;
use crate::openflow::action::{Ct, Nat, NatAddresses, Number};

/// Ports of the protocols whose further connections are to be expected.
const FTP: u16 = 21;
const TFTP: u16 = 69;

impl Context<'_> {
    /// Does a ct action.
    pub(super) fn track(&mut self, ct: &Ct, is_last: bool) {
        let zone = match &ct.zone {
            Number::Immediate(zone) => *zone,
            Number::Field(src) => {
                // A number for looking the packet up again stands for one value of such fields.
                if !self.is_thawed() || !is_frozen_metadata(src.field) {
                    self.note_subfield(src);
                }
                self.subfield(src).low() as u16
            }
        };
        self.commit();
        let packet = &self.read.packet;
        let read = (packet.ct_mark, packet.ct_label);
        self.nat = None;
        self.read.packet.ct_mark.set(0);
        self.read.packet.ct_label = [0; 16];
        self.do_actions(&ct.actions, is_last, false);

        let is_commit = ct.flags & Ct::COMMIT != 0;
        let (flow, mask) = (&self.flow.packet, &self.read.packet);
        let (mark, mark_mask) = (flow.ct_mark.get(), mask.ct_mark.get());
        let label = u128::from_be_bytes(flow.ct_label);
        let label_mask = u128::from_be_bytes(mask.ct_label);
        let action = ConntrackAction {
            commit: is_commit && ct.flags & Ct::FORCE == 0,
            force: is_commit && ct.flags & Ct::FORCE != 0,
            zone,
            mark: (mark_mask != 0).then_some((mark & mark_mask, mark_mask)),
            label: (label_mask != 0).then_some((label & label_mask, label_mask)),
            helper: self.helper(ct.alg),
            timeout: None,
            nat: self.nat.as_ref().map(translation),
        };
        self.actions.push(DpAction::Conntrack(Box::new(action)));
        (self.read.packet.ct_mark, self.read.packet.ct_label) = read;
        if ct.recirc_table != Ct::NO_RECIRC {
            self.conntracked = true;
            self.fork(ct.recirc_table, zone);
        }
        self.nat = None;
        self.forget_conntrack();
        self.report(TraceKind::Detail, |_| {
            "Sets the packet to an untracked state, and clears all the conntrack fields.".to_owned()
        });
    }

    fn helper(&mut self, port: u16) -> Option<String> {
        match port {
            0 => None,
            FTP => Some("ftp".to_owned()),
            TFTP => Some("tftp".to_owned()),
            other => {
                self.report_error(|_| format!("cannot serialize ct_helper {other}"));
                None
            }
        }
    }

    /// Does a ct_clear action.
    pub(super) fn forget_connection(&mut self) {
        self.forget_conntrack();
        if self.features().ct_clear {
            self.actions.push(DpAction::ConntrackClear);
        }
    }
}

/// A nat action as the datapath does it.
fn translation(nat: &Nat) -> DpNat {
    let kind = match nat.flags {
        flags if flags & Nat::SRC != 0 => NatKind::Source,
        flags if flags & Nat::DST != 0 => NatKind::Destination,
        _ => return DpNat::default(),
    };
    let addresses = nat.addresses.map(|addresses| match addresses {
        NatAddresses::V4(first, last) => {
            (IpAddr::V4(first), last.filter(|last| *last > first).map(IpAddr::V4))
        }
        NatAddresses::V6(first, last) => {
            (IpAddr::V6(first), last.filter(|last| *last > first).map(IpAddr::V6))
        }
    });
    let has_ports = addresses.is_some() && nat.port_min != 0;
    let last_port = (nat.port_max > nat.port_min).then_some(nat.port_max);
    DpNat {
        kind: Some(kind),
        addresses,
        ports: has_ports.then_some((nat.port_min, last_port)),
        persistent: nat.flags & Nat::PERSISTENT != 0,
        hash: nat.flags & Nat::PROTO_HASH != 0,
        random: nat.flags & Nat::PROTO_HASH == 0 && nat.flags & Nat::PROTO_RANDOM != 0,
    }
}
