//! Creation, set-up of associations, addresses and options.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use carrick_ipc::{Description, FrameKind, Header, Property, Request};
use carrick_sockets::linux::{SCTP_SOCKOPT_PEELOFF, write_address};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::fake_daemon::{self, Answer, plain};
use crate::support::{GuardedPage, TestSocket, call, with};

const SCTP: c_int = libc::IPPROTO_SCTP;

fn number(result: Result<i64, i32>) -> OwnedFd {
    // SAFETY: the call has returned a new descriptor, which nothing else has.
    unsafe { OwnedFd::from_raw_fd(result.unwrap() as c_int) }
}

fn flags_of(fd: &OwnedFd) -> (bool, bool) {
    let status = rustix::fs::fcntl_getfl(fd).unwrap();
    let flags = rustix::io::fcntl_getfd(fd).unwrap();
    (
        status.contains(rustix::fs::OFlags::NONBLOCK),
        flags.contains(rustix::io::FdFlags::CLOEXEC),
    )
}

/// Waits until all descriptors of the other end of a pair are closed; a descriptor that remains is an error.
fn has_ended(daemon: &OwnedFd) -> bool {
    let limit = Some(std::time::Duration::from_secs(10));
    rustix::net::sockopt::set_socket_timeout(daemon, rustix::net::sockopt::Timeout::Recv, limit)
        .unwrap();
    let received = rustix::net::recv(daemon, &mut [0; 9][..], rustix::net::RecvFlags::empty());
    received.is_ok_and(|(len, _)| len == 0)
}

#[test]
fn sockets_of_sctp_are_the_daemons() {
    fake_daemon::start();
    for (kind, expected) in [
        (libc::SOCK_STREAM, (false, false)),
        (libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, (true, false)),
        (libc::SOCK_STREAM | libc::SOCK_CLOEXEC, (false, true)),
    ] {
        let fd = number(call!(carrick socket(libc::AF_INET, kind, SCTP)));
        assert_eq!(flags_of(&fd), expected);
        let daemon = fake_daemon::created(&fd);
        assert_eq!(call!(carrick listen(fd.as_raw_fd(), 5)), Ok(0));
        drop(daemon);
    }
}

#[test]
fn other_sockets_are_the_kernels() {
    for (domain, kind, protocol) in [
        (libc::AF_UNIX, libc::SOCK_SEQPACKET, 0),
        (libc::AF_INET, libc::SOCK_STREAM, 0),
        (libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDP),
        (libc::AF_INET, 99, 0),
        (-1, libc::SOCK_STREAM, SCTP),
    ] {
        let ours = call!(carrick socket(domain, kind, protocol));
        let kernels = call!(libc socket(domain, kind, protocol));
        assert_eq!(
            ours.as_ref().err(),
            kernels.as_ref().err(),
            "{domain} {kind} {protocol}"
        );
        drop([ours, kernels].map(|result| result.is_ok().then(|| number(result))));
    }
}

#[test]
fn addresses_are_cut_to_their_space() {
    let address = write_address("192.0.2.7:38412".parse().unwrap());
    let value = address.clone();
    let socket = TestSocket::answering(move |request| match request {
        Request::LocalAddress | Request::PeerAddress => Answer {
            value: value.clone(),
            ..Answer::default()
        },
        request => plain(Description::default(), request),
    });
    for space in [0_u32, 1, 8, 16, 128] {
        let mut name = [0xff_u8; 128];
        let (mut local, mut peer) = (space, space);
        let start = name.as_mut_ptr().cast();
        assert_eq!(
            call!(carrick getsockname(socket.fd(), start, &raw mut local)),
            Ok(0)
        );
        assert_eq!(
            call!(carrick getpeername(socket.fd(), start, &raw mut peer)),
            Ok(0)
        );
        assert_eq!((local, peer), (16, 16));
        let written = (space as usize).min(16);
        assert_eq!(name[..written], address[..written]);
        assert!(name[written..].iter().all(|byte| *byte == 0xff));
    }
}

#[test]
fn values_of_options_are_passed_as_they_are() {
    let socket = TestSocket::answering(|request| match *request {
        Request::GetOption {
            level,
            name,
            buffer,
        } if level == SCTP => Answer {
            value: [
                &name.to_ne_bytes()[..],
                &(buffer.len() as u32).to_ne_bytes(),
            ]
            .concat(),
            ..Answer::default()
        },
        Request::SetOption { value, .. } if value.len() == 3 => Answer {
            error: libc::EINVAL,
            ..Answer::default()
        },
        ref request => plain(Description::default(), request),
    });
    let mut value = [0xff_u8; 64];
    let mut len = 64;
    let start = value.as_mut_ptr().cast();
    assert_eq!(
        call!(carrick getsockopt(socket.fd(), SCTP, 3, start, &raw mut len)),
        Ok(0)
    );
    assert_eq!((len, &value[..4]), (8, &3_i32.to_ne_bytes()[..]));
    assert_eq!(value[4..8], 64_u32.to_ne_bytes());
    let set = |len| call!(carrick setsockopt(socket.fd(), SCTP, 3, value.as_ptr().cast(), len));
    assert_eq!((set(4), set(3), set(0)), (Ok(0), Err(libc::EINVAL), Ok(0)));
    let large = vec![0_u8; (1 << 16) + 1];
    let set = |len| call!(carrick setsockopt(socket.fd(), SCTP, 3, large.as_ptr().cast(), len));
    assert_eq!(
        (set(1 << 16), set((1 << 16) + 1)),
        (Ok(0), Err(libc::EINVAL))
    );
}

/// Returns a socket that accepts associations, and the daemon's end of the association that it has.
fn listener() -> TestSocket {
    let listening = with(Description::default(), &[Property::Listening]);
    TestSocket::answering(move |request| plain(listening, request))
}

/// Passes an association to accept to the program. Returns the daemon's end of it.
fn pass_association(socket: &TestSocket) -> OwnedFd {
    let (program, daemon) = fake_daemon::pair();
    let established = with(Description::new(10, 1000), &[Property::Established]);
    fake_daemon::serve_socket(&program, move |request| plain(established, request));
    let header = Header {
        address: Some("192.0.2.1:5000".parse().unwrap()),
        ..Header::new(FrameKind::Accepted)
    };
    let passed = [std::os::fd::AsFd::as_fd(&program)];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
    let frame = [&header.encode()[..], &established.encode()].concat();
    let parts = [std::io::IoSlice::new(&frame)];
    sendmsg(&socket.daemon, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
    daemon
}

#[test]
fn accepted_associations_have_their_flags() {
    let socket = listener();
    for (flags, expected) in [
        (0, (false, false)),
        (libc::SOCK_NONBLOCK, (true, false)),
        (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, (true, true)),
    ] {
        let daemon = pass_association(&socket);
        let (mut name, mut len) = ([0_u8; 128], 128);
        let from = name.as_mut_ptr().cast();
        let accepted = number(call!(carrick accept4(socket.fd(), from, &raw mut len, flags)));
        assert_eq!((flags_of(&accepted), len), (expected, 16));
        assert_eq!(name[..16], write_address("192.0.2.1:5000".parse().unwrap()));
        assert_eq!(
            call!(carrick write(accepted.as_raw_fd(), b"x".as_ptr().cast(), 1)),
            Ok(1)
        );
        assert!(
            rustix::net::recv(&daemon, &mut [0; 99][..], rustix::net::RecvFlags::empty()).is_ok()
        );
    }
    let failed = call!(carrick accept4(socket.fd(), null_mut(), null_mut(), 1));
    assert_eq!(failed, Err(libc::EINVAL));
}

#[test]
fn an_association_without_room_for_its_name_is_lost() {
    let socket = listener();
    let daemon = pass_association(&socket);
    let mut name = [0_u8; 128];
    let accepted = call!(carrick accept(socket.fd(), name.as_mut_ptr().cast(), null_mut()));
    assert_eq!(accepted, Err(libc::EFAULT));
    assert!(has_ended(&daemon));
}

#[test]
fn sockets_that_do_not_listen_accept_nothing() {
    let established = TestSocket::established(&[]);
    let accept = |fd| call!(carrick accept(fd, null_mut(), null_mut()));
    assert_eq!(accept(established.fd()), Err(libc::EINVAL));
    let many = TestSocket::established(&[Property::OneToMany]);
    assert_eq!(accept(many.fd()), Err(libc::EOPNOTSUPP));
    let waiting = listener();
    assert_eq!(
        call!(carrick fcntl(waiting.fd(), libc::F_SETFL, libc::O_NONBLOCK as u64)),
        Ok(0)
    );
    assert_eq!(accept(waiting.fd()), Err(libc::EAGAIN));
}

#[test]
fn a_set_up_replaces_the_pair_and_keeps_the_number() {
    let (program, daemon) = fake_daemon::pair();
    let mut replacement = Some(program);
    let connecting = with(Description::new(1, 100), &[Property::Connecting]);
    fake_daemon::serve_socket(replacement.as_ref().unwrap(), move |request| {
        plain(connecting, request)
    });
    let socket = TestSocket::answering(move |request| match request {
        Request::Connect { .. } => Answer {
            error: libc::EINPROGRESS,
            description: connecting,
            attached: replacement.take(),
            ..Answer::default()
        },
        request => plain(Description::default(), request),
    });
    let address = write_address("192.0.2.1:5000".parse().unwrap());
    let connect = || call!(carrick connect(socket.fd(), address.as_ptr().cast(), 16));
    // The new pair is writable, which completes the set-up.
    assert_eq!(connect(), Ok(0));
    assert!(
        flags_of(socket.owned()).1,
        "the number is still closed by exec"
    );
    let sent = rustix::net::send(&daemon, b"plain", SendFlags::NOSIGNAL);
    assert_eq!(sent, Ok(5));
    let mut bytes = [0_u8; 9];
    let (len, _) = rustix::net::recv(
        socket.owned(),
        &mut bytes[..],
        rustix::net::RecvFlags::empty(),
    )
    .unwrap();
    assert_eq!(&bytes[..len], b"plain");
}

#[test]
fn errors_of_a_set_up_are_those_of_the_call() {
    for (error, expected) in [(libc::ECONNREFUSED, Err(libc::ECONNREFUSED)), (0, Ok(0))] {
        let socket = TestSocket::answering(move |request| match request {
            Request::Connect { .. } => Answer {
                error,
                ..Answer::default()
            },
            request => plain(Description::default(), request),
        });
        let address = write_address("192.0.2.1:5000".parse().unwrap());
        let connected = call!(carrick connect(socket.fd(), address.as_ptr().cast(), 16));
        assert_eq!(connected, expected);
    }
}

/// Returns a socket from which associations are branched off, and the daemon's ends of those.
fn branching() -> (TestSocket, std::sync::mpsc::Receiver<OwnedFd>) {
    let (sender, ends) = std::sync::mpsc::channel();
    let socket = TestSocket::answering(move |request| match request {
        Request::Peeloff { association: 3 } => {
            let (program, daemon) = fake_daemon::pair();
            let established = with(Description::new(1, 100), &[Property::Established]);
            fake_daemon::serve_socket(&program, move |request| plain(established, request));
            sender.send(daemon).unwrap();
            Answer {
                attached: Some(program),
                ..Answer::default()
            }
        }
        Request::Peeloff { .. } => Answer {
            error: libc::EINVAL,
            ..Answer::default()
        },
        request => plain(
            with(Description::default(), &[Property::OneToMany]),
            request,
        ),
    });
    (socket, ends)
}

#[test]
fn an_association_is_branched_off() {
    let (socket, ends) = branching();
    let branch = |value: *mut c_int, len: &mut u32| call!(carrick getsockopt(socket.fd(), SCTP, SCTP_SOCKOPT_PEELOFF, value.cast(), &raw mut *len));
    let (mut value, mut len) = ([3, -1], 8);
    let branched = number(branch(value.as_mut_ptr(), &mut len));
    assert_eq!((value[1], len), (branched.as_raw_fd(), 8));
    assert_eq!(
        call!(carrick write(value[1], b"x".as_ptr().cast(), 1)),
        Ok(1)
    );
    assert!(
        rustix::net::recv(
            ends.recv().unwrap(),
            &mut [0; 99][..],
            rustix::net::RecvFlags::empty()
        )
        .is_ok()
    );
    assert_eq!(branch([4, -1].as_mut_ptr(), &mut 8), Err(libc::EINVAL));
    for mut short in [0, 4, 7] {
        assert_eq!(branch([3, -1].as_mut_ptr(), &mut short), Err(libc::EINVAL));
    }
}

/// Otherwise the program has a descriptor of whose number it does not know.
#[test]
fn an_association_is_closed_where_its_number_is_lost() {
    let (socket, ends) = branching();
    let page = GuardedPage::new();
    let value: *mut c_int = page.before_end(8).cast();
    // SAFETY: the page has room for two integers in front of its end.
    unsafe { value.write(3) };
    page.protect();
    let mut len = 8;
    let (name, value) = (SCTP_SOCKOPT_PEELOFF, value.cast());
    let branched = call!(carrick getsockopt(socket.fd(), SCTP, name, value, &raw mut len));
    assert_eq!(branched, Err(libc::EFAULT));
    assert!(has_ended(&ends.recv().unwrap()));
}

#[test]
fn system_calls_act_as_their_functions() {
    let socket = TestSocket::established(&[]);
    let fd = i64::from(socket.fd());
    let bytes = *b"message";
    let start = bytes.as_ptr().expose_provenance() as i64;
    assert_eq!(
        call!(carrick syscall(libc::SYS_write, fd, start, 7, 0, 0, 0)),
        Ok(7)
    );
    assert_eq!(
        call!(carrick syscall(libc::SYS_sendto, fd, start, 7, 0, 0, 0)),
        Ok(7)
    );
    assert_eq!(socket.sent_frame().unwrap().2, bytes);
    socket.deliver_message(b"answer");
    let mut buffer = [0_u8; 9];
    let start = buffer.as_mut_ptr().expose_provenance() as i64;
    assert_eq!(
        call!(carrick syscall(libc::SYS_recvfrom, fd, start, 9, 0, 0, 0)),
        Ok(6)
    );
    assert_eq!(&buffer[..6], b"answer");
    assert_eq!(
        call!(carrick syscall(libc::SYS_shutdown, fd, 1, 0, 0, 0, 0)),
        Ok(0)
    );
    assert_eq!(
        call!(carrick syscall(libc::SYS_ioctl, fd, libc::TIOCOUTQ as i64, start, 0, 0, 0)),
        Err(libc::ENOTTY)
    );
    let pid = i64::from(std::process::id());
    assert_eq!(
        call!(carrick syscall(libc::SYS_getpid, 0, 0, 0, 0, 0, 0)),
        Ok(pid)
    );
}
