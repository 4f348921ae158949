//! Errors as Linux has them.

use carrick_sockets::linux::*;
use carrick_sockets::{Errno, Family, Readiness, Style};

use crate::world::*;

#[test]
fn arguments_of_socket_are_checked() {
    let style = Style::from_numbers;
    let one_to_one = Ok((Style::OneToOne, Family::Inet));
    assert_eq!(style(AF_INET, SOCK_STREAM, IPPROTO_SCTP), one_to_one);
    let nonblocking = 0o4000;
    assert_eq!(
        style(AF_INET, SOCK_STREAM | nonblocking, IPPROTO_SCTP),
        one_to_one
    );
    let one_to_many = Ok((Style::OneToMany, Family::Inet6));
    assert_eq!(style(AF_INET6, SOCK_SEQPACKET, IPPROTO_SCTP), one_to_many);
    assert_eq!(
        style(1, SOCK_STREAM, IPPROTO_SCTP),
        Err(Errno::EAFNOSUPPORT)
    );
    let (datagram, reliable) = (2, 4);
    assert_eq!(
        style(AF_INET, datagram, IPPROTO_SCTP),
        Err(Errno::EPROTONOSUPPORT)
    );
    assert_eq!(
        style(AF_INET, reliable, IPPROTO_SCTP),
        Err(Errno::ESOCKTNOSUPPORT)
    );
    assert_eq!(style(AF_INET, SOCK_STREAM, 6), Err(Errno::EPROTONOSUPPORT));
}

/// RFC 6458, section 4.1.5: a broadcast address is none of a peer.
#[test]
fn broadcast_addresses_are_refused() {
    let mut w = World::new();
    let a = w.one_to_one(A);
    let all = ([255, 255, 255, 255], PORT).into();
    assert_eq!(w.connect(a, all), Err(Errno::EINVAL));
}

/// RFC 6458, section 4.1.5
#[test]
fn no_answer_times_out() {
    let mut w = World::new();
    let a = w.one_to_one(A);
    let init = InitMsg {
        max_attempts: 2,
        ..InitMsg::default()
    };
    w.set(A, a, SCTP_INITMSG, &init).unwrap();
    for link in [0, 1] {
        w.set_link(link, false);
    }
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(secs(60));
    let error = Errno::ETIMEDOUT.number();
    assert_eq!(w.get_int(A, a, (SOL_SOCKET, SO_ERROR)), Ok(error));
}

#[test]
fn a_silent_peer_times_out() {
    let mut w = World::new();
    let (a, _) = w.pair();
    for link in [0, 1] {
        w.set_link(link, false);
    }
    w.send(A, a, b"lost").unwrap();
    w.run(secs(2000));
    assert_eq!(w.recv(A, a), Err(Errno::ETIMEDOUT));
    assert_eq!(w.send(A, a, b"late"), Err(Errno::EPIPE));
}

/// Linux: the pending error comes before EPIPE, with which the process gets SIGPIPE.
#[test]
fn writes_after_a_reset_report_it_once() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.on(B, |s, now| s.abort(now, b)).unwrap();
    w.run(ms(100));
    let level = w.readiness(A, a);
    assert!(level.contains(Readiness::ERROR | Readiness::HANG_UP));
    assert_eq!(w.send(A, a, b"x"), Err(Errno::ECONNRESET));
    assert_eq!(w.send(A, a, b"x"), Err(Errno::EPIPE));
}

#[test]
fn unconnected_sockets_refuse_messages() {
    let mut w = World::new();
    let (one, many) = (w.one_to_one(A), w.one_to_many(A));
    assert_eq!(w.send(A, one, b"x"), Err(Errno::EPIPE));
    assert_eq!(w.recv(A, one), Err(Errno::ENOTCONN));
    assert_eq!(w.recv_with(A, one, 10, MSG_DONTWAIT), Err(Errno::EAGAIN));
    assert_eq!(w.recv(A, many), Err(Errno::EAGAIN));
    assert_eq!(w.send(A, many, b"x"), Err(Errno::EPIPE));
    assert_eq!(w.look(A).peer_address(one), Err(Errno::ENOTCONN));
    assert_eq!(
        w.on(A, |s, now| s.shutdown(now, many, SHUT_WR)),
        Err(Errno::ENOTCONN)
    );
}

/// RFC 6458, section 8.1.11, and `SO_SNDBUF`
#[test]
fn messages_that_are_too_large_are_refused() {
    let mut w = World::new();
    let (a, _) = w.pair();
    let size = w.get_int(A, a, (SOL_SOCKET, SO_SNDBUF)).unwrap() as usize;
    assert_eq!(w.send(A, a, &vec![0; size + 1]), Err(Errno::EMSGSIZE));
    w.set_int(A, a, (IPPROTO_SCTP, SCTP_DISABLE_FRAGMENTS), 1)
        .unwrap();
    assert_eq!(w.send(A, a, &[0; 1500]), Err(Errno::EMSGSIZE));
    assert_eq!(w.send(A, a, &[0; 1400]), Ok(1400));
    assert_eq!(w.send(A, a, b""), Err(Errno::EINVAL));
}

/// RFC 6458, section 8.1.31
#[test]
fn a_default_stream_that_does_not_exist_is_refused() {
    let mut w = World::new();
    let (a, _) = w.pair();
    assert!(w.look(A).status(a).unwrap().has_default_stream);
    let mut info = SndInfo {
        sid: 60_000,
        ..SndInfo::default()
    };
    w.set(A, a, SCTP_DEFAULT_SNDINFO, &info).unwrap();
    assert!(!w.look(A).status(a).unwrap().has_default_stream);
    assert_eq!(w.send(A, a, b"x"), Err(Errno::EINVAL));
    info.sid = 1;
    w.set(A, a, SCTP_DEFAULT_SNDINFO, &info).unwrap();
    assert!(w.look(A).status(a).unwrap().has_default_stream);
    assert_eq!(w.send(A, a, b"x"), Ok(1));
}

/// `SO_ERROR`
#[test]
fn an_error_of_the_caller_is_pending_once() {
    let mut w = World::new();
    let (a, _) = w.pair();
    w.changes(A);
    assert_eq!(w.look(A).set_error(a, Errno::EINVAL), Ok(true));
    assert_eq!(w.look(A).set_error(a, Errno::EMSGSIZE), Ok(false));
    assert_eq!(w.changes(A), [(a, Readiness::ERROR)]);
    assert_eq!(w.recv(A, a), Err(Errno::EINVAL));
    assert_eq!(w.recv(A, a), Err(Errno::EAGAIN));
    assert_eq!(w.send(A, a, b"x"), Ok(1));
}

#[test]
fn wrong_peers_are_refused() {
    let mut w = World::new();
    let a = w.one_to_one(A);
    let call = |w: &mut World, peers: &[_]| w.on(A, |s, now| s.connectx(now, a, peers));
    assert_eq!(call(&mut w, &[]), Err(Errno::EINVAL));
    assert_eq!(call(&mut w, &[at(B, 0)]), Err(Errno::EINVAL));
    assert_eq!(call(&mut w, &[at(B, 1), at(B, 2)]), Err(Errno::EINVAL));
    assert_eq!(
        call(&mut w, &["0.0.0.0:1".parse().unwrap()]),
        Err(Errno::EINVAL)
    );
    let v6 = w.look(A).socket(Style::OneToOne, Family::Inet6).unwrap();
    w.look(A)
        .bind(v6, "[fd00::1]:7000".parse().unwrap())
        .unwrap();
    let v4 = "[::ffff:10.0.0.2]:5000".parse().unwrap();
    assert_eq!(w.connect(v6, v4), Err(Errno::ENETUNREACH));
}

#[test]
fn limits_of_sockets_and_associations_hold() {
    let mut w = World::with(|config| {
        (config.max_sockets, config.max_associations) = (3, 2);
        config.max_associations_per_owner = Some(2);
    });
    let socket = w.one_to_many(A);
    assert_eq!(w.send_to(A, socket, at(B, 1), b"x"), Ok(1));
    assert_eq!(w.send_to(A, socket, at(B, 2), b"x"), Ok(1));
    assert_eq!(w.send_to(A, socket, at(B, 3), b"x"), Err(Errno::ENOMEM));
    w.one_to_many(A);
    w.one_to_many(A);
    let refused = w.look(A).socket(Style::OneToOne, Family::Inet);
    assert_eq!(refused, Err(Errno::EMFILE));
}

/// RFC 9260, section 8.4, rule 3: INITs to ports without a socket are refused.
#[test]
fn closed_ports_refuse_associations() {
    let mut w = World::new();
    let other = w.listener(Style::OneToOne, 5);
    for port in [PORT + 1, 1] {
        let a = w.one_to_one(A);
        w.connect(a, at(B, port)).unwrap_err();
        w.run(ms(100));
        assert_eq!(w.recv(A, a), Err(Errno::ECONNREFUSED));
    }
    assert_eq!(w.readiness(B, other), Readiness::NONE);
}
