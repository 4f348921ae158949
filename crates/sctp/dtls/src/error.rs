//! Errors of sessions and certificates.

use carrick_proto::PeerText;

use crate::certificate::Fingerprint;

/// Reason for which a session failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DtlsError {
    /// The peer is not trusted.
    #[error("the peer's certificate {fingerprint} is refused: {}", PeerText::new(.reason))]
    PeerRefused {
        /// Fingerprint of its certificate.
        fingerprint: Fingerprint,
        /// Reason for which it is refused.
        reason: String,
    },
    /// The peer sent no certificate, or an unusable one.
    #[error("the peer presented no usable certificate: {}", PeerText::new(.0))]
    NoPeerCertificate(String),
    /// The peer ended the session with an alert.
    #[error(
        "the peer ended the session with alert {0}: it may have refused this side's certificate"
    )]
    PeerAlert(u8),
    /// The peer violated the protocol, or supports no common parameters.
    #[error("the peer's messages can't be accepted: {}", PeerText::new(.0))]
    Peer(String),
    /// The peer does not answer.
    #[error("the peer does not answer the handshake: check its address and that it expects DTLS")]
    TimedOut,
    /// The peer's host reports that nothing receives at the UDP port.
    #[error("nothing receives at the peer's UDP port: check its address and UDP port")]
    Unreachable,
    /// This side failed.
    #[error("DTLS failed on this side: {0}")]
    Local(String),
}

impl From<dimpl::Error> for DtlsError {
    fn from(error: dimpl::Error) -> Self {
        use dimpl::{Error, SecurityError};
        match error {
            Error::SecurityError(SecurityError::FatalAlert { description }) => {
                Self::PeerAlert(description)
            }
            Error::Timeout(_) => Self::TimedOut,
            Error::CertificateError(error) => Self::NoPeerCertificate(error.to_string()),
            Error::ConfigError(_) | Error::InvalidState(_) | Error::TransmitQueueFull => {
                Self::Local(error.to_string())
            }
            error => Self::Peer(error.to_string()),
        }
    }
}

/// Errors of certificates and fingerprints.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The certificate could not be generated.
    #[error("cannot create a certificate: {0}")]
    Generation(String),
    /// The fingerprint is not 32 pairs of hexadecimal digits separated by colons.
    #[error("invalid SHA-256 fingerprint: give 32 pairs of hexadecimal digits separated by colons")]
    NoFingerprint,
}

/// A parameter is out of its range.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("DTLS configuration: {0}")]
pub struct DtlsConfigError(pub(crate) String);

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason may contain text from the peer's certificate.
    #[test]
    fn reasons_are_a_single_line() {
        let reason = || "CN=a\r\nok \x1b[2J".to_owned();
        let errors = [
            DtlsError::PeerRefused {
                fingerprint: Fingerprint([0; 32]),
                reason: reason(),
            },
            DtlsError::NoPeerCertificate(reason()),
            DtlsError::Peer(reason()),
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.contains("CN=a\\r\\nok \\u{1b}[2J"), "{text}");
        }
    }
}
