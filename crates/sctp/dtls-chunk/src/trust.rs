//! Identity of this side, and the peers that it trusts.

use std::fmt;
use std::sync::Arc;

use carrick_dtls::{Certificate, Fingerprint};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_cert::der::{Decode, Encode};

use crate::error::ConfigError;

/// Certificate chain of this side, its own certificate first, with the private key.
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Makes an identity of certificates in DER, the own one first, and its private key in DER of PKCS #8, PKCS #1 or
    /// SEC 1.
    ///
    /// # Errors
    /// There is no certificate, or the key can't be read.
    pub fn from_der(chain: Vec<Vec<u8>>, private_key: Vec<u8>) -> Result<Self, ConfigError> {
        let key = PrivateKeyDer::try_from(private_key);
        let key = key.map_err(|error| ConfigError::PrivateKey(error.to_owned()))?;
        Self::of(chain.into_iter().map(CertificateDer::from).collect(), key)
    }

    /// Makes an identity of files in PEM: certificates, the own one first, and its private key.
    ///
    /// # Errors
    /// There is no certificate or no key, or one can't be read.
    pub fn from_pem(certificates: &[u8], private_key: &[u8]) -> Result<Self, ConfigError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
        let chain = chain.map_err(|error| ConfigError::Certificate(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(private_key);
        Self::of(
            chain,
            key.map_err(|error| ConfigError::PrivateKey(error.to_string()))?,
        )
    }

    fn of(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, ConfigError> {
        if chain.is_empty() {
            return Err(ConfigError::Certificate("there is none".into()));
        }
        Ok(Self { chain, key })
    }

    /// Returns the SHA-256 fingerprint of the own certificate, by which peers may trust it.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }

    /// Returns the end of the validity of the first certificate that expires, in seconds since 1970.
    pub(crate) fn expiry(&self) -> Option<u64> {
        self.chain
            .iter()
            .filter_map(|certificate| expiry(certificate))
            .min()
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self {
            chain: self.chain.clone(),
            key: self.key.clone_key(),
        }
    }
}

impl TryFrom<Certificate> for Identity {
    type Error = ConfigError;

    fn try_from(certificate: Certificate) -> Result<Self, ConfigError> {
        let key = certificate.private_key().to_vec();
        Self::from_der(vec![certificate.der().to_vec()], key)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity")
            .field(&self.fingerprint())
            .finish()
    }
}

/// Peers that are trusted. The handshake proves in any case that a peer has the key of its certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Peers whose own certificate has one of these SHA-256 fingerprints. Its dates and names are not examined.
    Fingerprints(Vec<Fingerprint>),
    /// Peers with a certificate chain to one of these certificates in DER, whose dates are valid.
    Authorities {
        /// Certificates of the authorities in DER.
        certificates: Vec<Vec<u8>>,
        /// DNS name or IP address that the peer's certificate must have; `None` for any.
        name: Option<String>,
    },
}

impl Trust {
    /// Trusts the peer with this certificate.
    pub fn fingerprint(fingerprint: Fingerprint) -> Self {
        Self::Fingerprints(vec![fingerprint])
    }

    /// Trusts the authorities whose certificates a file in PEM contains.
    ///
    /// # Errors
    /// There is no certificate, or one can't be read.
    pub fn authorities_from_pem(certificates: &[u8]) -> Result<Self, ConfigError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates)
            .map(|certificate| certificate.map(|der| der.to_vec()))
            .collect();
        let certificates = read.map_err(|error| ConfigError::Authority(error.to_string()))?;
        if certificates.is_empty() {
            return Err(ConfigError::Authority("there is none".into()));
        }
        Ok(Self::Authorities {
            certificates,
            name: None,
        })
    }
}

/// Who a peer has proved to be. It may not change during an association.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PeerIdentity {
    /// The fingerprint of its certificate if that is trusted by its fingerprint, else that of its subject and
    /// alternative names, so that a certificate may be renewed.
    pub(crate) digest: Fingerprint,
    /// End of the validity of its chain in seconds since 1970.
    pub(crate) expiry: Option<u64>,
}

/// Checks the certificates of peers in both roles of TLS.
pub(crate) struct PeerVerifier {
    trust: Trust,
    anchors: Vec<TrustAnchor<'static>>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for PeerVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeerVerifier").field(&self.trust).finish()
    }
}

/// Reason for which a certificate is not trusted.
#[derive(Debug)]
struct Untrusted(String);

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Untrusted {}

impl PeerVerifier {
    pub(crate) fn new(trust: &Trust, provider: Arc<CryptoProvider>) -> Result<Self, ConfigError> {
        let mut anchors = Vec::new();
        if let Trust::Authorities { certificates, name } = trust {
            for der in certificates {
                let der = CertificateDer::from(der.as_slice());
                let anchor = anchor_from_trusted_cert(&der);
                let anchor = anchor.map_err(|error| ConfigError::Authority(error.to_string()))?;
                anchors.push(anchor.to_owned());
            }
            if let Some(name) = name {
                let valid = ServerName::try_from(name.as_str());
                valid.map_err(|_| ConfigError::PeerName(name.clone()))?;
            }
        }
        Ok(Self {
            trust: trust.clone(),
            anchors,
            provider,
        })
    }

    /// Checks the certificate of a peer: by its fingerprint, or by its chain, dates and name. A certificate for
    /// either role of TLS is accepted, since a peer may have each of them in later handshakes.
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let reason = match &self.trust {
            Trust::Fingerprints(known) if known.contains(&Fingerprint::of(certificate)) => None,
            Trust::Fingerprints(_) => Some("its fingerprint is not among the trusted ones".into()),
            Trust::Authorities { name, .. } => self
                .check_chain(certificate, intermediates, now, name.as_deref())
                .err(),
        };
        let Some(reason) = reason else {
            return Ok(());
        };
        let fingerprint = Fingerprint::of(certificate);
        let text = format!("the certificate (SHA-256 {fingerprint}) is not trusted: {reason}");
        let other = OtherError(Arc::new(Untrusted(text)));
        Err(CertificateError::Other(other).into())
    }

    fn check_chain(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        name: Option<&str>,
    ) -> Result<(), String> {
        let parsed = EndEntityCert::try_from(certificate).map_err(|error| error.to_string())?;
        let verify = |usage| {
            let algorithms = self.provider.signature_verification_algorithms.all;
            parsed
                .verify_for_usage(
                    algorithms,
                    &self.anchors,
                    intermediates,
                    now,
                    usage,
                    None,
                    None,
                )
                .map(drop)
        };
        verify(KeyUsage::server_auth())
            .or_else(|_| verify(KeyUsage::client_auth()))
            .map_err(|error| error.to_string())?;
        if let Some(name) = name {
            let expected = ServerName::try_from(name).map_err(|error| error.to_string())?;
            let named = parsed.verify_is_valid_for_subject_name(&expected);
            named.map_err(|_| format!("it is not for the name {name}"))?;
        }
        Ok(())
    }

    /// Returns who a peer with this chain is.
    pub(crate) fn identity(&self, chain: &[CertificateDer<'_>]) -> Option<PeerIdentity> {
        let own = chain.first()?;
        let expiries = chain.iter().filter_map(|certificate| expiry(certificate));
        Some(match self.trust {
            Trust::Fingerprints(_) => PeerIdentity {
                digest: Fingerprint::of(own),
                expiry: None,
            },
            Trust::Authorities { .. } => PeerIdentity {
                digest: Fingerprint::of(&names(own)?),
                expiry: expiries.min(),
            },
        })
    }
}

/// Returns subject and alternative names of a certificate.
fn names(certificate: &[u8]) -> Option<Vec<u8>> {
    /// Subject Alternative Name (RFC 5280, section 4.2.1.6).
    const ALTERNATIVE_NAME: &str = "2.5.29.17";
    let parsed = x509_cert::Certificate::from_der(certificate).ok()?;
    let parsed = parsed.tbs_certificate();
    let mut names = parsed.subject().to_der().ok()?;
    for extension in parsed.extensions().into_iter().flatten() {
        if extension.extn_id.to_string() == ALTERNATIVE_NAME {
            names.extend_from_slice(extension.extn_value.as_bytes());
        }
    }
    Some(names)
}

/// Returns the end of the validity of a certificate in seconds since 1970.
fn expiry(certificate: &[u8]) -> Option<u64> {
    let parsed = x509_cert::Certificate::from_der(certificate).ok()?;
    let end = parsed.tbs_certificate().validity().not_after;
    Some(end.to_unix_duration().as_secs())
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity, intermediates, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity, intermediates, now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ServerCertVerifier::verify_tls13_signature(self, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ServerCertVerifier::supported_verify_schemes(self)
    }
}
