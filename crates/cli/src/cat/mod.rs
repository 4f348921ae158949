//! `carrick cat`: sends standard input as messages and writes received messages to standard output, as ncat
//! does.
//!
//! - `input`: reads standard input and cuts it into messages
//! - `output`: writes messages as bytes, hexadecimal or JSON
//!
//! SCTP has no half-closed association (RFC 9260, section 9): when the input of one side ends, both sides
//! deliver what was sent before, and the association ends.

mod input;
mod output;

use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use carrick::{
    Association, AssociationConfig, Events, Notification, Ppid, RecvHalf, SendError, SendHalf,
    SendOptions, StreamId,
};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::endpoint::{self, AbortOnDrop, EndpointArguments, PeerArguments};
use crate::failure::Failure;
use crate::{event_reports, runtime, units};
use output::{MessageFormat, MessageWriter};

/// Send standard input as messages and write received ones to standard output.
///
/// Each line of the input, with its newline, is one message; with --size N, every N bytes form one message.
/// At end of input the association is shut down gracefully. SCTP has no half-closed associations, so a side
/// that only receives needs --recv-only. Exit code 0: shut down gracefully by either side; 1: not
/// connected, or ended otherwise; 2: invalid command line.
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "carrick cat [OPTIONS] HOST[,HOST...] PORT\n       carrick cat [OPTIONS] --listen PORT"
)]
pub(crate) struct Arguments {
    /// Addresses or name of the peer, several separated by commas, and its SCTP port; with --listen only
    /// the local port.
    #[arg(value_name = "HOST PORT", required = true, num_args = 1..=2)]
    target: Vec<String>,
    /// Wait for one association instead of connecting.
    #[arg(short, long)]
    listen: bool,
    /// Send messages of this many bytes instead of lines; the last one may be shorter.
    #[arg(short, long, value_name = "BYTES", value_parser = units::length)]
    size: Option<usize>,
    /// Stream number of the sent messages.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=65_534))]
    stream: u16,
    /// Payload protocol identifier of the sent messages.
    #[arg(long, value_name = "N", default_value_t = 0)]
    ppid: u32,
    /// Send unordered messages.
    #[arg(long)]
    unordered: bool,
    /// Write one line per message: stream, SSN, PPID, length and the bytes in hexadecimal.
    #[arg(long, conflicts_with = "json")]
    hex: bool,
    /// Write one JSON object per message, with the bytes in hexadecimal.
    #[arg(long)]
    json: bool,
    /// Don't read standard input; the peer ends the association.
    #[arg(long, conflicts_with = "send_only")]
    recv_only: bool,
    /// Discard received messages.
    #[arg(long)]
    send_only: bool,
    /// Continue to receive for this long after the end of the input; a number without a unit is in s.
    #[arg(short = 'q', long, value_name = "TIME", value_parser = units::seconds, conflicts_with = "recv_only")]
    quit_after: Option<Duration>,
    /// Report the state of the association and of its paths on standard error; with --json, as JSON objects.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    to: PeerArguments,
    #[command(flatten)]
    endpoint: EndpointArguments,
}

/// Peer to connect to, or port to listen on.
#[derive(Debug, PartialEq, Eq)]
enum Target<'a> {
    Listen(u16),
    Connect(&'a str, u16),
}

impl Arguments {
    fn target(&self) -> Result<Target<'_>, Failure> {
        match (self.listen, &self.target[..]) {
            (true, [own]) => Ok(Target::Listen(port(own)?)),
            (false, [host, peers]) => Ok(Target::Connect(host, port(peers)?)),
            (true, _) => Err(usage(
                "with --listen give only the port; local addresses belong to --bind",
            )),
            (false, _) => Err(usage("give the peer's address and its port, or --listen")),
        }
    }

    fn format(&self) -> MessageFormat {
        match (self.hex, self.json) {
            _ if self.send_only => MessageFormat::Discard,
            (true, _) => MessageFormat::Hex,
            (_, true) => MessageFormat::Json,
            _ => MessageFormat::Raw,
        }
    }

    fn options(&self) -> SendOptions {
        SendOptions {
            stream: StreamId(self.stream),
            ppid: Ppid(self.ppid),
            unordered: self.unordered,
            ..SendOptions::default()
        }
    }

    fn log(&self, what: &impl Serialize, text: &str) {
        match serde_json::to_string(what) {
            _ if !self.verbose => {}
            Ok(object) if self.json => eprintln!("{object}"),
            _ => eprintln!("carrick: {text}"),
        }
    }
}

fn usage(line: &str) -> Failure {
    Failure::Usage(line.into())
}

fn port(text: &str) -> Result<u16, Failure> {
    match text.parse() {
        Ok(0) | Err(_) => Err(Failure::Usage(format!(
            "{text:?} is not a port: give a number from 1 to 65535"
        ))),
        Ok(port) => Ok(port),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = arguments.target()?;
    runtime::run(async {
        match target {
            Target::Listen(port) => listen(arguments, port).await,
            Target::Connect(host, port) => connect(arguments, host, port).await,
        }
    })
}

async fn listen(arguments: &Arguments, port: u16) -> Result<(), Failure> {
    let endpoint = arguments
        .endpoint
        .listen(port, streams(arguments), 1)?
        .endpoint;
    let addresses = endpoint.local_addresses().await;
    let addresses = addresses.map_err(|e| Failure::Run(e.to_string()))?;
    let over = endpoint
        .encapsulation_port()
        .map_or("IP".into(), |p| format!("UDP port {p}"));
    let addresses = endpoint::list(&addresses);
    eprintln!("carrick: listening on {addresses} port {port} over {over}");
    let closed = || Failure::Run("the endpoint has closed".into());
    endpoint::with(endpoint.clone(), async {
        let association = endpoint.accept().await.ok_or_else(closed)?.accept();
        // Only one association is accepted; later peers get an ABORT.
        let refuse = async {
            while let Some(other) = endpoint.accept().await {
                other.refuse(b"busy");
            }
        };
        tokio::select! {
            done = talk(arguments, association) => done,
            () = refuse => Err(closed()),
        }
    })
    .await
}

async fn connect(arguments: &Arguments, host: &str, port: u16) -> Result<(), Failure> {
    let peers: Vec<IpAddr> = endpoint::resolve(host).await?;
    let endpoint = arguments
        .endpoint
        .open_towards(&peers, streams(arguments))?
        .endpoint;
    endpoint::with(endpoint.clone(), async {
        let association = arguments.to.connect(&endpoint, &peers, port).await?;
        talk(arguments, association).await
    })
    .await
}

/// Returns the number of outbound streams: the default, or as many as the selected stream needs.
fn streams(arguments: &Arguments) -> u16 {
    AssociationConfig::rfc9260()
        .streams
        .outbound_streams
        .max(arguments.stream + 1)
}

/// Moves messages in both directions until either side ends the association.
async fn talk(arguments: &Arguments, mut association: Association) -> Result<(), Failure> {
    let peers = endpoint::list(association.control().peer_addresses());
    let peer_port = association.control().peer_port();
    let text = format!("connected with {peers} port {peer_port}");
    arguments.log(&json!({ "kind": "connected", "text": text }), &text);
    if arguments.stream >= association.control().outbound_streams() {
        return Err(Failure::Run(format!(
            "the peer accepts streams 0 to {} only: use another --stream",
            association.control().outbound_streams().saturating_sub(1)
        )));
    }
    let events = association.take_events().filter(|_| arguments.verbose);
    let (sender, receiver) = association.split();
    let observer = tokio::spawn(observe(arguments.clone(), events, sender.clone()));
    let abort = AbortOnDrop::new(sender.clone(), "the program was ended");
    let mut output = MessageWriter::start(arguments.format())?;
    let moved = move_all(arguments, &sender, receiver, &output).await;
    match moved {
        Ok(()) => abort.disarm(),
        Err(_) => drop(abort),
    }
    let written = output.finish().await;
    if !matches!(moved, Err(Failure::OutputClosed)) {
        moved.map_err(|failure| endpoint::with_undelivered(failure, &sender))?;
    }
    // A failure of the output is the cause, and is reported instead.
    written?;
    // The task ends with the association and does not panic.
    let _ = observer.await;
    Ok(())
}

async fn move_all(
    arguments: &Arguments,
    sender: &SendHalf,
    mut receiver: RecvHalf,
    output: &MessageWriter,
) -> Result<(), Failure> {
    let mut receiving = pin!(receive_all(&mut receiver, output));
    let sent = tokio::select! {
        ended = &mut receiving => return ended,
        sent = send_all(arguments, sender) => sent?,
    };
    receiving.await?;
    match sent {
        SendExtent::All => Ok(()),
        SendExtent::Refused(error) => Err(Failure::Run(format!("not all input was sent: {error}"))),
    }
}

/// Extent to which the input was sent.
enum SendExtent {
    All,
    /// The association accepts no more messages, because it ends; `receive_all` returns the reason.
    Refused(SendError),
}

/// Sends the input, then shuts the association down, which also ends the receiving.
async fn send_all(arguments: &Arguments, sender: &SendHalf) -> Result<SendExtent, Failure> {
    if arguments.recv_only {
        return std::future::pending().await;
    }
    let mut input = input::start(arguments.size)?;
    let options = arguments.options();
    while let Some(message) = input.recv().await {
        if let Err(error) = sender.send(message?, options).await {
            return Ok(SendExtent::Refused(error));
        }
    }
    if let Some(time) = arguments.quit_after {
        tokio::time::sleep(time).await;
    }
    let done = sender.shutdown().await;
    done.map_err(|e| Failure::Run(e.to_string()))?;
    Ok(SendExtent::All)
}

async fn receive_all(receiver: &mut RecvHalf, output: &MessageWriter) -> Result<(), Failure> {
    loop {
        match receiver.recv().await {
            Ok(Some(message)) => output.write(message).await?,
            Ok(None) => return Ok(()),
            Err(e) => return Err(Failure::Run(e.to_string())),
        }
    }
}

/// Reports events of the association until it ends.
async fn observe(arguments: Arguments, events: Option<Events>, sender: SendHalf) {
    let Some(mut events) = events else { return };
    while let Some(notification) = events.next().await {
        if let Notification::Event(event) = notification
            && let Some(report) = event_reports::report(&event, &sender).await
        {
            arguments.log(&report, &report.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(line: &[&str]) -> Arguments {
        Cli::parse_from(std::iter::once(&"cat").chain(line)).arguments
    }

    #[test]
    fn the_target_is_a_peer_or_a_local_port() {
        let connect = parse(&["127.0.0.1,127.0.0.2", "7"]);
        let to = Target::Connect("127.0.0.1,127.0.0.2", 7);
        assert_eq!(connect.target().unwrap(), to);
        assert_eq!(parse(&["-l", "7"]).target().unwrap(), Target::Listen(7));
        for wrong in [
            &["host"][..],
            &["host", "0"],
            &["host", "x"],
            &["-l", "host", "7"],
        ] {
            assert!(
                matches!(parse(wrong).target(), Err(Failure::Usage(_))),
                "{wrong:?}"
            );
        }
    }
}
