//! One direction of a link: queue, transmitter, impairments and the wire.
//!
//! A link is passive. The network offers packets to it and calls it at the times it requested; the
//! link returns the result of each step for captures and traces.

mod config;
mod flight;
mod impair;
mod loss;
mod queue;

use core::time::Duration;

pub use config::{
    GilbertElliott, Jitter, LinkConfig, Loss, Queue, QueueLimit, QueueManagement, Red, Reorder,
};

use crate::ids::InterfaceId;
use crate::packet::Packet;
use crate::rng::Random;
use crate::stats::{DropReason, LinkStats};
use crate::time::Time;

use flight::{InFlight, PacketInFlight};
use loss::LossState;
use queue::{Admission, QueueState, Transmitter};

/// Result of offering a packet to a link.
#[derive(Debug)]
pub(crate) enum OfferResult {
    /// The transmitter is idle: the caller begins the transmission of this packet.
    Begin(Packet),
    /// The packet was queued.
    Queued,
    /// The packet was dropped.
    Dropped(Packet, DropReason),
}

/// One direction of a link, with its state.
#[derive(Debug)]
pub(crate) struct OneWayLink {
    pub(crate) from: InterfaceId,
    pub(crate) to: InterfaceId,
    config: LinkConfig,
    up: bool,
    random: Random,
    loss: LossState,
    queue: QueueState,
    transmitter: Transmitter,
    flight: InFlight,
    /// Arrival time for which the network's event queue has an event.
    armed: Option<Time>,
    /// Latest arrival of a packet that may not be overtaken.
    last_arrival: Time,
    sent: u64,
    /// Highest serial number delivered, to detect reordered packets.
    highest_delivered: u64,
    stats: LinkStats,
}

impl OneWayLink {
    pub(crate) fn new(
        from: InterfaceId,
        to: InterfaceId,
        config: LinkConfig,
        random: Random,
    ) -> Self {
        Self {
            from,
            to,
            up: true,
            random,
            loss: LossState::new(config.loss.clone()),
            queue: QueueState::new(config.queue),
            config,
            transmitter: Transmitter::Idle { since: Time::ZERO },
            flight: InFlight::default(),
            armed: None,
            last_arrival: Time::ZERO,
            sent: 0,
            highest_delivered: 0,
            stats: LinkStats::default(),
        }
    }

    pub(crate) fn config(&self) -> &LinkConfig {
        &self.config
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    pub(crate) fn stats(&self) -> LinkStats {
        let sending = u64::from(matches!(self.transmitter, Transmitter::Sending { .. }));
        LinkStats {
            packets_inside: (self.queue.len() + self.flight.len()) as u64 + sending,
            ..self.stats.clone()
        }
    }

    /// Returns the packets and bytes that wait for the transmitter.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.queue.len(), self.queue.bytes())
    }

    /// Replaces the configuration. It applies to packets that are not yet in transmission.
    pub(crate) fn set_config(&mut self, config: LinkConfig) {
        if config.loss != self.config.loss {
            self.loss = LossState::new(config.loss.clone());
        }
        self.queue.set_config(config.queue);
        self.config = config;
    }

    pub(crate) fn set_loss(&mut self, loss: Loss) {
        self.loss = LossState::new(loss.clone());
        self.config.loss = loss;
    }

    pub(crate) fn set_up(&mut self) {
        self.up = true;
    }

    /// Takes the link down: all packets on it are lost.
    pub(crate) fn set_down(&mut self, now: Time) -> Vec<Packet> {
        self.up = false;
        let mut lost = Vec::new();
        let idle = Transmitter::Idle { since: now };
        if let Transmitter::Sending { packet, .. } = std::mem::replace(&mut self.transmitter, idle)
        {
            lost.push(packet);
        }
        lost.extend(std::iter::from_fn(|| self.queue.pop()));
        lost.extend(std::iter::from_fn(|| self.flight.pop()).map(|flying| flying.packet));
        for packet in &lost {
            self.stats.count_dropped(packet.flow, DropReason::Down);
        }
        self.armed = None;
        lost
    }

    /// Passes a packet to the transmitter or the queue.
    pub(crate) fn offer(&mut self, now: Time, mut packet: Packet) -> OfferResult {
        let len = packet.wire_len();
        self.stats.count_in(packet.flow, len);
        if !self.up {
            return self.drop_packet(packet, DropReason::Down);
        }
        if self.config.mtu.is_some_and(|mtu| len > mtu) {
            return self.drop_packet(packet, DropReason::Mtu);
        }
        let idle = match self.transmitter {
            Transmitter::Idle { since } => now - since,
            Transmitter::Sending { .. } => Duration::ZERO,
        };
        let sending = self.config.transmission_time(len);
        match self.queue.admit(&packet, idle, sending, &mut self.random) {
            Admission::Accept => {}
            Admission::Mark => {
                queue::mark(&mut packet);
                self.stats.marked += 1;
            }
            Admission::Drop(reason) => return self.drop_packet(packet, reason),
        }
        if matches!(self.transmitter, Transmitter::Idle { .. }) {
            return OfferResult::Begin(packet);
        }
        if let Err(packet) = self.queue.push(packet) {
            return self.drop_packet(packet, DropReason::QueueFull);
        }
        self.stats.max_queue_packets = self.stats.max_queue_packets.max(self.queue.len());
        self.stats.max_queue_bytes = self.stats.max_queue_bytes.max(self.queue.bytes());
        OfferResult::Queued
    }

    fn drop_packet(&mut self, packet: Packet, reason: DropReason) -> OfferResult {
        self.stats.count_dropped(packet.flow, reason);
        OfferResult::Dropped(packet, reason)
    }

    /// Begins the transmission of a packet and returns its end, for [`Self::transmitted`].
    pub(crate) fn begin(&mut self, now: Time, packet: Packet) -> Time {
        let done = now + self.config.transmission_time(packet.wire_len());
        self.transmitter = Transmitter::Sending { packet, done };
        done
    }

    /// Ends a transmission and returns the packet for [`Self::propagate`]. Returns `None` if the
    /// event is void because the link went down.
    pub(crate) fn transmitted(&mut self, now: Time) -> Option<Packet> {
        if !matches!(self.transmitter, Transmitter::Sending { done, .. } if done == now) {
            return None;
        }
        let idle = Transmitter::Idle { since: now };
        match std::mem::replace(&mut self.transmitter, idle) {
            Transmitter::Sending { packet, .. } => Some(packet),
            Transmitter::Idle { .. } => None,
        }
    }

    /// Removes the packet that has waited longest.
    pub(crate) fn next_waiting(&mut self) -> Option<Packet> {
        self.queue.pop()
    }

    /// Puts a packet on the wire, or returns it as an error if it is lost.
    pub(crate) fn propagate(&mut self, now: Time, mut packet: Packet) -> Result<(), Packet> {
        self.sent += 1;
        if self.loss.next(&mut self.random) {
            self.stats.count_dropped(packet.flow, DropReason::Loss);
            return Err(packet);
        }
        if self.random.chance(self.config.corrupt) && impair::corrupt(&mut packet, &mut self.random)
        {
            self.stats.corrupted += 1;
        }
        let mut arrival = now + impair::delay(&self.config, &mut self.random);
        let overtakes = self.config.jitter_overtakes && self.config.jitter != Jitter::None;
        if !overtakes {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        if let Some(reorder) = self.config.reorder
            && self.random.chance(reorder.probability)
        {
            arrival += reorder.extra_delay;
        }
        if let Some(tick) = self.config.tick {
            let tick = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX).max(1);
            arrival = Time::from_nanos(arrival.as_nanos().div_ceil(tick).saturating_mul(tick));
        }
        let serial = self.sent;
        if self.random.chance(self.config.duplicate) {
            self.stats.duplicated += 1;
            let packet = packet.clone();
            self.flight.push(PacketInFlight {
                arrival,
                serial,
                packet,
            });
        }
        self.flight.push(PacketInFlight {
            arrival,
            serial,
            packet,
        });
        Ok(())
    }

    /// Returns the time for which an arrival event is needed, if none is scheduled for it yet.
    pub(crate) fn arm(&mut self) -> Option<Time> {
        let next = self.flight.next_arrival()?;
        if self.armed.is_some_and(|armed| armed <= next) {
            return None;
        }
        self.armed = Some(next);
        Some(next)
    }

    /// Removes the packet that arrives now. Returns `None` if the event is void.
    pub(crate) fn arrive(&mut self, now: Time) -> Option<Packet> {
        if self.armed != Some(now) {
            return None;
        }
        self.armed = None;
        if self.flight.next_arrival()? > now {
            return None;
        }
        let flying = self.flight.pop()?;
        if flying.serial < self.highest_delivered {
            self.stats.reordered += 1;
        }
        self.highest_delivered = self.highest_delivered.max(flying.serial);
        let packet = flying.packet;
        self.stats.count_delivered(packet.flow, packet.wire_len());
        Some(packet)
    }
}
