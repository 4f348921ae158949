//! Authentication extensions (RFC 5944 sections 3.5 and 5.1): HMAC-MD5 over all that comes before.
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

/// Length of the authenticator of HMAC-MD5.
pub(super) const AUTHENTICATOR: usize = 16;
/// SPI and authenticator.
const DATA: usize = 4 + AUTHENTICATOR;

/// Between whom an authentication extension holds; the number is its type.
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

/// What two nodes share: a key and its number. The algorithm is HMAC-MD5.
#[derive(Clone)]
pub struct SecurityAssociation {
    spi: u32,
    keyed: Hmac<Md5>,
}

impl SecurityAssociation {
    /// An association with this Security Parameter Index and key.
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

    /// The Security Parameter Index.
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// Appends an authentication extension to `message`, which so far has all that it protects.
    pub fn sign(&self, kind: AuthenticationKind, message: &mut Vec<u8>) {
        message.extend_from_slice(&[kind as u8, DATA as u8]);
        message.extend_from_slice(&self.spi.to_be_bytes());
        let mut mac = self.keyed.clone();
        mac.update(message);
        message.extend_from_slice(&mac.finalize().into_bytes());
    }

    /// Whether the extension whose data are `message[data_start..]` holds, compared in constant time.
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

    #[test]
    fn the_authenticator_is_that_of_rfc_2202() {
        // RFC 2202, test case 1 of HMAC-MD5: key 16 times 0x0b, data "Hi There".
        let association = SecurityAssociation::new(256, &[0x0B; 16]).expect("a good key");
        let mut mac = association.keyed.clone();
        mac.update(b"Hi There");
        let expected = [
            0x92, 0x94, 0x72, 0x7a, 0x36, 0x38, 0xbb, 0x1c, 0x13, 0xf4, 0x8e, 0xf8, 0x15, 0x8b,
            0xfc, 0x9d,
        ];
        assert_eq!(mac.finalize().into_bytes()[..], expected);
    }

    #[test]
    fn short_keys_and_reserved_numbers_are_refused_5_1() {
        assert!(SecurityAssociation::new(256, &[1; 15]).is_err());
        assert!(SecurityAssociation::new(255, &[1; 16]).is_err());
        assert!(SecurityAssociation::new(256, &[1; 100]).is_ok());
    }
}
