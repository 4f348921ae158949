//! Stale cookies, and changes of the secret (sections 5.1.3, 5.2.6).

use carrick_proto::{CloseReason, Event};
use carrick_wire::{CauseCode, ChunkType, Parameter};

use crate::common::*;

/// RFC 9260, section 5.2.6
#[test]
fn a_stale_cookie_requests_a_longer_lifetime() {
    let mut w = World::with(2, |i, c| {
        c.local_addresses.truncate(1);
        if i == 1 {
            c.association.timers.valid_cookie_life = ms(10);
        }
    });
    // The cookie needs 20 ms there and back.
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(1));
    assert_eq!(w.states(), [Some("Established"); 2]);
    assert_eq!(w.ends[1].stats().stale_cookies, 1);
    let error = w.sent(1, ChunkType::ERROR)[0];
    let (code, value) = error.causes()[0].clone();
    assert_eq!(code, CauseCode::STALE_COOKIE);
    assert_eq!(
        u32::from_be_bytes(value.try_into().unwrap()),
        10_000,
        "stale for 10 ms, in microseconds"
    );
    let inits = w.sent(0, ChunkType::INIT);
    let asked = inits[1].parameters().iter().find_map(|p| match p {
        Parameter::CookiePreservative { increment_ms } => Some(*increment_ms),
        _ => None,
    });
    assert_eq!(asked, Some(1020), "the round trip and at most a second");
    assert_eq!(inits[0].init().tag, inits[1].init().tag);
}

/// RFC 9260, section 5.2.6
#[test]
fn a_cookie_that_stays_stale_ends_the_set_up() {
    let mut w = World::with(2, |i, c| {
        c.local_addresses.truncate(1);
        if i == 1 {
            c.association.timers.valid_cookie_life = ms(10);
            c.association.timers.max_cookie_life_increment = ms(0);
        }
    });
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 0, &b"early"[..]);
    w.run(secs(60));
    let events = w.events(0);
    assert!(matches!(events[0], Event::SendFailed(_)), "{events:?}");
    assert_eq!(events[1], Event::Closed(CloseReason::StaleCookie));
    assert_eq!(w.ends[1].associations().count(), 0);
}

/// RFC 9260, section 5.2.6
#[test]
fn data_bundled_with_a_stale_cookie_arrives_once() {
    let mut w = World::with(2, |i, c| {
        c.local_addresses.truncate(1);
        if i == 1 {
            c.association.timers.valid_cookie_life = ms(10);
        }
    });
    let a = w.begin_connect(&[addresses(1)[0]]);
    w.send(0, a, 3, &b"early"[..]);
    w.run(secs(10));
    let b = w.association(1);
    assert_eq!(w.receive_lengths(1, b), [5]);
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
}

/// RFC 9260, section 5.2.6
#[test]
fn a_stale_cookie_error_is_ignored_when_established() {
    let mut w = World::single_homed();
    let (peer, id) = Puppet::new().accept(&mut w);
    assert_eq!(
        peer.send(&mut w, |p| p.error(|c| c.stale_cookie(5))).len(),
        0
    );
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    assert_eq!(w.events(0), []);
}

/// RFC 9260, section 5.1.3
#[test]
fn a_cookie_outlives_one_change_of_the_secret() {
    for (changes, good) in [(1, true), (2, false)] {
        let mut w = World::with(1, |_, c| c.secret_lifetime = secs(10));
        let mut peer = Puppet::new();
        let answers = peer.init(&mut w, |_| {});
        peer.record_init(&answers[0]);
        let cookie = Puppet::cookie(&answers[0]);
        for i in 0..changes {
            w.run(secs(11));
            let mut other = Puppet::new();
            other.port = 7100 + i;
            assert_eq!(other.init(&mut w, |_| {}).len(), 1);
        }
        let answers = peer.send(&mut w, |p| p.cookie_echo(&cookie));
        assert_eq!(w.ends[0].associations().count(), usize::from(good));
        assert_eq!(answers.len(), usize::from(good), "silently discarded");
        assert_eq!(w.ends[0].stats().forged_cookies, u64::from(!good));
    }
}
