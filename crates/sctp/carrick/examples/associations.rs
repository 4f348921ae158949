//! Many associations with one endpoint: sets them up, then lets each peer send messages, and measures the
//! endpoint's process.
//!
//! ```text
//! associations --count 100000 --shards 2
//! ```
//!
//! The peers are endpoints of the protocol core in a second process, several thousand behind each UDP port, as
//! those of large gateways. Prints one JSON object for each phase: `set-up` with its rate and the memory of an
//! association, with the task of the program that reads its messages; `messages` with the CPU time. With two
//! paths, heartbeats go over the second one. Linux only.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::future::poll_fn;
use std::io::{BufRead, BufReader, IsTerminal};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use carrick::network::{Network, NetworkConfig, NetworkInput};
use carrick::{AssociationConfig, Config, Endpoint, SendOptions, Transport};
use carrick_proto::{AssociationId, EndpointConfig, Event, JoinedTransmits, PeerAddress, Time};
use clap::Parser;
use serde_json::{Value, json};

type Failure = Box<dyn Error + Send + Sync>;

/// SCTP port of the endpoint.
const PORT: u16 = 5000;

/// First SCTP port of the peers behind a UDP port.
const FIRST_PORT: usize = 1024;

/// Set-ups at the same time of the peers behind one UDP port.
const WINDOW: usize = 64;

/// Time between two checks for what is due.
const TICK: Duration = Duration::from_millis(5);

#[derive(Parser)]
struct Arguments {
    /// Number of associations.
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// Shards of the endpoint, and threads of its process.
    #[arg(long, default_value_t = 1)]
    shards: usize,
    /// UDP ports of the peers.
    #[arg(long, default_value_t = 8)]
    ports: usize,
    /// Paths of each association, one or two.
    #[arg(long, default_value_t = 2)]
    paths: u8,
    /// Messages that each peer sends in a second.
    #[arg(long, default_value_t = 1.0)]
    rate: f64,
    /// Length of a message.
    #[arg(long, default_value_t = 100)]
    size: usize,
    /// Duration of the messages in seconds.
    #[arg(long, default_value_t = 20.0)]
    time: f64,
    /// Runs the peers of the endpoint on this UDP port.
    #[arg(long, hide = true)]
    peers_of: Option<u16>,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    if let Some(udp) = arguments.peers_of {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        return runtime.block_on(run_peers(&arguments, udp));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(arguments.shards)
        .enable_all()
        .build()?;
    runtime.block_on(serve(&arguments))
}

/// Address with this last byte; the second one is that of another path.
fn addresses(last: u8, paths: u8) -> Vec<IpAddr> {
    (0..paths.clamp(1, 2))
        .map(|path| IpAddr::from([127, 1, path, last]))
        .collect()
}

fn association() -> AssociationConfig {
    AssociationConfig::modern()
}

/// Runs the endpoint, and the peers in a second process.
async fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let mut config = Config::udp(addresses(1, arguments.paths))
        .encapsulation_port(0)
        .port(PORT)
        .shards(arguments.shards)
        .association(association());
    config.max_associations = arguments.count;
    config.max_associations_per_source = Some(arguments.count);
    config.backlog = 4 * arguments.count;
    let endpoint = Endpoint::bind(config)?;
    let received = Arc::new(AtomicU64::new(0));
    tokio::spawn(accept(endpoint.clone(), Arc::clone(&received)));
    let udp = endpoint.encapsulation_port().ok_or("not in UDP")?;
    let own = std::env::args().skip(1);
    let mut peers = Command::new(std::env::current_exe()?)
        .args(own)
        .args(["--peers-of", &udp.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let output = peers.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(output).lines();
    let mut next = || -> Result<Value, Failure> {
        let line = lines.next().ok_or("the peers have ended")??;
        Ok(serde_json::from_str(&line)?)
    };
    let (memory, cpu) = (resident()?, cpu_seconds()?);
    let set_up = tokio::task::block_in_place(&mut next)?;
    let established = endpoint.associations().await?;
    let seconds = set_up["seconds"].as_f64().ok_or("no duration")?;
    let set_up_cpu = cpu_seconds()? - cpu;
    let fresh = (resident()? - memory) / established.max(1) as f64;
    println!(
        "{}",
        json!({
            "phase": "set-up", "shards": arguments.shards, "associations": established,
            "seconds": seconds, "per_second": established as f64 / seconds,
            "cpu_us": set_up_cpu / established.max(1) as f64 * 1e6, "bytes": fresh,
        })
    );
    let before = endpoint.stats().await?;
    let (received_before, cpu) = (received.load(Ordering::Relaxed), cpu_seconds()?);
    let messages = tokio::task::block_in_place(&mut next)?;
    let cpu = cpu_seconds()? - cpu;
    let stats = endpoint.stats().await?;
    let seconds = messages["seconds"].as_f64().ok_or("no duration")?;
    println!(
        "{}",
        json!({
            "phase": "messages", "shards": arguments.shards,
            "associations": endpoint.associations().await?,
            "sent": messages["sent"], "received": received.load(Ordering::Relaxed) - received_before,
            "seconds": seconds, "cpu_seconds": cpu, "cores": cpu / seconds,
            "cpu_us_per_association_second": cpu / seconds / established.max(1) as f64 * 1e6,
            "bytes": (resident()? - memory) / established.max(1) as f64,
            "datagrams": stats.protocol.datagrams_received - before.protocol.datagrams_received,
            "passed_on": stats.passed_on, "not_passed_on": stats.not_passed_on,
        })
    );
    peers.wait()?;
    Ok(())
}

/// Reads the messages of all associations, with a task for each.
async fn accept(endpoint: Endpoint, received: Arc<AtomicU64>) {
    while let Some(incoming) = endpoint.accept().await {
        let mut association = incoming.accept();
        let received = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok(Some(_)) = association.recv().await {
                received.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

/// Resident memory of the process in bytes.
fn resident() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kilobytes.ok_or("no memory")?.parse::<f64>()? * 1024.0)
}

/// CPU time of the process in seconds.
fn cpu_seconds() -> Result<f64, Failure> {
    let used = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(used.user_time()) + seconds(used.system_time()))
}

/// Counters of all peers.
#[derive(Default)]
struct Totals {
    established: AtomicU64,
    ended: AtomicU64,
    sent: AtomicU64,
    /// Milliseconds of the clock at which the messages begin, 0 before.
    begins: AtomicU64,
}

/// Runs the peers of an endpoint: sets up the associations, and sends the messages.
async fn run_peers(arguments: &Arguments, udp: u16) -> Result<(), Failure> {
    let totals = Arc::new(Totals::default());
    let epoch = Instant::now();
    for number in 0..arguments.ports {
        let share = |until: usize| arguments.count * until / arguments.ports;
        let count = share(number + 1) - share(number);
        let peers = Peers::new(arguments, (number, count), udp, epoch, Arc::clone(&totals))?;
        tokio::spawn(peers.run());
    }
    let mut progress = Instant::now();
    let count = arguments.count as u64;
    while totals.established.load(Ordering::Relaxed) < count {
        if totals.ended.load(Ordering::Relaxed) > 0 {
            return Err("an association was not set up".into());
        }
        if progress.elapsed() > Duration::from_secs(2) && std::io::stderr().is_terminal() {
            progress = Instant::now();
            let established = totals.established.load(Ordering::Relaxed);
            eprintln!("{established} of {count} associations");
        }
        tokio::time::sleep(TICK).await;
    }
    println!("{}", json!({ "seconds": epoch.elapsed().as_secs_f64() }));
    // The endpoint's process reads its counters meanwhile.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begin = Instant::now();
    totals
        .begins
        .store(epoch.elapsed().as_millis() as u64, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs_f64(arguments.time)).await;
    let (sent, seconds) = (totals.sent.load(Ordering::Relaxed), begin.elapsed());
    println!(
        "{}",
        json!({ "sent": sent, "seconds": seconds.as_secs_f64() })
    );
    Ok(())
}

/// Peers behind one UDP port, each with an SCTP port.
struct Peers {
    network: Network,
    ends: Vec<carrick_proto::Endpoint>,
    associations: Vec<AssociationId>,
    server: Vec<PeerAddress>,
    /// Due times, with the number of the peer.
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    scheduled: Vec<Option<Time>>,
    /// Peers that have something to send.
    ready: Vec<usize>,
    outgoing: JoinedTransmits,
    established: usize,
    sent: u64,
    rate: f64,
    message: carrick::Bytes,
    epoch: Instant,
    totals: Arc<Totals>,
}

impl Peers {
    fn new(
        arguments: &Arguments,
        (number, count): (usize, usize),
        udp: u16,
        epoch: Instant,
        totals: Arc<Totals>,
    ) -> Result<Self, Failure> {
        if count > usize::from(u16::MAX) - FIRST_PORT {
            return Err("too many associations for the number of UDP ports".into());
        }
        let own = addresses(2 + number as u8, arguments.paths);
        let mut config = NetworkConfig::new(Transport::Udp { port: 0 });
        config.addresses.clone_from(&own);
        config.follow_host = false;
        let ends = (0..count).map(|peer| {
            let mut seed = [0; 32];
            getrandom::fill(&mut seed)?;
            let port = (FIRST_PORT + peer) as u16;
            let mut config = EndpointConfig::new(port, own.clone(), seed);
            config.association = association();
            Ok(carrick_proto::Endpoint::new(config)?)
        });
        let to = addresses(1, 1).into_iter();
        Ok(Self {
            network: Network::bind(config)?,
            ends: ends.collect::<Result<_, Failure>>()?,
            associations: Vec::with_capacity(count),
            server: to.map(|a| PeerAddress::encapsulated(a, udp)).collect(),
            timers: BinaryHeap::new(),
            scheduled: vec![None; count],
            ready: Vec::new(),
            outgoing: JoinedTransmits::default(),
            established: 0,
            sent: 0,
            rate: arguments.rate,
            message: vec![7; arguments.size].into(),
            epoch,
            totals,
        })
    }

    async fn run(mut self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        poll_fn(move |cx| {
            loop {
                let ticked = tick.poll_tick(cx).is_ready();
                if !self.round(cx) && !ticked {
                    return Poll::<()>::Pending;
                }
            }
        })
        .await;
    }

    /// Processes what has arrived and what is due. Returns true if more packets may wait.
    fn round(&mut self, cx: &mut Context<'_>) -> bool {
        let now = Time::from_nanos(self.epoch.elapsed().as_nanos() as u64);
        let (ends, ready) = (&mut self.ends, &mut self.ready);
        let more = self.network.poll_receive(cx, |input| {
            let NetworkInput::Packets(route, packets) = input else {
                return;
            };
            for packet in packets {
                let port = packet
                    .get(2..4)
                    .map_or(0, |p| usize::from(p[0]) << 8 | usize::from(p[1]));
                let peer = port.wrapping_sub(FIRST_PORT);
                if let Some(end) = ends.get_mut(peer) {
                    end.handle_datagram(now, route, packet);
                    ready.push(peer);
                }
            }
        });
        while let Some(&Reverse((at, peer))) = self.timers.peek().filter(|due| due.0.0 <= now) {
            self.timers.pop();
            if self.scheduled[peer] == Some(at) {
                self.scheduled[peer] = None;
                self.ends[peer].handle_timeout(now);
                self.ready.push(peer);
            }
        }
        self.connect(now);
        self.send_messages(now);
        self.transmit(cx, now);
        for peer in std::mem::take(&mut self.ready) {
            self.read_events(peer);
        }
        self.network.flush(cx);
        more
    }

    /// Begins further set-ups.
    fn connect(&mut self, now: Time) {
        while self.associations.len() < self.ends.len().min(self.established + WINDOW) {
            let peer = self.associations.len();
            let end = &mut self.ends[peer];
            let config = end.default_config();
            let id = end.associate(now, &self.server, PORT, config);
            self.associations
                .push(id.expect("an endpoint without association"));
            self.ready.push(peer);
        }
    }

    /// Sends the messages that are due, of one peer after the other.
    fn send_messages(&mut self, now: Time) {
        let begins = self.totals.begins.load(Ordering::Relaxed);
        if begins == 0 || self.ends.is_empty() {
            return;
        }
        let elapsed = now.since(Time::from_millis(begins)).as_secs_f64();
        let due = (elapsed * self.rate * self.ends.len() as f64) as u64;
        while self.sent < due {
            let peer = self.sent as usize % self.ends.len();
            self.sent += 1;
            let (id, message) = (self.associations[peer], self.message.clone());
            let sent = self.ends[peer].send(now, id, SendOptions::default(), message);
            let counter = match sent {
                Ok(()) => &self.totals.sent,
                Err(_) => &self.totals.ended,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            self.ready.push(peer);
        }
    }

    /// Sends the packets of all peers that have something to send.
    fn transmit(&mut self, cx: &mut Context<'_>, now: Time) {
        let ends = &mut self.ends;
        let mut ready = self.ready.iter().peekable();
        while let Some((transmit, bytes)) = self.outgoing.poll(|out| {
            loop {
                let sent = ends[**ready.peek()?].poll_transmit(now, out);
                if sent.is_some() {
                    return sent;
                }
                ready.next();
            }
        }) {
            self.network.send(cx, &transmit, bytes);
        }
    }

    /// Reads the events of a peer and schedules its next timer.
    fn read_events(&mut self, peer: usize) {
        let end = &mut self.ends[peer];
        while let Some((_, event)) = end.poll_event() {
            match event {
                Event::Established { .. } => {
                    self.established += 1;
                    self.totals.established.fetch_add(1, Ordering::Relaxed);
                }
                Event::Closed(_) => {
                    self.totals.ended.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
        }
        let next = end.poll_timeout();
        if let Some(at) = next
            && self.scheduled[peer].is_none_or(|scheduled| at < scheduled)
        {
            self.scheduled[peer] = Some(at);
            self.timers.push(Reverse((at, peer)));
        }
    }
}
