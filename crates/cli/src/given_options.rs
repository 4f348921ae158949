//! Options that a command line has, by their names: for errors about options that would have no effect.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// Identifiers of the options that the command line has. The first field of its subcommand's arguments, because the
/// fields after it take their options from the matches.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenOptions(Vec<String>);

impl GivenOptions {
    /// Returns the given options of a group of arguments, as typed: `--event-log`.
    pub(crate) fn of<T: Args>(&self) -> Vec<String> {
        let group = T::augment_args(Command::new("group"));
        let given = group
            .get_arguments()
            .filter(|option| self.0.iter().any(|id| option.get_id() == id.as_str()))
            .filter_map(|option| option.get_long());
        given.map(|long| format!("--{long}")).collect()
    }
}

impl FromArgMatches for GivenOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let ids = matches.ids().map(clap::Id::as_str);
        let given = ids.filter(|id| matches.try_contains_id(id).is_ok() && is_given(id));
        Ok(Self(given.map(str::to_owned).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for GivenOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
