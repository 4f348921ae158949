//! Files in real time: their networks for other programs, and live runs of their flows.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::ConfigError;
use carrick_proto::Time;

use super::ScenarioFile;
use super::build::{self, Repetition};
use super::error::FileError;
use super::measure::{FlowMeasure, FlowRecord, Measure, Transmission, Window};
use super::model::{ChangeAction, Flow, Layer, Model, NodeStack, Pattern, ReceiverSpeed};
use super::program::{FlowSink, FlowSource, LoadAgent, Sender};
use super::reader::{Item, keys};
use super::run::{self, Extras, RunFailure, columns};
use super::sweep;
use crate::error::LabError;
use crate::live::{
    self, Below, BuildWorld, Connection, ExternalFlow, MultipathTcp, PacketData, PacketRecording,
    Program, RunRecord, Stack,
};
use crate::options::RunOptions;
use carrick_hosts::tcp::{Segment, TcpConfig, TcpCongestion};

/// Expected duration of a transfer with an end.
const TRANSFER: Duration = Duration::from_secs(140);
/// Length of the UDP header.
const UDP_HEADER: usize = 8;
/// Time for the last messages of a flow without an end, which are on their way when the run ends.
const LAST_MESSAGES: Duration = Duration::from_secs(1);
/// Time for the set-up of the association and for the last messages.
const SET_UP: Duration = Duration::from_secs(4);

/// Congestion control algorithms of the kernel's TCP.
const CONGESTION_CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];

/// Key `live` of a file: which cells have live runs.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveCells {
    /// Patterns of the names of the cells.
    pub(super) cells: Vec<String>,
    /// The cells have no simulation: the values are those of the live runs.
    pub(super) alone: bool,
    /// Time after the end of its schedule in which a flow without a simulation may resume.
    pub(super) patience: Duration,
    /// Repetitions of a short and of a full run.
    pub(super) repetitions: [u64; 2],
    /// Notes on all live runs.
    pub(super) notes: Vec<String>,
    /// Number of runs at a time.
    pub(super) at_once: usize,
    /// Cell whose network other programs get by default.
    pub(super) usual: Option<String>,
    /// Reason why a live value may differ from a simulated one, over SCTP and over TCP.
    pub(super) because: String,
    pub(super) because_tcp: String,
    /// Largest number of messages of a flow with an end, live and in its simulation.
    pub(super) messages: Option<u64>,
    /// Duration of a run with a flow without an end, live and in its simulation.
    pub(super) duration: Option<Duration>,
    /// Warm-up of the runs, live and in their simulations.
    pub(super) warmup: Option<Duration>,
    /// Congestion control algorithms of the kernel's TCP.
    pub(super) tcp: Vec<&'static str>,
    /// Names of flows over SCTP in whose place further runs have the kernel's TCP.
    pub(super) tcp_flows: Vec<String>,
}

impl LiveCells {
    pub(super) fn read(item: &Item<'_>) -> Result<Self, FileError> {
        let known = CONGESTION_CONTROLS.map(|name| (name, name));
        let tcp = |item: &Item<'_>| item.each(|item| item.choice(&known));
        item.table(|section| {
            let mut own = Self {
                repetitions: [1; 2],
                at_once: 1,
                patience: SET_UP,
                tcp: vec!["cubic"],
                ..Self::default()
            };
            keys!(section, own, Item::read; cells, alone, patience, notes, because, because_tcp, tcp_flows);
            keys!(section, own, super::repetitions; repetitions);
            keys!(section, own, |item| item.whole(1..=200); at_once);
            keys!(section, own, tcp; tcp);
            own.usual = section.value("usual", Item::read)?;
            own.messages = section.value("messages", |item| item.whole(1..=i64::MAX as u64))?;
            own.duration = section.value("duration", super::length)?;
            own.warmup = section.value("warmup", Item::read)?;
            Ok(own)
        })
    }
}

/// Stack of a live run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Carrier {
    Udp,
    PlainIp,
    Dtls,
    /// TCP of the kernel with this congestion control.
    Kernel(&'static str),
    /// Multipath TCP of the kernel.
    Multipath(MultipathTcp),
    Quic,
    /// Another stack, by the name of its program.
    Program(&'static str),
}

impl Carrier {
    /// Returns the stacks that hosts of live runs may have instead of a simulated one.
    pub(super) fn without_simulation(multipath: MultipathTcp) -> impl Iterator<Item = Self> {
        let kernel = CONGESTION_CONTROLS.map(Self::Kernel).into_iter();
        let programs = ["linux-sctp", "usrsctp"].map(Self::Program);
        let others = [Self::Multipath(multipath), Self::Quic];
        kernel.chain(others).chain(programs)
    }

    /// Returns whether messages are parts of a stream of bytes.
    fn is_stream(self) -> bool {
        matches!(self, Self::Kernel(_) | Self::Multipath(_))
    }

    /// Returns the last part of the names of runs and rows.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::PlainIp => "raw",
            Self::Dtls => "dtls",
            Self::Kernel(congestion) => congestion,
            Self::Multipath(_) => "mptcp",
            Self::Quic => "quic",
            Self::Program(name) => name,
        }
    }

    pub(super) fn label(self) -> String {
        match self {
            Self::Udp => "in UDP".into(),
            Self::PlainIp => "on IP".into(),
            Self::Dtls => "over DTLS".into(),
            Self::Kernel(congestion) => format!("TCP of the kernel ({congestion})"),
            Self::Multipath(_) => "Multipath TCP of the kernel".into(),
            Self::Quic => "QUIC".into(),
            Self::Program(name) => name.into(),
        }
    }
}

/// A cell over one of its stacks.
#[derive(Clone, Debug)]
pub(super) struct LiveCell {
    pub(super) cell: usize,
    /// Indices of the flows that run on real stacks.
    pub(super) flows: Vec<usize>,
    pub(super) carrier: Carrier,
}

impl LiveCell {
    /// Returns the stack of a flow: another than that of the cell, if its hosts have one without a simulation.
    fn carrier_of(&self, model: &Model, flow: &Flow) -> Carrier {
        let own = model.nodes[flow.ends[0]].kind.real_time_only();
        own.unwrap_or(self.carrier)
    }
}

impl ScenarioFile {
    /// Returns the network of a cell, without the programs of its flows over SCTP and TCP, for other
    /// programs; its changes have the times of the file.
    ///
    /// # Errors
    /// [`LabError::Choice`] if there is no such cell; without a name it is that of the key `live.usual`, or
    /// the first.
    pub fn world(&self, cell: Option<&str>, seed: u64) -> Result<BuildWorld, LabError> {
        let number = match cell.or(self.head.live.usual.as_deref()) {
            Some(name) => self.find_cell(name)?,
            None => 0,
        };
        let model = self.cells[number].1.clone();
        let repetition = Repetition {
            seed,
            number: 0,
            count: 1,
        };
        Ok(Box::new(move || {
            let flows: Vec<usize> = (0..model.flows.len()).collect();
            world_of(&model, repetition, &flows, Duration::ZERO)
        }))
    }

    /// Returns the cells with live runs, over each of their stacks.
    ///
    /// # Errors
    /// What a live run has no program for.
    pub(super) fn live_cells(&self) -> Result<Vec<LiveCell>, &'static str> {
        let live = &self.head.live;
        let mut all = Vec::new();
        for (cell, own) in self.cells().enumerate() {
            let is_own = |name: &String| sweep::matches(name, own.name());
            if !(live.alone || live.cells.iter().any(is_own)) {
                continue;
            }
            let model = &self.cells[cell].1;
            let flows = self.live_flows(model)?;
            let first = &model.flows[flows[0]];
            let kind = &model.nodes[first.ends[0]].kind;
            let mut carriers = match (kind, kind.real_time_only()) {
                (NodeStack::Tcp(_), _) => Vec::new(),
                (_, Some(carrier)) => vec![carrier],
                _ if live.alone => vec![Carrier::PlainIp],
                _ => vec![Carrier::Udp, Carrier::PlainIp],
            };
            let beside = |flow: &usize| live.tcp_flows.contains(&model.flows[*flow].name);
            if carriers.is_empty() || flows.iter().any(beside) {
                carriers.extend(live.tcp.iter().map(|name| Carrier::Kernel(name)));
            }
            all.extend(carriers.into_iter().map(|carrier| LiveCell {
                cell,
                flows: flows.clone(),
                carrier,
            }));
        }
        if all.is_empty() {
            return Err("its scenario names no cells for them (live.cells).");
        }
        Ok(all)
    }

    /// Returns the flows of a cell that run on real stacks.
    fn live_flows(&self, model: &Model) -> Result<Vec<usize>, &'static str> {
        let is_real =
            |flow: &Flow| flow.active && !matches!(model.nodes[flow.ends[0]].kind, NodeStack::Udp);
        let flows: Vec<usize> = (0..model.flows.len())
            .filter(|number| is_real(&model.flows[*number]))
            .collect();
        let Some(first) = flows.first() else {
            return Err("a live run has a flow over SCTP or TCP.");
        };
        if flows.iter().any(|n| model.flows[*n].layer != Layer::Sctp) {
            return Err("M3UA and M2PA run in virtual time only.");
        }
        let mut hosts: Vec<usize> = flows.iter().flat_map(|n| model.flows[*n].ends).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let same = |n: &usize| model.flows[*n].is_bulk();
        if flows.len() > 1 && !(hosts.len() == 2 * flows.len() && flows.iter().all(same)) {
            return Err(
                "several flows of a live run are bulk flows, each between its own two hosts.",
            );
        }
        let flow = &model.flows[*first];
        if flow.reader == ReceiverSpeed::Never {
            return Err("the receiver of a live run reads.");
        }
        match flow.pattern {
            Pattern::Constant { burst: 1, .. } if flow.response.is_none() => {
                if messages(flow).is_none() {
                    return Err("the flow of a live run ends: give it messages or stop.");
                }
            }
            Pattern::Bulk if flow.response.is_some() => {
                return Err("a bulk flow of a live run has no responses.");
            }
            Pattern::Bulk if flow.messages.is_some() && flows.len() == 1 => {}
            Pattern::Bulk if flow.messages.is_some() => {
                return Err("several bulk flows of a live run have no end.");
            }
            Pattern::Bulk | Pattern::Simco(_) => {
                let live = &self.head.live;
                let longest = live.duration.unwrap_or(model.duration);
                if longest <= live.warmup.unwrap_or(model.warmup) {
                    return Err("live.duration is not longer than the warm-up.");
                }
            }
            _ => {
                return Err(
                    "a live run has messages at a constant rate without responses, a bulk flow, or SIMCO.",
                );
            }
        }
        Ok(flows)
    }

    /// Returns the model of a live run and of its simulation, which are shorter than the other runs, and use
    /// the same congestion control over TCP as far as the simulator has it.
    fn live_model(&self, of: &LiveCell) -> Model {
        let live = &self.head.live;
        let mut model = self.cells[of.cell].1.clone();
        model.warmup = live.warmup.unwrap_or(model.warmup);
        let flow = &mut model.flows[of.flows[0]];
        if flow.is_bulk() && flow.messages.is_some() && of.carrier == Carrier::Udp {
            // Packets are as long as on plain IP.
            flow.size = flow.size.saturating_sub(UDP_HEADER).max(8);
        }
        match flow.messages {
            Some(count) => flow.messages = Some(count.min(live.messages.unwrap_or(count))),
            None => model.duration = live.duration.unwrap_or(model.duration),
        }
        if of.carrier == Carrier::Kernel("cubic") {
            for node in &mut model.nodes {
                if let NodeStack::Tcp(own) = &mut node.kind {
                    own.congestion = TcpCongestion::Cubic;
                }
            }
        }
        model
    }

    /// Returns the values of the simulation that corresponds to a live run.
    pub(super) fn live_simulation(
        &self,
        of: &LiveCell,
        repetition: Repetition,
    ) -> Result<Vec<Option<f64>>, String> {
        let run = run::run(&self.live_model(of), repetition, Extras::default());
        run.map(|run| run.values).map_err(|failure| {
            let (RunFailure::Simulation(what) | RunFailure::Capture(what)) = failure;
            format!("cell {}: {what}", self.cells[of.cell].0.name())
        })
    }

    /// Returns a live run; `name` is that of the run.
    ///
    /// # Errors
    /// If a program cannot be built.
    pub(super) fn live_run(
        &self,
        of: &LiveCell,
        repetition: Repetition,
        name: String,
    ) -> Result<live::LiveRun, &'static str> {
        let model = self.live_model(of);
        let flow = &model.flows[of.flows[0]];
        let (length, watch) = match (messages(flow), flow.messages) {
            _ if flow.is_simco() => (model.duration, PacketRecording::Data),
            (Some((_, length)), _) => (length, PacketRecording::Data),
            (None, Some(_)) => (TRANSFER, PacketRecording::Lengths),
            (None, None) if flow.reader == ReceiverSpeed::Fast => {
                (model.duration + LAST_MESSAGES, PacketRecording::Lengths)
            }
            (None, None) => (model.duration + LAST_MESSAGES, PacketRecording::Data),
        };
        let seed = repetition.own_seed();
        let may_be_lost = (self.head.live.alone || !model.schedule.is_empty())
            && model.measures.contains(&Measure::Flow(FlowMeasure::Lost));
        let connection = |number: &usize| {
            let flow = &model.flows[*number];
            let carrier = of.carrier_of(&model, flow);
            Ok(Connection {
                stack: self.stack(&model, flow, carrier),
                client: usize::from(flow.setup_by_receiver),
                programs: programs(&model, *number, carrier, seed, length)?,
                addresses: addresses(&model, flow),
                roams: roams(&model, flow),
                may_be_lost,
            })
        };
        let flows: Result<Vec<Connection>, &'static str> =
            of.flows.iter().map(connection).collect();
        let (flows, start, numbers) = (flows?, begin(flow), of.flows.clone());
        Ok(live::LiveRun {
            name,
            flows,
            world: Box::new(move || world_of(&model, repetition, &numbers, start)),
            watch,
            expected: length + SET_UP,
            // Beside a simulation, a slow flow is one as well.
            limit: if self.head.live.alone {
                length + self.head.live.patience
            } else {
                length * 4 + SET_UP * 3
            },
            capture: None,
        })
    }

    /// Returns the values of a live run in the order of the columns; those of other flows and of links have
    /// none.
    pub(super) fn live_values(
        &self,
        of: &LiveCell,
        repetition: Repetition,
        record: &RunRecord,
    ) -> Result<Vec<Option<f64>>, String> {
        let model = &self.live_model(of);
        let flow = &model.flows[of.flows[0]];
        let lasting = flow.is_bulk() && flow.messages.is_none();
        // Times of the file, which may begin before the clock of the run.
        let at = |time: u64| {
            let from_begin = time.saturating_sub(self::begin(flow).as_nanos() as u64);
            record.begin.as_nanos() + from_begin
        };
        let moment = |time: Option<carrick_netsim::Time>| time.map(|time| at(time.as_nanos()));
        let from = at(model.warmup.as_nanos() as u64);
        let end = at(model.duration.as_nanos() as u64);
        let all: Vec<FlowRecord> = if flow.is_simco() {
            let agent: &LoadAgent = record.program(0).ok_or("another program ran")?;
            let transactions =
                agent.transactions(record.program(1).ok_or("another program ran")?)?;
            match transactions.failures() {
                0 => vec![FlowRecord {
                    transactions: Some(Box::new(transactions)),
                    ..of_association(record)
                }],
                failed => return Err(format!("{failed} transactions failed")),
            }
        } else if flow.is_bulk() {
            let own = of.flows.iter().enumerate().map(|(place, number)| {
                let flow = &model.flows[*number];
                bulk(record, place, [from, end], flow.messages)
            });
            let own: Option<Vec<FlowRecord>> = own.collect();
            own.ok_or("other programs ran")?
        } else {
            vec![numbered(record, flow, of.carrier).ok_or("other programs ran")?]
        };
        let to = if lasting {
            Some(end)
        } else {
            let last = all[0].deliveries.iter().map(|(_, time)| *time).max();
            all[0].lost.max(last)
        };
        let window = Window {
            from,
            to: to.unwrap_or(from),
            change: moment(build::first_change(model, repetition, |_| true)),
            up: moment(build::first_change(model, repetition, ChangeAction::is_up)),
            pause: model.pause.as_nanos() as u64,
        };
        let value = |(own, measure): &(Option<usize>, Measure)| match (own, measure) {
            (Some(own), Measure::Flow(what)) => {
                let place = of.flows.iter().position(|number| number == own)?;
                let flow = &model.flows[*own];
                let size = size(model, flow, of.carrier_of(model, flow));
                all[place].measure(*what, size, !lasting, &window)
            }
            _ => None,
        };
        Ok(columns(model).iter().map(value).collect())
    }

    /// Returns the number of live repetitions of each cell.
    pub(super) fn live_repetitions(&self, options: &RunOptions) -> u64 {
        let [short, full] = self.head.live.repetitions;
        options.live_repetitions(short, full)
    }

    /// Returns the stack of a flow in a live run: SCTP with the settings of the sender, or the kernel's TCP with
    /// the segments, window and send buffer of the simulated hosts if these have TCP.
    fn stack(&self, model: &Model, flow: &Flow, carrier: Carrier) -> Stack {
        /// Length of the time stamps in the kernel's segments.
        const TIME_STAMPS: usize = 12;
        /// Length of the TCP header without options.
        const TCP: usize = 20;
        let [from, to] = flow.ends.map(|end| &model.nodes[end]);
        let port = build::port(model, flow.ends[0]);
        let is_kernel = matches!(carrier, Carrier::Kernel(_));
        let unlimited = |congestion, multipath| Stack::Tcp {
            congestion,
            port,
            segment: None,
            window: None,
            send_buffer: None,
            multipath,
        };
        let is_replaced = self.head.live.tcp_flows.contains(&flow.name);
        match (&from.kind, carrier) {
            (NodeStack::Live(_), Carrier::Kernel(congestion)) => unlimited(congestion, None),
            (NodeStack::Live(_), Carrier::Multipath(own)) => unlimited("cubic", Some(own)),
            (NodeStack::Live(_), Carrier::Quic) => Stack::Quic {
                port,
                streams: flow.streams,
            },
            (NodeStack::Live(_), Carrier::Program(program)) => {
                let (count, interval) = paced(flow).unwrap_or_default();
                Stack::Program(ExternalFlow {
                    program,
                    arguments: from.arguments.clone(),
                    port,
                    size: flow.size,
                    interval,
                    count,
                    streams: flow.streams,
                })
            }
            (NodeStack::Dtls(config), _) => Stack::Sctp {
                below: Below::Dtls,
                port,
                config: config.clone(),
            },
            // Beside a flow that the kernel's TCP carries, the other flows stay on SCTP.
            (NodeStack::Sctp(config), _) if !is_kernel || !is_replaced => Stack::Sctp {
                below: match carrier {
                    Carrier::Udp => Below::Udp,
                    _ => Below::Ip,
                },
                port,
                config: config.clone(),
            },
            (kind, Carrier::Kernel(congestion)) => {
                let [sender, receiver] = [kind, &to.kind].map(|kind| match kind {
                    NodeStack::Tcp(own) => Some(own),
                    _ => None,
                });
                let address = from.addresses.first();
                let headers = address.map_or(0, |(_, own)| ip_header(*own) + TCP);
                let segment = |own: &TcpConfig| own.mtu.saturating_sub(headers) + TIME_STAMPS;
                Stack::Tcp {
                    congestion,
                    port,
                    segment: sender.and_then(|own| u16::try_from(segment(own)).ok()),
                    window: receiver.map(|own| own.receive_buffer),
                    send_buffer: sender.map(|own| own.send_buffer),
                    multipath: None,
                }
            }
            _ => unreachable!("the flow of a live run is one over SCTP or TCP"),
        }
    }
}

/// Returns the programs of a flow in a live run of this length, over a stack.
fn programs(
    model: &Model,
    number: usize,
    carrier: Carrier,
    seed: u64,
    length: Duration,
) -> Result<[Box<dyn Program>; 2], &'static str> {
    let flow = &model.flows[number];
    let carried =
        |end| build::carried(model, number, end, seed).map_err(|_| "its programs are invalid.");
    if let (Some(agent), Some(middlebox)) = (carried(0)?, carried(1)?) {
        return Ok([agent, middlebox]);
    }
    let count = messages(flow).map(|(count, _)| count).or(flow.messages);
    let lasting = count.is_none().then_some(length);
    let delay = lasting.map(|_| flow.settle + build::setup_delays(model, seed)[number]);
    let flow = Flow {
        size: size(model, flow, carrier),
        messages: count,
        blocking: true,
        start: Duration::ZERO,
        settle: delay.unwrap_or_default(),
        stop: None,
        ..flow.clone()
    };
    let random = || build::random(seed, number);
    let is_stream = carrier.is_stream();
    let source = FlowSource::new(Sender::new(number, &flow, random())).live(lasting);
    let sink = FlowSink::new(number, &flow, is_stream, random());
    Ok([Box::new(source), Box::new(sink)])
}

/// Returns the size of the messages of a bulk flow in a live run. Messages that fill a packet on IP are
/// shorter in UDP by its header, so that they fill one there, too.
fn size(model: &Model, flow: &Flow, carrier: Carrier) -> usize {
    /// Headers of SCTP and DATA.
    const SCTP: usize = 12 + 16;
    let sender = &model.nodes[flow.ends[0]];
    let has_end = flow.messages.or(messages(flow).map(|(count, _)| count));
    let (NodeStack::Sctp(config), Carrier::Udp, None) = (&sender.kind, carrier, has_end) else {
        return flow.size;
    };
    let ip = sender
        .addresses
        .first()
        .map_or(40, |(_, own)| ip_header(*own));
    let whole = ip + SCTP + flow.size.next_multiple_of(4);
    if whole <= config.mtu.path_mtu && whole + UDP_HEADER > config.mtu.path_mtu {
        flow.size - UDP_HEADER
    } else {
        flow.size
    }
}

/// Length of the IP header.
fn ip_header(address: IpAddr) -> usize {
    if address.is_ipv4() { 20 } else { 40 }
}

/// Returns the number of messages of a flow at a constant rate with an end, and the time from the first to the last.
fn messages(flow: &Flow) -> Option<(u64, Duration)> {
    let (count, interval) = paced(flow)?;
    let steps = u32::try_from(count.checked_sub(1)?).unwrap_or(u32::MAX);
    Some((count, interval * steps))
}

/// Returns the number of messages of a flow at a constant rate with an end, and their interval.
fn paced(flow: &Flow) -> Option<(u64, Duration)> {
    let Pattern::Constant { interval, .. } = flow.pattern else {
        return None;
    };
    let lasting = flow.stop.map(|stop| {
        let steps = stop
            .saturating_sub(flow.start)
            .as_nanos()
            .div_ceil(interval.as_nanos().max(1));
        u64::try_from(steps).unwrap_or(u64::MAX)
    });
    let count = flow.messages.into_iter().chain(lasting).min()?;
    Some((count, interval))
}

/// Builds the network of a run, whose programs begin at `start` of the file.
fn world_of(
    model: &Model,
    repetition: Repetition,
    flows: &[usize],
    start: Duration,
) -> Result<live::LiveWorld, ConfigError> {
    let world = build::build_without_stacks(model, repetition)?;
    let changes = build::changes(model, repetition, &world);
    let mut hosts: Vec<usize> = Vec::new();
    for end in flows.iter().flat_map(|flow| model.flows[*flow].ends) {
        let real = !matches!(model.nodes[end].kind, NodeStack::Udp);
        if real && !hosts.contains(&end) {
            hosts.push(end);
        }
    }
    Ok(live::LiveWorld {
        hosts: hosts.into_iter().map(|host| world.nodes[host]).collect(),
        network: world.net,
        changes: changes
            .into_iter()
            .map(|(at, change)| (at.since_start().saturating_sub(start), change))
            .collect(),
    })
}

/// Returns the time of the file at which the programs of a live run begin: those of a flow without an end wait
/// themselves.
fn begin(flow: &Flow) -> Duration {
    match (flow.messages, flow.stop) {
        (None, None) => flow.start,
        _ => flow.start.max(flow.setup + flow.settle),
    }
}

/// Returns the addresses of both ends if Mobile IP or the schedule changes those of one, the primary one first.
fn addresses(model: &Model, flow: &Flow) -> Option<[Vec<IpAddr>; 2]> {
    let moves = flow
        .ends
        .iter()
        .any(|end| model.nodes[*end].mobility.is_some());
    (moves || roams(model, flow).is_some()).then(|| {
        flow.ends.map(|end| {
            let mut all = model.addresses(end);
            let primary = flow.primary.and_then(|link| model.address(end, link));
            all.sort_by_key(|address| Some(*address) != primary);
            all
        })
    })
}

/// Returns the end of a flow whose addresses the schedule changes: 0 or 1.
fn roams(model: &Model, flow: &Flow) -> Option<usize> {
    let mut changes = model.schedule.iter();
    changes.find_map(|change| match change.what {
        ChangeAction::Address { node, .. } => flow.ends.iter().position(|end| *end == node),
        _ => None,
    })
}

/// Converts the record of the bulk flow at this place of the run, which has `wanted` messages or no end. Chunks and
/// packets count within the period.
fn bulk(
    record: &RunRecord,
    place: usize,
    [from, end]: [u64; 2],
    wanted: Option<u64>,
) -> Option<FlowRecord> {
    let [sender, receiver] = [2 * place, 2 * place + 1];
    let sink: &FlowSink = record.program(receiver)?;
    let chunks = record.seen.iter().filter(|seen| {
        let then = (from..end).contains(&seen.time.as_nanos());
        then && seen.out && seen.host == sender && matches!(seen.data, PacketData::Chunk { .. })
    });
    let [first, last] = [from, end].map(Time::from_nanos);
    Some(FlowRecord {
        // SEND of all messages of a flow with an end is the begin of the programs.
        sends: vec![record.begin.as_nanos(); wanted.unwrap_or(0) as usize],
        wanted,
        deliveries: sink.record.deliveries.clone(),
        chunks: Some(chunks.count() as u64).filter(|chunks| *chunks > 0),
        bytes_received: record.bytes_into(receiver, first, last),
        ..of_association(record)
    })
}

/// Returns the record of the association or connection of a run.
fn of_association(record: &RunRecord) -> FlowRecord {
    FlowRecord {
        timeouts: Some(record.timeouts),
        closed: record.lost.is_some(),
        lost: record.lost.map(Time::as_nanos),
        ..FlowRecord::default()
    }
}

/// Converts the record of numbered messages from the first host to the second. The first interface leads to the
/// primary path.
fn numbered(record: &RunRecord, of: &Flow, carrier: Carrier) -> Option<FlowRecord> {
    let (source, sink): (&FlowSource, &FlowSink) = (record.program(0)?, record.program(1)?);
    let size = of.size as u64;
    let mut flow = FlowRecord {
        sends: source.sender.record.sends.clone(),
        deliveries: sink.record.deliveries.clone(),
        ..of_association(record)
    };
    if let Carrier::Program(_) = carrier {
        set_external(&mut flow, record, of)?;
    }
    let (mut sent, mut arrived, mut end) = (BTreeSet::new(), BTreeSet::new(), 0);
    for seen in &record.seen {
        let time = seen.time.as_nanos();
        match (seen.data, seen.host, seen.out) {
            (PacketData::Chunk { tsn, message }, 0, true) => {
                flow.transmissions.push(Transmission {
                    message,
                    time,
                    alternate: seen.interface != 0,
                    tsn: Some(tsn),
                    bytes: 0,
                    again: !sent.insert(tsn.value()),
                });
            }
            (PacketData::Chunk { tsn, message }, 1, false) if arrived.insert(message) => {
                flow.arrivals.push((tsn, time));
            }
            (PacketData::Segment { offset, len }, 0, true) => {
                let segment = Segment {
                    time: carrick_netsim::Time::from_nanos(time),
                    offset,
                    len,
                    again: offset < end,
                };
                end = end.max(offset + len as u64);
                let messages = Transmission::of_segment(&segment, size);
                let alternate = seen.interface != 0;
                flow.transmissions
                    .extend(messages.map(|own| Transmission { alternate, ..own }));
            }
            _ => {}
        }
    }
    let first = flow.transmissions.iter().filter(|own| !own.again);
    let is_alternate: Vec<bool> = first.map(|own| own.alternate).collect();
    let leaves = is_alternate.windows(2).filter(|two| !two[0] && two[1]);
    flow.failovers = Some(leaves.count() as u64).filter(|_| !is_alternate.is_empty());
    Some(flow)
}

/// Sets SEND and delivery of the messages of an external program: it sends at the interval from the first
/// transmission on, and its receiver counts from the first arrival.
fn set_external(flow: &mut FlowRecord, record: &RunRecord, of: &Flow) -> Option<()> {
    let first = |host: usize, out: bool| {
        let is_first = |data| matches!(data, PacketData::Chunk { message: 0, .. });
        let mut seen = record.seen.iter();
        let seen = seen.find(|seen| seen.host == host && seen.out == out && is_first(seen.data));
        seen.map(|seen| seen.time)
    };
    let (sent, arrived) = (first(0, true)?, first(1, false)?);
    let (count, interval) = paced(of)?;
    let steps = (0..u32::try_from(count).ok()?).map(|number| interval * number);
    flow.sends = steps.map(|after| (sent + after).as_nanos()).collect();
    let deliveries = record.external.iter();
    let deliveries = deliveries.map(|(number, after)| (*number, (arrived + *after).as_nanos()));
    flow.deliveries = deliveries.collect();
    Some(())
}

#[cfg(test)]
mod tests {
    use carrick_proto::Tsn;

    use super::*;
    use crate::live::{Lateness, ObservedData};

    fn seen(ms: u64, host: usize, out: bool, data: PacketData) -> ObservedData {
        ObservedData {
            time: Time::from_millis(ms),
            host,
            interface: usize::from(ms > 20),
            out,
            data,
        }
    }

    /// Returns a flow of two messages of 10 bytes.
    fn flow() -> Flow {
        Flow {
            size: 10,
            messages: Some(2),
            pattern: Pattern::Constant {
                interval: Duration::from_millis(10),
                burst: 1,
            },
            ..Flow::default()
        }
    }

    fn record(seen: Vec<ObservedData>) -> RunRecord {
        let flow = flow();
        let sender = Sender::new(0, &flow, build::random(1, 0));
        RunRecord {
            begin: Time::ZERO,
            programs: vec![
                Box::new(FlowSource::new(sender)),
                Box::new(FlowSink::new(0, &flow, false, build::random(1, 0))),
            ],
            seen,
            external: Vec::new(),
            timeouts: 0,
            lost: None,
            lateness: Lateness::default(),
            refused: 0,
        }
    }

    #[test]
    fn chunks_of_the_first_host_arrive_once() {
        let chunk = |message: u64| PacketData::Chunk {
            tsn: Tsn::new(7 + message as u32),
            message,
        };
        let record = record(vec![
            seen(1, 0, true, chunk(0)),
            seen(2, 1, true, chunk(9)),
            seen(11, 1, false, chunk(0)),
            seen(30, 0, true, chunk(0)),
            seen(41, 1, false, chunk(0)),
        ]);
        let flow = numbered(&record, &flow(), Carrier::PlainIp).expect("both programs ran");
        let sent: Vec<_> = flow.transmissions.iter().map(|t| t.alternate).collect();
        assert_eq!(sent, [false, true]);
        assert_eq!(flow.arrivals, [(Tsn::new(7), 11_000_000)]);
    }

    #[test]
    fn segments_below_the_highest_are_retransmissions() {
        let segment = |offset, len| PacketData::Segment { offset, len };
        let record = record(vec![
            seen(1, 0, true, segment(0, 10)),
            seen(2, 0, true, segment(10, 10)),
            seen(3, 0, true, segment(0, 10)),
            seen(4, 0, true, segment(20, 10)),
        ]);
        let flow = numbered(&record, &flow(), Carrier::Kernel("cubic")).expect("both programs ran");
        let again: Vec<bool> = flow.transmissions.iter().map(|s| s.again).collect();
        assert_eq!(again, [false, false, true, false]);
    }
}
