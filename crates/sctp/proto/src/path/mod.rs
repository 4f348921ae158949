//! One path: a peer address with the local address used to reach it (RFC 9260 sections 6.3, 6.4, 8).

mod data_state;
mod delivery;
mod ect;
mod failover;
mod flight;
pub(crate) mod heartbeat;
mod last_resort;
mod loss_estimate;
pub(crate) mod mtu_discovery;
mod newly_acked;
mod pacer;
mod paths;
mod rate;
mod recovery;
mod rto;
mod source;
mod stats;
mod view;
mod window;

use alloc::boxed::Box;
use core::net::IpAddr;
use core::time::Duration;

use carrick_wire::COMMON_HEADER_LEN;

use crate::cc::{Controller, Parameters};
use crate::config::{AssociationConfig, MAX_DSCP, PathThresholds};
use crate::route::{Ecn, Route};
use crate::time::Time;
use data_state::LazyDataState;
pub(crate) use delivery::PacketNumbers;
use ect::Ect;
pub(crate) use failover::PathChange;
pub use failover::PathErrorCause;
use flight::PathFlight;
use heartbeat::HeartbeatState;
pub(crate) use heartbeat::{HeartbeatAnswer, HeartbeatExpiry};
use mtu_discovery::MtuDiscovery;
pub(crate) use paths::Paths;
use rate::RateState;
pub(crate) use recovery::{Delivery, PathRecovery, ProbeTransmission, SilenceExpiry};
use rto::Rto;
pub(crate) use source::SourceCandidates;
pub use stats::PathStats;
#[cfg(test)]
pub(crate) use view::tests as view_tests;
pub(crate) use view::{PathView, alternate, alternate_by, same_while_usable};
use window::SendLimits;

/// The number of a path within its association, in the order in which the addresses became known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PathId(pub u8);

portable_tuple! { PathId(value) }

/// Reachability of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PathStatus {
    /// The peer proved that it owns the address (section 5.4).
    pub confirmed: bool,
    /// The error counter has not exceeded Path.Max.Retrans (section 8.2).
    pub active: bool,
    /// Active, but the error counter has exceeded PotentiallyFailed.Max.Retrans (RFC 7829). Statistics
    /// show it also if the association does not expose the state to the program
    /// ([`PathConfig::expose_potentially_failed`](crate::PathConfig::expose_potentially_failed)).
    pub potentially_failed: bool,
}

impl PathStatus {
    /// Returns the name of the state, as logs and metrics have it.
    pub const fn name(&self) -> &'static str {
        match (self.confirmed, self.active, self.potentially_failed) {
            (false, ..) => "unconfirmed",
            (true, false, _) => "inactive",
            (true, true, true) => "potentially-failed",
            (true, true, false) => "active",
        }
    }
}

/// State of a path. Other modules change it through its methods only.
#[derive(Debug)]
pub(crate) struct Path {
    id: PathId,
    remote: IpAddr,
    encapsulation: Option<u16>,
    /// The user set the UDP port, and it is not known whether it works (see `association::routes`).
    encapsulation_unverified: bool,
    local: Option<IpAddr>,
    /// Local address that source selection returned last. `local` differs from it where the peer
    /// addressed another one, or while the selected one does not work.
    selected: Option<IpAddr>,
    /// Trials of other sources, while there are any.
    trials: Option<Box<source::SourceTrials>>,
    confirmed: bool,
    active: bool,
    /// Active, but data avoids it (RFC 7829).
    potentially_failed: bool,
    thresholds: PathThresholds,
    error_count: u32,
    /// Reason of the last error.
    last_error: Option<PathErrorCause>,
    /// IP MTU in bytes.
    mtu: u16,
    /// Bytes of each packet that neither IP, UDP nor SCTP has: for what protects it.
    overhead: u16,
    /// Discovery of the MTU, if it is enabled.
    discovery: Option<Box<MtuDiscovery>>,
    rto: Rto,
    congestion: Box<dyn Controller>,
    /// Delivery rate and pacing, with a rate-based controller.
    rate: Option<Box<RateState>>,
    flight: PathFlight,
    limits: SendLimits,
    /// Expiry of T3-rtx; `None` while it does not run. Written by [`Self::arm_t3`],
    /// [`Self::restart_t3`] and [`Self::stop_t3`] only.
    t3: Option<Time>,
    heartbeat: HeartbeatState,
    ect: Ect,
    data: LazyDataState,
    counters: PathCounters,
    /// DSCP of packets, 0 to 63.
    dscp: u8,
    /// Data in packets larger than the base of path MTU discovery was sent since all data was acknowledged.
    large_data: bool,
}

portable_struct! {
    Path {
        id, remote, encapsulation, encapsulation_unverified, local, selected, trials, confirmed, active,
        potentially_failed, thresholds, error_count, last_error, mtu, overhead, discovery, rto, congestion,
        rate, flight, limits, t3, heartbeat, ect, data, counters, dscp, large_data,
    }
    check Self::is_consistent
}

/// Counters of a path for its statistics.
#[derive(Clone, Copy, Debug, Default)]
struct PathCounters {
    packets_sent: u64,
    bytes_sent: u64,
    packets_received: u64,
    bytes_received: u64,
    heartbeats_sent: u64,
    heartbeats_answered: u64,
    mtu_probes_sent: u64,
    mtu_probes_answered: u64,
}

portable_struct! {
    PathCounters {
        packets_sent, bytes_sent, packets_received, bytes_received, heartbeats_sent,
        heartbeats_answered, mtu_probes_sent, mtu_probes_answered,
    }
}

impl Path {
    pub(crate) fn new(
        id: PathId,
        route: Route,
        confirmed: bool,
        config: &AssociationConfig,
    ) -> Self {
        let discovery = config
            .mtu
            .path_mtu_discovery
            .map(|d| Box::new(MtuDiscovery::new(d, route.remote.is_ipv6())));
        let mtu = discovery.as_ref().map_or(config.mtu.path_mtu, |d| d.mtu());
        let parameters = Parameters {
            pmdcs: pmdcs(mtu, route.header_len() + config.mtu.lower_overhead),
            ipv6: route.remote.is_ipv6(),
            slow_start_limit: config.transmission.slow_start_limit,
        };
        let algorithm = &config.research.policies.congestion;
        Self {
            id,
            remote: route.remote,
            encapsulation: route.encapsulation,
            encapsulation_unverified: false,
            local: route.local,
            selected: None,
            trials: None,
            confirmed,
            active: true,
            potentially_failed: false,
            thresholds: PathThresholds::of(&config.paths),
            error_count: 0,
            last_error: None,
            // Both have at most 65,535 bytes.
            mtu: mtu as u16,
            overhead: config.mtu.lower_overhead as u16,
            discovery,
            rto: Rto::new(config.timers.rto_initial),
            congestion: algorithm.start(parameters),
            rate: algorithm.is_rate_based().then(Box::default),
            flight: PathFlight::default(),
            limits: SendLimits::default(),
            t3: None,
            heartbeat: HeartbeatState::new(config.paths.heartbeat),
            ect: Ect::default(),
            data: LazyDataState::default(),
            counters: PathCounters::default(),
            dscp: config.paths.dscp(route.remote),
            large_data: false,
        }
    }

    /// Number of the path.
    pub(crate) fn id(&self) -> PathId {
        self.id
    }

    /// Address of the peer.
    pub(crate) fn remote(&self) -> IpAddr {
        self.remote
    }

    /// Local address; `None` for one that the host chooses.
    pub(crate) fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// UDP port of the peer; `None` for packets on plain IP (RFC 6951).
    pub(crate) fn encapsulation(&self) -> Option<u16> {
        self.encapsulation
    }

    /// Path MTU in bytes, IP header included.
    pub(crate) fn ip_mtu(&self) -> u16 {
        self.mtu
    }

    /// DSCP of packets, 0 to 63.
    pub(crate) fn dscp(&self) -> u8 {
        self.dscp
    }

    /// Sets the DSCP of packets.
    pub(crate) fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }

    /// Returns whether the peer proved that it owns the address (section 5.4).
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Returns whether the error counter has not exceeded Path.Max.Retrans (section 8.2).
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Returns whether the path is active, but data avoids it (RFC 7829).
    pub(crate) fn is_potentially_failed(&self) -> bool {
        self.potentially_failed
    }

    /// Data last sent here.
    pub(crate) fn flight(&self) -> &PathFlight {
        &self.flight
    }

    pub(crate) fn flight_mut(&mut self) -> &mut PathFlight {
        &mut self.flight
    }

    /// Loss recovery.
    pub(crate) fn recovery(&self) -> &PathRecovery {
        &self.data.recovery
    }

    /// Loss recovery of a path that data is or was sent on.
    pub(crate) fn recovery_mut(&mut self) -> &mut PathRecovery {
        &mut self.data.recovery
    }

    /// Loss recovery, if data was sent on the path.
    pub(crate) fn used_recovery(&mut self) -> Option<&mut PathRecovery> {
        self.data.changed().map(|data| &mut data.recovery)
    }

    /// Returns whether ECN-capable packets may be delivered here.
    pub(crate) fn may_send_ect(&self) -> bool {
        self.ect.is_usable()
    }

    /// Retransmission timeout.
    pub(crate) fn rto(&self) -> Duration {
        self.rto.value()
    }

    /// Retransmission timeout before any back-off.
    pub(crate) fn rto_without_back_off(&self, config: &AssociationConfig) -> Duration {
        self.rto.without_back_off(config)
    }

    /// Smoothed round-trip time, once measured.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.rto.srtt()
    }

    /// Returns the highest RTO that was set since the last call; `None` if none was set.
    pub(crate) fn take_highest_rto(&mut self) -> Option<Duration> {
        self.rto.take_highest()
    }

    /// Takes the RTT sample of an INIT or a COOKIE ECHO, whose answers no delay of a SACK is part of.
    pub(crate) fn on_set_up_measured(&mut self, rtt: Duration, config: &AssociationConfig) {
        self.heartbeat.take_rtt(rtt);
        self.rto.measured(rtt, config);
    }

    /// Records the time from an INIT ACK to its COOKIE ECHO, which is no sample for the RTO: the COOKIE ECHO may be a
    /// retransmission.
    pub(crate) fn on_set_up_round_trip(&mut self, rtt: Duration) {
        self.heartbeat.take_rtt(rtt);
    }

    /// Doubles the RTO, up to RTO.Max (section 6.3.3, E2). Returns the one before.
    pub(crate) fn back_off_rto(&mut self, config: &AssociationConfig) -> Duration {
        let expired = self.rto();
        self.rto.back_off(config);
        expired
    }

    /// Reduces the RTO to a limit.
    pub(crate) fn limit_rto(&mut self, limit: Duration) {
        self.rto.limit(limit);
    }

    /// Begins an RTT measurement with a chunk that is sent for the first time, unless another one is in
    /// progress (section 6.3.1, C4).
    pub(crate) fn time_chunk(&mut self, index: u64, now: Time) {
        self.rto.time(index, now);
    }

    /// Ends the RTT measurement if its chunk, or an earlier one, is retransmitted (section 6.3.1, C5).
    pub(crate) fn stop_timing_from(&mut self, index: u64) {
        self.rto.stop_timing_from(index);
    }

    /// Ends the RTT measurement if its chunk is this one, which is abandoned.
    pub(crate) fn stop_timing_of(&mut self, index: u64) {
        self.rto.stop_timing_of(index);
    }

    /// Counts packets that leave; `len` is their length in bytes.
    pub(crate) fn on_packets_sent(&mut self, packets: u64, len: usize) {
        self.counters.packets_sent += packets;
        self.counters.bytes_sent += len as u64;
    }

    /// Counts a packet of `len` bytes that arrives.
    pub(crate) fn on_packet_received(&mut self, len: usize) {
        self.counters.packets_received += 1;
        self.counters.bytes_received += len as u64;
    }

    /// Returns whether a packet from this UDP port leaves the path's port as it is: it is the same, which
    /// verifies it, or the user set another one that is not verified (see `association::routes`).
    pub(crate) fn accepts_encapsulation(&mut self, encapsulation: Option<u16>) -> bool {
        if self.encapsulation == encapsulation {
            self.encapsulation_unverified = false;
            return true;
        }
        self.encapsulation_unverified
    }

    /// Sets whether the user set the UDP port and it is not known whether it works.
    pub(crate) fn set_encapsulation_unverified(&mut self, unverified: bool) {
        self.encapsulation_unverified = unverified;
    }

    /// Returns whether the user set the UDP port and it is not known whether it works.
    pub(crate) fn is_encapsulation_unverified(&self) -> bool {
        self.encapsulation_unverified
    }

    /// Returns the route of this path.
    pub(crate) fn route(&self) -> Route {
        Route {
            local: self.local,
            remote: self.remote,
            encapsulation: self.encapsulation,
            ecn: Ecn::NotCapable,
        }
    }

    /// Returns whether data may be sent: confirmed, active and not potentially failed.
    pub(crate) fn is_usable(&self) -> bool {
        self.confirmed && self.active && !self.potentially_failed
    }

    /// Returns whether the sizes and the DSCP of an imported path are possible.
    fn is_consistent(&self) -> bool {
        self.below_len() + COMMON_HEADER_LEN < usize::from(self.mtu) && self.dscp <= MAX_DSCP
    }

    /// Bytes an SCTP packet may have on this path, common header included.
    pub(crate) fn packet_size(&self) -> usize {
        (usize::from(self.mtu) - self.below_len()) & !3
    }

    /// Bytes of an IP packet on this path that are not SCTP's own: headers, and what protects it.
    pub(crate) fn below_len(&self) -> usize {
        self.route().header_len() + usize::from(self.overhead)
    }

    /// Sets the bytes of each packet that its protection takes.
    pub(crate) fn set_overhead(&mut self, overhead: u16) {
        self.overhead = overhead;
        self.congestion.set_pmdcs(self.pmdcs());
    }

    /// Path Maximum DATA Chunk Size: what a packet holds besides the common header.
    pub(crate) fn pmdcs(&self) -> usize {
        pmdcs(self.mtu.into(), self.below_len())
    }

    /// Returns whether the path may silently drop packets with `len` bytes of SCTP because of their size.
    pub(crate) fn may_exceed_pmtu(&self, len: usize) -> bool {
        let size = len + self.below_len();
        self.discovery
            .as_ref()
            .is_some_and(|d| d.may_exceed_pmtu(size))
    }

    /// Sets the path MTU. Returns whether it changed.
    fn set_mtu(&mut self, mtu: usize) -> bool {
        let floor = if self.remote.is_ipv6() { 1280 } else { 576 };
        let mtu = mtu.clamp(floor, 65_535) as u16;
        let changed = mtu != self.mtu;
        self.mtu = mtu;
        self.congestion.set_pmdcs(self.pmdcs());
        changed
    }

    /// Sets the peer's UDP port, as the last valid packet had it (RFC 6951 section 5.4).
    pub(crate) fn set_encapsulation(&mut self, encapsulation: Option<u16>) {
        if self.encapsulation != encapsulation {
            self.encapsulation = encapsulation;
            self.congestion.set_pmdcs(self.pmdcs());
        }
    }

    /// Changes the local address and resets window, round trip and loss state (section 7.2.5.2).
    fn change_local(&mut self, local: Option<IpAddr>, rto_initial: Duration) {
        self.local = local;
        // A timeout that was backed off stays so, and so does what may be in flight after it, or a
        // dead path would be tried from one address and the other in quick succession.
        let limits = self.limits;
        self.reset(self.rto.value().max(rto_initial));
        if !self.active {
            self.limits = limits;
        }
    }

    /// Resets window, round trip and loss state.
    fn reset(&mut self, rto: Duration) {
        self.congestion.reset();
        self.reset_rate();
        self.rto = Rto::new(rto);
        self.ect = Ect::default();
        if let Some(recovery) = self.used_recovery() {
            recovery.reset();
        }
        self.limits.end_after_timeout();
    }

    /// Resets the state of the network path, since the connection below may have another one (RFC 8261
    /// section 6.1).
    pub(crate) fn on_lower_layer_changed(&mut self, rto_initial: Duration) {
        self.error_count = 0;
        self.reset(rto_initial);
        if let Some(discovery) = self.discovery.as_mut().filter(|_| self.confirmed) {
            discovery.start();
            let mtu = discovery.mtu();
            self.set_mtu(mtu);
        }
    }

    /// Records during a set-up that the address is unreachable, so that another one is tried.
    pub(crate) fn on_unreachable_in_setup(&mut self) {
        self.active = false;
    }

    /// Enters ESTABLISHED: errors of the set-up don't count, a path that was unreachable is tested, and T3-rtx
    /// starts for data that was sent with COOKIE ECHO.
    pub(crate) fn on_established(&mut self, now: Time) {
        self.error_count = 0;
        if self.heartbeat.enabled && !self.active {
            self.request_heartbeat();
        }
        self.stop_t3();
        if self.flight.size() > 0 {
            self.arm_t3(now);
        }
    }

    /// Expiry of T3-rtx, if it runs.
    pub(crate) fn t3(&self) -> Option<Time> {
        self.t3
    }

    /// Returns whether T3-rtx runs longer than the RTO, with quick failover: it started before an RTT sample
    /// ended the back-off.
    pub(crate) fn awaits_backed_off_t3(&self, now: Time) -> bool {
        self.fails_over_quickly()
            && self.flight.size() > 0
            && self.t3.is_some_and(|t3| t3 > now + self.rto.value())
    }

    /// Starts T3-rtx unless it runs (RFC 9260, section 6.3.2, R1).
    pub(crate) fn arm_t3(&mut self, now: Time) {
        self.t3.get_or_insert(now + self.rto.value());
    }

    /// Starts T3-rtx, again if it runs (RFC 9260, section 6.3.2, R3).
    pub(crate) fn restart_t3(&mut self, now: Time) {
        self.t3 = Some(now + self.rto.value());
    }

    /// Stops T3-rtx (RFC 9260, section 6.3.2, R2).
    pub(crate) fn stop_t3(&mut self) {
        self.t3 = None;
    }

    /// Records that T3-rtx expired: doubles the RTO (section 6.3.3, E2) and ends what waited for
    /// acknowledgements of the chunks in flight, which are marked.
    pub(crate) fn on_t3_expired(&mut self, config: &AssociationConfig) {
        self.on_flight_marked();
        self.stop_t3();
        self.rto.back_off(config);
        self.permit_resend_to_new_port();
        self.recovery_mut().cancel_detection();
    }

    /// Records that all chunks in flight are marked for retransmission: there is no lowest one, no RTT sample
    /// from them (section 6.3.1, C5), and nothing that could be acknowledged.
    pub(crate) fn on_flight_marked(&mut self) {
        self.flight.clear_earliest();
        self.rto.stop_timing();
        if let Some(recovery) = self.used_recovery() {
            recovery.end_silence_check();
        }
    }

    /// Forgets the chunks sent here, which are all gone: the peer restarted.
    pub(crate) fn forget_chunks(&mut self) {
        self.flight.clear();
        self.forget_recovery();
        self.reset_rate();
    }

    /// Forgets how the chunks sent here were repaired; they are sent again as if for the first time.
    pub(crate) fn forget_recovery(&mut self) {
        if let Some(recovery) = self.used_recovery() {
            *recovery = PathRecovery::new();
        }
    }

    pub(crate) fn view(&self, primary: PathId, in_turn: PathId) -> PathView {
        PathView {
            id: self.id,
            confirmed: self.confirmed,
            active: self.active,
            potentially_failed: self.potentially_failed,
            primary: self.id == primary,
            in_turn: self.id == in_turn,
            srtt: self.rto.srtt(),
            error_count: self.error_count,
            cwnd: self.congestion.window(),
            ssthresh: self.congestion.ssthresh(),
            loss_ppm: self.flight.losses().ppm(),
            has_room: self.window_is_open(),
        }
    }

    /// State and counters.
    pub(crate) fn stats(&self) -> PathStats {
        PathStats {
            id: self.id,
            remote: self.remote,
            encapsulation: self.encapsulation,
            local: self.local,
            selected: self.selected,
            status: PathStatus {
                confirmed: self.confirmed,
                active: self.active,
                potentially_failed: self.potentially_failed,
            },
            cwnd: self.congestion.window(),
            ssthresh: self.congestion.ssthresh(),
            partial_bytes_acked: self.congestion.partial_bytes_acked(),
            flight_size: self.flight.size(),
            pacing_rate: self.congestion.pacing_rate(),
            srtt: self.rto.srtt(),
            rto: self.rto.value(),
            mtu: self.mtu.into(),
            dscp: self.dscp,
            mtu_discovery: self.discovery.as_ref().map(|d| d.state()),
            error_count: self.error_count,
            last_error: self.last_error,
            data_chunks_sent: self.flight.losses().sent_total,
            data_chunks_lost: self.flight.losses().lost_total,
            packets_sent: self.counters.packets_sent,
            bytes_sent: self.counters.bytes_sent,
            packets_received: self.counters.packets_received,
            bytes_received: self.counters.bytes_received,
            heartbeats_sent: self.counters.heartbeats_sent,
            heartbeats_answered: self.counters.heartbeats_answered,
            mtu_probes_sent: self.counters.mtu_probes_sent,
            mtu_probes_answered: self.counters.mtu_probes_answered,
        }
    }
}

/// Chunks end on a multiple of four bytes, so the last odd bytes of a packet can't be used.
fn pmdcs(mtu: usize, below: usize) -> usize {
    (mtu - below - COMMON_HEADER_LEN) & !3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> Path {
        let route = Route::plain("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        Path::new(PathId(0), route, true, &AssociationConfig::rfc9260())
    }

    #[test]
    fn encapsulation_reduces_the_packet_size() {
        let mut path = path();
        assert_eq!((path.packet_size(), path.pmdcs()), (1480, 1468));
        path.set_encapsulation(Some(9899));
        assert_eq!((path.packet_size(), path.pmdcs()), (1472, 1460));
        path.set_encapsulation(None);
        assert_eq!(path.packet_size(), 1480);
    }

    #[test]
    fn packet_size_is_a_multiple_of_four() {
        let mut path = path();
        for mtu in 1000..1008 {
            path.set_mtu(mtu);
            assert_eq!(path.packet_size() % 4, 0);
            assert_eq!(path.packet_size(), path.pmdcs() + COMMON_HEADER_LEN);
        }
    }

    #[test]
    fn the_window_may_be_exceeded_by_less_than_one_packet() {
        let mut path = path();
        path.flight.on_sent(1, 0, path.congestion.window() - 1);
        assert!(path.window_is_open());
        path.flight.on_sent(2, 0, 1);
        assert!(!path.window_is_open());
    }

    #[test]
    fn after_a_timeout_one_packet_is_in_flight() {
        let mut path = path();
        path.reduce_after_t3(&AssociationConfig::rfc9260());
        assert!(path.window_is_open());
        path.flight.on_sent(1, 4, 20);
        assert!(!path.window_is_open(), "even if the packet was small");
    }

    #[test]
    fn an_idle_window_decays_once_per_rto() {
        let mut path = path();
        for _ in 0..10 {
            let cwnd = path.congestion.window();
            path.congestion.on_ack(&crate::cc::Acknowledged {
                bytes: 1468,
                flight_before: cwnd,
                all_acknowledged: true,
                ..Default::default()
            });
        }
        let cwnd = path.congestion.window();
        path.on_data_departure(Time::ZERO);
        path.decay_idle_window(Time::from_millis(999));
        assert_eq!(path.congestion.window(), cwnd);
        path.decay_idle_window(Time::from_millis(1000));
        assert_eq!(path.congestion.window(), cwnd / 2);
        path.decay_idle_window(Time::from_millis(1999));
        assert_eq!(path.congestion.window(), cwnd / 2);
    }

    #[test]
    fn an_mtu_has_a_floor() {
        let mut path = path();
        assert!(path.set_mtu(100));
        assert_eq!(path.mtu, 576);
        assert!(!path.set_mtu(576));
    }
}
