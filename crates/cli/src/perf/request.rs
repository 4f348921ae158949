//! Request for a measurement, and its limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pacing::message_interval;
use super::session::TransferRole;

/// Version of the control protocol.
pub(super) const VERSION: u32 = 2;

/// Maximum length of a data message, in bytes.
pub(super) const MAX_SIZE: u32 = 1 << 30;

/// Maximum number of associations of a client.
pub(super) const MAX_PARALLEL: u16 = 128;

/// Maximum memory for one message of each association.
pub(super) const MAX_MESSAGE_MEMORY: u64 = 2 << 30;

/// Maximum duration of a transfer, as in iperf3, so that no request occupies a server for ever.
pub(super) const MAX_DURATION: Duration = Duration::from_hours(24);

/// Sides that send data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    ToServer,
    ToClient,
    Both,
}

/// Extent of a transfer, for each sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TransferExtent {
    /// Number of bytes.
    Bytes(u64),
    /// Duration in milliseconds.
    Milliseconds(u64),
}

impl TransferExtent {
    pub(super) fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Milliseconds(_) => None,
        }
    }
}

/// Request for a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct MeasurementRequest {
    /// [`VERSION`].
    pub(super) version: u32,
    pub(super) direction: Direction,
    pub(super) extent: TransferExtent,
    /// Length of each message but the last, in bytes.
    pub(super) size: u32,
    /// Number of streams that carry data.
    pub(super) streams: u16,
    pub(super) unordered: bool,
    /// Rate of each sender in bit/s; 0 if unlimited. Requests of version 1 lack this field and those below.
    #[serde(default)]
    pub(super) bitrate: u64,
    /// Time in milliseconds before the transfer is counted; it precedes the duration.
    #[serde(default)]
    pub(super) omit: u64,
    /// Number of associations of the client, each with a request that has this group.
    #[serde(default)]
    pub(super) parallel: u16,
    /// Random number of the client.
    #[serde(default)]
    pub(super) group: u64,
}

impl MeasurementRequest {
    /// Checks the request of a peer, for which this side may send on streams 0 to `outbound` - 1.
    pub(super) fn check(&self, outbound: u16) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "this side uses version {VERSION} of the control protocol, the peer version {}: use the same carrick on both sides",
                self.version
            ));
        }
        if self.size == 0 || self.size > MAX_SIZE {
            return Err(format!("the message size must be 1 to {MAX_SIZE} bytes"));
        }
        if !(1..=MAX_PARALLEL).contains(&self.parallel) {
            return Err(format!("--parallel must be 1 to {MAX_PARALLEL}"));
        }
        if u64::from(self.parallel) * u64::from(self.size) > MAX_MESSAGE_MEMORY {
            return Err(format!(
                "messages of {} bytes for each of {} associations need more than 2 GiB: use a smaller --size or --parallel",
                self.size, self.parallel
            ));
        }
        if self.omit > 0 && self.extent.bytes().is_some() {
            return Err("--omit needs a duration (--seconds) instead of --bytes".into());
        }
        if self.duration() > MAX_DURATION {
            return Err(format!(
                "the transfer takes longer than {} h: use shorter --seconds and --omit, fewer --bytes or a higher --bitrate",
                MAX_DURATION.as_secs() / 3600
            ));
        }
        if self.streams == 0 || self.streams >= outbound {
            return Err(format!(
                "{} data streams requested; 1 to {} are possible",
                self.streams,
                outbound.saturating_sub(1)
            ));
        }
        Ok(())
    }

    /// Returns the duration of the transfer, as far as the request determines it.
    fn duration(&self) -> Duration {
        match self.extent {
            TransferExtent::Milliseconds(milliseconds) => {
                Duration::from_millis(milliseconds.saturating_add(self.omit))
            }
            TransferExtent::Bytes(_) if self.bitrate == 0 => Duration::ZERO,
            TransferExtent::Bytes(bytes) => {
                let milliseconds = u128::from(bytes) * 8000 / u128::from(self.bitrate);
                Duration::from_millis(milliseconds.try_into().unwrap_or(u64::MAX))
            }
        }
    }

    /// Returns the time before the transfer is counted.
    pub(super) fn omit(&self) -> Duration {
        Duration::from_millis(self.omit)
    }

    /// Returns the time for which each sender sends; `None` if the number of bytes is given.
    pub(super) fn sending_time(&self) -> Option<Duration> {
        self.extent.bytes().is_none().then(|| self.duration())
    }

    /// Returns the time between two messages of a sender with a rate; zero without one.
    pub(super) fn message_interval(&self) -> Duration {
        message_interval(self.bitrate, self.size)
    }

    /// Returns the role of the client.
    pub(super) fn client_role(&self) -> TransferRole {
        TransferRole {
            sends: self.client_sends(),
            receives: self.server_sends(),
        }
    }

    pub(super) fn server_sends(&self) -> bool {
        self.direction != Direction::ToServer
    }

    pub(super) fn client_sends(&self) -> bool {
        self.direction != Direction::ToClient
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a valid request.
    pub(in crate::perf) fn request() -> MeasurementRequest {
        MeasurementRequest {
            version: VERSION,
            direction: Direction::Both,
            extent: TransferExtent::Bytes(7),
            size: 1000,
            streams: 3,
            unordered: false,
            bitrate: 8000,
            omit: 0,
            parallel: 2,
            group: 9,
        }
    }

    #[test]
    fn a_request_is_checked() {
        assert_eq!(request().check(4), Ok(()));
        assert!(request().check(3).is_err(), "stream 3 does not exist");
        for wrong in [
            MeasurementRequest {
                version: 1,
                ..request()
            },
            MeasurementRequest {
                size: 0,
                ..request()
            },
            MeasurementRequest {
                size: MAX_SIZE + 1,
                ..request()
            },
            MeasurementRequest {
                extent: TransferExtent::Milliseconds(1),
                omit: u64::MAX,
                ..request()
            },
            MeasurementRequest {
                parallel: 0,
                ..request()
            },
            MeasurementRequest {
                parallel: 129,
                ..request()
            },
            MeasurementRequest {
                parallel: 3,
                size: MAX_SIZE,
                ..request()
            },
            MeasurementRequest {
                omit: 1,
                ..request()
            },
            MeasurementRequest {
                extent: TransferExtent::Milliseconds(86_400_001),
                ..request()
            },
            MeasurementRequest {
                extent: TransferExtent::Bytes(u64::MAX),
                ..request()
            },
            MeasurementRequest {
                streams: 0,
                ..request()
            },
        ] {
            assert!(wrong.check(10).is_err(), "{wrong:?}");
        }
    }
}
