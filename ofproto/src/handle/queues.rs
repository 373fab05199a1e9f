//! Messages about queues.

use super::Reply;
use super::ports::ports_of;
use crate::openflow::error::OfError;
use crate::openflow::kind::{Kind, Raw, Replies};
use crate::openflow::message::{
    QUEUE_ALL, QueueConfig, QueueConfigRequest, QueueStats, QueueStatsRequest,
};
use crate::openflow::port::PortNo;
use crate::openflow::version::Version;
use crate::switch::Switch;

pub(super) fn queue_config(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    let QueueConfigRequest { port, queue } = QueueConfigRequest::decode(raw)?;
    let configs: Vec<QueueConfig> = queues_of(switch, port, queue)?
        .into_iter()
        .map(|(port, queue)| QueueConfig { port, queue, min_rate: None, max_rate: None })
        .collect();
    if raw.kind != Kind::QueueDescStatsRequest14 {
        let reply = QueueConfig::encode(&configs, port, version, raw.header.xid);
        return Ok(Reply::Messages(vec![reply]));
    }
    let mut replies = Replies::new(Kind::QueueDescStatsReply14, version, raw.header.xid);
    for config in configs {
        config.append(&mut replies, version);
    }
    Ok(Reply::Messages(replies.finish()))
}

pub(super) fn queue_stats(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    let QueueStatsRequest { port, queue } = QueueStatsRequest::decode(raw)?;
    let mut replies = Replies::new(QueueStats::reply_kind(version), version, raw.header.xid);
    for (port, queue) in queues_of(switch, port, queue)? {
        // No port type counts what leaves by each queue.
        let stats = QueueStats {
            port,
            queue,
            tx_bytes: u64::MAX,
            tx_packets: u64::MAX,
            tx_errors: u64::MAX,
            duration_sec: u32::MAX,
            duration_nsec: u32::MAX,
        };
        stats.append(&mut replies, version);
    }
    Ok(Reply::Messages(replies.finish()))
}

/// The queues that a request names: of one port or of all, one queue or all. One queue must be
/// there at one port at least.
fn queues_of(switch: &Switch, port: PortNo, queue: u32) -> Result<Vec<(PortNo, u32)>, OfError> {
    let ports = ports_of(switch, port);
    if ports.is_empty() {
        return Err(match port {
            PortNo::NONE => OfError::QueueOpBadQueue,
            _ => OfError::QueueOpBadPort,
        });
    }
    let mut queues = Vec::new();
    for (number, port) in ports {
        let own = port.port.scheduling_queues().iter().copied();
        let wanted = own.filter(|own| queue == QUEUE_ALL || *own == queue);
        queues.extend(wanted.map(|queue| (PortNo(number.0), queue)));
    }
    match queue != QUEUE_ALL && queues.is_empty() {
        true => Err(OfError::QueueOpBadQueue),
        false => Ok(queues),
    }
}
