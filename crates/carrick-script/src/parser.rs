//! Parser of scripts.

use std::fmt;
use std::iter;
use std::net::IpAddr;
use std::time::Duration;

use crate::model::{
    Action, Call, CallResult, Event, Expression, ExpressionKind, Item, PacketSpec, Position,
    Profile, Script, ScriptOptions, Timing, Value,
};
use crate::schema::{Field, FieldKind, ItemGroup, ItemList, Schema};

/// Depth of nested values, so that no script exhausts the stack.
const MAX_DEPTH: usize = 32;

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
    /// Parses a script.
    ///
    /// # Errors
    /// The first syntax error, with its line and column.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let newlines = text.match_indices('\n');
        let mut parser = Parser {
            text,
            line_starts: iter::once(0)
                .chain(newlines.map(|(at, _)| at + 1))
                .collect(),
            at: 0,
            depth: 0,
            is_injected: false,
        };
        let title = title(text);
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
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn position(&self) -> Position {
        let line = self.line_starts.partition_point(|start| *start <= self.at);
        let start = self.line_starts[line - 1];
        Position {
            line,
            column: self.text[start..self.at].chars().count() + 1,
        }
    }

    fn error(&self, message: impl Into<String>) -> SyntaxError {
        let mut message = message.into();
        if message.starts_with("expected") {
            message.push_str(", found ");
            message.push_str(&self.found());
        }
        SyntaxError {
            position: self.position(),
            message,
        }
    }

    /// Returns the next word or sign for a message.
    fn found(&self) -> String {
        let Some(first) = self.peek() else {
            return "the end of the script".into();
        };
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let word: String = if is_word(first) {
            self.rest().chars().take_while(|c| is_word(*c)).collect()
        } else {
            first.to_string()
        };
        match word.as_str() {
            "\n" | "\r" => "the end of the line".into(),
            _ => format!("`{word}`"),
        }
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            if rest.starts_with("//") || rest.starts_with('#') {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let end = rest.find("*/");
                let end = end.ok_or_else(|| self.error("the comment has no end `*/`"))?;
                self.at += end + 2;
            } else if blank == 0 {
                return Ok(());
            }
        }
    }

    /// Skips a sign or word, white space before it included, if it is next.
    fn take(&mut self, sign: &str) -> Parsed<bool> {
        let start = self.at;
        self.skip()?;
        let is_next = self.rest().starts_with(sign);
        self.at = if is_next { self.at + sign.len() } else { start };
        Ok(is_next)
    }

    fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.take(sign)? {
            return Ok(());
        }
        self.skip()?;
        Err(self.error(format!("expected `{sign}`")))
    }

    fn word(&mut self, what: &str) -> Parsed<&'a str> {
        self.skip()?;
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        if len == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.error(format!("expected {what}")));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    /// Parses an integer: decimal, with `0x` hexadecimal.
    fn integer(&mut self, what: &str) -> Parsed<i64> {
        self.skip()?;
        let negative = self.rest().starts_with('-');
        let start = self.at;
        self.at += usize::from(negative);
        let rest = self.rest();
        let len = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let digits = &rest[..len];
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(u64::cast_signed),
            None => digits.parse::<i64>().ok(),
        };
        let Some(value) = value else {
            self.at = start;
            return Err(self.error(format!("expected {what}")));
        };
        self.at += len;
        Ok(if negative { -value } else { value })
    }

    fn unsigned(&mut self, what: &str, max: u64) -> Parsed<u64> {
        self.skip()?;
        let start = self.at;
        let value = self.integer(what)?;
        match u64::try_from(value) {
            Ok(value) if value <= max => Ok(value),
            _ => {
                self.at = start;
                Err(self.error(format!("{value} is out of range: {what}, 0 to {max}")))
            }
        }
    }

    fn option(&mut self, options: &mut ScriptOptions) -> Parsed<()> {
        let start = self.at;
        let rest = self.rest();
        let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (name, value) = rest[..len].split_once('=').unwrap_or((&rest[..len], ""));
        let wrong = |what: &str| self.error(format!("{name}={value}: expected {what}"));
        let port = || value.parse().map_err(|_| wrong("a port"));
        match name {
            "--tolerance_usecs" => {
                let micros = value.parse().map_err(|_| wrong("microseconds"))?;
                options.tolerance = Duration::from_micros(micros);
            }
            "--ip_version" => match value {
                "ipv4" => {}
                "ipv6" => {
                    options.local = vec![[0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()];
                    options.remote = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into();
                }
                _ => return Err(wrong("ipv4 or ipv6")),
            },
            "--local_ip" => {
                let parse = |a: &str| a.parse().map_err(|_| wrong("addresses with commas"));
                options.local = value.split(',').map(parse).collect::<Parsed<_>>()?;
            }
            "--remote_ip" => options.remote = value.parse().map_err(|_| wrong("an address"))?,
            "--bind_port" => options.bind_port = port()?,
            "--connect_port" => options.connect_port = port()?,
            "--mtu" => options.mtu = Some(value.parse().map_err(|_| wrong("bytes"))?),
            "--seed" => options.seed = value.parse().map_err(|_| wrong("0 to 255"))?,
            "--profile" => {
                options.profile = match value {
                    "rfc9260" => Profile::Rfc9260,
                    "sockets" => Profile::Sockets,
                    _ => return Err(wrong("rfc9260 or sockets")),
                };
            }
            _ => {
                return Err(self.error(format!(
                    "unknown option {name}: --tolerance_usecs, --ip_version, --local_ip, --remote_ip, --bind_port, \
                     --connect_port, --mtu, --seed and --profile are known"
                )));
            }
        }
        self.at = start + len;
        Ok(())
    }

    fn event(&mut self) -> Parsed<Event> {
        let position = self.position();
        let timing = self.timing()?;
        let end = if self.rest().starts_with("...") {
            self.at += 3;
            Some(self.timing()?)
        } else {
            None
        };
        self.skip()?;
        let start = self.at;
        let action = match self.peek() {
            Some('<') => {
                self.at += 1;
                self.is_injected = true;
                Action::Inject(self.packet()?)
            }
            Some('>') => {
                self.at += 1;
                self.is_injected = false;
                Action::Expect(self.packet()?)
            }
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

    fn timing(&mut self) -> Parsed<Timing> {
        const WHAT: &str = "a time, such as `+0.1`, `0.5`, `+0.1~+0.2` or `*`";
        if self.rest().starts_with('*') {
            self.at += 1;
            return Ok(Timing::Any);
        }
        let relative = self.rest().starts_with('+');
        self.at += usize::from(relative);
        let from = self.seconds(WHAT)?;
        let mut to = from;
        if self.rest().starts_with('~') {
            self.at += 1;
            if relative {
                self.at += usize::from(self.rest().starts_with('+'));
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

    fn packet(&mut self) -> Parsed<PacketSpec> {
        let mut packet = PacketSpec::default();
        self.skip()?;
        // `ipv4 A > B:` as in scripts with tunnels, or the addresses alone.
        if self.take("ipv4")? || self.take("ipv6")? {
            self.skip()?;
        }
        if !self.rest().starts_with("sctp") {
            let source = self.address("`sctp` or an address")?;
            self.expect(">")?;
            let destination = self.address("an address")?;
            self.expect(":")?;
            packet.addresses = Some((source, destination));
        }
        self.expect("sctp")?;
        if self.take("(")? {
            loop {
                self.packet_field(&mut packet)?;
                if !self.take(",")? {
                    break;
                }
            }
            self.expect(")")?;
        }
        self.expect(":")?;
        loop {
            packet.chunks.push(self.item(ItemGroup::Chunk)?);
            if !self.take(";")? {
                return Ok(packet);
            }
        }
    }

    fn packet_field(&mut self, packet: &mut PacketSpec) -> Parsed<()> {
        const WHAT: &str = "tag, sport, dport or bad_crc32c";
        self.skip()?;
        let start = self.at;
        let key = self.word(WHAT)?;
        if key == "bad_crc32c" && self.is_injected {
            packet.bad_crc32c = true;
            return Ok(());
        }
        if !["tag", "sport", "dport"].contains(&key) {
            self.at = start;
            return Err(self.error(format!("expected {WHAT}")));
        }
        self.expect("=")?;
        if key == "tag" {
            packet.tag = Some(self.number(u64::from(u32::MAX))?);
            return Ok(());
        }
        let port = Some(self.unsigned("a port", 65_535)? as u16);
        match key {
            "sport" => packet.source_port = port,
            _ => packet.destination_port = port,
        }
        Ok(())
    }

    fn address(&mut self, what: &str) -> Parsed<IpAddr> {
        self.skip()?;
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        // The colon behind an address ends it.
        let candidates = [&rest[..len], rest[..len].trim_end_matches(':')];
        for text in candidates {
            if let Ok(address) = text.parse() {
                self.at += text.len();
                return Ok(address);
            }
        }
        Err(self.error(format!("expected {what}")))
    }

    /// Parses `...`, a variable or a number.
    fn number(&mut self, max: u64) -> Parsed<Value> {
        if let Some(value) = self.wildcard()? {
            return Ok(value);
        }
        Ok(Value::Number(self.unsigned("a number", max)?))
    }

    fn wildcard(&mut self) -> Parsed<Option<Value>> {
        if self.take("...")? {
            return Ok(Some(Value::Any));
        }
        if self.take("$")? {
            return Ok(Some(Value::Variable(
                self.word("the name of a variable")?.to_owned(),
            )));
        }
        Ok(None)
    }

    fn item(&mut self, group: ItemGroup) -> Parsed<Item> {
        self.deeper()?;
        self.skip()?;
        let position = self.position();
        let start = self.at;
        let mut name = self.word(&format!("the name of a {}", group.noun()))?;
        if self.rest().starts_with("-DATA") {
            self.at += 5;
            name = &self.text[start..self.at];
        }
        let Some(schema) = group.named(name) else {
            self.at = start;
            let names: Vec<&str> = group.schemas().iter().map(|s| s.name).collect();
            let error = format!(
                "unknown {} {name}: there are {}",
                group.noun(),
                names.join(", ")
            );
            return Err(self.error(error));
        };
        let mut item = Item::new(schema, position);
        self.expect("[")?;
        if !self.take("]")? {
            loop {
                self.part(&mut item)?;
                if !self.take(",")? {
                    break;
                }
            }
            self.expect("]")?;
        }
        self.depth -= 1;
        if item.schema.code.is_none() && item.of_kind(FieldKind::Code).is_none() {
            self.at = start;
            let key = item.schema.fields[0].key;
            return Err(self.error(format!("{name} needs a field `{key}`")));
        }
        Ok(item)
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("values are nested deeper than {MAX_DEPTH}")));
        }
        Ok(())
    }

    /// Parses a field of an item, an item of its list, or the ellipsis at its end.
    fn part(&mut self, item: &mut Item) -> Parsed<()> {
        self.skip()?;
        let start = self.at;
        if self.rest().starts_with("...") {
            if item.schema.list == ItemList::None || self.is_injected {
                return Err(self.error(format!("expected {}", parts(item.schema))));
            }
            self.at += 3;
            item.open = true;
            return Ok(());
        }
        let word = self.word(&parts(item.schema))?;
        if let Some(index) = item.schema.field(word) {
            self.expect("=")?;
            let last = item.values.last().map(|(index, _)| *index);
            if last.is_some_and(|last| last >= index) {
                self.at = start;
                let keys = keys(item.schema);
                return Err(self.error(format!("the order of the fields is {keys}")));
            }
            self.skip()?;
            let value = self.value(&item.schema.fields[index], item.schema)?;
            item.values.push((index, value));
            return Ok(());
        }
        let group = item.schema.list_group();
        let Some(group) = group.filter(|_| word == "params" || !self.rest().starts_with('='))
        else {
            self.at = start;
            return Err(self.error(format!("expected {}", parts(item.schema))));
        };
        // `params=[...]`, as some scripts have it, is the list itself.
        if word == "params" && self.take("=")? {
            self.expect("[")?;
            if self.take("]")? {
                return Ok(());
            }
            loop {
                item.items.push(self.item(group)?);
                if !self.take(",")? {
                    return self.expect("]");
                }
            }
        }
        self.at = start;
        item.items.push(self.item(group)?);
        Ok(())
    }

    fn value(&mut self, field: &Field, schema: &'static Schema) -> Parsed<Value> {
        let max = match field.kind {
            FieldKind::Flags => 0xff,
            FieldKind::Code if schema.group == ItemGroup::Chunk => 0xff,
            FieldKind::Length | FieldKind::U16 | FieldKind::Code => 0xffff,
            _ => u64::from(u32::MAX),
        };
        if let Some(value) = self.wildcard()? {
            return Ok(value);
        }
        self.skip()?;
        match field.kind {
            FieldKind::Flags => self.flags(schema),
            FieldKind::Bytes => self.bytes(),
            FieldKind::Gaps | FieldKind::Pairs => self
                .list(|parser| {
                    let first = parser.unsigned("a number", 0xffff)? as u16;
                    parser.expect(":")?;
                    Ok((first, parser.unsigned("a number", 0xffff)? as u16))
                })
                .map(Value::Pairs),
            FieldKind::Duplicates => self
                .list(|parser| parser.unsigned("a TSN", max))
                .map(Value::Numbers),
            FieldKind::ParameterTypes | FieldKind::CountedParameterTypes => self
                .list(|parser| parser.code_of(ItemGroup::Parameter))
                .map(Value::Numbers),
            FieldKind::ChunkTypes => self
                .list(|parser| parser.code_of(ItemGroup::Chunk))
                .map(Value::Numbers),
            FieldKind::Ipv4 => match self.address("an IPv4 address")? {
                address @ IpAddr::V4(_) => Ok(Value::Address(address)),
                IpAddr::V6(_) => Err(self.error("an IPv6 address is no IPv4 address")),
            },
            FieldKind::Ipv6 => match self.address("an IPv6 address")? {
                address @ IpAddr::V6(_) => Ok(Value::Address(address)),
                IpAddr::V4(_) => Err(self.error("an IPv4 address is no IPv6 address")),
            },
            FieldKind::Parameter => self
                .item(ItemGroup::Parameter)
                .map(|item| Value::Item(Box::new(item))),
            FieldKind::Chunk => self
                .item(ItemGroup::Chunk)
                .map(|item| Value::Item(Box::new(item))),
            _ => Ok(Value::Number(self.unsigned("a number", max)?)),
        }
    }

    fn flags(&mut self, schema: &Schema) -> Parsed<Value> {
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Ok(Value::Number(self.unsigned("flags", 0xff)?));
        }
        let start = self.at;
        let mut flags = 0;
        for letter in self.word("flags")?.chars() {
            let Some((_, bit)) = schema.flags.iter().find(|(known, _)| *known == letter) else {
                self.at = start;
                let known: String = schema.flags.iter().map(|(known, _)| *known).collect();
                let name = schema.name;
                return Err(self.error(if known.is_empty() {
                    format!("{name} has no flags with letters: write a number")
                } else {
                    format!("`{letter}` is no flag of {name}: its flags are {known}, or a number")
                }));
            };
            flags |= u64::from(*bit);
        }
        Ok(Value::Number(flags))
    }

    fn bytes(&mut self) -> Parsed<Value> {
        if self.rest().starts_with('"') {
            return self.string().map(Value::Bytes);
        }
        self.list(|parser| Ok(parser.unsigned("a byte", 0xff)? as u8))
            .map(Value::Bytes)
    }

    /// Parses a list in brackets.
    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut list = Vec::new();
        self.expect("[")?;
        if self.take("]")? {
            return Ok(list);
        }
        loop {
            self.skip()?;
            list.push(element(self)?);
            if !self.take(",")? {
                self.expect("]")?;
                return Ok(list);
            }
        }
    }

    /// Parses a type: a number, or a name.
    fn code_of(&mut self, group: ItemGroup) -> Parsed<u64> {
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return self.unsigned("a type", 0xffff);
        }
        let start = self.at;
        let mut name = self.word("a type")?;
        if self.rest().starts_with("-DATA") {
            self.at += 5;
            name = &self.text[start..self.at];
        }
        let name = match name {
            "IPv4" => "IPV4_ADDRESS",
            "IPv6" => "IPV6_ADDRESS",
            "HOSTNAME" => "HOSTNAME_ADDRESS",
            _ => name,
        };
        let code = group.named(name).and_then(|s| s.code).map(u64::from);
        code.ok_or_else(|| {
            self.at = start;
            self.error(format!("unknown {} {name}", group.noun()))
        })
    }

    /// Parses a text in quotes, with the escapes of C.
    fn string(&mut self) -> Parsed<Vec<u8>> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut out = Vec::new();
        let mut at = self.at + 1;
        loop {
            let Some(byte) = bytes.get(at) else {
                self.at = start;
                return Err(self.error("the text has no end `\"`"));
            };
            match byte {
                b'"' => break,
                b'\\' => {
                    at += 1;
                    match bytes.get(at) {
                        Some(b'n') => out.push(b'\n'),
                        Some(b'r') => out.push(b'\r'),
                        Some(b't') => out.push(b'\t'),
                        Some(b'0') => out.push(0),
                        Some(b'x') => {
                            let digits = self.text.get(at + 1..at + 3);
                            let byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
                            out.push(byte.ok_or_else(|| self.error("`\\x` needs two digits"))?);
                            at += 2;
                        }
                        Some(other) => out.push(*other),
                        None => {}
                    }
                }
                other => out.push(*other),
            }
            at += 1;
        }
        self.at = at + 1;
        Ok(out)
    }

    fn call(&mut self) -> Parsed<Call> {
        let name = self
            .word("`<`, `>` or a call, such as `socket(...) = 3`")?
            .to_owned();
        self.expect("(")?;
        let arguments = self.arguments()?;
        self.expect("=")?;
        let result = self.call_result()?;
        Ok(Call {
            name,
            arguments,
            result,
        })
    }

    /// Parses arguments up to the closing parenthesis.
    fn arguments(&mut self) -> Parsed<Vec<Expression>> {
        let mut arguments = Vec::new();
        if self.take(")")? {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.take(",")? {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    fn call_result(&mut self) -> Parsed<CallResult> {
        if self.take("...")? {
            return Ok(CallResult::Any);
        }
        let number = self.integer("a result: a number, `-1 ERROR` or `...`")?;
        let mut result = CallResult::Number(number);
        // An error is on the same line as its -1.
        let line = self
            .rest()
            .split('\n')
            .next()
            .unwrap_or_default()
            .trim_start();
        if number == -1 && line.starts_with('E') {
            result = CallResult::Error(self.word("the name of an error")?.to_owned());
        }
        let line = self
            .rest()
            .split('\n')
            .next()
            .unwrap_or_default()
            .trim_start();
        if line.starts_with('(') {
            let end = self.rest().find(')');
            let end = end.ok_or_else(|| self.error("the explanation has no end `)`"))?;
            self.at += end + 1;
        }
        Ok(result)
    }

    fn expression(&mut self) -> Parsed<Expression> {
        self.deeper()?;
        self.skip()?;
        let position = self.position();
        let first = self.term()?;
        let mut flags = vec![first];
        while self.take("|")? {
            flags.push(self.term()?);
        }
        self.depth -= 1;
        let last = if flags.len() == 1 { flags.pop() } else { None };
        Ok(last.unwrap_or(Expression {
            position,
            kind: ExpressionKind::Flags(flags),
        }))
    }

    fn term(&mut self) -> Parsed<Expression> {
        self.skip()?;
        let position = self.position();
        let kind = match self.peek() {
            Some('.') => {
                self.expect("...")?;
                ExpressionKind::Ellipsis
            }
            Some('$') => {
                self.at += 1;
                ExpressionKind::Variable(self.word("the name of a variable")?.to_owned())
            }
            Some('"') => ExpressionKind::Text(self.string()?),
            Some('[') => ExpressionKind::Array(self.list(Self::expression)?),
            Some('{') => ExpressionKind::Struct(self.structure()?),
            Some(c) if c.is_ascii_digit() || c == '-' => {
                ExpressionKind::Number(self.integer("a number")?)
            }
            _ => {
                let name = self.word("a value")?.to_owned();
                if self.take("(")? {
                    ExpressionKind::Function(name, self.arguments()?)
                } else {
                    ExpressionKind::Name(name)
                }
            }
        };
        Ok(Expression { position, kind })
    }

    fn structure(&mut self) -> Parsed<Vec<(String, Expression)>> {
        let mut fields = Vec::new();
        self.expect("{")?;
        if self.take("}")? {
            return Ok(fields);
        }
        loop {
            let name = self.field_name()?;
            fields.push((name, self.expression()?));
            if !self.take(",")? {
                self.expect("}")?;
                return Ok(fields);
            }
        }
    }

    /// Parses `name=`, or `name(length)=` as in `msg_iov(1)=`; returns an empty name if there is none.
    fn field_name(&mut self) -> Parsed<String> {
        self.skip()?;
        let start = self.at;
        let Ok(name) = self.word("a field") else {
            return Ok(String::new());
        };
        if self.take("(")? {
            let rest = self.rest();
            self.at += rest.find(')').map_or(rest.len(), |at| at + 1);
        }
        if self.take("=")? {
            return Ok(name.to_owned());
        }
        self.at = start;
        Ok(String::new())
    }
}

/// Returns the keys of an item in their order.
fn keys(schema: &Schema) -> String {
    let named = schema.fields.iter().filter(|f| !f.key.is_empty());
    let keys: Vec<&str> = named.map(|f| f.key).collect();
    keys.join(", ")
}

/// Returns what an item may have, for a message.
fn parts(schema: &Schema) -> String {
    let list = match schema.list_group() {
        Some(group) => format!(" or a {}", group.noun()),
        None => String::new(),
    };
    format!("a field of {} ({}){list}", schema.name, keys(schema))
}
