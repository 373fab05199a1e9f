//! What a switch tells of itself and its ports.

use std::time::Duration;

use netdev::features::{Features, LinkSpeed};
use tracing::warn;

use super::{Switch, SwitchPort};
use crate::openflow::action::DecodeContext;
use crate::openflow::message::{
    FragmentHandling, PhyPort, PortFeatures, PortStats, SwitchDesc, config, state,
};
use crate::openflow::port::PortNo;
use crate::openflow::version::Version;
use crate::port::PortNumber;

/// Texts by which a switch is known (`Bridge.other_config`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Serial number (`dp-sn`).
    pub serial_number: Option<String>,
    /// What the bridge is (`dp-desc`).
    pub datapath: Option<String>,
}

/// The version of Open vSwitch whose behaviour the switch has, as controllers are told.
const SOFTWARE: &str = "4.0.90";

impl Switch {
    /// What decoding messages of controllers depends on beside their bytes.
    pub fn decode_context(&self, version: Version) -> DecodeContext<'_> {
        DecodeContext { version, tlv: Some(&self.tlv), debug_actions: self.debug_actions }
    }

    /// Sets whether controllers may use the actions that are for tests of the switch.
    pub fn set_debug_actions(&mut self, allowed: bool) {
        self.debug_actions = allowed;
    }

    /// What the switch does with fragments of IP packets.
    pub fn fragments(&self) -> FragmentHandling {
        self.fragments
    }

    /// Changes what the switch does with fragments of IP packets.
    pub(crate) fn set_fragments(&mut self, fragments: FragmentHandling) {
        if fragments == FragmentHandling::Reassemble {
            warn!(
                target: "ofproto", limited = true,
                "{}: unsupported fragment handling mode reassemble", self.name
            );
            return;
        }
        self.snapshot_is_stale |= self.fragments != fragments;
        self.fragments = fragments;
    }

    /// Changes the texts by which controllers know the switch.
    pub fn set_identity(&mut self, identity: Identity) {
        self.identity = identity;
    }

    /// The texts by which controllers know the switch.
    pub(crate) fn description(&self) -> SwitchDesc {
        let text = |text: &Option<String>| text.as_deref().unwrap_or("None").as_bytes().to_vec();
        SwitchDesc {
            mfr_desc: b"Nicira, Inc.".to_vec(),
            hw_desc: b"Open vSwitch".to_vec(),
            sw_desc: SOFTWARE.as_bytes().to_vec(),
            serial_num: text(&self.identity.serial_number),
            dp_desc: text(&self.identity.datapath),
        }
    }
}

impl SwitchPort {
    /// What controllers are told of the port.
    pub(super) fn describe(&self, number: PortNumber) -> PhyPort {
        let is_up = self.port.admin_up().unwrap_or(false);
        let carrier = self.port.carrier();
        let features = self.port.features().unwrap_or_default();
        let speed = self.port.speed().unwrap_or(LinkSpeed {
            current: features.current.max_mbps(),
            max: features.supported.max_mbps(),
        });
        let link = if carrier { 0 } else { state::LINK_DOWN };
        let live = if carrier && is_up { state::LIVE } else { 0 };
        let wire = |features: Features| PortFeatures(features.bits());
        PhyPort {
            port_no: PortNo(number.0),
            hw_addr: self.port.ethernet_address().map_or([0; 6], |address| address.0),
            name: self.port.name().as_bytes().to_vec(),
            config: self.config | if is_up { 0 } else { config::PORT_DOWN },
            state: link | live,
            curr: wire(features.current),
            advertised: wire(features.advertised),
            supported: wire(features.supported),
            peer: wire(features.peer),
            curr_speed: speed.current.saturating_mul(1000),
            max_speed: speed.max.saturating_mul(1000),
        }
    }

    /// What controllers were last told of the port.
    pub fn described(&self) -> &PhyPort {
        &self.described
    }

    /// What the port counted; `now` is the time of the switch's clock.
    pub(crate) fn counters(&self, number: PortNumber, now: Duration) -> PortStats {
        let age = now.saturating_sub(self.created);
        let mut stats = PortStats {
            duration_sec: age.as_secs() as u32,
            // As everywhere, times of the switch are whole milliseconds.
            duration_nsec: age.subsec_millis() * 1_000_000,
            ..PortStats::unknown(PortNo(number.0))
        };
        let Ok(counters) = self.port.statistics() else { return stats };
        let known = |count: Option<u64>| count.unwrap_or(u64::MAX);
        stats.basic = [
            counters.rx_packets,
            counters.tx_packets,
            counters.rx_bytes,
            counters.tx_bytes,
            counters.rx_dropped,
            counters.tx_dropped,
            counters.rx_errors,
            counters.tx_errors,
        ]
        .map(known);
        stats.ethernet = [
            counters.rx_frame_errors,
            counters.rx_over_errors,
            counters.rx_crc_errors,
            counters.collisions,
        ]
        .map(known);
        let custom = counters.custom.into_iter();
        stats.custom = custom.map(|(name, count)| (name.into_bytes(), count)).collect();
        stats
    }
}
