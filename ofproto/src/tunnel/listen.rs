//! Which packets to the hosts of bridges are those of tunnels, and are handed to tunnel ports
//! instead.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use dpif::flow::{FRAG_ANY, FRAG_LATER, FlowKey, FlowMask, FlowText, MAX_VLANS};
use netdev::ethernet_address::EthernetAddress;
use netdev::tunnel::TunnelKind;
use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::ip_protocol;
use zerocopy::network_endian::U16;

use crate::classifier::{Classifier, Mask, MaskedKey};
use crate::flow::Flow;
use crate::openflow::flow_match::Match;
use crate::openflow::message::FlowFlags;
use crate::rule::{Lineage, Rule, RuleParts};

/// The version of the classifier that has all listeners.
const VERSION: u64 = 0;

/// A port of the datapath to which packets of tunnels are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its number.
    pub datapath_port: u32,
    /// Its name.
    pub name: String,
    /// The protocol number of IP.
    pub protocol: u8,
    /// The UDP port; 0 where the protocol is not UDP.
    pub udp_port: u16,
    /// Number of tunnel ports that share it.
    pub users: usize,
}

/// A host that packets of tunnels may be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) ethernet: EthernetAddress,
    pub(crate) address: IpAddr,
}

/// Where packets that come to a host belong.
#[derive(Clone, Debug)]
struct Target {
    listener: usize,
    key: FlowKey,
    mask: FlowKey,
}

/// Which packets belong to which port of tunnels.
#[derive(Clone, Debug)]
pub struct Listeners {
    listeners: Vec<Listener>,
    targets: Vec<Target>,
    /// The cookie of a rule is the number of the port.
    classifier: Arc<Classifier>,
}

impl Default for Listeners {
    fn default() -> Self {
        let classifier = Arc::new(Classifier::new(&[]));
        Self { listeners: vec![], targets: vec![], classifier }
    }
}

/// The protocols by which packets of such tunnels come.
fn protocols(kind: TunnelKind) -> &'static [u8] {
    match kind {
        TunnelKind::Geneve | TunnelKind::Vxlan | TunnelKind::Gtpu => &[ip_protocol::UDP],
        kind if kind.is_gre() => &[ip_protocol::GRE],
        TunnelKind::Srv6 => &[ip_protocol::IPV4, ip_protocol::IPV6],
        _ => &[],
    }
}

impl Listeners {
    /// Those for tunnel ports, each given by the number and name of the datapath port that it
    /// shares with others, its protocol and UDP port, on these hosts.
    pub(crate) fn new(
        ports: impl IntoIterator<Item = (u32, String, TunnelKind, u16)>,
        hosts: &[Host],
    ) -> Self {
        let mut shared: BTreeMap<(u32, u8), Listener> = BTreeMap::new();
        for (datapath_port, name, kind, udp_port) in ports {
            for &protocol in protocols(kind) {
                let name = name.clone();
                let new = Listener { datapath_port, name, protocol, udp_port, users: 0 };
                shared.entry((datapath_port, protocol)).or_insert(new).users += 1;
            }
        }
        let listeners: Vec<_> = shared.into_values().collect();
        let mut classifier = Classifier::new(&[]);
        let mut targets = vec![];
        for (index, listener) in listeners.iter().enumerate() {
            for host in hosts {
                let (key, mask) = packets(listener, host);
                let (mut value, mut bits) = (Flow::default(), Flow::default());
                (value.packet, bits.packet) = (key.clone(), mask.clone());
                let shared = classifier.shared_mask(Mask::new(&bits));
                let masked = MaskedKey::new(&value, shared);
                // Of several ports with the same packets, the first has them.
                if classifier.find_exactly(&masked, 0, VERSION).is_some() {
                    continue;
                }
                let serial = targets.len() as u64;
                let parts = rule_parts(listener.datapath_port);
                let rule = Rule::new(parts, masked, serial, VERSION, Lineage::none(Duration::ZERO));
                classifier.insert(Arc::new(rule));
                targets.push(Target { listener: index, key, mask });
            }
        }
        Self { listeners, targets, classifier: Arc::new(classifier) }
    }

    /// The ports.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter()
    }

    /// The port to which a packet for a host is to be given. The bits of the packet that tell so
    /// are noted in `read`.
    pub(crate) fn find(&self, flow: &Flow, read: &mut Flow) -> Option<u32> {
        let rule = self.classifier.lookup(VERSION, flow, read, &mut vec![])?;
        u32::try_from(rule.cookie).ok()
    }

    /// The packets of each port, as a line for each host.
    pub fn packets(&self) -> impl Iterator<Item = ListenerText<'_>> {
        self.targets.iter().filter_map(|target| {
            Some(ListenerText { listener: self.listeners.get(target.listener)?, target })
        })
    }
}

/// What packets that belong to a listener have in common.
fn packets(listener: &Listener, host: &Host) -> (FlowKey, FlowKey) {
    let (mut key, mut mask) = (FlowKey::default(), FlowKey::default());
    key.eth_dst = MacAddress(host.ethernet.0);
    mask.eth_dst = MacAddress([0xff; 6]);
    match host.address {
        IpAddr::V4(address) => {
            key.eth_type.set(ether_type::IPV4);
            key.ipv4_dst.set(address.to_bits());
            mask.ipv4_dst.set(u32::MAX);
        }
        IpAddr::V6(address) => {
            key.eth_type.set(ether_type::IPV6);
            key.ipv6_dst = address.octets();
            mask.ipv6_dst = [0xff; 16];
        }
    }
    mask.eth_type.set(u16::MAX);
    key.ip_proto = listener.protocol;
    mask.ip_proto = u8::MAX;
    mask.ip_frag = FRAG_ANY | FRAG_LATER;
    if listener.udp_port != 0 {
        key.tp_dst.set(listener.udp_port);
        mask.tp_dst.set(u16::MAX);
    }
    let [outermost, _] = &mut mask.vlans;
    outermost.tci = U16::new(u16::MAX);
    (key, mask)
}

fn rule_parts(datapath_port: u32) -> RuleParts {
    RuleParts {
        table: 0,
        priority: 0,
        flow_match: Match::new(),
        cookie: datapath_port.into(),
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags::default(),
        actions: [].into(),
    }
}

/// The packets of a port that come to one host, in the words of OVS.
#[derive(Clone, Copy, Debug)]
pub struct ListenerText<'a> {
    /// The port.
    pub listener: &'a Listener,
    target: &'a Target,
}

impl ListenerText<'_> {
    /// What the packets have in common.
    pub fn packets(&self) -> String {
        let mask = FlowMask::new(self.target.mask.clone());
        let text = FlowText {
            key: &self.target.key,
            mask: Some(&mask),
            verbose: false,
            names: None,
            vlan_limit: MAX_VLANS,
        };
        text.to_string()
    }
}

impl fmt::Display for ListenerText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Listener { name, datapath_port, .. } = self.listener;
        write!(f, "{name} ({datapath_port}) : {}", self.packets())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Host = Host {
        ethernet: EthernetAddress([0xaa, 0x55, 0xaa, 0x55, 0, 0]),
        address: IpAddr::V4(std::net::Ipv4Addr::new(1, 1, 2, 88)),
    };

    fn listeners() -> Listeners {
        let vxlan = || (7, "vxlan_sys_4789".to_owned(), TunnelKind::Vxlan, 4789);
        let gre = |number, name: &str, kind| (number, name.to_owned(), kind, 0);
        let ports = [
            gre(3, "gre_sys", TunnelKind::Gre),
            vxlan(),
            gre(4, "erspan_sys", TunnelKind::Erspan),
            vxlan(),
        ];
        Listeners::new(ports, &[HOST])
    }

    #[test]
    fn ports_are_shared() {
        let listeners = listeners();
        let found: Vec<_> = listeners.iter().map(|l| (l.name.as_str(), l.users)).collect();
        assert_eq!(found, [("gre_sys", 1), ("erspan_sys", 1), ("vxlan_sys_4789", 2)]);
        let text: Vec<_> = listeners.packets().map(|text| text.to_string()).collect();
        assert_eq!(
            text,
            [
                "gre_sys (3) : eth(dst=aa:55:aa:55:00:00),eth_type(0x0800),\
                 ipv4(dst=1.1.2.88,proto=47,frag=no)",
                "vxlan_sys_4789 (7) : eth(dst=aa:55:aa:55:00:00),eth_type(0x0800),\
                 ipv4(dst=1.1.2.88,proto=17,frag=no),udp(dst=4789)"
            ]
        );
    }

    #[test]
    fn packets_of_tunnels_are_told_from_others() {
        let listeners = listeners();
        let find = |change: fn(&mut FlowKey)| {
            let mut flow = Flow::default();
            flow.packet = packets(
                &Listener {
                    datapath_port: 7,
                    name: String::new(),
                    protocol: ip_protocol::UDP,
                    udp_port: 4789,
                    users: 1,
                },
                &HOST,
            )
            .0;
            change(&mut flow.packet);
            let mut read = Flow::default();
            let found = listeners.find(&flow, &mut read);
            (found, read.packet.eth_dst.0 == [0xff; 6], read.packet.tp_dst.get())
        };
        assert_eq!(find(|_| ()), (Some(7), true, u16::MAX));
        assert_eq!(find(|key| key.ip_proto = ip_protocol::GRE).0, Some(3));
        assert_eq!(find(|key| key.eth_dst.0 = [2; 6]), (None, true, 0));
        assert_eq!(find(|key| key.ip_frag = FRAG_ANY).0, None);
        assert_eq!(find(|key| key.tp_dst.set(4790)).0, None);
    }
}
