//! How many lines there are of what costs the one who causes it nothing: connections that never
//! have a session, sessions, and refusals. The rest is counted, so that nobody fills a disk.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Time;
use crate::middlebox::{MiddleboxEvent, SessionId, Source};
use crate::session::Identity;

/// How often it is told what has no line.
const TELL: Duration = Duration::from_secs(10);

/// So many lines at once, and one more after each such time.
#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: u32,
    each: Duration,
}

/// Of connections without a session, from one address or network.
const OF_SOURCE: Rate = Rate {
    burst: 20,
    each: Duration::from_secs(10),
};

/// Of connections without a session, from everywhere together.
const OF_STRANGERS: Rate = Rate {
    burst: 200,
    each: Duration::from_millis(500),
};

/// Of refusals of an agent, and of its sessions.
const OF_AGENT: Rate = Rate {
    burst: 100,
    each: Duration::from_secs(1),
};

impl Rate {
    /// Whether there is a line; `full` is when so many at once are there again.
    fn has_room(self, full: Time, now: Time) -> bool {
        full.since(now) + self.each <= self.each * self.burst
    }

    fn take(self, full: Time, now: Time) -> Time {
        full.max(now) + self.each
    }
}

/// What has lines of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// Connections without a session, from there.
    Stranger(Option<Source>),
    /// Refusals of an agent.
    Refusals(Identity),
    /// Begins and ends of an agent's sessions.
    Sessions(Identity),
}

impl Kind {
    /// Of which kind an event is; `None` for those that always have a line.
    pub(super) fn of(
        event: &MiddleboxEvent,
        source: impl Fn(SessionId) -> Option<Source>,
    ) -> Option<Self> {
        match event {
            MiddleboxEvent::AuthenticationFailed { session, .. }
            | MiddleboxEvent::SessionClosed {
                session,
                agent: None,
                ..
            } => Some(Self::Stranger(source(*session))),
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

    fn rate(&self) -> Rate {
        match self {
            Self::Stranger(_) => OF_SOURCE,
            Self::Refusals(_) | Self::Sessions(_) => OF_AGENT,
        }
    }

    fn agent(&self) -> Option<&Identity> {
        match self {
            Self::Stranger(_) => None,
            Self::Refusals(agent) | Self::Sessions(agent) => Some(agent),
        }
    }
}

/// Who had how many lines.
#[derive(Debug, Default)]
pub(super) struct Ration {
    /// When each has all its lines again; those that have are swept out.
    full: BTreeMap<Kind, Time>,
    strangers: Time,
    /// What had no line and is not told yet, by agent.
    held: BTreeMap<Option<Identity>, u64>,
    /// When that is told, and the next sweep.
    tell: Time,
    /// What had no line since the start.
    pub(super) suppressed: u64,
}

impl Ration {
    /// Whether there is a line for one more of this kind; counts it if not.
    pub(super) fn admits(&mut self, now: Time, kind: Kind) -> bool {
        if self.full.is_empty() && self.held.is_empty() {
            self.tell = now + TELL;
        }
        let rate = kind.rate();
        let full = self.full.get(&kind).copied().unwrap_or(now);
        let stranger = matches!(kind, Kind::Stranger(_));
        if !rate.has_room(full, now) || (stranger && !OF_STRANGERS.has_room(self.strangers, now)) {
            *self.held.entry(kind.agent().cloned()).or_default() += 1;
            self.suppressed += 1;
            return false;
        }
        if stranger {
            self.strangers = OF_STRANGERS.take(self.strangers, now);
        }
        self.full.insert(kind, rate.take(full, now));
        true
    }

    /// What had no line, of each agent and of strangers, if it is time to tell it.
    pub(super) fn due(&mut self, now: Time) -> BTreeMap<Option<Identity>, u64> {
        if now < self.tell {
            return BTreeMap::new();
        }
        self.tell = now + TELL;
        self.full.retain(|_, full| *full > now);
        self.rest()
    }

    /// What had no line and was not told.
    pub(super) fn rest(&mut self) -> BTreeMap<Option<Identity>, u64> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn network(number: u16) -> Kind {
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, 1);
        Kind::Stranger(Some(Source::of(address.into())))
    }

    fn admitted(ration: &mut Ration, now: Time, kinds: impl Iterator<Item = Kind>) -> usize {
        kinds
            .filter(|kind| ration.admits(now, kind.clone()))
            .count()
    }

    #[test]
    fn a_source_has_few_lines_and_all_sources_together_not_many() {
        let mut ration = Ration::default();
        let now = Time::from_millis(500);
        let one = admitted(&mut ration, now, (0..1000).map(|_| network(0)));
        assert_eq!(one, 20);
        // Another has its own, whatever the first does.
        assert_eq!(
            admitted(&mut ration, now, (0..1000).map(|_| network(1))),
            20
        );
        let many = admitted(&mut ration, now, (2..60_000).map(network));
        assert_eq!(many, 160, "200 with those of the two");
        assert!(ration.due(now).is_empty(), "not yet");
        let later = now + TELL;
        let told = ration.due(later);
        assert_eq!(told, BTreeMap::from([(None, 980 + 980 + 59_998 - 160)]));
        assert_eq!(ration.suppressed, 980 + 980 + 59_998 - 160);
        assert!(ration.due(later + TELL).is_empty(), "once");
        // A day of it, from networks without number.
        let mut lines = 0;
        for second in 0..86_400_u64 {
            let now = later + Duration::from_secs(second);
            let kinds = (0..5).map(|n| network((second * 5 + n) as u16));
            lines += admitted(&mut ration, now, kinds);
            ration.due(now);
            assert!(ration.full.len() < 300, "{second}");
        }
        assert!(
            (172_800..173_100).contains(&lines),
            "{lines}: 2 in a second"
        );
    }

    #[test]
    fn refusals_of_an_agent_are_counted_for_it_and_take_no_line_of_its_sessions() {
        let agent = |name| Identity::new(name).unwrap();
        let mut ration = Ration::default();
        let refusals = |name: &'static str| (0..5000).map(move |_| Kind::Refusals(agent(name)));
        assert_eq!(admitted(&mut ration, Time::ZERO, refusals("a")), 100);
        assert_eq!(admitted(&mut ration, Time::ZERO, refusals("b")), 100);
        assert!(ration.admits(Time::ZERO, Kind::Sessions(agent("a"))));
        let after = Time::ZERO + Duration::from_secs(7);
        assert_eq!(
            admitted(&mut ration, after, refusals("a")),
            7,
            "one a second"
        );
        let told = BTreeMap::from([(Some(agent("a")), 4900 + 4993), (Some(agent("b")), 4900)]);
        assert_eq!(ration.due(after + TELL), told);
    }
}
