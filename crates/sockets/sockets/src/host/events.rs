//! Events of the protocol core: changes of sockets, and notifications for their users.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use carrick_proto::{
    AddressEvent, AuthenticationEvent, CloseReason, Event, Message, MessagePart, PathId,
    SendFailure, StateName, Tsn,
};

use super::Sockets;
use crate::errno::Errno;
use crate::host::associations::{
    association_mut, index_peer, insert_association, remove_association, watch_idle,
};
use crate::host::calls::close::drop_unread;
use crate::host::calls::connect::end_setup;
use crate::host::calls::listen::{admit, update_listening};
use crate::host::memory::{count_buffers, limit_received};
use crate::host::reports::report;
use crate::ids::{AssocId, PortId, SocketId};
use crate::linux::{
    SCTP_ADDR_ADDED, SCTP_ADDR_AVAILABLE, SCTP_ADDR_CONFIRMED, SCTP_ADDR_MADE_PRIM,
    SCTP_ADDR_POTENTIALLY_FAILED, SCTP_ADDR_REMOVED, SCTP_ADDR_UNREACHABLE, SCTP_AUTH_FREE_KEY,
    SCTP_AUTH_NEW_KEY, SCTP_AUTH_NO_AUTH, SCTP_CANT_STR_ASSOC, SCTP_COMM_LOST, SCTP_COMM_UP,
    SCTP_RESTART, SCTP_SHUTDOWN_COMP,
};
use crate::notifications::{self, is_subscribed};
use crate::table::{DataItem, Readiness};

/// Cause code of an abort by the user (RFC 9260, section 3.3.10.12).
const USER_INITIATED_ABORT: u16 = 12;

/// Takes all events of an endpoint.
pub(crate) fn dispatch(host: &mut Sockets, port: PortId) {
    // Unsent messages of associations whose end is reported next.
    let mut unsent: BTreeMap<AssocId, Vec<SendFailure>> = BTreeMap::new();
    while let Some((core, event)) = host.ports.core_mut(port).and_then(|c| c.poll_event()) {
        host.ports.set_ready(port);
        let id = match (host.associations.in_core(port, core), &event) {
            (Some(id), _) => id,
            (None, Event::Established { accepted: true, .. }) => {
                let Some(id) = on_incoming(host, port, core) else {
                    continue;
                };
                id
            }
            _ => continue,
        };
        report(host, id, &event);
        match event {
            Event::SendFailed(failure) if has_closed(host, id) => {
                unsent.entry(id).or_default().push(*failure);
            }
            Event::Closed(reason) => {
                let unsent = unsent.remove(&id).unwrap_or_default();
                on_closed(host, id, &reason, &unsent);
            }
            event => on_event(host, id, event),
        }
    }
    count_buffers(host, port);
    host.ports.count_received(port);
}

/// Adds an association that a peer has initiated, or aborts it if no socket has room for it.
fn on_incoming(
    host: &mut Sockets,
    port: PortId,
    core: carrick_proto::AssociationId,
) -> Option<AssocId> {
    let now = host.now;
    let endpoint = host.ports.get(port)?.core();
    let association = endpoint.association(core)?;
    let number = association.peer_port();
    let ip = association.path_stats(association.stats().current?)?.remote;
    let (source, _) = endpoint.source(core)?;
    let Some(socket_id) = admit(host, port, (ip, number), source) else {
        if let Some(endpoint) = host.ports.core_mut(port) {
            // It was established just before.
            let _ = endpoint.abort(now, core, b"no room for another association");
        }
        return None;
    };
    let peer = SocketAddr::new(ip, number);
    let id = insert_association(host, port, core, socket_id, peer)?;
    update_listening(host, port);
    Some(id)
}

fn on_event(host: &mut Sockets, id: AssocId, event: Event) {
    match event {
        Event::Established {
            outbound_streams,
            inbound_streams,
            ..
        } => on_established(host, id, (outbound_streams, inbound_streams)),
        Event::MessageReceived => on_messages(host, id),
        Event::SendBufferFree => on_send_room(host, id),
        Event::PeerShutdown => on_peer_shutdown(host, id),
        event => notify_of(host, id, event),
    }
}

fn on_established(host: &mut Sockets, id: AssocId, streams: (u16, u16)) {
    let now = host.now;
    let stats = host.lookup().get(id).and_then(|a| a.stats());
    let adaptation = stats.as_ref().and_then(|s| s.peer_adaptation_layer);
    let is_authenticated = stats.is_some_and(|s| s.extensions.authentication);
    host.associations.establish(id, streams, now);
    end_setup(host, id, Ok(()));
    index_peer(host, id);
    refresh_peer(host, id);
    watch_idle(host, id);
    notify(
        host,
        id,
        notifications::assoc_change(id, SCTP_COMM_UP, 0, streams, &[]),
    );
    if let Some(indication) = adaptation {
        notify(host, id, notifications::adaptation(id, indication));
    }
    if !is_authenticated {
        notify(
            host,
            id,
            notifications::authentication(id, 0, SCTP_AUTH_NO_AUTH),
        );
    }
    let Some(association) = host.associations.get(id) else {
        return;
    };
    let Some(socket_id) = association.socket() else {
        return;
    };
    if let Some(socket) = host.table.get_mut(socket_id) {
        socket.establish(association.peer);
    }
    host.table.raise(socket_id, Readiness::WRITABLE);
}

/// Updates the address that messages are reported to come from: the primary one.
pub(crate) fn refresh_peer(host: &mut Sockets, id: AssocId) {
    let path = host.lookup().get(id).and_then(|a| a.primary_path());
    if let (Some(path), Some(association)) = (path, host.associations.get_mut(id)) {
        association.peer.set_ip(path.remote);
    }
}

fn on_messages(host: &mut Sockets, id: AssocId) {
    let now = host.now;
    let Some(association) = host.associations.get_mut(id) else {
        return;
    };
    association.last_use = now;
    let Some(socket_id) = association.socket() else {
        return drop_unread(host, id);
    };
    if let Some(socket) = host.table.get_mut(socket_id) {
        if socket.drops_messages() {
            return drop_unread(host, id);
        }
        socket.queue_mut().add_waiting(id);
    }
    fill(host, socket_id);
    host.table.raise(socket_id, Readiness::READABLE);
}

/// Moves messages from the core to the receive queue of a socket, as far as it has room, and ends
/// associations whose last message was moved. Until a program has accepted the socket, messages stay in
/// the core, whose buffer all peers share.
pub(crate) fn fill(host: &mut Sockets, socket_id: SocketId) {
    loop {
        let Some(socket) = host.table.get_mut(socket_id) else {
            return;
        };
        if !socket.is_accepted() {
            return;
        }
        let Some(id) = socket.queue().next_waiting() else {
            return;
        };
        let known = host.associations.get(id).map(|a| (a.core().0, a.source()));
        if let Some((port, source)) = known {
            if let Some(source) = source {
                // Reading opens the window, as far as its share goes.
                limit_received(host, port, Some(id), source);
            }
            // A SACK with the larger window may be due.
            host.ports.set_ready(port);
        }
        let message = association_mut(host, id).and_then(|a| {
            let message = a.core.receive(a.core_id)?;
            let cumulative = a.core.association(a.core_id).map(|a| a.cumulative_tsn());
            Some((message, cumulative))
        });
        if let Some((message, cumulative)) = message {
            queue_message(host, socket_id, id, message, cumulative);
            continue;
        }
        if let Some(socket) = host.table.get_mut(socket_id) {
            socket.queue_mut().remove_waiting(id);
        }
        end_if_read(host, id);
    }
}

fn queue_message(
    host: &mut Sockets,
    socket_id: SocketId,
    id: AssocId,
    message: Message,
    cumulative: Option<Tsn>,
) {
    let now = host.now;
    let (Some(socket), Some(association)) =
        (host.table.get_mut(socket_id), host.associations.get_mut(id))
    else {
        return;
    };
    association.last_use = now;
    if message.part == MessagePart::Aborted {
        socket.queue_mut().end_partial(id);
        let (stream, number) = (message.stream.0, sequence_number(&message));
        notify(
            host,
            id,
            notifications::partial_delivery_aborted(id, stream, number),
        );
        return;
    }
    let peer = socket.present(association.peer);
    let interleaves = socket.options().fragment_interleave;
    let is_end = matches!(message.part, MessagePart::Whole | MessagePart::Last);
    let is_unordered = message.ssn.is_none();
    // As Linux has it: a program may take 0 as the mark of an ordered message.
    let cum_tsn = cumulative.filter(|_| is_unordered).map_or(0, Tsn::value);
    let data = DataItem {
        stream: message.stream.0,
        ssn: sequence_number(&message),
        ppid: message.ppid.0.to_be(),
        tsn: message.tsn.value(),
        cum_tsn,
        is_unordered,
        is_end,
        payload: message.payload.into_bytes(),
        context: association.context,
    };
    let queue = socket.queue_mut();
    queue.push_message(id, peer, data, interleaves);
}

pub(crate) fn on_send_room(host: &mut Sockets, id: AssocId) {
    let Some(socket_id) = host.associations.get(id).and_then(|a| a.socket()) else {
        return;
    };
    if let Some(socket) = host.table.get_mut(socket_id) {
        socket.set_full(id, false);
    }
    host.table.raise(socket_id, Readiness::WRITABLE);
}

/// SHUTDOWN of the peer: no more messages follow those that it has sent.
fn on_peer_shutdown(host: &mut Sockets, id: AssocId) {
    notify_last(host, id, notifications::shutdown(id));
    let Some(socket_id) = host.associations.get(id).and_then(|a| a.socket()) else {
        return;
    };
    if let Some(socket) = host.table.get_mut(socket_id)
        && socket.is_one_to_one()
    {
        socket.receive_shutdown();
        host.table
            .raise(socket_id, Readiness::READABLE | Readiness::READ_CLOSED);
    }
}

/// End of an association.
///
/// 1. Record the reason; without a socket, remove the association.
/// 2. Notify the user by `SCTP_ASSOC_CHANGE` (RFC 6458, section 6.1.1), behind the messages that have
///    arrived, and of the messages that were not sent or not acknowledged.
/// 3. End a one-to-one or branched-off socket, with the pending error of Linux.
/// 4. Move messages to the receive queue, and raise the edges of readiness.
fn on_closed(host: &mut Sockets, id: AssocId, reason: &CloseReason, unsent: &[SendFailure]) {
    host.associations.end(id, reason.clone());
    let Some(association) = host.associations.get(id) else {
        return;
    };
    let was_established = association.is_established();
    let socket_id = association.socket();
    let refused = match reason {
        // As `connect` of a one-to-many socket gives where the association is known to be with the peer.
        CloseReason::AlreadyConnected if has_many(host, socket_id) => Errno::EISCONN,
        reason => error_of(reason, false).unwrap_or(Errno::ECONNREFUSED),
    };
    end_setup(host, id, Err(refused));
    let Some(socket_id) = socket_id else {
        drop_unread(host, id);
        remove_association(host, id);
        return;
    };
    if let Some(socket) = host.table.get_mut(socket_id) {
        socket.set_full(id, false);
    }
    let (state, cause) = match reason {
        _ if !was_established => (SCTP_CANT_STR_ASSOC, None),
        CloseReason::Shutdown => (SCTP_SHUTDOWN_COMP, None),
        CloseReason::AbortedByPeer(cause) | CloseReason::AbortedByProtocol(cause) => {
            (SCTP_COMM_LOST, Some(cause))
        }
        _ => (SCTP_COMM_LOST, None),
    };
    let mut information = Vec::new();
    if let Some(cause) = cause.filter(|cause| cause.code != 0) {
        information = notifications::cause(cause.code, &cause.information);
    }
    let code = match reason {
        CloseReason::AbortedByUser if was_established => USER_INITIATED_ABORT,
        _ => cause.map_or(0, |cause| cause.code),
    };
    // Linux reports the code of the cause in network byte order.
    let error = code.to_be();
    let change = notifications::assoc_change(id, state, error, (0, 0), &information);
    notify_last(host, id, change);
    for failure in unsent {
        notify_unsent(host, id, failure, error);
    }
    if let Some(socket) = host.table.get_mut(socket_id)
        && socket.is_single()
    {
        // A socket that is accepted later has the notification and the end of messages alone.
        if socket.is_one_to_one() && socket.is_accepted() {
            socket.set_error(error_of(reason, was_established));
        }
        if was_established {
            socket.end();
        } else {
            socket.fail_setup();
        }
    }
    let mut edges = Readiness::READABLE | Readiness::WRITABLE;
    let socket = host.table.get(socket_id);
    if let Some(socket) = socket.filter(|s| s.is_single()) {
        edges |= Readiness::HANG_UP;
        if socket.error().is_some() {
            edges |= Readiness::ERROR;
        }
    }
    fill(host, socket_id);
    end_if_read(host, id);
    host.table.raise(socket_id, edges);
}

/// Ends an association for its socket when its messages have been moved to the receive queue.
fn end_if_read(host: &mut Sockets, id: AssocId) {
    if !push_last_notifications(host, id) {
        return;
    }
    let Some(association) = host.associations.get(id).filter(|a| !a.is_open()) else {
        return;
    };
    if let Some(socket) = association.socket().and_then(|id| host.table.get_mut(id)) {
        socket.queue_mut().end_partial(id);
    }
    remove_association(host, id);
}

/// Queues the notification of an event that concerns the user alone.
fn notify_of(host: &mut Sockets, id: AssocId, event: Event) {
    match event {
        Event::Restarted => {
            index_peer(host, id);
            refresh_peer(host, id);
            let streams = streams(host, id);
            notify(
                host,
                id,
                notifications::assoc_change(id, SCTP_RESTART, 0, streams, &[]),
            );
        }
        Event::SendFailed(failure) => notify_unsent(host, id, &failure, 0),
        Event::AllAcknowledged => notify(host, id, notifications::sender_dry(id)),
        Event::PathConfirmed(path) => notify_path(host, id, path, SCTP_ADDR_CONFIRMED),
        Event::PathFailed(path) => notify_path(host, id, path, SCTP_ADDR_UNREACHABLE),
        Event::PathPotentiallyFailed(path) => {
            notify_path(host, id, path, SCTP_ADDR_POTENTIALLY_FAILED)
        }
        Event::PathRecovered(path) => notify_path(host, id, path, SCTP_ADDR_AVAILABLE),
        Event::PrimarySwitchover(path) => {
            refresh_peer(host, id);
            notify_path(host, id, path, SCTP_ADDR_MADE_PRIM);
        }
        Event::PrimaryChanged(_) => refresh_peer(host, id),
        Event::Address(event) => notify_address(host, id, &event),
        Event::PeerError(error) => {
            notify(host, id, notifications::remote_error(id, &error.cause));
        }
        Event::Authentication(event) => {
            let (key, indication) = match event {
                AuthenticationEvent::PeerKeyChanged(key) => (key.0, SCTP_AUTH_NEW_KEY),
                AuthenticationEvent::KeyFree(key) => (key.0, SCTP_AUTH_FREE_KEY),
                // Part of the notifications of the set-up, or without an indication of Linux.
                _ => return,
            };
            notify(host, id, notifications::authentication(id, key, indication));
        }
        Event::StreamsReset {
            direction,
            streams,
            outcome,
        } => notify(
            host,
            id,
            notifications::stream_reset(id, direction, &streams, outcome),
        ),
        Event::AssociationReset {
            local_tsn,
            peer_tsn,
            outcome,
        } => {
            let tsns = (local_tsn.value(), peer_tsn.value());
            notify(host, id, notifications::assoc_reset(id, tsns, outcome));
        }
        Event::StreamsChanged {
            outbound_streams,
            inbound_streams,
            outcome,
        } => {
            let Some(association) = host.associations.get_mut(id) else {
                return;
            };
            let before = association.streams;
            association.streams = (outbound_streams, inbound_streams);
            let added = (
                outbound_streams.saturating_sub(before.0),
                inbound_streams.saturating_sub(before.1),
            );
            notify(host, id, notifications::stream_change(id, added, outcome));
        }
        // A partial delivery that ends is reported in the order of messages, by `fill`.
        _ => {}
    }
}

/// Returns whether the core has ended an association.
fn has_closed(host: &Sockets, id: AssocId) -> bool {
    let stats = host.lookup().get(id).and_then(|a| a.stats());
    stats.is_none_or(|stats| stats.state == StateName::Closed)
}

/// Notifies the user of a message that was not sent or not acknowledged, with the error cause that ended the
/// association in network byte order, or 0.
fn notify_unsent(host: &mut Sockets, id: AssocId, failure: &SendFailure, error: u16) {
    for notification in notifications::send_failed(id, failure, error) {
        notify(host, id, notification);
    }
}

fn notify_address(host: &mut Sockets, id: AssocId, event: &AddressEvent) {
    index_peer(host, id);
    match event {
        AddressEvent::PeerAdded { path, .. } => notify_path(host, id, *path, SCTP_ADDR_ADDED),
        AddressEvent::PeerRemoved { address, .. } => {
            notify_peer_address(host, id, *address, SCTP_ADDR_REMOVED);
        }
        AddressEvent::PeerPrefers(path) => {
            refresh_peer(host, id);
            notify_path(host, id, *path, SCTP_ADDR_MADE_PRIM);
        }
        // The RFC has no notification of changes of local addresses.
        _ => {}
    }
}

pub(crate) fn notify_path(host: &mut Sockets, id: AssocId, path: PathId, state: i32) {
    let association = host.lookup().get(id);
    if let Some(path) = association.and_then(|a| a.in_core()?.path_stats(path)) {
        notify_peer_address(host, id, path.remote, state);
    }
}

fn notify_peer_address(host: &mut Sockets, id: AssocId, ip: std::net::IpAddr, state: i32) {
    let Some(association) = host.associations.get(id) else {
        return;
    };
    let mut address = SocketAddr::new(ip, association.peer.port());
    if let Some(socket) = association.socket().and_then(|id| host.table.get(id)) {
        address = socket.present(address);
    }
    notify(host, id, notifications::peer_address(id, address, state));
}

fn streams(host: &Sockets, id: AssocId) -> (u16, u16) {
    let stats = host.lookup().get(id).and_then(|a| a.stats());
    stats.map_or((0, 0), |s| (s.outbound_streams, s.inbound_streams))
}

/// Queues a notification if the user has subscribed to it.
pub(crate) fn notify(host: &mut Sockets, id: AssocId, notification: Bytes) {
    let Some(association) = host.associations.get(id) else {
        return;
    };
    if let Some(socket) = association.socket()
        && is_subscribed(association.events, &notification)
    {
        push_notification(host, socket, id, notification, false);
    }
}

/// Queues a notification behind the messages that have been received.
fn notify_last(host: &mut Sockets, id: AssocId, notification: Bytes) {
    let Some(association) = host.associations.get_mut(id) else {
        return;
    };
    if is_subscribed(association.events, &notification) {
        association.last_notifications.push(notification);
    }
    push_last_notifications(host, id);
}

/// Queues the last notifications unless messages are in front of them. Returns whether none are.
fn push_last_notifications(host: &mut Sockets, id: AssocId) -> bool {
    let Some(association) = host.associations.get_mut(id) else {
        return false;
    };
    let Some(socket_id) = association.socket() else {
        return false;
    };
    let socket = host.table.get(socket_id);
    if socket.is_some_and(|socket| socket.queue().is_waiting(id)) {
        return false;
    }
    for notification in std::mem::take(&mut association.last_notifications) {
        push_notification(host, socket_id, id, notification, true);
    }
    true
}

/// Returns whether a socket is a one-to-many one.
fn has_many(host: &Sockets, socket: Option<SocketId>) -> bool {
    let socket = socket.and_then(|id| host.table.get(id));
    socket.is_some_and(|socket| !socket.is_one_to_one())
}

fn push_notification(
    host: &mut Sockets,
    socket_id: SocketId,
    id: AssocId,
    bytes: Bytes,
    must: bool,
) {
    let peer = host.associations.get(id).map(|a| a.peer);
    let (Some(socket), Some(peer)) = (host.table.get_mut(socket_id), peer) else {
        return;
    };
    let peer = socket.present(peer);
    let is_accepted = socket.is_accepted();
    let queue = socket.queue_mut();
    if queue.push_notification(id, peer, bytes, is_accepted, must) {
        host.table.raise(socket_id, Readiness::READABLE);
    }
}

/// Returns the number of a message as programs read it: its SSN, or with interleaving the lower half of its MID, also if
/// the message is unordered (RFC 8260, section 4.1).
fn sequence_number(message: &Message) -> u16 {
    match message.mid {
        Some(mid) => mid.value() as u16,
        None => message.ssn.map_or(0, |ssn| ssn.value()),
    }
}

/// Returns the error of a one-to-one socket whose association has ended.
fn error_of(reason: &CloseReason, was_established: bool) -> Option<Errno> {
    Some(match reason {
        CloseReason::Shutdown | CloseReason::AbortedByUser => return None,
        CloseReason::AbortedByPeer(_) | CloseReason::ProtocolUnreachable if !was_established => {
            Errno::ECONNREFUSED
        }
        CloseReason::AlreadyConnected if !was_established => Errno::EADDRNOTAVAIL,
        CloseReason::AbortedByPeer(_) => Errno::ECONNRESET,
        CloseReason::ProtocolUnreachable => Errno::EHOSTUNREACH,
        CloseReason::SetupTimedOut
        | CloseReason::StaleCookie
        | CloseReason::PeerUnreachable
        | CloseReason::ShutdownTimedOut
        | CloseReason::LowerLayerLost => Errno::ETIMEDOUT,
        // Aborted by this side, because of a protocol violation.
        _ => Errno::ECONNABORTED,
    })
}
