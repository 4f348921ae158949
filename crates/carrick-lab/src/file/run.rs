//! One run of a cell, and its values.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use carrick_netsim::mobile::{MobileNode, MobilityEvent};
use carrick_netsim::{Direction, LinkId, Node, Time};
use carrick_proto::{AssociationId, Endpoint};

use super::build::{Repetition, SimulatedWorld, build, first_change};
use super::measure::{FlowRecord, LinkMeasure, Measure, MessageHistory, Window};
use super::model::{ChangeAction, Link, Mobility, Model, NodeStack};
use super::program::{
    Carried, FlowSink, FlowSource, LoadAgent, LoadMiddlebox, SctpProgram, TcpProgram, Transactions,
    UdpProgram,
};
use crate::capture::capture_interfaces;
use crate::stats::jain;
use carrick_hosts::sctp::{EventLog, SctpHost};
use carrick_hosts::tcp::TcpHost;

/// Interval at which failures of programs are checked.
const SLICE: Duration = Duration::from_secs(10);
/// Maximum time until all preloads are complete.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Event log of the core of a host.
#[derive(Debug)]
pub(super) struct HostLog {
    /// Index of the host.
    pub(super) host: usize,
    /// Associations, each with the index of its peer.
    pub(super) associations: Vec<(AssociationId, usize)>,
    pub(super) log: EventLog,
}

/// Optional outputs of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extras<'a> {
    /// Records the events of the cores of all hosts.
    pub(super) log: bool,
    /// Directory for a capture of each interface.
    pub(super) capture: Option<&'a Path>,
    /// Returns the deliveries of each flow, and each message with recorded transmissions.
    pub(super) messages: bool,
    /// Columns of which the values of the messages are returned.
    pub(super) samples: &'a [usize],
}

/// Values of single messages of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Details {
    /// Messages of each flow with recorded transmissions, by their numbers, if wanted.
    pub(super) messages: Vec<Vec<MessageHistory>>,
    /// Times of the deliveries of each flow, in s after the first change of the schedule, or after the start if
    /// there is none; if wanted.
    pub(super) deliveries: Vec<Vec<f64>>,
    /// Values of the messages of the wanted columns.
    pub(super) samples: BTreeMap<usize, Vec<f64>>,
}

/// Values of single messages that are wanted from the runs of all cells.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedDetails {
    /// Cells of which the deliveries and the delays of the messages in the first repetition are wanted.
    pub(super) messages: Vec<usize>,
    /// Cells and columns of which the values of the messages in all repetitions are wanted.
    pub(super) samples: Vec<(usize, usize)>,
}

/// Result of a run.
#[derive(Debug)]
pub(super) struct CellRunResult {
    /// Values in the order of [`columns`]; `None` if not defined in the run.
    pub(super) values: Vec<Option<f64>>,
    pub(super) details: Details,
    pub(super) logs: Vec<HostLog>,
    /// Virtual time of the end.
    pub(super) end: Time,
}

/// Returns the columns of results: the index of the flow, if the measure is one of a flow, and the
/// measure.
pub(super) fn columns(model: &Model) -> Vec<(Option<usize>, Measure)> {
    let mut columns = Vec::new();
    for measure in &model.measures {
        match measure {
            Measure::Flow(_) => {
                columns.extend((0..model.flows.len()).map(|flow| (Some(flow), *measure)));
            }
            _ => columns.push((None, *measure)),
        }
    }
    columns
}

/// Counters at one time, for differences with those at a later time.
#[derive(Clone, Default)]
struct Counts {
    /// Per flow: retransmissions, timeouts, drops, and chunks sent of its association.
    flows: Vec<[Option<u64>; 4]>,
    /// Per flow: bytes of IP packets into the receiving host.
    received: Vec<u64>,
    /// Per link, forward direction: bytes delivered and packets dropped, then bytes by flow.
    links: Vec<(u64, u64, Vec<u64>)>,
}

/// Runs one repetition of a cell.
pub(super) fn run(
    model: &Model,
    repetition: Repetition,
    extras: Extras<'_>,
) -> Result<CellRunResult, String> {
    let mut world = build(model, repetition, extras.log)?;
    if let Some(directory) = extras.capture {
        capture_interfaces(&mut world.net, directory, |file| Box::new(file))?;
    }
    let begin = preload(&mut world, model)?;
    let (warm, end) = (begin + model.warmup, begin + model.duration);
    advance(&mut world, model, warm)?;
    let before = counts(&world, model);
    advance(&mut world, model, end)?;
    let after = counts(&world, model);
    // Dropping the network would complete the captures, too, but report no errors.
    let captured = world.net.finish_captures();
    captured.map_err(|error| format!("cannot write a capture: {error}"))?;
    let window = Window {
        from: warm.as_nanos(),
        // All flows may be complete before the warm-up ends.
        to: world.net.now().max(warm).as_nanos(),
        change: first_change(model, repetition, |_| true).map(Time::as_nanos),
        up: first_change(model, repetition, ChangeAction::is_up).map(Time::as_nanos),
        pause: model.pause.as_nanos() as u64,
    };
    let records: Result<Vec<FlowRecord>, String> = (0..model.flows.len())
        .map(|flow| {
            let mut record = record(&world, model, flow, &before, &after);
            record.transactions = transactions(&world, model, flow)?.map(Box::new);
            Ok(record)
        })
        .collect();
    let records = records?;
    let value = |(flow, measure): &(Option<usize>, Measure)| match (flow, measure) {
        (Some(flow), Measure::Flow(what)) => {
            let own = &model.flows[*flow];
            let size = own.measured_size();
            records[*flow].measure(*what, size, own.messages.is_some(), &window)
        }
        (_, Measure::Link(link, what)) => of_link(model, *link, *what, &before, &after, &window),
        _ => {
            let rates = records.iter().zip(&model.flows).map(|(record, flow)| {
                record.goodput(flow.measured_size(), flow.messages.is_some(), &window)
            });
            let rates: Option<Vec<f64>> = rates.collect();
            rates.and_then(|rates| jain(&rates))
        }
    };
    let columns = columns(model);
    let sample = |column: &usize| match columns[*column] {
        (Some(flow), Measure::Flow(what)) if what.is_mean() => {
            (*column, records[flow].samples(what, &window))
        }
        _ => (*column, Vec::new()),
    };
    let points = |record: &FlowRecord| {
        let mut all: Vec<MessageHistory> = record.histories(&window).copied().collect();
        all.sort_by_key(|message| message.number);
        all
    };
    let change = window.change.unwrap_or(0) as f64;
    let deliveries = |record: &FlowRecord| {
        let times = record.deliveries.iter().map(|(_, time)| *time as f64);
        times
            .map(|time| (time - change) / 1e9)
            .collect::<Vec<f64>>()
    };
    let shown = if extras.messages { &records[..] } else { &[] };
    Ok(CellRunResult {
        values: columns.iter().map(value).collect(),
        details: Details {
            messages: shown.iter().map(points).collect(),
            deliveries: shown.iter().map(deliveries).collect(),
            samples: extras.samples.iter().map(sample).collect(),
        },
        logs: if extras.log {
            logs(&world, model)
        } else {
            Vec::new()
        },
        end: world.net.now(),
    })
}

/// Runs until the preloads of all flows are complete, to the next whole second, and returns this time: the
/// start if there are none.
fn preload(world: &mut SimulatedWorld, model: &Model) -> Result<Time, String> {
    let agents = |world: &SimulatedWorld| {
        let agents =
            (0..model.flows.len()).filter_map(|n| program::<LoadAgent>(world, model, n, 0));
        agents.map(LoadAgent::is_steady).collect::<Vec<bool>>()
    };
    while agents(world).contains(&false) {
        if world.net.now() >= Time::ZERO + PATIENCE {
            return Err("the preload is not complete after an hour".into());
        }
        let next = world.net.now() + Duration::from_secs(1);
        advance(world, model, next)?;
    }
    Ok(world.net.now())
}

/// Runs until `end`, or until every flow is finite and complete. In the latter case it stops at
/// exactly that time, which ends the measurement window.
fn advance(world: &mut SimulatedWorld, model: &Model, end: Time) -> Result<(), String> {
    let mut active = model.flows.iter().filter(|flow| flow.active);
    let finite = active.all(|flow| flow.messages.is_some());
    while world.net.now() < end {
        let slice = end.min(world.net.now() + SLICE);
        if finite {
            let next =
                |world: &SimulatedWorld| world.net.next_event().filter(|time| *time <= slice);
            while !finished(world, model)
                && let Some(time) = next(world)
            {
                world.net.run_until(time);
            }
            if finished(world, model) {
                return Ok(());
            }
        }
        world.net.run_until(slice);
        for (number, node) in model.nodes.iter().enumerate() {
            let failure = match node.kind {
                NodeStack::Tcp(_) => tcp(world, number).application().failure(),
                _ => sctp(world, model, number).and_then(|h| h.application().failure.clone()),
            };
            if let Some(failure) = failure {
                return Err(format!("host {}: {failure}", node.name));
            }
        }
    }
    Ok(())
}

fn finished(world: &SimulatedWorld, model: &Model) -> bool {
    model.flows.iter().enumerate().all(|(number, flow)| {
        let deliveries = deliveries(world, model, number).len() as u64;
        !flow.active || flow.messages.is_some_and(|most| deliveries >= most)
    })
}

fn sctp<'w>(
    world: &'w SimulatedWorld,
    model: &Model,
    host: usize,
) -> Option<&'w SctpHost<SctpProgram>> {
    matches!(model.nodes[host].kind, NodeStack::Sctp(_)).then(|| world.host(host))
}

fn tcp(world: &SimulatedWorld, host: usize) -> &TcpHost<TcpProgram> {
    world.host(host)
}

/// Returns the deliveries of a flow, at its receiver or, for responses, at its sender.
fn deliveries<'w>(world: &'w SimulatedWorld, model: &Model, number: usize) -> &'w [(u64, u64)] {
    let flow = &model.flows[number];
    let answered = flow.response.is_some();
    let host = flow.ends[usize::from(!answered)];
    match &model.nodes[host].kind {
        NodeStack::Router => &[],
        NodeStack::Sctp(_) => {
            let program = world.host::<SctpHost<SctpProgram>>(host).application();
            if answered {
                let sender = program.sender(number);
                sender.map_or(&[], |(_, s)| &s.record.deliveries)
            } else {
                let receiver = program.receiver(number);
                receiver.map_or(&[], |r| &r.record.deliveries)
            }
        }
        NodeStack::Tcp(_) if answered => {
            let source = program::<FlowSource>(world, model, number, 0);
            source.map_or(&[], |source| &source.sender.record.deliveries)
        }
        NodeStack::Tcp(_) => {
            let sink = program::<FlowSink>(world, model, number, 1);
            let sink = sink.filter(|sink| sink.number == number);
            sink.map_or(&[], |sink| &sink.record.deliveries)
        }
        NodeStack::Udp => {
            let program = world.host::<UdpProgram>(host);
            let receiver = program.receivers.iter().find(|(own, _)| *own == number);
            receiver.map_or(&[], |(_, record)| &record.deliveries)
        }
    }
}

/// Returns the sender's record of a flow.
fn sent(world: &SimulatedWorld, model: &Model, number: usize) -> FlowRecord {
    let host = model.flows[number].ends[0];
    match &model.nodes[host].kind {
        NodeStack::Router => FlowRecord::default(),
        NodeStack::Sctp(_) => {
            let host = world.host::<SctpHost<SctpProgram>>(host);
            let program = host.application();
            let Some((session, sender)) = program.sender(number) else {
                return FlowRecord::default();
            };
            let state = &program.sessions[*session].state;
            let stats = state
                .id
                .and_then(|id| host.endpoint().association_stats(id));
            let abandoned = stats.map_or(0, |s| {
                let total = s.abandoned.total();
                total.sent + total.unsent
            });
            FlowRecord {
                abandoned,
                closed: state.closed || state.id.is_none(),
                lost: state.lost,
                ..sender.record.clone()
            }
        }
        NodeStack::Tcp(_) => {
            let source = program::<FlowSource>(world, model, number, 0);
            source.map_or_else(FlowRecord::default, |source| source.sender.record.clone())
        }
        NodeStack::Udp => {
            let program = world.host::<UdpProgram>(host);
            let sender = program.senders.iter().find(|(.., s)| s.number == number);
            sender.map_or_else(FlowRecord::default, |(.., s)| s.record.clone())
        }
    }
}

fn record(
    world: &SimulatedWorld,
    model: &Model,
    number: usize,
    before: &Counts,
    after: &Counts,
) -> FlowRecord {
    let mut record = sent(world, model, number);
    record.deliveries = deliveries(world, model, number).to_vec();
    record.wanted = model.flows[number].messages;
    for end in [0, 1] {
        record.located.extend(located(world, model, number, end));
    }
    record.located.sort_unstable();
    let [retransmissions, timeouts, dropped, chunks] = [0, 1, 2, 3].map(|counter| {
        let before = before.flows[number][counter].unwrap_or(0);
        let after = after.flows[number][counter];
        after.map(|after| after.saturating_sub(before))
    });
    (record.retransmissions, record.timeouts) = (retransmissions, timeouts);
    (record.dropped, record.chunks) = (dropped, chunks);
    record.bytes_received = after.received[number].saturating_sub(before.received[number]);
    let Some((_, sender)) = session(world, model, number, 0) else {
        return record;
    };
    record.shortest_round_trip = sender.state.shortest_round_trip;
    record.left.clone_from(&sender.state.left);
    record.returned.clone_from(&sender.state.returned);
    let end = if model.until_last_send {
        record.sends.last().copied().unwrap_or(0)
    } else {
        u64::MAX
    };
    let warm = model.warmup.as_nanos() as u64;
    let counted = |moments: &[u64]| {
        let counted = moments.iter().filter(|time| (warm..end).contains(*time));
        Some(counted.count() as u64)
    };
    record.failovers = counted(&record.left);
    if model.until_last_send {
        record.timeouts = counted(&sender.state.timeouts);
    }
    if let Some((endpoint, receiver)) = session(world, model, number, 1) {
        record.arrivals.clone_from(&receiver.state.arrivals);
        let id = receiver.state.id;
        let stats = id.and_then(|id| endpoint.association_stats(id));
        record.accepted = stats.map(|stats| stats.counters.data_chunks_received);
    }
    record
}

/// Returns the times at which a home agent had registered an end of a flow, or the peer had acknowledged a new
/// address of it.
fn located(world: &SimulatedWorld, model: &Model, flow: usize, end: usize) -> Vec<u64> {
    fn registrations<P: Node>(world: &SimulatedWorld, host: usize) -> Vec<u64> {
        let node: &MobileNode<P> = world.net.node(world.nodes[host]);
        let events = node.events().iter();
        let registered = events
            .filter(|(_, event)| matches!(event, MobilityEvent::Registered { lifetime: 1.., .. }));
        registered.map(|(time, _)| time.as_nanos()).collect()
    }
    let session = session(world, model, flow, end);
    let mut times = session.map_or_else(Vec::new, |(_, own)| own.state.acknowledged.clone());
    let host = model.flows[flow].ends[end];
    let node = &model.nodes[host];
    if let Some(Mobility::MobileNode { .. }) = node.mobility {
        times.extend(match node.kind {
            NodeStack::Router => Vec::new(),
            NodeStack::Sctp(_) => registrations::<SctpHost<SctpProgram>>(world, host),
            NodeStack::Tcp(_) => registrations::<TcpHost<TcpProgram>>(world, host),
            NodeStack::Udp => registrations::<UdpProgram>(world, host),
        });
    }
    times
}

/// Returns the session of a flow at one of its ends.
fn session<'w>(
    world: &'w SimulatedWorld,
    model: &Model,
    flow: usize,
    end: usize,
) -> Option<(&'w Endpoint, &'w super::program::Session)> {
    let host = sctp(world, model, model.flows[flow].ends[end])?;
    let program = host.application();
    let number = if end == 0 {
        program.sender(flow).map(|(session, _)| *session)
    } else {
        program.receiver(flow).map(|receiver| receiver.session)
    };
    Some((host.endpoint(), &program.sessions[number?]))
}

/// Returns the program of this type at one end of a flow, if it has one.
fn program<'w, P: crate::live::Program>(
    world: &'w SimulatedWorld,
    model: &Model,
    flow: usize,
    end: usize,
) -> Option<&'w P> {
    let host = model.flows[flow].ends[end];
    let carried: &Carried = match model.nodes[host].kind {
        NodeStack::Sctp(_) => session(world, model, flow, end)?.1.carried.as_ref()?,
        NodeStack::Tcp(_) => &tcp(world, host).application().carried,
        NodeStack::Router | NodeStack::Udp => return None,
    };
    carried.program()
}

/// Returns the measured transactions of a flow, if it has any.
fn transactions(
    world: &SimulatedWorld,
    model: &Model,
    flow: usize,
) -> Result<Option<Transactions>, String> {
    let agent = program::<LoadAgent>(world, model, flow, 0);
    let middlebox = program::<LoadMiddlebox>(world, model, flow, 1);
    let both = agent.zip(middlebox);
    both.map(|(agent, middlebox)| agent.transactions(middlebox))
        .transpose()
}

fn counts(world: &SimulatedWorld, model: &Model) -> Counts {
    let flow = |number: usize| {
        let stats = |end| {
            let (endpoint, session) = session(world, model, number, end)?;
            endpoint.association_stats(session.state.id?)
        };
        let client = match model.nodes[model.flows[number].ends[0]].kind {
            NodeStack::Tcp(_) => Some(tcp(world, model.flows[number].ends[0])),
            _ => None,
        };
        let sender = stats(0).map(|s| s.counters);
        let resent = sender.map(|c| c.timeout_retransmissions + c.fast_retransmissions);
        [
            resent.or_else(|| client.map(TcpHost::retransmitted)),
            sender.map(|c| c.t3_expirations),
            stats(1).map(|s| s.counters.dropped_for_buffer),
            sender.map(|c| c.data_chunks_sent + c.timeout_retransmissions + c.fast_retransmissions),
        ]
    };
    let received = |number: usize| {
        let host = model.flows[number].ends[1];
        let into = |(link, own): (&LinkId, &Link)| {
            let directions = [Direction::Backward, Direction::Forward];
            let ends = directions.into_iter().zip(own.ends);
            let here = ends.filter(|(_, end)| *end == host);
            let bytes = here.map(|(direction, _)| {
                let stats = world.net.link_stats(*link, direction);
                stats.bytes_delivered
            });
            bytes.sum::<u64>()
        };
        world.links.iter().zip(&model.links).map(into).sum()
    };
    let link = |number: usize| {
        let stats = world
            .net
            .link_stats(world.links[number], Direction::Forward);
        let flows = (0..model.flows.len()).map(|flow| {
            let found = stats.flows.find(flow as u32 + 1);
            found.map_or(0, |found| found.bytes_delivered)
        });
        (stats.bytes_delivered, stats.dropped(), flows.collect())
    };
    Counts {
        flows: (0..model.flows.len()).map(flow).collect(),
        received: (0..model.flows.len()).map(received).collect(),
        links: (0..model.links.len()).map(link).collect(),
    }
}

fn of_link(
    model: &Model,
    number: usize,
    what: LinkMeasure,
    before: &Counts,
    after: &Counts,
    window: &Window,
) -> Option<f64> {
    let (before, after) = (&before.links[number], &after.links[number]);
    match what {
        LinkMeasure::Dropped => Some((after.1 - before.1) as f64),
        LinkMeasure::Utilization => {
            let rate = model.links[number].config[0].rate?;
            let seconds = (window.to - window.from) as f64 / 1e9;
            let bits = (after.0 - before.0) as f64 * 8.0;
            (seconds > 0.0).then(|| 100.0 * bits / seconds / rate as f64)
        }
        LinkMeasure::Fairness => {
            let shares: Vec<f64> = after
                .2
                .iter()
                .zip(&before.2)
                .map(|(after, before)| (after - before) as f64)
                .collect();
            jain(&shares)
        }
    }
}

fn logs(world: &SimulatedWorld, model: &Model) -> Vec<HostLog> {
    let mut logs = Vec::new();
    for number in 0..model.nodes.len() {
        let Some(host) = sctp(world, model, number) else {
            continue;
        };
        let peer = |session: &super::program::Session| {
            let id = session.state.id?;
            let peer = model.nodes.iter().position(|node| {
                node.addresses
                    .iter()
                    .any(|(_, address)| session.peer.contains(address))
            })?;
            Some((id, peer))
        };
        let sessions = host.application().sessions.iter();
        logs.push(HostLog {
            host: number,
            associations: sessions.filter_map(peer).collect(),
            log: host.event_log().cloned().unwrap_or_default(),
        });
    }
    logs
}
