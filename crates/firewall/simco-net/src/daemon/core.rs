//! Task that owns the state machine.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::audit::{Audit, DaemonEvent, LogFile};
use super::config::DaemonSettings;
use super::connection::{Connection, OutboxRoom};
use super::listen::ListenerState;
use super::metrics::{self, Latencies};
use super::scrape::MetricsSnapshot;
use super::{AnyBackend, DaemonError, StoredState};
use crate::transport::{Clock, MessageLink, StreamMessage, tls};
use carrick_simco::Time;
use carrick_simco::middlebox::{
    Connection as Peer, Middlebox, MiddleboxEvent, RestoredRules, SessionEnd, SessionId,
    SessionOutput, SourceNetwork,
};
use carrick_simco::rules::Rule;
use carrick_simco::state::{Journal, RuleChange};

/// Capacity of the input queue; an input is at most one batch of a connection.
pub(super) const INPUTS: usize = 64;

/// Maximum number of inputs taken at once.
const BATCH: usize = 32;

/// Maximum number of messages handled before their replies are sent: at most the capacity of a
/// connection's queue, so that an agent that reads keeps up with the notifications of others'
/// requests.
pub(super) const CYCLE: usize = 256;

/// Interval of checks of the packet filter.
const BACKEND_CHECK: Duration = Duration::from_secs(1);

/// Time that sessions have to end when the middlebox stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Connections in addition to those that the state machine limits, e.g. being closed.
const SPARE_CONNECTIONS: usize = 256;

/// Input of the core.
pub(super) enum CoreInput {
    /// A connection was opened.
    Connected(MessageLink),
    /// Messages were received.
    Messages {
        session: SessionId,
        arrived: Instant,
        messages: Vec<StreamMessage>,
    },
    /// The receiving direction ended; `true` if by a malformed message.
    ReadEnd(SessionId, bool),
    /// A full connection has room again.
    Room(SessionId),
    /// The connection is closed.
    Written(SessionId),
    /// Apply another configuration.
    Reload(
        Box<DaemonSettings>,
        /// Its audit log.
        Option<LogFile>,
        oneshot::Sender<Result<Vec<String>, DaemonError>>,
    ),
    /// Return the metrics.
    Metrics {
        /// True if to include the function that reads rule counters.
        traffic: bool,
        answer: oneshot::Sender<MetricsSnapshot>,
    },
    /// Stop.
    Stop,
}

pub(super) struct MiddleboxCore {
    settings: DaemonSettings,
    middlebox: Middlebox<AnyBackend>,
    /// `None` during a commit.
    journal: Option<Box<dyn Journal + Send>>,
    restored: RestoredRules,
    /// True if changes were recorded and not committed.
    uncommitted: bool,
    audit: Audit,
    clock: Clock,
    connections: BTreeMap<SessionId, Connection>,
    /// Peers of closed connections whose events are not handled yet.
    closed_peers: BTreeMap<SessionId, (String, Option<SourceNetwork>)>,
    /// Number of connections whose session has ended, by source.
    ending: BTreeMap<SourceNetwork, usize>,
    inputs: mpsc::Sender<CoreInput>,
    latencies: Latencies,
    /// Connections that have room again.
    with_room: Vec<SessionId>,
    /// Connections with messages to handle and room for the replies, in order.
    busy: VecDeque<SessionId>,
    stopping: bool,
}

impl MiddleboxCore {
    pub(super) fn new(
        settings: &DaemonSettings,
        backend: AnyBackend,
        state: StoredState,
        inputs: mpsc::Sender<CoreInput>,
        errors: mpsc::Sender<DaemonError>,
    ) -> Result<Self, DaemonError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| DaemonError::Random(e.to_string()))?;
        let StoredState {
            mut journal,
            recovered,
        } = state;
        // Steps that can fail without side effects come first.
        let log = LogFile::open(settings.audit.as_deref())?;
        let clock = Clock::start().with_boot_time();
        let mut middlebox = Middlebox::new(settings.middlebox()?, backend, seed);
        let at = clock.moment();
        let restored = middlebox.restore(&at, &recovered)?;
        for change in middlebox.changes_of(&restored) {
            journal.record(&at, &change);
        }
        journal.commit()?;
        let mut audit = Audit::start(log, errors)?;
        audit.daemon_event(at.wall, DaemonEvent::Started(restored.rules));
        if !restored.ended.is_empty() {
            let rules = recovered.rules.iter();
            let owners: BTreeMap<_, _> = rules.map(|rule| (rule.id, &rule.owner)).collect();
            for (rule, why) in &restored.ended {
                let owner = owners.get(rule).copied();
                audit.daemon_event(at.wall, DaemonEvent::NotRestored(*rule, owner, why));
            }
        }
        Ok(Self {
            middlebox,
            journal: Some(journal),
            restored,
            uncommitted: false,
            audit,
            clock,
            connections: BTreeMap::new(),
            closed_peers: BTreeMap::new(),
            ending: BTreeMap::new(),
            inputs,
            latencies: Latencies::default(),
            settings: settings.clone(),
            with_room: Vec::new(),
            busy: VecDeque::new(),
            stopping: false,
        })
    }

    pub(super) fn restored(&self) -> &RestoredRules {
        &self.restored
    }

    pub(super) async fn run(
        mut self,
        mut inputs: mpsc::Receiver<CoreInput>,
        shared: ListenerState,
    ) -> Result<(), DaemonError> {
        let ended = self.serve(&mut inputs, &shared).await;
        let at = self.clock.moment();
        self.audit
            .daemon_event(at.wall, DaemonEvent::Stopped(ended.as_ref().err()));
        self.audit.flush(&at);
        // Bounded: the log may be blocked.
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.audit.finish()).await;
        ended
    }

    /// Runs until a stop is requested or an error occurs.
    ///
    /// 1. Wait for inputs or the next timer, unless sessions have messages that wait.
    /// 2. Handle the inputs, and a bounded number of messages of the sessions, in turn.
    /// 3. Handle expired rules, and check from time to time that the backend enforces the rules.
    /// 4. Commit the changes of this turn together, then send the replies.
    /// 5. While stopping, return when the last connection has ended or the time is over.
    async fn serve(
        &mut self,
        inputs: &mut mpsc::Receiver<CoreInput>,
        shared: &ListenerState,
    ) -> Result<(), DaemonError> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut pending = VecDeque::new();
        let mut answered = Vec::new();
        let mut stop_by = None;
        let mut next_check = self.clock.now() + BACKEND_CHECK;
        loop {
            let timeout = self
                .middlebox
                .poll_timeout()
                .into_iter()
                .chain(stop_by)
                .chain([next_check])
                .min();
            let timer_expired = timeout.is_some_and(|time| time <= self.clock.now());
            if pending.is_empty() && self.busy.is_empty() && !timer_expired {
                tokio::select! {
                    _ = inputs.recv_many(&mut batch, BATCH) => pending.extend(batch.drain(..)),
                    () = self.clock.sleep_until(timeout) => {}
                }
            } else {
                // Let writers and readers run.
                tokio::task::yield_now().await;
            }
            if pending.is_empty() {
                while pending.len() < BATCH
                    && let Ok(input) = inputs.try_recv()
                {
                    pending.push_back(input);
                }
            }
            let now = self.clock.now();
            for input in pending.drain(..) {
                self.handle_input(now, input, shared);
            }
            let mut handled = 0;
            while handled < CYCLE
                && let Some(session) = self.busy.pop_front()
            {
                handled += self.handle_messages(now, session, CYCLE - handled, &mut answered);
            }
            self.middlebox.handle_timeout(now);
            if next_check <= now {
                next_check = now + BACKEND_CHECK;
                self.middlebox
                    .check_backend()
                    .map_err(DaemonError::NotEnforced)?;
            }
            self.drain_events();
            self.commit().await?;
            self.dispatch();
            if !self.closed_peers.is_empty() {
                self.drain_events();
            }
            for (arrived, count) in answered.drain(..) {
                let took = arrived.elapsed();
                self.latencies.record(took, count);
            }
            if self.stopping {
                let limit = *stop_by.get_or_insert(now + STOP_TIMEOUT);
                if self.connections.is_empty() || limit <= now {
                    return Ok(());
                }
            }
        }
    }

    fn handle_input(&mut self, now: Time, input: CoreInput, shared: &ListenerState) {
        match input {
            CoreInput::Connected(link) => self.connected(now, link),
            CoreInput::Messages {
                session,
                arrived,
                messages,
            } => {
                if let Some(connection) = self.connections.get_mut(&session) {
                    connection.received(arrived, messages);
                    self.busy.push_back(session);
                }
            }
            CoreInput::ReadEnd(session, true) => self.middlebox.stream_failed(session),
            CoreInput::ReadEnd(session, false) => {
                // Earlier requests are still answered, as far as the peer reads.
                if let Some(connection) = self.connections.get_mut(&session) {
                    connection.read_ended();
                    self.with_room.push(session);
                }
            }
            CoreInput::Written(session) => self.remove_connection(session),
            CoreInput::Room(session) => self.with_room.push(session),
            CoreInput::Reload(settings, log, answer) => {
                // The receiver may have been dropped.
                let _ = answer.send(self.reload(*settings, log, shared));
            }
            CoreInput::Metrics { traffic, answer } => {
                let counts = self.audit.counts();
                let shown = Some(self.settings.rule_traffic).filter(|shown| traffic && *shown > 0);
                // The receiver may have been dropped.
                let _ = answer.send(MetricsSnapshot {
                    registry: metrics::registry(&self.middlebox, &self.latencies, counts),
                    traffic: shown.and_then(|shown| self.middlebox.meter(shown)),
                });
            }
            CoreInput::Stop => self.stop(),
        }
    }

    /// Handles at most `most` messages of a connection while its agent reads the replies. Returns
    /// their number.
    fn handle_messages(
        &mut self,
        now: Time,
        session: SessionId,
        most: usize,
        answered: &mut Vec<(Instant, u64)>,
    ) -> usize {
        let Some(connection) = self.connections.get_mut(&session) else {
            return 0;
        };
        let mut handled = 0;
        while handled < most
            && self.middlebox.accepts_requests(session)
            && let Some(StreamMessage { stream, message }) = connection.next_message()
        {
            handled += 1;
            self.middlebox
                .handle_message(now, session, stream, &message);
        }
        if handled > 0 {
            answered.push((connection.arrived(), handled as u64));
        }
        // Continues once its writer has taken the replies.
        self.with_room.push(session);
        handled
    }

    fn connected(&mut self, now: Time, mut link: MessageLink) {
        let (open, half_open) = self.middlebox.session_counts();
        let most = self.middlebox.limits().open_sessions.max(open)
            + self.middlebox.limits().half_open.max(half_open)
            + SPARE_CONNECTIONS;
        // Connections being closed count, too: otherwise a flood from one address would take all room.
        let of_source = link
            .address
            .and_then(|a| self.ending.get(&SourceNetwork::of(a)));
        let too_many_ending = of_source.is_some_and(|count| *count >= SPARE_CONNECTIONS / 4);
        if self.stopping || too_many_ending || self.connections.len() >= most {
            return link.writer.abort();
        }
        let peer = Peer {
            streams: link.streams,
            secure: link.secure,
            peer: None,
            address: link.address,
        };
        let session = self.middlebox.connected(now, &peer);
        let connection = Connection::start(session, link, &self.inputs);
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

    /// Passes events to the journal and the audit log.
    fn drain_events(&mut self) {
        let at = self.clock.moment();
        while let Some(event) = self.middlebox.poll_event() {
            if let MiddleboxEvent::SessionClosed { session, why, .. } = &event
                && let Some(connection) = self.connections.get_mut(session)
                && !connection.is_ending()
            {
                if *why == SessionEnd::Evicted && connection.lingers {
                    // The peer may never answer, and other connections need the entry.
                    connection.abort();
                } else {
                    connection.end();
                }
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
            let origin = |session| match self.connections.get(&session) {
                Some(connection) => Some((connection.peer.as_str(), connection.source)),
                None => {
                    (self.closed_peers.get(&session)).map(|(peer, source)| (peer.as_str(), *source))
                }
            };
            let owner = |rule: &Rule| self.middlebox.owner(rule);
            self.audit.event(&at, &event, origin, owner);
        }
        self.closed_peers.clear();
    }

    /// Commits recorded changes while connections read and write, then flushes the audit log.
    async fn commit(&mut self) -> Result<(), DaemonError> {
        let committed = self.commit_changes().await;
        match committed {
            Ok(()) => self.audit.flush(&self.clock.moment()),
            // The changes were not stored.
            Err(_) => self.audit.discard(),
        }
        committed
    }

    async fn commit_changes(&mut self) -> Result<(), DaemonError> {
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
        let (journal, done) = committed.await.map_err(|_| DaemonError::TaskFailed)?;
        self.journal = Some(journal);
        Ok(done?)
    }

    /// Passes messages to the writers.
    fn dispatch(&mut self) {
        for session in std::mem::take(&mut self.with_room) {
            self.fill_writer(session);
        }
        while let Some(session) = self.middlebox.take_ready() {
            self.fill_writer(session);
        }
    }

    /// Passes messages to one writer and schedules the connection's received messages.
    fn fill_writer(&mut self, session: SessionId) {
        let Some(connection) = self.connections.get_mut(&session) else {
            self.middlebox.disconnected(session);
            return;
        };
        let continues = match fill(&mut self.middlebox, session, connection) {
            FillResult::All if connection.has_messages() => true,
            FillResult::All => connection.answered(),
            FillResult::Some => true,
            FillResult::End => false,
        };
        if !continues {
            self.remove_connection(session);
        } else if connection.has_messages() && self.middlebox.accepts_requests(session) {
            self.busy.push_back(session);
        }
    }

    /// Removes a closed connection.
    fn remove_connection(&mut self, session: SessionId) {
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
        self.closed_peers
            .insert(session, (connection.peer.clone(), connection.source));
    }

    /// Applies another configuration. Returns the keys that need a restart.
    fn reload(
        &mut self,
        settings: DaemonSettings,
        log: Option<LogFile>,
        shared: &ListenerState,
    ) -> Result<Vec<String>, DaemonError> {
        let config = settings.middlebox()?;
        if let (Some(config), Some(listen)) = (&shared.tls, &settings.listen.tls) {
            let fresh = tls::server(&listen.certificate, &listen.key)?;
            match config.lock() {
                Ok(mut config) => *config = fresh,
                Err(poisoned) => *poisoned.into_inner() = fresh,
            }
        }
        self.audit.replace(log)?;
        shared.limits.send_replace(config.limits);
        let need_restart = keys_needing_restart(&self.settings, &settings);
        self.middlebox.reconfigure(config);
        let wall = self.clock.moment().wall;
        self.audit.daemon_event(wall, DaemonEvent::Reloaded);
        // Keys that need a restart keep their old value for the next comparison.
        let old = &self.settings;
        self.settings = DaemonSettings {
            listen: old.listen.clone(),
            backend: old.backend.clone(),
            state: old.state.clone(),
            metrics: old.metrics,
            ..settings
        };
        Ok(need_restart)
    }
}

/// Result of filling a writer's queue.
enum FillResult {
    /// All messages were passed.
    All,
    /// The queue is full.
    Some,
    /// The connection is to be closed.
    End,
}

/// Passes messages to a writer while it has room.
fn fill(
    middlebox: &mut Middlebox<AnyBackend>,
    session: SessionId,
    connection: &Connection,
) -> FillResult {
    loop {
        let permit = match connection.room() {
            OutboxRoom::Free(permit) => permit,
            OutboxRoom::None => return FillResult::Some,
            OutboxRoom::Closed => return FillResult::End,
        };
        match middlebox.poll_output(session) {
            None => return FillResult::All,
            Some(SessionOutput::Send { stream, message }) => {
                permit.send(StreamMessage { stream, message });
            }
            Some(SessionOutput::Close) => return FillResult::End,
        }
    }
}

/// Returns the changed keys that need a restart.
fn keys_needing_restart(old: &DaemonSettings, new: &DaemonSettings) -> Vec<String> {
    let addresses = |settings: &DaemonSettings| {
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
