//! One run of a cell, and its values.

use std::path::Path;
use std::time::Duration;

use carrick_netsim::{Direction, Network, NodeId, Time};
use carrick_proto::{AssociationId, Endpoint};

use super::build::{Repetition, World, build, first_change};
use super::measure::{FlowRecord, LinkMeasure, Measure, Window};
use super::model::{Model, NodeStack};
use super::program::{SctpProgram, TcpProgram, UdpProgram};
use crate::capture::Capture;
use crate::sctp_host::{EventLog, SctpHost};
use crate::stats::jain;
use crate::tcp_host::TcpHost;

/// Interval at which failures of programs are checked.
const SLICE: Duration = Duration::from_secs(10);

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
}

/// Result of a run.
#[derive(Debug)]
pub(super) struct CellRunResult {
    /// Values in the order of [`columns`]; `None` if not defined in the run.
    pub(super) values: Vec<Option<f64>>,
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
    /// Per flow: retransmissions, timeouts, drops, failovers of its association.
    flows: Vec<[Option<u64>; 4]>,
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
    let capture = extras.capture.map_or(Capture::NONE, Capture::into);
    capture.begin(&mut world.net)?;
    let end = Time::ZERO + model.duration;
    let warm = Time::ZERO + model.warmup;
    advance(&mut world, model, warm)?;
    let before = counts(&world, model);
    advance(&mut world, model, end)?;
    let after = counts(&world, model);
    capture.end(&mut world.net)?;
    let window = Window {
        from: warm.as_nanos(),
        // All flows may be complete before the warm-up ends.
        to: world.net.now().max(warm).as_nanos(),
        change: first_change(model, repetition).map(Time::as_nanos),
    };
    let records: Vec<FlowRecord> = (0..model.flows.len())
        .map(|flow| record(&world, model, flow, &before, &after))
        .collect();
    let value = |(flow, measure): &(Option<usize>, Measure)| match (flow, measure) {
        (Some(flow), Measure::Flow(what)) => {
            let own = &model.flows[*flow];
            let size = own.response.unwrap_or(own.size);
            records[*flow].measure(*what, size, own.messages.is_some(), &window)
        }
        (_, Measure::Link(link, what)) => of_link(model, *link, *what, &before, &after, &window),
        _ => {
            let rates: Option<Vec<f64>> = records
                .iter()
                .zip(&model.flows)
                .map(|(r, f)| {
                    r.goodput(f.response.unwrap_or(f.size), f.messages.is_some(), &window)
                })
                .collect();
            rates.and_then(|rates| jain(&rates))
        }
    };
    Ok(CellRunResult {
        values: columns(model).iter().map(value).collect(),
        logs: if extras.log {
            logs(&world, model)
        } else {
            Vec::new()
        },
        end: world.net.now(),
    })
}

/// Runs until `end`, or until every flow is finite and complete. In the latter case it stops at
/// exactly that time, which ends the measurement window.
fn advance(world: &mut World, model: &Model, end: Time) -> Result<(), String> {
    let finite = model.flows.iter().all(|flow| flow.messages.is_some());
    while world.net.now() < end {
        let slice = end.min(world.net.now() + SLICE);
        if finite {
            let next = |world: &World| world.net.next_event().filter(|time| *time <= slice);
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
            if let Some(failure) =
                sctp(world, model, number).and_then(|h| h.application().failure.as_ref())
            {
                return Err(format!("host {}: {failure}", node.name));
            }
        }
    }
    Ok(())
}

fn finished(world: &World, model: &Model) -> bool {
    model.flows.iter().enumerate().all(|(number, flow)| {
        let deliveries = deliveries(world, model, number).len() as u64;
        flow.messages.is_some_and(|most| deliveries >= most)
    })
}

fn sctp<'w>(world: &'w World, model: &Model, host: usize) -> Option<&'w SctpHost<SctpProgram>> {
    matches!(model.nodes[host].kind, NodeStack::Sctp(_)).then(|| world.net.node(world.nodes[host]))
}

fn tcp(net: &Network, node: NodeId) -> &TcpHost<TcpProgram> {
    net.node(node)
}

/// Returns the deliveries of a flow, at its receiver or, for responses, at its sender.
fn deliveries<'w>(world: &'w World, model: &Model, number: usize) -> &'w [(u64, u64)] {
    let flow = &model.flows[number];
    let answered = flow.response.is_some();
    let host = flow.ends[usize::from(!answered)];
    let node = world.nodes[host];
    match &model.nodes[host].kind {
        NodeStack::Router => &[],
        NodeStack::Sctp(_) => {
            let program = world.net.node::<SctpHost<SctpProgram>>(node).application();
            if answered {
                let sender = program.senders.iter().find(|(_, s)| s.number == number);
                sender.map_or(&[], |(_, s)| &s.record.deliveries)
            } else {
                let receiver = program.receivers.iter().find(|r| r.number == number);
                receiver.map_or(&[], |r| &r.record.deliveries)
            }
        }
        NodeStack::Tcp(_) => match tcp(&world.net, node).application() {
            TcpProgram::Client(client) if answered => &client.sender.record.deliveries,
            TcpProgram::Server(server) if !answered && server.number == number => {
                &server.record.deliveries
            }
            _ => &[],
        },
        NodeStack::Udp => {
            let program = world.net.node::<UdpProgram>(node);
            let receiver = program.receivers.iter().find(|(own, _)| *own == number);
            receiver.map_or(&[], |(_, record)| &record.deliveries)
        }
    }
}

/// Returns the sender's record of a flow.
fn sent(world: &World, model: &Model, number: usize) -> FlowRecord {
    let host = model.flows[number].ends[0];
    let node = world.nodes[host];
    match &model.nodes[host].kind {
        NodeStack::Router => FlowRecord::default(),
        NodeStack::Sctp(_) => {
            let host = world.net.node::<SctpHost<SctpProgram>>(node);
            let program = host.application();
            let Some((session, sender)) = program.senders.iter().find(|(_, s)| s.number == number)
            else {
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
                ..sender.record.clone()
            }
        }
        NodeStack::Tcp(_) => match tcp(&world.net, node).application() {
            TcpProgram::Client(client) => client.sender.record.clone(),
            TcpProgram::Server(_) => FlowRecord::default(),
        },
        NodeStack::Udp => {
            let program = world.net.node::<UdpProgram>(node);
            let sender = program.senders.iter().find(|(.., s)| s.number == number);
            sender.map_or_else(FlowRecord::default, |(.., s)| s.record.clone())
        }
    }
}

fn record(
    world: &World,
    model: &Model,
    number: usize,
    before: &Counts,
    after: &Counts,
) -> FlowRecord {
    let mut record = sent(world, model, number);
    record.deliveries = deliveries(world, model, number).to_vec();
    let differences = after.flows[number]
        .iter()
        .zip(&before.flows[number])
        .map(|(after, before)| after.map(|after| after.saturating_sub(before.unwrap_or(0))));
    let differences: Vec<Option<u64>> = differences.collect();
    record.retransmissions = differences[0];
    record.timeouts = differences[1];
    record.dropped = differences[2];
    record.failovers = differences[3];
    record
}

/// Returns the session of a flow at one of its ends.
fn session<'w>(
    world: &'w World,
    model: &Model,
    flow: usize,
    end: usize,
) -> Option<(&'w Endpoint, &'w super::program::Session)> {
    let host = sctp(world, model, model.flows[flow].ends[end])?;
    let program = host.application();
    let number = if end == 0 {
        program
            .senders
            .iter()
            .find(|(_, s)| s.number == flow)
            .map(|(n, _)| *n)
    } else {
        program
            .receivers
            .iter()
            .find(|r| r.number == flow)
            .map(|r| r.session)
    };
    Some((host.endpoint(), &program.sessions[number?]))
}

fn counts(world: &World, model: &Model) -> Counts {
    let flow = |number: usize| {
        let stats = |end| {
            let (endpoint, session) = session(world, model, number, end)?;
            endpoint.association_stats(session.state.id?)
        };
        let client = match model.nodes[model.flows[number].ends[0]].kind {
            NodeStack::Tcp(_) => Some(tcp(&world.net, world.nodes[model.flows[number].ends[0]])),
            _ => None,
        };
        let sender = stats(0).map(|s| s.counters);
        let resent = sender.map(|c| c.timeout_retransmissions + c.fast_retransmissions);
        [
            resent.or_else(|| client.map(TcpHost::retransmitted)),
            sender.map(|c| c.t3_expirations),
            stats(1).map(|s| s.counters.dropped_for_buffer),
            session(world, model, number, 0).map(|(_, s)| s.state.failovers),
        ]
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

fn logs(world: &World, model: &Model) -> Vec<HostLog> {
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
            log: host.event_log().map(|log| log.take()).unwrap_or_default(),
        });
    }
    logs
}
