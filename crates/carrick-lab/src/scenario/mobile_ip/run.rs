//! Single simulations: transfers, a failure during a transfer, handovers.

use std::time::Duration;

use carrick_netsim::mobile::{MobileNode, MobilityEvent};
use carrick_netsim::{Change, Direction, Loss, Network, Random};
use carrick_proto::{Endpoint, EndpointConfig, Time};

use super::figures::FAILURE_END;
use super::network::{Built, Layout, build};
use super::setup::{
    ALTERNATIVE_DELAY, BREAK, CORRESPONDENT, DELAY, GAP, HOME, LOCAL, LONG, MESSAGE, MESSAGES,
    MIDDLE, OVERLAP, PORT, SHORT, STEADY, Stack, addresses,
};
use super::traffic::{Load, Sink, Source, silence};
use crate::capture::Capture;
use crate::sctp_host::{SctpHost, core_time};
use crate::seed::{derive, derive_bytes};

type Mobile = SctpHost<Sink>;

/// Time limit of a transfer; at 5 % loss it takes about three minutes.
pub(super) const PATIENCE: Duration = Duration::from_secs(1200);

/// Addresses of the mobile node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Configuration {
    /// The home address.
    One,
    /// The home address, and the local address of the visited network for retransmissions.
    Two,
    /// Two addresses in two networks, for both ends.
    Three,
}

/// Movement of the mobile node from one network to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Mobile IP only: the node registers in the second network.
    Reregistration,
    /// The node is in both networks, and the first fails silently.
    Failover,
    /// Without agents: the node gets an address in the second network after it has left the first.
    BreakBeforeMake,
    /// Without agents: the node gets the address before it leaves the first network.
    MakeBeforeBreak,
}

/// Results of one simulation.
#[derive(Clone, Debug, Default)]
pub(super) struct Measures {
    /// User data in Mbit/s, from the first SEND to the last delivery.
    pub(super) throughput: f64,
    /// Delivered proportion of the messages.
    pub(super) delivered: f64,
    /// Time from the failure until the sender abandoned the association, in s.
    pub(super) lost_after: Option<f64>,
    /// Longest time without a delivery, in ms.
    pub(super) interruption: f64,
    /// Parts of the interruption of a handover in ms: without coverage, until the network knows the
    /// new location, and until data flows again.
    pub(super) parts: [f64; 3],
    /// Expirations of T3-rtx.
    pub(super) timeouts: u64,
    /// For TCP: number of pauses without a delivery of at least [`super::tcp::PAUSE`], and their
    /// sum in seconds.
    pub(super) pauses: (u64, f64),
    /// Deliveries for a figure: seconds after the event, number of the message.
    pub(super) progress: Vec<(f64, f64)>,
}

struct SimulationSetup {
    layout: Layout,
    load: Load,
    stack: Stack,
    /// Addresses of the two ends.
    ends: [Vec<std::net::Ipv4Addr>; 2],
    seed: u64,
}

impl SimulationSetup {
    fn build(&self, capture: Capture<'_>) -> Result<Built, String> {
        let endpoint = |number: usize| {
            let seed = derive_bytes(self.seed, &[1, number as u64]);
            let mut own = EndpointConfig::new(PORT, addresses(&self.ends[number]), seed);
            own.association = self.stack.config();
            Endpoint::new(own).map_err(|error| error.to_string())
        };
        let mut config = self.stack.config();
        config.research.trace = true;
        if self.load == Load::Steady {
            // Messages are queued in the stack; none is refused.
            config.buffers.send_buffer = 1 << 28;
            config.buffers.max_send_buffer = None;
            config.buffers.send_buffer_messages = usize::MAX;
        }
        let peer = std::net::IpAddr::V4(self.ends[1][0]);
        let source = Source::new(self.load, peer, self.ends[1].len(), config);
        let source = SctpHost::new(endpoint(0)?, source);
        let source =
            Box::new(capture.watch(self.load.name(), ["correspondent", "mobile-node"], source));
        let sink = SctpHost::new(endpoint(1)?, Sink::default());
        build(self.layout, derive(self.seed, &[0]), source, sink).map_err(|e| e.to_string())
    }
}

fn sink(built: &Built, mobile_ip: bool) -> &Sink {
    if mobile_ip {
        let node = built.net.node::<MobileNode<Mobile>>(built.mobile);
        node.program().application()
    } else {
        built.net.node::<Mobile>(built.mobile).application()
    }
}

fn source(built: &Built) -> &Source {
    let host = built.net.node::<SctpHost<Source>>(built.correspondent);
    host.application()
}

/// Runs until all messages are delivered, the association ends, or the time limit.
fn finish(built: &mut Built, setup: &SimulationSetup, capture: Capture<'_>) -> Result<(), String> {
    capture.begin(&mut built.net)?;
    let end = carrick_netsim::Time::ZERO + PATIENCE;
    let wanted = setup.load.messages();
    while built.net.now() < end {
        let slice = Duration::from_secs(1);
        built.net.run_until(built.net.now() + slice);
        let (source, sink) = (source(built), sink(built, setup.layout.mobile_ip));
        if let Some(failure) = source.failure.as_ref().or(sink.failure.as_ref()) {
            return Err(failure.clone());
        }
        let done = sink.deliveries.len() as u64 >= wanted;
        if done || source.closed.is_some() || sink.closed.is_some() {
            break;
        }
    }
    capture.end(&mut built.net)
}

fn measure(built: &Built, setup: &SimulationSetup) -> Measures {
    let (source, sink) = (source(built), sink(built, setup.layout.mobile_ip));
    let begin = source.begin.unwrap_or(Time::ZERO);
    let last = sink.deliveries.last().copied().unwrap_or(begin);
    let bits = sink.deliveries.len() * MESSAGE * 8;
    let seconds = (last - begin).as_secs_f64().max(f64::MIN_POSITIVE);
    Measures {
        throughput: bits as f64 / 1e6 / seconds,
        delivered: sink.deliveries.len() as f64 / setup.load.messages() as f64,
        timeouts: source.timeouts,
        ..Measures::default()
    }
}

/// Runs a transfer with random loss in the tunnel.
pub(super) fn transfer(
    configuration: Configuration,
    stack: Stack,
    (loss, messages): (f64, u64),
    seed: u64,
    capture: Capture<'_>,
) -> Result<Measures, String> {
    let load = Load::Transfer(messages);
    let setup = setup(configuration, stack, loss, load, seed);
    let mut built = setup.build(capture)?;
    finish(&mut built, &setup, capture)?;
    let measures = measure(&built, &setup);
    if measures.delivered < 1.0 {
        return Err(format!(
            "{configuration:?} at {loss}: {} of the messages were delivered",
            measures.delivered
        ));
    }
    Ok(measures)
}

/// Returns the network of a configuration. In the alternative to the paper's settings the round trip is
/// shorter, and the way back of configuration 2 is that of configuration 1.
pub(super) fn layout(configuration: Configuration, stack: Stack, loss: f64) -> Layout {
    let third = configuration == Configuration::Three;
    let alternative = stack == Stack::Alternative;
    Layout {
        loss,
        mobile_ip: true,
        local: [configuration == Configuration::Two, third],
        second: third,
        over_home: if alternative {
            ALTERNATIVE_DELAY
        } else {
            DELAY
        },
        direct: match configuration {
            _ if alternative => SHORT,
            Configuration::Three => LONG,
            _ => MIDDLE,
        },
        triangle: configuration == Configuration::Two && !alternative,
    }
}

/// Returns the addresses of correspondent and mobile node.
pub(super) fn ends(configuration: Configuration) -> [Vec<std::net::Ipv4Addr>; 2] {
    match configuration {
        Configuration::One => [vec![CORRESPONDENT[0]], vec![HOME]],
        Configuration::Two => [vec![CORRESPONDENT[0]], vec![HOME, LOCAL[0]]],
        Configuration::Three => [CORRESPONDENT.to_vec(), vec![HOME, LOCAL[1]]],
    }
}

fn setup(
    configuration: Configuration,
    stack: Stack,
    loss: f64,
    load: Load,
    seed: u64,
) -> SimulationSetup {
    let ends = ends(configuration);
    SimulationSetup {
        layout: layout(configuration, stack, loss),
        load,
        stack,
        ends,
        seed,
    }
}

/// Returns the simulation time at which the first network fails or is left: spread over a second.
fn moment(seed: u64) -> carrick_netsim::Time {
    let mut random = Random::new(seed, 5);
    carrick_netsim::Time::ZERO + BREAK + random.duration_up_to(Duration::from_secs(1))
}

/// Returns the changes after which the tunnel to the first network loses all packets.
pub(super) fn breaking(built: &Built) -> [Change; 2] {
    [Direction::Forward, Direction::Backward].map(|direction| Change::SetLoss {
        link: built.tunnel,
        direction,
        loss: Loss::Random(1.0),
    })
}

fn break_tunnel(built: &mut Built, at: carrick_netsim::Time) -> Result<(), String> {
    for change in breaking(built) {
        schedule(&mut built.net, at, change)?;
    }
    Ok(())
}

fn schedule(net: &mut Network, at: carrick_netsim::Time, change: Change) -> Result<(), String> {
    net.at(at, change).map_err(|error| error.to_string())
}

/// Returns the deliveries around an event, reduced for a figure.
fn progress(
    deliveries: &[Time],
    event: Time,
    before: Duration,
    after: Duration,
) -> Vec<(f64, f64)> {
    let from = event.as_nanos().saturating_sub(before.as_nanos() as u64);
    let to = event + after;
    let shown = |(_, time): &(usize, &Time)| time.as_nanos() >= from && **time <= to;
    let seconds = |time: &Time| time.as_nanos() as f64 / 1e9 - event.as_nanos() as f64 / 1e9;
    let all = deliveries.iter().enumerate().filter(shown);
    let first = deliveries.iter().take_while(|time| **time <= event).count();
    all.map(|(number, time)| (seconds(time), number as f64 - first as f64))
        .collect()
}

/// Runs a transfer in configuration 3 with a silent failure of the primary path.
pub(super) fn failure(
    stack: Stack,
    seed: u64,
    show: bool,
    capture: Capture<'_>,
) -> Result<Measures, String> {
    failure_at(stack, moment(seed), (MESSAGES, show), seed, capture)
}

/// Runs the transfer of [`failure`] with the failure at `moment` and this number of messages.
pub(super) fn failure_at(
    stack: Stack,
    at: carrick_netsim::Time,
    (messages, show): (u64, bool),
    seed: u64,
    capture: Capture<'_>,
) -> Result<Measures, String> {
    let load = Load::Transfer(messages);
    let setup = setup(Configuration::Three, stack, 0.0, load, seed);
    let mut built = setup.build(capture)?;
    break_tunnel(&mut built, at)?;
    finish(&mut built, &setup, capture)?;
    let mut measures = measure(&built, &setup);
    let event = core_time(at);
    let end = core_time(built.net.now());
    let deliveries = &sink(&built, true).deliveries;
    let last = deliveries.last().copied().unwrap_or(event);
    let until = if measures.delivered < 1.0 { end } else { last };
    measures.interruption = super::setup::millis(silence(deliveries, event, until).0);
    let closed = &source(&built).closed;
    measures.lost_after = closed
        .as_ref()
        .map(|(time, _)| (*time - event).as_secs_f64());
    if show {
        let (before, after) = (Duration::from_secs(5), Duration::from_secs_f64(FAILURE_END));
        measures.progress = progress(deliveries, event, before, after);
    }
    Ok(measures)
}

/// Runs a steady flow during a handover.
pub(super) fn handover(
    kind: Move,
    stack: Stack,
    seed: u64,
    show: bool,
    capture: Capture<'_>,
) -> Result<Measures, String> {
    let (layout, ends) = before(kind);
    let setup = SimulationSetup {
        layout,
        load: Load::Steady,
        stack,
        ends,
        seed,
    };
    let mut built = setup.build(capture)?;
    let at = moment(seed);
    for (after, change) in changes(&built, kind) {
        schedule(&mut built.net, at + after, change)?;
    }
    finish(&mut built, &setup, capture)?;
    let mut measures = measure(&built, &setup);
    if measures.delivered < 1.0 {
        let share = measures.delivered;
        return Err(format!("{kind:?}: {share} of the messages were delivered"));
    }
    let event = core_time(at);
    let sink = sink(&built, setup.layout.mobile_ip);
    let deliveries = &sink.deliveries;
    let last = deliveries.last().copied().unwrap_or(event);
    // The gap may begin slightly before the event, with a packet in flight.
    let (longest, began) = silence(deliveries, event, last.min(event + STEADY));
    measures.interruption = super::setup::millis(longest);
    let found = match kind {
        Move::Reregistration => registered(&built, event),
        Move::Failover => None,
        _ => sink.known.first().copied(),
    };
    measures.parts = parts(kind, event, found, (began, longest));
    if show {
        let (before, after) = (Duration::from_secs(1), Duration::from_secs(5));
        measures.progress = progress(deliveries, event, before, after);
    }
    Ok(measures)
}

/// Returns the network before a movement, and the addresses of the two ends.
pub(super) fn before(kind: Move) -> (Layout, [Vec<std::net::Ipv4Addr>; 2]) {
    let configuration = match kind {
        Move::Reregistration => Configuration::One,
        Move::Failover => Configuration::Three,
        Move::BreakBeforeMake | Move::MakeBeforeBreak => {
            let layout = Layout {
                loss: 0.0,
                mobile_ip: false,
                local: [true, false],
                second: false,
                over_home: DELAY,
                direct: LONG,
                triangle: false,
            };
            return (layout, [vec![CORRESPONDENT[0]], vec![LOCAL[0]]]);
        }
    };
    (
        layout(configuration, Stack::Standard, 0.0),
        ends(configuration),
    )
}

/// Returns the changes of a movement, with their times after the event.
pub(super) fn changes(built: &Built, kind: Move) -> Vec<(Duration, Change)> {
    const NOW: Duration = Duration::ZERO;
    let [first, second] = built.radio;
    let address = |number: usize| std::net::IpAddr::V4(LOCAL[number]);
    let [interface, other] = built.interfaces;
    let leave = Change::RemoveAddress {
        interface,
        address: address(0),
    };
    let arrive = Change::AddAddress {
        interface: other,
        address: address(1),
    };
    match kind {
        Move::Failover => breaking(built).map(|change| (NOW, change)).into(),
        Move::Reregistration => vec![
            (NOW, Change::LinkDown(first)),
            (GAP, Change::LinkUp(second)),
        ],
        Move::BreakBeforeMake => vec![
            (NOW, Change::LinkDown(first)),
            (NOW, leave),
            (GAP, Change::LinkUp(second)),
            (GAP, arrive),
        ],
        Move::MakeBeforeBreak => vec![
            (NOW, Change::LinkUp(second)),
            (NOW, arrive),
            (OVERLAP, Change::LinkDown(first)),
            (OVERLAP, leave),
        ],
    }
}

/// Returns the time of the first registration after the event.
fn registered(built: &Built, event: Time) -> Option<Time> {
    let events = built.net.node::<MobileNode<Mobile>>(built.mobile).events();
    let is = |e: &MobilityEvent| matches!(e, MobilityEvent::Registered { .. });
    let mut times = events
        .iter()
        .filter(|(_, e)| is(e))
        .map(|(t, _)| core_time(*t));
    times.find(|time| *time > event)
}

/// Splits the interruption into its parts.
fn parts(
    kind: Move,
    event: Time,
    found: Option<Time>,
    (began, longest): (Time, Duration),
) -> [f64; 3] {
    let gap = match kind {
        Move::Reregistration | Move::BreakBeforeMake => GAP,
        Move::Failover | Move::MakeBeforeBreak => Duration::ZERO,
    };
    let end = began + longest;
    // The first part is counted from the last delivery, including the delay of packets in flight.
    let covered = (event + gap).max(began).min(end);
    let known = found.unwrap_or(covered).clamp(covered, end);
    let ms = |from: Time, to: Time| super::setup::millis(to - from);
    [ms(began, covered), ms(covered, known), ms(known, end)]
}
