//! Report of `Endpoint::close`, and the end of an association as its handles return it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use carrick::{AbortCause, Association, AssociationConfig, CloseReason, ConnectOptions, Endpoint};

use crate::relay;
use crate::support::{
    associate, config, content, endpoint, gone, ip, on, pair, quick, small, soon, to,
};

/// A relay between a client and a server that can be cut.
#[derive(Clone, Default)]
struct Cut {
    is_cut: Arc<AtomicBool>,
    /// Number of ABORTs of the server that were lost.
    lost_aborts: Arc<AtomicUsize>,
}

/// Offset of the type of the first chunk in a packet, and the type of ABORT (RFC 9260, sections 3 and 3.2).
const FIRST_CHUNK: usize = 12;
const ABORT: u8 = 6;

impl Cut {
    /// Opens a relay to this address of the server. Returns its UDP port as well.
    fn relay(server: &Endpoint, address: &str) -> (Self, u16) {
        let cut = Self::default();
        let of_relay = cut.clone();
        let port = relay::open(server, ip(address), move |datagram| {
            let passes = !of_relay.is_cut.load(Ordering::SeqCst);
            let is_abort = datagram.bytes.get(FIRST_CHUNK) == Some(&ABORT);
            if !passes && is_abort && datagram.from_server {
                of_relay.lost_aborts.fetch_add(1, Ordering::SeqCst);
            }
            passes.then_some(datagram).into_iter().collect()
        });
        (cut, port)
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

/// Sets up an association over a relay.
async fn over_a_relay(client: &Endpoint, server: &Endpoint) -> (Cut, Association, Association) {
    let (cut, port) = Cut::relay(server, "127.0.0.1");
    let (a, b) = relay::associate(client, server, ip("127.0.0.1"), port).await;
    (cut, a, b)
}

/// RFC 9260, section 6.4.1: the messages move to the second path, however long the first one is retried.
#[tokio::test]
async fn close_waits_for_a_failover() {
    let addresses = ["127.0.0.1", "127.0.0.2"];
    let mut of_client = config(&addresses);
    // It limits associations without handles only.
    of_client.linger = Duration::from_millis(1);
    of_client.association = quick().with(|c| c.paths.association_max_retrans = 50);
    let client = Endpoint::bind(of_client).unwrap();
    let server = endpoint(&addresses);
    let relays = addresses.map(|address| Cut::relay(&server, address));
    let options = ConnectOptions::new()
        .encapsulated(ip(addresses[0]), relays[0].1)
        .encapsulated(ip(addresses[1]), relays[1].1);
    let peers = addresses.map(ip);
    let set_up = async {
        let connected = client.connect_with((&peers, server.port()), options);
        tokio::join!(connected, server.accept())
    };
    let (a, b) = soon("set-up", set_up).await;
    let (a, mut b) = (a.unwrap(), b.unwrap().accept());
    soon("confirmation", async {
        while (a.control().paths().await.unwrap().iter()).any(|path| !path.status.confirmed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    relays[0].0.cut();
    for number in 0..20 {
        a.send(content(number, 1000), on(0)).await.unwrap();
    }
    let report = soon("close", client.close()).await;
    assert!(report.is_empty(), "{report}");
    assert_eq!(a.close_reason(), Some(CloseReason::Shutdown));
    for number in 0..20 {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == content(number, 1000)[..]);
    }
    assert_eq!(soon("end", b.recv()).await.unwrap(), None);
}

/// RFC 9260, section 8.1
#[tokio::test]
async fn close_reports_a_dead_peer() {
    let mut impatient = config(&["127.0.0.1"]);
    impatient.association = quick();
    let client = Endpoint::bind(impatient).unwrap();
    let server = endpoint(&["127.0.0.1"]);
    let (cut, a, _b) = over_a_relay(&client, &server).await;
    a.send("arrives", on(0)).await.unwrap();
    soon("acknowledgement", a.flushed()).await.unwrap();
    cut.cut();
    for number in 0..5 {
        a.send(content(number, 1000), on(0)).await.unwrap();
    }
    let report = soon("close", client.close()).await;
    let [end] = &report.associations[..] else {
        panic!("{report}");
    };
    assert_eq!(end.reason, CloseReason::PeerUnreachable);
    assert_eq!(end.peer_addresses, [ip("127.0.0.1")]);
    assert_eq!(end.peer_port, server.port());
    assert_eq!((end.undelivered, end.unread, end.timed_out), (5, 0, false));
    assert_eq!((report.undelivered, report.omitted), (5, 0));
    assert_eq!(
        report.to_string(),
        format!(
            "5 messages not delivered; 127.0.0.1 port {}: the peer no longer answers on any of its \
             addresses (5 messages not delivered)",
            server.port()
        )
    );
}

#[tokio::test]
async fn a_limit_aborts_what_is_left() {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    let (cut, a, _b) = over_a_relay(&client, &server).await;
    cut.cut();
    for number in 0..3 {
        a.send(content(number, 1000), on(0)).await.unwrap();
    }
    // Dropping the future limits nothing.
    let unlimited = tokio::time::timeout(Duration::from_millis(50), client.close()).await;
    assert!(unlimited.is_err());
    assert_eq!(a.close_reason(), None);
    let limit = Duration::from_millis(1);
    let report = soon("close", client.close_within(limit)).await;
    let end = &report.associations[0];
    assert_eq!(end.reason, CloseReason::AbortedByUser);
    assert_eq!((end.undelivered, end.timed_out), (3, true));
    assert_eq!(report.undelivered, 3);
    assert_eq!(client.close().await, report, "for each caller");
}

/// An association that failed before `close`, when no handle was looked at.
#[tokio::test]
async fn an_unseen_end_is_reported() {
    let (client, _server, a, b) = pair().await;
    b.abort(b"out of coffee");
    gone(&client).await;
    let report = soon("close", client.close()).await;
    let reason = CloseReason::AbortedByPeer(AbortCause {
        code: 12,
        information: b"out of coffee".to_vec(),
    });
    assert_eq!(report.associations[0].reason, reason);
    assert_eq!(report.associations.len(), 1);
    drop(a);
}

#[tokio::test]
async fn a_seen_end_is_not_reported_again() {
    let (client, server, a, b) = pair().await;
    b.abort(b"out of coffee");
    assert!(matches!(
        soon("end", a.closed()).await,
        CloseReason::AbortedByPeer(_)
    ));
    for endpoint in [client, server] {
        gone(&endpoint).await;
        let report = soon("close", endpoint.close()).await;
        // The other side called `abort`.
        assert!(report.is_empty(), "{report}");
    }
}

#[tokio::test]
async fn messages_that_nothing_accepted_are_reported() {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    let peers = [ip("127.0.0.1")];
    let set_up = client.connect_with((&peers, server.port()), to(&server));
    let a = soon("set-up", set_up).await.unwrap();
    for number in 0..3 {
        a.send(content(number, 100), on(0)).await.unwrap();
    }
    soon("acknowledgement", a.flushed()).await.unwrap();
    let report = soon("close", server.close()).await;
    let end = &report.associations[0];
    assert_eq!(end.reason, CloseReason::Shutdown);
    assert_eq!((end.undelivered, end.unread), (0, 3));
    assert_eq!(a.closed().await, CloseReason::Shutdown);
    assert!(soon("close", client.close()).await.is_empty());
}

/// The messages stay with the handle, beyond the length of its queue.
#[tokio::test]
async fn close_does_not_wait_for_messages_to_be_read() {
    let client = endpoint(&["127.0.0.1"]);
    let mut short = config(&["127.0.0.1"]);
    short.receive_queue_messages = 1;
    let server = Endpoint::bind(short).unwrap();
    let (a, mut b) = associate(&client, &server, &["127.0.0.1"]).await;
    for number in 0..10 {
        a.send(content(number, 100), on(0)).await.unwrap();
    }
    soon("acknowledgement", a.flushed()).await.unwrap();
    for endpoint in [&server, &client] {
        let report = soon("close", endpoint.close()).await;
        assert!(report.is_empty(), "{report}");
    }
    for number in 0..10 {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == content(number, 100)[..]);
    }
    assert_eq!(soon("end", b.recv()).await.unwrap(), None);
}

/// Messages in front of the protocol, too.
#[tokio::test]
async fn messages_that_wait_for_room_are_counted() {
    let client = Endpoint::bind(small()).unwrap();
    let server = Endpoint::bind(small()).unwrap();
    let (a, b) = associate(&client, &server, &["127.0.0.1"]).await;
    let sender = a.sender();
    let mut accepted = 0;
    while tokio::time::timeout(
        Duration::from_millis(200),
        sender.send(content(0, 3000), on(0)),
    )
    .await
    .is_ok()
    {
        accepted += 1;
    }
    let (cut_off, mut b) = b.split();
    let report = soon("close", client.close_within(Duration::ZERO)).await;
    let mut received = 0;
    while let Ok(Some(_)) = soon("message", b.recv()).await {
        received += 1;
    }
    // Received ones may not have been acknowledged.
    assert!(report.undelivered <= accepted);
    assert!(received + report.undelivered >= accepted);
    drop(cut_off);
}

#[tokio::test]
async fn any_number_of_tasks_wait_for_the_end() {
    let (_client, _server, a, b) = pair().await;
    assert_eq!((a.close_reason(), b.close_reason()), (None, None));
    // Futures that are dropped leave nothing behind.
    for _ in 0..100 {
        let waiting = tokio::time::timeout(Duration::ZERO, a.closed());
        assert!(waiting.await.is_err());
    }
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let sender = a.sender();
            tokio::spawn(async move { sender.closed().await })
        })
        .collect();
    let (sender, receiver) = a.split();
    let by_receiver = tokio::spawn(async move { receiver.closed().await });
    b.send("unread", on(0)).await.unwrap();
    soon("shutdown", b.shutdown()).await.unwrap();
    for task in tasks.into_iter().chain([by_receiver]) {
        assert_eq!(soon("end", task).await.unwrap(), CloseReason::Shutdown);
    }
    assert_eq!(sender.close_reason(), Some(CloseReason::Shutdown));
    assert_eq!(b.closed().await, CloseReason::Shutdown);
}

/// RFC 9260, section 5.2.4: a restart of the peer ends a shutdown that has begun; it begins again.
#[tokio::test]
async fn a_shutdown_outlives_a_restart_of_the_peer() {
    let client = endpoint(&["127.0.0.1"]);
    let server = endpoint(&["127.0.0.1"]);
    let (cut, a, _b) = over_a_relay(&client, &server).await;
    let port = server.port();
    let udp = server.encapsulation_port().unwrap();
    let of_relay = a.control().paths().await.unwrap()[0].encapsulation.unwrap();
    cut.cut();
    a.send("lost", on(0)).await.unwrap();
    let ending = a.sender();
    let ending = tokio::spawn(async move { ending.shutdown().await });
    soon("shutdown of the peer's process", async {
        while a.control().stats().await.unwrap().state != carrick::StateName::ShutdownPending {
            tokio::task::yield_now().await;
        }
        let report = server.close_within(Duration::ZERO).await;
        assert_eq!(report.associations.len(), 1);
        // It does not pass the relay later.
        while cut.lost_aborts.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    cut.mend();
    let again = config(&["127.0.0.1"]).port(port).encapsulation_port(udp);
    let again = Endpoint::bind(again).unwrap();
    let options = ConnectOptions::new()
        .encapsulation_port(of_relay)
        .association(AssociationConfig::modern());
    let peers = [ip("127.0.0.1")];
    let set_up = again.connect_with((&peers, client.port()), options);
    let restarted = soon("restart", set_up).await.unwrap();
    soon("shutdown", ending).await.unwrap().unwrap();
    assert_eq!(restarted.closed().await, CloseReason::Shutdown);
    let report = soon("close", client.close()).await;
    assert_eq!(report.undelivered, 1, "{report}");
}
