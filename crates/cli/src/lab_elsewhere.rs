//! `carrick lab` on systems without network namespaces: scenario files only.

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::lab_file;

/// Run scenario files in virtual time.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Run(lab_file::RunArguments),
    Sweep(lab_file::SweepArguments),
    Trace(lab_file::TraceArguments),
    Cells(lab_file::CellsArguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        LabCommand::Run(arguments) => lab_file::run(arguments),
        LabCommand::Sweep(arguments) => lab_file::sweep(arguments),
        LabCommand::Trace(arguments) => lab_file::trace(arguments),
        LabCommand::Cells(arguments) => lab_file::cells(arguments),
    }
}
