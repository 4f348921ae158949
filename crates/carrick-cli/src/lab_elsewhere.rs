//! `carrick lab` on systems without network namespaces: scenario files only.

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::lab_file;

/// Run scenario files in virtual time.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Lab,
}

#[derive(Debug, Subcommand)]
enum Lab {
    Run(lab_file::Run),
    Sweep(lab_file::Sweep),
    Trace(lab_file::Trace),
    Cells(lab_file::Cells),
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Lab::Run(arguments) => lab_file::run(arguments),
        Lab::Sweep(arguments) => lab_file::sweep(arguments),
        Lab::Trace(arguments) => lab_file::trace(arguments),
        Lab::Cells(arguments) => lab_file::cells(arguments),
    }
}
