//! Floods from strangers, and cookies that are not ours.

use std::net::IpAddr;

use carrick_proto::{EndpointStats, VerificationTag};
use carrick_wire::{ChunkType, PacketBuilder};

use crate::common::*;

/// Strangers from this many addresses, and what the endpoint kept and said.
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

#[test]
fn a_flood_of_100_000_inits_leaves_no_state_5_1() {
    let init = |p: &Puppet, b: &mut PacketBuilder<'_>| b.init(ChunkType::INIT, p.fields(), |_| {});
    let (answers, stats) = flood(100_000, init, VerificationTag::ZERO);
    assert_eq!(answers, 100_000);
    assert_eq!((stats.inits, stats.inits_refused), (100_000, 0));
    assert_eq!(stats.packets_sent, 100_000);
}

#[test]
fn a_flood_of_strangers_packets_leaves_no_state_8_4() {
    let data =
        |p: &Puppet, b: &mut PacketBuilder<'_>| b.data(&Puppet::data_header(p.tsn, 0, 0), b"x");
    let (answers, stats) = flood(10_000, data, VerificationTag(5));
    assert_eq!((answers, stats.out_of_the_blue), (10_000, 10_000));
    let forged = |_: &Puppet, b: &mut PacketBuilder<'_>| b.cookie_echo(&[7; 200]);
    let (answers, stats) = flood(10_000, forged, VerificationTag(5));
    assert_eq!((answers, stats.forged_cookies), (0, 10_000));
}

#[test]
fn answers_that_cannot_be_sent_do_not_pile_up() {
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

#[test]
fn a_forged_cookie_is_discarded_wherever_it_was_changed_5_1_5() {
    let mut w = World::new();
    let mut p = Puppet::new();
    let answers = p.init(&mut w, |_| {});
    p.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let mut forged = 0;
    for bit in 0..cookie.len() * 8 {
        let mut bytes = cookie.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(p.say(&mut w, |b| b.cookie_echo(&bytes)).is_empty());
        forged += 1;
    }
    for len in 0..cookie.len() {
        assert!(p.say(&mut w, |b| b.cookie_echo(&cookie[..len])).is_empty());
        forged += 1;
    }
    assert_eq!(w.ends[0].stats().forged_cookies, forged);
    assert_eq!(w.ends[0].associations().count(), 0);
    assert!(
        !p.say(&mut w, |b| b.cookie_echo(&cookie)).is_empty(),
        "the true one is good"
    );
}

#[test]
fn a_cookie_of_another_endpoint_is_not_ours_5_1_5() {
    let mut w = World::new();
    let mut p = Puppet::new();
    let answers = p.init(&mut w, |_| {});
    p.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    // The same software with another seed, asked for a cookie before so that it has secrets.
    let mut other = World::with(1, |_, config| config.seed = [77; 32]);
    p.init(&mut other, |_| {});
    assert!(p.say(&mut other, |b| b.cookie_echo(&cookie)).is_empty());
    assert_eq!(other.ends[0].associations().count(), 0);
}

#[test]
fn many_addresses_in_an_init_are_cut_to_the_limit_12_4() {
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
    p.learn(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    p.say(&mut w, |b| b.cookie_echo(&cookie));
    let id = w.only(0);
    assert!(w.ends[0].paths(id).count() <= w.config.max_paths);
}
