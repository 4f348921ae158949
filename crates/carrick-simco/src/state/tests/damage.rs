//! Files that are cut short, and disks that forget.

use super::disk::{Crash, Disk};
use super::{Model, at, batches};
use crate::state::StateError;
use crate::state::log::{FILE, Log};

/// A file, and what there was after each batch, with the length of the file then.
fn written(count: usize) -> (Vec<u8>, Vec<(usize, Model)>) {
    let disk = Disk::default();
    let (mut log, _) = Log::open(disk.clone()).unwrap();
    let length = || disk.contents(FILE).unwrap().len();
    let mut model = Model::default();
    let mut states = vec![(length(), model.clone())];
    for batch in batches(9, count) {
        for change in &batch {
            change.with(|change| log.record(&at(0), change));
        }
        log.commit().unwrap();
        model.apply(&batch);
        states.push((length(), model.clone()));
    }
    (disk.contents(FILE).unwrap(), states)
}

#[test]
fn a_file_cut_at_any_octet_gives_what_the_whole_batches_say() {
    let (file, states) = written(25);
    let first = states[0].0;
    for length in 0..=file.len() {
        let disk = Disk::holding(FILE, file[..length].to_vec());
        let opened = Log::open(disk.clone());
        if length < first {
            // No crash does that: the first batch has its name when it is whole.
            assert!(
                matches!(
                    opened,
                    Err(StateError::NotOurs(_) | StateError::Damaged { .. })
                ),
                "{length}"
            );
            assert_eq!(disk.contents(FILE).unwrap(), &file[..length], "untouched");
            continue;
        }
        let (_, recovered) = opened.unwrap();
        let whole = states.iter().rev().find(|(at, _)| *at <= length).unwrap();
        assert_eq!(Model::of(&recovered.rules), whole.1, "{length}");
        assert_eq!(recovered.dropped as usize, length - whole.0);
    }
}

#[test]
fn a_bit_that_flips_is_found_or_concerns_the_last_batch_which_is_dropped() {
    let (file, states) = written(12);
    let before_last = &states[states.len() - 2];
    let mut found = 0;
    for bit in 0..file.len() * 8 {
        let mut file = file.clone();
        file[bit / 8] ^= 1 << (bit % 8);
        match Log::open(Disk::holding(FILE, file)) {
            Err(StateError::NotOurs(_) | StateError::Damaged { .. }) => {
                assert!(bit / 8 < before_last.0, "{bit}");
                found += 1;
            }
            Ok((_, recovered)) => {
                assert!(bit / 8 >= before_last.0, "{bit} was not seen");
                assert!(recovered.dropped > 0);
                assert_eq!(Model::of(&recovered.rules), before_last.1);
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(found, before_last.0 * 8);
}

#[test]
fn a_batch_after_what_was_dropped_begins_a_whole_file() {
    let (file, states) = written(12);
    let disk = Disk::holding(FILE, file[..file.len() - 1].to_vec());
    let (mut log, _) = Log::open(disk.clone()).unwrap();
    super::Change::Grant(900).with(|change| log.record(&at(0), change));
    log.commit().unwrap();
    let (_, recovered) = Log::open(disk.after(Crash::Power(0))).unwrap();
    let mut model = states[states.len() - 2].1.clone();
    model.apply(&[super::Change::Grant(900)]);
    assert_eq!((Model::of(&recovered.rules), recovered.dropped), (model, 0));
}

#[test]
fn another_file_is_left_alone() {
    let disk = Disk::holding(FILE, b"something of the administrator's".to_vec());
    assert!(matches!(
        Log::open(disk.clone()),
        Err(StateError::NotOurs(_))
    ));
    assert!(disk.contents("rules.new").is_none());
}
