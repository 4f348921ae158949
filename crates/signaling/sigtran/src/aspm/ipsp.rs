//! IP server process: M3UA or SUA between two processes without a gateway (RFC 4666, sections 1.4.3.4 and 4.3; RFC 3868,
//! section 4.3).
//!
//! An IPSP is an ASP and a gateway towards each peer: the [`Asp`] sends requests and receives traffic, the
//! [`Gateway`] receives requests and distributes traffic to the peers. In the double exchange model
//! both are independent. In the single exchange model each request changes both:
//!
//! ```text
//!         IPSP-A                                IPSP-B
//!   Asp          gateway                  gateway          Asp
//!    │── ASP Up ─────────────────────────────>│             │
//!    │<──────────────────────── ASP Up Ack ───│             │
//! INACTIVE ─ ─ ─ >│                           │─ ─ ─ ─> INACTIVE
//!    │          the peer is up        the peer is up        │
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{Debug, Display};

use bytes::Bytes;
use carrick_proto::Time;

use super::asp::{Asp, AspConfig, AspConfigError, AspState, Follows};
use super::sgp::{AspKey, Gateway, GatewayConfig, GatewayConfigError, GatewayEvent, SgpAspConfig};
use super::{Layer, LayerMessage, Maintenance, Transmit};
use crate::SctpNotification;
use crate::message::kinds::ss7;
use crate::message::{DecodeError, ErrorCode};

/// Layer with IPSPs.
pub trait IpspLayer: Layer {
    /// Returns the ASP whose state changed, if the primitive is about that.
    fn changed_asp(indication: &Self::SgpIndication) -> Option<AspKey>;
}

impl<L: Layer> GatewayEvent<L> {
    /// Returns the ASP whose state changed, if the primitive is about that.
    pub(crate) const fn changed_asp(&self) -> Option<AspKey> {
        match self {
            Self::AspUp(asp)
            | Self::AspDown(asp)
            | Self::AspActive(asp, _)
            | Self::AspInactive(asp, _) => Some(*asp),
            _ => None,
        }
    }
}

/// Model of the exchange of ASPSM and ASPTM messages, which both peers must have (RFC 4666, section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpspExchange {
    /// Single exchange: the requests of either end change the states of both. Both have the same application servers.
    Single,
    /// Double exchange: each end requests its own states.
    Double,
    /// Double exchange of ASPTM messages, single exchange of ASPSM messages.
    DoubleWithSingleAspsm,
}

/// Primitive of an IPSP to layer management or the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IpspIndication<L: Layer> {
    /// Primitive about this process towards a peer. Received traffic is among these.
    Local(AspKey, L::AspIndication),
    /// Primitive about the peers and the application servers that they serve.
    Remote(L::SgpIndication),
}

/// Configuration of a peer that is not possible. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IpspConfigError<I: Debug + Display + 'static> {
    /// The peer's configuration is not possible.
    #[error(transparent)]
    Remote(#[from] GatewayConfigError<I>),
    /// This side's configuration is not possible.
    #[error(transparent)]
    Local(#[from] AspConfigError<I>),
    /// The application servers of both sides differ.
    #[error("single exchange needs the same routing contexts for both sides: make the lists equal")]
    RoutingContextsDiffer,
}

/// IP server process with all its peers.
///
/// Inputs are [`handle_sctp`](Self::handle_sctp), [`handle_message`](Self::handle_message),
/// [`handle_malformed`](Self::handle_malformed), [`handle_timeout`](Self::handle_timeout) and the requests through
/// [`local`](Self::local) and [`remote`](Self::remote). After each input drain [`poll_transmit`](Self::poll_transmit) and
/// [`poll_indication`](Self::poll_indication), and call `handle_timeout` at [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Ipsp<L: Layer> {
    exchange: IpspExchange,
    /// [`IpspLayer::changed_asp`]; so that only [`Ipsp::new`] needs a layer with IPSPs.
    changed_asp: fn(&L::SgpIndication) -> Option<AspKey>,
    gateway: Gateway<L>,
    asps: BTreeMap<AspKey, Asp<L>>,
    transmits: VecDeque<(AspKey, Transmit<L::Message>)>,
    indications: VecDeque<IpspIndication<L>>,
}

impl<L: IpspLayer> Ipsp<L> {
    /// IPSP without peers. T(beat) is that of each peer's [`AspConfig`].
    pub fn new(exchange: IpspExchange, mut config: GatewayConfig<L>) -> Self {
        config.t_beat = None;
        Self {
            exchange,
            changed_asp: L::changed_asp,
            gateway: Gateway::new(config),
            asps: BTreeMap::new(),
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
        }
    }
}

impl<L: Layer> Ipsp<L> {
    /// Adds a peer without an association: the application servers that it serves, and those that this process serves
    /// towards it.
    ///
    /// # Errors
    /// [`IpspConfigError`].
    pub fn add_peer(
        &mut self,
        remote: SgpAspConfig<L::AsId>,
        local: AspConfig<L>,
    ) -> Result<AspKey, IpspConfigError<L::AsId>> {
        let served = local.application_servers.iter();
        let served: BTreeSet<_> = served.map(L::served_id).collect();
        let of_peer = remote.application_servers.iter().cloned().map(Some);
        if self.exchange == IpspExchange::Single && served != of_peer.collect() {
            return Err(IpspConfigError::RoutingContextsDiffer);
        }
        let mut asp = Asp::new(local)?;
        asp.follow(Follows {
            aspsm: self.mirrors_aspsm(),
            asptm: self.mirrors_asptm(),
        });
        let key = self.gateway.add_asp(remote)?;
        self.asps.insert(key, asp);
        Ok(key)
    }

    /// Returns this process towards a peer, to read its states.
    pub fn asp(&self, peer: AspKey) -> Option<&Asp<L>> {
        self.asps.get(&peer)
    }

    /// Returns the peers and their application servers, to read their states.
    pub const fn gateway(&self) -> &Gateway<L> {
        &self.gateway
    }

    /// Makes a request of this process towards a peer, such as [`Asp::asp_up`]. Returns `None` if there is no such
    /// peer.
    pub fn local<R>(
        &mut self,
        now: Time,
        peer: AspKey,
        request: impl FnOnce(&mut Asp<L>) -> R,
    ) -> Option<R> {
        let result = request(self.asps.get_mut(&peer)?);
        self.follow_local(now, peer);
        Some(result)
    }

    /// Makes a request towards all peers, such as [`Gateway::deliver`] or [`Gateway::add_application_server`].
    pub fn remote<R>(&mut self, now: Time, request: impl FnOnce(&mut Gateway<L>) -> R) -> R {
        let result = request(&mut self.gateway);
        self.follow_remote(now, None);
        result
    }

    /// Returns the next message and the peer for whose association it is.
    pub fn poll_transmit(&mut self) -> Option<(AspKey, Transmit<L::Message>)> {
        self.transmits.pop_front()
    }

    /// Returns the next primitive for layer management and the user.
    pub fn poll_indication(&mut self) -> Option<IpspIndication<L>> {
        self.indications.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let asps = self.asps.values().filter_map(Asp::poll_timeout);
        asps.chain(self.gateway.poll_timeout()).min()
    }

    /// Handles the timers that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        self.remote(now, |gateway| gateway.handle_timeout(now));
        let due = |asp: &Asp<L>| asp.poll_timeout().is_some_and(|at| at <= now);
        let due: Vec<_> = self
            .asps
            .iter()
            .filter(|(_, asp)| due(asp))
            .map(|(peer, _)| *peer)
            .collect();
        for peer in due {
            self.local(now, peer, |asp| asp.handle_timeout(now));
        }
    }

    /// Handles a notification of SCTP about a peer's association.
    pub fn handle_sctp(&mut self, now: Time, peer: AspKey, notification: SctpNotification) {
        // Both change before either follows the other: a loss is no request to go down.
        self.gateway.handle_sctp(now, peer, notification);
        self.local(now, peer, |asp| asp.handle_sctp(now, notification));
    }

    /// Answers a message that could not be decoded.
    pub fn handle_malformed(
        &mut self,
        now: Time,
        peer: AspKey,
        error: &DecodeError,
        octets: &Bytes,
    ) {
        self.local(now, peer, |asp| asp.handle_malformed(now, error, octets));
    }

    /// Handles a message that was received on a stream of a peer's association. Requests are the gateway's, answers and
    /// traffic this process's.
    pub fn handle_message(&mut self, now: Time, peer: AspKey, stream: u16, message: &L::Message) {
        let content = L::read(message);
        let is_request = match &content {
            Some(content) => matches!(
                content,
                Maintenance::AspUp(_)
                    | Maintenance::AspDown(_)
                    | Maintenance::AspActive(..)
                    | Maintenance::AspInactive(_)
            ),
            None => [ss7::REG_REQ, ss7::DEREG_REQ, ss7::DAUD].contains(&message.kind()),
        };
        if !is_request && content.is_none() && message.kind().class != ss7::RKM {
            // Traffic and reports change no state that the gateway could follow.
            if let Some(asp) = self.asps.get_mut(&peer) {
                asp.handle_message(now, stream, message);
                self.collect_local(peer);
            }
        } else if !is_request {
            self.local(now, peer, |asp| asp.handle_message(now, stream, message));
        } else if content.is_some_and(|content| self.contradicts(peer, &content)) {
            let code = ErrorCode::MANAGEMENT_BLOCKING;
            self.gateway.refuse(peer, code, message);
            self.follow_remote(now, Some(peer));
        } else {
            self.gateway.handle_message(now, peer, stream, message);
            self.follow_remote(now, Some(peer));
        }
    }

    /// Returns whether a request for more than this process wants crossed its own request for less. Section 4.3.4.1.2
    /// lets it refuse then; acknowledged, both requests would leave the ends in different states.
    fn contradicts(&self, peer: AspKey, request: &Maintenance<L>) -> bool {
        self.asps.get(&peer).is_some_and(|asp| match request {
            Maintenance::AspUp(_) => self.mirrors_aspsm() && asp.is_going_down(),
            Maintenance::AspActive(_, ids) => {
                self.mirrors_asptm() && (asp.is_going_down() || asp.is_deactivating(ids.as_ref()))
            }
            _ => false,
        })
    }

    fn mirrors_aspsm(&self) -> bool {
        self.exchange != IpspExchange::Double
    }

    fn mirrors_asptm(&self) -> bool {
        self.exchange == IpspExchange::Single
    }

    /// Lets the gateway follow the states of this process towards a peer.
    fn follow_local(&mut self, now: Time, peer: AspKey) {
        self.collect_local(peer);
        let Some(asp) = self.asps.get(&peer) else {
            return;
        };
        if self.mirrors_aspsm() {
            match (asp.is_up(), self.gateway.is_up(peer)) {
                (true, false) => self.gateway.assume_up(now, peer),
                (false, true) => self.gateway.assume_down(now, peer),
                _ => {}
            }
        }
        if self.mirrors_asptm() {
            for id in self.gateway.servers_of(peer) {
                match self.states(peer, &id) {
                    Some((AspState::Active, AspState::Inactive)) => {
                        let asp = self.asps.get(&peer);
                        let mode = asp.and_then(|asp| asp.traffic_mode(Some(id.clone())));
                        self.gateway.assume_active(now, peer, id, mode);
                    }
                    Some((AspState::Inactive, AspState::Active)) => {
                        self.gateway.assume_inactive(now, peer, id);
                    }
                    _ => {}
                }
            }
        }
        self.follow_remote(now, None);
    }

    /// Lets this process follow the states of its peers, which the request of one of them can have changed.
    fn follow_remote(&mut self, now: Time, requester: Option<AspKey>) {
        for peer in self.collect_remote() {
            let (up, mirrors) = (self.gateway.is_up(peer), self.mirrors_aspsm());
            if let Some(asp) = self.asps.get_mut(&peer)
                && mirrors
            {
                match (asp.is_up(), up) {
                    (false, true) => asp.assume_up(now),
                    (true, false) => asp.assume_down(),
                    _ => {}
                }
            }
            if self.mirrors_asptm() {
                for id in self.gateway.servers_of(peer) {
                    let states = self.states(peer, &id);
                    let Some(asp) = self.asps.get_mut(&peer) else {
                        continue;
                    };
                    match states {
                        Some((AspState::Inactive, AspState::Active)) => asp.assume_active(id),
                        Some((AspState::Active, AspState::Inactive)) => {
                            asp.assume_inactive(id, requester == Some(peer))
                        }
                        _ => {}
                    }
                }
            }
            self.collect_local(peer);
        }
    }

    /// Returns the states of this process and of a peer in an application server.
    fn states(&self, peer: AspKey, id: &L::AsId) -> Option<(AspState, AspState)> {
        let local = self.asps.get(&peer)?.state(Some(id.clone()))?;
        Some((local, self.gateway.asp_state(peer, id.clone())?))
    }

    /// Takes the outputs of this process towards a peer.
    fn collect_local(&mut self, peer: AspKey) {
        let Some(asp) = self.asps.get_mut(&peer) else {
            return;
        };
        while let Some(transmit) = asp.poll_transmit() {
            self.transmits.push_back((peer, transmit));
        }
        while let Some(indication) = asp.poll_indication() {
            self.indications
                .push_back(IpspIndication::Local(peer, indication));
        }
    }

    /// Takes the outputs of the gateway; returns the peers whose states changed.
    fn collect_remote(&mut self) -> BTreeSet<AspKey> {
        while let Some(transmit) = self.gateway.poll_transmit() {
            self.transmits.push_back(transmit);
        }
        let mut changed = BTreeSet::new();
        while let Some(indication) = self.gateway.poll_indication() {
            changed.extend((self.changed_asp)(&indication));
            self.indications
                .push_back(IpspIndication::Remote(indication));
        }
        changed
    }
}
