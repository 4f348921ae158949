//! TLS on TCP, by rustls with ring's cryptography.

use std::path::Path;
use std::sync::Arc;

use carrick_proto::PeerText;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{Link, tcp};
use crate::private;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read, or is not what it should be.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The parts don't fit together.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
    /// The name of the middlebox is neither a DNS name nor an address.
    #[error("{0:?} is no name that a certificate can have: give a DNS name or an address")]
    Name(String),
    /// The set-up failed.
    #[error("no TLS session: {}", describe(.0))]
    SetUp(#[from] std::io::Error),
}

/// What a set-up fails for, in words where the library has none.
fn describe(error: &std::io::Error) -> String {
    let inner = error.get_ref();
    let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(rustls::Error::InvalidCertificate(CertificateError::Other(other))) = inner
        && other.0.to_string() == "CaUsedAsEndEntity"
    {
        return "the middlebox's certificate is that of an authority (CA:TRUE), which proves no host: give it one with CA:FALSE (openssl: -addext basicConstraints=critical,CA:FALSE)".into();
    }
    // It may quote names of the peer's certificate.
    PeerText::new(&error.to_string()).to_string()
}

fn file_error(path: &Path, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::File {
        path: path.display().to_string(),
        why: why.to_string(),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|e| file_error(path, &e))?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|e| file_error(path, &e))?;
    if found.is_empty() {
        return Err(file_error(path, &"no certificate in PEM form in it"));
    }
    Ok(found)
}

/// The middlebox's side: a certificate chain and its private key, both in PEM files.
///
/// # Errors
/// When a file can't be read, other users can read the key, or they don't fit together.
pub fn server(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    private::check(key).map_err(|why| file_error(key, &why))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| file_error(key, &e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates(chain)?, private)?;
    Ok(Arc::new(config))
}

/// The agent's side: the certificates that it trusts to sign that of the middlebox, in a PEM file.
///
/// # Errors
/// When the file can't be read, or holds none.
pub fn client(roots: &Path) -> Result<Arc<ClientConfig>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(roots)? {
        store.add(certificate)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Waits for the peer's set-up.
///
/// # Errors
/// When it fails. It may take as long as the peer wants: to be bounded by the caller.
pub async fn accept(stream: TcpStream, config: Arc<ServerConfig>) -> Result<Link, TlsError> {
    stream.set_nodelay(true)?;
    let peer = stream.peer_addr()?;
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let (reader, writer) = tokio::io::split(stream);
    Ok(Link {
        address: Some(peer.ip()),
        ..tcp::over(reader, writer, true, format!("tls {peer}"))
    })
}

/// Sets TLS up with the middlebox of this name.
///
/// # Errors
/// When that fails, above all because the middlebox can't prove its name.
pub async fn connect(
    stream: TcpStream,
    name: &str,
    config: Arc<ClientConfig>,
) -> Result<Link, TlsError> {
    stream.set_nodelay(true)?;
    let peer = stream.peer_addr()?;
    let server = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.into()))?;
    let stream = TlsConnector::from(config).connect(server, stream).await?;
    let (reader, writer) = tokio::io::split(stream);
    Ok(Link {
        address: Some(peer.ip()),
        ..tcp::over(reader, writer, true, format!("tls {peer}"))
    })
}
