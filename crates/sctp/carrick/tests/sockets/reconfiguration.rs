//! Streams are reset and added.

use carrick::{
    Event, Notification, OperationError, ReconfigError, ReconfigOutcome, SendOptions,
    StreamDirection, StreamId,
};

use crate::support::{pair, soon};

/// Returns the next notification that the closure selects.
async fn wait<T>(events: &mut carrick::Events, wanted: impl Fn(&Event) -> Option<T>) -> T {
    loop {
        let next = soon("an event", events.next()).await.expect("not the end");
        if let Notification::Event(event) = next
            && let Some(found) = wanted(&event)
        {
            return found;
        }
    }
}

/// RFC 6525
#[tokio::test]
async fn streams_are_reset_and_added_on_real_sockets() {
    let (_client, _server, mut a, mut b) = pair().await;
    let mut events = a.take_events().unwrap();
    let mut numbers = Vec::new();
    for round in 0..3 {
        for _ in 0..2 {
            a.send("message", SendOptions::on_stream(1)).await.unwrap();
            let message = soon("message", b.recv()).await.unwrap().unwrap();
            numbers.push(message.ssn.unwrap().value());
        }
        if round < 2 {
            let streams = [StreamId(1)];
            let reset = a
                .control()
                .reset_streams(StreamDirection::Outgoing, streams);
            reset.await.unwrap();
            let outcome = wait(&mut events, |event| match event {
                Event::StreamsReset { outcome, .. } => Some(*outcome),
                _ => None,
            });
            assert_eq!(outcome.await, ReconfigOutcome::Performed);
        }
    }
    assert_eq!(numbers, [0, 1, 0, 1, 0, 1]);
    let before = a.control().outbound_streams();
    a.control().add_streams(2, 0).await.unwrap();
    let total = wait(&mut events, |event| match event {
        Event::StreamsChanged {
            outbound_streams, ..
        } => Some(*outbound_streams),
        _ => None,
    });
    assert_eq!(total.await, before + 2);
    assert_eq!(a.control().outbound_streams(), before + 2);
    let options = SendOptions::on_stream(before + 1);
    a.send("on a new stream", options).await.unwrap();
    let message = soon("message", b.recv()).await.unwrap().unwrap();
    assert_eq!(message.stream, StreamId(before + 1));
    a.control().reset_association().await.unwrap();
    let outcome = wait(&mut events, |event| match event {
        Event::AssociationReset { outcome, .. } => Some(*outcome),
        _ => None,
    });
    assert_eq!(outcome.await, ReconfigOutcome::Performed);
    let refused = a.control().reset_association().await;
    let too_soon = OperationError::Reconfig(ReconfigError::TooSoon);
    assert_eq!(refused, Err(too_soon));
    a.send("after it", SendOptions::on_stream(1)).await.unwrap();
    let message = soon("message", b.recv()).await.unwrap().unwrap();
    assert_eq!(message.ssn.unwrap().value(), 0);
}
