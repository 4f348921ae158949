use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carrick_simco::message::{Lifetime, PolicyRuleId};
use carrick_simco::state::{ClockReadings, Journal, RecoveredState, RuleChange, StateError};
use carrick_simco_net::client::Client;
use carrick_simco_net::daemon::{Daemon, DaemonError, DaemonSettings, StoredState};

use crate::support::{TestFolder, Transport, backend, config, in_time, pinhole, target, text};

#[derive(Clone, PartialEq, Debug)]
enum Change {
    Granted(String, Duration),
    Lifetime(Duration),
    Ended(PolicyRuleId),
}

/// Disk with slow commits.
#[derive(Clone, Default)]
struct Disk {
    recorded: Arc<Mutex<Vec<Change>>>,
    safe: Arc<AtomicU64>,
    commits: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

impl Journal for Disk {
    fn record(&mut self, at: &ClockReadings, change: &RuleChange<'_>) {
        let change = match change {
            RuleChange::Granted { rule, owner } => {
                Change::Granted(owner.to_string(), at.wall_at(rule.expires))
            }
            RuleChange::LifetimeChanged { expires, .. } => Change::Lifetime(at.wall_at(*expires)),
            RuleChange::Ended(rule) => Change::Ended(*rule),
        };
        self.recorded.lock().unwrap().push(change);
    }

    fn commit(&mut self) -> Result<(), StateError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(StateError::Failed);
        }
        std::thread::sleep(Duration::from_millis(20));
        self.commits.fetch_add(1, Ordering::SeqCst);
        let recorded = self.recorded.lock().unwrap().len() as u64;
        self.safe.store(recorded, Ordering::SeqCst);
        Ok(())
    }
}

async fn start(disk: &Disk) -> (Daemon, Client, TestFolder) {
    let folder = TestFolder::new();
    let settings = DaemonSettings::parse("f", &text(&folder, "")).unwrap();
    let state = StoredState {
        journal: Box::new(disk.clone()),
        recovered: RecoveredState::default(),
    };
    let daemon = Daemon::start(&settings, backend(), state).await.unwrap();
    // The start is a separate commit.
    disk.commits.store(0, Ordering::SeqCst);
    let to = target(daemon.bound(), &folder.file("cert.pem"), Transport::Sctp);
    let mut config = config(to, "bob");
    config.settings.timeout = Duration::from_secs(3);
    let client = in_time("connect", Client::connect(config)).await.unwrap();
    (daemon, client, folder)
}

#[tokio::test]
async fn replies_follow_their_commits() {
    let disk = Disk::default();
    let (_daemon, client, _folder) = start(&disk).await;
    let safe = || disk.safe.load(Ordering::SeqCst);
    let rule = client.enable_once(pinhole(1, 100)).await.unwrap().rule;
    assert_eq!(safe(), 1);
    client.extend(rule, Lifetime(50)).await.unwrap();
    assert_eq!(safe(), 2);
    client.list().await.unwrap();
    assert_eq!(
        disk.commits.load(Ordering::SeqCst),
        2,
        "a query waits for no commit"
    );
    client.extend(rule, Lifetime(0)).await.unwrap();
    assert_eq!(safe(), 3);
    let recorded = disk.recorded.lock().unwrap().clone();
    let [
        Change::Granted(owner, expires),
        Change::Lifetime(shorter),
        Change::Ended(ended),
    ] = &recorded[..]
    else {
        panic!("{recorded:?}");
    };
    assert_eq!((owner.as_str(), *ended), ("bob", rule));
    let sooner = expires.saturating_sub(*shorter).as_secs();
    assert!((40..=50).contains(&sooner), "{sooner} s");
}

#[tokio::test]
async fn changes_of_many_requests_share_a_commit() {
    let disk = Disk::default();
    let (_daemon, client, _folder) = start(&disk).await;
    let asking = (0..100).map(|number| {
        let client = client.clone();
        tokio::spawn(async move { client.enable_once(pinhole(number, 100)).await.unwrap() })
    });
    for asked in asking.collect::<Vec<_>>() {
        in_time("reply", asked).await.unwrap();
    }
    let commits = disk.commits.load(Ordering::SeqCst);
    assert!(
        (1..100).contains(&commits),
        "{commits} commits for 100 rules"
    );
}

#[tokio::test]
async fn unstored_change_is_not_granted() {
    let disk = Disk::default();
    let (mut daemon, client, _folder) = start(&disk).await;
    disk.broken.store(true, Ordering::SeqCst);
    assert!(client.enable_once(pinhole(1, 100)).await.is_err());
    let end = in_time("the end", daemon.ended()).await;
    assert!(matches!(end, Err(DaemonError::State(_))), "{end:?}");
}

#[tokio::test]
async fn unstored_rules_are_not_logged() {
    let disk = Disk::default();
    let (mut daemon, client, folder) = start(&disk).await;
    let path = folder.file("audit.json");
    let settings = DaemonSettings::parse("f", &text(&folder, "")).unwrap();
    let settings = DaemonSettings {
        audit: Some(path.clone()),
        ..settings
    };
    daemon.reload(settings).await.unwrap();
    let kept = client.enable_once(pinhole(1, 100)).await.unwrap().rule;
    disk.broken.store(true, Ordering::SeqCst);
    assert!(client.enable_once(pinhole(2, 100)).await.is_err());
    in_time("the end", daemon.ended()).await.unwrap_err();
    let text = std::fs::read_to_string(&path).unwrap();
    let granted: Vec<&str> = text
        .lines()
        .filter(|l| l.contains("rule-granted"))
        .collect();
    assert_eq!(granted.len(), 1, "{text}");
    assert!(
        granted[0].contains(&format!("\"rule\":{}", kept.0)),
        "{text}"
    );
    // The reason of the end is logged.
    let last = text.lines().last().unwrap();
    assert!(
        last.contains("stopped") && last.contains("could not be stored"),
        "{last}"
    );
}

#[tokio::test]
async fn restart_keeps_rules_and_identifiers() {
    let folder = TestFolder::new();
    let kept = folder.file("state");
    let settings = DaemonSettings::parse("f", &text(&folder, "")).unwrap();
    let mut rules = Vec::new();
    for life in 0..3 {
        let state = StoredState::open(Some(&kept)).unwrap();
        let daemon = Daemon::start(&settings, backend(), state).await.unwrap();
        assert_eq!(daemon.restored().rules, rules.len(), "life {life}");
        let to = target(daemon.bound(), &folder.file("cert.pem"), Transport::Tcp);
        let client = in_time("connect", Client::connect(config(to, "bob")))
            .await
            .unwrap();
        assert_eq!(client.list().await.unwrap(), rules);
        rules.push(client.enable_once(pinhole(life, 100)).await.unwrap().rule);
        let ended = client.enable_once(pinhole(9, 100)).await.unwrap().rule;
        client.extend(ended, Lifetime(0)).await.unwrap();
        // Ends without a notification, as after a crash.
        drop(daemon);
        in_time("release", async {
            while matches!(StoredState::open(Some(&kept)), Err(StateError::InUse(_))) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

#[test]
fn rule_files_have_different_salts() {
    let folder = TestFolder::new();
    let kept = folder.file("state");
    let mut salts = Vec::new();
    for _ in 0..4 {
        drop(StoredState::open(Some(&kept)).unwrap());
        let file = std::fs::read(kept.join("rules")).unwrap();
        salts.push(file[16..24].to_vec());
    }
    salts.sort_unstable();
    salts.dedup();
    assert_eq!(salts.len(), 4, "{salts:?}");
}
