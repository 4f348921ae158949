//! Stream schedulers (RFC 8260, section 4.3), reconfiguration (RFC 6525, section 6.3) and counters of
//! abandoned messages (RFC 7496, section 4).

use carrick_proto::{
    AbandonedCount, AbandonmentPolicy, Grants, ParameterChanges, ReconfigError, StreamDirection,
    StreamId, StreamScheduler,
};

use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::table::Socket;

use super::read_int;

impl Sockets {
    /// `SCTP_STREAM_SCHEDULER` (RFC 8260, section 4.3.2) with Linux's numbers
    pub(super) fn set_scheduler(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        let value = AssocValue::read(value)?;
        let scheduler = match value.value as i32 {
            SCTP_SS_FCFS => StreamScheduler::FirstCome,
            SCTP_SS_PRIO => StreamScheduler::Priority,
            SCTP_SS_RR => StreamScheduler::RoundRobin,
            SCTP_SS_FC => StreamScheduler::FairBandwidth,
            SCTP_SS_WFQ => StreamScheduler::WeightedFair,
            _ => return Err(Errno::EINVAL),
        };
        let target = self.target(self.table.open(id)?, value.assoc_id)?;
        self.perform(&target, |core, core_id| {
            let changed = core.set_scheduler(now, core_id, scheduler);
            changed.map_err(|_| Errno::EINVAL)
        })?;
        if !target.future {
            return Ok(());
        }
        self.change_future(id, |config| config.streams.scheduler = scheduler)
    }

    pub(super) fn get_scheduler(&self, socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut value = AssocValue::read(buffer)?;
        let association = self.source(socket, value.assoc_id)?;
        let of_association = association
            .and_then(|id| self.core_ref(id))
            .and_then(|(core, core_id)| core.scheduler(core_id));
        let number = match of_association.unwrap_or(socket.options.config.streams.scheduler) {
            StreamScheduler::Priority => SCTP_SS_PRIO,
            StreamScheduler::RoundRobin => SCTP_SS_RR,
            StreamScheduler::FirstCome => SCTP_SS_FCFS,
            StreamScheduler::FairBandwidth => SCTP_SS_FC,
            StreamScheduler::WeightedFair => SCTP_SS_WFQ,
            // Set by the configuration; Linux's header has no number for it.
            StreamScheduler::RoundRobinPerPacket => return Err(Errno::ENOPROTOOPT),
        };
        value.value = number as u32;
        Ok(value.encode())
    }

    /// `SCTP_STREAM_SCHEDULER_VALUE` (RFC 8260, section 4.3.3)
    pub(super) fn set_scheduler_value(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        let value = StreamValue::decode(value)?;
        let socket = self.table.open(id)?;
        let of_one = socket.is_single();
        let target = self.target(socket, value.assoc_id)?;
        if target.associations.is_empty() && !of_one && value.assoc_id != SCTP_CURRENT_ASSOC {
            return Err(Errno::EINVAL);
        }
        let stream = StreamId(value.stream_id);
        self.perform(&target, |core, core_id| {
            let changed = core.set_stream_value(now, core_id, stream, value.value);
            changed.map_err(|_| Errno::EINVAL)
        })
    }

    pub(super) fn get_scheduler_value(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let mut value = StreamValue::read(buffer)?;
        let association = self.association_of(socket, value.assoc_id);
        let (core, core_id) = self
            .core_ref(association.ok_or(Errno::EINVAL)?)
            .ok_or(Errno::EINVAL)?;
        let current = core.stream_value(core_id, StreamId(value.stream_id));
        let current = current.ok_or(Errno::EINVAL)?;
        let has_values = !matches!(
            core.scheduler(core_id),
            Some(StreamScheduler::FirstCome | StreamScheduler::RoundRobin)
        );
        // As on Linux: a scheduler without values of streams reports 0.
        value.value = if has_values { current } else { 0 };
        Ok(value.encode())
    }

    /// `SCTP_ENABLE_STREAM_RESET` (RFC 6525, section 6.3.1)
    pub(super) fn set_enable_stream_reset(
        &mut self,
        id: SocketId,
        value: &[u8],
    ) -> Result<(), Errno> {
        let value = AssocValue::decode(value)?;
        if value.value > 7 {
            return Err(Errno::EINVAL);
        }
        let target = self.target(self.table.open(id)?, value.assoc_id)?;
        let has = |flag: i32| value.value as i32 & flag != 0;
        let grants = Grants {
            reset_streams: has(SCTP_ENABLE_RESET_STREAM_REQ),
            reset_association: has(SCTP_ENABLE_RESET_ASSOC_REQ),
            change_streams: has(SCTP_ENABLE_CHANGE_ASSOC_REQ),
        };
        let changes = ParameterChanges::new().grants(grants);
        self.change_parameters(id, &target, &changes)
    }

    pub(super) fn get_enable_stream_reset(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let mut value = AssocValue::read(buffer)?;
        let association = self.source(socket, value.assoc_id)?;
        let grants = self.config_of(socket, association).streams.grants;
        let flags = [
            (grants.reset_streams, SCTP_ENABLE_RESET_STREAM_REQ),
            (grants.reset_association, SCTP_ENABLE_RESET_ASSOC_REQ),
            (grants.change_streams, SCTP_ENABLE_CHANGE_ASSOC_REQ),
        ];
        let set = flags.iter().filter(|(on, _)| *on);
        value.value = set.map(|(_, flag)| *flag as u32).sum();
        Ok(value.encode())
    }

    /// Returns the association of a reconfiguration request, if its user has enabled such requests.
    fn to_reconfigure(
        &self,
        id: SocketId,
        assoc_id: i32,
        enabled: impl Fn(Grants) -> bool,
    ) -> Result<AssocId, Errno> {
        let socket = self.table.open(id)?;
        let association = self.association_of(socket, assoc_id).ok_or(Errno::EINVAL)?;
        let grants = self.config_of(socket, Some(association)).streams.grants;
        enabled(grants)
            .then_some(association)
            .ok_or(Errno::ENOPROTOOPT)
    }

    /// `SCTP_RESET_STREAMS` (RFC 6525, section 6.3.2)
    pub(super) fn reset_streams(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        let request = ResetStreams::read(value)?;
        let list = &value[ResetStreams::SIZE..];
        if list.len() != 2 * usize::from(request.number) {
            return Err(Errno::EINVAL);
        }
        let streams: Vec<StreamId> = list
            .chunks_exact(2)
            .map(|pair| StreamId(u16::from_ne_bytes([pair[0], pair[1]])))
            .collect();
        let association = self.to_reconfigure(id, request.assoc_id, |g| g.reset_streams)?;
        let both = SCTP_STREAM_RESET_OUTGOING | SCTP_STREAM_RESET_INCOMING;
        let direction = match i32::from(request.flags) {
            SCTP_STREAM_RESET_OUTGOING => StreamDirection::Outgoing,
            SCTP_STREAM_RESET_INCOMING => StreamDirection::Incoming,
            flags if flags == both => StreamDirection::Both,
            _ => return Err(Errno::EINVAL),
        };
        let (core, core_id) = self.core_of(association).ok_or(Errno::EINVAL)?;
        let result = core.reset_streams(now, core_id, direction, &streams);
        self.settle_association(association);
        result.map_err(reconfig_error)
    }

    /// `SCTP_RESET_ASSOC` (RFC 6525, section 6.3.3)
    pub(super) fn reset_association(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        if value.len() != 4 {
            return Err(Errno::EINVAL);
        }
        let association = self.to_reconfigure(id, read_int(value)?, |g| g.reset_association)?;
        let (core, core_id) = self.core_of(association).ok_or(Errno::EINVAL)?;
        let result = core.reset_association(now, core_id);
        self.settle_association(association);
        result.map_err(reconfig_error)
    }

    /// `SCTP_ADD_STREAMS` (RFC 6525, section 6.3.4)
    pub(super) fn add_streams(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let now = self.now;
        let request = AddStreams::decode(value)?;
        let association = self.to_reconfigure(id, request.assoc_id, |g| g.change_streams)?;
        let (core, core_id) = self.core_of(association).ok_or(Errno::EINVAL)?;
        let result = core.add_streams(now, core_id, request.outbound, request.inbound);
        self.settle_association(association);
        result.map_err(reconfig_error)
    }

    /// `SCTP_PR_STREAM_STATUS` and `SCTP_PR_ASSOC_STATUS` (RFC 7496, sections 4.3 and 4.4)
    pub(super) fn get_pr_status(
        &self,
        socket: &Socket,
        buffer: &[u8],
        of_stream: bool,
    ) -> Result<Vec<u8>, Errno> {
        let mut status = PrStatus::read(buffer)?;
        let association = self.association_of(socket, status.assoc_id);
        let (core, core_id) = self
            .core_ref(association.ok_or(Errno::EINVAL)?)
            .ok_or(Errno::EINVAL)?;
        let abandoned = if of_stream {
            let stats = core.stream_stats(core_id, StreamId(status.sid));
            stats.ok_or(Errno::EINVAL)?.abandoned
        } else {
            let stats = core.association_stats(core_id);
            stats.ok_or(Errno::EINVAL)?.abandoned
        };
        let policy = i32::from(status.policy);
        let count: AbandonedCount = match policy & !SCTP_PR_SCTP_ALL {
            0 if policy == SCTP_PR_SCTP_ALL => abandoned.total(),
            SCTP_PR_SCTP_TTL => abandoned.by(AbandonmentPolicy::Timed),
            SCTP_PR_SCTP_RTX => abandoned.by(AbandonmentPolicy::Retransmissions),
            SCTP_PR_SCTP_PRIO => abandoned.by(AbandonmentPolicy::Priority),
            _ => return Err(Errno::EINVAL),
        };
        status.abandoned_unsent = count.unsent;
        status.abandoned_sent = count.sent;
        Ok(status.encode())
    }
}

fn reconfig_error(error: ReconfigError) -> Errno {
    match error {
        ReconfigError::NotInForce => Errno::ENOPROTOOPT,
        ReconfigError::WrongState | ReconfigError::UnknownAssociation => Errno::ENOTCONN,
        ReconfigError::InProgress => Errno::EINPROGRESS,
        ReconfigError::TooSoon => Errno::EAGAIN,
        ReconfigError::InvalidStream { .. }
        | ReconfigError::ListTooLong { .. }
        | ReconfigError::TooManyStreams { .. }
        | ReconfigError::NothingToAdd => Errno::EINVAL,
    }
}
