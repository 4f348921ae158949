//! A router between two hosts marks ECN-capable packets "congestion experienced" (RFC 3168): packets leave
//! ECN-capable and with the DSCP of their association, and the mark reaches the association.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use carrick::{
    Association, AssociationConfig, AssociationStats, Config, ConnectOptions, Transport,
};

use super::capture;
use super::network::{Network, Side};
use super::replies::chunks;
use super::transfer::{LIMIT, PORT, bind, on_runtime, pattern, send_one};

/// Number of messages of 64 KiB.
const MESSAGES: usize = 256;

const DATA: u8 = 0;
const ECNE: u8 = 12;
const CWR: u8 = 13;

/// Codepoints (RFC 3168, section 5).
const NOT_CAPABLE: u8 = 0;
const CAPABLE: u8 = 2;
const MARKED: u8 = 3;

/// DSCP of the near host: Expedited Forwarding (RFC 3246).
const DSCP: u8 = 46;

/// Packets captured at the far host.
#[derive(Default, Debug)]
struct Wire {
    /// Packets of the near host by codepoint, with DATA and without.
    data: BTreeMap<u8, u64>,
    other: BTreeMap<u8, u64>,
    /// Packets of the near host, and of the far one, by DSCP.
    dscps: [BTreeMap<u8, u64>; 2],
    /// Packets of the far host by codepoint.
    replies: BTreeMap<u8, u64>,
    ecnes: u64,
    cwrs: u64,
}

impl Wire {
    fn take(&mut self, packet: &capture::Captured, near: IpAddr) {
        let kinds: Vec<u8> = chunks(&packet.sctp).iter().map(|c| c.0).collect();
        let has = |kind| u64::from(kinds.contains(&kind));
        let by_codepoint = match (packet.from == near, has(DATA)) {
            (true, 1) => &mut self.data,
            (true, _) => &mut self.other,
            (false, _) => &mut self.replies,
        };
        *by_codepoint.entry(packet.ecn).or_default() += 1;
        let from_far = usize::from(packet.from != near);
        *self.dscps[from_far].entry(packet.dscp).or_default() += 1;
        self.ecnes += has(ECNE);
        self.cwrs += has(CWR);
    }
}

/// Runs a transfer over the router; with `offload`, several packets pass between the hosts' stacks as one.
pub(crate) fn run(transport: Transport, v6: bool, offload: bool) {
    let network = Network::marking(offload);
    let [near, far] = [Side::Near, Side::Far].map(|side| Network::routed_address(side, v6));
    let done = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = mpsc::channel();
    let capture = {
        let (done, ready) = (Arc::clone(&done), ready.clone());
        network.on(Side::Far, move || {
            let socket = capture::open();
            ready.send(()).unwrap();
            let mut wire = Wire::default();
            capture::read(socket, &done, |packet| wire.take(&packet, near));
            wire
        })
    };
    let receiver = network.on(Side::Far, move || {
        on_runtime(async move {
            let endpoint = bind(config(transport, far).port(PORT));
            ready.send(()).unwrap();
            let mut association = endpoint.accept().await.unwrap().accept();
            for _ in 0..MESSAGES {
                association.recv().await.unwrap().unwrap();
            }
            check_receiver(&settled(&association).await);
            assert_eq!(association.recv().await.unwrap(), None);
            let report = endpoint.close().await;
            assert!(report.is_empty(), "{report}");
        });
    });
    for _ in 0..2 {
        is_ready.recv_timeout(LIMIT).unwrap();
    }
    let sender = network.on(Side::Near, move || {
        on_runtime(async move {
            let association = AssociationConfig::modern().with(|c| {
                c.paths.dscp_v4 = DSCP;
                c.paths.dscp_v6 = DSCP;
            });
            let endpoint = bind(config(transport, near).port(PORT + 1));
            let options = ConnectOptions::new().association(association);
            let association = endpoint
                .connect_with((&[far], PORT), options)
                .await
                .unwrap();
            let pattern = pattern();
            for number in 0..MESSAGES {
                send_one(&association, number, &pattern).await;
            }
            check_sender(&settled(&association).await);
            association.shutdown().await.unwrap();
            let report = endpoint.close().await;
            assert!(report.is_empty(), "{report}");
        });
    });
    let (sent, received) = (sender.join(), receiver.join());
    done.store(true, Ordering::Release);
    let wire = capture.join().unwrap();
    sent.unwrap();
    received.unwrap();
    check_wire(&wire);
}

fn config(transport: Transport, address: IpAddr) -> Config {
    Config::udp([address]).transport(transport)
}

/// Returns the statistics when no packet is in flight any more.
async fn settled(association: &Association) -> AssociationStats {
    loop {
        let stats = association.control().stats().await.unwrap();
        if stats.send_buffer_bytes == 0 {
            return stats;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn check_sender(stats: &AssociationStats) {
    let counters = stats.counters;
    assert!(stats.extensions.ecn);
    assert!(counters.congestion_mark_reductions > 0, "{counters:?}");
    assert!(counters.ecnes_received > 0 && counters.cwrs_sent > 0);
}

fn check_receiver(stats: &AssociationStats) {
    let counters = stats.counters;
    assert!(counters.congestion_marks_received > 0, "{counters:?}");
    assert!(counters.ecnes_sent > 0 && counters.cwrs_received > 0);
}

fn check_wire(wire: &Wire) {
    eprintln!("{wire:?}");
    let data = |codepoint| wire.data.get(&codepoint).copied().unwrap_or(0);
    assert!(data(MARKED) > 0 && wire.ecnes > 0 && wire.cwrs > 0);
    // Retransmitted packets are not ECN-capable.
    assert!(data(CAPABLE) > 10 * data(NOT_CAPABLE));
    // Neither the mark nor segmentation offload changes it.
    let dscps: [Vec<u8>; 2] = wire.dscps.each_ref().map(|of| of.keys().copied().collect());
    assert_eq!(dscps, [vec![DSCP], vec![0]]);
    for other in [&wire.other, &wire.replies] {
        assert!(other.keys().all(|codepoint| *codepoint == NOT_CAPABLE));
    }
}
