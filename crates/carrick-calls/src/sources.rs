//! Limits per source address, which keep a flood from one address from taking the room of others.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use carrick_simco::middlebox::Source;

use crate::config::PerAddress;

/// Time for which the SIP library keeps the transaction of an INVITE.
const TRANSACTION_LIFETIME: Duration = Duration::from_secs(32);

/// Usage of all source addresses.
pub(crate) struct SourceQuotas {
    limits: PerAddress,
    /// Maximum number of INVITEs per address in [`TRANSACTION_LIFETIME`].
    invites: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    has: BTreeMap<Source, Usage>,
    /// Admitted INVITEs of the last [`TRANSACTION_LIFETIME`]. [`crate::admission::Admission`] bounds
    /// their number.
    recent: VecDeque<(Instant, Source)>,
}

/// Usage of one address. Removed when it is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Usage {
    invites: usize,
    setups: usize,
    calls: usize,
    pinholes: usize,
}

impl SourceQuotas {
    /// Creates the limits; `invites` is the number of INVITEs per address that the library may keep.
    pub(crate) fn new(limits: PerAddress, invites: usize) -> Arc<Self> {
        Arc::new(Self {
            limits,
            invites,
            known: Mutex::default(),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic leaves the counters consistent: each change is one number.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an INVITE for a new call, and returns whether it is within the limits.
    pub(crate) fn admits(&self, now: Instant, from: IpAddr) -> bool {
        let mut known = self.known();
        while let Some((came, source)) = known.recent.front().copied()
            && now.saturating_duration_since(came) >= TRANSACTION_LIFETIME
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

    /// Counts a new call; `None` if its address is above its limits. Calls without an address are not
    /// limited.
    pub(crate) fn begin(self: &Arc<Self>, from: Option<IpAddr>) -> Option<CallQuota> {
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
        room.then(|| CallQuota {
            sources: Arc::clone(self),
            source,
            setting_up: true,
            pinholes: 0,
        })
    }
}

impl Known {
    fn change<T>(&mut self, source: Source, change: impl FnOnce(&mut Usage) -> T) -> T {
        let has = self.has.entry(source).or_default();
        let done = change(has);
        if *has == Usage::default() {
            self.has.remove(&source);
        }
        done
    }
}

/// Usage of one call, returned when dropped.
pub(crate) struct CallQuota {
    sources: Arc<SourceQuotas>,
    source: Option<Source>,
    setting_up: bool,
    pinholes: usize,
}

impl CallQuota {
    fn change(&self, change: impl FnOnce(&mut Usage)) {
        if let Some(source) = self.source {
            self.sources.known().change(source, change);
        }
    }

    /// Returns the share for calls being set up.
    pub(crate) fn established(&mut self) {
        if std::mem::take(&mut self.setting_up) {
            self.change(|has| has.setups -= 1);
        }
    }

    /// Counts `count` pinholes to be opened. Returns whether they are within the limit; if not, none
    /// is counted.
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

    /// Reduces the number of counted pinholes to `left`.
    pub(crate) fn keep(&mut self, left: usize) {
        let count = self.pinholes.saturating_sub(left);
        self.pinholes -= count;
        self.change(|has| has.pinholes -= count);
    }
}

impl Drop for CallQuota {
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

    fn nothing_is_known(sources: &SourceQuotas) {
        assert_eq!(sources.known().has, BTreeMap::new());
    }

    #[test]
    fn calls_being_set_up_are_bounded_per_address() {
        let sources = SourceQuotas::new(LIMITS, 100);
        let [flood, other] = ["192.0.2.1", "192.0.2.2"].map(address);
        let mut calls: Vec<CallQuota> = (0..2)
            .map(|_| sources.begin(Some(flood)).unwrap())
            .collect();
        assert!(sources.begin(Some(flood)).is_none());
        assert!(
            !sources.admits(Instant::now(), flood),
            "at the admission too"
        );
        assert!(sources.begin(Some(other)).is_some());
        // Established calls make room for new ones up to the limit of calls.
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
    fn pinholes_are_bounded_per_address() {
        let sources = SourceQuotas::new(LIMITS, 100);
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
    fn invites_count_for_the_transaction_lifetime() {
        let sources = SourceQuotas::new(LIMITS, 2);
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
    fn ipv6_networks_count_as_one_address() {
        let sources = SourceQuotas::new(LIMITS, 100);
        let calls = ["2001:db8::1", "2001:db8::2"].map(|a| sources.begin(Some(address(a))));
        assert!(calls.iter().all(Option::is_some));
        assert!(sources.begin(Some(address("2001:db8::3"))).is_none());
        assert!(sources.begin(Some(address("2001:db8:0:1::3"))).is_some());
        let mut many: Vec<Option<CallQuota>> = (0..100).map(|_| sources.begin(None)).collect();
        assert!(many.iter().all(Option::is_some));
        let first = many[0].as_mut().unwrap();
        assert!(first.open(100));
        first.keep(0);
        drop((calls, many));
        nothing_is_known(&sources);
    }
}
