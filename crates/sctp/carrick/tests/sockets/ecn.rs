//! ECN field between the protocol and the wire, through the sockets (RFC 3168; RFC 4960, appendix A).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carrick::{Association, ChunkType, Endpoint};
use quinn_udp::EcnCodepoint;

use crate::relay::{self, RelayedDatagram};
use crate::support::{config, content, ip, on, quick, soon};

const SIZE: usize = 50_000;
const COUNT: usize = 40;
/// Number of ECN-capable packets per cycle, and number of consecutive ones that are marked; they arrive
/// together.
const MARKED: (usize, usize) = (100, 10);

/// Observations of the relay.
#[derive(Debug, Default)]
struct RelayObservations {
    /// Packets with DATA that the client sent, ECN-capable and not.
    capable: usize,
    other_data: usize,
    marked: usize,
    /// ECN-capable packets without DATA, or of the server, which sends no DATA.
    wrong: usize,
    ecnes: usize,
    cwrs: usize,
}

impl RelayObservations {
    fn carry(&mut self, mut carried: RelayedDatagram) -> Vec<RelayedDatagram> {
        let kinds = kinds(&carried.bytes);
        let has = |kind| kinds.contains(&kind);
        self.ecnes += usize::from(has(ChunkType::ECNE) && carried.from_server);
        self.cwrs += usize::from(has(ChunkType::CWR) && !carried.from_server);
        let data = has(ChunkType::DATA);
        match carried.ecn {
            Some(EcnCodepoint::Ect0) if data && !carried.from_server => {
                self.capable += 1;
                if self.capable % MARKED.0 < MARKED.1 {
                    carried.ecn = Some(EcnCodepoint::Ce);
                    self.marked += 1;
                }
            }
            Some(_) => self.wrong += 1,
            None => self.other_data += usize::from(data),
        }
        vec![carried]
    }
}

/// Returns the types of the chunks of a packet.
fn kinds(packet: &[u8]) -> Vec<ChunkType> {
    let mut rest = packet.get(12..).unwrap_or_default();
    let mut kinds = Vec::new();
    while let Some(&[kind, _, high, low]) = rest.first_chunk() {
        kinds.push(ChunkType(kind));
        let length = usize::from(u16::from_be_bytes([high, low]));
        rest = rest
            .get(length.next_multiple_of(4).max(4)..)
            .unwrap_or_default();
    }
    kinds
}

fn bind(address: &str, ecn: bool) -> Endpoint {
    // A long RTO, so that a delayed thread causes no timeout: retransmitted packets are not ECN-capable.
    let mut association = quick().with(|c| {
        c.buffers.max_send_buffer = None;
        c.timers.rto_initial = Duration::from_secs(1);
        c.timers.rto_min = Duration::from_secs(1);
        c.timers.rto_max = Duration::from_secs(4);
    });
    association.extensions.ecn = ecn;
    Endpoint::bind(config(&[address]).association(association)).unwrap()
}

/// Sends all messages over a relay that marks; returns both ends, still established, and the observations.
async fn transfer(
    address: &str,
    client: bool,
    server: bool,
) -> (Association, Association, RelayObservations) {
    let (client, server) = (bind(address, client), bind(address, server));
    let seen = Arc::new(Mutex::new(RelayObservations::default()));
    let noted = Arc::clone(&seen);
    let port = relay::open(&server, ip(address), move |carried| {
        noted.lock().unwrap().carry(carried)
    });
    let (a, mut b) = relay::associate(&client, &server, ip(address), port).await;
    let send = async {
        for number in 0..COUNT {
            a.send(content(number, SIZE), on(0)).await.unwrap();
        }
    };
    let receive = async {
        for number in 0..COUNT {
            let message = b.recv().await.unwrap().unwrap();
            assert!(message.payload == content(number, SIZE)[..]);
        }
    };
    soon("transfer", async { tokio::join!(send, receive) }).await;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (a, b, seen)
}

/// RFC 4960, appendix A
#[tokio::test]
async fn an_ecn_mark_reaches_the_association() {
    for address in ["127.0.0.1", "::1"] {
        let (a, b, seen) = transfer(address, true, true).await;
        assert!(seen.marked > 5, "{address}: {seen:?}");
        assert!(
            seen.capable > 10 * seen.other_data,
            "only what is sent again is not: {seen:?}"
        );
        assert_eq!(seen.wrong, 0, "{seen:?}");
        assert!(seen.ecnes > 0 && seen.cwrs > 0, "{seen:?}");
        let (ours, theirs) = (
            a.control().stats().await.unwrap(),
            b.control().stats().await.unwrap(),
        );
        assert!(ours.extensions.ecn && theirs.extensions.ecn);
        let (ours, theirs) = (ours.counters, theirs.counters);
        // The few packets that were lost on the way are not received.
        assert!(
            theirs.congestion_marks_received > seen.marked as u64 / 2,
            "{seen:?} {theirs:?}"
        );
        assert!(theirs.ecnes_sent > 0 && theirs.cwrs_received > 0);
        assert!(ours.congestion_mark_reductions > 0, "{ours:?}");
        assert!(ours.ecnes_received > 0 && ours.cwrs_sent > 0);
    }
}

/// RFC 4960, appendix A
#[tokio::test]
async fn without_ecn_on_one_side_no_packet_is_capable() {
    for (client, server) in [(true, false), (false, true)] {
        let (a, b, seen) = transfer("127.0.0.1", client, server).await;
        assert_eq!((seen.capable, seen.wrong), (0, 0), "{seen:?}");
        assert!(seen.other_data > 100, "{seen:?}");
        for end in [a, b] {
            let stats = end.control().stats().await.unwrap();
            assert!(!stats.extensions.ecn);
            let counters = stats.counters;
            assert_eq!(counters.congestion_marks_received, 0);
            assert_eq!(counters.ecnes_sent + counters.cwrs_sent, 0);
        }
    }
}
