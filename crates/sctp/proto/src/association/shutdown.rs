//! Graceful shutdown of an association (RFC 9260 section 9.2).
//!
//! 1. The user requests it: SHUTDOWN-PENDING, no new messages are accepted.
//! 2. All data is acknowledged: SHUTDOWN, T2-shutdown and T5-shutdown-guard start, SHUTDOWN-SENT.
//! 3. The peer receives SHUTDOWN: SHUTDOWN-RECEIVED; after its own data is acknowledged SHUTDOWN ACK,
//!    SHUTDOWN-ACK-SENT.
//! 4. SHUTDOWN ACK is answered with SHUTDOWN COMPLETE; the association is closed on both sides.

use alloc::boxed::Box;
use carrick_wire::{ChunkType, CommonHeader, Packet, PacketBuilder, Shutdown};

use super::state::{AssociationState, Ending, Repeat};
use super::{Association, Context};
use crate::error::OperationError;
use crate::event::{CloseReason, Event};
use crate::route::Route;
use crate::tx::{Acked, SackContext, SackError};

impl Association {
    /// SHUTDOWN from the user. An association that is being set up has nothing to shut down gracefully
    /// and is aborted.
    pub(crate) fn shutdown(&mut self, cx: &mut Context<'_>) -> Result<(), OperationError> {
        match self.state {
            AssociationState::CookieWait(_) => self.close(CloseReason::AbortedByUser, cx),
            AssociationState::CookieEchoed(_) => {
                let cause = crate::event::AbortCause::new(12, b"");
                self.abort(CloseReason::AbortedByUser, &cause, cx);
            }
            AssociationState::Established => {
                self.state = AssociationState::ShutdownPending;
                self.advance_shutdown(cx);
            }
            // A shutdown is in progress; a second request changes nothing.
            AssociationState::ShutdownPending
            | AssociationState::ShutdownSent(_)
            | AssociationState::ShutdownReceived
            | AssociationState::ShutdownAckSent(_) => {}
            AssociationState::Closed => return Err(OperationError::UnknownAssociation),
        }
        Ok(())
    }

    /// Sends SHUTDOWN or SHUTDOWN ACK once all data has been acknowledged. Abandoned data counts as
    /// acknowledged (RFC 3758 section 3.5, A2): a FORWARD-TSN that the peer has not acknowledged leaves
    /// in front of the chunk.
    pub(crate) fn advance_shutdown(&mut self, cx: &Context<'_>) {
        let guard = match self.state {
            AssociationState::ShutdownPending => Some(cx.now + self.config.shutdown_guard()),
            AssociationState::ShutdownReceived => None,
            _ => return,
        };
        if !self.sender.is_finished() || self.streams.awaits_renumbering() {
            return;
        }
        let ending = Box::new(Ending {
            chunk: Repeat::now(),
            guard,
            answer: None,
            sent_to: None,
        });
        self.state = match guard {
            Some(_) => AssociationState::ShutdownSent(ending),
            None => AssociationState::ShutdownAckSent(ending),
        };
    }

    /// Handles a SHUTDOWN from the peer (section 9.2):
    ///
    /// 1. Process its Cumulative TSN Ack as that of a SACK.
    /// 2. Enter SHUTDOWN-RECEIVED, or SHUTDOWN-ACK-SENT if this side sent a SHUTDOWN as well.
    /// 3. Send SHUTDOWN ACK once all data is acknowledged, on the route back.
    pub(crate) fn on_shutdown(&mut self, shutdown: Shutdown, route: &Route, cx: &mut Context<'_>) {
        if self.state.is_setup() {
            return;
        }
        // 1.
        let mut sack_cx = SackContext {
            now: cx.now,
            arrived_on: self.paths.find(route),
            paths: &mut self.paths,
            config: &self.config,
            observation: &self.observation,
        };
        let result = self
            .sender
            .on_cumulative_tsn(shutdown.cumulative_tsn_ack, &mut sack_cx);
        let acked = match result {
            Ok(acked) => acked,
            Err(SackError::Stale) => Acked::default(),
            Err(SackError::UnsentTsn) => {
                return self.violation("SHUTDOWN acknowledges a TSN that was not sent", cx);
            }
            Err(SackError::NonRenegableReneged) => {
                return self
                    .violation("SHUTDOWN reneges on data acknowledged as non-renegable", cx);
            }
        };
        self.report_abandoned();
        self.after_acknowledgement(&acked, cx);
        // 2.
        match &mut self.state {
            AssociationState::Established | AssociationState::ShutdownPending => {
                self.state = AssociationState::ShutdownReceived;
                self.events.push(Event::PeerShutdown);
            }
            // Both sides at once: SHUTDOWN ACK answers SHUTDOWN.
            AssociationState::ShutdownSent(ending) => {
                let guard = ending.guard;
                self.state = AssociationState::ShutdownAckSent(Box::new(Ending {
                    chunk: Repeat::now(),
                    guard,
                    answer: None,
                    sent_to: None,
                }));
            }
            AssociationState::ShutdownAckSent(ending) => ending.chunk.due = true,
            _ => {}
        }
        // 3.
        self.advance_shutdown(cx);
        let answer = self.answer_route(route);
        if let AssociationState::ShutdownAckSent(ending) = &mut self.state {
            ending.answer = Some(answer);
        }
    }

    /// SHUTDOWN ACK from the peer.
    pub(crate) fn on_shutdown_ack(&mut self, route: &Route, cx: &mut Context<'_>) {
        if self.state.ending().is_some() {
            let header: CommonHeader = self.header();
            let route = self.answer_route(route);
            self.send_last(route, cx, |association, buf| {
                association.counters.control_chunks_sent += 1;
                let mut packet = PacketBuilder::new(buf, header, 1200);
                packet.shutdown_complete(false);
                packet.finish();
            });
            self.close(CloseReason::Shutdown, cx);
        }
    }

    /// SHUTDOWN COMPLETE from the peer, its tag already checked.
    pub(crate) fn on_shutdown_complete(&mut self, cx: &mut Context<'_>) {
        if matches!(self.state, AssociationState::ShutdownAckSent(_)) {
            self.close(CloseReason::Shutdown, cx);
        }
    }

    /// Answers a packet with DATA in SHUTDOWN-SENT with SHUTDOWN and restarts T2-shutdown (section
    /// 9.2).
    pub(crate) fn answer_data_with_shutdown(&mut self) {
        if !matches!(self.state, AssociationState::ShutdownSent(_)) {
            return;
        }
        let data = self.receiver.data_route();
        let answer = data.map(|route| self.answer_route(&route));
        if let AssociationState::ShutdownSent(ending) = &mut self.state {
            ending.chunk = Repeat::now();
            ending.answer = answer;
            if self.receiver.has_gaps() || self.receiver.has_duplicates() {
                self.receiver.acknowledge_now();
            }
        }
    }

    /// Clears the error counter in SHUTDOWN-SENT when any packet of the peer arrives (section 9.2), and
    /// restarts T2-shutdown to let the peer send its queued data. Heartbeats don't restart it: a peer
    /// that missed the SHUTDOWN and has shorter intervals than the timer would never get another one.
    pub(crate) fn on_packet_while_shutting_down(&mut self, packet: &Packet<'_>, cx: &Context<'_>) {
        let AssociationState::ShutdownSent(ending) = &mut self.state else {
            return;
        };
        let rto = self.paths[self.paths.current()].rto();
        self.liveness.clear_errors();
        // AUTH may precede them, and PAD makes them probes of the path MTU.
        let is_heartbeat = |kind| {
            matches!(
                kind,
                ChunkType::HEARTBEAT | ChunkType::HEARTBEAT_ACK | ChunkType::AUTH | ChunkType::PAD
            )
        };
        let idle = packet.chunks().flatten().all(|raw| is_heartbeat(raw.kind));
        if ending.chunk.timer.is_some() && !idle {
            ending.chunk.timer = Some(cx.now + rto);
        }
    }

    /// INIT in SHUTDOWN-ACK-SENT: SHUTDOWN COMPLETE was lost; SHUTDOWN ACK is sent again.
    pub(crate) fn repeat_shutdown_ack(&mut self) -> bool {
        match &mut self.state {
            AssociationState::ShutdownAckSent(ending) => {
                ending.chunk.due = true;
                true
            }
            _ => false,
        }
    }
}
