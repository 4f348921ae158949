//! Intervals and delays as CSV.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use carrick_figures::csv::record;

use super::MeasurementSide;
use crate::failure::Failure;
use crate::files;
use crate::perf::delay::{DelaySummary, quantile_levels};
use crate::perf::interval::{FlowInterval, Interval};
use crate::perf::request::MeasurementRequest;
use crate::perf::results::FlowResult;

/// Columns of the intervals.
const COLUMNS: [&str; 30] = [
    "association",
    "flow",
    "direction",
    "side",
    "role",
    "start_s",
    "end_s",
    "omitted",
    "messages",
    "bytes",
    "bits_per_second",
    "delay_min_s",
    "delay_mean_s",
    "delay_p50_s",
    "delay_p90_s",
    "delay_p99_s",
    "delay_max_s",
    "responses",
    "response_time_min_s",
    "response_time_mean_s",
    "response_time_p50_s",
    "response_time_p90_s",
    "response_time_p99_s",
    "response_time_max_s",
    "retransmissions",
    "cwnd_bytes",
    "srtt_s",
    "path",
    "path_changes",
    "seed",
];

/// Columns of the delays.
const DELAY_COLUMNS: [&str; 6] = [
    "association",
    "flow",
    "direction",
    "measure",
    "quantile",
    "seconds",
];

/// File with its path, for errors. It is created with its first records, so that a measurement that does not start
/// leaves an earlier file as it is.
#[derive(Debug)]
struct CsvFile {
    path: PathBuf,
    columns: &'static [&'static str],
    file: Option<File>,
}

impl CsvFile {
    /// Prepares the file. An error names what would prevent it later.
    fn new(path: &Path, columns: &'static [&'static str]) -> Result<Self, Failure> {
        files::check_appended(path)
            .map_err(|error| Failure::Run(format!("--csv: {} {error}", path.display())))?;
        Ok(Self {
            path: path.to_owned(),
            columns,
            file: None,
        })
    }

    /// Writes records, which are in the file at once.
    fn write(&mut self, records: impl FnOnce(&mut String)) -> Result<(), Failure> {
        let path = &self.path;
        let cannot_write = |error: io::Error| {
            Failure::Run(format!("--csv: cannot write {}: {error}", path.display()))
        };
        let mut out = String::new();
        let mut file = if let Some(file) = self.file.take() {
            file
        } else {
            record(&mut out, self.columns);
            File::create(path).map_err(cannot_write)?
        };
        records(&mut out);
        file.write_all(out.as_bytes()).map_err(cannot_write)?;
        self.file = Some(file);
        Ok(())
    }
}

/// Returns the path of the second file.
pub(super) fn delays_path(path: &Path) -> PathBuf {
    path.with_extension("delays.csv")
}

/// Both files.
#[derive(Debug)]
pub(super) struct CsvFiles {
    intervals: CsvFile,
    delays: CsvFile,
}

impl CsvFiles {
    /// Prepares the files; those that exist are replaced when the measurement has started.
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        Ok(Self {
            intervals: CsvFile::new(path, &COLUMNS)?,
            delays: CsvFile::new(&delays_path(path), &DELAY_COLUMNS)?,
        })
    }

    /// Adds a row for each flow.
    pub(super) fn interval(
        &mut self,
        (association, side): (u64, MeasurementSide),
        request: &MeasurementRequest,
        interval: &Interval,
    ) -> Result<(), Failure> {
        let flows = request.flows();
        self.intervals.write(|out| {
            for (index, flow) in interval.flows.iter().enumerate() {
                // A server reports the flows of the request.
                let Some(requested) = flows.get(index) else {
                    return;
                };
                let is_receiver = requested.direction == side.role(request).inbound;
                let first = [
                    association.to_string(),
                    (index + 1).to_string(),
                    format!("to_{}", requested.direction.receiver()),
                    side.name().to_owned(),
                    if is_receiver { "receiver" } else { "sender" }.to_owned(),
                ];
                let rest = values(interval, flow, is_receiver);
                record(
                    out,
                    first
                        .into_iter()
                        .chain(rest)
                        .chain([request.seed.to_string()]),
                );
            }
        })
    }

    /// Adds the quantiles of each flow and of its responses.
    pub(super) fn results(
        &mut self,
        association: u64,
        flows: &[FlowResult],
    ) -> Result<(), Failure> {
        // A measurement without data has no intervals.
        self.intervals.write(|_| ())?;
        self.delays.write(|out| {
            for flow in flows {
                let measures = [("delay", &flow.data), ("response_time", &flow.responses)];
                for (measure, amount) in measures {
                    let distribution = amount.iter().flat_map(|own| &own.distribution);
                    for (level, seconds) in quantile_levels().zip(distribution) {
                        let fields = [
                            association.to_string(),
                            flow.flow.to_string(),
                            format!("to_{}", flow.direction.receiver()),
                            measure.to_owned(),
                            // Sums of steps are not exact.
                            format!("{level:.4}"),
                            seconds.to_string(),
                        ];
                        record(out, fields);
                    }
                }
            }
        })
    }
}

/// Returns the columns from the start of the interval to the changes of paths.
fn values(interval: &Interval, flow: &FlowInterval, is_receiver: bool) -> Vec<String> {
    let amount = if is_receiver {
        flow.received
    } else {
        flow.sent
    };
    let seconds = interval.end - interval.start;
    let rate = if seconds > 0.0 {
        amount.bytes as f64 * 8.0 / seconds
    } else {
        0.0
    };
    let mut fields = vec![
        format!("{:.6}", interval.start),
        format!("{:.6}", interval.end),
        interval.omitted.to_string(),
        amount.messages.to_string(),
        amount.bytes.to_string(),
        format!("{rate:.0}"),
    ];
    fields.extend(quantiles(flow.delay.as_ref()));
    fields.push(flow.responses.messages.to_string());
    fields.extend(quantiles(flow.response_time.as_ref()));
    let optional = |value: Option<String>| value.unwrap_or_default();
    fields.extend([
        interval.retransmissions.to_string(),
        interval.cwnd.to_string(),
        optional(interval.srtt.map(|srtt| srtt.to_string())),
        optional(interval.path.map(|path| path.to_string())),
        interval.path_changes.to_string(),
    ]);
    fields
}

/// Returns minimum, mean, median, 90 % and 99 % quantile and maximum; empty ones without delays.
fn quantiles(delay: Option<&DelaySummary>) -> [String; 6] {
    delay.map_or_else(Default::default, |own| {
        let all = [own.min, own.mean, own.p50, own.p90, own.p99, own.max];
        all.map(|seconds| format!("{seconds:.9}"))
    })
}
