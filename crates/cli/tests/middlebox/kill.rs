//! `kill -9` of the middlebox at random times: under load, and while it starts.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use carrick_simco::message::{
    IpVersion, Lifetime, NatMode, Parity, PolicyRuleId, PrrParameters, Reply, Request,
    ReserveRequest,
};
use carrick_simco_net::client::{Client, ClientConfig, ConnectTarget, SctpTarget};

use crate::book::{ReplyRecord, RuleKind, disable, enable};
use crate::kernel::{FlowNumber, Kernel};
use crate::network::{Host, Network, READY, Running};

const LOG: &str = "middlebox.log";

/// Maximum time for replies of a killed middlebox to reach the agents from the kernel's buffers.
const LAST_REPLIES: Duration = Duration::from_millis(50);

/// Number of tasks of agents that send requests at the same time.
const TASKS: u32 = 8;

/// Lifetimes of short and of long rules, in seconds.
const SHORT: u32 = 3;
const LONG: u32 = 3000;

/// Maximum number of long enabling rules at a time.
const MAX_RULES: usize = 1200;

/// Maximum number of blocked flows at a time.
const MAX_BLOCKS: usize = 100;

/// One middlebox over all of its starts.
struct KillTest {
    network: Network,
    /// Lines of the configuration about its packet filter.
    filter: &'static str,
    book: Arc<Mutex<ReplyRecord>>,
    /// Seed of the random times, the same in each run.
    moment: u64,
    /// Duration of the last start.
    start: Duration,
    /// Number of killed starts, and of those that were complete.
    killed: [usize; 2],
}

/// Sends requests until the middlebox is gone.
async fn load(client: Client, book: Arc<Mutex<ReplyRecord>>) {
    while step(&client, &book).await.is_some() {}
}

/// Creates and changes a rule. `None` if no reply arrives any more: the effect of the last request is
/// unknown.
async fn step(client: &Client, book: &Mutex<ReplyRecord>) -> Option<()> {
    let n = book.lock().unwrap().next_flow();
    let short = [0, 2, 5].contains(&(n % 10));
    let life = if short { SHORT } else { LONG };
    let rule = if n % 10 == 4 {
        reserve_and_enable(client, book, n).await?
    } else {
        let sent = Instant::now();
        // Requested once: the request is not repeated when the middlebox is gone.
        let reply = client.request(Request::Enable(enable(n, life)));
        let Ok(Reply::Enabled(enabled)) = reply.await else {
            return None;
        };
        let kind = RuleKind::enabled(n, &enabled.outside);
        book.lock()
            .unwrap()
            .granted(enabled.rule, n, kind, sent, enabled.lifetime);
        enabled.rule
    };
    match n % 10 {
        // Shorter, then longer.
        1 => change(client, book, rule, SHORT).await?,
        2 => change(client, book, rule, LONG).await?,
        3 | 7 => change(client, book, rule, 0).await?,
        6 => block(client, book, n, rule).await?,
        _ => {}
    }
    let lets_pass = |kind: &RuleKind| matches!(kind, RuleKind::Enabled(_));
    let many = book.lock().unwrap().count(lets_pass) > MAX_RULES;
    if many && [4, 8, 9].contains(&(n % 10)) {
        change(client, book, rule, 0).await?;
    }
    Some(())
}

async fn change(
    client: &Client,
    book: &Mutex<ReplyRecord>,
    rule: PolicyRuleId,
    life: u32,
) -> Option<()> {
    book.lock().unwrap().changing(rule, life);
    let (sent, lifetime) = (Instant::now(), Lifetime(life));
    let reply = client.request(Request::ChangeLifetime { rule, lifetime });
    match reply.await.ok()? {
        Reply::Deleted => book.lock().unwrap().ended(rule),
        Reply::LifetimeChanged(lifetime) => book.lock().unwrap().changed(rule, sent, lifetime),
        other => panic!("{other:?}"),
    }
    Some(())
}

/// Sends PRR, then PEA.
async fn reserve_and_enable(
    client: &Client,
    book: &Mutex<ReplyRecord>,
    n: FlowNumber,
) -> Option<PolicyRuleId> {
    let parameters = PrrParameters {
        nat_mode: NatMode::Traditional,
        parity: Parity::Any,
        inside: Some(IpVersion::V4),
        outside: Some(IpVersion::V4),
        protocol: 17,
        ports: 1,
    };
    let sent = Instant::now();
    let reply = client.request(Request::Reserve(ReserveRequest {
        parameters,
        lifetime: Lifetime(LONG),
        group: None,
    }));
    let Ok(Reply::Reserved(reserved)) = reply.await else {
        return None;
    };
    let rule = reserved.rule;
    {
        let mut book = book.lock().unwrap();
        book.granted(rule, n, RuleKind::Reserved, sent, reserved.lifetime);
        book.changing(rule, LONG);
        book.requesting(n);
    }
    let sent = Instant::now();
    let enable = enable(n, LONG);
    let reply = client.request(Request::EnableReserved { enable, rule });
    let Ok(Reply::Enabled(enabled)) = reply.await else {
        return None;
    };
    let kind = RuleKind::enabled(n, &enabled.outside);
    book.lock()
        .unwrap()
        .granted(rule, n, kind, sent, enabled.lifetime);
    Some(rule)
}

/// Sends PDR for an enabled flow, which ends the enabling rule.
async fn block(
    client: &Client,
    book: &Mutex<ReplyRecord>,
    n: FlowNumber,
    rule: PolicyRuleId,
) -> Option<()> {
    book.lock().unwrap().requesting(n);
    let sent = Instant::now();
    let reply = client.request(Request::Disable(disable(n, LONG)));
    let Ok(Reply::Disabled {
        rule: new,
        lifetime,
    }) = reply.await
    else {
        return None;
    };
    let many = {
        let mut book = book.lock().unwrap();
        book.ended(rule);
        book.granted(new, n, RuleKind::Disabled, sent, lifetime);
        book.count(|kind| *kind == RuleKind::Disabled) > MAX_BLOCKS
    };
    if many || n.is_multiple_of(4) {
        change(client, book, new, 0).await?;
    }
    Some(())
}

fn tcp() -> ConnectTarget {
    ConnectTarget::tcp("127.0.0.1", 7626)
}

fn sctp() -> ConnectTarget {
    let here = std::net::IpAddr::from(Ipv4Addr::LOCALHOST);
    let ConnectTarget::Sctp(target) = ConnectTarget::sctp(vec![here], 4) else {
        panic!("no SCTP");
    };
    let local = vec![here];
    ConnectTarget::Sctp(Box::new(SctpTarget { local, ..*target }))
}

impl KillTest {
    fn new(filter: &'static str) -> Self {
        Self {
            network: Network::new(),
            filter,
            book: Arc::default(),
            moment: 88_172_645_463_325_252,
            start: Duration::from_millis(50),
            killed: [0; 2],
        }
    }

    /// Returns a random time before the end of this interval.
    fn moment(&mut self, within: Duration) -> Duration {
        self.moment ^= self.moment << 13;
        self.moment ^= self.moment >> 7;
        self.moment ^= self.moment << 17;
        Duration::from_micros(self.moment % (within.as_micros() as u64).max(1))
    }

    fn begin(&self) -> Running {
        let all = "rights = \"all\"";
        self.network.begin_middlebox(LOG, self.filter, all)
    }

    /// Checks the kernel. `whole`: no other program has removed anything.
    fn check(&self, whole: bool, when: &str) {
        let begun = Instant::now();
        let kernel = Kernel::now(&self.network);
        let listing = [begun, Instant::now()];
        let book = self.book.lock().unwrap();
        book.check(&kernel, listing, whole, when);
    }

    /// Starts the middlebox, which restores its rules.
    async fn started(&mut self, target: ConnectTarget) -> (Running, Client) {
        let begun = Instant::now();
        let middlebox = self.begin();
        while !self.network.log(LOG).contains(READY) {
            let waited = begun.elapsed();
            assert!(
                waited < Duration::from_secs(60),
                "{}",
                self.network.log(LOG)
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.start = begun.elapsed();
        let client = Client::connect(ClientConfig::new(target)).await.unwrap();
        let asked_at = Instant::now();
        let listed: BTreeSet<_> = client.list().await.unwrap().into_iter().collect();
        let unknown = self.book.lock().unwrap().restored(&listed, begun);
        for rule in unknown {
            // A short rule may have ended meanwhile.
            if let Ok(status) = client.status(rule).await {
                self.book
                    .lock()
                    .unwrap()
                    .record_status(rule, asked_at, &status);
            }
        }
        self.check(true, "after the restart");
        (middlebox, client)
    }

    /// Runs under load, then kills the middlebox at a random time.
    async fn round(&mut self, target: ConnectTarget) {
        let (mut middlebox, client) = self.started(target).await;
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| tokio::spawn(load(client.clone(), Arc::clone(&self.book))))
            .collect();
        let moment = self.moment(Duration::from_millis(60));
        tokio::time::sleep(moment).await;
        middlebox.0.kill().unwrap();
        middlebox.0.wait().unwrap();
        tokio::time::sleep(LAST_REPLIES).await;
        for task in tasks {
            // Over SCTP the task would wait until the association fails; its records are consistent here.
            task.abort();
            if let Err(failed) = task.await {
                assert!(failed.is_cancelled(), "{failed}");
            }
        }
        // The kernel continues with the granted rules.
        self.check(true, "after the kill");
    }

    /// Kills it during its start, with the table present or removed.
    fn start_is_killed(&mut self, removed: bool) {
        if removed {
            let command = "delete table inet carrick";
            self.network.nft(Host::Firewall, command);
        }
        let mut middlebox = self.begin();
        std::thread::sleep(self.moment(self.start));
        middlebox.0.kill().unwrap();
        middlebox.0.wait().unwrap();
        self.killed[0] += 1;
        self.killed[1] += usize::from(self.network.log(LOG).contains(READY));
        self.check(!removed, "after a start that was killed");
    }

    /// Kills the middlebox this many times under load, and twice during a start after every third time.
    async fn all(&mut self, over_sctp: usize, over_tcp: usize) {
        for kill in 0..over_sctp + over_tcp {
            let target = if kill < over_sctp { sctp() } else { tcp() };
            self.round(target).await;
            if kill % 3 == 2 {
                self.start_is_killed(false);
                self.start_is_killed(kill % 2 == 0);
            }
        }
        let [killed, ready] = self.killed;
        assert!(
            ready * 2 < killed,
            "{ready} of {killed} starts were complete"
        );
        let (_middlebox, client) = self.started(sctp()).await;
        let rules = self.book.lock().unwrap().rules.clone();
        for kind in [RuleKind::Reserved, RuleKind::Disabled] {
            let there = rules.values().any(|rule| rule.kind == kind);
            assert!(there, "no rule is {kind:?}");
        }
        assert!(rules.len() > over_sctp, "{} rules are no load", rules.len());
        for rule in client.list().await.unwrap() {
            // A short rule may just have ended.
            let _ = client.extend(rule, Lifetime(0)).await;
        }
        assert_eq!(self.network.elements(), 0);
    }
}

/// Runs the kills with agents on the firewall itself.
fn kills(filter: &'static str, over_sctp: usize, over_tcp: usize) {
    let mut test = KillTest::new(filter);
    let path = test.network.path(Host::Firewall);
    let inside = std::thread::scope(|scope| {
        let run = || {
            let file = std::fs::File::open(path).unwrap();
            nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(test.all(over_sctp, over_tcp));
        };
        scope.spawn(run).join()
    });
    inside.unwrap();
}

#[test]
#[ignore = "needs root"]
fn killed_middlebox_loses_no_rule() {
    kills("", 70, 15);
}

#[test]
#[ignore = "needs root"]
fn killed_translator_loses_no_rule() {
    let filter =
        "translation = [{ address = \"10.82.2.1\", first-port = 10000, last-port = 40000 }]";
    kills(filter, 30, 5);
}
