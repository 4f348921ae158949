//! Sent messages: frames, requests, ancillary data and errors.

use std::ptr::null;

use carrick_ipc::{Description, MAX_PAYLOAD, Property, Request};
use carrick_sockets::ancillary::{ControlMessage, write_control};
use carrick_sockets::linux::{Layout, SCTP_SNDINFO, SCTP_SNDRCV, SndInfo, SndRcvInfo};
use libc::{c_int, mmsghdr};

use crate::fake_daemon::{Answer, plain};
use crate::support::{TestSocket, call, message, parts, with};

fn send(socket: &TestSocket, bytes: &[u8], flags: c_int) -> Result<i64, i32> {
    call!(carrick send(socket.fd(), bytes.as_ptr().cast(), bytes.len(), flags))
}

/// Sends a message with ancillary data.
fn send_with(socket: &TestSocket, bytes: &mut [u8], control: &mut [u8]) -> Result<i64, i32> {
    let sizes = [bytes.len()];
    let mut list = parts(bytes, &sizes);
    let mut header = message(&mut list);
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = control.len() as _;
    call!(carrick sendmsg(socket.fd(), &raw const header, libc::MSG_NOSIGNAL))
}

fn payloads(socket: &TestSocket) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| socket.sent_frame().map(|(_, _, payload)| payload)).collect()
}

#[test]
fn a_message_of_an_association_is_a_frame() {
    let socket = TestSocket::established(&[]);
    assert_eq!(send(&socket, b"message", 0), Ok(7));
    assert_eq!(
        call!(carrick write(socket.fd(), b"again".as_ptr().cast(), 5)),
        Ok(5)
    );
    assert_eq!(payloads(&socket), [&b"message"[..], b"again"]);
    // The daemon had to identify the descriptor only.
    assert_eq!(*socket.requests.lock().unwrap(), ["Describe"]);
}

#[test]
fn a_large_message_is_several_frames() {
    let socket = TestSocket::established(&[]);
    let mut sent = [vec![1; MAX_PAYLOAD], vec![2; 100]].concat();
    let list = parts(&mut sent, &[5, MAX_PAYLOAD, 95]);
    let written = call!(carrick writev(socket.fd(), list.as_ptr(), 3));
    assert_eq!(written, Ok(MAX_PAYLOAD as i64 + 100));
    let (first, _, start) = socket.sent_frame().unwrap();
    let (second, _, end) = socket.sent_frame().unwrap();
    assert_eq!((first.is_end, second.is_end), (false, true));
    assert_eq!([start, end].concat(), sent);
}

/// The kernel permits 1024 parts, of which the header and the ancillary data of a frame take none.
#[test]
fn a_message_has_as_many_parts_as_permitted() {
    let socket = TestSocket::established(&[]);
    for (count, size) in [(1021, 3), (1022, 3), (1023, 3), (1024, 3), (1024, 100)] {
        let mut sent: Vec<u8> = (0..count * size).map(|at| at as u8).collect();
        let mut list = parts(&mut sent, &vec![size; count]);
        let len = (count * size) as i64;
        assert_eq!(
            call!(carrick writev(socket.fd(), list.as_ptr(), count as c_int)),
            Ok(len)
        );
        assert_eq!(payloads(&socket).concat(), sent, "{count}");
        let mut messages = [mmsghdr {
            msg_hdr: message(&mut list),
            msg_len: 0,
        }; 2];
        let done = call!(carrick sendmmsg(socket.fd(), messages.as_mut_ptr(), 2, 0));
        assert_eq!(
            (done, i64::from(messages[1].msg_len)),
            (Ok(2), len),
            "{count}"
        );
        assert_eq!(
            payloads(&socket).concat(),
            [&sent[..], &sent].concat(),
            "{count}"
        );
    }
}

/// RFC 6458, sections 5.3.2 and 5.3.4.
#[test]
fn ancillary_data_goes_with_its_message() {
    let socket = TestSocket::established(&[]);
    let info = SndInfo {
        sid: 3,
        ppid: 46,
        ..SndInfo::default()
    };
    let old = SndRcvInfo {
        stream: 4,
        ..SndRcvInfo::default()
    };
    for control in [
        ControlMessage::sctp(SCTP_SNDINFO, info.encode()),
        ControlMessage::sctp(SCTP_SNDRCV, old.encode()),
    ] {
        let (mut bytes, _) = write_control(&[control], usize::MAX);
        assert_eq!(send_with(&socket, &mut [9; 5], &mut bytes), Ok(5));
        let (_, control, payload) = socket.sent_frame().unwrap();
        assert_eq!((control, payload), (bytes, vec![9; 5]));
    }
}

/// The daemon refuses them, or has to look at more than the message.
#[test]
fn messages_that_may_fail_are_requests() {
    let socket = TestSocket::established(&[]);
    let beyond = SndInfo {
        sid: 10,
        ..SndInfo::default()
    };
    let (control, _) = write_control(&[ControlMessage::sctp(SCTP_SNDINFO, beyond.encode())], 999);
    let cut = control[..control.len() - 1].to_vec();
    for mut control in [control, cut, vec![0; 16]] {
        assert_eq!(
            send_with(&socket, &mut [1; 5], &mut control),
            Ok(5),
            "{control:?}"
        );
        assert!(socket.sent_frame().is_none(), "{control:?}");
    }
    assert_eq!(call!(carrick write(socket.fd(), null(), 0)), Ok(0));
    assert_eq!(
        send(&socket, &vec![0; (1 << 20) + 1], 0),
        Ok(0),
        "by a file"
    );
    assert!(socket.sent_frame().is_none());
    let requests = socket.requests.lock().unwrap();
    assert_eq!(
        requests
            .iter()
            .filter(|request| request.starts_with("Send"))
            .count(),
        5
    );
}

#[test]
fn ancillary_data_has_a_limit() {
    let socket = TestSocket::established(&[]);
    let mut control = vec![0; (1 << 16) + 1];
    assert_eq!(
        send_with(&socket, &mut [1; 5], &mut control),
        Err(libc::ENOBUFS)
    );
    assert_eq!(
        send_with(&socket, &mut [1; 5], &mut control[..1 << 16]),
        Err(libc::EINVAL)
    );
    assert!(socket.sent_frame().is_none());
}

/// As on every socket, unlike the address of `sendto`.
#[test]
fn a_name_that_is_too_long_is_cut() {
    let socket = TestSocket::established(&[]);
    let mut list = parts(&mut [], &[]);
    let mut header = message(&mut list);
    let mut name = [0_u8; 200];
    name[0] = libc::AF_INET as u8;
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = 200;
    assert_eq!(
        call!(carrick sendmsg(socket.fd(), &raw const header, 0)),
        Ok(0)
    );
    let requests = socket.requests.lock().unwrap();
    assert!(
        requests.last().unwrap().contains("address: [2, 0, "),
        "{requests:?}"
    );
}

#[test]
fn several_messages_are_sent_at_once() {
    let socket = TestSocket::established(&[]);
    let mut sent: Vec<u8> = (0..200).collect();
    let mut lists: Vec<_> = parts(&mut sent, &[5; 40])
        .chunks(1)
        .map(<[_]>::to_vec)
        .collect();
    let mut messages: Vec<mmsghdr> = lists
        .iter_mut()
        .map(|list| mmsghdr {
            msg_hdr: message(list),
            msg_len: 0,
        })
        .collect();
    let done = call!(carrick sendmmsg(socket.fd(), messages.as_mut_ptr(), 40, 0));
    assert_eq!(done, Ok(40));
    assert!(messages.iter().all(|message| message.msg_len == 5));
    assert_eq!(payloads(&socket).concat(), sent);
    // A bad message ends the call in front of it, and fails if it is the first one.
    messages[20].msg_hdr.msg_iov = std::ptr::without_provenance_mut(8);
    let done = call!(carrick sendmmsg(socket.fd(), messages.as_mut_ptr(), 40, 0));
    assert_eq!((done, payloads(&socket).len()), (Ok(20), 20));
    let failed = call!(carrick sendmmsg(socket.fd(), messages[20..].as_mut_ptr(), 20, 0));
    assert_eq!(failed, Err(libc::EFAULT));
}

#[test]
fn a_full_pair_is_reported_or_waited_for() {
    let socket = TestSocket::established(&[]);
    let large = vec![3; MAX_PAYLOAD];
    let mut count = 0;
    let failed = loop {
        match send(&socket, &large, libc::MSG_DONTWAIT) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(failed, libc::EAGAIN);
    assert_eq!(payloads(&socket).len(), count);
    // A message of several frames is sent as a whole, also beyond the room of the pair.
    let huge = vec![4; 12 * MAX_PAYLOAD];
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| send(&socket, &huge, 0));
        let mut received = 0;
        while received < huge.len() {
            if let Some((header, _, payload)) = socket.sent_frame() {
                received += payload.len();
                assert_eq!(header.is_end, received == huge.len());
            } else {
                std::thread::yield_now();
            }
        }
        assert_eq!(sent.join().unwrap(), Ok(huge.len() as i64));
    });
}

#[test]
fn a_message_after_the_end_fails_with_its_error() {
    for (pending, expected) in [(libc::ETIMEDOUT, libc::ETIMEDOUT), (0, libc::EPIPE)] {
        let established = with(Description::new(1, 100), &[Property::Established]);
        let socket = TestSocket::answering(move |request| match request {
            Request::GetOption { .. } => Answer {
                value: pending.to_ne_bytes().to_vec(),
                description: established,
                ..Answer::default()
            },
            request => plain(established, request),
        });
        assert_eq!(send(&socket, b"first", libc::MSG_NOSIGNAL), Ok(5));
        let fd = socket.end();
        let number = std::os::fd::AsRawFd::as_raw_fd(&fd);
        let bytes = b"second".as_ptr().cast();
        let failed = call!(carrick send(number, bytes, 6, libc::MSG_NOSIGNAL));
        assert_eq!(failed, Err(expected));
    }
}

#[test]
fn errors_of_the_daemon_are_those_of_the_call() {
    let socket = TestSocket::answering(|request| match request {
        Request::Send { .. } => Answer {
            error: libc::EMSGSIZE,
            ..Answer::default()
        },
        request => plain(Description::default(), request),
    });
    assert_eq!(send(&socket, b"message", 0), Err(libc::EMSGSIZE));
    let again = TestSocket::answering(|request| match request {
        Request::Send { .. } => Answer {
            error: libc::EAGAIN,
            ..Answer::default()
        },
        request => plain(Description::default(), request),
    });
    assert_eq!(
        send(&again, b"message", libc::MSG_DONTWAIT),
        Err(libc::EAGAIN)
    );
}

#[test]
fn a_file_is_sent_from_a_position() {
    let socket = TestSocket::established(&[]);
    let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert_eq!(rustix::io::write(&file, b"0123456789"), Ok(10));
    let from = std::os::fd::AsRawFd::as_raw_fd(&file);
    let mut offset = crate::support::Unaligned::new(&[4_i64]);
    let sent = call!(carrick sendfile(socket.fd(), from, offset.pointer(), 3));
    assert_eq!((sent, offset.get(0)), (Ok(3), 7));
    let mut start = 0;
    assert_eq!(
        call!(carrick sendfile(socket.fd(), from, &raw mut start, usize::MAX)),
        Ok(10)
    );
    assert_eq!(payloads(&socket), [&b"456"[..], b"0123456789"]);
    // Without an offset, the position of the file is moved.
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(8)).unwrap();
    let none = std::ptr::null_mut();
    assert_eq!(call!(carrick sendfile(socket.fd(), from, none, 100)), Ok(2));
    assert_eq!(call!(carrick sendfile(socket.fd(), from, none, 100)), Ok(0));
    let mut negative = -1;
    let failed = call!(carrick sendfile(socket.fd(), from, &raw mut negative, 1));
    assert_eq!(failed, Err(libc::EINVAL));
    let failed = call!(carrick sendfile(socket.fd(), -1, none, 1));
    assert_eq!(failed, Err(libc::EBADF));
    let failed = call!(carrick splice(from, none, socket.fd(), none, 1, 0));
    assert_eq!(failed, Err(libc::EINVAL));
}
