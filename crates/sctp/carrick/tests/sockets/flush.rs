//! `SendHalf::flushed`: all messages are acknowledged by the cumulative TSN.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carrick::{
    AuthenticationConfig, ChunkType, Extensions, OperationError, SharedKey, SharedKeyId,
};

use carrick::Endpoint;

use crate::relay;
use crate::support::*;

async fn is_pending(future: impl Future<Output = Result<(), OperationError>>) -> bool {
    let limit = Duration::from_millis(150);
    tokio::time::timeout(limit, future).await.is_err()
}

/// RFC 6458, section 6.1.9
#[tokio::test]
async fn flushed_waits_until_all_is_acknowledged() {
    let (client, server) = (
        Endpoint::bind(config(&["127.0.0.1"]).association(quick())).unwrap(),
        endpoint(&["127.0.0.1"]),
    );
    let silent = Arc::new(AtomicBool::new(false));
    let drop_answers = Arc::clone(&silent);
    let port = relay::open(&server, ip("127.0.0.1"), move |carried| {
        let lost = carried.from_server && drop_answers.load(Ordering::SeqCst);
        if lost { vec![] } else { vec![carried] }
    });
    let (a, mut b) = relay::associate(&client, &server, ip("127.0.0.1"), port).await;
    soon("nothing was sent", a.flushed()).await.unwrap();
    silent.store(true, Ordering::SeqCst);
    a.send("arrives", on(0)).await.unwrap();
    soon("message", b.recv()).await.unwrap().unwrap();
    assert!(is_pending(a.flushed()).await, "not acknowledged");
    silent.store(false, Ordering::SeqCst);
    soon("acknowledgement", a.flushed()).await.unwrap();
    let stats = a.control().stats().await.unwrap();
    assert_eq!((stats.outstanding_chunks, stats.send_buffer_bytes), (0, 0));
}

/// RFC 6458, section 6.1.9
#[tokio::test]
async fn flushed_waits_for_the_send_queue() {
    let (_client, _server, a, mut b) = pair_of(small()).await;
    let mut sent = 0;
    while a.try_send(content(sent, 1000), on(0)).is_ok() {
        sent += 1;
        tokio::task::yield_now().await;
    }
    assert!(is_pending(a.flushed()).await, "the peer does not receive");
    let (sender, reader) = (a.sender(), async {
        for n in 0..sent {
            let message = soon("message", b.recv()).await.unwrap().unwrap();
            assert_eq!(message.payload.into_bytes(), content(n, 1000));
        }
    });
    let (flushed, ()) = tokio::join!(soon("all", sender.flushed()), reader);
    flushed.unwrap();
    let stats = a.control().stats().await.unwrap();
    assert_eq!((stats.outstanding_chunks, stats.queued_messages), (0, 0));
}

/// RFC 6083, section 4.8: DTLS above SCTP changes keys when all data is acknowledged, because the old key
/// is not needed any more.
#[tokio::test]
async fn keys_change_when_all_is_acknowledged() {
    let key = |id: u16| SharedKey {
        id: SharedKeyId(id),
        secret: vec![id as u8; 20].into(),
    };
    let mut association = quick();
    association.extensions = Extensions {
        authentication: true,
        ..Extensions::NONE
    };
    association.security.authentication = AuthenticationConfig {
        required: vec![ChunkType::DATA],
        keys: vec![key(1)],
        active: SharedKeyId(1),
        null_key: false,
        ..association.security.authentication
    };
    let [client, server] = [0; 2].map(|_| {
        let config = config(&["127.0.0.1"]).association(association.clone());
        Endpoint::bind(config).unwrap()
    });
    // The pause lets messages arrive, so that an early answer is detected.
    let port = relay::open(&server, ip("127.0.0.1"), |carried| {
        if !carried.from_server {
            std::thread::sleep(Duration::from_millis(1));
        }
        vec![carried]
    });
    let (a, mut b) = relay::associate(&client, &server, ip("127.0.0.1"), port).await;
    for number in 2..6 {
        for n in 0..50 {
            a.send(content(n, 2000), on(0)).await.unwrap();
        }
        soon("all", a.flushed()).await.unwrap();
        // The peer deletes the old key at once: no packet with it may be in flight.
        for end in [&b, &a] {
            let end = end.sender();
            end.control().add_key(key(number)).await.unwrap();
            end.control()
                .activate_key(SharedKeyId(number))
                .await
                .unwrap();
            end.control()
                .delete_key(SharedKeyId(number - 1))
                .await
                .unwrap();
        }
        for n in 0..50 {
            let message = soon("message", b.recv()).await.unwrap().unwrap();
            assert_eq!(message.payload.into_bytes(), content(n, 2000), "{number}");
        }
    }
    // Only what T3-rtx repeated while its SACK was on the way may arrive after its key is deleted.
    let dropped = b.control().stats().await.unwrap().authentication;
    let repeated = a
        .control()
        .stats()
        .await
        .unwrap()
        .counters
        .timeout_retransmissions;
    assert!(dropped.unknown_keys <= repeated, "{dropped:?}, {repeated}");
    assert_eq!(dropped.forged_packets, 0);
}

#[tokio::test]
async fn flushed_fails_if_the_association_ends_early() {
    let (_client, _server, a, b) = pair().await;
    let sender = a.sender();
    a.send("last", on(0)).await.unwrap();
    let (flushed, ended) = tokio::join!(
        soon("all", sender.flushed()),
        soon("shutdown", a.shutdown())
    );
    flushed.unwrap();
    ended.unwrap();
    sender.flushed().await.unwrap();
    drop((a, b));

    let (_client, _server, a, b) = pair_of(small()).await;
    while a.try_send(content(0, 1000), on(0)).is_ok() {
        tokio::task::yield_now().await;
    }
    let (flushed, ()) = tokio::join!(soon("end", a.flushed()), async { b.abort(b"enough") });
    assert!(matches!(flushed, Err(OperationError::Ended(_))));
}
