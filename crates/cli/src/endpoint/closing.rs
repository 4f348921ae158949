//! Ends of endpoints and associations: after the work is done, after a failure or a signal.

use std::time::Duration;

use carrick::{CloseReason, Endpoint, SendHalf};

use crate::failure::Failure;
use crate::runtime::{signal_received, until_signal};

/// Maximum duration of closing the endpoint after a failure.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum duration of closing the endpoint of a server after a signal.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs `work` with an endpoint and closes the endpoint afterwards, as long as the protocol needs for the messages
/// that are not delivered. If a signal ends `work`, it is dropped, which aborts its associations; one that arrives
/// while the endpoint is being closed limits this. Messages that were not delivered are an error, and associations that
/// did not end gracefully.
pub(crate) async fn with(
    endpoint: Endpoint,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let done = until_signal(work).await;
    if let (Err(Failure::Run(_)), Some(reason)) = (&done, endpoint.failure()) {
        // The cause of the other error.
        return Err(Failure::Run(reason.into()));
    }
    let closed = match &done {
        Ok(()) => until_signal(async { Ok(endpoint.close().await) }).await,
        Err(_) => Ok(endpoint.close_within(CLOSE_TIMEOUT).await),
    };
    let (report, done) = match closed {
        Ok(report) => (report, done),
        Err(interrupted) => (endpoint.close_within(CLOSE_TIMEOUT).await, Err(interrupted)),
    };
    let mut ends = report.associations.iter();
    let is_graceful = report.undelivered == 0 && ends.all(|e| e.reason == CloseReason::Shutdown);
    match done {
        // The peers have been acknowledged messages that this side did not want.
        Ok(()) if is_graceful && !report.is_empty() => {
            eprintln!("carrick: {report}");
            Ok(())
        }
        Ok(()) if !report.is_empty() => Err(Failure::Run(report.to_string())),
        Err(Failure::Run(line)) if !report.is_empty() => {
            Err(Failure::Run(format!("{line}; {report}")))
        }
        done => done,
    }
}

/// Runs `work` of a server until a signal, and then shuts its associations down, as far as that takes no longer than
/// [`STOP_TIMEOUT`].
pub(crate) async fn until_stopped(
    endpoint: Endpoint,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let done = tokio::select! {
        done = work => done,
        _ = signal_received() => Ok(()),
    };
    if let (Err(Failure::Run(_)), Some(reason)) = (&done, endpoint.failure()) {
        // The cause of the other error.
        return Err(Failure::Run(reason.into()));
    }
    let report = endpoint.close_within(STOP_TIMEOUT).await;
    if !report.is_empty() {
        eprintln!("carrick: {report}");
    }
    done
}

/// Returns a failure with the number of messages that were not delivered, if the association has ended.
pub(crate) fn with_undelivered(failure: Failure, sender: &SendHalf) -> Failure {
    match failure {
        Failure::Run(line) => Failure::Run(line + &undelivered_text(sender)),
        failure => failure,
    }
}

/// Returns what an association that has ended adds to a line about its end: the number of messages that were not
/// delivered, or nothing.
pub(crate) fn undelivered_text(sender: &SendHalf) -> String {
    match sender.undelivered() {
        count if count > 0 && sender.close_reason().is_some() => {
            let plural = if count == 1 { "" } else { "s" };
            format!("; {count} message{plural} not delivered")
        }
        _ => String::new(),
    }
}

/// Aborts an association when dropped, unless disarmed.
pub(crate) struct AbortOnDrop {
    sender: Option<SendHalf>,
    reason: &'static str,
}

impl AbortOnDrop {
    pub(crate) fn new(sender: SendHalf, reason: &'static str) -> Self {
        Self {
            sender: Some(sender),
            reason,
        }
    }

    pub(crate) fn disarm(mut self) {
        self.sender = None;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(sender) = &self.sender {
            sender.abort(self.reason.as_bytes());
        }
    }
}
