//! Which ASP a peer of the gateway is.
//!
//! ```text
//! association ── address, port ──> candidates ── one without identifier ──────────────────> ASP
//!                                      │ ASP Up
//!                                      ├── ASP Identifier of a candidate ────────────────> ASP
//!                                      ├── candidates with equal application servers ────> first one without association
//!                                      └── ASP Up Ack ── ASP Active with its servers ────> ASP
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{SourceKey, Time};
use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::sgp::AspKey;
use carrick_sigtran::aspm::{AsIds, LayerMessage, Maintenance};
use carrick_sigtran::message::{AspDown, AspUp, DecodeError, ErrorCode};

use super::admission::PeerSource;
use super::gateway::{GatewayAsp, GatewaySide};
use super::{Node, Role};
use crate::association::AssociationId;
use crate::event::EventKind;
use crate::layer::SocketLayer;

/// Time that a peer has to identify itself with ASP Up.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Peer that is not identified yet.
#[derive(Clone)]
pub(super) struct Unidentified {
    /// ASPs that the peer can be.
    candidates: Vec<AspKey>,
    pub(super) source: PeerSource,
    state: UnidentifiedState,
    /// Reason for which it is refused if it does not identify itself.
    reason: &'static str,
}

#[derive(Clone)]
enum UnidentifiedState {
    /// The association is aborted at this time.
    AwaitingUp(Time),
    /// ASP Up was acknowledged; the application servers of a message identify the ASP.
    Up(AspUp),
}

impl Unidentified {
    pub(super) fn new(now: Time, candidates: Vec<AspKey>, source: PeerSource) -> Self {
        Self {
            candidates,
            source,
            state: UnidentifiedState::AwaitingUp(now + TIME_LIMIT),
            reason: "the peer did not identify itself with ASP Up",
        }
    }

    /// Returns the time at which the association is aborted.
    pub(super) const fn deadline(&self) -> Option<Time> {
        match self.state {
            UnidentifiedState::AwaitingUp(deadline) => Some(deadline),
            UnidentifiedState::Up(_) => None,
        }
    }

    pub(super) const fn reason(&self) -> &'static str {
        self.reason
    }

    /// The association has restarted, or the ASP is down.
    pub(super) fn await_up(&mut self, now: Time) {
        self.state = UnidentifiedState::AwaitingUp(now + TIME_LIMIT);
    }
}

/// Outcome of a message of an unidentified peer.
enum Identification<L: SocketLayer> {
    /// The message is one of this ASP.
    Asp(AspKey),
    /// The peer remains unidentified, and gets this answer.
    Answer(Maintenance<L>),
    /// The message is not acceptable, for this reason.
    Refused(ErrorCode, &'static str),
    Ignored,
}

impl<L: SocketLayer> GatewaySide<L> {
    /// Returns the ASPs that a peer with this address and port can be. ASPs of which the port is configured precede those
    /// with any port.
    pub(super) fn candidates(&self, address: Option<&IpAddr>, port: u16) -> Vec<AspKey> {
        let matches = |asp: &GatewayAsp<_>| {
            let settings = &asp.settings;
            let addresses = &settings.addresses;
            (addresses.is_empty() || address.is_some_and(|address| addresses.contains(address)))
                && settings.port.is_none_or(|configured| configured == port)
        };
        let found: Vec<_> = self.asps.iter().filter(|(_, asp)| matches(asp)).collect();
        let has_port = |asp: &GatewayAsp<_>| asp.settings.port.is_some();
        let exact = found.iter().any(|(_, asp)| has_port(asp));
        let found = found.into_iter().filter(|(_, asp)| !exact || has_port(asp));
        found.map(|(key, _)| *key).collect()
    }

    /// Returns the source of an association from this address, and the number of ASPs with the address.
    pub(super) fn source(&self, address: IpAddr) -> (PeerSource, usize) {
        let asps = self.asps.values();
        let with_address = asps.filter(|asp| asp.settings.addresses.contains(&address));
        match with_address.count() {
            0 => (PeerSource::Other(SourceKey::of(address)), 0),
            asps => (PeerSource::Configured(address), asps),
        }
    }

    /// Returns the ASP if its address alone identifies it.
    pub(super) fn identified_by_address(&self, candidates: &[AspKey]) -> Option<AspKey> {
        let [only] = candidates else {
            return None;
        };
        let asp = self.asps.get(only)?;
        let by_address = asp.settings.identifier.is_none();
        by_address.then_some(*only)
    }

    /// Handles a message of an unidentified peer.
    fn identify(&self, peer: &Unidentified, message: &L::Message) -> Identification<L> {
        match (L::read(message), &peer.state) {
            (Some(Maintenance::AspUp(up)), _) => self.identify_by_up(&peer.candidates, &up),
            (Some(Maintenance::AspDown(_)), UnidentifiedState::Up(_)) => {
                Identification::Answer(Maintenance::AspDownAck(AspDown::default()))
            }
            (Some(Maintenance::Heartbeat(beat)), _) => {
                Identification::Answer(Maintenance::HeartbeatAck(beat))
            }
            (
                Some(Maintenance::HeartbeatAck(_) | Maintenance::Notify(_) | Maintenance::Error(_)),
                _,
            ) => Identification::Ignored,
            (_, UnidentifiedState::Up(_)) => match L::ids(message) {
                Some(ids) => self.identify_by_servers(&peer.candidates, &ids),
                None => Identification::Refused(
                    ErrorCode::MISSING_PARAMETER,
                    "several ASPs have the address, and the message has no routing context",
                ),
            },
            _ => Identification::Refused(
                ErrorCode::UNEXPECTED_MESSAGE,
                "another message precedes ASP Up",
            ),
        }
    }

    fn identify_by_up(&self, candidates: &[AspKey], up: &AspUp) -> Identification<L> {
        let configured = |key: &AspKey| self.asps.get(key).map(|asp| asp.settings.identifier);
        if up.asp_identifier.is_some() {
            let mut candidates = candidates.iter();
            if let Some(key) = candidates.find(|key| configured(key) == Some(up.asp_identifier)) {
                return Identification::Asp(*key);
            }
        }
        let candidates = candidates.iter().copied();
        let others: Vec<_> = candidates
            .filter(|key| configured(key) == Some(None))
            .collect();
        match (&others[..], up.asp_identifier) {
            ([], None) => Identification::Refused(
                ErrorCode::ASP_IDENTIFIER_REQUIRED,
                "ASP Up without ASP Identifier, which is configured for each ASP with the address",
            ),
            ([], Some(_)) => Identification::Refused(
                ErrorCode::INVALID_ASP_IDENTIFIER,
                "ASP Up with an ASP Identifier that no ASP with the address has",
            ),
            (_, _) if self.have_equal_servers(&others) => self.first_free(&others),
            _ => Identification::Answer(Maintenance::AspUpAck(AspUp::default())),
        }
    }

    /// Finds the ASP by the application servers of a message: of the ASPs that have them, one without association
    /// precedes, then the one with the fewest application servers.
    fn identify_by_servers(
        &self,
        candidates: &[AspKey],
        ids: &AsIds<L::AsId>,
    ) -> Identification<L> {
        let serves = |asp: &GatewayAsp<L::AsId>| {
            let mut ranges = ids.ranges().iter();
            ranges.all(|(first, last)| {
                let mut servers = asp.settings.application_servers.iter();
                servers.any(|id| first <= id && id <= last)
            })
        };
        let serving = candidates.iter().copied().filter(|key| {
            let asp = self.asps.get(key);
            asp.is_some_and(|asp| asp.settings.identifier.is_none() && serves(asp))
        });
        let mut serving: Vec<_> = serving.collect();
        serving.sort_by_key(|key| {
            let asp = self.asps.get(key);
            asp.map(|asp| (!asp.is_free(), asp.settings.application_servers.len()))
        });
        match serving.first() {
            None => Identification::Refused(
                L::INVALID_AS,
                "no ASP with the address has the application servers of the message",
            ),
            Some(_) => self.first_free(&serving),
        }
    }

    fn have_equal_servers(&self, asps: &[AspKey]) -> bool {
        let mut servers = asps.iter().filter_map(|key| {
            let asp = self.asps.get(key)?;
            let mut servers = asp.settings.application_servers.clone();
            servers.sort();
            Some(servers)
        });
        let first = servers.next();
        servers.all(|other| Some(other) == first)
    }

    /// Returns the first ASP without association; the only ASP even with one, which the new one replaces.
    fn first_free(&self, asps: &[AspKey]) -> Identification<L> {
        let is_free = |key: &&AspKey| self.asps.get(key).is_some_and(GatewayAsp::is_free);
        match (asps, asps.iter().find(is_free)) {
            (_, Some(found)) => Identification::Asp(*found),
            ([only], None) => Identification::Asp(*only),
            (_, None) => Identification::Refused(
                ErrorCode::MANAGEMENT_BLOCKING,
                "all ASPs with the address have associations",
            ),
        }
    }
}

impl<L: SocketLayer> Node<L> {
    /// Handles a message of a peer that is not identified yet.
    pub(super) fn on_unidentified(
        &mut self,
        now: Time,
        id: AssociationId,
        stream: u16,
        decoded: Result<L::Message, DecodeError>,
        octets: &Bytes,
    ) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        let Role::Unidentified(peer) = &mut association.role else {
            return;
        };
        let message = match decoded {
            Ok(message) => message,
            Err(error) => {
                let answer = L::answering(&error, octets).map(Maintenance::Error);
                return self.answer_unidentified(id, answer);
            }
        };
        match self.gateway.identify(peer, &message) {
            Identification::Asp(key) => {
                let acknowledged = match &peer.state {
                    UnidentifiedState::Up(up) => Some(up.clone()),
                    UnidentifiedState::AwaitingUp(_) => None,
                };
                self.set_identity(now, id, key);
                let sgp = &mut self.gateway.sgp;
                if let Some(up) = acknowledged {
                    sgp.adopt_up(now, key, &up);
                }
                sgp.handle_message(now, key, stream, &message);
            }
            Identification::Answer(answer) => {
                match L::read(&message) {
                    Some(Maintenance::AspUp(up)) => peer.state = UnidentifiedState::Up(up),
                    Some(Maintenance::AspDown(_)) => peer.await_up(now),
                    _ => {}
                }
                self.answer_unidentified(id, Some(answer));
            }
            Identification::Refused(code, reason) => {
                peer.reason = reason;
                let error = Maintenance::Error(L::error(code, None, octets));
                self.answer_unidentified(id, Some(error));
            }
            Identification::Ignored => {}
        }
    }

    fn answer_unidentified(&mut self, id: AssociationId, answer: Option<Maintenance<L>>) {
        let octets = answer.and_then(|answer| L::write(answer).encode().ok());
        if octets.is_some() {
            self.stage_octets(Some(id), 0, false, octets);
        }
    }

    /// An association is that of an ASP. It replaces an earlier one, whose end the peer may have lost.
    pub(super) fn set_identity(&mut self, now: Time, id: AssociationId, key: AspKey) {
        let Some(asp) = self.gateway.asps.get_mut(&key) else {
            return;
        };
        let name = Arc::clone(&asp.name);
        if let Some(earlier) = asp.association.replace(id) {
            self.replace(earlier);
            let sgp = &mut self.gateway.sgp;
            sgp.handle_sctp(now, key, SctpNotification::Down);
        }
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        association.role = Role::Asp(key);
        let outbound_streams = association.open.sender.control().outbound_streams();
        let addresses = association.open.sender.control().peer_addresses().to_vec();
        let up = SctpNotification::Up { outbound_streams };
        self.gateway.sgp.handle_sctp(now, key, up);
        self.notify(name, EventKind::Connected(addresses));
    }
}
