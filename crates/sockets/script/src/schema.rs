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
    /// As [`FieldKind::OwnTsn`], but absent if a script has none.
    OptionalOwnTsn,
    /// As [`FieldKind::PeerTsn`], but absent if a script has none.
    OptionalPeerTsn,
    /// Two bytes that are zero and have no name.
    Reserved,
    /// Gap Ack Blocks, before them the two counts of a SACK, and behind them its duplicate TSNs.
    Gaps,
    /// Gap Ack Blocks of an NR-SACK, before them the three counts and two reserved bytes.
    RenegableGaps,
    /// Non-renegable Gap Ack Blocks behind [`FieldKind::RenegableGaps`].
    NonRenegableGaps,
    /// Duplicate TSNs behind the blocks.
    Duplicates,
    /// Pairs of 16 bits up to the end.
    Pairs,
    /// Stream identifier, flags and MID up to the end.
    MessageIds,
    /// Numbers of 16 bits up to the end.
    U16List,
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
    "AUTH" = Some(15), [] { "flgs": Flags, "len": Length, "keyid": U16, "hmacid": U16, "val": Bytes } None;
    "NR_SACK" = Some(16), [] { "flgs": Flags, "len": Length, "cum_tsn": PeerTsn, "a_rwnd": U32, "gaps": RenegableGaps, "nr_gaps": NonRenegableGaps, "dups": Duplicates } None;
    "I_DATA" = Some(64), [('I', 8) ('U', 4) ('B', 2) ('E', 1)] { "flgs": Flags, "len": Length, "tsn": OwnTsn, "sid": U16, "res": U16, "mid": U32, "ppid": U32, "val": Bytes } None;
    "ASCONF_ACK" = Some(128), [] { "flgs": Flags, "len": Length, "serial": PeerTsn } Parameters;
    "RECONFIG" = Some(130), [] { "flgs": Flags, "len": Length } Parameters;
    "PAD" = Some(132), [] { "flgs": Flags, "len": Length, "val": Bytes } None;
    "FORWARD_TSN" = Some(192), [] { "flgs": Flags, "len": Length, "cum_tsn": OwnTsn, "ids": Pairs } None;
    "ASCONF" = Some(193), [] { "flgs": Flags, "len": Length, "serial": OwnTsn } Parameters;
    "I_FORWARD_TSN" = Some(194), [] { "flgs": Flags, "len": Length, "cum_tsn": OwnTsn, "ids": MessageIds } None;
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
    "OUTGOING_SSN_RESET" = Some(13), [] { "len": Length, "req_sn": OwnTsn, "resp_sn": PeerTsn, "last_tsn": OwnTsn, "sids": U16List } None;
    "INCOMING_SSN_RESET" = Some(14), [] { "len": Length, "req_sn": OwnTsn, "sids": U16List } None;
    "SSN_TSN_RESET" = Some(15), [] { "len": Length, "req_sn": OwnTsn } None;
    "RECONFIG_RESPONSE" = Some(16), [] { "len": Length, "resp_sn": PeerTsn, "result": U32, "sender_next_tsn": OptionalOwnTsn, "receiver_next_tsn": OptionalPeerTsn } None;
    "ADD_OUTGOING_STREAMS" = Some(17), [] { "len": Length, "req_sn": OwnTsn, "number_of_new_streams": U16, "": Reserved } None;
    "ADD_INCOMING_STREAMS" = Some(18), [] { "len": Length, "req_sn": OwnTsn, "number_of_new_streams": U16, "": Reserved } None;
    "RECONFIG_REQUEST_GENERIC" = None, [] { "type": Code, "len": Length, "req_sn": OwnTsn, "val": Bytes } None;
    "ECN_CAPABLE" = Some(0x8000), [] { "len": Length } None;
    "ZERO_CHECKSUM_ACCEPTABLE" = Some(0x8001), [] { "len": Length, "edmid": U32 } None;
    "RANDOM" = Some(0x8002), [] { "len": Length, "val": Bytes } None;
    "CHUNK_LIST" = Some(0x8003), [] { "len": Length, "types": ChunkTypes } None;
    "REQUESTED_HMAC_ALGORITHM" = Some(0x8004), [] { "len": Length, "ids": U16List } None;
    "PAD" = Some(0x8005), [] { "len": Length, "val": Bytes } None;
    "SUPPORTED_EXTENSIONS" = Some(0x8008), [] { "len": Length, "types": ChunkTypes } None;
    "FORWARD_TSN_SUPPORTED" = Some(0xc000), [] { "len": Length } None;
    "ADD_IP_ADDRESS" = Some(0xc001), [] { "len": Length, "corr_id": U32 } Parameters;
    "DELETE_IP_ADDRESS" = Some(0xc002), [] { "len": Length, "corr_id": U32 } Parameters;
    "ERROR_CAUSE_INDICATION" = Some(0xc003), [] { "len": Length, "corr_id": U32 } Causes;
    "SET_PRIMARY_ADDRESS" = Some(0xc004), [] { "len": Length, "corr_id": U32 } Parameters;
    "SUCCESS_INDICATION" = Some(0xc005), [] { "len": Length, "corr_id": U32 } None;
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
    "DELETE_LAST_IP_ADDRESS" = Some(0xa0), [] { "len": Length } Parameters;
    "OPERATION_REFUSED" = Some(0xa1), [] { "len": Length } Parameters;
    "DELETE_SOURCE_IP_ADDRESS" = Some(0xa2), [] { "len": Length } Parameters;
    "ILLEGAL_ASCONF_ACK" = Some(0xa3), [] { "len": Length } None;
    "NO_AUTHORIZATION" = Some(0xa4), [] { "len": Length } Parameters;
    "UNSUPPORTED_HMAC_IDENTIFIER" = Some(0x105), [] { "len": Length, "hmacid": U16 } None;
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

    /// Returns the item of a name, also as the RFCs write it: `I-DATA`, `RE-CONFIG`.
    pub(crate) fn named(self, name: &str) -> Option<&'static Schema> {
        let name = match name.replace('-', "_") {
            name if name == "RE_CONFIG" => "RECONFIG".into(),
            name => name,
        };
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
    /// Returns the index of a field by its key. The FSN of later fragments has the place of the PPID of the first one.
    pub(crate) fn field(&self, key: &str) -> Option<usize> {
        let key = match (self.name, key) {
            ("I_DATA", "fsn") => "ppid",
            _ => key,
        };
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
