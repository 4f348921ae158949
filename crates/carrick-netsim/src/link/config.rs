//! What one direction of a link does to packets.

use core::time::Duration;

use crate::error::ConfigError;

/// One direction of a link: its rate, delay, queue and impairments.
///
/// The default is a perfect wire: no limit of rate, no delay, nothing lost. A packet passes, in
/// this order: the MTU, the queue (with early drop or marking), the transmitter, loss, corruption,
/// delay with jitter and reordering, duplication.
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
    /// Bits per second, counted on [`Packet::wire_len`](crate::Packet::wire_len); above 0.
    /// Without a rate, transmission takes no time and the queue is never used.
    pub rate: Option<u64>,
    /// Propagation delay, from the end of the transmission to the arrival.
    pub delay: Duration,
    /// Where packets wait for the transmitter.
    pub queue: Queue,
    /// Which packets vanish on the wire.
    pub loss: Loss,
    /// Random change of the delay of each packet.
    pub jitter: Jitter,
    /// Whether jitter may let packets overtake each other. Reordering by [`Self::reorder`] is
    /// independent of it.
    pub jitter_overtakes: bool,
    /// Packets held back so that later ones overtake them.
    pub reorder: Option<Reorder>,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Probability that payload bits of a packet flip: one bit, and with probability 1/2 each one
    /// more. The packet is delivered as if the checksums of the link and of UDP had missed it.
    pub corrupt: f64,
    /// Largest IP packet in bytes.
    pub mtu: Option<usize>,
    /// Whether packets above the MTU vanish without an ICMP message to their sender.
    pub mtu_black_hole: bool,
}

impl LinkConfig {
    /// A link of `rate` bits per second and `delay`, with an endless queue and no impairment.
    pub fn new(rate: u64, delay: Duration) -> Self {
        Self {
            rate: Some(rate),
            delay,
            ..Self::default()
        }
    }

    /// A link that only delays.
    pub fn delay(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    /// The same link with this queue.
    #[must_use]
    pub fn with_queue(mut self, queue: Queue) -> Self {
        self.queue = queue;
        self
    }

    /// The same link with this loss.
    #[must_use]
    pub fn with_loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// The same link with this MTU, which it reports by ICMP.
    #[must_use]
    pub fn with_mtu(mut self, mtu: usize) -> Self {
        self.mtu = Some(mtu);
        self
    }

    /// How long sending `wire_len` bytes takes, rounded up to a nanosecond so that the link is
    /// never faster than its rate.
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
    /// Names the first value out of its range.
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

/// How much something holds, in packets or in bytes of whole IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    #[default]
    Unlimited,
    /// At most this many packets.
    Packets(usize),
    /// At most this many bytes.
    Bytes(usize),
}

/// The queue in front of a transmitter: first in, first out. The packet that is being transmitted
/// has left it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Queue {
    /// What fits; a packet that doesn't is dropped.
    pub limit: Limit,
    /// What happens before the queue is full.
    pub management: Management,
}

impl Queue {
    /// A drop-tail queue of `packets` packets.
    pub const fn packets(packets: usize) -> Self {
        Self {
            limit: Limit::Packets(packets),
            management: Management::DropTail,
        }
    }

    /// A drop-tail queue of `bytes` bytes of whole IP packets.
    pub const fn bytes(bytes: usize) -> Self {
        Self {
            limit: Limit::Bytes(bytes),
            management: Management::DropTail,
        }
    }

    /// The same queue with this management.
    #[must_use]
    pub const fn with_management(mut self, management: Management) -> Self {
        self.management = management;
        self
    }

    fn validate(&self) -> Result<(), ConfigError> {
        match self.management {
            Management::Red(red) => red.validate(),
            Management::DropTail | Management::MarkAbove(_) => Ok(()),
        }
    }
}

/// Queue management beyond the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Management {
    /// Nothing happens before the queue is full.
    #[default]
    DropTail,
    /// ECN-capable packets are marked while the queue, before they join it, holds at least this
    /// much (the step marking of data centres, RFC 8257).
    MarkAbove(Limit),
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
    /// Whether ECN-capable packets are marked instead of dropped.
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

/// Which packets vanish on the wire, after the queue and the transmission.
///
/// Packets are numbered from 1 as they leave the transmitter; setting a loss model starts anew.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each packet by itself with this probability.
    Random(f64),
    /// Bursts.
    GilbertElliott(GilbertElliott),
    /// Packets n, 2n, 3n, …; n above 0.
    Every(u64),
    /// The packets with these numbers.
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

/// The two-state model of bursts (Gilbert 1960, Elliott 1963). It starts good; for each packet the
/// state changes first, then the loss of the state decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability to turn bad, per packet.
    pub p_good_to_bad: f64,
    /// Probability to turn good, per packet; the mean stay in the bad state is its inverse.
    pub p_bad_to_good: f64,
    /// Loss probability in the good state.
    pub loss_good: f64,
    /// Loss probability in the bad state.
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// Bursts of `mean_burst` lost packets (at least 1) on average, `loss` of all packets in total;
    /// nothing is lost between bursts. `loss` must be below 1.
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

/// Random change of the propagation delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// Adds between zero and this much, uniformly.
    Uniform(Duration),
    /// Adds or takes off a normally distributed amount around zero; the delay never becomes
    /// negative.
    Normal {
        /// The standard deviation.
        standard_deviation: Duration,
    },
}

/// Packets held back so that later ones overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a packet is held back.
    pub probability: f64,
    /// How much longer it then takes.
    pub extra_delay: Duration,
}
