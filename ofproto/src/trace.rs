//! Tracing a packet: what the switches do with it and why (`ofproto/trace`).

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use dpif::action::{Action as DatapathAction, ActionsText, slow_path};
use dpif::flow::PortNames;

use crate::flow::Flow;
use crate::flow_text::{megaflow_text, packet_text};
use crate::openflow::action::{Action, Nat, NatAddresses};
use crate::openflow::port::PortNo;
use crate::openflow::text::{Names, NoNames, connection_state_text};
use crate::openflow::tlv_map::TlvMap;
use crate::port::PortNumber;
use crate::switches::{SwitchSnapshot, Switches};
use crate::translate::{
    Fork, Request, Start, Trace, TraceEntry, TraceKind, TranslateError, Translation, translate,
};

/// Times that a trace follows packets that are looked up again.
const MAX_FORKS: usize = 4096;
/// Width of the line above and below the head of such a packet's trace.
const RULE_WIDTH: usize = 79;
/// State of a packet that connection tracking finds to start a connection.
const NEW_AND_TRACKED: u8 = 0x21;

/// A packet to trace.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The switch that receives it.
    pub switch: &'a SwitchSnapshot,
    /// Its fields; `in_port` is that of the switch.
    pub flow: Flow,
    /// The length in bytes, if there is a packet, from which switches learn.
    pub length: Option<usize>,
    /// What is to be done with it, instead of what the flow tables say.
    pub actions: Option<&'a [Action]>,
    /// What connection tracking says of it, each time that it goes there.
    pub connection_states: VecDeque<u8>,
    /// Names of the datapath's ports, if ports are to be named.
    pub port_names: Option<&'a PortNames>,
}

/// What became of the packet between two lookups by the datapath.
#[derive(Clone, Debug)]
pub struct Step {
    /// The packet before.
    pub flow: Flow,
    /// Which lookup it was; 0 is the first.
    pub recirculation: u32,
    /// Why.
    pub trace: Vec<TraceEntry>,
    /// What came of it.
    pub result: Result<Translation, TranslateError>,
    /// The whole step as OVS writes it.
    pub text: String,
}

/// Traces a packet, and what becomes of it when it is looked up again.
pub fn trace(switches: &Switches, question: Question<'_>) -> Vec<Step> {
    let Question { switch, flow, length, actions, mut connection_states, port_names } = question;
    let names: &dyn Names = if port_names.is_some() { switch } else { &NoNames };
    let tlv = Arc::clone(&switch.tlv);
    let tracer = Tracer { switches, length, names, port_names, tlv };
    let metadata = flow.to_match(&metadata_mask(&flow), &switch.tlv);
    let in_port = PortNumber(flow.in_port.get());
    let start = match actions {
        Some(actions) => Start::PacketOut { switch, in_port, actions, metadata: &metadata },
        None if flow.packet.recirc_id.get() != 0 => Start::Packet,
        None => Start::Received { switch, in_port, metadata: &metadata },
    };
    let (step, forks) = tracer.step(flow, start, String::new());
    let (mut steps, mut forks) = (vec![step], VecDeque::from(forks));
    while let Some(fork) = forks.pop_front() {
        if steps.len() > MAX_FORKS {
            if let Some(last) = steps.last_mut() {
                let _ = write!(
                    last.text,
                    "\n\n{}\nTrace reached the recirculation limit.  Sopping the trace here.\
                     \nQueued but not processed: {} recirculations.",
                    "=".repeat(RULE_WIDTH),
                    forks.len() + 1
                );
            }
            break;
        }
        let (flow, head) = resume(fork, &mut connection_states);
        let (step, more) = tracer.step(flow, Start::Packet, head);
        steps.push(step);
        forks.extend(more);
    }
    steps
}

/// The fields of a packet of which its headers do not tell.
fn metadata_mask(flow: &Flow) -> Flow {
    let mut mask = Flow::default();
    mask.tunnel_metadata = flow.tunnel_metadata.all_bits();
    mask.registers.as_flattened_mut().fill(u8::MAX);
    mask.metadata.set(u64::MAX);
    mask.conj_id.set(u32::MAX);
    mask
}

/// The packet as it comes back from connection tracking, and the head of its trace.
fn resume(fork: Fork, states: &mut VecDeque<u8>) -> (Flow, String) {
    let Fork { recirculation, zone, nat, mut flow } = fork;
    let rule = "=".repeat(RULE_WIDTH);
    flow.packet.recirc_id.set(recirculation);
    flow.packet.ct_zone.set(zone);
    let mut head = format!("\n\n{rule}\nrecirc({recirculation:#x}) - resume conntrack with ");
    let state = match states.pop_front() {
        Some(state) => {
            let _ = writeln!(head, "ct_state={}", connection_state_text(state));
            state
        }
        None => {
            head += "default ct_state=trk|new (use --ct-next to customize)\n";
            NEW_AND_TRACKED
        }
    };
    flow.packet.ct_state = state;
    if let Some(nat) = nat {
        head += "Replacing src/dst IP/ports to simulate NAT:\n";
        let _ = writeln!(head, " Initial flow: {}", AddressesText(&flow, nat.addresses));
        translate_addresses(&mut flow, &nat);
        let _ = writeln!(head, " Modified flow: {}", AddressesText(&flow, nat.addresses));
    }
    let _ = write!(head, "{rule}\n\n");
    (flow, head)
}

/// Gives the packet the first of the addresses and ports that it may get.
fn translate_addresses(flow: &mut Flow, nat: &Nat) {
    let Some(addresses) = nat.addresses else { return };
    let packet = &mut flow.packet;
    if nat.flags & Nat::SRC != 0 {
        match addresses {
            NatAddresses::V4(first, _) => packet.ipv4_src.set(first.to_bits()),
            NatAddresses::V6(first, _) => packet.ipv6_src = first.octets(),
        }
        if nat.port_min != 0 {
            packet.tp_src.set(nat.port_min);
        }
    }
    if nat.flags & Nat::DST != 0 {
        match addresses {
            NatAddresses::V4(first, _) => packet.ipv4_dst.set(first.to_bits()),
            NatAddresses::V6(first, _) => packet.ipv6_dst = first.octets(),
        }
        if nat.port_min != 0 {
            packet.tp_dst.set(nat.port_min);
        }
    }
}

struct Tracer<'a> {
    switches: &'a Switches,
    length: Option<usize>,
    names: &'a dyn Names,
    port_names: Option<&'a PortNames>,
    /// The tunnel options that the switch which receives the packet maps to fields.
    tlv: Arc<TlvMap>,
}

impl Tracer<'_> {
    fn step(&self, flow: Flow, start: Start<'_>, head: String) -> (Step, Vec<Fork>) {
        let mut trace = Trace { names: self.port_names.is_some(), ..Trace::default() };
        let request = Request {
            is_packet: self.length.is_some(),
            length: self.length,
            start,
            trace: Some(&mut trace),
            ..Request::flow(&flow.packet)
        };
        let result = translate(self.switches, request);
        let mut flow = flow;
        flow.actset_output.set(PortNo::UNSET.0);
        // Translation tells what is wrong with them.
        let _ = flow.map_options(&self.tlv);
        let text = head + &self.text(&flow, &trace.entries, &result);
        let recirculation = flow.packet.recirc_id.get();
        let step = Step { flow, recirculation, trace: trace.entries, result, text };
        (step, trace.forks)
    }

    fn text(
        &self,
        flow: &Flow,
        entries: &[TraceEntry],
        result: &Result<Translation, TranslateError>,
    ) -> String {
        let mut text = format!("Flow: {}\n", packet_text(flow, &self.tlv, self.names));
        let _ = write!(text, "{}", EntriesText { entries, level: 0 });
        let translation = match result {
            Ok(translation) => translation,
            Err(error) => {
                let _ = write!(
                    text,
                    " >>>> {error} <<<<\n\nFinal flow: unchanged\nMegaflow: {}\n\
                     Datapath actions: drop\nTranslation failed ({}), packet is dropped.\n",
                    megaflow_text(flow, &Flow::default(), &self.tlv, self.names),
                    error.reason()
                );
                return text;
            }
        };
        text += "\nFinal flow: ";
        match translation.flow == *flow {
            true => text += "unchanged",
            false => text += &packet_text(&translation.flow, &self.tlv, self.names),
        }
        let actions = ActionsText { actions: &translation.actions, names: self.port_names };
        let megaflow = megaflow_text(flow, &translation.read, &self.tlv, self.names);
        let _ = write!(text, "\nMegaflow: {megaflow}\nDatapath actions: {actions}");
        if let Some(error) = translation.error {
            let reason = error.reason();
            let _ = write!(text, "\nTranslation failed ({reason}), packet is dropped.\n");
        } else if translation.slow != 0 {
            text += "\nThis flow is handled by the userspace slow path because it:";
            for reason in slow_path_reasons(translation.slow) {
                let _ = write!(text, "\n  - {reason}.");
            }
        }
        text
    }
}

/// Why a packet takes the slow path, in the words of OVS.
pub fn slow_path_reasons(reasons: u32) -> impl Iterator<Item = &'static str> {
    const REASONS: [(u32, &str); 7] = [
        (slow_path::CFM, "Consists of CFM packets"),
        (slow_path::BFD, "Consists of BFD packets"),
        (slow_path::LACP, "Consists of LACP packets"),
        (slow_path::STP, "Consists of STP packets"),
        (slow_path::LLDP, "Consists of LLDP packets"),
        (slow_path::ACTION, "Uses action(s) not supported by datapath"),
        (slow_path::MATCH, "Datapath can't match specifically enough"),
    ];
    REASONS.into_iter().filter(move |(bit, _)| reasons & bit != 0).map(|(_, text)| text)
}

/// The actions of a trace that are to be done for a packet all the same: all but those that send
/// it somewhere.
pub fn without_outputs(actions: &[DatapathAction]) -> Vec<DatapathAction> {
    let kept = actions.iter().filter_map(|action| match action {
        DatapathAction::Output(_) | DatapathAction::Recirculate(_) => None,
        DatapathAction::Clone(actions) => Some(DatapathAction::Clone(without_outputs(actions))),
        action => Some(action.clone()),
    });
    kept.collect()
}

/// A tree of entries.
struct EntriesText<'a> {
    entries: &'a [TraceEntry],
    level: usize,
}

impl fmt::Display for EntriesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.entries;
        while let Some((entry, behind)) = rest.split_first() {
            let parts = behind.iter().take_while(|part| part.depth > entry.depth).count();
            let (parts, next) = behind.split_at_checked(parts).unwrap_or((behind, &[]));
            rest = next;
            let is_leaf =
                !matches!(entry.kind, TraceKind::Bridge | TraceKind::Table | TraceKind::Thaw);
            // What follows the last inner entry of a list needs no room beside others.
            let more = usize::from(is_leaf || !rest.is_empty());
            let indent = 4 * (self.level + more);
            if entry.kind == TraceKind::Bridge {
                writeln!(f)?;
            }
            write!(f, "{:indent$}", "")?;
            let text = &entry.text;
            match entry.kind {
                TraceKind::Detail => writeln!(f, " -> {text}")?,
                TraceKind::Warning => writeln!(f, " >> {text}")?,
                TraceKind::Error => writeln!(f, " >>>> {text} <<<<")?,
                TraceKind::Bridge => {
                    writeln!(f, "{text}\n{:indent$}{}", "", "-".repeat(text.len()))?;
                }
                _ => writeln!(f, "{text}")?,
            }
            write!(f, "{}", EntriesText { entries: parts, level: self.level + 2 * more })?;
        }
        Ok(())
    }
}

/// The addresses and ports of a packet, of the kind that address translation concerns.
struct AddressesText<'a>(&'a Flow, Option<NatAddresses>);

impl fmt::Display for AddressesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::net::{Ipv4Addr, Ipv6Addr};
        let packet = &self.0.packet;
        let (source_port, destination_port) = (packet.tp_src.get(), packet.tp_dst.get());
        match self.1 {
            None => Ok(()),
            Some(NatAddresses::V4(..)) => {
                let source = Ipv4Addr::from(packet.ipv4_src.get());
                let destination = Ipv4Addr::from(packet.ipv4_dst.get());
                write!(f, "nw_src={source},tp_src={source_port}")?;
                write!(f, ",nw_dst={destination},tp_dst={destination_port}")
            }
            Some(NatAddresses::V6(..)) => {
                let source = Ipv6Addr::from(packet.ipv6_src);
                let destination = Ipv6Addr::from(packet.ipv6_dst);
                write!(f, "ipv6_src=[{source}],tp_src={source_port}")?;
                write!(f, ",ipv6_dst=[{destination}],tp_dst={destination_port}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_indented_as_a_tree() {
        let entry = |kind, depth, text: &str| TraceEntry { kind, depth, text: text.to_owned() };
        let entries = [
            entry(TraceKind::Bridge, 0, "bridge(\"br0\")"),
            entry(TraceKind::Table, 1, " 0. priority 0"),
            entry(TraceKind::Action, 2, "resubmit(,1)"),
            entry(TraceKind::Table, 2, " 1. No match."),
            entry(TraceKind::Action, 3, "drop"),
            entry(TraceKind::Action, 2, "output:1"),
            entry(TraceKind::Detail, 2, "detail"),
        ];
        let text = EntriesText { entries: &entries, level: 0 }.to_string();
        assert_eq!(
            text,
            "\nbridge(\"br0\")\n-------------\n 0. priority 0\n    resubmit(,1)\n     1. No match.\
             \n            drop\n    output:1\n     -> detail\n"
        );
    }

    #[test]
    fn outputs_are_left_out() {
        let actions = [
            DatapathAction::Output(1),
            DatapathAction::PopVlan,
            DatapathAction::Clone(vec![DatapathAction::Recirculate(1), DatapathAction::PopVlan]),
            DatapathAction::Recirculate(2),
        ];
        assert_eq!(
            without_outputs(&actions),
            [DatapathAction::PopVlan, DatapathAction::Clone(vec![DatapathAction::PopVlan])]
        );
    }
}
