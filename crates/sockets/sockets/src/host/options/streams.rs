//! Stream schedulers (RFC 8260, section 4.3), reconfiguration (RFC 6525, section 6.3) and counters of
//! abandoned messages (RFC 7496, section 4).

use carrick_proto::{
    AbandonedCount, AbandonmentPolicy, AssociationMut, Grants, ParameterChanges, ReconfigError,
    StreamDirection, StreamId, StreamScheduler,
};

use super::scope::{OptionView, ScopeRule, change_future, perform, scope};
use super::table::{self, AtLeast, Exactly4, Get, Raw, Set, options};
use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::associations::{AssociationRef, with_association};
use crate::ids::SocketId;
use crate::linux::*;

options! {
    [IPPROTO_SCTP]
    SCTP_STREAM_SCHEDULER, ID, AtLeast<AssocValue>, [operation set_scheduler], [value scheduler];
    SCTP_STREAM_SCHEDULER_VALUE, fields(0..6), StreamValue, [operation set_scheduler_value], [value scheduler_value];
    SCTP_ENABLE_STREAM_RESET, ID, AssocValue, [changes(Any) grant_changes], [number grants];
    SCTP_RESET_STREAMS, NONE, Raw, [operation reset_streams], [none];
    SCTP_RESET_ASSOC, NONE, Exactly4<i32>, [operation reset_association], [none];
    SCTP_ADD_STREAMS, NONE, AddStreams, [operation add_streams], [none];
    SCTP_PR_STREAM_STATUS, fields(0..8), PrStatus, [none], [value |view, status| pr_status(view, status, true)];
    SCTP_PR_ASSOC_STATUS, fields(0..8), PrStatus, [none], [value |view, status| pr_status(view, status, false)];
}

/// `SCTP_STREAM_SCHEDULER` (RFC 8260, section 4.3.2) with Linux's numbers
fn set_scheduler(host: &mut Sockets, id: SocketId, given: AssocValue) -> Result<(), Errno> {
    let scheduler = match given.value as i32 {
        SCTP_SS_FCFS => StreamScheduler::FirstCome,
        SCTP_SS_PRIO => StreamScheduler::Priority,
        SCTP_SS_RR => StreamScheduler::RoundRobin,
        SCTP_SS_FC => StreamScheduler::FairBandwidth,
        SCTP_SS_WFQ => StreamScheduler::WeightedFair,
        _ => return Err(Errno::EINVAL),
    };
    let scope = scope(host, id, ScopeRule::Any, given.assoc_id)?;
    perform(host, &scope, |a| {
        a.in_core().ok_or(Errno::EINVAL)?.set_scheduler(scheduler);
        Ok(())
    })?;
    change_future(host, id, &scope, |config| {
        config.streams.scheduler = scheduler;
        Ok(())
    })
}

fn scheduler(view: &OptionView<'_>, value: &mut AssocValue) -> Result<(), Errno> {
    let association = view.source(value.assoc_id)?;
    let of_association = association.and_then(|a| a.in_core()).map(|a| a.scheduler());
    let of_socket = view.socket.options().config.streams.scheduler;
    let number = match of_association.unwrap_or(of_socket) {
        StreamScheduler::Priority => SCTP_SS_PRIO,
        StreamScheduler::RoundRobin => SCTP_SS_RR,
        StreamScheduler::FirstCome => SCTP_SS_FCFS,
        StreamScheduler::FairBandwidth => SCTP_SS_FC,
        StreamScheduler::WeightedFair => SCTP_SS_WFQ,
        // Set by the configuration; Linux's header has no number for it.
        StreamScheduler::RoundRobinPerPacket => return Err(Errno::ENOPROTOOPT),
    };
    value.value = number as u32;
    Ok(())
}

/// `SCTP_STREAM_SCHEDULER_VALUE` (RFC 8260, section 4.3.3)
fn set_scheduler_value(host: &mut Sockets, id: SocketId, given: StreamValue) -> Result<(), Errno> {
    let view = OptionView::new(host, id)?;
    let scope = view.scope(ScopeRule::Any, given.assoc_id)?;
    let of_one = view.socket.is_single();
    if scope.associations.is_empty() && !of_one && given.assoc_id != SCTP_CURRENT_ASSOC {
        return Err(Errno::EINVAL);
    }
    let stream = StreamId(given.stream_id);
    perform(host, &scope, |a| {
        let mut core = a.in_core().ok_or(Errno::EINVAL)?;
        let changed = core.set_stream_value(stream, given.value);
        changed.map_err(|_| Errno::EINVAL)
    })
}

fn scheduler_value(view: &OptionView<'_>, value: &mut StreamValue) -> Result<(), Errno> {
    let association = view.association(value.assoc_id)?;
    let core = association.in_core().ok_or(Errno::EINVAL)?;
    let current = core.stream_value(StreamId(value.stream_id));
    let current = current.ok_or(Errno::EINVAL)?;
    let has_values = !matches!(
        core.scheduler(),
        StreamScheduler::FirstCome | StreamScheduler::RoundRobin
    );
    // As on Linux: a scheduler without values of streams reports 0.
    value.value = if has_values { current } else { 0 };
    Ok(())
}

/// `SCTP_ENABLE_STREAM_RESET` (RFC 6525, section 6.3.1)
fn grant_changes(_: &OptionView<'_>, given: AssocValue) -> Result<(i32, ParameterChanges), Errno> {
    if given.value > 7 {
        return Err(Errno::EINVAL);
    }
    let has = |flag: i32| given.value as i32 & flag != 0;
    let grants = Grants {
        reset_streams: has(SCTP_ENABLE_RESET_STREAM_REQ),
        reset_association: has(SCTP_ENABLE_RESET_ASSOC_REQ),
        change_streams: has(SCTP_ENABLE_CHANGE_ASSOC_REQ),
    };
    Ok((given.assoc_id, ParameterChanges::new().grants(grants)))
}

fn grants<'a>(view: &OptionView<'a>, association: Option<AssociationRef<'a>>) -> u32 {
    let grants = view.parameters(association).streams.grants;
    let flags = [
        (grants.reset_streams, SCTP_ENABLE_RESET_STREAM_REQ),
        (grants.reset_association, SCTP_ENABLE_RESET_ASSOC_REQ),
        (grants.change_streams, SCTP_ENABLE_CHANGE_ASSOC_REQ),
    ];
    let set = flags.iter().filter(|(on, _)| *on);
    set.map(|(_, flag)| *flag as u32).sum()
}

/// Requests a reconfiguration from the peer of an association, if its user has enabled such requests.
fn reconfigure(
    host: &mut Sockets,
    (id, association): (SocketId, i32),
    is_enabled: impl FnOnce(Grants) -> bool,
    request: impl FnOnce(&mut AssociationMut<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let view = OptionView::new(host, id)?;
    let association = view.association(association)?;
    if !is_enabled(view.parameters(Some(association)).streams.grants) {
        return Err(Errno::ENOPROTOOPT);
    }
    let id = association.id;
    let result = with_association(host, id, |a| {
        let mut core = a.in_core().ok_or(Errno::ENOTCONN)?;
        request(&mut core)
    });
    result.ok_or(Errno::EINVAL)?
}

/// `SCTP_RESET_STREAMS` (RFC 6525, section 6.3.2)
fn reset_streams(host: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let request = ResetStreams::read(value)?;
    let list = &value[ResetStreams::SIZE..];
    if list.len() != 2 * usize::from(request.number) {
        return Err(Errno::EINVAL);
    }
    let pairs = list.chunks_exact(2);
    let streams = pairs.map(|pair| StreamId(u16::from_ne_bytes([pair[0], pair[1]])));
    let streams: Vec<StreamId> = streams.collect();
    let both = SCTP_STREAM_RESET_OUTGOING | SCTP_STREAM_RESET_INCOMING;
    let direction = match i32::from(request.flags) {
        SCTP_STREAM_RESET_OUTGOING => Some(StreamDirection::Outgoing),
        SCTP_STREAM_RESET_INCOMING => Some(StreamDirection::Incoming),
        flags if flags == both => Some(StreamDirection::Both),
        _ => None,
    };
    let to = (id, request.assoc_id);
    reconfigure(
        host,
        to,
        |g| g.reset_streams,
        |a| {
            let requested = a.reset_streams(direction.ok_or(Errno::EINVAL)?, &streams);
            requested.map_err(reconfig_error)
        },
    )
}

/// `SCTP_RESET_ASSOC` (RFC 6525, section 6.3.3)
fn reset_association(host: &mut Sockets, id: SocketId, association: i32) -> Result<(), Errno> {
    let to = (id, association);
    reconfigure(
        host,
        to,
        |g| g.reset_association,
        |a| a.reset_association().map_err(reconfig_error),
    )
}

/// `SCTP_ADD_STREAMS` (RFC 6525, section 6.3.4)
fn add_streams(host: &mut Sockets, id: SocketId, request: AddStreams) -> Result<(), Errno> {
    let (outbound, inbound) = (request.outbound, request.inbound);
    let to = (id, request.assoc_id);
    reconfigure(
        host,
        to,
        |g| g.change_streams,
        |a| a.add_streams(outbound, inbound).map_err(reconfig_error),
    )
}

/// `SCTP_PR_STREAM_STATUS` and `SCTP_PR_ASSOC_STATUS` (RFC 7496, sections 4.3 and 4.4)
fn pr_status(view: &OptionView<'_>, status: &mut PrStatus, of_stream: bool) -> Result<(), Errno> {
    let association = view.association(status.assoc_id)?;
    let abandoned = if of_stream {
        let core = association.in_core();
        let stats = core.and_then(|a| a.stream_stats(StreamId(status.sid)));
        stats.ok_or(Errno::EINVAL)?.abandoned
    } else {
        association.stats().ok_or(Errno::EINVAL)?.abandoned
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
    Ok(())
}

fn reconfig_error(error: ReconfigError) -> Errno {
    match error {
        ReconfigError::NotInForce => Errno::ENOPROTOOPT,
        ReconfigError::WrongState => Errno::ENOTCONN,
        ReconfigError::InProgress => Errno::EINPROGRESS,
        ReconfigError::TooSoon => Errno::EAGAIN,
        ReconfigError::InvalidStream { .. }
        | ReconfigError::ListTooLong { .. }
        | ReconfigError::TooManyStreams { .. }
        | ReconfigError::NothingToAdd => Errno::EINVAL,
    }
}
