//! Runs one world from its seed to its end, and judges it.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use carrick_lab::sctp_host::{SctpHost, core_time};
use carrick_lab::seed::derive_bytes;
use carrick_netsim::{Direction, Network, NodeId};
use carrick_proto::{AssociationConfig, CloseReason, Endpoint, EndpointConfig};

use super::extras::Extras;
use super::ledger::{Ledger, Seen};
use super::party::{Party, REASON, Setting};
use super::plan::{Ending, Plan};
use super::script::{Script, net_time};
use super::settings::settings;
use super::topology::{Built, Topology};
use super::trace::TraceHash;
use super::tuning::tunings;
use super::upheaval::{addresses_ever, is_due};

/// Virtual time without any progress after which a world counts as hanging: longer than any chain
/// of timeouts that a world of these settings makes plausible.
const HANGS_AFTER: Duration = Duration::from_secs(2 * 3600);

/// Virtual time after the end in which the last association must go.
const GONE_WITHIN: Duration = Duration::from_secs(3600);

/// Virtual time after the end in which the last timer must have run out: longer than any of them.
const QUIET_WITHIN: Duration = Duration::from_secs(2_000_000);

/// The two SCTP ports.
const PORTS: [u16; 2] = [5000, 38_412];

/// How closely a world is looked at.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch<'a> {
    /// Prints what happens.
    pub(crate) verbose: bool,
    /// Writes all packets at the hosts' interfaces.
    pub(crate) capture: Option<&'a Path>,
    /// Hashes the packets.
    pub(crate) hash: bool,
}

/// What a good world tells.
pub(crate) struct Report {
    pub(crate) ending: &'static str,
    pub(crate) seen: Seen,
    /// Packets sent by both hosts.
    pub(crate) packets: u64,
    pub(crate) seconds: f64,
    pub(crate) hash: u64,
}

pub(super) type Host = SctpHost<Party>;

/// A world while it runs.
pub(super) struct World {
    seed: u64,
    pub(super) plan: Plan,
    pub(super) topology: Topology,
    pub(super) extras: Extras,
    /// How many upheavals have been.
    pub(super) upheavals: usize,
    /// What was taken in upheavals has been given back.
    pub(super) merciful: bool,
    pub(super) built: Built,
    pub(super) ledger: Rc<RefCell<Ledger>>,
    hash: TraceHash,
    finished: bool,
    restarted: bool,
    /// When both programs were done.
    end: carrick_netsim::Time,
}

/// Runs the world of `seed`.
///
/// # Errors
/// The first violation.
pub(crate) fn run(seed: u64, watch: Watch<'_>) -> Result<Report, String> {
    let mut world = World::new(seed, watch)?;
    world.live();
    world.settle();
    world.judge();
    if watch.capture.is_some() {
        let written = world.built.net.finish_captures();
        written.map_err(|error| format!("capture: {error}"))?;
    }
    let failure = world.ledger.borrow_mut().failure.take();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let net = &world.built.net;
    let sent = world.built.hosts.map(|host| net.node_stats(host).sent);
    let seen = world.ledger.borrow().seen;
    Ok(Report {
        ending: world.plan.ending.name(),
        seen,
        packets: sent.iter().sum(),
        seconds: world.end.as_secs_f64(),
        hash: world.hash.value(),
    })
}

impl World {
    fn new(seed: u64, watch: Watch<'_>) -> Result<Self, String> {
        let plan = Plan::new(seed);
        let topology = Topology::new(seed, &plan);
        let extras = Extras::new(seed, &plan, &topology);
        let configs = [0, 1].map(|side| settings(seed, side, &plan, &topology, &extras));
        if watch.verbose {
            println!("{plan:#?}\n{topology:#?}\n{extras:#?}\n{configs:#?}");
        }
        let mut built = topology.build(seed, &plan.ending);
        let ledger = Rc::new(RefCell::new(Ledger::new(seed, watch.verbose)));
        ledger.borrow_mut().keys = extras.key_books();
        let found =
            |c: &AssociationConfig| c.mtu.path_mtu_discovery.map_or(0, |d| d.max_probed_mtu);
        let largest = |c: &AssociationConfig| c.mtu.path_mtu.max(found(c));
        let largest_packet = largest(&configs[0]).max(largest(&configs[1]));
        for side in 0..2 {
            let setting = Setting {
                seed,
                side,
                peer_port: PORTS[1 - side],
                peer_encapsulation: plan.encapsulation.map(|ports| ports[1 - side]),
                plain: plan.plain,
                peer_addresses: addresses_ever(&topology, 1 - side),
                config: configs[side].clone(),
                slack: largest_packet + configs[side].buffers.message_overhead,
            };
            let mut script = Script::new(seed, side, &plan, &topology, configs[side].mtu.path_mtu);
            if extras.sessions.any() && plan.ending.begins_anew() {
                script.peers = vec![topology.addresses[1 - side][0]];
            }
            let fixed = extras.rebinds(1 - side) || extras.sessions.any();
            let tuned = tunings(seed, side, &plan, fixed);
            script.operations.extend(tuned);
            extras.meddle(side, &mut script.operations);
            if watch.verbose {
                println!("{script:?}");
            }
            let party = Party::new(setting, script, Rc::clone(&ledger));
            let host = host(seed, side, &plan, &topology, &extras, &configs[side], party)?;
            built
                .net
                .set_node_program(built.hosts[side], Box::new(host));
        }
        let hash = TraceHash::default();
        if watch.hash || watch.verbose {
            hash.watch(&mut built.net, watch.verbose);
        }
        if let Some(path) = watch.capture {
            let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
            let result = built.net.capture_all(&built.interfaces, file);
            result.map_err(|error| format!("capture: {error}"))?;
        }
        Ok(Self {
            seed,
            plan,
            topology,
            extras,
            upheavals: 0,
            merciful: false,
            built,
            ledger,
            hash,
            finished: false,
            restarted: false,
            end: carrick_netsim::Time::ZERO,
        })
    }

    pub(super) fn party(&self, side: usize) -> &Party {
        party(&self.built.net, self.built.hosts[side])
    }

    /// Lets the world go on until both programs are done, it failed, or it hangs.
    fn live(&mut self) {
        loop {
            let (hosts, finished) = (self.built.hosts, self.finished);
            let last_life = self.last_life();
            let ledger = Rc::clone(&self.ledger);
            let mut steps = 0_u64;
            let upheaval = self.next_upheaval();
            let (heaved, merciful) = (self.upheavals > 0, self.merciful);
            let now = self.built.net.run_while(|net| {
                steps += 1;
                let parties = hosts.map(|host| party(net, host));
                let over = parties.iter().all(|p| p.is_over());
                let upheaval = upheaval.is_some_and(|u| is_due(net, hosts, &ledger.borrow(), u));
                let mercy = heaved && !merciful && parties.iter().any(|p| p.has_ended());
                let restarts = parties.iter().any(|p| p.restart_due);
                let ends = !finished && parties.iter().all(|p| p.has_sent_all(last_life));
                if over || restarts || ends || upheaval || mercy {
                    return false;
                }
                if steps.is_multiple_of(8) {
                    check_memory(net, hosts);
                }
                let ledger = ledger.borrow();
                let idle = net
                    .now()
                    .saturating_duration_since(net_time(ledger.progress));
                ledger.failure.is_none() && idle < HANGS_AFTER
            });
            if self.restart_if_due() || self.upheave_if_due() || self.relent_if_due() {
                continue;
            }
            if self.finish_if_due() {
                continue;
            }
            if !(0..2).all(|side| self.party(side).is_over()) {
                let state = hosts.map(|host| describe(&self.built.net, host));
                let mut ledger = self.ledger.borrow_mut();
                let since = ledger.progress;
                ledger.fail(format!(
                    "hangs at {now} s, no progress since {since:?}: {state:?}"
                ));
            }
            return;
        }
    }

    fn restart_if_due(&mut self) -> bool {
        let Some(side) = (0..2).find(|side| self.party(*side).restart_due) else {
            return false;
        };
        let now = core_time(self.built.net.now());
        let Ending::Restart { reconnect, .. } = self.plan.ending else {
            return false;
        };
        let pause = Duration::from_millis(self.seed % 300);
        self.ledger.borrow().log(now, side, || "restarts".into());
        let mut config = settings(self.seed, side, &self.plan, &self.topology, &self.extras);
        if config.security.protection.is_some() {
            config.security.protection = Some(self.extras.sealing.offer(true));
        }
        self.extras.sealing.note_restart();
        let connect_at = reconnect.then(|| now + pause);
        let reborn = self.party(side).reborn(connect_at, config.clone());
        let new = host(
            self.seed,
            side,
            &self.plan,
            &self.topology,
            &self.extras,
            &config,
            reborn,
        );
        match new {
            Ok(new) => self
                .built
                .net
                .set_node_program(self.built.hosts[side], Box::new(new)),
            Err(error) => self.ledger.borrow_mut().fail(error),
        }
        self.restarted = true;
        self.finished = false;
        true
    }

    /// The number of the life whose messages are the last.
    fn last_life(&self) -> usize {
        usize::from(self.plan.ending.begins_anew())
    }

    /// Tells both sides that all messages were handed over, once.
    fn finish_if_due(&mut self) -> bool {
        let last = self.last_life();
        let due = !self.finished && (0..2).all(|side| self.party(side).has_sent_all(last));
        if due {
            self.finished = true;
            for host in self.built.hosts {
                self.built
                    .net
                    .with_node(host, |program: &mut Host, now, out| {
                        program.act(now, out, |party, now, _| party.finish(now));
                    });
            }
        }
        due
    }

    /// After the end: nothing may be left, and silence must follow.
    fn settle(&mut self) {
        if self.ledger.borrow().failure.is_some() {
            return;
        }
        self.end = self.built.net.now();
        let end = self.end + GONE_WITHIN;
        let hosts = self.built.hosts;
        self.built.net.run_while(|net| {
            let busy = hosts.iter().any(|host| {
                let program = net.node::<Host>(*host);
                program.endpoint().associations().next().is_some()
                    || !program.application().is_over()
            });
            busy && net.now() < end
        });
        let quiet = self.end + QUIET_WITHIN;
        self.built.net.run_while(|net| net.now() < quiet);
        for side in 0..2 {
            let host = self.built.net.node::<Host>(hosts[side]);
            let left = host.endpoint().associations().count();
            let mut ledger = self.ledger.borrow_mut();
            ledger.check(left == 0, || {
                format!("side {side}: {left} associations are left")
            });
            ledger.check(host.endpoint().poll_timeout().is_none(), || {
                format!("side {side}: a timer runs without association")
            });
            if let Some(sessions) = &host.application().sessions {
                let sessions = sessions.borrow();
                let timer = sessions.poll_timeout(host.endpoint());
                ledger.check(sessions.sessions().count() == 0 && timer.is_none(), || {
                    format!("side {side}: a session is left: {sessions:?}")
                });
            }
        }
    }

    fn judge(&mut self) {
        if self.ledger.borrow().failure.is_some() {
            return;
        }
        self.judge_ends();
        self.judge_counters();
        self.judge_links();
        let mut forgetful = [false; 2];
        match self.plan.ending {
            Ending::Abort { by, .. } => forgetful[by] = true,
            Ending::Restart { side, .. } => forgetful[side] = self.restarted,
            _ => {}
        }
        let graceful = self.plan.ending.is_graceful() && !self.setup_failed();
        let anew = self.plan.ending.begins_anew() && self.restarted;
        let certain = [graceful, anew && !self.setup_failed()];
        let mut ledger = self.ledger.borrow_mut();
        ledger.judge(certain, forgetful, self.restarted);
    }

    /// The set-up may fail where cookies live too shortly, and has to where one side alone has sessions.
    fn setup_failed(&self) -> bool {
        let stale = self.plan.short_cookies
            && (0..2).any(|side| self.party(side).outcome == Some(CloseReason::StaleCookie));
        stale || self.extras.sessions.divide()
    }

    fn judge_ends(&self) {
        let outcomes = [0, 1].map(|side| self.party(side).outcome.clone());
        let mut ledger = self.ledger.borrow_mut();
        let divided = self.extras.sessions.divide();
        if divided {
            let established = ledger.seen.established;
            ledger.check(established == 0, || "only one side has sessions".into());
            ledger.seen.divided = 1;
        }
        for (side, outcome) in outcomes.iter().enumerate() {
            let allowed = match (outcome, self.plan.ending) {
                (Some(CloseReason::StaleCookie), _) => self.plan.short_cookies,
                (None, Ending::Shutdown { .. }) => self.setup_failed(),
                (None, _) | (Some(CloseReason::Shutdown), _) => true,
                // Shut down before it was set up: dropped.
                (Some(CloseReason::AbortedByUser), ending) => !ending.is_graceful(),
                // Without a reason: by shutting down during the set-up, or out of the blue.
                (Some(CloseReason::AbortedByPeer(cause)), Ending::Abort { .. }) => {
                    let limits = self.extras.seals();
                    limits || cause.information.is_empty() || cause.information == REASON
                }
                // The peer had ended already and met a packet that was late; all had arrived, as
                // the messages must show.
                (Some(CloseReason::AbortedByPeer(cause)), Ending::Shutdown { .. }) => {
                    cause.code == 0
                }
                (Some(CloseReason::AbortedByPeer(_)), _) => true,
                (Some(CloseReason::SetupTimedOut), _) if divided => true,
                (Some(CloseReason::LowerLayerLost), Ending::Death { .. }) => {
                    self.extras.sessions.meet()
                }
                (Some(CloseReason::LowerLayerLost), _) => divided,
                (
                    Some(
                        CloseReason::PeerUnreachable
                        | CloseReason::SetupTimedOut
                        | CloseReason::ShutdownTimedOut,
                    ),
                    ending,
                ) => match ending {
                    Ending::Death { .. } => true,
                    Ending::Abort { .. } => self.extras.seals(),
                    _ => false,
                },
                _ => false,
            };
            ledger.check(allowed, || {
                format!("side {side} ended with {outcome:?}, of {outcomes:?}")
            });
        }
    }

    fn judge_counters(&self) {
        let mut ledger = self.ledger.borrow_mut();
        for side in 0..2 {
            let host = self.built.net.node::<Host>(self.built.hosts[side]);
            let (stats, node) = (
                host.endpoint().stats(),
                self.built.net.node_stats(self.built.hosts[side]),
            );
            let damaged = stats.bad_checksum + stats.malformed;
            // A side without sessions takes those of the other one for packets.
            let strange = self.extras.sessions.divide();
            ledger.check(damaged == 0 || self.topology.corrupts || strange, || {
                format!("side {side}: {damaged} packets were damaged on perfect links")
            });
            ledger.check(stats.malformed_chunks == 0, || {
                format!(
                    "side {side}: {} chunks could not be read",
                    stats.malformed_chunks
                )
            });
            ledger.check(stats.forged_cookies == 0 || self.restarted, || {
                format!("side {side}: {} cookies were refused", stats.forged_cookies)
            });
            let stale = self.plan.short_cookies || self.restarted;
            ledger.check(stats.stale_cookies == 0 || stale, || {
                format!("side {side}: {} cookies went stale", stats.stale_cookies)
            });
            ledger.check(stats.closed == stats.established, || {
                format!(
                    "side {side}: {} came up, {} ended",
                    stats.established, stats.closed
                )
            });
            if let Some(sessions) = &host.application().sessions {
                let held_back = sessions.borrow().stats().held_back;
                let left = node.sent + host.unsendable() + held_back;
                ledger.check(stats.packets_sent <= left, || {
                    format!("side {side}: {left} packets left, {stats:?}")
                });
            } else if !self.restarted {
                ledger.check(stats.packets_sent == node.sent + host.unsendable(), || {
                    format!(
                        "side {side}: {} packets sent, {} counted",
                        node.sent, stats.packets_sent
                    )
                });
                let icmp = stats.icmp_accepted + stats.icmp_ignored;
                let told = stats.datagrams_received + icmp + host.unclaimed();
                ledger.check(told == node.received, || {
                    format!(
                        "side {side}: {} packets received, {} and {icmp} counted",
                        node.received, stats.datagrams_received
                    )
                });
            }
            ledger.seen.icmp += stats.icmp_accepted;
        }
    }

    /// No packet appears or vanishes uncounted.
    fn judge_links(&self) {
        let mut ledger = self.ledger.borrow_mut();
        for link in &self.built.links {
            for direction in [Direction::Forward, Direction::Backward] {
                let stats = self.built.net.link_stats(*link, direction);
                let (came, went) = (
                    stats.packets_in + stats.duplicated,
                    stats.packets_delivered + stats.dropped() + stats.packets_inside,
                );
                ledger.check(came == went && stats.packets_inside == 0, || {
                    format!("{link:?} {direction:?} lost count: {stats:?}")
                });
            }
        }
        for host in self.built.hosts {
            let malformed = self.built.net.node_stats(host).dropped_malformed;
            ledger.check(malformed == 0, || {
                format!("{malformed} packets that IP can't carry")
            });
        }
    }
}

fn party(net: &Network, host: NodeId) -> &Party {
    net.node::<Host>(host).application()
}

fn check_memory(net: &Network, hosts: [NodeId; 2]) {
    for host in hosts {
        let program = net.node::<Host>(host);
        let now = core_time(net.now());
        program.application().check(now, program.endpoint());
    }
}

/// What there is to know about a side that hangs.
fn describe(net: &Network, host: NodeId) -> String {
    let program = net.node::<Host>(host);
    let endpoint = program.endpoint();
    let associations: Vec<_> = endpoint
        .associations()
        .map(|id| {
            let paths: Vec<_> = endpoint.paths(id).collect();
            (endpoint.association_stats(id), paths)
        })
        .collect();
    format!(
        "established {}, over {}, {:?}, {associations:?}",
        program.application().was_established(),
        program.application().is_over(),
        endpoint.stats()
    )
}

fn host(
    seed: u64,
    side: usize,
    plan: &Plan,
    topology: &Topology,
    extras: &Extras,
    config: &carrick_proto::AssociationConfig,
    mut party: Party,
) -> Result<Host, String> {
    let incarnation = party.incarnation as u64;
    let endpoint_seed = derive_bytes(seed, &[side as u64, incarnation]);
    let mut endpoint =
        EndpointConfig::new(PORTS[side], topology.addresses[side].clone(), endpoint_seed);
    endpoint.association = config.clone();
    let sessions = extras.sessions.layer(side, incarnation, &mut endpoint);
    party.sessions.clone_from(&sessions);
    let endpoint = Endpoint::new(endpoint).map_err(|error| format!("side {side}: {error}"))?;
    let host = SctpHost::new(endpoint, party);
    let host = match sessions {
        Some(sessions) => host.over(sessions),
        None => host,
    };
    Ok(match plan.encapsulation {
        Some(ports) => host.with_encapsulation(ports[side]),
        None => host,
    })
}
