//! The queue in front of a transmitter: FIFO, drop tail, step marking and RED.

use std::collections::VecDeque;

use core::time::Duration;

use super::config::{Queue, QueueLimit, QueueManagement, Red};
use crate::packet::{Ecn, Packet};
use crate::rng::Random;
use crate::stats::DropReason;
use crate::time::Time;

/// Decision of the queue management about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Accept,
    /// Accept with "congestion experienced".
    Mark,
    Drop(DropReason),
}

/// A queue with its packets.
#[derive(Debug, Default)]
pub(crate) struct QueueState {
    config: Queue,
    packets: VecDeque<Packet>,
    bytes: usize,
    red: RedState,
}

impl QueueState {
    pub(crate) fn new(config: Queue) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Replaces the configuration for packets to come; queued packets stay.
    pub(crate) fn set_config(&mut self, config: Queue) {
        self.config = config;
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Decides on a packet of `len` bytes, before it is known if the packet has to wait. `idle` is
    /// the time since the transmitter became idle, and `sending` the transmission time of this
    /// packet.
    pub(crate) fn admit(
        &mut self,
        packet: &Packet,
        idle: Duration,
        sending: Duration,
        random: &mut Random,
    ) -> Admission {
        match self.config.management {
            QueueManagement::DropTail => Admission::Accept,
            QueueManagement::MarkAbove(level) => {
                let reached = match level {
                    QueueLimit::Unlimited => false,
                    QueueLimit::Packets(packets) => self.packets.len() >= packets,
                    QueueLimit::Bytes(bytes) => self.bytes >= bytes,
                };
                if reached && packet.ecn.is_capable() {
                    Admission::Mark
                } else {
                    Admission::Accept
                }
            }
            QueueManagement::Red(red) => {
                self.red.observe(&red, self.packets.len(), idle, sending);
                if !self.red.congested(&red, random) {
                    Admission::Accept
                } else if red.ecn && packet.ecn.is_capable() {
                    Admission::Mark
                } else {
                    Admission::Drop(DropReason::Early)
                }
            }
        }
    }

    /// Appends a packet, or returns it as an error if it exceeds the limit.
    pub(crate) fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        let len = packet.wire_len();
        let fits = match self.config.limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Packets(packets) => self.packets.len() < packets,
            QueueLimit::Bytes(bytes) => self.bytes + len <= bytes,
        };
        if !fits {
            return Err(packet);
        }
        self.bytes += len;
        self.packets.push_back(packet);
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.wire_len();
        Some(packet)
    }
}

/// State of RED: the average queue length and the packets since the last drop.
#[derive(Debug, Default)]
struct RedState {
    average: f64,
    /// Packets accepted since the last drop or mark, while the average was between the thresholds.
    since_drop: u32,
}

impl RedState {
    fn observe(&mut self, red: &Red, length: usize, idle: Duration, sending: Duration) {
        if length == 0 && !idle.is_zero() && !sending.is_zero() {
            // An idle transmitter could have sent this many packets, each of them with an empty
            // queue.
            let missed = idle.as_secs_f64() / sending.as_secs_f64();
            self.average *= (1.0 - red.weight).powf(missed);
        }
        self.average += red.weight * (length as f64 - self.average);
    }

    fn congested(&mut self, red: &Red, random: &mut Random) -> bool {
        if self.average < red.minimum {
            self.since_drop = 0;
            return false;
        }
        let drop = self.average >= red.maximum || {
            let base =
                red.max_probability * (self.average - red.minimum) / (red.maximum - red.minimum);
            // Spreads drops evenly instead of in clusters.
            let rest = 1.0 - f64::from(self.since_drop) * base;
            rest <= 0.0 || random.chance(base / rest)
        };
        self.since_drop = if drop {
            0
        } else {
            self.since_drop.saturating_add(1)
        };
        drop
    }
}

/// State of the transmitter: the packet being sent, or the start of the idle time.
#[derive(Debug)]
pub(crate) enum Transmitter {
    Idle { since: Time },
    Sending { packet: Packet, done: Time },
}

/// Sets "congestion experienced".
pub(crate) fn mark(packet: &mut Packet) {
    packet.ecn = Ecn::Ce;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn red_spaces_its_drops_evenly() {
        // The average is the length, 6: half way, so each packet's base probability is 0.1, and
        // gaps between drops are spread evenly from 1 to 10.
        let red = Red {
            minimum: 2.0,
            maximum: 10.0,
            max_probability: 0.2,
            weight: 1.0,
            ecn: false,
        };
        let seed = 0x4ED;
        let mut random = Random::new(seed, 0);
        let mut state = RedState::default();
        let mut drops = Vec::new();
        for number in 0..10_000_u32 {
            state.observe(&red, 6, Duration::ZERO, Duration::ZERO);
            if state.congested(&red, &mut random) {
                drops.push(number);
            }
        }
        let gaps: Vec<u32> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps.iter().max(), Some(&10), "seed {seed}");
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        assert!((mean - 5.5).abs() < 0.4, "mean gap {mean}, seed {seed}");
    }

    #[test]
    fn the_average_decays_while_the_transmitter_is_idle() {
        let red = Red {
            minimum: 2.0,
            maximum: 10.0,
            max_probability: 0.2,
            weight: 0.5,
            ecn: false,
        };
        let mut state = RedState {
            average: 8.0,
            since_drop: 0,
        };
        let sending = Duration::from_millis(1);
        // Two packets could have been sent: 8 becomes 2, and the empty queue seen makes it 1.
        state.observe(&red, 0, 2 * sending, sending);
        assert!((state.average - 1.0).abs() < 1e-9, "{}", state.average);
    }
}
