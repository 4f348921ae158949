//! Files of a measurement, which the client writes: intervals and delays as CSV.

mod csv;

use std::path::PathBuf;

use clap::Args;

use super::interval::Interval;
use super::request::MeasurementRequest;
use super::results::FlowResult;
use super::session::TransferRole;
use crate::failure::Failure;
use csv::CsvFiles;

/// Options of the files.
#[derive(Debug, Clone, Args)]
pub(super) struct FileArguments {
    /// Write the statistics of each interval and flow, of both sides, to this file, and the quantiles of the delays to a
    /// second one: FILE.csv and FILE.delays.csv.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

impl FileArguments {
    /// Returns whether the statistics of both sides are needed.
    pub(super) fn need_series(&self) -> bool {
        self.csv.is_some()
    }

    /// Opens the files; `None` without files.
    pub(super) fn open(&self) -> Result<Option<Recording>, Failure> {
        if !self.need_series() {
            return Ok(None);
        }
        let csv = self.csv.as_deref().map(CsvFiles::create).transpose()?;
        Ok(Some(Recording { csv }))
    }
}

/// Side of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
}

impl Recording {
    /// Adds an interval of one side of the association with this number, from 1.
    pub(super) fn interval(
        &mut self,
        (association, side): (u64, MeasurementSide),
        request: &MeasurementRequest,
        interval: &Interval,
    ) -> Result<(), Failure> {
        if let Some(csv) = &mut self.csv {
            csv.interval((association, side), request, interval)?;
        }
        Ok(())
    }

    /// Adds the results of an association.
    pub(super) fn results(
        &mut self,
        association: u64,
        flows: &[FlowResult],
    ) -> Result<(), Failure> {
        if let Some(csv) = &mut self.csv {
            csv.results(association, flows)?;
        }
        Ok(())
    }
}
