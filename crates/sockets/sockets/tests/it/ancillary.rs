//! Ancillary data (RFC 6458, section 5.3).

use bytes::Bytes;
use carrick_sockets::ancillary::{ControlMessage, read_control, write_control};
use carrick_sockets::linux::*;
use carrick_sockets::{Errno, OutgoingMessage, Style};

use crate::world::*;

const MSG_CTRUNC: i32 = 0x8;

fn info() -> SndInfo {
    SndInfo {
        sid: 2,
        flags: SCTP_UNORDERED as u16,
        ppid: 46_u32.to_be(),
        context: 9,
        assoc_id: 0,
    }
}

/// RFC 6458, section 5.3.4
#[test]
fn ppid_in_memory_has_the_bytes_of_the_packet() {
    let mut w = World::new();
    let (a, _) = w.pair();
    let info = ControlMessage::sctp(SCTP_SNDINFO, info().encode());
    let (control, _) = write_control(&[info], 64);
    let message = OutgoingMessage {
        data: Bytes::from_static(b"data"),
        control: &control,
        ..OutgoingMessage::default()
    };
    let mut packet = Vec::new();
    w.on(A, |sockets, now| {
        sockets.sendmsg(now, a, &message).unwrap();
        sockets.poll_transmit(now, &mut packet).unwrap();
    });
    let sent = [0, 0, 0, 46, b'd', b'a', b't', b'a'];
    assert!(packet.windows(8).any(|bytes| bytes == sent), "{packet:?}");
}

/// RFC 6458, sections 5.3.4 and 5.3.5
#[test]
fn stream_and_ppid_reach_the_peer() {
    let mut w = World::new();
    let (a, b) = w.pair();
    for option in [SCTP_RECVRCVINFO, SCTP_RECVNXTINFO] {
        w.set_int(B, b, (IPPROTO_SCTP, option), 1).unwrap();
    }
    w.subscribe(B, b, &[SCTP_DATA_IO_EVENT]);
    let context = AssocValue {
        assoc_id: 0,
        value: 77,
    };
    w.set(B, b, SCTP_CONTEXT, &context).unwrap();
    let control = ControlMessage::sctp(SCTP_SNDINFO, info().encode());
    w.send_msg(A, a, None, b"first", &[control]).unwrap();
    w.send(A, a, b"next one").unwrap();
    w.run(ms(500));
    let received = w.recv(B, b).unwrap();
    let control = read_control(&received.control).unwrap();
    let kinds: Vec<i32> = control.iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [SCTP_NXTINFO, SCTP_RCVINFO, SCTP_SNDRCV]);
    let next = NxtInfo::decode(&control[0].data).unwrap();
    assert_eq!((next.sid, next.length, next.flags), (0, 8, 0));
    let found = RcvInfo::decode(&control[1].data).unwrap();
    assert_eq!(
        (found.sid, found.ppid, found.context),
        (2, 46_u32.to_be(), 77)
    );
    assert_eq!(i32::from(found.flags), SCTP_UNORDERED);
    assert!(found.assoc_id >= 3 && found.tsn != 0);
    let old = SndRcvInfo::decode(&control[2].data).unwrap();
    assert_eq!((old.stream, old.ppid, old.tsn), (2, found.ppid, found.tsn));
    assert_eq!(old.cum_tsn, found.cum_tsn);
    let received = w.recv(B, b).unwrap();
    let control = read_control(&received.control).unwrap();
    let kinds: Vec<i32> = control.iter().map(|c| c.kind).collect();
    assert_eq!(
        kinds,
        [SCTP_RCVINFO, SCTP_SNDRCV],
        "there is no next message"
    );
}

/// RFC 6458, sections 5.3.2 and 5.3.5
#[test]
fn unordered_messages_have_the_cumulative_tsn() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.set_int(B, b, (IPPROTO_SCTP, SCTP_RECVRCVINFO), 1)
        .unwrap();
    let unordered = SndInfo {
        flags: SCTP_UNORDERED as u16,
        ..SndInfo::default()
    };
    let unordered = ControlMessage::sctp(SCTP_SNDINFO, unordered.encode());
    let mut next = |control: &[ControlMessage]| {
        w.send_msg(A, a, None, b"x", control).unwrap();
        w.run(ms(500));
        let received = w.recv(B, b).unwrap();
        let control = read_control(&received.control).unwrap();
        let found = RcvInfo::decode(&control[0].data).unwrap();
        (found.tsn, found.cum_tsn)
    };
    let (first, cumulative) = next(std::slice::from_ref(&unordered));
    assert_eq!(cumulative, first);
    // As on Linux, ordered ones have none.
    assert_eq!(next(&[]), (first.wrapping_add(1), 0));
    let third = first.wrapping_add(2);
    assert_eq!(next(&[unordered]), (third, third));
}

#[test]
fn a_short_control_buffer_is_reported() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.set_int(B, b, (IPPROTO_SCTP, SCTP_RECVRCVINFO), 1)
        .unwrap();
    w.send(A, a, b"x").unwrap();
    w.run(ms(500));
    let received = w
        .on(B, |s, now| s.recvmsg(now, b, (100, 20), MSG_PEEK))
        .unwrap();
    assert_eq!(received.flags, MSG_CTRUNC | MSG_EOR);
    assert_eq!(received.control.len(), 20);
    let received = w.on(B, |s, now| s.recvmsg(now, b, (100, 8), 0)).unwrap();
    assert_eq!(
        (received.flags, received.control.len()),
        (MSG_CTRUNC | MSG_EOR, 0)
    );
}

/// RFC 6458, section 5.3.2; some programs pass `CMSG_SPACE` as length.
#[test]
fn lengths_may_be_cmsg_len_or_cmsg_space() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.set_int(B, b, (IPPROTO_SCTP, SCTP_RECVRCVINFO), 1)
        .unwrap();
    let pr = PrInfo {
        policy: SCTP_PR_SCTP_TTL as u16,
        value: 1000,
    };
    let old = SndRcvInfo {
        stream: 4,
        ..SndRcvInfo::default()
    };
    let auth = AuthInfo { key_number: 1 };
    let padded = |kind, mut data: Vec<u8>| {
        data.resize(data.len().next_multiple_of(8), 0);
        ControlMessage::sctp(kind, data)
    };
    for control in [
        ControlMessage::sctp(SCTP_PRINFO, pr.encode()),
        padded(SCTP_SNDRCV, old.encode()),
        padded(SCTP_INIT, InitMsg::default().encode()),
        // Without effect: the peer does not require DATA to be authenticated.
        padded(SCTP_AUTHINFO, auth.encode()),
    ] {
        assert_eq!(w.send_msg(A, a, None, b"x", &[control]), Ok(1));
    }
    let mut long = old.encode();
    long.push(0);
    let refused = [
        (ControlMessage::sctp(SCTP_SNDRCV, long), Errno::EINVAL),
        (ControlMessage::sctp(99, Vec::new()), Errno::EINVAL),
        (sndinfo(1 << 10, 0), Errno::EINVAL),
        (sndinfo(SCTP_EOF, 0), Errno::EINVAL),
    ];
    for (control, error) in refused {
        assert_eq!(
            w.send_msg(A, a, None, b"x", std::slice::from_ref(&control)),
            Err(error),
            "{control:?}"
        );
    }
    w.run(ms(500));
    let streams: Vec<u16> = w
        .recv_all(B, b)
        .iter()
        .map(|r| {
            RcvInfo::decode(&read_control(&r.control).unwrap()[0].data)
                .unwrap()
                .sid
        })
        .collect();
    assert_eq!(streams, [0, 4, 0, 0]);
}

/// RFC 6458, sections 5.3.9 and 5.3.10
#[test]
fn destination_addresses_set_up_several_paths() {
    let mut w = World::new();
    let many = w
        .look(B)
        .socket(Style::OneToMany, carrick_sockets::Family::Inet)
        .unwrap();
    w.look(B)
        .bind(many, format!("0.0.0.0:{PORT}").parse().unwrap())
        .unwrap();
    w.on(B, |s, _| s.listen(many, 1)).unwrap();
    let a = w.one_to_many(A);
    w.set_link(0, false);
    let second = ControlMessage::sctp(SCTP_DSTADDRV4, vec![10, 0, 1, 2]);
    w.send_msg(A, a, Some(at(B, PORT)), b"by the second", &[second])
        .unwrap();
    w.run(secs(10));
    assert_eq!(&w.recv(B, many).unwrap().data[..], b"by the second");
}

/// RFC 6458, sections 5.3.7, 8.1.31 and 8.1.32
#[test]
fn defaults_apply_without_ancillary_data() {
    let mut w = World::new();
    let (a, b) = w.pair();
    w.set_int(B, b, (IPPROTO_SCTP, SCTP_RECVRCVINFO), 1)
        .unwrap();
    w.set(A, a, SCTP_DEFAULT_SNDINFO, &info()).unwrap();
    assert_eq!(
        w.get(A, a, SCTP_DEFAULT_SNDINFO, &SndInfo::default()),
        Ok(info())
    );
    let old = w
        .get(A, a, SCTP_DEFAULT_SEND_PARAM, &SndRcvInfo::default())
        .unwrap();
    assert_eq!((old.stream, old.ppid, old.context), (2, info().ppid, 9));
    let ends = SndInfo {
        flags: SCTP_ABORT as u16,
        ..info()
    };
    assert_eq!(w.set(A, a, SCTP_DEFAULT_SNDINFO, &ends), Err(Errno::EINVAL));
    w.send(A, a, b"x").unwrap();
    w.run(ms(500));
    let received = w.recv(B, b).unwrap();
    let found = RcvInfo::decode(&read_control(&received.control).unwrap()[0].data).unwrap();
    assert_eq!((found.sid, found.ppid), (2, info().ppid));
    // Messages expire while the links are down.
    let pr = DefaultPrInfo {
        policy: SCTP_PR_SCTP_TTL as u16,
        value: 10,
        ..DefaultPrInfo::default()
    };
    w.set(A, a, SCTP_DEFAULT_PRINFO, &pr).unwrap();
    assert_eq!(
        w.get(A, a, SCTP_DEFAULT_PRINFO, &DefaultPrInfo::default()),
        Ok(pr)
    );
    for link in [0, 1] {
        w.set_link(link, false);
    }
    w.send(A, a, b"expires").unwrap();
    w.run(secs(5));
    let asked = PrStatus {
        policy: SCTP_PR_SCTP_ALL as u16,
        ..PrStatus::default()
    };
    assert_eq!(
        w.get(A, a, SCTP_PR_ASSOC_STATUS, &asked)
            .unwrap()
            .abandoned_sent,
        1
    );
}

#[test]
fn malformed_control_data_is_refused() {
    let message = ControlMessage::sctp(SCTP_SNDINFO, info().encode());
    let (bytes, is_cut) = write_control(std::slice::from_ref(&message), 100);
    assert!(!is_cut);
    assert_eq!(read_control(&bytes), Ok(vec![message]));
    for len in 16..bytes.len() {
        assert_eq!(read_control(&bytes[..len]), Err(Errno::EINVAL), "{len}");
    }
    let mut short = bytes;
    short[0] = 15;
    assert_eq!(read_control(&short), Err(Errno::EINVAL));
}
