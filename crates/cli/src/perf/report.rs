//! Output of a measurement: a line per interval, notifications and the result, as text or as JSON objects,
//! one per line.

use std::io::{Write, stdout};
use std::net::IpAddr;
use std::time::Duration;

use carrick::EventReport;
use serde::Serialize;

use super::clock::ClockOffset;
use super::delay::DelaySummary;
use super::interval::{Interval, Rate};
use super::protocol::{MeasurementCost, MeasurementRequest, Reception, TransferAmount};
use super::session::{MeasurementOutcome, TransferRole};
use crate::failure::Failure;
use crate::units::decimal_prefix;

/// Number of bytes in a GB.
const GB: f64 = 1e9;

/// Prints the output of one measurement; number 0 stands for output about all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reporter {
    pub(super) json: bool,
    /// Packets pass through the daemon.
    pub(super) through_daemon: bool,
    /// Length of the intervals; `None` if no intervals are reported.
    pub(super) intervals: Option<Duration>,
    /// Number of the measurement, from 1.
    pub(super) test: u64,
}

/// Returns the text about the time that is not counted; an empty one if everything is counted.
fn omit_text(request: &MeasurementRequest) -> String {
    if request.omit == 0 {
        return String::new();
    }
    format!("; the first {:?} are omitted", request.omit())
}

/// Returns the text about the rate of each sender; an empty one if it is unlimited.
fn rate_text(bitrate: u64) -> String {
    if bitrate == 0 {
        return String::new();
    }
    format!(" at {}bit/s", decimal_prefix(bitrate as f64))
}

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
struct Summary<'a> {
    request: &'a MeasurementRequest,
    /// Data received by the server from the client.
    to_server: Option<Direction>,
    to_client: Option<Direction>,
    clocks: Clocks,
    client: MeasurementCost,
    server: MeasurementCost,
    /// CPU time of both sides per 10^9 bytes received.
    cpu_seconds_per_gb: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Direction {
    seconds: f64,
    #[serde(flatten)]
    rate: Rate,
    /// One-way delays of the messages.
    delay: Option<DelaySummary>,
}

impl From<Reception> for Direction {
    fn from(reception: Reception) -> Self {
        Self {
            seconds: reception.seconds,
            rate: Rate::new(reception.amount, reception.seconds),
            delay: reception.delay,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Note<'a> {
    text: &'a str,
}

impl Reporter {
    /// Reports that the endpoint is listening.
    pub(super) fn listening(
        &self,
        addresses: &[IpAddr],
        port: u16,
        udp_port: Option<u16>,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Listening<'a> {
            addresses: &'a [IpAddr],
            port: u16,
            udp_port: Option<u16>,
            through_daemon: bool,
        }
        let listening = Listening {
            addresses,
            port,
            udp_port,
            through_daemon: self.through_daemon,
        };
        self.print("listening", &listening, || {
            let over = udp_port.map_or("IP".into(), |p| format!("UDP port {p}"));
            let addresses = crate::endpoint::list(addresses);
            format!("Listening on {addresses} port {port} over {over}\n")
        })
    }

    /// Reports the start of the measurement.
    pub(super) fn begin(
        &self,
        peers: &[IpAddr],
        port: u16,
        request: &MeasurementRequest,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Begin<'a> {
            peers: &'a [IpAddr],
            port: u16,
            through_daemon: bool,
            request: &'a MeasurementRequest,
        }
        let begin = Begin {
            peers,
            port,
            through_daemon: self.through_daemon,
            request,
        };
        self.print("begin", &begin, || {
            format!(
                "[{}] with {} port {port}: messages of {} bytes on {} stream{}{}\n",
                self.test,
                crate::endpoint::list(peers),
                request.size,
                request.streams,
                if request.streams == 1 { "" } else { "s" },
                rate_text(request.bitrate) + &omit_text(request)
            )
        })
    }

    /// Reports an interval.
    pub(super) fn interval(&self, interval: &Interval, role: TransferRole) -> Result<(), Failure> {
        self.print("interval", interval, || interval.text(self.test, role))
    }

    /// Reports an event of the association.
    pub(super) fn notification(&self, report: &EventReport) -> Result<(), Failure> {
        self.print("notification", report, || {
            format!("[{}] {report}\n", self.test)
        })
    }

    /// Reports a line about the association.
    pub(super) fn note(&self, text: &str) -> Result<(), Failure> {
        self.print("notification", &Note { text }, || {
            format!("[{}] {text}\n", self.test)
        })
    }

    /// Reports the result, as seen by the client or the server.
    pub(super) fn summary(
        &self,
        request: &MeasurementRequest,
        outcome: &MeasurementOutcome,
        client: bool,
    ) -> Result<(), Failure> {
        let (to_server, to_client, client, server) = if client {
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
        let bytes: u64 = [to_server, to_client]
            .iter()
            .flatten()
            .map(|r| r.amount.bytes)
            .sum();
        let summary = Summary {
            request,
            to_server: to_server.map(Direction::from),
            to_client: to_client.map(Direction::from),
            clocks: outcome.clocks.into(),
            client,
            server,
            cpu_seconds_per_gb: (bytes > 0)
                .then(|| (client.cpu() + server.cpu()) * GB / bytes as f64),
        };
        self.print("summary", &summary, || summary.text(self.test))
    }

    /// Reports what this side has transferred until a signal ended the measurement.
    pub(super) fn interrupted(
        &self,
        after: Duration,
        sent: TransferAmount,
        received: TransferAmount,
        role: TransferRole,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Interrupted {
            seconds: f64,
            /// Messages accepted by the protocol.
            sent: Option<Rate>,
            received: Option<Rate>,
        }
        let seconds = after.as_secs_f64();
        let interrupted = Interrupted {
            seconds,
            sent: role.sends.then(|| Rate::new(sent, seconds)),
            received: role.receives.then(|| Rate::new(received, seconds)),
        };
        self.print("interrupted", &interrupted, || {
            let directions = [
                ("sent    ", interrupted.sent),
                ("received", interrupted.received),
            ];
            let lines = directions.iter().filter_map(|(name, rate)| {
                let rate = rate.as_ref()?.text();
                Some(format!("[{}] {name} {rate} in {seconds:.2} s\n", self.test))
            });
            lines.collect()
        })
    }

    /// Reports that a measurement failed; the server continues.
    pub(super) fn failed(&self, failure: &str) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Failed<'a> {
            reason: &'a str,
        }
        self.print("failed", &Failed { reason: failure }, || {
            format!("[{}] failed: {failure}\n", self.test)
        })
    }

    fn print<T: Serialize>(
        &self,
        event: &'static str,
        what: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Line<'a, T> {
            event: &'static str,
            test: u64,
            #[serde(flatten)]
            what: &'a T,
        }
        let mut out = stdout().lock();
        if self.json {
            let line = Line {
                event,
                test: self.test,
                what,
            };
            let json = serde_json::to_string(&line)
                .map_err(|e| Failure::Run(format!("cannot write the result as JSON: {e}")))?;
            writeln!(out, "{json}")?;
        } else {
            out.write_all(text().as_bytes())?;
        }
        Ok(out.flush()?)
    }
}

impl Summary<'_> {
    fn text(&self, test: u64) -> String {
        let mut lines = Vec::new();
        for (name, direction, sender, receiver) in [
            ("to server", &self.to_server, &self.client, &self.server),
            ("to client", &self.to_client, &self.server, &self.client),
        ] {
            if let Some(direction) = direction {
                lines.push(format!(
                    "[{test}] {name}: {}, received in {:.2} s, {} chunks retransmitted, {} dropped because the receive buffer was full\n",
                    direction.rate.text(),
                    direction.seconds,
                    sender.retransmissions,
                    receiver.dropped_for_buffer
                ));
            }
        }
        let directions = [("server", &self.to_server), ("client", &self.to_client)];
        for (name, direction) in directions {
            if let Some(delay) = direction.as_ref().and_then(|d| d.delay) {
                lines.push(format!("[{test}] delay to {name}: {}\n", delay.text()));
            }
        }
        lines.push(format!("[{test}] {}\n", self.clocks.text()));
        for (name, cost) in [("client", &self.client), ("server", &self.server)] {
            let shared = if cost.cpu_shared {
                "; other measurements included"
            } else {
                ""
            };
            lines.push(format!(
                "[{test}] {name}: {:.2} s CPU ({:.2} user, {:.2} system{shared})\n",
                cost.cpu(),
                cost.cpu_user,
                cost.cpu_system
            ));
        }
        if let Some(per_gb) = self.cpu_seconds_per_gb {
            lines.push(format!("[{test}] both: {per_gb:.2} s CPU per GB\n"));
        }
        lines.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            delay: None,
        };
        let summary = Summary {
            request: &MeasurementRequest {
                version: 2,
                direction: super::super::protocol::Direction::ToServer,
                extent: super::super::protocol::TransferExtent::Bytes(1_000_000_000),
                size: 1_000_000_000,
                streams: 1,
                unordered: false,
                bitrate: 0,
                omit: 0,
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
        };
        let text = summary.text(7);
        assert!(
            text.contains("[7] to server:    1.00 GB    4.00 Gbit/s"),
            "{text}"
        );
        assert!(text.contains("[7] both: 3.00 s CPU per GB"), "{text}");
        assert!(!text.contains("to client"), "{text}");
        assert!(
            text.contains("the client: -2.000 ms ± 0.500 ms; smallest round trip 1.000 ms"),
            "{text}"
        );
    }
}
