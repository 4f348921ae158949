//! `recvmsg` on sockets of both styles (RFC 6458, sections 3.1.4, 4.1.8 and 5).

use std::net::SocketAddr;

use bytes::Bytes;
use carrick_proto::Time;

use crate::ancillary::{ControlMessage, write_control};
use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::events::fill;
use crate::ids::{AssocId, SocketId};
use crate::linux::{
    Layout, MSG_DONTWAIT, MSG_EOR, MSG_NOTIFICATION, MSG_PEEK, NxtInfo, RcvInfo,
    SCTP_DATA_IO_EVENT, SCTP_NOTIFICATION, SCTP_NXTINFO, SCTP_RCVINFO, SCTP_SNDRCV, SCTP_UNORDERED,
    SndRcvInfo,
};
use crate::notifications::subscription;
use crate::table::{DataItem, ReceiveContent, ReceiveEntry};

/// `MSG_CTRUNC` of `sys/socket.h`
const MSG_CTRUNC: i32 = 0x8;

/// Result of [`Sockets::recvmsg`]: the parts of `struct msghdr`. Without data and flags, it is the end of
/// messages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Message, notification or a part of one.
    pub data: Bytes,
    /// Address of the peer (`msg_name`): the primary address of the association. `None` for the end of
    /// messages.
    pub address: Option<SocketAddr>,
    /// Identifier of the association; 0 for the end of messages.
    pub association: i32,
    /// Ancillary data (`msg_control`).
    pub control: Vec<u8>,
    /// Attributes of the message, as in `SCTP_RCVINFO`, also without `SCTP_RECVRCVINFO`. `None` for a
    /// notification.
    pub info: Option<RcvInfo>,
    /// The rest of the message or notification has arrived, and remains for the next call. Without it and
    /// `MSG_EOR`, the message is delivered in part while the rest arrives (RFC 6458, section 8.1.21).
    pub has_rest: bool,
    /// `MSG_EOR` with the end of a message or notification, `MSG_NOTIFICATION`, `MSG_CTRUNC`.
    pub flags: i32,
}

impl Sockets {
    /// Reads a message or a notification, or up to `size` bytes of one: `recvmsg`. What does not fit
    /// remains for the next call, and `MSG_EOR` is not set; Linux never sets `MSG_TRUNC`. With
    /// `MSG_PEEK`, it remains as a whole. Ancillary data has at most `control_size` bytes.
    ///
    /// # Errors
    /// - `EAGAIN`: there is nothing to read. A blocking call waits for readiness.
    /// - `ENOTCONN`: a one-to-one socket that listens, or has no association and `flags` have not
    ///   `MSG_DONTWAIT`; with it, `EAGAIN`.
    /// - The pending error of the socket, after the last message.
    pub fn recvmsg(
        &mut self,
        now: Time,
        id: SocketId,
        (size, control_size): (usize, usize),
        flags: i32,
    ) -> Result<Received, Errno> {
        self.now = now;
        if !self.table.open(id)?.queue().has_items() {
            fill(self, id);
        }
        let socket = self.table.open_mut(id)?;
        let Some(item) = socket.queue().front().cloned() else {
            if let Some(error) = socket.take_error() {
                return Err(error);
            }
            if socket.is_read_closed() {
                return Ok(Received::default());
            }
            let waits = flags & MSG_DONTWAIT == 0;
            let is_refused = socket.is_one_to_one_listener() || socket.is_unconnected() && waits;
            return Err(if is_refused {
                Errno::ENOTCONN
            } else {
                Errno::EAGAIN
            });
        };
        if let ReceiveContent::Data(_) = item.content {
            // The next message, for SCTP_NXTINFO.
            fill(self, id);
        }
        let mut received = describe(self, id, &item, control_size)?;
        let socket = self.table.open_mut(id)?;
        let (data, finished) = if flags & MSG_PEEK == 0 {
            socket.queue_mut().read(size).unwrap_or_default()
        } else {
            let mut item = item.clone();
            let unread = item.unread();
            (unread.split_to(size.min(unread.len())), unread.is_empty())
        };
        received.data = data;
        received.has_rest = !finished;
        let is_end = match &item.content {
            ReceiveContent::Data(data) => data.is_end,
            ReceiveContent::Notification(_) => true,
        };
        if finished && is_end {
            received.flags |= MSG_EOR;
        }
        if flags & MSG_PEEK == 0 {
            fill(self, id);
        }
        Ok(received)
    }

    /// Returns the number of bytes of the first message or notification that have not been read
    /// (`FIONREAD`).
    ///
    /// # Errors
    /// `EBADF`, or `ENOTCONN` for a listening one-to-one socket.
    pub fn unread(&self, id: SocketId) -> Result<usize, Errno> {
        let socket = self.table.open(id)?;
        if socket.is_one_to_one_listener() {
            return Err(Errno::ENOTCONN);
        }
        Ok(socket
            .queue()
            .front()
            .map_or(0, |item| match &item.content {
                ReceiveContent::Data(data) => data.payload.len(),
                ReceiveContent::Notification(bytes) => bytes.len(),
            }))
    }
}

/// Returns the address, ancillary data and flags of an entry.
fn describe(
    host: &Sockets,
    id: SocketId,
    item: &ReceiveEntry,
    control_size: usize,
) -> Result<Received, Errno> {
    let data = match &item.content {
        ReceiveContent::Notification(_) => {
            return Ok(Received {
                address: Some(item.peer),
                association: item.association.0,
                flags: MSG_NOTIFICATION,
                ..Received::default()
            });
        }
        ReceiveContent::Data(data) => data,
    };
    let socket = host.table.open(id)?;
    let options = socket.options();
    let mut control = Vec::new();
    if options.recv_nxtinfo
        && let Some(next) = socket.queue().second()
    {
        control.push(ControlMessage::sctp(SCTP_NXTINFO, nxtinfo(next).encode()));
    }
    if options.recv_rcvinfo {
        let info = rcvinfo(item.association, data).encode();
        control.push(ControlMessage::sctp(SCTP_RCVINFO, info));
    }
    let data_io = subscription(SCTP_DATA_IO_EVENT as u16).unwrap_or(0);
    if options.events & data_io != 0 {
        let info = sndrcvinfo(item.association, data).encode();
        control.push(ControlMessage::sctp(SCTP_SNDRCV, info));
    }
    let (control, is_cut) = write_control(&control, control_size);
    Ok(Received {
        data: Bytes::new(),
        address: Some(item.peer),
        association: item.association.0,
        control,
        has_rest: false,
        info: Some(rcvinfo(item.association, data)),
        flags: if is_cut { MSG_CTRUNC } else { 0 },
    })
}

fn flags_of(data: &DataItem) -> u16 {
    if data.is_unordered {
        SCTP_UNORDERED as u16
    } else {
        0
    }
}

/// `SCTP_RCVINFO` (RFC 6458, section 5.3.5).
fn rcvinfo(id: AssocId, data: &DataItem) -> RcvInfo {
    RcvInfo {
        sid: data.stream,
        ssn: data.ssn,
        flags: flags_of(data),
        ppid: data.ppid,
        tsn: data.tsn,
        cum_tsn: data.cum_tsn,
        context: data.context,
        assoc_id: id.0,
    }
}

/// `SCTP_SNDRCV` (RFC 6458, section 5.3.2).
fn sndrcvinfo(id: AssocId, data: &DataItem) -> SndRcvInfo {
    SndRcvInfo {
        stream: data.stream,
        ssn: data.ssn,
        flags: flags_of(data),
        ppid: data.ppid,
        context: data.context,
        time_to_live: 0,
        tsn: data.tsn,
        cum_tsn: data.cum_tsn,
        assoc_id: id.0,
    }
}

/// `SCTP_NXTINFO` (RFC 6458, section 5.3.6).
fn nxtinfo(next: &ReceiveEntry) -> NxtInfo {
    let assoc_id = next.association.0;
    match &next.content {
        ReceiveContent::Data(data) => NxtInfo {
            sid: data.stream,
            flags: flags_of(data),
            ppid: data.ppid,
            length: data.payload.len() as u32,
            assoc_id,
        },
        ReceiveContent::Notification(bytes) => NxtInfo {
            flags: SCTP_NOTIFICATION as u16,
            length: bytes.len() as u32,
            assoc_id,
            ..NxtInfo::default()
        },
    }
}
