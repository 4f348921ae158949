//! Policies that abandon messages (RFC 3758, section 4.1, RFC 7496, section 3).

use carrick_proto::{AbandonedCount, AbandonmentPolicy, Event, Reliability};

use crate::common::*;
use crate::partial_reliability::support::*;

/// RFC 7496, section 3.1
#[test]
fn a_message_sent_once_is_abandoned_when_lost() {
    let (mut w, a, b) = connected();
    w.lose_data(0, &[1]);
    for n in 0..6 {
        let options = with(Reliability::Retransmissions(0), u64::from(n));
        w.send_with(0, a, options, message(n, FULL));
    }
    w.run(secs(5));
    assert_eq!(numbers(&mut w, 1, b), [0, 2, 3, 4, 5]);
    assert_eq!(w.data_sent(0), 6, "nothing was sent again");
    let events = w.events(0);
    let [failure] = failures(&events)[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        (failure.context, failure.sent, failure.expired),
        (1, true, false)
    );
    assert_eq!(failure.abandoned, Some(AbandonmentPolicy::Retransmissions));
    assert_eq!(failure.unsent.len(), FULL);
    let stats = w.stats(0, a);
    assert_eq!((stats.outstanding_chunks, stats.send_buffer_bytes), (0, 0));
    assert_eq!(
        (stats.outstanding_bytes, w.path(0, a, 0).flight_size),
        (0, 0)
    );
    assert!(w.events(0).is_empty() && events.contains(&Event::AllAcknowledged));
}

/// RFC 7496, section 3.1
#[test]
fn the_retransmission_limit_is_kept() {
    for most in 0..4_u32 {
        let (mut w, a, b) = connected();
        // Every copy of the first message is lost.
        let mut tsn = None;
        w.rule(move |seen| {
            let sent = seen
                .data()
                .first()
                .map(|d| d.tsn)
                .filter(|_| seen.from == 0);
            let doomed = sent.is_some_and(|sent| sent == *tsn.get_or_insert(sent));
            if doomed { Verdict::Drop } else { Verdict::Pass }
        });
        w.send_with(
            0,
            a,
            with(Reliability::Retransmissions(most), 1),
            message(0, FULL),
        );
        w.run(ms(1));
        w.send(0, a, 0, message(1, FULL));
        w.run(secs(60));
        assert_eq!(w.data_sent(0) as u32, most + 2);
        assert_eq!(numbers(&mut w, 1, b), [1], "{most}");
        assert_eq!(contexts(&w.events(0)), [1]);
        assert_eq!(w.stats(0, a).outstanding_chunks, 0);
    }
}

/// RFC 3758, section 3.5, rule F5
#[test]
fn abandonment_reduces_the_cwnd_as_any_loss() {
    let windows = [Reliability::Full, Reliability::Retransmissions(0)].map(|reliability| {
        let (mut w, a, _) = connected();
        w.lose_data(0, &[3]);
        for n in 0..12 {
            w.send_with(0, a, with(reliability, 0), message(n, FULL));
        }
        w.run(ms(80));
        let path = w.path(0, a, 0);
        assert!(path.ssthresh < 1 << 20, "{path:?}");
        path.ssthresh
    });
    assert_eq!(windows[0], windows[1]);
}

/// RFC 3758, section 4.1
#[test]
fn an_expired_message_is_not_retransmitted() {
    for (life, arrives) in [(900, false), (1100, true)] {
        let (mut w, a, b) = connected();
        w.lose_data(0, &[0]);
        w.send_with(0, a, with(timed(life), 7), message(0, FULL));
        w.run(secs(3));
        w.send(0, a, 0, message(1, FULL));
        w.run(secs(3));
        let expected: &[u8] = if arrives { &[0, 1] } else { &[1] };
        assert_eq!(numbers(&mut w, 1, b), expected, "T3-rtx is one second");
        let events = w.events(0);
        assert_eq!(failures(&events).len(), usize::from(!arrives));
        if !arrives {
            let failure = failures(&events)[0];
            assert!(failure.expired && failure.sent);
            assert_eq!(failure.abandoned, Some(AbandonmentPolicy::Timed));
        }
    }
}

/// RFC 3758, section 4.1
#[test]
fn a_message_in_flight_is_not_abandoned() {
    let (mut w, a, b) = connected();
    w.latency = ms(100);
    w.send_with(0, a, with(timed(50), 1), message(0, FULL));
    w.run(secs(2));
    assert_eq!(numbers(&mut w, 1, b), [0]);
    assert_eq!(contexts(&w.events(0)), [0; 0]);
    assert_eq!(forwards(&w.log), []);
}

/// RFC 3758, section 4.1, rule TR3
#[test]
fn a_message_that_expires_unsent_gets_no_tsn() {
    let (mut w, peer, id) = puppet(true, 3000);
    for n in 0..4 {
        w.send_with(0, id, with(timed(300), u64::from(n)), message(n, FULL));
    }
    w.send(0, id, 0, message(9, FULL));
    let sent = peer.receive(&mut w);
    assert_eq!(peer.numbers(&sent), [0, 1]);
    w.run(ms(301));
    let events = w.events(0);
    assert_eq!(
        contexts(&events),
        [2, 3],
        "expired messages are found anywhere in the queue"
    );
    assert!(
        failures(&events)
            .iter()
            .all(|f| !f.sent && f.unsent.len() == FULL)
    );
    let answers = peer.sack(&mut w, peer.endpoint_tsn(1), 10_000, &[]);
    assert_eq!(forwards(&answers), []);
    let data = answers[0].data();
    assert_eq!(
        (data[0].tsn, data[0].ssn.value()),
        (peer.endpoint_tsn(2), 2)
    );
}

/// RFC 3758, section 3.5, rule A3
#[test]
fn one_lost_fragment_abandons_the_message() {
    let (mut w, peer, id) = puppet(true, 100_000);
    // Four packets fit into the initial window, the message has ten.
    w.send_with(
        0,
        id,
        with(Reliability::Retransmissions(0), 5),
        pattern(10 * FULL),
    );
    w.send(0, id, 0, message(1, 100));
    let sent = peer.receive(&mut w);
    let count = peer.numbers(&sent).len() as u32;
    assert!(count < 10);
    // All but the first arrive.
    let mut answers = Vec::new();
    for n in 2..=count {
        answers.extend(peer.sack(
            &mut w,
            peer.endpoint_tsn(0).previous(),
            100_000,
            &[(2, n as u16)],
        ));
    }
    let last = answers
        .iter()
        .flat_map(|p| peer.numbers(std::slice::from_ref(p)))
        .max();
    w.run(secs(3));
    answers.extend(peer.receive(&mut w));
    let events = w.events(0);
    let failure = failures(&events)[0];
    assert_eq!((failure.context, failure.sent), (5, true));
    assert_eq!(
        failure.unsent.len(),
        10 * FULL,
        "nothing of it was acknowledged for good"
    );
    let mut whole = Vec::new();
    failure
        .unsent
        .0
        .iter()
        .for_each(|piece| whole.extend_from_slice(piece));
    assert_eq!(whole, pattern(10 * FULL), "in its order");
    let forwards = forwards(&answers);
    let (point, skipped) = forwards.last().expect("a FORWARD-TSN");
    assert_eq!(skipped, &[(0, 0)]);
    let small: Vec<_> = answers
        .iter()
        .flat_map(|p| {
            p.data()
                .into_iter()
                .map(|d| (d.tsn, d.payload.len()))
                .collect::<Vec<_>>()
        })
        .filter(|(_, len)| *len == 100)
        .collect();
    assert_eq!(
        small[0].0,
        point.next(),
        "the next message follows the point"
    );
    assert!(last.is_some());
    // One TSN more than was sent: it stands for the end that is never sent.
    let full = |p: &SentPacket| {
        p.data()
            .iter()
            .filter(|d| d.payload.len() == FULL)
            .map(|d| d.tsn.since(peer.endpoint_tsn(0)))
            .max()
    };
    let highest = sent.iter().chain(&answers).filter_map(full).max().unwrap();
    assert_eq!(*point, peer.endpoint_tsn(highest + 1));
    assert_eq!(
        w.stats(0, id).abandoned.retransmissions,
        AbandonedCount { unsent: 0, sent: 1 }
    );
}

/// RFC 3758, section 3.5
#[test]
fn a_partly_acknowledged_message_is_skipped_whole() {
    // The peer has the beginning, acknowledged cumulatively; the rest can't leave in time.
    let (mut w, peer, id) = puppet(true, 2 * FULL as u32);
    w.send_with(0, id, with(timed(500), 1), pattern(5 * FULL));
    w.send(0, id, 0, message(2, 10));
    peer.receive(&mut w);
    peer.sack(&mut w, peer.endpoint_tsn(1), 0, &[]);
    w.run(ms(501));
    let answers = peer.receive(&mut w);
    assert_eq!(forwards(&answers), [(peer.endpoint_tsn(2), vec![(0, 0)])]);
    let events = w.events(0);
    let failure = failures(&events)[0];
    assert_eq!((failure.sent, failure.unsent.len()), (true, 3 * FULL));
    let answers = peer.sack(&mut w, peer.endpoint_tsn(2), 10_000, &[]);
    let data = answers[0].data();
    assert_eq!(
        (data[0].tsn, data[0].ssn.value()),
        (peer.endpoint_tsn(3), 1)
    );
    assert!(data[0].flags.beginning && data[0].flags.ending);
}
