//! Private key of this side's certificate.
//!
//! The library loads the key for each session, before the peer's first message, and computes the public key
//! then. Here a session gets the encoded key, which is loaded when the session signs: after the peer has
//! returned the cookie (RFC 6347, section 4.2.1; RFC 9147, section 5.1).

use std::fmt;

use dimpl::CryptoError;
use dimpl::crypto::rust_crypto::default_provider;
use dimpl::crypto::{
    Buf, CryptoProvider, HashAlgorithm, KeyProvider, SignatureAlgorithm, SigningKey,
};

use crate::certificate::Certificate;
use crate::error::DtlsConfigError;

/// Returns the library's cryptography, with keys from [`checked_key`].
pub(crate) fn crypto() -> CryptoProvider {
    CryptoProvider {
        key_provider: &DeferredKeys,
        ..default_provider()
    }
}

/// Loads the private key once, checks that it belongs to the certificate, and returns it as sessions with
/// [`crypto`] take it: the byte of [`hash_of`], then the DER.
pub(crate) fn checked_key(certificate: &Certificate) -> Result<Vec<u8>, DtlsConfigError> {
    let refused = |what: String| DtlsConfigError(format!("certificate: {what}"));
    let provider = default_provider();
    let mut key = provider
        .key_provider
        .load_private_key(&certificate.key)
        .map_err(|error| {
            let wanted = "give a key on P-256 or P-384, as PKCS #8 or SEC 1 has it";
            refused(format!("cannot read the private key ({error}): {wanted}"))
        })?;
    let hash = key.hash_algorithm();
    let mut signature = Buf::new();
    let text = b"the key belongs to the certificate";
    key.sign(text, hash, &mut signature)
        .map_err(|error| refused(format!("cannot sign with the private key: {error}")))?;
    provider
        .signature_verification
        .verify_signature(&certificate.der, text, &signature, hash, key.algorithm())
        .map_err(|error| {
            let wanted = "give the certificate and the key of one pair";
            refused(format!(
                "the private key does not belong to it ({error}): {wanted}"
            ))
        })?;
    let marker = if hash == HashAlgorithm::SHA384 {
        SHA384
    } else {
        SHA256
    };
    Ok([&[marker], &certificate.key[..]].concat())
}

const SHA256: u8 = 32;
const SHA384: u8 = 48;

/// Hash with which a key signs, by the first byte of its form for sessions: SHA-256 on P-256, SHA-384 on
/// P-384.
fn hash_of(marker: u8) -> Option<HashAlgorithm> {
    match marker {
        SHA256 => Some(HashAlgorithm::SHA256),
        SHA384 => Some(HashAlgorithm::SHA384),
        _ => None,
    }
}

#[derive(Debug)]
struct DeferredKeys;

impl KeyProvider for DeferredKeys {
    fn load_private_key(&self, key: &[u8]) -> Result<Box<dyn SigningKey>, CryptoError> {
        let (marker, der) = key.split_first().ok_or(CryptoError::InvalidPrivateKey)?;
        Ok(Box::new(DeferredKey {
            hash: hash_of(*marker).ok_or(CryptoError::InvalidPrivateKey)?,
            der: der.to_vec(),
        }))
    }
}

/// Key that is loaded for each signature; a session makes one.
struct DeferredKey {
    hash: HashAlgorithm,
    der: Vec<u8>,
}

impl fmt::Debug for DeferredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredKey")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl SigningKey for DeferredKey {
    fn sign(&mut self, data: &[u8], hash: HashAlgorithm, out: &mut Buf) -> Result<(), CryptoError> {
        let provider = default_provider();
        let mut key = provider.key_provider.load_private_key(&self.der)?;
        key.sign(data, hash, out)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        self.hash
    }

    fn supported_hash_algorithms(&self) -> &[HashAlgorithm] {
        &[HashAlgorithm::SHA256, HashAlgorithm::SHA384]
    }
}
