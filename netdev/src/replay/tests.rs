use std::path::Path;

use super::*;
use crate::packet::Batch;
use crate::pcap::PcapReader;
use crate::queue::SendReport;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut writer = PcapWriter::append(path).unwrap();
    frames.iter().for_each(|frame| writer.write(frame).unwrap());
}

/// Receives up to `batches` batches.
fn receive(queue: &mut dyn RxQueue, pool: &Arc<FramePool>, batches: usize) -> Vec<Vec<u8>> {
    let mut found = vec![];
    for _ in 0..batches {
        let mut batch = Batch::new(pool);
        assert_eq!(queue.receive(&mut batch).unwrap(), batch.len());
        found.extend(batch.iter().map(|packet| packet.segments().collect::<Vec<_>>().concat()));
    }
    found
}

fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|index| vec![index as u8; 60 + index]).collect()
}

fn counters(port: &ReplayPort) -> Vec<(String, u64)> {
    let statistics = port.statistics().unwrap();
    statistics.named().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn named(values: [u64; 5]) -> Vec<(String, u64)> {
    let names = ["rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "tx_dropped"];
    names.map(str::to_owned).into_iter().zip(values).collect()
}

#[test]
fn each_queue_replays_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in.pcap");
    let frames = [frames(70), vec![vec![7; 9000]]].concat();
    write(&path, &frames);
    let text = path.to_str().unwrap();
    let pool = FramePool::new(256).unwrap();
    let mut port = ReplayPort::open_pcap("p1").unwrap();
    let options = map(&[("rx_pcap", text), ("n_rxq", "2")]);
    port.set_options(&options).unwrap();
    assert_eq!((port.options(), port.rx_queues(), port.needs_pmd()), (options, 2, true));
    let mut first = port.open_rx(0, &pool).unwrap();
    assert_eq!(receive(&mut *first, &pool, 4), frames);
    assert_eq!(receive(&mut *first, &pool, 1), Vec::<Vec<u8>>::new());
    let mut second = port.open_rx(1, &pool).unwrap();
    assert_eq!(receive(&mut *second, &pool, 1), frames[..32]);
    port.set_admin_up(false).unwrap();
    assert_eq!(receive(&mut *second, &pool, 1), Vec::<Vec<u8>>::new());
    port.set_admin_up(true).unwrap();
    assert_eq!(receive(&mut *second, &pool, 1), frames[32..64]);
    let bytes = |frames: &[Vec<u8>]| frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
    let received = bytes(&frames) + bytes(&frames[..64]);
    assert_eq!(counters(&port), named([71 + 64, 0, received, 0, 0]));
    assert_eq!(
        port.open_rx(2, &pool).err().unwrap().to_string(),
        "p1: could not read receive queue (No such device)"
    );

    // Options hold for queues that are opened from now on.
    port.set_options(&map(&[("rx_pcap", text), ("infinite_rx", "true")])).unwrap();
    assert_eq!(receive(&mut *second, &pool, 1), frames[64..]);
    let mut endless = port.open_rx(0, &pool).unwrap();
    let found = receive(&mut *endless, &pool, 9);
    assert_eq!(found, frames.iter().cycle().take(288).cloned().collect::<Vec<_>>());
    drop((first, second, endless));
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn frames_wait_while_the_pool_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in.pcap");
    let frames = [frames(3), vec![vec![7; 5000]]].concat();
    write(&path, &frames);
    let pool = FramePool::new(4).unwrap();
    let mut port = ReplayPort::open_pcap("p1").unwrap();
    port.set_options(&map(&[("rx_pcap", path.to_str().unwrap())])).unwrap();
    let mut queue = port.open_rx(0, &pool).unwrap();
    let mut batch = Batch::new(&pool);
    batch.fill(2);
    assert_eq!(queue.receive(&mut batch), Ok(2));
    assert_eq!((queue.receive(&mut batch), batch.len()), (Ok(0), 4));
    batch.clear();
    assert_eq!(receive(&mut *queue, &pool, 2), frames[2..]);
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn records_what_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.pcap");
    let pool = FramePool::new(64).unwrap();
    let mut port = ReplayPort::open_pcap("p1").unwrap();
    port.set_options(&map(&[("tx_pcap", path.to_str().unwrap())])).unwrap();
    let mut discarding = ReplayPort::open_null("p2").unwrap();
    discarding.set_options(&map(&[("rx_pcap", "/nonexistent")])).unwrap();
    let mut tagged = vec![9; 1518];
    tagged[12..14].copy_from_slice(&[0x81, 0x00]);
    let good = [vec![1; 60], vec![2; 1514], tagged];
    for port in [&mut port, &mut discarding] {
        let mut queue = port.open_tx(3).unwrap();
        let mut batch = Batch::new(&pool);
        for frame in good.iter().chain([&vec![3; 1515]]) {
            batch.push(pool.packet_with(frame).unwrap()).unwrap();
        }
        let report = SendReport { sent: 3, mtu_exceeded: 1, ..SendReport::default() };
        assert_eq!((queue.send(&mut batch), batch.len()), (report, 0));
        port.set_admin_up(false).unwrap();
        batch.push(pool.packet_with(&[4; 60]).unwrap()).unwrap();
        let report = SendReport { device_error: 1, ..SendReport::default() };
        assert_eq!(queue.send(&mut batch), report);
        assert_eq!(counters(port), named([0, 3, 0, 60 + 1514 + 1518, 2]));
        let mut receiving = port.open_rx(0, &pool).unwrap();
        assert_eq!(receive(&mut *receiving, &pool, 1), Vec::<Vec<u8>>::new());
    }
    let recorded: Vec<_> =
        PcapReader::open(&path).unwrap().map(|frame| frame.unwrap().bytes).collect();
    assert_eq!(recorded, good);
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn names_bad_options_and_stays_as_it_was() {
    let mut port = ReplayPort::open_pcap("p1").unwrap();
    let before = (port.options(), port.change_sequence());
    for (key, value, problem) in [
        ("infinite_rx", "1", "infinite_rx=1 is none of true, false"),
        ("rate", "0", "rate=0 is not a number of packets per second (1 or more)"),
        ("rate", "fast", "rate=fast is not a number of packets per second (1 or more)"),
        ("n_rxq", "0", "n_rxq=0 is not a number from 1 to 64"),
        ("n_rxq", "65", "n_rxq=65 is not a number from 1 to 64"),
        (
            "rx_pcap",
            "/nonexistent",
            "/nonexistent: could not open capture file (No such file or directory (os error 2))",
        ),
    ] {
        let error = port.set_options(&map(&[(key, value)])).unwrap_err();
        assert_eq!(error.to_string(), format!("p1: {problem}"));
        assert_eq!((port.options(), port.change_sequence()), before);
    }
}

#[test]
fn holds_to_the_rate() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in.pcap");
    write(&path, &frames(1));
    let pool = FramePool::new(64).unwrap();
    let mut port = ReplayPort::open_pcap("p1").unwrap();
    let text = path.to_str().unwrap();
    let options = map(&[("rx_pcap", text), ("infinite_rx", "true"), ("rate", "1000")]);
    port.set_options(&options).unwrap();
    assert_eq!(port.options(), options);
    let started = crate::clock::now();
    let mut queue = port.open_rx(0, &pool).unwrap();
    let mut count = 0;
    while count < 20 {
        count += receive(&mut *queue, &pool, 1).len() as u64;
        let elapsed = crate::clock::now() - started;
        assert!(u128::from(count) <= elapsed.as_millis() + 1, "{count} in {elapsed:?}");
    }
}
