//! `carrick perf client`: requests a measurement from a server.

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;

use super::OutputArguments;
use super::protocol::{
    Direction, MAX_DURATION, MAX_SIZE, MeasurementRequest, TransferExtent, VERSION,
};
use super::report::Reporter;
use super::session::{Session, TransferRole};
use crate::endpoint::{self, EndpointArguments, OpenedEndpoint, PeerArguments};
use crate::failure::Failure;
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
    /// Duration of the transfer; a number without a unit is in s.
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
    /// Number of streams that carry the messages.
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1,
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
        MeasurementRequest {
            version: VERSION,
            direction: match (self.reverse, self.bidir) {
                (_, true) => Direction::Both,
                (true, false) => Direction::ToClient,
                (false, false) => Direction::ToServer,
            },
            extent: match self.bytes {
                Some(bytes) => TransferExtent::Bytes(bytes),
                None => TransferExtent::Milliseconds(milliseconds(self.seconds)),
            },
            size: self.size,
            streams: self.streams,
            unordered: self.unordered,
            bitrate: self.bitrate,
            omit: milliseconds(self.omit),
        }
    }
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let peers = endpoint::resolve(&arguments.peer).await?;
    let opened = arguments
        .endpoint
        .open_towards(&peers, arguments.streams + 1)?;
    let measured = measure(arguments, &opened, &peers);
    endpoint::with(opened.endpoint.clone(), measured).await
}

async fn measure(
    arguments: &Arguments,
    opened: &OpenedEndpoint,
    peers: &[IpAddr],
) -> Result<(), Failure> {
    let association = arguments
        .to
        .connect(&opened.endpoint, peers, arguments.port)
        .await?;
    let request = arguments.request();
    request
        .check(association.control().outbound_streams())
        .map_err(Failure::Run)?;
    let reporter = Reporter {
        json: arguments.output.json,
        intervals: arguments.output.intervals(),
        through_daemon: opened.through_daemon,
        test: 1,
    };
    reporter.begin(
        association.control().peer_addresses(),
        arguments.port,
        &request,
    )?;
    let role = TransferRole {
        sends: request.client_sends(),
        receives: request.server_sends(),
    };
    let sender = association.sender();
    let mut session = Session::new(association, request, role, Box::new(|| false))?;
    let measured = async {
        let reply = tokio::time::timeout(arguments.to.connect_timeout, session.ask());
        reply.await.map_err(|_| {
            Failure::Run(format!(
                "{} port {} does not reply to the request in {:?}: is it carrick perf server? It may also need longer \
                 (--connect-timeout)",
                arguments.peer, arguments.port, arguments.to.connect_timeout
            ))
        })??;
        let outcome = session.run(&reporter).await?;
        reporter.summary(&request, &outcome, true)?;
        session.shut_down().await
    };
    let measured = measured.await;
    measured.map_err(|failure| endpoint::with_undelivered(failure, &sender))
}
