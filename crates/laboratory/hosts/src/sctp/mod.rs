//! A simulated host with SCTP: a [`carrick_netsim::Node`] that wraps an endpoint of the protocol
//! core and an [`Application`] that uses it.
//!
//! The host converts times, packets and routes, splits segmentation offload buffers, manages the
//! timers of both, and forwards the events of the core. It adds no behaviour: an endpoint behaves
//! as on real sockets, with one exception. Simulated networks do not fragment, so a packet that may
//! be fragmented ([`carrick_proto::Transmit::may_fragment`]) is lost on a link with a smaller MTU.
//!
//! ```
//! use std::net::IpAddr;
//! use carrick_hosts::sctp::{Application, SctpHost};
//! use carrick_netsim::{LinkConfig, NetworkBuilder, Time};
//! use carrick_proto::{AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event};
//!
//! /// Connects when the simulation starts, and records the established association.
//! struct Client { server: IpAddr, start: Option<carrick_proto::Time>, established: bool }
//!
//! impl Application for Client {
//!     fn next_timer(&self) -> Option<carrick_proto::Time> {
//!         self.start
//!     }
//!     fn on_timer(&mut self, now: carrick_proto::Time, endpoint: &mut Endpoint) {
//!         self.start = None;
//!         let config = AssociationConfig::rfc9260();
//!         endpoint.connect(now, &[self.server], 5000, None, config).expect("a valid address");
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
mod routes;
mod sessions;

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use carrick_netsim::{InterfaceId, Node, Outbox, Packet, RouteTable};
use carrick_proto::sessions::{SessionFactory, SessionLayer};
use carrick_proto::{AssociationId, Endpoint, Event, Time, Transmit};

use crate::core_time;
pub use application::Application;
use log::Recorder;
pub use log::{EventLog, ObservedRecord, PathState, PathStateChange};
pub use routes::HostRoutes;
use sessions::Below;

/// A host with one SCTP endpoint and the program that uses it.
#[derive(Debug)]
pub struct SctpHost<A> {
    endpoint: Endpoint,
    /// Session layer between the endpoint and the network, if there is one.
    below: Option<Rc<dyn Below>>,
    application: A,
    /// UDP port of encapsulated SCTP.
    encapsulation: Option<u16>,
    /// Further UDP ports whose packets reach the host.
    forwarded: Vec<u16>,
    /// Routes of the host, if the endpoint selects source addresses by them.
    routes: Option<HostRoutes>,
    /// Flow tag of all sent packets.
    flow: u32,
    /// Buffer for packets of the core; empty between calls, to reuse its allocation.
    buffer: Vec<u8>,
    /// Observer of the endpoint, if its events are recorded.
    recorder: Option<Arc<Recorder>>,
    /// Event log of the core, if it is recorded.
    event_log: Option<EventLog>,
    unsendable: u64,
    unclaimed: u64,
}

impl<A: Application> SctpHost<A> {
    /// Returns a host that sends SCTP directly over IP.
    pub fn new(endpoint: Endpoint, application: A) -> Self {
        let mut host = Self {
            endpoint,
            below: None,
            application,
            encapsulation: None,
            forwarded: Vec::new(),
            routes: None,
            flow: 0,
            buffer: Vec::new(),
            recorder: None,
            event_log: None,
            unsendable: 0,
            unclaimed: 0,
        };
        if host.application.observes() {
            host.record_events();
        }
        host
    }

    /// Observes the endpoint from now on.
    fn record_events(&mut self) {
        let recorder = Arc::<Recorder>::default();
        self.endpoint
            .set_observer(Time::ZERO, Some(recorder.clone()));
        self.recorder = Some(recorder);
    }

    /// Enables encapsulation: the host accepts SCTP in UDP at `port` (RFC 6951) and sends
    /// encapsulated packets from it.
    #[must_use]
    pub fn with_encapsulation(mut self, port: u16) -> Self {
        self.encapsulation = Some(port);
        self
    }

    /// Runs associations over sessions (RFC 8261). The layer must have been created for the
    /// endpoint ([`SessionLayer::new`]); its datagrams need [`Self::with_encapsulation`]. The
    /// program shares the layer and connects through it; it must not keep it borrowed between
    /// calls. As on real sockets, sessions do not move when addresses change, and ICMP quotations
    /// of their datagrams are ignored.
    #[must_use]
    pub fn over<F: SessionFactory + 'static>(
        mut self,
        sessions: Rc<RefCell<SessionLayer<F>>>,
    ) -> Self {
        self.below = Some(sessions);
        self
    }

    /// Moves encapsulation to another port; packets to the previous one are lost. This emulates a
    /// NAT whose binding has expired.
    pub fn rebind(&mut self, port: u16) {
        self.encapsulation = Some(port);
        self.forwarded.clear();
    }

    /// Accepts encapsulated packets to this port, too.
    pub fn forward(&mut self, port: u16) {
        self.forwarded.push(port);
    }

    /// Follows the routes of the host: the endpoint, whose configuration must have a clone of `routes`
    /// as its [`carrick_proto::EndpointConfig::source_selection`], selects source addresses by them,
    /// and again after every change. Without it, source addresses do not depend on routes.
    #[must_use]
    pub fn with_routes(mut self, routes: HostRoutes) -> Self {
        self.routes = Some(routes);
        self
    }

    /// Sets the flow tag of sent packets.
    #[must_use]
    pub fn with_flow(mut self, flow: u32) -> Self {
        self.flow = flow;
        self
    }

    /// Records the events of the core.
    #[must_use]
    pub fn with_event_log(mut self) -> Self {
        self.record_events();
        self.event_log = Some(EventLog::default());
        self
    }

    /// Returns the event log of the core, if it is recorded.
    pub fn event_log(&self) -> Option<&EventLog> {
        self.event_log.as_ref()
    }

    /// Returns the program.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// Returns the program for modification; see [`Self::act`] for modifications that send.
    pub fn application_mut(&mut self) -> &mut A {
        &mut self.application
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the number of packets that could not be sent: no local address of the destination's
    /// family, or an encapsulated path on a host without an encapsulation port.
    pub fn unsendable(&self) -> u64 {
        self.unsendable
    }

    /// Returns the number of received packets that no protocol of the host accepted: SCTP in UDP to
    /// another port, or not SCTP.
    pub fn unclaimed(&self) -> u64 {
        self.unclaimed
    }

    /// Calls `f` with the program and the endpoint, then sends the resulting packets. Call it
    /// through [`carrick_netsim::Network::with_node`], which provides `now` and `out`.
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

    /// Sends packets and forwards events until the endpoint has no more output.
    fn drain(&mut self, now: Time, out: &mut Outbox) {
        loop {
            while let Some(transmit) = self.poll_transmit(now) {
                self.send(&transmit, out);
                self.buffer.clear();
            }
            self.pass_observed();
            let Some((id, event)) = self.poll_event(now) else {
                return;
            };
            if matches!(event, Event::MessageReceived) {
                self.application.on_readable(now, &mut self.endpoint, id);
            } else {
                if let Some(event_log) = &mut self.event_log {
                    event_log.look(now, &self.endpoint, id);
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

    /// Returns the next timeout of the endpoint or the session layer.
    fn poll_timeout(&self) -> Option<Time> {
        match &self.below {
            None => self.endpoint.poll_timeout(),
            Some(below) => below.poll_timeout(&self.endpoint),
        }
    }

    /// Passes the observed events on.
    fn pass_observed(&mut self) {
        let Some(recorder) = &self.recorder else {
            return;
        };
        let observes = self.application.observes();
        for record in recorder.take() {
            if observes {
                self.application
                    .on_observed(record.time, record.association, &record.event);
            }
            if let Some(event_log) = &mut self.event_log {
                event_log.records.push(record);
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
        let source = packets::source(&transmit.route, locals, self.routes.as_ref());
        let to = (&transmit.route, transmit.dscp);
        let Some(header) = packets::header(to, source, self.encapsulation) else {
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

    fn follows_routes(&self) -> bool {
        self.routes.is_some()
    }

    fn handle_route_change(
        &mut self,
        now: carrick_netsim::Time,
        routes: RouteTable,
        out: &mut Outbox,
    ) {
        let now = core_time(now);
        if self.routes.as_ref().is_some_and(|own| own.replace(routes)) {
            self.endpoint.local_routes_changed();
            self.drain(now, out);
        }
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
