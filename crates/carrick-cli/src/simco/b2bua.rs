//! `carrick simco b2bua`: pinholes for the media of SIP calls.

use std::net::SocketAddr;
use std::time::Duration;

use carrick_calls::{B2bua, B2buaConfig, CallRecord, Counts, Hop, MiddleboxAgent, Prefix};
use carrick_simco::client::{Client, ClientConfig};
use carrick_simco::message::Lifetime;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::connect::ConnectArguments;
use crate::failure::Failure;
use crate::units;

/// How long peers may take to answer when it is stopped.
const LEAVING: Duration = Duration::from_secs(5);

/// Let SIP calls through a firewall: a back-to-back user agent that opens pinholes for their media.
///
/// The answer of a call passes when the middlebox has opened the pinholes for RTP and RTCP; they are
/// closed when the call ends. If the middlebox refuses, so is the call (503), and if it does not answer
/// (504). Runs until it gets SIGINT or SIGTERM; then all calls are ended.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Its own address for SIP over UDP and TCP, which both sides can reach.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// A network behind the firewall; several times for several.
    #[arg(long, value_name = "NET/BITS", required = true)]
    internal: Vec<Prefix>,
    /// Where calls go that are offered from outside: over UDP, or tcp://ADDR:PORT.
    #[arg(long, value_name = "ADDR:PORT", required_unless_present = "outer")]
    inner: Option<Hop>,
    /// Where calls go that are offered from inside: over UDP, or tcp://ADDR:PORT.
    #[arg(long, value_name = "ADDR:PORT")]
    outer: Option<Hop>,
    /// Lifetime of rules in seconds; they are refreshed while the call lasts.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(5..))]
    lifetime: u32,
    /// How long a caller waits for the middlebox.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "5s")]
    patience: Duration,
    /// How long a callee may take to answer.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "180s")]
    answer: Duration,
    /// How often both sides are asked whether they are still there.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "60s")]
    probe: Duration,
    /// Calls at a time.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = calls)]
    max_calls: usize,
    /// Print each call that is over, and in the end what was, as lines of JSON.
    #[arg(long)]
    json: bool,
}

fn calls(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().ok();
    let count = count.filter(|count| (1..=1_000_000).contains(count));
    count.ok_or_else(|| "give a number from 1 to 1000000".to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    crate::endpoint::run(serve(arguments))
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Run(error.to_string())
}

async fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let config = ClientConfig {
        settings: arguments.connect.settings()?,
        ..ClientConfig::new(arguments.connect.target().await?)
    };
    let client = Client::connect(config).await.map_err(failure)?;
    let lifetime = Lifetime(arguments.lifetime);
    let pinholes = MiddleboxAgent::new(client.clone(), lifetime, arguments.patience);
    let config = B2buaConfig {
        inner: arguments.inner,
        outer: arguments.outer,
        max_calls: arguments.max_calls,
        answer: arguments.answer,
        probe: arguments.probe,
        ..B2buaConfig::new(arguments.listen, arguments.internal.clone())
    };
    let b2bua = B2bua::start(config, pinholes).await.map_err(failure)?;
    eprintln!("carrick: sip udp and tcp {}", arguments.listen);
    let mut terminate = signal(SignalKind::terminate()).map_err(failure)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failure)?;
    let mut records = b2bua.records();
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            Some(record) = records.next() => tell(&record, arguments.json),
        }
    }
    let counts = b2bua.counts();
    b2bua.stop(LEAVING).await;
    while let Ok(Some(record)) = tokio::time::timeout(Duration::ZERO, records.next()).await {
        tell(&record, arguments.json);
    }
    // A middlebox that does not answer is not waited for.
    let _ = tokio::time::timeout(Duration::from_secs(2), client.end()).await;
    report(&counts, arguments.json);
    Ok(())
}

/// A call that is over.
fn tell(record: &CallRecord, json: bool) {
    let CallRecord {
        call_id,
        caller,
        callee,
        lasted,
        end,
    } = record;
    if json {
        let value = serde_json::json!({
            "call": call_id,
            "from": caller,
            "to": callee,
            "seconds": lasted.as_secs_f64(),
            "end": end.name(),
        });
        println!("{value}");
    }
}

fn report(counts: &Counts, json: bool) {
    let Counts {
        calls,
        offered,
        established,
        refused_by_middlebox,
        too_many,
        flooded,
        pinholes,
        lost,
        vanished,
    } = counts;
    if json {
        let value = serde_json::json!({
            "offered": offered,
            "established": established,
            "refused_by_middlebox": refused_by_middlebox,
            "too_many": too_many,
            "flooded": flooded,
            "pinhole_lost": lost,
            "vanished": vanished,
            "ended_at_stop": calls,
            "pinholes_at_stop": pinholes,
        });
        println!("{value}");
    } else {
        println!(
            "{offered} calls offered, {established} established, {refused_by_middlebox} refused by the middlebox, {too_many} too many, {flooded} dropped in a flood, {lost} lost a pinhole, {vanished} lost a side; {calls} ended at the stop with {pinholes} pinholes"
        );
    }
}
