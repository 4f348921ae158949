//! Any plan of messages against any losses.

use std::collections::{BTreeMap, BTreeSet};

use carrick_proto::policy::Policies;
use carrick_proto::{Part, Reliability, SendError, SendOptions, StreamId, StreamScheduler};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::*;
use crate::support::*;

/// A message of the property: stream, order, size, policy, and a pause before it.
type Plan = (u16, bool, usize, Reliability, u64);

fn plan() -> impl Strategy<Value = Plan> {
    let policy = prop_oneof![
        3 => Just(Reliability::Full),
        1 => (1_u64..3000).prop_map(timed),
        1 => (0_u32..3).prop_map(Reliability::Retransmissions),
        1 => (0_u32..4).prop_map(Reliability::Priority),
    ];
    (0_u16..4, any::<bool>(), 2_usize..6000, policy, 0_u64..40)
}

/// Bytes with the message's number in the first two.
fn numbered(number: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; size];
    bytes[..2].copy_from_slice(&(number as u16).to_be_bytes());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn reliable_messages_arrive_once_and_others_at_most_once_and_all_in_order(
        plans in vec(plan(), 1..60),
        fates in vec(0_u8..20, 50..600),
        buffer in 3000_usize..60_000,
        send_buffer in 5000_usize..100_000,
        modern: bool,
        scheduler in 0_usize..StreamScheduler::ALL.len(),
    ) {
        let mut w = World::with(2, |_, c| {
            c.association.receive_buffer = buffer;
            c.association.extensions = PARTIAL;
        });
        w.config.extensions = PARTIAL;
        w.config.send_buffer = send_buffer;
        w.config.association_max_retrans = 1000;
        w.config.scheduler = StreamScheduler::ALL[scheduler];
        if modern {
            w.config.policies = Policies::modern();
        }
        let (a, b) = w.connect();
        let mut n = 0;
        w.rule(move |_| {
            n += 1;
            match fates.get(n).copied() {
                Some(0..=4) => Fate::Drop,
                Some(5) => Fate::Duplicate,
                Some(fate @ 6..=9) => Fate::Delay(ms(u64::from(fate) * 17)),
                _ => Fate::Pass,
            }
        });
        let mut taken = BTreeSet::new();
        let mut parts = Vec::new();
        for (number, &(stream, unordered, size, reliability, pause)) in plans.iter().enumerate() {
            w.run(ms(pause));
            parts.extend(w.receive(1, b));
            let options = SendOptions {
                stream: StreamId(stream),
                unordered,
                ..with(reliability, number as u64)
            };
            match w.ends[0].send(w.now, a, options, numbered(number, size).into()) {
                Ok(()) => drop(taken.insert(number)),
                Err(SendError::BufferFull) => {}
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
        w.ends[0].shutdown(w.now, a).unwrap();
        for _ in 0..4000 {
            w.run(ms(500));
            parts.extend(w.receive(1, b));
            if w.ends.iter().all(|e| e.associations().count() == 0) {
                break;
            }
        }
        prop_assert_eq!(w.states(), [None, None], "the association ended");
        let events = w.events(0);
        let failed: BTreeMap<usize, bool> =
            failures(&events).iter().map(|f| (f.context as usize, f.sent)).collect();
        prop_assert_eq!(failed.len(), failures(&events).len(), "each is told once");
        let mut open: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut last: BTreeMap<u16, usize> = BTreeMap::new();
        let mut arrived = BTreeSet::new();
        for part in parts {
            let key = part.tsn.value();
            if part.part == Part::Aborted {
                prop_assert!(open.remove(&key).is_some(), "aborted, and never begun");
                continue;
            }
            let bytes = part.payload.clone().into_bytes();
            open.entry(key).or_default().extend_from_slice(&bytes);
            if !matches!(part.part, Part::Whole | Part::Last) {
                continue;
            }
            let all = open.remove(&key).unwrap_or_default();
            let number = usize::from(u16::from_be_bytes([all[0], all[1]]));
            let (stream, unordered, size, ..) = plans[number];
            prop_assert_eq!(&all, &numbered(number, size));
            prop_assert_eq!((part.stream.0, part.ssn.is_none()), (stream, unordered));
            prop_assert!(arrived.insert(number), "{} came twice", number);
            if !unordered {
                prop_assert!(last.insert(stream, number).is_none_or(|l| l < number));
            }
        }
        prop_assert!(open.is_empty(), "a message without its end");
        for number in taken {
            let (_, _, _, reliability, _) = plans[number];
            let (came, told) = (arrived.contains(&number), failed.get(&number));
            prop_assert!(came || told.is_some(), "{} vanished", number);
            if reliability == Reliability::Full {
                prop_assert!(came && told.is_none(), "{} is reliable", number);
            }
            prop_assert!(!(came && told == Some(&false)), "{} was sent after all", number);
        }
    }
}
