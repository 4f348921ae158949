//! `carrick demo`: two endpoints in this process exchange messages over two paths while one network after the other is
//! cut and repaired.
//!
//! - `network`: the two networks, emulated on loopback
//! - `stream`: the messages of a direction
//! - `report`: the output
//!
//! The endpoints are those of crate `carrick` with its default parameters.

mod network;
mod report;
mod stream;

use std::collections::VecDeque;
use std::future::pending;
use std::net::IpAddr;
use std::time::Duration;

use carrick::{
    Association, AssociationConfig, AssociationStats, Config, ConnectOptions, Endpoint, Event,
    EventLog, Events, Message, Notification, PathId, PathStats, RecvError, SendOptions,
    TrySendError,
};
use clap::Args;
use nix::sys::signal::Signal;
use tokio::time::{Instant, interval, sleep_until};

use crate::event_log::EventLogArguments;
use crate::failure::Failure;
use crate::runtime::{self, signal_received, until_signal};
use network::{EmulatedNetworks, NetworkAddresses};
use report::{
    CutSummary, DemoOutcome, DemoSample, DemoSummary, DirectionDelays, DirectionSample,
    EndpointName, NetworkSample, NetworkState, PathDecision, PathSample, Reporter, seconds,
};
use stream::{INTERVAL, MESSAGES, MessageStream};

/// Show how an association survives the failure of a network, on this host alone.
///
/// Two SCTP endpoints in this process, A and B, send each other a message every 20 ms for 15 s. Their association
/// has a path through each of two networks, which this process emulates: UDP on loopback, 10 ms in each direction.
/// Network 1 is cut at 3 s and repaired at 6 s, network 2 is cut at 9 s and repaired at 12 s. The primary path of A
/// is path 1, that of B is path 2, so that each cut affects one direction. The protocol parameters are the
/// defaults, but for Nagle's algorithm, which is off (`SCTP_NODELAY`). Needs no privileges and no other host. Exit
/// code 0: every message was received once and in order; 1: not every message was, or SIGINT, SIGTERM or SIGHUP
/// ended the run, after the summary so far; 2: invalid command line.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print JSON objects, one per line: each cut and repair, each decision of an endpoint, the state once a second,
    /// and the summary.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    event_log: EventLogArguments,
}

/// Changes of the networks: number of the network from 0, and whether it is cut.
const CHANGES: [(usize, bool); 4] = [(0, true), (0, false), (1, true), (1, false)];

/// Time before each change.
const CHANGE_INTERVAL: Duration = Duration::from_secs(3);

/// Time for messages to be received after the last one was sent: the default of RTO.Max, after which a path that has
/// come back is tried again.
const RECEIVE_LIMIT: Duration = Duration::from_secs(60);

/// A message that was sent this long before a cut may be in the network then: its delay, and as much for late timers.
const BEFORE_CUT: Duration = Duration::from_millis(2 * network::DELAY.as_millis() as u64);

/// Interval of samples of the state.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Number of samples over which rates are measured.
const SAMPLES_PER_SECOND: usize = 4;

/// Maximum duration of closing the endpoints.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::run(async {
        let mut reporter = Reporter::new(arguments.json);
        let addresses = network::addresses();
        let log = arguments.event_log.open(None)?;
        let a = bind(addresses.map(|network| network.a), log.clone())?;
        let b = bind(addresses.map(|network| network.b), log)?;
        let port = |endpoint: &Endpoint| endpoint.encapsulation_port().unwrap_or_default();
        let networks = EmulatedNetworks::open(addresses, port(&a), port(&b)).await;
        let networks = networks
            .map_err(|e| Failure::Run(format!("cannot open UDP sockets on loopback: {e}")))?;
        let done = demonstrate((&a, &b), addresses, &networks, &mut reporter).await;
        let closed = async { tokio::join!(a.close(), b.close()) };
        // The endpoints end with the process otherwise.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
        done
    })
}

/// Opens an endpoint on a UDP port that the system selects. The only parameter that is no default is Nagle's algorithm,
/// which would delay small messages until others are acknowledged.
fn bind(addresses: [IpAddr; 2], log: Option<EventLog>) -> Result<Endpoint, Failure> {
    let association = AssociationConfig::default().with(|c| c.transmission.nagle = false);
    let mut config = Config::udp(addresses).encapsulation_port(0);
    config.event_log = log;
    let endpoint = Endpoint::bind(config.association(association));
    endpoint.map_err(|error| Failure::Run(error.to_string()))
}

/// Sets up the association, follows the schedule and reports the result.
async fn demonstrate(
    (a, b): (&Endpoint, &Endpoint),
    addresses: [NetworkAddresses; 2],
    networks: &EmulatedNetworks,
    reporter: &mut Reporter,
) -> Result<(), Failure> {
    let (near, far) = until_signal(async {
        let options = ConnectOptions::new().encapsulation_port(networks.port_of_b());
        let peer = (addresses.map(|network| network.b), b.port());
        let near = a.connect_with(peer, options).await;
        let near = near.map_err(|e| Failure::Run(format!("A cannot connect to B: {e}")))?;
        let far = b.accept().await;
        let far = far.ok_or_else(|| Failure::Run("endpoint B has closed".into()))?;
        Ok((near, far.accept()))
    })
    .await?;
    let near = DemoEndpoint::new(EndpointName::A, near, addresses.map(|network| network.b));
    let far = DemoEndpoint::new(EndpointName::B, far, addresses.map(|network| network.a));
    far.set_primary(1).await?;
    reporter.start(addresses)?;
    let start = Instant::now();
    let demo = Demo {
        start,
        networks,
        a: near,
        b: far,
        next_change: 0,
        last_change: start,
        cuts: Vec::new(),
    };
    demo.run(reporter).await
}

/// One of the two endpoints, with the messages that it sends.
struct DemoEndpoint {
    name: EndpointName,
    association: Association,
    events: Option<Events>,
    /// Addresses of the peer in the two networks.
    peers: [IpAddr; 2],
    sent: MessageStream,
    /// Bytes sent on the two paths at the last samples.
    samples: VecDeque<(Instant, [u64; 2])>,
}

impl DemoEndpoint {
    fn new(name: EndpointName, mut association: Association, peers: [IpAddr; 2]) -> Self {
        Self {
            name,
            events: association.take_events(),
            association,
            peers,
            sent: MessageStream::default(),
            samples: VecDeque::with_capacity(SAMPLES_PER_SECOND + 1),
        }
    }

    /// Makes the path through a network the primary path.
    async fn set_primary(&self, network: usize) -> Result<(), Failure> {
        let failed = |e| Failure::Run(format!("cannot set the primary path: {e}"));
        let paths = self.association.control().paths().await.map_err(failed)?;
        let path = paths.iter().find(|p| p.remote == self.peers[network]);
        match path {
            Some(path) => self
                .association
                .control()
                .set_primary(path.id)
                .await
                .map_err(failed),
            None => Err(Failure::Run(format!(
                "the peer has not advertised {}",
                self.peers[network]
            ))),
        }
    }

    /// Returns the network of a path.
    fn network(&self, path: PathId) -> Option<usize> {
        let address = self
            .association
            .control()
            .peer_addresses()
            .get(usize::from(path.0))?;
        self.peers.iter().position(|peer| peer == address)
    }

    /// Sends the messages that are due.
    fn send(&mut self, start: Instant, now: Instant) -> Result<(), Failure> {
        while start + INTERVAL * self.sent.counts().sent as u32 <= now
            && let Some(message) = self.sent.next_message()
        {
            match self.association.try_send(message, SendOptions::default()) {
                Ok(()) => self.sent.record_sent(now),
                // Sent later.
                Err(TrySendError::Full(_)) => break,
                Err(error) => {
                    let name = self.name;
                    return Err(Failure::Run(format!("{name:?} cannot send: {error}")));
                }
            }
        }
        Ok(())
    }

    /// Returns the state of the paths; `None` after the end of the association.
    async fn sample(&mut self) -> Option<[Option<PathSample>; 2]> {
        let stats = self.association.control().stats().await.ok()?;
        let paths = self.association.control().paths().await.ok()?;
        let now = Instant::now();
        let of_network = self
            .peers
            .map(|peer| paths.iter().find(|path| path.remote == peer));
        let bytes = of_network.map(|path| path.map_or(0, |path| path.bytes_sent));
        let (since, before) = *self.samples.front().unwrap_or(&(now, bytes));
        if self.samples.len() == SAMPLES_PER_SECOND {
            self.samples.pop_front();
        }
        self.samples.push_back((now, bytes));
        let elapsed = now.duration_since(since).as_secs_f64();
        let rate = |network: usize| {
            let bits = bytes[network].saturating_sub(before[network]) as f64 * 8.0;
            if elapsed > 0.0 { bits / elapsed } else { 0.0 }
        };
        Some([0, 1].map(|network| {
            of_network[network].map(|path| path_sample(path, &stats, rate(network)))
        }))
    }
}

/// Waits for the next notification; forever after the last one.
async fn next_event(events: &mut Option<Events>) -> Notification {
    if let Some(receiver) = events {
        if let Some(notification) = receiver.next().await {
            return notification;
        }
        // The association has ended, which receiving reports.
        *events = None;
    }
    pending().await
}

fn path_sample(path: &PathStats, stats: &AssociationStats, bits_per_second: f64) -> PathSample {
    PathSample {
        state: path.status.into(),
        carries_new_data: stats.current == Some(path.id),
        bits_per_second,
        srtt: path.srtt.map(seconds),
    }
}

/// A cut of a network.
struct NetworkCut {
    network: usize,
    start: Instant,
    end: Option<Instant>,
}

/// The running demonstration.
struct Demo<'a> {
    start: Instant,
    networks: &'a EmulatedNetworks,
    a: DemoEndpoint,
    b: DemoEndpoint,
    /// Index of the next change in [`CHANGES`].
    next_change: usize,
    /// Time of the last change; at first that of the start.
    last_change: Instant,
    cuts: Vec<NetworkCut>,
}

/// Next input of the demonstration.
enum DemoStep {
    NetworkChange,
    Send,
    Sample,
    /// An endpoint received a message, or its association has ended.
    Received(EndpointName, Result<Option<Message>, RecvError>),
    Notified(EndpointName, Notification),
    TimeLimit,
    Signal(Signal),
}

impl Demo<'_> {
    async fn run(mut self, reporter: &mut Reporter) -> Result<(), Failure> {
        let ended = self.follow(reporter).await;
        let outcome = match &ended {
            Ok(None) => DemoOutcome::Complete,
            Ok(Some(_)) => DemoOutcome::Interrupted,
            // Nothing can be written.
            Err(Failure::OutputClosed) => return ended.map(drop),
            Err(_) => DemoOutcome::Incomplete,
        };
        let now = Instant::now();
        let program = std::env::args().next();
        let program = program.unwrap_or_else(|| "carrick".into());
        reporter.summary(self.time(now), &self.summary(outcome, now), &program)?;
        match ended? {
            None => Ok(()),
            Some(signal) => {
                for endpoint in [&self.a, &self.b] {
                    endpoint.association.abort(b"the program was ended");
                }
                Err(Failure::Run(format!("interrupted by {signal}")))
            }
        }
    }

    /// Returns the time since the start in seconds.
    fn time(&self, now: Instant) -> f64 {
        seconds(now.duration_since(self.start))
    }

    /// Carries out the changes until all messages were received. Returns the signal that ends it before.
    async fn follow(&mut self, reporter: &mut Reporter) -> Result<Option<Signal>, Failure> {
        let mut sending = interval(INTERVAL);
        let mut sampling = interval(SAMPLE_INTERVAL);
        let mut samples = 0;
        let limit = self.start + INTERVAL * MESSAGES as u32 + RECEIVE_LIMIT;
        loop {
            let is_changing = self.next_change < CHANGES.len();
            if !is_changing && self.a.sent.is_received() && self.b.sent.is_received() {
                break;
            }
            let is_sent = self.a.sent.is_sent() && self.b.sent.is_sent();
            let change = self.last_change + CHANGE_INTERVAL;
            let step = tokio::select! {
                () = sleep_until(change), if is_changing => DemoStep::NetworkChange,
                _ = sending.tick(), if !is_sent => DemoStep::Send,
                _ = sampling.tick() => DemoStep::Sample,
                received = self.a.association.recv() => DemoStep::Received(EndpointName::A, received),
                received = self.b.association.recv() => DemoStep::Received(EndpointName::B, received),
                event = next_event(&mut self.a.events) => DemoStep::Notified(EndpointName::A, event),
                event = next_event(&mut self.b.events) => DemoStep::Notified(EndpointName::B, event),
                () = sleep_until(limit) => DemoStep::TimeLimit,
                signal = signal_received() => DemoStep::Signal(signal),
            };
            let now = Instant::now();
            match step {
                DemoStep::NetworkChange => self.change_network(now, reporter)?,
                DemoStep::Send => {
                    self.a.send(self.start, now)?;
                    self.b.send(self.start, now)?;
                }
                DemoStep::Sample => {
                    let is_full_second = samples % SAMPLES_PER_SECOND == 0;
                    samples += 1;
                    self.sample(reporter, is_full_second).await?;
                }
                DemoStep::Received(by, received) => self.receive(now, by, received)?,
                DemoStep::Notified(by, Notification::Event(event)) => {
                    self.report(now, by, &event, reporter)?;
                }
                DemoStep::Notified(_, Notification::Lagged(_)) => {}
                DemoStep::TimeLimit => {
                    return Err(Failure::Run(format!(
                        "not all messages were received within {} s after the last one was sent",
                        RECEIVE_LIMIT.as_secs()
                    )));
                }
                DemoStep::Signal(signal) => return Ok(Some(signal)),
            }
        }
        let counts = [self.a.sent.counts(), self.b.sent.counts()];
        if counts.iter().any(|c| c.repeated + c.out_of_order > 0) {
            return Err(Failure::Run(
                "messages were received twice or out of order".into(),
            ));
        }
        Ok(None)
    }

    /// Carries out the next one of [`CHANGES`].
    fn change_network(&mut self, now: Instant, reporter: &mut Reporter) -> Result<(), Failure> {
        let Some(&(network, is_cut)) = CHANGES.get(self.next_change) else {
            return Ok(());
        };
        self.next_change += 1;
        self.last_change = now;
        self.networks.set_cut(network, is_cut);
        if is_cut {
            self.cuts.push(NetworkCut {
                network,
                start: now,
                end: None,
            });
        } else if let Some(cut) = self.cuts.last_mut() {
            cut.end = Some(now);
        }
        reporter.network(self.time(now), network, NetworkState::new(is_cut))
    }

    /// Records what an endpoint received.
    fn receive(
        &mut self,
        now: Instant,
        by: EndpointName,
        received: Result<Option<Message>, RecvError>,
    ) -> Result<(), Failure> {
        let ended = |why: &str| Failure::Run(format!("the association ended at {by:?}: {why}"));
        let sent = match by {
            EndpointName::A => &mut self.b.sent,
            EndpointName::B => &mut self.a.sent,
        };
        match received {
            Ok(Some(message)) => sent
                .record_received(now, message.payload)
                .then_some(())
                .ok_or_else(|| {
                    Failure::Run(format!("{by:?} received a message that was not sent"))
                }),
            Ok(None) => Err(ended("it was shut down")),
            Err(error) => Err(ended(&error.to_string())),
        }
    }

    /// Reports a decision of an endpoint.
    fn report(
        &self,
        now: Instant,
        by: EndpointName,
        event: &Event,
        reporter: &mut Reporter,
    ) -> Result<(), Failure> {
        let endpoint = match by {
            EndpointName::A => &self.a,
            EndpointName::B => &self.b,
        };
        let Some((decision, path)) = PathDecision::of(event) else {
            return Ok(());
        };
        let network = path.and_then(|path| endpoint.network(path));
        reporter.decision(self.time(now), by, decision, network)
    }

    async fn sample(
        &mut self,
        reporter: &mut Reporter,
        is_full_second: bool,
    ) -> Result<(), Failure> {
        // After the end of an association, receiving reports it.
        let (Some(a), Some(b)) = (self.a.sample().await, self.b.sample().await) else {
            return Ok(());
        };
        let now = Instant::now();
        let sample = DemoSample {
            paths: [0, 1].map(|index| NetworkSample {
                path: index + 1,
                network: NetworkState::new(self.networks.is_cut(index)),
                a: a[index],
                b: b[index],
            }),
            a_to_b: direction(&self.a.sent, now),
            b_to_a: direction(&self.b.sent, now),
        };
        reporter.sample(self.time(now), &sample, is_full_second)
    }

    fn summary(&self, outcome: DemoOutcome, now: Instant) -> DemoSummary {
        let cuts = self.cuts.iter().enumerate().map(|(index, cut)| {
            let from = cut.start - BEFORE_CUT;
            let until = self.cuts.get(index + 1).map(|next| next.start - BEFORE_CUT);
            let delay = |sent: &MessageStream| sent.longest_delay(from, until, now).map(seconds);
            CutSummary {
                path: cut.network + 1,
                start: self.time(cut.start),
                end: cut.end.map(|end| self.time(end)),
                packets_discarded: self.networks.discarded(cut.network),
                longest_delay: DirectionDelays {
                    a_to_b: delay(&self.a.sent),
                    b_to_a: delay(&self.b.sent),
                },
            }
        });
        DemoSummary {
            outcome,
            a_to_b: direction(&self.a.sent, now),
            b_to_a: direction(&self.b.sent, now),
            cuts: cuts.collect(),
        }
    }
}

fn direction(sent: &MessageStream, now: Instant) -> DirectionSample {
    DirectionSample {
        counts: sent.counts(),
        longest_silence: seconds(sent.longest_silence(now)),
    }
}
