//! Memory that peers can occupy at the sockets of a host with the default limits, before a program accepts or reads
//! anything; see `docs/decisions/memory-limits.md`.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use carrick_proto::{Route, Time, Tsn, VerificationTag};
use carrick_sockets::{Config, Family, Sockets, Style};
use carrick_wire::{Chunk, ChunkType, CommonHeader, InitFields, Packet, PacketBuilder, Parameter};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The figure that the project states.
const LIMIT: usize = 1 << 30;

/// Received data and state of streams that an association may have whatever others have, and the heap for each byte
/// of data, as in `memory_limits.rs` of crate `carrick-proto`.
const LEAST_DATA: usize = 4096 + 1500 + 128;
const LEAST_STREAMS: usize = 4096 + 312;
const HEAP_PER_BYTE: f64 = 5.5;

/// Notifications before `accept`: 4 KiB, and those of the end of an association with the information of its cause.
const NOTIFICATIONS: usize = 4096 + 1024 + 512;

/// Sets up an association whose INIT has as many addresses as are kept; `host` makes all of them different from
/// others.
fn set_up(sockets: &mut Sockets, port: u16, host: u32) {
    let now = Time::from_millis(1);
    let address = |n: u32| IpAddr::from((0x0b00_0000 + host * 256 + n).to_be_bytes());
    let route = Route::plain([10, 0, 0, 1].into(), address(1));
    let header = |tag| CommonHeader {
        source_port: 5000,
        destination_port: port,
        tag,
    };
    let ask = |sockets: &mut Sockets, tag, write: &dyn Fn(&mut PacketBuilder<'_>)| {
        let mut packet = Vec::new();
        let mut builder = PacketBuilder::new(&mut packet, header(tag), 65_000);
        write(&mut builder);
        builder.finish();
        sockets.handle_datagram(now, &route, packet.into());
        let (mut answer, mut rest) = (Vec::new(), Vec::new());
        sockets.poll_transmit(now, &mut answer).expect("an answer");
        while sockets.poll_transmit(now, &mut rest).is_some() {}
        Bytes::from(answer)
    };
    let fields = InitFields {
        tag: VerificationTag(7),
        a_rwnd: 100_000,
        outbound_streams: u16::MAX,
        inbound_streams: u16::MAX,
        initial_tsn: Tsn::new(1),
    };
    let answer = ask(sockets, VerificationTag::ZERO, &|p| {
        p.init(ChunkType::INIT, fields, |parameters| {
            parameters.supported_extensions(&[ChunkType::RE_CONFIG, ChunkType::FORWARD_TSN]);
            (1..=255).for_each(|n| parameters.ip_address(address(n)));
        });
    });
    let packet = Packet::parse(&answer).expect("a packet");
    let chunk = packet.chunks().next().expect("a chunk").expect("whole");
    let Ok(Chunk::InitAck(ack)) = Chunk::parse(chunk) else {
        panic!("INIT ACK");
    };
    let cookie = ack.parameters().flatten().find_map(|raw| {
        let Ok(Parameter::StateCookie(cookie)) = Parameter::parse(raw) else {
            return None;
        };
        Some(cookie.to_vec())
    });
    let cookie = cookie.expect("a cookie");
    ask(sockets, ack.tag, &|p| p.cookie_echo(&cookie));
}

#[test]
fn the_defaults_bound_what_peers_can_occupy() {
    const PORTS: u16 = 4;
    const COUNT: u32 = 1000;
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut config = Config::new(vec![[10, 0, 0, 1].into()], [1; 32]);
    config.max_associations_per_owner = Some(config.max_associations);
    let (most, received) = (config.max_associations, config.receive_memory);
    let mut sockets = Sockets::new(config).expect("valid");
    for port in 0..PORTS {
        let listener = sockets.socket(Style::OneToOne, Family::Inet).unwrap();
        let any = SocketAddr::from(([0; 4], 5000 + port));
        sockets.bind(listener, any).unwrap();
        sockets.listen(listener, 4096).unwrap();
    }
    let before = dhat::HeapStats::get().curr_bytes;
    for host in 0..COUNT {
        set_up(&mut sockets, 5000 + host as u16 % PORTS, host);
    }
    assert_eq!(sockets.usage().associations, COUNT as usize);
    let each = (dhat::HeapStats::get().curr_bytes - before).div_ceil(COUNT as usize);
    let heap = |counted: usize| (counted as f64 * HEAP_PER_BYTE) as usize;
    let beside = heap(LEAST_DATA) + LEAST_STREAMS + NOTIFICATIONS;
    let total = most * (each + beside) + heap(received);
    println!(
        "measured: {each} bytes an association with 255 addresses at {PORTS} ports; {most} of them with {beside} bytes \
         of data, streams and notifications each, and {received} bytes for all: {} MiB of heap",
        total >> 20
    );
    assert!(total <= LIMIT, "{total} bytes");
}
