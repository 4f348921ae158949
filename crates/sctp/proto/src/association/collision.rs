//! Set-ups that meet an existing association (RFC 9260 section 5.2). The endpoint compares the tags of a
//! cookie with those of the association (section 5.2.4, table 12):
//!
//! - Action A, the peer restarted: [`Association::restart`].
//! - Action B, both sides initiated at the same time: [`Association::collide`].
//! - Action D, both tags match: [`Association::establish`].

use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::VerificationTag;

use super::peer_parameters::{acceptable, listed_addresses};
use super::state::{AssociationState, CookieWait, Repeat};
use super::{Association, Context};
use crate::cookie::{Cookie, TieTags};
use crate::ecn::CongestionMarks;
use crate::event::{CloseReason, Event};
use crate::route::Route;
use crate::rx::Receiver;
use crate::streams::Streams;

/// Stale cookies before the set-up fails.
const MAX_STALE_COOKIES: u32 = 3;

impl Association {
    /// Takes action A of table 12: the peer restarted (section 5.2.4.1).
    ///
    /// 1. End the data that is not acknowledged, of which the user is notified, and take over tags and TSNs
    ///    of the cookie.
    /// 2. Build the paths, and agree on keys and chunk protection.
    /// 3. Deliver what was received completely, and reset both directions (section 5.1.1).
    /// 4. Enter ESTABLISHED: addresses, sources and heartbeats begin again.
    /// 5. Notify the user: RESTART (section 11.2).
    pub(crate) fn restart(&mut self, cookie: &Cookie, route: &Route, cx: &mut Context<'_>) {
        // 1.
        let failures = self
            .sender
            .restart(cookie.local_initial_tsn, &self.config, &mut self.paths);
        self.local_tag = cookie.local_tag;
        self.local_initial_tsn = cookie.local_initial_tsn;
        self.peer_tag = cookie.peer_tag;
        self.tie_tags = None;
        self.replies.clear();
        self.ecn = CongestionMarks::default();
        // 2.
        self.record_init_ack(cookie, cx);
        self.extensions = cookie.extensions;
        self.build_paths(cookie, route, cx);
        self.agree_on_keys(Some(&cookie.ours), cookie.theirs.clone());
        self.agree_on_protection(cookie.protection.as_deref(), false);
        self.restart_protection(cookie.protection.as_deref(), cx.now);
        let outbound = self
            .config
            .streams
            .outbound_streams
            .min(cookie.peer_inbound_streams);
        let inbound = self
            .config
            .streams
            .max_inbound_streams
            .min(cookie.peer_outbound_streams);
        // 3. Data that waits for a reset has been acknowledged: it is delivered.
        self.receiver.release_at_end();
        // No message is queued, so none can be for a stream that does not exist.
        let interleaving = self.extensions.interleaving;
        let _ = self
            .sender
            .negotiated(cookie.peer_a_rwnd, outbound, self.extensions);
        self.receiver
            .restart(cookie.peer_initial_tsn, inbound, interleaving, &self.config);
        self.apply_extensions_to_receiver();
        self.streams = Streams::new(cookie.local_initial_tsn, cookie.peer_initial_tsn);
        // 4.
        self.state = AssociationState::Established;
        self.apply_advice(cookie.preferred, cookie.adaptation_layer);
        self.start_dynamic_addresses(cx);
        self.note_selected_sources(cx);
        self.liveness.clear_errors();
        self.events.restart();
        self.start_heartbeats(cx);
        // 5.
        self.events.extend(failures);
        self.events.push(Event::Restarted);
    }

    /// Action B of table 12: both sides set up at the same time, and the peer's tag is a new one.
    pub(crate) fn collide(&mut self, cookie: &Cookie, route: &Route, cx: &mut Context<'_>) {
        self.peer_tag = cookie.peer_tag;
        self.extensions = cookie.extensions;
        if self.state.is_setup() {
            self.resend_all();
            if self.config.paths.wildcard_addresses {
                self.advertised
                    .record_source_only(cookie.local, cx.local_addresses);
            }
            let given = self.paths.iter().filter(|p| p.is_confirmed());
            let given: Vec<IpAddr> = given.map(|p| p.remote()).collect();
            self.build_paths(cookie, route, cx);
            self.paths.confirm_given(&given);
            self.agree_on_keys(Some(&cookie.ours), cookie.theirs.clone());
            self.agree_on_protection(cookie.protection.as_deref(), true);
            self.negotiate(
                cookie.peer_a_rwnd,
                cookie.peer_inbound_streams,
                cookie.peer_outbound_streams,
                cookie.peer_initial_tsn,
            );
            self.apply_advice(cookie.preferred, cookie.adaptation_layer);
            self.establish(false, cx);
        } else {
            self.agree_on_keys(Some(&cookie.ours), cookie.theirs.clone());
            self.agree_on_protection(cookie.protection.as_deref(), true);
            let inbound = self
                .config
                .streams
                .max_inbound_streams
                .min(cookie.peer_outbound_streams);
            let interleaving = self.extensions.interleaving;
            self.sender.set_extensions(self.extensions);
            self.receiver =
                Receiver::new(cookie.peer_initial_tsn, inbound, interleaving, &self.config);
            self.apply_extensions_to_receiver();
            self.streams = Streams::new(self.local_initial_tsn, cookie.peer_initial_tsn);
            self.sender.queue_mut().release();
            self.start_dynamic_addresses(cx);
        }
    }

    /// Returns whether the peer has acknowledged or sent data.
    pub(crate) fn has_exchanged_data(&self) -> bool {
        self.receiver.has_received() || self.sender.was_acknowledged()
    }

    /// ERROR with Stale Cookie (section 5.2.6): a new INIT requests a longer life, a few times.
    pub(crate) fn on_stale_cookie(&mut self, cx: &mut Context<'_>) {
        let AssociationState::CookieEchoed(echoed) = &self.state else {
            return;
        };
        let stale = echoed.stale + 1;
        if stale > MAX_STALE_COOKIES {
            return self.close(CloseReason::StaleCookie, cx);
        }
        // The measured round-trip time, and one second more.
        let rtt = echoed
            .sent
            .map_or(core::time::Duration::ZERO, |sent| cx.now.since(sent));
        let preserve = u32::try_from(rtt.as_millis())
            .unwrap_or(u32::MAX)
            .saturating_add(1000);
        self.resend_all();
        self.peer_tag = VerificationTag::ZERO;
        self.state = AssociationState::CookieWait(CookieWait {
            init: Repeat::now(),
            sent: None,
            preserve: Some(preserve),
            stale,
        });
    }

    /// Returns the Tie-Tags, created at the first call (section 5.2.2).
    pub(crate) fn tie_tags(&mut self, cx: &mut Context<'_>) -> TieTags {
        *self.tie_tags.get_or_insert_with(|| TieTags {
            local: cx.random.nonzero_u32(),
            peer: cx.random.nonzero_u32(),
        })
    }

    /// Returns the addresses of an INIT and its source that are new to this association; none if those
    /// are only of a family that this side lacks: a peer advertises such addresses in INIT but not in
    /// INIT ACK.
    pub(crate) fn new_addresses(
        &self,
        addresses: &[IpAddr],
        source: IpAddr,
        cx: &Context<'_>,
    ) -> Vec<IpAddr> {
        let is_new = |address: &IpAddr| !self.paths.has_address(*address);
        let locals = self.locals(cx);
        let usable = listed_addresses(addresses, source, &locals);
        if !is_new(&source) && !usable.iter().any(is_new) {
            return Vec::new();
        }
        let all = core::iter::once(source).chain(acceptable(addresses, source));
        all.filter(is_new).collect()
    }
}
