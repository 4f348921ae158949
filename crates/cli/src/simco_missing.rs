//! `carrick simco` in a build without the feature `simco`.

use clap::Args;

use crate::failure::Failure;

/// Control firewalls with SIMCO (RFC 4540); not part of this build.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<String>,
}

pub(crate) fn run(_: &Arguments) -> Result<(), Failure> {
    let line = "this build has no SIMCO: install it with \
                `cargo install --locked --path crates/cli --features simco`";
    Err(Failure::Usage(line.into()))
}
