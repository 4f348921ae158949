//! Notifications (RFC 6458, section 6).

use std::net::SocketAddr;

use carrick_proto::{AssociationConfig, StreamScheduler};
use carrick_sockets::ancillary::{CMSG_HEADER, ControlMessage};
use carrick_sockets::linux::*;
use carrick_sockets::{Config, Errno, Family, Received, SocketId, Style};

use crate::world::*;

const ALL: [i32; 13] = [
    SCTP_ASSOC_CHANGE,
    SCTP_PEER_ADDR_CHANGE,
    SCTP_SEND_FAILED,
    SCTP_REMOTE_ERROR,
    SCTP_SHUTDOWN_EVENT,
    SCTP_PARTIAL_DELIVERY_EVENT,
    SCTP_ADAPTATION_INDICATION,
    SCTP_AUTHENTICATION_EVENT,
    SCTP_SENDER_DRY_EVENT,
    SCTP_STREAM_RESET_EVENT,
    SCTP_ASSOC_RESET_EVENT,
    SCTP_STREAM_CHANGE_EVENT,
    SCTP_SEND_FAILED_EVENT,
];

/// Reads everything and returns the notifications of one type.
fn notifications<T: Layout>(w: &mut World, host: usize, socket: SocketId, of: i32) -> Vec<T> {
    let all = w.recv_all(host, socket);
    let found = all
        .iter()
        .filter(|r| r.flags & MSG_NOTIFICATION != 0 && kind(r) == of);
    found.map(|r| T::read(&r.data).unwrap()).collect()
}

/// RFC 6458, section 6.2
#[test]
fn nothing_is_notified_without_subscription() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.send(A, a, b"x").unwrap();
    w.run(secs(1));
    w.on(A, |s, now| s.close(now, a)).unwrap();
    w.run(secs(1));
    let all = w.recv_all(B, b);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].flags, MSG_EOR);
}

/// RFC 6458, section 6.1: notifications are whole where the buffer holds them, and in parts otherwise.
#[test]
fn notifications_are_marked_and_split_when_too_long() {
    let mut w = World::new();
    let b = w.listener(Style::OneToMany, 5);
    w.subscribe(B, b, &[SCTP_ASSOC_CHANGE]);
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    let part = w.recv_with(B, b, 12, 0).unwrap();
    assert_eq!((part.data.len(), part.flags), (12, MSG_NOTIFICATION));
    assert_eq!(part.address.map(|peer| peer.ip()), Some(ip(A, 0)));
    let rest = w.recv_with(B, b, 12, 0).unwrap();
    let flags = MSG_NOTIFICATION | MSG_EOR;
    assert_eq!(
        (rest.data.len(), rest.flags),
        (AssocChange::SIZE - 12, flags)
    );
}

/// RFC 6458, section 6.2.1: any length, as Linux
#[test]
fn events_have_any_length() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    let option = (IPPROTO_SCTP, SCTP_EVENTS);
    assert_eq!(w.set_bytes(A, a, option, &[]), Ok(0));
    w.set_bytes(A, a, option, &[1; 4]).unwrap();
    let expected = [[1; 4].as_slice(), &[0; 10]].concat();
    assert_eq!(w.get_bytes(A, a, option, &[0; 14]), Ok(expected));
    assert_eq!(w.set_bytes(A, a, option, &[1; 15]), Err(Errno::EINVAL));
    w.set_bytes(A, a, option, &[1; 8]).unwrap();
    let expected = [[1; 8].as_slice(), &[0; 6]].concat();
    assert_eq!(
        w.get_bytes(A, a, option, &[0; 500]),
        Ok(expected),
        "the real length"
    );
    assert_eq!(w.get_bytes(A, a, option, &[0; 8]), Ok(vec![1; 8]));
    let dry = EventOption {
        kind: SCTP_SENDER_DRY_EVENT as u16,
        ..EventOption::default()
    };
    assert_eq!(w.get(A, a, SCTP_EVENT, &dry).unwrap().on, 0);
    w.set_bytes(A, a, option, &[1; 14]).unwrap();
    assert_eq!(w.get(A, a, SCTP_EVENT, &dry).unwrap().on, 1);
    let wrong = EventOption {
        kind: 0x800e,
        ..EventOption::default()
    };
    assert_eq!(w.set(A, a, SCTP_EVENT, &wrong), Err(Errno::EINVAL));
}

/// RFC 6458, section 6.1.9: at once if nothing is outstanding, then after each flight.
#[test]
fn an_empty_sender_is_notified() {
    let mut w = World::new();
    let (a, _) = w.pair();
    w.subscribe(A, a, &[SCTP_SENDER_DRY_EVENT]);
    let of = SCTP_SENDER_DRY_EVENT;
    assert_eq!(notifications::<SenderDryEvent>(&mut w, A, a, of).len(), 1);
    w.subscribe(A, a, &[SCTP_SENDER_DRY_EVENT]);
    assert_eq!(
        notifications::<SenderDryEvent>(&mut w, A, a, of).len(),
        1,
        "again"
    );
    w.send(A, a, b"x").unwrap();
    assert_eq!(w.recv(A, a), Err(Errno::EAGAIN));
    w.run(secs(1));
    assert_eq!(notifications::<SenderDryEvent>(&mut w, A, a, of).len(), 1);
}

/// RFC 6458, sections 6.1.4 and 6.1.11
#[test]
fn unsent_messages_are_returned() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.subscribe(A, a, &[SCTP_SEND_FAILED_EVENT]);
    for link in [0, 1] {
        w.set_link(link, false);
    }
    let info = SndInfo {
        sid: 3,
        ppid: 46,
        context: 7,
        flags: SCTP_UNORDERED as u16,
        ..SndInfo::default()
    };
    let control = [carrick_sockets::ancillary::ControlMessage::sctp(
        SCTP_SNDINFO,
        info.encode(),
    )];
    w.send_msg(A, a, None, b"returned", &control).unwrap();
    w.run(secs(2000));
    let failed = w.recv(A, a).unwrap();
    let event = SendFailedEvent::read(&failed.data).unwrap();
    assert_eq!(event.length as usize, failed.data.len());
    assert_eq!(i32::from(event.flags), SCTP_DATA_SENT);
    let attributes = (event.sid, event.ppid, event.context, event.info_flags);
    assert_eq!(attributes, (3, 46, 7, SCTP_UNORDERED as u16));
    assert_eq!(failed.data[SendFailedEvent::SIZE..], b"returned"[..]);
    assert!(w.look(B).readiness(b).is_some());
}

/// RFC 6458, sections 6.1.1 and 6.1.11: the end of the association comes first, and its cause is the error.
#[test]
fn messages_lost_by_an_abort_have_its_cause() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.subscribe(A, a, &[SCTP_ASSOC_CHANGE, SCTP_SEND_FAILED_EVENT]);
    // The ABORT crosses the message.
    w.send(A, a, b"lost").unwrap();
    w.on(B, |s, now| s.abort(now, b)).unwrap();
    w.run(ms(500));
    let change = AssocChange::read(&w.recv(A, a).unwrap().data).unwrap();
    let user_initiated = 12_u16.to_be();
    assert_eq!(
        (i32::from(change.state), change.error),
        (SCTP_COMM_LOST, user_initiated)
    );
    let failed = SendFailedEvent::read(&w.recv(A, a).unwrap().data).unwrap();
    assert_eq!(
        (failed.kind, failed.error),
        (SCTP_SEND_FAILED_EVENT as u16, user_initiated.into())
    );
}

/// RFC 6458, section 6.1.2
#[test]
fn changes_of_paths_are_notified() {
    let mut w = World::with(|config| {
        config.association = AssociationConfig::default().with(|c| c.paths.path_max_retrans = 1);
    });
    let b = w.one_to_one(B);
    w.look(B)
        .bind(b, format!("0.0.0.0:{PORT}").parse().unwrap())
        .unwrap();
    w.on(B, |s, _| s.listen(b, 5)).unwrap();
    let a = w.one_to_one(A);
    w.subscribe(A, a, &[SCTP_PEER_ADDR_CHANGE]);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(secs(60));
    let confirmed = notifications::<PaddrChange>(&mut w, A, a, SCTP_PEER_ADDR_CHANGE);
    let second = (ip(B, 1), SCTP_ADDR_CONFIRMED);
    let found = |list: &[PaddrChange]| -> Vec<_> {
        let pair = |c: &PaddrChange| (c.address.ip().unwrap(), c.state);
        list.iter().map(pair).collect()
    };
    assert!(found(&confirmed).contains(&second), "{confirmed:?}");
    w.set_link(0, false);
    w.send(A, a, b"x").unwrap();
    w.run(secs(60));
    w.set_link(0, true);
    w.run(secs(120));
    let changes = notifications::<PaddrChange>(&mut w, A, a, SCTP_PEER_ADDR_CHANGE);
    let changes = found(&changes);
    assert!(
        changes.contains(&(ip(B, 0), SCTP_ADDR_UNREACHABLE)),
        "{changes:?}"
    );
    assert_eq!(changes.last(), Some(&(ip(B, 0), SCTP_ADDR_AVAILABLE)));
}

/// RFC 6458, section 6.1.6
#[test]
fn the_adaptation_layer_of_the_peer_is_notified() {
    let mut w = World::new();
    let b = w.listener(Style::OneToMany, 5);
    w.subscribe(B, b, &ALL);
    let a = w.one_to_one(A);
    w.set_int(A, a, (IPPROTO_SCTP, SCTP_ADAPTATION_LAYER), 0x1234)
        .unwrap();
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    assert_eq!(
        kind(&w.recv(B, b).unwrap()),
        SCTP_ASSOC_CHANGE,
        "COMM_UP is first"
    );
    let found = notifications::<AdaptationEvent>(&mut w, B, b, SCTP_ADAPTATION_INDICATION);
    assert_eq!(found.first().map(|e| e.indication), Some(0x1234));
}

/// RFC 6525, section 6.1; Linux reports the streams that were added.
#[test]
fn reconfigurations_are_notified() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.subscribe(A, a, &ALL);
    w.subscribe(B, b, &ALL);
    w.recv_all(A, a);
    // RFC 6525, section 6.3.1: also of an existing association.
    let enabled = AssocValue {
        value: (SCTP_ENABLE_RESET_STREAM_REQ
            | SCTP_ENABLE_RESET_ASSOC_REQ
            | SCTP_ENABLE_CHANGE_ASSOC_REQ) as u32,
        ..AssocValue::default()
    };
    for (host, socket) in [(A, a), (B, b)] {
        w.set(host, socket, SCTP_ENABLE_STREAM_RESET, &enabled)
            .unwrap();
        assert_eq!(
            w.get(
                host,
                socket,
                SCTP_ENABLE_STREAM_RESET,
                &AssocValue::default()
            ),
            Ok(enabled)
        );
    }
    let add = AddStreams {
        outbound: 5,
        ..AddStreams::default()
    };
    w.set(A, a, SCTP_ADD_STREAMS, &add).unwrap();
    w.run(secs(1));
    let of = SCTP_STREAM_CHANGE_EVENT;
    let at_a = notifications::<StreamChangeEvent>(&mut w, A, a, of);
    assert_eq!((at_a[0].outbound_streams, at_a[0].inbound_streams), (5, 0));
    let at_b = notifications::<StreamChangeEvent>(&mut w, B, b, of);
    assert_eq!((at_b[0].outbound_streams, at_b[0].inbound_streams), (0, 5));
    let reset = ResetStreams {
        flags: SCTP_STREAM_RESET_OUTGOING as u16,
        number: 2,
        ..ResetStreams::default()
    };
    let mut value = reset.encode();
    value.extend([1_u16, 4].iter().flat_map(|s| s.to_ne_bytes()));
    w.set_bytes(A, a, (IPPROTO_SCTP, SCTP_RESET_STREAMS), &value)
        .unwrap();
    w.run(secs(1));
    let all = w.recv_all(A, a);
    let event = all
        .iter()
        .find(|r| kind(r) == SCTP_STREAM_RESET_EVENT)
        .unwrap();
    let header = StreamResetEvent::read(&event.data).unwrap();
    assert_eq!(i32::from(header.flags), SCTP_STREAM_RESET_OUTGOING_SSN);
    assert_eq!(
        event.data[StreamResetEvent::SIZE..],
        value[ResetStreams::SIZE..]
    );
    let bytes = 0_i32.to_ne_bytes();
    w.set_bytes(A, a, (IPPROTO_SCTP, SCTP_RESET_ASSOC), &bytes)
        .unwrap();
    w.run(secs(1));
    let of = SCTP_ASSOC_RESET_EVENT;
    assert_eq!(notifications::<AssocResetEvent>(&mut w, B, b, of).len(), 1);
}

/// RFC 6458, sections 6.1.7 and 8.1.20: parts of a large message are not interleaved.
#[test]
fn a_large_message_arrives_in_parts() {
    let mut w = World::with(|config| config.association = AssociationConfig::rfc9260());
    let listener = w.listener(Style::OneToMany, 5);
    w.set_int(B, listener, (SOL_SOCKET, SO_RCVBUF), 10_000)
        .unwrap();
    let (first, second) = (w.one_to_one(A), w.one_to_one(A));
    for socket in [first, second] {
        w.connect(socket, at(B, PORT)).unwrap_err();
        w.run(ms(100));
    }
    let large = vec![7; 200_000];
    w.send(A, first, &large).unwrap();
    w.run(ms(300));
    w.send(A, second, b"other").unwrap();
    let mut parts: Vec<Received> = Vec::new();
    for _ in 0..200 {
        w.run(ms(300));
        parts.extend(w.recv_all(B, listener));
    }
    let (last, rest) = parts.split_last().expect("messages");
    assert_eq!(&last.data[..], b"other");
    let (end, begin) = rest.split_last().expect("parts");
    assert!(begin.len() > 1 && begin.iter().all(|part| part.flags == 0));
    assert_eq!(end.flags, MSG_EOR);
    let size: usize = rest.iter().map(|part| part.data.len()).sum();
    assert_eq!(size, large.len());
}

/// Peers cannot fill the memory of a user who does not read.
#[test]
fn unread_notifications_are_bounded() {
    let mut w = World::new();
    let b = w.listener(Style::OneToMany, 5);
    w.subscribe(B, b, &[SCTP_ASSOC_CHANGE]);
    let mut refused = false;
    for _ in 0..500 {
        let a = w.one_to_one(A);
        w.connect(a, at(B, PORT)).unwrap_err();
        w.run(ms(50));
        refused |= w.recv(A, a) == Err(Errno::ECONNREFUSED);
        w.on(A, |s, now| s.abort(now, a)).unwrap();
        w.run(ms(50));
        w.changes(A);
    }
    assert!(refused, "a full queue refuses associations");
    let read = w.recv_all(B, b).len();
    // 64 KiB with the memory of each entry.
    assert!((250..=500).contains(&read), "{read}");
    assert_eq!(w.look(B).usage().associations, 0);
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    assert_eq!(w.recv(A, a), Err(Errno::EAGAIN), "established again");
}

/// RFC 9260, section 5.2.2: the peer lost its association without an ABORT, and sets up another one.
#[test]
fn a_restart_of_the_peer_is_notified() {
    let mut w = World::new();
    let b = w.listener(Style::OneToMany, 5);
    w.subscribe(B, b, &[SCTP_ASSOC_CHANGE]);
    w.set_int(B, b, (IPPROTO_SCTP, SCTP_RECVRCVINFO), 1)
        .unwrap();
    let client = |w: &mut World| {
        let a = w.one_to_one(A);
        w.look(A).bind(a, at(A, 4000)).unwrap();
        assert_eq!(w.connect(a, at(B, PORT)), Err(Errno::EINPROGRESS));
        w.run(ms(100));
        a
    };
    let first = client(&mut w);
    w.send(A, first, b"before").unwrap();
    w.run(ms(300));
    let up = AssocChange::decode(&w.recv(B, b).unwrap().data).unwrap();
    assert_eq!(&w.recv(B, b).unwrap().data[..], b"before");
    for link in [0, 1] {
        w.set_link(link, false);
    }
    w.on(A, |s, now| s.abort(now, first)).unwrap();
    w.run(ms(50));
    for link in [0, 1] {
        w.set_link(link, true);
    }
    let second = client(&mut w);
    w.send(A, second, b"after").unwrap();
    w.run(ms(300));
    let restart = AssocChange::decode(&w.recv(B, b).unwrap().data).unwrap();
    assert_eq!(i32::from(restart.state), SCTP_RESTART);
    assert_eq!(restart.assoc_id, up.assoc_id, "the same association");
    assert_eq!(
        (restart.outbound_streams, restart.inbound_streams),
        (10, 10)
    );
    assert_eq!(&w.recv(B, b).unwrap().data[..], b"after");
    assert_eq!(w.send_to(B, b, at(A, 4000), b"answer"), Ok(6));
    w.run(ms(100));
    assert_eq!(&w.recv(A, second).unwrap().data[..], b"answer");
}

/// RFC 5061, section 4.2.4; RFC 6458, sections 6.1.2 and 8.3.1
#[test]
fn the_peer_is_asked_for_a_primary_address() {
    let mut w = World::with(|config| {
        config.association = AssociationConfig::default().with(|c| {
            c.extensions.dynamic_addresses = true;
            c.extensions.authentication = true;
        });
    });
    let a = w.one_to_one(A);
    w.subscribe(A, a, &[SCTP_PEER_ADDR_CHANGE]);
    let b = w.look(B).socket(Style::OneToOne, Family::Inet).unwrap();
    let second = SocketAddr::new(ip(B, 1), PORT);
    w.look(B).bindx_add(b, &[at(B, PORT), second]).unwrap();
    w.on(B, |s, _| s.listen(b, 5)).unwrap();
    assert_eq!(w.connect(a, at(B, PORT)), Err(Errno::EINPROGRESS));
    w.run(secs(40));
    let (accepted, _) = w.on(B, |s, _| s.accept(b)).unwrap();
    let of = SCTP_PEER_ADDR_CHANGE;
    let confirmed = notifications::<PaddrChange>(&mut w, A, a, of);
    let change = confirmed.last().expect("the second path is confirmed");
    assert_eq!(
        (change.state, change.error),
        (SCTP_ADDR_CONFIRMED, SCTP_HEARTBEAT_SUCCESS)
    );
    let prim = SetPeerPrim {
        assoc_id: 0,
        address: second.into(),
    };
    w.set(B, accepted, SCTP_SET_PEER_PRIMARY_ADDR, &prim)
        .unwrap();
    w.run(secs(1));
    let preferred = notifications::<PaddrChange>(&mut w, A, a, of);
    assert_eq!(preferred.len(), 1);
    assert_eq!(
        (preferred[0].state, preferred[0].address),
        (SCTP_ADDR_MADE_PRIM, second.into())
    );
    let primary = w.get(A, a, SCTP_PRIMARY_ADDR, &Prim::default()).unwrap();
    assert_eq!(primary.address, second.into());
}

/// RFC 8260, section 2; RFC 6458, section 8.1.20: parts of messages of several streams alternate.
#[test]
fn interleaved_messages_are_read_in_parts() {
    let mut w = World::with(|config| {
        config.association = AssociationConfig::default().with(|c| {
            c.extensions.interleaving = true;
            c.streams.scheduler = StreamScheduler::RoundRobin;
            c.buffers.receive_buffer = 20_000;
            c.buffers.max_receive_buffer = None;
        });
    });
    let (a, b) = w.pair();
    w.set_int(B, b, (IPPROTO_SCTP, SCTP_RECVRCVINFO), 1)
        .unwrap();
    let on = AssocValue::default();
    assert_eq!(
        w.get(A, a, SCTP_INTERLEAVING_SUPPORTED, &on).unwrap().value,
        1
    );
    assert_eq!(
        w.get_int(B, b, (IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE)),
        Ok(1)
    );
    for sid in [1, 2] {
        let info = SndInfo {
            sid,
            ..SndInfo::default()
        };
        let control = ControlMessage::sctp(SCTP_SNDINFO, info.encode());
        let message = vec![sid as u8; 60_000];
        assert_eq!(w.send_msg(A, a, None, &message, &[control]), Ok(60_000));
    }
    let mut parts: Vec<(u16, usize, bool)> = Vec::new();
    for _ in 0..200 {
        w.run(ms(50));
        for part in w.recv_all(B, b) {
            let info = RcvInfo::read(&part.control[CMSG_HEADER..]).unwrap();
            assert!(part.data.iter().all(|byte| u16::from(*byte) == info.sid));
            parts.push((info.sid, part.data.len(), part.flags & MSG_EOR != 0));
        }
    }
    for sid in [1, 2] {
        let of_stream = || parts.iter().filter(|part| part.0 == sid);
        assert_eq!(of_stream().map(|part| part.1).sum::<usize>(), 60_000);
        assert_eq!(of_stream().filter(|part| part.2).count(), 1, "one end");
    }
    let first_end = parts.iter().position(|part| part.2).unwrap();
    let streams = parts[..first_end].iter().map(|part| part.0);
    assert!(
        streams.clone().any(|s| s == 1) && streams.clone().any(|s| s == 2),
        "{parts:?}"
    );
}

/// RFC 8260, section 4.1
#[test]
fn the_ssn_of_an_unordered_message_is_its_mid() {
    let mut w = World::with(|config| {
        config.association = AssociationConfig::default().with(|c| {
            c.extensions.interleaving = true;
        });
    });
    let (a, b) = w.pair();
    w.set_int(B, b, (IPPROTO_SCTP, SCTP_RECVRCVINFO), 1)
        .unwrap();
    for _ in 0..3 {
        let info = SndInfo {
            flags: SCTP_UNORDERED as u16,
            ..SndInfo::default()
        };
        let control = ControlMessage::sctp(SCTP_SNDINFO, info.encode());
        assert_eq!(w.send_msg(A, a, None, b"message", &[control]), Ok(7));
    }
    w.run(ms(50));
    let received = w.recv_all(B, b);
    let info = received
        .iter()
        .map(|message| RcvInfo::read(&message.control[CMSG_HEADER..]).unwrap());
    let numbers: Vec<(u16, u16)> = info.map(|info| (info.flags, info.ssn)).collect();
    let unordered = SCTP_UNORDERED as u16;
    assert_eq!(numbers, [(unordered, 0), (unordered, 1), (unordered, 2)]);
}

/// RFC 6458, section 6.1.8, as on Linux: also if this side has no authentication
#[test]
fn associations_without_authentication_are_notified() {
    for extends in [false, true] {
        let mut w = World::with(|config| {
            config.association = Config::default_association().with(|c| {
                c.extensions.authentication = extends;
            });
        });
        let b = w.listener(Style::OneToMany, 5);
        let a = w.one_to_one(A);
        let kinds = [SCTP_ASSOC_CHANGE, SCTP_AUTHENTICATION_EVENT];
        w.subscribe(A, a, &kinds);
        w.subscribe(B, b, &kinds);
        w.connect(a, at(B, PORT)).unwrap_err();
        w.run(ms(100));
        for (host, socket) in [(A, a), (B, b)] {
            let all: Vec<i32> = w.recv_all(host, socket).iter().map(kind).collect();
            let expected: &[i32] = if extends { &kinds[..1] } else { &kinds };
            assert_eq!(all, expected);
        }
    }
}

/// The peer alone lacks authentication.
#[test]
fn a_peer_without_authentication_is_notified_once() {
    let mut w = World::new();
    w.listener(Style::OneToOne, 5);
    let a = w.one_to_one(A);
    let on = AssocValue {
        value: 1,
        ..AssocValue::default()
    };
    w.set(A, a, SCTP_AUTH_SUPPORTED, &on).unwrap();
    w.subscribe(A, a, &[SCTP_AUTHENTICATION_EVENT]);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    let found: Vec<AuthkeyEvent> = notifications(&mut w, A, a, SCTP_AUTHENTICATION_EVENT);
    let indications: Vec<i32> = found.iter().map(|e| e.indication as i32).collect();
    assert_eq!(indications, [SCTP_AUTH_NO_AUTH]);
}
