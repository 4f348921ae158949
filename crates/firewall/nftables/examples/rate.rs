//! Transactions per second of the middlebox with the kernel's packet filter, on one core, without a
//! network: PER, refreshing PLC and closing PLC, with encoding and checks.
//!
//! `cargo run --release -p carrick-nftables --example rate [RULES [TRANSACTIONS [STATE-FOLDER]]]`, as root.
//! It uses a separate network namespace, which is removed.

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("rate: nf_tables exists on Linux only");
    std::process::exit(1);
}

#[cfg(target_os = "linux")]
fn main() {
    if let Err(error) = linux::run() {
        eprintln!("rate: {error}");
        std::process::exit(1);
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::net::Ipv4Addr;
    use std::path::Path;
    use std::time::{Instant, SystemTime};

    use carrick_nftables::{NftablesBackend, NftablesConfig};
    use carrick_simco::Time;
    use carrick_simco::agent::{Agent, AgentSettings};
    use carrick_simco::message::{
        AddressTuple, Direction, EnableRequest, FromMiddlebox, Lifetime, Location, PerParameters,
        PolicyRuleId, PortParity, Reply, Request, TransactionId,
    };
    use carrick_simco::middlebox::{
        AgentConfig, Connection, Middlebox, MiddleboxConfig, SessionId, SessionOutput,
    };
    use carrick_simco::session::Identity;
    use carrick_simco::state::{ClockReadings, FileJournal, Journal, RuleChange};
    use nix::sched::{CloneFlags, unshare};

    /// Requests handled before their changes are written and their replies sent.
    const BATCH: usize = 32;

    struct Bench {
        middlebox: Middlebox<NftablesBackend>,
        journal: Option<FileJournal>,
        session: SessionId,
        started: Instant,
        waiting: usize,
        rules: Vec<PolicyRuleId>,
    }

    impl Bench {
        fn now(&self) -> Time {
            Time::ZERO + self.started.elapsed()
        }

        fn handle(&mut self, request: &Request) -> Result<(), Box<dyn Error>> {
            let message = request.to_bytes(TransactionId(self.waiting as u32));
            let now = self.now();
            self.middlebox
                .handle_message(now, self.session, 0, &message);
            self.waiting += 1;
            if self.waiting == BATCH {
                self.flush()?;
            }
            Ok(())
        }

        fn flush(&mut self) -> Result<(), Box<dyn Error>> {
            let moment = ClockReadings {
                time: self.now(),
                wall: SystemTime::now(),
                boot: None,
            };
            while let Some(event) = self.middlebox.poll_event() {
                let change = RuleChange::of(&self.middlebox, &event);
                if let (Some(change), Some(journal)) = (change, &mut self.journal) {
                    journal.record(&moment, &change);
                }
            }
            if let Some(journal) = &mut self.journal {
                journal.commit()?;
            }
            while let Some(SessionOutput::Send { message, .. }) =
                self.middlebox.poll_output(self.session)
            {
                match FromMiddlebox::parse(&message) {
                    Ok((_, FromMiddlebox::Reply(Reply::Enabled(enabled)))) => {
                        self.rules.push(enabled.rule);
                    }
                    Ok((_, FromMiddlebox::Reply(Reply::LifetimeChanged(_) | Reply::Deleted))) => {}
                    other => return Err(format!("unexpected: {other:?}").into()),
                }
            }
            self.waiting = 0;
            Ok(())
        }
    }

    /// The `n`th flow of UDP.
    fn pinhole(n: u32) -> Request {
        let end = |location, first: u8| {
            let [_, a, b, c] = (n / 50_000).to_be_bytes();
            let address = Ipv4Addr::from([first, a, b, c]);
            let port = (n % 50_000 + 1024) as u16;
            AddressTuple::single(location, 17, address.into(), port)
        };
        Request::Enable(EnableRequest {
            parameters: PerParameters {
                parity: PortParity::Any,
                direction: Direction::Both,
            },
            internal: end(Location::Internal, 10),
            external: end(Location::External, 20),
            lifetime: Lifetime(600),
            group: None,
        })
    }

    fn begin(state: Option<&Path>) -> Result<Bench, Box<dyn Error>> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|e| format!("{e}: run as root"))?;
        let name = Identity::new("load").ok_or("no name")?;
        let agent = AgentConfig {
            max_rules: 10_000_000,
            ..AgentConfig::new(name.clone(), None)
        };
        let config = MiddleboxConfig {
            agents: vec![agent],
            anonymous: Some(name.clone()),
            ..MiddleboxConfig::packet_filter(name)
        };
        let backend = NftablesBackend::open(NftablesConfig {
            keep: false,
            ..NftablesConfig::default()
        })?;
        let mut middlebox = Middlebox::new(config, backend, [1; 32]);
        let (journal, recovered) = match state {
            Some(folder) => {
                let (journal, recovered) = FileJournal::open(folder, [0; 8])?;
                (Some(journal), recovered)
            }
            None => (None, carrick_simco::state::RecoveredState::default()),
        };
        let moment = ClockReadings {
            time: Time::ZERO,
            wall: SystemTime::now(),
            boot: None,
        };
        middlebox.restore(&moment, &recovered)?;
        let session = middlebox.connected(Time::ZERO, &Connection::plain(1));
        let mut agent = Agent::new(AgentSettings::default(), [2; 32]);
        agent.connected(Time::ZERO, 1);
        while let Some((stream, message)) = agent.poll_transmit() {
            middlebox.handle_message(Time::ZERO, session, stream, &message);
            while middlebox.poll_output(session).is_some() {}
        }
        Ok(Bench {
            middlebox,
            journal,
            session,
            started: Instant::now(),
            waiting: 0,
            rules: Vec::new(),
        })
    }

    pub(crate) fn run() -> Result<(), Box<dyn Error>> {
        let mut arguments = std::env::args().skip(1);
        let mut number = |default: u32| match arguments.next() {
            Some(text) => text
                .parse()
                .map_err(|_| format!("{text:?} is not a number")),
            None => Ok(default),
        };
        let (live, count) = (number(100_000)?, number(100_000)?);
        let state = arguments.next();
        let mut bench = begin(state.as_deref().map(Path::new))?;
        for n in 0..live {
            bench.handle(&pinhole(n))?;
        }
        bench.flush()?;
        let elements = bench.middlebox.backend().elements();
        println!("{live} rules, {elements} elements in the kernel");
        let change = |rule, seconds| Request::ChangeLifetime {
            rule,
            lifetime: Lifetime(seconds),
        };
        let measure = |bench: &mut Bench, what: &str, requests: Vec<Request>| {
            let (begin, total) = (Instant::now(), requests.len());
            for request in &requests {
                bench.handle(request)?;
            }
            bench.flush()?;
            let rate = total as f64 / begin.elapsed().as_secs_f64();
            println!("{what:8} {rate:9.0} transactions/s");
            Ok::<(), Box<dyn Error>>(())
        };
        bench.rules.clear();
        let open = (live..live + count).map(pinhole).collect();
        measure(&mut bench, "PER", open)?;
        let rules = bench.rules.clone();
        let refresh = rules.iter().map(|rule| change(*rule, 3600)).collect();
        measure(&mut bench, "refresh", refresh)?;
        let close = rules.iter().map(|rule| change(*rule, 0)).collect();
        measure(&mut bench, "end", close)?;
        assert_eq!(bench.middlebox.rules().len(), live as usize);
        Ok(())
    }
}
