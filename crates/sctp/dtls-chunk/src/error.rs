//! Faults of a configuration.

/// Configuration that can't be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A certificate of this side.
    #[error("the certificate can't be used: {0}")]
    Certificate(String),
    /// The private key of this side.
    #[error("the private key can't be used: {0}")]
    PrivateKey(String),
    /// A certificate of an authority.
    #[error("the certificate of an authority can't be used: {0}")]
    Authority(String),
    /// The name that peers must have.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    PeerName(String),
    /// The configuration of TLS.
    #[error("TLS can't be configured: {0}")]
    Tls(String),
    /// A value is out of its range.
    #[error("{0}")]
    Range(&'static str),
}
