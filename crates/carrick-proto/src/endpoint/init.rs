//! INITs: answered with a cookie, without keeping anything (RFC 9260 sections 5.1 B, 5.2.1, 5.2.2).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::{
    ChunkType, CommonHeader, Init, InitFields, PacketBuilder, Tsn, VerificationTag,
};

use super::{Cookie, Endpoint, Told};
use crate::association::state::State;
use crate::association::{Association, AssociationId, InitFault, Listed, PeerParameters, TieTags};
use crate::auth::KeyVector;
use crate::config::AssociationConfig;
use crate::path::Path;
use crate::policy::WindowAnnouncement;
use crate::random::Random;
use crate::route::Route;
use crate::time::Time;

/// New addresses of a restart that an ABORT names at most.
const MAX_TOLD_ADDRESSES: usize = 32;

/// What this side says in an INIT ACK.
struct Answer {
    /// Where the INIT ACK goes.
    route: Route,
    /// Window and streams: those of the association if there is one.
    config: Arc<AssociationConfig>,
    tag: VerificationTag,
    initial_tsn: Tsn,
    tie_tags: TieTags,
    /// What it says about authentication; nothing if that is not offered.
    vector: KeyVector,
    /// The local addresses that it tells: those of the association's INIT if there was one.
    told: Told,
    /// The peer is not one of those that have the same address and port.
    another: bool,
}

impl Endpoint {
    /// A packet with only an INIT and a tag of zero; `len` is its length with the headers below.
    pub(super) fn handle_init(
        &mut self,
        now: Time,
        route: &Route,
        (header, len): (CommonHeader, usize),
        init: &Init<'_>,
        opened: Option<AssociationId>,
    ) {
        self.stats.inits += 1;
        let peer = match PeerParameters::read(init, &self.accepted) {
            Ok(peer) => peer,
            Err(fault) => return self.refuse_init(route, header, init, fault),
        };
        let known = self.find_by_init(route, header.source_port, &peer);
        if known.is_some_and(|id| !self.may_take_init(id, opened)) {
            return;
        }
        let answer = match known {
            Some(id) => match self.answer_to_known(now, id, route, header, &peer) {
                Some(answer) => answer,
                None => return,
            },
            None if !self.config.accept => {
                self.stats.inits_refused += 1;
                return self.abort_init(route, header, init.tag, |_| {});
            }
            None => Answer {
                route: *route,
                config: Arc::clone(&self.accepted),
                tag: VerificationTag(self.random.nonzero_u32()),
                initial_tsn: Tsn::new(self.random.u32()),
                tie_tags: TieTags::default(),
                vector: new_vector(&self.accepted, &mut self.random),
                told: self.local_addresses.latest(),
                another: self.registry.is_known(route.remote, header.source_port),
            },
        };
        self.acknowledge(now, (header, len), &peer, &answer, route.remote);
    }

    /// An INIT from a peer with which there is an association already. `None` if it is answered
    /// otherwise or not at all.
    fn answer_to_known(
        &mut self,
        now: Time,
        id: AssociationId,
        route: &Route,
        header: CommonHeader,
        peer: &PeerParameters<'_>,
    ) -> Option<Answer> {
        let (registry, mut cx) = self.split(now);
        let association = registry.get_mut(id)?;
        if association.repeat_shutdown_ack() {
            registry.touch(id);
            return None;
        }
        let setting_up = association.state.is_setup();
        let waiting = matches!(association.state, State::CookieWait(_));
        let added = if waiting {
            Vec::new()
        } else {
            association.new_addresses(&peer.addresses, route.remote, &cx)
        };
        if !added.is_empty() {
            // As many as an ABORT in a small packet has room for.
            let added = &added[..added.len().min(MAX_TOLD_ADDRESSES)];
            self.stats.inits_refused += 1;
            self.abort_init(route, header, peer.tag, |causes| {
                causes.restart_with_new_addresses(added)
            });
            return None;
        }
        let route = if waiting {
            answer_route_while_waiting(association, route, peer)?
        } else {
            *route
        };
        let tie_tags = if waiting {
            TieTags::default()
        } else {
            association.tie_tags(&mut cx)
        };
        let (tag, initial_tsn, told, vector) = if setting_up {
            let (tag, tsn) = (association.local_tag, association.local_initial_tsn);
            // The random number goes with the tag (RFC 4895 section 6.1).
            let vector = association.auth.as_ref().map(|auth| auth.ours().clone());
            (tag, tsn, association.told, vector.unwrap_or_default())
        } else {
            let tag = VerificationTag(cx.random.nonzero_u32());
            let tsn = Tsn::new(cx.random.u32());
            let vector = new_vector(&association.config, cx.random);
            (tag, tsn, cx.local_addresses.latest(), vector)
        };
        Some(Answer {
            route,
            config: Arc::clone(&association.config),
            tag,
            initial_tsn,
            tie_tags,
            vector,
            told,
            another: false,
        })
    }

    /// INIT ACK to an INIT from this address of this length, with all that is to be known again when
    /// its cookie comes back.
    fn acknowledge(
        &mut self,
        now: Time,
        (header, len): (CommonHeader, usize),
        peer: &PeerParameters<'_>,
        answer: &Answer,
        from: IpAddr,
    ) {
        let route = &answer.route;
        let config = &answer.config;
        let mut extensions = config.offered().and(peer.offered);
        extensions.authentication &= !answer.vector.is_empty();
        let authenticated = |vector: KeyVector| {
            if extensions.authentication {
                vector
            } else {
                KeyVector::default()
            }
        };
        let ours = authenticated(answer.vector.clone());
        let theirs = authenticated(peer.auth.vector().unwrap_or_default());
        let increment = peer.preserve_ms.map_or(core::time::Duration::ZERO, |ms| {
            core::time::Duration::from_millis(u64::from(ms))
        });
        let local: &[IpAddr] = &self.local_addresses.told(answer.told);
        let source = route.remote;
        let supported = |a| peer.supports(a, source);
        let listed = if config.wildcard_addresses {
            Listed::default()
        } else {
            Listed::in_init_ack(local, route, len, supported)
        };
        let cookie = Cookie {
            created: now,
            lifespan: config.valid_cookie_life + increment.min(config.max_cookie_life_increment),
            local_tag: answer.tag,
            peer_tag: peer.tag,
            local_initial_tsn: answer.initial_tsn,
            peer_initial_tsn: peer.initial_tsn,
            peer_a_rwnd: peer.a_rwnd,
            peer_outbound_streams: peer.outbound_streams,
            peer_inbound_streams: peer.inbound_streams,
            extensions,
            tie_tags: answer.tie_tags,
            told: answer.told,
            last_told: listed.cut.and_then(|last| self.local_addresses.since(last)),
            local_port: self.config.port,
            peer_port: header.source_port,
            remote: route.remote,
            encapsulation: route.encapsulation,
            another: answer.another,
            local: route.local,
            ours,
            theirs,
            protection: peer.protection.map(<[u8]>::to_vec),
            preferred: peer.preferred_by(from),
            adaptation_layer: peer.adaptation_layer,
            // All of them: the peer may send from those that get no path, too.
            addresses: peer.addresses.clone(),
        };
        let fields = InitFields {
            tag: answer.tag,
            a_rwnd: WindowAnnouncement::initially(config),
            outbound_streams: config.outbound_streams.min(peer.inbound_streams),
            inbound_streams: config.max_inbound_streams,
            initial_tsn: answer.initial_tsn,
        };
        let lifetime = self.config.secret_lifetime;
        let random = &mut self.random;
        let secrets = self
            .secrets
            .get_or_insert_with(|| super::cookie::Secrets::new(random, now, lifetime));
        secrets.rotate(now, random);
        let reply = CommonHeader {
            source_port: self.config.port,
            destination_port: header.source_port,
            tag: peer.tag,
        };
        let sealed = &mut self.cookie_buffer;
        sealed.clear();
        secrets.seal(&cookie, sealed);
        self.replies.push(route.for_reply(), |buf| {
            // A list of many addresses makes it larger than one packet; then IP fragments it
            // (section 3.3.3).
            let mut packet = PacketBuilder::new(buf, reply, 9000);
            packet.init(ChunkType::INIT_ACK, fields, |parameters| {
                parameters.state_cookie(sealed);
                let told = extensions.told_to(peer.offered, config.offered());
                told.write(parameters);
                if let Some(code) = config.adaptation_layer {
                    parameters.adaptation_layer_indication(code);
                }
                cookie.ours.write(parameters);
                if cookie.protection.is_some() {
                    config.write_protection(parameters);
                }
                let addresses = listed.addresses.iter();
                addresses.for_each(|a| parameters.ip_address(*a));
                peer.unrecognized
                    .iter()
                    .for_each(|u| parameters.unrecognized(u));
            });
            packet.finish();
        });
    }

    fn refuse_init(
        &mut self,
        route: &Route,
        header: CommonHeader,
        init: &Init<'_>,
        fault: InitFault<'_>,
    ) {
        self.stats.inits_refused += 1;
        let tag = init.tag;
        match fault {
            // Silently discarded (section 3.3.2).
            InitFault::ZeroTag => {}
            InitFault::NoStreams | InitFault::SmallWindow => {
                self.abort_init(route, header, tag, |causes| {
                    causes.invalid_mandatory_parameter()
                })
            }
            InitFault::HostName(parameter) => {
                let parameter = shortened(parameter);
                self.abort_init(route, header, tag, |c| c.unresolvable_address(parameter));
            }
            InitFault::Unprotected => self.abort_init(route, header, tag, |c| {
                c.protocol_violation(b"the protection that is required is missing")
            }),
            InitFault::Unauthenticated => self.abort_init(route, header, tag, |c| {
                c.protocol_violation(b"dynamic addresses without authentication")
            }),
            InitFault::Malformed => self.abort_init(route, header, tag, |c| {
                c.protocol_violation(b"malformed parameter in INIT")
            }),
        }
    }

    /// An ABORT with the Initiate Tag as verification tag (section 8.4, rule 3).
    pub(super) fn abort_init(
        &mut self,
        route: &Route,
        header: CommonHeader,
        tag: VerificationTag,
        causes: impl FnOnce(&mut carrick_wire::CauseWriter<'_>),
    ) {
        let reply = CommonHeader {
            source_port: header.destination_port,
            destination_port: header.source_port,
            tag,
        };
        self.replies.abort(route.for_reply(), reply, false, causes);
    }
}

/// A new random number, and what goes with it.
fn new_vector(config: &AssociationConfig, random: &mut Random) -> KeyVector {
    let offered = config.offered();
    if !offered.authentication {
        return KeyVector::default();
    }
    let dynamic = offered.dynamic_addresses;
    KeyVector::new(&random.key(), &config.authentication, dynamic)
}

/// As much of a parameter as an ABORT quotes.
pub(crate) fn shortened(parameter: &[u8]) -> &[u8] {
    &parameter[..parameter.len().min(256)]
}

/// In COOKIE-WAIT the answer may only go to an address that the user gave and that the INIT tells,
/// best to the one that the INIT came from (section 5.2.1). `None` if there is no such address.
fn answer_route_while_waiting(
    association: &Association,
    route: &Route,
    peer: &PeerParameters<'_>,
) -> Option<Route> {
    if association.paths.knows(route.remote) {
        return Some(*route);
    }
    let told = |path: &&Path| peer.addresses.contains(&path.remote);
    let path = association.paths.iter().find(told)?;
    let same_family = |local: &IpAddr| local.is_ipv4() == path.remote.is_ipv4();
    Some(Route {
        // The peer knows the address that it sent the INIT to.
        local: route.local.filter(same_family).or(path.local),
        ..path.route()
    })
}
