//! Messages, received and to be sent.

use std::time::Duration;

use bytes::Bytes;
use carrick::{MessagePart, PathId, Reliability, SendOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

/// Received message.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "carrick")]
pub(crate) struct Message {
    /// Bytes of the message.
    payload: Py<PyBytes>,
    /// Stream of the message.
    stream: u16,
    /// Payload protocol identifier that the peer's program set.
    ppid: u32,
    /// Stream sequence number; `None` for an unordered message.
    ssn: Option<u16>,
    /// With interleaving, the message identifier.
    mid: Option<u32>,
    /// TSN of the first fragment.
    tsn: u32,
    /// `whole`; or `first`, `middle`, `last` or `aborted` for a part of a message that is larger than the receive buffer.
    part: &'static str,
}

impl Message {
    pub(crate) fn new(py: Python<'_>, message: &carrick::Message) -> PyResult<Self> {
        let payload = &message.payload;
        let payload = PyBytes::new_with(py, payload.len(), |mut to| {
            for piece in payload.pieces() {
                let (place, rest) = to.split_at_mut(piece.len());
                place.copy_from_slice(piece);
                to = rest;
            }
            Ok(())
        })?;
        Ok(Self {
            payload: payload.unbind(),
            stream: message.stream.0,
            ppid: message.ppid.0,
            ssn: message.ssn.map(|ssn| ssn.value()),
            mid: message.mid.map(|mid| mid.value()),
            tsn: message.tsn.value(),
            part: match message.part {
                MessagePart::Whole => "whole",
                MessagePart::First => "first",
                MessagePart::Middle => "middle",
                MessagePart::Last => "last",
                MessagePart::Aborted => "aborted",
            },
        })
    }
}

#[pymethods]
impl Message {
    /// The message was delivered in the order of its stream.
    #[getter]
    fn ordered(&self) -> bool {
        self.ssn.is_some()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let len = self.payload.bind(py).len()?;
        Ok(format!(
            "<Message: {len} bytes on stream {}, PPID {}>",
            self.stream, self.ppid
        ))
    }
}

/// Copies the bytes of a message that is to be sent.
pub(crate) fn payload(value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Bytes::copy_from_slice(bytes.as_bytes()));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(bytes.to_vec().into());
    }
    if value.is_instance_of::<PyString>() {
        let why = "payload: expected bytes, not str: encode the text, for example with .encode()";
        return Err(PyTypeError::new_err(why));
    }
    let bytes = PyMemoryView::from(value)?.call_method0("tobytes")?;
    Ok(Bytes::copy_from_slice(bytes.cast::<PyBytes>()?.as_bytes()))
}

/// Options of a message in Python's order: stream, PPID, ordered, immediate, lifetime, retransmissions, priority, path,
/// context.
pub(crate) type Options = (
    u16,
    u32,
    bool,
    bool,
    Option<f64>,
    Option<u32>,
    Option<u32>,
    Option<u8>,
    u64,
);

/// Returns the options of a message.
pub(crate) fn options(given: Options) -> PyResult<SendOptions> {
    let (stream, ppid, ordered, immediate, lifetime, retransmissions, priority, path, context) =
        given;
    let mut options = SendOptions::on_stream(stream).ppid(ppid).context(context);
    options.unordered = !ordered;
    options.immediate = immediate;
    options.path = path.map(PathId);
    options.reliability = match (lifetime, retransmissions, priority) {
        (None, None, None) => Reliability::Full,
        (Some(seconds), None, None) => Reliability::Timed(time("lifetime", seconds)?),
        (None, Some(most), None) => Reliability::Retransmissions(most),
        (None, None, Some(priority)) => Reliability::Priority(priority),
        _ => {
            let why = "lifetime, retransmissions and priority exclude each other: give one of them";
            return Err(PyValueError::new_err(why));
        }
    };
    Ok(options)
}

/// Returns a time in seconds as a duration.
pub(crate) fn time(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{name}: {seconds} is no time in seconds")))
}
