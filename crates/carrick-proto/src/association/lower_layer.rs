//! Reports of the layers below: ICMP (RFC 9260 section 10), and the connection that carries the
//! association's packets (RFC 8261 section 6.1).

use super::state::{AssociationState, Repeat};
use super::{Association, Context};
use crate::event::CloseReason;
use crate::path::PathId;
use crate::research::ProtocolUnreachable;

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

    /// ICMP: packets to this path are not delivered (section 10, ICMP9).
    pub(crate) fn on_unreachable(&mut self, id: PathId, cx: &mut Context<'_>) {
        self.on_path_error(id, false, cx);
    }
}
