//! Output of the demonstration: a live view on a terminal, otherwise lines, or JSON objects, one per line.

use std::io::{Write, stdout};
use std::time::Duration;

use carrick::{Event, PathId, PathStatus};
use console::Style;
use serde::Serialize;

use super::network::{DELAY, NetworkAddresses};
use super::stream::{INTERVAL, MESSAGE_BYTES, MESSAGES, StreamCounts};
use crate::failure::Failure;
use crate::terminal::LiveView;

/// One of the two endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) enum EndpointName {
    A,
    B,
}

/// Decision of an endpoint about its paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PathDecision {
    Confirmed,
    PotentiallyFailed,
    Inactive,
    Recovered,
    SourceChanged,
    CarriesNewData,
    PrimarySwitchover,
    Dormant,
}

impl PathDecision {
    /// Returns the decision that an event reports, with its path; `None` for other events.
    pub(super) fn of(event: &Event) -> Option<(Self, Option<PathId>)> {
        let (decision, path) = match event {
            Event::PathConfirmed(path) => (Self::Confirmed, path),
            Event::PathPotentiallyFailed(path) => (Self::PotentiallyFailed, path),
            Event::PathFailed(path) => (Self::Inactive, path),
            Event::PathRecovered(path) => (Self::Recovered, path),
            Event::PathLocalAddressChanged(path) => (Self::SourceChanged, path),
            Event::PrimaryChanged(path) => (Self::CarriesNewData, path),
            Event::PrimarySwitchover(path) => (Self::PrimarySwitchover, path),
            Event::Dormant => return Some((Self::Dormant, None)),
            _ => return None,
        };
        Some((decision, Some(*path)))
    }

    fn text(self) -> &'static str {
        match self {
            Self::Confirmed => "is confirmed",
            Self::PotentiallyFailed => "is potentially failed",
            Self::Inactive => "is inactive",
            Self::Recovered => "is active again",
            Self::SourceChanged => "has another source address",
            Self::CarriesNewData => "carries new data now",
            Self::PrimarySwitchover => "is the primary path now",
            Self::Dormant => "all paths are inactive",
        }
    }
}

/// State of a path at one endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PathStateName {
    Unconfirmed,
    Inactive,
    PotentiallyFailed,
    Active,
}

impl From<PathStatus> for PathStateName {
    fn from(status: PathStatus) -> Self {
        match status {
            PathStatus {
                confirmed: false, ..
            } => Self::Unconfirmed,
            PathStatus { active: false, .. } => Self::Inactive,
            PathStatus {
                potentially_failed: true,
                ..
            } => Self::PotentiallyFailed,
            _ => Self::Active,
        }
    }
}

impl PathStateName {
    fn text(self) -> &'static str {
        match self {
            Self::Unconfirmed => "unconfirmed",
            Self::Inactive => "inactive",
            Self::PotentiallyFailed => "potentially failed",
            Self::Active => "active",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Active => Style::new().green(),
            _ => Style::new().yellow(),
        }
    }
}

/// A path at one endpoint.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct PathSample {
    pub(super) state: PathStateName,
    pub(super) carries_new_data: bool,
    /// Rate of SCTP packets sent, within the last second.
    pub(super) bits_per_second: f64,
    /// Smoothed round-trip time in seconds.
    pub(super) srtt: Option<f64>,
}

/// A network with the path through it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct NetworkSample {
    /// Number of the network and of the path, from 1.
    pub(super) path: usize,
    pub(super) network: NetworkState,
    pub(super) a: Option<PathSample>,
    pub(super) b: Option<PathSample>,
}

/// State of a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NetworkState {
    Up,
    Cut,
}

impl NetworkState {
    pub(super) fn new(is_cut: bool) -> Self {
        if is_cut { Self::Cut } else { Self::Up }
    }
}

/// Messages of one direction.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct DirectionSample {
    #[serde(flatten)]
    pub(super) counts: StreamCounts,
    /// Longest time without a received message in seconds.
    pub(super) longest_silence: f64,
}

/// State of everything at one time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct DemoSample {
    pub(super) paths: [NetworkSample; 2],
    pub(super) a_to_b: DirectionSample,
    pub(super) b_to_a: DirectionSample,
}

/// End of the demonstration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DemoOutcome {
    /// All messages were received.
    Complete,
    /// Messages were not received within the limit, or the association ended before.
    Incomplete,
    /// A signal ended the program.
    Interrupted,
}

/// Result of the demonstration.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DemoSummary {
    pub(super) outcome: DemoOutcome,
    pub(super) a_to_b: DirectionSample,
    pub(super) b_to_a: DirectionSample,
    pub(super) cuts: Vec<CutSummary>,
}

/// A cut of a network, with its effect on the messages.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CutSummary {
    pub(super) path: usize,
    /// Time in seconds.
    pub(super) start: f64,
    /// `None` if the network was still cut at the end.
    pub(super) end: Option<f64>,
    /// Packets that the network discarded.
    pub(super) packets_discarded: u64,
    pub(super) longest_delay: DirectionDelays,
}

/// Longest delays of messages in seconds; `None` without messages.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct DirectionDelays {
    pub(super) a_to_b: Option<f64>,
    pub(super) b_to_a: Option<f64>,
}

/// Returns a time in seconds, to a tenth of a millisecond.
pub(super) fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 1e4
}

/// Prints the demonstration.
#[derive(Debug)]
pub(super) enum Reporter {
    Json,
    Lines,
    Screen(LiveView),
}

impl Reporter {
    pub(super) fn new(json: bool) -> Self {
        match LiveView::new() {
            _ if json => Self::Json,
            Some(view) => Self::Screen(view),
            None => Self::Lines,
        }
    }

    /// Reports the start.
    pub(super) fn start(&mut self, networks: [NetworkAddresses; 2]) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Start {
            /// The networks are part of this process.
            emulated: bool,
            /// Delay of each direction in seconds.
            network_delay: f64,
            messages: usize,
            message_bytes: usize,
            message_interval: f64,
            networks: [NetworkDescription; 2],
        }
        #[derive(Serialize)]
        struct NetworkDescription {
            path: usize,
            a: std::net::IpAddr,
            b: std::net::IpAddr,
        }
        let start = Start {
            emulated: true,
            network_delay: seconds(DELAY),
            messages: MESSAGES,
            message_bytes: MESSAGE_BYTES,
            message_interval: seconds(INTERVAL),
            networks: [0, 1].map(|index| NetworkDescription {
                path: index + 1,
                a: networks[index].a,
                b: networks[index].b,
            }),
        };
        self.print("start", 0.0, &start, || {
            let mut lines = vec![
                "Two SCTP endpoints, A and B, with a path through each of two networks, which".into(),
                format!(
                    "are emulated in this process: UDP on loopback, {} ms in each direction.",
                    DELAY.as_millis()
                ),
                format!(
                    "Each endpoint sends {MESSAGES} messages of {MESSAGE_BYTES} bytes, one each {} ms.",
                    INTERVAL.as_millis()
                ),
            ];
            for (network, primary_of) in start.networks.iter().zip(["A", "B"]) {
                lines.push(format!(
                    "Path {}: {} - {}, primary path of {primary_of}",
                    network.path, network.a, network.b
                ));
            }
            lines.push(String::new());
            lines
        })
    }

    /// Reports that a network was cut or repaired.
    pub(super) fn network(
        &mut self,
        time: f64,
        network: usize,
        state: NetworkState,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct NetworkChange {
            path: usize,
            state: NetworkState,
        }
        let path = network + 1;
        self.print("network", time, &NetworkChange { path, state }, || {
            let (text, style) = match state {
                NetworkState::Cut => ("is cut", Style::new().red().bold()),
                NetworkState::Up => ("is repaired", Style::new().green().bold()),
            };
            let text = style.apply_to(format!("network {path} {text}"));
            vec![format!("{time:7.3} s  {text}")]
        })
    }

    /// Reports what an endpoint decided; `network` is that of the path.
    pub(super) fn decision(
        &mut self,
        time: f64,
        endpoint: EndpointName,
        decision: PathDecision,
        network: Option<usize>,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Decided {
            endpoint: EndpointName,
            path: Option<usize>,
            decision: PathDecision,
        }
        let path = network.map(|network| network + 1);
        let decided = Decided {
            endpoint,
            path,
            decision,
        };
        self.print("decision", time, &decided, || {
            let path = path.map_or(String::new(), |path| format!("path {path} "));
            let text = decision.text();
            vec![format!("{time:7.3} s  {endpoint:?}: {path}{text}")]
        })
    }

    /// Reports the present state: the live view shows each one, JSON has one a second, and lines have none.
    pub(super) fn sample(
        &mut self,
        time: f64,
        sample: &DemoSample,
        is_full_second: bool,
    ) -> Result<(), Failure> {
        match self {
            Self::Json if is_full_second => self.print("sample", time, sample, Vec::new),
            Self::Json | Self::Lines => Ok(()),
            Self::Screen(view) => {
                view.live = live_lines(time, sample);
                Ok(view.draw(&[])?)
            }
        }
    }

    /// Reports the result and, after a complete run, commands to try next.
    pub(super) fn summary(
        &mut self,
        time: f64,
        summary: &DemoSummary,
        program: &str,
    ) -> Result<(), Failure> {
        if let Self::Screen(view) = self {
            view.live.clear();
        }
        self.print("summary", time, summary, || {
            let mut lines = summary.lines();
            if summary.outcome == DemoOutcome::Complete {
                lines.extend(next_commands(program));
            }
            lines
        })
    }

    fn print<T: Serialize>(
        &mut self,
        event: &'static str,
        time: f64,
        what: &T,
        lines: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Line<'a, T> {
            event: &'static str,
            time: f64,
            #[serde(flatten)]
            what: &'a T,
        }
        let text = match self {
            Self::Json => {
                let line = Line { event, time, what };
                let json = serde_json::to_string(&line);
                let json = json
                    .map_err(|e| Failure::Run(format!("cannot write the result as JSON: {e}")))?;
                json + "\n"
            }
            Self::Lines => joined(&lines()),
            Self::Screen(view) => return Ok(view.draw(&lines())?),
        };
        let mut out = stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }
}

/// Joins lines, each with its newline.
fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

impl DemoSummary {
    fn lines(&self) -> Vec<String> {
        let directions = [&self.a_to_b, &self.b_to_a];
        let [to_b, to_a] = directions.map(|d| d.counts);
        let rest = match self.outcome {
            DemoOutcome::Complete => "0 lost",
            DemoOutcome::Incomplete => "the rest was not received",
            DemoOutcome::Interrupted => "the rest was under way",
        };
        let repeated = to_b.repeated + to_a.repeated;
        let out_of_order = to_b.out_of_order + to_a.out_of_order;
        let [silence_to_b, silence_to_a] = directions.map(|d| d.longest_silence);
        let mut lines = vec![
            String::new(),
            format!(
                "Messages received  A to B {} of {}, B to A {} of {}",
                to_b.received, to_b.sent, to_a.received, to_a.sent
            ),
            format!("                   {rest}, {repeated} repeated, {out_of_order} out of order"),
            format!("Longest silence    A to B {silence_to_b:.2} s, B to A {silence_to_a:.2} s"),
            "Longest delay of a message".into(),
        ];
        lines.extend(self.cuts.iter().map(CutSummary::line));
        lines
    }
}

impl CutSummary {
    fn line(&self) -> String {
        let period = match self.end {
            Some(end) => format!("{:.1} to {end:.1} s", self.start),
            None => format!("from {:.1} s on", self.start),
        };
        let delay = |delay: Option<f64>| delay.map_or("-".into(), |d| format!("{d:.2} s"));
        format!(
            "  network {} cut ({period}): A to B {}, B to A {}; {} packets lost",
            self.path,
            delay(self.longest_delay.a_to_b),
            delay(self.longest_delay.b_to_a),
            self.packets_discarded
        )
    }
}

/// Returns the commands to try next; `program` is this one, as it was started.
fn next_commands(program: &str) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        "Next, in two terminals: each line typed in one is printed in the other.".into(),
        format!("  {program} cat -l 5000"),
        format!("  {program} cat 127.0.0.1 5000"),
        "Throughput between two hosts, with all addresses of the server for failover:".into(),
        format!("  {program} perf server"),
        format!("  {program} perf client ADDR,ADDR"),
    ];
    if cfg!(target_os = "linux") {
        lines.push(
            "Programs that use the SCTP sockets of Linux, unmodified (docs/sockets.md):".into(),
        );
        lines.push(format!("  {program} run -- PROGRAM"));
    }
    lines
}

/// Returns the live view: a line for each path and for each direction.
fn live_lines(time: f64, sample: &DemoSample) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!(
            "{time:5.1} s  net  {:<26}  {:<26}  RTT",
            "state and kbit/s of A", "state and kbit/s of B"
        ),
    ];
    for path in &sample.paths {
        let (network, style) = match path.network {
            NetworkState::Up => ("up", Style::new().green()),
            NetworkState::Cut => ("CUT", Style::new().red().bold()),
        };
        // Data has been measured where it is sent.
        let mut ends = [path.a, path.b].map(|end| end.map(|e| (e.carries_new_data, e.srtt)));
        ends.sort_by_key(|end| end.is_none_or(|(carries, _)| !carries));
        let srtt = ends.into_iter().flatten().find_map(|(_, srtt)| srtt);
        let srtt = srtt.map_or("-".into(), |srtt| format!("{:.1} ms", srtt * 1e3));
        lines.push(format!(
            "path {}   {}  {}  {}  {srtt}",
            path.path,
            style.apply_to(format!("{network:<3}")),
            end_of_path(path.a),
            end_of_path(path.b)
        ));
    }
    lines.push("         > carries new data".into());
    for (name, direction) in [("A to B", &sample.a_to_b), ("B to A", &sample.b_to_a)] {
        let DirectionSample {
            counts,
            longest_silence,
        } = direction;
        lines.push(format!(
            "{name}   {:>3} of {:>3} messages received, longest silence {longest_silence:.2} s",
            counts.received, counts.sent
        ));
    }
    lines
}

/// Returns the columns of a path at one endpoint, 26 wide.
fn end_of_path(path: Option<PathSample>) -> String {
    let Some(path) = path else {
        return format!("{:<26}", "-");
    };
    let mark = if path.carries_new_data { '>' } else { ' ' };
    let state = path.state.style();
    let state = state.apply_to(format!("{mark}{:<18}", path.state.text()));
    format!("{state} {:>6.1}", path.bits_per_second / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(state: PathStateName, carries_new_data: bool, srtt: Option<f64>) -> PathSample {
        PathSample {
            state,
            carries_new_data,
            bits_per_second: 87_654.3,
            srtt,
        }
    }

    fn direction(received: usize) -> DirectionSample {
        DirectionSample {
            counts: StreamCounts {
                sent: MESSAGES,
                received,
                ..StreamCounts::default()
            },
            longest_silence: 12.345,
        }
    }

    #[test]
    fn the_live_view_has_80_columns() {
        let worst = Some(path(PathStateName::PotentiallyFailed, true, Some(0.1234)));
        let network = |index: usize| NetworkSample {
            path: index + 1,
            network: NetworkState::Cut,
            a: worst,
            b: worst,
        };
        let sample = DemoSample {
            paths: [0, 1].map(network),
            a_to_b: direction(MESSAGES),
            b_to_a: direction(1),
        };
        let lines = live_lines(15.0, &sample);
        for line in &lines {
            assert!(console::measure_text_width(line) <= 80, "{line:?}");
        }
        assert!(lines[2].contains("CUT"), "{lines:?}");
        assert!(lines[2].contains(">potentially failed   87.7"), "{lines:?}");
    }

    #[test]
    fn the_round_trip_is_that_of_data() {
        let sample = |a, b| DemoSample {
            paths: [1, 2].map(|path| NetworkSample {
                path,
                network: NetworkState::Up,
                a,
                b,
            }),
            a_to_b: direction(0),
            b_to_a: direction(0),
        };
        let of = |carries, srtt| Some(path(PathStateName::Active, carries, srtt));
        for (a, b, shown) in [
            (of(true, Some(0.02)), of(false, Some(0.03)), "20.0 ms"),
            (of(false, Some(0.02)), of(true, Some(0.03)), "30.0 ms"),
            (of(true, None), of(false, Some(0.03)), "30.0 ms"),
            (of(false, None), None, "-"),
        ] {
            let lines = live_lines(1.0, &sample(a, b));
            assert!(lines[2].ends_with(shown), "{lines:?}");
        }
    }

    #[test]
    fn a_summary_names_each_cut() {
        let delays = DirectionDelays {
            a_to_b: Some(0.456),
            b_to_a: None,
        };
        let cut = CutSummary {
            path: 2,
            start: 9.0,
            end: None,
            packets_discarded: 7,
            longest_delay: delays,
        };
        let summary = DemoSummary {
            outcome: DemoOutcome::Interrupted,
            a_to_b: direction(MESSAGES),
            b_to_a: direction(740),
            cuts: vec![cut],
        };
        let text = joined(&summary.lines());
        assert!(
            text.contains("A to B 750 of 750, B to A 740 of 750"),
            "{text}"
        );
        assert!(
            text.contains("the rest was under way, 0 repeated"),
            "{text}"
        );
        let line = "network 2 cut (from 9.0 s on): A to B 0.46 s, B to A -; 7 packets lost";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn next_commands_are_those_of_this_program() {
        let lines = next_commands("target/release/carrick");
        assert!(lines.contains(&"  target/release/carrick cat 127.0.0.1 5000".into()));
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:?}");
    }
}
