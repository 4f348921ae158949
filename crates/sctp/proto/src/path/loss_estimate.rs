//! How much a path loses, by what was sent there lately.

/// Chunks after which older ones count half.
const SPAN: u32 = 1024;

/// Chunks sent to a path, and those of them that were found lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossEstimate {
    sent: u32,
    lost: u32,
    pub(crate) sent_total: u64,
    pub(crate) lost_total: u64,
}

portable_struct! { LossEstimate { sent, lost, sent_total, lost_total } }

impl LossEstimate {
    pub(crate) fn on_sent(&mut self) {
        self.sent_total += 1;
        self.sent += 1;
        if self.sent >= 2 * SPAN {
            self.sent /= 2;
            self.lost /= 2;
        }
    }

    pub(crate) fn on_lost(&mut self) {
        self.lost_total += 1;
        self.lost = (self.lost + 1).min(self.sent);
    }

    /// Lost chunks of a million.
    pub(crate) fn ppm(&self) -> u32 {
        let rate = u64::from(self.lost) * 1_000_000 / u64::from(self.sent.max(1));
        rate as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_rate_follows_recent_data() {
        let mut estimate = LossEstimate::default();
        assert_eq!(estimate.ppm(), 0);
        for n in 0..1000 {
            estimate.on_sent();
            if n % 10 == 0 {
                estimate.on_lost();
            }
        }
        assert_eq!(estimate.ppm(), 100_000);
        (0..10 * SPAN).for_each(|_| estimate.on_sent());
        assert!(estimate.ppm() < 1000, "{}", estimate.ppm());
        assert_eq!((estimate.sent_total, estimate.lost_total), (11_240, 100));
    }
}
