//! Errors of received messages, for all layers.

use std::fmt;

/// Octets that are not a message of the layer. The fault is the sender's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DecodeError<K> {
    /// Kind of the error.
    pub kind: K,
    /// Offset of the wrong octet, parameter or field in the message; for a wrong length the offset of the length field.
    pub offset: usize,
}

impl<K> DecodeError<K> {
    pub(crate) const fn new(kind: K, offset: usize) -> Self {
        Self { kind, offset }
    }
}

impl<K: fmt::Display> fmt::Display for DecodeError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, offset } = self;
        write!(
            f,
            "malformed message from the peer at octet {offset}: {kind}"
        )
    }
}

impl<K: fmt::Debug + fmt::Display> std::error::Error for DecodeError<K> {}
