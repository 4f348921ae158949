//! Replays the corpora of the fuzz targets, which have every message.

#[path = "../support/layers.rs"]
mod layers;
#[path = "../support/machines.rs"]
mod machines;

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use carrick_sigtran::m3ua::Message;

use crate::layer::Layer;
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

#[test]
fn layers_handle_the_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sigtran_layers");
    let files = std::fs::read_dir(folder).expect("the corpus of the fuzz target");
    let files: BTreeSet<_> = files
        .map(|file| std::fs::read(file.expect("a file").path()).expect("a file"))
        .collect();
    for octets in &files {
        layers::run(octets);
    }
    let inputs = [
        inputs::<carrick_sigtran::sua::Message>(0),
        inputs::<carrick_sigtran::m2ua::Message>(1),
        inputs::<carrick_sigtran::iua::Message>(2),
    ];
    for input in inputs.concat() {
        assert!(files.contains(&input), "no input {input:02x?}");
    }
}

/// Returns the inputs of the fuzz target with the full messages of a layer.
fn inputs<M: Layer>(layer: u8) -> Vec<Vec<u8>> {
    let messages = M::full();
    let octets = messages.iter().map(Layer::encode);
    octets
        .map(|octets| [&[layer][..], &octets.expect("a message that fits")].concat())
        .collect()
}
