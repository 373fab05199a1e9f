//! Checks of a flow's actions against its match.

use super::super::error::OfError;
use super::super::field::Prerequisite;
use super::super::flow_match::{VLAN_PRESENT, ct_state, eth_type, ip_proto};
use super::super::slot::Slot;
use super::super::version::Version;
use super::decode::{check_bundle, check_enqueue_port, check_output_port};
use super::*;

/// Greatest meter id.
const MAX_METER: u32 = 0xffff_0000;

/// What a flow's actions are checked against.
#[derive(Clone, Debug)]
pub struct CheckContext<'a> {
    /// The flow's match.
    pub flow_match: &'a Match,
    /// Ordinary ports are below this number.
    pub max_ports: PortNo,
    /// The flow's table, 255 when not known.
    pub table_id: u8,
    /// The number of tables, 255 when not known.
    pub n_tables: u8,
    /// The version that the controller speaks. OpenFlow 1.0 accepts actions that do not fit the
    /// match and do nothing.
    pub version: Version,
}

/// Checks `actions` against the match of their flow, and notes in them what the match tells about
/// VLAN tags and the transport protocol, on which some encodings depend.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub fn check(actions: &mut [Action], context: &CheckContext<'_>) -> Result<(), OfError> {
    let mut checker = Checker {
        context,
        flow_match: context.flow_match.clone(),
        inner_vlan: false,
        consistent: true,
    };
    checker.list(actions)?;
    match checker.consistent || context.version == Version::V10 {
        true => Ok(()),
        false => Err(OfError::BadActionMatchInconsistent),
    }
}

/// What is known about the packet before an action.
struct Checker<'a> {
    context: &'a CheckContext<'a>,
    flow_match: Match,
    /// Whether there is a second VLAN tag.
    inner_vlan: bool,
    /// Whether all actions fit the match.
    consistent: bool,
}

impl Checker<'_> {
    /// Checks actions one after the other; what they change is forgotten afterwards.
    fn list(&mut self, actions: &mut [Action]) -> Result<(), OfError> {
        let before = (self.flow_match.clone(), self.inner_vlan);
        let result = actions.iter_mut().try_for_each(|action| self.action(action));
        (self.flow_match, self.inner_vlan) = before;
        result
    }

    fn require(&mut self, fits: bool) {
        self.consistent &= fits;
    }

    fn has_vlan(&self) -> bool {
        self.flow_match.value(Slot::VLAN_TCI) & u128::from(VLAN_PRESENT) != 0
    }

    fn add_vlan_bit(&mut self) {
        let tag = self.flow_match.value(Slot::VLAN_TCI) | u128::from(VLAN_PRESENT);
        self.flow_match.set_exact(Slot::VLAN_TCI, tag);
    }

    /// Notes for a VLAN action whether there is a tag, and that there is one afterwards.
    fn set_vlan(&mut self, push_if_needed: bool) -> bool {
        let has_vlan = self.has_vlan();
        self.require(has_vlan || push_if_needed);
        self.add_vlan_bit();
        has_vlan
    }

    /// Checks an action on a transport port and returns the protocol.
    fn transport(&mut self) -> u8 {
        let fits = [Prerequisite::Tcp, Prerequisite::Udp, Prerequisite::Sctp]
            .into_iter()
            .any(|prerequisite| self.flow_match.meets(prerequisite));
        self.require(fits);
        self.flow_match.value(Slot::NW_PROTO) as u8
    }

    fn action(&mut self, action: &mut Action) -> Result<(), OfError> {
        let ports = self.context.max_ports;
        match action {
            Action::Output { port, .. } | Action::OutputTrunc { port, .. } => {
                check_output_port(*port, ports)
            }
            Action::Enqueue { port, .. } => check_enqueue_port(*port, ports),
            Action::OutputField { src, .. } => src.check_source(Some(&self.flow_match)),
            Action::Bundle(bundle) => check_bundle(bundle, ports, Some(&self.flow_match)),
            Action::SetField(set) => self.set_field(set),
            Action::SetVlanVid { push_if_needed, flow_has_vlan, .. }
            | Action::SetVlanPcp { push_if_needed, flow_has_vlan, .. } => {
                *flow_has_vlan = self.set_vlan(*push_if_needed);
                Ok(())
            }
            Action::PopVlan { .. } => {
                self.require(self.has_vlan());
                let inner = if self.inner_vlan { u128::from(VLAN_PRESENT) } else { 0 };
                self.flow_match.set_exact(Slot::VLAN_TCI, inner);
                self.inner_vlan = false;
                Ok(())
            }
            Action::PushVlan(_) => {
                if self.inner_vlan {
                    return Err(OfError::BadActionTag);
                }
                self.inner_vlan = self.has_vlan();
                self.add_vlan_bit();
                Ok(())
            }
            Action::SetIpv4Src(_) | Action::SetIpv4Dst(_) => {
                self.require(self.flow_match.meets(Prerequisite::Ipv4));
                Ok(())
            }
            Action::SetIpDscp(_)
            | Action::SetIpEcn(_)
            | Action::SetIpTtl(_)
            | Action::DecTtl(_) => {
                self.require(self.flow_match.is_ip());
                Ok(())
            }
            Action::SetTransportSrc { ip_proto, .. } | Action::SetTransportDst { ip_proto, .. } => {
                *ip_proto = self.transport();
                Ok(())
            }
            Action::Move(copy) => {
                copy.src.check_source(Some(&self.flow_match))?;
                copy.dst.check_destination(Some(&self.flow_match))
            }
            Action::Push(bits) => bits.check_source(Some(&self.flow_match)),
            Action::Pop(bits) => bits.check_destination(Some(&self.flow_match)),
            Action::SetMplsLabel(_)
            | Action::SetMplsTc(_)
            | Action::SetMplsTtl(_)
            | Action::DecMplsTtl => {
                self.require(self.flow_match.meets(Prerequisite::Mpls));
                Ok(())
            }
            Action::PushMpls(kind) => {
                self.require(self.flow_match.is_ethernet());
                self.flow_match.set_exact(Slot::ETH_TYPE, u128::from(*kind));
                self.flow_match.set_exact(Slot::NW_PROTO, 0);
                Ok(())
            }
            Action::PopMpls(kind) => {
                let fits =
                    self.flow_match.is_ethernet() && self.flow_match.meets(Prerequisite::Mpls);
                self.require(fits);
                self.flow_match.set_exact(Slot::ETH_TYPE, u128::from(*kind));
                Ok(())
            }
            Action::DecNshTtl => {
                let fits = self.flow_match.value(Slot::PACKET_TYPE) == u128::from(packet_type::NSH)
                    || self.flow_match.value(Slot::ETH_TYPE) == u128::from(eth_type::NSH);
                self.require(fits);
                Ok(())
            }
            Action::DeleteField { field, .. } => match field.is_variable() {
                true => Ok(()),
                false => Err(OfError::BadActionArgument),
            },
            Action::Encap(encap) => {
                self.flow_match.set_exact(Slot::PACKET_TYPE, u128::from(encap.packet_type));
                if encap.packet_type >> 16 == 1 {
                    let kind = u128::from(encap.packet_type & 0xffff);
                    self.flow_match.set_exact(Slot::ETH_TYPE, kind);
                }
                if !self.flow_match.is_ip() {
                    self.flow_match.set_exact(Slot::NW_PROTO, 0);
                }
                Ok(())
            }
            Action::Decap(_) => {
                self.decap();
                Ok(())
            }
            Action::FinTimeout { .. } => {
                let fits = self.flow_match.value(Slot::NW_PROTO) == u128::from(ip_proto::TCP);
                self.require(fits);
                Ok(())
            }
            Action::Resubmit { with_ct: true, .. } if !self.flow_match.meets(Prerequisite::Ct) => {
                Err(OfError::BadActionMatchInconsistent)
            }
            Action::Learn(learn) => learn.check(&self.flow_match),
            Action::Multipath(multipath) => multipath.dst.check_destination(Some(&self.flow_match)),
            Action::Clone(actions) => self.list(actions),
            Action::Ct(ct) => self.ct(ct),
            Action::Nat(nat) => {
                let fits = match nat.addresses {
                    None => self.flow_match.is_ip(),
                    Some(NatAddresses::V4(..)) => self.flow_match.meets(Prerequisite::Ipv4),
                    Some(NatAddresses::V6(..)) => self.flow_match.meets(Prerequisite::Ipv6),
                };
                if fits { Ok(()) } else { Err(OfError::BadActionMatchInconsistent) }
            }
            Action::Meter(meter) => match (1..=MAX_METER).contains(meter) {
                true => Ok(()),
                false => Err(OfError::MeterModInvalidMeter),
            },
            Action::WriteActions(actions) => {
                // The set is executed later, when the packet may fit.
                let consistent = self.consistent;
                let result = self.list(actions);
                self.consistent = consistent;
                result
            }
            Action::GotoTable(table) => {
                let CheckContext { table_id, n_tables, .. } = *self.context;
                let back = table_id != 255 && *table <= table_id;
                let beyond = n_tables != 255 && *table >= n_tables;
                if back || beyond { Err(OfError::BadInstructionTableId) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn set_field(&mut self, set: &mut SetField) -> Result<(), OfError> {
        let vid_without_tag = set.field == Field::VLAN_VID && !self.has_vlan();
        if !set.field.prerequisite_met(&self.flow_match) || vid_without_tag {
            return Err(OfError::BadActionMatchInconsistent);
        }
        set.flow_has_vlan = self.has_vlan();
        if set.field == Field::VLAN_TCI {
            self.flow_match.set_exact(Slot::VLAN_TCI, set.value.low());
        }
        Ok(())
    }

    fn decap(&mut self) {
        if self.flow_match.is_ethernet() {
            let kind = 1 << 16 | self.flow_match.value(Slot::ETH_TYPE);
            self.flow_match.set_exact(Slot::PACKET_TYPE, kind);
        } else {
            self.flow_match.set_exact(Slot::PACKET_TYPE, u128::from(packet_type::UNKNOWN));
            self.flow_match.set_exact(Slot::ETH_TYPE, 0xffff);
        }
    }

    fn ct(&mut self, ct: &mut Ct) -> Result<(), OfError> {
        let state = self.flow_match.value(Slot::CT_STATE) as u32;
        let proto = self.flow_match.value(Slot::NW_PROTO) as u8;
        let fits = self.flow_match.is_ip()
            && !(state & ct_state::INVALID != 0 && ct.flags & Ct::COMMIT != 0)
            && (ct.alg != 21 || proto == ip_proto::TCP)
            && (ct.alg != 69 || proto == ip_proto::UDP);
        if !fits {
            return Err(OfError::BadActionMatchInconsistent);
        }
        match ct.zone {
            Number::Field(src) => src.check_source(Some(&self.flow_match)),
            Number::Immediate(_) => self.list(&mut ct.actions),
        }
    }
}
