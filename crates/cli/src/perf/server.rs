//! `carrick perf server`: measures with all clients that connect.

use std::sync::Arc;
use std::time::Duration;

use carrick::{Association, Message};
use clap::Args;
use tokio::task::JoinSet;

use super::OutputArguments;
use super::admission::{MeasurementGuard, RunningMeasurements};
use super::control::send_control;
use super::protocol::{CONTROL, ControlMessage};
use super::receiver::unexpected;
use super::report::Reporter;
use super::request::{MAX_DURATION, MeasurementRequest};
use super::results::Summary;
use super::session::{Session, SessionEnd, ended, lost};
use crate::endpoint::{self, EndpointArguments, OpenedEndpoint};
use crate::failure::Failure;
use crate::runtime::{interrupted, signal_received, until_signal};

/// Maximum number of outbound streams.
const STREAMS: u16 = u16::MAX;

/// Maximum time until the request of a client.
const REQUEST_TIME: Duration = Duration::from_mins(1);

/// Maximum time in which measurements that a signal ends report what was transferred.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// Wait for clients and measure with them.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// SCTP port to listen on.
    #[arg(short, long, value_name = "N", default_value_t = super::DEFAULT_PORT)]
    port: u16,
    /// Exit after one measurement. Associations that request none do not count.
    #[arg(short = '1', long)]
    once: bool,
    #[command(flatten)]
    output: OutputArguments,
    /// Number of threads among which the clients are divided, 1 to 64; each has its share of the endpoint.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    shards: u8,
    #[command(flatten)]
    endpoint: EndpointArguments,
}

impl Arguments {
    /// Returns the number of shards of the endpoint.
    pub(super) fn shards(&self) -> usize {
        self.shards.into()
    }
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let opened = arguments
        .endpoint
        .listen(arguments.port, STREAMS, arguments.shards())?;
    let mut tests = JoinSet::new();
    let served = until_signal(serve(arguments, &opened, &mut tests)).await;
    let signal = tokio::time::timeout(Duration::ZERO, signal_received()).await;
    if signal.is_ok() {
        // The measurements report what was transferred.
        let ended = async { while tests.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(REPORT_TIME, ended).await;
    }
    // Before the endpoint is closed, which would shut the associations of tasks that still run down.
    tests.shutdown().await;
    endpoint::with(opened.endpoint.clone(), async { served }).await
}

async fn serve(
    arguments: &Arguments,
    opened: &OpenedEndpoint,
    tests: &mut JoinSet<Result<ServedClient, Failure>>,
) -> Result<(), Failure> {
    let endpoint = &opened.endpoint;
    let mut reporter = Reporter {
        json: arguments.output.json,
        intervals: arguments.output.intervals(),
        through_daemon: opened.through_daemon,
        test: 0,
        sum: None,
        files: None,
    };
    let closed = |e: carrick::OperationError| Failure::Run(e.to_string());
    let addresses = endpoint.local_addresses().await.map_err(closed)?;
    reporter.listening(&addresses, endpoint.port(), endpoint.encapsulation_port())?;
    let load = Arc::new(RunningMeasurements::default());
    let mut only_client = load.only_client();
    // Associations of the only client, with --once.
    let mut accepted = 0;
    loop {
        let expected = only_client
            .borrow_and_update()
            .map_or(1, |c| c.associations);
        let accepting = !arguments.once || accepted < expected;
        if !accepting && tests.is_empty() {
            return Ok(());
        }
        tokio::select! {
            incoming = endpoint.accept(), if accepting => {
                let Some(incoming) = incoming else {
                    return Err(Failure::Run("the endpoint has closed".into()));
                };
                reporter.test += 1;
                accepted = accepted.saturating_add(1);
                let (load, reporter) = (Arc::clone(&load), reporter.clone());
                tests.spawn(serve_one(incoming.accept(), reporter, load, arguments.once));
            }
            Some(done) = tests.join_next() => {
                let done = done.unwrap_or_else(|e| {
                    Err(Failure::Run(format!("a measurement failed: {e}")))
                });
                match done {
                    Err(failure) if arguments.once => return Err(failure),
                    Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
                    Ok(ServedClient::Other) => accepted = accepted.saturating_sub(1),
                    Err(_) | Ok(ServedClient::Measured) => {}
                }
            }
            Ok(()) = only_client.changed() => {}
        }
    }
}

/// Client of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ServedClient {
    Measured,
    /// Refused, because the server measures with another client only; or it has not requested a measurement.
    Other,
}

async fn serve_one(
    association: Association,
    reporter: Reporter,
    load: Arc<RunningMeasurements>,
    is_once: bool,
) -> Result<ServedClient, Failure> {
    let sender = association.sender();
    let done = measure(association, &reporter, load, is_once).await;
    let done = done.map_err(|failure| endpoint::with_undelivered(failure, &sender));
    if let Err(Failure::Run(reason)) = &done {
        reporter.failed(reason)?;
    }
    done
}

/// Measures with one association. A signal ends each step.
async fn measure(
    mut association: Association,
    reporter: &Reporter,
    load: Arc<RunningMeasurements>,
    is_once: bool,
) -> Result<ServedClient, Failure> {
    let request = match until_signal(receive_request(&mut association)).await {
        Ok(request) => request,
        Err(Failure::Run(reason)) => {
            reporter.failed(&reason)?;
            return Ok(ServedClient::Other);
        }
        Err(failure) => return Err(failure),
    };
    let checked = request.check(association.control().outbound_streams());
    if checked.is_ok() && is_once && !load.is_only_client(&request) {
        let reason = "the server measures with another client only (--once)";
        until_signal(refuse(&mut association, reason)).await?;
        return Ok(ServedClient::Other);
    }
    let running = match checked.and_then(|()| MeasurementGuard::new(load, &request)) {
        Ok(running) => running,
        Err(reason) => {
            until_signal(refuse(&mut association, &reason)).await?;
            return Err(Failure::Run(format!("refused: {reason}")));
        }
    };
    reporter.begin(
        association.control().peer_addresses(),
        association.control().peer_port(),
        association.control().extensions(),
        &request,
    )?;
    let role = request.server_role();
    let mut session = Session::new(
        association,
        request.clone(),
        role,
        Box::new(running.overlap()),
    )?;
    until_signal(session.accept()).await?;
    let end = tokio::time::timeout(MAX_DURATION + REQUEST_TIME, session.run(reporter)).await;
    let end = end.map_err(|_| Failure::Run("the transfer takes longer than 24 h".into()))??;
    match end {
        SessionEnd::Complete(outcome) => {
            reporter.summary(&Summary::new(&request, &outcome, false))?;
        }
        SessionEnd::Interrupted(signal, _) => return Err(interrupted(signal)),
        SessionEnd::Failed(reason, _) => return Err(Failure::Run(reason)),
    }
    until_signal(async {
        session.wait_for_end().await;
        Ok(ServedClient::Measured)
    })
    .await
}

/// Receives the request.
async fn receive_request(association: &mut Association) -> Result<MeasurementRequest, Failure> {
    let message = tokio::time::timeout(REQUEST_TIME, association.recv()).await;
    let message = message.map_err(|_| {
        Failure::Run(format!(
            "no request within {} s: is the peer carrick perf client?",
            REQUEST_TIME.as_secs()
        ))
    })?;
    read_request(message.map_err(|e| lost(&e))?.ok_or_else(ended)?)
}

/// Refuses the request.
async fn refuse(association: &mut Association, reason: &str) -> Result<(), Failure> {
    let refused = ControlMessage::Refused {
        reason: reason.to_owned(),
    };
    send_control(&association.sender(), &refused).await?;
    // The client reads the reason and ends the association; the way it ends does not matter.
    let ended = async { while let Ok(Some(_)) = association.recv().await {} };
    let _ = tokio::time::timeout(REQUEST_TIME, ended).await;
    Ok(())
}

fn read_request(message: Message) -> Result<MeasurementRequest, Failure> {
    if message.ppid != CONTROL {
        return Err(unexpected());
    }
    match ControlMessage::decode(message.payload)? {
        ControlMessage::Request(request) => Ok(*request),
        _ => Err(unexpected()),
    }
}
