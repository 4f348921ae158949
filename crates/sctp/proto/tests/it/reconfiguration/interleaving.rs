//! Resets with interleaving: message identifiers restart at 0 (RFC 8260, section 2.3).

use carrick_proto::{AssociationId, Extensions, SendOptions, StreamDirection, StreamId};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::reconfiguration::support::*;

fn interleaving() -> (World, [AssociationId; 2]) {
    connected_with(|_, config| {
        config.extensions = Extensions {
            interleaving: true,
            ..OFFERED
        };
    })
}

/// The MIDs of what has arrived, unordered messages first.
fn mids(w: &mut World, end: usize) -> [Vec<u32>; 2] {
    let id = w.association(end);
    let mut mids = [Vec::new(), Vec::new()];
    for message in w.receive(end, id) {
        let mid = message.mid.expect("interleaving is in force");
        mids[usize::from(message.ssn.is_some())].push(mid.value());
    }
    mids
}

fn send_both(w: &mut World, stream: u16) {
    let id = w.association(0);
    for unordered in [false, true] {
        let options = SendOptions {
            unordered,
            ..SendOptions::on_stream(stream)
        };
        w.send_with(0, id, options, pattern(4000));
    }
}

/// RFC 8260, section 2.3
#[test]
fn a_reset_restarts_ordered_and_unordered_mids() {
    let (mut w, _) = interleaving();
    for _ in 0..2 {
        send_both(&mut w, 1);
    }
    w.run(secs(2));
    assert_eq!(mids(&mut w, 1), [[0, 1], [0, 1]]);
    reset(&mut w, 0, StreamDirection::Outgoing, &[1]);
    send_both(&mut w, 1);
    w.run(secs(2));
    assert_eq!(mids(&mut w, 1), [[0], [0]]);
    send_both(&mut w, 1);
    w.run(secs(2));
    assert_eq!(mids(&mut w, 1), [[1], [1]]);
}

/// RFC 8260, section 2.3
#[test]
fn unordered_messages_make_a_stream_resettable() {
    let (mut w, [a, b]) = interleaving();
    let options = SendOptions {
        unordered: true,
        ..SendOptions::on_stream(1)
    };
    w.send_with(0, a, options, pattern(10));
    w.run(secs(1));
    assert_eq!(mids(&mut w, 1), [vec![0], vec![]]);
    let asked = w
        .change(1, b)
        .reset_streams(StreamDirection::Incoming, &[StreamId(1)]);
    asked.expect("reset");
    w.run(secs(1));
    w.send_with(0, a, options, pattern(10));
    w.run(secs(1));
    assert_eq!(mids(&mut w, 1), [vec![0], vec![]]);
}

/// RFC 8260, section 2.3
#[test]
fn a_tsn_reset_restarts_mids_of_the_requester() {
    let (mut w, [a, _]) = interleaving();
    send_both(&mut w, 2);
    w.run(secs(2));
    assert_eq!(mids(&mut w, 1), [[0], [0]]);
    w.change(0, a).reset_association().expect("reset");
    for _ in 0..2 {
        send_both(&mut w, 2);
        w.run(secs(2));
    }
    assert_eq!(mids(&mut w, 1), [[0, 1], [0, 1]]);
}

/// RFC 6525, section 5.2.7
#[test]
fn fragments_after_a_reset_wait_for_the_response() {
    let (mut w, [_, b]) = interleaving();
    send_both(&mut w, 2);
    w.run(secs(2));
    assert_eq!(mids(&mut w, 1), [[0], [0]]);
    w.lose(0, ChunkType::RE_CONFIG, 1);
    w.change(1, b).reset_association().expect("reset");
    w.run(ms(200));
    send_both(&mut w, 2);
    w.run(ms(200));
    assert_eq!(mids(&mut w, 1), [[], []] as [[u32; 0]; 2]);
    w.run(secs(5));
    assert_eq!(mids(&mut w, 1), [[0], [0]]);
    send_both(&mut w, 2);
    w.run(secs(2));
    assert_eq!(mids(&mut w, 1), [[1], [1]]);
}
