//! Bytes of items, and items of bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use carrick_wire::{
    CHUNK_HEADER_LEN, COMMON_HEADER_LEN, Causes, ChunkType, CommonHeader, PacketBuilder,
    Parameters, RawChunk, VerificationTag, crc32c, padded,
};

use crate::learned::Learned;
use crate::model::{Item, PacketSpec, Position, Value};
use crate::schema::{FieldKind, ItemGroup, Schema};

/// Length of the header of chunks, parameters and causes.
const HEADER: usize = CHUNK_HEADER_LEN;
/// Offset of the length in that header.
const LENGTH: usize = 2;
/// Limit of a packet in bytes.
const MAX_PACKET: usize = 65_515;
/// Offset of the checksum in a packet.
const CHECKSUM: std::ops::Range<usize> = 8..12;

/// Sender of an item: chunks inside error causes are those of the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ItemSender {
    Script,
    Stack,
}

impl ItemSender {
    const fn other(self) -> Self {
        match self {
            Self::Script => Self::Stack,
            Self::Stack => Self::Script,
        }
    }

    /// Returns whether a field that this side sends has a TSN of the stack, which scripts choose.
    const fn is_stack_tsn(self, kind: FieldKind) -> bool {
        match self {
            Self::Stack => matches!(kind, FieldKind::OwnTsn | FieldKind::OptionalOwnTsn),
            Self::Script => matches!(
                kind,
                FieldKind::PeerTsn | FieldKind::OptionalPeerTsn | FieldKind::Duplicates
            ),
        }
    }

    /// Returns the TSN of a packet for that of the script.
    fn encoded_tsn(self, kind: FieldKind, tsn: u32, learned: &Learned) -> u32 {
        if self.is_stack_tsn(kind) {
            learned.stack_tsn(tsn)
        } else {
            tsn
        }
    }

    /// Returns the TSN of the script for that of a packet.
    fn decoded_tsn(self, kind: FieldKind, tsn: u32, learned: &Learned) -> u32 {
        if self.is_stack_tsn(kind) {
            learned.script_tsn(tsn)
        } else {
            tsn
        }
    }
}

/// Error of a packet that cannot be built, with its place.
pub(crate) type BuildError = (Position, String);

/// Builds a packet to the stack. `ports` are source and destination, where the script has none.
pub(crate) fn build_packet(
    spec: &PacketSpec,
    ports: (u16, u16),
    learned: &Learned,
) -> Result<Vec<u8>, BuildError> {
    let mut chunks = Vec::new();
    for item in &spec.chunks {
        let mut chunk = encode(item, None, ItemSender::Script, learned)?;
        let len = chunk.len();
        chunk[LENGTH..HEADER].copy_from_slice(&(len as u16).to_be_bytes());
        chunks.push(chunk);
    }
    let raw = spec.raw.as_deref().unwrap_or_default();
    if raw.len() > MAX_PACKET - COMMON_HEADER_LEN {
        let message = format!("a packet has at most {MAX_PACKET} bytes");
        return Err((Position::default(), message));
    }
    let first = chunks.first().map_or(raw, Vec::as_slice);
    let first = raw_chunk(first);
    let tag = match &spec.tag {
        Some(Value::Number(tag)) => learned.stack_tag(*tag as u32),
        Some(Value::Variable(name)) => match learned.variable(name) {
            Some(Value::Number(tag)) => *tag as u32,
            _ => return Err((Position::default(), format!("${name} has no number yet"))),
        },
        _ => learned.tag_to_stack(first.as_ref()),
    };
    let header = CommonHeader {
        source_port: spec.source_port.unwrap_or(ports.0),
        destination_port: spec.destination_port.unwrap_or(ports.1),
        tag: VerificationTag(tag),
    };
    let mut packet = Vec::new();
    let mut builder = PacketBuilder::new(&mut packet, header, MAX_PACKET);
    let mut lengths = Vec::new();
    for (item, chunk) in spec.chunks.iter().zip(&chunks) {
        if !builder.fits(chunk.len()) {
            return Err((
                item.position,
                format!("a packet has at most {MAX_PACKET} bytes"),
            ));
        }
        if let Some(length) = written_length(item) {
            lengths.push((builder.len(), length));
        }
        builder.raw(ChunkType(chunk[0]), chunk[1], &chunk[HEADER..]);
    }
    builder.finish();
    if spec.raw.is_some() {
        packet.extend(header.source_port.to_be_bytes());
        packet.extend(header.destination_port.to_be_bytes());
        packet.extend(header.tag.0.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend_from_slice(raw);
    }
    for (at, length) in lengths {
        packet[at + LENGTH..at + HEADER].copy_from_slice(&length.to_be_bytes());
    }
    packet[CHECKSUM].fill(0);
    let mut checksum = crc32c(&packet);
    if spec.bad_crc32c {
        checksum = !checksum;
    }
    packet[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    Ok(packet)
}

/// Returns the chunk at the beginning of `bytes`, up to its length.
fn raw_chunk(bytes: &[u8]) -> Option<RawChunk<'_>> {
    let length = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
    let bytes = bytes.get(..length.min(bytes.len()))?;
    Some(RawChunk {
        kind: ChunkType(*bytes.first()?),
        flags: *bytes.get(1)?,
        value: bytes.get(HEADER..)?,
        bytes,
        offset: 0,
    })
}

/// Returns the length that a script has written for an item.
fn written_length(item: &Item) -> Option<u16> {
    match item.of_kind(FieldKind::Length) {
        Some(Value::Number(length)) => Some(*length as u16),
        _ => None,
    }
}

/// Encodes an item with its header, without padding behind it.
fn encode(
    item: &Item,
    parent: Option<&Schema>,
    sender: ItemSender,
    learned: &Learned,
) -> Result<Vec<u8>, BuildError> {
    let mut out = vec![0; HEADER];
    let mut code = item.schema.code.unwrap_or_default();
    let mut flags = 0;
    for (index, field) in item.schema.fields.iter().enumerate() {
        let wrong = |what: &str| {
            let name = item.schema.name;
            Err((item.position, format!("{name}, {}: {what}", field.key)))
        };
        let value = match item.value(index) {
            Some(Value::Variable(name)) => match learned.variable(name) {
                Some(value) => Some(value),
                None => return wrong(&format!("${name} has no value yet")),
            },
            value => value,
        };
        let number = match value {
            Some(Value::Number(number)) => *number,
            Some(Value::Any) if is_number(field.kind) => {
                return wrong("`...` is no value of a packet to the stack");
            }
            Some(_) if is_number(field.kind) => return wrong("the variable is no number"),
            _ => 0,
        };
        match field.kind {
            FieldKind::Length | FieldKind::NonRenegableGaps | FieldKind::Duplicates => {}
            FieldKind::OptionalOwnTsn | FieldKind::OptionalPeerTsn if value.is_none() => {}
            FieldKind::Flags => flags = number as u8,
            FieldKind::Code => code = number as u16,
            FieldKind::U16 => out.extend((number as u16).to_be_bytes()),
            FieldKind::Reserved => out.extend([0; 2]),
            FieldKind::U32 | FieldKind::Tag | FieldKind::InitialTsn => {
                out.extend((number as u32).to_be_bytes());
            }
            FieldKind::OwnTsn
            | FieldKind::PeerTsn
            | FieldKind::OptionalOwnTsn
            | FieldKind::OptionalPeerTsn => {
                let tsn = sender.encoded_tsn(field.kind, number as u32, learned);
                out.extend(tsn.to_be_bytes());
            }
            FieldKind::Gaps | FieldKind::RenegableGaps => {
                put_gaps(&mut out, item, field.kind, sender, learned);
            }
            FieldKind::Pairs => put_pairs(&mut out, pairs(value)),
            FieldKind::MessageIds => put_message_ids(&mut out, value),
            FieldKind::ParameterTypes | FieldKind::CountedParameterTypes | FieldKind::U16List => {
                let codes = numbers(value);
                if field.kind == FieldKind::CountedParameterTypes {
                    out.extend((codes.len() as u32).to_be_bytes());
                }
                out.extend(codes.iter().flat_map(|code| (*code as u16).to_be_bytes()));
            }
            FieldKind::ChunkTypes => out.extend(numbers(value).iter().map(|code| *code as u8)),
            FieldKind::Ipv4 | FieldKind::Ipv6 => match value {
                Some(Value::Address(IpAddr::V4(address))) => out.extend(address.octets()),
                Some(Value::Address(IpAddr::V6(address))) => out.extend(address.octets()),
                _ => return wrong("needs an address"),
            },
            FieldKind::Bytes => match value {
                Some(Value::Bytes(bytes)) => out.extend(bytes),
                Some(Value::Any) if item.is_chunk("COOKIE_ECHO") => {
                    out.extend(learned.last_cookie());
                }
                Some(Value::Any) if parent.is_some_and(|p| p.name == "HEARTBEAT_ACK") => {
                    out.extend(learned.last_heartbeat());
                }
                None | Some(Value::Any) => {
                    // The length determines the number of bytes.
                    let len = written_length(item).map_or(0, usize::from);
                    out.resize(len.max(out.len()), 0);
                }
                Some(_) => return wrong("the variable has no bytes"),
            },
            FieldKind::Parameter | FieldKind::Chunk => match value {
                Some(Value::Item(inner)) => {
                    let sender = if field.kind == FieldKind::Chunk {
                        sender.other()
                    } else {
                        sender
                    };
                    out.extend(encode_tlv(inner, item, sender, learned)?);
                }
                _ => return wrong("needs a value"),
            },
        }
    }
    for inner in &item.items {
        out.resize(padded(out.len()), 0);
        out.extend(encode_tlv(inner, item, sender, learned)?);
    }
    match item.schema.group {
        ItemGroup::Chunk => {
            out[0] = code as u8;
            out[1] = flags;
        }
        _ => out[..LENGTH].copy_from_slice(&code.to_be_bytes()),
    }
    if out.len() > usize::from(u16::MAX) {
        return Err((item.position, format!("{} is too long", item.schema.name)));
    }
    Ok(out)
}

/// Encodes an item with its length.
fn encode_tlv(
    item: &Item,
    parent: &Item,
    sender: ItemSender,
    learned: &Learned,
) -> Result<Vec<u8>, BuildError> {
    let mut out = encode(item, Some(parent.schema), sender, learned)?;
    let length = written_length(item).unwrap_or(out.len() as u16);
    out[LENGTH..HEADER].copy_from_slice(&length.to_be_bytes());
    Ok(out)
}

const fn is_number(kind: FieldKind) -> bool {
    matches!(
        kind,
        FieldKind::Flags
            | FieldKind::Code
            | FieldKind::U16
            | FieldKind::U32
            | FieldKind::Tag
            | FieldKind::InitialTsn
            | FieldKind::OwnTsn
            | FieldKind::PeerTsn
            | FieldKind::OptionalOwnTsn
            | FieldKind::OptionalPeerTsn
    )
}

fn pairs(value: Option<&Value>) -> &[(u16, u16)] {
    match value {
        Some(Value::Pairs(pairs)) => pairs,
        _ => &[],
    }
}

fn numbers(value: Option<&Value>) -> &[u64] {
    match value {
        Some(Value::Numbers(numbers)) => numbers,
        _ => &[],
    }
}

/// Appends Gap Ack Blocks and duplicate TSNs with their counts.
fn put_gaps(
    out: &mut Vec<u8>,
    item: &Item,
    kind: FieldKind,
    sender: ItemSender,
    learned: &Learned,
) {
    let duplicates = numbers(item.of_kind(FieldKind::Duplicates));
    let gaps = pairs(item.of_kind(kind));
    let further = pairs(item.of_kind(FieldKind::NonRenegableGaps));
    let is_nr_sack = kind == FieldKind::RenegableGaps;
    out.extend((gaps.len() as u16).to_be_bytes());
    if is_nr_sack {
        out.extend((further.len() as u16).to_be_bytes());
    }
    out.extend((duplicates.len() as u16).to_be_bytes());
    if is_nr_sack {
        out.extend([0; 2]);
    }
    put_pairs(out, gaps);
    put_pairs(out, further);
    for tsn in duplicates {
        let tsn = sender.encoded_tsn(FieldKind::Duplicates, *tsn as u32, learned);
        out.extend(tsn.to_be_bytes());
    }
}

fn put_message_ids(out: &mut Vec<u8>, value: Option<&Value>) {
    if let Some(Value::MessageIds(ids)) = value {
        for (stream, flags, mid) in ids {
            put_pairs(out, &[(*stream, *flags)]);
            out.extend(mid.to_be_bytes());
        }
    }
}

fn put_pairs(out: &mut Vec<u8>, pairs: &[(u16, u16)]) {
    for (first, second) in pairs {
        out.extend(first.to_be_bytes());
        out.extend(second.to_be_bytes());
    }
}

/// Item of a packet that has not been decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawItem<'a> {
    pub(crate) group: ItemGroup,
    pub(crate) code: u16,
    pub(crate) flags: u8,
    pub(crate) value: &'a [u8],
    pub(crate) sender: ItemSender,
}

impl<'a> RawItem<'a> {
    pub(crate) fn chunk(raw: &RawChunk<'a>) -> Self {
        Self {
            sender: ItemSender::Stack,
            group: ItemGroup::Chunk,
            code: raw.kind.0.into(),
            flags: raw.flags,
            value: raw.value,
        }
    }

    /// Reads the parameters or causes in `bytes`, up to one that is malformed.
    pub(crate) fn list(group: ItemGroup, bytes: &'a [u8], sender: ItemSender) -> Vec<Self> {
        let item = |code, value| Self {
            sender,
            group,
            code,
            flags: 0,
            value,
        };
        match group {
            ItemGroup::Chunk => Vec::new(),
            ItemGroup::Parameter => Parameters::new(bytes)
                .map_while(Result::ok)
                .map(|p| item(p.kind.0, p.value))
                .collect(),
            ItemGroup::Cause => Causes::new(bytes)
                .map_while(Result::ok)
                .map(|c| item(c.code.0, c.value))
                .collect(),
        }
    }

    /// Decodes the item of a packet of the stack, with the tags and TSNs of the script. What is too short lacks values.
    pub(crate) fn decode(&self, schema: &'static Schema, learned: &Learned) -> Item {
        let mut item = Item::new(schema, Position::default());
        let mut rest = self.value;
        let mut tag = 0;
        let mut non_renegable = 0;
        for (index, field) in schema.fields.iter().enumerate() {
            let value = match field.kind {
                FieldKind::Flags => Some(Value::Number(self.flags.into())),
                FieldKind::Code => Some(Value::Number(self.code.into())),
                FieldKind::Length => Some(Value::Number((self.value.len() + HEADER) as u64)),
                FieldKind::Reserved => {
                    take(&mut rest, 2);
                    continue;
                }
                FieldKind::U16 => take(&mut rest, 2).map(|b| Value::Number(big_endian(b))),
                FieldKind::U32 => take(&mut rest, 4).map(|b| Value::Number(big_endian(b))),
                FieldKind::Tag => take(&mut rest, 4).map(|b| {
                    tag = big_endian(b) as u32;
                    Value::Number(learned.script_tag(tag).into())
                }),
                FieldKind::InitialTsn => take(&mut rest, 4).map(|b| {
                    let tsn = learned.script_initial_tsn(tag, big_endian(b) as u32);
                    Value::Number(tsn.into())
                }),
                FieldKind::OwnTsn
                | FieldKind::PeerTsn
                | FieldKind::OptionalOwnTsn
                | FieldKind::OptionalPeerTsn => take(&mut rest, 4).map(|b| {
                    let tsn = big_endian(b) as u32;
                    Value::Number(self.sender.decoded_tsn(field.kind, tsn, learned).into())
                }),
                FieldKind::Gaps => take(&mut rest, 4).map(|counts| {
                    let count = big_endian(&counts[..2]) as usize;
                    let gaps = take(&mut rest, 4 * count).unwrap_or_default();
                    Value::Pairs(read_pairs(gaps))
                }),
                FieldKind::RenegableGaps => take(&mut rest, 8).map(|counts| {
                    let count = big_endian(&counts[..2]) as usize;
                    non_renegable = big_endian(&counts[2..4]) as usize;
                    let gaps = take(&mut rest, 4 * count).unwrap_or_default();
                    Value::Pairs(read_pairs(gaps))
                }),
                FieldKind::NonRenegableGaps => {
                    let gaps = take(&mut rest, 4 * non_renegable).unwrap_or_default();
                    Some(Value::Pairs(read_pairs(gaps)))
                }
                FieldKind::MessageIds => Some(Value::MessageIds(read_message_ids(std::mem::take(
                    &mut rest,
                )))),
                FieldKind::Duplicates => {
                    let list = std::mem::take(&mut rest).chunks_exact(4).map(big_endian);
                    let tsn = |tsn| self.sender.decoded_tsn(field.kind, tsn as u32, learned);
                    Some(Value::Numbers(list.map(|n| u64::from(tsn(n))).collect()))
                }
                FieldKind::Pairs => Some(Value::Pairs(read_pairs(std::mem::take(&mut rest)))),
                FieldKind::CountedParameterTypes
                | FieldKind::ParameterTypes
                | FieldKind::U16List
                | FieldKind::ChunkTypes => Some(Value::Numbers(read_numbers(
                    field.kind,
                    std::mem::take(&mut rest),
                ))),
                FieldKind::Ipv4 => take(&mut rest, 4)
                    .and_then(|b| <[u8; 4]>::try_from(b).ok())
                    .map(|b| Value::Address(Ipv4Addr::from(b).into())),
                FieldKind::Ipv6 => take(&mut rest, 16)
                    .and_then(|b| <[u8; 16]>::try_from(b).ok())
                    .map(|b| Value::Address(Ipv6Addr::from(b).into())),
                FieldKind::Bytes => Some(Value::Bytes(std::mem::take(&mut rest).to_vec())),
                FieldKind::Parameter => Self::list(ItemGroup::Parameter, rest, self.sender)
                    .first()
                    .map(|inner| inner.value_of(learned)),
                FieldKind::Chunk => raw_chunk(rest).map(|raw| {
                    let inner = Self {
                        sender: self.inner_sender(),
                        ..Self::chunk(&raw)
                    };
                    inner.value_of(learned)
                }),
            };
            if let Some(value) = value {
                item.values.push((index, value));
            }
        }
        if let Some(group) = schema.list_group() {
            for inner in Self::list(group, rest, self.sender) {
                let schema = group.of_code(inner.code);
                item.items.push(inner.decode(schema, learned));
            }
        }
        item
    }

    /// Returns the sender of the item that this one quotes.
    pub(crate) fn inner_sender(&self) -> ItemSender {
        let schema = self.group.of_code(self.code);
        let quotes_chunk = schema.fields.iter().any(|f| f.kind == FieldKind::Chunk);
        if quotes_chunk {
            self.sender.other()
        } else {
            self.sender
        }
    }

    fn value_of(&self, learned: &Learned) -> Value {
        let schema = self.group.of_code(self.code);
        Value::Item(Box::new(self.decode(schema, learned)))
    }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (part, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(part)
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Reads numbers up to the end.
fn read_numbers(kind: FieldKind, mut bytes: &[u8]) -> Vec<u64> {
    if kind == FieldKind::CountedParameterTypes {
        take(&mut bytes, 4);
    }
    let size = if kind == FieldKind::ChunkTypes { 1 } else { 2 };
    bytes.chunks_exact(size).map(big_endian).collect()
}

/// Reads stream identifiers, flags and MIDs up to the end.
fn read_message_ids(bytes: &[u8]) -> Vec<(u16, u16, u32)> {
    let number = |bytes: &[u8]| big_endian(bytes) as u16;
    let ids = bytes.chunks_exact(8);
    ids.map(|id| {
        (
            number(&id[..2]),
            number(&id[2..4]),
            big_endian(&id[4..]) as u32,
        )
    })
    .collect()
}

fn read_pairs(bytes: &[u8]) -> Vec<(u16, u16)> {
    let pairs = bytes.chunks_exact(4);
    pairs
        .map(|b| (big_endian(&b[..2]) as u16, big_endian(&b[2..]) as u16))
        .collect()
}
