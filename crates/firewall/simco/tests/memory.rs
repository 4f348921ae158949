//! Memory used by an agent far above its quotas. In a separate binary, since that is the memory of the whole
//! process.

#![cfg(target_os = "linux")]

use std::net::Ipv4Addr;

use carrick_simco::Time;
use carrick_simco::backend::MemoryBackend;
use carrick_simco::message::{
    AddressTuple, Direction, EnableRequest, FromMiddlebox, Lifetime, Location, NegativeReply,
    PerParameters, PortParity, Reply, Request, TransactionId, VERSION,
};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Middlebox, MiddleboxConfig, SessionId, SessionOutput,
};
use carrick_simco::session::Identity;

/// Requests of the agent that exceeds its quota.
const REQUESTS: u32 = 10_000_000;

/// Maximum number of its rules.
const QUOTA: u32 = 1000;

/// Requests that it sends before it reads the replies.
const AT_ONCE: u32 = 1000;

/// Octets by which the process may grow during the last nine tenths of the requests: less than one
/// octet per request.
const GROWTH: usize = 4 << 20;

/// Maximum memory of the process so far, in octets.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    1024 * kib.unwrap().parse::<usize>().unwrap()
}

/// Returns a distinct flow for each number.
fn pinhole(number: u32) -> EnableRequest {
    let host = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + number % (1 << 23));
    let port = 1 + (number >> 23) as u16;
    let external = Ipv4Addr::new(192, 0, 2, 1);
    EnableRequest {
        parameters: PerParameters {
            parity: PortParity::Any,
            direction: Direction::Both,
        },
        internal: AddressTuple::single(Location::Internal, 17, host.into(), port),
        external: AddressTuple::single(Location::External, 17, external.into(), port),
        lifetime: Lifetime(60),
        group: None,
    }
}

/// Middlebox with two agents that the transport authenticates.
struct World {
    middlebox: Middlebox<MemoryBackend>,
}

impl World {
    fn new() -> Self {
        let [greedy, other] =
            ["greedy", "other"].map(|name| AgentConfig::new(Identity::new(name).unwrap(), None));
        let greedy = AgentConfig {
            max_rules: QUOTA as usize,
            ..greedy
        };
        let config = MiddleboxConfig {
            agents: vec![greedy, other],
            ..MiddleboxConfig::packet_filter(Identity::new("firewall").unwrap())
        };
        Self {
            middlebox: Middlebox::new(config, MemoryBackend::default(), [1; 32]),
        }
    }

    fn send(&mut self, session: SessionId, number: u32, request: &Request) {
        let message = request.to_bytes(TransactionId(number));
        self.middlebox
            .handle_message(Time::ZERO, session, 0, &message);
        while self.middlebox.poll_event().is_some() {}
    }

    fn reply(&mut self, session: SessionId) -> Reply {
        match self.middlebox.poll_output(session) {
            Some(SessionOutput::Send { message, .. }) => {
                match FromMiddlebox::parse(&message).unwrap().1 {
                    FromMiddlebox::Reply(reply) => reply,
                    FromMiddlebox::Notification(reported) => panic!("{reported:?} is not a reply"),
                }
            }
            other => panic!("{other:?} is not a reply"),
        }
    }

    fn open(&mut self, name: &str) -> SessionId {
        let connection = Connection {
            peer: Identity::new(name),
            ..Connection::plain(1)
        };
        let session = self.middlebox.connected(Time::ZERO, &connection);
        let establish = Request::Establish {
            version: VERSION,
            challenge: None,
        };
        self.send(session, 0, &establish);
        assert!(matches!(self.reply(session), Reply::Established(_)));
        session
    }
}

#[test]
fn ten_million_requests_take_bounded_memory() {
    let mut world = World::new();
    let [greedy, other] = ["greedy", "other"].map(|name| world.open(name));
    let (mut granted, mut refused, mut served) = (0, 0, 0);
    let mut early = 0;
    for first in (0..REQUESTS).step_by(AT_ONCE as usize) {
        if first == REQUESTS / 10 {
            early = peak();
        }
        for number in first..first + AT_ONCE {
            world.send(greedy, number, &Request::Enable(pinhole(number)));
        }
        // Another agent opens and closes pinholes meanwhile.
        world.send(other, first, &Request::Enable(pinhole(first)));
        let Reply::Enabled(enabled) = world.reply(other) else {
            panic!("the other agent is refused");
        };
        let end = Request::ChangeLifetime {
            rule: enabled.rule,
            lifetime: Lifetime(0),
        };
        world.send(other, first, &end);
        assert_eq!(world.reply(other), Reply::Deleted);
        served += 1;
        for _ in 0..AT_ONCE {
            match world.reply(greedy) {
                Reply::Enabled(_) => granted += 1,
                Reply::Negative(NegativeReply::NoResources) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(world.middlebox.rules().len() <= QUOTA as usize);
    }
    let grown = peak() - early;
    println!("{grown} octets more after {REQUESTS} requests");
    assert_eq!((granted, refused), (QUOTA, REQUESTS - QUOTA));
    assert_eq!(served, REQUESTS / AT_ONCE);
    assert_eq!(world.middlebox.rules().len(), QUOTA as usize);
    assert_eq!(world.middlebox.backend().live(Time::ZERO).count(), 1000);
    assert!(grown <= GROWTH, "the process grew by {grown} octets");
}
