//! The graceful end of an association (RFC 9260 section 9.2).

use alloc::sync::Arc;

use carrick_wire::{ChunkType, CommonHeader, Packet, PacketBuilder, Shutdown};

use super::state::{Ending, Repeat, State};
use super::{Association, Context};
use crate::error::OperationError;
use crate::event::{CloseReason, Event};
use crate::route::Route;
use crate::send::SackContext;

impl Association {
    /// SHUTDOWN from the user. While the association is being set up there is nothing to end
    /// gracefully: it is dropped.
    pub(crate) fn shutdown(&mut self, cx: &mut Context<'_>) -> Result<(), OperationError> {
        match self.state {
            State::CookieWait(_) => self.close(CloseReason::AbortedByUser, cx),
            State::CookieEchoed(_) => {
                let cause = crate::error::AbortCause::new(12, b"");
                self.abort(CloseReason::AbortedByUser, &cause, cx);
            }
            State::Established => {
                self.state = State::ShutdownPending;
                self.advance_shutdown(cx);
            }
            // Already on the way; a second request changes nothing.
            State::ShutdownPending
            | State::ShutdownSent(_)
            | State::ShutdownReceived
            | State::ShutdownAckSent(_) => {}
            State::Closed => return Err(OperationError::UnknownAssociation),
        }
        Ok(())
    }

    /// Sends SHUTDOWN or SHUTDOWN ACK once all data has been acknowledged. Abandoned data counts as
    /// acknowledged (RFC 3758 section 3.5, A2): a FORWARD-TSN that the peer has not acknowledged leaves
    /// in front of the chunk.
    pub(crate) fn advance_shutdown(&mut self, cx: &Context<'_>) {
        if !self.sender.is_finished() || self.awaits_renumbering() {
            return;
        }
        let guard = Some(cx.now + self.config.shutdown_guard());
        match self.state {
            State::ShutdownPending => {
                self.state = State::ShutdownSent(Ending {
                    chunk: Repeat::now(),
                    guard,
                    answer: None,
                    sent_to: None,
                })
            }
            State::ShutdownReceived => {
                self.state = State::ShutdownAckSent(Ending {
                    chunk: Repeat::now(),
                    guard: None,
                    answer: None,
                    sent_to: None,
                })
            }
            _ => {}
        }
    }

    /// An address of the peer is gone: SHUTDOWN or its answer go another way.
    pub(super) fn forget_ending_route(&mut self, remote: core::net::IpAddr) {
        if let State::ShutdownSent(ending) | State::ShutdownAckSent(ending) = &mut self.state {
            ending.answer = ending.answer.filter(|r| r.remote != remote);
        }
    }

    /// SHUTDOWN from the peer.
    pub(crate) fn on_shutdown(&mut self, shutdown: Shutdown, route: &Route, cx: &mut Context<'_>) {
        if self.state.is_setup() {
            return;
        }
        let config = Arc::clone(&self.config);
        let mut sack_cx = SackContext {
            now: cx.now,
            arrived_on: self.paths.find(route),
            paths: &mut self.paths,
            config: &config,
            trace: &mut self.trace,
        };
        let outcome = self
            .sender
            .on_cumulative_tsn(shutdown.cumulative_tsn_ack, &mut sack_cx);
        if outcome.unsent_tsn {
            return self.violation("SHUTDOWN acknowledges a TSN that was not sent", cx);
        }
        if outcome.broken_promise {
            return self.violation("data acknowledged as non-renegable was taken back", cx);
        }
        self.report_abandoned();
        self.after_acknowledgement(&outcome, cx);
        match &mut self.state {
            State::Established | State::ShutdownPending => {
                self.state = State::ShutdownReceived;
                self.events.push_back(Event::PeerShutdown);
            }
            // Both sides at once: SHUTDOWN ACK answers SHUTDOWN.
            State::ShutdownSent(ending) => {
                let guard = ending.guard;
                self.state = State::ShutdownAckSent(Ending {
                    chunk: Repeat::now(),
                    guard,
                    answer: None,
                    sent_to: None,
                });
            }
            State::ShutdownAckSent(ending) => ending.chunk.due = true,
            _ => {}
        }
        self.advance_shutdown(cx);
        let answer = self.answer_route(route);
        if let State::ShutdownAckSent(ending) = &mut self.state {
            ending.answer = Some(answer);
        }
    }

    /// SHUTDOWN ACK from the peer.
    pub(crate) fn on_shutdown_ack(&mut self, route: &Route, cx: &mut Context<'_>) {
        if matches!(
            self.state,
            State::ShutdownSent(_) | State::ShutdownAckSent(_)
        ) {
            let header: CommonHeader = self.header();
            let route = self.answer_route(route);
            self.send_last(route, cx, |_, buf| {
                let mut packet = PacketBuilder::new(buf, header, 1200);
                packet.shutdown_complete(false);
                packet.finish();
            });
            self.close(CloseReason::Shutdown, cx);
        }
    }

    /// SHUTDOWN COMPLETE from the peer, its tag already checked.
    pub(crate) fn on_shutdown_complete(&mut self, cx: &mut Context<'_>) {
        if matches!(self.state, State::ShutdownAckSent(_)) {
            self.close(CloseReason::Shutdown, cx);
        }
    }

    /// A packet with DATA in SHUTDOWN-SENT: SHUTDOWN is sent again at once, T2 starts anew.
    pub(crate) fn answer_data_with_shutdown(&mut self) {
        let answer = self.data_route.map(|route| self.answer_route(&route));
        if let State::ShutdownSent(ending) = &mut self.state {
            ending.chunk = Repeat::now();
            ending.answer = answer;
            if self.receiver.has_gaps() || self.receiver.has_duplicates() {
                self.receiver.acknowledge_now();
            }
        }
    }

    /// Any packet of the peer in SHUTDOWN-SENT shows that it is there (section 9.2). The timer
    /// starts anew to let it send what it has queued; heartbeats don't restart it, or a peer that
    /// missed the SHUTDOWN and has shorter intervals than the timer would never get another one.
    pub(crate) fn on_packet_while_shutting_down(&mut self, packet: &Packet<'_>, cx: &Context<'_>) {
        let rto = self.paths[self.paths.current()].rto.value();
        let State::ShutdownSent(ending) = &mut self.state else {
            return;
        };
        self.error_count = 0;
        // AUTH may be in front of them, and PAD makes them probes of the path MTU.
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
            State::ShutdownAckSent(ending) => {
                ending.chunk.due = true;
                true
            }
            _ => false,
        }
    }
}
