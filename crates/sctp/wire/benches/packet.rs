//! Cost of a packet: building and parsing a full DATA packet and a SACK, and the checksum alone.

use std::hint::black_box;

use carrick_wire::{
    Chunk, CommonHeader, DATA_HEADER_LEN, DataFlags, DataHeader, GapAckBlock, Packet,
    PacketBuilder, Ppid, Ssn, StreamId, Tsn, VerificationTag, crc32c,
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// IPv4 payload of an Ethernet frame less a UDP header, for RFC 6951.
const PACKET_LEN: usize = 1452;
const PAYLOAD_LEN: usize = PACKET_LEN - 12 - DATA_HEADER_LEN;

const HEADER: CommonHeader = CommonHeader {
    source_port: 2905,
    destination_port: 2905,
    tag: VerificationTag(0x0102_0304),
};

const DATA: DataHeader = DataHeader {
    tsn: Tsn::new(1),
    stream: StreamId(1),
    ssn: Ssn::new(1),
    ppid: Ppid(3),
    flags: DataFlags::WHOLE,
};

fn build(buf: &mut Vec<u8>, fill: impl FnOnce(&mut PacketBuilder<'_>)) -> usize {
    buf.clear();
    let mut builder = PacketBuilder::new(buf, HEADER, PACKET_LEN);
    fill(&mut builder);
    builder.finish()
}

fn gaps() -> impl Iterator<Item = GapAckBlock> {
    (1..=20).map(|i| GapAckBlock {
        start: 4 * i,
        end: 4 * i + 1,
    })
}

fn data(c: &mut Criterion) {
    let mut group = c.benchmark_group("data packet");
    group.throughput(Throughput::Bytes(PACKET_LEN as u64));
    let payload = [0x5a; PAYLOAD_LEN];
    let mut buf = Vec::with_capacity(PACKET_LEN);
    group.bench_function("build", |b| {
        b.iter(|| {
            build(&mut buf, |packet| {
                packet.data(black_box(&DATA), black_box(&payload));
            })
        });
    });
    let bytes = buf.clone();
    group.bench_function("parse", |b| b.iter(|| parse(black_box(&bytes))));
    group.bench_function("check and parse", |b| {
        b.iter(|| {
            let packet = Packet::parse(black_box(&bytes)).ok()?;
            packet.checksum_is_valid().then(|| parse(&bytes))
        });
    });
    group.finish();
}

fn parse(bytes: &[u8]) -> usize {
    let chunks = Packet::parse(bytes)
        .map(|packet| packet.chunks())
        .into_iter()
        .flatten();
    let parsed = chunks.flatten().filter_map(|raw| Chunk::parse(raw).ok());
    parsed
        .map(|chunk| match chunk {
            Chunk::Data(data) => data.payload.len(),
            Chunk::Sack(sack) => sack
                .gap_ack_blocks()
                .map(|gap| usize::from(gap.end - gap.start))
                .sum(),
            _ => 0,
        })
        .sum()
}

fn sack(c: &mut Criterion) {
    let mut group = c.benchmark_group("sack of 20 gaps");
    let mut buf = Vec::with_capacity(PACKET_LEN);
    group.bench_function("build", |b| {
        b.iter(|| {
            build(&mut buf, |packet| {
                packet.sack(Tsn::new(7), 65_536, gaps(), [].into_iter());
            })
        });
    });
    let bytes = buf.clone();
    group.bench_function("parse", |b| b.iter(|| parse(black_box(&bytes))));
    group.finish();
}

fn checksum(c: &mut Criterion) {
    let mut group = c.benchmark_group("crc32c");
    for length in [100, PACKET_LEN, 9000] {
        let bytes = vec![0x5a; length];
        group.throughput(Throughput::Bytes(length as u64));
        group.bench_function(BenchmarkId::from_parameter(length), |b| {
            b.iter(|| crc32c(black_box(&bytes)));
        });
    }
    group.finish();
}

criterion_group!(benches, data, sack, checksum);
criterion_main!(benches);
