//! A switch whose ports are dummies: packets come by command, and what leaves is captured.

use netdev::pcap::PcapReader;
use serde_json::Value;

use crate::{Daemon, Directory, Output};

/// A daemon with bridge `br0` on the datapath of dummies. The bridge has no rules.
#[derive(Debug)]
pub struct Dummies<'a> {
    /// Where the daemon lives.
    pub directory: &'a Directory,
    /// The switch.
    pub daemon: Daemon<'a>,
}

impl<'a> Dummies<'a> {
    /// Ports `p1` to `pN`, whose OpenFlow numbers are 1 to N.
    #[track_caller]
    pub fn new(directory: &'a Directory, ports: u32) -> Self {
        let daemon = Daemon::start(directory, &[]);
        let mut script =
            "add-br br0\nset bridge br0 datapath_type=dummy fail_mode=secure\n".to_owned();
        for port in 1..=ports {
            let capture = directory.path(format!("p{port}.pcap"));
            let capture = capture.display();
            script += &format!(
                "add-port br0 p{port}\n\
                 set interface p{port} type=dummy ofport_request={port} options:tx_pcap={capture}\n"
            );
        }
        directory.vsctl_script(&script).ok();
        Self { directory, daemon }
    }

    /// Runs `ovs-ofctl ARGS`, where version 1.5 may be spoken.
    #[track_caller]
    pub fn ofctl(&self, args: &[&str]) -> Output {
        let versions = ["-O", "OpenFlow10,OpenFlow13,OpenFlow15"];
        Output::of(self.directory.command("ovs-ofctl").args(versions).args(args))
    }

    /// Replaces all rules.
    #[track_caller]
    pub fn set_rules(&self, rules: &[&str]) {
        self.directory.write("rules", rules.join("\n"));
        let file = self.directory.path("rules");
        let file = file.to_str().expect("a path of text");
        self.ofctl(&["replace-flows", "br0", file]).ok();
    }

    /// Runs a command of the daemon and returns what it printed.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> String {
        self.daemon.appctl(args).ok()
    }

    /// What a command says in JSON.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.directory.sluice_appctl(&[&["--format", "json"][..], args].concat()).ok();
        serde_json::from_str(&text).expect("JSON")
    }

    /// Has a port receive packets, each in hexadecimal or as the flow that it belongs to.
    #[track_caller]
    pub fn receive<T: AsRef<str>>(&self, port: u32, packets: &[T]) {
        let port = format!("p{port}");
        for packets in packets.chunks(100) {
            let packets = packets.iter().map(T::as_ref);
            let command: Vec<_> =
                ["netdev-dummy/receive", &port].into_iter().chain(packets).collect();
            assert_eq!(self.daemon.appctl(&command).ok(), "");
        }
    }

    /// The frames that have left by a port.
    #[track_caller]
    pub fn sent(&self, port: u32) -> Vec<Vec<u8>> {
        let capture = PcapReader::open(&self.directory.path(format!("p{port}.pcap")));
        let frames = capture.expect("a capture").map(|frame| frame.expect("a whole capture").bytes);
        frames.collect()
    }

    /// How many frames have left by each of the ports 1 to N.
    #[track_caller]
    pub fn counts<const N: usize>(&self) -> [usize; N] {
        std::array::from_fn(|index| self.sent(index as u32 + 1).len())
    }

    /// The flows of the datapath without their counters, sorted: `KEY actions:ACTIONS`.
    #[track_caller]
    pub fn flows(&self) -> Vec<String> {
        let text = self.run(&["dpctl/dump-flows"]);
        let lines = text.lines().filter(|line| !line.starts_with("flow-dump from "));
        let mut flows: Vec<_> = lines
            .map(|line| {
                let (key, rest) = line.split_once(", packets:").expect("a flow");
                let (_, actions) = rest.split_once(", actions:").expect("actions");
                format!("{key} actions:{actions}")
            })
            .collect();
        flows.sort();
        flows
    }

    /// Checks that the switch still forwards, and ends it.
    #[track_caller]
    pub fn stop(self) {
        self.set_rules(&["actions=IN_PORT"]);
        let before = self.sent(1).len();
        self.receive(
            1,
            &["in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x1234)"],
        );
        assert_eq!(self.sent(1).len(), before + 1);
        self.daemon.stop();
    }
}
