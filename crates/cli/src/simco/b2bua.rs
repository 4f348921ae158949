//! `carrick simco b2bua`: opens pinholes for the media of SIP calls.

use std::io::{IsTerminal, stderr};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use carrick_calls::{
    B2bua, B2buaConfig, CallCounts, CallRecord, MiddleboxAgent, NetworkPrefix, PerAddress,
    SipNextHop,
};
use carrick_metrics::serve_metrics;
use carrick_simco::PeerText;
use carrick_simco::message::Lifetime;
use carrick_simco_net::client::{Client, ClientConfig};
use clap::Args;
use indicatif::ProgressBar;
use tokio::net::TcpListener;

use super::connect::ConnectArguments;
use super::lines::{LogLimit, OutputQueue};
use crate::failure::Failure;
use crate::log::{info, stamped, warn};
use crate::{runtime, units};

/// Time that peers have to answer when the program stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Time to write the remaining output when the program stops.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Let SIP calls through a firewall: a back-to-back user agent that opens pinholes for their media.
///
/// The answer to an INVITE is forwarded once the middlebox has opened the pinholes for RTP and RTCP;
/// they are closed when the call ends. The call is refused with 503 if the middlebox refuses a pinhole
/// and with 504 if it does not answer. Runs until SIGINT, SIGTERM or SIGHUP, then ends all calls.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Local address for SIP over UDP and TCP, reachable from both sides.
    #[arg(long, value_name = "ADDR:PORT", value_parser = end)]
    listen: SocketAddr,
    /// Network behind the firewall; may be repeated.
    #[arg(long, value_name = "NET/BITS", required = true)]
    internal: Vec<NetworkPrefix>,
    /// SIP server for calls from outside, over UDP, or over TCP as tcp://ADDR:PORT.
    #[arg(long, value_name = "ADDR:PORT", required_unless_present = "outer")]
    inner: Option<SipNextHop>,
    /// SIP server for calls from inside, over UDP, or over TCP as tcp://ADDR:PORT.
    #[arg(long, value_name = "ADDR:PORT")]
    outer: Option<SipNextHop>,
    /// Lifetime of rules in seconds; rules are refreshed during the call.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(5..))]
    lifetime: u32,
    /// Time to wait for the middlebox before the call is refused.
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "5s")]
    patience: Duration,
    /// Time that the callee has to answer.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "180s")]
    answer: Duration,
    /// Interval of OPTIONS requests that check both sides of a call.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "60s")]
    probe: Duration,
    /// Maximum number of concurrent calls.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = calls)]
    max_calls: usize,
    /// Maximum number of calls from one address other than --inner and --outer. One eighth of them may be
    /// unanswered; they may have four pinholes each.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = calls)]
    max_calls_per_address: usize,
    /// Address at which metrics are served over HTTP, for Prometheus.
    #[arg(long, value_name = "ADDR:PORT", value_parser = end)]
    metrics: Option<SocketAddr>,
    /// Interval at which a status line is printed.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    status: Option<Duration>,
    /// Print each finished call and, at exit, the totals, as one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Parses a duration above 0.
fn positive_duration(text: &str) -> Result<Duration, String> {
    let time = units::duration(text)?;
    let time = Some(time).filter(|time| !time.is_zero());
    time.ok_or_else(|| "must be longer than 0".to_owned())
}

/// Parses an address with a port.
fn end(text: &str) -> Result<SocketAddr, String> {
    let wrong = "expected ADDRESS:PORT, an IPv6 address in brackets";
    text.parse().map_err(|_| wrong.to_owned())
}

fn calls(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().ok();
    let count = count.filter(|count| (1..=1_000_000).contains(count));
    count.ok_or_else(|| "must be a number from 1 to 1000000".to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::run(serve(arguments))
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Run(error.to_string())
}

async fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let config = B2buaConfig {
        inner: arguments.inner,
        outer: arguments.outer,
        max_calls: arguments.max_calls,
        per_address: PerAddress::of_calls(arguments.max_calls_per_address),
        answer: arguments.answer,
        probe: arguments.probe,
        ..B2buaConfig::new(arguments.listen, arguments.internal.clone())
    };
    config.check().map_err(Failure::Usage)?;
    let agent = ClientConfig {
        settings: arguments.connect.settings()?,
        ..ClientConfig::new(arguments.connect.target().await?)
    };
    let client = Client::connect(agent).await.map_err(failure)?;
    let lifetime = Lifetime(arguments.lifetime);
    let pinholes = MiddleboxAgent::new(client.clone(), lifetime, arguments.patience);
    let pinholes = pinholes.map_err(failure)?;
    // Opened before calls are admitted.
    let listener = match arguments.metrics {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let b2bua = Arc::new(B2bua::start(config, pinholes).await.map_err(failure)?);
    info(format_args!("sip udp and tcp {}", b2bua.address()));
    if let Some(listener) = listener {
        let address = listener.local_addr().map_err(failure)?;
        info(format_args!("metrics http://{address}/metrics"));
        let asked = Arc::clone(&b2bua);
        let ask = move || std::future::ready(Some(asked.metrics()));
        let failures = b2bua.accept_failures().clone();
        tokio::spawn(serve_metrics(listener, failures, ask));
    }
    let mut accept_failures = b2bua.accept_failures().reports();
    let mut records = b2bua.records();
    let (mut log_lines, mut limit) = (OutputQueue::log(), LogLimit::default());
    info("started");
    let mut out = OutputQueue::new();
    let line = StatusLine::new();
    let mut second = tokio::time::interval(StatusLine::INTERVAL);
    // Without --status, the interval never elapses in practice.
    let status = arguments.status;
    let mut status = tokio::time::interval(status.unwrap_or(Duration::from_secs(1 << 26)));
    status.tick().await;
    loop {
        tokio::select! {
            _ = runtime::signal_received() => break,
            Some(record) = records.next() => {
                log(&mut log_lines, &mut limit, &record);
                print_record(&mut out, &record, arguments.json);
            }
            Ok(failure) = accept_failures.recv() => warn(failure),
            _ = second.tick() => line.show(&b2bua.counts()),
            _ = status.tick() => print_status(&mut out, &b2bua.counts(), arguments.json),
        }
    }
    line.end();
    info("stopping: ending all calls");
    let counts = b2bua.counts();
    b2bua.stop(STOP_TIMEOUT).await;
    while let Ok(Some(record)) = tokio::time::timeout(Duration::ZERO, records.next()).await {
        print_record(&mut out, &record, arguments.json);
    }
    // Bounded: the middlebox may not answer.
    let _ = tokio::time::timeout(Duration::from_secs(2), client.end()).await;
    print_totals(&mut out, &counts, arguments.json);
    out.end(OUTPUT_TIMEOUT);
    log_lines.end(OUTPUT_TIMEOUT);
    info("stopped");
    Ok(())
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| failure(format!("cannot serve metrics at {address}: {error}")))
}

/// Current calls and pinholes on the last line of a terminal.
struct StatusLine(ProgressBar);

impl StatusLine {
    const INTERVAL: Duration = Duration::from_secs(1);

    fn new() -> Self {
        let bar = if stderr().is_terminal() {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        Self(bar)
    }

    fn show(&self, counts: &CallCounts) {
        let CallCounts {
            calls,
            pinholes,
            established,
            refused,
            ..
        } = counts;
        self.0.tick();
        self.0.set_message(format!(
            "{calls} calls, {pinholes} pinholes; {established} established, {refused} refused so far"
        ));
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// Logs a call that was refused or that neither side ended.
fn log(lines: &mut OutputQueue, limit: &mut LogLimit, record: &CallRecord) {
    let Some(reason) = &record.reason else {
        return;
    };
    let Some(left_out) = limit.admit(Instant::now()) else {
        return;
    };
    let what = match record.refused {
        Some(status) => format!("refused with {status}"),
        None => format!("ended ({})", record.end.name()),
    };
    let more = match left_out {
        0 => String::new(),
        count => format!(" ({count} similar lines suppressed)"),
    };
    let (call, reason) = (PeerText::new(&record.call_id), PeerText::new(reason));
    let line = format!("call {call} {what}: {reason}{more}");
    lines.print(stamped("info", line));
}

/// Prints a finished call.
fn print_record(out: &mut OutputQueue, record: &CallRecord, json: bool) {
    let CallRecord {
        call_id,
        caller,
        callee,
        lasted,
        set_up,
        refused,
        reason,
        end,
    } = record;
    if json {
        let value = serde_json::json!({
            "call": call_id,
            "from": caller,
            "to": callee,
            "seconds": lasted.as_secs_f64(),
            "setup_seconds": set_up.map(|time| time.as_secs_f64()),
            "status": refused.or(set_up.map(|_| 200)),
            "end": end.name(),
            "reason": reason,
        });
        out.print(value.to_string());
    }
}

/// Prints the current state and the totals so far.
fn print_status(out: &mut OutputQueue, counts: &CallCounts, json: bool) {
    if json {
        let mut value = json_of(counts);
        value["calls"] = counts.calls.into();
        value["pinholes"] = counts.pinholes.into();
        out.print(value.to_string());
    } else {
        let CallCounts {
            calls, pinholes, ..
        } = counts;
        out.print(format!(
            "{calls} calls, {pinholes} pinholes; {}",
            text_of(counts)
        ));
    }
}

/// Prints the totals at exit.
fn print_totals(out: &mut OutputQueue, counts: &CallCounts, json: bool) {
    let CallCounts {
        calls, pinholes, ..
    } = counts;
    if json {
        let mut value = json_of(counts);
        value["ended_at_stop"] = (*calls).into();
        value["pinholes_at_stop"] = (*pinholes).into();
        out.print(value.to_string());
    } else {
        out.print(format!(
            "{}; {calls} calls with {pinholes} pinholes ended at exit",
            text_of(counts)
        ));
    }
}

fn json_of(counts: &CallCounts) -> serde_json::Value {
    serde_json::json!({
        "offered": counts.offered,
        "established": counts.established,
        "refused": counts.refused,
        "refused_by_middlebox": counts.refused_by_middlebox,
        "too_many": counts.too_many,
        "crowded": counts.crowded,
        "flooded": counts.flooded,
        "pinhole_lost": counts.lost,
        "vanished": counts.vanished,
    })
}

fn text_of(counts: &CallCounts) -> String {
    let CallCounts {
        offered,
        established,
        refused,
        refused_by_middlebox,
        too_many,
        crowded,
        flooded,
        lost,
        vanished,
        ..
    } = counts;
    format!(
        "{offered} calls offered, {established} established, {refused} refused ({refused_by_middlebox} by the middlebox, {too_many} over the call limit), {crowded} INVITEs refused by limits per address, {flooded} requests dropped under overload, {lost} ended by a lost pinhole, {vanished} by a side that stopped answering"
    )
}
