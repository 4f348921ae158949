//! Parser of scripts: options, events and their times.

mod calls;
mod items;
mod packets;
mod tokens;

use std::fmt;
use std::iter;
use std::net::IpAddr;
use std::time::Duration;

use carrick_proto::Preset;

use crate::conditions;
use crate::model::{Action, Event, Note, Position, Script, ScriptOptions, System, Timing};

/// Depth of nested values, so that no script exhausts the stack.
const MAX_DEPTH: usize = 32;

/// Options of packetdrill that concern its network device, TCP or its own process.
const IGNORED_OPTIONS: [&str; 26] = [
    "--code_command",
    "--code_format",
    "--code_sockopt",
    "--debug",
    "--define",
    "--dry_run",
    "--gateway_ip",
    "--init_scripts",
    "--netmask_ip",
    "--non_fatal",
    "--persistent_tun_dev",
    "--send_omit_free",
    "--so_filename",
    "--so_flags",
    "--speed",
    "--tcp_ts_tick_usecs",
    "--tun_dev",
    "--udp_encaps",
    "--udp_encapsulation",
    "--verbose",
    "--wire_client",
    "--wire_client_dev",
    "--wire_server",
    "--wire_server_dev",
    "--wire_server_ip",
    "--wire_server_port",
];

/// Syntax error of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxError {
    /// Place of the error.
    pub position: Position,
    /// Expected and actual text.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.message)
    }
}

impl std::error::Error for SyntaxError {}

type Parsed<T> = Result<T, SyntaxError>;

impl Script {
    /// Parses a script with the lines for Linux.
    ///
    /// # Errors
    /// As for [`Self::parse_for`].
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Self::parse_for(text, System::Linux)
    }

    /// Parses a script with the lines for a system, whose sizes of structs it has.
    ///
    /// # Errors
    /// The first syntax error, with its line and column.
    pub fn parse_for(text: &str, system: System) -> Result<Self, SyntaxError> {
        let title = title(text);
        let text = &*conditions::select(text, system)?;
        let newlines = text.match_indices('\n');
        let mut parser = Parser {
            text,
            line_starts: iter::once(0)
                .chain(newlines.map(|(at, _)| at + 1))
                .collect(),
            at: 0,
            depth: 0,
            is_injected: false,
            notes: Vec::new(),
        };
        let mut options = ScriptOptions::default();
        let mut events = Vec::new();
        parser.skip()?;
        while !parser.rest().is_empty() {
            if parser.rest().starts_with("--") {
                if !events.is_empty() {
                    return Err(parser.error("options precede the first event"));
                }
                parser.option(&mut options)?;
            } else {
                events.push(parser.event()?);
            }
            parser.skip()?;
        }
        if events.is_empty() {
            return Err(parser.error("expected an event, such as `+0 > sctp: INIT[...]`"));
        }
        Ok(Self {
            title,
            notes: parser.notes,
            system,
            options,
            events,
        })
    }
}

/// Returns the text of the first line if it is a comment.
fn title(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    let comment = line
        .strip_prefix("//")
        .or_else(|| line.strip_prefix('#'))
        .or_else(|| line.strip_prefix("/*").map(|l| l.trim_end_matches("*/")));
    comment.unwrap_or_default().trim().to_owned()
}

struct Parser<'a> {
    text: &'a str,
    /// Offset of each line, so that the place of a token costs no pass over the text.
    line_starts: Vec<usize>,
    /// Offset in bytes.
    at: usize,
    depth: usize,
    /// The packet that is being parsed goes to the stack.
    is_injected: bool,
    notes: Vec<Note>,
}

impl Parser<'_> {
    fn option(&mut self, options: &mut ScriptOptions) -> Parsed<()> {
        let start = self.at;
        let rest = self.rest();
        let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (name, value) = rest[..len].split_once('=').unwrap_or((&rest[..len], ""));
        let value = value.trim_matches('"');
        let wrong = |what: &str| self.error(format!("{name}={value}: expected {what}"));
        let port = || value.parse().map_err(|_| wrong("a port"));
        // An address may have the length of its prefix.
        let address = |text: &str| text.split('/').next().unwrap_or(text).parse::<IpAddr>();
        match name {
            "--tolerance_usecs" => {
                let micros = value.parse().map_err(|_| wrong("microseconds"))?;
                options.tolerance = Duration::from_micros(micros);
            }
            "--ip_version" => {
                let (local, remote) = match value {
                    "ipv4" => ScriptOptions::IPV4,
                    "ipv6" => ScriptOptions::IPV6,
                    _ => return Err(wrong("ipv4 or ipv6")),
                };
                (options.local, options.remote) = (vec![local], remote);
            }
            "--local_ip" => {
                let parse = |a| address(a).map_err(|_| wrong("addresses with commas"));
                options.local = value.split(',').map(parse).collect::<Parsed<_>>()?;
            }
            "--remote_ip" => {
                options.remote = address(value).map_err(|_| wrong("an address"))?;
            }
            "--bind_port" => options.bind_port = port()?,
            "--connect_port" => options.connect_port = port()?,
            "--mtu" => options.mtu = Some(value.parse().map_err(|_| wrong("bytes"))?),
            "--seed" => options.seed = value.parse().map_err(|_| wrong("0 to 255"))?,
            "--preset" => {
                let preset = value.parse::<Preset>();
                options.preset =
                    preset.map_err(|error| self.error(format!("{name}={value}: {error}")))?;
            }
            "--parameters" => {
                options.has_ordered_parameters = match value {
                    "set" => false,
                    "list" => true,
                    _ => return Err(wrong("set or list")),
                };
            }
            _ if IGNORED_OPTIONS.contains(&name) => self.notes.push(Note {
                position: self.position(),
                text: format!("{name} has no effect"),
            }),
            _ => {
                return Err(self.error(format!(
                    "unknown option {name}: --tolerance_usecs, --ip_version, --local_ip, --remote_ip, --bind_port, \
                     --connect_port, --mtu, --seed, --preset and --parameters are known, and ignored are {}",
                    IGNORED_OPTIONS.join(", ")
                )));
            }
        }
        self.at = start + len;
        Ok(())
    }

    fn event(&mut self) -> Parsed<Event> {
        let position = self.position();
        // Commands before and after the events have no time.
        let timing = if self.peek() == Some('`') {
            Timing::Relative(Duration::ZERO, Duration::ZERO)
        } else {
            self.timing()?
        };
        let end = if self.take("...")? {
            Some(self.timing()?)
        } else {
            None
        };
        self.skip()?;
        let start = self.at;
        let action = match self.peek() {
            Some('<') => {
                self.at += 1;
                self.packet(true)?
            }
            Some('>') => {
                self.at += 1;
                self.packet(false)?
            }
            Some('`') => Action::Commands(self.commands()?),
            _ => Action::Call(self.call()?),
        };
        let is_exact = |timing| match timing {
            Timing::Any => false,
            Timing::Absolute(from, to) | Timing::Relative(from, to) => from == to,
        };
        let error = |message: &str| {
            let message = message.to_owned();
            Err(SyntaxError { position, message })
        };
        if !matches!(action, Action::Expect(_)) && !is_exact(timing) {
            return error("the script performs this event: `*` and ranges are for `>`");
        }
        if !matches!(action, Action::Call(_)) && end.is_some() {
            return error("`START...END` is the duration of a call that blocks");
        }
        let words: Vec<&str> = self.text[start..self.at].split_whitespace().collect();
        let text = words.join(" ");
        Ok(Event {
            position,
            timing,
            end,
            action,
            text,
        })
    }

    /// Parses shell commands in backticks.
    fn commands(&mut self) -> Parsed<String> {
        let behind = &self.rest()[1..];
        let len = behind.find('`');
        let len = len.ok_or_else(|| self.error("the command has no end: a backtick"))?;
        self.at += len + 2;
        Ok(behind[..len].trim().to_owned())
    }

    fn timing(&mut self) -> Parsed<Timing> {
        const WHAT: &str = "a time, such as `+0.1`, `0.5`, `+0.1~+0.2` or `*`";
        if self.take("*")? {
            return Ok(Timing::Any);
        }
        let relative = self.take("+")?;
        let from = self.seconds(WHAT)?;
        let mut to = from;
        if self.take("~")? {
            if relative {
                self.take("+")?;
            }
            to = self.seconds(WHAT)?;
            if to < from {
                return Err(self.error("the end of the range precedes its beginning"));
            }
        }
        Ok(if relative {
            Timing::Relative(from, to)
        } else {
            Timing::Absolute(from, to)
        })
    }

    /// Parses seconds with up to nine decimals.
    fn seconds(&mut self, what: &str) -> Parsed<Duration> {
        self.skip()?;
        let rest = self.rest();
        let digits = |text: &str| {
            text.find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len())
        };
        let whole = digits(rest);
        let mut len = whole;
        let mut decimals = "";
        let after = &rest[whole..];
        if after.starts_with('.') && !after.starts_with("..") {
            let count = digits(&after[1..]);
            decimals = &after[1..=count];
            len += 1 + count;
        }
        if whole + decimals.len() == 0 {
            return Err(self.error(format!("expected {what}")));
        }
        let seconds: u64 = match &rest[..whole] {
            "" => 0,
            text => text.parse().unwrap_or(u64::MAX),
        };
        // Ten years.
        if seconds > 315_360_000 || decimals.len() > 9 {
            return Err(self.error(format!("{} is no time of a script", &rest[..len])));
        }
        let nanos: u32 = format!("{decimals:0<9}").parse().unwrap_or_default();
        self.at += len;
        Ok(Duration::new(seconds, nanos))
    }
}
