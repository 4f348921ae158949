//! Script of the program of one side: messages, reading, operations on paths.

use std::time::Duration;

use carrick_netsim::Time;
use carrick_proto::{Reliability, StreamDirection, StreamScheduler};

use super::dice::{Dice, Part};
use super::plan::{Ending, Scale, WorldPlan};
use super::topology::Topology;
use super::tuning::Tuning;

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    /// Time after the set-up, or after the call to connect.
    pub(crate) at: Duration,
    /// Stream, modulo the number of streams.
    pub(crate) stream: u16,
    pub(crate) unordered: bool,
    pub(crate) size: usize,
    pub(crate) immediate: bool,
    pub(crate) no_delay: bool,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) reliability: Reliability,
    /// Requested path, modulo the number of paths.
    pub(crate) path: Option<u8>,
}

/// An operation on a path, or on all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    SetPrimary,
    RequestHeartbeat,
    SetHeartbeat(bool),
    SetFailureThreshold(u32),
    SetPathMtu(usize),
    SetScheduler(StreamScheduler),
    /// Value of a stream, which may not exist.
    SetStreamValue(u16, u16),
    /// Shared keys by number; an operation is delayed while the peer does not have the key yet, or
    /// still uses it.
    AddKey(u16),
    ActivateKey(u16),
    DeactivateKey(u16),
    DeleteKey(u16),
    /// Protects chunks with this key from now on.
    SealWith(u8),
    Tune(Tuning),
}

/// A requested re-configuration (RFC 6525).
#[derive(Clone, Debug)]
pub(crate) enum Reconfiguration {
    /// Streams modulo their number; an empty list is all.
    Reset(StreamDirection, Vec<u16>),
    ResetAssociation,
    Add(u16, u16),
}

/// Reading of received messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// All messages at once.
    Eager,
    /// A batch of messages after each pause.
    Slow { batch: usize, pause: Duration },
}

/// Script of one side.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) connect_at: Option<carrick_proto::Time>,
    /// Order in which the peer's addresses are tried; some may be missing.
    pub(crate) peers: Vec<std::net::IpAddr>,
    /// Sends messages before the association is established, if this side connects.
    pub(crate) early: bool,
    /// Messages of the first association, and of the second one in a world with a restart.
    pub(crate) messages: [Vec<Planned>; 2],
    pub(crate) operations: Vec<(Duration, u8, Operation)>,
    /// Re-configurations, each with its time after the previous one, while messages are sent.
    pub(crate) reconfigurations: Vec<(Duration, Reconfiguration)>,
    pub(crate) reading: Reading,
    /// Time at which this side aborts.
    pub(crate) abort_at: Option<carrick_proto::Time>,
    /// Time at which this side restarts without state.
    pub(crate) restart_at: Option<carrick_proto::Time>,
    /// Time at which this side shuts down, with or without messages left to send.
    pub(crate) shutdown_at: Option<carrick_proto::Time>,
    /// Delays the shutdown until the association is established.
    pub(crate) patient: bool,
    /// Delays the restart until both sides are established.
    pub(crate) restarts_settled: bool,
    /// This side or the peer restarts and a second association follows.
    pub(crate) second_life: bool,
    /// Time of the shutdown after all messages were accepted.
    pub(crate) shutdown_after: Option<Duration>,
}

impl Script {
    pub(crate) fn new(
        seed: u64,
        side: usize,
        plan: &WorldPlan,
        topology: &Topology,
        path_mtu: usize,
    ) -> Self {
        let mut dice = Dice::new(seed, Part::Script(side));
        let dice = &mut dice;
        let mut peers = topology.reachable(1 - side);
        let first = peers[0];
        dice.shuffle(&mut peers);
        peers.truncate(dice.size(1, peers.len()));
        if topology.loses_addresses() && !peers.contains(&first) {
            // Further addresses may be removed before they are used.
            peers.push(first);
        }
        let second_life = matches!(
            plan.ending,
            Ending::Restart {
                reconnect: true,
                ..
            }
        );
        let mut messages = [
            messages(dice, plan),
            if second_life {
                messages(dice, plan)
            } else {
                Vec::new()
            },
        ];
        let mut partial = Dice::new(seed, Part::Partial(side));
        for life in &mut messages {
            make_some_partially_reliable(&mut partial, life);
        }
        let mut script = Self {
            connect_at: plan.connects[side].map(moment),
            peers,
            early: dice.chance(0.3),
            messages,
            operations: operations(dice, topology.smallest_mtu(), path_mtu),
            reconfigurations: reconfigurations(&mut Dice::new(seed, Part::Reconfigurations(side))),
            reading: reading(dice, plan.scale),
            abort_at: None,
            restart_at: None,
            shutdown_at: None,
            patient: plan.ending.is_graceful() || plan.ending.has_second_life(),
            restarts_settled: matches!(plan.ending, Ending::Restart { settled: true, .. }),
            second_life,
            shutdown_after: None,
        };
        script.plan_end(dice, side, &plan.ending);
        script
    }

    fn plan_end(&mut self, dice: &mut Dice, side: usize, ending: &Ending) {
        // If the other side may disappear silently, the shutdown detects it.
        let later = |dice: &mut Dice, at: Duration| at + dice.log_millis(100, 60_000);
        match *ending {
            Ending::Shutdown { by, early } => {
                if by[side] {
                    self.shutdown_after = Some(dice.log_millis(1, 1000));
                    self.shutdown_at = early.map(moment);
                }
            }
            Ending::Abort { by, at } if by == side => self.abort_at = Some(moment(at)),
            Ending::Restart {
                side: restarts, at, ..
            } => {
                self.restart_at = (restarts == side).then(|| moment(at));
                if ending.has_second_life() {
                    let one_at_least = restarts == side || dice.chance(0.7);
                    self.shutdown_after = one_at_least.then(|| dice.log_millis(1, 1000));
                } else {
                    self.shutdown_at = Some(moment(later(dice, at)));
                }
            }
            Ending::Abort { at, .. } | Ending::Death { at } => {
                self.shutdown_at = Some(moment(later(dice, at)));
            }
        }
    }
}

/// Converts the time after the start to the core's time.
pub(crate) fn moment(since_start: Duration) -> carrick_proto::Time {
    carrick_proto::Time::ZERO + since_start
}

/// Converts the core's time to the simulator's.
pub(crate) fn net_time(time: carrick_proto::Time) -> Time {
    Time::from_nanos(time.as_nanos())
}

fn messages(dice: &mut Dice, plan: &WorldPlan) -> Vec<Planned> {
    let (count, largest, mut budget) = match plan.scale {
        Scale::Small => (dice.size(0, 100), 3000, 100_000),
        Scale::Medium => (dice.size(1, 400), 16_384, 1_000_000),
        Scale::Many => (dice.size(300, 4000), 300, 200_000),
        Scale::Large => (dice.size(1, 8), 1 << 20, 4 << 20),
    };
    // Some sides only receive.
    if dice.chance(0.15) {
        return Vec::new();
    }
    let span = dice.log_millis(1, 10_000).as_micros() as u64;
    let streams = dice.pick(&[1, 3, 10, 65_535]);
    let unordered = dice.pick(&[0.0, 0.0, 0.3, 1.0]);
    let lives = dice.chance(0.1);
    let chooses = dice.chance(0.1);
    let mut all = Vec::new();
    for _ in 0..count {
        let size = match dice.range(0, 19) {
            0 => 1,
            1 => largest,
            _ => dice.log_size(1, largest),
        };
        let planned = Planned {
            at: Duration::from_micros(dice.range(0, span)),
            stream: dice.range(0, streams) as u16,
            unordered: dice.chance(unordered),
            size,
            immediate: dice.chance(0.1),
            no_delay: dice.chance(0.1),
            lifetime: (lives && dice.chance(0.5)).then(|| dice.log_millis(1, 1000)),
            reliability: Reliability::Full,
            path: (chooses && dice.chance(0.5)).then(|| dice.range(0, 255) as u8),
        };
        if size > budget {
            break;
        }
        budget -= size;
        all.push(planned);
    }
    all.sort_by_key(|planned| planned.at);
    all
}

/// Makes some messages partially reliable, in some worlds.
fn make_some_partially_reliable(dice: &mut Dice, messages: &mut [Planned]) {
    let share = dice.pick(&[0.0, 0.0, 0.3, 0.9]);
    let kinds = dice.pick(&[0..=0, 1..=1, 2..=2, 0..=2]);
    for message in messages {
        if !dice.chance(share) {
            continue;
        }
        message.reliability = match dice.range(*kinds.start(), *kinds.end()) {
            0 => Reliability::Timed(dice.log_millis(1, 3000)),
            1 => Reliability::Retransmissions(dice.range(0, 3) as u32),
            _ => Reliability::Priority(dice.range(0, 4) as u32),
        };
    }
}

fn operations(
    dice: &mut Dice,
    smallest_mtu: usize,
    path_mtu: usize,
) -> Vec<(Duration, u8, Operation)> {
    if dice.chance(0.6) {
        return Vec::new();
    }
    let mut all: Vec<_> = (0..dice.range(1, 8))
        .map(|_| {
            let operation = match dice.range(0, 13) {
                0..=3 => Operation::SetPrimary,
                4..=6 => Operation::RequestHeartbeat,
                7 => Operation::SetHeartbeat(dice.chance(0.6)),
                8 => Operation::SetFailureThreshold(dice.range(0, 8) as u32),
                9 => Operation::SetPathMtu(dice.size(smallest_mtu, path_mtu)),
                10..=11 => Operation::SetScheduler(dice.pick(&StreamScheduler::ALL)),
                _ => Operation::SetStreamValue(
                    dice.range(0, 12) as u16,
                    dice.pick(&[0, 1, 2, 10, u16::MAX]),
                ),
            };
            let at = dice.log_millis(1, 20_000);
            (at, dice.range(0, 255) as u8, operation)
        })
        .collect();
    all.sort_by_key(|(at, ..)| *at);
    all
}

fn reconfigurations(dice: &mut Dice) -> Vec<(Duration, Reconfiguration)> {
    if dice.chance(0.3) {
        return Vec::new();
    }
    let mut all: Vec<_> = (0..dice.range(1, 12))
        .map(|_| {
            let reconfiguration = match dice.range(0, 9) {
                0..=6 => {
                    let streams = (0..dice.range(0, 4)).map(|_| dice.range(0, 65_534) as u16);
                    let streams = streams.collect();
                    let direction = dice.pick(&[
                        StreamDirection::Outgoing,
                        StreamDirection::Outgoing,
                        StreamDirection::Incoming,
                        StreamDirection::Both,
                    ]);
                    Reconfiguration::Reset(direction, streams)
                }
                7 => Reconfiguration::ResetAssociation,
                _ => {
                    let count = |dice: &mut Dice| dice.pick(&[0, 1, 5, 60_000]);
                    Reconfiguration::Add(count(dice), count(dice))
                }
            };
            (dice.log_millis(1, 15_000), reconfiguration)
        })
        .collect();
    all.sort_by_key(|(at, _)| *at);
    all
}

fn reading(dice: &mut Dice, scale: Scale) -> Reading {
    if dice.chance(0.65) {
        return Reading::Eager;
    }
    let batch = match scale {
        Scale::Many => dice.size(5, 50),
        _ => dice.log_size(1, 20),
    };
    Reading::Slow {
        batch,
        pause: dice.log_millis(1, 1000),
    }
}
