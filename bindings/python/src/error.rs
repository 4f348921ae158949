//! Exceptions of the module.

use std::io::ErrorKind;

use pyo3::PyErr;
use pyo3::exceptions::{
    PyFileNotFoundError, PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError,
};

pyo3::create_exception!(
    carrick_lab,
    ScenarioError,
    PyValueError,
    "A scenario, experiment, change or file of runs is invalid."
);
pyo3::create_exception!(
    carrick_lab,
    LabError,
    PyRuntimeError,
    "A simulation failed: a fault of the stack or of the scenario."
);

/// Converts an error of the laboratory to an exception.
pub(crate) fn raised(error: carrick_lab::LabError) -> PyErr {
    use carrick_lab::LabError as Error;

    let text = error.to_string();
    match error {
        Error::UnknownExperiment { .. } | Error::File(_) | Error::Choice { .. } => {
            ScenarioError::new_err(text)
        }
        Error::Simulation { .. } => LabError::new_err(text),
        Error::Capture(_) => PyOSError::new_err(text),
        Error::Stopped => PyKeyboardInterrupt::new_err(text),
        Error::Read { source, .. } | Error::Write { source, .. } => match source.kind() {
            ErrorKind::NotFound => PyFileNotFoundError::new_err(text),
            _ => PyOSError::new_err(text),
        },
    }
}
