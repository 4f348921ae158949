//! What the peer's requests to re-configure streams do (RFC 6525 sections 5.2.1 to 5.2.6).

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::{
    AddStreams, IncomingSsnReset, NextTsns, OutgoingSsnReset, Parameter, ReconfigResponse,
    ReconfigResult, ReconfigSerial,
};

use super::state::State;
use super::{Association, Context};
use crate::reconfig::{Deferred, Kind, Numbering, ReconfigOutcome, Request, StreamSet, response};

/// TSNs that a peer can have sent beyond the cumulative one: SACKs reach no further.
const REACH: u32 = 0xffff;

/// Half of the TSNs: how far they move, so that old ones are known as such (section 5.2.4, G1).
const HALF: u32 = 1 << 31;

/// A result with the next TSNs, or `None` where a request of ours is the answer.
type Verdict = Option<(ReconfigResult, Option<NextTsns>)>;

const DENIED: Verdict = Some((ReconfigResult::DENIED, None));
const WRONG: Verdict = Some((ReconfigResult::WRONG_STREAM, None));
const WAIT: Verdict = Some((ReconfigResult::IN_PROGRESS, None));
const BUSY: Verdict = Some((ReconfigResult::REQUEST_IN_PROGRESS, None));
const NOTHING: Verdict = Some((ReconfigResult::NOTHING_TO_DO, None));
const DONE: Verdict = Some((ReconfigResult::PERFORMED, None));

impl Association {
    /// Returns the answer, unless a request of ours is the answer.
    pub(super) fn on_reconfig_request(
        &mut self,
        request: &Parameter<'_>,
        cx: &mut Context<'_>,
    ) -> Option<ReconfigResponse> {
        let number = match request {
            Parameter::OutgoingSsnReset(reset) => reset.request,
            Parameter::IncomingSsnReset(reset) => reset.request,
            Parameter::SsnTsnReset(number) => *number,
            Parameter::AddOutgoingStreams(add) | Parameter::AddIncomingStreams(add) => add.request,
            _ => return None,
        };
        match self.streams.place(number) {
            Numbering::Wrong => {
                return Some(response(number, ReconfigResult::BAD_SEQUENCE_NUMBER));
            }
            Numbering::Repeated(answer) if answer.result != ReconfigResult::IN_PROGRESS => {
                return Some(answer.response());
            }
            Numbering::Repeated(answer) => {
                // A reset of all numbers is tried again each time it is asked for.
                if !matches!(request, Parameter::SsnTsnReset(_)) {
                    return (!self.repeat_grant(number)).then(|| answer.response());
                }
            }
            Numbering::New => {
                self.thaw();
                self.streams.arrived();
            }
        }
        let verdict = match request {
            Parameter::OutgoingSsnReset(reset) => self.on_outgoing_reset(reset, cx),
            Parameter::IncomingSsnReset(reset) => self.on_incoming_reset(reset),
            Parameter::AddOutgoingStreams(add) => self.on_add_outgoing(*add, cx),
            Parameter::AddIncomingStreams(add) => self.on_add_incoming(*add),
            _ => self.on_numbers_reset(cx),
        };
        let (result, next_tsns) = verdict?;
        self.streams.answer(number, result, next_tsns);
        Some(ReconfigResponse {
            response: number,
            result,
            next_tsns,
        })
    }

    /// The request of ours that answers the peer's leaves again. `false` if it has not left yet.
    fn repeat_grant(&mut self, number: ReconfigSerial) -> bool {
        let Some(operation) = &mut self.streams.operation else {
            return false;
        };
        let Some(flight) = operation.flight.as_mut() else {
            return false;
        };
        let repeats = operation.grants == Some(number);
        flight.due |= repeats;
        repeats
    }

    /// Steps E1 to E5.
    fn on_outgoing_reset(&mut self, reset: &OutgoingSsnReset<'_>, cx: &mut Context<'_>) -> Verdict {
        let is_it = |ours: &Request| {
            ours.number == reset.response && matches!(ours.kind, Kind::ResetIncoming(_))
        };
        self.granted_by_request(is_it, cx);
        let streams = StreamSet::new(reset.streams.clone());
        if !self.config.grants.reset_streams {
            return DENIED;
        }
        if !streams.fits(self.receiver.inbound_streams()) {
            return WRONG;
        }
        if self.streams.deferred.is_some() || self.awaits_renumbering() {
            return BUSY;
        }
        let cumulative = self.receiver.cumulative_tsn();
        if reset.last_tsn.is_at_or_before(cumulative) {
            self.reset_incoming(&streams, cx);
            return DONE;
        }
        if reset.last_tsn.since(cumulative) > REACH {
            // More than any peer can have sent: it would wait for ever.
            return DENIED;
        }
        self.receiver.defer_after(reset.last_tsn, streams.clone());
        self.streams.deferred = Some(Box::new(Deferred {
            number: reset.request,
            last_tsn: reset.last_tsn,
            streams,
        }));
        WAIT
    }

    /// Steps F1 and F2.
    fn on_incoming_reset(&mut self, reset: &IncomingSsnReset<'_>) -> Verdict {
        let streams = StreamSet::new(reset.streams.clone());
        let kind = Kind::ResetOutgoing(streams.clone());
        let fits = 4 + kind.parameter_len() <= self.room_for_reconfig();
        if !self.config.grants.reset_streams || !self.is_established() || !fits {
            return DENIED;
        }
        if !streams.fits(self.sender.outbound_streams()) {
            return WRONG;
        }
        let ours = self.streams.operation.as_ref();
        if ours.is_some_and(|o| o.covers(&streams)) {
            return NOTHING;
        }
        if ours.is_none() && self.sender.is_reset(&streams) {
            return NOTHING;
        }
        self.demand(reset.request, kind)
    }

    /// Section 5.2.5.
    fn on_add_outgoing(&mut self, add: AddStreams, cx: &mut Context<'_>) -> Verdict {
        let is_it = |ours: &Request| matches!(ours.kind, Kind::AddIncoming(_));
        self.granted_by_request(is_it, cx);
        let total = self.receiver.inbound_streams().checked_add(add.count);
        if !self.config.grants.change_streams
            || total.is_none_or(|total| total > self.config.max_inbound_streams)
        {
            return DENIED;
        }
        if add.count == 0 {
            return NOTHING;
        }
        self.receiver.add_streams(add.count);
        self.tell_change(ReconfigOutcome::Performed);
        DONE
    }

    /// Section 5.2.6.
    fn on_add_incoming(&mut self, add: AddStreams) -> Verdict {
        let grants = self.config.grants;
        let total = self.sender.outbound_streams().checked_add(add.count);
        if !grants.change_streams
            || !self.is_established()
            || total.is_none_or(|total| total > self.config.max_outbound_streams)
        {
            return DENIED;
        }
        if add.count == 0 {
            return NOTHING;
        }
        self.demand(add.request, Kind::AddOutgoing(add.count))
    }

    fn is_established(&self) -> bool {
        matches!(self.state, State::Established)
    }

    /// Grants a request of the peer by one of ours: now, or when our own is over. Where that waits
    /// for the peer in turn, neither could go first.
    fn demand(&mut self, number: ReconfigSerial, kind: Kind) -> Verdict {
        let Some(operation) = &self.streams.operation else {
            self.begin_reconfig(Vec::from([kind]), Some(number));
            return if self.launch_reconfig() { None } else { WAIT };
        };
        let is_stuck =
            operation.needs_request() || operation.resets_numbers() || operation.grants.is_some();
        if is_stuck || self.streams.demand.is_some() {
            return BUSY;
        }
        self.streams.demand = Some(Box::new((number, kind)));
        WAIT
    }

    /// Steps G1 to G6. What we sent is not given up for it: until all of that is acknowledged, the
    /// peer is told to ask again, and new messages wait.
    fn on_numbers_reset(&mut self, cx: &mut Context<'_>) -> Verdict {
        if !self.config.grants.reset_association || !self.is_established() {
            self.thaw();
            return DENIED;
        }
        let ours = self.streams.operation.is_some() || self.streams.demand.is_some();
        if ours || self.streams.deferred.is_some() {
            return BUSY;
        }
        if !self.sender.is_flushed() {
            self.sender.hold(StreamSet::All);
            self.streams.frozen = Some(cx.now + self.config.rto_max);
            return WAIT;
        }
        let next = NextTsns {
            sender: self.sender.last_tsn().next(),
            receiver: self.receiver.cumulative_tsn().next().plus(HALF),
        };
        if let Err(what) = self.receiver.renumber(next.receiver) {
            self.violation(what, cx);
            return None;
        }
        self.forget_congestion_marks();
        self.sender.reset_streams(&StreamSet::All);
        self.streams.frozen = None;
        self.sender.release();
        self.tell_renumbering(ReconfigOutcome::Performed);
        Some((ReconfigResult::PERFORMED, Some(next)))
    }

    /// The peer no longer wants the reset of the association that it had asked for.
    pub(super) fn thaw(&mut self) {
        if self.streams.frozen.is_some() {
            self.streams.frozen = None;
            self.sender.release();
        }
    }
}
