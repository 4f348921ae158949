//! Errors of the command: one line that says whose fault it is and what to do.

use std::io;
use std::process::ExitCode;

use carrick_lab::LabError;

/// Why a subcommand did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for what there is not.
    Usage(String),
    /// It was right, but could not be done.
    Run(String),
    /// Whoever read the output has gone.
    OutputClosed,
}

impl Failure {
    /// Prints the line and gives the exit code: 2 for the command line, 1 for the rest.
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
            // As `head` wants it: the reader has what it needs.
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::UnknownScenario { .. } => Self::Usage(error.to_string()),
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
