//! Two link sets connected to each other in virtual time, whose links fail and return.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::m2pa::Message;
use carrick_sigtran::m2pa::link::LinkConfig;
use carrick_sigtran::m3ua::{PointCode, ProtocolData, SctpNotification};

use super::label::LabelFormat;
use super::{LinkSet, LinkSetConfig, LinkSetError, LinkSetIndication};

const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 2,
};

fn code(code: u32) -> PointCode {
    PointCode::new(code).unwrap()
}

/// Both ends with the messages on the way to each, by link.
struct Network {
    ends: [LinkSet; 2],
    in_flight: [Vec<VecDeque<(u16, Bytes)>>; 2],
    /// Numbers sent and received, by end and SLS.
    sent: [Vec<Vec<u32>>; 2],
    received: [Vec<Vec<u32>>; 2],
    returned: u32,
    next: u32,
    now: Time,
    random: u64,
}

impl Network {
    fn new(links: usize, seed: u64) -> Self {
        let end = |own, adjacent| {
            let config = LinkSetConfig {
                format: LabelFormat::new(14),
                own: code(own),
                adjacent: code(adjacent),
                network_indicator: 2,
                link: LinkConfig {
                    t7: Duration::from_secs(5),
                    ..LinkConfig::default()
                },
                emergency: true,
                t2: Duration::from_secs(1),
                t4: Duration::from_secs(1),
                t17: Duration::from_secs(1),
            };
            LinkSet::new(Time::ZERO, config, links).unwrap()
        };
        let queues = || (0..links).map(|_| VecDeque::new()).collect();
        let mut network = Self {
            ends: [end(1, 2), end(2, 1)],
            in_flight: [queues(), queues()],
            sent: [vec![Vec::new(); 16], vec![Vec::new(); 16]],
            received: [vec![Vec::new(); 16], vec![Vec::new(); 16]],
            returned: 0,
            next: 0,
            now: Time::ZERO,
            random: seed,
        };
        for link in 0..links {
            network.connect(link);
        }
        network
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn connect(&mut self, link: usize) {
        for end in 0..2 {
            self.ends[end].handle_sctp(self.now, link, UP);
        }
        self.drain();
    }

    /// The association is lost: each end learns it after some of the messages on their way.
    fn cut(&mut self, link: usize) {
        for end in 0..2 {
            let arrive = self.random(1 + self.in_flight[end][link].len() as u64);
            for _ in 0..arrive {
                self.deliver(end, link);
            }
            self.ends[end].handle_sctp(self.now, link, SctpNotification::Down);
            self.in_flight[end][link].clear();
            self.drain();
        }
        self.in_flight[0][link].clear();
    }

    fn send(&mut self, end: usize) {
        let sls = self.random(16) as u8;
        let data = ProtocolData {
            opc: code(1 + end as u32),
            dpc: code(1000),
            si: 3,
            ni: 2,
            mp: 0,
            sls,
            user_data: Bytes::copy_from_slice(&self.next.to_be_bytes()),
        };
        if self.ends[end].send(self.now, &data).is_ok() {
            self.sent[end][usize::from(sls)].push(self.next);
            self.next += 1;
        }
        self.drain();
    }

    fn drain(&mut self) {
        for end in 0..2 {
            while let Some((link, transmit)) = self.ends[end].poll_transmit() {
                let octets = transmit.message.encode().unwrap();
                self.in_flight[1 - end][link].push_back((transmit.stream, octets));
            }
            while let Some(indication) = self.ends[end].poll_indication() {
                match indication {
                    LinkSetIndication::Received(data) => {
                        let number = data.user_data[..].try_into().map(u32::from_be_bytes);
                        let list = &mut self.received[end][usize::from(data.sls)];
                        list.push(number.unwrap());
                    }
                    LinkSetIndication::Returned(_) => self.returned += 1,
                    LinkSetIndication::Link(..) | LinkSetIndication::Congestion(_) => {}
                }
            }
        }
    }

    fn deliver(&mut self, end: usize, link: usize) {
        if let Some((stream, octets)) = self.in_flight[end][link].pop_front() {
            let message = Message::decode(&octets).unwrap();
            self.ends[end].handle_message(self.now, link, stream, message);
            self.drain();
        }
    }

    /// Sends and delivers single messages at random for this number of steps, some of which take this time.
    fn work(&mut self, steps: u32, time: Duration) {
        for _ in 0..steps {
            let end = self.random(2) as usize;
            match self.random(4) {
                0 => self.send(end),
                1 => {
                    self.now += time;
                    self.ends[end].handle_timeout(self.now);
                    self.drain();
                }
                _ => {
                    let link = self.random(self.in_flight[end].len() as u64) as usize;
                    self.deliver(end, link);
                }
            }
        }
    }

    /// Delivers all messages and lets this time pass.
    fn run(&mut self, time: Duration) {
        let end_of_run = self.now + time;
        loop {
            let mut queues = (0..2).flat_map(|end| {
                let links = self.in_flight[end].iter().enumerate();
                links.map(move |(link, queue)| (end, link, queue.is_empty()))
            });
            if let Some((end, link, _)) = queues.find(|(.., is_empty)| !is_empty) {
                self.deliver(end, link);
                continue;
            }
            let timeouts = self.ends.iter().filter_map(LinkSet::poll_timeout);
            match timeouts.min().filter(|at| *at <= end_of_run) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
            for end in 0..2 {
                self.ends[end].handle_timeout(self.now);
            }
            self.drain();
        }
        self.now = end_of_run;
    }

    /// Links that carry the SLSs of an end.
    fn loads(&self, end: usize) -> Vec<usize> {
        let flows = &self.ends[end].flows;
        let of = |link| flows.iter().filter(|flow| flow.link == Some(link)).count();
        (0..self.ends[end].links.len()).map(of).collect()
    }
}

#[test]
fn links_share_the_load_by_sls() {
    let mut network = Network::new(3, 1);
    let refused = network.ends[0].send(Time::ZERO, &{
        let label = LabelFormat::new(14);
        let msu = carrick_sigtran::m2pa::Msu::new(0x83, Bytes::from_static(&[0; 5]));
        label.decode(&msu).unwrap()
    });
    assert_eq!(refused, Err(LinkSetError::Unavailable));
    network.run(Duration::from_secs(5));
    for end in 0..2 {
        let mut loads = network.loads(end);
        loads.sort_unstable();
        assert_eq!(loads, [5, 5, 6]);
    }
}

/// RFC 4165, section 4.2.3: messages are neither lost nor repeated, and an SLS keeps its order.
#[test]
fn failures_of_links_lose_and_repeat_nothing() {
    for seed in 0..150 {
        let mut network = Network::new(2 + (seed % 3) as usize, seed);
        network.run(Duration::from_secs(5));
        let links = network.ends[0].links.len();
        for _ in 0..4 {
            let failed = network.random(links as u64) as usize;
            network.work(100, Duration::ZERO);
            network.cut(failed);
            network.work(100, Duration::ZERO);
            // Before the alignment of the failed link, in it, or after it.
            let wait = Duration::from_millis(network.random(4000));
            network.run(wait);
            network.connect(failed);
            // The link returns under load.
            network.work(600, Duration::from_millis(15));
            network.run(Duration::from_secs(5));
            assert!(network.ends[0].is_link_available(failed), "seed {seed}");
        }
        assert_eq!(network.returned, 0);
        for end in 0..2 {
            assert_eq!(network.ends[end].take_lost(), 0, "seed {seed}");
            assert_eq!(network.received[end], network.sent[1 - end], "seed {seed}");
            assert!(network.loads(end).iter().all(|load| *load > 0));
        }
    }
}

/// Q.704, section 5.6: without another link, what was not sent is returned for other link sets.
#[test]
fn the_last_link_returns_what_it_has_not_sent() {
    let mut network = Network::new(2, 7);
    network.run(Duration::from_secs(5));
    // The first link waits for its changeover when the second one fails.
    network.ends[0].handle_sctp(network.now, 0, SctpNotification::Down);
    for _ in 0..20 {
        network.send(0);
    }
    network.ends[0].handle_sctp(network.now, 1, SctpNotification::Down);
    network.drain();
    assert!(!network.ends[0].is_available());
    // What waited for the changeover was not sent; the rest was, and may have arrived.
    assert!(network.returned > 0);
    network.run(Duration::from_secs(1));
    let arrived: usize = network.received[1].iter().map(Vec::len).sum();
    assert_eq!(arrived + network.returned as usize, 20);
}

/// A peer that answers no order: the traffic returns after T2 nevertheless.
#[test]
fn a_changeover_ends_without_an_answer() {
    let mut network = Network::new(2, 3);
    network.run(Duration::from_secs(5));
    let end = &mut network.ends[0];
    end.handle_sctp(network.now, 0, SctpNotification::Down);
    while end.poll_transmit().is_some() {}
    let start = network.now;
    while network.ends[0].links[0].changeover.is_some() {
        network.now = network.ends[0].poll_timeout().unwrap();
        let now = network.now;
        network.ends[0].handle_timeout(now);
        while network.ends[0].poll_transmit().is_some() {}
    }
    assert_eq!(network.now.since(start), Duration::from_secs(2));
    assert!(network.ends[0].flows.iter().all(|flow| flow.held.is_none()));
    assert_eq!(network.loads(0), [0, 16]);
}
