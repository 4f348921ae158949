//! Ends of associations and of endpoints.

use carrick::{AssociationEnd, CloseReason, CloseReport};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Reason for which an association ended.
#[derive(Clone, Debug)]
#[pyclass(frozen, eq, name = "CloseReason", module = "carrick")]
#[derive(PartialEq, Eq)]
pub(crate) struct Reason {
    /// Name, such as `aborted-by-peer`.
    #[pyo3(get)]
    name: &'static str,
    text: String,
    /// Code of the error cause of an ABORT.
    #[pyo3(get)]
    cause_code: Option<u16>,
    information: Vec<u8>,
}

impl From<&CloseReason> for Reason {
    fn from(reason: &CloseReason) -> Self {
        let cause = match reason {
            CloseReason::AbortedByPeer(cause) | CloseReason::AbortedByProtocol(cause) => {
                Some(cause)
            }
            _ => None,
        };
        Self {
            name: reason
                .index()
                .map_or("handed-over", |place| CloseReason::NAMES[place]),
            text: reason.to_string(),
            cause_code: cause.map(|cause| cause.code),
            information: cause
                .map(|cause| cause.information.clone())
                .unwrap_or_default(),
        }
    }
}

#[pymethods]
impl Reason {
    /// Cause-specific information of an ABORT: with code 12 the reason that the peer's program gave.
    #[getter]
    fn information<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.information)
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<CloseReason {}: {}>", self.name, self.text)
    }
}

/// End of an association in a report.
#[derive(Clone, Debug)]
#[pyclass(frozen, get_all, name = "AssociationEnd", module = "carrick")]
pub(crate) struct End {
    /// Addresses of the peer at the set-up.
    peer_addresses: Vec<String>,
    /// SCTP port of the peer.
    peer_port: u16,
    /// Reason.
    reason: Reason,
    /// The association was aborted because the time of `Endpoint.close` or `linger` was over.
    timed_out: bool,
    /// Number of messages that `send` accepted and the peer did not acknowledge.
    undelivered: u64,
    /// Number of received messages that were discarded unread.
    unread: u64,
}

impl From<&AssociationEnd> for End {
    fn from(end: &AssociationEnd) -> Self {
        Self {
            peer_addresses: end.peer_addresses.iter().map(ToString::to_string).collect(),
            peer_port: end.peer_port,
            reason: Reason::from(&end.reason),
            timed_out: end.timed_out,
            undelivered: end.undelivered,
            unread: end.unread,
        }
    }
}

/// Report of `Endpoint.close`: associations that did not end gracefully, and messages that were not delivered.
#[derive(Clone, Debug)]
#[pyclass(frozen, name = "CloseReport", module = "carrick")]
pub(crate) struct Report {
    /// Associations that did not end gracefully, at most 64.
    #[pyo3(get)]
    associations: Vec<End>,
    /// Number of further associations.
    #[pyo3(get)]
    omitted: u64,
    /// Number of messages that `send` accepted and the peers did not acknowledge.
    #[pyo3(get)]
    undelivered: u64,
    /// Number of received messages that were discarded unread.
    #[pyo3(get)]
    unread: u64,
    /// No message was lost, and each association was shut down or aborted by the program.
    #[pyo3(get)]
    is_empty: bool,
    text: String,
}

impl From<&CloseReport> for Report {
    fn from(report: &CloseReport) -> Self {
        Self {
            associations: report.associations.iter().map(End::from).collect(),
            omitted: report.omitted,
            undelivered: report.undelivered,
            unread: report.unread,
            is_empty: report.is_empty(),
            text: report.to_string(),
        }
    }
}

#[pymethods]
impl Report {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<CloseReport: {}>", self.text)
    }
}
