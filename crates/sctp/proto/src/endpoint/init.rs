//! INIT: answered with a State Cookie, without creating state (RFC 9260, sections 5.1 B, 5.2.1, 5.2.2).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use carrick_wire::{
    ChunkType, CommonHeader, Init, InitFields, PacketBuilder, Tsn, VerificationTag,
};

use super::shard::choose_tag;
use super::{AddressVersion, Endpoint};
use crate::addresses::InitAckAddresses;
use crate::association::state::AssociationState;
use crate::association::{Association, InitFault, PeerParameters, shortened};
use crate::auth::KeyVector;
use crate::config::AssociationConfig;
use crate::cookie::{Cookie, CookieSecrets, TieTags};
use crate::ids::AssociationId;
use crate::path::Path;
use crate::random::Random;
use crate::research::WindowAnnouncement;
use crate::route::Route;
use crate::time::Time;

/// Limit of new addresses of a restart that an ABORT reports.
const MAX_REPORTED_ADDRESSES: usize = 32;

/// Parameters of an INIT ACK.
struct InitAckParameters {
    route: Route,
    /// Parameters of the existing association, or of the endpoint.
    config: Arc<AssociationConfig>,
    tag: VerificationTag,
    initial_tsn: Tsn,
    tie_tags: TieTags,
    /// Key vector of this side; empty if authentication is not offered.
    vector: KeyVector,
    /// Version of the local addresses to advertise: that of the association's own INIT if there was one.
    address_version: AddressVersion,
    /// The local addresses that this INIT listed, and the last of the version up to which it listed
    /// all. `None` without an INIT of this side, or if the destination is not confirmed.
    own_init: Option<(Vec<IpAddr>, AddressVersion)>,
    /// Other peers have the same address and port.
    is_additional: bool,
}

impl Endpoint {
    /// Processes an INIT; `len` is the length of its packet with lower headers.
    ///
    /// 1. Read the parameters and refuse an unacceptable INIT (RFC 9260, sections 3.3.2 and 5.1).
    /// 2. Find an existing association with its sender and check the chunk protection.
    /// 3. Choose tag, initial TSN, tie-tags and addresses: by the state of the existing association
    ///    (sections 5.2.1 and 5.2.2), or new ones.
    /// 4. Agree on the chunk protection, or refuse the INIT.
    /// 5. Seal all state in a State Cookie and send INIT ACK (sections 5.1 B and 5.1.3).
    pub(super) fn handle_init(
        &mut self,
        now: Time,
        route: &Route,
        (header, len): (CommonHeader, usize),
        init: &Init<'_>,
        opened_by: Option<AssociationId>,
    ) {
        self.stats.inits += 1;
        // Step 1.
        let mut peer = match PeerParameters::read(init, &self.accepted) {
            Ok(peer) => peer,
            Err(fault) => return self.refuse_init(route, header, init, fault),
        };
        // Step 2.
        let existing = self.find_by_init(route, header.source_port, &peer);
        if existing.is_some_and(|id| !self.check_init_protection(id, opened_by)) {
            return;
        }
        // Step 3.
        let answer = match existing {
            Some(id) => match self.prepare_for_existing(now, id, route, header, &peer) {
                Some(prepared) => prepared,
                None => return,
            },
            None if !self.config.accept => {
                self.stats.inits_refused += 1;
                return self.abort_init(route, header, init.tag, |_| {});
            }
            None => InitAckParameters {
                route: *route,
                config: Arc::clone(&self.accepted),
                tag: choose_tag(&mut self.random, self.config.shard.as_ref()),
                initial_tsn: Tsn::new(self.random.u32()),
                tie_tags: TieTags::default(),
                vector: new_vector(&self.accepted, &mut self.random),
                address_version: self.local_addresses.latest(),
                own_init: None,
                is_additional: self.registry.has_peer_at(route.remote, header.source_port),
            },
        };
        // Step 4.
        let random = answer.initial_tsn.value();
        if let Err(fault) = peer.agree_on_protection(&answer.config, random) {
            return self.refuse_init(route, header, init, fault);
        }
        // Step 5.
        self.send_init_ack(now, (header, len), &peer, &answer, route.remote);
    }

    /// Prepares INIT ACK for the peer of an existing association; `None` if there is another reply or none.
    ///
    /// 1. In SHUTDOWN-ACK-SENT: resend SHUTDOWN ACK and discard the INIT (RFC 9260, section 9.2).
    /// 2. After COOKIE-WAIT: refuse an INIT that adds addresses (sections 5.2.1 and 5.2.2).
    /// 3. In COOKIE-WAIT: choose a destination that the user gave (section 5.2.1).
    /// 4. During set-up: repeat the tag, initial TSN, addresses and parameters of this side's INIT (section
    ///    5.2.1). Otherwise: choose new ones and include tie-tags (section 5.2.2).
    fn prepare_for_existing(
        &mut self,
        now: Time,
        id: AssociationId,
        route: &Route,
        header: CommonHeader,
        peer: &PeerParameters<'_>,
    ) -> Option<InitAckParameters> {
        let shard = self.config.shard.clone();
        let (registry, mut cx) = self.registry_and_context(now);
        let association = registry.get_mut(id)?;
        // Step 1.
        if association.repeat_shutdown_ack() {
            registry.refresh(id);
            return None;
        }
        // Step 2.
        let setting_up = association.state().is_setup();
        let waiting = matches!(association.state(), AssociationState::CookieWait(_));
        let added = if waiting {
            Vec::new()
        } else {
            association.new_addresses(&peer.addresses, route.remote, &cx)
        };
        if !added.is_empty() {
            if association.peer_tag() == peer.tag {
                // A late INIT of this set-up; the peer has left an address out of the one that counted, or
                // out of its INIT ACK. It would take an ABORT with its tag for one of the association.
                return None;
            }
            // Limited so that the ABORT fits into a small packet.
            let added = &added[..added.len().min(MAX_REPORTED_ADDRESSES)];
            self.stats.inits_refused += 1;
            self.abort_init(route, header, peer.tag, |causes| {
                causes.restart_with_new_addresses(added)
            });
            return None;
        }
        // Step 3.
        let route = if waiting {
            route_in_cookie_wait(association, route, peer)?
        } else {
            *route
        };
        // Step 4.
        let tie_tags = if waiting {
            TieTags::default()
        } else {
            association.tie_tags(&mut cx)
        };
        let (tag, initial_tsn, address_version, vector) = if setting_up {
            association.repeat_init(cx.local_addresses)
        } else {
            let tag = choose_tag(cx.random, shard.as_ref());
            let tsn = Tsn::new(cx.random.u32());
            let vector = new_vector(association.config(), cx.random);
            (tag, tsn, cx.local_addresses.latest(), vector)
        };
        // The destination of anything longer has to be confirmed (section 5.4).
        let is_confirmed = |path: &Path| path.remote() == route.remote && path.is_confirmed();
        let own_init = (setting_up && association.path_set().iter().any(is_confirmed))
            .then(|| association.addresses_of_init(cx.local_addresses));
        Some(InitAckParameters {
            route,
            config: Arc::clone(association.config()),
            tag,
            initial_tsn,
            tie_tags,
            vector,
            address_version,
            own_init,
            is_additional: false,
        })
    }

    /// Sends INIT ACK in reply to an INIT of length `len` from the address `from`.
    ///
    /// 1. Negotiate the extensions and key vectors.
    /// 2. Select the addresses to advertise (RFC 9260, section 5.1.2): those of this side's INIT, if the
    ///    destination is confirmed, or else no more than RFC 5062, section 3, allows.
    /// 3. Seal the cookie with the current secret (section 5.1.3).
    /// 4. Queue INIT ACK (section 3.3.3).
    fn send_init_ack(
        &mut self,
        now: Time,
        (header, len): (CommonHeader, usize),
        peer: &PeerParameters<'_>,
        answer: &InitAckParameters,
        from: IpAddr,
    ) {
        let route = &answer.route;
        let config = &answer.config;
        // Step 1.
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
        let theirs = authenticated(peer.auth_vector());
        let increment = peer.preserve_ms.map_or(core::time::Duration::ZERO, |ms| {
            core::time::Duration::from_millis(u64::from(ms))
        });
        // Step 2.
        let (addresses, last_advertised) = self.init_ack_addresses(peer, answer, len);
        // Step 3.
        let cookie = Cookie {
            created: now,
            lifespan: config.timers.valid_cookie_life
                + increment.min(config.timers.max_cookie_life_increment),
            local_tag: answer.tag,
            peer_tag: peer.tag,
            local_initial_tsn: answer.initial_tsn,
            peer_initial_tsn: peer.initial_tsn,
            peer_a_rwnd: peer.a_rwnd,
            peer_outbound_streams: peer.outbound_streams,
            peer_inbound_streams: peer.inbound_streams,
            extensions,
            tie_tags: answer.tie_tags,
            address_version: answer.address_version,
            last_advertised,
            local_port: self.config.port,
            peer_port: header.source_port,
            remote: route.remote,
            encapsulation: route.encapsulation,
            is_additional: answer.is_additional,
            local: route.local,
            ours,
            theirs,
            protection: peer.protection.map(<[u8]>::to_vec),
            preferred: peer.preferred_by(from),
            adaptation_layer: peer.adaptation_layer,
            // All of them: the peer may also send from addresses without a path.
            addresses: peer.addresses.clone(),
        };
        let fields = InitFields {
            tag: answer.tag,
            a_rwnd: WindowAnnouncement::initially(config),
            outbound_streams: config.streams.outbound_streams.min(peer.inbound_streams),
            inbound_streams: config.streams.max_inbound_streams,
            initial_tsn: answer.initial_tsn,
        };
        let lifetime = self.config.secret_lifetime;
        let random = &mut self.random;
        let secrets = self
            .secrets
            .get_or_insert_with(|| CookieSecrets::new(random, now, lifetime));
        secrets.rotate(now, random);
        let reply = CommonHeader {
            source_port: self.config.port,
            destination_port: header.source_port,
            tag: peer.tag,
        };
        let sealed = &mut self.cookie_buffer;
        sealed.clear();
        secrets.seal(&cookie, sealed);
        // Step 4.
        let dscp = config.paths.dscp(route.remote);
        self.replies.push(route.for_reply(), dscp, |buf| {
            // With many addresses it exceeds the MTU, and IP fragments it (RFC 9260, section 3.3.3).
            let mut packet = PacketBuilder::new(buf, reply, 9000);
            packet.init(ChunkType::INIT_ACK, fields, |parameters| {
                parameters.state_cookie(sealed);
                let listed_extensions = extensions.in_init_ack(peer.offered, config.offered());
                listed_extensions.write(parameters);
                if let Some(code) = config.adaptation_layer {
                    parameters.adaptation_layer_indication(code);
                }
                cookie.ours.write(parameters);
                if cookie.protection.is_some() {
                    config.write_protection(answer.initial_tsn, parameters);
                }
                for &address in &addresses {
                    parameters.ip_address(address);
                }
                peer.unrecognized
                    .iter()
                    .for_each(|u| parameters.unrecognized(u));
            });
            packet.finish();
        });
    }

    /// Returns the addresses for an INIT ACK in reply to an INIT of length `len`, and if it leaves some
    /// out, the last up to which it has all.
    fn init_ack_addresses(
        &self,
        peer: &PeerParameters<'_>,
        answer: &InitAckParameters,
        len: usize,
    ) -> (Vec<IpAddr>, Option<AddressVersion>) {
        let route = &answer.route;
        let all = self.local_addresses.advertised(answer.address_version);
        let (local, room): (&[IpAddr], _) = match &answer.own_init {
            Some((listed, _)) => (listed, usize::MAX),
            None => (&all, len),
        };
        let supported = |a| peer.supports(a, route.remote);
        let listed = if answer.config.paths.wildcard_addresses {
            InitAckAddresses::default()
        } else {
            InitAckAddresses::new(local, route, room, supported)
        };
        let last_advertised = match &answer.own_init {
            Some((own, last)) => (own.len() < all.len()).then_some(*last),
            None => listed.cut.and_then(|last| self.local_addresses.since(last)),
        };
        (listed.addresses, last_advertised)
    }

    /// Answers an unacceptable INIT with ABORT.
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
            // Silently discarded (RFC 9260, section 3.3.2).
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
            InitFault::Unprotected(cause) => {
                self.abort_init(route, header, tag, |c| c.raw(cause, &[]))
            }
            InitFault::Unauthenticated => self.abort_init(route, header, tag, |c| {
                c.protocol_violation(b"dynamic addresses without authentication")
            }),
            InitFault::Malformed => self.abort_init(route, header, tag, |c| {
                c.protocol_violation(b"malformed parameter in INIT")
            }),
        }
    }

    /// Sends ABORT with the Initiate Tag as verification tag (RFC 9260, section 8.4, rule 3).
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
        let dscp = self.accepted.paths.dscp(route.remote);
        self.replies
            .abort(route.for_reply(), dscp, reply, false, causes);
    }
}

/// Returns a key vector with a new random number (RFC 4895, section 6.1); empty if authentication is not
/// offered.
fn new_vector(config: &AssociationConfig, random: &mut Random) -> KeyVector {
    let offered = config.offered();
    if !offered.authentication {
        return KeyVector::default();
    }
    let dynamic = offered.dynamic_addresses;
    KeyVector::new(&random.key(), &config.security.authentication, dynamic)
}

/// Returns the route of INIT ACK in COOKIE-WAIT: only to an address that the user gave and that is the
/// source of the INIT or listed in it (RFC 9260, section 5.2.1). `None` if there is no such address.
fn route_in_cookie_wait(
    association: &Association,
    route: &Route,
    peer: &PeerParameters<'_>,
) -> Option<Route> {
    if association.path_set().has_address(route.remote) {
        return Some(*route);
    }
    let is_listed = |path: &&Path| peer.addresses.contains(&path.remote());
    // From the source of this side's INIT: the host may have no route from the destination of the peer's.
    Some(association.path_set().iter().find(is_listed)?.route())
}
