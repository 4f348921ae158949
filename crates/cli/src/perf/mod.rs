//! `carrick perf`: measures throughput and its cost between two hosts, as iperf3 does.
//!
//! - `protocol`: messages between the two sides
//! - `client`, `server`: the two subcommands
//! - `session`: one side of a measurement; `sender`, `pacing`, `receiver`, `tally` and `silence` are its parts
//! - `report`: the output

mod client;
mod pacing;
mod protocol;
mod receiver;
mod report;
mod sender;
mod server;
mod session;
mod silence;
mod tally;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::runtime::{self, HangUp};

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
    Server(server::Arguments),
    Client(client::Arguments),
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
