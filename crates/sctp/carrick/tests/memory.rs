//! Memory of associations on sockets: of an idle one with its handle and all its state, and of those whose
//! peers send what occupies as much memory as possible. In a separate binary for the allocator that counts.

mod attacker;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carrick::{Association, Config, ConnectOptions, Endpoint};

use attacker::Attacker;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Goal of the project: 4 KiB per idle end of an association.
const LIMIT: usize = 4096;

/// Runs one profiler at a time, in whatever order the tests run.
fn alone() -> (dhat::Profiler, MutexGuard<'static, ()>) {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    (dhat::Profiler::builder().testing().build(), guard)
}

fn bind() -> Endpoint {
    let address = std::net::IpAddr::from([127, 0, 0, 1]);
    Endpoint::bind(Config::udp([address]).encapsulation_port(0)).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// Both ends of each association have a handle; their endpoints are shared.
#[test]
fn an_idle_end_with_its_handle_takes_at_most_4_kib() {
    let _alone = alone();
    runtime().block_on(async {
        let address = std::net::IpAddr::from([127, 0, 0, 1]);
        let server = bind();
        let clients: Vec<Endpoint> = (0..50).map(|_| bind()).collect();
        let options =
            ConnectOptions::new().encapsulation_port(server.encapsulation_port().unwrap());
        let mut ends: Vec<Association> = Vec::with_capacity(2 * clients.len());
        // Allocations for the first association of an endpoint remain.
        for client in &clients {
            let first = client
                .connect_with((address, server.port()), options.clone())
                .await
                .unwrap();
            drop((first, server.accept().await.map(carrick::Incoming::accept)));
        }
        for endpoint in clients.iter().chain([&server]) {
            while endpoint.associations().await.unwrap() > 0 {
                tokio::task::yield_now().await;
            }
        }
        let before = dhat::HeapStats::get().curr_bytes;
        for client in &clients {
            ends.push(
                client
                    .connect_with((address, server.port()), options.clone())
                    .await
                    .unwrap(),
            );
            ends.push(server.accept().await.unwrap().accept());
        }
        let each = (dhat::HeapStats::get().curr_bytes - before) / ends.len();
        println!("{each} bytes per idle association end with its handle");
        assert!(each <= LIMIT, "{each} bytes");
    });
}

/// Heap that the receiver of chunks occupies, as a multiple of the size that its receive buffer counts for
/// them.
///
/// All chunks are above a gap. Packets of `size` bytes leave by eight at a time; `new` of these have a new
/// chunk each, the other ones repeat the first chunk.
fn kept(size: usize, payload: usize, new: u32, bursts: u32) -> f64 {
    let server = runtime();
    let (endpoint, at, port) = server.block_on(async {
        let endpoint = bind();
        let at = ([127, 0, 0, 1], endpoint.encapsulation_port().unwrap()).into();
        let port = endpoint.port();
        (endpoint, at, port)
    });
    let (go, going) = std::sync::mpsc::channel();
    let attacker = std::thread::spawn(move || {
        let attacker = Attacker::connect(at, port);
        let mut next = 2;
        for burst in 0..=bursts {
            let packets: Vec<_> = (0..8)
                .map(|n| {
                    let tsn = if n % (8 / new) == 0 { next } else { 2 };
                    next += u32::from(n % (8 / new) == 0);
                    attacker.data(tsn, payload, size)
                })
                .collect();
            attacker.send(&packets, next - 1);
            if burst == 0 {
                // Tables that grow with the first chunk exist by now.
                go.send(dhat::HeapStats::get().curr_bytes).unwrap();
            }
        }
        let heap = dhat::HeapStats::get().curr_bytes;
        (heap, attacker)
    });
    server.block_on(async {
        let association = endpoint.accept().await.unwrap().accept();
        while !attacker.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let counted = association
            .control()
            .stats()
            .await
            .unwrap()
            .receive_buffer_bytes;
        let before = going.recv().unwrap();
        let (after, _attacker) = attacker.join().unwrap();
        let chunks = bursts * new;
        assert_eq!(counted, (chunks + new) as usize * (payload + 128));
        let more = after.saturating_sub(before);
        let factor = more as f64 / (chunks as usize * (payload + 128)) as f64;
        println!(
            "measured: packets of {size} bytes, {new} of 8 with {payload} new: {} bytes a chunk, \
             {factor:.1} times what is counted",
            more / chunks as usize
        );
        factor
    })
}

/// Every packet has a small chunk, as small packets behind a gap do.
#[test]
fn a_small_chunk_occupies_little_of_its_packets() {
    let _alone = alone();
    assert!(kept(748, 100, 8, 500) <= 3.0);
}

/// Of the packets that share an allocation, only one has a chunk that is not yet delivered. The factor of
/// five is for the payload alone; tables take some 250 bytes per message, of which 128 are counted.
#[test]
fn a_chunk_occupies_at_most_five_times_its_size() {
    let _alone = alone();
    // The largest size that is not copied, and the smallest one that is.
    assert!(kept(1452, 1044, 2, 300) <= 5.3);
    assert!(kept(1452, 1000, 2, 300) <= 2.0);
    assert!(kept(1452, 300, 2, 300) <= 3.0);
}

/// Runs peers on threads, beside the server's runtime, with the address and the SCTP port of the server.
async fn attack<R: Send + 'static>(
    server: &Endpoint,
    peers: impl IntoIterator<Item = [u8; 4]>,
    run: impl Fn(&Attacker) -> R + Clone + Send + 'static,
) -> Vec<Attacker> {
    let at = ([127, 0, 0, 1], server.encapsulation_port().unwrap()).into();
    let port = server.port();
    let peers: Vec<_> = peers.into_iter().collect();
    let run_all = tokio::task::spawn_blocking(move || {
        let run_one = |source| {
            let attacker = Attacker::connect_from(source, at, port);
            run(&attacker);
            attacker
        };
        peers.into_iter().map(run_one).collect()
    });
    run_all.await.unwrap()
}

/// A program reads all that it can get from peers that begin messages and never end them.
#[test]
fn unfinished_messages_of_all_peers_have_one_limit() {
    const LIMIT: usize = 1 << 20;
    let _alone = alone();
    runtime().block_on(async {
        let address = std::net::IpAddr::from([127, 0, 0, 1]);
        let mut config = Config::udp([address]).encapsulation_port(0);
        config.unread_memory = LIMIT;
        // Partial delivery begins early.
        config.association.buffers.receive_buffer = 20_000;
        let server = Endpoint::bind(config).unwrap();
        let accepting = server.clone();
        let before = dhat::HeapStats::get().curr_bytes;
        let reader = tokio::spawn(async move {
            let mut received = 0;
            let mut readers = tokio::task::JoinSet::new();
            while let Some(incoming) = accepting.accept().await {
                let mut association = incoming.accept();
                readers.spawn(async move {
                    let mut received = 0;
                    while let Ok(Some(message)) = association.recv().await {
                        received += message.payload.len();
                    }
                    received
                });
            }
            while let Some(of_one) = readers.join_next().await {
                received += of_one.unwrap();
            }
            received
        });
        let (count, chunks, payload) = (12, 250, 1200);
        let sources = (0..count).map(|n| [127, 0, 0, 1 + n % 3]);
        let peers = attack(&server, sources, move |peer| {
            peer.begin_message(chunks, payload)
        })
        .await;
        let more = dhat::HeapStats::get().curr_bytes - before;
        let sent = usize::from(count) * chunks as usize * payload;
        println!("measured: {sent} bytes of unfinished messages: {more} bytes of heap");
        assert!(sent > 3 * LIMIT);
        // State, receive buffers with all their packets, and what the tasks need.
        let each = 5 * 20_000 + 10_000;
        assert!(
            more <= LIMIT + LIMIT / 10 + usize::from(count) * each,
            "{more} bytes"
        );
        for peer in &peers {
            peer.abort();
        }
        while server.associations().await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
        let report = server.close().await;
        assert!(report.undelivered == 0, "{report}");
        let delivered = reader.await.unwrap();
        println!("measured: {delivered} bytes were delivered in parts");
        assert!(delivered >= sent - LIMIT - usize::from(count) * 20_000);
    });
}

/// Peers report errors of 1 KiB to associations that the program has not accepted, or whose notifications
/// it does not receive.
#[test]
fn notifications_of_all_peers_have_one_limit() {
    const LIMIT: usize = 128 << 10;
    let _alone = alone();
    runtime().block_on(async {
        let address = std::net::IpAddr::from([127, 0, 0, 1]);
        let mut config = Config::udp([address]).encapsulation_port(0);
        config.unread_memory = LIMIT;
        let server = Endpoint::bind(config).unwrap();
        let accepting = server.clone();
        let (mut accepted, mut attackers) = (Vec::new(), Vec::new());
        for accepts in [false, true] {
            let before = dhat::HeapStats::get().curr_bytes;
            let peers = attack(&server, [[127, 0, 0, 1]; 10], |peer| {
                peer.report_errors(256, 1000)
            });
            let peers = if accepts {
                let accept = async {
                    for _ in 0..20 {
                        accepted.push(accepting.accept().await.unwrap().accept());
                    }
                };
                tokio::join!(peers, accept).0
            } else {
                peers.await
            };
            let more = dhat::HeapStats::get().curr_bytes - before;
            println!(
                "measured: 2,560 errors of 1,000 bytes, accepted {accepts}: {more} bytes of heap"
            );
            // State, the least that each may have of notifications, and the attackers themselves; handles of both
            // rounds with their channels.
            let handles = if accepts { 20 } else { 0 };
            assert!(
                more <= LIMIT + 10 * 13 * 1024 + handles * 1024,
                "{more} bytes"
            );
            attackers.extend(peers);
        }
        attackers.iter().for_each(Attacker::abort);
        let mut events = accepted.remove(0).take_events().unwrap();
        let mut lagged = 0;
        while let Some(notification) = events.next().await {
            if let carrick::Notification::Lagged(more) = notification {
                lagged += more;
            }
        }
        println!("measured: {lagged} of 256 discarded");
        assert!(lagged > 100);
    });
}
