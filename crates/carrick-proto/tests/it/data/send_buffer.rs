//! What SEND takes, and when it leaves (sections 6.1, 11.1.5).

use bytes::Bytes;
use carrick_proto::{Event, SendError, SendOptions};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::data::support::*;

#[test]
fn nagle_holds_small_packets_back_while_data_is_outstanding_6_1() {
    for (nagle, packets) in [(true, 2), (false, 10)] {
        let mut w = World::single_homed();
        w.config.nagle = nagle;
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

#[test]
fn nagle_lets_full_packets_and_hurried_messages_go_6_1() {
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

#[test]
fn a_message_past_its_life_is_not_sent_and_reported_11_1_5() {
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
    let sent = peer.hear(&mut w);
    assert_eq!(peer.numbers(&sent), [0], "the window takes one");
    w.run(ms(499));
    assert_eq!(w.events(0), []);
    w.run(ms(1));
    let events = w.events(0);
    assert!(
        matches!(&events[..], [Event::SendFailed(f)] if f.context == 2 && f.expired && !f.sent && f.unsent.len() == 1000),
        "{events:?}"
    );
    let answers = peer.sack(&mut w, peer.theirs(0), 10_000, &[]);
    let data = answers[0].data();
    assert_eq!(data[0].ssn.value(), 1, "no number was used up");
}

#[test]
fn a_full_send_buffer_refuses_and_tells_when_there_is_room_again_11_1_5() {
    let mut w = World::single_homed();
    w.config.send_buffer = 10_000;
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

#[test]
fn the_number_of_messages_in_the_send_buffer_is_bounded_too() {
    let mut w = World::single_homed();
    w.config.send_buffer_messages = 5;
    let (a, _) = w.connect();
    for _ in 0..5 {
        w.send(0, a, 0, pattern(1));
    }
    assert_eq!(
        w.ends[0].send(w.now, a, options(0), pattern(1)),
        Err(SendError::BufferFull)
    );
}

#[test]
fn empty_messages_and_unknown_paths_are_refused_11_1_5() {
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

#[test]
fn data_arrive_is_told_once_until_all_has_been_read_11_2_1() {
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
