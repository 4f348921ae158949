//! User data of the peer: DATA, I-DATA and what follows from packets with them (RFC 9260 section 6.2).

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{CauseCode, ChunkType, Data, Fragment, IData, Tsn};

use super::input::PacketProgress;
use super::protection::ClearData;
use super::{Association, Context, Reply};
use crate::event::{AbortCause, CloseReason};
use crate::extensions::Extensions;
use crate::observer::{DiscardReason, ObservedEvent};
use crate::research::UnlistedIForwardTsn;
use crate::route::{Ecn, Route};
use crate::rx::DataOutcome;
use crate::time::Time;

impl Association {
    /// DATA (section 6.2).
    pub(super) fn on_data(
        &mut self,
        data: &Data<'_>,
        datagram: &Bytes,
        route: &Route,
        progress: &mut PacketProgress,
        cx: &mut Context<'_>,
    ) {
        let clear = ClearData {
            tsn: data.tsn,
            stream: data.stream,
            unordered: data.flags.unordered,
            ppid: Some(data.ppid),
        };
        if self.check_data(&clear, data.payload, progress, cx) {
            self.receiver.note_source(route, &self.paths);
            let outcome = self.receiver.on_data(data, datagram);
            self.count_unordered(outcome, data.flags.unordered);
            self.on_data_outcome(outcome, data.tsn, data.payload, route, progress, cx);
        }
    }

    /// I-DATA (RFC 8260 section 2.2.3).
    pub(super) fn on_i_data(
        &mut self,
        data: &IData<'_>,
        datagram: &Bytes,
        route: &Route,
        progress: &mut PacketProgress,
        cx: &mut Context<'_>,
    ) {
        let tsn = data.header.tsn;
        let clear = ClearData {
            tsn,
            stream: data.header.stream,
            unordered: data.header.unordered,
            ppid: match data.header.fragment {
                Fragment::First(ppid) => Some(ppid),
                Fragment::Later(_) => None,
            },
        };
        if self.check_data(&clear, data.payload, progress, cx) {
            self.receiver.note_source(route, &self.paths);
            let outcome = self.receiver.on_i_data(data, datagram);
            self.count_unordered(outcome, data.header.unordered);
            self.on_data_outcome(outcome, tsn, data.payload, route, progress, cx);
        }
    }

    /// Returns the protocol violation if a chunk of this type contradicts the negotiation of I-DATA (RFC
    /// 8260 sections 2.2.3 and 2.3.1).
    pub(super) fn data_violation(&self, kind: ChunkType) -> Option<&'static str> {
        let Extensions {
            interleaving,
            interleaved_partial_reliability,
            ..
        } = self.extensions;
        let known = self.config.extensions;
        let known = known.interleaving || known.interleaved_partial_reliability;
        match kind {
            ChunkType::DATA if interleaving => Some("DATA although I-DATA was negotiated"),
            ChunkType::I_DATA if !interleaving => Some("I-DATA was not negotiated"),
            ChunkType::FORWARD_TSN if interleaving => {
                Some("FORWARD-TSN although I-DATA was negotiated")
            }
            // Without interleaving at this side it is an unknown chunk.
            ChunkType::I_FORWARD_TSN
                if known && !interleaved_partial_reliability && !self.accepts_unlisted(kind) =>
            {
                Some("I-FORWARD-TSN was not negotiated")
            }
            _ => None,
        }
    }

    /// Returns whether a chunk is accepted that this side lists as supported and the peer does not.
    pub(super) fn accepts_unlisted(&self, kind: ChunkType) -> bool {
        kind == ChunkType::I_FORWARD_TSN
            && self.extensions.interleaving
            && self.config.extensions.interleaved_partial_reliability
            && self.config.research.policies.unlisted_i_forward_tsn == UnlistedIForwardTsn::Take
    }

    /// Returns whether a chunk with user data is to be processed; one without payload ends the association
    /// (section 6.2).
    fn check_data(
        &mut self,
        chunk: &ClearData,
        payload: &[u8],
        progress: &mut PacketProgress,
        cx: &mut Context<'_>,
    ) -> bool {
        if !self.state.receives_data() {
            return false;
        }
        if !progress.protected && !self.admits_clear_data(chunk) {
            self.observe_discarded_data(DiscardReason::Unprotected, cx.now);
            return false;
        }
        let tsn = chunk.tsn;
        if payload.is_empty() {
            let cause = AbortCause::new(CauseCode::NO_USER_DATA.0, &tsn.value().to_be_bytes());
            self.abort(CloseReason::AbortedByProtocol(cause.clone()), &cause, cx);
            return false;
        }
        if !progress.data {
            self.queue_missing_report(cx);
        }
        progress.data = true;
        if progress.lowest.is_none_or(|lowest| lowest.is_after(tsn)) {
            progress.lowest = Some(tsn);
        }
        true
    }

    fn count_unordered(&mut self, outcome: DataOutcome, unordered: bool) {
        let counted = unordered && matches!(outcome, DataOutcome::Accepted);
        if counted {
            self.counters.other().unordered_chunks_received += 1;
        }
    }

    /// Passes a DATA or I-DATA chunk that is discarded to the observer.
    fn observe_discarded_data(&self, reason: DiscardReason, now: Time) {
        let kind = if self.extensions.interleaving {
            ChunkType::I_DATA
        } else {
            ChunkType::DATA
        };
        self.observe_discarded(kind, reason, now);
    }

    fn on_data_outcome(
        &mut self,
        outcome: DataOutcome,
        tsn: Tsn,
        payload: &[u8],
        route: &Route,
        progress: &mut PacketProgress,
        cx: &mut Context<'_>,
    ) {
        match outcome {
            DataOutcome::Accepted => {
                progress.advanced = true;
                self.counters.data_chunks_received += 1;
                let is_above_gap = tsn.is_after(self.receiver.cumulative_tsn());
                if is_above_gap {
                    self.counters.other().out_of_sequence_chunks_received += 1;
                }
                self.counters.data_bytes_received += payload.len() as u64;
                self.observation
                    .record_chunk(cx.now, || ObservedEvent::ChunkReceived { tsn });
            }
            DataOutcome::Duplicate => {
                self.counters.other().duplicates_received += 1;
                self.observe_discarded_data(DiscardReason::Duplicate, cx.now);
            }
            DataOutcome::Dropped => {
                self.counters.other().dropped_for_buffer += 1;
                self.observe_discarded_data(DiscardReason::NoBuffer, cx.now);
            }
            DataOutcome::InvalidStream(stream) => {
                let mut causes = Vec::with_capacity(8);
                causes.extend_from_slice(&CauseCode::INVALID_STREAM.0.to_be_bytes());
                causes.extend_from_slice(&[0, 8]);
                causes.extend_from_slice(&stream.0.to_be_bytes());
                causes.extend_from_slice(&[0, 0]);
                self.reply(route, Reply::Error(causes.into()), 12, progress);
            }
            DataOutcome::Violation(what) => self.violation(what, cx),
        }
    }

    /// Ends the processing of a packet with DATA or FORWARD-TSN.
    pub(super) fn after_data_packet(
        &mut self,
        route: &Route,
        progress: &mut PacketProgress,
        cx: &mut Context<'_>,
    ) {
        self.after_advance(progress);
        if let Some(lowest) = progress.lowest
            && self.extensions.ecn
            && route.ecn == Ecn::CongestionExperienced
        {
            let cumulative = self.receiver.cumulative_tsn();
            self.counters.other().congestion_marks_received += 1;
            self.ecn.on_marked_packet(lowest, cumulative);
        }
        let policies = &self.config.research.policies;
        let concurrent = policies.multipath.data_route.concurrent();
        let rtt = self.paths.data_round_trip(concurrent);
        self.receiver.on_packet_end(cx.now, rtt);
        self.receiver
            .set_data_route(self.reply_route_on(progress.path, route));
        self.answer_data_with_shutdown();
        self.advance_deferred_reset(route, progress, cx);
    }

    /// Cancels the reset of all numbers that the peer requested, if it continues without.
    pub(super) fn after_advance(&mut self, progress: &mut PacketProgress) {
        if core::mem::take(&mut progress.advanced) {
            self.cancel_deferred_reset();
        }
    }
}
