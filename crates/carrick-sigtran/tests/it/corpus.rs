//! Replays the corpus of the fuzz target, which has every message.

#[path = "../support/machines.rs"]
mod machines;

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use carrick_sigtran::m3ua::Message;

use crate::samples::full;

#[test]
fn machines_handle_the_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/m3ua");
    let files = std::fs::read_dir(folder).expect("the corpus of the fuzz target");
    let mut kinds = BTreeSet::new();
    for file in files {
        let octets = std::fs::read(file.expect("a file").path()).expect("a file");
        machines::run(&octets);
        let mut rest = &octets[..];
        while let Some((&length, tail)) = rest.split_first() {
            let (message, tail) = tail.split_at(usize::from(length).min(tail.len()));
            rest = tail;
            kinds.extend(Message::decode(&Bytes::copy_from_slice(message)).map(|m| m.kind()));
        }
    }
    let expected: BTreeSet<_> = full().iter().map(|message| message.kind()).collect();
    assert_eq!(kinds, expected);
}
