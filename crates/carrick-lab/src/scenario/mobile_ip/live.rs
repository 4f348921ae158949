//! The scenario in real time. Agents, tunnels, routers and the mobile node's own Mobile IP are the
//! simulator's programs; the transports of correspondent and mobile node are real.

use std::time::Duration;

use carrick_netsim::{Change, ConfigError, Network, NodeId, Port};
use carrick_proto::Time;

use super::network::build;
use super::rows::{PUBLISHED_ONE, PUBLISHED_TCP, PUBLISHED_TWO, percent};
use super::run::{self, Configuration, Measures, Move, breaking, ends, layout};
use super::setup::{
    GAP, LOSSES, MESSAGE, PAPER_WINDOW, PATH_MTU, PORT, SETTLING, START, STEADY_INTERVAL,
    STEADY_MESSAGE, Stack, addresses, millis,
};
use super::traffic::silence;
use super::{MobileIp, tcp};
use crate::capture::Capture;
use crate::error::LabError;
use crate::live::{
    self, Bulk, Drain, Messages, Outcome, Program, Record, Sink, Source, Watch, shortfalls,
};
use crate::parallel;
use crate::result::{LiveResult, LiveRow, Setting};
use crate::scenario::{RunOptions, Scenario};
use crate::seed::derive;

/// Messages of a transfer: a quarter of the paper's 12 MB.
const MESSAGES: u64 = 3_000_000 / MESSAGE as u64;
/// Which of the losses run in configuration 1 and over TCP, and which in configuration 2.
const ONE: [usize; 3] = [0, 1, 3];
const TWO: [usize; 2] = [1, 3];
/// Stacks whose primary path fails, and stacks that move.
const FAILING: [Stack; 2] = [Stack::Paper, Stack::Best];
const MOVING: [Stack; 2] = [Stack::Standard, Stack::Best];
/// When something happens to the first network, after the beginning of the flow, and later by up to a
/// second.
const EVENT: Duration = Duration::from_secs(8);
/// The simulated flow begins about so long after its simulation: registration, set-up, verification.
const BEGIN: Duration = START
    .saturating_add(SETTLING)
    .saturating_add(Duration::from_millis(300));
/// How long the steady flow lasts.
const STEADY: Duration = Duration::from_secs(20);
/// A failover whose timeouts double up to a minute takes the longest.
const EXPECTED: Duration = Duration::from_secs(140);
/// Repetitions of a short run, and of a full one.
const REPETITIONS: (u64, u64) = (3, 10);
/// Congestion controls of the kernel.
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// What UDP takes of a packet.
const UDP_HEADER: usize = 8;
/// What IP and TCP take of one.
const TCP_HEADERS: usize = 40;

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// In a configuration, with this loss, in UDP or not.
    Transfer(Configuration, usize, bool),
    /// Over the kernel's TCP in configuration 1.
    Tcp(usize, &'static str),
    /// In configuration 3, whose primary path fails.
    Failure(Stack, bool),
    /// A steady flow to a node that registers somewhere else.
    Move(Stack, bool),
}

/// All kinds, in the order of the rows.
fn kinds() -> Vec<Kind> {
    const WAYS: [bool; 2] = [true, false];
    let mut kinds = Vec::new();
    for loss in ONE {
        kinds.extend(WAYS.map(|udp| Kind::Transfer(Configuration::One, loss, udp)));
    }
    for loss in TWO {
        kinds.extend(WAYS.map(|udp| Kind::Transfer(Configuration::Two, loss, udp)));
    }
    for loss in ONE {
        kinds.extend(KERNEL.map(|name| Kind::Tcp(loss, name)));
    }
    for stack in FAILING {
        kinds.extend(WAYS.map(|udp| Kind::Failure(stack, udp)));
    }
    for stack in MOVING {
        kinds.extend(WAYS.map(|udp| Kind::Move(stack, udp)));
    }
    kinds
}

impl Kind {
    fn configuration(self) -> Configuration {
        match self {
            Self::Transfer(configuration, ..) => configuration,
            Self::Tcp(..) | Self::Move(..) => Configuration::One,
            Self::Failure(..) => Configuration::Three,
        }
    }

    fn loss(self) -> f64 {
        match self {
            Self::Transfer(_, loss, _) | Self::Tcp(loss, _) => LOSSES[loss],
            Self::Failure(..) | Self::Move(..) => 0.0,
        }
    }

    /// First part of the names of its rows, as in the table of the simulations.
    fn id(self) -> String {
        let loss = percent(self.loss());
        match self {
            Self::Transfer(Configuration::One, ..) => format!("config1.{loss}"),
            Self::Transfer(..) => format!("config2.{loss}"),
            Self::Tcp(..) => format!("tcp.{loss}"),
            Self::Failure(stack, _) => format!("config3.{}", stack.id()),
            Self::Move(stack, _) => format!("{}.re-registration", stack.id()),
        }
    }

    /// Last part of the names of its rows.
    fn suffix(self) -> &'static str {
        match self {
            Self::Tcp(_, name) => name,
            Self::Transfer(_, _, udp) | Self::Failure(_, udp) | Self::Move(_, udp) => {
                if udp {
                    "udp"
                } else {
                    "raw"
                }
            }
        }
    }

    fn label(self) -> String {
        let loss = percent(self.loss());
        let way = if self.suffix() == "udp" {
            "in UDP"
        } else {
            "on IP"
        };
        match self {
            Self::Transfer(Configuration::One, ..) => {
                format!("configuration 1 {way}, {loss} % loss")
            }
            Self::Transfer(..) => format!("configuration 2 {way}, {loss} % loss"),
            Self::Tcp(_, name) => {
                format!("kernel’s TCP ({name}) in configuration 1, {loss} % loss")
            }
            Self::Failure(stack, _) => format!("configuration 3 {way}, {}", stack.label()),
            Self::Move(stack, _) => {
                format!("Mobile IP re-registration {way}, {}", stack.label())
            }
        }
    }

    fn stack(self) -> live::Stack {
        let stack = match self {
            Self::Tcp(_, congestion) => {
                return live::Stack::Tcp {
                    congestion,
                    port: PORT,
                    segment: Some((PATH_MTU - TCP_HEADERS) as u16),
                    window: Some(PAPER_WINDOW),
                };
            }
            Self::Transfer(..) => Stack::Paper,
            Self::Failure(stack, _) | Self::Move(stack, _) => stack,
        };
        let mut config = stack.config();
        if let Self::Move(..) = self {
            // Messages wait in the stack; none is refused.
            config.send_buffer = 1 << 28;
            config.max_send_buffer = None;
            config.send_buffer_messages = usize::MAX;
        }
        live::Stack::Sctp {
            encapsulated: self.suffix() == "udp",
            port: PORT,
            config: Box::new(config),
        }
    }

    /// Bytes of a message: what fits a packet.
    fn message(self) -> usize {
        MESSAGE
            - if self.suffix() == "udp" {
                UDP_HEADER
            } else {
                0
            }
    }

    fn programs(self) -> [Box<dyn Program>; 2] {
        if let Self::Move(..) = self {
            let messages = Messages {
                count: (STEADY.as_nanos() / STEADY_INTERVAL.as_nanos()) as u64,
                size: STEADY_MESSAGE,
                interval: STEADY_INTERVAL,
            };
            let sink = Sink::new(messages);
            return [Box::new(Source::new(messages)), Box::new(sink)];
        }
        let size = self.message();
        let sink = Drain::new(MESSAGES * size as u64);
        [Box::new(Bulk::messages(MESSAGES, size)), Box::new(sink)]
    }

    /// The network, and what happens to it so long after the beginning.
    fn world(self, event: Duration, seed: u64) -> Result<live::World, ConfigError> {
        let layout = layout(self.configuration(), self.loss());
        let correspondent = Box::new(Port::default());
        let built = build(layout, seed, correspondent, Port::default())?;
        let [first, second] = built.radio;
        let changes = match self {
            Self::Transfer(..) | Self::Tcp(..) => Vec::new(),
            Self::Failure(..) => breaking(&built).map(|change| (event, change)).into(),
            Self::Move(..) => vec![
                (event, Change::LinkDown(first)),
                (event + GAP, Change::LinkUp(second)),
            ],
        };
        Ok(live::World {
            hosts: vec![[built.correspondent, built.mobile]],
            network: built.net,
            changes,
        })
    }

    /// Measures a run: Mbit/s of a transfer, or ms of silence.
    fn measure(self, record: &Record, event: Duration) -> Result<f64, String> {
        let other = "another program ran";
        let moment = record.begin + event;
        let silent = |deliveries: &[Time]| {
            let last = deliveries.last().copied().unwrap_or(moment);
            millis(silence(deliveries, moment, last).0)
        };
        if let Self::Move(..) = self {
            let sink: &Sink = record.program(1).ok_or(other)?;
            let deliveries: Vec<Time> = sink.deliveries.iter().map(|(_, time)| *time).collect();
            return Ok(silent(&deliveries));
        }
        let sink: &Drain = record.program(1).ok_or(other)?;
        if let Self::Failure(..) = self {
            let deliveries: Vec<Time> = sink.taken.iter().map(|(time, _)| *time).collect();
            return Ok(silent(&deliveries));
        }
        let last = sink.taken.last().map(|(time, _)| *time);
        let last = last.filter(|last| *last > record.begin);
        let took = last.ok_or("nothing was delivered")? - record.begin;
        Ok(sink.bytes as f64 * 8.0 / 1e6 / took.as_secs_f64())
    }

    /// The same simulated.
    fn simulate(self, event: Duration, seed: u64) -> Result<f64, String> {
        let throughput = |measures: Measures| measures.throughput;
        let interruption = |measures: Measures| measures.interruption;
        match self {
            Self::Transfer(configuration, _, _) => {
                let of = (self.loss(), MESSAGES);
                run::transfer(configuration, Stack::Paper, of, seed, Capture::NONE).map(throughput)
            }
            Self::Tcp(..) => {
                let bytes = MESSAGES * MESSAGE as u64;
                tcp::transfer(self.loss(), bytes, seed, Capture::NONE).map(throughput)
            }
            Self::Failure(stack, _) => {
                let at = carrick_netsim::Time::ZERO + BEGIN + event;
                run::failure_at(stack, at, (MESSAGES, false), seed, Capture::NONE).map(interruption)
            }
            Self::Move(stack, _) => {
                run::handover(Move::Reregistration, stack, seed, false, Capture::NONE)
                    .map(interruption)
            }
        }
    }

    fn row(self, pairs: &[(f64, f64)]) -> LiveRow {
        let (live, simulated): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let (what, text, unit, published) = match self {
            Self::Transfer(Configuration::One, loss, _) => (
                "throughput",
                "throughput",
                "Mbit/s",
                Some(PUBLISHED_ONE[loss]),
            ),
            Self::Transfer(_, loss, _) => {
                ("throughput", "throughput", "Mbit/s", PUBLISHED_TWO[loss])
            }
            Self::Tcp(loss, _) => (
                "throughput",
                "throughput",
                "Mbit/s",
                Some(PUBLISHED_TCP[loss]),
            ),
            Self::Failure(..) => ("silence", "longest silence", "ms", None),
            Self::Move(..) => ("interruption", "interruption", "ms", None),
        };
        let id = format!("{}.{what}.{}", self.id(), self.suffix());
        let label = format!("{}: {text}", self.label());
        let row = LiveRow::new(&id, &label, unit, &simulated, &live);
        row.published(published).because(self.why())
    }

    /// Why a live value may differ from the simulated one.
    fn why(self) -> &'static str {
        match self {
            Self::Transfer(..) => {
                "The numbers of the lost packets are the same, but which chunk each carries depends on the timing of both hosts; a \
                 transfer of 3 MB loses few."
            }
            Self::Tcp(_, "bbr") => {
                "BBR paces by the rate that it measures, which a loss does not lower; beside it stands the simulated Reno."
            }
            Self::Tcp(..) => {
                "The kernel has SACK, RACK, tail loss probes and a first window of 10 segments; the simulated TCP is smoltcp’s, \
                 which has none of them."
            }
            Self::Failure(..) | Self::Move(..) => {
                "It is the timeouts and the way after them: which message is in flight at the event depends on the timing of both \
                 hosts, and the endpoint’s timers count milliseconds."
            }
        }
    }
}

/// Configuration 2 with 1 % loss, for programs from outside: correspondent and mobile node.
pub(super) fn plain_network(seed: u64) -> Result<(Network, Vec<NodeId>), ConfigError> {
    let layout = layout(Configuration::Two, LOSSES[1]);
    let built = build(layout, seed, Box::new(Port::default()), Port::default())?;
    Ok((built.net, vec![built.correspondent, built.mobile]))
}

/// When something happens in a repetition, after the beginning of the flow.
fn moment(seed: u64) -> Duration {
    let mut random = carrick_netsim::Random::new(seed, 6);
    EVENT + random.duration_up_to(Duration::from_secs(1))
}

/// The seed of a repetition: the simulated repetition of this number has the same.
fn seed(options: &RunOptions, repetition: u64) -> u64 {
    derive(options.seed, &[repetition])
}

pub(super) fn plan(scenario: MobileIp, options: &RunOptions) -> live::Plan {
    let repetitions = options.live_repetitions(REPETITIONS.0, REPETITIONS.1);
    let kinds = kinds();
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let seed = seed(options, repetition);
        for kind in &kinds {
            let kind = *kind;
            let network = derive(seed, &[0]);
            let ends = ends(kind.configuration()).map(|end| addresses(&end));
            runs.push(live::Run {
                name: format!("{}.{}.{repetition}", kind.id(), kind.suffix()),
                world: Box::new(move || kind.world(moment(seed), network)),
                flows: vec![live::Flow {
                    addresses: Some(ends),
                    ..live::Flow::new(kind.stack(), 0, kind.programs())
                }],
                watch: Watch::Lengths,
                expected: EXPECTED,
                limit: EXPECTED * 3,
            });
        }
    }
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    let options = *options;
    live::Plan {
        // One repetition after the other.
        at_once: kinds.len(),
        runs,
        conclude: Box::new(move |outcomes| {
            conclude(scenario, &options, repetitions, &names, &outcomes)
        }),
    }
}

fn conclude(
    scenario: MobileIp,
    options: &RunOptions,
    repetitions: u64,
    names: &[String],
    outcomes: &[Outcome],
) -> Result<LiveResult, LabError> {
    let kinds = kinds();
    let twins = parallel::run(repetitions as usize * kinds.len(), |job| {
        let seed = seed(options, (job / kinds.len()) as u64);
        kinds[job % kinds.len()].simulate(moment(seed), seed)
    });
    let twins: Vec<f64> = twins
        .into_iter()
        .collect::<Result<_, String>>()
        .map_err(|what| LabError::Simulation {
            scenario: scenario.name().into(),
            what,
        })?;
    let mut notes = shortfalls(names, outcomes);
    let mut pairs: Vec<Vec<(f64, f64)>> = vec![Vec::new(); kinds.len()];
    for (number, (outcome, twin)) in outcomes.iter().zip(twins).enumerate() {
        let (repetition, kind) = (number / kinds.len(), number % kinds.len());
        let event = moment(seed(options, repetition as u64));
        match outcome
            .record()
            .map(|record| kinds[kind].measure(record, event))
        {
            None => {}
            Some(Ok(live)) => pairs[kind].push((live, twin)),
            Some(Err(what)) => notes.push(format!("The run {} went wrong: {what}.", names[number])),
        }
    }
    notes.push(
        "Home agent, foreign agents and routers are the simulator’s programs in real time, and so is the Mobile IP of the mobile \
         node: its namespace has the Mobile IP address and is handed what comes out of the tunnel. Real are the transports, their \
         sockets and clocks. Not run in real time: the collapse with the old SACK rule, which takes minutes, and handovers by \
         ASCONF."
            .into(),
    );
    let rows = kinds.iter().zip(&pairs);
    Ok(LiveResult {
        rows: rows.map(|(kind, pairs)| kind.row(pairs)).collect(),
        accuracy: None,
        notes,
        settings: settings(repetitions),
    })
}

fn settings(repetitions: u64) -> Vec<Setting> {
    vec![
        Setting::new(
            "live runs",
            format!(
                "{repetitions} repetitions, each cell in a network of its own, all cells of a repetition at the same time; \
                 transfers of {MESSAGES} messages (3 MB) live and simulated; failures and moves about {} s after the beginning",
                EVENT.as_secs()
            ),
        ),
        Setting::new(
            "live SCTP",
            "crate carrick with the settings of the simulated hosts, in UDP (RFC 6951, 8 bytes less in a message) and on plain IP",
        ),
        Setting::new(
            "live TCP",
            format!(
                "the kernel’s with its own defaults, segments that fit the tunnel, windows limited by the route to {PAPER_WINDOW} bytes; \
                 beside it the simulated Reno"
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use carrick_netsim::mobile::MobileNode;

    use super::*;

    #[test]
    fn agents_are_simulated_and_the_mobile_node_keeps_its_mobile_ip() {
        let options = RunOptions {
            reps: Some(2),
            ..RunOptions::default()
        };
        let plan = plan(MobileIp, &options);
        let count = plan.runs.len() / 2;
        assert_eq!(count, 6 + 4 + 9 + 4 + 4);
        let mut names: Vec<String> = plan.runs.iter().map(|run| run.name.clone()).collect();
        assert_eq!(names[0], "config1.0.udp.0");
        assert_eq!(names[count], "config1.0.udp.1");
        for run in plan.runs {
            let mut world = (run.world)().expect("the network is right");
            let [correspondent, mobile] = world.hosts[0];
            assert!(world.network.runs::<Port>(correspondent), "{}", run.name);
            assert!(world.network.runs::<MobileNode<Port>>(mobile));
            // It registers without a transport.
            world.network.run_until(carrick_netsim::Time::from_secs(2));
            let node: &MobileNode<Port> = world.network.node(mobile);
            assert!(node.registered().is_some(), "{}", run.name);
            let ends = run.flows[0].addresses.as_ref().expect("they are chosen");
            for (host, addresses) in world.hosts[0].iter().zip(ends) {
                let owned = |address| {
                    let owner = world.network.owner(address);
                    owner.is_some_and(|owner| world.network.node_of(owner) == *host)
                };
                assert!(addresses.iter().all(|address| owned(*address)));
            }
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * count);
    }

    #[test]
    fn each_row_has_a_name_of_its_own_and_what_was_published() {
        let rows: Vec<LiveRow> = kinds().iter().map(|kind| kind.row(&[])).collect();
        let mut ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids[2], "config1.1.throughput.udp");
        assert_eq!(rows[2].published, Some(1.225));
        assert!(ids.contains(&"config3.best.silence.raw"));
        assert!(ids.contains(&"standard.re-registration.interruption.udp"));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rows.len());
    }
}
