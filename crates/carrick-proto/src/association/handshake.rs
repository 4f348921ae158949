//! Set-up on the initiating side, and COOKIE ECHO for an existing association.
//!
//! The initiating side (RFC 9260 section 5.1):
//!
//! 1. INIT to the first address, T1-init (step A): [`Association::initiate`].
//! 2. INIT ACK is validated; its addresses become paths, its extensions are negotiated; COOKIE ECHO, with
//!    DATA behind it, and T1-cookie (step C): [`Association::on_init_ack`].
//! 3. COOKIE ACK enters ESTABLISHED (step E): [`Association::on_cookie_ack`].
//!
//! A cookie of the peer (section 5.2.4, table 12) makes a new association ([`Association::adopt`]),
//! restarts the existing one (action A, [`Association::restart`]), or completes a set-up of both sides at
//! once (action B, [`Association::collide`]).

use alloc::vec::Vec;
use core::net::IpAddr;

use bytes::Bytes;
use carrick_wire::{Init, ParameterType, VerificationTag};

use super::peer_parameters::{InitFault, PeerParameters};
use super::state::{CookieEchoed, CookieWait, Repeat, State};
use super::{Association, Context};
use crate::addresses::AdvertisedAddresses;
use crate::auth::Auth;
use crate::ecn::CongestionMarks;
use crate::endpoint::{Cookie, PeerAddress, shortened};
use crate::error::AbortCause;
use crate::event::{CloseReason, Event};
use crate::path::{PathId, Paths};
use crate::research::AddressVerification;
use crate::route::{Ecn, Route, in_scope, is_own_address};
use crate::rx::Receiver;
use crate::streams::Streams;

/// Stale cookies before the set-up fails.
const MAX_STALE_COOKIES: u32 = 3;

/// Tie-Tags, by which the cookie of a restarted peer is recognized (section 5.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TieTags {
    pub(crate) local: u32,
    pub(crate) peer: u32,
}

impl Association {
    /// ASSOCIATE: the first packet will be an INIT to the first address.
    pub(crate) fn initiate(&mut self, peers: &[PeerAddress], cx: &mut Context<'_>) {
        let locals = self.advertised.present(cx.local_addresses);
        self.auth = Auth::offered(&self.config, cx.random);
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
        self.state = State::CookieWait(CookieWait {
            init: Repeat::now(),
            sent: None,
            preserve: None,
            stale: 0,
        });
    }

    /// INIT ACK in COOKIE-WAIT (sections 3.3.3 and 5.1 C). In any other state it is discarded.
    pub(crate) fn on_init_ack(
        &mut self,
        init: &Init<'_>,
        route: &Route,
        datagram: &Bytes,
        cx: &mut Context<'_>,
    ) {
        let State::CookieWait(wait) = &self.state else {
            return;
        };
        let (sent, stale) = (wait.sent, wait.stale);
        let peer = match PeerParameters::read(init, &self.config) {
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
            self.paths[current].rto.measured(rtt, &self.config);
        }
        self.liveness.clear_errors();
        self.state = State::CookieEchoed(CookieEchoed {
            echo: Repeat::now(),
            cookie: datagram.slice_ref(cookie),
            unrecognized: padded_concat(&peer.unrecognized),
            sent: None,
            stale,
        });
    }

    /// Applies addresses, streams, window and TSN of the peer. Returns `false` if none of its addresses
    /// was given by the user: then COOKIE ECHO has no confirmed destination (section 5.4).
    fn take_peer(
        &mut self,
        peer: &PeerParameters<'_>,
        route: &Route,
        cx: &mut Context<'_>,
    ) -> bool {
        let locals = self.advertised_locals(Some(route), cx);
        let given = self.paths.iter().filter(|p| p.confirmed);
        let asked: Vec<IpAddr> = given.map(|p| p.remote).collect();
        let listed = listed_addresses(&peer.addresses, route.remote, &locals);
        let mut paths = Paths::new();
        // The address that answered comes first if the user gave it: it is known to work.
        let trusted = asked.contains(&route.remote);
        if trusted {
            paths.add(route.for_reply(), true, &self.config);
        }
        // The user's order among the addresses that the peer advertised, then the rest.
        for &remote in asked.iter().filter(|a| listed.contains(a)) {
            let like = self.paths.like(remote, route);
            let id = paths.add_address(remote, &like, true, &locals, cx.selection, &self.config);
            if let Some(id) = id {
                paths[id].way_untried = like.encapsulation != route.encapsulation;
            }
        }
        if paths.len() == 0 {
            return false;
        }
        if !trusted {
            paths.add(route.for_reply(), false, &self.config);
        }
        let believed =
            self.config.research.policies.address_verification == AddressVerification::Trust;
        for &remote in listed.iter().filter(|a| !asked.contains(a)) {
            paths.add_address(remote, route, believed, &locals, cx.selection, &self.config);
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
        acceptable(&peer.addresses, route.remote).for_each(|a| paths.note(a));
        self.paths = paths;
        self.sender.count_on_new_paths(&mut self.paths);
        self.extensions = self.config.offered().and(peer.offered);
        let theirs = peer.auth.vector().unwrap_or_default();
        self.agree_on_keys(None, theirs);
        self.agree_on_protection(peer.protection, true);
        self.negotiate(
            peer.a_rwnd,
            peer.inbound_streams,
            peer.outbound_streams,
            peer.initial_tsn,
        );
        self.apply_advice(peer.preferred_by(route.remote), peer.adaptation_layer);
        true
    }

    fn negotiate(
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
        self.receiver = Receiver::new(peer_initial_tsn, inbound, interleaving, &self.config);
        let partial = self.extensions.partial_reliability;
        self.receiver.allow_unfinished(partial);
        self.receiver.set_nr_sack(self.extensions.nr_sack);
        self.streams = Streams::new(self.local_initial_tsn, peer_initial_tsn);
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
                cx.replies.abort(route.for_reply(), header, true, |_| {});
                self.close(CloseReason::AbortedByProtocol(cause), cx);
            }
            // The packet is discarded and the state kept (section 3.3.3, a_rwnd).
            InitFault::SmallWindow => {
                let header = carrick_wire::CommonHeader {
                    tag: init.tag,
                    ..self.header()
                };
                cx.replies
                    .abort(route.for_reply(), header, false, |causes| {
                        causes.invalid_mandatory_parameter()
                    });
            }
            InitFault::NoStreams => self.refuse(init.tag, route, cx, |causes| {
                causes.invalid_mandatory_parameter()
            }),
            InitFault::HostName(parameter) => self.refuse(init.tag, route, cx, |causes| {
                causes.unresolvable_address(shortened(parameter))
            }),
            InitFault::Malformed => self.refuse(init.tag, route, cx, |causes| {
                causes.protocol_violation(b"malformed parameter in INIT ACK")
            }),
            InitFault::Unprotected => self.refuse(init.tag, route, cx, |causes| {
                causes.protocol_violation(b"the protection that is required is missing")
            }),
            InitFault::Unauthenticated => self.refuse(init.tag, route, cx, |causes| {
                causes.protocol_violation(b"dynamic addresses without authentication")
            }),
        }
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
        cx.replies.abort(route.for_reply(), header, false, causes);
        let cause = AbortCause::new(carrick_wire::CauseCode::INVALID_MANDATORY_PARAMETER.0, b"");
        self.close(CloseReason::AbortedByProtocol(cause), cx);
    }

    /// COOKIE ACK: only COOKIE-ECHOED waits for it (section 5.2.5).
    pub(crate) fn on_cookie_ack(&mut self, cx: &mut Context<'_>) {
        let State::CookieEchoed(echoed) = &self.state else {
            return;
        };
        if let Some(sent) = echoed.sent {
            let rtt = cx.now.since(sent);
            let current = self.paths.current();
            self.paths[current].rto.measured(rtt, &self.config);
        }
        self.establish(false, cx);
    }

    /// Enters ESTABLISHED: notifies the user, verifies addresses, starts heartbeats.
    pub(crate) fn establish(&mut self, accepted: bool, cx: &mut Context<'_>) {
        self.state = State::Established;
        self.accepted = accepted;
        self.liveness.clear_errors();
        cx.stats.established += 1;
        self.notify_established();
        self.notify_unauthenticated();
        self.start_dynamic_addresses(cx);
        self.note_selected_sources(cx);
        self.start_heartbeats(cx);
        for path in self.paths.iter_mut() {
            path.on_established(cx.now);
        }
    }

    /// Applies Set Primary IP Address and Adaptation Layer Indication of an INIT or INIT ACK: new data
    /// goes to the preferred address as soon as it is confirmed, and the indication is passed to the
    /// user.
    pub(super) fn apply_advice(&mut self, preferred: Option<IpAddr>, adaptation: Option<u32>) {
        self.peer_adaptation_layer = adaptation;
        let path = self.paths.iter().find(|p| Some(p.remote) == preferred);
        if let Some(id) = path
            .map(|p| p.id)
            .filter(|_| self.extensions.dynamic_addresses)
        {
            self.paths.set_primary(id);
        }
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

    fn notify_established(&mut self) {
        self.events.push(Event::Established {
            peer_addresses: self.paths.iter().map(|p| p.remote).collect(),
            outbound_streams: self.sender.outbound_streams(),
            inbound_streams: self.receiver.inbound_streams(),
            accepted: self.accepted,
        });
    }

    /// Becomes the association that a valid cookie describes (section 5.1.5, step 5).
    pub(crate) fn adopt(&mut self, cookie: &Cookie, route: &Route, cx: &mut Context<'_>) {
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
        self.establish(true, cx);
    }

    /// Builds the paths. Only the address that the INIT ACK was sent to is confirmed (section 5.4),
    /// unless the policy trusts all addresses.
    fn build_paths(&mut self, cookie: &Cookie, route: &Route, cx: &mut Context<'_>) {
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
        acceptable(&cookie.addresses, cookie.remote).for_each(|a| paths.note(a));
        self.paths = paths;
        self.sender.count_on_new_paths(&mut self.paths);
    }

    /// Action A of table 12: the peer restarted.
    pub(crate) fn restart(&mut self, cookie: &Cookie, route: &Route, cx: &mut Context<'_>) {
        let failures = self
            .sender
            .restart(cookie.local_initial_tsn, &self.config, &mut self.paths);
        self.local_tag = cookie.local_tag;
        self.local_initial_tsn = cookie.local_initial_tsn;
        self.peer_tag = cookie.peer_tag;
        self.tie_tags = None;
        self.replies.clear();
        self.ecn = CongestionMarks::default();
        self.record_init_ack(cookie, cx);
        self.extensions = cookie.extensions;
        self.build_paths(cookie, route, cx);
        self.agree_on_keys(Some(&cookie.ours), cookie.theirs.clone());
        self.agree_on_protection(cookie.protection.as_deref(), false);
        if let Some(protected) = &mut self.protection {
            protected.on_restart();
        }
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
        // Data that waits for a reset has been acknowledged: it is delivered.
        self.receiver.release_at_end();
        // No message is queued, so none can be for a stream that does not exist.
        let interleaving = self.extensions.interleaving;
        let _ = self
            .sender
            .negotiated(cookie.peer_a_rwnd, outbound, self.extensions);
        self.receiver
            .restart(cookie.peer_initial_tsn, inbound, interleaving, &self.config);
        let partial = self.extensions.partial_reliability;
        self.receiver.allow_unfinished(partial);
        self.receiver.set_nr_sack(self.extensions.nr_sack);
        self.streams = Streams::new(cookie.local_initial_tsn, cookie.peer_initial_tsn);
        self.state = State::Established;
        self.apply_advice(cookie.preferred, cookie.adaptation_layer);
        self.start_dynamic_addresses(cx);
        self.note_selected_sources(cx);
        self.liveness.clear_errors();
        self.events.restart();
        self.start_heartbeats(cx);
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
            let given = self.paths.iter().filter(|p| p.confirmed);
            let given: Vec<IpAddr> = given.map(|p| p.remote).collect();
            self.build_paths(cookie, route, cx);
            self.paths.trust(&given);
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
            let partial = self.extensions.partial_reliability;
            self.receiver.allow_unfinished(partial);
            self.receiver.set_nr_sack(self.extensions.nr_sack);
            self.streams = Streams::new(self.local_initial_tsn, cookie.peer_initial_tsn);
            self.sender.release();
            self.start_dynamic_addresses(cx);
        }
    }

    /// Returns whether the peer has acknowledged or sent data.
    pub(crate) fn has_exchanged_data(&self) -> bool {
        self.receiver.has_received() || self.sender.was_acknowledged()
    }

    /// Marks data that was bundled with a COOKIE ECHO for retransmission.
    pub(crate) fn resend_all(&mut self) {
        self.sender.resend_all(&mut self.paths);
        self.report_abandoned();
    }

    /// ERROR with Stale Cookie (section 5.2.6): a new INIT asks for a longer life, a few times.
    pub(crate) fn on_stale_cookie(&mut self, cx: &mut Context<'_>) {
        let State::CookieEchoed(echoed) = &self.state else {
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
        self.state = State::CookieWait(CookieWait {
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
        let is_new = |address: &IpAddr| !self.paths.knows(*address);
        let locals = self.locals(cx);
        let usable = listed_addresses(addresses, source, &locals);
        if !is_new(&source) && !usable.iter().any(is_new) {
            return Vec::new();
        }
        let all = core::iter::once(source).chain(acceptable(addresses, source));
        all.filter(is_new).collect()
    }

    /// Returns the path of a route.
    pub(crate) fn path_of(&self, route: &Route) -> Option<PathId> {
        self.paths.find(route)
    }

    /// Returns the route back to a packet's source, from its destination address (section 6.4), unless
    /// that is being added or deleted, so that the peer may not know it (RFC 5061, section 5.3, rules
    /// F1 and F4).
    pub(crate) fn way_back(&self, route: &Route) -> Route {
        self.way_back_on(self.path_of(route), route)
    }

    fn way_back_on(&self, path: Option<PathId>, route: &Route) -> Route {
        let back = route.for_reply();
        let Some(path) = path.map(|id| &self.paths[id]) else {
            return back;
        };
        let dynamic = self.dynamic.as_ref();
        if dynamic.is_some_and(|d| d.is_being_changed(back.local)) {
            Route {
                local: path.local,
                ..back
            }
        } else if path.way_untried {
            // The peer learns the port from the reply.
            Route {
                encapsulation: path.encapsulation,
                ..back
            }
        } else {
            back
        }
    }

    /// Returns the route for a reply: back to the source, unless that is unconfirmed and gets
    /// heartbeats only (section 5.4).
    pub(crate) fn answer_route(&self, route: &Route) -> Route {
        match self.path_of(route) {
            path @ Some(id) if self.paths[id].confirmed => self.way_back_on(path, route),
            _ => self.paths[self.paths.current()].route(),
        }
    }
}

/// The usable addresses that are in scope for a peer with this source.
fn acceptable(addresses: &[IpAddr], source: IpAddr) -> impl Iterator<Item = IpAddr> + '_ {
    let own = addresses.iter().copied();
    own.filter(move |a| is_own_address(*a, source))
}

/// The usable addresses of a family that this side has.
fn listed_addresses(addresses: &[IpAddr], source: IpAddr, local: &[IpAddr]) -> Vec<IpAddr> {
    let family = |v4: bool| local.is_empty() || local.iter().any(|a| a.is_ipv4() == v4);
    acceptable(addresses, source)
        .filter(|a| family(a.is_ipv4()))
        .collect()
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
