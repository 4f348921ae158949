//! Normal establishment of an association (RFC 9260 section 5.1).
//!
//! The initiating side:
//!
//! 1. INIT to the first address, T1-init (step A): [`Association::initiate`].
//! 2. INIT ACK is validated; its addresses become paths, its extensions are negotiated; COOKIE ECHO, with
//!    DATA behind it, and T1-cookie (step C): [`Association::on_init_ack`].
//! 3. COOKIE ACK enters ESTABLISHED (step E): [`Association::on_cookie_ack`].
//!
//! The other side answers INIT without an association (`endpoint::init`). Its association is made of the
//! cookie that the peer echoes (step D): [`Association::adopt`]. Set-ups that meet an existing
//! association are in `collision`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{Init, ParameterType, Parameters, Tsn, VerificationTag};

use super::peer_parameters::{
    InitFault, PeerParameters, acceptable, ip_addresses, listed_addresses, shortened,
};
use super::state::{AssociationState, CookieEchoed, Repeat};
use super::{Association, Context};
use crate::addresses::{AddressVersion, AdvertisedAddresses, LocalAddresses, MAX_ADVERTISED};
use crate::auth::{Auth, KeyVector};
use crate::cookie::Cookie;
use crate::event::{AbortCause, CloseReason, Event};
use crate::path::Paths;
use crate::research::AddressVerification;
use crate::route::{Ecn, PeerAddress, Route, in_scope};
use crate::streams::Streams;

impl Association {
    /// ASSOCIATE: the first packet will be an INIT to the first address.
    pub(crate) fn initiate(&mut self, peers: &[PeerAddress], cx: &mut Context<'_>) {
        let locals = self.advertised.present(cx.local_addresses);
        let offered = self.config.offered();
        self.auth = Auth::offered(offered, &self.config.security.authentication, cx.random);
        let protection = self.config.security.protection.as_deref();
        if protection.is_some_and(|offer| offer.key_management().is_some()) {
            self.sender.queue_mut().await_keys();
        }
        for peer in peers {
            let remote = peer.address;
            let like = Route {
                local: None,
                remote,
                encapsulation: peer.encapsulation,
                ecn: Ecn::NotCapable,
            };
            self.paths
                .add_address(remote, &like, true, &locals, cx.selection, &self.config);
        }
    }

    /// Returns the tag, initial TSN, address version and key vector of this side's INIT, which an INIT ACK
    /// repeats during set-up (section 5.2.1). The addresses that were removed since are left out. The same
    /// tag implies the same random number (RFC 4895, section 6.1).
    pub(crate) fn repeat_init(
        &mut self,
        local_addresses: &LocalAddresses,
    ) -> (VerificationTag, Tsn, AddressVersion, KeyVector) {
        self.advertised.leave_out_removed(local_addresses);
        (
            self.local_tag,
            self.local_initial_tsn,
            self.advertised.version(),
            self.auth.key_vector().cloned().unwrap_or_default(),
        )
    }

    /// Returns the local addresses of this side's INIT that are present, and the last of its version up to
    /// which all are among them.
    pub(crate) fn addresses_of_init(
        &self,
        local: &LocalAddresses,
    ) -> (Vec<IpAddr>, AddressVersion) {
        let present = self.advertised.present(local);
        let all = local.advertised(self.advertised.version());
        let together = all.iter().take_while(|a| present.contains(a)).last();
        let last = together.and_then(|a| local.since(*a)).unwrap_or_default();
        (present.into_owned(), last)
    }

    /// ABORT whose sender has an association with this host that lacks addresses of the INIT (section
    /// 3.3.10.11): one whose INIT ACK had to leave them out and that meets this set-up in COOKIE-ECHOED
    /// (section 5.2.1), or one from before a restart (section 5.2.2). The set-up begins again without
    /// them; ASCONF adds them later. Returns `false` if the ABORT ends this set-up.
    ///
    /// 1. Only in COOKIE-WAIT, and only for addresses of this host.
    /// 2. Discard the ABORT if the last INIT did not list them: it answers an earlier one.
    /// 3. Leave them out, also as source addresses.
    /// 4. Send INIT.
    pub(super) fn on_addresses_refused(
        &mut self,
        refused: Parameters<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        // 1.
        if !matches!(self.state, AssociationState::CookieWait(_)) {
            return false;
        }
        let mut refused: Vec<IpAddr> = ip_addresses(refused).take(MAX_ADVERTISED).collect();
        refused.retain(|a| cx.local_addresses.all().contains(a));
        if refused.is_empty() {
            return false;
        }
        // 2.
        let present = self.advertised.present(cx.local_addresses);
        if !present.iter().any(|a| refused.contains(a)) {
            return true;
        }
        // 3.
        if !self.advertised.leave_out(&refused, cx.local_addresses) {
            return false;
        }
        self.select_sources(None, cx);
        if self
            .paths
            .iter()
            .any(|p| p.local().is_some_and(|a| refused.contains(&a)))
        {
            return false;
        }
        // 4.
        if let AssociationState::CookieWait(wait) = &mut self.state {
            wait.init.due = true;
        }
        true
    }

    /// INIT ACK in COOKIE-WAIT (sections 3.3.3 and 5.1 C). In any other state it is discarded.
    pub(crate) fn on_init_ack(
        &mut self,
        init: &Init<'_>,
        route: &Route,
        datagram: &Bytes,
        cx: &mut Context<'_>,
    ) {
        let AssociationState::CookieWait(wait) = &self.state else {
            return;
        };
        let (sent, stale) = (wait.sent, wait.stale);
        let random = self.local_initial_tsn.value();
        let read = PeerParameters::read(init, &self.config);
        let agreed = read.and_then(|mut peer| {
            peer.agree_on_protection(&self.config, random)?;
            Ok(peer)
        });
        let peer = match agreed {
            Ok(peer) => peer,
            Err(fault) => return self.refuse_init_ack(init, fault, route, cx),
        };
        let Some(cookie) = peer.cookie else {
            return self.refuse(init.tag, route, cx, |causes| {
                causes.missing_parameters(&[ParameterType::STATE_COOKIE])
            });
        };
        let wildcards = self.config.paths.wildcard_addresses;
        self.advertised
            .record_source(route.local, wildcards, cx.local_addresses);
        if !self.take_peer(&peer, route, cx) {
            return;
        }
        self.peer_tag = peer.tag;
        if let Some(sent) = sent {
            let rtt = cx.now.since(sent);
            let current = self.paths.current();
            self.paths[current].on_set_up_measured(rtt, &self.config);
        }
        self.liveness.clear_errors();
        self.state = AssociationState::CookieEchoed(Box::new(CookieEchoed {
            echo: Repeat::now(),
            cookie: datagram.slice_ref(cookie),
            unrecognized: padded_concat(&peer.unrecognized),
            sent: None,
            stale,
        }));
    }

    /// Applies addresses, streams, window and TSN of the peer. Returns `false` if none of its addresses
    /// was given by the user: then COOKIE ECHO has no confirmed destination (section 5.4).
    ///
    /// 1. Build the paths (section 5.1.2): to the address that answered, if the user gave it, to the other
    ///    addresses of the user that the peer advertises, and to the rest, which is not confirmed (section 5.4).
    /// 2. Record the peer's addresses that get no path.
    /// 3. Agree on extensions, on the keys of RFC 4895 (section 6.1) and on the chunk protection.
    /// 4. Apply streams, window and TSN (section 5.1.1).
    /// 5. Apply Set Primary Address and Adaptation Layer Indication (RFC 5061, sections 4.2.4 and 4.2.6).
    fn take_peer(
        &mut self,
        peer: &PeerParameters<'_>,
        route: &Route,
        cx: &mut Context<'_>,
    ) -> bool {
        // 1.
        let locals = self.advertised_locals(Some(route), cx);
        let given = self.paths.iter().filter(|p| p.is_confirmed());
        let asked = || given.clone().map(|p| p.remote());
        let is_asked = |a: IpAddr| asked().any(|asked| asked == a);
        let listed = listed_addresses(&peer.addresses, route.remote, &locals);
        let mut paths = Paths::new();
        // The address that answered comes first if the user gave it: it is known to work.
        let trusted = is_asked(route.remote);
        if trusted {
            paths.add(route.for_reply(), true, &self.config);
        }
        // The user's order among the addresses that the peer advertised, then the rest.
        for remote in asked().filter(|a| listed.contains(a)) {
            let like = self.paths.like(remote, route);
            let id = paths.add_address(remote, &like, true, &locals, cx.selection, &self.config);
            if let Some(id) = id {
                paths[id].set_encapsulation_unverified(like.encapsulation != route.encapsulation);
            }
        }
        if paths.len() == 0 {
            return false;
        }
        if !trusted {
            paths.add(route.for_reply(), false, &self.config);
        }
        let confirmed =
            self.config.research.policies.address_verification == AddressVerification::Trust;
        for &remote in listed.iter().filter(|a| !is_asked(**a)) {
            paths.add_address(
                remote,
                route,
                confirmed,
                &locals,
                cx.selection,
                &self.config,
            );
        }
        if self.config.paths.monitor_pairs {
            paths.add_address(
                route.remote,
                route,
                false,
                &locals,
                cx.selection,
                &self.config,
            );
        }
        // 2.
        acceptable(&peer.addresses, route.remote).for_each(|a| paths.record_address(a));
        self.paths = paths;
        self.sender.count_on_new_paths(&mut self.paths);
        // 3.
        self.extensions = self.config.offered().and(peer.offered);
        let theirs = peer.auth_vector();
        self.agree_on_keys(None, theirs);
        self.agree_on_protection(peer.protection, true);
        // 4.
        self.negotiate(
            peer.a_rwnd,
            peer.inbound_streams,
            peer.outbound_streams,
            peer.initial_tsn,
        );
        // 5.
        self.apply_advice(peer.preferred_by(route.remote), peer.adaptation_layer);
        true
    }

    pub(super) fn negotiate(
        &mut self,
        a_rwnd: u32,
        peer_inbound: u16,
        peer_outbound: u16,
        peer_initial_tsn: carrick_wire::Tsn,
    ) {
        let outbound = self.config.streams.outbound_streams.min(peer_inbound);
        let inbound = self.config.streams.max_inbound_streams.min(peer_outbound);
        let interleaving = self.extensions.interleaving;
        let refused = self.sender.negotiated(a_rwnd, outbound, self.extensions);
        self.events.extend(refused);
        self.receiver
            .negotiated(peer_initial_tsn, inbound, interleaving);
        self.apply_extensions_to_receiver();
        self.streams = Streams::new(self.local_initial_tsn, peer_initial_tsn);
    }

    /// Lets the receiver use the extensions in force.
    pub(super) fn apply_extensions_to_receiver(&mut self) {
        let partial = self.extensions.partial_reliability;
        self.receiver.allow_unfinished(partial);
        self.receiver.set_nr_sack(self.extensions.nr_sack);
        self.receiver.set_key_management(self.key_management());
    }

    fn refuse_init_ack(
        &mut self,
        init: &Init<'_>,
        fault: InitFault<'_>,
        route: &Route,
        cx: &mut Context<'_>,
    ) {
        match fault {
            InitFault::ZeroTag => {
                let cause =
                    AbortCause::new(carrick_wire::CauseCode::INVALID_MANDATORY_PARAMETER.0, &[]);
                let header = carrick_wire::CommonHeader {
                    tag: self.local_tag,
                    ..self.header()
                };
                let dscp = self.dscp(self.paths.find(route), route.remote);
                cx.replies
                    .abort(route.for_reply(), dscp, header, true, |_| {});
                self.close(CloseReason::AbortedByProtocol(cause), cx);
            }
            // As erratum 7148 of RFC 9260 has it, also for the window.
            InitFault::NoStreams | InitFault::SmallWindow => {
                self.refuse(init.tag, route, cx, |causes| {
                    causes.invalid_mandatory_parameter()
                })
            }
            InitFault::HostName(parameter) => self.refuse(init.tag, route, cx, |causes| {
                causes.unresolvable_address(shortened(parameter))
            }),
            InitFault::Malformed => self.refuse(init.tag, route, cx, |causes| {
                causes.protocol_violation(b"malformed parameter in INIT ACK")
            }),
            InitFault::Unprotected(cause) => {
                self.refuse_for(AbortCause::new(cause.0, &[]), init.tag, route, cx)
            }
            InitFault::Unauthenticated => self.refuse(init.tag, route, cx, |causes| {
                causes.protocol_violation(b"dynamic addresses without authentication")
            }),
        }
    }

    /// Aborts the set-up for this cause, which the peer gets too.
    fn refuse_for(
        &mut self,
        cause: AbortCause,
        tag: VerificationTag,
        route: &Route,
        cx: &mut Context<'_>,
    ) {
        let header = carrick_wire::CommonHeader {
            tag,
            ..self.header()
        };
        let dscp = self.dscp(self.paths.find(route), route.remote);
        let route = route.for_reply();
        cx.replies.abort(route, dscp, header, false, |causes| {
            causes.raw(carrick_wire::CauseCode(cause.code), &cause.information);
        });
        self.close(CloseReason::AbortedByProtocol(cause), cx);
    }

    /// Aborts the set-up and reports the cause to the peer.
    fn refuse(
        &mut self,
        tag: VerificationTag,
        route: &Route,
        cx: &mut Context<'_>,
        causes: impl FnOnce(&mut carrick_wire::CauseWriter<'_>),
    ) {
        let header = carrick_wire::CommonHeader {
            tag,
            ..self.header()
        };
        let dscp = self.dscp(self.paths.find(route), route.remote);
        cx.replies
            .abort(route.for_reply(), dscp, header, false, causes);
        let cause = AbortCause::new(carrick_wire::CauseCode::INVALID_MANDATORY_PARAMETER.0, b"");
        self.close(CloseReason::AbortedByProtocol(cause), cx);
    }

    /// COOKIE ACK: only COOKIE-ECHOED waits for it (section 5.2.5).
    pub(crate) fn on_cookie_ack(&mut self, cx: &mut Context<'_>) {
        let AssociationState::CookieEchoed(echoed) = &self.state else {
            return;
        };
        if let Some(sent) = echoed.sent {
            let rtt = cx.now.since(sent);
            let current = self.paths.current();
            self.paths[current].on_set_up_measured(rtt, &self.config);
        }
        self.establish(false, cx);
    }

    /// Becomes the association that a valid cookie describes (section 5.1.5, step 5).
    pub(crate) fn establish_from(&mut self, cookie: &Cookie, route: &Route, cx: &mut Context<'_>) {
        self.peer_tag = cookie.peer_tag;
        self.record_init_ack(cookie, cx);
        self.extensions = cookie.extensions;
        self.build_paths(cookie, route, cx);
        self.agree_on_keys(Some(&cookie.ours), cookie.theirs.clone());
        self.agree_on_protection(cookie.protection.as_deref(), false);
        self.negotiate(
            cookie.peer_a_rwnd,
            cookie.peer_inbound_streams,
            cookie.peer_outbound_streams,
            cookie.peer_initial_tsn,
        );
        self.apply_advice(cookie.preferred, cookie.adaptation_layer);
        let current = self.paths.current();
        self.paths[current].on_set_up_round_trip(cx.now.since(cookie.created));
        self.establish(true, cx);
    }

    /// Builds the paths. Only the address that the INIT ACK was sent to is confirmed (section 5.4),
    /// unless the policy trusts all addresses.
    pub(super) fn build_paths(&mut self, cookie: &Cookie, route: &Route, cx: &mut Context<'_>) {
        let like = Route {
            local: cookie.local,
            remote: cookie.remote,
            encapsulation: cookie.encapsulation,
            ecn: Ecn::NotCapable,
        };
        let locals = self.advertised_locals(Some(&like), cx);
        let mut paths = Paths::new();
        paths.add(like, true, &self.config);
        let trusted =
            self.config.research.policies.address_verification == AddressVerification::Trust;
        for &remote in &listed_addresses(&cookie.addresses, cookie.remote, &locals) {
            let like = self.paths.like(remote, &like);
            paths.add_address(remote, &like, trusted, &locals, cx.selection, &self.config);
        }
        if self.config.paths.monitor_pairs {
            paths.add_address(
                cookie.remote,
                &like,
                false,
                &locals,
                cx.selection,
                &self.config,
            );
        }
        paths.set_encapsulation(route.remote, route.encapsulation);
        acceptable(&cookie.addresses, cookie.remote).for_each(|a| paths.record_address(a));
        self.paths = paths;
        self.sender.count_on_new_paths(&mut self.paths);
    }

    /// Records the addresses in the INIT ACK with this cookie.
    pub(super) fn record_init_ack(&mut self, cookie: &Cookie, cx: &Context<'_>) {
        let local = cx.local_addresses;
        self.advertised = AdvertisedAddresses::new(cookie.address_version);
        if self.config.paths.wildcard_addresses {
            self.advertised.record_source_only(cookie.local, local);
        } else if let Some(last) = cookie.last_advertised {
            let is_in_scope = |a| in_scope(a, cookie.remote);
            self.advertised
                .record_init_ack(last, cookie.local, is_in_scope, local);
        }
    }

    /// Applies Set Primary IP Address and Adaptation Layer Indication of an INIT or INIT ACK: new data
    /// goes to the preferred address as soon as it is confirmed, and the indication is passed to the
    /// user.
    pub(super) fn apply_advice(&mut self, preferred: Option<IpAddr>, adaptation: Option<u32>) {
        self.peer_adaptation_layer = adaptation;
        let path = self.paths.iter().find(|p| Some(p.remote()) == preferred);
        if let Some(id) = path
            .map(|p| p.id())
            .filter(|_| self.extensions.dynamic_addresses)
        {
            self.paths.set_primary(id);
        }
    }

    /// Enters ESTABLISHED: notifies the user, verifies addresses, starts heartbeats.
    pub(crate) fn establish(&mut self, accepted: bool, cx: &mut Context<'_>) {
        self.state = AssociationState::Established;
        self.accepted = accepted;
        self.liveness.clear_errors();
        cx.stats.established += 1;
        cx.stats.accepted += u64::from(accepted);
        if !self.start_key_management(cx.now) {
            let established = self.established_event();
            self.events.push(established);
            self.start_dynamic_addresses(cx);
        }
        self.notify_unauthenticated();
        self.note_selected_sources(cx);
        self.start_heartbeats(cx);
        for path in self.paths.iter_mut() {
            path.on_established(cx.now);
        }
        self.choose_path(cx.now);
    }

    pub(super) fn established_event(&self) -> Event {
        Event::Established {
            peer_addresses: self.paths.iter().map(|p| p.remote()).collect(),
            outbound_streams: self.sender.queue().outbound_streams(),
            inbound_streams: self.receiver.inbound_streams(),
            accepted: self.accepted,
        }
    }

    /// Marks data that was bundled with a COOKIE ECHO for retransmission.
    pub(crate) fn resend_all(&mut self) {
        self.sender.resend_all(&mut self.paths);
        self.report_abandoned();
    }
}

/// Concatenates parameters, each padded to four bytes.
fn padded_concat(parameters: &[&[u8]]) -> Vec<u8> {
    let mut all = Vec::new();
    for parameter in parameters {
        all.extend_from_slice(parameter);
        all.resize(carrick_wire::padded(all.len()), 0);
    }
    all
}
