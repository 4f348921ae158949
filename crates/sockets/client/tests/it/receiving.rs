//! Received messages: parts of messages, ancillary data, and waiting.

use std::net::SocketAddr;
use std::ptr::null_mut;

use carrick_ipc::{
    Description, FrameKind, Header, MAX_PAYLOAD, MessageInfo, NO_SOURCE, Property, Request,
};
use carrick_sockets::ancillary::{ControlMessage, read_control};
use carrick_sockets::linux::{
    Layout, MSG_EOR, MSG_NOTIFICATION, NxtInfo, RcvInfo, SCTP_NXTINFO, SCTP_RCVINFO, SCTP_SNDRCV,
    SndRcvInfo, read_address,
};
use libc::{c_int, mmsghdr};

use crate::fake_daemon::{Answer, plain};
use crate::support::{TestSocket, call, message, parts, with};

/// Header of a message with attributes.
fn header(stream: u16) -> Header {
    let address: SocketAddr = "192.0.2.1:5000".parse().unwrap();
    Header {
        info: MessageInfo {
            stream,
            ssn: 7,
            ppid: 46,
            tsn: 1000,
            association: 3,
            ..MessageInfo::default()
        },
        address: Some(address),
        ..Header::new(FrameKind::Message)
    }
}

/// Result of `recvmsg`.
struct ReceivedMessage {
    bytes: Vec<u8>,
    flags: c_int,
    control: Vec<ControlMessage>,
    control_len: usize,
}

fn receive(
    socket: &TestSocket,
    size: usize,
    control: usize,
    flags: c_int,
) -> Result<ReceivedMessage, i32> {
    let (mut bytes, mut space) = (vec![0; size], vec![0_u64; control.div_ceil(8)]);
    let mut list = parts(&mut bytes, &[size]);
    let mut header = message(&mut list);
    header.msg_control = space.as_mut_ptr().cast();
    header.msg_controllen = control as _;
    let len = call!(carrick recvmsg(socket.fd(), &raw mut header, flags))?;
    let control_len = header.msg_controllen as usize;
    let written: Vec<u8> = space
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take(control_len)
        .collect();
    bytes.truncate(len as usize);
    Ok(ReceivedMessage {
        bytes,
        flags: header.msg_flags,
        control: read_control(&written).unwrap_or_default(),
        control_len,
    })
}

/// RFC 6458, section 3.1.4: `MSG_EOR` marks the end of a message.
#[test]
fn parts_of_a_message_are_received_in_order() {
    let socket = TestSocket::established(&[]);
    socket.deliver(&header(1), b"0123456789");
    socket.deliver(&header(2), b"next");
    for (expected, flags) in [
        (&b"0123"[..], 0),
        (b"4567", 0),
        (b"89", MSG_EOR),
        (b"next", MSG_EOR),
    ] {
        let received = receive(&socket, 4, 0, 0).unwrap();
        assert_eq!((&received.bytes[..], received.flags), (expected, flags));
    }
    assert_eq!(
        receive(&socket, 4, 0, libc::MSG_DONTWAIT).err(),
        Some(libc::EAGAIN)
    );
}

#[test]
fn a_message_of_several_frames_is_one() {
    let socket = TestSocket::established(&[]);
    let (start, end) = (vec![1; MAX_PAYLOAD], vec![2; 100]);
    let first = Header {
        is_end: false,
        has_rest: true,
        ..header(1)
    };
    socket.deliver(&first, &start);
    socket.deliver(&header(1), &end);
    let received = receive(&socket, 2 * MAX_PAYLOAD, 0, 0).unwrap();
    assert_eq!(received.bytes, [start, end].concat());
    assert_eq!(received.flags, MSG_EOR);
}

/// docs/sockets.md: a daemon that has restored a listening socket does not have the rest of a message.
#[test]
fn a_message_without_its_rest_ends_there() {
    let socket = TestSocket::established(&[]);
    let start = vec![1; MAX_PAYLOAD];
    let first = Header {
        is_end: false,
        has_rest: true,
        ..header(1)
    };
    socket.deliver(&first, &start);
    socket.restore();
    socket.deliver(&header(1), b"another one");
    let received = receive(&socket, 2 * MAX_PAYLOAD, 0, 0).unwrap();
    assert_eq!((received.bytes, received.flags), (start, 0));
    let received = receive(&socket, 2 * MAX_PAYLOAD, 0, 0).unwrap();
    assert_eq!(received.bytes, b"another one");
    assert_eq!(received.flags, MSG_EOR);
}

#[test]
fn peeked_messages_stay() {
    let socket = TestSocket::established(&[]);
    socket.deliver(&header(1), b"0123456789");
    for size in [4, 10, 100] {
        let received = receive(&socket, size, 0, libc::MSG_PEEK).unwrap();
        assert_eq!(received.bytes, b"0123456789"[..size.min(10)]);
    }
    assert_eq!(receive(&socket, 4, 0, 0).unwrap().bytes, b"0123");
    assert_eq!(
        receive(&socket, 100, 0, libc::MSG_PEEK).unwrap().bytes,
        b"456789"
    );
    let mut unread: c_int = 0;
    let asked = call!(carrick ioctl(socket.fd(), libc::FIONREAD, (&raw mut unread).cast()));
    assert_eq!((asked, unread), (Ok(0), 6));
    assert_eq!(receive(&socket, 100, 0, 0).unwrap().bytes, b"456789");
}

/// The kernel permits 1024 parts, of which the header of a frame takes none.
#[test]
fn a_message_fills_as_many_parts_as_permitted() {
    let socket = TestSocket::established(&[]);
    for len in [1, 1000, 1024, 1100] {
        let sent: Vec<u8> = (0..len).map(|at| at as u8).collect();
        socket.deliver(&header(1), &sent);
        let mut bytes = vec![0; 1024];
        let list = parts(&mut bytes, &[1; 1024]);
        let fitting = len.min(1024);
        let received = call!(carrick readv(socket.fd(), list.as_ptr(), 1024));
        assert_eq!(received, Ok(fitting as i64));
        assert_eq!(bytes[..fitting], sent[..fitting]);
    }
    assert_eq!(receive(&socket, 100, 0, 0).unwrap().bytes.len(), 76);
}

/// RFC 6458, sections 5.3.2 and 5.3.5.
#[test]
fn attributes_are_ancillary_data() {
    let socket = TestSocket::established(&[Property::RcvInfo, Property::SndRcv]);
    socket.deliver(&header(5), b"message");
    let received = receive(&socket, 100, 200, 0).unwrap();
    let kinds: Vec<c_int> = received.control.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [SCTP_RCVINFO, SCTP_SNDRCV]);
    let info = RcvInfo::decode(&received.control[0].data).unwrap();
    assert_eq!(
        (info.sid, info.ssn, info.ppid, info.tsn, info.assoc_id),
        (5, 7, 46, 1000, 3)
    );
    let info = SndRcvInfo::decode(&received.control[1].data).unwrap();
    assert_eq!(
        (info.stream, info.ssn, info.ppid, info.assoc_id),
        (5, 7, 46, 3)
    );
}

/// RFC 6458, section 5.3.6.
#[test]
fn the_next_message_is_described() {
    let socket = TestSocket::established(&[Property::NxtInfo, Property::RcvInfo]);
    socket.deliver(&header(1), b"first");
    socket.deliver(&header(9), b"second one");
    let received = receive(&socket, 100, 200, 0).unwrap();
    let next = NxtInfo::decode(&received.control[0].data).unwrap();
    assert_eq!(received.control[0].kind, SCTP_NXTINFO);
    assert_eq!((next.sid, next.length), (9, 10));
    let received = receive(&socket, 100, 200, 0).unwrap();
    assert_eq!(
        (&received.bytes[..], received.control.len()),
        (&b"second one"[..], 1)
    );
}

#[test]
fn ancillary_data_is_cut_to_its_space() {
    let socket = TestSocket::established(&[Property::RcvInfo, Property::SndRcv]);
    let whole = size_of::<libc::cmsghdr>() + RcvInfo::SIZE;
    for (space, expected) in [
        (0, 0),
        (8, 0),
        (20, 20),
        (whole, whole),
        (whole + 8, whole + 4),
    ] {
        socket.deliver(&header(5), b"message");
        let received = receive(&socket, 100, space, 0).unwrap();
        assert_eq!(received.bytes, b"message", "{space}");
        assert_eq!(received.flags, MSG_EOR | libc::MSG_CTRUNC, "{space}");
        assert_eq!(received.control_len, expected, "{space}");
    }
}

#[test]
fn notifications_are_marked() {
    let socket = TestSocket::established(&[Property::RcvInfo]);
    let notification = Header {
        is_notification: true,
        ..header(0)
    };
    socket.deliver(&notification, b"event");
    let received = receive(&socket, 100, 200, 0).unwrap();
    assert_eq!(received.flags, MSG_EOR | MSG_NOTIFICATION);
    assert!(received.control.is_empty());
}

#[test]
fn the_sender_is_named() {
    let socket = TestSocket::established(&[]);
    let (mut bytes, mut name) = ([0_u8; 16], [0xff_u8; 128]);
    for (space, written) in [(128, 16), (16, 16), (5, 5), (0, 0)] {
        socket.deliver(&header(1), b"message");
        name.fill(0xff);
        let mut len = space;
        let received = call!(carrick recvfrom(
            socket.fd(),
            bytes.as_mut_ptr().cast(),
            16,
            0,
            name.as_mut_ptr().cast(),
            &raw mut len
        ));
        assert_eq!((received, len), (Ok(7), 16), "{space}");
        assert!(name[written..].iter().all(|byte| *byte == 0xff), "{space}");
    }
    socket.deliver(&header(1), b"message");
    let mut len = 128;
    let (buffer, from) = (bytes.as_mut_ptr().cast(), name.as_mut_ptr().cast());
    let received = call!(carrick recvfrom(socket.fd(), buffer, 16, 0, from, &raw mut len));
    assert_eq!(received, Ok(7));
    let (address, _) = read_address(&name[..16]).unwrap();
    assert_eq!(address, "192.0.2.1:5000".parse().unwrap());
}

#[test]
fn several_messages_are_received_at_once() {
    let socket = TestSocket::established(&[]);
    for message in [&b"one"[..], b"three", b"seven"] {
        socket.deliver(&header(1), message);
    }
    let mut bytes = [0; 80];
    let mut lists: Vec<_> = parts(&mut bytes, &[4; 20])
        .chunks(1)
        .map(<[_]>::to_vec)
        .collect();
    let mut messages: Vec<mmsghdr> = lists
        .iter_mut()
        .map(|list| mmsghdr {
            msg_hdr: message(list),
            msg_len: 99,
        })
        .collect();
    let received = call!(carrick recvmmsg(socket.fd(), messages.as_mut_ptr(), 20, 0, null_mut()));
    assert_eq!(received, Ok(5));
    let lens: Vec<_> = messages.iter().map(|message| message.msg_len).collect();
    assert_eq!(lens[..7], [3, 4, 1, 4, 1, 99, 99]);
    let ends: Vec<_> = messages[..5]
        .iter()
        .map(|message| message.msg_hdr.msg_flags)
        .collect();
    assert_eq!(ends, [MSG_EOR, 0, MSG_EOR, 0, MSG_EOR]);
    let none = call!(carrick recvmmsg(socket.fd(), messages.as_mut_ptr(), 0, 0, null_mut()));
    assert_eq!(none, Ok(0));
}

#[test]
fn a_call_without_a_message_does_not_wait_if_asked() {
    let socket = TestSocket::established(&[]);
    let received = receive(&socket, 4, 0, libc::MSG_DONTWAIT);
    assert_eq!(received.err(), Some(libc::EAGAIN));
    assert_eq!(
        call!(carrick fcntl(socket.fd(), libc::F_SETFL, libc::O_NONBLOCK as u64)),
        Ok(0)
    );
    let mut bytes = [0; 4];
    assert_eq!(
        call!(carrick read(socket.fd(), bytes.as_mut_ptr().cast(), 4)),
        Err(libc::EAGAIN)
    );
    assert!(
        socket
            .requests
            .lock()
            .unwrap()
            .iter()
            .all(|request| request == "Describe")
    );
}

#[test]
fn a_call_waits_as_long_as_the_socket_permits() {
    let socket = TestSocket::established(&[]);
    let limit = libc::timeval {
        tv_sec: 0,
        tv_usec: 1000,
    };
    let (value, len) = ((&raw const limit).cast(), size_of::<libc::timeval>() as u32);
    let set =
        call!(carrick setsockopt(socket.fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, value, len));
    assert_eq!(set, Ok(0));
    assert_eq!(receive(&socket, 4, 0, 0).err(), Some(libc::EAGAIN));
}

#[test]
fn a_call_does_not_wait_for_a_socket_without_source() {
    let socket = TestSocket::answering(|request| match request {
        Request::Describe => Answer {
            value: vec![NO_SOURCE],
            ..Answer::default()
        },
        request => plain(Description::default(), request),
    });
    assert_eq!(receive(&socket, 4, 0, 0).err(), Some(libc::ENOTCONN));
}

#[test]
fn associations_are_not_read_as_messages() {
    let listening = with(Description::default(), &[Property::Listening]);
    let socket = TestSocket::answering(move |request| plain(listening, request));
    assert_eq!(receive(&socket, 4, 0, 0).err(), Some(libc::ENOTCONN));
    let mut unread = 0;
    let asked = call!(carrick ioctl(socket.fd(), libc::FIONREAD, (&raw mut unread).cast()));
    assert_eq!(asked, Err(libc::ENOTCONN));
}

#[test]
fn a_pending_error_is_that_of_the_call() {
    let established = with(Description::new(1, 100), &[Property::Established]);
    let socket = TestSocket::answering(move |request| match request {
        Request::GetOption { .. } => Answer {
            value: libc::ECONNRESET.to_ne_bytes().to_vec(),
            description: established,
            ..Answer::default()
        },
        request => plain(established, request),
    });
    socket.deliver(&Header::new(FrameKind::Failed), &[]);
    assert_eq!(receive(&socket, 4, 0, 0).err(), Some(libc::ECONNRESET));
}

/// RFC 6458, section 3.1.4: the end of an association is a read of 0 bytes.
#[test]
fn the_end_of_messages_is_remembered() {
    let mut requests = 0;
    let socket = TestSocket::answering(move |request| {
        requests += 1;
        // Only the first reads ask the daemon.
        assert!(requests < 4, "{request:?}");
        plain(Description::default(), request)
    });
    let daemon = rustix::io::dup(&socket.daemon).unwrap();
    socket.deliver_message(b"last");
    assert_eq!(receive(&socket, 9, 0, 0).unwrap().bytes, b"last");
    drop(daemon);
    let requests = socket.requests.clone();
    let fd = socket.end();
    let mut bytes = [0_u8; 4];
    for _ in 0..9 {
        let number = std::os::fd::AsRawFd::as_raw_fd(&fd);
        assert_eq!(
            call!(carrick read(number, bytes.as_mut_ptr().cast(), 4)),
            Ok(0)
        );
    }
    assert!(requests.lock().unwrap().len() < 4);
}

#[test]
fn frames_that_are_invalid_end_the_call() {
    let socket = TestSocket::established(&[]);
    for frame in [&[0; 100][..], b"short"] {
        let sent = rustix::net::send(&socket.daemon, frame, rustix::net::SendFlags::NOSIGNAL);
        assert_eq!(sent, Ok(frame.len()));
        let received = receive(&socket, MAX_PAYLOAD, 0, 0);
        assert_eq!(received.err(), Some(libc::ECONNABORTED), "{frame:?}");
    }
}
