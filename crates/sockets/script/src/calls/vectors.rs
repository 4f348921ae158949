//! Calls with I/O vectors: `writev`, `readv`, and `sctp_sendv`, `sctp_recvv` and `sctp_sendx` of RFC 6458, section 9.

use bytes::Bytes;
use carrick_sockets::ancillary::{ControlMessage, read_control, write_control};
use carrick_sockets::linux::{
    SCTP_AUTHINFO, SCTP_DSTADDRV4, SCTP_DSTADDRV6, SCTP_NXTINFO, SCTP_PRINFO, SCTP_RCVINFO,
    SCTP_SNDINFO, SCTP_SNDRCV,
};
use carrick_sockets::{Errno, OutgoingMessage, Received};

use super::messages::{compare_flags, payload, received_data};
use super::{
    CallOutcome, Called, MAX_BUFFER, compare_address_of, done, elements, error, fields, first,
    io_vector, struct_difference, with,
};
use crate::compare::Difference;
use crate::constants::constant;
use crate::model::{Call, Expression, ExpressionKind};
use crate::run::Runner;
use crate::structs::{StructLayout, number};

/// Arguments of `sctp_sendv` behind the descriptor, without lengths.
struct SendVector<'c> {
    data: Bytes,
    addresses: &'c Expression,
    address_count: &'c Expression,
    info: &'c Expression,
    info_type: &'c Expression,
    flags: &'c Expression,
}

/// Arguments of `sctp_recvv` behind the buffer that return something.
struct ReceiveVector<'c> {
    from: &'c Expression,
    info: &'c Expression,
    info_type: &'c Expression,
    flags: &'c Expression,
}

impl Runner<'_> {
    /// Performs a call of this module; `None` for any other.
    pub(crate) fn vector_call(&mut self, call: &Call) -> Option<Called<CallOutcome>> {
        Some(match (call.name.as_str(), call.arguments.as_slice()) {
            ("writev", [fd, vector, _]) => self.writev(fd, vector),
            ("readv", [fd, vector, _]) => self.readv(fd, vector),
            ("sctp_sendx", [fd, data, len, addresses, count, info, flags]) => {
                self.sendx(fd, (data, len), (addresses, count), info, flags)
            }
            (
                "sctp_sendv",
                [
                    fd,
                    vector,
                    _,
                    addresses,
                    address_count,
                    info,
                    _,
                    info_type,
                    flags,
                ],
            ) => gathered(vector).and_then(|data| {
                let vector = SendVector {
                    data,
                    addresses,
                    address_count,
                    info,
                    info_type,
                    flags,
                };
                self.sendv(fd, &vector)
            }),
            ("sctp_recvv", [fd, vector, _, from, _, info, _, info_type, flags]) => {
                let returned = ReceiveVector {
                    from,
                    info,
                    info_type,
                    flags,
                };
                self.recvv(fd, vector, &returned)
            }
            _ => return None,
        })
    }

    fn writev(&mut self, fd: &Expression, vector: &Expression) -> Called<CallOutcome> {
        let data = gathered(vector)?;
        self.send_control(fd, data, (None, &[]), None)
    }

    fn readv(&mut self, fd: &Expression, vector: &Expression) -> Called<CallOutcome> {
        let (base, len) = scattered(vector)?;
        let received = self.receive(fd, len, None)?;
        received_data(received, base)
    }

    fn sendx(
        &mut self,
        fd: &Expression,
        (data, len): (&Expression, &Expression),
        (addresses, count): (&Expression, &Expression),
        info: &Expression,
        flags: &Expression,
    ) -> Called<CallOutcome> {
        let layout = StructLayout::of_control(SCTP_SNDRCV.into());
        let info = match (&info.kind, layout) {
            (ExpressionKind::Struct(_), Some(layout)) => Some(layout.encode(info)?),
            _ => None,
        };
        let info = info.map(|info| ControlMessage::sctp(SCTP_SNDRCV, info));
        let mut control: Vec<ControlMessage> = info.into_iter().collect();
        let peer = self.peers(addresses, count, &mut control)?;
        let data = payload(data, len)?;
        self.send_control(fd, data, (peer, &control), Some(flags))
    }

    /// Returns the first address of a list; further ones are ancillary data.
    fn peers(
        &self,
        addresses: &Expression,
        count: &Expression,
        control: &mut Vec<ControlMessage>,
    ) -> Called<Option<std::net::SocketAddr>> {
        if is_null(addresses) || number(count)? == 0 {
            return Ok(None);
        }
        let mut addresses = self.addresses(addresses)?.into_iter();
        let first = addresses.next();
        for further in addresses {
            control.push(match further.ip() {
                std::net::IpAddr::V4(ip) => {
                    ControlMessage::sctp(SCTP_DSTADDRV4, ip.octets().to_vec())
                }
                std::net::IpAddr::V6(ip) => {
                    ControlMessage::sctp(SCTP_DSTADDRV6, ip.octets().to_vec())
                }
            });
        }
        Ok(first)
    }

    fn sendv(&mut self, fd: &Expression, vector: &SendVector<'_>) -> Called<CallOutcome> {
        let mut control = Vec::new();
        let kind = number(vector.info_type)?;
        let is_kind = |name| constant(name) == Some(kind);
        let info = vector.info;
        if is_null(info) || is_kind("SCTP_SENDV_NOINFO") {
            // No attributes.
        } else if is_kind("SCTP_SENDV_SPA") {
            for (name, value) in fields(info)? {
                match name.as_str() {
                    _ if value.kind == ExpressionKind::Ellipsis => {}
                    "sendv_sndinfo" => control.push(encoded(SCTP_SNDINFO, value)?),
                    "sendv_prinfo" => control.push(encoded(SCTP_PRINFO, value)?),
                    "sendv_authinfo" => control.push(encoded(SCTP_AUTHINFO, value)?),
                    "sendv_flags" => {}
                    _ => return error(value, format!("{name} is no field of sctp_sendv_spa")),
                }
            }
            let flags = fields(info)?.iter().find(|(name, _)| name == "sendv_flags");
            let flags = flags.map_or(Ok(i64::MAX), |(_, value)| number(value))?;
            let is_valid = |message: &ControlMessage| match message.kind {
                SCTP_SNDINFO => flags & 1 != 0,
                SCTP_PRINFO => flags & 2 != 0,
                _ => flags & 4 != 0,
            };
            control.retain(is_valid);
        } else if is_kind("SCTP_SENDV_SNDINFO") {
            control.push(encoded(SCTP_SNDINFO, info)?);
        } else if is_kind("SCTP_SENDV_PRINFO") {
            control.push(encoded(SCTP_PRINFO, info)?);
        } else if is_kind("SCTP_SENDV_AUTHINFO") {
            control.push(encoded(SCTP_AUTHINFO, info)?);
        } else {
            return done(Err(Errno::EINVAL));
        }
        let peer = self.peers(vector.addresses, vector.address_count, &mut control)?;
        let data = vector.data.clone();
        self.send_control(fd, data, (peer, &control), Some(vector.flags))
    }

    fn send_control(
        &mut self,
        fd: &Expression,
        data: Bytes,
        (address, control): (Option<std::net::SocketAddr>, &[ControlMessage]),
        flags: Option<&Expression>,
    ) -> Called<CallOutcome> {
        let descriptor = self.descriptor(fd)?;
        let (control, _) = write_control(control, usize::MAX);
        let message = OutgoingMessage {
            address,
            data,
            control: &control,
        };
        let never_waits = Self::never_waits(descriptor, flags)?;
        match self.sockets.sendmsg(self.now, descriptor.socket, &message) {
            Err(Errno::EAGAIN) if !never_waits => Ok(CallOutcome::WAITS),
            result => done(result.map(|len| len as i64)),
        }
    }

    fn recvv(
        &mut self,
        fd: &Expression,
        vector: &Expression,
        returned: &ReceiveVector<'_>,
    ) -> Called<CallOutcome> {
        let (base, len) = scattered(vector)?;
        let received = self.receive(fd, len, None)?;
        let difference = match &received {
            Some(Ok(received)) => first([
                compare_address_of(returned.from, received)?,
                compare_received_info(returned, received)?,
                compare_flags(returned.flags, received)?,
            ]),
            _ => None,
        };
        Ok(with(received_data(received, base)?, difference))
    }
}

fn is_null(value: &Expression) -> bool {
    matches!(&value.kind, ExpressionKind::Name(name) if name == "NULL")
}

/// Encodes the struct of ancillary data.
fn encoded(kind: i32, value: &Expression) -> Called<ControlMessage> {
    let layout = StructLayout::of_control(kind.into());
    let data = layout.map(|layout| layout.encode(value)).transpose()?;
    Ok(ControlMessage::sctp(kind, data.unwrap_or_default()))
}

/// Returns the data of an I/O vector.
fn gathered(vector: &Expression) -> Called<Bytes> {
    let mut data = Vec::new();
    for part in elements(vector)? {
        let (base, len) = io_vector(part)?;
        data.extend(payload(base, len)?);
        if data.len() as i64 > MAX_BUFFER {
            return error(part, format!("a message has 0 to {MAX_BUFFER} bytes"));
        }
    }
    Ok(data.into())
}

/// Returns the first buffer of an I/O vector, and the size of all.
fn scattered(vector: &Expression) -> Called<(&Expression, i64)> {
    let mut size = 0_i64;
    for part in elements(vector)? {
        let (_, len) = io_vector(part)?;
        size = size.saturating_add(number(len)?.clamp(0, MAX_BUFFER));
    }
    match elements(vector)? {
        [only] => Ok((io_vector(only)?.0, size)),
        _ => Ok((vector, size)),
    }
}

/// Compares attributes of a message, and which of them there are.
fn compare_received_info(
    returned: &ReceiveVector<'_>,
    received: &Received,
) -> Called<Option<Difference>> {
    let control = read_control(&received.control).unwrap_or_default();
    let data = |kind| {
        let mut messages = control.iter();
        messages.find(|m| m.kind == kind).map(|m| m.data.as_slice())
    };
    let (info, next) = (data(SCTP_RCVINFO), data(SCTP_NXTINFO));
    let actual = match (info.is_some(), next.is_some()) {
        (false, false) => "SCTP_RECVV_NOINFO",
        (true, false) => "SCTP_RECVV_RCVINFO",
        (false, true) => "SCTP_RECVV_NXTINFO",
        (true, true) => "SCTP_RECVV_RN",
    };
    let expected = match &returned.info_type.kind {
        ExpressionKind::Array(list) => match list.as_slice() {
            [kind] => kind,
            _ => return error(returned.info_type, "expected [TYPE]"),
        },
        _ => returned.info_type,
    };
    if expected.kind != ExpressionKind::Ellipsis && constant(actual) != Some(number(expected)?) {
        let expected = match &expected.kind {
            ExpressionKind::Name(name) => name.clone(),
            _ => number(expected)?.to_string(),
        };
        return Ok(Some(Difference::new(
            "type of the attributes",
            expected,
            actual,
        )));
    }
    let ExpressionKind::Struct(list) = &returned.info.kind else {
        return Ok(None);
    };
    let nested = |name| list.iter().find(|(n, _)| n == name).map(|(_, value)| value);
    let is_next = list.iter().any(|(name, _)| name.starts_with("nxt_"));
    let parts = [
        (nested("recvv_rcvinfo"), SCTP_RCVINFO, info),
        (nested("recvv_nxtinfo"), SCTP_NXTINFO, next),
        (
            list.iter()
                .any(|(name, _)| name.starts_with("rcv_"))
                .then_some(returned.info),
            SCTP_RCVINFO,
            info,
        ),
        (is_next.then_some(returned.info), SCTP_NXTINFO, next),
    ];
    for (expected, kind, actual) in parts {
        let Some(expected) = expected else {
            continue;
        };
        let layout = StructLayout::of_control(kind.into());
        let found = layout.map(|layout| layout.compare(expected, actual.unwrap_or_default()));
        if let Some(found) = found.transpose()?.flatten() {
            return Ok(Some(struct_difference(found)));
        }
    }
    Ok(None)
}
