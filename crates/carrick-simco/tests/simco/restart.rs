//! A middlebox that dies and comes back, with its rules on disk.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use carrick_simco::Time;
use carrick_simco::backend::{MemoryBackend, PortPool};
use carrick_simco::message::{
    Direction, EnableRequest, Lifetime, NegativeReply, PolicyRuleId, Reply, Request,
};
use carrick_simco::middlebox::{MiddleboxConfig, NotRestored, Restored, Rights};
use carrick_simco::state::{BootTime, FileJournal, Journal, Moment, RuleChange, StateError};

use crate::network::{Net, UDP, agent_config, block, change, config, in_group, pinhole, reserve};

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
    /// When the middlebox began.
    began: Began,
}

/// A time by the wall clock, and by that of the host's `boot`th run.
#[derive(Clone, Copy)]
struct Began {
    wall: u64,
    boot: u8,
    since: u64,
}

impl Began {
    /// As much later.
    fn at(self, now: Time) -> Moment {
        let since = now.since(BEGIN);
        Moment {
            time: now,
            wall: wall(self.wall) + since,
            boot: Some(BootTime {
                boot: [self.boot; 16],
                since: Duration::from_secs(self.since) + since,
            }),
        }
    }
}

/// Time of a middlebox's own clock at its start.
const BEGIN: Time = Time::from_millis(500);

fn wall(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

impl Life {
    /// Begins at `began` seconds by both clocks of the host.
    fn begin(folder: &Folder, config: MiddleboxConfig, backend: MemoryBackend, began: u64) -> Self {
        let began = Began {
            wall: began,
            boot: 1,
            since: began,
        };
        Self::begin_at(folder, config, backend, began)
    }

    fn begin_at(
        folder: &Folder,
        config: MiddleboxConfig,
        backend: MemoryBackend,
        began: Began,
    ) -> Self {
        let (mut journal, recovered) = FileJournal::open(&folder.0, [1; 8]).unwrap();
        let mut net = Net::with_backend(config, backend);
        // Its clock starts again.
        net.now = BEGIN;
        let at = began.at(net.now);
        let restored = net.middlebox.restore(&at, &recovered).unwrap();
        for change in net.middlebox.changes_of(&restored) {
            journal.record(&at, &change);
        }
        journal.commit().unwrap();
        Self {
            net,
            journal,
            restored,
            began,
        }
    }

    fn filter(folder: &Folder, began: u64) -> Self {
        Self::begin(folder, all_rights(), MemoryBackend::default(), began)
    }

    fn keep(&mut self) {
        let at = self.began.at(self.net.now);
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
fn restart_restores_rules_in_force_only() {
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
    assert_eq!(joined.group, first.group, "the group continues");
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
fn rules_of_removed_agents_stay_until_expiry() {
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
    assert_eq!((life.restored.rules, life.restored.ended.len()), (2, 0));
    assert!(life.net.passes(1, Direction::Inbound) && life.net.passes(2, Direction::Inbound));
    let [bob, carol] = ["bob", "carol"].map(|name| life.net.open(name));
    let refused = life.net.refusal(carol, &change(of_bob, 0));
    assert_eq!(refused, NegativeReply::RuleNotAuthorized);
    assert_eq!(life.net.ask(bob, &change(of_bob, 0)), Reply::Deleted);
    let refused = life.net.refusal(carol, &change(of_alice, 0));
    assert_eq!(refused, NegativeReply::RuleNotAuthorized);
    // She comes back after another restart and has her rule.
    life.keep();
    drop(life);
    let mut life = Life::filter(&folder, 2);
    let alice = life.net.open("alice");
    assert_eq!(life.net.ask(alice, &change(of_alice, 0)), Reply::Deleted);
}

#[test]
fn restart_restores_identical_rules_and_pdr() {
    let folder = Folder::new("counted");
    let mut life = Life::filter(&folder, 0);
    let alice = life.net.open("alice");
    let rules = [(); 2].map(|()| life.net.enable(alice, pinhole(1)).rule);
    life.net.ask(alice, &block(pinhole(9)));
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
    let reserve = Request::Reserve(reserve(UDP, 2, 60));
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

/// A rule of 60 s of which 1 s is left, at 100,000 s by the wall and at 500 s of the host's first run.
fn almost_over(folder: &Folder) -> Life {
    let began = Began {
        wall: 100_000,
        boot: 1,
        since: 441,
    };
    let mut life = Life::begin_at(folder, all_rights(), MemoryBackend::default(), began);
    let alice = life.net.open("alice");
    let pinhole = EnableRequest {
        lifetime: Lifetime(60),
        ..pinhole(1)
    };
    life.net.enable(alice, pinhole);
    life.keep();
    life
}

fn again(folder: &Folder, wall: u64, boot: u8, since: u64) -> Life {
    let began = Began { wall, boot, since };
    Life::begin_at(folder, all_rights(), MemoryBackend::default(), began)
}

/// How many seconds it passes on.
fn passes_for(life: &mut Life) -> u64 {
    let mut seconds = 0;
    while life.net.passes(1, Direction::Inbound) {
        life.net.wait(1);
        seconds += 1;
    }
    seconds
}

#[test]
fn wall_clock_step_does_not_move_expiry() {
    for wall in [0, 100_059, 5_000_000] {
        let folder = Folder::new(&format!("step-{wall}"));
        drop(almost_over(&folder));
        let mut life = again(&folder, wall, 1, 500);
        assert_eq!(life.restored.recomputed, []);
        assert_eq!(passes_for(&mut life), 1, "{wall}");
    }
}

#[test]
fn clock_set_back_does_not_extend_rules() {
    let folder = Folder::new("back");
    drop(almost_over(&folder));
    // The host was rebooted with its clock a day behind.
    let life = again(&folder, 13_600, 2, 10);
    assert_eq!(life.restored.recomputed, [PolicyRuleId(1)]);
    drop(life);
    // From now on the host's clock counts, and the wall's may go on as it likes.
    let life = again(&folder, 50_000, 2, 30);
    assert_eq!(life.restored.recomputed, []);
    drop(life);
    let mut life = again(&folder, 3, 2, 50);
    assert_eq!(passes_for(&mut life), 20, "60 s from the start of the host");
}

#[test]
fn after_a_start_of_the_host_the_wall_clock_counts() {
    let folder = Folder::new("host");
    drop(almost_over(&folder));
    let mut life = again(&folder, 100_040, 2, 10);
    assert_eq!(passes_for(&mut life), 20);
    let folder = Folder::new("host-long");
    drop(almost_over(&folder));
    let life = again(&folder, 100_060, 2, 10);
    assert_eq!(
        life.restored.ended,
        [(PolicyRuleId(1), NotRestored::Expired)]
    );
}

#[test]
fn a_folder_belongs_to_one_middlebox_at_a_time() {
    let folder = Folder::new("lock");
    let life = Life::filter(&folder, 0);
    assert!(matches!(
        FileJournal::open(&folder.0, [1; 8]),
        Err(StateError::InUse(_))
    ));
    drop(life);
    FileJournal::open(&folder.0, [1; 8]).unwrap();
}
