//! SCTP over DTLS (RFC 8261): the sessions below an endpoint, without sockets, clocks or threads.
//!
//! [`Dtls`] makes the sessions of a [`SessionLayer`] (see [`carrick_proto::protection`]). The protocol
//! itself is the crate `dimpl`: DTLS 1.2 and 1.3 with AES-GCM and ChaCha20-Poly1305, ECDHE and ECDSA, in
//! safe Rust, over the `RustCrypto` crates. It has no DTLS 1.0, which RFC 8261 section 5 asks for and
//! RFC 8996 has withdrawn since, no RSA and no compression.
//!
//! Peers prove who they are with certificates, which are taken for what they are and not for who signed
//! them: a [`Certificate`] signs itself, and the other side knows its SHA-256 [`Fingerprint`], as in
//! WebRTC, or judges it with a function of its own ([`Trust`]).
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
//! Randomness: `dimpl` takes its own from the operating system. With this layer the same seed no longer
//! gives the same packets, although it does still give the same packets of SCTP.
//!
//! [`SessionLayer`]: carrick_proto::protection::SessionLayer
#![forbid(unsafe_code)]

mod certificate;
mod config;
mod error;
mod factory;
mod session;

pub use certificate::{Certificate, Fingerprint};
pub use config::{DtlsConfig, Judge, Trust, Versions};
pub use error::{CertificateError, DtlsConfigError, DtlsError};
pub use factory::{Dtls, DtlsLayer, OVERHEAD};
pub use session::DtlsSession;
