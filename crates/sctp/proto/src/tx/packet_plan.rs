//! Selection of the next packet of DATA: its path, and retransmissions or new data (RFC 9260, sections
//! 6.1 and 6.4).

use carrick_wire::{COMMON_HEADER_LEN, padded};

use super::loss::LossSignal;
use super::outstanding::ChunkState;
use super::{MAX_OUTSTANDING, Sender};
use crate::config::AssociationConfig;
use crate::counters::Counters;
use crate::observer::Observation;
use crate::path::{Path, PathId, Paths};
use crate::research::{MarkedData, SwsAvoidance};
use crate::stats::EndpointStats;
use crate::time::{Time, earliest};

/// Packet of DATA that may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DataPacketPlan {
    pub(crate) path: PathId,
    /// Retransmissions may leave whatever cwnd is.
    pub(super) forced: bool,
    /// The packet carries new data.
    pub(super) new: bool,
    /// The packet is a tail loss probe.
    pub(super) probe: bool,
    /// With concurrent multipath transfer: path on which the chunks to retransmit were lost.
    pub(super) origin: Option<PathId>,
}

/// State outside the sender that sending changes.
pub(crate) struct TransmitContext<'a> {
    pub(crate) now: Time,
    pub(crate) paths: &'a mut Paths,
    pub(crate) config: &'a AssociationConfig,
    pub(crate) observation: &'a Observation,
    pub(crate) counters: &'a mut Counters,
    pub(crate) stats: &'a mut EndpointStats,
    /// The association is shutting down: no data is delayed, and SACKs are wanted at once.
    pub(crate) shutting_down: bool,
}

impl Sender {
    /// Selects the next packet of DATA that may leave:
    ///
    /// 1. A tail loss probe that is due (RFC 8985, section 7.3).
    /// 2. Marked chunks, if cwnd has room or the packet is the one that ignores cwnd (RFC 9260, section
    ///    6.1, C, section 6.3.3, E3, and section 7.2.4, step 3). A peer without room gets one packet at
    ///    a time.
    /// 3. New data, if cwnd (section 6.1, B), the peer's window (section 6.1, A), the burst limit (section
    ///    6.1, D) and Nagle's algorithm let it leave.
    ///
    /// On a path with a pacing rate, marked chunks and new data wait for their departure time; a probe and
    /// the packet that ignores cwnd do not.
    pub(crate) fn plan_packet(&mut self, cx: &mut TransmitContext<'_>) -> Option<DataPacketPlan> {
        self.departure = None;
        // 1.
        if let Some(plan) = self.plan_probe(cx) {
            return Some(plan);
        }
        if self.multipath.is_concurrent() {
            return self.plan_concurrently(cx);
        }
        // 2.
        let mut blocked = None;
        if let Some(index) = self.outstanding.first_marked() {
            let path = self.retransmission_path(index, cx)?;
            if !cx.paths[path].is_confirmed() {
                // The only path is not confirmed.
                return None;
            }
            let refused = self.window.is_probing() && self.outstanding.in_flight() > 0;
            let open = !refused && cx.paths[path].window_is_open();
            if open && !self.forced && !self.pacing_permits(path, cx) {
                return None;
            }
            if self.forced || open {
                return Some(DataPacketPlan {
                    path,
                    forced: self.forced,
                    new: false,
                    probe: false,
                    origin: None,
                });
            }
            cx.paths[path].note_window_limit();
            if cx.config.research.policies.marked_data == MarkedData::HoldsAll {
                return None;
            }
            blocked = Some(path);
        } else {
            self.forced = false;
        }
        // 3.
        let Some(path) = self.new_data_path(cx.paths) else {
            if blocked.is_none() {
                let current = cx.paths.current();
                cx.paths[current].note_other_limit(true);
            }
            return None;
        };
        if blocked == Some(path) || !cx.paths[path].is_confirmed() {
            return None;
        }
        cx.paths[path].decay_idle_window(cx.now);
        cx.paths[path].limit_idle_burst(cx.now, cx.config.transmission.max_burst);
        if !cx.paths[path].window_is_open() {
            cx.paths[path].note_window_limit();
            return None;
        }
        if !self.may_send_new(path, cx) {
            let by_user = self.lacks_data(&cx.paths[path]);
            cx.paths[path].note_other_limit(by_user);
            return None;
        }
        if !self.pacing_permits(path, cx) {
            return None;
        }
        Some(DataPacketPlan {
            path,
            forced: false,
            new: true,
            probe: false,
            origin: None,
        })
    }

    /// Returns whether pacing lets a packet leave on a path now. If not, its departure is awaited.
    #[inline]
    pub(super) fn pacing_permits(&mut self, id: PathId, cx: &mut TransmitContext<'_>) -> bool {
        !self.rate_based || self.departure_has_come(id, cx)
    }

    #[inline(never)]
    fn departure_has_come(&mut self, id: PathId, cx: &mut TransmitContext<'_>) -> bool {
        let departure = cx.paths[id].departure(cx.now);
        if departure.is_some() {
            self.departure = earliest(self.departure, departure);
        }
        departure.is_none()
    }

    /// Selects a tail loss probe: new data if there is some and the peer has room, whatever cwnd is, or else
    /// the last chunk in flight (RFC 8985, section 7.3).
    fn plan_probe(&mut self, cx: &mut TransmitContext<'_>) -> Option<DataPacketPlan> {
        let path = self.take_probe(cx.paths)?;
        let new = self.may_probe_with_new(path, cx.paths, cx.config);
        let fits = |index: u64| {
            self.outstanding.chunk(index).is_some_and(|c| {
                let room = cx.paths[path].pmdcs().saturating_sub(cx.paths.reserved());
                self.outstanding.header_len() + c.payload.len() <= room
            })
        };
        if !new
            && !self
                .last_in_flight(&cx.paths[path], cx.now)
                .is_some_and(fits)
        {
            cx.paths[path].recovery_mut().probe_mut().set_due(false);
            return None;
        }
        Some(DataPacketPlan {
            path,
            forced: false,
            new,
            probe: true,
            origin: None,
        })
    }

    /// Returns whether a tail loss probe of this path is new data.
    pub(super) fn may_probe_with_new(
        &self,
        path: PathId,
        paths: &Paths,
        config: &AssociationConfig,
    ) -> bool {
        self.may_carry_new(path, paths)
            && self.outstanding.len() < MAX_OUTSTANDING
            && self.outstanding.first_marked().is_none()
            && self.next_payload(paths, config) <= self.window.rwnd()
    }

    /// Returns whether a packet carries only first transmissions and no probe of a closed window, so that it
    /// may be ECN-capable (RFC 3168, sections 6.1.5 and 6.1.6).
    pub(crate) fn is_first_transmission(&self, plan: DataPacketPlan) -> bool {
        plan.new && !self.window.probe_is_due()
    }

    /// Path for a marked chunk, by the association's policy. A path that is not confirmed never carries
    /// data.
    pub(super) fn retransmission_path(
        &self,
        index: u64,
        cx: &TransmitContext<'_>,
    ) -> Option<PathId> {
        let chunk = self.outstanding.chunk(index)?;
        let ChunkState::Marked(signal) = chunk.state else {
            return None;
        };
        Some(Self::retransmission_route(signal, chunk.path, cx))
    }

    /// Path for a retransmission of what was lost on a path.
    pub(super) fn retransmission_route(
        signal: LossSignal,
        last: PathId,
        cx: &TransmitContext<'_>,
    ) -> PathId {
        // With no usable path, whatever the policy.
        if let Some(path) = cx.paths.last_resort(last)
            && (signal == LossSignal::Timeout || !cx.paths.all_inactive())
        {
            return path;
        }
        let policy = cx.config.research.policies.retransmission_route;
        let chosen = policy.route(signal, last, cx.paths.views());
        let usable = cx.paths.contains(chosen) && cx.paths[chosen].is_confirmed();
        if usable { chosen } else { cx.paths.current() }
    }

    pub(super) fn new_data_path(&self, paths: &Paths) -> Option<PathId> {
        let wanted = self.queue.front()?.options.path;
        // A potentially failed path serves if the current one is not usable (RFC 7829, section 3.2, rule
        // 3).
        let fit = |id: &PathId| {
            paths.contains(*id) && {
                let path = &paths[*id];
                path.is_usable()
                    || (path.is_potentially_failed() && !paths[paths.current()].is_usable())
            }
        };
        Some(wanted.filter(fit).unwrap_or_else(|| paths.current()))
    }

    /// Payload of the next new chunk in a packet without other chunks.
    pub(super) fn next_payload(&self, paths: &Paths, config: &AssociationConfig) -> usize {
        self.queue
            .front()
            .map_or(0, |p| p.rest.len().min(self.max_payload(paths, config)))
    }

    /// Returns whether new data may leave by RFC 9260, section 6.1, rule A, with sender-side silly window
    /// avoidance and Nagle's algorithm (RFC 1122, section 4.2.3.4).
    pub(super) fn may_send_new(&mut self, path: PathId, cx: &TransmitContext<'_>) -> bool {
        let Some(front) = self.queue.front() else {
            return false;
        };
        if self.outstanding.len() >= MAX_OUTSTANDING {
            return false;
        }
        let header = self.outstanding.header_len();
        let next = front.rest.len().min(self.max_payload(cx.paths, cx.config));
        let rwnd = self.window.rwnd();
        let full = cx.paths[path].pmdcs() - header;
        if next > rwnd || self.is_silly(rwnd, full, cx.config) {
            if !self.outstanding.is_empty() {
                return false;
            }
            if next > rwnd && rwnd > 0 {
                // The window is open, but too small. Some receivers deliver the beginning of a message
                // that exceeds their buffer, and so free room, only when a chunk does not fit.
                self.window.probe_at_once();
            }
            self.window.arm_probe(cx.now, cx.paths[path].rto());
            return self.window.probe_is_due();
        }
        let delayed = cx.config.transmission.nagle
            && !cx.shutting_down
            && !front.options.no_delay
            // The peer may delay its SACK for the beginning of a message.
            && !front.begun
            && self.outstanding.in_flight() > 0
            && (self.lacks_data(&cx.paths[path])
                || self.carried(rwnd, full, cx.config) < full);
        !delayed
    }

    /// Returns whether the queued data does not fill a packet of a path.
    pub(super) fn lacks_data(&self, path: &Path) -> bool {
        let headers = self.queue.len() * self.outstanding.header_len();
        self.queue.bytes() + headers < path.pmdcs()
    }

    /// Returns whether the window has too little room for data to be sent; `full` is the payload of a
    /// packet.
    pub(super) fn is_silly(&self, rwnd: usize, full: usize, config: &AssociationConfig) -> bool {
        match config.research.sender_sws_avoidance {
            SwsAvoidance::Off => false,
            SwsAvoidance::Packets => {
                self.carried(rwnd, full, config) < full && rwnd < self.window.largest() / 2
            }
            SwsAvoidance::Below(limit) => rwnd < limit,
        }
    }

    /// Bytes of queued data that the window lets a packet carry, headers of further messages included. If
    /// they are less than `full`, the payload of a packet, the window is the limit.
    fn carried(&self, rwnd: usize, full: usize, config: &AssociationConfig) -> usize {
        let (queued, header) = (self.queue.bytes(), self.outstanding.header_len());
        if queued <= rwnd {
            return full;
        }
        // A packet of small messages has less payload than one of large messages.
        let largest = config.mtu.max_payload.map_or(full, |p| p.min(full)).max(1);
        let typical = (queued / self.queue.len().max(1)).clamp(1, largest);
        rwnd + rwnd / typical * header
    }

    /// Size of a packet for a chunk that exceeds the size `normal`, because the path MTU has shrunk since the
    /// message was fragmented (RFC 9260, section 6.9).
    pub(crate) fn oversized(
        &self,
        plan: DataPacketPlan,
        normal: usize,
        cx: &TransmitContext<'_>,
    ) -> Option<usize> {
        if plan.new {
            return None;
        }
        let index = self.outstanding.next_marked_of(plan.origin, 0)?;
        if self.retransmission_path(index, cx) != Some(plan.path) {
            return None;
        }
        let payload = self.outstanding.chunk(index)?.payload.len();
        let len = COMMON_HEADER_LEN + padded(self.outstanding.header_len() + payload);
        (len > normal).then_some(len)
    }
}
