use super::*;
use crate::network::Network;
use crate::packet::{Checksum, FrameCounts, Layer, Segmentation};
use crate::sample::{Kind, Sample};
use crate::transmit;

/// Takes the oldest frame from receive queue `queue`.
fn receive(dummy: &Arc<Dummy>, queue: usize) -> Option<Vec<u8>> {
    let pool = FramePool::new(8).unwrap();
    let mut batch = Batch::new(&pool);
    let count = DummyRxQueue::open(dummy, queue).ok()?.receive(&mut batch).unwrap();
    assert_eq!(count, batch.len());
    batch.get(0).map(|packet| packet.segments().collect::<Vec<_>>().concat())
}

/// Sends one frame, whose memory must be free again afterwards.
fn send(dummy: &Arc<Dummy>, queue: usize, frame: &[u8]) -> SendReport {
    let pool = FramePool::new(64).unwrap();
    let mut batch = Batch::new(&pool);
    batch.push(pool.packet_with(frame).unwrap()).unwrap();
    let report = DummyTxQueue::open(dummy, queue).send(&mut batch);
    assert_eq!((batch.len(), pool.counts().held), (0, 0));
    report
}

const SENT: SendReport =
    SendReport { sent: 1, mtu_exceeded: 0, no_room: 0, invalid: 0, device_error: 0 };

fn open(port_type: &str) -> (DummyPorts, DummyPort) {
    let ports = DummyPorts::default();
    let port = ports.open("p1", port_type);
    (ports, port)
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn named(port: &DummyPort) -> Vec<(String, u64)> {
    let statistics = port.statistics().unwrap();
    statistics.named().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn counters(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn starts_up_with_counted_addresses() {
    let ports = DummyPorts::default();
    let first = ports.open("br0", "dummy-internal");
    let second = ports.open("p1", "dummy");
    assert_eq!(first.ethernet_address().unwrap().to_string(), "aa:55:aa:55:00:01");
    assert_eq!(second.ethernet_address().unwrap().to_string(), "aa:55:aa:55:00:02");
    assert_eq!(second.mtu(), Ok(1500));
    assert_eq!((second.admin_up(), second.carrier(), second.carrier_resets()), (Ok(true), true, 0));
    assert_eq!((second.ifindex(), second.speed(), second.duplex()), (None, None, None));
    assert_eq!(second.numa_node(), Some(0));
    assert_eq!(second.options(), map(&[]));
    assert_eq!(
        second.features().unwrap_err().to_string(),
        "p1: reporting link features is not supported by type dummy"
    );
    let names: Vec<_> = ports.all().iter().map(|port| port.name().to_owned()).collect();
    assert_eq!(names, ["br0", "p1"]);
}

#[test]
fn changes_bump_the_sequence_only_when_something_changed() {
    let (ports, mut port) = open("dummy");
    let shared = ports.get("p1").unwrap();
    let mut expected = port.change_sequence();
    let mut step = |port: &DummyPort, changes: u64| {
        expected += changes;
        assert_eq!(port.change_sequence(), expected);
    };
    port.set_mtu(9000).unwrap();
    step(&port, 1);
    port.set_mtu(9000).unwrap();
    step(&port, 0);
    port.set_ethernet_address(EthernetAddress([2, 0, 0, 0, 0, 1])).unwrap();
    step(&port, 1);
    shared.set_admin_up(false);
    step(&port, 1);
    port.set_admin_up(false).unwrap();
    step(&port, 0);
    port.set_options(&map(&[("ifindex", "7")])).unwrap();
    step(&port, 1);
    port.set_options(&map(&[("ifindex", "7"), ("unknown", "1")])).unwrap();
    step(&port, 0);
    shared.add_ip_address(Network::parse_ipv4("192.0.2.1/24").unwrap());
    step(&port, 1);
    assert_eq!((port.mtu(), port.ifindex(), port.carrier()), (Ok(9000), Some(7), false));
    assert_eq!(shared.ip_addresses(), [Network::parse_ipv4("192.0.2.1/24").unwrap()]);
}

#[test]
fn keeps_the_mtu_in_range() {
    let (_ports, mut port) = open("dummy");
    for mtu in [0, 67, 65536] {
        assert_eq!(
            port.set_mtu(mtu).unwrap_err().to_string(),
            format!("p1: could not set MTU to {mtu} (Invalid argument)")
        );
    }
    for mtu in [68, 65535] {
        port.set_mtu(mtu).unwrap();
        assert_eq!(port.mtu(), Ok(mtu));
    }
}

#[test]
fn bad_options_leave_the_port_as_it_was() {
    let (_ports, mut port) = open("dummy-pmd");
    port.set_options(&map(&[("n_rxq", "2"), ("numa_id", "1"), ("ol_ip_tx_csum", "true")])).unwrap();
    let before = (port.options(), port.status(), port.numa_node(), port.change_sequence());
    port.set_options(&map(&[("n_rxq", "x")])).unwrap_err();
    assert_eq!(before, (port.options(), port.status(), port.numa_node(), port.change_sequence()));
    assert_eq!(
        port.options(),
        map(&[("n_rxq", "2"), ("n_txq", "1"), ("numa_id", "1"), ("ol_ip_tx_csum", "true")])
    );
    let announced: Vec<_> = port
        .status()
        .into_iter()
        .filter(|(_, value)| value == "true")
        .map(|(key, _)| key)
        .collect();
    assert_eq!(announced, ["tx_ip_csum_offload"]);
}

#[test]
fn counts_frames_when_they_are_received_and_sent() {
    let (ports, mut port) = open("dummy-pmd");
    port.set_options(&map(&[("n_rxq", "2")])).unwrap();
    let shared = ports.get("p1").unwrap();
    assert_eq!((shared.is_pmd(), shared.receive_queues()), (true, 2));
    shared.inject(1, vec![1; 60]);
    shared.inject(1, vec![2; 64]);
    assert_eq!(port.statistics().unwrap().rx_packets, Some(0));
    assert_eq!(receive(&shared, 0), None);
    assert_eq!(receive(&shared, 1), Some(vec![1; 60]));
    assert_eq!(receive(&shared, 1), Some(vec![2; 64]));
    assert_eq!(receive(&shared, 1), None);
    assert_eq!(receive(&shared, 2), None);
    assert_eq!(send(&shared, 0, &[3; 100]), SENT);
    assert_eq!(
        named(&port),
        counters(&[
            ("rx_packets", 2),
            ("tx_packets", 1),
            ("rx_bytes", 124),
            ("tx_bytes", 100),
            ("rx_custom_packets_1", 2),
            ("rx_custom_packets_2", 2),
            ("rx_q0_bytes", 0),
            ("rx_q0_packets", 0),
            ("rx_q1_bytes", 124),
            ("rx_q1_packets", 2),
            ("tx_q0_bytes", 100),
            ("tx_q0_packets", 1),
        ])
    );
    // Another number of queues starts all counters again.
    port.set_options(&map(&[("n_txq", "2")])).unwrap();
    assert!(named(&port).iter().all(|(_, value)| *value == 0));
    assert_eq!(shared.receive_queues(), 1);
}

#[test]
fn queues_take_packets_one_by_one_and_outlive_the_port() {
    let (ports, mut port) = open("dummy-pmd");
    port.set_options(&map(&[("n_rxq", "2")])).unwrap();
    let shared = ports.get("p1").unwrap();
    let pool = FramePool::new(2).unwrap();
    assert_eq!((port.rx_queues(), port.needs_pmd()), (2, true));
    assert_eq!(
        port.open_rx(2, &pool).err().unwrap().to_string(),
        "p1: could not read receive queue (No such device)"
    );
    let mut queue = port.open_rx(1, &pool).unwrap();
    let mut batch = Batch::new(&pool);
    assert_eq!(queue.receive(&mut batch), Ok(0));
    for frame in [vec![1; 60], vec![2; 60], vec![3; 3000]] {
        shared.inject(1, frame);
    }
    assert_eq!(queue.receive(&mut batch), Ok(1));
    assert_eq!(queue.receive(&mut batch), Ok(1));
    let received: Vec<_> = batch.iter().map(|packet| packet.data().to_vec()).collect();
    assert_eq!(received, [vec![1; 60], vec![2; 60]]);
    // Frames wait while the pool is empty, or has too few for the next.
    assert_eq!(queue.receive(&mut batch), Ok(0));
    batch.remove(0).unwrap();
    assert_eq!((queue.receive(&mut batch), batch.len()), (Ok(0), 1));
    batch.clear();
    assert_eq!(queue.receive(&mut batch), Ok(1));
    assert_eq!(batch.get(0).map(|packet| packet.len()), Some(3000));
    batch.clear();
    let counts = FrameCounts { total: 2, shared: 0, cached: 2, held: 0 };
    assert_eq!(pool.counts(), counts);

    let mut transmit = port.open_tx(5).unwrap();
    port.set_options(&map(&[])).unwrap();
    assert_eq!(queue.receive(&mut batch), Ok(0));
    batch.push(pool.packet_with(&[4; 60]).unwrap()).unwrap();
    assert_eq!(transmit.send(&mut batch), SENT);
    assert_eq!(port.statistics().unwrap().tx_packets, Some(1));
    drop((shared, port));
    let gone = "p1: could not receive from queue 1 (No such device)";
    assert_eq!(queue.receive(&mut batch).unwrap_err().to_string(), gone);
    batch.push(pool.packet_with(&[4; 60]).unwrap()).unwrap();
    let report = SendReport { device_error: 1, ..SendReport::default() };
    assert_eq!((transmit.send(&mut batch), batch.len()), (report, 0));
    assert_eq!(pool.counts(), counts);
}

#[test]
fn claims_about_checksums_what_the_options_say() {
    let (ports, mut port) = open("dummy");
    let shared = ports.get("p1").unwrap();
    let pool = FramePool::new(8).unwrap();
    let mut queue = port.open_rx(0, &pool).unwrap();
    for (options, expected) in [
        (vec![], [Checksum::Unknown; 2]),
        (vec!["ol_ip_rx_csum_set_good"], [Checksum::Good, Checksum::Unknown]),
        (vec!["ol_ip_rx_csum_set_partial"], [Checksum::Partial, Checksum::Unknown]),
        (
            vec!["ol_ip_rx_csum_set_bad", "ol_l4_rx_csum_set_partial"],
            [Checksum::Bad, Checksum::Partial],
        ),
        (
            vec!["ol_l4_rx_csum_set_bad", "ol_l4_rx_csum_set_partial"],
            [Checksum::Unknown, Checksum::Bad],
        ),
        (
            vec!["ol_l4_rx_csum_set_bad", "ol_l4_rx_csum_set_good"],
            [Checksum::Unknown, Checksum::Good],
        ),
    ] {
        let options: Vec<_> = options.into_iter().map(|key| (key, "true")).collect();
        port.set_options(&map(&options)).unwrap();
        shared.inject(0, vec![0; 60]);
        let mut batch = Batch::new(&pool);
        assert_eq!(queue.receive(&mut batch), Ok(1));
        let descriptor = batch.get(0).unwrap().descriptor();
        assert_eq!([Layer::Ip, Layer::Transport].map(|of| descriptor.checksum(of)), expected);
    }
    port.set_options(&map(&[("ol_ip_tx_csum", "true")])).unwrap();
    let transmit = port.open_tx(0).unwrap();
    assert_eq!(transmit.offloads(), TransmitOffloads::IP_CHECKSUM);
}

/// What comes out of a dummy with these options when it is sent `frame` with partial checksums.
fn sent_partial(options: &[(&str, &str)], frame: &[u8]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tx.pcap");
    let (_ports, mut port) = open("dummy");
    let options = [options, &[("tx_pcap", path.to_str().unwrap())]].concat();
    port.set_options(&map(&options)).unwrap();
    let pool = FramePool::new(8).unwrap();
    let mut batch = Batch::new(&pool);
    batch.push(pool.packet_with(frame).unwrap()).unwrap();
    let mut packet = batch.get_mut(0).unwrap();
    for layer in [Layer::Ip, Layer::Transport] {
        packet.descriptor_mut().set_checksum(layer, Checksum::Partial);
    }
    assert_eq!(transmit::send(&mut *port.open_tx(0).unwrap(), &mut batch), SENT);
    let mut reader = crate::pcap::PcapReader::open(&path).unwrap();
    reader.next().unwrap().unwrap().bytes
}

#[test]
fn partial_checksums_are_finished_unless_the_options_omit_it() {
    let sample = Sample::new(false, Kind::Udp, vec![1; 64]);
    let right = sample.frame();
    let mut frame = right.clone();
    let ip = sample.l3() + 10..sample.l3() + 12;
    let udp = sample.l4() + 6..sample.l4() + 8;
    frame[ip.clone()].fill(0xee);
    frame[udp.clone()].fill(0xee);
    let with = |places: &[std::ops::Range<usize>]| {
        let mut expected = frame.clone();
        for place in places {
            expected[place.clone()].copy_from_slice(&right[place.clone()]);
        }
        expected
    };
    for (options, expected) in [
        (vec![], right.clone()),
        (vec!["ol_ip_tx_csum", "ol_l4_tx_csum"], right.clone()),
        (vec!["ol_ip_tx_csum_disabled", "ol_l4_tx_csum_disabled"], right.clone()),
        (vec!["ol_ip_tx_csum", "ol_ip_tx_csum_disabled"], with(std::slice::from_ref(&udp))),
        (vec!["ol_l4_tx_csum", "ol_l4_tx_csum_disabled"], with(std::slice::from_ref(&ip))),
    ] {
        let options: Vec<_> = options.into_iter().map(|key| (key, "true")).collect();
        assert_eq!(sent_partial(&options, &frame), expected, "{options:?}");
    }
}

#[test]
fn large_packets_pass_whole_only_between_ports_that_say_so() {
    let pool = FramePool::new(32).unwrap();
    let large = [("ol_tso_segsz", "500")];
    let tcp = Kind::Tcp { sequence: 0, flags: 0x10, option_words: 0 };
    for (is_ipv6, expected) in [(false, Segmentation::TcpIpv4), (true, Segmentation::TcpIpv6)] {
        let (ports, mut from) = open("dummy");
        from.set_options(&map(&large)).unwrap();
        assert_eq!(from.options(), map(&large));
        let sample = Sample::new(is_ipv6, tcp, vec![0; 2000]);
        for (options, lengths) in [(&large[..], vec![2000]), (&[], vec![500; 4])] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("tx.pcap");
            let options = [options, &[("tx_pcap", path.to_str().unwrap())]].concat();
            let other = DummyPorts::default();
            let mut to = other.open("p2", "dummy");
            to.set_options(&map(&options)).unwrap();
            ports.get("p1").unwrap().inject(0, sample.frame());
            let mut batch = Batch::new(&pool);
            assert_eq!(from.open_rx(0, &pool).unwrap().receive(&mut batch), Ok(1));
            let descriptor = batch.get(0).unwrap().descriptor();
            assert_eq!((descriptor.segmentation, descriptor.segment_size), (expected, 500));
            let report = transmit::send(&mut *to.open_tx(0).unwrap(), &mut batch);
            let sent = lengths.len() as u64;
            assert_eq!(report, SendReport { sent, ..SendReport::default() });
            let reader = crate::pcap::PcapReader::open(&path).unwrap();
            let headers = sample.frame().len() - 2000;
            let found: Vec<_> = reader.map(|frame| frame.unwrap().bytes.len() - headers).collect();
            assert_eq!(found, lengths);
        }
    }
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn drops_what_finds_no_room() {
    let (ports, _port) = open("dummy");
    let shared = ports.get("p1").unwrap();
    let lost = RECEIVE_QUEUE_FULL.get();
    for i in 0..101 {
        shared.inject(0, vec![i; 60]);
    }
    shared.inject(1, vec![0; 60]);
    let received: Vec<_> = std::iter::from_fn(|| receive(&shared, 0)).collect();
    assert_eq!(received, (0..100).map(|i| vec![i; 60]).collect::<Vec<_>>());
    assert_eq!(RECEIVE_QUEUE_FULL.get(), lost + 2);
}

#[test]
fn sends_only_frames_that_fit_the_mtu() {
    let (ports, port) = open("dummy");
    let shared = ports.get("p1").unwrap();
    let tagged = |length| {
        let mut frame = vec![0; length];
        frame[12..14].copy_from_slice(&[0x81, 0x00]);
        frame
    };
    assert_eq!(send(&shared, 0, &[0; 13]), SendReport { invalid: 1, ..SendReport::default() });
    assert_eq!(
        send(&shared, 0, &[0; 1515]),
        SendReport { mtu_exceeded: 1, ..SendReport::default() }
    );
    assert_eq!(
        send(&shared, 0, &tagged(1519)),
        SendReport { mtu_exceeded: 1, ..SendReport::default() }
    );
    assert_eq!(port.statistics().unwrap().tx_packets, Some(0));
    assert_eq!(send(&shared, 0, &[0; 14]), SENT);
    assert_eq!(send(&shared, 0, &[0; 1514]), SENT);
    assert_eq!(send(&shared, 0, &tagged(1518)), SENT);
    assert_eq!(port.statistics().unwrap().tx_bytes, Some(14 + 1514 + 1518));
}

#[test]
fn wakes_whoever_waits_for_frames() {
    let (ports, _port) = open("dummy");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    ports.get("p1").unwrap().inject(0, vec![0; 60]);
    runtime.block_on(ports.received());
    assert_eq!(receive(&ports.get("p1").unwrap(), 0), Some(vec![0; 60]));
}

#[test]
fn answers_arp_requests_on_its_receive_queue() {
    let (ports, _port) = open("dummy-internal");
    let shared = ports.get("p1").unwrap();
    let mut request = vec![0xff; 6];
    request.extend([2, 0, 0, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    request.extend([2, 0, 0, 0, 0, 7, 192, 0, 2, 7]);
    request.extend([0, 0, 0, 0, 0, 0, 192, 0, 2, 1]);
    assert_eq!(send(&shared, 0, &request), SENT);
    assert_eq!(receive(&shared, 0), None);
    shared.add_ip_address(Network::parse_ipv4("192.0.2.1/24").unwrap());
    assert_eq!(send(&shared, 0, &request), SENT);
    let mut reply = vec![2, 0, 0, 0, 0, 7, 0xaa, 0x55, 0xaa, 0x55, 0, 1];
    reply.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    reply.extend([0xaa, 0x55, 0xaa, 0x55, 0, 1, 192, 0, 2, 1]);
    reply.extend([2, 0, 0, 0, 0, 7, 192, 0, 2, 7]);
    assert_eq!(receive(&shared, 0), Some(reply));
    assert_eq!(receive(&shared, 0), None);
}

#[test]
fn records_what_arrives_and_what_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let frames = |name: &str| {
        let reader = crate::pcap::PcapReader::open(&path(name)).unwrap();
        reader.map(|frame| frame.unwrap().bytes).collect::<Vec<_>>()
    };
    let (ports, mut port) = open("dummy");
    let shared = ports.get("p1").unwrap();
    port.set_options(&map(&[("rxq_pcap", &text("rx")), ("tx_pcap", &text("tx"))])).unwrap();
    shared.inject(0, vec![1; 60]);
    assert_eq!(send(&shared, 0, &[2; 61]), SENT);
    port.set_options(&map(&[("pcap", &text("both"))])).unwrap();
    shared.inject(0, vec![3; 60]);
    assert_eq!(send(&shared, 0, &[4; 61]), SENT);
    shared.inject(0, vec![5; 60]);
    port.set_options(&map(&[])).unwrap();
    shared.inject(0, vec![6; 60]);
    assert_eq!(frames("rx"), [vec![1; 60]]);
    assert_eq!(frames("tx"), [vec![2; 61]]);
    assert_eq!(frames("both"), [vec![3; 60], vec![4; 61], vec![5; 60]]);
    assert_eq!(
        port.set_options(&map(&[("pcap", "/nonexistent/p")])).unwrap_err().to_string(),
        "p1: /nonexistent/p: could not open capture file (No such file or directory (os error 2))"
    );
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Waits until `is_so`.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

async fn next_frame(ports: &DummyPorts, name: &str) -> Vec<u8> {
    loop {
        match receive(&ports.get(name).unwrap(), 0) {
            Some(frame) => return frame,
            None => ports.received().await,
        }
    }
}

#[test]
fn carries_frames_between_ports_by_streams() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("p0.sock");
    let passive = format!("punix:{}", socket.display());
    let active = format!("unix:{}", socket.display());
    block_on(async {
        let ports = DummyPorts::default();
        let mut server = ports.open("p0", "dummy");
        let mut clients = [ports.open("p1", "dummy"), ports.open("p2", "dummy")];
        // The client that comes first has to try again.
        clients[0].set_options(&map(&[("stream", &active)])).unwrap();
        assert_eq!(ports.get("p1").unwrap().is_connected(), Some(false));
        tokio::task::yield_now().await;
        server.set_options(&map(&[("pstream", &passive)])).unwrap();
        clients[1].set_options(&map(&[("stream", &active)])).unwrap();
        assert_eq!(server.options(), map(&[("pstream", &passive)]));
        assert_eq!(clients[1].options(), map(&[("stream", &active)]));
        let [p0, p1, p2] = ["p0", "p1", "p2"].map(|name| ports.get(name).unwrap());
        until(|| p1.is_connected() == Some(true) && p2.is_connected() == Some(true)).await;
        assert_eq!(p0.is_connected(), None);

        assert_eq!(send(&p1, 0, &[1; 14]), SENT);
        assert_eq!(next_frame(&ports, "p0").await, vec![1; 14]);
        assert_eq!(send(&p2, 0, &[2; 1514]), SENT);
        assert_eq!(next_frame(&ports, "p0").await, vec![2; 1514]);
        // The server cannot know of a stream before it has accepted it, which it has by now.
        assert_eq!(send(&p0, 0, &[3; 60]), SENT);
        assert_eq!(send(&p0, 0, &[4; 60]), SENT);
        for name in ["p1", "p2"] {
            assert_eq!(next_frame(&ports, name).await, vec![3; 60]);
            assert_eq!(next_frame(&ports, name).await, vec![4; 60]);
        }

        // The same options leave the connection alone; others end it.
        clients[0].set_options(&map(&[("stream", &active), ("ifindex", "5")])).unwrap();
        assert_eq!(p1.is_connected(), Some(true));
        server.set_options(&map(&[])).unwrap();
        assert!(!socket.exists());
        until(|| p1.is_connected() == Some(false) && p2.is_connected() == Some(false)).await;
        server.set_options(&map(&[("pstream", &passive)])).unwrap();
        until(|| p1.is_connected() == Some(true) && p2.is_connected() == Some(true)).await;
    });
    assert!(!socket.exists());
}

#[test]
fn drops_peers_that_do_not_send_frames() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("tcp:{}", listener.local_addr().unwrap());
        let (ports, mut port) = open("dummy");
        port.set_options(&map(&[("stream", &address)])).unwrap();
        for garbage in [&[0, 13][..], &[0], &[0, 14, 1]] {
            let (mut peer, _) = listener.accept().await.unwrap();
            peer.write_all(&[0, 14]).await.unwrap();
            peer.write_all(&[7; 14]).await.unwrap();
            peer.write_all(garbage).await.unwrap();
            peer.shutdown().await.unwrap();
            assert_eq!(next_frame(&ports, "p1").await, vec![7; 14]);
            assert_eq!(peer.read(&mut [0]).await.unwrap(), 0);
        }
        assert_eq!(receive(&ports.get("p1").unwrap(), 0), None);
    });
}

#[test]
fn streams_that_do_not_read_lose_frames() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("p1.sock");
    block_on(async {
        let (ports, mut port) = open("dummy");
        let shared = ports.get("p1").unwrap();
        port.set_options(&map(&[("pstream", &format!("punix:{}", socket.display()))])).unwrap();
        let lost = STREAM_FULL.get();
        assert_eq!(send(&shared, 0, &[0; 60]), SENT);
        assert_eq!(STREAM_FULL.get(), lost);
        let _peer = tokio::net::UnixStream::connect(&socket).await.unwrap();
        // Nothing is written before the next await.
        until(|| {
            assert_eq!(send(&shared, 0, &[0; 60]), SENT);
            STREAM_FULL.get() > lost
        })
        .await;
    });
}

#[test]
fn refuses_streams_that_cannot_be_opened() {
    let (_ports, mut port) = open("dummy");
    block_on(async {
        assert_eq!(
            port.set_options(&map(&[("pstream", "punix:/nonexistent/p1")]))
                .unwrap_err()
                .to_string(),
            "p1: could not open stream (No such file or directory)"
        );
        assert_eq!(port.options(), map(&[]));
    });
}
