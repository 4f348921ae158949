//! Futures that are dropped before they are ready lose nothing and repeat nothing.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use carrick::ConnectOptions;

use crate::support::{content, endpoint, gone, ip, on, pair, pair_of, quick, small, soon};

/// Polls a future a few times, with other work between, then drops it.
async fn poll_and_drop<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test]
async fn cancelled_send_is_queued_completely_or_not() {
    let (_client, _server, a, mut b) = pair_of(small()).await;
    let receiver = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(message) = b.recv().await.unwrap() {
            let bytes = message.payload.into_bytes();
            let number = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
            assert!(bytes[2..] == content(number, 3000));
            seen.push(number);
            if seen.len() % 10 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        seen
    });
    let mut queued = Vec::new();
    let mut cancelled = 0;
    for number in 0..2000_usize {
        let mut data = (number as u16).to_be_bytes().to_vec();
        data.extend(content(number, 3000));
        match poll_and_drop(1 + number % 3, a.send(data, on(0))).await {
            Some(result) => {
                result.unwrap();
                queued.push(number);
            }
            None => cancelled += 1,
        }
        if number % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    soon("shutdown", a.shutdown()).await.unwrap();
    let seen = soon("receiver", receiver).await.unwrap();
    assert!(cancelled > 0 && !queued.is_empty(), "{cancelled} cancelled");
    assert_eq!(seen, queued);
}

#[tokio::test]
async fn a_cancelled_recv_loses_nothing() {
    let (_client, _server, a, mut b) = pair().await;
    let sender = tokio::spawn(async move {
        for number in 0..1000 {
            a.send(content(number, 5000), on(0)).await.unwrap();
        }
        a.shutdown().await.unwrap();
    });
    let mut next = 0;
    soon("all messages", async {
        loop {
            let Some(result) = poll_and_drop(1 + next % 2, b.recv()).await else {
                tokio::task::yield_now().await;
                continue;
            };
            let Some(message) = result.unwrap() else {
                return;
            };
            assert!(message.payload == content(next, 5000)[..]);
            next += 1;
        }
    })
    .await;
    assert_eq!(next, 1000);
    sender.await.unwrap();
}

#[tokio::test]
async fn a_cancelled_connect_aborts_the_set_up() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = endpoint(&["127.0.0.1"]);
    let options = ConnectOptions::new().encapsulation_port(silent.local_addr().unwrap().port());
    let peers = [ip("127.0.0.1")];
    let connecting = client.connect_with((&peers, 5000), options);
    assert!(poll_and_drop(3, connecting).await.is_none());
    gone(&client).await;
}

#[tokio::test]
async fn a_cancelled_accept_loses_no_association() {
    let (client, server) = (endpoint(&["127.0.0.1"]), endpoint(&["127.0.0.1"]));
    let options = crate::support::to(&server).association(quick());
    assert!(poll_and_drop(2, server.accept()).await.is_none());
    let a = soon(
        "set-up",
        client.connect_with((ip("127.0.0.1"), server.port()), options),
    )
    .await
    .unwrap();
    let accepted = soon("accept", server.accept()).await.unwrap().accept();
    assert_eq!(accepted.control().peer_port(), client.port());
    drop(a);
}

#[tokio::test]
async fn a_cancelled_shutdown_continues() {
    let (_client, _server, a, mut b) = pair().await;
    a.send("last", on(0)).await.unwrap();
    assert!(poll_and_drop(1, a.shutdown()).await.is_none());
    assert!(soon("message", b.recv()).await.unwrap().is_some());
    assert_eq!(soon("end", b.recv()).await.unwrap(), None);
    soon("second shutdown", a.shutdown()).await.unwrap();
}
