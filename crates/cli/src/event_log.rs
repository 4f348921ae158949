//! Options of the event log, which all commands with endpoints share.

use std::fs::OpenOptions;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use carrick::{EventLog, ObservedDetail};
use clap::Args;

use crate::failure::Failure;
use crate::files;

/// Options of the event log.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EventLogArguments {
    /// Append what the endpoint decides, and why, to this file as lines of JSON: states, errors of paths,
    /// losses, refused chunks. At most 256 MiB.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) event_log: Option<PathBuf>,
    /// Log the events of single chunks, windows and round-trip times, too.
    #[arg(long, requires = "event_log", global = true)]
    event_log_chunks: bool,
    /// The open log, which clones of the options share: all endpoints of a command write it.
    #[arg(skip)]
    log: Arc<OnceLock<EventLog>>,
}

impl EventLogArguments {
    /// Opens the log, if there is one, at the option's file or otherwise at `default`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn open(&self, default: Option<&PathBuf>) -> Result<Option<EventLog>, Failure> {
        let Some(path) = self.event_log.as_ref().or(default) else {
            return Ok(None);
        };
        if let Some(log) = self.log.get() {
            return Ok(Some(log.clone()));
        }
        check(path)?;
        let failed =
            |error: std::io::Error| Failure::Run(format!("event log {}: {error}", path.display()));
        let file = OpenOptions::new().create(true).append(true).open(path);
        let log = EventLog::new(BufWriter::new(file.map_err(failed)?)).map_err(failed)?;
        let detail = if self.event_log_chunks {
            ObservedDetail::Chunk
        } else {
            ObservedDetail::Decision
        };
        let log = log.detail(detail);
        // Endpoints are opened one after the other.
        Ok(Some(self.log.get_or_init(|| log).clone()))
    }

    /// Checks that the file can be written, without opening it.
    ///
    /// # Errors
    /// It cannot, with the remedy.
    #[cfg(any(target_os = "linux", feature = "simco"))]
    pub(crate) fn check(&self, default: Option<&PathBuf>) -> Result<(), Failure> {
        self.event_log
            .as_ref()
            .or(default)
            .map_or(Ok(()), |path| check(path))
    }
}

fn check(path: &Path) -> Result<(), Failure> {
    files::check_appended(path)
        .map_err(|why| Failure::Run(format!("event log {}: {why}", path.display())))
}
