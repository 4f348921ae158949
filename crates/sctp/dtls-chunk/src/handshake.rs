//! One handshake of TLS 1.3, whose records are messages of the association (draft-porfiri-tsvwg-sctp-dtls-handshake,
//! sections 3 and 4).

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, Error, ServerConfig,
    ServerConnection,
};
use rustls_pki_types::ServerName;

use crate::cipher::{CipherSuite, KeyMaterial};
use crate::contexts::KeySet;
use crate::derive::{LABEL, SetupParameters};
use crate::error::ConfigError;
use crate::parameter::Role;
use crate::trust::{Identity, PeerIdentity, PeerVerifier, Trust};

/// Bytes of a handshake that are accepted of the peer.
const MAX_RECEIVED: usize = 1 << 16;

/// Content type of handshake messages, and the types of two of them (RFC 8446, sections 4 and 5.1).
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const RECORD_HEADER: usize = 5;

/// Configurations of TLS in both roles.
pub(crate) struct TlsConfigs {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    verifier: Arc<PeerVerifier>,
}

impl fmt::Debug for TlsConfigs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsConfigs").field(&self.verifier).finish()
    }
}

impl TlsConfigs {
    /// Makes the configurations: TLS 1.3 alone, both sides with certificates, the cipher suites of the DTLS chunk
    /// (section 3.2), no tickets, no early data.
    pub(crate) fn new(
        identity: &Identity,
        trust: &Trust,
        suites: &[CipherSuite],
    ) -> Result<Self, ConfigError> {
        let failed = |error: Error| ConfigError::Tls(error.to_string());
        let mut provider = ring::default_provider();
        let all = std::mem::take(&mut provider.cipher_suites);
        for suite in suites {
            let of_tls = all
                .iter()
                .filter(|of| u16::from(of.suite()) == suite.number());
            provider.cipher_suites.extend(of_tls);
        }
        let provider: Arc<CryptoProvider> = Arc::new(provider);
        let verifier = Arc::new(PeerVerifier::new(trust, Arc::clone(&provider))?);
        let (chain, key) = (identity.chain.clone(), identity.key.clone_key());
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(failed)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(failed)?;
        client.enable_sni = false;
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(failed)?
            .with_client_cert_verifier(Arc::clone(&verifier) as _)
            .with_single_cert(chain, key)
            .map_err(failed)?;
        server.send_tls13_tickets = 0;
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
            verifier,
        })
    }

    /// Begins a handshake in a role of TLS.
    pub(crate) fn begin(&self, role: Role) -> Result<Handshake, String> {
        let text = |error: Error| error.to_string();
        let connection = match role {
            Role::Client => {
                // Not sent, since Server Name Indication is off, and not compared.
                let name = ServerName::try_from("peer").map_err(|error| error.to_string())?;
                ClientConnection::new(Arc::clone(&self.client), name)
                    .map_err(text)?
                    .into()
            }
            Role::Server => ServerConnection::new(Arc::clone(&self.server))
                .map_err(text)?
                .into(),
        };
        Ok(Handshake {
            connection,
            role,
            received: 0,
        })
    }

    /// Returns who the peer of a complete handshake is.
    pub(crate) fn peer(&self, handshake: &Handshake) -> Option<PeerIdentity> {
        self.verifier
            .identity(handshake.connection.peer_certificates()?)
    }
}

/// Handshake in progress.
pub(crate) struct Handshake {
    connection: Connection,
    /// Role of this side in TLS.
    role: Role,
    received: usize,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// Key material of one direction.
pub(crate) type DirectionKeys = [(KeySet, KeyMaterial); 2];

impl Handshake {
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Returns whether it is complete: keys can be exported.
    pub(crate) fn is_complete(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Processes TLS records of the peer.
    ///
    /// # Errors
    /// The reason why the handshake failed. [`Self::records`] may have an alert for the peer.
    pub(crate) fn process(&mut self, mut records: &[u8]) -> Result<(), String> {
        self.received += records.len();
        if self.received > MAX_RECEIVED {
            return Err(format!(
                "the peer's handshake has more than {MAX_RECEIVED} bytes"
            ));
        }
        while !records.is_empty() {
            let read = self.connection.read_tls(&mut records);
            read.map_err(|error| format!("the peer's TLS records can't be read: {error}"))?;
            self.connection
                .process_new_packets()
                .map_err(|error| reason(&error))?;
        }
        Ok(())
    }

    /// Returns the TLS records for the peer.
    pub(crate) fn records(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        while self.connection.wants_write() {
            // Writing to memory does not fail.
            if self.connection.write_tls(&mut records).is_err() {
                break;
            }
        }
        records
    }

    /// Exports the key material that `sender` protects records with; `None` before the handshake is complete.
    pub(crate) fn export(
        &self,
        parameters: &SetupParameters,
        sender: Role,
    ) -> Option<DirectionKeys> {
        let suite = u16::from(self.connection.negotiated_cipher_suite()?.suite());
        let suite = CipherSuite::from_number(suite)?;
        let keys = |set| {
            let exported = parameters.derive(suite, sender, set, |context, bytes| {
                self.connection
                    .export_keying_material(bytes, LABEL, Some(context))
                    .is_ok()
            });
            exported.map(|material| (set, material))
        };
        Some([keys(KeySet::Primary)?, keys(KeySet::Restart)?])
    }
}

/// Returns whether TLS records begin with a `ClientHello`.
pub(crate) fn is_client_hello(records: &[u8]) -> bool {
    records.first() == Some(&HANDSHAKE) && records.get(RECORD_HEADER) == Some(&CLIENT_HELLO)
}

/// Returns whether TLS records begin with a `HelloRetryRequest`: a `ServerHello` with one random value (RFC 8446, section
/// 4.1.3).
pub(crate) fn is_hello_retry_request(records: &[u8]) -> bool {
    const BEGINNING_OF_RANDOM: [u8; 8] = [0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11];
    const RANDOM: usize = RECORD_HEADER + 4 + 2;
    records.get(RANDOM..RANDOM + 8) == Some(&BEGINNING_OF_RANDOM[..])
}

/// Returns the reason of a failed handshake: what was refused by which side.
fn reason(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) => other.0.to_string(),
        Error::InvalidCertificate(error) => {
            format!("the certificate is not valid: {error}")
        }
        Error::NoCertificatesPresented => "no certificate was presented".into(),
        Error::AlertReceived(alert) => {
            format!("the other side has refused the handshake: TLS alert {alert:?}")
        }
        error => format!("TLS handshake: {error}"),
    }
}
