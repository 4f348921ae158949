//! LIA, the coupled congestion control of Multipath TCP (RFC 6356), applied to the paths of SCTP in bytes.
//!
//! In congestion avoidance, the window `c` of a path grows for each `b` acknowledged bytes by the lesser of
//!
//! ```text
//! alpha b PMDCS / sum(c_i)    and    b PMDCS / c
//! alpha = sum(c_i) max(c_i / rtt_i^2) / (sum(c_i / rtt_i))^2
//! ```
//!
//! (section 3). All paths together thus reach the throughput of one flow on the best path, and no path
//! takes more than a separate flow would. Slow start and the response to losses follow RFC 9260.

use super::Member;
use super::coupled::{FRACTION, Rule, Window, micros, rate};

/// Linked increases (RFC 6356).
#[derive(Clone, Copy, Debug)]
pub struct Lia;

algorithm! { Lia: "lia", Window<Linked>, couples }

/// `alpha / sum(c_i)` as the fraction `best / total_squared`.
#[derive(Debug, Default)]
struct Linked {
    best: u128,
    total_squared: u128,
}

portable_struct! { Linked { best, total_squared } }

impl Rule for Linked {
    fn observe(&mut self, members: &[Member], _: usize) {
        let total: u128 = members.iter().map(rate).sum();
        let by_square = |m: &Member| rate(m) * 1_000_000 / micros(m.rtt);
        self.best = members.iter().map(by_square).max().unwrap_or(0);
        self.total_squared = total * total;
    }

    fn avoidance(&self, bytes: usize, cwnd: usize, pmdcs: usize) -> i128 {
        let product = bytes as i128 * pmdcs as i128 * FRACTION;
        let alone = product / cwnd.max(1) as i128;
        if self.total_squared == 0 {
            return alone;
        }
        let linked = (product as u128).saturating_mul(self.best) / self.total_squared;
        alone.min(i128::try_from(linked).unwrap_or(i128::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::super::coupled::tests::{PMDCS, member, round, window};
    use super::super::{CongestionEvent, Controller};
    use super::*;

    /// RFC 6356, section 3
    #[test]
    fn a_single_path_grows_by_one_packet_per_round_trip() {
        let mut w = window::<Linked>(&[member(20 * PMDCS, 100)], 0);
        let growth = round(&mut w);
        assert!((950..=1000).contains(&growth), "{growth}");
    }

    /// RFC 6356, section 3
    #[test]
    fn two_equal_paths_share_half_a_packet_of_growth() {
        // alpha = 2c (c/r^2) / (2c/r)^2 = 1/2: a quarter of a packet on each path, half a packet in sum.
        let members = [member(20 * PMDCS, 100); 2];
        let mut w = window::<Linked>(&members, 1);
        let growth = round(&mut w);
        assert!((240..=250).contains(&growth), "{growth}");
    }

    /// RFC 6356, section 3
    #[test]
    fn unequal_paths_grow_by_the_linked_increase() {
        // c = 10 and 40 packets, rtt = 50 and 200 ms: c/r = 200 and 200, c/r^2 = 4000 and 1000 a second;
        // alpha / sum(c) = 4000 / 400^2 = 1/40 a packet, so each packet acknowledged adds 1/40 of one.
        let members = [member(10 * PMDCS, 50), member(40 * PMDCS, 200)];
        let fast = round(&mut window::<Linked>(&members, 0));
        assert!((240..=250).contains(&fast), "{fast}");
        // 40 / 40 = 1 packet, within the limit of b PMDCS / c.
        let slow = round(&mut window::<Linked>(&members, 1));
        assert!((960..=1000).contains(&slow), "{slow}");
    }

    /// RFC 6356, section 3
    #[test]
    fn a_path_grows_no_faster_than_a_separate_flow() {
        // The small, fast path has the largest c/r^2: alpha / sum(c) exceeds 1 / c of the large path.
        let members = [member(4 * PMDCS, 1), member(100 * PMDCS, 1000)];
        let growth = round(&mut window::<Linked>(&members, 1));
        assert!((950..=1000).contains(&growth), "{growth}");
    }

    /// RFC 6356, section 3
    #[test]
    fn losses_halve_the_window() {
        let mut w = window::<Linked>(&[member(20 * PMDCS, 100); 2], 0);
        w.on_congestion(CongestionEvent::Loss);
        assert_eq!(w.window(), 10 * PMDCS);
    }
}
