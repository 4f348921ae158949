//! Heartbeats of one path: reachability, verification and round-trip times (sections 5.4 and 8.3).

use core::time::Duration;

use carrick_wire::padded;

use crate::random::Random;
use crate::time::Time;

/// Length in bytes of the Heartbeat Info that this side sends: a nonce and the number of the path.
pub(crate) const INFO_LEN: usize = 12;

/// Bytes of the HEARTBEAT chunk that carries [`INFO_LEN`] bytes.
pub(crate) const CHUNK_LEN: usize = 4 + padded(4 + INFO_LEN);

/// Heartbeat state of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    /// Heartbeats are sent while the path is idle.
    pub(crate) enabled: bool,
    /// When the next one is due.
    pub(crate) due: Option<Time>,
    /// The one that is not answered: its nonce, when it left, and when it counts as lost.
    pub(crate) pending: Option<Pending>,
    /// One has to be sent now, whatever the timer says.
    pub(crate) requested: bool,
    /// New data was sent since the timer was set, so that the path is not idle.
    pub(crate) used: bool,
    /// New data gave no RTT sample because its SACK arrived on another path; a heartbeat has to measure the
    /// RTT.
    pub(crate) unmeasured: bool,
}

/// A heartbeat on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    pub(crate) nonce: u64,
    pub(crate) sent: Time,
    /// `None` once it has been counted as lost; a late answer still proves the path.
    pub(crate) expires: Option<Time>,
}

impl Heartbeat {
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            due: None,
            pending: None,
            requested: false,
            used: false,
            unmeasured: false,
        }
    }

    /// Sets the next heartbeat: after the interval plus the RTO with its jitter.
    pub(crate) fn schedule(
        &mut self,
        now: Time,
        interval: Duration,
        rto: Duration,
        random: &mut Random,
    ) {
        self.due = Some(now + interval + random.jitter(rto));
        self.used = false;
        self.unmeasured = false;
    }

    /// One is wanted, and none is under way: another would take the place of its nonce, and it would
    /// be neither believed nor counted as lost.
    pub(crate) fn may_leave(&self) -> bool {
        self.requested && self.pending.is_none_or(|p| p.expires.is_none())
    }

    /// Nothing was sent since the timer was set that measures the path (section 8.3).
    pub(crate) fn is_idle(&self) -> bool {
        !self.used || self.unmeasured
    }

    /// A heartbeat leaves; returns what it carries.
    pub(crate) fn sent(
        &mut self,
        now: Time,
        rto: Duration,
        path: u8,
        random: &mut Random,
    ) -> [u8; INFO_LEN] {
        let nonce = random.u64();
        self.pending = Some(Pending {
            nonce,
            sent: now,
            expires: Some(now + rto),
        });
        self.requested = false;
        info(nonce, path)
    }

    /// The answer to the pending heartbeat came; returns when that had been sent. Any other nonce
    /// is not ours and changes nothing.
    pub(crate) fn answered(&mut self, nonce: u64) -> Option<Time> {
        let pending = self.pending.filter(|p| p.nonce == nonce)?;
        self.pending = None;
        Some(pending.sent)
    }

    /// When the timer of this path's heartbeats expires next.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let expires = self.pending.and_then(|p| p.expires);
        crate::time::earliest(expires, self.due)
    }
}

/// The Heartbeat Info with this nonce and number of the path.
pub(crate) fn info(nonce: u64, path: u8) -> [u8; INFO_LEN] {
    let mut info = [0; INFO_LEN];
    info[..8].copy_from_slice(&nonce.to_be_bytes());
    info[8..].copy_from_slice(&u32::from(path).to_be_bytes());
    info
}

/// Reads the nonce and the path's number from an echoed Heartbeat Info of ours.
pub(crate) fn parse_info(info: &[u8]) -> Option<(u64, u8)> {
    let info: &[u8; INFO_LEN] = info.try_into().ok()?;
    let (nonce, path) = info.split_at(8);
    let nonce = u64::from_be_bytes(nonce.try_into().ok()?);
    let path = u8::try_from(u32::from_be_bytes(path.try_into().ok()?)).ok()?;
    Some((nonce, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_nonce_that_was_sent_is_an_answer() {
        let mut random = Random::new([1; 32]);
        let mut heartbeat = Heartbeat::new(true);
        let now = Time::from_millis(5);
        let info = heartbeat.sent(now, Duration::from_secs(1), 3, &mut random);
        let (nonce, path) = parse_info(&info).unwrap();
        assert_eq!(path, 3);
        assert_eq!(heartbeat.answered(nonce ^ 1), None);
        assert_eq!(heartbeat.answered(nonce), Some(now));
        assert_eq!(heartbeat.answered(nonce), None, "an answer counts once");
        assert_eq!(parse_info(&info[1..]), None);
    }

    #[test]
    fn the_period_is_interval_and_rto_with_jitter() {
        let mut random = Random::new([2; 32]);
        let mut heartbeat = Heartbeat::new(true);
        for _ in 0..1000 {
            heartbeat.schedule(
                Time::ZERO,
                Duration::from_secs(30),
                Duration::from_secs(1),
                &mut random,
            );
            let due = heartbeat.due.unwrap();
            assert!(due >= Time::from_millis(30_500) && due < Time::from_millis(31_500));
        }
    }
}
