//! Calls of the sockets API.

mod messages;
mod options;
mod vectors;

use std::net::SocketAddr;
use std::time::Duration;

use carrick_sockets::ancillary::ControlMessage;
use carrick_sockets::linux::{SCTP_BINDX_ADD_ADDR, SCTP_SNDRCV, SO_ERROR, SOL_SOCKET};
use carrick_sockets::{Errno, Readiness, Received, SocketId, Style};

use messages::{compare_flags, compare_info, received_data};

use crate::compare::Difference;
use crate::constants::error_number;
use crate::model::{Call, CallResult, Expression, ExpressionKind, Position};
use crate::run::{CallAttempt, Descriptor, Runner};
use crate::structs::{CallError, StructLayout, address, number};

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
    /// The call waits, at most this long.
    Blocks { timeout: Option<Duration> },
}

impl CallOutcome {
    /// The call waits without a timeout.
    pub(crate) const WAITS: Self = Self::Blocks { timeout: None };
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
        let style = Style::from_numbers(domain, number(kind)? as i32, number(protocol)? as i32);
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
            Err(Errno::EAGAIN) if !descriptor.is_non_blocking => Ok(CallOutcome::WAITS),
            accepted => self.opened(call, accepted.map(|(socket, _)| socket)),
        }
    }

    fn connect(&mut self, fd: &Expression, peers: &[SocketAddr]) -> Called<CallOutcome> {
        let descriptor = self.descriptor(fd)?;
        let socket = descriptor.socket;
        // A call that waits has begun the set-up before.
        if self.attempt == CallAttempt::First {
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
            return Ok(CallOutcome::WAITS);
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
        let timeout = number(timeout)?;
        if ready == 0 && timeout != 0 && self.attempt != CallAttempt::Last {
            let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
            return Ok(CallOutcome::Blocks { timeout });
        }
        Ok(CallOutcome::Done(Ok(ready), difference))
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
        blocks @ CallOutcome::Blocks { .. } => blocks,
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

pub(crate) fn struct_difference((field, expected, actual): (String, String, String)) -> Difference {
    Difference {
        field,
        expected,
        actual,
    }
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
