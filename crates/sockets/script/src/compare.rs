//! Comparison of a packet of the stack with the expected one.

use carrick_wire::{COMMON_HEADER_LEN, ChunkType, Packet, RawChunk};

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
    pub(crate) fn new(
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

/// Order in which items are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ItemOrder {
    /// Order of the script.
    List,
    /// None: items in any order are equal.
    Set,
}

/// Compares a packet of the stack with the expected one, learns from it, and returns the first difference.
pub(crate) fn compare(
    expected: &PacketSpec,
    ports: (u16, u16),
    packet: &Packet<'_>,
    has_ordered_parameters: bool,
    learned: &mut Learned,
) -> Option<Difference> {
    let chunks: Vec<RawChunk<'_>> = packet.chunks().map_while(Result::ok).collect();
    for (index, chunk) in chunks.iter().enumerate() {
        learned.sent_init(expected.chunks.get(index), *chunk);
    }
    compare_header(expected, ports, packet, learned).or_else(|| {
        if let Some(raw) = &expected.raw {
            let sent = packet.bytes().get(COMMON_HEADER_LEN..).unwrap_or_default();
            return (raw.as_slice() != sent).then(|| {
                let [expected, sent] = [raw.clone(), sent.to_vec()].map(Value::Bytes);
                Difference::new("bytes behind the common header", expected, sent)
            });
        }
        let actual: Vec<RawItem<'_>> = chunks.iter().map(RawItem::chunk).collect();
        let mut comparison = Comparison {
            has_ordered_parameters,
            learned,
        };
        let items = (expected.chunks.as_slice(), false, ItemOrder::List);
        comparison.items(("", ItemGroup::Chunk), items, &actual)
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
    // A packet of another type is easier to understand than its tag.
    if expected.chunks.first().and_then(Item::code) == Some(first.kind.0.into())
        && let Some(difference) = compare_tag(expected.tag.as_ref(), header.tag.0, &first, learned)
    {
        return Some(difference);
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

/// Compares the verification tag of a packet that begins with this chunk. Without an expected one it is one that the
/// peer gave the stack.
fn compare_tag(
    expected: Option<&Value>,
    actual: u32,
    first: &RawChunk<'_>,
    learned: &mut Learned,
) -> Option<Difference> {
    let sent = Value::Number(actual.into());
    let expected = match expected {
        None if learned.may_have_tag(first, actual) => return None,
        None => return Some(Difference::new("verification tag", "one of the peer", sent)),
        // A reflected tag is one of the stack.
        Some(Value::Number(tag)) if Learned::is_reflected(first) => {
            Value::Number(learned.stack_tag(*tag as u32).into())
        }
        Some(tag) => tag.clone(),
    };
    let is_same = matches(&expected, &sent, learned);
    (!is_same).then(|| Difference::new("verification tag", expected, sent))
}

/// Comparison of items, and what the run has learned.
struct Comparison<'l> {
    has_ordered_parameters: bool,
    learned: &'l mut Learned,
}

impl Comparison<'_> {
    /// Compares lists of items. If the expected ones are open, further actual ones may be between and behind them.
    fn items(
        &mut self,
        (path, group): (&str, ItemGroup),
        (expected, is_open, order): (&[Item], bool, ItemOrder),
        actual: &[RawItem<'_>],
    ) -> Option<Difference> {
        let noun = group.noun();
        let mut rest = actual.to_vec();
        for (index, item) in expected.iter().enumerate() {
            let path = format!("{path}{noun} {}", index + 1);
            let is_expected = |raw: &RawItem<'_>| item.code().is_none_or(|code| code == raw.code);
            let found = match order {
                ItemOrder::Set => self.position(item, &rest),
                ItemOrder::List if is_open => rest.iter().position(is_expected),
                ItemOrder::List => (!rest.is_empty()).then_some(0),
            };
            let Some(found) = found else {
                return Some(Difference::new(path, item.schema.name, "none"));
            };
            if order == ItemOrder::List {
                rest.drain(..found);
            }
            let raw = rest.remove(if order == ItemOrder::List { 0 } else { found });
            if !is_expected(&raw) {
                let known = group.of_code(raw.code);
                let actual = match known.code {
                    Some(_) => known.name.to_owned(),
                    None => format!("type {:#x}", raw.code),
                };
                return Some(Difference::new(path, item.schema.name, actual));
            }
            let decoded = raw.decode(item.schema, self.learned);
            let path = format!("{path} ({})", item.schema.name);
            if let Some(difference) = self.item(&path, item, &decoded, &raw) {
                return Some(difference);
            }
        }
        let further = rest.first().filter(|_| !is_open)?;
        let name = group.of_code(further.code).name;
        let path = format!("{path}{noun} {}", expected.len() + 1);
        Some(Difference::new(path, "none", name))
    }

    /// Returns the index of the actual item that is equal to the expected one, otherwise of the first with its type.
    fn position(&self, expected: &Item, actual: &[RawItem<'_>]) -> Option<usize> {
        let code = expected.code();
        let is_same = |(_, raw): &(usize, &RawItem<'_>)| code.is_none_or(|code| code == raw.code);
        let candidates: Vec<usize> = actual
            .iter()
            .enumerate()
            .filter(is_same)
            .map(|(at, _)| at)
            .collect();
        if candidates.len() < 2 {
            return candidates.first().copied();
        }
        let is_equal = |at: &&usize| {
            let raw = &actual[**at];
            let mut learned = self.learned.clone();
            let decoded = raw.decode(expected.schema, &learned);
            let mut trial = Comparison {
                has_ordered_parameters: self.has_ordered_parameters,
                learned: &mut learned,
            };
            trial.item("", expected, &decoded, raw).is_none()
        };
        let equal = candidates.iter().find(is_equal);
        equal.or(candidates.first()).copied()
    }

    fn item(
        &mut self,
        path: &str,
        expected: &Item,
        actual: &Item,
        raw: &RawItem<'_>,
    ) -> Option<Difference> {
        for (index, value) in &expected.values {
            let field = &expected.schema.fields[*index];
            let path = format!("{path}, {}", field.key);
            let Some(sent) = actual.value(*index) else {
                let is_optional = matches!(
                    field.kind,
                    FieldKind::OptionalOwnTsn | FieldKind::OptionalPeerTsn
                );
                if is_optional && matches!(value, Value::Any) {
                    continue;
                }
                return Some(Difference::new(path, value, "nothing: it is too short"));
            };
            if let (Value::Item(expected), Value::Item(sent)) = (value, sent) {
                if expected
                    .code()
                    .is_some_and(|code| Some(code) != sent.code())
                {
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
                    sender: raw.inner_sender(),
                };
                let decoded = inner.decode(expected.schema, self.learned);
                if let Some(found) = self.item(&path, expected, &decoded, &inner) {
                    return Some(found);
                }
                continue;
            }
            let is_same = match (value, sent) {
                (Value::Numbers(a), Value::Numbers(b)) if self.is_set(field.kind) => {
                    is_same_set(a, b)
                }
                _ => matches(value, sent, self.learned),
            };
            if !is_same {
                return Some(match value {
                    Value::Variable(name) => {
                        let known = self.learned.variable(name).cloned().unwrap_or(Value::Any);
                        Difference::new(path, known, sent)
                    }
                    _ => Difference::new(path, value, sent),
                });
            }
        }
        let group = expected.schema.list_group()?;
        // The list follows the fields.
        let fixed: usize = expected.schema.fields.iter().map(|f| width(f.kind)).sum();
        let list = RawItem::list(
            group,
            raw.value.get(fixed..).unwrap_or_default(),
            raw.sender,
        );
        let path = format!("{path}, ");
        let is_init = expected.is_chunk("INIT") || expected.is_chunk("INIT_ACK");
        let order = if is_init && !self.has_ordered_parameters {
            ItemOrder::Set
        } else {
            ItemOrder::List
        };
        let items = (expected.items.as_slice(), expected.open, order);
        self.items((&path, group), items, &list)
    }

    /// Returns whether the order of the types in a field has no meaning.
    fn is_set(&self, kind: FieldKind) -> bool {
        !self.has_ordered_parameters
            && matches!(kind, FieldKind::ChunkTypes | FieldKind::ParameterTypes)
    }
}

fn is_same_set(a: &[u64], b: &[u64]) -> bool {
    let [mut a, mut b] = [a.to_vec(), b.to_vec()];
    a.sort_unstable();
    b.sort_unstable();
    a == b
}

/// Length of a field before a list.
const fn width(kind: FieldKind) -> usize {
    match kind {
        FieldKind::U16 | FieldKind::Reserved => 2,
        FieldKind::U32
        | FieldKind::Tag
        | FieldKind::InitialTsn
        | FieldKind::OwnTsn
        | FieldKind::PeerTsn
        | FieldKind::OptionalOwnTsn
        | FieldKind::OptionalPeerTsn => 4,
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
        (Value::MessageIds(a), Value::MessageIds(b)) => a == b,
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
