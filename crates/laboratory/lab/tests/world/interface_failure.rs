//! Failures at the interfaces of a pair of hosts, of which routers and links know nothing.

use std::time::Duration;

use carrick_netsim::{Change, InputRule, InterfaceId, Neighbor, Unreachable};

use super::dice::Dice;
use super::plan::Side;

/// Kind of a failure at the interfaces by which two hosts are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterfaceFailure {
    /// Both hosts drop what arrives, silently.
    Silent,
    /// One host drops what arrives, silently: one direction works.
    DropAt(Side),
    /// One host rejects what arrives, with ICMP.
    RejectAt(Side, Unreachable),
    /// The interface of one host is down, or those of both are.
    DownAt(Side),
    Down,
    /// Packets of one host go nowhere.
    WrongNeighbor(Side),
    /// The neighbours of both hosts do not answer, and the hosts' own ICMP reports it.
    Unresolved,
}

impl InterfaceFailure {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let side = dice.size(0, 1);
        let reason = dice.pick(&[Unreachable::Net, Unreachable::Host]);
        match dice.range(0, 8) {
            0..=2 => Self::Silent,
            3 => Self::DropAt(side),
            4 => Self::RejectAt(side, reason),
            5 => Self::DownAt(side),
            6 => Self::Down,
            7 => Self::WrongNeighbor(side),
            _ => Self::Unresolved,
        }
    }

    /// Returns the changes that begin and end the failure; `ports` are the interfaces by side.
    pub(crate) fn changes(self, ports: [InterfaceId; 2]) -> Vec<[Change; 2]> {
        let input = |side: Side, rule| {
            let interface = ports[side];
            [rule, InputRule::Accept].map(|input| Change::SetInput { interface, input })
        };
        let down = |side: Side| {
            [
                Change::InterfaceDown(ports[side]),
                Change::InterfaceUp(ports[side]),
            ]
        };
        let neighbor = |side: Side, state| {
            let interface = ports[side];
            [state, Neighbor::Reachable].map(|neighbor| Change::SetNeighbor {
                interface,
                neighbor,
            })
        };
        let unresolved = Neighbor::Unresolved {
            after: Duration::from_secs(3),
        };
        match self {
            Self::Silent => [0, 1].map(|side| input(side, InputRule::Drop)).into(),
            Self::DropAt(side) => vec![input(side, InputRule::Drop)],
            Self::RejectAt(side, reason) => vec![input(side, InputRule::Reject(reason))],
            Self::DownAt(side) => vec![down(side)],
            Self::Down => [0, 1].map(down).into(),
            Self::WrongNeighbor(side) => vec![neighbor(side, Neighbor::Wrong)],
            Self::Unresolved => [0, 1].map(|side| neighbor(side, unresolved)).into(),
        }
    }
}
