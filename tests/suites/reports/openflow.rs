//! Reports about rules, groups, meters and mirrors.

use std::fs::File;

use tests::{Directory, Dummies, wait_until};

use super::packets::{ip, tcp, udp};

/// Flows that differ in their source port.
fn flows(count: u16) -> Vec<String> {
    (0..count).map(|flow| udp(10_000 + flow, 53)).collect()
}

/// The value behind `key` wherever `text` has one.
fn values(text: &str, key: &str) -> Vec<u64> {
    let parts = text.split(key).skip(1);
    let digits = parts.map(|part| part.split(|letter: char| !letter.is_ascii_digit()).next());
    digits.map(|digits| digits.unwrap_or_default().parse().expect("a number")).collect()
}

// Report A21.
#[test]
fn buckets_share_packets_after_others_came_and_went() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 5);
    let group = |command: &str, text: &str| switch.ofctl(&[command, "br0", text]).ok();
    group(
        "add-group",
        "group_id=1,type=select,selection_method=dp_hash,bucket=bucket_id=1,output:2,\
         bucket=bucket_id=2,output:3",
    );
    switch.set_rules(&["actions=group:1"]);
    let mut before: [usize; 4] = switch.counts();
    let mut shares = || {
        switch.run(&["dpctl/del-flows"]);
        switch.receive(1, &flows(300));
        let after = switch.counts();
        let sent = [1, 2, 3].map(|port| after[port] - before[port]);
        before = after;
        sent
    };
    let two = shares();
    assert!(two[0] > 0 && two[1] > 0 && two.iter().sum::<usize>() == 300, "{two:?}");
    group(
        "insert-buckets",
        "group_id=1,command_bucket_id=last,bucket=bucket_id=3,weight:1,output:4",
    );
    let three = shares();
    assert!(
        three.iter().all(|count| *count > 0) && three.iter().sum::<usize>() == 300,
        "{three:?}"
    );
    group("remove-buckets", "group_id=1,command_bucket_id=2");
    let rest = shares();
    assert!(rest[0] > 0 && rest[1] == 0 && rest[2] > 0, "{rest:?}");
    assert_eq!(rest.iter().sum::<usize>(), 300);
    switch.stop();
}

// Report A23.
#[test]
fn groups_without_buckets_drop() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    for kind in ["all", "select"] {
        switch.ofctl(&["add-group", "br0", &format!("group_id=1,type={kind}")]).ok();
        switch.set_rules(&["actions=group:1"]);
        switch.receive(1, &[udp(1, 2)]);
        assert_eq!(switch.flows().len(), 1);
        assert!(switch.flows()[0].ends_with(" actions:drop"), "{:?}", switch.flows());
        let before = switch.sent(2).len();
        let bucket = "group_id=1,command_bucket_id=last,bucket=bucket_id=7,weight:1,output:2";
        switch.ofctl(&["insert-buckets", "br0", bucket]).ok();
        switch.run(&["revalidator/wait"]);
        switch.receive(1, &[udp(1, 2)]);
        assert_eq!(switch.sent(2).len(), before + 1);
        switch.ofctl(&["del-groups", "br0"]).ok();
        switch.run(&["dpctl/del-flows"]);
    }
    switch.stop();
}

// Report A25.
#[test]
fn a_bucket_of_weight_zero_gets_nothing() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 3);
    for method in ["", "selection_method=dp_hash,", "selection_method=hash,fields(udp_src),"] {
        let group = format!(
            "group_id=1,type=select,{method}bucket=weight:0,output:2,bucket=weight:1,output:3"
        );
        switch.ofctl(&["add-group", "br0", &group]).ok();
        switch.set_rules(&["udp,actions=group:1"]);
        let [_, _, before] = switch.counts();
        switch.receive(1, &flows(1000));
        assert_eq!(switch.counts(), [0, 0, before + 1000], "{group}");
        switch.ofctl(&["del-groups", "br0"]).ok();
    }
    switch.stop();
}

// Report A27.
#[test]
fn rates_beyond_32_bits_are_kept() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    switch.ofctl(&["add-meter", "br0", "meter=1,kbps,band=type=drop,rate=4294968"]).ok();
    switch.set_rules(&["actions=meter:1,output:2"]);
    switch.run(&["time/stop"]);
    let frame = "0200000000020200000000011234".to_owned() + &"00".repeat(986);
    for _ in 0..10 {
        switch.receive(1, &vec![&frame; 100]);
        switch.run(&["time/warp", "100"]);
    }
    assert_eq!(switch.counts(), [0, 1000]);
    let shown = switch.ofctl(&["meter-stats", "br0"]).ok();
    let counts = ["packet_in_count:", "byte_in_count:", " packet_count:"];
    assert_eq!(counts.map(|key| values(&shown, key)), [vec![1000], vec![1_000_000], vec![0]]);
    switch.stop();
}

// Report A29.
#[test]
fn packets_of_controllers_are_metered() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    switch
        .ofctl(&["add-meter", "br0", "meter=1,pktps,burst,band=type=drop,rate=1,burst_size=1"])
        .ok();
    switch.set_rules(&["actions=meter:1,output:2"]);
    switch.run(&["time/stop"]);
    for _ in 0..10 {
        let packet = "in_port=1,packet=0200000000020200000000011234,actions=TABLE";
        switch.ofctl(&["packet-out", "br0", packet]).ok();
    }
    let shown = switch.ofctl(&["meter-stats", "br0"]).ok();
    let [_, sent] = switch.counts();
    let counts = ["packet_in_count:", " packet_count:"].map(|key| values(&shown, key));
    assert_eq!(counts, [vec![10], vec![10 - sent as u64]], "{shown}");
    assert_eq!(sent, 1);
    switch.stop();
}

// Report A33.
#[test]
fn a_check_of_the_length_ends_only_its_own_branch() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 4);
    switch.set_rules(&[
        "table=0,actions=load:1->NXM_NX_REG1[],resubmit(,1),load:2->NXM_NX_REG1[],resubmit(,1)",
        "table=1,reg1=1,actions=check_pkt_larger(200)->NXM_NX_REG0[0],resubmit(,2)",
        "table=1,reg1=2,actions=output:4",
        "table=2,actions=output:3",
    ]);
    switch.receive(1, &[udp(1, 2)]);
    assert_eq!(switch.counts(), [0, 0, 1, 1]);
    switch.receive(1, &[udp(1, 2), udp(1, 2)]);
    assert_eq!(switch.counts(), [0, 0, 3, 3]);
    switch.stop();
}

// Report A37.
#[test]
fn a_paused_packet_goes_on_once() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    switch.set_rules(&[
        "table=0,actions=controller(pause),write_metadata:7,goto_table:1",
        "table=1,priority=10,metadata=7,actions=output:2",
        "table=1,priority=0,actions=drop",
    ]);
    let mut monitor = directory.command("ovs-ofctl");
    monitor.args(["-O", "OpenFlow13", "monitor", "br0", "resume"]);
    // In the background as soon as it is connected, where it goes on to print.
    monitor.args(["--detach", "--no-chdir", "--pidfile"]);
    let said = File::create(directory.path("monitor")).expect("a file");
    assert!(monitor.stderr(said).status().expect("ovs-ofctl").success());
    switch.receive(1, &[udp(1, 2)]);
    wait_until("the packet has left", || switch.sent(2).len() == 1);
    let flows = switch.ofctl(&["dump-flows", "br0", "table=1"]).ok();
    assert_eq!(values(&flows, "n_packets="), [1, 0], "{flows}");
    switch.stop();
}

// Report A43, VU#784996.
#[test]
fn floods_of_stations_on_one_port_push_out_none_of_another() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 4);
    directory.vsctl(&["set", "bridge", "br0", "other_config:mac-table-size=100"]).ok();
    switch.set_rules(&["actions=NORMAL"]);
    let packet = |source: &str, destination: &str| {
        format!("in_port(1),eth(src={source},dst={destination}),eth_type(0x1234)")
    };
    let station = "02:00:00:00:00:0b";
    switch.receive(2, &[packet(station, "ff:ff:ff:ff:ff:ff")]);
    let others: Vec<_> = (0..2000)
        .map(|number| {
            let source = format!("06:00:00:00:{:02x}:{:02x}", number >> 8, number & 0xff);
            packet(&source, "02:00:00:00:00:0c")
        })
        .collect();
    switch.receive(1, &others);
    let before: [usize; 4] = switch.counts();
    switch.receive(3, &[packet("02:00:00:00:00:0a", station)]);
    let sent: [usize; 4] = switch.counts();
    assert_eq!([0, 1, 2, 3].map(|port| sent[port] - before[port]), [0, 1, 0, 0]);
    let statistics = switch.json(&["fdb/stats-show", "br0"]);
    assert_eq!([&statistics["entries"], &statistics["evicted"]], [100, 1902]);
    switch.stop();
}

// Report A47.
#[test]
fn a_mirror_of_another_vlan_is_not_in_the_way() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 3);
    switch.set_rules(&["in_port=1,actions=output:2"]);
    directory
        .vsctl_script(
            "set bridge br0 mirrors=@m1,@m2
             --id=@out get port p3
             --id=@m1 create mirror name=m1 select_all=true select_vlan=10 output_port=@out
             --id=@m2 create mirror name=m2 select_all=true select_vlan=20 output_port=@out",
        )
        .ok();
    let tagged = |vlan: u16| {
        format!(
            "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x8100),\
             vlan(vid={vlan},pcp=0),encap(eth_type(0x1234))"
        )
    };
    for (vlan, copies) in [(20, 1), (10, 2), (30, 2), (20, 3)] {
        let [_, sent, _] = switch.counts();
        switch.receive(1, &[tagged(vlan)]);
        assert_eq!(switch.counts(), [0, sent + 1, copies], "VLAN {vlan}");
    }
    assert_eq!(
        switch.sent(3),
        switch
            .sent(2)
            .into_iter()
            .enumerate()
            .filter(|(index, _)| *index != 2)
            .map(|(_, frame)| frame)
            .collect::<Vec<_>>()
    );
    switch.stop();
}

// Report A49.
#[test]
fn mirrors_see_flows_that_were_there_before() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 3);
    switch.set_rules(&["in_port=1,actions=output:2"]);
    let packet = [tcp(1, 2, "ack")];
    for _ in 0..3 {
        switch.receive(1, &packet);
    }
    assert_eq!(switch.counts(), [0, 3, 0]);
    directory
        .vsctl_script(
            "set bridge br0 mirrors=@m
             --id=@out get port p3
             --id=@m create mirror name=m select_all=true output_port=@out",
        )
        .ok();
    switch.run(&["revalidator/wait"]);
    switch.receive(1, &packet);
    assert_eq!(switch.counts(), [0, 4, 1]);
    directory.vsctl(&["clear", "bridge", "br0", "mirrors"]).ok();
    switch.run(&["revalidator/wait"]);
    switch.receive(1, &packet);
    assert_eq!(switch.counts(), [0, 5, 1]);
    switch.stop();
}

// CVE-2022-32166.
#[test]
fn strict_removal_compares_whole_matches() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    let rule = "cookie=0x77, priority=500,icmp actions=drop";
    switch.set_rules(&["cookie=0x77,priority=500,icmp,actions=drop"]);
    switch.ofctl(&["--strict", "del-flows", "br0", "cookie=0x77/-1,priority=500"]).ok();
    let shown = switch.ofctl(&["--no-stats", "dump-flows", "br0"]).ok();
    assert_eq!(shown.trim(), rule);
    switch.receive(1, &[ip(1) + ",icmp(type=8,code=0)"]);
    switch.ofctl(&["--strict", "del-flows", "br0", "cookie=0x77/-1,priority=500,icmp"]).ok();
    assert_eq!(switch.ofctl(&["--no-stats", "dump-flows", "br0"]).ok(), "");
    switch.stop();
}
