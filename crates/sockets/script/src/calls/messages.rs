//! Calls that send and receive messages.

use std::net::SocketAddr;

use bytes::Bytes;
use carrick_sockets::ancillary::{ControlMessage, read_control, write_control};
use carrick_sockets::linux::{
    IPPROTO_SCTP, Layout, MSG_DONTWAIT, SCTP_SNDINFO, SCTP_SNDRCV, SndRcvInfo,
};
use carrick_sockets::{Errno, OutgoingMessage, Received};

use super::{
    CONTROL_SIZE, CallOutcome, Called, MAX_BUFFER, compare_address_of, done, elements, error,
    fields, io_vector, struct_difference, with,
};
use crate::compare::Difference;
use crate::model::{Expression, ExpressionKind};
use crate::run::{Descriptor, Runner};
use crate::structs::{StructLayout, address, ip_address, number};

impl Runner<'_> {
    pub(super) fn send(
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
            Err(Errno::EAGAIN) if !never_waits => Ok(CallOutcome::WAITS),
            result => done(result.map(|len| len as i64)),
        }
    }

    pub(super) fn never_waits(descriptor: Descriptor, flags: Option<&Expression>) -> Called<bool> {
        let flags = flags.map(number).transpose()?.unwrap_or_default();
        Ok(descriptor.is_non_blocking || flags & i64::from(MSG_DONTWAIT) != 0)
    }

    pub(super) fn sendmsg(
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
            Err(Errno::EAGAIN) if !never_waits => Ok(CallOutcome::WAITS),
            result => done(result.map(|len| len as i64)),
        }
    }

    pub(super) fn sctp_sendmsg(
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
    pub(super) fn receive(
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

    pub(super) fn recvmsg(
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

/// Returns the payload of a message: the text, or zeros.
pub(super) fn payload(data: &Expression, len: &Expression) -> Called<Bytes> {
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

/// Compares what was read with the text or the notification of a script.
pub(super) fn received_data(
    received: Option<Result<Received, Errno>>,
    expected: &Expression,
) -> Called<CallOutcome> {
    let received = match received {
        None => return Ok(CallOutcome::WAITS),
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

pub(super) fn compare_flags(
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
pub(super) fn compare_info(
    expected: &Expression,
    received: &Received,
) -> Called<Option<Difference>> {
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
