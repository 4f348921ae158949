//! The middlebox as a program: listeners, connections, and one task that owns the state machine.
//!
//! ```text
//! listeners ──> links ──> readers ─┐  batches of messages        ┌─> writers ──> links
//!                                  └──> core task: Middlebox ────┘
//!                                        │  1. all messages that are there
//!                                        │  2. changes of rules to the journal, one commit
//!                                        │  3. audit log, written by a thread of its own
//!                                        └  4. replies and notifications
//! ```
//!
//! No reply leaves before the change that it tells is in the journal; changes of many messages
//! share a commit. A connection that takes nothing holds up nobody: its messages wait in the state
//! machine, which ends the session when there are too many.

mod accept;
mod audit;
mod config;
mod connection;
mod core;
mod http;
mod listen;
mod metrics;
mod scrape;

use std::io;
use std::path::Path;

use tokio::sync::{mpsc, oneshot};

use crate::backend::{Backend, BackendError};
use crate::middlebox::Restored;
use crate::state::{FileJournal, Journal, Recovered, StateError};

pub use accept::AcceptFailures;
pub use config::{
    AgentEntry, BackendEntry, ConfigError, LimitsEntry, Listen, NftablesEntry, PoolEntry, Protocol,
    SctpListen, Settings, TlsListen, Words, parse_key, read_key_file,
};
pub use http::serve_metrics;
pub use listen::{Bound, Listeners};

use core::{Core, Input};
use scrape::Scraper;

/// Troubles that nobody has taken yet.
const TROUBLES: usize = 16;

/// A backend of any kind.
pub type AnyBackend = Box<dyn Backend + Send>;

/// A journal of any kind, and what an earlier life left in it.
pub struct State {
    /// Where changes are kept.
    pub journal: Box<dyn Journal + Send>,
    /// The rules to begin with.
    pub recovered: Recovered,
}

impl State {
    /// Nothing is kept.
    pub fn none() -> Self {
        Self {
            journal: Box::new(()),
            recovered: Recovered::default(),
        }
    }

    /// The state in a folder; none without one.
    ///
    /// # Errors
    /// See [`FileJournal::open`]; and when the system gives no random numbers.
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

/// Why a middlebox does not run, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration is wrong.
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    /// An address can't be listened on.
    #[error("cannot listen on {place}: {why}")]
    Listen {
        /// Which transport and address.
        place: String,
        /// What the system says.
        why: String,
    },
    /// The certificate or its key.
    #[error(transparent)]
    Tls(#[from] crate::transport::tls::TlsError),
    /// The audit log can't be written.
    #[error("cannot write the audit log {path}: {source}")]
    Audit {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The state can't be written: what would be granted from now on could be lost, so nothing is.
    #[error("{0}; no rule can be granted without the state")]
    State(#[from] StateError),
    /// The packet filter can't be brought to what the state says.
    #[error("the packet filter does not take up the rules of the state: {0}")]
    Backend(#[from] BackendError),
    /// What the middlebox had made in the packet filter is gone: at the next start it is made again.
    #[error("stopped, so that nothing is told to be closed that isn't: {0}")]
    Gone(BackendError),
    /// The system gave no random numbers.
    #[error("the system's random number generator failed: {0}")]
    Random(String),
    /// A task panicked.
    #[error("the middlebox's task ended without a word")]
    Lost,
}

/// A middlebox that runs on the current runtime. When it is dropped, it stops.
pub struct Daemon {
    orders: mpsc::Sender<Input>,
    scraper: Scraper,
    accept_failures: AcceptFailures,
    bound: Bound,
    restored: Restored,
    troubles: Option<mpsc::Receiver<DaemonError>>,
    done: tokio::task::JoinHandle<Result<(), DaemonError>>,
}

impl Daemon {
    /// Opens what is to be listened on, takes up what an earlier life granted, and runs.
    ///
    /// # Errors
    /// Says what is wrong with the configuration or the system.
    pub async fn start(
        settings: &Settings,
        backend: AnyBackend,
        state: State,
    ) -> Result<Self, DaemonError> {
        let listeners = Listeners::open(settings).await?;
        Self::start_on(listeners, settings, backend, state)
    }

    /// Takes up what an earlier life granted, and runs on what these settings opened. So whoever opens
    /// a backend after the state and the listeners takes nothing from a middlebox that runs already.
    ///
    /// # Errors
    /// Says what is wrong with the configuration or the system.
    pub fn start_on(
        listeners: Listeners,
        settings: &Settings,
        backend: AnyBackend,
        state: State,
    ) -> Result<Self, DaemonError> {
        let (orders, inputs) = mpsc::channel(core::INPUTS);
        let (trouble, troubles) = mpsc::channel(TROUBLES);
        let core = Core::new(settings, backend, state, orders.clone(), trouble)?;
        let restored = core.restored().clone();
        let accept_failures = AcceptFailures::default();
        let scraper = Scraper::new(orders.clone(), accept_failures.clone());
        let (bound, shared) = listeners.serve(&orders, &scraper, &accept_failures);
        let done = tokio::spawn(core.run(inputs, shared));
        Ok(Self {
            orders,
            scraper,
            accept_failures,
            bound,
            restored,
            troubles: Some(troubles),
            done,
        })
    }

    /// Where it listens: the ports that the system chose.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// What became of the rules of an earlier life.
    pub fn restored(&self) -> &Restored {
        &self.restored
    }

    /// Returns the failures to accept connections.
    pub fn accept_failures(&self) -> &AcceptFailures {
        &self.accept_failures
    }

    /// What goes wrong without ending it: the audit log can't be written. Given once.
    pub fn troubles(&mut self) -> Option<mpsc::Receiver<DaemonError>> {
        self.troubles.take()
    }

    /// Another configuration from now on, without dropping sessions. Where it listens, its backend
    /// and its state file stay as they were; what differs there is told.
    ///
    /// # Errors
    /// When the configuration is wrong; the old one stays.
    pub async fn reload(&self, settings: Settings) -> Result<Vec<String>, DaemonError> {
        // What is wrong changes nothing; and opening a file may take its time.
        settings.middlebox()?;
        let path = settings.audit.clone();
        let opening = tokio::task::spawn_blocking(move || audit::LogFile::open(path.as_deref()));
        let log = opening.await.map_err(|_| DaemonError::Lost)??;
        let (answer, answered) = oneshot::channel();
        let input = Input::Reload(Box::new(settings), log, answer);
        self.orders
            .send(input)
            .await
            .map_err(|_| DaemonError::Lost)?;
        answered.await.map_err(|_| DaemonError::Lost)?
    }

    /// The metrics, as they are served over HTTP.
    ///
    /// # Errors
    /// When the middlebox has stopped.
    pub async fn metrics(&self) -> Result<String, DaemonError> {
        self.scraper.text().await.ok_or(DaemonError::Lost)
    }

    /// Ends all sessions with AST and stops. Rules stay in the backend and in the state.
    ///
    /// # Errors
    /// When it stopped before, for a reason that it tells.
    pub async fn stop(mut self) -> Result<(), DaemonError> {
        // If it is gone already, `done` says why.
        let _ = self.orders.send(Input::Stop).await;
        self.ended().await
    }

    /// Waits until it stops by itself, which only a failure makes it do.
    ///
    /// # Errors
    /// Tells the failure.
    pub async fn ended(&mut self) -> Result<(), DaemonError> {
        (&mut self.done).await.unwrap_or(Err(DaemonError::Lost))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.done.abort();
        self.bound.stop();
    }
}
