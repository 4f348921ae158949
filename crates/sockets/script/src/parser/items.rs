//! Chunks, parameters and error causes with their fields.

use std::net::IpAddr;

use super::{Parsed, Parser};
use crate::model::{Item, Value};
use crate::schema::{Field, FieldKind, ItemGroup, ItemList, Schema};

impl Parser<'_> {
    pub(super) fn item(&mut self, group: ItemGroup) -> Parsed<Item> {
        self.deeper()?;
        self.skip()?;
        let position = self.position();
        let start = self.at;
        let name = self.dashed_word(&format!("the name of a {}", group.noun()))?;
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

    /// Parses a field of an item, an item of its list, or the ellipsis at its end.
    fn part(&mut self, item: &mut Item) -> Parsed<()> {
        self.skip()?;
        let start = self.at;
        if self.rest().starts_with("...") {
            if item.schema.list == ItemList::None && item.values.is_empty() {
                // `STATE_COOKIE[...]`: any value in each field.
                let fields = item.schema.fields.iter().enumerate();
                let named = fields.filter(|(_, field)| field.kind != FieldKind::Reserved);
                item.values = named.map(|(index, _)| (index, Value::Any)).collect();
            } else if item.schema.list == ItemList::None || self.is_injected {
                return Err(self.error(format!("expected {}", parts(item.schema))));
            } else {
                item.open = true;
            }
            self.at += 3;
            return Ok(());
        }
        let word = self.word(&parts(item.schema))?;
        // `params=[PARAMETER[...]]` is also a spelling of `param=PARAMETER[...]`.
        let is_plural = word == "params" && item.schema.field("param").is_some();
        if let Some(index) = item.schema.field(if is_plural { "param" } else { word }) {
            self.expect("=")?;
            let last = item.values.last().map(|(index, _)| *index);
            if last.is_some_and(|last| last >= index) {
                self.at = start;
                let keys = keys(item.schema);
                return Err(self.error(format!("the order of the fields is {keys}")));
            }
            self.skip()?;
            let field = &item.schema.fields[index];
            let value = match self.open_value()? {
                Some(value) => value,
                None if is_plural => {
                    self.expect("[")?;
                    let value = self.value(field, item.schema)?;
                    self.expect("]")?;
                    value
                }
                None => self.value(field, item.schema)?,
            };
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
            self.skip()?;
            if !self.is_injected && self.open_value()?.is_some() {
                item.open = true;
                return Ok(());
            }
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

    /// Parses `...` or `[...]`.
    fn open_value(&mut self) -> Parsed<Option<Value>> {
        let start = self.at;
        let is_list = self.take("[")?;
        if self.take("...")? && (!is_list || self.take("]")?) {
            return Ok(Some(Value::Any));
        }
        self.at = start;
        Ok(None)
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
            FieldKind::Code if self.peek().is_some_and(char::is_alphabetic) => {
                self.code_of(schema.group).map(Value::Number)
            }
            FieldKind::Flags => self.flags(schema),
            FieldKind::Bytes => self.bytes(),
            FieldKind::Gaps
            | FieldKind::RenegableGaps
            | FieldKind::NonRenegableGaps
            | FieldKind::Pairs => self
                .list(|parser| {
                    let [first, second] = parser.tuple([0xffff; 2])?;
                    Ok((first as u16, second as u16))
                })
                .map(Value::Pairs),
            FieldKind::MessageIds => self
                .list(|parser| {
                    let [stream, flags, mid] = parser.tuple([0xffff, 0xffff, max])?;
                    Ok((stream as u16, flags as u16, mid as u32))
                })
                .map(Value::MessageIds),
            FieldKind::U16List => self
                .list(|parser| parser.unsigned("a number", 0xffff))
                .map(Value::Numbers),
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

    /// Parses numbers as `1:2` or `{1, 2}`.
    fn tuple<const N: usize>(&mut self, limits: [u64; N]) -> Parsed<[u64; N]> {
        let is_braced = self.take("{")?;
        let separator = if is_braced { "," } else { ":" };
        let mut numbers = [0; N];
        for (index, (number, max)) in numbers.iter_mut().zip(limits).enumerate() {
            if index > 0 {
                self.expect(separator)?;
            }
            *number = self.unsigned("a number", max)?;
        }
        if is_braced {
            self.expect("}")?;
        }
        Ok(numbers)
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

    /// Parses a type: a number, or a name.
    fn code_of(&mut self, group: ItemGroup) -> Parsed<u64> {
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return self.unsigned("a type", 0xffff);
        }
        let start = self.at;
        let name = self.dashed_word("a type")?;
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
