//! Defaults of sent messages, and what the user reads besides messages (RFC 6458, sections 6.2 and 8.1).

use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::notifications::{KINDS, sender_dry, subscription};
use crate::settings::SendDefaults;
use crate::table::Socket;

/// Place of `SCTP_SENDER_DRY_EVENT` in `struct sctp_event_subscribe`.
const SENDER_DRY_BYTE: usize = (SCTP_SENDER_DRY_EVENT - SCTP_SN_TYPE_BASE) as usize;

impl Sockets {
    /// `SCTP_EVENTS` (section 6.2.1), of up to 14 bytes: types behind the last byte stay as they are. It
    /// applies to existing associations, too.
    pub(super) fn set_events(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        if value.len() > KINDS {
            return Err(Errno::EINVAL);
        }
        let socket = self.table.open_mut(id)?;
        let events = &mut socket.options.events;
        for (kind, on) in value.iter().enumerate() {
            set_bit(events, 1 << kind, *on != 0);
        }
        let events = *events;
        let dry = SENDER_DRY_BYTE < value.len() && value[SENDER_DRY_BYTE] != 0;
        for association in socket.associations.clone() {
            self.subscribe(association, events, dry);
        }
        Ok(())
    }

    pub(super) fn get_events(socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        if buffer.is_empty() {
            return Err(Errno::EINVAL);
        }
        let events = socket.options.events;
        let on = (0..KINDS).map(|kind| (events >> kind & 1) as u8);
        Ok(on.take(buffer.len()).collect())
    }

    /// `SCTP_EVENT` (section 6.2.2)
    pub(super) fn set_event(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let event = EventOption::decode(value)?;
        let bit = subscription(event.kind).ok_or(Errno::EINVAL)?;
        let socket = self.table.open(id)?;
        let target = self.target(socket, event.assoc_id)?;
        let on = event.on != 0;
        // Ancillary data is a matter of the socket.
        let of_socket = i32::from(event.kind) == SCTP_DATA_IO_EVENT && socket.is_single();
        if target.future || of_socket {
            set_bit(&mut self.table.open_mut(id)?.options.events, bit, on);
        }
        for association in target.associations {
            let known = self.associations.get(association);
            let mut events = known.map_or(0, |a| a.events);
            set_bit(&mut events, bit, on);
            let dry = on && i32::from(event.kind) == SCTP_SENDER_DRY_EVENT;
            self.subscribe(association, events, dry);
        }
        Ok(())
    }

    pub(super) fn get_event(&self, socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut event = EventOption::read(buffer)?;
        let bit = subscription(event.kind).ok_or(Errno::EINVAL)?;
        let association = self.source(socket, event.assoc_id)?;
        let events = association
            .and_then(|id| self.associations.get(id))
            .map_or(socket.options.events, |a| a.events);
        event.on = u8::from(events & bit != 0);
        Ok(event.encode())
    }

    /// Sets the subscriptions of an association. With `dry`, a subscription to `SCTP_SENDER_DRY_EVENT`, it
    /// is notified at once if nothing is outstanding (section 6.1.9), as Linux has it also if it was
    /// subscribed before.
    fn subscribe(&mut self, id: AssocId, events: u16, dry: bool) {
        let Some(association) = self.associations.get_mut(id) else {
            return;
        };
        association.events = events;
        let established = association.is_established();
        let is_dry = self.stats(id).is_some_and(|s| s.send_buffer_bytes == 0);
        if established && is_dry && dry {
            self.notify(id, sender_dry(id));
        }
    }

    /// `SCTP_CONTEXT` (section 8.1.25)
    pub(super) fn set_context(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let value = AssocValue::decode(value)?;
        let target = self.target(self.table.open(id)?, value.assoc_id)?;
        for association in target.associations {
            if let Some(association) = self.associations.get_mut(association) {
                association.context = value.value;
            }
        }
        if target.future {
            self.table.open_mut(id)?.options.context = value.value;
        }
        Ok(())
    }

    pub(super) fn get_context(&self, socket: &Socket, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut value = AssocValue::read(buffer)?;
        let association = self.source(socket, value.assoc_id)?;
        value.value = association
            .and_then(|id| self.associations.get(id))
            .map_or(socket.options.context, |a| a.context);
        Ok(value.encode())
    }

    fn change_defaults(
        &mut self,
        id: SocketId,
        assoc_id: i32,
        change: impl Fn(&mut SendDefaults),
    ) -> Result<(), Errno> {
        let target = self.target(self.table.open(id)?, assoc_id)?;
        for association in target.associations {
            if let Some(association) = self.associations.get_mut(association) {
                change(&mut association.send);
            }
        }
        if target.future {
            change(&mut self.table.open_mut(id)?.options.send);
        }
        Ok(())
    }

    fn defaults_of(&self, socket: &Socket, assoc_id: i32) -> Result<SendDefaults, Errno> {
        let association = self.source(socket, assoc_id)?;
        let association = association.and_then(|id| self.associations.get(id));
        Ok(association.map_or(socket.options.send, |a| a.send))
    }

    /// `SCTP_DEFAULT_SEND_PARAM` (section 8.1.13)
    pub(super) fn set_default_send_param(
        &mut self,
        id: SocketId,
        value: &[u8],
    ) -> Result<(), Errno> {
        let info = SndRcvInfo::decode(value)?;
        check_default_flags(info.flags)?;
        self.change_defaults(id, info.assoc_id, |defaults| {
            defaults.stream = info.stream;
            defaults.flags = info.flags;
            defaults.ppid = info.ppid;
            defaults.context = info.context;
            defaults.time_to_live = info.time_to_live;
        })
    }

    pub(super) fn get_default_send_param(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let info = SndRcvInfo::read(buffer)?;
        let defaults = self.defaults_of(socket, info.assoc_id)?;
        let info = SndRcvInfo {
            stream: defaults.stream,
            flags: defaults.flags,
            ppid: defaults.ppid,
            context: defaults.context,
            time_to_live: defaults.time_to_live,
            assoc_id: info.assoc_id,
            ..SndRcvInfo::default()
        };
        Ok(info.encode())
    }

    /// `SCTP_DEFAULT_SNDINFO` (section 8.1.31)
    pub(super) fn set_default_sndinfo(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let info = SndInfo::decode(value)?;
        check_default_flags(info.flags)?;
        self.change_defaults(id, info.assoc_id, |defaults| {
            defaults.stream = info.sid;
            defaults.flags = info.flags;
            defaults.ppid = info.ppid;
            defaults.context = info.context;
        })
    }

    pub(super) fn get_default_sndinfo(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let info = SndInfo::read(buffer)?;
        let defaults = self.defaults_of(socket, info.assoc_id)?;
        let info = SndInfo {
            sid: defaults.stream,
            flags: defaults.flags,
            ppid: defaults.ppid,
            context: defaults.context,
            assoc_id: info.assoc_id,
        };
        Ok(info.encode())
    }

    /// `SCTP_DEFAULT_PRINFO` (section 8.1.32)
    pub(super) fn set_default_prinfo(&mut self, id: SocketId, value: &[u8]) -> Result<(), Errno> {
        let info = DefaultPrInfo::decode(value)?;
        if i32::from(info.policy) & !SCTP_PR_SCTP_MASK != 0 {
            return Err(Errno::EINVAL);
        }
        let value = if info.policy == 0 { 0 } else { info.value };
        self.change_defaults(id, info.assoc_id, |defaults| {
            (defaults.policy, defaults.value) = (info.policy, value);
        })
    }

    pub(super) fn get_default_prinfo(
        &self,
        socket: &Socket,
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let mut info = DefaultPrInfo::read(buffer)?;
        let defaults = self.defaults_of(socket, info.assoc_id)?;
        (info.policy, info.value) = (defaults.policy, defaults.value);
        Ok(info.encode())
    }
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
