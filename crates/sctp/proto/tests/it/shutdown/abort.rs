//! ABORT (section 9.1).

use carrick_proto::CloseReason;
use carrick_wire::{CauseCode, ChunkType};

use crate::common::*;
use crate::shutdown::support::*;

/// RFC 9260, section 8.5.1, rule B
#[test]
fn an_abort_needs_the_right_tag() {
    for (reflected, own_tag, accepted) in [
        (false, true, true),
        (true, false, true),
        (true, true, false),
        (false, false, false),
    ] {
        let mut w = World::single_homed();
        let (peer, _) = Puppet::new().accept(&mut w);
        let tag = if own_tag { peer.peer_tag } else { peer.tag };
        let answers = peer.send_with_tag(&mut w, tag, |p| p.abort(reflected, |_| {}));
        assert_eq!(answers.len(), 0, "never an answer to ABORT");
        assert_eq!(gone(&w), accepted, "T bit {reflected}, own tag {own_tag}");
    }
}

/// RFC 9260, section 9.1
#[test]
fn an_abort_carries_the_reason() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.send(0, a, 0, pattern(10));
    w.ends[0].abort(w.now, a, b"tired of this").unwrap();
    assert_eq!(closed(&w.events(0)), [&CloseReason::AbortedByUser]);
    w.run(secs(1));
    let abort = w.sent(0, ChunkType::ABORT)[0];
    assert_eq!(abort.kinds(), [ChunkType::ABORT], "no DATA with it");
    assert_eq!(
        abort.causes(),
        [(CauseCode::USER_INITIATED_ABORT, b"tired of this".to_vec())]
    );
    let events = w.events(1);
    let reasons = closed(&events);
    assert!(
        matches!(reasons[..], [CloseReason::AbortedByPeer(c)] if c.code == 12 && c.information == b"tired of this")
    );
    assert!(gone(&w));
    assert_eq!(w.log.last().unwrap().from, 0, "no answer to the ABORT");
}

/// RFC 9260, section 9.1
#[test]
fn a_long_reason_fits_into_a_packet() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.ends[0].abort(w.now, a, &pattern(70_000)).unwrap();
    w.run(secs(1));
    assert!(gone(&w));
}
