//! News from below: the connection that carries the association's packets came up, leads elsewhere,
//! or is gone (RFC 8261 section 6.1).

use super::state::{Repeat, State};
use super::{Association, Context};
use crate::event::CloseReason;

impl Association {
    /// What was learnt of the way is void: the path MTU is looked for, the round trip measured and
    /// the congestion window grown anew. A set-up begins again, with the INIT leaving now.
    pub(crate) fn lower_layer_changed(&mut self, _: &mut Context<'_>) {
        let rto_initial = self.config.rto_initial;
        if let State::CookieWait(wait) = &mut self.state {
            wait.init = Repeat::now();
            wait.sent = None;
            self.error_count = 0;
        }
        for path in self.paths.iter_mut() {
            path.error_count = 0;
            path.begin_anew(rto_initial);
            if let Some(discovery) = path.discovery.as_mut().filter(|_| path.confirmed) {
                discovery.start();
                let mtu = discovery.mtu();
                path.set_mtu(mtu);
            }
        }
    }

    pub(crate) fn lower_layer_lost(&mut self, cx: &mut Context<'_>) {
        self.close(CloseReason::LowerLayerLost, cx);
    }
}
