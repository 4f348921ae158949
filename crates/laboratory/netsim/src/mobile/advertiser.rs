//! Sending of Agent Advertisements (RFC 5944, section 2.3; RFC 1256, section 6.2).

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use super::ALL_SYSTEMS;
use super::discovery::{AgentAdvertisement, DiscoveryMessage, next_sequence};
use crate::ids::InterfaceId;
use crate::node::Outbox;
use crate::packet::Packet;
use crate::rng::Random;
use crate::time::Time;

/// Configuration of an agent's advertisements.
#[derive(Clone, Debug)]
pub struct Advertising {
    /// Time between advertisements; each is sent up to a tenth earlier, at random.
    pub interval: Duration,
    /// Lifetime of an advertisement in seconds; at least three intervals, so that two may be lost.
    pub lifetime: u16,
    /// Interfaces on which advertisements are sent and solicitations are answered.
    pub interfaces: Vec<InterfaceId>,
    /// Sends advertisements only in response to solicitations.
    pub only_on_request: bool,
}

impl Advertising {
    /// Advertises every second on these interfaces, with a lifetime of three seconds.
    pub fn on(interfaces: impl IntoIterator<Item = InterfaceId>) -> Self {
        Self {
            interval: Duration::from_secs(1),
            lifetime: 3,
            interfaces: interfaces.into_iter().collect(),
            only_on_request: false,
        }
    }
}

/// Sender of an agent's advertisements.
#[derive(Debug)]
pub(super) struct Advertiser {
    config: Advertising,
    random: Random,
    sequence: u16,
    next: Option<Time>,
    /// Advertisements sent.
    pub(super) sent: u64,
    /// Solicitations answered.
    pub(super) answered: u64,
}

impl Advertiser {
    pub(super) fn new(config: Advertising, random: Random) -> Self {
        let mut advertiser = Self {
            config,
            random,
            sequence: 0,
            next: None,
            sent: 0,
            answered: 0,
        };
        advertiser.start(Time::ZERO);
        advertiser
    }

    /// Starts with sequence number 0, at a random time in the first interval.
    pub(super) fn start(&mut self, now: Time) {
        self.sequence = 0;
        let first = self.random.duration_up_to(self.config.interval);
        self.next = (!self.config.only_on_request).then_some(now + first);
    }

    pub(super) fn stop(&mut self) {
        self.next = None;
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.next
    }

    /// Sends the advertisements that are due; `fill` sets the contents of an advertisement.
    pub(super) fn handle_timeout(
        &mut self,
        now: Time,
        from: Ipv4Addr,
        advertisement: &AgentAdvertisement,
        out: &mut Outbox,
    ) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        let tenth = self.config.interval / 10;
        let wait = self.config.interval * 9 / 10 + self.random.duration_up_to(tenth);
        self.next = Some(now + wait.max(Duration::from_millis(1)));
        for interface in self.config.interfaces.clone() {
            self.advertise(from, ALL_SYSTEMS, interface, advertisement, out);
        }
    }

    fn advertise(
        &mut self,
        from: Ipv4Addr,
        to: Ipv4Addr,
        interface: InterfaceId,
        advertisement: &AgentAdvertisement,
        out: &mut Outbox,
    ) {
        let advertisement = AgentAdvertisement {
            sequence: self.sequence,
            lifetime: self.config.lifetime,
            ..advertisement.clone()
        };
        self.sequence = next_sequence(self.sequence);
        self.sent += 1;
        out.send_on(interface, advertisement.to_packet(from, to));
    }

    /// Answers a solicitation. Returns false if the packet is not one.
    pub(super) fn answer(
        &mut self,
        interface: InterfaceId,
        packet: &Packet,
        from: Ipv4Addr,
        advertisement: &AgentAdvertisement,
        out: &mut Outbox,
    ) -> bool {
        if DiscoveryMessage::parse(packet) != Ok(DiscoveryMessage::Solicitation) {
            return false;
        }
        if let (IpAddr::V4(to), true) = (packet.source, self.config.interfaces.contains(&interface))
        {
            // A node without an address can only receive the multicast.
            let to = if to.is_unspecified() { ALL_SYSTEMS } else { to };
            self.answered += 1;
            self.advertise(from, to, interface, advertisement, out);
        }
        true
    }
}
