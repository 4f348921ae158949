//! Gateway: the side of an SGP (an SG in IUA) of the associations with ASPs (RFC 4666, section 4.3).
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
mod delivery;
mod registration;

pub use application_server::AsState;
pub use config::{GatewayConfig, GatewayConfigError, RegistrationPolicy, SgpAspConfig};
pub use delivery::DeliveryError;
pub(crate) use registration::RESULTS_PER_MESSAGE;
pub use registration::{DividedRequest, KeyResult, Registering, RegistrationOutcome};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use carrick_proto::Time;

use self::application_server::{ApplicationServer, AsMember};
use super::asp::AspState;
use super::deadlines::Deadlines;
use super::heartbeat_timer::{HeartbeatAction, HeartbeatTimer};
use super::{AsIds, Layer, Maintenance, Transmit, error_about};
use crate::SctpNotification;
use crate::message::{AspIdentifier, DecodeError, ErrorCode, Status};

/// Key of an ASP, assigned by [`Gateway::add_asp`]. The ASP's association has the same key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AspKey(u32);

/// Primitive of a gateway to layer management, in all layers (RFC 4666, section 1.6.3).
#[derive(Clone, PartialEq, Debug)]
pub enum GatewayEvent<L: Layer> {
    /// M-SCTP_STATUS indication.
    SctpStatus(AspKey, SctpNotification),
    /// M-ASP_UP indication.
    AspUp(AspKey),
    /// M-ASP_DOWN indication.
    AspDown(AspKey),
    /// M-ASP_ACTIVE indication of an application server.
    AspActive(AspKey, L::AsId),
    /// M-ASP_INACTIVE indication of an application server.
    AspInactive(AspKey, L::AsId),
    /// M-AS_ACTIVE, M-AS_INACTIVE or M-AS_DOWN indication, or that the application server is pending.
    AsStatus(L::AsId, AsState),
    /// The ASP was registered in an application server.
    Registered(AspKey, L::AsId),
    /// The registration of an ASP in an application server ended.
    Deregistered(AspKey, L::AsId),
    /// M-NOTIFY indication.
    Notify(AspKey, L::Notify),
    /// M-ERROR indication: an Error message of the peer.
    Error(AspKey, L::ErrorMessage),
    /// M-ERROR indication: a message of the peer was answered with an Error message.
    PeerError(AspKey, L::ErrorMessage),
    /// No message was received within 2 × T(beat): the association is to be aborted.
    PeerUnresponsive(AspKey),
    /// Messages that an application server buffered were discarded: T(r) expired.
    Discarded(L::AsId, usize),
}

/// ASP with its association.
#[derive(Debug)]
struct AspPeer<I> {
    /// Configured ASP Identifier.
    configured_identifier: Option<AspIdentifier>,
    /// Application servers of which the ASP is a member.
    servers: BTreeSet<I>,
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

/// Timer of a gateway.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer<I> {
    /// T(r) of an application server.
    Recovery(I),
    /// T(beat) of an ASP.
    Heartbeat(AspKey),
}

/// Gateway with its application servers and ASPs.
///
/// Inputs are [`handle_sctp`](Self::handle_sctp), [`handle_message`](Self::handle_message),
/// [`handle_malformed`](Self::handle_malformed), [`handle_timeout`](Self::handle_timeout) and the requests. After
/// each input drain [`poll_transmit`](Self::poll_transmit) and [`poll_indication`](Self::poll_indication), and call
/// `handle_timeout` at [`poll_timeout`](Self::poll_timeout). An input adds a bounded number of outputs.
#[derive(Debug)]
pub struct Gateway<L: Layer> {
    pub(crate) config: GatewayConfig<L>,
    servers: BTreeMap<L::AsId, ApplicationServer<L>>,
    asps: BTreeMap<AspKey, AspPeer<L::AsId>>,
    next_key: u32,
    /// Octets that all application servers buffer.
    buffered_octets: usize,
    deadlines: Deadlines<Timer<L::AsId>>,
    /// Keys and routes of the layer's user.
    pub(crate) user: L::User,
    transmits: VecDeque<(AspKey, Transmit<L::Message>)>,
    indications: VecDeque<L::SgpIndication>,
}

impl<L: Layer> Gateway<L> {
    /// Gateway without application servers and ASPs.
    pub fn new(config: GatewayConfig<L>) -> Self {
        Self {
            config,
            servers: BTreeMap::new(),
            asps: BTreeMap::new(),
            next_key: 0,
            buffered_octets: 0,
            deadlines: Deadlines::new(),
            user: L::User::default(),
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
        }
    }

    /// Adds an application server in state AS-DOWN.
    ///
    /// # Errors
    /// [`GatewayConfigError`] if the limit is reached, the identifier is in use, or the key overlaps another.
    pub fn add_application_server(
        &mut self,
        server: L::Server,
    ) -> Result<(), GatewayConfigError<L::AsId>> {
        let limit = self.config.max_application_servers;
        let id = L::server_id(&server);
        if self.servers.len() >= limit {
            return Err(GatewayConfigError::TooManyApplicationServers(limit));
        }
        if self.servers.contains_key(&id) {
            return Err(GatewayConfigError::IdentifierInUse(id));
        }
        let mode = L::server_mode(&server).filter(|mode| !L::TRAFFIC_MODES.contains(mode));
        if let Some(mode) = mode {
            return Err(GatewayConfigError::UndefinedTrafficMode(mode));
        }
        if let Some(other) = L::overlapping(self, &server) {
            return Err(GatewayConfigError::OverlappingKey(other));
        }
        self.insert_server(server, false);
        Ok(())
    }

    /// Removes an application server: it enters AS-DOWN (RFC 4666, section 4.3.2). Active ASPs get an ASP Inactive Ack
    /// without a request.
    ///
    /// # Errors
    /// [`GatewayConfigError::UnknownApplicationServer`].
    pub fn remove_application_server(
        &mut self,
        now: Time,
        id: L::AsId,
    ) -> Result<(), GatewayConfigError<L::AsId>> {
        self.set_application_server_blocked(now, id.clone(), true)?;
        self.take_server(&id);
        self.indicate(GatewayEvent::AsStatus(id, AsState::Down));
        Ok(())
    }

    /// Adds an ASP in state ASP-DOWN, without an association.
    ///
    /// # Errors
    /// [`GatewayConfigError`] if the limit is reached or an application server does not exist.
    pub fn add_asp(
        &mut self,
        asp: SgpAspConfig<L::AsId>,
    ) -> Result<AspKey, GatewayConfigError<L::AsId>> {
        if self.asps.len() >= self.config.max_asps {
            return Err(GatewayConfigError::TooManyAsps(self.config.max_asps));
        }
        let mut ids = asp.application_servers.iter();
        if let Some(id) = ids.find(|id| !self.servers.contains_key(id)) {
            return Err(GatewayConfigError::UnknownApplicationServer(id.clone()));
        }
        let key = AspKey(self.next_key);
        self.next_key += 1;
        for id in &asp.application_servers {
            if let Some(server) = self.servers.get_mut(id) {
                server
                    .members
                    .insert(key, AsMember::new(AspState::Down, false));
            }
        }
        self.asps.insert(
            key,
            AspPeer {
                configured_identifier: asp.identifier,
                servers: asp.application_servers.into_iter().collect(),
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
    /// [`GatewayConfigError::UnknownAsp`].
    pub fn remove_asp(
        &mut self,
        now: Time,
        asp: AspKey,
    ) -> Result<(), GatewayConfigError<L::AsId>> {
        if !self.asps.contains_key(&asp) {
            return Err(GatewayConfigError::UnknownAsp(asp));
        }
        self.lose_association(now, asp);
        for id in self.servers_of(asp) {
            if let Some(server) = self.servers.get_mut(&id) {
                server.members.remove(&asp);
            }
        }
        self.asps.remove(&asp);
        Ok(())
    }

    /// Returns the configuration of an application server, also of one that a registration has created.
    #[expect(clippy::needless_pass_by_value, reason = "routing contexts are copied")]
    pub fn application_server(&self, id: L::AsId) -> Option<&L::Server> {
        self.servers.get(&id).map(|server| &server.config)
    }

    /// Returns the state of an application server, `None` if it does not exist. This is the answer to an
    /// M-AS_STATUS request.
    #[expect(clippy::needless_pass_by_value, reason = "routing contexts are copied")]
    pub fn as_state(&self, id: L::AsId) -> Option<AsState> {
        self.servers.get(&id).map(|server| server.state)
    }

    /// Returns the state of an ASP in an application server, `None` if it is no member. This is the answer to an
    /// M-ASP_STATUS request.
    #[expect(clippy::needless_pass_by_value, reason = "routing contexts are copied")]
    pub fn asp_state(&self, asp: AspKey, id: L::AsId) -> Option<AspState> {
        self.servers.get(&id)?.asp_state(asp)
    }

    /// Returns whether an ASP is up: not in ASP-DOWN.
    pub fn is_up(&self, asp: AspKey) -> bool {
        self.asps.get(&asp).is_some_and(|peer| peer.up)
    }

    /// Returns the number of messages that an application server buffers, and their octets.
    #[expect(clippy::needless_pass_by_value, reason = "routing contexts are copied")]
    pub fn buffered(&self, id: L::AsId) -> Option<(usize, usize)> {
        let server = self.servers.get(&id)?;
        Some((server.buffer.len(), server.buffered_octets))
    }

    /// Returns the next message and the ASP for whose association it is.
    pub fn poll_transmit(&mut self) -> Option<(AspKey, Transmit<L::Message>)> {
        self.transmits.pop_front()
    }

    /// Returns the next primitive for layer management and the nodal interworking function.
    pub fn poll_indication(&mut self) -> Option<L::SgpIndication> {
        self.indications.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let user = L::user_timeout(&self.user);
        self.deadlines.next().into_iter().chain(user).min()
    }

    /// Handles the timers that have expired: T(r) of application servers and T(beat) of ASPs.
    pub fn handle_timeout(&mut self, now: Time) {
        for timer in self.deadlines.due(now) {
            let asp = match timer {
                Timer::Recovery(id) => {
                    self.update_server(now, &id, true, None);
                    continue;
                }
                Timer::Heartbeat(asp) => asp,
            };
            match self.update_heartbeat(asp, |heartbeat| heartbeat.handle_timeout(now)) {
                Some(Some(HeartbeatAction::Send(heartbeat))) => {
                    self.send_maintenance(asp, Maintenance::Heartbeat(heartbeat));
                }
                Some(Some(HeartbeatAction::PeerUnresponsive)) => {
                    self.indicate(GatewayEvent::PeerUnresponsive(asp));
                    self.lose_association(now, asp);
                }
                Some(None) | None => {}
            }
        }
        L::expire_user(self, now);
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
        self.deadlines
            .reschedule(Timer::Heartbeat(asp), previous, next);
        Some(result)
    }

    /// Handles a notification of SCTP about an ASP's association (RFC 4666, section 4.3.3). Send failures and the status of
    /// paths are only indicated to layer management (section 4.2).
    pub fn handle_sctp(&mut self, now: Time, asp: AspKey, notification: SctpNotification) {
        if !self.asps.contains_key(&asp) {
            return;
        }
        self.indicate(GatewayEvent::SctpStatus(asp, notification));
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

    /// Answers a message that could not be decoded. Malformed keys of a registration have their own results (section 4.4.1).
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
        if peer.up
            && self.config.registration != RegistrationPolicy::Unsupported
            && let Some(divided) = L::divide_registration(octets)
        {
            for refusal in divided.refusals {
                self.send(asp, refusal);
            }
            if let Some(valid) = &divided.valid {
                L::serve(self, now, asp, 0, valid);
            }
            return;
        }
        if let (Some(answer), Some(_)) = (L::answering(error, octets), peer.outbound_streams) {
            self.answer_error(asp, answer);
        }
    }

    /// Handles a message that was received on a stream of an ASP's association.
    pub fn handle_message(&mut self, now: Time, asp: AspKey, stream: u16, message: &L::Message) {
        let Some(peer) = self.asps.get_mut(&asp) else {
            return;
        };
        if peer.outbound_streams.is_none() {
            return;
        }
        peer.heartbeat.received(now);
        let up = peer.up;
        let Some(content) = L::read(message) else {
            return L::serve(self, now, asp, stream, message);
        };
        match content {
            Maintenance::AspUp(body) => self.on_asp_up(now, asp, &body, message),
            Maintenance::AspDown(_) => self.on_asp_down(now, asp),
            Maintenance::Heartbeat(beat) => {
                self.send_maintenance(asp, Maintenance::HeartbeatAck(beat));
            }
            Maintenance::HeartbeatAck(_) => {}
            Maintenance::Error(error) => self.indicate(GatewayEvent::Error(asp, error)),
            Maintenance::AspActive(activation, ids) if up => {
                self.on_asp_active(now, asp, &activation, ids.as_ref(), message);
            }
            Maintenance::AspInactive(ids) if up => {
                self.on_asp_inactive(now, asp, ids.as_ref(), message)
            }
            Maintenance::Notify(notify) if up => self.indicate(GatewayEvent::Notify(asp, notify)),
            _ => self.refuse(asp, ErrorCode::UNEXPECTED_MESSAGE, message),
        }
    }

    /// Moves an application server to its next state, and notifies its ASPs of a change (section 4.3.4.5). Returns
    /// whether the state changed.
    fn update_server(
        &mut self,
        now: Time,
        id: &L::AsId,
        expired: bool,
        failed: Option<AspIdentifier>,
    ) -> bool {
        let t_recovery = self.config.t_recovery;
        let Some(server) = self.servers.get_mut(id) else {
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
            server.traffic_mode = L::server_mode(&server.config);
        }
        let timer = Timer::Recovery(id.clone());
        self.deadlines.reschedule(timer, stopped, recovery);
        self.indicate(GatewayEvent::AsStatus(id.clone(), next));
        self.notify_state(id, None, failed);
        if previous == AsState::Pending {
            self.leave_pending(id, next);
        }
        true
    }

    /// Notifies the ASPs of an application server of its state: one of them, or all that are not in ASP-DOWN.
    fn notify_state(
        &mut self,
        id: &L::AsId,
        recipient: Option<AspKey>,
        failed: Option<AspIdentifier>,
    ) {
        let Some(server) = self.servers.get(id) else {
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
            None => self.available_members(id),
        };
        for asp in recipients {
            self.notify(asp, status, id, failed);
        }
    }

    /// Returns the ASPs of an application server that are not in ASP-DOWN.
    fn available_members(&self, id: &L::AsId) -> Vec<AspKey> {
        let members = self.servers.get(id).map(|server| server.members.iter());
        let available = members
            .into_iter()
            .flatten()
            .filter(|(_, member)| member.state != AspState::Down);
        available.map(|(asp, _)| *asp).collect()
    }

    fn notify(
        &mut self,
        asp: AspKey,
        status: Status,
        id: &L::AsId,
        asp_identifier: Option<AspIdentifier>,
    ) {
        let notify = L::notify(status, asp_identifier, AsIds::new([id.clone()]));
        self.send_maintenance(asp, Maintenance::Notify(notify));
    }

    /// Returns the application servers of which an ASP is a member.
    pub(crate) fn servers_of(&self, asp: AspKey) -> Vec<L::AsId> {
        let peer = self.asps.get(&asp);
        peer.map(|peer| peer.servers.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Returns the application servers of a list of which an ASP is a member, and the rest of the list. A range is in the
    /// rest if the ASP has no application server in it.
    pub(crate) fn listed(
        &self,
        asp: AspKey,
        ids: &AsIds<L::AsId>,
    ) -> (Vec<L::AsId>, Option<AsIds<L::AsId>>) {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        let servers = self.asps.get(&asp).map(|peer| &peer.servers);
        for (first, last) in ids.ranges() {
            let before = known.len();
            let inside = servers.map(|servers| servers.range(first..=last));
            known.extend(inside.into_iter().flatten().cloned());
            if known.len() == before {
                unknown.push((first.clone(), last.clone()));
            }
        }
        (known, AsIds::of_ranges(unknown))
    }

    /// Returns the configuration of an application server.
    pub(crate) fn server(&self, id: &L::AsId) -> Option<&L::Server> {
        self.servers.get(id).map(|server| &server.config)
    }

    /// Returns the ASPs with their association up.
    pub(crate) fn asp_keys(&self) -> Vec<AspKey> {
        self.asps.keys().copied().collect()
    }

    fn insert_server(&mut self, config: L::Server, dynamic: bool) {
        L::added(&mut self.user, &config);
        let id = L::server_id(&config);
        let server = ApplicationServer::new(config, dynamic);
        self.servers.insert(id, server);
    }

    /// Removes an application server with its key; buffered messages are discarded.
    fn take_server(&mut self, id: &L::AsId) {
        let Some(server) = self.servers.remove(id) else {
            return;
        };
        L::removed(&mut self.user, &server.config);
        for asp in server.members.keys() {
            if let Some(peer) = self.asps.get_mut(asp) {
                peer.servers.remove(id);
            }
        }
        let timer = Timer::Recovery(id.clone());
        self.deadlines.reschedule(timer, server.recovery, None);
        self.buffered_octets -= server.buffered_octets;
        self.discard(id, server.buffer, &DeliveryError::Unknown(id.clone()));
    }

    fn identifier(&self, asp: AspKey) -> Option<AspIdentifier> {
        let peer = self.asps.get(&asp)?;
        peer.identifier.or(peer.configured_identifier)
    }

    pub(crate) fn indicate(&mut self, event: impl Into<L::SgpIndication>) {
        self.indications.push_back(event.into());
    }

    /// Sends a message on stream 0 of an ASP's association.
    pub(crate) fn send(&mut self, asp: AspKey, message: L::Message) {
        self.transmits
            .push_back((asp, Transmit::management(message)));
    }

    /// Sends a message of the user to an ASP, such as the answer to a message that is not relayed. Without an association,
    /// or a stream for traffic, it is discarded.
    pub fn reply(&mut self, asp: AspKey, message: L::Message)
    where
        L: Layer<Payload = <L as Layer>::Message>,
    {
        let streams = self.asps.get(&asp).and_then(|peer| peer.outbound_streams);
        if let Some(stream) = streams.and_then(|streams| L::stream(&message, streams)) {
            self.transmits
                .push_back((asp, Transmit::on(stream, message)));
        }
    }

    /// Sends acknowledgements: one without a list, or as many as the list needs.
    fn acknowledge(
        &mut self,
        asp: AspKey,
        ids: Option<Vec<L::AsId>>,
        content: impl Fn(Option<AsIds<L::AsId>>) -> Maintenance<L>,
    ) {
        match ids {
            None => self.send_maintenance(asp, content(None)),
            Some(ids) => {
                for ids in L::lists(ids) {
                    self.send_maintenance(asp, content(Some(ids)));
                }
            }
        }
    }

    fn send_maintenance(&mut self, asp: AspKey, content: Maintenance<L>) {
        self.send(asp, L::write(content));
    }

    /// Sends an Error message and notifies layer management.
    pub(crate) fn answer_error(&mut self, asp: AspKey, error: L::ErrorMessage) {
        self.send_maintenance(asp, Maintenance::Error(error.clone()));
        self.indicate(GatewayEvent::PeerError(asp, error));
    }

    /// Answers a message with an Error message that has the application servers of the message.
    pub(crate) fn refuse(&mut self, asp: AspKey, code: ErrorCode, message: &L::Message) {
        self.answer_error(asp, error_about::<L>(code, L::ids(message), message));
    }

    /// Answers a message with an Error message about application servers, if there are any.
    pub(crate) fn refuse_servers(
        &mut self,
        asp: AspKey,
        code: ErrorCode,
        ids: Option<AsIds<L::AsId>>,
        message: &L::Message,
    ) {
        if ids.is_some() {
            self.answer_error(asp, error_about::<L>(code, ids, message));
        }
    }
}
