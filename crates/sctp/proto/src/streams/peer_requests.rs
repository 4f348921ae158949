//! Requests of the peer: numbers, answers, and the decision on each (RFC 6525 sections 5.2.1 to 5.2.6).

use alloc::boxed::Box;

use carrick_wire::{
    AddStreams, IncomingSsnReset, NextTsns, OutgoingSsnReset, ReconfigResponse, ReconfigResult,
    ReconfigSerial, Tsn,
};

use super::Streams;
use super::operation::{RequestKind, StreamsRequest, response};
use crate::config::AssociationConfig;
use crate::path::PathId;
use crate::rx::Receiver;
use crate::stream_set::StreamSet;
use crate::time::Time;
use crate::tx::Sender;

/// TSNs that a peer can have sent beyond the cumulative one: SACKs reach no further.
const REACH: u32 = 0xffff;

/// Half of the TSN space: the distance that TSNs move by, so that old ones are recognized (RFC 6525,
/// section 5.2.4, step G1).
const HALF: u32 = 1 << 31;

/// Answer to a request of the peer, kept for its retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    pub(super) number: ReconfigSerial,
    pub(super) result: ReconfigResult,
    pub(super) next_tsns: Option<NextTsns>,
}

portable_struct! { Answer { number, result, next_tsns } }

impl Answer {
    fn response(self) -> ReconfigResponse {
        ReconfigResponse {
            response: self.number,
            result: self.result,
            next_tsns: self.next_tsns,
        }
    }
}

/// Position of a request's number relative to the expected one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Numbering {
    Expected,
    /// One of the last two, which one chunk can contain.
    Repeated(Answer),
    Wrong,
}

/// Result of the check of a request's number (RFC 6525, section 5.2.1).
pub(crate) enum NumberCheck {
    /// The request is answered without being processed.
    Answer(ReconfigResponse),
    /// The request of ours that grants it is sent again.
    GrantRepeated,
    /// The request is processed. With `release`, messages no longer wait for a reset that the peer
    /// requested before.
    Process { release: bool },
}

/// A reset of incoming streams that waits for data sent before it (RFC 6525, section 5.2.2, step E2).
#[derive(Debug)]
pub(crate) struct DeferredReset {
    pub(crate) number: ReconfigSerial,
    last_tsn: Tsn,
    pub(crate) streams: StreamSet,
}

portable_struct! { DeferredReset { number, last_tsn, streams } }

/// State of the association that a request is checked against.
pub(crate) struct PeerRequestContext<'a> {
    pub(crate) now: Time,
    pub(crate) config: &'a AssociationConfig,
    /// The association is in state ESTABLISHED.
    pub(crate) established: bool,
    pub(crate) sender: &'a Sender,
    pub(crate) receiver: &'a Receiver,
    /// Bytes of a RE-CONFIG chunk that fit into a packet on every path.
    pub(crate) room: usize,
}

/// Decision on a request of the peer; the association carries it out and answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// Only answer.
    Answer(ReconfigResult),
    /// Reset incoming streams and answer "Performed".
    ResetIncoming(StreamSet),
    /// Keep data above this TSN until the streams are reset, and answer "In progress".
    DeferReset(Tsn, StreamSet),
    /// Add incoming streams and answer "Performed".
    AddIncoming(u16),
    /// Grant by a request of ours.
    GrantByRequest(RequestKind),
    /// Let new messages wait until all outstanding data is acknowledged, and answer "In progress".
    HoldMessages,
    /// Let messages no longer wait, and answer "Denied".
    DenyAndRelease,
    /// Change the TSNs of both sides to these and answer "Performed" with them.
    ResetNumbers(NextTsns),
}

const DENIED: Decision = Decision::Answer(ReconfigResult::DENIED);
const WRONG_STREAM: Decision = Decision::Answer(ReconfigResult::WRONG_STREAM);
const IN_PROGRESS: Decision = Decision::Answer(ReconfigResult::IN_PROGRESS);
const BUSY: Decision = Decision::Answer(ReconfigResult::REQUEST_IN_PROGRESS);
const NOTHING_TO_DO: Decision = Decision::Answer(ReconfigResult::NOTHING_TO_DO);

impl Streams {
    pub(super) fn compare_number(&self, number: ReconfigSerial) -> Numbering {
        if number == self.expected {
            return Numbering::Expected;
        }
        let mut answers = self.answers.iter().flatten();
        match answers.find(|a| a.number == number) {
            Some(answer) => Numbering::Repeated(*answer),
            None => Numbering::Wrong,
        }
    }

    /// Checks the number of a request. A request to reset all numbers is processed each time that it
    /// is repeated until it is answered for good.
    pub(crate) fn check_number(
        &mut self,
        number: ReconfigSerial,
        resets_numbers: bool,
    ) -> NumberCheck {
        match self.compare_number(number) {
            Numbering::Wrong => {
                NumberCheck::Answer(response(number, ReconfigResult::BAD_SEQUENCE_NUMBER))
            }
            Numbering::Repeated(answer) if answer.result != ReconfigResult::IN_PROGRESS => {
                NumberCheck::Answer(answer.response())
            }
            Numbering::Repeated(_) if resets_numbers => NumberCheck::Process { release: false },
            Numbering::Repeated(answer) if !self.repeat_grant(number) => {
                NumberCheck::Answer(answer.response())
            }
            Numbering::Repeated(_) => NumberCheck::GrantRepeated,
            Numbering::Expected => {
                let release = self.cancel_deferred_reset();
                self.record_request();
                NumberCheck::Process { release }
            }
        }
    }

    /// Records the expected request, as "In progress" until [`Self::record_answer`].
    pub(super) fn record_request(&mut self) {
        let answer = Answer {
            number: self.expected,
            result: ReconfigResult::IN_PROGRESS,
            next_tsns: None,
        };
        self.answers = [Some(answer), self.answers[0]];
        self.expected = self.expected.next();
    }

    /// Records the answer to one of the last two requests.
    pub(crate) fn record_answer(
        &mut self,
        number: ReconfigSerial,
        result: ReconfigResult,
        next_tsns: Option<NextTsns>,
    ) {
        let mut answers = self.answers.iter_mut().flatten();
        if let Some(answer) = answers.find(|a| a.number == number) {
            (answer.result, answer.next_tsns) = (result, next_tsns);
        }
    }

    /// Lets the request of ours that grants this one leave again. Returns `false` if it has not been
    /// sent yet.
    fn repeat_grant(&mut self, number: ReconfigSerial) -> bool {
        let Some(operation) = &mut self.operation else {
            return false;
        };
        let Some(flight) = operation.flight.as_mut() else {
            return false;
        };
        let repeats = operation.grants == Some(number);
        flight.due |= repeats;
        repeats
    }

    /// Outgoing SSN Reset Request (RFC 6525, section 5.2.2, steps E1 to E5).
    pub(crate) fn on_outgoing_reset(
        &mut self,
        reset: &OutgoingSsnReset<'_>,
        cx: &PeerRequestContext<'_>,
    ) -> Decision {
        let streams = StreamSet::new(reset.streams.clone());
        if !cx.config.streams.grants.reset_streams {
            return DENIED;
        }
        if !streams.fits(cx.receiver.inbound_streams()) {
            return WRONG_STREAM;
        }
        if self.deferred.is_some() || self.awaits_renumbering() {
            return BUSY;
        }
        let cumulative = cx.receiver.cumulative_tsn();
        if reset.last_tsn.is_at_or_before(cumulative) {
            return Decision::ResetIncoming(streams);
        }
        if reset.last_tsn.since(cumulative) > REACH {
            // No peer can have sent that many: the reset would never complete.
            return DENIED;
        }
        self.deferred = Some(Box::new(DeferredReset {
            number: reset.request,
            last_tsn: reset.last_tsn,
            streams: streams.clone(),
        }));
        Decision::DeferReset(reset.last_tsn, streams)
    }

    /// Incoming SSN Reset Request (RFC 6525, section 5.2.3, steps F1 and F2).
    pub(crate) fn on_incoming_reset(
        &mut self,
        reset: &IncomingSsnReset<'_>,
        cx: &PeerRequestContext<'_>,
    ) -> Decision {
        let streams = StreamSet::new(reset.streams.clone());
        let kind = RequestKind::ResetOutgoing(streams.clone());
        let fits = 4 + kind.parameter_len() <= cx.room;
        if !cx.config.streams.grants.reset_streams || !cx.established || !fits {
            return DENIED;
        }
        if !streams.fits(cx.sender.queue().outbound_streams()) {
            return WRONG_STREAM;
        }
        let ours = self.operation.as_ref();
        if ours.is_some_and(|o| o.covers(&streams)) {
            return NOTHING_TO_DO;
        }
        if ours.is_none() && cx.sender.queue().is_reset(&streams) {
            return NOTHING_TO_DO;
        }
        self.grant_by_request(reset.request, kind)
    }

    /// Add Outgoing Streams Request (RFC 6525, section 5.2.5).
    pub(crate) fn on_add_outgoing(add: AddStreams, cx: &PeerRequestContext<'_>) -> Decision {
        let total = cx.receiver.inbound_streams().checked_add(add.count);
        if !cx.config.streams.grants.change_streams
            || total.is_none_or(|total| total > cx.config.streams.max_inbound_streams)
        {
            return DENIED;
        }
        if add.count == 0 {
            return NOTHING_TO_DO;
        }
        Decision::AddIncoming(add.count)
    }

    /// Add Incoming Streams Request (RFC 6525, section 5.2.6).
    pub(crate) fn on_add_incoming(
        &mut self,
        add: AddStreams,
        cx: &PeerRequestContext<'_>,
    ) -> Decision {
        let total = cx.sender.queue().outbound_streams().checked_add(add.count);
        if !cx.config.streams.grants.change_streams
            || !cx.established
            || total.is_none_or(|total| total > cx.config.streams.max_outbound_streams)
        {
            return DENIED;
        }
        if add.count == 0 {
            return NOTHING_TO_DO;
        }
        self.grant_by_request(add.request, RequestKind::AddOutgoing(add.count))
    }

    /// Grants a request of the peer by one of ours: now, or after our outstanding one. If that waits
    /// for the peer in turn, neither could be first.
    fn grant_by_request(&mut self, number: ReconfigSerial, kind: RequestKind) -> Decision {
        let Some(operation) = &self.operation else {
            return Decision::GrantByRequest(kind);
        };
        let is_stuck =
            operation.needs_request() || operation.resets_numbers() || operation.grants.is_some();
        if is_stuck || self.queued_grant.is_some() {
            return BUSY;
        }
        self.queued_grant = Some(Box::new((number, kind)));
        IN_PROGRESS
    }

    /// SSN/TSN Reset Request (RFC 6525, section 5.2.4, steps G1 to G6). Outstanding data is not
    /// abandoned for it: until all of it is acknowledged, the answer "In progress" lets the peer repeat the request, and
    /// new messages wait.
    pub(crate) fn on_numbers_reset(&mut self, cx: &PeerRequestContext<'_>) -> Decision {
        if !cx.config.streams.grants.reset_association || !cx.established {
            return if self.cancel_deferred_reset() {
                Decision::DenyAndRelease
            } else {
                DENIED
            };
        }
        let ours = self.operation.is_some() || self.queued_grant.is_some();
        if ours || self.deferred.is_some() {
            return BUSY;
        }
        if !cx.sender.is_flushed() {
            self.held_until = Some(cx.now + cx.config.timers.rto_max);
            return Decision::HoldMessages;
        }
        self.held_until = None;
        Decision::ResetNumbers(NextTsns {
            sender: cx.sender.last_tsn().next(),
            receiver: cx.receiver.cumulative_tsn().next().plus(HALF),
        })
    }

    /// Cancels the reset of all numbers that the peer requested and no longer waits for. Returns
    /// whether messages waited for it.
    #[must_use]
    pub(crate) fn cancel_deferred_reset(&mut self) -> bool {
        // No allocation for the many associations without a reset.
        self.held_until.is_some() && self.held_until.take().is_some()
    }

    /// Cancels the reset of all numbers if the peer has not repeated its request in time.
    #[must_use]
    pub(crate) fn expire_deferred_reset(&mut self, now: Time) -> bool {
        self.held_until.is_some_and(|until| until <= now) && self.cancel_deferred_reset()
    }

    /// Returns the deferred reset of incoming streams once the data before it has arrived (RFC 6525,
    /// section 5.2.2, steps E3 to E5).
    pub(crate) fn take_arrived_reset(&mut self, cumulative: Tsn) -> Option<Box<DeferredReset>> {
        self.deferred.as_ref()?;
        let arrived = |d: &mut Box<DeferredReset>| d.last_tsn.is_at_or_before(cumulative);
        self.deferred.take_if(arrived)
    }

    /// Marks the request of ours that a request of the peer has carried out. Returns its path if the
    /// peer's request shows that the path works.
    pub(crate) fn on_granted_by_request(
        &mut self,
        is_granted: impl Fn(&StreamsRequest) -> bool,
    ) -> Option<RequestConfirmed> {
        self.operation.as_ref()?;
        let mut operation = self.operation.take_if(|o| o.flight.is_some())?;
        let mut requests = operation.requests.iter_mut();
        let granted = requests.find(|r| !r.answered && is_granted(r));
        let confirmed = granted.is_some();
        if let Some(request) = granted {
            request.answered = true;
        }
        let path = operation.confirmed_path();
        self.put_back(operation, ReconfigResult::PERFORMED);
        confirmed.then_some(RequestConfirmed { path })
    }
}

/// A request of ours has been answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestConfirmed {
    /// Its path, if it was sent only once: the path works.
    pub(crate) path: Option<PathId>,
}
