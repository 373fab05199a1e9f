//! Options of dummy ports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::address::Address;
use crate::headers::{Headers, IpVersion};
use crate::offload::TransmitOffloads;
use crate::packet::{Checksum, Layer, PacketMut, PacketRef, Segmentation};
use crate::port::PortError;
use crate::wire::ip_protocol;

/// Most receive or transmit queues of a `dummy-pmd` port.
const MAX_QUEUES: u32 = 1024;

/// Offload switches; each is `true` or absent in [`Options::offload`].
const OFFLOAD_KEYS: [&str; 14] = [
    "ol_ip_rx_csum_set_good",
    "ol_ip_rx_csum_set_bad",
    "ol_ip_rx_csum_set_partial",
    "ol_ip_tx_csum",
    "ol_ip_tx_csum_disabled",
    "ol_l4_rx_csum_set_good",
    "ol_l4_rx_csum_set_bad",
    "ol_l4_rx_csum_set_partial",
    "ol_l4_tx_csum",
    "ol_l4_tx_csum_disabled",
    "ol_out_ip_tx_csum",
    "ol_out_ip_tx_csum_disabled",
    "ol_out_udp_tx_csum",
    "ol_out_udp_tx_csum_disabled",
];

/// Switches that announce an offload of sent packets, those that then omit it, and the offload.
const TRANSMIT_OFFLOADS: [(&str, &str, TransmitOffloads); 4] = [
    ("ol_ip_tx_csum", "ol_ip_tx_csum_disabled", TransmitOffloads::IP_CHECKSUM),
    (
        "ol_l4_tx_csum",
        "ol_l4_tx_csum_disabled",
        TransmitOffloads::TCP_CHECKSUM.union(TransmitOffloads::UDP_CHECKSUM),
    ),
    ("ol_out_ip_tx_csum", "ol_out_ip_tx_csum_disabled", TransmitOffloads::OUTER_IP_CHECKSUM),
    ("ol_out_udp_tx_csum", "ol_out_udp_tx_csum_disabled", TransmitOffloads::OUTER_UDP_CHECKSUM),
];

/// Queues of a `dummy-pmd` port and the NUMA node that it claims to be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queues {
    pub(super) receive: u32,
    pub(super) transmit: u32,
    pub(super) numa_node: u32,
}

impl Default for Queues {
    fn default() -> Self {
        Self { receive: 1, transmit: 1, numa_node: 0 }
    }
}

/// Where a dummy port's frames go to and come from, if not only from commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// Connects to another dummy (option `stream`).
    Active(Address),
    /// Waits for other dummies (option `pstream`).
    Passive(Address),
}

/// Parsed options of a dummy port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) ifindex: Option<u32>,
    pub(super) connection: Option<Connection>,
    /// File that records received frames.
    pub(super) receive_pcap: Option<PathBuf>,
    /// File that records sent frames.
    pub(super) transmit_pcap: Option<PathBuf>,
    pub(super) queues: Queues,
    pub(super) offload: BTreeSet<&'static str>,
    /// Payload of the segments into which received TCP packets claim to be meant to be cut; 0 is
    /// no such claim.
    pub(super) segment_size: u16,
}

impl Options {
    /// Parses the options of port `port`; relative paths of sockets start from `directory`. Queues
    /// and NUMA node are `dummy-pmd`'s alone.
    pub(super) fn parse(
        port: &str,
        is_pmd: bool,
        options: &BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Self, PortError> {
        let ifindex = u32::try_from(integer(port, options, "ifindex", -1)?).ok();
        let queues = if is_pmd { parse_queues(port, options)? } else { Queues::default() };
        let offload = OFFLOAD_KEYS
            .into_iter()
            .filter(|key| options.get(*key).is_some_and(|value| value.eq_ignore_ascii_case("true")))
            .collect::<BTreeSet<_>>();
        // Switching an offload off says nothing while it is not announced.
        let offload = offload
            .iter()
            .copied()
            .filter(|key| {
                key.strip_suffix("_disabled").is_none_or(|announced| offload.contains(announced))
            })
            .collect();
        let path = |key| options.get("pcap").or_else(|| options.get(key)).map(PathBuf::from);
        Ok(Self {
            ifindex,
            connection: parse_connection(port, options, directory)?,
            receive_pcap: path("rxq_pcap"),
            transmit_pcap: path("tx_pcap"),
            queues,
            offload,
            segment_size: u16::try_from(integer(port, options, "ol_tso_segsz", 0)?).unwrap_or(0),
        })
    }

    /// The options as `dpif/show` lists them, which are not all.
    pub(super) fn show(&self, is_pmd: bool) -> BTreeMap<String, String> {
        let mut shown = BTreeMap::new();
        if let Some(ifindex) = self.ifindex {
            shown.insert("ifindex".to_owned(), ifindex.to_string());
        }
        match &self.connection {
            Some(Connection::Active(address)) => {
                shown.insert("stream".to_owned(), address.to_string());
            }
            Some(Connection::Passive(address)) => {
                shown.insert("pstream".to_owned(), address.to_string());
            }
            None => {}
        }
        shown.extend(self.offload.iter().map(|key| ((*key).to_owned(), "true".to_owned())));
        if self.segment_size > 0 {
            shown.insert("ol_tso_segsz".to_owned(), self.segment_size.to_string());
        }
        if is_pmd {
            shown.insert("n_rxq".to_owned(), self.queues.receive.to_string());
            shown.insert("n_txq".to_owned(), self.queues.transmit.to_string());
            shown.insert("numa_id".to_owned(), self.queues.numa_node.to_string());
        }
        shown
    }

    /// Claims about a received packet what the options say.
    pub(super) fn mark_received(&self, packet: &mut PacketMut<'_>) {
        let segmentation = self.claimed_segmentation(packet.view());
        let descriptor = packet.descriptor_mut();
        for (layer, good, bad, partial) in [
            (
                Layer::Ip,
                "ol_ip_rx_csum_set_good",
                "ol_ip_rx_csum_set_bad",
                "ol_ip_rx_csum_set_partial",
            ),
            (
                Layer::Transport,
                "ol_l4_rx_csum_set_good",
                "ol_l4_rx_csum_set_bad",
                "ol_l4_rx_csum_set_partial",
            ),
        ] {
            let claims =
                [(good, Checksum::Good), (bad, Checksum::Bad), (partial, Checksum::Partial)];
            let claim = claims.into_iter().find(|(key, _)| self.offload.contains(key));
            descriptor.set_checksum(layer, claim.map_or(Checksum::Unknown, |(_, state)| state));
        }
        if segmentation != Segmentation::None {
            (descriptor.segmentation, descriptor.segment_size) = (segmentation, self.segment_size);
        }
    }

    fn claimed_segmentation(&self, packet: PacketRef<'_>) -> Segmentation {
        if self.segment_size == 0 {
            return Segmentation::None;
        }
        match Headers::outer(packet) {
            Some(Headers { version, transport: Some(transport), .. })
                if transport.protocol == ip_protocol::TCP =>
            {
                match version {
                    IpVersion::V4 => Segmentation::TcpIpv4,
                    IpVersion::V6 => Segmentation::TcpIpv6,
                }
            }
            _ => Segmentation::None,
        }
    }

    /// The offloads that the port announces.
    pub(super) fn transmit_offloads(&self) -> TransmitOffloads {
        let mut announced: TransmitOffloads = TRANSMIT_OFFLOADS
            .into_iter()
            .filter(|(key, _, _)| self.offload.contains(key))
            .map(|(_, _, offload)| offload)
            .collect();
        if self.segment_size > 0 {
            announced |= TransmitOffloads::TCP_SEGMENTATION | TransmitOffloads::TCP_CHECKSUM;
        }
        announced
    }

    /// The offloads that the port announces but does not do, so that tests can see what came to
    /// it.
    pub(super) fn omitted_offloads(&self) -> TransmitOffloads {
        let done = TRANSMIT_OFFLOADS
            .into_iter()
            .filter(|(key, disabled, _)| {
                self.offload.contains(key) && !self.offload.contains(disabled)
            })
            .map(|(_, _, offload)| offload)
            .collect();
        self.transmit_offloads().difference(done)
    }
}

fn parse_queues(port: &str, options: &BTreeMap<String, String>) -> Result<Queues, PortError> {
    let count = |key| -> Result<u32, PortError> {
        Ok(u32::try_from(integer(port, options, key, 1)?).unwrap_or(0).max(1))
    };
    let (receive, transmit) = (count("n_rxq")?, count("n_txq")?);
    if receive > MAX_QUEUES || transmit > MAX_QUEUES {
        tracing::warn!(
            target: "netdev_dummy",
            "The one or both of interface {port} queues(rxq: {receive}, txq: {transmit}) exceed \
             {MAX_QUEUES}. Sets it {MAX_QUEUES}."
        );
    }
    let numa_id = integer(port, options, "numa_id", 0)?;
    let numa_node = u32::try_from(numa_id).map_err(|_| PortError::Options {
        port: port.to_owned(),
        problem: format!("numa_id={numa_id} is not the number of a NUMA node (0 or more)"),
    })?;
    Ok(Queues { receive: receive.min(MAX_QUEUES), transmit: transmit.min(MAX_QUEUES), numa_node })
}

fn parse_connection(
    port: &str,
    options: &BTreeMap<String, String>,
    directory: &Path,
) -> Result<Option<Connection>, PortError> {
    let bad = |problem| PortError::Options { port: port.to_owned(), problem };
    match (options.get("stream"), options.get("pstream")) {
        (None, None) => Ok(None),
        (Some(stream), None) => match Address::parse_active(stream, directory) {
            Ok(address) => Ok(Some(Connection::Active(address))),
            Err(error) => Err(bad(format!("stream={stream}: {error}"))),
        },
        (None, Some(pstream)) => match Address::parse_passive(pstream, directory) {
            Ok(address) => Ok(Some(Connection::Passive(address))),
            Err(error) => Err(bad(format!("pstream={pstream}: {error}"))),
        },
        (Some(stream), Some(pstream)) => Err(bad(format!(
            "both pstream={pstream} and stream={stream} are configured (only one may be)"
        ))),
    }
}

fn integer(
    port: &str,
    options: &BTreeMap<String, String>,
    key: &str,
    default: i32,
) -> Result<i32, PortError> {
    let Some(value) = options.get(key) else {
        return Ok(default);
    };
    value.trim().parse().map_err(|_| PortError::Options {
        port: port.to_owned(),
        problem: format!("{key}={value} is not an integer"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(
        port: &str,
        is_pmd: bool,
        options: &BTreeMap<String, String>,
    ) -> Result<Options, PortError> {
        Options::parse(port, is_pmd, options, Path::new("/run"))
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn defaults_show_queues_of_pmd_ports_only() {
        let options = parse("p1", false, &map(&[("n_rxq", "many"), ("color", "red")]));
        assert_eq!(options, Ok(Options::default()));
        assert_eq!(Options::default().show(false), map(&[]));
        assert_eq!(
            Options::default().show(true),
            map(&[("n_rxq", "1"), ("n_txq", "1"), ("numa_id", "0")])
        );
        assert_eq!(Options::default().transmit_offloads(), TransmitOffloads::empty());
    }

    #[test]
    fn clamps_queue_counts() {
        let queues = |receive: &str, transmit: &str| {
            let options = map(&[("n_rxq", receive), ("n_txq", transmit), ("numa_id", "1")]);
            parse("p1", true, &options).unwrap().queues
        };
        assert_eq!(queues("0", "-3"), Queues { receive: 1, transmit: 1, numa_node: 1 });
        assert_eq!(queues("4", "2000"), Queues { receive: 4, transmit: 1024, numa_node: 1 });
    }

    #[test]
    fn shows_disabled_offloads_only_when_announced() {
        let options = parse(
            "p1",
            false,
            &map(&[
                ("ifindex", "1100"),
                ("ol_ip_tx_csum", "TRUE"),
                ("ol_ip_tx_csum_disabled", "true"),
                ("ol_l4_tx_csum", "yes"),
                ("ol_l4_tx_csum_disabled", "true"),
                ("ol_out_udp_tx_csum", "true"),
                ("ol_l4_rx_csum_set_bad", "true"),
            ]),
        )
        .unwrap();
        assert_eq!(
            options.show(false),
            map(&[
                ("ifindex", "1100"),
                ("ol_ip_tx_csum", "true"),
                ("ol_ip_tx_csum_disabled", "true"),
                ("ol_out_udp_tx_csum", "true"),
                ("ol_l4_rx_csum_set_bad", "true"),
            ])
        );
        assert_eq!(
            options.transmit_offloads(),
            TransmitOffloads::IP_CHECKSUM | TransmitOffloads::OUTER_UDP_CHECKSUM
        );
    }

    #[test]
    fn names_bad_values() {
        for (pair, problem) in [
            (("n_rxq", "two"), "p1: n_rxq=two is not an integer"),
            (("ifindex", "1.5"), "p1: ifindex=1.5 is not an integer"),
            (("numa_id", "-1"), "p1: numa_id=-1 is not the number of a NUMA node (0 or more)"),
            (("stream", "p0.sock"), "p1: stream=p0.sock: expected unix:PATH or tcp:HOST:PORT"),
            (("pstream", "unix:/x"), "p1: pstream=unix:/x: expected punix:PATH or ptcp:PORT[:IP]"),
        ] {
            let error = parse("p1", true, &map(&[pair])).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
        let both = map(&[("stream", "unix:/a"), ("pstream", "punix:/b")]);
        assert_eq!(
            parse("p1", false, &both).unwrap_err().to_string(),
            "p1: both pstream=punix:/b and stream=unix:/a are configured (only one may be)"
        );
    }

    #[test]
    fn one_capture_file_serves_both_ways() {
        let files = |pairs| {
            let options = parse("p1", false, &map(pairs)).unwrap();
            assert_eq!(options.show(false), map(&[]));
            (options.receive_pcap, options.transmit_pcap)
        };
        let path = |path| Some(PathBuf::from(path));
        assert_eq!(files(&[("pcap", "a"), ("tx_pcap", "b")]), (path("a"), path("a")));
        assert_eq!(files(&[("tx_pcap", "b")]), (None, path("b")));
        assert_eq!(files(&[("rxq_pcap", "c"), ("tx_pcap", "b")]), (path("c"), path("b")));
    }
}
