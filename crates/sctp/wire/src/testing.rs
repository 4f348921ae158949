//! Helpers that the tests of the files share.

use std::vec::Vec;

use crate::{
    Chunk, CommonHeader, Packet, PacketBuilder, ParseError, ParseErrorKind, VerificationTag,
};

/// Common header of [`packet`].
pub(crate) const HEADER: CommonHeader = CommonHeader {
    source_port: 0x0b59,
    destination_port: 0x0e73,
    tag: VerificationTag(0x8000_0001),
};

/// Returns a packet of these chunk bytes, without a checksum.
pub(crate) fn packet(chunks: &[u8]) -> Vec<u8> {
    let mut bytes = std::vec![0x0b, 0x59, 0x0e, 0x73, 0x80, 0x00, 0x00, 0x01, 0, 0, 0, 0];
    bytes.extend_from_slice(chunks);
    bytes
}

/// Parses the first chunk of a packet.
pub(crate) fn first_chunk(packet: &[u8]) -> Result<Chunk<'_>, ParseError> {
    let packet = Packet::parse(packet).expect("a common header");
    Chunk::parse(packet.chunks().next().expect("a chunk")?)
}

/// Asserts that the first of these chunk bytes causes this error, at this byte of the packet.
#[track_caller]
pub(crate) fn assert_error(chunk: &[u8], kind: ParseErrorKind, offset: usize) {
    let packet = packet(chunk);
    assert_eq!(first_chunk(&packet), Err(ParseError { kind, offset }));
}

/// Returns the bytes after the common header of a packet that the closure fills; verifies the checksum.
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
