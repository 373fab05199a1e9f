//! The network below tunnels, on dummy ports: routes, neighbours, and what is sent to them.

use tests::{Daemon, Directory};

/// A bridge `br0` with an address and the port `p0`, and above it `int-br` with a tunnel `t1`.
fn start<'a>(directory: &'a Directory, addresses: &[&str], options: &[&str]) -> Daemon<'a> {
    let daemon = Daemon::start(directory, &[]);
    let script = "add-br br0
             set bridge br0 datapath_type=dummy other_config:hwaddr=aa:55:aa:55:00:00
             add-port br0 p0
             set interface p0 type=dummy ofport_request=1
             add-br int-br
             set bridge int-br datapath_type=dummy
             add-port int-br t1
             set interface t1 type=vxlan ofport_request=2 options:key=123";
    directory.vsctl_script(&format!("{script} {}", options.join(" "))).ok();
    for address in addresses {
        let command = if address.contains(':') { "ip6addr" } else { "ip4addr" };
        daemon.appctl(&[&format!("netdev-dummy/{command}"), "br0", address]).ok();
    }
    daemon.appctl(&["time/stop"]).ok();
    daemon
}

/// The last line of the trace of a packet that leaves by the tunnel.
fn traced_actions(daemon: &Daemon<'_>) -> String {
    let packet = "in_port=LOCAL,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02";
    let text = daemon.appctl(&["ofproto/trace", "int-br", packet]).ok();
    text.lines().last().unwrap_or_default().to_owned()
}

fn requests(daemon: &Daemon<'_>) -> u64 {
    let counter = ["coverage/read-counter", "xlate_actions_neigh_sent"];
    daemon.appctl(&counter).ok().trim().parse().expect("a number")
}

#[test]
fn a_packet_is_encapsulated_when_the_neighbour_is_known() {
    let directory = Directory::new();
    let daemon = start(&directory, &["1.1.2.88/24"], &["options:remote_ip=1.1.2.92"]);
    assert_eq!(traced_actions(&daemon), "Datapath actions: drop");
    assert_eq!(
        daemon.appctl(&["tnl/neigh/show"]).ok(),
        "IP                                            MAC                 Bridge\n\
         ==========================================================================\n\
         1.1.2.92                                                          br0 INCOMPLETE\n"
    );
    // An answer, which also shows br0 where the station is.
    let reply = "in_port(1),eth(src=f8:bc:12:44:34:b6,dst=aa:55:aa:55:00:00),eth_type(0x0806),\
                 arp(sip=1.1.2.92,tip=1.1.2.88,op=2,sha=f8:bc:12:44:34:b6,tha=aa:55:aa:55:00:00)";
    daemon.appctl(&["netdev-dummy/receive", "p0", reply]).ok();
    daemon.appctl(&["revalidator/wait"]).ok();
    let rows = daemon.appctl(&["tnl/arp/show"]).ok();
    assert_eq!(
        rows.lines().last(),
        Some("1.1.2.92                                      f8:bc:12:44:34:b6   br0")
    );
    assert_eq!(
        traced_actions(&daemon),
        "Datapath actions: tnl_push(tnl_port(4789),header(size=50,type=4,\
         eth(dst=f8:bc:12:44:34:b6,src=aa:55:aa:55:00:00,dl_type=0x0800),\
         ipv4(src=1.1.2.88,dst=1.1.2.92,proto=17,tos=0,ttl=64,frag=0x4000),\
         udp(src=0,dst=4789,csum=0x0),vxlan(flags=0x8000000,vni=0x7b)),out_port(100)),1"
    );
    // Nobody uses the neighbour for a quarter of an hour.
    daemon.appctl(&["tnl/neigh/aging", "10"]).ok();
    daemon.appctl(&["time/warp", "11000"]).ok();
    assert_eq!(daemon.appctl(&["tnl/neigh/show"]).ok().lines().count(), 2);
    daemon.stop();
}

/// Red Hat FDP-2986, OVS commit 7c6a84084: one request per packet towards a peer that is dead.
#[test]
fn a_dead_peer_is_asked_for_once_a_second() {
    let directory = Directory::new();
    let daemon = start(&directory, &["1.1.2.88/24"], &["options:remote_ip=1.1.2.99"]);
    let before = requests(&daemon);
    let packet = "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x1234)";
    for _ in 0..30 {
        daemon.appctl(&["netdev-dummy/receive", "int-br", packet]).ok();
        daemon.appctl(&["netdev-dummy/receive", "int-br", packet]).ok();
        daemon.appctl(&["time/warp", "100"]).ok();
    }
    let sent = requests(&daemon) - before;
    assert!((2..=4).contains(&sent), "{sent} requests in 3 seconds");
    daemon.stop();
}

/// OVS commit 166ee41d2: `local_ip` of tunnels over IPv6 was ignored.
#[test]
fn the_source_of_a_tunnel_is_what_was_asked_for() {
    let directory = Directory::new();
    let addresses = ["2001:cafe::88/64", "2001:cafe::89/64"];
    let options = ["options:remote_ip=2001:cafe::92", "options:local_ip=2001:cafe::89"];
    let daemon = start(&directory, &addresses, &options);
    daemon.appctl(&["tnl/neigh/set", "br0", "2001:cafe::92", "f8:bc:12:44:34:b6"]).ok();
    let actions = traced_actions(&daemon);
    assert!(actions.contains("ipv6(src=2001:cafe::89,dst=2001:cafe::92,"), "{actions}");
    daemon.stop();
}

#[test]
fn tunnels_are_received_by_the_hosts_of_bridges() {
    let directory = Directory::new();
    let daemon = start(&directory, &["1.1.2.88/24"], &["options:remote_ip=1.1.2.92"]);
    assert_eq!(
        daemon.appctl(&["tnl/ports/show"]).ok(),
        "Listening ports:\nvxlan_sys_4789 (4789) ref_cnt=1\n"
    );
    assert_eq!(
        daemon.appctl(&["tnl/ports/show", "-v"]).ok(),
        "Listening ports:\nvxlan_sys_4789 (4789) : eth(dst=aa:55:aa:55:00:00),eth_type(0x0800),\
         ipv4(dst=1.1.2.88,proto=17,frag=no),udp(dst=4789)\n"
    );
    let packet = "udp,in_port=1,dl_src=f8:bc:12:44:34:b6,dl_dst=aa:55:aa:55:00:00,\
                  nw_src=1.1.2.92,nw_dst=1.1.2.88,nw_ttl=64,udp_src=1,udp_dst=4789";
    let text = daemon.appctl(&["ofproto/trace", "br0", packet]).ok();
    assert_eq!(text.lines().last(), Some("Datapath actions: tnl_pop(4789)"), "{text}");
    assert_eq!(
        daemon.appctl(&["tnl/egress_port_range"]).ok(),
        "Tunnel UDP source port range: 32768-61000\n"
    );
    assert_eq!(daemon.appctl(&["tnl/egress_port_range", "2000", "1000"]).ok(), "OK\n");
    assert_eq!(
        daemon.appctl(&["tnl/egress_port_range"]).ok(),
        "Tunnel UDP source port range: 1000-2000\n"
    );
    daemon.stop();
}
