//! Certificates and trusted peers of DTLS (RFC 8261).

use carrick::dtls::{self, Fingerprint, Trust};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;

/// Certificate with its private key, for DTLS.
#[derive(Debug)]
#[pyclass(frozen, module = "carrick")]
pub(crate) struct Certificate {
    pub(crate) own: dtls::Certificate,
}

#[pymethods]
impl Certificate {
    /// Generates a self-signed certificate with a new key.
    #[staticmethod]
    fn generate() -> PyResult<Self> {
        let own = dtls::Certificate::generate();
        let own = own.map_err(|why| error::config(&format!("certificate: {why}")))?;
        Ok(Self { own })
    }

    /// Returns the certificate with this private key, both in DER.
    #[staticmethod]
    fn from_der(certificate: &[u8], private_key: &[u8]) -> Self {
        Self {
            own: dtls::Certificate::from_der(certificate.to_vec(), private_key.to_vec()),
        }
    }

    /// SHA-256 of the certificate, as pairs of hexadecimal digits with colons between them.
    #[getter]
    fn fingerprint(&self) -> String {
        self.own.fingerprint().to_string()
    }

    /// Certificate in DER.
    #[getter]
    fn der<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.own.der())
    }

    /// Private key in DER.
    #[getter]
    fn private_key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.own.private_key())
    }

    fn __repr__(&self) -> String {
        format!("<Certificate {}>", self.own.fingerprint())
    }
}

/// Returns trust in the peers with these fingerprints, or in any peer for the single word `anyone`.
pub(crate) fn trust(trusted: &[String]) -> PyResult<Trust> {
    if trusted == ["anyone"] {
        return Ok(Trust::Anyone);
    }
    let parse = |text: &String| {
        let known = text.parse::<Fingerprint>();
        known.map_err(|why| error::config(&format!("trusted: {text:?}: {why}")))
    };
    let known = trusted.iter().map(parse).collect::<PyResult<_>>()?;
    Ok(Trust::Fingerprints(known))
}
