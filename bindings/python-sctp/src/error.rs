//! Exceptions, which `carrick._errors` defines.

use carrick::{
    BindError, CloseReason, ConnectError, OperationError, RecvError, SendError, TrySendError,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::close::Reason;

/// Returns an exception with the text of an error, and the reason of the end of the association.
fn exception(class: &str, text: &str, reason: Option<&CloseReason>) -> PyErr {
    Python::attach(|py| {
        let class = py
            .import("carrick._errors")
            .and_then(|errors| errors.getattr(class));
        let made = class.and_then(|class| {
            let made = class.call1((text,))?;
            if let Some(reason) = reason {
                made.setattr("reason", Reason::from(reason))?;
            }
            Ok(made)
        });
        match made {
            Ok(made) => PyErr::from_value(made),
            Err(error) => error,
        }
    })
}

/// Exception of a parameter.
pub(crate) fn config(text: &str) -> PyErr {
    exception("ConfigError", text, None)
}

/// Exception of a second waiting task.
pub(crate) fn waits_already(call: &str, what: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "{call}: another task waits for {what} of this association: one task at a time can"
    ))
}

pub(crate) fn bind(error: &BindError) -> PyErr {
    let class = match error {
        BindError::Config(_) | BindError::Dtls(_) => "ConfigError",
        BindError::PortTaken { .. }
        | BindError::SctpPortTaken { .. }
        | BindError::SctpTaken { .. } => "AddressInUseError",
        BindError::Privilege(_) | BindError::PrivilegedPort(_) => "BindPermissionError",
        BindError::EndpointClosed => "EndpointClosedError",
        _ => "BindError",
    };
    exception(class, &error.to_string(), None)
}

pub(crate) fn connect(error: &ConnectError) -> PyErr {
    let (class, reason) = match error {
        ConnectError::Config(_) => ("ConfigError", None),
        ConnectError::EndpointClosed => ("EndpointClosedError", None),
        ConnectError::Failed(reason) => match reason {
            CloseReason::SetupTimedOut => ("ConnectTimeoutError", Some(reason)),
            CloseReason::AbortedByPeer(_) | CloseReason::ProtocolUnreachable => {
                ("ConnectRefusedError", Some(reason))
            }
            _ => ("ConnectError", Some(reason)),
        },
        _ => ("ConnectError", None),
    };
    exception(class, &error.to_string(), reason)
}

/// Class of the exception of an association that has ended.
fn ended_class(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::Shutdown => "AssociationShutDownError",
        CloseReason::AbortedByPeer(_) => "AssociationAbortedError",
        CloseReason::PeerUnreachable | CloseReason::ShutdownTimedOut => "PeerUnreachableError",
        _ => "AssociationEndedError",
    }
}

fn ended(reason: &CloseReason, text: &str) -> PyErr {
    exception(ended_class(reason), text, Some(reason))
}

pub(crate) fn send(error: &SendError) -> PyErr {
    let text = error.to_string();
    match error {
        SendError::Ended(reason) => ended(reason, &text),
        SendError::ShuttingDown => exception("AssociationShutDownError", &text, None),
        SendError::EndpointClosed => exception("EndpointClosedError", &text, None),
        _ => exception("SendError", &text, None),
    }
}

/// Exception of a message that was not queued at once, or the message, which has to wait.
pub(crate) fn try_send(error: TrySendError) -> Result<bytes::Bytes, PyErr> {
    match error {
        TrySendError::Full(message) => Ok(message),
        TrySendError::Send(error) => Err(send(&error)),
        error => Err(exception("SendError", &error.to_string(), None)),
    }
}

pub(crate) fn receive(error: &RecvError) -> PyErr {
    let text = error.to_string();
    match error {
        RecvError::Ended(reason) => ended(reason, &text),
        _ => exception("EndpointClosedError", &text, None),
    }
}

pub(crate) fn operation(error: &OperationError) -> PyErr {
    let text = error.to_string();
    match error {
        OperationError::Ended(reason) => ended(reason, &text),
        OperationError::EndpointClosed => exception("EndpointClosedError", &text, None),
        OperationError::Config(_) => exception("ConfigError", &text, None),
        _ => exception("OperationError", &text, None),
    }
}
