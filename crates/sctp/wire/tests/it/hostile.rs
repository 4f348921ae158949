//! Invalid bytes are parsed without a panic and without a slice beyond the packet.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::pieces::{header, pieces, write};
use crate::walk::{Met, walk};

proptest! {
    #![proptest_config(crate::config(4000))]

    #[test]
    fn random_bytes_parse_within_bounds(bytes in vec(any::<u8>(), 0..200)) {
        walk(&bytes, &mut Met::default());
    }

    /// Small values make lengths and types valid more often.
    #[test]
    fn small_random_bytes_parse_within_bounds(bytes in vec(0..24_u8, 16..200)) {
        walk(&bytes, &mut Met::default());
    }

    #[test]
    fn changed_packets_parse_within_bounds(
        header in header(),
        pieces in pieces(),
        changes in vec((any::<Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = write(header, &pieces);
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        walk(&bytes, &mut Met::default());
    }

    #[test]
    fn cut_packets_parse_within_bounds(header in header(), pieces in pieces(), end: Index) {
        let bytes = write(header, &pieces);
        walk(&bytes[..end.index(bytes.len())], &mut Met::default());
    }

    #[test]
    fn spliced_packets_parse_within_bounds(
        header in header(),
        front in pieces(),
        back in pieces(),
        end: Index,
        start: Index,
    ) {
        let (front, back) = (write(header, &front), write(header, &back));
        let (end, start) = (end.index(front.len()), start.index(back.len()));
        walk(&[&front[..end], &back[start..]].concat(), &mut Met::default());
    }
}

/// The walk detects errors: it counts some here.
#[test]
fn errors_are_counted() {
    let mut met = Met::default();
    let long_cookie_ack = [0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 5, 1, 0, 0, 0];
    walk(&long_cookie_ack, &mut met);
    assert_eq!(met.errors, 1);
    let no_ports = [0; 16];
    walk(&no_ports, &mut met);
    assert_eq!(met.errors, 2);
}
