//! Registration and its renewal (RFC 5944, section 3.6).

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use super::{Attachment, MobileNode, MobilityEvent};
use crate::mobile::authentication::AuthenticationKind;
use crate::mobile::identification::Identification;
use crate::mobile::message::{
    RegistrationReply, RegistrationRequest, ReplyCode, RequestFlags, SignedMessage,
};
use crate::mobile::{INFINITE, PORT, message_packet};
use crate::node::{Node, Outbox};
use crate::packet::Packet;
use crate::time::Time;

/// Minimum time between two requests (section 3.6.3).
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Registration state of the node.
#[derive(Clone, Debug, Default)]
pub(super) struct Registration {
    granted: Option<GrantedRegistration>,
    pending: Option<PendingRequest>,
    /// The home agent has, or may have, a binding that must be removed at home.
    bound: bool,
    /// Longest lifetime in seconds that a foreign agent has indicated.
    limit: Option<u16>,
    /// Clock correction that the home agent has indicated, in seconds.
    correction: i64,
    latest: Identification,
}

#[derive(Clone, Copy, Debug)]
struct GrantedRegistration {
    care_of: Ipv4Addr,
    /// Time of the renewal.
    renew: Time,
    until: Time,
}

#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    request: RegistrationRequest,
    sent: Time,
    /// Time of the retransmission.
    again: Time,
    interval: Duration,
}

impl Registration {
    pub(super) fn care_of(&self) -> Option<Ipv4Addr> {
        self.granted.map(|granted| granted.care_of)
    }

    /// Stops requests while the node is not attached.
    pub(super) fn suspend(&mut self) {
        self.pending = None;
        if let Some(granted) = &mut self.granted {
            granted.renew = Time::MAX;
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let granted = self.granted.map(|granted| granted.renew.min(granted.until));
        let pending = self.pending.map(|pending| pending.again);
        granted.into_iter().chain(pending).min()
    }
}

impl<P: Node> MobileNode<P> {
    /// Registers the current attachment at once.
    pub(super) fn register_now(&mut self, now: Time, out: &mut Outbox) {
        self.registration.limit = None;
        self.registration.pending = None;
        self.request(now, MIN_INTERVAL, out);
    }

    pub(super) fn registration_timeout(&mut self, now: Time, out: &mut Outbox) {
        let granted = self.registration.granted;
        if granted.is_some_and(|granted| granted.until <= now) {
            self.registration.granted = None;
            self.record_event(now, MobilityEvent::Expired);
        }
        if let Some(pending) = self.registration.pending.filter(|p| p.again <= now) {
            let longest = Duration::from_secs(pending.request.lifetime.max(60).into());
            let interval = (pending.interval * 2).min(longest);
            self.request(now, interval, out);
        } else if let Some(granted) = self.registration.granted.as_mut()
            && granted.renew <= now
        {
            granted.renew = Time::MAX;
            self.request(now, MIN_INTERVAL, out);
        }
    }

    /// Sends a request for the current attachment; it is retransmitted after `interval` without a
    /// reply.
    fn request(&mut self, now: Time, interval: Duration, out: &mut Outbox) {
        let home = self.config.home_address;
        let (care_of, source, agent, interface) = match self.attachment {
            Attachment::Detached => return,
            // Without a binding there is nothing to deregister.
            Attachment::Home { .. } if !self.registration.bound => {
                self.registration.pending = None;
                return;
            }
            Attachment::Home { interface } => (home, home, self.config.home_agent, interface),
            Attachment::Visiting {
                interface,
                agent,
                care_of,
            } => (care_of, home, agent, interface),
            Attachment::CoLocated { interface, care_of } => {
                (care_of, care_of, self.config.home_agent, interface)
            }
        };
        let request = RegistrationRequest {
            flags: RequestFlags {
                decapsulation: matches!(self.attachment, Attachment::CoLocated { .. }),
                reverse_tunnel: self.config.reverse_tunnel && care_of != home,
                simultaneous: self.config.simultaneous && care_of != home,
                ..RequestFlags::default()
            },
            lifetime: self.wanted_lifetime(),
            home_address: home,
            home_agent: self.config.home_agent,
            care_of,
            identification: self.next_identification(now),
        };
        self.registration.bound = true;
        self.registration.pending = Some(PendingRequest {
            request,
            sent: now,
            again: now + interval,
            interval,
        });
        self.stats.requests += 1;
        self.record_event(now, MobilityEvent::Requested { care_of });
        let payload = request.to_bytes(&self.config.association);
        let mut packet = message_packet(source, agent.into(), PORT, payload);
        if source == home {
            // The agent is a neighbour (appendix C).
            packet.ttl = 1;
        }
        out.send_on(interface, packet);
    }

    fn wanted_lifetime(&self) -> u16 {
        let offered = self
            .current_agent()
            .map(|a| a.advertisement.registration_lifetime);
        match self.attachment {
            Attachment::Home { .. } => 0,
            _ => [offered, self.registration.limit]
                .into_iter()
                .flatten()
                .fold(self.config.lifetime, u16::min)
                .max(1),
        }
    }

    /// Returns a timestamp later than all previous ones (section 5.7.1).
    fn next_identification(&mut self, now: Time) -> Identification {
        let offset = self.config.clock_offset + self.registration.correction;
        let stamp = Identification::at(now, offset, &mut self.random);
        let next = stamp.max(Identification(self.registration.latest.0.saturating_add(1)));
        self.registration.latest = next;
        next
    }

    /// Handles a reply (section 3.6.2).
    pub(super) fn handle_reply(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let Some((reply, pending)) = self.authentic_reply(packet) else {
            self.stats.discarded += 1;
            return;
        };
        if reply.code.is_accepted() {
            self.stats.accepted += 1;
            self.registration.pending = None;
            self.granted(now, &reply, &pending);
            return;
        }
        *self.stats.denied.entry(reply.code).or_default() += 1;
        self.record_event(now, MobilityEvent::Denied(reply.code));
        match reply.code {
            ReplyCode::HA_IDENTIFICATION => {
                let reply_seconds = i64::from(reply.identification.high());
                let mine = i64::from(pending.request.identification.high());
                self.registration.correction += reply_seconds - mine;
                // Identifications of the wrong clock do not limit the corrected one.
                self.registration.latest = Identification::default();
            }
            ReplyCode::FA_LIFETIME if (1..pending.request.lifetime).contains(&reply.lifetime) => {
                self.registration.limit = Some(reply.lifetime);
            }
            // The error cannot be corrected: the request is retransmitted with exponential
            // back-off.
            _ => return,
        }
        // As soon as the minimum interval allows.
        let again = (pending.sent + MIN_INTERVAL).max(now);
        if again <= now {
            self.request(now, pending.interval, out);
        } else if let Some(pending) = &mut self.registration.pending {
            pending.again = again;
            pending.interval = MIN_INTERVAL / 2;
        }
    }

    /// Returns the reply in a packet, if it matches the pending request and its source and
    /// authenticator are valid.
    fn authentic_reply(&self, packet: &Packet) -> Option<(RegistrationReply, PendingRequest)> {
        let signed = SignedMessage::<RegistrationReply>::parse(&packet.payload).ok()?;
        let pending = self.registration.pending?;
        let reply = signed.message;
        let request = &pending.request;
        let matches = reply.home_address == request.home_address
            && reply.identification.low() == request.identification.low();
        let association = &self.config.association;
        let authentic = if reply.code.is_from_home_agent() {
            signed.is_authentic(AuthenticationKind::MobileHome, association)
        } else {
            // A denial of the agent that the request was sent to; there is no key shared with it.
            self.asked() == Some(packet.source)
        };
        (matches && authentic).then_some((reply, pending))
    }

    fn asked(&self) -> Option<IpAddr> {
        match self.attachment {
            Attachment::Visiting { agent, .. } => Some(agent.into()),
            _ => None,
        }
    }

    fn granted(&mut self, now: Time, reply: &RegistrationReply, pending: &PendingRequest) {
        let care_of = pending.request.care_of;
        let lifetime = reply.lifetime.min(pending.request.lifetime);
        self.record_event(now, MobilityEvent::Registered { care_of, lifetime });
        self.registration.granted = None;
        self.registration.bound = lifetime > 0;
        if lifetime == 0 {
            return;
        }
        // Counted from the request, so that the registration expires here before it expires at the
        // home agent (section 3.6.2.2).
        let seconds = Duration::from_secs(lifetime.into());
        let (renew, until) = match lifetime {
            INFINITE => (Time::MAX, Time::MAX),
            _ => (
                (pending.sent + seconds * 3 / 4).max(now + MIN_INTERVAL),
                pending.sent + seconds,
            ),
        };
        self.registration.granted = Some(GrantedRegistration {
            care_of,
            renew,
            until,
        });
    }
}
