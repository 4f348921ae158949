//! What a SACK acknowledges, chunk by chunk, and what it takes back (RFC 9260 sections 6.2.1, 6.3.1 C4
//! and C5).

use super::Sender;
use super::outstanding::Arrived;
use super::ranges::{Ranges, subtract};
use super::recovery::Delivery;
use super::sack::SackContext;
use crate::trace::TraceEvent;

impl Sender {
    pub(super) fn acknowledge_up_to(
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
            if !chunk.is_abandoned() {
                let path = &mut cx.paths[chunk.path];
                path.buffered = path.buffered.saturating_sub(chunk.payload.len());
                path.chunks = path.chunks.saturating_sub(1);
                if !news {
                    let sacked = &mut path.recovery.rack.sacked;
                    *sacked = sacked.saturating_sub(self.outstanding.weight(chunk.len()));
                }
            }
            if chunk.message != 0 {
                self.abandonment.on_gone(&chunk);
            }
        }
        let above = &mut self.outstanding.acked;
        while above.pop_front_if(|r| r.1 <= cumulative).is_some() {}
        if let Some(first) = above.front_mut() {
            first.0 = first.0.max(cumulative + 1);
        }
        self.outstanding.settled.forget_up_to(cumulative);
    }

    /// Compares the reported ranges with those reported before, but for what is settled; returns how
    /// many chunks the peer took back.
    pub(super) fn acknowledge_ranges(
        &mut self,
        reported: Ranges,
        htna: &mut Option<u64>,
        cx: &mut SackContext<'_>,
    ) -> u64 {
        let before = core::mem::take(&mut self.outstanding.acked);
        let settled = core::mem::take(&mut self.outstanding.settled);
        let mut reneged = 0;
        subtract(&before, &reported, |first, last| {
            settled.each_outside(first, last, |first, last| {
                reneged += last - first + 1;
                (first..=last).for_each(|index| self.take_back(index, cx));
            });
        });
        subtract(&reported, &before, |first, last| {
            settled.each_outside(first, last, |first, last| {
                (first..=last).for_each(|index| self.acknowledge_above(index, htna, cx));
            });
        });
        self.outstanding.settled = settled;
        self.outstanding.acked = reported;
        reneged
    }

    /// A gap block has this chunk for the first time.
    fn acknowledge_above(&mut self, index: u64, htna: &mut Option<u64>, cx: &mut SackContext<'_>) {
        self.acknowledge(index, htna, cx);
        let chunk = self.outstanding.chunk(index);
        if let Some(chunk) = chunk.filter(|c| !c.is_abandoned()) {
            let weight = self.outstanding.weight(chunk.len());
            cx.paths[chunk.path].recovery.rack.sacked += weight;
        }
    }

    /// A peer that has what it reported behind the cumulative TSN would have acknowledged it
    /// cumulatively: it took it back, and a SHUTDOWN has no gap blocks to say so.
    pub(super) fn take_back_adjacent(&mut self, cumulative: u64, cx: &mut SackContext<'_>) -> u64 {
        let acked = &mut self.outstanding.acked;
        let Some((first, last)) = acked.pop_front_if(|range| range.0 == cumulative + 1) else {
            return 0;
        };
        let settled = core::mem::take(&mut self.outstanding.settled);
        let mut reneged = 0;
        settled.each_outside(first, last, |first, last| {
            reneged += last - first + 1;
            (first..=last).for_each(|index| self.take_back(index, cx));
        });
        self.outstanding.settled = settled;
        reneged
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
        let Some(chunk) = self.outstanding.acknowledge(index, cx.paths) else {
            return false;
        };
        let Arrived {
            path: id,
            weight,
            transmissions,
            ambiguous,
            leads,
            ..
        } = chunk;
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
}
