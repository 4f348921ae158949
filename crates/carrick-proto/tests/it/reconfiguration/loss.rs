//! RE-CONFIG chunks that are lost, repeated or late.

use carrick_proto::{AssociationConfig, Event, ReconfigOutcome, StateName, StreamDirection};
use carrick_wire::ChunkType;

use crate::common::*;
use crate::reconfiguration::support::*;

use ReconfigOutcome::{NothingToDo, Performed};
use StreamDirection::{Both, Incoming, Outgoing};

/// One of everything that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wish {
    Reset(StreamDirection),
    Numbers,
    Add(u16, u16),
}

const WISHES: [Wish; 7] = [
    Wish::Reset(Outgoing),
    Wish::Reset(Incoming),
    Wish::Reset(Both),
    Wish::Numbers,
    Wish::Add(2, 0),
    Wish::Add(0, 2),
    Wish::Add(2, 3),
];

impl Wish {
    fn ask(self, w: &mut World) {
        let (now, id) = (w.now, w.only(0));
        match self {
            Self::Reset(direction) => reset(w, 0, direction, &[1, 2]),
            Self::Numbers => w.ends[0].reset_association(now, id).expect("reset"),
            Self::Add(outgoing, incoming) => {
                let end = &mut w.ends[0];
                end.add_streams(now, id, outgoing, incoming).expect("add");
            }
        }
    }

    /// Both users hear of each thing once, and it is done.
    fn check(self, w: &mut World, context: &str) {
        let events = [w.events(0), w.events(1)];
        let once = |events: &[Event], direction, wanted: bool| {
            let told = resets(events, direction);
            assert_eq!(told.len(), usize::from(wanted), "{context}: {told:?}");
            assert!(told.iter().all(|t| t.1 == Performed), "{context}: {told:?}");
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
                let ids = [w.only(0), w.only(1)];
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

/// A wish between messages, while something happens to the packets with RE-CONFIG.
fn under(wish: Wish, context: &str, mut fate: impl FnMut(usize) -> Fate + 'static) {
    let (mut w, ids) = connected();
    let mut ledger = Ledger::default();
    let mut met = 0;
    w.rule(move |seen| {
        if !seen.has(ChunkType::RE_CONFIG) {
            return Fate::Pass;
        }
        met += 1;
        fate(met - 1)
    });
    traffic(&mut w, &mut ledger);
    w.run(ms(300));
    ledger.receive(&mut w);
    wish.ask(&mut w);
    traffic(&mut w, &mut ledger);
    w.run(ms(30));
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    traffic(&mut w, &mut ledger);
    ledger.finish(&mut w);
    w.run(secs(120));
    wish.check(&mut w, context);
    for (end, id) in ids.into_iter().enumerate() {
        let stats = w.stats(end, id);
        assert_eq!(stats.state, StateName::Established, "{context}");
        assert_eq!(stats.error_count, 0, "{context}");
        assert_eq!((stats.queued_messages, stats.receive_buffer_bytes), (0, 0));
    }
}

#[test]
fn any_three_chunks_may_be_lost_5_1_1() {
    for wish in WISHES {
        for losses in 0..1_u32 << 7 {
            if losses.count_ones() > 3 {
                continue;
            }
            let context = format!("{wish:?} without {losses:07b}");
            under(wish, &context, move |n| {
                if n < 7 && losses >> n & 1 == 1 {
                    Fate::Drop
                } else {
                    Fate::Pass
                }
            });
        }
    }
}

#[test]
fn any_chunks_may_come_twice_or_late_5_2_1() {
    for wish in WISHES {
        for pattern in 0..4_usize.pow(4) {
            let context = format!("{wish:?} with {pattern}");
            under(wish, &context, move |n| {
                match pattern >> (2 * n.min(20)) & 3 {
                    1 if n < 4 => Fate::Duplicate,
                    2 if n < 4 => Fate::Delay(ms(15)),
                    3 if n < 4 => Fate::Delay(ms(2500)),
                    _ => Fate::Pass,
                }
            });
        }
    }
}

#[test]
fn data_may_overtake_and_be_lost_around_any_request_5_2_2() {
    for wish in WISHES {
        for seed in 0..60_u64 {
            let (mut w, _) = connected();
            let mut ledger = Ledger::default();
            let mut state = seed * 2 + 1;
            w.rule(move |_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                match state >> 60 {
                    0 | 1 => Fate::Drop,
                    2 => Fate::Duplicate,
                    3..=5 => Fate::Delay(ms(state >> 50 & 63)),
                    6 => Fate::Delay(ms(1500)),
                    _ => Fate::Pass,
                }
            });
            traffic(&mut w, &mut ledger);
            wish.ask(&mut w);
            for _ in 0..10 {
                traffic(&mut w, &mut ledger);
                w.run(ms(25));
                ledger.receive(&mut w);
            }
            ledger.finish(&mut w);
            w.clear_rules();
            w.run(secs(300));
            wish.check(&mut w, &format!("{wish:?}, seed {seed}"));
        }
    }
}

#[test]
fn a_request_is_repeated_as_it_was_with_back_off_5_1_1() {
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
    let chunk = |p: &Seen| {
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

#[test]
fn an_answer_in_progress_makes_the_next_timeout_no_error_5_2_7() {
    let (mut w, p) = with_partner(|_| {});
    let end = &mut w.ends[0];
    end.reset_streams(w.now, p.id, Outgoing, &ids(&[1]))
        .expect("reset");
    assert_eq!(p.hear(&mut w), ["out [1]"]);
    let in_progress = carrick_wire::ReconfigResult::IN_PROGRESS;
    for _ in 0..20 {
        p.answer(&mut w, p.theirs, in_progress, None);
        let again = w.run_until(secs(200), |w| !w.to_puppets.is_empty());
        assert!(again);
        assert_eq!(p.hear(&mut w), ["out [1]"]);
        assert_eq!(w.stats(0, p.id).error_count, 0);
        assert_eq!(w.path(0, p.id, 0).error_count, 0);
    }
    // Silence is one.
    w.run(secs(1000));
    assert!(matches!(w.events(0).last(), Some(Event::Closed(_))));
}

#[test]
fn a_peer_that_never_answers_is_lost_5_1_1() {
    let (mut w, p) = with_partner(|config| config.association_max_retrans = 3);
    let end = &mut w.ends[0];
    end.add_streams(w.now, p.id, 1, 0).expect("add");
    w.run(secs(1 + 2 + 4));
    assert_eq!(w.stats(0, p.id).error_count, 3);
    w.run(secs(9));
    let reason = carrick_proto::CloseReason::PeerUnreachable;
    assert_eq!(w.events(0).last(), Some(&Event::Closed(reason)));
    assert_eq!(p.hear(&mut w).len(), 4);
}

#[test]
fn nothing_to_do_is_a_success_4_4() {
    let (mut w, p) = with_partner(|_| {});
    let end = &mut w.ends[0];
    end.reset_streams(w.now, p.id, Outgoing, &ids(&[1]))
        .expect("reset");
    p.hear(&mut w);
    p.answer(
        &mut w,
        p.theirs,
        carrick_wire::ReconfigResult::NOTHING_TO_DO,
        None,
    );
    assert_eq!(resets(&w.events(0), Outgoing), [(vec![1], NothingToDo)]);
}

#[test]
fn a_request_that_the_peer_asks_for_again_finds_another_path_all_the_same_5_1_1() {
    // The one that asks does so faster than the timer of the other runs.
    let pace = |end: usize, config: &mut AssociationConfig| {
        config.extensions = OFFERED;
        let rto = if end == 0 { ms(500) } else { secs(3) };
        config.rto_initial = rto;
        config.rto_min = rto;
        config.rto_max = rto;
        config.path_max_retrans = 20;
        config.association_max_retrans = 20;
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
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    reset(&mut w, 0, Incoming, &[1]);
    w.run(secs(4));
    assert_eq!(resets(&w.events(0), Incoming), [(vec![1], Performed)]);
}
