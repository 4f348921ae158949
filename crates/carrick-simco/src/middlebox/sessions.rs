//! The sessions of a middlebox and what waits to be sent in them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::half_open::{HalfOpen, Source};
use super::{Connection, SessionId};
use crate::Time;
use crate::message::{Challenge, Lifetime, Notification, PolicyRuleId, TransactionId};
use crate::rules::AgentIndex;

/// The states of RFC 4540 section 7.1, with what only each of them has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// CLOSED: waits for SE.
    Closed,
    /// NOAUTH: waits for SA.
    NoAuth {
        /// What the agent is to prove itself with; `None` if only the middlebox had to.
        challenge: Option<Challenge>,
    },
    /// OPEN.
    Open(AgentIndex),
    /// CLOSED for good: what is queued goes out, then the connection is closed.
    Ended,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) state: State,
    /// The agent that the transport has authenticated.
    pub(super) authenticated: Option<AgentIndex>,
    /// The transport has authenticated somebody whom nobody knows.
    pub(super) stranger: bool,
    pub(super) secure: bool,
    /// The agent has proved with its key who it is.
    pub(super) proved: bool,
    source: Option<Source>,
    streams: u16,
    deadline: Option<Time>,
    queue: VecDeque<Queued>,
    queued_octets: usize,
    next_transaction: TransactionId,
}

/// What waits to be sent in a session.
#[derive(Debug)]
enum Queued {
    Message(u16, Bytes),
    Ends(Ends),
}

/// Rules that have ended, of which an agent is told one by one as it takes it. The lists are shared by
/// all sessions; each rule is in one of them.
#[derive(Debug, Default)]
struct Ends {
    lists: VecDeque<Arc<[PolicyRuleId]>>,
    /// Those of the first list that were told.
    told: usize,
}

/// Octets of a list of [`Ends`] that a session has for itself.
const LIST_LEN: usize = size_of::<Arc<[PolicyRuleId]>>();

impl Ends {
    /// The next rule, and whether it was the last of a list.
    fn next(&mut self) -> Option<(PolicyRuleId, bool)> {
        let list = self.lists.front()?;
        let rule = *list.get(self.told)?;
        self.told += 1;
        let last = self.told == list.len();
        if last {
            self.told = 0;
            self.lists.pop_front();
        }
        Some((rule, last))
    }
}

impl Session {
    /// A notification, on a stream that `spread` chooses.
    fn notification(&mut self, spread: u32, what: Notification) -> (u16, Bytes) {
        let transaction = self.next_transaction;
        self.next_transaction = transaction.next();
        let stream = (spread % u32::from(self.streams)) as u16;
        (stream, what.to_bytes(transaction))
    }

    /// Takes what has waited the longest.
    fn next_message(&mut self) -> Option<(u16, Bytes)> {
        match self.queue.front_mut()? {
            Queued::Message(stream, message) => {
                let first = (*stream, std::mem::take(message));
                self.queued_octets -= first.1.len();
                self.queue.pop_front();
                Some(first)
            }
            Queued::Ends(ends) => {
                let (rule, last) = ends.next()?;
                if last {
                    self.queued_octets -= LIST_LEN;
                }
                if ends.lists.is_empty() {
                    self.queue.pop_front();
                }
                let lifetime = Lifetime(0);
                Some(self.notification(rule.0, Notification::RuleEvent { rule, lifetime }))
            }
        }
    }
}

/// What is to be done on a session's connection, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionOutput {
    /// Send this message on this stream.
    Send {
        /// The stream; 0 over TCP.
        stream: u16,
        /// The message.
        message: Bytes,
    },
    /// Close the connection; the session exists no longer.
    Close,
}

#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: BTreeMap<SessionId, Session>,
    /// Sessions with something to send, or to be closed.
    ready: BTreeSet<SessionId>,
    /// Sessions that are not open yet.
    pub(super) half_open: HalfOpen,
    open: usize,
    next: u64,
}

impl Sessions {
    pub(super) fn add(
        &mut self,
        deadline: Time,
        connection: &Connection,
        authenticated: Option<AgentIndex>,
        stranger: bool,
    ) -> SessionId {
        let id = SessionId(self.next);
        self.next += 1;
        let source = connection.address.map(Source::of);
        let session = Session {
            state: State::Closed,
            authenticated,
            stranger,
            secure: connection.secure,
            proved: false,
            source,
            streams: connection.streams.max(1),
            deadline: Some(deadline),
            queue: VecDeque::new(),
            queued_octets: 0,
            next_transaction: TransactionId(1),
        };
        self.half_open.add(deadline, id, source);
        self.all.insert(id, session);
        id
    }

    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.all.get(&id)
    }

    /// Those in state OPEN, with their agents.
    pub(super) fn all_open(&self) -> impl Iterator<Item = (SessionId, AgentIndex, &Session)> {
        self.all
            .iter()
            .filter_map(|(id, session)| match session.state {
                State::Open(agent) => Some((*id, agent, session)),
                _ => None,
            })
    }

    /// The agent has proved who it is.
    pub(super) fn set_proved(&mut self, id: SessionId) {
        if let Some(session) = self.all.get_mut(&id) {
            session.proved = true;
        }
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn set_state(&mut self, id: SessionId, state: State) {
        let Some(session) = self.all.get_mut(&id) else {
            return;
        };
        if matches!(state, State::Open(_) | State::Ended) {
            if let Some(deadline) = session.deadline.take() {
                self.half_open.remove(deadline, id, session.source);
            }
            if matches!(state, State::Ended) {
                self.ready.insert(id);
            }
        }
        let open = |state: &State| usize::from(matches!(state, State::Open(_)));
        self.open = self.open + open(&state) - open(&session.state);
        session.state = state;
    }

    /// The connection is gone.
    pub(super) fn remove(&mut self, id: SessionId) {
        self.set_state(id, State::Ended);
        self.all.remove(&id);
        self.ready.remove(&id);
    }

    /// Queues a message on a stream, or on one with a pair where that has none. Nothing is sent in
    /// a session that has ended.
    pub(super) fn send(&mut self, id: SessionId, stream: u16, message: Bytes) {
        let Some(session) = self.all.get_mut(&id) else {
            return;
        };
        if session.state == State::Ended {
            return;
        }
        session.queued_octets += message.len();
        let stream = stream % session.streams;
        session.queue.push_back(Queued::Message(stream, message));
        self.ready.insert(id);
    }

    /// Queues the ends of rules that ended at the same time: one thing that waits, however many they
    /// are, also together with such before.
    pub(super) fn tell_ends(&mut self, id: SessionId, rules: &Arc<[PolicyRuleId]>) {
        let Some(session) = self.all.get_mut(&id) else {
            return;
        };
        if session.state == State::Ended || rules.is_empty() {
            return;
        }
        session.queued_octets += LIST_LEN;
        match session.queue.back_mut() {
            Some(Queued::Ends(ends)) => ends.lists.push_back(Arc::clone(rules)),
            _ => session.queue.push_back(Queued::Ends(Ends {
                lists: VecDeque::from([Arc::clone(rules)]),
                told: 0,
            })),
        }
        self.ready.insert(id);
    }

    /// What waits in a session: messages, and their octets.
    pub(super) fn queued(&self, id: SessionId) -> (usize, usize) {
        let session = self.all.get(&id);
        session.map_or((0, 0), |s| (s.queue.len(), s.queued_octets))
    }

    /// Queues a notification on a stream that `spread` chooses.
    pub(super) fn notify(&mut self, id: SessionId, spread: u32, what: Notification) {
        let Some(session) = self.all.get_mut(&id) else {
            return;
        };
        let (stream, message) = session.notification(spread, what);
        self.send(id, stream, message);
    }

    pub(super) fn first_ready(&self) -> Option<SessionId> {
        self.ready.first().copied()
    }

    pub(super) fn take_ready(&mut self) -> Option<SessionId> {
        self.ready.pop_first()
    }

    pub(super) fn next_output(&mut self, id: SessionId) -> Option<SessionOutput> {
        let session = self.all.get_mut(&id)?;
        if let Some((stream, message)) = session.next_message() {
            if session.queue.is_empty() && session.state != State::Ended {
                self.ready.remove(&id);
            }
            return Some(SessionOutput::Send { stream, message });
        }
        if session.state == State::Ended {
            self.remove(id);
            return Some(SessionOutput::Close);
        }
        None
    }
}
