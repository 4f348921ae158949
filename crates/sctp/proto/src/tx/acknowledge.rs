//! Acknowledgement of chunks, and reneging (RFC 9260, section 6.2.1), with RTT samples (section 6.3.1, C4
//! and C5).

use super::Sender;
use super::outstanding::{Ranges, count};
use super::sack_processing::SackContext;
use crate::observer::ObservedEvent;

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
                path.flight_mut().remove_chunk(chunk.payload.len());
                if !newly {
                    let weight = self.outstanding.weight(chunk.len());
                    path.recovery_mut().rack_mut().end_gap_ack(weight);
                }
            }
            if chunk.message != 0 {
                self.abandonment.on_cumulatively_acknowledged(&chunk);
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
            let recovery = cx.paths[chunk.path].recovery_mut();
            recovery.rack_mut().on_gap_ack(weight);
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
        cx.observation
            .record_chunk(cx.now, || ObservedEvent::ChunkAcknowledged { tsn });
        let path = &mut cx.paths[id];
        path.on_chunk_acknowledged(index, chunk.weight, once, !chunk.ambiguous);
        if self.rate_based {
            path.on_data_delivered(chunk.serial, chunk.weight, once, cx.now);
        }
        let recovery = path.recovery_mut();
        if let Some(rtt) = self
            .detector
            .on_acknowledged(recovery, index, &chunk, cx.now)
        {
            path.on_delivery_measured(rtt);
        }
        path.end_probe(index, cx.now);
        let arrived_here = cx.arrived_on == Some(id);
        if let Some(rtt) = path.sample_rtt(index, once, arrived_here, cx.now, cx.config) {
            cx.observation
                .record_chunk(cx.now, || ObservedEvent::RoundTrip {
                    path: id,
                    sample: rtt,
                });
            cx.observation
                .record_chunk(cx.now, || ObservedEvent::rto_of(path));
        }
        true
    }
}
