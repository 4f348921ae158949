//! Set-ups of both sides to two addresses each, with their packets in any order: one association results (RFC 9260,
//! section 1.3).

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use carrick_proto::{AssociationId, ConnectError, Event, Route, SourceSelection};
use carrick_wire::ChunkType;

use crate::common::*;

/// A host that sends all packets from its first address.
#[derive(Debug)]
struct FirstAddress;

impl SourceSelection for FirstAddress {
    fn select(&self, local: &[IpAddr], remote: IpAddr) -> Option<IpAddr> {
        let same_family = |a: &&IpAddr| a.is_ipv4() == remote.is_ipv4();
        local.iter().find(same_family).copied()
    }
}

/// Pseudo-random numbers (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}

/// Conditions of the orders.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    /// All packets leave from the first address of their sender.
    one_source: bool,
    /// One packet is lost or delivered twice.
    fault: bool,
    /// Every ABORT is lost: each side has to end the same association without it.
    aborts_lost: bool,
}

/// Two endpoints, the packets that wait for their delivery, and the set-ups, which have a message each: their number.
struct Crossing {
    w: World,
    waiting: Rc<RefCell<Vec<SentPacket>>>,
    set_ups: Vec<(usize, AssociationId)>,
}

impl Crossing {
    fn new(numbers: &mut Numbers, conditions: Conditions) -> Self {
        let seed = numbers.below(256) as u8;
        let mut w = World::with(2, |end, config| {
            // The tags differ from seed to seed, and with them the pair of tags that is lower.
            config.seed = [seed; 32];
            config.seed[0] = end as u8;
            if conditions.one_source {
                config.source_selection = Box::new(FirstAddress);
            }
        });
        if conditions.aborts_lost {
            w.rule(|packet| {
                if packet.has(ChunkType::ABORT) {
                    Verdict::Drop
                } else {
                    Verdict::Pass
                }
            });
        }
        let waiting = Rc::new(RefCell::new(Vec::new()));
        let all = Rc::clone(&waiting);
        w.rule(move |packet| {
            all.borrow_mut().push(packet.clone());
            Verdict::Drop
        });
        Self {
            w,
            waiting,
            set_ups: Vec::new(),
        }
    }

    fn connect(&mut self, end: usize, to: IpAddr) {
        let w = &mut self.w;
        let config = w.config.clone();
        match w.ends[end].connect(w.now, &[to], port(1 - end), None, config) {
            Ok(id) => {
                w.send(end, id, 0, vec![self.set_ups.len() as u8]);
                self.set_ups.push((end, id));
                w.pump();
            }
            Err(error) => assert_eq!(error, ConnectError::AlreadyConnected),
        }
    }

    fn deliver(&mut self, packet: &SentPacket) {
        let arrival = Route::plain(packet.to(), packet.source());
        let bytes = packet.bytes.clone();
        self.w.inject(1 - packet.from, &arrival, bytes);
    }

    /// Lets the numbers choose the next set-up or packet at each step, until nothing is left. Timers expire when
    /// nothing else is left.
    fn run(&mut self, numbers: &mut Numbers, conditions: Conditions) {
        let both = |end: usize| addresses(1 - end).map(|to| (end, to));
        let mut to_connect = [both(0), both(1)].concat();
        let connects_first = numbers.below(2) == 0;
        let mut fault_in = conditions.fault.then(|| numbers.below(24));
        for _ in 0..150 {
            self.w.run(ms(numbers.below(3) as u64));
            let connects = to_connect.len();
            let packets = self.waiting.borrow().len();
            let choice = match (connects, packets) {
                (0, 0) => {
                    let waiting = Rc::clone(&self.waiting);
                    self.w.run_until(secs(1), |_| !waiting.borrow().is_empty());
                    continue;
                }
                (1.., _) if connects_first => numbers.below(connects),
                _ => numbers.below(connects + packets),
            };
            if choice < connects {
                let (end, to) = to_connect.remove(choice);
                self.connect(end, to);
                continue;
            }
            let packet = self.waiting.borrow_mut().remove(choice - connects);
            let is_faulty = fault_in == Some(0);
            fault_in = fault_in.and_then(|left| left.checked_sub(1));
            if is_faulty && numbers.below(2) == 0 {
                continue;
            }
            self.deliver(&packet);
            if is_faulty {
                self.waiting.borrow_mut().push(packet);
            }
        }
        // From here on, packets arrive in order.
        let held = self.waiting.take();
        self.w.clear_rules();
        for packet in held {
            self.deliver(&packet);
        }
        self.w.run(secs(200));
    }

    /// Checks that a single association is left and works both ways, and that each message was delivered or returned.
    fn check(&mut self, what: &str) {
        let w = &mut self.w;
        let events = [0, 1].map(|end| w.events_of_all(end));
        let mut received = [0, 1].map(|end| {
            let all: Vec<AssociationId> = w.ends[end].associations().collect();
            let mut numbers = Vec::new();
            for id in all {
                numbers.extend(w.read_numbers(end, id));
            }
            numbers
        });
        let counts = [0, 1].map(|end| w.ends[end].associations().count());
        assert_eq!(counts, [1, 1], "{what}: {events:?}");
        assert_eq!(w.states(), [Some("Established"); 2], "{what}");
        let ids = [0, 1].map(|end| w.association(end));
        for (number, (end, id)) in self.set_ups.iter().enumerate() {
            let is_of_set_up = |(of, event): &&(AssociationId, Event)| {
                of == id && matches!(event, Event::SendFailed(_))
            };
            let failed = events[*end].iter().filter(is_of_set_up).count();
            let of_number = received[1 - *end].iter().filter(|n| **n == number as u8);
            let arrived = of_number.count();
            if *id == ids[*end] {
                assert_eq!((arrived, failed), (1, 0), "{what}: message {number}");
            } else {
                // A message that was delivered before its association ended may be returned as not acknowledged.
                let known = (1..=2).contains(&(arrived + failed)) && arrived <= 1 && failed <= 1;
                assert!(known, "{what}: message {number}: {arrived}, {failed}");
            }
        }
        for (end, id) in ids.into_iter().enumerate() {
            w.send(end, id, 1, vec![100 + end as u8]);
        }
        w.run(secs(5));
        for (end, id) in ids.into_iter().enumerate() {
            received[end] = w.read_numbers(end, id);
            assert_eq!(received[end], [101 - end as u8], "{what}");
        }
    }
}

fn check_orders(count: u64, conditions: Conditions) {
    for seed in 0..count {
        let mut numbers = Numbers(seed);
        let mut crossing = Crossing::new(&mut numbers, conditions);
        crossing.run(&mut numbers, conditions);
        crossing.check(&format!("seed {seed}, {conditions:?}"));
    }
}

/// RFC 9260, section 1.3
/// RFC 9260, section 5.2
#[test]
fn crossing_set_ups_in_any_order_make_one() {
    for one_source in [false, true] {
        for fault in [false, true] {
            let conditions = Conditions {
                one_source,
                fault,
                aborts_lost: false,
            };
            check_orders(500, conditions);
        }
    }
}

/// RFC 9260, section 1.3
#[test]
fn both_sides_end_the_same_crossing_association() {
    for one_source in [false, true] {
        let conditions = Conditions {
            one_source,
            fault: false,
            aborts_lost: true,
        };
        check_orders(500, conditions);
    }
}
