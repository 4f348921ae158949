//! Calls of the sockets API.

use std::net::SocketAddr;

use bytes::Bytes;
use carrick_sockets::ancillary::{ControlMessage, read_control, write_control};
use carrick_sockets::linux::{
    IPPROTO_SCTP, Layout, MSG_DONTWAIT, SCTP_BINDX_ADD_ADDR, SCTP_SNDINFO, SCTP_SNDRCV, SO_ERROR,
    SOL_SOCKET, SndRcvInfo,
};
use carrick_sockets::{Errno, OutgoingMessage, Readiness, Received, SocketId, Sockets};

use crate::compare::Difference;
use crate::constants::error_number;
use crate::model::{Call, CallResult, Expression, ExpressionKind, Position};
use crate::run::{Descriptor, Runner};
use crate::structs::{CallError, StructLayout, address, ip_address, number};

/// Flag of `fcntl`.
const O_NONBLOCK: i64 = 0o4000;
/// Access mode of a socket.
const O_RDWR: i64 = 2;
/// Events of `poll`.
const POLLIN: i64 = 0x1;
const POLLOUT: i64 = 0x4;
const POLLERR: i64 = 0x8;
const POLLHUP: i64 = 0x10;
const POLLNVAL: i64 = 0x20;
const POLLRDNORM: i64 = 0x40;
const POLLWRNORM: i64 = 0x100;
const POLLRDHUP: i64 = 0x2000;
/// Size of the buffer for ancillary data.
const CONTROL_SIZE: usize = 1024;
/// Limit of a message or buffer of a call in bytes.
pub(crate) const MAX_BUFFER: i64 = 16 << 20;

pub(crate) type Called<T> = Result<T, CallError>;

/// Result of a call.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    /// Its result, and the first difference of what it returned beside it.
    Done(Result<i64, Errno>, Option<Difference>),
    /// The call waits.
    Blocks,
}

impl CallResult {
    /// Compares a result with the expected one.
    pub(crate) fn compare(&self, actual: Result<i64, Errno>) -> Option<Difference> {
        let is_same = match (self, actual) {
            (Self::Any, _) => true,
            (Self::Number(expected), Ok(actual)) => *expected == actual,
            (Self::Number(expected), Err(_)) => *expected == -1,
            (Self::Error(name), Err(error)) => error_number(name) == Some(error.number().into()),
            (Self::Error(_), Ok(_)) => false,
        };
        let text = |result| match result {
            Ok(number) => format!("{number}"),
            Err(error) => format!("-1 {}", Errno::name(error)),
        };
        (!is_same).then(|| Difference {
            field: "result".into(),
            expected: match self {
                Self::Any => "...".into(),
                Self::Number(number) => number.to_string(),
                Self::Error(name) => format!("-1 {name}"),
            },
            actual: text(actual),
        })
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the result of most calls")]
pub(crate) fn done(result: Result<i64, Errno>) -> Called<CallOutcome> {
    Ok(CallOutcome::Done(result, None))
}

pub(crate) fn error<T>(value: &Expression, text: impl Into<String>) -> Called<T> {
    Err((value.position, text.into()))
}

impl Runner<'_> {
    /// Performs a call. A call that waits is performed again later.
    pub(crate) fn call(&mut self, call: &Call) -> Called<CallOutcome> {
        let arguments = call.arguments.as_slice();
        // A script that expects an error may use a descriptor that is not open.
        if let Some(ExpressionKind::Number(fd)) = arguments.first().map(|first| &first.kind)
            && matches!(call.result, CallResult::Error(_) | CallResult::Number(-1))
            && call.name != "socket"
            && !self.descriptors.contains_key(fd)
        {
            return done(Err(Errno::EBADF));
        }
        match (call.name.as_str(), arguments) {
            ("socket", [domain, kind, protocol]) => self.socket(call, domain, kind, protocol),
            ("bind", [fd, local, _]) => {
                let descriptor = self.descriptor(fd)?;
                let local = self.local_address(local)?;
                done(self.sockets.bind(descriptor.socket, local).map(|()| 0))
            }
            ("listen", [fd, backlog]) => {
                let descriptor = self.descriptor(fd)?;
                let backlog = number(backlog)? as i32;
                done(self.sockets.listen(descriptor.socket, backlog).map(|()| 0))
            }
            ("accept" | "accept4", [fd, ..]) => self.accept(call, fd),
            ("connect", [fd, peer, _]) => {
                let peer = self.peer_address(peer)?;
                self.connect(fd, &[peer])
            }
            ("sctp_connectx", [fd, peers, _, ..]) => {
                let peers = self.addresses(peers)?;
                self.connect(fd, &peers)
            }
            ("sctp_bindx", [fd, addresses, _, flags]) => self.bindx(fd, addresses, flags),
            ("sctp_peeloff", [fd, association]) => {
                let descriptor = self.descriptor(fd)?;
                let association = number(association)? as i32;
                let socket = self
                    .sockets
                    .peeloff(self.now, descriptor.socket, association);
                self.opened(call, socket)
            }
            ("fcntl", [fd, command, rest @ ..]) => self.fcntl(fd, command, rest.first()),
            ("setsockopt", [fd, level, name, value, len]) => {
                self.setsockopt(fd, (level, name), value, len)
            }
            ("getsockopt", [fd, level, name, value, size]) => {
                self.getsockopt(fd, (level, name), value, size)
            }
            ("poll", [list, _, timeout]) => self.poll(list, timeout),
            ("shutdown", [fd, how]) => {
                let descriptor = self.descriptor(fd)?;
                let how = number(how)? as i32;
                done(
                    self.sockets
                        .shutdown(self.now, descriptor.socket, how)
                        .map(|()| 0),
                )
            }
            ("close", [fd]) => {
                let descriptor = self.descriptor(fd)?;
                self.descriptors.remove(&number(fd)?);
                done(self.sockets.close(self.now, descriptor.socket).map(|_| 0))
            }
            ("getsockname", [fd, name, _]) => {
                let socket = self.descriptor(fd)?.socket;
                let address = self.sockets.local_address(socket);
                addresses_found(address.map(|address| (0, vec![address])), name)
            }
            ("getpeername", [fd, name, _]) => {
                let socket = self.descriptor(fd)?.socket;
                let address = self.sockets.peer_address(socket);
                addresses_found(address.map(|address| (0, vec![address])), name)
            }
            ("sctp_getladdrs", [fd, _, list]) => {
                let socket = self.descriptor(fd)?.socket;
                let found = self.sockets.local_addresses(socket);
                addresses_found(found.map(|list| (list.len() as i64, list)), list)
            }
            ("sctp_getpaddrs", [fd, association, list]) => {
                let socket = self.descriptor(fd)?.socket;
                let association = number(association)? as i32;
                let found = self.sockets.peer_addresses(socket, association);
                addresses_found(found.map(|list| (list.len() as i64, list)), list)
            }
            ("sctp_freepaddrs" | "sctp_freeladdrs", [_]) => done(Ok(0)),
            _ => match self.vector_call(call) {
                Some(outcome) => outcome,
                None => self.call_with_message(call),
            },
        }
    }

    /// Performs a call that sends or receives.
    fn call_with_message(&mut self, call: &Call) -> Called<CallOutcome> {
        let arguments = call.arguments.as_slice();
        match (call.name.as_str(), arguments) {
            ("write", [fd, data, len]) => self.send(fd, None, (data, len), None, &[]),
            ("send", [fd, data, len, flags]) => self.send(fd, None, (data, len), Some(flags), &[]),
            ("sendto", [fd, data, len, flags, peer, _]) => {
                let peer = Some(self.peer_address(peer)?);
                self.send(fd, peer, (data, len), Some(flags), &[])
            }
            ("sendmsg", [fd, message, flags]) => self.sendmsg(fd, message, flags),
            ("sctp_send", [fd, data, len, info, flags]) => {
                let info = StructLayout::of_control(SCTP_SNDRCV.into()).map(|l| l.encode(info));
                let control = info
                    .transpose()?
                    .map(|info| ControlMessage::sctp(SCTP_SNDRCV, info));
                self.send(fd, None, (data, len), Some(flags), control.as_slice())
            }
            ("sctp_sendmsg", [fd, data, len, peer, _, info @ ..]) if info.len() == 5 => {
                self.sctp_sendmsg(fd, (data, len), peer, info)
            }
            ("read", [fd, data, len]) => {
                let received = self.receive(fd, number(len)?, None)?;
                received_data(received, data)
            }
            ("recv", [fd, data, len, flags]) => {
                let received = self.receive(fd, number(len)?, Some(flags))?;
                received_data(received, data)
            }
            ("recvfrom", [fd, data, len, flags, peer, _]) => {
                let received = self.receive(fd, number(len)?, Some(flags))?;
                let difference = received
                    .as_ref()
                    .and_then(|r| compare_address(peer, r).transpose());
                Ok(with(
                    received_data(received, data)?,
                    difference.transpose()?,
                ))
            }
            ("recvmsg", [fd, message, flags]) => self.recvmsg(fd, message, flags),
            ("sctp_recvmsg", [fd, data, len, peer, _, info, flags]) => {
                let received = self.receive(fd, number(len)?, None)?;
                let difference = match &received {
                    Some(Ok(received)) => first([
                        compare_address_of(peer, received)?,
                        compare_info(info, received)?,
                        compare_flags(flags, received)?,
                    ]),
                    _ => None,
                };
                Ok(with(received_data(received, data)?, difference))
            }
            (name, _) => Err((
                call.arguments
                    .first()
                    .map_or_else(Position::default, |a| a.position),
                format!(
                    "{name} with {} arguments is no call that scripts have",
                    arguments.len()
                ),
            )),
        }
    }

    pub(crate) fn descriptor(&self, fd: &Expression) -> Called<Descriptor> {
        let number = number(fd)?;
        match self.descriptors.get(&number) {
            Some(descriptor) => Ok(*descriptor),
            None => error(fd, format!("descriptor {number} is not open")),
        }
    }

    /// Opens the descriptor that a call returns.
    fn opened(&mut self, call: &Call, socket: Result<SocketId, Errno>) -> Called<CallOutcome> {
        let socket = match socket {
            Ok(socket) => socket,
            Err(error) => return done(Err(error)),
        };
        let position = call
            .arguments
            .first()
            .map_or_else(Position::default, |a| a.position);
        let fd = match call.result {
            CallResult::Number(fd) if fd >= 0 => fd,
            CallResult::Any => {
                let result = "the result is a descriptor, which needs a number that is not open";
                return Err((position, result.into()));
            }
            // An error was expected: any number differs from it.
            _ => self
                .descriptors
                .keys()
                .next_back()
                .map_or(3, |last| last + 1),
        };
        if self.descriptors.contains_key(&fd) {
            return Err((position, format!("{fd} is no new descriptor")));
        }
        let descriptor = Descriptor {
            socket,
            is_non_blocking: false,
        };
        self.descriptors.insert(fd, descriptor);
        done(Ok(fd))
    }

    fn socket(
        &mut self,
        call: &Call,
        domain: &Expression,
        kind: &Expression,
        protocol: &Expression,
    ) -> Called<CallOutcome> {
        let domain = match domain.kind {
            ExpressionKind::Ellipsis if self.script.options.local[0].is_ipv6() => 10,
            ExpressionKind::Ellipsis => 2,
            _ => number(domain)? as i32,
        };
        let style = Sockets::style_of(domain, number(kind)? as i32, number(protocol)? as i32);
        let socket = style.and_then(|(style, family)| self.sockets.socket(style, family));
        self.opened(call, socket)
    }

    pub(crate) fn local_address(&self, value: &Expression) -> Called<SocketAddr> {
        if value.kind != ExpressionKind::Ellipsis {
            return address(value);
        }
        let options = &self.script.options;
        let ip = match (options.local.as_slice(), options.local[0].is_ipv4()) {
            ([only], _) => *only,
            (_, true) => [0; 4].into(),
            (_, false) => [0; 16].into(),
        };
        Ok(SocketAddr::new(ip, options.bind_port))
    }

    pub(crate) fn peer_address(&self, value: &Expression) -> Called<SocketAddr> {
        if value.kind != ExpressionKind::Ellipsis {
            return address(value);
        }
        let options = &self.script.options;
        Ok(SocketAddr::new(options.remote, options.connect_port))
    }

    pub(crate) fn addresses(&self, value: &Expression) -> Called<Vec<SocketAddr>> {
        match &value.kind {
            ExpressionKind::Array(list) => list.iter().map(|a| self.peer_address(a)).collect(),
            _ => Ok(vec![self.peer_address(value)?]),
        }
    }

    fn accept(&mut self, call: &Call, fd: &Expression) -> Called<CallOutcome> {
        let descriptor = self.descriptor(fd)?;
        match self.sockets.accept(descriptor.socket) {
            Err(Errno::EAGAIN) if !descriptor.is_non_blocking => Ok(CallOutcome::Blocks),
            accepted => self.opened(call, accepted.map(|(socket, _)| socket)),
        }
    }

    fn connect(&mut self, fd: &Expression, peers: &[SocketAddr]) -> Called<CallOutcome> {
        let descriptor = self.descriptor(fd)?;
        let socket = descriptor.socket;
        // A call that waits has begun the set-up before.
        if !self.is_repeated {
            let started = self.sockets.connectx(self.now, socket, peers).map(|_| ());
            if descriptor.is_non_blocking {
                return done(started.and(Err(Errno::EINPROGRESS)));
            }
            match started {
                Ok(()) | Err(Errno::EALREADY) => {}
                Err(error) => return done(Err(error)),
            }
        }
        let level = self.sockets.readiness(socket).unwrap_or_default();
        if !level.intersects(Readiness::WRITABLE | Readiness::HANG_UP | Readiness::ERROR) {
            return Ok(CallOutcome::Blocks);
        }
        let option = (SOL_SOCKET, SO_ERROR);
        let pending = self.sockets.getsockopt(self.now, socket, option, &[0; 4]);
        let pending = pending.ok().and_then(|b| <[u8; 4]>::try_from(b).ok());
        let pending = pending.map_or(0, i32::from_ne_bytes);
        let failed = Errno::ALL.iter().find(|error| error.number() == pending);
        done(failed.map_or(Ok(0), |error| Err(*error)))
    }

    fn bindx(
        &mut self,
        fd: &Expression,
        addresses: &Expression,
        flags: &Expression,
    ) -> Called<CallOutcome> {
        let socket = self.descriptor(fd)?.socket;
        let list = match &addresses.kind {
            ExpressionKind::Array(list) => list.as_slice(),
            ExpressionKind::Ellipsis => std::slice::from_ref(addresses),
            _ => return error(addresses, "expected a list of addresses"),
        };
        let list = list
            .iter()
            .map(|a| self.local_address(a))
            .collect::<Called<Vec<_>>>()?;
        let result = if number(flags)? == i64::from(SCTP_BINDX_ADD_ADDR) {
            self.sockets.bindx_add(socket, &list)
        } else {
            self.sockets.bindx_remove(self.now, socket, &list)
        };
        done(result.map(|()| 0))
    }

    fn fcntl(
        &mut self,
        fd: &Expression,
        command: &Expression,
        flags: Option<&Expression>,
    ) -> Called<CallOutcome> {
        let descriptor = self.descriptor(fd)?;
        match (number(command)?, flags) {
            (3, _) => {
                let status = if descriptor.is_non_blocking {
                    O_NONBLOCK
                } else {
                    0
                };
                done(Ok(O_RDWR | status))
            }
            (4, Some(flags)) => {
                let is_non_blocking = number(flags)? & O_NONBLOCK != 0;
                let descriptor = Descriptor {
                    is_non_blocking,
                    ..descriptor
                };
                self.descriptors.insert(number(fd)?, descriptor);
                done(Ok(0))
            }
            _ => error(command, "scripts have F_GETFL and F_SETFL"),
        }
    }

    fn setsockopt(
        &mut self,
        fd: &Expression,
        (level, name): (&Expression, &Expression),
        value: &Expression,
        len: &Expression,
    ) -> Called<CallOutcome> {
        let socket = self.descriptor(fd)?.socket;
        let option = (number(level)?, number(name)?);
        let mut value = encode_option(option, value)?;
        if len.kind != ExpressionKind::Ellipsis {
            // The C library passes as many bytes, the ones behind the value included.
            match number(len)? {
                len @ 0..=MAX_BUFFER => value.resize(self.size_here(option, len as usize), 0),
                _ => return done(Err(Errno::EINVAL)),
            }
        }
        let option = (option.0 as i32, option.1 as i32);
        let result = self.sockets.setsockopt(self.now, socket, option, &value);
        done(result.map(i64::from))
    }

    fn getsockopt(
        &mut self,
        fd: &Expression,
        (level, name): (&Expression, &Expression),
        value: &Expression,
        size: &Expression,
    ) -> Called<CallOutcome> {
        let socket = self.descriptor(fd)?.socket;
        let (level, name) = (number(level)?, number(name)?);
        let mut buffer = encode_option((level, name), value)?;
        let capacity = buffer_size(size)?.map(|size| self.size_here((level, name), size));
        if let Some(capacity) = capacity {
            buffer.resize(capacity, 0);
        }
        let option = (level as i32, name as i32);
        let bytes = match self.sockets.getsockopt(self.now, socket, option, &buffer) {
            Ok(bytes) => bytes,
            Err(error) => return done(Err(error)),
        };
        let mut difference = compare_option((level, name), value, &bytes)?;
        if let Some(capacity) = capacity
            && matches!(size.kind, ExpressionKind::Array(_))
            && capacity != bytes.len()
        {
            let field = "size of the option";
            difference = difference.or(Some(Difference::new(field, capacity, bytes.len())));
        }
        Ok(CallOutcome::Done(Ok(0), difference))
    }

    /// Returns the size here of an option with this size in the script.
    fn size_here(&self, (level, name): (i64, i64), len: usize) -> usize {
        let layout = StructLayout::of_option(level, name);
        layout.map_or(len, |layout| layout.size_here(len, self.script.system))
    }

    /// Compares the events of descriptors with those of a script. Without any the call waits, unless its timeout is 0.
    fn poll(&self, list: &Expression, timeout: &Expression) -> Called<CallOutcome> {
        let (mut ready, mut difference) = (0, None);
        for entry in elements(list)? {
            let field = |wanted: &str| {
                let mut fields = fields(entry)?.iter();
                let found = fields.find(|(name, _)| name == wanted);
                found.map_or_else(
                    || error(entry, format!("{wanted} of struct pollfd is missing")),
                    |(_, value)| Ok(value),
                )
            };
            let fd = number(field("fd")?)?;
            // Errors are reported without a request.
            let requested = number(field("events")?)? | POLLERR | POLLHUP | POLLNVAL;
            let events = match self.descriptors.get(&fd) {
                Some(descriptor) => self
                    .sockets
                    .readiness(descriptor.socket)
                    .map_or(POLLERR, poll_events),
                None => POLLNVAL,
            };
            let actual = events & requested;
            ready += i64::from(actual != 0);
            let expected = field("revents")?;
            if expected.kind != ExpressionKind::Ellipsis && number(expected)? != actual {
                let expected = format!("{:#x}", number(expected)?);
                let field = format!("revents of descriptor {fd}");
                let found = Difference::new(field, expected, format!("{actual:#x}"));
                difference = difference.or(Some(found));
            }
        }
        if ready == 0 && number(timeout)? != 0 {
            return Ok(CallOutcome::Blocks);
        }
        Ok(CallOutcome::Done(Ok(ready), difference))
    }

    pub(crate) fn send(
        &mut self,
        fd: &Expression,
        peer: Option<SocketAddr>,
        (data, len): (&Expression, &Expression),
        flags: Option<&Expression>,
        control: &[ControlMessage],
    ) -> Called<CallOutcome> {
        let descriptor = self.descriptor(fd)?;
        let data = payload(data, len)?;
        let (control, _) = write_control(control, usize::MAX);
        let message = OutgoingMessage {
            address: peer,
            data,
            control: &control,
        };
        let never_waits = Self::never_waits(descriptor, flags)?;
        match self.sockets.sendmsg(self.now, descriptor.socket, &message) {
            Err(Errno::EAGAIN) if !never_waits => Ok(CallOutcome::Blocks),
            result => done(result.map(|len| len as i64)),
        }
    }

    pub(crate) fn never_waits(descriptor: Descriptor, flags: Option<&Expression>) -> Called<bool> {
        let flags = flags.map(number).transpose()?.unwrap_or_default();
        Ok(descriptor.is_non_blocking || flags & i64::from(MSG_DONTWAIT) != 0)
    }

    fn sendmsg(
        &mut self,
        fd: &Expression,
        message: &Expression,
        flags: &Expression,
    ) -> Called<CallOutcome> {
        let (mut peer, mut data, mut control) = (None, Vec::new(), Vec::new());
        for (name, value) in fields(message)? {
            match name.as_str() {
                "msg_name" => peer = Some(self.peer_address(value)?),
                "msg_flags" => {}
                "msg_iov" => {
                    for part in elements(value)? {
                        let (base, len) = io_vector(part)?;
                        data.extend(payload(base, len)?);
                    }
                }
                "msg_control" => {
                    for part in elements(value)? {
                        control.push(control_message(part)?);
                    }
                }
                _ => return error(value, format!("{name} is no field of msghdr")),
            }
        }
        let descriptor = self.descriptor(fd)?;
        let (control, _) = write_control(&control, usize::MAX);
        let message = OutgoingMessage {
            address: peer,
            data: data.into(),
            control: &control,
        };
        let never_waits = Self::never_waits(descriptor, Some(flags))?;
        match self.sockets.sendmsg(self.now, descriptor.socket, &message) {
            Err(Errno::EAGAIN) if !never_waits => Ok(CallOutcome::Blocks),
            result => done(result.map(|len| len as i64)),
        }
    }

    fn sctp_sendmsg(
        &mut self,
        fd: &Expression,
        data: (&Expression, &Expression),
        peer: &Expression,
        info: &[Expression],
    ) -> Called<CallOutcome> {
        let peer = match &peer.kind {
            ExpressionKind::Name(name) if name == "NULL" => None,
            _ => Some(self.peer_address(peer)?),
        };
        let values = info.iter().map(number).collect::<Called<Vec<i64>>>()?;
        let info = SndRcvInfo {
            ppid: values[0] as u32,
            flags: values[1] as u16,
            stream: values[2] as u16,
            time_to_live: values[3] as u32,
            context: values[4] as u32,
            ..SndRcvInfo::default()
        };
        let control = ControlMessage::sctp(SCTP_SNDRCV, info.encode());
        self.send(fd, peer, data, None, &[control])
    }

    /// Reads a message. `None`: the call waits.
    pub(crate) fn receive(
        &mut self,
        fd: &Expression,
        len: i64,
        flags: Option<&Expression>,
    ) -> Called<Option<Result<Received, Errno>>> {
        let descriptor = self.descriptor(fd)?;
        let never_waits = Self::never_waits(descriptor, flags)?;
        let flags = flags.map(number).transpose()?.unwrap_or_default() as i32;
        let sizes = (len.clamp(0, MAX_BUFFER) as usize, CONTROL_SIZE);
        let received = self
            .sockets
            .recvmsg(self.now, descriptor.socket, sizes, flags);
        Ok(match received {
            Err(Errno::EAGAIN) if !never_waits => None,
            received => Some(received),
        })
    }

    fn recvmsg(
        &mut self,
        fd: &Expression,
        message: &Expression,
        flags: &Expression,
    ) -> Called<CallOutcome> {
        let ellipsis = Expression {
            position: message.position,
            kind: ExpressionKind::Ellipsis,
        };
        let mut data = (&ellipsis, MAX_BUFFER);
        for (name, value) in fields(message)? {
            if name == "msg_iov"
                && let [part] = elements(value)?
            {
                let (base, len) = io_vector(part)?;
                data = (base, number(len)?);
            }
        }
        let received = self.receive(fd, data.1, Some(flags))?;
        let mut difference = None;
        if let Some(Ok(received)) = &received {
            for (name, value) in fields(message)? {
                let found = match name.as_str() {
                    "msg_name" => compare_address_of(value, received)?,
                    "msg_flags" => compare_flags(value, received)?,
                    "msg_control" => compare_control(value, received)?,
                    "msg_iov" => None,
                    _ => return error(value, format!("{name} is no field of msghdr")),
                };
                difference = difference.or(found);
            }
        }
        Ok(with(received_data(received, data.0)?, difference))
    }
}

/// Compares the addresses that a call returned beside its result.
fn addresses_found(
    found: Result<(i64, Vec<SocketAddr>), Errno>,
    expected: &Expression,
) -> Called<CallOutcome> {
    let (result, mut found) = match found {
        Ok(found) => found,
        Err(error) => return done(Err(error)),
    };
    let expected = match &expected.kind {
        ExpressionKind::Ellipsis => return done(Ok(result)),
        ExpressionKind::Array(list) => list.as_slice(),
        _ => std::slice::from_ref(expected),
    };
    let mut expected = expected.iter().map(address).collect::<Called<Vec<_>>>()?;
    expected.sort_unstable();
    found.sort_unstable();
    let text = |list: &[SocketAddr]| {
        let list: Vec<String> = list.iter().map(SocketAddr::to_string).collect();
        list.join(", ")
    };
    let difference =
        (expected != found).then(|| Difference::new("addresses", text(&expected), text(&found)));
    Ok(CallOutcome::Done(Ok(result), difference))
}

/// Adds a difference to the result of a call.
pub(crate) fn with(outcome: CallOutcome, difference: Option<Difference>) -> CallOutcome {
    match outcome {
        CallOutcome::Done(result, found) => CallOutcome::Done(result, found.or(difference)),
        CallOutcome::Blocks => CallOutcome::Blocks,
    }
}

pub(crate) fn first<const N: usize>(differences: [Option<Difference>; N]) -> Option<Difference> {
    differences.into_iter().flatten().next()
}

pub(crate) fn fields(value: &Expression) -> Called<&[(String, Expression)]> {
    match &value.kind {
        ExpressionKind::Struct(fields) => Ok(fields),
        _ => error(value, "expected a struct {...}"),
    }
}

pub(crate) fn elements(value: &Expression) -> Called<&[Expression]> {
    match &value.kind {
        ExpressionKind::Array(list) => Ok(list),
        ExpressionKind::Ellipsis => Ok(&[]),
        _ => error(value, "expected a list [...]"),
    }
}

/// Returns base and length of `{..., 1000}` or `{iov_base=..., iov_len=1000}`.
pub(crate) fn io_vector(value: &Expression) -> Called<(&Expression, &Expression)> {
    match fields(value)? {
        [(_, base), (_, len)] => Ok((base, len)),
        _ => error(value, "expected {DATA, LENGTH}"),
    }
}

/// Returns the events of `poll` for the level of a socket.
fn poll_events(level: Readiness) -> i64 {
    let events = [
        (Readiness::READABLE, POLLIN | POLLRDNORM),
        (Readiness::WRITABLE, POLLOUT | POLLWRNORM),
        (Readiness::READ_CLOSED, POLLRDHUP),
        (Readiness::HANG_UP, POLLHUP),
        (Readiness::ERROR, POLLERR),
    ];
    let raised = events.iter().filter(|(flag, _)| level.intersects(*flag));
    raised.fold(0, |all, (_, events)| all | events)
}

/// Returns the size of a buffer, `None` for `...`.
fn buffer_size(size: &Expression) -> Called<Option<usize>> {
    let size = match &size.kind {
        ExpressionKind::Array(list) => match list.as_slice() {
            [size] => size,
            _ => return error(size, "expected [SIZE]"),
        },
        _ => size,
    };
    if size.kind == ExpressionKind::Ellipsis {
        return Ok(None);
    }
    Ok(Some(number(size)?.clamp(0, MAX_BUFFER) as usize))
}

/// Returns the payload of a message: the text, or zeros.
pub(crate) fn payload(data: &Expression, len: &Expression) -> Called<Bytes> {
    let count = number(len)?;
    if !(0..=MAX_BUFFER).contains(&count) {
        return error(len, format!("a message has 0 to {MAX_BUFFER} bytes"));
    }
    let count = count as usize;
    match &data.kind {
        ExpressionKind::Ellipsis => Ok(vec![0; count].into()),
        ExpressionKind::Text(text) if text.len() >= count => {
            Ok(Bytes::copy_from_slice(&text[..count]))
        }
        ExpressionKind::Text(text) => error(
            len,
            format!("the text has {} bytes, less than {count}", text.len()),
        ),
        _ => error(data, "expected `...` or a text"),
    }
}

fn control_message(value: &Expression) -> Called<ControlMessage> {
    let (mut level, mut kind, mut data) = (i64::from(IPPROTO_SCTP), None, None);
    for (name, value) in fields(value)? {
        match name.as_str() {
            "cmsg_level" => level = number(value)?,
            "cmsg_type" => kind = Some(number(value)?),
            "cmsg_data" => data = Some(value),
            "cmsg_len" => {}
            _ => return error(value, format!("{name} is no field of cmsghdr")),
        }
    }
    let (Some(kind), Some(data)) = (kind, data) else {
        return error(value, "a control message needs cmsg_type and cmsg_data");
    };
    let bytes = if let Some(layout) = StructLayout::of_control(kind) {
        layout.encode(data)?
    } else {
        // SCTP_DSTADDRV4 and SCTP_DSTADDRV6 have an address without a port (RFC 6458, section 5.3.9).
        let ip = match fields(data)? {
            [(_, ip)] => ip_address(ip)?,
            _ => address(data)?.ip(),
        };
        match ip {
            std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
            std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
        }
    };
    Ok(ControlMessage {
        level: level as i32,
        kind: kind as i32,
        data: bytes,
    })
}

fn encode_option((level, name): (i64, i64), value: &Expression) -> Called<Vec<u8>> {
    match &value.kind {
        ExpressionKind::Array(list) => {
            let mut bytes = Vec::new();
            for value in list {
                let value = match value.kind {
                    ExpressionKind::Ellipsis => 0,
                    _ => number(value)?,
                };
                bytes.extend((value as i32).to_ne_bytes());
            }
            Ok(bytes)
        }
        ExpressionKind::Struct(_) => match StructLayout::of_option(level, name) {
            Some(layout) => layout.encode(value),
            None => error(value, "the option has no struct: expected [NUMBER]"),
        },
        ExpressionKind::Text(text) => Ok(text.clone()),
        ExpressionKind::Name(name) if name == "NULL" => Ok(Vec::new()),
        // A buffer of the size that the option has.
        ExpressionKind::Ellipsis => Ok(vec![
            0;
            StructLayout::of_option(level, name)
                .map_or(4, |layout| layout.size())
        ]),
        _ => error(value, "expected [NUMBER] or a struct {...}"),
    }
}

fn compare_option(
    (level, name): (i64, i64),
    value: &Expression,
    bytes: &[u8],
) -> Called<Option<Difference>> {
    match &value.kind {
        ExpressionKind::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                if value.kind == ExpressionKind::Ellipsis {
                    continue;
                }
                let part = bytes.get(4 * index..4 * index + 4);
                let part = part.and_then(|b| <[u8; 4]>::try_from(b).ok());
                let actual = part.map(|b| i64::from(i32::from_ne_bytes(b)));
                let expected = number(value)?;
                if actual != Some(expected) {
                    return Ok(Some(Difference {
                        field: "value".into(),
                        expected: expected.to_string(),
                        actual: actual.map_or("nothing".into(), |n| n.to_string()),
                    }));
                }
            }
            Ok(None)
        }
        ExpressionKind::Struct(_) => match StructLayout::of_option(level, name) {
            Some(layout) => Ok(layout.compare(value, bytes)?.map(struct_difference)),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

pub(crate) fn struct_difference((field, expected, actual): (String, String, String)) -> Difference {
    Difference {
        field,
        expected,
        actual,
    }
}

/// Compares what was read with the text or the notification of a script.
pub(crate) fn received_data(
    received: Option<Result<Received, Errno>>,
    expected: &Expression,
) -> Called<CallOutcome> {
    let received = match received {
        None => return Ok(CallOutcome::Blocks),
        Some(Err(error)) => return done(Err(error)),
        Some(Ok(received)) => received,
    };
    let data = &received.data;
    let difference = match &expected.kind {
        ExpressionKind::Text(text) if text.as_slice() != data.as_ref() => Some(Difference {
            field: "data".into(),
            expected: format!("{:?}", String::from_utf8_lossy(text)),
            actual: format!("{:?}", String::from_utf8_lossy(data)),
        }),
        ExpressionKind::Struct(fields) => {
            // The two notifications of unsent messages have the same first fields on Linux.
            let mut names = fields.iter().map(|(name, _)| name.as_str());
            let name = names.clone().find(|name| name.starts_with("ssfe_"));
            let layout = name
                .or_else(|| names.next())
                .and_then(StructLayout::with_field);
            let Some(layout) = layout else {
                return error(expected, "no notification has such a field");
            };
            layout.compare(expected, data)?.map(struct_difference)
        }
        _ => None,
    };
    Ok(CallOutcome::Done(Ok(data.len() as i64), difference))
}

pub(crate) fn compare_address_of(
    expected: &Expression,
    received: &Received,
) -> Called<Option<Difference>> {
    if expected.kind == ExpressionKind::Ellipsis {
        return Ok(None);
    }
    let expected = address(expected)?;
    Ok((received.address != Some(expected)).then(|| Difference {
        field: "address".into(),
        expected: expected.to_string(),
        actual: received.address.map_or("none".into(), |a| a.to_string()),
    }))
}

fn compare_address(
    expected: &Expression,
    received: &Result<Received, Errno>,
) -> Called<Option<Difference>> {
    match received {
        Ok(received) => compare_address_of(expected, received),
        Err(_) => Ok(None),
    }
}

pub(crate) fn compare_flags(
    expected: &Expression,
    received: &Received,
) -> Called<Option<Difference>> {
    let expected = match &expected.kind {
        ExpressionKind::Ellipsis => return Ok(None),
        ExpressionKind::Array(list) => match list.as_slice() {
            [flags] => number(flags)?,
            _ => return error(expected, "expected [FLAGS]"),
        },
        _ => number(expected)?,
    };
    let actual = i64::from(received.flags);
    Ok((expected != actual).then(|| Difference {
        field: "flags".into(),
        expected: format!("{expected:#x}"),
        actual: format!("{actual:#x}"),
    }))
}

/// Compares `struct sctp_sndrcvinfo` of `sctp_recvmsg`.
fn compare_info(expected: &Expression, received: &Received) -> Called<Option<Difference>> {
    if expected.kind == ExpressionKind::Ellipsis {
        return Ok(None);
    }
    let info = received.info.unwrap_or_default();
    let info = SndRcvInfo {
        stream: info.sid,
        ssn: info.ssn,
        flags: info.flags,
        ppid: info.ppid,
        context: info.context,
        time_to_live: 0,
        tsn: info.tsn,
        cum_tsn: info.cum_tsn,
        assoc_id: info.assoc_id,
    };
    let layout = StructLayout::of_control(SCTP_SNDRCV.into());
    let found = layout.map(|layout| layout.compare(expected, &info.encode()));
    Ok(found.transpose()?.flatten().map(struct_difference))
}

fn compare_control(expected: &Expression, received: &Received) -> Called<Option<Difference>> {
    if expected.kind == ExpressionKind::Ellipsis {
        return Ok(None);
    }
    let list = elements(expected)?;
    let mut actual = read_control(&received.control).unwrap_or_default();
    if list.len() != actual.len() {
        return Ok(Some(Difference {
            field: "number of control messages".into(),
            expected: list.len().to_string(),
            actual: actual.len().to_string(),
        }));
    }
    for value in list {
        let fields = fields(value)?;
        // The order of control messages has no meaning, and differs between systems.
        let kind = fields
            .iter()
            .find(|(name, value)| name == "cmsg_type" && value.kind != ExpressionKind::Ellipsis);
        let kind = kind.map(|(_, value)| number(value)).transpose()?;
        let is_kind = |message: &ControlMessage| kind == Some(message.kind.into());
        let actual = actual.remove(actual.iter().position(is_kind).unwrap_or(0));
        for (name, value) in fields {
            let number_of = |actual: i32| -> Called<Option<Difference>> {
                let expected = number(value)?;
                Ok((expected != i64::from(actual)).then(|| Difference {
                    field: name.clone(),
                    expected: expected.to_string(),
                    actual: actual.to_string(),
                }))
            };
            let found = match name.as_str() {
                _ if value.kind == ExpressionKind::Ellipsis => None,
                "cmsg_level" => number_of(actual.level)?,
                "cmsg_type" => number_of(actual.kind)?,
                "cmsg_data" => {
                    let kind = i64::from(actual.kind);
                    let layout = StructLayout::of_control(kind);
                    let layout = layout.or_else(|| StructLayout::of_control(SCTP_SNDINFO.into()));
                    let found = layout.map(|layout| layout.compare(value, &actual.data));
                    found.transpose()?.flatten().map(struct_difference)
                }
                _ => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}
