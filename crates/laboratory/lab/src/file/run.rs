//! One run of a cell, and its values.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carrick_netsim::mobile::MobilityEvent;
use carrick_netsim::{Direction, LinkId, Node, Time};
use carrick_proto::{AssociationId, Endpoint};

use super::build::{MobilityRecord, Repetition, SimulatedWorld, build, first_change};
use super::measure::{FlowRecord, LinkMeasure, Measure, MessageHistory, Window};
use super::model::{ChangeAction, Link, Model};
use super::program::{
    HostProgram, LoadAgent, LoadMiddlebox, SctpProgram, Session, TcpProgram, Transactions,
    UdpProgram,
};
use crate::capture::RunCaptures;
use crate::live::Program;
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
    /// Flag that ends the run with an error when it is set.
    pub(super) stop: Option<&'a AtomicBool>,
}

impl Extras<'_> {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
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

/// Counters at one time.
#[derive(Clone, Debug)]
struct Counts {
    flows: Vec<FlowCounts>,
    links: Vec<LinkCounts>,
}

/// Counters of a flow; `None` if the stack has no such counter.
#[derive(Clone, Copy, Debug)]
struct FlowCounts {
    retransmissions: Option<u64>,
    timeouts: Option<u64>,
    dropped: Option<u64>,
    /// DATA chunks sent.
    chunks: Option<u64>,
    /// Bytes of IP packets into the receiving host.
    received: u64,
}

/// Counters of the forward direction of a link.
#[derive(Clone, Debug)]
struct LinkCounts {
    bytes: u64,
    dropped: u64,
    /// Bytes of each flow.
    flows: Vec<u64>,
}

impl Counts {
    /// Returns the differences from the counters at an earlier time.
    fn since(self, before: &Self) -> Self {
        let part = |new: Option<u64>, old: Option<u64>| {
            new.map(|new| new.saturating_sub(old.unwrap_or(0)))
        };
        let flow = |(new, old): (FlowCounts, &FlowCounts)| FlowCounts {
            retransmissions: part(new.retransmissions, old.retransmissions),
            timeouts: part(new.timeouts, old.timeouts),
            dropped: part(new.dropped, old.dropped),
            chunks: part(new.chunks, old.chunks),
            received: new.received.saturating_sub(old.received),
        };
        let link = |(new, old): (LinkCounts, &LinkCounts)| LinkCounts {
            bytes: new.bytes - old.bytes,
            dropped: new.dropped - old.dropped,
            flows: new
                .flows
                .iter()
                .zip(&old.flows)
                .map(|(new, old)| new - old)
                .collect(),
        };
        Self {
            flows: self
                .flows
                .into_iter()
                .zip(&before.flows)
                .map(flow)
                .collect(),
            links: self
                .links
                .into_iter()
                .zip(&before.links)
                .map(link)
                .collect(),
        }
    }
}

impl LinkCounts {
    fn measure(&self, what: LinkMeasure, rate: Option<u64>, window: &Window) -> Option<f64> {
        match what {
            LinkMeasure::Dropped => Some(self.dropped as f64),
            LinkMeasure::Utilization => {
                let seconds = (window.to - window.from) as f64 / 1e9;
                let rate = rate.filter(|_| seconds > 0.0)?;
                Some(100.0 * (self.bytes as f64 * 8.0) / seconds / rate as f64)
            }
            LinkMeasure::Fairness => {
                let shares: Vec<f64> = self.flows.iter().map(|bytes| *bytes as f64).collect();
                jain(&shares)
            }
        }
    }
}

/// Reason for which a repetition has no result.
#[derive(Debug)]
pub(super) enum RunFailure {
    /// The simulation did not reach the state that the scenario requires.
    Simulation(String),
    /// A capture file could not be written.
    Capture(String),
}

impl From<String> for RunFailure {
    fn from(what: String) -> Self {
        Self::Simulation(what)
    }
}

/// Runs one repetition of a cell.
pub(super) fn run<'a>(
    model: &'a Model,
    repetition: Repetition,
    extras: Extras<'a>,
) -> Result<CellRunResult, RunFailure> {
    let world = build(model, repetition, extras.log)?;
    let mut own = CellRun {
        model,
        world,
        extras,
    };
    let captures = extras
        .capture
        .map_or(Ok(RunCaptures::default()), |directory| {
            RunCaptures::begin(&mut own.world.net, directory)
        });
    let captures = captures.map_err(RunFailure::Capture)?;
    let result = measured(&mut own, repetition);
    // A simulation that fails has its captures; a run that the caller stops replaces none.
    if !extras.is_stopped() {
        let captured = captures.finish(&mut own.world.net);
        captured.map_err(RunFailure::Capture)?;
    }
    Ok(result?)
}

/// Runs a cell and computes its values.
fn measured(own: &mut CellRun<'_>, repetition: Repetition) -> Result<CellRunResult, String> {
    let (model, extras) = (own.model, own.extras);
    let begin = own.preload()?;
    let (warm, end) = (begin + model.warmup, begin + model.duration);
    own.advance(warm)?;
    let before = own.counts();
    own.advance(end)?;
    let counts = own.counts().since(&before);
    let window = Window {
        from: warm.as_nanos(),
        // All flows may be complete before the warm-up ends.
        to: own.world.net.now().max(warm).as_nanos(),
        change: first_change(model, repetition, |_| true).map(Time::as_nanos),
        up: first_change(model, repetition, ChangeAction::is_up).map(Time::as_nanos),
        pause: model.pause.as_nanos() as u64,
    };
    let records = (0..model.flows.len()).map(|flow| own.record(flow, &counts));
    let records: Vec<FlowRecord> = records.collect::<Result<_, String>>()?;
    let value = |(flow, measure): &(Option<usize>, Measure)| match (flow, measure) {
        (Some(flow), Measure::Flow(what)) => {
            let own = &model.flows[*flow];
            let size = own.measured_size();
            records[*flow].measure(*what, size, own.messages.is_some(), &window)
        }
        (_, Measure::Link(link, what)) => {
            let rate = model.links[*link].config[0].rate;
            counts.links[*link].measure(*what, rate, &window)
        }
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
    let deliveries = |record: &FlowRecord| -> Vec<f64> {
        let times = record.deliveries.iter().map(|(_, time)| *time as f64);
        times.map(|time| (time - change) / 1e9).collect()
    };
    let shown = if extras.messages { &records[..] } else { &[] };
    Ok(CellRunResult {
        values: columns.iter().map(value).collect(),
        details: Details {
            messages: shown.iter().map(points).collect(),
            deliveries: shown.iter().map(deliveries).collect(),
            samples: extras.samples.iter().map(sample).collect(),
        },
        logs: if extras.log { own.logs() } else { Vec::new() },
        end: own.world.net.now(),
    })
}

/// The program of a host, and the events of Mobile IP around it.
type HostView<'w> = (&'w dyn HostProgram, &'w [MobilityRecord]);

/// A cell during its run.
struct CellRun<'m> {
    model: &'m Model,
    world: SimulatedWorld,
    extras: Extras<'m>,
}

impl CellRun<'_> {
    /// Runs until the preloads of all flows are complete, to the next whole second, and returns this time: the
    /// start if there are none.
    fn preload(&mut self) -> Result<Time, String> {
        let flows = 0..self.model.flows.len();
        let is_steady = |own: &Self, flow| own.program(flow, 0).is_none_or(LoadAgent::is_steady);
        while !flows.clone().all(|flow| is_steady(self, flow)) {
            let now = self.world.net.now();
            if now >= Time::ZERO + PATIENCE {
                return Err("the preload is not complete after an hour".into());
            }
            self.advance(now + Duration::from_secs(1))?;
        }
        Ok(self.world.net.now())
    }

    /// Runs until `end`, or until every flow is finite and complete. In the latter case it stops at
    /// exactly that time, which ends the measurement window.
    fn advance(&mut self, end: Time) -> Result<(), String> {
        let mut active = self.model.flows.iter().filter(|flow| flow.active);
        let finite = active.all(|flow| flow.messages.is_some());
        while self.world.net.now() < end {
            if self.extras.is_stopped() {
                return Err("stopped".into());
            }
            let slice = end.min(self.world.net.now() + SLICE);
            if finite {
                while !self.is_finished()
                    && let Some(time) = self.world.net.next_event().filter(|time| *time <= slice)
                {
                    self.world.net.run_until(time);
                }
                if self.is_finished() {
                    return Ok(());
                }
            }
            self.world.net.run_until(slice);
            for (number, node) in self.model.nodes.iter().enumerate() {
                if let Some(failure) = self.host(number).and_then(|(own, _)| own.failure()) {
                    return Err(format!("host {}: {failure}", node.name));
                }
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.model.flows.iter().enumerate().all(|(number, flow)| {
            let deliveries = self.deliveries(number).len() as u64;
            !flow.active || flow.messages.is_some_and(|most| deliveries >= most)
        })
    }

    /// Returns a host; `None` for routers.
    fn host(&self, number: usize) -> Option<HostView<'_>> {
        fn of<P: HostProgram + Node>(
            world: &SimulatedWorld,
            number: usize,
        ) -> Option<HostView<'_>> {
            let (program, events) = world.host::<P>(number)?;
            Some((program, events))
        }
        of::<SctpHost<SctpProgram>>(&self.world, number)
            .or_else(|| of::<TcpHost<TcpProgram>>(&self.world, number))
            .or_else(|| of::<UdpProgram>(&self.world, number))
    }

    /// Returns the host at one end of a flow.
    fn end(&self, flow: usize, end: usize) -> Option<&dyn HostProgram> {
        Some(self.host(self.model.flows[flow].ends[end])?.0)
    }

    /// Returns the session of a flow at one of its ends.
    fn session(&self, flow: usize, end: usize) -> Option<(&Endpoint, &Session)> {
        self.end(flow, end)?.session(flow, end)
    }

    /// Returns the program of this type at one end of a flow, if it has one.
    fn program<P: Program>(&self, flow: usize, end: usize) -> Option<&P> {
        self.end(flow, end)?.carried(flow, end)?.program()
    }

    /// Returns the deliveries of a flow, at its receiver or, for responses, at its sender.
    fn deliveries(&self, flow: usize) -> &[(u64, u64)] {
        let end = usize::from(self.model.flows[flow].response.is_none());
        let record = self.end(flow, end).and_then(|own| own.record(flow, end));
        record.map_or(&[], |record| &record.deliveries)
    }

    /// Returns the record of a flow, given the counts after the warm-up.
    fn record(&self, flow: usize, counts: &Counts) -> Result<FlowRecord, String> {
        let counts = counts.flows[flow];
        let sent = self.end(flow, 0).and_then(|own| own.record(flow, 0));
        let mut record = FlowRecord {
            deliveries: self.deliveries(flow).to_vec(),
            wanted: self.model.flows[flow].messages,
            located: [0, 1]
                .into_iter()
                .flat_map(|end| self.located(flow, end))
                .collect(),
            retransmissions: counts.retransmissions,
            timeouts: counts.timeouts,
            dropped: counts.dropped,
            chunks: counts.chunks,
            bytes_received: counts.received,
            transactions: self.transactions(flow)?.map(Box::new),
            ..sent.cloned().unwrap_or_default()
        };
        record.located.sort_unstable();
        let Some((endpoint, Session { state, .. })) = self.session(flow, 0) else {
            return Ok(record);
        };
        let stats = state
            .id
            .and_then(|id| endpoint.association(id).map(|a| a.stats()));
        let abandoned = stats.map(|stats| stats.abandoned.total());
        record.abandoned = abandoned.map_or(0, |total| total.sent + total.unsent);
        record.closed = state.closed || state.id.is_none();
        record.lost = state.lost;
        record.shortest_round_trip = state.shortest_round_trip;
        record.left.clone_from(&state.left);
        record.returned.clone_from(&state.returned);
        let end = if self.model.until_last_send {
            record.sends.last().copied().unwrap_or(0)
        } else {
            u64::MAX
        };
        let warm = self.model.warmup.as_nanos() as u64;
        let counted = |moments: &[u64]| {
            let counted = moments.iter().filter(|time| (warm..end).contains(*time));
            Some(counted.count() as u64)
        };
        record.failovers = counted(&record.left);
        if self.model.until_last_send {
            record.timeouts = counted(&state.timeouts);
        }
        if let Some((endpoint, receiver)) = self.session(flow, 1) {
            record.arrivals.clone_from(&receiver.state.arrivals);
            let id = receiver.state.id;
            let stats = id.and_then(|id| endpoint.association(id).map(|a| a.stats()));
            record.accepted = stats.map(|stats| stats.counters.data_chunks_received);
        }
        Ok(record)
    }

    /// Returns the times at which a home agent had registered an end of a flow, or the peer had acknowledged a new
    /// address of it.
    fn located(&self, flow: usize, end: usize) -> impl Iterator<Item = u64> {
        let session = self.session(flow, end).into_iter();
        let acknowledged = session.flat_map(|(_, own)| own.state.acknowledged.iter().copied());
        let host = self.host(self.model.flows[flow].ends[end]).into_iter();
        let events = host.flat_map(|(_, events)| events);
        let registered = events
            .filter(|(_, event)| matches!(event, MobilityEvent::Registered { lifetime: 1.., .. }));
        acknowledged.chain(registered.map(|(time, _)| time.as_nanos()))
    }

    /// Returns the measured transactions of a flow, if it has any.
    fn transactions(&self, flow: usize) -> Result<Option<Transactions>, String> {
        let (agent, middlebox) = (self.program(flow, 0), self.program(flow, 1));
        let both = agent.zip(middlebox);
        both.map(|(agent, middlebox): (&LoadAgent, &LoadMiddlebox)| agent.transactions(middlebox))
            .transpose()
    }

    fn counts(&self) -> Counts {
        let flows = 0..self.model.flows.len();
        Counts {
            flows: flows.map(|flow| self.flow_counts(flow)).collect(),
            links: self
                .world
                .links
                .iter()
                .map(|link| self.link_counts(*link))
                .collect(),
        }
    }

    fn flow_counts(&self, flow: usize) -> FlowCounts {
        let stats = |end| {
            let (endpoint, session) = self.session(flow, end)?;
            endpoint.association(session.state.id?).map(|a| a.stats())
        };
        let [sender, receiver] = [0, 1].map(|end| stats(end).map(|stats| stats.counters));
        let resent = sender.map(|c| c.retransmissions);
        let host = self.model.flows[flow].ends[1];
        let into = |(link, own): (&LinkId, &Link)| {
            let directions = [Direction::Backward, Direction::Forward];
            let ends = directions.into_iter().zip(own.ends);
            let here = ends.filter(|(_, end)| *end == host);
            let stats = here.map(|(direction, _)| self.world.net.link_stats(*link, direction));
            stats.map(|stats| stats.bytes_delivered).sum::<u64>()
        };
        FlowCounts {
            retransmissions: resent.or_else(|| self.end(flow, 0)?.retransmitted()),
            timeouts: sender.map(|c| c.t3_expirations),
            dropped: receiver.map(|c| c.dropped_for_buffer),
            chunks: sender
                .zip(resent)
                .map(|(c, resent)| c.data_chunks_sent + resent),
            received: self
                .world
                .links
                .iter()
                .zip(&self.model.links)
                .map(into)
                .sum(),
        }
    }

    fn link_counts(&self, link: LinkId) -> LinkCounts {
        let stats = self.world.net.link_stats(link, Direction::Forward);
        let flows = (0..self.model.flows.len()).map(|flow| {
            let found = stats.flows.find(flow as u32 + 1);
            found.map_or(0, |found| found.bytes_delivered)
        });
        LinkCounts {
            bytes: stats.bytes_delivered,
            dropped: stats.dropped(),
            flows: flows.collect(),
        }
    }

    fn logs(&self) -> Vec<HostLog> {
        let peer = |session: &Session| {
            let mut nodes = self.model.nodes.iter();
            let is_peer = |(_, address): &(usize, IpAddr)| session.peer.contains(address);
            let peer = nodes.position(|node| node.addresses.iter().any(is_peer));
            Some((session.state.id?, peer?))
        };
        let log = |host: usize| {
            let (own, _) = self.world.host::<SctpHost<SctpProgram>>(host)?;
            let sessions = own.application().sessions.iter();
            Some(HostLog {
                host,
                associations: sessions.filter_map(peer).collect(),
                log: own.event_log().cloned().unwrap_or_default(),
            })
        };
        (0..self.model.nodes.len()).filter_map(log).collect()
    }
}
