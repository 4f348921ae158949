//! Replies on the control socket.

use crate::{DESCRIPTION, Description, Malformed, word};

/// First field of a reply.
pub const REPLY_MAGIC: u32 = 0x4353_5201;
/// Size of the fields in front of the value in bytes.
const FIELDS: usize = 12 + DESCRIPTION;
/// Value of the reply to [`Request::Describe`](crate::Request::Describe): the socket has neither an association nor a message that has not been
/// read, and accepts no association, so that a call that waits for a message would wait for ever.
pub const NO_SOURCE: u8 = 1;
/// Limit of a reply in bytes.
pub const MAX_REPLY: usize = 128 * 1024;

/// Limit of the file descriptors that are attached to a message, which is Linux's (`SCM_MAX_FD`).
pub const MAX_ATTACHED: usize = 253;

/// Reply of the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reply<'a> {
    /// 0, or the error number of Linux.
    pub error: i32,
    /// Result of the call.
    pub result: i32,
    /// Description of the socket.
    pub description: Description,
    /// Value: an option or an address.
    pub value: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Returns the bytes of the reply.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIELDS + self.value.len());
        bytes.extend(REPLY_MAGIC.to_ne_bytes());
        bytes.extend(self.error.to_ne_bytes());
        bytes.extend(self.result.to_ne_bytes());
        bytes.extend(self.description.encode());
        bytes.extend(self.value);
        bytes
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// [`Malformed`], also for a negative error number.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() > MAX_REPLY || word(bytes, 0)? != REPLY_MAGIC {
            return Err(Malformed);
        }
        let error = word(bytes, 4)? as i32;
        let fields = bytes.get(12..FIELDS).ok_or(Malformed)?;
        if error < 0 {
            return Err(Malformed);
        }
        Ok(Self {
            error,
            result: word(bytes, 8)? as i32,
            description: Description::decode(fields)?,
            value: &bytes[FIELDS..],
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_round_trip(
            magic in any::<bool>(),
            mut bytes in proptest::collection::vec(0u8..4, 0..64),
        ) {
            if let (true, Some(start)) = (magic, bytes.first_chunk_mut::<4>()) {
                *start = REPLY_MAGIC.to_ne_bytes();
            }
            if let Ok(reply) = Reply::decode(&bytes) {
                prop_assert_eq!(reply.encode(), bytes);
            }
        }
    }

    #[test]
    fn a_reply_round_trips() {
        let reply = Reply {
            error: 115,
            result: -1,
            description: Description::new(10, 0),
            value: b"value",
        };
        assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }
}
