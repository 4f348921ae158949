//! The command line of `carrick cat`.

use std::time::Duration;

use carrick::{AssociationConfig, Ppid, Reliability, SendOptions, StreamId};
use clap::{Args, ValueEnum};

use super::input::InputFormat;
use super::output::MessageFormat;
use super::process::ProcessCommand;
use crate::endpoint::{EndpointArguments, PeerArguments};
use crate::failure::Failure;
use crate::framing::Framing;
use crate::security::SecurityArguments;
use crate::units;

/// Send standard input as messages and write received ones to standard output.
///
/// Each line of the input, with its newline, is one message; with --size N, every N bytes form one message; --framing and
/// --input have other forms. At end of input the association is shut down gracefully. SCTP has no half-closed associations, so a
/// side that only receives needs --recv-only. With --keep-open, the input is sent to all associations, and ends none of them. With
/// --exec, each association has a process instead. Exit code 0: shut down gracefully by either side, or --keep-open ended by a
/// signal; 1: not connected, or ended otherwise; 2: invalid command line.
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "carrick cat [OPTIONS] HOST[,HOST...] PORT\n       carrick cat [OPTIONS] --listen PORT"
)]
pub(crate) struct Arguments {
    /// Addresses or name of the peer, several separated by commas, and its SCTP port; with --listen only
    /// the local port.
    #[arg(value_name = "HOST PORT", required = true, num_args = 1..=2)]
    target: Vec<String>,
    /// Wait for an association instead of connecting.
    #[arg(short, long)]
    listen: bool,
    /// Accept further associations, at the same time and after the end of others, until a signal ends the program. Input is sent
    /// to all that exist at that time, as fast as the slowest peer takes it, and is not read while there is none.
    #[arg(short, long, requires = "listen")]
    pub(super) keep_open: bool,
    /// Number of associations at the same time with --keep-open; further ones get an ABORT.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "keep_open", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_associations: u16,
    #[command(flatten)]
    pub(super) process: ProcessArguments,
    /// Send messages of this many bytes instead of lines; the last one may be shorter.
    #[arg(short, long, value_name = "BYTES", value_parser = units::length, conflicts_with_all = ["framing", "input"])]
    size: Option<usize>,
    /// Delimitation of messages in the input; other ones than lines and chunks also in the output [default: lines].
    #[arg(long, value_name = "NAME", conflicts_with = "input")]
    framing: Option<Framing>,
    /// Read a message a line: in hexadecimal digits (hex), or as a JSON object with hex or text, and optionally stream, ppid,
    /// unordered, lifetime, retransmissions, priority and association (json); it may be one that --json has written.
    #[arg(long, value_name = "FORM")]
    input: Option<Description>,
    #[command(flatten)]
    message: MessageArguments,
    /// Write one line per message: stream, SSN, PPID, length and the bytes in hexadecimal.
    #[arg(long, conflicts_with = "json")]
    hex: bool,
    /// Write one JSON object per message, with the bytes in hexadecimal.
    #[arg(long)]
    pub(super) json: bool,
    /// Don't read standard input; the peer ends the association.
    #[arg(long, conflicts_with = "send_only")]
    pub(super) recv_only: bool,
    /// Discard received messages.
    #[arg(long)]
    send_only: bool,
    /// Continue to receive for this long after the end of the input; a number without a unit is in s.
    #[arg(short = 'q', long, value_name = "TIME", value_parser = units::seconds, conflicts_with = "recv_only")]
    pub(super) quit_after: Option<Duration>,
    /// Report the state of the association and of its paths on standard error; with --json, as JSON objects.
    #[arg(short, long)]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) to: PeerArguments,
    #[command(flatten)]
    pub(super) endpoint: EndpointArguments,
    #[command(flatten)]
    pub(super) security: SecurityArguments,
}

/// Process of each association.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ProcessArguments {
    /// Run this program, with arguments separated by spaces and without a shell, for each association: its output is sent, and
    /// received messages are its input. Its end shuts the association down.
    #[arg(short, long, value_name = "COMMAND", conflicts_with_all = ["sh_exec", "recv_only", "send_only"])]
    pub(super) exec: Option<String>,
    /// Run this command line by /bin/sh for each association, as --exec does.
    #[arg(short = 'c', long, value_name = "COMMAND", conflicts_with_all = ["recv_only", "send_only"])]
    pub(super) sh_exec: Option<String>,
}

/// Attributes of the sent messages.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MessageArguments {
    /// Stream number of the sent messages.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=65_534))]
    stream: u16,
    /// Number of outbound streams to request [default: 10, or as many as --stream needs].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    streams: Option<u16>,
    /// Payload protocol identifier of the sent messages [default: 0, or that of the framing's protocol].
    #[arg(long, value_name = "N")]
    ppid: Option<u32>,
    /// Send unordered messages.
    #[arg(long)]
    unordered: bool,
    /// Abandon a message that is not delivered within this time (timed reliability, RFC 3758 and RFC 7496).
    #[arg(long, value_name = "TIME", value_parser = units::duration, conflicts_with_all = ["max_retransmissions", "priority"])]
    lifetime: Option<Duration>,
    /// Abandon a message that would be retransmitted more often (limited retransmissions, RFC 7496); 0 for never.
    #[arg(long, value_name = "N", conflicts_with = "priority")]
    max_retransmissions: Option<u32>,
    /// Abandon messages when the send buffer has no room for those of higher priority; 0 is the highest (RFC 7496).
    #[arg(long, value_name = "N")]
    priority: Option<u32>,
}

/// Form of lines that describe messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Description {
    Hex,
    Json,
}

/// Peer to connect to, or port to listen on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    Listen(u16),
    Connect(&'a str, u16),
}

impl MessageArguments {
    /// Returns the options of messages of the protocol of a framing.
    pub(crate) fn options(&self, framing: Option<Framing>, dtls: bool) -> SendOptions {
        let assigned = framing.map_or(0, |framing| framing.ppid(dtls));
        let reliability = match (self.lifetime, self.max_retransmissions, self.priority) {
            (Some(time), _, _) => Reliability::Timed(time),
            (_, Some(limit), _) => Reliability::Retransmissions(limit),
            (_, _, Some(priority)) => Reliability::Priority(priority),
            _ => Reliability::Full,
        };
        SendOptions {
            stream: StreamId(self.stream),
            ppid: Ppid(self.ppid.unwrap_or(assigned)),
            unordered: self.unordered,
            lifetime: self.lifetime,
            reliability,
            ..SendOptions::default()
        }
    }

    /// Returns the number of outbound streams to request.
    pub(crate) fn streams(&self) -> u16 {
        let default = AssociationConfig::rfc9260().streams.outbound_streams;
        self.streams.unwrap_or(default.max(self.stream + 1))
    }

    /// Checks that the number of streams has the selected one.
    ///
    /// # Errors
    /// Names both options.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.streams {
            Some(streams) if self.stream >= streams => Err(Failure::Usage(format!(
                "--stream {} needs --streams {} or more: streams are numbered from 0",
                self.stream,
                self.stream + 1
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the association has the selected stream.
    ///
    /// # Errors
    /// The peer accepts fewer streams.
    pub(crate) fn check_stream(&self, streams: u16) -> Result<(), Failure> {
        if self.stream < streams {
            return Ok(());
        }
        Err(Failure::Run(format!(
            "the peer accepts streams 0 to {} only: use another --stream",
            streams.saturating_sub(1)
        )))
    }
}

impl Arguments {
    pub(super) fn target(&self) -> Result<Target<'_>, Failure> {
        match (self.listen, &self.target[..]) {
            (true, [own]) => Ok(Target::Listen(port(own)?)),
            (false, [host, peers]) => Ok(Target::Connect(host, port(peers)?)),
            (true, _) => Err(usage(
                "with --listen give only the port; local addresses belong to --bind",
            )),
            (false, _) => Err(usage("give the peer's address and its port, or --listen")),
        }
    }

    /// Checks options that depend on each other.
    ///
    /// # Errors
    /// Names the option.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.framing == Some(Framing::Pdu) {
            return Err(usage(
                "--framing pdu is for datagrams, and the input is a byte stream: give another framing, or --input hex",
            ));
        }
        self.message.check()?;
        ProcessCommand::of(&self.process).map_or(Ok(()), |command| command.check())
    }

    pub(super) fn input_format(&self) -> InputFormat {
        match (self.size, self.input) {
            (Some(size), _) => InputFormat::Blocks(size),
            (_, Some(Description::Hex)) => InputFormat::Hex,
            (_, Some(Description::Json)) => InputFormat::Json,
            (None, None) => InputFormat::Framed(self.framing.unwrap_or(Framing::Lines)),
        }
    }

    /// Returns the format of received messages: on standard output, lines and other bytes are written as they are.
    pub(super) fn output_format(&self) -> MessageFormat {
        match (self.hex, self.json, self.framing) {
            _ if self.send_only => MessageFormat::Discard,
            (true, _, _) => MessageFormat::Hex,
            (_, true, _) => MessageFormat::Json,
            (_, _, Some(framing)) if !matches!(framing, Framing::Lines | Framing::Chunks) => {
                MessageFormat::Framed(framing)
            }
            _ => MessageFormat::Raw,
        }
    }

    /// Returns the format of a process's input: lines are delimited there.
    pub(super) fn process_format(&self) -> MessageFormat {
        let is_lines = self.input_format() == InputFormat::Framed(Framing::Lines);
        match self.output_format() {
            MessageFormat::Raw if is_lines => MessageFormat::Framed(Framing::Lines),
            format => format,
        }
    }

    pub(super) fn options(&self) -> SendOptions {
        self.message.options(self.framing, self.security.dtls)
    }

    pub(super) fn message(&self) -> &MessageArguments {
        &self.message
    }
}

pub(super) fn usage(line: &str) -> Failure {
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

    #[test]
    fn streams_include_the_selected_one() {
        let streams = |line: &[&'static str]| {
            let arguments = parse(&[&["host", "7"], line].concat());
            arguments.check().map(|()| arguments.message().streams())
        };
        assert_eq!(streams(&["--stream", "3"]).unwrap(), 10);
        assert_eq!(streams(&["--stream", "30"]).unwrap(), 31);
        assert_eq!(streams(&["--stream", "2", "--streams", "3"]).unwrap(), 3);
        let Err(Failure::Usage(line)) = streams(&["--stream", "3", "--streams", "3"]) else {
            panic!("stream 3 of 3 is refused");
        };
        assert!(line.starts_with("--stream 3 needs --streams 4"), "{line}");
    }

    #[test]
    fn a_missing_program_is_named_at_the_start() {
        let checked = |line: &[&'static str]| parse(&[&["-l", "7"], line].concat()).check();
        for found in ["cat", "/bin/sh -c x"] {
            assert!(checked(&["--exec", found]).is_ok(), "{found}");
        }
        for missing in ["no-such-program x", "/no/such", "/etc/passwd"] {
            let Err(Failure::Usage(line)) = checked(&["--exec", missing]) else {
                panic!("{missing} is refused");
            };
            assert!(line.starts_with("--exec: "), "{line}");
        }
    }

    #[test]
    fn a_framing_selects_the_ppid_and_the_output() {
        let m3ua = parse(&["host", "7", "--framing", "m3ua"]);
        assert_eq!(m3ua.options().ppid, Ppid(3));
        let framed = MessageFormat::Framed(Framing::M3ua);
        assert_eq!(m3ua.output_format(), framed);
        let other = parse(&["host", "7", "--framing", "m3ua", "--ppid", "5", "--hex"]);
        assert_eq!(other.options().ppid, Ppid(5));
        assert_eq!(other.output_format(), MessageFormat::Hex);
        let lines = parse(&["host", "7"]);
        assert_eq!(lines.output_format(), MessageFormat::Raw);
        let process = MessageFormat::Framed(Framing::Lines);
        assert_eq!(lines.process_format(), process);
    }
}
