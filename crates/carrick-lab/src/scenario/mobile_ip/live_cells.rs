//! Cells of the live runs: their names, networks, stacks and programs.

use std::net::IpAddr;
use std::time::Duration;

use carrick_netsim::{ConfigError, ExternalHost};

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
/// Indices of the losses in configuration 1 and over TCP, and of those in configuration 2.
const ONE: [usize; 3] = [0, 1, 3];
const TWO: [usize; 2] = [1, 3];
/// Stacks with a failure of the primary path, types of movement, and stacks with movement.
const FAILING: [Stack; 3] = [Stack::OldRule, Stack::Paper, Stack::Best];
const MOVES: [Move; 4] = [
    Move::Reregistration,
    Move::Failover,
    Move::BreakBeforeMake,
    Move::MakeBeforeBreak,
];
const MOVING: [Stack; 2] = [Stack::Standard, Stack::Best];
/// Duration of the steady flow.
const STEADY: Duration = Duration::from_secs(20);
/// Congestion control algorithms of the kernel.
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// Length of the UDP header.
const UDP_HEADER: usize = 8;
/// Length of the headers of IP and TCP.
const TCP_HEADERS: usize = 40;

/// A cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LiveCell {
    /// Transfer in a configuration, with this loss, in UDP or not.
    Transfer(Configuration, usize, bool),
    /// Transfer over the kernel's TCP in configuration 1.
    Tcp(usize, &'static str),
    /// Failure of the primary path in configuration 3.
    Failure(Stack, bool),
    /// Steady flow to a node that moves.
    Move(Move, Stack, bool),
}

/// Returns all cells, in the order of the rows.
pub(super) fn all_cells() -> Vec<LiveCell> {
    const WAYS: [bool; 2] = [true, false];
    let mut all_cells = Vec::new();
    for loss in ONE {
        all_cells.extend(WAYS.map(|udp| LiveCell::Transfer(Configuration::One, loss, udp)));
    }
    for loss in TWO {
        all_cells.extend(WAYS.map(|udp| LiveCell::Transfer(Configuration::Two, loss, udp)));
    }
    for loss in ONE {
        all_cells.extend(KERNEL.map(|name| LiveCell::Tcp(loss, name)));
    }
    for stack in FAILING {
        all_cells.extend(WAYS.map(|udp| LiveCell::Failure(stack, udp)));
    }
    for stack in MOVING {
        for way in MOVES {
            all_cells.extend(WAYS.map(|udp| LiveCell::Move(way, stack, udp)));
        }
    }
    all_cells
}

impl LiveCell {
    /// Returns the initial network, and the addresses of the two ends.
    fn before(self) -> (Layout, [Vec<IpAddr>; 2]) {
        let (layout, ends) = match self {
            Self::Transfer(configuration, loss, _) => (
                layout(configuration, Stack::Paper, LOSSES[loss]),
                ends(configuration),
            ),
            Self::Tcp(loss, _) => {
                let one = Configuration::One;
                (layout(one, Stack::Paper, LOSSES[loss]), ends(one))
            }
            Self::Failure(..) => {
                let three = Configuration::Three;
                (layout(three, Stack::Paper, 0.0), ends(three))
            }
            Self::Move(kind, ..) => run::before(kind),
        };
        (layout, ends.map(|end| addresses(&end)))
    }

    /// Returns the first part of the identifiers of its rows, as in the table of the simulations.
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

    /// Returns the last part of the identifiers of its rows.
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

    /// Returns the label.
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
                    send_buffer: None,
                };
            }
            Self::Transfer(..) => Stack::Paper,
            Self::Failure(stack, _) | Self::Move(_, stack, _) => stack,
        };
        let mut config = stack.config();
        if let Self::Move(..) = self {
            // Messages are queued in the stack; none is refused.
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

    /// Returns the user data of a message, which fills a packet.
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

    /// Returns the flow with its two hosts and their stacks.
    pub(super) fn flow(self) -> live::Connection {
        let without_agents = |kind| matches!(kind, Move::BreakBeforeMake | Move::MakeBeforeBreak);
        live::Connection {
            addresses: Some(self.before().1),
            // Index of the mobile node.
            roams: matches!(self, Self::Move(kind, ..) if without_agents(kind)).then_some(1),
            may_be_lost: matches!(self, Self::Failure(Stack::OldRule, _)),
            ..live::Connection::new(self.stack(), 0, self.programs())
        }
    }

    /// Builds the network, with its changes at the time `event` after the start.
    pub(super) fn world(self, event: Duration, seed: u64) -> Result<live::World, ConfigError> {
        let correspondent = Box::new(ExternalHost::default());
        let built = build(
            self.before().0,
            seed,
            correspondent,
            ExternalHost::default(),
        )?;
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
