//! The normal course, and the loss of each packet (section 5.1).

use carrick_proto::{CloseReason, Event, SendOptions};
use carrick_wire::{ChunkType, VerificationTag};

use crate::common::*;

/// The times at which an endpoint sent packets with such a chunk, in ms since the first.
fn times(w: &World, end: usize, kind: ChunkType) -> Vec<u64> {
    let sent = w.sent(end, kind);
    sent.iter()
        .map(|p| (p.time - sent[0].time).as_millis() as u64)
        .collect()
}

/// RFC 9260, section 5.1
#[test]
fn four_packets_set_up_an_association() {
    let mut w = World::single_homed();
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(1));
    let kinds: Vec<_> = w.log.iter().flat_map(|p| p.kinds()).collect();
    assert_eq!(
        kinds,
        [
            ChunkType::INIT,
            ChunkType::INIT_ACK,
            ChunkType::COOKIE_ECHO,
            ChunkType::COOKIE_ACK
        ]
    );
    let (tag_a, tag_z) = (w.log[0].init().tag, w.log[1].init().tag);
    let tags: Vec<_> = w.log.iter().map(|p| p.tag()).collect();
    assert_eq!(tags, [VerificationTag::ZERO, tag_a, tag_z, tag_a]);
    let established = |accepted: bool| Event::Established {
        peer_addresses: vec![addresses(usize::from(!accepted))[0]],
        outbound_streams: 10,
        inbound_streams: 10,
        accepted,
    };
    assert_eq!(w.events(0), [established(false)]);
    assert_eq!(w.events(1), [established(true)]);
    assert_eq!(w.stats(0, a).error_count, 0);
}

/// RFC 9260, section 5.1
#[test]
fn each_lost_set_up_packet_is_retransmitted() {
    for (end, kind) in [
        (0, ChunkType::INIT),
        (1, ChunkType::INIT_ACK),
        (0, ChunkType::COOKIE_ECHO),
        (1, ChunkType::COOKIE_ACK),
    ] {
        for losses in [1, 3] {
            let mut w = World::new();
            w.lose(end, kind, losses);
            let a = w.begin_connect(&[addresses(1)[0]]);
            w.send(0, a, 0, &b"early"[..]);
            assert!(
                w.run_until(secs(40), |w| w.states() == [Some("Established"); 2]),
                "{kind} lost {losses} times"
            );
            w.run(secs(5));
            let b = w.association(1);
            assert_eq!(w.receive_lengths(1, b), [5], "{kind}");
            w.send(1, b, 0, &b"answer"[..]);
            w.run(secs(5));
            assert_eq!(w.receive_lengths(0, a), [6], "{kind}");
        }
    }
}

/// RFC 6458, section 8.1.3
#[test]
fn t1_init_is_limited_by_max_init_timeout() {
    let mut w = World::single_homed();
    w.config.timers.max_init_timeout = Some(secs(5));
    w.block(addresses(1)[0]);
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(1000));
    assert_eq!(
        times(&w, 0, ChunkType::INIT),
        [0, 1, 3, 7, 12, 17, 22, 27, 32].map(|s| s * 1000)
    );
}

/// RFC 9260, section 5.1.4
#[test]
fn t1_init_doubles_until_max_init_retransmits() {
    let mut w = World::single_homed();
    w.block(addresses(1)[0]);
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send_with(
        0,
        a,
        SendOptions {
            context: 77,
            ..SendOptions::default()
        },
        &b"lost"[..],
    );
    w.run(secs(1000));
    assert_eq!(
        times(&w, 0, ChunkType::INIT),
        [0, 1, 3, 7, 15, 31, 63, 123, 183].map(|s| s * 1000),
        "one INIT and eight again, doubled up to RTO.Max"
    );
    let events = w.events(0);
    assert!(matches!(&events[0], Event::SendFailed(f) if f.context == 77 && !f.sent));
    assert_eq!(events[1], Event::Closed(CloseReason::SetupTimedOut));
    assert_eq!(w.ends[0].associations().count(), 0);
}

/// RFC 9260, section 5.1.4
/// RFC 9260, section 5.1.6, erratum 8402
/// RFC 9260, section 5.2.4.1, erratum 7387
#[test]
fn t1_cookie_ends_after_max_init_retransmits() {
    let mut w = World::single_homed();
    w.lose(0, ChunkType::COOKIE_ECHO, usize::MAX);
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(1000));
    assert_eq!(w.sent(0, ChunkType::COOKIE_ECHO).len(), 9);
    assert_eq!(w.events(0), [Event::Closed(CloseReason::SetupTimedOut)]);
}

/// RFC 9260, section 5.1
#[test]
fn each_address_gets_an_init_with_its_own_timer() {
    let mut w = World::new();
    w.block(addresses(1)[0]);
    w.block(addresses(1)[1]);
    w.begin_connect(&addresses(1));
    w.run(secs(8));
    let to: Vec<_> = w.log.iter().map(|p| p.to()).collect();
    let [first, second] = addresses(1);
    assert_eq!(to, [first, second, first, second, first]);
    assert_eq!(
        times(&w, 0, ChunkType::INIT),
        [0, 1000, 2000, 4000, 6000],
        "T1-init per address"
    );
    w.unblock(second);
    assert!(w.run_until(secs(20), |w| w.states() == [Some("Established"); 2]));
    let a = w.association(0);
    assert_eq!(w.path(0, a, 0).remote, second, "data goes to what answered");
}

/// RFC 9260, section 5.1
#[test]
fn cookie_echo_goes_to_all_confirmed_addresses() {
    let mut w = World::new();
    w.lose(0, ChunkType::COOKIE_ECHO, 1);
    w.begin_connect(&addresses(1));
    w.run(secs(3));
    let echoes = w.sent(0, ChunkType::COOKIE_ECHO);
    let to: Vec<_> = echoes.iter().map(|p| p.to()).collect();
    assert_eq!(to, addresses(1));
    assert_eq!(w.states(), [Some("Established"); 2]);
}
