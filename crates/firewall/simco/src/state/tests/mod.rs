mod crash;
mod damage;
mod disk;

use std::time::{Duration, SystemTime};

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::record::{RecordReader, RuleRecord};
use super::{BootTime, ClockReadings, RuleChange, StoredKind, StoredRule};
use crate::Time;
use crate::backend::{Reservation, elements_of, pattern_of};
use crate::message::{
    AddressTuple, Direction, GroupId, IpVersion, Location, PerParameters, PolicyRuleId, PortParity,
    Scope,
};
use crate::rules::{AgentIndex, Rule, RuleKind};
use crate::session::Identity;

const UDP: u8 = 17;

fn at(seconds: u64) -> ClockReadings {
    ClockReadings {
        time: Time::ZERO + Duration::from_secs(seconds),
        wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds),
        boot: Some(BootTime {
            boot: [9; 16],
            since: Duration::from_secs(50 + seconds),
        }),
    }
}

/// Returns a rule of one of the kinds, in IPv4 and IPv6, with and without reservations.
fn rule(id: u32) -> Rule {
    let version = |v6: bool| if v6 { IpVersion::V6 } else { IpVersion::V4 };
    let (a0, a3, a2) = if id.is_multiple_of(2) {
        (
            [10, 0, 0, 1].into(),
            [192, 0, 2, 1].into(),
            [198, 51, 100, 1].into(),
        )
    } else {
        (
            [0x20, 1, 0, 0, 0, 0, 0, 1].into(),
            [0x20, 2, 0, 0, 0, 0, 0, 2].into(),
            [0x20, 3, 0, 0, 0, 0, 0, 3].into(),
        )
    };
    let port = id as u16;
    let internal = AddressTuple::range(Location::Internal, UDP, a0, port, 2);
    let external = AddressTuple::range(Location::External, UDP, a3, port, 2);
    let wild = AddressTuple {
        location: Location::External,
        protocol: 0,
        scope: Scope::ProtocolsOnly(version(!id.is_multiple_of(2))),
    };
    let reservation = Reservation {
        outside: AddressTuple::range(Location::Outside, UDP, a2, port, 2),
        inside: id
            .is_multiple_of(5)
            .then(|| AddressTuple::range(Location::Inside, UDP, a3, port, 2)),
    };
    let direction = [Direction::Inbound, Direction::Outbound, Direction::Both][id as usize % 3];
    let kind = match id % 4 {
        0 => RuleKind::Reserved { reservation },
        1 => RuleKind::Disabled {
            internal,
            external: wild,
            pattern: pattern_of(&internal, &wild),
        },
        n => RuleKind::Enabled {
            parameters: PerParameters {
                parity: PortParity::Same,
                direction,
            },
            internal,
            external,
            reported: reservation,
            reservation: (n == 3).then_some(reservation),
            elements: elements_of(&internal, &external, None, direction),
            pattern: pattern_of(&internal, &external),
        },
    };
    Rule {
        id: PolicyRuleId(id),
        group: GroupId(id / 3 + 1),
        owner: AgentIndex(0),
        expires: at(100 + u64::from(id)).time,
        kind,
    }
}

/// Salt of the files of these tests.
const SALT: [u8; 8] = *b"not zero";

fn owner() -> Identity {
    Identity::new("alice@пример").unwrap()
}

/// Returns changes like those of a middlebox: grants, refreshes, ends, in batches of 1 to 4.
fn batches(seed: u8, count: usize) -> Vec<Vec<Change>> {
    let mut random = ChaCha20Rng::from_seed([seed; 32]);
    let (mut live, mut next): (Vec<u32>, u32) = (Vec::new(), 1);
    let mut change = || {
        let choice = random.next_u32();
        let which = (random.next_u32() as usize) % live.len().max(1);
        match choice % 4 {
            2 if !live.is_empty() => Change::Live(live[which], u64::from(choice % 1000)),
            3 if !live.is_empty() => Change::End(live.swap_remove(which)),
            _ => {
                live.push(next);
                next += 1;
                Change::Grant(next - 1)
            }
        }
    };
    (0..count)
        .map(|n| (0..=n % 4).map(|_| change()).collect())
        .collect()
}

/// Change in the notation of the tests.
#[derive(Clone, Copy, Debug)]
enum Change {
    Grant(u32),
    Live(u32, u64),
    End(u32),
}

impl Change {
    fn with<T>(self, use_it: impl FnOnce(&RuleChange<'_>) -> T) -> T {
        let (rule, owner) = match self {
            Self::Grant(id) => (rule(id), owner()),
            Self::Live(id, seconds) => {
                return use_it(&RuleChange::LifetimeChanged {
                    rule: PolicyRuleId(id),
                    expires: at(seconds).time,
                });
            }
            Self::End(id) => return use_it(&RuleChange::Ended(PolicyRuleId(id))),
        };
        use_it(&RuleChange::Granted {
            rule: &rule,
            owner: &owner,
        })
    }
}

/// Rules after changes, computed without the code under test.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Model {
    rules: Vec<(PolicyRuleId, Duration)>,
}

impl Model {
    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match *change {
                Change::Grant(id) => {
                    let rule = rule(id);
                    self.rules.push((rule.id, at(0).wall_at(rule.expires)));
                }
                Change::Live(id, seconds) => {
                    let found = self.rules.iter_mut().find(|(rule, _)| rule.0 == id);
                    found.unwrap().1 = at(0).wall_at(at(seconds).time);
                }
                Change::End(id) => self.rules.retain(|(rule, _)| rule.0 != id),
            }
        }
        self.rules.sort_unstable();
    }

    fn of(rules: &[StoredRule]) -> Self {
        Self {
            rules: rules.iter().map(|r| (r.id, r.expires.wall)).collect(),
        }
    }
}

#[test]
fn all_rule_kinds_are_read_as_written() {
    let at = at(7);
    for id in 0..20 {
        let rule = rule(id);
        let owner = owner();
        let granted = RuleChange::Granted {
            rule: &rule,
            owner: &owner,
        };
        let mut octets = Vec::new();
        RuleRecord::of(&at, &granted).write(&mut octets);
        let mut reader = RecordReader(&octets);
        let Some(Ok(RuleRecord::Granted(stored))) = reader.next() else {
            panic!("{octets:?} is not a granted rule");
        };
        assert!(reader.next().is_none());
        assert_eq!(
            (stored.id, stored.group, stored.owner),
            (rule.id, rule.group, owner)
        );
        let seconds = |all: u64| Duration::from_secs(all + u64::from(id));
        let boot = stored.expires.boot.unwrap();
        assert_eq!(stored.expires.wall, seconds(1_000_100));
        assert_eq!(stored.expires.left, seconds(93));
        assert_eq!((boot.boot, boot.since), ([9; 16], seconds(150)));
        let same = match (rule.kind, stored.kind) {
            (RuleKind::Reserved { reservation: a }, StoredKind::Reserved { reservation: b }) => {
                a == b
            }
            (
                RuleKind::Disabled {
                    internal, external, ..
                },
                StoredKind::Disabled {
                    internal: i,
                    external: e,
                },
            ) => (internal, external) == (i, e),
            (
                RuleKind::Enabled {
                    parameters,
                    internal,
                    external,
                    reservation,
                    ..
                },
                StoredKind::Enabled {
                    parameters: p,
                    internal: i,
                    external: e,
                    reservation: r,
                },
            ) => (parameters, internal, external, reservation) == (p, i, e, r),
            _ => false,
        };
        assert!(same, "rule {id}");
    }
}

#[test]
fn truncated_record_is_malformed() {
    let mut octets = Vec::new();
    let rule = rule(3);
    let owner = owner();
    let granted = RuleChange::Granted {
        rule: &rule,
        owner: &owner,
    };
    RuleRecord::of(&at(0), &granted).write(&mut octets);
    for length in 1..octets.len() {
        assert!(matches!(
            RecordReader(&octets[..length]).next(),
            Some(Err(_))
        ));
    }
}
