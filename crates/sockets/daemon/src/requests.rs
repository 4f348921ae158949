//! Requests of processes: the calls of programs on their sockets.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use carrick::BindError;
use carrick_ipc::{Description, HEADER, Header, MAX_REPLY, NO_SOURCE, Reply, Request};
use carrick_proto::Time;
use carrick_sockets::linux::{
    IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, SO_ERROR, SOL_SOCKET, read_address, read_addresses,
    write_address,
};
use carrick_sockets::{AssocId, Errno, OutgoingMessage, OverviewKey, Sockets, Style};
use rustix::fs::{OFlags, SealFlags, fcntl_get_seals, fcntl_getfl, fstat};
use rustix::io::{Errno as SystemErrno, pread};
use rustix::net::{RecvFlags, recv, send, sockopt};

use crate::capture::CaptureFilter;
use crate::descriptor::{
    Descriptor, OutgoingFrame, Owner, PairEnd, Phase, PhaseEvent, describe, pair,
};
use crate::driver::Driver;
use crate::pair::{AT_ONCE, open_pair};
use crate::poller::Token;

/// `ENOTSOCK`: no descriptor is attached to the request, or none of this daemon.
const ENOTSOCK: i32 = 88;

/// Content of the reply to a request.
#[derive(Default)]
struct ReplyContent {
    error: i32,
    result: i32,
    value: Vec<u8>,
    attached: Option<OwnedFd>,
}

impl ReplyContent {
    fn value(value: Vec<u8>) -> Self {
        Self {
            value,
            ..Self::default()
        }
    }

    fn in_progress(association: AssocId, attached: Option<OwnedFd>) -> Self {
        Self {
            error: Errno::EINPROGRESS.number(),
            result: association.number(),
            attached,
            ..Self::default()
        }
    }

    fn error(error: Errno) -> Self {
        Self {
            error: error.number(),
            ..Self::default()
        }
    }
}

impl From<Result<(), Errno>> for ReplyContent {
    fn from(result: Result<(), Errno>) -> Self {
        result.map_or_else(Self::error, |()| Self::default())
    }
}

impl Driver {
    /// Performs a request of a process of this user. Returns the reply and the descriptor to attach.
    pub(crate) fn handle(
        &mut self,
        now: Time,
        (uid, process): (u32, i32),
        request: &Request<'_>,
        attached: &[OwnedFd],
    ) -> (Vec<u8>, Option<OwnedFd>) {
        let (attached, message) = (attached.first(), attached.get(1));
        if let Request::Socket {
            domain,
            kind,
            protocol,
        } = *request
        {
            return self.socket(now, (uid, process), (domain, kind, protocol));
        }
        if let Request::List {
            socket,
            association,
        } = *request
        {
            let after = OverviewKey {
                socket,
                association,
            };
            return (self.list((socket >= 0).then_some(after)), None);
        }
        if *request == Request::Statistics {
            return (self.counters_reply(), None);
        }
        if let Request::Capture { association, port } = *request {
            let filter = CaptureFilter {
                association: Some(association).filter(|id| *id != 0),
                port: Some(port).filter(|port| *port != 0),
            };
            return self.start_capture(uid, filter);
        }
        if let Request::Linger { cookie } = request {
            return self.linger(now, uid, *cookie);
        }
        if let Request::Lease { addresses } = *request {
            return self.lease(now, (uid, process), addresses);
        }
        let cookie = attached.map(sockopt::socket_cookie);
        let token = cookie.and_then(|cookie| self.by_cookie.get(&cookie.ok()?).copied());
        let found = token.and_then(|token| Some((token, self.descriptors.remove(&token)?)));
        let (Some((token, mut descriptor)), Some(attached)) = (found, attached) else {
            return (not_ours(), None);
        };
        // The event of messages that were sent before the request may not have been read.
        if !descriptor.is_ended() {
            descriptor.incoming.set_readable(true);
        }
        self.drain(now, token, &mut descriptor);
        let answer = self.call(now, token, &mut descriptor, (request, attached, message));
        let status = self.sockets.status(descriptor.socket());
        let reply = Reply {
            error: answer.error,
            result: answer.result,
            description: status.map(|s| describe(&s)).unwrap_or_default(),
            value: &answer.value[..answer.value.len().min(MAX_REPLY - 64)],
        };
        let reply = reply.encode();
        self.descriptors.insert(token, descriptor);
        if matches!(request, Request::Shutdown { .. }) {
            // Readiness has changed when the call returns.
            self.serve(now, token);
        }
        self.ready.insert(token);
        (reply, answer.attached)
    }

    /// `socket`
    fn socket(
        &mut self,
        now: Time,
        (uid, process): (u32, i32),
        (domain, kind, protocol): (i32, i32, i32),
    ) -> (Vec<u8>, Option<OwnedFd>) {
        if self.users.check_descriptors(uid).is_err() {
            self.close_ended(now, uid);
        }
        let opened = Sockets::style_of(domain, kind, protocol).and_then(|(style, family)| {
            let pair = self.open_pair(Owner { uid, process })?;
            let id = self.sockets.socket(style, family)?;
            self.sockets.set_privileged(id, uid == 0)?;
            self.sockets.set_owner(id, uid)?;
            let (theirs, token) = self.insert_descriptor(id, pair);
            if style == Style::OneToOne
                && let Some(descriptor) = self.descriptors.get_mut(&token)
            {
                // As on Linux, writable only with an association.
                descriptor.plug(theirs.as_fd());
            }
            Ok((theirs, self.sockets.status(id)?))
        });
        self::opened(opened.map(|(theirs, status)| (describe(&status), Vec::new(), theirs)))
    }

    /// Performs a call on a descriptor.
    fn call(
        &mut self,
        now: Time,
        token: Token,
        descriptor: &mut Descriptor,
        (request, attached, message): (&Request<'_>, &OwnedFd, Option<&OwnedFd>),
    ) -> ReplyContent {
        let id = descriptor.socket();
        if let Phase::Broken(error) = descriptor.phase() {
            return match request {
                Request::GetOption {
                    level: SOL_SOCKET,
                    name: SO_ERROR,
                    ..
                } => {
                    descriptor.change(PhaseEvent::ErrorRead);
                    let number = error.map_or(0, Errno::number);
                    ReplyContent::value(number.to_ne_bytes().to_vec())
                }
                Request::Describe => ReplyContent {
                    result: error.map_or(0, Errno::number),
                    ..ReplyContent::default()
                },
                _ => ReplyContent::error(Errno::ENOTCONN),
            };
        }
        match *request {
            Request::Socket { .. }
            | Request::List { .. }
            | Request::Statistics
            | Request::TakeOver
            | Request::Linger { .. }
            | Request::Capture { .. }
            | Request::Lease { .. } => ReplyContent::default(),
            Request::Describe => {
                let pending = self.sockets.pending_error(id).ok().flatten();
                let has_source = self.sockets.status(id).is_ok_and(|s| s.has_source);
                let has_source = has_source || !descriptor.outgoing.is_empty();
                ReplyContent {
                    result: pending.map_or(0, Errno::number),
                    value: if has_source {
                        Vec::new()
                    } else {
                        vec![NO_SOURCE]
                    },
                    ..ReplyContent::default()
                }
            }
            Request::Bind { address } => {
                let address = read_address(address);
                let bound = address.and_then(|(address, _)| {
                    self.open_loopback(&[address])?;
                    let bind = |sockets: &mut Sockets| sockets.bind(id, address);
                    self.binding(now, descriptor, address.port(), bind)
                });
                bound.into()
            }
            Request::Listen { backlog } => {
                let listening = self.sockets.listen(id, backlog);
                let status = self.sockets.status(id);
                if listening.is_ok() && status.is_ok_and(|s| s.style == Style::OneToOne) {
                    descriptor.limit_accepted();
                }
                listening.into()
            }
            Request::Connect { addresses } => {
                self.connect(now, token, descriptor, (addresses, attached))
            }
            Request::Shutdown { how } => self.shut_down(now, descriptor, how),
            Request::GetOption {
                level,
                name,
                buffer,
            } => {
                let value = self.sockets.getsockopt(now, id, (level, name), buffer);
                value.map_or_else(ReplyContent::error, ReplyContent::value)
            }
            Request::SetOption { level, name, value } => {
                self.set_option(now, descriptor, (level, name), value)
            }
            Request::LocalAddress => address_of(self.sockets.local_address(id)),
            Request::PeerAddress => address_of(self.sockets.peer_address(id)),
            Request::Send {
                address,
                control,
                data,
                ..
            } => {
                let status = self.sockets.status(id);
                let limit = status.map_or(0, |status| status.max_message);
                let data = match message {
                    Some(message) => read_message(message, limit),
                    None => Ok(Bytes::copy_from_slice(data)),
                };
                match data {
                    Ok(data) => {
                        self.send_message(now, descriptor, (address, control, data), attached)
                    }
                    Err(error) => ReplyContent::error(error),
                }
            }
            Request::Peeloff { association } => {
                self.peel_off(now, descriptor, (association, attached))
            }
        }
    }

    fn set_option(
        &mut self,
        now: Time,
        descriptor: &mut Descriptor,
        option: (i32, i32),
        value: &[u8],
    ) -> ReplyContent {
        let id = descriptor.socket();
        let set = |sockets: &mut Sockets| sockets.setsockopt(now, id, option, value);
        let addresses = match option {
            (IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD) => read_addresses(value).ok(),
            _ => None,
        };
        let result = match addresses.as_deref() {
            Some(list @ [first, ..]) => self
                .open_loopback(list)
                .and_then(|()| self.binding(now, descriptor, first.port(), set)),
            _ => set(&mut self.sockets),
        };
        result.map_or_else(ReplyContent::error, |result| ReplyContent {
            result,
            ..ReplyContent::default()
        })
    }

    /// Opens the sockets of the network for addresses of 127.0.0.0/8 that no interface has.
    ///
    /// # Errors
    /// `EADDRINUSE`, or `EADDRNOTAVAIL` for one of a network with other addresses.
    pub(crate) fn open_loopback(&mut self, addresses: &[SocketAddr]) -> Result<(), Errno> {
        let known = self.sockets.host_addresses();
        let mut others = Vec::new();
        for address in addresses {
            if let IpAddr::V4(ip) = address.ip().to_canonical()
                && ip.is_loopback()
                && !known.contains(&ip.into())
            {
                others.push(ip);
            }
        }
        for ip in others {
            self.network
                .open_loopback(ip)
                .map_err(|error| match error {
                    BindError::PortTaken { .. } | BindError::SctpTaken { .. } => Errno::EADDRINUSE,
                    _ => Errno::EADDRNOTAVAIL,
                })?;
        }
        Ok(())
    }

    /// Binds a descriptor to a port, which may be that of a descriptor that the program has closed just before.
    fn binding<R>(
        &mut self,
        now: Time,
        descriptor: &mut Descriptor,
        port: u16,
        bind: impl Fn(&mut Sockets) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        match bind(&mut self.sockets) {
            Err(Errno::EADDRINUSE) => {
                self.close_closed(now, port);
                self.end_closed_leases(now, port);
                // An event of this descriptor may have been among those that were read.
                descriptor.incoming.set_readable(true);
                bind(&mut self.sockets)
            }
            bound => bound,
        }
    }

    /// Starts an association. A one-to-one descriptor is not writable until it is established. A caller that
    /// blocks on a one-to-many descriptor, which stays writable, gets another descriptor for the result.
    fn connect(
        &mut self,
        now: Time,
        token: Token,
        descriptor: &mut Descriptor,
        (addresses, attached): (&[u8], &OwnedFd),
    ) -> ReplyContent {
        let id = descriptor.socket();
        let status = self.sockets.status(id);
        let is_many = status.is_ok_and(|status| status.style == Style::OneToMany);
        let started = read_addresses(addresses).and_then(|peers| {
            // File descriptors first: nothing has to be taken back without them.
            let waits = is_many && !is_nonblocking(attached);
            let result = waits
                .then(|| self.open_setup(descriptor.uid()))
                .transpose()?;
            // The pair of a set-up that failed cannot be used again.
            let is_renewed = !is_many && descriptor.is_ended();
            let renewed = is_renewed.then(|| self.open_renewed(token, descriptor.uid()));
            let renewed = renewed.transpose()?;
            let association = self.sockets.connectx(now, id, &peers)?;
            Ok((association, result, renewed))
        });
        let (association, result, renewed) = match started {
            Ok(started) => started,
            Err(error) => return ReplyContent::error(error),
        };
        if let Some((ours, theirs)) = result {
            self.sockets.watch_setup(association);
            self.setups.insert(association, (descriptor.uid(), ours));
            self.users.add_setup();
            return ReplyContent::in_progress(association, Some(theirs));
        }
        let renewed = renewed.map(|(end, theirs)| {
            self.by_cookie.remove(&descriptor.cookie());
            self.departed.insert(descriptor.cookie(), descriptor.uid());
            self.schedule_check(now);
            if let Some(ours) = descriptor.take_ours() {
                self.users.close_pair(descriptor.uid(), ours);
            }
            *descriptor = Descriptor::new(id, descriptor.owner(), end);
            self.by_cookie.insert(descriptor.cookie(), token);
            self.ended.remove(&token);
            theirs
        });
        if !is_many {
            descriptor.plug(renewed.as_ref().unwrap_or(attached).as_fd());
        }
        ReplyContent::in_progress(association, renewed)
    }

    /// Opens the pair on which a caller gets the result of a set-up.
    fn open_setup(&self, uid: u32) -> Result<(OwnedFd, OwnedFd), Errno> {
        let opened = self.users.check_setups(uid).and_then(|()| open_pair());
        opened.map_err(|error| {
            self.users
                .record_failure(&format!("user {uid} cannot connect"), error);
            Errno::EMFILE
        })
    }

    /// Opens another pair for a descriptor whose set-up has failed.
    fn open_renewed(&self, token: Token, uid: u32) -> Result<(PairEnd, OwnedFd), Errno> {
        let opened = self.users.check_departed(uid).and_then(|()| pair());
        let opened = opened.and_then(|(end, theirs)| {
            self.watch_end(&theirs)?;
            self.poller.watch_as(&end.ours, token)?;
            Ok((end, theirs))
        });
        opened.map_err(|error| {
            self.users
                .record_failure(&format!("user {uid} cannot connect"), error);
            Errno::EMFILE
        })
    }

    /// Sends the results of set-ups to callers that wait for them.
    pub(crate) fn report_setups(&mut self) {
        while let Some((association, result)) = self.sockets.poll_setup() {
            if let Some((uid, ours)) = self.setups.remove(&association) {
                self.users.remove_setup();
                let number = result.map_or_else(Errno::number, |()| 0);
                // The caller may have ended.
                let _ = send(&ours, &number.to_ne_bytes(), AT_ONCE);
                self.users.close_pair(uid, ours);
            }
        }
    }

    /// `shutdown`; the messages that the program has sent before come first.
    fn shut_down(&mut self, now: Time, descriptor: &mut Descriptor, how: i32) -> ReplyContent {
        let status = self.sockets.status(descriptor.socket());
        if descriptor.is_dry() || !status.is_ok_and(|status| status.is_established) {
            return self.sockets.shutdown(now, descriptor.socket(), how).into();
        }
        descriptor.shutdown = Some(how);
        ReplyContent::default()
    }

    /// `sendmsg`
    fn send_message(
        &mut self,
        now: Time,
        descriptor: &mut Descriptor,
        (address, control, data): (&[u8], &[u8], Bytes),
        attached: &OwnedFd,
    ) -> ReplyContent {
        let address = match address {
            [] => Ok(None),
            bytes => read_address(bytes).map(|(address, _)| Some(address)),
        };
        let sent = match address {
            Err(error) => Err(error),
            // Messages keep their order.
            Ok(_) if descriptor.incoming.has_refused() => Err(Errno::EAGAIN),
            Ok(address) => {
                let message = OutgoingMessage {
                    address,
                    data,
                    control,
                };
                self.sockets.sendmsg(now, descriptor.socket(), &message)
            }
        };
        match sent {
            Ok(len) => ReplyContent {
                result: len as i32,
                ..ReplyContent::default()
            },
            Err(error) => {
                if error == Errno::EAGAIN {
                    descriptor.plug(attached.as_fd());
                }
                ReplyContent::error(error)
            }
        }
    }

    /// `sctp_peeloff`. Frames of the association that the program has not read belong to the new descriptor.
    ///
    /// 1. Branch the association off, with a new descriptor.
    /// 2. Take the frames from the program's end of the old descriptor, and those that wait for room.
    /// 3. Pass those of the association to the new descriptor, and the remaining ones to the old one again.
    fn peel_off(
        &mut self,
        now: Time,
        descriptor: &mut Descriptor,
        (association, attached): (i32, &OwnedFd),
    ) -> ReplyContent {
        // 1
        let branched = self.open_pair(descriptor.owner()).and_then(|pair| {
            let id = self
                .sockets
                .peeloff(now, descriptor.socket(), association)?;
            Ok(self.insert_descriptor(id, pair))
        });
        let (theirs, token) = match branched {
            Ok(branched) => branched,
            Err(error) => return ReplyContent::error(error),
        };
        // 2
        let mut frames = take_unread(attached, &mut self.buffer);
        frames.extend(descriptor.outgoing.take_all());
        let is_moved = |frame: &OutgoingFrame| frame.header.info.association == association;
        let (moved, kept): (VecDeque<_>, _) = frames.into_iter().partition(is_moved);
        // 3
        descriptor.outgoing.set_all(kept);
        descriptor.flush();
        if let Some(new) = self.descriptors.get_mut(&token) {
            new.has_data = moved.iter().any(|frame| !frame.header.is_notification);
            new.outgoing.set_all(moved);
        }
        // The program reads the messages right after the reply.
        self.serve(now, token);
        ReplyContent {
            attached: Some(theirs),
            ..ReplyContent::default()
        }
    }
}

/// Returns whether calls on a descriptor do not block.
fn is_nonblocking(descriptor: &OwnedFd) -> bool {
    fcntl_getfl(descriptor).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

/// Reads a message of at most `limit` bytes from the file of a program (`memfd_create`), which does not block.
///
/// # Errors
/// `EMSGSIZE`, or `EINVAL` for another file, or one that may change meanwhile.
fn read_message(file: &OwnedFd, limit: usize) -> Result<Bytes, Errno> {
    let seals = fcntl_get_seals(file).map_err(|_| Errno::EINVAL)?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::WRITE) {
        return Err(Errno::EINVAL);
    }
    let size = fstat(file).map_or(0, |stat| stat.st_size);
    let size = usize::try_from(size).map_err(|_| Errno::EINVAL)?;
    if size > limit {
        return Err(Errno::EMSGSIZE);
    }
    let mut data = vec![0; size];
    let mut done = 0;
    while done < size {
        match pread(file, &mut data[done..], done as u64) {
            Ok(0) => return Err(Errno::EINVAL),
            Ok(len) => done += len,
            Err(SystemErrno::INTR) => {}
            Err(_) => return Err(Errno::EINVAL),
        }
    }
    Ok(data.into())
}

/// Takes the frames from a program's end that the program has not read. Of a message that it has read in
/// part, which the kernel's peek offset shows, the rest remains.
fn take_unread(theirs: &OwnedFd, buffer: &mut [u8]) -> VecDeque<OutgoingFrame> {
    let mut frames = VecDeque::new();
    let peek = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    let mut rest = recv(theirs, &mut *buffer, peek).map_or(0, |(_, len)| len);
    while let Ok((len, _)) = recv(theirs, &mut *buffer, RecvFlags::DONTWAIT) {
        let Ok(header) = Header::decode(&buffer[..len]) else {
            // The end of the pair; the daemon sends whole frames.
            break;
        };
        let start = HEADER.max(len.saturating_sub(rest));
        frames.push_back(OutgoingFrame {
            header,
            payload: Bytes::copy_from_slice(&buffer[start..len]),
            attached: None,
        });
        rest = usize::MAX;
    }
    frames
}

fn address_of(address: Result<SocketAddr, Errno>) -> ReplyContent {
    address.map_or_else(ReplyContent::error, |address| {
        ReplyContent::value(write_address(address))
    })
}

fn not_ours() -> Vec<u8> {
    let reply = Reply {
        error: ENOTSOCK,
        ..Reply::default()
    };
    reply.encode()
}

/// Returns the reply to a request that opens a descriptor, with its description and a value.
pub(crate) fn opened(
    result: Result<(Description, Vec<u8>, OwnedFd), Errno>,
) -> (Vec<u8>, Option<OwnedFd>) {
    match result {
        Ok((description, value, theirs)) => {
            let reply = Reply {
                description,
                value: &value,
                ..Reply::default()
            };
            (reply.encode(), Some(theirs))
        }
        Err(error) => {
            let reply = Reply {
                error: error.number(),
                ..Reply::default()
            };
            (reply.encode(), None)
        }
    }
}
