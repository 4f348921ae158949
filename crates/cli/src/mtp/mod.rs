//! `carrick mtp`: sends and receives MTP3 user messages as an ASP.
//!
//! - `connect`: options of the ASP and its gateways, and the session
//! - `message`: options of messages, and their text and JSON forms
//! - `send`, `receive`, `load`: the subcommands

mod connect;
mod load;
mod message;
mod receive;
mod send;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::runtime;

/// Send and receive MTP3 user messages as an application server process or IPSP (M3UA, RFC 4666).
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: MtpCommand,
}

#[derive(Debug, Subcommand)]
enum MtpCommand {
    Send(send::Arguments),
    Receive(receive::Arguments),
    Load(load::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::run(async {
        match &arguments.command {
            MtpCommand::Send(arguments) => send::run(arguments).await,
            MtpCommand::Receive(arguments) => receive::run(arguments).await,
            MtpCommand::Load(arguments) => load::run(arguments).await,
        }
    })
}
