//! One association of one run, drawn from the core's own event log.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use carrick_proto::{AssociationId, PathId, Time, TraceEvent, Tsn};

use super::ScenarioFile;
use super::model::{Kind, Model};
use super::program::{Log, PathState};
use super::run::Extras;
use crate::error::LabError;
use crate::figure::{Axis, Figure, Kind as Draw, Point, Series};
use crate::result::{Row, ScenarioResult, Setting};
use crate::scenario::RunOptions;

/// Which association to draw, and which part of its life.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceOptions<'a> {
    /// The cell of the sweep.
    pub cell: usize,
    /// The repetition of the cell.
    pub repetition: u64,
    /// The flow whose association is drawn, as its sender sees it; the first one when `None`.
    pub flow: Option<&'a str>,
    /// From when on.
    pub from: Duration,
    /// Until when; to the end of the run when `None`.
    pub to: Option<Duration>,
    /// Where to write a capture of each interface.
    pub capture: Option<&'a Path>,
}

/// What happened to one path.
#[derive(Debug)]
struct PathLog {
    remote: std::net::IpAddr,
    /// Time in s and number of the chunk.
    first: Vec<Point>,
    again: Vec<Point>,
    cwnd: Vec<Point>,
    ssthresh: Vec<Point>,
    outstanding: Vec<Point>,
    round_trips: Vec<Point>,
    rto: Vec<Point>,
    timeouts: Vec<Point>,
    states: Vec<Point>,
}

impl PathLog {
    fn new(remote: std::net::IpAddr) -> Self {
        Self {
            remote,
            first: Vec::new(),
            again: Vec::new(),
            cwnd: Vec::new(),
            ssthresh: Vec::new(),
            outstanding: Vec::new(),
            round_trips: Vec::new(),
            rto: Vec::new(),
            timeouts: Vec::new(),
            states: Vec::new(),
        }
    }
}

/// What happened to an association.
#[derive(Debug, Default)]
struct Story {
    paths: BTreeMap<PathId, PathLog>,
    /// The highest chunk of which all before were acknowledged.
    cumulative: Vec<Point>,
    /// Chunks that gap blocks acknowledged.
    gaps: Vec<Point>,
    losses: Vec<Point>,
    /// Chunks above the cumulative one that are acknowledged.
    above: std::collections::BTreeSet<u32>,
    /// The first chunk that is not acknowledged.
    next: u32,
    first: Option<Tsn>,
}

impl ScenarioFile {
    /// Runs one repetition of one cell and draws an association: the sequence of its chunks, and for
    /// each path the windows, the round-trip times and the states.
    ///
    /// # Errors
    /// If there is no such cell or flow, the flow's stack tells nothing, or the simulation fails.
    pub fn trace(
        &self,
        options: &RunOptions,
        wanted: &TraceOptions<'_>,
    ) -> Result<ScenarioResult, LabError> {
        let Some((cell, model)) = self.cells.get(wanted.cell) else {
            return Err(choice(format!(
                "there is no cell {}; there are {}, from 0 on",
                wanted.cell,
                self.cells.len()
            )));
        };
        let flow = self.flow(model, wanted.flow)?;
        let extras = Extras {
            log: true,
            capture: wanted.capture,
        };
        let outcome = self.run_one(wanted.cell, wanted.repetition, options, extras)?;
        let [from, to] = model.flows[flow].ends;
        let log = outcome.logs.into_iter().find(|log| log.host == from);
        let found = log.and_then(|host| {
            let (id, _) = host.associations.iter().find(|(_, peer)| *peer == to)?;
            Some((*id, host.log))
        });
        let Some((id, log)) = found else {
            return Err(choice("the association was never set up".into()));
        };
        let until = wanted.to.unwrap_or_else(|| outcome.end.since_start());
        let story = Story::of(&log, id, [wanted.from, until]);
        let names = [from, to].map(|node| model.nodes[node].name.as_str());
        let mut settings = vec![
            Setting::new("association", format!("from {} to {}", names[0], names[1])),
            Setting::new("repetition", wanted.repetition.to_string()),
        ];
        if !cell.label().is_empty() {
            settings.push(Setting::new(
                "cell",
                format!("{}: {}", wanted.cell, cell.label()),
            ));
        }
        Ok(ScenarioResult {
            scenario: format!("{}-trace", self.name),
            question: format!(
                "What did the association from {} to {} do?",
                names[0], names[1]
            ),
            seed: options.seed,
            repetitions: 1,
            full_repetitions: None,
            rows: story.rows(),
            figures: story.figures([wanted.from, until]),
            drawing: crate::drawing::Drawing::default(),
            splits: Vec::new(),
            notes: Vec::new(),
            settings,
        })
    }

    fn flow(&self, model: &Model, name: Option<&str>) -> Result<usize, LabError> {
        let tells =
            |flow: usize| matches!(model.nodes[model.flows[flow].ends[0]].kind, Kind::Sctp(_));
        let Some(name) = name else {
            let first = (0..model.flows.len()).find(|flow| tells(*flow));
            return first.ok_or_else(|| choice(format!("{}: no flow runs over SCTP", self.name)));
        };
        let found = model.flows.iter().position(|flow| flow.name == name);
        match found {
            Some(flow) if tells(flow) => Ok(flow),
            Some(_) => Err(choice(format!(
                "flow '{name}' does not run over SCTP, and others tell nothing"
            ))),
            None => {
                let known: Vec<&str> = model.flows.iter().map(|flow| flow.name.as_str()).collect();
                Err(choice(format!(
                    "there is no flow '{name}'; known: {}",
                    known.join(", ")
                )))
            }
        }
    }
}

fn choice(what: String) -> LabError {
    LabError::Choice { what }
}

impl Story {
    fn of(log: &Log, id: AssociationId, [from, to]: [Duration; 2]) -> Self {
        let mut story = Self::default();
        let within = |time: Time| (from..=to).contains(&time.since(Time::ZERO));
        for entered in log
            .states
            .iter()
            .filter(|entered| entered.association == id)
        {
            let path = story
                .paths
                .entry(entered.path)
                .or_insert_with(|| PathLog::new(entered.remote));
            // The state at the beginning counts, whenever it was entered.
            let seconds = entered.time.as_secs_f64().max(from.as_secs_f64());
            if entered.time.since(Time::ZERO) <= to {
                let value = match entered.state {
                    PathState::Unconfirmed => 0.0,
                    PathState::Inactive => 1.0,
                    PathState::PotentiallyFailed => 2.0,
                    PathState::Active => 3.0,
                    PathState::Primary => 4.0,
                };
                path.states.push(Point::new(seconds, value));
            }
        }
        for (_, record) in log.records.iter().filter(|(own, _)| *own == id) {
            story.take(record.time, &record.event, within(record.time));
        }
        for path in story.paths.values_mut() {
            if let Some(last) = path.states.last().copied() {
                path.states.push(Point::new(to.as_secs_f64(), last.y));
            }
        }
        story
    }

    /// Chunks are counted from 1.
    fn number(&mut self, tsn: Tsn) -> u32 {
        let first = *self.first.get_or_insert(tsn);
        tsn.since(first).wrapping_add(1)
    }

    fn take(&mut self, time: Time, event: &TraceEvent, shown: bool) {
        let at = |y: f64| Point::new(time.as_secs_f64(), y);
        match *event {
            TraceEvent::ChunkSent {
                tsn,
                path,
                transmission,
                ..
            } => {
                let number = self.number(tsn);
                let Some(path) = self.paths.get_mut(&path).filter(|_| shown) else {
                    return;
                };
                let list = if transmission > 1 {
                    &mut path.again
                } else {
                    &mut path.first
                };
                list.push(at(f64::from(number)));
            }
            TraceEvent::ChunkAcked { tsn } => {
                let number = self.number(tsn);
                self.acknowledged(number, at, shown);
            }
            TraceEvent::LossDetected { tsn } => {
                let number = self.number(tsn);
                if shown {
                    self.losses.push(at(f64::from(number)));
                }
            }
            _ if !shown => {}
            TraceEvent::Timeout { path } => {
                let Some(path) = self.paths.get_mut(&path) else {
                    return;
                };
                path.timeouts.push(at(0.0));
            }
            TraceEvent::Window {
                path,
                cwnd,
                ssthresh,
                flight_size,
            } => {
                let Some(path) = self.paths.get_mut(&path) else {
                    return;
                };
                let kilobytes = |bytes: usize| at(bytes as f64 / 1e3);
                changed(&mut path.cwnd, kilobytes(cwnd));
                changed(&mut path.ssthresh, kilobytes(ssthresh));
                changed(&mut path.outstanding, kilobytes(flight_size));
            }
            TraceEvent::RoundTrip { path, nanos } => {
                let Some(path) = self.paths.get_mut(&path) else {
                    return;
                };
                path.round_trips.push(at(nanos as f64 / 1e6));
            }
            TraceEvent::Rto { path, nanos } => {
                let Some(path) = self.paths.get_mut(&path) else {
                    return;
                };
                path.rto.push(at(nanos as f64 / 1e6));
            }
            TraceEvent::ChunkReceived { .. } | TraceEvent::SackSent { .. } => {}
        }
    }

    /// A chunk was acknowledged: by the cumulative TSN if all before are, else by a gap block.
    fn acknowledged(&mut self, number: u32, at: impl Fn(f64) -> Point, shown: bool) {
        self.above.insert(number);
        let before = self.next;
        while self.above.remove(&(self.next + 1)) {
            self.next += 1;
        }
        if !shown {
            return;
        }
        if self.next > before {
            // Several chunks of one SACK are one step.
            let point = at(f64::from(self.next));
            match self.cumulative.last_mut() {
                Some(last) if last.x.to_bits() == point.x.to_bits() => *last = point,
                _ => self.cumulative.push(point),
            }
        } else {
            self.gaps.push(at(f64::from(number)));
        }
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut row = |id: &str, label: &str, unit: &str, value: f64| {
            rows.push(Row::new(id, label, unit).measured(&[value]));
        };
        for (id, path) in &self.paths {
            let (n, remote) = (id.0, path.remote);
            let mut count = |id: &str, label: &str, values: &[Point]| {
                let label = format!("path {n} ({remote}): {label}");
                row(&format!("path{n}.{id}"), &label, "", values.len() as f64);
            };
            count("first", "first transmissions", &path.first);
            count("again", "retransmissions", &path.again);
            count("timeouts", "expirations of T3-rtx", &path.timeouts);
            let most = path.cwnd.iter().map(|p| p.y).fold(0.0, f64::max);
            row(
                &format!("path{n}.cwnd"),
                &format!("path {n} ({remote}): largest cwnd"),
                "kB",
                most,
            );
        }
        row(
            "losses",
            "chunks found lost before T3-rtx",
            "",
            self.losses.len() as f64,
        );
        row(
            "gaps",
            "chunks acknowledged by gap blocks",
            "",
            self.gaps.len() as f64,
        );
        rows
    }

    fn figures(&self, [from, to]: [Duration; 2]) -> Vec<Figure> {
        let time = Axis::linear("time", "s").range(from.as_secs_f64(), to.as_secs_f64());
        let mut figures = vec![self.sequence(&time)];
        for (id, path) in &self.paths {
            if !path.cwnd.is_empty() {
                figures.push(windows(*id, path, &time));
            }
            if !path.rto.is_empty() {
                figures.push(times(*id, path, &time));
            }
        }
        figures.push(self.states(&time));
        figures
    }

    fn sequence(&self, time: &Axis) -> Figure {
        let series = |label: String, kind, style, points: &[Point]| Series {
            label,
            kind,
            style,
            points: points.to_vec(),
        };
        let mut all = Vec::new();
        if !self.cumulative.is_empty() {
            all.push(series(
                "cumulative acknowledgement".into(),
                Draw::Step,
                5,
                &self.cumulative,
            ));
        }
        for (place, (id, path)) in self.paths.iter().enumerate() {
            if !path.first.is_empty() {
                let label = format!("first transmission, path {}", id.0);
                all.push(series(label, Draw::Points, 2 * place, &path.first));
            }
        }
        if !self.gaps.is_empty() {
            all.push(series(
                "gap acknowledgement".into(),
                Draw::Points,
                5,
                &self.gaps,
            ));
        }
        for (place, (id, path)) in self.paths.iter().enumerate() {
            if !path.again.is_empty() {
                let label = format!("retransmission, path {}", id.0);
                all.push(series(label, Draw::Points, 2 * place + 1, &path.again));
            }
        }
        if !self.losses.is_empty() {
            all.push(series("found lost".into(), Draw::Points, 3, &self.losses));
        }
        Figure {
            id: "sequence".into(),
            title: "TSNs over time".into(),
            caption:
                "What left the sender and what it learnt of its fate; chunks are counted from 1."
                    .into(),
            x: time.clone(),
            y: Axis::linear("TSN", "chunks from the first"),
            series: all,
            references: Vec::new(),
        }
    }

    fn states(&self, time: &Axis) -> Figure {
        let series = self
            .paths
            .iter()
            .enumerate()
            .map(|(place, (id, path))| Series {
                label: format!("path {} ({})", id.0, path.remote),
                kind: Draw::Step,
                style: place,
                points: path.states.clone(),
            });
        Figure {
            id: "states".into(),
            title: "States of the paths".into(),
            caption: "As the sender sees them.".into(),
            x: time.clone(),
            y: Axis::linear(
                "state",
                "0 unconfirmed, 1 inactive, 2 potentially failed, 3 active, 4 primary",
            )
            .range(0.0, 4.0),
            series: series.collect(),
            references: Vec::new(),
        }
    }
}

/// Adds a point where the value is another one.
fn changed(points: &mut Vec<Point>, point: Point) {
    match points.last_mut() {
        Some(last) if last.y.to_bits() == point.y.to_bits() => {}
        Some(last) if last.x.to_bits() == point.x.to_bits() => *last = point,
        _ => points.push(point),
    }
}

fn windows(id: PathId, path: &PathLog, time: &Axis) -> Figure {
    let largest = path
        .cwnd
        .iter()
        .chain(&path.outstanding)
        .map(|p| p.y)
        .fold(0.0, f64::max);
    // Before the first loss it is beyond all that is sent.
    let bounded: Vec<Point> = path
        .ssthresh
        .iter()
        .map(|p| Point::new(p.x, if p.y > 1.5 * largest { f64::NAN } else { p.y }))
        .collect();
    let series = |label: &str, kind, style, points: Vec<Point>| Series {
        label: label.into(),
        kind,
        style,
        points,
    };
    let mut all = vec![
        series("outstanding", Draw::Trace, 2, steps(&path.outstanding)),
        series("cwnd", Draw::Step, 0, path.cwnd.clone()),
    ];
    if bounded.iter().any(|p| p.y.is_finite()) {
        all.push(series("ssthresh", Draw::Step, 1, bounded));
    }
    let timeouts: Vec<Point> = path.timeouts.clone();
    if !timeouts.is_empty() {
        all.push(series("T3-rtx expired", Draw::Points, 3, timeouts));
    }
    Figure {
        id: format!("path{}-window", id.0),
        title: format!("Windows of path {} ({})", id.0, path.remote),
        caption:
            "Congestion window, slow-start threshold where it is in sight, and outstanding bytes."
                .into(),
        x: time.clone(),
        y: Axis::linear("bytes", "kB").from(0.0),
        series: all,
        references: Vec::new(),
    }
}

/// A thin line that keeps each value until the next point.
fn steps(points: &[Point]) -> Vec<Point> {
    let mut all = Vec::with_capacity(2 * points.len());
    let mut before: Option<Point> = None;
    for point in points {
        all.extend(before.map(|before| Point::new(point.x, before.y)));
        all.push(*point);
        before = Some(*point);
    }
    all
}

fn times(id: PathId, path: &PathLog, time: &Axis) -> Figure {
    let mut series = vec![Series {
        label: "RTO".into(),
        kind: Draw::Step,
        style: 1,
        points: path.rto.clone(),
    }];
    if !path.round_trips.is_empty() {
        series.push(Series {
            label: "round trip of data".into(),
            kind: Draw::Points,
            style: 0,
            points: path.round_trips.clone(),
        });
    }
    Figure {
        id: format!("path{}-rtt", id.0),
        title: format!("Round trips of path {} ({})", id.0, path.remote),
        caption: "Samples of data, and the retransmission timeout, which heartbeats change, too."
            .into(),
        x: time.clone(),
        y: Axis::linear("time", "ms").from(0.0),
        series,
        references: Vec::new(),
    }
}
