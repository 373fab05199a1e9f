//! `ofproto/trace` and `ofproto/trace-packet-out`: what the switches do with a packet, and why.

use std::collections::VecDeque;
use std::sync::Arc;

use dpif::action::ActionsText;
use dpif::flow::{
    FlowKey, MAX_VLANS, NO_PORT, PacketKey, PortNames, compose_with, extract_bytes, parse_flow,
    parse_key,
};
use netdev::packet::Descriptor;
use ofproto::flow::Flow;
use ofproto::flow_text::{megaflow_text, packet_match, packet_text};
use ofproto::openflow::action::{Action, CheckContext, check};
use ofproto::openflow::port::PortNo;
use ofproto::openflow::text::{
    Names, NoNames, parse_actions, parse_connection_state, parse_packet_fields,
};
use ofproto::openflow::tlv_map::TlvMap;
use ofproto::openflow::version::Version;
use ofproto::port::PortNumber;
use ofproto::switches::{Attachment, SwitchSnapshot, Switches};
use ofproto::trace::{Question, Step, slow_path_reasons, trace, without_outputs};
use ofproto::translate::{TraceKind, TranslateError};
use serde_json::{Value, json};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::bridge::ExecutedPacket;
use crate::daemon::Daemon;

use super::command;

pub(super) const COMMANDS: &[Command] = &[
    command(
        "ofproto/trace",
        "{[dp_name] odp_flow | bridge br_flow} [OPTIONS...] [-generate|packet]",
        (1, usize::MAX),
        Handler::Now(trace_flow),
    ),
    command(
        "ofproto/trace-packet-out",
        "[-consistent] {[dp_name] odp_flow | bridge br_flow} [OPTIONS...] [-generate|packet] \
         actions",
        (2, usize::MAX),
        Handler::Now(trace_actions),
    ),
];

/// Most bytes of payload that an operator may ask for.
const MAX_PAYLOAD: usize = 64_000;
/// Bytes of an Ethernet header.
const ETHERNET_LENGTH: usize = 14;

/// What an operator asks for.
struct Arguments {
    words: Vec<String>,
    generate: bool,
    payload: Vec<u8>,
    is_consistent: bool,
    has_names: bool,
    connection_states: VecDeque<u8>,
}

/// The payload of a packet whose payload does not matter.
fn counting_payload(length: usize) -> Vec<u8> {
    (0..length).map(|index| index as u8).collect()
}

impl Arguments {
    /// `has_actions` says that the actions are given.
    fn parse(arguments: &[String], has_actions: bool) -> Result<Self, String> {
        let mut parsed = Self {
            words: vec![],
            generate: false,
            payload: counting_payload(64),
            is_consistent: false,
            has_names: false,
            connection_states: VecDeque::new(),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || {
                let missing = || format!("Missing argument for option {argument}");
                rest.next().ok_or_else(missing)
            };
            match argument.as_str() {
                "-generate" | "--generate" => parsed.generate = true,
                "--l7" => {
                    let bytes = parse_hex(value()?);
                    parsed.payload = bytes.ok_or("Trailing garbage in packet data")?;
                }
                "--l7-len" => {
                    let text = value()?;
                    let length = text.parse().ok().filter(|length| *length <= MAX_PAYLOAD);
                    let length = length.ok_or_else(|| format!("{text}: too much L7 data"))?;
                    parsed.payload = counting_payload(length);
                }
                "-consistent" | "--consistent" if has_actions => parsed.is_consistent = true,
                "-names" | "--names" => parsed.has_names = true,
                "--ct-next" => {
                    parsed.connection_states.push_back(parse_connection_state(value()?)?);
                }
                option if option.starts_with('-') => {
                    return Err(format!("{option}: unknown option"));
                }
                _ if parsed.words.len() == 3 => return Err("too many arguments".to_owned()),
                _ => parsed.words.push(argument.clone()),
            }
        }
        Ok(parsed)
    }

    /// Takes the packet off the words, if it is there.
    fn take_packet(&mut self) -> Result<Option<Vec<u8>>, String> {
        let Some(last) = self.words.last().filter(|_| !self.generate && self.words.len() > 1)
        else {
            return Ok(None);
        };
        let error = match parse_hex(last) {
            Some(bytes) if bytes.len() >= ETHERNET_LENGTH => {
                self.words.pop();
                return Ok(Some(bytes));
            }
            Some(_) => "Packet data too short for Ethernet",
            None => "Trailing garbage in packet data",
        };
        if self.words.len() > 2 { Err(error.to_owned()) } else { Ok(None) }
    }
}

/// Bytes in hexadecimal, perhaps with white space between them.
fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<char> = text.chars().filter(|next| !next.is_ascii_whitespace()).collect();
    let byte = |pair: &[char]| match pair {
        [high, low] => Some((high.to_digit(16)? << 4 | low.to_digit(16)?) as u8),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

/// A packet, and the switch that gets it.
struct Received {
    switches: Arc<Switches>,
    bridge: String,
    flow: Flow,
    /// The packet itself, if there is one.
    bytes: Option<Vec<u8>>,
}

impl Received {
    fn switch(&self) -> Result<&SwitchSnapshot, String> {
        let mut switches = self.switches.iter();
        let found = switches.find(|switch| switch.name == self.bridge);
        found.ok_or_else(|| format!("{}: unknown bridge", self.bridge))
    }
}

fn receive(daemon: &Daemon, arguments: &mut Arguments) -> Result<Received, String> {
    let bytes = arguments.take_packet()?;
    let (place, text) = match &arguments.words[..] {
        [text] => (None, text),
        [place, text] => (Some(place.as_str()), text),
        _ => return Err("Syntax error".to_owned()),
    };
    let kind = place.map(|name| name.strip_prefix("ovs-").unwrap_or(name));
    let datapath = daemon.bridges.switches_of_type(kind);
    let names = datapath.as_deref().map(datapath_port_names).unwrap_or_default();
    // A mask makes no difference, but is allowed.
    let vlan_limit = daemon.bridges.vlan_limit();
    let key = parse_key(text, Some(&names), vlan_limit).map(|(key, _)| key);
    let key = key.or_else(|error| {
        let parsed = parse_flow(text, Some(&names), vlan_limit);
        parsed.map(|parsed| parsed.key).map_err(|_| error)
    });
    let received = match key {
        Ok(key) => receive_from_datapath(datapath, key)?,
        Err(error) => {
            let Some(bridge) = place else {
                return Err(format!("{error} (or the bridge name was omitted)"));
            };
            receive_from_bridge(daemon, bridge, text)?
        }
    };
    complete(received, bytes, arguments)
}

fn datapath_port_names(switches: &Switches) -> PortNames {
    let ports = switches.iter().flat_map(|switch| switch.ports.values());
    let numbers = ports.filter_map(|port| match &port.attachment {
        Attachment::Datapath(number) => Some((number.0, port.name.clone())),
        Attachment::Tunnel(number, tunnel) => Some((number.0, tunnel.0.config.datapath_port())),
        Attachment::Patch(_) => None,
    });
    numbers.collect()
}

fn receive_from_datapath(
    datapath: Option<Arc<Switches>>,
    key: FlowKey,
) -> Result<Received, String> {
    let switches = datapath.ok_or("Cannot find the datapath")?;
    let received = switches.receiver_of(&key);
    let (switch, in_port) = received.map_err(|error| match error {
        TranslateError::UnknownPort(NO_PORT) => {
            "no OpenFlow port for datapath port ODPP_NONE".to_owned()
        }
        error => error.to_string(),
    })?;
    let bridge = switch.name.clone();
    let flow = Flow::of_packet(key, PortNo(in_port.0));
    Ok(Received { switches, bridge, flow, bytes: None })
}

fn receive_from_bridge(daemon: &Daemon, bridge: &str, text: &str) -> Result<Received, String> {
    let unknown = || format!("{bridge}: unknown bridge");
    let switches = daemon.bridges.switches_beside(bridge).ok_or_else(unknown)?;
    let switch = switches.iter().find(|switch| switch.name == bridge).ok_or_else(unknown)?;
    let fields = parse_packet_fields(text, switch);
    let fields = fields.map_err(|error| format!("Bad openflow flow syntax: {error}"))?;
    let (mut flow, _) = Flow::of_match(&fields, &switch.tlv);
    if flow.in_port.get() == 0 {
        flow.in_port.set(PortNo::NONE.0);
    }
    flow.actset_output.set(PortNo::UNSET.0);
    let port = switch.ports.get(&PortNumber(flow.in_port.get()));
    flow.packet.in_port.set(match port.map(|port| &port.attachment) {
        Some(Attachment::Datapath(number) | Attachment::Tunnel(number, _)) => number.0,
        Some(Attachment::Patch(_)) | None => NO_PORT,
    });
    let bridge = bridge.to_owned();
    Ok(Received { switches, bridge, flow, bytes: None })
}

/// Adds the packet that was given or is to be made up.
fn complete(
    mut received: Received,
    bytes: Option<Vec<u8>>,
    arguments: &Arguments,
) -> Result<Received, String> {
    if arguments.generate {
        let made = compose_with(&received.flow.packet, &arguments.payload);
        received.bytes = Some(made.map_err(|error| error.to_string())?);
    } else if let Some(bytes) = bytes {
        let old = &received.flow.packet;
        let (mut descriptor, mut key) = (Descriptor::default(), PacketKey::default());
        extract_bytes(&bytes, bytes.len(), &mut descriptor, None, MAX_VLANS, &mut key);
        let mut new = key.key().clone();
        new.in_port = old.in_port;
        new.recirc_id = old.recirc_id;
        new.dp_hash = old.dp_hash;
        new.skb_mark = old.skb_mark;
        new.skb_priority = old.skb_priority;
        new.ct_state = old.ct_state;
        new.ct_zone = old.ct_zone;
        new.ct_mark = old.ct_mark;
        new.ct_label = old.ct_label;
        new.ct_proto = old.ct_proto;
        (new.ct_ipv4_src, new.ct_ipv4_dst) = (old.ct_ipv4_src, old.ct_ipv4_dst);
        (new.ct_ipv6_src, new.ct_ipv6_dst) = (old.ct_ipv6_src, old.ct_ipv6_dst);
        (new.ct_tp_src, new.ct_tp_dst) = (old.ct_tp_src, old.ct_tp_dst);
        new.tunnel = old.tunnel;
        let in_port = PortNo(received.flow.in_port.get());
        received.flow = Flow::of_packet(new, in_port);
        received.bytes = Some(bytes);
    }
    Ok(received)
}

fn trace_flow(daemon: &mut Daemon, call: &Call) -> Outcome {
    let mut arguments = Arguments::parse(&call.arguments, false)?;
    let received = receive(daemon, &mut arguments)?;
    answer(daemon, call.format, &received, &arguments, None)
}

fn trace_actions(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (text, before) = call.arguments.split_last().ok_or("Syntax error")?;
    let mut actions = parse_actions(text, &NoNames).map_err(|error| error.to_string())?;
    let mut arguments = Arguments::parse(before, true)?;
    let received = receive(daemon, &mut arguments)?;
    let fields = packet_match(&received.flow, &received.switch()?.tlv);
    let context = CheckContext {
        flow_match: &fields,
        max_ports: PortNo::MAX,
        table_id: 0,
        n_tables: ofproto::tables::N_TABLES,
        version: if arguments.is_consistent { Version::V13 } else { Version::V10 },
    };
    check(&mut actions, &context).map_err(|error| format!("Bad actions: {error}"))?;
    answer(daemon, call.format, &received, &arguments, Some(&actions))
}

fn answer(
    daemon: &mut Daemon,
    format: Format,
    received: &Received,
    arguments: &Arguments,
    actions: Option<&[Action]>,
) -> Outcome {
    let switch = received.switch()?;
    let port_names = arguments.has_names.then(|| datapath_port_names(&received.switches));
    let mut steps = trace(
        &received.switches,
        Question {
            switch,
            flow: received.flow.clone(),
            length: received.bytes.as_ref().map(Vec::len),
            actions,
            connection_states: arguments.connection_states.clone(),
            port_names: port_names.as_ref(),
        },
    );
    for step in &mut steps {
        execute(daemon, received, step);
    }
    let names: &dyn Names = if arguments.has_names { switch } else { &NoNames };
    Ok(match format {
        Format::Text => Output::Text(steps.into_iter().map(|step| step.text).collect()),
        Format::Json => Output::Json(
            steps
                .iter()
                .map(|step| step_json(step, &switch.tlv, names, port_names.as_ref()))
                .collect(),
        ),
    })
}

/// Does to the packet, if there is one, all but sending it somewhere.
fn execute(daemon: &mut Daemon, received: &Received, step: &mut Step) {
    let (Some(bytes), Ok(translation)) = (&received.bytes, &step.result) else { return };
    let actions = without_outputs(&translation.actions);
    if translation.error.is_some() || actions.is_empty() {
        return;
    }
    let packet = ExecutedPacket { bytes, key: &step.flow.packet };
    if !daemon.bridges.execute(&received.bridge, &packet, &actions) {
        step.text += "\nAction execution failed (Cannot allocate memory)\n.";
    }
}

fn step_json(
    step: &Step,
    tlv: &TlvMap,
    names: &dyn Names,
    port_names: Option<&PortNames>,
) -> Value {
    let entries = step.trace.iter().map(|entry| {
        let kind = match entry.kind {
            TraceKind::Bridge => "bridge",
            TraceKind::Table => "table",
            TraceKind::Bucket => "bucket",
            TraceKind::Thaw => "thaw",
            TraceKind::Action => "action",
            TraceKind::Detail => "detail",
            TraceKind::Warning => "warning",
            TraceKind::Error => "error",
        };
        json!({"kind": kind, "depth": entry.depth, "text": entry.text})
    });
    let mut shown = json!({
        "recirc-id": step.recirculation,
        "flow": packet_text(&step.flow, tlv, names),
        "trace": entries.collect::<Vec<_>>(),
    });
    let error = match &step.result {
        Ok(translation) => {
            let actions = ActionsText { actions: &translation.actions, names: port_names };
            shown["final-flow"] = packet_text(&translation.flow, tlv, names).into();
            shown["megaflow"] = megaflow_text(&step.flow, &translation.read, tlv, names).into();
            shown["datapath-actions"] = actions.to_string().into();
            shown["slow-path"] = slow_path_reasons(translation.slow).collect();
            translation.error
        }
        Err(error) => Some(*error),
    };
    shown["error"] = error.map(|error| error.reason()).into();
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_from_hexadecimal() {
        assert_eq!(parse_hex("00 ffA1\n"), Some(vec![0, 0xff, 0xa1]));
        assert_eq!(parse_hex("0"), None);
        assert_eq!(parse_hex("in_port=1"), None);
    }

    #[test]
    fn arguments_are_checked() {
        let parse = |text: &str| {
            let arguments: Vec<_> = text.split(' ').map(str::to_owned).collect();
            Arguments::parse(&arguments, false).map(|parsed| parsed.words)
        };
        assert_eq!(parse("br0 -generate ip"), Ok(vec!["br0".to_owned(), "ip".to_owned()]));
        for (text, error) in [
            ("a b c d", "too many arguments"),
            ("-foo a", "-foo: unknown option"),
            ("-consistent a", "-consistent: unknown option"),
            ("a --l7", "Missing argument for option --l7"),
            ("a --l7 zz", "Trailing garbage in packet data"),
            ("a --l7-len 64001", "64001: too much L7 data"),
            ("a --ct-next foo", "foo: unknown connection tracking state flag"),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()));
        }
    }
}
