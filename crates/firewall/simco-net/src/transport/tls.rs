//! TLS over TCP, with rustls and ring.

use std::path::Path;
use std::sync::Arc;

use carrick_simco::PeerText;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{MessageLink, tcp};
use carrick_simco::private_files;

/// Error of TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read or parsed.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// The error.
        why: String,
    },
    /// Certificate and key don't match, or another configuration error.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
    /// The name of the middlebox is neither a DNS name nor an address.
    #[error("invalid server name {0:?}: give a DNS name or an IP address")]
    Name(String),
    /// The handshake failed.
    #[error("TLS handshake failed: {}", describe(.0))]
    SetUp(#[from] std::io::Error),
}

/// Describes handshake errors for which the library has no clear text.
fn describe(error: &std::io::Error) -> String {
    let inner = error.get_ref();
    let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(rustls::Error::InvalidCertificate(CertificateError::Other(other))) = inner
        && other.0.to_string() == "CaUsedAsEndEntity"
    {
        return "the middlebox's certificate is that of an authority (CA:TRUE), which proves no host: give it one with CA:FALSE (openssl: -addext basicConstraints=critical,CA:FALSE)".into();
    }
    // The text may quote names of the peer's certificate.
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

/// Returns the configuration of the middlebox: a certificate chain and its private key in PEM files.
///
/// # Errors
/// When a file can't be read, other users can read the key, or they don't match.
pub fn server(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    private_files::check(key).map_err(|why| file_error(key, &why))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| file_error(key, &e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates(chain)?, private)?;
    Ok(Arc::new(config))
}

/// Returns the configuration of the agent: trusted CA or server certificates in a PEM file.
///
/// # Errors
/// When the file can't be read or contains no certificate.
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

/// Performs the server side of the handshake. Not bounded in time.
///
/// # Errors
/// The handshake fails.
pub async fn accept(stream: TcpStream, config: Arc<ServerConfig>) -> Result<MessageLink, TlsError> {
    stream.set_nodelay(true)?;
    let peer = stream.peer_addr()?;
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let (reader, writer) = tokio::io::split(stream);
    Ok(MessageLink {
        address: Some(peer.ip()),
        ..tcp::over(reader, writer, true, format!("tls {peer}"))
    })
}

/// Performs the client side of the handshake with the middlebox of this name.
///
/// # Errors
/// The handshake fails, e.g. because the certificate has another name.
pub async fn connect(
    stream: TcpStream,
    name: &str,
    config: Arc<ClientConfig>,
) -> Result<MessageLink, TlsError> {
    stream.set_nodelay(true)?;
    let peer = stream.peer_addr()?;
    let server = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.into()))?;
    let stream = TlsConnector::from(config).connect(server, stream).await?;
    let (reader, writer) = tokio::io::split(stream);
    Ok(MessageLink {
        address: Some(peer.ip()),
        ..tcp::over(reader, writer, true, format!("tls {peer}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of a certificate are the peer's choice.
    #[test]
    fn handshake_errors_are_a_single_line() {
        let error =
            std::io::Error::other("not valid for \"a\u{1b}]0;owned\u{7}\nagent: connected\"");
        let text = describe(&error);
        assert!(text.contains("not valid for"), "{text}");
        assert!(!text.contains(char::is_control), "{text}");
    }
}
