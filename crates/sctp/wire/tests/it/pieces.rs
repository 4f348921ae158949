//! Chunks, parameters and causes as owned values: drawn at random, written, and compared with the result of
//! parsing.

use std::net::IpAddr;

use carrick_wire::{
    Cause, CauseCode, CauseWriter, Causes, Chunk, ChunkType, CommonHeader, DataFlags, DataHeader,
    GapAckBlock, HmacId, InitFields, Packet, PacketBuilder, Parameter, ParameterType,
    ParameterWriter, Parameters, Ppid, Ssn, StreamId, Tsn, VerificationTag,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::extensions::{Extension, ExtensionParameter, extension, extension_parameter};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Data(DataHeader, Vec<u8>),
    Init(InitFields, Vec<ParameterPiece>),
    InitAck(InitFields, Vec<ParameterPiece>),
    Sack {
        cumulative: Tsn,
        a_rwnd: u32,
        gaps: Vec<GapAckBlock>,
        duplicates: Vec<Tsn>,
    },
    Heartbeat(Vec<u8>),
    HeartbeatAck(Vec<u8>),
    Abort(bool, Vec<CausePiece>),
    Shutdown(Tsn),
    ShutdownAck,
    Error(Vec<CausePiece>),
    CookieEcho(Vec<u8>),
    CookieAck,
    ShutdownComplete(bool),
    Extension(Extension),
    Unknown(ChunkType, u8, Vec<u8>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ParameterPiece {
    Address(IpAddr),
    CookiePreservative(u32),
    AddressTypes(Vec<u16>),
    StateCookie(Vec<u8>),
    Unrecognized(Vec<u8>),
    Extension(ExtensionParameter),
    Unknown(ParameterType, Vec<u8>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CausePiece {
    InvalidStream(StreamId),
    MissingParameters(Vec<ParameterType>),
    StaleCookie(u32),
    OutOfResource,
    UnresolvableAddress(Vec<u8>),
    UnrecognizedChunk(Vec<u8>),
    InvalidMandatoryParameter,
    UnrecognizedParameters(Vec<u8>),
    NoUserData(Tsn),
    CookieWhileShuttingDown,
    RestartWithNewAddresses(Vec<IpAddr>),
    UserInitiatedAbort(Vec<u8>),
    ProtocolViolation(Vec<u8>),
    /// Cause that returns a request, depending on its code.
    Refusal(CauseCode, Vec<u8>),
    IllegalAsconfAck,
    UnsupportedHmacId(HmacId),
    Unknown(CauseCode, Vec<u8>),
}

/// Returns a packet of these chunks.
pub(crate) fn write(header: CommonHeader, pieces: &[Piece]) -> Vec<u8> {
    let mut buf = Vec::new();
    let mut builder = PacketBuilder::new(&mut buf, header, 1 << 16);
    for piece in pieces {
        piece.write(&mut builder);
    }
    let length = builder.finish();
    assert_eq!(length, buf.len());
    buf
}

/// Returns the chunks of a packet without errors.
pub(crate) fn read(packet: &Packet<'_>) -> Vec<Piece> {
    let chunks = packet.chunks().map(Result::unwrap);
    chunks
        .map(|raw| Piece::read(Chunk::parse(raw).unwrap()))
        .collect()
}

impl Piece {
    fn write(&self, packet: &mut PacketBuilder<'_>) {
        match self {
            Self::Data(header, payload) => packet.data(header, payload),
            Self::Init(fields, parameters) => {
                packet.init(ChunkType::INIT, *fields, |out| {
                    write_parameters(parameters, out);
                });
            }
            Self::InitAck(fields, parameters) => {
                packet.init(ChunkType::INIT_ACK, *fields, |out| {
                    write_parameters(parameters, out);
                });
            }
            Self::Sack {
                cumulative,
                a_rwnd,
                gaps,
                duplicates,
            } => {
                let (gaps, duplicates) = (gaps.iter().copied(), duplicates.iter().copied());
                packet.sack(*cumulative, *a_rwnd, gaps, duplicates);
            }
            Self::Heartbeat(info) => packet.heartbeat(info),
            Self::HeartbeatAck(value) => packet.heartbeat_ack(value),
            Self::Abort(reflected, causes) => {
                packet.abort(*reflected, |out| write_causes(causes, out));
            }
            Self::Shutdown(tsn) => packet.shutdown(*tsn),
            Self::ShutdownAck => packet.shutdown_ack(),
            Self::Error(causes) => packet.error(|out| write_causes(causes, out)),
            Self::CookieEcho(cookie) => packet.cookie_echo(cookie),
            Self::CookieAck => packet.cookie_ack(),
            Self::ShutdownComplete(reflected) => packet.shutdown_complete(*reflected),
            Self::Extension(extension) => extension.write(packet),
            Self::Unknown(kind, flags, value) => packet.raw(*kind, *flags, value),
        }
    }

    fn read(chunk: Chunk<'_>) -> Self {
        match chunk {
            Chunk::Data(data) => Self::Data(data.header(), data.payload.to_vec()),
            Chunk::Init(init) => Self::Init(init.fields(), read_parameters(init.parameters())),
            Chunk::InitAck(init) => {
                Self::InitAck(init.fields(), read_parameters(init.parameters()))
            }
            Chunk::Sack(sack) => Self::Sack {
                cumulative: sack.cumulative_tsn_ack,
                a_rwnd: sack.a_rwnd,
                gaps: sack.gap_ack_blocks().collect(),
                duplicates: sack.duplicate_tsns().collect(),
            },
            Chunk::Heartbeat(heartbeat) => Self::Heartbeat(heartbeat.info.to_vec()),
            Chunk::HeartbeatAck(heartbeat) => Self::HeartbeatAck(heartbeat.value.to_vec()),
            Chunk::Abort(abort) => Self::Abort(abort.reflected, read_causes(abort.causes())),
            Chunk::Shutdown(shutdown) => Self::Shutdown(shutdown.cumulative_tsn_ack),
            Chunk::ShutdownAck => Self::ShutdownAck,
            Chunk::Error(error) => Self::Error(read_causes(error.causes())),
            Chunk::CookieEcho(echo) => Self::CookieEcho(echo.cookie.to_vec()),
            Chunk::CookieAck => Self::CookieAck,
            Chunk::ShutdownComplete(complete) => Self::ShutdownComplete(complete.reflected),
            Chunk::Unknown(raw) => Self::Unknown(raw.kind, raw.flags, raw.value.to_vec()),
            extension => Self::Extension(Extension::read(extension)),
        }
    }
}

pub(crate) fn write_parameters(pieces: &[ParameterPiece], out: &mut ParameterWriter<'_>) {
    for piece in pieces {
        match piece {
            ParameterPiece::Address(address) => out.ip_address(*address),
            ParameterPiece::CookiePreservative(increment) => out.cookie_preservative(*increment),
            ParameterPiece::AddressTypes(types) => out.supported_address_types(types),
            ParameterPiece::StateCookie(cookie) => out.state_cookie(cookie),
            ParameterPiece::Unrecognized(parameter) => out.unrecognized(parameter),
            ParameterPiece::Extension(extension) => extension.write(out),
            ParameterPiece::Unknown(kind, value) => out.raw(*kind, value),
        }
    }
}

pub(crate) fn read_parameters(parameters: Parameters<'_>) -> Vec<ParameterPiece> {
    parameters
        .map(|raw| read_parameter(Parameter::parse(raw.unwrap()).unwrap()))
        .collect()
}

pub(crate) fn read_parameter(parameter: Parameter<'_>) -> ParameterPiece {
    match parameter {
        Parameter::Ipv4Address(address) => ParameterPiece::Address(address.into()),
        Parameter::Ipv6Address(address) => ParameterPiece::Address(address.into()),
        Parameter::CookiePreservative { increment_ms } => {
            ParameterPiece::CookiePreservative(increment_ms)
        }
        Parameter::SupportedAddressTypes(types) => ParameterPiece::AddressTypes(types.collect()),
        Parameter::StateCookie(cookie) => ParameterPiece::StateCookie(cookie.to_vec()),
        Parameter::UnrecognizedParameter(bytes) => ParameterPiece::Unrecognized(bytes.to_vec()),
        Parameter::Unknown(raw) => ParameterPiece::Unknown(raw.kind, raw.value.to_vec()),
        extension => ParameterPiece::Extension(ExtensionParameter::read(extension)),
    }
}

pub(crate) fn write_causes(pieces: &[CausePiece], out: &mut CauseWriter<'_>) {
    for piece in pieces {
        match piece {
            CausePiece::InvalidStream(stream) => out.invalid_stream(*stream),
            CausePiece::MissingParameters(missing) => out.missing_parameters(missing),
            CausePiece::StaleCookie(staleness) => out.stale_cookie(*staleness),
            CausePiece::OutOfResource => out.out_of_resource(),
            CausePiece::UnresolvableAddress(bytes) => out.unresolvable_address(bytes),
            CausePiece::UnrecognizedChunk(bytes) => out.unrecognized_chunk(bytes),
            CausePiece::InvalidMandatoryParameter => out.invalid_mandatory_parameter(),
            CausePiece::UnrecognizedParameters(bytes) => out.unrecognized_parameters(bytes),
            CausePiece::NoUserData(tsn) => out.no_user_data(*tsn),
            CausePiece::CookieWhileShuttingDown => out.cookie_while_shutting_down(),
            CausePiece::RestartWithNewAddresses(list) => out.restart_with_new_addresses(list),
            CausePiece::UserInitiatedAbort(reason) => out.user_initiated_abort(reason),
            CausePiece::ProtocolViolation(bytes) => out.protocol_violation(bytes),
            CausePiece::Refusal(CauseCode::DELETE_LAST_ADDRESS, bytes) => {
                out.delete_last_address(bytes);
            }
            CausePiece::Refusal(CauseCode::RESOURCE_SHORTAGE, bytes) => {
                out.resource_shortage(bytes);
            }
            CausePiece::Refusal(CauseCode::DELETE_SOURCE_ADDRESS, bytes) => {
                out.delete_source_address(bytes);
            }
            CausePiece::Refusal(_, bytes) => out.no_authorization(bytes),
            CausePiece::IllegalAsconfAck => out.illegal_asconf_ack(),
            CausePiece::UnsupportedHmacId(id) => out.unsupported_hmac_id(*id),
            CausePiece::Unknown(code, value) => out.raw(*code, value),
        }
    }
}

pub(crate) fn read_causes(causes: Causes<'_>) -> Vec<CausePiece> {
    causes
        .map(|raw| read_cause(Cause::parse(raw.unwrap()).unwrap()))
        .collect()
}

fn read_cause(cause: Cause<'_>) -> CausePiece {
    match cause {
        Cause::InvalidStream(stream) => CausePiece::InvalidStream(stream),
        Cause::MissingParameters(missing) => CausePiece::MissingParameters(missing.collect()),
        Cause::StaleCookie { staleness_us } => CausePiece::StaleCookie(staleness_us),
        Cause::OutOfResource => CausePiece::OutOfResource,
        Cause::UnresolvableAddress(bytes) => CausePiece::UnresolvableAddress(bytes.to_vec()),
        Cause::UnrecognizedChunk(bytes) => CausePiece::UnrecognizedChunk(bytes.to_vec()),
        Cause::InvalidMandatoryParameter => CausePiece::InvalidMandatoryParameter,
        Cause::UnrecognizedParameters(parameters) => {
            CausePiece::UnrecognizedParameters(parameters.bytes().to_vec())
        }
        Cause::NoUserData(tsn) => CausePiece::NoUserData(tsn),
        Cause::CookieWhileShuttingDown => CausePiece::CookieWhileShuttingDown,
        Cause::RestartWithNewAddresses(parameters) => {
            let addresses = read_parameters(parameters)
                .into_iter()
                .map(|piece| match piece {
                    ParameterPiece::Address(address) => address,
                    other => panic!("{other:?} is no address"),
                });
            CausePiece::RestartWithNewAddresses(addresses.collect())
        }
        Cause::UserInitiatedAbort(reason) => CausePiece::UserInitiatedAbort(reason.to_vec()),
        Cause::ProtocolViolation(bytes) => CausePiece::ProtocolViolation(bytes.to_vec()),
        Cause::DeleteLastAddress(request) => refusal(CauseCode::DELETE_LAST_ADDRESS, &request),
        Cause::ResourceShortage(request) => refusal(CauseCode::RESOURCE_SHORTAGE, &request),
        Cause::DeleteSourceAddress(request) => refusal(CauseCode::DELETE_SOURCE_ADDRESS, &request),
        Cause::NoAuthorization(request) => refusal(CauseCode::NO_AUTHORIZATION, &request),
        Cause::IllegalAsconfAck => CausePiece::IllegalAsconfAck,
        Cause::UnsupportedHmacId(id) => CausePiece::UnsupportedHmacId(id),
        Cause::Unknown(raw) => CausePiece::Unknown(raw.code, raw.value.to_vec()),
    }
}

fn refusal(code: CauseCode, request: &Parameters<'_>) -> CausePiece {
    CausePiece::Refusal(code, request.bytes().to_vec())
}

prop_compose! {
    pub(crate) fn header()(
        source_port in 1..=u16::MAX,
        destination_port in 1..=u16::MAX,
        tag: u32,
    ) -> CommonHeader {
        CommonHeader { source_port, destination_port, tag: VerificationTag(tag) }
    }
}

prop_compose! {
    fn data_header()(
        tsn: u32,
        stream: u16,
        ssn: u16,
        ppid: u32,
        flags in 0..16_u8,
    ) -> DataHeader {
        DataHeader {
            tsn: Tsn::new(tsn),
            stream: StreamId(stream),
            ssn: Ssn::new(ssn),
            ppid: Ppid(ppid),
            flags: DataFlags::from_bits(flags),
        }
    }
}

prop_compose! {
    fn init_fields()(
        tag: u32,
        a_rwnd: u32,
        outbound_streams: u16,
        inbound_streams: u16,
        initial_tsn: u32,
    ) -> InitFields {
        InitFields {
            tag: VerificationTag(tag),
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn: Tsn::new(initial_tsn),
        }
    }
}

prop_compose! {
    fn sack()(
        cumulative: u32,
        a_rwnd: u32,
        gaps in vec(any::<(u16, u16)>(), 0..20),
        duplicates in vec(any::<u32>(), 0..20),
    ) -> Piece {
        Piece::Sack {
            cumulative: Tsn::new(cumulative),
            a_rwnd,
            gaps: gaps.into_iter().map(|(start, end)| GapAckBlock { start, end }).collect(),
            duplicates: duplicates.into_iter().map(Tsn::new).collect(),
        }
    }
}

pub(crate) fn blob() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

/// No IPv4-mapped addresses: those are written as IPv4.
pub(crate) fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(|octets| IpAddr::from(octets).to_canonical()),
    ]
}

fn parameters() -> impl Strategy<Value = Vec<ParameterPiece>> {
    let parameter = prop_oneof![
        address().prop_map(ParameterPiece::Address),
        any::<u32>().prop_map(ParameterPiece::CookiePreservative),
        vec(any::<u16>(), 0..4).prop_map(ParameterPiece::AddressTypes),
        blob().prop_map(ParameterPiece::StateCookie),
        blob().prop_map(ParameterPiece::Unrecognized),
        extension_parameter().prop_map(ParameterPiece::Extension),
        (0x8009..0xc000_u16, blob())
            .prop_map(|(kind, value)| ParameterPiece::Unknown(ParameterType(kind), value)),
        (0xc007..=u16::MAX, blob())
            .prop_map(|(kind, value)| ParameterPiece::Unknown(ParameterType(kind), value)),
    ];
    vec(parameter, 0..6)
}

pub(crate) fn causes() -> impl Strategy<Value = Vec<CausePiece>> {
    let cause = prop_oneof![
        any::<u16>().prop_map(|id| CausePiece::InvalidStream(StreamId(id))),
        vec(any::<u16>().prop_map(ParameterType), 0..5).prop_map(CausePiece::MissingParameters),
        any::<u32>().prop_map(CausePiece::StaleCookie),
        Just(CausePiece::OutOfResource),
        blob().prop_map(CausePiece::UnresolvableAddress),
        blob().prop_map(CausePiece::UnrecognizedChunk),
        Just(CausePiece::InvalidMandatoryParameter),
        blob().prop_map(CausePiece::UnrecognizedParameters),
        any::<u32>().prop_map(|tsn| CausePiece::NoUserData(Tsn::new(tsn))),
        Just(CausePiece::CookieWhileShuttingDown),
        vec(address(), 0..4).prop_map(CausePiece::RestartWithNewAddresses),
        blob().prop_map(CausePiece::UserInitiatedAbort),
        blob().prop_map(CausePiece::ProtocolViolation),
        (0xa0..=0xa4_u16, blob())
            .prop_filter("0xa3 returns no request", |(code, _)| *code != 0xa3)
            .prop_map(|(code, bytes)| CausePiece::Refusal(CauseCode(code), bytes)),
        Just(CausePiece::IllegalAsconfAck),
        any::<u16>().prop_map(|id| CausePiece::UnsupportedHmacId(HmacId(id))),
        (0x106..=u16::MAX, blob())
            .prop_map(|(code, value)| CausePiece::Unknown(CauseCode(code), value)),
    ];
    vec(cause, 0..6)
}

/// One to nine chunks, bundled without regard to the rules of bundling.
pub(crate) fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        (data_header(), blob()).prop_map(|(header, payload)| Piece::Data(header, payload)),
        (init_fields(), parameters()).prop_map(|(fields, list)| Piece::Init(fields, list)),
        (init_fields(), parameters()).prop_map(|(fields, list)| Piece::InitAck(fields, list)),
        sack(),
        blob().prop_map(Piece::Heartbeat),
        blob().prop_map(|info| {
            let [high, low] = (info.len() as u16 + 4).to_be_bytes();
            Piece::HeartbeatAck([&[0, 1, high, low], &info[..]].concat())
        }),
        (any::<bool>(), causes()).prop_map(|(reflected, list)| Piece::Abort(reflected, list)),
        any::<u32>().prop_map(|tsn| Piece::Shutdown(Tsn::new(tsn))),
        Just(Piece::ShutdownAck),
        causes().prop_map(Piece::Error),
        blob().prop_map(Piece::CookieEcho),
        Just(Piece::CookieAck),
        any::<bool>().prop_map(Piece::ShutdownComplete),
        extension().prop_map(Piece::Extension),
        extension().prop_map(Piece::Extension),
        (195..=u8::MAX, any::<u8>(), blob()).prop_map(|(kind, flags, value)| Piece::Unknown(
            ChunkType(kind),
            flags,
            value
        )),
    ];
    vec(piece, 1..10)
}
