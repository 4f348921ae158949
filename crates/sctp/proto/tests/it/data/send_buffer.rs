//! Messages accepted by SEND, and the time when they leave (sections 6.1, 11.1.5).

use bytes::Bytes;
use carrick_proto::{Event, SendError, SendOptions};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::data::support::*;

/// RFC 9260, section 6.1
#[test]
fn nagle_delays_small_packets() {
    for (nagle, packets) in [(true, 2), (false, 10)] {
        let mut w = World::single_homed();
        w.config.transmission.nagle = nagle;
        let (a, b) = w.connect();
        w.log.clear();
        for _ in 0..10 {
            w.send(0, a, 0, pattern(10));
            w.pump();
        }
        w.run(secs(1));
        assert_eq!(w.sent(0, ChunkType::DATA).len(), packets);
        assert_eq!(w.receive_lengths(1, b), [10; 10]);
    }
}

/// RFC 9260, section 6.1
#[test]
fn nagle_lets_full_and_no_delay_packets_pass() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    w.log.clear();
    w.send(0, a, 0, pattern(10));
    w.pump();
    w.send(0, a, 0, pattern(FULL));
    w.pump();
    assert_eq!(w.sent(0, ChunkType::DATA).len(), 2, "a full packet goes");
    let hurried = SendOptions {
        no_delay: true,
        ..options(0)
    };
    w.send_with(0, a, hurried, pattern(10));
    w.pump();
    assert_eq!(w.sent(0, ChunkType::DATA).len(), 3);
}

/// RFC 9260, section 11.1.5
#[test]
fn an_expired_message_is_reported_unsent() {
    let mut w = World::single_homed();
    let mut peer = Puppet::new();
    peer.a_rwnd = 1500;
    let (peer, id) = peer.connect(&mut w);
    let mortal = |context| SendOptions {
        lifetime: Some(ms(500)),
        context,
        ..options(0)
    };
    w.send_with(0, id, mortal(1), pattern(1000));
    w.send_with(0, id, mortal(2), pattern(1000));
    w.send_with(0, id, options(0), pattern(1000));
    let sent = peer.receive(&mut w);
    assert_eq!(
        peer.numbers(&sent),
        [0],
        "the window has room for one chunk"
    );
    w.run(ms(499));
    assert_eq!(w.events(0), []);
    w.run(ms(1));
    let events = w.events(0);
    assert!(
        matches!(&events[..], [Event::SendFailed(f)] if f.context == 2 && f.expired && !f.sent && f.unsent.len() == 1000),
        "{events:?}"
    );
    let answers = peer.sack(&mut w, peer.endpoint_tsn(0), 10_000, &[]);
    let data = answers[0].data();
    assert_eq!(data[0].ssn.value(), 1, "no number was used up");
}

/// RFC 9260, section 11.1.5
#[test]
fn a_full_send_buffer_refuses_and_reports_room() {
    let mut w = World::single_homed();
    w.config.buffers.send_buffer = 10_000;
    let (a, b) = w.connect();
    w.events(0);
    for _ in 0..10 {
        w.send(0, a, 0, pattern(1000));
    }
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), pattern(1)),
        Err(SendError::BufferFull)
    );
    assert_eq!(w.stats(0, a).send_buffer_bytes, 10_000);
    w.run(secs(2));
    let events = w.events(0);
    let free = events.iter().filter(|e| **e == Event::SendBufferFree);
    assert_eq!(free.count(), 1, "{events:?}");
    assert_eq!(events.last(), Some(&Event::AllAcknowledged));
    assert_eq!(w.receive(1, b).len(), 10);
    // One that is larger than the buffer goes when the buffer is empty.
    w.send(0, a, 0, pattern(50_000));
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), pattern(1)),
        Err(SendError::BufferFull)
    );
    w.run(secs(2));
    assert_eq!(w.receive_lengths(1, b), [50_000]);
}

/// RFC 9260, section 11.1.5
#[test]
fn the_number_of_queued_messages_is_bounded() {
    let mut w = World::single_homed();
    w.config.buffers.send_buffer_messages = 5;
    let (a, _) = w.connect();
    for _ in 0..5 {
        w.send(0, a, 0, pattern(1));
    }
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), pattern(1)),
        Err(SendError::BufferFull)
    );
}

/// RFC 9260, section 11.1.5
#[test]
fn empty_messages_and_unknown_paths_are_refused() {
    let mut w = World::single_homed();
    let (a, _) = w.connect();
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), Bytes::new()),
        Err(SendError::Empty)
    );
    let lost = SendOptions {
        path: Some(carrick_proto::PathId(5)),
        ..options(0)
    };
    assert_eq!(
        w.ends[0].send(w.now, a, lost, pattern(1)),
        Err(SendError::UnknownPath)
    );
}

/// RFC 9260, section 11.2.1
#[test]
fn data_arrive_is_notified_once_until_read() {
    let mut w = World::single_homed();
    let (mut peer, id) = Puppet::new().connect(&mut w);
    for ssn in 0..5 {
        peer.data(&mut w, 0, ssn, b"x");
    }
    assert_eq!(w.events(0), [Event::MessageReceived]);
    assert_eq!(w.receive(0, id).len(), 5);
    peer.data(&mut w, 0, 5, b"x");
    assert_eq!(w.events(0), [Event::MessageReceived]);
}
