//! Messages about ports.

use netdev::clock;

use super::Reply;
use crate::openflow::error::OfError;
use crate::openflow::kind::{Raw, Replies};
use crate::openflow::message::{PhyPort, PortMod, PortStats, decode_port_request};
use crate::openflow::port::PortNo;
use crate::openflow::version::Version;
use crate::port::PortNumber;
use crate::switch::{Switch, SwitchPort};

/// The port with the number that a request names, or all.
pub(super) fn ports_of(switch: &Switch, port: PortNo) -> Vec<(PortNumber, &SwitchPort)> {
    match port {
        PortNo::NONE => switch.ports().collect(),
        PortNo(number) => {
            let number = PortNumber(number);
            switch.port(number).map(|port| (number, port)).into_iter().collect()
        }
    }
}

pub(super) fn port_mod(switch: &mut Switch, raw: &Raw<'_>) -> Result<Reply, OfError> {
    switch.modify_port(&PortMod::decode(raw)?)?;
    Ok(Reply::none())
}

pub(super) fn port_stats(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    let now = clock::now();
    let mut replies = Replies::new(PortStats::reply_kind(version), version, raw.header.xid);
    for (number, port) in ports_of(switch, decode_port_request(raw)?) {
        port.counters(number, now).append(&mut replies, version);
    }
    Ok(Reply::Messages(replies.finish()))
}

pub(super) fn port_desc(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    let mut replies = Replies::new(PhyPort::stats_reply_kind(version), version, raw.header.xid);
    for (_, port) in ports_of(switch, decode_port_request(raw)?) {
        replies.push(&port.described().stats_part(version));
    }
    Ok(Reply::Messages(replies.finish()))
}
