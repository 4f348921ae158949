//! Limits of events for the log that peers can cause.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use carrick_metrics::{LineRate, LogLimits, SuppressedLines};
use carrick_proto::Time;

use crate::event::{Event, EventKind};

/// For peers of one source that are refused.
const PER_STRANGER: LineRate = LineRate {
    burst: 20,
    interval: Duration::from_secs(10),
};

/// For all peers that are refused.
const STRANGERS: LineRate = LineRate {
    burst: 200,
    interval: Duration::from_millis(500),
};

/// For a configured peer.
const PER_PEER: LineRate = LineRate {
    burst: 100,
    interval: Duration::from_secs(1),
};

/// For application servers and destinations.
const STATES: LineRate = LineRate {
    burst: 2000,
    interval: Duration::from_millis(100),
};

/// Source of events.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum EventSource {
    /// IPv4 address or IPv6 /64 of a peer that was refused.
    Stranger(IpAddr),
    Peer(Arc<str>),
    /// Application servers and destinations.
    States,
}

impl EventSource {
    fn of(event: &Event) -> Self {
        match &event.kind {
            EventKind::Refused(addresses, _) => {
                let first = addresses.first().copied();
                Self::Stranger(first.map_or(Ipv6Addr::UNSPECIFIED.into(), network))
            }
            _ if event.peer.is_empty() => Self::States,
            _ => Self::Peer(Arc::clone(&event.peer)),
        }
    }
}

/// Returns the address or network that is a source, because one host may use all addresses of a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}

impl fmt::Display for EventSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stranger(IpAddr::V4(address)) => write!(f, "refused peers at {address}"),
            Self::Stranger(IpAddr::V6(network)) => write!(f, "refused peers at {network}/64"),
            Self::Peer(name) => f.write_str(name),
            Self::States => f.write_str("application servers and destinations"),
        }
    }
}

/// Limits of events for each source.
#[derive(Debug)]
pub(super) struct EventLimits {
    strangers: LogLimits<EventSource>,
    peers: LogLimits<EventSource>,
    states: LogLimits<EventSource>,
}

impl EventLimits {
    pub(super) const fn new() -> Self {
        Self {
            strangers: LogLimits::new(PER_STRANGER).with_total(STRANGERS),
            peers: LogLimits::new(PER_PEER),
            states: LogLimits::new(STATES),
        }
    }

    /// Returns whether an event is for the log; counts it if not.
    pub(super) fn admit(&mut self, now: Time, event: &Event) -> bool {
        let source = EventSource::of(event);
        let limits = match source {
            EventSource::Stranger(_) => &mut self.strangers,
            EventSource::Peer(_) => &mut self.peers,
            EventSource::States => &mut self.states,
        };
        limits.admit(now.since(Time::ZERO), &source)
    }

    fn all(&self) -> [&LogLimits<EventSource>; 3] {
        [&self.strangers, &self.peers, &self.states]
    }

    /// Returns the number of suppressed events since the start.
    pub(super) fn suppressed(&self) -> u64 {
        self.all().map(LogLimits::suppressed).iter().sum()
    }

    /// Returns the time at which [`Self::take_due`] has reports.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let due = self.all().into_iter().filter_map(LogLimits::next_report);
        due.min().map(|at| Time::ZERO + at)
    }

    /// Returns reports about suppressed events that are due.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<Event> {
        let now = now.since(Time::ZERO);
        let limits = [&mut self.strangers, &mut self.peers, &mut self.states];
        let due = limits.into_iter().flat_map(|limits| limits.take_due(now));
        due.map(|SuppressedLines { source, lines }| Event {
            peer: "".into(),
            kind: EventKind::Suppressed(lines, source.map(|source| source.to_string())),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> Event {
        Event {
            peer: "".into(),
            kind: EventKind::Refused(vec![address.parse().unwrap()], "why".into()),
        }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn refused_peers_fill_no_log() {
        let mut limits = EventLimits::new();
        let flood = (0..10_000)
            .filter(|number| limits.admit(at(1), &refused(&format!("2001:db8:1:2::{number:x}"))));
        assert_eq!(flood.count(), 20);
        assert!(limits.admit(at(1), &refused("2001:db8:1:3::1")));
        assert_eq!(limits.poll_timeout(), Some(at(11)));
        let reports = limits.take_due(at(11));
        let texts: Vec<_> = reports.iter().map(Event::to_string).collect();
        assert_eq!(
            texts,
            ["9980 events of refused peers at 2001:db8:1:2::/64 not logged"]
        );
        assert_eq!((limits.suppressed(), limits.poll_timeout()), (9980, None));
    }

    #[test]
    fn one_peer_hides_no_other() {
        let mut limits = EventLimits::new();
        let event = |peer: &str| Event {
            peer: peer.into(),
            kind: EventKind::Disconnected("shut down".into()),
        };
        let flood = (0..10_000).filter(|_| limits.admit(at(1), &event("flapping")));
        assert_eq!(flood.count(), 100);
        assert!(limits.admit(at(1), &event("quiet")));
        assert!(limits.admit(at(1), &event("")));
        assert!(limits.admit(at(1), &refused("192.0.2.1")));
    }
}
