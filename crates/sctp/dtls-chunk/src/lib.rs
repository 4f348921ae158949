//! The DTLS chunk of SCTP (draft-ietf-tsvwg-sctp-dtls-chunk-04): each packet of an association is one record of DTLS 1.3,
//! on all of its paths. Keys come from handshakes of TLS 1.3 in messages of the association
//! (draft-porfiri-tsvwg-sctp-dtls-handshake), which are repeated for new keys, or from a pre-shared secret.
//!
//! [`DtlsChunk`] is the offer of an endpoint ([`SecurityConfig::protection`](carrick_proto::SecurityConfig::protection)).
//! Cryptography is that of `ring`, handshakes are those of `rustls`, certificate chains are checked by `rustls-webpki`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use carrick_dtls::Certificate;
//! use carrick_dtls_chunk::{DtlsChunk, DtlsChunkConfig, Identity, Trust};
//! use carrick_proto::AssociationConfig;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let certificate_of_peer = Certificate::generate()?;
//! let identity = Identity::try_from(Certificate::generate()?)?;
//! println!("the peer trusts {}", identity.fingerprint());
//! let trust = Trust::fingerprint(certificate_of_peer.fingerprint());
//! let offer = DtlsChunk::new(DtlsChunkConfig::tls(identity, trust))?;
//! let config = AssociationConfig::default().with(|c| c.security.protection = Some(Arc::new(offer)));
//! # let _ = config;
//! # Ok(())
//! # }
//! ```
//!
//! `ring` and `rustls` take random numbers from the operating system, and the dates of certificates are compared with
//! its clock: with handshakes of TLS, equal seeds give no equal packets. With a pre-shared secret they do.
#![forbid(unsafe_code)]

#[macro_use]
extern crate carrick_proto;

mod cipher;
mod config;
mod contexts;
mod derive;
mod error;
mod handshake;
mod key_manager;
mod offer;
mod parameter;
mod protection;
mod record;
mod restart_keys;
mod trust;

pub use cipher::{CipherSuite, KeyMaterial, KeyMaterialError};
pub use config::{DtlsChunkConfig, KeySource, PreSharedSecret};
pub use contexts::KeySet;
pub use error::ConfigError;
pub use offer::DtlsChunk;
pub use parameter::{Agreement, Method, Role, Roles};
pub use protection::DtlsProtection;
pub use record::RECORD_OVERHEAD;
pub use restart_keys::RestartKeys;
pub use trust::{Identity, Trust};
