//! Where the mobile node is: agents heard, links that come and go, and the search for an agent (RFC
//! 5944 section 2.4). It stays with its agent until that is gone (section 2.4.2.1).

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use super::{CareOf, MobileNode, MobilityEvent};
use crate::ids::InterfaceId;
use crate::mobile::discovery::{AgentAdvertisement, has_restarted, solicitation};
use crate::node::{Node, Outbox};
use crate::packet::Packet;
use crate::rng::Random;
use crate::time::Time;

/// Agents that are remembered.
const MAX_AGENTS: usize = 16;
/// Solicitations at the shortest interval, and that interval (section 2.4).
const INITIAL_SOLICITATIONS: u32 = 3;
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(1);
/// Where the interval stops to double.
const MAX_SOLICITATION_INTERVAL: Duration = Duration::from_secs(60);

/// Where a mobile node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// It hears no agent and has no address to register.
    Nowhere,
    /// In its home network.
    Home {
        /// There.
        interface: InterfaceId,
    },
    /// In the network of a foreign agent.
    Visiting {
        /// There.
        interface: InterfaceId,
        /// The agent, as a neighbour.
        agent: Ipv4Addr,
        /// The care-of address that it offers.
        care_of: Ipv4Addr,
    },
    /// In a network that has given it an address.
    CoLocated {
        /// There.
        interface: InterfaceId,
        /// The address.
        care_of: Ipv4Addr,
    },
}

impl Attachment {
    /// The interface, if it is anywhere.
    pub fn interface(self) -> Option<InterfaceId> {
        match self {
            Self::Nowhere => None,
            Self::Home { interface }
            | Self::Visiting { interface, .. }
            | Self::CoLocated { interface, .. } => Some(interface),
        }
    }
}

/// An agent that was heard.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    interface: InterfaceId,
    address: Ipv4Addr,
    pub(super) advertisement: AgentAdvertisement,
    until: Time,
}

/// The search for an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    next: Time,
    sent: u32,
    interval: Duration,
}

impl Search {
    pub(super) fn from(next: Time) -> Self {
        Self {
            next,
            sent: 0,
            interval: SOLICITATION_INTERVAL,
        }
    }

    /// One was sent: when comes the next?
    fn step(&mut self, now: Time, random: &mut Random) {
        self.sent += 1;
        if self.sent >= INITIAL_SOLICITATIONS {
            self.interval = (self.interval * 2).min(MAX_SOLICITATION_INTERVAL);
        }
        // Around the nominal value, and never faster.
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
            // The next link that comes up begins anew.
            self.search = None;
            return;
        }
        let links = all.iter();
        for interface in links.filter(|interface| !self.down.contains(interface)) {
            self.stats.solicitations += 1;
            out.send_on(*interface, solicitation(self.config.home_address));
        }
        self.note(now, MobilityEvent::Solicited);
    }

    fn begin_search(&mut self, now: Time, out: &mut Outbox) {
        let delay = self
            .random
            .duration_up_to(self.config.max_solicitation_delay);
        self.search = Some(Search::from(now + delay));
        self.solicit(now, out);
    }

    pub(super) fn link_changed(
        &mut self,
        now: Time,
        interface: InterfaceId,
        up: bool,
        out: &mut Outbox,
    ) {
        self.note(now, MobilityEvent::Link { interface, up });
        if !self.config.link_triggers {
            return;
        }
        self.down.retain(|known| *known != interface);
        if !up {
            self.down.push(interface);
            self.agents.retain(|agent| agent.interface != interface);
        } else if self.attachment == Attachment::Nowhere {
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
        // It is here, whatever the link layer said.
        self.down.retain(|known| *known != interface);
        let is = |agent: &Agent| agent.address == address && agent.interface == interface;
        let known = self.agents.iter().position(is);
        let before = known.map(|position| self.agents.remove(position));
        if self.agents.len() == MAX_AGENTS {
            self.agents.remove(0);
        }
        self.agents.push(Agent {
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
            self.register_anew(now, out);
        }
    }

    fn is_current(&self, at: InterfaceId, address: Ipv4Addr) -> bool {
        matches!(self.attachment, Attachment::Visiting { interface, agent, .. }
            if interface == at && agent == address)
    }

    /// The agent through which the node is registered, or is about to.
    pub(super) fn current_agent(&self) -> Option<&Agent> {
        let is = |agent: &&Agent| self.is_current(agent.interface, agent.address);
        self.agents.iter().find(is)
    }

    /// Chooses where to be: at home if possible, where it is if that is still there, else at the
    /// first agent heard.
    fn reconsider(&mut self, now: Time, out: &mut Outbox) {
        let chosen = self.choose();
        if chosen == self.attachment {
            return;
        }
        self.attachment = chosen;
        self.note(now, MobilityEvent::Attached(chosen));
        if chosen == Attachment::Nowhere {
            self.registration.suspend();
            self.begin_search(now, out);
        } else {
            self.search = None;
            self.register_anew(now, out);
        }
    }

    fn choose(&self) -> Attachment {
        let is_home = |agent: &&Agent| {
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
        foreign.first().copied().unwrap_or(Attachment::Nowhere)
    }

    /// Where it could be abroad, in the order of preference.
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
            // A busy agent keeps those that it has.
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
