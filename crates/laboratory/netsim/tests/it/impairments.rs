//! Loss, jitter, reordering, duplication, corruption and marking: counts and order.

use crate::common;

use std::collections::BTreeSet;
use std::time::Duration;

use carrick_netsim::{
    Ecn, GilbertElliott, Jitter, LinkConfig, Loss, Queue, QueueLimit, QueueManagement, Red,
    Reorder, Time,
};
use common::{Pair, Recorder, numbered, with_seed};

const MS: Duration = Duration::from_millis(1);

fn is_sorted(numbers: &[u32]) -> bool {
    numbers.windows(2).all(|pair| pair[0] < pair[1])
}

#[test]
fn listed_packets_are_lost_after_the_queue() {
    let config = LinkConfig::new(1_000_000, Duration::ZERO).with_loss(Loss::List(vec![2, 4]));
    let mut pair = Pair::stream(1, config, 5, 1000, Duration::ZERO);
    pair.run();
    assert_eq!(pair.receiver().numbers(), [1, 3, 5]);
    // A lost packet occupies the link for its transmission time.
    assert_eq!(pair.receiver().times(), [8_000_000, 24_000_000, 40_000_000]);
    assert_eq!(pair.stats().dropped_loss, 2);
}

#[test]
fn random_loss_has_its_rate() {
    with_seed(0xA110, |seed| {
        let config = LinkConfig::default().with_loss(Loss::Random(0.2));
        let mut pair = Pair::stream(seed, config, 10_000, 100, MS);
        pair.run();
        // Four standard deviations: 4·√(10000·0.2·0.8) = 160.
        let lost = pair.stats().dropped_loss;
        assert!((1840..=2160).contains(&lost), "{lost}");
        assert_eq!(pair.receiver().received.len() as u64 + lost, 10_000);
    });
}

#[test]
fn loss_bursts_have_their_mean_length() {
    with_seed(0xB0B5, |seed| {
        let model = GilbertElliott::bursts(0.1, 8.0);
        let config = LinkConfig::default().with_loss(Loss::GilbertElliott(model));
        let mut pair = Pair::stream(seed, config, 50_000, 100, MS);
        pair.run();
        let numbers = pair.receiver().numbers();
        let gaps = numbers.windows(2).filter(|pair| pair[1] > pair[0] + 1);
        let mean = pair.stats().dropped_loss as f64 / gaps.count() as f64;
        assert!((mean - 8.0).abs() < 1.0, "mean burst {mean}");
    });
}

#[test]
fn jitter_reorders_only_if_configured() {
    with_seed(77, |seed| {
        let keeping = LinkConfig {
            jitter: Jitter::Uniform(10 * MS),
            ..LinkConfig::delay(20 * MS)
        };
        let overtaking = LinkConfig {
            jitter_overtakes: true,
            ..keeping.clone()
        };
        let mut kept = Pair::stream(seed, keeping, 2_000, 100, MS);
        kept.run();
        assert_eq!(kept.receiver().received.len(), 2_000);
        assert!(is_sorted(&kept.receiver().numbers()));
        assert_eq!(kept.stats().reordered, 0);

        let mut mixed = Pair::stream(seed, overtaking, 2_000, 100, MS);
        mixed.run();
        assert_eq!(mixed.receiver().received.len(), 2_000);
        assert!(!is_sorted(&mixed.receiver().numbers()));
        for (time, _, packet) in &mixed.receiver().received {
            let number = u32::from_be_bytes(packet.payload[..4].try_into().expect("four bytes"));
            let delay = *time - (Time::ZERO + MS * (number - 1));
            assert!((20 * MS..=30 * MS).contains(&delay), "{delay:?}");
        }
        let mut highest = 0;
        let late = mixed.receiver().numbers().into_iter().filter(|number| {
            let is_late = *number < highest;
            highest = highest.max(*number);
            is_late
        });
        assert_eq!(mixed.stats().reordered, late.count() as u64);
    });
}

#[test]
fn normal_jitter_has_its_standard_deviation() {
    with_seed(78, |seed| {
        let config = LinkConfig {
            jitter: Jitter::Normal {
                standard_deviation: 4 * MS,
            },
            jitter_overtakes: true,
            ..LinkConfig::delay(20 * MS)
        };
        let mut pair = Pair::stream(seed, config.clone(), 20_000, 100, 200 * MS);
        pair.run();
        let delays = pair.receiver().times().into_iter().zip(0_u64..);
        let squares = delays.map(|(time, n)| {
            let off = time as f64 - (n * 200_000_000 + 20_000_000) as f64;
            (off / 1e6).powi(2)
        });
        let deviation = (squares.sum::<f64>() / 20_000.0).sqrt();
        assert!((deviation - 4.0).abs() < 0.15, "{deviation} ms");

        let at_once = LinkConfig {
            delay: Duration::ZERO,
            ..config
        };
        let mut pair = Pair::stream(seed, at_once, 100, 100, 200 * MS);
        pair.run();
        let times = pair.receiver().times();
        let on_time = times.iter().filter(|time| **time % 200_000_000 == 0);
        let count = on_time.count();
        assert!((25..=75).contains(&count), "{count} of 100 at the earliest");
    });
}

#[test]
fn packets_arrive_at_ticks() {
    with_seed(80, |seed| {
        let config = LinkConfig {
            tick: Some(10 * MS),
            ..LinkConfig::delay(20 * MS)
        };
        // A packet every 3 ms.
        let mut pair = Pair::stream(seed, config, 100, 100, 3 * MS);
        pair.run();
        let times = pair.receiver().times();
        assert_eq!(times.len(), 100);
        for (number, time) in (0_u64..).zip(times) {
            let due = (number * 3 + 20).next_multiple_of(10);
            assert_eq!(time, due * 1_000_000, "packet {number}");
        }
    });
}

#[test]
fn reordering_delays_selected_packets() {
    with_seed(79, |seed| {
        let config = LinkConfig {
            reorder: Some(Reorder {
                probability: 0.1,
                extra_delay: 5 * MS + Duration::from_nanos(1),
            }),
            ..LinkConfig::delay(10 * MS)
        };
        let mut pair = Pair::stream(seed, config, 5_000, 100, MS);
        pair.run();
        let receiver = pair.receiver();
        let held = receiver.received.iter().filter(|(time, _, packet)| {
            let number = u32::from_be_bytes(packet.payload[..4].try_into().expect("four bytes"));
            let delay = *time - (Time::ZERO + MS * (number - 1));
            assert!(delay == 10 * MS || delay == 15 * MS + Duration::from_nanos(1));
            delay > 10 * MS
        });
        let held = held.count();
        // Four standard deviations: 4·√(5000·0.1·0.9) = 85.
        assert!((415..=585).contains(&held), "{held}");
        let reordered = pair.stats().reordered;
        // A delayed packet is overtaken unless the five packets after it are all delayed, too.
        assert!(reordered as usize >= held - 5 && reordered as usize <= held);
    });
}

#[test]
fn duplicates_follow_their_originals() {
    with_seed(80, |seed| {
        let config = LinkConfig {
            duplicate: 0.25,
            ..LinkConfig::delay(10 * MS)
        };
        let mut pair = Pair::stream(seed, config, 4_000, 100, MS);
        pair.run();
        let numbers = pair.receiver().numbers();
        let copies = numbers.len() - 4_000;
        assert_eq!(copies as u64, pair.stats().duplicated);
        // Four standard deviations: 4·√(4000·0.25·0.75) = 110.
        assert!((890..=1110).contains(&copies), "{copies}");
        assert!(numbers.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 4_000);
        assert_eq!(pair.stats().reordered, 0);
    });
}

#[test]
fn corruption_flips_bits_and_keeps_lengths() {
    with_seed(81, |seed| {
        let config = LinkConfig {
            corrupt: 0.5,
            ..LinkConfig::default()
        };
        let mut pair = Pair::stream(seed, config, 2_000, 100, MS);
        pair.run();
        let mut changed = 0_u64;
        for ((_, _, packet), n) in pair.receiver().received.iter().zip(1..) {
            let sent = numbered(n, 100);
            assert_eq!(packet.payload.len(), sent.payload.len());
            let both = packet.payload.iter().zip(&sent.payload);
            let flips: u32 = both.map(|(a, b)| (a ^ b).count_ones()).sum();
            changed += u64::from(flips > 0);
        }
        assert_eq!(changed, pair.stats().corrupted);
        // Four standard deviations: 4·√(2000·0.5·0.5) = 89.
        assert!((911..=1089).contains(&changed), "{changed}");
    });
}

fn burst(count: u32, ecn: Ecn) -> Recorder {
    let packets = (1..=count).map(|n| (Time::ZERO, numbered(n, 1000).with_ecn(ecn)));
    Recorder::sending(packets)
}

#[test]
fn step_marking_marks_capable_packets_above_the_level() {
    let queue =
        Queue::packets(8).with_management(QueueManagement::MarkAbove(QueueLimit::Packets(3)));
    let config = LinkConfig::new(1_000_000, Duration::ZERO).with_queue(queue);
    let mut pair = Pair::new(1, config.clone(), burst(7, Ecn::Ect0));
    pair.run();
    let marks = |pair: &Pair| -> Vec<bool> {
        let received = pair.receiver().received.iter();
        received.map(|(.., packet)| packet.ecn == Ecn::Ce).collect()
    };
    // The first packet is in transmission; the fifth finds three waiting.
    assert_eq!(marks(&pair), [false, false, false, false, true, true, true]);
    assert_eq!(pair.stats().marked, 3);

    let mut pair = Pair::new(1, config, burst(7, Ecn::NotEct));
    pair.run();
    assert_eq!(marks(&pair), [false; 7]);
    assert_eq!(pair.stats().dropped(), 0);
}

#[test]
fn red_drops_early_or_marks() {
    with_seed(82, |seed| {
        let red = |ecn| {
            QueueManagement::Red(Red {
                minimum: 2.0,
                maximum: 10.0,
                max_probability: 0.2,
                weight: 0.1,
                ecn,
            })
        };
        // Twice the rate of the link.
        let run = |ecn, capable| {
            let queue = Queue::packets(50).with_management(red(ecn));
            let config = LinkConfig::new(8_000_000, Duration::ZERO).with_queue(queue);
            let packets = (0..2_000).map(|n| {
                let time = Time::ZERO + Duration::from_micros(500) * n;
                (time, numbered(n, 1000).with_ecn(capable))
            });
            let mut pair = Pair::new(seed, config, Recorder::sending(packets));
            pair.run();
            pair.stats()
        };
        let dropping = run(false, Ecn::Ect0);
        assert!(dropping.dropped_early > 500, "{dropping:?}");
        assert_eq!((dropping.dropped_queue, dropping.marked), (0, 0));
        let marking = run(true, Ecn::Ect0);
        assert!(marking.marked > 500, "{marking:?}");
        assert_eq!(marking.dropped_early, 0);
        assert!(
            marking.dropped_queue > 0,
            "marking does not shorten the queue"
        );
        let incapable = run(true, Ecn::NotEct);
        assert_eq!(incapable.dropped_early, dropping.dropped_early);
    });
}

#[test]
fn values_out_of_range_are_rejected() {
    let bad = [
        LinkConfig::new(0, Duration::ZERO),
        LinkConfig::default().with_loss(Loss::Random(1.1)),
        LinkConfig::default().with_loss(Loss::Random(f64::NAN)),
        LinkConfig::default().with_loss(Loss::Every(0)),
        LinkConfig {
            corrupt: -0.1,
            ..LinkConfig::default()
        },
        LinkConfig::default().with_queue(Queue::packets(1).with_management(QueueManagement::Red(
            Red {
                minimum: 5.0,
                maximum: 5.0,
                max_probability: 0.1,
                weight: 0.002,
                ecn: false,
            },
        ))),
    ];
    for config in bad {
        assert!(config.validate().is_err(), "{config:?}");
    }
    assert!(LinkConfig::default().validate().is_ok());
}
