//! Parses a packet completely, to the innermost parameter, and checks that the offset of every slice is
//! correct. Shared by the tests and the fuzz target.

use std::collections::BTreeSet;

use carrick_wire::{
    AsconfParameters, Auth, Cause, Causes, Chunk, Packet, PacketBuilder, Parameter, ParameterType,
    Parameters, RawChunk, RawParameter,
};

/// Types found in the packets.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// Chunk types.
    pub(crate) chunks: BTreeSet<u8>,
    /// Parameter types.
    pub(crate) parameters: BTreeSet<u16>,
    /// Cause codes.
    pub(crate) causes: BTreeSet<u16>,
    /// Number of errors, at any depth.
    pub(crate) errors: usize,
}

/// Parses everything in `bytes`.
///
/// # Panics
/// A slice or an error lies outside the packet, or a chunk changes on its way through
/// [`PacketBuilder`].
pub(crate) fn walk(bytes: &[u8], met: &mut Met) {
    let packet = match Packet::parse(bytes) {
        Ok(packet) => packet,
        Err(error) => {
            assert!(error.offset <= bytes.len(), "{error}");
            met.errors += 1;
            return;
        }
    };
    assert_eq!(packet.bytes(), bytes);
    if packet.checksum_is_valid() {
        assert!(packet.checksum_is_valid_or_zero());
    }
    let mut whole = Vec::new();
    for raw in packet.chunks() {
        let Ok(raw) = raw.inspect_err(|error| assert!(error.offset < bytes.len(), "{error}"))
        else {
            met.errors += 1;
            break;
        };
        assert_lies_at(bytes, raw.bytes, raw.offset);
        assert_lies_at(bytes, raw.value, raw.offset + 4);
        met.chunks.insert(raw.kind.0);
        match Chunk::parse(raw) {
            Ok(chunk) => walk_chunk(bytes, chunk, met),
            Err(error) => {
                assert!((raw.offset..=raw.offset + raw.bytes.len()).contains(&error.offset));
                met.errors += 1;
            }
        }
        whole.push(raw);
    }
    assert_rebuilds(&packet, &whole);
}

/// Asserts that the chunks, written again, are parsed as the same chunks.
fn assert_rebuilds(packet: &Packet<'_>, chunks: &[RawChunk<'_>]) {
    let mut buf = Vec::new();
    let mut builder = PacketBuilder::new(&mut buf, packet.header(), packet.bytes().len() + 3);
    for raw in chunks {
        assert!(builder.fits(raw.bytes.len()));
        builder.raw(raw.kind, raw.flags, raw.value);
    }
    if builder.finish() == 0 {
        assert!(chunks.is_empty());
        return;
    }
    let again = Packet::parse(&buf).expect("a packet that was just built");
    assert!(again.checksum_is_valid());
    assert_eq!(again.header(), packet.header());
    assert!(
        again
            .chunks()
            .map(Result::unwrap)
            .eq(chunks.iter().copied())
    );
}

fn walk_chunk(packet: &[u8], chunk: Chunk<'_>, met: &mut Met) {
    match chunk {
        Chunk::Data(data) => assert_within(packet, data.payload),
        Chunk::Init(init) | Chunk::InitAck(init) => {
            assert_within(packet, init.parameters().bytes());
            walk_parameters(packet, init.parameters(), met);
        }
        Chunk::Sack(sack) => {
            assert_eq!(sack.gap_ack_blocks().count(), sack.gap_ack_block_count());
            assert_eq!(sack.duplicate_tsns().count(), sack.duplicate_tsns().len());
        }
        Chunk::Heartbeat(heartbeat) | Chunk::HeartbeatAck(heartbeat) => {
            assert_within(packet, heartbeat.value);
            assert_within(heartbeat.value, heartbeat.info);
            met.parameters.insert(ParameterType::HEARTBEAT_INFO.0);
        }
        Chunk::Abort(abort) => walk_causes(packet, abort.causes(), met),
        Chunk::Error(error) => walk_causes(packet, error.causes(), met),
        Chunk::CookieEcho(echo) => assert_within(packet, echo.cookie),
        Chunk::Auth(auth) => walk_auth(packet, &auth),
        Chunk::NrSack(sack) => {
            let blocks = sack.gap_ack_blocks().len() + sack.non_renegable_blocks().len();
            let read = sack.gap_ack_blocks().chain(sack.non_renegable_blocks());
            assert_eq!(read.count(), blocks);
            assert_eq!(sack.duplicate_tsns().count(), sack.duplicate_tsns().len());
        }
        Chunk::IData(data) => {
            assert_within(packet, data.payload);
            let first = data.header.flags().beginning;
            assert_eq!(first, data.header.fragment.ppid().is_some());
        }
        Chunk::Asconf(asconf) => walk_asconf(packet, asconf.parameters(), met),
        Chunk::AsconfAck(ack) => walk_asconf(packet, ack.parameters(), met),
        Chunk::ReConfig(chunk) => walk_parameters(packet, chunk.parameters(), met),
        Chunk::Pad(pad) => assert_within(packet, pad.padding),
        Chunk::ForwardTsn(forward) => {
            assert_eq!(forward.skipped().count(), forward.skipped().len());
        }
        Chunk::IForwardTsn(forward) => {
            assert_eq!(forward.skipped().count(), forward.skipped().len());
        }
        Chunk::Unknown(raw) => assert_within(packet, raw.bytes),
        Chunk::Shutdown(_)
        | Chunk::ShutdownAck
        | Chunk::CookieAck
        | Chunk::ShutdownComplete(_)
        | Chunk::Ecne(_)
        | Chunk::Cwr(_) => {}
    }
}

/// Asserts that the HMAC covers the packet from the chunk on, with the HMAC zeroed.
fn walk_auth(bytes: &[u8], auth: &Auth<'_>) {
    assert_lies_at(bytes, auth.hmac, auth.hmac_range().start);
    assert_eq!(auth.chunk_range().end, auth.hmac_range().end);
    let packet = Packet::parse(bytes).expect("the packet that the chunk was cut from");
    let mut expected = bytes.to_vec();
    expected[auth.hmac_range()].fill(0);
    let covered: Vec<&[u8]> = auth.covered(&packet).collect();
    assert_eq!(covered.concat(), expected[auth.chunk_range().start..]);
}

fn walk_asconf(packet: &[u8], parameters: AsconfParameters<'_>, met: &mut Met) {
    assert_within(packet, parameters.bytes());
    for parameter in parameters {
        let Ok(parameter) =
            parameter.inspect_err(|error| assert!(error.offset < packet.len(), "{error}"))
        else {
            met.errors += 1;
            return;
        };
        assert!(
            parameter
                .raw
                .value
                .starts_with(&parameter.correlation_id.0.to_be_bytes())
        );
        walk_parameter(packet, parameter.raw, met);
    }
}

/// `whole` is the slice from which the offsets count.
fn walk_parameters(whole: &[u8], parameters: Parameters<'_>, met: &mut Met) {
    for raw in parameters {
        let Ok(raw) = raw.inspect_err(|error| assert!(error.offset < whole.len(), "{error}"))
        else {
            met.errors += 1;
            return;
        };
        walk_parameter(whole, raw, met);
    }
}

fn walk_parameter(whole: &[u8], raw: RawParameter<'_>, met: &mut Met) {
    assert_lies_at(whole, raw.bytes, raw.offset);
    assert_lies_at(whole, raw.value, raw.offset + 4);
    met.parameters.insert(raw.kind.0);
    match Parameter::parse(raw) {
        Ok(Parameter::SupportedAddressTypes(types)) => {
            assert_eq!(types.count() * 2, raw.value.len());
        }
        Ok(Parameter::UnrecognizedParameter(inner)) => {
            walk_parameters(inner, Parameters::new(inner), met);
        }
        Ok(Parameter::OutgoingSsnReset(reset)) => {
            assert_eq!(reset.streams.count() * 2 + 12, raw.value.len());
        }
        Ok(Parameter::IncomingSsnReset(reset)) => {
            assert_eq!(reset.streams.count() * 2 + 4, raw.value.len());
        }
        Ok(Parameter::Chunks(types) | Parameter::SupportedExtensions(types)) => {
            assert!(types.iter().all(|kind| types.contains(kind)));
            assert_eq!(types.iter().len(), raw.value.len());
        }
        Ok(Parameter::HmacAlgo(ids)) => assert_eq!(ids.count() * 2, raw.value.len()),
        Ok(Parameter::ErrorCauseIndication(indication)) => {
            walk_causes(whole, indication.causes, met);
        }
        Ok(
            Parameter::AddIpAddress(request)
            | Parameter::DeleteIpAddress(request)
            | Parameter::SetPrimaryAddress(request),
        ) => assert!(
            raw.value
                .starts_with(&request.correlation_id.0.to_be_bytes())
        ),
        Ok(_) => {}
        Err(error) => {
            assert!((raw.offset..=raw.offset + raw.bytes.len()).contains(&error.offset));
            met.errors += 1;
        }
    }
}

fn walk_causes(packet: &[u8], causes: Causes<'_>, met: &mut Met) {
    for raw in causes {
        let Ok(raw) = raw.inspect_err(|error| assert!(error.offset < packet.len(), "{error}"))
        else {
            met.errors += 1;
            return;
        };
        assert_lies_at(packet, raw.bytes, raw.offset);
        assert_lies_at(packet, raw.value, raw.offset + 4);
        met.causes.insert(raw.code.0);
        match Cause::parse(raw) {
            Ok(Cause::MissingParameters(types)) => {
                assert_eq!(types.count() * 2 + 4, raw.value.len());
            }
            Ok(
                Cause::UnrecognizedParameters(parameters)
                | Cause::RestartWithNewAddresses(parameters)
                | Cause::DeleteLastAddress(parameters)
                | Cause::ResourceShortage(parameters)
                | Cause::DeleteSourceAddress(parameters)
                | Cause::NoAuthorization(parameters),
            ) => walk_parameters(packet, parameters, met),
            Ok(Cause::UnresolvableAddress(inner)) => {
                walk_parameters(inner, Parameters::new(inner), met);
            }
            Ok(_) => {}
            Err(_) => met.errors += 1,
        }
    }
}

fn assert_lies_at(outer: &[u8], inner: &[u8], offset: usize) {
    let expected = outer
        .get(offset..offset + inner.len())
        .expect("a place in the packet");
    assert_eq!(
        expected.as_ptr_range(),
        inner.as_ptr_range(),
        "not at byte {offset}"
    );
}

fn assert_within(outer: &[u8], inner: &[u8]) {
    let (outer, inner) = (outer.as_ptr_range(), inner.as_ptr_range());
    assert!(
        outer.start <= inner.start && inner.end <= outer.end,
        "{inner:?} not in {outer:?}"
    );
}
