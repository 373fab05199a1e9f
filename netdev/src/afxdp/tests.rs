//! Ports on real devices. Each test has a network namespace of its own, for which it needs root.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attachment::attach_stranger;
use super::port::AfxdpPort;
use super::ports::AfxdpPorts;
use crate::linux::links::Links;
use crate::linux::port::KernelPort;
use crate::linux::tests::{in_namespace, ip};
use crate::packet::{
    BATCH_SIZE, Batch, Checksum, FrameCounts, FramePool, Layer, PacketRef, VlanTag,
};
use crate::port::Port;
use crate::queue::{RxQueue, SendReport, TxQueue};
use crate::sample::{Kind, Sample};
use crate::transmit;

/// What waits longer than this does not come.
const LIMIT: Duration = Duration::from_secs(5);
const FRAMES: u32 = 4096;
const DESTINATION: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A pair of devices `v0` and `v1` that are up, and the AF_XDP ports of the process.
fn pair(mtu: u32) -> Arc<AfxdpPorts> {
    ip(&format!("link add v0 mtu {mtu} type veth peer name v1 mtu {mtu}"));
    ip("link set v0 up");
    ip("link set v1 up");
    Arc::new(AfxdpPorts::new(&Arc::<Links>::default()))
}

fn open(ports: &Arc<AfxdpPorts>, name: &str, pairs: &[(&str, &str)]) -> AfxdpPort {
    let mut port = AfxdpPort::open(ports, name, true).unwrap();
    port.set_options(&options(pairs)).unwrap();
    port
}

/// Both queues of a port.
struct Ends {
    receive: Box<dyn RxQueue>,
    send: Box<dyn TxQueue>,
}

fn ends(port: &mut dyn Port, pool: &Arc<FramePool>) -> Ends {
    let receive = port.open_rx(0, pool).unwrap();
    Ends { receive, send: port.open_tx(0).unwrap() }
}

fn batch_of(pool: &Arc<FramePool>, frames: &[Vec<u8>]) -> Batch {
    let mut batch = Batch::new(pool);
    for frame in frames {
        batch.push(pool.packet_with(frame).unwrap()).unwrap();
    }
    batch
}

/// Whether a packet is one of [`frame`], and not what the kernel says by itself.
fn is_ours(packet: &PacketRef<'_>) -> bool {
    packet.data().starts_with(&DESTINATION)
}

/// Receives until there are `count` packets of ours, and gives each to `look`.
fn receive(
    queue: &mut dyn RxQueue,
    pool: &Arc<FramePool>,
    count: usize,
    mut look: impl FnMut(PacketRef<'_>),
) {
    let start = Instant::now();
    let mut seen = 0;
    while seen < count {
        assert!(start.elapsed() < LIMIT, "{seen} of {count} packets came");
        let mut batch = Batch::new(pool);
        queue.receive(&mut batch).unwrap();
        for packet in batch.iter().filter(is_ours) {
            seen += 1;
            look(packet);
        }
    }
}

fn bytes(packet: PacketRef<'_>) -> Vec<u8> {
    packet.segments().collect::<Vec<_>>().concat()
}

/// A frame of an experimental protocol.
fn frame(length: usize, number: u8) -> Vec<u8> {
    let mut frame = [DESTINATION, [2, 0, 0, 0, 0, 2]].concat();
    frame.extend([0x88, 0xb5]);
    frame.extend((14..length).map(|place| (place as u8).wrapping_mul(31).wrapping_add(number)));
    frame
}

#[test]
fn frames_of_all_lengths_pass_byte_for_byte() {
    in_namespace("xdp-lengths", || {
        let ports = pair(9000);
        let pool = FramePool::new(FRAMES).unwrap();
        for mode in ["native", "generic"] {
            let mut port = open(&ports, "v0", &[("xdp-mode", mode)]);
            let mut peer = KernelPort::open_system(&Links::default(), "v1").unwrap();
            let (mut port, mut peer) = (ends(&mut port, &pool), ends(&mut peer, &pool));
            let lengths = (64..9015).step_by(211).chain([1791, 1792, 1793, 3584, 3585, 9014]);
            for length in lengths {
                let sent = frame(length, 7);
                let expected = SendReport { sent: 1, ..SendReport::default() };
                for (from, to) in
                    [(&mut port.send, &mut peer.receive), (&mut peer.send, &mut port.receive)]
                {
                    let mut batch = batch_of(&pool, std::slice::from_ref(&sent));
                    assert_eq!(transmit::send(&mut **from, &mut batch), expected, "{length}");
                    receive(&mut **to, &pool, 1, |packet| {
                        assert!(bytes(packet) == sent, "{length}")
                    });
                }
            }
        }
        let FrameCounts { total, held, .. } = pool.counts();
        assert_eq!((total, held), (FRAMES as usize, 0));
    });
}

/// A packet that was received in several frames goes out as it is.
#[test]
fn a_packet_passes_two_ports_without_a_copy() {
    in_namespace("xdp-forward", || {
        let ports = pair(9000);
        ip("link add w0 mtu 9000 type veth peer name w1 mtu 9000");
        ip("link set w0 up");
        ip("link set w1 up");
        let pool = FramePool::new(FRAMES).unwrap();
        let (mut first, mut second) = (open(&ports, "v0", &[]), open(&ports, "w0", &[]));
        let (mut first, mut second) = (ends(&mut first, &pool), ends(&mut second, &pool));
        let mut hosts = ["v1", "w1"].map(|name| {
            ends(&mut KernelPort::open_system(&Links::default(), name).unwrap(), &pool)
        });
        for length in [64, 1500, 9014] {
            let sent = frame(length, 9);
            let mut batch = batch_of(&pool, std::slice::from_ref(&sent));
            assert_eq!(hosts[0].send.send(&mut batch).sent, 1);
            let start = Instant::now();
            while batch.is_empty() {
                assert!(start.elapsed() < LIMIT);
                first.receive.receive(&mut batch).unwrap();
                while batch.get(0).is_some_and(|packet| !is_ours(&packet)) {
                    batch.remove(0);
                }
            }
            let pieces = batch.get(0).unwrap().segments().count();
            assert_eq!(pieces, length.div_ceil(1792));
            assert_eq!(second.send.send(&mut batch).sent, 1);
            receive(&mut *hosts[1].receive, &pool, 1, |packet| assert!(bytes(packet) == sent));
        }
        let shared = ports.frames();
        assert_eq!(shared.keys().collect::<Vec<_>>(), ["v0", "w0"]);
    });
}

#[test]
fn every_frame_is_accounted_for() {
    in_namespace("xdp-frames", || {
        let ports = pair(9000);
        let pool = FramePool::new(FRAMES).unwrap();
        let rings = [("n_rxq_desc", "512"), ("n_txq_desc", "64")];
        let (mut left, mut right) = (open(&ports, "v0", &rings), open(&ports, "v1", &rings));
        let mut left = ends(&mut left, &pool);
        let mut right = ends(&mut right, &pool);
        let (mut sent, mut received) = (0, 0);
        let mut pump = |left: &mut Ends, right: &mut Ends, number: u64| {
            let mut batch = Batch::new(&pool);
            for index in 0..BATCH_SIZE as u64 {
                let length = [64, 1500, 3000, 9014][(number + index) as usize % 4];
                if let Some(packet) = pool.packet_with(&frame(length, index as u8)) {
                    batch.push(packet).unwrap();
                }
            }
            sent += left.send.send(&mut batch).sent;
            let mut batch = Batch::new(&pool);
            right.receive.receive(&mut batch).unwrap();
            received += batch.len() as u64;
            // Some are dropped, some go back.
            while batch.len() > BATCH_SIZE / 2 {
                batch.remove(0);
            }
            let _ = right.send.send(&mut batch);
            let mut batch = Batch::new(&pool);
            left.receive.receive(&mut batch).unwrap();
        };
        for number in 0..300 {
            pump(&mut left, &mut right, number);
        }
        // Until nothing moves any more.
        let is_quiet = |counts: &super::SocketFrames| {
            (counts.received, counts.transmit, counts.completion, counts.driver) == (0, 0, 0, 0)
        };
        let start = Instant::now();
        while !ports.frames().values().flatten().all(is_quiet) {
            assert!(start.elapsed() < LIMIT, "{:?}", ports.frames());
            for end in [&mut left, &mut right] {
                end.receive.receive(&mut Batch::new(&pool)).unwrap();
            }
        }
        assert!(sent > 500 && received > 250, "{sent} sent, {received} received");
        let fill: u32 = ports.frames().values().flatten().map(|socket| socket.fill).sum();
        let counts = pool.counts();
        // Rings are filled in bulk.
        assert!(fill > 1024 - 64, "{fill}");
        assert_eq!((ports.lent_of(&pool), counts.held), (fill as usize, fill as usize));
        assert_eq!(counts.shared + counts.cached + counts.held, counts.total);
        drop((left, right));
        assert_eq!(pool.counts().held, 0);
    });
}

/// More than one call sends by default, then silence.
#[test]
fn a_burst_leaves_in_full() {
    in_namespace("xdp-burst", || {
        let ports = pair(1500);
        let pool = FramePool::new(FRAMES).unwrap();
        let mut port = open(&ports, "v0", &[]);
        let mut port = ends(&mut port, &pool);
        let mut peer = KernelPort::open_system(&Links::default(), "v1").unwrap();
        let mut peer = ends(&mut peer, &pool);
        for count in [32, 8] {
            let frames: Vec<_> = (0..count).map(|number| frame(100, number)).collect();
            assert_eq!(port.send.send(&mut batch_of(&pool, &frames)).sent, u64::from(count));
        }
        receive(&mut *peer.receive, &pool, 40, |packet| assert_eq!(packet.len(), 100));
    });
}

/// A tag that a bridge of the kernel has taken out of the frame, and the checksums of stations of
/// this host, which are left to be finished.
#[test]
fn what_is_not_in_the_frame_is_not_lost() {
    in_namespace("xdp-beside", || {
        let ports = pair(1500);
        let pool = FramePool::new(FRAMES).unwrap();
        ip("link add b0 type bridge");
        let mut tap = KernelPort::open_tap(&Links::default(), "t0").unwrap();
        for name in ["t0", "v1"] {
            ip(&format!("link set {name} master b0"));
        }
        ip("link set b0 up");
        tap.set_admin_up(true).unwrap();
        let mut tap = tap.open_tx(0).unwrap();
        let mut port = open(&ports, "v0", &[("xdp-mode", "native")]);
        let mut port = ends(&mut port, &pool);
        let sample = Sample::new(false, Kind::Udp, vec![3; 200]);
        let plain = sample.frame();
        let tag = VlanTag { tpid: 0x8100, tci: 0x6064 };
        let tagged = [&plain[..12], &[0x81, 0, 0x60, 0x64], &plain[12..]].concat();
        let mut batch = batch_of(&pool, &[tagged]);
        let start = Instant::now();
        // The bridge learns its ports' state first.
        let mut found = None;
        while found.is_none() {
            assert!(start.elapsed() < LIMIT);
            let mut copy = Batch::new(&pool);
            copy.push(pool.packet_with(&bytes(batch.get(0).unwrap())).unwrap()).unwrap();
            assert_eq!(tap.send(&mut copy).sent, 1);
            let mut arrived = Batch::new(&pool);
            port.receive.receive(&mut arrived).unwrap();
            let of_sample = |packet: &PacketRef<'_>| packet.data().starts_with(&plain[..12]);
            found = arrived
                .iter()
                .find(of_sample)
                .map(|packet| (packet.descriptor().vlan(), bytes(packet) == plain));
        }
        batch.clear();
        assert_eq!(found, Some((Some(tag), true)));
    });
}

#[test]
fn a_partial_checksum_is_recognised_and_finished() {
    let pool = FramePool::new(64).unwrap();
    for is_ipv6 in [false, true] {
        for kind in [Kind::Udp, Kind::Tcp { sequence: 1, flags: 0x18, option_words: 3 }] {
            let sample = Sample { is_ipv6, ..Sample::new(false, kind, vec![5; 333]) };
            let whole = sample.frame();
            let mut packet = pool.packet_with(&whole).unwrap();
            crate::checksum::detect_partial(&mut packet.view_mut());
            let state = packet.view().descriptor().checksum(Layer::Transport);
            assert_eq!(state, Checksum::Unknown);
            // As the kernel leaves it.
            let mut view = packet.view_mut();
            let (start, offset) =
                crate::checksum::prepare_for_device(&mut view, Layer::Transport).unwrap();
            crate::checksum::detect_partial(&mut view);
            let descriptor = view.view().descriptor();
            assert_eq!(descriptor.checksum(Layer::Transport), Checksum::Partial);
            let place = (descriptor.checksum_start, descriptor.checksum_offset);
            assert_eq!(place, (start, offset));
            crate::checksum::finish(&mut view, crate::offload::TransmitOffloads::empty()).unwrap();
            assert_eq!(bytes(packet.view()), whole);
        }
    }
}

#[test]
fn a_detached_program_is_attached_again() {
    in_namespace("xdp-detach", || {
        let ports = pair(1500);
        let pool = FramePool::new(FRAMES).unwrap();
        let mut port = open(&ports, "v0", &[]);
        let queues = ends(&mut port, &pool);
        let index = port.ifindex().unwrap();
        let program = || crate::linux::netlink::xdp_program(index).unwrap();
        let ours = program();
        assert!(ours.is_some());
        ports.check_all();
        assert_eq!(program(), ours);
        port.detach();
        assert_eq!(program(), None);
        ports.check_all();
        assert_eq!(program(), ours);
        assert_eq!(port.admin_up(), Ok(true));
        // Once more, and somebody else is faster.
        port.detach();
        let stranger = attach_stranger(index);
        ports.check_all();
        let error = port.admin_up().unwrap_err().to_string();
        assert!(error.contains("XDP program") && error.contains("(stranger)"), "{error}");
        assert!(port.status().contains_key("xdp-mode"));
        drop((queues, stranger));
        assert_eq!(program(), None);
        assert_eq!(pool.counts().held, 0);
    });
}

/// The kernel lets go of sockets some time after they were closed.
#[test]
fn a_port_can_be_opened_again_at_once() {
    in_namespace("xdp-again", || {
        let ports = pair(1500);
        let pool = FramePool::new(256).unwrap();
        for _ in 0..30 {
            let mut port = open(&ports, "v0", &[("xdp-mode", "native"), ("n_rxq_desc", "64")]);
            drop(ends(&mut port, &pool));
        }
        assert_eq!(pool.counts().held, 0);
    });
}

#[test]
fn queues_without_a_socket_and_wrong_numbers_are_told() {
    in_namespace("xdp-queues", || {
        ip(
            "link add v0 numrxqueues 4 numtxqueues 4 type veth peer name v1 numrxqueues 4 numtxqueues 4",
        );
        ip("link set v0 up");
        let ports = Arc::new(AfxdpPorts::new(&Arc::<Links>::default()));
        let pool = FramePool::new(FRAMES).unwrap();
        let mut port = open(&ports, "v0", &[]);
        assert_eq!((port.rx_queues(), port.tx_queues()), (4, 4));
        let mut problem = |pairs: &[(&str, &str)]| {
            port.set_options(&options(pairs)).err().map(|error| error.to_string())
        };
        assert_eq!(problem(&[("n_rxq", "42")]).as_deref(), Some("v0: Too big 'n_rxq' (42 > 16)"));
        assert_eq!(
            problem(&[("n_rxq", "5")]).as_deref(),
            Some(
                "v0: n_rxq=5, but the device has 4 receive queue(s); \
                 set n_rxq to at most that, or give it more (`ethtool -L`)"
            )
        );
        assert_eq!(problem(&[("n_rxq", "3"), ("n_rxq_desc", "64")]), None);
        let queues: Vec<_> = (0..3).map(|queue| port.open_rx(queue, &pool).unwrap()).collect();
        let senders: Vec<_> = (0..5).map(|queue| port.open_tx(queue).unwrap()).collect();
        let told = |port: &AfxdpPort| {
            port.findings().into_iter().map(|finding| finding.problem).collect::<Vec<_>>()
        };
        assert_eq!(told(&port), ["packets of receive queues 3 to 3 go to the host: n_rxq is 3"]);
        let sockets = ports.frames().remove("v0").unwrap();
        assert_eq!(sockets.iter().map(|socket| socket.queue).collect::<Vec<_>>(), [0, 1, 2]);
        drop((queues, senders));
        assert_eq!(
            told(&port).pop().as_deref(),
            Some("no socket is open: the port carries no packets")
        );
        assert!(!Path::new("/sys/class/net/v0/device").exists());
    });
}

#[test]
fn an_mtu_that_does_not_fit_is_refused() {
    in_namespace("xdp-mtu", || {
        let ports = pair(1500);
        let mut port = open(&ports, "v0", &[]);
        assert_eq!(port.set_mtu(9000), Ok(()));
        let error = port.set_mtu(60000).unwrap_err().to_string();
        assert_eq!(error, "v0: could not set MTU to 60000 (Invalid argument)");
        let single = [("multi-buffer", "false"), ("xdp-mode", "native")];
        port.set_options(&options(&single)).unwrap();
        assert!(port.set_mtu(1775).is_err());
        assert_eq!(port.set_mtu(1774), Ok(()));
        // Without multi-buffer, the kernel refuses what is far too large.
        ip("link set v1 mtu 9000");
        let error = port.open_rx(0, &FramePool::new(64).unwrap()).err().unwrap().to_string();
        assert!(error.contains("is too large for XDP without multi-buffer"), "{error}");
    });
}
