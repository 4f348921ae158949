//! Comparison of a packet of the stack with the expected one.

use carrick_wire::{ChunkType, Packet, RawChunk};

use crate::codec::RawItem;
use crate::learned::Learned;
use crate::model::{Item, PacketSpec, Value};
use crate::schema::{FieldKind, ItemGroup};

/// First field in which a packet differs from the expected one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Name of the field, such as `SACK, cum_tsn`.
    pub field: String,
    /// Value that the script expects.
    pub expected: String,
    /// Value that the stack sent.
    pub actual: String,
}

impl Difference {
    fn new(
        field: impl Into<String>,
        expected: impl std::fmt::Display,
        actual: impl std::fmt::Display,
    ) -> Self {
        Self {
            field: field.into(),
            expected: expected.to_string(),
            actual: actual.to_string(),
        }
    }
}

/// Compares a packet of the stack with the expected one, learns from it, and returns the first difference.
pub(crate) fn compare(
    expected: &PacketSpec,
    ports: (u16, u16),
    packet: &Packet<'_>,
    learned: &mut Learned,
) -> Option<Difference> {
    let chunks: Vec<RawChunk<'_>> = packet.chunks().map_while(Result::ok).collect();
    for (index, chunk) in chunks.iter().enumerate() {
        learned.sent_init(expected.chunks.get(index), *chunk);
    }
    compare_header(expected, ports, packet, learned).or_else(|| {
        let actual: Vec<RawItem<'_>> = chunks.iter().map(RawItem::chunk).collect();
        let items = &expected.chunks;
        compare_items(("", ItemGroup::Chunk), (items, false), &actual, learned)
    })
}

fn compare_header(
    expected: &PacketSpec,
    ports: (u16, u16),
    packet: &Packet<'_>,
    learned: &mut Learned,
) -> Option<Difference> {
    let header = packet.header();
    let first = packet.chunks().next()?.ok()?;
    if !packet.checksum_is_valid() {
        return Some(Difference::new("checksum", "CRC32c", "another value"));
    }
    let actual = Value::Number(header.tag.0.into());
    let tag = match &expected.tag {
        // A reflected tag is one of the stack.
        Some(Value::Number(tag)) if Learned::is_reflected(&first) => {
            Value::Number(learned.stack_tag(*tag as u32).into())
        }
        Some(tag) => tag.clone(),
        None => Value::Number(learned.tag_from_stack(&first).into()),
    };
    // A packet of another type is easier to understand than its tag.
    let is_same = expected.chunks.first().and_then(Item::code) == Some(first.kind.0.into());
    if is_same && !matches(&tag, &actual, learned) {
        return Some(Difference::new("verification tag", tag, actual));
    }
    let expected_ports = (
        expected.source_port.unwrap_or(ports.0),
        expected.destination_port.unwrap_or(ports.1),
    );
    let actual = (header.source_port, header.destination_port);
    if expected_ports.0 != actual.0 {
        return Some(Difference::new("source port", expected_ports.0, actual.0));
    }
    if expected_ports.1 != actual.1 {
        return Some(Difference::new(
            "destination port",
            expected_ports.1,
            actual.1,
        ));
    }
    None
}

/// Compares lists of items. `open` allows further actual ones between and behind the expected ones.
fn compare_items(
    (path, group): (&str, ItemGroup),
    (expected, open): (&[Item], bool),
    actual: &[RawItem<'_>],
    learned: &mut Learned,
) -> Option<Difference> {
    let noun = group.noun();
    let mut rest = actual;
    for (index, item) in expected.iter().enumerate() {
        let path = format!("{path}{noun} {}", index + 1);
        let is_expected = |raw: &RawItem<'_>| item.code().is_none_or(|code| code == raw.code);
        if open {
            let skipped = rest.iter().position(is_expected).unwrap_or(rest.len());
            rest = &rest[skipped..];
        }
        let Some((raw, behind)) = rest.split_first() else {
            return Some(Difference::new(path, item.schema.name, "none"));
        };
        rest = behind;
        if !is_expected(raw) {
            let known = group.of_code(raw.code);
            let actual = match known.code {
                Some(_) => known.name.to_owned(),
                None => format!("type {:#x}", raw.code),
            };
            return Some(Difference::new(path, item.schema.name, actual));
        }
        let decoded = raw.decode(item.schema, learned);
        let path = format!("{path} ({})", item.schema.name);
        if let Some(difference) = compare_item(&path, item, &decoded, raw, learned) {
            return Some(difference);
        }
    }
    let further = rest.first().filter(|_| !open)?;
    let name = group.of_code(further.code).name;
    let path = format!("{path}{noun} {}", expected.len() + 1);
    Some(Difference::new(path, "none", name))
}

fn compare_item(
    path: &str,
    expected: &Item,
    actual: &Item,
    raw: &RawItem<'_>,
    learned: &mut Learned,
) -> Option<Difference> {
    for (index, value) in &expected.values {
        let field = &expected.schema.fields[*index];
        let path = format!("{path}, {}", field.key);
        let Some(sent) = actual.value(*index) else {
            return Some(Difference::new(path, value, "nothing: it is too short"));
        };
        if let (Value::Item(expected), Value::Item(sent)) = (value, sent) {
            if expected.code() != sent.code() {
                return Some(Difference::new(path, expected, sent));
            }
            // The header of the inner item precedes its value.
            let inner = RawItem {
                group: expected.schema.group,
                code: sent.code().unwrap_or_default(),
                flags: match sent.of_kind(FieldKind::Flags) {
                    Some(Value::Number(flags)) => *flags as u8,
                    _ => 0,
                },
                value: raw.value.get(4..).unwrap_or_default(),
            };
            let decoded = inner.decode(expected.schema, learned);
            if let Some(found) = compare_item(&path, expected, &decoded, &inner, learned) {
                return Some(found);
            }
            continue;
        }
        if !matches(value, sent, learned) {
            return Some(match value {
                Value::Variable(name) => {
                    let known = learned.variable(name).cloned().unwrap_or(Value::Any);
                    Difference::new(path, known, sent)
                }
                _ => Difference::new(path, value, sent),
            });
        }
    }
    let group = expected.schema.list_group()?;
    // The list follows the fields.
    let fixed: usize = expected.schema.fields.iter().map(|f| width(f.kind)).sum();
    let list = RawItem::list(group, raw.value.get(fixed..).unwrap_or_default());
    let path = format!("{path}, ");
    let items = (expected.items.as_slice(), expected.open);
    compare_items((&path, group), items, &list, learned)
}

/// Length of a field before a list.
const fn width(kind: FieldKind) -> usize {
    match kind {
        FieldKind::U16 | FieldKind::Reserved => 2,
        FieldKind::U32
        | FieldKind::Tag
        | FieldKind::InitialTsn
        | FieldKind::OwnTsn
        | FieldKind::PeerTsn => 4,
        _ => 0,
    }
}

/// Returns whether a value is as expected, and learns it if the script has a new variable.
fn matches(expected: &Value, actual: &Value, learned: &mut Learned) -> bool {
    match (expected, actual) {
        (Value::Any, _) => true,
        (Value::Variable(name), _) => {
            let Some(known) = learned.variable(name).cloned() else {
                learned.set_variable(name, actual.clone());
                return true;
            };
            matches(&known, actual, learned)
        }
        (Value::Number(a), Value::Number(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Address(a), Value::Address(b)) => a == b,
        (Value::Pairs(a), Value::Pairs(b)) => a == b,
        (Value::Numbers(a), Value::Numbers(b)) => a == b,
        _ => false,
    }
}

/// Describes a packet of the stack in the syntax of scripts, with the fields of the expected one where the chunks have
/// the same type.
pub(crate) fn describe(
    packet: &Packet<'_>,
    expected: Option<&PacketSpec>,
    learned: &Learned,
) -> String {
    let mut described = PacketSpec::default();
    if expected.is_some_and(|e| e.tag.is_some()) {
        described.tag = Some(Value::Number(packet.header().tag.0.into()));
    }
    for (index, raw) in packet.chunks().map_while(Result::ok).enumerate() {
        let item = expected.and_then(|e| e.chunks.get(index));
        let item = item.filter(|item| item.code() == Some(raw.kind.0.into()));
        let schema = item.map_or_else(
            || ItemGroup::Chunk.of_code(raw.kind.0.into()),
            |item| item.schema,
        );
        let mut decoded = RawItem::chunk(&raw).decode(schema, learned);
        // The payload of user data is shown where the script has one.
        let is_data = matches!(raw.kind, ChunkType::DATA | ChunkType::I_DATA);
        decoded.values.retain(|(index, _)| match item {
            Some(item) => item.value(*index).is_some(),
            None => !is_data || schema.fields[*index].kind != FieldKind::Bytes,
        });
        described.chunks.push(decoded);
    }
    described.to_string()
}
