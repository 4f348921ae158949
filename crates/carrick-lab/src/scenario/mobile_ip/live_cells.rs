//! The cells that run in real time: their names, networks, stacks and programs.

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::{ConfigError, Port};

use super::network::{Layout, build};
use super::rows::{move_id, move_label, percent};
use super::run::{self, Configuration, Move, breaking, ends, layout};
use super::setup::{
    LOSSES, MESSAGE, PAPER_WINDOW, PATH_MTU, PORT, STEADY_INTERVAL, STEADY_MESSAGE, Stack,
    addresses,
};
use crate::live::{self, Bulk, Drain, Messages, Program, Sink, Source};

/// Messages of a transfer: a quarter of the paper's 12 MB.
pub(super) const MESSAGES: u64 = 3_000_000 / MESSAGE as u64;
/// Which of the losses run in configuration 1 and over TCP, and which in configuration 2.
const ONE: [usize; 3] = [0, 1, 3];
const TWO: [usize; 2] = [1, 3];
/// Stacks whose primary path fails, how a node moves, and stacks with which it does.
const FAILING: [Stack; 3] = [Stack::OldRule, Stack::Paper, Stack::Best];
const MOVES: [Move; 4] = [
    Move::Reregistration,
    Move::Failover,
    Move::BreakBeforeMake,
    Move::MakeBeforeBreak,
];
const MOVING: [Stack; 2] = [Stack::Standard, Stack::Best];
/// How long the steady flow lasts.
const STEADY: Duration = Duration::from_secs(20);
/// Congestion controls of the kernel.
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// What UDP takes of a packet.
const UDP_HEADER: usize = 8;
/// What IP and TCP take of one.
const TCP_HEADERS: usize = 40;

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// In a configuration, with this loss, in UDP or not.
    Transfer(Configuration, usize, bool),
    /// Over the kernel's TCP in configuration 1.
    Tcp(usize, &'static str),
    /// In configuration 3, whose primary path fails.
    Failure(Stack, bool),
    /// A steady flow to a node that moves so.
    Move(Move, Stack, bool),
}

/// All kinds, in the order of the rows.
pub(super) fn kinds() -> Vec<Kind> {
    const WAYS: [bool; 2] = [true, false];
    let mut kinds = Vec::new();
    for loss in ONE {
        kinds.extend(WAYS.map(|udp| Kind::Transfer(Configuration::One, loss, udp)));
    }
    for loss in TWO {
        kinds.extend(WAYS.map(|udp| Kind::Transfer(Configuration::Two, loss, udp)));
    }
    for loss in ONE {
        kinds.extend(KERNEL.map(|name| Kind::Tcp(loss, name)));
    }
    for stack in FAILING {
        kinds.extend(WAYS.map(|udp| Kind::Failure(stack, udp)));
    }
    for stack in MOVING {
        for way in MOVES {
            kinds.extend(WAYS.map(|udp| Kind::Move(way, stack, udp)));
        }
    }
    kinds
}

impl Kind {
    /// The network at the beginning, and the addresses of the two ends.
    fn before(self) -> (Layout, [Vec<IpAddr>; 2]) {
        let (layout, ends) = match self {
            Self::Transfer(configuration, loss, _) => {
                (layout(configuration, LOSSES[loss]), ends(configuration))
            }
            Self::Tcp(loss, _) => {
                let one = Configuration::One;
                (layout(one, LOSSES[loss]), ends(one))
            }
            Self::Failure(..) => {
                let three = Configuration::Three;
                (layout(three, 0.0), ends(three))
            }
            Self::Move(kind, ..) => run::before(kind),
        };
        (layout, ends.map(|end| addresses(&end)))
    }

    /// First part of the names of its rows, as in the table of the simulations.
    pub(super) fn id(self) -> String {
        match self {
            Self::Transfer(Configuration::One, loss, _) => {
                format!("config1.{}", percent(LOSSES[loss]))
            }
            Self::Transfer(_, loss, _) => format!("config2.{}", percent(LOSSES[loss])),
            Self::Tcp(loss, _) => format!("tcp.{}", percent(LOSSES[loss])),
            Self::Failure(stack, _) => format!("config3.{}", stack.id()),
            Self::Move(kind, stack, _) => format!("{}.{}", stack.id(), move_id(kind)),
        }
    }

    /// Last part of the names of its rows.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Tcp(_, name) => name,
            Self::Transfer(.., udp) | Self::Failure(_, udp) | Self::Move(.., udp) => {
                if udp {
                    "udp"
                } else {
                    "raw"
                }
            }
        }
    }

    /// The name for people.
    pub(super) fn label(self) -> String {
        let way = if self.suffix() == "udp" {
            "in UDP"
        } else {
            "on IP"
        };
        match self {
            Self::Transfer(Configuration::One, loss, _) => {
                format!("configuration 1 {way}, {} % loss", percent(LOSSES[loss]))
            }
            Self::Transfer(_, loss, _) => {
                format!("configuration 2 {way}, {} % loss", percent(LOSSES[loss]))
            }
            Self::Tcp(loss, name) => format!(
                "kernel’s TCP ({name}) in configuration 1, {} % loss",
                percent(LOSSES[loss])
            ),
            Self::Failure(stack, _) => format!("configuration 3 {way}, {}", stack.label()),
            Self::Move(kind, stack, _) => {
                format!("{} {way}, {}", move_label(kind), stack.label())
            }
        }
    }

    fn stack(self) -> live::Stack {
        let stack = match self {
            Self::Tcp(_, congestion) => {
                return live::Stack::Tcp {
                    congestion,
                    port: PORT,
                    segment: Some((PATH_MTU - TCP_HEADERS) as u16),
                    window: Some(PAPER_WINDOW),
                };
            }
            Self::Transfer(..) => Stack::Paper,
            Self::Failure(stack, _) | Self::Move(_, stack, _) => stack,
        };
        let mut config = stack.config();
        if let Self::Move(..) = self {
            // Messages wait in the stack; none is refused.
            config.buffers.send_buffer = 1 << 28;
            config.buffers.max_send_buffer = None;
            config.buffers.send_buffer_messages = usize::MAX;
        }
        live::Stack::Sctp {
            encapsulated: self.suffix() == "udp",
            port: PORT,
            config: Box::new(config),
        }
    }

    /// Bytes of a message: what fits a packet.
    fn message(self) -> usize {
        MESSAGE
            - if self.suffix() == "udp" {
                UDP_HEADER
            } else {
                0
            }
    }

    fn programs(self) -> [Box<dyn Program>; 2] {
        if let Self::Move(..) = self {
            let messages = Messages {
                count: (STEADY.as_nanos() / STEADY_INTERVAL.as_nanos()) as u64,
                size: STEADY_MESSAGE,
                interval: STEADY_INTERVAL,
            };
            let sink = Sink::new(messages);
            return [Box::new(Source::new(messages)), Box::new(sink)];
        }
        let size = self.message();
        let sink = Drain::new(MESSAGES * size as u64);
        [Box::new(Bulk::messages(MESSAGES, size)), Box::new(sink)]
    }

    /// The two hosts with what they speak.
    pub(super) fn flow(self) -> live::Flow {
        let without_agents = |kind| matches!(kind, Move::BreakBeforeMake | Move::MakeBeforeBreak);
        live::Flow {
            addresses: Some(self.before().1),
            // The mobile node.
            roams: matches!(self, Self::Move(kind, ..) if without_agents(kind)).then_some(1),
            may_be_lost: matches!(self, Self::Failure(Stack::OldRule, _)),
            ..live::Flow::new(self.stack(), 0, self.programs())
        }
    }

    /// The network, and what happens to it so long after the beginning.
    pub(super) fn world(self, event: Duration, seed: u64) -> Result<live::World, ConfigError> {
        let correspondent = Box::new(Port::default());
        let built = build(self.before().0, seed, correspondent, Port::default())?;
        let changes = match self {
            Self::Transfer(..) | Self::Tcp(..) => Vec::new(),
            Self::Failure(..) => breaking(&built).map(|change| (event, change)).into(),
            Self::Move(kind, ..) => run::changes(&built, kind)
                .into_iter()
                .map(|(after, change)| (event + after, change))
                .collect(),
        };
        Ok(live::World {
            hosts: vec![[built.correspondent, built.mobile]],
            network: built.net,
            changes,
        })
    }
}
