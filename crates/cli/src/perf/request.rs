//! Request for a measurement, and its limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::distribution::Distribution;
use super::flow::{Flow, FlowDirection, FlowReliability, MAX_FLOWS, Spacing};
use super::session::TransferRole;

/// Version of the control protocol.
pub(super) const VERSION: u32 = 3;

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
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct MeasurementRequest {
    /// [`VERSION`].
    pub(super) version: u32,
    pub(super) direction: Direction,
    pub(super) extent: TransferExtent,
    /// Length of each message but the last, in bytes; with flows, the maximum.
    pub(super) size: u32,
    /// Number of streams that carry data; with flows, the number of the last one.
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
    /// Number of this association of the client, from 0.
    #[serde(default)]
    pub(super) association: u16,
    /// Flows of the command line; empty if the fields above describe one flow in each direction.
    #[serde(default)]
    pub(super) flows: Vec<Flow>,
    /// Random seed of the flows.
    #[serde(default)]
    pub(super) seed: u64,
    /// Length in milliseconds of the intervals of which the client wants the server's statistics; 0 if it wants none.
    #[serde(default)]
    pub(super) series: u64,
}

impl MeasurementRequest {
    /// Returns the flows, whose numbers are their places from 1.
    pub(super) fn flows(&self) -> Vec<Flow> {
        if !self.flows.is_empty() {
            return self.flows.clone();
        }
        let directions: &[FlowDirection] = match self.direction {
            Direction::ToServer => &[FlowDirection::ToServer],
            Direction::ToClient => &[FlowDirection::ToClient],
            Direction::Both => &[FlowDirection::ToServer, FlowDirection::ToClient],
        };
        let flow = |direction: &FlowDirection| Flow {
            spec: String::new(),
            direction: *direction,
            stream: 1,
            streams: self.streams,
            size: Distribution::Constant(self.size.into()),
            spacing: match self.bitrate {
                0 => Spacing::Unlimited,
                rate => Spacing::Rate(rate),
            },
            on_off: None,
            messages: None,
            unordered: f64::from(u8::from(self.unordered)),
            reliability: FlowReliability::Full,
            respond: None,
        };
        directions.iter().map(flow).collect()
    }

    /// Returns the bytes of the largest messages, and responses, of the side that sends in this direction.
    pub(super) fn message_memory(&self, direction: FlowDirection) -> u64 {
        let of_flow = |flow: &Flow| {
            if flow.direction == direction {
                u64::from(flow.max_size())
            } else {
                flow.respond.unwrap_or(0).into()
            }
        };
        self.flows().iter().map(of_flow).sum()
    }

    /// Returns the remark about flows that are reliable although they request partial reliability, because it is not in
    /// force; `None` if no flow requests it.
    pub(super) fn unconditional_reliability(&self) -> Option<String> {
        let flows = (1..).zip(&self.flows);
        let requested = flows.filter(|(_, flow)| flow.is_partially_reliable());
        let numbers: Vec<String> = requested.map(|(n, _): (u16, _)| n.to_string()).collect();
        (!numbers.is_empty()).then(|| {
            format!(
                "one side does not offer partial reliability (RFC 3758): lifetime and retransmissions have no effect, no \
                 message of flow {} is abandoned",
                numbers.join(", ")
            )
        })
    }

    /// Returns the direction of all flows together.
    pub(super) fn direction_of(flows: &[Flow]) -> Direction {
        let has = |direction| flows.iter().any(|flow| flow.direction == direction);
        match (has(FlowDirection::ToServer), has(FlowDirection::ToClient)) {
            (true, true) => Direction::Both,
            (false, true) => Direction::ToClient,
            _ => Direction::ToServer,
        }
    }

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
        self.check_flows()?;
        let memory = self.message_memory(FlowDirection::ToServer);
        let memory = memory.max(self.message_memory(FlowDirection::ToClient));
        if u64::from(self.parallel) * memory > MAX_MESSAGE_MEMORY {
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

    fn check_flows(&self) -> Result<(), String> {
        if self.flows.len() > MAX_FLOWS {
            return Err(format!("at most {MAX_FLOWS} times --flow are possible"));
        }
        for (number, flow) in (1..).zip(&self.flows) {
            let wrong = |error: String| format!("--flow number {number}: {error}");
            flow.check().map_err(wrong)?;
            if flow.last_stream() > self.streams {
                return Err(wrong(format!("stream: must be 1 to {}", self.streams)));
            }
        }
        let is_direction_right = Self::direction_of(&self.flows) == self.direction;
        if !self.flows.is_empty() && (!is_direction_right || self.extent.bytes().is_some()) {
            return Err("the flows do not fit the direction or extent of the request".into());
        }
        if self.series > 0 && self.series < 100 {
            return Err("intervals must be at least 100 ms".into());
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

    /// Returns a time within which each side sends a message, as far as the request determines it.
    pub(super) fn longest_pause(&self) -> Duration {
        let flows = self.flows();
        let pauses = flows.iter().map(Flow::longest_pause);
        pauses.min().unwrap_or_default()
    }

    /// Returns the role of the server.
    pub(super) fn server_role(&self) -> TransferRole {
        TransferRole {
            sends: self.server_sends(),
            receives: self.client_sends(),
            inbound: FlowDirection::ToServer,
        }
    }

    /// Returns the role of the client.
    pub(super) fn client_role(&self) -> TransferRole {
        TransferRole {
            sends: self.client_sends(),
            receives: self.server_sends(),
            inbound: FlowDirection::ToClient,
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
            association: 1,
            flows: Vec::new(),
            seed: 5,
            series: 0,
        }
    }

    /// Returns a valid request with these flows.
    pub(in crate::perf) fn request_of(specs: &[&str]) -> MeasurementRequest {
        let flows: Vec<Flow> = specs.iter().map(|s| Flow::parse(s).unwrap()).collect();
        MeasurementRequest {
            direction: MeasurementRequest::direction_of(&flows),
            extent: TransferExtent::Milliseconds(1000),
            flows,
            ..request()
        }
    }

    /// The options of iperf3 are a flow in each direction.
    #[test]
    fn requests_without_flows_have_one_a_direction() {
        let flows = request().flows();
        let directions: Vec<_> = flows.iter().map(|flow| flow.direction).collect();
        assert_eq!(
            directions,
            [FlowDirection::ToServer, FlowDirection::ToClient]
        );
        for flow in flows {
            assert_eq!((flow.stream, flow.last_stream()), (1, 3));
            assert_eq!(flow.spacing, Spacing::Rate(8000));
            assert_eq!(flow.max_size(), 1000);
        }
    }

    #[test]
    fn flows_of_a_request_are_checked() {
        let valid = request_of(&["stream=3,respond=500", "size=2000,reverse"]);
        assert_eq!(valid.check(4), Ok(()));
        assert_eq!(valid.direction, Direction::Both);
        assert_eq!(valid.message_memory(FlowDirection::ToServer), 1000);
        assert_eq!(valid.message_memory(FlowDirection::ToClient), 2500);
        let many = vec!["stream=1"; MAX_FLOWS + 1];
        for (wrong, error) in [
            (request_of(&many), "at most 64 times --flow"),
            (
                request_of(&["stream=4"]),
                "--flow number 1: stream: must be 1 to 3",
            ),
            (
                MeasurementRequest {
                    extent: TransferExtent::Bytes(1),
                    ..valid.clone()
                },
                "do not fit the direction or extent",
            ),
            (
                MeasurementRequest {
                    direction: Direction::ToServer,
                    ..valid.clone()
                },
                "do not fit the direction or extent",
            ),
            (
                MeasurementRequest {
                    series: 1,
                    ..valid.clone()
                },
                "at least 100 ms",
            ),
        ] {
            let refused = wrong.check(10).unwrap_err();
            assert!(refused.contains(error), "{refused}");
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
