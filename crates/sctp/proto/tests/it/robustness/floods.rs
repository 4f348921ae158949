//! Floods from unknown sources, and invalid cookies.

use std::net::IpAddr;

use carrick_proto::{EndpointStats, VerificationTag};
use carrick_wire::{ChunkType, PacketBuilder};

use crate::common::*;

/// Packets from this many unknown addresses; returns the state kept and the answers.
fn flood(
    count: u32,
    write: impl Fn(&Puppet, &mut PacketBuilder<'_>),
    tag: VerificationTag,
) -> (u64, EndpointStats) {
    let mut w = World::new();
    let mut answers = 0;
    let mut buf = Vec::new();
    for number in 0..count {
        let mut p = Puppet::new();
        p.link.from = IpAddr::from(0x0b00_0000_u32.wrapping_add(number).to_be_bytes());
        let bytes = p.build(tag, |b| write(&p, b));
        let size = bytes.len();
        w.ends[0].handle_datagram(w.now, &p.route(), bytes);
        while let Some(transmit) = w.ends[0].poll_transmit(w.now, &mut buf) {
            answers += 1;
            assert!(
                transmit.len <= size + 300,
                "no large answers to small packets"
            );
            buf.clear();
        }
    }
    assert_eq!(w.ends[0].associations().count(), 0);
    assert_eq!(w.ends[0].poll_timeout(), None, "no timer");
    assert_eq!(w.ends[0].poll_event(), None);
    (answers, w.ends[0].stats())
}

/// RFC 9260, section 5.1
#[test]
fn a_flood_of_100_000_inits_leaves_no_state() {
    let init = |p: &Puppet, b: &mut PacketBuilder<'_>| b.init(ChunkType::INIT, p.fields(), |_| {});
    let (answers, stats) = flood(100_000, init, VerificationTag::ZERO);
    assert_eq!(answers, 100_000);
    assert_eq!((stats.inits, stats.inits_refused), (100_000, 0));
    assert_eq!(stats.packets_sent, 100_000);
}

/// RFC 9260, section 8.4
#[test]
fn a_flood_out_of_the_blue_leaves_no_state() {
    let data =
        |p: &Puppet, b: &mut PacketBuilder<'_>| b.data(&Puppet::data_header(p.tsn, 0, 0), b"x");
    let (answers, stats) = flood(10_000, data, VerificationTag(5));
    assert_eq!((answers, stats.out_of_the_blue), (10_000, 10_000));
    let forged = |_: &Puppet, b: &mut PacketBuilder<'_>| b.cookie_echo(&[7; 200]);
    let (answers, stats) = flood(10_000, forged, VerificationTag(5));
    assert_eq!((answers, stats.forged_cookies), (0, 10_000));
}

#[test]
fn unsent_answers_are_bounded() {
    let mut w = World::new();
    let p = Puppet::new();
    let init = p.build(VerificationTag::ZERO, |b| {
        b.init(ChunkType::INIT, p.fields(), |_| {})
    });
    for _ in 0..5000 {
        w.ends[0].handle_datagram(w.now, &p.route(), init.clone());
    }
    let stats = w.ends[0].stats();
    assert_eq!(stats.inits, 5000);
    let mut buf = Vec::new();
    let waiting = std::iter::from_fn(|| {
        buf.clear();
        w.ends[0].poll_transmit(w.now, &mut buf)
    });
    let waiting = waiting.count() as u64;
    assert!(waiting < 5000);
    assert_eq!(waiting + stats.replies_dropped, 5000);
}

/// RFC 9260, section 5.1.5
#[test]
fn a_forged_cookie_is_discarded() {
    let mut w = World::new();
    let mut p = Puppet::new();
    let answers = p.init(&mut w, |_| {});
    p.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let mut forged = 0;
    for bit in 0..cookie.len() * 8 {
        let mut bytes = cookie.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(p.send(&mut w, |b| b.cookie_echo(&bytes)).is_empty());
        forged += 1;
    }
    for len in 0..cookie.len() {
        assert!(p.send(&mut w, |b| b.cookie_echo(&cookie[..len])).is_empty());
        forged += 1;
    }
    assert_eq!(w.ends[0].stats().forged_cookies, forged);
    assert_eq!(w.ends[0].associations().count(), 0);
    assert!(
        !p.send(&mut w, |b| b.cookie_echo(&cookie)).is_empty(),
        "the valid cookie is accepted"
    );
}

/// RFC 9260, section 5.1.5
#[test]
fn a_cookie_of_another_endpoint_is_discarded() {
    let mut w = World::new();
    let mut p = Puppet::new();
    let answers = p.init(&mut w, |_| {});
    p.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    // The same software with another seed, which has sent a cookie before, so that it has secrets.
    let mut other = World::with(1, |_, config| config.seed = [77; 32]);
    p.init(&mut other, |_| {});
    assert!(p.send(&mut other, |b| b.cookie_echo(&cookie)).is_empty());
    assert_eq!(other.ends[0].associations().count(), 0);
}

/// RFC 9260, section 12.4
#[test]
fn addresses_in_an_init_are_limited() {
    let mut w = World::new();
    let mut p = Puppet::new();
    let answers = p.init(&mut w, |b| {
        for last in 0..2000_u16 {
            let [high, low] = last.to_be_bytes();
            b.ip_address(IpAddr::from([10, 7, high, low]));
        }
    });
    assert_eq!(answers.len(), 1);
    assert!(answers[0].bytes.len() < 1480, "{}", answers[0].bytes.len());
    p.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    p.send(&mut w, |b| b.cookie_echo(&cookie));
    let id = w.association(0);
    assert!(w.paths(0, id).count() <= w.config.paths.max_paths);
}
