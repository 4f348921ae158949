//! Middlebox: sessions with agents, policy rules, and their effect on a packet filter.
//!
//! [`Middlebox`] is a state machine. The driver reports connections ([`Middlebox::connected`]),
//! messages ([`Middlebox::handle_message`]) and the time ([`Middlebox::poll_timeout`],
//! [`Middlebox::handle_timeout`]). After each call it takes
//! - all events ([`Middlebox::poll_event`]), for a log, and for a stored state that must be written
//!   before the reply is sent,
//! - the messages to send ([`Middlebox::poll_ready`], [`Middlebox::poll_output`]), from each session
//!   as many as its connection accepts.
//!
//! When many rules expire at once, [`Middlebox::handle_timeout`] ends some of them and is due again at
//! once, so that requests are handled in between. Their ends are reported to an agent as it reads and
//! count as one queued message. After [`MiddleboxEvent::SessionClosed`] the driver lets queued
//! messages be sent for a few seconds, then closes the connection in any case.
//!
//! The session of an agent that does not read ends. Before it passes on an agent's next message, the
//! driver checks [`Middlebox::accepts_requests`] and otherwise delays the agent, so that no session ends
//! because of the replies to its own requests.
//!
//! Rules belong to the middlebox, not to a session: they survive the connection and end with their
//! lifetime. Requests are atomic: a negative reply means that nothing changed.

mod agents;
mod checks;
mod config;
mod counts;
mod establish;
mod event;
mod half_open;
mod notifications;
mod quotas;
mod reconfigure;
mod refusal;
mod requests;
mod restore;
mod sessions;
mod status;

use std::collections::VecDeque;
use std::net::IpAddr;

use bytes::Bytes;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::Time;
use crate::backend::{Backend, BackendError, Meter, References};
use crate::message::{
    BasicType, Capabilities, HEADER_LEN, Header, Lifetime, NegativeReply, Notification,
    PolicyRuleId, Reply, Request, RequestKind, TransactionId,
};
use crate::rules::{AgentIndex, Rule, RuleTable};
use crate::session::Identity;
use agents::Agents;
use notifications::PendingNotifications;
use refusal::Refusal;
use sessions::{SessionState, Sessions};

pub use config::{AgentConfig, Limits, MiddleboxConfig, Network, Rights, RuleAccess};
pub use counts::{AgentCounts, TransactionCounts};
pub use event::{EndReason, MiddleboxEvent, Requester, SessionEnd};
pub use half_open::SourceNetwork;
pub use restore::{NotRestored, RestoredRules};
pub use sessions::SessionOutput;

/// Maximum number of expired rules that end in one call.
const EXPIRED_AT_ONCE: usize = 256;

/// Identifier of a session. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);

/// Rule whose traffic is counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeteredRule {
    /// Its policy rule identifier.
    pub rule: PolicyRuleId,
    /// Its owner.
    pub owner: Identity,
    /// True if its traffic was blocked rather than passed.
    pub blocks: bool,
}

/// Properties of a new connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Number of stream pairs: the minimum of both directions, 1 over TCP.
    pub streams: u16,
    /// True if the connection is encrypted.
    pub secure: bool,
    /// Identity of the peer, if the transport authenticated it.
    pub peer: Option<Identity>,
    /// Verified address of the peer; `None` if limits per address do not apply.
    pub address: Option<IpAddr>,
}

impl Connection {
    /// Returns an unencrypted connection.
    pub fn plain(streams: u16) -> Self {
        Self {
            streams,
            secure: false,
            peer: None,
            address: None,
        }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MiddleboxStats {
    /// Positive replies.
    pub accepted: u64,
    /// Negative replies.
    pub refused: u64,
    /// Malformed messages.
    pub badly_formed: u64,
    /// Half-open connections evicted to admit new ones.
    pub half_open_evicted: u64,
    /// Sessions ended because the agent did not read its messages.
    pub overrun: u64,
    /// Elements that the packet filter failed to remove.
    pub backend_failures: u64,
    /// Requests refused because the packet filter or the translator was full, had no free port or
    /// failed.
    pub backend_refusals: u64,
}

/// State machine of a middlebox.
#[derive(Debug)]
pub struct Middlebox<B> {
    config: MiddleboxConfig,
    agents: Agents,
    anonymous: Option<AgentIndex>,
    backend: B,
    references: References,
    rules: RuleTable,
    sessions: Sessions,
    events: VecDeque<MiddleboxEvent>,
    /// Notifications queued after the reply to the request that caused them.
    notifications: PendingNotifications,
    random: ChaCha20Rng,
    stats: MiddleboxStats,
    counts: TransactionCounts,
}

impl<B: Backend> Middlebox<B> {
    /// Creates a middlebox without rules. On a real network, the seed must come from the operating
    /// system.
    pub fn new(config: MiddleboxConfig, backend: B, seed: [u8; 32]) -> Self {
        let agents = Agents::new(config.agents.clone());
        let anonymous = config.anonymous.as_ref().and_then(|name| agents.find(name));
        Self {
            config,
            agents,
            anonymous,
            backend,
            references: References::default(),
            rules: RuleTable::default(),
            sessions: Sessions::default(),
            events: VecDeque::new(),
            notifications: PendingNotifications::default(),
            random: ChaCha20Rng::from_seed(seed),
            stats: MiddleboxStats::default(),
            counts: TransactionCounts::default(),
        }
    }

    /// Returns the packet filter.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the `most` rules with the lowest identifiers, mostly the oldest, without reservations,
    /// and the function that reads their counters; `None` if the packet filter does not count.
    pub fn meter(&mut self, most: usize) -> Option<(Vec<MeteredRule>, Meter)> {
        let rules = self.rules.iter().filter(|rule| !rule.is_reserved());
        let rules: Vec<&Rule> = rules.take(most).collect();
        let elements: Vec<_> = rules.iter().map(|rule| rule.elements()).collect();
        let metered = rules.into_iter().map(|rule| MeteredRule {
            rule: rule.id,
            owner: self.owner(rule).clone(),
            blocks: rule.blocks(),
        });
        let metered = metered.collect();
        Some((metered, self.backend.meter(&elements)?))
    }

    /// Returns the rules.
    pub fn rules(&self) -> &RuleTable {
        &self.rules
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// Returns the capabilities reported to agents. A translator binds single flows and so accepts
    /// wildcards in PDR only, which is not wildcard support in the sense of RFC 4540, section 4.3.8.
    pub fn capabilities(&self) -> Capabilities {
        let can = self.config.capabilities;
        let passes = !self.backend.translates();
        Capabilities {
            internal_address_wildcards: can.internal_address_wildcards && passes,
            external_address_wildcards: can.external_address_wildcards && passes,
            port_wildcards: can.port_wildcards && passes,
            ..can
        }
    }

    /// Returns the counters.
    pub fn stats(&self) -> MiddleboxStats {
        self.stats
    }

    /// Returns the transactions by type, result and agent.
    pub fn counts(&self) -> &TransactionCounts {
        &self.counts
    }

    /// Returns the names of all agents with their rules and open sessions, including agents removed
    /// from the configuration.
    pub fn agents(&self) -> impl Iterator<Item = (AgentIndex, &Identity, usize, usize)> {
        self.agents.iter().map(|(agent, name, sessions)| {
            (agent, name, self.rules.of_owner(agent).len(), sessions)
        })
    }

    /// Returns the number of open sessions, and of connections without one.
    pub fn session_counts(&self) -> (usize, usize) {
        (self.sessions.open(), self.sessions.half_open.len())
    }

    /// Returns the owner of a rule.
    pub fn owner(&self, rule: &Rule) -> &Identity {
        &self.agents.config(rule.owner).identity
    }

    /// Adds a connection. If too many connections, of its address or in total, have no open session,
    /// the oldest of those is evicted.
    pub fn connected(&mut self, now: Time, connection: &Connection) -> SessionId {
        while let Some(oldest) = self.connection_to_evict(connection) {
            self.stats.half_open_evicted += 1;
            self.end_session(oldest, SessionEnd::Evicted);
        }
        let authenticated = connection
            .peer
            .as_ref()
            .and_then(|name| self.agents.find(name));
        let unknown_identity = connection.peer.is_some() && authenticated.is_none();
        let deadline = now + self.config.limits.establishment;
        self.sessions
            .add(deadline, connection, authenticated, unknown_identity)
    }

    /// Returns the half-open session to evict for a new connection.
    fn connection_to_evict(&self, connection: &Connection) -> Option<SessionId> {
        let Limits {
            half_open,
            half_open_per_address,
            ..
        } = self.config.limits;
        let these = &self.sessions.half_open;
        let source = connection.address.map(SourceNetwork::of);
        let of_source = source.and_then(|s| these.oldest_of(s, half_open_per_address.max(1)));
        let full = these.len() >= half_open.max(1);
        let oldest = these.oldest().filter(|_| full);
        of_source.or(oldest.map(|(_, oldest)| oldest))
    }

    /// Handles the loss of a connection. Its rules stay.
    pub fn disconnected(&mut self, session: SessionId) {
        self.end_session(session, SessionEnd::Disconnected);
        self.sessions.remove(session);
    }

    /// Handles a byte stream that can't be split into messages ([`message::FramingError`](crate::message::FramingError)).
    pub fn stream_failed(&mut self, session: SessionId) {
        self.badly_formed(session);
    }

    /// Handles a message received on a stream (0 over TCP): one user message with any content.
    pub fn handle_message(&mut self, now: Time, session: SessionId, stream: u16, message: &Bytes) {
        self.handle_unless_ended(now, session, stream, message);
        self.queue_notifications();
    }

    /// Handles a message by the checks of RFC 4540, section 6, unless the session has ended:
    ///
    /// 1. The length in the header.
    /// 2. The basic type.
    /// 3. The sub-type, also for the state of the session (RFC 4540, section 7.1).
    /// 4. The attributes.
    /// 5. The request itself (RFC 4540, sections 7.2 to 7.4 and 8).
    fn handle_unless_ended(&mut self, now: Time, session: SessionId, stream: u16, message: &Bytes) {
        self.expire(now);
        let Some(state) = self.sessions.get(session).map(|s| s.state.clone()) else {
            return;
        };
        if state == SessionState::Ended {
            return;
        }
        // 1.
        let Ok(header) = Header::parse_whole(message) else {
            self.badly_formed(session);
            return;
        };
        let to = ReplyTo {
            session,
            stream,
            transaction: header.transaction,
        };
        // 2.
        if header.basic != BasicType::Request as u8 {
            self.malformed(to, &state, NegativeReply::WrongBasicType);
            return;
        }
        // 3.
        let Some(kind) = RequestKind::from_sub_type(header.sub_type) else {
            self.malformed(to, &state, NegativeReply::WrongSubType);
            return;
        };
        let session_control = matches!(
            kind,
            RequestKind::Establish | RequestKind::Authenticate | RequestKind::Terminate
        );
        let agent = match state {
            SessionState::Open(agent) => Some(agent),
            _ => None,
        };
        if agent.is_none() && !session_control {
            self.malformed(to, &state, NegativeReply::WrongSubType);
            return;
        }
        // 4.
        let attributes = message.slice(HEADER_LEN..);
        let Ok(request) = Request::parse_attributes(kind, &attributes) else {
            self.malformed(to, &state, NegativeReply::BadlyFormed);
            return;
        };
        // 5.
        match agent {
            Some(agent) if !session_control => {
                let outcome = self.rule_request_after_expiry(now, to.session, agent, &request);
                let reply = match outcome {
                    Ok(reply) => {
                        self.counts.accept(kind, Some(agent));
                        reply
                    }
                    Err(refusal) => self.refuse_rule_request(session, agent, request, refusal),
                };
                self.reply(to, &reply);
            }
            _ => match self.session_request(to, &state, request) {
                Some(refused) => self.counts.refuse(kind, refused, None),
                None => self.counts.accept(kind, None),
            },
        }
    }

    /// Refuses a request about policy rules.
    fn refuse_rule_request(
        &mut self,
        session: SessionId,
        agent: AgentIndex,
        request: Request,
        refusal: Refusal,
    ) -> Reply {
        let Refusal { reply, failure } = refusal;
        self.stats.backend_refusals += u64::from(failure.is_some());
        self.counts.refuse(request.kind(), reply, Some(agent));
        let by = self.actor(session, agent);
        self.events.push_back(MiddleboxEvent::Refused {
            by,
            request,
            reply,
            failure,
        });
        Reply::Negative(reply)
    }

    /// Returns the time of the next call of [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Time> {
        let half_open = self.sessions.half_open.oldest().map(|(time, _)| time);
        [
            half_open,
            self.rules.next_expiry(),
            self.references.next_retry(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.expire(now);
        self.references.retry(now, &mut self.backend);
        while let Some((deadline, session)) = self.sessions.half_open.oldest() {
            if deadline > now {
                break;
            }
            self.end_session(session, SessionEnd::NotEstablished);
        }
        self.queue_notifications();
    }

    /// Returns the next event, oldest first.
    pub fn poll_event(&mut self) -> Option<MiddleboxEvent> {
        self.events.pop_front()
    }

    /// Returns a session with output, once: the driver takes it from
    /// [`poll_output`](Self::poll_output) when the connection has room. The session is returned again
    /// when there is more.
    pub fn take_ready(&mut self) -> Option<SessionId> {
        self.sessions.take_ready()
    }

    /// Returns a session with output.
    pub fn poll_ready(&self) -> Option<SessionId> {
        self.sessions.first_ready()
    }

    /// Returns the next action on a session's connection.
    pub fn poll_output(&mut self, session: SessionId) -> Option<SessionOutput> {
        self.sessions.next_output(session)
    }

    /// Ends a session with AST and closes its connection.
    pub fn terminate(&mut self, session: SessionId) {
        let state = self.sessions.get(session).map(|s| s.state.clone());
        if matches!(
            state,
            Some(SessionState::Open(_) | SessionState::NoAuth { .. })
        ) {
            self.sessions
                .notify(session, 0, Notification::SessionTerminated);
        }
        self.end_session(session, SessionEnd::Terminated);
    }

    /// Ends a rule on behalf of the administrator and notifies all agents that may see it (RFC 4540,
    /// section 8.9).
    pub fn end_rule(&mut self, now: Time, rule: PolicyRuleId) {
        self.delete_rule(now, rule, EndReason::Administrator, None);
        self.queue_notifications();
    }

    fn actor(&self, session: SessionId, agent: AgentIndex) -> Requester {
        let agent = self.agents.config(agent).identity.clone();
        Requester { session, agent }
    }

    fn reply(&mut self, to: ReplyTo, reply: &Reply) {
        match reply {
            Reply::Negative(_) => self.stats.refused += 1,
            _ => self.stats.accepted += 1,
        }
        let message = reply.to_bytes(to.transaction);
        self.sessions.send(to.session, to.stream, message);
        self.check_queue(to.session);
    }

    /// Answers a malformed request, and closes a connection without an open session.
    fn malformed(&mut self, to: ReplyTo, state: &SessionState, reply: NegativeReply) {
        self.stats.badly_formed += 1;
        self.reply(to, &Reply::Negative(reply));
        if !matches!(state, SessionState::Open(_)) {
            self.end_session(to.session, SessionEnd::ProtocolViolation);
        }
    }

    /// Answers a malformed message with BFM, followed by AST in an open session, and closes the
    /// connection.
    fn badly_formed(&mut self, session: SessionId) {
        self.stats.badly_formed += 1;
        self.sessions
            .notify(session, 0, Notification::BadlyFormedMessage);
        if let Some(SessionState::Open(_)) = self.sessions.get(session).map(|s| &s.state) {
            self.sessions
                .notify(session, 0, Notification::SessionTerminated);
        }
        self.end_session(session, SessionEnd::ProtocolViolation);
    }

    /// Closes a session: queued messages are sent, then the connection ends.
    fn end_session(&mut self, session: SessionId, why: SessionEnd) {
        let Some(state) = self.sessions.get(session).map(|s| s.state.clone()) else {
            return;
        };
        let agent = match state {
            SessionState::Ended => return,
            SessionState::Open(agent) => {
                self.agents.session_closed(agent, session);
                Some(self.agents.config(agent).identity.clone())
            }
            SessionState::NoAuth { .. } => {
                // The agent has not been notified yet.
                if matches!(why, SessionEnd::NotEstablished | SessionEnd::Evicted) {
                    self.sessions
                        .notify(session, 0, Notification::SessionTerminated);
                }
                None
            }
            SessionState::Closed => None,
        };
        self.events.push_back(MiddleboxEvent::SessionClosed {
            session,
            agent,
            why,
        });
        self.sessions.set_state(session, SessionState::Ended);
    }

    /// Ends some expired rules.
    fn expire(&mut self, now: Time) {
        for _ in 0..EXPIRED_AT_ONCE {
            let Some(rule) = self.rules.expired(now) else {
                return;
            };
            self.delete_rule(now, rule, EndReason::Expired, None);
        }
    }

    /// Checks that the packet filter still enforces the rules. To be called periodically, since other
    /// programs may change it.
    ///
    /// # Errors
    /// [`BackendError::NotEnforced`] if it does not: the middlebox must stop, since its rules are no longer
    /// enforced.
    pub fn check_backend(&mut self) -> Result<(), BackendError> {
        match self.backend.check() {
            Err(BackendError::NotEnforced) => Err(BackendError::NotEnforced),
            // Unknown; checked again next time.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn backend_failed(&mut self, rule: PolicyRuleId, owner: AgentIndex, error: BackendError) {
        self.stats.backend_failures += 1;
        let owner = self.agents.config(owner).identity.clone();
        self.events
            .push_back(MiddleboxEvent::BackendFailed { rule, owner, error });
    }

    /// Ends a rule and notifies all agents that may see it, except the session that requested just
    /// that.
    fn delete_rule(
        &mut self,
        now: Time,
        id: PolicyRuleId,
        reason: EndReason,
        by: Option<Requester>,
    ) {
        let Some(rule) = self.rules.remove(id) else {
            return;
        };
        let elements = rule.elements();
        let removed = self
            .references
            .remove(now, &mut self.backend, &elements, rule.expires);
        if let Err(error) = removed {
            self.backend_failed(id, rule.owner, error);
        }
        if self.backend.translates()
            && let Some(reservation) = rule.reservation()
        {
            self.references
                .release(&mut self.backend, reservation, &elements);
        }
        // A PDR that ends other rules also gets notifications, since its reply does not list them.
        let requester = by.as_ref().filter(|_| reason == EndReason::Requested);
        let except = requester.map(|by| by.session);
        self.record_rule_event(rule.owner, id, Lifetime(0), except);
        self.events
            .push_back(MiddleboxEvent::RuleEnded { rule, reason, by });
    }
}

/// Destination of a reply: the stream of the request.
#[derive(Clone, Copy, Debug)]
struct ReplyTo {
    session: SessionId,
    stream: u16,
    transaction: TransactionId,
}
