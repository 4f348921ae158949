//! Subcommands and options of features that this build does not have.

#[cfg(not(all(feature = "lab", feature = "simco")))]
use clap::Args;

use crate::failure::Failure;

/// Any arguments.
#[cfg(not(all(feature = "lab", feature = "simco")))]
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<String>,
}

/// Returns the failure of a subcommand or an option that needs a feature of the crate.
pub(crate) fn failure(name: &str, feature: &str) -> Failure {
    Failure::Usage(format!(
        "this build has no `{name}`: install all with ./install, or build with --features {feature}"
    ))
}
