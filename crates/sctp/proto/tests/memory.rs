//! Memory cost of associations: idle ones, and those of a peer that uses the highest streams. In a separate
//! binary for the allocator that counts, which the benchmarks share.

#[path = "../benches/support/mod.rs"]
mod support;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{
    AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, Extensions, Route,
    SendOptions, Time,
};
use support::Memory;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Heap of an idle association end with its own endpoint, in bytes: after the set-up, and after messages.
const LIMITS: [usize; 2] = [3072, 3072];

/// Messages that an association has sent before it is idle.
const MESSAGES: usize = 1000;

/// Heap of such an end after fragmented messages and losses: counters of losses, the last reduction of the window and
/// what RACK has learned remain.
const AFTER_LOSSES: usize = 4096;

/// Heap that state of all 65,535 inbound streams takes at most, in bytes: DATA, I-DATA.
const ALL_STREAMS: [usize; 2] = [192 << 10, 320 << 10];

/// One profiler at a time, in whatever order the tests run.
fn alone() -> (dhat::Profiler, MutexGuard<'static, ()>) {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    (dhat::Profiler::builder().testing().build(), guard)
}

/// Sends messages in both directions, which are read, and lets two minutes pass. `arrives` decides about each packet.
fn use_and_rest(
    memory: &mut Memory,
    (a, b): (AssociationId, AssociationId),
    (count, message): (usize, &'static [u8]),
    mut arrives: impl FnMut() -> bool,
) {
    let rest = memory.now + Duration::from_secs(120);
    for (end, id) in [(0, a), (1, b)].repeat(count) {
        let octets = Bytes::from_static(message);
        let taken = memory.ends[end].send(memory.now, id, SendOptions::default(), octets);
        taken.expect("room in the send buffer");
    }
    loop {
        let now = memory.now;
        let [first, second] = &mut memory.ends;
        let arrives = &mut arrives;
        while carry_some(now, first, second, arrives) | carry_some(now, second, first, arrives) {}
        while first.receive(a).is_some() || second.receive(b).is_some() {}
        while first.poll_event().is_some() || second.poll_event().is_some() {}
        let timeouts = [first.poll_timeout(), second.poll_timeout()];
        let due = timeouts.into_iter().flatten().min();
        let Some(at) = due.filter(|at| *at <= rest) else {
            return;
        };
        first.handle_timeout(at);
        second.handle_timeout(at);
        memory.now = at;
    }
}

#[test]
fn an_idle_association_costs_little_memory() {
    let _alone = alone();
    for config in [AssociationConfig::rfc9260(), AssociationConfig::modern()] {
        let config = Arc::new(config);
        // Threads of other tests may begin meanwhile: their memory counts little among these associations.
        let count = 300_usize;
        let mut memories: Vec<Memory> = (0..count).map(|_| Memory::new(&config)).collect();
        let mut ids = Vec::with_capacity(count);
        let before = dhat::HeapStats::get().curr_bytes;
        let each = || (dhat::HeapStats::get().curr_bytes - before) / (2 * count);
        ids.extend(memories.iter_mut().map(|memory| memory.connect(&config)));
        let fresh = each();
        for (memory, ids) in memories.iter_mut().zip(&ids) {
            use_and_rest(memory, *ids, (MESSAGES, &[7; 100]), || true);
        }
        let used = each();
        println!("measured: {fresh} bytes per idle association end, {used} after messages");
        assert!(
            fresh <= LIMITS[0] && used <= LIMITS[1],
            "{fresh} and {used} bytes"
        );
        // Message numbers continue.
        use_and_rest(&mut memories[0], ids[0], (MESSAGES, &[7; 100]), || true);
        for (end, id) in memories[0].ends.iter().zip([ids[0].0, ids[0].1]) {
            let stats = end.association(id).expect("open").stats();
            assert_eq!(stats.counters.messages_delivered, 2 * MESSAGES as u64);
        }
    }
}

#[test]
fn losses_leave_little_memory_in_use() {
    let _alone = alone();
    let interleaving = AssociationConfig::modern().with(|c| c.extensions.interleaving = true);
    for config in [AssociationConfig::rfc9260(), interleaving] {
        let config = Arc::new(config);
        let count = 50_usize;
        let mut memories: Vec<Memory> = (0..count).map(|_| Memory::new(&config)).collect();
        let before = dhat::HeapStats::get().curr_bytes;
        let mut packets = 0_u32;
        for memory in &mut memories {
            let ids = memory.connect(&config);
            use_and_rest(memory, ids, (20, &[7; 5000]), || {
                packets += 1;
                !packets.is_multiple_of(20)
            });
        }
        let each = (dhat::HeapStats::get().curr_bytes - before) / (2 * count);
        println!("measured: {each} bytes per idle association end after losses");
        assert!(each <= AFTER_LOSSES, "{each} bytes");
    }
}

/// DATA or I-DATA, with all streams that there can be.
fn config(interleaving: bool) -> AssociationConfig {
    AssociationConfig::rfc9260().with(|c| {
        c.streams.outbound_streams = u16::MAX;
        // Nothing waits for a timer.
        c.timers.sack_frequency = 1;
        c.transmission.nagle = false;
        c.extensions = Extensions {
            interleaving,
            ..Extensions::NONE
        };
    })
}

/// A server and the peers that have an association with it, each at its address.
struct Server {
    now: Time,
    config: Arc<AssociationConfig>,
    endpoint: Endpoint,
    accepted: Vec<AssociationId>,
}

impl Server {
    fn new(config: AssociationConfig) -> Self {
        let config = Arc::new(config);
        Self {
            now: Time::from_millis(1),
            endpoint: endpoint([10, 0, 0, 1], &config),
            accepted: Vec::new(),
            config,
        }
    }

    /// Carries packets between the server and a peer until neither has any.
    fn exchange(&mut self, peer: &mut Endpoint) {
        while carry(self.now, peer, &mut self.endpoint) | carry(self.now, &mut self.endpoint, peer)
        {
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            if let Event::Established { .. } = event {
                self.accepted.push(id);
            }
        }
        while peer.poll_event().is_some() {}
    }

    fn connect(&mut self, number: u16) -> (Endpoint, AssociationId) {
        let [high, low] = number.to_be_bytes();
        let mut peer = endpoint([10, 1, high, low], &self.config);
        let to = [[10, 0, 0, 1].into()];
        let id = peer.connect(self.now, &to, 5000, None, self.config.clone());
        let id = id.expect("the peer has no association yet");
        self.exchange(&mut peer);
        (peer, id)
    }

    /// Reads all messages of the last association.
    fn read(&mut self) -> usize {
        let id = *self.accepted.last().expect("established");
        let read = core::iter::from_fn(|| self.endpoint.receive(id));
        read.count()
    }
}

fn endpoint(address: [u8; 4], config: &AssociationConfig) -> Endpoint {
    let mut endpoint = EndpointConfig::new(5000, vec![address.into()], [address[3]; 32]);
    endpoint.association = config.clone();
    Endpoint::new(endpoint).expect("valid")
}

fn carry(now: Time, from: &mut Endpoint, to: &mut Endpoint) -> bool {
    carry_some(now, from, to, &mut || true)
}

/// Carries the packets that `arrives` chooses.
fn carry_some(
    now: Time,
    from: &mut Endpoint,
    to: &mut Endpoint,
    arrives: &mut impl FnMut() -> bool,
) -> bool {
    let (mut buffer, mut any) = (Vec::new(), false);
    while let Some(transmit) = from.poll_transmit(now, &mut buffer) {
        let route = Route {
            local: Some(transmit.route.remote),
            remote: transmit.route.local.expect("a source address"),
            ..transmit.route
        };
        let size = transmit.segment_size.unwrap_or(transmit.len);
        for datagram in buffer.chunks(size).filter(|_| arrives()) {
            to.handle_datagram(now, &route, Bytes::copy_from_slice(datagram));
        }
        buffer.clear();
        any = true;
    }
    any
}

/// Heap of a server with as many associations, in bytes for each of them, after their peers sent
/// one octet on each of these streams, which the server has read.
fn heap_per_association(
    config: AssociationConfig,
    count: u16,
    streams: &core::ops::Range<u16>,
) -> usize {
    let mut server = Server::new(config);
    for number in 0..count {
        let (mut peer, id) = server.connect(number);
        let mut read = 0;
        for (sent, stream) in (1..).zip(streams.clone()) {
            let octet = Bytes::from_static(b"x");
            let options = SendOptions::on_stream(stream);
            let taken = peer.send(server.now, id, options, octet);
            taken.expect("room in the send buffer");
            if sent % 1000 == 0 {
                server.exchange(&mut peer);
                read += server.read();
            }
        }
        server.exchange(&mut peer);
        read += server.read();
        assert_eq!(read, streams.len(), "delivered");
    }
    let with = dhat::HeapStats::get().curr_bytes;
    drop(server);
    (with - dhat::HeapStats::get().curr_bytes) / usize::from(count)
}

/// Heap of a sender in bytes, after one octet on each of these streams.
fn heap_of_sender(interleaving: bool, streams: core::ops::Range<u16>) -> usize {
    let mut server = Server::new(config(interleaving));
    let (mut peer, id) = server.connect(0);
    for (sent, stream) in (1..).zip(streams) {
        let octet = Bytes::from_static(b"x");
        let taken = peer.send(server.now, id, SendOptions::on_stream(stream), octet);
        taken.expect("room in the send buffer");
        if sent % 1000 == 0 {
            server.exchange(&mut peer);
            server.read();
        }
    }
    server.exchange(&mut peer);
    let with = dhat::HeapStats::get().curr_bytes;
    drop(peer);
    with - dhat::HeapStats::get().curr_bytes
}

/// The user of the sender chooses the streams: nothing is kept of those that were not used.
#[test]
fn an_outbound_stream_costs_memory_when_it_is_used() {
    let _alone = alone();
    for interleaving in [false, true] {
        let idle = heap_of_sender(interleaving, 0..0);
        let first = heap_of_sender(interleaving, 0..1) - idle;
        let last = heap_of_sender(interleaving, 65_534..65_535) - idle;
        let all = heap_of_sender(interleaving, 0..u16::MAX) - idle;
        println!(
            "measured: interleaving {interleaving}: {first} bytes for a message on stream 0, {last} \
             on stream 65,534, {all} for one on each"
        );
        // The test harness allocates a few bytes, too.
        assert!(last.abs_diff(first) <= 512, "{last} and {first} bytes");
        assert!(all <= 16 << 20, "{all} bytes");
    }
}

/// An attacker with one DATA chunk of one octet on stream 65,534 in each association.
#[test]
fn an_octet_on_the_last_stream_costs_a_page() {
    let _alone = alone();
    for interleaving in [false, true] {
        let idle = heap_per_association(config(interleaving), 1000, &(0..0));
        let used = heap_per_association(config(interleaving), 1000, &(65_534..65_535));
        let more = used - idle;
        println!(
            "measured: interleaving {interleaving}: {used} bytes an association with one octet on \
             stream 65,534, {idle} without, {} MB for 20,000",
            used * 20_000 / 1_000_000
        );
        assert!(more <= 1024, "{more} bytes");
    }
}

/// A peer that uses every stream gets all its messages through, and its association costs no more
/// than the table of all streams.
#[test]
fn state_of_all_streams_is_bounded() {
    let _alone = alone();
    for (interleaving, limit) in [false, true].into_iter().zip(ALL_STREAMS) {
        let idle = heap_per_association(config(interleaving), 1, &(0..0));
        let used = heap_per_association(config(interleaving), 1, &(0..u16::MAX));
        let more = used - idle;
        println!("measured: interleaving {interleaving}: {more} bytes for 65,535 streams");
        assert!(more <= limit, "{more} bytes");
    }
}

/// Ways to fill a receive buffer with chunks of one octet above a gap.
#[derive(Clone, Copy, Debug)]
enum Filling {
    /// Whole messages, each on another page of streams, that wait for one before them.
    Messages,
    /// Fragments without beginning and end, each between two gaps.
    Fragments,
}

impl Filling {
    /// Returns the n-th chunk from the initial TSN on.
    fn chunk(self, n: u32, initial_tsn: u32, interleaving: bool) -> Vec<u8> {
        let (flags, step, stream) = match self {
            Self::Messages => (3, 1, (n as u16).wrapping_mul(64)),
            Self::Fragments => (0, 2, n as u16),
        };
        let kind = if interleaving { 64 } else { 0 };
        let mut chunk = vec![kind, flags, 0, 0];
        chunk.extend((initial_tsn + 1 + n * step).to_be_bytes());
        chunk.extend(stream.to_be_bytes());
        if interleaving {
            // MID; FSN or, in a first fragment, PPID.
            chunk.extend([0, 0]);
            chunk.extend((1 + n / 1024).to_be_bytes());
            chunk.extend([0, 0, 0, 1]);
        } else {
            chunk.extend((1 + n as u16 / 1024).to_be_bytes());
            chunk.extend([0; 4]);
        }
        chunk.push(b'x');
        chunk[3] = chunk.len() as u8;
        chunk.resize(chunk.len().next_multiple_of(4), 0);
        chunk
    }
}

/// Heap that a full receive buffer keeps, as a multiple of what it counts.
fn heap_of_full_buffer(filling: Filling, interleaving: bool) -> f64 {
    let mut server = Server::new(config(interleaving));
    let (mut peer, id) = server.connect(0);
    // The first packet with data shows tag and TSN. It is lost.
    let octet = Bytes::from_static(b"x");
    let taken = peer.send(server.now, id, SendOptions::default(), octet);
    taken.expect("room in the send buffer");
    let mut first = Vec::new();
    let transmit = peer.poll_transmit(server.now, &mut first).expect("DATA");
    let route = Route::plain(
        transmit.route.remote,
        transmit.route.local.expect("a source address"),
    );
    let initial_tsn = u32::from_be_bytes(first[16..20].try_into().expect("DATA"));
    let before = dhat::HeapStats::get().curr_bytes;
    let id = server.accepted[0];
    for n in 0.. {
        let mut packet = first[..8].to_vec();
        packet.extend([0; 4]);
        packet.extend(filling.chunk(n, initial_tsn, interleaving));
        let checksum = carrick_wire::crc32c(&packet);
        packet[8..12].copy_from_slice(&checksum.to_le_bytes());
        server
            .endpoint
            .handle_datagram(server.now, &route, packet.into());
        let mut sack = Vec::new();
        while server
            .endpoint
            .poll_transmit(server.now, &mut sack)
            .is_some()
        {
            sack.clear();
        }
        let stats = server
            .endpoint
            .association(id)
            .expect("the association exists")
            .stats();
        if stats.counters.dropped_for_buffer > 0 {
            let heap = dhat::HeapStats::get().curr_bytes - before;
            let factor = heap as f64 / stats.receive_buffer_bytes as f64;
            println!(
                "measured: {filling:?}, interleaving {interleaving}: {n} chunks, {heap} bytes, \
                 {factor:.1} times what is counted"
            );
            return factor;
        }
    }
    unreachable!("the buffer is full at some time")
}

/// Heap of a full receive buffer at most, as a multiple of what it counts: the tables of the
/// receiver take more than the overhead of a chunk.
const FULL: f64 = 3.25;

#[test]
fn a_full_receive_buffer_takes_bounded_heap() {
    let _alone = alone();
    for filling in [Filling::Messages, Filling::Fragments] {
        for interleaving in [false, true] {
            assert!(heap_of_full_buffer(filling, interleaving) <= FULL);
        }
    }
}
