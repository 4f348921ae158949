//! `carrick simco agent`: single requests on the command line.

mod output;
mod requests;

use std::io::{Write, stdout};
use std::time::Duration;

use carrick_simco::message::{Lifetime, PolicyRuleId, Reply, Request};
use carrick_simco_net::client::{Client, ClientConfig, ClientEvent, HeldRule, RequestError};
use clap::{Args, Subcommand};

use super::connect::ConnectArguments;
use crate::failure::Failure;
use crate::log::{info, warn};
use crate::runtime;
use output::Output;

/// Send a request to a middlebox.
///
/// A rule outlives the session that created it and expires with its lifetime, unless --hold refreshes it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Print one JSON object per line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Enable a data stream (PER).
    Per(requests::PerArguments),
    /// Reserve an address and ports on a translator (PRR).
    Prr(requests::PrrArguments),
    /// Enable a data stream on a reservation (PEA).
    Pea(requests::PeaArguments),
    /// Prohibit a data stream and end the rules that enable it (PDR).
    Pdr(requests::PdrArguments),
    /// Change the lifetime of a rule, 0 to delete it (PLC).
    Plc {
        /// Identifier of the rule.
        rule: u32,
        /// New lifetime in seconds from now.
        lifetime: u32,
    },
    /// Show the status of a policy rule (PRS).
    Status {
        /// Identifier of the rule.
        rule: u32,
    },
    /// List the rules that this agent may see (PRL).
    List {
        /// Show the status of each rule.
        #[arg(long)]
        long: bool,
    },
    /// Print the events of the rules that this agent may see (ARE) until interrupted.
    Watch,
}

impl Command {
    fn holds(&self) -> bool {
        match self {
            Self::Per(per) => per.hold,
            Self::Prr(prr) => prr.hold,
            _ => false,
        }
    }
}

/// Runs the request until it is answered or a signal arrives, which ends the session with ST and the association with
/// SHUTDOWN.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::run(async {
        let client = tokio::select! {
            client = connect(arguments) => client?,
            _ = runtime::signal_received() => return Ok(()),
        };
        let output = Output {
            json: arguments.json,
        };
        let asked = ask(&client, &arguments.command, output);
        let done = if arguments.command.holds() {
            // It deletes its rule when it is interrupted.
            asked.await
        } else {
            tokio::select! {
                done = asked => done,
                _ = runtime::signal_received() => Ok(()),
            }
        };
        // Bounded: the middlebox may not answer.
        let _ = tokio::time::timeout(Duration::from_secs(2), client.end()).await;
        done
    })
}

async fn connect(arguments: &Arguments) -> Result<Client, Failure> {
    let config = ClientConfig {
        settings: arguments.connect.settings()?,
        ..ClientConfig::new(arguments.connect.target().await?)
    };
    let client = Client::connect(config);
    client.await.map_err(failure)
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Run(error.to_string())
}

async fn ask(client: &Client, command: &Command, output: Output) -> Result<(), Failure> {
    match command {
        Command::Per(per) => {
            let request = per.request()?;
            if per.hold {
                let granted = client.enable(request);
                return hold(client, granted, output).await;
            }
            let enabled = client.enable_once(request).await.map_err(failure)?;
            output.reply(&Reply::Enabled(enabled))
        }
        Command::Prr(prr) => {
            let request = prr.request();
            if prr.hold {
                let granted = client.reserve(request);
                return hold(client, granted, output).await;
            }
            let reply = client.request(Request::Reserve(request)).await;
            output.reply(&reply.map_err(failure)?)
        }
        Command::Pea(pea) => {
            let reply = client.request(pea.request()?).await;
            output.reply(&reply.map_err(failure)?)
        }
        Command::Pdr(pdr) => {
            let reply = client.request(Request::Disable(pdr.request()?)).await;
            output.reply(&reply.map_err(failure)?)
        }
        Command::Plc { rule, lifetime } => {
            let granted = client.extend(PolicyRuleId(*rule), Lifetime(*lifetime));
            output.lifetime(*rule, granted.await.map_err(failure)?)
        }
        Command::Status { rule } => {
            let status = client.status(PolicyRuleId(*rule)).await;
            output.reply(&status.map_err(failure)?)
        }
        Command::List { long } => list(client, *long, output).await,
        Command::Watch => watch(client, output).await,
    }
}

async fn list(client: &Client, long: bool, output: Output) -> Result<(), Failure> {
    let rules = client.list().await.map_err(failure)?;
    if !long {
        return output.list(&rules);
    }
    for rule in rules {
        match client.status(rule).await {
            Ok(status) => output.reply(&status)?,
            // It has ended since it was listed.
            Err(RequestError::Refused(_)) => {}
            Err(error) => return Err(failure(error)),
        }
    }
    Ok(())
}

/// Keeps a rule until it ends or the program is interrupted.
async fn hold(
    client: &Client,
    granted: impl Future<Output = Result<HeldRule, RequestError>>,
    output: Output,
) -> Result<(), Failure> {
    let mut events = client.events();
    let interrupted = runtime::signal_received();
    tokio::pin!(interrupted);
    let rule = tokio::select! {
        rule = granted => rule.map_err(failure)?,
        // The client ends a rule that is granted after the future was dropped.
        _ = &mut interrupted => return Ok(()),
    };
    let mut held = rule.id();
    info(format_args!(
        "rule {} granted; refreshing it until SIGINT",
        held.0
    ));
    let watching = async {
        let status: Reply = client.status(held).await.map_err(failure)?;
        output.reply(&status)?;
        while rule.is_held() {
            match events.next().await {
                Some(event @ ClientEvent::Closed(_)) => {
                    warn("session lost; reconnecting");
                    output.event(&event)?;
                }
                Some(event) if concerns(&event, &mut held) => output.event(&event)?,
                Some(_) => {}
                None => break,
            }
        }
        Err(Failure::Run(
            "the rule was ended by the middlebox or another agent".into(),
        ))
    };
    let ended = tokio::select! {
        ended = watching => ended,
        _ = &mut interrupted => Ok(()),
    };
    rule.close().await.map_err(failure)?;
    info(format_args!("rule {} deleted", held.0));
    ended
}

/// Returns whether an event is about the held rule or the session. Follows a change of the rule's
/// identifier.
fn concerns(event: &ClientEvent, held: &mut PolicyRuleId) -> bool {
    match event {
        ClientEvent::Rule { rule, .. } | ClientEvent::Ended { rule, .. } => rule == held,
        ClientEvent::Renewed { old, new } => {
            let own = old == held;
            if own {
                *held = *new;
            }
            own
        }
        ClientEvent::Opened(_)
        | ClientEvent::Closed(_)
        | ClientEvent::NotConnected(_)
        | ClientEvent::Lagged(_) => true,
    }
}

async fn watch(client: &Client, output: Output) -> Result<(), Failure> {
    let mut events = client.events();
    // Events are complete from here on.
    output.event(&ClientEvent::Opened(client.capabilities()))?;
    stdout().flush()?;
    while let Some(event) = events.next().await {
        output.event(&event)?;
        if matches!(event, ClientEvent::Closed(_)) {
            warn("session lost; reconnecting");
        }
        stdout().flush()?;
    }
    Ok(())
}
