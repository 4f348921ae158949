//! RE-CONFIG chunks of the peer, and what its answers do (RFC 6525 sections 3.1, 5.2.1, 5.2.7).

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{
    CHUNK_HEADER_LEN, COMMON_HEADER_LEN, CauseCode, PacketBuilder, Parameter, ReConfig,
    ReconfigResponse, ReconfigResult,
};

use super::input::PacketNotes;
use super::{Association, Context, MAX_PEER_EVENTS, Reply};
use crate::event::Event;
use crate::reconfig::{Kind, Operation, ReconfigOutcome, StreamDirection, StreamSet};
use crate::route::Route;

/// Bytes of two responses with TSNs in a packet of their own.
const RESPONSES_LEN: usize = COMMON_HEADER_LEN + CHUNK_HEADER_LEN + 2 * 20;

impl Association {
    pub(super) fn on_re_config(
        &mut self,
        chunk: &ReConfig<'_>,
        route: &Route,
        notes: &mut PacketNotes,
        cx: &mut Context<'_>,
    ) {
        if !self.state.answers_reconfig() {
            return;
        }
        let mut parameters = Vec::with_capacity(2);
        for raw in chunk.parameters().take(3) {
            let Ok(parameter) = raw.and_then(Parameter::parse) else {
                cx.stats.malformed_chunks += 1;
                return;
            };
            parameters.push(parameter);
        }
        if !may_go_together(&parameters) {
            let text = b"unsupported parameters in RE-CONFIG";
            let mut cause = Vec::with_capacity(4 + text.len());
            cause.extend_from_slice(&CauseCode::PROTOCOL_VIOLATION.0.to_be_bytes());
            cause.extend_from_slice(&((4 + text.len()) as u16).to_be_bytes());
            cause.extend_from_slice(text);
            let len = cause.len() + CHUNK_HEADER_LEN;
            return self.reply(route, Reply::Error(cause.into()), len, notes);
        }
        let is_request = |p: &Parameter<'_>| !matches!(p, Parameter::ReconfigResponse(_));
        if parameters.iter().any(is_request) && self.receiver.has_received() {
            self.receiver.acknowledge_now();
        }
        let mut responses = Vec::with_capacity(2);
        for parameter in parameters {
            match parameter {
                Parameter::ReconfigResponse(response) => self.on_reconfig_response(response, cx),
                request => responses.extend(self.on_reconfig_request(&request, cx)),
            }
            if self.state.is_closed() {
                return;
            }
        }
        self.respond(&responses, route, notes);
        self.advance_shutdown(cx);
    }

    /// A reset of all numbers was asked for: what the peer sends can't be placed before it answers.
    pub(super) fn awaits_renumbering(&self) -> bool {
        let operation = self.streams.operation.as_ref();
        operation.is_some_and(|o| o.flight.is_some() && o.resets_numbers())
    }

    /// All that a chunk asks for is answered in one chunk; where one of the answers is a reset of
    /// ours, in the same as that.
    fn respond(&mut self, responses: &[ReconfigResponse], route: &Route, notes: &mut PacketNotes) {
        if responses.is_empty() {
            return;
        }
        let sends = self.state.sends_data();
        if let ([response], Some(operation)) = (responses, &mut self.streams.operation)
            && let [request] = &operation.requests[..]
            && matches!(request.kind, Kind::ResetOutgoing(_))
            && sends
            && operation.flight.is_some_and(|f| f.due)
        {
            operation.along = Some(*response);
            return;
        }
        let mut buf = Vec::new();
        let mut packet = PacketBuilder::new(&mut buf, self.header(), RESPONSES_LEN);
        packet.re_config(|parameters| {
            for response in responses {
                parameters.reconfig_response(*response);
            }
        });
        packet.finish();
        let value = Bytes::from(buf).slice(COMMON_HEADER_LEN + CHUNK_HEADER_LEN..);
        let len = value.len() + CHUNK_HEADER_LEN;
        self.reply(route, Reply::ReConfig(value), len, notes);
    }

    /// What had been sent before a reset of the peer's has arrived (steps E3 to E6).
    pub(super) fn advance_deferred_reset(
        &mut self,
        route: &Route,
        notes: &mut PacketNotes,
        cx: &mut Context<'_>,
    ) {
        if self.streams.deferred.is_none() {
            return;
        }
        let cumulative = self.receiver.cumulative_tsn();
        let complete = |last: carrick_wire::Tsn| last.is_at_or_before(cumulative);
        let Some(deferred) = self.streams.deferred.take_if(|d| complete(d.last_tsn)) else {
            return;
        };
        self.reset_incoming(&deferred.streams, cx);
        if self.state.is_closed() {
            return;
        }
        let result = ReconfigResult::PERFORMED;
        self.streams.answer(deferred.number, result, None);
        let response = crate::reconfig::response(deferred.number, result);
        self.respond(&[response], route, notes);
    }

    /// The peer's streams begin at 0.
    pub(super) fn reset_incoming(&mut self, streams: &StreamSet, cx: &mut Context<'_>) {
        if let Err(what) = self.receiver.reset_streams(streams) {
            return self.violation(what, cx);
        }
        let outcome = ReconfigOutcome::Performed;
        self.tell_reset(StreamDirection::Incoming, streams, outcome);
    }

    pub(super) fn tell_reset(
        &mut self,
        direction: StreamDirection,
        streams: &StreamSet,
        outcome: ReconfigOutcome,
    ) {
        self.tell_reconfig(Event::StreamsReset {
            direction,
            streams: streams.listed().to_vec(),
            outcome,
        });
    }

    pub(super) fn tell_change(&mut self, outcome: ReconfigOutcome) {
        self.tell_reconfig(Event::StreamsChanged {
            outbound_streams: self.sender.outbound_streams(),
            inbound_streams: self.receiver.inbound_streams(),
            outcome,
        });
    }

    pub(super) fn tell_renumbering(&mut self, outcome: ReconfigOutcome) {
        self.tell_reconfig(Event::AssociationReset {
            local_tsn: self.sender.last_tsn().next(),
            peer_tsn: self.receiver.cumulative_tsn().next(),
            outcome,
        });
    }

    fn tell_reconfig(&mut self, event: Event) {
        if self.events.len() < MAX_PEER_EVENTS {
            self.events.push_back(event);
        }
    }

    /// Steps H1 to H3. An answer that nobody asked for says nothing.
    fn on_reconfig_response(&mut self, response: ReconfigResponse, cx: &mut Context<'_>) {
        let Some(mut operation) = self.streams.operation.take() else {
            return;
        };
        let Some(request) = operation.unanswered(response.response) else {
            self.streams.operation = Some(operation);
            return;
        };
        let kind = request.kind.clone();
        let goes_on = response.result == ReconfigResult::IN_PROGRESS;
        request.done = !goes_on;
        self.on_reconfig_alive(&operation, cx);
        if goes_on {
            self.wait_again(&mut operation, cx);
            self.streams.operation = Some(operation);
            if kind == Kind::ResetNumbers
                && let Err(what) = self.receiver.release_if_nearly_full()
            {
                self.violation(what, cx);
            }
            return;
        }
        self.conclude(&kind, &response, cx);
        self.put_back(operation, response.result);
    }

    /// The operation goes on, or is over with this result.
    fn put_back(&mut self, operation: alloc::boxed::Box<Operation>, result: ReconfigResult) {
        if !operation.is_done() {
            self.streams.operation = Some(operation);
        } else if let Some(number) = operation.grants {
            // The peer knows: it answered.
            self.streams.answer(number, result, None);
        }
    }

    /// Step H2: the timer begins again, and its next expiration is no error.
    fn wait_again(&mut self, operation: &mut Operation, cx: &Context<'_>) {
        if let Some(flight) = &mut operation.flight {
            if self.paths.contains(flight.path) {
                flight.timeout = flight.timeout.max(self.paths[flight.path].rto.value());
            }
            flight.timer = Some(cx.now + flight.timeout);
            flight.in_progress = true;
        }
    }

    /// The peer answers: where the request was sent once, its path works.
    fn on_reconfig_alive(&mut self, operation: &Operation, cx: &mut Context<'_>) {
        let Some(flight) = operation.flight else {
            return;
        };
        if flight.transmissions == 1 && self.paths.contains(flight.path) {
            self.on_path_alive(flight.path, cx);
        }
        // While data is outstanding, only its acknowledgement shows that the association works.
        if self.sender.outstanding_chunks() == 0 {
            self.error_count = 0;
        }
    }

    /// Steps H4 to H6, and what the user hears.
    fn conclude(&mut self, kind: &Kind, response: &ReconfigResponse, cx: &mut Context<'_>) {
        let outcome = ReconfigOutcome::of(response.result);
        match kind {
            Kind::ResetOutgoing(streams) => {
                if outcome.is_success() {
                    self.sender.reset_streams(streams);
                }
                self.sender.release();
                self.tell_reset(StreamDirection::Outgoing, streams, outcome);
            }
            Kind::ResetNumbers => self.conclude_renumbering(response, cx),
            Kind::AddOutgoing(count) => {
                if outcome == ReconfigOutcome::Performed {
                    self.sender.add_streams(*count);
                }
                self.tell_change(outcome);
            }
            // The peer's own request does it and is told of.
            _ if outcome == ReconfigOutcome::Performed => {}
            Kind::ResetIncoming(streams) => {
                self.tell_reset(StreamDirection::Incoming, streams, outcome);
            }
            Kind::AddIncoming(_) => self.tell_change(outcome),
        }
    }

    fn conclude_renumbering(&mut self, response: &ReconfigResponse, cx: &mut Context<'_>) {
        let outcome = ReconfigOutcome::of(response.result);
        let done = match (outcome, response.next_tsns) {
            (ReconfigOutcome::Performed, Some(next)) => {
                self.sender.renumber(next.receiver);
                self.sender.reset_streams(&StreamSet::All);
                self.renumber_congestion_marks();
                self.forget_congestion_marks();
                self.receiver.renumber(next.sender)
            }
            (ReconfigOutcome::Performed, None) => Err("SSN/TSN reset without the next TSNs"),
            _ => self.receiver.release(),
        };
        self.sender.release();
        match done {
            Ok(()) => self.tell_renumbering(outcome),
            Err(what) => self.violation(what, cx),
        }
    }

    /// A request of the peer's does what this request of ours asked for.
    pub(super) fn granted_by_request(
        &mut self,
        is_it: impl Fn(&crate::reconfig::Request) -> bool,
        cx: &mut Context<'_>,
    ) {
        let Some(mut operation) = self.streams.operation.take_if(|o| o.flight.is_some()) else {
            return;
        };
        let granted = operation.requests.iter_mut().find(|r| !r.done && is_it(r));
        if let Some(request) = granted {
            request.done = true;
            self.on_reconfig_alive(&operation, cx);
        }
        self.put_back(operation, ReconfigResult::PERFORMED);
    }
}

/// The combinations of section 3.1, in any order.
fn may_go_together(parameters: &[Parameter<'_>]) -> bool {
    use Parameter as P;
    matches!(
        parameters,
        [P::OutgoingSsnReset(_)
            | P::IncomingSsnReset(_)
            | P::SsnTsnReset(_)
            | P::AddOutgoingStreams(_)
            | P::AddIncomingStreams(_)
            | P::ReconfigResponse(_)]
            | [
                P::OutgoingSsnReset(_),
                P::IncomingSsnReset(_) | P::ReconfigResponse(_)
            ]
            | [P::IncomingSsnReset(_), P::OutgoingSsnReset(_)]
            | [P::AddOutgoingStreams(_), P::AddIncomingStreams(_)]
            | [P::AddIncomingStreams(_), P::AddOutgoingStreams(_)]
            | [
                P::ReconfigResponse(_),
                P::OutgoingSsnReset(_) | P::ReconfigResponse(_)
            ]
    )
}
