//! Random networks that lose, delay, duplicate and damage packets.

use std::time::Duration;

use carrick_hosts::tcp::{TcpConfig, TcpCongestion};
use carrick_netsim::{Jitter, LinkConfig, Loss, Queue, Random, Reorder};

use super::support::hosts;

fn random_link(random: &mut Random) -> LinkConfig {
    let rate = 100_000 << random.below(10);
    let delay = random.duration_up_to(Duration::from_millis(200));
    let queue = Queue::packets(5 + random.below(100) as usize);
    let mut link = LinkConfig::new(rate, delay).with_queue(queue);
    if random.chance(0.8) {
        link.loss = Loss::Random(0.12 * random.uniform());
    }
    if random.chance(0.3) {
        link.duplicate = 0.1 * random.uniform();
    }
    if random.chance(0.3) {
        link.corrupt = 0.02 * random.uniform();
    }
    if random.chance(0.3) {
        link.jitter = Jitter::Uniform(random.duration_up_to(Duration::from_millis(30)));
    }
    if random.chance(0.3) {
        link.reorder = Some(Reorder {
            probability: 0.1 * random.uniform(),
            extra_delay: random.duration_up_to(Duration::from_millis(100)),
        });
    }
    link
}

fn random_config(random: &mut Random, config: &mut TcpConfig) {
    config.sack = random.chance(0.8);
    config.nagle = random.chance(0.5);
    config.mtu = 576 + random.below(1000) as usize;
    config.receive_buffer = 1024 << random.below(9);
    config.send_buffer = 1024 << random.below(9);
    if random.chance(0.2) {
        config.congestion = TcpCongestion::Cubic;
    }
    config.ack_delay = random
        .chance(0.8)
        .then(|| random.duration_up_to(Duration::from_millis(500)));
}

/// RFC 9293, section 3.8: bytes arrive once, in order and unchanged
#[test]
fn random_worlds_deliver_every_byte_in_order() {
    for seed in 0..400 {
        let mut random = Random::new(seed, 99);
        let links = [(); 2].map(|()| random_link(&mut random));
        let configs = [(); 2].map(|()| {
            let mut config = TcpConfig::new("10.0.0.1".parse().expect("an address"), 0);
            random_config(&mut random, &mut config);
            config
        });
        let bytes = [(); 2].map(|()| {
            if random.chance(0.7) {
                random.below(100_000) as usize
            } else {
                0
            }
        });
        let change = |end: usize, config: &mut TcpConfig| {
            *config = TcpConfig {
                address: config.address,
                seed: config.seed,
                ..configs[end]
            };
        };
        let hosts = hosts(
            ["10.0.0.1", "10.0.0.2"],
            [&links[0], &links[1]],
            seed,
            change,
            bytes,
        );
        let outcome = hosts.run_for(Duration::from_secs(5000));
        assert_eq!(
            [outcome.received, outcome.returned],
            bytes,
            "seed {seed}: {configs:?} {links:?}"
        );
        assert!(outcome.is_acknowledged, "seed {seed}");
    }
}
