//! The search for the largest packet that a path takes: packetization layer path MTU discovery for
//! datagrams (RFC 8899 section 5.2, for SCTP section 6.2.1), one state machine a path.
//!
//! ```text
//! DISABLED --the path works--> BASE --base probe acknowledged--> SEARCHING --found--> COMPLETE
//!                               | ^                                ^    ^                |
//!                 it is not     | +--- black hole, Packet Too Big -|----|----------------+
//!                 acknowledged  v                                  |    +-- raise timer -+
//!                             ERROR --smallest or base probe ack-+
//! ```
//!
//! In ERROR packets have the smallest size (`MIN_PLPMTU`), which is probed next; the search then goes
//! up from there to what is below the base. While less than the base was found, the base is probed
//! again, after a time that doubles up to `PMTU_RAISE_TIMER`. A black hole below the base leads to
//! ERROR.
//!
//! Without path MTU discovery, [`MtuConfig::black_hole_detection`](crate::MtuConfig::black_hole_detection) starts the machine of a path in COMPLETE when
//! T3-rtx has expired with such packets, and drops it when they are acknowledged. Nothing larger than the
//! configured MTU is probed. `PMTU_RAISE_TIMER` starts another search after 1000 packets with data for each probe that it
//! costs while the path has not changed.
//!
//! All sizes here are those of whole IP packets. A size has failed when `MAX_PROBES` consecutive
//! probes of it were lost; the count restarts with each size. Data shows a black hole: T3-rtx
//! expires with packets in flight that are larger than the base. Then a small heartbeat and a probe as
//! large as the data leave at the same time; if the first is answered and the second is not, size is what
//! is lost. None of them counts as an error of the path. As long as it is not known that data passes, a
//! HEARTBEAT ACK does not clear the path's errors ([`Path::doubts_data`]), so that data avoids the path.

use alloc::boxed::Box;
use core::time::Duration;

use super::{Path, PathId, Paths, heartbeat};
use crate::config::{BASE_MTU, MtuConfig, PathMtuDiscovery};
use crate::random::Random;
use crate::time::Time;

/// Difference of two sizes of the search in bytes: chunks are padded to that.
const STEP: usize = 4;

/// Sizes that many links have, tried one after the other before bisecting.
const COMMON: [usize; 5] = [1280, 1492, 1500, 4352, 9000];

/// Number of packets with data for each probe of a search after `PMTU_RAISE_TIMER` on a path whose MTU is not searched by its
/// configuration: probes are at most 0.1 % of the packets.
const PACKETS_PER_PROBE: u64 = 1000;

/// The smallest MTU of IPv6 links, and what every IPv4 host takes (RFC 8200, RFC 1122).
const SMALLEST: [usize; 2] = [576, 1280];

/// State of the search on a path (RFC 8899 section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum PathMtuState {
    /// The path is not known to work.
    Disabled,
    /// It is confirmed that the path takes packets of the base size.
    Base,
    /// Larger packets are tried.
    Searching,
    /// The largest size was found.
    SearchComplete,
    /// The path does not take the base size; packets of the smallest size are sent until one of them
    /// is confirmed.
    Error,
}

portable_enum! { PathMtuState { 0: Disabled, 1: Base, 2: Searching, 3: SearchComplete, 4: Error } }

/// Outstanding probe.
#[derive(Clone, Copy, Debug)]
struct Probe {
    nonce: u64,
    size: usize,
    expires: Time,
}

portable_struct! { Probe { nonce, size, expires } }

/// Check for a black hole after a timeout of packets that are larger than the base.
#[derive(Clone, Copy, Debug)]
struct BlackHoleCheck {
    /// Nonce of the small heartbeat, once it was sent.
    small: Option<u64>,
    /// A heartbeat has been acknowledged since.
    heartbeat_answered: bool,
    /// The probe of the present size is lost.
    probe_lost: bool,
    /// Time after which that probe counts as lost.
    probe_timeout: Duration,
}

portable_struct! { BlackHoleCheck { small, heartbeat_answered, probe_lost, probe_timeout } }

/// Effect of an ICMP message about packets that are too big.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PacketTooBig {
    /// The reported MTU is possible on this path.
    pub(crate) plausible: bool,
    /// The packets in flight were too large.
    pub(crate) in_flight: bool,
}

/// The state machine of one path.
#[derive(Debug)]
pub(super) struct MtuDiscovery {
    config: PathMtuDiscovery,
    state: PathMtuState,
    base: usize,
    least: usize,
    /// PLPMTU: size that data packets may have.
    mtu: usize,
    /// The largest size that may still turn out to pass.
    largest: usize,
    /// Reported size (ICMP or another hint), probed before others.
    hint: Option<usize>,
    /// `PROBE_COUNT` for the size that is being tried.
    lost: u32,
    /// The size to be tried next, now.
    next: Option<usize>,
    probe: Option<Probe>,
    /// `PMTU_RAISE_TIMER`, or when the base is tried again that was lost.
    timer: Option<Time>,
    retry: Duration,
    /// Number of packets with data since the search.
    data_packets: u64,
    black_hole_check: Option<BlackHoleCheck>,
    /// Path MTU discovery is off: the machine exists since packets of the configured MTU were lost.
    on_demand: bool,
}

portable_struct! {
    MtuDiscovery {
        config, state, base, least, mtu, largest, hint, lost, next, probe, timer, retry, data_packets,
        black_hole_check, on_demand,
    }
}

impl MtuDiscovery {
    pub(super) fn new(config: PathMtuDiscovery, ipv6: bool) -> Self {
        let least = SMALLEST[usize::from(ipv6)];
        let base = config.base_mtu.max(least);
        Self {
            config,
            state: PathMtuState::Disabled,
            base,
            least,
            mtu: base,
            largest: config.max_probed_mtu & !3,
            hint: None,
            lost: 0,
            next: None,
            probe: None,
            timer: None,
            retry: config.probe_timer,
            data_packets: 0,
            black_hole_check: None,
            on_demand: false,
        }
    }

    /// Returns the machine of a path without path MTU discovery, on which packets of this size were lost.
    /// `None` if they are not larger than the base.
    fn on_demand(mtu: usize, ipv6: bool) -> Option<Self> {
        let config = PathMtuDiscovery {
            max_probed_mtu: mtu,
            ..PathMtuDiscovery::default()
        };
        let discovery = Self::new(config, ipv6);
        (mtu > discovery.base).then_some(Self {
            state: PathMtuState::SearchComplete,
            mtu,
            on_demand: true,
            ..discovery
        })
    }

    /// Returns whether the machine is not needed any more: packets of the configured MTU are delivered.
    fn is_over(&self) -> bool {
        self.on_demand
            && self.state == PathMtuState::SearchComplete
            && self.black_hole_check.is_none()
            && self.mtu >= self.config.max_probed_mtu & !3
    }

    /// Returns the base of a path without path MTU discovery.
    fn default_base(ipv6: bool) -> usize {
        BASE_MTU.max(SMALLEST[usize::from(ipv6)])
    }

    pub(super) fn mtu(&self) -> usize {
        self.mtu
    }

    pub(super) fn state(&self) -> PathMtuState {
        self.state
    }

    /// Starts the search at the base size.
    pub(super) fn start(&mut self) {
        self.state = PathMtuState::Base;
        self.mtu = self.mtu.min(self.base);
        self.largest = self.config.max_probed_mtu & !3;
        self.hint = None;
        self.black_hole_check = None;
        self.timer = None;
        self.retry = self.config.probe_timer;
        self.try_size(self.base);
    }

    /// Stops the search.
    pub(super) fn stop(&mut self) {
        self.state = PathMtuState::Disabled;
        (self.next, self.probe, self.timer) = (None, None, None);
        self.black_hole_check = None;
    }

    fn try_size(&mut self, size: usize) {
        self.lost = 0;
        self.probe = None;
        self.next = Some(size);
    }

    /// The size of a probe that is to leave now; 0 for a small heartbeat.
    pub(super) fn wanted(&self) -> Option<usize> {
        let small = self
            .black_hole_check
            .is_some_and(|check| check.small.is_none());
        if small { Some(0) } else { self.next }
    }

    pub(super) fn sent(&mut self, now: Time, nonce: u64, rto: Duration) {
        if let Some(check) = &mut self.black_hole_check
            && check.small.is_none()
        {
            check.small = Some(nonce);
            return;
        }
        let Some(size) = self.next.take() else { return };
        let timeout = match &self.black_hole_check {
            Some(check) => check.probe_timeout,
            None => rto.max(self.config.probe_timer),
        };
        self.probe = Some(Probe {
            nonce,
            size,
            expires: now + timeout,
        });
    }

    /// A HEARTBEAT ACK came; returns whether it is that of a probe.
    pub(super) fn answered(&mut self, now: Time, nonce: u64) -> bool {
        if self
            .black_hole_check
            .is_some_and(|check| check.small == Some(nonce))
        {
            return true;
        }
        let Some(probe) = self.probe.take_if(|p| p.nonce == nonce) else {
            return false;
        };
        self.black_hole_check = None;
        self.lost = 0;
        if probe.size >= self.base {
            self.retry = self.config.probe_timer;
        }
        if probe.size > self.largest {
            self.largest = self.config.max_probed_mtu & !3;
        }
        match self.state {
            PathMtuState::Base | PathMtuState::Error => {
                self.mtu = probe.size;
                self.state = PathMtuState::Searching;
                self.timer = None;
                self.search(now);
            }
            PathMtuState::Searching => {
                self.mtu = self.mtu.max(probe.size);
                self.search(now);
            }
            // It confirmed that data of this size passes.
            PathMtuState::SearchComplete | PathMtuState::Disabled => {}
        }
        true
    }

    /// Probes the next size, or ends the search.
    fn search(&mut self, now: Time) {
        let fits = |size: &usize| *size > self.mtu && *size <= self.largest;
        let middle = ((self.mtu + self.largest + STEP) / 2) & !3;
        let next = self
            .hint
            .take()
            .filter(fits)
            .or_else(|| COMMON.into_iter().find(fits))
            // As long as nothing failed there may be more of what there is.
            .or_else(|| Some(self.config.max_probed_mtu & !3).filter(fits))
            .or_else(|| Some(middle).filter(fits));
        match next {
            Some(size) => self.try_size(size),
            None => self.complete(now),
        }
    }

    fn complete(&mut self, now: Time) {
        self.state = PathMtuState::SearchComplete;
        (self.next, self.probe) = (None, None);
        self.data_packets = 0;
        if self.mtu < self.base {
            self.retry_later(now);
        } else {
            self.timer = Some(now + self.config.raise_timer);
        }
    }

    /// The base, which was lost, is tried again after a time that doubles.
    fn retry_later(&mut self, now: Time) {
        self.timer = Some(now + self.retry);
        self.retry = (self.retry * 2).min(self.config.raise_timer);
    }

    /// This host does not send packets of this size: known at once, without a timer.
    pub(super) fn refused(&mut self, now: Time, size: usize) {
        if self.probe.is_none_or(|p| p.size != size) {
            return;
        }
        self.lost = self.config.max_probes - 1;
        self.on_probe_lost(now, true);
    }

    /// Processes a reported MTU (RFC 8899 section 4.6.2). Returns whether it was plausible.
    pub(super) fn too_big(&mut self, now: Time, size: usize) -> bool {
        let size = size & !3;
        if size < self.least {
            return false;
        }
        if self.state == PathMtuState::Disabled {
            // The set-up can't wait for probes: small packets until the base has passed.
            let smaller = size < self.mtu;
            self.mtu = if smaller { self.least } else { self.mtu };
            return smaller;
        }
        let in_base = self.state == PathMtuState::Base;
        if size < self.base && (in_base || size < self.mtu) {
            self.fail(now);
            self.bound(size);
            return true;
        }
        if size < self.mtu {
            // Possible black hole: restart at BASE_PLPMTU, with the reported size as the upper limit.
            self.start();
            self.bound(size);
            return true;
        }
        if self.state == PathMtuState::Error {
            let smaller = size < self.largest;
            if smaller {
                self.bound(size);
            }
            return smaller;
        }
        let searching = self.state == PathMtuState::Searching;
        if !searching || self.probe.is_none_or(|p| size >= p.size) {
            return false;
        }
        self.bound(size);
        self.search(now);
        true
    }

    /// Bounds the search to this size, which is probed next.
    fn bound(&mut self, size: usize) {
        self.largest = self.largest.min(size & !3);
        self.hint = Some(self.largest);
    }

    /// Enters the error state (RFC 8899 section 5.2): small packets, and a search below the base once they
    /// are acknowledged.
    fn fail(&mut self, now: Time) {
        self.state = PathMtuState::Error;
        self.mtu = self.least;
        self.largest = self.largest.min(self.base.saturating_sub(STEP) & !3);
        self.hint = None;
        self.black_hole_check = None;
        self.timer = None;
        if self.least < self.base {
            self.try_size(self.least);
        } else {
            (self.next, self.probe) = (None, None);
            self.retry_later(now);
        }
    }

    /// Size that the path is taken to carry if larger packets are lost.
    fn safe(&self) -> usize {
        if self.mtu < self.base {
            self.least
        } else {
            self.base
        }
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        crate::time::earliest(self.probe.map(|p| p.expires), self.timer)
    }

    /// Returns whether enough data was sent since the search for another one. An idle association needs no larger
    /// packets.
    fn may_search_again(&self) -> bool {
        let least = if self.on_demand {
            // Unless the path has changed, the next larger size is lost this often, and no other one is probed.
            PACKETS_PER_PROBE * u64::from(self.config.max_probes)
        } else {
            1
        };
        self.data_packets >= least
    }

    /// Handles the timers that are due. `well` is whether the path answers other packets; if it does not,
    /// the loss of a probe is no evidence about its size. Returns whether a black hole was found.
    pub(super) fn handle_timeout(&mut self, now: Time, well: bool) -> bool {
        let mut black_hole = false;
        if self.probe.is_some_and(|p| p.expires <= now) {
            black_hole = self.on_probe_lost(now, well);
        }
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = None;
            match self.state {
                PathMtuState::Error => self.try_size(self.base),
                _ if self.mtu < self.base && self.retry < self.config.raise_timer => {
                    self.state = PathMtuState::Searching;
                    self.largest = self.mtu;
                    self.try_size(self.base);
                }
                _ if self.may_search_again() => {
                    self.state = PathMtuState::Searching;
                    self.largest = self.config.max_probed_mtu & !3;
                    // Where nothing has changed, this size is lost, and the search ends.
                    self.hint = Some((self.mtu + STEP) & !3);
                    self.search(now);
                }
                _ => self.timer = Some(now + self.config.raise_timer),
            }
        }
        black_hole
    }

    fn on_probe_lost(&mut self, now: Time, well: bool) -> bool {
        let Some(probe) = self.probe.take() else {
            return false;
        };
        if let Some(check) = &mut self.black_hole_check {
            check.probe_lost = true;
            return self.check_black_hole(now);
        }
        // Of the base, it may be what keeps all else from being answered.
        let counts = well || self.state != PathMtuState::Searching;
        self.lost += u32::from(counts);
        if self.lost < self.config.max_probes {
            self.next = Some(probe.size);
            return false;
        }
        match self.state {
            PathMtuState::Base => self.fail(now),
            PathMtuState::Error if probe.size > self.least => self.try_size(self.least),
            PathMtuState::Error => self.retry_later(now),
            _ => {
                self.largest = self.largest.min(probe.size - STEP);
                self.search(now);
            }
        }
        false
    }

    /// Nothing is in flight any more: all of it arrived.
    pub(super) fn all_acknowledged(&mut self, now: Time) {
        // Everything was lost for a while, and now it is not.
        if self
            .black_hole_check
            .take_if(|check| check.probe_lost)
            .is_some()
            && self.state == PathMtuState::Searching
        {
            self.search(now);
        }
    }

    /// Returns whether a packet of `size` bytes may be lost because of its size.
    pub(super) fn may_exceed_pmtu(&self, size: usize) -> bool {
        let searched = matches!(
            self.state,
            PathMtuState::Searching | PathMtuState::SearchComplete
        );
        searched && self.mtu > self.safe() && size > self.safe()
    }

    /// Starts the check for a black hole, if packets larger than the base may have been lost because of their
    /// size (RFC 8899, section 4.3): T3-rtx expired, after `rto`.
    pub(super) fn on_t3(&mut self, rto: Duration) {
        if !self.may_exceed_pmtu(self.mtu) {
            return;
        }
        match &self.black_hole_check {
            None => self.begin_check(rto.max(self.config.probe_timer)),
            // Both were lost.
            Some(check) if check.probe_lost => self.begin_check(check.probe_timeout),
            Some(_) => {}
        }
    }

    /// Requests a small heartbeat and a probe as large as data.
    fn begin_check(&mut self, probe_timeout: Duration) {
        self.black_hole_check = Some(BlackHoleCheck {
            small: None,
            heartbeat_answered: false,
            probe_lost: false,
            probe_timeout,
        });
        self.try_size(self.mtu);
    }

    /// The heartbeat with this nonce was answered. Returns whether a black hole was found by that.
    pub(super) fn on_alive(&mut self, now: Time, nonce: u64) -> bool {
        let Some(check) = &mut self.black_hole_check else {
            return false;
        };
        if check.small == Some(nonce) {
            check.heartbeat_answered = true;
            return self.check_black_hole(now);
        }
        if check.probe_lost {
            // The path may have failed then and work now, so that the two are to be compared again.
            let timeout = check.probe_timeout;
            self.begin_check(timeout);
        }
        false
    }

    /// Returns whether it is open if data passes: packets were lost that may be too large, or a black hole was
    /// found and no packet for data was acknowledged since.
    fn doubts_data(&self) -> bool {
        let is_unconfirmed = matches!(self.state, PathMtuState::Base | PathMtuState::Error);
        self.black_hole_check.is_some() || self.on_demand && is_unconfirmed
    }

    fn check_black_hole(&mut self, now: Time) -> bool {
        if !self
            .black_hole_check
            .is_some_and(|check| check.heartbeat_answered && check.probe_lost)
        {
            return false;
        }
        if self.mtu < self.base {
            self.fail(now);
        } else {
            self.start();
        }
        true
    }

    /// Sets the MTU of this host's interface in bytes: no larger size is probed or used.
    pub(super) fn limit(&mut self, now: Time, mtu: usize) {
        let mtu = mtu.max(self.least);
        self.mtu = self.mtu.min(mtu);
        self.largest = self.config.max_probed_mtu & !3;
        self.bound(mtu);
        if matches!(
            self.state,
            PathMtuState::Searching | PathMtuState::SearchComplete
        ) {
            self.state = PathMtuState::Searching;
            self.search(now);
        }
    }
}

impl Path {
    /// Returns whether the MTU of this path is discovered.
    pub(crate) fn discovers_mtu(&self) -> bool {
        self.discovery.is_some()
    }

    /// Returns when [`Self::on_mtu_timer`] is to be called.
    #[inline]
    pub(crate) fn next_mtu_timeout(&self) -> Option<Time> {
        self.discovery.as_ref().and_then(|d| d.next_timeout())
    }

    /// Restarts the search on a path that is new, works again or leads elsewhere; stops it until the
    /// path works.
    pub(crate) fn restart_mtu_discovery(&mut self) {
        if let Some(discovery) = self.discovery.take_if(|d| d.on_demand) {
            self.set_mtu(discovery.config.max_probed_mtu);
            return;
        }
        let works = self.confirmed && self.active;
        match &mut self.discovery {
            Some(discovery) if works => discovery.start(),
            Some(discovery) => discovery.stop(),
            None => return,
        }
        self.use_discovered_mtu();
    }

    /// Applies the discovered MTU. Returns whether it decreased.
    fn use_discovered_mtu(&mut self) -> bool {
        if let Some(discovery) = self.discovery.take_if(|d| d.is_over()) {
            self.set_mtu(discovery.config.max_probed_mtu);
            return false;
        }
        let Some(mtu) = self.discovery.as_ref().map(|d| d.mtu()) else {
            return false;
        };
        let before = self.mtu;
        self.set_mtu(mtu);
        mtu < before.into()
    }

    /// Handles the timers of the search. Returns whether the packets in flight were found too large.
    #[must_use]
    pub(crate) fn on_mtu_timer(&mut self, now: Time) -> bool {
        let well = self.error_count == 0;
        let Some(discovery) = &mut self.discovery else {
            return false;
        };
        let black_hole = discovery.handle_timeout(now, well);
        self.use_discovered_mtu() && black_hole
    }

    /// Records a probe of `size` bytes that is sent, 0 for a small heartbeat; returns its Heartbeat Info.
    pub(crate) fn probe_sent(
        &mut self,
        size: usize,
        now: Time,
        random: &mut Random,
    ) -> [u8; heartbeat::INFO_LEN] {
        let nonce = random.u64();
        let rto = self.rto.value();
        if let Some(discovery) = &mut self.discovery {
            discovery.sent(now, nonce, rto);
        }
        self.counters.mtu_probes_sent += u64::from(size > 0);
        heartbeat::info(nonce, self.id)
    }

    /// Returns whether the HEARTBEAT ACK with this nonce answers a probe.
    pub(super) fn on_probe_ack(&mut self, nonce: u64, now: Time) -> bool {
        let Some(discovery) = &mut self.discovery else {
            return false;
        };
        let is_probe = discovery.answered(now, nonce);
        self.counters.mtu_probes_answered += u64::from(is_probe);
        is_probe
    }

    /// Records that a heartbeat or probe was acknowledged. Returns whether the packets in flight were
    /// found too large.
    #[must_use]
    pub(crate) fn update_mtu_after_heartbeat_ack(&mut self, now: Time, nonce: u64) -> bool {
        let Some(discovery) = &mut self.discovery else {
            return false;
        };
        let black_hole = discovery.on_alive(now, nonce);
        self.use_discovered_mtu() && black_hole
    }

    /// Records that a packet with data was sent; `len` is its SCTP length in bytes.
    pub(crate) fn data_packet_sent(&mut self, len: usize) {
        let size = len + self.below_len();
        let safe = match &mut self.discovery {
            Some(discovery) => {
                discovery.data_packets += 1;
                discovery.safe()
            }
            None => MtuDiscovery::default_base(self.remote.is_ipv6()),
        };
        self.large_data |= size > safe;
    }

    /// Records that T3-rtx expired: the search may suspect a black hole (RFC 8899 section 4.3).
    pub(crate) fn inform_discovery_of_t3(&mut self, config: &MtuConfig) {
        if !self.large_data {
            return;
        }
        if self.discovery.is_none() && config.black_hole_detection && self.confirmed {
            let discovery = MtuDiscovery::on_demand(self.mtu.into(), self.remote.is_ipv6());
            self.discovery = discovery.map(Box::new);
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.on_t3(self.rto.value());
        }
    }

    /// Records the acknowledgements of the SACK being processed, which may have been for all data in
    /// flight.
    pub(crate) fn inform_discovery_of_sack(&mut self, now: Time) {
        if self.flight.size() > 0 || self.data.newly_acked.bytes == 0 {
            return;
        }
        self.large_data = false;
        if let Some(discovery) = &mut self.discovery {
            discovery.all_acknowledged(now);
            self.use_discovered_mtu();
        }
    }

    /// Returns whether data may be lost on the path because of its size, although heartbeats are acknowledged.
    pub(super) fn doubts_data(&self) -> bool {
        self.discovery.as_ref().is_some_and(|d| d.doubts_data())
    }

    /// Records that this host's IP layer refused a probe of `len` bytes of SCTP as too large.
    pub(crate) fn on_probe_refused(&mut self, len: usize, now: Time) {
        let size = len + self.below_len();
        if let Some(discovery) = &mut self.discovery {
            discovery.refused(now, size);
            self.use_discovered_mtu();
        }
    }

    /// Processes an ICMP message: packets on this path are too big (RFC 8899 section 4.6, RFC 9260 section
    /// 10, ICMP7).
    pub(crate) fn on_packet_too_big(&mut self, mtu: usize, now: Time) -> PacketTooBig {
        let Some(discovery) = &mut self.discovery else {
            return PacketTooBig {
                plausible: true,
                in_flight: mtu < self.mtu.into() && self.set_mtu(mtu),
            };
        };
        let plausible = discovery.too_big(now, mtu);
        PacketTooBig {
            plausible,
            in_flight: self.use_discovered_mtu() && plausible,
        }
    }

    /// Limits the MTU to a value that the driver knows. Returns whether it decreased.
    #[must_use]
    pub(crate) fn limit_mtu(&mut self, mtu: usize, now: Time) -> bool {
        let before = self.mtu;
        if let Some(discovery) = &mut self.discovery {
            discovery.limit(now, mtu);
            self.use_discovered_mtu();
        } else {
            self.set_mtu(mtu);
        }
        self.mtu < before
    }
}

impl Paths {
    /// Returns the path and size in bytes of a probe that is to be sent, 0 for a small heartbeat.
    pub(crate) fn next_probe(&self) -> Option<(PathId, usize)> {
        let wanted = |p: &Path| Some((p.id, p.discovery.as_ref()?.wanted()?));
        self.iter().find_map(wanted)
    }
}
