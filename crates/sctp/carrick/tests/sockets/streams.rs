//! Stream schedulers and interleaving (RFC 8260).

use carrick::{Association, Endpoint, Extensions, MessagePart, OperationError, StreamScheduler};

use crate::support::{associate, config, content, on, pair, quick, soon};

/// Sets up an association with interleaving and a receive buffer smaller than the messages.
async fn interleaving_pair() -> (Endpoint, Endpoint, Association, Association) {
    let association = quick().with(|c| {
        c.buffers.receive_buffer = 60_000;
        c.extensions = Extensions {
            interleaving: true,
            ..Extensions::default()
        };
        c.streams.scheduler = StreamScheduler::RoundRobin;
    });
    let bind = || {
        let mut config = config(&["127.0.0.1"]);
        config.association = association.clone();
        Endpoint::bind(config).unwrap()
    };
    let (client, server) = (bind(), bind());
    let (a, b) = associate(&client, &server, &["127.0.0.1"]).await;
    (client, server, a, b)
}

/// RFC 8260, section 2
#[tokio::test]
async fn messages_of_several_streams_are_interleaved() {
    let (_client, _server, a, mut b) = interleaving_pair().await;
    assert!(a.control().stats().await.unwrap().extensions.interleaving);
    let sender = a.sender();
    let sending = tokio::spawn(async move {
        for number in 0..20 {
            let message = content(number, 100_000 + number);
            sender.send(message, on(number as u16 % 4)).await.unwrap();
        }
    });
    let mut next = [0, 1, 2, 3];
    for _ in 0..20 {
        let message = soon("a message", b.recv()).await.unwrap().unwrap();
        let number = &mut next[usize::from(message.stream.0)];
        assert!(message.payload == content(*number, 100_000 + *number)[..]);
        assert_eq!(message.part, MessagePart::Whole);
        assert_eq!(message.mid.map(|m| m.value()), Some(*number as u32 / 4));
        *number += 4;
    }
    soon("sending", sending).await.unwrap();
}

/// RFC 8260, section 4.3
#[tokio::test]
async fn scheduler_and_values_are_set_at_run_time() {
    let (_client, _server, a, mut b) = pair().await;
    for scheduler in StreamScheduler::ALL {
        a.control().set_scheduler(scheduler).await.unwrap();
        assert_eq!(a.control().scheduler().await, Ok(scheduler));
        for stream in 0..3 {
            a.control()
                .set_stream_value(stream, 7 * stream)
                .await
                .unwrap();
            assert_eq!(a.control().stream_value(stream).await, Ok(7 * stream));
            a.send(content(1, 3000), on(stream)).await.unwrap();
        }
        for _ in 0..3 {
            let message = soon("a message", b.recv()).await.unwrap().unwrap();
            assert_eq!(message.payload.len(), 3000, "{scheduler:?}");
        }
    }
    let refused = a
        .control()
        .set_stream_value(a.control().outbound_streams(), 1)
        .await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, OperationError::InvalidStream),
        "{refused:?}"
    );
    let unknown = a
        .control()
        .stream_value(a.control().outbound_streams())
        .await;
    assert_eq!(unknown, Err(OperationError::InvalidStream));
    a.abort(b"done");
    let ended = a
        .sender()
        .control()
        .set_scheduler(StreamScheduler::FirstCome)
        .await;
    assert!(matches!(ended, Err(OperationError::Ended(_))), "{ended:?}");
    let ended = a.control().scheduler().await;
    assert!(matches!(ended, Err(OperationError::Ended(_))), "{ended:?}");
}
