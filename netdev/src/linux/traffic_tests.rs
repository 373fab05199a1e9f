//! Traffic through kernel devices, between hosts in network namespaces of their own. Needs root.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::links::Links;
use super::port::KernelPort;
use super::system_queue::SystemTxQueue;
use super::tap::Tap;
use super::tap_queue::TapRxQueue;
use super::tests::{Namespace, in_namespace, ip};
use super::{ioctl, netlink};
use crate::ethernet_address::EthernetAddress;
use crate::offload::TransmitOffloads;
use crate::packet::{Batch, Checksum, FramePool, Layer, Packet, Segmentation, VlanTag};
use crate::port::Port;
use crate::queue::{RxQueue, SendReport, TxQueue};
use crate::sample::{Kind, Sample};
use crate::transmit;

/// A test that takes longer than this hangs.
const LIMIT: Duration = Duration::from_secs(20);
const FRAMES: u32 = 4096;

/// What the wire saw pass.
#[derive(Debug, Default)]
struct Seen {
    /// Packets longer than any frame on the wire.
    large: u64,
    partial: u64,
    longest: usize,
    report: SendReport,
}

/// A transmit queue that leaves nothing to the device.
struct Plain(Box<dyn TxQueue>);

impl TxQueue for Plain {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        for packet in batch.iter() {
            let descriptor = packet.descriptor();
            assert_eq!(descriptor.segmentation, Segmentation::None);
            assert_ne!(descriptor.checksum(Layer::Transport), Checksum::Partial);
        }
        self.0.send(batch)
    }

    fn offloads(&self) -> TransmitOffloads {
        TransmitOffloads::empty()
    }
}

/// Two ports whose traffic goes from one to the other.
struct Wire {
    pool: Arc<FramePool>,
    ends: Vec<(Box<dyn RxQueue>, Box<dyn TxQueue>)>,
}

impl Wire {
    fn new(ports: &mut [KernelPort; 2], is_plain: bool) -> Self {
        let pool = FramePool::new(FRAMES).unwrap();
        let ends = ports
            .iter_mut()
            .map(|port| {
                port.set_admin_up(true).unwrap();
                let transmit = port.open_tx(0).unwrap();
                let transmit = if is_plain { Box::new(Plain(transmit)) } else { transmit };
                (port.open_rx(0, &pool).unwrap(), transmit)
            })
            .collect();
        Self { pool, ends }
    }

    /// Carries traffic both ways until `is_done`.
    fn carry(mut self, is_done: &AtomicBool) -> Seen {
        let started = Instant::now();
        let mut seen = Seen::default();
        let mut batch = Batch::new(&self.pool);
        while !is_done.load(Ordering::Relaxed) && started.elapsed() < LIMIT {
            for (from, to) in [(0, 1), (1, 0)] {
                if self.ends[from].0.receive(&mut batch).unwrap() == 0 {
                    continue;
                }
                for packet in batch.iter() {
                    let descriptor = packet.descriptor();
                    let is_large = descriptor.segmentation != Segmentation::None;
                    seen.large += u64::from(is_large);
                    let checksum = descriptor.checksum(Layer::Transport);
                    seen.partial += u64::from(checksum == Checksum::Partial);
                    seen.longest = seen.longest.max(packet.len());
                }
                seen.report += transmit::send(&mut *self.ends[to].1, &mut batch);
            }
        }
        assert!(started.elapsed() < LIMIT, "the hosts did not finish");
        drop((batch, self.ends));
        let counts = self.pool.counts();
        assert_eq!((counts.held, counts.shared + counts.cached), (0, FRAMES as usize));
        seen
    }
}

/// Bytes of a stream, which do not repeat too soon.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A host in a namespace of its own with device `eth0` and addresses that end in `number`.
struct Host {
    namespace: Namespace,
    number: u8,
}

impl Host {
    /// A host that is the other end of `port`.
    fn beyond(port: &str, number: u8, mtu: u32) -> Self {
        let namespace = Namespace::new(&format!("h{number}"));
        let name = &namespace.0;
        ip(&format!("link add {port} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {name}"));
        ip(&format!("-n {name} addr add 192.0.2.{number}/24 dev eth0"));
        ip(&format!("-n {name} addr add 2001:db8::{number}/64 dev eth0 nodad"));
        ip(&format!("-n {name} link set eth0 up"));
        Self { namespace, number }
    }

    fn addresses(&self) -> [IpAddr; 2] {
        let number = self.number;
        [format!("192.0.2.{number}"), format!("2001:db8::{number}")]
            .map(|text| text.parse().unwrap())
    }

    fn run(&self, command: &str) -> String {
        let arguments = format!("netns exec {} {command}", self.namespace.0);
        let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command}: {text}");
        text
    }

    /// How often the host found a bad checksum, by protocol.
    fn checksum_errors(&self) -> Vec<u64> {
        // A line of names, then one of numbers.
        let text = self.run("cat /proc/net/snmp");
        let lines: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let pairs = lines.chunks(2).flat_map(|pair| pair[0].iter().zip(&pair[1]));
        let mut errors: Vec<u64> = pairs
            .filter(|(name, _)| **name == "InCsumErrors")
            .map(|(_, count)| count.parse().unwrap())
            .collect();
        // A name and a number to the line.
        let text = self.run("cat /proc/net/snmp6");
        let lines = text.lines().filter_map(|line| line.split_once("InCsumErrors"));
        errors.extend(lines.map(|(_, count)| count.trim().parse::<u64>().unwrap()));
        errors
    }

    fn assert_no_checksum_errors(&self) {
        let errors = self.checksum_errors();
        assert!(errors.len() > 4 && errors.iter().all(|count| *count == 0), "{errors:?}");
    }
}

/// Sends `length` bytes there and back by TCP, over IPv4 and IPv6.
fn transfer(client: &Host, server: &Host, length: usize) {
    for address in server.addresses() {
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                server.namespace.enter();
                let listener = TcpListener::bind(SocketAddr::new(address, 5001)).unwrap();
                ready.send(()).unwrap();
                let mut stream = accept(&listener);
                let mut bytes = vec![];
                stream.read_to_end(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
            });
            scope.spawn(move || {
                client.namespace.enter();
                is_ready.recv().unwrap();
                let server = SocketAddr::new(address, 5001);
                let mut stream = TcpStream::connect_timeout(&server, LIMIT).unwrap();
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                let sent = pattern(length);
                stream.write_all(&sent).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut back = vec![];
                stream.read_to_end(&mut back).unwrap();
                assert!(sent == back, "{} bytes came back of {length}", back.len());
            });
        });
    }
}

/// Accepts one connection, but does not wait for it for ever.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let started = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                return stream;
            }
            Err(error) => {
                assert!(error.kind() == std::io::ErrorKind::WouldBlock, "{error}");
                assert!(started.elapsed() < LIMIT, "nobody connects");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Carries the traffic of hosts while they do what `talk` says.
fn while_carrying(wire: Wire, talk: impl FnOnce() + Send) -> Seen {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let talker = scope.spawn(|| {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(talk));
            is_done.store(true, Ordering::Relaxed);
            ended.unwrap();
        });
        let seen = wire.carry(&is_done);
        talker.join().unwrap();
        seen
    })
}

fn veths(name: &str, mtu: u32, test: impl FnOnce([Host; 2], [KernelPort; 2]) + Send) {
    in_namespace(name, || {
        let hosts = [Host::beyond("p1", 1, mtu), Host::beyond("p2", 2, mtu)];
        let links = Links::default();
        let ports = ["p1", "p2"].map(|port| KernelPort::open_system(&links, port).unwrap());
        test(hosts, ports);
    });
}

fn dropped(report: SendReport) -> SendReport {
    SendReport { sent: 0, ..report }
}

#[test]
fn tcp_and_large_pings_pass_between_hosts_with_default_offloads() {
    veths("veth", 1500, |hosts, mut ports| {
        let [client, server] = &hosts;
        let seen = while_carrying(Wire::new(&mut ports, false), || {
            transfer(client, server, 4 << 20);
            client.run("ping -c 2 -i 0.2 -W 5 -s 30000 192.0.2.2");
            client.run("ping -c 2 -i 0.2 -W 5 -s 30000 2001:db8::2");
        });
        assert!(seen.large > 0 && seen.partial > 0 && seen.longest > 10_000, "{seen:?}");
        assert_eq!(dropped(seen.report), SendReport::default());
        for host in &hosts {
            host.assert_no_checksum_errors();
        }
    });
}

#[test]
fn software_segments_and_checksums_convince_the_kernel() {
    veths("plain", 1500, |hosts, mut ports| {
        let [client, server] = &hosts;
        let seen = while_carrying(Wire::new(&mut ports, true), || {
            transfer(client, server, 4 << 20);
        });
        assert!(seen.large > 0 && seen.longest > 10_000, "{seen:?}");
        assert_eq!(dropped(seen.report), SendReport::default());
        for host in &hosts {
            host.assert_no_checksum_errors();
        }
    });
}

#[test]
fn jumbo_frames_pass() {
    veths("jumbo", 9000, |hosts, mut ports| {
        let [client, server] = &hosts;
        for is_plain in [false, true] {
            let seen = while_carrying(Wire::new(&mut ports, is_plain), || {
                transfer(client, server, 1 << 20);
                client.run("ping -c 1 -W 5 -M do -s 8972 192.0.2.2");
                client.run("ping -c 1 -W 5 -s 30000 192.0.2.2");
            });
            assert!(seen.longest > 9014, "{seen:?}");
            assert_eq!(dropped(seen.report), SendReport::default());
        }
    });
}

#[test]
fn taps_carry_what_veths_do() {
    in_namespace("tap-traffic", || {
        let client = Host::beyond("p1", 1, 1500);
        // The other host is the namespace of the test.
        let links = Links::default();
        for (queues, is_plain) in [("1", false), ("3", false), ("1", true)] {
            let mut tap = KernelPort::open_tap(&links, "t1").unwrap();
            tap.set_options(&[("n_rxq".to_owned(), queues.to_owned())].into()).unwrap();
            assert_eq!(tap.rx_queues().to_string(), queues);
            // The client remembers the address from one time to the next.
            tap.set_ethernet_address(EthernetAddress([2, 0, 0, 0, 0, 2])).unwrap();
            let server = Host { namespace: Namespace::new("h2"), number: 2 };
            // Queues stay with the device wherever it goes.
            let mut ports = [KernelPort::open_system(&links, "p1").unwrap(), tap];
            let mut wire = Wire::new(&mut ports, is_plain);
            let all = 0..ports[1].rx_queues();
            let all = all.map(|queue| ports[1].open_rx(queue, &wire.pool).unwrap()).collect();
            wire.ends[1].0 = Box::new(Queues(all));
            let name = &server.namespace.0;
            ip(&format!("link set t1 netns {name}"));
            ip(&format!("-n {name} addr add 192.0.2.2/24 dev t1"));
            ip(&format!("-n {name} addr add 2001:db8::2/64 dev t1 nodad"));
            ip(&format!("-n {name} link set t1 up"));
            let seen = while_carrying(wire, || {
                transfer(&client, &server, 4 << 20);
                client.run("ping -c 1 -W 5 -s 30000 192.0.2.2");
            });
            assert!(seen.large > 0 && seen.partial > 0 && seen.longest > 10_000, "{seen:?}");
            assert_eq!(dropped(seen.report), SendReport::default());
            for host in [&client, &server] {
                host.assert_no_checksum_errors();
            }
        }
    });
}

/// As an operator gives a container a port: the device goes to another namespace, may have other
/// settings there, and comes back.
#[test]
fn taps_carry_traffic_from_other_namespaces() {
    in_namespace("moved", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let links = Links::default();
        let pool = FramePool::new(FRAMES).unwrap();
        let mut port = KernelPort::open_internal(&links, "t1").unwrap();
        let mut sending = port.open_tx(0).unwrap();
        let mut receiving = port.open_rx(0, &pool).unwrap();
        let mut send = |length| {
            let frame = Sample::new(false, Kind::Udp, vec![1; length]).frame();
            let mut batch = Batch::new(&pool);
            batch.push(pool.packet_with(&frame).unwrap()).unwrap();
            transmit::send(&mut *sending, &mut batch)
        };
        let sent = SendReport { sent: 1, ..SendReport::default() };
        let lost = SendReport { device_error: 1, ..SendReport::default() };
        let container = Namespace::new("container");
        let follow = async {
            let before = port.change_sequence();
            ip(&format!("link set t1 netns {}", container.0));
            while port.ifindex().is_some() {
                links.changed().await;
            }
            assert!(port.change_sequence() > before);
            // A device of the same name is another one.
            ip("link add t1 mtu 1300 type veth peer name t2");
            ip("link del t1");
            assert_eq!(send(100), lost, "it was set down when it moved");
            ip(&format!("-n {} link set t1 mtu 9000 up", container.0));
            assert_eq!(send(5000), sent);
            assert_eq!((port.mtu(), port.admin_up(), port.carrier()), (Ok(1500), Ok(true), true));
            assert_eq!(
                port.set_mtu(1400).unwrap_err().to_string(),
                "t1: could not set MTU to 1400 (Operation not supported)"
            );
            ip(&format!("-n {} address add 10.1.1.1/24 dev t1", container.0));
            let ping = format!("netns exec {} ping -c 1 -W 0.1 10.1.1.2", container.0);
            let _ = Command::new("ip").args(ping.split_whitespace()).output();
            let mut batch = Batch::new(&pool);
            let asks = |batch: &Batch| {
                batch.iter().any(|packet| packet.data().get(12..14) == Some(&[8, 6]))
            };
            while !asks(&batch) {
                batch.clear();
                receiving.receive(&mut batch).unwrap();
            }
            let statistics = port.statistics().unwrap();
            assert_eq!((statistics.tx_packets, statistics.tx_bytes), (Some(1), Some(5042)));
            assert!(statistics.rx_packets > Some(0));
            assert_eq!((statistics.tx_dropped, statistics.rx_errors), (Some(1), Some(0)));

            let here = rustix::thread::gettid().as_raw_nonzero();
            ip(&format!("-n {} link set t1 netns {here}", container.0));
            while port.ifindex().is_none() {
                links.changed().await;
            }
            assert_eq!((port.mtu(), port.admin_up()), (Ok(9000), Ok(false)));
            port.set_admin_up(true).unwrap();
            assert_eq!(send(100), sent);
        };
        runtime.block_on(async {
            tokio::select! {
                ended = links.watch() => panic!("{ended:?}"),
                () = follow => {}
            }
        });
    });
}

/// Several receive queues as one.
struct Queues(Vec<Box<dyn RxQueue>>);

impl RxQueue for Queues {
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, crate::queue::QueueError> {
        self.0.iter_mut().map(|queue| queue.receive(batch)).sum()
    }

    fn wait_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// Receives until `count` packets are there.
fn receive(queue: &mut dyn RxQueue, pool: &Arc<FramePool>, count: usize) -> Vec<Packet> {
    let started = Instant::now();
    let mut packets = vec![];
    while packets.len() < count && started.elapsed() < LIMIT {
        let mut batch = Batch::new(pool);
        queue.receive(&mut batch).unwrap();
        packets.extend(std::iter::from_fn(|| batch.remove(0)));
    }
    packets
}

fn bytes(packet: &Packet) -> Vec<u8> {
    packet.view().segments().collect::<Vec<_>>().concat()
}

/// Waits until the kernel lets frames pass, which is some time after devices are up.
fn wait_until_running<const N: usize>(names: [&str; N]) {
    let started = Instant::now();
    while !names.iter().all(|name| netlink::link(name).unwrap().is_running) {
        assert!(started.elapsed() < LIMIT, "{names:?} do not run");
        std::thread::yield_now();
    }
}

fn pair(name: &str, test: impl FnOnce(&Links, [KernelPort; 2], &Arc<FramePool>) + Send) {
    in_namespace(name, || {
        // Nothing but the test is to send.
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        ip("link add p1 type veth peer name p2");
        let links = Links::default();
        let ports = ["p1", "p2"].map(|name| {
            let mut port = KernelPort::open_system(&links, name).unwrap();
            port.set_admin_up(true).unwrap();
            port
        });
        wait_until_running(["p1", "p2"]);
        let pool = FramePool::new(FRAMES).unwrap();
        test(&links, ports, &pool);
        assert_eq!(pool.counts().held, 0);
    });
}

#[test]
fn tags_travel_beside_the_frame() {
    pair("vlan", |_, [mut p1, mut p2], pool| {
        let mut receiving = p2.open_rx(0, pool).unwrap();
        let mut sending = p1.open_tx(0).unwrap();
        let payload = Sample::new(false, Kind::Udp, vec![1; 100]);
        let tagged = |tags: &[(u16, u16)]| Sample { tags: tags.to_vec(), ..payload.clone() };
        let outer = VlanTag { tpid: 0x8100, tci: 0x2064 };
        let service = VlanTag { tpid: 0x88a8, tci: 0x0fff };
        let zero = VlanTag { tpid: 0x8100, tci: 0 };
        let mut batch = Batch::new(pool);
        let cases = [
            (payload.frame(), None, (payload.frame(), None)),
            (payload.frame(), Some(outer), (payload.frame(), Some(outer))),
            (tagged(&[(0x8100, 0x2064)]).frame(), None, (payload.frame(), Some(outer))),
            (payload.frame(), Some(zero), (payload.frame(), Some(zero))),
            (
                tagged(&[(0x8100, 7)]).frame(),
                Some(service),
                (tagged(&[(0x8100, 7)]).frame(), Some(service)),
            ),
        ];
        for (frame, tag, _) in &cases {
            let mut packet = pool.packet_with(frame).unwrap();
            packet.view_mut().descriptor_mut().set_vlan(*tag);
            batch.push(packet).unwrap();
        }
        let report = transmit::send(&mut *sending, &mut batch);
        assert_eq!(report, SendReport { sent: 5, ..SendReport::default() });
        let found: Vec<_> = receive(&mut *receiving, pool, 5)
            .iter()
            .map(|packet| (bytes(packet), packet.view().descriptor().vlan()))
            .collect();
        assert_eq!(found, cases.map(|(_, _, expected)| expected));
    });
}

#[test]
fn frames_have_to_fit_the_mtu() {
    pair("mtu", |_, [mut p1, mut p2], pool| {
        let mut receiving = p2.open_rx(0, pool).unwrap();
        let mut sending = p1.open_tx(0).unwrap();
        let tcp = Kind::Tcp { sequence: 0, flags: 0x10, option_words: 0 };
        let udp = |length| Sample::new(false, Kind::Udp, vec![1; length]);
        let tagged = |length| Sample { tags: vec![(0x8100, 7)], ..udp(length) };
        let large = Sample::new(false, tcp, vec![2; 4000]);
        let mut batch = Batch::new(pool);
        let mut push = |sample: &Sample, size: Option<u16>| {
            let mut packet = pool.packet_with(&sample.frame()).unwrap();
            if let Some(size) = size {
                let mut view = packet.view_mut();
                let descriptor = view.descriptor_mut();
                descriptor.segmentation = Segmentation::TcpIpv4;
                descriptor.segment_size = size;
                descriptor.set_checksum(Layer::Transport, Checksum::Partial);
            }
            batch.push(packet).unwrap();
        };
        push(&udp(1472), None);
        push(&udp(1473), None);
        push(&tagged(1472), None);
        push(&tagged(1473), None);
        push(&udp(4000), None);
        push(&large, Some(1460));
        push(&large, Some(1461));
        let report = transmit::send(&mut *sending, &mut batch);
        assert_eq!(report, SendReport { sent: 3, mtu_exceeded: 4, ..SendReport::default() });
        let found = receive(&mut *receiving, pool, 3);
        let lengths: Vec<_> = found.iter().map(|packet| packet.view().len()).collect();
        assert_eq!(lengths, [1514, 1514, 4054]);
        let statistics = p1.statistics().unwrap();
        let named: Vec<_> = statistics.named().collect();
        for expected in [
            ("tx_packets", 3),
            ("tx_dropped", 4),
            ("ovs_tx_mtu_exceeded_drops", 4),
            ("ovs_tx_failure_drops", 0),
            ("ovs_tx_invalid_hwol_drops", 0),
        ] {
            assert!(named.contains(&expected), "{expected:?} in {named:?}");
        }
    });
}

#[test]
fn packets_lost_in_the_socket_are_counted() {
    pair("lost", |_, [mut p1, mut p2], pool| {
        let mut receiving = p2.open_rx(0, pool).unwrap();
        let mut sending = p1.open_tx(0).unwrap();
        let frame = Sample::new(false, Kind::Udp, vec![1; 1400]).frame();
        let mut sent = 0;
        for _ in 0..1000 {
            let mut batch = Batch::new(pool);
            while batch.push(pool.packet_with(&frame).unwrap()).is_ok() {}
            sent += sending.send(&mut batch).sent;
        }
        // More than the socket holds. Those in it are received still.
        let mut received = 0;
        let mut batch = Batch::new(pool);
        while receiving.receive(&mut batch).unwrap() > 0 {
            received += batch.len() as u64;
            batch.clear();
        }
        let lost = p2.statistics().unwrap().custom.into_iter().find(|(n, _)| n == "ovs_rx_dropped");
        assert_eq!(lost, Some(("ovs_rx_dropped".to_owned(), sent - received)));
        assert!(received < sent, "{received} of {sent}");
    });
}

#[test]
fn devices_may_go_down_and_away() {
    pair("gone", |links, [mut p1, mut p2], pool| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut receiving = p1.open_rx(0, pool).unwrap();
        let mut sending = p1.open_tx(0).unwrap();
        let mut tap = KernelPort::open_tap(links, "t1").unwrap();
        let mut to_tap = tap.open_tx(0).unwrap();
        let frame = Sample::new(false, Kind::Udp, vec![1; 100]).frame();
        let send = |queue: &mut dyn TxQueue| {
            let mut batch = Batch::new(pool);
            batch.push(pool.packet_with(&frame).unwrap()).unwrap();
            let report = queue.send(&mut batch);
            assert!(batch.is_empty());
            report
        };
        let lost = SendReport { device_error: 1, ..SendReport::default() };
        let sent = SendReport { sent: 1, ..SendReport::default() };
        // A tap starts down.
        assert_eq!(send(&mut *to_tap), lost);
        tap.set_admin_up(true).unwrap();
        assert_eq!(send(&mut *to_tap), sent);
        assert_eq!(send(&mut *sending), sent);
        p1.set_admin_up(false).unwrap();
        assert_eq!(send(&mut *sending), lost);
        let mut batch = Batch::new(pool);
        for _ in 0..3 {
            assert_eq!(receiving.receive(&mut batch), Ok(0));
        }
        p1.set_admin_up(true).unwrap();
        wait_until_running(["p1", "p2"]);
        assert_eq!(send(&mut *sending), sent);
        // What comes in is received again.
        assert_eq!(send(&mut *p2.open_tx(0).unwrap()), sent);
        let found = receive(&mut *receiving, pool, 1);
        assert_eq!(found.iter().map(bytes).collect::<Vec<_>>(), std::slice::from_ref(&frame));

        let watch = async {
            ip("link del p1");
            while p1.ifindex().is_some() {
                links.changed().await;
            }
            ip("link add p1 type veth peer name p2");
            while p1.ifindex().is_none() {
                links.changed().await;
            }
        };
        runtime.block_on(async {
            tokio::select! {
                ended = links.watch() => panic!("{ended:?}"),
                () = watch => {}
            }
        });
        // The new device is another one.
        p1.set_admin_up(true).unwrap();
        ip("link set p2 up");
        wait_until_running(["p1", "p2"]);
        for _ in 0..2 {
            assert_eq!(
                receiving.receive(&mut batch).unwrap_err().to_string(),
                "p1: could not receive from queue 0 (No such device)"
            );
            assert_eq!(send(&mut *sending), lost);
        }
        assert_eq!(send(&mut *p1.open_tx(0).unwrap()), sent);
        assert_eq!(p1.open_rx(0, pool).unwrap().receive(&mut batch), Ok(0));
        assert_eq!(
            p1.open_rx(1, pool).err().unwrap().to_string(),
            "p1: could not read receive queue (No such device)"
        );
    });
}

#[test]
fn software_cuts_as_the_kernel_does() {
    in_namespace("kernel-cut", || {
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        let links = Links::default();
        // A tap that takes nothing large and nothing partial: what the host sends through it is
        // cut by the kernel.
        let tap = Tap::open("t1", false).unwrap();
        let file = tap.queue(0).unwrap();
        ioctl::set_offloads(file, 0).unwrap();
        ip("link set t1 up");
        wait_until_running(["t1"]);
        let device = links.open("t1", tap.queue(0)).unwrap();
        let pool = FramePool::new(FRAMES).unwrap();
        let counters = Arc::default();
        let mut receiving = TapRxQueue::open(&device, file, 0, &counters, &pool);
        let mut sending = SystemTxQueue::open(&device, &counters).unwrap();
        let kinds = [0x10, 0x18, 0x19, 0x98, 0xd8].map(|flags| Kind::Tcp {
            sequence: 0xffff_fc00,
            flags,
            option_words: 3,
        });
        let kinds = kinds.into_iter().chain([Kind::Udp]);
        for (kind, is_ipv6) in kinds.flat_map(|kind| [(kind, false), (kind, true)]) {
            for (length, size) in [(20_000, 1400), (2800, 1400), (2801, 1400), (60_000, 1000)] {
                let mut sample = Sample::new(is_ipv6, kind, pattern(length));
                sample.ip_options = if is_ipv6 { 0 } else { 1 };
                let large = || {
                    let mut packet = pool.packet_with(&sample.frame()).unwrap();
                    let mut view = packet.view_mut();
                    let descriptor = view.descriptor_mut();
                    descriptor.segmentation = match (kind, is_ipv6) {
                        (Kind::Udp, _) => Segmentation::Udp,
                        (_, false) => Segmentation::TcpIpv4,
                        (_, true) => Segmentation::TcpIpv6,
                    };
                    descriptor.segment_size = size;
                    let mut batch = Batch::new(&pool);
                    batch.push(packet).unwrap();
                    batch
                };
                let count = length.div_ceil(usize::from(size));
                let sent = sending.send(&mut large());
                assert_eq!(sent, SendReport { sent: 1, ..SendReport::default() });
                let by_kernel = receive(&mut receiving, &pool, count);
                let by_kernel: Vec<_> = by_kernel.iter().map(bytes).collect();
                let mut by_us = Keep(vec![]);
                let sent = transmit::send(&mut by_us, &mut large());
                assert_eq!(sent, SendReport { sent: count as u64, ..SendReport::default() });
                assert!(by_kernel == by_us.0, "{kind:?} {is_ipv6} {length} {size}");
            }
        }
    });
}

/// Keeps what it is sent.
struct Keep(Vec<Vec<u8>>);

impl TxQueue for Keep {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let report = SendReport { sent: batch.len() as u64, ..SendReport::default() };
        self.0.extend(std::iter::from_fn(|| batch.remove(0)).map(|packet| bytes(&packet)));
        report
    }

    fn offloads(&self) -> TransmitOffloads {
        TransmitOffloads::empty()
    }
}
