//! Execution and verification of one world.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use carrick_hosts::core_time;
use carrick_hosts::sctp::{HostRoutes, SctpHost};
use carrick_lab::seed::derive_bytes;
use carrick_netsim::{Direction, Network, NodeId};
use carrick_proto::{AssociationConfig, CloseReason, Endpoint, EndpointConfig};

use super::dice::{Dice, Part};
use super::disruption::{addresses_ever, is_due};
use super::extras::Extras;
use super::ledger::{EventCounts, Ledger};
use super::party::{Party, REASON, Setting};
use super::plan::{Ending, WorldPlan};
use super::script::{Script, net_time};
use super::settings::settings;
use super::topology::{Built, Topology};
use super::trace::TraceHash;
use super::tuning::tunings;

/// Virtual time without progress after which a world counts as stalled: longer than any sequence of
/// timeouts that these settings make plausible.
const HANGS_AFTER: Duration = Duration::from_secs(2 * 3600);

/// Virtual time after the end in which the last association must be removed.
const GONE_WITHIN: Duration = Duration::from_secs(3600);

/// Virtual time after the end in which the last timer must have expired: longer than any timer.
const QUIET_WITHIN: Duration = Duration::from_secs(2_000_000);

/// SCTP ports of the two sides.
const PORTS: [u16; 2] = [5000, 38_412];

/// Outputs of a world.
#[derive(Clone, Copy, Default)]
pub(crate) struct WorldOptions<'a> {
    /// Prints events.
    pub(crate) verbose: bool,
    /// Captures all packets at the hosts' interfaces.
    pub(crate) capture: Option<&'a Path>,
    /// Hashes the packets.
    pub(crate) hash: bool,
    /// Endpoints hand over at random moments.
    pub(crate) hands_over: bool,
}

/// Results of a successful world.
pub(crate) struct Report {
    pub(crate) ending: &'static str,
    pub(crate) seen: EventCounts,
    /// Packets sent by both hosts.
    pub(crate) packets: u64,
    pub(crate) seconds: f64,
    pub(crate) hash: u64,
    /// Handovers of both sides, without those before a restart.
    pub(crate) handovers: u64,
}

pub(super) type Host = SctpHost<Party>;

/// A running world.
pub(super) struct World {
    seed: u64,
    pub(super) plan: WorldPlan,
    pub(super) topology: Topology,
    pub(super) extras: Extras,
    /// Number of disruptions so far.
    pub(super) disruptions: usize,
    /// The resources removed by disruptions have been restored.
    pub(super) restored: bool,
    pub(super) built: Built,
    pub(super) ledger: Rc<RefCell<Ledger>>,
    hash: TraceHash,
    /// Side and number of steps of the network after which it may hand over.
    handover_steps: Dice,
    finished: bool,
    restarted: bool,
    /// Time at which both programs were done.
    end: carrick_netsim::Time,
}

/// Runs the world of `seed`.
///
/// # Errors
/// The first violation.
pub(crate) fn run(seed: u64, watch: WorldOptions<'_>) -> Result<Report, String> {
    let mut world = World::new(seed, watch)?;
    world.live();
    world.settle();
    world.check_results();
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
    let handovers = [0, 1].map(|side| world.party(side).handovers.count);
    Ok(Report {
        handovers: handovers.iter().sum(),
        ending: world.plan.ending.name(),
        seen,
        packets: sent.iter().sum(),
        seconds: world.end.as_secs_f64(),
        hash: world.hash.value(),
    })
}

impl World {
    fn new(seed: u64, watch: WorldOptions<'_>) -> Result<Self, String> {
        let plan = WorldPlan::new(seed);
        let mut topology = Topology::new(seed, &plan);
        let extras = Extras::new(seed, &plan, &topology);
        if extras.sessions.any() {
            // Sessions do not move when routes change.
            topology.follows_routes = false;
        }
        if extras.sessions.any() || !extras.disruptions.is_empty() {
            topology.route_without_policy();
        }
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
                routes: topology.follows_routes.then(HostRoutes::default),
                hands_over: watch.hands_over,
                slack: largest_packet + configs[side].buffers.message_overhead,
            };
            let mut script = Script::new(seed, side, &plan, &topology, configs[side].mtu.path_mtu);
            if extras.sessions.any() && plan.ending.has_second_life() {
                script.peers = vec![topology.addresses[1 - side][0]];
            }
            let fixed = extras.rebinds(1 - side) || extras.sessions.any();
            let tuned = tunings(seed, side, &plan, fixed);
            script.operations.extend(tuned);
            extras.add_operations(side, &mut script.operations);
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
            disruptions: 0,
            restored: false,
            built,
            ledger,
            hash,
            handover_steps: Dice::new(seed, Part::HandoverSteps),
            finished: false,
            restarted: false,
            end: carrick_netsim::Time::ZERO,
        })
    }

    pub(super) fn party(&self, side: usize) -> &Party {
        party(&self.built.net, self.built.hosts[side])
    }

    /// Runs the world until both programs are done, it fails, or it stalls.
    fn live(&mut self) {
        loop {
            let (hosts, finished) = (self.built.hosts, self.finished);
            let last_life = self.last_life();
            let ledger = Rc::clone(&self.ledger);
            let mut steps = 0_u64;
            let patience = self.handover_steps.range(1, 400);
            let disruption = self.next_disruption();
            let (heaved, restored) = (self.disruptions > 0, self.restored);
            let now = self.built.net.run_while(|net| {
                steps += 1;
                let parties = hosts.map(|host| party(net, host));
                let over = parties.iter().all(|p| p.is_over());
                let disruption =
                    disruption.is_some_and(|u| is_due(net, hosts, &ledger.borrow(), u));
                let mercy = heaved && !restored && parties.iter().any(|p| p.has_ended());
                let restarts = parties.iter().any(|p| p.restart_due);
                let ends = !finished && parties.iter().all(|p| p.has_sent_all(last_life));
                if over || restarts || ends || disruption || mercy || steps > patience {
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
            if self.restart_if_due() || self.disrupt_if_due() || self.restore_if_due() {
                continue;
            }
            if self.finish_if_due() || self.offer_handover(steps > patience) {
                continue;
            }
            if !(0..2).all(|side| self.party(side).is_over()) {
                let state = hosts.map(|host| describe(&self.built.net, host));
                let mut ledger = self.ledger.borrow_mut();
                let since = ledger.progress;
                ledger.fail(format!(
                    "stalls at {now} s, no progress since {since:?}: {state:?}"
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
        let after_restart = self.party(side).after_restart(connect_at, config.clone());
        let new = host(
            self.seed,
            side,
            &self.plan,
            &self.topology,
            &self.extras,
            &config,
            after_restart,
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

    /// Returns the number of the last life.
    fn last_life(&self) -> usize {
        usize::from(self.plan.ending.has_second_life())
    }

    /// Lets one side hand over, if it is `due` and the world continues.
    fn offer_handover(&mut self, due: bool) -> bool {
        let continues = self.ledger.borrow().failure.is_none()
            && !(0..2).all(|side| self.party(side).is_over());
        if !due || !continues {
            return false;
        }
        let host = self.built.hosts[self.handover_steps.size(0, 1)];
        self.built
            .net
            .with_node(host, |program: &mut Host, now, out| {
                program.act(now, out, Party::hand_over);
            });
        true
    }

    /// Notifies both sides once that all messages were accepted.
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

    /// Checks that nothing is left after the end, and that no packet follows.
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

    fn check_results(&mut self) {
        if self.ledger.borrow().failure.is_some() {
            return;
        }
        self.check_ends();
        self.check_counters();
        self.check_links();
        let mut forgetful = [false; 2];
        match self.plan.ending {
            Ending::Abort { by, .. } => forgetful[by] = true,
            Ending::Restart { side, .. } => forgetful[side] = self.restarted,
            _ => {}
        }
        let graceful = self.plan.ending.is_graceful() && !self.setup_failed();
        let second_life = self.plan.ending.has_second_life() && self.restarted;
        let certain = [graceful, second_life && !self.setup_failed()];
        let mut ledger = self.ledger.borrow_mut();
        ledger.check_all(certain, forgetful, self.restarted);
    }

    /// Returns whether the set-up may fail: with a short cookie lifetime, or if only one side has
    /// sessions.
    fn setup_failed(&self) -> bool {
        let stale = self.plan.short_cookies
            && (0..2).any(|side| self.party(side).outcome == Some(CloseReason::StaleCookie));
        stale || self.extras.sessions.is_one_sided()
    }

    fn check_ends(&self) {
        let outcomes = [0, 1].map(|side| self.party(side).outcome.clone());
        let mut ledger = self.ledger.borrow_mut();
        let divided = self.extras.sessions.is_one_sided();
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
                // Shut down before it was established: dropped.
                (Some(CloseReason::AbortedByUser), ending) => !ending.is_graceful(),
                // Without a reason: by a shutdown during the set-up, or out of the blue.
                (Some(CloseReason::AbortedByPeer(cause)), Ending::Abort { .. }) => {
                    let limits = self.extras.seals();
                    limits || cause.information.is_empty() || cause.information == REASON
                }
                // The peer had ended already and received a late packet; all messages must have
                // arrived.
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

    fn check_counters(&self) {
        let mut ledger = self.ledger.borrow_mut();
        for side in 0..2 {
            let host = self.built.net.node::<Host>(self.built.hosts[side]);
            let (stats, node) = (
                host.endpoint().stats(),
                self.built.net.node_stats(self.built.hosts[side]),
            );
            let damaged = stats.bad_checksum + stats.malformed;
            // A side without sessions takes datagrams of a session for packets.
            let one_sided = self.extras.sessions.is_one_sided();
            ledger.check(damaged == 0 || self.topology.corrupts || one_sided, || {
                format!("side {side}: {damaged} packets were corrupted on perfect links")
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
            // With policy routing, an INIT of this side may have no route, and a cookie that was made before
            // it is discarded until it is stale (section 5.2.4).
            let stale =
                self.plan.short_cookies || self.restarted || self.topology.has_policy_routing();
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
                let counted = stats.datagrams_received + icmp + host.unclaimed();
                ledger.check(counted == node.received, || {
                    format!(
                        "side {side}: {} packets received, {} and {icmp} counted",
                        node.received, stats.datagrams_received
                    )
                });
            }
            ledger.seen.icmp += stats.icmp_accepted;
        }
    }

    /// Checks that no packet appears or disappears uncounted.
    fn check_links(&self) {
        let mut ledger = self.ledger.borrow_mut();
        for link in &self.built.links {
            for direction in [Direction::Forward, Direction::Backward] {
                let stats = self.built.net.link_stats(*link, direction);
                let (came, went) = (
                    stats.packets_in + stats.duplicated,
                    stats.packets_delivered + stats.dropped() + stats.packets_inside,
                );
                ledger.check(came == went && stats.packets_inside == 0, || {
                    format!("{link:?} {direction:?} has inconsistent counters: {stats:?}")
                });
            }
        }
        for host in self.built.hosts {
            let malformed = self.built.net.node_stats(host).dropped_malformed;
            ledger.check(malformed == 0, || {
                format!("{malformed} packets that cannot be encoded as IP")
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

/// Describes the state of a side of a stalled world.
fn describe(net: &Network, host: NodeId) -> String {
    let program = net.node::<Host>(host);
    let endpoint = program.endpoint();
    let associations: Vec<_> = endpoint
        .associations()
        .filter_map(|id| endpoint.association(id))
        .map(|a| (a.stats(), a.paths().collect::<Vec<_>>()))
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
    plan: &WorldPlan,
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
    let routes = party.routes();
    if let Some(routes) = &routes {
        endpoint.source_selection = Box::new(routes.clone());
    }
    let sessions = extras.sessions.layer(side, incarnation, &mut endpoint);
    party.sessions.clone_from(&sessions);
    let endpoint = Endpoint::new(endpoint).map_err(|error| format!("side {side}: {error}"))?;
    let host = SctpHost::new(endpoint, party);
    let host = match sessions {
        Some(sessions) => host.over(sessions),
        None => host,
    };
    let host = match routes {
        Some(routes) => host.with_routes(routes),
        None => host,
    };
    Ok(match plan.encapsulation {
        Some(ports) => host.with_encapsulation(ports[side]),
        None => host,
    })
}
