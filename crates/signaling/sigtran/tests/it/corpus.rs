//! Replays the corpora of the fuzz targets, which have every message.

#[path = "../support/layers.rs"]
mod layers;
#[path = "../support/link.rs"]
mod link;
#[path = "../support/machines.rs"]
mod machines;

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use carrick_sigtran::m2pa;
use carrick_sigtran::m3ua::Message;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::layer::Layer;
use crate::m2pa_messages;
use crate::samples::full;

/// Returns the inputs of a fuzz target's corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    let files = std::fs::read_dir(folder.join(target)).expect("the corpus of the fuzz target");
    files
        .map(|file| std::fs::read(file.expect("a file").path()).expect("a file"))
        .collect()
}

#[test]
fn machines_handle_the_corpus() {
    let mut kinds = BTreeSet::new();
    for octets in corpus("m3ua") {
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
    let files: BTreeSet<_> = corpus("sigtran_layers").into_iter().collect();
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Messages of the corpus with octets that are changed.
    #[test]
    fn layers_handle_changed_messages(
        index in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let inputs = [
            inputs::<carrick_sigtran::sua::Message>(0),
            inputs::<carrick_sigtran::m2ua::Message>(1),
            inputs::<carrick_sigtran::iua::Message>(2),
        ];
        let mut input = index.get(&inputs.concat()).clone();
        for (position, octet) in changes {
            let position = position.index(input.len());
            input[position] = octet;
        }
        layers::run(&input);
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

#[test]
fn link_handles_the_corpus() {
    /// Octets of the class and type, and of the state.
    fn kind(octets: &[u8]) -> Vec<u8> {
        let state = if octets[3] == 2 { 16..20 } else { 0..0 };
        [&octets[2..4], &octets[state]].concat()
    }
    let mut kinds = BTreeSet::new();
    for octets in corpus("m2pa") {
        link::run(&octets);
        let mut rest = &octets[..];
        while let Some((&[length, _], tail)) = rest.split_first_chunk() {
            let (message, tail) = tail.split_at(usize::from(length));
            rest = tail;
            if m2pa::Message::decode(&Bytes::copy_from_slice(message)).is_ok() {
                kinds.insert(kind(message));
            }
        }
    }
    let all = m2pa_messages::all().into_iter();
    let expected = all.map(|message| kind(&message.encode().expect("a valid message")));
    assert_eq!(kinds, expected.collect());
}
