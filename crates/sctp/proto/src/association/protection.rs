//! Protection of chunks: sealed last, opened first (see [`protection`](crate::protection)).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Association, Context};
use crate::protection::Protected;
use crate::route::Route;
use crate::time::Time;
use crate::transmit::Transmit;

impl Association {
    /// Returns the protection in force, if any.
    pub(crate) fn protection_mut(&mut self) -> Option<&mut Protected> {
        self.protection.as_deref_mut()
    }

    /// Starts the protection that both sides offer; `theirs` is the peer's offer. A protection stays in
    /// force after a restart, which must not remove it.
    pub(super) fn agree_on_protection(&mut self, theirs: Option<&[u8]>, connects: bool) {
        if self.protection.is_none()
            && let (Some(theirs), Some(offer)) = (theirs, &self.config.security.protection)
        {
            self.protection = Some(Box::new(Protected::new(&**offer, theirs, connects)));
        }
        if let Some(protected) = &self.protection {
            let overhead = self.config.mtu.lower_overhead + protected.overhead();
            self.paths.set_overhead(overhead);
        }
    }

    /// Seals one packet before it is sent. Returns `None` if it must not be sent.
    pub(super) fn protect(
        &mut self,
        buf: &mut Vec<u8>,
        transmit: Transmit,
        now: Time,
    ) -> Option<Transmit> {
        let start = buf.len() - transmit.len;
        if let Some(protected) = &mut self.protection {
            protected.seal(buf, start, &transmit.route, now);
        }
        let len = buf.len() - start;
        (len > 0).then_some(Transmit { len, ..transmit })
    }

    /// Queues the last packet of the association among the endpoint's replies.
    pub(super) fn send_last(
        &mut self,
        route: Route,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut Self, &mut Vec<u8>),
    ) {
        let now = cx.now;
        let dscp = self.dscp(self.paths.find(&route), route.remote);
        cx.replies.push(route, dscp, |buf| {
            write(self, buf);
            if let Some(protected) = &mut self.protection {
                protected.seal(buf, 0, &route, now);
            }
        });
    }
}
