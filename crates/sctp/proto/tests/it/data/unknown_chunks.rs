//! Unknown chunks (section 3.2).

use carrick_wire::{CauseCode, ChunkType};

use crate::common::*;

/// RFC 9260, section 3.2
#[test]
fn unknown_chunks_are_handled_by_their_high_bits() {
    for (kind, continues, reports) in [
        (0x3f, false, false),
        (0x7f, false, true),
        (0xbf, true, false),
        (0xff, true, true),
    ] {
        let mut w = World::single_homed();
        let (mut peer, id) = Puppet::new().connect(&mut w);
        let header = Puppet::data_header(peer.tsn, 0, 0);
        let answers = peer.send(&mut w, |p| {
            p.raw(ChunkType(kind), 5, b"abcde");
            p.data(&header, b"behind");
        });
        let causes: Vec<_> = answers.iter().flat_map(|p| p.causes()).collect();
        if reports {
            let mut chunk = vec![kind, 5, 0, 9];
            chunk.extend_from_slice(b"abcde");
            assert_eq!(causes, [(CauseCode::UNRECOGNIZED_CHUNK, chunk)]);
        } else {
            assert_eq!(causes, []);
        }
        assert_eq!(
            w.receive(0, id).len(),
            usize::from(continues),
            "type {kind}"
        );
        peer.tsn = peer.tsn.plus(u32::from(continues));
        peer.data(&mut w, 0, u16::from(continues), b"next");
        assert_eq!(w.receive(0, id).len(), 1);
    }
}

/// RFC 9260, section 3.2
#[test]
fn chunks_of_unnegotiated_extensions_are_unknown() {
    // AUTH, RE-CONFIG, FORWARD TSN, ASCONF, I-FORWARD-TSN. RFC 8260 section 2.2.3 requires more for
    // I-DATA.
    for kind in [0x0f, 0x82, 0xc0, 0xc1, 0xc2] {
        let mut w = World::single_homed();
        let (mut peer, id) = Puppet::new().connect(&mut w);
        for value in [&[][..], &[0; 4], &[0xff; 16], &[0xff; 200]] {
            let answers = peer.send(&mut w, |p| p.raw(ChunkType(kind), 0xff, value));
            let reports = kind & 0x40 != 0;
            assert_eq!(answers.len(), usize::from(reports));
            for (code, chunk) in answers.iter().flat_map(|p| p.causes()) {
                assert_eq!(code, CauseCode::UNRECOGNIZED_CHUNK);
                assert_eq!(chunk[0], kind);
            }
        }
        peer.data(&mut w, 0, 0, b"unharmed");
        assert_eq!(w.receive_lengths(0, id), [8]);
    }
}
