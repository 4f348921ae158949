//! `carrick perf server`: measures with all clients that connect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carrick::{Association, Message};
use clap::Args;
use tokio::task::JoinSet;

use super::OutputArguments;
use super::control::send_control;
use super::protocol::{ControlMessage, DATA, MeasurementRequest};
use super::receiver::unexpected;
use super::report::Reporter;
use super::session::{Session, TransferRole, ended, lost};
use crate::endpoint::{self, EndpointArguments, OpenedEndpoint};
use crate::failure::Failure;
use crate::runtime::until_signal;

/// Maximum number of outbound streams.
const STREAMS: u16 = u16::MAX;

/// Wait for clients and measure with them.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// SCTP port to listen on.
    #[arg(short, long, value_name = "N", default_value_t = super::DEFAULT_PORT)]
    port: u16,
    /// Exit after one measurement.
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
    // Before the endpoint is closed, which would shut the associations of tasks that still run down.
    tests.shutdown().await;
    endpoint::with(opened.endpoint.clone(), async { served }).await
}

async fn serve(
    arguments: &Arguments,
    opened: &OpenedEndpoint,
    tests: &mut JoinSet<Result<(), Failure>>,
) -> Result<(), Failure> {
    let endpoint = &opened.endpoint;
    let mut reporter = Reporter {
        json: arguments.output.json,
        intervals: arguments.output.intervals(),
        through_daemon: opened.through_daemon,
        test: 0,
    };
    let closed = |e: carrick::OperationError| Failure::Run(e.to_string());
    let addresses = endpoint.local_addresses().await.map_err(closed)?;
    reporter.listening(&addresses, endpoint.port(), endpoint.encapsulation_port())?;
    let load = Arc::new(RunningMeasurements::default());
    let mut accepting = true;
    while accepting || !tests.is_empty() {
        tokio::select! {
            incoming = endpoint.accept(), if accepting => {
                let Some(incoming) = incoming else {
                    return Err(Failure::Run("the endpoint has closed".into()));
                };
                reporter.test += 1;
                accepting = !arguments.once;
                tests.spawn(serve_one(incoming.accept(), reporter, Arc::clone(&load)));
            }
            Some(done) = tests.join_next() => {
                let done = done.unwrap_or_else(|e| {
                    Err(Failure::Run(format!("a measurement failed: {e}")))
                });
                match done {
                    Err(failure) if arguments.once => return Err(failure),
                    Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
                    Err(_) | Ok(()) => {}
                }
            }
        }
    }
    Ok(())
}

/// Measurements in this process.
#[derive(Debug, Default)]
struct RunningMeasurements {
    running: AtomicU64,
    started: AtomicU64,
}

/// Running measurement.
struct MeasurementGuard(Arc<RunningMeasurements>);

impl MeasurementGuard {
    fn new(load: Arc<RunningMeasurements>) -> Self {
        load.running.fetch_add(1, Ordering::Relaxed);
        load.started.fetch_add(1, Ordering::Relaxed);
        Self(load)
    }

    /// Returns a function that reports whether another measurement has run at the same time.
    fn overlap(&self) -> impl Fn() -> bool + use<> {
        let load = Arc::clone(&self.0);
        let alone = load.running.load(Ordering::Relaxed) == 1;
        let started = load.started.load(Ordering::Relaxed);
        move || !alone || load.started.load(Ordering::Relaxed) != started
    }
}

impl Drop for MeasurementGuard {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve_one(
    association: Association,
    reporter: Reporter,
    load: Arc<RunningMeasurements>,
) -> Result<(), Failure> {
    let sender = association.sender();
    let done = measure(association, reporter, load).await;
    let done = done.map_err(|failure| endpoint::with_undelivered(failure, &sender));
    if let Err(Failure::Run(reason)) = &done {
        reporter.failed(reason)?;
    }
    done
}

async fn measure(
    mut association: Association,
    reporter: Reporter,
    load: Arc<RunningMeasurements>,
) -> Result<(), Failure> {
    let message = association.recv().await.map_err(|e| lost(&e))?;
    let request = read_request(message.ok_or_else(ended)?)?;
    if let Err(reason) = request.check(association.control().outbound_streams()) {
        let refused = ControlMessage::Refused {
            reason: reason.clone(),
        };
        send_control(&association.sender(), &refused).await?;
        // The client reads the reason and ends the association; the way it ends does not matter.
        while let Ok(Some(_)) = association.recv().await {}
        return Err(Failure::Run(format!("refused: {reason}")));
    }
    reporter.begin(
        association.control().peer_addresses(),
        association.control().peer_port(),
        &request,
    )?;
    let running = MeasurementGuard::new(load);
    let role = TransferRole {
        sends: request.server_sends(),
        receives: request.client_sends(),
    };
    let mut session = Session::new(association, request, role, Box::new(running.overlap()))?;
    session.accept().await?;
    let outcome = session.run(&reporter).await?;
    reporter.summary(&request, &outcome, false)?;
    session.wait_for_end().await;
    Ok(())
}

fn read_request(message: Message) -> Result<MeasurementRequest, Failure> {
    if message.ppid == DATA {
        return Err(unexpected());
    }
    match ControlMessage::decode(message.payload)? {
        ControlMessage::Request(request) => Ok(request),
        _ => Err(unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_measurements_are_detected() {
        let load = Arc::new(RunningMeasurements::default());
        let first = MeasurementGuard::new(Arc::clone(&load));
        let first_overlaps = first.overlap();
        assert!(!first_overlaps());
        let second = MeasurementGuard::new(Arc::clone(&load));
        assert!(first_overlaps() && second.overlap()());
        drop((first, second));
        assert!(!MeasurementGuard::new(load).overlap()());
    }
}
