//! Restart of a middlebox, with its rules on disk.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use carrick_simco::Time;
use carrick_simco::backend::{MemoryBackend, PortPool};
use carrick_simco::message::{
    Direction, EnableRequest, Lifetime, NegativeReply, PolicyRuleId, Reply, Request,
};
use carrick_simco::middlebox::{MiddleboxConfig, NotRestored, RestoredRules, Rights};
use carrick_simco::state::{BootTime, ClockReadings, FileJournal, Journal, RuleChange, StateError};

use crate::network::{Net, UDP, agent_config, block, change, config, in_group, pinhole, reserve};

/// Folder of one test, removed when dropped.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> Self {
        let name = format!("carrick-simco-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Running middlebox whose changes are written to disk before its replies are sent.
struct RunningMiddlebox {
    net: Net,
    journal: FileJournal,
    restored: RestoredRules,
    /// Time of its start.
    start: StartTime,
}

/// Time of a start by the wall clock, and by the host's clock since boot number `boot`.
#[derive(Clone, Copy)]
struct StartTime {
    wall: u64,
    boot: u8,
    since: u64,
}

impl StartTime {
    /// Returns the moment at this time of the middlebox's clock.
    fn at(self, now: Time) -> ClockReadings {
        let since = now.since(BEGIN);
        ClockReadings {
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

impl RunningMiddlebox {
    /// Starts at `start` seconds by both clocks of the host.
    fn begin(
        folder: &TestFolder,
        config: MiddleboxConfig,
        backend: MemoryBackend,
        start: u64,
    ) -> Self {
        let start = StartTime {
            wall: start,
            boot: 1,
            since: start,
        };
        Self::begin_at(folder, config, backend, start)
    }

    fn begin_at(
        folder: &TestFolder,
        config: MiddleboxConfig,
        backend: MemoryBackend,
        start: StartTime,
    ) -> Self {
        let (mut journal, recovered) = FileJournal::open(&folder.0, [1; 8]).unwrap();
        let mut net = Net::with_backend(config, backend);
        // The middlebox's clock starts again.
        net.now = BEGIN;
        let at = start.at(net.now);
        let restored = net.middlebox.restore(&at, &recovered).unwrap();
        for change in net.middlebox.changes_of(&restored) {
            journal.record(&at, &change);
        }
        journal.commit().unwrap();
        Self {
            net,
            journal,
            restored,
            start,
        }
    }

    fn filter(folder: &TestFolder, start: u64) -> Self {
        Self::begin(folder, all_rights(), MemoryBackend::default(), start)
    }

    fn commit(&mut self) {
        let at = self.start.at(self.net.now);
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
    let folder = TestFolder::new("granted");
    let mut run = RunningMiddlebox::filter(&folder, 0);
    let alice = run.net.open("alice");
    let first = run.net.enable(alice, pinhole(1));
    let short = EnableRequest {
        lifetime: Lifetime(20),
        ..in_group(first.group, 2)
    };
    let second = run.net.enable(alice, short).rule;
    let ended = run.net.enable(alice, pinhole(3)).rule;
    run.net.ask(alice, &change(ended, 0));
    run.net.ask(alice, &change(first.rule, 100));
    run.commit();
    run.net.wait(10);
    run.commit();
    drop(run);

    // Stopped for 15 s; the second rule would have ended in 10 s.
    let mut run = RunningMiddlebox::filter(&folder, 25);
    assert_eq!(run.restored.rules, 1);
    assert_eq!(run.restored.ended, [(second, NotRestored::Expired)]);
    assert_eq!(
        [1, 2, 3].map(|port| run.net.passes(port, Direction::Inbound)),
        [true, false, false]
    );
    let alice = run.net.open("alice");
    assert_eq!(
        run.net.refusal(alice, &change(second, 9)),
        NegativeReply::NoSuchRule
    );
    let joined = run.net.enable(alice, in_group(first.group, 4));
    assert_eq!(joined.group, first.group, "the group still exists");
    assert!(joined.rule > ended, "no identifier is reused");
    // 75 s of 100 s remain.
    run.net.wait(74);
    assert!(run.net.passes(1, Direction::Inbound));
    run.net.wait(1);
    assert!(!run.net.passes(1, Direction::Inbound));
    run.commit();
    drop(run);
    let run = RunningMiddlebox::filter(&folder, 100);
    assert_eq!(run.restored, RestoredRules::default());
    assert_eq!(run.net.elements(), 0);
}

#[test]
fn rules_of_removed_agents_stay_until_expiry() {
    let folder = TestFolder::new("owners");
    let mut run = RunningMiddlebox::filter(&folder, 0);
    let [alice, bob] = ["alice", "bob"].map(|name| run.net.open(name));
    let of_alice = run.net.enable(alice, pinhole(1)).rule;
    let of_bob = run.net.enable(bob, pinhole(2)).rule;
    run.commit();
    drop(run);
    let others = MiddleboxConfig {
        agents: vec![agent_config("carol"), agent_config("bob")],
        ..config()
    };
    let mut run = RunningMiddlebox::begin(&folder, others, MemoryBackend::default(), 1);
    assert_eq!((run.restored.rules, run.restored.ended.len()), (2, 0));
    assert!(run.net.passes(1, Direction::Inbound) && run.net.passes(2, Direction::Inbound));
    let [bob, carol] = ["bob", "carol"].map(|name| run.net.open(name));
    let refused = run.net.refusal(carol, &change(of_bob, 0));
    assert_eq!(refused, NegativeReply::RuleNotAuthorized);
    assert_eq!(run.net.ask(bob, &change(of_bob, 0)), Reply::Deleted);
    let refused = run.net.refusal(carol, &change(of_alice, 0));
    assert_eq!(refused, NegativeReply::RuleNotAuthorized);
    // Configured again after another restart, she has her rule.
    run.commit();
    drop(run);
    let mut run = RunningMiddlebox::filter(&folder, 2);
    let alice = run.net.open("alice");
    assert_eq!(run.net.ask(alice, &change(of_alice, 0)), Reply::Deleted);
}

#[test]
fn restart_restores_identical_rules_and_pdr() {
    let folder = TestFolder::new("counted");
    let mut run = RunningMiddlebox::filter(&folder, 0);
    let alice = run.net.open("alice");
    let rules = [(); 2].map(|()| run.net.enable(alice, pinhole(1)).rule);
    run.net.ask(alice, &block(pinhole(9)));
    run.commit();
    drop(run);
    let mut run = RunningMiddlebox::filter(&folder, 1);
    let alice = run.net.open("alice");
    let refused = run.net.refusal(alice, &Request::Enable(pinhole(9)));
    assert_eq!(refused, NegativeReply::Conflict);
    for (rule, passes) in rules.into_iter().zip([true, false]) {
        assert_eq!(run.net.ask(alice, &change(rule, 0)), Reply::Deleted);
        assert_eq!(run.net.passes(1, Direction::Inbound), passes);
    }
    assert_eq!(run.net.middlebox.stats().backend_failures, 0);
}

#[test]
fn reservations_keep_their_ports() {
    let folder = TestFolder::new("ports");
    let pool = || PortPool::new([198, 51, 100, 1].into(), 4000..=4003);
    let translator = || {
        let mut config = config();
        config.capabilities.address_translator = true;
        config
    };
    let backend = || MemoryBackend::default().with_translation(pool());
    let reserve = Request::Reserve(reserve(UDP, 2, 60));
    let mut run = RunningMiddlebox::begin(&folder, translator(), backend(), 0);
    let alice = run.net.open("alice");
    let reserved = run.net.ask(alice, &reserve);
    assert!(matches!(reserved, Reply::Reserved(_)), "{reserved:?}");
    let enabled = run.net.enable(alice, pinhole(1));
    run.commit();
    drop(run);
    let mut run = RunningMiddlebox::begin(&folder, translator(), backend(), 1);
    assert_eq!(
        (
            run.restored.rules,
            run.net.middlebox.backend().reserved_ports()
        ),
        (2, 3)
    );
    let alice = run.net.open("alice");
    assert_eq!(run.net.refusal(alice, &reserve), NegativeReply::LackOfPorts);
    let enable = Request::EnableReserved {
        enable: pinhole(5),
        rule: PolicyRuleId(1),
    };
    let reply = run.net.ask(alice, &enable);
    assert!(matches!(reply, Reply::Enabled(_)), "{reply:?}");
    run.net.ask(alice, &change(enabled.rule, 0));
    assert_eq!(run.net.middlebox.backend().reserved_ports(), 2);
    run.commit();
    drop(run);
    // A packet filter without translation can't restore the reservation.
    let run = RunningMiddlebox::filter(&folder, 2);
    assert_eq!(
        run.restored.ended,
        [(PolicyRuleId(1), NotRestored::OtherTranslation)]
    );
}

/// Stops a middlebox with a rule of 60 s of which 1 s is left, at 100,000 s by the wall clock and 500 s
/// after the first boot.
fn stop_before_expiry(folder: &TestFolder) -> RunningMiddlebox {
    let start = StartTime {
        wall: 100_000,
        boot: 1,
        since: 441,
    };
    let mut run = RunningMiddlebox::begin_at(folder, all_rights(), MemoryBackend::default(), start);
    let alice = run.net.open("alice");
    let pinhole = EnableRequest {
        lifetime: Lifetime(60),
        ..pinhole(1)
    };
    run.net.enable(alice, pinhole);
    run.commit();
    run
}

fn restart(folder: &TestFolder, wall: u64, boot: u8, since: u64) -> RunningMiddlebox {
    let start = StartTime { wall, boot, since };
    RunningMiddlebox::begin_at(folder, all_rights(), MemoryBackend::default(), start)
}

/// Returns the number of seconds for which the rule still passes packets.
fn passes_for(run: &mut RunningMiddlebox) -> u64 {
    let mut seconds = 0;
    while run.net.passes(1, Direction::Inbound) {
        run.net.wait(1);
        seconds += 1;
    }
    seconds
}

#[test]
fn wall_clock_step_does_not_move_expiry() {
    for wall in [0, 100_059, 5_000_000] {
        let folder = TestFolder::new(&format!("step-{wall}"));
        drop(stop_before_expiry(&folder));
        let mut run = restart(&folder, wall, 1, 500);
        assert_eq!(run.restored.recomputed, []);
        assert_eq!(passes_for(&mut run), 1, "{wall}");
    }
}

#[test]
fn clock_set_back_does_not_extend_rules() {
    let folder = TestFolder::new("back");
    drop(stop_before_expiry(&folder));
    // The host was rebooted with its clock a day behind.
    let run = restart(&folder, 13_600, 2, 10);
    assert_eq!(run.restored.recomputed, [PolicyRuleId(1)]);
    drop(run);
    // From now on the host's clock counts, whatever the wall clock shows.
    let run = restart(&folder, 50_000, 2, 30);
    assert_eq!(run.restored.recomputed, []);
    drop(run);
    let mut run = restart(&folder, 3, 2, 50);
    assert_eq!(passes_for(&mut run), 20, "60 s after the boot of the host");
}

#[test]
fn wall_clock_counts_after_a_reboot() {
    let folder = TestFolder::new("host");
    drop(stop_before_expiry(&folder));
    let mut run = restart(&folder, 100_040, 2, 10);
    assert_eq!(passes_for(&mut run), 20);
    let folder = TestFolder::new("host-long");
    drop(stop_before_expiry(&folder));
    let run = restart(&folder, 100_060, 2, 10);
    assert_eq!(
        run.restored.ended,
        [(PolicyRuleId(1), NotRestored::Expired)]
    );
}

#[test]
fn folder_is_locked_by_one_middlebox() {
    let folder = TestFolder::new("lock");
    let run = RunningMiddlebox::filter(&folder, 0);
    assert!(matches!(
        FileJournal::open(&folder.0, [1; 8]),
        Err(StateError::InUse(_))
    ));
    drop(run);
    FileJournal::open(&folder.0, [1; 8]).unwrap();
}
