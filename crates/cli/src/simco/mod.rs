//! `carrick simco`: firewall control, one file per subcommand.

mod address;
mod agent;
mod b2bua;
mod connect;
mod lines;
mod load;
mod middlebox;
mod plan;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Control firewalls and NATs with SIMCO (RFC 4540).
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Middlebox(middlebox::Arguments),
    Agent(Box<agent::Arguments>),
    B2bua(Box<b2bua::Arguments>),
    Load(Box<load::Arguments>),
    Plan(plan::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Middlebox(arguments) => middlebox::run(arguments),
        Command::Agent(arguments) => agent::run(arguments),
        Command::B2bua(arguments) => b2bua::run(arguments),
        Command::Load(arguments) => load::run(arguments),
        Command::Plan(arguments) => plan::run(arguments),
    }
}
