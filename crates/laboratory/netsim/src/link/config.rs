//! Configuration of one direction of a link.

use core::time::Duration;

use crate::error::ConfigError;

/// One direction of a link: rate, delay, queue and impairments.
///
/// The default is an ideal link without rate limit, delay or loss. A packet passes, in this order,
/// the MTU check, the queue (with early drop or marking), the transmitter, loss, corruption, delay
/// with jitter and reordering, and duplication.
///
/// ```
/// use core::time::Duration;
/// use carrick_netsim::{LinkConfig, Loss, Queue};
///
/// let satellite = LinkConfig {
///     queue: Queue::packets(50),
///     loss: Loss::Random(0.01),
///     ..LinkConfig::new(1_536_000, Duration::from_millis(250))
/// };
/// assert_eq!(satellite.transmission_time(1028), Duration::from_nanos(5_354_167));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// Rate in bits per second, counted on [`Packet::wire_len`](crate::Packet::wire_len); above 0.
    /// Without a rate, transmission takes no time and the queue is never used.
    pub rate: Option<u64>,
    /// Propagation delay, from the end of the transmission to the arrival.
    pub delay: Duration,
    /// Queue in front of the transmitter.
    pub queue: Queue,
    /// Loss model, applied after the transmission.
    pub loss: Loss,
    /// Random variation of the delay of each packet.
    pub jitter: Jitter,
    /// Lets jitter reorder packets. [`Self::reorder`] does not depend on it.
    pub jitter_overtakes: bool,
    /// Random delaying of single packets, so that later packets overtake them.
    pub reorder: Option<Reorder>,
    /// Interval of the clock at whose ticks packets arrive, the next one after their delay, as with an emulator
    /// that runs in a kernel's timer interrupt. Without one, packets arrive at any time.
    pub tick: Option<Duration>,
    /// Probability that a packet is duplicated.
    pub duplicate: f64,
    /// Probability that payload bits of a packet are inverted: one bit, and each further one with
    /// probability 1/2. The packet is delivered as if the checksums of the link and of UDP had not
    /// detected the error.
    pub corrupt: f64,
    /// Largest IP packet in bytes.
    pub mtu: Option<usize>,
    /// Drops packets above the MTU without an ICMP message to their sender.
    pub mtu_black_hole: bool,
}

impl LinkConfig {
    /// Returns a link of `rate` bits per second and `delay`, with an unlimited queue and no
    /// impairment.
    pub fn new(rate: u64, delay: Duration) -> Self {
        Self {
            rate: Some(rate),
            delay,
            ..Self::default()
        }
    }

    /// Returns a link with a delay and no other effect.
    pub fn delay(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    /// Sets the queue.
    #[must_use]
    pub fn with_queue(mut self, queue: Queue) -> Self {
        self.queue = queue;
        self
    }

    /// Sets the loss model.
    #[must_use]
    pub fn with_loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// Sets the MTU; the link reports larger packets by ICMP.
    #[must_use]
    pub fn with_mtu(mut self, mtu: usize) -> Self {
        self.mtu = Some(mtu);
        self
    }

    /// Returns the transmission time of `wire_len` bytes, rounded up to a nanosecond so that the
    /// link never exceeds its rate.
    pub fn transmission_time(&self, wire_len: usize) -> Duration {
        const BIT_NANOS: u64 = 8 * 1_000_000_000;
        match self.rate {
            Some(rate) => {
                Duration::from_nanos((wire_len as u64).saturating_mul(BIT_NANOS).div_ceil(rate))
            }
            None => Duration::ZERO,
        }
    }

    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first value out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.rate == Some(0) {
            return Err(ConfigError::ZeroRate);
        }
        probability("duplicate", self.duplicate)?;
        probability("corrupt", self.corrupt)?;
        if let Some(reorder) = self.reorder {
            probability("reorder.probability", reorder.probability)?;
        }
        self.queue.validate()?;
        self.loss.validate()
    }
}

pub(crate) fn probability(name: &'static str, value: f64) -> Result<(), ConfigError> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::Probability { name, value })
    }
}

/// Capacity in packets or in bytes of whole IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueLimit {
    /// No limit.
    #[default]
    Unlimited,
    /// At most this many packets.
    Packets(usize),
    /// At most this many bytes.
    Bytes(usize),
}

/// Queue in front of a transmitter: first in, first out. It does not include the packet that is
/// being transmitted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Queue {
    /// Capacity; packets that exceed it are dropped.
    pub limit: QueueLimit,
    /// Queue management below the limit.
    pub management: QueueManagement,
}

impl Queue {
    /// Returns a drop-tail queue of `packets` packets.
    pub const fn packets(packets: usize) -> Self {
        Self {
            limit: QueueLimit::Packets(packets),
            management: QueueManagement::DropTail,
        }
    }

    /// Returns a drop-tail queue of `bytes` bytes of whole IP packets.
    pub const fn bytes(bytes: usize) -> Self {
        Self {
            limit: QueueLimit::Bytes(bytes),
            management: QueueManagement::DropTail,
        }
    }

    /// Sets the queue management.
    #[must_use]
    pub const fn with_management(mut self, management: QueueManagement) -> Self {
        self.management = management;
        self
    }

    fn validate(&self) -> Result<(), ConfigError> {
        match self.management {
            QueueManagement::Red(red) => red.validate(),
            QueueManagement::DropTail | QueueManagement::MarkAbove(_) => Ok(()),
        }
    }
}

/// Queue management below the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum QueueManagement {
    /// Packets are dropped only if the queue is full.
    #[default]
    DropTail,
    /// ECN-capable packets are marked if the queue, before they join it, holds at least this many
    /// packets or bytes (step marking, RFC 8257).
    MarkAbove(QueueLimit),
    /// Random early detection.
    Red(Red),
}

/// Random early detection (Floyd and Jacobson, 1993), with queue lengths in packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Average length below which nothing is dropped.
    pub minimum: f64,
    /// Average length from which everything is dropped; above `minimum`.
    pub maximum: f64,
    /// Probability of a drop as the average reaches `maximum`, 0 to 1.
    pub max_probability: f64,
    /// Weight of a new sample in the average, 0 to 1; the authors used 0.002.
    pub weight: f64,
    /// Marks ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Red {
    fn validate(&self) -> Result<(), ConfigError> {
        probability("red.max_probability", self.max_probability)?;
        probability("red.weight", self.weight)?;
        if self.minimum >= 0.0 && self.minimum < self.maximum {
            Ok(())
        } else {
            Err(ConfigError::RedThresholds {
                minimum: self.minimum,
                maximum: self.maximum,
            })
        }
    }
}

/// Loss model: selects the packets that are lost on the wire, after the queue and the transmission.
///
/// Packets are numbered from 1 as they leave the transmitter; setting a loss model restarts the
/// numbering.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Each packet is lost independently with this probability.
    Random(f64),
    /// Packets are lost in bursts.
    GilbertElliott(GilbertElliott),
    /// Packets n, 2n, 3n, … are lost; n is above 0.
    Every(u64),
    /// The packets with these numbers are lost.
    List(Vec<u64>),
}

impl Loss {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Random(p) => probability("loss", *p),
            Self::GilbertElliott(model) => model.validate(),
            Self::Every(0) => Err(ConfigError::LossEveryZero),
            Self::None | Self::List(_) | Self::Every(_) => Ok(()),
        }
    }
}

/// Two-state model of bursts (Gilbert 1960, Elliott 1963). The initial state is good. For each
/// packet the state changes first, then the loss probability of the new state applies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Transition probability from good to bad, per packet.
    pub p_good_to_bad: f64,
    /// Transition probability from bad to good, per packet; its inverse is the mean length of the
    /// bad state in packets.
    pub p_bad_to_good: f64,
    /// Loss probability in the good state.
    pub loss_good: f64,
    /// Loss probability in the bad state.
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// Returns a model with bursts of `mean_burst` lost packets (at least 1) on average, and a
    /// total loss ratio of `loss`, which must be below 1. No packet is lost between bursts.
    pub fn bursts(loss: f64, mean_burst: f64) -> Self {
        let p_bad_to_good = 1.0 / mean_burst;
        Self {
            p_good_to_bad: p_bad_to_good * loss / (1.0 - loss),
            p_bad_to_good,
            loss_good: 0.0,
            loss_bad: 1.0,
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        probability("loss.p_good_to_bad", self.p_good_to_bad)?;
        probability("loss.p_bad_to_good", self.p_bad_to_good)?;
        probability("loss.loss_good", self.loss_good)?;
        probability("loss.loss_bad", self.loss_bad)
    }
}

/// Random variation of the propagation delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Jitter {
    /// No variation.
    #[default]
    None,
    /// Adds a uniformly distributed delay from zero to this value.
    Uniform(Duration),
    /// Adds a normally distributed value with mean zero; the delay never becomes negative.
    Normal {
        /// Standard deviation.
        standard_deviation: Duration,
    },
}

/// Random delaying of single packets, so that later packets overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a packet is delayed.
    pub probability: f64,
    /// Additional delay.
    pub extra_delay: Duration,
}
