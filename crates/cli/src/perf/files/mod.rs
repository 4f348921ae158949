//! Files of a measurement, which the client writes: intervals and delays as CSV, and the report.

mod csv;
mod figures;
mod page;
mod series;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::interval::Interval;
use super::request::MeasurementRequest;
use super::results::FlowResult;
use super::session::TransferRole;
use crate::failure::Failure;
use csv::{CsvFiles, delays_path};
use page::ReportPage;
pub(super) use page::host_text;
use series::MeasurementSeries;

/// Maximum length of the description of the server's host.
const MAX_HOST: usize = 200;

/// Options of the files.
#[derive(Debug, Clone, Args)]
pub(super) struct FileArguments {
    /// Write the statistics of each interval and flow, of both sides, to this file, and the quantiles of the delays to a
    /// second one: rates.csv has rates.delays.csv. Files that exist are replaced once the transfer has started.
    /// The server computes its own statistics, which costs CPU time for each flow and interval: with many flows, use a
    /// longer --interval.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a report to this file at the end: an HTML page with figures of rate, delay, paths and retransmissions.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl FileArguments {
    /// Returns the option that needs the statistics of both sides, if one is given.
    pub(super) fn needs_series(&self) -> Option<&'static str> {
        let csv = self.csv.as_ref().map(|_| "--csv");
        csv.or(self.report.as_ref().map(|_| "--report"))
    }

    /// Prepares the files of a measurement with intervals of this length; `None` without files.
    pub(super) fn prepare(&self, interval: Duration) -> Result<Option<Recording>, Failure> {
        if self.needs_series().is_none() {
            return Ok(None);
        }
        if let (Some(csv), Some(report)) = (&self.csv, &self.report)
            && [csv, &delays_path(csv)].contains(&report)
        {
            return Err(Failure::Usage(format!(
                "--csv and --report would both write {}: give another name",
                report.display()
            )));
        }
        let report = self.report.clone();
        let report = report.map(|path| ReportPage::new(path, interval.as_secs_f64()));
        Ok(Some(Recording {
            report: report.transpose()?,
            csv: self.csv.as_deref().map(CsvFiles::new).transpose()?,
            series: MeasurementSeries::default(),
        }))
    }
}

/// Side of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum MeasurementSide {
    Client,
    Server,
}

impl MeasurementSide {
    fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// Returns the role of the side.
    fn role(self, request: &MeasurementRequest) -> TransferRole {
        match self {
            Self::Client => request.client_role(),
            Self::Server => request.server_role(),
        }
    }
}

/// Writes the files.
#[derive(Debug)]
pub(super) struct Recording {
    csv: Option<CsvFiles>,
    report: Option<ReportPage>,
    series: MeasurementSeries,
}

impl Recording {
    /// Sets the addresses, and the description of the host, of the server.
    pub(super) fn server(&mut self, addresses: &[IpAddr], port: u16, host: &str) {
        if let Some(report) = &mut self.report {
            report.peer = format!("{} port {port}", crate::endpoint::list(addresses));
            report.server = host.chars().take(MAX_HOST).collect();
        }
    }

    /// Adds a remark about the measurement.
    pub(super) fn remark(&mut self, text: &str) {
        // All associations of a measurement have the same one.
        if let Some(report) = &mut self.report
            && !report.remarks.iter().any(|own| own == text)
        {
            report.remarks.push(text.to_owned());
        }
    }

    /// Adds an interval of one side of the association with this number, from 1.
    pub(super) fn interval(
        &mut self,
        (association, side): (u64, MeasurementSide),
        request: &MeasurementRequest,
        interval: &Interval,
    ) -> Result<(), Failure> {
        if let Some(report) = &mut self.report {
            report.seed = Some(request.seed);
            self.series.interval((association, side), request, interval);
        }
        if let Some(csv) = &mut self.csv {
            csv.interval((association, side), request, interval)?;
        }
        Ok(())
    }

    /// Adds the results of an association, with the text that the command prints.
    pub(super) fn results(
        &mut self,
        association: u64,
        flows: &[FlowResult],
        text: String,
    ) -> Result<(), Failure> {
        if let Some(report) = &mut self.report {
            report.results.push((association, flows.to_vec()));
            report.texts.push(text);
        }
        if let Some(csv) = &mut self.csv {
            csv.results(association, flows)?;
        }
        Ok(())
    }

    /// Writes what is written at the end: of a measurement that ended for this reason, if it was not complete.
    pub(super) fn finish(&mut self, reason: Option<&str>) -> Result<(), Failure> {
        self.report
            .as_ref()
            .map_or(Ok(()), |report| report.write(&self.series, reason))
    }
}
