//! Random messages, some of which may be abandoned, under random loss, for DATA and for I-DATA.

use std::collections::{BTreeMap, BTreeSet};

use carrick_proto::research::Policies;
use carrick_proto::{
    AssociationId, Event, Extensions, Message, MessagePart, Reliability, SendError, SendOptions,
    StreamId, StreamScheduler,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::*;

/// A message: stream, unordered, size, reliability, and the pause before it in milliseconds.
type PlannedMessage = (u16, bool, usize, Reliability, u64);

fn planned_message() -> impl Strategy<Value = PlannedMessage> {
    let policy = prop_oneof![
        3 => Just(Reliability::Full),
        1 => (1_u64..3000).prop_map(|millis| Reliability::Timed(ms(millis))),
        1 => (0_u32..3).prop_map(Reliability::Retransmissions),
        1 => (0_u32..4).prop_map(Reliability::Priority),
    ];
    (0_u16..4, any::<bool>(), 2_usize..6000, policy, 0_u64..40)
}

/// The messages, the verdict on each packet, and the configuration of both endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    messages: Vec<PlannedMessage>,
    verdicts: Vec<u8>,
    buffer: usize,
    send_buffer: usize,
    modern: bool,
    scheduler: usize,
}

pub(crate) fn scenario() -> impl Strategy<Value = Scenario> {
    (
        vec(planned_message(), 1..60),
        vec(0_u8..20, 50..600),
        3000_usize..60_000,
        5000_usize..100_000,
        any::<bool>(),
        0_usize..StreamScheduler::ALL.len(),
    )
        .prop_map(
            |(messages, verdicts, buffer, send_buffer, modern, scheduler)| Scenario {
                messages,
                verdicts,
                buffer,
                send_buffer,
                modern,
                scheduler,
            },
        )
}

/// Payload with the number of the message in its first two bytes.
fn numbered(number: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; size];
    bytes[..2].copy_from_slice(&(number as u16).to_be_bytes());
    bytes
}

/// A scenario in progress.
pub(crate) struct ScenarioRun {
    pub(crate) w: World,
    pub(crate) a: AssociationId,
    pub(crate) b: AssociationId,
    messages: Vec<PlannedMessage>,
    /// Messages that endpoint 0 accepted.
    accepted: BTreeSet<usize>,
    parts: Vec<Message>,
}

impl Scenario {
    /// Connects two endpoints with these extensions and sends all messages.
    pub(crate) fn begin(self, extensions: Extensions) -> Result<ScenarioRun, TestCaseError> {
        let mut w = World::with(2, |_, c| {
            c.association.buffers.receive_buffer = self.buffer;
            c.association.extensions = extensions;
        });
        w.config.extensions = extensions;
        w.config.buffers.send_buffer = self.send_buffer;
        w.config.paths.association_max_retrans = 1000;
        w.config.streams.scheduler = StreamScheduler::ALL[self.scheduler];
        if self.modern {
            w.config.research.policies = Policies::modern();
        }
        let (a, b) = w.connect();
        let verdicts = self.verdicts;
        let mut n = 0;
        w.rule(move |_| {
            n += 1;
            match verdicts.get(n).copied() {
                Some(0..=4) => Verdict::Drop,
                Some(5) => Verdict::Duplicate,
                Some(n @ 6..=9) => Verdict::Delay(ms(u64::from(n) * 17)),
                _ => Verdict::Pass,
            }
        });
        let mut run = ScenarioRun {
            w,
            a,
            b,
            messages: self.messages,
            accepted: BTreeSet::new(),
            parts: Vec::new(),
        };
        for number in 0..run.messages.len() {
            let (stream, unordered, size, reliability, pause) = run.messages[number];
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
                Ok(()) => drop(run.accepted.insert(number)),
                Err(SendError::BufferFull) => {}
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
        Ok(run)
    }
}

impl ScenarioRun {
    /// Runs for this long, then reads at endpoint 1.
    fn pass(&mut self, millis: u64) {
        self.w.run(ms(millis));
        self.parts.extend(self.w.receive(1, self.b));
    }

    /// Runs until the condition holds, for at most 2,000 s.
    pub(crate) fn until(&mut self, done: impl Fn(&World) -> bool) {
        for _ in 0..4000 {
            self.pass(500);
            if done(&self.w) {
                break;
            }
        }
        self.pass(500);
    }

    /// Checks that reliable messages arrived once, that others arrived or were reported as
    /// failed, and that all arrived in order. The association has ended.
    pub(crate) fn check(mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.w.states(), [None, None], "the association ended");
        let mut failed: BTreeMap<usize, bool> = BTreeMap::new();
        for event in self.w.events(0) {
            if let Event::SendFailed(f) = event {
                let before = failed.insert(f.context as usize, f.sent);
                prop_assert!(before.is_none(), "reported twice");
            }
        }
        let arrived = self.arrived()?;
        for &number in &self.accepted {
            let (_, _, _, reliability, _) = self.messages[number];
            let (came, failure) = (arrived.contains(&number), failed.get(&number));
            prop_assert!(
                came || failure.is_some(),
                "{} was neither delivered nor reported",
                number
            );
            if reliability == Reliability::Full {
                prop_assert!(came && failure.is_none(), "{} is reliable", number);
            }
            let unsent = failure == Some(&false);
            prop_assert!(
                !(came && unsent),
                "{} was reported as unsent and arrived",
                number
            );
        }
        Ok(())
    }

    /// Reassembles the parts; returns the numbers of the messages that arrived.
    fn arrived(&mut self) -> Result<BTreeSet<usize>, TestCaseError> {
        let mut open: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut begun: BTreeMap<StreamId, u32> = BTreeMap::new();
        let mut last: BTreeMap<u16, usize> = BTreeMap::new();
        let mut arrived = BTreeSet::new();
        for part in self.parts.drain(..) {
            let key = part.tsn.value();
            if part.part == MessagePart::Aborted {
                prop_assert!(open.remove(&key).is_some(), "aborted without a first part");
                continue;
            }
            let begins = matches!(part.part, MessagePart::Whole | MessagePart::First);
            if begins && part.ssn.is_some() {
                let before = begun.insert(part.stream, key);
                let ended = before.is_none_or(|before| !open.contains_key(&before));
                prop_assert!(ended, "the message before it in its stream has no end");
            }
            let bytes = part.payload.clone().into_bytes();
            open.entry(key).or_default().extend_from_slice(&bytes);
            if !matches!(part.part, MessagePart::Whole | MessagePart::Last) {
                continue;
            }
            let all = open.remove(&key).unwrap_or_default();
            let number = usize::from(u16::from_be_bytes([all[0], all[1]]));
            let (stream, unordered, size, ..) = self.messages[number];
            prop_assert_eq!(&all, &numbered(number, size));
            prop_assert_eq!((part.stream.0, part.ssn.is_none()), (stream, unordered));
            prop_assert!(arrived.insert(number), "{} arrived twice", number);
            if !unordered {
                let before = last.insert(stream, number);
                prop_assert!(before.is_none_or(|before| before < number));
            }
        }
        prop_assert!(open.is_empty(), "a message without its end");
        Ok(arrived)
    }
}
