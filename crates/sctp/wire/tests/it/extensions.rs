//! Chunks and parameters of the extensions as owned values.

use std::net::IpAddr;

use carrick_wire::{
    AddStreams, AsconfParameters, AsconfSerial, Chunk, ChunkType, CorrelationId,
    ErrorDetectionMethod, Fragment, Fsn, GapAckBlock, HmacId, IDataHeader, Mid, NextTsns,
    PacketBuilder, Parameter, ParameterWriter, Ppid, ReconfigResponse, ReconfigResult,
    ReconfigSerial, SharedKeyId, SkippedMessage, Ssn, StreamId, Tsn,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::pieces::{
    CausePiece, ParameterPiece, address, blob, causes, read_causes, read_parameter,
    read_parameters, write_causes, write_parameters,
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Extension {
    IData(IDataHeader, Vec<u8>),
    ForwardTsn(Tsn, Vec<(StreamId, Ssn)>),
    IForwardTsn(Tsn, Vec<SkippedMessage>),
    Auth(SharedKeyId, HmacId, Vec<u8>),
    Asconf(AsconfSerial, IpAddr, Vec<ParameterPiece>),
    AsconfAck(AsconfSerial, Vec<ParameterPiece>),
    ReConfig(Vec<ParameterPiece>),
    Pad(usize),
    Ecne(Tsn),
    Cwr(Tsn),
    NrSack {
        cumulative: Tsn,
        a_rwnd: u32,
        all: bool,
        gaps: Vec<GapAckBlock>,
        non_renegable: Vec<GapAckBlock>,
        duplicates: Vec<Tsn>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExtensionParameter {
    OutgoingSsnReset(ReconfigSerial, ReconfigSerial, Tsn, Vec<StreamId>),
    IncomingSsnReset(ReconfigSerial, Vec<StreamId>),
    SsnTsnReset(ReconfigSerial),
    ReconfigResponse(ReconfigResponse),
    AddOutgoingStreams(AddStreams),
    AddIncomingStreams(AddStreams),
    EcnCapable,
    ZeroChecksumAcceptable(ErrorDetectionMethod),
    Random(Vec<u8>),
    Chunks(Vec<ChunkType>),
    HmacAlgo(Vec<HmacId>),
    Padding(usize),
    SupportedExtensions(Vec<ChunkType>),
    ForwardTsnSupported,
    AddIpAddress(CorrelationId, IpAddr),
    DeleteIpAddress(CorrelationId, IpAddr),
    SetPrimaryAddress(CorrelationId, IpAddr),
    ErrorCauseIndication(CorrelationId, Vec<CausePiece>),
    SuccessIndication(CorrelationId),
    AdaptationLayerIndication(u32),
}

impl Extension {
    pub(crate) fn write(&self, packet: &mut PacketBuilder<'_>) {
        match self {
            Self::IData(header, payload) => packet.i_data(header, payload),
            Self::ForwardTsn(tsn, skipped) => packet.forward_tsn(*tsn, skipped.iter().copied()),
            Self::IForwardTsn(tsn, skipped) => {
                packet.i_forward_tsn(*tsn, skipped.iter().copied());
            }
            Self::Auth(key, id, hmac) => {
                let [a, b] = key.0.to_be_bytes();
                let [c, d] = id.0.to_be_bytes();
                packet.raw(ChunkType::AUTH, 0, &[&[a, b, c, d], &hmac[..]].concat());
            }
            Self::Asconf(serial, address, parameters) => {
                packet.asconf(*serial, *address, |out| write_parameters(parameters, out));
            }
            Self::AsconfAck(serial, parameters) => {
                packet.asconf_ack(*serial, |out| write_parameters(parameters, out));
            }
            Self::ReConfig(parameters) => {
                packet.re_config(|out| write_parameters(parameters, out));
            }
            Self::Pad(length) => packet.pad(length + 4),
            Self::Ecne(tsn) => packet.ecne(*tsn),
            Self::Cwr(tsn) => packet.cwr(*tsn),
            Self::NrSack {
                cumulative,
                a_rwnd,
                all,
                gaps,
                non_renegable,
                duplicates,
            } => packet.nr_sack(
                *cumulative,
                *a_rwnd,
                *all,
                gaps.iter().copied(),
                non_renegable.iter().copied(),
                duplicates.iter().copied(),
            ),
        }
    }

    pub(crate) fn read(chunk: Chunk<'_>) -> Self {
        match chunk {
            Chunk::IData(data) => Self::IData(data.header, data.payload.to_vec()),
            Chunk::ForwardTsn(forward) => {
                Self::ForwardTsn(forward.new_cumulative_tsn, forward.skipped().collect())
            }
            Chunk::IForwardTsn(forward) => {
                Self::IForwardTsn(forward.new_cumulative_tsn, forward.skipped().collect())
            }
            Chunk::Auth(auth) => Self::Auth(auth.shared_key, auth.hmac_id, auth.hmac.to_vec()),
            Chunk::Asconf(asconf) => Self::Asconf(
                asconf.serial,
                asconf.address,
                read_asconf(asconf.parameters()),
            ),
            Chunk::AsconfAck(ack) => Self::AsconfAck(ack.serial, read_asconf(ack.parameters())),
            Chunk::ReConfig(chunk) => Self::ReConfig(read_parameters(chunk.parameters())),
            Chunk::Pad(pad) => Self::Pad(pad.padding.len()),
            Chunk::Ecne(ecne) => Self::Ecne(ecne.lowest_tsn),
            Chunk::Cwr(cwr) => Self::Cwr(cwr.lowest_tsn),
            Chunk::NrSack(sack) => Self::NrSack {
                cumulative: sack.cumulative_tsn_ack,
                a_rwnd: sack.a_rwnd,
                all: sack.all_non_renegable,
                gaps: sack.gap_ack_blocks().collect(),
                non_renegable: sack.non_renegable_blocks().collect(),
                duplicates: sack.duplicate_tsns().collect(),
            },
            other => panic!("{other:?} is no extension"),
        }
    }
}

fn read_asconf(parameters: AsconfParameters<'_>) -> Vec<ParameterPiece> {
    parameters
        .map(|parameter| read_parameter(Parameter::parse(parameter.unwrap().raw).unwrap()))
        .collect()
}

impl ExtensionParameter {
    pub(crate) fn write(&self, out: &mut ParameterWriter<'_>) {
        match self {
            Self::OutgoingSsnReset(request, response, tsn, streams) => {
                out.outgoing_ssn_reset(*request, *response, *tsn, streams);
            }
            Self::IncomingSsnReset(request, streams) => out.incoming_ssn_reset(*request, streams),
            Self::SsnTsnReset(request) => out.ssn_tsn_reset(*request),
            Self::ReconfigResponse(response) => out.reconfig_response(*response),
            Self::AddOutgoingStreams(add) => out.add_outgoing_streams(*add),
            Self::AddIncomingStreams(add) => out.add_incoming_streams(*add),
            Self::EcnCapable => out.ecn_capable(),
            Self::ZeroChecksumAcceptable(method) => out.zero_checksum_acceptable(*method),
            Self::Random(random) => out.random(random),
            Self::Chunks(types) => out.chunks(types),
            Self::HmacAlgo(ids) => out.hmac_algo(ids),
            Self::Padding(length) => out.padding(*length),
            Self::SupportedExtensions(types) => out.supported_extensions(types),
            Self::ForwardTsnSupported => out.forward_tsn_supported(),
            Self::AddIpAddress(id, address) => out.add_ip_address(*id, *address),
            Self::DeleteIpAddress(id, address) => out.delete_ip_address(*id, *address),
            Self::SetPrimaryAddress(id, address) => out.set_primary_address(*id, *address),
            Self::ErrorCauseIndication(id, causes) => {
                out.error_cause_indication(*id, |out| write_causes(causes, out));
            }
            Self::SuccessIndication(id) => out.success_indication(*id),
            Self::AdaptationLayerIndication(code) => out.adaptation_layer_indication(*code),
        }
    }

    pub(crate) fn read(parameter: Parameter<'_>) -> Self {
        match parameter {
            Parameter::OutgoingSsnReset(reset) => Self::OutgoingSsnReset(
                reset.request,
                reset.response,
                reset.last_tsn,
                reset.streams.collect(),
            ),
            Parameter::IncomingSsnReset(reset) => {
                Self::IncomingSsnReset(reset.request, reset.streams.collect())
            }
            Parameter::SsnTsnReset(request) => Self::SsnTsnReset(request),
            Parameter::ReconfigResponse(response) => Self::ReconfigResponse(response),
            Parameter::AddOutgoingStreams(add) => Self::AddOutgoingStreams(add),
            Parameter::AddIncomingStreams(add) => Self::AddIncomingStreams(add),
            Parameter::EcnCapable => Self::EcnCapable,
            Parameter::ZeroChecksumAcceptable(method) => Self::ZeroChecksumAcceptable(method),
            Parameter::Random(random) => Self::Random(random.to_vec()),
            Parameter::Chunks(types) => Self::Chunks(types.iter().collect()),
            Parameter::HmacAlgo(ids) => Self::HmacAlgo(ids.collect()),
            Parameter::Padding(padding) => Self::Padding(padding.len()),
            Parameter::SupportedExtensions(types) => {
                Self::SupportedExtensions(types.iter().collect())
            }
            Parameter::ForwardTsnSupported => Self::ForwardTsnSupported,
            Parameter::AddIpAddress(add) => Self::AddIpAddress(add.correlation_id, add.address),
            Parameter::DeleteIpAddress(delete) => {
                Self::DeleteIpAddress(delete.correlation_id, delete.address)
            }
            Parameter::SetPrimaryAddress(set) => {
                Self::SetPrimaryAddress(set.correlation_id, set.address)
            }
            Parameter::ErrorCauseIndication(indication) => Self::ErrorCauseIndication(
                indication.correlation_id,
                read_causes(indication.causes),
            ),
            Parameter::SuccessIndication(id) => Self::SuccessIndication(id),
            Parameter::AdaptationLayerIndication(code) => Self::AdaptationLayerIndication(code),
            other => panic!("{other:?} was never written"),
        }
    }
}

fn tsn() -> impl Strategy<Value = Tsn> {
    any::<u32>().prop_map(Tsn::new)
}

fn number() -> impl Strategy<Value = ReconfigSerial> {
    any::<u32>().prop_map(ReconfigSerial::new)
}

fn id() -> impl Strategy<Value = CorrelationId> {
    any::<u32>().prop_map(CorrelationId)
}

fn streams() -> impl Strategy<Value = Vec<StreamId>> {
    vec(any::<u16>().prop_map(StreamId), 0..6)
}

fn chunk_types() -> impl Strategy<Value = Vec<ChunkType>> {
    vec(any::<u8>().prop_map(ChunkType), 0..9)
}

fn gaps() -> impl Strategy<Value = Vec<GapAckBlock>> {
    let gap = any::<(u16, u16)>().prop_map(|(start, end)| GapAckBlock { start, end });
    vec(gap, 0..9)
}

fn fragment() -> impl Strategy<Value = Fragment> {
    prop_oneof![
        any::<u32>().prop_map(|ppid| Fragment::First(Ppid(ppid))),
        any::<u32>().prop_map(|fsn| Fragment::Later(Fsn::new(fsn))),
    ]
}

prop_compose! {
    fn i_data_header()(
        tsn in tsn(),
        stream: u16,
        mid: u32,
        fragment in fragment(),
        immediate: bool,
        unordered: bool,
        ending: bool,
    ) -> IDataHeader {
        let (stream, mid) = (StreamId(stream), Mid::new(mid));
        IDataHeader { tsn, stream, mid, fragment, immediate, unordered, ending }
    }
}

prop_compose! {
    fn nr_sack()(
        cumulative in tsn(),
        a_rwnd: u32,
        all: bool,
        gaps in gaps(),
        non_renegable in gaps(),
        duplicates in vec(tsn(), 0..9),
    ) -> Extension {
        Extension::NrSack { cumulative, a_rwnd, all, gaps, non_renegable, duplicates }
    }
}

fn skipped() -> impl Strategy<Value = SkippedMessage> {
    any::<(u16, bool, u32)>().prop_map(|(stream, unordered, mid)| SkippedMessage {
        stream: StreamId(stream),
        unordered,
        mid: Mid::new(mid),
    })
}

pub(crate) fn extension() -> impl Strategy<Value = Extension> {
    let list = || vec(asconf_parameter().prop_map(ParameterPiece::Extension), 0..5);
    let serial = || any::<u32>().prop_map(AsconfSerial::new);
    let ssn = any::<(u16, u16)>().prop_map(|(stream, ssn)| (StreamId(stream), Ssn::new(ssn)));
    let re_config = vec(
        reconfig_parameter().prop_map(ParameterPiece::Extension),
        0..3,
    );
    prop_oneof![
        (i_data_header(), blob()).prop_map(|(header, bytes)| Extension::IData(header, bytes)),
        (tsn(), vec(ssn, 0..9)).prop_map(|(tsn, list)| Extension::ForwardTsn(tsn, list)),
        (tsn(), vec(skipped(), 0..9)).prop_map(|(tsn, list)| Extension::IForwardTsn(tsn, list)),
        (any::<(u16, u16)>(), blob()).prop_map(|((key, id), hmac)| Extension::Auth(
            SharedKeyId(key),
            HmacId(id),
            hmac
        )),
        (serial(), address(), list())
            .prop_map(|(serial, address, list)| Extension::Asconf(serial, address, list)),
        (serial(), list()).prop_map(|(serial, list)| Extension::AsconfAck(serial, list)),
        re_config.prop_map(Extension::ReConfig),
        (0..40_usize).prop_map(Extension::Pad),
        tsn().prop_map(Extension::Ecne),
        tsn().prop_map(Extension::Cwr),
        nr_sack(),
    ]
}

fn asconf_parameter() -> impl Strategy<Value = ExtensionParameter> {
    use ExtensionParameter as P;
    prop_oneof![
        (id(), address()).prop_map(|(id, address)| P::AddIpAddress(id, address)),
        (id(), address()).prop_map(|(id, address)| P::DeleteIpAddress(id, address)),
        (id(), address()).prop_map(|(id, address)| P::SetPrimaryAddress(id, address)),
        (id(), causes()).prop_map(|(id, causes)| P::ErrorCauseIndication(id, causes)),
        id().prop_map(P::SuccessIndication),
    ]
}

fn reconfig_parameter() -> impl Strategy<Value = ExtensionParameter> {
    use ExtensionParameter as P;
    let add =
        || (number(), any::<u16>()).prop_map(|(request, count)| AddStreams { request, count });
    let next = (tsn(), tsn()).prop_map(|(sender, receiver)| NextTsns { sender, receiver });
    let response = (number(), any::<u32>(), proptest::option::of(next));
    prop_oneof![
        (number(), number(), tsn(), streams()).prop_map(|(request, response, tsn, list)| {
            P::OutgoingSsnReset(request, response, tsn, list)
        }),
        (number(), streams()).prop_map(|(request, list)| P::IncomingSsnReset(request, list)),
        number().prop_map(P::SsnTsnReset),
        response.prop_map(
            |(response, result, next_tsns)| P::ReconfigResponse(ReconfigResponse {
                response,
                result: ReconfigResult(result),
                next_tsns,
            })
        ),
        add().prop_map(P::AddOutgoingStreams),
        add().prop_map(P::AddIncomingStreams),
    ]
}

/// Also parameters that are not allowed in an INIT: the crate does not check that.
pub(crate) fn extension_parameter() -> impl Strategy<Value = ExtensionParameter> {
    use ExtensionParameter as P;
    let algorithms = vec(any::<u16>().prop_map(HmacId), 0..4);
    prop_oneof![
        asconf_parameter(),
        reconfig_parameter(),
        Just(P::EcnCapable),
        any::<u32>().prop_map(|id| P::ZeroChecksumAcceptable(ErrorDetectionMethod(id))),
        blob().prop_map(P::Random),
        chunk_types().prop_map(P::Chunks),
        algorithms.prop_map(P::HmacAlgo),
        (0..40_usize).prop_map(P::Padding),
        chunk_types().prop_map(P::SupportedExtensions),
        Just(P::ForwardTsnSupported),
        any::<u32>().prop_map(P::AdaptationLayerIndication),
    ]
}
