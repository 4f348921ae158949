//! RE-CONFIG chunks that are lost, repeated or late.

use std::cell::Cell;
use std::rc::Rc;

use carrick_proto::{AssociationConfig, Event, ReconfigOutcome, StateName, StreamDirection};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::reconfiguration::support::*;

use ReconfigOutcome::{NothingToDo, Performed};
use StreamDirection::{Both, Incoming, Outgoing};

/// One request of each kind.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Request {
    Reset(StreamDirection),
    Numbers,
    Add(u16, u16),
}

const REQUESTS: [Request; 7] = [
    Request::Reset(Outgoing),
    Request::Reset(Incoming),
    Request::Reset(Both),
    Request::Numbers,
    Request::Add(2, 0),
    Request::Add(0, 2),
    Request::Add(2, 3),
];

impl Request {
    fn ask(self, w: &mut World) {
        let id = w.association(0);
        match self {
            Self::Reset(direction) => reset(w, 0, direction, &[1, 2]),
            Self::Numbers => w.change(0, id).reset_association().expect("reset"),
            Self::Add(outgoing, incoming) => {
                let added = w.change(0, id).add_streams(outgoing, incoming);
                added.expect("add");
            }
        }
    }

    /// Checks that both users are notified once of each performed operation.
    fn check(self, w: &mut World, context: &str) {
        let events = [w.events(0), w.events(1)];
        let once = |events: &[Event], direction, wanted: bool| {
            let reported = resets(events, direction);
            assert_eq!(
                reported.len(),
                usize::from(wanted),
                "{context}: {reported:?}"
            );
            assert!(
                reported.iter().all(|t| t.1 == Performed),
                "{context}: {reported:?}"
            );
        };
        match self {
            Self::Reset(direction) => {
                let [out, into] = [direction != Incoming, direction != Outgoing];
                once(&events[0], Outgoing, out);
                once(&events[1], Incoming, out);
                once(&events[0], Incoming, into);
                once(&events[1], Outgoing, into);
            }
            Self::Numbers => {
                for events in &events {
                    assert_eq!(renumberings(events), [Performed], "{context}");
                }
            }
            Self::Add(outgoing, incoming) => {
                let ids = [w.association(0), w.association(1)];
                let stats = [w.stats(0, ids[0]), w.stats(1, ids[1])];
                let expected = [10 + outgoing, 10 + incoming];
                assert_eq!(stats.map(|s| s.outbound_streams), expected, "{context}");
                assert_eq!(
                    stats.map(|s| s.inbound_streams),
                    [expected[1], expected[0]],
                    "{context}"
                );
            }
        }
    }
}

fn traffic(w: &mut World, ledger: &mut Ledger) {
    for (end, stream) in [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)] {
        ledger.send(w, end, stream, 2);
    }
}

/// Makes a request between messages, with this verdict on each packet with RE-CONFIG.
fn under(request: Request, context: &str, mut verdict: impl FnMut(usize) -> Verdict + 'static) {
    let (mut w, ids) = connected();
    let mut ledger = Ledger::default();
    let mut met = 0;
    w.rule(move |seen| {
        if !seen.has(ChunkType::RE_CONFIG) {
            return Verdict::Pass;
        }
        met += 1;
        verdict(met - 1)
    });
    traffic(&mut w, &mut ledger);
    w.run(ms(300));
    ledger.receive(&mut w);
    request.ask(&mut w);
    traffic(&mut w, &mut ledger);
    w.run(ms(30));
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    w.run(secs(120));
    request.check(&mut w, context);
    for (end, id) in ids.into_iter().enumerate() {
        let stats = w.stats(end, id);
        assert_eq!(stats.state, StateName::Established, "{context}");
        assert_eq!(stats.error_count, 0, "{context}");
        assert_eq!((stats.queued_messages, stats.receive_buffer_bytes), (0, 0));
    }
}

/// RFC 6525, section 5.1.1
#[test]
fn any_three_lost_chunks_are_recovered() {
    for request in REQUESTS {
        for losses in 0..1_u32 << 7 {
            if losses.count_ones() > 3 {
                continue;
            }
            let context = format!("{request:?} without {losses:07b}");
            under(request, &context, move |n| {
                if n < 7 && losses >> n & 1 == 1 {
                    Verdict::Drop
                } else {
                    Verdict::Pass
                }
            });
        }
    }
}

/// RFC 6525, section 5.2.1
#[test]
fn duplicate_and_late_chunks_change_nothing() {
    for request in REQUESTS {
        for pattern in 0..4_usize.pow(4) {
            let context = format!("{request:?} with {pattern}");
            under(request, &context, move |n| {
                match pattern >> (2 * n.min(20)) & 3 {
                    1 if n < 4 => Verdict::Duplicate,
                    2 if n < 4 => Verdict::Delay(ms(15)),
                    3 if n < 4 => Verdict::Delay(ms(2500)),
                    _ => Verdict::Pass,
                }
            });
        }
    }
}

/// RFC 6525, section 5.2.2
#[test]
fn data_overtakes_and_is_lost_around_requests() {
    for request in REQUESTS {
        for seed in 0..60_u64 {
            let (mut w, _) = connected();
            let mut ledger = Ledger::default();
            let mut state = seed * 2 + 1;
            w.rule(move |_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                match state >> 60 {
                    0 | 1 => Verdict::Drop,
                    2 => Verdict::Duplicate,
                    3..=5 => Verdict::Delay(ms(state >> 50 & 63)),
                    6 => Verdict::Delay(ms(1500)),
                    _ => Verdict::Pass,
                }
            });
            traffic(&mut w, &mut ledger);
            request.ask(&mut w);
            for _ in 0..10 {
                traffic(&mut w, &mut ledger);
                w.run(ms(25));
                ledger.receive(&mut w);
            }
            ledger.finish(&mut w);
            w.clear_rules();
            w.run(secs(300));
            request.check(&mut w, &format!("{request:?}, seed {seed}"));
        }
    }
}

/// RFC 6525, section 5.1.1
#[test]
fn a_request_is_retransmitted_with_back_off() {
    let (mut w, [a, _]) = connected();
    w.send(0, a, 1, pattern(5));
    w.run(secs(1));
    w.log.clear();
    w.lose(1, ChunkType::RE_CONFIG, 3);
    reset(&mut w, 0, Outgoing, &[1]);
    w.send(0, a, 2, pattern(5));
    w.run(secs(10));
    let requests = w.sent(0, ChunkType::RE_CONFIG);
    assert_eq!(requests.len(), 4);
    let gaps: Vec<_> = requests
        .windows(2)
        .map(|p| p[1].time.since(p[0].time))
        .collect();
    assert_eq!(gaps, [secs(1), secs(2), secs(4)]);
    let chunk = |p: &SentPacket| {
        let packet = p.packet();
        let raw = packet
            .chunks()
            .flatten()
            .find(|c| c.kind == ChunkType::RE_CONFIG);
        raw.expect("RE-CONFIG").bytes.to_vec()
    };
    assert!(requests.windows(2).all(|p| chunk(p[0]) == chunk(p[1])));
    // So are the answers.
    let answers = w.sent(1, ChunkType::RE_CONFIG);
    assert!(answers.windows(2).all(|p| chunk(p[0]) == chunk(p[1])));
    assert_eq!(w.stats(0, a).error_count, 0, "answered in the end");
}

/// RFC 6525, section 5.2.7
#[test]
fn in_progress_makes_the_next_timeout_no_error() {
    let (mut w, p) = with_partner(|_| {});
    w.change(0, p.id)
        .reset_streams(Outgoing, &ids(&[1]))
        .expect("reset");
    assert_eq!(p.receive(&mut w), ["out [1]"]);
    let in_progress = carrick_wire::ReconfigResult::IN_PROGRESS;
    for _ in 0..20 {
        p.answer(&mut w, p.theirs, in_progress, None);
        let again = w.run_until(secs(200), |w| !w.to_puppets.is_empty());
        assert!(again);
        assert_eq!(p.receive(&mut w), ["out [1]"]);
        assert_eq!(w.stats(0, p.id).error_count, 0);
        assert_eq!(w.path(0, p.id, 0).error_count, 0);
    }
    // Silence is one.
    w.run(secs(1000));
    assert!(matches!(w.events(0).last(), Some(Event::Closed(_))));
}

/// RFC 6525, section 5.1.1
#[test]
fn an_unanswered_request_ends_the_association() {
    let (mut w, p) = with_partner(|config| config.paths.association_max_retrans = 3);
    w.change(0, p.id).add_streams(1, 0).expect("add");
    w.run(secs(1 + 2 + 4));
    assert_eq!(w.stats(0, p.id).error_count, 3);
    w.run(secs(9));
    let reason = carrick_proto::CloseReason::PeerUnreachable;
    assert_eq!(w.events(0).last(), Some(&Event::Closed(reason)));
    assert_eq!(p.receive(&mut w).len(), 4);
}

/// RFC 6525, section 4.4
#[test]
fn nothing_to_do_is_answered_as_success() {
    let (mut w, p) = with_partner(|_| {});
    w.change(0, p.id)
        .reset_streams(Outgoing, &ids(&[1]))
        .expect("reset");
    p.receive(&mut w);
    p.answer(
        &mut w,
        p.theirs,
        carrick_wire::ReconfigResult::NOTHING_TO_DO,
        None,
    );
    assert_eq!(resets(&w.events(0), Outgoing), [(vec![1], NothingToDo)]);
}

/// RFC 6525, section 5.1.1
#[test]
fn a_requested_retry_changes_the_path() {
    // The requester repeats its request before the timer of the other expires.
    let pace = |end: usize, config: &mut AssociationConfig| {
        config.extensions = OFFERED;
        let rto = if end == 0 { ms(500) } else { secs(3) };
        config.timers.rto_initial = rto;
        config.timers.rto_min = rto;
        config.timers.rto_max = rto;
        config.paths.path_max_retrans = 20;
        config.paths.association_max_retrans = 20;
    };
    let mut w = World::with(2, |end, config| pace(end, &mut config.association));
    pace(0, &mut w.config);
    let (_, b) = w.connect();
    // A stream that carried nothing has nothing to reset.
    w.send(1, b, 1, pattern(100));
    w.run(secs(10));
    w.events(0);
    let dead = addresses(0)[0];
    w.rule(move |seen| {
        let there = seen.from == 1 && seen.route.remote == dead;
        if there && seen.has(ChunkType::RE_CONFIG) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    reset(&mut w, 0, Incoming, &[1]);
    w.run(secs(4));
    assert_eq!(resets(&w.events(0), Incoming), [(vec![1], Performed)]);
}

/// RFC 6525, section 5.2.7; world 28221.
#[test]
fn messages_from_before_and_after_a_reset_wait_apart() {
    for interleaving in [false, true] {
        let (mut w, [a, b]) = connected_with(|_, c| c.extensions.interleaving = interleaving);
        let before = [100, 3000, 20, 5000];
        let after = [4000, 6000, 3000, 30];
        // The first message arrives after the request, all later messages before it.
        let asked = Rc::new(Cell::new(false));
        let mut lost = false;
        w.rule({
            let asked = Rc::clone(&asked);
            move |seen| {
                let first = seen.user_data().iter().any(|data| data.len == 100);
                let performed = words(seen).contains(&"response performed".into());
                let is_late = first && !asked.get();
                let is_lost = performed && !core::mem::replace(&mut lost, true);
                let drops = seen.from == 1 && (is_late || is_lost);
                if drops { Verdict::Drop } else { Verdict::Pass }
            }
        });
        w.send(1, b, 0, vec![1; before[0]]);
        w.pump();
        for len in &before[1..] {
            w.send(1, b, 0, vec![1; *len]);
        }
        w.run(ms(100));
        w.change(0, a).reset_association().expect("reset");
        asked.set(true);
        assert!(w.run_until(secs(30), |w| renumberings(&w.events(1)) == [Performed]));
        for len in after {
            w.send(1, b, 0, vec![2; len]);
        }
        w.run(secs(30));
        let context = format!("interleaving: {interleaving}");
        assert_eq!(w.states(), [Some("Established"); 2], "{context}");
        assert_eq!(
            w.receive_lengths(0, a),
            [&before[..], &after].concat(),
            "{context}"
        );
    }
}
