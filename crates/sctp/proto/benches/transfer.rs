//! In-memory transfer between two endpoints, and set-ups.

#[path = "support/bulk.rs"]
mod bulk;
mod support;

use std::sync::Arc;

use bytes::Bytes;
use carrick_proto::AssociationConfig;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use support::Memory;

fn config() -> AssociationConfig {
    AssociationConfig::rfc9260().with(|c| {
        c.buffers.receive_buffer = 4 << 20;
        c.buffers.send_buffer = 4 << 20;
    })
}

fn data(c: &mut Criterion) {
    let mut group = c.benchmark_group("transfer");
    // The payload that fills a packet of 1500 bytes; and messages of 64 KiB in 46 chunks.
    for (name, size, count) in [
        ("full-packets", 1452, 20_000),
        ("64KiB-messages", 65_536, 500),
        ("100-byte-messages", 100, 20_000),
    ] {
        let config = Arc::new(config());
        let mut memory = Memory::new(&config);
        let (a, b) = memory.connect(&config);
        let message = Bytes::from(vec![7; size]);
        let before = memory.ends[0]
            .association(a)
            .expect("open")
            .stats()
            .counters
            .data_chunks_sent;
        bulk::transfer(&mut memory, a, b, &message, count);
        let chunks = memory.ends[0]
            .association(a)
            .expect("open")
            .stats()
            .counters
            .data_chunks_sent
            - before;
        group.throughput(Throughput::Elements(chunks));
        group.bench_function(name, |bench| {
            bench.iter(|| bulk::transfer(&mut memory, a, b, &message, count))
        });
    }
    group.finish();
}

fn set_up(c: &mut Criterion) {
    let config = Arc::new(config());
    let mut group = c.benchmark_group("set-up");
    group.throughput(Throughput::Elements(1));
    let mut memory = Memory::new(&config);
    group.bench_function("established-and-aborted", |bench| {
        bench.iter(|| bulk::set_up_and_abort(&mut memory, &config));
    });
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = data, set_up }
criterion_main!(benches);
