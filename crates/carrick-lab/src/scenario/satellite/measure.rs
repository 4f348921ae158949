//! Measures of one simulation.

use carrick_proto::Time;

use super::run::{MessageHistory, SimulationRun};
use super::setup::{MESSAGE, kbytes, millis};

/// Parts of a delay, in order.
pub(super) const PARTS: [&str; 4] = [
    "waiting in the sender",
    "loss detection",
    "retransmission",
    "resequencing",
];

/// Parts of a delay in ms: SEND → first transmission → transmission that is delivered → arrival →
/// delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parts(pub(super) [f64; 4]);

impl Parts {
    fn of(history: &MessageHistory) -> Self {
        let ms = |from: Time, to: Time| millis(to - from);
        Self([
            ms(history.send, history.first),
            ms(history.first, history.delivered_by),
            ms(history.delivered_by, history.arrival),
            ms(history.arrival, history.delivery),
        ])
    }

    /// Returns the time from SEND to delivery.
    pub(super) fn delay(&self) -> f64 {
        self.0.iter().sum()
    }

    /// Returns the time from the first transmission to delivery.
    pub(super) fn recovery(&self) -> f64 {
        self.0[1..].iter().sum()
    }
}

/// A message in a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shown {
    /// Number of the message.
    pub(super) number: usize,
    /// Time from SEND to delivery, in ms.
    pub(super) delay: f64,
    /// Its chunk was sent more than once.
    pub(super) retransmitted: bool,
}

/// Results of one simulation.
#[derive(Clone, Debug)]
pub(super) struct Measures {
    /// Delay of each message whose chunk was sent more than once.
    pub(super) retransmitted: Vec<Parts>,
    /// Delivered user data in KByte/s, from the first SEND to the last delivery.
    pub(super) throughput: f64,
    /// Retransmitted messages sent three times or more.
    pub(super) again: usize,
    /// Retransmitted messages whose chunk had arrived before any retransmission.
    pub(super) needless: usize,
    /// Expirations of T3-rtx.
    pub(super) timeouts: u64,
    /// Mean waiting time of all messages in the sender's queue, in ms.
    pub(super) wait: f64,
    /// Shortest round-trip sample of W', in ms.
    pub(super) shortest_round_trip: Option<f64>,
    /// Messages in the figure.
    pub(super) shown: Vec<Shown>,
    /// The whole flow, if messages are shown: of each group, the message with the longest delay.
    pub(super) course: Vec<Shown>,
}

/// Maximum number of points of [`Measures::course`].
const COURSE: usize = 400;

impl Measures {
    /// Evaluates a run. For figures, it keeps `shown` messages from the first retransmission after
    /// message `from`.
    pub(super) fn of(run: &SimulationRun, from: usize, shown: usize) -> Option<Self> {
        let histories = &run.histories;
        let resent = |(number, history): (usize, &MessageHistory)| {
            (history.transmissions > 1).then_some(number)
        };
        let loss = histories.iter().enumerate().skip(from).find_map(resent);
        let start = loss.unwrap_or(from).saturating_sub(shown / 10);
        let again: Vec<&MessageHistory> =
            histories.iter().filter(|l| l.transmissions > 1).collect();
        let begin = histories.iter().map(|l| l.send).min()?;
        let end = histories.iter().map(|l| l.delivery).max()?;
        let bytes = histories.len() * MESSAGE;
        let waits = histories.iter().map(|l| millis(l.first - l.send));
        let all = || {
            let histories = histories.iter().enumerate();
            histories.map(|(number, history)| Shown {
                number,
                delay: Parts::of(history).delay(),
                retransmitted: history.transmissions > 1,
            })
        };
        Some(Self {
            retransmitted: again.iter().map(|l| Parts::of(l)).collect(),
            throughput: kbytes(bytes as f64) / (end - begin).as_secs_f64(),
            again: again.iter().filter(|l| l.transmissions > 2).count(),
            needless: again.iter().filter(|l| l.delivered_by == l.first).count(),
            timeouts: run.timeouts,
            shortest_round_trip: run.shortest_round_trip.map(millis),
            wait: waits.sum::<f64>() / histories.len() as f64,
            shown: all().skip(start).take(shown).collect(),
            course: if shown > 0 {
                longest(&all().collect::<Vec<_>>())
            } else {
                Vec::new()
            },
        })
    }

    /// Returns the mean of each part over the retransmitted messages; `None` if there are none.
    pub(super) fn mean_parts(&self) -> Option<Parts> {
        let n = self.retransmitted.len();
        let mut sums = [0.0; 4];
        for parts in &self.retransmitted {
            for (sum, part) in sums.iter_mut().zip(parts.0) {
                *sum += part;
            }
        }
        (n > 0).then(|| Parts(sums.map(|sum| sum / n as f64)))
    }
}

/// Returns the message with the longest delay of each group.
fn longest(all: &[Shown]) -> Vec<Shown> {
    let pieces = all.chunks(all.len().div_ceil(COURSE).max(1));
    let longest = |piece: &[Shown]| {
        piece
            .iter()
            .copied()
            .max_by(|a, b| a.delay.total_cmp(&b.delay))
    };
    pieces.filter_map(longest).collect()
}

/// Returns the mean over repetitions of each part.
pub(super) fn mean_parts(measures: &[Measures]) -> Parts {
    let means: Vec<Parts> = measures.iter().filter_map(Measures::mean_parts).collect();
    let mut sums = [0.0; PARTS.len()];
    for parts in &means {
        for (sum, part) in sums.iter_mut().zip(parts.0) {
            *sum += part;
        }
    }
    Parts(sums.map(|sum| sum / means.len().max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(times: [u64; 5], transmissions: u32) -> MessageHistory {
        let [send, first, delivered_by, arrival, delivery] = times.map(Time::from_millis);
        MessageHistory {
            send,
            first,
            delivered_by,
            arrival,
            delivery,
            transmissions,
        }
    }

    fn run() -> SimulationRun {
        SimulationRun {
            histories: vec![
                history([0, 0, 0, 255, 255], 1),
                history([100, 150, 800, 890, 900], 2),
                history([200, 200, 200, 455, 900], 1),
                history([1000, 1000, 1000, 2000, 2000], 3),
            ],
            timeouts: 1,
            shortest_round_trip: None,
        }
    }

    #[test]
    fn parts_of_retransmitted_messages_add_up() {
        let measures = Measures::of(&run(), 2, 11).unwrap();
        assert_eq!(measures.retransmitted.len(), 2);
        assert_eq!(measures.retransmitted[0], Parts([50.0, 650.0, 90.0, 10.0]));
        assert!((measures.retransmitted[0].delay() - 800.0).abs() < 1e-9);
        assert!((measures.retransmitted[0].recovery() - 750.0).abs() < 1e-9);
        let mean = measures.mean_parts().unwrap();
        assert!((mean.delay() - 900.0).abs() < 1e-9);
        assert_eq!(
            (measures.again, measures.needless, measures.timeouts),
            (1, 1, 1)
        );
        assert!((measures.throughput - 4.0 / 2.0).abs() < 1e-9);
        assert!((measures.wait - 12.5).abs() < 1e-9);
        let numbers: Vec<usize> = measures.shown.iter().map(|s| s.number).collect();
        assert_eq!(numbers, [2, 3], "a tenth is before the first loss");
        assert_eq!(measures.course.len(), 4);
        assert!(Measures::of(&run(), 2, 0).unwrap().course.is_empty());
    }

    #[test]
    fn long_courses_keep_the_longest_delay_per_group() {
        let all: Vec<Shown> = (0..1000)
            .map(|number| Shown {
                number,
                delay: if number == 500 { 9.0 } else { 1.0 },
                retransmitted: false,
            })
            .collect();
        let course = longest(&all);
        assert!(course.len() <= COURSE);
        assert_eq!(course.iter().filter(|s| s.delay > 5.0).count(), 1);
    }

    #[test]
    fn runs_without_loss_have_no_mean() {
        let mut run = run();
        run.histories.truncate(1);
        assert!(Measures::of(&run, 0, 9).unwrap().mean_parts().is_none());
        run.histories.clear();
        assert!(Measures::of(&run, 0, 9).is_none());
    }
}
