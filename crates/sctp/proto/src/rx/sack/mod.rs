//! SACK generation (RFC 9260, sections 6.2 and 6.7).
//!
//! - When a SACK is due: [`SackGenerator`].
//! - Where it goes: [`Receiver::sack_route`], by a rule of [`route`].
//! - What it holds: [`Receiver::write_sack`].
//!
//! The association writes SACKs into packets and bundles them (`association::sack`).

mod route;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use carrick_wire::{
    CHUNK_HEADER_LEN, COMMON_HEADER_LEN, ChunkType, CommonHeader, GapAckBlock, PacketBuilder, Tsn,
    VerificationTag,
};

use super::Receiver;
use super::tsn_map::TsnMap;
use crate::config::AssociationConfig;
use crate::path::PathId;
use crate::range_set::RangeSet;
use crate::research::{BundledDuplicates, GapSacks};
use crate::route::Route;
use crate::time::Time;

/// Duplicate TSNs reported in one SACK at most.
const MAX_DUPLICATES: usize = 64;

/// Length of a SACK without Gap Ack Blocks and duplicate TSNs.
const SACK_LEN: usize = 16;

/// Chunks after which a path that delivered none of them is no longer waited for.
const MAX_IDLE_CHUNKS: u64 = 128;

/// State that decides when a SACK is due.
///
/// A SACK is due at once after
///
/// 1. the first DATA of the association (RFC 9260, section 5.1);
/// 2. DATA with the I bit (RFC 9260, section 6.2);
/// 3. duplicate DATA or an out-of-date FORWARD-TSN (RFC 9260, section 6.2; RFC 3758, section 3.6);
/// 4. DATA that was dropped (RFC 9260, section 6.2);
/// 5. DATA above a gap or DATA that fills one (RFC 9260, section 6.7; RFC 5681, section 4.2);
/// 6. every second packet with DATA (RFC 9260, section 6.2);
/// 7. the receive window opening by a quarter of the buffer (RFC 9260, section 6.2);
///
/// and otherwise SACK.Delay after the first packet that is not acknowledged (RFC 9260, section 6.2).
#[derive(Debug)]
pub(super) struct SackGenerator {
    /// SACK.Delay.
    delay: Duration,
    /// Packets with DATA for each of which a SACK is sent without delay.
    frequency: u32,
    bundled_duplicates: BundledDuplicates,
    /// Packets with DATA since the last SACK.
    packets: u32,
    /// Expiry of the delayed acknowledgement.
    deadline: Option<Time>,
    due: bool,
    /// New data above a gap has arrived since the last SACK.
    new_above_gap: bool,
    has_received: bool,
    // Content of the packet that is being processed.
    chunks: bool,
    new: bool,
    duplicate: bool,
    immediate: bool,
    /// Duplicate TSNs since the last SACK.
    duplicates: Vec<Tsn>,
    /// Route back to the source of the last packet with DATA.
    data_route: Option<Route>,
    /// With [`GapSacks::DelayedAcrossPaths`].
    path_progress: Option<Box<PathProgress>>,
}

portable_struct! {
    SackGenerator {
        delay, frequency, bundled_duplicates, packets, deadline, due, new_above_gap, has_received,
        chunks, new, duplicate, immediate, duplicates, data_route, path_progress,
    }
}

impl SackGenerator {
    pub(super) fn new(config: &AssociationConfig) -> Self {
        let delayed = config.research.policies.multipath.gap_sacks == GapSacks::DelayedAcrossPaths;
        Self {
            delay: config.timers.sack_delay,
            frequency: config.timers.sack_frequency,
            bundled_duplicates: config.research.policies.bundled_duplicates,
            packets: 0,
            deadline: None,
            due: false,
            new_above_gap: false,
            has_received: false,
            chunks: false,
            new: false,
            duplicate: false,
            immediate: false,
            duplicates: Vec::new(),
            data_route: None,
            path_progress: delayed.then(Box::default),
        }
    }

    /// Sets the delay and frequency of SACKs. A running delay is not changed.
    pub(in crate::rx) fn set_timing(&mut self, config: &AssociationConfig) {
        self.delay = config.timers.sack_delay;
        self.frequency = config.timers.sack_frequency;
    }

    /// Records a DATA, I-DATA, FORWARD-TSN or I-FORWARD-TSN chunk of the packet; `immediate` is the
    /// I bit.
    pub(super) fn on_chunk(&mut self, immediate: bool) {
        self.chunks = true;
        self.immediate |= immediate;
    }

    /// Records a chunk with a TSN that was received before.
    pub(super) fn on_duplicate(&mut self, tsn: Tsn) {
        self.duplicate = true;
        if self.duplicates.len() < MAX_DUPLICATES {
            self.duplicates.push(tsn);
        }
    }

    /// Records a chunk that was dropped, so that the peer has to send it again.
    pub(super) fn on_dropped(&mut self) {
        self.due = true;
    }

    /// Records a chunk with a new TSN whose data was discarded (RFC 9260, section 6.5).
    pub(super) fn on_discarded(&mut self) {
        self.new = true;
    }

    /// Records a chunk with a new TSN and this index, which `tsns` has; `had_gaps` is the state
    /// before.
    pub(super) fn on_new(&mut self, index: u64, had_gaps: bool, tsns: &TsnMap) {
        self.new = true;
        let missing = tsns.cumulative_index() + 1;
        if let Some(progress) = &mut self.path_progress
            && !progress.on_new(index, missing)
        {
            return;
        }
        if tsns.has_gaps() {
            self.due = true;
            self.new_above_gap = true;
        } else if had_gaps {
            self.due = true;
        }
    }

    /// Records a FORWARD-TSN that advanced the cumulative TSN; `had_gaps` is the state before.
    pub(super) fn on_forward_tsn(&mut self, had_gaps: bool, tsns: &TsnMap) {
        self.new = true;
        self.due |= had_gaps || tsns.has_gaps();
    }

    /// Records a FORWARD-TSN that is out of date: the last SACK may have been lost.
    pub(super) fn on_old_forward_tsn(&mut self) {
        self.duplicate = true;
    }

    /// Records that the receive window opened.
    pub(super) fn on_window_update(&mut self) {
        self.due = true;
    }

    /// Frees the memory for further duplicates.
    pub(in crate::rx) fn free_unused_memory(&mut self) {
        self.duplicates.shrink_to_fit();
    }

    /// Drops the duplicates to report, whose TSNs are from before a renumbering.
    pub(super) fn clear_duplicates(&mut self) {
        self.duplicates.clear();
    }

    /// Applies the rules that count packets, once all chunks of a packet have been processed.
    pub(super) fn on_packet_end(&mut self, now: Time) {
        if !self.chunks {
            return;
        }
        self.packets += 1;
        let first = self.new && !self.has_received;
        self.has_received |= self.new;
        let duplicate = self.duplicate
            && (!self.new || self.bundled_duplicates == BundledDuplicates::ReportAtOnce);
        if first || self.immediate || duplicate || self.packets >= self.frequency {
            self.due = true;
        } else if self.deadline.is_none() {
            self.deadline = Some(now + self.delay);
        }
        (self.chunks, self.new, self.duplicate, self.immediate) = (false, false, false, false);
    }

    fn is_pending(&self) -> bool {
        self.due || self.packets > 0
    }

    fn deadline(&self) -> Option<Time> {
        if self.due { None } else { self.deadline }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.deadline.is_some_and(|at| at <= now) {
            self.due = true;
        }
    }

    fn on_sent(&mut self) {
        self.packets = 0;
        self.deadline = None;
        self.due = false;
        self.new_above_gap = false;
        self.duplicates.clear();
    }
}

/// Highest TSN received over each path, for [`GapSacks::DelayedAcrossPaths`].
#[derive(Debug, Default)]
struct PathProgress {
    paths: Vec<ReceivedOnPath>,
    /// Number of chunks with a new TSN.
    chunks: u64,
    /// Source of the packet that is being processed.
    current: Option<PathId>,
}

portable_struct! { PathProgress { paths, chunks, current } }

#[derive(Clone, Copy, Debug)]
struct ReceivedOnPath {
    path: Option<PathId>,
    /// Index of the highest TSN.
    highest: u64,
    /// Number of the last chunk.
    last: u64,
}

portable_struct! { ReceivedOnPath { path, highest, last } }

impl PathProgress {
    /// Records a chunk with a new TSN; returns whether the lowest missing one counts as lost, because
    /// every path has delivered a higher one.
    fn on_new(&mut self, index: u64, missing: u64) -> bool {
        self.chunks += 1;
        let (path, now) = (self.current, self.chunks);
        self.paths.retain(|s| now - s.last <= MAX_IDLE_CHUNKS);
        match self.paths.iter_mut().find(|s| s.path == path) {
            Some(received) => {
                received.highest = received.highest.max(index);
                received.last = now;
            }
            None => self.paths.push(ReceivedOnPath {
                path,
                highest: index,
                last: now,
            }),
        }
        self.paths.iter().all(|s| s.highest > missing)
    }
}

impl Receiver {
    /// Returns whether a SACK is to be sent now.
    pub(crate) fn sack_is_due(&self) -> bool {
        self.sack.due
    }

    /// Returns whether anything is to be acknowledged, now or after SACK.Delay.
    pub(crate) fn sack_is_pending(&self) -> bool {
        self.sack.is_pending()
    }

    /// Returns whether the SACK that is due reports new data above a gap, so that the peer counts it
    /// as a missing report (RFC 9260, section 7.2.4).
    pub(crate) fn sack_is_missing_report(&self) -> bool {
        self.sack.due && self.sack.new_above_gap && self.tsns.has_gaps()
    }

    /// Makes a SACK due.
    pub(crate) fn acknowledge_now(&mut self) {
        self.sack.due = true;
    }

    /// Returns whether DATA with a new TSN, or a FORWARD-TSN, has been received.
    pub(crate) fn has_received(&self) -> bool {
        self.sack.has_received
    }

    /// Returns the expiry of the delayed acknowledgement.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.sack.deadline()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.sack.handle_timeout(now);
    }

    /// Returns the length of a SACK that reports all gaps and no duplicates. A SACK that leaves out a
    /// block of the SACK before it reneges (RFC 9260, section 6.2.1, D iii).
    pub(crate) fn sack_len(&self) -> usize {
        SACK_LEN + 4 * self.gap_count()
    }

    /// Writes the SACK into a packet; returns SACK or NR-SACK, the type of the chunk.
    ///
    /// 1. Choose NR-SACK if the peer accepts it and nothing has to be left out
    ///    (draft-natarajan-tsvwg-sctp-nrsack).
    /// 2. Acknowledge the cumulative TSN and advertise the window (RFC 9260, section 6.2).
    /// 3. Report as many Gap Ack Blocks as fit, then duplicate TSNs (RFC 9260, sections 3.3.4 and
    ///    6.2).
    /// 4. Stop the delayed acknowledgement.
    pub(crate) fn write_sack(&mut self, packet: &mut PacketBuilder<'_>) -> ChunkType {
        // Step 1.
        let nr_sack = self.fits_nr_sack(packet.nr_sack_entries());
        // Step 2.
        let cumulative = self.cumulative_tsn();
        let a_rwnd = u32::try_from(self.a_rwnd()).unwrap_or(u32::MAX);
        // Step 3.
        let kind = if nr_sack {
            let (gaps, kept) = (self.renegable_blocks(), self.non_renegable_blocks());
            packet.nr_sack(cumulative, a_rwnd, false, gaps, kept, self.duplicates());
            ChunkType::NR_SACK
        } else {
            let gaps = self.tsns.gap_ack_blocks();
            packet.sack(cumulative, a_rwnd, gaps, self.duplicates());
            ChunkType::SACK
        };
        // Step 4.
        self.sack.on_sent();
        self.buffer.on_window_advertised();
        kind
    }

    /// Returns the type and value of a SACK for a packet of at most `limit` bytes, which is sent
    /// later; see [`Self::write_sack`].
    pub(crate) fn encode_sack(&mut self, limit: usize) -> (ChunkType, Bytes) {
        let header = CommonHeader {
            source_port: 0,
            destination_port: 0,
            tag: VerificationTag(0),
        };
        let mut buf = Vec::new();
        let kind = self.write_sack(&mut PacketBuilder::new(&mut buf, header, limit));
        let value = Bytes::from(buf).slice(COMMON_HEADER_LEN + CHUNK_HEADER_LEN..);
        (kind, value)
    }

    pub(crate) fn has_duplicates(&self) -> bool {
        !self.sack.duplicates.is_empty()
    }

    fn duplicates(&self) -> impl Iterator<Item = Tsn> + '_ {
        self.sack.duplicates.iter().copied()
    }

    /// Returns whether an NR-SACK with this number of blocks and duplicate TSNs at most leaves nothing
    /// out: an NR-SACK that does would report received chunks as missing. `None` means no room at
    /// all.
    fn fits_nr_sack(&mut self, entries: Option<usize>) -> bool {
        let cumulative = self.tsns.cumulative_index();
        let (Some(non_renegable), Some(entries)) = (&mut self.delivery.non_renegable, entries)
        else {
            return false;
        };
        non_renegable.forget_up_to(cumulative);
        if non_renegable.len() > entries {
            // There may be tens of thousands, which are not counted for each SACK.
            return false;
        }
        let renegable = self.renegable_blocks().take(entries + 1).count();
        renegable + self.non_renegable_blocks().count() + self.duplicates().count() <= entries
    }

    /// Blocks above the cumulative TSN whose data was delivered to the user.
    fn non_renegable_blocks(&self) -> impl Iterator<Item = GapAckBlock> + '_ {
        let kept = self.delivery.non_renegable.iter().flat_map(RangeSet::iter);
        kept.map(|range| self.tsns.block(range))
    }

    /// Blocks above the cumulative TSN whose data was not delivered to the user yet.
    fn renegable_blocks(&self) -> impl Iterator<Item = GapAckBlock> + '_ {
        let mut kept = self
            .delivery
            .non_renegable
            .iter()
            .flat_map(RangeSet::iter)
            .peekable();
        let mut received = self.tsns.ranges().iter();
        let mut rest = None;
        core::iter::from_fn(move || {
            loop {
                let (first, last) = rest.take().or_else(|| received.next())?;
                while kept.next_if(|k| k.1 < first).is_some() {}
                let Some(&(from, to)) = kept.peek().filter(|k| k.0 <= last) else {
                    return Some((first, last));
                };
                rest = (to < last).then_some((to + 1, last));
                if first < from {
                    return Some((first, from - 1));
                }
            }
        })
        .map(|range| self.tsns.block(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_due_after_duplicate(choice: BundledDuplicates, new: bool) -> bool {
        let mut config = AssociationConfig::rfc9260();
        config.research.policies.bundled_duplicates = choice;
        let mut sack = SackGenerator::new(&config);
        let mut tsns = TsnMap::new(Tsn::new(1));
        let mut receive = |sack: &mut SackGenerator, index| {
            sack.on_chunk(false);
            tsns.insert(index);
            sack.on_new(index, false, &tsns);
        };
        receive(&mut sack, 1);
        sack.on_packet_end(Time::ZERO);
        assert!(sack.due, "the first DATA");
        sack.on_sent();
        sack.on_chunk(false);
        sack.on_duplicate(Tsn::new(1));
        if new {
            receive(&mut sack, 2);
        }
        sack.on_packet_end(Time::ZERO);
        sack.due
    }

    /// RFC 9260, section 6.2.
    #[test]
    fn duplicates_beside_new_data_are_reported_by_policy() {
        assert!(is_due_after_duplicate(
            BundledDuplicates::ReportAtOnce,
            true
        ));
        assert!(!is_due_after_duplicate(
            BundledDuplicates::ReportLater,
            true
        ));
    }

    /// RFC 9260, section 6.2.
    #[test]
    fn duplicates_alone_are_reported_at_once() {
        assert!(is_due_after_duplicate(
            BundledDuplicates::ReportLater,
            false
        ));
    }

    #[test]
    fn a_tsn_is_lost_when_each_path_delivered_a_higher() {
        let mut progress = PathProgress::default();
        let mut on_new = |path, index, missing| {
            progress.current = Some(PathId(path));
            progress.on_new(index, missing)
        };
        assert!(!on_new(0, 1, 2), "nothing is missing");
        assert!(!on_new(1, 2, 3));
        assert!(!on_new(0, 4, 3), "chunk 3 may be in flight on path 1");
        assert!(!on_new(0, 6, 3));
        assert!(on_new(1, 5, 3), "path 1 has delivered 5");
        assert!(on_new(0, 8, 3));
    }

    #[test]
    fn an_idle_path_is_not_waited_for() {
        let mut progress = PathProgress {
            current: Some(PathId(1)),
            ..PathProgress::default()
        };
        progress.on_new(1, 2);
        progress.current = Some(PathId(0));
        let first = (3..1000).find(|index| progress.on_new(*index, 2));
        assert_eq!(first, Some(3 + MAX_IDLE_CHUNKS));
        assert_eq!(progress.paths.len(), 1);
    }
}
