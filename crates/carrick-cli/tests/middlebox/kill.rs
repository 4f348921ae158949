//! `kill -9` of the middlebox under load, at random moments.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use carrick_simco::client::{Client, ClientConfig, Target};
use carrick_simco::message::{
    AddressTuple, Direction, EnableRequest, Lifetime, Location, PerParameters, PolicyRuleId,
    PortParity, Reply, Request,
};

use crate::network::{Host, Network};

/// How often it is killed.
const KILLS: usize = 100;

/// Agents' tasks that ask at the same time.
const TASKS: u32 = 8;

/// Seconds that short rules live, and the others.
const SHORT: u32 = 3;
const LONG: u32 = 3000;

/// Rules that live on at a time: a reply to PRL has room for 8191.
const MOST: usize = 4000;

/// What the agent was told. A flow has a number.
#[derive(Default)]
struct Book {
    next: u32,
    /// Granted, and not to be ended yet.
    granted: BTreeMap<u32, PolicyRuleId>,
    /// Granted for a short time, until then at most.
    short: BTreeMap<u32, Instant>,
    /// Ended by the agent.
    ended: BTreeSet<u32>,
}

/// The `n`th flow.
fn request(n: u32, lifetime: u32) -> EnableRequest {
    let end = |location, net: u8| {
        let [_, _, high, low] = n.to_be_bytes();
        let address = Ipv4Addr::new(10, net, high, low);
        AddressTuple::single(location, 17, address.into(), 4000)
    };
    EnableRequest {
        parameters: PerParameters {
            parity: PortParity::Any,
            direction: Direction::Inbound,
        },
        internal: end(Location::Internal, 64),
        external: end(Location::External, 65),
        lifetime: Lifetime(lifetime),
        group: None,
    }
}

/// The flows that the kernel lets pass.
fn in_kernel(network: &Network) -> BTreeSet<u32> {
    let set = network.nft(Host::Firewall, "list set inet carrick in4");
    let words = set.split_whitespace();
    let flow = |word: &str| {
        let rest = word.strip_prefix("10.65.")?;
        let (high, low) = rest.split_once('.')?;
        Some(high.parse::<u32>().ok()? << 8 | low.parse::<u32>().ok()?)
    };
    words.filter_map(flow).collect()
}

/// Asks, refreshes nothing, ends every other rule, until the middlebox is gone.
async fn load(client: Client, book: Arc<Mutex<Book>>) {
    loop {
        let n = {
            let mut book = book.lock().unwrap();
            book.next += 1;
            book.next
        };
        let short = n.is_multiple_of(5);
        let life = if short { SHORT } else { LONG };
        // Asked once: nobody looks for the rule when the middlebox is gone.
        let asked = client.request(Request::Enable(request(n, life)));
        let Ok(Reply::Enabled(enabled)) = asked.await else {
            return;
        };
        if short {
            let until = Instant::now() + Duration::from_secs(u64::from(SHORT));
            book.lock().unwrap().short.insert(n, until);
            continue;
        }
        let many = {
            let mut book = book.lock().unwrap();
            book.granted.insert(n, enabled.rule);
            book.granted.len() > MOST
        };
        if many || n.is_multiple_of(2) {
            // From now on nobody knows, until it is answered.
            book.lock().unwrap().granted.remove(&n);
            if client.extend(enabled.rule, Lifetime(0)).await.is_err() {
                return;
            }
            book.lock().unwrap().ended.insert(n);
        }
    }
}

/// Nothing granted is lost, nothing ended or expired is open.
fn check(network: &Network, book: &Book, when: &str) -> BTreeSet<u32> {
    let open = in_kernel(network);
    let lost: Vec<_> = book.granted.keys().filter(|n| !open.contains(n)).collect();
    assert!(
        lost.is_empty(),
        "{when}: {lost:?} of {} lost",
        book.granted.len()
    );
    let back: Vec<_> = book.ended.intersection(&open).collect();
    assert!(back.is_empty(), "{when}: {back:?} came back");
    open
}

async fn round(network: &Network, book: &Arc<Mutex<Book>>, kill_after: Duration) {
    let mut middlebox = network.middlebox("middlebox.log");
    let now = Instant::now();
    let client = Client::connect(ClientConfig::new(Target::tcp("127.0.0.1", 7626)));
    let client = client.await.unwrap();
    {
        // What it took up is what the kernel has.
        let listed = client.list().await.unwrap();
        let book = book.lock().unwrap();
        let open = check(network, &book, "after the restart");
        assert!(open.len() <= listed.len(), "open without a rule");
        let known: BTreeSet<PolicyRuleId> = listed.into_iter().collect();
        assert!(book.granted.values().all(|rule| known.contains(rule)));
        let expired = book.short.iter().filter(|(_, until)| **until < now);
        let late: Vec<_> = expired.filter(|(n, _)| open.contains(n)).collect();
        assert!(late.is_empty(), "{late:?} are open past their lives");
    }
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| tokio::spawn(load(client.clone(), Arc::clone(book))))
        .collect();
    tokio::time::sleep(kill_after).await;
    middlebox.0.kill().unwrap();
    middlebox.0.wait().unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    // The kernel goes on with what was granted.
    check(network, &book.lock().unwrap(), "after the kill");
}

async fn all(network: &Network) {
    let book = Arc::new(Mutex::new(Book::default()));
    // Moments of the same sequence in each run.
    let mut moment = 88_172_645_463_325_252_u64;
    for _ in 0..KILLS {
        moment ^= moment << 13;
        moment ^= moment >> 7;
        moment ^= moment << 17;
        round(network, &book, Duration::from_micros(moment % 60_000)).await;
    }
    let granted = book.lock().unwrap().granted.len();
    assert!(granted > KILLS, "{granted} rules are no load");
    let _middlebox = network.middlebox("middlebox.log");
    let client = Client::connect(ClientConfig::new(Target::tcp("127.0.0.1", 7626)));
    let client = client.await.unwrap();
    for rule in client.list().await.unwrap() {
        // A short one may just have ended.
        let _ = client.extend(rule, Lifetime(0)).await;
    }
    assert_eq!(network.elements(), 0);
}

#[test]
#[ignore = "needs root"]
fn a_middlebox_killed_at_a_hundred_moments_loses_nothing_and_leaves_nothing_open() {
    let network = Network::new();
    let path = network.path(Host::Firewall);
    let inside = std::thread::scope(|scope| {
        let run = || {
            let file = std::fs::File::open(path).unwrap();
            nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(all(&network));
        };
        scope.spawn(run).join()
    });
    inside.unwrap();
}
