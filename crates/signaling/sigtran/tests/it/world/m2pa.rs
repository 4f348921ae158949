//! Two links of M2PA, with changeover from one to the other by the MTP3 of the test.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::m2pa::link::{Link, LinkConfig, LinkIndication, LinkState, Retrieval};
use carrick_sigtran::m2pa::{Message, Msu, PAYLOAD_PROTOCOL_ID};

use super::host::{Machine, Outgoing, Program, World};
use crate::m2pa_link::msu;

/// Time from a failure of a link to its next start, T17 of Q.704: messages of the last alignment have arrived by then.
const T17: Duration = Duration::from_secs(1);

/// Ends of links on a host, a link for each peer.
struct Links {
    links: Vec<Link>,
    received: Vec<Msu>,
}

impl Links {
    fn new(count: usize) -> Self {
        // A short proving period leaves more of the world's time for traffic.
        let config = LinkConfig {
            t4_normal: Duration::from_millis(500),
            ..LinkConfig::default()
        };
        let link = |_| Link::new(config.clone()).expect("a valid configuration");
        Self {
            links: (0..count).map(link).collect(),
            received: Vec::new(),
        }
    }
}

impl Machine for Links {
    fn notify(&mut self, now: Time, peer: usize, notification: SctpNotification) {
        self.links[peer].handle_sctp(now, notification);
    }

    fn receive(&mut self, now: Time, peer: usize, stream: u16, octets: &Bytes) {
        let message = Message::decode(octets).expect("a valid message");
        self.links[peer].handle_message(now, stream, message);
    }

    fn poll_outgoing(&mut self, _: Time) -> Option<Outgoing> {
        for link in &mut self.links {
            while let Some(indication) = link.poll_indication() {
                if let LinkIndication::Received(msu) = indication {
                    self.received.push(msu);
                }
            }
        }
        let mut links = self.links.iter_mut().enumerate();
        let (peer, transmit) =
            links.find_map(|(peer, link)| Some((peer, link.poll_transmit()?)))?;
        Some(Outgoing {
            peer,
            stream: transmit.stream,
            unordered: false,
            ppid: PAYLOAD_PROTOCOL_ID,
            octets: transmit.message.encode().expect("a message that fits"),
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.links.iter().filter_map(Link::poll_timeout).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        for link in &mut self.links {
            link.handle_timeout(now);
        }
    }
}

/// MTP3 at both ends of the link set: the central host, and both peers together.
struct Mtp3 {
    world: World,
    /// Link that carries traffic.
    current: usize,
    /// Messages of each end that wait for the link.
    waiting: [Vec<Msu>; 2],
    /// Time at which T17 of each link expires.
    start_at: [Option<Time>; 2],
    sent: [u32; 2],
    /// Number of messages that changeovers retrieved.
    retrieved: usize,
}

impl Mtp3 {
    /// Calls `f` with an end of a link.
    fn link<R>(&mut self, end: usize, link: usize, f: impl FnOnce(&mut Link, Time) -> R) -> R {
        let (host, index) = if end == 0 { (0, link) } else { (1 + link, 0) };
        self.world.with(host, |links: &mut Links, now| {
            f(&mut links.links[index], now)
        })
    }

    fn is_in(&mut self, link: usize, state: LinkState) -> bool {
        (0..2).all(|end| self.link(end, link, |link, _| link.state() == state))
    }

    /// Starts links that are out of service at both ends. If the link with the traffic is, each end retrieves what
    /// the other has not accepted, and sends it on the other link (RFC 4165, section 4.2.3).
    fn manage(&mut self) {
        for link in 0..2 {
            if !self.is_in(link, LinkState::OutOfService) {
                continue;
            }
            if link == self.current {
                for end in 0..2 {
                    let bsnt = self.link(1 - end, link, |link, _| link.retrieve_bsnt());
                    let retrieval = Retrieval::After(bsnt);
                    let mut retrieved = self
                        .link(end, link, |link, _| link.retrieve(retrieval))
                        .expect("out of service");
                    self.retrieved += retrieved.len();
                    retrieved.append(&mut self.waiting[end]);
                    self.waiting[end] = retrieved;
                }
                self.current = 1 - link;
            }
            let now = self.world.now();
            let start_at = *self.start_at[link].get_or_insert(now + T17);
            if now >= start_at {
                self.start_at[link] = None;
                for end in 0..2 {
                    // A link that waits for its association is started already.
                    let _ = self.link(end, link, Link::start);
                }
            }
        }
        let current = self.current;
        if self.is_in(current, LinkState::InService) {
            for end in 0..2 {
                for msu in std::mem::take(&mut self.waiting[end]) {
                    self.link(end, current, |link, now| link.send(now, msu))
                        .expect("a link in service");
                }
            }
        }
    }

    fn send(&mut self, end: usize) {
        let msu = msu(self.sent[end]);
        self.sent[end] += 1;
        self.waiting[end].push(msu);
    }

    fn run(&mut self, milliseconds: usize) {
        // Management notices failures soon.
        for _ in 0..milliseconds.div_ceil(20) {
            self.world.run(Duration::from_millis(20));
            self.manage();
        }
    }
}

/// Runs a world; returns the number of messages that changeovers retrieved.
pub(super) fn run(seed: u64) -> usize {
    let mut world = World::new(seed);
    world.start(0, Links::new(2));
    world.start(1, Links::new(1));
    world.start(2, Links::new(1));
    let mut mtp3 = Mtp3 {
        world,
        current: 0,
        waiting: Default::default(),
        start_at: [None; 2],
        sent: [0; 2],
        retrieved: 0,
    };
    for _ in 0..120 {
        for _ in 0..mtp3.world.below(8) {
            let end = mtp3.world.below(2);
            mtp3.send(end);
        }
        let (peer, path) = (mtp3.world.below(2), mtp3.world.below(2));
        match mtp3.world.below(30) {
            0 | 1 => mtp3.world.set_link(1 + peer, path, false),
            2 => (0..2).for_each(|path| mtp3.world.set_link(1 + peer, path, false)),
            3..=6 => (0..2).for_each(|path| mtp3.world.set_link(1 + peer, path, true)),
            7 => mtp3
                .world
                .with_program(0, |program: &mut Program<Links>, now, endpoint| {
                    program.abort(now, endpoint, peer);
                }),
            8 => mtp3.link(path, peer, |link, _| link.stop()),
            _ => {}
        }
        let pause = 1 + mtp3.world.below(400);
        mtp3.run(pause);
    }
    mtp3.world.heal();
    mtp3.run(60_000);
    let states = [(0, 0), (1, 0), (0, 1), (1, 1)]
        .map(|(end, link)| mtp3.link(end, link, |link, _| link.state()));
    let waiting = mtp3.waiting.iter().map(Vec::len).sum::<usize>();
    assert_eq!(waiting, 0, "link {}: {states:?}", mtp3.current);
    let received = [0, 1, 2].map(|host| {
        mtp3.world.with(host, |links: &mut Links, _| {
            std::mem::take(&mut links.received)
        })
    });
    let [at_central, at_first, at_second] = received;
    let all = |count: u32| (0..count).map(msu).collect::<Vec<_>>();
    // Each message once, and in order: MTP3 sends on one link at a time.
    assert_eq!(at_central, all(mtp3.sent[1]), "from the peers");
    for received in [&at_first, &at_second] {
        assert!(received.is_sorted_by(|a, b| a.sif < b.sif), "order");
    }
    let mut at_peers = [at_first, at_second].concat();
    at_peers.sort_unstable_by(|a, b| a.sif.cmp(&b.sif));
    assert_eq!(at_peers, all(mtp3.sent[0]), "to the peers");
    mtp3.retrieved
}
