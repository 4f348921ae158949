//! What sessions are made of.

use std::fmt;
use std::sync::Arc;

use crate::certificate::{Certificate, Fingerprint};

/// Judges a certificate in DER; the error says why it is refused.
pub type Judge = dyn Fn(&[u8]) -> Result<(), String> + Send + Sync;

/// Whom to believe. That the peer has the key of its certificate is proved in any case.
#[derive(Clone)]
pub enum Trust {
    /// Peers with one of these certificates.
    Fingerprints(Vec<Fingerprint>),
    /// Peers whose certificate this function likes: chains, names and dates are its business.
    Judge(Arc<Judge>),
    /// Anybody; as a server, also peers without a certificate. Others can listen and change what is
    /// sent if they are there from the beginning.
    Anyone,
}

impl Trust {
    /// The peer with this certificate.
    pub fn fingerprint(fingerprint: Fingerprint) -> Self {
        Self::Fingerprints(vec![fingerprint])
    }

    pub(crate) fn is_anyone(&self) -> bool {
        matches!(self, Self::Anyone)
    }

    pub(crate) fn check(&self, certificate: &[u8]) -> Result<(), String> {
        match self {
            Self::Anyone => Ok(()),
            Self::Judge(judge) => judge(certificate),
            Self::Fingerprints(known) if known.contains(&Fingerprint::of(certificate)) => Ok(()),
            Self::Fingerprints(_) => Err("it is none of those that are expected".into()),
        }
    }

    /// Whether both let the same peers in, as far as that can be seen.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fingerprints(a), Self::Fingerprints(b)) => a == b,
            (Self::Judge(a), Self::Judge(b)) => Arc::ptr_eq(a, b),
            (Self::Anyone, Self::Anyone) => true,
            _ => false,
        }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fingerprints(known) => f.debug_tuple("Fingerprints").field(known).finish(),
            Self::Judge(_) => f.write_str("Judge"),
            Self::Anyone => f.write_str("Anyone"),
        }
    }
}

/// Versions of DTLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Versions {
    /// 1.3 with peers that have it, 1.2 with others.
    #[default]
    Both,
    /// 1.2 only (RFC 6347).
    Dtls12,
    /// 1.3 only (RFC 9147).
    Dtls13,
}

/// What sessions are made of.
#[derive(Clone, Debug)]
pub struct DtlsConfig {
    /// This side's certificate and key.
    pub certificate: Certificate,
    /// Which peers may connect. For those that are connected to, see
    /// [`carrick_proto::protection::SessionLayer::connect`].
    pub trust: Trust,
    /// Versions to offer and take.
    pub versions: Versions,
    /// Bytes of a datagram of the handshake at most, 256 to 16384.
    pub handshake_datagram: usize,
    /// With DTLS 1.3, keys are changed after so many records, at least 1.
    pub key_limit: u64,
}

impl DtlsConfig {
    /// The defaults, with this certificate, for these peers.
    pub fn new(certificate: Certificate, trust: Trust) -> Self {
        Self {
            certificate,
            trust,
            versions: Versions::Both,
            // With UDP and IP below the 1200 bytes that RFC 8261 section 5 calls safe.
            handshake_datagram: 1150,
            key_limit: 1 << 23,
        }
    }
}
