//! Data of a path that a SACK acknowledges for the first time (RFC 9260, section 6.2.1, D), with the RTT
//! samples that it gives (section 6.3.1, C4 and C5).

use core::time::Duration;

use super::Path;
use crate::config::AssociationConfig;
use crate::time::Time;

/// Newly acknowledged data of a path: the effect of the SACK that is being processed. The path writes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct NewlyAcked {
    /// Bytes acknowledged for the first time.
    pub(crate) bytes: usize,
    /// Some of it was sent to no other path, so that this one works.
    pub(crate) proves_path: bool,
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
    probe: Option<u64>,
}

portable_struct! {
    NewlyAcked {
        bytes, proves_path, flight_before, earliest, oldest, loss, highest, rtt, probe,
    }
}

impl NewlyAcked {
    /// No effect.
    pub(super) const NONE: Self = Self {
        bytes: 0,
        proves_path: false,
        flight_before: 0,
        earliest: false,
        oldest: 0,
        loss: false,
        highest: 0,
        rtt: None,
        probe: None,
    };
}

impl Path {
    /// Data that the SACK being processed newly acknowledges.
    pub(crate) fn newly_acked(&self) -> &NewlyAcked {
        &self.data.newly_acked
    }

    /// Begins a SACK, or another event that shows losses.
    pub(crate) fn begin_sack(&mut self) {
        if self.flight.size() == 0 && self.data.changed().is_none() {
            return;
        }
        let data = &mut *self.data;
        data.newly_acked = NewlyAcked {
            flight_before: self.flight.size(),
            oldest: data.recovery.oldest(),
            ..NewlyAcked::NONE
        };
    }

    /// Records the first acknowledgement of a chunk of `bytes` bytes: `once` if it was sent once, `here` if
    /// it was sent to no other path.
    pub(crate) fn on_chunk_acknowledged(
        &mut self,
        index: u64,
        bytes: usize,
        once: bool,
        here: bool,
    ) {
        let newly = &mut self.data.newly_acked;
        newly.bytes += bytes;
        newly.proves_path |= here;
        newly.earliest |= self.flight.earliest() == Some(index);
        newly.highest = newly.highest.max(index);
        if once {
            self.ect.on_acknowledged();
        }
        self.limits.end_after_timeout();
    }

    /// Records the acknowledgement of a FORWARD-TSN, which shows that the path works (RFC 3758, section
    /// 3.5, C1).
    pub(crate) fn on_forward_acknowledged(&mut self) {
        self.data.newly_acked.proves_path = true;
        self.limits.end_after_timeout();
    }

    /// Records the round-trip time of a chunk that was sent once, for congestion control and for the next
    /// tail loss probe (RFC 8985, section 7.2).
    pub(crate) fn on_delivery_measured(&mut self, rtt: Duration) {
        let data = &mut *self.data;
        data.newly_acked.rtt = Some(rtt);
        data.recovery.on_delivery_measured();
    }

    /// Ends the RTT measurement whose chunk, or a later one, is acknowledged. Returns the sample that it
    /// gives: only of a chunk that was sent `once` (section 6.3.1, C5) and of a SACK that arrived on this
    /// path.
    pub(crate) fn sample_rtt(
        &mut self,
        index: u64,
        once: bool,
        arrived_here: bool,
        now: Time,
        config: &AssociationConfig,
    ) -> Option<Duration> {
        let (timed, sent) = self.rto.take_timed(index)?;
        if timed != index || !once {
            return None;
        }
        if !arrived_here {
            self.note_missing_sample();
            return None;
        }
        let rtt = now.since(sent);
        self.rto.measured(rtt, config);
        Some(rtt)
    }

    /// Records the loss of a chunk, which is a congestion event of the path (RFC 9260, section 7.2.4).
    pub(crate) fn on_congestion_loss(&mut self) {
        self.data.newly_acked.loss = true;
    }

    /// Ends the tail loss probe once its chunk or a later one is acknowledged (RFC 8985, section 7.4).
    pub(crate) fn end_probe(&mut self, index: u64, now: Time) {
        if !self.data.recovery.probe().is_sent() {
            return;
        }
        let data = &mut *self.data;
        if let Some(repaired) = data.recovery.end_probe(index, now) {
            data.newly_acked.probe = Some(repaired);
        }
    }

    /// Returns once the chunk that a tail loss probe retransmitted and the SACK acknowledges (RFC 8985,
    /// section 7.4.2).
    pub(crate) fn take_acknowledged_probe(&mut self) -> Option<u64> {
        self.data.changed()?.newly_acked.probe.take()
    }
}
