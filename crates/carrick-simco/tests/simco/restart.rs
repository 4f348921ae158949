//! A middlebox that dies and comes back, with its rules on disk.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use carrick_simco::Time;
use carrick_simco::backend::{MemoryBackend, PortPool};
use carrick_simco::message::{
    Direction, DisableRequest, EnableRequest, Lifetime, NatMode, NegativeReply, Parity,
    PolicyRuleId, PrrParameters, Reply, Request, ReserveRequest,
};
use carrick_simco::middlebox::{MiddleboxConfig, NotRestored, Restored, Rights};
use carrick_simco::state::{FileJournal, Journal, Moment, RuleChange, StateError};

use crate::network::{Net, UDP, agent_config, change, config, in_group, pinhole};

/// A folder of this test; it is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("carrick-simco-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A middlebox as its program runs it: what happened is on disk before the next thing is done.
struct Life {
    net: Net,
    journal: FileJournal,
    restored: Restored,
    /// By the wall clock, when the middlebox began.
    began: SystemTime,
}

fn wall(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

impl Life {
    /// Begins at `began` seconds by the wall clock.
    fn begin(folder: &Folder, config: MiddleboxConfig, backend: MemoryBackend, began: u64) -> Self {
        let (mut journal, recovered) = FileJournal::open(&folder.0).unwrap();
        let mut net = Net::with_backend(config, backend);
        // Its clock begins anew.
        net.now = Time::from_millis(500);
        let at = Moment {
            time: net.now,
            wall: wall(began),
        };
        let restored = net.middlebox.restore(&at, &recovered).unwrap();
        for (rule, _) in &restored.ended {
            journal.record(&at, &RuleChange::Ended(*rule));
        }
        journal.commit().unwrap();
        Self {
            net,
            journal,
            restored,
            began: wall(began),
        }
    }

    fn filter(folder: &Folder, began: u64) -> Self {
        Self::begin(folder, all_rights(), MemoryBackend::default(), began)
    }

    fn keep(&mut self) {
        let at = Moment {
            time: self.net.now,
            wall: self.began + self.net.now.since(Time::from_millis(500)),
        };
        while let Some(event) = self.net.middlebox.poll_event() {
            if let Some(change) = RuleChange::of(&self.net.middlebox, &event) {
                self.journal.record(&at, &change);
            }
        }
        self.journal.commit().unwrap();
    }
}

fn all_rights() -> MiddleboxConfig {
    let mut config = config();
    for agent in &mut config.agents {
        agent.rights = Rights::ALL;
    }
    config
}

#[test]
fn what_was_granted_holds_and_what_was_ended_or_expired_is_closed() {
    let folder = Folder::new("granted");
    let mut life = Life::filter(&folder, 0);
    let alice = life.net.open("alice");
    let first = life.net.enable(alice, pinhole(1));
    let short = EnableRequest {
        lifetime: Lifetime(20),
        ..in_group(first.group, 2)
    };
    let second = life.net.enable(alice, short).rule;
    let ended = life.net.enable(alice, pinhole(3)).rule;
    life.net.ask(alice, &change(ended, 0));
    life.net.ask(alice, &change(first.rule, 100));
    life.keep();
    life.net.wait(10);
    life.keep();
    drop(life);

    // It is away for 15 s: the second rule would have ended in 10.
    let mut life = Life::filter(&folder, 25);
    assert_eq!(life.restored.rules, 1);
    assert_eq!(life.restored.ended, [(second, NotRestored::Expired)]);
    assert_eq!(
        [1, 2, 3].map(|port| life.net.passes(port, Direction::Inbound)),
        [true, false, false]
    );
    let alice = life.net.open("alice");
    assert_eq!(
        life.net.refusal(alice, &change(second, 9)),
        NegativeReply::NoSuchRule
    );
    let joined = life.net.enable(alice, in_group(first.group, 4));
    assert_eq!(joined.group, first.group, "the group goes on");
    assert!(joined.rule > ended, "no identifier is used again");
    // 75 of its 100 s are left.
    life.net.wait(74);
    assert!(life.net.passes(1, Direction::Inbound));
    life.net.wait(1);
    assert!(!life.net.passes(1, Direction::Inbound));
    life.keep();
    drop(life);
    let life = Life::filter(&folder, 100);
    assert_eq!(life.restored, Restored::default());
    assert_eq!(life.net.elements(), 0);
}

#[test]
fn rules_belong_to_names_and_those_of_agents_who_left_end() {
    let folder = Folder::new("owners");
    let mut life = Life::filter(&folder, 0);
    let [alice, bob] = ["alice", "bob"].map(|name| life.net.open(name));
    let of_alice = life.net.enable(alice, pinhole(1)).rule;
    let of_bob = life.net.enable(bob, pinhole(2)).rule;
    life.keep();
    drop(life);
    let others = MiddleboxConfig {
        agents: vec![agent_config("carol"), agent_config("bob")],
        ..config()
    };
    let mut life = Life::begin(&folder, others, MemoryBackend::default(), 1);
    assert_eq!(life.restored.ended, [(of_alice, NotRestored::UnknownOwner)]);
    assert!(!life.net.passes(1, Direction::Inbound) && life.net.passes(2, Direction::Inbound));
    let [bob, carol] = ["bob", "carol"].map(|name| life.net.open(name));
    let refused = life.net.refusal(carol, &change(of_bob, 0));
    assert_eq!(refused, NegativeReply::RuleNotAuthorized);
    assert_eq!(life.net.ask(bob, &change(of_bob, 0)), Reply::Deleted);
}

#[test]
fn identical_rules_are_counted_again_and_a_pdr_blocks_again() {
    let folder = Folder::new("counted");
    let mut life = Life::filter(&folder, 0);
    let alice = life.net.open("alice");
    let rules = [(); 2].map(|()| life.net.enable(alice, pinhole(1)).rule);
    let disable = |port| {
        let EnableRequest {
            internal, external, ..
        } = pinhole(port);
        Request::Disable(DisableRequest {
            internal,
            external,
            lifetime: Lifetime(60),
        })
    };
    life.net.ask(alice, &disable(9));
    life.keep();
    drop(life);
    let mut life = Life::filter(&folder, 1);
    let alice = life.net.open("alice");
    let refused = life.net.refusal(alice, &Request::Enable(pinhole(9)));
    assert_eq!(refused, NegativeReply::Conflict);
    for (rule, passes) in rules.into_iter().zip([true, false]) {
        assert_eq!(life.net.ask(alice, &change(rule, 0)), Reply::Deleted);
        assert_eq!(life.net.passes(1, Direction::Inbound), passes);
    }
    assert_eq!(life.net.middlebox.stats().backend_failures, 0);
}

#[test]
fn reservations_keep_their_ports_also_when_enabled() {
    let folder = Folder::new("ports");
    let pool = || PortPool::new([198, 51, 100, 1].into(), 4000..=4003);
    let translator = || {
        let mut config = config();
        config.capabilities.address_translator = true;
        config
    };
    let backend = || MemoryBackend::default().with_translation(pool());
    let reserve = Request::Reserve(ReserveRequest {
        parameters: PrrParameters {
            nat_mode: NatMode::Traditional,
            parity: Parity::Any,
            inside: None,
            outside: None,
            protocol: UDP,
            ports: 2,
        },
        lifetime: Lifetime(60),
        group: None,
    });
    let mut life = Life::begin(&folder, translator(), backend(), 0);
    let alice = life.net.open("alice");
    let reserved = life.net.ask(alice, &reserve);
    assert!(matches!(reserved, Reply::Reserved(_)), "{reserved:?}");
    let enabled = life.net.enable(alice, pinhole(1));
    life.keep();
    drop(life);
    let mut life = Life::begin(&folder, translator(), backend(), 1);
    assert_eq!(
        (
            life.restored.rules,
            life.net.middlebox.backend().reserved_ports()
        ),
        (2, 3)
    );
    let alice = life.net.open("alice");
    assert_eq!(
        life.net.refusal(alice, &reserve),
        NegativeReply::LackOfPorts
    );
    let enable = Request::EnableReserved {
        enable: pinhole(5),
        rule: PolicyRuleId(1),
    };
    let reply = life.net.ask(alice, &enable);
    assert!(matches!(reply, Reply::Enabled(_)), "{reply:?}");
    life.net.ask(alice, &change(enabled.rule, 0));
    assert_eq!(life.net.middlebox.backend().reserved_ports(), 2);
    life.keep();
    drop(life);
    // A packet filter that doesn't translate can't go on with it.
    let life = Life::filter(&folder, 2);
    assert_eq!(
        life.restored.ended,
        [(PolicyRuleId(1), NotRestored::OtherTranslation)]
    );
}

#[test]
fn a_clock_that_was_set_back_prolongs_nothing_beyond_what_may_be_granted() {
    let folder = Folder::new("clock");
    let mut life = Life::filter(&folder, 100_000);
    let alice = life.net.open("alice");
    life.net.enable(alice, pinhole(1));
    life.keep();
    drop(life);
    let mut life = Life::filter(&folder, 0);
    let longest = u64::from(config().capabilities.max_lifetime.0);
    life.net.wait(longest - 1);
    assert!(life.net.passes(1, Direction::Inbound));
    life.net.wait(1);
    assert!(!life.net.passes(1, Direction::Inbound));
}

#[test]
fn a_folder_belongs_to_one_middlebox_at_a_time() {
    let folder = Folder::new("lock");
    let life = Life::filter(&folder, 0);
    assert!(matches!(
        FileJournal::open(&folder.0),
        Err(StateError::InUse(_))
    ));
    drop(life);
    FileJournal::open(&folder.0).unwrap();
}
