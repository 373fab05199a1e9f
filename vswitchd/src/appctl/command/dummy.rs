//! `netdev-dummy/*`: what dummy ports are made to do.

use dpif::datapath::PortNumber;
use dpif::flow::{MAX_VLANS, compose, parse_key};
use netdev::dummy::Dummy;
use netdev::network::{BadNetwork, Network};
use serde_json::{Map, Value};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;

/// Bytes of the shortest frame.
const MIN_FRAME: usize = 60;

pub(super) const COMMANDS: &[Command] = &[
    command(
        "netdev-dummy/receive",
        "name [--qid queue_id] packet|flow [--len packet_len]",
        (2, usize::MAX),
        Handler::Now(receive),
    ),
    command(
        "netdev-dummy/set-admin-state",
        "[netdev] up|down",
        (1, 2),
        Handler::Now(set_admin_state),
    ),
    command("netdev-dummy/conn-state", "[netdev]", (0, 1), Handler::Now(connection_state)),
    command(
        "netdev-dummy/ip4addr",
        "[netdev] ipaddr/mask-prefix-len",
        (2, 2),
        Handler::Now(|daemon, call| add_address(daemon, call, Network::parse_ipv4)),
    ),
    command(
        "netdev-dummy/ip6addr",
        "[netdev] ip6addr",
        (2, 2),
        Handler::Now(|daemon, call| add_address(daemon, call, Network::parse_ipv6)),
    ),
    command(
        "dpif-dummy/change-port-number",
        "dp port new-number",
        (3, 3),
        Handler::Now(change_port_number),
    ),
];

/// Bytes in hexadecimal, with blanks between them or without.
pub(super) fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let mut rest = text.trim_start();
    let mut bytes = vec![];
    while !rest.is_empty() {
        let (digits, behind) = rest.split_at_checked(2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind.trim_start();
    }
    Some(bytes)
}

/// A frame that has the key of the datapath flow `text`.
pub(super) fn frame_of_flow(text: &str, length: Option<usize>) -> Result<Vec<u8>, String> {
    let (key, _) = parse_key(text, None, MAX_VLANS).map_err(|error| error.to_string())?;
    compose(&key, length).map_err(|error| error.to_string())
}

fn receive(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (name, mut rest) = call.arguments.split_first().ok_or("no such dummy netdev")?;
    let dummy = daemon.bridges.registry().dummies().get(name).ok_or("no such dummy netdev")?;
    let mut queue = 0;
    if let [option, number, behind @ ..] = rest
        && option == "--qid"
    {
        let known = number.parse().ok().filter(|queue| *queue < dummy.receive_queues());
        queue = known.ok_or("bad rx queue id.")?;
        rest = behind;
    }
    let mut frames = vec![];
    while let [text, behind @ ..] = rest {
        rest = behind;
        if let Some(frame) = parse_hex(text) {
            frames.push(frame);
            continue;
        }
        let mut length = None;
        if let [option, number, behind @ ..] = rest
            && option == "--len"
        {
            let known = number.parse().ok().filter(|length| *length >= MIN_FRAME);
            length = Some(known.ok_or("too small packet len")?);
            rest = behind;
        }
        frames.push(frame_of_flow(text, length)?);
    }
    let count = frames.len();
    frames.into_iter().for_each(|frame| dummy.inject(queue, frame));
    // Where they went shows before the answer does, however many they are.
    let _ = (0..count).any(|_| !daemon.bridges.poll());
    Ok(Output::none())
}

fn set_admin_state(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (name, state) = match call.arguments.as_slice() {
        [state] => (None, state),
        [name, state, ..] => (Some(name), state),
        [] => return Err("Invalid Admin State".to_owned()),
    };
    let up = match state.to_ascii_lowercase().as_str() {
        "up" => true,
        "down" => false,
        _ => return Err("Invalid Admin State".to_owned()),
    };
    let dummies = daemon.bridges.registry().dummies();
    let chosen = match name {
        Some(name) => vec![dummies.get(name).ok_or("Unknown Dummy Interface")?],
        None => dummies.all(),
    };
    chosen.iter().for_each(|dummy| dummy.set_admin_up(up));
    Ok(Output::Text("OK".to_owned()))
}

fn add_address(
    daemon: &mut Daemon,
    call: &Call,
    parse: fn(&str) -> Result<Network, BadNetwork>,
) -> Outcome {
    let argument = |index| call.argument(index).unwrap_or_default();
    let dummies = daemon.bridges.registry().dummies();
    let dummy = dummies.get(argument(0)).ok_or("Unknown Dummy Interface")?;
    let address = parse(argument(1)).map_err(|error| error.to_string())?;
    dummy.add_ip_address(address);
    daemon.bridges.add_dummy_address(argument(0), address);
    Ok(Output::Text("OK".to_owned()))
}

fn change_port_number(daemon: &mut Daemon, call: &Call) -> Outcome {
    let argument = |index| call.argument(index).unwrap_or_default();
    let number = argument(2).parse().ok().map(PortNumber);
    let is_good = |number: &PortNumber| *number > PortNumber::LOCAL && *number < PortNumber::NONE;
    let number = number.filter(is_good).ok_or("bad port number")?;
    daemon.bridges.renumber_port(argument(0), argument(1), number)?;
    Ok(Output::none())
}

/// State of the stream of a dummy port: `unknown` when it has none.
fn state_of(dummy: Option<&Dummy>) -> &'static str {
    match dummy.and_then(Dummy::is_connected) {
        Some(true) => "connected",
        Some(false) => "disconnected",
        None => "unknown",
    }
}

fn connection_state(daemon: &mut Daemon, call: &Call) -> Outcome {
    let dummies = daemon.bridges.registry().dummies();
    let states: Vec<(String, &str)> = match call.argument(0) {
        Some(name) => vec![(name.to_owned(), state_of(dummies.get(name).as_deref()))],
        None => {
            let all = dummies.all();
            let streaming = all.iter().filter(|dummy| dummy.is_connected().is_some());
            streaming.map(|dummy| (dummy.name().to_owned(), state_of(Some(dummy)))).collect()
        }
    };
    Ok(match call.format {
        Format::Text => {
            Output::Text(states.iter().map(|(name, state)| format!("{name}: {state}\n")).collect())
        }
        Format::Json => {
            let states = states.into_iter().map(|(name, state)| (name, state.into()));
            Output::Json(Value::Object(states.collect::<Map<_, _>>()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_hexadecimal() {
        assert_eq!(parse_hex("0102ff"), Some(vec![1, 2, 255]));
        assert_eq!(parse_hex(" 01 02\tFF\n"), Some(vec![1, 2, 255]));
        for bad in ["0", "012", "+1", "in_port(1)", "0\u{e9}"] {
            assert_eq!(parse_hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn frames_of_flows_have_the_wanted_length() {
        let flow = "in_port(1),eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x1234)";
        assert_eq!(frame_of_flow(flow, None).map(|frame| frame.len()), Ok(14));
        assert_eq!(frame_of_flow(flow, Some(100)).map(|frame| frame.len()), Ok(100));
        assert_eq!(
            frame_of_flow("in_port(1),bad(2)", None),
            Err("syntax error at bad(2)".to_owned())
        );
    }
}
