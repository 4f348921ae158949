//! IP server process: M3UA between two processes without a gateway (RFC 4666, sections 1.4.3.4 and 4.3).
//!
//! An IPSP is an ASP and a gateway towards each peer: the [`Asp`] sends requests and receives traffic, the
//! [`SignallingGatewayProcess`] receives requests and distributes traffic to the peers. In the double exchange model
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

use bytes::Bytes;
use carrick_proto::Time;

use super::asp::{Asp, AspConfig, AspConfigError, AspIndication, AspState};
use super::sgp::{
    AspKey, SgpAspConfig, SgpConfig, SgpConfigError, SgpIndication, SignallingGatewayProcess,
};
use super::{DecodeError, ErrorCode, M3ua, Message, RoutingContext, SctpNotification, Transmit};
use crate::aspm::Layer;
use crate::aspm::asp::Follows;

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

/// Primitive of an IPSP to layer management or the MTP3-User.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IpspIndication {
    /// Primitive about this process towards a peer. Received traffic is among these.
    Local(AspKey, AspIndication),
    /// Primitive about the peers and the application servers that they serve.
    Remote(SgpIndication),
}

/// Configuration of a peer that is not possible. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IpspConfigError {
    /// The peer's configuration is not possible.
    #[error(transparent)]
    Remote(#[from] SgpConfigError),
    /// This side's configuration is not possible.
    #[error(transparent)]
    Local(#[from] AspConfigError),
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
pub struct Ipsp {
    exchange: IpspExchange,
    gateway: SignallingGatewayProcess,
    asps: BTreeMap<AspKey, Asp>,
    transmits: VecDeque<(AspKey, Transmit)>,
    indications: VecDeque<IpspIndication>,
}

impl Ipsp {
    /// IPSP without peers. T(beat) is that of each peer's [`AspConfig`].
    pub fn new(exchange: IpspExchange, mut config: SgpConfig) -> Self {
        config.t_beat = None;
        Self {
            exchange,
            gateway: SignallingGatewayProcess::new(config),
            asps: BTreeMap::new(),
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
        }
    }

    /// Adds a peer without an association: the application servers that it serves, and those that this process serves
    /// towards it.
    ///
    /// # Errors
    /// [`IpspConfigError`].
    pub fn add_peer(
        &mut self,
        remote: SgpAspConfig,
        local: AspConfig,
    ) -> Result<AspKey, IpspConfigError> {
        let served = local.application_servers.iter();
        let served: BTreeSet<_> = served.map(|server| server.routing_context).collect();
        let of_peer = remote.application_servers.iter().copied().map(Some);
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
    pub fn asp(&self, peer: AspKey) -> Option<&Asp> {
        self.asps.get(&peer)
    }

    /// Returns the peers and their application servers, to read their states.
    pub const fn gateway(&self) -> &SignallingGatewayProcess {
        &self.gateway
    }

    /// Makes a request of this process towards a peer, such as [`Asp::asp_up`]. Returns `None` if there is no such
    /// peer.
    pub fn local<R>(
        &mut self,
        now: Time,
        peer: AspKey,
        request: impl FnOnce(&mut Asp) -> R,
    ) -> Option<R> {
        let result = request(self.asps.get_mut(&peer)?);
        self.follow_local(now, peer);
        Some(result)
    }

    /// Makes a request towards all peers, such as [`SignallingGatewayProcess::transfer`] or
    /// [`SignallingGatewayProcess::add_application_server`].
    pub fn remote<R>(
        &mut self,
        now: Time,
        request: impl FnOnce(&mut SignallingGatewayProcess) -> R,
    ) -> R {
        let result = request(&mut self.gateway);
        self.follow_remote(now, None);
        result
    }

    /// Returns the next message and the peer for whose association it is.
    pub fn poll_transmit(&mut self) -> Option<(AspKey, Transmit)> {
        self.transmits.pop_front()
    }

    /// Returns the next primitive for layer management and the MTP3-User.
    pub fn poll_indication(&mut self) -> Option<IpspIndication> {
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
        let due = |asp: &Asp| asp.poll_timeout().is_some_and(|at| at <= now);
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
    pub fn handle_message(&mut self, now: Time, peer: AspKey, stream: u16, message: &Message) {
        match message {
            Message::AspUp(_)
            | Message::AspDown(_)
            | Message::AspActive(_)
            | Message::AspInactive(_)
            | Message::RegistrationRequest(_)
            | Message::DeregistrationRequest(_)
            | Message::DestinationStateAudit(_) => {
                if self.contradicts(peer, message) {
                    let code = ErrorCode::MANAGEMENT_BLOCKING;
                    self.gateway.refuse(peer, code, message);
                } else {
                    self.gateway.handle_message(now, peer, stream, message);
                }
                self.follow_remote(now, Some(peer));
            }
            Message::Data(_) => {
                if let Some(asp) = self.asps.get_mut(&peer) {
                    asp.handle_message(now, stream, message);
                    self.collect_local(peer);
                }
            }
            _ => {
                self.local(now, peer, |asp| asp.handle_message(now, stream, message));
            }
        }
    }

    /// Returns whether a request for more than this process wants crossed its own request for less. Section 4.3.4.1.2
    /// lets it refuse then; acknowledged, both requests would leave the ends in different states.
    fn contradicts(&self, peer: AspKey, message: &Message) -> bool {
        self.asps.get(&peer).is_some_and(|asp| match message {
            Message::AspUp(_) => self.mirrors_aspsm() && asp.is_going_down(),
            Message::AspActive(_) => {
                self.mirrors_asptm()
                    && (asp.is_going_down() || asp.is_deactivating(M3ua::ids(message).as_ref()))
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
            for context in self.gateway.servers_of(peer) {
                match self.states(peer, context) {
                    Some((AspState::Active, AspState::Inactive)) => {
                        let asp = self.asps.get(&peer);
                        let mode = asp.and_then(|asp| asp.traffic_mode(Some(context)));
                        self.gateway.assume_active(now, peer, context, mode);
                    }
                    Some((AspState::Inactive, AspState::Active)) => {
                        self.gateway.assume_inactive(now, peer, context);
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
                for context in self.gateway.servers_of(peer) {
                    let states = self.states(peer, context);
                    let Some(asp) = self.asps.get_mut(&peer) else {
                        continue;
                    };
                    match states {
                        Some((AspState::Inactive, AspState::Active)) => asp.assume_active(context),
                        Some((AspState::Active, AspState::Inactive)) => {
                            asp.assume_inactive(context, requester == Some(peer))
                        }
                        _ => {}
                    }
                }
            }
            self.collect_local(peer);
        }
    }

    /// Returns the states of this process and of a peer in an application server.
    fn states(&self, peer: AspKey, context: RoutingContext) -> Option<(AspState, AspState)> {
        let local = self.asps.get(&peer)?.state(Some(context))?;
        Some((local, self.gateway.asp_state(peer, context)?))
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
            if let SgpIndication::AspUp(peer)
            | SgpIndication::AspDown(peer)
            | SgpIndication::AspActive(peer, _)
            | SgpIndication::AspInactive(peer, _) = indication
            {
                changed.insert(peer);
            }
            self.indications
                .push_back(IpspIndication::Remote(indication));
        }
        changed
    }
}
