//! `carrick simco agent`: requests of people and scripts.

mod output;
mod requests;

use std::io::{Write, stdout};
use std::time::Duration;

use carrick_simco::client::{Client, ClientConfig, ClientEvent, HeldRule, RequestError};
use carrick_simco::message::{Lifetime, PolicyRuleId, Reply, Request};
use clap::{Args, Subcommand};

use super::connect::ConnectArguments;
use super::lines::{info, warn};
use crate::failure::Failure;
use crate::runtime;
use output::Output;

/// Ask a middlebox for something.
///
/// A rule outlives the session that made it and ends with its lifetime, unless --hold keeps it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Print JSON, an object a line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let a data stream pass (PER).
    Per(requests::PerArguments),
    /// Reserve an address and ports on a translator (PRR).
    Prr(requests::PrrArguments),
    /// Let a data stream pass on a reservation (PEA).
    Pea(requests::PeaArguments),
    /// Block a data stream, and end what lets it pass (PDR).
    Pdr(requests::PdrArguments),
    /// Give a rule another lifetime, 0 to end it (PLC).
    Plc {
        /// The rule.
        rule: u32,
        /// Seconds from now.
        lifetime: u32,
    },
    /// How a rule is (PRS).
    Status {
        /// The rule.
        rule: u32,
    },
    /// The rules that this agent may see (PRL), with --long how each is.
    List {
        /// Ask for the status of each.
        #[arg(long)]
        long: bool,
    },
    /// Tell what happens to the rules that this agent may see (ARE), until interrupted.
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

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::run(async {
        if arguments.command.holds() {
            // It ends its rule when it is interrupted.
            return work(arguments).await;
        }
        tokio::select! {
            done = work(arguments) => done,
            _ = runtime::signal_received() => Ok(()),
        }
    })
}

async fn work(arguments: &Arguments) -> Result<(), Failure> {
    let config = ClientConfig {
        settings: arguments.connect.settings()?,
        ..ClientConfig::new(arguments.connect.target().await?)
    };
    let client = Client::connect(config);
    let client = client.await.map_err(|e| Failure::Run(e.to_string()))?;
    let output = Output {
        json: arguments.json,
    };
    let done = ask(&client, &arguments.command, output).await;
    // A middlebox that does not answer is not waited for.
    let _ = tokio::time::timeout(Duration::from_secs(2), client.end()).await;
    done
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
            // It has ended since the list was made.
            Err(RequestError::Refused(_)) => {}
            Err(error) => return Err(failure(error)),
        }
    }
    Ok(())
}

/// Keeps a rule until interrupted or ended.
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
        // What is granted from now on finds nobody, and is ended.
        _ = &mut interrupted => return Ok(()),
    };
    let mut held = rule.id();
    info(format_args!(
        "rule {} is granted, and refreshed until SIGINT",
        held.0
    ));
    let watching = async {
        let status: Reply = client.status(held).await.map_err(failure)?;
        output.reply(&status)?;
        while rule.is_held() {
            match events.next().await {
                Some(event @ ClientEvent::Closed(_)) => {
                    warn("the session is lost; connecting again");
                    output.event(&event)?;
                }
                Some(event) if concerns(&event, &mut held) => output.event(&event)?,
                Some(_) => {}
                None => break,
            }
        }
        Err(Failure::Run("the rule has ended".into()))
    };
    let ended = tokio::select! {
        ended = watching => ended,
        _ = &mut interrupted => Ok(()),
    };
    rule.close().await.map_err(failure)?;
    info(format_args!("rule {} is closed", held.0));
    ended
}

/// Whether an event is about the held rule, or about the session. The rule may get another identifier.
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
    // From now on nothing is missed.
    output.event(&ClientEvent::Opened(client.capabilities()))?;
    stdout().flush()?;
    while let Some(event) = events.next().await {
        output.event(&event)?;
        if matches!(event, ClientEvent::Closed(_)) {
            warn("the session is lost; connecting again");
        }
        stdout().flush()?;
    }
    Ok(())
}
