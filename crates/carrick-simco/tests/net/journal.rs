use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carrick_simco::client::Client;
use carrick_simco::daemon::{Daemon, DaemonError, Journal, RuleChange, Settings};
use carrick_simco::message::Lifetime;

use crate::support::{Folder, Transport, backend, config, pinhole, soon, target, text};

/// A disk that takes its time.
#[derive(Clone, Default)]
struct Disk {
    recorded: Arc<Mutex<Vec<RuleChange>>>,
    safe: Arc<AtomicU64>,
    commits: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

impl Journal for Disk {
    fn record(&mut self, change: &RuleChange) {
        self.recorded.lock().unwrap().push(change.clone());
    }

    fn commit(&mut self) -> std::io::Result<()> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(std::io::Error::other("no room on the disk"));
        }
        std::thread::sleep(Duration::from_millis(20));
        self.commits.fetch_add(1, Ordering::SeqCst);
        let recorded = self.recorded.lock().unwrap().len() as u64;
        self.safe.store(recorded, Ordering::SeqCst);
        Ok(())
    }
}

async fn start(disk: &Disk) -> (Daemon, Client, Folder) {
    let folder = Folder::new();
    let settings = Settings::parse(&text(&folder, "")).unwrap();
    let journal: Box<dyn Journal> = Box::new(disk.clone());
    let daemon = Daemon::start(&settings, backend(), Some(journal))
        .await
        .unwrap();
    let to = target(daemon.bound(), &folder.file("cert.pem"), Transport::Sctp);
    let mut config = config(to, "bob");
    config.settings.timeout = Duration::from_secs(3);
    let client = soon("connect", Client::connect(config)).await.unwrap();
    (daemon, client, folder)
}

#[tokio::test]
async fn no_reply_leaves_before_its_change_is_safe() {
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
        "who only asks waits for nothing"
    );
    client.extend(rule, Lifetime(0)).await.unwrap();
    assert_eq!(safe(), 3);
    let recorded = disk.recorded.lock().unwrap().clone();
    let [
        RuleChange::Granted { owner, expires, .. },
        RuleChange::Changed {
            expires: shorter, ..
        },
        RuleChange::Ended { rule: ended },
    ] = &recorded[..]
    else {
        panic!("{recorded:?}");
    };
    assert_eq!((owner.as_str(), *ended), ("bob", rule));
    let sooner = expires.duration_since(*shorter).unwrap();
    assert!((49..=50).contains(&sooner.as_secs()), "{sooner:?}");
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
        soon("reply", asked).await.unwrap();
    }
    let commits = disk.commits.load(Ordering::SeqCst);
    assert!(
        (1..=20).contains(&commits),
        "{commits} commits for 100 rules"
    );
}

#[tokio::test]
async fn a_change_that_cannot_be_kept_is_not_granted() {
    let disk = Disk::default();
    let (mut daemon, client, _folder) = start(&disk).await;
    disk.broken.store(true, Ordering::SeqCst);
    assert!(client.enable_once(pinhole(1, 100)).await.is_err());
    let end = soon("the end", daemon.ended()).await;
    assert!(matches!(end, Err(DaemonError::Journal(_))), "{end:?}");
}
