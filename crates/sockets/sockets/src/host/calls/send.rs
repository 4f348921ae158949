//! `sendmsg` on sockets of both styles (RFC 6458, sections 3.1.4, 4.1.8 and 5).

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use carrick_proto::{ChunkType, Ppid, Reliability, SendError, SendOptions, StreamId, Time};

use crate::ancillary::SendAttributes;
use crate::errno::Errno;
use crate::host::associations::{
    AssociationRef, association_mut, remove_association, with_association,
};
use crate::host::calls::connect::associate;
use crate::host::calls::shutdown::shut_down_association;
use crate::host::{Sockets, settle, settle_association};
use crate::ids::{AssocId, SocketId};
use crate::linux::{
    SCTP_ABORT, SCTP_ADDR_OVER, SCTP_EOF, SCTP_PR_SCTP_MASK, SCTP_PR_SCTP_PRIO, SCTP_PR_SCTP_RTX,
    SCTP_SACK_IMMEDIATELY, SCTP_SENDALL, SCTP_UNORDERED, unmapped,
};
use crate::settings::SendDefaults;

/// Message for [`Sockets::sendmsg`]: the parts of `struct msghdr`.
#[derive(Clone, Debug, Default)]
pub struct OutgoingMessage<'a> {
    /// Address of the peer (`msg_name`).
    pub address: Option<SocketAddr>,
    /// Payload (`msg_iov`).
    pub data: Bytes,
    /// Ancillary data (`msg_control`).
    pub control: &'a [u8],
}

/// Attributes of a message, from its ancillary data and the defaults.
#[derive(Clone, Copy, Debug)]
struct Attributes {
    stream: u16,
    flags: i32,
    /// In network byte order, as in ancillary data.
    ppid: u32,
    context: u32,
    policy: i32,
    /// Milliseconds, retransmissions or priority.
    value: u32,
}

impl Sockets {
    /// Sends a message: `sendmsg`. On a one-to-many socket, a message to an address without an
    /// association sets one up. Flags of `SCTP_SNDINFO` or `SCTP_SNDRCV` abort (`SCTP_ABORT`) or shut
    /// down (`SCTP_EOF`) an association, or send to all of them (`SCTP_SENDALL`). Returns the number of
    /// bytes, which is 0 if an association ends or `SCTP_SENDALL` finds none.
    ///
    /// # Errors
    /// - `EAGAIN`: the send buffer is full, or those of all sockets of the owner
    ///   ([`Config::send_memory_per_owner`](crate::Config::send_memory_per_owner)).
    /// - `EINVAL`: wrong ancillary data, flags, stream or address.
    /// - `EADDRNOTAVAIL`: the address is none of the peer of a one-to-one socket.
    /// - `EMSGSIZE`: larger than `SO_SNDBUF`, or than a packet with `SCTP_DISABLE_FRAGMENTS`.
    /// - `EPIPE`: there is no association, or it has ended. Unless the caller's flags have
    ///   `MSG_NOSIGNAL`, the process gets SIGPIPE.
    /// - `ENOPROTOOPT`: another key than the active one (`SCTP_AUTHINFO`), if the peer requires one.
    /// - `ESHUTDOWN`: the association of a one-to-many socket is shutting down; on other sockets it is `EPIPE`.
    /// - The pending error of the socket, instead of `EPIPE`.
    /// - As for [`Self::connectx`], if an association is to be set up.
    pub fn sendmsg(
        &mut self,
        now: Time,
        id: SocketId,
        message: &OutgoingMessage<'_>,
    ) -> Result<usize, Errno> {
        self.now = now;
        let mut result = send_checked(self, id, message);
        let socket = self.table.open(id)?;
        if result == Err(Errno::ESHUTDOWN) && socket.is_single() {
            result = Err(Errno::EPIPE);
        }
        match result {
            Err(Errno::EPIPE) => {
                let pending = self.table.open_mut(id).ok().and_then(|s| s.take_error());
                Err(pending.unwrap_or(Errno::EPIPE))
            }
            result => result,
        }
    }
}

fn send_checked(
    host: &mut Sockets,
    id: SocketId,
    message: &OutgoingMessage<'_>,
) -> Result<usize, Errno> {
    let socket = host.table.open(id)?;
    if socket.is_one_to_one_listener() || socket.is_ended() {
        return Err(Errno::EPIPE);
    }
    let len = message.data.len();
    if len > socket.options().send_buffer() {
        return Err(Errno::EMSGSIZE);
    }
    let given = SendAttributes::read(message.control)?;
    let flags = given.info.map_or(0, |info| i32::from(info.flags));
    let ends = SCTP_EOF | SCTP_ABORT;
    let misused = socket.is_one_to_one() && flags & ends != 0
        || flags & SCTP_EOF != 0 && len > 0
        || flags & ends == 0 && len == 0
        || flags & SCTP_ADDR_OVER != 0 && message.address.is_none();
    if misused {
        return Err(Errno::EINVAL);
    }
    if flags & SCTP_SENDALL != 0 && !socket.is_single() {
        return send_to_all(host, id, message, &given);
    }
    let assoc_id = given.info.map_or(0, |info| info.assoc_id);
    let lookup = host.lookup();
    if let Some(address) = message.address {
        let ip = socket.canonical(address)?;
        let by_address = lookup.with_peer(socket, ip, address.port());
        let existing = socket.only_association().or(by_address.map(|a| a.id));
        if socket.is_one_to_one() && existing.is_some() && by_address.is_none() {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if existing.is_none() {
            return send_to_new(host, id, address, message, &given);
        }
    }
    let association = match message.address {
        // The identifier is ignored where an address is given, as in Linux.
        Some(address) if socket.only_association().is_none() => {
            let ip = socket.canonical(address)?;
            lookup.with_peer(socket, ip, address.port())
        }
        _ => lookup.meant(socket, assoc_id),
    };
    let association = association.ok_or(Errno::EPIPE)?.id;
    send_to(host, association, message, &given)
}

/// Sends to all established associations of a one-to-many socket (`SCTP_SENDALL`).
fn send_to_all(
    host: &mut Sockets,
    id: SocketId,
    message: &OutgoingMessage<'_>,
    given: &SendAttributes,
) -> Result<usize, Errno> {
    let all = host.table.open(id)?.associations().clone();
    let mut given = given.clone();
    if let Some(info) = &mut given.info {
        // Each association has its own address.
        info.flags &= !(SCTP_ADDR_OVER as u16);
    }
    let mut sent = 0;
    for association in all {
        let known = host.associations.get(association);
        if known.is_some_and(|a| a.is_established() && a.is_open()) {
            sent = send_to(host, association, message, &given)?;
        }
    }
    Ok(sent)
}

/// Sets up an association for its first message (RFC 6458, section 3.1).
fn send_to_new(
    host: &mut Sockets,
    id: SocketId,
    address: SocketAddr,
    message: &OutgoingMessage<'_>,
    given: &SendAttributes,
) -> Result<usize, Errno> {
    let socket = host.table.open(id)?;
    let flags = given.info.map_or(0, |info| i32::from(info.flags));
    if flags & (SCTP_EOF | SCTP_ABORT) != 0 {
        return Err(Errno::EINVAL);
    }
    if socket.is_peeled_off() || socket.is_ended() {
        return Err(Errno::EPIPE);
    }
    let mut peers = vec![address];
    let further = given.destinations.iter();
    peers.extend(further.map(|ip| SocketAddr::new(*ip, address.port())));
    let association = associate(host, id, &peers, given.init)?;
    let result = send_to(host, association, message, given);
    if result.is_err() {
        cancel(host, id, association);
    }
    result
}

/// Drops an association whose set-up has just started, without notifications.
fn cancel(host: &mut Sockets, id: SocketId, association: AssocId) {
    if let Some(a) = association_mut(host, association) {
        // It is being set up, so there is one to abort.
        let _ = a.core.abort(a.now, a.core_id, b"");
    }
    let port = host.associations.get(association).map(|a| a.core().0);
    remove_association(host, association);
    if let Some(socket) = host.table.get_mut(id) {
        socket.cancel_setup();
    }
    if let Some(port) = port {
        settle(host, port);
    }
}

fn send_to(
    host: &mut Sockets,
    id: AssocId,
    message: &OutgoingMessage<'_>,
    given: &SendAttributes,
) -> Result<usize, Errno> {
    let flags = given.info.map_or(0, |info| i32::from(info.flags));
    if flags & SCTP_EOF != 0 {
        shut_down_association(host, id);
        return Ok(0);
    }
    if flags & SCTP_ABORT != 0 {
        let aborted = with_association(host, id, |a| {
            // The association has not ended.
            let _ = a.core.abort(a.now, a.core_id, &message.data);
        });
        return aborted.map(|()| 0).ok_or(Errno::EPIPE);
    }
    let association = host.lookup().get(id).ok_or(Errno::EPIPE)?;
    let own = association.own;
    let mut options = own.send.attributes(given).options();
    if flags & SCTP_ADDR_OVER != 0 {
        let ip = message.address.map(|address| unmapped(address.ip()));
        let path = ip.and_then(|ip| association.path_to(ip));
        options.path = Some(path.ok_or(Errno::EINVAL)?.id);
    }
    let is_other_key = given.key.is_some_and(|key| key != own.active_key);
    if is_other_key && authenticates_data(association) {
        return Err(Errno::ENOPROTOOPT);
    }
    let (len, limit) = (message.data.len(), host.config.send_memory_per_owner);
    let is_refused = host.associations.waits_for_owner(id, len, limit);
    let a = association_mut(host, id).ok_or(Errno::EPIPE)?;
    let sent = if is_refused {
        Err(SendError::BufferFull)
    } else {
        a.core.send(a.now, a.core_id, options, message.data.clone())
    };
    let has_room = a.core.has_send_room(a.core_id);
    let is_full = sent.is_ok() && !has_room || sent == Err(SendError::BufferFull);
    a.own.last_use = a.now;
    let socket = a.own.socket().and_then(|id| host.table.get_mut(id));
    if let Some(socket) = socket.filter(|_| is_full) {
        socket.set_full(id, true);
    }
    settle_association(host, id);
    sent.map_err(|error| match error {
        SendError::UnknownAssociation => Errno::EPIPE,
        SendError::ShuttingDown => Errno::ESHUTDOWN,
        SendError::Empty
        | SendError::InvalidStream { .. }
        | SendError::UnknownPath
        | SendError::KeyManagement(_) => Errno::EINVAL,
        SendError::BufferFull => Errno::EAGAIN,
        SendError::TooLarge { .. } => Errno::EMSGSIZE,
    })?;
    Ok(message.data.len())
}

/// Returns whether the peer requires DATA chunks to be authenticated (RFC 4895, section 3.2).
fn authenticates_data(association: AssociationRef<'_>) -> bool {
    let core = association.in_core().into_iter();
    let mut required = core.flat_map(|a| a.peer_required_chunks());
    required.any(|kind| [ChunkType::DATA, ChunkType::I_DATA].contains(&kind))
}

impl SendDefaults {
    /// Returns the attributes of a message: the given ones, else the defaults.
    fn attributes(&self, given: &SendAttributes) -> Attributes {
        let flags = given.info.map_or(self.flags, |info| info.flags);
        let mut attributes = Attributes {
            stream: given.info.map_or(self.stream, |info| info.sid),
            flags: flags.into(),
            ppid: given.info.map_or(self.ppid, |info| info.ppid),
            context: given.info.map_or(self.context, |info| info.context),
            policy: self.policy.into(),
            value: self.value,
        };
        let in_flags = attributes.flags & SCTP_PR_SCTP_MASK;
        if let Some(pr) = given.pr {
            (attributes.policy, attributes.value) = (pr.policy.into(), pr.value);
        } else if let Some(time_to_live) = given.time_to_live {
            (attributes.policy, attributes.value) = (in_flags, time_to_live);
        } else if attributes.policy == 0 {
            (attributes.policy, attributes.value) = (in_flags, self.time_to_live);
        }
        attributes
    }
}

impl Attributes {
    fn options(&self) -> SendOptions {
        let mut options = SendOptions::on_stream(StreamId(self.stream))
            .ppid(Ppid(u32::from_be(self.ppid)))
            .context(u64::from(self.context) | (self.flags as u64 & 0xffff) << 32);
        options.unordered = self.flags & SCTP_UNORDERED != 0;
        options.immediate = self.flags & SCTP_SACK_IMMEDIATELY != 0;
        options.reliability = match self.policy {
            SCTP_PR_SCTP_RTX => Reliability::Retransmissions(self.value),
            SCTP_PR_SCTP_PRIO => Reliability::Priority(self.value),
            // A lifetime of 0 has no end (RFC 6458, section 5.3.2).
            _ if self.value == 0 => Reliability::Full,
            _ => Reliability::Timed(Duration::from_millis(self.value.into())),
        };
        options
    }
}
