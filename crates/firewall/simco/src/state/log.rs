//! Rule file and its compaction.

use std::collections::BTreeMap;
use std::io;

use super::frame::{self, START_LEN, Salt, UnreadableFile};
use super::record::{RecordReader, RuleRecord};
use super::storage::Storage;
use super::{ClockReadings, RecoveredState, RuleChange, StateError, StoredRule};
use crate::message::{GroupId, PolicyRuleId};

/// Name of the rule file, and of a new one being written.
pub(super) const FILE: &str = "rules";
pub(super) const NEW_FILE: &str = "rules.new";

/// Files up to this size are not compacted.
const SMALL: u64 = 1 << 20;

/// Rule file in a folder.
#[derive(Debug)]
pub(super) struct RuleLog<S: Storage> {
    storage: S,
    file: S::File,
    salt: Salt,
    /// Rules of the file including the batch being recorded.
    rules: Rules,
    batch: Vec<u8>,
    next_number: u64,
    written: u64,
    /// Size at which the file is compacted.
    limit: u64,
    failed: bool,
}

/// Rules after the recorded changes.
#[derive(Clone, Debug, Default)]
struct Rules {
    by_id: BTreeMap<PolicyRuleId, StoredRule>,
    last_rule: PolicyRuleId,
    last_group: GroupId,
}

impl Rules {
    fn apply(&mut self, record: RuleRecord) {
        match record {
            RuleRecord::Granted(rule) => {
                self.last_rule = self.last_rule.max(rule.id);
                self.last_group = self.last_group.max(rule.group);
                self.by_id.insert(rule.id, rule);
            }
            RuleRecord::Lifetime(id, expires) => {
                if let Some(rule) = self.by_id.get_mut(&id) {
                    rule.expires = expires;
                }
            }
            RuleRecord::Ended(id) => {
                self.by_id.remove(&id);
            }
            RuleRecord::Last(rule, group) => (self.last_rule, self.last_group) = (rule, group),
        }
    }

    /// Returns a first batch with all rules.
    fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for rule in self.by_id.values() {
            RuleRecord::Granted(rule.clone()).write(&mut out);
        }
        RuleRecord::Last(self.last_rule, self.last_group).write(&mut out);
        out
    }
}

impl<S: Storage> RuleLog<S> {
    /// Reads the file and rewrites it with another salt.
    pub(super) fn open(mut storage: S, salt: Salt) -> Result<(Self, RecoveredState), StateError> {
        let path = storage.path(FILE);
        let octets = storage.read(FILE).map_err(|source| StateError::Io {
            what: "read",
            path: path.clone(),
            source,
        })?;
        let (rules, dropped) = match octets {
            None => (Rules::default(), 0),
            Some(octets) => read(&octets).map_err(|error| match error {
                UnreadableFile::OtherFormat => StateError::OtherFormat(path),
                UnreadableFile::Damaged(offset) => StateError::Damaged { path, offset },
            })?,
        };
        let recovered = RecoveredState {
            rules: rules.by_id.values().cloned().collect(),
            last_rule: rules.last_rule,
            last_group: rules.last_group,
            dropped,
        };
        let (file, written) =
            rewrite(&mut storage, salt, &rules).map_err(|s| io_error(&storage, s))?;
        let log = Self {
            storage,
            file,
            salt,
            rules,
            batch: Vec::new(),
            next_number: 1,
            written,
            limit: limit(written),
            failed: false,
        };
        Ok((log, recovered))
    }

    pub(super) fn record(&mut self, at: &ClockReadings, change: &RuleChange<'_>) {
        let record = RuleRecord::of(at, change);
        record.write(&mut self.batch);
        self.rules.apply(record);
    }

    pub(super) fn commit(&mut self) -> Result<(), StateError> {
        if self.failed {
            return Err(StateError::Failed);
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        let outcome = if self.written + self.batch.len() as u64 > self.limit {
            self.compact()
        } else {
            self.append()
        };
        self.batch.clear();
        outcome.map_err(|source| {
            self.failed = true;
            io_error(&self.storage, source)
        })
    }

    fn append(&mut self) -> io::Result<()> {
        let frame = frame::frame(self.salt, self.next_number, &self.batch);
        self.storage.append(&mut self.file, &frame)?;
        self.storage.sync(&mut self.file)?;
        self.next_number += 1;
        self.written += frame.len() as u64;
        Ok(())
    }

    /// Rewrites the file with the batch.
    fn compact(&mut self) -> io::Result<()> {
        (self.file, self.written) = rewrite(&mut self.storage, self.salt, &self.rules)?;
        self.next_number = 1;
        self.limit = limit(self.written);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }
}

/// Returns the size at which a file that has this size now is compacted, so that each octet is written
/// twice on average.
fn limit(written: u64) -> u64 {
    written.saturating_mul(2).saturating_add(SMALL)
}

/// Replaces the file. A crash at any point leaves the old file or the new one.
fn rewrite<S: Storage>(storage: &mut S, salt: Salt, rules: &Rules) -> io::Result<(S::File, u64)> {
    let mut octets = frame::start(salt);
    octets.extend_from_slice(&frame::frame(salt, 0, &rules.snapshot()));
    let mut file = storage.create(NEW_FILE)?;
    storage.append(&mut file, &octets)?;
    storage.sync(&mut file)?;
    storage.rename(NEW_FILE, FILE)?;
    storage.sync_folder()?;
    Ok((file, octets.len() as u64))
}

fn read(file: &[u8]) -> Result<(Rules, u64), UnreadableFile> {
    let frames = frame::read(file)?;
    let mut rules = Rules::default();
    let mut offset = START_LEN;
    for batch in &frames.batches {
        let mut reader = RecordReader(batch);
        while let Some(record) = reader.next() {
            // A correct checksum over malformed records: written by another program.
            let record = record.map_err(|_| UnreadableFile::Damaged(offset as u64))?;
            rules.apply(record);
        }
        offset += frame::HEADER_LEN + batch.len();
    }
    Ok((rules, frames.dropped))
}

fn io_error<S: Storage>(storage: &S, source: io::Error) -> StateError {
    StateError::Io {
        what: "write",
        path: storage.path(FILE),
        source,
    }
}
