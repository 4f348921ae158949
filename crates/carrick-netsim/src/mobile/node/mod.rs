//! The mobile node (RFC 5944 sections 2.4, 3.6 and 4.2.1): around the program of a host, which sends
//! from and receives at the home address wherever the host is.

mod attachment;
mod registration;

use core::any::Any;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::BTreeMap;

use super::PORT;
use super::authentication::SecurityAssociation;
use super::discovery::Discovery;
use super::message::ReplyCode;
use super::tunnel::{self, Tunnels};
use crate::ids::InterfaceId;
use crate::node::{Node, Outbox};
use crate::packet::{Packet, Protocol};
use crate::rng::Random;
use crate::time::Time;

pub use attachment::Attachment;
use attachment::{Agent, Search};
use registration::Registration;

/// Events that are kept; later ones are only counted.
const MAX_EVENTS: usize = 4096;

/// Which care-of address a mobile node uses abroad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CareOf {
    /// That of the foreign agent.
    ForeignAgent,
    /// An address of the visited network that the interface has got (co-located). A foreign agent
    /// that requires registration is used all the same.
    CoLocated,
}

/// What a mobile node is given.
#[derive(Clone, Debug)]
pub struct MobileNodeConfig {
    /// Its address at home, on one of its interfaces.
    pub home_address: Ipv4Addr,
    /// Its home agent.
    pub home_agent: Ipv4Addr,
    /// What it shares with the home agent.
    pub association: SecurityAssociation,
    /// The interfaces that Mobile IP uses; others are left alone.
    pub interfaces: Vec<InterfaceId>,
    /// Which care-of address is registered.
    pub care_of: CareOf,
    /// Seconds to ask for; a foreign agent may take less.
    pub lifetime: u16,
    /// Whether its packets go through the tunnel (RFC 3024) instead of straight to their
    /// destination, the third side of the triangle.
    pub reverse_tunnel: bool,
    /// Whether a link that comes or goes is noticed at once, instead of by advertisements alone.
    pub link_triggers: bool,
    /// Longest random delay of the first solicitation on a new link; RFC 1256 has 1 s.
    pub max_solicitation_delay: Duration,
    /// Whether the earlier care-of address stays registered beside a new one (the S bit).
    pub simultaneous: bool,
    /// Seconds by which its clock is ahead.
    pub clock_offset: i64,
}

impl MobileNodeConfig {
    /// A mobile node that registers for five minutes through foreign agents, sends through the
    /// tunnel, and asks for an agent as soon as a link is there.
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

/// Something that happened to a mobile node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MobilityEvent {
    /// The link at an interface went up or down.
    Link {
        /// The interface.
        interface: InterfaceId,
        /// Up, or down.
        up: bool,
    },
    /// It asked for agents.
    Solicited,
    /// It is now here.
    Attached(Attachment),
    /// A request was sent for this care-of address.
    Requested {
        /// The care-of address; the home address to end all registrations.
        care_of: Ipv4Addr,
    },
    /// A registration was granted; with no lifetime, all are ended.
    Registered {
        /// The care-of address.
        care_of: Ipv4Addr,
        /// Seconds.
        lifetime: u16,
    },
    /// A registration was denied.
    Denied(ReplyCode),
    /// A registration ran out.
    Expired,
}

/// Counters of a mobile node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MobileNodeStats {
    /// Advertisements of agents received.
    pub advertisements: u64,
    /// Solicitations sent.
    pub solicitations: u64,
    /// Requests sent, with those sent again.
    pub requests: u64,
    /// Registrations granted.
    pub accepted: u64,
    /// Registrations denied, by code.
    pub denied: BTreeMap<ReplyCode, u64>,
    /// Replies dropped: malformed, not authentic, or to nothing that was asked.
    pub discarded: u64,
    /// Packets of the program that had no way out for want of a registration.
    pub unsendable: u64,
    /// Packets that went into the tunnel here.
    pub tunneled: u64,
    /// Packets that came out of the tunnel here.
    pub detunneled: u64,
    /// Packets out of tunnels that are not from the home agent or not for the home address.
    pub strangers: u64,
}

/// A host that moves, and the program that does not notice.
///
/// The program gets all packets that have nothing to do with Mobile IP, sends as it likes, and is
/// told of links and addresses. What it sends from the home address takes the way of Mobile IP;
/// everything else takes the host's routes.
#[derive(Debug)]
pub struct MobileNode<P> {
    config: MobileNodeConfig,
    program: P,
    random: Random,
    /// Which of the interfaces have a link that is up, as far as is known.
    down: Vec<InterfaceId>,
    /// Addresses of the visited networks.
    local_addresses: Vec<(InterfaceId, Ipv4Addr)>,
    agents: Vec<Agent>,
    attachment: Attachment,
    search: Option<Search>,
    registration: Registration,
    tunnels: Tunnels,
    inner: Outbox,
    events: Vec<(Time, MobilityEvent)>,
    stats: MobileNodeStats,
}

impl<P: Node> MobileNode<P> {
    /// A mobile node that does not know yet where it is; `local_addresses` are those of visited
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
            attachment: Attachment::Nowhere,
            search: Some(Search::from(Time::ZERO)),
            registration: Registration::default(),
            tunnels: Tunnels::default(),
            inner: Outbox::new(),
            events: Vec::new(),
            stats: MobileNodeStats::default(),
            config,
        }
    }

    /// The program.
    pub fn program(&self) -> &P {
        &self.program
    }

    /// The program, to be changed; see [`Self::with_program`] for changes that send.
    pub fn program_mut(&mut self) -> &mut P {
        &mut self.program
    }

    /// Calls `f` with the program and sends what it put into the outbox.
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

    /// Where it is.
    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// The care-of address that is registered, if any.
    pub fn registered(&self) -> Option<Ipv4Addr> {
        self.registration.care_of()
    }

    /// What happened, with its time: the first 4096 events.
    pub fn events(&self) -> &[(Time, MobilityEvent)] {
        &self.events
    }

    /// Counters.
    pub fn stats(&self) -> MobileNodeStats {
        MobileNodeStats {
            tunneled: self.tunnels.entered,
            ..self.stats.clone()
        }
    }

    fn note(&mut self, now: Time, event: MobilityEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push((now, event));
        }
    }

    /// Sends a packet from the home address from wherever it is (section 4.2.1).
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

    /// A packet out of the tunnel that ends here.
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
            self.stats.strangers += 1;
            return;
        };
        self.stats.detunneled += 1;
        self.with_program(out, |program, out| {
            program.handle_packet(now, interface, inner, out);
        });
    }

    /// ICMP errors about the own tunnel are told to the program as about the packets inside.
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
            Protocol::Icmp if ours => match Discovery::parse(&packet) {
                Ok(Discovery::Advertisement(advertisement)) => {
                    self.handle_advertisement(now, interface, &packet, &advertisement, out);
                }
                Ok(Discovery::Solicitation) => {}
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
