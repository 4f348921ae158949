//! Throughput and set-ups of honest peers while a server is flooded with INITs: measured; asserted is only
//! what holds on any machine.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use carrick::{Association, SendOptions};
use carrick_wire::{ChunkType, CommonHeader, InitFields, PacketBuilder, Tsn, VerificationTag};

use crate::support::{associate, endpoint, ip, soon, to};

/// INITs per second.
const RATE: u64 = 30_000;
const SET_UPS: usize = 300;
const TRANSFER: Duration = Duration::from_secs(3);

/// Sends INITs from another address, each with another tag and port, until dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    began: Instant,
}

impl Flood {
    fn start(udp: u16, port: u16) -> Self {
        let (stop, sent) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let socket = UdpSocket::bind("127.0.0.66:0").unwrap();
        socket.connect(("127.0.0.1", udp)).unwrap();
        let (stopped, count, began) = (Arc::clone(&stop), Arc::clone(&sent), Instant::now());
        let thread = std::thread::spawn(move || {
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                let due = began.elapsed().as_micros() as u64 * RATE / 1_000_000;
                while number < due {
                    number += 1;
                    let _ = socket.send(&init(number as u32, port));
                }
                count.store(number, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        let thread = Some(thread);
        Self {
            stop,
            sent,
            thread,
            began,
        }
    }

    fn rate(&self) -> f64 {
        self.sent.load(Ordering::Relaxed) as f64 / self.began.elapsed().as_secs_f64()
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn init(number: u32, port: u16) -> Vec<u8> {
    let header = CommonHeader {
        source_port: 1024 + (number % 60_000) as u16,
        destination_port: port,
        tag: VerificationTag::ZERO,
    };
    let fields = InitFields {
        tag: VerificationTag(number | 1),
        a_rwnd: 1 << 20,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: Tsn::new(number),
    };
    let mut bytes = Vec::new();
    let mut packet = PacketBuilder::new(&mut bytes, header, 1480);
    packet.init(ChunkType::INIT, fields, |_| {});
    packet.finish();
    bytes
}

/// Throughput from `a` to `b`, in MB/s.
async fn throughput(a: &Association, b: &mut Association) -> f64 {
    let sender = a.sender();
    let began = Instant::now();
    let sending = tokio::spawn(async move {
        while began.elapsed() < TRANSFER {
            let message = vec![0; 65_536];
            sender.send(message, SendOptions::default()).await.unwrap();
        }
        sender.flushed().await.unwrap();
    });
    let mut bytes = 0;
    while began.elapsed() < TRANSFER {
        bytes += soon("data", b.recv()).await.unwrap().unwrap().payload.len();
    }
    let rate = bytes as f64 / began.elapsed().as_secs_f64() / 1e6;
    while !sending.is_finished() {
        let _ = tokio::time::timeout(Duration::from_millis(10), b.recv()).await;
    }
    sending.await.unwrap();
    rate
}

/// Number of successful set-ups, and the longest time of one.
async fn set_ups(server: &carrick::Endpoint) -> (usize, Duration) {
    let client = endpoint(&["127.0.0.1"]);
    let (mut succeeded, mut longest) = (0, Duration::ZERO);
    for _ in 0..SET_UPS {
        let began = Instant::now();
        let peer = [ip("127.0.0.1")];
        let both = async {
            tokio::join!(
                client.connect_with((&peer, server.port()), to(server)),
                server.accept()
            )
        };
        if let (Ok(association), Some(_)) = soon("a set-up", both).await {
            succeeded += 1;
            longest = longest.max(began.elapsed());
            association.abort(b"done");
        }
    }
    (succeeded, longest)
}

/// RFC 9260, section 5.1.3; RFC 4987 for the same of TCP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for some seconds: part of the long checks"]
async fn honest_peers_are_served_during_an_init_flood() {
    let server = endpoint(&["127.0.0.1"]);
    let client = endpoint(&["127.0.0.1"]);
    let (a, mut b) = associate(&client, &server, &["127.0.0.1"]).await;
    let alone = throughput(&a, &mut b).await;
    let (_, longest_alone) = set_ups(&server).await;
    let flood = Flood::start(server.encapsulation_port().unwrap(), server.port());
    let flooded = throughput(&a, &mut b).await;
    let (succeeded, longest) = set_ups(&server).await;
    println!(
        "measured: {:.0} INITs/s: {succeeded} of {SET_UPS} set-ups succeed, the longest in {:.1} ms (without the flood {:.1} ms); \
         a transfer keeps {:.0} % of its {alone:.0} MB/s",
        flood.rate(),
        longest.as_secs_f64() * 1e3,
        longest_alone.as_secs_f64() * 1e3,
        100.0 * flooded / alone
    );
    drop(flood);
    let inits = server.stats().await.unwrap().protocol.inits;
    println!("measured: {inits} INITs reached the server");
    assert!(inits > 100 * SET_UPS as u64, "{inits}: no flood");
    assert_eq!(succeeded, SET_UPS);
    assert!(flooded > 0.0);
}
