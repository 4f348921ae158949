//! Defaults of sent messages, and what the user reads besides messages (RFC 6458, sections 6.2 and 8.1).

use super::scope::{OptionView, ScopeRule, change_own, scope};
use super::table::{self, Get, Raw, Set, options};
use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::events::notify;
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::notifications::{KINDS, sender_dry, subscription};
use crate::settings::SendDefaults;

/// Place of `SCTP_SENDER_DRY_EVENT` in `struct sctp_event_subscribe`.
const SENDER_DRY_BYTE: usize = (SCTP_SENDER_DRY_EVENT - SCTP_SN_TYPE_BASE) as usize;

options! {
    [IPPROTO_SCTP]
    SCTP_EVENTS, NONE, Raw, [operation set_events], [bytes events];
    SCTP_EVENT, fields(0..6), EventOption, [operation set_event], [value event];
    SCTP_RECVRCVINFO, NONE, bool, [options |o, on| o.recv_rcvinfo = on], [int |s| s.options().recv_rcvinfo];
    SCTP_RECVNXTINFO, NONE, bool, [options |o, on| o.recv_nxtinfo = on], [int |s| s.options().recv_nxtinfo];
    SCTP_CONTEXT, ID, AssocValue, [operation set_context],
        [number |view, a| a.map_or(view.socket.options().context, |a| a.own.context)];
    SCTP_DEFAULT_SEND_PARAM, fields(28..32), SndRcvInfo, [operation set_default_send_param], [value default_send_param];
    SCTP_DEFAULT_SNDINFO, fields(12..16), SndInfo, [operation set_default_sndinfo], [value default_sndinfo];
    SCTP_DEFAULT_PRINFO, ID, DefaultPrInfo, [operation set_default_prinfo], [value default_prinfo];
}

/// `SCTP_EVENTS` (section 6.2.1), of up to 14 bytes: types behind the last byte stay as they are. It
/// applies to existing associations, too.
fn set_events(host: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    if value.len() > KINDS {
        return Err(Errno::EINVAL);
    }
    let socket = host.table.open_mut(id)?;
    let events = &mut socket.options_mut().events;
    for (kind, on) in value.iter().enumerate() {
        set_bit(events, 1 << kind, *on != 0);
    }
    let events = *events;
    let dry = SENDER_DRY_BYTE < value.len() && value[SENDER_DRY_BYTE] != 0;
    for association in socket.associations().clone() {
        subscribe(host, association, events, dry);
    }
    Ok(())
}

fn events(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    if buffer.is_empty() {
        return Err(Errno::EINVAL);
    }
    let events = view.socket.options().events;
    let on = (0..KINDS).map(|kind| (events >> kind & 1) as u8);
    Ok(on.take(buffer.len()).collect())
}

/// `SCTP_EVENT` (section 6.2.2)
fn set_event(host: &mut Sockets, id: SocketId, event: EventOption) -> Result<(), Errno> {
    let bit = subscription(event.kind).ok_or(Errno::EINVAL)?;
    let scope = scope(host, id, ScopeRule::Any, event.assoc_id)?;
    let on = event.on != 0;
    let socket = host.table.open_mut(id)?;
    // Ancillary data is a matter of the socket.
    let of_socket = i32::from(event.kind) == SCTP_DATA_IO_EVENT && socket.is_single();
    if scope.future || of_socket {
        set_bit(&mut socket.options_mut().events, bit, on);
    }
    for association in scope.associations {
        let known = host.associations.get(association);
        let mut events = known.map_or(0, |a| a.events);
        set_bit(&mut events, bit, on);
        let dry = on && i32::from(event.kind) == SCTP_SENDER_DRY_EVENT;
        subscribe(host, association, events, dry);
    }
    Ok(())
}

fn event(view: &OptionView<'_>, event: &mut EventOption) -> Result<(), Errno> {
    let bit = subscription(event.kind).ok_or(Errno::EINVAL)?;
    let association = view.source(event.assoc_id)?;
    let events = association.map_or(view.socket.options().events, |a| a.own.events);
    event.on = u8::from(events & bit != 0);
    Ok(())
}

/// Sets the subscriptions of an association. With `dry`, a subscription to `SCTP_SENDER_DRY_EVENT`, it
/// is notified at once if nothing is outstanding (section 6.1.9), as Linux has it also if it was
/// subscribed before.
fn subscribe(host: &mut Sockets, id: AssocId, events: u16, dry: bool) {
    let Some(association) = host.associations.get_mut(id) else {
        return;
    };
    association.events = events;
    let association = host.lookup().get(id).filter(|_| dry);
    let association = association.filter(|association| association.own.is_established());
    let stats = association.and_then(|association| association.stats());
    if stats.is_some_and(|stats| stats.send_buffer_bytes == 0) {
        notify(host, id, sender_dry(id));
    }
}

/// `SCTP_CONTEXT` (section 8.1.25)
fn set_context(host: &mut Sockets, id: SocketId, given: AssocValue) -> Result<(), Errno> {
    let AssocValue { assoc_id, value } = given;
    change_own(
        host,
        id,
        assoc_id,
        |a| a.context = value,
        |o| o.context = value,
    )
}

fn change_defaults(
    host: &mut Sockets,
    id: SocketId,
    assoc_id: i32,
    change: impl Fn(&mut SendDefaults),
) -> Result<(), Errno> {
    change_own(
        host,
        id,
        assoc_id,
        |a| change(&mut a.send),
        |o| change(&mut o.send),
    )
}

fn defaults(view: &OptionView<'_>, assoc_id: i32) -> Result<SendDefaults, Errno> {
    let association = view.source(assoc_id)?;
    Ok(association.map_or(view.socket.options().send, |a| a.own.send))
}

/// `SCTP_DEFAULT_SEND_PARAM` (section 8.1.13)
fn set_default_send_param(host: &mut Sockets, id: SocketId, info: SndRcvInfo) -> Result<(), Errno> {
    check_default_flags(info.flags)?;
    change_defaults(host, id, info.assoc_id, |defaults| {
        defaults.stream = info.stream;
        defaults.flags = info.flags;
        defaults.ppid = info.ppid;
        defaults.context = info.context;
        defaults.time_to_live = info.time_to_live;
    })
}

fn default_send_param(view: &OptionView<'_>, info: &mut SndRcvInfo) -> Result<(), Errno> {
    let defaults = defaults(view, info.assoc_id)?;
    *info = SndRcvInfo {
        stream: defaults.stream,
        flags: defaults.flags,
        ppid: defaults.ppid,
        context: defaults.context,
        time_to_live: defaults.time_to_live,
        assoc_id: info.assoc_id,
        ..SndRcvInfo::default()
    };
    Ok(())
}

/// `SCTP_DEFAULT_SNDINFO` (section 8.1.31)
fn set_default_sndinfo(host: &mut Sockets, id: SocketId, info: SndInfo) -> Result<(), Errno> {
    check_default_flags(info.flags)?;
    change_defaults(host, id, info.assoc_id, |defaults| {
        defaults.stream = info.sid;
        defaults.flags = info.flags;
        defaults.ppid = info.ppid;
        defaults.context = info.context;
    })
}

fn default_sndinfo(view: &OptionView<'_>, info: &mut SndInfo) -> Result<(), Errno> {
    let defaults = defaults(view, info.assoc_id)?;
    *info = SndInfo {
        sid: defaults.stream,
        flags: defaults.flags,
        ppid: defaults.ppid,
        context: defaults.context,
        assoc_id: info.assoc_id,
    };
    Ok(())
}

/// `SCTP_DEFAULT_PRINFO` (section 8.1.32)
fn set_default_prinfo(host: &mut Sockets, id: SocketId, info: DefaultPrInfo) -> Result<(), Errno> {
    if i32::from(info.policy) & !SCTP_PR_SCTP_MASK != 0 {
        return Err(Errno::EINVAL);
    }
    let value = if info.policy == 0 { 0 } else { info.value };
    change_defaults(host, id, info.assoc_id, |defaults| {
        (defaults.policy, defaults.value) = (info.policy, value);
    })
}

fn default_prinfo(view: &OptionView<'_>, info: &mut DefaultPrInfo) -> Result<(), Errno> {
    let defaults = defaults(view, info.assoc_id)?;
    (info.policy, info.value) = (defaults.policy, defaults.value);
    Ok(())
}

fn set_bit(bits: &mut u16, bit: u16, on: bool) {
    if on {
        *bits |= bit;
    } else {
        *bits &= !bit;
    }
}

/// Checks the flags of default parameters: those that end an association are none.
fn check_default_flags(flags: u16) -> Result<(), Errno> {
    let allowed = SCTP_UNORDERED | SCTP_ADDR_OVER | SCTP_SACK_IMMEDIATELY | SCTP_PR_SCTP_MASK;
    let unknown = i32::from(flags) & !allowed != 0;
    (!unknown).then_some(()).ok_or(Errno::EINVAL)
}
