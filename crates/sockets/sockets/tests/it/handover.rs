//! Export and import of all sockets of a host: handover to another process.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use carrick_proto::export::{OLDEST_VERSION, VERSION};
use carrick_proto::{ImportError, Time};
use carrick_sockets::linux::*;
use carrick_sockets::{Config, Readiness, SocketId, Sockets, Style};

use crate::random::Numbers;
use crate::world::*;

/// One-to-one sockets with traffic in both directions.
const PAIRS: usize = 6;
/// Messages of each socket.
const MESSAGES: u32 = 150;

/// Messages that a socket has to send, and those that it has received.
#[derive(Default)]
struct Traffic {
    sent: u32,
    received: u32,
    /// Bytes of a message that was read in part.
    begun: Vec<u8>,
}

/// Returns message `n`: its number, and bytes that depend on it.
fn message(n: u32) -> Vec<u8> {
    let len = [4, 100, 1400, 9000, 40_000][n as usize % 5];
    let mut bytes = n.to_be_bytes().to_vec();
    bytes.resize(len, n as u8);
    bytes
}

/// Sends and reads some messages of a socket.
fn exchange(
    w: &mut World,
    numbers: &mut Numbers,
    host: usize,
    id: SocketId,
    traffic: &mut Traffic,
) {
    for _ in 0..numbers.below(8) {
        if traffic.sent < MESSAGES && w.send(host, id, &message(traffic.sent)).is_ok() {
            traffic.sent += 1;
        }
    }
    for _ in 0..numbers.below(12) {
        let size = [1000, 1 << 20][numbers.below(2)];
        let Ok(part) = w.recv_with(host, id, size, 0) else {
            return;
        };
        traffic.begun.extend(&part.data);
        if part.flags & MSG_EOR != 0 {
            let whole = std::mem::take(&mut traffic.begun);
            assert_eq!(whole, message(traffic.received), "host {host}, {id}");
            traffic.received += 1;
        }
    }
}

/// Several associations, a lossy moment, and successors of both hosts at random moments: each message arrives
/// once and in order.
#[test]
fn messages_arrive_once_across_handovers() {
    for seed in 0..6 {
        let mut w = World::new();
        let mut numbers = Numbers(seed);
        let listener = w.listener(Style::OneToOne, 20);
        let mut sockets: BTreeMap<(usize, SocketId), Traffic> = BTreeMap::new();
        let mut handovers = 0;
        for _ in 0..PAIRS {
            let client = w.one_to_one(A);
            let _ = w.connect(client, at(B, PORT));
            sockets.insert((A, client), Traffic::default());
        }
        for _ in 0..20_000 {
            let keys: Vec<(usize, SocketId)> = sockets.keys().copied().collect();
            match numbers.below(12) {
                0 => {
                    w.hand_over(numbers.below(2));
                    handovers += 1;
                }
                1 => {
                    if let Ok((accepted, _)) = w.on(B, |s, _| s.accept(listener)) {
                        sockets.insert((B, accepted), Traffic::default());
                    }
                }
                2 if numbers.below(8) == 0 => {
                    w.set_link(0, false);
                    w.run(ms(numbers.below(60) as u64));
                    w.set_link(0, true);
                }
                2..=5 => w.run(ms(numbers.below(40) as u64)),
                _ => {
                    let (host, id) = keys[numbers.below(keys.len())];
                    let traffic = sockets.get_mut(&(host, id)).unwrap();
                    exchange(&mut w, &mut numbers, host, id, traffic);
                }
            }
            let done = |t: &Traffic| (t.sent, t.received) == (MESSAGES, MESSAGES);
            if sockets.len() == 2 * PAIRS && sockets.values().all(done) {
                break;
            }
        }
        for ((host, id), traffic) in &sockets {
            let counts = (traffic.sent, traffic.received);
            assert_eq!(
                counts,
                (MESSAGES, MESSAGES),
                "seed {seed}, host {host}, {id}"
            );
            assert_eq!(w.look(*host).pending_error(*id), Ok(None), "seed {seed}");
        }
        assert_eq!(sockets.len(), 2 * PAIRS);
        assert!(handovers > 20, "seed {seed}: {handovers}");
    }
}

/// RFC 6458, sections 6.1 and 8
#[test]
fn options_and_notifications_are_kept() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToMany, 5);
    let client = w.one_to_many(A);
    w.subscribe(A, client, &[SCTP_ASSOC_CHANGE, SCTP_SENDER_DRY_EVENT]);
    w.set_int(A, client, (IPPROTO_SCTP, SCTP_RECVRCVINFO), 1)
        .unwrap();
    w.set_int(A, client, (SOL_SOCKET, SO_SNDBUF), 50_000)
        .unwrap();
    let rto = RtoInfo {
        assoc_id: 0,
        initial: 2000,
        max: 5000,
        min: 700,
    };
    w.set(A, client, SCTP_RTOINFO, &rto).unwrap();
    w.send_to(A, client, at(B, PORT), b"first").unwrap();
    // In the middle of the set-up, and with unread notifications.
    for _ in 0..10 {
        w.run(ms(7));
        w.hand_over(A);
        w.hand_over(B);
    }
    let read = w.recv(B, listener).unwrap();
    assert_eq!(&read.data[..], b"first");
    let association = read.association;
    let up = w.recv(A, client).unwrap();
    assert_eq!(kind(&up), SCTP_ASSOC_CHANGE);
    assert_eq!(up.flags, MSG_NOTIFICATION | MSG_EOR);
    let kept: RtoInfo = w.get(A, client, SCTP_RTOINFO, &rto).unwrap();
    assert_eq!((kept.initial, kept.max, kept.min), (2000, 5000, 700));
    let option = (IPPROTO_SCTP, SCTP_RECVRCVINFO);
    assert_eq!(w.get_int(A, client, option), Ok(1));
    // A branch, and a new association: identifiers go on from those of the predecessor.
    let branch = w
        .on(B, |s, now| s.peeloff(now, listener, association))
        .unwrap();
    w.hand_over(B);
    let second = w.one_to_many(A);
    w.send_to(A, second, at(B, PORT), b"second").unwrap();
    w.run(ms(200));
    let read = w.recv(B, listener).unwrap();
    assert_eq!(&read.data[..], b"second");
    assert_ne!(read.association, association);
    w.send(B, branch, b"reply").unwrap();
    w.run(ms(100));
    let replies = w.recv_all(A, client);
    assert!(replies.iter().any(|read| &read.data[..] == b"reply"));
}

/// Edges that were not polled, a full send buffer, and an accept queue.
#[test]
fn readiness_and_backlog_are_kept() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    let client = w.one_to_one(A);
    w.set_int(A, client, (SOL_SOCKET, SO_SNDBUF), 20_000)
        .unwrap();
    let _ = w.connect(client, at(B, PORT));
    w.run(ms(100));
    w.hand_over(B);
    assert_eq!(w.changes(B), [(listener, Readiness::READABLE)]);
    while w.send(A, client, &[7; 5000]).is_ok() {}
    w.hand_over(A);
    assert!(!w.readiness(A, client).contains(Readiness::WRITABLE));
    let (accepted, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
    w.run(secs(1));
    assert!(w.readiness(A, client).contains(Readiness::WRITABLE));
    assert!(!w.recv_all(B, accepted).is_empty());
}

/// Returns the export of a host with associations and unread messages.
fn export() -> Vec<u8> {
    let mut w = World::new();
    let (client, server) = w.pair();
    w.subscribe(A, client, &[SCTP_ASSOC_CHANGE, SCTP_SHUTDOWN_EVENT]);
    for n in 0..10 {
        w.send(B, server, &[n; 4]).unwrap();
    }
    w.run(secs(1));
    let exported = w.on(A, |s, now| s.export(now)).unwrap();
    assert!(!format!("{exported:?}").contains('['), "{exported:?}");
    exported.into_bytes()
}

fn import(bytes: &[u8]) -> Result<Sockets, ImportError> {
    let config = Config::new(vec![ip(A, 0)], [9; 32]);
    Sockets::import(config, Time::from_millis(3_600_000), bytes)
}

#[test]
fn another_version_and_damage_are_refused() {
    let good = export();
    assert!(import(&good).is_ok());
    let mut other = good.clone();
    other[9] += 1;
    let refused = import(&other).unwrap_err();
    let is_version = matches!(refused, ImportError::Version { found: 2, .. });
    assert!(is_version, "{refused}");
    assert_eq!(
        import(b"GET / HTTP/1.1").unwrap_err(),
        ImportError::NoExport
    );
    for cut in [10, 17, 40, good.len() - 1] {
        assert_eq!(import(&good[..cut]).unwrap_err(), ImportError::Damaged);
    }
    let mut damaged = good;
    damaged[100] ^= 1;
    assert_eq!(import(&damaged).unwrap_err(), ImportError::Damaged);
}

/// States of host A after ten messages, by the version of the format.
const STATES: [(u16, &[u8]); 1] = [(1, include_bytes!("exports/1.bin"))];

/// The states of former versions were written by `write_state` of their commit.
#[test]
fn states_of_each_version_continue() {
    for (version, state) in STATES {
        assert_eq!(state[8..10], version.to_be_bytes());
        let mut w = World::new();
        let (client, _) = w.pair();
        w.on(A, |sockets, _| *sockets = import(state).unwrap());
        for n in 0..10 {
            assert_eq!(w.recv(A, client).unwrap().data[..], [n; 4]);
        }
    }
    assert_eq!(STATES[0].0, OLDEST_VERSION);
    assert_eq!(STATES[STATES.len() - 1].0, VERSION);
}

/// Writes the state of this version for [`STATES`].
#[test]
#[ignore = "writes a file of this test"]
fn write_state() {
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/exports");
    fs::write(to.join(format!("{VERSION}.bin")), export()).unwrap();
}

/// A forged state with the right checksum is refused, or has no effect but on its peers.
#[test]
fn forged_exports_cause_no_panic() {
    let good = export();
    let mut numbers = Numbers(5);
    let (mut refused, mut accepted) = (0, 0);
    for _ in 0..3000 {
        let mut forged = good.clone();
        for _ in 0..=numbers.below(2) {
            // Without the header and the trailer.
            let at = 18 + numbers.below(good.len() - 22);
            forged[at] = [0, 1, 0x7f, 0xff, forged[at] ^ 1][numbers.below(5)];
        }
        let covered = forged.len() - 4;
        let sum = carrick_wire::crc32c(&forged[..covered]);
        forged[covered..].copy_from_slice(&sum.to_be_bytes());
        let Ok(mut sockets) = import(&forged) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        let mut now = Time::from_millis(3_600_000);
        let mut buffer = Vec::new();
        for _ in 0..5 {
            while sockets.poll_transmit(now, &mut buffer).is_some() {
                buffer.clear();
            }
            while let Some(change) = sockets.poll_readiness() {
                let _ = sockets.recvmsg(now, change.socket, (1 << 20, 100), 0);
            }
            now += ms(500);
            sockets.handle_timeout(now);
        }
    }
    assert!(
        refused > 500 && accepted > 0,
        "{refused} refused, {accepted} accepted"
    );
}

/// Checksum of all lists of fields and variants, which changes with the version of the format.
const LAYOUT: u32 = 0xde61_a88b;

#[test]
fn version_stands_for_the_layout() {
    fn lists(directory: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                lists(&path, found);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for begin in [
                "portable_struct! {",
                "portable_tuple! {",
                "portable_enum! {",
            ] {
                for list in text.split(begin).skip(1) {
                    let ends = ["\n}\n", " }\n"].iter().filter_map(|end| list.find(end));
                    let words = list[..ends.min().unwrap()].split_whitespace();
                    found.push(words.collect::<Vec<_>>().join(" "));
                }
            }
        }
    }
    let mut found = Vec::new();
    lists(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    found.sort();
    let sum = carrick_wire::crc32c(found.join("\n").as_bytes());
    assert_eq!(
        sum, LAYOUT,
        "the exported state changed: set LAYOUT to {sum:#x}, and follow the same test of carrick-proto (export/tests.rs)"
    );
}
