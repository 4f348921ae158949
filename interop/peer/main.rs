//! The peer program of `interop/README.md` on carrick: one association, messages on it whose content
//! the receiver can foretell, a summary.
//!
//! - `options`: the command line
//! - `extensions`: what is offered, and what is done with it
//! - `output`: JSON lines
//! - `messages`: what a source sends and a receiver checks
//! - `session`: the association
//! - `stop`: signals

mod extensions;
mod messages;
mod options;
mod output;
mod session;
mod stop;

use std::process::ExitCode;
use std::time::Duration;

use carrick::{Association, BindError, ConnectError, Endpoint, Incoming};
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};

use options::Role;
use output::emit;
use session::{Outcome, Session, Tally};
use stop::Stop;

/// Exit status when the environment lacks something.
const ENVIRONMENT: u8 = 3;

/// How long the endpoint may take to send its last packets when the program ends.
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
        Err(error) => complain(
            &format!("no threads or no epoll: {error}; raise the limits of this process"),
            ENVIRONMENT,
        ),
    }
}

/// One line for people, and the exit status.
fn complain(what: &str, status: u8) -> ExitCode {
    eprintln!("carrick-peer: {what}");
    status.into()
}

async fn run(role: &Role) -> ExitCode {
    let mut stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => {
            return complain(
                &format!("no signals: {error}; raise the limits of this process"),
                ENVIRONMENT,
            );
        }
    };
    let endpoint = match Endpoint::bind(role.config()) {
        Ok(endpoint) => endpoint,
        Err(error @ BindError::Config(_)) => {
            return complain(&error.to_string(), 2);
        }
        Err(error) => return complain(&error.to_string(), ENVIRONMENT),
    };
    emit(
        "ready",
        json!({ "stack": "carrick", "port": endpoint.port() }),
    );

    let options = role.options();
    let limit = Instant::from_std(output::started()) + Duration::from_secs(options.time_limit);
    let mut tally = Tally::new(options);
    let set_up = tokio::select! {
        biased;
        () = stop.requested() => Err(Outcome::FAILED),
        () = sleep_until(limit) => Err(Outcome::TIMEOUT),
        association = set_up(&endpoint, role) => match association {
            Ok(association) => Ok(association),
            Err(ConnectError::Failed(reason)) => Err(Outcome::refused(&reason)),
            Err(error) => {
                tally.check.fail(&error.to_string());
                Err(Outcome::FAILED)
            }
        },
    };
    let outcome = match set_up {
        Ok(association) => {
            Session::new(association, &endpoint, &mut tally)
                .run(&mut stop, limit)
                .await
        }
        Err(outcome) => outcome,
    };
    let ok = tally.report(outcome);
    // Whether it was the signal or the time that came first makes no difference.
    let _ = timeout(Duration::from_secs(options.linger), stop.requested()).await;
    // After that time whatever was to be sent will not be.
    let _ = timeout(CLOSING, endpoint.close()).await;
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
