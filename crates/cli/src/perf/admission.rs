//! Limits of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::flow::FlowDirection;
use super::request::{MAX_MESSAGE_MEMORY, MeasurementRequest};

/// Maximum number of measurements at the same time.
const MAX_MEASUREMENTS: u64 = 1024;

/// Maximum number of flows of these measurements together, each of which has histograms of delays.
const MAX_FLOWS: u64 = 2048;

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
    flows: AtomicU64,
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
    flows: u64,
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
        let message_bytes = request.message_memory(FlowDirection::ToClient);
        let flows = request.flows().len() as u64;
        load.started.fetch_add(1, Ordering::Relaxed);
        let running = load.running.fetch_add(1, Ordering::Relaxed);
        let other_flows = load.flows.fetch_add(flows, Ordering::Relaxed);
        let others = load
            .message_bytes
            .fetch_add(message_bytes, Ordering::Relaxed);
        let guard = Self {
            load,
            flows,
            message_bytes,
        };
        if running >= MAX_MEASUREMENTS {
            return Err(format!(
                "the server measures with {MAX_MEASUREMENTS} associations already: try again later"
            ));
        }
        if other_flows + flows > MAX_FLOWS {
            return Err(format!(
                "the server measures with {other_flows} of {MAX_FLOWS} flows already: use fewer --flow or --parallel, \
                 or try again later"
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
        load.flows.fetch_sub(self.flows, Ordering::Relaxed);
        load.message_bytes
            .fetch_sub(self.message_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::request::tests::{request as valid, request_of};
    use crate::perf::request::{Direction, MAX_SIZE};

    fn request(direction: Direction, group: u64) -> MeasurementRequest {
        MeasurementRequest {
            direction,
            size: MAX_SIZE,
            parallel: 3,
            group,
            ..valid()
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
    fn the_number_of_flows_is_limited() {
        let load = Arc::new(RunningMeasurements::default());
        let request = request_of(&["stream=1"; 64]);
        let new = || MeasurementGuard::new(Arc::clone(&load), &request);
        let mut running: Vec<_> = (0..MAX_FLOWS / 64).map(|_| new().unwrap()).collect();
        let refused = new().unwrap_err();
        assert!(refused.contains("2048 of 2048 flows already"), "{refused}");
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
