//! The task that owns the state machine.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::audit::Audit;
use super::config::Settings;
use super::connection::{Connection, Room};
use super::listen::TlsConfig;
use super::metrics::{self, Latencies};
use super::{AnyBackend, DaemonError, State};
use crate::Time;
use crate::middlebox::{
    Connection as Peer, Middlebox, MiddleboxEvent, Restored, SessionId, SessionOutput, Source,
};
use crate::rules::Rule;
use crate::state::{Journal, RuleChange};
use crate::transport::{Clock, Link, Packet, tls};

/// Inputs that wait; each is a batch of one connection at most.
pub(super) const INPUTS: usize = 64;

/// Inputs taken from the queue at a time.
const BATCH: usize = 32;

/// Messages that are handled before their replies leave: no more than a connection's outbox takes,
/// so that an agent that hears of all that others do keeps up if it reads.
const CYCLE: usize = 256;

/// How long sessions have to end when the middlebox stops.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Connections beside those that the state machine bounds: such as are being closed.
const SPARE_CONNECTIONS: usize = 256;

/// What happens to the core.
pub(super) enum Input {
    /// A connection is up.
    Connected(Link),
    /// Messages of one connection came.
    Messages {
        session: SessionId,
        arrived: Instant,
        messages: Vec<Packet>,
    },
    /// Nothing more comes; whether what came last was no message.
    ReadEnd(SessionId, bool),
    /// A connection that was full takes more.
    Room(SessionId),
    /// The connection is closed.
    Written(SessionId),
    /// Another configuration.
    Reload(
        Box<Settings>,
        oneshot::Sender<Result<Vec<String>, DaemonError>>,
    ),
    /// The metrics are wanted.
    Metrics(oneshot::Sender<String>),
    /// The end is wanted.
    Stop,
}

impl Input {
    fn messages(&self) -> usize {
        match self {
            Self::Messages { messages, .. } => messages.len(),
            _ => 1,
        }
    }
}

pub(super) struct Core {
    settings: Settings,
    middlebox: Middlebox<AnyBackend>,
    /// Away while it commits.
    journal: Option<Box<dyn Journal + Send>>,
    restored: Restored,
    /// Changes were recorded and not committed.
    uncommitted: bool,
    audit: Audit,
    clock: Clock,
    connections: BTreeMap<SessionId, Connection>,
    /// Peers of connections that are gone and of which not all was told.
    gone: BTreeMap<SessionId, String>,
    /// Connections whose session is over, by where they come from.
    ending: BTreeMap<Source, usize>,
    inputs: mpsc::Sender<Input>,
    latencies: Latencies,
    /// Connections that take more again, or were read from.
    roomy: Vec<SessionId>,
    stopping: bool,
}

impl Core {
    pub(super) fn new(
        settings: &Settings,
        backend: AnyBackend,
        state: State,
        inputs: mpsc::Sender<Input>,
    ) -> Result<Self, DaemonError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| DaemonError::Random(e.to_string()))?;
        let State {
            mut journal,
            recovered,
        } = state;
        let clock = Clock::start();
        let mut middlebox = Middlebox::new(settings.middlebox()?, backend, seed);
        let at = clock.moment();
        let restored = middlebox.restore(&at, &recovered)?;
        for (rule, _) in &restored.ended {
            journal.record(&at, &RuleChange::Ended(*rule));
        }
        journal.commit()?;
        Ok(Self {
            middlebox,
            journal: Some(journal),
            restored,
            uncommitted: false,
            audit: Audit::open(settings.audit.as_deref())?,
            clock,
            connections: BTreeMap::new(),
            gone: BTreeMap::new(),
            ending: BTreeMap::new(),
            inputs,
            latencies: Latencies::default(),
            settings: settings.clone(),
            roomy: Vec::new(),
            stopping: false,
        })
    }

    pub(super) fn restored(&self) -> &Restored {
        &self.restored
    }

    pub(super) async fn run(
        mut self,
        mut inputs: mpsc::Receiver<Input>,
        tls: Option<TlsConfig>,
    ) -> Result<(), DaemonError> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut pending = VecDeque::new();
        let mut answered = Vec::new();
        let mut stop_by = None;
        loop {
            let timeout = self
                .middlebox
                .poll_timeout()
                .into_iter()
                .chain(stop_by)
                .min();
            if pending.is_empty() {
                tokio::select! {
                    _ = inputs.recv_many(&mut batch, BATCH) => pending.extend(batch.drain(..)),
                    () = self.clock.sleep_until(timeout) => {}
                }
            } else {
                // Writers and readers have their turn.
                tokio::task::yield_now().await;
            }
            let now = self.clock.now();
            let mut messages = 0;
            while messages < CYCLE
                && let Some(input) = pending.pop_front()
            {
                messages += input.messages();
                self.take(now, input, tls.as_ref(), &mut answered);
            }
            self.middlebox.handle_timeout(now);
            self.drain_events()?;
            self.commit().await?;
            self.dispatch();
            for (arrived, count) in answered.drain(..) {
                let took = arrived.elapsed();
                self.latencies.record(took, count);
            }
            if self.stopping {
                let limit = *stop_by.get_or_insert(now + LAST_WORDS);
                if self.connections.is_empty() || limit <= now {
                    return Ok(());
                }
            }
        }
    }

    fn take(
        &mut self,
        now: Time,
        input: Input,
        tls: Option<&TlsConfig>,
        answered: &mut Vec<(Instant, u64)>,
    ) {
        match input {
            Input::Connected(link) => self.connected(now, link),
            Input::Messages {
                session,
                arrived,
                messages,
            } => {
                answered.push((arrived, messages.len() as u64));
                self.roomy.push(session);
                for Packet { stream, message } in messages {
                    self.middlebox
                        .handle_message(now, session, stream, &message);
                }
            }
            Input::ReadEnd(session, true) => self.middlebox.stream_failed(session),
            Input::ReadEnd(session, false) | Input::Written(session) => {
                self.forget(session);
            }
            Input::Room(session) => self.roomy.push(session),
            Input::Reload(settings, answer) => {
                // Whoever asked may have lost interest.
                let _ = answer.send(self.reload(*settings, tls));
            }
            Input::Metrics(answer) => {
                let shown = self.settings.rule_traffic;
                let _ = answer.send(metrics::text(&mut self.middlebox, &self.latencies, shown));
            }
            Input::Stop => self.stop(),
        }
    }

    fn connected(&mut self, now: Time, link: Link) {
        let (open, half_open) = self.middlebox.session_counts();
        let most = self.middlebox.limits().open_sessions.max(open)
            + self.middlebox.limits().half_open.max(half_open)
            + SPARE_CONNECTIONS;
        // Those that are being closed count too: else a flood from one address takes all room.
        let of_source = link.address.and_then(|a| self.ending.get(&Source::of(a)));
        let crowd = of_source.is_some_and(|count| *count >= SPARE_CONNECTIONS / 4);
        if self.stopping || crowd || self.connections.len() >= most {
            return;
        }
        let peer = Peer {
            streams: link.streams,
            secure: link.secure,
            peer: None,
            address: link.address,
        };
        let session = self.middlebox.connected(now, &peer);
        let batch = (self.middlebox.limits().queued_messages / 2).clamp(1, CYCLE);
        let connection = Connection::start(session, link, &self.inputs, batch);
        self.connections.insert(session, connection);
    }

    /// Ends all sessions.
    fn stop(&mut self) {
        self.stopping = true;
        let sessions: Vec<SessionId> = self.connections.keys().copied().collect();
        for session in sessions {
            self.middlebox.terminate(session);
        }
    }

    /// Tells journal and audit log what happened.
    fn drain_events(&mut self) -> Result<(), DaemonError> {
        let at = self.clock.moment();
        while let Some(event) = self.middlebox.poll_event() {
            if let MiddleboxEvent::SessionClosed { session, .. } = &event
                && let Some(connection) = self.connections.get_mut(session)
                && !connection.is_ending()
            {
                connection.end();
                if let Some(source) = connection.source {
                    *self.ending.entry(source).or_default() += 1;
                }
            }
            if let Some(journal) = &mut self.journal
                && let Some(change) = RuleChange::of(&self.middlebox, &event)
            {
                journal.record(&at, &change);
                self.uncommitted = true;
            }
            let peer = |session| {
                let connection = self.connections.get(&session);
                let peer = connection.map(|connection| &connection.peer);
                peer.or_else(|| self.gone.get(&session)).map(String::as_str)
            };
            let owner = |rule: &Rule| self.middlebox.owner(rule).clone();
            self.audit.event(at.wall, &event, peer, owner);
        }
        self.gone.clear();
        self.audit.flush()
    }

    /// What was recorded is made safe, while others read and write.
    async fn commit(&mut self) -> Result<(), DaemonError> {
        if !std::mem::take(&mut self.uncommitted) {
            return Ok(());
        }
        let Some(mut journal) = self.journal.take() else {
            return Ok(());
        };
        let committed = tokio::task::spawn_blocking(move || {
            let done = journal.commit();
            (journal, done)
        });
        let (journal, done) = committed.await.map_err(|_| DaemonError::Lost)?;
        self.journal = Some(journal);
        Ok(done?)
    }

    /// Gives replies and notifications to the writers.
    fn dispatch(&mut self) {
        for session in std::mem::take(&mut self.roomy) {
            self.pump(session);
        }
        while let Some(session) = self.middlebox.take_ready() {
            self.pump(session);
        }
    }

    /// Gives one writer what it takes.
    fn pump(&mut self, session: SessionId) {
        let Some(connection) = self.connections.get(&session) else {
            self.middlebox.disconnected(session);
            return;
        };
        if !fill(&mut self.middlebox, session, connection) {
            self.forget(session);
        }
    }

    /// The connection of a session is gone.
    fn forget(&mut self, session: SessionId) {
        self.middlebox.disconnected(session);
        let Some(connection) = self.connections.remove(&session) else {
            return;
        };
        if connection.is_ending()
            && let Some(source) = connection.source
            && let Some(count) = self.ending.get_mut(&source)
        {
            *count -= 1;
            if *count == 0 {
                self.ending.remove(&source);
            }
        }
        self.gone.insert(session, connection.peer.clone());
    }

    /// Takes another configuration; returns what can't change while it runs.
    fn reload(
        &mut self,
        settings: Settings,
        tls: Option<&TlsConfig>,
    ) -> Result<Vec<String>, DaemonError> {
        let config = settings.middlebox()?;
        let audit = Audit::open(settings.audit.as_deref())?;
        if let (Some(shared), Some(listen)) = (tls, &settings.listen.tls) {
            let fresh = tls::server(&listen.certificate, &listen.key)?;
            match shared.lock() {
                Ok(mut config) => *config = fresh,
                Err(poisoned) => *poisoned.into_inner() = fresh,
            }
        }
        let unchanged = fixed(&self.settings, &settings);
        self.middlebox.reconfigure(config);
        self.audit = audit;
        // What needs a restart stays what it is, also for the next comparison.
        let old = &self.settings;
        self.settings = Settings {
            listen: old.listen.clone(),
            backend: old.backend.clone(),
            state: old.state.clone(),
            metrics: old.metrics,
            ..settings
        };
        Ok(unchanged)
    }
}

/// Gives a writer what it takes. Returns whether the connection goes on.
fn fill(
    middlebox: &mut Middlebox<AnyBackend>,
    session: SessionId,
    connection: &Connection,
) -> bool {
    loop {
        let permit = match connection.room() {
            Room::Free(permit) => permit,
            Room::None => return true,
            Room::Gone => return false,
        };
        match middlebox.poll_output(session) {
            None => {
                connection.answered();
                return true;
            }
            Some(SessionOutput::Send { stream, message }) => {
                permit.send(Packet { stream, message });
            }
            Some(SessionOutput::Close) => return false,
        }
    }
}

/// The keys that differ and need a restart.
fn fixed(old: &Settings, new: &Settings) -> Vec<String> {
    let addresses = |settings: &Settings| {
        let tls = settings
            .listen
            .tls
            .as_ref()
            .map(|tls| tls.addresses.clone());
        (
            settings.listen.sctp.clone(),
            settings.listen.tcp.clone(),
            tls,
        )
    };
    let differs = [
        ("listen", addresses(old) != addresses(new)),
        ("backend", old.backend != new.backend),
        ("state", old.state != new.state),
        ("metrics", old.metrics != new.metrics),
    ];
    let names = differs.into_iter().filter(|(_, differs)| *differs);
    names.map(|(name, _)| name.to_owned()).collect()
}
