//! What the tests of the single files share.

use std::vec::Vec;

use crate::{
    Chunk, CommonHeader, Packet, PacketBuilder, ParseError, ParseErrorKind, VerificationTag,
};

/// The common header of [`packet`].
pub(crate) const HEADER: CommonHeader = CommonHeader {
    source_port: 0x0b59,
    destination_port: 0x0e73,
    tag: VerificationTag(0x8000_0001),
};

/// A packet of these chunk bytes, with no checksum.
pub(crate) fn packet(chunks: &[u8]) -> Vec<u8> {
    let mut bytes = std::vec![0x0b, 0x59, 0x0e, 0x73, 0x80, 0x00, 0x00, 0x01, 0, 0, 0, 0];
    bytes.extend_from_slice(chunks);
    bytes
}

/// The first chunk of a packet, parsed.
pub(crate) fn first_chunk(packet: &[u8]) -> Result<Chunk<'_>, ParseError> {
    let packet = Packet::parse(packet).expect("a common header");
    Chunk::parse(packet.chunks().next().expect("a chunk")?)
}

/// Checks that the first of these chunk bytes breaks the format in this way, at this byte of
/// the packet.
#[track_caller]
pub(crate) fn assert_error(chunk: &[u8], kind: ParseErrorKind, offset: usize) {
    let packet = packet(chunk);
    assert_eq!(first_chunk(&packet), Err(ParseError { kind, offset }));
}

/// The bytes after the common header of a packet that the closure fills; the checksum is
/// checked on the way.
pub(crate) fn build(fill: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = PacketBuilder::new(&mut bytes, HEADER, 1500);
    fill(&mut builder);
    let length = builder.finish();
    assert_eq!(length, bytes.len());
    let packet = Packet::parse(&bytes).expect("a packet");
    assert!(packet.checksum_is_valid());
    assert_eq!(packet.header(), HEADER);
    bytes.split_off(12)
}
