//! Endpoints with several tasks that share a UDP port.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use carrick::{
    AssociationConfig, Config, ConnectError, Endpoint, Event, Incoming, Notification, StreamId,
};
use carrick_wire::{
    Chunk, ChunkType, CommonHeader, InitFields, Packet, PacketBuilder, Parameter, Tsn,
    VerificationTag,
};

use crate::support::{associate, config, content, endpoint, gone, ip, on, soon, to};

const SERVER: &str = "127.0.0.1";

/// SCTP port of peers without an endpoint.
const PORT: u16 = 7000;

fn sharded(shards: usize) -> Config {
    config(&[SERVER]).shards(shards)
}

fn server() -> Endpoint {
    Endpoint::bind(sharded(2)).unwrap()
}

/// Peer that a test plays on UDP sockets.
struct RawPeer {
    socket: UdpSocket,
    server_port: u16,
    /// Tag of packets to the peer.
    own: VerificationTag,
    /// Tag of packets to the server.
    peer: VerificationTag,
}

impl RawPeer {
    /// Sets up an association from this address, with another one in its INIT.
    fn connect(server: &Endpoint, from: (IpAddr, u16), other: Option<IpAddr>, tag: u32) -> Self {
        let peer = Self::begin(server, from, other, tag);
        peer.receive(ChunkType::COOKIE_ACK);
        peer
    }

    /// Sets up an association up to COOKIE ECHO.
    fn begin(server: &Endpoint, from: (IpAddr, u16), other: Option<IpAddr>, tag: u32) -> Self {
        let socket = UdpSocket::bind(from).unwrap();
        let limit = Some(Duration::from_secs(20));
        socket.set_read_timeout(limit).unwrap();
        let udp = server.encapsulation_port().unwrap();
        socket.connect((SERVER, udp)).unwrap();
        let mut peer = Self {
            socket,
            server_port: server.port(),
            own: VerificationTag(tag),
            peer: VerificationTag(0),
        };
        let fields = InitFields {
            tag: peer.own,
            a_rwnd: 1 << 16,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn::new(1),
        };
        peer.send(peer.peer, |packet| {
            packet.init(ChunkType::INIT, fields, |parameters| {
                if let Some(other) = other {
                    parameters.ip_address(other);
                }
            });
        });
        let mut cookie = Vec::new();
        let answered = peer.receive(ChunkType::INIT_ACK);
        let packet = Packet::parse(&answered).unwrap();
        if let Ok(Chunk::InitAck(init)) = Chunk::parse(packet.chunks().next().unwrap().unwrap()) {
            peer.peer = init.tag;
            for parameter in init.parameters().flatten().map(Parameter::parse) {
                if let Ok(Parameter::StateCookie(sealed)) = parameter {
                    cookie.extend_from_slice(sealed);
                }
            }
        }
        peer.send(peer.peer, |packet| packet.cookie_echo(&cookie));
        peer
    }

    fn send(&self, tag: VerificationTag, write: impl FnOnce(&mut PacketBuilder<'_>)) {
        self.send_by(&self.socket, tag, write);
    }

    /// Sends a packet by another socket.
    fn send_by(
        &self,
        socket: &UdpSocket,
        tag: VerificationTag,
        write: impl FnOnce(&mut PacketBuilder<'_>),
    ) {
        let mut packet = Vec::new();
        self.append(&mut packet, tag, write);
        socket.send(&packet).unwrap();
    }

    fn append(
        &self,
        packets: &mut Vec<u8>,
        tag: VerificationTag,
        write: impl FnOnce(&mut PacketBuilder<'_>),
    ) {
        let header = CommonHeader {
            source_port: PORT,
            destination_port: self.server_port,
            tag,
        };
        let mut builder = PacketBuilder::new(packets, header, 1400);
        write(&mut builder);
        builder.finish();
    }

    /// Returns the next packet that begins with this chunk.
    fn receive(&self, kind: ChunkType) -> Vec<u8> {
        receive(&self.socket, kind)
    }
}

fn receive(socket: &UdpSocket, kind: ChunkType) -> Vec<u8> {
    let mut buffer = [0; 2000];
    loop {
        let length = socket.recv(&mut buffer).unwrap();
        if buffer[12] == kind.0 {
            return buffer[..length].to_vec();
        }
    }
}

/// Accepts an association.
async fn accept(server: &Endpoint) -> Incoming {
    soon("association", server.accept()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn associations_are_spread_and_steered() {
    const CLIENTS: usize = 32;
    let server = server();
    let mut parities = [0; 2];
    let mut held = Vec::new();
    for number in 0..CLIENTS {
        let peer = RawPeer::connect(&server, (ip("127.0.0.21"), 0), None, number as u32 + 1);
        parities[(peer.peer.0 % 2) as usize] += 1;
        // No ICMP message arrives while the socket of the peer is open.
        held.push((accept(&server).await.accept(), peer));
    }
    // The Initiate Tag of each peer has selected its shard.
    assert_eq!(parities, [CLIENTS / 2; 2]);
    assert_eq!(server.associations().await.unwrap(), CLIENTS);
    let mut pairs = Vec::new();
    for _ in 0..8 {
        let client = endpoint(&[SERVER]);
        let (a, b) = associate(&client, &server, &[SERVER]).await;
        a.send(content(1, 300_000), on(0)).await.unwrap();
        b.send(content(2, 300_000), on(0)).await.unwrap();
        pairs.push((client, a, b));
    }
    for (_, a, b) in &mut pairs {
        let received = soon("message", b.recv()).await.unwrap().unwrap();
        assert!(received.payload == content(1, 300_000)[..]);
        let received = soon("message", a.recv()).await.unwrap().unwrap();
        assert!(received.payload == content(2, 300_000)[..]);
    }
    let stats = server.stats().await.unwrap();
    assert!(stats.protocol.datagrams_received > 1000);
    assert_eq!(stats.protocol.out_of_the_blue, 0);
    assert_eq!((stats.passed_on, stats.not_passed_on), (0, 0));
}

/// RFC 9260, section 5.2.2: the new INIT comes from another address of the peer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_reaches_the_shard_of_the_association() {
    const PEERS: u32 = 16;
    let server = server();
    for number in 0..PEERS {
        let [first, second] = [ip("127.0.0.22"), ip("127.0.0.23")];
        let old = RawPeer::connect(&server, (first, 0), Some(second), 10 + number);
        let udp = old.socket.local_addr().unwrap().port();
        let mut association = accept(&server).await.accept();
        let new = RawPeer::connect(&server, (second, udp), Some(first), 1001 + number);
        assert_eq!(old.peer.0 % 2, new.peer.0 % 2, "the same shard");
        soon("restart", async {
            while association.next_event().await != Some(Notification::Event(Event::Restarted)) {}
        })
        .await;
        assert_eq!(server.associations().await.unwrap(), 1);
        // The T bit: the tag is the peer's own (section 8.5.1 B).
        new.send(new.own, |packet| packet.abort(true, |_| {}));
        gone(&server).await;
    }
    let stats = server.stats().await.unwrap();
    assert_eq!(stats.protocol.aborted, u64::from(PEERS));
    // The new Initiate Tags are those of the other shard; ICMP messages about closed sockets may be added.
    assert!(stats.passed_on >= 2 * u64::from(PEERS));
}

/// Sends heartbeats of peers behind one UDP port with one call, as segmentation offload does. Returns what answers
/// them: the lengths of the blocks that receive offload returns, and the sorted tags of the packets.
#[cfg(target_os = "linux")]
fn exchange_joined_heartbeats(peers: &[RawPeer]) -> (Vec<usize>, Vec<u32>) {
    use std::os::fd::AsRawFd;

    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};

    const LENGTH: u16 = 24;
    let socket = UdpSocket::bind((ip("127.0.0.28"), 0)).unwrap();
    let limit = Some(Duration::from_secs(20));
    socket.set_read_timeout(limit).unwrap();
    socket
        .connect(peers[0].socket.peer_addr().unwrap())
        .unwrap();
    setsockopt(&socket, sockopt::UdpGroSegment, &true).unwrap();
    let mut packets = Vec::new();
    for peer in peers {
        peer.append(&mut packets, peer.peer, |packet| packet.heartbeat(b"info"));
    }
    assert_eq!(packets.len(), peers.len() * usize::from(LENGTH));
    let slices = [std::io::IoSlice::new(&packets)];
    let control = [ControlMessage::UdpGsoSegments(&LENGTH)];
    let (descriptor, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let sent = sendmsg::<()>(descriptor, &slices, &control, flags, None);
    assert_eq!(sent, Ok(packets.len()));
    let (mut blocks, mut tags) = (Vec::new(), Vec::new());
    let mut buffer = [0; 4000];
    while tags.len() < peers.len() {
        let length = socket.recv(&mut buffer).unwrap();
        blocks.push(length);
        for packet in buffer[..length].chunks(usize::from(LENGTH)) {
            assert_eq!(packet[12], ChunkType::HEARTBEAT_ACK.0);
            tags.push(Packet::parse(packet).unwrap().header().tag.0);
        }
    }
    tags.sort_unstable();
    (blocks, tags)
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_of_many_associations_leave_joined() {
    for shards in [1, 2] {
        let server = Endpoint::bind(sharded(shards)).unwrap();
        let connect = |tag| RawPeer::connect(&server, (ip("127.0.0.28"), 0), None, tag);
        let peers: Vec<RawPeer> = (1..=20).map(connect).collect();
        let (mut blocks, tags) = exchange_joined_heartbeats(&peers);
        assert_eq!(tags, (1..=20).collect::<Vec<_>>());
        // All arrive at the shard of the first, which passes on those of the other.
        let is_elsewhere = |peer: &&RawPeer| peer.peer.0 % 2 != peers[0].peer.0 % 2;
        let elsewhere = match shards {
            1 => 0,
            _ => peers.iter().filter(is_elsewhere).count(),
        };
        assert_eq!(elsewhere, (shards - 1) * 10);
        let mut expected = vec![elsewhere * 24, (20 - elsewhere) * 24];
        expected.retain(|length| *length > 0);
        blocks.sort_unstable();
        assert_eq!(blocks, expected);
        let stats = server.stats().await.unwrap();
        assert_eq!(
            (stats.passed_on, stats.not_passed_on),
            (elsewhere as u64, 0)
        );
    }
}

/// RFC 6951, section 5.4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_udp_port_of_the_peer_is_followed() {
    let server = server();
    let mut open = Vec::new();
    for number in 0..8 {
        let peer = RawPeer::connect(&server, (ip("127.0.0.24"), 0), None, 20 + number);
        let _association = accept(&server).await.accept();
        let other = UdpSocket::bind((ip("127.0.0.24"), 0)).unwrap();
        let limit = Some(Duration::from_secs(20));
        other.set_read_timeout(limit).unwrap();
        other.connect(peer.socket.peer_addr().unwrap()).unwrap();
        peer.send_by(&other, peer.peer, |packet| packet.heartbeat(b"moved"));
        receive(&other, ChunkType::HEARTBEAT_ACK);
        peer.send_by(&other, peer.peer, |packet| packet.abort(false, |_| {}));
        gone(&server).await;
        // No ICMP message arrives while the sockets are open.
        open.push((peer, other));
    }
    let stats = server.stats().await.unwrap();
    assert_eq!((stats.passed_on, stats.protocol.out_of_the_blue), (0, 0));
}

/// RFC 9260, section 5.2.1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simultaneous_connects_make_one_association() {
    let [near, far] = [2, 3].map(|shards| Endpoint::bind(sharded(shards)).unwrap());
    for _ in 0..12 {
        let (a, b) = soon("set-ups", async {
            tokio::join!(
                near.connect_with((ip(SERVER), far.port()), to(&far)),
                far.connect_with((ip(SERVER), near.port()), to(&near))
            )
        })
        .await;
        // The later one may find the association of the earlier one.
        let is_ok = |e: &ConnectError| *e == ConnectError::AlreadyConnected;
        assert!(a.is_ok() || b.is_ok());
        assert!(a.as_ref().err().is_none_or(is_ok) && b.as_ref().err().is_none_or(is_ok));
        assert_eq!(near.associations().await.unwrap(), 1);
        assert_eq!(far.associations().await.unwrap(), 1);
        let again = near.connect_with((ip(SERVER), far.port()), to(&far)).await;
        assert_eq!(again.unwrap_err(), ConnectError::AlreadyConnected);
        drop((a, b));
        gone(&near).await;
        gone(&far).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_backlog_is_that_of_all_shards() {
    let mut limited = sharded(2);
    limited.backlog = 3;
    let server = Endpoint::bind(limited).unwrap();
    let peers: Vec<RawPeer> = (0..8)
        .map(|number| RawPeer::begin(&server, (ip("127.0.0.26"), 0), None, 0x400 + number))
        .collect();
    soon("aborts", async {
        while server.stats().await.unwrap().protocol.aborted < 5 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut accepted = Vec::new();
    for _ in 0..3 {
        accepted.push(accept(&server).await.accept());
    }
    assert_eq!(server.associations().await.unwrap(), 3);
    drop(peers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_and_limits_are_those_of_all_shards() {
    let server = server();
    let streams = |config: &mut AssociationConfig| config.streams.outbound_streams = 3;
    server.change_default_config(streams).await.unwrap();
    server.set_max_associations(5, None);
    let mut pairs = Vec::new();
    for _ in 0..5 {
        let client = endpoint(&[SERVER]);
        let (a, b) = associate(&client, &server, &[SERVER]).await;
        assert_eq!(b.control().outbound_streams(), 3);
        pairs.push((client, a, b));
    }
    let more = endpoint(&[SERVER]);
    for _ in 0..4 {
        let outgoing = server
            .connect_with((ip(SERVER), more.port()), to(&more))
            .await;
        assert_eq!(outgoing.unwrap_err(), ConnectError::TooManyAssociations);
    }
    let refused = more
        .connect_with((ip(SERVER), server.port()), to(&server))
        .await;
    assert!(
        matches!(refused, Err(ConnectError::Failed(_))),
        "{refused:?}"
    );
    drop(pairs.pop());
    soon("room", async {
        while server.associations().await.unwrap() > 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    associate(&more, &server, &[SERVER]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_added_address_has_a_socket_of_each_shard() {
    let server = server();
    server.local_address_added(ip("127.0.0.27")).await.unwrap();
    for _ in 0..8 {
        let client = endpoint(&[SERVER]);
        let (a, mut b) = associate(&client, &server, &["127.0.0.27"]).await;
        a.send("hello", on(0)).await.unwrap();
        let message = soon("message", b.recv()).await.unwrap().unwrap();
        assert_eq!(message.stream, StreamId(0));
    }
    assert_eq!(server.stats().await.unwrap().passed_on, 0);
    // Nothing is bound to it after its removal.
    server.local_address_removed(ip("127.0.0.27"));
    let udp = server.encapsulation_port().unwrap();
    soon("removal", async {
        while UdpSocket::bind((ip("127.0.0.27"), udp)).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_ends_all_shards() {
    for close in [true, false] {
        let server = server();
        let port = server.encapsulation_port().unwrap();
        let mut pairs = Vec::new();
        for _ in 0..6 {
            let client = endpoint(&[SERVER]);
            let (a, b) = associate(&client, &server, &[SERVER]).await;
            b.send(content(3, 20_000), on(0)).await.unwrap();
            pairs.push((client, a, b));
        }
        if close {
            let closing = soon("end", server.close());
            let read = async {
                for (_, a, _) in &mut pairs {
                    let message = soon("message", a.recv()).await.unwrap();
                    assert!(message.unwrap().payload == content(3, 20_000)[..]);
                    assert!(soon("end", a.recv()).await.unwrap().is_none());
                }
            };
            let (report, ()) = tokio::join!(closing, read);
            assert!(report.is_empty(), "{report}");
        } else {
            // Associations with handles go on without the endpoint.
            drop(server);
            for (_, a, b) in &mut pairs {
                a.send("still here", on(0)).await.unwrap();
                soon("message", b.recv()).await.unwrap().unwrap();
            }
            drop(pairs);
        }
        soon("free port", async {
            while UdpSocket::bind((SERVER, port)).is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn the_port_of_an_endpoint_with_shards_is_taken() {
    let server = server();
    let udp = server.encapsulation_port().unwrap();
    for shards in [1, 2] {
        let other = Endpoint::bind(sharded(shards).encapsulation_port(udp));
        assert!(matches!(other, Err(carrick::BindError::PortTaken { .. })));
    }
    assert!(Endpoint::bind(sharded(0)).is_err() && Endpoint::bind(sharded(65)).is_err());
}
