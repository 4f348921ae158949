//! One-to-many sockets (RFC 6458, section 3).

use std::net::SocketAddr;

use carrick_sockets::ancillary::ControlMessage;
use carrick_sockets::linux::*;
use carrick_sockets::{Errno, Family, Readiness, SocketId, Style};

use crate::world::*;

/// Returns the socket of host A and the listening one of host B, with an association of one message.
fn connected(w: &mut World) -> (SocketId, SocketId) {
    let b = w.listener(Style::OneToMany, 5);
    w.subscribe(B, b, &[SCTP_ASSOC_CHANGE, SCTP_SHUTDOWN_EVENT]);
    w.set_int(B, b, (IPPROTO_SCTP, SCTP_RECVRCVINFO), 1)
        .unwrap();
    let a = w.one_to_many(A);
    w.subscribe(A, a, &[SCTP_ASSOC_CHANGE]);
    w.send_to(A, a, at(B, PORT), b"first").unwrap();
    w.run(ms(200));
    (a, b)
}

/// Returns the identifiers of a socket's associations.
fn ids(w: &mut World, host: usize, socket: SocketId) -> Vec<i32> {
    let option = (IPPROTO_SCTP, SCTP_GET_ASSOC_ID_LIST);
    let list = w.get_bytes(host, socket, option, &[0; 1024]).unwrap();
    let ids = list[4..].chunks_exact(4);
    ids.map(|id| i32::from_ne_bytes(id.try_into().unwrap()))
        .collect()
}

fn states(w: &mut World, host: usize, socket: SocketId) -> Vec<i32> {
    let all = w.recv_all(host, socket);
    let changes = all.iter().filter(|r| r.flags & MSG_NOTIFICATION != 0);
    changes
        .filter(|r| kind(r) == SCTP_ASSOC_CHANGE)
        .map(|r| AssocChange::read(&r.data).unwrap().state.into())
        .collect()
}

/// RFC 6458, section 3.1
#[test]
fn a_message_sets_up_an_association() {
    let mut w = World::new();
    let (a, b) = connected(&mut w);
    let up = w.recv(B, b).unwrap();
    assert_eq!(up.flags, MSG_NOTIFICATION | MSG_EOR, "COMM_UP before data");
    let up = AssocChange::decode(&up.data).unwrap();
    assert_eq!(i32::from(up.state), SCTP_COMM_UP);
    assert_eq!((up.outbound_streams, up.inbound_streams), (10, 10));
    let message = w.recv(B, b).unwrap();
    assert_eq!(&message.data[..], b"first");
    assert!(up.assoc_id >= 3);
    assert_eq!(ids(&mut w, B, b), [up.assoc_id]);
    // The answer goes to the address, and the next one to the identifier.
    assert_eq!(
        w.send_to(B, b, message.address.unwrap(), b"by address"),
        Ok(10)
    );
    assert_eq!(
        w.send_msg(B, b, None, b"by id", &[sndinfo(0, up.assoc_id)]),
        Ok(5)
    );
    w.run(ms(200));
    let answers: Vec<_> = w
        .recv_all(A, a)
        .into_iter()
        .skip(1)
        .map(|r| r.data)
        .collect();
    assert_eq!(answers, [&b"by address"[..], b"by id"]);
    assert_eq!(
        w.on(A, |s, now| s.connect(now, a, at(B, PORT))),
        Err(Errno::EISCONN)
    );
}

/// RFC 6458, section 5.3.1: values of `SCTP_INIT` for the association that the message sets up.
#[test]
fn an_init_message_sets_the_streams() {
    let mut w = World::new();
    let b = w.listener(Style::OneToMany, 5);
    w.subscribe(B, b, &[SCTP_ASSOC_CHANGE]);
    let a = w.one_to_many(A);
    let init = InitMsg {
        num_ostreams: 3,
        max_instreams: 2,
        ..InitMsg::default()
    };
    let control = ControlMessage::sctp(SCTP_INIT, init.encode());
    w.send_msg(A, a, Some(at(B, PORT)), b"x", &[control])
        .unwrap();
    w.run(ms(200));
    let up = AssocChange::decode(&w.recv(B, b).unwrap().data).unwrap();
    assert_eq!((up.outbound_streams, up.inbound_streams), (2, 3));
}

/// RFC 6458, section 5.3.4: `SCTP_ABORT`
#[test]
fn abort_ends_one_association() {
    let mut w = World::new();
    let (a, b) = connected(&mut w);
    let id = ids(&mut w, A, a)[0];
    let sent = w.send_msg(A, a, None, b"reason", &[sndinfo(SCTP_ABORT, id)]);
    assert_eq!(sent, Ok(0));
    w.run(ms(100));
    let all = w.recv_all(A, a);
    let lost = AssocChange::read(&all.last().unwrap().data).unwrap();
    assert_eq!(i32::from(lost.state), SCTP_COMM_LOST);
    assert_eq!(lost.error, 12_u16.to_be(), "also for who aborts");
    let all = w.recv_all(B, b);
    let lost = AssocChange::read(&all.last().unwrap().data).unwrap();
    assert_eq!(i32::from(lost.state), SCTP_COMM_LOST);
    assert_eq!(lost.error, 12_u16.to_be(), "user-initiated abort");
    assert!(all.last().unwrap().data.ends_with(b"reason"));
    assert_eq!((ids(&mut w, A, a), ids(&mut w, B, b)), (vec![], vec![]));
}

/// RFC 6458, section 5.3.4: `SCTP_EOF`
#[test]
fn eof_shuts_one_association_down() {
    let mut w = World::new();
    let (a, b) = connected(&mut w);
    let id = ids(&mut w, A, a)[0];
    let with_data = w.send_msg(A, a, None, b"x", &[sndinfo(SCTP_EOF, id)]);
    assert_eq!(with_data, Err(Errno::EINVAL));
    assert_eq!(w.send_msg(A, a, None, b"", &[sndinfo(SCTP_EOF, id)]), Ok(0));
    w.run(secs(1));
    assert_eq!(states(&mut w, A, a), [SCTP_COMM_UP, SCTP_SHUTDOWN_COMP]);
    let kinds: Vec<_> = w
        .recv_all(B, b)
        .iter()
        .map(|r| (r.flags & MSG_NOTIFICATION != 0).then(|| kind(r)))
        .collect();
    let expected = [
        Some(SCTP_ASSOC_CHANGE),
        None,
        Some(SCTP_SHUTDOWN_EVENT),
        Some(SCTP_ASSOC_CHANGE),
    ];
    assert_eq!(kinds, expected, "the message comes before the end");
}

/// RFC 6458, section 5.3.4: `SCTP_SENDALL`
#[test]
fn sendall_reaches_every_association() {
    let mut w = World::new();
    let b = w.listener(Style::OneToMany, 5);
    let clients: Vec<SocketId> = (0..3)
        .map(|_| {
            let a = w.one_to_one(A);
            w.connect(a, at(B, PORT)).unwrap_err();
            a
        })
        .collect();
    w.run(ms(200));
    assert_eq!(
        w.get_int(B, b, (IPPROTO_SCTP, SCTP_GET_ASSOC_NUMBER)),
        Ok(3)
    );
    assert_eq!(
        w.send_msg(B, b, None, b"all", &[sndinfo(SCTP_SENDALL, 0)]),
        Ok(3)
    );
    w.run(ms(200));
    for a in clients {
        assert_eq!(&w.recv(A, a).unwrap().data[..], b"all");
    }
}

/// As Linux
#[test]
fn sendall_without_associations_sends_nothing() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    let sent = w.send_msg(A, a, None, b"none", &[sndinfo(SCTP_SENDALL, 0)]);
    assert_eq!(sent, Ok(0));
}

/// RFC 6458, sections 8.1.1, 8.1.2, 8.1.12 and 8.1.16
#[test]
fn some_options_refuse_wildcard_identifiers() {
    let mut w = World::new();
    let (a, _) = connected(&mut w);
    for assoc_id in [SCTP_CURRENT_ASSOC, SCTP_ALL_ASSOC] {
        let rto = RtoInfo {
            assoc_id,
            ..RtoInfo::default()
        };
        assert_eq!(w.set(A, a, SCTP_RTOINFO, &rto), Err(Errno::EINVAL));
        let params = AssocParams {
            assoc_id,
            ..AssocParams::default()
        };
        assert_eq!(w.set(A, a, SCTP_ASSOCINFO, &params), Err(Errno::EINVAL));
        let path = PaddrParams {
            assoc_id,
            ..PaddrParams::default()
        };
        assert_eq!(
            w.set(A, a, SCTP_PEER_ADDR_PARAMS, &path),
            Err(Errno::EINVAL)
        );
        let size = AssocValue { assoc_id, value: 0 };
        assert_eq!(w.set(A, a, SCTP_MAXSEG, &size), Err(Errno::EINVAL));
        assert_eq!(w.set(A, a, SCTP_CONTEXT, &size), Ok(0));
    }
}

/// As Linux
#[test]
fn shutdown_of_a_branch_has_no_effect() {
    let mut w = World::new();
    let (a, b) = connected(&mut w);
    let id = ids(&mut w, B, b)[0];
    let branched = w.on(B, |s, now| s.peeloff(now, b, id)).unwrap();
    assert_eq!(w.on(B, |s, now| s.shutdown(now, branched, SHUT_WR)), Ok(()));
    assert_eq!(w.send(B, branched, b"later"), Ok(5));
    w.run(ms(100));
    assert_eq!(&w.recv_all(A, a).last().unwrap().data[..], b"later");
    let again = w.on(B, |s, now| s.connect(now, branched, at(A, 1)));
    assert_eq!(again, Err(Errno::EISCONN));
    assert!(w.look(B).peer_address(branched).is_ok());
}

/// The map of peers follows their addresses.
#[test]
fn peers_are_found_by_each_address() {
    let mut w = World::new();
    let b = w.look(B).socket(Style::OneToMany, Family::Inet).unwrap();
    let any = SocketAddr::new([0, 0, 0, 0].into(), PORT);
    w.look(B).bind(b, any).unwrap();
    w.on(B, |s, _| s.listen(b, 5)).unwrap();
    let a = w.one_to_many(A);
    w.send_to(A, a, at(B, PORT), b"one").unwrap();
    w.run(ms(200));
    let second = SocketAddr::new(ip(B, 1), PORT);
    assert_eq!(w.send_to(A, a, second, b"two"), Ok(3));
    assert_eq!(ids(&mut w, A, a).len(), 1, "the same association");
    let id = ids(&mut w, A, a)[0];
    w.send_msg(A, a, None, b"", &[sndinfo(SCTP_ABORT, id)])
        .unwrap();
    w.run(ms(200));
    assert_eq!(w.send_to(A, a, second, b"three"), Ok(5));
    assert_ne!(ids(&mut w, A, a), [id], "another association");
}

/// RFC 6458, section 9.2
#[test]
fn peeloff_takes_queued_messages_along() {
    let mut w = World::new();
    let (a, b) = connected(&mut w);
    let other = w.one_to_many(A);
    w.send_to(A, other, at(B, PORT), b"other").unwrap();
    w.run(ms(200));
    w.send_to(A, a, at(B, PORT), b"second").unwrap();
    w.run(ms(500));
    let id = ids(&mut w, B, b)[0];
    w.changes(B);
    let branched = w.on(B, |s, now| s.peeloff(now, b, id)).unwrap();
    assert!(
        w.readiness(B, branched)
            .contains(Readiness::READABLE | Readiness::WRITABLE)
    );
    let data: Vec<_> = w
        .recv_all(B, branched)
        .into_iter()
        .skip(1)
        .map(|r| r.data)
        .collect();
    assert_eq!(data, [&b"first"[..], b"second"]);
    let data: Vec<_> = w
        .recv_all(B, b)
        .into_iter()
        .skip(1)
        .map(|r| r.data)
        .collect();
    assert_eq!(data, [&b"other"[..]]);
    assert_eq!(w.send(B, branched, b"answer"), Ok(6));
    assert_eq!(w.on(B, |s, now| s.peeloff(now, b, id)), Err(Errno::EINVAL));
    assert_eq!(
        w.on(B, |s, now| s.peeloff(now, branched, id)),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        w.get_int(B, branched, (SOL_SOCKET, SO_TYPE)),
        Ok(SOCK_SEQPACKET)
    );
    w.on(B, |s, now| s.close(now, branched)).unwrap();
    w.run(secs(1));
    assert_eq!(states(&mut w, A, a), [SCTP_COMM_UP, SCTP_SHUTDOWN_COMP]);
    assert_eq!(ids(&mut w, B, b).len(), 1);
}

/// RFC 6458, section 9.2: a branched-off socket has one association.
#[test]
fn branched_off_sockets_do_not_connect() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    // The port has no listening socket, so that the set-up fails.
    let id = w
        .on(A, |s, now| s.connectx(now, a, &[at(B, PORT)]))
        .unwrap();
    let branched = w.on(A, |s, now| s.peeloff(now, a, id.number())).unwrap();
    assert_eq!(w.connect(branched, at(B, PORT)), Err(Errno::EISCONN));
    w.run(secs(1));
    assert!(w.readiness(A, branched).contains(Readiness::HANG_UP));
    w.listener(Style::OneToMany, 5);
    assert_eq!(w.connect(branched, at(B, PORT)), Err(Errno::EISCONN));
    assert_eq!(w.send_to(A, branched, at(B, PORT), b"x"), Err(Errno::EPIPE));
    assert_eq!(w.connect(a, at(B, PORT)), Err(Errno::EINPROGRESS));
}

/// RFC 6458, section 7.1: 0 to 2 are no identifiers.
#[test]
fn identifiers_start_at_three_and_are_not_reused() {
    let mut w = World::new();
    w.listener(Style::OneToMany, 5);
    let mut seen = Vec::new();
    for _ in 0..10 {
        let a = w.one_to_one(A);
        let id = w
            .on(A, |s, now| s.connectx(now, a, &[at(B, PORT)]))
            .unwrap();
        seen.push(id.number());
        w.run(ms(100));
        w.on(A, |s, now| s.abort(now, a)).unwrap();
    }
    assert_eq!(seen, (3..13).collect::<Vec<i32>>());
}

/// RFC 6458, section 8.1.8
#[test]
fn idle_associations_close_themselves() {
    let mut w = World::new();
    let b = w.listener(Style::OneToMany, 5);
    w.subscribe(B, b, &[SCTP_ASSOC_CHANGE]);
    w.set_int(B, b, (IPPROTO_SCTP, SCTP_AUTOCLOSE), 5).unwrap();
    let a = w.one_to_many(A);
    w.send_to(A, a, at(B, PORT), b"x").unwrap();
    w.run(secs(4));
    w.send_to(A, a, at(B, PORT), b"x").unwrap();
    w.run(secs(4));
    assert_eq!(ids(&mut w, B, b).len(), 1, "used 4 s ago");
    w.run(secs(2));
    assert_eq!(states(&mut w, B, b), [SCTP_COMM_UP, SCTP_SHUTDOWN_COMP]);
    let one = w.one_to_one(A);
    let refused = w.set_int(A, one, (IPPROTO_SCTP, SCTP_AUTOCLOSE), 5);
    assert_eq!(refused, Err(Errno::EOPNOTSUPP));
}

/// RFC 6458, section 3.1.3: without `listen`, associations of peers are refused.
#[test]
fn a_socket_that_does_not_listen_refuses() {
    let mut w = World::new();
    let b = w.one_to_many(B);
    w.look(B).bind(b, at(B, PORT)).unwrap();
    let a = w.one_to_many(A);
    w.subscribe(A, a, &[SCTP_ASSOC_CHANGE]);
    w.send_to(A, a, at(B, PORT), b"x").unwrap();
    w.run(ms(200));
    assert_eq!(states(&mut w, A, a), [SCTP_CANT_STR_ASSOC]);
    assert_eq!(ids(&mut w, A, a), []);
    w.on(B, |s, _| s.listen(b, 1)).unwrap();
    w.on(B, |s, _| s.listen(b, 0)).unwrap();
    w.send_to(A, a, at(B, PORT), b"x").unwrap();
    w.run(ms(200));
    assert_eq!(states(&mut w, A, a), [SCTP_CANT_STR_ASSOC]);
}

/// A message that cannot be sent sets up nothing.
#[test]
fn a_refused_first_message_leaves_no_association() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    let info = SndInfo {
        sid: 100,
        ..SndInfo::default()
    };
    let control = ControlMessage::sctp(SCTP_SNDINFO, info.encode());
    let refused = w.send_msg(A, a, Some(at(B, PORT)), b"x", &[control]);
    assert_eq!(refused, Err(Errno::EINVAL));
    assert_eq!(
        (ids(&mut w, A, a), w.look(A).usage().associations),
        (vec![], 0)
    );
}

/// RFC 6458, section 3.1.6
#[test]
fn the_result_of_a_watched_set_up_is_reported() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    let connect = |w: &mut World, port| {
        let started = w.on(A, |s, now| s.connectx(now, a, &[at(B, port)]));
        let id = started.unwrap();
        w.look(A).watch_setup(id);
        assert_eq!(w.look(A).poll_setup(), None);
        id
    };
    let refused = connect(&mut w, PORT);
    w.run(ms(100));
    assert_eq!(
        w.look(A).poll_setup(),
        Some((refused, Err(Errno::ECONNREFUSED)))
    );
    w.listener(Style::OneToMany, 5);
    let accepted = connect(&mut w, PORT);
    w.run(ms(100));
    assert_eq!(w.look(A).poll_setup(), Some((accepted, Ok(()))));
    let cancelled = connect(&mut w, PORT + 1);
    w.on(A, |s, now| s.close(now, a)).unwrap();
    assert_eq!(
        w.look(A).poll_setup(),
        Some((cancelled, Err(Errno::ECONNREFUSED)))
    );
    assert_eq!(w.look(A).poll_setup(), None);
}

/// RFC 9260, section 1.3: messages to two addresses of one peer, with the second one before the first association
/// is known to have its address, and afterwards.
#[test]
fn messages_to_two_addresses_make_one_association() {
    for gap in [0, 5, 15, 25, 45, 100] {
        let mut w = World::new();
        let b = w.look(B).socket(Style::OneToMany, Family::Inet).unwrap();
        let any = SocketAddr::new([0, 0, 0, 0].into(), PORT);
        w.look(B).bind(b, any).unwrap();
        w.on(B, |s, _| s.listen(b, 5)).unwrap();
        let a = w.one_to_many(A);
        w.subscribe(A, a, &[SCTP_ASSOC_CHANGE, SCTP_SEND_FAILED_EVENT]);
        w.send_to(A, a, at(B, PORT), b"first").unwrap();
        w.run(ms(gap));
        let second = SocketAddr::new(ip(B, 1), PORT);
        w.send_to(A, a, second, b"second").unwrap();
        let connected = w.connect(a, second).unwrap_err();
        assert!(matches!(connected, Errno::EALREADY | Errno::EISCONN));
        w.run(secs(1));
        assert_eq!(ids(&mut w, A, a).len(), 1, "{gap} ms apart");
        assert_eq!(ids(&mut w, B, b).len(), 1, "{gap} ms apart");
        let all = w.recv_all(A, a);
        let of_kind = |wanted: i32| all.iter().filter(move |r| kind(r) == wanted);
        let changes = of_kind(SCTP_ASSOC_CHANGE);
        let mut changes: Vec<i32> = changes
            .map(|r| AssocChange::read(&r.data).unwrap().state.into())
            .collect();
        changes.sort_unstable();
        let received: Vec<_> = w.recv_all(B, b).into_iter().map(|r| r.data).collect();
        let failures = of_kind(SCTP_SEND_FAILED_EVENT).count();
        // Within a round trip the second address is not known as one of the peer's.
        if gap < 20 {
            assert_eq!(changes, [SCTP_COMM_UP, SCTP_CANT_STR_ASSOC]);
            assert_eq!((received.len(), failures), (1, 1));
        } else {
            assert_eq!(changes, [SCTP_COMM_UP]);
            assert_eq!((received.len(), failures), (2, 0), "it joins the first one");
        }
        // Later messages to either address take the association.
        w.send_to(A, a, second, b"third").unwrap();
        w.run(secs(1));
        assert_eq!(w.recv(B, b).unwrap().data, &b"third"[..]);
    }
}

/// The result of `connect` that waits for the end of the set-up.
#[test]
fn a_second_connect_to_the_peer_ends_with_eisconn() {
    let mut w = World::new();
    let b = w.look(B).socket(Style::OneToMany, Family::Inet).unwrap();
    let any = SocketAddr::new([0, 0, 0, 0].into(), PORT);
    w.look(B).bind(b, any).unwrap();
    w.on(B, |s, _| s.listen(b, 5)).unwrap();
    let a = w.one_to_many(A);
    for link in [0, 1] {
        let peer = SocketAddr::new(ip(B, link), PORT);
        let started = w.on(A, |s, now| {
            let id = s.connectx(now, a, &[peer]);
            id.map(|id| s.watch_setup(id))
        });
        assert_eq!(started, Ok(()));
    }
    w.run(secs(1));
    let polled = std::iter::from_fn(|| w.look(A).poll_setup());
    let results: Vec<_> = polled.map(|(_, result)| result).collect();
    // The second one ends on its INIT ACK, before the first is established.
    assert_eq!(results, [Err(Errno::EISCONN), Ok(())]);
}
