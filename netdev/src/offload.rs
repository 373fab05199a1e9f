//! Work on sent frames that a port can take over from the switch.

use std::collections::BTreeMap;

use bitflags::bitflags;

bitflags! {
    /// What a port does to the frames that it sends.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TransmitOffloads: u16 {
        /// Fills in the IPv4 header checksum.
        const IP_CHECKSUM = 1 << 0;
        /// Fills in TCP checksums.
        const TCP_CHECKSUM = 1 << 1;
        /// Fills in UDP checksums.
        const UDP_CHECKSUM = 1 << 2;
        /// Fills in SCTP checksums.
        const SCTP_CHECKSUM = 1 << 3;
        /// Cuts large TCP segments.
        const TCP_SEGMENTATION = 1 << 4;
        /// Cuts large TCP segments inside VXLAN.
        const VXLAN_SEGMENTATION = 1 << 5;
        /// Cuts large TCP segments inside GRE.
        const GRE_SEGMENTATION = 1 << 6;
        /// Cuts large TCP segments inside Geneve.
        const GENEVE_SEGMENTATION = 1 << 7;
        /// Fills in the IPv4 header checksum of a tunnel's outer header.
        const OUTER_IP_CHECKSUM = 1 << 8;
        /// Fills in the UDP checksum of a tunnel's outer header.
        const OUTER_UDP_CHECKSUM = 1 << 9;
        /// Cuts large UDP packets into datagrams.
        const UDP_SEGMENTATION = 1 << 10;
    }
}

impl TransmitOffloads {
    /// The keys `tx_*_offload` of column `status` of table `Interface`.
    pub fn status(self) -> BTreeMap<String, String> {
        [
            ("tx_ip_csum_offload", Self::IP_CHECKSUM),
            ("tx_tcp_csum_offload", Self::TCP_CHECKSUM),
            ("tx_udp_csum_offload", Self::UDP_CHECKSUM),
            ("tx_sctp_csum_offload", Self::SCTP_CHECKSUM),
            ("tx_tcp_seg_offload", Self::TCP_SEGMENTATION),
            ("tx_vxlan_tso_offload", Self::VXLAN_SEGMENTATION),
            ("tx_gre_tso_offload", Self::GRE_SEGMENTATION),
            ("tx_geneve_tso_offload", Self::GENEVE_SEGMENTATION),
            ("tx_out_ip_csum_offload", Self::OUTER_IP_CHECKSUM),
            ("tx_out_udp_csum_offload", Self::OUTER_UDP_CHECKSUM),
        ]
        .map(|(key, offload)| (key.to_owned(), self.contains(offload).to_string()))
        .into()
    }
}
