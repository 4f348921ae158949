//! The mobile node (RFC 5944, sections 2.4, 3.6 and 4.2.1). It wraps the program of a host, which
//! sends from and receives at the home address at every attachment.

mod attachment;
mod registration;

use core::any::Any;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::BTreeMap;

use super::PORT;
use super::authentication::SecurityAssociation;
use super::discovery::DiscoveryMessage;
use super::message::ReplyCode;
use super::tunnel::{self, Tunnels};
use crate::ids::InterfaceId;
use crate::node::{Node, Outbox};
use crate::packet::{Packet, Protocol};
use crate::rng::Random;
use crate::time::Time;

pub use attachment::Attachment;
use attachment::{AdvertisedAgent, AgentSearch};
use registration::Registration;

/// Maximum number of events kept.
const MAX_EVENTS: usize = 4096;

/// Type of the care-of address that a mobile node uses away from home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CareOf {
    /// The care-of address of the foreign agent.
    ForeignAgent,
    /// A co-located care-of address: an address of the visited network that the interface has been
    /// assigned. A foreign agent that requires registration is used nevertheless.
    CoLocated,
}

/// Configuration of a mobile node.
#[derive(Clone, Debug)]
pub struct MobileNodeConfig {
    /// Home address, on one of the node's interfaces.
    pub home_address: Ipv4Addr,
    /// Home agent.
    pub home_agent: Ipv4Addr,
    /// Security association with the home agent.
    pub association: SecurityAssociation,
    /// Interfaces that Mobile IP uses; other interfaces are not affected.
    pub interfaces: Vec<InterfaceId>,
    /// Type of care-of address.
    pub care_of: CareOf,
    /// Requested lifetime in seconds; a foreign agent may grant less.
    pub lifetime: u16,
    /// Requests a reverse tunnel (RFC 3024) instead of sending directly to the destination
    /// (triangle routing).
    pub reverse_tunnel: bool,
    /// Detects link changes at once, instead of by advertisements only.
    pub link_triggers: bool,
    /// Longest random delay of the first solicitation on a new link; 1 s in RFC 1256.
    pub max_solicitation_delay: Duration,
    /// Requests simultaneous bindings (the S bit): the earlier care-of address stays registered.
    pub simultaneous: bool,
    /// Seconds by which the node's clock is ahead.
    pub clock_offset: i64,
}

impl MobileNodeConfig {
    /// Returns a mobile node that registers for five minutes through foreign agents, uses a reverse
    /// tunnel, and solicits an agent as soon as a link is up.
    pub fn new(
        home_address: Ipv4Addr,
        home_agent: Ipv4Addr,
        association: SecurityAssociation,
        interfaces: impl IntoIterator<Item = InterfaceId>,
    ) -> Self {
        Self {
            home_address,
            home_agent,
            association,
            interfaces: interfaces.into_iter().collect(),
            care_of: CareOf::ForeignAgent,
            lifetime: 300,
            reverse_tunnel: true,
            link_triggers: true,
            max_solicitation_delay: Duration::ZERO,
            simultaneous: false,
            clock_offset: 0,
        }
    }
}

/// An event of a mobile node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MobilityEvent {
    /// The link at an interface changed its state.
    Link {
        /// Interface of the link.
        interface: InterfaceId,
        /// New state: up or down.
        up: bool,
    },
    /// A solicitation was sent.
    Solicited,
    /// The attachment changed.
    Attached(Attachment),
    /// A registration request was sent for this care-of address.
    Requested {
        /// Care-of address; the home address for deregistration of all.
        care_of: Ipv4Addr,
    },
    /// A registration was accepted; with lifetime 0, a deregistration.
    Registered {
        /// Care-of address.
        care_of: Ipv4Addr,
        /// Granted lifetime in seconds.
        lifetime: u16,
    },
    /// A registration was denied.
    Denied(ReplyCode),
    /// A registration expired.
    Expired,
}

/// Counters of a mobile node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MobileNodeStats {
    /// Agent Advertisements received.
    pub advertisements: u64,
    /// Solicitations sent.
    pub solicitations: u64,
    /// Requests sent, including retransmissions.
    pub requests: u64,
    /// Registrations accepted.
    pub accepted: u64,
    /// Registrations denied, by code.
    pub denied: BTreeMap<ReplyCode, u64>,
    /// Replies discarded: malformed, not authentic, or without a pending request.
    pub discarded: u64,
    /// Packets of the program dropped because the node was not registered.
    pub unsendable: u64,
    /// Packets tunneled by this node.
    pub tunneled: u64,
    /// Packets detunneled by this node.
    pub detunneled: u64,
    /// Tunneled packets that are not from the home agent or not for the home address.
    pub tunneled_unmatched: u64,
}

/// A host that moves, transparently for its program.
///
/// The program receives all packets except those of Mobile IP, sends as usual, and is notified of
/// link and address changes. Packets with the home address as source are sent as Mobile IP
/// requires; all other packets follow the host's routes.
#[derive(Debug)]
pub struct MobileNode<P> {
    config: MobileNodeConfig,
    program: P,
    random: Random,
    /// Interfaces whose link is down, as far as known.
    down: Vec<InterfaceId>,
    /// Addresses of the visited networks.
    local_addresses: Vec<(InterfaceId, Ipv4Addr)>,
    agents: Vec<AdvertisedAgent>,
    attachment: Attachment,
    search: Option<AgentSearch>,
    registration: Registration,
    tunnels: Tunnels,
    inner: Outbox,
    events: Vec<(Time, MobilityEvent)>,
    stats: MobileNodeStats,
}

impl<P: Node> MobileNode<P> {
    /// Returns a mobile node without an attachment; `local_addresses` are the addresses of visited
    /// networks that its interfaces have from the start.
    pub fn new(
        config: MobileNodeConfig,
        local_addresses: impl IntoIterator<Item = (InterfaceId, Ipv4Addr)>,
        program: P,
        random: Random,
    ) -> Self {
        Self {
            program,
            random,
            down: Vec::new(),
            local_addresses: local_addresses.into_iter().collect(),
            agents: Vec::new(),
            attachment: Attachment::Detached,
            search: Some(AgentSearch::from(Time::ZERO)),
            registration: Registration::default(),
            tunnels: Tunnels::default(),
            inner: Outbox::new(),
            events: Vec::new(),
            stats: MobileNodeStats::default(),
            config,
        }
    }

    /// Returns the program.
    pub fn program(&self) -> &P {
        &self.program
    }

    /// Returns the program for modification; see [`Self::with_program`] for modifications that
    /// send.
    pub fn program_mut(&mut self) -> &mut P {
        &mut self.program
    }

    /// Calls `f` with the program and sends the packets in the outbox.
    pub fn with_program<R>(
        &mut self,
        out: &mut Outbox,
        f: impl FnOnce(&mut P, &mut Outbox) -> R,
    ) -> R {
        let mut inner = core::mem::take(&mut self.inner);
        let result = f(&mut self.program, &mut inner);
        for outgoing in inner.drain() {
            let home = IpAddr::V4(self.config.home_address);
            match outgoing.interface {
                None if outgoing.packet.source == home => self.send_from_home(outgoing.packet, out),
                None => out.send(outgoing.packet),
                Some(interface) => out.send_on(interface, outgoing.packet),
            }
        }
        self.inner = inner;
        result
    }

    /// Returns the point of attachment.
    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// Returns the registered care-of address, if any.
    pub fn registered(&self) -> Option<Ipv4Addr> {
        self.registration.care_of()
    }

    /// Returns the first 4096 events with their times.
    pub fn events(&self) -> &[(Time, MobilityEvent)] {
        &self.events
    }

    /// Returns the counters.
    pub fn stats(&self) -> MobileNodeStats {
        MobileNodeStats {
            tunneled: self.tunnels.entered,
            ..self.stats.clone()
        }
    }

    fn record_event(&mut self, now: Time, event: MobilityEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push((now, event));
        }
    }

    /// Sends a packet with the home address as source (section 4.2.1).
    fn send_from_home(&mut self, packet: Packet, out: &mut Outbox) {
        let registered = self.registration.care_of();
        match self.attachment {
            Attachment::Home { interface } => out.send_on(interface, packet),
            Attachment::Visiting {
                interface, care_of, ..
            } if registered == Some(care_of) => out.send_on(interface, packet),
            Attachment::CoLocated { interface, care_of } if registered == Some(care_of) => {
                let packet = if self.config.reverse_tunnel {
                    self.tunnels
                        .enter_own(&packet, care_of, self.config.home_agent)
                } else {
                    packet
                };
                out.send_on(interface, packet);
            }
            _ => self.stats.unsendable += 1,
        }
    }

    /// Handles a tunneled packet at the exit of the tunnel.
    fn handle_tunnel(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: &Packet,
        out: &mut Outbox,
    ) {
        let from_home = packet.source == IpAddr::V4(self.config.home_agent);
        let home = IpAddr::V4(self.config.home_address);
        let inner = tunnel::leave(packet).filter(|inner| from_home && inner.destination == home);
        let Some(inner) = inner else {
            self.stats.tunneled_unmatched += 1;
            return;
        };
        self.stats.detunneled += 1;
        self.with_program(out, |program, out| {
            program.handle_packet(now, interface, inner, out);
        });
    }

    /// Translates ICMP errors about the node's tunnel into errors about the inner packets, for the
    /// program.
    fn handle_icmp(&mut self, now: Time, interface: InterfaceId, packet: Packet, out: &mut Outbox) {
        let relayed = match self.attachment {
            Attachment::CoLocated { care_of, .. } => self.tunnels.relay(now, &packet, care_of),
            _ => None,
        };
        let packet = relayed.unwrap_or(packet);
        self.with_program(out, |program, out| {
            program.handle_packet(now, interface, packet, out);
        });
    }
}

impl<P: Node + Any> Node for MobileNode<P> {
    fn handle_packet(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: Packet,
        out: &mut Outbox,
    ) {
        let ours = self.config.interfaces.contains(&interface);
        match packet.protocol {
            Protocol::Udp {
                destination_port: PORT,
                ..
            } => self.handle_reply(now, &packet, out),
            Protocol::Icmp if ours => match DiscoveryMessage::parse(&packet) {
                Ok(DiscoveryMessage::Advertisement(advertisement)) => {
                    self.handle_advertisement(now, interface, &packet, &advertisement, out);
                }
                Ok(DiscoveryMessage::Solicitation) => {}
                Err(_) => self.handle_icmp(now, interface, packet, out),
            },
            Protocol::IpInIp if ours => self.handle_tunnel(now, interface, &packet, out),
            _ => self.with_program(out, |program, out| {
                program.handle_packet(now, interface, packet, out);
            }),
        }
    }

    fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        self.handle_own_timeout(now, out);
        if self.program.next_timeout().is_some_and(|next| next <= now) {
            self.with_program(out, |program, out| program.handle_timeout(now, out));
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let own = self.next_own_timeout();
        own.into_iter().chain(self.program.next_timeout()).min()
    }

    fn handle_link_change(
        &mut self,
        now: Time,
        interface: InterfaceId,
        up: bool,
        out: &mut Outbox,
    ) {
        if self.config.interfaces.contains(&interface) {
            self.link_changed(now, interface, up, out);
        }
        self.with_program(out, |program, out| {
            program.handle_link_change(now, interface, up, out);
        });
    }

    fn handle_address_change(
        &mut self,
        now: Time,
        interface: InterfaceId,
        address: IpAddr,
        present: bool,
        out: &mut Outbox,
    ) {
        if let IpAddr::V4(address) = address
            && self.config.interfaces.contains(&interface)
            && address != self.config.home_address
        {
            self.local_address_changed(now, interface, address, present, out);
        }
        self.with_program(out, |program, out| {
            program.handle_address_change(now, interface, address, present, out);
        });
    }
}
