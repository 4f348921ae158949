//! Construction of messages (RFC 4666, sections 3.1 and 3.2).

use bytes::Bytes;

use super::{HEADER_LEN, MAX_MESSAGE, MessageKind, PARAMETER_HEADER_LEN, VERSION, padded};

/// Reason for which a message can't be written. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WriteError {
    /// The parameter has more octets than its length field can express.
    #[error(
        "parameter {tag:#06x} has {length} octets, at most 65535 are possible: split its content"
    )]
    ParameterTooLong {
        /// Tag of the parameter.
        tag: u16,
        /// Length of the parameter in octets, with its header.
        length: usize,
    },
    /// The message has more than [`MAX_MESSAGE`] octets.
    #[error("message has {length} octets, at most {MAX_MESSAGE} are possible: split its content")]
    MessageTooLong {
        /// Length of the message in octets.
        length: usize,
    },
}

/// Builds a message: the common header, then each parameter with its padding. The first error is returned by
/// [`finish`](Self::finish).
#[derive(Debug)]
pub struct MessageWriter {
    octets: Vec<u8>,
    error: Option<WriteError>,
}

impl MessageWriter {
    /// Begins a message of this class and type.
    pub fn new(kind: MessageKind) -> Self {
        let mut octets = Vec::with_capacity(64);
        octets.extend_from_slice(&[VERSION, 0, kind.class, kind.message_type, 0, 0, 0, 0]);
        Self {
            octets,
            error: None,
        }
    }

    /// Appends a parameter with this value.
    pub fn parameter(&mut self, tag: u16, value: &[u8]) {
        self.nested(tag, |writer| writer.value(value));
    }

    /// Appends a parameter with a value of four octets.
    pub fn number(&mut self, tag: u16, value: u32) {
        self.parameter(tag, &value.to_be_bytes());
    }

    /// Appends a parameter whose value is a list of numbers with four octets each.
    pub fn numbers(&mut self, tag: u16, values: impl IntoIterator<Item = u32>) {
        self.nested(tag, |writer| {
            for value in values {
                writer.value(&value.to_be_bytes());
            }
        });
    }

    /// Appends a parameter whose value is what `content` appends: values and parameters.
    pub fn nested(&mut self, tag: u16, content: impl FnOnce(&mut Self)) {
        let start = self.octets.len();
        self.octets.extend_from_slice(&tag.to_be_bytes());
        self.octets.extend_from_slice(&[0, 0]);
        content(self);
        let length = self.octets.len() - start;
        if let Ok(field) = u16::try_from(length) {
            self.octets[start + 2..start + PARAMETER_HEADER_LEN]
                .copy_from_slice(&field.to_be_bytes());
        } else {
            self.fail(WriteError::ParameterTooLong { tag, length });
        }
        self.octets.resize(start + padded(length), 0);
    }

    /// Appends octets to the value of the parameter that is being written, or parameters that are already
    /// encoded.
    pub fn value(&mut self, octets: &[u8]) {
        // No more is kept than a message can hold, however much is appended.
        if self.octets.len() + octets.len() > 2 * MAX_MESSAGE {
            let length = self.octets.len() + octets.len();
            self.fail(WriteError::MessageTooLong { length });
        } else {
            self.octets.extend_from_slice(octets);
        }
    }

    /// Writes the message length and returns the message.
    ///
    /// # Errors
    /// [`WriteError`] if a parameter or the message is too long.
    pub fn finish(mut self) -> Result<Bytes, WriteError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let length = self.octets.len();
        if length > MAX_MESSAGE {
            return Err(WriteError::MessageTooLong { length });
        }
        self.octets[4..HEADER_LEN].copy_from_slice(&(length as u32).to_be_bytes());
        Ok(Bytes::from(self.octets))
    }

    fn fail(&mut self, error: WriteError) {
        self.error.get_or_insert(error);
    }
}
