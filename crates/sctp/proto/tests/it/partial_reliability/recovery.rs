//! Partial reliability with RACK-TLP, and with interleaving.

use carrick_proto::research::Policies;
use carrick_proto::{Abandoned, AssociationId, Extensions, Reliability};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::partial_reliability::support::*;

/// Two endpoints with RACK, with a measured RTT.
fn modern_world() -> (World, AssociationId, AssociationId) {
    let mut w = World::with(2, |_, config| {
        config.local_addresses.truncate(1);
        config.association.extensions = PARTIAL;
    });
    w.config.extensions = PARTIAL;
    w.config.research.policies = Policies::modern();
    w.config.paths.heartbeat = false;
    let (a, b) = w.connect();
    for _ in 0..10 {
        w.send(0, a, 0, message(0, FULL));
    }
    assert!(w.run_until(secs(5), |w| w.stats(0, a).outstanding_chunks == 0));
    w.receive(1, b);
    w.events(0);
    w.log.clear();
    (w, a, b)
}

fn drops_data(w: &mut World, until: carrick_proto::Time) {
    w.rule(move |seen| {
        let hit = seen.from == 0 && seen.has(ChunkType::DATA) && seen.time < until;
        if hit { Verdict::Drop } else { Verdict::Pass }
    });
}

/// RFC 7496, section 3.1
#[test]
fn a_probe_does_not_retransmit_abandonable_data() {
    for (most, probes) in [(0, 0), (1, 1)] {
        let (mut w, a, b) = modern_world();
        let until = w.now + ms(1);
        drops_data(&mut w, until);
        let options = with(Reliability::Retransmissions(most), 7);
        w.send_with(0, a, options, message(1, FULL));
        w.run(secs(20));
        assert_eq!(w.data_sent(0), 1 + probes);
        let stats = w.stats(0, a);
        assert_eq!(stats.counters.tail_loss_probes, probes as u64);
        assert_eq!(stats.outstanding_chunks, 0);
        let (abandoned, arrived): (&[u64], &[u8]) = if probes == 0 {
            (&[7], &[])
        } else {
            (&[], &[1])
        };
        assert_eq!(contexts(&w.events(0)), abandoned);
        assert_eq!(numbers(&mut w, 1, b), arrived);
    }
}

/// RFC 3758, section 3.5, rule A2
#[test]
fn abandoned_data_is_neither_in_flight_nor_probed() {
    let (mut w, a, b) = modern_world();
    let until = w.now + ms(6);
    drops_data(&mut w, until);
    w.send_with(0, a, with(Reliability::Full, 1), message(1, FULL));
    w.send_with(0, a, with(timed(5), 2), message(2, 30 * FULL));
    w.run(ms(4));
    let sent = w.data_sent(0);
    assert!(sent > 2 && w.stats(0, a).outstanding_bytes > 2 * FULL);
    w.run(ms(1));
    assert_eq!(contexts(&w.events(0)), [2]);
    assert_eq!(w.stats(0, a).outstanding_bytes, FULL);
    assert!(w.path(0, a, 0).flight_size <= FULL + 16);
    // Only the reliable one is sent again, by the probe.
    w.run(secs(20));
    assert_eq!(numbers(&mut w, 1, b), [1]);
    assert_eq!(w.data_sent(0), sent + 1);
    let counters = w.stats(0, a).counters;
    assert_eq!((counters.tail_loss_probes, counters.t3_expirations), (1, 0));
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
}

/// RFC 8260, section 2.3.1
#[test]
fn with_interleaving_begun_messages_are_reliable() {
    let both = Extensions {
        interleaving: true,
        ..PARTIAL
    };
    let mut w = World::with(2, |_, config| config.association.extensions = both);
    w.config.extensions = both;
    let (a, b) = w.connect();
    for stats in [w.stats(0, a), w.stats(1, b)] {
        let in_force = stats.extensions;
        assert!(in_force.interleaving && !in_force.partial_reliability);
    }
    let mut lost = 0;
    w.rule(move |seen| {
        let hit = lost < 3 && seen.from == 0 && seen.has(ChunkType::I_DATA);
        lost += u32::from(hit);
        if hit { Verdict::Drop } else { Verdict::Pass }
    });
    for n in 0..3 {
        w.send_with(
            0,
            a,
            with(Reliability::Retransmissions(0), n),
            message(n as u8, 3 * FULL),
        );
    }
    w.run(secs(30));
    assert_eq!(w.receive(1, b).len(), 3);
    assert!(forwards(&w.log).is_empty());
    assert_eq!(w.stats(0, a).abandoned, Abandoned::default());
}

/// The probe for the last message would be a retransmission, which its policy forbids. The message
/// is abandoned and a FORWARD-TSN replaces the probe.
///
/// RFC 3758, section 4.1, rule TR4
/// RFC 7496, section 3.1
/// RFC 8985, section 7.3
#[test]
fn a_last_message_is_abandoned_instead_of_probed() {
    for reliability in [Reliability::Retransmissions(0), timed(100)] {
        let (mut w, a, _) = modern_world();
        w.lose_data(0, &[0]);
        let (sent, before) = (w.now, w.path(0, a, 0).cwnd);
        w.send_with(0, a, with(reliability, 7), message(0, 100));
        w.run(secs(3));
        let forward = w.sent(0, ChunkType::FORWARD_TSN);
        // Two round trips and the delay of a SACK.
        let at = forward.first().expect("a FORWARD-TSN").time;
        assert!(at <= sent + ms(450), "{reliability:?}: {at:?}");
        assert_eq!(forward.len(), 1);
        assert_eq!(w.data_sent(0), 1);
        assert_eq!(contexts(&w.events(0)), [7]);
        let (stats, path) = (w.stats(0, a), w.path(0, a, 0));
        assert_eq!((stats.outstanding_chunks, path.flight_size), (0, 0));
        assert_eq!(stats.counters.t3_expirations, 0);
        assert!(path.cwnd < before, "F5: it counts as lost");
    }
}

/// The probe is the last chunk that may be sent again.
///
/// RFC 7496, section 3.1
/// RFC 8985, section 7.3
#[test]
fn a_probe_skips_data_at_its_retransmission_limit() {
    let (mut w, a, b) = modern_world();
    w.lose_data(0, &[0, 1, 2]);
    w.send(0, a, 0, message(1, FULL));
    for n in 2..4 {
        let unreliable = with(Reliability::Retransmissions(0), n);
        w.send_with(0, a, unreliable, message(n as u8, FULL));
    }
    w.run(ms(700));
    assert_eq!(contexts(&w.events(0)), [3, 2]);
    assert_eq!(numbers(&mut w, 1, b), [1]);
    assert_eq!(w.stats(0, a).counters.tail_loss_probes, 1);
    w.run(secs(3));
    assert_eq!(w.stats(0, a).counters.t3_expirations, 0);
    assert_eq!(w.stats(0, a).outstanding_chunks, 0);
}

/// A message whose lifetime is over is abandoned when a SACK shows that it is missing.
///
/// RFC 3758, section 4.1, rule TR5
#[test]
fn a_sack_with_a_gap_ends_an_expired_message() {
    let (mut w, peer, id) = puppet(true, 100_000);
    w.send_with(0, id, with(timed(300), 1), message(1, FULL));
    w.send_with(0, id, with(timed(300), 2), message(2, FULL));
    peer.receive(&mut w);
    let below = peer.endpoint_tsn(0).previous();
    w.run(ms(200));
    peer.sack(&mut w, below, 100_000, &[(2, 2)]);
    assert!(w.events(0).is_empty(), "the lifetime has not expired");
    w.run(ms(200));
    let answers = peer.sack(&mut w, below, 100_000, &[(2, 2)]);
    assert_eq!(contexts(&w.events(0)), [1]);
    assert_eq!(forwards(&answers), [(peer.endpoint_tsn(0), vec![(0, 0)])]);
    peer.sack(&mut w, peer.endpoint_tsn(1), 100_000, &[]);
    assert_eq!(w.stats(0, id).outstanding_chunks, 0);
}
