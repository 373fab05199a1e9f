//! A database server that falls silent. Alone in its process, since it stops the clock.

use std::path::Path;
use std::time::Duration;

use netdev::clock;
use serde_json::json;
use stream::{Listener, Remote};
use vswitchd::jsonrpc::{Connection, Limits, Message};
use vswitchd::ovsdb::client::{Client, Event, Settings, parse_remotes};

const LIMITS: Limits = Limits { message: 1 << 20, backlog: 1 << 20 };

fn echo() -> Message {
    Message::Request { method: "echo".to_owned(), params: vec![], id: json!("echo") }
}

#[test]
fn a_silent_server_is_probed_and_left() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        clock::stop();
        let passive = Remote::parse("ptcp:0:127.0.0.1", None, Path::new("/")).unwrap();
        let listener = Listener::bind(&passive, None).await.unwrap();
        let remote = format!("tcp:127.0.0.1:{}", listener.port().unwrap());
        let mut client = Client::new(Settings {
            remotes: parse_remotes(&remote, Path::new("/")).unwrap(),
            tls: None,
            database: "Open_vSwitch".to_owned(),
            monitored: vec![],
            lock: None,
        });
        assert_eq!(client.next_event().await, Event::Connected);
        let begin = async {
            let mut server = Connection::new(listener.accept().await.unwrap(), LIMITS);
            let first = server.recv().await.unwrap().unwrap();
            assert!(matches!(first, Message::Request { method, .. } if method == "get_schema"));
            server
        };
        let mut server = tokio::select! {
            event = client.next_event() => panic!("{event:?}"),
            server = begin => server,
        };

        // An answered probe keeps the connection.
        for _ in 0..3 {
            clock::warp(Duration::from_secs(5));
            let probe = tokio::select! {
                event = client.next_event() => panic!("{event:?}"),
                probe = server.recv() => probe,
            };
            assert_eq!(probe.unwrap(), Some(echo()));
            server.send(Message::Reply { result: json!([]), id: json!("echo") }).unwrap();
            server.flush().await.unwrap();
            // Has the client take the answer: it answers in turn what follows it.
            server
                .send(Message::Request { method: "echo".to_owned(), params: vec![], id: json!(1) })
                .unwrap();
            let answer = tokio::select! {
                event = client.next_event() => panic!("{event:?}"),
                answer = server.recv() => answer,
            };
            let expected = Message::Reply { result: json!([]), id: json!(1) };
            assert_eq!(answer.unwrap(), Some(expected));
        }

        clock::warp(Duration::from_secs(5));
        tokio::select! {
            event = client.next_event() => panic!("{event:?}"),
            probe = server.recv() => assert_eq!(probe.unwrap(), Some(echo())),
        }
        clock::warp(Duration::from_secs(5));
        assert_eq!(client.next_event().await, Event::Disconnected);
        assert_eq!(server.recv().await.unwrap(), None);

        clock::warp(Duration::from_secs(1));
        assert_eq!(client.next_event().await, Event::Connected);
    });
}
