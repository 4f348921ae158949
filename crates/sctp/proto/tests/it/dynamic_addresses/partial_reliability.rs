//! Messages with partial reliability while data in flight moves to another path.

use std::net::IpAddr;

use carrick_proto::{
    AbandonmentPolicy, AssociationConfig, AssociationId, Event, Reliability, SendOptions,
};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::dynamic_addresses::support::*;

fn partial(config: AssociationConfig) -> AssociationConfig {
    let mut config = config;
    config.extensions.partial_reliability = true;
    config.paths.heartbeat = false;
    config.transmission.nagle = false;
    config
}

fn with(reliability: Reliability) -> SendOptions {
    SendOptions {
        reliability,
        ..SendOptions::default()
    }
}

/// Policies that abandoned messages.
fn abandonments(w: &mut World, end: usize) -> Vec<Option<AbandonmentPolicy>> {
    let events = w.events(end).into_iter();
    events
        .filter_map(|e| match e {
            Event::SendFailed(failure) => Some(failure.abandoned),
            _ => None,
        })
        .collect()
}

/// Number of transmissions of the chunk with this length.
fn copies(w: &World, end: usize, len: usize) -> usize {
    let of_end = w.log.iter().filter(|p| p.from == end);
    let chunks = of_end.flat_map(|p| p.user_data());
    chunks.filter(|d| d.len == len).count()
}

/// Removes the path of the sender's data in flight.
type Move = fn(&mut World, AssociationId);

/// Both have two addresses. Endpoint 1 sends these messages, which are lost; the move comes this
/// long after. Returns the number of transmissions of each, and the events.
fn in_flight(
    messages: &[Reliability],
    wait: std::time::Duration,
    move_it: Move,
) -> (Vec<usize>, Vec<Option<AbandonmentPolicy>>) {
    let config = partial(dynamic());
    let mut w = world_of(&config, 2);
    let (a, b) = w.connect();
    w.run(secs(5));
    w.events(1);
    w.rule(|seen| {
        let lost = seen.from == 1
            && seen.has(ChunkType::DATA)
            && [seen.source(), seen.to()] == [addresses(1)[0], addresses(0)[0]];
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    for (n, reliability) in messages.iter().enumerate() {
        w.send_with(1, b, with(*reliability), pattern(900 + n));
    }
    w.pump();
    w.run(wait);
    let before = w.stats(1, b).counters.t3_expirations;
    move_it(&mut w, b);
    w.run(ms(400));
    assert_eq!(w.stats(1, b).counters.t3_expirations, before);
    let left: Vec<usize> = (0..messages.len())
        .map(|n| copies(&w, 1, 900 + n))
        .collect();
    assert_eq!(w.stats(1, b).outstanding_chunks, 0);
    let arrived: Vec<usize> = (0..messages.len())
        .filter(|n| left[*n] > 1)
        .map(|n| 900 + n)
        .collect();
    assert_eq!(w.receive_lengths(0, a), arrived);
    let reported = abandonments(&mut w, 1);
    if reported.is_empty() {
        assert!(w.sent(1, ChunkType::FORWARD_TSN).is_empty());
    } else {
        assert!(!w.sent(1, ChunkType::FORWARD_TSN).is_empty());
    }
    (left, reported)
}

/// The peer deletes the address that the data goes to.
fn peer_deletes(w: &mut World, _: AssociationId) {
    let old: IpAddr = addresses(0)[0];
    w.ends[0].local_address_removed(w.now, old);
}

/// Removes the local address of the sender.
fn own_address_goes(w: &mut World, _: AssociationId) {
    w.ends[1].local_address_removed(w.now, addresses(1)[0]);
}

const MOVES: [(&str, Move); 2] = [("deleted", peer_deletes), ("removed", own_address_goes)];

/// RFC 7496, section 3.1
#[test]
fn moved_data_keeps_its_retransmission_limit() {
    for (name, move_it) in MOVES {
        let messages = [
            Reliability::Retransmissions(0),
            Reliability::Full,
            Reliability::Retransmissions(1),
        ];
        let (left, reported) = in_flight(&messages, ms(0), move_it);
        assert_eq!(left, [1, 2, 2], "{name}");
        assert_eq!(
            reported,
            [Some(AbandonmentPolicy::Retransmissions)],
            "{name}"
        );
    }
}

/// RFC 3758, section 4.1
#[test]
fn moved_data_keeps_its_lifetime() {
    for (name, move_it) in MOVES {
        let messages = [
            Reliability::Timed(ms(100)),
            Reliability::Timed(secs(10)),
            Reliability::Full,
        ];
        let (left, reported) = in_flight(&messages, ms(200), move_it);
        assert_eq!(left, [1, 2, 2], "{name}");
        assert_eq!(reported, [Some(AbandonmentPolicy::Timed)], "{name}");
    }
}

/// RFC 7496, section 3.1
#[test]
fn a_handover_abandons_unrepeatable_messages() {
    let config = partial(dynamic());
    let mut w = world_of(&config, 1);
    let (a, b) = w.connect();
    let [old, new] = addresses(0);
    w.rule(move |seen| {
        let lost = seen.from == 1 && seen.to() == old && seen.has(ChunkType::DATA);
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    w.events(1);
    w.send_with(1, b, with(Reliability::Retransmissions(0)), pattern(900));
    w.send(1, b, 0, pattern(901));
    w.pump();
    w.ends[0].local_address_added(new);
    w.change(0, a).set_peer_primary(new).expect("ask");
    w.run(ms(500));
    assert_eq!(w.stats(1, b).counters.t3_expirations, 0);
    assert_eq!([copies(&w, 1, 900), copies(&w, 1, 901)], [1, 2]);
    assert_eq!(w.receive_lengths(0, a), [901]);
    assert_eq!(
        abandonments(&mut w, 1),
        [Some(AbandonmentPolicy::Retransmissions)]
    );
}
