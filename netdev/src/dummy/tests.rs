use super::*;

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
    assert_eq!(first.ethernet_address().unwrap().to_string(), "aa:55:aa:55:00:00");
    assert_eq!(second.ethernet_address().unwrap().to_string(), "aa:55:aa:55:00:01");
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
    shared.add_ip_address("192.0.2.1".parse().unwrap(), 24);
    step(&port, 1);
    assert_eq!((port.mtu(), port.ifindex(), port.carrier()), (Ok(9000), Some(7), false));
    assert_eq!(shared.ip_addresses(), [("192.0.2.1".parse().unwrap(), 24)]);
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
    assert_eq!(shared.receive(0), None);
    assert_eq!(shared.receive(1), Some(vec![1; 60]));
    assert_eq!(shared.receive(1), Some(vec![2; 64]));
    assert_eq!(shared.receive(1), None);
    assert_eq!(shared.receive(2), None);
    shared.send(0, &[3; 100]).unwrap();
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
fn drops_what_finds_no_room() {
    let (ports, _port) = open("dummy");
    let shared = ports.get("p1").unwrap();
    let lost = RECEIVE_QUEUE_FULL.get();
    for i in 0..101 {
        shared.inject(0, vec![i; 60]);
    }
    shared.inject(1, vec![0; 60]);
    let received: Vec<_> = std::iter::from_fn(|| shared.receive(0)).collect();
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
    assert_eq!(shared.send(0, &[0; 13]), Err(Errno::MSGSIZE));
    assert_eq!(shared.send(0, &[0; 1515]), Err(Errno::MSGSIZE));
    assert_eq!(shared.send(0, &tagged(1519)), Err(Errno::MSGSIZE));
    assert_eq!(port.statistics().unwrap().tx_packets, Some(0));
    assert_eq!(shared.send(0, &[0; 14]), Ok(()));
    assert_eq!(shared.send(0, &[0; 1514]), Ok(()));
    assert_eq!(shared.send(0, &tagged(1518)), Ok(()));
    assert_eq!(port.statistics().unwrap().tx_bytes, Some(14 + 1514 + 1518));
}

#[test]
fn wakes_whoever_waits_for_frames() {
    let (ports, _port) = open("dummy");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    ports.get("p1").unwrap().inject(0, vec![0; 60]);
    runtime.block_on(ports.received());
    assert_eq!(ports.get("p1").unwrap().receive(0), Some(vec![0; 60]));
}

#[test]
fn answers_arp_requests_on_its_receive_queue() {
    let (ports, _port) = open("dummy-internal");
    let shared = ports.get("p1").unwrap();
    let mut request = vec![0xff; 6];
    request.extend([2, 0, 0, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    request.extend([2, 0, 0, 0, 0, 7, 192, 0, 2, 7]);
    request.extend([0, 0, 0, 0, 0, 0, 192, 0, 2, 1]);
    shared.send(0, &request).unwrap();
    assert_eq!(shared.receive(0), None);
    shared.add_ip_address("192.0.2.1".parse().unwrap(), 24);
    shared.send(0, &request).unwrap();
    let mut reply = vec![2, 0, 0, 0, 0, 7, 0xaa, 0x55, 0xaa, 0x55, 0, 0];
    reply.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    reply.extend([0xaa, 0x55, 0xaa, 0x55, 0, 0, 192, 0, 2, 1]);
    reply.extend([2, 0, 0, 0, 0, 7, 192, 0, 2, 7]);
    assert_eq!(shared.receive(0), Some(reply));
    assert_eq!(shared.receive(0), None);
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
    shared.send(0, &[2; 61]).unwrap();
    port.set_options(&map(&[("pcap", &text("both"))])).unwrap();
    shared.inject(0, vec![3; 60]);
    shared.send(0, &[4; 61]).unwrap();
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
        match ports.get(name).unwrap().receive(0) {
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

        p1.send(0, &[1; 14]).unwrap();
        assert_eq!(next_frame(&ports, "p0").await, vec![1; 14]);
        p2.send(0, &[2; 1514]).unwrap();
        assert_eq!(next_frame(&ports, "p0").await, vec![2; 1514]);
        // The server cannot know of a stream before it has accepted it, which it has by now.
        p0.send(0, &[3; 60]).unwrap();
        p0.send(0, &[4; 60]).unwrap();
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
        assert_eq!(ports.get("p1").unwrap().receive(0), None);
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
        shared.send(0, &[0; 60]).unwrap();
        assert_eq!(STREAM_FULL.get(), lost);
        let _peer = tokio::net::UnixStream::connect(&socket).await.unwrap();
        // Nothing is written before the next await.
        until(|| {
            shared.send(0, &[0; 60]).unwrap();
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
