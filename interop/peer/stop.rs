//! SIGTERM and SIGINT.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for the order to stop.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// From now on the signals don't kill the program.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Ready when a signal comes. Cancel-safe.
    pub(crate) async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
