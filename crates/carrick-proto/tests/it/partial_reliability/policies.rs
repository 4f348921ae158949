//! When a message is given up (RFC 3758 section 4.1, RFC 7496 section 3).

use carrick_proto::{AbandonedCount, AbandonmentPolicy, Event, Reliability};

use crate::common::*;
use crate::partial_reliability::support::*;

#[test]
fn a_message_sent_once_is_given_up_when_it_is_lost_7496_3_1() {
    let (mut w, a, b) = world();
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

#[test]
fn the_number_of_retransmissions_is_kept_to_7496_3_1() {
    for most in 0..4_u32 {
        let (mut w, a, b) = world();
        // Every copy of the first message is lost.
        let mut tsn = None;
        w.rule(move |seen| {
            let sent = seen
                .data()
                .first()
                .map(|d| d.tsn)
                .filter(|_| seen.from == 0);
            let doomed = sent.is_some_and(|sent| sent == *tsn.get_or_insert(sent));
            if doomed { Fate::Drop } else { Fate::Pass }
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

#[test]
fn the_congestion_window_shrinks_as_for_any_loss_3758_f5() {
    let windows = [Reliability::Full, Reliability::Retransmissions(0)].map(|reliability| {
        let (mut w, a, _) = world();
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

#[test]
fn a_timed_message_is_given_up_when_it_would_be_sent_again_too_late_3758_4_1() {
    for (life, arrives) in [(900, false), (1100, true)] {
        let (mut w, a, b) = world();
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

#[test]
fn what_is_on_its_way_in_time_is_not_given_up_3758_4_1() {
    let (mut w, a, b) = world();
    w.latency = ms(100);
    w.send_with(0, a, with(timed(50), 1), message(0, FULL));
    w.run(secs(2));
    assert_eq!(numbers(&mut w, 1, b), [0]);
    assert_eq!(contexts(&w.events(0)), [0; 0]);
    assert_eq!(forwards(&w.log), []);
}

#[test]
fn a_timed_message_that_is_not_sent_gets_no_tsn_3758_tr3() {
    let (mut w, peer, id) = puppet(true, 3000);
    for n in 0..4 {
        w.send_with(0, id, with(timed(300), u64::from(n)), message(n, FULL));
    }
    w.send(0, id, 0, message(9, FULL));
    let sent = peer.hear(&mut w);
    assert_eq!(peer.numbers(&sent), [0, 1]);
    w.run(ms(301));
    let events = w.events(0);
    assert_eq!(contexts(&events), [2, 3], "wherever they are in the queue");
    assert!(
        failures(&events)
            .iter()
            .all(|f| !f.sent && f.unsent.len() == FULL)
    );
    let answers = peer.sack(&mut w, peer.theirs(1), 10_000, &[]);
    assert_eq!(forwards(&answers), []);
    let data = answers[0].data();
    assert_eq!((data[0].tsn, data[0].ssn.value()), (peer.theirs(2), 2));
}

#[test]
fn the_rest_of_a_message_is_not_sent_when_a_part_is_lost_3758_a3() {
    let (mut w, peer, id) = puppet(true, 100_000);
    // Four packets fit into the initial window, the message has ten.
    w.send_with(
        0,
        id,
        with(Reliability::Retransmissions(0), 5),
        pattern(10 * FULL),
    );
    w.send(0, id, 0, message(1, 100));
    let sent = peer.hear(&mut w);
    let count = peer.numbers(&sent).len() as u32;
    assert!(count < 10);
    // All but the first arrive.
    let mut answers = Vec::new();
    for n in 2..=count {
        answers.extend(peer.sack(&mut w, peer.theirs(0).previous(), 100_000, &[(2, n as u16)]));
    }
    let last = answers
        .iter()
        .flat_map(|p| peer.numbers(std::slice::from_ref(p)))
        .max();
    w.run(secs(3));
    answers.extend(peer.hear(&mut w));
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
    let full = |p: &Seen| {
        p.data()
            .iter()
            .filter(|d| d.payload.len() == FULL)
            .map(|d| d.tsn.since(peer.theirs(0)))
            .max()
    };
    let highest = sent.iter().chain(&answers).filter_map(full).max().unwrap();
    assert_eq!(*point, peer.theirs(highest + 1));
    assert_eq!(
        w.stats(0, id).abandoned.retransmissions,
        AbandonedCount { unsent: 0, sent: 1 }
    );
}

#[test]
fn a_message_whose_beginning_was_taken_is_skipped_as_a_whole_3758_3_5() {
    // The peer has the beginning, acknowledged cumulatively; the rest can't leave in time.
    let (mut w, peer, id) = puppet(true, 2 * FULL as u32);
    w.send_with(0, id, with(timed(500), 1), pattern(5 * FULL));
    w.send(0, id, 0, message(2, 10));
    peer.hear(&mut w);
    peer.sack(&mut w, peer.theirs(1), 0, &[]);
    w.run(ms(501));
    let answers = peer.hear(&mut w);
    assert_eq!(forwards(&answers), [(peer.theirs(2), vec![(0, 0)])]);
    let events = w.events(0);
    let failure = failures(&events)[0];
    assert_eq!((failure.sent, failure.unsent.len()), (true, 3 * FULL));
    let answers = peer.sack(&mut w, peer.theirs(2), 10_000, &[]);
    let data = answers[0].data();
    assert_eq!((data[0].tsn, data[0].ssn.value()), (peer.theirs(3), 1));
    assert!(data[0].flags.beginning && data[0].flags.ending);
}
