//! Log of associations that come and go, and of events of their paths, with a limit of lines for each peer.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::time::Duration;

use carrick_proto::{SourceKey, Time};
use carrick_sockets::Sockets;

/// Lines about one peer in a [`PERIOD`].
const MAX_LINES: u32 = 60;
/// Period of the limit.
const PERIOD: Duration = Duration::from_secs(60);
/// Peers with a limit of their own; all further ones share one limit.
const MAX_PEERS: usize = 1024;

/// Lines about a peer, an IPv4 address or IPv6 /64, in the present period.
#[derive(Clone, Copy, Debug)]
struct PeerLines {
    since: Time,
    lines: u32,
    suppressed: u64,
    /// First address of the peer; `None` for all peers beyond the table.
    address: Option<IpAddr>,
}

/// Limits of lines.
#[derive(Debug, Default)]
pub(crate) struct AssociationLog {
    peers: BTreeMap<SourceKey, PeerLines>,
    /// Peers beyond [`MAX_PEERS`].
    others: Option<PeerLines>,
    /// Number of suppressed lines since the start.
    suppressed: u64,
}

impl AssociationLog {
    /// Returns the number of lines that were suppressed since the start.
    pub(crate) fn suppressed(&self) -> u64 {
        self.suppressed
    }

    /// Passes the reports of the sockets to `log`, as far as the limits of their peers allow.
    pub(crate) fn write(&mut self, now: Time, sockets: &mut Sockets, log: impl Fn(&str)) {
        while let Some(report) = sockets.poll_report() {
            self.line(now, report.peer.ip(), &report, &log);
        }
        let dropped = sockets.take_dropped_reports();
        if dropped > 0 {
            self.suppressed += dropped;
            log(&format!(
                "{dropped} lines about associations suppressed: too many events at once"
            ));
        }
    }

    /// Logs a line about a peer, or counts it.
    fn line(&mut self, now: Time, address: IpAddr, line: &impl Display, log: impl Fn(&str)) {
        let limit = self.limit(now, address, &log);
        if limit.lines < MAX_LINES {
            limit.lines += 1;
            log(&line.to_string());
        } else {
            limit.suppressed += 1;
            self.suppressed += 1;
        }
    }

    /// Returns the limit for a peer in the present period. Logs the number of lines that its last period
    /// suppressed.
    fn limit(&mut self, now: Time, address: IpAddr, log: impl Fn(&str)) -> &mut PeerLines {
        let begin = PeerLines {
            since: now,
            lines: 0,
            suppressed: 0,
            address: Some(address),
        };
        let key = SourceKey::of(address);
        if self.peers.len() >= MAX_PEERS && !self.peers.contains_key(&key) {
            let is_current = |peer: &PeerLines| {
                let is_over = peer.since + PERIOD <= now;
                if is_over {
                    peer.log_suppressed(&log);
                }
                !is_over
            };
            self.peers.retain(|_, peer| is_current(peer));
            self.others = self.others.filter(is_current);
        }
        let limit = if self.peers.len() < MAX_PEERS || self.peers.contains_key(&key) {
            self.peers.entry(key).or_insert(begin)
        } else {
            self.others.get_or_insert(PeerLines {
                address: None,
                ..begin
            })
        };
        if limit.since + PERIOD <= now {
            limit.log_suppressed(log);
            *limit = PeerLines {
                address: limit.address,
                ..begin
            };
        }
        limit
    }
}

impl PeerLines {
    fn log_suppressed(&self, log: impl Fn(&str)) {
        if self.suppressed > 0 {
            let peer = self.address.map(|address| address.to_string());
            log(&format!(
                "{} lines about associations with {} suppressed: more than {MAX_LINES} in {} s",
                self.suppressed,
                peer.as_deref().unwrap_or("further peers"),
                PERIOD.as_secs()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn lines_of_a_peer_are_limited() {
        let (mut log, lines) = (AssociationLog::default(), RefCell::new(Vec::new()));
        let write = |line: &str| lines.borrow_mut().push(line.to_owned());
        let [flapping, quiet] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        for number in 0..100 {
            log.line(at(1), flapping, &number, write);
        }
        log.line(at(59), quiet, &"another peer", write);
        assert_eq!(lines.take().len(), 61);
        assert_eq!(log.suppressed(), 40);
        log.line(at(60), flapping, &"still", write);
        assert!(lines.take().is_empty(), "the period is not over");
        log.line(at(61), flapping, &"again", write);
        let suppressed =
            "41 lines about associations with 192.0.2.1 suppressed: more than 60 in 60 s";
        assert_eq!(lines.take(), [suppressed, "again"]);
        log.line(at(62), flapping, &"once more", write);
        assert_eq!(lines.take(), ["once more"]);
        assert_eq!(log.suppressed(), 41);
    }

    /// A host may use all addresses of a /64.
    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let (mut log, lines) = (AssociationLog::default(), RefCell::new(0));
        for host in 0..100 {
            let address = [0x2001, 0xdb8, 0, 0, 0, 0, 0, host].into();
            log.line(at(1), address, &host, |_| *lines.borrow_mut() += 1);
        }
        assert_eq!((lines.take(), log.suppressed()), (60, 40));
    }

    #[test]
    fn peers_are_bounded() {
        let (mut log, lines) = (AssociationLog::default(), RefCell::new(0));
        let count = |_: &str| *lines.borrow_mut() += 1;
        let peer = |number: usize| IpAddr::from([10, 0, (number >> 8) as u8, number as u8]);
        for number in 0..MAX_PEERS + 100 {
            log.line(at(1), peer(number), &"", count);
        }
        assert_eq!(log.peers.len(), MAX_PEERS);
        // Peers beyond the table share one limit.
        assert_eq!((lines.take(), log.suppressed()), (MAX_PEERS + 60, 40));
        // The number of their suppressed lines, and a line.
        log.line(at(61), peer(MAX_PEERS), &"", count);
        assert_eq!((log.peers.len(), lines.take()), (1, 2));
        log.line(at(62), peer(0), &"", count);
        assert_eq!(log.peers.len(), 2);
    }
}
