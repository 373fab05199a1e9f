//! A connection between two ends of one process.

use serde_json::json;
use stream::{Listener, Remote, Stream, connect};
use tokio::io::AsyncWriteExt;

use super::*;

const LIMITS: Limits = Limits { message: 1 << 20, backlog: 1 << 20 };

fn notification(text: &str) -> Message {
    Message::Notify { method: "say".to_owned(), params: vec![json!(text)] }
}

/// Runs `test` with a stream and the connection at its other end.
fn with_pair<F: Future>(test: impl FnOnce(Stream, Connection) -> F) {
    let directory = tempfile::tempdir().unwrap();
    let remote = |text| Remote::parse(text, None, directory.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = Listener::bind(&remote("punix:s"), None).await.unwrap();
        let to = remote("unix:s");
        let (near, far) = tokio::join!(connect(&to, None), listener.accept());
        test(near.unwrap(), Connection::new(far.unwrap(), LIMITS)).await;
    });
}

#[test]
fn messages_arrive_in_order_and_then_the_end() {
    with_pair(|near, mut far| async move {
        let mut near = Connection::new(near, LIMITS);
        near.send(notification("a")).unwrap();
        near.send(notification("b")).unwrap();
        near.flush().await.unwrap();
        assert_eq!(near.backlog(), 0);
        drop(near);
        assert_eq!(far.recv().await.unwrap(), Some(notification("a")));
        assert_eq!(far.recv().await.unwrap(), Some(notification("b")));
        assert_eq!(far.recv().await.unwrap(), None);
    });
}

#[test]
fn waiting_for_a_message_writes_what_is_queued() {
    with_pair(|near, mut far| async move {
        let mut near = Connection::new(near, LIMITS);
        let big = notification(&"x".repeat(600_000));
        near.send(big.clone()).unwrap();
        far.send(big.clone()).unwrap();
        let (at_near, at_far) = tokio::join!(near.recv(), far.recv());
        assert_eq!((at_near.unwrap(), at_far.unwrap()), (Some(big.clone()), Some(big)));
    });
}

#[test]
fn a_cancelled_recv_loses_nothing() {
    with_pair(|mut near, mut far| async move {
        let text = notification("split").into_json().to_string();
        for byte in text.as_bytes() {
            near.write_all(&[*byte]).await.unwrap();
            if *byte == b'}' {
                break;
            }
            tokio::select! {
                biased;
                received = far.recv() => panic!("{received:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!(far.recv().await.unwrap(), Some(notification("split")));
    });
}

#[test]
fn a_peer_that_does_not_read_is_told_from_one_that_does() {
    with_pair(|_near, mut far| async move {
        let sent = (0..10).map(|_| far.send(notification(&"x".repeat(300_000))));
        let results: Vec<_> = sent.map(|result| result.is_ok()).collect();
        assert_eq!(results, [[true; 3].as_slice(), &[false; 7]].concat());
    });
}

#[test]
fn what_is_no_message_ends_the_connection() {
    let cases: [(&[u8], &str); 5] = [
        (b"hello", "byte 0x68 at offset 0 begins no JSON object or array"),
        (b"{\"a\" 1}", "expected `:` at line 1 column 6"),
        (b"[1]", "message is not a JSON object"),
        (b"{\"id\": 1}", "request must have \"method\""),
        (b"{\"id\"", "input ended within the JSON text that begins at offset 0"),
    ];
    for (bytes, message) in cases {
        with_pair(|mut near, mut far| async move {
            near.write_all(bytes).await.unwrap();
            drop(near);
            assert_eq!(far.recv().await.unwrap_err().to_string(), message);
        });
    }
}

#[test]
fn a_message_longer_than_the_limit_ends_the_connection() {
    with_pair(|near, mut far| async move {
        let mut near = Connection::new(near, Limits { message: 0, backlog: usize::MAX });
        near.send(notification(&"x".repeat(LIMITS.message))).unwrap();
        let (_, received) = tokio::join!(near.flush(), far.recv());
        assert_eq!(
            received.unwrap_err().to_string(),
            "JSON text at offset 0 is longer than 1048576 bytes"
        );
    });
}
