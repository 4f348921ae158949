//! Limits per source address, which keep a flood from one address from taking the room of others.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use carrick_simco::middlebox::SourceNetwork;

use crate::config::PerAddress;

/// Time for which the SIP library keeps the transaction of an INVITE.
const TRANSACTION_LIFETIME: Duration = Duration::from_secs(32);

/// Usage of all source addresses.
pub(crate) struct SourceQuotas {
    limits: PerAddress,
    /// Maximum number of INVITEs per address in [`TRANSACTION_LIFETIME`].
    invites: usize,
    usage: Mutex<UsageTable>,
}

#[derive(Default)]
struct UsageTable {
    per_source: BTreeMap<SourceNetwork, SourceUsage>,
    /// Admitted INVITEs of the last [`TRANSACTION_LIFETIME`]. [`admission::Admission`](crate::admission::Admission) bounds
    /// their number.
    recent: VecDeque<(Instant, SourceNetwork)>,
}

/// Usage of one address. Removed when it is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct SourceUsage {
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
            usage: Mutex::default(),
        })
    }

    fn usage(&self) -> MutexGuard<'_, UsageTable> {
        // A panic leaves the counters consistent: each change is one number.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an INVITE for a new call, and returns whether it is within the limits.
    pub(crate) fn admits(&self, now: Instant, from: IpAddr) -> bool {
        let mut usage = self.usage();
        while let Some((arrived, source)) = usage.recent.front().copied()
            && now.saturating_duration_since(arrived) >= TRANSACTION_LIFETIME
        {
            usage.recent.pop_front();
            usage.change(source, |used| used.invites -= 1);
        }
        let source = SourceNetwork::of(from);
        let used = usage.per_source.get(&source).copied().unwrap_or_default();
        if used.invites >= self.invites
            || used.setups >= self.limits.setups
            || used.calls >= self.limits.calls
        {
            return false;
        }
        usage.recent.push_back((now, source));
        usage.change(source, |used| used.invites += 1);
        true
    }

    /// Counts a new call; `None` if its address is above its limits. Calls without an address are not
    /// limited.
    pub(crate) fn begin(self: &Arc<Self>, from: Option<IpAddr>) -> Option<CallQuota> {
        let source = from.map(SourceNetwork::of);
        let PerAddress { calls, setups, .. } = self.limits;
        let room = source.is_none_or(|source| {
            self.usage().change(source, |used| {
                let room = used.setups < setups && used.calls < calls;
                if room {
                    used.setups += 1;
                    used.calls += 1;
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

impl UsageTable {
    fn change<T>(
        &mut self,
        source: SourceNetwork,
        change: impl FnOnce(&mut SourceUsage) -> T,
    ) -> T {
        let used = self.per_source.entry(source).or_default();
        let done = change(used);
        if *used == SourceUsage::default() {
            self.per_source.remove(&source);
        }
        done
    }
}

/// Usage of one call, released when dropped.
pub(crate) struct CallQuota {
    sources: Arc<SourceQuotas>,
    source: Option<SourceNetwork>,
    setting_up: bool,
    pinholes: usize,
}

impl CallQuota {
    fn change(&self, change: impl FnOnce(&mut SourceUsage)) {
        if let Some(source) = self.source {
            self.sources.usage().change(source, change);
        }
    }

    /// Releases the share for calls being set up.
    pub(crate) fn established(&mut self) {
        if std::mem::take(&mut self.setting_up) {
            self.change(|used| used.setups -= 1);
        }
    }

    /// Counts `count` pinholes to be opened. Returns whether they are within the limit; if not, none
    /// is counted.
    pub(crate) fn open(&mut self, count: usize) -> bool {
        let most = self.sources.limits.pinholes;
        let room = self.source.is_none_or(|source| {
            self.sources.usage().change(source, |used| {
                let room = used.pinholes + count <= most;
                if room {
                    used.pinholes += count;
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
        self.change(|used| used.pinholes -= count);
    }
}

impl Drop for CallQuota {
    fn drop(&mut self) {
        self.established();
        self.keep(0);
        self.change(|used| used.calls -= 1);
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

    fn assert_no_usage(sources: &SourceQuotas) {
        assert_eq!(sources.usage().per_source, BTreeMap::new());
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
            "nor is its INVITE admitted"
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
        assert_no_usage(&sources);
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
        assert_no_usage(&sources);
    }

    #[test]
    fn invites_count_for_the_transaction_lifetime() {
        let sources = SourceQuotas::new(LIMITS, 2);
        let [flood, other] = ["192.0.2.1", "192.0.2.2"].map(address);
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert!(sources.admits(at(0), flood) && sources.admits(at(10), flood));
        assert!(!sources.admits(at(31), flood) && sources.admits(at(31), other));
        assert!(sources.admits(at(32), flood), "the first no longer counts");
        assert!(!sources.admits(at(41), flood));
        assert!(sources.admits(at(1000), other));
        assert_eq!(sources.usage().per_source.len(), 1);
        assert_eq!(sources.usage().recent.len(), 1);
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
        assert_no_usage(&sources);
    }
}
