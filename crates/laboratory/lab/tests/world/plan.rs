//! Basic properties of the world of a seed: its set-up and its end.

use std::time::Duration;

use super::dice::{Dice, Part};

/// Index of one of the two hosts: 0 or 1.
pub(crate) type Side = usize;

/// End of the association.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ending {
    /// SHUTDOWN of the marked sides, after all messages were accepted; with `early`, at a given
    /// time, so that the last messages of the other side may be refused.
    Shutdown {
        by: [bool; 2],
        early: Option<Duration>,
    },
    /// ABORT with a reason.
    Abort { by: Side, at: Duration },
    /// One side restarts without state; then it connects again and both start again, or it does
    /// not.
    Restart {
        side: Side,
        at: Duration,
        reconnect: bool,
        /// Only after the first association is established; otherwise it may happen during the
        /// set-up.
        settled: bool,
    },
    /// The network fails permanently.
    Death { at: Duration },
}

impl Ending {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Shutdown { .. } => "shutdown",
            Self::Abort { .. } => "abort",
            Self::Restart { .. } => "restart",
            Self::Death { .. } => "death",
        }
    }

    /// Returns whether every message has to arrive, and both sides have to agree on the end.
    pub(crate) fn is_graceful(&self) -> bool {
        matches!(self, Self::Shutdown { .. })
    }

    /// Returns whether there is a second association, whose messages all have to arrive.
    pub(crate) fn has_second_life(&self) -> bool {
        matches!(
            self,
            Self::Restart {
                reconnect: true,
                settled: true,
                ..
            }
        )
    }
}

/// Properties of the whole world.
#[derive(Clone, Debug)]
pub(crate) struct WorldPlan {
    pub(crate) ending: Ending,
    /// Times at which the sides connect, if they do.
    pub(crate) connects: [Option<Duration>; 2],
    /// Uses a cookie lifetime so short that the set-up may fail.
    pub(crate) short_cookies: bool,
    /// UDP ports of both sides, if SCTP is encapsulated.
    pub(crate) encapsulation: Option<[u16; 2]>,
    /// Indices, in the list of addresses to connect to, of those on plain IP instead. Only if one
    /// side connects and none restarts: an INIT is identified by its encapsulation.
    pub(crate) plain: u8,
    /// Size of both workloads.
    pub(crate) scale: Scale,
}

/// Amount of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// At most a hundred messages of some hundred bytes.
    Small,
    /// Up to four hundred messages of up to 16 KiB, 1 MB in all.
    Medium,
    /// Thousands of messages of a few bytes.
    Many,
    /// A few messages of up to 1 MiB, 4 MiB in all.
    Large,
}

impl WorldPlan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, Part::WorldPlan);
        let ending = ending(&mut dice);
        let mut connects = [None, None];
        let first = dice.size(0, 1);
        connects[first] = Some(dice.millis(0, 20));
        if dice.chance(0.25) {
            // Close enough to collide in about half of the cases.
            connects[1 - first] = Some(dice.log_millis(1, 400));
        }
        let encapsulation = dice.chance(0.35).then(|| {
            let other = dice.range(1024, 65_535) as u16;
            dice.pick(&[[9899, 9899], [9899, other], [other, 9899]])
        });
        let scale = match dice.range(1, 100) {
            1..=58 => Scale::Small,
            59..=84 => Scale::Medium,
            85..=94 => Scale::Many,
            _ => Scale::Large,
        };
        let short_cookies = dice.chance(0.03);
        let mixed = encapsulation.is_some() && dice.chance(0.4);
        let once = connects.iter().flatten().count() == 1;
        let plain = match ending {
            Ending::Restart { .. } => 0,
            _ if mixed && once => dice.range(1, 15) as u8,
            _ => 0,
        };
        Self {
            ending,
            connects,
            short_cookies,
            encapsulation,
            plain,
            scale,
        }
    }
}

fn ending(dice: &mut Dice) -> Ending {
    let side = dice.size(0, 1);
    match dice.range(1, 100) {
        1..=76 => Ending::Shutdown {
            by: dice.pick(&[[true, false], [false, true], [true, true]]),
            early: dice.chance(0.15).then(|| dice.log_millis(1, 10_000)),
        },
        77..=84 => Ending::Abort {
            by: side,
            at: dice.log_millis(1, 10_000),
        },
        85..=92 => Ending::Restart {
            side,
            at: dice.log_millis(100, 10_000),
            reconnect: dice.chance(0.8),
            settled: dice.chance(0.75),
        },
        _ => Ending::Death {
            at: if dice.chance(0.1) {
                Duration::ZERO
            } else {
                dice.log_millis(5, 5000)
            },
        },
    }
}
