//! Sessions below an endpoint (RFC 8261), with sessions that do not encrypt: the end of a session
//! closes its associations, and sessions are isolated from each other.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use carrick_proto::sessions::{
    PacketSession, SessionEvent, SessionFactory, SessionLayer, SessionLayerConfig, SessionState,
};
use carrick_proto::{
    AssociationConfig, AssociationId, CloseReason, Endpoint, EndpointConfig, Event, IcmpInput,
    IcmpKind, Route, Time, Tsn, VerificationTag,
};
use carrick_wire::{ChunkType, CommonHeader, InitFields, Packet, PacketBuilder, Parameter};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const NOW: Time = Time::from_millis(1000);
const PEER_TAG: VerificationTag = VerificationTag(0x1234_5678);

/// First byte of a datagram of the toy.
const HELLO: u8 = 1;
const FINISH: u8 = 2;
const DATA: u8 = 3;
/// A hello that shows that the peer receives at its address.
const VALIDATED_HELLO: u8 = 4;

/// A session that is established by FINISH.
#[derive(Debug)]
struct Pipe {
    validated: bool,
    established: bool,
    own: VecDeque<u8>,
}

impl PacketSession for Pipe {
    type Error = ();

    fn state(&self) -> SessionState<()> {
        if self.established {
            SessionState::Established
        } else {
            SessionState::Handshake
        }
    }

    fn identity(&self) -> Option<&[u8]> {
        self.established.then_some(b"peer")
    }

    fn protect(&mut self, _: Time, packet: &[u8], out: &mut Vec<u8>) -> bool {
        if self.established {
            out.push(DATA);
            out.extend_from_slice(packet);
        }
        self.established
    }

    fn is_begun_by(&self, _: &[u8]) -> bool {
        true
    }

    fn has_validated_address(&self) -> bool {
        self.validated
    }

    fn handle_datagram(&mut self, _: Time, datagram: &[u8], packets: &mut Vec<Bytes>) {
        match datagram {
            [HELLO] => self.own.push_back(HELLO),
            [VALIDATED_HELLO] => self.validated = true,
            [FINISH] => self.established = true,
            [DATA, packet @ ..] if self.established => packets.push(Bytes::copy_from_slice(packet)),
            _ => {}
        }
    }

    fn poll_datagram(&mut self, _: Time, out: &mut Vec<u8>) -> bool {
        let own = self.own.pop_front();
        out.extend(own);
        own.is_some()
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn close(&mut self, _: Time) {}
}

#[derive(Debug)]
struct Pipes;

impl SessionFactory for Pipes {
    type Session = Pipe;
    type Peer = ();

    fn overhead(&self) -> usize {
        1
    }

    fn connect(&mut self, _: Time, (): ()) -> Pipe {
        Pipe {
            validated: false,
            established: false,
            own: VecDeque::from([HELLO]),
        }
    }

    fn opens(&self, datagram: &[u8]) -> bool {
        matches!(datagram, [HELLO | VALIDATED_HELLO])
    }

    fn accept(&mut self, _: Time) -> Pipe {
        Pipe {
            validated: false,
            established: false,
            own: VecDeque::new(),
        }
    }

    fn leads_to(&self, _: &Pipe, (): &()) -> bool {
        true
    }
}

struct Host {
    layer: SessionLayer<Pipes>,
    endpoint: Endpoint,
}

impl Host {
    fn new(max_handshakes: usize) -> Self {
        let mut config = EndpointConfig::new(5000, vec![HERE], [1; 32]);
        let limits = SessionLayerConfig {
            max_handshakes,
            ..SessionLayerConfig::default()
        };
        let layer = SessionLayer::new(Pipes, limits, &mut config);
        let endpoint = Endpoint::new(config).expect("a valid configuration");
        Self { layer, endpoint }
    }

    fn take(&mut self, from: SocketAddr, datagram: &[u8]) {
        let route = Route {
            encapsulation: Some(from.port()),
            ..Route::plain(HERE, from.ip())
        };
        self.layer
            .handle_datagram(NOW, &mut self.endpoint, &route, datagram);
    }

    /// Begins a handshake with a validated address.
    fn begin(&mut self, from: SocketAddr) {
        self.take(from, &[HELLO]);
        assert_eq!(self.sent(), [(from, vec![HELLO])]);
        self.take(from, &[VALIDATED_HELLO]);
        assert_eq!(self.sent(), []);
    }

    fn establish(&mut self, from: SocketAddr) {
        self.begin(from);
        self.take(from, &[FINISH]);
    }

    fn connect(&mut self, to: SocketAddr) -> AssociationId {
        let config = AssociationConfig::rfc9260();
        self.layer
            .connect(NOW, &mut self.endpoint, (to, 7000), (), config)
            .expect("connect")
    }

    /// Processes an ICMP message about a datagram to a peer.
    fn icmp(&mut self, about: SocketAddr, kind: IcmpKind, quoted: &[u8]) {
        let input = IcmpInput {
            kind,
            remote: about.ip(),
            encapsulation: Some(about.port()),
            quoted,
        };
        self.layer.handle_icmp(NOW, &mut self.endpoint, &input);
    }

    /// Datagrams sent, with their destinations.
    fn sent(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut all = Vec::new();
        let mut buf = Vec::new();
        while let Some(transmit) = self.layer.poll_transmit(NOW, &mut self.endpoint, &mut buf) {
            let port = transmit.route.encapsulation.expect("in UDP");
            let to = SocketAddr::new(transmit.route.remote, port);
            all.push((to, std::mem::take(&mut buf)));
        }
        all
    }

    fn events(&mut self) -> Vec<(AssociationId, Event)> {
        let (layer, endpoint) = (&mut self.layer, &mut self.endpoint);
        std::iter::from_fn(|| layer.poll_event(NOW, endpoint)).collect()
    }
}

fn peer(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, 1, host]), port)
}

const FIELDS: InitFields = InitFields {
    tag: PEER_TAG,
    a_rwnd: 1 << 16,
    outbound_streams: 1,
    inbound_streams: 1,
    initial_tsn: Tsn::new(1),
};

/// A packet of SCTP in a datagram.
fn packed(tag: VerificationTag, write: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<u8> {
    let header = CommonHeader {
        source_port: 7000,
        destination_port: 5000,
        tag,
    };
    let mut bytes = Vec::new();
    let mut packet = PacketBuilder::new(&mut bytes, header, 1200);
    write(&mut packet);
    packet.finish();
    bytes.insert(0, DATA);
    bytes
}

/// RFC 8261, section 6.1
#[test]
fn an_evicted_session_ends_its_associations_silently() {
    let mut host = Host::new(1);
    // One that is established has nothing to fear.
    let (safe, half, late) = (peer(1, 1000), peer(2, 1000), peer(3, 1000));
    host.establish(safe);
    let kept = host.connect(safe);
    assert_eq!(host.sent().len(), 1, "an INIT");
    // The peer begins a handshake, and before it is finished this side requests two associations.
    host.begin(half);
    let lost = [host.connect(half)];
    assert!(host.sent().is_empty(), "no packet before the handshake");
    assert!(host.layer.session_of(lost[0]).is_some());
    // A hello of a peer that may not exist changes nothing; a peer that receives takes its place.
    host.take(peer(4, 1000), &[HELLO]);
    assert_eq!(host.sent(), [(peer(4, 1000), vec![HELLO])]);
    assert_eq!((host.layer.stats().evicted, host.events()), (0, vec![]));
    host.take(late, &[HELLO]);
    host.sent();
    assert_eq!(host.layer.stats().evicted, 1, "the hello before");
    host.take(late, &[VALIDATED_HELLO]);
    host.sent();
    assert_eq!(host.layer.stats().evicted, 2);
    let ended = Event::Closed(CloseReason::LowerLayerLost);
    assert_eq!(host.events(), lost.map(|id| (id, ended.clone())));
    assert_eq!(host.sent(), []);
    for id in lost {
        assert_eq!(host.layer.session_of(id), None);
        assert!(host.endpoint.association(id).is_none());
    }
    assert!(host.endpoint.association(kept).is_some());
    assert_eq!(host.layer.sessions().count(), 2);
    // The peer of the session that went is a stranger until it begins again.
    host.take(half, &[FINISH]);
    assert_eq!(host.layer.stats().unknown_senders, 1);
}

/// RFC 6347, section 4.2.1
#[test]
fn one_source_does_not_keep_other_peers_out() {
    let mut host = Host::new(4);
    let honest = peer(2, 1000);
    for port in 1..=100 {
        host.begin(peer(1, port));
    }
    assert_eq!(host.layer.handshakes(), 4);
    host.begin(honest);
    for port in 101..=200 {
        host.begin(peer(1, port));
    }
    assert_eq!(host.layer.handshakes(), 4);
    host.take(honest, &[FINISH]);
    assert_eq!(host.layer.stats().established, 1);
}

/// RFC 6347, section 4.2.1
#[test]
fn hellos_follow_the_packets_of_sessions() {
    let mut host = Host::new(4);
    let known = peer(1, 1000);
    host.establish(known);
    for port in 1..=100 {
        host.take(peer(2, port), &[HELLO]);
    }
    // A packet behind them that is replied to.
    let init = packed(VerificationTag::ZERO, |p| {
        p.init(ChunkType::INIT, FIELDS, |_| {});
    });
    host.take(known, &init);
    assert_eq!(host.layer.handshakes(), 0);
    let sent = host.sent();
    assert_eq!(sent[0].0, known, "INIT ACK");
    let replies = sent.len() - 1;
    assert!(replies < 50, "{replies} hellos in one round");
    assert_eq!(host.layer.stats().refused, 100 - replies as u64);
}

/// RFC 6951, section 5.5: an ICMP message about a handshake, with the first bytes of its last datagram
#[test]
fn an_unreachable_port_ends_a_handshake() {
    let mut host = Host::new(4);
    let (absent, silent, answers) = (peer(1, 1000), peer(2, 1000), peer(3, 1000));
    let [of_absent, of_silent, of_answers] = [absent, silent, answers].map(|to| host.connect(to));
    host.icmp(absent, IcmpKind::PortUnreachable, &[HELLO]);
    assert!(host.events().is_empty(), "nothing has been sent");
    assert_eq!(host.sent().len(), 3);
    // Not about a datagram of this side, not for good, and not about a peer that replies.
    host.icmp(absent, IcmpKind::PortUnreachable, &[DATA; 64]);
    host.icmp(absent, IcmpKind::PortUnreachable, &[]);
    host.icmp(peer(1, 1001), IcmpKind::PortUnreachable, &[HELLO]);
    host.icmp(silent, IcmpKind::DestinationUnreachable, &[HELLO]);
    host.take(answers, &[VALIDATED_HELLO]);
    host.icmp(answers, IcmpKind::PortUnreachable, &[HELLO]);
    assert!(host.events().is_empty());
    host.icmp(absent, IcmpKind::PortUnreachable, &[HELLO, 0, 0]);
    let ended = Event::Closed(CloseReason::LowerLayerLost);
    assert_eq!(host.events(), [(of_absent, ended)]);
    let events = std::iter::from_fn(|| host.layer.poll_session_event());
    let unreachable: Vec<_> = events
        .filter_map(|event| match event {
            SessionEvent::Unreachable(_, of) => Some(of),
            _ => None,
        })
        .collect();
    assert_eq!(unreachable, [vec![of_absent]]);
    assert_eq!(host.layer.stats().failed, 1);
    for id in [of_silent, of_answers] {
        assert!(host.endpoint.association(id).is_some());
    }
    assert_eq!(host.sent(), []);
}

/// RFC 8261, section 6.1
#[test]
fn a_cookie_is_valid_on_its_own_session_only() {
    let mut host = Host::new(10);
    // Two sessions of the same host, which differ by the port only, and one of another.
    let (own, beside, other) = (peer(1, 1000), peer(1, 1001), peer(2, 1000));
    for from in [own, beside, other] {
        host.establish(from);
    }
    let init = packed(VerificationTag::ZERO, |p| {
        p.init(ChunkType::INIT, FIELDS, |_| {});
    });
    host.take(own, &init);
    let sent = host.sent();
    assert_eq!((sent.len(), sent[0].0), (1, own));
    let answer = Packet::parse(&sent[0].1[1..]).expect("a packet");
    let raw = answer
        .chunks()
        .next()
        .expect("a chunk")
        .expect("a valid chunk");
    let carrick_wire::Chunk::InitAck(init_ack) =
        carrick_wire::Chunk::parse(raw).expect("a valid chunk")
    else {
        panic!("INIT ACK")
    };
    let cookie = init_ack
        .parameters()
        .find_map(|p| match Parameter::parse(p.expect("cut")) {
            Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
            _ => None,
        })
        .expect("a cookie");
    let echo = packed(init_ack.tag, |p| p.cookie_echo(&cookie));
    for (forged, from) in [(1, beside), (2, other)] {
        host.take(from, &echo);
        assert_eq!(host.endpoint.stats().forged_cookies, forged);
        assert_eq!(host.endpoint.associations().count(), 0);
        assert_eq!((host.sent(), host.events()), (vec![], vec![]));
    }
    host.take(own, &echo);
    assert_eq!(host.endpoint.stats().forged_cookies, 2);
    assert_eq!(host.endpoint.associations().count(), 1);
    assert_eq!(host.sent()[0].0, own);
    // Again on another one: it moves nothing, now that there is an association.
    host.events();
    host.take(beside, &echo);
    assert_eq!(host.endpoint.stats().forged_cookies, 3);
    assert_eq!((host.sent(), host.events()), (vec![], vec![]));
}

/// RFC 7829, section 5
#[test]
fn primary_switchover_is_accepted_over_a_session() {
    // As it may be without sessions: above Path.Max.Retrans, below Association.Max.Retrans.
    let association = AssociationConfig::rfc9260().with(|c| {
        c.paths.path_max_retrans = 5;
        c.paths.association_max_retrans = 10;
        c.paths.primary_switchover_max_retrans = Some(6);
    });
    let mut config = EndpointConfig::new(5000, vec![HERE], [1; 32]);
    config.association = association.clone();
    let mut layer = SessionLayer::new(Pipes, SessionLayerConfig::default(), &mut config);
    let mut endpoint = Endpoint::new(config).expect("a valid configuration");
    layer
        .connect(NOW, &mut endpoint, (peer(1, 1000), 7000), (), association)
        .expect("connect");
}
