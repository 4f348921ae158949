//! The simulated TCP hosts: complete transfers, with a rate limited by window, link and loss.

use std::net::IpAddr;
use std::time::Duration;

use carrick_lab::tcp_host::{
    BulkSink, BulkSource, Connection, Segment, TcpApplication, TcpConfig, TcpCongestion, TcpHost,
};
use carrick_netsim::{LinkConfig, Loss, NetworkBuilder, Queue, Time};

const BYTES: u64 = 300_000;

struct Outcome {
    received: u64,
    goodput: f64,
    retransmitted: u64,
    finished: Option<Time>,
}

fn transfer(link: &LinkConfig, change: impl Fn(&mut TcpConfig), bytes: u64, seed: u64) -> Outcome {
    let addresses: [IpAddr; 2] =
        ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
    let mut builder = NetworkBuilder::new(seed);
    let hosts = ["a", "b"].map(|name| builder.add_host(name));
    let [from, to] = [0, 1].map(|end| builder.add_interface(hosts[end], [addresses[end]]));
    builder.connect_both(from, to, link.clone());
    let [near, far] = [0, 1].map(|end| {
        let mut config = TcpConfig::new(addresses[end], seed + end as u64);
        change(&mut config);
        config
    });
    let source = TcpHost::connect(near, (addresses[1], 80), BulkSource::new(bytes));
    let sink = TcpHost::listen(far, 80, BulkSink::default());
    builder.set_node_program(hosts[0], Box::new(source));
    builder.set_node_program(hosts[1], Box::new(sink));
    let mut net = builder.build().expect("a valid network");
    net.run_until(Time::from_secs(300));
    let source = net.node::<TcpHost<BulkSource>>(hosts[0]);
    let sink = net.node::<TcpHost<BulkSink>>(hosts[1]).application();
    let started = source.application().started.expect("it began");
    Outcome {
        received: sink.received,
        goodput: sink.goodput(started).expect("data arrived"),
        retransmitted: source.retransmitted(),
        finished: source.application().finished,
    }
}

fn link(loss: f64) -> LinkConfig {
    let loss = if loss > 0.0 {
        Loss::Random(loss)
    } else {
        Loss::None
    };
    LinkConfig::new(1_000_000, Duration::from_millis(20))
        .with_queue(Queue::packets(50))
        .with_loss(loss)
}

#[test]
fn a_transfer_is_complete_and_fills_the_link() {
    let outcome = transfer(&link(0.0), |_| {}, BYTES, 1);
    assert_eq!(outcome.received, BYTES);
    assert!(outcome.finished.is_some());
    // 1460 of the 1500 bytes of each packet are data.
    let most = 1_000_000.0 * 1460.0 / 1500.0;
    assert!(outcome.goodput < most, "{}", outcome.goodput);
    assert!(outcome.goodput > 0.85 * most, "{}", outcome.goodput);
}

#[test]
fn a_transfer_with_loss_is_complete_and_slower() {
    for congestion in [TcpCongestion::Reno, TcpCongestion::Cubic] {
        let outcome = transfer(&link(0.02), |c| c.congestion = congestion, BYTES, 3);
        assert_eq!(outcome.received, BYTES, "{congestion:?}");
        assert!(outcome.retransmitted > 0, "{congestion:?}");
        let clean = transfer(&link(0.0), |c| c.congestion = congestion, BYTES, 3);
        assert!(outcome.goodput < clean.goodput, "{congestion:?}");
    }
}

#[test]
fn the_receive_window_limits_the_goodput() {
    let window = 10_000;
    let outcome = transfer(&link(0.0), |c| c.receive_buffer = window, BYTES, 1);
    let bound = window as f64 * 8.0 / 0.040;
    assert!(outcome.goodput <= bound, "{} {bound}", outcome.goodput);
    assert_eq!(outcome.retransmitted, 0);
}

#[test]
fn equal_seeds_give_equal_transfers() {
    let run = |seed| {
        let outcome = transfer(&link(0.03), |_| {}, BYTES, seed);
        (outcome.finished, outcome.retransmitted)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// Sends a message every 10 ms and records its segments.
struct Ticker {
    next: Option<Time>,
    segments: Vec<Segment>,
}

impl TcpApplication for Ticker {
    fn next_timer(&self) -> Option<Time> {
        self.next
    }

    fn on_progress(&mut self, now: Time, connection: &mut Connection<'_>) {
        if self.next.is_some_and(|at| at <= now) {
            connection.send(&[7; 100]);
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
    let addresses: [IpAddr; 2] =
        ["fd00::1", "fd00::2"].map(|text| text.parse().expect("an address"));
    let mut builder = NetworkBuilder::new(4);
    let hosts = ["a", "b"].map(|name| builder.add_host(name));
    let [from, to] = [0, 1].map(|end| builder.add_interface(hosts[end], [addresses[end]]));
    builder.connect_both(from, to, link(0.05));
    let mut config = TcpConfig::new(addresses[0], 1);
    config.nagle = false;
    let ticker = Ticker {
        next: Some(Time::from_millis(500)),
        segments: Vec::new(),
    };
    let source = TcpHost::connect(config, (addresses[1], 80), ticker);
    let sink = TcpHost::listen(TcpConfig::new(addresses[1], 2), 80, BulkSink::default());
    builder.set_node_program(hosts[0], Box::new(source));
    builder.set_node_program(hosts[1], Box::new(sink));
    let mut net = builder.build().expect("a valid network");
    net.run_until(Time::from_secs(20));
    let source = net.node::<TcpHost<Ticker>>(hosts[0]);
    let segments = &source.application().segments;
    let mut end = 0;
    for segment in segments {
        assert_eq!(segment.again, segment.offset < end, "{segment:?}");
        end = end.max(segment.offset + segment.len as u64);
    }
    assert_eq!(end, 15_000, "150 messages");
    let again = segments.iter().filter(|s| s.again).count() as u64;
    assert!(again > 0 && again == source.retransmitted());
    let sink = net.node::<TcpHost<BulkSink>>(hosts[1]).application();
    assert_eq!(sink.received, end);
}

/// Sends a number of bytes and reads those of the other end.
struct Both {
    rest: u64,
    received: u64,
}

impl TcpApplication for Both {
    fn on_progress(&mut self, _: Time, connection: &mut Connection<'_>) {
        let mut buffer = [0; 4096];
        while self.rest > 0 {
            let piece = buffer.len().min(self.rest as usize);
            let sent = connection.send(&buffer[..piece]);
            if sent == 0 {
                break;
            }
            self.rest -= sent as u64;
        }
        while let read @ 1.. = connection.receive(&mut buffer) {
            self.received += read as u64;
        }
    }
}

/// RFC 9293, section 3.10.7.4
#[test]
fn acks_are_accepted_after_simultaneous_timeouts() {
    let addresses: [IpAddr; 2] =
        ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
    for seed in 0..20 {
        let mut builder = NetworkBuilder::new(seed);
        let hosts = ["a", "b"].map(|name| builder.add_host(name));
        let [from, to] = [0, 1].map(|end| builder.add_interface(hosts[end], [addresses[end]]));
        builder.connect_both(from, to, link(0.05));
        let both = || Both {
            rest: BYTES,
            received: 0,
        };
        let [near, far] = [0, 1].map(|end| TcpConfig::new(addresses[end], seed + end as u64));
        let a = TcpHost::connect(near, (addresses[1], 80), both());
        builder.set_node_program(hosts[0], Box::new(a));
        builder.set_node_program(hosts[1], Box::new(TcpHost::listen(far, 80, both())));
        let mut net = builder.build().expect("a valid network");
        net.run_until(Time::from_secs(1000));
        let received = hosts.map(|host| net.node::<TcpHost<Both>>(host).application().received);
        assert_eq!(received, [BYTES; 2], "seed {seed}");
    }
}
