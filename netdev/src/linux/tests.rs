//! Ports on real devices. Each test has a network namespace of its own, for which it needs root.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::links::Links;
use super::port::KernelPort;
use crate::ethernet_address::EthernetAddress;
use crate::features::{Duplex, Features, LinkFeatures, LinkSpeed};
use crate::port::Port;

pub(crate) fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

pub(crate) struct Namespace(pub(crate) String);

impl Namespace {
    pub(super) fn new(name: &str) -> Self {
        let name = format!("sluice-{}-{name}", std::process::id());
        ip(&format!("netns add {name}"));
        Self(name)
    }

    /// Moves the calling thread into the namespace.
    pub(super) fn enter(&self) {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.0));
    }
}

/// Runs `test` in a network namespace that is gone afterwards.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is to know what was skipped")]
pub(crate) fn in_namespace(name: &str, test: impl FnOnce() + Send) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a network namespace needs root");
        return;
    }
    let namespace = Namespace::new(name);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            namespace.enter();
            test();
        });
        thread.join().unwrap();
    });
}

/// Whether the namespace has device `name`.
fn exists(name: &str) -> bool {
    Command::new("ip").args(["link", "show", name]).output().unwrap().status.success()
}

fn error<T>(result: Result<T, crate::port::PortError>) -> String {
    result.err().unwrap().to_string()
}

fn status(driver: &str, true_keys: &[&str], more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let offloads = [
        "tx_geneve_tso_offload",
        "tx_gre_tso_offload",
        "tx_ip_csum_offload",
        "tx_out_ip_csum_offload",
        "tx_out_udp_csum_offload",
        "tx_sctp_csum_offload",
        "tx_tcp_csum_offload",
        "tx_tcp_seg_offload",
        "tx_udp_csum_offload",
        "tx_vxlan_tso_offload",
    ];
    let offloads =
        offloads.map(|key| (key, if true_keys.contains(&key) { "true" } else { "false" }));
    let driver = [("driver_name", driver), ("driver_version", "1.0")];
    let pairs = offloads.iter().chain(&driver).chain(more);
    pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// What the kernel does for every device.
const OFFLOADS: [&str; 3] = ["tx_tcp_csum_offload", "tx_tcp_seg_offload", "tx_udp_csum_offload"];

#[test]
fn tap_devices_are_created_configured_and_removed() {
    in_namespace("tap", || {
        let links = Links::default();
        let mut port = KernelPort::open_tap(&links, "p1").unwrap();
        assert_eq!((port.name(), port.port_type()), ("p1", "tap"));
        assert_eq!(port.mtu(), Ok(1500));
        assert_eq!((port.admin_up(), port.carrier(), port.carrier_resets()), (Ok(false), false, 0));
        assert!(port.ifindex().is_some());
        let firmware = port.status().remove("firmware_version").unwrap();
        let more = [("firmware_version", firmware.as_str())];
        let mut expected = status("tun", &OFFLOADS, &more);
        expected.insert("driver_version".to_owned(), "1.6".to_owned());
        assert_eq!(port.status(), expected);
        let statistics = port.statistics().unwrap();
        let counters: Vec<_> = statistics.named().collect();
        assert_eq!(counters.len(), 18);
        assert!(counters.iter().all(|(_, value)| *value == 0), "{counters:?}");

        let address = EthernetAddress([0xaa, 0x55, 0, 0, 0, 1]);
        let before = port.change_sequence();
        port.set_mtu(9000).unwrap();
        port.set_admin_up(true).unwrap();
        port.set_ethernet_address(address).unwrap();
        assert_eq!(port.change_sequence(), before + 3);
        assert_eq!((port.mtu(), port.ethernet_address()), (Ok(9000), Ok(address)));
        assert_eq!((port.admin_up(), port.carrier(), port.carrier_resets()), (Ok(true), true, 1));
        port.set_mtu(9000).unwrap();
        port.set_admin_up(true).unwrap();
        port.set_ethernet_address(address).unwrap();
        assert_eq!(port.change_sequence(), before + 3);
        assert_eq!(error(port.set_mtu(1)), "p1: could not set MTU to 1 (Invalid argument)");
        assert_eq!(
            error(port.set_ethernet_address(EthernetAddress([0xff; 6]))),
            "p1: could not set Ethernet address to ff:ff:ff:ff:ff:ff (Cannot assign requested \
             address)"
        );
        assert_eq!(
            error(KernelPort::open_tap(&links, "p1")),
            "could not open network device p1 (Device or resource busy)"
        );
        drop(port);
        assert!(!exists("p1"));
    });
}

#[test]
fn internal_devices_outlive_a_restart_but_not_their_removal() {
    in_namespace("internal", || {
        let links = Links::default();
        let mut port = KernelPort::open_internal(&links, "br0").unwrap();
        let number = port.ifindex();
        port.set_mtu(1400).unwrap();
        port.leave_device_behind();
        drop(port);
        assert!(exists("br0"));
        let port = KernelPort::open_internal(&links, "br0").unwrap();
        assert_eq!((port.ifindex(), port.mtu(), port.port_type()), (number, Ok(1400), "internal"));
        drop(port);
        assert!(!exists("br0"));
    });
}

#[test]
fn taps_of_the_administrator_stay() {
    in_namespace("admin-tap", || {
        ip("tuntap add name p1 mode tap");
        drop(KernelPort::open_tap(&Links::default(), "p1").unwrap());
        assert!(exists("p1"));
        ip("link add veth0 type veth peer name veth1");
        assert_eq!(
            error(KernelPort::open_tap(&Links::default(), "veth0")),
            "could not open network device veth0 (Invalid argument)"
        );
    });
}

#[test]
fn system_devices_have_to_exist() {
    in_namespace("system", || {
        let links = Links::default();
        for (name, cause) in [
            ("p1", "No such device"),
            ("a234567890b23456", "File name too long"),
            ("all", "Invalid argument"),
            ("default", "Invalid argument"),
        ] {
            assert_eq!(
                error(KernelPort::open_system(&links, name)),
                format!("could not open network device {name} ({cause})")
            );
        }
        ip("link add p1 address aa:55:00:00:00:07 type veth peer name p2");
        let mut p1 = KernelPort::open_system(&links, "p1").unwrap();
        let mut p2 = KernelPort::open_system(&links, "p2").unwrap();
        assert_eq!(p1.ethernet_address().unwrap().to_string(), "aa:55:00:00:00:07");
        assert_eq!(p1.port_type(), "system");
        let peer = p2.ifindex().unwrap().to_string();
        let firmware = p1.status().remove("firmware_version").unwrap();
        let more = [("peer_ifindex", peer.as_str()), ("firmware_version", firmware.as_str())];
        assert_eq!(p1.status(), status("veth", &OFFLOADS, &more));
        assert_eq!(p1.speed(), Some(LinkSpeed { current: 10_000, max: 0 }));
        assert_eq!(p1.duplex(), Some(Duplex::Full));
        let current = Features::GBPS_10_FULL | Features::COPPER;
        assert_eq!(p1.features(), Ok(LinkFeatures { current, ..LinkFeatures::default() }));
        let statistics = p1.statistics().unwrap();
        let counters: Vec<_> = statistics.named().collect();
        assert_eq!(counters.len(), 18);
        assert!(counters.iter().all(|(_, value)| *value == 0), "{counters:?}");
        p1.set_admin_up(true).unwrap();
        assert_eq!((p1.admin_up(), p1.carrier()), (Ok(true), false));
        p2.set_admin_up(true).unwrap();
        assert_eq!((p2.admin_up(), p2.carrier()), (Ok(true), true));
    });
}

#[test]
fn changes_from_outside_are_noticed() {
    in_namespace("watch", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let links = Links::default();
        ip("link add p1 type veth peer name p2");
        let port = KernelPort::open_system(&links, "p1").unwrap();
        // Before the watch starts.
        ip("link set p1 mtu 1400");
        let until = async |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                links.changed().await;
            }
        };
        let scenario = async {
            until(&|| port.mtu() == Ok(1400)).await;
            let before = port.change_sequence();
            ip("link set p1 up");
            ip("link set p2 up");
            until(&|| port.carrier()).await;
            assert_eq!(port.admin_up(), Ok(true));
            assert_eq!(port.carrier_resets(), 1);
            assert!(port.change_sequence() > before);
            ip("link set p2 down");
            until(&|| !port.carrier()).await;
            assert_eq!(port.carrier_resets(), 2);

            ip("link set p1 down");
            ip("link set p1 name wan");
            until(&|| port.ifindex().is_none()).await;
            assert_eq!(error(port.mtu()), "p1: could not read MTU (No such device)");
            assert_eq!(error(port.statistics()), "p1: could not read statistics (No such device)");
            assert_eq!((port.carrier(), port.speed()), (false, None));
            ip("link set wan name p1");
            until(&|| port.ifindex().is_some()).await;
            assert_eq!(port.mtu(), Ok(1400));

            let number = port.ifindex();
            let before = port.change_sequence();
            ip("link del p1");
            until(&|| port.ifindex().is_none()).await;
            assert_eq!(port.change_sequence(), before + 1);
            ip("link add p1 type veth peer name p2");
            until(&|| port.ifindex().is_some()).await;
            assert_ne!(port.ifindex(), number);
            assert_eq!(port.mtu(), Ok(1500));
        };
        runtime.block_on(async {
            tokio::select! {
                ended = links.watch() => panic!("{ended:?}"),
                () = scenario => {}
            }
        });
    });
}
