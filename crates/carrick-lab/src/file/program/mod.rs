//! Programs of the hosts, one for each stack, with the same flows of numbered messages.

mod pace;
mod sctp;
mod tcp;
mod udp;

use bytes::{Bytes, BytesMut};

pub(super) use sctp::{Receiver, SctpProgram, Session, SessionState};
pub(super) use tcp::TcpProgram;
pub(super) use udp::UdpProgram;

pub(super) use pace::Pace;

use super::measure::FlowRecord;
use super::model::Flow;

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

/// Returns a message of `size` bytes that begins with its number.
fn message(number: u64, size: usize) -> Bytes {
    let mut bytes = BytesMut::zeroed(size.max(8));
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.freeze()
}

/// Returns the number with which a message begins.
fn number_of(bytes: &[u8]) -> Option<u64> {
    bytes
        .first_chunk()
        .map(|number| u64::from_be_bytes(*number))
}
