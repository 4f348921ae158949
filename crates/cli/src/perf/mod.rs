//! `carrick perf`: measures throughput and its cost between two hosts, as iperf3 does.
//!
//! - `protocol`, `request`: messages between the two sides
//! - `client`, `server`: the two subcommands; `admission`: limits of a server
//! - `preparation`: what precedes a measurement
//! - `clock`, `delay`: one-way delays
//! - `flow`, `distribution`: flows and their specifications
//! - `session`: one side of a measurement; `sender`, `pacing`, `receiver`, `flow_receiver`, `tally` and `silence` are its parts
//! - `control`: sending of control messages
//! - `report`, `interval`, `results`: the output; `files`: files of the client

mod admission;
mod client;
mod clock;
mod control;
mod delay;
mod distribution;
mod files;
mod flow;
mod flow_receiver;
mod interval;
mod pacing;
mod preparation;
mod protocol;
mod receiver;
mod report;
mod request;
mod results;
mod sender;
mod server;
mod session;
mod silence;
mod tally;

use clap::{Args, Subcommand};

use std::time::Duration;

use crate::failure::Failure;
use crate::runtime::{self, HangUp};
use crate::units;
use request::MAX_DURATION;

/// Options of the output, which both sides have.
#[derive(Debug, Clone, Args)]
struct OutputArguments {
    /// Print the rates of each interval of this length, at least 100 ms; a number without a unit is in s. 0: only the
    /// result.
    #[arg(short, long, value_name = "TIME", value_parser = interval, default_value = "1")]
    interval: Duration,
    /// Print JSON objects, one per line.
    #[arg(short = 'J', long)]
    json: bool,
}

impl OutputArguments {
    /// Returns the length of the intervals; `None` without intervals.
    fn intervals(&self) -> Option<Duration> {
        (!self.interval.is_zero()).then_some(self.interval)
    }
}

/// Parses the length of intervals.
fn interval(text: &str) -> Result<Duration, String> {
    match units::seconds(text)? {
        time if time.is_zero() || (MIN_INTERVAL..=MAX_DURATION).contains(&time) => Ok(time),
        _ => Err("must be 0 (no intervals) or 0.1 s to 24 h".into()),
    }
}

/// Minimum length of intervals.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Default SCTP port of the server.
const DEFAULT_PORT: u16 = 5201;

/// Measure throughput, its CPU time and retransmissions between two hosts.
///
/// Start a server on one host and a client on the other. The receiver's numbers are the result.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    side: PerfCommand,
}

#[derive(Debug, Subcommand)]
enum PerfCommand {
    Server(Box<server::Arguments>),
    Client(Box<client::Arguments>),
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let shards = match &arguments.side {
        PerfCommand::Server(arguments) => arguments.shards(),
        PerfCommand::Client(_) => 1,
    };
    let work = async {
        match &arguments.side {
            PerfCommand::Server(arguments) => server::run(arguments).await,
            PerfCommand::Client(arguments) => client::run(arguments).await,
        }
    };
    if shards > 1 {
        return runtime::run_on_threads(shards, HangUp::Ends, work);
    }
    runtime::run(work)
}
