//! Two endpoints over DTLS in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use carrick_dtls::{
    Certificate, Dtls, DtlsConfig, DtlsError, DtlsLayer, Fingerprint, Trust, Versions,
};
use carrick_proto::sessions::{SessionConnectError, SessionEvent, SessionLayerConfig};
use carrick_proto::{
    AssociationConfig, AssociationId, CloseReason, Ecn, Endpoint, EndpointConfig, Event,
    MessagePart, PathMtuDiscovery, Route, SendOptions, StreamId, Time, Transmit,
};

pub(crate) const PORT: u16 = 5000;
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

pub(crate) fn address(node: usize) -> SocketAddr {
    SocketAddr::new(
        IpAddr::from([192, 0, 2, 1 + node as u8]),
        4000 + node as u16,
    )
}

/// Returns the certificate of a node; generating one is slow, so it is reused.
pub(crate) fn certificate(node: usize) -> Certificate {
    static MADE: OnceLock<Vec<Certificate>> = OnceLock::new();
    MADE.get_or_init(|| (0..3).map(|_| Certificate::generate().unwrap()).collect())[node].clone()
}

pub(crate) fn fingerprint(node: usize) -> Fingerprint {
    certificate(node).fingerprint()
}

pub(crate) fn expecting(node: usize) -> Trust {
    Trust::fingerprint(fingerprint(node))
}

/// Fixed sizes, so that the lengths of datagrams are predictable.
pub(crate) fn association() -> AssociationConfig {
    AssociationConfig::rfc9260().with(|c| {
        c.mtu.path_mtu_discovery = Some(PathMtuDiscovery {
            max_probed_mtu: 1500,
            ..PathMtuDiscovery::default()
        })
    })
}

pub(crate) struct Node {
    pub(crate) core: Endpoint,
    pub(crate) layer: DtlsLayer,
    pub(crate) events: Vec<(AssociationId, Event)>,
    pub(crate) sessions: Vec<SessionEvent<DtlsError>>,
}

impl Node {
    pub(crate) fn new(node: usize, dtls: DtlsConfig, limits: SessionLayerConfig) -> Self {
        Self::with_association(node, dtls, limits, association())
    }

    pub(crate) fn with_association(
        node: usize,
        dtls: DtlsConfig,
        limits: SessionLayerConfig,
        association: AssociationConfig,
    ) -> Self {
        let mut config = EndpointConfig::new(PORT, vec![address(node).ip()], [node as u8 + 1; 32]);
        config.association = association;
        let layer = DtlsLayer::new(Dtls::new(dtls).unwrap(), limits, &mut config);
        Self {
            core: Endpoint::new(config).unwrap(),
            layer,
            events: Vec::new(),
            sessions: Vec::new(),
        }
    }

    pub(crate) fn closed(&self, id: AssociationId) -> Option<&CloseReason> {
        self.events.iter().find_map(|(of, event)| match event {
            Event::Closed(reason) if *of == id => Some(reason),
            _ => None,
        })
    }

    pub(crate) fn established(&self) -> Option<AssociationId> {
        let is = |e: &&(AssociationId, Event)| matches!(e.1, Event::Established { .. });
        self.events.iter().rev().find(is).map(|(id, _)| *id)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DatagramAction {
    Pass,
    Drop,
    Late(Duration),
    Twice,
}

#[derive(Clone)]
pub(crate) struct SentDatagram {
    pub(crate) from: usize,
    pub(crate) bytes: Bytes,
    pub(crate) transmit: Transmit,
}

type Rule = Box<dyn FnMut(&SentDatagram) -> DatagramAction>;

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) log: Vec<SentDatagram>,
    /// Datagrams larger than this, with IP and UDP headers, are lost.
    pub(crate) mtu: usize,
    pub(crate) rule: Rule,
    flights: BTreeMap<(Time, u64), (usize, usize, Bytes)>,
    sequence: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Versions::Both)
    }

    pub(crate) fn with(versions: Versions) -> Self {
        Self::of(|node| DtlsConfig {
            versions,
            ..DtlsConfig::new(certificate(node), expecting(1 - node))
        })
    }

    pub(crate) fn of(dtls: impl Fn(usize) -> DtlsConfig) -> Self {
        let nodes = [CLIENT, SERVER];
        Self {
            now: Time::from_millis(1000),
            nodes: nodes
                .map(|n| Node::new(n, dtls(n), SessionLayerConfig::default()))
                .into(),
            log: Vec::new(),
            mtu: 1500,
            rule: Box::new(|_| DatagramAction::Pass),
            flights: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Uses these association parameters for the two sides.
    pub(crate) fn with_associations(associations: [AssociationConfig; 2]) -> Self {
        let mut world = Self::with(Versions::Both);
        for (node, association) in associations.into_iter().enumerate() {
            let dtls = DtlsConfig::new(certificate(node), expecting(1 - node));
            let limits = SessionLayerConfig::default();
            world.nodes[node] = Node::with_association(node, dtls, limits, association);
        }
        world
    }

    pub(crate) fn connect(&mut self) -> AssociationId {
        let config = self.nodes[CLIENT].core.default_config();
        self.try_connect(expecting(SERVER), (*config).clone())
            .unwrap()
    }

    pub(crate) fn try_connect(
        &mut self,
        trust: Trust,
        config: AssociationConfig,
    ) -> Result<AssociationId, SessionConnectError> {
        let node = &mut self.nodes[CLIENT];
        let to = (address(SERVER), PORT);
        let id = node
            .layer
            .connect(self.now, &mut node.core, to, trust, config);
        self.pump();
        id
    }

    /// Connects, and waits until both sides are established.
    pub(crate) fn establish(&mut self) -> (AssociationId, AssociationId) {
        let client = self.connect();
        let done = |w: &mut Self| {
            w.nodes[SERVER].established().is_some() && w.nodes[CLIENT].established() == Some(client)
        };
        assert!(
            self.run_until(Duration::from_secs(30), done),
            "no association"
        );
        (client, self.nodes[SERVER].established().unwrap())
    }

    pub(crate) fn send(&mut self, node: usize, id: AssociationId, message: Bytes) {
        let options = SendOptions {
            stream: StreamId(0),
            ..SendOptions::default()
        };
        self.nodes[node]
            .core
            .send(self.now, id, options, message)
            .unwrap();
        self.pump();
    }

    /// Returns the messages that have arrived.
    pub(crate) fn received(&mut self, node: usize, id: AssociationId) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(message) = self.nodes[node].core.receive(id) {
            assert_eq!(message.part, MessagePart::Whole);
            all.push(message.payload.into_bytes().to_vec());
        }
        self.pump();
        all
    }

    /// Sends messages and receives them until all have arrived.
    pub(crate) fn transfer(
        &mut self,
        from: usize,
        ids: (AssociationId, AssociationId),
        count: usize,
    ) {
        let (id, other) = if from == CLIENT { ids } else { (ids.1, ids.0) };
        let messages: Vec<Bytes> = (0..count)
            .map(|n| message(n, 700 + n * 37 % 3000))
            .collect();
        let mut waiting: VecDeque<Bytes> = messages.iter().cloned().collect();
        let mut arrived = Vec::new();
        let done = self.run_until(Duration::from_secs(600), |w| {
            while let Some(next) = waiting.front() {
                let core = &mut w.nodes[from].core;
                if core
                    .send(w.now, id, SendOptions::default(), next.clone())
                    .is_err()
                {
                    break;
                }
                waiting.pop_front();
            }
            w.pump();
            arrived.extend(w.received(1 - from, other));
            arrived.len() >= count
        });
        assert!(done, "{} of {count} arrived", arrived.len());
        assert!(
            arrived.iter().zip(&messages).all(|(a, b)| a == b),
            "in order"
        );
    }

    pub(crate) fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        self.run_until(duration, |w| w.now >= until);
    }

    pub(crate) fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        let until = self.now + limit;
        self.pump();
        loop {
            if done(self) {
                return true;
            }
            let timer = self
                .nodes
                .iter()
                .filter_map(|n| n.layer.poll_timeout(&n.core))
                .min();
            let arrival = self.flights.keys().next().map(|(at, _)| *at);
            let next = timer.into_iter().chain(arrival).min();
            let Some(next) = next.filter(|at| *at <= until) else {
                self.now = until;
                return done(self);
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.flights.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let (from, to, bytes) = entry.remove();
                self.inject(from, to, &bytes);
            }
            for n in 0..self.nodes.len() {
                let node = &mut self.nodes[n];
                node.layer.handle_timeout(self.now, &mut node.core);
                let next = node.layer.poll_timeout(&node.core);
                assert!(next.is_none_or(|at| at > self.now), "a timer stays due");
            }
            self.pump();
        }
    }

    /// Passes a datagram to a node as if it came from another node.
    pub(crate) fn inject(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let route = Route {
            local: Some(address(to).ip()),
            remote: address(from).ip(),
            encapsulation: Some(address(from).port()),
            ecn: Ecn::NotCapable,
        };
        let node = &mut self.nodes[to];
        node.layer
            .handle_datagram(self.now, &mut node.core, &route, bytes);
        self.pump();
    }

    pub(crate) fn pump(&mut self) {
        for from in 0..self.nodes.len() {
            let mut buf = Vec::new();
            let mut calls = 0;
            loop {
                let node = &mut self.nodes[from];
                let Some(transmit) = node.layer.poll_transmit(self.now, &mut node.core, &mut buf)
                else {
                    break;
                };
                calls += 1;
                assert!(calls < 10_000, "a layer never stops sending");
                assert_eq!(transmit.len, buf.len(), "the length is what was written");
                let all = Bytes::from(std::mem::take(&mut buf));
                for datagram in all.chunks(transmit.segment_size.unwrap_or(all.len())) {
                    self.depart(from, transmit, &all.slice_ref(datagram));
                }
            }
            let node = &mut self.nodes[from];
            while let Some(event) = node.layer.poll_event(self.now, &mut node.core) {
                node.events.push(event);
            }
            while let Some(event) = node.layer.poll_session_event() {
                node.sessions.push(event);
            }
        }
    }

    fn depart(&mut self, from: usize, transmit: Transmit, bytes: &Bytes) {
        let port = transmit.route.encapsulation.expect("UDP");
        let to = (0..self.nodes.len())
            .find(|n| address(*n) == SocketAddr::new(transmit.route.remote, port));
        let seen = SentDatagram {
            from,
            bytes: bytes.clone(),
            transmit,
        };
        let fate = (self.rule)(&seen);
        self.log.push(seen);
        let Some(to) = to.filter(|_| fate != DatagramAction::Drop && bytes.len() + 28 <= self.mtu)
        else {
            return;
        };
        let mut delay = Duration::from_millis(10);
        if let DatagramAction::Late(by) = fate {
            delay += by;
        }
        for _ in 0..=usize::from(fate == DatagramAction::Twice) {
            self.flights
                .insert((self.now + delay, self.sequence), (from, to, bytes.clone()));
            self.sequence += 1;
        }
    }
}

/// Returns a message that differs from other ones and from random bytes.
pub(crate) fn message(number: usize, len: usize) -> Bytes {
    let text = format!("message {number} of the association. ");
    text.bytes().cycle().take(len).collect()
}
