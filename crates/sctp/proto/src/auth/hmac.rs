//! HMAC-SHA-1 and HMAC-SHA-256 (RFC 4895, section 8.4), initialized with an association key, so that a
//! packet needs no key setup and no allocation.

use carrick_wire::HmacId;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;

/// Length of the longest HMAC in bytes.
pub(super) const MAX_LEN: usize = 32;

/// HMAC value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl AsRef<[u8]> for Code {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Code {
    fn new(computed: &[u8]) -> Self {
        let mut bytes = [0; MAX_LEN];
        bytes[..computed.len()].copy_from_slice(computed);
        Self {
            bytes,
            len: computed.len(),
        }
    }
}

/// Both algorithms, initialized with one key.
#[derive(Clone)]
pub(super) struct Keyed {
    sha1: Hmac<Sha1>,
    sha256: Hmac<Sha256>,
}

impl Keyed {
    pub(super) fn new(key: &[u8]) -> Self {
        Self {
            sha1: begun(key),
            sha256: begun(key),
        }
    }

    /// Computes the HMAC of the concatenated pieces. Any identifier but SHA-1 means SHA-256.
    pub(super) fn compute<'a>(&self, id: HmacId, pieces: impl Iterator<Item = &'a [u8]>) -> Code {
        if id == HmacId::SHA_1 {
            Code::new(&finished(&self.sha1, pieces).finalize().into_bytes())
        } else {
            Code::new(&finished(&self.sha256, pieces).finalize().into_bytes())
        }
    }

    /// Verifies the HMAC of the concatenated pieces in constant time.
    pub(super) fn verify<'a>(
        &self,
        id: HmacId,
        pieces: impl Iterator<Item = &'a [u8]>,
        code: &[u8],
    ) -> bool {
        if id == HmacId::SHA_1 {
            finished(&self.sha1, pieces).verify_slice(code).is_ok()
        } else {
            finished(&self.sha256, pieces).verify_slice(code).is_ok()
        }
    }
}

fn begun<M: KeyInit>(key: &[u8]) -> M {
    // HMAC takes a key of any length (RFC 2104, section 3).
    M::new_from_slice(key).unwrap_or_else(|_| M::new(&hmac::digest::Key::<M>::default()))
}

fn finished<'a, M: Mac + Clone>(begun: &M, pieces: impl Iterator<Item = &'a [u8]>) -> M {
    let mut mac = begun.clone();
    pieces.for_each(|piece| mac.update(piece));
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2202 and RFC 4231, test case 2.
    #[test]
    fn published_codes_are_computed() {
        let keyed = Keyed::new(b"Jefe");
        let text: [&[u8]; 2] = [b"what do ya want ", b"for nothing?"];
        let sha1 = keyed.compute(HmacId::SHA_1, text.into_iter());
        assert_eq!(sha1.as_ref()[..4], [0xef, 0xfc, 0xdf, 0x6a]);
        assert_eq!(sha1.as_ref().len(), 20);
        let sha256 = keyed.compute(HmacId::SHA_256, text.into_iter());
        assert_eq!(sha256.as_ref()[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(sha256.as_ref().len(), 32);
        for (id, code) in [(HmacId::SHA_1, sha1), (HmacId::SHA_256, sha256)] {
            assert!(keyed.verify(id, text.into_iter(), code.as_ref()));
            assert!(!keyed.verify(id, text.into_iter(), &code.as_ref()[1..]));
            assert!(!keyed.verify(id, text.into_iter(), &[]), "an empty HMAC");
        }
    }

    /// RFC 4231, test case 6.
    #[test]
    fn key_longer_than_a_block_is_hashed() {
        let keyed = Keyed::new(&[0xaa; 131]);
        let text: &[u8] = b"Test Using Larger Than Block-Size Key - Hash Key First";
        let code = keyed.compute(HmacId::SHA_256, core::iter::once(text));
        assert_eq!(code.as_ref()[..4], [0x60, 0xe4, 0x31, 0x59]);
    }
}
