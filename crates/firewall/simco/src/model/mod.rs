//! Response time of SIMCO over SCTP with several streams, by the model of S. Kiesel and M. Scharf,
//! "Modeling and Performance Evaluation of SCTP as Transport Protocol for Firewall Control" (2006),
//! section 4.
//!
//! Messages are sent in both directions at a constant interval `d`, in turn over `N` streams. A lost
//! message is retransmitted after three SACKs that report it missing; later messages of its stream
//! wait for it. Lost retransmissions, timeouts and overlapping recoveries are neglected, so the model
//! is too optimistic at high loss.

/// Workload of section 4.1, times in ms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PinholeDemand {
    /// 1/λ: mean interval between requests to open a pinhole.
    pub opening_interval: f64,
    /// h: mean of the exponentially distributed lifetime of a pinhole.
    pub holding: f64,
    /// L: refresh interval.
    pub refresh: f64,
}

impl PinholeDemand {
    /// Returns d, the mean interval between transactions, by the paper's approximation: λ·(3/2 + h/L)
    /// of them per unit of time.
    pub fn interval(&self) -> f64 {
        self.opening_interval / (1.5 + self.holding / self.refresh)
    }

    /// Returns d by equation (1) without approximation: n(T) = 2 + ⌊T/L⌋ transactions for a pinhole
    /// with lifetime T.
    pub fn exact_interval(&self) -> f64 {
        let refreshes = 1.0 / ((self.refresh / self.holding).exp() - 1.0);
        self.opening_interval / (2.0 + refreshes)
    }

    /// Returns the mean number of open pinholes.
    pub fn pinholes(&self) -> f64 {
        self.holding / self.opening_interval
    }

    /// Returns the number of streams recommended by equation (5): ⌈RTT·λ·(3/2 + h/L) + 3⌉, for low
    /// loss. With the paper's values it gives 5 when d is exactly 10 ms, while M = ⌈D/d⌉ gives 6 as
    /// soon as D exceeds 5·d by any loss; the paper's text has 6.
    pub fn streams(&self, rtt: f64) -> u32 {
        (rtt / self.interval() + 3.0).ceil() as u32
    }
}

/// Path and traffic of which the model computes the response time, times in ms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResponseTimeModel {
    /// Round-trip time without queues.
    pub rtt: f64,
    /// d: interval between messages of one direction.
    pub interval: f64,
    /// p: packet loss probability, 0 to less than 1, equal in both directions.
    pub loss: f64,
    /// δ: processing time in the end systems.
    pub processing: f64,
}

impl ResponseTimeModel {
    /// Returns the paper's measurement: 20 ms, a message each 10 ms, δ = 0.5 ms.
    pub fn paper(loss: f64) -> Self {
        Self {
            rtt: 20.0,
            interval: 10.0,
            loss,
            processing: 0.5,
        }
    }

    /// Returns D of equation (2): the time between a message's transmission, had it arrived, and the
    /// arrival of its retransmission. Three SACKs must arrive, each with probability (1 - p)².
    pub fn recovery(&self) -> f64 {
        self.rtt + 3.0 * self.interval / (1.0 - self.loss).powi(2)
    }

    /// Returns Q: the number of messages of one stream that wait for a lost one.
    pub fn waiting(&self, streams: u32) -> u32 {
        (self.recovery() / (self.interval * f64::from(streams.max(1)))).floor() as u32
    }

    /// Returns W of equation (3): the mean delay added by waiting in one direction.
    pub fn resequencing(&self, streams: u32) -> f64 {
        let q = f64::from(self.waiting(streams));
        let distance = self.interval * f64::from(streams.max(1));
        self.loss * ((q + 1.0) * self.recovery() - q * (q + 1.0) / 2.0 * distance)
    }

    /// Returns R of equation (4): the mean response time.
    pub fn response(&self, streams: u32) -> f64 {
        self.rtt + 2.0 * self.resequencing(streams) + self.processing
    }

    /// Returns M = ⌈D/d⌉: the number of streams without head-of-line blocking.
    pub fn streams(&self) -> u32 {
        (self.recovery() / self.interval).ceil() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R(N, p) for N = 1, 2, 3, 4 and all of 6, 8, 10.
    const TABLE: [(f64, [f64; 5]); 8] = [
        (0.0, [20.500, 20.500, 20.500, 20.500, 20.500]),
        (0.5, [22.018, 21.409, 21.206, 21.106, 21.003]),
        (1.0, [23.573, 22.337, 21.924, 21.724, 21.512]),
        (2.0, [26.797, 24.248, 23.399, 22.999, 22.549]),
        (3.0, [30.178, 26.239, 24.926, 24.326, 23.613]),
        (5.0, [37.445, 30.472, 28.148, 27.148, 25.824]),
        (7.0, [45.436, 35.068, 31.612, 30.212, 28.156]),
        (10.0, [58.944, 42.722, 37.315, 35.315, 31.907]),
    ];

    const PAPER: PinholeDemand = PinholeDemand {
        opening_interval: 30.0,
        holding: 180_000.0,
        refresh: 120_000.0,
    };

    /// Kiesel and Scharf (2006), equation 4
    #[test]
    fn response_times_match_the_table() {
        for (percent, row) in TABLE {
            let model = ResponseTimeModel::paper(percent / 100.0);
            let columns = [1, 2, 3, 4, 6].into_iter().zip(row);
            for (streams, expected) in columns.chain([(8, row[4]), (10, row[4])]) {
                let response = model.response(streams);
                assert!(
                    (response - expected).abs() < 0.000_5,
                    "p = {percent} %, N = {streams}: {response} and not {expected}"
                );
            }
        }
    }

    /// Kiesel and Scharf (2006), equations 2 and 3
    #[test]
    fn parts_match_their_definition() {
        let model = ResponseTimeModel::paper(0.0);
        assert!((model.recovery() - 50.0).abs() < 1e-9);
        let lossy = ResponseTimeModel::paper(0.05);
        assert!((lossy.recovery() - (20.0 + 30.0 / 0.9025)).abs() < 1e-9);
        assert_eq!([1, 2, 3, 4, 6].map(|n| lossy.waiting(n)), [5, 2, 1, 1, 0]);
        let by_hand: f64 = (0..=5)
            .map(|i| lossy.recovery() - 10.0 * f64::from(i))
            .sum();
        assert!((lossy.resequencing(1) - 0.05 * by_hand).abs() < 1e-9);
    }

    /// Kiesel and Scharf (2006), equation 5, whose closed form gives five
    #[test]
    fn six_streams_suffice() {
        assert_eq!(PAPER.streams(20.0), 5);
        for percent in [0.5, 1.0, 2.0, 3.0, 5.0, 7.0] {
            let model = ResponseTimeModel::paper(percent / 100.0);
            assert_eq!(model.streams(), 6, "{percent} %");
            assert_eq!(model.waiting(6), 0);
        }
        assert_eq!(
            ResponseTimeModel::paper(0.0).streams(),
            5,
            "D is exactly 5 d"
        );
    }

    /// Kiesel and Scharf (2006), equation 1
    #[test]
    fn load_of_the_paper_is_100_transactions_per_second() {
        assert!((PAPER.interval() - 10.0).abs() < 1e-9);
        assert!((PAPER.pinholes() - 6000.0).abs() < 1e-9);
        // n(T) summed over the exponential distribution by hand.
        let by_hand: f64 = 2.0
            + (1..200)
                .map(|k| (-f64::from(k) * 120.0 / 180.0).exp())
                .sum::<f64>();
        assert!((PAPER.exact_interval() - 30.0 / by_hand).abs() < 1e-9);
        assert!((PAPER.exact_interval() - 9.819).abs() < 0.001);
    }
}
