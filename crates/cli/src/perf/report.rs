//! Output of a measurement: a line per interval, notifications and the result, as text or as JSON objects,
//! one per line.

use std::io::{Write, stdout};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carrick::{EventReport, Extensions, PeerText};
use serde::Serialize;

use super::files::{MeasurementSide, Recording};
use super::interval::{Interval, IntervalSum, SumInterval};
use super::request::MeasurementRequest;
use super::results::{PartialResult, Summary, SummarySum};
use super::session::TransferRole;
use crate::failure::Failure;
use crate::units::decimal_prefix;

/// Prints the output of one measurement; number 0 stands for output about all of them.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    pub(super) json: bool,
    /// Packets pass through the daemon.
    pub(super) through_daemon: bool,
    /// Length of the intervals; `None` if no intervals are reported.
    pub(super) intervals: Option<Duration>,
    /// Number of the measurement, from 1.
    pub(super) test: u64,
    /// Sums of the intervals of several associations.
    pub(super) sum: Option<Arc<Mutex<IntervalSum>>>,
    /// Files of a client.
    pub(super) files: Option<Arc<Mutex<Recording>>>,
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

    /// Reports the start of the measurement with the extensions in force.
    pub(super) fn begin(
        &self,
        peers: &[IpAddr],
        port: u16,
        extensions: Extensions,
        request: &MeasurementRequest,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Begin<'a> {
            peers: &'a [IpAddr],
            port: u16,
            through_daemon: bool,
            /// Both sides offer partial reliability; without it, all flows are reliable.
            partial_reliability: bool,
            request: &'a MeasurementRequest,
        }
        let partial_reliability = extensions.partial_reliability;
        let begin = Begin {
            peers,
            port,
            through_daemon: self.through_daemon,
            partial_reliability,
            request,
        };
        if !request.flows.is_empty() {
            let remark = if partial_reliability {
                None
            } else {
                request.unconditional_reliability()
            };
            if let Some(remark) = &remark {
                self.record(|files| {
                    files.remark(remark);
                    Ok(())
                })?;
            }
            return self.print("begin", &begin, || {
                let remark = remark.map(|remark| format!("[{}] {remark}\n", self.test));
                self.flows_text(peers, port, request) + &remark.unwrap_or_default()
            });
        }
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

    /// Returns the text of the start of a measurement of flows.
    fn flows_text(&self, peers: &[IpAddr], port: u16, request: &MeasurementRequest) -> String {
        let test = self.test;
        let mut lines = vec![format!(
            "[{test}] with {} port {port}: {} flow{}, seed {}{}\n",
            crate::endpoint::list(peers),
            request.flows.len(),
            if request.flows.len() == 1 { "" } else { "s" },
            request.seed,
            omit_text(request)
        )];
        for (number, flow) in (1..).zip(&request.flows) {
            // A server shows the text of its client.
            let spec = PeerText::new(&flow.spec);
            let receiver = flow.direction.receiver();
            lines.push(format!("[{test}] flow {number} to {receiver}: {spec}\n"));
        }
        lines.concat()
    }

    /// Records an interval of the peer.
    pub(super) fn peer_interval(
        &self,
        interval: &Interval,
        request: &MeasurementRequest,
    ) -> Result<(), Failure> {
        self.record(|files| files.interval((self.test, MeasurementSide::Server), request, interval))
    }

    /// Records the server of a measurement.
    pub(super) fn server(
        &self,
        addresses: &[IpAddr],
        port: u16,
        host: &str,
    ) -> Result<(), Failure> {
        self.record(|files| {
            files.server(addresses, port, host);
            Ok(())
        })
    }

    /// Writes the files that are written at the end.
    pub(super) fn finish_files(&self, done: &Result<(), Failure>) -> Result<(), Failure> {
        let reason = match done {
            Ok(()) => None,
            Err(Failure::Run(reason) | Failure::Usage(reason)) => Some(reason.as_str()),
            Err(_) => Some("the command ended early"),
        };
        self.record(|files| files.finish(reason))
    }

    /// Adds to the files of a client that writes files.
    fn record(
        &self,
        add: impl FnOnce(&mut Recording) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.files.as_ref().map_or(Ok(()), |files| {
            // No code panics while it has the lock.
            add(&mut files.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }

    /// Reports an interval, and the sums of several associations that are complete with it.
    pub(super) fn interval(
        &self,
        interval: &Interval,
        role: TransferRole,
        request: &MeasurementRequest,
    ) -> Result<(), Failure> {
        self.record(|files| {
            files.interval((self.test, MeasurementSide::Client), request, interval)
        })?;
        if self.intervals.is_some() {
            self.print("interval", interval, || interval.text(self.test, role))?;
        }
        let Some(sum) = &self.sum else {
            return Ok(());
        };
        // No code panics while it has the lock.
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        let sums = sum.add(self.test, interval.clone());
        sums.iter().try_for_each(|sum| self.sum_interval(sum, role))
    }

    /// Reports the sum of intervals that is not complete at the end.
    pub(super) fn last_sum_interval(&self, role: TransferRole) -> Result<(), Failure> {
        let Some(sum) = &self.sum else {
            return Ok(());
        };
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.take()
            .map_or(Ok(()), |sum| self.sum_interval(&sum, role))
    }

    fn sum_interval(&self, sum: &SumInterval, role: TransferRole) -> Result<(), Failure> {
        self.of_all().print("interval_sum", sum, || sum.text(role))
    }

    /// Returns the reporter of all associations together.
    pub(super) fn of_all(&self) -> Self {
        Self {
            test: 0,
            ..self.clone()
        }
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

    /// Reports the result.
    pub(super) fn summary(&self, summary: &Summary) -> Result<(), Failure> {
        let label = self.test.to_string();
        self.record(|files| files.results(self.test, &summary.flows, summary.text(&label)))?;
        self.print("summary", summary, || summary.text(&label))
    }

    /// Reports what this side has transferred until a signal, or the end of the association, ended the measurement.
    pub(super) fn interrupted(
        &self,
        partial: &PartialResult,
        request: &MeasurementRequest,
    ) -> Result<(), Failure> {
        let label = self.test.to_string();
        let text = partial.text(&label, !request.flows.is_empty());
        self.record(|files| files.results(self.test, &partial.flow_results, text.clone()))?;
        self.print("interrupted", partial, || text)
    }

    /// Reports the results of several associations together.
    pub(super) fn sum(&self, sum: &SummarySum) -> Result<(), Failure> {
        self.print("sum", sum, || sum.text())
    }

    /// Reports what several associations have transferred until a signal.
    pub(super) fn interrupted_sum(&self, partial: &PartialResult) -> Result<(), Failure> {
        self.print("interrupted_sum", partial, || partial.text("SUM", false))
    }

    /// Reports that a measurement failed. A server continues.
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
