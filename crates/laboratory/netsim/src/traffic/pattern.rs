//! Patterns of the sending times of a source.

use core::time::Duration;

use crate::error::ConfigError;
use crate::rng::Random;
use crate::time::Time;

/// Distribution of the sending times of a stream. Rates are in bits per second of whole IP packets,
/// above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Packets at a constant rate.
    Constant {
        /// Bits per second.
        rate: u64,
    },
    /// Exponentially distributed intervals.
    Poisson {
        /// Mean bits per second.
        rate: u64,
    },
    /// A constant rate during bursts, no packets between them. Each burst begins with a packet.
    OnOff {
        /// Bits per second during a burst.
        rate: u64,
        /// Duration of bursts.
        on: DurationDistribution,
        /// Duration of the pauses between bursts.
        off: DurationDistribution,
    },
}

/// A distribution of durations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DurationDistribution {
    /// A constant.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Pareto: bursts whose sum over many sources is self-similar for shapes between 1 and 2.
    Pareto {
        /// The mean.
        mean: Duration,
        /// The shape; above 1, or there is no mean.
        shape: f64,
    },
}

impl DurationDistribution {
    fn draw(self, random: &mut Random) -> Duration {
        match self {
            Self::Fixed(duration) => duration,
            Self::Exponential(mean) => random.exponential(mean),
            Self::Pareto { mean, shape } => random.pareto(mean, shape),
        }
    }

    fn validate(self) -> Result<(), ConfigError> {
        match self {
            // NaN counts as out of range, too.
            Self::Pareto { shape, .. } if shape.is_nan() || shape <= 1.0 => {
                Err(ConfigError::ParetoShape(shape))
            }
            _ => Ok(()),
        }
    }
}

impl Pattern {
    fn rate(&self) -> u64 {
        match self {
            Self::Constant { rate } | Self::Poisson { rate } | Self::OnOff { rate, .. } => *rate,
        }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.rate() == 0 {
            return Err(ConfigError::ZeroRate);
        }
        if let Self::OnOff { on, off, .. } = self {
            on.validate()?;
            off.validate()?;
        }
        Ok(())
    }
}

/// State of a pattern for packets of one length.
#[derive(Debug)]
pub(super) struct Schedule {
    pattern: Pattern,
    wire_len: usize,
    next: Time,
    /// Start of the current burst; a constant stream is one endless burst.
    burst_start: Time,
    burst_end: Time,
    sent_in_burst: u64,
}

impl Schedule {
    pub(super) fn new(pattern: Pattern, wire_len: usize, start: Time, random: &mut Random) -> Self {
        let mut schedule = Self {
            pattern,
            wire_len,
            next: start,
            burst_start: start,
            burst_end: Time::MAX,
            sent_in_burst: 0,
        };
        match pattern {
            Pattern::Constant { .. } => {}
            Pattern::Poisson { .. } => schedule.next = start + schedule.poisson_interval(random),
            Pattern::OnOff { on, .. } => schedule.burst_end = start + on.draw(random),
        }
        schedule
    }

    /// Returns the time at which the next packet is due.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Advances to the next packet after one was sent.
    pub(super) fn advance(&mut self, random: &mut Random) {
        if let Pattern::Poisson { .. } = self.pattern {
            self.next += self.poisson_interval(random);
            return;
        }
        self.sent_in_burst += 1;
        // Computed from the start of the burst, so that rounding errors do not accumulate.
        self.next = self.burst_start + self.packets_time(self.sent_in_burst);
        if let Pattern::OnOff { on, off, .. } = self.pattern
            && self.next >= self.burst_end
        {
            self.burst_start = self.burst_end + off.draw(random);
            // A pause of zero must not put a packet before the one just sent.
            self.next = self.burst_start.max(self.next);
            self.burst_start = self.next;
            self.burst_end = self.next + on.draw(random);
            self.sent_in_burst = 0;
        }
    }

    fn packets_time(&self, packets: u64) -> Duration {
        const NANOS: u128 = 1_000_000_000;
        let bits = self.wire_len as u128 * 8 * u128::from(packets);
        let nanos = (bits * NANOS).div_ceil(u128::from(self.pattern.rate()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn poisson_interval(&self, random: &mut Random) -> Duration {
        random.exponential(self.packets_time(1))
    }
}
