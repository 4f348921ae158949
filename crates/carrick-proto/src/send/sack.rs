//! Processing of a received SACK (RFC 9260 sections 6.2.1, 6.3.1 C4 and C5, 6.3.2, 7.2).

use carrick_wire::{Sack, Tsn};

use super::outstanding::Ranges;
use super::recovery::Delivery;
use super::{MANY_BLOCKS, Sender};
use crate::config::AssociationConfig;
use crate::congestion::Acknowledged;
use crate::path::{AckNews, PathId, Paths};
use crate::policy::LossSignal;
use crate::time::Time;
use crate::trace::{Trace, TraceEvent};

/// What a SACK changed, for the association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SackOutcome {
    /// Older than what is known: nothing was done.
    pub(crate) stale: bool,
    /// It acknowledges a TSN that was not sent: the association must be aborted (section 12.4).
    pub(crate) unsent_tsn: bool,
    /// Data was acknowledged for the first time.
    pub(crate) acknowledged: bool,
    /// Chunks the peer took back.
    pub(crate) reneged: u64,
    /// Reductions of a window that turned out to be needless.
    pub(crate) undone: u64,
}

/// Everything besides the sender that a SACK touches.
pub(crate) struct SackContext<'a> {
    pub(crate) now: Time,
    /// The path the SACK came from.
    pub(crate) arrived_on: Option<PathId>,
    pub(crate) paths: &'a mut Paths,
    pub(crate) config: &'a AssociationConfig,
    pub(crate) trace: &'a mut Trace,
}

impl Sender {
    /// Takes a SACK.
    pub(crate) fn on_sack(&mut self, sack: &Sack<'_>, cx: &mut SackContext<'_>) -> SackOutcome {
        let blocks = sack.gap_ack_blocks().map(|b| (b.start, b.end));
        let mut outcome = self.on_acknowledgement(sack.cumulative_tsn_ack, Some(blocks), cx);
        if !outcome.stale && !outcome.unsent_tsn {
            outcome.undone = self.on_duplicates(sack.duplicate_tsns(), cx);
            self.update_window(sack.a_rwnd, cx);
            self.settle_after_sack(cx);
        }
        outcome
    }

    /// Takes the cumulative TSN of a SHUTDOWN, which says nothing about gaps (section 3.3.8).
    pub(crate) fn on_cumulative_tsn(&mut self, tsn: Tsn, cx: &mut SackContext<'_>) -> SackOutcome {
        let before = self.outstanding.in_flight();
        let outcome = self.on_acknowledgement(tsn, None::<core::iter::Empty<(u16, u16)>>, cx);
        // There is no window in a SHUTDOWN: what it acknowledges is taken as room again, or a
        // peer that sends no SACK any more would never get the rest.
        if outcome.acknowledged {
            let after = self.outstanding.in_flight();
            self.window.marked(before.saturating_sub(after));
        }
        if !outcome.stale && !outcome.unsent_tsn {
            self.settle_after_sack(cx);
        }
        outcome
    }

    fn on_acknowledgement(
        &mut self,
        cumulative: Tsn,
        blocks: Option<impl Iterator<Item = (u16, u16)>>,
        cx: &mut SackContext<'_>,
    ) -> SackOutcome {
        const STALE: SackOutcome = SackOutcome {
            stale: true,
            unsent_tsn: false,
            acknowledged: false,
            reneged: 0,
            undone: 0,
        };
        let tsn = cumulative;
        let Some(cumulative) = self.outstanding.index_of(tsn) else {
            return STALE;
        };
        let next = self.outstanding.next_index();
        let reported = blocks.map(|b| ranges(cumulative, b));
        let highest_reported = reported
            .as_ref()
            .and_then(|r| r.back())
            .map_or(cumulative, |r| r.1);
        if highest_reported >= next && self.held.may_be_renumbered(tsn) {
            return STALE;
        }
        if highest_reported >= next {
            return SackOutcome {
                unsent_tsn: true,
                ..SackOutcome::default()
            };
        }
        let many = reported.as_ref().is_some_and(|r| r.len() >= MANY_BLOCKS);
        self.reach = if many { highest_reported } else { u64::MAX };
        let advanced = cumulative >= self.outstanding.first_index();
        for path in cx.paths.iter_mut() {
            path.news = AckNews {
                flight_before: path.flight_size,
                ..AckNews::default()
            };
        }
        let mut htna = None;
        let recovering = self.recovery.is_active();
        self.acknowledge_up_to(cumulative, &mut htna, cx);
        let reneged = match reported {
            Some(reported) => self.acknowledge_ranges(reported, &mut htna, cx),
            None => self.take_back_adjacent(cumulative, cx),
        };
        self.acknowledge_forward(cumulative, cx);
        // Over what was given up, the cumulative TSN advances without news of DATA.
        let acknowledged = htna.is_some() || advanced;
        if acknowledged {
            self.progress = cx.now;
        }
        self.recovery.on_cumulative(cumulative);
        for path in cx.paths.iter_mut() {
            path.recovery.rack.on_sack_end(cx.now);
            path.recovery.on_cumulative(cumulative);
        }
        self.grow_windows(cx);
        if let Some(htna) = htna {
            let below = if recovering && advanced {
                highest_reported.max(htna)
            } else {
                htna
            };
            self.recovery.on_report(below);
            self.detect_losses(cx);
        }
        self.recovery.on_sack_end();
        Self::reduce_in_proportion(cx.paths);
        self.restart_timers(advanced, cx);
        SackOutcome {
            acknowledged,
            reneged,
            ..SackOutcome::default()
        }
    }

    fn acknowledge_up_to(
        &mut self,
        cumulative: u64,
        htna: &mut Option<u64>,
        cx: &mut SackContext<'_>,
    ) {
        while self.outstanding.first_index() <= cumulative {
            let index = self.outstanding.first_index();
            let news = self.acknowledge(index, htna, cx);
            let Some(chunk) = self.outstanding.pop_front() else {
                break;
            };
            if !news && !chunk.is_abandoned() {
                let sacked = &mut cx.paths[chunk.path].recovery.rack.sacked;
                *sacked = sacked.saturating_sub(self.outstanding.weight(chunk.payload.len()));
            }
            if chunk.message != 0 {
                self.abandonment.on_gone(&chunk);
            }
        }
        let acked = &mut self.outstanding.acked;
        while acked.front().is_some_and(|r| r.1 <= cumulative) {
            acked.pop_front();
        }
        if let Some(first) = acked.front_mut() {
            first.0 = first.0.max(cumulative + 1);
        }
    }

    /// Compares the reported ranges with those reported before; returns how many chunks the peer
    /// took back.
    fn acknowledge_ranges(
        &mut self,
        reported: Ranges,
        htna: &mut Option<u64>,
        cx: &mut SackContext<'_>,
    ) -> u64 {
        let before = core::mem::take(&mut self.outstanding.acked);
        let mut reneged = 0;
        subtract(&before, &reported, |index| {
            reneged += 1;
            self.take_back(index, cx);
        });
        subtract(&reported, &before, |index| {
            self.acknowledge(index, htna, cx);
            let chunk = self.outstanding.chunk(index);
            if let Some(chunk) = chunk.filter(|c| !c.is_abandoned()) {
                let weight = self.outstanding.weight(chunk.payload.len());
                cx.paths[chunk.path].recovery.rack.sacked += weight;
            }
        });
        self.outstanding.acked = reported;
        reneged
    }

    /// A peer that has what it reported behind the cumulative TSN would have acknowledged it
    /// cumulatively: it took it back, and a SHUTDOWN has no gap blocks to say so.
    fn take_back_adjacent(&mut self, cumulative: u64, cx: &mut SackContext<'_>) -> u64 {
        let acked = &mut self.outstanding.acked;
        let Some((from, to)) = acked.pop_front_if(|range| range.0 == cumulative + 1) else {
            return 0;
        };
        (from..=to).for_each(|index| self.take_back(index, cx));
        to - from + 1
    }

    fn take_back(&mut self, index: u64, cx: &mut SackContext<'_>) {
        if let Some(path) = self.outstanding.revoke(index, cx.now, cx.paths) {
            let path = &mut cx.paths[path];
            path.t3.get_or_insert(cx.now + path.rto.value());
        }
        if !self.by_time {
            self.recovery.on_revoked(index);
        }
    }

    /// Returns whether this is news.
    fn acknowledge(
        &mut self,
        index: u64,
        htna: &mut Option<u64>,
        cx: &mut SackContext<'_>,
    ) -> bool {
        let tsn = self.outstanding.tsn(index);
        let Some((chunk, weight)) = self.outstanding.acknowledge(index, cx.paths) else {
            return false;
        };
        let (id, transmissions, ambiguous) = (chunk.path, chunk.transmissions, chunk.ambiguous);
        let delivery = Delivery {
            index,
            serial: chunk.serial,
            sent: chunk.sent,
            once: transmissions == 1,
            clear: !ambiguous && !chunk.taken_back,
        };
        *htna = Some(htna.map_or(index, |h| h.max(index)));
        cx.trace.record(cx.now, TraceEvent::ChunkAcked { tsn });
        let path = &mut cx.paths[id];
        path.news.bytes += weight;
        path.news.alive |= !ambiguous;
        if transmissions == 1 {
            path.ect.on_acknowledged();
        }
        path.news.earliest |= path.earliest == Some(index);
        path.news.highest = path.news.highest.max(index);
        path.after_timeout = None;
        if let Some(rtt) = path.recovery.rack.on_delivered(&delivery, cx.now) {
            path.news.rtt = Some(rtt);
            path.recovery.probe.measured = true;
        }
        Self::probe_acknowledged(path, index, cx.now);
        if let Some((timed, sent)) = path.timed.filter(|t| t.0 <= index) {
            // A sample is good only if it was made of one round trip on this path: the chunk was
            // sent once, and the SACK came back the same way.
            path.timed = None;
            if timed == index && transmissions == 1 && cx.arrived_on == Some(id) {
                let rtt = cx.now.since(sent);
                path.rto.measured(rtt, cx.config);
                cx.trace.record(
                    cx.now,
                    TraceEvent::RoundTrip {
                        path: id,
                        nanos: rtt.as_nanos() as u64,
                    },
                );
            } else if timed == index && transmissions == 1 {
                path.heartbeat.unmeasured = true;
            }
        }
        true
    }

    /// C1 of RFC 3758 section 3.5. A FORWARD-TSN that arrived shows that its path works.
    fn acknowledge_forward(&mut self, cumulative: u64, cx: &mut SackContext<'_>) {
        let forward = self.abandonment.forward_mut();
        if let Some(Some(path)) = forward.and_then(|f| f.on_cumulative(cumulative)) {
            cx.paths[path].news.alive = true;
            cx.paths[path].after_timeout = None;
        }
    }

    fn grow_windows(&mut self, cx: &mut SackContext<'_>) {
        let all_acknowledged = self.outstanding.is_empty();
        let next = self.outstanding.next_index();
        for path in cx.paths.iter_mut() {
            let bytes = path.news.bytes;
            if bytes > 0 {
                path.last_ack = Some(cx.now);
                let fast_recovery = if self.by_time {
                    path.recovery.is_fast()
                } else {
                    self.recovery.is_active()
                };
                path.congestion.on_ack(&Acknowledged {
                    bytes,
                    flight_before: path.news.flight_before,
                    fast_recovery,
                    all_acknowledged,
                    now: cx.now,
                    rtt: path.news.rtt,
                    window_limited: path.window_limited,
                    highest: path.news.highest,
                    next,
                });
            }
            // A SACK for n packets stands for the n/2 SACKs that RFC 9260 expects for them.
            let sacks = (bytes / (2 * path.pmdcs())).max(1);
            path.burst_limit =
                path.flight_size + cx.config.max_burst as usize * sacks * path.pmdcs();
            if bytes > 0 && cx.trace.enabled() {
                cx.trace.record(cx.now, window_event(path));
            }
        }
    }

    /// R2 and R3 of section 6.3.2.
    fn restart_timers(&mut self, advanced: bool, cx: &mut SackContext<'_>) {
        for path in cx.paths.iter_mut() {
            if path.flight_size == 0 {
                path.earliest = None;
                path.recovery.probe.timer = None;
                if !self.abandonment.awaits_forward_on(path.id) {
                    path.t3 = None;
                } else if advanced {
                    path.t3 = Some(cx.now + path.rto.value());
                }
                continue;
            }
            if path.news.earliest {
                path.t3 = Some(cx.now + path.rto.value());
            }
            if path.news.bytes > 0 {
                Self::arm_probe(path, cx.now, cx.config);
            }
            let known = path.earliest.unwrap_or(0);
            path.earliest = self.outstanding.find_earliest(path.id, known);
        }
    }

    fn update_window(&mut self, a_rwnd: u32, cx: &mut SackContext<'_>) {
        let mut next = self.next_payload(cx.paths, cx.config);
        let in_flight = self.outstanding.in_flight();
        let rwnd = (a_rwnd as usize).saturating_sub(in_flight);
        let full = cx.paths[cx.paths.current()].pmdcs() - self.outstanding.header_len();
        if self.is_silly(rwnd, full, cx.config) {
            // No room: the probe that is due some day must not wait for ever for the SACKs to end
            // that come with each repeated SHUTDOWN.
            next = usize::MAX;
        }
        let index = self.first_awaited();
        let first = self.outstanding.chunk(index).map(|c| c.payload.len());
        if !self.window.on_sack(a_rwnd, in_flight, next, first) {
            return;
        }
        // The peer dropped the probe when it had no room; now it has.
        if self.outstanding.mark(index, LossSignal::Timeout, cx.paths) {
            self.window.marked(first.unwrap_or(0));
            self.restart_timers(false, cx);
        }
        self.forced = self.outstanding.has_marked();
    }
}

pub(super) fn window_event(path: &crate::path::Path) -> TraceEvent {
    TraceEvent::Window {
        path: path.id,
        cwnd: path.congestion.cwnd(),
        ssthresh: path.congestion.ssthresh(),
        flight_size: path.flight_size,
    }
}

/// The gap blocks as ranges of indexes. Blocks that are out of order say nothing that could be
/// relied on and are left out.
fn ranges(cumulative: u64, blocks: impl Iterator<Item = (u16, u16)>) -> Ranges {
    let mut ranges = Ranges::new();
    for (start, end) in blocks {
        let (first, last) = (cumulative + u64::from(start), cumulative + u64::from(end));
        let above = ranges.back().map_or(cumulative, |r: &(u64, u64)| r.1);
        if start == 0 || last < first || first <= above {
            continue;
        }
        if first == above + 1 && !ranges.is_empty() {
            // Blocks should be isolated; joined, they are.
            if let Some(previous) = ranges.back_mut() {
                previous.1 = last;
            }
            continue;
        }
        ranges.push_back((first, last));
    }
    ranges
}

/// Calls `each` for every index in `a` and not in `b`.
fn subtract(a: &Ranges, b: &Ranges, mut each: impl FnMut(u64)) {
    let mut others = b.iter().peekable();
    for &(first, last) in a {
        let mut index = first;
        while index <= last {
            while others.next_if(|r| r.1 < index).is_some() {}
            match others.peek() {
                Some(&&(from, to)) if from <= index => index = to + 1,
                Some(&&(from, _)) => {
                    let end = last.min(from - 1);
                    (index..=end).for_each(&mut each);
                    index = end + 1;
                }
                None => {
                    (index..=last).for_each(&mut each);
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_that_lie_are_left_out() {
        let blocks = [(2, 3), (3, 5), (0, 9), (9, 8), (6, 6), (7, 7)];
        assert_eq!(ranges(100, blocks.into_iter()), [(102, 103), (106, 107)]);
    }

    fn as_ranges(set: &BTreeSet<u64>) -> Ranges {
        let mut ranges = Ranges::new();
        for &i in set {
            match ranges.back_mut() {
                Some(last) if last.1 + 1 == i => last.1 = i,
                _ => ranges.push_back((i, i)),
            }
        }
        ranges
    }

    proptest! {
        #[test]
        fn a_difference_of_ranges_is_that_of_sets(a: BTreeSet<u8>, b: BTreeSet<u8>) {
            let wide = |s: BTreeSet<u8>| s.into_iter().map(u64::from).collect::<BTreeSet<u64>>();
            let (a, b) = (wide(a), wide(b));
            let mut found = Vec::new();
            subtract(&as_ranges(&a), &as_ranges(&b), |i| found.push(i));
            let expected: Vec<u64> = a.difference(&b).copied().collect();
            prop_assert_eq!(found, expected);
        }
    }
}
