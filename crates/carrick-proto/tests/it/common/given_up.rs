//! Any plan of messages, some of which may be given up, against any losses: what is the same with DATA
//! and with I-DATA.

use std::collections::{BTreeMap, BTreeSet};

use carrick_proto::policy::Policies;
use carrick_proto::{
    AssociationId, Event, Extensions, Message, Part, Reliability, SendError, SendOptions, StreamId,
    StreamScheduler,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::*;

/// A message: stream, order, size, policy, and a pause before it.
type Plan = (u16, bool, usize, Reliability, u64);

fn plan() -> impl Strategy<Value = Plan> {
    let policy = prop_oneof![
        3 => Just(Reliability::Full),
        1 => (1_u64..3000).prop_map(|millis| Reliability::Timed(ms(millis))),
        1 => (0_u32..3).prop_map(Reliability::Retransmissions),
        1 => (0_u32..4).prop_map(Reliability::Priority),
    ];
    (0_u16..4, any::<bool>(), 2_usize..6000, policy, 0_u64..40)
}

/// What is sent, what becomes of each packet, and the parameters of both ends.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    plans: Vec<Plan>,
    fates: Vec<u8>,
    buffer: usize,
    send_buffer: usize,
    modern: bool,
    scheduler: usize,
}

pub(crate) fn course() -> impl Strategy<Value = Course> {
    (
        vec(plan(), 1..60),
        vec(0_u8..20, 50..600),
        3000_usize..60_000,
        5000_usize..100_000,
        any::<bool>(),
        0_usize..StreamScheduler::ALL.len(),
    )
        .prop_map(
            |(plans, fates, buffer, send_buffer, modern, scheduler)| Course {
                plans,
                fates,
                buffer,
                send_buffer,
                modern,
                scheduler,
            },
        )
}

/// Bytes with the message's number in the first two.
fn numbered(number: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; size];
    bytes[..2].copy_from_slice(&(number as u16).to_be_bytes());
    bytes
}

/// A course under way.
pub(crate) struct Run {
    pub(crate) w: World,
    pub(crate) a: AssociationId,
    pub(crate) b: AssociationId,
    plans: Vec<Plan>,
    /// The messages that the first end took.
    taken: BTreeSet<usize>,
    parts: Vec<Message>,
}

impl Course {
    /// Two ends with these extensions, and everything handed over.
    pub(crate) fn begin(self, extensions: Extensions) -> Result<Run, TestCaseError> {
        let mut w = World::with(2, |_, c| {
            c.association.receive_buffer = self.buffer;
            c.association.extensions = extensions;
        });
        w.config.extensions = extensions;
        w.config.send_buffer = self.send_buffer;
        w.config.association_max_retrans = 1000;
        w.config.scheduler = StreamScheduler::ALL[self.scheduler];
        if self.modern {
            w.config.policies = Policies::modern();
        }
        let (a, b) = w.connect();
        let fates = self.fates;
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
        let mut run = Run {
            w,
            a,
            b,
            plans: self.plans,
            taken: BTreeSet::new(),
            parts: Vec::new(),
        };
        for number in 0..run.plans.len() {
            let (stream, unordered, size, reliability, pause) = run.plans[number];
            run.pass(pause);
            let options = SendOptions {
                stream: StreamId(stream),
                unordered,
                reliability,
                context: number as u64,
                ..SendOptions::default()
            };
            let bytes = numbered(number, size).into();
            match run.w.ends[0].send(run.w.now, a, options, bytes) {
                Ok(()) => drop(run.taken.insert(number)),
                Err(SendError::BufferFull) => {}
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
        Ok(run)
    }
}

impl Run {
    /// Time passes, and the second end reads.
    fn pass(&mut self, millis: u64) {
        self.w.run(ms(millis));
        self.parts.extend(self.w.receive(1, self.b));
    }

    /// Goes on until this holds, or for very long.
    pub(crate) fn until(&mut self, done: impl Fn(&World) -> bool) {
        for _ in 0..4000 {
            self.pass(500);
            if done(&self.w) {
                break;
            }
        }
        self.pass(500);
    }

    /// The association has ended: reliable messages came once, others once at most or are told, and
    /// all in order.
    pub(crate) fn judge(mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.w.states(), [None, None], "the association ended");
        let mut failed: BTreeMap<usize, bool> = BTreeMap::new();
        for event in self.w.events(0) {
            if let Event::SendFailed(f) = event {
                let before = failed.insert(f.context as usize, f.sent);
                prop_assert!(before.is_none(), "told twice");
            }
        }
        let arrived = self.arrived()?;
        for &number in &self.taken {
            let (_, _, _, reliability, _) = self.plans[number];
            let (came, told) = (arrived.contains(&number), failed.get(&number));
            prop_assert!(came || told.is_some(), "{} vanished", number);
            if reliability == Reliability::Full {
                prop_assert!(came && told.is_none(), "{} is reliable", number);
            }
            let unsent = told == Some(&false);
            prop_assert!(!(came && unsent), "{} was sent after all", number);
        }
        Ok(())
    }

    /// Puts the parts together, and says which messages came.
    fn arrived(&mut self) -> Result<BTreeSet<usize>, TestCaseError> {
        let mut open: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut begun: BTreeMap<StreamId, u32> = BTreeMap::new();
        let mut last: BTreeMap<u16, usize> = BTreeMap::new();
        let mut arrived = BTreeSet::new();
        for part in self.parts.drain(..) {
            let key = part.tsn.value();
            if part.part == Part::Aborted {
                prop_assert!(open.remove(&key).is_some(), "aborted, and never begun");
                continue;
            }
            let begins = matches!(part.part, Part::Whole | Part::First);
            if begins && part.ssn.is_some() {
                let before = begun.insert(part.stream, key);
                let told = before.is_none_or(|before| !open.contains_key(&before));
                prop_assert!(told, "the one before it in its stream has no end");
            }
            let bytes = part.payload.clone().into_bytes();
            open.entry(key).or_default().extend_from_slice(&bytes);
            if !matches!(part.part, Part::Whole | Part::Last) {
                continue;
            }
            let all = open.remove(&key).unwrap_or_default();
            let number = usize::from(u16::from_be_bytes([all[0], all[1]]));
            let (stream, unordered, size, ..) = self.plans[number];
            prop_assert_eq!(&all, &numbered(number, size));
            prop_assert_eq!((part.stream.0, part.ssn.is_none()), (stream, unordered));
            prop_assert!(arrived.insert(number), "{} came twice", number);
            if !unordered {
                let before = last.insert(stream, number);
                prop_assert!(before.is_none_or(|before| before < number));
            }
        }
        prop_assert!(open.is_empty(), "a message without its end");
        Ok(arrived)
    }
}
