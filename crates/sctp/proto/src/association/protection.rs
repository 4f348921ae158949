//! Protection of chunks: sealed last, opened first (see [`protection`](crate::protection)).

use alloc::boxed::Box;
use alloc::vec::Vec;

use carrick_wire::{CauseCode, Ppid, StreamId, Tsn};

use super::{Association, Context};
use crate::event::{AbortCause, CloseReason};
use crate::protection::{KeyProgress, Offers, Protected};
use crate::route::Route;
use crate::rx::message::MessagePart;
use crate::time::Time;
use crate::transmit::Transmit;

/// Fields of a chunk of user data that arrived in the clear.
pub(super) struct ClearData {
    pub(super) tsn: Tsn,
    pub(super) stream: StreamId,
    pub(super) unordered: bool,
    /// `None` in a later I-DATA chunk of a message, which has none (RFC 8260, section 2.1).
    pub(super) ppid: Option<Ppid>,
}

impl Association {
    /// Returns the protection in force, if any.
    pub(crate) fn protection_mut(&mut self) -> Option<&mut Protected> {
        self.protection.as_deref_mut()
    }

    /// Returns the payload protocol identifier of the key management's messages, if the association has one.
    pub(super) fn key_management(&self) -> Option<Ppid> {
        self.protection
            .as_deref()
            .and_then(Protected::key_management)
    }

    /// Returns whether messages of this stream with this identifier are those of the key management.
    pub(super) fn is_for_key_management(&self, stream: StreamId, ppid: Ppid) -> bool {
        let offer = self.config.security.protection.as_deref();
        stream == StreamId(0) && offer.is_some_and(|offer| offer.key_management() == Some(ppid))
    }

    /// Returns whether the user is not notified of the association yet, since keys are missing.
    pub(crate) fn waits_for_keys(&self) -> bool {
        self.protection
            .as_deref()
            .is_some_and(Protected::is_pending)
    }

    /// Starts the protection that both sides agreed on; `theirs` is the value of the peer's parameter, and
    /// `initiated` is as in [`Offers`]. A protection stays in force in a further set-up with the same value.
    pub(super) fn agree_on_protection(&mut self, theirs: Option<&[u8]>, initiated: bool) {
        if let (Some(theirs), Some(offer)) = (theirs, &self.config.security.protection) {
            let kept = |p: &Protected| !self.state.is_setup() || p.was_agreed_with(theirs);
            if !self.protection.as_deref().is_some_and(kept) {
                let ours = offer.value(self.local_initial_tsn.value());
                let offers = Offers {
                    ours: &ours,
                    theirs,
                    initiated,
                };
                self.protection = Some(Box::new(Protected::new(&**offer, &offers)));
            }
        }
        match &self.protection {
            Some(protected) => {
                let overhead = self.config.mtu.lower_overhead + protected.overhead();
                self.paths.set_overhead(overhead);
            }
            // The peer has no key management for which they would wait.
            None => self.sender.queue_mut().keys_established(),
        }
    }

    /// Passes a restart of the peer to the protection, which stays in force.
    pub(super) fn restart_protection(&mut self, theirs: Option<&[u8]>, now: Time) {
        let Some(offer) = &self.config.security.protection else {
            return;
        };
        if let Some(protected) = &mut self.protection {
            let ours = offer.value(self.local_initial_tsn.value());
            let offers = Offers {
                ours: &ours,
                theirs: theirs.unwrap_or_default(),
                initiated: false,
            };
            protected.on_restart(now, &offers);
        }
    }

    /// Begins the key management of an association that is established. Returns whether the user has to wait;
    /// its messages do.
    pub(super) fn start_key_management(&mut self, now: Time) -> bool {
        let protection = self.protection.as_deref_mut();
        let waits = protection.is_some_and(|protected| protected.start(now));
        if waits {
            self.sender.queue_mut().await_keys();
        }
        waits
    }

    /// Advances the key management:
    ///
    /// 1. Pass the received messages to it.
    /// 2. Queue its messages to the peer's.
    /// 3. Once both sides have keys: notify the user of the association, whose messages are sent now.
    ///    Without keys, abort the association.
    pub(crate) fn manage_keys(&mut self, cx: &mut Context<'_>) {
        let Some(protected) = self.protection.as_deref_mut() else {
            return;
        };
        let Some(ppid) = protected
            .key_management()
            .filter(|_| !self.state.is_closed())
        else {
            return;
        };
        // 1.
        while let Some(message) = self.receiver.take_key_message() {
            if message.part == MessagePart::Aborted {
                protected.discard_key_message();
                continue;
            }
            let ends = matches!(message.part, MessagePart::Whole | MessagePart::Last);
            protected.on_key_message(cx.now, &message.payload.into_bytes(), ends);
        }
        // 2.
        if self.state.sends_data() {
            while let Some(message) = protected.poll_key_message(cx.now) {
                self.sender.send_key_message(ppid, message.into());
            }
        }
        // 3.
        match protected.advance() {
            KeyProgress::None => {}
            KeyProgress::Established => {
                self.sender.queue_mut().keys_established();
                self.start_dynamic_addresses(cx);
                let established = self.established_event();
                self.events.push_first(established);
            }
            KeyProgress::Failed(reason) => {
                let reason = alloc::format!("key management: {reason}");
                let code = CauseCode::USER_INITIATED_ABORT.0;
                let cause = AbortCause::new(code, reason.as_bytes());
                self.abort(CloseReason::AbortedByProtocol(cause.clone()), &cause, cx);
            }
        }
    }

    /// Returns whether a chunk of user data in the clear is accepted: of the key management alone, in the
    /// order of the TSNs, so that none of it is delivered behind data that is protected.
    pub(super) fn admits_clear_data(&self, data: &ClearData) -> bool {
        let Some(ppid) = self.key_management() else {
            return true;
        };
        self.waits_for_keys()
            && data.stream == StreamId(0)
            && !data.unordered
            && data.ppid.is_none_or(|of_chunk| of_chunk == ppid)
            && data.tsn == self.receiver.cumulative_tsn().next()
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
