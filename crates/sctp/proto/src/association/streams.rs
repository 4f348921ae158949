//! Stream re-configuration (RFC 6525): what requests and responses change in sender, receiver and
//! packets. The state and the rules are in [`streams`](crate::streams).
//!
//! A RE-CONFIG chunk is processed in these steps (RFC 6525, section 5.2.1):
//!
//! 1. Discard a combination of parameters that section 3.1 does not allow.
//! 2. For each request, check its number (a repeated one gets its answer again), decide and carry the
//!    decision out (sections 5.2.2 to 5.2.6). For each response, complete the request of ours (section
//!    5.2.7).
//! 3. Send the responses together, or along with the request of ours that grants one (section 5.1.7).

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{
    CHUNK_HEADER_LEN, COMMON_HEADER_LEN, CauseCode, ChunkType, PacketBuilder, Parameter, ReConfig,
    ReconfigResponse, ReconfigResult, ReconfigSerial, StreamId,
};

use super::input::PacketProgress;
use super::output::single;
use super::oversized::{PADDING, fill_up};
use super::sack::SACKS_WITH_ECNE;
use super::state::AssociationState;
use super::{Association, Context, Reply};
use crate::auth::ChunkSet;
use crate::error::ReconfigError;
use crate::event::{Event, ReconfigOutcome, StreamDirection};
use crate::path::PathErrorCause;
use crate::route::Route;
use crate::stream_set::StreamSet;
use crate::streams::{
    Decision, NumberCheck, PeerRequestContext, RequestConfirmed, RequestKind, Streams,
    StreamsRequest, addition_requests, reset_requests, response,
};
use crate::transmit::Transmit;

/// Bytes of two responses with TSNs in a packet of their own.
const RESPONSES_LEN: usize = COMMON_HEADER_LEN + CHUNK_HEADER_LEN + 2 * 20;

/// Chunk types of a packet with a request.
const RECONFIGS: ChunkSet = ChunkSet::of(&[ChunkType::RE_CONFIG])
    .with(SACKS_WITH_ECNE)
    .with(PADDING);

/// Requests of the user, and their transmission.
impl Association {
    /// Returns an error if the user may not request a re-configuration now.
    pub(crate) fn may_reconfigure(&self) -> Result<(), ReconfigError> {
        match self.state {
            AssociationState::Established if !self.extensions.reconfiguration => {
                Err(ReconfigError::NotInForce)
            }
            AssociationState::Established if self.streams.is_busy() => {
                Err(ReconfigError::InProgress)
            }
            AssociationState::Established => Ok(()),
            _ => Err(ReconfigError::WrongState),
        }
    }

    pub(crate) fn reset_streams(
        &mut self,
        direction: StreamDirection,
        streams: &[StreamId],
    ) -> Result<(), ReconfigError> {
        let requests = reset_requests(
            direction,
            streams,
            self.sender.queue().outbound_streams(),
            self.receiver.inbound_streams(),
            self.room_for_reconfig(),
        )?;
        self.begin_reconfig(requests, None);
        Ok(())
    }

    pub(crate) fn reset_association(&mut self, cx: &mut Context<'_>) -> Result<(), ReconfigError> {
        let requests = self.streams.renumbering_request(cx.now)?;
        self.begin_reconfig(requests, None);
        Ok(())
    }

    pub(crate) fn ask_for_streams(
        &mut self,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ReconfigError> {
        let most_outgoing = u16::MAX - self.sender.queue().outbound_streams();
        let most_incoming = self.config.streams.max_inbound_streams;
        let most_incoming = most_incoming.saturating_sub(self.receiver.inbound_streams());
        let requests = addition_requests(outgoing, incoming, most_outgoing, most_incoming)?;
        self.begin_reconfig(requests, None);
        Ok(())
    }

    /// Bytes of a RE-CONFIG chunk that fit into a packet on every path.
    fn room_for_reconfig(&self) -> usize {
        let reserved = self.auth.len_for(&RECONFIGS);
        self.paths.amdcs().saturating_sub(reserved)
    }

    /// Begins an operation; there must be none.
    fn begin_reconfig(&mut self, requests: Vec<RequestKind>, grants: Option<ReconfigSerial>) {
        if let Some(streams) = self.streams.begin(requests, grants) {
            self.sender.queue_mut().hold(streams);
        }
    }

    /// Puts the operation in flight if it may be sent. Returns whether one is in flight.
    fn send_reconfig_if_ready(&mut self) -> bool {
        if let Some((number, kind)) = self.streams.take_queued_grant() {
            self.begin_reconfig(Vec::from([kind]), Some(number));
        }
        self.streams
            .start_if_ready(&self.sender, self.paths.current())
    }

    /// The RE-CONFIG chunk with requests, for the first time or again.
    pub(super) fn output_reconfig(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if self.streams.has_operation() && self.state.sends_data() {
            // The data that the operation waits for may be abandoned by now.
            self.expire_messages(cx);
        }
        if !self.state.sends_data() || !self.send_reconfig_if_ready() {
            return None;
        }
        let (operation, flight) = self.streams.take_due(&self.paths, cx.now)?;
        let path = flight.path;
        if operation.resets_numbers() {
            // Data that the peer sends from now on may belong after the reset.
            self.sender.queue_mut().expect_renumbering();
            self.receiver.defer_all();
        }
        let normal = self.paths[path].packet_size();
        let needed = COMMON_HEADER_LEN + self.auth.len_for(&RECONFIGS) + operation.chunk_len();
        let limit = self.limit_for(needed, normal, path, cx);
        let mut packet = PacketBuilder::new(buf, self.header(), limit);
        let slot = self.auth.open(&mut packet, &RECONFIGS);
        let ahead = packet.len();
        packet.re_config(|parameters| operation.write(&flight, parameters));
        if self.has_room_for_sack(&packet) {
            self.bundle_sack(path, &mut packet, cx);
        }
        self.streams.sent(operation);
        fill_up(&mut packet, normal, ahead);
        let len = self.finish(packet, slot);
        Some(Transmit {
            may_fragment: len > normal,
            ..single(self.paths[path].route(), len)
        })
    }

    /// Processes the Re-configuration Timer (RFC 6525, section 5.1.1), and the limit of waiting for a
    /// peer that requested a reset of the association and did not repeat the request.
    pub(super) fn on_reconfig_timers(&mut self, cx: &mut Context<'_>) {
        if self.streams.expire_deferred_reset(cx.now) {
            self.sender.queue_mut().release();
        }
        let rto_max = self.config.timers.rto_max;
        if let Some(failed) = self.streams.on_timeout(cx.now, rto_max, &self.paths) {
            let waited = self.paths[failed].back_off_rto(&self.config);
            self.on_path_error(failed, PathErrorCause::ControlUnanswered, Some(waited), cx);
        }
    }

    /// Cancels the reset of all numbers that the peer requested, because it continues without.
    pub(super) fn cancel_deferred_reset(&mut self) {
        if self.streams.cancel_deferred_reset() {
            self.sender.queue_mut().release();
        }
    }
}

/// RE-CONFIG chunks of the peer.
impl Association {
    pub(super) fn on_re_config(
        &mut self,
        chunk: &ReConfig<'_>,
        route: &Route,
        progress: &mut PacketProgress,
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
        self.after_advance(progress);
        // Step 1.
        if !is_allowed_combination(&parameters) {
            let text = b"unsupported parameters in RE-CONFIG";
            let mut cause = Vec::with_capacity(4 + text.len());
            cause.extend_from_slice(&CauseCode::PROTOCOL_VIOLATION.0.to_be_bytes());
            cause.extend_from_slice(&((4 + text.len()) as u16).to_be_bytes());
            cause.extend_from_slice(text);
            let len = cause.len() + CHUNK_HEADER_LEN;
            return self.reply(route, Reply::Error(cause.into()), len, progress);
        }
        let is_request = |p: &Parameter<'_>| !matches!(p, Parameter::ReconfigResponse(_));
        if parameters.iter().any(is_request) && self.receiver.has_received() {
            self.receiver.acknowledge_now();
        }
        // Step 2.
        let mut responses = Vec::with_capacity(2);
        for parameter in parameters {
            match parameter {
                Parameter::ReconfigResponse(response) => self.on_reconfig_response(&response, cx),
                request => responses.extend(self.on_reconfig_request(&request, cx)),
            }
            if self.state.is_closed() {
                return;
            }
        }
        // Step 3.
        self.respond(&responses, route, progress);
        self.advance_shutdown(cx);
    }

    /// Processes a request. Returns the response, unless a request of ours takes its place.
    fn on_reconfig_request(
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
        let resets_numbers = matches!(request, Parameter::SsnTsnReset(_));
        match self.streams.check_number(number, resets_numbers) {
            NumberCheck::Answer(response) => return Some(response),
            NumberCheck::GrantRepeated => return None,
            NumberCheck::Process { release: true } => self.sender.queue_mut().release(),
            NumberCheck::Process { release: false } => {}
        }
        self.complete_granted(request, cx);
        let request_cx = PeerRequestContext {
            now: cx.now,
            config: &self.config,
            established: matches!(self.state, AssociationState::Established),
            sender: &self.sender,
            receiver: &self.receiver,
            room: self.room_for_reconfig(),
        };
        let streams = &mut self.streams;
        let decision = match request {
            Parameter::OutgoingSsnReset(reset) => streams.on_outgoing_reset(reset, &request_cx),
            Parameter::IncomingSsnReset(reset) => streams.on_incoming_reset(reset, &request_cx),
            Parameter::AddOutgoingStreams(add) => Streams::on_add_outgoing(*add, &request_cx),
            Parameter::AddIncomingStreams(add) => streams.on_add_incoming(*add, &request_cx),
            _ => streams.on_numbers_reset(&request_cx),
        };
        self.carry_out(decision, number, cx)
    }

    /// Carries out the decision on a request and returns the response.
    fn carry_out(
        &mut self,
        decision: Decision,
        number: ReconfigSerial,
        cx: &mut Context<'_>,
    ) -> Option<ReconfigResponse> {
        let mut next_tsns = None;
        let result = match decision {
            Decision::Answer(result) => result,
            Decision::ResetIncoming(streams) => {
                self.reset_incoming(&streams, cx);
                ReconfigResult::PERFORMED
            }
            Decision::DeferReset(last_tsn, streams) => {
                self.receiver.defer_after(last_tsn, streams);
                ReconfigResult::IN_PROGRESS
            }
            Decision::AddIncoming(count) => {
                self.receiver.add_streams(count);
                self.notify_streams_changed(ReconfigOutcome::Performed);
                ReconfigResult::PERFORMED
            }
            Decision::GrantByRequest(kind) => {
                self.begin_reconfig(Vec::from([kind]), Some(number));
                if self.send_reconfig_if_ready() {
                    return None;
                }
                ReconfigResult::IN_PROGRESS
            }
            Decision::HoldMessages => {
                self.sender.queue_mut().hold(StreamSet::All);
                ReconfigResult::IN_PROGRESS
            }
            Decision::DenyAndRelease => {
                self.sender.queue_mut().release();
                ReconfigResult::DENIED
            }
            Decision::ResetNumbers(next) => {
                if let Err(what) = self.receiver.renumber(next.receiver) {
                    self.violation(what, cx);
                    return None;
                }
                self.ecn.forget_received();
                self.sender.queue_mut().reset(&StreamSet::All);
                self.sender.queue_mut().release();
                self.notify_renumbering(ReconfigOutcome::Performed);
                next_tsns = Some(next);
                ReconfigResult::PERFORMED
            }
        };
        self.streams.record_answer(number, result, next_tsns);
        Some(ReconfigResponse {
            response: number,
            result,
            next_tsns,
        })
    }

    /// Completes the request of ours that the peer grants by this request (RFC 6525, sections 5.2.2,
    /// step E1, and 5.2.5).
    fn complete_granted(&mut self, request: &Parameter<'_>, cx: &mut Context<'_>) {
        let confirmed = match request {
            Parameter::OutgoingSsnReset(reset) => {
                let is_granted = |ours: &StreamsRequest| {
                    ours.number == reset.response
                        && matches!(ours.kind, RequestKind::ResetIncoming(_))
                };
                self.streams.on_granted_by_request(is_granted)
            }
            Parameter::AddOutgoingStreams(_) => {
                let is_granted =
                    |ours: &StreamsRequest| matches!(ours.kind, RequestKind::AddIncoming(_));
                self.streams.on_granted_by_request(is_granted)
            }
            _ => None,
        };
        if let Some(confirmed) = confirmed {
            self.on_request_confirmed(confirmed, cx);
        }
    }

    /// Sends the responses to all requests of a chunk in one chunk; the only one along with a reset of
    /// ours, if there is one.
    fn respond(
        &mut self,
        responses: &[ReconfigResponse],
        route: &Route,
        progress: &mut PacketProgress,
    ) {
        if responses.is_empty() {
            return;
        }
        if let [response] = responses
            && self.state.sends_data()
            && self.streams.piggyback(*response)
        {
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
        self.reply(route, Reply::ReConfig(value), len, progress);
    }

    /// Performs the deferred reset of the peer's streams once all data sent before it has arrived (RFC
    /// 6525, section 5.2.2, steps E3 to E6).
    pub(super) fn advance_deferred_reset(
        &mut self,
        route: &Route,
        progress: &mut PacketProgress,
        cx: &mut Context<'_>,
    ) {
        let cumulative = self.receiver.cumulative_tsn();
        let Some(deferred) = self.streams.take_arrived_reset(cumulative) else {
            return;
        };
        self.reset_incoming(&deferred.streams, cx);
        if self.state.is_closed() {
            return;
        }
        let result = ReconfigResult::PERFORMED;
        self.streams.record_answer(deferred.number, result, None);
        self.respond(&[response(deferred.number, result)], route, progress);
    }

    fn reset_incoming(&mut self, streams: &StreamSet, cx: &mut Context<'_>) {
        if let Err(what) = self.receiver.reset_streams(streams) {
            return self.violation(what, cx);
        }
        let outcome = ReconfigOutcome::Performed;
        self.events
            .notify_reset(StreamDirection::Incoming, streams, outcome);
    }

    /// Processes a response to a request of ours (RFC 6525, section 5.2.7).
    fn on_reconfig_response(&mut self, response: &ReconfigResponse, cx: &mut Context<'_>) {
        let answered = self.streams.on_response(response, &self.paths, cx.now);
        let Some(answered) = answered else { return };
        self.on_request_confirmed(answered.confirmed, cx);
        if !answered.in_progress {
            self.conclude(&answered.kind, response, cx);
        } else if answered.kind == RequestKind::ResetNumbers
            && let Err(what) = self.receiver.release_if_nearly_full()
        {
            self.violation(what, cx);
        }
    }

    /// Clears error counters: the peer answered a request.
    fn on_request_confirmed(&mut self, confirmed: RequestConfirmed, cx: &mut Context<'_>) {
        if let Some(path) = confirmed.path.filter(|p| self.paths.contains(*p)) {
            self.on_path_alive(path, cx);
        }
        // While data is outstanding, only its acknowledgement shows that the association works.
        if self.sender.outstanding_chunks() == 0 {
            self.liveness.clear_errors();
        }
    }

    /// Applies a final response and notifies the user (RFC 6525, section 5.2.7, steps H3 to H6).
    fn conclude(&mut self, kind: &RequestKind, response: &ReconfigResponse, cx: &mut Context<'_>) {
        let outcome = ReconfigOutcome::of(response.result);
        match kind {
            RequestKind::ResetOutgoing(streams) => {
                if outcome.is_success() {
                    self.sender.queue_mut().reset(streams);
                }
                self.sender.queue_mut().release();
                self.events
                    .notify_reset(StreamDirection::Outgoing, streams, outcome);
            }
            RequestKind::ResetNumbers => self.conclude_renumbering(response, cx),
            RequestKind::AddOutgoing(count) => {
                if outcome == ReconfigOutcome::Performed {
                    self.sender.queue_mut().add_streams(*count);
                }
                self.notify_streams_changed(outcome);
            }
            // The peer's own request carries it out and leads to the notification.
            _ if outcome == ReconfigOutcome::Performed => {}
            RequestKind::ResetIncoming(streams) => {
                self.events
                    .notify_reset(StreamDirection::Incoming, streams, outcome);
            }
            RequestKind::AddIncoming(_) => self.notify_streams_changed(outcome),
        }
    }

    fn conclude_renumbering(&mut self, response: &ReconfigResponse, cx: &mut Context<'_>) {
        let outcome = ReconfigOutcome::of(response.result);
        let result = match (outcome, response.next_tsns) {
            (ReconfigOutcome::Performed, Some(next)) => {
                self.sender.renumber(next.receiver);
                self.sender.queue_mut().reset(&StreamSet::All);
                self.ecn
                    .renumber((self.sender.last_tsn(), self.sender.last_index()));
                self.replies.remove_cwr();
                self.ecn.forget_received();
                self.receiver.renumber(next.sender)
            }
            (ReconfigOutcome::Performed, None) => Err("SSN/TSN reset without the next TSNs"),
            _ => self.receiver.release(),
        };
        self.sender.queue_mut().release();
        match result {
            Ok(()) => self.notify_renumbering(outcome),
            Err(what) => self.violation(what, cx),
        }
    }
}

/// Notifications (RFC 6525, section 6.1).
impl Association {
    fn notify_streams_changed(&mut self, outcome: ReconfigOutcome) {
        self.events.push_limited(Event::StreamsChanged {
            outbound_streams: self.sender.queue().outbound_streams(),
            inbound_streams: self.receiver.inbound_streams(),
            outcome,
        });
    }

    fn notify_renumbering(&mut self, outcome: ReconfigOutcome) {
        self.events.push_limited(Event::AssociationReset {
            local_tsn: self.sender.last_tsn().next(),
            peer_tsn: self.receiver.cumulative_tsn().next(),
            outcome,
        });
    }
}

/// Returns whether these parameters may share a chunk (RFC 6525, section 3.1), in any order.
fn is_allowed_combination(parameters: &[Parameter<'_>]) -> bool {
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
