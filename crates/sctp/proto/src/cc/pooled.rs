//! CMT/RPv1 and CMT/RPv2 (Dreibholz, Becke, Adhari, Rathgeb: "On the Impact of Congestion Control for
//! Concurrent Multipath Transfer on Multi-Homed SCTP", 2011; the same: "On the Fairness of Transport
//! Protocols in a Multi-Path Environment", IEEE ICC 2012): all paths together are one resource and
//! behave like one flow.
//!
//! With the share `i` of path P, `b` acknowledged bytes, slow-start threshold `s` and M for PMDCS,
//!
//! ```text
//! slow start            c_P += ceil(i min(b, M))
//! congestion avoidance  c_P += ceil(i M)              for each window acknowledged
//! a loss                s_P = max(c_P - d, ceil(i 4 M), M),  c_P = s_P
//! a timeout             the same s_P,  c_P = M
//!
//! v1:  i = s_P / sum(s_k)                     d = sum(c_k) / 2
//! v2:  i = (c_P / rtt_P) / sum(c_k / rtt_k)   d = c_P max(1/2, sum(c_k / rtt_k) / (2 c_P / rtt_P))
//! ```
//!
//! Version 1 adds the windows of paths regardless of their delay; version 2 adds their rates. A path
//! without losses has no slow-start threshold yet; its window takes the place of the threshold.

use super::Member;
use super::coupled::{FRACTION, Rule, Window, rate};

/// CMT/RPv1: shares by slow-start thresholds.
#[derive(Clone, Copy, Debug)]
pub struct CmtRpV1;

algorithm! { CmtRpV1: "cmt-rpv1", Window<ByThreshold>, couples }

/// CMT/RPv2: shares by rates.
#[derive(Clone, Copy, Debug)]
pub struct CmtRpV2;

algorithm! { CmtRpV2: "cmt-rpv2", Window<ByRate>, couples }

/// Share of one path in the resource of all paths.
#[derive(Clone, Copy, Debug)]
struct Share {
    part: u128,
    whole: u128,
}

portable_struct! { Share { part, whole } }

impl Default for Share {
    fn default() -> Self {
        Self { part: 1, whole: 1 }
    }
}

impl Share {
    fn new(part: u128, whole: u128) -> Self {
        if whole == 0 {
            return Self::default();
        }
        Self { part, whole }
    }

    /// Returns the share of this number of bytes, rounded up.
    fn of(self, bytes: usize) -> usize {
        let share = (bytes as u128 * self.part).div_ceil(self.whole);
        usize::try_from(share).unwrap_or(bytes)
    }

    fn avoidance(self, bytes: usize, cwnd: usize, pmdcs: usize) -> i128 {
        let alone = bytes as i128 * pmdcs as i128 * FRACTION / cwnd.max(1) as i128;
        let share = (alone as u128)
            .saturating_mul(self.part)
            .div_ceil(self.whole);
        i128::try_from(share).unwrap_or(alone)
    }

    fn reduced(self, cwnd: usize, by: usize, pmdcs: usize) -> usize {
        cwnd.saturating_sub(by).max(self.of(4 * pmdcs)).max(pmdcs)
    }
}

#[derive(Debug, Default)]
struct ByThreshold {
    share: Share,
    /// Sum of the windows of all paths, in bytes.
    windows: usize,
}

portable_struct! { ByThreshold { share, windows } }

impl Rule for ByThreshold {
    fn observe(&mut self, members: &[Member], own: usize) {
        let threshold = |m: &Member| match m.ssthresh {
            usize::MAX => m.cwnd as u128,
            known => known as u128,
        };
        let part = members.get(own).map_or(1, threshold);
        self.share = Share::new(part, members.iter().map(threshold).sum());
        self.windows = members.iter().map(|m| m.cwnd).sum();
    }

    fn slow_start(&self, bytes: usize) -> usize {
        self.share.of(bytes)
    }

    fn avoidance(&self, bytes: usize, cwnd: usize, pmdcs: usize) -> i128 {
        self.share.avoidance(bytes, cwnd, pmdcs)
    }

    fn reduced(&self, cwnd: usize, pmdcs: usize) -> usize {
        self.share.reduced(cwnd, self.windows.max(cwnd) / 2, pmdcs)
    }
}

#[derive(Debug, Default)]
struct ByRate {
    share: Share,
}

portable_struct! { ByRate { share } }

impl Rule for ByRate {
    fn observe(&mut self, members: &[Member], own: usize) {
        let part = members.get(own).map_or(1, rate);
        self.share = Share::new(part, members.iter().map(rate).sum());
    }

    fn slow_start(&self, bytes: usize) -> usize {
        self.share.of(bytes)
    }

    fn avoidance(&self, bytes: usize, cwnd: usize, pmdcs: usize) -> i128 {
        self.share.avoidance(bytes, cwnd, pmdcs)
    }

    fn reduced(&self, cwnd: usize, pmdcs: usize) -> usize {
        let Share { part, whole } = self.share;
        let all = (cwnd as u128 * whole).checked_div(2 * part);
        let by = all.map_or(cwnd, |all| usize::try_from(all).unwrap_or(cwnd));
        self.share.reduced(cwnd, by.max(cwnd / 2), pmdcs)
    }
}

#[cfg(test)]
mod tests {
    use super::super::coupled::tests::{PMDCS, member, round, window};
    use super::super::{Acknowledged, CongestionEvent, Controller};
    use super::*;

    #[test]
    fn a_single_path_behaves_like_an_uncoupled_one() {
        let members = [member(20 * PMDCS, 100)];
        let mut w = window::<ByRate>(&members, 0);
        let growth = round(&mut w);
        assert!((950..=1000).contains(&growth), "{growth}");
        w.cwnd = 20 * PMDCS;
        w.on_congestion(CongestionEvent::Loss);
        assert_eq!(w.cwnd, 10 * PMDCS);
        let mut w = window::<ByThreshold>(&members, 0);
        w.on_congestion(CongestionEvent::Loss);
        assert_eq!(w.cwnd, 10 * PMDCS);
    }

    #[test]
    fn version_1_shares_by_slow_start_thresholds() {
        let mut members = [member(30 * PMDCS, 100), member(10 * PMDCS, 10)];
        // i = 30 / 40.
        let growth = round(&mut window::<ByThreshold>(&members, 0));
        assert!((730..=750).contains(&growth), "{growth}");
        // c - (30 + 10) / 2 = 10.
        let mut large = window::<ByThreshold>(&members, 0);
        large.on_congestion(CongestionEvent::Loss);
        assert_eq!(large.cwnd, 10 * PMDCS);
        // 10 - 20 < 0: a share of 1/4 of four packets, one packet.
        let mut small = window::<ByThreshold>(&members, 1);
        small.on_congestion(CongestionEvent::Loss);
        assert_eq!((small.cwnd, small.ssthresh), (PMDCS, PMDCS));
        members[1].ssthresh = usize::MAX;
        let growth = round(&mut window::<ByThreshold>(&members, 1));
        assert!(
            (240..=250).contains(&growth),
            "no threshold: its window, {growth}"
        );
    }

    #[test]
    fn version_2_shares_by_rates() {
        // 30 packets in 100 ms are 300 a second, 10 in 50 ms are 200: i = 3/5 and 2/5.
        let members = [member(30 * PMDCS, 100), member(10 * PMDCS, 50)];
        let growth = round(&mut window::<ByRate>(&members, 0));
        assert!((585..=600).contains(&growth), "{growth}");
        // d = max(1/2, 500 / 600) = 5/6 of 30 packets leaves 5.
        let mut large = window::<ByRate>(&members, 0);
        large.on_congestion(CongestionEvent::Loss);
        assert_eq!(large.cwnd, 5 * PMDCS);
        // d = 500 / 400 > 1: what is left is 2/5 of four packets.
        let mut small = window::<ByRate>(&members, 1);
        small.on_congestion(CongestionEvent::Loss);
        assert_eq!(small.cwnd, 1600);
        small.on_congestion(CongestionEvent::Timeout);
        assert_eq!(small.cwnd, PMDCS);
    }

    #[test]
    fn slow_start_is_shared_too() {
        let members = [member(30 * PMDCS, 100), member(10 * PMDCS, 50)];
        let mut w = window::<ByRate>(&members, 1);
        w.ssthresh = usize::MAX;
        w.on_ack(&Acknowledged {
            bytes: 2 * PMDCS,
            flight_before: 10 * PMDCS,
            ..Acknowledged::default()
        });
        assert_eq!(w.cwnd, 10 * PMDCS + 400);
    }
}
