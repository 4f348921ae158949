//! SCTP over DTLS (RFC 8261): the sessions below an endpoint, without sockets, clocks or threads.
//!
//! [`Dtls`] makes the sessions of a [`SessionLayer`] (see [`carrick_proto::sessions`]). The crate
//! `dimpl` implements the protocol: DTLS 1.2 and 1.3 with AES-GCM and ChaCha20-Poly1305, ECDHE and ECDSA,
//! in safe Rust, over the `RustCrypto` crates. It has no DTLS 1.0, which RFC 8261 section 5 requires and
//! RFC 8996 has deprecated since, no RSA and no compression.
//!
//! Peers authenticate with self-signed certificates ([`Certificate`]): each side compares the SHA-256
//! [`Fingerprint`] of the other one, as in WebRTC, or checks the certificate with a function of the
//! program ([`Trust`]).
//!
//! ```
//! use carrick_dtls::{Certificate, Dtls, DtlsConfig, DtlsLayer, Trust};
//! use carrick_proto::{Endpoint, EndpointConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let certificate = Certificate::generate()?;
//! println!("peers expect {}", certificate.fingerprint());
//! let dtls = Dtls::new(DtlsConfig::new(certificate, Trust::Anyone))?;
//! let mut config = EndpointConfig::new(5000, vec!["127.0.0.1".parse()?], [7; 32]);
//! let layer = DtlsLayer::new(dtls, Default::default(), &mut config);
//! let endpoint = Endpoint::new(config)?;
//! // Datagrams and timers of the endpoint go through the layer from here on.
//! # let _ = (layer, endpoint);
//! # Ok(())
//! # }
//! ```
//!
//! `dimpl` takes random numbers from the operating system: with this layer, equal seeds give equal SCTP
//! packets, but not equal datagrams.
//!
//! [`SessionLayer`]: carrick_proto::sessions::SessionLayer
#![forbid(unsafe_code)]

mod certificate;
mod config;
mod error;
mod factory;
mod key;
mod records;
mod session;

pub use certificate::{Certificate, Fingerprint};
pub use config::{DtlsConfig, Trust, Verifier, Versions};
pub use error::{CertificateError, DtlsConfigError, DtlsError};
pub use factory::{Dtls, DtlsLayer, OVERHEAD};
pub use session::DtlsSession;
