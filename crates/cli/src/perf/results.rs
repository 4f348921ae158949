//! Results of measurements.

use serde::Serialize;

use super::clock::ClockOffset;
use super::delay::DelaySummary;
use super::interval::Rate;
use super::protocol::{MeasurementCost, Reception};
use super::request::MeasurementRequest;
use super::session::MeasurementOutcome;

/// Number of bytes in a GB.
const GB: f64 = 1e9;

/// Difference of the clocks of both sides, in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Clocks {
    /// Time of the server's clock minus that of the client's.
    offset: f64,
    /// Maximum error of the offset: half the round trip.
    uncertainty: f64,
    /// Smallest round trip of the exchanges before the transfer.
    round_trip: f64,
}

impl From<ClockOffset> for Clocks {
    fn from(clocks: ClockOffset) -> Self {
        Self {
            offset: clocks.offset as f64 / 1e9,
            uncertainty: clocks.uncertainty() as f64 / 1e9,
            round_trip: clocks.round_trip as f64 / 1e9,
        }
    }
}

impl Clocks {
    fn text(&self) -> String {
        let ms = |seconds: f64| seconds * 1000.0;
        format!(
            "clock of the server minus that of the client: {:+.3} ms ± {:.3} ms; smallest round trip {:.3} ms",
            ms(self.offset),
            ms(self.uncertainty),
            ms(self.round_trip)
        )
    }
}

/// Result of a measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Summary {
    request: MeasurementRequest,
    /// Data received by the server from the client.
    to_server: Option<Direction>,
    to_client: Option<Direction>,
    clocks: Clocks,
    client: MeasurementCost,
    server: MeasurementCost,
    /// CPU time of both sides per 10^9 bytes received.
    cpu_seconds_per_gb: Option<f64>,
    /// The text has no CPU time, which is that of all associations.
    #[serde(skip)]
    is_part: bool,
}

impl Summary {
    /// Returns the result, as seen by the client or the server.
    pub(super) fn new(
        request: &MeasurementRequest,
        outcome: &MeasurementOutcome,
        is_client: bool,
    ) -> Self {
        let (to_server, to_client, client, server) = if is_client {
            (
                outcome.delivered,
                outcome.received,
                outcome.own,
                outcome.peer,
            )
        } else {
            (
                outcome.received,
                outcome.delivered,
                outcome.peer,
                outcome.own,
            )
        };
        let [to_server, to_client] = [to_server, to_client].map(|r| r.map(Direction::from));
        Self {
            request: *request,
            to_server,
            to_client,
            clocks: outcome.clocks.into(),
            client,
            server,
            cpu_seconds_per_gb: cpu_seconds_per_gb([to_server, to_client], [&client, &server]),
            is_part: request.parallel > 1,
        }
    }

    pub(super) fn text(&self, label: &str) -> String {
        let directions = [self.to_server, self.to_client];
        let costs = [&self.client, &self.server];
        let mut lines = vec![directions_text(label, directions, costs)];
        for (name, direction) in ["server", "client"].iter().zip(directions) {
            if let Some(delay) = direction.and_then(|d| d.delay) {
                lines.push(format!("[{label}] delay to {name}: {}\n", delay.text()));
            }
        }
        lines.push(format!("[{label}] {}\n", self.clocks.text()));
        if !self.is_part {
            lines.push(cpu_text(label, costs, self.cpu_seconds_per_gb));
        }
        lines.concat()
    }
}

/// Results of several associations together.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct SummarySum {
    associations: usize,
    to_server: Option<Direction>,
    to_client: Option<Direction>,
    client: MeasurementCost,
    server: MeasurementCost,
    /// CPU time of both sides per 10^9 bytes received.
    cpu_seconds_per_gb: Option<f64>,
}

impl SummarySum {
    /// Returns the sum; `None` without results.
    pub(super) fn new(summaries: &[Summary]) -> Option<Self> {
        let direction = |direction: fn(&Summary) -> Option<Direction>| {
            let all = summaries.iter().filter_map(direction);
            all.reduce(Direction::with)
        };
        let cost = |cost: fn(&Summary) -> MeasurementCost| {
            let all = summaries.iter().map(cost);
            all.reduce(|a, b| a.with(&b))
        };
        let (to_server, to_client) = (direction(|s| s.to_server), direction(|s| s.to_client));
        let (client, server) = (cost(|s| s.client)?, cost(|s| s.server)?);
        Some(Self {
            associations: summaries.len(),
            to_server,
            to_client,
            client,
            server,
            cpu_seconds_per_gb: cpu_seconds_per_gb([to_server, to_client], [&client, &server]),
        })
    }

    pub(super) fn text(&self) -> String {
        let costs = [&self.client, &self.server];
        let lines = directions_text("SUM", [self.to_server, self.to_client], costs);
        lines + &cpu_text("SUM", costs, self.cpu_seconds_per_gb)
    }
}

fn cpu_seconds_per_gb(
    directions: [Option<Direction>; 2],
    costs: [&MeasurementCost; 2],
) -> Option<f64> {
    let bytes = directions.iter().flatten().map(|d| d.rate.bytes());
    let bytes = bytes.fold(0, u64::saturating_add);
    let seconds: f64 = costs.iter().map(|cost| cost.cpu()).sum();
    (bytes > 0).then(|| seconds * GB / bytes as f64)
}

/// Returns the lines about the directions to the server and to the client, with the costs of client and server.
fn directions_text(
    label: &str,
    directions: [Option<Direction>; 2],
    [client, server]: [&MeasurementCost; 2],
) -> String {
    let of_direction = [("server", client, server), ("client", server, client)];
    let mut lines = Vec::new();
    for (direction, (name, sender, receiver)) in directions.iter().zip(of_direction) {
        if let Some(direction) = direction {
            lines.push(format!(
                "[{label}] to {name}: {}, received in {:.2} s, longest interruption {:.1} ms, {} chunks retransmitted, {} dropped because the receive buffer was full\n",
                direction.rate.text(),
                direction.seconds,
            direction.longest_interruption * 1000.0,
                sender.retransmissions,
                receiver.dropped_for_buffer
            ));
        }
    }
    lines.concat()
}

fn cpu_text(label: &str, costs: [&MeasurementCost; 2], per_gb: Option<f64>) -> String {
    let mut lines = Vec::new();
    for (name, cost) in ["client", "server"].iter().zip(costs) {
        let is_shared = cost.cpu_shared && label != "SUM";
        let shared = if is_shared {
            "; other measurements included"
        } else {
            ""
        };
        lines.push(format!(
            "[{label}] {name}: {:.2} s CPU ({:.2} user, {:.2} system{shared})\n",
            cost.cpu(),
            cost.cpu_user,
            cost.cpu_system
        ));
    }
    if let Some(per_gb) = per_gb {
        lines.push(format!("[{label}] both: {per_gb:.2} s CPU per GB\n"));
    }
    lines.concat()
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Direction {
    seconds: f64,
    #[serde(flatten)]
    rate: Rate,
    /// Longest time without data between the first message and the last.
    longest_interruption: f64,
    /// One-way delays of the messages.
    delay: Option<DelaySummary>,
}

impl From<Reception> for Direction {
    fn from(reception: Reception) -> Self {
        Self {
            seconds: reception.seconds,
            rate: Rate::new(reception.amount, reception.seconds),
            longest_interruption: reception.longest_interruption,
            delay: reception.delay,
        }
    }
}

impl Direction {
    /// Returns the sum of two associations, with the longest interruption of one of them. Quantiles of delays do not add up.
    fn with(self, other: Self) -> Self {
        let seconds = self.seconds.max(other.seconds);
        Self {
            seconds,
            rate: self.rate.with(&other.rate, seconds),
            longest_interruption: self.longest_interruption.max(other.longest_interruption),
            delay: None,
        }
    }
}

/// Transfer of one side until a signal, or the end of the association, ended the measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct PartialResult {
    pub(super) seconds: f64,
    /// Messages accepted by the protocol.
    pub(super) sent: Option<Rate>,
    pub(super) received: Option<Rate>,
    /// Delays of the received messages.
    pub(super) delay: Option<DelaySummary>,
    pub(super) cost: MeasurementCost,
}

impl PartialResult {
    /// Returns the sum of two associations.
    pub(super) fn with(&self, other: &Self) -> Self {
        let seconds = self.seconds.max(other.seconds);
        let sum = |a: Option<Rate>, b: Option<Rate>| match (a, b) {
            (Some(a), Some(b)) => Some(a.with(&b, seconds)),
            (a, b) => a.or(b),
        };
        Self {
            seconds,
            sent: sum(self.sent, other.sent),
            received: sum(self.received, other.received),
            delay: None,
            cost: self.cost.with(&other.cost),
        }
    }

    pub(super) fn text(&self, label: &str) -> String {
        let seconds = self.seconds;
        let mut lines = Vec::new();
        if let Some(sent) = &self.sent {
            lines.push(format!(
                "[{label}] sent     {} in {seconds:.2} s, {} chunks retransmitted\n",
                sent.text(),
                self.cost.retransmissions
            ));
        }
        if let Some(received) = &self.received {
            lines.push(format!(
                "[{label}] received {} in {seconds:.2} s\n",
                received.text()
            ));
        }
        if let Some(delay) = &self.delay {
            lines.push(format!("[{label}] delay: {}\n", delay.text()));
        }
        let cost = &self.cost;
        lines.push(format!(
            "[{label}] {:.2} s CPU ({:.2} user, {:.2} system)\n",
            cost.cpu(),
            cost.cpu_user,
            cost.cpu_system
        ));
        lines.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::protocol::TransferAmount;
    use crate::perf::request::tests::request;
    use crate::perf::request::{Direction as RequestedDirection, TransferExtent};

    #[test]
    fn the_cpu_time_of_both_sides_counts() {
        let cost = MeasurementCost {
            cpu_user: 1.0,
            cpu_system: 0.5,
            ..MeasurementCost::default()
        };
        let reception = Reception {
            amount: TransferAmount {
                bytes: 1_000_000_000,
                messages: 1,
            },
            seconds: 2.0,
            longest_interruption: 0.0123,
            delay: None,
        };
        let summary = Summary {
            request: MeasurementRequest {
                version: 2,
                direction: RequestedDirection::ToServer,
                extent: TransferExtent::Bytes(1_000_000_000),
                size: 1_000_000_000,
                streams: 1,
                unordered: false,
                bitrate: 0,
                omit: 0,
                parallel: 1,
                group: 0,
            },
            to_server: Some(reception.into()),
            to_client: None,
            clocks: ClockOffset {
                offset: -2_000_000,
                round_trip: 1_000_000,
            }
            .into(),
            client: cost,
            server: cost,
            cpu_seconds_per_gb: Some(3.0),
            is_part: false,
        };
        let text = summary.text("7");
        assert!(
            text.contains("[7] to server:    1.00 GB    4.00 Gbit/s"),
            "{text}"
        );
        assert!(
            text.contains("longest interruption 12.3 ms, 0 chunks"),
            "{text}"
        );
        assert!(text.contains("[7] both: 3.00 s CPU per GB"), "{text}");
        assert!(!text.contains("to client"), "{text}");
        assert!(
            text.contains("the client: -2.000 ms ± 0.500 ms; smallest round trip 1.000 ms"),
            "{text}"
        );
        let sum = SummarySum::new(&[summary, summary]).unwrap().text();
        assert!(
            sum.contains("[SUM] to server:    2.00 GB    8.00 Gbit/s"),
            "{sum}"
        );
        // Both associations measure the CPU time of the same two processes.
        assert!(sum.contains("[SUM] client: 1.50 s CPU"), "{sum}");
        assert!(sum.contains("[SUM] both: 1.50 s CPU per GB"), "{sum}");
    }

    /// The sums do not overflow.
    #[test]
    fn impossible_results_of_a_peer_have_a_sum() {
        let most = MeasurementCost {
            retransmissions: u64::MAX,
            packets_sent: u64::MAX,
            ..MeasurementCost::default()
        };
        let reception = Reception {
            amount: TransferAmount {
                bytes: u64::MAX,
                messages: u64::MAX,
            },
            seconds: -1.0,
            longest_interruption: f64::MAX,
            delay: None,
        };
        let outcome = MeasurementOutcome {
            received: Some(reception),
            delivered: Some(reception),
            own: most,
            peer: most,
            clocks: ClockOffset {
                offset: i64::MIN,
                round_trip: u64::MAX,
            },
        };
        let summary = Summary::new(&request(), &outcome, true);
        // The CPU time is that of all associations, and has its place in the sum.
        let text = summary.text("1");
        assert!(text.contains("[1] to client"), "{text}");
        assert!(text.contains("[1] clock of the server"), "{text}");
        assert!(!text.contains("CPU"), "{text}");
        let sum = SummarySum::new(&[summary, summary]).unwrap();
        assert_eq!(sum.client.retransmissions, u64::MAX);
        assert!(sum.text().contains("[SUM] to server"));
    }
}
