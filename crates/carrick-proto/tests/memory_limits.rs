//! Memory that peers can occupy with the default limits, see `docs/decisions/memory-limits.md`. In a separate
//! binary for the allocator that counts all memory of the process.

use core::net::IpAddr;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, Endpoint, EndpointConfig, Route, Time, Tsn, VerificationTag,
};
use carrick_wire::{Chunk, ChunkType, CommonHeader, InitFields, Packet, PacketBuilder, Parameter};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The figure that the project states.
const LIMIT: usize = 1 << 30;

/// Received data that an association may hold whatever others hold: 4 KiB and the packet that
/// exceeds it.
const LEAST_DATA: usize = 4096 + 1500 + 128;

/// State of streams that an association may have besides: 4 KiB and the page that exceeds it.
const LEAST_STREAMS: usize = 4096 + 312;

/// Heap that received data takes at most for each byte that is counted, on sockets with receive
/// offload; `a_chunk_occupies_at_most_five_times_its_size` of crate `carrick` holds it.
const HEAP_PER_BYTE: f64 = 5.5;

/// Sets up an association whose INIT has as many addresses as are kept; `host` makes all of them
/// different from others.
fn set_up(endpoint: &mut Endpoint, host: u32) {
    let now = Time::from_millis(1);
    let address = |n: u32| IpAddr::from((0x0b00_0000 + host * 256 + n).to_be_bytes());
    let route = Route::plain([10, 0, 0, 1].into(), address(1));
    let header = |tag| CommonHeader {
        source_port: 5000,
        destination_port: 5000,
        tag,
    };
    let ask = |endpoint: &mut Endpoint, tag, write: &dyn Fn(&mut PacketBuilder<'_>)| {
        let mut buf = Vec::new();
        let mut packet = PacketBuilder::new(&mut buf, header(tag), 65_000);
        write(&mut packet);
        packet.finish();
        endpoint.handle_datagram(now, &route, buf.into());
        let mut answer = Vec::new();
        let mut rest = Vec::new();
        endpoint.poll_transmit(now, &mut answer).expect("an answer");
        while endpoint.poll_transmit(now, &mut rest).is_some() {}
        Bytes::from(answer)
    };
    let fields = InitFields {
        tag: VerificationTag(7),
        a_rwnd: 100_000,
        outbound_streams: u16::MAX,
        inbound_streams: u16::MAX,
        initial_tsn: Tsn::new(1),
    };
    let answer = ask(endpoint, VerificationTag::ZERO, &|p| {
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
    ask(endpoint, ack.tag, &|p| p.cookie_echo(&cookie));
    while endpoint.poll_event().is_some() {}
}

/// Associations with as much state as an INIT can cause, and as much received data as is allowed.
#[test]
fn the_defaults_bound_what_peers_can_occupy() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut config = EndpointConfig::new(5000, vec![[10, 0, 0, 1].into()], [1; 32]);
    config.association = AssociationConfig::modern();
    let (most, received) = (config.max_associations, config.receive_memory);
    let mut endpoint = Endpoint::new(config).expect("valid");
    let count = 1000;
    let before = dhat::HeapStats::get().curr_bytes;
    (0..count).for_each(|host| set_up(&mut endpoint, host));
    assert_eq!(endpoint.associations().count(), count as usize);
    let each = (dhat::HeapStats::get().curr_bytes - before).div_ceil(count as usize);
    let heap = |counted: usize| (counted as f64 * HEAP_PER_BYTE) as usize;
    let total = most * (each + heap(LEAST_DATA) + LEAST_STREAMS) + heap(received);
    println!(
        "measured: {each} bytes an association with 255 addresses; {most} of them with {LEAST_DATA} bytes \
         of data and {LEAST_STREAMS} of streams each, and {received} bytes for all: {} MiB of heap",
        total >> 20
    );
    assert!(total <= LIMIT, "{total} bytes");
}
