//! The functions above calls that a test answers and records.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::{null, null_mut};

use carrick_sockets::linux::{SCTP_GET_PEER_ADDRS, SCTP_SOCKOPT_CONNECTX};

use super::*;

/// Call that was made: its name or that of its option, and the bytes that it was given.
type Recorded = (c_int, Vec<u8>);

/// Answer to a call: its result, the error number, and the bytes that it writes.
type Answer = (c_int, c_int, Vec<u8>);

thread_local! {
    static CALLS: RefCell<Vec<Recorded>> = const { RefCell::new(Vec::new()) };
    static ANSWERS: RefCell<VecDeque<Answer>> = const { RefCell::new(VecDeque::new()) };
    static FLAGS: RefCell<c_int> = const { RefCell::new(0) };
}

/// Calls of the sockets API that the test answers.
struct FakeCalls;

fn answer(name: c_int, given: &[u8]) -> Answer {
    CALLS.with_borrow_mut(|calls| calls.push((name, given.to_vec())));
    let answer = ANSWERS
        .with_borrow_mut(VecDeque::pop_front)
        .unwrap_or_default();
    // SAFETY: libc returns the location of the thread's `errno`.
    unsafe { *libc::__errno_location() = answer.1 };
    answer
}

fn expect(answers: &[(c_int, c_int, &[u8])]) {
    let answers = answers
        .iter()
        .map(|(result, error, bytes)| (*result, *error, bytes.to_vec()));
    ANSWERS.set(answers.collect());
    CALLS.take();
}

fn calls() -> Vec<Recorded> {
    CALLS.take()
}

impl SocketCalls for FakeCalls {
    unsafe fn getsockopt(
        _: c_int,
        _: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> c_int {
        // SAFETY: the function under test has this many bytes, of which the answer has no more.
        unsafe {
            let size = *len as usize;
            let (result, _, written) = answer(name, bytes(value, size));
            assert!(written.len() <= size);
            value
                .cast::<u8>()
                .copy_from(written.as_ptr(), written.len());
            *len = written.len() as socklen_t;
            result
        }
    }

    unsafe fn setsockopt(
        _: c_int,
        _: c_int,
        name: c_int,
        value: *const c_void,
        len: socklen_t,
    ) -> c_int {
        // SAFETY: the value and its size are those of the function under test.
        answer(name, unsafe { bytes(value, len as usize) }).0
    }

    unsafe fn sendmsg(_: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        FLAGS.set(flags);
        // SAFETY: the message and its parts are those of the function under test.
        unsafe {
            let message = &*message;
            answer(
                0,
                bytes(message.msg_control, message.msg_controllen as usize),
            );
            answer(1, bytes(message.msg_name, message.msg_namelen as usize));
            let parts = (0..message.msg_iovlen as usize).map(|at| &*message.msg_iov.add(at));
            let data: Vec<u8> = parts
                .flat_map(|part| bytes(part.iov_base, part.iov_len))
                .copied()
                .collect();
            answer(2, &data).0 as ssize_t
        }
    }

    unsafe fn recvmsg(_: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        let (result, _, control) = answer(flags, &[]);
        // SAFETY: the message has room for its ancillary data, of which the answer has no more.
        unsafe {
            let message = &mut *message;
            assert!(control.len() <= message.msg_controllen as usize);
            message
                .msg_control
                .cast::<u8>()
                .copy_from(control.as_ptr(), control.len());
            message.msg_controllen = control.len() as _;
            message.msg_flags = 0x80;
            message.msg_namelen = 16;
        }
        result as ssize_t
    }
}

/// Returns an IPv4 and an IPv6 address, packed.
fn two_addresses() -> Vec<u8> {
    let mut list = vec![0; SOCKADDR_IN + SOCKADDR_IN6];
    list[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
    list[4..8].copy_from_slice(&[192, 0, 2, 1]);
    list[SOCKADDR_IN..SOCKADDR_IN + 2].copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
    list[SOCKADDR_IN + 8] = 0xfd;
    list
}

fn control_of(kind: c_int, value: &[u8]) -> Vec<u8> {
    write_control(&[ControlMessage::sctp(kind, value.to_vec())], usize::MAX).0
}

/// RFC 6458, section 9.1
#[test]
fn addresses_are_bound_as_one_option() {
    // At an odd address, as the addresses behind an IPv4 one are not aligned either.
    let list = [&[0_u8][..], &two_addresses()].concat();
    let start: *const sockaddr = list[1..].as_ptr().cast();
    for (flags, name) in [
        (SCTP_BINDX_ADD_ADDR, SCTP_SOCKOPT_BINDX_ADD),
        (SCTP_BINDX_REM_ADDR, SCTP_SOCKOPT_BINDX_REM),
    ] {
        expect(&[]);
        // SAFETY: the list has two addresses.
        assert_eq!(unsafe { bindx::<FakeCalls>(3, start, 2, flags) }, 0);
        assert_eq!(calls(), [(name, list[1..].to_vec())]);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { bindx::<FakeCalls>(3, start, 2, 3) }, -1);
    assert_eq!((errno(), calls().len()), (libc::EINVAL, 0));
}

#[test]
fn addresses_of_other_families_are_refused() {
    let mut list = two_addresses();
    list[SOCKADDR_IN] = 77;
    let start: *const sockaddr = list.as_ptr().cast();
    // SAFETY: the list has two addresses.
    unsafe {
        assert_eq!(bindx::<FakeCalls>(3, start, 2, SCTP_BINDX_ADD_ADDR), -1);
        assert_eq!(errno(), libc::EINVAL);
        assert_eq!(connectx::<FakeCalls>(3, start, 2, null_mut()), -1);
        assert_eq!(
            connectx_by_setting::<FakeCalls>(3, start, 2, SCTP_SOCKOPT_CONNECTX),
            -1
        );
        assert!(calls().is_empty());
        // No address is an empty list, which the socket refuses.
        assert_eq!(packed(start, -1), Some(&[][..]));
        assert_eq!(packed(null(), 0), Some(&[][..]));
    }
    assert_eq!((getaddrlen(2), getaddrlen(10), getaddrlen(77)), (16, 28, 0));
}

/// RFC 6458, section 9.9
#[test]
fn a_set_up_in_progress_has_its_identifier() {
    let list = two_addresses();
    for (result, error, expected) in [
        (0, 0, 7),
        (-1, libc::EINPROGRESS, 7),
        (-1, libc::EINVAL, -5),
    ] {
        expect(&[(result, error, &7_i32.to_ne_bytes())]);
        let mut association = -5;
        // SAFETY: the list has two addresses.
        let done =
            unsafe { connectx::<FakeCalls>(3, list.as_ptr().cast(), 2, &raw mut association) };
        assert_eq!((done, association), (result, expected));
        let recorded = calls();
        assert_eq!(
            (recorded[0].0, recorded[0].1.len()),
            (SCTP_SOCKOPT_CONNECTX3, 16)
        );
        assert_eq!(recorded[0].1[4..8], 44_i32.to_ne_bytes());
        assert_eq!(recorded[0].1[8..], list.as_ptr().addr().to_ne_bytes());
    }
}

/// RFC 6458, section 9.2: the kernel's result is the descriptor as well.
#[test]
fn a_branched_off_association_is_a_descriptor() {
    let value = [3_i32, 9].map(i32::to_ne_bytes).concat();
    expect(&[(9, 0, &value), (0, 0, &value), (-1, libc::EINVAL, &[])]);
    assert_eq!(peeloff::<FakeCalls>(3, 3), 9);
    assert_eq!(peeloff_flags::<FakeCalls>(3, 3, 2048), 9);
    assert_eq!((peeloff::<FakeCalls>(3, 3), errno()), (-1, libc::EINVAL));
    let recorded = calls();
    assert_eq!(
        recorded[0],
        (
            SCTP_SOCKOPT_PEELOFF,
            [3_i32, 0].map(i32::to_ne_bytes).concat()
        )
    );
    let with_flags = [3_i32, 0, 2048].map(i32::to_ne_bytes).concat();
    assert_eq!(recorded[1], (SCTP_SOCKOPT_PEELOFF_FLAGS, with_flags));
}

/// RFC 6458, sections 9.3 and 9.4
#[test]
fn lists_of_addresses_grow_until_they_fit() {
    let value = [
        &0_i32.to_ne_bytes()[..],
        &2_i32.to_ne_bytes(),
        &two_addresses(),
    ]
    .concat();
    expect(&[(-1, libc::ENOMEM, &[]), (0, 0, &value)]);
    let mut list = null_mut();
    // SAFETY: the pointer is that of the test, and the list is read before it is released.
    unsafe {
        let count = get_addresses::<FakeCalls>(3, 5, SCTP_GET_PEER_ADDRS, &raw mut list);
        assert_eq!(count, 2);
        assert_eq!(packed(list, count), Some(&two_addresses()[..]));
        assert_eq!(free_addresses(list), 0);
        assert_eq!(free_addresses(null_mut()), 0);
    }
    let sizes: Vec<_> = calls().iter().map(|(_, given)| given.len()).collect();
    assert_eq!(sizes, [4096, 8192]);
    // A list that never fits is an error, as is another error at once.
    expect(&[(-1, libc::ENOMEM, &[][..]); 30]);
    // SAFETY: as above.
    unsafe {
        assert_eq!(
            get_addresses::<FakeCalls>(3, 5, SCTP_GET_PEER_ADDRS, &raw mut list),
            -1
        );
        assert_eq!(calls().len(), 16);
        expect(&[(-1, libc::ENOTCONN, &[])]);
        assert_eq!(
            get_addresses::<FakeCalls>(3, 5, SCTP_GET_PEER_ADDRS, &raw mut list),
            -1
        );
    }
    assert_eq!((errno(), calls().len()), (libc::ENOTCONN, 1));
}

#[test]
fn an_option_has_its_association_in_front() {
    let mut value = [0xff_u8; 13];
    let mut len = 12;
    expect(&[(0, 0, &[1, 2, 3])]);
    // SAFETY: the value has 12 bytes at this address.
    let done =
        unsafe { opt_info::<FakeCalls>(3, 5, 14, value[1..].as_mut_ptr().cast(), &raw mut len) };
    assert_eq!((done, len), (0, 3));
    assert_eq!(calls()[0].1[..4], 5_i32.to_ne_bytes());
}

/// RFC 6458, sections 9.7 and 9.10
#[test]
fn attributes_go_with_a_message() {
    let info = SndRcvInfo {
        stream: 4,
        ..SndRcvInfo::default()
    };
    let encoded = info.encode();
    let control = control_of(SCTP_SNDRCV, &encoded);
    let (data, to) = (b"message", two_addresses());
    let part = (data.as_ptr().cast(), data.len());
    expect(&[(0, 0, &[]), (0, 0, &[]), (7, 0, &[])]);
    // SAFETY: the message, the address and the attributes are valid.
    unsafe {
        assert_eq!(
            sendmsg::<FakeCalls>(3, part, (to.as_ptr().cast(), 16), &info),
            7
        );
        assert_eq!(
            calls(),
            [
                (0, control.clone()),
                (1, to[..16].to_vec()),
                (2, data.to_vec())
            ]
        );
        assert_eq!(send::<FakeCalls>(3, part, encoded.as_ptr().cast(), 64), 0);
        assert_eq!(calls(), [(0, control), (1, Vec::new()), (2, data.to_vec())]);
        assert_eq!(FLAGS.take(), 64);
        send::<FakeCalls>(3, part, null(), 0);
        sendmsg::<FakeCalls>(3, part, (null(), 99), &info);
    }
    let recorded = calls();
    assert!(recorded[0].1.is_empty() && recorded[4].1.is_empty());
}

/// RFC 6458, section 9.12
#[test]
fn attributes_of_sendv_have_their_sizes() {
    let spa: Vec<u8> = (0..SPA as u8).collect();
    for (kind, size, found) in [
        (SCTP_SENDV_NOINFO, 0, vec![]),
        (SCTP_SENDV_SNDINFO, SndInfo::SIZE, vec![SCTP_SNDINFO]),
        (SCTP_SENDV_PRINFO, PrInfo::SIZE, vec![SCTP_PRINFO]),
        (SCTP_SENDV_AUTHINFO, AuthInfo::SIZE, vec![SCTP_AUTHINFO]),
    ] {
        let kinds =
            |attributes: Vec<ControlMessage>| attributes.iter().map(|one| one.kind).collect();
        assert_eq!(attributes(&spa[..size], kind).map(kinds), Some(found));
        assert!(size == 0 || attributes(&spa[..size - 1], kind).is_none());
    }
    assert_eq!(attributes(&spa, 5), None);
    assert_eq!(attributes(&spa[..SPA - 1], SCTP_SENDV_SPA), None);
    for valid in 0..8_u32 {
        let spa = [&valid.to_ne_bytes()[..], &spa[4..]].concat();
        let found = attributes(&spa, SCTP_SENDV_SPA).unwrap();
        assert_eq!(found.len(), valid.count_ones() as usize);
        assert!(
            found
                .iter()
                .all(|one| spa.windows(one.data.len()).any(|part| part == one.data))
        );
    }
}

/// RFC 6458, section 9.12: the first address is the name, further ones are ancillary data.
#[test]
fn further_addresses_are_ancillary_data() {
    let list = two_addresses();
    let info = SndInfo::default().encode();
    let data = *b"message";
    let part = iovec {
        iov_base: data.as_ptr().cast_mut().cast(),
        iov_len: 7,
    };
    let attributes = (
        info.as_ptr().cast(),
        info.len() as socklen_t,
        SCTP_SENDV_SNDINFO,
    );
    expect(&[]);
    // SAFETY: the message, the addresses and the attributes are valid.
    unsafe {
        sendv::<FakeCalls>(
            3,
            (&raw const part, 1),
            (list.as_ptr().cast(), 2),
            attributes,
            0,
        );
        let recorded = calls();
        assert_eq!(recorded[1].1, list[..16]);
        let control = read_control(&recorded[0].1).unwrap();
        assert_eq!(
            (control[0].kind, &control[0].data[..]),
            (SCTP_DSTADDRV6, &list[24..40])
        );
        assert_eq!((control[1].kind, &control[1].data), (SCTP_SNDINFO, &info));
        for count in [-1, i32::MIN] {
            let sent = sendv::<FakeCalls>(3, (&raw const part, count), (null(), 0), attributes, 0);
            assert_eq!((sent, errno()), (-1, libc::EINVAL));
        }
    }
    assert!(calls().is_empty());
}

/// RFC 6458, section 9.8
#[test]
fn a_received_message_has_its_attributes() {
    let info = SndRcvInfo {
        stream: 4,
        ..SndRcvInfo::default()
    };
    let encoded = info.encode();
    let (mut found, mut buffer, mut flags) = (vec![0xff_u8; encoded.len()], [0_u8; 9], 5);
    let (mut name, mut len) = ([0_u8; 128], 128);
    let part = (buffer.as_mut_ptr().cast(), 9);
    // SAFETY: the buffers and the other pointers are valid or null.
    unsafe {
        expect(&[(7, 0, &control_of(SCTP_SNDRCV, &encoded))]);
        let from = (name.as_mut_ptr().cast(), &raw mut len);
        let read = recvmsg::<FakeCalls>(3, part, from, found.as_mut_ptr().cast(), &raw mut flags);
        assert_eq!((read, len, flags, calls()[0].0), (7, 16, 0x80, 5));
        assert_eq!(found, encoded);
        // Attributes of another size, or none, are left out.
        found.fill(0xff);
        expect(&[(7, 0, &control_of(SCTP_SNDRCV, &encoded[1..])), (3, 0, &[])]);
        for expected in [7, 3] {
            let (info, none) = (found.as_mut_ptr().cast(), (null_mut(), null_mut()));
            let read = recvmsg::<FakeCalls>(3, part, none, info, null_mut());
            assert_eq!(read, expected);
        }
    }
    assert!(found.iter().all(|byte| *byte == 0xff));
}

/// RFC 6458, section 9.13
#[test]
fn attributes_of_recvv_fit_into_their_space() {
    let (this, next) = (RcvInfo::default().encode(), NxtInfo::default().encode());
    let both = [
        control_of(SCTP_NXTINFO, &next),
        control_of(SCTP_RCVINFO, &this),
    ]
    .concat();
    let (rn, rcv, nxt) = (RcvInfo::SIZE + NxtInfo::SIZE, RcvInfo::SIZE, NxtInfo::SIZE);
    let mut buffer = [0_u8; 9];
    let part = iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: 9,
    };
    for (control, space, expected) in [
        (&both[..], rn, (SCTP_RECVV_RN, rn)),
        (&both, rn - 1, (SCTP_RECVV_RCVINFO, rcv)),
        (&both, rcv - 1, (SCTP_RECVV_NOINFO, rcv - 1)),
        (
            &control_of(SCTP_NXTINFO, &next),
            nxt,
            (SCTP_RECVV_NXTINFO, nxt),
        ),
        (&[], rn, (SCTP_RECVV_NOINFO, rn)),
    ] {
        expect(&[(7, 0, control)]);
        let (mut info, mut len, mut kind) = (vec![0xff_u8; rn], space as socklen_t, 99);
        let attributes = (info.as_mut_ptr().cast(), &raw mut len, &raw mut kind);
        let none = (null_mut(), null_mut());
        // SAFETY: the buffers and the other pointers are valid or null.
        let read =
            unsafe { recvv::<FakeCalls>(3, (&raw const part, 1), none, attributes, null_mut()) };
        assert_eq!(
            (read, kind, len as usize),
            (7, expected.0, expected.1),
            "{space}"
        );
        let written = if kind == SCTP_RECVV_NOINFO {
            0
        } else {
            expected.1
        };
        assert!(info[written..].iter().all(|byte| *byte == 0xff), "{space}");
    }
}
