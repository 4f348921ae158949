//! Data bundled with COOKIE ECHO and COOKIE ACK (section 5.1.5).

use carrick_wire::ChunkType;

use crate::common::*;

/// RFC 9260, section 5.1.5
#[test]
fn data_is_bundled_with_cookie_echo() {
    let mut w = World::single_homed();
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 0, pattern(200));
    w.run(secs(1));
    assert_eq!(
        w.sent(0, ChunkType::COOKIE_ECHO)[0].kinds(),
        [ChunkType::COOKIE_ECHO, ChunkType::DATA]
    );
    assert_eq!(
        w.sent(1, ChunkType::COOKIE_ACK)[0].kinds(),
        [ChunkType::COOKIE_ACK, ChunkType::SACK]
    );
    assert_eq!(w.data_sent(0), 1, "sent once");
}

/// RFC 9260, section 5.1, rule C
#[test]
fn only_cookie_echo_leaves_before_cookie_ack() {
    let mut w = World::single_homed();
    w.lose(1, ChunkType::COOKIE_ACK, 2);
    let a = w.begin_connect(&[addresses(1)[0]]);
    for _ in 0..20 {
        w.send(0, a, 0, pattern(1000));
    }
    w.run(ms(2900));
    let others = w
        .log
        .iter()
        .filter(|p| p.from == 0 && !p.has(ChunkType::INIT) && !p.has(ChunkType::COOKIE_ECHO));
    assert_eq!(others.count(), 0);
    w.run(secs(10));
    let b = w.association(1);
    assert_eq!(w.receive_lengths(1, b), [1000; 20]);
}

/// RFC 9260, section 5.1
#[test]
fn the_first_data_is_acknowledged_at_once() {
    let mut w = World::single_homed();
    let (mut peer, _) = Puppet::new().connect(&mut w);
    let answers = peer.data(&mut w, 0, 0, b"first");
    assert_eq!(answers[0].kinds(), [ChunkType::SACK]);
    assert_eq!(peer.data(&mut w, 0, 1, b"second").len(), 0, "delayed");
}
