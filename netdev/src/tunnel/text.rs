//! The settings of a tunnel as options, where they are not those that it has anyway.

use std::collections::BTreeMap;
use std::fmt::{Display, LowerHex};
use std::net::IpAddr;

use super::config::{Inherited, OuterChecksum, PerFlow};
use super::{TunnelConfig, TunnelKind};

fn decimal<T: Display + Copy>(value: PerFlow<T>) -> String {
    value.fixed().map_or_else(|| "flow".to_owned(), |value| value.to_string())
}

fn hexadecimal<T: LowerHex + Copy>(value: PerFlow<T>) -> String {
    value.fixed().map_or_else(|| "flow".to_owned(), |value| format!("{value:#x}"))
}

fn inherited(field: Inherited, default: u8, text: impl Fn(u8) -> String) -> Option<String> {
    match field {
        Inherited::Packet(_) => Some("inherit".to_owned()),
        Inherited::Fixed(value) => (value != default).then(|| text(value)),
    }
}

impl TunnelConfig {
    /// The options, as `dpif/show` lists them.
    pub fn options(&self) -> BTreeMap<String, String> {
        let mut options = BTreeMap::new();
        let mut add = |key: &str, value: Option<String>| {
            options.extend(value.map(|value| (key.to_owned(), value)));
        };
        let address = |address: PerFlow<IpAddr>| decimal(address);
        add("remote_ip", Some(address(self.remote)));
        add("local_ip", self.local.map(address));
        if self.in_key == self.out_key {
            add("key", self.in_key.map(decimal));
        } else {
            add("in_key", self.in_key.map(decimal));
            add("out_key", self.out_key.map(decimal));
        }
        add("ttl", inherited(self.ttl, Self::DEFAULT_TTL, |ttl| ttl.to_string()));
        add("tos", inherited(self.tos, 0, |tos| format!("{tos:#x}")));
        let is_default_port = self.udp_port == self.kind.default_udp_port();
        if self.kind == TunnelKind::Bareudp || self.kind.uses_udp() && !is_default_port {
            add("dst_port", Some(self.udp_port.to_string()));
        }
        add(
            "csum",
            match self.checksum {
                OuterChecksum::On => Some("true".to_owned()),
                OuterChecksum::Off => Some("false".to_owned()),
                OuterChecksum::Default | OuterChecksum::None => None,
            },
        );
        add("seq", self.has_sequence.then(|| "true".to_owned()));
        let mode = self.packet_mode;
        let is_usual = mode == Self::default_mode(self.kind);
        add("packet_type", (!is_usual).then(|| mode.name().to_owned()));
        add("df_default", (!self.dont_fragment).then(|| "false".to_owned()));
        add("egress_pkt_mark", self.egress_mark.map(|mark| mark.to_string()));
        if self.kind.is_erspan() {
            let erspan = &self.erspan;
            add("erspan_ver", Some(decimal(erspan.version)));
            let version = erspan.version.fixed();
            add("erspan_idx", matches!(version, None | Some(1)).then(|| hexadecimal(erspan.index)));
            let has_hardware = matches!(version, None | Some(2));
            add("erspan_dir", has_hardware.then(|| decimal(erspan.direction)));
            add("erspan_hwid", has_hardware.then(|| hexadecimal(erspan.hardware)));
        }
        options
    }
}
