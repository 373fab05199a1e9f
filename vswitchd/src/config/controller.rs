//! `Controller` rows, and TLS for them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ofproto::connection::{ControllerSettings, ControllerType};
use ofproto::openflow::version::{Version, VersionSet};
use stream::tls::{CaCertificate, Protocols, TlsSettings};

use super::model::ControllerConfig;
use crate::ovsdb::client::{Cache, Row};

/// Packets that wait for a controller unless something else is set, and what may be set.
const PACKET_QUEUE: usize = 100;
const PACKET_QUEUES: std::ops::RangeInclusive<usize> = 1..=512;

/// The versions that `Bridge.protocols` names; all when it names none.
pub(super) fn versions(bridge: Row<'_>) -> VersionSet {
    let named: VersionSet =
        bridge.strings("protocols").filter_map(Version::from_protocol_name).collect();
    if named.is_empty() { Version::ALL.into_iter().collect() } else { named }
}

/// Packets that wait for controllers of a bridge.
pub(super) fn packet_queue(bridge: Row<'_>) -> usize {
    let text = bridge.map("other_config").get("controller-queue-size");
    let size = text.and_then(|text| text.parse().ok());
    size.filter(|size| PACKET_QUEUES.contains(size)).unwrap_or(PACKET_QUEUE)
}

/// How long bundles may be unused, in all bridges; zero for the default.
pub(super) fn bundle_timeout(cache: &Cache) -> Duration {
    let root = cache.singleton("Open_vSwitch");
    let text = root.and_then(|root| root.map("other_config").get("bundle-idle-timeout"));
    Duration::from_secs(text.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0).into())
}

/// The controllers of a bridge.
pub(super) fn parse(cache: &Cache, bridge: Row<'_>) -> Vec<ControllerConfig> {
    let rows: Vec<_> = cache.references(bridge, "controller").collect();
    if let [row] = rows.as_slice()
        && row.string("target") == "none"
    {
        return vec![];
    }
    rows.into_iter().map(|row| parse_controller(bridge, row)).collect()
}

fn parse_controller(bridge: Row<'_>, row: Row<'_>) -> ControllerConfig {
    let target = row.string("target");
    let number = |column| row.optional_integer(column);
    let unsigned = |column| number(column).and_then(|value| u32::try_from(value).ok()).unwrap_or(0);
    let milliseconds = |column| number(column).and_then(|value| u64::try_from(value).ok());
    let in_band_disabled = bridge.map("other_config").get("disable-in-band") == Some("true");
    let settings = ControllerSettings {
        controller_type: match row.optional_string("type") {
            Some("primary") => ControllerType::Primary,
            Some(_) => ControllerType::Service,
            None if target.starts_with('p') => ControllerType::Service,
            None => ControllerType::Primary,
        },
        max_backoff: Duration::from_secs(
            milliseconds("max_backoff").map_or(8, |value| value / 1000),
        ),
        probe_interval: Duration::from_secs(match milliseconds("inactivity_probe") {
            None => 5,
            Some(0) => 0,
            Some(value) => (value / 1000).max(1),
        }),
        in_band: row.optional_string("connection_mode") != Some("out-of-band") && !in_band_disabled,
        unasked_messages: row.optional_boolean("enable_async_messages") != Some(false),
        allowed: versions(bridge),
        packet_queue: number("controller_queue_size")
            .and_then(|size| usize::try_from(size).ok())
            .unwrap_or_else(|| packet_queue(bridge)),
        rate_limit: unsigned("controller_rate_limit"),
        burst_limit: unsigned("controller_burst_limit"),
    };
    ControllerConfig { uuid: row.uuid(), target: target.to_owned(), settings }
}

/// What the row of table `SSL` says. Relative file names are relative to `directory`.
pub(super) fn tls(cache: &Cache, root: Row<'_>, directory: &Path) -> Option<TlsSettings> {
    let row = cache.references(root, "ssl").next()?;
    let file = |column| -> Option<PathBuf> {
        Some(row.string(column)).filter(|file| !file.is_empty()).map(|file| directory.join(file))
    };
    let ca_certificate = file("ca_cert")?;
    Some(TlsSettings {
        private_key: file("private_key")?,
        certificate: file("certificate")?,
        ca_certificate: match row.boolean("bootstrap_ca_cert") {
            true => CaCertificate::Bootstrap(ca_certificate),
            false => CaCertificate::File(ca_certificate),
        },
        peer_ca_certificate: None,
        protocols: Protocols::default(),
        server_name: None,
    })
}
