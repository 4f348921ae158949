//! The home agent (RFC 5944, sections 3.8 and 4.2.3): a program of a router of the home network.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::BTreeMap;

use super::advertiser::{Advertiser, Advertising};
use super::authentication::{AuthenticationKind, SecurityAssociation};
use super::discovery::{AgentAdvertisement, AgentFlags};
use super::identification::{Identification, ReplayProtection};
use super::message::{RegistrationReply, RegistrationRequest, ReplyCode, SignedMessage};
use super::tunnel::{self, TunnelEntry, Tunnels};
use super::{PORT, end_of, message_packet};
use crate::error::ConfigError;
use crate::ids::InterfaceId;
use crate::node::{Node, Outbox};
use crate::packet::{Packet, Protocol};
use crate::rng::Random;
use crate::time::Time;

/// Configuration of a home agent.
#[derive(Debug)]
pub struct HomeAgentConfig {
    /// Address of the agent; one of the router's addresses.
    pub address: Ipv4Addr,
    /// Interface to the home network.
    pub home_interface: InterfaceId,
    /// Longest lifetime granted, in seconds.
    pub max_lifetime: u16,
    /// Maximum number of simultaneous bindings of a mobile node, at least 1.
    pub max_bindings: usize,
    /// Accepts reverse tunnels (RFC 3024).
    pub reverse_tunnels: bool,
    /// Tolerance between the clocks of the agent and a mobile node.
    pub tolerance: Duration,
    /// Advertisements; usually on the home interface.
    pub advertising: Advertising,
}

impl HomeAgentConfig {
    /// Returns an agent with a maximum lifetime of ten minutes and reverse tunnels, which
    /// advertises on the home interface.
    pub fn new(address: Ipv4Addr, home_interface: InterfaceId) -> Self {
        Self {
            address,
            home_interface,
            max_lifetime: 600,
            max_bindings: 1,
            reverse_tunnels: true,
            tolerance: ReplayProtection::DEFAULT_TOLERANCE,
            advertising: Advertising::on([home_interface]),
        }
    }
}

/// Mobility binding of a mobile node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MobilityBinding {
    /// Care-of address: the exit of the tunnel.
    pub care_of: Ipv4Addr,
    /// End of the binding; [`Time::MAX`] if infinite.
    pub until: Time,
    /// Uses a reverse tunnel.
    pub reverse_tunnel: bool,
}

/// Counters of a home agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeAgentStats {
    /// Requests accepted, including deregistrations.
    pub accepted: u64,
    /// Requests denied, by code.
    pub denied: BTreeMap<ReplyCode, u64>,
    /// Requests discarded without a reply: from an unknown mobile node, without authentication, or
    /// malformed.
    pub discarded: u64,
    /// Bindings that expired.
    pub expired: u64,
    /// Advertisements sent.
    pub advertisements: u64,
    /// Solicitations answered.
    pub solicitations: u64,
    /// Packets sent into a tunnel.
    pub tunneled: u64,
    /// Packets that must not be tunneled.
    pub refused: u64,
    /// Packets detunneled from a reverse tunnel.
    pub detunneled: u64,
    /// Tunneled packets that are not from a registered mobile node.
    pub tunneled_unmatched: u64,
    /// ICMP errors about tunnel packets that were relayed.
    pub icmp_relayed: u64,
}

#[derive(Debug)]
struct Client {
    association: SecurityAssociation,
    replay: ReplayProtection,
    bindings: Vec<MobilityBinding>,
}

/// The program of a home agent.
#[derive(Debug)]
pub struct HomeAgent {
    config: HomeAgentConfig,
    clients: BTreeMap<Ipv4Addr, Client>,
    advertiser: Advertiser,
    tunnels: Tunnels,
    random: Random,
    running: bool,
    stats: HomeAgentStats,
}

impl HomeAgent {
    /// Returns an agent for the mobile nodes with these home addresses.
    ///
    /// # Errors
    /// If two mobile nodes have the same home address.
    pub fn new(
        config: HomeAgentConfig,
        mobile_nodes: impl IntoIterator<Item = (Ipv4Addr, SecurityAssociation)>,
        random: Random,
    ) -> Result<Self, ConfigError> {
        let mut clients = BTreeMap::new();
        for (home_address, association) in mobile_nodes {
            let client = Client {
                association,
                replay: ReplayProtection::new(config.tolerance),
                bindings: Vec::new(),
            };
            if clients.insert(home_address, client).is_some() {
                return Err(ConfigError::DuplicateAddress(home_address.into()));
            }
        }
        Ok(Self {
            advertiser: Advertiser::new(config.advertising.clone(), random.clone()),
            config,
            clients,
            tunnels: Tunnels::default(),
            random,
            running: true,
            stats: HomeAgentStats::default(),
        })
    }

    /// Returns the bindings of a mobile node.
    pub fn bindings(&self, home_address: Ipv4Addr) -> &[MobilityBinding] {
        self.clients
            .get(&home_address)
            .map_or(&[], |client| &client.bindings)
    }

    /// Returns the counters.
    pub fn stats(&self) -> HomeAgentStats {
        HomeAgentStats {
            advertisements: self.advertiser.sent,
            solicitations: self.advertiser.answered,
            tunneled: self.tunnels.entered,
            refused: self.tunnels.refused,
            icmp_relayed: self.tunnels.relayed,
            ..self.stats.clone()
        }
    }

    /// Stops the agent and clears all bindings, as a crash does; the router continues to forward.
    pub fn stop(&mut self) {
        self.running = false;
        self.advertiser.stop();
        self.tunnels.clear();
        for client in self.clients.values_mut() {
            client.bindings.clear();
        }
    }

    /// Starts the agent again. The state of the replay protection was lost, too.
    pub fn start(&mut self, now: Time) {
        self.running = true;
        self.advertiser.start(now);
        for client in self.clients.values_mut() {
            client.replay = ReplayProtection::new(self.config.tolerance);
        }
    }

    fn advertisement(&self) -> AgentAdvertisement {
        let flags = AgentFlags {
            home_agent: true,
            reverse_tunnel: self.config.reverse_tunnels,
            ..AgentFlags::default()
        };
        AgentAdvertisement::of_agent(self.config.max_lifetime, flags, Vec::new())
    }

    fn expire(&mut self, now: Time) {
        for client in self.clients.values_mut() {
            let before = client.bindings.len();
            client.bindings.retain(|binding| now < binding.until);
            self.stats.expired += (before - client.bindings.len()) as u64;
        }
    }

    fn handle_request(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: &Packet,
        source_port: u16,
        out: &mut Outbox,
    ) {
        let Ok(signed) = SignedMessage::<RegistrationRequest>::parse(&packet.payload) else {
            self.stats.discarded += 1;
            return;
        };
        let request = signed.message;
        let clock = Identification::at(now, 0, &mut self.random);
        let known = self.clients.get_mut(&request.home_address);
        // Section 3.8.2.1: requests from unknown mobile nodes and without authentication get no
        // reply, nor does a foreign agent that signs with an unknown key.
        let silent = !signed.has(AuthenticationKind::MobileHome)
            || signed.has(AuthenticationKind::ForeignHome);
        let Some(client) = known.filter(|_| !silent) else {
            self.stats.discarded += 1;
            return;
        };
        let result = check_request(&self.config, client, &signed, clock);
        let (code, identification) = match result {
            Ok(code) => (code, request.identification),
            Err((code, identification)) => (code, identification),
        };
        let lifetime = request.lifetime.min(self.config.max_lifetime);
        if code.is_accepted() {
            self.stats.accepted += 1;
            bind(client, &request, lifetime, now, self.config.max_bindings);
        } else {
            *self.stats.denied.entry(code).or_default() += 1;
        }
        let reply = RegistrationReply {
            code,
            lifetime,
            home_address: request.home_address,
            home_agent: self.config.address,
            identification,
        };
        let payload = reply.to_bytes(Some(&client.association));
        let answer = message_packet(self.config.address, packet.source, source_port, payload);
        let answer = answer.with_flow(packet.flow);
        if packet.source == IpAddr::V4(request.home_address) {
            // The mobile node is at home and sends its request from there (section 3.8.3.1).
            out.send_on(interface, answer);
        } else {
            out.send(answer);
        }
    }

    /// Handles a packet of a reverse tunnel. The packet must come from the care-of address of a
    /// mobile node with a reverse tunnel; its destination may be another mobile node away from
    /// home.
    fn handle_tunnel(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let inner = tunnel::leave(packet).filter(|inner| {
            let IpAddr::V4(home_address) = inner.source else {
                return false;
            };
            let from_there =
                |b: &MobilityBinding| b.reverse_tunnel && IpAddr::V4(b.care_of) == packet.source;
            self.bindings(home_address).iter().any(from_there)
        });
        let Some(inner) = inner.filter(|inner| inner.ttl > 1) else {
            self.stats.tunneled_unmatched += 1;
            return;
        };
        self.stats.detunneled += 1;
        if let Some(mut inner) = self.intercept(now, inner, out) {
            inner.ttl -= 1;
            out.send(inner);
        }
    }

    /// Tunnels a packet to a mobile node that is away from home. Returns the packet if the node is
    /// at home.
    fn intercept(&mut self, now: Time, packet: Packet, out: &mut Outbox) -> Option<Packet> {
        let bindings = bindings_of(&self.clients, packet.destination);
        if bindings.is_empty() {
            return Some(packet);
        }
        for binding in bindings {
            let entry = (self.config.address, binding.care_of);
            match self.tunnels.enter(now, packet.clone(), entry.0, entry.1) {
                TunnelEntry::Tunneled(packet) => out.send(packet),
                TunnelEntry::Report(report) => {
                    send_own(&self.clients, &mut self.tunnels, entry.0, report, out);
                }
                TunnelEntry::Dropped => {}
            }
        }
        None
    }
}

/// Returns the bindings of the mobile node with this address; empty if it is at home.
fn bindings_of(clients: &BTreeMap<Ipv4Addr, Client>, address: IpAddr) -> &[MobilityBinding] {
    let client = match address {
        IpAddr::V4(address) => clients.get(&address),
        IpAddr::V6(_) => None,
    };
    client.map_or(&[], |client| &client.bindings)
}

/// Sends an ICMP error of the agent, tunneled if the receiver is a mobile node away from home.
fn send_own(
    clients: &BTreeMap<Ipv4Addr, Client>,
    tunnels: &mut Tunnels,
    entry: Ipv4Addr,
    packet: Packet,
    out: &mut Outbox,
) {
    let bindings = bindings_of(clients, packet.destination);
    for binding in bindings {
        out.send(tunnels.enter_own(&packet, entry, binding.care_of));
    }
    if bindings.is_empty() {
        out.send(packet);
    }
}

/// Checks a request in the order of section 3.8.2.1.
fn check_request(
    config: &HomeAgentConfig,
    client: &mut Client,
    signed: &SignedMessage<RegistrationRequest>,
    clock: Identification,
) -> Result<ReplyCode, (ReplyCode, Identification)> {
    let request = &signed.message;
    let deny = |code| Err((code, request.identification));
    if !signed.is_authentic(AuthenticationKind::MobileHome, &client.association) {
        return deny(ReplyCode::HA_AUTHENTICATION);
    }
    if let Err(right) = client.replay.accept(request.identification, clock) {
        return Err((ReplyCode::HA_IDENTIFICATION, right));
    }
    let ends = request.lifetime == 0;
    let care_of = request.care_of;
    let at_home = care_of == request.home_address;
    let impossible = care_of.is_unspecified()
        || care_of.is_multicast()
        || care_of.is_broadcast()
        || care_of == config.address
        || (at_home && !ends);
    let flags = request.flags;
    let others = client.bindings.iter().filter(|b| b.care_of != care_of);
    match () {
        () if request.home_agent != config.address => deny(ReplyCode::HA_UNKNOWN_ADDRESS),
        () if flags.reserved || impossible => deny(ReplyCode::HA_POOR_REQUEST),
        () if ends => Ok(ReplyCode::ACCEPTED),
        () if flags.minimal || flags.gre => deny(ReplyCode::HA_ENCAPSULATION),
        () if flags.reverse_tunnel && !config.reverse_tunnels => deny(ReplyCode::HA_REVERSE_TUNNEL),
        () if config.max_bindings <= 1 && flags.simultaneous => Ok(ReplyCode::ACCEPTED_ONE_BINDING),
        () if flags.simultaneous && others.count() >= config.max_bindings => {
            deny(ReplyCode::HA_BINDINGS)
        }
        () => Ok(ReplyCode::ACCEPTED),
    }
}

/// Updates the bindings for an accepted request (section 3.8.2.2).
fn bind(
    client: &mut Client,
    request: &RegistrationRequest,
    lifetime: u16,
    now: Time,
    max_bindings: usize,
) {
    let all = request.care_of == request.home_address
        || (request.lifetime > 0 && !(request.flags.simultaneous && max_bindings > 1));
    client
        .bindings
        .retain(|binding| !all && binding.care_of != request.care_of);
    if request.lifetime > 0 {
        client.bindings.push(MobilityBinding {
            care_of: request.care_of,
            until: end_of(now, lifetime),
            reverse_tunnel: request.flags.reverse_tunnel,
        });
    }
}

impl Node for HomeAgent {
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
        self.expire(now);
        match packet.protocol {
            Protocol::Udp {
                source_port,
                destination_port: PORT,
            } => self.handle_request(now, interface, &packet, source_port, out),
            Protocol::IpInIp => self.handle_tunnel(now, &packet, out),
            Protocol::Icmp => {
                let advertisement = self.advertisement();
                let from = self.config.address;
                let advertiser = &mut self.advertiser;
                if !advertiser.answer(interface, &packet, from, &advertisement, out)
                    && let Some(error) = self.tunnels.relay(now, &packet, from)
                {
                    send_own(&self.clients, &mut self.tunnels, from, error, out);
                }
            }
            _ => {}
        }
    }

    fn handle_transit(
        &mut self,
        now: Time,
        _: InterfaceId,
        packet: Packet,
        out: &mut Outbox,
    ) -> Option<Packet> {
        if !self.running {
            return Some(packet);
        }
        self.expire(now);
        self.intercept(now, packet, out)
    }

    /// Errors of the router about a packet from a reverse tunnel are sent back through the tunnel.
    fn handle_own_error(&mut self, now: Time, error: Packet, out: &mut Outbox) -> Option<Packet> {
        self.expire(now);
        let abroad = !bindings_of(&self.clients, error.destination).is_empty();
        if !self.running || !abroad {
            return Some(error);
        }
        let entry = self.config.address;
        send_own(&self.clients, &mut self.tunnels, entry, error, out);
        None
    }

    fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        self.expire(now);
        let advertisement = self.advertisement();
        self.advertiser
            .handle_timeout(now, self.config.address, &advertisement, out);
    }

    fn next_timeout(&self) -> Option<Time> {
        let bindings = self.clients.values().flat_map(|client| &client.bindings);
        bindings
            .map(|binding| binding.until)
            .chain(self.advertiser.next_timeout())
            .min()
    }
}
