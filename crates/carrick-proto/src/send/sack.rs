//! Processing of a received SACK or NR-SACK (RFC 9260 sections 6.2.1, 6.3.1 C4 and C5, 6.3.2, 7.2).

use alloc::vec::Vec;

use carrick_wire::{GapAckBlock, NrSack, Sack, Tsn};

use super::outstanding::Ranges;
use super::recovery::Delivery;
use super::{MANY_BLOCKS, Sender};
use crate::config::AssociationConfig;
use crate::congestion::Acknowledged;
use crate::path::{AckNews, PathId, Paths};
use crate::policy::LossSignal;
use crate::time::Time;
use crate::trace::{Trace, TraceEvent};

/// The cumulative TSN is all there is.
const NO_BLOCKS: Option<(
    core::iter::Empty<GapAckBlock>,
    core::iter::Empty<GapAckBlock>,
)> = None;

/// What a SACK changed, for the association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SackOutcome {
    /// Older than what is known: nothing was done.
    pub(crate) stale: bool,
    /// It acknowledges a TSN that was not sent: the association must be aborted (section 12.4).
    pub(crate) unsent_tsn: bool,
    /// It takes back what the peer had promised to keep, whose bytes are gone.
    pub(crate) broken_promise: bool,
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
        let blocks = (sack.gap_ack_blocks(), core::iter::empty());
        let news = (sack.cumulative_tsn_ack, sack.a_rwnd);
        self.on_report(news, blocks, sack.duplicate_tsns(), cx)
    }

    /// Takes an NR-SACK. Its A bit is not asked: what it stands for is listed as well, and the bit had
    /// another meaning once.
    pub(crate) fn on_nr_sack(
        &mut self,
        sack: &NrSack<'_>,
        cx: &mut SackContext<'_>,
    ) -> SackOutcome {
        let blocks = (sack.gap_ack_blocks(), sack.non_renegable_blocks());
        let news = (sack.cumulative_tsn_ack, sack.a_rwnd);
        self.on_report(news, blocks, sack.duplicate_tsns(), cx)
    }

    /// The cumulative TSN and the window; what else has arrived, and what more of it for good; and
    /// what came again.
    fn on_report(
        &mut self,
        (cumulative, a_rwnd): (Tsn, u32),
        blocks: (
            impl Iterator<Item = GapAckBlock>,
            impl Iterator<Item = GapAckBlock>,
        ),
        duplicates: impl Iterator<Item = Tsn> + Clone,
        cx: &mut SackContext<'_>,
    ) -> SackOutcome {
        let mut outcome = self.on_acknowledgement(cumulative, Some(blocks), cx);
        if !outcome.stale && !outcome.unsent_tsn {
            outcome.undone = self.on_duplicates(duplicates, cx);
            self.update_window(a_rwnd, cx);
            self.settle_after_sack(cx);
        }
        outcome
    }

    /// Takes the cumulative TSN of a SHUTDOWN, which says nothing about gaps (section 3.3.8).
    pub(crate) fn on_cumulative_tsn(&mut self, tsn: Tsn, cx: &mut SackContext<'_>) -> SackOutcome {
        let before = self.outstanding.in_flight();
        let outcome = self.on_acknowledgement(tsn, NO_BLOCKS, cx);
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
        blocks: Option<(
            impl Iterator<Item = GapAckBlock>,
            impl Iterator<Item = GapAckBlock>,
        )>,
        cx: &mut SackContext<'_>,
    ) -> SackOutcome {
        const STALE: SackOutcome = SackOutcome {
            stale: true,
            unsent_tsn: false,
            broken_promise: false,
            acknowledged: false,
            reneged: 0,
            undone: 0,
        };
        let tsn = cumulative;
        let Some(cumulative) = self.outstanding.index_of(tsn) else {
            return STALE;
        };
        let next = self.outstanding.next_index();
        let reported = blocks.map(|(renegable, settled)| {
            let settled = ranges(cumulative, settled);
            (union(ranges(cumulative, renegable), &settled), settled)
        });
        let highest_reported = reported
            .as_ref()
            .and_then(|r| r.0.back())
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
        if let Some((reported, _)) = &reported
            && self.is_overtaken(cumulative, reported, cx.arrived_on)
        {
            return STALE;
        }
        let many = reported.as_ref().is_some_and(|r| r.0.len() >= MANY_BLOCKS);
        self.reach = if many { highest_reported } else { u64::MAX };
        let advanced = cumulative >= self.outstanding.first_index();
        for path in cx.paths.iter_mut() {
            path.news = AckNews {
                flight_before: path.flight_size,
                oldest: path.recovery.order.oldest,
                ..AckNews::default()
            };
        }
        let mut htna = None;
        let recovering = self.recovery.is_active();
        self.acknowledge_up_to(cumulative, &mut htna, cx);
        let reneged = match reported {
            Some((reported, settled)) => {
                let news = union(settled, &self.outstanding.settled);
                let before = core::mem::replace(&mut self.outstanding.settled, news);
                let reported = union(reported, &self.outstanding.settled);
                let reneged = self.acknowledge_ranges(reported, &mut htna, cx);
                self.release_settled(&before, cx.paths);
                reneged
            }
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
        }
        self.leave_recoveries(cumulative, cx);
        self.grow_windows(advanced, cx);
        if let Some(htna) = htna {
            let below = if recovering && advanced {
                highest_reported.max(htna)
            } else {
                htna
            };
            self.recovery.on_report(below);
            self.detect_losses(cx);
        }
        self.count_reports(highest_reported, cx);
        self.recovery.on_sack_end();
        Self::reduce_in_proportion(cx.paths);
        self.restart_timers(advanced, cx);
        let first = self.outstanding.settled.front();
        SackOutcome {
            acknowledged,
            reneged,
            broken_promise: first.is_some_and(|r| r.0 == cumulative + 1),
            ..SackOutcome::default()
        }
    }

    /// Frees the bytes of what the peer has for good since `before`.
    fn release_settled(&mut self, before: &Ranges, paths: &mut Paths) {
        let mut news = Vec::new();
        subtract(&self.outstanding.settled, before, |index| news.push(index));
        for index in news {
            if let Some((message, bytes)) = self.outstanding.release(index, paths) {
                self.abandonment.on_settled(message, bytes);
            }
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
            let buffered = &mut cx.paths[chunk.path].buffered;
            *buffered = buffered.saturating_sub(chunk.payload.len());
            if !news && !chunk.is_abandoned() {
                let sacked = &mut cx.paths[chunk.path].recovery.rack.sacked;
                *sacked = sacked.saturating_sub(self.outstanding.weight(chunk.len()));
            }
            if chunk.message != 0 {
                self.abandonment.on_gone(&chunk);
            }
        }
        for above in [&mut self.outstanding.acked, &mut self.outstanding.settled] {
            while above.pop_front_if(|r| r.1 <= cumulative).is_some() {}
            if let Some(first) = above.front_mut() {
                first.0 = first.0.max(cumulative + 1);
            }
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
                let weight = self.outstanding.weight(chunk.len());
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
        let Some(range) = acked.pop_front_if(|range| range.0 == cumulative + 1) else {
            return 0;
        };
        let acked = core::mem::take(acked);
        self.outstanding.acked = union(acked, &self.outstanding.settled);
        let mut taken = Vec::new();
        let range = Ranges::from([range]);
        subtract(&range, &self.outstanding.settled, |index| taken.push(index));
        for &index in &taken {
            self.take_back(index, cx);
        }
        taken.len() as u64
    }

    fn take_back(&mut self, index: u64, cx: &mut SackContext<'_>) {
        if let Some(path) = self.outstanding.revoke(index, cx.now, cx.paths) {
            let path = &mut cx.paths[path];
            path.t3.get_or_insert(cx.now + path.rto.value());
        }
        if self.awaits_reports() {
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
        let leads = chunk.leads;
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
        if self.split {
            let policies = &cx.config.policies;
            let threshold = usize::from(policies.missing_reports);
            let per_sack = policies.multipath.reports_per_sack;
            let reports = &mut path.recovery.split;
            reports.on_delivered(&delivery, leads, per_sack, threshold);
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
                cx.trace.record(cx.now, TraceEvent::rto_of(path));
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

    fn grow_windows(&mut self, advanced: bool, cx: &mut SackContext<'_>) {
        let all_acknowledged = self.outstanding.is_empty();
        let next = self.outstanding.next_index();
        let growth = cx.config.policies.multipath.window_growth;
        for at in 0..cx.paths.len() {
            let Some(id) = cx.paths.nth(at) else { break };
            let bytes = cx.paths[id].news.bytes;
            if bytes > 0 {
                self.couple(id, cx.paths);
            }
            let path = &mut cx.paths[id];
            if bytes > 0 {
                path.last_ack = Some(cx.now);
            }
            let oldest = path.news.oldest != path.recovery.order.oldest;
            if bytes > 0 && growth.permits(oldest || all_acknowledged) {
                let fast_recovery = if self.by_time || self.split {
                    path.recovery.is_fast()
                } else {
                    self.recovery.is_active()
                };
                path.congestion.on_ack(&Acknowledged {
                    bytes,
                    flight_before: path.news.flight_before,
                    fast_recovery,
                    all_acknowledged,
                    advanced,
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
        let first = self.outstanding.chunk(index).map(|c| c.len());
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
fn ranges(cumulative: u64, blocks: impl Iterator<Item = GapAckBlock>) -> Ranges {
    let mut ranges = Ranges::new();
    for GapAckBlock { start, end } in blocks {
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

/// All indexes of both.
pub(super) fn union(a: Ranges, b: &Ranges) -> Ranges {
    if b.is_empty() {
        return a;
    }
    let mut all = Ranges::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.into_iter().peekable(), b.iter().copied().peekable());
    loop {
        let from_a = match (a.peek(), b.peek()) {
            (Some(a), Some(b)) => a.0 <= b.0,
            (next, _) => next.is_some(),
        };
        let Some((first, last)) = (if from_a { a.next() } else { b.next() }) else {
            return all;
        };
        match all.back_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => all.push_back((first, last)),
        }
    }
}

/// Whether all of `b` is in `a`.
pub(super) fn covers(a: &Ranges, b: &Ranges) -> bool {
    let mut wider = a.iter().peekable();
    b.iter().all(|range| {
        while wider.next_if(|w| w.1 < range.0).is_some() {}
        wider
            .peek()
            .is_some_and(|w| w.0 <= range.0 && range.1 <= w.1)
    })
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
        let blocks = blocks.map(|(start, end)| GapAckBlock { start, end });
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
            let both: BTreeSet<u64> = a.union(&b).copied().collect();
            prop_assert_eq!(union(as_ranges(&a), &as_ranges(&b)), as_ranges(&both));
            prop_assert_eq!(covers(&as_ranges(&a), &as_ranges(&b)), b.is_subset(&a));
        }
    }
}
