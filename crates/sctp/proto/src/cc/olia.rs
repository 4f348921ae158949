//! OLIA (Khalili, Gast, Popovic, Le Boudec: "MPTCP Is Not Pareto-Optimal", IEEE/ACM Transactions on
//! Networking, 2013; draft-khalili-mptcp-congestion-control), applied to the paths of SCTP in bytes.
//!
//! In congestion avoidance, the window of path `r` of n grows for each `b` acknowledged bytes by
//!
//! ```text
//! b PMDCS ( c_r / rtt_r^2 / (sum(c_p / rtt_p))^2 + a_r / c_r )
//! ```
//!
//! The first term is the optimal resource pooling. The second moves window from the paths with the largest
//! windows to the best paths that lack one: `a_r` is 1 / (n k) for the k best paths without a largest
//! window, -1 / (n m) for the m paths with the largest windows, and 0 for all further paths. If every best
//! path has one of the largest windows, `a_r` is 0 for all paths. The best paths have the greatest
//! `l^2 / rtt`, where `l` is the number of bytes acknowledged between the last two losses, or since the
//! last loss if that is more. Slow start and the response to losses follow RFC 9260.

use super::Member;
use super::coupled::{FRACTION, Rule, Window, micros, rate};

/// Opportunistic linked increases (OLIA).
#[derive(Clone, Copy, Debug)]
pub struct Olia;

algorithm! { Olia: "olia", Window<Opportunistic>, couples }

#[derive(Debug, Default)]
struct Opportunistic {
    /// `c_r / rtt_r^2` of this path.
    own: u128,
    /// Square of the sum of the paths' rates.
    total_squared: u128,
    /// 1 / `a_r`, with its sign; 0 for an `a_r` of 0.
    alpha_inverse: i128,
    /// Bytes acknowledged since the last loss.
    since: u64,
    /// Bytes acknowledged between the last two losses.
    between: u64,
}

portable_struct! { Opportunistic { own, total_squared, alpha_inverse, since, between } }

impl Rule for Opportunistic {
    fn observe(&mut self, members: &[Member], own: usize) {
        let total: u128 = members.iter().map(rate).sum();
        self.total_squared = total * total;
        self.own = members
            .get(own)
            .map_or(0, |m| rate(m) * 1_000_000 / micros(m.rtt));
        let quality = |m: &Member| u128::from(m.between_losses).pow(2) / micros(m.rtt);
        let best = members.iter().map(quality).max().unwrap_or(0);
        let largest = members.iter().map(|m| m.cwnd).max().unwrap_or(0);
        let is_collected = |m: &&Member| quality(m) == best && m.cwnd < largest;
        let collected = members.iter().filter(is_collected).count();
        let largest_ones = members.iter().filter(|m| m.cwnd == largest).count();
        let n = members.len() as i128;
        self.alpha_inverse = match members.get(own) {
            _ if collected == 0 => 0,
            Some(m) if is_collected(&m) => n * collected as i128,
            Some(m) if m.cwnd == largest => -n * largest_ones as i128,
            _ => 0,
        };
    }

    fn avoidance(&self, bytes: usize, cwnd: usize, pmdcs: usize) -> i128 {
        let product = bytes as i128 * pmdcs as i128 * FRACTION;
        let alone = product / cwnd.max(1) as i128;
        if self.total_squared == 0 {
            return alone;
        }
        let pooled = (product as u128).saturating_mul(self.own) / self.total_squared;
        let moved = alone.checked_div(self.alpha_inverse).unwrap_or(0);
        i128::try_from(pooled).unwrap_or(i128::MAX) + moved
    }

    fn on_acknowledged(&mut self, bytes: usize) {
        self.since = self.since.saturating_add(bytes as u64);
    }

    fn on_lost(&mut self) {
        self.between = core::mem::take(&mut self.since);
    }

    fn between_losses(&self) -> u64 {
        self.since.max(self.between)
    }
}

#[cfg(test)]
mod tests {
    use super::super::coupled::tests::{PMDCS, member, round, window};
    use super::super::{Acknowledged, CongestionEvent, Controller};
    use super::*;

    fn with(cwnd: usize, rtt_ms: u64, between_losses: u64) -> Member {
        Member {
            between_losses,
            ..member(cwnd * PMDCS, rtt_ms)
        }
    }

    #[test]
    fn equal_paths_share_the_growth_of_one_flow() {
        // (c/r^2) / (2c/r)^2 = 1 / (4c): a quarter of a packet a round trip.
        let members = [with(20, 100, 500_000); 2];
        let growth = round(&mut window::<Opportunistic>(&members, 0));
        assert!((240..=250).contains(&growth), "{growth}");
        let alone = round(&mut window::<Opportunistic>(&members[..1], 0));
        assert!((950..=1000).contains(&alone), "{alone}");
    }

    #[test]
    fn a_better_path_gains_window_from_a_larger_one() {
        // c = 10 and 30, one round-trip time: the first terms are 10/1600 and 30/1600 a packet; a is
        // +1/2 and -1/2, so a/c is 1/20 and -1/60. In a round trip: 10 (1/160 + 1/20) = 0.56 packets, and
        // 30 (3/160 - 1/60) = 0.0625.
        let members = [with(10, 100, 900_000), with(30, 100, 100_000)];
        let small = round(&mut window::<Opportunistic>(&members, 0));
        assert!((530..=563).contains(&small), "{small}");
        let large = round(&mut window::<Opportunistic>(&members, 1));
        assert!((60..=63).contains(&large), "{large}");
    }

    #[test]
    fn no_window_moves_if_the_best_path_has_the_largest() {
        let members = [with(10, 100, 100_000), with(30, 100, 900_000)];
        let small = round(&mut window::<Opportunistic>(&members, 0));
        assert!((58..=63).contains(&small), "{small}");
        let large = round(&mut window::<Opportunistic>(&members, 1));
        assert!((540..=563).contains(&large), "{large}");
    }

    #[test]
    fn a_window_may_shrink_but_not_below_a_packet() {
        let members = [with(4, 1000, 900_000), with(5, 1, 0)];
        let mut w = window::<Opportunistic>(&members, 1);
        w.rule.own = 0;
        assert!(round(&mut w) < 0);
        (0..200).for_each(|_| {
            w.on_ack(&Acknowledged {
                bytes: 100 * PMDCS,
                flight_before: 100 * PMDCS,
                ..Acknowledged::default()
            });
        });
        assert!(w.window() >= PMDCS);
    }

    #[test]
    fn bytes_acknowledged_between_losses_are_recorded() {
        let mut w = window::<Opportunistic>(&[with(10, 100, 0)], 0);
        let ack = |bytes| Acknowledged {
            bytes,
            ..Acknowledged::default()
        };
        w.on_ack(&ack(7000));
        w.on_congestion(CongestionEvent::Loss);
        w.on_ack(&ack(2000));
        assert_eq!(w.between_losses(), 7000);
        w.on_ack(&ack(6000));
        assert_eq!(w.between_losses(), 8000);
    }
}
