//! What is measured in one simulation.

use carrick_proto::Time;

use super::run::{Life, Run};
use super::setup::{MESSAGE, millis};

/// Names of the parts of a delay, in order.
pub(super) const PARTS: [&str; 4] = [
    "waiting in the sender",
    "loss detection",
    "retransmission",
    "resequencing",
];

/// A delay taken apart, in ms: SEND → first transmission → transmission that brings the chunk →
/// arrival → delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parts(pub(super) [f64; 4]);

impl Parts {
    fn of(life: &Life) -> Self {
        let ms = |from: Time, to: Time| millis(to - from);
        Self([
            ms(life.send, life.first),
            ms(life.first, life.bringing),
            ms(life.bringing, life.arrival),
            ms(life.arrival, life.delivery),
        ])
    }

    /// From SEND to delivery.
    pub(super) fn delay(&self) -> f64 {
        self.0.iter().sum()
    }

    /// From the first transmission to delivery.
    pub(super) fn recovery(&self) -> f64 {
        self.0[1..].iter().sum()
    }
}

/// A message in a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shown {
    /// Its number.
    pub(super) number: usize,
    /// From SEND to delivery, in ms.
    pub(super) delay: f64,
    /// Its chunk was sent more than once.
    pub(super) retransmitted: bool,
}

/// One simulation in numbers.
#[derive(Clone, Debug)]
pub(super) struct Measures {
    /// The delay of each message whose chunk was sent more than once.
    pub(super) retransmitted: Vec<Parts>,
    /// Delivered user data in KByte/s, from the first SEND to the last delivery.
    pub(super) throughput: f64,
    /// Retransmitted messages that were sent three times or more.
    pub(super) again: usize,
    /// Retransmitted messages whose chunk had arrived before any retransmission left.
    pub(super) needless: usize,
    /// Expirations of T3-rtx.
    pub(super) timeouts: u64,
    /// Mean wait of all messages in the sender's queue, in ms.
    pub(super) wait: f64,
    /// The shortest round-trip sample of W', in ms.
    pub(super) shortest_round_trip: Option<f64>,
    /// The messages to show.
    pub(super) shown: Vec<Shown>,
    /// The whole flow, if messages are to be shown: of each so many, the one that took longest.
    pub(super) course: Vec<Shown>,
}

/// Points of [`Measures::course`], at most.
const COURSE: usize = 400;

impl Measures {
    /// Measures a run. For figures, it keeps this many messages around the first retransmission
    /// after message `from`.
    pub(super) fn of(run: &Run, from: usize, shown: usize) -> Option<Self> {
        let lives = &run.lives;
        let resent = |(number, life): (usize, &Life)| (life.transmissions > 1).then_some(number);
        let loss = lives.iter().enumerate().skip(from).find_map(resent);
        let start = loss.unwrap_or(from).saturating_sub(shown / 10);
        let again: Vec<&Life> = lives.iter().filter(|l| l.transmissions > 1).collect();
        let begin = lives.iter().map(|l| l.send).min()?;
        let end = lives.iter().map(|l| l.delivery).max()?;
        let bytes = lives.len() * MESSAGE;
        let waits = lives.iter().map(|l| millis(l.first - l.send));
        let all = || {
            let lives = lives.iter().enumerate();
            lives.map(|(number, life)| Shown {
                number,
                delay: Parts::of(life).delay(),
                retransmitted: life.transmissions > 1,
            })
        };
        Some(Self {
            retransmitted: again.iter().map(|l| Parts::of(l)).collect(),
            throughput: bytes as f64 / 1e3 / (end - begin).as_secs_f64(),
            again: again.iter().filter(|l| l.transmissions > 2).count(),
            needless: again.iter().filter(|l| l.bringing == l.first).count(),
            timeouts: run.timeouts,
            shortest_round_trip: run.shortest_round_trip.map(millis),
            wait: waits.sum::<f64>() / lives.len() as f64,
            shown: all().skip(start).take(shown).collect(),
            course: if shown > 0 {
                longest(&all().collect::<Vec<_>>())
            } else {
                Vec::new()
            },
        })
    }

    /// The mean of each part over the retransmitted messages; `None` if there are none.
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

/// Of each so many messages the one that took longest.
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

/// The mean over repetitions of each part.
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

    fn life(times: [u64; 5], transmissions: u32) -> Life {
        let [send, first, bringing, arrival, delivery] = times.map(Time::from_millis);
        Life {
            send,
            first,
            bringing,
            arrival,
            delivery,
            transmissions,
        }
    }

    fn run() -> Run {
        Run {
            lives: vec![
                life([0, 0, 0, 255, 255], 1),
                life([100, 150, 800, 890, 900], 2),
                life([200, 200, 200, 455, 900], 1),
                life([1000, 1000, 1000, 2000, 2000], 3),
            ],
            timeouts: 1,
            shortest_round_trip: None,
        }
    }

    #[test]
    fn only_retransmitted_messages_count_and_their_parts_add_up() {
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
        assert_eq!(numbers, [2, 3], "a tenth lies before the first loss");
        assert_eq!(measures.course.len(), 4);
        assert!(Measures::of(&run(), 2, 0).unwrap().course.is_empty());
    }

    #[test]
    fn a_long_course_keeps_the_longest_delay_of_each_piece() {
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
    fn nothing_lost_has_no_mean() {
        let mut run = run();
        run.lives.truncate(1);
        assert!(Measures::of(&run, 0, 9).unwrap().mean_parts().is_none());
        run.lives.clear();
        assert!(Measures::of(&run, 0, 9).is_none());
    }
}
