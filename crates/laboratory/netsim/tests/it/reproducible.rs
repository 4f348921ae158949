//! One seed determines every event, and every packet is accounted for.

use crate::common;

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use carrick_netsim::traffic::{
    DurationDistribution, Pattern, TrafficSink, TrafficSource, TrafficStream,
};
use carrick_netsim::{
    Change, Direction, GilbertElliott, Jitter, LinkConfig, LinkId, Loss, Network, NetworkBuilder,
    NodeId, Queue, Random, Reorder, Time,
};
use common::with_seed;

const MS: Duration = Duration::from_millis(1);

/// Returns a link with every impairment.
fn hostile(random: &mut Random) -> LinkConfig {
    LinkConfig {
        queue: Queue::packets(3 + random.below(20) as usize),
        loss: Loss::GilbertElliott(GilbertElliott::bursts(0.05, 3.0)),
        jitter: Jitter::Normal {
            standard_deviation: 2 * MS,
        },
        jitter_overtakes: random.chance(0.5),
        reorder: Some(Reorder {
            probability: 0.05,
            extra_delay: 7 * MS,
        }),
        duplicate: 0.05,
        corrupt: 0.05,
        mtu: Some(1200),
        ..LinkConfig::new(
            1_000_000 + random.below(4_000_000),
            random.duration_up_to(20 * MS),
        )
    }
}

/// A chain of routers with a source and a sink at each end.
struct Chain {
    net: Network,
    links: Vec<LinkId>,
    hosts: [NodeId; 2],
}

fn chain(seed: u64, routers: usize) -> Chain {
    let mut random = Random::new(seed, 0);
    let mut builder = NetworkBuilder::new(seed);
    let hosts = ["left", "right"].map(|name| builder.add_host(name));
    let addresses = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let mut links = Vec::new();
    let mut near = builder.add_interface(hosts[0], [addresses[0]]);
    for n in 0..routers {
        let router = builder.add_router(format!("r{n}"));
        let far = builder.add_interface(router, []);
        links.push(builder.connect(near, far, hostile(&mut random), hostile(&mut random)));
        near = builder.add_interface(router, []);
    }
    let far = builder.add_interface(hosts[1], [addresses[1]]);
    links.push(builder.connect(near, far, hostile(&mut random), hostile(&mut random)));

    let bursts = Pattern::OnOff {
        rate: 4_000_000,
        on: DurationDistribution::Pareto {
            mean: 100 * MS,
            shape: 1.5,
        },
        off: DurationDistribution::Exponential(200 * MS),
    };
    let stream = |flow, wire_len, pattern| TrafficStream {
        flow,
        stop: Time::from_secs(3),
        ..TrafficStream::new(addresses[0], addresses[1], wire_len, pattern)
    };
    let streams = [
        stream(1, 500, Pattern::Poisson { rate: 800_000 }),
        stream(2, 1100, bursts),
        stream(3, 1300, Pattern::Constant { rate: 50_000 }),
    ];
    let source = TrafficSource::new(streams, builder.node_random(hosts[0])).expect("valid streams");
    builder.set_node_program(hosts[0], Box::new(source));
    builder.set_node_program(hosts[1], Box::new(TrafficSink::new()));
    let net = builder.build().expect("a valid network");
    Chain { net, links, hosts }
}

/// Returns a hash of every step of every packet.
fn trace_hash(seed: u64) -> u64 {
    let mut world = chain(seed, 2);
    let hasher = Rc::new(RefCell::new(DefaultHasher::new()));
    let sink = Rc::clone(&hasher);
    world.net.set_tracer(move |event| {
        let mut hasher = sink.borrow_mut();
        (event.time, event.place, event.step).hash(&mut *hasher);
        event.packet.payload.hash(&mut *hasher);
    });
    world.net.run_while(|_| true);
    assert!(world.net.now() > Time::from_secs(2));
    hasher.borrow().finish()
}

#[test]
fn traces_are_equal_for_equal_seeds_only() {
    assert_eq!(trace_hash(1), trace_hash(1));
    assert_ne!(trace_hash(1), trace_hash(2));
}

#[test]
fn losses_of_a_link_do_not_depend_on_other_links() {
    // Two links of one host; the first differs, the second must lose the same packets.
    let lost_on_second = |first: LinkConfig| {
        let mut builder = NetworkBuilder::new(9);
        let a = builder.add_host("a");
        let b = builder.add_host("b");
        let second = LinkConfig::delay(MS).with_loss(Loss::Random(0.3));
        let links = [first, second].map(|config| {
            let n = if config.delay == MS { 2 } else { 1 };
            let near = builder.add_interface(a, [[10, n, 0, 1].into()]);
            let far = builder.add_interface(b, [[10, n, 0, 2].into()]);
            builder.connect_both(near, far, config)
        });
        let streams = [1, 2].map(|n| TrafficStream {
            flow: u32::from(n),
            stop: Time::from_secs(1),
            ..TrafficStream::new(
                [10, n, 0, 1].into(),
                [10, n, 0, 2].into(),
                1000,
                Pattern::Constant { rate: 8_000_000 },
            )
        });
        let source = TrafficSource::new(streams, builder.node_random(a)).expect("valid streams");
        builder.set_node_program(a, Box::new(source));
        builder.set_node_program(b, Box::new(TrafficSink::new()));
        let mut net = builder.build().expect("a valid network");
        let lost = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&lost);
        let on_second = carrick_netsim::TracePlace::Link(links[1], Direction::Forward);
        net.set_tracer(move |event| {
            if event.place == on_second
                && matches!(event.step, carrick_netsim::TraceStep::Dropped(_))
            {
                sink.borrow_mut().push(event.packet.payload.slice(..8));
            }
        });
        net.run_while(|_| true);
        lost.take()
    };
    let calm = lost_on_second(LinkConfig::default());
    let rough = lost_on_second(LinkConfig::default().with_loss(Loss::Random(0.5)));
    assert!((200..400).contains(&calm.len()));
    assert_eq!(calm, rough);
}

#[test]
fn every_packet_is_accounted_for_at_every_moment() {
    for seed in 0..20 {
        with_seed(seed, |seed| {
            let mut world = chain(seed, (seed % 4) as usize);
            let cut = world.links[0];
            let at = [Time::from_millis(900), Time::from_millis(1400)];
            world.net.at(at[0], Change::LinkDown(cut)).expect("ahead");
            world.net.at(at[1], Change::LinkUp(cut)).expect("ahead");
            let balanced = |net: &Network, links: &[LinkId]| {
                for link in links {
                    for direction in [Direction::Forward, Direction::Backward] {
                        let stats = net.link_stats(*link, direction);
                        let gone = stats.packets_delivered + stats.dropped();
                        let flows = |count: fn(&carrick_netsim::FlowStats) -> u64| {
                            stats.flows.iter().map(count).sum::<u64>()
                        };
                        assert_eq!(
                            stats.packets_in + stats.duplicated,
                            gone + stats.packets_inside,
                            "{stats:?}"
                        );
                        assert_eq!(flows(|flow| flow.packets_in), stats.packets_in);
                        assert_eq!(flows(|flow| flow.bytes_in), stats.bytes_in);
                        assert_eq!(
                            flows(|flow| flow.packets_delivered),
                            stats.packets_delivered
                        );
                        assert_eq!(flows(|flow| flow.bytes_delivered), stats.bytes_delivered);
                        assert_eq!(flows(|flow| flow.packets_dropped), stats.dropped());
                    }
                }
            };
            while let Some(now) = world.net.step() {
                if now.as_nanos().is_multiple_of(64) {
                    balanced(&world.net, &world.links);
                }
            }
            balanced(&world.net, &world.links);
            let first = world.net.link_stats(world.links[0], Direction::Forward);
            assert_eq!(first.packets_inside, 0, "the network is idle");
            assert!(first.dropped_down > 0 && first.dropped_loss > 0 && first.dropped_mtu > 0);
            let sent = world.net.node::<TrafficSource>(world.hosts[0]).sent();
            assert_eq!(first.packets_in, sent);
            let last = world.links[world.links.len() - 1];
            let delivered = world
                .net
                .link_stats(last, Direction::Forward)
                .packets_delivered;
            assert_eq!(world.net.node_stats(world.hosts[1]).received, delivered);
        });
    }
}
