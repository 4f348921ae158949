//! Authentication extensions (RFC 5944, sections 3.5 and 5.1): HMAC-MD5 over all preceding bytes.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Type      |  Length = 20  |              SPI
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!            SPI (cont.)          |  Authenticator (16 bytes) ...
//! ```

use core::fmt;

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;

use crate::error::ConfigError;

/// Length of an HMAC-MD5 authenticator in bytes.
pub(super) const AUTHENTICATOR: usize = 16;
/// Length of SPI and authenticator.
const DATA: usize = 4 + AUTHENTICATOR;

/// Parties of an authentication extension; the number is the extension type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AuthenticationKind {
    /// Mobile node and home agent.
    MobileHome = 32,
    /// Mobile node and foreign agent.
    MobileForeign = 33,
    /// Foreign agent and home agent.
    ForeignHome = 34,
}

/// Mobility security association: a key and its SPI. The algorithm is HMAC-MD5.
#[derive(Clone)]
pub struct SecurityAssociation {
    spi: u32,
    keyed: Hmac<Md5>,
}

impl SecurityAssociation {
    /// Creates an association with this Security Parameter Index and key.
    ///
    /// # Errors
    /// If the key is shorter than the 128 bits of RFC 5944 section 5.1, or the index is one of the
    /// reserved 0 to 255.
    pub fn new(spi: u32, key: &[u8]) -> Result<Self, ConfigError> {
        match Hmac::<Md5>::new_from_slice(key) {
            Ok(keyed) if key.len() >= AUTHENTICATOR && spi > 255 => Ok(Self { spi, keyed }),
            _ => Err(ConfigError::SecurityAssociation {
                spi,
                key_len: key.len(),
            }),
        }
    }

    /// Returns the Security Parameter Index.
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// Appends an authentication extension to `message`, which must be otherwise complete.
    pub fn sign(&self, kind: AuthenticationKind, message: &mut Vec<u8>) {
        message.extend_from_slice(&[kind as u8, DATA as u8]);
        message.extend_from_slice(&self.spi.to_be_bytes());
        let mut mac = self.keyed.clone();
        mac.update(message);
        message.extend_from_slice(&mac.finalize().into_bytes());
    }

    /// Verifies the extension whose data are `message[data_start..]`, in constant time.
    pub(super) fn verify(&self, message: &[u8], data_start: usize, data: &[u8]) -> bool {
        let Some((spi, authenticator)) = data.split_first_chunk::<4>() else {
            return false;
        };
        let Some(covered) = message.get(..data_start + 4) else {
            return false;
        };
        let mut mac = self.keyed.clone();
        mac.update(covered);
        *spi == self.spi.to_be_bytes() && mac.verify_slice(authenticator).is_ok()
    }
}

impl fmt::Debug for SecurityAssociation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecurityAssociation")
            .field("spi", &self.spi)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2202, section 2
    #[test]
    fn the_authenticator_matches_the_test_vector() {
        // RFC 2202, test case 1 of HMAC-MD5: key 16 times 0x0b, data "Hi There".
        let association = SecurityAssociation::new(256, &[0x0B; 16]).expect("a valid key");
        let mut mac = association.keyed.clone();
        mac.update(b"Hi There");
        let expected = [
            0x92, 0x94, 0x72, 0x7a, 0x36, 0x38, 0xbb, 0x1c, 0x13, 0xf4, 0x8e, 0xf8, 0x15, 0x8b,
            0xfc, 0x9d,
        ];
        assert_eq!(mac.finalize().into_bytes()[..], expected);
    }

    /// RFC 5944, section 5.1
    #[test]
    fn short_keys_and_reserved_indices_are_rejected() {
        assert!(SecurityAssociation::new(256, &[1; 15]).is_err());
        assert!(SecurityAssociation::new(255, &[1; 16]).is_err());
        assert!(SecurityAssociation::new(256, &[1; 100]).is_ok());
    }
}
