//! Events passed to a tracer: each step of each packet.

use crate::ids::{Direction, LinkId, NodeId};
use crate::packet::Packet;
use crate::stats::DropReason;
use crate::time::Time;

/// One step of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent<'a> {
    /// Time of the step.
    pub time: Time,
    /// Link or node of the step.
    pub place: TracePlace,
    /// Kind of the step.
    pub step: TraceStep,
    /// The packet as it is after the step.
    pub packet: &'a Packet,
}

/// Place of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TracePlace {
    /// On one direction of a link.
    Link(LinkId, Direction),
    /// In a node.
    Node(NodeId),
}

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceStep {
    /// The packet left the queue: its transmission begins.
    Sent,
    /// The packet reached the far end of the link.
    Arrived,
    /// The packet was dropped.
    Dropped(DropReason),
}

pub(crate) type Tracer = Box<dyn FnMut(&TraceEvent<'_>)>;
