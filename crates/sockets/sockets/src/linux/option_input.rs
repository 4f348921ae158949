//! Fields of the buffer of `getsockopt` that an option reads.

use std::ops::Range;

use super::*;

/// Fields of the buffer of `getsockopt` that an option reads: the identifier of an association, an address, and what else
/// selects the value. The rest of the buffer has no meaning, and may be memory that its process has not initialised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionInput {
    fields: Range<usize>,
    /// Offset of a `sockaddr_storage`.
    address: Option<usize>,
}

impl OptionInput {
    /// No field
    pub(crate) const NONE: Self = Self::fields(0..0);
    /// The identifier of an association at the beginning
    pub(crate) const ID: Self = Self::fields(0..4);

    /// Returns fields that follow one another.
    pub(crate) const fn fields(fields: Range<usize>) -> Self {
        Self {
            fields,
            address: None,
        }
    }

    /// Returns the identifier of an association at the beginning, and an address at this offset.
    pub(crate) const fn id_and_address(at: usize) -> Self {
        Self {
            fields: 0..4,
            address: Some(at),
        }
    }

    /// Returns the end of the last field in bytes.
    pub fn end(&self) -> usize {
        let address = self.address.map_or(0, |at| at + SOCKADDR_STORAGE);
        self.fields.end.max(address)
    }

    /// Returns a buffer of `size` bytes with the fields of the buffer that begins with `given`, and zeros.
    pub fn copy(&self, given: &[u8], size: usize) -> Vec<u8> {
        let mut copy = vec![0; size];
        let mut take = |range: Range<usize>| {
            if let (Some(to), Some(from)) = (copy.get_mut(range.clone()), given.get(range)) {
                to.copy_from_slice(from);
            }
        };
        take(self.fields.clone());
        if let Some(at) = self.address {
            let family = given
                .get(at..at + 2)
                .and_then(|family| family.first_chunk());
            let len = match family.map(|family| i32::from(u16::from_ne_bytes(*family))) {
                // The bytes behind the address are padding.
                Some(AF_INET) => 8,
                Some(AF_INET6) => SOCKADDR_IN6,
                _ => 2,
            };
            take(at..at + len);
        }
        copy
    }
}
