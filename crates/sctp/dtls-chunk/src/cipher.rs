//! Cipher suites and key material (draft-ietf-tsvwg-sctp-dtls-chunk, sections 3.1.1 and 7.4).

use std::fmt;

use carrick_proto::export::{ExportReader, ExportWriter, ImportError, Portable};
use ring::aead::{self, quic};
use zeroize::Zeroizing;

/// Number of records that may fail to authenticate with one key, of any of the cipher suites (RFC 9147, section
/// 4.5.3).
pub(crate) const INTEGRITY_LIMIT: u64 = 1 << 36;

/// Length of an initialization vector in bytes.
pub(crate) const IV_LEN: usize = aead::NONCE_LEN;

/// Cipher suite of TLS 1.3, by which records are protected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CipherSuite {
    /// `TLS_AES_128_GCM_SHA256`, which all implementations have.
    Aes128Gcm,
    /// `TLS_AES_256_GCM_SHA384`.
    Aes256Gcm,
    /// `TLS_CHACHA20_POLY1305_SHA256`.
    ChaCha20Poly1305,
}

impl CipherSuite {
    /// All cipher suites, the preferred one first (abstract API, section 7.3).
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Returns the number of the IANA registry.
    pub const fn number(self) -> u16 {
        match self {
            Self::Aes128Gcm => 0x1301,
            Self::Aes256Gcm => 0x1302,
            Self::ChaCha20Poly1305 => 0x1303,
        }
    }

    /// Returns the cipher suite with a number of the IANA registry.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.number() == number)
    }

    /// Returns the length of the record payload key and of the sequence number key in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Returns the number of records that may be protected with one key (RFC 8446, section 5.5). ChaCha20-Poly1305
    /// is limited by the 48 bits of the sequence number alone (RFC 9147, section 4.5.3).
    pub(crate) const fn confidentiality_limit(self) -> u64 {
        match self {
            // 2^24.5, rounded down.
            Self::Aes128Gcm | Self::Aes256Gcm => 23_726_566,
            Self::ChaCha20Poly1305 => (1 << 48) - 1,
        }
    }

    pub(crate) fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128Gcm => &aead::AES_128_GCM,
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }

    /// Returns the algorithm of record number encryption (RFC 9147, section 4.2.3), which is that of QUIC.
    pub(crate) fn record_number(self) -> &'static quic::Algorithm {
        match self {
            Self::Aes128Gcm => &quic::AES_128,
            Self::Aes256Gcm => &quic::AES_256,
            Self::ChaCha20Poly1305 => &quic::CHACHA20,
        }
    }
}

impl Portable for CipherSuite {
    fn write(&self, out: &mut ExportWriter) {
        self.number().write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        Self::from_number(Portable::read(input)?).ok_or(ImportError::Malformed("CipherSuite"))
    }
}

/// Key material has a wrong length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the {part} has {len} bytes, but the cipher suite takes {expected}")]
pub struct KeyMaterialError {
    part: &'static str,
    len: usize,
    expected: usize,
}

/// All that protects the records of one direction: record payload key, initialization vector, sequence number
/// key. It is overwritten when it is dropped, and not shown by `Debug`.
#[derive(Clone)]
pub struct KeyMaterial {
    suite: CipherSuite,
    key: Zeroizing<Vec<u8>>,
    iv: Zeroizing<Vec<u8>>,
    number_key: Zeroizing<Vec<u8>>,
}

impl KeyMaterial {
    /// Makes key material of the bytes of the record payload key, the initialization vector (12 bytes) and the
    /// sequence number key.
    ///
    /// # Errors
    /// A length is not that of the cipher suite.
    pub fn new(
        suite: CipherSuite,
        key: &[u8],
        iv: &[u8],
        number_key: &[u8],
    ) -> Result<Self, KeyMaterialError> {
        for (part, bytes, expected) in [
            ("record payload key", key, suite.key_len()),
            ("initialization vector", iv, IV_LEN),
            ("sequence number key", number_key, suite.key_len()),
        ] {
            if bytes.len() != expected {
                let len = bytes.len();
                return Err(KeyMaterialError {
                    part,
                    len,
                    expected,
                });
            }
        }
        Ok(Self {
            suite,
            key: key.to_vec().into(),
            iv: iv.to_vec().into(),
            number_key: number_key.to_vec().into(),
        })
    }

    /// Returns the cipher suite.
    pub fn suite(&self) -> CipherSuite {
        self.suite
    }

    /// Returns the keys as algorithms use them.
    pub(crate) fn schedule(&self) -> Option<Schedule> {
        let payload = aead::UnboundKey::new(self.suite.aead(), &self.key).ok()?;
        let number = quic::HeaderProtectionKey::new(self.suite.record_number(), &self.number_key);
        Some(Schedule {
            payload: aead::LessSafeKey::new(payload),
            iv: self.iv[..].try_into().ok()?,
            number: number.ok()?,
        })
    }
}

impl fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyMaterial").field(&self.suite).finish()
    }
}

impl Portable for KeyMaterial {
    fn write(&self, out: &mut ExportWriter) {
        self.suite.write(out);
        for part in [&self.key, &self.iv, &self.number_key] {
            out.octets(part);
        }
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let suite = Portable::read(input)?;
        let mut part = || input.octets().map(|bytes| Zeroizing::new(bytes.to_vec()));
        let (key, iv, number_key) = (part()?, part()?, part()?);
        Self::new(suite, &key, &iv, &number_key).map_err(|_| ImportError::Malformed("KeyMaterial"))
    }
}

/// Keys of one direction as algorithms use them.
pub(crate) struct Schedule {
    pub(crate) payload: aead::LessSafeKey,
    iv: [u8; IV_LEN],
    pub(crate) number: quic::HeaderProtectionKey,
}

impl Schedule {
    /// Returns the nonce of a record: the initialization vector, and the 64-bit sequence number added to its end by XOR
    /// (RFC 8446, section 5.3).
    pub(crate) fn nonce(&self, sequence: u64) -> aead::Nonce {
        let mut nonce = self.iv;
        let number = sequence.to_be_bytes();
        let end = &mut nonce[IV_LEN - number.len()..];
        end.iter_mut()
            .zip(number)
            .for_each(|(byte, of_number)| *byte ^= of_number);
        aead::Nonce::assume_unique_for_key(nonce)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schedule")
    }
}
