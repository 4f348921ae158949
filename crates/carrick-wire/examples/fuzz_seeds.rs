//! Writes the seeds of the fuzz target `packet_parser`, one file for each chunk, parameter,
//! cause and way to be malformed:
//!
//! ```text
//! cargo run -p carrick-wire --example fuzz_seeds -- fuzz/corpus/packet_parser
//! ```

use std::process::ExitCode;
use std::{env, fs};

use carrick_wire::{
    CauseCode, CauseWriter, ChunkType, CommonHeader, DataFlags, DataHeader, GapAckBlock,
    InitFields, PacketBuilder, ParameterType, ParameterWriter, Ppid, Ssn, StreamId, Tsn,
    VerificationTag,
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
const UNKNOWN_PARAMETER: [u8; 5] = [0xc0, 0x01, 0x00, 0x05, 0xaa];

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
        packet.raw(ChunkType::ECNE, 0, &[0, 0, 0, 1]);
        packet.raw(ChunkType::CWR, 0, &[0, 0, 0, 1]);
    });
    seeds.packet("shutdown-complete", |packet| packet.shutdown_complete(true));
    seeds.packet("unknown-chunks", |packet| {
        for kind in [0xc1, 0x80, 0x40, 0x3f] {
            packet.raw(ChunkType(kind), 0xff, &[1, 2, 3]);
        }
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
    seeds.parameter("ecn", |p| p.raw(ParameterType::ECN_CAPABLE, &[]));
    seeds.parameter("unknown", |p| {
        p.raw(ParameterType(0xc000), &[]);
        p.raw(ParameterType(0x8008), &[0xc1, 0x80]);
        p.raw(ParameterType(0x4001), &[1]);
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
    seeds.cause("unknown", |c| c.raw(CauseCode(14), &[1]));
    seeds.cause("wrong-lengths", |c| {
        c.raw(CauseCode::INVALID_STREAM, &[0, 1]);
        c.raw(
            CauseCode::MISSING_PARAMETERS,
            &[0xff, 0xff, 0xff, 0xff, 0, 7],
        );
        c.raw(CauseCode::OUT_OF_RESOURCE, &[1]);
        c.raw(CauseCode::NO_USER_DATA, &[]);
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
    seeds.malformed("long-shutdown", &[7, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2]);
}

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1) else {
        eprintln!("the caller gave no folder: name the one that the seeds go to");
        return ExitCode::FAILURE;
    };
    let mut seeds = Seeds::default();
    for add in [chunks, parameters, causes, malformed] {
        add(&mut seeds);
    }
    let folder = std::path::Path::new(&folder);
    for (name, bytes) in &seeds.0 {
        if let Err(error) = fs::write(folder.join(name), bytes) {
            eprintln!(
                "cannot write to {}: {error}: does it exist?",
                folder.display()
            );
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
