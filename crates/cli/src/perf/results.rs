//! Results of measurements.

use serde::Serialize;

use super::clock::ClockOffset;
use super::delay::DelaySummary;
use super::flow::{Flow, FlowDirection};
use super::interval::Rate;
use super::protocol::{FlowMessages, FlowReception, MeasurementCost, Reception};
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

/// Messages of a flow that were received.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FlowAmount {
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) rate: Rate,
    /// Number of messages sent, or of requests, that were not received, or have no response.
    pub(super) lost: u64,
    /// Longest time without a message between the first one and the last.
    pub(super) longest_interruption: f64,
    /// One-way delays of data; times between requests and responses.
    pub(super) delay: Option<DelaySummary>,
    /// Quantiles of the delay, for the files of the client.
    #[serde(skip)]
    pub(super) distribution: Vec<f64>,
}

impl From<&FlowReception> for FlowAmount {
    fn from(reception: &FlowReception) -> Self {
        Self {
            seconds: reception.seconds,
            rate: Rate::new(reception.amount, reception.seconds),
            lost: reception.lost,
            longest_interruption: reception.longest_interruption,
            delay: reception.delay,
            distribution: reception.distribution.clone(),
        }
    }
}

impl FlowAmount {
    fn text(&self) -> String {
        format!(
            "{}, {} messages, {} lost, longest interruption {:.1} ms",
            self.rate.text(),
            self.rate.messages(),
            self.lost,
            self.longest_interruption * 1000.0
        )
    }
}

/// Result of a flow.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FlowResult {
    /// Number of the flow, from 1.
    pub(super) flow: u16,
    pub(super) direction: FlowDirection,
    /// Specification on the command line.
    #[serde(skip)]
    pub(super) spec: String,
    #[serde(flatten)]
    pub(super) data: Option<FlowAmount>,
    pub(super) responses: Option<FlowAmount>,
}

impl FlowResult {
    /// Returns the results of flows by the receptions of both sides.
    pub(super) fn all(flows: &[Flow], receptions: &[&FlowReception]) -> Vec<Self> {
        let result = |(number, flow): (u16, &Flow)| {
            let amount = |of| {
                let mut all = receptions.iter();
                let own = all.find(|own| own.flow == number && own.of == of);
                own.map(|own| FlowAmount::from(*own))
            };
            Self {
                flow: number,
                direction: flow.direction,
                spec: flow.spec.clone(),
                data: amount(FlowMessages::Data),
                responses: amount(FlowMessages::Responses),
            }
        };
        (1..).zip(flows).map(result).collect()
    }

    fn text(&self, label: &str) -> String {
        let mut lines = Vec::new();
        let (number, receiver) = (self.flow, self.direction.receiver());
        if let Some(data) = &self.data {
            lines.push(format!(
                "[{label}] flow {number} to {receiver}: {}\n",
                data.text()
            ));
            if let Some(delay) = &data.delay {
                lines.push(format!("[{label}] flow {number} delay: {}\n", delay.text()));
            }
        }
        if let Some(responses) = &self.responses {
            let text = responses.text();
            lines.push(format!("[{label}] flow {number} responses: {text}\n"));
            if let Some(time) = &responses.delay {
                lines.push(format!(
                    "[{label}] flow {number} response time: {}\n",
                    time.text()
                ));
            }
        }
        lines.concat()
    }
}

/// Result of a measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    request: MeasurementRequest,
    /// Data received by the server from the client.
    to_server: Option<Direction>,
    to_client: Option<Direction>,
    /// Results of each flow.
    pub(super) flows: Vec<FlowResult>,
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
                &outcome.delivered,
                &outcome.received,
                outcome.own,
                outcome.peer,
            )
        } else {
            (
                &outcome.received,
                &outcome.delivered,
                outcome.peer,
                outcome.own,
            )
        };
        let receptions = to_server.iter().chain(to_client);
        let receptions: Vec<_> = receptions.flat_map(|own| &own.flows).collect();
        let flows = FlowResult::all(&request.flows(), &receptions);
        // A side that receives responses only has a reception, too.
        let to_server = to_server.as_ref().filter(|_| request.client_sends());
        let to_client = to_client.as_ref().filter(|_| request.server_sends());
        let [to_server, to_client] = [to_server, to_client].map(|r| r.map(Direction::from));
        Self {
            request: request.clone(),
            to_server,
            to_client,
            flows,
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
        if !self.request.flows.is_empty() {
            lines.extend(self.flows.iter().map(|flow| flow.text(label)));
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

impl From<&Reception> for Direction {
    fn from(reception: &Reception) -> Self {
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
#[derive(Clone, Debug, Serialize)]
pub(super) struct PartialResult {
    pub(super) seconds: f64,
    /// Messages accepted by the protocol.
    pub(super) sent: Option<Rate>,
    pub(super) received: Option<Rate>,
    /// Delays of the received messages.
    pub(super) delay: Option<DelaySummary>,
    pub(super) cost: MeasurementCost,
    /// Data and responses of each flow that this side has received.
    pub(super) flows: Vec<FlowReception>,
    /// Data of each flow that this side has sent.
    pub(super) flows_sent: Vec<FlowSent>,
    /// Results of the flows, whose text is printed if they are those of `--flow`.
    #[serde(skip)]
    pub(super) flow_results: Vec<FlowResult>,
}

/// Data of a flow that the protocol has accepted.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FlowSent {
    /// Number of the flow, from 1.
    pub(super) flow: u16,
    #[serde(flatten)]
    pub(super) rate: Rate,
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
            flows: Vec::new(),
            flows_sent: Vec::new(),
            flow_results: Vec::new(),
        }
    }

    /// Returns the text; `with_flows` adds the lines of each flow.
    pub(super) fn text(&self, label: &str, with_flows: bool) -> String {
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
        let flows = self.flow_results.iter().filter(|_| with_flows);
        for flow in flows {
            let of_flow = |sent: &&FlowSent| sent.flow == flow.flow;
            if let Some(sent) = self.flows_sent.iter().find(of_flow) {
                lines.push(format!(
                    "[{label}] flow {} to {}: sent {}, {} messages\n",
                    flow.flow,
                    flow.direction.receiver(),
                    sent.rate.text(),
                    sent.rate.messages()
                ));
            }
            lines.push(flow.text(label));
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
    use crate::perf::request::Direction as RequestedDirection;
    use crate::perf::request::tests::{request, request_of};

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
            flows: Vec::new(),
        };
        let summary = Summary {
            request: MeasurementRequest {
                direction: RequestedDirection::ToServer,
                parallel: 1,
                ..request()
            },
            to_server: Some((&reception).into()),
            to_client: None,
            flows: Vec::new(),
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
        let sum = SummarySum::new(&[summary.clone(), summary]).unwrap().text();
        assert!(
            sum.contains("[SUM] to server:    2.00 GB    8.00 Gbit/s"),
            "{sum}"
        );
        // Both associations measure the CPU time of the same two processes.
        assert!(sum.contains("[SUM] client: 1.50 s CPU"), "{sum}");
        assert!(sum.contains("[SUM] both: 1.50 s CPU per GB"), "{sum}");
    }

    #[test]
    fn each_flow_has_its_data_and_responses() {
        let request = request_of(&["stream=1,respond=64", "reverse"]);
        let reception = |flow, of, messages| FlowReception {
            flow,
            of,
            amount: TransferAmount {
                bytes: 100 * messages,
                messages,
            },
            seconds: 1.0,
            lost: 7 - messages,
            longest_interruption: 0.25,
            delay: None,
            distribution: vec![],
        };
        let all = |flows: Vec<FlowReception>| {
            Some(Reception {
                amount: TransferAmount::default(),
                seconds: 1.0,
                longest_interruption: 0.0,
                delay: None,
                flows,
            })
        };
        let outcome = MeasurementOutcome {
            received: all(vec![
                reception(1, FlowMessages::Responses, 5),
                reception(2, FlowMessages::Data, 4),
            ]),
            delivered: all(vec![reception(1, FlowMessages::Data, 6)]),
            own: MeasurementCost::default(),
            peer: MeasurementCost::default(),
            clocks: ClockOffset {
                offset: 0,
                round_trip: 0,
            },
        };
        let text = Summary::new(&request, &outcome, true).text("1");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("flow")).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("[1] flow 1 to server:") && lines[0].contains(" 1 lost"));
        assert!(lines[1].starts_with("[1] flow 1 responses:") && lines[1].contains(" 2 lost"));
        assert!(
            lines[2].starts_with("[1] flow 2 to client:")
                && lines[2].contains("4 messages, 3 lost")
        );
    }

    /// The sums do not overflow.
    #[test]
    fn impossible_results_of_a_peer_have_a_sum() {
        let most = MeasurementCost {
            retransmissions: u64::MAX,
            packets_sent: u64::MAX,
            ..MeasurementCost::default()
        };
        let flow = |of, lost| FlowReception {
            flow: u16::MAX,
            of,
            amount: TransferAmount::default(),
            seconds: -1.0,
            lost,
            longest_interruption: f64::MAX,
            delay: None,
            distribution: vec![f64::MAX; 1000],
        };
        let reception = Reception {
            amount: TransferAmount {
                bytes: u64::MAX,
                messages: u64::MAX,
            },
            seconds: -1.0,
            longest_interruption: f64::MAX,
            delay: None,
            flows: vec![
                flow(FlowMessages::Data, u64::MAX),
                flow(FlowMessages::Data, 1),
            ],
        };
        let outcome = MeasurementOutcome {
            received: Some(reception.clone()),
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
        let sum = SummarySum::new(&[summary.clone(), summary]).unwrap();
        assert_eq!(sum.client.retransmissions, u64::MAX);
        assert!(sum.text().contains("[SUM] to server"));
    }
}
