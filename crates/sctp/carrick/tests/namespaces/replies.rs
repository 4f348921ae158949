//! Checks that each reply uses the packet's destination address as source: HEARTBEAT ACK, INIT ACK, COOKIE
//! ACK and SACK go from the destination of the packet that they answer to its source.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::capture::Captured;

const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const SACK: u8 = 3;
/// NR-SACK, which has the fields of SACK and more.
const NR_SACK: u8 = 16;
const HEARTBEAT: u8 = 4;
const HEARTBEAT_ACK: u8 = 5;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;

/// Source and destination.
type Pair = (IpAddr, IpAddr);

/// Observed packets, and errors found.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// INITs by Initiate Tag.
    inits: BTreeMap<Vec<u8>, BTreeSet<Pair>>,
    /// HEARTBEATs by Heartbeat Info.
    heartbeats: BTreeMap<Vec<u8>, Pair>,
    cookie_echoes: BTreeSet<Pair>,
    /// By sending host: DATA since its peer's last SACK, and in the interval before, because a packet may
    /// have been captured that the peer had not read when it sent the last SACK.
    data: BTreeMap<bool, [BTreeSet<Pair>; 2]>,
    /// Number of replies, by type and addresses.
    pub(crate) seen: BTreeMap<(&'static str, Pair), u64>,
    pub(crate) wrong: Vec<String>,
    /// Number of wrong SACKs. A SACK sent when a link is set down while DATA is in flight may answer an
    /// earlier interval.
    pub(crate) stray_sacks: u64,
}

impl Replies {
    /// Processes a packet; `near` returns true for addresses of one of the two hosts.
    pub(crate) fn take(&mut self, packet: &Captured, near: impl Fn(IpAddr) -> bool) {
        let pair = (packet.from, packet.to);
        let from_near = near(packet.from);
        let tag = packet.sctp.get(4..8).unwrap_or_default().to_vec();
        let mut data = false;
        for (kind, value) in chunks(&packet.sctp) {
            match kind {
                DATA => data = true,
                INIT => {
                    let tag = value.get(..4).unwrap_or_default().to_vec();
                    self.inits.entry(tag).or_default().insert(pair);
                }
                HEARTBEAT => drop(self.heartbeats.insert(value.to_vec(), pair)),
                COOKIE_ECHO => drop(self.cookie_echoes.insert(pair)),
                INIT_ACK => {
                    let fits = self.inits.get(&tag).is_some_and(|i| answers(i, pair));
                    self.check("INIT ACK", pair, fits);
                }
                HEARTBEAT_ACK => {
                    let fits = self.heartbeats.get(value) == Some(&(pair.1, pair.0));
                    self.check("HEARTBEAT ACK", pair, fits);
                }
                COOKIE_ACK => {
                    let fits = answers(&self.cookie_echoes, pair);
                    self.check("COOKIE ACK", pair, fits);
                }
                SACK | NR_SACK => {
                    let intervals = self.data.entry(!from_near).or_default();
                    // Without DATA from that address, the SACK was sent to another path because the path of
                    // the DATA has failed; the rule does not apply then.
                    let seen = intervals.iter().flatten().count() > 0;
                    let moved = seen && !intervals.iter().flatten().any(|data| data.0 == pair.1);
                    let fits = moved || intervals.iter().any(|i| answers(i, pair));
                    // A window update follows no DATA; it belongs to the last DATA.
                    if !intervals[0].is_empty() {
                        intervals[1] = std::mem::take(&mut intervals[0]);
                    }
                    self.check("SACK", pair, fits);
                }
                _ => {}
            }
        }
        if data {
            self.data.entry(from_near).or_default()[0].insert(pair);
        }
    }

    fn check(&mut self, kind: &'static str, pair: Pair, fits: bool) {
        *self.seen.entry((kind, pair)).or_default() += 1;
        if !fits && kind == "SACK" {
            self.stray_sacks += 1;
        } else if !fits && self.wrong.len() < 20 {
            let (from, to) = pair;
            self.wrong.push(format!(
                "{kind} from {from} to {to} answers nothing sent that way"
            ));
        }
    }

    /// Asserts that no reply was wrong, except for one SACK in a thousand.
    pub(crate) fn assert_right(&self) {
        let sacks = self.seen.iter().filter(|((kind, _), _)| *kind == "SACK");
        let sacks: u64 = sacks.map(|(_, count)| count).sum();
        let strays = self.stray_sacks;
        assert!(strays <= sacks / 1000, "{strays} of {sacks} SACKs");
        assert_eq!(self.wrong, Vec::<String>::new());
    }

    /// Number of replies of a type from one address to another.
    pub(crate) fn count(&self, kind: &'static str, from: IpAddr, to: IpAddr) -> u64 {
        self.seen.get(&(kind, (from, to))).copied().unwrap_or(0)
    }
}

/// Returns true if one of these packets was sent in the opposite direction.
fn answers(sent: &BTreeSet<Pair>, reply: Pair) -> bool {
    sent.contains(&(reply.1, reply.0))
}

/// Returns type and value of the chunks of a packet, as far as they were captured.
pub(crate) fn chunks(packet: &[u8]) -> Vec<(u8, &[u8])> {
    let mut rest = packet.get(12..).unwrap_or_default();
    let mut chunks = Vec::new();
    while let Some(&[kind, _, high, low]) = rest.first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < 4 {
            break;
        }
        chunks.push((kind, &rest[4..length.min(rest.len())]));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(a) if a.octets()[3] == 1)
    }

    /// Returns a packet with one chunk between host and path of each end.
    fn packet(from: [u8; 2], to: [u8; 2], kind: u8, value: [u8; 8]) -> Captured {
        let mut sctp = vec![0; 12];
        sctp[4..8].copy_from_slice(&[9; 4]);
        sctp.extend([kind, 0, 0, 12]);
        sctp.extend(value);
        let address = |[path, host]: [u8; 2]| IpAddr::from([10, 77, path, host]);
        Captured {
            dscp: 0,
            from: address(from),
            to: address(to),
            ecn: 0,
            sctp,
        }
    }

    fn wrong(packets: &[Captured]) -> usize {
        let mut replies = Replies::default();
        for packet in packets {
            replies.take(packet, near);
        }
        replies.wrong.len() + replies.stray_sacks as usize
    }

    #[test]
    fn a_reply_from_another_address_is_noticed() {
        for (asked, reply) in [
            (INIT, INIT_ACK),
            (HEARTBEAT, HEARTBEAT_ACK),
            (COOKIE_ECHO, COOKIE_ACK),
            (DATA, SACK),
        ] {
            let asked = packet([1, 1], [1, 2], asked, [9; 8]);
            let right = packet([1, 2], [1, 1], reply, [9; 8]);
            let source = packet([0, 2], [1, 1], reply, [9; 8]);
            let elsewhere = packet([0, 2], [0, 1], reply, [9; 8]);
            assert_eq!(wrong(&[asked.clone(), right.clone()]), 0);
            assert_eq!(wrong(&[asked.clone(), source]), 1);
            // Only a SACK may use another path, when the path of the DATA has failed.
            let noticed = usize::from(reply != SACK);
            assert_eq!(wrong(&[asked, elsewhere]), noticed);
            assert_eq!(wrong(&[right]), 1, "a reply to no packet");
        }
    }

    #[test]
    fn a_sack_may_follow_data_of_the_interval_before() {
        let data = |path| packet([path, 1], [path, 2], DATA, [0; 8]);
        let sack = |path| packet([path, 2], [path, 1], SACK, [0; 8]);
        assert_eq!(wrong(&[data(0), data(1), sack(0), data(0), sack(1)]), 0);
    }

    #[test]
    fn bundled_chunks_are_seen() {
        let mut both = packet([0, 2], [0, 1], SACK, [0; 8]);
        both.sctp.extend([HEARTBEAT_ACK, 0, 0, 8, 1, 2, 3, 4]);
        assert_eq!(wrong(&[both]), 2);
    }
}
