//! Proportional rate reduction (RFC 6937) on the bytes of one path: during Fast Recovery, data leaves in
//! proportion to what is delivered, so that the flight size falls to ssthresh within a round trip,
//! without a pause and without a burst.

/// State of one Fast Recovery, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::path) struct Reduction {
    /// `RecoverFS`: flight size at the beginning.
    recover: usize,
    delivered: usize,
    sent: usize,
    /// Bytes that may be in flight.
    window: usize,
}

portable_struct! { Reduction { recover, delivered, sent, window } }

impl Reduction {
    /// Begins with the flight size `recover`, of which `flight` is not lost. The first retransmission
    /// leaves in any case.
    pub(in crate::path) fn new(recover: usize, flight: usize) -> Self {
        Self {
            recover: recover.max(1),
            delivered: 0,
            sent: 0,
            window: flight,
        }
    }

    pub(in crate::path) fn window(&self) -> usize {
        self.window
    }

    /// Counts bytes that leave (`prr_out`).
    pub(in crate::path) fn on_sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Processes a SACK that newly acknowledges bytes (RFC 6937, section 3).
    pub(in crate::path) fn on_sack(
        &mut self,
        newly: usize,
        flight: usize,
        ssthresh: usize,
        pmdcs: usize,
    ) {
        self.delivered += newly;
        let allowance = if flight > ssthresh {
            let share = (self.delivered as u128 * ssthresh as u128).div_ceil(self.recover as u128);
            usize::try_from(share).unwrap_or(usize::MAX)
        } else {
            // Below ssthresh, slow start's reduction bound.
            let conserved = self.delivered.saturating_sub(self.sent);
            let limit = conserved.max(newly).saturating_add(pmdcs);
            self.window = flight + limit.min(ssthresh - flight);
            return;
        };
        self.window = flight + allowance.saturating_sub(self.sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: usize = 1000;

    /// RFC 6937, section 3
    #[test]
    fn the_flight_size_falls_to_ssthresh() {
        // The first of 20 segments is lost; ssthresh is 10.
        let mut flight = 19 * MSS;
        let mut prr = Reduction::new(20 * MSS, flight);
        prr.on_sent(MSS);
        let mut left = MSS;
        for _ in 0..19 {
            flight -= MSS;
            prr.on_sack(MSS, flight, 10 * MSS, MSS);
            while flight < prr.window() {
                flight += MSS;
                prr.on_sent(MSS);
                left += MSS;
            }
        }
        assert!((9 * MSS..=11 * MSS).contains(&flight), "{flight}");
        assert!((9 * MSS..=11 * MSS).contains(&left), "{left}");
    }

    /// RFC 6937, section 3
    #[test]
    fn below_ssthresh_the_flight_size_grows() {
        let mut prr = Reduction::new(20 * MSS, 2 * MSS);
        prr.on_sent(MSS);
        prr.on_sack(2 * MSS, MSS, 10 * MSS, MSS);
        assert_eq!(prr.window(), MSS + 3 * MSS);
        prr.on_sack(2 * MSS, 9 * MSS, 10 * MSS, MSS);
        assert_eq!(prr.window(), 10 * MSS, "not beyond ssthresh");
    }
}
