//! `HyStart++` (RFC 9406): ends slow start when the round-trip time increases, before packets are lost.

use core::time::Duration;

use super::Acknowledged;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// Divisor of the previous round's minimum RTT, which yields the increase that ends slow start.
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
/// Rounds of conservative slow start before congestion avoidance.
const CSS_ROUNDS: u32 = 5;
/// Divisor of the growth in conservative slow start.
pub(super) const CSS_GROWTH_DIVISOR: usize = 4;

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    baseline: Duration,
    rounds: u32,
}

portable_struct! { Conservative { baseline, rounds } }

/// Growth of the window in slow start for one acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// Growth by the acknowledged bytes.
    Full,
    /// Growth by a quarter of the acknowledged bytes.
    Conservative,
    /// No growth: slow start ends.
    Exit,
}

/// Round-trip time samples of one slow start, by rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HyStart {
    /// Number of the chunk whose acknowledgement ends the round.
    end: u64,
    last: Option<Duration>,
    current: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

portable_struct! { HyStart { end, last, current, samples, conservative } }

impl HyStart {
    pub(super) fn on_ack(&mut self, acknowledged: &Acknowledged) -> Pace {
        if let Some(rtt) = acknowledged.rtt {
            self.current = Some(self.current.map_or(rtt, |c| c.min(rtt)));
            self.samples += 1;
        }
        if let Some(current) = self.current.filter(|_| self.samples >= N_RTT_SAMPLE) {
            self.compare(current);
        }
        if acknowledged.highest >= self.end {
            self.end = acknowledged.next;
            self.last = self.current.take().or(self.last);
            self.samples = 0;
            if let Some(css) = &mut self.conservative {
                css.rounds += 1;
                if css.rounds >= CSS_ROUNDS {
                    return Pace::Exit;
                }
            }
        }
        match self.conservative {
            Some(_) => Pace::Conservative,
            None => Pace::Full,
        }
    }

    fn compare(&mut self, current: Duration) {
        match self.conservative {
            // The increase was temporary.
            Some(css) if current < css.baseline => self.conservative = None,
            Some(_) => {}
            None => {
                let risen = self.last.is_some_and(|last| {
                    let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                    current >= last + threshold
                });
                self.conservative = risen.then_some(Conservative {
                    baseline: current,
                    rounds: 0,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sequence of rounds of ten acknowledgements each.
    struct Rounds {
        hystart: HyStart,
        next: u64,
    }

    impl Rounds {
        fn round(&mut self, rtt_ms: u64) -> Pace {
            let first = self.next;
            self.next += 10;
            let mut pace = Pace::Full;
            for n in 0..10 {
                pace = self.hystart.on_ack(&Acknowledged {
                    rtt: Some(Duration::from_millis(rtt_ms)),
                    highest: first + n,
                    next: self.next,
                    ..Acknowledged::default()
                });
                if pace == Pace::Exit {
                    break;
                }
            }
            pace
        }
    }

    fn rounds() -> Rounds {
        Rounds {
            hystart: HyStart::default(),
            next: 0,
        }
    }

    /// RFC 9406, section 4.2
    #[test]
    fn slow_start_ends_five_rounds_after_an_rtt_increase() {
        let mut r = rounds();
        assert_eq!(r.round(80), Pace::Full);
        assert_eq!(r.round(80), Pace::Full);
        assert_eq!(r.round(89), Pace::Full, "less than an eighth");
        assert_eq!(r.round(101), Pace::Conservative);
        let more: alloc::vec::Vec<_> = (0..5).map(|_| r.round(120)).collect();
        assert_eq!(more[..4], [Pace::Conservative; 4]);
        assert_eq!(more[4], Pace::Exit);
    }

    /// RFC 9406, section 4.2
    #[test]
    fn slow_start_resumes_after_a_temporary_rtt_increase() {
        let mut r = rounds();
        r.round(80);
        r.round(80);
        assert_eq!(r.round(95), Pace::Conservative);
        assert_eq!(r.round(85), Pace::Full);
        (0..10).for_each(|_| assert_eq!(r.round(85), Pace::Full));
    }

    /// RFC 9406, section 4.2
    #[test]
    fn rounds_with_few_samples_do_not_end_slow_start() {
        let mut hystart = HyStart::default();
        for (n, rtt) in [(0, 50), (1, 90), (2, 130), (3, 200)] {
            let pace = hystart.on_ack(&Acknowledged {
                rtt: Some(Duration::from_millis(rtt)),
                highest: n,
                next: n + 1,
                ..Acknowledged::default()
            });
            assert_eq!(pace, Pace::Full);
        }
    }
}
