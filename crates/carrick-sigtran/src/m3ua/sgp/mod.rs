//! Signalling gateway process: the SGP's side of the associations with ASPs (RFC 4666, section 4.3).
//!
//! The states of section 4.3.2, for each application server:
//!
//! ```text
//!              n ASPs active
//! AS-INACTIVE ──────────────────────────> AS-ACTIVE
//!   ^     │  ^                              ^    │
//!   │     │   └──── T(r) expired ────┐ ASP  │    │ last active
//!   │     │                          │active│    │ ASP left
//!   │     v                          │      │    v
//! AS-DOWN <──── T(r) expired ─────────── AS-PENDING (buffering)
//! ```

mod application_server;
mod aspsm;
mod asptm;
mod config;
mod registration;
mod ssnm;
mod transfer;

pub use super::route::DestinationEvent;
pub use application_server::AsState;
pub use config::{
    ApplicationServerConfig, RegistrationPolicy, SgpAspConfig, SgpConfig, SgpConfigError,
};
pub use ssnm::SgpRequestError;
pub use transfer::TransferError;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use carrick_proto::Time;

use self::application_server::{ApplicationServer, AsMember};
use super::asp::AspState;
use super::association::{Transmit, error_about, error_about_contexts};
use super::heartbeat_timer::{HeartbeatAction, HeartbeatTimer};
use super::route::DestinationTable;
use super::{
    AspIdentifier, Data, DecodeError, DestinationState, ErrorCode, ErrorMessage, Message,
    NetworkAppearance, Notify, PointCode, RoutingContext, RoutingContexts, SctpNotification,
    SignallingCongestion, Status, TrafficMode,
};

/// Key of an ASP, assigned by [`SignallingGatewayProcess::add_asp`]. The ASP's association has the same key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AspKey(u32);

/// Primitive of an SGP to layer management or the nodal interworking function (RFC 4666, sections 1.6.1 and 1.6.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SgpIndication {
    /// M-SCTP_STATUS indication.
    SctpStatus(AspKey, SctpNotification),
    /// M-ASP_UP indication.
    AspUp(AspKey),
    /// M-ASP_DOWN indication.
    AspDown(AspKey),
    /// M-ASP_ACTIVE indication of an application server.
    AspActive(AspKey, RoutingContext),
    /// M-ASP_INACTIVE indication of an application server.
    AspInactive(AspKey, RoutingContext),
    /// M-AS_ACTIVE, M-AS_INACTIVE or M-AS_DOWN indication, or that the application server is pending.
    AsStatus(RoutingContext, AsState),
    /// M-RK_REG indication.
    Registered(AspKey, RoutingContext),
    /// M-RK_DEREG indication.
    Deregistered(AspKey, RoutingContext),
    /// M-NOTIFY indication.
    Notify(AspKey, Notify),
    /// M-ERROR indication: an Error message of the peer.
    Error(AspKey, ErrorMessage),
    /// M-ERROR indication: a message of the peer was answered with an Error message.
    PeerError(AspKey, ErrorMessage),
    /// No message was received within 2 × T(beat): the association is to be aborted.
    PeerUnresponsive(AspKey),
    /// Messages that an application server buffered were discarded: T(r) expired.
    Discarded(RoutingContext, usize),
    /// MTP-TRANSFER indication: DATA of an application server.
    Transfer(AspKey, RoutingContext, Data),
    /// DAUD, if the SGP keeps no route state: to be answered by [`SignallingGatewayProcess::answer_audit`].
    Audit(AspKey, DestinationState),
    /// SCON: the ASP is congested.
    Congestion(AspKey, SignallingCongestion),
}

impl SgpIndication {
    /// Returns the ASP that the primitive concerns, `None` if it concerns an application server.
    pub const fn asp(&self) -> Option<AspKey> {
        match self {
            Self::SctpStatus(asp, _)
            | Self::AspUp(asp)
            | Self::AspDown(asp)
            | Self::AspActive(asp, _)
            | Self::AspInactive(asp, _)
            | Self::Registered(asp, _)
            | Self::Deregistered(asp, _)
            | Self::Notify(asp, _)
            | Self::Error(asp, _)
            | Self::PeerError(asp, _)
            | Self::PeerUnresponsive(asp)
            | Self::Transfer(asp, ..)
            | Self::Audit(asp, _)
            | Self::Congestion(asp, _) => Some(*asp),
            Self::AsStatus(..) | Self::Discarded(..) => None,
        }
    }
}

/// ASP with its association.
#[derive(Debug)]
struct AspPeer {
    /// Configured ASP Identifier.
    configured_identifier: Option<AspIdentifier>,
    /// Application servers of which the ASP is a member.
    contexts: BTreeSet<RoutingContext>,
    /// Outbound streams of the association, `None` while it is down.
    outbound_streams: Option<u16>,
    /// Not in ASP-DOWN.
    up: bool,
    /// Identifier of the last ASP Up.
    identifier: Option<AspIdentifier>,
    /// ASP Up is refused (section 4.3.4.1).
    blocked: bool,
    heartbeat: HeartbeatTimer,
}

/// Route state of a network.
#[derive(Debug)]
struct NetworkRoutes {
    table: DestinationTable,
    /// The network is isolated, or its MTP restart is not complete (section 4.6).
    isolated: bool,
}

/// Timer of an SGP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer {
    /// T(r) of an application server.
    Recovery(RoutingContext),
    /// T(beat) of an ASP.
    Heartbeat(AspKey),
}

/// Signalling gateway process with its application servers and ASPs.
///
/// Inputs are [`handle_sctp`](Self::handle_sctp), [`handle_message`](Self::handle_message),
/// [`handle_malformed`](Self::handle_malformed), [`handle_timeout`](Self::handle_timeout) and the requests. After
/// each input drain [`poll_transmit`](Self::poll_transmit) and [`poll_indication`](Self::poll_indication), and call
/// `handle_timeout` at [`poll_timeout`](Self::poll_timeout). An input adds a bounded number of outputs.
#[derive(Debug)]
pub struct SignallingGatewayProcess {
    config: SgpConfig,
    servers: BTreeMap<RoutingContext, ApplicationServer>,
    /// Application servers by the destinations of their routing keys.
    by_dpc: BTreeMap<PointCode, BTreeSet<RoutingContext>>,
    asps: BTreeMap<AspKey, AspPeer>,
    next_key: u32,
    /// Routing context that a registration was assigned last.
    last_context: u32,
    /// Octets that all application servers buffer.
    buffered_octets: usize,
    /// Timers that run, by their expiry.
    deadlines: BTreeSet<(Time, Timer)>,
    /// Route state of each network.
    routes: BTreeMap<Option<NetworkAppearance>, NetworkRoutes>,
    transmits: VecDeque<(AspKey, Transmit)>,
    indications: VecDeque<SgpIndication>,
}

impl SignallingGatewayProcess {
    /// SGP without application servers and ASPs.
    pub const fn new(config: SgpConfig) -> Self {
        Self {
            config,
            servers: BTreeMap::new(),
            by_dpc: BTreeMap::new(),
            asps: BTreeMap::new(),
            next_key: 0,
            last_context: 0,
            buffered_octets: 0,
            deadlines: BTreeSet::new(),
            routes: BTreeMap::new(),
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
        }
    }

    /// Adds an application server in state AS-DOWN.
    ///
    /// # Errors
    /// [`SgpConfigError`] if the limit is reached, the routing context is in use, or the routing key overlaps another.
    pub fn add_application_server(
        &mut self,
        server: ApplicationServerConfig,
    ) -> Result<(), SgpConfigError> {
        let limit = self.config.max_application_servers;
        let context = server.routing_context;
        if self.servers.len() >= limit {
            return Err(SgpConfigError::TooManyApplicationServers(limit));
        }
        if self.servers.contains_key(&context) {
            return Err(SgpConfigError::RoutingContextInUse(context));
        }
        if let Some(mode) = server.traffic_mode.filter(|mode| mode.name().is_none()) {
            return Err(SgpConfigError::UndefinedTrafficMode(mode));
        }
        let overlap = self.overlapping(server.network_appearance, &server.destinations);
        if let Some(other) = overlap {
            return Err(SgpConfigError::OverlappingRoutingKey(other));
        }
        self.insert_server(server, false);
        Ok(())
    }

    /// Removes an application server: it enters AS-DOWN (RFC 4666, section 4.3.2). Active ASPs get an ASP Inactive Ack
    /// without a request.
    ///
    /// # Errors
    /// [`SgpConfigError::UnknownRoutingContext`].
    pub fn remove_application_server(
        &mut self,
        now: Time,
        context: RoutingContext,
    ) -> Result<(), SgpConfigError> {
        self.set_application_server_blocked(now, context, true)?;
        self.take_server(context);
        self.indicate(SgpIndication::AsStatus(context, AsState::Down));
        Ok(())
    }

    /// Adds an ASP in state ASP-DOWN, without an association.
    ///
    /// # Errors
    /// [`SgpConfigError`] if the limit is reached or an application server does not exist.
    pub fn add_asp(&mut self, asp: SgpAspConfig) -> Result<AspKey, SgpConfigError> {
        if self.asps.len() >= self.config.max_asps {
            return Err(SgpConfigError::TooManyAsps(self.config.max_asps));
        }
        let mut contexts = asp.application_servers.iter();
        if let Some(context) = contexts.find(|context| !self.servers.contains_key(context)) {
            return Err(SgpConfigError::UnknownRoutingContext(*context));
        }
        let key = AspKey(self.next_key);
        self.next_key += 1;
        for context in &asp.application_servers {
            if let Some(server) = self.servers.get_mut(context) {
                let state = AspState::Down;
                let registered = false;
                server.members.insert(key, AsMember { state, registered });
            }
        }
        self.asps.insert(
            key,
            AspPeer {
                configured_identifier: asp.identifier,
                contexts: asp.application_servers.into_iter().collect(),
                outbound_streams: None,
                up: false,
                identifier: None,
                blocked: false,
                heartbeat: HeartbeatTimer::new(self.config.t_beat),
            },
        );
        Ok(key)
    }

    /// Removes an ASP; it leaves its application servers as after a loss of the association.
    ///
    /// # Errors
    /// [`SgpConfigError::UnknownAsp`].
    pub fn remove_asp(&mut self, now: Time, asp: AspKey) -> Result<(), SgpConfigError> {
        if !self.asps.contains_key(&asp) {
            return Err(SgpConfigError::UnknownAsp(asp));
        }
        self.lose_association(now, asp);
        self.asps.remove(&asp);
        for server in self.servers.values_mut() {
            server.members.remove(&asp);
        }
        Ok(())
    }

    /// Returns the configuration of an application server, also of one that a registration has created.
    pub fn application_server(&self, context: RoutingContext) -> Option<&ApplicationServerConfig> {
        self.servers.get(&context).map(|server| &server.config)
    }

    /// Returns the state of an application server, `None` if it does not exist. This is the answer to an
    /// M-AS_STATUS request.
    pub fn as_state(&self, context: RoutingContext) -> Option<AsState> {
        self.servers.get(&context).map(|server| server.state)
    }

    /// Returns the state of an ASP in an application server, `None` if it is no member. This is the answer to an
    /// M-ASP_STATUS request.
    pub fn asp_state(&self, asp: AspKey, context: RoutingContext) -> Option<AspState> {
        self.servers.get(&context)?.asp_state(asp)
    }

    /// Returns whether an ASP is up: not in ASP-DOWN.
    pub fn is_up(&self, asp: AspKey) -> bool {
        self.asps.get(&asp).is_some_and(|peer| peer.up)
    }

    /// Returns the number of messages that an application server buffers, and their octets.
    pub fn buffered(&self, context: RoutingContext) -> Option<(usize, usize)> {
        let server = self.servers.get(&context)?;
        Some((server.buffer.len(), server.buffered_octets))
    }

    /// Returns the next message and the ASP for whose association it is.
    pub fn poll_transmit(&mut self) -> Option<(AspKey, Transmit)> {
        self.transmits.pop_front()
    }

    /// Returns the next primitive for layer management and the nodal interworking function.
    pub fn poll_indication(&mut self) -> Option<SgpIndication> {
        self.indications.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Handles the timers that have expired: T(r) of application servers and T(beat) of ASPs.
    pub fn handle_timeout(&mut self, now: Time) {
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<_> = due.map(|(_, timer)| *timer).collect();
        for timer in due {
            let asp = match timer {
                Timer::Recovery(context) => {
                    self.update_server(now, context, true, None);
                    continue;
                }
                Timer::Heartbeat(asp) => asp,
            };
            match self.update_heartbeat(asp, |heartbeat| heartbeat.handle_timeout(now)) {
                Some(Some(HeartbeatAction::Send(heartbeat))) => {
                    self.send(asp, Message::Heartbeat(heartbeat));
                }
                Some(Some(HeartbeatAction::PeerUnresponsive)) => {
                    self.indicate(SgpIndication::PeerUnresponsive(asp));
                    self.lose_association(now, asp);
                }
                Some(None) | None => {}
            }
        }
    }

    /// Changes T(beat) of an ASP.
    fn update_heartbeat<R>(
        &mut self,
        asp: AspKey,
        change: impl FnOnce(&mut HeartbeatTimer) -> R,
    ) -> Option<R> {
        let heartbeat = &mut self.asps.get_mut(&asp)?.heartbeat;
        let previous = heartbeat.timeout();
        let result = change(heartbeat);
        let next = heartbeat.timeout();
        self.reschedule(Timer::Heartbeat(asp), previous, next);
        Some(result)
    }

    fn reschedule(&mut self, timer: Timer, previous: Option<Time>, next: Option<Time>) {
        if let Some(at) = previous {
            self.deadlines.remove(&(at, timer));
        }
        self.deadlines.extend(next.map(|at| (at, timer)));
    }

    /// Handles a notification of SCTP about an ASP's association (RFC 4666, section 4.3.3). Send failures and the status of
    /// paths are only indicated to layer management (section 4.2).
    pub fn handle_sctp(&mut self, now: Time, asp: AspKey, notification: SctpNotification) {
        if !self.asps.contains_key(&asp) {
            return;
        }
        self.indicate(SgpIndication::SctpStatus(asp, notification));
        match notification {
            SctpNotification::Down => self.lose_association(now, asp),
            SctpNotification::SendFailure | SctpNotification::PathStatus { .. } => {}
            SctpNotification::Up { outbound_streams }
            | SctpNotification::Restarted { outbound_streams } => {
                self.lose_association(now, asp);
                if let Some(peer) = self.asps.get_mut(&asp) {
                    peer.outbound_streams = Some(outbound_streams);
                }
                self.update_heartbeat(asp, |heartbeat| heartbeat.start(now));
            }
        }
    }

    /// Answers a message that could not be decoded.
    pub fn handle_malformed(
        &mut self,
        now: Time,
        asp: AspKey,
        error: &DecodeError,
        octets: &Bytes,
    ) {
        let Some(peer) = self.asps.get_mut(&asp) else {
            return;
        };
        peer.heartbeat.received(now);
        if let (Some(answer), Some(_)) = (
            ErrorMessage::answering(error, octets),
            peer.outbound_streams,
        ) {
            self.answer_error(asp, answer);
        }
    }

    /// Handles a message that was received on a stream of an ASP's association.
    pub fn handle_message(&mut self, now: Time, asp: AspKey, stream: u16, message: &Message) {
        let Some(peer) = self.asps.get_mut(&asp) else {
            return;
        };
        if peer.outbound_streams.is_none() {
            return;
        }
        peer.heartbeat.received(now);
        let up = peer.up;
        match message {
            Message::AspUp(body) => self.on_asp_up(now, asp, body, message),
            Message::AspDown(_) => self.on_asp_down(now, asp),
            Message::Heartbeat(beat) => self.send(asp, Message::HeartbeatAck(beat.clone())),
            Message::HeartbeatAck(_) => {}
            Message::Error(error) => self.indicate(SgpIndication::Error(asp, error.clone())),
            Message::Data(data) => self.on_data(asp, stream, data, message),
            Message::AspActive(body) if up => self.on_asp_active(now, asp, body, message),
            Message::AspInactive(body) if up => self.on_asp_inactive(now, asp, body, message),
            Message::RegistrationRequest(body) if up => {
                self.on_registration(now, asp, body, message);
            }
            Message::DeregistrationRequest(body) if up => {
                self.on_deregistration(now, asp, body, message);
            }
            Message::DestinationStateAudit(audit) if up => self.on_audit(asp, audit, message),
            Message::SignallingCongestion(body) if up => self.on_congestion(asp, body, message),
            Message::Notify(notify) if up => {
                self.indicate(SgpIndication::Notify(asp, notify.clone()));
            }
            _ => self.refuse(asp, ErrorCode::UNEXPECTED_MESSAGE, message),
        }
    }

    /// Moves an application server to its next state, and notifies its ASPs of a change (section 4.3.4.5). Returns
    /// whether the state changed.
    fn update_server(
        &mut self,
        now: Time,
        context: RoutingContext,
        expired: bool,
        failed: Option<AspIdentifier>,
    ) -> bool {
        let t_recovery = self.config.t_recovery;
        let Some(server) = self.servers.get_mut(&context) else {
            return false;
        };
        let next = server.next_state(expired);
        if next == server.state {
            return false;
        }
        let previous = std::mem::replace(&mut server.state, next);
        let recovery = (next == AsState::Pending).then(|| now + t_recovery);
        let stopped = std::mem::replace(&mut server.recovery, recovery);
        if next == AsState::Down {
            server.traffic_mode = server.config.traffic_mode;
        }
        self.reschedule(Timer::Recovery(context), stopped, recovery);
        self.indicate(SgpIndication::AsStatus(context, next));
        self.notify_state(context, None, failed);
        if previous == AsState::Pending {
            self.leave_pending(context, next);
        }
        true
    }

    /// Sends the buffered messages, or discards them after T(r).
    fn leave_pending(&mut self, context: RoutingContext, next: AsState) {
        let Some(server) = self.servers.get_mut(&context) else {
            return;
        };
        self.buffered_octets -= server.buffered_octets;
        let buffer = server.take_buffer();
        if next == AsState::Active {
            for protocol_data in buffer {
                self.distribute(context, protocol_data);
            }
        } else if !buffer.is_empty() {
            self.indicate(SgpIndication::Discarded(context, buffer.len()));
        }
    }

    /// Notifies the ASPs of an application server of its state: one of them, or all that are not in ASP-DOWN.
    fn notify_state(
        &mut self,
        context: RoutingContext,
        recipient: Option<AspKey>,
        failed: Option<AspIdentifier>,
    ) {
        let Some(server) = self.servers.get(&context) else {
            return;
        };
        let status = match server.state {
            AsState::Down => return,
            AsState::Inactive => Status::AsInactive,
            AsState::Active => Status::AsActive,
            AsState::Pending => Status::AsPending,
        };
        let recipients = match recipient {
            Some(asp) => vec![asp],
            None => self.available_members(context),
        };
        for asp in recipients {
            self.notify(asp, status, context, failed);
        }
    }

    /// Returns the ASPs of an application server that are not in ASP-DOWN.
    fn available_members(&self, context: RoutingContext) -> Vec<AspKey> {
        let members = self
            .servers
            .get(&context)
            .map(|server| server.members.iter());
        let members = members.into_iter().flatten();
        members
            .filter(|(_, member)| member.state != AspState::Down)
            .map(|(asp, _)| *asp)
            .collect()
    }

    fn notify(
        &mut self,
        asp: AspKey,
        status: Status,
        context: RoutingContext,
        asp_identifier: Option<AspIdentifier>,
    ) {
        let notify = Notify {
            status,
            asp_identifier,
            routing_contexts: RoutingContexts::new([context]),
            info: None,
        };
        self.send(asp, Message::Notify(notify));
    }

    /// Returns the routing contexts of the application servers of which an ASP is a member.
    pub(super) fn contexts_of(&self, asp: AspKey) -> Vec<RoutingContext> {
        let contexts = self
            .asps
            .get(&asp)
            .map(|peer| peer.contexts.iter().copied());
        contexts.into_iter().flatten().collect()
    }

    /// Returns the application servers whose routing keys have a destination.
    fn servers_of(&self, dpc: PointCode) -> impl Iterator<Item = &ApplicationServer> {
        let contexts = self.by_dpc.get(&dpc).into_iter().flatten();
        contexts.filter_map(|context| self.servers.get(context))
    }

    fn insert_server(&mut self, config: ApplicationServerConfig, dynamic: bool) {
        let context = config.routing_context;
        for destination in &config.destinations {
            self.by_dpc
                .entry(destination.dpc)
                .or_default()
                .insert(context);
        }
        self.servers
            .insert(context, ApplicationServer::new(config, dynamic));
    }

    /// Removes an application server with its routing key; buffered messages are discarded.
    fn take_server(&mut self, context: RoutingContext) {
        let Some(server) = self.servers.remove(&context) else {
            return;
        };
        for destination in &server.config.destinations {
            if let Some(contexts) = self.by_dpc.get_mut(&destination.dpc) {
                contexts.remove(&context);
                if contexts.is_empty() {
                    self.by_dpc.remove(&destination.dpc);
                }
            }
        }
        for asp in server.members.keys() {
            if let Some(peer) = self.asps.get_mut(asp) {
                peer.contexts.remove(&context);
            }
        }
        self.reschedule(Timer::Recovery(context), server.recovery, None);
        self.buffered_octets -= server.buffered_octets;
        if !server.buffer.is_empty() {
            self.indicate(SgpIndication::Discarded(context, server.buffer.len()));
        }
    }

    fn is_member(&self, asp: AspKey, context: RoutingContext) -> bool {
        self.asp_state(asp, context).is_some()
    }

    fn identifier(&self, asp: AspKey) -> Option<AspIdentifier> {
        let peer = self.asps.get(&asp)?;
        peer.identifier.or(peer.configured_identifier)
    }

    fn indicate(&mut self, indication: SgpIndication) {
        self.indications.push_back(indication);
    }

    /// Sends a message on stream 0 of an ASP's association.
    fn send(&mut self, asp: AspKey, message: Message) {
        self.transmits
            .push_back((asp, Transmit::management(message)));
    }

    /// Sends an Error message and notifies layer management.
    fn answer_error(&mut self, asp: AspKey, error: ErrorMessage) {
        self.send(asp, Message::Error(error.clone()));
        self.indicate(SgpIndication::PeerError(asp, error));
    }

    /// Answers a message with an Error message that has the message's routing contexts.
    pub(super) fn refuse(&mut self, asp: AspKey, code: ErrorCode, message: &Message) {
        self.answer_error(asp, error_about(code, message));
    }

    /// Answers a message with an Error message that has these routing contexts, if there are any.
    fn refuse_contexts(
        &mut self,
        asp: AspKey,
        code: ErrorCode,
        contexts: &[RoutingContext],
        message: &Message,
    ) {
        if !contexts.is_empty() {
            let contexts = contexts.iter().copied();
            self.answer_error(asp, error_about_contexts(code, contexts, message));
        }
    }
}
