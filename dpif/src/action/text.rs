//! Actions as text, in the syntax of OVS's datapath actions.

use std::fmt::{self, Write};

use netdev::wire::ethernet::ether_type;

use super::{Action, HashAlgorithm, NshMetadata, PushNsh, SetFields};
use crate::flow::text::{
    List, Source, write_attribute, write_hex, write_mpls_entry, write_port, write_vlan_tci,
};
use crate::flow::tunnel_text::write_bytes;
use crate::flow::{Attribute, FlowKey, PortNames};

/// Prints actions; none at all is `drop`.
#[derive(Debug, Clone, Copy)]
pub struct ActionsText<'a> {
    /// What to print.
    pub actions: &'a [Action],
    /// Names to print instead of numbers of ports.
    pub names: Option<&'a PortNames>,
}

impl fmt::Display for ActionsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_actions(f, self.actions, self.names)
    }
}

fn write_actions(
    out: &mut fmt::Formatter<'_>,
    actions: &[Action],
    names: Option<&PortNames>,
) -> fmt::Result {
    if actions.is_empty() {
        return out.write_str("drop");
    }
    let mut list = List::new(out);
    actions.iter().try_for_each(|action| write_action(list.item()?, action, names))
}

fn write_action(
    out: &mut fmt::Formatter<'_>,
    action: &Action,
    names: Option<&PortNames>,
) -> fmt::Result {
    match action {
        Action::Output(port) => write_port(out, *port, names),
        Action::LoadBalancedOutput(bond) => write!(out, "lb_output({bond})"),
        Action::Userspace(userspace) => userspace.write(out, names),
        Action::Set(fields) => write_set(out, fields),
        Action::SetTunnel(tunnel) => {
            let mut key = FlowKey::default();
            key.tunnel = **tunnel;
            let source = Source { key: &key, mask: None, set: true };
            out.write_str("set(")?;
            write_attribute(out, Attribute::Tunnel, source, true, None)?;
            out.write_char(')')
        }
        Action::PushVlan { tpid, tci } => {
            out.write_str("push_vlan(")?;
            let mut list = List::new(out);
            if *tpid != ether_type::VLAN {
                write!(list.item()?, "tpid={tpid:#06x}")?;
            }
            write_vlan_tci(&mut list, *tci, u16::MAX, false)?;
            out.write_char(')')
        }
        Action::PopVlan => out.write_str("pop_vlan"),
        Action::PushMpls { entry, eth_type } => write_mpls(out, "push_mpls", *entry, *eth_type),
        Action::PopMpls { eth_type } => write!(out, "pop_mpls(eth_type={eth_type:#x})"),
        Action::AddMpls { entry, eth_type, .. } => write_mpls(out, "add_mpls", *entry, *eth_type),
        Action::PushEthernet { source, destination } => {
            write!(out, "push_eth(src={source},dst={destination})")
        }
        Action::PopEthernet => out.write_str("pop_eth"),
        Action::PushNsh(nsh) => write_push_nsh(out, nsh),
        Action::PopNsh => out.write_str("pop_nsh()"),
        Action::Truncate(length) => write!(out, "trunc({length})"),
        Action::Hash { algorithm, basis } => match algorithm {
            HashAlgorithm::L4 => write!(out, "hash(l4({basis}))"),
            HashAlgorithm::SymmetricL4 => write!(out, "hash(sym_l4({basis}))"),
        },
        Action::Recirculate(id) => {
            out.write_str("recirc(")?;
            write_hex(out, u128::from(*id))?;
            out.write_char(')')
        }
        Action::Sample { probability, actions } => {
            let percentage = 100.0 * f64::from(*probability) / f64::from(u32::MAX);
            write!(out, "sample(sample={percentage:.1}%,actions(")?;
            write_actions(out, actions, names)?;
            out.write_str("))")
        }
        Action::Clone(actions) => {
            out.write_str("clone(")?;
            write_actions(out, actions, names)?;
            out.write_char(')')
        }
        Action::CheckPacketLength { length, greater, less_equal } => {
            write!(out, "check_pkt_len(size={length},gt(")?;
            write_actions(out, greater, names)?;
            out.write_str("),le(")?;
            write_actions(out, less_equal, names)?;
            out.write_str("))")
        }
        Action::Meter(meter) => write!(out, "meter({meter})"),
        Action::Conntrack(conntrack) => conntrack.write(out),
        Action::ConntrackClear => out.write_str("ct_clear"),
        Action::TunnelPush(push) => push.write(out, names),
        Action::TunnelPop(port) => {
            out.write_str("tnl_pop(")?;
            write_port(out, *port, names)?;
            out.write_char(')')
        }
        Action::Psample { group, cookie } => {
            write!(out, "psample(group={group}")?;
            if !cookie.is_empty() {
                out.write_str(",cookie=")?;
                write_bytes(out, cookie)?;
            }
            out.write_char(')')
        }
        Action::Drop { .. } => out.write_str("drop"),
    }
}

fn write_set(out: &mut fmt::Formatter<'_>, set: &SetFields) -> fmt::Result {
    let (mut key, mut mask) = (FlowKey::default(), FlowKey::default());
    for field in &set.fields {
        key.set(field.field, field.value);
        mask.set(field.field, field.mask);
    }
    out.write_str("set(")?;
    let source = Source { key: &key, mask: Some(&mask), set: true };
    write_attribute(out, set.attribute, source, false, None)?;
    out.write_char(')')
}

fn write_mpls(out: &mut fmt::Formatter<'_>, name: &str, entry: u32, eth_type: u16) -> fmt::Result {
    write!(out, "{name}(")?;
    write_mpls_entry(&mut List::new(out), entry)?;
    write!(out, ",eth_type={eth_type:#x})")
}

fn write_push_nsh(out: &mut fmt::Formatter<'_>, nsh: &PushNsh) -> fmt::Result {
    let kind = match nsh.metadata {
        NshMetadata::Type1(_) => 1,
        NshMetadata::Type2(_) => 2,
    };
    write!(out, "push_nsh(flags={},ttl={},mdtype={kind}", nsh.flags, nsh.ttl)?;
    write!(out, ",np={},spi={:#x}", nsh.next_protocol, nsh.service_path)?;
    write!(out, ",si={}", nsh.service_index)?;
    match &nsh.metadata {
        NshMetadata::Type1(context) => {
            for (number, word) in (1..).zip(context) {
                write!(out, ",c{number}={word:#x}")?;
            }
        }
        NshMetadata::Type2(options) => {
            out.write_str(",md2=")?;
            write_bytes(out, options)?;
        }
    }
    out.write_char(')')
}
