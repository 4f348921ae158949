//! `carrick perf client`: requests a measurement from a server.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::OutputArguments;
use super::files::FileArguments;
use super::flow::Flow;
use super::interval::IntervalSum;
use super::report::Reporter;
use super::request::{
    Direction, MAX_DURATION, MAX_PARALLEL, MAX_SIZE, MeasurementRequest, TransferExtent, VERSION,
};
use super::results::{Summary, SummarySum};
use super::session::{Session, SessionEnd};
use crate::endpoint::{self, EndpointArguments, OpenedEndpoint, PeerArguments};
use crate::failure::Failure;
use crate::runtime::{interrupted, until_signal};
use crate::units;

/// Measure with a server.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Addresses or name of the server, several separated by commas.
    #[arg(value_name = "PEER[,PEER...]")]
    peer: String,
    /// SCTP port of the server.
    #[arg(short, long, value_name = "N", default_value_t = super::DEFAULT_PORT)]
    port: u16,
    /// Duration of the transfer, at most 24 h; 0: until Ctrl-C. A number without a unit is in s.
    #[arg(short = 't', long, visible_alias = "time", value_name = "TIME", value_parser = transfer_time,
          default_value = "10s")]
    seconds: Duration,
    /// Time before the transfer is counted, in addition to its duration: slow start is not part of the result. A number
    /// without a unit is in s.
    #[arg(short = 'O', long, value_name = "TIME", value_parser = transfer_time, default_value = "0",
          conflicts_with = "bytes")]
    omit: Duration,
    /// Number of bytes to send in each direction, instead of a duration.
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = units::bytes, conflicts_with = "seconds")]
    bytes: Option<u64>,
    /// Message size.
    #[arg(short, long, value_name = "BYTES", value_parser = size, default_value = "64K")]
    size: u32,
    /// Number of associations that transfer at the same time, at most 128.
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_PARALLEL)))]
    parallel: u16,
    /// Number of streams that carry the messages of each association.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=65_534))]
    streams: u16,
    /// Rate of each sender in bit/s, e.g. 5M or 1.5Gbit/s; 0: unlimited. Message n is due at n × size × 8 / rate. After a
    /// stall, a sender catches up with at most 100 ms of its schedule; messages that are overdue by more shift to
    /// later times.
    #[arg(short, long, value_name = "RATE", value_parser = bitrate, default_value = "0")]
    bitrate: u64,
    /// Send unordered messages.
    #[arg(long)]
    unordered: bool,
    /// The server sends data to the client.
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    reverse: bool,
    /// Both sides send at the same time.
    #[arg(long)]
    bidir: bool,
    /// Send a flow, at most 64 of them at the same time, e.g. stream=1,size=uniform:100:1400,interval=exponential:20ms.
    /// Keys: stream, size, interval or rate, on and off, messages, unordered, lifetime or retransmissions, respond,
    /// reverse; see docs/guide/measuring.md.
    #[arg(long = "flow", value_name = "KEY=VALUE,...", value_parser = Flow::parse,
          conflicts_with_all = ["bytes", "size", "streams", "bitrate", "unordered", "reverse", "bidir"])]
    flows: Vec<Flow>,
    /// Random seed of sizes, intervals and order of the flows. Without it, a random one, which is printed.
    #[arg(long, value_name = "N", requires = "flows")]
    seed: Option<u64>,
    #[command(flatten)]
    files: FileArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    to: PeerArguments,
    #[command(flatten)]
    endpoint: EndpointArguments,
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Parses the duration of a transfer.
fn transfer_time(text: &str) -> Result<Duration, String> {
    match units::seconds(text)? {
        time if time > MAX_DURATION => Err("must be at most 24 h (86400)".into()),
        time => Ok(time),
    }
}

/// Parses a rate in bit/s; 0 stands for unlimited.
fn bitrate(text: &str) -> Result<u64, String> {
    match text {
        "0" => Ok(0),
        _ => units::rate(text),
    }
}

fn size(text: &str) -> Result<u32, String> {
    match u32::try_from(units::length(text)?) {
        Ok(size) if size <= MAX_SIZE => Ok(size),
        _ => Err("must be at most 1 GiB".into()),
    }
}

impl Arguments {
    fn request(&self) -> MeasurementRequest {
        let largest = |size: fn(&Flow) -> u32| self.flows.iter().map(size).max();
        let last_stream = self.flows.iter().map(Flow::last_stream).max();
        // The hasher has random keys.
        let random = || RandomState::new().build_hasher().finish();
        MeasurementRequest {
            version: VERSION,
            direction: match (self.reverse, self.bidir) {
                _ if !self.flows.is_empty() => MeasurementRequest::direction_of(&self.flows),
                (_, true) => Direction::Both,
                (true, false) => Direction::ToClient,
                (false, false) => Direction::ToServer,
            },
            extent: match self.bytes {
                Some(bytes) => TransferExtent::Bytes(bytes),
                None if self.seconds.is_zero() => {
                    TransferExtent::Milliseconds(milliseconds(MAX_DURATION))
                }
                None => TransferExtent::Milliseconds(milliseconds(self.seconds)),
            },
            size: largest(Flow::max_size).unwrap_or(self.size),
            streams: last_stream.unwrap_or(self.streams),
            unordered: self.unordered,
            bitrate: self.bitrate,
            omit: milliseconds(self.omit),
            parallel: self.parallel,
            group: random(),
            association: 0,
            flows: self.flows.clone(),
            // Short enough to be typed.
            seed: self.seed.unwrap_or_else(|| random() % 1_000_000_000),
            series: if self.files.needs_series().is_some() {
                milliseconds(self.output.interval)
            } else {
                0
            },
        }
    }

    /// Checks the options that only a single association can have.
    fn check_parallel(&self) -> Result<(), Failure> {
        if self.parallel == 1 {
            return Ok(());
        }
        if self.endpoint.udp_port.is_some_and(|port| port > 0) {
            return Err(Failure::Usage(
                "with --parallel, each association has its own UDP port: use --udp-port 0 or leave it out".into(),
            ));
        }
        Ok(())
    }

    /// Checks that there are intervals for the files.
    fn check_files(&self) -> Result<(), Failure> {
        match self.files.needs_series() {
            Some(option) if self.output.interval.is_zero() => Err(Failure::Usage(format!(
                "{option} needs intervals: use an --interval of 0.1 s to 24 h, or leave it out"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the failure of a peer that does not reply.
    fn no_reply(&self) -> Failure {
        Failure::Run(format!(
            "{} port {} does not reply to the request in {:?}: is it carrick perf server? It may also need longer \
             (--connect-timeout)",
            self.peer, self.port, self.to.connect_timeout
        ))
    }
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    // The number of streams is known with the association.
    let request = arguments.request();
    request.check(u16::MAX).map_err(Failure::Usage)?;
    arguments.check_parallel()?;
    arguments.check_files()?;
    let peers = endpoint::resolve(&arguments.peer).await?;
    // An endpoint has one association with a peer.
    let open = |_| {
        let streams = request.streams + 1;
        arguments.endpoint.open_towards(&peers, streams)
    };
    let opened: Vec<_> = (0..request.parallel).map(open).collect::<Result<_, _>>()?;
    let mut tasks = JoinSet::new();
    let mut done = measure(arguments, &request, &opened, &peers, &mut tasks).await;
    // Before the endpoints are closed, which would shut the associations of tasks that still run down.
    tasks.shutdown().await;
    for opened in opened {
        done = endpoint::with(opened.endpoint, async { done }).await;
    }
    done
}

/// Result of a task.
type MeasurementResult = Result<SessionEnd, Failure>;

/// Measures with each association in a task. Handles signals, as the tasks report what was transferred until then.
async fn measure(
    arguments: &Arguments,
    request: &MeasurementRequest,
    opened: &[OpenedEndpoint],
    peers: &[IpAddr],
    tasks: &mut JoinSet<MeasurementResult>,
) -> Result<(), Failure> {
    let associations = opened.len();
    let is_parallel = associations > 1;
    let sum = is_parallel.then(|| Arc::new(Mutex::new(IntervalSum::new(associations))));
    let all = Arc::new(Barrier::new(associations));
    let of_all = Reporter {
        json: arguments.output.json,
        intervals: arguments.output.intervals(),
        through_daemon: opened.iter().any(|o| o.through_daemon),
        test: 0,
        sum,
        files: arguments
            .files
            .prepare(arguments.output.interval)?
            .map(|files| Arc::new(Mutex::new(files))),
    };
    let mut sessions = Vec::new();
    for (test, opened) in (1..).zip(opened) {
        let reporter = Reporter {
            test,
            ..of_all.clone()
        };
        let request = MeasurementRequest {
            // The number of associations is limited.
            association: test as u16 - 1,
            ..request.clone()
        };
        let session = prepare(arguments, opened, peers, &request, &reporter);
        sessions.push((until_signal(session).await?, reporter, request));
    }
    for (session, reporter, request) in sessions {
        let (all, no_reply) = (Arc::clone(&all), arguments.no_reply());
        let limit = arguments.to.connect_timeout;
        tasks.spawn(async move {
            let sender = session.sender();
            let measured = measure_one(session, &request, &reporter, &all, limit, no_reply).await;
            measured.map_err(|failure| endpoint::with_undelivered(failure, &sender))
        });
    }
    let mut ends = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let failed = |e| Failure::Run(format!("a measurement failed: {e}"));
        ends.push(done.map_err(failed)??);
    }
    let done = finish(&ends, request, &of_all);
    of_all.finish_files(&done)?;
    done
}

/// Sets up an association and requests the measurement.
async fn prepare(
    arguments: &Arguments,
    opened: &OpenedEndpoint,
    peers: &[IpAddr],
    request: &MeasurementRequest,
    reporter: &Reporter,
) -> Result<Session, Failure> {
    let association = arguments
        .to
        .connect(&opened.endpoint, peers, arguments.port)
        .await?;
    request
        .check(association.control().outbound_streams())
        .map_err(Failure::Run)?;
    let addresses = association.control().peer_addresses().to_vec();
    let extensions = association.control().extensions();
    reporter.begin(&addresses, arguments.port, extensions, request)?;
    let is_parallel = request.parallel > 1;
    let role = request.client_role();
    let mut session = Session::new(
        association,
        request.clone(),
        role,
        Box::new(move || is_parallel),
    )?;
    let sender = session.sender();
    let reply = tokio::time::timeout(arguments.to.connect_timeout, session.ask()).await;
    let reply = reply.unwrap_or_else(|_| Err(arguments.no_reply()));
    let host = reply.map_err(|failure| endpoint::with_undelivered(failure, &sender))?;
    reporter.server(&addresses, arguments.port, &host)?;
    Ok(session)
}

/// Measures with one association, and reports its result.
async fn measure_one(
    mut session: Session,
    request: &MeasurementRequest,
    reporter: &Reporter,
    all: &Barrier,
    limit: Duration,
    no_reply: Failure,
) -> MeasurementResult {
    let started = until_signal(async {
        let started = tokio::time::timeout(limit, session.start(all)).await;
        started.unwrap_or(Err(no_reply))
    });
    started.await?;
    let mut end = session.run(reporter).await?;
    if let SessionEnd::Failed(reason, _) = &mut end {
        *reason += &endpoint::undelivered_text(&session.sender());
    }
    match &end {
        SessionEnd::Complete(outcome) => {
            reporter.summary(&Summary::new(request, outcome, true))?;
            until_signal(session.shut_down()).await?;
        }
        SessionEnd::Failed(reason, _) => reporter.failed(reason)?,
        SessionEnd::Interrupted(..) => {}
    }
    Ok(end)
}

/// Reports the sum of several associations.
fn finish(
    ends: &[SessionEnd],
    request: &MeasurementRequest,
    reporter: &Reporter,
) -> Result<(), Failure> {
    reporter.last_sum_interval(request.client_role())?;
    let (mut summaries, mut partial, mut failure) = (Vec::new(), Vec::new(), None);
    for end in ends {
        match end {
            SessionEnd::Complete(outcome) => summaries.push(Summary::new(request, outcome, true)),
            SessionEnd::Interrupted(signal, result) => {
                partial.push(result.clone());
                failure = Some(interrupted(*signal));
            }
            SessionEnd::Failed(reason, result) => {
                partial.push(result.clone());
                failure.get_or_insert_with(|| Failure::Run(reason.clone()));
            }
        }
    }
    let is_parallel = ends.len() > 1;
    if let Some(failure) = failure {
        if let Some(sum) = partial.into_iter().reduce(|a, b| a.with(&b))
            && is_parallel
        {
            reporter.interrupted_sum(&sum)?;
        }
        return Err(failure);
    }
    if let Some(sum) = SummarySum::new(&summaries)
        && is_parallel
    {
        reporter.sum(&sum)?;
    }
    Ok(())
}
