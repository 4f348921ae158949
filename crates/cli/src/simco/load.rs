//! `carrick simco load`: puts the workload of Kiesel and Scharf (2006) on a middlebox.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::Duration;

use carrick_simco::load::{Latency, Workload};
use carrick_simco::message::Lifetime;
use carrick_simco_net::client::{LoadPlan, LoadProgress, LoadReport, run_load};
use clap::Args;
use serde::Serialize;

use super::connect::ConnectArguments;
use super::plan::{above_zero, positive, rate};
use crate::failure::Failure;
use crate::runtime::{self, interrupted, until_signal};
use crate::units;

/// Parses a time above 0; a number without a unit is in s.
fn positive_seconds(text: &str) -> Result<Duration, String> {
    units::seconds(text).and_then(above_zero)
}

/// Put the load of many calls on a middlebox and measure its response times.
///
/// Pinholes are opened at random times, refreshed, and closed after a random lifetime. The load is open
/// loop: a slow reply delays no other request. It starts from the steady state unless --preload sets
/// another number of pinholes. At the end, outstanding requests have --timeout to be answered; after
/// that they count as failed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Pinholes opened per second.
    #[arg(long, value_name = "N", default_value_t = 33.333, value_parser = rate)]
    rate: f64,
    /// Mean lifetime of a pinhole.
    #[arg(long, value_name = "TIME", default_value = "180s", value_parser = positive)]
    hold: Duration,
    /// Refresh interval of a pinhole.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = positive)]
    refresh: Duration,
    /// Requested lifetime in seconds [default: twice the refresh interval].
    #[arg(long, value_name = "SECONDS")]
    lifetime: Option<u32>,
    /// Pinholes per call, opened and closed together.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    per_call: u32,
    /// Pinholes opened before the measurement [default: the mean number in steady state].
    #[arg(long, value_name = "N")]
    preload: Option<u32>,
    /// Maximum number of outstanding requests during the preload.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    window: u32,
    /// Time between the preload and the measurement.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    warm_up: Duration,
    /// Duration of the measurement; a number without a unit is in s.
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = positive_seconds)]
    time: Duration,
    /// Random seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Results to print.
#[derive(Debug, Serialize)]
struct Report {
    streams: u16,
    /// Expected rate of opening, refresh and close requests.
    offered_per_second: f64,
    /// Transactions started during the measurement.
    started: u64,
    /// Started transactions that were answered, during the measurement or after it.
    transactions: u64,
    /// Rate of transactions answered during the measurement.
    transactions_per_second: f64,
    seconds: f64,
    preload_seconds: f64,
    preload_per_second: f64,
    pinholes: usize,
    enable: Option<Times>,
    refresh: Option<Times>,
    close: Option<Times>,
    all: Option<Times>,
    failures: Failures,
}

/// Response times in milliseconds.
#[derive(Debug, Serialize)]
struct Times {
    count: u64,
    mean_ms: f64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
}

/// Failed transactions.
#[derive(Debug, Serialize)]
struct Failures {
    refused: u64,
    timed_out: u64,
    suppressed: u64,
    not_taken: u64,
    expired: u64,
    first: Option<String>,
}

fn times(latency: &Latency) -> Option<Times> {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let at = |share| latency.quantile(share).map(ms);
    Some(Times {
        count: latency.count(),
        mean_ms: latency.mean().map(ms)?,
        p50_ms: at(0.5)?,
        p90_ms: at(0.9)?,
        p99_ms: at(0.99)?,
        p999_ms: at(0.999)?,
        max_ms: at(1.0)?,
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::run(work(arguments))
}

fn workload(arguments: &Arguments) -> Workload {
    let steady = arguments.rate * arguments.hold.as_secs_f64();
    let preload = arguments.preload.unwrap_or(steady.min(1e6) as u32);
    let life = arguments.lifetime.unwrap_or_else(|| {
        let twice = 2.0 * arguments.refresh.as_secs_f64();
        twice.ceil().min(f64::from(u32::MAX)) as u32
    });
    Workload {
        opening_interval: Duration::from_secs_f64(1.0 / arguments.rate),
        holding: arguments.hold,
        refresh: arguments.refresh,
        lifetime: Lifetime(life),
        pinholes_per_call: arguments.per_call,
        preload,
        preload_window: arguments.window,
        ..Workload::default()
    }
}

async fn work(arguments: &Arguments) -> Result<(), Failure> {
    let target = until_signal(arguments.connect.target()).await?;
    let settings = arguments.connect.settings()?;
    let connected = tokio::time::timeout(settings.timeout, target.connect());
    let connected = until_signal(async { Ok(connected.await) }).await?;
    let link = match connected {
        Ok(link) => {
            link.map_err(|why| Failure::Run(format!("cannot connect to {target}: {why}")))?
        }
        Err(_) => {
            return Err(Failure::Run(format!(
                "{target} does not answer: check address, port and transport"
            )));
        }
    };
    let plan = LoadPlan {
        workload: workload(arguments),
        seed: arguments.seed,
        warm_up: arguments.warm_up,
        duration: arguments.time,
    };
    let terminal = stderr().is_terminal();
    let report_progress = |progress| {
        if terminal {
            show(&plan, progress);
        }
    };
    let mut stopped = None;
    // The session and the association end in order.
    let stop = async { stopped = Some(runtime::signal_received().await) };
    let done = run_load(link, settings, &plan, report_progress, stop).await;
    if terminal {
        eprint!("\r\x1b[K");
    }
    if let Some(signal) = stopped {
        return Err(interrupted(signal));
    }
    let report = of(&plan, &done.map_err(|e| Failure::Run(e.to_string()))?);
    print(arguments, &report)
}

fn show(plan: &LoadPlan, progress: LoadProgress) {
    match progress {
        LoadProgress::Preload(open) => {
            eprint!("\r\x1b[Kpreload: {open} of {}", plan.workload.preload);
        }
        LoadProgress::Draining(left) => {
            eprint!("\r\x1b[Kwaiting for the replies to {left} outstanding transactions");
        }
        LoadProgress::Measuring(time, done) => {
            let per_second = done as f64 / time.as_secs_f64().max(1e-3);
            let (at, of) = (time.as_secs(), plan.duration.as_secs());
            eprint!("\r\x1b[K{at} s of {of} s: {per_second:.0} transactions/s");
        }
    }
}

fn of(plan: &LoadPlan, done: &LoadReport) -> Report {
    let measures = &done.measures;
    let seconds = done.measured.as_secs_f64();
    let mut all = measures.enable.clone();
    all.add(&measures.refresh);
    all.add(&measures.close);
    let preload = done.preload.as_secs_f64();
    Report {
        streams: done.streams,
        offered_per_second: 1e3 / plan.workload.demand().exact_interval(),
        started: measures.started,
        transactions: measures.transactions(),
        transactions_per_second: done.in_time as f64 / seconds,
        seconds,
        preload_seconds: preload,
        preload_per_second: f64::from(plan.workload.preload) / preload.max(1e-9),
        pinholes: done.pinholes,
        enable: times(&measures.enable),
        refresh: times(&measures.refresh),
        close: times(&measures.close),
        all: times(&all),
        failures: Failures {
            refused: measures.refused,
            timed_out: measures.timed_out,
            suppressed: measures.suppressed,
            not_taken: measures.not_taken,
            expired: measures.expired,
            first: done.failure.as_ref().map(ToString::to_string),
        },
    }
}

fn print(arguments: &Arguments, report: &Report) -> Result<(), Failure> {
    let mut out = stdout().lock();
    if arguments.json {
        let json = serde_json::to_string(report).map_err(|e| Failure::Run(e.to_string()))?;
        writeln!(out, "{json}")?;
        return Ok(());
    }
    let Report {
        streams, pinholes, ..
    } = report;
    writeln!(out, "stream pairs      {streams}")?;
    writeln!(
        out,
        "preload           {:.2} s, {:.0} per second",
        report.preload_seconds, report.preload_per_second
    )?;
    writeln!(
        out,
        "transactions      {} of {} in {:.2} s: {:.1} per second, {:.1} offered",
        report.transactions,
        report.started,
        report.seconds,
        report.transactions_per_second,
        report.offered_per_second
    )?;
    writeln!(out, "pinholes open     {pinholes}")?;
    let head = ["count", "mean", "50 %", "90 %", "99 %", "99.9 %", "max"];
    let head: Vec<String> = head.iter().map(|name| format!("{name:>10}")).collect();
    writeln!(out, "{:16}{}", "times in ms", head.concat())?;
    for (name, times) in [
        ("open (PER)", &report.enable),
        ("refresh (PLC)", &report.refresh),
        ("close (PLC)", &report.close),
        ("all", &report.all),
    ] {
        let Some(times) = times else { continue };
        writeln!(
            out,
            "{name:16}{:>10}{:>10.3}{:>10.3}{:>10.3}{:>10.3}{:>10.3}{:>10.3}",
            times.count,
            times.mean_ms,
            times.p50_ms,
            times.p90_ms,
            times.p99_ms,
            times.p999_ms,
            times.max_ms
        )?;
    }
    let failed = &report.failures;
    writeln!(
        out,
        "errors            {} refused, {} timed out, {} expired, {} skipped",
        failed.refused,
        failed.timed_out,
        failed.expired,
        failed.suppressed + failed.not_taken
    )?;
    if let Some(first) = &failed.first {
        writeln!(out, "first error       {first}")?;
    }
    Ok(())
}
