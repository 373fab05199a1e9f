//! OpenFlow messages and the text forms of flows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dpif::action::ActionsText;
use dpif::flow::{FlowText, MAX_VLANS};
use ofproto::connection::Session;
use ofproto::openflow::action::DecodeContext;
use ofproto::openflow::error::OfError;
use ofproto::openflow::kind::{Kind, Raw};
use ofproto::openflow::message::{FlowFormat, FlowMod, PacketOut};
use ofproto::openflow::port::PortNo;
use ofproto::openflow::text::{self, NoNames};
use ofproto::openflow::version::{Version, VersionSet};

/// Bytes of the header of a message.
const HEADER: usize = 8;

/// A message of `version` with these bytes behind the first: its type, its length, and so on. The
/// length is made right, since nothing would look further otherwise.
fn message(version: Version, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![version as u8];
    message.extend(bytes.iter().take(usize::from(u16::MAX) - 1));
    message.resize(message.len().max(HEADER), 0);
    let [high, low] = (message.len() as u16).to_be_bytes();
    (message[2], message[3]) = (high, low);
    message
}

/// A message of any kind is printed or refused, and what was understood and written again says
/// the same. An old action with a value out of range, which only the newer form that it is written
/// in refuses, is not understood again.
fn any_message(version: Version, bytes: &[u8]) {
    let message = message(version, bytes);
    let mut printed = String::new();
    text::print_message(&mut printed, &message, &NoNames);
    assert!(printed.ends_with('\n'), "{printed:?}");
    let context = DecodeContext { version, tlv: None, debug_actions: true };
    let Ok(raw) = Raw::parse(&message) else { return };
    match raw.kind {
        Kind::FlowMod10 | Kind::FlowMod11 | Kind::NxFlowMod => flow_mod(&raw, &context),
        Kind::PacketOut10 | Kind::PacketOut11 | Kind::PacketOut15 => {
            if let Ok(packet_out) = PacketOut::decode(&raw, &context) {
                let written = packet_out.encode(version, raw.header.xid);
                let again = Raw::parse(&written).expect("our own message");
                if let Ok(again) = PacketOut::decode(&again, &context) {
                    assert_eq!(again, packet_out);
                }
            }
        }
        _ => {}
    }
}

fn flow_mod(raw: &Raw<'_>, context: &DecodeContext<'_>) {
    let nxm = raw.kind == Kind::NxFlowMod;
    let format = FlowFormat { nxm, table_id: false };
    let decode = |raw: &Raw<'_>| -> Result<FlowMod, OfError> {
        FlowMod::decode(raw, context, format, PortNo::MAX, 254)
    };
    if let Ok(flow_mod) = decode(raw) {
        let written = flow_mod.encode(context.version, raw.header.xid, format);
        // What grew too long for a message by being written in another form is the exception.
        let Ok(again) = Raw::parse(&written) else { return };
        let Ok(again) = decode(&again) else { return };
        // A match that says nothing can be written in many ways, so the second text counts.
        assert_eq!(again.encode(context.version, raw.header.xid, format), written);
        assert_eq!((again.command, again.actions), (flow_mod.command, flow_mod.actions));
    }
}

macro_rules! versions {
    ($($name:ident $version:ident;)*) => {
        $(
            /// Messages of one version.
            pub fn $name(bytes: &[u8]) {
                any_message(Version::$version, bytes);
            }
        )*
    };
}

versions! {
    openflow_10 V10;
    openflow_11 V11;
    openflow_12 V12;
    openflow_13 V13;
    openflow_14 V14;
    openflow_15 V15;
}

/// A stream from a peer: what comes back does not depend on how it was cut.
pub fn openflow_stream(bytes: &[u8]) {
    let all: VersionSet =
        [Version::V10, Version::V11, Version::V12, Version::V13, Version::V14, Version::V15]
            .into_iter()
            .collect();
    let answers = |size| {
        let (mut session, mut messages) = (Session::new("peer", all), Vec::new());
        let end = bytes.chunks(size).find_map(|piece| session.receive(piece, &mut messages).err());
        (session.take_output(), messages, end)
    };
    assert_eq!(answers(1), answers(bytes.len().max(1)));
}

/// Matches and actions as `ovs-ofctl` writes them: understood or refused with a message; what was
/// understood is understood again from its own text.
pub fn openflow_text(bytes: &[u8]) {
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    match text::parse_match(line, &NoNames) {
        Ok(flow_match) => {
            let mut printed = String::new();
            text::print_match(&mut printed, &flow_match, text::DEFAULT_PRIORITY, &NoNames);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match text::parse_actions(line, &NoNames) {
        Ok(actions) => {
            let mut printed = String::new();
            text::print_actions(&mut printed, &actions, &NoNames);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Flows and actions of the datapath: what was understood is understood again from its own text,
/// and is the same.
pub fn datapath_text(bytes: &[u8]) {
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    if let Ok(flow) = dpif::flow::parse_flow(line, None, MAX_VLANS) {
        let written = FlowText {
            key: &flow.key,
            mask: Some(&flow.mask),
            verbose: true,
            names: None,
            vlan_limit: MAX_VLANS,
        };
        let mut printed = String::new();
        write!(printed, "{written}").expect("text");
    }
    if let Ok(actions) = dpif::action::parse_actions(line, None) {
        let written = ActionsText { actions: &actions, names: None }.to_string();
        let again = dpif::action::parse_actions(&written, None).expect("our own text");
        let rewritten = ActionsText { actions: &again, names: None }.to_string();
        assert_eq!(rewritten, written);
    }
    let names: BTreeMap<u32, String> = BTreeMap::from([(1, "p1".to_owned())]);
    let names = names.into_iter().collect();
    // With names of ports, which are read in other places.
    let _ = dpif::flow::parse_key(line, Some(&names), MAX_VLANS);
}
