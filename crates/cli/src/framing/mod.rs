//! Messages in byte streams: how they are delimited, for `carrick cat` and `carrick proxy`.
//!
//! A [`FrameDecoder`] cuts the bytes that were read into messages, and [`Framing::encode`] writes a message so that the
//! same decoder returns it.

#[cfg(test)]
mod tests;

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

/// Default of the longest message in bytes.
pub(crate) const MAX_MESSAGE: usize = 1 << 20;

/// Delimitation of messages in a byte stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Framing {
    /// Each line is a message, with its newline.
    Lines,
    /// Length in 16 bits, big endian, before each message; it does not count itself.
    Length16,
    /// Length in 32 bits, big endian, before each message; it does not count itself.
    Length32,
    /// Common header of M3UA (RFC 4666, section 3.1), SUA, M2UA and IUA.
    M3ua,
    /// Header of Diameter (RFC 6733, section 3).
    Diameter,
    /// No delimiters: what a read returns is a message.
    Chunks,
    /// A datagram is a message, for sides with datagrams.
    Pdu,
}

/// Error of a byte stream or a message that does not have the framing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FramingError {
    /// The header is not that of the protocol.
    Header(&'static str, String),
    /// The message is longer than allowed, in bytes.
    TooLong { length: usize, limit: usize },
    /// The message is empty, which SCTP cannot carry (RFC 9260, section 3.3.1).
    Empty,
    /// The stream ended within a message, after this number of its bytes.
    Incomplete(usize),
    /// The length in the header is not that of the message.
    WrongLength { header: usize, message: usize },
}

impl fmt::Display for FramingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(protocol, why) => write!(f, "no {protocol} header: {why}"),
            Self::TooLong { length, limit } => write!(
                f,
                "a message of {length} bytes or more, which exceeds the limit of {limit} (--max-message, or the length field of the framing)"
            ),
            Self::Empty => f.write_str("an empty message, which SCTP cannot carry"),
            Self::Incomplete(bytes) => {
                write!(f, "an end within a message, of which {bytes} bytes arrived")
            }
            Self::WrongLength { header, message } => write!(
                f,
                "a message of {message} bytes whose header states {header}"
            ),
        }
    }
}

impl Framing {
    /// Payload protocol identifier that IANA assigned to the protocol; 0 for others. `dtls`: the association is below DTLS.
    pub(crate) fn ppid(self, dtls: bool) -> u32 {
        match self {
            Self::M3ua => 3,
            Self::Diameter if dtls => 47,
            Self::Diameter => 46,
            _ => 0,
        }
    }

    /// Appends a message to bytes of a stream.
    ///
    /// # Errors
    /// The framing cannot delimit the message.
    pub(crate) fn encode(
        self,
        message: &[u8],
        max_message: usize,
        to: &mut BytesMut,
    ) -> Result<(), FramingError> {
        let limit = self.limit(max_message);
        let length = message.len();
        if length > limit {
            return Err(FramingError::TooLong { length, limit });
        }
        match self {
            Self::Length16 => to.extend_from_slice(&(length as u16).to_be_bytes()),
            Self::Length32 => to.extend_from_slice(&(length as u32).to_be_bytes()),
            Self::M3ua | Self::Diameter => match self.frame_length(message, max_message)? {
                Some(header) if header == length => {}
                header => {
                    return Err(FramingError::WrongLength {
                        header: header.unwrap_or(0),
                        message: length,
                    });
                }
            },
            Self::Lines | Self::Chunks | Self::Pdu => {}
        }
        to.extend_from_slice(message);
        if self == Self::Lines && message.last() != Some(&b'\n') {
            to.extend_from_slice(b"\n");
        }
        Ok(())
    }

    /// Longest message.
    fn limit(self, max_message: usize) -> usize {
        match self {
            Self::Length16 => max_message.min(u16::MAX.into()),
            Self::Diameter => max_message.min(0x00ff_ffff),
            _ => max_message.min(u32::MAX as usize),
        }
    }

    /// Number of bytes before the message.
    fn prefix(self) -> usize {
        match self {
            Self::Length16 => 2,
            Self::Length32 => 4,
            _ => 0,
        }
    }

    /// Returns the length of the frame at the beginning of `bytes`, with its header; `None` while that is incomplete.
    fn frame_length(self, bytes: &[u8], max_message: usize) -> Result<Option<usize>, FramingError> {
        let length = match self {
            Self::Lines | Self::Chunks | Self::Pdu => return Ok(None),
            Self::Length16 => bytes.first_chunk().map(|l| u16::from_be_bytes(*l).into()),
            Self::Length32 => bytes.first_chunk().map(|l| u32::from_be_bytes(*l) as usize),
            Self::M3ua => m3ua_length(bytes)?,
            Self::Diameter => diameter_length(bytes)?,
        };
        let limit = self.limit(max_message);
        match length {
            Some(0) => Err(FramingError::Empty),
            Some(length) if length > limit => Err(FramingError::TooLong { length, limit }),
            length => Ok(length.map(|length| length + self.prefix())),
        }
    }
}

/// RFC 4666, section 3.1: version, reserved, class, type, and the length of the message with this header.
///
/// ```text
///  0                   1                   2                   3
/// +---------------+---------------+---------------+---------------+
/// |    Version    |   Reserved    | Message Class | Message Type  |
/// +---------------+---------------+---------------+---------------+
/// |                        Message Length                         |
/// +---------------------------------------------------------------+
/// ```
fn m3ua_length(bytes: &[u8]) -> Result<Option<usize>, FramingError> {
    let fault = |why| FramingError::Header("M3UA", why);
    if let Some(version) = bytes.first().filter(|version| **version != 1) {
        return Err(fault(format!("version {version} instead of 1")));
    }
    let Some([_, _, _, _, length @ ..]) = bytes.first_chunk::<8>() else {
        return Ok(None);
    };
    match u32::from_be_bytes(*length) {
        length @ 0..8 => Err(fault(format!("length {length} is less than 8"))),
        length => Ok(Some(length as usize)),
    }
}

/// RFC 6733, section 3: version, and the length of the message with its header of 20 bytes, a multiple of 4.
///
/// ```text
///  0                   1                   2                   3
/// +---------------+-----------------------------------------------+
/// |    Version    |                Message Length                 |
/// +---------------+-----------------------------------------------+
/// ```
fn diameter_length(bytes: &[u8]) -> Result<Option<usize>, FramingError> {
    let fault = |why| FramingError::Header("Diameter", why);
    if let Some(version) = bytes.first().filter(|version| **version != 1) {
        return Err(fault(format!("version {version} instead of 1")));
    }
    let Some([_, a, b, c]) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    match u32::from_be_bytes([0, *a, *b, *c]) {
        length @ 0..20 => Err(fault(format!("length {length} is less than 20"))),
        length if length % 4 != 0 => Err(fault(format!("length {length} is no multiple of 4"))),
        length => Ok(Some(length as usize)),
    }
}

/// Cuts a byte stream into messages. Its buffer has at most a message and what one read returned.
#[derive(Debug)]
pub(crate) struct FrameDecoder {
    framing: Framing,
    max_message: usize,
    buffer: BytesMut,
    /// Number of bytes of the buffer that contain no newline.
    searched: usize,
}

impl FrameDecoder {
    pub(crate) fn new(framing: Framing, max_message: usize) -> Self {
        Self {
            framing,
            max_message,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// Buffer to which the caller appends what it reads, after [`Self::next_message`] has returned `None`.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Takes the next message; `None` if more bytes have to be read.
    ///
    /// # Errors
    /// The bytes do not have the framing; nothing behind them can be delimited.
    pub(crate) fn next_message(&mut self) -> Result<Option<Bytes>, FramingError> {
        match self.framing {
            Framing::Lines => self.next_line(),
            Framing::Chunks | Framing::Pdu => {
                let length = self.buffer.len().min(self.max_message);
                Ok((length > 0).then(|| self.buffer.split_to(length).freeze()))
            }
            framing => match framing.frame_length(&self.buffer, self.max_message)? {
                Some(length) if length <= self.buffer.len() => {
                    let mut message = self.buffer.split_to(length);
                    message.advance(framing.prefix());
                    Ok(Some(message.freeze()))
                }
                _ => Ok(None),
            },
        }
    }

    /// Takes the rest at the end of the stream: a last line without a newline is a message.
    ///
    /// # Errors
    /// The stream ended within a message.
    pub(crate) fn last_message(&mut self) -> Result<Option<Bytes>, FramingError> {
        self.searched = 0;
        match (self.framing, self.buffer.len()) {
            (_, 0) => Ok(None),
            (Framing::Lines | Framing::Chunks | Framing::Pdu, _) => {
                Ok(Some(self.buffer.split().freeze()))
            }
            (_, length) => Err(FramingError::Incomplete(length)),
        }
    }

    fn next_line(&mut self) -> Result<Option<Bytes>, FramingError> {
        let newline = self.buffer[self.searched..]
            .iter()
            .position(|b| *b == b'\n');
        let (length, is_whole) = match newline {
            Some(at) => (self.searched + at + 1, true),
            None => (self.buffer.len(), false),
        };
        let limit = self.framing.limit(self.max_message);
        if length > limit {
            return Err(FramingError::TooLong { length, limit });
        }
        if !is_whole {
            self.searched = length;
            return Ok(None);
        }
        self.searched = 0;
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}
