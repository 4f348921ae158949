//! How long a SIMCO transaction takes over SCTP with several streams, by the model of S. Kiesel and
//! M. Scharf, "Modeling and Performance Evaluation of SCTP as Transport Protocol for Firewall
//! Control" (2006), section 4.
//!
//! Messages go both ways at a constant distance `d`, in turn over `N` streams. One that is lost is
//! sent again after three SACKs that miss it; those behind it in its stream wait so long. Losses of
//! retransmissions, timeouts and overlapping recoveries are left out, so that the model is too low
//! where loss is frequent.

/// The workload of section 4.1, times in ms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    /// 1/λ: mean time between two requests to open a pinhole.
    pub opening_interval: f64,
    /// h: mean life of a pinhole, exponentially distributed.
    pub holding: f64,
    /// L: a pinhole's lifetime is extended each time this has passed.
    pub refresh: f64,
}

impl Demand {
    /// d: mean time between two transactions, as the paper approximates it: λ·(3/2 + h/L) of them
    /// in a unit of time.
    pub fn interval(&self) -> f64 {
        self.opening_interval / (1.5 + self.holding / self.refresh)
    }

    /// The same by equation (1) without approximation: n(T) = 2 + ⌊T/L⌋ transactions for a pinhole
    /// of life T.
    pub fn exact_interval(&self) -> f64 {
        let refreshes = 1.0 / ((self.refresh / self.holding).exp() - 1.0);
        self.opening_interval / (2.0 + refreshes)
    }

    /// Pinholes that are open at a time, in the mean.
    pub fn pinholes(&self) -> f64 {
        self.holding / self.opening_interval
    }

    /// The number of streams that equation (5) recommends: ⌈RTT·λ·(3/2 + h/L) + 3⌉, for a small
    /// loss probability. With the paper's values it gives 5 when d is exactly 10 ms, while
    /// M = ⌈D/d⌉ gives 6 as soon as D exceeds 5·d by the least loss; the paper's text says 6.
    pub fn streams(&self, rtt: f64) -> u32 {
        (rtt / self.interval() + 3.0).ceil() as u32
    }
}

/// Path and traffic, times in ms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// The round-trip time without queues.
    pub rtt: f64,
    /// d: time between two messages of one direction.
    pub interval: f64,
    /// p: probability that a packet is lost, 0 to less than 1, the same both ways.
    pub loss: f64,
    /// δ: processing in the end systems.
    pub processing: f64,
}

impl Model {
    /// The paper's measurement: 20 ms, a message each 10 ms, δ = 0.5 ms.
    pub fn paper(loss: f64) -> Self {
        Self {
            rtt: 20.0,
            interval: 10.0,
            loss,
            processing: 0.5,
        }
    }

    /// D of equation (2): from a message's sending, had it arrived, to the arrival of its
    /// retransmission. Three SACKs must arrive, each with probability (1 - p)².
    pub fn recovery(&self) -> f64 {
        self.rtt + 3.0 * self.interval / (1.0 - self.loss).powi(2)
    }

    /// Q: messages of one stream that wait behind a lost one, with `streams` streams.
    pub fn waiting(&self, streams: u32) -> u32 {
        (self.recovery() / (self.interval * f64::from(streams.max(1)))).floor() as u32
    }

    /// W of equation (3): what waiting for a lost message adds to the mean delay of one direction.
    pub fn resequencing(&self, streams: u32) -> f64 {
        let q = f64::from(self.waiting(streams));
        let distance = self.interval * f64::from(streams.max(1));
        self.loss * ((q + 1.0) * self.recovery() - q * (q + 1.0) / 2.0 * distance)
    }

    /// R of equation (4): the mean response time.
    pub fn response(&self, streams: u32) -> f64 {
        self.rtt + 2.0 * self.resequencing(streams) + self.processing
    }

    /// M = ⌈D/d⌉: with so many streams nothing waits behind a lost message; more gain nothing.
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

    const PAPER: Demand = Demand {
        opening_interval: 30.0,
        holding: 180_000.0,
        refresh: 120_000.0,
    };

    #[test]
    fn every_cell_of_the_table_is_met_eq_4() {
        for (percent, row) in TABLE {
            let model = Model::paper(percent / 100.0);
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

    #[test]
    fn the_parts_are_as_defined_eq_2_and_3() {
        let model = Model::paper(0.0);
        assert!((model.recovery() - 50.0).abs() < 1e-9);
        let lossy = Model::paper(0.05);
        assert!((lossy.recovery() - (20.0 + 30.0 / 0.9025)).abs() < 1e-9);
        assert_eq!([1, 2, 3, 4, 6].map(|n| lossy.waiting(n)), [5, 2, 1, 1, 0]);
        let by_hand: f64 = (0..=5)
            .map(|i| lossy.recovery() - 10.0 * f64::from(i))
            .sum();
        assert!((lossy.resequencing(1) - 0.05 * by_hand).abs() < 1e-9);
    }

    #[test]
    fn six_streams_are_enough_though_the_closed_form_says_five_eq_5() {
        assert_eq!(PAPER.streams(20.0), 5);
        for percent in [0.5, 1.0, 2.0, 3.0, 5.0, 7.0] {
            let model = Model::paper(percent / 100.0);
            assert_eq!(model.streams(), 6, "{percent} %");
            assert_eq!(model.waiting(6), 0);
        }
        assert_eq!(Model::paper(0.0).streams(), 5, "exactly at the edge");
    }

    #[test]
    fn the_papers_load_is_about_a_hundred_transactions_a_second_eq_1() {
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
