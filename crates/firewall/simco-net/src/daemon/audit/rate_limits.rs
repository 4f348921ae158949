//! Rate limits of audit lines for events that cost their originator nothing: connections without a session,
//! sessions, and refusals. Suppressed events are counted; no peer can fill the disk.

use std::collections::BTreeMap;
use std::time::Duration;

use carrick_metrics::{LineRate, LogLimits, SuppressedLines};
use carrick_simco::Time;
use carrick_simco::middlebox::{MiddleboxEvent, SessionId, SourceNetwork};
use carrick_simco::session::Identity;

/// For connections without a session from one address or network.
const PER_SOURCE: LineRate = LineRate {
    burst: 20,
    interval: Duration::from_secs(10),
};

/// For connections without a session in total.
const UNAUTHENTICATED: LineRate = LineRate {
    burst: 200,
    interval: Duration::from_millis(500),
};

/// For refusals of an agent, and for its sessions.
const PER_AGENT: LineRate = LineRate {
    burst: 100,
    interval: Duration::from_secs(1),
};

/// Category of rate-limited events.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum EventCategory {
    /// Connections without a session from a source.
    Unauthenticated(Option<SourceNetwork>),
    /// Refusals of an agent.
    Refusals(Identity),
    /// Starts and ends of an agent's sessions.
    Sessions(Identity),
}

impl EventCategory {
    /// Returns the category of an event; `None` for events that are not limited.
    pub(super) fn of(
        event: &MiddleboxEvent,
        source: impl Fn(SessionId) -> Option<SourceNetwork>,
    ) -> Option<Self> {
        match event {
            MiddleboxEvent::AuthenticationFailed { session, .. }
            | MiddleboxEvent::SessionClosed {
                session,
                agent: None,
                ..
            } => Some(Self::Unauthenticated(source(*session))),
            MiddleboxEvent::SessionOpened { agent, .. }
            | MiddleboxEvent::SessionClosed {
                agent: Some(agent), ..
            } => Some(Self::Sessions(agent.clone())),
            MiddleboxEvent::Refused { by, .. } => Some(Self::Refusals(by.agent.clone())),
            MiddleboxEvent::RuleCreated { .. }
            | MiddleboxEvent::LifetimeChanged { .. }
            | MiddleboxEvent::RuleEnded { .. }
            | MiddleboxEvent::BackendFailed { .. } => None,
        }
    }

    fn agent(&self) -> Option<&Identity> {
        match self {
            Self::Unauthenticated(_) => None,
            Self::Refusals(agent) | Self::Sessions(agent) => Some(agent),
        }
    }
}

/// State of the rate limits.
#[derive(Debug)]
pub(super) struct RateLimits {
    /// Connections without a session, by source.
    unauthenticated: LogLimits<EventCategory>,
    /// Refusals and sessions of agents.
    agents: LogLimits<EventCategory>,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            unauthenticated: LogLimits::new(PER_SOURCE).with_total(UNAUTHENTICATED),
            agents: LogLimits::new(PER_AGENT),
        }
    }
}

/// Suppressed events by agent; `None` for those without one.
type SuppressedEvents = BTreeMap<Option<Identity>, u64>;

/// Adds suppressed events to those of their agents.
fn by_agent(suppressed: Vec<SuppressedLines<EventCategory>>) -> SuppressedEvents {
    let mut agents = SuppressedEvents::new();
    for SuppressedLines { source, lines } in suppressed {
        let agent = source.as_ref().and_then(EventCategory::agent);
        *agents.entry(agent.cloned()).or_default() += lines;
    }
    agents
}

impl RateLimits {
    /// Returns whether an event of this category is logged; counts it if not.
    pub(super) fn admits(&mut self, now: Time, kind: &EventCategory) -> bool {
        let limits = match kind {
            EventCategory::Unauthenticated(_) => &mut self.unauthenticated,
            EventCategory::Refusals(_) | EventCategory::Sessions(_) => &mut self.agents,
        };
        limits.admit(now.since(Time::ZERO), kind)
    }

    /// Returns the number of suppressed events since the start.
    pub(super) fn suppressed(&self) -> u64 {
        self.unauthenticated.suppressed() + self.agents.suppressed()
    }

    /// Returns the suppressed events by agent, if a report is due.
    pub(super) fn take_due(&mut self, now: Time) -> SuppressedEvents {
        let now = now.since(Time::ZERO);
        let mut due = self.unauthenticated.take_due(now);
        due.extend(self.agents.take_due(now));
        by_agent(due)
    }

    /// Returns the suppressed events not reported yet.
    pub(super) fn take_unreported(&mut self) -> SuppressedEvents {
        let mut unreported = self.unauthenticated.take_unreported();
        unreported.extend(self.agents.take_unreported());
        by_agent(unreported)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    /// Time after which suppressed events are reported.
    const REPORT_INTERVAL: Duration = Duration::from_secs(10);

    use super::*;

    fn network(number: u16) -> EventCategory {
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, 1);
        EventCategory::Unauthenticated(Some(SourceNetwork::of(address.into())))
    }

    fn admitted(
        limits: &mut RateLimits,
        now: Time,
        kinds: impl Iterator<Item = EventCategory>,
    ) -> usize {
        kinds.filter(|kind| limits.admits(now, kind)).count()
    }

    #[test]
    fn lines_are_limited_per_source_and_in_total() {
        let mut limits = RateLimits::default();
        let now = Time::from_millis(500);
        let one = admitted(&mut limits, now, (0..1000).map(|_| network(0)));
        assert_eq!(one, 20);
        // Another source has its own limit.
        assert_eq!(
            admitted(&mut limits, now, (0..1000).map(|_| network(1))),
            20
        );
        let many = admitted(&mut limits, now, (2..60_000).map(network));
        assert_eq!(many, 160, "200 including those of two sources");
        assert!(limits.take_due(now).is_empty(), "not yet");
        let later = now + REPORT_INTERVAL;
        let reported = limits.take_due(later);
        assert_eq!(reported, BTreeMap::from([(None, 980 + 980 + 59_998 - 160)]));
        assert_eq!(limits.suppressed(), 980 + 980 + 59_998 - 160);
        assert!(limits.take_due(later + REPORT_INTERVAL).is_empty(), "once");
        // A day of events from many networks.
        let mut lines = 0;
        for second in 0..86_400_u64 {
            let now = later + Duration::from_secs(second);
            let kinds = (0..5).map(|n| network((second * 5 + n) as u16));
            lines += admitted(&mut limits, now, kinds);
            limits.take_due(now);
        }
        assert!(
            (172_800..173_100).contains(&lines),
            "{lines} lines, more than 2 per second"
        );
    }

    #[test]
    fn refusals_and_sessions_are_limited_separately() {
        let agent = |name| Identity::new(name).unwrap();
        let mut limits = RateLimits::default();
        let refusals =
            |name: &'static str| (0..5000).map(move |_| EventCategory::Refusals(agent(name)));
        assert_eq!(admitted(&mut limits, Time::ZERO, refusals("a")), 100);
        assert_eq!(admitted(&mut limits, Time::ZERO, refusals("b")), 100);
        assert!(limits.admits(Time::ZERO, &EventCategory::Sessions(agent("a"))));
        let after = Time::ZERO + Duration::from_secs(7);
        assert_eq!(
            admitted(&mut limits, after, refusals("a")),
            7,
            "one per second"
        );
        let reported = BTreeMap::from([(Some(agent("a")), 4900 + 4993), (Some(agent("b")), 4900)]);
        assert_eq!(limits.take_due(after + REPORT_INTERVAL), reported);
    }
}
