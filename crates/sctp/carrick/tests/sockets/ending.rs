//! End of associations, endpoints and their task.

use std::time::Duration;

use carrick::{
    AbortCause, AssociationConfig, CloseReason, Endpoint, Event, Notification, OperationError,
    RecvError, SendError,
};
use tokio::runtime::Handle;

use crate::support::{
    associate, config, content, endpoint, gone, ip, on, pair, pair_of, small, soon, to,
};

/// Waits until only the tasks that the test started are left.
async fn no_task_left() {
    soon("end of the tasks", async {
        while Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn shutdown_delivers_everything_first() {
    let (_client, _server, a, mut b) = pair().await;
    for number in 0..100 {
        a.send(content(number, 20_000), on(0)).await.unwrap();
    }
    let shutdown = tokio::spawn(async move {
        a.shutdown().await.unwrap();
        a
    });
    for number in 0..100 {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == content(number, 20_000)[..]);
    }
    assert_eq!(soon("end", b.recv()).await.unwrap(), None);
    assert_eq!(b.recv().await.unwrap(), None, "the end stays");
    let mut a = soon("shutdown", shutdown).await.unwrap();
    assert_eq!(a.recv().await.unwrap(), None);
    assert_eq!(
        a.send("late", on(0)).await.unwrap_err(),
        SendError::Ended(CloseReason::Shutdown)
    );
    a.shutdown().await.unwrap();
}

/// Shuts down during sending, with some senders waiting for room. Returns the number of messages that were
/// accepted, delivered and reported as failed.
async fn shut_down_under_senders(round: usize) -> (usize, usize, usize) {
    let (_client, _server, mut a, mut b) = pair_of(small()).await;
    let mut events = a.take_events().unwrap();
    let senders: Vec<_> = (0..3)
        .map(|stream| {
            let sender = a.sender();
            tokio::spawn(async move {
                let mut sent = 0;
                loop {
                    match sender.send(content(sent, 1000), on(stream)).await {
                        Ok(()) => sent += 1,
                        Err(error) => return (sent, error),
                    }
                }
            })
        })
        .collect();
    let receiver = tokio::spawn(async move {
        let mut received = 0;
        while b.recv().await.unwrap().is_some() {
            received += 1;
        }
        received
    });
    tokio::time::sleep(Duration::from_micros(300 * round as u64)).await;
    soon("shutdown", a.shutdown()).await.unwrap();
    let mut sent = 0;
    for sender in senders {
        let (messages, error) = soon("sender", sender).await.unwrap();
        sent += messages;
        assert!(
            matches!(
                error,
                SendError::ShuttingDown | SendError::Ended(CloseReason::Shutdown)
            ),
            "{error}"
        );
    }
    let mut failed = 0;
    while let Some(notification) = soon("notification", events.next()).await {
        let failure = matches!(notification, Notification::Event(Event::SendFailed(_)));
        failed += usize::from(failure);
    }
    (sent, soon("receiver", receiver).await.unwrap(), failed)
}

/// RFC 9260, section 9.2
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn accepted_messages_are_delivered_by_a_shutdown() {
    for round in 0..60 {
        let (sent, received, failed) = shut_down_under_senders(round).await;
        assert_eq!((received, failed), (sent, 0), "round {round}");
    }
}

/// RFC 9260, section 9.2
#[tokio::test]
async fn a_waiting_send_fails_when_the_peer_shuts_down() {
    let (_client, _server, mut a, mut b) = pair_of(small()).await;
    let mut events = a.take_events().unwrap();
    let sender = a.sender();
    let sending = tokio::spawn(async move {
        let mut sent = 0;
        loop {
            match sender.send(content(sent, 3000), on(0)).await {
                Ok(()) => sent += 1,
                Err(error) => return (sent, error),
            }
        }
    });
    // Waits for room, because the peer does not receive.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let peer = b.sender();
    let shutdown = tokio::spawn(async move { peer.shutdown().await });
    // The peer still does not receive: no room becomes free.
    let (sent, error) = soon("sender", sending).await.unwrap();
    assert_eq!(error, SendError::ShuttingDown);
    let mut received = 0;
    while soon("message", b.recv()).await.unwrap().is_some() {
        received += 1;
    }
    soon("shutdown", shutdown).await.unwrap().unwrap();
    let mut failed = 0;
    while let Some(notification) = soon("notification", events.next()).await {
        let failure = matches!(notification, Notification::Event(Event::SendFailed(_)));
        failed += usize::from(failure);
    }
    assert_eq!(received + failed, sent);
}

#[tokio::test]
async fn both_sides_may_shut_down_at_once() {
    let (_client, _server, a, b) = pair().await;
    a.send("from a", on(0)).await.unwrap();
    b.send("from b", on(0)).await.unwrap();
    let (of_a, of_b) = soon("shutdown", async {
        tokio::join!(a.shutdown(), b.shutdown())
    })
    .await;
    of_a.unwrap();
    of_b.unwrap();
    for (mut side, text) in [(a, &b"from b"[..]), (b, b"from a")] {
        assert!(side.recv().await.unwrap().unwrap().payload == *text);
        assert_eq!(side.recv().await.unwrap(), None);
    }
}

#[tokio::test]
async fn the_peers_shutdown_stops_sending() {
    let (_client, _server, a, mut b) = pair().await;
    soon("shutdown", a.shutdown()).await.unwrap();
    assert_eq!(soon("end", b.recv()).await.unwrap(), None);
    assert!(b.send("late", on(0)).await.is_err());
    let mut notifications = Vec::new();
    while let Some(notification) = soon("notification", b.next_event()).await {
        notifications.push(notification);
    }
    assert!(notifications.contains(&Notification::Event(Event::PeerShutdown)));
    assert_eq!(
        notifications.last(),
        Some(&Notification::Event(Event::Closed(CloseReason::Shutdown)))
    );
}

#[tokio::test]
async fn an_abort_carries_its_reason() {
    let (_client, _server, mut a, mut b) = pair().await;
    a.send("before", on(0)).await.unwrap();
    assert!(soon("message", b.recv()).await.unwrap().is_some());
    a.abort(b"out of coffee");
    let reason = CloseReason::AbortedByPeer(AbortCause {
        code: 12,
        information: b"out of coffee".to_vec(),
    });
    let error = soon("abort", b.recv()).await.unwrap_err();
    assert_eq!(error, RecvError::Ended(reason.clone()));
    assert!(
        error
            .to_string()
            .ends_with("the peer aborted it: user-initiated abort (out of coffee)")
    );
    assert_eq!(b.shutdown().await, Err(OperationError::Ended(reason)));
    let own = soon("own end", a.recv()).await.unwrap_err();
    assert_eq!(own, RecvError::Ended(CloseReason::AbortedByUser));
}

#[tokio::test]
async fn messages_before_an_abort_are_received() {
    let (_client, _server, a, mut b) = pair().await;
    for number in 0..10 {
        a.send(content(number, 100), on(0)).await.unwrap();
    }
    soon("delivery", async {
        while b
            .control()
            .stats()
            .await
            .unwrap()
            .counters
            .data_chunks_received
            < 10
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    a.abort(b"");
    for number in 0..10 {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == content(number, 100)[..]);
    }
    assert!(soon("abort", b.recv()).await.is_err());
}

#[tokio::test]
async fn an_abort_returns_undelivered_messages() {
    let (_client, _server, mut a, b) = pair().await;
    for number in 0..100 {
        a.try_send(content(number, 10_000), on(0)).ok();
    }
    b.abort(b"");
    let mut returned = 0;
    while let Some(notification) = soon("notification", a.next_event()).await {
        if let Notification::Event(Event::SendFailed(failure)) = notification {
            assert!(failure.unsent.len() <= 10_000);
            returned += 1;
        }
    }
    assert!(returned > 0);
}

#[tokio::test]
async fn dropping_an_association_shuts_it_down() {
    let (client, _server, a, mut b) = pair().await;
    for number in 0..50 {
        a.send(content(number, 20_000), on(0)).await.unwrap();
    }
    let (send, recv) = a.split();
    drop(recv);
    drop(send);
    for number in 0..50 {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == content(number, 20_000)[..]);
    }
    assert_eq!(soon("end", b.recv()).await.unwrap(), None);
    gone(&client).await;
}

#[tokio::test]
async fn dropping_the_receiving_half_discards_messages() {
    let (_client, _server, a, b) = pair().await;
    let (send, recv) = b.split();
    drop(recv);
    for number in 0..200 {
        soon("room", a.send(content(number, 50_000), on(0)))
            .await
            .unwrap();
    }
    send.send("still here", on(0)).await.unwrap();
    let mut a = a;
    let message = soon("message", a.recv()).await.unwrap().unwrap();
    assert!(message.payload == b"still here"[..]);
    soon("shutdown", a.shutdown()).await.unwrap();
}

#[tokio::test]
async fn dropping_all_handles_ends_the_task() {
    let (client, server, a, b) = pair().await;
    assert!(Handle::current().metrics().num_alive_tasks() >= 2);
    a.send(content(1, 100_000), on(0)).await.unwrap();
    drop((client, a));
    drop((server, b));
    no_task_left().await;
}

#[tokio::test]
async fn associations_outlive_the_handle_of_their_endpoint() {
    let (client, server, a, mut b) = pair().await;
    drop((client, server));
    a.send("hello", on(0)).await.unwrap();
    assert!(soon("message", b.recv()).await.unwrap().is_some());
    drop(a);
    assert_eq!(soon("end", b.recv()).await.unwrap(), None);
    drop(b);
    no_task_left().await;
}

#[tokio::test]
async fn an_endpoint_without_handles_accepts_no_peer() {
    let (client, server, _a, b) = pair().await;
    // INIT is not sent again while the refusal is in flight.
    let options = to(&server).association(AssociationConfig::modern());
    let port = server.port();
    drop(server);
    let other = endpoint(&["127.0.0.1"]);
    let error = soon(
        "refusal",
        other.connect_with((ip("127.0.0.1"), port), options),
    )
    .await
    .err()
    .unwrap();
    // The INIT is refused, not the association after its set-up.
    assert!(error.to_string().starts_with("no association"), "{error}");
    assert!(!error.to_string().contains("closing"), "{error}");
    let stats = other.stats().await.unwrap().protocol;
    assert_eq!((stats.packets_sent, stats.datagrams_received), (1, 1));
    drop((client, b));
}

#[tokio::test]
async fn a_connect_and_a_message_are_the_last_handles() {
    let (client, server, mut a, b) = pair().await;
    drop((client, server));
    b.send("hello", on(0)).await.unwrap();
    drop(b);
    let message = soon("message", a.recv()).await.unwrap().unwrap();
    assert!(message.payload == b"hello"[..]);
    assert_eq!(soon("end", a.recv()).await.unwrap(), None);
    drop(a);
    no_task_left().await;
}

#[tokio::test]
async fn unaccepted_associations_end_with_the_endpoint() {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    let mut a = soon(
        "set-up",
        client.connect_with((&[ip("127.0.0.1")], server.port()), to(&server)),
    )
    .await
    .unwrap();
    drop(server);
    // Shut down or aborted, whichever comes first.
    drop(soon("end", a.recv()).await);
    drop((client, a));
    no_task_left().await;
}

#[tokio::test]
async fn a_full_backlog_refuses() {
    let mut one = config(&["127.0.0.1"]);
    one.backlog = 1;
    let server = Endpoint::bind(one).unwrap();
    let clients = [endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"])];
    let peers = [ip("127.0.0.1")];
    let first = soon(
        "set-up",
        clients[0].connect_with((&peers, server.port()), to(&server)),
    )
    .await;
    // The ABORT may arrive before the COOKIE ACK or after it.
    let refused = match soon(
        "set-up",
        clients[1].connect_with((&peers, server.port()), to(&server)),
    )
    .await
    {
        Ok(mut second) => soon("abort", second.recv()).await.unwrap_err().to_string(),
        Err(e) => e.to_string(),
    };
    assert!(refused.contains("too many associations wait"), "{refused}");
    assert!(soon("accept", server.accept()).await.is_some());
    drop(first.unwrap());
}

/// A peer with many ports, and a program that accepts nothing.
#[tokio::test]
async fn one_source_fills_a_quarter_of_the_backlog() {
    let mut slow = config(&["127.0.0.1"]);
    slow.backlog = 80;
    let server = Endpoint::bind(slow).unwrap();
    let mut connected = Vec::new();
    for _ in 0..25 {
        let client = endpoint(&["127.0.0.2"]);
        let peers = [ip("127.0.0.1")];
        let set_up = client.connect_with((&peers, server.port()), to(&server));
        // The ABORT may arrive before the COOKIE ACK or after it.
        connected.push((soon("set-up", set_up).await.ok(), client));
    }
    let client = endpoint(&["127.0.0.3"]);
    let peers = [ip("127.0.0.1")];
    let set_up = client.connect_with((&peers, server.port()), to(&server));
    let mut other = soon("set-up", set_up).await.unwrap();
    assert_eq!(server.associations().await.unwrap(), 21);
    for _ in 0..21 {
        let incoming = soon("accept", server.accept()).await.unwrap();
        if incoming.peer_addresses() == [ip("127.0.0.3")] {
            drop(incoming.accept().send("welcome", on(0)).await);
        }
    }
    let message = soon("message", other.recv()).await.unwrap().unwrap();
    assert!(message.payload == b"welcome"[..]);
    // The places are free again.
    let client = endpoint(&["127.0.0.2"]);
    let (again, accepted) = associate(&client, &server, &["127.0.0.1"]).await;
    drop((again, accepted, connected));
}

#[tokio::test]
async fn close_ends_everything() {
    let (client, server, a, mut b) = pair().await;
    a.send("last", on(0)).await.unwrap();
    let second = server.clone();
    let receiver = tokio::spawn(async move {
        let mut messages = 0;
        while b.recv().await.unwrap().is_some() {
            messages += 1;
        }
        messages
    });
    let report = soon("close", client.close()).await;
    assert!(report.is_empty(), "{report}");
    assert_eq!(soon("receiver", receiver).await.unwrap(), 1);
    assert!(client.stats().await.is_err());
    assert!(client.accept().await.is_none());
    assert_eq!(
        client
            .connect_with((&[ip("127.0.0.1")], server.port()), to(&server))
            .await
            .err()
            .unwrap()
            .to_string(),
        "the endpoint is closed: bind another one"
    );
    let report = soon("close", server.close()).await;
    assert!(report.is_empty(), "{report}");
    assert_eq!(soon("close again", second.close()).await, report);
    assert!(second.accept().await.is_none());
    drop(a);
    no_task_left().await;
}

#[tokio::test]
async fn an_association_is_aborted_after_the_linger_time() {
    let mut impatient = config(&["127.0.0.1"]);
    impatient.linger = Duration::from_millis(200);
    let client = Endpoint::bind(impatient).unwrap();
    let server = endpoint(&["127.0.0.1"]);
    let (a, mut b) = associate(&client, &server, &["127.0.0.1"]).await;
    // More data than the peer accepts while its user does not receive.
    while tokio::time::timeout(
        Duration::from_millis(200),
        a.send(content(0, 50_000), on(0)),
    )
    .await
    .is_ok()
    {}
    drop((a, client));
    let end = soon("abort", async {
        loop {
            match b.recv().await {
                Ok(Some(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
                end => return end,
            }
        }
    })
    .await;
    let error = end.unwrap_err();
    assert!(
        error.to_string().contains("not shut down in time"),
        "{error}"
    );
}

#[test]
fn calls_after_the_end_of_the_runtime_fail() {
    // Its tasks run within `block_on` only, so that nothing is acknowledged behind it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (client, _server, mut a, _b) = runtime.block_on(pair());
    // More than the congestion window.
    a.try_send(content(0, 200_000), on(0)).unwrap();
    runtime.shutdown_timeout(Duration::from_secs(5));
    let other = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    other.block_on(async {
        assert!(a.send("x", on(0)).await.is_err());
        assert!(a.recv().await.is_err());
        assert!(client.accept().await.is_none());
        assert!(client.stats().await.is_err());
        let report = client.close().await;
        assert_eq!(report.undelivered, 1, "{report}");
        assert_eq!(report.associations[0].reason, CloseReason::AbortedByUser);
        assert_eq!(a.closed().await, CloseReason::AbortedByUser);
    });
}
