//! Two links of M2PA connected to each other in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::m2pa::link::*;
use carrick_sigtran::m2pa::*;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::m2pa_link::msu;

const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 2,
};

/// Both ends of a link; messages are encoded, delivered in the order of their stream, and decoded.
struct Pair {
    links: [Link; 2],
    /// Octets on the way to each end, for each stream.
    in_flight: [[VecDeque<Bytes>; 2]; 2],
    /// Messages that each end's MTP3 sent and got.
    sent: [Vec<Msu>; 2],
    received: [Vec<Msu>; 2],
    now: Time,
}

impl Pair {
    fn new() -> Self {
        let link = || Link::new(LinkConfig::default()).expect("a valid configuration");
        let mut pair = Self {
            links: [link(), link()],
            in_flight: Default::default(),
            sent: Default::default(),
            received: Default::default(),
            now: Time::from_millis(1),
        };
        pair.notify(UP);
        pair
    }

    /// Pair in service.
    fn in_service() -> Self {
        let mut pair = Self::new();
        pair.align();
        pair
    }

    fn notify(&mut self, notification: SctpNotification) {
        self.in_flight = Default::default();
        for link in &mut self.links {
            link.handle_sctp(self.now, notification);
        }
        self.collect();
    }

    /// Starts both ends and expects that they are in service.
    fn align(&mut self) {
        for link in &mut self.links {
            link.start(self.now).expect("out of service");
        }
        self.wait(Duration::from_secs(10));
        assert!(self.are(LinkState::InService));
    }

    fn are(&self, state: LinkState) -> bool {
        self.links.iter().all(|link| link.state() == state)
    }

    fn send(&mut self, end: usize, value: u32) {
        if self.links[end].send(self.now, msu(value)).is_ok() {
            self.sent[end].push(msu(value));
        }
    }

    /// Takes what both ends send and indicate.
    fn collect(&mut self) {
        for end in 0..2 {
            while let Some(transmit) = self.links[end].poll_transmit() {
                let octets = transmit.message.encode().expect("a message that fits");
                self.in_flight[1 - end][usize::from(transmit.stream)].push_back(octets);
            }
            while let Some(indication) = self.links[end].poll_indication() {
                if let LinkIndication::Received(msu) = indication {
                    self.received[end].push(msu);
                }
            }
        }
    }

    /// Delivers the next message of a stream to an end; returns whether there was one.
    fn deliver(&mut self, end: usize, stream: usize) -> bool {
        self.collect();
        let Some(octets) = self.in_flight[end][stream].pop_front() else {
            return false;
        };
        let message = Message::decode(&octets).expect("a valid message");
        self.links[end].handle_message(self.now, stream as u16, message);
        self.collect();
        true
    }

    /// Delivers all messages.
    fn settle(&mut self) {
        let any = |pair: &mut Self| {
            let pairs = [(0, 0), (0, 1), (1, 0), (1, 1)];
            pairs.map(|(end, stream)| pair.deliver(end, stream))
        };
        while any(self).contains(&true) {}
    }

    /// Lets time pass, with immediate delivery.
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.settle();
        loop {
            let timeouts = self.links.iter().filter_map(Link::poll_timeout);
            let Some(at) = timeouts.min().filter(|at| *at <= end) else {
                break;
            };
            self.now = at;
            for link in &mut self.links {
                link.handle_timeout(at);
            }
            self.settle();
        }
        self.now = end;
    }

    /// Ends all outages and congestions.
    fn recover(&mut self) {
        for link in &mut self.links {
            link.local_processor_recovered(self.now);
            link.local_busy_ended(self.now);
        }
        self.settle();
    }
}

/// RFC 4165, section 4.1.3
#[test]
fn ends_that_start_apart_align() {
    let mut pair = Pair::new();
    pair.links[0].start(pair.now).expect("out of service");
    pair.wait(Duration::from_secs(19));
    pair.links[1].start(pair.now).expect("out of service");
    pair.wait(Duration::from_secs(10));
    assert!(pair.are(LinkState::InService));
}

/// RFC 4165, section 4.1.3
#[test]
fn ends_with_different_proving_periods_align() {
    let mut pair = Pair::new();
    pair.links[1].emergency(pair.now);
    for link in &mut pair.links {
        link.start(pair.now).expect("out of service");
    }
    pair.wait(Duration::from_millis(600));
    assert!(pair.are(LinkState::InService));
}

/// RFC 4165, section 4.1.6
#[test]
fn a_link_aligns_again_after_a_stop() {
    let mut pair = Pair::in_service();
    pair.send(0, 1);
    pair.links[0].stop();
    pair.wait(Duration::from_secs(1));
    assert!(pair.are(LinkState::OutOfService));
    pair.align();
    pair.send(1, 2);
    pair.wait(Duration::from_secs(5));
    assert_eq!(pair.received[0], [msu(2)]);
    assert!(pair.are(LinkState::InService));
}

/// RFC 4165, section 4.1.3: both ends begin in a local processor outage
#[test]
fn outages_during_alignment_end_in_service() {
    let mut pair = Pair::new();
    for link in &mut pair.links {
        link.local_processor_outage();
        link.start(pair.now).expect("out of service");
    }
    pair.wait(Duration::from_secs(10));
    assert!(pair.are(LinkState::ProcessorOutage));
    pair.recover();
    assert!(pair.are(LinkState::InService));
    pair.send(0, 1);
    pair.send(1, 2);
    pair.wait(Duration::from_secs(5));
    assert_eq!(pair.received, [vec![msu(2)], vec![msu(1)]]);
}

/// Step of a random run.
#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Deliver(usize, usize),
    Outage(usize),
    Recover(usize),
    Busy(usize),
    BusyEnded(usize),
    Wait(u64),
    Stop(usize),
    Start(usize),
    Emergency(usize),
    Restart,
}

/// Steps of a link in service that is not taken out of it.
fn traffic() -> impl Strategy<Value = Step> {
    let end = 0..2_usize;
    prop_oneof![
        6 => end.clone().prop_map(Step::Send),
        10 => (end.clone(), 0..2_usize).prop_map(|(end, stream)| Step::Deliver(end, stream)),
        2 => end.clone().prop_map(Step::Outage),
        2 => end.clone().prop_map(Step::Recover),
        1 => end.clone().prop_map(Step::Busy),
        1 => end.prop_map(Step::BusyEnded),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let end = 0..2_usize;
    prop_oneof![
        8 => traffic(),
        2 => (0..10_000_u64).prop_map(Step::Wait),
        1 => end.clone().prop_map(Step::Stop),
        3 => end.clone().prop_map(Step::Start),
        1 => end.prop_map(Step::Emergency),
        1 => Just(Step::Restart),
    ]
}

impl Pair {
    fn step(&mut self, step: &Step, value: u32) {
        let now = self.now;
        match *step {
            Step::Send(end) => self.send(end, value),
            Step::Deliver(end, stream) => {
                self.deliver(end, stream);
            }
            Step::Outage(end) => self.links[end].local_processor_outage(),
            Step::Recover(end) => self.links[end].local_processor_recovered(now),
            Step::Busy(end) => self.links[end].local_busy(),
            Step::BusyEnded(end) => self.links[end].local_busy_ended(now),
            Step::Wait(milliseconds) => self.wait(Duration::from_millis(milliseconds)),
            Step::Stop(end) => self.links[end].stop(),
            // Fails unless the link is out of service.
            Step::Start(end) => drop(self.links[end].start(now)),
            Step::Emergency(end) => self.links[end].emergency(now),
            Step::Restart => self.notify(SctpNotification::Restarted {
                outbound_streams: 2,
            }),
        }
        self.collect();
    }
}

proptest! {
    /// RFC 4165, section 4.1.4: outages and congestions of both ends neither lose nor repeat messages
    #[test]
    fn outages_and_congestions_lose_nothing(steps in vec(traffic(), 0..120)) {
        let mut pair = Pair::in_service();
        for (value, step) in (0..).zip(&steps) {
            pair.step(step, value);
        }
        pair.recover();
        prop_assert!(pair.are(LinkState::InService));
        pair.wait(Duration::from_secs(10));
        prop_assert!(pair.are(LinkState::InService));
        let [to_1, to_0] = pair.sent;
        prop_assert_eq!(pair.received, [to_0, to_1]);
    }

    /// RFC 4165, section 4.2.3: a changeover at any time neither loses nor repeats messages
    #[test]
    fn changeover_loses_nothing(steps in vec(traffic(), 0..80)) {
        let mut pair = Pair::in_service();
        for (value, step) in (0..).zip(&steps) {
            pair.step(step, value);
        }
        pair.notify(SctpNotification::Down);
        for end in 0..2 {
            let bsnt = pair.links[1 - end].retrieve_bsnt();
            let retrieved = pair.links[end].retrieve(Retrieval::After(bsnt));
            let mut messages = pair.received[1 - end].clone();
            messages.extend(retrieved.expect("out of service"));
            prop_assert_eq!(&messages, &pair.sent[end]);
        }
    }

    /// RFC 4165, section 4.1.3: after any requests, losses and delays the ends align
    #[test]
    fn ends_align_after_anything(steps in vec(any_step(), 0..100)) {
        let mut pair = Pair::new();
        for (value, step) in (0..).zip(&steps) {
            pair.step(step, value);
        }
        for link in &mut pair.links {
            link.stop();
        }
        pair.recover();
        pair.settle();
        pair.received = Default::default();
        pair.sent = Default::default();
        pair.align();
        pair.send(0, 1);
        pair.send(1, 2);
        pair.wait(Duration::from_secs(5));
        prop_assert!(pair.are(LinkState::InService));
        prop_assert_eq!(pair.received, [vec![msu(2)], vec![msu(1)]]);
    }

    /// RFC 4165, section 4: any messages of the peer in any state have bounded answers
    #[test]
    fn any_messages_have_bounded_answers(
        steps in vec((0..3_u16, 0..11_u32, 0..4_u32, 0..4_u32, 0..3_000_u64), 0..200),
        local in vec(0..7_u8, 200),
    ) {
        let mut link = Link::new(LinkConfig::default()).expect("a valid configuration");
        let mut now = Time::from_millis(1);
        link.handle_sctp(now, UP);
        while link.poll_transmit().is_some() {}
        let number = |value| SequenceNumber::MAX.add(value);
        let mut waiting = 0;
        for ((stream, kind, bsn, fsn, wait), request) in steps.into_iter().zip(local) {
            match request {
                0 | 1 => drop(link.start(now)),
                2 => link.local_processor_outage(),
                3 => link.local_processor_recovered(now),
                4 => waiting += u32::from(link.send(now, msu(7)).is_ok()),
                _ => {}
            }
            let filler = Bytes::new;
            let status = match kind {
                1 => Some(LinkStatus::Alignment),
                2 => Some(LinkStatus::ProvingNormal(filler())),
                3 => Some(LinkStatus::ProvingEmergency(filler())),
                4 => Some(LinkStatus::Ready),
                5 => Some(LinkStatus::ProcessorOutage),
                6 => Some(LinkStatus::ProcessorRecovered),
                7 => Some(LinkStatus::Busy),
                8 => Some(LinkStatus::BusyEnded),
                9 => Some(LinkStatus::OutOfService),
                _ => None,
            };
            let data = (kind == 0).then(|| msu(fsn));
            let body = status.map_or(Body::UserData(data), Body::LinkStatus);
            let message = Message { bsn: number(bsn), fsn: number(fsn), body };
            link.handle_message(now, stream, message);
            now += Duration::from_millis(wait);
            if link.poll_timeout().is_some_and(|at| at <= now) {
                link.handle_timeout(now);
            }
            prop_assert!(link.poll_timeout().is_none_or(|at| at > now));
            let mut answers = 0;
            while let Some(transmit) = link.poll_transmit() {
                transmit.message.encode().expect("a message that fits");
                answers += 1;
            }
            // Messages of MTP3, and a few of each input.
            prop_assert!(answers <= waiting + 8 + 64);
            while link.poll_indication().is_some() {}
        }
    }
}
