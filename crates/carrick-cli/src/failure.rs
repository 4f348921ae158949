//! Errors of the command: one line that says whose fault it is and what to do.

use std::io;
use std::process::ExitCode;

use carrick_lab::LabError;

/// The exit code of a program that SIGINT ended, as shells tell it.
#[cfg(target_os = "linux")]
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a subcommand did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for what there is not.
    Usage(String),
    /// It was right, but could not be done.
    Run(String),
    /// It ends with this exit code, as what it stands for would.
    #[cfg(target_os = "linux")]
    Ended(u8, String),
    /// The reason is in the program's log already.
    #[cfg(feature = "simco")]
    Logged,
    /// The reader of the output has closed it.
    OutputClosed,
}

impl Failure {
    /// Prints the line and gives the exit code: 2 for the command line, 1 for what has none of its
    /// own.
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
            #[cfg(feature = "simco")]
            Self::Logged => ExitCode::FAILURE,
            // As `head` wants it: the reader has what it needs.
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// What is wrong with the command line, in a line; `None` if help or the version is to be shown.
pub(crate) fn of_command_line(error: &clap::Error) -> Option<Failure> {
    use clap::error::ErrorKind;

    if let ErrorKind::DisplayHelp
    | ErrorKind::DisplayVersion
    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand = error.kind()
    {
        return None;
    }
    let text = error.render().to_string();
    // What follows the first empty line is advice and usage.
    let words: Vec<&str> = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .flat_map(str::split_whitespace)
        .collect();
    let line = words.join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    Some(Failure::Usage(format!("{line}; see --help")))
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::UnknownScenario { .. } | LabError::File(_) | LabError::Choice { .. } => {
                Self::Usage(error.to_string())
            }
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
    fn a_wrong_name_is_the_callers_fault() {
        let error = LabError::UnknownScenario {
            name: "x".into(),
            known: "y".into(),
        };
        assert!(matches!(Failure::from(error), Failure::Usage(line) if line.contains('y')));
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(closed), Failure::OutputClosed));
    }
}
