//! Script: options and events (see the documentation of the crate for the syntax).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use carrick_proto::{Ecn, IcmpKind, Preset};

use crate::schema::{FieldKind, ItemGroup, Schema};

/// Place in a script, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// System for which a script was written: `#ifdef`, and sizes of structs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum System {
    /// `#ifdef Linux`
    #[default]
    Linux,
    /// `#ifdef FreeBSD`
    FreeBsd,
}

impl System {
    /// Returns the name of the system.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::FreeBsd => "FreeBSD",
        }
    }
}

/// Part of a script that has no effect here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Place in the script.
    pub position: Position,
    /// Reason in one line.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.text)
    }
}

/// Parsed script.
#[derive(Clone, Debug)]
pub struct Script {
    /// First line of the first comment: source and rule.
    pub title: String,
    /// Options that have no effect.
    pub(crate) notes: Vec<Note>,
    pub(crate) system: System,
    pub(crate) options: ScriptOptions,
    pub(crate) events: Vec<Event>,
}

impl Script {
    /// Sets the parameters from which those of sockets start, instead of the line `--preset` of the script.
    pub fn set_preset(&mut self, preset: Preset) {
        self.options.preset = preset;
    }
}

/// Option lines.
#[derive(Clone, Debug)]
pub(crate) struct ScriptOptions {
    pub(crate) tolerance: Duration,
    pub(crate) local: Vec<IpAddr>,
    pub(crate) remote: IpAddr,
    pub(crate) bind_port: u16,
    pub(crate) connect_port: u16,
    pub(crate) mtu: Option<usize>,
    pub(crate) seed: u8,
    /// Parameters from which those of sockets start.
    pub(crate) preset: Preset,
    /// Parameters of INIT and INIT ACK are compared in the order of the script.
    pub(crate) has_ordered_parameters: bool,
}

impl ScriptOptions {
    /// Addresses of packetdrill: of the stack, and of its peer.
    pub(crate) const IPV4: (IpAddr, IpAddr) = (
        IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)),
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    );
    pub(crate) const IPV6: (IpAddr, IpAddr) = (
        IpAddr::V6(Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    );
}

impl Default for ScriptOptions {
    fn default() -> Self {
        Self {
            tolerance: Duration::ZERO,
            local: vec![Self::IPV4.0],
            remote: Self::IPV4.1,
            bind_port: 8080,
            connect_port: 8080,
            mtu: None,
            seed: 1,
            preset: Preset::Rfc9260,
            has_ordered_parameters: false,
        }
    }
}

/// Time of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timing {
    /// `*`
    Any,
    /// Between two times since the beginning of the script.
    Absolute(Duration, Duration),
    /// Between two times since the previous event.
    Relative(Duration, Duration),
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) position: Position,
    pub(crate) timing: Timing,
    /// End of a call that blocks.
    pub(crate) end: Option<Timing>,
    pub(crate) action: Action,
    /// Text of the event, without its time.
    pub(crate) text: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A packet to the stack: `<`.
    Inject(PacketSpec),
    /// A packet that the stack sends: `>`.
    Expect(PacketSpec),
    Call(Call),
    /// An ICMP message to the stack.
    Icmp(IcmpSpec),
    /// Shell commands: a line in backticks.
    Commands(String),
}

/// ECN field of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EcnSpec {
    Is(Ecn),
    /// ECT(0) or ECT(1).
    Capable,
}

/// ICMP message to the stack about a packet that it sent.
#[derive(Clone, Debug)]
pub(crate) struct IcmpSpec {
    pub(crate) kind: IcmpKind,
    /// Source and destination address of the message.
    pub(crate) addresses: Option<(IpAddr, IpAddr)>,
    /// Verification tag of the quoted packet; that of the association if the script has none.
    pub(crate) tag: Option<Value>,
    /// UDP ports of the quoted packet.
    pub(crate) udp_ports: Option<(u16, u16)>,
}

/// A packet of a script.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketSpec {
    /// Source and destination address.
    pub(crate) addresses: Option<(IpAddr, IpAddr)>,
    pub(crate) tag: Option<Value>,
    pub(crate) source_port: Option<u16>,
    pub(crate) destination_port: Option<u16>,
    pub(crate) bad_crc32c: bool,
    /// UDP ports of source and destination (RFC 6951).
    pub(crate) udp_ports: Option<(u16, u16)>,
    pub(crate) ecn: Option<EcnSpec>,
    /// Bytes behind the common header, in place of chunks.
    pub(crate) raw: Option<Vec<u8>>,
    pub(crate) chunks: Vec<Item>,
}

/// Chunk, parameter or cause: what a script has written, or what a packet has.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) position: Position,
    pub(crate) schema: &'static Schema,
    /// Values by the index of their field.
    pub(crate) values: Vec<(usize, Value)>,
    /// Parameters or causes at the end.
    pub(crate) items: Vec<Item>,
    /// `...` at the end: further parameters or causes.
    pub(crate) open: bool,
}

impl Item {
    pub(crate) fn new(schema: &'static Schema, position: Position) -> Self {
        Self {
            position,
            schema,
            values: Vec::new(),
            items: Vec::new(),
            open: false,
        }
    }

    /// Returns the value of a field of a kind.
    pub(crate) fn of_kind(&self, kind: FieldKind) -> Option<&Value> {
        let mut values = self.values.iter();
        let (_, value) = values.find(|(index, _)| self.schema.fields[*index].kind == kind)?;
        Some(value)
    }

    /// Returns the value of a field.
    pub(crate) fn value(&self, index: usize) -> Option<&Value> {
        let (_, value) = self.values.iter().find(|(at, _)| *at == index)?;
        Some(value)
    }

    /// Returns the type or code, if it is a number.
    pub(crate) fn code(&self) -> Option<u16> {
        if self.schema.code.is_some() {
            return self.schema.code;
        }
        match self.of_kind(FieldKind::Code) {
            Some(Value::Number(code)) => Some(*code as u16),
            _ => None,
        }
    }

    pub(crate) fn is_chunk(&self, name: &str) -> bool {
        self.schema.group == ItemGroup::Chunk && self.schema.name == name
    }
}

/// Value of a field.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// `...`
    Any,
    Number(u64),
    /// `$name`
    Variable(String),
    Bytes(Vec<u8>),
    Address(IpAddr),
    Pairs(Vec<(u16, u16)>),
    /// Stream identifier, flags and MID.
    MessageIds(Vec<(u16, u16, u32)>),
    Numbers(Vec<u64>),
    Item(Box<Item>),
}

/// Call of the sockets API.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Expression>,
    pub(crate) result: CallResult,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CallResult {
    /// `...`
    Any,
    Number(i64),
    /// -1 with the name of an error.
    Error(String),
}

/// Argument of a call, with its place.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) position: Position,
    pub(crate) kind: ExpressionKind,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ExpressionKind {
    Ellipsis,
    Number(i64),
    Text(Vec<u8>),
    Variable(String),
    Name(String),
    /// Values that are combined with `|`.
    Flags(Vec<Expression>),
    Array(Vec<Expression>),
    /// Fields with their names; those without one have an empty one.
    Struct(Vec<(String, Expression)>),
    Function(String, Vec<Expression>),
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.schema.name)?;
        let mut separator = "";
        for (index, value) in &self.values {
            let field = &self.schema.fields[*index];
            write!(f, "{separator}{}=", field.key)?;
            match (field.kind, value) {
                (FieldKind::Flags, Value::Number(flags)) => write_flags(f, self.schema, *flags)?,
                (FieldKind::Code, Value::Number(code)) => write!(f, "{code:#x}")?,
                _ => write!(f, "{value}")?,
            }
            separator = ", ";
        }
        for item in &self.items {
            write!(f, "{separator}{item}")?;
            separator = ", ";
        }
        if self.open {
            write!(f, "{separator}...")?;
        }
        f.write_str("]")
    }
}

fn write_flags(f: &mut fmt::Formatter<'_>, schema: &Schema, flags: u64) -> fmt::Result {
    let known: u64 = schema.flags.iter().map(|(_, bit)| u64::from(*bit)).sum();
    if flags == 0 || flags & !known != 0 {
        return write!(f, "{flags}");
    }
    for (letter, bit) in schema.flags {
        if flags & u64::from(*bit) != 0 {
            write!(f, "{letter}")?;
        }
    }
    Ok(())
}

/// Bytes of a value that are shown.
const SHOWN_BYTES: usize = 24;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("..."),
            Self::Number(number) => write!(f, "{number}"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Bytes(bytes) => {
                let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
                if !shown.is_empty() && shown.iter().all(|b| (0x20..0x7f).contains(b)) {
                    write!(f, "{:?}", String::from_utf8_lossy(shown))?;
                } else {
                    let list: Vec<String> = shown.iter().map(|b| format!("{b:#04x}")).collect();
                    write!(f, "[{}]", list.join(", "))?;
                }
                if shown.len() < bytes.len() {
                    write!(f, " and {} bytes more", bytes.len() - shown.len())?;
                }
                Ok(())
            }
            Self::Address(address) => write!(f, "{address}"),
            Self::Pairs(pairs) => {
                let list: Vec<String> = pairs.iter().map(|(a, b)| format!("{a}:{b}")).collect();
                write!(f, "[{}]", list.join(", "))
            }
            Self::MessageIds(ids) => {
                let list: Vec<String> = ids
                    .iter()
                    .map(|(stream, flags, mid)| format!("{{{stream}, {flags}, {mid}}}"))
                    .collect();
                write!(f, "[{}]", list.join(", "))
            }
            Self::Numbers(numbers) => {
                let list: Vec<String> = numbers.iter().map(u64::to_string).collect();
                write!(f, "[{}]", list.join(", "))
            }
            Self::Item(item) => write!(f, "{item}"),
        }
    }
}

impl fmt::Display for PacketSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((source, destination)) = self.addresses {
            write!(f, "{source} > {destination}: ")?;
        }
        match self.ecn {
            None => {}
            Some(EcnSpec::Capable) => f.write_str("(ect01) ")?,
            Some(EcnSpec::Is(ecn)) => {
                let name = ["noecn", "ect1", "ect0", "ce"][usize::from(ecn.bits())];
                write!(f, "({name}) ")?;
            }
        }
        f.write_str("sctp")?;
        let mut header = Vec::new();
        if let Some(tag) = &self.tag {
            header.push(format!("tag={tag}"));
        }
        if let Some(port) = self.source_port {
            header.push(format!("sport={port}"));
        }
        if let Some(port) = self.destination_port {
            header.push(format!("dport={port}"));
        }
        if self.bad_crc32c {
            header.push("bad_crc32c".into());
        }
        if !header.is_empty() {
            write!(f, "({})", header.join(", "))?;
        }
        if let Some((source, destination)) = self.udp_ports {
            write!(f, "/udp({source} > {destination})")?;
        }
        if let Some(raw) = &self.raw {
            return write!(f, ": {}", Value::Bytes(raw.clone()));
        }
        let chunks: Vec<String> = self.chunks.iter().map(Item::to_string).collect();
        write!(f, ": {}", chunks.join("; "))
    }
}
