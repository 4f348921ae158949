//! Packets per second from host to host through a router, two flows, each hop with rate and delay.
//!
//! Each packet causes four events: transmission and arrival on two links.

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use carrick_netsim::{
    InterfaceId, LinkConfig, Network, NetworkBuilder, Node, NodeId, Outbox, Packet, Protocol,
    Queue, Time,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const PACKETS: u64 = 100_000;
const RATE: u64 = 10_000_000_000;
/// Interval at which 1000-byte packets of both flows load the link to 80 %.
const INTERVAL: Duration = Duration::from_micros(2);

/// Sends packets of one flow at a constant interval.
struct TrafficSource {
    next: Time,
    left: u64,
    packet: Packet,
}

impl Node for TrafficSource {
    fn handle_packet(&mut self, _: Time, _: InterfaceId, _: Packet, _: &mut Outbox) {}

    fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        out.send(self.packet.clone());
        self.left -= 1;
        self.next = now + INTERVAL;
    }

    fn next_timeout(&self) -> Option<Time> {
        (self.left > 0).then_some(self.next)
    }
}

#[derive(Default)]
struct TrafficSink {
    packets: u64,
}

impl Node for TrafficSink {
    fn handle_packet(&mut self, _: Time, _: InterfaceId, packet: Packet, _: &mut Outbox) {
        self.packets += u64::from(!packet.payload.is_empty());
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Outbox) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }
}

fn network() -> (Network, NodeId) {
    let mut builder = NetworkBuilder::new(1);
    let router = builder.add_router("router");
    let sink = builder.add_host("sink");
    let sink_address = [10, 9, 0, 1].into();
    let link = LinkConfig::new(RATE, Duration::from_millis(1)).with_queue(Queue::packets(1000));
    for flow in 0..2_u8 {
        let host = builder.add_host(format!("source{flow}"));
        let address = [10, flow, 0, 1].into();
        let interface = builder.add_interface(host, [address]);
        let port = builder.add_interface(router, []);
        builder.connect_both(interface, port, link.clone());
        let payload = Bytes::from(vec![0; 980]);
        let packet = Packet::new(address, sink_address, Protocol::Sctp, payload);
        builder.set_node_program(
            host,
            Box::new(TrafficSource {
                next: Time::from_nanos(u64::from(flow) * 1_000),
                left: PACKETS / 2,
                packet: packet.with_flow(u32::from(flow)),
            }),
        );
    }
    let interface = builder.add_interface(sink, [sink_address]);
    let port = builder.add_interface(router, []);
    builder.connect_both(port, interface, link);
    builder.set_node_program(sink, Box::new(TrafficSink::default()));
    (builder.build().expect("a valid network"), sink)
}

fn forward(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("forward");
    group.throughput(Throughput::Elements(PACKETS));
    group.sample_size(20);
    group.bench_function("host-router-host", |bencher| {
        bencher.iter_batched(
            network,
            |(mut net, sink)| {
                net.run_while(|_| true);
                assert_eq!(net.node::<TrafficSink>(sink).packets, PACKETS);
                black_box(net.now())
            },
            criterion::BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, forward);
criterion_main!(benches);
