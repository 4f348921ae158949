//! Agent's side of a session (RFC 4540, section 7).
//!
//! [`Agent`] is a state machine. The driver reports the connection ([`Agent::connected`]), received
//! messages ([`Agent::handle_message`]) and the time ([`Agent::poll_timeout`],
//! [`Agent::handle_timeout`]). It takes messages to send from [`Agent::poll_transmit`] and events from
//! [`Agent::poll_event`] until both are empty.
//!
//! A request without a reply is not repeated: after the configured time the agent reports
//! [`AgentEvent::TimedOut`], and its user can query the outcome with PRS or PRL. A later reply is
//! reported as [`AgentEvent::LateReply`]. A request that timed out before the transport accepted it is
//! never sent. Unsolicited replies are counted and ignored; a reply that does not match its request
//! ends the session.

mod config;
mod ended_rules;
mod event;
mod pending;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use crate::Time;
use crate::message::{
    Challenge, FromMiddlebox, Lifetime, NegativeReply, Notification, PolicyRuleId, Reply, Request,
    RequestKind, TransactionId, VERSION,
};
use crate::session::{
    Identity, NONCE_LEN, SessionSide, StreamPairs, challenge_identity, make_challenge, make_token,
    token_identity, verify_token,
};

pub use config::{AgentSettings, Credentials};
use ended_rules::EndedRules;
pub use event::{AgentEvent, CloseReason, SubmitError};
use pending::PendingRequest;

/// States of RFC 4540, section 7.1, as seen by the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
enum AgentState {
    /// No session.
    Closed,
    /// SE was sent, with this challenge.
    Establishing(Option<Challenge>),
    /// SA was sent.
    Authenticating,
    /// The session is open.
    Open,
    /// ST was sent.
    Terminating,
}

/// Agent's side of a session.
#[derive(Debug)]
pub struct Agent {
    settings: AgentSettings,
    state: AgentState,
    streams: StreamPairs,
    last_transaction: TransactionId,
    pending: BTreeMap<TransactionId, PendingRequest>,
    /// Number of requests sent so far.
    requests_sent: u64,
    /// Timed-out requests that may still be answered.
    timed_out: BTreeMap<TransactionId, PendingRequest>,
    /// Ends of rules that may have overtaken replies.
    ended: EndedRules,
    /// Unsolicited replies.
    unsolicited_replies: u64,
    /// Deadlines of `pending` in the order of sending, which is the order of deadlines.
    deadlines: VecDeque<(Time, TransactionId)>,
    out: VecDeque<(u16, TransactionId, Bytes)>,
    events: VecDeque<AgentEvent>,
    random: ChaCha20Rng,
}

impl Agent {
    /// Creates an agent without a connection. On a real network, the seed must come from the operating
    /// system.
    pub fn new(settings: AgentSettings, seed: [u8; 32]) -> Self {
        Self {
            streams: StreamPairs::new(1, settings.max_bindings),
            settings,
            state: AgentState::Closed,
            last_transaction: TransactionId(0),
            pending: BTreeMap::new(),
            requests_sent: 0,
            timed_out: BTreeMap::new(),
            ended: EndedRules::default(),
            unsolicited_replies: 0,
            deadlines: VecDeque::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
            random: ChaCha20Rng::from_seed(seed),
        }
    }

    /// Returns whether requests are accepted.
    pub fn is_open(&self) -> bool {
        self.state == AgentState::Open
    }

    /// Returns the number of outstanding requests.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns the number of unsent messages, without some of timed-out requests.
    pub fn queued(&self) -> usize {
        self.out.len()
    }

    /// Returns the number of unsolicited replies.
    pub fn unsolicited_replies(&self) -> u64 {
        self.unsolicited_replies
    }

    /// Returns the number of remembered ends of rules, at most [`AgentSettings::max_pending`].
    /// Outstanding requests may be answered as if these rules had not ended.
    pub fn remembered_ends(&self) -> usize {
        self.ended.len()
    }

    /// Returns the stream pairs and the rules bound to them.
    pub fn streams(&self) -> &StreamPairs {
        &self.streams
    }

    /// Starts a session on a new connection with this number of stream pairs: the minimum of both
    /// directions, 1 over TCP. A session on an earlier connection ends.
    pub fn connected(&mut self, now: Time, streams: u16) {
        self.close(CloseReason::Disconnected);
        self.streams.restart(streams);
        let challenge = self.settings.credentials.as_ref().map(|credentials| {
            let mut nonce = [0; NONCE_LEN];
            self.random.fill_bytes(&mut nonce);
            make_challenge(&credentials.agent, nonce)
        });
        self.state = AgentState::Establishing(challenge.clone());
        let request = Request::Establish {
            version: VERSION,
            challenge,
        };
        self.send(now, 0, &request);
    }

    /// Reports the loss of the connection. Outstanding requests are reported as lost.
    pub fn disconnected(&mut self) {
        self.close(CloseReason::Disconnected);
    }

    /// Sends a request about policy rules.
    ///
    /// # Errors
    /// When the session is not open, too many requests are outstanding, or the request is one of
    /// session control, which the agent sends itself.
    pub fn submit(&mut self, now: Time, request: &Request) -> Result<TransactionId, SubmitError> {
        if self.state != AgentState::Open {
            return Err(SubmitError::NotOpen);
        }
        if self.pending.len() >= self.settings.max_pending {
            return Err(SubmitError::TooMany);
        }
        let stream = match (request.kind(), request.rule()) {
            (RequestKind::Establish | RequestKind::Authenticate | RequestKind::Terminate, _) => {
                return Err(SubmitError::SessionControl);
            }
            (_, Some(rule)) => self.streams.of(rule),
            (_, None) => self.streams.next_stream(),
        };
        Ok(self.send(now, stream, request))
    }

    /// Ends the session with ST, or closes the connection if no session is open yet. Rules remain.
    pub fn terminate(&mut self, now: Time) {
        match self.state {
            AgentState::Open | AgentState::Authenticating => {
                self.state = AgentState::Terminating;
                self.send(now, 0, &Request::Terminate);
            }
            AgentState::Establishing(_) => self.close(CloseReason::Requested),
            AgentState::Closed | AgentState::Terminating => {}
        }
    }

    /// Handles a message received on a stream (0 over TCP): one user message with any content.
    pub fn handle_message(&mut self, now: Time, stream: u16, message: &Bytes) {
        if self.state == AgentState::Closed {
            return;
        }
        match FromMiddlebox::parse(message) {
            Ok((transaction, FromMiddlebox::Reply(reply))) => {
                self.handle_reply(now, stream, transaction, reply);
            }
            Ok((_, FromMiddlebox::Notification(notification))) => {
                self.handle_notification(notification)
            }
            Err(_) => self.close(CloseReason::ProtocolViolation),
        }
    }

    /// Returns the time of the next call of [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.front().map(|(deadline, _)| *deadline)
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((deadline, transaction)) = self.deadlines.front().copied() {
            if deadline > now {
                break;
            }
            self.deadlines.pop_front();
            if let Some(pending) = self.pending.remove(&transaction) {
                match pending.kind {
                    RequestKind::Establish | RequestKind::Authenticate | RequestKind::Terminate => {
                        self.close(CloseReason::NoAnswer);
                    }
                    request => {
                        self.events.push_back(AgentEvent::TimedOut {
                            transaction,
                            request,
                            rule: pending.rule,
                        });
                        self.timed_out.insert(transaction, pending);
                    }
                }
            }
            while self.timed_out.len() > self.settings.max_pending {
                self.timed_out.pop_first();
            }
            self.skip_answered();
        }
        if self.out.len() > 2 * self.pending.len() + 64 {
            let pending = &self.pending;
            self.out
                .retain(|(_, transaction, _)| pending.contains_key(transaction));
        }
    }

    /// Returns the next message to send and its stream.
    pub fn poll_transmit(&mut self) -> Option<(u16, Bytes)> {
        while let Some((stream, transaction, message)) = self.out.pop_front() {
            if self.pending.contains_key(&transaction) {
                return Some((stream, message));
            }
        }
        None
    }

    /// Returns the next event, oldest first.
    pub fn poll_event(&mut self) -> Option<AgentEvent> {
        self.events.pop_front()
    }

    fn send(&mut self, now: Time, stream: u16, request: &Request) -> TransactionId {
        self.last_transaction = self.last_transaction.next();
        // After a wrap-around, identifiers of requests that may still be answered are skipped.
        while self.pending.contains_key(&self.last_transaction)
            || self.timed_out.contains_key(&self.last_transaction)
        {
            self.last_transaction = self.last_transaction.next();
        }
        let transaction = self.last_transaction;
        let deadline = now + self.settings.timeout;
        self.requests_sent += 1;
        let pending = PendingRequest::new(now, self.requests_sent, request);
        self.pending.insert(transaction, pending);
        self.deadlines.push_back((deadline, transaction));
        let message = request.to_bytes(transaction);
        self.out.push_back((stream, transaction, message));
        transaction
    }

    /// Drops deadlines of answered requests before the oldest outstanding one.
    fn skip_answered(&mut self) {
        while let Some((_, transaction)) = self.deadlines.front() {
            if self.pending.contains_key(transaction) {
                break;
            }
            self.deadlines.pop_front();
        }
        if self.deadlines.len() > 2 * self.pending.len() + 64 {
            let pending = &self.pending;
            self.deadlines
                .retain(|(_, transaction)| pending.contains_key(transaction));
        }
        let oldest = self.deadlines.front();
        let oldest = oldest.and_then(|(_, transaction)| self.pending.get(transaction));
        self.ended
            .answered_before(oldest.map_or(u64::MAX, |p| p.number));
    }

    fn handle_reply(&mut self, now: Time, stream: u16, transaction: TransactionId, reply: Reply) {
        let request = self.pending.get(&transaction);
        let Some(request) = request.or_else(|| self.timed_out.get(&transaction)) else {
            self.unsolicited_replies += 1;
            return;
        };
        if !request.matches(&reply) {
            return self.close(CloseReason::ProtocolViolation);
        }
        let pending = self.pending.remove(&transaction);
        let late = self.timed_out.remove(&transaction);
        let created = reply.rule();
        if let Some(rule) = created {
            self.streams.bind(rule, stream);
        }
        let ends_rule = matches!(
            reply,
            Reply::Deleted | Reply::Negative(NegativeReply::NoSuchRule)
        );
        let about = pending.as_ref().or(late.as_ref()).and_then(|p| p.rule);
        if let (true, Some(rule)) = (ends_rule, about) {
            self.streams.release(rule);
            self.remember_end(rule);
        }
        let existing = if ends_rule { None } else { created.or(about) };
        let reported: Vec<PolicyRuleId> = match &reply {
            Reply::List(list) => list.rules().to_vec(),
            Reply::Negative(_) => Vec::new(),
            _ => existing.into_iter().collect(),
        };
        match pending {
            None => self
                .events
                .push_back(AgentEvent::LateReply { transaction, reply }),
            Some(pending) => match pending.kind {
                RequestKind::Establish => self.handle_establish_reply(now, reply),
                RequestKind::Authenticate => self.handle_authenticate_reply(&reply),
                RequestKind::Terminate => self.close(CloseReason::Requested),
                request => self.events.push_back(AgentEvent::Reply {
                    transaction,
                    request,
                    rule: pending.rule,
                    reply,
                    elapsed: now.since(pending.sent),
                }),
            },
        }
        for rule in reported {
            if self.ended.contains(rule) {
                self.rule_event(rule, Lifetime(0));
            }
        }
        self.skip_answered();
    }

    fn handle_establish_reply(&mut self, now: Time, reply: Reply) {
        let AgentState::Establishing(own) = &self.state else {
            return self.close(CloseReason::ProtocolViolation);
        };
        let own = own.clone();
        match reply {
            Reply::Established(capabilities) => {
                // An agent that requested authentication accepts no session without it.
                if own.is_some() && self.settings.verify_middlebox {
                    return self.close(CloseReason::MiddleboxNotAuthenticated);
                }
                self.state = AgentState::Open;
                self.events.push_back(AgentEvent::Opened(capabilities));
            }
            Reply::Authenticate { challenge, token } => {
                let credentials = self.settings.credentials.clone();
                let mut proved = None;
                if let (Some(own), Some(credentials)) = (&own, &credentials)
                    && self.settings.verify_middlebox
                {
                    let proof = token.as_ref().and_then(|token| {
                        let middlebox = token_identity(token)?;
                        let side = SessionSide::Middlebox;
                        let Credentials { agent, key, .. } = credentials;
                        let valid = verify_token(token, key, side, own, agent, &middlebox);
                        valid.then_some(middlebox)
                    });
                    match proof {
                        None => return self.close(CloseReason::MiddleboxNotAuthenticated),
                        Some(other) if !credentials.expects(&other) => {
                            return self.close(CloseReason::OtherMiddlebox(other));
                        }
                        Some(middlebox) => proved = Some(middlebox),
                    }
                }
                let token = match (challenge, &credentials) {
                    (Some(challenge), Some(credentials)) => {
                        let Some(middlebox) = challenge_identity(&challenge) else {
                            return self.close(CloseReason::ProtocolViolation);
                        };
                        // A middlebox could relay the challenge of another one.
                        if proved.is_some_and(|proved| proved != middlebox) {
                            return self.close(CloseReason::MiddleboxNotAuthenticated);
                        }
                        if !credentials.expects(&middlebox) {
                            return self.close(CloseReason::OtherMiddlebox(middlebox));
                        }
                        let Credentials { agent, key, .. } = credentials;
                        Some(make_token(
                            key,
                            SessionSide::Agent,
                            &challenge,
                            agent,
                            &middlebox,
                        ))
                    }
                    _ => None,
                };
                self.state = AgentState::Authenticating;
                self.send(now, 0, &Request::Authenticate(token));
            }
            Reply::Negative(reply) => self.close(CloseReason::Refused(reply)),
            _ => self.close(CloseReason::ProtocolViolation),
        }
    }

    fn handle_authenticate_reply(&mut self, reply: &Reply) {
        if self.state == AgentState::Terminating {
            return;
        }
        match reply {
            Reply::Established(capabilities) if self.state == AgentState::Authenticating => {
                self.state = AgentState::Open;
                self.events.push_back(AgentEvent::Opened(*capabilities));
            }
            Reply::Negative(reply) => self.close(CloseReason::Refused(*reply)),
            _ => self.close(CloseReason::ProtocolViolation),
        }
    }

    fn handle_notification(&mut self, notification: Notification) {
        match notification {
            Notification::RuleEvent { rule, lifetime } => {
                if lifetime == Lifetime(0) {
                    self.remember_end(rule);
                }
                self.rule_event(rule, lifetime);
            }
            Notification::SessionTerminated => self.close(CloseReason::Terminated),
            Notification::BadlyFormedMessage => self.close(CloseReason::BadlyFormed),
        }
    }

    /// Records an end that outstanding requests may not reflect.
    fn remember_end(&mut self, rule: PolicyRuleId) {
        if !self.pending.is_empty() {
            self.ended
                .add(rule, self.requests_sent, self.settings.max_pending);
        }
    }

    fn rule_event(&mut self, rule: PolicyRuleId, lifetime: Lifetime) {
        if lifetime == Lifetime(0) {
            self.streams.release(rule);
        }
        self.events.push_back(AgentEvent::Rule { rule, lifetime });
    }

    /// Ends the session; the driver closes the connection.
    fn close(&mut self, reason: CloseReason) {
        if self.state == AgentState::Closed {
            return;
        }
        self.state = AgentState::Closed;
        self.out.clear();
        self.deadlines.clear();
        self.timed_out.clear();
        self.ended.clear();
        for (transaction, pending) in std::mem::take(&mut self.pending) {
            if !matches!(
                pending.kind,
                RequestKind::Establish | RequestKind::Authenticate | RequestKind::Terminate
            ) {
                self.events.push_back(AgentEvent::Lost {
                    transaction,
                    request: pending.kind,
                    rule: pending.rule,
                });
            }
        }
        self.events.push_back(AgentEvent::Closed(reason));
    }

    /// Returns the name of this agent, if it has one.
    pub fn identity(&self) -> Option<&Identity> {
        self.settings.credentials.as_ref().map(|c| &c.agent)
    }
}
