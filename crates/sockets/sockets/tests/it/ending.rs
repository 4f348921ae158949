//! End of associations and sockets: EOF, `shutdown`, `close`, `SO_LINGER`, delivery in the background.

use carrick_sockets::linux::*;
use carrick_sockets::{Closed, Errno, Received, SocketId, Style};

use crate::world::*;

fn linger(world: &mut World, host: usize, socket: SocketId, seconds: i32) {
    let linger = Linger { on: 1, seconds }.encode();
    let option = (SOL_SOCKET, SO_LINGER);
    world.set_bytes(host, socket, option, &linger).unwrap();
}

/// RFC 6458, sections 4.1.4 to 4.1.8
#[test]
fn a_message_crosses_and_both_sides_close() {
    let mut w = World::new();
    let (a, b) = w.pair();
    assert_eq!(w.send(A, a, b"hello"), Ok(5));
    w.run(ms(100));
    let received = w.recv(B, b).unwrap();
    assert_eq!(&received.data[..], b"hello");
    assert_eq!(received.flags, MSG_EOR);
    assert_eq!(received.address.unwrap().ip(), ip(A, 0));
    assert_eq!(w.recv(B, b), Err(Errno::EAGAIN));
    assert_eq!(w.on(A, |s, now| s.close(now, a)), Ok(Closed::InBackground));
    w.run(ms(100));
    assert_eq!(w.recv(B, b), Ok(Received::default()));
    w.on(B, |s, now| s.close(now, b)).unwrap();
    w.run(secs(1));
    for host in [A, B] {
        let sockets = w.look(host);
        let left = (
            sockets.usage().sockets,
            sockets.usage().associations,
            sockets.usage().ports,
        );
        assert_eq!(left, (0, 0, 0));
    }
}

/// RFC 6458, section 4.1.7
#[test]
fn shutdown_of_writing_lets_the_peer_finish() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.send(A, a, b"last").unwrap();
    w.on(A, |s, now| s.shutdown(now, a, SHUT_WR)).unwrap();
    assert_eq!(w.send(A, a, b"more"), Err(Errno::EPIPE));
    w.run(ms(100));
    assert_eq!(&w.recv(B, b).unwrap().data[..], b"last");
    assert_eq!(w.recv(B, b), Ok(Received::default()), "end of messages");
    w.run(secs(1));
    assert_eq!(w.recv(A, a), Ok(Received::default()));
    assert_eq!(w.send(B, b, b"late"), Err(Errno::EPIPE));
    assert_eq!(w.on(A, |s, now| s.shutdown(now, a, SHUT_WR)), Ok(()));
    assert_eq!(
        w.look(A).peer_address(a),
        Ok(at(B, PORT)),
        "also after the end"
    );
}

/// As Linux: the wildcard address becomes that of the path, and notifications name the peer.
#[test]
fn connected_sockets_have_addresses() {
    let mut w = World::new();
    let (a, b) = w.pair();
    let local = w.look(A).local_address(a).unwrap();
    assert_eq!(local.ip(), ip(A, 0));
    w.subscribe(B, b, &[SCTP_SHUTDOWN_EVENT]);
    w.on(A, |s, now| s.shutdown(now, a, SHUT_WR)).unwrap();
    w.run(ms(100));
    let notification = w.recv(B, b).unwrap();
    assert_eq!(notification.flags, MSG_NOTIFICATION | MSG_EOR);
    assert_eq!(notification.address, Some(local));
}

/// As Linux
#[test]
fn listeners_have_no_reading_side_to_shut_down() {
    let mut w = World::new();
    let b = w.listener(Style::OneToOne, 5);
    let shutdown = |w: &mut World, how| w.on(B, |s, now| s.shutdown(now, b, how));
    assert_eq!(shutdown(&mut w, SHUT_WR), Ok(()));
    assert_eq!(shutdown(&mut w, SHUT_RD), Err(Errno::EOPNOTSUPP));
    assert_eq!(shutdown(&mut w, SHUT_RDWR), Err(Errno::EOPNOTSUPP));
    assert_eq!(w.look(B).unread(b), Err(Errno::ENOTCONN));
}

/// RFC 6458, section 4.1.7
#[test]
fn shutdown_of_reading_ends_messages_here() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.on(A, |s, now| s.shutdown(now, a, SHUT_RD)).unwrap();
    assert_eq!(w.recv(A, a), Ok(Received::default()));
    w.send(B, b, b"dropped").unwrap();
    w.run(ms(100));
    assert_eq!(w.recv(A, a), Ok(Received::default()));
    assert_eq!(w.send(A, a, b"more"), Ok(4));
    assert_eq!(w.on(A, |s, now| s.shutdown(now, a, 3)), Err(Errno::EINVAL));
}

/// RFC 6458, section 8.1.4
#[test]
fn linger_of_zero_aborts() {
    let mut w = World::new();
    let (a, b) = w.pair();
    linger(&mut w, A, a, 0);
    assert_eq!(w.on(A, |s, now| s.close(now, a)), Ok(Closed::Done));
    w.run(ms(100));
    assert_eq!(w.recv(B, b), Err(Errno::ECONNRESET));
    assert_eq!(
        w.recv(B, b),
        Ok(Received::default()),
        "the error is reported once"
    );
}

/// RFC 6458, section 8.1.4
#[test]
fn linger_reports_how_long_close_may_wait() {
    let mut w = World::new();
    let (a, b) = w.pair();
    linger(&mut w, A, a, 3);
    w.send(A, a, b"rest").unwrap();
    let closed = w.on(A, |s, now| s.close(now, a));
    assert_eq!(closed, Ok(Closed::Lingers(secs(3))));
    assert!(w.look(A).closing_sockets().contains(&a));
    w.run(secs(1));
    assert!(!w.look(A).closing_sockets().contains(&a));
    assert_eq!(w.recv_all(B, b).len(), 1);
}

/// RFC 6458, section 4.1.6
#[test]
fn close_delivers_unsent_messages() {
    let mut w = World::new();
    let (a, b) = w.pair();
    for number in 0..100 {
        w.send(A, a, &[number; 1000]).unwrap();
    }
    w.on(A, |s, now| s.close(now, a)).unwrap();
    assert_eq!(w.on(A, |s, now| s.close(now, a)), Err(Errno::EBADF));
    w.run(secs(10));
    let received = w.recv_all(B, b);
    let numbers: Vec<u8> = received.iter().map(|r| r.data[0]).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<u8>>());
    assert_eq!(w.look(A).usage().associations, 0);
}

/// Linux: `close` with unread messages aborts, as for TCP.
#[test]
fn close_with_unread_messages_aborts() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.send(A, a, b"unread").unwrap();
    w.run(ms(100));
    w.on(B, |s, now| s.close(now, b)).unwrap();
    w.run(ms(100));
    assert_eq!(w.recv(A, a), Err(Errno::ECONNRESET));
}

/// A program that crashes: its associations are aborted.
#[test]
fn abort_of_a_socket_resets_its_peer() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.on(A, |s, now| s.abort(now, a)).unwrap();
    w.run(ms(100));
    assert_eq!(w.recv(B, b), Err(Errno::ECONNRESET));
    assert_eq!(w.look(A).usage().ports, 0);
}

#[test]
fn a_thousand_sockets_leave_nothing_behind() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    for _ in 0..1000 {
        let a = w.one_to_one(A);
        w.connect(a, at(B, PORT)).unwrap_err();
        w.run(ms(50));
        let (b, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
        w.send(A, a, b"x").unwrap();
        w.on(A, |s, now| s.close(now, a)).unwrap();
        w.run(ms(50));
        w.recv(B, b).unwrap();
        w.on(B, |s, now| s.close(now, b)).unwrap();
        w.changes(A);
        w.changes(B);
    }
    w.run(secs(1));
    let a = w.look(A);
    assert_eq!(
        (a.usage().sockets, a.usage().associations, a.usage().ports),
        (0, 0, 0)
    );
    let b = w.look(B);
    assert_eq!(
        (b.usage().sockets, b.usage().associations, b.usage().ports),
        (1, 0, 1)
    );
}

/// A program takes neither the end for that of the data nor a set-up that was ended for a success.
#[test]
fn an_association_that_others_end_is_an_error() {
    let mut w = World::new();
    let (a, b) = w.pair();
    let abort = |w: &mut World, number| w.on(A, |s, now| s.abort_association(now, number, b"why"));
    assert_eq!(abort(&mut w, 99), Err(Errno::ENOENT));
    // The first identifier.
    let number = 3;
    assert_eq!(abort(&mut w, number).unwrap().peer, at(B, PORT));
    assert_eq!(abort(&mut w, number), Err(Errno::ENOENT));
    assert_eq!(w.recv(A, a), Err(Errno::ECONNABORTED));
    w.run(secs(1));
    assert_eq!(w.recv(B, b), Err(Errno::ECONNRESET));

    w.set_link(0, false);
    w.set_link(1, false);
    let pending = w.one_to_one(A);
    assert_eq!(w.connect(pending, at(B, PORT)), Err(Errno::EINPROGRESS));
    abort(&mut w, number + 1).unwrap();
    let error = w.look(A).pending_error(pending);
    assert_eq!(error, Ok(Some(Errno::ECONNABORTED)));
}

/// RFC 9260, section 9.1: also associations of closed sockets, which deliver in the background.
#[test]
fn the_end_of_the_host_aborts_all_associations() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.send(A, a, b"five!").unwrap();
    assert_eq!(w.on(A, |s, now| s.close(now, a)), Ok(Closed::InBackground));
    assert_eq!(w.look(A).usage().sockets, 0);
    let aborted = w.on(A, |s, now| s.abort_associations(now));
    let [aborted] = aborted[..] else {
        panic!("{aborted:?}");
    };
    assert_eq!(aborted.peer, at(B, PORT));
    assert_eq!(aborted.unacknowledged, 5);
    assert!(w.on(A, |s, now| s.abort_associations(now)).is_empty());
    w.run(secs(1));
    assert_eq!(w.look(A).usage().associations, 0);
    // The message has arrived; its acknowledgement had not.
    assert_eq!(&w.recv(B, b).unwrap().data[..], b"five!");
    assert_eq!(w.recv(B, b), Err(Errno::ECONNRESET));
}
