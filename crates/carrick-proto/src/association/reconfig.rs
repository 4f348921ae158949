//! Requests of ours to re-configure streams: from the user's wish or the peer's to the chunk, and
//! its repetition (RFC 6525 sections 5.1.1 to 5.1.6).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use carrick_wire::{COMMON_HEADER_LEN, ChunkType, PacketBuilder, ReconfigSerial, StreamId};

use super::output::single;
use super::oversized::fill_up;
use super::state::State;
use super::{Association, Context};
use crate::policy;
use crate::reconfig::{Flight, Kind, Operation, ReconfigError, StreamDirection, StreamSet};
use crate::route::Transmit;
use crate::time::Time;

/// What counts as a maximum segment lifetime (section 5.1.4).
const SEGMENT_LIFETIME: Duration = Duration::from_secs(30);

/// What a packet with a request may hold.
const RECONFIG_KINDS: [ChunkType; 5] = [
    ChunkType::RE_CONFIG,
    ChunkType::SACK,
    ChunkType::NR_SACK,
    ChunkType::ECNE,
    ChunkType::PAD,
];

impl Association {
    /// Whether the user may ask for anything now.
    pub(crate) fn may_reconfigure(&self) -> Result<(), ReconfigError> {
        match self.state {
            State::Closed => Err(ReconfigError::UnknownAssociation),
            State::Established if !self.extensions.reconfiguration => {
                Err(ReconfigError::NotInForce)
            }
            State::Established if self.streams.is_busy() => Err(ReconfigError::InProgress),
            State::Established => Ok(()),
            _ => Err(ReconfigError::WrongState),
        }
    }

    pub(crate) fn reset_streams(
        &mut self,
        direction: StreamDirection,
        streams: &[StreamId],
    ) -> Result<(), ReconfigError> {
        let set = StreamSet::new(streams.iter().copied());
        let mut kinds = Vec::with_capacity(2);
        if direction.is_outgoing() {
            let streams = self.sender.outbound_streams();
            if !set.fits(streams) {
                return Err(ReconfigError::InvalidStream { streams });
            }
            kinds.push(Kind::ResetOutgoing(set.clone()));
        }
        if direction.is_incoming() {
            let streams = self.receiver.inbound_streams();
            if !set.fits(streams) {
                return Err(ReconfigError::InvalidStream { streams });
            }
            kinds.push(Kind::ResetIncoming(set));
        }
        let fixed = 4 + kinds.iter().map(|k| k.parameter_len()).sum::<usize>();
        let per_stream = 2 * kinds.len();
        let room = self.room_for_reconfig();
        if fixed > room {
            let empty = 4 + 16 + if kinds.len() > 1 { 8 } else { 0 };
            let limit = (room.saturating_sub(empty) / 4 * 4) / per_stream;
            return Err(ReconfigError::ListTooLong { limit });
        }
        self.begin_reconfig(kinds, None);
        Ok(())
    }

    pub(crate) fn reset_association(&mut self, cx: &mut Context<'_>) -> Result<(), ReconfigError> {
        let last = self.streams.renumbered;
        if last.is_some_and(|at| cx.now < at + SEGMENT_LIFETIME) {
            return Err(ReconfigError::TooSoon);
        }
        self.streams.renumbered = Some(cx.now);
        self.begin_reconfig(Vec::from([Kind::ResetNumbers]), None);
        Ok(())
    }

    pub(crate) fn ask_for_streams(
        &mut self,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ReconfigError> {
        let mut kinds = Vec::with_capacity(2);
        if outgoing > 0 {
            let limit = u16::MAX - self.sender.outbound_streams();
            if outgoing > limit {
                return Err(ReconfigError::TooManyStreams { limit });
            }
            kinds.push(Kind::AddOutgoing(outgoing));
        }
        if incoming > 0 {
            let most = self.config.max_inbound_streams;
            let limit = most.saturating_sub(self.receiver.inbound_streams());
            if incoming > limit {
                return Err(ReconfigError::TooManyStreams { limit });
            }
            kinds.push(Kind::AddIncoming(incoming));
        }
        if kinds.is_empty() {
            return Err(ReconfigError::NothingToAdd);
        }
        self.begin_reconfig(kinds, None);
        Ok(())
    }

    /// Bytes of a RE-CONFIG chunk that fit into a packet on every path.
    pub(super) fn room_for_reconfig(&self) -> usize {
        let reserved = self.auth_len(&RECONFIG_KINDS);
        self.paths.amdcs().saturating_sub(reserved)
    }

    /// Begins an operation; there is none. It leaves as soon as it may.
    pub(super) fn begin_reconfig(&mut self, kinds: Vec<Kind>, grants: Option<ReconfigSerial>) {
        let operation = Operation::new(kinds, grants);
        if let Some(streams) = operation.held() {
            self.sender.hold(streams);
        }
        self.streams.operation = Some(Box::new(operation));
    }

    /// Whether the operation that waits may leave now: what was sent before on the streams is
    /// acknowledged (steps A3 and C2), so that the peer resets them without delay.
    fn is_ready(&mut self) -> bool {
        let Some(operation) = &mut self.streams.operation else {
            return false;
        };
        if operation.resets_numbers() {
            return self.sender.is_flushed() && self.streams.deferred.is_none();
        }
        let Some(streams) = operation.held() else {
            return true;
        };
        if operation.sent_below.is_none() {
            operation.sent_below = self.sender.sent_below(&streams);
        }
        operation
            .sent_below
            .is_some_and(|index| self.sender.is_acknowledged_below(index))
    }

    /// Lets the operation that waits leave if it may. Returns whether one is on its way.
    pub(super) fn launch_reconfig(&mut self) -> bool {
        if self.streams.operation.is_none()
            && self.streams.demand.is_some()
            && let Some(demand) = self.streams.demand.take()
        {
            self.begin_reconfig(Vec::from([demand.1]), Some(demand.0));
        }
        match &self.streams.operation {
            None => return false,
            Some(operation) if operation.flight.is_some() => return true,
            Some(_) => {}
        }
        if !self.is_ready() {
            return false;
        }
        let Some(mut operation) = self.streams.operation.take() else {
            return false;
        };
        for request in &mut operation.requests {
            request.number = self.streams.take_number();
        }
        let last_of_peer = self.streams.last_of_peer();
        operation.flight = Some(Flight {
            path: self.paths.current(),
            due: true,
            timer: None,
            timeout: Duration::ZERO,
            transmissions: 0,
            in_progress: false,
            last_tsn: self.sender.last_tsn(),
            response: operation.grants.unwrap_or(last_of_peer),
        });
        self.streams.operation = Some(operation);
        true
    }

    /// The RE-CONFIG chunk with requests, for the first time or again.
    pub(super) fn output_reconfig(
        &mut self,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if self.streams.operation.is_some() && self.state.sends_data() {
            // Perhaps nothing is left that it waits for.
            self.expire_messages(cx);
        }
        if !self.state.sends_data() || !self.launch_reconfig() {
            return None;
        }
        let mut operation = self
            .streams
            .operation
            .take_if(|o| o.flight.is_some_and(|f| f.due))?;
        let path = self.send_reconfig(&mut operation, buf, cx);
        self.streams.operation = Some(operation);
        path
    }

    fn send_reconfig(
        &mut self,
        operation: &mut Operation,
        buf: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let mut flight = operation.flight?;
        if !self.paths.contains(flight.path) {
            flight.path = self.paths.current();
        }
        let path = flight.path;
        let rto = self.paths[path].rto.value();
        flight.timeout = flight.timeout.max(rto);
        // A peer that asks again for what this grants makes it leave again, and must not put off the
        // timeout that finds another path for it.
        flight.timer.get_or_insert(cx.now + flight.timeout);
        flight.due = false;
        flight.transmissions += 1;
        if operation.resets_numbers() {
            // What the peer sends from now on may belong after the reset.
            self.sender.expect_renumbering();
            self.receiver.defer_all();
        }
        let normal = self.paths[path].packet_size();
        let needed = COMMON_HEADER_LEN + self.auth_len(&RECONFIG_KINDS) + operation.chunk_len();
        let limit = self.limit_for(needed, normal, path, cx);
        let mut packet = PacketBuilder::new(buf, self.header(), limit);
        let slot = self.open_auth(&mut packet, &RECONFIG_KINDS);
        let ahead = packet.len();
        packet.re_config(|parameters| operation.write(&flight, parameters));
        if self.has_room_for_sack(&packet) {
            self.bundle_sack(path, &mut packet, cx);
        }
        operation.along = None;
        operation.flight = Some(flight);
        fill_up(&mut packet, normal, ahead);
        let len = self.finish(packet, slot);
        Some(Transmit {
            may_fragment: len > normal,
            ..single(self.paths[path].route(), len)
        })
    }

    /// The Re-configuration Timer (section 5.1.1), and the end of waiting for a peer that asked for
    /// a reset of the association and did not ask again.
    pub(super) fn on_reconfig_timers(&mut self, cx: &mut Context<'_>) {
        if self.streams.frozen.is_some_and(|until| until <= cx.now) {
            self.thaw();
        }
        if self.streams.operation.is_none() {
            return;
        }
        let config = Arc::clone(&self.config);
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= cx.now);
        let Some(flight) = self
            .streams
            .operation
            .as_mut()
            .and_then(|o| o.flight.as_mut())
        else {
            return;
        };
        if !is_due(flight.timer) {
            return;
        }
        let in_progress = core::mem::take(&mut flight.in_progress);
        let failed = flight.path;
        flight.timer = None;
        flight.due = true;
        flight.timeout = flight.timeout.saturating_mul(2).min(config.rto_max);
        if in_progress || !self.paths.contains(failed) {
            return;
        }
        flight.path = policy::alternate(failed, &mut self.paths.views());
        self.paths[failed].rto.back_off(&config);
        self.on_path_error(failed, true, cx);
    }
}
