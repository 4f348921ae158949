//! Memory that peers can occupy with the default limits, see `docs/decisions/memory-limits.md`.

use core::net::IpAddr;

use carrick::{Bytes, Config};
use carrick_proto::{Endpoint, EndpointConfig, Route, Time, Tsn, VerificationTag};
use carrick_wire::{Chunk, ChunkType, CommonHeader, InitFields, Packet, PacketBuilder, Parameter};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The figure that the project states, in all files of [`STATEMENTS`].
const LIMIT: usize = 1 << 30;

/// Files that state the figure, with their words.
const STATEMENTS: [(&str, &str); 3] = [
    ("SECURITY.md", "at most 1 GiB of heap"),
    ("docs/security.md", "| 1 GiB |"),
    ("docs/decisions/memory-limits.md", "must not exceed 1 GiB"),
];

/// Received data that an association may hold whatever others hold: 4 KiB and the packet that
/// exceeds it.
const LEAST_DATA: usize = 4096 + 1500 + 128;

/// State of streams that an association may have besides: 4 KiB and the page that exceeds it.
const LEAST_STREAMS: usize = 4096 + 312;

/// Notifications that an association may have whatever others have, and the channel for them.
const LEAST_NOTIFICATIONS: usize = 1024 + 512;

/// The channel of received messages, which remains allocated after a program has read them.
const CHANNEL: usize = 4096;

/// An idle end with its handle and one peer address; `an_idle_end_with_its_handle_takes_at_most_4_kib`
/// holds it.
const IDLE_END: usize = 4096;

/// Heap that received data takes at most for each byte that is counted, on sockets with receive
/// offload; `a_chunk_occupies_at_most_five_times_its_size` holds it.
const HEAP_PER_BYTE: f64 = 5.3;

/// Heap that unfinished messages and notifications take for each byte that is counted;
/// `unfinished_messages_of_all_peers_have_one_limit` holds it.
const UNREAD_PER_BYTE: f64 = 1.1;

/// Sets up an association whose INIT has this many addresses; `host` makes all of them different from
/// others.
fn set_up(endpoint: &mut Endpoint, host: u32, addresses: u32) {
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
            (1..=addresses).for_each(|n| parameters.ip_address(address(n)));
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

/// Returns the heap that the protocol takes for an association with this many peer addresses.
fn state(config: &Config, addresses: u32) -> usize {
    let mut parameters = EndpointConfig::new(5000, vec![[10, 0, 0, 1].into()], [1; 32]);
    parameters.association = config.association.clone();
    parameters.max_associations = config.max_associations;
    let mut endpoint = Endpoint::new(parameters).expect("valid");
    let count = 1000;
    let before = dhat::HeapStats::get().curr_bytes;
    (0..count).for_each(|host| set_up(&mut endpoint, host, addresses));
    assert_eq!(endpoint.associations().count(), count as usize);
    (dhat::HeapStats::get().curr_bytes - before).div_ceil(count as usize)
}

/// Associations with as much state as an INIT can cause, and as much received data, unfinished messages
/// and notifications as are allowed.
#[test]
fn the_defaults_bound_what_peers_can_occupy() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let config = Config::udp([]);
    let most = config.max_associations;
    let each = state(&config, 255);
    let path_addresses = config.association.paths.max_paths * size_of::<IpAddr>();
    let handle = IDLE_END.saturating_sub(state(&config, 1)) + path_addresses;
    let heap = |counted: usize, factor: f64| (counted as f64 * factor) as usize;
    let received = heap(config.receive_memory, HEAP_PER_BYTE);
    let unread = heap(config.unread_memory, UNREAD_PER_BYTE);
    let data = heap(LEAST_DATA, HEAP_PER_BYTE);
    let parts = [
        ("state", most * each),
        ("handles", most * (handle + CHANNEL)),
        ("received data", received),
        ("received data beyond that", most * data),
        ("streams beyond that", most * LEAST_STREAMS),
        ("unread", unread),
        ("notifications beyond that", most * LEAST_NOTIFICATIONS),
    ];
    println!("measured: {each} bytes an association with 255 addresses, {handle} its handle");
    for (what, bytes) in parts {
        println!("measured: {what}: {} MiB", bytes >> 20);
    }
    let total: usize = parts.iter().map(|(_, bytes)| bytes).sum();
    println!("measured: {} MiB of heap in all", total >> 20);
    assert!(total <= LIMIT, "{total} bytes");
    // The packages of the crates do not have these files.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../");
    for (file, words) in STATEMENTS {
        if let Ok(text) = std::fs::read_to_string(format!("{root}{file}")) {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(words), "{file} must state: {words}");
        }
    }
}
