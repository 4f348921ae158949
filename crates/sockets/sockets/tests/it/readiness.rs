//! Readiness and its edges, and reads without blocking.

use carrick_sockets::linux::*;
use carrick_sockets::{Errno, Readiness, Received, Style};

use crate::world::*;

/// RFC 6458, section 4.1.5: `connect` without blocking
#[test]
fn connect_in_progress_becomes_writable() {
    let mut w = World::new();
    w.listener(Style::OneToOne, 5);
    let a = w.one_to_one(A);
    assert_eq!(w.connect(a, at(B, PORT)), Err(Errno::EINPROGRESS));
    assert_eq!(w.connect(a, at(B, PORT)), Err(Errno::EALREADY));
    assert_eq!(w.readiness(A, a), Readiness::NONE);
    w.run(ms(100));
    assert_eq!(w.changes(A), [(a, Readiness::WRITABLE)]);
    assert_eq!(w.readiness(A, a), Readiness::WRITABLE);
    assert_eq!(w.get_int(A, a, (SOL_SOCKET, SO_ERROR)), Ok(0));
    assert_eq!(w.connect(a, at(B, PORT)), Err(Errno::EISCONN));
}

/// RFC 6458, section 4.1.5
#[test]
fn failed_connect_hangs_up_with_an_error() {
    let mut w = World::new();
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    let level = w.readiness(A, a);
    assert!(
        level.contains(Readiness::HANG_UP | Readiness::ERROR),
        "{level:?}"
    );
    assert!(!level.contains(Readiness::WRITABLE));
    let error = Errno::ECONNREFUSED.number();
    assert_eq!(w.get_int(A, a, (SOL_SOCKET, SO_ERROR)), Ok(error));
    assert_eq!(w.get_int(A, a, (SOL_SOCKET, SO_ERROR)), Ok(0));
    assert!(!w.readiness(A, a).contains(Readiness::ERROR));
    // Another attempt is possible.
    w.listener(Style::OneToOne, 5);
    assert_eq!(w.connect(a, at(B, PORT)), Err(Errno::EINPROGRESS));
    w.run(ms(100));
    assert_eq!(w.readiness(A, a), Readiness::WRITABLE);
}

#[test]
fn each_message_is_an_edge() {
    let mut w = World::new();
    let (a, b) = w.pair();
    for _ in 0..3 {
        w.send(A, a, b"message").unwrap();
        w.run(ms(500));
        assert_eq!(w.changes(B), [(b, Readiness::READABLE)], "not read before");
    }
    assert_eq!(w.recv_all(B, b).len(), 3);
    assert_eq!(w.recv(B, b), Err(Errno::EAGAIN));
    assert_eq!(w.readiness(B, b), Readiness::WRITABLE);
    w.send(A, a, b"after EAGAIN").unwrap();
    w.run(ms(500));
    assert_eq!(w.changes(B), [(b, Readiness::READABLE)]);
    assert_eq!(w.changes(A), []);
}

#[test]
fn a_full_send_buffer_is_writable_again_later() {
    let mut w = World::new();
    let (a, b) = w.pair();
    let mut sent = 0;
    let refused = loop {
        match w.on(A, |s, now| {
            let message = carrick_sockets::OutgoingMessage {
                data: vec![0; 10_000].into(),
                ..Default::default()
            };
            s.sendmsg(now, a, &message)
        }) {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Errno::EAGAIN);
    assert_eq!(w.readiness(A, a), Readiness::NONE);
    w.changes(A);
    let mut received = 0;
    for _ in 0..100 {
        w.run(ms(100));
        received += w.recv_all(B, b).len();
    }
    assert_eq!(received, sent);
    assert_eq!(w.changes(A), [(a, Readiness::WRITABLE)]);
    assert_eq!(w.readiness(A, a), Readiness::WRITABLE);
}

#[test]
fn the_end_of_the_peer_is_readable_and_hangs_up() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.on(A, |s, now| s.shutdown(now, a, SHUT_WR)).unwrap();
    w.run(ms(200));
    let closed = Readiness::READABLE | Readiness::READ_CLOSED | Readiness::HANG_UP;
    assert_eq!(w.readiness(B, b), closed);
    assert_eq!(w.changes(B).len(), 1);
    assert_eq!(w.recv(B, b), Ok(Received::default()));
}

/// Linux: `MSG_PEEK` leaves the message, and `MSG_DONTWAIT` is what every call does.
#[test]
fn a_peek_leaves_the_message() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.send(A, a, b"peek").unwrap();
    w.run(ms(100));
    let peeked = w.recv_with(B, b, 100, MSG_PEEK).unwrap();
    assert_eq!((&peeked.data[..], peeked.flags), (&b"peek"[..], MSG_EOR));
    let part = w.recv_with(B, b, 2, MSG_PEEK | MSG_DONTWAIT).unwrap();
    assert_eq!((&part.data[..], part.flags), (&b"pe"[..], 0));
    assert_eq!(w.look(B).unread(b), Ok(4));
    assert_eq!(w.recv(B, b).unwrap(), peeked);
    assert_eq!(w.recv_with(B, b, 100, MSG_PEEK), Err(Errno::EAGAIN));
}

/// Linux: what does not fit is read by the next call; `MSG_TRUNC` is never set.
#[test]
fn a_short_buffer_gets_the_message_in_parts() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.send(A, a, b"in parts").unwrap();
    w.send(A, a, b"next").unwrap();
    w.run(ms(100));
    let parts: Vec<Received> = (0..4)
        .map(|_| w.recv_with(B, b, 3, MSG_TRUNC).unwrap())
        .collect();
    let seen: Vec<_> = parts.iter().map(|p| (&p.data[..], p.flags)).collect();
    let expected: [(&[u8], i32); 4] = [(b"in ", 0), (b"par", 0), (b"ts", MSG_EOR), (b"nex", 0)];
    assert_eq!(seen, expected);
    let rests: Vec<bool> = parts.iter().map(|p| p.has_rest).collect();
    assert_eq!(rests, [true, true, false, true]);
}

/// RFC 6458, section 8.1: the caller who blocks applies the limits.
#[test]
fn time_limits_of_blocking_calls_are_kept() {
    let mut w = World::new();
    let a = w.one_to_one(A);
    let limit = TimeValue {
        seconds: 1,
        microseconds: 500_000,
    };
    let option = (SOL_SOCKET, SO_RCVTIMEO);
    w.set_bytes(A, a, option, &limit.encode()).unwrap();
    assert_eq!(w.look(A).timeouts(a), Ok((Some(ms(1500)), None)));
    assert_eq!(w.get_bytes(A, a, option, &[0; 16]), Ok(limit.encode()));
    let wrong = TimeValue {
        seconds: 0,
        microseconds: 1_000_000,
    };
    assert_eq!(w.set_bytes(A, a, option, &wrong.encode()), Err(Errno::EDOM));
}
