//! Acknowledgement of chunks, and reneging (RFC 9260, section 6.2.1), with RTT samples (section 6.3.1, C4
//! and C5).

use super::Sender;
use super::outstanding::{Ranges, count};
use super::sack_processing::SackContext;
use crate::trace::TraceEvent;

impl Sender {
    /// Acknowledges all chunks up to the Cumulative TSN Ack, and forgets them.
    pub(super) fn acknowledge_up_to(
        &mut self,
        cumulative: u64,
        htna: &mut Option<u64>,
        cx: &mut SackContext<'_>,
    ) {
        while self.outstanding.first_index() <= cumulative {
            let index = self.outstanding.first_index();
            let newly = self.acknowledge(index, htna, cx);
            let Some(chunk) = self.outstanding.pop_front() else {
                break;
            };
            if !chunk.is_abandoned() {
                let path = &mut cx.paths[chunk.path];
                path.buffered = path.buffered.saturating_sub(chunk.payload.len());
                path.chunks = path.chunks.saturating_sub(1);
                if !newly {
                    let sacked = &mut path.recovery.rack.sacked;
                    *sacked = sacked.saturating_sub(self.outstanding.weight(chunk.len()));
                }
            }
            if chunk.message != 0 {
                self.abandonment.on_gone(&chunk);
            }
        }
        self.outstanding.forget_reported_up_to(cumulative);
    }

    /// Compares the reported ranges with those of the last report, except for non-renegable chunks;
    /// returns the number of chunks the peer reneged on.
    pub(super) fn acknowledge_ranges(
        &mut self,
        reported: Ranges,
        htna: &mut Option<u64>,
        cx: &mut SackContext<'_>,
    ) -> u64 {
        let changes = self.outstanding.replace_report(reported);
        let reneged = self.renege_all(&changes.reneged, cx);
        for (first, last) in changes.acknowledged {
            (first..=last).for_each(|index| self.acknowledge_above(index, htna, cx));
        }
        reneged
    }

    /// Acknowledges a chunk that a Gap Ack Block reports for the first time.
    fn acknowledge_above(&mut self, index: u64, htna: &mut Option<u64>, cx: &mut SackContext<'_>) {
        self.acknowledge(index, htna, cx);
        let chunk = self.outstanding.chunk(index);
        if let Some(chunk) = chunk.filter(|c| !c.is_abandoned()) {
            let weight = self.outstanding.weight(chunk.len());
            cx.paths[chunk.path].recovery.rack.sacked += weight;
        }
    }

    /// Reneges on the reported chunks right above the Cumulative TSN Ack of a SHUTDOWN, which has no Gap Ack
    /// Blocks: a peer that had them would have acknowledged them cumulatively.
    pub(super) fn renege_adjacent(&mut self, cumulative: u64, cx: &mut SackContext<'_>) -> u64 {
        let reneged = self.outstanding.take_reported_above(cumulative);
        self.renege_all(&reneged, cx)
    }

    /// Returns chunks to flight; returns their number.
    fn renege_all(&mut self, ranges: &[(u64, u64)], cx: &mut SackContext<'_>) -> u64 {
        for &(first, last) in ranges {
            (first..=last).for_each(|index| self.renege(index, cx));
        }
        count(ranges)
    }

    /// Returns a chunk to flight (RFC 9260, section 6.2.1, D iii), with T3-rtx (section 6.3.2, R4).
    fn renege(&mut self, index: u64, cx: &mut SackContext<'_>) {
        if let Some(path) = self.outstanding.renege(index, cx.now, cx.paths) {
            cx.paths[path].arm_t3(cx.now);
        }
        self.detector.on_reneged(index);
    }

    /// Acknowledges a chunk; returns whether it was not acknowledged before.
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
        let (id, once) = (chunk.path, chunk.transmissions == 1);
        *htna = Some(htna.map_or(index, |h| h.max(index)));
        cx.trace.record(cx.now, TraceEvent::ChunkAcked { tsn });
        let path = &mut cx.paths[id];
        path.news.bytes += chunk.weight;
        if self.rate_based {
            path.on_data_delivered(chunk.serial, chunk.weight, once, cx.now);
        }
        path.news.alive |= !chunk.ambiguous;
        if once {
            path.ect.on_acknowledged();
        }
        path.news.earliest |= path.earliest == Some(index);
        path.news.highest = path.news.highest.max(index);
        path.after_timeout = None;
        let recovery = &mut path.recovery;
        if let Some(rtt) = self
            .detector
            .on_acknowledged(recovery, index, &chunk, cx.now)
        {
            path.news.rtt = Some(rtt);
            path.recovery.probe.measured = true;
        }
        Self::probe_acknowledged(path, index, cx.now);
        if let Some((timed, sent)) = path.timed.filter(|t| t.0 <= index) {
            // An RTT sample takes a chunk that was sent once and a SACK that arrived on the same path.
            path.timed = None;
            if timed == index && once && cx.arrived_on == Some(id) {
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
            } else if timed == index && once {
                path.note_missing_sample();
            }
        }
        true
    }
}
