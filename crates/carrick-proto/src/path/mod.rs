//! One path: a peer address with the local address used to reach it (RFC 9260 sections 6.3, 6.4, 8).

mod after_timeout;
mod delivery;
mod ect;
mod failover;
pub(crate) mod heartbeat;
mod last_resort;
mod loss_estimate;
pub(crate) mod mtu_discovery;
mod pacer;
mod paths;
pub(crate) mod rto;
mod source;
mod thresholds;
mod view;

use alloc::boxed::Box;
use core::net::IpAddr;
use core::time::Duration;

use carrick_wire::COMMON_HEADER_LEN;

use crate::cc::{Controller, DeliverySample, PacketSent, Parameters};
use crate::config::AssociationConfig;
use crate::route::{Ecn, Route};
use crate::stats::PathStats;
use crate::time::Time;
use crate::tx::PathRecovery;
pub use after_timeout::AfterTimeout;
use delivery::DeliverySampler;
pub(crate) use delivery::PacketNumbers;
pub(crate) use ect::Ect;
pub(crate) use failover::PathChange;
use heartbeat::HeartbeatState;
pub(crate) use heartbeat::{HeartbeatAnswer, HeartbeatExpiry};
use loss_estimate::LossEstimate;
use mtu_discovery::MtuDiscovery;
use pacer::{Pacer, PacingRate};
pub(crate) use paths::Paths;
pub(crate) use rto::Rto;
pub(crate) use source::SourceCandidates;
pub use thresholds::PathThresholds;
pub use view::PathView;
#[cfg(test)]
pub(crate) use view::tests as view_tests;
pub(crate) use view::{alternate, alternate_by, same_unless_dead};

/// The number of a path within its association, in the order in which the addresses became known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PathId(pub u8);

/// Reachability of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PathStatus {
    /// The peer proved that it owns the address (section 5.4).
    pub confirmed: bool,
    /// The error counter has not exceeded Path.Max.Retrans (section 8.2).
    pub active: bool,
    /// Active, but the error counter has exceeded PotentiallyFailed.Max.Retrans (RFC 7829). Not
    /// shown if the association keeps it to itself.
    pub potentially_failed: bool,
}

/// All of one path in one place.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) remote: IpAddr,
    pub(crate) encapsulation: Option<u16>,
    /// The user set the UDP port, and it is not known whether it works (see `association::routes`).
    pub(crate) way_untried: bool,
    pub(crate) local: Option<IpAddr>,
    /// Local address that source selection returned last. `local` differs from it where the peer
    /// addressed another one, or after a failure.
    selected: Option<IpAddr>,
    pub(crate) confirmed: bool,
    pub(crate) active: bool,
    /// Active, but data avoids it (RFC 7829).
    pub(crate) potentially_failed: bool,
    thresholds: PathThresholds,
    error_count: u32,
    /// IP MTU in bytes.
    mtu: usize,
    /// Bytes of each packet that neither IP, UDP nor SCTP has: for what protects it.
    overhead: u16,
    /// Discovery of the MTU, if it is enabled.
    discovery: Option<Box<MtuDiscovery>>,
    pub(crate) rto: Rto,
    pub(crate) congestion: Box<dyn Controller>,
    /// Delivery rate and pacing, with a rate-based controller.
    rate: Option<Box<RateState>>,
    /// Outstanding bytes as the congestion control counts them.
    pub(crate) flight_size: usize,
    /// User bytes in the send buffer that were last sent here.
    pub(crate) buffered: usize,
    /// Chunks that are not acknowledged cumulatively, and were not given up, that were last sent here.
    pub(crate) chunks: u32,
    pub(crate) losses: LossEstimate,
    /// Expiry of T3-rtx; `None` while it does not run. Written by [`Self::arm_t3`],
    /// [`Self::restart_t3`] and [`Self::stop_t3`] only.
    t3: Option<Time>,
    /// The lowest outstanding chunk last sent here, by its index; a hint that is searched forward
    /// from (see `tx::outstanding`).
    pub(crate) earliest: Option<u64>,
    /// Limit of the data in flight after a timeout, until data sent here is acknowledged (section 7.2.3).
    pub(crate) after_timeout: Option<AfterTimeout>,
    /// Outstanding bytes that do not count towards the window ([`GapAckCount::EverySack`]); otherwise 0.
    ///
    /// [`GapAckCount::EverySack`]: crate::research::GapAckCount::EverySack
    pub(crate) uncounted: usize,
    /// Bytes of flight up to which the current burst may go (Max.Burst, section 6.1 D).
    pub(crate) burst_limit: usize,
    /// When data of this path was last acknowledged.
    pub(crate) last_ack: Option<Time>,
    /// When data was last sent, for the decay of an idle window (section 7.2.1).
    pub(crate) last_data: Option<Time>,
    /// The chunk whose acknowledgement gives the next RTT sample, and when it was sent.
    pub(crate) timed: Option<(u64, Time)>,
    heartbeat: HeartbeatState,
    pub(crate) ect: Ect,
    pub(crate) news: AckNews,
    pub(crate) recovery: PathRecovery,
    /// The window, and nothing else, held data back when data was last looked for.
    pub(crate) window_limited: bool,
    pub(crate) counters: PathCounters,
}

/// State of a path with a rate-based controller.
#[derive(Debug, Default)]
struct RateState {
    delivery: DeliverySampler,
    pacer: Pacer,
}

/// Acknowledgements on this path by the SACK being processed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckNews {
    /// Bytes acknowledged for the first time.
    pub(crate) bytes: usize,
    /// Some of it was sent to no other path: this one works.
    pub(crate) alive: bool,
    /// Outstanding bytes before the SACK.
    pub(crate) flight_before: usize,
    /// The lowest outstanding chunk was among them.
    pub(crate) earliest: bool,
    /// The oldest transmission in flight before the SACK, where the order is kept.
    pub(crate) oldest: u64,
    /// A chunk was found lost.
    pub(crate) loss: bool,
    /// The highest chunk among them.
    pub(crate) highest: u64,
    /// The round trip of the last of them that was sent once.
    pub(crate) rtt: Option<Duration>,
    /// A tail loss probe with this chunk, which had been sent before, was acknowledged.
    pub(crate) probe: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathCounters {
    pub(crate) packets_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) bytes_received: u64,
    pub(crate) heartbeats_sent: u64,
    pub(crate) heartbeats_answered: u64,
    pub(crate) mtu_probes_sent: u64,
    pub(crate) mtu_probes_answered: u64,
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
        let algorithm = config.research.policies.congestion;
        Self {
            id,
            remote: route.remote,
            encapsulation: route.encapsulation,
            way_untried: false,
            local: route.local,
            selected: None,
            confirmed,
            active: true,
            potentially_failed: false,
            thresholds: PathThresholds::of(config),
            error_count: 0,
            mtu,
            overhead: config.mtu.lower_overhead as u16,
            discovery,
            rto: Rto::new(config.timers.rto_initial),
            congestion: algorithm.start(parameters),
            rate: algorithm.is_rate_based().then(Box::default),
            flight_size: 0,
            buffered: 0,
            chunks: 0,
            losses: LossEstimate::default(),
            t3: None,
            earliest: None,
            after_timeout: None,
            uncounted: 0,
            burst_limit: usize::MAX,
            last_ack: None,
            last_data: None,
            timed: None,
            heartbeat: HeartbeatState::new(config.paths.heartbeat),
            ect: Ect::default(),
            news: AckNews::default(),
            recovery: PathRecovery::default(),
            window_limited: false,
            counters: PathCounters::default(),
        }
    }

    /// The way to this path's address.
    pub(crate) fn route(&self) -> Route {
        Route {
            local: self.local,
            remote: self.remote,
            encapsulation: self.encapsulation,
            ecn: Ecn::NotCapable,
        }
    }

    /// Confirmed, active and not potentially failed: fit for data.
    pub(crate) fn usable(&self) -> bool {
        self.confirmed && self.active && !self.potentially_failed
    }

    /// Bytes an SCTP packet may have on this path, common header included.
    pub(crate) fn packet_size(&self) -> usize {
        (self.mtu - self.below_len()) & !3
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
        pmdcs(self.mtu, self.below_len())
    }

    /// Records that a packet with data was sent; `len` is its SCTP length in bytes.
    pub(crate) fn data_packet_sent(&mut self, len: usize) {
        let size = len + self.below_len();
        if let Some(discovery) = &mut self.discovery {
            discovery.data_sent(size);
        }
    }

    /// Returns whether the path may silently drop packets with `len` bytes of SCTP because of their size.
    pub(crate) fn doubts(&self, len: usize) -> bool {
        let size = len + self.below_len();
        self.discovery.as_ref().is_some_and(|d| d.doubts(size))
    }

    /// A new path MTU; returns whether it changed.
    fn set_mtu(&mut self, mtu: usize) -> bool {
        let floor = if self.remote.is_ipv6() { 1280 } else { 576 };
        let mtu = mtu.clamp(floor, 65_535);
        let changed = mtu != self.mtu;
        self.mtu = mtu;
        self.congestion.set_pmdcs(self.pmdcs());
        changed
    }

    /// The peer's UDP port as the last valid packet showed it (RFC 6951 section 5.4).
    pub(crate) fn set_encapsulation(&mut self, encapsulation: Option<u16>) {
        if self.encapsulation != encapsulation {
            self.encapsulation = encapsulation;
            self.congestion.set_pmdcs(self.pmdcs());
        }
    }

    /// Another way to the same peer address: what was learnt of the one before is void (section
    /// 7.2.5.2).
    fn change_local(&mut self, local: Option<IpAddr>, rto_initial: Duration) {
        self.local = local;
        // A timeout that was backed off stays so, and so does what may be in flight after it, or a
        // dead path would be tried from one address and the other in quick succession.
        let after_timeout = self.after_timeout.filter(|_| !self.active);
        self.begin_anew(self.rto.value().max(rto_initial));
        self.after_timeout = after_timeout;
    }

    /// The path leads elsewhere: its window, its round trip and what losses and marks said of it are
    /// as at the beginning.
    fn begin_anew(&mut self, rto: Duration) {
        self.congestion.reset();
        self.reset_rate();
        self.rto = Rto::new(rto);
        self.timed = None;
        self.ect = Ect::default();
        // What the old window was reduced for says nothing about the new one.
        self.recovery.begin_anew();
        self.after_timeout = None;
    }

    /// Resets what was learnt: the connection below leads elsewhere (RFC 8261 section 6.1).
    pub(crate) fn on_lower_layer_changed(&mut self, rto_initial: Duration) {
        self.error_count = 0;
        self.begin_anew(rto_initial);
        if let Some(discovery) = self.discovery.as_mut().filter(|_| self.confirmed) {
            discovery.start();
            let mtu = discovery.mtu();
            self.set_mtu(mtu);
        }
    }

    /// Enters ESTABLISHED: errors of the set-up don't count, and T3-rtx starts for data that was sent with
    /// COOKIE ECHO.
    pub(crate) fn on_established(&mut self, now: Time) {
        self.error_count = 0;
        self.stop_t3();
        if self.flight_size > 0 {
            self.arm_t3(now);
        }
    }

    /// Expiry of T3-rtx, if it runs.
    pub(crate) fn t3(&self) -> Option<Time> {
        self.t3
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

    /// Lets an idle window decay, once per RTO without data (section 7.2.1).
    pub(crate) fn decay_idle_window(&mut self, now: Time) {
        let Some(last) = self.last_data else { return };
        if self.flight_size > 0 {
            return;
        }
        let rto = self.rto.value().as_nanos().max(1);
        let rtos = now.since(last).as_nanos() / rto;
        if rtos > 0 {
            self.congestion
                .on_idle(u32::try_from(rtos).unwrap_or(u32::MAX).min(64));
            self.last_data = Some(now);
        }
    }

    /// Limits the first burst of new data on an idle path to Max.Burst packets (section 6.1 D). Data
    /// released by a SACK is not limited here, and pacing limits bursts itself.
    pub(crate) fn limit_idle_burst(&mut self, now: Time, max_burst: u32) {
        // The driver needs a moment between a SACK and what it releases; a pause is longer than a
        // round trip.
        let round_trip = self.rto.srtt().unwrap_or_default();
        let idle = self.flight_size == 0 && self.last_ack.is_none_or(|at| at + round_trip < now);
        if idle && !self.is_paced() {
            self.burst_limit = self.burst_limit.min(max_burst as usize * self.pmdcs());
        }
    }

    /// Returns whether the window admits a packet with data: some room is left, which the packet may
    /// exceed by less than one PMDCS (section 6.1 B).
    pub(crate) fn window_is_open(&self) -> bool {
        if self.after_timeout == Some(AfterTimeout::OnePacket) && self.flight_size > 0 {
            return false;
        }
        let limit = self.window().saturating_add(self.uncounted);
        self.flight_size < limit.min(self.burst_limit)
    }

    /// Returns whether the window admits one more chunk in a packet that already has one. Any packet may
    /// exceed the window, except under [`AfterTimeout::OneWindow`].
    pub(crate) fn window_takes_more(&self) -> bool {
        self.after_timeout != Some(AfterTimeout::OneWindow) || self.flight_size < self.window()
    }

    /// Limit of the bytes in flight: cwnd, or the window of a reduction to cwnd in progress. A reduction
    /// advances with SACKs, which may not arrive when nothing is in flight; it then allows one packet, as
    /// after a timeout.
    fn window(&self) -> usize {
        let Some(reduction) = &self.recovery.reduction else {
            return self.congestion.window();
        };
        match self.flight_size {
            0 => reduction.window().max(self.pmdcs()),
            _ => reduction.window(),
        }
    }

    /// Forgets deliveries and departures: the path, or the numbers of its packets, changed.
    pub(crate) fn reset_rate(&mut self) {
        if let Some(rate) = &mut self.rate {
            **rate = RateState::default();
        }
    }

    /// Departure time of a packet of data; `None` if it may leave now.
    pub(crate) fn departure(&mut self, now: Time) -> Option<Time> {
        let packet = self.rate.as_ref().map(|_| self.pmdcs())?;
        let state = self.rate.as_mut()?;
        let Some(rate) = self.congestion.pacing_rate() else {
            state.pacer.release();
            return None;
        };
        state.pacer.departure_at(now, PacingRate { rate, packet })
    }

    /// Returns whether a packet waited for its departure when pacing was last asked.
    pub(crate) fn waits_for_departure(&self) -> bool {
        self.rate.as_ref().is_some_and(|rate| rate.pacer.waits())
    }

    /// Returns whether the controller paces the path.
    pub(crate) fn is_paced(&self) -> bool {
        self.rate.is_some() && self.congestion.pacing_rate().is_some()
    }

    /// Records a packet with DATA that leaves, with its numbers in the association, for a rate-based controller.
    pub(crate) fn on_data_sent(&mut self, sent: &PacketSent, numbers: PacketNumbers) {
        if let Some(rate) = &mut self.rate {
            self.congestion.on_sent(sent);
            let idle = sent.flight_before == 0;
            rate.delivery.on_sent(numbers, idle, sent.now);
            rate.pacer.on_sent(sent.bytes);
        }
    }

    /// Records the acknowledgement of a chunk of `bytes` bytes, whose last transmission has this number;
    /// `once` if that was the only one.
    pub(crate) fn on_data_delivered(&mut self, number: u64, bytes: usize, once: bool, now: Time) {
        if let Some(rate) = &mut self.rate {
            rate.delivery.on_acknowledged(number, bytes, once, now);
        }
    }

    /// Returns the delivery of a SACK that newly acknowledges this number of bytes, and that advances the
    /// Cumulative TSN Ack Point to this index.
    pub(crate) fn take_delivery(
        &mut self,
        newly: usize,
        cumulative: u64,
    ) -> Option<DeliverySample> {
        self.rate.as_mut()?.delivery.take_sample(newly, cumulative)
    }

    /// Records that not the window holds data back: there is none, or something else does.
    pub(crate) fn note_other_limit(&mut self) {
        self.window_limited = false;
        if self.rate.is_some() && self.flight_size < self.window() {
            let flight_size = self.flight_size;
            if let Some(rate) = &mut self.rate {
                rate.delivery.set_app_limited(flight_size);
            }
        }
    }

    /// Data waits for this path: notes whether the window is what holds it back.
    pub(crate) fn note_window_limit(&mut self) {
        self.window_limited |= self.flight_size >= self.window();
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
            flight_size: self.flight_size,
            ssthresh: self.congestion.ssthresh(),
            loss_ppm: self.losses.ppm(),
            has_room: self.window_is_open(),
        }
    }

    /// State and counters; that it is potentially failed is shown only if `exposed`.
    pub(crate) fn stats(&self, exposed: bool) -> PathStats {
        PathStats {
            id: self.id,
            remote: self.remote,
            encapsulation: self.encapsulation,
            local: self.local,
            status: PathStatus {
                confirmed: self.confirmed,
                active: self.active,
                potentially_failed: self.potentially_failed && exposed,
            },
            cwnd: self.congestion.window(),
            ssthresh: self.congestion.ssthresh(),
            partial_bytes_acked: self.congestion.partial_bytes_acked(),
            flight_size: self.flight_size,
            pacing_rate: self.congestion.pacing_rate(),
            srtt: self.rto.srtt(),
            rto: self.rto.value(),
            mtu: self.mtu,
            mtu_discovery: self.discovery.as_ref().map(|d| d.state()),
            error_count: self.error_count,
            data_chunks_sent: self.losses.sent_total,
            data_chunks_lost: self.losses.lost_total,
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
    fn packets_end_where_chunks_can() {
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
        path.flight_size = path.congestion.window() - 1;
        assert!(path.window_is_open());
        path.flight_size += 1;
        assert!(!path.window_is_open());
    }

    #[test]
    fn after_a_timeout_one_packet_is_in_flight() {
        let mut path = path();
        path.after_timeout = Some(AfterTimeout::OnePacket);
        assert!(path.window_is_open());
        path.flight_size = 20;
        assert!(!path.window_is_open(), "even if the packet was small");
    }

    #[test]
    fn an_idle_window_decays_once_per_rto() {
        let mut path = path();
        path.flight_size = 0;
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
        path.last_data = Some(Time::ZERO);
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
