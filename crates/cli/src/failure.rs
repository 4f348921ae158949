//! Errors of the command: one line that names the cause and the remedy.

use std::io;
use std::process::ExitCode;

use carrick_lab::LabError;

/// Exit code of a program that SIGINT ended, as in shells.
#[cfg(target_os = "linux")]
pub(crate) const INTERRUPTED: u8 = 130;

/// Failure of a subcommand.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is invalid.
    Usage(String),
    /// The command line is valid, but the command failed.
    Run(String),
    /// The command ends with this exit code, e.g. that of the program that it ran.
    #[cfg(target_os = "linux")]
    Ended(u8, String),
    /// The failure is in the program's log already.
    #[cfg(any(target_os = "linux", feature = "simco"))]
    Logged,
    /// The reader of the output has closed it.
    OutputClosed,
}

impl Failure {
    /// Prints the line and returns the exit code: 2 for the command line, 1 for all others without a code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Usage(line) => {
                eprintln!("carrick: {line}");
                ExitCode::from(2)
            }
            Self::Run(line) => {
                eprintln!("carrick: {line}");
                ExitCode::FAILURE
            }
            #[cfg(target_os = "linux")]
            Self::Ended(code, line) => {
                eprintln!("carrick: {line}");
                ExitCode::from(code)
            }
            #[cfg(any(target_os = "linux", feature = "simco"))]
            Self::Logged => ExitCode::FAILURE,
            // Success, so that `carrick ... | head` succeeds.
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// Converts an error of the command line into one line; `None` if help or the version is to be printed.
pub(crate) fn of_command_line(error: &clap::Error) -> Option<Failure> {
    use clap::error::ErrorKind;

    if let ErrorKind::DisplayHelp
    | ErrorKind::DisplayVersion
    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand = error.kind()
    {
        return None;
    }
    let text = error.render().to_string();
    // Advice and usage follow the first empty line.
    let words = |lines: &mut dyn Iterator<Item = &str>| {
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        words.join(" ")
    };
    let line = words(&mut text.lines().take_while(|line| !line.trim().is_empty()));
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let mut tips = text.lines().filter_map(|l| l.trim().strip_prefix("tip: "));
    let tip = tips.next().map(|tip| format!(": {tip}"));
    Some(Failure::Usage(format!(
        "{line}{}; see --help",
        tip.unwrap_or_default()
    )))
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::UnknownExperiment { .. } | LabError::File(_) | LabError::Choice { .. } => {
                Self::Usage(error.to_string())
            }
            #[cfg(target_os = "linux")]
            LabError::Stopped => Self::Ended(INTERRUPTED, error.to_string()),
            _ => Self::Run(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Run(format!("cannot write the output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_a_usage_error() {
        let error = LabError::UnknownExperiment {
            name: "x".into(),
            known: "y".into(),
        };
        assert!(matches!(Failure::from(error), Failure::Usage(line) if line.contains('y')));
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(closed), Failure::OutputClosed));
    }
}
