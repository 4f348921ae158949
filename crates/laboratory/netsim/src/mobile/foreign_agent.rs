//! The foreign agent (RFC 5944, sections 3.7 and 4.2.2): a program of a router of the visited
//! network.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::BTreeMap;

use super::advertiser::{Advertiser, Advertising};
use super::discovery::{AgentAdvertisement, AgentFlags};
use super::identification::Identification;
use super::message::{self, RegistrationReply, RegistrationRequest, ReplyCode, SignedMessage};
use super::tunnel::{self, TunnelEntry, Tunnels};
use super::{PORT, end_of, message_packet};
use crate::icmp::{self, IcmpError};
use crate::ids::InterfaceId;
use crate::node::{Node, Outbox};
use crate::packet::{Packet, Protocol};
use crate::rng::Random;
use crate::time::Time;

/// Time to wait for the home agent before the request is denied with a timeout.
const PENDING: Duration = Duration::from_secs(7);
/// Minimum time between two denials to one mobile node (section 3.7.2).
const DENIAL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of mobile nodes for which the time of the last denial is kept.
const MAX_DENIED: usize = 64;

/// Configuration of a foreign agent.
#[derive(Debug)]
pub struct ForeignAgentConfig {
    /// Care-of address; one of the router's addresses.
    pub address: Ipv4Addr,
    /// Interfaces of the visited networks.
    pub visited_interfaces: Vec<InterfaceId>,
    /// Longest lifetime accepted, in seconds.
    pub max_lifetime: u16,
    /// Maximum number of visitors; pending requests have a separate limit of the same size.
    pub max_visitors: usize,
    /// Accepts reverse tunnels (RFC 3024, direct delivery).
    pub reverse_tunnels: bool,
    /// Requires mobile nodes with a co-located care-of address to register through this agent, too.
    pub registration_required: bool,
    /// Advertisements; usually on the visited interfaces.
    pub advertising: Advertising,
}

impl ForeignAgentConfig {
    /// Returns an agent with a maximum lifetime of ten minutes, at most a hundred visitors and
    /// reverse tunnels, which advertises on these interfaces.
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

/// Visitor list entry: a mobile node that is registered through this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitorEntry {
    /// Home address.
    pub home_address: Ipv4Addr,
    /// Home agent.
    pub home_agent: Ipv4Addr,
    /// Interface at which the mobile node is reachable.
    pub interface: InterfaceId,
    /// End of the registration; [`Time::MAX`] if infinite.
    pub until: Time,
    /// Uses a reverse tunnel.
    pub reverse_tunnel: bool,
}

/// A registration request that the home agent has not answered.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    request: RegistrationRequest,
    interface: InterfaceId,
    /// UDP port of the mobile node.
    port: u16,
    until: Time,
}

/// Counters of a foreign agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignAgentStats {
    /// Requests relayed to a home agent.
    pub relayed_requests: u64,
    /// Replies relayed to a mobile node.
    pub relayed_replies: u64,
    /// Requests denied by this agent, by code, including denials suppressed by their rate limit.
    pub denied: BTreeMap<ReplyCode, u64>,
    /// Messages discarded: malformed, or replies without a pending request.
    pub discarded: u64,
    /// Registrations that expired.
    pub expired: u64,
    /// Advertisements sent.
    pub advertisements: u64,
    /// Solicitations answered.
    pub solicitations: u64,
    /// Packets for visitors that were detunneled.
    pub detunneled: u64,
    /// Tunneled packets for a node that is not a visitor.
    pub tunneled_unmatched: u64,
    /// Packets of visitors sent through the reverse tunnel.
    pub tunneled: u64,
    /// ICMP errors about reverse tunnel packets that were relayed.
    pub icmp_relayed: u64,
}

/// The program of a foreign agent.
#[derive(Debug)]
pub struct ForeignAgent {
    config: ForeignAgentConfig,
    visitors: Vec<VisitorEntry>,
    pending: Vec<PendingRequest>,
    denied: Vec<(Ipv4Addr, Time)>,
    advertiser: Advertiser,
    tunnels: Tunnels,
    running: bool,
    stats: ForeignAgentStats,
}

impl ForeignAgent {
    /// Returns an agent without visitors.
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

    /// Returns the registered visitors.
    pub fn visitors(&self) -> &[VisitorEntry] {
        &self.visitors
    }

    /// Returns the counters.
    pub fn stats(&self) -> ForeignAgentStats {
        ForeignAgentStats {
            advertisements: self.advertiser.sent,
            solicitations: self.advertiser.answered,
            tunneled: self.tunnels.entered,
            icmp_relayed: self.tunnels.relayed,
            ..self.stats.clone()
        }
    }

    /// Stops the agent and clears the visitor list, as a crash does; the router continues to
    /// forward.
    pub fn stop(&mut self) {
        self.running = false;
        self.advertiser.stop();
        self.tunnels.clear();
        self.visitors.clear();
        self.pending.clear();
        self.denied.clear();
    }

    /// Starts the agent again; the sequence number of its advertisements starts at 0.
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

    fn visitor(&self, home_address: IpAddr) -> Option<&VisitorEntry> {
        let is = |visitor: &&VisitorEntry| IpAddr::V4(visitor.home_address) == home_address;
        self.visitors.iter().find(is)
    }

    /// Handles a registration request of a mobile node.
    fn handle_request(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: &Packet,
        port: u16,
        out: &mut Outbox,
    ) {
        let Ok(signed) = SignedMessage::<RegistrationRequest>::parse(&packet.payload) else {
            self.stats.discarded += 1;
            return;
        };
        let request = signed.message;
        let pending = PendingRequest {
            request,
            interface,
            port,
            until: now + PENDING,
        };
        let relayed = match (self.check_request(&request), signed.for_relay()) {
            (Some(code), _) => return self.deny(now, &pending, code, out),
            (None, None) => return self.deny(now, &pending, ReplyCode::FA_POOR_REQUEST, out),
            (None, Some(relayed)) => relayed,
        };
        // A new request replaces the previous one.
        self.pending
            .retain(|p| p.request.home_address != request.home_address);
        self.pending.push(pending);
        self.stats.relayed_requests += 1;
        let to = request.home_agent.into();
        let relayed = message_packet(self.config.address, to, PORT, relayed);
        out.send(relayed.with_flow(packet.flow));
    }

    /// Returns the code with which a request is denied (section 3.7.2.1), if it is.
    fn check_request(&self, request: &RegistrationRequest) -> Option<ReplyCode> {
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

    fn deny(&mut self, now: Time, pending: &PendingRequest, code: ReplyCode, out: &mut Outbox) {
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

    fn send_reply(&self, pending: &PendingRequest, payload: bytes::Bytes, out: &mut Outbox) {
        let to = match pending.request.home_address {
            Ipv4Addr::UNSPECIFIED => Ipv4Addr::BROADCAST,
            home_address => home_address,
        };
        let packet = message_packet(self.config.address, to.into(), pending.port, payload);
        out.send_on(pending.interface, packet);
    }

    fn take_pending(
        &mut self,
        home_address: Ipv4Addr,
        id: Identification,
    ) -> Option<PendingRequest> {
        let is = |p: &PendingRequest| {
            p.request.home_address == home_address && p.request.identification.low() == id.low()
        };
        let position = self.pending.iter().position(is)?;
        Some(self.pending.remove(position))
    }

    /// Handles a reply of a home agent (section 3.7.3).
    fn handle_reply(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let read = SignedMessage::<RegistrationReply>::parse(&packet.payload).ok();
        let found = read.and_then(|signed| {
            let reply = signed.message;
            let relayed = signed.for_relay()?;
            let waits = |p: &&PendingRequest| IpAddr::V4(p.request.home_agent) == packet.source;
            let of_node = |p: &&PendingRequest| p.request.home_address == reply.home_address;
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

    fn update_visitors(&mut self, now: Time, reply: &RegistrationReply, pending: &PendingRequest) {
        let request = &pending.request;
        let lifetime = reply.lifetime.min(request.lifetime);
        self.visitors
            .retain(|visitor| visitor.home_address != request.home_address);
        // With a co-located care-of address, the mobile node ends the tunnel itself.
        if lifetime > 0 && request.care_of == self.config.address {
            self.visitors.push(VisitorEntry {
                home_address: request.home_address,
                home_agent: request.home_agent,
                interface: pending.interface,
                until: end_of(now, lifetime),
                reverse_tunnel: request.flags.reverse_tunnel,
            });
        }
    }

    /// Handles an ICMP error about a relayed request. Returns false if the packet is not one.
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
        let Ok(signed) = SignedMessage::<RegistrationRequest>::parse(&report.about.payload) else {
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

    /// Forwards a detunneled packet to its visitor.
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
            // Section 4.2.2: no ICMP message is sent, and the packet is not forwarded to the
            // network.
            _ => self.stats.tunneled_unmatched += 1,
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

    /// Sends a packet of the agent: to a visitor over its interface, to other destinations by the
    /// routes.
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
        let of_visitor = |visitor: &&VisitorEntry| visitor.interface == interface;
        match self.visitor(packet.source).filter(of_visitor).copied() {
            Some(visitor) if self.running && visitor.reverse_tunnel && now < visitor.until => {
                let (entry, exit) = (self.config.address, visitor.home_agent);
                match self.tunnels.enter(now, packet, entry, exit) {
                    TunnelEntry::Tunneled(packet) => out.send(packet),
                    TunnelEntry::Report(report) => self.send_towards(report, out),
                    TunnelEntry::Dropped => {}
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
