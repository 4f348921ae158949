//! Names and fields of chunks, parameters and error causes as scripts write them (RFC 9260, section 3.3).
//!
//! The order of the fields is that of the wire, and each has the kind that encodes, decodes and parses it.

/// List of items that a value ends with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ItemList {
    None,
    Parameters,
    Causes,
}

/// Group of items with a common header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ItemGroup {
    /// Type and flags of 8 bits, length of 16 bits.
    Chunk,
    /// Type and length of 16 bits.
    Parameter,
    /// Code and length of 16 bits.
    Cause,
}

/// Encoding of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldKind {
    /// Flags of a chunk.
    Flags,
    /// Length of the item, header included.
    Length,
    /// Type or code of an item without a name.
    Code,
    U16,
    U32,
    /// Initiate tag of the sender.
    Tag,
    /// Initial TSN of the sender.
    InitialTsn,
    /// TSN of the sender of the packet.
    OwnTsn,
    /// TSN of the receiver of the packet.
    PeerTsn,
    /// Two bytes that are zero and have no name.
    Reserved,
    /// Gap Ack Blocks, before them the two counts of a SACK, and behind them its duplicate TSNs.
    Gaps,
    /// Duplicate TSNs, which [`FieldKind::Gaps`] encodes.
    Duplicates,
    /// Pairs of 16 bits up to the end.
    Pairs,
    /// Parameter types up to the end.
    ParameterTypes,
    /// Parameter types with their count of 32 bits.
    CountedParameterTypes,
    /// Chunk types up to the end.
    ChunkTypes,
    Ipv4,
    Ipv6,
    /// Bytes up to the end.
    Bytes,
    /// A parameter with its header.
    Parameter,
    /// A chunk with its header.
    Chunk,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) kind: FieldKind,
}

/// Chunk, parameter or cause.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) group: ItemGroup,
    pub(crate) name: &'static str,
    /// Type or code; `None` for an item whose fields have it.
    pub(crate) code: Option<u16>,
    pub(crate) flags: &'static [(char, u8)],
    pub(crate) fields: &'static [Field],
    pub(crate) list: ItemList,
}

macro_rules! schemas {
    ($group:ident, $list:ident: $(
        $name:literal = $code:expr, [$(($flag:literal, $bit:literal))*] { $($key:literal: $kind:ident),* } $items:ident;
    )*) => {
        pub(crate) const $list: &[Schema] = &[$(Schema {
            group: ItemGroup::$group,
            name: $name,
            code: $code,
            flags: &[$(($flag, $bit)),*],
            fields: &[$(Field { key: $key, kind: FieldKind::$kind }),*],
            list: ItemList::$items,
        }),*];
    };
}

schemas! { Chunk, CHUNKS:
    "DATA" = Some(0), [('I', 8) ('U', 4) ('B', 2) ('E', 1)] { "flgs": Flags, "len": Length, "tsn": OwnTsn, "sid": U16, "ssn": U16, "ppid": U32, "val": Bytes } None;
    "INIT" = Some(1), [] { "flgs": Flags, "len": Length, "tag": Tag, "a_rwnd": U32, "os": U16, "is": U16, "tsn": InitialTsn } Parameters;
    "INIT_ACK" = Some(2), [] { "flgs": Flags, "len": Length, "tag": Tag, "a_rwnd": U32, "os": U16, "is": U16, "tsn": InitialTsn } Parameters;
    "SACK" = Some(3), [] { "flgs": Flags, "len": Length, "cum_tsn": PeerTsn, "a_rwnd": U32, "gaps": Gaps, "dups": Duplicates } None;
    "HEARTBEAT" = Some(4), [] { "flgs": Flags, "len": Length } Parameters;
    "HEARTBEAT_ACK" = Some(5), [] { "flgs": Flags, "len": Length } Parameters;
    "ABORT" = Some(6), [('T', 1)] { "flgs": Flags, "len": Length } Causes;
    "SHUTDOWN" = Some(7), [] { "flgs": Flags, "len": Length, "cum_tsn": PeerTsn } None;
    "SHUTDOWN_ACK" = Some(8), [] { "flgs": Flags, "len": Length } None;
    "ERROR" = Some(9), [] { "flgs": Flags, "len": Length } Causes;
    "COOKIE_ECHO" = Some(10), [] { "flgs": Flags, "len": Length, "val": Bytes } None;
    "COOKIE_ACK" = Some(11), [] { "flgs": Flags, "len": Length } None;
    "ECNE" = Some(12), [] { "flgs": Flags, "len": Length, "tsn": PeerTsn } None;
    "CWR" = Some(13), [] { "flgs": Flags, "len": Length, "tsn": OwnTsn } None;
    "SHUTDOWN_COMPLETE" = Some(14), [('T', 1)] { "flgs": Flags, "len": Length } None;
    "I-DATA" = Some(64), [('I', 8) ('U', 4) ('B', 2) ('E', 1)] { "flgs": Flags, "len": Length, "tsn": OwnTsn, "sid": U16, "res": U16, "mid": U32, "ppid": U32, "val": Bytes } None;
    "PAD" = Some(132), [] { "flgs": Flags, "len": Length, "val": Bytes } None;
    "FORWARD_TSN" = Some(192), [] { "flgs": Flags, "len": Length, "cum_tsn": OwnTsn, "ids": Pairs } None;
    "CHUNK" = None, [] { "type": Code, "flgs": Flags, "len": Length, "val": Bytes } None;
}

schemas! { Parameter, PARAMETERS:
    "HEARTBEAT_INFORMATION" = Some(1), [] { "len": Length, "val": Bytes } None;
    "IPV4_ADDRESS" = Some(5), [] { "len": Length, "addr": Ipv4 } None;
    "IPV6_ADDRESS" = Some(6), [] { "len": Length, "addr": Ipv6 } None;
    "STATE_COOKIE" = Some(7), [] { "len": Length, "val": Bytes } None;
    "UNRECOGNIZED_PARAMETER" = Some(8), [] { "len": Length, "param": Parameter } None;
    "COOKIE_PRESERVATIVE" = Some(9), [] { "len": Length, "incr": U32 } None;
    "HOSTNAME_ADDRESS" = Some(11), [] { "len": Length, "addr": Bytes } None;
    "SUPPORTED_ADDRESS_TYPES" = Some(12), [] { "len": Length, "types": ParameterTypes } None;
    "ECN_CAPABLE" = Some(0x8000), [] { "len": Length } None;
    "SUPPORTED_EXTENSIONS" = Some(0x8008), [] { "len": Length, "types": ChunkTypes } None;
    "FORWARD_TSN_SUPPORTED" = Some(0xc000), [] { "len": Length } None;
    "ADAPTATION_INDICATION" = Some(0xc006), [] { "len": Length, "adaptation_code_point": U32 } None;
    "PARAMETER" = None, [] { "type": Code, "len": Length, "val": Bytes } None;
}

schemas! { Cause, CAUSES:
    "INVALID_STREAM_IDENTIFIER" = Some(1), [] { "len": Length, "sid": U16, "": Reserved } None;
    "MISSING_MANDATORY_PARAMETER" = Some(2), [] { "len": Length, "types": CountedParameterTypes } None;
    "STALE_COOKIE_ERROR" = Some(3), [] { "len": Length, "staleness": U32 } None;
    "OUT_OF_RESOURCE" = Some(4), [] { "len": Length } None;
    "UNRESOLVABLE_ADDRESS" = Some(5), [] { "len": Length, "param": Parameter } None;
    "UNRECOGNIZED_CHUNK_TYPE" = Some(6), [] { "len": Length, "chk": Chunk } None;
    "INVALID_MANDATORY_PARAMETER" = Some(7), [] { "len": Length } None;
    "UNRECOGNIZED_PARAMETERS" = Some(8), [] { "len": Length } Parameters;
    "NO_USER_DATA" = Some(9), [] { "len": Length, "tsn": PeerTsn } None;
    "COOKIE_RECEIVED_WHILE_SHUTDOWN" = Some(10), [] { "len": Length } None;
    "RESTART_WITH_NEW_ADDRESSES" = Some(11), [] { "len": Length } Parameters;
    "USER_INITIATED_ABORT" = Some(12), [] { "len": Length, "info": Bytes } None;
    "PROTOCOL_VIOLATION" = Some(13), [] { "len": Length, "info": Bytes } None;
    "CAUSE" = None, [] { "code": Code, "len": Length, "info": Bytes } None;
}

impl ItemGroup {
    /// Returns all items of the group; the last one is that without a name.
    pub(crate) const fn schemas(self) -> &'static [Schema] {
        match self {
            Self::Chunk => CHUNKS,
            Self::Parameter => PARAMETERS,
            Self::Cause => CAUSES,
        }
    }

    /// Returns the item of a name.
    pub(crate) fn named(self, name: &str) -> Option<&'static Schema> {
        self.schemas().iter().find(|s| s.name == name)
    }

    /// Returns the item of a type or code, that without a name if it is unknown.
    pub(crate) fn of_code(self, code: u16) -> &'static Schema {
        let known = self.schemas().iter().find(|s| s.code == Some(code));
        known.unwrap_or(&self.schemas()[self.schemas().len() - 1])
    }

    /// Noun of an item in messages.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Chunk => "chunk",
            Self::Parameter => "parameter",
            Self::Cause => "error cause",
        }
    }
}

impl Schema {
    /// Returns the index of a field by its key.
    pub(crate) fn field(&self, key: &str) -> Option<usize> {
        self.fields
            .iter()
            .position(|f| f.key == key && f.kind != FieldKind::Reserved)
    }

    /// Returns the group of the items at the end.
    pub(crate) const fn list_group(&self) -> Option<ItemGroup> {
        match self.list {
            ItemList::None => None,
            ItemList::Parameters => Some(ItemGroup::Parameter),
            ItemList::Causes => Some(ItemGroup::Cause),
        }
    }
}
