//! Order of packets: replies, requests for addresses and streams, DATA, FORWARD-TSN, SACK, SHUTDOWN,
//! heartbeats, MTU probes.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::state::AssociationState;
use super::{Association, Context};
use crate::path::PathId;
use crate::route::Route;
use crate::stats::EndpointStats;
use crate::time::Time;
use crate::transmit::Transmit;
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
            let start = buf.len();
            let transmit = self.next_transmit(buf, cx)?;
            debug_assert!(
                self.authenticates(&buf[start..], &transmit),
                "a chunk without the AUTH that the peer requires"
            );
            if let Some(mut transmit) = self.protect(buf, transmit, cx.now) {
                let path = self.count(&transmit, cx);
                transmit.dscp = self.dscp(path, transmit.route.remote);
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

    /// Returns whether AUTH precedes all chunks that the peer accepts only authenticated: AUTH is written before it is known which
    /// chunks follow it, by the sets of types that their writers declare.
    fn authenticates(&self, packets: &[u8], transmit: &Transmit) -> bool {
        let size = transmit.segment_size.unwrap_or(packets.len()).max(1);
        packets.chunks(size).all(|packet| self.auth.covers(packet))
    }

    /// Counts packets that leave. Returns their path, if they have one.
    fn count(&mut self, transmit: &Transmit, cx: &mut Context<'_>) -> Option<PathId> {
        let packets = transmit.packets() as u64;
        self.counters.packets_sent += packets;
        cx.stats.packets_sent += packets;
        let path = self.paths.find(&transmit.route);
        if let Some(id) = path {
            self.paths[id].on_packets_sent(packets, transmit.len);
        }
        path
    }

    /// Returns the DSCP of packets: that of their path, or that of the association for an address without one.
    pub(super) fn dscp(&self, path: Option<PathId>, remote: IpAddr) -> u8 {
        match path {
            Some(id) => self.paths[id].dscp(),
            None => self.config.paths.dscp(remote),
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
            observation: &self.observation,
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
        dscp: 0,
    }
}
