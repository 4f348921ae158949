//! Options of `SOL_SOCKET`, `IPPROTO_IP` and `IPPROTO_IPV6` (RFC 6458, section 8; sections 4.1.6 and 7.2 of Linux's
//! `socket(7)`).

use std::time::Duration;

use carrick_proto::ParameterChanges;

use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::SocketId;
use crate::linux::*;
use crate::settings::Timeout;
use crate::table::{Family, SocketState, Style};

use super::{everything, flag, read_int};

/// Smallest buffers of Linux in bytes.
const MIN_SEND_BUFFER: i32 = 4608;
const MIN_RECEIVE_BUFFER: i32 = 2304;
/// Largest buffer in bytes that the core accepts.
const MAX_BUFFER: i32 = 1 << 30;

impl Sockets {
    pub(super) fn set_socket_level(
        &mut self,
        id: SocketId,
        option: (i32, i32),
        value: &[u8],
    ) -> Result<(), Errno> {
        let socket = self.table.open_mut(id)?;
        let is_bound = socket.port.is_some();
        let options = &mut socket.options;
        match option {
            (SOL_SOCKET, SO_REUSEADDR) => options.reuse_address = flag(value)?,
            (SOL_SOCKET, SO_REUSEPORT) => options.reuse_port = flag(value)?,
            (SOL_SOCKET, SO_LINGER) => {
                let linger = Linger::read(value)?;
                let seconds = u32::try_from(linger.seconds).unwrap_or(i32::MAX as u32);
                options.linger = (linger.on != 0).then_some(seconds);
            }
            (SOL_SOCKET, SO_RCVTIMEO) => options.receive_timeout = timeout(value)?,
            (SOL_SOCKET, SO_SNDTIMEO) => options.send_timeout = timeout(value)?,
            (SOL_SOCKET, SO_SNDBUF) => {
                let size = buffer_size(read_int(value)?, MIN_SEND_BUFFER);
                return self.set_send_buffer(id, size);
            }
            (SOL_SOCKET, SO_RCVBUF) => {
                let size = buffer_size(read_int(value)?, MIN_RECEIVE_BUFFER);
                return self.change_future(id, |config| {
                    config.buffers.receive_buffer = size;
                    config.buffers.max_receive_buffer = None;
                });
            }
            (IPPROTO_IPV6, IPV6_V6ONLY) if socket.family == Family::Inet6 => {
                if is_bound {
                    return Err(Errno::EINVAL);
                }
                options.v6_only = flag(value)?;
            }
            (level, name) => {
                let value = reported_value(socket.family, option, value)?;
                let key = (level as u32, name as u32);
                self.table.open_mut(id)?.options.reported.insert(key, value);
                if [(IPPROTO_IP, IP_TOS), (IPPROTO_IPV6, IPV6_TCLASS)].contains(&option) {
                    let class = (level == IPPROTO_IP, value as u8);
                    return self.apply_traffic_class(id, class);
                }
            }
        }
        Ok(())
    }

    /// `SO_SNDBUF`, also of existing associations
    fn set_send_buffer(&mut self, id: SocketId, size: usize) -> Result<(), Errno> {
        let target = everything(self.table.open(id)?);
        let changes = ParameterChanges::new().send_buffer(size);
        self.change_parameters(id, &target, &changes)?;
        for association in self.table.open(id)?.full.clone() {
            let core = self.core_of(association);
            if core.is_some_and(|(core, core_id)| core.has_send_room(core_id)) {
                self.on_send_room(association);
            }
        }
        Ok(())
    }

    pub(super) fn get_socket_level(
        &mut self,
        id: SocketId,
        option: (i32, i32),
        buffer: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let socket = self.table.open_mut(id)?;
        let options = &socket.options;
        let value = match option {
            (SOL_SOCKET, SO_ERROR) => socket.take_error().map_or(0, Errno::number),
            (SOL_SOCKET, SO_TYPE) => match socket.style {
                Style::OneToOne => SOCK_STREAM,
                Style::OneToMany => SOCK_SEQPACKET,
            },
            (SOL_SOCKET, SO_DOMAIN) => match socket.family {
                Family::Inet => AF_INET,
                Family::Inet6 => AF_INET6,
            },
            (SOL_SOCKET, SO_PROTOCOL) => IPPROTO_SCTP,
            (SOL_SOCKET, SO_ACCEPTCONN) => i32::from(socket.state == SocketState::Listening),
            (SOL_SOCKET, SO_REUSEADDR) => options.reuse_address.into(),
            (SOL_SOCKET, SO_REUSEPORT) => options.reuse_port.into(),
            (SOL_SOCKET, SO_SNDBUF) => options.send_buffer() as i32,
            (SOL_SOCKET, SO_RCVBUF) => options.receive_buffer() as i32,
            (SOL_SOCKET, SO_LINGER) => {
                let linger = Linger {
                    on: options.linger.is_some().into(),
                    seconds: options.linger.unwrap_or(0) as i32,
                };
                return Ok(fitting(buffer, linger.encode()));
            }
            (SOL_SOCKET, SO_RCVTIMEO) => {
                return Ok(fitting(buffer, timeval(options.receive_timeout)));
            }
            (SOL_SOCKET, SO_SNDTIMEO) => {
                return Ok(fitting(buffer, timeval(options.send_timeout)));
            }
            (IPPROTO_IPV6, IPV6_V6ONLY) if socket.family == Family::Inet6 => options.v6_only.into(),
            (level, name) => {
                let default = reported_default(socket.family, option)?;
                let key = (level as u32, name as u32);
                options.reported.get(&key).copied().unwrap_or(default) as i32
            }
        };
        Ok(fitting(buffer, value.to_ne_bytes().to_vec()))
    }

    /// Returns the limits of a socket's blocking calls: `SO_RCVTIMEO` and `SO_SNDTIMEO`. The caller, who
    /// blocks, applies them.
    ///
    /// # Errors
    /// `EBADF`
    pub fn timeouts(&self, id: SocketId) -> Result<(Timeout, Timeout), Errno> {
        let options = &self.table.open(id)?.options;
        Ok((options.receive_timeout, options.send_timeout))
    }
}

/// Returns the default of `IP_TOS` and `IPV6_TCLASS`, or of an option that is accepted and reported without an
/// effect: heartbeats replace keepalive. No socket of SCTP has a position for `MSG_PEEK`.
fn reported_default(family: Family, option: (i32, i32)) -> Result<u32, Errno> {
    match option {
        (SOL_SOCKET, SO_RCVLOWAT) => Ok(1),
        (SOL_SOCKET, SO_KEEPALIVE | SO_BROADCAST | SO_OOBINLINE | SO_PRIORITY)
        | (IPPROTO_IP, IP_TOS) => Ok(0),
        (IPPROTO_IPV6, IPV6_TCLASS) if family == Family::Inet6 => Ok(0),
        (SOL_SOCKET, SO_PEEK_OFF) => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// Returns the value of such an option that is stored.
fn reported_value(family: Family, option: (i32, i32), value: &[u8]) -> Result<u32, Errno> {
    reported_default(family, option)?;
    if option == (IPPROTO_IP, IP_TOS) {
        // Linux allows a single byte.
        return value.first().map(|tos| (*tos).into()).ok_or(Errno::EINVAL);
    }
    let value = read_int(value)?;
    match option.1 {
        IPV6_TCLASS if !(-1..=255).contains(&value) => Err(Errno::EINVAL),
        IPV6_TCLASS => Ok(value.max(0) as u32),
        SO_PRIORITY => Ok(value as u32),
        SO_RCVLOWAT => Ok(u32::try_from(value).map_or(i32::MAX as u32, |bytes| bytes.max(1))),
        _ => Ok(u32::from(value != 0)),
    }
}

/// Returns the size of a buffer in bytes: twice the requested size, as in Linux.
fn buffer_size(asked: i32, min: i32) -> usize {
    let doubled = asked.clamp(0, MAX_BUFFER / 2) * 2;
    doubled.max(min) as usize
}

fn timeout(value: &[u8]) -> Result<Timeout, Errno> {
    let time = TimeValue::read(value)?;
    if !(0..1_000_000).contains(&time.microseconds) {
        return Err(Errno::EDOM);
    }
    let microseconds = time.microseconds as u32;
    // A negative time means not to wait, zero to wait without a limit.
    Ok(match u64::try_from(time.seconds) {
        Err(_) => Some(Duration::ZERO),
        Ok(0) if microseconds == 0 => None,
        Ok(seconds) => Some(Duration::new(seconds, microseconds * 1000)),
    })
}

fn timeval(timeout: Timeout) -> Vec<u8> {
    let timeout = timeout.unwrap_or_default();
    let value = TimeValue {
        seconds: timeout.as_secs() as i64,
        microseconds: timeout.subsec_micros().into(),
    };
    value.encode()
}

/// Returns as much of a value as a buffer holds, as Linux does on this level.
fn fitting(buffer: &[u8], mut value: Vec<u8>) -> Vec<u8> {
    value.truncate(buffer.len());
    value
}
