use std::collections::BTreeMap;
use std::sync::Arc;

use super::parse::{Parsed, parse};
use super::{Inherited, PerFlow, TunnelConfig, TunnelKind, TunnelPort, Tunnels};
use crate::port::Port;

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn parsed(kind: TunnelKind, pairs: &[(&str, &str)]) -> (Option<TunnelConfig>, Vec<String>) {
    let Parsed { config, problems } = parse(kind, &options(pairs));
    (config, problems)
}

/// Checks that options are taken as they are, and shown again as `shown`.
fn check_shown(kind: TunnelKind, pairs: &[(&str, &str)], shown: &[(&str, &str)]) {
    let (config, problems) = parsed(kind, pairs);
    assert_eq!((config.unwrap().options(), problems), (options(shown), vec![]), "{pairs:?}");
}

#[test]
fn a_tunnel_has_defaults() {
    let (config, problems) = parsed(TunnelKind::Vxlan, &[("remote_ip", "1.2.3.4")]);
    let remote = PerFlow::Fixed("1.2.3.4".parse().unwrap());
    let expected = TunnelConfig { remote, ..TunnelConfig::new(TunnelKind::Vxlan) };
    assert_eq!((config, problems), (Some(expected), vec![]));
}

#[test]
fn options_are_shown_unless_they_are_defaults() {
    let remote = ("remote_ip", "flow");
    for (kind, port) in
        [(TunnelKind::Vxlan, "4789"), (TunnelKind::Geneve, "6081"), (TunnelKind::Gtpu, "2152")]
    {
        let usual =
            [remote, ("dst_port", port), ("ttl", "64"), ("tos", "0"), ("df_default", "true")];
        check_shown(kind, &usual, &[remote]);
    }
    let all = [
        ("remote_ip", "fc00::2"),
        ("local_ip", "fc00::1"),
        ("in_key", "5"),
        ("out_key", "flow"),
        ("dst_port", "99"),
        ("ttl", "inherit"),
        ("tos", "0x10"),
        ("csum", "false"),
        ("packet_type", "ptap"),
        ("df_default", "false"),
        ("egress_pkt_mark", "7"),
    ];
    check_shown(TunnelKind::Vxlan, &all, &all);
    let key = [remote, ("key", "0x10"), ("seq", "true"), ("tos", "inherit"), ("csum", "true")];
    let shown = [remote, ("key", "16"), ("seq", "true"), ("tos", "inherit"), ("csum", "true")];
    check_shown(TunnelKind::Gre, &key, &shown);
    check_shown(
        TunnelKind::Gre,
        &[remote, ("in_key", "3"), ("out_key", "3")],
        &[remote, ("key", "3")],
    );
    // IPsec and routing are for others, and not shown.
    let others = [remote, ("psk", "secret"), ("ipsec_mark", "1"), ("srv6_segs", "fc00::1,fc00::2")];
    check_shown(TunnelKind::Srv6, &others, &[remote]);
}

#[test]
fn erspan_shows_what_its_version_has() {
    let remote = ("remote_ip", "1.1.1.1");
    let (index, dir, hwid) = (("erspan_idx", "0xff"), ("erspan_dir", "1"), ("erspan_hwid", "0x3f"));
    for (version, shown) in [("1", vec![index]), ("2", vec![dir, hwid])] {
        let version = ("erspan_ver", version);
        let shown = [vec![remote, version], shown].concat();
        check_shown(TunnelKind::Erspan, &[remote, version, index, dir, hwid], &shown);
    }
    let flow = ["erspan_ver", "erspan_idx", "erspan_dir", "erspan_hwid"].map(|key| (key, "flow"));
    let shown = [vec![remote], flow.to_vec()].concat();
    check_shown(TunnelKind::Ip6erspan, &[remote, ("erspan_ver", "flow")], &shown);
}

#[test]
fn impossible_settings_are_refused() {
    let ip = ("remote_ip", "1.1.1.1");
    for (kind, pairs, problem) in [
        (TunnelKind::Gre, vec![], "gre type requires valid 'remote_ip' argument"),
        (
            TunnelKind::Gre,
            vec![("remote_ip", "0.0.0.0")],
            "gre type requires valid 'remote_ip' argument",
        ),
        (
            TunnelKind::Gre,
            vec![("remote_ip", "224.1.1.1")],
            "multicast remote_ip=224.1.1.1 not allowed",
        ),
        (
            TunnelKind::Vxlan,
            vec![ip, ("local_ip", "flow")],
            "vxlan type requires 'remote_ip=flow' with 'local_ip=flow'",
        ),
        (
            TunnelKind::Vxlan,
            vec![ip, ("local_ip", "fc00::1")],
            "'remote_ip' and 'local_ip' has to be of the same address family",
        ),
        (
            TunnelKind::Vxlan,
            vec![ip, ("packet_type", "legacy_l3")],
            "legacy_l3 configured on VXLAN (without GPE) tunnel that cannot carry L3 traffic",
        ),
        (
            TunnelKind::Gtpu,
            vec![ip, ("packet_type", "legacy_l2")],
            "legacy_l2 configured on gtpu tunnel that cannot carry L2 traffic",
        ),
        (TunnelKind::Gre, vec![ip, ("packet_type", "l4")], "unknown packet_type 'l4'"),
        (TunnelKind::Gre, vec![ip, ("key", "x")], "key=x is not a number from 0 to 2^64-1"),
        (TunnelKind::Gre, vec![ip, ("ttl", "256")], "ttl=256 is not a number from 0 to 2^8-1"),
        (
            TunnelKind::Geneve,
            vec![ip, ("dst_port", "65536")],
            "dst_port=65536 is not a number from 0 to 2^16-1",
        ),
        (TunnelKind::Erspan, vec![ip, ("erspan_ver", "3")], "invalid erspan version: 3"),
        (TunnelKind::Erspan, vec![ip, ("erspan_idx", "100000")], "invalid erspan index: 100000"),
        (TunnelKind::Erspan, vec![ip, ("erspan_dir", "2")], "invalid erspan direction: 2"),
        (TunnelKind::Erspan, vec![ip, ("erspan_hwid", "40")], "invalid erspan hardware ID: 40"),
        (TunnelKind::Bareudp, vec![ip, ("payload_type", "x")], "bad x 'payload_type'"),
    ] {
        assert_eq!(parsed(kind, &pairs), (None, vec![problem.to_owned()]), "{pairs:?}");
    }
}

#[test]
fn some_mistakes_only_cause_a_warning() {
    let pairs = [
        ("remote_ip", "flow"),
        ("local_ip", "here"),
        ("tos", "1"),
        ("exts", "gbp,x"),
        ("seq", "true"),
        ("speed", "9"),
    ];
    let (config, problems) = parsed(TunnelKind::Vxlan, &pairs);
    let expected = TunnelConfig { gbp: true, ..TunnelConfig::new(TunnelKind::Vxlan) };
    assert_eq!(config, Some(expected));
    assert_eq!(
        problems,
        [
            "unknown extension 'x'",
            "bad vxlan 'local_ip'",
            "unknown vxlan argument 'seq'",
            "unknown vxlan argument 'speed'",
            "invalid TOS 1",
        ]
    );
}

#[test]
fn numbers_are_read_as_in_c() {
    for (text, key) in [("0x1F", 31), ("010", 8), ("10", 10), ("0", 0)] {
        let (config, _) = parsed(TunnelKind::Gre, &[("remote_ip", "flow"), ("key", text)]);
        assert_eq!(config.unwrap().in_key, Some(PerFlow::Fixed(key)));
    }
    let (config, _) = parsed(TunnelKind::Gre, &[("remote_ip", "flow"), ("ttl", "0")]);
    assert_eq!(config.unwrap().ttl, Inherited::Fixed(64));
}

#[test]
fn tunnels_of_a_protocol_share_a_datapath_port() {
    let names = TunnelKind::ALL.map(|kind| TunnelConfig::new(kind).datapath_port());
    assert_eq!(
        names,
        [
            "udp_sys_0",
            "erspan_sys",
            "genev_sys_6081",
            "gre_sys",
            "gtpu_sys_2152",
            "ip6erspan_sys",
            "ip6gre_sys",
            "srv6_sys",
            "vxlan_sys_4789",
        ]
    );
}

#[test]
fn group_policy_is_for_all_of_a_udp_port() {
    let tunnels = Arc::new(Tunnels::default());
    let open = |name| TunnelPort::open(name, TunnelKind::Vxlan, &tunnels).unwrap();
    let plain = options(&[("remote_ip", "flow")]);
    let gbp = options(&[("remote_ip", "flow"), ("exts", "gbp")]);
    let (mut a, mut b) = (open("a"), open("b"));
    a.set_options(&plain).unwrap();
    assert_eq!(
        b.set_options(&gbp).unwrap_err().to_string(),
        "b: VXLAN-GBP, and non-VXLAN-GBP tunnels can't be configured on the same dst_port"
    );
    assert!(b.tunnel().is_none());
    // Alone on its port it may change.
    a.set_options(&gbp).unwrap();
    b.set_options(&gbp).unwrap();
    drop((a, b));
    open("c").set_options(&plain).unwrap();
}

#[test]
fn problems_are_one_text() {
    let mut port = TunnelPort::open("t", TunnelKind::Gre, &Arc::default()).unwrap();
    let before = port.change_sequence();
    assert_eq!(
        port.set_options(&options(&[("remote_ip", "x")])).unwrap_err().to_string(),
        "t: bad gre 'remote_ip'\nt: gre type requires valid 'remote_ip' argument"
    );
    assert_eq!(port.change_sequence(), before);
    port.set_options(&options(&[("remote_ip", "1.1.1.1")])).unwrap();
    port.set_options(&options(&[("remote_ip", "1.1.1.1")])).unwrap();
    assert_eq!(port.change_sequence(), before + 1);
    port.tunnel().unwrap().traffic.add_received(2, 100);
    port.tunnel().unwrap().traffic.add_sent(1, 60);
    let statistics = port.statistics().unwrap();
    let counts: Vec<_> = statistics.named().collect();
    assert_eq!(counts, [("rx_packets", 2), ("tx_packets", 1), ("rx_bytes", 100), ("tx_bytes", 60)]);
}
