//! Reassembly of DATA chunks (RFC 9260, section 6.9).
//!
//! Fragments of one message have consecutive TSNs and are kept as runs of consecutive fragments,
//! ordered by the index of their first TSN.

use alloc::collections::BTreeMap;
use alloc::collections::VecDeque;

use bytes::Bytes;
use carrick_wire::{Data, Ppid, Ssn, StreamId, Tsn};

use super::buffer::Cost;
use super::delivery::Delivery;
use super::forward::AbortedMessage;
use super::message::{Message, MessagePart, Payload};
use crate::capacity::FreeIfEmpty;

/// Content of a DATA chunk.
#[derive(Clone, Debug)]
pub(super) struct DataFragment {
    identity: MessageIdentity,
    tsn: Tsn,
    beginning: bool,
    ending: bool,
    pub(super) payload: Bytes,
}

/// Fields that all fragments of a message have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MessageIdentity {
    stream: StreamId,
    /// `None` if unordered: the SSN has no meaning then.
    ssn: Option<Ssn>,
    ppid: Ppid,
}

portable_struct! { MessageIdentity { stream, ssn, ppid } }

impl DataFragment {
    pub(super) fn new(data: &Data<'_>, payload: Bytes) -> Self {
        Self {
            identity: MessageIdentity {
                stream: data.stream,
                ssn: (!data.flags.unordered).then_some(data.ssn),
                ppid: data.ppid,
            },
            tsn: data.tsn,
            beginning: data.flags.beginning,
            ending: data.flags.ending,
            payload,
        }
    }
}

/// Complete message with the indexes of its first and last TSN.
#[derive(Debug)]
pub(super) struct CompleteMessage {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) message: Message,
}

portable_struct! { CompleteMessage { first, last, message } }

/// Consecutive fragments of one message.
#[derive(Debug)]
struct FragmentRun {
    identity: MessageIdentity,
    last: u64,
    tsn: Tsn,
    beginning: bool,
    ending: bool,
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

portable_struct! {
    FragmentRun { identity, last, tsn, beginning, ending, pieces, bytes }
    check Self::is_consistent
}

impl FragmentRun {
    /// Returns whether the fragments of an import are possible.
    fn is_consistent(&self) -> bool {
        self.last < 1 << 62
            && !self.pieces.is_empty()
            && self.bytes == self.pieces.iter().map(Bytes::len).sum()
    }

    fn cost(&self) -> Cost {
        Cost {
            chunks: self.pieces.len(),
            payload: self.bytes,
        }
    }

    /// Appends the next fragment.
    fn push(&mut self, index: u64, fragment: DataFragment) {
        self.last = index;
        self.ending = fragment.ending;
        self.bytes += fragment.payload.len();
        self.pieces.push_back(fragment.payload);
    }

    /// Appends the run that follows. The shorter list is moved: fragments may arrive in any order.
    fn append(&mut self, mut after: Self) {
        self.last = after.last;
        self.ending = after.ending;
        self.bytes += after.bytes;
        if self.pieces.len() < after.pieces.len() {
            for piece in self.pieces.drain(..).rev() {
                after.pieces.push_front(piece);
            }
            self.pieces = after.pieces;
        } else {
            self.pieces.append(&mut after.pieces);
        }
    }

    fn into_message(self, part: MessagePart, tsn: Tsn) -> Message {
        let chunks = self.pieces.len();
        Message {
            stream: self.identity.stream,
            ssn: self.identity.ssn,
            mid: None,
            ppid: self.identity.ppid,
            tsn,
            part,
            payload: Payload::from(self.pieces),
            chunks,
        }
    }
}

/// State of the partial delivery of a message.
#[derive(Debug)]
struct PartialDelivery {
    identity: MessageIdentity,
    tsn: Tsn,
    /// Index of the next fragment.
    next: u64,
}

portable_struct! { PartialDelivery { identity, tsn, next } }

#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// Runs by the index of their first fragment.
    runs: BTreeMap<u64, FragmentRun>,
    partial: Option<PartialDelivery>,
    /// A message may begin behind an incomplete one; see `rx::unfinished`.
    pub(super) unfinished: bool,
}

portable_struct! { Reassembly { runs, partial, unfinished } }

const NOT_BEGUN: &str = "fragment without a beginning follows the end of a message";
const NOT_ENDED: &str = "message begins before the one before it has ended";
const MIXED: &str = "fragments of one message differ in stream, sequence number or order";

/// Returns whether `a`, directly before `b`, belongs to the same message.
fn joins(a: (&MessageIdentity, bool), b: (&MessageIdentity, bool)) -> Result<bool, &'static str> {
    match (a.1, b.1) {
        (true, true) => Ok(false),
        (true, false) => Err(NOT_BEGUN),
        (false, true) => Err(NOT_ENDED),
        // The PPID may differ between fragments in theory; the first one's counts.
        (false, false) if a.0.stream != b.0.stream || a.0.ssn != b.0.ssn => Err(MIXED),
        (false, false) => Ok(true),
    }
}

impl Reassembly {
    fn joins(
        &self,
        a: (&MessageIdentity, bool),
        b: (&MessageIdentity, bool),
    ) -> Result<bool, &'static str> {
        match joins(a, b) {
            Err(NOT_ENDED) if self.unfinished => Ok(false),
            other => other,
        }
    }

    /// Inserts a fragment; returns the message that it completes. All up to `cumulative` was received.
    ///
    /// 1. Find the runs directly before and behind the fragment.
    /// 2. Check that neighbours fit: the B and E bits, stream, SSN and U bit (RFC 9260, section 3.3.1).
    /// 3. Join the fragment with the neighbours of the same message.
    /// 4. Return the message if the run has a first and a last fragment.
    pub(super) fn insert(
        &mut self,
        index: u64,
        fragment: DataFragment,
        cumulative: u64,
    ) -> Result<Option<CompleteMessage>, &'static str> {
        if self.runs.is_empty() && fragment.beginning && fragment.ending {
            return Ok(Some(whole(index, fragment)));
        }
        let before = self
            .runs
            .range(..index)
            .next_back()
            .filter(|(_, run)| run.last + 1 == index)
            .map(|(first, _)| *first);
        let joins_before = match before {
            Some(first) => {
                let run = &self.runs[&first];
                self.joins(
                    (&run.identity, run.ending),
                    (&fragment.identity, fragment.beginning),
                )?
            }
            // The message before it is complete, so its own beginning does not exist.
            None if !fragment.beginning && index <= cumulative && !self.unfinished => {
                return Err(NOT_BEGUN);
            }
            None => false,
        };
        let joins_after = match self.runs.get(&(index + 1)) {
            Some(run) => self.joins(
                (&fragment.identity, fragment.ending),
                (&run.identity, run.beginning),
            )?,
            None => false,
        };
        if fragment.beginning && fragment.ending {
            return Ok(Some(whole(index, fragment)));
        }
        let after = if joins_after {
            self.runs.remove(&(index + 1))
        } else {
            None
        };
        let before = before.filter(|_| joins_before);
        if let (Some(first), None) = (before, &after) {
            // The usual case: the run grows in place.
            let Some(run) = self.runs.get_mut(&first) else {
                return Ok(None);
            };
            run.push(index, fragment);
            if !(run.beginning && run.ending) {
                return Ok(None);
            }
            return Ok(self.runs.remove(&first).map(|run| complete(first, run)));
        }
        let (first, mut run) = match before.and_then(|at| self.runs.remove_entry(&at)) {
            Some((at, mut run)) => {
                run.push(index, fragment);
                (at, run)
            }
            None => (index, new_run(index, fragment)),
        };
        if let Some(after) = after {
            run.append(after);
        }
        if run.beginning && run.ending {
            return Ok(Some(complete(first, run)));
        }
        self.runs.insert(first, run);
        Ok(None)
    }

    /// Returns the next part of the message in partial delivery, if this is its next fragment.
    pub(super) fn continue_partial(
        &mut self,
        index: u64,
        fragment: &DataFragment,
    ) -> Result<Option<Message>, &'static str> {
        let Some(partial) = self.partial.as_mut().filter(|p| p.next == index) else {
            return Ok(None);
        };
        if fragment.beginning && self.unfinished {
            return Ok(None);
        }
        if !joins(
            (&partial.identity, false),
            (&fragment.identity, fragment.beginning),
        )? {
            return Err(NOT_BEGUN);
        }
        partial.next += 1;
        let message = Message {
            stream: partial.identity.stream,
            ssn: partial.identity.ssn,
            mid: None,
            ppid: partial.identity.ppid,
            tsn: partial.tsn,
            part: if fragment.ending {
                MessagePart::Last
            } else {
                MessagePart::Middle
            },
            payload: Payload::from(fragment.payload.clone()),
            chunks: 1,
        };
        if fragment.ending {
            self.partial = None;
        }
        Ok(Some(message))
    }

    /// Returns the run that directly follows the fragment just delivered in partial delivery.
    pub(super) fn following(&mut self, index: u64) -> Result<Option<Message>, &'static str> {
        let Some(partial) = self.partial.as_mut().filter(|p| p.next == index + 1) else {
            return Ok(None);
        };
        let Some(run) = self.runs.get(&partial.next) else {
            return Ok(None);
        };
        if run.beginning && self.unfinished {
            return Ok(None);
        }
        joins((&partial.identity, false), (&run.identity, run.beginning))?;
        let Some(run) = self.runs.remove(&partial.next) else {
            return Ok(None);
        };
        let tsn = partial.tsn;
        partial.next = run.last + 1;
        let part = if run.ending {
            MessagePart::Last
        } else {
            MessagePart::Middle
        };
        if run.ending {
            self.partial = None;
        }
        Ok(Some(run.into_message(part, tsn)))
    }

    /// Begins the partial delivery of the message at the cumulative TSN, if it is the next of its stream.
    ///
    /// No other message is delivered in parts: one above a gap would block this one, which fills the
    /// buffer that the missing chunks need.
    pub(super) fn begin_partial(
        &mut self,
        cumulative: u64,
        delivery: &Delivery,
    ) -> Option<Message> {
        if self.partial.is_some() {
            return None;
        }
        let (&first, run) = self.runs.first_key_value()?;
        let ready = first <= cumulative
            && run.beginning
            && delivery.is_next(run.identity.stream, run.identity.ssn)
            && !delivery.is_deferred(first, run.identity.stream);
        if !ready {
            return None;
        }
        let run = self.runs.remove(&first)?;
        let (identity, tsn) = (run.identity, run.tsn);
        self.partial = Some(PartialDelivery {
            identity,
            tsn,
            next: run.last + 1,
        });
        Some(run.into_message(MessagePart::First, tsn))
    }

    /// Discards the incomplete messages that miss a TSN up to `index` (RFC 3758, section 3.6). Returns
    /// their buffer space, and the message in partial delivery if it was one of them.
    pub(super) fn skip_to(&mut self, index: u64) -> (Cost, Option<AbortedMessage>) {
        let mut cost = Cost::default();
        let mut from = 0;
        // A run directly behind `index` may miss its beginning there.
        let end = index + 1;
        while let Some((&first, run)) = self.runs.range(from.min(end + 1)..=end + 1).next()
            && first <= end
        {
            from = first + 1;
            // The run misses the TSN before it, or the one behind it.
            if !run.beginning || run.last < index {
                cost = cost.plus(run.cost());
                self.runs.remove(&first);
            }
        }
        (cost, self.abort_partial(index))
    }

    /// Ends the partial delivery if its next fragment is not above this index.
    pub(super) fn abort_partial(&mut self, index: u64) -> Option<AbortedMessage> {
        let partial = self.partial.take_if(|p| p.next <= index)?;
        Some(AbortedMessage {
            stream: partial.identity.stream,
            ssn: partial.identity.ssn,
            mid: None,
            ppid: partial.identity.ppid,
            tsn: partial.tsn,
        })
    }

    /// Ends the partial delivery if it is unfinished although all up to `cumulative` was received.
    pub(super) fn take_unfinished_partial(&mut self, cumulative: u64) -> Option<AbortedMessage> {
        self.unfinished.then_some(())?;
        self.abort_partial(cumulative)
    }

    /// Removes the first message that is unfinished although all up to `cumulative`, beyond its last
    /// fragment, was received; returns its first index, its stream and SSN, and its buffer space.
    pub(super) fn take_unfinished(
        &mut self,
        cumulative: u64,
    ) -> Option<(u64, (StreamId, Option<Ssn>), Cost)> {
        self.unfinished.then_some(())?;
        let entry = self
            .runs
            .first_entry()
            .filter(|e| e.get().last < cumulative)?;
        let (first, run) = entry.remove_entry();
        Some((first, (run.identity.stream, run.identity.ssn), run.cost()))
    }

    /// Returns the stream of an ordered message in partial delivery.
    pub(super) fn partial_stream(&self) -> Option<StreamId> {
        let partial = self.partial.as_ref()?;
        partial.identity.ssn.map(|_| partial.identity.stream)
    }

    /// Returns the index of the first fragment of the highest run.
    pub(super) fn highest_first_index(&self) -> Option<u64> {
        self.runs.last_key_value().map(|(first, _)| *first)
    }

    /// Drops the highest run if all of it is above `floor`; returns its indexes and buffer space.
    pub(super) fn drop_highest(&mut self, floor: u64) -> Option<(u64, u64, Cost)> {
        let entry = self.runs.last_entry()?;
        if *entry.key() <= floor {
            return None;
        }
        let first = *entry.key();
        let run = entry.remove();
        Some((first, run.last, run.cost()))
    }

    /// Frees the memory for further fragments.
    pub(super) fn free_unused_memory(&mut self) {
        self.runs.free_if_empty();
    }

    /// Returns the TSN that identifies the message in partial delivery.
    pub(super) fn partial_tsn(&self) -> Option<Tsn> {
        self.partial.as_ref().map(|p| p.tsn)
    }

    /// Discards the fragments up to this index, or all; returns their buffer space.
    pub(super) fn forget_up_to(&mut self, last: Option<u64>) -> Cost {
        let Some(last) = last else {
            return self.clear();
        };
        let later = self.runs.split_off(&(last + 1));
        let cost = self
            .runs
            .values()
            .fold(Cost::default(), |cost, run| cost.plus(run.cost()));
        self.runs = later;
        cost
    }

    /// Discards all fragments; returns their buffer space.
    pub(super) fn clear(&mut self) -> Cost {
        self.partial = None;
        let cost = self
            .runs
            .values()
            .fold(Cost::default(), |cost, run| cost.plus(run.cost()));
        self.runs.clear();
        cost
    }
}

fn whole(index: u64, fragment: DataFragment) -> CompleteMessage {
    let message = Message {
        stream: fragment.identity.stream,
        ssn: fragment.identity.ssn,
        mid: None,
        ppid: fragment.identity.ppid,
        tsn: fragment.tsn,
        part: MessagePart::Whole,
        payload: Payload::from(fragment.payload),
        chunks: 1,
    };
    CompleteMessage {
        first: index,
        last: index,
        message,
    }
}

fn complete(first: u64, run: FragmentRun) -> CompleteMessage {
    let (last, tsn) = (run.last, run.tsn);
    CompleteMessage {
        first,
        last,
        message: run.into_message(MessagePart::Whole, tsn),
    }
}

fn new_run(index: u64, fragment: DataFragment) -> FragmentRun {
    FragmentRun {
        identity: fragment.identity,
        last: index,
        tsn: fragment.tsn,
        beginning: fragment.beginning,
        ending: fragment.ending,
        bytes: fragment.payload.len(),
        pieces: VecDeque::from([fragment.payload]),
    }
}
