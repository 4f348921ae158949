//! Truncated files and disks that lose data.

use super::disk::{Crash, Disk};
use super::{Model, SALT, at, batches, owner, rule};
use crate::message::{AddressTuple, Location};
use crate::rules::RuleKind;
use crate::state::frame::frame;
use crate::state::log::{FILE, RuleLog};
use crate::state::{RuleChange, StateError};

/// Returns a file, and the rules after each batch with the file's length at that time.
fn written(count: usize) -> (Vec<u8>, Vec<(usize, Model)>) {
    let disk = Disk::default();
    let (mut log, _) = RuleLog::open(disk.clone(), SALT).unwrap();
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
fn truncated_file_yields_complete_batches() {
    let (file, states) = written(25);
    let first = states[0].0;
    for length in 0..=file.len() {
        let disk = Disk::holding(FILE, file[..length].to_vec());
        let opened = RuleLog::open(disk.clone(), SALT);
        if length < first {
            // No crash causes that: the first batch gets its name when it is complete.
            assert!(
                matches!(
                    opened,
                    Err(StateError::OtherFormat(_) | StateError::Damaged { .. })
                ),
                "{length}"
            );
            assert_eq!(disk.contents(FILE).unwrap(), &file[..length], "untouched");
            continue;
        }
        let (_, recovered) = opened.unwrap();
        let complete = states.iter().rev().find(|(at, _)| *at <= length).unwrap();
        assert_eq!(Model::of(&recovered.rules), complete.1, "{length}");
        assert_eq!(recovered.dropped as usize, length - complete.0);
    }
}

#[test]
fn flipped_bit_is_detected_or_in_the_last_batch() {
    let (file, states) = written(12);
    let before_last = &states[states.len() - 2];
    let mut found = 0;
    for bit in 0..file.len() * 8 {
        let mut file = file.clone();
        file[bit / 8] ^= 1 << (bit % 8);
        match RuleLog::open(Disk::holding(FILE, file), SALT) {
            Err(StateError::OtherFormat(_) | StateError::Damaged { .. }) => {
                assert!(bit / 8 < before_last.0, "{bit}");
                found += 1;
            }
            Ok((_, recovered)) => {
                assert!(
                    bit / 8 >= before_last.0,
                    "flipped bit {bit} was not detected"
                );
                assert!(recovered.dropped > 0);
                assert_eq!(Model::of(&recovered.rules), before_last.1);
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(found, before_last.0 * 8);
}

#[test]
fn first_batch_after_a_drop_rewrites_the_file() {
    let (file, states) = written(12);
    let disk = Disk::holding(FILE, file[..file.len() - 1].to_vec());
    let (mut log, _) = RuleLog::open(disk.clone(), SALT).unwrap();
    super::Change::Grant(900).with(|change| log.record(&at(0), change));
    log.commit().unwrap();
    let (_, recovered) = RuleLog::open(disk.after(Crash::Power(0)), SALT).unwrap();
    let mut model = states[states.len() - 2].1.clone();
    model.apply(&[super::Change::Grant(900)]);
    assert_eq!((Model::of(&recovered.rules), recovered.dropped), (model, 0));
}

#[test]
fn other_files_are_not_changed() {
    let disk = Disk::holding(FILE, b"something of the administrator's".to_vec());
    assert!(matches!(
        RuleLog::open(disk.clone(), SALT),
        Err(StateError::OtherFormat(_))
    ));
    assert!(disk.contents("rules.new").is_none());
}

/// Returns the state found when the power fails while a rule with this external address is written.
fn torn_with(address: [u8; 16]) -> Result<(Model, u64), StateError> {
    let disk = Disk::default();
    let (mut log, _) = RuleLog::open(disk.clone(), SALT).unwrap();
    super::Change::Grant(1).with(|change| log.record(&at(0), change));
    log.commit().unwrap();
    let mut torn = rule(3);
    let RuleKind::Enabled { external, .. } = &mut torn.kind else {
        panic!("{torn:?}");
    };
    *external = AddressTuple::single(Location::External, 17, address.into(), 9);
    let complete = disk.contents(FILE).unwrap().len();
    let owner = owner();
    let granted = RuleChange::Granted {
        rule: &torn,
        owner: &owner,
    };
    log.record(&at(0), &granted);
    log.commit().unwrap();
    let mut file = disk.contents(FILE).unwrap();
    let position = file.windows(16).position(|octets| octets == address);
    assert!(
        position.is_some_and(|at| at > complete),
        "the address is in the file"
    );
    file.pop();
    let (_, recovered) = RuleLog::open(Disk::holding(FILE, file), SALT)?;
    Ok((Model::of(&recovered.rules), recovered.dropped))
}

#[test]
fn request_content_cannot_make_a_torn_batch_fatal() {
    let mut model = Model::default();
    model.apply(&[super::Change::Grant(1)]);
    // An address has room for an empty batch; with a later number, the incomplete one before it would
    // indicate damage of the disk. An agent knows everything but the salt.
    for guess in [[0; 8], [0xff; 8], *b"carrick ", *b"rules 2\n"] {
        for number in 3..40 {
            let address = frame(guess, number, &[]).try_into().unwrap();
            let (rules, dropped) = torn_with(address).unwrap();
            assert!(rules == model && dropped > 0, "{number}: {rules:?}");
        }
    }
    // Only the salt prevents it.
    let known = frame(SALT, 5, &[]).try_into().unwrap();
    let found = torn_with(known);
    assert!(matches!(found, Err(StateError::Damaged { .. })));
}
