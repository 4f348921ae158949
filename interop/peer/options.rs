//! Command line of the peer program, as `interop/README.md` defines it.

use std::net::IpAddr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};

use crate::extension_options::ExtensionOptions;

/// Maximum size of a message.
pub(crate) const MAX_MESSAGE: usize = 16 << 20;

/// One association of carrick for the tests against other stacks; see interop/README.md.
#[derive(Parser, Debug)]
#[command(name = "carrick-peer")]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) role: Role,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Role {
    /// Wait for one association
    Listen {
        /// SCTP port
        #[arg(value_parser = value_parser!(u16).range(1..))]
        port: u16,
        #[command(flatten)]
        options: Options,
    },
    /// Set up one association
    Connect {
        /// The peer's addresses, separated by commas; the first is the primary
        addresses: Addresses,
        /// The peer's SCTP port
        #[arg(value_parser = value_parser!(u16).range(1..))]
        port: u16,
        #[command(flatten)]
        options: Options,
    },
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Local addresses [default: all of the host]
    #[arg(long, value_name = "ADDR,...")]
    pub(crate) local: Option<Addresses>,
    /// SCTP source port of connect [default: chosen]
    #[arg(long, value_name = "PORT", value_parser = value_parser!(u16).range(1..))]
    pub(crate) local_port: Option<u16>,
    /// Transport of the packets
    #[arg(long, value_enum, default_value = "udp")]
    pub(crate) transport: Transport,
    /// Local UDP port
    #[arg(long, value_name = "PORT", default_value_t = 9899, value_parser = value_parser!(u16).range(1..))]
    pub(crate) encaps_port: u16,
    /// UDP port that connect sends to
    #[arg(long, value_name = "PORT", default_value_t = 9899, value_parser = value_parser!(u16).range(1..))]
    pub(crate) remote_encaps_port: u16,
    /// Handling of messages
    #[arg(long, value_enum, default_value = "echo")]
    pub(crate) mode: Mode,
    /// source: user bytes to send
    #[arg(long, default_value_t = 0)]
    pub(crate) bytes: u64,
    /// source: message sizes, A, A-B or A,B,C
    #[arg(long, default_value = "1024")]
    pub(crate) sizes: Sizes,
    /// Outbound streams to request
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u16).range(1..))]
    pub(crate) streams: u16,
    /// source: maximum number of user bytes per second; 0: no limit
    #[arg(long, default_value_t = 0)]
    pub(crate) rate: u64,
    /// source: sends the rest after N user bytes only once an address of the peer is unreachable; 0: at once
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) hold: u64,
    /// source: every N-th message is unordered; 0: none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) unordered: u64,
    /// source: seed of a size range
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// PPID of all messages, whose index is then read from their content [default: the PPID is the index]
    #[arg(long, value_name = "N")]
    pub(crate) ppid: Option<u32>,
    /// User bytes that must arrive
    #[arg(long, default_value_t = 0)]
    pub(crate) expect: u64,
    /// Action after the last message
    #[arg(long, value_enum, default_value = "wait")]
    pub(crate) end: EndAction,
    /// Print a line for each N received user bytes; 0: none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) progress: u64,
    /// RTO.Initial in ms
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) rto_initial: Option<Duration>,
    /// RTO.Min in ms
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) rto_min: Option<Duration>,
    /// RTO.Max in ms
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) rto_max: Option<Duration>,
    /// Path.Max.Retrans
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..256))]
    pub(crate) path_max_retrans: Option<u32>,
    /// Association.Max.Retrans
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..256))]
    pub(crate) assoc_max_retrans: Option<u32>,
    /// HB.interval in ms
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) heartbeat: Option<Duration>,
    /// No Nagle delay
    #[arg(long)]
    pub(crate) nodelay: bool,
    /// Seconds for which the stack keeps running after the end
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = value_parser!(u64).range(..=3600))]
    pub(crate) linger: u64,
    /// Time limit of the run in seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = value_parser!(u64).range(1..=86400))]
    pub(crate) time_limit: u64,
    #[command(flatten)]
    pub(crate) extensions: ExtensionOptions,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Udp,
    Ip,
    Dtls,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Echo,
    Sink,
    Source,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndAction {
    Shutdown,
    Abort,
    Wait,
}

/// Addresses separated by commas.
#[derive(Clone, Debug)]
pub(crate) struct Addresses(pub(crate) Vec<IpAddr>);

impl std::str::FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |part: &str| {
            let wrong = |_| format!("'{part}' is not an IPv4 or IPv6 address");
            part.parse().map_err(wrong)
        };
        text.split(',').map(one).collect::<Result<_, _>>().map(Self)
    }
}

/// Message sizes of a source, each 1 to [`MAX_MESSAGE`].
#[derive(Clone, Debug)]
pub(crate) enum Sizes {
    List(Vec<usize>),
    Range(usize, usize),
}

impl std::str::FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| match part.parse() {
            Ok(size) if (1..=MAX_MESSAGE).contains(&size) => Ok(size),
            _ => Err(format!("'{part}' is not a size from 1 to {MAX_MESSAGE}")),
        };
        let Some((low, high)) = text.split_once('-') else {
            let sizes: Result<_, String> = text.split(',').map(number).collect();
            return Ok(Self::List(sizes?));
        };
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err("the smaller size comes first".into());
        }
        Ok(Self::Range(low, high))
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(ms @ 1..=3_600_000) => Ok(Duration::from_millis(ms)),
        _ => Err("not a number of milliseconds from 1 to 3600000".into()),
    }
}

/// Parses the command line. Returns the exit status after an error or the help.
pub(crate) fn parse() -> Result<CommandLine, u8> {
    CommandLine::try_parse().map_err(|error| {
        if matches!(
            error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
        ) {
            // If the help cannot be printed, there is no other output.
            let _ = error.print();
            return 0;
        }
        let text = error.to_string();
        let first = text.split("\n\n").next().unwrap_or_default();
        let words: Vec<&str> = first
            .trim_start_matches("error: ")
            .split_whitespace()
            .collect();
        eprintln!(
            "carrick-peer: {}; the options are in interop/README.md",
            words.join(" ")
        );
        2
    })
}

impl Role {
    pub(crate) fn options(&self) -> &Options {
        match self {
            Self::Listen { options, .. } | Self::Connect { options, .. } => options,
        }
    }
}
