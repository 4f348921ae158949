//! Log of associations that come and go, and of events of their paths, with a limit of lines for each peer.

use std::fmt::Display;
use std::net::IpAddr;
use std::time::Duration;

use carrick_metrics::{LineRate, LogLimits};
use carrick_proto::{SourceKey, Time};
use carrick_sockets::Sockets;

use crate::followers::Followers;

/// Limit of the lines about a peer, an IPv4 address or IPv6 /64.
const PER_PEER: LineRate = LineRate {
    burst: 60,
    interval: Duration::from_secs(1),
};

/// The log, with its limits.
#[derive(Debug)]
pub(crate) struct AssociationLog {
    limits: LogLimits<SourceKey>,
    /// Number of reports that the sockets have dropped.
    dropped: u64,
}

impl Default for AssociationLog {
    fn default() -> Self {
        Self {
            limits: LogLimits::new(PER_PEER),
            dropped: 0,
        }
    }
}

impl AssociationLog {
    /// Returns the number of lines that were suppressed since the start.
    pub(crate) fn suppressed(&self) -> u64 {
        self.limits.suppressed() + self.dropped
    }

    /// Returns the time at which suppressed lines are reported.
    pub(crate) fn next_report(&self) -> Option<Time> {
        self.limits.next_report().map(|at| Time::ZERO + at)
    }

    /// Passes the reports of the sockets to `followers`, and to `log` as far as the limits of their peers allow.
    pub(crate) fn write(
        &mut self,
        now: Time,
        sockets: &mut Sockets,
        followers: &mut Followers,
        log: impl Fn(&str),
    ) {
        while let Some(report) = sockets.reports().poll() {
            followers.send(&report);
            self.line(now, report.peer.ip(), &report, &log);
        }
        let dropped = sockets.reports().take_dropped();
        if dropped > 0 {
            self.dropped += dropped;
            log(&format!(
                "{dropped} lines about associations suppressed: too many events at once"
            ));
        }
        self.report(now, log);
    }

    /// Logs a line about a peer, or counts it.
    fn line(&mut self, now: Time, address: IpAddr, line: &impl Display, log: impl Fn(&str)) {
        if (self.limits).admit(now.since(Time::ZERO), &SourceKey::of(address)) {
            log(&line.to_string());
        }
    }

    /// Logs the numbers of suppressed lines, if they are due.
    fn report(&mut self, now: Time, log: impl Fn(&str)) {
        for suppressed in self.limits.take_due(now.since(Time::ZERO)) {
            let peer = suppressed.source.map(|source| source.to_string());
            log(&format!(
                "{} lines about associations with {} suppressed: more than {} at once, and one each second",
                suppressed.lines,
                peer.as_deref().unwrap_or("further peers"),
                PER_PEER.burst
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
        log.line(at(1), quiet, &"another peer", write);
        assert_eq!(lines.take().len(), 61);
        assert_eq!(log.suppressed(), 40);
        log.report(at(10), write);
        assert!(lines.take().is_empty(), "not due");
        assert_eq!(log.next_report(), Some(at(11)));
        log.report(at(11), write);
        let suppressed = "40 lines about associations with 192.0.2.1 suppressed: more than 60 at once, and one each second";
        assert_eq!(lines.take(), [suppressed]);
        log.line(at(12), flapping, &"again", write);
        assert_eq!(lines.take(), ["again"]);
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
}
