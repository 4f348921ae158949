//! `carrick mtp send`.

use std::collections::VecDeque;
use std::io::{BufRead, stdin};
use std::thread;

use bytes::Bytes;
use carrick_sigtran::m3ua::ProtocolData;
use carrick_sigtran_net::{Outgoing, SendError, Session};
use clap::Args;
use tokio::sync::mpsc;

use super::connect::{ConnectArguments, close};
use super::message::{LabelArguments, parse_hex};
use crate::failure::Failure;
use crate::runtime;

/// Lines of standard input that wait to be sent.
const MAX_WAITING: usize = 256;

/// Longest user data: the message is one of M3UA.
const MAX_DATA: usize = 65_000;

/// Format of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DataFormat {
    /// Hexadecimal digits.
    Hex,
    /// The octets of the line.
    Text,
    /// JSON objects with `data` in hexadecimal digits, and opc, dpc, si, ni, mp, sls, which replace the options.
    Json,
}

/// Send MTP3 user messages: the arguments, or the lines of standard input.
///
/// Ends when all messages are delivered to a gateway.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    connect: ConnectArguments,
    #[command(flatten)]
    label: LabelArguments,
    /// Signalling link selection.
    #[arg(long, value_name = "N", default_value_t = 0)]
    sls: u8,
    /// Format of the data.
    #[arg(long, value_name = "FORMAT", default_value = "hex")]
    format: DataFormat,
    /// Messages [default: the lines of standard input].
    data: Vec<String>,
}

impl Arguments {
    fn parse(&self, base: &ProtocolData, text: &str) -> Result<Outgoing, String> {
        let with = |user_data| ProtocolData {
            user_data,
            ..base.clone()
        };
        let protocol_data = match self.format {
            DataFormat::Hex => with(parse_hex(text)?),
            DataFormat::Text => with(Bytes::copy_from_slice(text.as_bytes())),
            DataFormat::Json => self.label.parse_json(base, text)?,
        };
        let length = protocol_data.user_data.len();
        if length > MAX_DATA {
            return Err(format!("{length} octets exceed the limit of {MAX_DATA}"));
        }
        Ok(Outgoing {
            routing_context: self.connect.routing_context(),
            protocol_data,
        })
    }
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let base = arguments.label.message(arguments.sls)?;
    let mut messages = VecDeque::new();
    for text in &arguments.data {
        let parsed = arguments.parse(&base, text);
        messages.push_back(parsed.map_err(|why| Failure::Usage(format!("{text:?}: {why}")))?);
    }
    let mut session = arguments.connect.connect(arguments.label.variant()).await?;
    let sent = runtime::until_signal(send_each(arguments, &base, &mut session, messages)).await;
    close(session).await;
    sent
}

/// Sends the messages of the arguments, or those of standard input.
async fn send_each(
    arguments: &Arguments,
    base: &ProtocolData,
    session: &mut Session,
    mut messages: VecDeque<Outgoing>,
) -> Result<(), Failure> {
    send_all(session, &mut messages).await?;
    if arguments.data.is_empty() {
        let mut lines = read_lines()?;
        let (mut batch, mut number) = (Vec::new(), 0);
        while lines.recv_many(&mut batch, MAX_WAITING).await > 0 {
            for line in batch.drain(..) {
                number += 1;
                let line = line?;
                let parsed = arguments.parse(base, line.trim_end_matches(['\n', '\r']));
                let wrong = |why| Failure::Run(format!("line {number} of standard input: {why}"));
                messages.push_back(parsed.map_err(wrong)?);
            }
            send_all(session, &mut messages).await?;
        }
    }
    Ok(())
}

/// Sends messages; waits while the ASP is not active.
pub(super) async fn send_all(
    session: &mut Session,
    messages: &mut VecDeque<Outgoing>,
) -> Result<(), Failure> {
    loop {
        match session.sender.send_many(messages).await {
            Ok(()) => return Ok(()),
            Err(SendError::NotActive) => {
                let event = session.events.recv().await;
                event.ok_or_else(|| Failure::Run(SendError::Ended.to_string()))?;
            }
            Err(error) => return Err(Failure::Run(format!("cannot send: {error}"))),
        }
    }
}

/// Starts a thread that reads lines, because a blocking read can't be cancelled.
fn read_lines() -> Result<mpsc::Receiver<Result<String, Failure>>, Failure> {
    let (lines, out) = mpsc::channel(MAX_WAITING);
    thread::Builder::new()
        .name("stdin".into())
        .spawn(move || {
            let mut input = stdin().lock();
            loop {
                let mut line = String::new();
                let line = match input.read_line(&mut line) {
                    Ok(0) => return,
                    Ok(_) => Ok(line),
                    Err(e) => Err(Failure::Run(format!("cannot read standard input: {e}"))),
                };
                let last = line.is_err();
                if lines.blocking_send(line).is_err() || last {
                    return;
                }
            }
        })
        .map_err(|e| Failure::Run(format!("cannot start a thread: {e}")))?;
    Ok(out)
}
