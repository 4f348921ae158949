//! Listening sockets and their accept queues.

use std::net::SocketAddr;

use carrick_sockets::linux::*;
use carrick_sockets::{Errno, Readiness, Received, SocketId, Style};

use crate::world::*;

fn connect_many(w: &mut World, count: usize) -> Vec<SocketId> {
    let sockets = (0..count).map(|_| {
        let socket = w.one_to_one(A);
        w.connect(socket, at(B, PORT)).unwrap_err();
        w.run(ms(100));
        socket
    });
    sockets.collect()
}

/// RFC 6458, section 4.1.4
#[test]
fn a_listener_becomes_readable() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    assert_eq!(w.on(B, |s, _| s.accept(listener)), Err(Errno::EAGAIN));
    let a = connect_many(&mut w, 1)[0];
    assert_eq!(w.changes(B), [(listener, Readiness::READABLE)]);
    assert_eq!(w.readiness(B, listener), Readiness::READABLE);
    let (b, peer) = w.on(B, |s, _| s.accept(listener)).unwrap();
    assert_eq!(w.readiness(B, listener), Readiness::NONE);
    assert_eq!(w.changes(B), [(b, Readiness::WRITABLE)]);
    assert_eq!(peer.ip(), ip(A, 0));
    assert_eq!(w.look(B).peer_address(b), Ok(peer));
    assert_eq!(w.look(A).local_address(a).unwrap().port(), peer.port());
    assert_eq!(w.get_int(B, listener, (SOL_SOCKET, SO_ACCEPTCONN)), Ok(1));
}

/// RFC 6458, section 4.1.3
#[test]
fn the_backlog_bounds_the_accept_queue() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 1);
    let clients = connect_many(&mut w, 3);
    let level = w.readiness(A, clients[2]);
    assert!(level.contains(Readiness::ERROR), "refused with ABORT");
    assert_eq!(w.look(B).usage().associations, 2, "one more, as Linux");
    w.on(B, |s, _| s.accept(listener)).unwrap();
    let late = connect_many(&mut w, 1)[0];
    assert_eq!(w.readiness(A, late), Readiness::WRITABLE);
}

#[test]
fn set_ups_beyond_the_backlog_are_refused() {
    let mut w = World::new();
    w.listener(Style::OneToOne, 1);
    let clients: Vec<SocketId> = (0..5)
        .map(|_| {
            let socket = w.one_to_one(A);
            w.connect(socket, at(B, PORT)).unwrap_err();
            socket
        })
        .collect();
    w.run(secs(1));
    let up = clients
        .iter()
        .filter(|c| w.readiness(A, **c) == Readiness::WRITABLE);
    assert_eq!(up.count(), 2);
    assert_eq!(w.look(B).usage().associations, 2);
}

/// As Linux, also on one-to-one sockets
#[test]
fn a_backlog_of_zero_ends_listening() {
    let mut w = World::new();
    let b = w.listener(Style::OneToOne, 5);
    w.on(B, |s, _| s.listen(b, 0)).unwrap();
    let a = connect_many(&mut w, 1)[0];
    let error = (SOL_SOCKET, SO_ERROR);
    let refused = Errno::ECONNREFUSED.number();
    assert_eq!(w.get_int(A, a, error), Ok(refused));
    assert_eq!(w.on(B, |s, _| s.listen(b, 0)), Err(Errno::EINVAL));
    let many = w.one_to_many(B);
    assert_eq!(w.on(B, |s, _| s.listen(many, 0)), Err(Errno::EINVAL));
}

/// As Linux: the notification and the end of messages, and no error
#[test]
fn an_abort_before_accept_is_no_error() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    w.subscribe(B, listener, &[SCTP_ASSOC_CHANGE]);
    let a = connect_many(&mut w, 1)[0];
    w.on(A, |s, now| s.abort(now, a)).unwrap();
    w.run(ms(100));
    let (b, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
    let states: Vec<i32> = w
        .recv_all(B, b)
        .iter()
        .map(|r| AssocChange::read(&r.data).unwrap().state.into())
        .collect();
    assert_eq!(states, [SCTP_COMM_UP, SCTP_COMM_LOST]);
    assert_eq!(w.recv(B, b), Ok(Received::default()));
}

/// Messages before `accept` belong to the accepted socket, and options are inherited.
#[test]
fn messages_before_accept_are_kept() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    w.set_int(B, listener, (IPPROTO_SCTP, SCTP_RECVRCVINFO), 1)
        .unwrap();
    let a = connect_many(&mut w, 1)[0];
    w.send(A, a, b"early").unwrap();
    w.run(ms(100));
    let (b, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
    assert!(
        w.changes(B)
            .contains(&(b, Readiness::READABLE | Readiness::WRITABLE))
    );
    let received = w.recv(B, b).unwrap();
    assert_eq!(&received.data[..], b"early");
    assert!(!received.control.is_empty());
}

#[test]
fn closing_a_listener_ends_its_queue() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    let a = connect_many(&mut w, 1)[0];
    w.on(B, |s, now| s.close(now, listener)).unwrap();
    w.run(secs(1));
    assert!(w.readiness(A, a).contains(Readiness::HANG_UP));
    assert_eq!((w.look(B).usage().sockets, w.look(B).usage().ports), (0, 0));
    assert_eq!(w.on(B, |s, _| s.accept(listener)), Err(Errno::EBADF));
}

#[test]
fn only_listening_one_to_one_sockets_accept() {
    let mut w = World::new();
    let (one, many) = (w.one_to_one(B), w.one_to_many(B));
    assert_eq!(w.on(B, |s, _| s.accept(one)), Err(Errno::EINVAL));
    assert_eq!(w.on(B, |s, _| s.accept(many)), Err(Errno::EOPNOTSUPP));
    let (_, b) = w.pair();
    assert_eq!(w.on(B, |s, _| s.listen(b, 5)), Err(Errno::EINVAL));
}

/// Peers may occupy the receive buffer of the host, and no memory beside it.
#[test]
fn messages_wait_in_the_core_until_accept() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    let a = connect_many(&mut w, 1)[0];
    let window = |w: &mut World| {
        let status = w.get_bytes(A, a, (IPPROTO_SCTP, SCTP_STATUS), &[0; 176]);
        // sstat_rwnd
        u32::from_ne_bytes(*status.unwrap()[8..].first_chunk().unwrap())
    };
    let free = window(&mut w);
    for _ in 0..10 {
        w.send(A, a, &[0; 5000]).unwrap();
    }
    w.run(secs(2));
    assert!(
        window(&mut w) + 50_000 <= free,
        "{} of {free}",
        window(&mut w)
    );
    let (b, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
    assert!(w.readiness(B, b).contains(Readiness::READABLE));
    for _ in 0..10 {
        assert_eq!(w.recv(B, b).unwrap().data.len(), 5000);
    }
}

/// RFC 9260, section 6.2: data beyond the memory is dropped, and retransmitted when there is room.
#[test]
fn received_data_of_all_ports_has_one_limit() {
    const LIMIT: usize = 256 << 10;
    const PORTS: u16 = 8;
    let mut w = World::with(|config| config.receive_memory = LIMIT);
    let mut pairs = Vec::new();
    for number in PORT..PORT + PORTS {
        let listener = w.one_to_one(B);
        w.on(B, |s, _| s.bind(listener, at(B, number))).unwrap();
        w.on(B, |s, _| s.listen(listener, 5)).unwrap();
        let a = w.one_to_one(A);
        w.connect(a, at(B, number)).unwrap_err();
        w.run(ms(100));
        pairs.push((a, listener));
    }
    for _ in 0..20 {
        for (a, _) in &pairs {
            w.send(A, *a, &[0; 4000]).unwrap();
        }
    }
    let mut most = 0;
    for _ in 0..100 {
        w.run(ms(100));
        most = most.max(w.look(B).usage().receive_memory);
    }
    // Every association may hold 4 KiB regardless.
    let limit = LIMIT + usize::from(PORTS) * 4096;
    assert!((LIMIT / 2..=limit).contains(&most), "{most}");
    for (_, listener) in &pairs {
        let (b, _) = w.on(B, |s, _| s.accept(*listener)).unwrap();
        let mut read = 0;
        for _ in 0..600 {
            while w.readiness(B, b).contains(Readiness::READABLE) {
                read += w.recv(B, b).unwrap().data.len();
            }
            w.run(ms(100));
        }
        assert_eq!(read, 20 * 4000);
    }
    assert_eq!(w.look(B).usage().receive_memory, 0);
}

/// Returns a listening socket of host B at all of its addresses.
fn listening(w: &mut World, number: u16, owner: u32) -> SocketId {
    let listener = w.one_to_one(B);
    w.look(B).set_owner(listener, owner).unwrap();
    let any = SocketAddr::from(([0; 4], number));
    w.on(B, |s, _| s.bind(listener, any)).unwrap();
    w.on(B, |s, _| s.listen(listener, 100)).unwrap();
    listener
}

/// Sets up an association with a port of host B from the address of host A on a link. Returns whether it is
/// established.
fn connects(w: &mut World, link: u8, number: u16) -> (SocketId, bool) {
    let socket = w.one_to_one(A);
    let local = SocketAddr::new(ip(A, link), 0);
    w.on(A, |s, _| s.bind(socket, local)).unwrap();
    let peer = SocketAddr::new(ip(B, link), number);
    w.connect(socket, peer).unwrap_err();
    w.run(ms(100));
    let is_up = w.readiness(A, socket) == Readiness::WRITABLE;
    (socket, is_up)
}

/// Another address of the same host stands for another host.
#[test]
fn a_source_has_one_share_of_all_ports() {
    const PORTS: u16 = 9;
    let mut w = World::with(|config| config.max_associations = 160);
    for number in PORT..PORT + PORTS {
        listening(&mut w, number, 0);
    }
    let mut sockets = Vec::new();
    for _ in 0..3 {
        for number in PORT..PORT + PORTS {
            sockets.push(connects(&mut w, 0, number));
        }
    }
    assert_eq!(w.look(B).usage().associations, 20, "an eighth");
    w.hand_over(B);
    assert!(!connects(&mut w, 0, PORT).1, "also after a handover");
    assert!(connects(&mut w, 1, PORT).1);
    let (first, _) = sockets[0];
    w.on(A, |s, now| s.abort(now, first)).unwrap();
    w.run(ms(100));
    assert!(connects(&mut w, 0, PORT + 1).1, "a place is free again");
}

/// A source that fills the gaps of each port leaves half of the memory to others.
#[test]
fn received_data_of_a_source_is_bounded_in_total() {
    const LIMIT: usize = 512 << 10;
    const PORTS: u16 = 6;
    let mut w = World::with(|config| config.receive_memory = LIMIT);
    for number in PORT..=PORT + PORTS {
        listening(&mut w, number, number.into());
    }
    let greedy: Vec<SocketId> = (PORT..PORT + PORTS)
        .map(|number| connects(&mut w, 0, number).0)
        .collect();
    for socket in &greedy {
        while w.send(A, *socket, &[0; 4000]).is_ok() {}
        w.run(secs(5));
    }
    let held = w.look(B).usage().receive_memory;
    let share = LIMIT / 2;
    let most = share + usize::from(PORTS) * 2 * 4096;
    assert!((share - 8192..=most).contains(&held), "{held}");
    w.hand_over(B);
    let (other, _) = connects(&mut w, 1, PORT + PORTS);
    while w.send(A, other, &[0; 4000]).is_ok() {}
    w.run(secs(5));
    let more = w.look(B).usage().receive_memory - held;
    assert!(more >= LIMIT / 8, "{more}");
}

#[test]
fn an_owner_has_limits_of_associations_and_memory() {
    const MEMORY: usize = 64 << 10;
    let mut w = World::with(|config| {
        config.max_associations_per_owner = Some(3);
        config.receive_memory_per_owner = Some(MEMORY);
    });
    let first = listening(&mut w, PORT, 1);
    listening(&mut w, PORT + 1, 2);
    // At host A all sockets have different owners.
    let connect = |w: &mut World, number| {
        let socket = w.one_to_one(A);
        w.look(A).set_owner(socket, socket_number(socket)).unwrap();
        w.connect(socket, at(B, number)).unwrap_err();
        w.run(ms(100));
        (socket, w.readiness(A, socket) == Readiness::WRITABLE)
    };
    let greedy = [(); 3].map(|()| connect(&mut w, PORT));
    assert!(greedy.iter().all(|(_, is_up)| *is_up));
    assert!(!connect(&mut w, PORT).1, "the limit of owner 1");
    w.hand_over(B);
    assert!(!connect(&mut w, PORT).1, "also after a handover");
    let other = w.one_to_one(B);
    w.look(B).set_owner(other, 1).unwrap();
    let started = w.on(B, |s, now| s.connect(now, other, at(A, PORT)));
    assert_eq!(started, Err(Errno::ENOMEM));
    let (modest, is_up) = connect(&mut w, PORT + 1);
    assert!(is_up, "another owner");

    for (socket, _) in greedy {
        while w.send(A, socket, &[0; 4000]).is_ok() {}
        w.run(secs(5));
    }
    let held = w.look(B).usage().receive_memory;
    assert!(
        (MEMORY / 2..=MEMORY + 3 * 2 * 4096).contains(&held),
        "{held}"
    );
    while w.send(A, modest, &[0; 4000]).is_ok() {}
    w.run(secs(5));
    assert!(w.look(B).usage().receive_memory - held > MEMORY / 2);
    // Closing frees everything.
    w.on(B, |s, now| s.abort(now, first)).unwrap();
    w.run(ms(100));
    let listener = listening(&mut w, PORT, 1);
    let (_, is_up) = connect(&mut w, PORT);
    assert!(is_up && w.on(B, |s, _| s.accept(listener)).is_ok());
}

fn socket_number(socket: SocketId) -> u32 {
    socket.to_string().parse().unwrap()
}

/// As on Linux: a load generator, or a translator with many hosts behind it, is one source.
#[test]
fn a_source_alone_fills_the_accept_queue() {
    let mut w = World::new();
    listening(&mut w, PORT, 0);
    let up = (0..103).filter(|_| connects(&mut w, 0, PORT).1).count();
    assert_eq!(up, 101);
    assert!(!connects(&mut w, 1, PORT).1, "as on Linux");
}

#[test]
fn sources_that_compete_share_the_last_quarter() {
    let mut w = World::new();
    let listener = listening(&mut w, PORT, 0);
    assert!((0..70).all(|_| connects(&mut w, 0, PORT).1));
    assert!(connects(&mut w, 1, PORT).1);
    let more = (0..10).filter(|_| connects(&mut w, 0, PORT).1).count();
    assert_eq!(more, 4, "up to three quarters");
    w.hand_over(B);
    assert!(!connects(&mut w, 0, PORT).1, "also after a handover");
    let others = (0..40).filter(|_| connects(&mut w, 1, PORT).1).count();
    assert_eq!(others, 24, "a quarter");
    w.on(B, |s, _| s.accept(listener)).unwrap();
    assert!(!connects(&mut w, 0, PORT).1);
}

#[test]
fn the_share_of_a_backlog_is_a_parameter() {
    let mut w = World::with(|config| config.backlog_per_source = Some(100));
    listening(&mut w, PORT, 0);
    assert!(connects(&mut w, 1, PORT).1);
    let up = (0..103).filter(|_| connects(&mut w, 0, PORT).1).count();
    assert_eq!(up, 100);
}
