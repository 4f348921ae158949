//! Programs of the hosts, one for each stack, with the same flows of numbered messages.

mod flow;
mod pace;
mod sctp;
mod signaling;
mod simco;
mod tcp;
mod udp;

use std::any::Any;

use carrick_proto::Endpoint;

pub(super) use flow::{FlowSink, FlowSource};
pub(super) use sctp::{Receiver, SctpProgram, Session, SessionState};
pub(super) use signaling::Signaling;
pub(super) use simco::{Load, LoadAgent, LoadMiddlebox, Transactions};
pub(super) use tcp::TcpProgram;
pub(super) use udp::UdpProgram;

pub(super) use pace::Pace;

use super::measure::FlowRecord;
use super::model::Flow;
use crate::live::{OutgoingMessage, Program};

/// Program of a host with its part of each flow, whatever the stack.
pub(super) trait HostProgram {
    /// Returns the record of a flow at its sender (0) or receiver (1), if this host is that end.
    fn record(&self, flow: usize, end: usize) -> Option<&FlowRecord>;

    /// Returns the session of a flow at this end, for SCTP.
    fn session(&self, flow: usize, end: usize) -> Option<(&Endpoint, &Session)> {
        let _ = (flow, end);
        None
    }

    /// Returns the program with its own messages at this end of a flow.
    fn carried(&self, flow: usize, end: usize) -> Option<&Carried> {
        self.session(flow, end)?.1.carried.as_ref()
    }

    /// Returns the number of retransmitted segments, for TCP.
    fn retransmitted(&self) -> Option<u64> {
        None
    }

    /// Returns the failure of the program, if any.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// Sender side of a flow.
#[derive(Debug)]
pub(super) struct Sender {
    /// Index of the flow.
    pub(super) number: usize,
    pub(super) flow: Flow,
    pub(super) pace: Pace,
    /// SEND of the last message waits for room.
    blocked: bool,
    pub(super) record: FlowRecord,
}

impl Sender {
    pub(super) fn new(number: usize, flow: &Flow, random: carrick_netsim::Random) -> Self {
        Self {
            number,
            flow: flow.clone(),
            pace: Pace::new(flow, random),
            blocked: false,
            record: FlowRecord::default(),
        }
    }

    /// Starts the flow, whose connection is ready now.
    fn begin(&mut self, now: u64) {
        let [start, settle] =
            [self.flow.start, self.flow.settle].map(|time| time.as_nanos() as u64);
        self.pace.begin(start.max(now + settle));
    }

    /// Stops the flow until SEND of the last message returns.
    fn block(&mut self) {
        self.blocked = true;
        self.pace.suspend();
    }

    /// Continues the flow if SEND of the last message waited for room.
    fn unblock(&mut self, now: u64) {
        if std::mem::take(&mut self.blocked) {
            self.pace.resume(now);
        }
    }

    /// Returns whether another message may be sent.
    fn has_more(&self) -> bool {
        let sent = self.record.sends.len() as u64 + self.record.refused;
        self.flow.messages.is_none_or(|most| sent < most)
    }
}

/// Program with the messages of a protocol at one end of a flow, the same as in live runs.
pub(super) struct Carried {
    program: Box<dyn Program>,
    /// Message that the stack has not accepted.
    waiting: Option<OutgoingMessage>,
}

impl std::fmt::Debug for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carried")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl Carried {
    pub(super) fn new(program: Box<dyn Program>) -> Self {
        Self {
            program,
            waiting: None,
        }
    }

    /// Returns the program, if it is of this type.
    pub(super) fn program<P: Program>(&self) -> Option<&P> {
        (&*self.program as &dyn Any).downcast_ref()
    }

    fn program_mut<P: Program>(&mut self) -> Option<&mut P> {
        (&mut *self.program as &mut dyn Any).downcast_mut()
    }
}
