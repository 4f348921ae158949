//! Data sender of a TCP connection: congestion control (RFC 5681), limited transmit (RFC 3042), loss recovery with
//! SACK (RFC 6675) or without (RFC 6582), retransmission timeouts (RFC 6298).

use std::collections::VecDeque;
use std::ops::Range;

use carrick_netsim::Time;
use carrick_proto::cc::Acknowledged;

use super::congestion::CongestionWindow;
use super::rto::RetransmissionTimer;
use super::{TcpConfig, TcpCongestion};
use crate::core_time;

/// Duplicate ACKs, or discontiguous ranges reported by SACK, that indicate a loss (`DupThresh`).
const DUP_THRESH: u64 = 3;

/// Loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No recovery.
    Open,
    /// Fast Recovery until `RecoveryPoint` is acknowledged.
    FastRecovery,
    /// After a timeout all unacknowledged data below `RecoveryPoint` counts as lost.
    Timeout,
}

/// Sender of a byte stream. Offsets count the bytes of the stream from 0; the end of a range is exclusive, as are
/// `high_rxt`, `rescue_rxt` and `recovery_point`.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) smss: u64,
    /// Both ends permit SACK.
    sack: bool,
    nagle: bool,
    /// A segment of any size counts as SMSS bytes.
    counts_packets: bool,
    /// Ends of the segments above `una`, as they were sent first.
    ends: VecDeque<u64>,
    capacity: usize,
    /// Window that the peer advertises.
    pub(super) window: u64,
    congestion: CongestionWindow,
    pub(super) timer: RetransmissionTimer,
    /// End of the timed segment, and the time of its transmission.
    timed: Option<(u64, Time)>,
    /// Data from `una` on.
    buffer: VecDeque<u8>,
    /// First byte that is not acknowledged (SND.UNA, `HighACK` + 1).
    pub(super) una: u64,
    /// First byte that was never sent (SND.NXT, `HighData` + 1).
    pub(super) next: u64,
    /// Scoreboard: ranges above `una` that SACK blocks reported, in order.
    sacked: Vec<Range<u64>>,
    phase: Phase,
    recovery_point: u64,
    high_rxt: u64,
    rescue_rxt: u64,
    dup_acks: u64,
    /// Bytes sent by limited transmit, which `FlightSize` excludes.
    limited_transmit: u64,
    /// The first segment is retransmitted whatever the window.
    retransmit_first: bool,
}

impl Sender {
    /// Returns the sender of a connection that is not established.
    pub(super) fn new(config: &TcpConfig, smss: usize) -> Self {
        Self {
            smss: smss as u64,
            sack: config.sack,
            nagle: config.nagle,
            counts_packets: config.congestion == TcpCongestion::Packets,
            ends: VecDeque::new(),
            capacity: config.send_buffer,
            window: 0,
            congestion: CongestionWindow::new(config.congestion, smss),
            timer: RetransmissionTimer::new(config.rto_min),
            timed: None,
            buffer: VecDeque::new(),
            una: 0,
            next: 0,
            sacked: Vec::new(),
            phase: Phase::Open,
            recovery_point: 0,
            high_rxt: 0,
            rescue_rxt: 0,
            dup_acks: 0,
            limited_transmit: 0,
            retransmit_first: false,
        }
    }

    /// Applies the SMSS and the use of SACK that were negotiated.
    pub(super) fn negotiate(&mut self, config: &TcpConfig, smss: usize, sack: bool) {
        (self.smss, self.sack) = (smss as u64, sack);
        self.congestion = CongestionWindow::new(config.congestion, smss);
    }

    /// Appends as much of `data` as fits into the send buffer, and returns its length.
    pub(super) fn send(&mut self, data: &[u8]) -> usize {
        let len = data
            .len()
            .min(self.capacity.saturating_sub(self.buffer.len()));
        self.buffer.extend(&data[..len]);
        len
    }

    /// Returns the number of bytes passed to [`send`](Self::send) that are not acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the data of a range between `una` and the end of the buffer.
    pub(super) fn data(&self, range: Range<u64>) -> Vec<u8> {
        let [start, end] = [range.start, range.end].map(|offset| (offset - self.una) as usize);
        self.buffer.range(start..end).copied().collect()
    }

    /// Processes the acknowledgement of a segment (RFC 6675, section 5); `bare` is a segment without data.
    ///
    /// 1. Update the scoreboard and the cumulative acknowledgement.
    /// 2. End the recovery if `RecoveryPoint` is acknowledged (A), or open the window outside of Fast Recovery.
    /// 3. Count a duplicate ACK, and enter Fast Recovery by (1), (2) and (4).
    pub(super) fn handle_ack(
        &mut self,
        now: Time,
        ack: u64,
        window: u64,
        blocks: &[Range<u64>],
        bare: bool,
    ) {
        if ack < self.una || ack > self.next {
            return;
        }
        // Step 1.
        let flight = self.size(self.una..self.next);
        let acked = ack - self.una;
        let acked_size = self.size(self.una..ack);
        let new_sack = self.update(ack, blocks);
        let is_duplicate = if self.sack {
            new_sack
        } else {
            bare && acked == 0 && flight > 0 && window == self.window
        };
        self.window = window;
        if acked > 0 {
            let rtt = self.acknowledge(now, ack);
            // Step 2.
            match self.phase {
                Phase::FastRecovery if ack < self.recovery_point => self.handle_partial_ack(acked),
                Phase::FastRecovery => self.leave_recovery(),
                Phase::Open | Phase::Timeout => {
                    let window_limited = flight + self.smss > self.congestion.window() as u64;
                    if window_limited || !self.counts_packets {
                        self.congestion.on_ack(&Acknowledged {
                            bytes: acked_size as usize,
                            flight_before: flight as usize,
                            all_acknowledged: ack == self.next,
                            advanced: true,
                            now: core_time(now),
                            rtt,
                            window_limited,
                            highest: ack,
                            next: self.next,
                            ..Acknowledged::default()
                        });
                    }
                    if self.phase == Phase::Open || ack >= self.recovery_point {
                        self.leave_recovery();
                    }
                }
            }
        }
        // Step 3.
        if is_duplicate && self.phase != Phase::Timeout {
            self.dup_acks += 1;
            let is_lost = self.dup_acks >= DUP_THRESH || self.sack && self.lost_end() > self.una;
            // RFC 6582, section 3.2, step 1: without SACK, duplicates after a recovery may be answers to
            // unnecessary retransmissions.
            let is_new_loss = self.sack || self.una == 0 || self.una > self.recovery_point;
            if self.phase == Phase::Open && is_lost && is_new_loss {
                self.enter_recovery();
            }
        }
    }

    /// Marks acknowledged and reported data (`Update`); returns whether a block has data that was not
    /// reported before.
    fn update(&mut self, ack: u64, blocks: &[Range<u64>]) -> bool {
        self.sacked.retain_mut(|range| {
            range.start = range.start.max(ack);
            range.start < range.end
        });
        let mut is_new = false;
        for block in blocks.iter().filter(|_| self.sack) {
            let mut block = block.start.max(ack)..block.end;
            let contains =
                |range: &Range<u64>| range.start <= block.start && block.end <= range.end;
            if block.is_empty() || block.end > self.next || self.sacked.iter().any(contains) {
                continue;
            }
            is_new = true;
            self.sacked.retain(|range| {
                let joins = range.start <= block.end && block.start <= range.end;
                if joins {
                    block = block.start.min(range.start)..block.end.max(range.end);
                }
                !joins
            });
            let at = self
                .sacked
                .partition_point(|range| range.start < block.start);
            self.sacked.insert(at, block);
        }
        is_new
    }

    /// Removes acknowledged data from the buffer and restarts the timer; returns a sample of the round-trip time.
    fn acknowledge(&mut self, now: Time, ack: u64) -> Option<std::time::Duration> {
        self.buffer.drain(..(ack - self.una) as usize);
        self.una = ack;
        self.ends
            .drain(..self.ends.partition_point(|end| *end <= ack));
        self.high_rxt = self.high_rxt.max(ack);
        let timed = self.timed.filter(|(end, _)| *end <= ack);
        let rtt = timed.map(|(_, sent)| now - sent);
        if let Some(rtt) = rtt {
            self.timed = None;
            self.timer.sample(rtt);
        }
        // RFC 6298, rules 5.2 and 5.3.
        self.timer.expirations = 0;
        self.timer.due = None;
        if self.una < self.next {
            self.timer.start(now);
        }
        rtt
    }

    /// Handles an acknowledgement below `RecoveryPoint` in Fast Recovery. Without SACK it indicates that the next
    /// segment was lost, too (RFC 6582, section 3.2, step 3).
    fn handle_partial_ack(&mut self, acked: u64) {
        if self.sack {
            self.dup_acks = 0;
            return;
        }
        self.retransmit_first = true;
        self.dup_acks = (self.dup_acks + 1).saturating_sub(acked.div_ceil(self.smss));
    }

    /// Enters Fast Recovery (RFC 6675, section 5, step 4).
    fn enter_recovery(&mut self) {
        self.phase = Phase::FastRecovery;
        self.recovery_point = self.next;
        let flight = self.size(self.una..self.next) - self.limited_transmit;
        self.congestion.on_loss(flight as usize, false);
        self.high_rxt = self.una;
        self.retransmit_first = true;
    }

    fn leave_recovery(&mut self) {
        self.phase = Phase::Open;
        self.dup_acks = 0;
        self.limited_transmit = 0;
    }

    /// Handles the expiry of the retransmission timer (RFC 6298, rules 5.4 to 5.6). SACK information is discarded
    /// (RFC 2018, section 8), and Fast Recovery ended (RFC 6675, section 5.1).
    pub(super) fn handle_timeout(&mut self) {
        // RFC 5681, section 3.1: ssthresh stays if the retransmission is lost, too.
        if self.timer.expirations == 0 {
            let flight = self.size(self.una..self.next);
            self.congestion.on_loss(flight as usize, true);
        }
        self.timer.expire();
        self.leave_recovery();
        self.phase = Phase::Timeout;
        self.recovery_point = self.next;
        self.high_rxt = self.una;
        self.sacked.clear();
        self.retransmit_first = true;
    }

    /// Returns the next segment of at most `limit` bytes, which is sent now, if the windows allow one.
    pub(super) fn poll_segment(&mut self, now: Time, limit: u64) -> Option<Range<u64>> {
        let segment = if std::mem::take(&mut self.retransmit_first) {
            let gap = self.gap_from(self.una);
            let end = gap.end.min(gap.start + limit);
            (self.high_rxt, self.rescue_rxt) = (end, end);
            gap.start..end
        } else {
            self.next_segment(limit)?
        };
        if segment.start < self.next {
            // Karn's algorithm (RFC 6298, section 3): no sample of data that was sent twice.
            self.timed = self.timed.filter(|(end, _)| *end <= segment.start);
        } else {
            self.ends.push_back(segment.end);
            if self.dup_acks > 0 && self.phase == Phase::Open {
                self.limited_transmit += self.size(segment.clone());
            }
            self.timed.get_or_insert((segment.end, now));
            self.next = segment.end;
        }
        if self.timer.due.is_none() {
            self.timer.start(now);
        }
        Some(segment)
    }

    /// Selects what to send within the windows (`NextSeg`), by the rules (1) to (4) in Fast Recovery.
    fn next_segment(&mut self, limit: u64) -> Option<Range<u64>> {
        let room = (self.congestion.window() as u64).saturating_sub(self.pipe());
        let new = self.new_data(limit, room);
        let gap = self.gap_from(self.high_rxt);
        let mut segment = gap.start..gap.end.min(gap.start + limit);
        match self.phase {
            Phase::Timeout if segment.start < self.recovery_point => {
                segment.end = segment.end.min(self.recovery_point);
                if segment.end - segment.start > room {
                    return None;
                }
                self.high_rxt = segment.end;
                Some(segment)
            }
            Phase::FastRecovery if self.sack => {
                if room < self.smss {
                    return None;
                }
                let highest = self.sacked.last().map_or(self.una, |range| range.end);
                let is_gap = segment.start < highest;
                if is_gap && (segment.start < self.lost_end() || new.is_none()) {
                    self.high_rxt = segment.end;
                    return Some(segment);
                }
                new.or_else(|| self.rescue_segment(limit))
            }
            _ => new,
        }
    }

    /// Returns the highest segment that no block reports, once after a partial acknowledgement: rule (4).
    fn rescue_segment(&mut self, limit: u64) -> Option<Range<u64>> {
        if self.una <= self.rescue_rxt {
            return None;
        }
        let last = self.sacked.last().filter(|range| range.end == self.next);
        let end = last.map_or(self.next, |range| range.start);
        let below = self
            .sacked
            .iter()
            .map(|range| range.end)
            .filter(|at| *at < end);
        let start = below.max().unwrap_or(self.una);
        self.rescue_rxt = self.recovery_point;
        (start < end).then(|| start.max(end.saturating_sub(limit))..end)
    }

    /// Returns the next segment that was never sent.
    fn new_data(&self, limit: u64, room: u64) -> Option<Range<u64>> {
        let flight = self.next - self.una;
        let whole = (self.buffer.len() as u64 - flight).min(limit);
        let len = whole.min(self.window.saturating_sub(flight));
        // Silly window avoidance (RFC 1122, section 4.2.3.4): the peer's window does not cut segments, unless it is
        // smaller than two; and Nagle's algorithm.
        let is_cut = len < whole && 2 * len < self.window;
        let is_held = self.nagle && len < limit && flight > 0;
        let counted = if self.counts_packets { self.smss } else { len };
        (len > 0 && counted <= room && !is_cut && !is_held).then(|| self.next..self.next + len)
    }

    /// Returns the first range of data at or above `from` that was sent and not reported by SACK; empty at the end.
    fn gap_from(&self, from: u64) -> Range<u64> {
        let mut start = from;
        for range in &self.sacked {
            if range.start > start {
                return start..range.start;
            }
            start = start.max(range.end);
        }
        start..self.next
    }

    /// Returns the end of the data that is considered lost unless a block reports it (`IsLost`): above each
    /// byte three reported ranges, or more than two SMSS in them.
    fn lost_end(&self) -> u64 {
        let (mut ranges, mut bytes) = (0, 0);
        let is_enough = |range: &&Range<u64>| {
            ranges += 1;
            bytes += self.size(range.start..range.end);
            ranges >= DUP_THRESH || bytes > (DUP_THRESH - 1) * self.smss
        };
        let lost = self
            .sacked
            .iter()
            .rev()
            .find(is_enough)
            .map_or(self.una, |range| range.start);
        match self.phase {
            Phase::Timeout => lost.max(self.recovery_point),
            _ => lost,
        }
    }

    /// Returns the bytes of a range of sent data, as the congestion window counts them.
    fn size(&self, range: Range<u64>) -> u64 {
        if !self.counts_packets {
            return range.end.saturating_sub(range.start);
        }
        let below = |at: u64| self.ends.partition_point(|end| *end <= at) as u64;
        below(range.end).saturating_sub(below(range.start)) * self.smss
    }

    /// Estimates the bytes in the network (`SetPipe`). Without SACK each duplicate ACK stands for a segment that has
    /// left it, as RFC 5681 inflates the window.
    fn pipe(&self) -> u64 {
        if !self.sack && self.phase != Phase::Timeout {
            let flight = self.size(self.una..self.next);
            return flight.saturating_sub(self.dup_acks * self.smss);
        }
        let lost = self.lost_end();
        let mut pipe = 0;
        let mut gap = self.gap_from(self.una);
        while !gap.is_empty() {
            pipe += self.size(gap.start.max(lost)..gap.end);
            pipe += self.size(gap.start..gap.end.min(self.high_rxt));
            gap = self.gap_from(gap.end);
        }
        pipe
    }
}

#[cfg(test)]
mod tests;
