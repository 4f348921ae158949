//! Order of packets: replies, requests for addresses and streams, DATA, FORWARD-TSN, SACK, SHUTDOWN,
//! heartbeats, MTU probes.

use alloc::vec::Vec;

use super::state::AssociationState;
use super::{Association, Context};
use crate::route::{Route, Transmit};
use crate::stats::EndpointStats;
use crate::time::Time;
use crate::tx::{Sender, TransmitContext};

impl Association {
    /// Writes the next packets to the end of `buf`.
    pub(crate) fn poll_transmit(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        self.follow_local_addresses(cx);
        loop {
            let transmit = self.next_transmit(buf, cx)?;
            if let Some(transmit) = self.protect(buf, transmit, cx.now) {
                self.count(&transmit, cx);
                return Some(transmit);
            }
        }
    }

    fn next_transmit(&mut self, buf: &mut Vec<u8>, cx: &mut Context<'_>) -> Option<Transmit> {
        match self.state {
            AssociationState::Closed => None,
            AssociationState::CookieWait(_) => self.output_init(buf, cx),
            // Nothing else may be sent before COOKIE ACK came (section 5.1 C).
            AssociationState::CookieEchoed(_) => self.output_cookie_echo(buf, cx),
            _ if self.has_no_confirmed_local_address() => self.output_asconf(buf, cx),
            _ => self
                .output_replies(buf, cx)
                .or_else(|| self.output_asconf(buf, cx))
                .or_else(|| self.output_reconfig(buf, cx))
                .or_else(|| self.output_data(buf, cx))
                .or_else(|| self.output_forward(buf, cx))
                .or_else(|| self.output_sack(buf, cx))
                .or_else(|| self.output_shutdown(buf, cx))
                .or_else(|| self.output_heartbeat(buf, cx))
                .or_else(|| self.output_probe(buf, cx)),
        }
    }

    fn count(&mut self, transmit: &Transmit, cx: &mut Context<'_>) {
        let packets = transmit.packets() as u64;
        self.counters.packets_sent += packets;
        cx.stats.packets_sent += packets;
        if let Some(id) = self.paths.find(&transmit.route) {
            self.paths[id].on_packets_sent(packets, transmit.len);
        }
    }

    /// Splits the association into its sender and the rest that sending needs.
    pub(super) fn transmit_context<'s>(
        &'s mut self,
        now: Time,
        shutting_down: bool,
        stats: &'s mut EndpointStats,
    ) -> (&'s mut Sender, TransmitContext<'s>) {
        let context = TransmitContext {
            now,
            paths: &mut self.paths,
            config: &self.config,
            trace: &mut self.trace,
            counters: &mut self.counters,
            stats,
            shutting_down,
        };
        (&mut self.sender, context)
    }
}

/// One packet.
pub(super) fn single(route: Route, len: usize) -> Transmit {
    Transmit {
        route,
        len,
        segment_size: None,
        may_fragment: false,
        probe: false,
    }
}
