//! A simulated host that speaks SCTP: a [`carrick_netsim::Node`] around an endpoint of the protocol
//! core and an [`Application`] on top of it.
//!
//! The host converts times, packets and routes, cuts what the core hands out for segmentation
//! offload, keeps the timers of both, and passes on what the core tells. It adds no behaviour: what
//! an endpoint does here, it does on real sockets. One thing is missing below it: simulated networks
//! do not fragment, so that a packet for which the core allows it
//! ([`carrick_proto::Transmit::may_fragment`]) is lost on a link with a smaller MTU.
//!
//! ```
//! use std::net::IpAddr;
//! use carrick_lab::sctp_host::{Application, SctpHost};
//! use carrick_netsim::{LinkConfig, NetworkBuilder, Time};
//! use carrick_proto::{AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event};
//!
//! /// Connects when the simulation starts, and remembers that it worked.
//! struct Client { server: IpAddr, start: Option<carrick_proto::Time>, established: bool }
//!
//! impl Application for Client {
//!     fn next_timer(&self) -> Option<carrick_proto::Time> {
//!         self.start
//!     }
//!     fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
//!         self.start = None;
//!         let config = AssociationConfig::rfc9260();
//!         endpoint.connect(now, &[self.server], 5000, None, config).expect("a good address");
//!     }
//!     fn on_event(&mut self, _: carrick_proto::Time, _: &mut Endpoint, _: AssociationId, event: Event) {
//!         self.established |= matches!(event, Event::Established { .. });
//!     }
//! }
//!
//! struct Server;
//! impl Application for Server {}
//!
//! let addresses: [IpAddr; 2] = ["10.0.0.1".parse()?, "10.0.0.2".parse()?];
//! let mut net = NetworkBuilder::new(1);
//! let [a, b] = ["client", "server"].map(|name| net.add_host(name));
//! let [ia, ib] = [(a, addresses[0]), (b, addresses[1])].map(|(host, ip)| net.add_interface(host, [ip]));
//! net.connect_both(ia, ib, LinkConfig::delay(std::time::Duration::from_millis(10)));
//! let endpoint = |port, address, seed| Endpoint::new(EndpointConfig::new(port, vec![address], [seed; 32]));
//! let client = Client { server: addresses[1], start: Some(carrick_proto::Time::ZERO), established: false };
//! net.set_node_program(a, Box::new(SctpHost::new(endpoint(5001, addresses[0], 1)?, client)));
//! net.set_node_program(b, Box::new(SctpHost::new(endpoint(5000, addresses[1], 2)?, Server)));
//! let mut net = net.build()?;
//! net.run_until(Time::from_millis(40));
//! assert!(net.node::<SctpHost<Client>>(a).application().established);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod application;
mod log;
mod packets;
mod sessions;

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use carrick_netsim::{InterfaceId, Node, Outbox, Packet};
use carrick_proto::sessions::{SessionFactory, SessionLayer};
use carrick_proto::{AssociationId, Endpoint, Event, Time, Transmit};

pub use application::Application;
pub(crate) use log::{EventLog, PathState, Tape};
use sessions::Below;

/// A host with one SCTP endpoint and the program that uses it.
#[derive(Debug)]
pub struct SctpHost<A> {
    endpoint: Endpoint,
    /// Sessions between the endpoint and the network, if there are any.
    below: Option<Rc<dyn Below>>,
    application: A,
    /// The UDP port on which encapsulated SCTP arrives and from which it leaves.
    encapsulation: Option<u16>,
    /// Further UDP ports whose packets reach the host.
    forwarded: Vec<u16>,
    /// The tag of all packets that leave.
    flow: u32,
    /// Where the core writes packets; empty between calls, its memory is kept.
    buffer: Vec<u8>,
    /// Associations that exist, kept only for those who want traces.
    ids: Vec<AssociationId>,
    /// Where what the core tells is kept, if it is.
    tape: Option<Tape>,
    unsendable: u64,
    unclaimed: u64,
}

impl<A: Application> SctpHost<A> {
    /// A host that speaks SCTP directly over IP.
    pub fn new(endpoint: Endpoint, application: A) -> Self {
        Self {
            endpoint,
            below: None,
            application,
            encapsulation: None,
            forwarded: Vec::new(),
            flow: 0,
            buffer: Vec::new(),
            ids: Vec::new(),
            tape: None,
            unsendable: 0,
            unclaimed: 0,
        }
    }

    /// The same host, which also takes SCTP in UDP at `port` (RFC 6951) and sends encapsulated
    /// packets from there.
    #[must_use]
    pub fn with_encapsulation(mut self, port: u16) -> Self {
        self.encapsulation = Some(port);
        self
    }

    /// The same host, whose associations are over sessions (RFC 8261). The layer was made for the
    /// endpoint ([`SessionLayer::new`]); its datagrams need [`Self::with_encapsulation`]. The program
    /// shares it and connects through it; it may not hold it borrowed from one call to the next. As on
    /// real sockets, sessions stay where they are when addresses come and go, and what ICMP quotes of
    /// them says nothing.
    #[must_use]
    pub fn over<F: SessionFactory + 'static>(
        mut self,
        sessions: Rc<RefCell<SessionLayer<F>>>,
    ) -> Self {
        self.below = Some(sessions);
        self
    }

    /// Encapsulated packets leave from another port now, and those to the one before are lost: what a
    /// translator does that has forgotten the host.
    pub fn rebind(&mut self, port: u16) {
        self.encapsulation = Some(port);
        self.forwarded.clear();
    }

    /// Encapsulated packets to this port reach the host, too.
    pub fn forward(&mut self, port: u16) {
        self.forwarded.push(port);
    }

    /// The same host, whose packets are counted as `flow`.
    #[must_use]
    pub fn with_flow(mut self, flow: u32) -> Self {
        self.flow = flow;
        self
    }

    /// The same host, which keeps what its core tells. Associations must be configured to keep a
    /// trace, too.
    #[must_use]
    pub(crate) fn taped(mut self, tape: Tape) -> Self {
        self.tape = Some(tape);
        self
    }

    /// What the core has told, if it is kept.
    pub(crate) fn tape(&self) -> Option<&Tape> {
        self.tape.as_ref()
    }

    /// The program.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// The program, for a test that changes it; see [`Self::act`] for changes that send.
    pub fn application_mut(&mut self) -> &mut A {
        &mut self.application
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Packets that had nowhere to go: no local address of the destination's family, or an
    /// encapsulated path on a host without an encapsulation port.
    pub fn unsendable(&self) -> u64 {
        self.unsendable
    }

    /// Packets that reached the host and were for nothing on it: SCTP in UDP to another port, or no
    /// SCTP.
    pub fn unclaimed(&self) -> u64 {
        self.unclaimed
    }

    /// Does something with program and endpoint from outside, then sends what follows from it. To
    /// be called through [`carrick_netsim::Network::with_node`], which brings `now` and `out`.
    pub fn act<R>(
        &mut self,
        now: carrick_netsim::Time,
        out: &mut Outbox,
        f: impl FnOnce(&mut A, Time, &mut Endpoint) -> R,
    ) -> R {
        let now = core_time(now);
        let result = f(&mut self.application, now, &mut self.endpoint);
        self.drain(now, out);
        result
    }

    /// Sends, tells and asks again until the endpoint has nothing more.
    fn drain(&mut self, now: Time, out: &mut Outbox) {
        loop {
            while let Some(transmit) = self.poll_transmit(now) {
                self.send(&transmit, out);
                self.buffer.clear();
            }
            self.trace();
            let Some((id, event)) = self.poll_event(now) else {
                return;
            };
            if matches!(event, Event::MessageReceived) {
                self.application.on_readable(now, &mut self.endpoint, id);
            } else {
                if let Some(tape) = &self.tape {
                    tape.borrow_mut().look(now, &self.endpoint, id);
                }
                self.application
                    .on_event(now, &mut self.endpoint, id, event);
            }
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        match &self.below {
            None => self.endpoint.poll_transmit(now, &mut self.buffer),
            Some(below) => below.poll_transmit(now, &mut self.endpoint, &mut self.buffer),
        }
    }

    fn poll_event(&mut self, now: Time) -> Option<(AssociationId, Event)> {
        match &self.below {
            None => self.endpoint.poll_event(),
            Some(below) => below.poll_event(now, &mut self.endpoint),
        }
    }

    /// When the endpoint, or what is below it, wants to be called.
    fn poll_timeout(&self) -> Option<Time> {
        match &self.below {
            None => self.endpoint.poll_timeout(),
            Some(below) => below.poll_timeout(&self.endpoint),
        }
    }

    fn trace(&mut self) {
        let wanted = self.application.wants_trace();
        if !wanted && self.tape.is_none() {
            return;
        }
        self.ids.clear();
        self.ids.extend(self.endpoint.associations());
        for &id in &self.ids {
            while let Some(record) = self.endpoint.poll_trace(id) {
                if let Some(tape) = &self.tape {
                    tape.borrow_mut().records.push((id, record));
                }
                if wanted {
                    self.application.on_trace(id, &record);
                }
            }
        }
    }

    fn receive(&mut self, now: Time, packet: Packet) {
        if let Some(icmp) = packets::icmp(&packet, |port| self.is_bound_to(port)) {
            if self.below.is_none() {
                self.endpoint.handle_icmp(now, &icmp.as_input());
            }
        } else if let Some(route) = packets::route(&packet, |port| self.is_bound_to(port)) {
            match &self.below {
                None => self.endpoint.handle_datagram(now, &route, packet.payload),
                Some(below) => {
                    below.handle_datagram(now, &mut self.endpoint, &route, &packet.payload);
                }
            }
        } else {
            self.unclaimed += 1;
        }
    }

    fn is_bound_to(&self, port: u16) -> bool {
        self.encapsulation == Some(port) || self.forwarded.contains(&port)
    }

    fn send(&mut self, transmit: &Transmit, out: &mut Outbox) {
        let locals = self.endpoint.local_addresses();
        let Some(header) = packets::header(&transmit.route, locals, self.encapsulation) else {
            self.unsendable += transmit.packets() as u64;
            return;
        };
        let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
        for segment in self.buffer.chunks(size) {
            out.send(header.packet(segment).with_flow(self.flow));
        }
    }
}

impl<A: Application> Node for SctpHost<A> {
    fn handle_packet(
        &mut self,
        now: carrick_netsim::Time,
        _: InterfaceId,
        packet: Packet,
        out: &mut Outbox,
    ) {
        let now = core_time(now);
        self.receive(now, packet);
        self.drain(now, out);
    }

    fn handle_timeout(&mut self, now: carrick_netsim::Time, out: &mut Outbox) {
        let now = core_time(now);
        if self.poll_timeout().is_some_and(|due| due <= now) {
            match &self.below {
                None => self.endpoint.handle_timeout(now),
                Some(below) => below.handle_timeout(now, &mut self.endpoint),
            }
        }
        if self.application.next_timer().is_some_and(|due| due <= now) {
            self.application.on_timer(now, &mut self.endpoint);
        }
        self.drain(now, out);
    }

    fn next_timeout(&self) -> Option<carrick_netsim::Time> {
        let timers = [self.poll_timeout(), self.application.next_timer()];
        let next = timers.into_iter().flatten().min()?;
        Some(carrick_netsim::Time::from_nanos(next.as_nanos()))
    }

    fn handle_address_change(
        &mut self,
        now: carrick_netsim::Time,
        _: InterfaceId,
        address: IpAddr,
        present: bool,
        out: &mut Outbox,
    ) {
        let now = core_time(now);
        if self.below.is_some() {
            return;
        }
        if present {
            self.endpoint.local_address_added(address);
        } else {
            self.endpoint.local_address_removed(now, address);
        }
        self.drain(now, out);
    }
}

/// The core's time at a moment of the simulation: both count nanoseconds from its start.
pub fn core_time(time: carrick_netsim::Time) -> Time {
    Time::from_nanos(time.as_nanos())
}
