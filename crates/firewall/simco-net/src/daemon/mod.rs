//! Middlebox as a program: listeners, connections, and one task that owns the state machine.
//!
//! ```text
//! listeners ──> links ──> readers ─┐  batches of messages        ┌─> writers ──> links
//!                                  └──> core task: Middlebox ────┘
//!                                        │  1. all messages received so far
//!                                        │  2. changes of rules to the journal, one commit
//!                                        │  3. audit log, written by a separate thread
//!                                        └  4. replies and notifications
//! ```
//!
//! A reply is sent after its change is in the journal; changes of many messages share a commit. A
//! connection that does not read delays no other: its messages wait in the state machine, which ends
//! the session when there are too many.

mod audit;
mod config;
mod connection;
mod core;
mod listen;
mod metrics;
mod scrape;

use std::io;
use std::path::Path;

use tokio::sync::{mpsc, oneshot};

use carrick_metrics::AcceptFailures;
use carrick_simco::backend::{Backend, BackendError};
use carrick_simco::middlebox::RestoredRules;
use carrick_simco::state::{FileJournal, Journal, RecoveredState, StateError};

pub use config::{
    AgentEntry, BackendEntry, ConfigError, ConfigSource, DaemonSettings, InvalidKey, LimitsEntry,
    ListenEntry, NftablesEntry, PoolEntry, ProtocolEntry, SctpListen, TlsListen, WordList,
    parse_key, read_key_file,
};
pub use listen::{BoundAddresses, Listeners};

use core::{CoreInput, MiddleboxCore};
use scrape::Scraper;

/// Capacity of the channel of errors that do not stop the middlebox.
const ERRORS: usize = 16;

/// Backend of any kind.
pub type AnyBackend = Box<dyn Backend + Send>;

/// Journal of any kind, and the state that an earlier run left in it.
pub struct StoredState {
    /// Journal for changes.
    pub journal: Box<dyn Journal + Send>,
    /// Rules to restore.
    pub recovered: RecoveredState,
}

impl StoredState {
    /// Returns a state that is not stored.
    pub fn none() -> Self {
        Self {
            journal: Box::new(()),
            recovered: RecoveredState::default(),
        }
    }

    /// Opens the state in a folder, or none without a folder.
    ///
    /// # Errors
    /// See [`FileJournal::open`]; and when the system returns no random numbers.
    pub fn open(folder: Option<&Path>) -> Result<Self, StateError> {
        let Some(folder) = folder else {
            return Ok(Self::none());
        };
        let mut salt = [0; 8];
        getrandom::fill(&mut salt).map_err(|error| StateError::Io {
            what: "get random numbers for",
            path: folder.to_owned(),
            source: io::Error::other(error.to_string()),
        })?;
        let (journal, recovered) = FileJournal::open(folder, salt)?;
        Ok(Self {
            journal: Box::new(journal),
            recovered,
        })
    }
}

/// Error of a middlebox.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration is invalid.
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    /// An address can't be bound.
    #[error("cannot listen on {place}: {why}")]
    Listen {
        /// Transport and address.
        place: String,
        /// Error of the system.
        why: String,
    },
    /// Error of the certificate or its key.
    #[error(transparent)]
    Tls(#[from] crate::transport::tls::TlsError),
    /// The audit log can't be written.
    #[error("cannot write the audit log {path}: {source}")]
    Audit {
        /// The file.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The state can't be written, so rules that are granted from now on could be lost.
    #[error("{0}; stopped, because granted rules could not be stored")]
    State(#[from] StateError),
    /// The rules of the state can't be restored in the packet filter.
    #[error("cannot restore the rules of the state in the packet filter: {0}")]
    Backend(#[from] BackendError),
    /// The table of the middlebox was removed or changed. The next start restores it.
    #[error("the packet filter no longer enforces the rules: {0}")]
    NotEnforced(BackendError),
    /// The system returned no random numbers.
    #[error("cannot get random numbers from the system: {0}")]
    Random(String),
    /// A task panicked.
    #[error("middlebox task terminated unexpectedly")]
    TaskFailed,
}

/// Middlebox running on the current runtime. It stops when dropped.
pub struct Daemon {
    to_core: mpsc::Sender<CoreInput>,
    scraper: Scraper,
    accept_failures: AcceptFailures,
    bound: BoundAddresses,
    restored: RestoredRules,
    errors: Option<mpsc::Receiver<DaemonError>>,
    done: tokio::task::JoinHandle<Result<(), DaemonError>>,
}

impl Daemon {
    /// Opens the listeners, restores the rules of the state and starts.
    ///
    /// # Errors
    /// The error of the configuration or the system.
    pub async fn start(
        settings: &DaemonSettings,
        backend: AnyBackend,
        state: StoredState,
    ) -> Result<Self, DaemonError> {
        let listeners = Listeners::open(settings).await?;
        Self::start_on(listeners, settings, backend, state)
    }

    /// Restores the rules of the state and starts on open listeners. Opening the state and the
    /// listeners before the backend leaves the packet filter of a running middlebox unchanged.
    ///
    /// # Errors
    /// The error of the configuration or the system.
    pub fn start_on(
        listeners: Listeners,
        settings: &DaemonSettings,
        backend: AnyBackend,
        state: StoredState,
    ) -> Result<Self, DaemonError> {
        let (to_core, inputs) = mpsc::channel(core::INPUTS);
        let (report, errors) = mpsc::channel(ERRORS);
        let core = MiddleboxCore::new(settings, backend, state, to_core.clone(), report)?;
        let restored = core.restored().clone();
        let accept_failures = AcceptFailures::default();
        let scraper = Scraper::new(to_core.clone(), accept_failures.clone());
        let (bound, shared) = listeners.serve(&to_core, &scraper, &accept_failures);
        let done = tokio::spawn(core.run(inputs, shared));
        Ok(Self {
            to_core,
            scraper,
            accept_failures,
            bound,
            restored,
            errors: Some(errors),
            done,
        })
    }

    /// Returns the listening addresses with the ports that the system chose.
    pub fn bound(&self) -> &BoundAddresses {
        &self.bound
    }

    /// Returns the result of restoring rules.
    pub fn restored(&self) -> &RestoredRules {
        &self.restored
    }

    /// Returns the failures to accept connections.
    pub fn accept_failures(&self) -> &AcceptFailures {
        &self.accept_failures
    }

    /// Returns the errors that do not stop the middlebox, such as those of the audit log. `None` after
    /// the first call.
    pub fn errors(&mut self) -> Option<mpsc::Receiver<DaemonError>> {
        self.errors.take()
    }

    /// Applies another configuration without dropping sessions. Listeners, backend and state file are
    /// unchanged; the returned keys need a restart.
    ///
    /// # Errors
    /// The configuration is invalid; the old one is kept.
    pub async fn reload(&self, settings: DaemonSettings) -> Result<Vec<String>, DaemonError> {
        // Validate first; opening the file may block.
        settings.middlebox()?;
        let path = settings.audit.clone();
        let opening = tokio::task::spawn_blocking(move || audit::LogFile::open(path.as_deref()));
        let log = opening.await.map_err(|_| DaemonError::TaskFailed)??;
        let (answer, answered) = oneshot::channel();
        let input = CoreInput::Reload(Box::new(settings), log, answer);
        self.to_core
            .send(input)
            .await
            .map_err(|_| DaemonError::TaskFailed)?;
        answered.await.map_err(|_| DaemonError::TaskFailed)?
    }

    /// Returns the metrics as served over HTTP.
    ///
    /// # Errors
    /// The middlebox has stopped.
    pub async fn metrics(&self) -> Result<String, DaemonError> {
        self.scraper.text().await.ok_or(DaemonError::TaskFailed)
    }

    /// Ends all sessions with AST and stops. Rules stay in the backend and in the state.
    ///
    /// # Errors
    /// It stopped earlier because of an error.
    pub async fn stop(mut self) -> Result<(), DaemonError> {
        // If the task has ended, `done` has its result.
        let _ = self.to_core.send(CoreInput::Stop).await;
        self.ended().await
    }

    /// Waits until it stops because of a failure.
    ///
    /// # Errors
    /// The failure.
    pub async fn ended(&mut self) -> Result<(), DaemonError> {
        (&mut self.done)
            .await
            .unwrap_or(Err(DaemonError::TaskFailed))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.done.abort();
        self.bound.stop();
    }
}
