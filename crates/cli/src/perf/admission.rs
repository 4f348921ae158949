//! Limits of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::request::{MAX_MESSAGE_MEMORY, MeasurementRequest};

/// Maximum number of measurements at the same time.
const MAX_MEASUREMENTS: u64 = 1024;

/// Associations of one client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ClientGroup {
    id: u64,
    pub(super) associations: u16,
}

/// Measurements in this process.
#[derive(Debug, Default)]
pub(super) struct RunningMeasurements {
    running: AtomicU64,
    started: AtomicU64,
    /// Sum of the message sizes of this side's senders.
    message_bytes: AtomicU64,
    /// The only client of a server with `--once`.
    only_client: watch::Sender<Option<ClientGroup>>,
}

impl RunningMeasurements {
    /// Returns the only client of a server with `--once`, once it is known.
    pub(super) fn only_client(&self) -> watch::Receiver<Option<ClientGroup>> {
        self.only_client.subscribe()
    }

    /// Returns whether this is the only client; the first one is.
    pub(super) fn is_only_client(&self, request: &MeasurementRequest) -> bool {
        let group = ClientGroup {
            id: request.group,
            associations: request.parallel,
        };
        self.only_client.send_if_modified(|only| {
            let is_first = only.is_none();
            only.get_or_insert(group);
            is_first
        });
        *self.only_client.borrow() == Some(group)
    }
}

/// Running measurement.
#[derive(Debug)]
pub(super) struct MeasurementGuard {
    load: Arc<RunningMeasurements>,
    message_bytes: u64,
}

impl MeasurementGuard {
    /// Starts a measurement.
    ///
    /// # Errors
    /// This server measures with as many associations, or sends messages as large, as it may.
    pub(super) fn new(
        load: Arc<RunningMeasurements>,
        request: &MeasurementRequest,
    ) -> Result<Self, String> {
        let message_bytes = if request.server_sends() {
            request.size.into()
        } else {
            0
        };
        load.started.fetch_add(1, Ordering::Relaxed);
        let running = load.running.fetch_add(1, Ordering::Relaxed);
        let others = load
            .message_bytes
            .fetch_add(message_bytes, Ordering::Relaxed);
        let guard = Self {
            load,
            message_bytes,
        };
        if running >= MAX_MEASUREMENTS {
            return Err(format!(
                "the server measures with {MAX_MEASUREMENTS} associations already: try again later"
            ));
        }
        if others + message_bytes > MAX_MESSAGE_MEMORY {
            return Err(
                "the server sends messages of 2 GiB together already: use a smaller --size, or try again later".into(),
            );
        }
        Ok(guard)
    }

    /// Returns a function that reports whether another measurement has run at the same time.
    pub(super) fn overlap(&self) -> impl Fn() -> bool + use<> {
        let load = Arc::clone(&self.load);
        let alone = load.running.load(Ordering::Relaxed) == 1;
        let started = load.started.load(Ordering::Relaxed);
        move || !alone || load.started.load(Ordering::Relaxed) != started
    }
}

impl Drop for MeasurementGuard {
    fn drop(&mut self) {
        let load = &self.load;
        load.running.fetch_sub(1, Ordering::Relaxed);
        load.message_bytes
            .fetch_sub(self.message_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::request::{Direction, MAX_SIZE, TransferExtent, VERSION};

    fn request(direction: Direction, group: u64) -> MeasurementRequest {
        MeasurementRequest {
            version: VERSION,
            direction,
            extent: TransferExtent::Bytes(1),
            size: MAX_SIZE,
            streams: 1,
            unordered: false,
            bitrate: 0,
            omit: 0,
            parallel: 3,
            group,
        }
    }

    fn guard(
        load: &Arc<RunningMeasurements>,
        direction: Direction,
    ) -> Result<MeasurementGuard, String> {
        MeasurementGuard::new(Arc::clone(load), &request(direction, 7))
    }

    #[test]
    fn overlapping_measurements_are_detected() {
        let load = Arc::new(RunningMeasurements::default());
        let new = || guard(&load, Direction::ToServer).unwrap();
        let first = new();
        let first_overlaps = first.overlap();
        assert!(!first_overlaps());
        let second = new();
        assert!(first_overlaps() && second.overlap()());
        drop((first, second));
        assert!(!new().overlap()());
    }

    #[test]
    fn the_number_of_measurements_is_limited() {
        let load = Arc::new(RunningMeasurements::default());
        let new = || guard(&load, Direction::ToServer);
        let mut running: Vec<_> = (0..MAX_MEASUREMENTS).map(|_| new().unwrap()).collect();
        for _ in 0..2 {
            let refused = new().unwrap_err();
            assert!(refused.contains("1024 associations already"), "{refused}");
        }
        running.pop();
        assert!(new().is_ok(), "refused ones do not count");
    }

    #[test]
    fn the_memory_of_messages_is_limited() {
        let load = Arc::new(RunningMeasurements::default());
        let receiving = guard(&load, Direction::ToServer);
        let mut sending = vec![
            guard(&load, Direction::ToClient),
            guard(&load, Direction::Both),
        ];
        assert!(receiving.is_ok() && sending.iter().all(Result::is_ok));
        let refused = guard(&load, Direction::ToClient).unwrap_err();
        assert!(refused.contains("use a smaller --size"), "{refused}");
        assert!(
            guard(&load, Direction::ToServer).is_ok(),
            "it receives only"
        );
        sending.pop();
        assert!(guard(&load, Direction::ToClient).is_ok());
    }

    #[test]
    fn the_first_client_is_the_only_one() {
        let load = RunningMeasurements::default();
        let client = load.only_client();
        assert!(client.borrow().is_none());
        for (group, expected) in [(7, true), (8, false), (7, true)] {
            let request = request(Direction::Both, group);
            assert_eq!(load.is_only_client(&request), expected, "{group}");
        }
        assert_eq!(client.borrow().unwrap().associations, 3);
    }
}
