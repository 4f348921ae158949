//! Flow control from a slow receiver back to the sender: memory is bounded and no message is lost.

use std::time::Duration;

use carrick::{Endpoint, Event, Notification, TrySendError};

use crate::support::{associate, config, content, endpoint, ip, on, pair, pair_of, soon, to};

#[tokio::test]
async fn a_receiver_that_does_not_receive_stops_the_sender() {
    let (_client, _server, a, mut b) = pair().await;
    let mut sent = 0;
    // Send buffer, receive buffer and both queues hold less than 4 MiB together.
    let limit = (4 << 20) / 10_000;
    while sent < limit * 2 {
        match tokio::time::timeout(Duration::from_secs(2), a.send(content(sent, 10_000), on(0)))
            .await
        {
            Ok(result) => result.unwrap(),
            Err(_) => break,
        }
        sent += 1;
    }
    assert!(sent < limit, "{sent} messages of 10,000 bytes went nowhere");
    assert!(sent > 50, "only {sent}");
    let error = a.try_send(content(0, 10_000), on(0)).unwrap_err();
    assert_eq!(error, TrySendError::Full(content(0, 10_000).into()));
    // The message of the cancelled call was not queued; the next number takes its place.
    let more = a.sender();
    let rest = tokio::spawn(async move {
        for number in sent..sent + 50 {
            more.send(content(number, 10_000), on(0)).await.unwrap();
        }
    });
    for number in 0..sent + 50 {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(
            message.payload == content(number, 10_000)[..],
            "message {number}"
        );
    }
    soon("sender", rest).await.unwrap();
}

#[tokio::test]
async fn small_messages_are_bounded_in_number() {
    let mut few = config(&["127.0.0.1"]);
    few.receive_queue_messages = 4;
    few.association.buffers.receive_buffer = 20_000;
    few.association.buffers.send_buffer_messages = 50;
    few.send_queue = 10 * 65;
    let (_client, _server, a, mut b) = pair_of(few).await;
    let mut sent = 0;
    while let Ok(result) =
        tokio::time::timeout(Duration::from_millis(300), a.send(vec![sent as u8], on(0))).await
    {
        result.unwrap();
        sent += 1;
        assert!(sent < 1000);
    }
    for number in 0..sent {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == [number as u8][..]);
    }
}

#[tokio::test]
async fn a_message_larger_than_every_queue_gets_through() {
    let mut small = config(&["127.0.0.1"]);
    small.send_queue = 1000;
    small.receive_queue = 1;
    small.association.buffers.send_buffer = 1000;
    small.association.buffers.receive_buffer = 5000;
    let (_client, _server, a, mut b) = pair_of(small).await;
    let sender = tokio::spawn(async move {
        for number in 0..3 {
            a.send(content(number, 40_000), on(0)).await.unwrap();
        }
        a.shutdown().await.unwrap();
    });
    for number in 0..3 {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == content(number, 40_000)[..]);
    }
    assert_eq!(soon("end", b.recv()).await.unwrap(), None);
    soon("sender", sender).await.unwrap();
}

#[tokio::test]
async fn unread_notifications_are_counted() {
    let mut few = config(&["127.0.0.1"]);
    few.notifications = 2;
    let (client, server) = (
        Endpoint::bind(few.clone()).unwrap(),
        Endpoint::bind(few).unwrap(),
    );
    let (mut a, b) = associate(&client, &server, &["127.0.0.1"]).await;
    // The receiver reads nothing: all of these messages fail when it aborts.
    let messages = 20;
    for number in 0..messages {
        a.send(content(number, 100_000), on(0)).await.unwrap();
        if number == 0 {
            tokio::task::yield_now().await;
        }
        if a.try_send(content(number, 1), on(1)).is_err() {
            break;
        }
    }
    b.abort(b"enough");
    let (mut delivered, mut lost, mut closed) = (0, 0, false);
    while let Some(notification) = soon("notification", a.next_event()).await {
        assert!(!closed, "nothing follows the end");
        match notification {
            Notification::Lagged(n) => lost += n,
            Notification::Event(Event::Closed(_)) => closed = true,
            Notification::Event(_) => delivered += 1,
        }
    }
    assert!(closed);
    assert!(
        delivered >= 2 && lost > 0,
        "delivered {delivered}, lost {lost}"
    );
}

/// Before an association is accepted, all that its peer sends counts in `receive_memory`.
#[tokio::test]
async fn messages_stay_in_the_protocol_until_accept() {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    let peers = [ip("127.0.0.1")];
    let a = soon(
        "set-up",
        client.connect_with((&peers, server.port()), to(&server)),
    )
    .await
    .unwrap();
    for number in 0..300 {
        a.send(content(number, 1000), on(0)).await.unwrap();
    }
    soon("acknowledged", a.flushed()).await.unwrap();
    let held = async || server.stats().await.unwrap().protocol.receive_memory;
    assert!(held().await >= 300_000);
    let mut b = soon("accept", server.accept()).await.unwrap().accept();
    for number in 0..300 {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == content(number, 1000)[..], "{number}");
    }
    assert_eq!(held().await, 0);
}
