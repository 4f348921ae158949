//! Writes the seeds of the fuzz target `packet_parser`, one file for each chunk, parameter,
//! cause and way to be malformed:
//!
//! ```text
//! cargo run -p carrick-wire --example fuzz_seeds -- fuzz/corpus/packet_parser
//! ```

use std::net::IpAddr;
use std::process::ExitCode;
use std::{env, fs};

use carrick_wire::{
    AddStreams, AsconfSerial, CauseCode, CauseWriter, ChunkType, CommonHeader, CorrelationId,
    DataFlags, DataHeader, ErrorDetectionMethod, Fragment, Fsn, GapAckBlock, HmacId, IDataHeader,
    InitFields, Mid, NextTsns, PacketBuilder, ParameterType, ParameterWriter, Ppid,
    ReconfigResponse, ReconfigResult, ReconfigSerial, SharedKeyId, SkippedMessage, Ssn, StreamId,
    Tsn, VerificationTag,
};

const HEADER: CommonHeader = CommonHeader {
    source_port: 2905,
    destination_port: 2905,
    tag: VerificationTag(0x0102_0304),
};

const FIELDS: InitFields = InitFields {
    tag: VerificationTag(0x1122_3344),
    a_rwnd: 131_072,
    outbound_streams: 16,
    inbound_streams: 2048,
    initial_tsn: Tsn::new(0xffff_fff0),
};

const DATA: DataHeader = DataHeader {
    tsn: Tsn::new(0xffff_fff0),
    stream: StreamId(1),
    ssn: Ssn::new(7),
    ppid: Ppid(3),
    flags: DataFlags::WHOLE,
};

/// An unknown parameter, header included, with a length that needs padding.
const UNKNOWN_PARAMETER: [u8; 5] = [0xc1, 0x23, 0x00, 0x05, 0xaa];

/// A request to delete 192.0.2.1, which is refused.
const DELETE: [u8; 16] = [
    0xc0, 0x02, 0, 16, 0, 0, 0, 2, 0x00, 0x05, 0, 8, 192, 0, 2, 1,
];

/// The names and bytes of the seeds.
#[derive(Default)]
struct Seeds(Vec<(String, Vec<u8>)>);

impl Seeds {
    fn packet(&mut self, name: &str, fill: impl FnOnce(&mut PacketBuilder<'_>)) {
        let mut bytes = Vec::new();
        let mut builder = PacketBuilder::new(&mut bytes, HEADER, 1452);
        fill(&mut builder);
        builder.finish();
        self.0.push((name.to_owned(), bytes));
    }

    fn parameter(&mut self, name: &str, fill: impl FnOnce(&mut ParameterWriter<'_>)) {
        self.packet(&format!("parameter-{name}"), |packet| {
            packet.init(ChunkType::INIT_ACK, FIELDS, fill);
        });
    }

    fn cause(&mut self, name: &str, fill: impl FnOnce(&mut CauseWriter<'_>)) {
        self.packet(&format!("cause-{name}"), |packet| packet.abort(false, fill));
    }

    /// A packet with these bytes after the common header.
    fn malformed(&mut self, name: &str, chunks: &[u8]) {
        let header = [0x0b, 0x59, 0x0b, 0x59, 1, 2, 3, 4, 0, 0, 0, 0];
        self.0
            .push((format!("malformed-{name}"), [&header, chunks].concat()));
    }
}

fn chunks(seeds: &mut Seeds) {
    seeds.packet("data", |packet| packet.data(&DATA, b"hello"));
    seeds.packet("data-empty", |packet| packet.data(&DATA, b""));
    seeds.packet("data-fragments", |packet| {
        let flags = DataFlags {
            beginning: true,
            unordered: true,
            ..DataFlags::default()
        };
        packet.data(&DataHeader { flags, ..DATA }, b"frag");
        let flags = DataFlags {
            ending: true,
            immediate: true,
            unordered: true,
            ..flags
        };
        packet.data(
            &DataHeader {
                tsn: DATA.tsn.next(),
                flags,
                ..DATA
            },
            b"ment",
        );
    });
    seeds.packet("init", |packet| {
        packet.init(ChunkType::INIT, FIELDS, |_| ());
    });
    seeds.packet("sack", |packet| {
        let gaps = [
            GapAckBlock { start: 2, end: 3 },
            GapAckBlock { start: 5, end: 5 },
        ];
        packet.sack(
            Tsn::new(12),
            4660,
            gaps.into_iter(),
            [Tsn::new(10)].into_iter(),
        );
    });
    seeds.packet("heartbeat", |packet| packet.heartbeat(b"nonce-and-time"));
    seeds.packet("heartbeat-ack", |packet| {
        packet.heartbeat_ack(&[0, 1, 0, 7, 1, 2, 3, 0]);
    });
    seeds.packet("abort", |packet| packet.abort(true, |_| ()));
    seeds.packet("shutdown", |packet| packet.shutdown(Tsn::new(9)));
    seeds.packet("shutdown-ack", |packet| {
        packet.shutdown_ack();
    });
    seeds.packet("error", |packet| {
        packet.error(|causes| causes.stale_cookie(1000));
    });
    seeds.packet("cookie-echo-data", |packet| {
        packet.cookie_echo(b"a cookie of 23 bytes...");
        packet.data(&DATA, b"first");
    });
    seeds.packet("cookie-ack-sack", |packet| {
        packet.cookie_ack();
        packet.sack(Tsn::new(1), 0, [].into_iter(), [].into_iter());
    });
    seeds.packet("ecne-cwr", |packet| {
        packet.ecne(Tsn::new(1));
        packet.cwr(Tsn::new(1));
    });
    seeds.packet("shutdown-complete", |packet| packet.shutdown_complete(true));
    seeds.packet("unknown-chunks", |packet| {
        for kind in [0xff, 0xbf, 0x7f, 0x3f] {
            packet.raw(ChunkType(kind), 0xff, &[1, 2, 3]);
        }
    });
}

fn extension_chunks(seeds: &mut Seeds) {
    let i_data = IDataHeader {
        tsn: DATA.tsn,
        stream: StreamId(1),
        mid: Mid::new(7),
        fragment: Fragment::First(Ppid(3)),
        immediate: false,
        unordered: false,
        ending: false,
    };
    seeds.packet("i-data", |packet| {
        packet.i_data(&i_data, b"frag");
        let later = IDataHeader {
            tsn: DATA.tsn.next(),
            fragment: Fragment::Later(Fsn::new(1)),
            ending: true,
            ..i_data
        };
        packet.i_data(&later, b"ment");
    });
    seeds.packet("forward-tsn", |packet| {
        let skipped = [(StreamId(1), Ssn::new(7)), (StreamId(2), Ssn::new(0))];
        packet.forward_tsn(Tsn::new(9), skipped.into_iter());
    });
    seeds.packet("i-forward-tsn", |packet| {
        let skipped = [false, true].map(|unordered| SkippedMessage {
            stream: StreamId(1),
            unordered,
            mid: Mid::new(7),
        });
        packet.i_forward_tsn(Tsn::new(9), skipped.into_iter());
    });
    seeds.packet("nr-sack", |packet| {
        let gap = |start| [GapAckBlock { start, end: start }].into_iter();
        let duplicates = [Tsn::new(10)].into_iter();
        packet.nr_sack(Tsn::new(12), 4660, false, gap(2), gap(5), duplicates);
    });
    seeds.packet("pad", |packet| {
        packet.heartbeat(b"probe");
        packet.pad(43);
    });
}

/// The HMAC stands for one: the reader looks at its place, not at its value.
fn auth(seeds: &mut Seeds) {
    let mut bytes = Vec::new();
    let mut packet = PacketBuilder::new(&mut bytes, HEADER, 1452);
    let slot = packet.auth(SharedKeyId(1), HmacId::SHA_256, 32);
    packet.data(&DATA, b"authentic");
    packet.authenticate(slot, |_| [0x5a; 32]).finish();
    seeds.0.push(("auth-data".to_owned(), bytes));
    let mut bytes = Vec::new();
    let mut packet = PacketBuilder::new(&mut bytes, HEADER, 1452);
    let slot = packet.auth(SharedKeyId(0), HmacId::SHA_1, 20);
    packet.asconf(AsconfSerial::new(1), [192, 0, 2, 1].into(), |_| ());
    let packet = packet.authenticate(slot, |_| [0xa5; 20]);
    packet.finish_with_zero_checksum();
    seeds.0.push(("auth-asconf".to_owned(), bytes));
}

fn asconf(seeds: &mut Seeds) {
    let (v4, v6) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([0x20; 16]));
    let serial = AsconfSerial::new(0xffff_fff0);
    seeds.packet("asconf", |packet| {
        packet.asconf(serial, v4, |p| {
            p.add_ip_address(CorrelationId(1), v6);
            p.delete_ip_address(CorrelationId(2), v4);
            p.set_primary_address(CorrelationId(3), v6);
        });
    });
    seeds.packet("asconf-unknown", |packet| {
        packet.asconf(serial, v6, |p| {
            p.raw(ParameterType(0xc123), &[0, 0, 0, 1, 0xaa]);
            p.raw(ParameterType(0x8123), &[0]);
        });
    });
    seeds.packet("asconf-ack", |packet| {
        packet.asconf_ack(serial, |p| {
            p.success_indication(CorrelationId(1));
            p.error_cause_indication(CorrelationId(2), |causes| {
                causes.delete_last_address(&DELETE);
                causes.resource_shortage(&DELETE);
                causes.delete_source_address(&DELETE);
                causes.no_authorization(&DELETE);
            });
        });
    });
}

fn re_config(seeds: &mut Seeds) {
    let (request, response) = (ReconfigSerial::new(1), ReconfigSerial::new(2));
    let streams = [StreamId(1), StreamId(3), StreamId(5)];
    let answer = ReconfigResponse {
        response,
        result: ReconfigResult::PERFORMED,
        next_tsns: None,
    };
    seeds.packet("re-config-outgoing", |packet| {
        packet.re_config(|p| {
            p.outgoing_ssn_reset(request, response, Tsn::new(9), &streams);
            p.reconfig_response(answer);
        });
    });
    seeds.packet("re-config-incoming", |packet| {
        packet.re_config(|p| p.incoming_ssn_reset(request, &streams));
        packet.re_config(|p| p.incoming_ssn_reset(request, &[]));
    });
    seeds.packet("re-config-tsn", |packet| {
        packet.re_config(|p| p.ssn_tsn_reset(request));
        packet.re_config(|p| {
            let next_tsns = Some(NextTsns {
                sender: Tsn::new(1),
                receiver: Tsn::new(2),
            });
            p.reconfig_response(ReconfigResponse {
                next_tsns,
                ..answer
            });
        });
    });
    seeds.packet("re-config-add", |packet| {
        packet.re_config(|p| {
            p.add_outgoing_streams(AddStreams { request, count: 5 });
            p.add_incoming_streams(AddStreams { request, count: 6 });
        });
    });
}

fn extension_parameters(seeds: &mut Seeds) {
    seeds.parameter("extensions", |p| {
        p.supported_extensions(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK, ChunkType::AUTH]);
        p.forward_tsn_supported();
        p.adaptation_layer_indication(7);
        p.zero_checksum_acceptable(ErrorDetectionMethod::DTLS);
        p.set_primary_address(CorrelationId(1), [192, 0, 2, 1].into());
    });
    seeds.parameter("auth", |p| {
        p.random(&[0x77; 32]);
        p.chunks(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK, ChunkType::DATA]);
        p.hmac_algo(&[HmacId::SHA_256, HmacId::SHA_1]);
    });
    seeds.parameter("padding", |p| p.padding(9));
    seeds.parameter("wrong-lengths-of-extensions", |p| {
        for kind in (13..=18).chain([0x8001, 0x8004]).chain(0xc000..=0xc006) {
            p.raw(ParameterType(kind), &[1]);
        }
        p.raw(ParameterType::ADD_IP_ADDRESS, &[0, 0, 0, 1]);
        p.raw(
            ParameterType::ADD_IP_ADDRESS,
            &[0, 0, 0, 1, 0, 5, 0, 9, 1, 2, 3, 4],
        );
        p.raw(ParameterType::RECONFIG_RESPONSE, &[0; 12]);
    });
}

fn parameters(seeds: &mut Seeds) {
    seeds.parameter("ipv4", |p| p.ip_address([192, 0, 2, 1].into()));
    seeds.parameter("ipv6", |p| p.ip_address([0x20; 16].into()));
    seeds.parameter("state-cookie", |p| p.state_cookie(b"cookie"));
    seeds.parameter("unrecognized", |p| p.unrecognized(&UNKNOWN_PARAMETER));
    seeds.parameter("cookie-preservative", |p| p.cookie_preservative(1000));
    seeds.parameter("host-name", |p| {
        p.raw(ParameterType::HOST_NAME_ADDRESS, b"a.example\0");
    });
    seeds.parameter("address-types", |p| p.supported_address_types(&[5, 6]));
    seeds.parameter("ecn", |p| p.ecn_capable());
    seeds.parameter("unknown", |p| {
        p.raw(ParameterType(0xc123), &[]);
        p.raw(ParameterType(0x8123), &[0xc1, 0x80]);
        p.raw(ParameterType(0x4001), &[1]);
        p.raw(ParameterType(0x3fff), &[1, 2, 3]);
    });
    seeds.parameter("wrong-lengths", |p| {
        p.raw(ParameterType::IPV4_ADDRESS, &[1, 2, 3]);
        p.raw(ParameterType::IPV6_ADDRESS, &[1, 2, 3, 4]);
        p.raw(ParameterType::COOKIE_PRESERVATIVE, &[]);
        p.raw(ParameterType::SUPPORTED_ADDRESS_TYPES, &[0, 5, 0]);
        p.raw(ParameterType::ECN_CAPABLE, &[1]);
    });
}

fn causes(seeds: &mut Seeds) {
    seeds.cause("invalid-stream", |c| c.invalid_stream(StreamId(9)));
    seeds.cause("missing-parameters", |c| {
        c.missing_parameters(&[ParameterType::STATE_COOKIE, ParameterType::IPV4_ADDRESS]);
    });
    seeds.cause("stale-cookie", |c| c.stale_cookie(1_000_000));
    seeds.cause("out-of-resource", |c| {
        c.out_of_resource();
    });
    seeds.cause("unresolvable-address", |c| {
        c.unresolvable_address(&[0, 11, 0, 6, b'a', 0]);
    });
    seeds.cause("unrecognized-chunk", |c| {
        c.unrecognized_chunk(&[0xc1, 0, 0, 6, 1, 2]);
    });
    seeds.cause("invalid-mandatory-parameter", |c| {
        c.invalid_mandatory_parameter();
    });
    seeds.cause("unrecognized-parameters", |c| {
        c.unrecognized_parameters(&UNKNOWN_PARAMETER);
    });
    seeds.cause("no-user-data", |c| c.no_user_data(DATA.tsn));
    seeds.cause("cookie-while-shutting-down", |c| {
        c.cookie_while_shutting_down();
    });
    seeds.cause("restart-with-new-addresses", |c| {
        c.restart_with_new_addresses(&[[192, 0, 2, 9].into(), [0x20; 16].into()]);
    });
    seeds.cause("user-initiated-abort", |c| c.user_initiated_abort(b"bye"));
    seeds.cause("protocol-violation", |c| c.protocol_violation(b"why"));
    seeds.cause("delete-last-address", |c| c.delete_last_address(&DELETE));
    seeds.cause("resource-shortage", |c| c.resource_shortage(&DELETE));
    seeds.cause("delete-source-address", |c| {
        c.delete_source_address(&DELETE);
    });
    seeds.cause("illegal-asconf-ack", |c| {
        c.illegal_asconf_ack();
    });
    seeds.cause("no-authorization", |c| c.no_authorization(&DELETE));
    seeds.cause("unsupported-hmac-id", |c| {
        c.unsupported_hmac_id(HmacId(2));
    });
    seeds.cause("unknown", |c| c.raw(CauseCode(14), &[1]));
    seeds.cause("wrong-lengths", |c| {
        c.raw(CauseCode::INVALID_STREAM, &[0, 1]);
        c.raw(
            CauseCode::MISSING_PARAMETERS,
            &[0xff, 0xff, 0xff, 0xff, 0, 7],
        );
        c.raw(CauseCode::OUT_OF_RESOURCE, &[1]);
        c.raw(CauseCode::NO_USER_DATA, &[]);
        c.raw(CauseCode::ILLEGAL_ASCONF_ACK, &[1]);
        c.raw(CauseCode::UNSUPPORTED_HMAC_ID, &[1]);
    });
}

fn malformed(seeds: &mut Seeds) {
    seeds.malformed("no-chunk", &[]);
    seeds.malformed("zero-length-chunk", &[11, 0, 0, 4, 0, 3, 0, 0]);
    seeds.malformed("chunk-past-end", &[10, 0, 0xff, 0xff, 1, 2, 3, 4]);
    seeds.malformed("half-chunk-header", &[11, 0, 0, 4, 11, 0]);
    seeds.malformed("missing-padding", &[10, 0, 0, 5, 0xaa]);
    seeds.malformed(
        "short-data",
        &[0, 3, 0, 15, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    seeds.malformed("short-init", &[1, 0, 0, 8, 1, 2, 3, 4]);
    let sack = [3, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    seeds.malformed("sack-counts", &sack);
    seeds.malformed("heartbeat-without-info", &[4, 0, 0, 4]);
    seeds.malformed("heartbeat-info-past-end", &[4, 0, 0, 8, 0, 1, 0, 9]);
    seeds.malformed("zero-length-cause", &[9, 0, 0, 8, 0, 1, 0, 0]);
    seeds.malformed("nested-past-end", &[9, 0, 0, 12, 0, 11, 0, 8, 0, 5, 0, 8]);
    seeds.malformed("short-i-data", &[64, 3, 0, 8, 0, 0, 0, 1]);
    seeds.malformed("half-forward-tsn", &[192, 0, 0, 10, 0, 0, 0, 1, 0, 1, 0, 0]);
    let half = [194, 0, 0, 12, 0, 0, 0, 1, 0, 1, 0, 1];
    seeds.malformed("half-i-forward-tsn", &half);
    seeds.malformed("short-auth", &[15, 0, 0, 7, 0, 0, 0, 0]);
    let mut nr_sack = [0; 20];
    nr_sack[..4].copy_from_slice(&[16, 0, 0, 20]);
    nr_sack[12..18].fill(0xff);
    seeds.malformed("nr-sack-counts", &nr_sack);
    seeds.malformed("asconf-without-address", &[193, 0, 0, 8, 0, 0, 0, 1]);
    let asconf = [193, 0, 0, 16, 0, 0, 0, 1, 0, 5, 0, 80, 1, 2, 3, 4];
    seeds.malformed("asconf-address-past-end", &asconf);
    seeds.malformed("short-asconf-ack", &[128, 0, 0, 6, 0, 0, 0, 0]);
    let re_config = [130, 0, 0, 12, 0, 14, 0, 9, 0, 0, 0, 1];
    seeds.malformed("re-config-past-end", &re_config);
    seeds.malformed("short-ecne", &[12, 0, 0, 4, 13, 0, 0, 6, 0, 0, 0, 0]);
    seeds.malformed("long-shutdown", &[7, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2]);
}

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1) else {
        eprintln!("no folder given: name the folder to which the seeds are written");
        return ExitCode::FAILURE;
    };
    let mut seeds = Seeds::default();
    let all = [
        chunks,
        extension_chunks,
        auth,
        asconf,
        re_config,
        parameters,
        extension_parameters,
        causes,
        malformed,
    ];
    for add in all {
        add(&mut seeds);
    }
    let folder = std::path::Path::new(&folder);
    for (name, bytes) in &seeds.0 {
        if let Err(error) = fs::write(folder.join(name), bytes) {
            eprintln!(
                "cannot write to {}: {error}; create the folder first",
                folder.display()
            );
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
