//! Restart of a middlebox on the packet filter.

use std::time::{Duration, SystemTime};

use carrick_nftables::{NftablesBackend, NftablesConfig};
use carrick_simco::Time;
use carrick_simco::agent::{Agent, AgentSettings};
use carrick_simco::backend::{Backend as _, BackendError, Element, Flow, PortPool};
use carrick_simco::message::{
    AddressTuple, Direction, EnableRequest, FromMiddlebox, Lifetime, Location, PerParameters,
    PolicyRuleId, PortParity, Reply, Request, TransactionId,
};
use carrick_simco::middlebox::{
    AgentConfig, Connection, Middlebox, MiddleboxConfig, SessionId, SessionOutput,
};
use carrick_simco::session::Identity;
use carrick_simco::state::{ClockReadings, FileJournal, Journal as _, RuleChange};

use crate::network::{LONG, Network, TCP, UDP, at, flow, inside, outside, translator};

#[test]
#[ignore = "needs root"]
fn restart_keeps_known_elements_only() {
    let network = Network::new();
    let pool = PortPool::new(translator(false, 0).ip(), 4000..=4100);
    let config = NftablesConfig {
        translation: vec![pool],
        ..NftablesConfig::default()
    };
    let mut filter = network.filter(config.clone());
    let [stays, goes, longer, new] =
        [100, 101, 102, 103].map(|port| flow(false, UDP, port, Direction::Both));
    let pattern = |version| {
        let any = |location| AddressTuple {
            location,
            protocol: TCP,
            scope: carrick_simco::message::Scope::ProtocolsOnly(version),
        };
        carrick_simco::backend::pattern_of(&any(Location::Internal), &any(Location::External))
    };
    let wild = Element::Allow(
        pattern(carrick_simco::message::IpVersion::V4),
        Direction::Both,
    );
    let block = Element::Block(pattern(carrick_simco::message::IpVersion::V6));
    let translated = |port| {
        Element::Flow(Flow {
            protocol: UDP,
            internal: inside(false, 300),
            external: outside(false, 300),
            outside: Some(translator(false, port)),
            direction: Direction::Both,
        })
    };
    let before = [stays, goes, longer, wild, block, translated(4000)];
    filter.add(at(0), &before, Lifetime(60)).unwrap();
    let passes = |port| network.both_ways(inside(false, port), outside(false, port));
    assert_eq!(passes(100), [true; 2]);
    // The middlebox crashes; the kernel continues.
    drop(filter);
    assert_eq!(passes(100), [true; 2]);
    let mut filter = network.open(config.clone());
    assert_eq!(passes(100), [true; 2], "opening changes nothing");
    let after = [
        (stays, Lifetime(60)),
        (longer, Lifetime(1000)),
        (new, Lifetime(60)),
        (translated(4001), Lifetime(60)),
    ];
    filter.reconcile(at(0), &after).unwrap();
    assert_eq!(
        [100, 101, 102, 103].map(passes),
        [[true; 2], [false; 2], [true; 2], [true; 2]]
    );
    let traffic = filter.traffic(&[stays]).unwrap().unwrap();
    assert_eq!(traffic.packets, 8, "two packets before each step");
    assert!(
        network
            .connect(inside(false, 1), outside(false, 1))
            .is_none()
    );
    let rules = network.nft("list ruleset");
    assert!(rules.contains("10.81.2.1 . 4001") && !rules.contains("10.81.2.1 . 4000"));
    let seconds = |port: &str| {
        let line = rules.lines().find(|line| line.contains(port));
        let expires = line.unwrap().split("expires ").nth(1).unwrap();
        expires.contains('m')
    };
    assert!(seconds("10.81.1.2 . 102"), "1000 s are shown in minutes");
    drop(filter);
    // With a chain of another priority, the sets keep their elements.
    let other = NftablesConfig {
        priority: -5,
        ..config
    };
    let filter = network.open(other);
    assert_eq!(passes(100), [true; 2]);
    assert!(network.nft("list ruleset").contains("priority filter - 5"));
    filter.remove_table().unwrap();
    assert_eq!(network.nft("list ruleset"), "");
}

#[test]
#[ignore = "needs root"]
fn flushed_table_is_detected() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    network.nft("flush ruleset");
    let element = [flow(false, UDP, 100, Direction::Both)];
    let error = filter.add(at(0), &element, LONG).unwrap_err();
    assert!(error.to_string().contains("restart the middlebox"));
}

#[test]
#[ignore = "needs root"]
fn removal_from_a_missing_table_fails() {
    let network = Network::new();
    let mut filter = network.filter(NftablesConfig::default());
    let element = [flow(false, UDP, 100, Direction::Both)];
    filter.add(at(0), &element, LONG).unwrap();
    network.nft("flush ruleset");
    assert_eq!(
        filter.remove(at(0), &element),
        Err(BackendError::NotEnforced)
    );
}

#[test]
#[ignore = "needs root"]
fn too_small_limits_name_the_needed_number() {
    let network = Network::new();
    let pattern = |port| {
        let any = |location| AddressTuple::single(location, UDP, inside(false, 0).ip(), port);
        let (internal, external) = (any(Location::Internal), any(Location::External));
        carrick_simco::backend::pattern_of(&internal, &external)
    };
    let elements: Vec<(Element, Lifetime)> = [1, 2, 3]
        .into_iter()
        .map(|n| Element::Allow(pattern(n), Direction::Both))
        .chain([1, 2, 3, 4].map(|n| Element::Block(pattern(n))))
        .chain([1, 2, 3, 4, 5].map(|n| flow(false, UDP, n, Direction::Outbound)))
        .map(|element| (element, LONG))
        .collect();
    let enough = NftablesConfig {
        max_patterns: 3,
        max_blocks: 4,
        max_elements: 5,
        ..NftablesConfig::default()
    };
    for (config, needed, key) in [
        (
            NftablesConfig {
                max_patterns: 1,
                ..enough.clone()
            },
            "3",
            "patterns",
        ),
        (
            NftablesConfig {
                max_blocks: 1,
                ..enough.clone()
            },
            "4",
            "disable-rules",
        ),
        (
            NftablesConfig {
                max_elements: 1,
                ..enough.clone()
            },
            "5",
            "elements",
        ),
    ] {
        let mut filter = network.open(config);
        let error = filter.reconcile(at(0), &elements).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
        assert!(
            error.contains(&format!("allow at least {needed}")),
            "{error}"
        );
    }
    network.open(enough).reconcile(at(0), &elements).unwrap();
}

#[test]
#[ignore = "needs root"]
fn expired_elements_do_not_break_a_change() {
    for update_timeouts in [true, false] {
        let network = Network::new();
        let mut filter = network.filter(NftablesConfig {
            update_timeouts,
            ..NftablesConfig::default()
        });
        let [ended, current, stuck] = [100, 101, 102].map(|p| flow(false, UDP, p, Direction::Both));
        filter.add(at(0), &[ended], Lifetime(1)).unwrap();
        filter.add(at(0), &[current, stuck], LONG).unwrap();
        std::thread::sleep(Duration::from_millis(1300));
        let passes = |port| network.both_ways(inside(false, port), outside(false, port));
        filter.remove(at(2), &[ended, current]).unwrap();
        assert_eq!(
            [100, 101, 102].map(passes),
            [[false; 2], [false; 2], [true; 2]]
        );
        assert_eq!(filter.elements(), 2, "out and in");
    }
}

/// Middlebox on the packet filter, with a journal and a session of an agent.
struct RunningMiddlebox {
    middlebox: Middlebox<NftablesBackend>,
    journal: FileJournal,
    session: SessionId,
    started: SystemTime,
}

impl RunningMiddlebox {
    fn begin(network: &Network, folder: &std::path::Path, config: NftablesConfig) -> Self {
        let (journal, recovered) = FileJournal::open(folder, [1; 8]).unwrap();
        let name = Identity::new("agent").unwrap();
        let mut agent = AgentConfig::new(name.clone(), None);
        agent.rights.wildcards = true;
        let settings = MiddleboxConfig {
            agents: vec![agent],
            anonymous: Some(name.clone()),
            ..MiddleboxConfig::packet_filter(name)
        };
        let mut middlebox = Middlebox::new(settings, network.open(config), [1; 32]);
        let started = SystemTime::now();
        let moment = ClockReadings {
            time: Time::ZERO,
            wall: started,
            boot: None,
        };
        middlebox.restore(&moment, &recovered).unwrap();
        let session = middlebox.connected(Time::ZERO, &Connection::plain(1));
        let mut agent = Agent::new(AgentSettings::default(), [2; 32]);
        agent.connected(Time::ZERO, 1);
        while let Some((stream, message)) = agent.poll_transmit() {
            middlebox.handle_message(Time::ZERO, session, stream, &message);
            while let Some(SessionOutput::Send { stream, message }) = middlebox.poll_output(session)
            {
                agent.handle_message(Time::ZERO, stream, &message);
            }
        }
        Self {
            middlebox,
            journal,
            session,
            started,
        }
    }

    fn now(&self) -> ClockReadings {
        let wall = SystemTime::now();
        let since = wall.duration_since(self.started).unwrap_or_default();
        ClockReadings {
            time: Time::ZERO + since,
            wall,
            boot: None,
        }
    }

    fn commit(&mut self) {
        let now = self.now();
        while let Some(event) = self.middlebox.poll_event() {
            if let Some(change) = RuleChange::of(&self.middlebox, &event) {
                self.journal.record(&now, &change);
            }
        }
        self.journal.commit().unwrap();
    }

    fn ask(&mut self, request: &Request) -> Reply {
        let message = request.to_bytes(TransactionId(5));
        let now = self.now().time;
        self.middlebox
            .handle_message(now, self.session, 0, &message);
        self.commit();
        let Some(SessionOutput::Send { message, .. }) = self.middlebox.poll_output(self.session)
        else {
            panic!("no reply to {request:?}");
        };
        match FromMiddlebox::parse(&message).unwrap() {
            (_, FromMiddlebox::Reply(reply)) => reply,
            (_, other) => panic!("{other:?}"),
        }
    }

    fn enable(&mut self, port: u16, seconds: u32) -> PolicyRuleId {
        let tuple = |location, address: std::net::SocketAddr| {
            AddressTuple::single(location, UDP, address.ip(), address.port())
        };
        self.enable_between(
            tuple(Location::Internal, inside(false, port)),
            tuple(Location::External, outside(false, port)),
            Direction::Both,
            seconds,
        )
    }

    /// Enables packets from any external port to an internal one.
    fn enable_from_any(&mut self, port: u16, seconds: u32) -> PolicyRuleId {
        let (internal, external) = (inside(false, port), outside(false, 0));
        self.enable_between(
            AddressTuple::single(Location::Internal, UDP, internal.ip(), port),
            AddressTuple::single(Location::External, UDP, external.ip(), 0),
            Direction::Inbound,
            seconds,
        )
    }

    fn enable_between(
        &mut self,
        internal: AddressTuple,
        external: AddressTuple,
        direction: Direction,
        seconds: u32,
    ) -> PolicyRuleId {
        let request = Request::Enable(EnableRequest {
            parameters: PerParameters {
                parity: PortParity::Any,
                direction,
            },
            internal,
            external,
            lifetime: Lifetime(seconds),
            group: None,
        });
        match self.ask(&request) {
            Reply::Enabled(enabled) => enabled.rule,
            reply => panic!("{reply:?}"),
        }
    }

    fn expire(&mut self) {
        let now = self.now().time;
        self.middlebox.handle_timeout(now);
        self.commit();
    }
}

#[test]
#[ignore = "needs root"]
fn rules_survive_the_middlebox() {
    let network = Network::new();
    let folder = std::env::temp_dir().join(format!("carrick-nftables-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let passes = |port| network.both_ways(inside(false, port), outside(false, port));
    let mut run = RunningMiddlebox::begin(&network, &folder, NftablesConfig::default());
    let long = run.enable(100, 600);
    run.enable(101, 2);
    let twins = [(); 2].map(|()| run.enable(102, 600));
    assert_eq!([100, 101, 102].map(passes), [[true; 2]; 3]);
    drop(run);
    std::thread::sleep(Duration::from_millis(2200));
    let mut run = RunningMiddlebox::begin(&network, &folder, NftablesConfig::default());
    assert_eq!(
        [100, 101, 102].map(passes),
        [[true; 2], [false; 2], [true; 2]]
    );
    let mut end = |rule, port| {
        let request = Request::ChangeLifetime {
            rule,
            lifetime: Lifetime(0),
        };
        assert_eq!(run.ask(&request), Reply::Deleted);
        passes(port)
    };
    assert_eq!(end(twins[0], 102), [true; 2]);
    assert_eq!(end(twins[1], 102), [false; 2]);
    assert_eq!(end(long, 100), [false; 2]);
    run.enable(103, 1);
    std::thread::sleep(Duration::from_millis(1100));
    run.expire();
    assert_eq!(passes(103), [false; 2]);
    assert_eq!(run.middlebox.backend().elements(), 0);
    assert!(!network.nft("list ruleset").contains("elements"));
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
#[ignore = "needs root"]
fn kernel_expires_rules_during_downtime() {
    let network = Network::new();
    let folder = std::env::temp_dir().join(format!("carrick-down-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let passes = |port| network.both_ways(inside(false, port), outside(false, port));
    let inward = |port| passes(port)[1];
    let mut run = RunningMiddlebox::begin(&network, &folder, NftablesConfig::default());
    run.enable(100, 600);
    run.enable(101, 2);
    let prolonged = run.enable(102, 2);
    run.enable_from_any(103, 600);
    run.enable_from_any(104, 2);
    let longer = Request::ChangeLifetime {
        rule: prolonged,
        lifetime: Lifetime(600),
    };
    assert_eq!(run.ask(&longer), Reply::LifetimeChanged(Lifetime(600)));
    assert_eq!([100, 101, 102, 103, 104].map(inward), [true; 5]);
    drop(run);
    // Without a middlebox the kernel removes it: the fail-safe is 5 s later.
    std::thread::sleep(Duration::from_millis(7500));
    assert_eq!(
        [100, 101, 102, 103, 104].map(inward),
        [true, false, true, true, false]
    );
    let rules = network.nft("list ruleset");
    assert!(!rules.contains("10.81.1.2 . 101"), "{rules}");
    let mut run = RunningMiddlebox::begin(&network, &folder, NftablesConfig::default());
    assert_eq!(run.middlebox.rules().len(), 3);
    assert_eq!(
        [100, 101, 102, 103, 104].map(inward),
        [true, false, true, true, false]
    );
    let left: Vec<PolicyRuleId> = run.middlebox.rules().iter().map(|rule| rule.id).collect();
    for rule in left {
        let lifetime = Lifetime(0);
        run.ask(&Request::ChangeLifetime { rule, lifetime });
    }
    let rules = network.nft("list ruleset");
    assert!(!rules.contains("expires"), "{rules}");
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
#[ignore = "needs root"]
fn kernel_expires_shortened_rules() {
    let network = Network::new();
    let folder = std::env::temp_dir().join(format!("carrick-short-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    for update_timeouts in [true, false] {
        let config = NftablesConfig {
            update_timeouts,
            ..NftablesConfig::default()
        };
        let inward = |port| network.both_ways(inside(false, port), outside(false, port))[1];
        let mut run = RunningMiddlebox::begin(&network, &folder, config.clone());
        let shortened = run.enable(100, 3600);
        let wild = run.enable_from_any(101, 3600);
        let longest = run.enable(102, 3600);
        run.enable(102, 2);
        run.enable(103, 3600);
        let short = run.enable(103, 3600);
        let mut change = |rule, seconds| {
            let lifetime = Lifetime(seconds);
            run.ask(&Request::ChangeLifetime { rule, lifetime })
        };
        for rule in [shortened, wild, short] {
            assert_eq!(change(rule, 2), Reply::LifetimeChanged(Lifetime(2)));
        }
        // The longest of two rules of one flow.
        assert_eq!(change(longest, 0), Reply::Deleted);
        let ports = [100, 101, 102, 103];
        assert_eq!(ports.map(inward), [true; 4]);
        drop(run);
        std::thread::sleep(Duration::from_millis(7500));
        assert_eq!(ports.map(inward), [false, false, false, true]);
        let mut run = RunningMiddlebox::begin(&network, &folder, config);
        assert_eq!(run.middlebox.rules().len(), 1);
        let left = run.middlebox.rules().iter().next().unwrap().id;
        let lifetime = Lifetime(0);
        let ended = run.ask(&Request::ChangeLifetime {
            rule: left,
            lifetime,
        });
        assert_eq!(ended, Reply::Deleted);
        let _ = std::fs::remove_dir_all(&folder);
    }
}
