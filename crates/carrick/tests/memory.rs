//! Memory of associations on sockets: of an idle one with its handle and all its state, and of one whose
//! peer sends packets that occupy as much memory as possible.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carrick::{Association, Config, ConnectOptions, Endpoint};
use quinn_udp::{Transmit, UdpSocketState};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Goal of the project: 4 KiB per idle end of an association.
const LIMIT: usize = 4096;

/// Runs one profiler at a time, in whatever order the tests run.
fn alone() -> (dhat::Profiler, MutexGuard<'static, ()>) {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    (dhat::Profiler::builder().testing().build(), guard)
}

fn bind() -> Endpoint {
    let address = std::net::IpAddr::from([127, 0, 0, 1]);
    Endpoint::bind(Config::udp([address]).encapsulation_port(0)).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// Both ends of each association have a handle; their endpoints are shared.
#[test]
fn an_idle_end_with_its_handle_takes_at_most_4_kib() {
    let _alone = alone();
    runtime().block_on(async {
        let address = std::net::IpAddr::from([127, 0, 0, 1]);
        let server = bind();
        let clients: Vec<Endpoint> = (0..50).map(|_| bind()).collect();
        let options =
            ConnectOptions::new().encapsulation_port(server.encapsulation_port().unwrap());
        let mut ends: Vec<Association> = Vec::with_capacity(2 * clients.len());
        // Allocations for the first association of an endpoint remain.
        for client in &clients {
            let first = client
                .connect_with((address, server.port()), options.clone())
                .await
                .unwrap();
            drop((first, server.accept().await.map(carrick::Incoming::accept)));
        }
        for endpoint in clients.iter().chain([&server]) {
            while endpoint.associations().await.unwrap() > 0 {
                tokio::task::yield_now().await;
            }
        }
        let before = dhat::HeapStats::get().curr_bytes;
        for client in &clients {
            ends.push(
                client
                    .connect_with((address, server.port()), options.clone())
                    .await
                    .unwrap(),
            );
            ends.push(server.accept().await.unwrap().accept());
        }
        let each = (dhat::HeapStats::get().curr_bytes - before) / ends.len();
        println!("{each} bytes per idle association end with its handle");
        assert!(each <= LIMIT, "{each} bytes");
    });
}

/// Peer that writes its packets itself.
struct Attacker {
    socket: UdpSocket,
    state: UdpSocketState,
    server: SocketAddr,
    port: u16,
    tag: u32,
}

impl Attacker {
    /// Sets up an association; its initial TSN is 1.
    fn connect(server: SocketAddr, port: u16) -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let state = UdpSocketState::new((&socket).into()).unwrap();
        socket.set_nonblocking(false).unwrap();
        let timeout = Some(Duration::from_secs(2));
        socket.set_read_timeout(timeout).unwrap();
        let mut attacker = Self {
            socket,
            state,
            server,
            port,
            tag: 0,
        };
        // Initiate Tag, a_rwnd, streams, initial TSN.
        let fields = [[0, 0, 0, 9], [0, 1, 0, 0], [255; 4], [0, 0, 0, 1]];
        let init_ack = attacker.ask(1, &fields.concat(), 2);
        attacker.tag = u32::from_be_bytes(init_ack[16..20].try_into().unwrap());
        let mut parameters = &init_ack[32..];
        let cookie = loop {
            let len = usize::from(u16::from_be_bytes([parameters[2], parameters[3]]));
            if parameters[..2] == [0, 7] {
                break parameters[4..len].to_vec();
            }
            parameters = &parameters[len.next_multiple_of(4)..];
        };
        attacker.ask(10, &cookie, 11);
        attacker
    }

    /// Sends a chunk until a packet with this first chunk arrives.
    fn ask(&self, kind: u8, value: &[u8], answer: u8) -> Vec<u8> {
        let mut buffer = vec![0; 65_536];
        loop {
            let packet = self.packet(&chunk(kind, 0, value));
            self.socket.send_to(&packet, self.server).unwrap();
            while let Ok(len) = self.socket.recv(&mut buffer) {
                if buffer[12] == answer {
                    return buffer[..len].to_vec();
                }
            }
        }
    }

    fn packet(&self, chunks: &[u8]) -> Vec<u8> {
        let mut packet = [5000_u16.to_be_bytes(), self.port.to_be_bytes()].concat();
        packet.extend(self.tag.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(chunks);
        let checksum = crc32c(&packet);
        packet[8..12].copy_from_slice(&checksum.to_le_bytes());
        packet
    }

    /// Returns a packet of this size with a DATA chunk on stream 0 that is never the next one to deliver.
    fn data(&self, tsn: u32, payload: usize, size: usize) -> Vec<u8> {
        let mut value = tsn.to_be_bytes().to_vec();
        value.extend([0, 0, 1, 0, 0, 0, 0, 0]);
        value[6..8].copy_from_slice(&(tsn as u16).to_be_bytes());
        value.resize(12 + payload, 7);
        let mut chunks = chunk(0, 3, &value);
        // PAD (RFC 4820).
        let rest = size - 12 - chunks.len();
        if rest > 0 {
            chunks.extend(chunk(0x84, 0, &vec![0; rest - 4]));
        }
        self.packet(&chunks)
    }

    /// Sends packets of one size with one call until a SACK reports this TSN.
    fn send(&self, packets: &[Vec<u8>], highest: u32) {
        let mut buffer = vec![0; 65_536];
        loop {
            let transmit = Transmit {
                destination: self.server,
                ecn: None,
                contents: &packets.concat(),
                segment_size: Some(packets[0].len()),
                src_ip: None,
            };
            let socket = (&self.socket).into();
            self.state.try_send(socket, &transmit).unwrap();
            while let Ok(len) = self.socket.recv(&mut buffer) {
                let number =
                    |at: usize| u32::from(u16::from_be_bytes([buffer[at], buffer[at + 1]]));
                // The cumulative TSN stays 0.
                if buffer[12] == 3 && len >= 32 && number(30) == highest {
                    return;
                }
            }
        }
    }
}

fn chunk(kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let mut chunk = vec![kind, flags];
    chunk.extend((4 + value.len() as u16).to_be_bytes());
    chunk.extend(value);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 * (crc & 1))
        })
    })
}

/// Heap that the receiver of chunks occupies, as a multiple of the size that its receive buffer counts for
/// them.
///
/// All chunks are above a gap. Packets of `size` bytes leave by eight at a time; `new` of these have a new
/// chunk each, the other ones repeat the first chunk.
fn kept(size: usize, payload: usize, new: u32, bursts: u32) -> f64 {
    let server = runtime();
    let (endpoint, at, port) = server.block_on(async {
        let endpoint = bind();
        let at = ([127, 0, 0, 1], endpoint.encapsulation_port().unwrap()).into();
        let port = endpoint.port();
        (endpoint, at, port)
    });
    let (go, going) = std::sync::mpsc::channel();
    let attacker = std::thread::spawn(move || {
        let attacker = Attacker::connect(at, port);
        let mut next = 2;
        for burst in 0..=bursts {
            let packets: Vec<_> = (0..8)
                .map(|n| {
                    let tsn = if n % (8 / new) == 0 { next } else { 2 };
                    next += u32::from(n % (8 / new) == 0);
                    attacker.data(tsn, payload, size)
                })
                .collect();
            attacker.send(&packets, next - 1);
            if burst == 0 {
                // Tables that grow with the first chunk exist by now.
                go.send(dhat::HeapStats::get().curr_bytes).unwrap();
            }
        }
        let heap = dhat::HeapStats::get().curr_bytes;
        (heap, attacker)
    });
    server.block_on(async {
        let association = endpoint.accept().await.unwrap().accept();
        while !attacker.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let counted = association.stats().await.unwrap().receive_buffer_bytes;
        let before = going.recv().unwrap();
        let (after, _attacker) = attacker.join().unwrap();
        let chunks = bursts * new;
        assert_eq!(counted, (chunks + new) as usize * (payload + 128));
        let more = after.saturating_sub(before);
        let factor = more as f64 / (chunks as usize * (payload + 128)) as f64;
        println!(
            "measured: packets of {size} bytes, {new} of 8 with {payload} new: {} bytes a chunk, \
             {factor:.1} times what is counted",
            more / chunks as usize
        );
        factor
    })
}

/// Every packet has a small chunk, as small packets behind a gap do.
#[test]
fn a_small_chunk_occupies_little_of_its_packets() {
    let _alone = alone();
    assert!(kept(748, 100, 8, 500) <= 3.0);
}

/// Of the packets that share an allocation, only one has a chunk that is not yet delivered. The factor of
/// five is for the payload alone; tables take some 250 bytes per message, of which 128 are counted.
#[test]
fn a_chunk_occupies_at_most_five_times_its_size() {
    let _alone = alone();
    // The largest size that is not copied, and the smallest one that is.
    assert!(kept(1452, 1044, 2, 300) <= 5.5);
    assert!(kept(1452, 1000, 2, 300) <= 2.0);
    assert!(kept(1452, 300, 2, 300) <= 3.0);
}
