//! Peer program of `interop/README.md` on carrick: one association, messages with content that the
//! receiver can compute, a summary.
//!
//! - `options`: the command line
//! - `extension_options`: the part of it for extensions
//! - `configuration`: what it sets in Carrick
//! - `extensions`: operations of extensions, and their report
//! - `output`: JSON lines
//! - `messages`: sending and checking of messages
//! - `session`: the association
//! - `stop`: signals
//! - `summary`: totals and outcome

mod configuration;
mod extension_options;
mod extensions;
mod messages;
mod options;
mod output;
mod session;
mod stop;
mod summary;

use std::process::ExitCode;
use std::time::Duration;

use carrick::{Association, BindError, ConnectError, Endpoint, Incoming};
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};

use options::Role;
use output::emit;
use session::{RunCounters, Session, refused};
use stop::StopSignals;
use summary::RunOutcome;

/// Exit status for a deficiency of the host.
const ENVIRONMENT: u8 = 3;

/// Time limit for sending the last packets at the end of the program.
const CLOSING: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    output::started();
    let role = match options::parse() {
        Ok(line) => line.role,
        Err(status) => return status.into(),
    };
    // The stack runs on a separate thread.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(run(&role)),
        Err(error) => fail(
            &format!("no threads or no epoll: {error}; raise the limits of this process"),
            ENVIRONMENT,
        ),
    }
}

/// Prints an error and returns the exit status.
fn fail(what: &str, status: u8) -> ExitCode {
    eprintln!("carrick-peer: {what}");
    status.into()
}

async fn run(role: &Role) -> ExitCode {
    let mut stop = match StopSignals::new() {
        Ok(stop) => stop,
        Err(error) => {
            return fail(
                &format!("no signals: {error}; raise the limits of this process"),
                ENVIRONMENT,
            );
        }
    };
    let config = match role.config() {
        Ok(config) => config,
        Err(error) => return fail(&format!("no certificate: {error}"), ENVIRONMENT),
    };
    let endpoint = match Endpoint::bind(config) {
        Ok(endpoint) => endpoint,
        Err(error @ BindError::Config(_)) => {
            return fail(&error.to_string(), 2);
        }
        Err(error) => return fail(&error.to_string(), ENVIRONMENT),
    };
    emit(
        "ready",
        json!({ "stack": "carrick", "port": endpoint.port() }),
    );

    let options = role.options();
    let limit = Instant::from_std(output::started()) + Duration::from_secs(options.time_limit);
    let mut counters = RunCounters::new(options);
    let set_up = tokio::select! {
        biased;
        () = stop.requested() => Err(RunOutcome::FAILED),
        () = sleep_until(limit) => Err(RunOutcome::TIMEOUT),
        association = set_up(&endpoint, role) => match association {
            Ok(association) => Ok(association),
            Err(ConnectError::Failed(reason)) => Err(refused(&reason)),
            Err(error) => {
                counters.check.fail(&error.to_string());
                Err(RunOutcome::FAILED)
            }
        },
    };
    let outcome = match set_up {
        Ok(association) => {
            Session::new(association, &endpoint, &mut counters)
                .run(&mut stop, limit)
                .await
        }
        Err(outcome) => outcome,
    };
    let ok = counters.report(outcome);
    // A signal and the time limit have the same effect.
    let _ = timeout(Duration::from_secs(options.linger), stop.requested()).await;
    // Packets not sent by then are dropped.
    let report = endpoint.close_within(CLOSING).await;
    if !report.is_empty() {
        eprintln!("{report}");
    }
    if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn set_up(endpoint: &Endpoint, role: &Role) -> Result<Association, ConnectError> {
    match role {
        Role::Listen { .. } => {
            let incoming = endpoint.accept().await;
            incoming
                .map(Incoming::accept)
                .ok_or(ConnectError::EndpointClosed)
        }
        Role::Connect {
            addresses,
            port,
            options,
        } => {
            let peer = (&addresses.0, *port);
            endpoint.connect_with(peer, options.connect()).await
        }
    }
}
