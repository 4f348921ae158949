//! Creates sessions and recognizes their first datagram.

use std::sync::Arc;
use std::time::Instant;

use carrick_proto::sessions::{SessionFactory, SessionLayer};
use carrick_proto::{LowerLayer, Time};
use dimpl::DtlsCertificate;
use dimpl::crypto::{Dtls12CipherSuite, Dtls13CipherSuite};

use crate::config::{DtlsConfig, Trust, Versions};
use crate::error::DtlsConfigError;
use crate::key::{checked_key, crypto};
use crate::records::client_hello;
use crate::session::DtlsSession;

/// Maximum number of bytes that DTLS adds to a packet: a header of 13, an explicit nonce of 8 and a tag of
/// 16 bytes with AES-GCM in DTLS 1.2. DTLS 1.3 adds 22.
pub const OVERHEAD: usize = 37;

/// DTLS sessions of an endpoint.
pub type DtlsLayer = SessionLayer<Dtls>;

/// Creates DTLS sessions.
#[derive(Debug)]
pub struct Dtls {
    pub(crate) config: DtlsConfig,
    library: Library,
    /// Origin of the library's clock, which uses differences only.
    epoch: Instant,
}

struct Library {
    config: Arc<dimpl::Config>,
    /// Private key as [`checked_key`] returns it.
    key: Vec<u8>,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

impl Dtls {
    /// Checks the configuration and prepares the library.
    ///
    /// # Errors
    /// The error names the parameter that is out of its range, or what is wrong with the private key.
    pub fn new(config: DtlsConfig) -> Result<Self, DtlsConfigError> {
        if !(256..=16_384).contains(&config.handshake_datagram) {
            let what = "handshake_datagram: must be 256 to 16384";
            return Err(DtlsConfigError(what.into()));
        }
        let key = checked_key(&config.certificate)?;
        let mut builder = dimpl::Config::builder()
            .with_crypto_provider(crypto())
            .mtu(config.handshake_datagram)
            .require_client_certificate(!config.trust.is_anyone())
            .use_server_cookie(true)
            .aead_encryption_limit(config.key_limit);
        match config.versions {
            Versions::Both => {}
            Versions::Dtls12 => {
                builder = builder.dtls13_cipher_suites(&[] as &[Dtls13CipherSuite]);
            }
            Versions::Dtls13 => {
                builder = builder.dtls12_cipher_suites(&[] as &[Dtls12CipherSuite]);
            }
        }
        let library = builder
            .build()
            .map_err(|e| DtlsConfigError(e.to_string()))?;
        Ok(Self {
            config,
            library: Library {
                config: Arc::new(library),
                key,
            },
            epoch: Instant::now(),
        })
    }

    /// Configuration of sessions.
    pub fn config(&self) -> &DtlsConfig {
        &self.config
    }

    fn session(&self, now: Time, trust: Trust, connects: bool) -> DtlsSession {
        let certificate = DtlsCertificate {
            certificate: self.config.certificate.der.clone(),
            private_key: self.library.key.clone(),
        };
        let library = Arc::clone(&self.library.config);
        let at = self.epoch + now.since(Time::ZERO);
        let dtls = match self.config.versions {
            Versions::Both => dimpl::Dtls::new_auto(library, certificate, at),
            Versions::Dtls12 => dimpl::Dtls::new_12(library, certificate, at),
            Versions::Dtls13 => dimpl::Dtls::new_13(library, certificate, at),
        };
        DtlsSession::new(now, dtls, self.epoch, trust, connects)
    }
}

impl SessionFactory for Dtls {
    type Session = DtlsSession;
    type Peer = Trust;

    fn overhead(&self) -> usize {
        OVERHEAD
    }

    fn lower_layer(&self) -> LowerLayer {
        LowerLayer::Dtls
    }

    fn connect(&mut self, now: Time, peer: Trust) -> DtlsSession {
        self.session(now, peer, true)
    }

    fn opens(&self, datagram: &[u8]) -> bool {
        client_hello(datagram).is_some_and(|hello| hello.random().is_some())
    }

    fn continues(&self, datagram: &[u8]) -> bool {
        client_hello(datagram).is_some_and(|hello| hello.offset > 0)
    }

    fn accept(&mut self, now: Time) -> DtlsSession {
        self.session(now, self.config.trust.clone(), false)
    }

    fn leads_to(&self, session: &DtlsSession, peer: &Trust) -> bool {
        session.leads_to(peer)
    }
}
