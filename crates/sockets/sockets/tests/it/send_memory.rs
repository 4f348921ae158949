//! Limit of the send buffers of all sockets of one owner.

use carrick_sockets::{Errno, Readiness, SocketId, Style};

use crate::world::*;

/// Limit of one owner in bytes, less than one socket's `SO_SNDBUF`.
const LIMIT: usize = 100_000;
const SIZE: usize = 10_000;

/// Returns connected sockets of host A with these owners, and those of their peers.
fn sockets(w: &mut World, owners: &[u32]) -> Vec<(SocketId, SocketId)> {
    let listener = w.listener(Style::OneToOne, 50);
    let connected = owners.iter().map(|owner| {
        let a = w.one_to_one(A);
        w.look(A).set_owner(a, *owner).unwrap();
        w.connect(a, at(B, PORT)).unwrap_err();
        w.run(ms(200));
        let (b, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
        (a, b)
    });
    connected.collect()
}

/// Sends messages until one is refused; returns how many were not.
fn fill(w: &mut World, socket: SocketId, size: usize) -> usize {
    let mut sent = 0;
    loop {
        match w.send(A, socket, &vec![7; size]) {
            Ok(_) => sent += 1,
            Err(error) => {
                assert_eq!(error, Errno::EAGAIN);
                return sent;
            }
        }
    }
}

fn is_writable(w: &mut World, socket: SocketId) -> bool {
    let level = w.look(A).readiness(socket).unwrap();
    level.contains(Readiness::WRITABLE)
}

#[test]
fn the_sockets_of_an_owner_share_a_limit() {
    let mut w = World::with(|config| config.send_memory_per_owner = LIMIT);
    let all = sockets(&mut w, &[7, 7, 8]);
    let [(a, of_a), (b, of_b), (other, _)] = all[..] else {
        unreachable!()
    };
    w.set_link(0, false);
    assert_eq!(fill(&mut w, a, SIZE), LIMIT / SIZE);
    assert_eq!(fill(&mut w, b, SIZE), 0);
    assert!(!is_writable(&mut w, a) && !is_writable(&mut w, b));
    // Small messages pass, so that no socket of the user is silenced by another one.
    assert_eq!(fill(&mut w, b, 1000), 4);
    assert_eq!(fill(&mut w, other, SIZE), LIMIT / SIZE);
    w.hand_over(A);
    assert_eq!(fill(&mut w, b, SIZE), 0);
    w.changes(A);
    w.set_link(0, true);
    w.run(secs(60));
    for socket in [a, b, other] {
        assert!(is_writable(&mut w, socket));
        assert_eq!(w.send(A, socket, &[7; SIZE]), Ok(SIZE));
    }
    w.run(secs(60));
    let received = |w: &mut World, socket| -> usize {
        let all = w.recv_all(B, socket);
        all.iter().map(|received| received.data.len()).sum()
    };
    assert_eq!(received(&mut w, of_a), LIMIT + SIZE);
    assert_eq!(received(&mut w, of_b), 4 * 1000 + SIZE);
}

/// Bytes of an association that has ended are free.
#[test]
fn an_ended_association_leaves_its_share() {
    let mut w = World::with(|config| config.send_memory_per_owner = LIMIT);
    let all = sockets(&mut w, &[7, 7]);
    let [(a, _), (b, _)] = all[..] else {
        unreachable!()
    };
    w.set_link(0, false);
    assert_eq!(fill(&mut w, a, SIZE), LIMIT / SIZE);
    assert_eq!(fill(&mut w, b, SIZE), 0);
    w.on(A, |s, now| s.abort(now, a)).unwrap();
    assert!(is_writable(&mut w, b));
    assert_eq!(fill(&mut w, b, SIZE), LIMIT / SIZE);
}

#[test]
fn a_message_above_the_limit_is_sent_alone() {
    let mut w = World::with(|config| config.send_memory_per_owner = 1000);
    let all = sockets(&mut w, &[7]);
    let (a, b) = all[0];
    for _ in 0..2 {
        assert_eq!(w.send(A, a, &[7; SIZE]), Ok(SIZE));
        assert_eq!(w.send(A, a, &[7; SIZE]), Err(Errno::EAGAIN));
        w.run(secs(1));
        assert!(is_writable(&mut w, a));
        assert_eq!(w.recv_all(B, b).len(), 1);
    }
}
