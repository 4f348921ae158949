//! Configuration of sessions.

use std::fmt;
use std::sync::Arc;

use crate::certificate::{Certificate, Fingerprint};

/// Function that checks a certificate in DER and returns the reason for which it is refused.
pub type Verifier = dyn Fn(&[u8]) -> Result<(), String> + Send + Sync;

/// Trusted peers. The handshake proves in any case that a peer has the key of its certificate.
#[derive(Clone)]
pub enum Trust {
    /// Peers with one of these certificates.
    Fingerprints(Vec<Fingerprint>),
    /// Peers whose certificate this function accepts; it checks chains, names and dates itself.
    Verifier(Arc<Verifier>),
    /// Any peer; as a server, also peers without a certificate. An attacker on the path during the
    /// handshake can read and change all data.
    Anyone,
}

impl Trust {
    /// Trusts the peer with this certificate.
    pub fn fingerprint(fingerprint: Fingerprint) -> Self {
        Self::Fingerprints(vec![fingerprint])
    }

    pub(crate) fn is_anyone(&self) -> bool {
        matches!(self, Self::Anyone)
    }

    pub(crate) fn check(&self, certificate: &[u8]) -> Result<(), String> {
        match self {
            Self::Anyone => Ok(()),
            Self::Verifier(verify) => verify(certificate),
            Self::Fingerprints(known) if known.contains(&Fingerprint::of(certificate)) => Ok(()),
            Self::Fingerprints(_) => Err("it does not match an expected fingerprint".into()),
        }
    }

    /// Returns whether both trust the same peers, as far as that can be compared.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fingerprints(a), Self::Fingerprints(b)) => a == b,
            (Self::Verifier(a), Self::Verifier(b)) => Arc::ptr_eq(a, b),
            (Self::Anyone, Self::Anyone) => true,
            _ => false,
        }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fingerprints(known) => f.debug_tuple("Fingerprints").field(known).finish(),
            Self::Verifier(_) => f.write_str("Verifier"),
            Self::Anyone => f.write_str("Anyone"),
        }
    }
}

/// Versions of DTLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Versions {
    /// 1.3 with peers that have it, 1.2 with others.
    #[default]
    Both,
    /// 1.2 only (RFC 6347).
    Dtls12,
    /// 1.3 only (RFC 9147).
    Dtls13,
}

/// Configuration of sessions.
#[derive(Clone, Debug)]
pub struct DtlsConfig {
    /// This side's certificate and key.
    pub certificate: Certificate,
    /// Peers that may connect. For connections of this side, see
    /// [`carrick_proto::sessions::SessionLayer::connect`].
    pub trust: Trust,
    /// Versions to offer and accept.
    pub versions: Versions,
    /// Maximum length of a handshake datagram, 256 to 16384 bytes.
    pub handshake_datagram: usize,
    /// Number of records after which DTLS 1.3 updates its keys, at least 1.
    pub key_limit: u64,
}

impl DtlsConfig {
    /// Returns the default configuration with this certificate, for these peers.
    pub fn new(certificate: Certificate, trust: Trust) -> Self {
        Self {
            certificate,
            trust,
            versions: Versions::Both,
            // With UDP and IP headers below the 1200 bytes that RFC 8261, section 5, considers safe.
            handshake_datagram: 1150,
            key_limit: 1 << 23,
        }
    }
}
