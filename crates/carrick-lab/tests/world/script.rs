//! What the program of one side does: messages, readings, operations on paths.

use std::time::Duration;

use carrick_netsim::Time;
use carrick_proto::{Reliability, StreamDirection, StreamScheduler};

use super::dice::{Dice, Part};
use super::plan::{Ending, Plan, Scale};
use super::topology::Topology;
use super::tuning::Tuning;

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    /// After the association came up, or after the call to connect.
    pub(crate) at: Duration,
    /// Taken modulo the number of streams.
    pub(crate) stream: u16,
    pub(crate) unordered: bool,
    pub(crate) size: usize,
    pub(crate) immediate: bool,
    pub(crate) no_delay: bool,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) reliability: Reliability,
    /// A wish for a path, modulo their number.
    pub(crate) path: Option<u8>,
}

/// Something done to a path, or to all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    SetPrimary,
    RequestHeartbeat,
    SetHeartbeat(bool),
    SetFailureThreshold(u32),
    SetPathMtu(usize),
    SetScheduler(StreamScheduler),
    /// The value of a stream, which may not exist.
    SetStreamValue(u16, u16),
    /// Shared keys by their numbers; what the peer does not have yet, or still uses, waits for it.
    AddKey(u16),
    ActivateKey(u16),
    DeactivateKey(u16),
    DeleteKey(u16),
    /// Chunks are sealed with this key from now on.
    SealWith(u8),
    Tune(Tuning),
}

/// A re-configuration that is asked for (RFC 6525).
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// Streams taken modulo their number; none means all.
    Reset(StreamDirection, Vec<u16>),
    ResetAssociation,
    Add(u16, u16),
}

/// How the program reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// At once, all there is.
    Eager,
    /// So many messages, so long after the one before.
    Slow { batch: usize, pause: Duration },
}

/// The whole part of one side.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) connect_at: Option<carrick_proto::Time>,
    /// The order in which the peer's addresses are tried; some may be missing.
    pub(crate) peers: Vec<std::net::IpAddr>,
    /// Messages before anything is established, where this side connects.
    pub(crate) early: bool,
    /// Messages of the first life, and of the second one in a world with a restart.
    pub(crate) messages: [Vec<Planned>; 2],
    pub(crate) operations: Vec<(Duration, u8, Operation)>,
    /// Each as long after the one before, while messages are handed over.
    pub(crate) wishes: Vec<(Duration, Wish)>,
    pub(crate) reading: Reading,
    /// When this side aborts.
    pub(crate) abort_at: Option<carrick_proto::Time>,
    /// When this side forgets everything.
    pub(crate) restart_at: Option<carrick_proto::Time>,
    /// When this side shuts down, whatever is left to send.
    pub(crate) shutdown_at: Option<carrick_proto::Time>,
    /// Shutting down waits for the set-up.
    pub(crate) patient: bool,
    /// Restarting waits for the set-up of both sides.
    pub(crate) restarts_settled: bool,
    /// This side or the peer forgets everything on the way and begins anew.
    pub(crate) second_life: bool,
    /// How long after all was handed over it shuts down.
    pub(crate) shutdown_after: Option<Duration>,
}

impl Script {
    pub(crate) fn new(
        seed: u64,
        side: usize,
        plan: &Plan,
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
            // The others may be gone when they are wanted.
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
            loosen(&mut partial, life);
        }
        let mut script = Self {
            connect_at: plan.connects[side].map(moment),
            peers,
            early: dice.chance(0.3),
            messages,
            operations: operations(dice, topology.smallest_mtu(), path_mtu),
            wishes: wishes(&mut Dice::new(seed, Part::Wishes(side))),
            reading: reading(dice, plan.scale),
            abort_at: None,
            restart_at: None,
            shutdown_at: None,
            patient: plan.ending.is_graceful() || plan.ending.begins_anew(),
            restarts_settled: matches!(plan.ending, Ending::Restart { settled: true, .. }),
            second_life,
            shutdown_after: None,
        };
        script.plan_end(dice, side, &plan.ending);
        script
    }

    fn plan_end(&mut self, dice: &mut Dice, side: usize, ending: &Ending) {
        // Where the other side may vanish without a word, shutting down finds out.
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
                if ending.begins_anew() {
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

/// The core's moment this long after the start.
pub(crate) fn moment(since_start: Duration) -> carrick_proto::Time {
    carrick_proto::Time::ZERO + since_start
}

/// The core's moment as the simulator's.
pub(crate) fn net_time(time: carrick_proto::Time) -> Time {
    Time::from_nanos(time.as_nanos())
}

fn messages(dice: &mut Dice, plan: &Plan) -> Vec<Planned> {
    let (count, largest, mut budget) = match plan.scale {
        Scale::Small => (dice.size(0, 100), 3000, 100_000),
        Scale::Medium => (dice.size(1, 400), 16_384, 1_000_000),
        Scale::Many => (dice.size(300, 4000), 300, 200_000),
        Scale::Large => (dice.size(1, 8), 1 << 20, 4 << 20),
    };
    // Some sides only listen.
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
fn loosen(dice: &mut Dice, messages: &mut [Planned]) {
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

fn wishes(dice: &mut Dice) -> Vec<(Duration, Wish)> {
    if dice.chance(0.3) {
        return Vec::new();
    }
    let mut all: Vec<_> = (0..dice.range(1, 12))
        .map(|_| {
            let wish = match dice.range(0, 9) {
                0..=6 => {
                    let streams = (0..dice.range(0, 4)).map(|_| dice.range(0, 65_534) as u16);
                    let streams = streams.collect();
                    let direction = dice.pick(&[
                        StreamDirection::Outgoing,
                        StreamDirection::Outgoing,
                        StreamDirection::Incoming,
                        StreamDirection::Both,
                    ]);
                    Wish::Reset(direction, streams)
                }
                7 => Wish::ResetAssociation,
                _ => {
                    let count = |dice: &mut Dice| dice.pick(&[0, 1, 5, 60_000]);
                    Wish::Add(count(dice), count(dice))
                }
            };
            (dice.log_millis(1, 15_000), wish)
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
