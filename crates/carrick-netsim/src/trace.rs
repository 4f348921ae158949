//! What a tracer is told: each step of each packet.

use crate::ids::{Direction, LinkId, NodeId};
use crate::packet::Packet;
use crate::stats::DropReason;
use crate::time::Time;

/// One step of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent<'a> {
    /// When.
    pub time: Time,
    /// Where.
    pub place: Place,
    /// What happened.
    pub step: Step,
    /// The packet as it is after the step.
    pub packet: &'a Packet,
}

/// Where a step happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// On one direction of a link.
    Link(LinkId, Direction),
    /// In a node.
    Node(NodeId),
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It left the queue: its transmission begins.
    Sent,
    /// It reached the far end of the link.
    Arrived,
    /// It is gone.
    Dropped(DropReason),
}

pub(crate) type Tracer = Box<dyn FnMut(&TraceEvent<'_>)>;
