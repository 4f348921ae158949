//! The task that has the session: the agent's state machine on a link, again and again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::Instant;

use super::{ClientConfig, ClientError, ClientEvent, Wish};
use crate::agent::{Agent, AgentEvent, CloseReason, SubmitError};
use crate::message::{
    Capabilities, Lifetime, NegativeReply, PolicyRuleId, Reply, Request, TransactionId,
};
use crate::transport::{Clock, Link, MessageWriter, Packet};

/// Messages on their way to the writer.
const OUTBOX: usize = 1024;

/// Requests taken at a time.
const BATCH: usize = 64;

/// Requests that were not answered in time and may be answered late.
const MAX_LATE: usize = 4096;

/// Requests that wait for the next session at most.
const MAX_KEPT: usize = 1024;

/// How long the next attempt to connect is away at most, once somebody asks for something.
const ASKED_PAUSE: Duration = Duration::from_secs(1);

/// How long what is left may take to go out when a session is over.
const LINGER: Duration = Duration::from_secs(5);

/// What handles want of the task.
pub(super) enum Ask {
    /// This request, and its answer.
    Request(Request, Answer),
    /// A late answer to this transaction is of no interest any more: what it made is held.
    Forget(TransactionId),
    /// The end of the session.
    End(oneshot::Sender<()>),
}

/// Why a request has no positive reply.
#[derive(Debug)]
pub(super) enum AskError {
    Refused(NegativeReply),
    TimedOut(Late),
    NotConnected,
    /// The session was lost before the answer, then.
    Lost(Instant),
    TooMany,
    Ended,
}

/// The answer may still come. If nobody waits for it when it does, what it made is closed.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) transaction: TransactionId,
    pub(super) reply: oneshot::Receiver<Delivery>,
}

/// Who waits for an answer.
pub(super) struct Answer {
    to: oneshot::Sender<Result<Delivery, AskError>>,
    wish: Option<Wish>,
}

impl Answer {
    pub(super) fn new(to: oneshot::Sender<Result<Delivery, AskError>>, wish: Option<Wish>) -> Self {
        Self { to, wish }
    }

    /// Whether nobody wants it.
    fn is_closed(&self) -> bool {
        self.to.is_closed() || self.wish.as_ref().is_some_and(Wish::is_given_up)
    }

    /// The request is on its way.
    fn sent(&self) {
        if let Some(wish) = &self.wish {
            wish.send();
        }
    }

    fn send(self, answer: Result<Delivery, AskError>) {
        // What nobody waits for is dropped.
        let _ = self.to.send(answer);
    }
}

/// A request that is on its way.
struct Waiting {
    answer: Answer,
    /// The request makes a rule that nobody knows if nobody takes the answer. PEA makes none: who
    /// holds the reservation knows it.
    makes: bool,
}

/// A reply on its way. If nobody takes it, the rule that it made is closed, because nobody knows of
/// it.
#[derive(Debug)]
pub(super) struct Delivery {
    reply: Option<Reply>,
    orphans: Option<mpsc::UnboundedSender<PolicyRuleId>>,
}

impl Delivery {
    pub(super) fn take(mut self) -> Option<Reply> {
        self.reply.take()
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let (Some(rule), Some(orphans)) = (self.reply.as_ref().and_then(made), &self.orphans) {
            // Without a session the rule lives out its life.
            let _ = orphans.send(rule);
        }
    }
}

/// Who hears of the first session.
type Opened = oneshot::Sender<Result<Capabilities, ClientError>>;

pub(super) struct Session {
    config: ClientConfig,
    asks: mpsc::Receiver<Ask>,
    /// Requests that wait for the next session; who asks gives up by itself.
    kept: VecDeque<Ask>,
    events: broadcast::Sender<ClientEvent>,
    random: ChaCha8Rng,
    clock: Clock,
}

/// One session, while it lasts.
struct Active {
    agent: Agent,
    clock: Clock,
    waiting: BTreeMap<TransactionId, Waiting>,
    late: BTreeMap<TransactionId, (oneshot::Sender<Delivery>, bool)>,
    /// Late answers that nobody needs.
    forgotten: VecDeque<TransactionId>,
    ending: Option<oneshot::Sender<()>>,
    closed: Option<CloseReason>,
    out: VecDeque<Packet>,
    /// Takes rules that nobody knows; as many at most as there are replies on their way.
    orphans: mpsc::UnboundedSender<PolicyRuleId>,
}

impl Session {
    pub(super) fn new(
        config: ClientConfig,
        asks: mpsc::Receiver<Ask>,
        events: broadcast::Sender<ClientEvent>,
    ) -> Result<Self, ClientError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| ClientError::Random(e.to_string()))?;
        Ok(Self {
            config,
            asks,
            kept: VecDeque::new(),
            events,
            random: ChaCha8Rng::from_seed(seed),
            clock: Clock::start(),
        })
    }

    /// Connects and has sessions until the client ends. Who waits for the first hears whether it
    /// opened; if not, there is no second.
    pub(super) async fn run(mut self, opened: Opened) {
        let mut opened = Some(opened);
        let mut pause = self.config.first_pause;
        loop {
            match self.connect().await {
                Ok(link) => {
                    let (reason, open) = self.session(link, &mut opened).await;
                    if let Some(opened) = opened.take() {
                        // Whoever asked may have lost interest.
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
                    self.tell(ClientEvent::NotConnected(error.to_string()));
                }
            }
            if !self.pause(pause).await {
                return;
            }
            pause = (2 * pause).min(self.config.longest_pause);
        }
    }

    fn tell(&self, event: ClientEvent) {
        // Nobody needs to listen.
        let _ = self.events.send(event);
    }

    async fn connect(&self) -> Result<Link, ClientError> {
        let target = &self.config.target;
        let connected = tokio::time::timeout(self.config.settings.timeout, target.connect());
        let no_answer = || Err("no answer: check its address, port and transport".to_owned());
        let connected = connected.await.unwrap_or_else(|_| no_answer());
        connected.map_err(|why| ClientError::Connect {
            target: target.to_string(),
            why,
        })
    }

    /// Waits, a quarter more or less, and not so long when somebody asks for something, who waits
    /// too. Returns whether the client goes on.
    async fn pause(&mut self, pause: Duration) -> bool {
        let share = (self.random.next_u32() >> 8) as f32 / (1 << 24) as f32;
        let wait = tokio::time::sleep(pause.mul_f32(0.75 + share / 2.0));
        tokio::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => return !self.asks.is_closed(),
                ask = self.asks.recv() => match ask {
                    None => return false,
                    Some(Ask::End(done)) => {
                        let _ = done.send(());
                        return false;
                    }
                    Some(Ask::Request(request, answer)) => {
                        let sooner = Instant::now() + ASKED_PAUSE;
                        if sooner < wait.deadline() {
                            wait.as_mut().reset(sooner);
                        }
                        self.keep(request, answer);
                    }
                    Some(Ask::Forget(_)) => {}
                },
            }
        }
    }

    fn keep(&mut self, request: Request, answer: Answer) {
        if self.kept.len() >= MAX_KEPT {
            let wanted = |ask: &Ask| matches!(ask, Ask::Request(_, a) if !a.is_closed());
            self.kept.retain(wanted);
        }
        if self.kept.len() < MAX_KEPT {
            self.kept.push_back(Ask::Request(request, answer));
        } else {
            answer.send(Err(AskError::TooMany));
        }
    }

    /// One session from its set-up to its end. Returns how it ended, and whether it was open.
    async fn session(&mut self, link: Link, opened: &mut Option<Opened>) -> (CloseReason, bool) {
        let mut seed = [0; 32];
        self.random.fill_bytes(&mut seed);
        let (orphans, mut orphaned) = mpsc::unbounded_channel();
        let mut active = Active {
            agent: Agent::new(self.config.settings.clone(), seed),
            clock: self.clock,
            waiting: BTreeMap::new(),
            late: BTreeMap::new(),
            forgotten: VecDeque::new(),
            ending: None,
            closed: None,
            out: VecDeque::new(),
            orphans,
        };
        let Link {
            mut reader,
            writer,
            streams,
            ..
        } = link;
        let (outbox, to_send) = mpsc::channel(OUTBOX);
        tokio::spawn(write(writer, to_send));
        active.agent.connected(self.clock.now(), streams);
        let mut came = Vec::new();
        let mut asked = Vec::new();
        let mut open = false;
        loop {
            active.flush(&outbox);
            open |= active.settle(&self.events, opened);
            if let Some(reason) = active.closed {
                self.tell(ClientEvent::Closed(reason));
                if let Some(done) = active.ending.take() {
                    let _ = done.send(());
                }
                return (reason, open);
            }
            let timeout = active.agent.poll_timeout();
            let takes_requests = active.agent.is_open() && active.out.is_empty();
            if takes_requests && !self.kept.is_empty() {
                self.kept.drain(..).for_each(|ask| active.ask(ask));
                continue;
            }
            tokio::select! {
                end = reader.read(&mut came) => {
                    for Packet { stream, message } in came.drain(..) {
                        active.agent.handle_message(self.clock.now(), stream, &message);
                    }
                    if end.is_err() {
                        active.agent.disconnected();
                    }
                }
                count = self.asks.recv_many(&mut asked, BATCH), if takes_requests => {
                    asked.drain(..).for_each(|ask| active.ask(ask));
                    if count == 0 {
                        // The last handle is gone.
                        active.agent.terminate(self.clock.now());
                    }
                }
                permit = outbox.reserve(), if !active.out.is_empty() => {
                    match (permit, active.out.pop_front()) {
                        (Ok(permit), Some(packet)) => permit.send(packet),
                        // The writer has given up.
                        _ => active.agent.disconnected(),
                    }
                }
                Some(rule) = orphaned.recv() => active.close(rule),
                () = self.clock.sleep_until(timeout) => {
                    active.agent.handle_timeout(self.clock.now());
                }
            }
        }
    }
}

impl Active {
    fn ask(&mut self, ask: Ask) {
        let now = self.clock.now();
        match ask {
            Ask::Request(_, answer) if answer.is_closed() => {}
            Ask::Request(request, answer) => match self.agent.submit(now, &request) {
                Ok(transaction) => {
                    answer.sent();
                    let makes = request.rule().is_none();
                    self.waiting.insert(transaction, Waiting { answer, makes });
                }
                Err(error) => {
                    let error = match error {
                        SubmitError::TooMany => AskError::TooMany,
                        SubmitError::NotOpen | SubmitError::SessionControl => {
                            AskError::NotConnected
                        }
                    };
                    answer.send(Err(error));
                }
            },
            Ask::Forget(transaction) => {
                if self.late.remove(&transaction).is_some() {
                    self.forgotten.push_back(transaction);
                    while self.forgotten.len() > MAX_LATE {
                        self.forgotten.pop_front();
                    }
                }
            }
            Ask::End(done) => {
                self.ending = Some(done);
                self.agent.terminate(now);
            }
        }
    }

    /// Tells what happened. Returns whether the session has opened.
    fn settle(
        &mut self,
        events: &broadcast::Sender<ClientEvent>,
        opened: &mut Option<Opened>,
    ) -> bool {
        let mut open = false;
        // The same for all that are lost together.
        let now = Instant::now();
        let tell = |event| {
            // Nobody needs to listen.
            let _ = events.send(event);
        };
        while let Some(event) = self.agent.poll_event() {
            match event {
                AgentEvent::Opened(capabilities) => {
                    open = true;
                    tell(ClientEvent::Opened(capabilities));
                    if let Some(opened) = opened.take() {
                        let _ = opened.send(Ok(capabilities));
                    }
                }
                AgentEvent::Reply {
                    transaction, reply, ..
                } => self.answer(transaction, Ok(reply)),
                AgentEvent::TimedOut { transaction, .. } => self.timed_out(transaction),
                AgentEvent::Lost { transaction, .. } => {
                    self.answer(transaction, Err(AskError::Lost(now)));
                }
                AgentEvent::LateReply { transaction, reply } => self.came_late(transaction, reply),
                AgentEvent::Rule { rule, lifetime } => tell(ClientEvent::Rule { rule, lifetime }),
                AgentEvent::Closed(reason) => self.closed = Some(reason),
            }
        }
        open
    }

    fn answer(&mut self, transaction: TransactionId, answer: Result<Reply, AskError>) {
        if let Some(Waiting { answer: to, makes }) = self.waiting.remove(&transaction) {
            to.send(answer.map(|reply| self.delivery(reply, makes)));
        }
    }

    fn delivery(&self, reply: Reply, makes: bool) -> Delivery {
        Delivery {
            reply: Some(reply),
            orphans: makes.then(|| self.orphans.clone()),
        }
    }

    fn timed_out(&mut self, transaction: TransactionId) {
        let Some(waiting) = self.waiting.remove(&transaction) else {
            return;
        };
        let (late, reply) = oneshot::channel();
        self.late.insert(transaction, (late, waiting.makes));
        while self.late.len() > MAX_LATE {
            self.late.pop_first();
        }
        let timed_out = AskError::TimedOut(Late { transaction, reply });
        waiting.answer.send(Err(timed_out));
    }

    fn came_late(&mut self, transaction: TransactionId, reply: Reply) {
        if self.forgotten.contains(&transaction) {
            return;
        }
        // A reply to nothing that is known here may have made a rule.
        let late = self.late.remove(&transaction);
        let makes = late.as_ref().is_none_or(|(_, makes)| *makes);
        let delivery = self.delivery(reply, makes);
        if let Some((late, _)) = late {
            // What nobody waits for is dropped.
            let _ = late.send(delivery);
        }
    }

    fn close(&mut self, rule: PolicyRuleId) {
        let request = Request::ChangeLifetime {
            rule,
            lifetime: Lifetime(0),
        };
        // If it can't be sent, the rule lives out its life.
        let _ = self.agent.submit(self.clock.now(), &request);
    }

    /// Gives the writer what it takes.
    fn flush(&mut self, outbox: &mpsc::Sender<Packet>) {
        while let Some((stream, message)) = self.agent.poll_transmit() {
            self.out.push_back(Packet { stream, message });
        }
        while !self.out.is_empty()
            && let Ok(permit) = outbox.try_reserve()
            && let Some(packet) = self.out.pop_front()
        {
            permit.send(packet);
        }
    }
}

/// The rule that a reply says was made.
fn made(reply: &Reply) -> Option<PolicyRuleId> {
    match reply {
        Reply::Enabled(_) | Reply::Reserved(_) | Reply::Disabled { .. } => reply.rule(),
        _ => None,
    }
}

async fn write(mut writer: Box<dyn MessageWriter>, mut to_send: mpsc::Receiver<Packet>) {
    let mut batch = Vec::new();
    while to_send.recv_many(&mut batch, OUTBOX).await > 0 {
        // When the session is over, what is left has a while to go out.
        if writer.write(&mut batch).await.is_err() {
            return;
        }
    }
    let _ = tokio::time::timeout(LINGER, writer.close()).await;
}
