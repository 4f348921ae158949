//! Scrapes while the packet filter does not return rule counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carrick_simco_net::daemon::{Daemon, DaemonSettings, StoredState};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::blocked_backend::BlockedBackend;
use crate::support::{TestFolder, TestMiddlebox, Transport, in_time, pinhole, text};

/// Unblocks the packet filter, also when a test fails.
struct Unblock(Arc<AtomicBool>);

impl Drop for Unblock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn hanging_packet_filter_is_read_once() {
    let folder = TestFolder::new();
    let more = "rule-traffic = 3\nmetrics = \"127.0.0.1:0\"";
    let settings = DaemonSettings::parse("f", &text(&folder, more)).unwrap();
    let backend = BlockedBackend::default();
    let (readings, held) = (Arc::clone(&backend.readings), Arc::clone(&backend.closed));
    let daemon = Daemon::start(&settings, Box::new(backend), StoredState::none());
    let middlebox = TestMiddlebox {
        daemon: daemon.await.unwrap(),
        folder,
    };
    let alice = middlebox.client(Transport::Tcp, "alice").await;
    let _rule = alice.enable_once(pinhole(1, 100)).await.unwrap();
    held.store(true, Ordering::SeqCst);
    let _at_the_end = Unblock(Arc::clone(&held));
    for _ in 0..5 {
        // The scrape is cancelled during the reading.
        let cancelled = async {
            while readings.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        in_time("reading", async {
            tokio::select! {
                text = middlebox.daemon.metrics() => panic!("{text:?}"),
                () = cancelled => {}
            }
        })
        .await;
    }
    // Over HTTP the other metrics are returned.
    let address = middlebox.daemon.bound().metrics.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    in_time("answer", read).await.unwrap();
    assert!(answer.contains("carrick_simco_rules 1"), "{answer}");
    assert!(!answer.contains("rule_packets_total"), "{answer}");
    assert_eq!(
        readings.load(Ordering::SeqCst),
        1,
        "no second reading was started"
    );
    held.store(false, Ordering::SeqCst);
    let text = in_time("metrics", middlebox.daemon.metrics())
        .await
        .unwrap();
    assert!(text.contains("rule_packets_total"), "{text}");
}
