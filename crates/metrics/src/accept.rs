//! Accepting connections when the system may lack resources.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Pause before the next attempt. Without file descriptors, each attempt fails at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Minimum interval between failure reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Capacity of the channel of reports.
const REPORT_CAPACITY: usize = 16;

/// Failures of one program to accept connections and to open sockets, mostly for lack of file
/// descriptors. Counted, and reported at most once in 60 s. Clones share state.
#[derive(Clone, Debug)]
pub struct AcceptFailures(Arc<AcceptFailureLog>);

#[derive(Debug)]
struct AcceptFailureLog {
    total: AtomicU64,
    /// Time of the last report and number of failures until then.
    reported: Mutex<Option<(Instant, u64)>>,
    reports: broadcast::Sender<String>,
}

impl Default for AcceptFailures {
    fn default() -> Self {
        Self(Arc::new(AcceptFailureLog {
            total: AtomicU64::new(0),
            reported: Mutex::default(),
            reports: broadcast::Sender::new(REPORT_CAPACITY),
        }))
    }
}

impl AcceptFailures {
    /// Returns the number of failed attempts.
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }

    /// Returns the reports from now on, one log line each.
    pub fn reports(&self) -> broadcast::Receiver<String> {
        self.0.reports.subscribe()
    }

    /// Accepts a connection. Retries every 100 ms after failures. Cancel-safe.
    pub async fn accept(&self, listener: &TcpListener) -> (TcpStream, SocketAddr) {
        loop {
            match listener.accept().await {
                Ok(accepted) => return accepted,
                // The connection has ended already; the next one is not affected.
                Err(error) if concerns_connection_only(&error) => {}
                Err(error) => {
                    let address = listener.local_addr();
                    let address =
                        address.map_or_else(|_| "a TCP address".to_owned(), |at| at.to_string());
                    let failed = format!("cannot accept connections at {address}");
                    if let Some(report) = self.record(Instant::now(), &failed, &error) {
                        // There may be no receiver.
                        let _ = self.0.reports.send(report);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Counts a failure. Returns the report if one is due: a log line that begins with `failed`.
    pub fn record(&self, now: Instant, failed: &str, error: &Error) -> Option<String> {
        let total = self.0.total.fetch_add(1, Ordering::Relaxed) + 1;
        let reported = self.0.reported.lock();
        let mut reported = reported.unwrap_or_else(PoisonError::into_inner);
        let count = match *reported {
            Some((at, _)) if now.saturating_duration_since(at) < REPORT_INTERVAL => return None,
            Some((_, before)) => total - before,
            None => total,
        };
        *reported = Some((now, total));
        drop(reported);
        Some(format!(
            "{failed}: {error} ({count} attempts since the last report); raise the limit of open files (LimitNOFILE= of the unit, ulimit -n)"
        ))
    }
}

fn concerns_connection_only(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_and_reported_once_a_minute() {
        let failures = AcceptFailures::default();
        let begun = Instant::now();
        let full = Error::from_raw_os_error(24);
        let reports = [0, 1, 59, 60, 61].map(|seconds| {
            let now = begun + Duration::from_secs(seconds);
            failures.record(now, "cannot open a socket", &full)
        });
        assert_eq!(failures.total(), 5);
        let [Some(first), None, None, Some(second), None] = reports else {
            panic!("{reports:?}");
        };
        assert!(first.starts_with("cannot open a socket: "), "{first}");
        assert!(first.contains("(1 attempts"), "{first}");
        assert!(second.contains("(3 attempts"), "{second}");
    }
}
