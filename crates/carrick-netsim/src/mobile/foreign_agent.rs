//! The foreign agent (RFC 5944 sections 3.7 and 4.2.2): a program of the router of a visited network.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::BTreeMap;

use super::advertiser::{Advertiser, Advertising};
use super::discovery::{AgentAdvertisement, AgentFlags};
use super::identification::Identification;
use super::message::{self, RegistrationReply, RegistrationRequest, ReplyCode, Signed};
use super::tunnel::{self, Entry, Tunnels};
use super::{PORT, end_of, message_packet};
use crate::icmp::{self, IcmpError};
use crate::ids::InterfaceId;
use crate::node::{Node, Outbox};
use crate::packet::{Packet, Protocol};
use crate::rng::Random;
use crate::time::Time;

/// How long a request waits for the home agent before the mobile node is told.
const PENDING: Duration = Duration::from_secs(7);
/// Least time between two denials to one mobile node (section 3.7.2).
const DENIAL_INTERVAL: Duration = Duration::from_secs(1);
/// Mobile nodes for which the last denial is remembered.
const MAX_DENIED: usize = 64;

/// What a foreign agent is given.
#[derive(Debug)]
pub struct ForeignAgentConfig {
    /// Its care-of address: one of the router's.
    pub address: Ipv4Addr,
    /// The interfaces at which mobile nodes visit.
    pub visited_interfaces: Vec<InterfaceId>,
    /// Longest lifetime that it takes, in seconds.
    pub max_lifetime: u16,
    /// Visitors at most; requests that wait for an answer count by themselves.
    pub max_visitors: usize,
    /// Whether mobile nodes may send through the tunnel (RFC 3024, direct delivery).
    pub reverse_tunnels: bool,
    /// Whether those with an address of the visited network have to register here, too.
    pub registration_required: bool,
    /// How it advertises itself; usually on the visited interfaces.
    pub advertising: Advertising,
}

impl ForeignAgentConfig {
    /// An agent that takes ten minutes at most and a hundred visitors, knows reverse tunnels, and
    /// advertises itself on these interfaces.
    pub fn new(
        address: Ipv4Addr,
        visited_interfaces: impl IntoIterator<Item = InterfaceId>,
    ) -> Self {
        let visited_interfaces: Vec<_> = visited_interfaces.into_iter().collect();
        Self {
            address,
            max_lifetime: 600,
            max_visitors: 100,
            reverse_tunnels: true,
            registration_required: false,
            advertising: Advertising::on(visited_interfaces.iter().copied()),
            visited_interfaces,
        }
    }
}

/// A mobile node that is registered through this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// Its address at home.
    pub home_address: Ipv4Addr,
    /// Its home agent.
    pub home_agent: Ipv4Addr,
    /// Where it is.
    pub interface: InterfaceId,
    /// When its registration ends; [`Time::MAX`] for never.
    pub until: Time,
    /// Its packets go through the tunnel.
    pub reverse_tunnel: bool,
}

/// A request that the home agent has not answered.
#[derive(Clone, Copy, Debug)]
struct Pending {
    request: RegistrationRequest,
    interface: InterfaceId,
    /// The mobile node's UDP port.
    port: u16,
    until: Time,
}

/// Counters of a foreign agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignAgentStats {
    /// Requests passed on to a home agent.
    pub relayed_requests: u64,
    /// Replies passed on to a mobile node.
    pub relayed_replies: u64,
    /// Requests denied here, by code; also where the denial was not sent because of its rate.
    pub denied: BTreeMap<ReplyCode, u64>,
    /// Messages dropped: malformed, or replies that nobody waits for.
    pub discarded: u64,
    /// Registrations that ran out.
    pub expired: u64,
    /// Advertisements sent.
    pub advertisements: u64,
    /// Solicitations answered.
    pub solicitations: u64,
    /// Packets for visitors that came out of the tunnel.
    pub detunneled: u64,
    /// Packets out of the tunnel for nobody here.
    pub strangers: u64,
    /// Packets of visitors that went into the reverse tunnel.
    pub tunneled: u64,
    /// ICMP errors from within a reverse tunnel that were passed on.
    pub icmp_relayed: u64,
}

/// The program of a foreign agent.
#[derive(Debug)]
pub struct ForeignAgent {
    config: ForeignAgentConfig,
    visitors: Vec<Visitor>,
    pending: Vec<Pending>,
    denied: Vec<(Ipv4Addr, Time)>,
    advertiser: Advertiser,
    tunnels: Tunnels,
    running: bool,
    stats: ForeignAgentStats,
}

impl ForeignAgent {
    /// An agent without visitors.
    pub fn new(config: ForeignAgentConfig, random: Random) -> Self {
        Self {
            advertiser: Advertiser::new(config.advertising.clone(), random),
            config,
            visitors: Vec::new(),
            pending: Vec::new(),
            denied: Vec::new(),
            tunnels: Tunnels::default(),
            running: true,
            stats: ForeignAgentStats::default(),
        }
    }

    /// Who is registered through this agent.
    pub fn visitors(&self) -> &[Visitor] {
        &self.visitors
    }

    /// Counters.
    pub fn stats(&self) -> ForeignAgentStats {
        ForeignAgentStats {
            advertisements: self.advertiser.sent,
            solicitations: self.advertiser.answered,
            tunneled: self.tunnels.entered,
            icmp_relayed: self.tunnels.relayed,
            ..self.stats.clone()
        }
    }

    /// Stops the agent and forgets all visitors, as a crash does; the router goes on.
    pub fn stop(&mut self) {
        self.running = false;
        self.advertiser.stop();
        self.tunnels.forget();
        self.visitors.clear();
        self.pending.clear();
        self.denied.clear();
    }

    /// Starts the agent again, with the first number in its advertisements.
    pub fn start(&mut self, now: Time) {
        self.running = true;
        self.advertiser.start(now);
    }

    fn is_full(&self) -> bool {
        self.visitors.len() >= self.config.max_visitors
    }

    fn advertisement(&self) -> AgentAdvertisement {
        let flags = AgentFlags {
            foreign_agent: true,
            busy: self.is_full(),
            registration_required: self.config.registration_required,
            reverse_tunnel: self.config.reverse_tunnels,
            ..AgentFlags::default()
        };
        let care_of = vec![self.config.address];
        AgentAdvertisement::of_agent(self.config.max_lifetime, flags, care_of)
    }

    fn visitor(&self, home_address: IpAddr) -> Option<&Visitor> {
        let is = |visitor: &&Visitor| IpAddr::V4(visitor.home_address) == home_address;
        self.visitors.iter().find(is)
    }

    /// A request of a mobile node.
    fn handle_request(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: &Packet,
        port: u16,
        out: &mut Outbox,
    ) {
        let Ok(signed) = Signed::<RegistrationRequest>::parse(&packet.payload) else {
            self.stats.discarded += 1;
            return;
        };
        let request = signed.message;
        let pending = Pending {
            request,
            interface,
            port,
            until: now + PENDING,
        };
        let relayed = match (self.judge(&request), signed.for_relay()) {
            (Some(code), _) => return self.deny(now, &pending, code, out),
            (None, None) => return self.deny(now, &pending, ReplyCode::FA_POOR_REQUEST, out),
            (None, Some(relayed)) => relayed,
        };
        // A new request replaces the one before.
        self.pending
            .retain(|p| p.request.home_address != request.home_address);
        self.pending.push(pending);
        self.stats.relayed_requests += 1;
        let to = request.home_agent.into();
        let relayed = message_packet(self.config.address, to, PORT, relayed);
        out.send(relayed.with_flow(packet.flow));
    }

    /// Why a request is denied (section 3.7.2.1).
    fn judge(&self, request: &RegistrationRequest) -> Option<ReplyCode> {
        let flags = request.flags;
        let ends = request.lifetime == 0;
        let offered = flags.decapsulation || request.care_of == self.config.address;
        let known = self.visitor(request.home_address.into()).is_some();
        let waiting = self.pending.iter();
        let waiting = waiting.filter(|p| p.request.home_address != request.home_address);
        let checks = [
            (flags.reserved, ReplyCode::FA_POOR_REQUEST),
            (
                request.home_agent == self.config.address,
                ReplyCode::FA_HOME_AGENT,
            ),
            (!ends && !offered, ReplyCode::FA_CARE_OF),
            (flags.minimal || flags.gre, ReplyCode::FA_ENCAPSULATION),
            (
                flags.reverse_tunnel && !self.config.reverse_tunnels,
                ReplyCode::FA_REVERSE_TUNNEL,
            ),
            (
                request.lifetime > self.config.max_lifetime,
                ReplyCode::FA_LIFETIME,
            ),
            (
                (!ends && !known && self.is_full()) || waiting.count() >= self.config.max_visitors,
                ReplyCode::FA_RESOURCES,
            ),
        ];
        let failed = checks.iter().find(|(fails, _)| *fails)?;
        Some(failed.1)
    }

    fn deny(&mut self, now: Time, pending: &Pending, code: ReplyCode, out: &mut Outbox) {
        *self.stats.denied.entry(code).or_default() += 1;
        let request = &pending.request;
        self.denied.retain(|(_, at)| now < *at + DENIAL_INTERVAL);
        if self.denied.len() >= MAX_DENIED
            || self
                .denied
                .iter()
                .any(|(home, _)| *home == request.home_address)
        {
            return;
        }
        self.denied.push((request.home_address, now));
        let reply = RegistrationReply {
            code,
            lifetime: request.lifetime.min(self.config.max_lifetime),
            home_address: request.home_address,
            home_agent: request.home_agent,
            identification: request.identification,
        };
        self.send_reply(pending, reply.to_bytes(None), out);
    }

    fn send_reply(&self, pending: &Pending, payload: bytes::Bytes, out: &mut Outbox) {
        let to = match pending.request.home_address {
            Ipv4Addr::UNSPECIFIED => Ipv4Addr::BROADCAST,
            home_address => home_address,
        };
        let packet = message_packet(self.config.address, to.into(), pending.port, payload);
        out.send_on(pending.interface, packet);
    }

    fn take_pending(&mut self, home_address: Ipv4Addr, id: Identification) -> Option<Pending> {
        let is = |p: &Pending| {
            p.request.home_address == home_address && p.request.identification.low() == id.low()
        };
        let position = self.pending.iter().position(is)?;
        Some(self.pending.remove(position))
    }

    /// A reply of a home agent (section 3.7.3).
    fn handle_reply(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let read = Signed::<RegistrationReply>::parse(&packet.payload).ok();
        let found = read.and_then(|signed| {
            let reply = signed.message;
            let relayed = signed.for_relay()?;
            let waits = |p: &&Pending| IpAddr::V4(p.request.home_agent) == packet.source;
            let of_node = |p: &&Pending| p.request.home_address == reply.home_address;
            self.pending.iter().filter(waits).find(of_node)?;
            let pending = self.take_pending(reply.home_address, reply.identification)?;
            Some((reply, pending, relayed))
        });
        let Some((reply, pending, relayed)) = found else {
            self.stats.discarded += 1;
            return;
        };
        if reply.code.is_accepted() {
            self.update_visitors(now, &reply, &pending);
        }
        self.stats.relayed_replies += 1;
        self.send_reply(&pending, relayed, out);
    }

    fn update_visitors(&mut self, now: Time, reply: &RegistrationReply, pending: &Pending) {
        let request = &pending.request;
        let lifetime = reply.lifetime.min(request.lifetime);
        self.visitors
            .retain(|visitor| visitor.home_address != request.home_address);
        // Co-located care-of addresses are the mobile node's own affair.
        if lifetime > 0 && request.care_of == self.config.address {
            self.visitors.push(Visitor {
                home_address: request.home_address,
                home_agent: request.home_agent,
                interface: pending.interface,
                until: end_of(now, lifetime),
                reverse_tunnel: request.flags.reverse_tunnel,
            });
        }
    }

    /// An ICMP error about a request on its way to the home agent; true if it is one.
    fn handle_unreachable(&mut self, now: Time, packet: &Packet, out: &mut Outbox) -> bool {
        let Some(report) = icmp::parse(packet) else {
            return false;
        };
        let Protocol::Udp {
            source_port: PORT,
            destination_port: PORT,
        } = report.about.protocol
        else {
            return false;
        };
        let Ok(signed) = Signed::<RegistrationRequest>::parse(&report.about.payload) else {
            return false;
        };
        let request = signed.message;
        if let Some(pending) = self.take_pending(request.home_address, request.identification) {
            let code = match report.error {
                IcmpError::Unreachable { code: 0 } => ReplyCode::FA_NETWORK_UNREACHABLE,
                IcmpError::Unreachable { code: 1 } => ReplyCode::FA_HOST_UNREACHABLE,
                IcmpError::Unreachable { code: 3 } => ReplyCode::FA_PORT_UNREACHABLE,
                _ => ReplyCode::FA_UNREACHABLE,
            };
            self.deny(now, &pending, code, out);
        }
        true
    }

    /// A packet out of the tunnel, for a visitor.
    fn handle_tunnel(&mut self, packet: &Packet, out: &mut Outbox) {
        let inner = tunnel::leave(packet);
        let visitor = inner.as_ref().and_then(|inner| {
            let visitor = self.visitor(inner.destination)?;
            (IpAddr::V4(visitor.home_agent) == packet.source).then_some(*visitor)
        });
        match (visitor, inner) {
            (Some(visitor), Some(mut inner)) if inner.ttl > 1 => {
                inner.ttl -= 1;
                self.stats.detunneled += 1;
                out.send_on(visitor.interface, inner);
            }
            // Section 4.2.2: no ICMP message, and never back onto the network.
            _ => self.stats.strangers += 1,
        }
    }

    fn expire(&mut self, now: Time, out: &mut Outbox) {
        let before = self.visitors.len();
        self.visitors.retain(|visitor| now < visitor.until);
        self.stats.expired += (before - self.visitors.len()) as u64;
        while let Some(position) = self.pending.iter().position(|p| p.until <= now) {
            let pending = self.pending.remove(position);
            self.deny(now, &pending, ReplyCode::FA_TIMEOUT, out);
        }
    }

    fn handle_icmp(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: &Packet,
        out: &mut Outbox,
    ) {
        let advertisement = self.advertisement();
        let from = self.config.address;
        if self
            .advertiser
            .answer(interface, packet, from, &advertisement, out)
            || self.handle_unreachable(now, packet, out)
        {
            return;
        }
        if let Some(error) = self.tunnels.relay(now, packet, from) {
            self.send_towards(error, out);
        }
    }

    /// Sends an own packet to a visitor where it is, and to others by the routes.
    fn send_towards(&self, packet: Packet, out: &mut Outbox) {
        match self.visitor(packet.destination) {
            Some(visitor) => out.send_on(visitor.interface, packet),
            None => out.send(packet),
        }
    }
}

impl Node for ForeignAgent {
    fn handle_packet(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: Packet,
        out: &mut Outbox,
    ) {
        if !self.running {
            return;
        }
        self.expire(now, out);
        match packet.protocol {
            Protocol::Udp {
                source_port,
                destination_port: PORT,
            } => {
                let visited = self.config.visited_interfaces.contains(&interface);
                if message::is_reply(&packet.payload) {
                    self.handle_reply(now, &packet, out);
                } else if visited {
                    self.handle_request(now, interface, &packet, source_port, out);
                } else {
                    self.stats.discarded += 1;
                }
            }
            Protocol::IpInIp => self.handle_tunnel(&packet, out),
            Protocol::Icmp => self.handle_icmp(now, interface, &packet, out),
            _ => {}
        }
    }

    fn handle_transit(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: Packet,
        out: &mut Outbox,
    ) -> Option<Packet> {
        let of_visitor = |visitor: &&Visitor| visitor.interface == interface;
        match self.visitor(packet.source).filter(of_visitor).copied() {
            Some(visitor) if self.running && visitor.reverse_tunnel && now < visitor.until => {
                let (entry, exit) = (self.config.address, visitor.home_agent);
                match self.tunnels.enter(now, packet, entry, exit) {
                    Entry::Tunneled(packet) => out.send(packet),
                    Entry::Report(report) => self.send_towards(report, out),
                    Entry::Dropped => {}
                }
                None
            }
            _ => Some(packet),
        }
    }

    fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        self.expire(now, out);
        let advertisement = self.advertisement();
        self.advertiser
            .handle_timeout(now, self.config.address, &advertisement, out);
    }

    fn next_timeout(&self) -> Option<Time> {
        let visitors = self.visitors.iter().map(|visitor| visitor.until);
        let pending = self.pending.iter().map(|pending| pending.until);
        visitors
            .chain(pending)
            .chain(self.advertiser.next_timeout())
            .min()
    }
}
