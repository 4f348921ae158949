//! Task that runs the agent's state machine over successive connections.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::agent_link::AgentLink;
use super::{ClientConfig, ClientError, ClientEvent, random_seed};
use crate::transport::{Clock, MessageLink};
use carrick_simco::agent::{Agent, AgentEvent, CloseReason, SubmitError};
use carrick_simco::message::{
    Capabilities, Lifetime, NegativeReply, PolicyRuleId, Reply, Request, TransactionId,
};

/// Capacity of the queue to the writer.
const OUTBOX: usize = 1024;

/// Maximum number of requests taken at once.
const BATCH: usize = 64;

/// Maximum number of timed-out requests that may still be answered.
const MAX_LATE: usize = 4096;

/// Maximum number of requests that wait for the next session.
const MAX_QUEUED: usize = 1024;

/// Maximum pause before reconnecting while a request waits.
const REQUEST_PAUSE: Duration = Duration::from_secs(1);

/// Time to send the remaining messages after the end of a session.
const LINGER: Duration = Duration::from_secs(5);

/// Command of a handle to the task.
pub(super) enum SessionCommand {
    /// Request and destination of its answer.
    Request(Request, AnswerSender),
    /// The rule of this transaction is held already; ignore a late reply.
    IgnoreLateReply(TransactionId),
    /// End of the session.
    End(oneshot::Sender<()>),
}

/// Reason for which a request has no positive reply.
#[derive(Debug)]
pub(super) enum TransactionError {
    Refused(NegativeReply),
    TimedOut(LateReply),
    NotConnected,
    /// The session was lost before the reply, at this time.
    Lost(Instant),
    TooMany,
    Ended,
}

/// Timed-out transaction that may still be answered. If the receiver is dropped, a rule that was created is
/// deleted.
#[derive(Debug)]
pub(super) struct LateReply {
    pub(super) transaction: TransactionId,
    pub(super) reply: oneshot::Receiver<ReplyDelivery>,
}

/// Request that its caller may cancel. Clones share state.
#[derive(Clone, Debug)]
pub(super) struct Cancellation {
    token: CancellationToken,
    sent: Arc<AtomicBool>,
}

impl Cancellation {
    pub(super) fn new(token: &CancellationToken) -> Self {
        Self {
            token: token.clone(),
            sent: Arc::default(),
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns whether the request was sent, so that the middlebox may have acted on it.
    pub(super) fn was_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }
}

/// Destination of an answer.
pub(super) struct AnswerSender {
    to: oneshot::Sender<Result<ReplyDelivery, TransactionError>>,
    cancellation: Option<Cancellation>,
}

impl AnswerSender {
    pub(super) fn new(
        to: oneshot::Sender<Result<ReplyDelivery, TransactionError>>,
        cancellation: Option<Cancellation>,
    ) -> Self {
        Self { to, cancellation }
    }

    /// Returns whether the caller has dropped or cancelled the request.
    fn is_closed(&self) -> bool {
        let cancelled = |c: &Cancellation| c.is_cancelled();
        self.to.is_closed() || self.cancellation.as_ref().is_some_and(cancelled)
    }

    /// Records that the request was sent.
    fn sent(&self) {
        if let Some(cancellation) = &self.cancellation {
            cancellation.sent.store(true, Ordering::Relaxed);
        }
    }

    fn send(self, answer: Result<ReplyDelivery, TransactionError>) {
        // The receiver may have been dropped.
        let _ = self.to.send(answer);
    }
}

/// Request that was sent and not answered yet.
struct PendingReply {
    answer: AnswerSender,
    /// True if the request creates a rule whose identifier is known from the reply only. PEA does not.
    creates_rule: bool,
}

/// Reply being delivered. If it is dropped, the rule that it created is deleted.
#[derive(Debug)]
pub(super) struct ReplyDelivery {
    reply: Option<Reply>,
    unclaimed: Option<mpsc::UnboundedSender<PolicyRuleId>>,
}

impl ReplyDelivery {
    pub(super) fn take(mut self) -> Option<Reply> {
        self.reply.take()
    }
}

impl Drop for ReplyDelivery {
    fn drop(&mut self) {
        if let (Some(rule), Some(unclaimed)) =
            (self.reply.as_ref().and_then(created_rule), &self.unclaimed)
        {
            // Without a session the rule expires.
            let _ = unclaimed.send(rule);
        }
    }
}

/// Receives the result of the first session.
type FirstSession = oneshot::Sender<Result<Capabilities, ClientError>>;

/// Task of a client: its configuration, commands and successive sessions.
pub(super) struct SessionTask {
    config: ClientConfig,
    commands: mpsc::Receiver<SessionCommand>,
    /// Requests that wait for the next session. Callers time out on their own.
    queued: VecDeque<SessionCommand>,
    events: broadcast::Sender<ClientEvent>,
    random: ChaCha8Rng,
    clock: Clock,
}

/// State of one session.
struct OpenSession {
    agent: Agent,
    clock: Clock,
    pending: BTreeMap<TransactionId, PendingReply>,
    late: BTreeMap<TransactionId, (oneshot::Sender<ReplyDelivery>, bool)>,
    /// Late replies to ignore.
    ignored: VecDeque<TransactionId>,
    ending: Option<oneshot::Sender<()>>,
    closed: Option<CloseReason>,
    /// Rules to delete because their reply was dropped. Bounded by the number of replies being
    /// delivered.
    unclaimed: mpsc::UnboundedSender<PolicyRuleId>,
}

impl SessionTask {
    pub(super) fn new(
        config: ClientConfig,
        commands: mpsc::Receiver<SessionCommand>,
        events: broadcast::Sender<ClientEvent>,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            config,
            commands,
            queued: VecDeque::new(),
            events,
            random: ChaCha8Rng::from_seed(random_seed()?),
            clock: Clock::start(),
        })
    }

    /// Connects and runs sessions until the client ends. If the first session does not open, it is not
    /// repeated.
    pub(super) async fn run(mut self, opened: FirstSession) {
        let mut opened = Some(opened);
        let mut pause = self.config.first_pause;
        loop {
            match self.connect().await {
                Ok(link) => {
                    let (reason, open) = self.session(link, &mut opened).await;
                    if let Some(opened) = opened.take() {
                        // The receiver may have been dropped.
                        let _ = opened.send(Err(ClientError::Session(reason)));
                        return;
                    }
                    if reason == CloseReason::Requested {
                        return;
                    }
                    if open {
                        pause = self.config.first_pause;
                    }
                }
                Err(error) => {
                    if let Some(opened) = opened.take() {
                        let _ = opened.send(Err(error));
                        return;
                    }
                    self.emit(ClientEvent::NotConnected(error.to_string()));
                }
            }
            if !self.pause(pause).await {
                return;
            }
            pause = (2 * pause).min(self.config.longest_pause);
        }
    }

    fn emit(&self, event: ClientEvent) {
        // There may be no receiver.
        let _ = self.events.send(event);
    }

    async fn connect(&self) -> Result<MessageLink, ClientError> {
        let target = &self.config.target;
        let connected = tokio::time::timeout(self.config.settings.timeout, target.connect());
        let no_answer = || Err("no answer: check address, port and transport".to_owned());
        let connected = connected.await.unwrap_or_else(|_| no_answer());
        connected.map_err(|why| ClientError::Connect {
            target: target.to_string(),
            why,
        })
    }

    /// Waits for a pause with jitter of a quarter, less if a request arrives. Returns whether the
    /// client continues.
    async fn pause(&mut self, pause: Duration) -> bool {
        let share = (self.random.next_u32() >> 8) as f32 / (1 << 24) as f32;
        let wait = tokio::time::sleep(pause.mul_f32(0.75 + share / 2.0));
        tokio::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => return !self.commands.is_closed(),
                command = self.commands.recv() => match command {
                    None => return false,
                    Some(SessionCommand::End(done)) => {
                        let _ = done.send(());
                        return false;
                    }
                    Some(SessionCommand::Request(request, answer)) => {
                        let sooner = Instant::now() + REQUEST_PAUSE;
                        if sooner < wait.deadline() {
                            wait.as_mut().reset(sooner);
                        }
                        self.queue(request, answer);
                    }
                    Some(SessionCommand::IgnoreLateReply(_)) => {}
                },
            }
        }
    }

    fn queue(&mut self, request: Request, answer: AnswerSender) {
        if self.queued.len() >= MAX_QUEUED {
            let is_open = |command: &SessionCommand| matches!(command, SessionCommand::Request(_, a) if !a.is_closed());
            self.queued.retain(is_open);
        }
        if self.queued.len() < MAX_QUEUED {
            self.queued
                .push_back(SessionCommand::Request(request, answer));
        } else {
            answer.send(Err(TransactionError::TooMany));
        }
    }

    /// Runs one session from its set-up to its end. Returns the reason of its end and whether it was
    /// open.
    async fn session(
        &mut self,
        link: MessageLink,
        opened: &mut Option<FirstSession>,
    ) -> (CloseReason, bool) {
        let mut seed = [0; 32];
        self.random.fill_bytes(&mut seed);
        let (unclaimed, mut to_delete) = mpsc::unbounded_channel();
        let mut active = OpenSession {
            agent: Agent::new(self.config.settings.clone(), seed),
            clock: self.clock,
            pending: BTreeMap::new(),
            late: BTreeMap::new(),
            ignored: VecDeque::new(),
            ending: None,
            closed: None,
            unclaimed,
        };
        let now = self.clock.now();
        let mut link = AgentLink::start(link, &mut active.agent, now, OUTBOX, LINGER);
        let mut commands = Vec::new();
        let mut open = false;
        loop {
            link.flush(&mut active.agent);
            open |= active.handle_events(&self.events, opened);
            if let Some(reason) = active.closed {
                self.emit(ClientEvent::Closed(reason.clone()));
                if let Some(done) = active.ending.take() {
                    link.close().await;
                    let _ = done.send(());
                }
                return (reason, open);
            }
            let timeout = active.agent.poll_timeout();
            let accepts_requests = active.agent.is_open() && !link.is_blocked();
            if accepts_requests && !self.queued.is_empty() {
                self.queued
                    .drain(..)
                    .for_each(|command| active.execute(command));
                continue;
            }
            tokio::select! {
                progress = link.progress() => {
                    link.report(&progress, &mut active.agent, self.clock.now());
                }
                count = self.commands.recv_many(&mut commands, BATCH), if accepts_requests => {
                    commands.drain(..).for_each(|command| active.execute(command));
                    if count == 0 {
                        // The last handle was dropped.
                        active.agent.terminate(self.clock.now());
                    }
                }
                Some(rule) = to_delete.recv() => active.delete(rule),
                () = self.clock.sleep_until(timeout) => {
                    active.agent.handle_timeout(self.clock.now());
                }
            }
        }
    }
}

impl OpenSession {
    /// Executes a command in an open session.
    fn execute(&mut self, command: SessionCommand) {
        let now = self.clock.now();
        match command {
            SessionCommand::Request(_, answer) if answer.is_closed() => {}
            SessionCommand::Request(request, answer) => match self.agent.submit(now, &request) {
                Ok(transaction) => {
                    answer.sent();
                    let creates_rule = request.rule().is_none();
                    self.pending.insert(
                        transaction,
                        PendingReply {
                            answer,
                            creates_rule,
                        },
                    );
                }
                Err(error) => {
                    let error = match error {
                        SubmitError::TooMany => TransactionError::TooMany,
                        SubmitError::NotOpen | SubmitError::SessionControl => {
                            TransactionError::NotConnected
                        }
                    };
                    answer.send(Err(error));
                }
            },
            SessionCommand::IgnoreLateReply(transaction) => {
                if self.late.remove(&transaction).is_some() {
                    self.ignored.push_back(transaction);
                    while self.ignored.len() > MAX_LATE {
                        self.ignored.pop_front();
                    }
                }
            }
            SessionCommand::End(done) => {
                self.ending = Some(done);
                self.agent.terminate(now);
            }
        }
    }

    /// Handles the agent's events. Returns whether the session has opened.
    fn handle_events(
        &mut self,
        events: &broadcast::Sender<ClientEvent>,
        opened: &mut Option<FirstSession>,
    ) -> bool {
        let mut open = false;
        // One time for all requests lost together.
        let now = Instant::now();
        let emit = |event| {
            // There may be no receiver.
            let _ = events.send(event);
        };
        while let Some(event) = self.agent.poll_event() {
            match event {
                AgentEvent::Opened(capabilities) => {
                    open = true;
                    emit(ClientEvent::Opened(capabilities));
                    if let Some(opened) = opened.take() {
                        let _ = opened.send(Ok(capabilities));
                    }
                }
                AgentEvent::Reply {
                    transaction, reply, ..
                } => self.answer(transaction, Ok(reply)),
                AgentEvent::TimedOut { transaction, .. } => self.timed_out(transaction),
                AgentEvent::Lost { transaction, .. } => {
                    self.answer(transaction, Err(TransactionError::Lost(now)));
                }
                AgentEvent::LateReply { transaction, reply } => {
                    self.handle_late_reply(transaction, reply)
                }
                AgentEvent::Rule { rule, lifetime } => emit(ClientEvent::Rule { rule, lifetime }),
                AgentEvent::Closed(reason) => self.closed = Some(reason),
            }
        }
        open
    }

    fn answer(&mut self, transaction: TransactionId, answer: Result<Reply, TransactionError>) {
        if let Some(PendingReply {
            answer: to,
            creates_rule,
        }) = self.pending.remove(&transaction)
        {
            to.send(answer.map(|reply| self.delivery(reply, creates_rule)));
        }
    }

    fn delivery(&self, reply: Reply, creates_rule: bool) -> ReplyDelivery {
        ReplyDelivery {
            reply: Some(reply),
            unclaimed: creates_rule.then(|| self.unclaimed.clone()),
        }
    }

    fn timed_out(&mut self, transaction: TransactionId) {
        let Some(pending) = self.pending.remove(&transaction) else {
            return;
        };
        let (late, reply) = oneshot::channel();
        self.late.insert(transaction, (late, pending.creates_rule));
        while self.late.len() > MAX_LATE {
            self.late.pop_first();
        }
        let timed_out = TransactionError::TimedOut(LateReply { transaction, reply });
        pending.answer.send(Err(timed_out));
    }

    fn handle_late_reply(&mut self, transaction: TransactionId, reply: Reply) {
        if self.ignored.contains(&transaction) {
            return;
        }
        // An unsolicited reply may have created a rule.
        let late = self.late.remove(&transaction);
        let creates_rule = late.as_ref().is_none_or(|(_, creates_rule)| *creates_rule);
        let delivery = self.delivery(reply, creates_rule);
        if let Some((late, _)) = late {
            // The receiver may have been dropped.
            let _ = late.send(delivery);
        }
    }

    /// Requests the end of a rule that nothing holds.
    fn delete(&mut self, rule: PolicyRuleId) {
        let request = Request::ChangeLifetime {
            rule,
            lifetime: Lifetime(0),
        };
        // If it can't be sent, the rule expires.
        let _ = self.agent.submit(self.clock.now(), &request);
    }
}

/// Returns the rule that a reply reports as created.
fn created_rule(reply: &Reply) -> Option<PolicyRuleId> {
    match reply {
        Reply::Enabled(_) | Reply::Reserved(_) | Reply::Disabled { .. } => reply.rule(),
        _ => None,
    }
}
