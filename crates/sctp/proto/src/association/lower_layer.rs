//! Reports of the layers below: ICMP (RFC 9260 section 10), and the connection that carries the
//! association's packets (RFC 8261 section 6.1).

use core::net::IpAddr;

use super::state::{AssociationState, Repeat};
use super::{Association, Context};
use crate::event::CloseReason;
use crate::path::{Path, PathErrorCause};
use crate::research::ProtocolUnreachable;
use crate::route::Route;
use crate::time::Time;

impl Association {
    /// Resets path MTU, round-trip time and congestion window: the connection leads elsewhere. A set-up
    /// begins again with an INIT.
    pub(crate) fn lower_layer_changed(&mut self, _: &mut Context<'_>) {
        let rto_initial = self.config.timers.rto_initial;
        if let AssociationState::CookieWait(wait) = &mut self.state {
            wait.init = Repeat::now();
            wait.sent = None;
            self.liveness.clear_errors();
        }
        for path in self.paths.iter_mut() {
            path.on_lower_layer_changed(rto_initial);
        }
    }

    pub(crate) fn lower_layer_lost(&mut self, cx: &mut Context<'_>) {
        self.close(CloseReason::LowerLayerLost, cx);
    }

    /// Returns whether the policy lets an association continue after an ICMP "Protocol Unreachable".
    pub(crate) fn continues_after_protocol_unreachable(&self) -> bool {
        self.config.research.policies.protocol_unreachable == ProtocolUnreachable::AbortAfterSilence
    }

    /// ICMP: SCTP is not supported at the peer's address (section 10, ICMP8).
    pub(crate) fn on_protocol_unreachable(&mut self, cx: &mut Context<'_>) {
        let waits = self.continues_after_protocol_unreachable() && !self.state.is_setup();
        let path = &self.paths[self.paths.current()];
        let rto = path.rto_without_back_off(&self.config);
        if self.liveness.on_protocol_unreachable(cx.now, rto) || !waits {
            self.close(CloseReason::ProtocolUnreachable, cx);
        }
    }

    /// A packet of the set-up to this address was not delivered: if another address is left, the chunk is sent
    /// there at once. Returns whether one is left.
    pub(crate) fn try_next_address(&mut self, remote: IpAddr) -> bool {
        let current = self.paths.current();
        for path in self.paths.iter_mut().filter(|p| p.remote() == remote) {
            path.on_unreachable_in_setup();
        }
        if !self.paths.any_usable() {
            return false;
        }
        if self.paths[current].remote() == remote {
            self.paths.rotate();
            if self.state.repeat_setup_chunk() {
                self.resend_all();
            }
        }
        true
    }

    /// ICMP: packets to the paths of this address are too big (RFC 8899 section 4.6, RFC 9260 section 10,
    /// ICMP7). Returns whether the reported MTU was plausible.
    pub(crate) fn on_packet_too_big(&mut self, remote: IpAddr, mtu: usize, now: Time) -> bool {
        let mut plausible = false;
        for id in self.paths.ids() {
            if self.paths[id].remote() == remote {
                let effect = self.paths[id].on_packet_too_big(mtu, now);
                if effect.in_flight {
                    self.resend_path(id, now);
                }
                plausible |= effect.plausible;
            }
        }
        plausible
    }

    /// ICMP: packets to the first path of this address are not delivered (section 10, ICMP9). During set-up,
    /// another address is tried. With quick failover one message is enough: more do not count, so that a burst
    /// of packets does not make the path inactive.
    pub(crate) fn on_unreachable(&mut self, remote: IpAddr, cx: &mut Context<'_>) {
        if self.state.is_setup() {
            self.try_next_address(remote);
            return;
        }
        let counts = |p: &Path| p.is_usable() || !self.paths.fails_over_quickly();
        let mut paths = self.paths.iter();
        let path = paths.find(|p| p.remote() == remote).filter(|p| counts(p));
        if let Some(id) = path.map(Path::id) {
            self.on_path_error(id, PathErrorCause::Unreachable, None, cx);
        }
    }

    /// The host refused a packet, because it exceeds the MTU of the route. Another path to the address may use an
    /// interface with a larger MTU.
    pub(crate) fn limit_mtu_of(&mut self, route: &Route, mtu: usize, now: Time) {
        if let Some(path) = self.paths.find_exactly(route) {
            self.limit_mtu(path, mtu, now);
        }
    }

    /// The host refused a path MTU probe of this length. Another path to the address may use an interface
    /// with a larger MTU.
    pub(crate) fn on_probe_refused(&mut self, route: &Route, len: usize, now: Time) {
        if let Some(path) = self.paths.find_exactly(route) {
            self.paths[path].on_probe_refused(len, now);
        }
    }
}
