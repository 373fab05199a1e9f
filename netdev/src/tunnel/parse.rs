//! From options of an interface to settings of a tunnel.
//!
//! What is not possible is refused. As with Open vSwitch, options that do not exist and a few wrong
//! values only cause a warning.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::config::{FlowLabel, Inherited, OuterChecksum, PacketMode, PerFlow};
use super::{TunnelConfig, TunnelKind};
use crate::wire::ethernet::ether_type;

/// Most segments of a segment routing header.
const MAX_SEGMENTS: usize = 6;
/// Bits of a type of service that name a class.
const CLASS_MASK: u32 = 0xfc;
/// Greatest ERSPAN index and hardware identifier.
const MAX_ERSPAN_INDEX: u32 = 0xf_ffff;
const MAX_ERSPAN_HARDWARE: u8 = 0x3f;

/// What came of options.
pub(super) struct Parsed {
    /// The settings, unless they are refused.
    pub(super) config: Option<TunnelConfig>,
    /// What is wrong, a sentence each.
    pub(super) problems: Vec<String>,
}

/// Why options are refused; the reason is the last of the problems.
struct Refused;

/// A number as C reads it: `0x` and `0` in front say its base.
fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let text = text.trim();
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let octal = text.strip_prefix('0').filter(|rest| !rest.is_empty());
    let number = match (hex, octal) {
        (Some(digits), _) => u64::from_str_radix(digits, 16),
        (None, Some(digits)) => u64::from_str_radix(digits, 8),
        (None, None) => text.parse(),
    };
    T::try_from(number.ok()?).ok()
}

fn hex_number(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

struct Parser<'a> {
    options: &'a BTreeMap<String, String>,
    config: TunnelConfig,
    remote: Option<PerFlow<IpAddr>>,
    problems: Vec<String>,
}

/// Reads the options of a tunnel.
pub(super) fn parse(kind: TunnelKind, options: &BTreeMap<String, String>) -> Parsed {
    let config = TunnelConfig::new(kind);
    let mut parser = Parser { options, config, remote: None, problems: Vec::new() };
    let refused = parser.run().is_err();
    let Parser { config, problems, .. } = parser;
    Parsed { config: (!refused).then_some(config), problems }
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), Refused> {
        for (key, value) in self.options {
            self.option(key, value)?;
        }
        self.packet_type()?;
        self.endpoints()?;
        self.config.in_key = self.key("in_key")?;
        self.config.out_key = self.key("out_key")?;
        Ok(())
    }

    fn warn(&mut self, problem: String) {
        self.problems.push(problem);
    }

    fn refuse<T>(&mut self, problem: String) -> Result<T, Refused> {
        self.problems.push(problem);
        Err(Refused)
    }

    fn option(&mut self, key: &str, value: &str) -> Result<(), Refused> {
        let kind = self.config.kind;
        match key {
            "remote_ip" => self.remote = self.address(key, value)?,
            "local_ip" => self.config.local = self.address(key, value)?,
            "tos" => self.tos(value),
            "ttl" => self.ttl(value)?,
            "dst_port" if kind.uses_udp() => self.config.udp_port = self.whole(key, value)?,
            "csum" if kind.has_checksum() => match value {
                "true" => self.config.checksum = OuterChecksum::On,
                "false" => self.config.checksum = OuterChecksum::Off,
                _ => {}
            },
            "seq" if kind.is_gre() => self.config.has_sequence = value == "true",
            "df_default" => self.config.dont_fragment = value != "false",
            "exts" if kind == TunnelKind::Vxlan => self.extensions(value),
            "egress_pkt_mark" => self.config.egress_mark = Some(self.whole(key, value)?),
            "erspan_ver" | "erspan_idx" | "erspan_dir" | "erspan_hwid" => {
                self.erspan(key, value)?
            }
            "srv6_segs" => self.segments(value),
            "srv6_flowlabel" => {
                self.config.flow_label = match value {
                    "zero" => FlowLabel::Zero,
                    "compute" => FlowLabel::Compute,
                    _ => FlowLabel::Copy,
                }
            }
            "payload_type" => self.payload(value)?,
            // Below.
            "key" | "in_key" | "out_key" | "packet_type" => {}
            // Of IPsec, which another program sets up.
            "remote_cert" | "remote_name" | "psk" => {}
            _ if key.starts_with("ipsec_") => {}
            _ => self.warn(format!("unknown {} argument '{key}'", kind.name())),
        }
        Ok(())
    }

    fn address(&mut self, key: &str, value: &str) -> Result<Option<PerFlow<IpAddr>>, Refused> {
        if value == "flow" {
            return Ok(Some(PerFlow::Flow));
        }
        let Ok(address) = IpAddr::from_str(value) else {
            let kind = self.config.kind.name();
            self.warn(format!("bad {kind} '{key}'"));
            return Ok(None);
        };
        if key == "remote_ip" && address.is_multicast() {
            return self.refuse(format!("multicast remote_ip={value} not allowed"));
        }
        Ok(Some(PerFlow::Fixed(address)))
    }

    /// A number that the option must be.
    fn whole<T: TryFrom<u64>>(&mut self, key: &str, value: &str) -> Result<T, Refused> {
        match number(value) {
            Some(number) => Ok(number),
            None => self.refuse(format!(
                "{key}={value} is not a number from 0 to 2^{}-1",
                8 * size_of::<T>()
            )),
        }
    }

    fn tos(&mut self, value: &str) {
        match number::<u32>(value).filter(|tos| tos & !CLASS_MASK == 0) {
            Some(tos) => self.config.tos = Inherited::Fixed(tos as u8),
            None if value == "inherit" => self.config.tos = Inherited::Packet(0),
            None => self.warn(format!("invalid TOS {value}")),
        }
    }

    fn ttl(&mut self, value: &str) -> Result<(), Refused> {
        let default = TunnelConfig::DEFAULT_TTL;
        self.config.ttl = match value {
            "inherit" => Inherited::Packet(default),
            _ => match self.whole("ttl", value)? {
                0 => Inherited::Fixed(default),
                ttl => Inherited::Fixed(ttl),
            },
        };
        Ok(())
    }

    fn extensions(&mut self, value: &str) {
        for extension in value.split(',').filter(|extension| !extension.is_empty()) {
            match extension {
                "gbp" => self.config.gbp = true,
                "gpe" => self.config.gpe = true,
                _ => self.warn(format!("unknown extension '{extension}'")),
            }
        }
    }

    fn erspan(&mut self, key: &str, value: &str) -> Result<(), Refused> {
        let erspan = &mut self.config.erspan;
        let what = match (key, value) {
            ("erspan_ver", "flow") => {
                erspan.version = PerFlow::Flow;
                erspan.index = PerFlow::Flow;
                erspan.direction = PerFlow::Flow;
                erspan.hardware = PerFlow::Flow;
                return Ok(());
            }
            ("erspan_idx", "flow") => {
                erspan.index = PerFlow::Flow;
                return Ok(());
            }
            ("erspan_dir", "flow") => {
                erspan.direction = PerFlow::Flow;
                return Ok(());
            }
            (_, "flow") => {
                erspan.hardware = PerFlow::Flow;
                return Ok(());
            }
            ("erspan_idx", _) => match hex_number(value).filter(|it| *it <= MAX_ERSPAN_INDEX) {
                Some(index) => {
                    erspan.index = PerFlow::Fixed(index);
                    return Ok(());
                }
                None => "index",
            },
            ("erspan_ver", _) => match number(value).filter(|version| matches!(version, 1 | 2)) {
                Some(version) => {
                    erspan.version = PerFlow::Fixed(version);
                    return Ok(());
                }
                None => "version",
            },
            ("erspan_dir", _) => match number(value).filter(|direction| *direction <= 1) {
                Some(direction) => {
                    erspan.direction = PerFlow::Fixed(direction);
                    return Ok(());
                }
                None => "direction",
            },
            _ => {
                let hardware = hex_number(value).and_then(|number| u8::try_from(number).ok());
                match hardware.filter(|hardware| *hardware <= MAX_ERSPAN_HARDWARE) {
                    Some(hardware) => {
                        erspan.hardware = PerFlow::Fixed(hardware);
                        return Ok(());
                    }
                    None => "hardware ID",
                }
            }
        };
        self.refuse(format!("invalid erspan {what}: {value}"))
    }

    fn segments(&mut self, value: &str) {
        let segments = value.split(',').filter(|segment| !segment.is_empty());
        match segments.map(Ipv6Addr::from_str).collect::<Result<Vec<_>, _>>() {
            Ok(segments) if segments.len() <= MAX_SEGMENTS => self.config.segments = segments,
            _ => self.warn(format!("bad {value} 'srv6_segs'")),
        }
    }

    fn payload(&mut self, value: &str) -> Result<(), Refused> {
        self.config.payload = match value {
            "mpls" => Some((ether_type::MPLS, true)),
            "ip" => Some((ether_type::IPV4, true)),
            _ => match number(value) {
                Some(ether_type) => Some((ether_type, false)),
                None => return self.refuse(format!("bad {value} 'payload_type'")),
            },
        };
        Ok(())
    }

    fn packet_type(&mut self) -> Result<(), Refused> {
        let TunnelConfig { kind, gpe, .. } = self.config;
        let name = match (kind, gpe) {
            (TunnelKind::Vxlan, true) => "VXLAN-GPE",
            (TunnelKind::Vxlan, false) => "VXLAN (without GPE)",
            _ => kind.name(),
        };
        let problem = |mode: &str, layer: &str| {
            format!("{mode} configured on {name} tunnel that cannot carry {layer} traffic")
        };
        self.config.packet_mode = match self.options.get("packet_type").map(String::as_str) {
            None => return Ok(()),
            Some("legacy_l2") if kind.carries_ethernet() => PacketMode::LegacyL2,
            Some("legacy_l3") if kind.carries_network(gpe) => PacketMode::LegacyL3,
            Some("ptap") => PacketMode::Aware,
            Some("legacy_l2") => return self.refuse(problem("legacy_l2", "L2")),
            Some("legacy_l3") => return self.refuse(problem("legacy_l3", "L3")),
            Some(other) => return self.refuse(format!("unknown packet_type '{other}'")),
        };
        Ok(())
    }

    fn endpoints(&mut self) -> Result<(), Refused> {
        let kind = self.config.kind.name();
        let is_set = |remote: &PerFlow<IpAddr>| {
            remote.fixed().is_none_or(|address| !address.is_unspecified())
        };
        let Some(remote) = self.remote.filter(is_set) else {
            return self.refuse(format!("{kind} type requires valid 'remote_ip' argument"));
        };
        self.config.remote = remote;
        match (self.config.local, remote) {
            (Some(PerFlow::Flow), PerFlow::Fixed(_)) => {
                self.refuse(format!("{kind} type requires 'remote_ip=flow' with 'local_ip=flow'"))
            }
            (Some(PerFlow::Fixed(local)), PerFlow::Fixed(remote))
                if local.is_ipv4() != remote.is_ipv4() =>
            {
                self.refuse(
                    "'remote_ip' and 'local_ip' has to be of the same address family".to_owned(),
                )
            }
            (Some(PerFlow::Fixed(local)), _) if local.is_unspecified() => {
                self.config.local = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn key(&mut self, name: &str) -> Result<Option<PerFlow<u64>>, Refused> {
        let Some((name, value)) =
            self.options.get_key_value(name).or_else(|| self.options.get_key_value("key"))
        else {
            return Ok(None);
        };
        match value.as_str() {
            "flow" => Ok(Some(PerFlow::Flow)),
            _ => self.whole(name, value).map(|key| Some(PerFlow::Fixed(key))),
        }
    }
}
