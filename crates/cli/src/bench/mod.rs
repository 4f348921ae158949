//! `carrick bench`: measures Carrick beside the kernel's TCP, bare UDP and other stacks.
//!
//! - `rows`: the table of measurements
//! - `measure`: the functions that measure
//! - `programs`: the programs that are measured, and the search for peer programs
//! - `process`: child processes with their CPU time
//! - `report`: medians, ratios and the output
//! - `end`: the measured programs of this executable; hidden subcommand `bench-end`
//!
//! A measured program is a child process, so that its CPU time is that of the system. All programs have the command
//! line of `interop/peers/README.md`.

pub(crate) mod end;
mod measure;
mod process;
mod programs;
mod report;
mod rows;

use std::collections::BTreeSet;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::progress::bar;
use crate::{runtime, units};
use process::Processes;
use programs::Program;
use report::{Report, RowResult};
use rows::Row;

/// Interval at which programs over their time limit are looked for.
const LIMIT_CHECK: Duration = Duration::from_millis(200);
/// The same while all programs end.
const END_CHECK: Duration = Duration::from_millis(10);

/// Compare Carrick with the kernel's TCP, bare UDP and other stacks on this machine.
///
/// Each row measures Carrick and every other program that is able to do it, all of them once a round and in
/// alternating order, over loopback, in memory or in virtual time. The results are medians over the rounds with their
/// ranges; a ratio is the median of the ratios to Carrick within a round, which other load on the machine changes
/// less. CPU time is that of both ends. Other stacks are programs in a directory, which interop/peers/build.sh builds.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Rows to measure, as --list prints them [default: all].
    #[arg(value_name = "ROW")]
    rows: Vec<String>,
    /// Number of rounds.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Duration of a measurement; a number without a unit is in s.
    #[arg(short = 't', long, value_name = "TIME", value_parser = time, default_value = "3s")]
    time: Duration,
    /// Directory of the programs of other stacks [default: `peers` beside the executable's directory].
    #[arg(long, value_name = "DIRECTORY")]
    peers: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// List rows and programs instead of measuring.
    #[arg(long)]
    list: bool,
    /// Measure Carrick in memory over one parameter at a time: the rows are curves, the ratios refer to their first
    /// point.
    #[arg(long)]
    curves: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    match units::seconds(text)? {
        time if time < Duration::from_millis(1) => Err("must be at least 1 ms".into()),
        // Servers print a line a second, which waits in a pipe.
        time if time > Duration::from_secs(30) => Err("must be at most 30 s".into()),
        time => Ok(time),
    }
}

/// Settings of a run that every measurement needs.
struct Bench {
    processes: Arc<Processes>,
    time: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let rows = rows::select(&arguments.rows, arguments.curves)?;
    let processes = Arc::new(Processes::default());
    let (done, mut ended) = oneshot::channel();
    let bench = Bench {
        processes: Arc::clone(&processes),
        time: arguments.time,
    };
    let output = Output {
        json: arguments.json,
        list: arguments.list,
        rounds: arguments.rounds,
    };
    let directory = programs::directory(arguments.peers.as_deref());
    let work = thread::spawn(move || {
        // The receiver is gone if a signal has arrived.
        let _ = done.send(output.run(&bench, &rows, &directory));
    });
    let result = runtime::run(runtime::until_signal(async {
        loop {
            tokio::select! {
                result = &mut ended => {
                    return result.unwrap_or_else(|_| Err(Failure::Run("the measurement failed".into())));
                }
                () = tokio::time::sleep(LIMIT_CHECK) => processes.kill_overdue(),
            }
        }
    }));
    processes.end_all();
    while !work.is_finished() {
        processes.kill_overdue();
        thread::sleep(END_CHECK);
    }
    if work.join().is_err() {
        return Err(Failure::Run("the measurement failed".into()));
    }
    result
}

/// Form and extent of the output.
struct Output {
    json: bool,
    list: bool,
    rounds: u32,
}

impl Output {
    fn run(
        &self,
        bench: &Bench,
        rows: &[&'static Row],
        directory: &programs::Directory,
    ) -> Result<(), Failure> {
        let peers = programs::peers(&bench.processes, directory)?;
        let mut report = Report::new(self.rounds, bench.time, directory, &peers);
        if self.list {
            return if self.json {
                print(&report.list_json(rows)?)
            } else {
                print(&report.list_text(rows))
            };
        }
        if !self.json {
            print(&report.heading())?;
        }
        for row in rows {
            let result = measure(bench, row, &row.programs(&peers), self.rounds)?;
            if !self.json {
                print(&result.text())?;
            }
            report.rows.push(result);
        }
        if self.json {
            print(&report.json()?)?;
        }
        match report.failed() {
            failed if failed.is_empty() => Ok(()),
            failed => Err(Failure::Run(format!(
                "no result for {}: the reasons are above",
                failed.join(", ")
            ))),
        }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Measures a row: every program once a round, in alternating order. A program that fails is left out from then on.
fn measure(
    bench: &Bench,
    row: &'static Row,
    programs: &[Program],
    rounds: u32,
) -> Result<RowResult, Failure> {
    let rounds = if row.is_deterministic { 1 } else { rounds };
    let mut result = RowResult::new(row, programs);
    if let Some(reason) = (row.obstacle)() {
        result.skipped = Some(reason);
        return Ok(result);
    }
    let bar = bar(row.name, u64::from(rounds) * programs.len() as u64);
    let mut failed = BTreeSet::new();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..programs.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            if failed.contains(&at) {
                bar.inc(1);
                continue;
            }
            bar.set_message(format!("{}: {}", row.name, programs[at].name));
            match (row.measure)(bench, &programs[at]) {
                Ok(values) => result.programs[at].values.push(values),
                Err(_) if bench.processes.is_ended() => {
                    return Err(Failure::Run("interrupted".into()));
                }
                Err(reason) => {
                    bar.suspend(|| eprintln!("{}: {}: {reason}", row.name, programs[at].name));
                    failed.insert(at);
                    result.programs[at].values.clear();
                    result.programs[at].failed = Some(reason);
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(result)
}
