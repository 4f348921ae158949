//! Runs a stack without sockets: over UDP with one thread and a socket that blocks, or two ends in memory.
//!
//! Packets leave with segmentation offload and arrive with receive offload, as those of Carrick. A datagram that is no
//! SCTP packet ends the server.

use std::fs::read_to_string;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};

use crate::options::Options;
use crate::{
    Failure, Verb, end_with_input, print_about, print_delivered, print_port, print_round_trips,
};

/// One end of an association, for use by one thread.
pub trait Stack: Sized {
    /// Creates the end that waits for the other one.
    fn server(config: &Config) -> Self;
    /// Creates the end that begins to connect.
    fn client(config: &Config) -> Self;
    /// Takes a packet in.
    fn handle(&mut self, now: Instant, packet: Bytes);
    /// Lets due timers expire; called after packets, too.
    fn handle_timeout(&mut self, now: Instant);
    /// Returns the time of the next timer.
    fn timeout(&self) -> Option<Instant>;
    /// Appends packets that are to be sent.
    fn transmit(&mut self, now: Instant, packets: &mut Vec<Bytes>);
    fn is_connected(&self) -> bool;
    /// Sends a message, if there is room for it.
    fn send(&mut self, now: Instant, message: &Bytes) -> bool;
    /// Reads a message into a buffer, and returns its length.
    fn receive(&mut self, into: &mut Vec<u8>) -> Option<usize>;
    /// Returns true when the peer has acknowledged all messages.
    fn is_acknowledged(&mut self) -> bool;
}

/// Parameters of an end.
pub struct Config {
    /// Time of the creation.
    pub now: Instant,
    /// Address of this end and of the other one; they are only names in memory.
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Options of the tests; none in measurements, where the stack's defaults apply.
    pub(crate) options: Option<Options>,
}

impl Config {
    fn new(now: Instant, local: u16, remote: u16) -> Self {
        let address = |port| (Ipv4Addr::LOCALHOST, port).into();
        Self {
            now,
            local: address(local),
            remote: address(remote),
            options: None,
        }
    }
}

/// First byte of messages that the server returns.
const ECHO: u8 = 1;
/// Datagram that ends the server.
const END: &[u8] = b"end";
/// Maximum number of bytes and datagrams of a send call.
const MAX_BATCH: usize = 65_000;
const MAX_SEGMENTS: usize = 64;
/// Longest wait for a packet.
const WAIT: Duration = Duration::from_millis(100);
const WAIT_STEP: Duration = Duration::from_millis(10);
/// Size of the socket's buffers that is requested.
const BUFFER: usize = 4 << 20;
/// Bytes of messages between two looks at the CPU time.
const BATCH: usize = 4 << 20;

/// Runs the program of a stack, which is this crate.
pub fn run<S: Stack>(name: &str) -> Result<(), Failure> {
    match crate::verb()? {
        Verb::About => print_about(name, &["send", "ping", "memory", "set-ups", "idle"]),
        Verb::Serve => serve::<S>()?,
        Verb::Send {
            address,
            size,
            time,
        } => send::<S>(address, size, time)?,
        Verb::Ping {
            address,
            size,
            count,
        } => ping::<S>(address, size, count)?,
        Verb::Memory { size, time } => memory::<S>(size, time)?,
        Verb::SetUps { time } => set_ups::<S>(time)?,
        Verb::Idle { pairs } => idle::<S>(pairs)?,
    }
    Ok(())
}

/// Stack on a socket.
struct Node<S> {
    socket: UdpSocket,
    state: UdpSocketState,
    stack: S,
    peer: SocketAddr,
    packets: Vec<Bytes>,
    batch: Vec<u8>,
    buffer: Vec<u8>,
    /// Time limit of the socket's receive call.
    wait: Duration,
    /// The peer has sent the datagram that ends the server.
    ended: bool,
}

fn bind() -> io::Result<(UdpSocket, UdpSocketState)> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let state = UdpSocketState::new((&socket).into())?;
    // The state makes the socket non-blocking.
    socket.set_nonblocking(false)?;
    // The system may limit the sizes.
    let _ = state.set_recv_buffer_size((&socket).into(), BUFFER);
    let _ = state.set_send_buffer_size((&socket).into(), BUFFER);
    Ok((socket, state))
}

impl<S: Stack> Node<S> {
    fn new((socket, state): (UdpSocket, UdpSocketState), stack: S, peer: SocketAddr) -> Self {
        Self {
            socket,
            state,
            stack,
            peer,
            packets: Vec::new(),
            batch: Vec::new(),
            buffer: vec![0; 1 << 16],
            wait: Duration::ZERO,
            ended: false,
        }
    }

    /// Sends what is to be sent, waits for packets or a timer, and takes them in.
    fn turn(&mut self) -> io::Result<()> {
        self.flush()?;
        let now = Instant::now();
        let wait = self
            .stack
            .timeout()
            .map_or(WAIT, |at| at.saturating_duration_since(now));
        if wait.is_zero() {
            self.stack.handle_timeout(now);
            return self.flush();
        }
        // Whole steps, so that most waits need no system call for them.
        let wait = (WAIT_STEP * (wait.as_millis() / WAIT_STEP.as_millis() + 1) as u32).min(WAIT);
        if wait != self.wait {
            self.socket.set_read_timeout(Some(wait))?;
            self.wait = wait;
        }
        let mut meta = [RecvMeta::default()];
        let mut into = [IoSliceMut::new(&mut self.buffer)];
        match self.state.recv((&self.socket).into(), &mut into, &mut meta) {
            Ok(_) => {
                let now = Instant::now();
                self.peer = meta[0].addr;
                let received = Bytes::copy_from_slice(&self.buffer[..meta[0].len]);
                for at in (0..received.len()).step_by(meta[0].stride.max(1)) {
                    let packet = received.slice(at..(at + meta[0].stride).min(received.len()));
                    if packet == END {
                        self.ended = true;
                    } else {
                        self.stack.handle(now, packet);
                    }
                }
                self.stack.handle_timeout(now);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                self.stack.handle_timeout(Instant::now());
            }
            Err(error) => return Err(error),
        }
        self.flush()
    }

    /// Sends packets of one size with one call; the last may be shorter.
    fn flush(&mut self) -> io::Result<()> {
        self.stack.transmit(Instant::now(), &mut self.packets);
        let mut packets = self.packets.drain(..).peekable();
        while let Some(first) = packets.next() {
            let size = first.len();
            self.batch.clear();
            self.batch.extend_from_slice(&first);
            let mut count = 1;
            while count < MAX_SEGMENTS
                && self.batch.len() == count * size
                && let Some(next) = packets
                    .next_if(|next| next.len() <= size && count * size + next.len() <= MAX_BATCH)
            {
                self.batch.extend_from_slice(&next);
                count += 1;
            }
            let transmit = Transmit {
                destination: self.peer,
                ecn: None,
                contents: &self.batch,
                segment_size: (count > 1).then_some(size),
                src_ip: None,
            };
            self.state.try_send((&self.socket).into(), &transmit)?;
        }
        Ok(())
    }

    fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = bind()?;
        let local = socket.0.local_addr()?.port();
        let config = Config::new(Instant::now(), local, address.port());
        let mut node = Self::new(socket, S::client(&config), address);
        while !node.stack.is_connected() {
            node.turn()?;
        }
        Ok(node)
    }

    fn end(self) -> io::Result<()> {
        self.socket.send_to(END, self.peer).map(drop)
    }
}

fn serve<S: Stack>() -> io::Result<()> {
    let socket = bind()?;
    let port = socket.0.local_addr()?.port();
    print_port(port);
    end_with_input();
    // The address of the client is known with its first packet.
    let mut from = [0; 1];
    let (_, peer) = socket.0.peek_from(&mut from)?;
    let config = Config::new(Instant::now(), port, peer.port());
    let mut node = Node::new(socket, S::server(&config), peer);
    let mut into = Vec::new();
    while !node.ended {
        node.turn()?;
        while let Some(length) = node.stack.receive(&mut into) {
            if into[..length].first() == Some(&ECHO) {
                let message = Bytes::copy_from_slice(&into[..length]);
                while !node.stack.send(Instant::now(), &message) {
                    node.turn()?;
                }
            }
        }
    }
    Ok(())
}

fn send<S: Stack>(address: SocketAddr, size: usize, time: Duration) -> io::Result<()> {
    let mut node = Node::<S>::connect(address)?;
    let message = Bytes::from(vec![0; size]);
    let mut bytes = 0;
    let begin = Instant::now();
    while begin.elapsed() < time {
        while node.stack.send(Instant::now(), &message) {
            bytes += size as u64;
        }
        node.turn()?;
    }
    while !node.stack.is_acknowledged() {
        node.turn()?;
    }
    print_delivered(bytes, begin.elapsed());
    node.end()
}

fn ping<S: Stack>(address: SocketAddr, size: usize, count: usize) -> io::Result<()> {
    let mut node = Node::<S>::connect(address)?;
    let message = Bytes::from(vec![ECHO; size]);
    let mut times = Vec::with_capacity(count);
    let mut into = Vec::new();
    // The first tenth is not counted.
    for n in 0..count + count / 10 {
        let begin = Instant::now();
        while !node.stack.send(begin, &message) {
            node.turn()?;
        }
        while node.stack.receive(&mut into).is_none() {
            node.turn()?;
        }
        if n >= count / 10 {
            times.push(begin.elapsed());
        }
    }
    print_round_trips(times);
    node.end()
}

/// Two ends in memory; the time is virtual.
struct Pair<S> {
    now: Instant,
    ends: [S; 2],
    packets: Vec<Bytes>,
    into: Vec<u8>,
}

impl<S: Stack> Pair<S> {
    fn connected(now: Instant) -> Self {
        let client = S::client(&Config::new(now, 5000, 5001));
        let server = S::server(&Config::new(now, 5001, 5000));
        let mut pair = Self {
            now,
            ends: [client, server],
            packets: Vec::new(),
            into: Vec::new(),
        };
        while !pair.ends.iter().all(|end| end.is_connected()) {
            pair.turn();
        }
        pair
    }

    /// Carries packets until neither end has any; then time passes.
    fn turn(&mut self) {
        loop {
            let mut any = false;
            for from in 0..2 {
                self.ends[from].transmit(self.now, &mut self.packets);
                for packet in self.packets.drain(..) {
                    any = true;
                    self.ends[1 - from].handle(self.now, packet);
                }
            }
            if !any {
                break;
            }
            for end in &mut self.ends {
                end.handle_timeout(self.now);
            }
        }
        self.now += Duration::from_micros(50);
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
    }

    /// Passes messages from the client to the server.
    fn transfer(&mut self, message: &Bytes, count: usize) {
        let (mut sent, mut received) = (0, 0);
        while received < count {
            while sent < count && self.ends[0].send(self.now, message) {
                sent += 1;
            }
            self.turn();
            while let Some(length) = self.ends[1].receive(&mut self.into) {
                std::hint::black_box(&self.into[..length]);
                received += 1;
            }
        }
    }
}

/// Returns the CPU seconds of the only thread.
fn cpu_seconds() -> f64 {
    let text = read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    nanoseconds.unwrap_or_default() / 1e9
}

fn memory<S: Stack>(size: usize, time: Duration) -> Result<(), Failure> {
    let mut pair = Pair::<S>::connected(Instant::now());
    let message = Bytes::from(vec![7; size]);
    let count = (BATCH / size).clamp(1, 5000);
    // The first batch opens the window.
    pair.transfer(&message, count);
    let begin = cpu_seconds();
    let (mut messages, mut used) = (0, 0.0);
    while used < time.as_secs_f64() {
        pair.transfer(&message, count);
        messages += count;
        used = cpu_seconds() - begin;
    }
    let bytes = messages * size;
    println!("{{\"messages\":{messages},\"bytes\":{bytes},\"cpu_seconds\":{used}}}");
    Ok(())
}

fn set_ups<S: Stack>(time: Duration) -> Result<(), Failure> {
    let begin = cpu_seconds();
    let (mut count, mut used) = (0, 0.0);
    let now = Instant::now();
    while used < time.as_secs_f64() {
        for _ in 0..100 {
            drop(Pair::<S>::connected(now));
        }
        count += 100;
        used = cpu_seconds() - begin;
    }
    println!("{{\"count\":{count},\"cpu_seconds\":{used}}}");
    Ok(())
}

fn resident() -> Result<u64, Failure> {
    let rollup = read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(number
        .ok_or("no Rss in /proc/self/smaps_rollup")?
        .trim()
        .parse::<u64>()?
        * 1024)
}

fn idle<S: Stack>(count: usize) -> Result<(), Failure> {
    let now = Instant::now();
    let mut pairs = Vec::with_capacity(count);
    let message = Bytes::from(vec![7; 100]);
    let before = resident()?;
    for _ in 0..count {
        pairs.push(Pair::<S>::connected(now));
    }
    let fresh = resident()?;
    for pair in &mut pairs {
        for from in 0..2 {
            while !pair.ends[from].send(pair.now, &message) {
                pair.turn();
            }
            pair.turn();
            while pair.ends[1 - from].receive(&mut pair.into).is_none() {
                pair.turn();
            }
            // The SACK may be delayed.
            pair.now += Duration::from_secs(1);
            pair.turn();
        }
        // A program has one buffer, not one for each association.
        pair.into = Vec::new();
    }
    let used = resident()?;
    let each = |bytes: u64| bytes.saturating_sub(before) / (2 * count.max(1) as u64);
    println!(
        "{{\"bytes_fresh\":{},\"bytes_used\":{}}}",
        each(fresh),
        each(used)
    );
    Ok(())
}
