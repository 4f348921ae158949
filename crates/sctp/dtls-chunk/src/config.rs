//! Configuration of the DTLS chunk.

use std::fmt;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::cipher::CipherSuite;
use crate::parameter::{Method, Roles};
use crate::record::DEFAULT_WINDOW;
use crate::trust::{Identity, Trust};

/// Origin of the keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KeySource {
    /// Handshakes of TLS 1.3 (draft-porfiri-tsvwg-sctp-dtls-handshake), in which both sides prove their identity.
    Tls {
        /// Certificates and key of this side.
        identity: Identity,
        /// Peers that may connect, and to which this side connects.
        trust: Trust,
    },
    /// A secret that both sides were configured with (method 0).
    PreShared(PreSharedSecret),
}

/// Secret of which both sides derive the keys of an association, with the parameters of its set-up.
///
/// It has no forward secrecy and no new keys during an association. The parameters of a set-up have 64 random bits
/// together: after some billions of associations, or of set-ups by an attacker who repeats a client's parameter,
/// two associations may have equal keys, which discloses their data. Use it for tests and for few associations;
/// The cipher suite is the first of [`DtlsChunkConfig::cipher_suites`], which has to be the same on both sides, and the
/// association ends when it has protected as many packets as that allows (23.7 million with AES-GCM).
/// [`KeySource::Tls`] has none of these limits.
#[derive(Clone)]
pub struct PreSharedSecret {
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

impl PreSharedSecret {
    /// Makes a secret of random bytes, at least 16.
    pub fn new(secret: &[u8]) -> Self {
        Self {
            secret: secret.to_vec().into(),
        }
    }
}

impl fmt::Debug for PreSharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreSharedSecret")
    }
}

/// Configuration of the DTLS chunk.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DtlsChunkConfig {
    /// Origin of the keys.
    pub keys: KeySource,
    /// Identifier of the method of TLS handshakes; both sides need the same. Default: [`Method::TLS`].
    pub method: Method,
    /// Roles of this side in the key management. Default: both.
    pub roles: Roles,
    /// Refuses peers without the DTLS chunk (strict mode). Default: `true`. Otherwise associations with such peers
    /// are in the clear, and an attacker on the path can cause that by removing the parameter.
    pub required: bool,
    /// Negotiates the protected restart, and derives keys for it. Default: `true`.
    pub restart: bool,
    /// Cipher suites, the preferred one first. Default: all.
    pub cipher_suites: Vec<CipherSuite>,
    /// Age at which keys are replaced, 100 ms to 366 days. At twice this age without new keys the association is
    /// aborted. Default: 1 hour.
    pub rekey_after: Duration,
    /// Bytes in both directions after which keys are replaced, at least 1 MiB. Default: 100 GB.
    pub rekey_bytes: u64,
    /// Time within which the handshakes of a set-up, and of new keys, have to complete, 1 s to 1 h. Default: 30 s.
    pub handshake_timeout: Duration,
    /// Records that the replay window covers, 64 to 65536. Default: 4096: paths may differ in delay by as many packets.
    pub replay_window: u32,
}

impl DtlsChunkConfig {
    /// Returns the default configuration with keys of TLS handshakes.
    pub fn tls(identity: Identity, trust: Trust) -> Self {
        Self::new(KeySource::Tls { identity, trust })
    }

    /// Returns the default configuration with a pre-shared secret.
    pub fn pre_shared(secret: PreSharedSecret) -> Self {
        Self::new(KeySource::PreShared(secret))
    }

    fn new(keys: KeySource) -> Self {
        Self {
            keys,
            method: Method::TLS,
            roles: Roles::Both,
            required: true,
            restart: true,
            cipher_suites: CipherSuite::ALL.to_vec(),
            rekey_after: Duration::from_secs(3600),
            rekey_bytes: 100_000_000_000,
            handshake_timeout: Duration::from_secs(30),
            replay_window: DEFAULT_WINDOW,
        }
    }
}
