//! Reports of the layers below: ICMP (RFC 9260 section 10), and the connection that carries the
//! association's packets (RFC 8261 section 6.1).

use core::net::IpAddr;

use super::state::{AssociationState, Repeat};
use super::{Association, Context};
use crate::event::CloseReason;
use crate::path::Path;
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

    /// ICMP: SCTP is not supported at the peer's address (section 10, ICMP8).
    pub(crate) fn on_protocol_unreachable(&mut self, cx: &mut Context<'_>) {
        let waits = self.config.research.policies.protocol_unreachable
            == ProtocolUnreachable::AbortAfterSilence
            && !self.state.is_setup();
        let since = self.liveness.on_protocol_unreachable(cx.now);
        let rto = self.paths[self.paths.current()].rto();
        if !waits || cx.now >= since + rto {
            self.close(CloseReason::ProtocolUnreachable, cx);
        }
    }

    /// ICMP: packets to the paths of this address are too big (RFC 8899 section 4.6, RFC 9260 section 10,
    /// ICMP7). Returns whether the reported MTU was plausible.
    pub(crate) fn on_packet_too_big(&mut self, remote: IpAddr, mtu: usize, now: Time) -> bool {
        let mut plausible = false;
        for id in self.paths.ids() {
            if self.paths[id].remote() == remote {
                let effect = self.paths[id].on_packet_too_big(mtu, now);
                if effect.in_flight {
                    self.resend_oversized(id, now);
                }
                plausible |= effect.plausible;
            }
        }
        plausible
    }

    /// ICMP: packets to the first path of this address are not delivered (section 10, ICMP9). Ignored
    /// during set-up.
    pub(crate) fn on_unreachable(&mut self, remote: IpAddr, cx: &mut Context<'_>) {
        let path = self.paths.iter().find(|p| p.remote() == remote);
        if let Some(id) = path.map(Path::id).filter(|_| !self.state.is_setup()) {
            self.on_path_error(id, false, cx);
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
