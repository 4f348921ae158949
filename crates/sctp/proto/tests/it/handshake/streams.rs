//! Streams, and limits of an endpoint (section 5.1.1).

use carrick_proto::{CloseReason, ConnectError, Event, SendError, SendOptions};
use carrick_wire::{CauseCode, ChunkType, VerificationTag};

use crate::common::*;

/// RFC 9260, section 5.1.1
#[test]
fn streams_are_the_smaller_of_both_offers() {
    let mut w = World::with(2, |i, c| {
        if i == 1 {
            c.association.streams.outbound_streams = 50;
            c.association.streams.max_inbound_streams = 5;
        }
    });
    w.config.streams.outbound_streams = 65_535;
    w.config.streams.max_inbound_streams = 40;
    let (a, b) = w.connect();
    let (sa, sb) = (w.stats(0, a), w.stats(1, b));
    assert_eq!((sa.outbound_streams, sa.inbound_streams), (5, 40));
    assert_eq!((sb.outbound_streams, sb.inbound_streams), (40, 5));
    assert_eq!(
        w.ends[0].send(w.now, a, SendOptions::on_stream(5), pattern(1)),
        Err(SendError::InvalidStream { streams: 5 })
    );
    // Section 3.3.3: never more than the INIT's MIS.
    let init_ack = w.sent(1, ChunkType::INIT_ACK)[0].clone();
    assert!(init_ack.init().outbound_streams <= 40);
}

/// RFC 9260, section 5.1.1
#[test]
fn all_65535_streams_can_be_used() {
    let mut w = World::with(2, |_, c| c.association.streams.outbound_streams = 65_535);
    w.config.streams.outbound_streams = 65_535;
    let (a, b) = w.connect();
    for stream in [0, 65_534, 32_768] {
        w.send(0, a, stream, pattern(10));
    }
    w.run(secs(1));
    let streams: Vec<_> = w.receive(1, b).iter().map(|m| m.stream.0).collect();
    assert_eq!(streams, [0, 65_534, 32_768]);
}

/// RFC 9260, section 5.1.1
#[test]
fn messages_for_refused_streams_are_returned() {
    let mut w = World::with(2, |i, c| {
        if i == 1 {
            c.association.streams.max_inbound_streams = 2;
        }
    });
    let a = w.begin_connect(&[addresses(1)[0]]);
    for stream in 0..4 {
        let options = SendOptions {
            context: u64::from(stream),
            ..SendOptions::on_stream(stream)
        };
        w.send_with(0, a, options, pattern(100));
    }
    w.run(secs(5));
    let b = w.association(1);
    assert_eq!(w.receive_lengths(1, b), [100, 100]);
    let failed: Vec<_> = w
        .events(0)
        .into_iter()
        .filter_map(|e| match e {
            Event::SendFailed(f) => Some((f.context, f.sent, f.unsent.len())),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(2, false, 100), (3, false, 100)]);
    assert_eq!(w.sent(1, ChunkType::ERROR).len(), 0);
}

/// RFC 9260, section 5.1
#[test]
fn an_endpoint_that_does_not_accept_aborts() {
    let mut w = World::with(2, |i, c| c.accept = i == 0);
    w.begin_connect(&[addresses(1)[0]]);
    w.run(secs(1));
    let abort = w.sent(1, ChunkType::ABORT)[0];
    assert_eq!(abort.flags(ChunkType::ABORT), 0);
    assert!(matches!(
        w.events(0)[..],
        [Event::Closed(CloseReason::AbortedByPeer(_))]
    ));
    assert_eq!(w.ends[1].stats().inits_refused, 1);
}

/// RFC 9260, section 5.1
#[test]
fn associations_above_the_limit_are_refused() {
    let mut w = World::with(1, |_, c| c.max_associations = 1);
    Puppet::new().connect(&mut w);
    let mut second = Puppet::new();
    second.port = 7001;
    let answers = second.init(&mut w, |_| {});
    if answers[0].has(ChunkType::INIT_ACK) {
        second.record_init(&answers[0]);
        let answers = second.send(&mut w, |p| p.cookie_echo(&Puppet::cookie(&answers[0])));
        assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
        assert_eq!(answers[0].tag(), second.tag);
        assert_eq!(answers[0].causes()[0].0, CauseCode::OUT_OF_RESOURCE);
    }
    assert_eq!(w.ends[0].associations().count(), 1);
    assert_eq!(
        w.ends[0].connect(w.now, &[ip("10.0.0.55")], 1, None, w.config.clone()),
        Err(ConnectError::TooManyAssociations)
    );
}

/// Tries to set up an association; returns whether it was admitted.
fn is_admitted(w: &mut World, from: &str, port: u16) -> bool {
    let mut puppet = Puppet::new();
    puppet.link.from = ip(from);
    if puppet.link.from.is_ipv6() {
        puppet.link.to = in_v6(puppet.link.to);
    }
    puppet.port = port;
    let answers = puppet.init(w, |_| {});
    puppet.record_init(&answers[0]);
    let cookie = Puppet::cookie(&answers[0]);
    let answers = puppet.send(w, |p| p.cookie_echo(&cookie));
    if answers[0].has(ChunkType::COOKIE_ACK) {
        return true;
    }
    assert_eq!(answers[0].kinds(), [ChunkType::ABORT]);
    assert_eq!(answers[0].causes()[0].0, CauseCode::OUT_OF_RESOURCE);
    false
}

/// One source cannot use up the association limit.
///
/// RFC 9260, section 5.1
/// RFC 4732, section 2.1
#[test]
fn one_source_cannot_take_all_associations() {
    for (limit, most) in [(None, 16), (Some(3), 3)] {
        let mut w = World::with(1, |_, c| {
            c.local_addresses = vec![addresses(0)[0], in_v6(addresses(0)[0])];
            c.max_associations = 100;
            c.max_associations_per_source = limit;
        });
        // Ports do not make another source, nor do addresses of one IPv6 network.
        let four = (1..=150).filter(|port| is_admitted(&mut w, "10.0.0.66", *port));
        assert_eq!(four.count(), most);
        let six = (1..=150_u16).filter(|n| {
            let from = format!("fd00:0:0:1:{n:x}::9");
            is_admitted(&mut w, &from, 7000)
        });
        assert_eq!(six.count(), most);
        assert!(is_admitted(&mut w, "10.0.0.67", 1));
        assert!(is_admitted(&mut w, "fd00:0:0:2::9", 1));
        assert_eq!(w.ends[0].stats().inits_refused, 2 * (150 - most as u64));
        // A place is free again when its association has ended; own set-ups have no limit but the
        // total.
        let id = w.ends[0].associations().next().unwrap();
        w.ends[0].abort(w.now, id, b"").unwrap();
        let own = |w: &mut World, port| {
            let config = w.config.clone();
            let to = [ip("10.0.0.66")];
            w.ends[0].connect(w.now, &to, port, None, config).is_ok()
        };
        assert!((1000..1030).all(|port| own(&mut w, port)));
        assert!(is_admitted(&mut w, "10.0.0.66", 200));
        assert!(!is_admitted(&mut w, "10.0.0.66", 201));
    }
}

/// A restart adds no association.
///
/// RFC 9260, section 5.2.4
#[test]
fn a_restart_is_admitted_at_the_limit() {
    let mut w = World::with(1, |_, c| c.max_associations_per_source = Some(1));
    let (puppet, _) = Puppet::new().connect(&mut w);
    let restarted = Puppet {
        tag: VerificationTag(0x7777),
        peer_tag: VerificationTag::ZERO,
        ..puppet
    };
    let answers = restarted.init(&mut w, |_| {});
    let tag = answers[0].init().tag;
    let cookie = Puppet::cookie(&answers[0]);
    let answers = restarted.send_with_tag(&mut w, tag, |p| p.cookie_echo(&cookie));
    assert!(answers[0].has(ChunkType::COOKIE_ACK));
    assert!(w.events(0).contains(&Event::Restarted));
}
