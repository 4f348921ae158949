//! Sessions of a middlebox and their queued messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::half_open::{HalfOpen, SourceNetwork};
use super::{Connection, SessionId};
use crate::Time;
use crate::message::{Challenge, Lifetime, Notification, PolicyRuleId, TransactionId};
use crate::rules::AgentIndex;

/// States of RFC 4540, section 7.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum SessionState {
    /// CLOSED: waits for SE.
    Closed,
    /// NOAUTH: waits for SA.
    NoAuth {
        /// Challenge that the agent has to answer; `None` if only the middlebox had to authenticate
        /// itself.
        challenge: Option<Challenge>,
    },
    /// OPEN.
    Open(AgentIndex),
    /// CLOSED finally: queued messages are sent, then the connection is closed.
    Ended,
}

#[derive(Debug)]
/// Connection of an agent, with the state of its session and the messages queued for it.
pub(super) struct Session {
    pub(super) state: SessionState,
    /// Agent authenticated by the transport.
    pub(super) authenticated: Option<AgentIndex>,
    /// True if the transport authenticated an unknown identity.
    pub(super) unknown_identity: bool,
    pub(super) secure: bool,
    /// True if the agent authenticated itself with its key.
    pub(super) key_authenticated: bool,
    source: Option<SourceNetwork>,
    streams: u16,
    deadline: Option<Time>,
    queue: VecDeque<QueuedMessage>,
    queued_octets: usize,
    next_transaction: TransactionId,
}

/// Queued message.
#[derive(Debug)]
enum QueuedMessage {
    Message(u16, Bytes),
    Ends(EndedRules),
}

/// Ended rules, reported one by one as the agent reads. The lists are shared by all sessions; each
/// rule is in one of them.
#[derive(Debug, Default)]
struct EndedRules {
    lists: VecDeque<Arc<[PolicyRuleId]>>,
    /// Number of reported rules of the first list.
    reported: usize,
}

/// Octets that a list of [`EndedRules`] takes in a session.
const LIST_LEN: usize = size_of::<Arc<[PolicyRuleId]>>();

impl EndedRules {
    /// Returns the next rule, and whether it was the last of a list.
    fn next(&mut self) -> Option<(PolicyRuleId, bool)> {
        let list = self.lists.front()?;
        let rule = *list.get(self.reported)?;
        self.reported += 1;
        let last = self.reported == list.len();
        if last {
            self.reported = 0;
            self.lists.pop_front();
        }
        Some((rule, last))
    }
}

impl Session {
    /// Encodes a notification for a stream that `spread` selects.
    fn notification(&mut self, spread: u32, what: Notification) -> (u16, Bytes) {
        let transaction = self.next_transaction;
        self.next_transaction = transaction.next();
        let stream = (spread % u32::from(self.streams)) as u16;
        (stream, what.to_bytes(transaction))
    }

    /// Removes the oldest queued message.
    fn next_message(&mut self) -> Option<(u16, Bytes)> {
        match self.queue.front_mut()? {
            QueuedMessage::Message(stream, message) => {
                let first = (*stream, std::mem::take(message));
                self.queued_octets -= first.1.len();
                self.queue.pop_front();
                Some(first)
            }
            QueuedMessage::Ends(ends) => {
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

/// Action on the connection of a session, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionOutput {
    /// Send a message on a stream.
    Send {
        /// The stream; 0 over TCP.
        stream: u16,
        /// The message.
        message: Bytes,
    },
    /// Close the connection; the session no longer exists.
    Close,
}

#[derive(Debug, Default)]
/// Sessions by identifier.
pub(super) struct Sessions {
    all: BTreeMap<SessionId, Session>,
    /// Sessions with messages to send or to be closed.
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
        unknown_identity: bool,
    ) -> SessionId {
        let id = SessionId(self.next);
        self.next += 1;
        let source = connection.address.map(SourceNetwork::of);
        let session = Session {
            state: SessionState::Closed,
            authenticated,
            unknown_identity,
            secure: connection.secure,
            key_authenticated: false,
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

    /// Returns the sessions in state OPEN with their agents.
    pub(super) fn all_open(&self) -> impl Iterator<Item = (SessionId, AgentIndex, &Session)> {
        self.all
            .iter()
            .filter_map(|(id, session)| match session.state {
                SessionState::Open(agent) => Some((*id, agent, session)),
                _ => None,
            })
    }

    /// Records that the agent authenticated itself.
    pub(super) fn set_key_authenticated(&mut self, id: SessionId) {
        if let Some(session) = self.all.get_mut(&id) {
            session.key_authenticated = true;
        }
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn set_state(&mut self, id: SessionId, state: SessionState) {
        let Some(session) = self.all.get_mut(&id) else {
            return;
        };
        if matches!(state, SessionState::Open(_) | SessionState::Ended) {
            if let Some(deadline) = session.deadline.take() {
                self.half_open.remove(deadline, id, session.source);
            }
            if matches!(state, SessionState::Ended) {
                self.ready.insert(id);
            }
        }
        let open = |state: &SessionState| usize::from(matches!(state, SessionState::Open(_)));
        self.open = self.open + open(&state) - open(&session.state);
        session.state = state;
    }

    /// Removes a session whose connection is closed.
    pub(super) fn remove(&mut self, id: SessionId) {
        self.set_state(id, SessionState::Ended);
        self.all.remove(&id);
        self.ready.remove(&id);
    }

    /// Queues a message on a stream, or on a paired one if the stream has no pair. Ignored after the
    /// end of the session.
    pub(super) fn send(&mut self, id: SessionId, stream: u16, message: Bytes) {
        let Some(session) = self.all.get_mut(&id) else {
            return;
        };
        if session.state == SessionState::Ended {
            return;
        }
        session.queued_octets += message.len();
        let stream = stream % session.streams;
        session
            .queue
            .push_back(QueuedMessage::Message(stream, message));
        self.ready.insert(id);
    }

    /// Queues the ends of rules that ended at the same time. They count as one message, also together
    /// with earlier ones.
    pub(super) fn queue_ends(&mut self, id: SessionId, rules: &Arc<[PolicyRuleId]>) {
        let Some(session) = self.all.get_mut(&id) else {
            return;
        };
        if session.state == SessionState::Ended || rules.is_empty() {
            return;
        }
        session.queued_octets += LIST_LEN;
        match session.queue.back_mut() {
            Some(QueuedMessage::Ends(ends)) => ends.lists.push_back(Arc::clone(rules)),
            _ => session.queue.push_back(QueuedMessage::Ends(EndedRules {
                lists: VecDeque::from([Arc::clone(rules)]),
                reported: 0,
            })),
        }
        self.ready.insert(id);
    }

    /// Returns the number of queued messages and their octets.
    pub(super) fn queued(&self, id: SessionId) -> (usize, usize) {
        let session = self.all.get(&id);
        session.map_or((0, 0), |s| (s.queue.len(), s.queued_octets))
    }

    /// Queues a notification on a stream that `spread` selects.
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
            if session.queue.is_empty() && session.state != SessionState::Ended {
                self.ready.remove(&id);
            }
            return Some(SessionOutput::Send { stream, message });
        }
        if session.state == SessionState::Ended {
            self.remove(id);
            return Some(SessionOutput::Close);
        }
        None
    }
}
