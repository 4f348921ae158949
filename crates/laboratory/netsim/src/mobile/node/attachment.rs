//! Attachment of the mobile node: advertised agents, link state, and the search for an agent (RFC
//! 5944, section 2.4). The node changes its agent only when the current one expires (section
//! 2.4.2.1).

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use super::{CareOf, MobileNode, MobilityEvent};
use crate::ids::InterfaceId;
use crate::mobile::discovery::{AgentAdvertisement, has_restarted, solicitation};
use crate::node::{Node, Outbox};
use crate::packet::Packet;
use crate::rng::Random;
use crate::time::Time;

/// Maximum number of agents kept.
const MAX_AGENTS: usize = 16;
/// Number of solicitations at the shortest interval (section 2.4).
const INITIAL_SOLICITATIONS: u32 = 3;
/// Shortest interval between solicitations (section 2.4).
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(1);
/// Longest interval between solicitations.
const MAX_SOLICITATION_INTERVAL: Duration = Duration::from_secs(60);

/// Point of attachment of a mobile node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// No agent is known and there is no address to register.
    Detached,
    /// Attached to the home network.
    Home {
        /// Interface to the home network.
        interface: InterfaceId,
    },
    /// Attached to the network of a foreign agent.
    Visiting {
        /// Interface to the visited network.
        interface: InterfaceId,
        /// Link-layer neighbour address of the agent.
        agent: Ipv4Addr,
        /// Care-of address that the agent offers.
        care_of: Ipv4Addr,
    },
    /// Attached to a network that has assigned an address to the node.
    CoLocated {
        /// Interface to the visited network.
        interface: InterfaceId,
        /// Co-located care-of address.
        care_of: Ipv4Addr,
    },
}

impl Attachment {
    /// Returns the interface, if the node is attached.
    pub fn interface(self) -> Option<InterfaceId> {
        match self {
            Self::Detached => None,
            Self::Home { interface }
            | Self::Visiting { interface, .. }
            | Self::CoLocated { interface, .. } => Some(interface),
        }
    }
}

/// An agent whose advertisement was received.
#[derive(Clone, Debug)]
pub(super) struct AdvertisedAgent {
    interface: InterfaceId,
    address: Ipv4Addr,
    pub(super) advertisement: AgentAdvertisement,
    until: Time,
}

/// Solicitation schedule of the search for an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgentSearch {
    next: Time,
    sent: u32,
    interval: Duration,
}

impl AgentSearch {
    pub(super) fn from(next: Time) -> Self {
        Self {
            next,
            sent: 0,
            interval: SOLICITATION_INTERVAL,
        }
    }

    /// Schedules the next solicitation after one was sent.
    fn step(&mut self, now: Time, random: &mut Random) {
        self.sent += 1;
        if self.sent >= INITIAL_SOLICITATIONS {
            self.interval = (self.interval * 2).min(MAX_SOLICITATION_INTERVAL);
        }
        // Close to the nominal value, and never less.
        self.next = now + self.interval + random.duration_up_to(self.interval / 10);
    }
}

impl<P: Node> MobileNode<P> {
    pub(super) fn next_own_timeout(&self) -> Option<Time> {
        let agents = self.agents.iter().map(|agent| agent.until);
        let search = self.search.map(|search| search.next);
        agents
            .chain(search)
            .chain(self.registration.next_timeout())
            .min()
    }

    pub(super) fn handle_own_timeout(&mut self, now: Time, out: &mut Outbox) {
        if self.agents.iter().any(|agent| agent.until <= now) {
            self.agents.retain(|agent| now < agent.until);
            self.reconsider(now, out);
        }
        self.solicit(now, out);
        self.registration_timeout(now, out);
    }

    /// Sends a solicitation on every link, if one is due.
    fn solicit(&mut self, now: Time, out: &mut Outbox) {
        let Some(search) = self.search.as_mut().filter(|search| search.next <= now) else {
            return;
        };
        search.step(now, &mut self.random);
        let all = &self.config.interfaces;
        if all.iter().all(|interface| self.down.contains(interface)) {
            // The next link that comes up restarts the search.
            self.search = None;
            return;
        }
        let links = all.iter();
        for interface in links.filter(|interface| !self.down.contains(interface)) {
            self.stats.solicitations += 1;
            out.send_on(*interface, solicitation(self.config.home_address));
        }
        self.record_event(now, MobilityEvent::Solicited);
    }

    fn begin_search(&mut self, now: Time, out: &mut Outbox) {
        let delay = self
            .random
            .duration_up_to(self.config.max_solicitation_delay);
        self.search = Some(AgentSearch::from(now + delay));
        self.solicit(now, out);
    }

    pub(super) fn link_changed(
        &mut self,
        now: Time,
        interface: InterfaceId,
        up: bool,
        out: &mut Outbox,
    ) {
        self.record_event(now, MobilityEvent::Link { interface, up });
        if !self.config.link_triggers {
            return;
        }
        self.down.retain(|known| *known != interface);
        if !up {
            self.down.push(interface);
            self.agents.retain(|agent| agent.interface != interface);
        } else if self.attachment == Attachment::Detached {
            self.begin_search(now, out);
        }
        self.reconsider(now, out);
    }

    pub(super) fn local_address_changed(
        &mut self,
        now: Time,
        interface: InterfaceId,
        address: Ipv4Addr,
        present: bool,
        out: &mut Outbox,
    ) {
        self.local_addresses
            .retain(|known| *known != (interface, address));
        if present {
            self.local_addresses.push((interface, address));
        }
        self.reconsider(now, out);
    }

    pub(super) fn handle_advertisement(
        &mut self,
        now: Time,
        interface: InterfaceId,
        packet: &Packet,
        advertisement: &AgentAdvertisement,
        out: &mut Outbox,
    ) {
        let IpAddr::V4(address) = packet.source else {
            return;
        };
        self.stats.advertisements += 1;
        // An advertisement proves that the link is up.
        self.down.retain(|known| *known != interface);
        let is = |agent: &AdvertisedAgent| agent.address == address && agent.interface == interface;
        let known = self.agents.iter().position(is);
        let before = known.map(|position| self.agents.remove(position));
        if self.agents.len() == MAX_AGENTS {
            self.agents.remove(0);
        }
        self.agents.push(AdvertisedAgent {
            interface,
            address,
            advertisement: advertisement.clone(),
            until: now + Duration::from_secs(advertisement.lifetime.into()),
        });
        let restarted = before.is_some_and(|before| {
            has_restarted(before.advertisement.sequence, advertisement.sequence)
        });
        let current = self.attachment;
        self.reconsider(now, out);
        if restarted && current == self.attachment && self.is_current(interface, address) {
            self.register_now(now, out);
        }
    }

    fn is_current(&self, at: InterfaceId, address: Ipv4Addr) -> bool {
        matches!(self.attachment, Attachment::Visiting { interface, agent, .. }
            if interface == at && agent == address)
    }

    /// Returns the agent through which the node is registered or registers.
    pub(super) fn current_agent(&self) -> Option<&AdvertisedAgent> {
        let is = |agent: &&AdvertisedAgent| self.is_current(agent.interface, agent.address);
        self.agents.iter().find(is)
    }

    /// Selects the attachment: the home network if possible, else the current attachment if it is
    /// still valid, else the first known agent.
    fn reconsider(&mut self, now: Time, out: &mut Outbox) {
        let chosen = self.choose();
        if chosen == self.attachment {
            return;
        }
        self.attachment = chosen;
        self.record_event(now, MobilityEvent::Attached(chosen));
        if chosen == Attachment::Detached {
            self.registration.suspend();
            self.begin_search(now, out);
        } else {
            self.search = None;
            self.register_now(now, out);
        }
    }

    fn choose(&self) -> Attachment {
        let is_home = |agent: &&AdvertisedAgent| {
            agent.address == self.config.home_agent && agent.advertisement.flags.home_agent
        };
        if let Some(home) = self.agents.iter().find(is_home) {
            let interface = home.interface;
            return Attachment::Home { interface };
        }
        let foreign: Vec<Attachment> = self.foreign_attachments().collect();
        if foreign.contains(&self.attachment) {
            return self.attachment;
        }
        foreign.first().copied().unwrap_or(Attachment::Detached)
    }

    /// Returns the possible attachments away from home, in order of preference.
    fn foreign_attachments(&self) -> impl Iterator<Item = Attachment> + '_ {
        let co_located = self.config.care_of == CareOf::CoLocated;
        let required = |interface| {
            let on_link = self.agents.iter().filter(move |a| a.interface == interface);
            on_link
                .into_iter()
                .any(|a| a.advertisement.flags.registration_required)
        };
        let locals = self.local_addresses.iter().filter(move |(interface, _)| {
            co_located && !self.down.contains(interface) && !required(*interface)
        });
        let locals = locals.map(|(interface, care_of)| Attachment::CoLocated {
            interface: *interface,
            care_of: *care_of,
        });
        let visited = self.agents.iter().filter_map(move |agent| {
            let offer = &agent.advertisement;
            let wanted = !co_located || offer.flags.registration_required;
            let known = self.is_current(agent.interface, agent.address);
            // A busy agent continues to serve registered nodes.
            let usable = offer.flags.foreign_agent && wanted && (known || !offer.flags.busy);
            usable.then(|| Attachment::Visiting {
                interface: agent.interface,
                agent: agent.address,
                care_of: offer.care_of[0],
            })
        });
        locals.chain(visited)
    }
}
