//! Pacing by the driver, which knows of departure times only as timeouts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carrick::cc::{Acknowledged, Algorithm, CongestionEvent, Controller, PacketSent, Parameters};
use carrick::{AssociationConfig, Endpoint};

use crate::support::{associate, config, content, endpoint, on, soon};

/// Bytes per second. A millisecond carries less than two packets, so these are the quantum.
const RATE: u64 = 2_000_000;
const MESSAGES: usize = 30;
const SIZE: usize = 10_000;

/// Time in nanoseconds that the core was given, and bytes, of each packet with DATA that left.
static SENT: Mutex<Vec<(u64, usize)>> = Mutex::new(Vec::new());

/// Constant rate, which records departures.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    pmdcs: usize,
}

impl Algorithm for Recorded {
    fn name(&self) -> &'static str {
        "recorded"
    }

    fn is_rate_based(&self) -> bool {
        true
    }

    fn start(&self, parameters: Parameters) -> Box<dyn Controller> {
        Box::new(Self {
            pmdcs: parameters.pmdcs,
        })
    }
}

impl Controller for Recorded {
    fn window(&self) -> usize {
        1 << 20
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(RATE)
    }

    fn on_sent(&mut self, sent: &PacketSent) {
        assert!(sent.bytes <= self.pmdcs);
        let mut log = SENT.lock().unwrap_or_else(PoisonError::into_inner);
        log.push((sent.now.as_nanos(), sent.bytes));
    }

    fn on_ack(&mut self, acknowledged: &Acknowledged) {
        assert!(acknowledged.delivery.is_some());
    }

    fn on_congestion(&mut self, _: CongestionEvent) {}
    fn on_idle(&mut self, _: u32) {}

    fn set_pmdcs(&mut self, pmdcs: usize) {
        self.pmdcs = pmdcs;
    }

    fn reset(&mut self) {}
}

#[tokio::test]
async fn a_paced_transfer_has_no_bursts() {
    // Tail loss probes and retransmissions after a timeout are not paced, and a machine under load is slow enough
    // to cause them.
    let paced = AssociationConfig::modern().with(|c| {
        c.research.policies.congestion = Arc::new(Recorded { pmdcs: 0 });
        c.research.policies.tail_loss_probe = false;
        c.timers.rto_initial = Duration::from_secs(60);
        c.timers.rto_min = Duration::from_secs(60);
    });
    let client = Endpoint::bind(config(&["127.0.0.1"]).association(paced)).unwrap();
    let server = endpoint(&["127.0.0.1"]);
    let (a, mut b) = associate(&client, &server, &["127.0.0.1"]).await;
    for number in 0..MESSAGES {
        soon("send", a.send(content(number, SIZE), on(0)))
            .await
            .unwrap();
    }
    for number in 0..MESSAGES {
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(message.payload == content(number, SIZE)[..], "{number}");
    }
    let sent = SENT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(sent.len() >= MESSAGES * SIZE / 1500);
    // A quantum of two packets, and one more that a late driver makes up for.
    let largest = sent.iter().map(|s| s.1).max().unwrap();
    let burst = 4 * largest;
    for (n, first) in sent.iter().enumerate() {
        let mut bytes = 0;
        for (at, len) in &sent[n..] {
            bytes += len;
            let carried = (at - first.0) as f64 / 1e9 * RATE as f64;
            assert!(bytes as f64 <= carried + burst as f64 + 1.0, "{n}: {at:?}");
        }
    }
}
