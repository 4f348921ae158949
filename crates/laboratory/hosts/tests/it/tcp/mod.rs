//! The simulated TCP hosts: complete transfers, with a rate limited by window, link and loss.

mod smoltcp_host;
mod smoltcp_peer;
mod support;
mod worlds;

use std::time::Duration;

use carrick_hosts::tcp::{Connection, Segment, TcpApplication, TcpConfig, TcpCongestion, TcpHost};
use carrick_netsim::{LinkConfig, Loss, Queue, Time};

use support::{Transfer, TransferOutcome, content, hosts, link, run};

const BYTES: usize = 300_000;
const ADDRESSES: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

fn transfer(
    link: &LinkConfig,
    change: impl Fn(&mut TcpConfig),
    bytes: usize,
    seed: u64,
) -> TransferOutcome {
    let outcome = run(
        link,
        ["10.0.0.1", "10.0.0.2"],
        |_, config| change(config),
        [bytes, 0],
        seed,
    );
    assert_eq!(outcome.received, bytes);
    outcome
}

#[test]
fn a_transfer_is_complete_and_fills_the_link() {
    let outcome = transfer(&link(0.0), |_| {}, BYTES, 1);
    // 1460 of the 1500 bytes of each packet are data.
    let most = 1_000_000.0 * 1460.0 / 1500.0;
    assert!(outcome.goodput < most, "{}", outcome.goodput);
    assert!(outcome.goodput > 0.85 * most, "{}", outcome.goodput);
}

#[test]
fn a_transfer_with_loss_is_complete_and_slower() {
    for congestion in [TcpCongestion::Reno, TcpCongestion::Cubic] {
        for sack in [true, false] {
            let change = |config: &mut TcpConfig| {
                (config.congestion, config.sack) = (congestion, sack);
            };
            let outcome = transfer(&link(0.05), change, BYTES, 3);
            assert!(outcome.retransmitted > 0, "{congestion:?}, SACK {sack}");
            let clean = transfer(&link(0.0), change, BYTES, 3);
            let [lossy, clean] = [outcome, clean].map(|outcome| outcome.goodput);
            assert!(
                lossy < clean,
                "{congestion:?}, SACK {sack}: {lossy} and {clean}"
            );
        }
    }
}

#[test]
fn the_receive_window_limits_the_goodput() {
    for window in [1024, 10_000, 30_000] {
        let outcome = transfer(&link(0.0), |c| c.receive_buffer = window, BYTES, 1);
        let bound = window as f64 * 8.0 / 0.040;
        assert!(outcome.goodput <= bound, "{} {bound}", outcome.goodput);
        assert_eq!(outcome.retransmitted, 0);
    }
}

/// RFC 7323, section 2.3
#[test]
fn scaled_windows_fill_a_long_link() {
    let link =
        LinkConfig::new(100_000_000, Duration::from_millis(100)).with_queue(Queue::packets(3000));
    let buffers = |config: &mut TcpConfig| {
        (config.receive_buffer, config.send_buffer) = (4 << 20, 4 << 20);
    };
    let outcome = transfer(&link, buffers, 60_000_000, 1);
    assert!(outcome.goodput > 50e6, "{}", outcome.goodput);
    assert_eq!(outcome.retransmitted, 0);
}

#[test]
fn equal_seeds_give_equal_transfers() {
    let run = |seed| {
        let outcome = transfer(&link(0.03), |_| {}, BYTES, seed);
        (outcome.goodput.to_bits(), outcome.retransmitted)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// Mathis, Semke, Mahdavi, Ott: The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm, 1997
#[test]
fn loss_limits_the_goodput_by_its_square_root() {
    for p in [0.001, 0.003, 0.01, 0.02] {
        let link = LinkConfig::new(1_000_000_000, Duration::from_millis(50))
            .with_queue(Queue::packets(1000));
        // ACKs are not lost.
        let lossy = link.clone().with_loss(Loss::Random(p));
        let change = |_, config: &mut TcpConfig| {
            (config.receive_buffer, config.send_buffer) = (1 << 20, 1 << 20);
            config.ack_delay = None;
        };
        let hosts = hosts(ADDRESSES, [&lossy, &link], 7, change, [100_000_000, 0]);
        let goodput = hosts.run_for(Duration::from_secs(400)).goodput;
        let model = 1460.0 * 8.0 / 0.1 * (1.5 / p).sqrt();
        let ratio = goodput / model;
        assert!(
            (0.8..1.15).contains(&ratio),
            "{p}: {goodput} instead of {model}"
        );
    }
}

/// Fall, Floyd: Simulation-based Comparisons of Tahoe, Reno, and SACK TCP, 1996
#[test]
fn sack_recovers_several_losses_of_a_window_faster() {
    // Slow start overflows the queue, and half of a window is lost.
    let link =
        LinkConfig::new(10_000_000, Duration::from_millis(50)).with_queue(Queue::packets(30));
    let goodput = |sack| {
        let change = |config: &mut TcpConfig| {
            (config.receive_buffer, config.send_buffer) = (1 << 19, 1 << 19);
            config.sack = sack;
        };
        transfer(&link, change, 3_000_000, 1).goodput
    };
    let [with, without] = [true, false].map(goodput);
    assert!(with > 1.3 * without, "{with} with SACK, {without} without");
}

/// Sends a message every 10 ms and records its segments.
struct Ticker {
    sent: usize,
    next: Option<Time>,
    segments: Vec<Segment>,
}

impl TcpApplication for Ticker {
    fn next_timer(&self) -> Option<Time> {
        self.next
    }

    fn on_progress(&mut self, now: Time, connection: &mut Connection) {
        if self.next.is_some_and(|at| at <= now) {
            let data: Vec<u8> = (self.sent..self.sent + 100).map(content).collect();
            self.sent += connection.send(&data);
            let next = now + Duration::from_millis(10);
            self.next = Some(next).filter(|at| *at < Time::from_secs(2));
        }
    }

    fn on_segment(&mut self, segment: Segment) {
        self.segments.push(segment);
    }
}

#[test]
fn segments_have_their_offset_in_the_stream() {
    let addresses = ["fd00::1", "fd00::2"].map(|text| text.parse().expect("an address"));
    let mut config = TcpConfig::new(addresses[0], 1);
    config.nagle = false;
    let ticker = Ticker {
        sent: 0,
        next: Some(Time::from_millis(500)),
        segments: Vec::new(),
    };
    let source = TcpHost::connect(config, (addresses[1], 80), ticker);
    let sink = TcpHost::listen(TcpConfig::new(addresses[1], 2), 80, Transfer::new(0));
    let mut net = support::network(
        addresses,
        [&link(0.05); 2],
        4,
        Box::new(source),
        Box::new(sink),
    );
    net.run_until(Time::from_secs(20));
    let [a, b] = support::nodes(&net);
    let source = net.node::<TcpHost<Ticker>>(a);
    let segments = &source.application().segments;
    let mut end = 0;
    for segment in segments {
        assert_eq!(segment.again, segment.offset < end, "{segment:?}");
        end = end.max(segment.offset + segment.len as u64);
    }
    assert_eq!(end, 15_000, "150 messages");
    let again = segments.iter().filter(|s| s.again).count() as u64;
    assert!(again > 0 && again == source.retransmitted());
    let sink = net.node::<TcpHost<Transfer>>(b).application();
    assert_eq!(sink.received as u64, end);
}
