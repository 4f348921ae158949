//! `carrick mtp receive`.

use std::collections::VecDeque;
use std::io::{Write, stdout};

use carrick_sigtran::m3ua::ProtocolData;
use carrick_sigtran_net::{Outgoing, Received, SendError, Session};
use clap::Args;

use super::connect::ConnectArguments;
use super::message::{Variant, line};
use crate::failure::Failure;
use crate::runtime;

/// Messages that are received together.
const BATCH: usize = 256;

/// Receive MTP3 user messages, and print one line for each.
///
/// A signal ends it: the ASP becomes inactive, and messages that are on their way are printed before.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Print JSON objects.
    #[arg(long)]
    json: bool,
    /// Print no messages, but their number at the end.
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
    /// Send each message back, with originating and destination point code exchanged.
    #[arg(long)]
    echo: bool,
    /// End after this number of messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Format of point codes.
    #[arg(long, value_name = "FORMAT", default_value = "itu")]
    variant: Variant,
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut session = arguments.connect.connect(arguments.variant).await?;
    eprintln!("carrick: the ASP is active");
    let sender = session.sender.clone();
    let (mut count, mut ending) = (0, false);
    let mut received = Vec::new();
    let mut echoes = VecDeque::new();
    loop {
        tokio::select! {
            number = session.receiver.recv_many(&mut received, BATCH) => {
                if number == 0 {
                    break;
                }
                count += number as u64;
                print(arguments, &received)?;
                if arguments.echo {
                    echoes.extend(received.drain(..).map(exchanged));
                    match sender.send_many(&mut echoes).await {
                        // Messages of a gateway at which the ASP is not active any more.
                        Ok(()) | Err(SendError::NotActive | SendError::Ended) => echoes.clear(),
                        Err(error) => {
                            return Err(Failure::Run(format!("cannot send back: {error}")));
                        }
                    }
                }
                received.clear();
                if !ending && arguments.count.is_some_and(|limit| count >= limit) {
                    ending = true;
                    session.close();
                }
            }
            Some(event) = session.events.recv() => {
                eprintln!("carrick: {}", event.display(arguments.variant.format()));
            }
            signal = runtime::signal_received(), if !ending => {
                eprintln!("carrick: ending after {signal}");
                ending = true;
                session.close();
            }
        }
    }
    finish(session, count).await
}

async fn finish(session: Session, count: u64) -> Result<(), Failure> {
    session.ended().await;
    eprintln!("carrick: {count} messages received");
    Ok(())
}

fn print(arguments: &Arguments, received: &[Received]) -> Result<(), Failure> {
    if arguments.quiet {
        return Ok(());
    }
    let mut out = stdout().lock();
    for message in received {
        writeln!(out, "{}", line(message, arguments.variant, arguments.json))?;
    }
    out.flush()?;
    Ok(())
}

/// Returns a message with originating and destination point code exchanged.
fn exchanged(message: Received) -> Outgoing {
    let data = message.protocol_data;
    Outgoing {
        routing_context: message.routing_context,
        protocol_data: ProtocolData {
            opc: data.dpc,
            dpc: data.opc,
            ..data
        },
    }
}
