//! Single simulations: transfers, a failure in mid-transfer, handovers.

use std::time::Duration;

use carrick_netsim::mobile::{MobileNode, MobilityEvent};
use carrick_netsim::{Change, Direction, Loss, Network, Random};
use carrick_proto::{Endpoint, EndpointConfig, Time};

use super::figures::FAILURE_END;
use super::network::{Built, Layout, build};
use super::setup::{
    BREAK, CORRESPONDENT, GAP, HOME, LOCAL, LONG, MESSAGE, MESSAGES, OVERLAP, PORT, SHORT, STEADY,
    Stack, addresses,
};
use super::traffic::{Load, Sink, Source, silence};
use crate::capture::Capture;
use crate::sctp_host::{SctpHost, core_time};
use crate::seed::{derive, derive_bytes};

type Mobile = SctpHost<Sink>;

/// A transfer is given up after this time; at 5 % loss it takes about three minutes.
pub(super) const PATIENCE: Duration = Duration::from_secs(1200);

/// Where the mobile node can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Configuration {
    /// At the Mobile IP address.
    One,
    /// Retransmissions at the local address of the visited network.
    Two,
    /// At two addresses in two networks, from two addresses.
    Three,
}

/// How the mobile node gets from one network to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Mobile IP alone: it registers in the second network.
    Reregistration,
    /// It is in both, and the first fails in silence.
    Failover,
    /// Without agents: it gets an address in the second network after it has left the first.
    BreakBeforeMake,
    /// Without agents: it gets it before it leaves.
    MakeBeforeBreak,
}

/// One simulation in numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Measures {
    /// Mbit/s of user data, from the first SEND to the last delivery.
    pub(super) throughput: f64,
    /// Share of the messages that were delivered.
    pub(super) delivered: f64,
    /// When the sender gave the association up, in s after the failure.
    pub(super) lost_after: Option<f64>,
    /// The longest time without a delivery, in ms.
    pub(super) interruption: f64,
    /// Its parts for a handover: without coverage, until the network knows the new place, and until
    /// data flow again; in ms.
    pub(super) parts: [f64; 3],
    /// Expirations of T3-rtx.
    pub(super) timeouts: u64,
    /// TCP: how often nothing was delivered for [`super::tcp::PAUSE`] or longer, and for how many
    /// seconds together.
    pub(super) pauses: (u64, f64),
    /// Deliveries in a figure: seconds after the event, number of the message.
    pub(super) progress: Vec<(f64, f64)>,
}

struct Plan {
    layout: Layout,
    load: Load,
    stack: Stack,
    /// Addresses of the two ends.
    ends: [Vec<std::net::Ipv4Addr>; 2],
    seed: u64,
}

impl Plan {
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
            // Messages wait in the stack; none is refused.
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

/// Runs until everything is delivered, the association ends, or patience does.
fn finish(built: &mut Built, plan: &Plan, capture: Capture<'_>) -> Result<(), String> {
    capture.begin(&mut built.net)?;
    let end = carrick_netsim::Time::ZERO + PATIENCE;
    let wanted = plan.load.messages();
    while built.net.now() < end {
        let slice = Duration::from_secs(1);
        built.net.run_until(built.net.now() + slice);
        let (source, sink) = (source(built), sink(built, plan.layout.mobile_ip));
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

fn measure(built: &Built, plan: &Plan) -> Measures {
    let (source, sink) = (source(built), sink(built, plan.layout.mobile_ip));
    let begin = source.begin.unwrap_or(Time::ZERO);
    let last = sink.deliveries.last().copied().unwrap_or(begin);
    let bits = sink.deliveries.len() * MESSAGE * 8;
    let seconds = (last - begin).as_secs_f64().max(f64::MIN_POSITIVE);
    Measures {
        throughput: bits as f64 / 1e6 / seconds,
        delivered: sink.deliveries.len() as f64 / plan.load.messages() as f64,
        timeouts: source.timeouts,
        ..Measures::default()
    }
}

/// A transfer of so many messages with random loss in the tunnel.
pub(super) fn transfer(
    configuration: Configuration,
    stack: Stack,
    (loss, messages): (f64, u64),
    seed: u64,
    capture: Capture<'_>,
) -> Result<Measures, String> {
    let load = Load::Transfer(messages);
    let plan = plan(configuration, stack, loss, load, seed);
    let mut built = plan.build(capture)?;
    finish(&mut built, &plan, capture)?;
    let measures = measure(&built, &plan);
    if measures.delivered < 1.0 {
        return Err(format!(
            "{configuration:?} at {loss}: {} of the messages were delivered",
            measures.delivered
        ));
    }
    Ok(measures)
}

/// The network of a configuration.
pub(super) fn layout(configuration: Configuration, loss: f64) -> Layout {
    let third = configuration == Configuration::Three;
    Layout {
        loss,
        mobile_ip: true,
        local: [configuration == Configuration::Two, third],
        second: third,
        direct: if third { LONG } else { SHORT },
    }
}

/// The addresses of correspondent and mobile node.
pub(super) fn ends(configuration: Configuration) -> [Vec<std::net::Ipv4Addr>; 2] {
    match configuration {
        Configuration::One => [vec![CORRESPONDENT[0]], vec![HOME]],
        Configuration::Two => [vec![CORRESPONDENT[0]], vec![HOME, LOCAL[0]]],
        Configuration::Three => [CORRESPONDENT.to_vec(), vec![HOME, LOCAL[1]]],
    }
}

fn plan(configuration: Configuration, stack: Stack, loss: f64, load: Load, seed: u64) -> Plan {
    let ends = ends(configuration);
    Plan {
        layout: layout(configuration, loss),
        load,
        stack,
        ends,
        seed,
    }
}

/// When the first network fails or is left, in the simulator's time: spread over a second.
fn moment(seed: u64) -> carrick_netsim::Time {
    let mut random = Random::new(seed, 5);
    carrick_netsim::Time::ZERO + BREAK + random.duration_up_to(Duration::from_secs(1))
}

/// The tunnel to the first network loses everything.
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

/// Deliveries around an event, thinned for a figure.
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

/// A transfer in configuration 3 whose primary path fails in silence.
pub(super) fn failure(
    stack: Stack,
    seed: u64,
    show: bool,
    capture: Capture<'_>,
) -> Result<Measures, String> {
    failure_at(stack, moment(seed), (MESSAGES, show), seed, capture)
}

/// The same at a moment of one's own, with so many messages.
pub(super) fn failure_at(
    stack: Stack,
    at: carrick_netsim::Time,
    (messages, show): (u64, bool),
    seed: u64,
    capture: Capture<'_>,
) -> Result<Measures, String> {
    let load = Load::Transfer(messages);
    let plan = plan(Configuration::Three, stack, 0.0, load, seed);
    let mut built = plan.build(capture)?;
    break_tunnel(&mut built, at)?;
    finish(&mut built, &plan, capture)?;
    let mut measures = measure(&built, &plan);
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

/// A steady flow during a handover.
pub(super) fn handover(
    kind: Move,
    stack: Stack,
    seed: u64,
    show: bool,
    capture: Capture<'_>,
) -> Result<Measures, String> {
    let (layout, ends) = before(kind);
    let plan = Plan {
        layout,
        load: Load::Steady,
        stack,
        ends,
        seed,
    };
    let mut built = plan.build(capture)?;
    let at = moment(seed);
    for (after, change) in changes(&built, kind) {
        schedule(&mut built.net, at + after, change)?;
    }
    finish(&mut built, &plan, capture)?;
    let mut measures = measure(&built, &plan);
    if measures.delivered < 1.0 {
        let share = measures.delivered;
        return Err(format!("{kind:?}: {share} of the messages were delivered"));
    }
    let event = core_time(at);
    let sink = sink(&built, plan.layout.mobile_ip);
    let deliveries = &sink.deliveries;
    let last = deliveries.last().copied().unwrap_or(event);
    // It may begin a little before, with a packet that was on its way.
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

/// The network before a node moves so, and the addresses of the two ends.
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
                direct: LONG,
            };
            return (layout, [vec![CORRESPONDENT[0]], vec![LOCAL[0]]]);
        }
    };
    (layout(configuration, 0.0), ends(configuration))
}

/// What changes when a node moves so, and how long after the event.
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

/// When the mobile node was registered for the first time after the event.
fn registered(built: &Built, event: Time) -> Option<Time> {
    let events = built.net.node::<MobileNode<Mobile>>(built.mobile).events();
    let is = |e: &MobilityEvent| matches!(e, MobilityEvent::Registered { .. });
    let mut times = events
        .iter()
        .filter(|(_, e)| is(e))
        .map(|(t, _)| core_time(*t));
    times.find(|time| *time > event)
}

/// The interruption taken apart.
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
    // The first part is counted from the last delivery, the way of packets in flight included.
    let covered = (event + gap).max(began).min(end);
    let known = found.unwrap_or(covered).clamp(covered, end);
    let ms = |from: Time, to: Time| super::setup::millis(to - from);
    [ms(began, covered), ms(covered, known), ms(known, end)]
}
