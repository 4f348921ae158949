//! Description of a socket, which the program's side caches.

use crate::{Malformed, word};

/// Size of a [`Description`] in bytes.
pub const DESCRIPTION: usize = 12;

/// Property of a socket: a flag of a [`Description`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Property {
    /// The socket is one of many associations.
    OneToMany = 1,
    /// The family is IPv6.
    Inet6 = 2,
    /// The socket accepts associations.
    Listening = 4,
    /// The only association is being set up.
    Connecting = 8,
    /// The only association is established.
    Established = 16,
    /// No more messages can be sent.
    WriteClosed = 32,
    /// Messages have `SCTP_RCVINFO`.
    RcvInfo = 64,
    /// Messages have `SCTP_NXTINFO`.
    NxtInfo = 128,
    /// Messages have `SCTP_SNDRCV`.
    SndRcv = 256,
    /// Messages without attributes are refused: their default stream does not exist.
    NoDefaultStream = 512,
    /// Closing the last descriptor waits for the end of associations (`SO_LINGER`).
    Lingers = 1024,
}

/// All flags.
const KNOWN: u32 = 2047;

/// Description of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Description {
    flags: u32,
    /// Number of outbound streams of the only association; 0 without one.
    pub streams: u16,
    /// Size of the largest message that can be sent in frames, in bytes; 0 with `SCTP_DISABLE_FRAGMENTS`,
    /// where the limit depends on the path.
    pub max_message: u32,
}

impl Description {
    /// Returns the description of a socket without properties.
    pub fn new(streams: u16, max_message: u32) -> Self {
        Self {
            flags: 0,
            streams,
            max_message,
        }
    }

    /// Returns the description with a property, or without it.
    #[must_use]
    pub fn with(mut self, property: Property, present: bool) -> Self {
        let bit = property as u32;
        self.flags = if present {
            self.flags | bit
        } else {
            self.flags & !bit
        };
        self
    }

    /// Returns whether the socket has a property.
    pub fn has(&self, property: Property) -> bool {
        self.flags & property as u32 != 0
    }

    /// Returns the bytes of the description.
    pub fn encode(&self) -> [u8; DESCRIPTION] {
        let mut bytes = [0; DESCRIPTION];
        bytes[..4].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[4..8].copy_from_slice(&u32::from(self.streams).to_ne_bytes());
        bytes[8..].copy_from_slice(&self.max_message.to_ne_bytes());
        bytes
    }

    /// Reads a description.
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let flags = word(bytes, 0)?;
        if bytes.len() != DESCRIPTION || flags & !KNOWN != 0 {
            return Err(Malformed);
        }
        Ok(Self {
            flags,
            streams: u16::try_from(word(bytes, 4)?).map_err(|_| Malformed)?,
            max_message: word(bytes, 8)?,
        })
    }

    /// Returns the description in one integer: flags, streams, largest message from the lowest bit.
    pub fn to_bits(self) -> u64 {
        u64::from(self.flags) | u64::from(self.streams) << 16 | u64::from(self.max_message) << 32
    }

    /// Returns the description of [`Self::to_bits`].
    pub fn from_bits(bits: u64) -> Self {
        Self {
            flags: bits as u32 & KNOWN,
            streams: (bits >> 16) as u16,
            max_message: (bits >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_round_trips() {
        let description = Description::new(65_535, 212_992)
            .with(Property::SndRcv, true)
            .with(Property::OneToMany, true)
            .with(Property::OneToMany, false);
        assert_eq!(Description::decode(&description.encode()), Ok(description));
        assert_eq!(Description::from_bits(description.to_bits()), description);
        assert!(description.has(Property::SndRcv) && !description.has(Property::OneToMany));
        assert_eq!(Description::decode(&[0xff; 12]), Err(Malformed));
        assert_eq!(Description::decode(&[0; 11]), Err(Malformed));
    }
}
