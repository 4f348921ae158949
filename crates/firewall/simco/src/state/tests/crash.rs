//! Crashes at each operation on the disk.

use super::disk::{Crash, Disk};
use super::{Model, SALT, at, batches};
use crate::message::PolicyRuleId;
use crate::state::StateError;
use crate::state::log::RuleLog;

const CRASHES: [Crash; 9] = [
    Crash::Kill,
    Crash::Power(0),
    Crash::Power(3),
    Crash::Power(7),
    Crash::Power(8),
    Crash::PowerAfterNames(0),
    Crash::PowerAfterNames(3),
    Crash::PowerAfterNames(7),
    Crash::PowerAfterNames(8),
];

/// Runs until the disk crashes or the batches end. Returns the changes reported to agents, and
/// those being written.
fn live(disk: &Disk, limit: u64) -> (Model, Model) {
    let (mut reported, mut written) = (Model::default(), Model::default());
    let Ok((mut log, _)) = RuleLog::open(disk.clone(), SALT) else {
        return (reported, written);
    };
    for batch in batches(3, 40) {
        for change in &batch {
            change.with(|change| log.record(&at(0), change));
        }
        log.set_limit(limit);
        written.apply(&batch);
        if log.commit().is_err() {
            assert!(matches!(log.commit(), Err(StateError::Failed)));
            break;
        }
        reported = written.clone();
    }
    (reported, written)
}

fn every_operation(limit: u64) -> usize {
    let mut crashes = 0;
    for operations in 0.. {
        for eighths in [0, 1, 5, 8] {
            let disk = Disk::default();
            disk.crash_after(operations, eighths);
            let (reported, written) = live(&disk, limit);
            for crash in CRASHES {
                let found = disk.after(crash);
                let (_, recovered) = RuleLog::open(found.clone(), SALT).unwrap();
                let rules = Model::of(&recovered.rules);
                assert!(
                    rules == reported || rules == written,
                    "{operations} {eighths} {crash:?}: {rules:?}, reported {reported:?}"
                );
                // The rewritten file is complete and has the same rules.
                let (_, again) = RuleLog::open(found.after(Crash::Power(0)), SALT).unwrap();
                assert_eq!((&again.rules, again.dropped), (&recovered.rules, 0));
            }
            if !disk.crashed() {
                return crashes;
            }
            crashes += 1;
        }
    }
    crashes
}

#[test]
fn crash_at_any_operation_keeps_granted_rules() {
    assert!(every_operation(u64::MAX) > 300);
}

#[test]
fn crash_during_compaction_keeps_granted_rules() {
    // Each batch rewrites the file.
    assert!(every_operation(0) > 800);
}

#[test]
fn compaction_keeps_the_last_identifiers() {
    let disk = Disk::default();
    let (mut log, _) = RuleLog::open(disk.clone(), SALT).unwrap();
    log.set_limit(4000);
    for batch in batches(3, 40) {
        for change in &batch {
            change.with(|change| log.record(&at(0), change));
        }
        log.commit().unwrap();
    }
    let before = RuleLog::open(disk.after(Crash::Kill), SALT).unwrap().1;
    for rule in &before.rules {
        super::Change::End(rule.id.0).with(|change| log.record(&at(0), change));
    }
    log.set_limit(0);
    log.commit().unwrap();
    assert!(disk.contents("rules").unwrap().len() < 100);
    let (_, recovered) = RuleLog::open(disk, SALT).unwrap();
    assert!(recovered.rules.is_empty() && recovered.last_rule > PolicyRuleId(20));
    assert_eq!(
        (recovered.last_rule, recovered.last_group),
        (before.last_rule, before.last_group)
    );
}

#[test]
fn empty_batch_writes_nothing() {
    let disk = Disk::default();
    let (mut log, _) = RuleLog::open(disk.clone(), SALT).unwrap();
    disk.crash_after(0, 0);
    log.commit().unwrap();
}
