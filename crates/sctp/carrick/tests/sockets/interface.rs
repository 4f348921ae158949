//! Adapters, settings at run time, and associations before they are accepted.

use std::io::ErrorKind;
use std::time::Duration;

use carrick::{
    AssociationConfig, CloseReason, Endpoint, OperationError, ParameterChanges, PathId,
    PathMtuDiscovery, RecvError, SendOptions, TryRecvError,
};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{associate, config, endpoint, ip, on, pair, soon, to};

#[tokio::test]
async fn try_recv_separates_empty_from_finished() {
    let (_client, _server, a, mut b) = pair().await;
    assert_eq!(b.try_recv(), Err(TryRecvError::Empty));
    a.send("hello", on(0)).await.unwrap();
    soon("acknowledgement", a.flushed()).await.unwrap();
    let message = loop {
        match b.try_recv() {
            Ok(message) => break message,
            Err(error) => assert_eq!(error, TryRecvError::Empty),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(message.payload.into_bytes(), "hello");
    soon("shutdown", a.shutdown()).await.unwrap();
    assert_eq!(soon("end", b.recv()).await, Ok(None));
    assert_eq!(b.try_recv(), Err(TryRecvError::Finished));
}

#[tokio::test]
async fn messages_pass_through_sink_and_stream() {
    let (_client, _server, a, mut b) = pair().await;
    let mut events = b.take_events().unwrap();
    let mut sink = a.sink(SendOptions::on_stream(1).ppid(46));
    let sending = async {
        // More than the send queue holds.
        for number in 0..2000_u32 {
            let message = vec![number as u8; 1000];
            sink.send(message.into()).await.unwrap();
        }
        sink.close().await.unwrap();
    };
    let receiving = async {
        let mut received = 0_u32;
        while let Some(message) = b.next().await {
            let message = message.unwrap();
            assert_eq!((message.stream.0, message.ppid.0), (1, 46));
            assert_eq!(message.payload.into_bytes()[0], received as u8);
            received += 1;
        }
        received
    };
    let ((), received) = soon("transfer", async { tokio::join!(sending, receiving) }).await;
    assert_eq!(received, 2000);
    assert!(b.next().await.is_none());
    let last = soon("events", async {
        let mut last = None;
        while let Some(event) = StreamExt::next(&mut events).await {
            last = Some(event);
        }
        last
    });
    let closed = carrick::Event::Closed(CloseReason::Shutdown);
    assert_eq!(last.await, Some(carrick::Notification::Event(closed)));
}

#[tokio::test]
async fn bytes_pass_in_both_directions() {
    let (_client, _server, a, b) = pair().await;
    let options = SendOptions::on_stream(1);
    let (mut a, mut b) = (a.into_byte_stream(options), b.into_byte_stream(options));
    // More than the send queue holds, in writes of all lengths.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let writing = async {
        let mut rest = &bytes[..];
        for len in (1..).step_by(997) {
            let (now, later) = rest.split_at(rest.len().min(len));
            a.write_all(now).await.unwrap();
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        a.flush().await.unwrap();
        let mut answer = [0; 6];
        a.read_exact(&mut answer).await.unwrap();
        a.shutdown().await.unwrap();
        (answer, a.write_all(b"more").await.unwrap_err().kind())
    };
    let reading = async {
        let mut received = vec![0; bytes.len()];
        b.read_exact(&mut received).await.unwrap();
        b.write_all(b"answer").await.unwrap();
        assert_eq!(b.read(&mut [0; 10]).await.unwrap(), 0, "the end");
        // The association has ended with the peer's shutdown.
        b.shutdown().await.unwrap();
        received
    };
    let ((answer, late), received) =
        soon("transfer", async { tokio::join!(writing, reading) }).await;
    assert!(received == bytes);
    assert_eq!((&answer, late), (b"answer", ErrorKind::BrokenPipe));
}

#[tokio::test]
async fn a_byte_stream_has_one_stream() {
    let (_client, _server, a, b) = pair().await;
    let mut b = b.into_byte_stream(SendOptions::on_stream(1));
    a.send("here", on(1)).await.unwrap();
    a.send("there", on(0)).await.unwrap();
    let mut received = Vec::new();
    let end = soon("error", b.read_to_end(&mut received)).await;
    assert_eq!(end.unwrap_err().kind(), ErrorKind::InvalidData);
    a.abort(b"reason");
    let end = soon("end", b.read_to_end(&mut received)).await;
    assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
    let refused = b.write_all(b"late").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_stream_of_messages_ends_after_its_error() {
    let (_client, _server, a, mut b) = pair().await;
    a.abort(b"reason");
    let end = soon("end", b.next()).await.unwrap();
    assert!(matches!(end, Err(RecvError::Ended(_))), "{end:?}");
    assert!(b.next().await.is_none());
}

#[tokio::test]
async fn an_incoming_association_is_refused_with_a_reason() {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    let peer = (ip("127.0.0.1"), server.port());
    let both = async { tokio::join!(client.connect_with(peer, to(&server)), server.accept()) };
    let (a, incoming) = soon("set-up", both).await;
    let (mut a, incoming) = (a.unwrap(), incoming.unwrap());
    assert_eq!(incoming.peer_port(), client.port());
    assert_eq!(incoming.peer_addresses(), [ip("127.0.0.1")]);
    assert_eq!(incoming.inbound_streams(), a.control().outbound_streams());
    assert_eq!(incoming.extensions(), a.control().extensions());
    incoming.refuse(b"not today");
    let end = soon("end", a.recv()).await.unwrap_err();
    assert!(end.to_string().contains("not today"), "{end}");
}

/// RFC 9260, section 11.1.13
#[tokio::test]
async fn parameters_change_at_run_time() {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    let bounds = |min| {
        let changes = ParameterChanges::new();
        let min = Duration::from_millis(min);
        changes.rto(min, min, Duration::from_secs(9))
    };
    client.change_parameters(bounds(700)).await.unwrap();
    let peer = (ip("127.0.0.1"), server.port());
    let mut options = to(&server);
    options.association = None;
    let both = async { tokio::join!(client.connect_with(peer, options), server.accept()) };
    let (a, incoming) = soon("set-up", both).await;
    let (a, incoming) = (a.unwrap(), incoming.unwrap());
    let b = incoming.accept_with(bounds(400)).await.unwrap();
    for (sender, rto) in [(&a, 700), (&b, 400)] {
        sender.send("measured", on(0)).await.unwrap();
        soon("acknowledgement", sender.flushed()).await.unwrap();
        let path = sender.control().paths().await.unwrap()[0];
        assert!(path.rto >= Duration::from_millis(rto), "{path:?}");
        assert!(path.rto < Duration::from_secs(1), "{path:?}");
    }
    let wrong = ParameterChanges::new().sack(Duration::from_secs(1), 2);
    let Err(OperationError::Config(error)) = a.control().change_parameters(wrong).await else {
        panic!("accepted");
    };
    assert_eq!(error.field, "sack_delay");
    a.control().set_path_mtu(PathId(0), 1000).await.unwrap();
    assert!(a.control().paths().await.unwrap()[0].mtu <= 1000);
    let refused = a.control().set_path_mtu(PathId(0), 100).await;
    assert!(matches!(refused, Err(OperationError::Config(_))));
    let interval = Duration::from_secs(5);
    a.control()
        .set_heartbeat_interval(PathId(0), interval)
        .await
        .unwrap();
    assert_eq!(
        a.control().heartbeat_interval(PathId(0)).await,
        Ok(interval)
    );
    let unknown = a.control().heartbeat_interval(PathId(9)).await;
    assert_eq!(unknown, Err(OperationError::UnknownPath));
}

/// RFC 6458, sections 8.1.2 and 8.1.3
#[tokio::test]
async fn parameters_of_the_set_up_change_after_bind() {
    let (client, server, a, _b) = pair().await;
    let before = a.control().outbound_streams();
    let life = Duration::from_secs(7);
    let changed = client.change_default_config(move |config| {
        config.streams.outbound_streams = 3;
        config.timers.max_init_retransmits = 2;
        config.timers.valid_cookie_life = life;
    });
    changed.await.unwrap();
    let config = client.default_config().await.unwrap();
    assert_eq!(config.timers.valid_cookie_life, life);
    assert_eq!(config.timers.max_init_retransmits, 2);
    let other = endpoint(&["127.0.0.1"]);
    let peer = (ip("127.0.0.1"), other.port());
    let mut options = to(&other);
    options.association = None;
    let later = soon("set-up", client.connect_with(peer, options))
        .await
        .unwrap();
    assert_eq!(
        (
            later.control().outbound_streams(),
            a.control().outbound_streams()
        ),
        (3, before)
    );
    let refused = server.change_default_config(|config| config.streams.outbound_streams = 0);
    let Err(OperationError::Config(error)) = refused.await else {
        panic!("accepted");
    };
    assert_eq!(error.field, "outbound_streams");
}

#[tokio::test]
async fn handles_have_a_debug_form() {
    let (client, _server, a, mut b) = pair().await;
    let events = b.take_events();
    let (sender, receiver) = b.split();
    let text = format!("{client:?} {a:?} {sender:?} {receiver:?} {events:?}");
    assert!(text.contains("127.0.0.1"), "{text}");
}

/// RFC 8899, section 5.2: the second probe has the MTU of the host's route, of which loopback has more than the search goes to.
#[tokio::test]
async fn path_mtu_discovery_begins_with_the_route() {
    let searching = AssociationConfig::modern()
        .with(|c| c.mtu.path_mtu_discovery = Some(PathMtuDiscovery::default()));
    let client = Endpoint::bind(config(&["127.0.0.1"]).association(searching)).unwrap();
    let server = endpoint(&["127.0.0.1"]);
    let (a, _b) = associate(&client, &server, &["127.0.0.1"]).await;
    let largest = PathMtuDiscovery::default().max_probed_mtu;
    let path = soon("search", async {
        loop {
            let path = a.control().paths().await.unwrap().remove(0);
            if path.mtu == largest {
                break path;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(path.mtu_probes_sent, 2, "{path:?}");
}
