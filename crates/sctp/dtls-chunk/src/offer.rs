//! The offer of an endpoint: its parameter, and the protections that it begins.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carrick_proto::protection::{ChunkProtection, ChunkProtectionOffer, MAX_KEY_MESSAGE, Offers};
use carrick_proto::{ChunkType, Ppid, Time};
use carrick_wire::{CauseCode, ParameterType};
use ring::hkdf;

use crate::cipher::{CipherSuite, KeyMaterial};
use crate::config::{DtlsChunkConfig, KeySource, PreSharedSecret};
use crate::contexts::KeySet;
use crate::derive::{LABEL, SetupParameters};
use crate::error::ConfigError;
use crate::handshake::TlsConfigs;
use crate::key_manager::KeyManagerConfig;
use crate::parameter::{KeyManagementParameter, Method, PARAMETER, Role};
use crate::protection::DtlsProtection;
use crate::record::RECORD_OVERHEAD;
use crate::restart_keys::RestartKeys;

/// Type of the DTLS chunk.
pub(crate) const DTLS: ChunkType = ChunkType(0x41);

/// Payload protocol identifier of messages of the key management (section 9.5).
const KEY_MANAGEMENT: Ppid = Ppid(4242);

/// Offer of the DTLS chunk, for
/// [`SecurityConfig::protection`](carrick_proto::SecurityConfig::protection).
#[derive(Debug)]
pub struct DtlsChunk {
    shared: Shared,
    /// Keys with which the next association that this side initiates restarts one of before.
    restart_keys: Arc<Mutex<Option<RestartKeys>>>,
}

/// State that the offer and its protections have in common.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    config: Arc<Settings>,
    restart_keys: Arc<Mutex<Option<RestartKeys>>>,
}

/// Source of keys, ready for use.
#[derive(Debug)]
pub(crate) enum ReadyKeySource {
    Tls(Arc<KeyManagerConfig>),
    PreShared(PreSharedSecret),
}

struct Settings {
    config: DtlsChunkConfig,
    method: Method,
    source: ReadyKeySource,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Settings").field(&self.config).finish()
    }
}

impl DtlsChunk {
    /// Makes an offer.
    ///
    /// # Errors
    /// [`ConfigError`]: a certificate or key can't be used, or a value is out of its range.
    pub fn new(config: DtlsChunkConfig) -> Result<Self, ConfigError> {
        if config.cipher_suites.is_empty() {
            return Err(ConfigError::Range(
                "cipher_suites: there must be one at least",
            ));
        }
        let ages = Duration::from_millis(100)..=Duration::from_secs(366 * 24 * 3600);
        if !ages.contains(&config.rekey_after) {
            return Err(ConfigError::Range(
                "rekey_after: it must be 100 ms to 366 days",
            ));
        }
        if config.rekey_bytes < 1 << 20 {
            return Err(ConfigError::Range("rekey_bytes: it must be 1 MiB or more"));
        }
        if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&config.handshake_timeout)
        {
            return Err(ConfigError::Range(
                "handshake_timeout: it must be 1 s to 1 h",
            ));
        }
        if !(64..=65_536).contains(&config.replay_window) {
            return Err(ConfigError::Range(
                "replay_window: it must be 64 to 65536 records",
            ));
        }
        let (method, source) = match &config.keys {
            KeySource::Tls { identity, trust } => {
                if config.method == Method::PRE_SHARED || config.method.0 == u8::MAX {
                    return Err(ConfigError::Range("method: it must be 1 to 254 with TLS"));
                }
                let source = KeyManagerConfig {
                    tls: TlsConfigs::new(identity, trust, &config.cipher_suites)?,
                    rekey_after: config.rekey_after,
                    rekey_bytes: config.rekey_bytes,
                    handshake_timeout: config.handshake_timeout,
                    expiry: identity.expiry(),
                };
                (config.method, ReadyKeySource::Tls(Arc::new(source)))
            }
            KeySource::PreShared(secret) if secret.secret.len() < 16 => {
                return Err(ConfigError::Range(
                    "the pre-shared secret must have 16 bytes or more",
                ));
            }
            KeySource::PreShared(secret) => (
                Method::PRE_SHARED,
                ReadyKeySource::PreShared(secret.clone()),
            ),
        };
        let restart_keys = Arc::default();
        Ok(Self {
            shared: Shared {
                config: Arc::new(Settings {
                    config,
                    method,
                    source,
                }),
                restart_keys: Arc::clone(&restart_keys),
            },
            restart_keys,
        })
    }

    /// Restarts an association of before the loss of its state: the next one that this side initiates uses these
    /// keys, once. They must not be in the storage any more.
    pub fn restart_with(&self, keys: RestartKeys) {
        let mut place = self
            .restart_keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *place = Some(keys);
    }

    fn parameter(&self, tie_breaker: u32) -> KeyManagementParameter {
        let Settings { config, method, .. } = &*self.shared.config;
        KeyManagementParameter::new(tie_breaker, config.roles, config.restart, &[*method])
    }
}

impl Shared {
    pub(crate) fn replay_window(&self) -> u32 {
        self.config.config.replay_window
    }

    /// Returns the preferred cipher suite.
    pub(crate) fn suite(&self) -> CipherSuite {
        // `DtlsChunk::new` refuses an empty list.
        let suites = &self.config.config.cipher_suites;
        suites.first().copied().unwrap_or(CipherSuite::Aes128Gcm)
    }

    pub(crate) fn source(&self, method: Method) -> Option<&ReadyKeySource> {
        (method == self.config.method).then_some(&self.config.source)
    }

    pub(crate) fn take_restart_keys(&self) -> Option<RestartKeys> {
        self.restart_keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl PreSharedSecret {
    /// Derives the keys that `sender` protects records with by HKDF with SHA-256 (RFC 5869). Its information is the
    /// label and the context of the exporter (draft-porfiri-tsvwg-sctp-dtls-handshake, section 5.2) behind the
    /// number of the cipher suite.
    pub(crate) fn keys(
        &self,
        suite: CipherSuite,
        parameters: &SetupParameters,
        sender: Role,
    ) -> Option<[(KeySet, KeyMaterial); 2]> {
        struct Length(usize);
        impl hkdf::KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&self.secret);
        let number = suite.number().to_be_bytes();
        let keys = |set| {
            let material = parameters.derive(suite, sender, set, |context, bytes| {
                let information = [LABEL, &number, context];
                let expanded = extracted.expand(&information, Length(bytes.len()));
                expanded.and_then(|expanded| expanded.fill(bytes)).is_ok()
            });
            material.map(|material| (set, material))
        };
        Some([keys(KeySet::Primary)?, keys(KeySet::Restart)?])
    }
}

impl ChunkProtectionOffer for DtlsChunk {
    fn chunk_type(&self) -> ChunkType {
        DTLS
    }

    fn parameter_type(&self) -> ParameterType {
        PARAMETER
    }

    fn value(&self, random: u32) -> Vec<u8> {
        self.parameter(random).encode()
    }

    fn overhead(&self) -> usize {
        RECORD_OVERHEAD
    }

    /// Agrees with a peer that has a common method and complementary roles. In strict mode any other is refused
    /// (section 5.1); equal tie breakers are refused in both modes.
    fn agree(&self, ours: &[u8], theirs: Option<&[u8]>) -> Result<bool, CauseCode> {
        let required = self.is_required();
        let Some(theirs) = theirs else {
            let missing = CauseCode::MISSING_DTLS_CHUNK;
            return if required { Err(missing) } else { Ok(false) };
        };
        match KeyManagementParameter::agree_on_values(ours, theirs) {
            Ok(_) => Ok(true),
            Err(refusal) if required || refusal == CauseCode::TIE_BREAKER_COLLISION => Err(refusal),
            Err(_) => Ok(false),
        }
    }

    fn is_required(&self) -> bool {
        self.shared.config.config.required
    }

    fn key_management(&self) -> Option<Ppid> {
        Some(KEY_MANAGEMENT)
    }

    fn begin(&self, offers: &Offers<'_>) -> Box<dyn ChunkProtection> {
        // The core begins protections with values on which it has agreed.
        let agreement = KeyManagementParameter::agree_on_values(offers.ours, offers.theirs);
        Box::new(match agreement {
            Ok(agreement) => DtlsProtection::new(self.shared.clone(), agreement, offers),
            Err(refusal) => DtlsProtection::refused(self.shared.clone(), refusal),
        })
    }

    fn import(&self, now: Time, state: &[u8]) -> Option<Box<dyn ChunkProtection>> {
        let imported = DtlsProtection::import(self.shared.clone(), now, state).ok()?;
        Some(Box::new(imported))
    }
}

const _: () = assert!(
    MAX_KEY_MESSAGE >= 1 << 14,
    "a TLS record fits into a message"
);
