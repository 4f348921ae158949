//! Encoding of changes of rules. Numbers are in network byte order; times in nanoseconds since 1970.
//!
//! ```text
//! 1 granted   PID 32, GID 32, end, owner (length 8), kind 8:
//!               1 reserved   reservation
//!               2 enabled    parameters 32, tuple, tuple, 0 or 1, reservation if 1
//!               3 disabled   tuple, tuple
//! 2 lifetime  PID 32, end
//! 3 ended     PID 32
//! 4 last      last PID 32 and last GID 32 in use
//! end          wall clock 64, remaining time 64, 0 or 1, then if 1 boot identifier 128, time since boot 64
//! reservation  tuple, 0 or 1, tuple if 1
//! tuple        as the attribute's value of RFC 4540, section 4.3.8 (length 8)
//! ```

use std::time::Duration;

use bytes::Bytes;

use super::{BootTime, ClockReadings, RuleChange, StoredEnd, StoredKind, StoredRule};
use crate::backend::Reservation;
use crate::message::{AddressTuple, GroupId, PerParameters, PolicyRuleId};
use crate::rules::RuleKind;
use crate::session::Identity;

const GRANTED: u8 = 1;
const LIFETIME: u8 = 2;
const ENDED: u8 = 3;
const LAST: u8 = 4;

const RESERVED: u8 = 1;
const ENABLED: u8 = 2;
const DISABLED: u8 = 3;

/// Record of the rule file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum RuleRecord {
    Granted(StoredRule),
    Lifetime(PolicyRuleId, StoredEnd),
    Ended(PolicyRuleId),
    Last(PolicyRuleId, GroupId),
}

impl RuleRecord {
    /// Returns the record of a change.
    pub(super) fn of(at: &ClockReadings, change: &RuleChange<'_>) -> Self {
        match *change {
            RuleChange::Granted { rule, owner } => Self::Granted(StoredRule {
                id: rule.id,
                group: rule.group,
                owner: owner.clone(),
                expires: at.end(rule.expires),
                kind: StoredKind::of(&rule.kind),
            }),
            RuleChange::LifetimeChanged { rule, expires } => Self::Lifetime(rule, at.end(expires)),
            RuleChange::Ended(rule) => Self::Ended(rule),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Granted(rule) => {
                out.push(GRANTED);
                out.extend_from_slice(&rule.id.0.to_be_bytes());
                out.extend_from_slice(&rule.group.0.to_be_bytes());
                write_end(out, &rule.expires);
                write_short(out, rule.owner.as_bytes());
                write_kind(out, &rule.kind);
            }
            Self::Lifetime(rule, expires) => {
                out.push(LIFETIME);
                out.extend_from_slice(&rule.0.to_be_bytes());
                write_end(out, expires);
            }
            Self::Ended(rule) => {
                out.push(ENDED);
                out.extend_from_slice(&rule.0.to_be_bytes());
            }
            Self::Last(rule, group) => {
                out.push(LAST);
                out.extend_from_slice(&rule.0.to_be_bytes());
                out.extend_from_slice(&group.0.to_be_bytes());
            }
        }
    }
}

impl StoredKind {
    fn of(kind: &RuleKind) -> Self {
        match *kind {
            RuleKind::Reserved { reservation } => Self::Reserved { reservation },
            RuleKind::Enabled {
                parameters,
                internal,
                external,
                reservation,
                ..
            } => Self::Enabled {
                parameters,
                internal,
                external,
                reservation,
            },
            RuleKind::Disabled {
                internal, external, ..
            } => Self::Disabled { internal, external },
        }
    }
}

fn write_end(out: &mut Vec<u8>, end: &StoredEnd) {
    write_time(out, end.wall);
    write_time(out, end.left);
    out.push(u8::from(end.boot.is_some()));
    if let Some(boot) = &end.boot {
        out.extend_from_slice(&boot.boot);
        write_time(out, boot.since);
    }
}

fn write_time(out: &mut Vec<u8>, time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    out.extend_from_slice(&nanos.to_be_bytes());
}

/// Writes at most 255 octets, as names and tuples have.
fn write_short(out: &mut Vec<u8>, octets: &[u8]) {
    out.push(octets.len() as u8);
    out.extend_from_slice(octets);
}

fn write_tuple(out: &mut Vec<u8>, tuple: &AddressTuple) {
    let (value, len) = tuple.write();
    write_short(out, &value[..len]);
}

fn write_reservation(out: &mut Vec<u8>, reservation: &Reservation) {
    write_tuple(out, &reservation.outside);
    out.push(u8::from(reservation.inside.is_some()));
    if let Some(inside) = &reservation.inside {
        write_tuple(out, inside);
    }
}

fn write_kind(out: &mut Vec<u8>, kind: &StoredKind) {
    match kind {
        StoredKind::Reserved { reservation } => {
            out.push(RESERVED);
            write_reservation(out, reservation);
        }
        StoredKind::Enabled {
            parameters,
            internal,
            external,
            reservation,
        } => {
            out.push(ENABLED);
            out.extend_from_slice(&parameters.write());
            write_tuple(out, internal);
            write_tuple(out, external);
            out.push(u8::from(reservation.is_some()));
            if let Some(reservation) = reservation {
                write_reservation(out, reservation);
            }
        }
        StoredKind::Disabled { internal, external } => {
            out.push(DISABLED);
            write_tuple(out, internal);
            write_tuple(out, external);
        }
    }
}

/// Reader of the records of a batch, in order.
pub(super) struct RecordReader<'a>(pub(super) &'a [u8]);

impl RecordReader<'_> {
    /// Returns the next record: `None` at the end, an error if it is malformed.
    pub(super) fn next(&mut self) -> Option<Result<RuleRecord, MalformedRecord>> {
        (!self.0.is_empty()).then(|| self.record().ok_or(MalformedRecord))
    }

    fn record(&mut self) -> Option<RuleRecord> {
        Some(match self.octet()? {
            GRANTED => RuleRecord::Granted(StoredRule {
                id: PolicyRuleId(self.number()?),
                group: GroupId(self.number()?),
                expires: self.end()?,
                owner: self.owner()?,
                kind: self.kind()?,
            }),
            LIFETIME => RuleRecord::Lifetime(PolicyRuleId(self.number()?), self.end()?),
            ENDED => RuleRecord::Ended(PolicyRuleId(self.number()?)),
            LAST => RuleRecord::Last(PolicyRuleId(self.number()?), GroupId(self.number()?)),
            _ => return None,
        })
    }

    fn kind(&mut self) -> Option<StoredKind> {
        Some(match self.octet()? {
            RESERVED => StoredKind::Reserved {
                reservation: self.reservation()?,
            },
            ENABLED => StoredKind::Enabled {
                parameters: PerParameters::from_value(self.octets(4)?)?,
                internal: self.tuple()?,
                external: self.tuple()?,
                reservation: match self.octet()? {
                    0 => None,
                    _ => Some(self.reservation()?),
                },
            },
            DISABLED => StoredKind::Disabled {
                internal: self.tuple()?,
                external: self.tuple()?,
            },
            _ => return None,
        })
    }

    fn reservation(&mut self) -> Option<Reservation> {
        Some(Reservation {
            outside: self.tuple()?,
            inside: match self.octet()? {
                0 => None,
                _ => Some(self.tuple()?),
            },
        })
    }

    fn tuple(&mut self) -> Option<AddressTuple> {
        let length = self.octet()?;
        AddressTuple::from_value(self.octets(usize::from(length))?)
    }

    fn owner(&mut self) -> Option<Identity> {
        let length = self.octet()?;
        Identity::from_octets(Bytes::copy_from_slice(self.octets(usize::from(length))?))
    }

    fn end(&mut self) -> Option<StoredEnd> {
        Some(StoredEnd {
            wall: self.time()?,
            left: self.time()?,
            boot: match self.octet()? {
                0 => None,
                _ => Some(BootTime {
                    boot: *self.octets(16)?.first_chunk()?,
                    since: self.time()?,
                }),
            },
        })
    }

    fn time(&mut self) -> Option<Duration> {
        let octets = self.octets(8)?.first_chunk::<8>()?;
        Some(Duration::from_nanos(u64::from_be_bytes(*octets)))
    }

    fn number(&mut self) -> Option<u32> {
        let octets = self.octets(4)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*octets))
    }

    fn octet(&mut self) -> Option<u8> {
        self.octets(1)?.first().copied()
    }

    fn octets(&mut self, count: usize) -> Option<&[u8]> {
        let (now, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(now)
    }
}

/// The octets are not a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct MalformedRecord;
