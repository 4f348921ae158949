//! Padding (PAD), RFC 4820, section 3: enlarges a packet, e.g. for path MTU discovery.
//!
//! ```text
//!  0               1               2               3
//! +---------------+---------------+---------------+---------------+
//! |  type = 132   |     flags     |            length             |
//! +---------------+---------------+---------------+---------------+
//! /                     padding, without meaning                  /
//! +---------------+---------------+---------------+---------------+
//! ```

use crate::RawChunk;

/// PAD chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pad<'a> {
    /// Padding, which the receiver ignores.
    pub padding: &'a [u8],
}

impl<'a> Pad<'a> {
    pub(crate) const fn parse(raw: RawChunk<'a>) -> Self {
        Self { padding: raw.value }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::Pad;
    use crate::testing::{HEADER, build, first_chunk, packet};
    use crate::{Chunk, PacketBuilder};

    #[test]
    fn parses_and_builds_captured_bytes() {
        let bytes = [0x84, 0x00, 0x00, 0x07, 0, 0, 0, 0];
        let padding = &[0; 3][..];
        let expected = Chunk::Pad(Pad { padding });
        assert_eq!(first_chunk(&packet(&bytes)), Ok(expected));
        assert_eq!(build(|packet| packet.pad(7)), bytes);
        assert_eq!(build(|packet| packet.pad(4)), [0x84, 0, 0, 4]);
    }

    #[test]
    fn the_content_of_padding_is_ignored() {
        let bytes = packet(&[0x84, 0xff, 0, 6, 0xc1, 0xff, 0, 0]);
        let padding = &[0xc1, 0xff][..];
        assert_eq!(first_chunk(&bytes), Ok(Chunk::Pad(Pad { padding })));
    }

    #[test]
    fn a_packet_is_filled_to_the_byte() {
        let mut bytes = Vec::new();
        let mut packet = PacketBuilder::new(&mut bytes, HEADER, 1400);
        packet.heartbeat(b"probe");
        packet.pad(packet.remaining());
        assert_eq!(packet.finish(), 1400);
    }
}
