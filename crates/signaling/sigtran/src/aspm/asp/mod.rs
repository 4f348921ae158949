//! Application server process: the ASP's side of an association with a gateway (RFC 4666, section 4.3).
//!
//! An [`Asp`] is one association. A process that is connected to several gateways has one for each.
//!
//! The states of section 4.3.1, for each application server, as the ASP knows them by the acknowledgements. T(ack)
//! supervises each request; it is sent again until `attempts` transmissions were made.
//!
//! ```text
//!             ASPUP Ack               ASPAC Ack
//! ASP-DOWN ───────────────> INACTIVE ───────────> ACTIVE
//!     ^  <─── ASPDN Ack ───     ^    <─ ASPIA Ack ─  │
//!     │  <─ association lost ─  └── NTFY Alternate ──┤
//!     └────────── ASPDN Ack, association lost ───────┘
//! ```

#![expect(clippy::ref_option, reason = "identifiers are keys of a map")]

mod assume;
mod config;
mod messages;
mod registration;
mod requests;
mod timers;

pub(crate) use assume::Follows;
pub use config::{AspConfig, AspConfigError};
pub use registration::PendingRegistration;
pub(crate) use registration::status;
pub use requests::{AspRequestError, RequestFailure};

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use carrick_proto::Time;

use super::deadlines::Deadlines;
use super::heartbeat_timer::HeartbeatTimer;
use super::{AsIds, Layer, Maintenance, Transmit, error_about};
use crate::SctpNotification;
use crate::message::{DecodeError, ErrorCode, TrafficMode};

/// Identifier of an application server of an ASP, `None` if it is the only one and has none.
pub type ServedId<I> = Option<I>;

/// Application servers that a message addresses, and what it lists beside.
type Addressed<I> = (Vec<ServedId<I>>, Option<AsIds<I>>);

/// State of an ASP in an application server (RFC 4666, section 4.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AspState {
    /// ASP-DOWN: the peer is unavailable, or the association is down.
    Down,
    /// ASP-INACTIVE: the peer is available, application traffic is stopped.
    Inactive,
    /// ASP-ACTIVE: application traffic is active.
    Active,
}

/// Primitive of an ASP to layer management, in all layers (RFC 4666, section 1.6.3).
#[derive(Clone, PartialEq, Debug)]
pub enum AspEvent<L: Layer> {
    /// M-SCTP_STATUS indication.
    SctpStatus(SctpNotification),
    /// M-ASP_UP confirm.
    AspUp(Result<(), RequestFailure>),
    /// M-ASP_DOWN confirm.
    AspDown(Result<(), RequestFailure>),
    /// M-ASP_ACTIVE confirm of an application server.
    AspActive(Option<L::AsId>, Result<(), RequestFailure>),
    /// M-ASP_INACTIVE confirm of an application server.
    AspInactive(Option<L::AsId>, Result<(), RequestFailure>),
    /// M-ASP_STATUS indication: the state in an application server changed, by request or not.
    AspStatus(Option<L::AsId>, AspState),
    /// Confirm of the registration with this local identifier; the error is the status of the response, `None` if there
    /// was no response.
    Registered(u32, Result<L::AsId, Option<u32>>),
    /// Confirm of a deregistration with the status of the response.
    Deregistered(L::AsId, u32),
    /// M-NOTIFY indication.
    Notify(L::Notify),
    /// M-ERROR indication: an Error message of the peer.
    Error(L::ErrorMessage),
    /// M-ERROR indication: a message of the peer was answered with an Error message.
    PeerError(L::ErrorMessage),
    /// No message was received within 2 × T(beat): the association is to be aborted.
    PeerUnresponsive,
}

/// Request that waits for its acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Outstanding<R> {
    request: R,
    /// Expiry of T(ack).
    deadline: Time,
    transmissions: u32,
}

/// ASPSM request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StateRequest {
    Up,
    Down,
}

/// ASPTM request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum TrafficRequest {
    Deactivate,
    Activate,
}

/// Traffic that layer management wants; restored after a loss or an unexpected acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WantedTraffic {
    Active,
    Inactive,
    /// Active before another ASP took over: not restored, but kept if the gateway makes the ASP active again.
    Overridden,
}

/// Application server with the ASP's state in it.
#[derive(Debug)]
struct ServedApplication<L: Layer> {
    server: L::Served,
    state: AspState,
    wanted: WantedTraffic,
    outstanding: Option<Outstanding<TrafficRequest>>,
    /// Added by registration: lost with ASP-DOWN (section 4.3.4.2).
    registered: bool,
    /// Expiry of the wait for a deregistration response.
    deregistration: Option<Time>,
}

/// Timer of an ASP. Those that expire at the same time are handled in this order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer<I> {
    /// T(ack) of an ASPSM request.
    State,
    /// T(ack) of an ASPTM request.
    Traffic(TrafficRequest, Option<I>),
    /// Wait for the response to a registration.
    Registration(u32),
    /// Wait for the response to a deregistration.
    Deregistration(Option<I>),
    /// T(beat).
    Heartbeat,
}

/// Application server process on its association with a gateway.
///
/// Inputs are [`handle_sctp`](Self::handle_sctp), [`handle_message`](Self::handle_message),
/// [`handle_malformed`](Self::handle_malformed), [`handle_timeout`](Self::handle_timeout) and the requests. After
/// each input drain [`poll_transmit`](Self::poll_transmit) and [`poll_indication`](Self::poll_indication), and call
/// `handle_timeout` at [`poll_timeout`](Self::poll_timeout). An input adds a bounded number of outputs.
#[derive(Debug)]
pub struct Asp<L: Layer> {
    config: AspConfig<L>,
    /// Outbound streams of the association, `None` while it is down.
    outbound_streams: Option<u16>,
    /// ASP-INACTIVE or ASP-ACTIVE: the gateway has acknowledged the ASP Up.
    up: bool,
    /// Layer management wants the ASP to be up; restored after a loss.
    wanted: bool,
    outstanding: Option<Outstanding<StateRequest>>,
    /// Requests of the peer that change this side's states, too.
    follows: Follows,
    servers: BTreeMap<Option<L::AsId>, ServedApplication<L>>,
    registrations: BTreeMap<u32, PendingRegistration<L>>,
    deadlines: Deadlines<Timer<L::AsId>>,
    heartbeat: HeartbeatTimer,
    /// Links of the layer's user.
    pub(crate) user: L::AspUser,
    transmits: VecDeque<Transmit<L::Message>>,
    indications: VecDeque<L::AspIndication>,
}

impl<L: Layer> Asp<L> {
    /// ASP in state ASP-DOWN, without an association.
    ///
    /// # Errors
    /// [`AspConfigError`] if the application servers are contradictory.
    pub fn new(config: AspConfig<L>) -> Result<Self, AspConfigError<L::AsId>> {
        config.check()?;
        let servers = config.application_servers.iter().map(|server| {
            let served = ServedApplication::new(server.clone(), false);
            (L::served_id(server), served)
        });
        Ok(Self {
            outbound_streams: None,
            up: false,
            wanted: false,
            outstanding: None,
            follows: Follows::default(),
            servers: servers.collect(),
            registrations: BTreeMap::new(),
            deadlines: Deadlines::new(),
            heartbeat: HeartbeatTimer::new(config.t_beat),
            user: L::AspUser::default(),
            transmits: VecDeque::new(),
            indications: VecDeque::new(),
            config,
        })
    }

    /// Returns whether the gateway has acknowledged that the ASP is up.
    pub const fn is_up(&self) -> bool {
        self.up
    }

    /// Returns the state in an application server, `None` if the ASP does not serve it. This is the answer to an
    /// M-ASP_STATUS request.
    #[expect(clippy::needless_pass_by_value, reason = "routing contexts are copied")]
    pub fn state(&self, id: Option<L::AsId>) -> Option<AspState> {
        self.servers.get(&id).map(|served| served.state)
    }

    /// Returns the identifiers of the application servers that the ASP serves, those from registration included.
    pub fn application_servers(&self) -> impl Iterator<Item = Option<L::AsId>> + '_ {
        self.servers.keys().cloned()
    }

    /// Returns the traffic mode of an application server, `None` if it has none or the ASP does not serve it.
    #[expect(clippy::needless_pass_by_value, reason = "routing contexts are copied")]
    pub fn traffic_mode(&self, id: Option<L::AsId>) -> Option<TrafficMode> {
        L::activation(self.served(&id)?).traffic_mode
    }

    /// Returns the configuration of an application server, `None` if the ASP does not serve it.
    pub(crate) fn served(&self, id: &ServedId<L::AsId>) -> Option<&L::Served> {
        self.servers.get(id).map(|served| &served.server)
    }

    /// Returns the next message for the association.
    pub fn poll_transmit(&mut self) -> Option<Transmit<L::Message>> {
        self.transmits.pop_front()
    }

    /// Returns the next primitive for layer management and the user.
    pub fn poll_indication(&mut self) -> Option<L::AspIndication> {
        self.indications.pop_front()
    }

    /// Handles a notification of SCTP (RFC 4666, section 4.3.3). Send failures and the status of paths are only indicated
    /// to layer management (section 4.2).
    pub fn handle_sctp(&mut self, now: Time, notification: SctpNotification) {
        self.indicate(AspEvent::SctpStatus(notification));
        match notification {
            SctpNotification::Down => self.lose_association(),
            SctpNotification::SendFailure | SctpNotification::PathStatus { .. } => {}
            SctpNotification::Up { outbound_streams }
            | SctpNotification::Restarted { outbound_streams } => {
                self.lose_association();
                self.outbound_streams = Some(outbound_streams);
                self.update_heartbeat(|heartbeat| heartbeat.start(now));
                // Recovery begins with the ASP Up procedure.
                if self.wanted {
                    self.request_state(now, StateRequest::Up);
                }
            }
        }
    }

    /// Answers a message that could not be decoded.
    pub fn handle_malformed(&mut self, now: Time, error: &DecodeError, octets: &Bytes) {
        self.heartbeat.received(now);
        if let (Some(answer), Some(_)) = (L::answering(error, octets), self.outbound_streams) {
            self.answer_error(answer);
        }
    }

    fn lose_association(&mut self) {
        self.outbound_streams = None;
        self.update_heartbeat(HeartbeatTimer::stop);
        self.enter_down(RequestFailure::AssociationLost);
    }

    /// Enters ASP-DOWN in all application servers; outstanding requests fail.
    fn enter_down(&mut self, failure: RequestFailure) {
        self.up = false;
        if let Some(outstanding) = self.take_state_request() {
            self.confirm_state(outstanding.request, Err(failure));
        }
        for id in self.all_servers() {
            self.fail_traffic_request(&id, failure);
            let served = self.servers.get(&id);
            let active = served.filter(|served| served.state == AspState::Active);
            let lost = active.and_then(|served| L::lost(&served.server));
            self.indications.extend(lost);
            self.set_state(&id, AspState::Down);
            self.set_deregistration(&id, None);
        }
        self.fail_registrations();
        self.servers.retain(|_, served| !served.registered);
    }

    /// Enters ASP-INACTIVE in all application servers.
    fn enter_inactive(&mut self) {
        self.up = true;
        for id in self.all_servers() {
            self.set_state(&id, AspState::Inactive);
        }
    }

    fn set_state(&mut self, id: &ServedId<L::AsId>, state: AspState) {
        if let Some(served) = self.servers.get_mut(id)
            && served.state != state
        {
            served.state = state;
            self.indicate(AspEvent::AspStatus(id.clone(), state));
            L::changed(self, id, state);
        }
    }

    fn all_servers(&self) -> Vec<Option<L::AsId>> {
        self.servers.keys().cloned().collect()
    }

    /// Returns the application server with an identifier. The only application server may have none here; it is meant by
    /// every identifier then.
    fn find_implied(&self, id: L::AsId) -> Option<ServedId<L::AsId>> {
        let id = Some(id);
        if self.servers.contains_key(&id) {
            return Some(id);
        }
        (self.servers.len() == 1 && self.servers.contains_key(&None)).then_some(None)
    }

    /// Returns the application servers that a message addresses, all without a list, and what it lists beside.
    fn addressed(&self, ids: Option<&AsIds<L::AsId>>) -> Addressed<L::AsId> {
        let Some(ids) = ids else {
            return (self.all_servers(), None);
        };
        if self.servers.len() == 1 && self.servers.contains_key(&None) {
            return (vec![None], None);
        }
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (first, last) in ids.ranges() {
            let listed = self
                .servers
                .range(Some(first.clone())..=Some(last.clone()))
                .map(|(id, _)| id.clone());
            let before = known.len();
            known.extend(listed);
            if known.len() == before {
                unknown.push((first.clone(), last.clone()));
            }
        }
        (known, AsIds::of_ranges(unknown))
    }

    /// Returns the application server of the user's message from the gateway, if the ASP is active there (section 4.1.1).
    /// In ASP-DOWN the message is discarded silently (section 3.8.1).
    pub(crate) fn admit(
        &mut self,
        stream: u16,
        id: Option<L::AsId>,
        message: &L::Message,
    ) -> Option<ServedId<L::AsId>> {
        if stream == 0 {
            self.refuse(ErrorCode::INVALID_STREAM_IDENTIFIER, message);
            return None;
        }
        if !self.up {
            return None;
        }
        let found = match id {
            Some(id) => self.find_implied(id).ok_or(L::INVALID_AS),
            None if self.servers.len() > 1 => Err(ErrorCode::MISSING_PARAMETER),
            None => self.servers.keys().next().cloned().ok_or(L::NO_AS),
        };
        let state = found.clone().map(|id| self.state(id));
        match (found, state) {
            (Ok(id), Ok(Some(AspState::Active))) => Some(id),
            (Err(code), _) => {
                self.refuse(code, message);
                None
            }
            _ => {
                if let Some(code) = L::INACTIVE_TRAFFIC {
                    self.refuse(code, message);
                }
                None
            }
        }
    }

    /// Returns whether a message lists application servers that the ASP does not serve; answers it then.
    pub(crate) fn lists_unknown(&mut self, message: &L::Message) -> bool {
        let (_, unknown) = self.addressed(L::ids(message).as_ref());
        let is_unknown = unknown.is_some();
        self.answer_unknown(unknown, message);
        is_unknown
    }

    pub(crate) fn indicate(&mut self, event: impl Into<L::AspIndication>) {
        self.indications.push_back(event.into());
    }

    /// Sends a message on stream 0.
    pub(crate) fn send(&mut self, message: L::Message) {
        self.transmits.push_back(Transmit::management(message));
    }

    fn send_maintenance(&mut self, content: Maintenance<L>) {
        self.send(L::write(content));
    }

    /// Answers a message with an Error message.
    pub(crate) fn refuse(&mut self, code: ErrorCode, message: &L::Message) {
        self.answer_error(error_about::<L>(code, L::ids(message), message));
    }

    /// Sends an Error message and notifies layer management.
    pub(crate) fn answer_error(&mut self, error: L::ErrorMessage) {
        self.send_maintenance(Maintenance::Error(error.clone()));
        self.indicate(AspEvent::PeerError(error));
    }
}

impl<L: Layer> ServedApplication<L> {
    const fn new(server: L::Served, registered: bool) -> Self {
        Self {
            server,
            state: AspState::Down,
            wanted: WantedTraffic::Inactive,
            outstanding: None,
            registered,
            deregistration: None,
        }
    }
}
