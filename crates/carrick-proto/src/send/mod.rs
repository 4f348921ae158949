//! The sending half of an association (RFC 9260 sections 6.1, 6.2.1, 6.3.2, 6.3.3, 6.9, 7).

mod abandonment;
pub(crate) mod message;
mod outstanding;
mod queue;
mod recovery;
mod sack;
mod timeout;
mod transmit;
mod window;

use alloc::vec::Vec;

use bytes::Bytes;
use carrick_wire::{DATA_HEADER_LEN, Tsn};

use crate::config::AssociationConfig;
use crate::error::SendError;
use crate::event::{SendFailure, UnsentMessage};
use crate::path::Paths;
use crate::time::Time;
use abandonment::Abandonment;
use message::{Pending, SendOptions};
use outstanding::Outstanding;
use queue::Queue;
use recovery::Recovery;
use window::PeerWindow;

pub(crate) use sack::{SackContext, SackOutcome};
pub(crate) use transmit::TransmitContext;

/// Chunks outstanding at most: Gap Ack Blocks reach 65,535 TSNs above the cumulative one.
const MAX_OUTSTANDING: usize = 65_000;

/// Ordered messages in the send window at most (section 6.1).
const MAX_MESSAGES: usize = 65_535;

/// Everything about data that goes out.
#[derive(Debug)]
pub(crate) struct Sender {
    queue: Queue,
    outstanding: Outstanding,
    window: PeerWindow,
    recovery: Recovery,
    abandonment: Abandonment,
    outbound_streams: u16,
    /// One packet of chunks marked for retransmission may leave whatever the window says (sections
    /// 6.3.3 E3, 7.2.4 step 3).
    forced: bool,
    /// The user was refused and wants to know when there is room.
    refused: bool,
    /// When acknowledgements last advanced, or when data was sent after there was none.
    progress: Time,
    /// Users don't hear of an empty send buffer again until something was sent.
    drained: bool,
}

impl Sender {
    pub(crate) fn new(initial_tsn: Tsn, config: &AssociationConfig) -> Self {
        Self {
            queue: Queue::default(),
            outstanding: Outstanding::new(initial_tsn, config.policies.count_data_header),
            window: PeerWindow::new(0),
            recovery: Recovery::new(config.policies.missing_reports),
            abandonment: Abandonment::default(),
            outbound_streams: config.outbound_streams,
            forced: false,
            refused: false,
            progress: Time::ZERO,
            drained: true,
        }
    }

    /// What the peer's INIT or INIT ACK said. Returns the messages that wait for streams which the
    /// peer does not want (section 5.1.1).
    pub(crate) fn negotiated(
        &mut self,
        a_rwnd: u32,
        outbound_streams: u16,
        partial_reliability: bool,
    ) -> Vec<SendFailure> {
        self.window = PeerWindow::new(a_rwnd);
        self.abandonment.set_forwards(partial_reliability);
        self.outbound_streams = outbound_streams;
        self.queue
            .take_above(outbound_streams)
            .into_iter()
            .map(|pending| {
                self.abandonment.forget(pending.number);
                let mut failure = failure_of(&pending);
                failure.unsent.0.push(pending.rest);
                failure
            })
            .collect()
    }

    /// The peer restarted: numbering begins anew. Returns what was not delivered for certain.
    pub(crate) fn restart(
        &mut self,
        initial_tsn: Tsn,
        config: &AssociationConfig,
        paths: &mut Paths,
    ) -> Vec<SendFailure> {
        let failures = self.take_failures();
        for path in paths.iter_mut() {
            path.flight_size = 0;
            path.earliest = None;
        }
        let refused = self.refused;
        let abandonment = self.abandonment.restart();
        *self = Self::new(initial_tsn, config);
        self.refused = refused;
        self.abandonment = abandonment;
        failures
    }

    pub(crate) fn outbound_streams(&self) -> u16 {
        self.outbound_streams
    }

    /// Takes a message.
    pub(crate) fn send(
        &mut self,
        options: SendOptions,
        data: Bytes,
        now: Time,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) -> Result<(), SendError> {
        if data.is_empty() {
            return Err(SendError::Empty);
        }
        if options.stream.0 >= self.outbound_streams {
            return Err(SendError::InvalidStream {
                streams: self.outbound_streams,
            });
        }
        if options.path.is_some_and(|p| !paths.contains(p)) {
            return Err(SendError::UnknownPath);
        }
        let limit = max_payload(paths, config);
        if !config.fragment && data.len() > limit {
            return Err(SendError::TooLarge { limit });
        }
        let needed = data.len();
        if !self.has_room(needed, config)
            && !self.make_room(needed, options.reliability, now, paths, config)
        {
            self.refused = true;
            return Err(SendError::BufferFull);
        }
        let number = self.abandonment.number(&options);
        let pending = self.queue.push(number, options, data);
        if pending.may_be_abandoned() {
            self.abandonment.add(pending, now);
        }
        self.drained = false;
        Ok(())
    }

    fn has_room(&self, bytes: usize, config: &AssociationConfig) -> bool {
        let held = self.buffered_bytes();
        let messages = self.queue.len() + self.outstanding.messages();
        messages < config.send_buffer_messages.min(MAX_MESSAGES)
            && (held == 0 || held + bytes <= config.send_buffer)
    }

    /// Whether the user, who was refused, can send again: half of the buffer is free.
    pub(crate) fn take_room(&mut self, config: &AssociationConfig) -> bool {
        let roomy = self.buffered_bytes() <= config.send_buffer / 2
            && self.queue.len() + self.outstanding.messages()
                <= config.send_buffer_messages.min(MAX_MESSAGES) / 2;
        roomy && core::mem::take(&mut self.refused)
    }

    /// Whether everything sent has been acknowledged since this was last asked.
    pub(crate) fn take_drained(&mut self) -> bool {
        self.is_drained() && !core::mem::replace(&mut self.drained, true)
    }

    /// Nothing waits and nothing is unacknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.outstanding.is_empty()
    }

    /// Whether the peer has acknowledged anything.
    pub(crate) fn was_acknowledged(&self) -> bool {
        self.outstanding.first_index() > 1 || !self.outstanding.acked.is_empty()
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.queue.bytes() + self.outstanding.held()
    }

    pub(crate) fn queued_messages(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn outstanding_chunks(&self) -> usize {
        self.outstanding.len()
    }

    pub(crate) fn outstanding_bytes(&self) -> usize {
        self.outstanding.in_flight()
    }

    pub(crate) fn rwnd(&self) -> usize {
        self.window.rwnd()
    }

    /// Data waits or is unacknowledged while this long nothing was acknowledged; a closed window
    /// is the peer's right and does not count.
    pub(crate) fn stalled_since(&self) -> Option<Time> {
        let open = self.window.rwnd() > 0 && !self.window.is_probing();
        (!self.outstanding.is_empty() && open).then_some(self.progress)
    }

    /// All messages that are not acknowledged, for SEND FAILURE. Empties the send buffer.
    pub(crate) fn take_failures(&mut self) -> Vec<SendFailure> {
        let mut failures = self.take_abandoned();
        self.abandonment.clear();
        let mut open: Option<SendFailure> = None;
        while let Some(chunk) = self.outstanding.pop_front() {
            if chunk.is_abandoned() {
                continue;
            }
            let failure = open.get_or_insert_with(|| SendFailure {
                context: chunk.context,
                stream: chunk.stream,
                ppid: chunk.ppid,
                sent: true,
                unsent: UnsentMessage::default(),
                expired: false,
                abandoned: None,
            });
            failure.unsent.0.push(chunk.payload);
            if chunk.flags.ending {
                failures.extend(open.take());
            }
        }
        for pending in self.queue.restart() {
            let mut failure = open
                .take()
                .filter(|_| pending.begun)
                .unwrap_or_else(|| failure_of(&pending));
            if !pending.rest.is_empty() {
                failure.unsent.0.push(pending.rest);
            }
            failures.push(failure);
        }
        failures.extend(open);
        failures
    }
}

/// A failure without its bytes.
fn failure_of(pending: &Pending) -> SendFailure {
    SendFailure {
        context: pending.options.context,
        stream: pending.options.stream,
        ppid: pending.options.ppid,
        sent: pending.begun,
        unsent: UnsentMessage::default(),
        expired: false,
        abandoned: None,
    }
}

/// The largest payload of one DATA chunk.
fn max_payload(paths: &Paths, config: &AssociationConfig) -> usize {
    let fits = paths.amdcs().saturating_sub(DATA_HEADER_LEN);
    config.max_payload.map_or(fits, |p| p.min(fits)).max(1)
}
