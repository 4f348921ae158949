//! Inputs of the fuzz corpora, and random ones, run with every change.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{messages, session};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = format!(
        "{}/../../../fuzz/corpus/{target}",
        env!("CARGO_MANIFEST_DIR")
    );
    let files = std::fs::read_dir(folder).expect("the corpus is there");
    let inputs: Vec<Vec<u8>> = files
        .map(|file| std::fs::read(file.expect("readable").path()).expect("readable"))
        .collect();
    assert!(!inputs.is_empty());
    inputs
}

#[test]
fn corpus_messages_are_parsed() {
    for octets in corpus("simco_messages") {
        messages::read(&octets);
    }
}

#[test]
fn corpus_sessions_leave_no_rules() {
    let outcomes = corpus("simco_session")
        .iter()
        .map(|octets| session::run(octets))
        .collect::<Vec<_>>();
    assert!(outcomes.iter().any(|o| o.rules >= 3), "{outcomes:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn random_messages_are_parsed(octets in vec(any::<u8>(), 0..300)) {
        messages::read(&octets);
    }

    #[test]
    fn random_sessions_leave_no_rules(octets in vec(any::<u8>(), 0..600)) {
        // With an open session, so that the requests are handled.
        let open = [0x00, 0x06, 0x00];
        session::run(&[&open[..], &octets].concat());
    }

    #[test]
    fn random_requests_leave_no_rules(
        requests in vec((any::<[u8; 8]>(), 3..10u8, any::<bool>()), 1..120)
    ) {
        let mut octets = vec![0x00, 0x06, 0x00];
        for (parameters, kind, drain) in requests {
            octets.extend([0x06, kind]);
            octets.extend(parameters);
            if drain {
                octets.push(0x04);
            }
        }
        session::run(&octets);
    }
}
