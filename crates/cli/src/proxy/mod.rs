//! `carrick proxy`: connects SCTP with programs that use TCP, UDP, Unix sockets or standard input and output.
//!
//! - `address`: the sides, as they are typed
//! - `server`: accepts connections on one side and opens one on the other side for each
//! - `connection`: moves messages between both sides
//! - `local`, `listener`: the side that is not SCTP
//! - `socket_file`: files of listening Unix sockets
//! - `log`: lines on standard error

mod address;
mod connection;
mod listener;
mod local;
mod log;
mod server;
mod socket_file;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::watch;

use crate::cat::MessageArguments;
use crate::endpoint::{self, EndpointArguments, PeerArguments};
use crate::failure::Failure;
use crate::framing::Framing;
use crate::runtime;
use crate::security::SecurityArguments;
use crate::units;
use address::{ProxyAddress, ProxyProtocol};
use connection::ConnectionOptions;
use listener::LocalListener;
use local::{LocalConnection, MessageLimits};
use log::ProxyLog;
use server::{Proxy, SctpTarget};

/// Connect SCTP with TCP, UDP, Unix sockets or standard input and output.
///
/// Accepts connections at LISTEN and connects each with TARGET; one of both is SCTP. Sides are sctp:PORT and
/// sctp:HOST[,HOST...]:PORT (with several addresses of a host), tcp:HOST:PORT, udp:HOST:PORT, unix:PATH, unix-seqpacket:PATH and
/// stdio; IPv6 addresses are in brackets. A byte stream needs --framing; a datagram is a message. The end of a stream delivers what
/// was sent before and shuts the association down, and vice versa; errors abort both. A slow reader stops the sender of the other
/// side. Runs until a signal, with stdio until the end of the connection. Exit code 0: ended by a signal or gracefully; 1: cannot
/// start, or the connection with stdio failed; 2: invalid command line.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Side that accepts connections.
    #[arg(value_name = "LISTEN")]
    listen: ProxyAddress,
    /// Side to which each of them is connected.
    #[arg(value_name = "TARGET")]
    target: ProxyAddress,
    /// Delimitation of messages in a byte stream.
    #[arg(long, value_name = "NAME")]
    framing: Option<Framing>,
    /// Longest message in both directions; a longer one ends its connection.
    #[arg(long, value_name = "BYTES", value_parser = units::length, default_value = "1M")]
    max_message: usize,
    #[command(flatten)]
    message: MessageArguments,
    /// Number of connections at the same time: further associations get an ABORT, connections wait, and datagrams are discarded.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    max_connections: u16,
    /// Time without a datagram in either direction after which a source of UDP has left.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "60s")]
    idle_timeout: Duration,
    /// Continue to receive from SCTP for this long after the end of the other side; a number without a unit is in s.
    #[arg(short = 'q', long, value_name = "TIME", value_parser = units::seconds, default_value = "0")]
    quit_after: Duration,
    /// Report each connection on standard error: its peers, and at its end the number of messages.
    #[arg(short, long)]
    verbose: bool,
    /// Write the lines on standard error as JSON objects.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    to: PeerArguments,
    #[command(flatten)]
    endpoint: EndpointArguments,
    #[command(flatten)]
    security: SecurityArguments,
}

impl Arguments {
    /// Returns the side that is not SCTP, and its framing.
    ///
    /// # Errors
    /// Not one side alone is SCTP, or the framing does not fit.
    fn local(&self) -> Result<(&ProxyAddress, Framing), Failure> {
        let usage = |line: String| Err(Failure::Usage(line));
        let local = match (self.listen.is_sctp(), self.target.is_sctp()) {
            (true, false) => &self.target,
            (false, true) => &self.listen,
            _ => {
                return usage(format!(
                    "one of {} and {} has to be SCTP, and one not",
                    self.listen, self.target
                ));
            }
        };
        match (self.framing, local.has_datagrams()) {
            (None | Some(Framing::Pdu), true) => Ok((local, Framing::Pdu)),
            (Some(_), true) => usage(format!(
                "{local} has datagrams, which are messages: leave out --framing"
            )),
            (None, false) => usage(format!(
                "{local} is a byte stream without boundaries of messages: give --framing"
            )),
            (Some(Framing::Pdu), false) => usage(format!(
                "--framing pdu is for datagrams, and {local} is a byte stream: give the framing that the program uses, such as length32, or use unix-seqpacket or udp"
            )),
            (Some(framing), false) => Ok((local, framing)),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (_, framing) = arguments.local()?;
    arguments.message.check()?;
    if !arguments.target.can_be_target() {
        return Err(Failure::Usage(format!(
            "{} needs a host and a port, such as sctp:192.0.2.1:38412",
            arguments.target
        )));
    }
    runtime::run(serve(arguments, framing))
}

async fn serve(arguments: &Arguments, framing: Framing) -> Result<(), Failure> {
    // Before the first connection, whose endpoint would report the error.
    arguments.endpoint.open_files()?;
    let proxy = Arc::new(Proxy {
        connection: ConnectionOptions {
            message: arguments
                .message
                .options(Some(framing), arguments.security.dtls),
            max_message: arguments.max_message,
            quit_after: arguments.quit_after,
        },
        limits: MessageLimits {
            framing,
            max_message: arguments.max_message,
        },
        max_connections: arguments.max_connections.into(),
        log: ProxyLog {
            verbose: arguments.verbose,
            json: arguments.json,
        },
        security: arguments.security.load(&arguments.endpoint.encryption)?,
        endpoint: arguments.endpoint.clone(),
        to: arguments.to.clone(),
        streams: arguments.message.streams(),
        stopping: watch::Sender::new(false),
    });
    match &arguments.listen.protocol {
        ProxyProtocol::Sctp(hosts, port) => listen_on_sctp(proxy, arguments, hosts, *port).await,
        ProxyProtocol::Stdio => {
            let target = sctp_target(&arguments.target).await?;
            let local = LocalConnection::stdio(proxy.limits);
            let local = local.map_err(|e| Failure::Run(format!("cannot use stdio: {e}")))?;
            proxy.serve_one(local, &target).await
        }
        _ => {
            let target = sctp_target(&arguments.target).await?;
            let listener =
                LocalListener::open(&arguments.listen, arguments.idle_timeout, proxy.log).await?;
            let address = listener.address(&arguments.listen);
            proxy
                .log
                .line("listening", &format!("listening on {address}"));
            proxy.serve_local(listener, target).await
        }
    }
}

async fn listen_on_sctp(
    proxy: Arc<Proxy>,
    arguments: &Arguments,
    hosts: &str,
    port: u16,
) -> Result<(), Failure> {
    let mut own = arguments.endpoint.clone();
    for host in hosts.split(',').filter(|host| !host.is_empty()) {
        let address = endpoint::address(host);
        own.bind.push(
            address
                .map_err(|why| Failure::Usage(format!("{}: {host}: {why}", arguments.listen)))?,
        );
    }
    let log = proxy.log;
    let report = move |text: &str| log.line("refused", text);
    let endpoint = proxy.security.listen(&own, port, proxy.streams, report)?;
    let line = endpoint::listening(&endpoint, port).await?;
    proxy.log.line("listening", &line);
    let only_one = arguments.target.protocol == ProxyProtocol::Stdio;
    let target = arguments.target.clone();
    proxy.serve_sctp(endpoint, target, only_one).await
}

async fn sctp_target(address: &ProxyAddress) -> Result<SctpTarget, Failure> {
    let ProxyProtocol::Sctp(hosts, port) = &address.protocol else {
        return Err(Failure::Usage(format!("{address} is not SCTP")));
    };
    Ok(SctpTarget {
        addresses: endpoint::resolve(hosts).await?,
        port: *port,
    })
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

    fn local(line: &[&str]) -> Result<Framing, String> {
        let arguments = Cli::parse_from([&["proxy"], line].concat()).arguments;
        match arguments.local() {
            Ok((_, framing)) => Ok(framing),
            Err(Failure::Usage(line)) => Err(line),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn byte_streams_need_a_framing_and_datagrams_none() {
        let tcp = ["sctp:7", "tcp:a:1"];
        let udp = ["udp:a:1", "sctp:a:7"];
        assert_eq!(local(&udp), Ok(Framing::Pdu));
        let with =
            |sides: &[&'static str; 2], framing| local(&[sides[0], sides[1], "--framing", framing]);
        assert_eq!(with(&tcp, "m3ua"), Ok(Framing::M3ua));
        assert!(local(&tcp).unwrap_err().contains("give --framing"));
        assert!(with(&tcp, "pdu").unwrap_err().contains("is a byte stream"));
        assert!(
            with(&udp, "lines")
                .unwrap_err()
                .contains("leave out --framing")
        );
        for sides in [["sctp:7", "sctp:a:8"], ["tcp:a:1", "udp:a:2"]] {
            assert!(local(&sides).unwrap_err().contains("has to be SCTP"));
        }
    }
}
