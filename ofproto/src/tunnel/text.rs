//! Tunnel ports as text (`ofproto/list-tunnels`).

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use netdev::tunnel::{Inherited, OuterChecksum, PerFlow, TunnelConfig};

use super::Endpoint;

/// What belongs to a tunnel port, in the words of OVS.
pub fn endpoint_text(endpoint: &Endpoint) -> String {
    let address = |address: IpAddr| address.to_string();
    let local = match endpoint.local {
        Some(PerFlow::Fixed(local)) => address(local),
        Some(PerFlow::Flow) | None => address(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    };
    let mut text = match (endpoint.remote, endpoint.local) {
        (PerFlow::Fixed(remote), _) => format!("{local}->{}", address(remote)),
        (PerFlow::Flow, Some(PerFlow::Flow)) => "flow->flow".to_owned(),
        (PerFlow::Flow, _) => format!("{local}->flow"),
    };
    match endpoint.in_key {
        PerFlow::Fixed(key) => {
            let _ = write!(text, ", key={}", hex(key));
        }
        PerFlow::Flow => text += ", key=flow",
    }
    let _ = write!(text, ", {}, dp port={}", endpoint.mode.name(), endpoint.datapath_port);
    text
}

/// A number as C prints it with `%#x`.
fn hex(number: u64) -> String {
    if number == 0 { "0".to_owned() } else { format!("{number:#x}") }
}

/// The tunnel port `name` on a port of the datapath, as a line in the words of OVS.
pub fn tunnel_text(name: &str, config: &TunnelConfig, datapath_port: u32) -> String {
    let endpoint = endpoint_text(&Endpoint::new(config, datapath_port));
    let mut text = format!("port {datapath_port}: {name} ({}: {endpoint}", config.kind.name());
    if config.out_key != config.in_key {
        let key = match config.out_key {
            None => "none".to_owned(),
            Some(PerFlow::Flow) => "flow".to_owned(),
            Some(PerFlow::Fixed(key)) => hex(key),
        };
        let _ = write!(text, ", out_key={key}");
    }
    match config.ttl {
        Inherited::Packet(_) => text += ", ttl=inherit",
        Inherited::Fixed(ttl) => {
            let _ = write!(text, ", ttl={ttl}");
        }
    }
    match config.tos {
        Inherited::Packet(_) => text += ", tos=inherit",
        Inherited::Fixed(0) => {}
        Inherited::Fixed(tos) => {
            let _ = write!(text, ", tos={tos:#x}");
        }
    }
    if !config.dont_fragment {
        text += ", df=false";
    }
    match config.checksum {
        OuterChecksum::On => text += ", csum=true",
        OuterChecksum::Off => text += ", csum=false",
        OuterChecksum::Default | OuterChecksum::None => {}
    }
    text + ")\n"
}

#[cfg(test)]
mod tests {
    use netdev::tunnel::{PacketMode, TunnelKind};

    use super::*;

    #[test]
    fn tunnels_are_lines() {
        let plain = TunnelConfig::new(TunnelKind::Gre);
        let remote = PerFlow::Fixed("1.1.1.1".parse().unwrap());
        let local = Some(PerFlow::Fixed("2.2.2.2".parse().unwrap()));
        let all = TunnelConfig {
            remote,
            local,
            in_key: Some(PerFlow::Fixed(5)),
            out_key: None,
            ttl: Inherited::Packet(64),
            tos: Inherited::Fixed(0x10),
            dont_fragment: false,
            checksum: OuterChecksum::Off,
            packet_mode: PacketMode::Aware,
            ..plain.clone()
        };
        assert_eq!(
            tunnel_text("a", &plain, 3),
            "port 3: a (gre: ::->flow, key=0, legacy_l2, dp port=3, ttl=64)\n"
        );
        assert_eq!(
            tunnel_text("b", &all, 4),
            "port 4: b (gre: 2.2.2.2->1.1.1.1, key=0x5, ptap, dp port=4, out_key=none, ttl=inherit, \
             tos=0x10, df=false, csum=false)\n"
        );
        let flow = TunnelConfig {
            local: Some(PerFlow::Flow),
            in_key: Some(PerFlow::Flow),
            out_key: Some(PerFlow::Fixed(9)),
            tos: Inherited::Packet(0),
            checksum: OuterChecksum::On,
            ..plain
        };
        assert_eq!(
            tunnel_text("c", &flow, 5),
            "port 5: c (gre: flow->flow, key=flow, legacy_l2, dp port=5, out_key=0x9, ttl=64, \
             tos=inherit, csum=true)\n"
        );
    }
}
