//! Parsing returns what was built.

use carrick_wire::{COMMON_HEADER_LEN, Packet, padded};
use proptest::prelude::*;

use crate::pieces::{header, pieces, read, write};

proptest! {
    #![proptest_config(crate::config(2000))]

    #[test]
    fn built_packets_parse_to_the_same_chunks(header in header(), pieces in pieces()) {
        let bytes = write(header, &pieces);
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert!(packet.checksum_is_valid());
        prop_assert_eq!(packet.header(), header);
        prop_assert_eq!(read(&packet), pieces);
    }

    #[test]
    fn chunks_fill_the_packet_and_padding_is_zero(header in header(), pieces in pieces()) {
        let bytes = write(header, &pieces);
        let packet = Packet::parse(&bytes).unwrap();
        let mut end = COMMON_HEADER_LEN;
        for chunk in packet.chunks().map(Result::unwrap) {
            prop_assert_eq!(chunk.offset, end);
            end = chunk.offset + padded(chunk.bytes.len());
            let padding = &bytes[chunk.offset + chunk.bytes.len()..end];
            prop_assert!(padding.iter().all(|byte| *byte == 0));
        }
        prop_assert_eq!(end, bytes.len());
    }

    #[test]
    fn the_last_padding_may_be_cut(header in header(), pieces in pieces()) {
        let mut bytes = write(header, &pieces);
        let packet = Packet::parse(&bytes).unwrap();
        let last = packet.chunks().map(Result::unwrap).last().unwrap();
        let end = last.offset + last.bytes.len();
        bytes.truncate(end);
        prop_assert_eq!(read(&Packet::parse(&bytes).unwrap()), pieces);
    }

    #[test]
    fn any_flipped_bit_breaks_the_checksum(header in header(), pieces in pieces(), place: usize) {
        let mut bytes = write(header, &pieces);
        let bit = place % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let still_valid = Packet::parse(&bytes).is_ok_and(|packet| packet.checksum_is_valid());
        prop_assert!(!still_valid);
    }
}
