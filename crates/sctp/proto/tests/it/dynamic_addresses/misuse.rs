//! Invalid requests and answers.

use carrick_proto::{AddressEvent, CloseReason, Event, Route};
use carrick_wire::{
    AsconfSerial, CauseCode, Chunk, ChunkType, CorrelationId, PacketBuilder, ParameterType,
    ParameterWriter,
};

use crate::common::*;
use crate::dynamic_addresses::support::*;

/// RFC 5061, section 5.2
#[test]
fn only_the_next_serial_number_is_processed() {
    let (mut w, puppet, id) = puppet();
    let add = |address: &'static str| {
        move |p: &mut ParameterWriter<'_>| p.add_ip_address(ONE, ip(address))
    };
    assert_eq!(
        acks(&send_asconf(&mut w, &puppet, 1, add("10.0.0.101"))),
        0,
        "E5"
    );
    assert_eq!(
        acks(&send_asconf(&mut w, &puppet, u32::MAX, add("10.0.0.101"))),
        0
    );
    assert_eq!(remotes(&w, 0, id).len(), 1);
    let first = send_asconf(&mut w, &puppet, 0, add("10.0.0.101"));
    assert_eq!((acks(&first), remotes(&w, 0, id).len()), (1, 2));
    // A replay, even with other content, gets the answer that was kept.
    let again = send_asconf(&mut w, &puppet, 0, add("10.0.0.102"));
    assert_eq!((acks(&again), remotes(&w, 0, id).len()), (1, 2));
    assert_eq!(acks(&send_asconf(&mut w, &puppet, 1, add("10.0.0.102"))), 1);
    assert_eq!(
        acks(&send_asconf(&mut w, &puppet, 0, add("10.0.0.101"))),
        0,
        "rule E1: the serial number is too low"
    );
    assert_eq!(remotes(&w, 0, id).len(), 3);
}

/// RFC 5061, section 5.3, rule F7
/// RFC 5061, section 5.3, rule F8
#[test]
fn the_last_address_and_the_source_are_kept() {
    let (mut w, puppet, id) = puppet();
    let own = puppet.link.from;
    let last = send_asconf(&mut w, &puppet, 0, |p| p.delete_ip_address(ONE, own));
    assert_eq!(
        answers(&last),
        [(ONE, Some(CauseCode::DELETE_LAST_ADDRESS))]
    );
    let source = send_asconf(&mut w, &puppet, 1, |p| {
        p.add_ip_address(ONE, ip("10.0.0.101"));
        p.delete_ip_address(TWO, own);
    });
    assert_eq!(
        answers(&source),
        [(TWO, Some(CauseCode::DELETE_SOURCE_ADDRESS))]
    );
    let unknown = send_asconf(&mut w, &puppet, 2, |p| {
        p.delete_ip_address(ONE, ip("10.0.0.102"));
        p.set_primary_address(TWO, ip("10.0.0.101"));
    });
    let expected = [(ONE, Some(CauseCode::UNRESOLVABLE_ADDRESS)), (TWO, None)];
    assert_eq!(
        answers(&unknown),
        expected,
        "RFC 5061, section 5.1, rule A7: a success is reported behind a failure"
    );
    assert_eq!(remotes(&w, 0, id).len(), 2);
}

/// RFC 5061, section 5.2
#[test]
fn invalid_addresses_are_refused() {
    let (mut w, puppet, id) = puppet();
    for (n, odd) in ["224.0.0.1", "255.255.255.255", "127.0.0.1", "2001:db8::1"]
        .into_iter()
        .enumerate()
    {
        let answer = send_asconf(&mut w, &puppet, n as u32, |p| {
            p.add_ip_address(ONE, ip(odd))
        });
        assert_eq!(
            answers(&answer),
            [(ONE, Some(CauseCode::UNRESOLVABLE_ADDRESS))],
            "{odd}"
        );
    }
    assert_eq!(remotes(&w, 0, id).len(), 1);
}

/// RFC 5061, section 5.3, rule F11
#[test]
fn all_requests_after_a_lack_of_room_are_refused() {
    let mut config = open();
    config.paths.max_paths = 2;
    let (mut w, puppet, id) = puppet_with(&config);
    let [one, two] = [ip("10.0.0.101"), ip("10.0.0.102")];
    let answer = send_asconf(&mut w, &puppet, 0, |p| {
        p.add_ip_address(ONE, one);
        p.add_ip_address(TWO, two);
        p.delete_ip_address(CorrelationId(3), one);
        p.set_primary_address(CorrelationId(4), one);
    });
    let shortage = Some(CauseCode::RESOURCE_SHORTAGE);
    let expected = [
        (TWO, shortage),
        (CorrelationId(3), shortage),
        (CorrelationId(4), None),
    ];
    assert_eq!(answers(&answer), expected);
    assert_eq!(remotes(&w, 0, id), [puppet.link.from, one]);
}

/// RFC 5061, section 5.2, rule V2
#[test]
fn unknown_requests_are_reported() {
    let (mut w, puppet, id) = puppet();
    let answer = send_asconf(&mut w, &puppet, 0, |p| {
        p.raw(ParameterType(0xc0f0), &[0, 0, 0, 1, 9, 9]);
        p.raw(ParameterType(0x80f0), &[0, 0, 0, 2]);
        p.add_ip_address(TWO, ip("10.0.0.101"));
    });
    let unknown = Some(CauseCode::UNRECOGNIZED_PARAMETERS);
    assert_eq!(answers(&answer), [(ONE, unknown), (TWO, None)]);
    assert_eq!(remotes(&w, 0, id).len(), 2);
    let stopped = send_asconf(&mut w, &puppet, 1, |p| {
        p.raw(ParameterType(0x40f0), &[0, 0, 0, 1]);
        p.delete_ip_address(TWO, ip("10.0.0.101"));
    });
    assert_eq!(answers(&stopped), [(ONE, unknown)]);
    assert_eq!(remotes(&w, 0, id).len(), 2);
}

/// RFC 5061, section 5.2
#[test]
fn absurd_lengths_change_nothing() {
    let (mut w, puppet, id) = puppet();
    let serial = puppet.tsn.value().to_be_bytes();
    let address = [0, 5, 0, 8, 10, 0, 0, 99];
    for tail in [
        &[0xc0, 1, 0xff, 0xff, 0, 0, 0, 1][..],
        &[0xc0, 1, 0, 0, 0, 0, 0, 1],
        &[0xc0, 1, 0, 3],
        &[0xc0, 1, 0, 8, 0, 0, 0, 1],
        &[0xc0, 1, 0, 16, 0, 0, 0, 1, 0, 5, 0, 200, 1, 2, 3, 4],
        &[0xc0, 1, 0, 15, 0, 0, 0, 1, 0, 5, 0, 7, 1, 2, 3],
    ] {
        let value = [&serial[..], &address, tail].concat();
        puppet.send(&mut w, |p| p.raw(ChunkType::ASCONF, 0, &value));
        assert_eq!(remotes(&w, 0, id), [puppet.link.from]);
    }
    for short in [&[][..], &serial, &[&serial[..], &address[..5]].concat()] {
        puppet.send(&mut w, |p| p.raw(ChunkType::ASCONF, 0, short));
        puppet.send(&mut w, |p| p.raw(ChunkType::ASCONF_ACK, 0, short));
    }
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    // As many requests as fit into the largest packet: the answer fits into a small one.
    let answer = send_asconf(&mut w, &puppet, 1, |p| {
        for n in 0..3000 {
            p.delete_ip_address(CorrelationId(n), ip("10.9.0.1"));
        }
    });
    assert!(answer.iter().all(|p| p.bytes.len() <= 1480));
    assert_eq!(state_name(&w.stats(0, id)), "Established");
}

/// RFC 5061, section 5.3, rule F0
#[test]
fn only_an_unsent_serial_number_aborts() {
    let (mut w, puppet, id) = puppet();
    let ours = AsconfSerial::new(puppet.peer_tsn.value());
    puppet.send(&mut w, |p| p.asconf_ack(ours.previous(), |_| {}));
    assert_eq!(state_name(&w.stats(0, id)), "Established");
    puppet.send(&mut w, |p| p.asconf_ack(ours, |_| {}));
    let closed = w.events(0).into_iter().find_map(|e| match e {
        Event::Closed(CloseReason::AbortedByProtocol(cause)) => Some(cause.code),
        _ => None,
    });
    assert_eq!(closed, Some(CauseCode::ILLEGAL_ASCONF_ACK.0));
}

/// RFC 5061, section 5.3, rule F10
#[test]
fn a_refused_address_is_not_requested_again() {
    let (mut w, puppet, id) = puppet();
    w.ends[0].local_address_added(addresses(0)[1]);
    let sent = puppet.receive(&mut w);
    let request = sent[0].chunks().into_iter().find_map(|c| match c {
        Chunk::Asconf(a) => Some((a.serial, a.parameters().next()?.ok()?.correlation_id)),
        _ => None,
    });
    let (serial, correlation) = request.expect("a request");
    puppet.send(&mut w, |p| {
        p.asconf_ack(serial, |p| {
            p.error_cause_indication(correlation, |c| c.resource_shortage(&[]));
        });
    });
    let refused = address_events(&mut w, 0).into_iter().any(|e| {
        matches!(e, AddressEvent::Refused { address, code }
            if address == addresses(0)[1] && code == CauseCode::RESOURCE_SHORTAGE.0)
    });
    assert!(refused);
    w.run(secs(5));
    assert_eq!(w.sent(0, ChunkType::ASCONF).len(), 1);
    assert_eq!(w.path(0, id, 0).local, Some(addresses(0)[0]));
}

/// RFC 5061, section 5.2, rule D5
#[test]
fn an_unauthenticated_asconf_drops_the_packet() {
    let (mut w, a, b) = double();
    let forged = {
        let tag = w.sent(1, ChunkType::INIT_ACK)[0].init().tag;
        let tsn = w.sent(0, ChunkType::INIT)[0].init().initial_tsn;
        let mut buf = Vec::new();
        let header = carrick_wire::CommonHeader {
            source_port: port(0),
            destination_port: port(1),
            tag,
        };
        let mut packet = PacketBuilder::new(&mut buf, header, 1400);
        let known = addresses(0)[0];
        packet.asconf(AsconfSerial::new(tsn.value()), known, |p| {
            p.add_ip_address(ONE, ip("10.66.6.6"));
            p.delete_ip_address(TWO, addresses(0)[1]);
        });
        packet.abort(false, |_| {});
        packet.finish();
        buf
    };
    let before = remotes(&w, 1, b);
    for source in [addresses(0)[0], ip("10.66.6.6")] {
        let route = Route::plain(addresses(1)[0], source);
        w.inject(1, &route, forged.clone());
    }
    w.run(secs(1));
    assert_eq!(remotes(&w, 1, b), before);
    assert_eq!(state_name(&w.stats(1, b)), "Established");
    assert_eq!(w.stats(1, b).authentication.unauthenticated_chunks, 2);
    exchange(&mut w, a, b);
}

/// RFC 5061, section 5.3, rule F4
/// RFC 5061, section 5.3, rule F13
#[test]
fn a_deleted_address_is_out_of_the_blue() {
    let (mut w, a, b) = double();
    let [old, _] = addresses(0);
    w.ends[0].local_address_removed(w.now, old);
    w.run(secs(1));
    let strays = w.ends[1].stats().out_of_the_blue;
    let tag = w.sent(1, ChunkType::INIT_ACK)[0].init().tag;
    let mut buf = Vec::new();
    let header = carrick_wire::CommonHeader {
        source_port: port(0),
        destination_port: port(1),
        tag,
    };
    let mut packet = PacketBuilder::new(&mut buf, header, 1400);
    packet.abort(false, |_| {});
    packet.finish();
    w.inject(1, &Route::plain(addresses(1)[0], old), buf);
    assert_eq!(w.ends[1].stats().out_of_the_blue, strays + 1);
    exchange(&mut w, a, b);
}

/// The peer moves data in flight from one unverified address to the next. The number of moves is
/// bounded until a packet leaves.
///
/// RFC 5061, section 5.3, rule F13
#[test]
fn data_does_not_follow_unverified_addresses_forever() {
    let (mut w, mut puppet, id) = puppet();
    w.change(0, id)
        .set_heartbeat(carrick_proto::PathId(0), false)
        .expect("a path");
    for n in 0..3 {
        w.send(0, id, 0, pattern(1000 + n));
    }
    w.pump();
    assert!(w.stats(0, id).outstanding_chunks > 0);
    let mut last = puppet.link.from;
    puppet.link.from = ip("10.0.0.200");
    let mut refused = None;
    for n in 0..5000_u32 {
        let next = ip(&format!("10.0.0.{}", 100 + n % 2));
        let serial = AsconfSerial::new(puppet.tsn.plus(n).value());
        let answer = puppet.send(&mut w, |p| {
            p.asconf(serial, last, |p| {
                p.add_ip_address(ONE, next);
                p.delete_ip_address(TWO, last);
            });
        });
        assert_eq!(acks(&answer), 1, "{n}");
        let notified = answers(&answer);
        if !notified.is_empty() {
            assert_eq!(notified, [(TWO, Some(CauseCode::RESOURCE_SHORTAGE))]);
            refused = Some(n);
            break;
        }
        last = next;
    }
    let refused = refused.expect("an end");
    assert!(refused > 100, "{refused}: a few chunks move often");
}
