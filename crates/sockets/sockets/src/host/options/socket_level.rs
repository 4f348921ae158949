//! Options of `SOL_SOCKET`, `IPPROTO_IP` and `IPPROTO_IPV6` (RFC 6458, section 8; sections 4.1.6 and 7.2 of Linux's
//! `socket(7)`).

use std::time::Duration;

use carrick_proto::{AssociationConfig, ParameterChanges};

use super::scope::{OptionScope, OptionView, ScopeRule, change_parameters, scope};
use super::table::{self, AtLeast, Get, IntoBytes, Raw, Set, SetValue, options};
use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::associations::association_mut;
use crate::host::events::on_send_room;
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::settings::Timeout;
use crate::table::{Family, Socket, Style};

/// Smallest buffers of Linux in bytes.
const MIN_SEND_BUFFER: i32 = 4608;
const MIN_RECEIVE_BUFFER: i32 = 2304;
/// Largest buffer in bytes that the core accepts.
const MAX_BUFFER: i32 = 1 << 30;
/// Keys of the reported values of `IP_TOS` and `IPV6_TCLASS`.
const TOS: (u32, u32) = (IPPROTO_IP as u32, IP_TOS as u32);
const TCLASS: (u32, u32) = (IPPROTO_IPV6 as u32, IPV6_TCLASS as u32);

options! {
    [SOL_SOCKET]
    SO_REUSEADDR, NONE, bool, [options |o, on| o.reuse_address = on], [cut |s| i32::from(s.options().reuse_address)];
    SO_REUSEPORT, NONE, bool, [options |o, on| o.reuse_port = on], [cut |s| i32::from(s.options().reuse_port)];
    SO_LINGER, NONE, AtLeast<Linger>, [options |o, time| o.linger = seconds(time)], [cut linger];
    SO_RCVTIMEO, NONE, Timeout, [options |o, limit| o.receive_timeout = limit], [cut |s| s.options().receive_timeout];
    SO_SNDTIMEO, NONE, Timeout, [options |o, limit| o.send_timeout = limit], [cut |s| s.options().send_timeout];
    SO_SNDBUF, NONE, i32, [operation set_send_buffer], [cut |s| s.options().send_buffer() as i32];
    SO_RCVBUF, NONE, i32, [future set_receive_buffer], [cut |s| s.options().receive_buffer() as i32];
    SO_ERROR, NONE, _, [none], [operation take_error];
    SO_TYPE, NONE, _, [none], [cut socket_type];
    SO_DOMAIN, NONE, _, [none], [cut domain];
    SO_PROTOCOL, NONE, _, [none], [cut |_| IPPROTO_SCTP];
    SO_ACCEPTCONN, NONE, _, [none], [cut |s| i32::from(s.is_listening())];
    // Without an effect: heartbeats replace keepalive. No socket of SCTP has a position for MSG_PEEK.
    SO_KEEPALIVE, NONE, i32, [reported |on| (on != 0).into()], [reported 0];
    SO_BROADCAST, NONE, i32, [reported |on| (on != 0).into()], [reported 0];
    SO_OOBINLINE, NONE, i32, [reported |on| (on != 0).into()], [reported 0];
    SO_PRIORITY, NONE, i32, [reported |priority| priority as u32], [reported 0];
    SO_RCVLOWAT, NONE, i32, [reported low_water_mark], [reported 1];
    SO_PEEK_OFF, NONE, _, [refused EOPNOTSUPP], [refused EOPNOTSUPP];
    [IPPROTO_IP]
    IP_TOS, NONE, Raw, [operation set_tos], [reported 0];
    [IPPROTO_IPV6]
    IPV6_TCLASS, NONE, Raw, [operation set_traffic_class], [bytes traffic_class];
    IPV6_V6ONLY, NONE, Raw, [socket set_v6_only], [bytes v6_only];
}

/// `struct timeval`. A negative time means not to wait, zero to wait without a limit.
impl SetValue for Timeout {
    type Value<'a> = Self;

    fn parse(value: &[u8]) -> Result<Self, Errno> {
        let time = TimeValue::read(value)?;
        if !(0..1_000_000).contains(&time.microseconds) {
            return Err(Errno::EDOM);
        }
        let microseconds = time.microseconds as u32;
        Ok(match u64::try_from(time.seconds) {
            Err(_) => Some(Duration::ZERO),
            Ok(0) if microseconds == 0 => None,
            Ok(seconds) => Some(Duration::new(seconds, microseconds * 1000)),
        })
    }
}

impl IntoBytes for Timeout {
    fn into_bytes(self) -> Vec<u8> {
        let timeout = self.unwrap_or_default();
        let value = TimeValue {
            seconds: timeout.as_secs() as i64,
            microseconds: timeout.subsec_micros().into(),
        };
        value.encode()
    }
}

impl Sockets {
    /// Returns the limits of a socket's blocking calls: `SO_RCVTIMEO` and `SO_SNDTIMEO`. The caller, who
    /// blocks, applies them.
    ///
    /// # Errors
    /// `EBADF`
    pub fn timeouts(&self, id: SocketId) -> Result<(Timeout, Timeout), Errno> {
        let options = self.table.open(id)?.options();
        Ok((options.receive_timeout, options.send_timeout))
    }
}

fn seconds(linger: Linger) -> Option<u32> {
    let seconds = u32::try_from(linger.seconds).unwrap_or(i32::MAX as u32);
    (linger.on != 0).then_some(seconds)
}

fn linger(socket: &Socket) -> Linger {
    let linger = socket.options().linger;
    Linger {
        on: linger.is_some().into(),
        seconds: linger.unwrap_or(0) as i32,
    }
}

/// `SO_SNDBUF`, also of existing associations
fn set_send_buffer(host: &mut Sockets, id: SocketId, asked: i32) -> Result<(), Errno> {
    let scope = scope(host, id, ScopeRule::Everything, 0)?;
    let changes = ParameterChanges::new().send_buffer(buffer_size(asked, MIN_SEND_BUFFER));
    change_parameters(host, id, &scope, &changes)?;
    for association in host.table.open(id)?.full().clone() {
        let found = association_mut(host, association);
        if found.is_some_and(|a| a.core.has_send_room(a.core_id)) {
            on_send_room(host, association);
        }
    }
    Ok(())
}

fn set_receive_buffer(
    _: &OptionView<'_>,
    config: &mut AssociationConfig,
    asked: i32,
) -> Result<(), Errno> {
    config.buffers.receive_buffer = buffer_size(asked, MIN_RECEIVE_BUFFER);
    config.buffers.max_receive_buffer = None;
    Ok(())
}

/// Returns the size of a buffer in bytes: twice the requested size, as in Linux.
fn buffer_size(asked: i32, min: i32) -> usize {
    let doubled = asked.clamp(0, MAX_BUFFER / 2) * 2;
    doubled.max(min) as usize
}

fn take_error(host: &mut Sockets, id: SocketId, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    let error = host.table.open_mut(id)?.take_error();
    Ok(table::cut(buffer, error.map_or(0, Errno::number)))
}

fn socket_type(socket: &Socket) -> i32 {
    match socket.style() {
        Style::OneToOne => SOCK_STREAM,
        Style::OneToMany => SOCK_SEQPACKET,
    }
}

fn domain(socket: &Socket) -> i32 {
    match socket.family() {
        Family::Inet => AF_INET,
        Family::Inet6 => AF_INET6,
    }
}

fn low_water_mark(bytes: i32) -> u32 {
    u32::try_from(bytes).map_or(i32::MAX as u32, |bytes| bytes.max(1))
}

/// Refuses an option of IPv6 on a socket of another family.
fn check_inet6(socket: &Socket) -> Result<(), Errno> {
    let is_inet6 = socket.family() == Family::Inet6;
    is_inet6.then_some(()).ok_or(Errno::ENOPROTOOPT)
}

fn set_v6_only(socket: &mut Socket, value: &[u8]) -> Result<(), Errno> {
    check_inet6(socket)?;
    if socket.port().is_some() {
        return Err(Errno::EINVAL);
    }
    socket.options_mut().v6_only = bool::parse(value)?;
    Ok(())
}

fn v6_only(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    check_inet6(view.socket)?;
    Ok(table::cut(buffer, i32::from(view.socket.options().v6_only)))
}

/// `IP_TOS`, for which Linux allows a single byte
fn set_tos(host: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let tos = *value.first().ok_or(Errno::EINVAL)?;
    let socket = host.table.open_mut(id)?;
    socket.options_mut().reported.insert(TOS, tos.into());
    let mut changes = ParameterChanges::new();
    changes.dscp_v4 = Some(tos >> 2);
    apply_traffic_class(host, id, &changes)
}

/// `IPV6_TCLASS`
fn set_traffic_class(host: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let socket = host.table.open_mut(id)?;
    check_inet6(socket)?;
    let class = i32::parse(value)?;
    if !(-1..=255).contains(&class) {
        return Err(Errno::EINVAL);
    }
    let class = class.max(0) as u8;
    socket.options_mut().reported.insert(TCLASS, class.into());
    let mut changes = ParameterChanges::new();
    changes.dscp_v6 = Some(class >> 2);
    apply_traffic_class(host, id, &changes)
}

fn traffic_class(view: &OptionView<'_>, buffer: &[u8]) -> Result<Vec<u8>, Errno> {
    check_inet6(view.socket)?;
    let class = view.socket.options().reported.get(&TCLASS).copied();
    Ok(table::cut(buffer, class.unwrap_or(0) as i32))
}

/// Applies `IP_TOS` or `IPV6_TCLASS` to the packets of a socket, but not to those with a DSCP of
/// `SCTP_PEER_ADDR_PARAMS`, as Linux does.
fn apply_traffic_class(
    host: &mut Sockets,
    id: SocketId,
    changes: &ParameterChanges,
) -> Result<(), Errno> {
    let socket = host.table.open(id)?;
    let without_own = |id: &AssocId| {
        let association = host.associations.get(*id);
        association.is_some_and(|a| a.dscp.is_none())
    };
    let all = socket.associations().iter().copied();
    let scope = OptionScope {
        future: socket.options().dscp.is_none(),
        associations: all.filter(without_own).collect(),
    };
    change_parameters(host, id, &scope, changes)?;
    for id in scope.associations {
        let Some(a) = association_mut(host, id) else {
            continue;
        };
        let Some(mut core) = a.core.association_mut(a.now, a.core_id) else {
            continue;
        };
        for (path, dscp) in &a.own.path_dscps {
            // The path may not exist any more.
            let _ = core.set_dscp(*path, dscp >> 2);
        }
    }
    Ok(())
}
