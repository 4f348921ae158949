//! A protection of chunks from outside the crate, through the configuration alone; the packets are
//! inspected on the way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carrick::protection::{ChunkProtection, PacketContext, ProtectionStats, Seal};
use carrick::{
    Association, ChunkType, CloseReason, Config, ConnectError, Endpoint, OperationError,
};

use crate::relay;
use crate::support::{associate, config, content, ip, on, pair, quick, soon};
use crate::toy::{Offer, SEALED, Toy};

const LOOPBACK: &str = "127.0.0.1";
const COMMON_HEADER: usize = 12;
/// Size of the messages, of many packets each, and their number.
const SIZE: usize = 40_000;
const COUNT: usize = 40;

fn protected(offer: Offer) -> Config {
    let config = config(&[LOOPBACK]).association(quick());
    config.chunk_protection(offer.shared())
}

fn endpoint(offer: Offer) -> Endpoint {
    Endpoint::bind(protected(offer)).unwrap()
}

/// Relay to a server that records packets, duplicates some of them, and sends some sealed ones again with a
/// changed bit.
struct RecordingRelay {
    port: u16,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl RecordingRelay {
    fn to(server: &Endpoint) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let mut count = 0_usize;
        let port = relay::open(server, ip(LOOPBACK), move |carried| {
            noted.lock().unwrap().push(carried.bytes.clone());
            count += 1;
            let mut out = vec![carried.clone()];
            if count.is_multiple_of(10) {
                out.push(carried.clone());
            }
            if count.is_multiple_of(17) && carried.bytes[COMMON_HEADER] == SEALED.0 {
                // The checksum is correct, so that the protection has to detect the change.
                let mut changed = carried;
                *changed.bytes.last_mut().unwrap() ^= 1;
                changed.bytes = with_checksum(changed.bytes);
                out.push(changed);
            }
            out
        });
        Self { port, seen }
    }

    /// Returns the packets recorded since the last call.
    fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

/// Returns the packet with its CRC32c (RFC 9260, appendix A), computed bit by bit.
fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    packet[8..12].fill(0);
    let mut crc = u32::MAX;
    for byte in &packet {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    packet[8..12].copy_from_slice(&(!crc).to_le_bytes());
    packet
}

/// Installs the key on both sides, activates it on both, then refuses all other packets.
async fn use_key(ends: [&Association; 2], id: u8) {
    for end in ends {
        end.control()
            .with_protection(move |toy: &mut Toy| toy.install(id, [id; 32]))
            .await
            .unwrap();
    }
    for end in ends {
        end.control()
            .with_protection(move |toy: &mut Toy| toy.send_with(id))
            .await
            .unwrap();
    }
}

async fn transfer(from: &Association, to: &mut Association) {
    let send = async {
        for number in 0..COUNT {
            from.send(content(number, SIZE), on(0)).await.unwrap();
        }
    };
    let receive = async {
        for number in 0..COUNT {
            let message = to.recv().await.unwrap().unwrap();
            assert_eq!(message.payload.into_bytes(), content(number, SIZE));
        }
    };
    soon("transfer", async { tokio::join!(send, receive) }).await;
}

async fn stats(end: &Association) -> ProtectionStats {
    let stats = end.control().stats().await.unwrap();
    stats.protection.expect("in force")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_are_sealed_with_keys_set_at_run_time() {
    let (client, server) = (endpoint(Offer::new()), endpoint(Offer::new()));
    let way = RecordingRelay::to(&server);
    let (mut a, mut b) = relay::associate(&client, &server, ip(LOOPBACK), way.port).await;
    assert_eq!(stats(&a).await.chunk_type, SEALED);
    // Without keys all packets are in the clear, which the statistics report.
    transfer(&a, &mut b).await;
    assert!(stats(&a).await.sent_clear > 0);
    assert_eq!(stats(&a).await.sealed, 0);
    use_key([&a, &b], 1).await;
    // Packets in flight in the clear still arrive.
    soon("quiet", async {
        while a.control().stats().await.unwrap().outstanding_bytes > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    for end in [&a, &b] {
        end.control().with_protection(Toy::lock).await.unwrap();
    }
    way.take();
    transfer(&a, &mut b).await;
    transfer(&b, &mut a).await;
    use_key([&a, &b], 2).await;
    transfer(&a, &mut b).await;
    for end in [&a, &b] {
        end.control()
            .with_protection(|toy: &mut Toy| toy.remove(1))
            .await
            .unwrap();
    }
    transfer(&b, &mut a).await;
    let (ours, theirs) = (stats(&a).await, stats(&b).await);
    for stats in [ours, theirs] {
        assert!(stats.sealed > 100 && stats.opened > 100, "{stats:?}");
        assert!(
            stats.forged > 10,
            "duplicates and changed packets: {stats:?}"
        );
        assert_eq!((stats.held_back, stats.refused_clear), (0, 0));
    }
    // Packets in flight may arrive between two readings.
    soon("the same count", async {
        let counted = async || server.stats().await.unwrap().protocol.forged_protection;
        let mut before = counted().await;
        loop {
            let of_association = stats(&b).await.forged;
            let after = counted().await;
            if before == after {
                assert_eq!(of_association, after);
                break;
            }
            before = after;
        }
    })
    .await;
    // Duplicates after the end belong to no association and are answered in the clear.
    let seen = way.take();
    let (asked, ended) = soon("shutdown", async { tokio::join!(a.shutdown(), b.recv()) }).await;
    assert_eq!((asked, ended), (Ok(()), Ok(None)));
    let clear = content(0, SIZE);
    assert!(seen.len() > 200);
    for packet in seen {
        assert_eq!(packet[COMMON_HEADER], SEALED.0, "only the protected chunk");
        assert!(!packet.windows(16).any(|w| w == &clear[..16]));
    }
    let ended = a.control().with_protection(Toy::lock).await;
    assert_eq!(ended, Err(OperationError::Ended(CloseReason::Shutdown)));
}

#[tokio::test]
async fn without_a_key_no_packet_is_sent_or_accepted() {
    let (client, server) = (endpoint(Offer::new()), endpoint(Offer::new()));
    let (a, b) = associate(&client, &server, &[LOOPBACK]).await;
    b.control().with_protection(Toy::lock).await.unwrap();
    a.send("in the clear", on(0)).await.unwrap();
    soon("refusal", async {
        while stats(&b).await.refused_clear == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    a.control()
        .with_protection(|toy: &mut Toy| toy.send_with(9))
        .await
        .unwrap();
    soon("hold", async {
        while stats(&a).await.held_back == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(
        b.control()
            .stats()
            .await
            .unwrap()
            .counters
            .data_chunks_received,
        0
    );
}

#[tokio::test]
async fn a_peer_without_protection_gets_clear_packets() {
    let client = endpoint(Offer::new());
    for lacking in [
        config(&[LOOPBACK]),
        // The peer supports another version only.
        protected(Offer {
            value: vec![2],
            ..Offer::new()
        }),
    ] {
        let server = Endpoint::bind(lacking).unwrap();
        let (a, mut b) = associate(&client, &server, &[LOOPBACK]).await;
        assert_eq!(a.control().stats().await.unwrap().protection, None);
        let refused = a.control().with_protection(Toy::lock).await;
        assert_eq!(refused, Err(OperationError::NoProtection));
        transfer(&a, &mut b).await;
    }
    let strict = Offer {
        required: true,
        ..Offer::new()
    };
    let (client, server) = (endpoint(strict), crate::support::endpoint(&[LOOPBACK]));
    let options = crate::support::to(&server);
    let refused = soon(
        "set-up",
        client.connect_with((ip(LOOPBACK), server.port()), options),
    )
    .await;
    let error = refused.expect_err("refused");
    assert!(matches!(error, ConnectError::Failed(_)), "{error}");
    assert_eq!(server.associations().await.unwrap(), 0);
}

/// This protection is never in force.
#[derive(Debug)]
struct Other;

impl ChunkProtection for Other {
    fn protect(&mut self, _: &PacketContext, _: &mut Vec<u8>) -> Seal {
        Seal::Clear
    }

    fn unprotect(&mut self, _: &PacketContext, _: u8, _: &mut Vec<u8>) -> bool {
        false
    }

    fn admits(&self, _: ChunkType) -> bool {
        true
    }
}

#[tokio::test]
async fn access_requires_the_type_of_the_protection() {
    let (client, server) = (endpoint(Offer::new()), endpoint(Offer::new()));
    let (a, _b) = associate(&client, &server, &[LOOPBACK]).await;
    let error = a
        .control()
        .with_protection(|_: &mut Other| ())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("Other"), "{error}");
    let (_client, _server, plain, _) = pair().await;
    let none = plain.control().with_protection(|_: &mut Other| ()).await;
    assert_eq!(none, Err(OperationError::NoProtection));
}
