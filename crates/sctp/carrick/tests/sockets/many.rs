//! Several messages in one call arrive as those of single calls do.

use std::collections::VecDeque;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use carrick::{SendError, SendOptions};

use crate::support::{content, on, pair, pair_of, small, soon};

/// Messages that alternate between two streams, with lengths between 2 and 3000 bytes.
fn numbered(count: usize) -> VecDeque<(Bytes, SendOptions)> {
    (0..count)
        .map(|number| {
            let mut data = (number as u16).to_be_bytes().to_vec();
            data.extend(content(number, number * 37 % 2999));
            (data.into(), on((number % 2) as u16))
        })
        .collect()
}

#[tokio::test]
async fn messages_arrive_once_in_order_on_their_streams() {
    const COUNT: usize = 3000;
    let (_client, _server, a, mut b) = pair_of(small()).await;
    let sender = tokio::spawn(async move {
        let mut messages = numbered(COUNT);
        a.send_many(&mut messages).await.unwrap();
        assert!(messages.is_empty());
        a.shutdown().await.unwrap();
    });
    let mut of_stream = [Vec::new(), Vec::new()];
    let mut received = Vec::new();
    let mut single = true;
    loop {
        if single {
            received.extend(soon("message", b.recv()).await.unwrap());
        } else {
            let before = received.len();
            let taken = soon("messages", b.recv_many(&mut received, 7)).await;
            let taken = taken.unwrap();
            assert_eq!(received.len(), before + taken);
            assert!(taken <= 7, "{taken}");
        }
        if received.is_empty() {
            break;
        }
        for message in received.drain(..) {
            of_stream[usize::from(message.stream.0)].push(message.payload.into_bytes());
        }
        single = !single;
    }
    let mut sent = [Vec::new(), Vec::new()];
    for (data, options) in numbered(COUNT) {
        sent[usize::from(options.stream.0)].push(data);
    }
    assert!(of_stream == sent);
    soon("sender", sender).await.unwrap();
}

#[tokio::test]
async fn a_cancelled_call_leaves_what_was_not_queued() {
    const COUNT: usize = 2000;
    let (_client, _server, a, mut b) = pair_of(small()).await;
    let receiver = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(message) = b.recv().await.unwrap() {
            seen.push(message.payload.into_bytes());
        }
        seen
    });
    let mut messages = numbered(COUNT);
    let mut cancelled = 0;
    while !messages.is_empty() {
        let mut sending = pin!(a.send_many(&mut messages));
        let sent = std::future::poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
        match sent {
            Poll::Ready(sent) => sent.unwrap(),
            Poll::Pending => cancelled += 1,
        }
        tokio::task::yield_now().await;
    }
    assert!(cancelled > 0);
    soon("shutdown", a.shutdown()).await.unwrap();
    let mut seen = soon("receiver", receiver).await.unwrap();
    let mut sent: Vec<Bytes> = numbered(COUNT).into_iter().map(|(data, _)| data).collect();
    // The streams are independent.
    seen.sort();
    sent.sort();
    assert!(seen == sent);
}

#[tokio::test]
async fn a_message_that_is_refused_stops_a_call() {
    let (_client, _server, a, mut b) = pair().await;
    let message = |text: &'static str| (Bytes::from_static(text.as_bytes()), on(0));
    let mut messages: VecDeque<_> = ["one", "two", "", "three"].map(message).into();
    let error = a.send_many(&mut messages).await.unwrap_err();
    assert_eq!(error, SendError::Empty);
    assert_eq!(messages, VecDeque::from(["", "three"].map(message)));
    messages[0] = (Bytes::from_static(b"other"), on(60_000));
    let error = a.send_many(&mut messages).await.unwrap_err();
    assert!(matches!(error, SendError::InvalidStream { .. }), "{error}");
    messages.pop_front();
    a.send_many(&mut messages).await.unwrap();
    let both = async { tokio::join!(a.shutdown(), received(&mut b)) };
    soon("shutdown", both).await.0.unwrap();
    let error = a.send_many(&mut VecDeque::from([message("late")])).await;
    assert!(error.is_err());
}

async fn received(b: &mut carrick::Association) {
    let mut messages = Vec::new();
    assert_eq!(b.recv_many(&mut messages, 0).await.unwrap(), 0);
    while b.recv_many(&mut messages, 100).await.unwrap() > 0 {}
    let texts: Vec<Bytes> = messages
        .into_iter()
        .map(|message| message.payload.into_bytes())
        .collect();
    assert_eq!(texts, ["one", "two", "three"]);
    assert_eq!(b.recv_many(&mut Vec::new(), 1).await.unwrap(), 0);
}
