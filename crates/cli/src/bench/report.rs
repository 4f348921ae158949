//! Results: medians and ratios, as Markdown tables or JSON.

use std::fmt::Write;
use std::fs::read_to_string;
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::programs::{Directory, KNOWN, Program};
use super::rows::{Column, ROWS, Row};
use crate::failure::Failure;

/// Results of a run, and where it took place.
pub(super) struct Report {
    rounds: u32,
    time: Duration,
    directory: String,
    peers: Vec<PeerInfo>,
    machine: Machine,
    pub(super) rows: Vec<RowResult>,
}

/// Peer program that was found.
#[derive(Serialize)]
struct PeerInfo {
    name: String,
    about: Option<String>,
    rows: Vec<&'static str>,
}

/// Machine and time of a run.
#[derive(Serialize)]
struct Machine {
    date: String,
    processor: String,
    cores: usize,
    kernel: String,
    /// Mean number of runnable threads of the minute before the run.
    load_before: Option<f64>,
    /// Optimised build of this program.
    optimised: bool,
}

/// Results of the programs of a row.
pub(super) struct RowResult {
    row: &'static Row,
    pub(super) programs: Vec<ProgramResult>,
    /// Reason why the row was not measured.
    pub(super) skipped: Option<String>,
}

/// Values of a program: of each round, those of all columns.
pub(super) struct ProgramResult {
    name: String,
    pub(super) values: Vec<Vec<f64>>,
    /// Reason why the program has no result.
    pub(super) failed: Option<String>,
}

/// Values of a program in a column over all rounds.
#[derive(Serialize)]
struct Summary {
    median: f64,
    minimum: f64,
    maximum: f64,
    /// Median of the ratios to the first program of the row within a round.
    ratio: Option<f64>,
    values: Vec<f64>,
}

impl Machine {
    fn this() -> Self {
        let text = |path| read_to_string(path).unwrap_or_default();
        let cpu = text("/proc/cpuinfo");
        let model = cpu.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':'));
        Self {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            processor: model
                .map_or("unknown processor", |(_, name)| name.trim())
                .into(),
            cores: available_parallelism().map_or(1, usize::from),
            kernel: text("/proc/sys/kernel/osrelease").trim().into(),
            load_before: load(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

fn load() -> Option<f64> {
    let text = read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

impl Report {
    pub(super) fn new(
        rounds: u32,
        time: Duration,
        directory: &Directory,
        peers: &[Program],
    ) -> Self {
        let peers = peers.iter().map(|peer| {
            let rows = ROWS.iter().filter(|row| row.includes(peer));
            PeerInfo {
                name: peer.name.clone(),
                about: peer.about.clone(),
                rows: rows.map(|row| row.name).collect(),
            }
        });
        // Below the working directory, the path is the same on every machine.
        let here = std::env::current_dir().unwrap_or_default();
        let path = directory.path.strip_prefix(here).unwrap_or(&directory.path);
        Self {
            rounds,
            time,
            directory: path.display().to_string(),
            peers: peers.collect(),
            machine: Machine::this(),
            rows: Vec::new(),
        }
    }

    /// Returns the stacks with a peer program in the repository that is not in the directory, with their origins.
    fn missing(&self) -> Vec<(&'static str, &'static str)> {
        let is_found = |name: &str| self.peers.iter().any(|peer| peer.name == name);
        let known = KNOWN.iter().copied();
        known.filter(|(name, _)| !is_found(name)).collect()
    }

    /// Describes machine, programs and origins.
    pub(super) fn heading(&self) -> String {
        let machine = &self.machine;
        let mut text = format!(
            "Carrick {}{}, {}, {} cores, Linux {}, {}, load before {}; {} rounds of {:?}.\n",
            env!("CARGO_PKG_VERSION"),
            if machine.optimised {
                ""
            } else {
                " (not optimised: these figures have no meaning)"
            },
            machine.processor,
            machine.cores,
            machine.kernel,
            machine.date,
            machine
                .load_before
                .map_or("unknown".into(), |load| format!("{load:.1}")),
            self.rounds,
            self.time,
        );
        self.write_peers(&mut text);
        text
    }

    fn write_peers(&self, text: &mut String) {
        // Writing to a string does not fail.
        let mut found = self.peers.iter().map(|peer| {
            let about = peer.about.as_deref().unwrap_or("no description");
            format!("{} ({about})", peer.name)
        });
        if self.peers.is_empty() {
            let _ = writeln!(text, "No peer programs in {}.", self.directory);
        } else {
            let found: Vec<String> = found.by_ref().collect();
            let _ = writeln!(
                text,
                "Peer programs in {}: {}.",
                self.directory,
                found.join(", ")
            );
        }
        let missing = self.missing();
        if !missing.is_empty() {
            let missing: Vec<String> = missing
                .iter()
                .map(|(name, origin)| format!("{name} ({origin})"))
                .collect();
            let _ = writeln!(
                text,
                "Not found, built by interop/peers/build.sh: {}.",
                missing.join(", ")
            );
        }
    }

    /// Lists rows and programs.
    pub(super) fn list_text(&self, rows: &[&'static Row]) -> String {
        let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for row in rows {
            let mut programs: Vec<&str> = row.own().to_vec();
            let peers = self
                .peers
                .iter()
                .filter(|peer| peer.rows.contains(&row.name));
            programs.extend(peers.map(|peer| peer.name.as_str()));
            let _ = writeln!(text, "{:width$}  {}", row.name, row.about);
            let _ = writeln!(text, "{:width$}  programs: {}", "", programs.join(", "));
        }
        self.write_peers(&mut text);
        text
    }

    fn head(&self) -> Map<String, Value> {
        let missing = self.missing().into_iter();
        let missing: Map<String, Value> = missing
            .map(|(name, origin)| (name.to_owned(), origin.into()))
            .collect();
        let mut head = Map::new();
        head.insert("carrick".into(), env!("CARGO_PKG_VERSION").into());
        head.insert("peers".into(), json!(self.peers));
        head.insert("peers_directory".into(), self.directory.as_str().into());
        head.insert("peers_not_found".into(), missing.into());
        head
    }

    /// Returns the list as JSON.
    pub(super) fn list_json(&self, rows: &[&'static Row]) -> Result<String, Failure> {
        let rows = rows.iter().map(|row| {
            let columns: Vec<&str> = row.columns.iter().map(|column| column.key).collect();
            json!({ "name": row.name, "about": row.about, "columns": columns, "programs": row.own() })
        });
        let mut list = self.head();
        list.insert("rows".into(), rows.collect());
        to_text(&list.into())
    }

    /// Returns all results as JSON.
    pub(super) fn json(&self) -> Result<String, Failure> {
        let mut document = self.head();
        document.insert("machine".into(), json!(self.machine));
        document.insert("load_after".into(), json!(load()));
        document.insert("rounds".into(), self.rounds.into());
        document.insert("seconds".into(), self.time.as_secs_f64().into());
        let rows = self.rows.iter().map(RowResult::json);
        document.insert("rows".into(), rows.collect());
        to_text(&document.into())
    }

    /// Returns the programs without a result.
    pub(super) fn failed(&self) -> Vec<String> {
        let failed = self.rows.iter().flat_map(|result| {
            let programs = result.programs.iter();
            programs
                .filter(|program| program.failed.is_some())
                .map(|program| format!("{} of {}", program.name, result.row.name))
        });
        failed.collect()
    }
}

fn to_text(document: &Value) -> Result<String, Failure> {
    serde_json::to_string_pretty(document)
        .map(|text| text + "\n")
        .map_err(|e| Failure::Run(format!("cannot write the result as JSON: {e}")))
}

impl RowResult {
    pub(super) fn new(row: &'static Row, programs: &[Program]) -> Self {
        let programs = programs.iter().map(|program| ProgramResult {
            name: program.name.clone(),
            values: Vec::new(),
            failed: None,
        });
        Self {
            row,
            programs: programs.collect(),
            skipped: None,
        }
    }

    /// Returns the summary of a program in a column; none without values.
    fn summary(&self, program: &ProgramResult, column: usize) -> Option<Summary> {
        let values: Vec<f64> = program
            .values
            .iter()
            .map(|of_round| of_round[column])
            .collect();
        let first = &self.programs[0].values;
        // A program that failed has no values at all, so that those of a round have the same position.
        let ratios = values
            .iter()
            .zip(first)
            .map(|(value, first)| value / first[column]);
        Some(Summary {
            median: median(values.iter().copied())?,
            minimum: values.iter().copied().reduce(f64::min)?,
            maximum: values.iter().copied().reduce(f64::max)?,
            ratio: median(ratios),
            values,
        })
    }

    /// Returns a Markdown table with a heading.
    pub(super) fn text(&self) -> String {
        let mut text = format!("\n### {}\n\n{}", self.row.name, capitalised(self.row.about));
        if let Some(reason) = &self.skipped {
            let _ = writeln!(text, ": not measured, {reason}.");
            return text;
        }
        text.push_str(".\n\n");
        let mut head = vec![String::new()];
        let first = self.row.own()[0];
        let first = match first {
            "carrick" => "Carrick",
            point => point,
        };
        for Column { title, .. } in self.row.columns {
            head.extend([(*title).into(), "range".into(), format!("to {first}")]);
        }
        let mut lines = vec![head];
        for program in &self.programs {
            let mut line = vec![program.name.clone()];
            for column in 0..self.row.columns.len() {
                match self.summary(program, column) {
                    Some(summary) => line.extend([
                        digits(summary.median),
                        format!("{} to {}", digits(summary.minimum), digits(summary.maximum)),
                        summary
                            .ratio
                            .map(|ratio| format!("{ratio:.2}"))
                            .unwrap_or_default(),
                    ]),
                    None => line.extend(["failed".into(), String::new(), String::new()]),
                }
            }
            lines.push(line);
        }
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|at| {
                lines
                    .iter()
                    .map(|line| line[at].len())
                    .max()
                    .unwrap_or(0)
                    .max(3)
            })
            .collect();
        lines.insert(1, widths.iter().map(|width| "-".repeat(*width)).collect());
        for line in lines {
            for (cell, width) in line.iter().zip(&widths) {
                let _ = write!(text, "| {cell:width$} ");
            }
            text.push_str("|\n");
        }
        text
    }

    fn json(&self) -> Value {
        let programs = self.programs.iter().map(|program| {
            let mut object = Map::new();
            object.insert("name".into(), program.name.as_str().into());
            if let Some(reason) = &program.failed {
                object.insert("failed".into(), reason.as_str().into());
            }
            for (at, column) in self.row.columns.iter().enumerate() {
                object.insert(column.key.into(), json!(self.summary(program, at)));
            }
            Value::from(object)
        });
        json!({
            "name": self.row.name,
            "about": self.row.about,
            "not_measured": self.skipped,
            "programs": programs.collect::<Value>(),
        })
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

/// Formats a value with three significant digits, or all before the decimal point.
fn digits(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Returns the median: of an even number of values, the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], upper)
    } else {
        upper
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, values: &[f64]) -> ProgramResult {
        ProgramResult {
            name: name.into(),
            values: values.iter().map(|value| vec![*value, 1.0]).collect(),
            failed: values.is_empty().then(|| "no answer".into()),
        }
    }

    #[test]
    fn the_ratio_is_the_median_of_those_within_a_round() {
        let result = RowResult {
            row: &ROWS[0],
            programs: vec![
                program("carrick", &[1.0, 4.0, 2.0]),
                program("other", &[3.0, 4.0, 8.0]),
                program("broken", &[]),
            ],
            skipped: None,
        };
        let other = result.summary(&result.programs[1], 0).unwrap();
        // Medians 2 and 4 would give 2.
        assert_eq!(other.ratio, Some(3.0));
        assert_eq!(
            (other.median, other.minimum, other.maximum),
            (4.0, 3.0, 8.0)
        );
        let text = result.text();
        assert!(
            text.contains("| other   | 4.00     | 3.00 to 8.00 | 3.00 "),
            "{text}"
        );
        assert!(text.contains("| broken  | failed"), "{text}");
        assert_eq!(result.json()["programs"][2]["failed"], "no answer");
    }

    #[test]
    fn medians() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([3.0, 1.0].into_iter()), Some(2.0));
        assert_eq!(median([3.0, 1.0, 9.0].into_iter()), Some(3.0));
        assert_eq!(
            (digits(123.4), digits(0.1234)),
            ("123".into(), "0.123".into())
        );
    }
}
