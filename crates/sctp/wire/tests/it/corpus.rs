//! Replays the corpus of the fuzz target, and checks that it still covers all types.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::walk::{Met, walk};

#[test]
fn the_corpus_reaches_every_chunk_parameter_and_cause() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/packet_parser");
    let mut met = Met::default();
    let mut seeds = 0;
    for entry in fs::read_dir(&folder).expect("the corpus is part of the source") {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        walk(&fs::read(&path).unwrap(), &mut met);
        seeds += 1;
    }
    assert!(seeds >= 30, "only {seeds} seeds");
    let chunks: BTreeSet<u8> = (0..=16)
        .chain([0x40, 0x80, 0x82, 0x84, 0xc0, 0xc1, 0xc2])
        .chain([0x3f, 0x7f, 0xbf, 0xff])
        .collect();
    let parameters: BTreeSet<u16> = [1, 5, 6, 7, 8, 9, 11, 12, 0x3fff, 0x4001, 0x8123, 0xc123]
        .into_iter()
        .chain(13..=18)
        .chain(0x8000..=0x8005)
        .chain([0x8008])
        .chain(0xc000..=0xc006)
        .collect();
    let causes: BTreeSet<u16> = (1..=14).chain(0xa0..=0xa4).chain([0x105]).collect();
    assert!(met.chunks.is_superset(&chunks), "{:?}", met.chunks);
    assert!(
        met.parameters.is_superset(&parameters),
        "{:?}",
        met.parameters
    );
    assert!(met.causes.is_superset(&causes), "{:?}", met.causes);
    assert!(met.errors >= 30, "only {} malformed", met.errors);
}
