//! The SIMCO header (RFC 4540, section 4.2).

use bytes::{BufMut, Bytes, BytesMut};

use super::{ParseError, TransactionId};

/// Size of the header in octets.
pub const HEADER_LEN: usize = 8;
/// Maximum size of a message in octets: the length field does not count the header.
pub const MAX_MESSAGE: usize = HEADER_LEN + u16::MAX as usize;

/// First octet of a message (RFC 4540, section 4.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum BasicType {
    /// 0x01, from the agent.
    Request = 1,
    /// 0x02, from the middlebox.
    PositiveReply = 2,
    /// 0x03, from the middlebox.
    NegativeReply = 3,
    /// 0x04, from the middlebox.
    Notification = 4,
}

impl BasicType {
    /// Returns the type with this number, if defined.
    pub const fn from_u8(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Request,
            2 => Self::PositiveReply,
            3 => Self::NegativeReply,
            4 => Self::Notification,
            _ => return None,
        })
    }
}

/// Received header; the types are not checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Basic type, see [`BasicType`].
    pub basic: u8,
    /// Sub-type; its meaning depends on the basic type.
    pub sub_type: u8,
    /// Number of octets after the header.
    pub length: u16,
    /// Transaction of the message.
    pub transaction: TransactionId,
}

impl Header {
    /// Parses the first eight octets; `None` if there are fewer.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [basic, sub_type, l0, l1, t0, t1, t2, t3] = *bytes.first_chunk::<HEADER_LEN>()?;
        Some(Self {
            basic,
            sub_type,
            length: u16::from_be_bytes([l0, l1]),
            transaction: TransactionId(u32::from_be_bytes([t0, t1, t2, t3])),
        })
    }

    /// Parses the header of a whole message and checks the length.
    ///
    /// # Errors
    /// [`ParseError::Header`] if the length does not match.
    pub fn parse_whole(message: &[u8]) -> Result<Self, ParseError> {
        let header = Self::parse(message).ok_or(ParseError::Header)?;
        if message.len() == header.message_len() {
            Ok(header)
        } else {
            Err(ParseError::Header)
        }
    }

    /// Returns the size of the whole message.
    pub fn message_len(&self) -> usize {
        HEADER_LEN + usize::from(self.length)
    }
}

/// Message under construction.
#[derive(Debug)]
pub(super) struct MessageBuilder(BytesMut);

impl MessageBuilder {
    pub(super) fn new(basic: BasicType, sub_type: u8, transaction: TransactionId) -> Self {
        let mut bytes = BytesMut::with_capacity(96);
        bytes.put_u8(basic as u8);
        bytes.put_u8(sub_type);
        bytes.put_u16(0);
        bytes.put_u32(transaction.0);
        Self(bytes)
    }

    /// Adds an attribute. The types of values bound their size, so a message never gets too long.
    pub(super) fn attribute(&mut self, kind: super::AttributeType, value: &[u8]) {
        self.0.put_u16(kind as u16);
        self.0.put_u16(value.len() as u16);
        self.0.put_slice(value);
    }

    pub(super) fn finish(mut self) -> Bytes {
        debug_assert!(self.0.len() <= MAX_MESSAGE);
        let length = (self.0.len() - HEADER_LEN) as u16;
        self.0[2..4].copy_from_slice(&length.to_be_bytes());
        self.0.freeze()
    }
}
