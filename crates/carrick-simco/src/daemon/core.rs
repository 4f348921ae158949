//! The task that owns the state machine.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::audit::{Audit, Deed, LogFile};
use super::config::Settings;
use super::connection::{Connection, Room};
use super::listen::Shared;
use super::metrics::{self, Latencies};
use super::scrape::Scrape;
use super::{AnyBackend, DaemonError, State};
use crate::Time;
use crate::middlebox::{
    Connection as Peer, Middlebox, MiddleboxEvent, Restored, SessionEnd, SessionId, SessionOutput,
    Source,
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
pub(super) const CYCLE: usize = 256;

/// How often the packet filter is looked after.
const LOOK: Duration = Duration::from_secs(1);

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
        /// Its audit log.
        Option<LogFile>,
        oneshot::Sender<Result<Vec<String>, DaemonError>>,
    ),
    /// The metrics are wanted.
    Metrics {
        /// With what reads what rules have let pass.
        traffic: bool,
        answer: oneshot::Sender<Scrape>,
    },
    /// The end is wanted.
    Stop,
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
    gone: BTreeMap<SessionId, (String, Option<Source>)>,
    /// Connections whose session is over, by where they come from.
    ending: BTreeMap<Source, usize>,
    inputs: mpsc::Sender<Input>,
    latencies: Latencies,
    /// Connections that take more again.
    roomy: Vec<SessionId>,
    /// Connections with messages that wait to be handled and have room for the replies, in their order.
    busy: VecDeque<SessionId>,
    stopping: bool,
}

impl Core {
    pub(super) fn new(
        settings: &Settings,
        backend: AnyBackend,
        state: State,
        inputs: mpsc::Sender<Input>,
        troubles: mpsc::Sender<DaemonError>,
    ) -> Result<Self, DaemonError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| DaemonError::Random(e.to_string()))?;
        let State {
            mut journal,
            recovered,
        } = state;
        // What can fail without a change comes first.
        let log = LogFile::open(settings.audit.as_deref())?;
        let clock = Clock::start().with_boot_time();
        let mut middlebox = Middlebox::new(settings.middlebox()?, backend, seed);
        let at = clock.moment();
        let restored = middlebox.restore(&at, &recovered)?;
        for change in middlebox.changes_of(&restored) {
            journal.record(&at, &change);
        }
        journal.commit()?;
        let mut audit = Audit::start(log, troubles)?;
        audit.deed(at.wall, Deed::Started(restored.rules));
        if !restored.ended.is_empty() {
            let rules = recovered.rules.iter();
            let owners: BTreeMap<_, _> = rules.map(|rule| (rule.id, &rule.owner)).collect();
            for (rule, why) in &restored.ended {
                let owner = owners.get(rule).copied();
                audit.deed(at.wall, Deed::NotRestored(*rule, owner, why));
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
            gone: BTreeMap::new(),
            ending: BTreeMap::new(),
            inputs,
            latencies: Latencies::default(),
            settings: settings.clone(),
            roomy: Vec::new(),
            busy: VecDeque::new(),
            stopping: false,
        })
    }

    pub(super) fn restored(&self) -> &Restored {
        &self.restored
    }

    pub(super) async fn run(
        mut self,
        mut inputs: mpsc::Receiver<Input>,
        shared: Shared,
    ) -> Result<(), DaemonError> {
        let ended = self.go_on(&mut inputs, &shared).await;
        let at = self.clock.moment();
        self.audit
            .deed(at.wall, Deed::Stopped(ended.as_ref().err()));
        self.audit.flush(&at);
        // A log that hangs is left alone.
        let _ = tokio::time::timeout(LAST_WORDS, self.audit.finish()).await;
        ended
    }

    /// Runs until it is told to stop, or has to.
    async fn go_on(
        &mut self,
        inputs: &mut mpsc::Receiver<Input>,
        shared: &Shared,
    ) -> Result<(), DaemonError> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut pending = VecDeque::new();
        let mut answered = Vec::new();
        let mut stop_by = None;
        let mut look = self.clock.now() + LOOK;
        loop {
            let timeout = self
                .middlebox
                .poll_timeout()
                .into_iter()
                .chain(stop_by)
                .chain([look])
                .min();
            let due = timeout.is_some_and(|due| due <= self.clock.now());
            if pending.is_empty() && self.busy.is_empty() && !due {
                tokio::select! {
                    _ = inputs.recv_many(&mut batch, BATCH) => pending.extend(batch.drain(..)),
                    () = self.clock.sleep_until(timeout) => {}
                }
            } else {
                // Writers and readers have their turn.
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
                self.take(now, input, shared);
            }
            let mut handled = 0;
            while handled < CYCLE
                && let Some(session) = self.busy.pop_front()
            {
                handled += self.work(now, session, CYCLE - handled, &mut answered);
            }
            self.middlebox.handle_timeout(now);
            if look <= now {
                look = now + LOOK;
                self.middlebox.check_backend().map_err(DaemonError::Gone)?;
            }
            self.drain_events();
            self.commit().await?;
            self.dispatch();
            if !self.gone.is_empty() {
                self.drain_events();
            }
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

    fn take(&mut self, now: Time, input: Input, shared: &Shared) {
        match input {
            Input::Connected(link) => self.connected(now, link),
            Input::Messages {
                session,
                arrived,
                messages,
            } => {
                if let Some(connection) = self.connections.get_mut(&session) {
                    connection.came(arrived, messages);
                    self.busy.push_back(session);
                }
            }
            Input::ReadEnd(session, true) => self.middlebox.stream_failed(session),
            Input::ReadEnd(session, false) => {
                // What was asked for before is answered, as far as the peer still takes it.
                if let Some(connection) = self.connections.get_mut(&session) {
                    connection.read_ended();
                    self.roomy.push(session);
                }
            }
            Input::Written(session) => self.forget(session),
            Input::Room(session) => self.roomy.push(session),
            Input::Reload(settings, log, answer) => {
                // Whoever asked may have lost interest.
                let _ = answer.send(self.reload(*settings, log, shared));
            }
            Input::Metrics { traffic, answer } => {
                let counts = self.audit.counts();
                let shown = Some(self.settings.rule_traffic).filter(|shown| traffic && *shown > 0);
                // Whoever asked may have lost interest.
                let _ = answer.send(Scrape {
                    text: metrics::text(&self.middlebox, &self.latencies, counts),
                    traffic: shown.and_then(|shown| self.middlebox.meter(shown)),
                });
            }
            Input::Stop => self.stop(),
        }
    }

    /// Handles messages of a connection, at most so many, as long as its agent takes the replies.
    /// Returns how many.
    fn work(
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
            && self.middlebox.takes_requests(session)
            && let Some(Packet { stream, message }) = connection.next_message()
        {
            handled += 1;
            self.middlebox
                .handle_message(now, session, stream, &message);
        }
        if handled > 0 {
            answered.push((connection.arrived(), handled as u64));
        }
        // It goes on when its writer has been given what it takes.
        self.roomy.push(session);
        handled
    }

    fn connected(&mut self, now: Time, mut link: Link) {
        let (open, half_open) = self.middlebox.session_counts();
        let most = self.middlebox.limits().open_sessions.max(open)
            + self.middlebox.limits().half_open.max(half_open)
            + SPARE_CONNECTIONS;
        // Those that are being closed count too: else a flood from one address takes all room.
        let of_source = link.address.and_then(|a| self.ending.get(&Source::of(a)));
        let crowd = of_source.is_some_and(|count| *count >= SPARE_CONNECTIONS / 4);
        if self.stopping || crowd || self.connections.len() >= most {
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

    /// Tells journal and audit log what happened.
    fn drain_events(&mut self) {
        let at = self.clock.moment();
        while let Some(event) = self.middlebox.poll_event() {
            if let MiddleboxEvent::SessionClosed { session, why, .. } = &event
                && let Some(connection) = self.connections.get_mut(session)
                && !connection.is_ending()
            {
                if *why == SessionEnd::CrowdedOut && connection.lingers {
                    // Its peer may never answer, and others wait for its place.
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
                None => (self.gone.get(&session)).map(|(peer, source)| (peer.as_str(), *source)),
            };
            let owner = |rule: &Rule| self.middlebox.owner(rule);
            self.audit.event(&at, &event, origin, owner);
        }
        self.gone.clear();
    }

    /// What was recorded is made safe, while others read and write; then the audit log may tell it.
    async fn commit(&mut self) -> Result<(), DaemonError> {
        let committed = self.commit_changes().await;
        match committed {
            Ok(()) => self.audit.flush(&self.clock.moment()),
            // What it tells was not granted.
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

    /// Gives one writer what it takes, and what waits of that connection its turn.
    fn pump(&mut self, session: SessionId) {
        let Some(connection) = self.connections.get_mut(&session) else {
            self.middlebox.disconnected(session);
            return;
        };
        let goes_on = match fill(&mut self.middlebox, session, connection) {
            Filled::All if connection.has_messages() => true,
            Filled::All => connection.answered(),
            Filled::Some => true,
            Filled::End => false,
        };
        if !goes_on {
            self.forget(session);
        } else if connection.has_messages() && self.middlebox.takes_requests(session) {
            self.busy.push_back(session);
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
        self.gone
            .insert(session, (connection.peer.clone(), connection.source));
    }

    /// Takes another configuration; returns what can't change while it runs.
    fn reload(
        &mut self,
        settings: Settings,
        log: Option<LogFile>,
        shared: &Shared,
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
        let unchanged = fixed(&self.settings, &settings);
        self.middlebox.reconfigure(config);
        let wall = self.clock.moment().wall;
        self.audit.deed(wall, Deed::Reloaded);
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

/// What a writer was given.
enum Filled {
    /// All that there is.
    All,
    /// As much as it takes now.
    Some,
    /// The connection goes no further.
    End,
}

/// Gives a writer what it takes.
fn fill(
    middlebox: &mut Middlebox<AnyBackend>,
    session: SessionId,
    connection: &Connection,
) -> Filled {
    loop {
        let permit = match connection.room() {
            Room::Free(permit) => permit,
            Room::None => return Filled::Some,
            Room::Gone => return Filled::End,
        };
        match middlebox.poll_output(session) {
            None => return Filled::All,
            Some(SessionOutput::Send { stream, message }) => {
                permit.send(Packet { stream, message });
            }
            Some(SessionOutput::Close) => return Filled::End,
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
