//! The middlebox: sessions with agents, policy rules, and what they change in a packet filter.
//!
//! [`Middlebox`] is a state machine. The driver tells it of connections ([`Middlebox::connected`]),
//! of messages ([`Middlebox::handle_message`]) and of the time ([`Middlebox::poll_timeout`],
//! [`Middlebox::handle_timeout`]). After each call it takes
//! - what happened to rules and sessions ([`Middlebox::poll_event`]), until there is nothing left:
//!   for a log, and for a state on disk that must be written before the reply goes out,
//! - what is to be sent ([`Middlebox::poll_ready`], [`Middlebox::poll_output`]), from each session
//!   as much as its connection takes.
//!
//! When the lives of many rules are over at once, [`Middlebox::handle_timeout`] ends some of them and
//! is due again at once: others are served in between. However many rules end at once, an agent is
//! told of their ends as it takes them, and they count as one message that waits for it. After
//! [`MiddleboxEvent::SessionClosed`] the driver gives what is left a few seconds to leave, then closes
//! the connection in any case.
//!
//! A session whose agent doesn't take what is sent ends. Before it hands on an agent's next message,
//! the driver asks whether the session takes one ([`Middlebox::takes_requests`]), and else lets the
//! agent wait: so none is cut off for the replies to its own requests.
//!
//! Rules live in the middlebox, not in a session: they outlive the connection and end with their
//! lifetime. Requests are atomic: a negative reply changed nothing.

mod agents;
mod announcements;
mod checks;
mod config;
mod counts;
mod establish;
mod event;
mod half_open;
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
use announcements::Announcements;
use refusal::Refusal;
use sessions::{Sessions, State};

pub use config::{Access, AgentConfig, Limits, MiddleboxConfig, Network, Rights};
pub use counts::{AgentCounts, TransactionCounts};
pub use event::{Actor, EndReason, MiddleboxEvent, SessionEnd};
pub use half_open::Source;
pub use restore::{NotRestored, Restored};
pub use sessions::SessionOutput;

/// Rules whose life is over that end in one call at most, so that others are served meanwhile.
const EXPIRED_AT_ONCE: usize = 256;

/// A session of a middlebox. Never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);

/// A rule of which is told what its elements have met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeteredRule {
    /// Its PID.
    pub rule: PolicyRuleId,
    /// Who created it.
    pub owner: Identity,
    /// What is counted was dropped by it; else it has let it pass.
    pub blocks: bool,
}

/// What the driver knows of a new connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Stream pairs: the smaller of the streams both ways; 1 over TCP.
    pub streams: u16,
    /// It is encrypted.
    pub secure: bool,
    /// Who the peer is, if the transport has authenticated it.
    pub peer: Option<Identity>,
    /// Where it comes from, as far as the transport has made sure of it; `None` where no address
    /// can crowd out others.
    pub address: Option<IpAddr>,
}

impl Connection {
    /// A plain connection with so many stream pairs.
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
    /// Requests that got a positive reply.
    pub accepted: u64,
    /// Requests that got a negative reply.
    pub refused: u64,
    /// Messages that were none.
    pub badly_formed: u64,
    /// Connections that had to give way to others before they had a session.
    pub crowded_out: u64,
    /// Sessions ended because their agent didn't take what was sent.
    pub overrun: u64,
    /// Elements that the packet filter didn't remove when it should.
    pub backend_failures: u64,
    /// Requests that were refused because of the packet filter or the translator: it was full, had no
    /// ports, or failed.
    pub backend_refusals: u64,
}

/// The middlebox.
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
    /// What agents are to be told after the reply to the request that caused it.
    announcements: Announcements,
    random: ChaCha20Rng,
    stats: MiddleboxStats,
    counts: TransactionCounts,
}

impl<B: Backend> Middlebox<B> {
    /// A middlebox without rules. On a real network, the seed must come from the operating system.
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
            announcements: Announcements::default(),
            random: ChaCha20Rng::from_seed(seed),
            stats: MiddleboxStats::default(),
            counts: TransactionCounts::default(),
        }
    }

    /// The packet filter.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The rules with the smallest identifiers, so many at most, which have mostly lived the longest, and
    /// what reads what they have let pass or blocked; `None` if the packet filter doesn't count.
    /// Reservations do neither, and are left out.
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

    /// The rules.
    pub fn rules(&self) -> &RuleTable {
        &self.rules
    }

    /// What is bounded, and how.
    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// What agents are told that the middlebox can do: a translator binds single flows, so that it takes
    /// wildcards in PDR only, which section 4.3.8 of RFC 4540 doesn't mean by wildcard support.
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

    /// Counters.
    pub fn stats(&self) -> MiddleboxStats {
        self.stats
    }

    /// Transactions by type, result and agent.
    pub fn counts(&self) -> &TransactionCounts {
        &self.counts
    }

    /// The names of all agents, with their rules and open sessions; an agent that is no longer in
    /// the configuration as long as the middlebox lives.
    pub fn agents(&self) -> impl Iterator<Item = (AgentIndex, &Identity, usize, usize)> {
        self.agents.iter().map(|(agent, name, sessions)| {
            (agent, name, self.rules.of_owner(agent).len(), sessions)
        })
    }

    /// Sessions in state OPEN, and connections on which none is open.
    pub fn session_counts(&self) -> (usize, usize) {
        (self.sessions.open(), self.sessions.half_open.len())
    }

    /// The name of the agent that owns a rule.
    pub fn owner(&self, rule: &Rule) -> &Identity {
        &self.agents.config(rule.owner).identity
    }

    /// An agent has connected. When too many of its address, or of all, have no session yet, the
    /// oldest of those gives way.
    pub fn connected(&mut self, now: Time, connection: &Connection) -> SessionId {
        while let Some(oldest) = self.in_the_way(connection) {
            self.stats.crowded_out += 1;
            self.end_session(oldest, SessionEnd::CrowdedOut);
        }
        let authenticated = connection
            .peer
            .as_ref()
            .and_then(|name| self.agents.find(name));
        let stranger = connection.peer.is_some() && authenticated.is_none();
        let deadline = now + self.config.limits.establishment;
        self.sessions
            .add(deadline, connection, authenticated, stranger)
    }

    /// The half-open session that must give way to another connection.
    fn in_the_way(&self, connection: &Connection) -> Option<SessionId> {
        let Limits {
            half_open,
            half_open_per_address,
            ..
        } = self.config.limits;
        let these = &self.sessions.half_open;
        let source = connection.address.map(Source::of);
        let of_source = source.and_then(|s| these.oldest_of(s, half_open_per_address.max(1)));
        let full = these.len() >= half_open.max(1);
        let oldest = these.oldest().filter(|_| full);
        of_source.or(oldest.map(|(_, oldest)| oldest))
    }

    /// The connection of a session is gone. Its rules stay.
    pub fn disconnected(&mut self, session: SessionId) {
        self.end_session(session, SessionEnd::Disconnected);
        self.sessions.remove(session);
    }

    /// The byte stream of a session can't be read any further ([`crate::message::FramingError`]).
    pub fn stream_failed(&mut self, session: SessionId) {
        self.badly_formed(session);
    }

    /// A message came on a stream (0 over TCP): one whole user message, whatever it holds.
    pub fn handle_message(&mut self, now: Time, session: SessionId, stream: u16, message: &Bytes) {
        self.take_message(now, session, stream, message);
        self.tell();
    }

    fn take_message(&mut self, now: Time, session: SessionId, stream: u16, message: &Bytes) {
        self.expire(now);
        let Some(state) = self.sessions.get(session).map(|s| s.state.clone()) else {
            return;
        };
        if state == State::Ended {
            return;
        }
        // The checks of section 6, in its order.
        let Ok(header) = Header::parse_whole(message) else {
            self.badly_formed(session);
            return;
        };
        let to = ReplyTo {
            session,
            stream,
            transaction: header.transaction,
        };
        if header.basic != BasicType::Request as u8 {
            self.malformed(to, &state, NegativeReply::WrongBasicType);
            return;
        }
        let Some(kind) = RequestKind::from_sub_type(header.sub_type) else {
            self.malformed(to, &state, NegativeReply::WrongSubType);
            return;
        };
        let session_control = matches!(
            kind,
            RequestKind::Establish | RequestKind::Authenticate | RequestKind::Terminate
        );
        let agent = match state {
            State::Open(agent) => Some(agent),
            _ => None,
        };
        if agent.is_none() && !session_control {
            self.malformed(to, &state, NegativeReply::WrongSubType);
            return;
        }
        let attributes = message.slice(HEADER_LEN..);
        let Ok(request) = Request::parse_attributes(kind, &attributes) else {
            self.malformed(to, &state, NegativeReply::BadlyFormed);
            return;
        };
        match agent {
            Some(agent) if !session_control => {
                let outcome = self.rule_request_now(now, to.session, agent, &request);
                let reply = match outcome {
                    Ok(reply) => {
                        self.counts.accept(kind, Some(agent));
                        reply
                    }
                    Err(refusal) => self.refused(session, agent, request, refusal),
                };
                self.reply(to, &reply);
            }
            _ => match self.session_request(to, &state, request) {
                Some(refused) => self.counts.refuse(kind, refused, None),
                None => self.counts.accept(kind, None),
            },
        }
    }

    /// A request about policy rules is refused.
    fn refused(
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

    /// When [`handle_timeout`](Self::handle_timeout) must be called.
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

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.expire(now);
        self.references.retry(now, &mut self.backend);
        while let Some((deadline, session)) = self.sessions.half_open.oldest() {
            if deadline > now {
                break;
            }
            self.end_session(session, SessionEnd::NotEstablished);
        }
        self.tell();
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<MiddleboxEvent> {
        self.events.pop_front()
    }

    /// A session with something to do on its connection, told once: the driver takes it from
    /// [`poll_output`](Self::poll_output), now or when the connection takes more. It is told again
    /// when more comes up.
    pub fn take_ready(&mut self) -> Option<SessionId> {
        self.sessions.take_ready()
    }

    /// A session with something to send.
    pub fn poll_ready(&self) -> Option<SessionId> {
        self.sessions.first_ready()
    }

    /// The next thing to do on a session's connection.
    pub fn poll_output(&mut self, session: SessionId) -> Option<SessionOutput> {
        self.sessions.next_output(session)
    }

    /// Ends a session: AST, then the connection is closed.
    pub fn terminate(&mut self, session: SessionId) {
        let state = self.sessions.get(session).map(|s| s.state.clone());
        if matches!(state, Some(State::Open(_) | State::NoAuth { .. })) {
            self.sessions
                .notify(session, 0, Notification::SessionTerminated);
        }
        self.end_session(session, SessionEnd::Terminated);
    }

    /// Ends a rule that the agent did not ask to end; all who may see it are told (section 8.9).
    pub fn end_rule(&mut self, now: Time, rule: PolicyRuleId) {
        self.delete_rule(now, rule, EndReason::Administrator, None);
        self.tell();
    }

    fn actor(&self, session: SessionId, agent: AgentIndex) -> Actor {
        let agent = self.agents.config(agent).identity.clone();
        Actor { session, agent }
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

    /// A request that is none: the reply, and the end of a connection without a session.
    fn malformed(&mut self, to: ReplyTo, state: &State, reply: NegativeReply) {
        self.stats.badly_formed += 1;
        self.reply(to, &Reply::Negative(reply));
        if !matches!(state, State::Open(_)) {
            self.end_session(to.session, SessionEnd::Misbehaved);
        }
    }

    /// A message that is none: BFM, AST in an open session, the end.
    fn badly_formed(&mut self, session: SessionId) {
        self.stats.badly_formed += 1;
        self.sessions
            .notify(session, 0, Notification::BadlyFormedMessage);
        if let Some(State::Open(_)) = self.sessions.get(session).map(|s| &s.state) {
            self.sessions
                .notify(session, 0, Notification::SessionTerminated);
        }
        self.end_session(session, SessionEnd::Misbehaved);
    }

    /// The session is closed: what is queued goes out, then the connection ends.
    fn end_session(&mut self, session: SessionId, why: SessionEnd) {
        let Some(state) = self.sessions.get(session).map(|s| s.state.clone()) else {
            return;
        };
        let agent = match state {
            State::Ended => return,
            State::Open(agent) => {
                self.agents.session_closed(agent, session);
                Some(self.agents.config(agent).identity.clone())
            }
            State::NoAuth { .. } => {
                // Nobody has told it yet.
                if matches!(why, SessionEnd::NotEstablished | SessionEnd::CrowdedOut) {
                    self.sessions
                        .notify(session, 0, Notification::SessionTerminated);
                }
                None
            }
            State::Closed => None,
        };
        self.events.push_back(MiddleboxEvent::SessionClosed {
            session,
            agent,
            why,
        });
        self.sessions.set_state(session, State::Ended);
    }

    /// Ends some rules whose life is over.
    fn expire(&mut self, now: Time) {
        for _ in 0..EXPIRED_AT_ONCE {
            let Some(rule) = self.rules.expired(now) else {
                return;
            };
            self.delete_rule(now, rule, EndReason::Expired, None);
        }
    }

    /// Whether the packet filter still is what the middlebox made of it; to be asked now and then,
    /// because others may change it.
    ///
    /// # Errors
    /// [`BackendError::Gone`] if it isn't: the middlebox must stop, because what it tells agents is
    /// not so any more.
    pub fn check_backend(&mut self) -> Result<(), BackendError> {
        match self.backend.check() {
            Err(BackendError::Gone) => Err(BackendError::Gone),
            // Nobody knows; next time.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn backend_failed(&mut self, rule: PolicyRuleId, owner: AgentIndex, error: BackendError) {
        self.stats.backend_failures += 1;
        let owner = self.agents.config(owner).identity.clone();
        self.events
            .push_back(MiddleboxEvent::BackendFailed { rule, owner, error });
    }

    /// Ends a rule, and tells all who may see it but the session that asked for just that.
    fn delete_rule(&mut self, now: Time, id: PolicyRuleId, reason: EndReason, by: Option<Actor>) {
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
        // Whoever ended another's rule with a PDR is told too: that reply says nothing of it.
        let asked = by.as_ref().filter(|_| reason == EndReason::Requested);
        let except = asked.map(|by| by.session);
        self.announce(rule.owner, id, Lifetime(0), except);
        self.events
            .push_back(MiddleboxEvent::RuleEnded { rule, reason, by });
    }
}

/// Where a reply goes: back on the stream of the request.
#[derive(Clone, Copy, Debug)]
struct ReplyTo {
    session: SessionId,
    stream: u16,
    transaction: TransactionId,
}
