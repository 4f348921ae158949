//! Requests of processes on the control socket: the calls of programs on their sockets, and others.

mod bind;
mod connect;
mod kill;
mod lease;
mod linger;
mod list;
mod peeloff;
mod reply;
mod send;

use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};

use carrick_ipc::{MAX_REQUEST, NO_SOURCE, Request};
use carrick_proto::Time;
use carrick_sockets::linux::{SO_ERROR, SOL_SOCKET, write_address};
use carrick_sockets::{Errno, OverviewKey, Style};
use rustix::io::Errno as SystemErrno;
use rustix::net::{RecvFlags, sockopt};

use crate::capture::CaptureFilter;
use crate::clients::Client;
use crate::connection::may_share;
use crate::descriptor::{Descriptor, Phase, PhaseEvent, describe};
use crate::pair::receive_with_files;
use crate::parts::Parts;
use crate::poller::Token;
use crate::serve::closed::close_ended;
use crate::serve::{drain, insert_descriptor, open_pair, serve};
use crate::statistics::counters;
use crate::users::Owner;
use reply::ReplyContent;

pub(crate) use bind::open_loopback;

/// `ENOTSOCK`: no descriptor is attached to the request, or none of this daemon.
const ENOTSOCK: i32 = 88;

/// Request with what is attached to it.
struct AttachedRequest<'a> {
    request: &'a Request<'a>,
    /// Program's end of the pair of a descriptor.
    theirs: &'a OwnedFd,
    /// File with a message that is larger than a request.
    message: Option<&'a OwnedFd>,
}

/// Result of a request.
enum Served {
    /// It has been answered.
    Request,
    /// The process is to take over after this round.
    Handover,
}

/// Processes a request of a client, which gets another turn if there may be more.
pub(crate) fn serve_client(parts: &mut Parts, now: Time, token: Token) {
    let Some(client) = parts.clients.take(token) else {
        return;
    };
    let uid = client.owner.uid;
    match serve_request(parts, now, &client) {
        Ok(Served::Request) => {
            parts.clients.put_back(token, client);
            parts.clients.set_ready(token);
        }
        Ok(Served::Handover) => {
            parts.users.remove_client(uid);
            parts.poller.unwatch(&client.connection);
            parts.clients.set_successor(client);
        }
        Err(SystemErrno::AGAIN) => parts.clients.put_back(token, client),
        // The process has ended, does not read its replies, or sent something else.
        Err(_) => {
            parts.users.remove_client(uid);
            parts.poller.unwatch(&client.connection);
            parts.users.close_files(uid, [client.connection]);
        }
    }
}

fn serve_request(parts: &mut Parts, now: Time, client: &Client) -> rustix::io::Result<Served> {
    let mut buffer = parts.clients.take_buffer();
    // One byte more than the largest request, to detect larger ones.
    buffer.resize(MAX_REQUEST + 1, 0);
    let mut attached = Vec::new();
    let buffers = &mut [IoSliceMut::new(&mut buffer)];
    let flags = RecvFlags::DONTWAIT;
    let received = receive_with_files(&client.connection, buffers, &mut attached, flags);
    let served = received.and_then(|len| {
        if len == 0 {
            return Err(SystemErrno::PIPE);
        }
        let request = Request::decode(&buffer[..len]).map_err(|_| SystemErrno::PROTO)?;
        answer_request(parts, now, client, &request, &attached)
    });
    parts.clients.return_buffer(buffer);
    close_attached(parts, client.owner.uid, attached);
    served
}

/// Closes the files of a request. The task itself closes the programs' ends of pairs, which only the daemon has written
/// to; closing anything else may block.
fn close_attached(parts: &mut Parts, uid: u32, attached: Vec<OwnedFd>) {
    let is_pair = |file: &OwnedFd| {
        let cookie = sockopt::socket_cookie(file).ok();
        cookie.is_some_and(|cookie| parts.descriptors.with_cookie(cookie).is_some())
    };
    let (pairs, others): (Vec<_>, Vec<_>) = attached.into_iter().partition(is_pair);
    drop(pairs);
    if !others.is_empty() {
        parts.users.close_files(uid, others);
    }
}

fn answer_request(
    parts: &mut Parts,
    now: Time,
    client: &Client,
    request: &Request<'_>,
    attached: &[OwnedFd],
) -> rustix::io::Result<Served> {
    if client.is_refused {
        ReplyContent::refusal(Errno::EMFILE.number()).send(&client.connection)?;
        return Err(SystemErrno::MFILE);
    }
    let reply = if *request == Request::TakeOver {
        match refuses_handover(parts, client.owner.uid) {
            None => return Ok(Served::Handover),
            Some(reason) => ReplyContent {
                value: reason.into(),
                ..ReplyContent::refusal(Errno::EPERM.number())
            },
        }
    } else {
        answer(parts, now, client.owner, (request, attached))
    };
    reply.send(&client.connection)?;
    Ok(Served::Request)
}

/// Returns the reason why a process of this user cannot take over now.
fn refuses_handover(parts: &Parts, uid: u32) -> Option<&'static str> {
    if !may_share(uid) {
        return Some("only the user of the daemon and the superuser can take over");
    }
    if parts.stopping.ends().is_some() {
        return Some("the daemon is ending");
    }
    let has_successor = parts.clients.has_successor();
    has_successor.then_some("another process is taking over")
}

/// Performs a request of a process.
fn answer(
    parts: &mut Parts,
    now: Time,
    owner: Owner,
    (request, attached): (&Request<'_>, &[OwnedFd]),
) -> ReplyContent {
    let answered = match *request {
        Request::Socket {
            domain,
            kind,
            protocol,
        } => socket(parts, now, owner, (domain, kind, protocol)),
        Request::List {
            socket,
            association,
        } => {
            let after = OverviewKey {
                socket,
                association,
            };
            return list::list(parts, (socket >= 0).then_some(after));
        }
        Request::Statistics => Ok(ReplyContent::value(counters(&parts.sockets).into_bytes())),
        Request::Capture { association, port } => {
            let filter = CaptureFilter {
                association: Some(association).filter(|id| *id != 0),
                port: Some(port).filter(|port| *port != 0),
            };
            // Packets contain messages of all programs.
            let allowed = may_share(owner.uid).then_some(()).ok_or(Errno::EPERM);
            let started = allowed.and_then(|()| parts.captures.start(filter));
            started.map(ReplyContent::attached)
        }
        Request::Follow => follow(parts, owner.uid).map(ReplyContent::attached),
        Request::Kill { association } => kill::kill(parts, now, owner.uid, association),
        Request::Linger { cookie } => Ok(linger::linger(parts, now, owner.uid, cookie)),
        Request::Lease { addresses } => lease::lease(parts, now, owner, addresses),
        _ => return answer_call(parts, now, (request, attached)),
    };
    answered.into()
}

/// Starts a reader of events. They concern the associations of all users.
fn follow(parts: &mut Parts, uid: u32) -> Result<OwnedFd, Errno> {
    may_share(uid).then_some(()).ok_or(Errno::EPERM)?;
    let theirs = parts.followers.start()?;
    parts.sockets.reports().enable();
    Ok(theirs)
}

/// Performs a call on the descriptor that is attached to a request.
///
/// 1. Find the descriptor by the cookie of the program's end, whichever process sends it.
/// 2. Read the pair: messages that the program has sent before the call come first.
/// 3. Perform the call, and describe the socket as it is then.
fn answer_call(
    parts: &mut Parts,
    now: Time,
    (request, attached): (&Request<'_>, &[OwnedFd]),
) -> ReplyContent {
    // 1
    let cookie = attached.first().map(sockopt::socket_cookie);
    let token = cookie.and_then(|cookie| parts.descriptors.with_cookie(cookie.ok()?));
    let found = token.and_then(|token| Some((token, parts.descriptors.take(token)?)));
    let (Some((token, mut descriptor)), Some(theirs)) = (found, attached.first()) else {
        return ReplyContent::refusal(ENOTSOCK);
    };
    // 2
    // The event of messages that were sent before the request may not have been read.
    if !descriptor.is_ended() {
        descriptor.incoming.set_readable(true);
    }
    drain(parts, now, token, &mut descriptor);
    parts.descriptors.watch_restored(token, theirs);
    // 3
    let attached = AttachedRequest {
        request,
        theirs,
        message: attached.get(1),
    };
    let mut reply: ReplyContent = match descriptor.phase() {
        Phase::Broken(error) => call_broken(&mut descriptor, request, error),
        _ => call(parts, now, (token, &mut descriptor), &attached),
    }
    .into();
    let status = parts.sockets.status(descriptor.socket());
    reply.description = status.map(|s| describe(&s)).unwrap_or_default();
    parts.descriptors.put_back(token, descriptor);
    if matches!(request, Request::Shutdown { .. }) {
        // Readiness has changed when the call returns.
        serve(parts, now, token);
    }
    parts.descriptors.set_ready(token);
    reply
}

/// `socket`
fn socket(
    parts: &mut Parts,
    now: Time,
    owner: Owner,
    (domain, kind, protocol): (i32, i32, i32),
) -> Result<ReplyContent, Errno> {
    let uid = owner.uid;
    if parts.users.check_descriptors(uid).is_err() {
        close_ended(parts, now, uid);
    }
    let (style, family) = Style::from_numbers(domain, kind, protocol)?;
    let pair = open_pair(parts, owner)?;
    let id = parts.sockets.socket(style, family)?;
    parts.sockets.set_privileged(id, uid == 0)?;
    parts.sockets.set_owner(id, uid)?;
    let (theirs, token) = insert_descriptor(parts, id, pair);
    if style == Style::OneToOne
        && let Some(descriptor) = parts.descriptors.get_mut(token)
    {
        // As on Linux, writable only with an association.
        descriptor.plug(PhaseEvent::SetupStarted, theirs.as_fd());
    }
    Ok(ReplyContent {
        description: describe(&parts.sockets.status(id)?),
        ..ReplyContent::attached(theirs)
    })
}

/// Performs a call on a descriptor that the daemon has ended: it has an error, and no association any more.
fn call_broken(
    descriptor: &mut Descriptor,
    request: &Request<'_>,
    error: Option<Errno>,
) -> Result<ReplyContent, Errno> {
    let number = error.map_or(0, Errno::number);
    match request {
        Request::GetOption {
            level: SOL_SOCKET,
            name: SO_ERROR,
            ..
        } => {
            descriptor.change(PhaseEvent::ErrorRead);
            Ok(ReplyContent::value(number.to_ne_bytes().to_vec()))
        }
        Request::Describe => Ok(ReplyContent::result(number)),
        _ => Err(Errno::ENOTCONN),
    }
}

/// Performs a call on a descriptor.
fn call(
    parts: &mut Parts,
    now: Time,
    (token, descriptor): (Token, &mut Descriptor),
    attached: &AttachedRequest<'_>,
) -> Result<ReplyContent, Errno> {
    let id = descriptor.socket();
    let theirs = attached.theirs;
    let value = ReplyContent::value;
    match *attached.request {
        // They have no descriptor.
        Request::Socket { .. }
        | Request::List { .. }
        | Request::Statistics
        | Request::TakeOver
        | Request::Linger { .. }
        | Request::Capture { .. }
        | Request::Follow
        | Request::Kill { .. }
        | Request::Lease { .. } => Ok(ReplyContent::default()),
        Request::Describe => {
            let pending = parts.sockets.pending_error(id).ok().flatten();
            let has_source = parts.sockets.status(id).is_ok_and(|s| s.has_source);
            let has_source = has_source || !descriptor.outgoing.is_empty();
            let value = (!has_source).then_some(NO_SOURCE);
            Ok(ReplyContent {
                value: value.into_iter().collect(),
                ..ReplyContent::result(pending.map_or(0, Errno::number))
            })
        }
        Request::Bind { address } => bind::bind(parts, now, descriptor, address),
        Request::Listen { backlog } => {
            parts.sockets.listen(id, backlog)?;
            if parts.sockets.status(id)?.style == Style::OneToOne {
                descriptor.limit_accepted();
            }
            parts.listeners.check(descriptor.uid(), token);
            Ok(ReplyContent::default())
        }
        Request::Connect { addresses } => {
            connect::connect(parts, now, (token, descriptor), (addresses, theirs))
        }
        Request::Shutdown { how } => send::shut_down(&mut parts.sockets, now, descriptor, how),
        Request::GetOption {
            level,
            name,
            buffer,
        } => {
            let option = (level, name);
            parts.sockets.getsockopt(now, id, option, buffer).map(value)
        }
        Request::SetOption { level, name, value } => {
            parts.listeners.check_stored(token);
            bind::set_option(parts, now, descriptor, ((level, name), value))
        }
        Request::LocalAddress => {
            let address = parts.sockets.local_address(id)?;
            Ok(value(write_address(address)))
        }
        Request::PeerAddress => Ok(value(write_address(parts.sockets.peer_address(id)?))),
        Request::Send {
            address,
            control,
            data,
            ..
        } => {
            let parameters = send::Parameters {
                address,
                control,
                data,
            };
            let sockets = &mut parts.sockets;
            send::send_message(sockets, now, descriptor, (&parameters, attached))
        }
        Request::Peeloff { association } => {
            peeloff::peel_off(parts, now, descriptor, (association, theirs))
        }
    }
}
