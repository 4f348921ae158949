//! What one address may have at a time, so that a flood from it leaves room for others.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use carrick_simco::middlebox::Source;

use crate::config::PerAddress;

/// How long the library keeps an INVITE in mind: what came in that time takes its room.
const KEPT: Duration = Duration::from_secs(32);

/// All addresses that have something.
pub(crate) struct Sources {
    limits: PerAddress,
    /// INVITEs of one address in [`KEPT`].
    invites: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    has: BTreeMap<Source, Has>,
    /// INVITEs that were let in, as long as they are kept; the door bounds them all together.
    recent: VecDeque<(Instant, Source)>,
}

/// What an address has; one that has nothing is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Has {
    invites: usize,
    setups: usize,
    calls: usize,
    pinholes: usize,
}

impl Sources {
    /// With so many INVITEs of one address at most that the library may have in mind.
    pub(crate) fn new(limits: PerAddress, invites: usize) -> Arc<Self> {
        Arc::new(Self {
            limits,
            invites,
            known: Mutex::default(),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Whoever panicked with it left it whole: each change is one number.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another INVITE for a new call from this address may take room in the library; if so it
    /// does.
    pub(crate) fn admits(&self, now: Instant, from: IpAddr) -> bool {
        let mut known = self.known();
        while let Some((came, source)) = known.recent.front().copied()
            && now.saturating_duration_since(came) >= KEPT
        {
            known.recent.pop_front();
            known.change(source, |has| has.invites -= 1);
        }
        let source = Source::of(from);
        let has = known.has.get(&source).copied().unwrap_or_default();
        if has.invites >= self.invites
            || has.setups >= self.limits.setups
            || has.calls >= self.limits.calls
        {
            return false;
        }
        known.recent.push_back((now, source));
        known.change(source, |has| has.invites += 1);
        true
    }

    /// A call begins; `None` if its address has too many. Those without an address are not counted.
    pub(crate) fn begin(self: &Arc<Self>, from: Option<IpAddr>) -> Option<Share> {
        let source = from.map(Source::of);
        let PerAddress { calls, setups, .. } = self.limits;
        let room = source.is_none_or(|source| {
            self.known().change(source, |has| {
                let room = has.setups < setups && has.calls < calls;
                if room {
                    has.setups += 1;
                    has.calls += 1;
                }
                room
            })
        });
        room.then(|| Share {
            sources: Arc::clone(self),
            source,
            setting_up: true,
            pinholes: 0,
        })
    }
}

impl Known {
    fn change<T>(&mut self, source: Source, change: impl FnOnce(&mut Has) -> T) -> T {
        let has = self.has.entry(source).or_default();
        let done = change(has);
        if *has == Has::default() {
            self.has.remove(&source);
        }
        done
    }
}

/// What one call has of its address's; it is given back when this is dropped.
pub(crate) struct Share {
    sources: Arc<Sources>,
    source: Option<Source>,
    setting_up: bool,
    pinholes: usize,
}

impl Share {
    fn change(&self, change: impl FnOnce(&mut Has)) {
        if let Some(source) = self.source {
            self.sources.known().change(source, change);
        }
    }

    /// The call is set up.
    pub(crate) fn established(&mut self) {
        if std::mem::take(&mut self.setting_up) {
            self.change(|has| has.setups -= 1);
        }
    }

    /// So many pinholes are to be opened. Whether there is room for them; if not, nothing is taken.
    pub(crate) fn open(&mut self, count: usize) -> bool {
        let most = self.sources.limits.pinholes;
        let room = self.source.is_none_or(|source| {
            self.sources.known().change(source, |has| {
                let room = has.pinholes + count <= most;
                if room {
                    has.pinholes += count;
                }
                room
            })
        });
        if room {
            self.pinholes += count;
        }
        room
    }

    /// So many are left; the others are closed, or were not opened.
    pub(crate) fn keep(&mut self, left: usize) {
        let count = self.pinholes.saturating_sub(left);
        self.pinholes -= count;
        self.change(|has| has.pinholes -= count);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.established();
        self.keep(0);
        self.change(|has| has.calls -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PerAddress = PerAddress {
        calls: 3,
        setups: 2,
        pinholes: 4,
    };

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn nothing_is_known(sources: &Sources) {
        assert_eq!(sources.known().has, BTreeMap::new());
    }

    #[test]
    fn an_address_has_so_many_calls_being_set_up_and_others_have_theirs() {
        let sources = Sources::new(LIMITS, 100);
        let [flood, other] = ["192.0.2.1", "192.0.2.2"].map(address);
        let mut calls: Vec<Share> = (0..2)
            .map(|_| sources.begin(Some(flood)).unwrap())
            .collect();
        assert!(sources.begin(Some(flood)).is_none());
        assert!(!sources.admits(Instant::now(), flood), "at the door too");
        assert!(sources.begin(Some(other)).is_some());
        // Those that are established make room for others, up to so many in all.
        calls[0].established();
        calls.push(sources.begin(Some(flood)).unwrap());
        calls[1].established();
        assert!(sources.begin(Some(flood)).is_none(), "three calls");
        calls.pop();
        assert!(sources.begin(Some(flood)).is_some());
        drop(calls);
        nothing_is_known(&sources);
    }

    #[test]
    fn an_address_has_so_many_pinholes_in_all_of_its_calls() {
        let sources = Sources::new(LIMITS, 100);
        let begin = |from| sources.begin(Some(address(from))).unwrap();
        let [mut one, mut two] = ["192.0.2.1", "192.0.2.1"].map(begin);
        assert!(one.open(3) && !two.open(2), "all or none");
        assert!(two.open(1));
        assert!(begin("192.0.2.2").open(4));
        one.keep(1);
        assert!(two.open(2) && !one.open(1));
        drop((one, two));
        nothing_is_known(&sources);
    }

    #[test]
    fn invites_count_as_long_as_they_are_kept_in_mind() {
        let sources = Sources::new(LIMITS, 2);
        let [flood, other] = ["192.0.2.1", "192.0.2.2"].map(address);
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert!(sources.admits(at(0), flood) && sources.admits(at(10), flood));
        assert!(!sources.admits(at(31), flood) && sources.admits(at(31), other));
        assert!(sources.admits(at(32), flood), "the first is forgotten");
        assert!(!sources.admits(at(41), flood));
        assert!(sources.admits(at(1000), other));
        assert_eq!(sources.known().has.len(), 1);
        assert_eq!(sources.known().recent.len(), 1);
    }

    #[test]
    fn one_host_has_a_whole_network_of_ipv6_and_whoever_is_known_is_not_counted() {
        let sources = Sources::new(LIMITS, 100);
        let calls = ["2001:db8::1", "2001:db8::2"].map(|a| sources.begin(Some(address(a))));
        assert!(calls.iter().all(Option::is_some));
        assert!(sources.begin(Some(address("2001:db8::3"))).is_none());
        assert!(sources.begin(Some(address("2001:db8:0:1::3"))).is_some());
        let mut many: Vec<Option<Share>> = (0..100).map(|_| sources.begin(None)).collect();
        assert!(many.iter().all(Option::is_some));
        let first = many[0].as_mut().unwrap();
        assert!(first.open(100));
        first.keep(0);
        drop((calls, many));
        nothing_is_known(&sources);
    }
}
