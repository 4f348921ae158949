//! Socket options (RFC 6458, section 8).

use std::net::SocketAddr;

use bytes::Bytes;
use carrick_proto::AssociationConfig;
use carrick_sockets::ancillary::ControlMessage;
use carrick_sockets::linux::*;
use carrick_sockets::{Errno, Family, OutgoingMessage, Readiness, Style};

use crate::world::*;

/// RFC 6458, sections 8.1.1 and 7.1
#[test]
fn rto_of_future_and_existing_associations() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    let rto = |assoc_id, min| RtoInfo {
        assoc_id,
        initial: 0,
        max: 0,
        min,
    };
    w.set(A, a, SCTP_RTOINFO, &rto(0, 300)).unwrap();
    w.listener(Style::OneToMany, 5);
    w.send_to(A, a, at(B, PORT), b"x").unwrap();
    w.run(ms(200));
    let info = w.get(A, a, SCTP_RTOINFO, &rto(3, 0)).unwrap();
    assert_eq!((info.initial, info.max, info.min), (1000, 60_000, 300));
    w.set(A, a, SCTP_RTOINFO, &rto(3, 400)).unwrap();
    assert_eq!(w.get(A, a, SCTP_RTOINFO, &rto(3, 0)).unwrap().min, 400);
    assert_eq!(w.get(A, a, SCTP_RTOINFO, &rto(0, 0)).unwrap().min, 300);
    assert_eq!(
        w.set(A, a, SCTP_RTOINFO, &rto(3, 61_000)),
        Err(Errno::EINVAL)
    );
    assert_eq!(w.set(A, a, SCTP_RTOINFO, &rto(99, 400)), Err(Errno::EINVAL));
    assert_eq!(w.get(A, a, SCTP_RTOINFO, &rto(1, 0)), Err(Errno::EINVAL));
    let short = w.set_bytes(A, a, (IPPROTO_SCTP, SCTP_RTOINFO), &[0; 15]);
    assert_eq!(short, Err(Errno::EINVAL));
}

/// RFC 6458, section 8.1.3: a listening socket's options are those of accepted associations.
#[test]
fn options_of_a_listener_are_inherited() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    let init = InitMsg {
        num_ostreams: 7,
        max_instreams: 6,
        max_attempts: 4,
        max_init_timeo: 2000,
    };
    w.set(B, listener, SCTP_INITMSG, &init).unwrap();
    let found = w.get(B, listener, SCTP_INITMSG, &init).unwrap();
    assert_eq!(found, init);
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    let (b, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
    let status = w
        .get_bytes(B, b, (IPPROTO_SCTP, SCTP_STATUS), &[0; 176])
        .unwrap();
    let status = Status::read(&status).unwrap();
    assert_eq!((status.outbound_streams, status.inbound_streams), (7, 6));
}

/// RFC 6458, sections 8.2.1 and 8.2.2
#[test]
fn status_describes_the_association() {
    let mut w = World::new();
    let (a, _) = w.pair();
    let option = (IPPROTO_SCTP, SCTP_STATUS);
    let bytes = w.get_bytes(A, a, option, &[0; 200]).unwrap();
    assert_eq!(bytes.len(), STATUS);
    let status = Status::read(&bytes).unwrap();
    assert_eq!(
        (status.state, status.fragmentation_point),
        (SCTP_ESTABLISHED, 1452)
    );
    let primary = PaddrInfo::decode(&bytes[Status::SIZE..]).unwrap();
    assert_eq!(primary.address, Storage(Some(at(B, PORT))));
    assert_eq!((primary.state, primary.mtu), (SCTP_ACTIVE, 1500));
    let asked = PaddrInfo {
        address: at(B, PORT).into(),
        ..PaddrInfo::default()
    };
    assert_eq!(w.get(A, a, SCTP_GET_PEER_ADDR_INFO, &asked), Ok(primary));
    assert_eq!(w.get_bytes(A, a, option, &[0; 175]), Err(Errno::EINVAL));
    let unconnected = w.one_to_one(A);
    assert_eq!(
        w.get_bytes(A, unconnected, option, &[0; 176]),
        Err(Errno::EINVAL)
    );
}

/// RFC 6458, section 8.1.12, in both lengths of Linux
#[test]
fn peer_address_parameters_of_a_path() {
    let mut w = World::new();
    let (a, _) = w.pair();
    let params = PaddrParams {
        address: at(B, PORT).into(),
        hb_interval: 5000,
        path_max_rxt: 3,
        path_mtu: 1300,
        flags: (SPP_HB_DISABLE | SPP_PMTUD_DISABLE) as u32,
        ..PaddrParams::default()
    };
    let option = (IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS);
    let old = &params.encode()[..PADDRPARAMS_OLD];
    w.set_bytes(A, a, option, old).unwrap();
    let found = w.get(A, a, SCTP_PEER_ADDR_PARAMS, &params).unwrap();
    let values = (found.hb_interval, found.path_max_rxt, found.path_mtu);
    assert_eq!(values, (5000, 3, 1300));
    assert_ne!(found.flags as i32 & SPP_HB_DISABLE, 0);
    assert_eq!(
        w.get_bytes(A, a, option, old).map(|b| b.len()),
        Ok(PADDRPARAMS_OLD)
    );
    for len in [151, 153, 155, 157] {
        assert_eq!(w.set_bytes(A, a, option, &vec![0; len]), Err(Errno::EINVAL));
    }
    let flagged = |flags: i32| PaddrParams {
        flags: flags as u32,
        ..params
    };
    let both = flagged(SPP_HB_ENABLE | SPP_HB_DISABLE);
    assert_eq!(
        w.set(A, a, SCTP_PEER_ADDR_PARAMS, &both),
        Err(Errno::EINVAL)
    );
    assert_eq!(found.flags as i32 & SPP_PMTUD_DISABLE, SPP_PMTUD_DISABLE);
    let marked = PaddrParams {
        dscp: 46 << 2,
        ..flagged(SPP_DSCP)
    };
    w.set(A, a, SCTP_PEER_ADDR_PARAMS, &marked).unwrap();
    let found = w.get(A, a, SCTP_PEER_ADDR_PARAMS, &params).unwrap();
    assert_eq!(
        (found.dscp, found.flags as i32 & SPP_DSCP),
        (46 << 2, SPP_DSCP)
    );
    let labelled = flagged(SPP_IPV6_FLOWLABEL);
    assert_eq!(
        w.set(A, a, SCTP_PEER_ADDR_PARAMS, &labelled),
        Err(Errno::ENOPROTOOPT)
    );
    let unknown = PaddrParams {
        address: at(A, PORT).into(),
        ..params
    };
    assert_eq!(
        w.set(A, a, SCTP_PEER_ADDR_PARAMS, &unknown),
        Err(Errno::EINVAL)
    );
}

/// RFC 6458, section 8.1.12
#[test]
fn peer_address_parameters_of_one_path_of_two() {
    let mut w = World::new();
    let a = w.one_to_one(A);
    let b = w.look(B).socket(Style::OneToOne, Family::Inet).unwrap();
    let second = SocketAddr::new(ip(B, 1), PORT);
    w.look(B).bindx_add(b, &[at(B, PORT), second]).unwrap();
    w.on(B, |s, _| s.listen(b, 5)).unwrap();
    assert_eq!(w.connect(a, at(B, PORT)), Err(Errno::EINPROGRESS));
    w.run(ms(100));
    let of = |address: SocketAddr| PaddrParams {
        address: address.into(),
        ..PaddrParams::default()
    };
    let changed = PaddrParams {
        hb_interval: 5000,
        path_max_rxt: 3,
        ..of(second)
    };
    w.set(A, a, SCTP_PEER_ADDR_PARAMS, &changed).unwrap();
    let values = |w: &mut World, asked: PaddrParams| {
        let found = w.get(A, a, SCTP_PEER_ADDR_PARAMS, &asked).unwrap();
        (found.hb_interval, found.path_max_rxt)
    };
    assert_eq!(values(&mut w, of(second)), (5000, 3));
    assert_eq!(values(&mut w, of(at(B, PORT))), (30_000, 5));
    assert_eq!(values(&mut w, PaddrParams::default()), (30_000, 5));
    let delayed = PaddrParams {
        sack_delay: 100,
        flags: SPP_SACKDELAY_ENABLE as u32,
        ..of(second)
    };
    assert_eq!(
        w.set(A, a, SCTP_PEER_ADDR_PARAMS, &delayed),
        Err(Errno::ENOPROTOOPT),
        "the delay is that of the association"
    );
    let all = PaddrParams {
        hb_interval: 7000,
        ..PaddrParams::default()
    };
    w.set(A, a, SCTP_PEER_ADDR_PARAMS, &all).unwrap();
    assert_eq!(values(&mut w, of(second)), (7000, 3));
    assert_eq!(values(&mut w, of(at(B, PORT))), (7000, 5));
}

/// RFC 6458, sections 8.1.9 and 6.1.2; RFC 7829, section 7.2
#[test]
fn primary_address_and_thresholds_change() {
    let mut w = World::new();
    let b = w.one_to_one(B);
    w.look(B)
        .bind(b, format!("0.0.0.0:{PORT}").parse().unwrap())
        .unwrap();
    w.on(B, |s, _| s.listen(b, 5)).unwrap();
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(secs(60));
    w.subscribe(A, a, &[SCTP_PEER_ADDR_CHANGE]);
    let second = std::net::SocketAddr::new(ip(B, 1), PORT);
    let prim = |address: std::net::SocketAddr| Prim {
        assoc_id: 0,
        address: address.into(),
    };
    w.set(A, a, SCTP_PRIMARY_ADDR, &prim(second)).unwrap();
    assert_eq!(
        w.get(A, a, SCTP_PRIMARY_ADDR, &Prim::default()),
        Ok(prim(second))
    );
    assert_eq!(w.look(A).peer_address(a), Ok(at(B, PORT)), "as Linux");
    let made = PaddrChange::decode(&w.recv(A, a).unwrap().data).unwrap();
    assert_eq!(
        (made.state, made.address),
        (SCTP_ADDR_MADE_PRIM, second.into())
    );
    assert_eq!(
        w.set(A, a, SCTP_PRIMARY_ADDR, &prim(at(A, 1))),
        Err(Errno::EINVAL)
    );
    let thresholds = PaddrThldsV2 {
        address: second.into(),
        path_max_rxt: 4,
        pf_threshold: 1,
        switchover_threshold: 2,
        ..PaddrThldsV2::default()
    };
    w.set(A, a, SCTP_PEER_ADDR_THLDS_V2, &thresholds).unwrap();
    assert_eq!(
        w.get(A, a, SCTP_PEER_ADDR_THLDS_V2, &thresholds),
        Ok(thresholds)
    );
    let contradiction = PaddrThldsV2 {
        switchover_threshold: 0,
        ..thresholds
    };
    let refused = w.set(A, a, SCTP_PEER_ADDR_THLDS_V2, &contradiction);
    assert_eq!(refused, Err(Errno::EINVAL));
}

#[test]
fn integers_are_read_back() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    for option in [
        SCTP_NODELAY,
        SCTP_DISABLE_FRAGMENTS,
        SCTP_FRAGMENT_INTERLEAVE,
        SCTP_I_WANT_MAPPED_V4_ADDR,
        SCTP_RECVRCVINFO,
        SCTP_RECVNXTINFO,
        SCTP_AUTOCLOSE,
        SCTP_MAXSEG,
        SCTP_MAX_BURST,
        SCTP_ADAPTATION_LAYER,
    ] {
        let option = (IPPROTO_SCTP, option);
        w.set_int(A, a, option, 1).unwrap();
        assert_eq!(w.get_int(A, a, option), Ok(1), "{option:?}");
        assert_eq!(
            w.get_bytes(A, a, option, &[0; 3]),
            Err(Errno::EINVAL),
            "{option:?}"
        );
        assert_eq!(
            w.set_bytes(A, a, option, &[0; 3]),
            Err(Errno::EINVAL),
            "{option:?}"
        );
    }
    for option in [SO_REUSEADDR, SO_REUSEPORT] {
        w.set_int(A, a, (SOL_SOCKET, option), 1).unwrap();
        assert_eq!(w.get_int(A, a, (SOL_SOCKET, option)), Ok(1));
    }
    let protocol = [
        (SO_DOMAIN, AF_INET),
        (SO_TYPE, SOCK_SEQPACKET),
        (SO_PROTOCOL, IPPROTO_SCTP),
    ];
    for (option, value) in protocol {
        assert_eq!(w.get_int(A, a, (SOL_SOCKET, option)), Ok(value));
    }
    // Linux doubles the size of buffers.
    w.set_int(A, a, (SOL_SOCKET, SO_SNDBUF), 10_000).unwrap();
    assert_eq!(w.get_int(A, a, (SOL_SOCKET, SO_SNDBUF)), Ok(20_000));
}

/// RFC 6458, sections 8.1.16 and 8.1.19, in their two forms
#[test]
fn options_with_two_forms() {
    let mut w = World::new();
    let (a, _) = w.pair();
    let value = |value| AssocValue { assoc_id: 0, value };
    w.set(A, a, SCTP_MAXSEG, &value(500)).unwrap();
    assert_eq!(w.get_int(A, a, (IPPROTO_SCTP, SCTP_MAXSEG)), Ok(500));
    assert_eq!(w.get(A, a, SCTP_MAXSEG, &value(0)), Ok(value(500)));
    w.set_int(A, a, (IPPROTO_SCTP, SCTP_DISABLE_FRAGMENTS), 1)
        .unwrap();
    assert_eq!(w.send(A, a, &[0; 501]), Err(Errno::EMSGSIZE));
    let sack = SackInfo {
        assoc_id: 0,
        delay: 100,
        frequency: 3,
    };
    w.set(A, a, SCTP_DELAYED_SACK, &sack).unwrap();
    assert_eq!(
        w.get(A, a, SCTP_DELAYED_SACK, &SackInfo::default()),
        Ok(sack)
    );
    w.set(A, a, SCTP_DELAYED_SACK, &value(50)).unwrap();
    assert_eq!(w.get(A, a, SCTP_DELAYED_SACK, &value(0)), Ok(value(50)));
    assert_eq!(
        w.set(A, a, SCTP_DELAYED_SACK, &value(501)),
        Err(Errno::EINVAL)
    );
}

/// RFC 6458, section 8.1; RFC 8260, section 4.3; RFC 6525, section 6.3.1
#[test]
fn extensions_of_future_associations() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    let value = |value| AssocValue { assoc_id: 0, value };
    for option in [
        SCTP_PR_SUPPORTED,
        SCTP_RECONFIG_SUPPORTED,
        SCTP_ASCONF_SUPPORTED,
        SCTP_AUTH_SUPPORTED,
        SCTP_ECN_SUPPORTED,
    ] {
        for on in [0, 1] {
            w.set(A, a, option, &value(on)).unwrap();
            assert_eq!(w.get(A, a, option, &value(9)), Ok(value(on)), "{option}");
        }
    }
    let option = SCTP_INTERLEAVING_SUPPORTED;
    assert_eq!(w.set(A, a, option, &value(1)), Err(Errno::EPERM));
    w.set_int(A, a, (IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE), 1)
        .unwrap();
    w.set(A, a, option, &value(1)).unwrap();
    assert_eq!(w.get(A, a, option, &value(0)), Ok(value(1)));
    w.set(A, a, SCTP_STREAM_SCHEDULER, &value(SCTP_SS_RR as u32))
        .unwrap();
    let round_robin = Ok(value(SCTP_SS_RR as u32));
    assert_eq!(w.get(A, a, SCTP_STREAM_SCHEDULER, &value(0)), round_robin);
    assert_eq!(
        w.set(A, a, SCTP_STREAM_SCHEDULER, &value(9)),
        Err(Errno::EINVAL)
    );
    w.set(A, a, SCTP_ENABLE_STREAM_RESET, &value(5)).unwrap();
    assert_eq!(
        w.get(A, a, SCTP_ENABLE_STREAM_RESET, &value(0)),
        Ok(value(5))
    );
    w.set(A, a, SCTP_EXPOSE_POTENTIALLY_FAILED_STATE, &value(1))
        .unwrap();
    let hidden = w.get(A, a, SCTP_EXPOSE_POTENTIALLY_FAILED_STATE, &value(0));
    assert_eq!(hidden, Ok(value(1)));
}

#[test]
fn reconfiguration_has_to_be_enabled() {
    let mut w = World::with(|config| {
        config.association =
            AssociationConfig::default().with(|c| c.streams.grants.reset_association = false);
    });
    let (a, _) = w.pair();
    let option = (IPPROTO_SCTP, SCTP_RESET_ASSOC);
    assert_eq!(w.set_int(A, a, option, 0), Err(Errno::ENOPROTOOPT));
    let value = StreamValue {
        stream_id: 3,
        value: 9,
        ..StreamValue::default()
    };
    w.set(A, a, SCTP_STREAM_SCHEDULER_VALUE, &value).unwrap();
    // As on Linux: 0 of a scheduler without values of streams.
    for (scheduler, read) in [
        (SCTP_SS_FCFS, 0),
        (SCTP_SS_RR, 0),
        (SCTP_SS_PRIO, 9),
        (SCTP_SS_WFQ, 9),
    ] {
        let selected = AssocValue {
            value: scheduler as u32,
            ..AssocValue::default()
        };
        w.set(A, a, SCTP_STREAM_SCHEDULER, &selected).unwrap();
        assert_eq!(w.get(A, a, SCTP_STREAM_SCHEDULER, &selected), Ok(selected));
        let read = StreamValue {
            value: read,
            ..value
        };
        assert_eq!(w.get(A, a, SCTP_STREAM_SCHEDULER_VALUE, &value), Ok(read));
    }
}

/// RFC 6951, section 6.1
#[test]
fn without_plain_ip_port_0_is_the_default_port() {
    for (has_plain_ip, expected) in [(true, 0), (false, 9899_u16.to_be())] {
        let mut w = World::with(|config| {
            config.encapsulation = Some(9899);
            config.has_plain_ip = has_plain_ip;
        });
        let socket = w.one_to_one(A);
        let plain = UdpEncaps::default();
        w.set(A, socket, SCTP_REMOTE_UDP_ENCAPS_PORT, &plain)
            .unwrap();
        let read = w.get(A, socket, SCTP_REMOTE_UDP_ENCAPS_PORT, &plain);
        assert_eq!(read.unwrap().port, expected);
    }
}

/// An address names its association, which an identifier that exists must not contradict.
#[test]
fn an_address_belongs_to_its_association() {
    let mut w = World::new();
    w.listener(Style::OneToMany, 5);
    let many = w.one_to_many(A);
    w.send_to(A, many, at(B, PORT), b"x").unwrap();
    w.run(ms(100));
    let ids = w.get_bytes(A, many, (IPPROTO_SCTP, SCTP_GET_ASSOC_ID_LIST), &[0; 64]);
    let id = i32::from_ne_bytes(*ids.unwrap()[4..].first_chunk().unwrap());
    let params = |assoc_id, peer: std::net::SocketAddr| PaddrParams {
        assoc_id,
        address: peer.into(),
        ..PaddrParams::default()
    };
    for (assoc_id, peer, expected) in [
        (id, at(B, PORT), Ok(())),
        (SCTP_FUTURE_ASSOC, at(B, PORT), Ok(())),
        (id, at(B, PORT + 1), Err(Errno::EINVAL)),
        (id + 1000, at(B, PORT), Err(Errno::EINVAL)),
        (SCTP_CURRENT_ASSOC, at(B, PORT), Err(Errno::EINVAL)),
    ] {
        let params = params(assoc_id, peer);
        let set = w.set(A, many, SCTP_PEER_ADDR_PARAMS, &params).map(drop);
        assert_eq!(set, expected, "{assoc_id} {peer}");
        let got = w.get(A, many, SCTP_PEER_ADDR_PARAMS, &params).map(drop);
        assert_eq!(got, expected, "{assoc_id} {peer}");
    }
    let info = PaddrInfo {
        assoc_id: id,
        address: at(B, PORT + 1).into(),
        ..PaddrInfo::default()
    };
    let got = w.get(A, many, SCTP_GET_PEER_ADDR_INFO, &info);
    assert_eq!(got.map(drop), Err(Errno::EINVAL));
    // The extensions of later associations, whatever association is named.
    let off = AssocValue {
        assoc_id: id,
        value: 0,
    };
    w.set(A, many, SCTP_PR_SUPPORTED, &off).unwrap();
    let future = AssocValue::default();
    let read = w.get(A, many, SCTP_PR_SUPPORTED, &future);
    assert_eq!(read.unwrap().value, 0);
}

/// RFC 6458, section 8.3; RFC 4895
#[test]
fn keys_authenticate_data() {
    let mut w = World::new();
    let b = w.listener(Style::OneToOne, 5);
    let a = w.one_to_one(A);
    let on = AssocValue {
        assoc_id: 0,
        value: 1,
    };
    let key = AuthKey {
        assoc_id: 0,
        key_number: 5,
        key_length: 6,
    };
    let key = [key.encode(), b"secret".to_vec()].concat();
    let active = AuthKeyId {
        assoc_id: 0,
        key_number: 5,
    };
    let option = |name| (IPPROTO_SCTP, name);
    let early = w.set_bytes(A, a, option(SCTP_AUTH_CHUNK), &[0]);
    assert_eq!(early, Err(Errno::EACCES), "not enabled");
    for (host, socket) in [(A, a), (B, b)] {
        w.set(host, socket, SCTP_AUTH_SUPPORTED, &on).unwrap();
        w.set_bytes(host, socket, option(SCTP_AUTH_CHUNK), &[0])
            .unwrap();
        w.set_bytes(host, socket, option(SCTP_AUTH_KEY), &key)
            .unwrap();
        w.set(host, socket, SCTP_AUTH_ACTIVE_KEY, &active).unwrap();
        let deletion = w.set(host, socket, SCTP_AUTH_DELETE_KEY, &active);
        assert_eq!(deletion, Err(Errno::EINVAL), "the active key");
    }
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    let (b, _) = w.on(B, |s, _| s.accept(b)).unwrap();
    assert_eq!(w.get(A, a, SCTP_AUTH_SUPPORTED, &on), Ok(on));
    let found = w
        .get(A, a, SCTP_AUTH_ACTIVE_KEY, &AuthKeyId::default())
        .unwrap();
    assert_eq!(found.key_number, 5);
    w.send(A, a, b"authenticated").unwrap();
    // RFC 6458, section 5.3.8: the active key, since the core has one for all messages.
    let with_key =
        |key_number| ControlMessage::sctp(SCTP_AUTHINFO, AuthInfo { key_number }.encode());
    assert_eq!(
        w.send_msg(A, a, None, b"x", &[with_key(4)]),
        Err(Errno::ENOPROTOOPT)
    );
    assert_eq!(w.send_msg(A, a, None, b"x", &[with_key(5)]), Ok(1));
    w.run(ms(500));
    assert_eq!(w.recv_all(B, b).len(), 2);
    let chunks = w
        .get_bytes(B, b, option(SCTP_LOCAL_AUTH_CHUNKS), &[0; 64])
        .unwrap();
    assert_eq!(AuthChunks::read(&chunks).unwrap().number, 1);
    assert_eq!(chunks[AuthChunks::SIZE..], [0]);
    let of_peer = (IPPROTO_SCTP, SCTP_PEER_AUTH_CHUNKS);
    assert_eq!(
        w.get_bytes(A, a, of_peer, &[0; 64])
            .map(|list| list[8..].to_vec()),
        Ok(vec![0])
    );
    let algorithms = w
        .get_bytes(A, a, option(SCTP_HMAC_IDENT), &[0; 64])
        .unwrap();
    assert_eq!(algorithms[..4], 2_u32.to_ne_bytes());
    // Another key, which the peer gets first.
    let second = [key[..4].to_vec(), vec![6, 0, 2, 0, 1, 2]].concat();
    let second = if cfg!(target_endian = "little") {
        second
    } else {
        return;
    };
    for (host, socket) in [(B, b), (A, a)] {
        w.set_bytes(host, socket, option(SCTP_AUTH_KEY), &second)
            .unwrap();
    }
    let active = AuthKeyId {
        key_number: 6,
        ..active
    };
    w.subscribe(B, b, &[SCTP_AUTHENTICATION_EVENT]);
    w.set(A, a, SCTP_AUTH_ACTIVE_KEY, &active).unwrap();
    w.send(A, a, b"second key").unwrap();
    w.run(ms(500));
    let all = w.recv_all(B, b);
    let event = AuthkeyEvent::decode(&all[0].data).unwrap();
    assert_eq!(
        (event.key_number, event.indication as i32),
        (6, SCTP_AUTH_NEW_KEY)
    );
    assert_eq!(&all[1].data[..], b"second key");
}

/// RFC 6458, section 8.1.21
#[test]
fn the_partial_delivery_point_has_a_limit() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    let option = (IPPROTO_SCTP, SCTP_PARTIAL_DELIVERY_POINT);
    assert_eq!(w.get_int(A, a, option), Ok(0));
    let half = w.get_int(A, a, (SOL_SOCKET, SO_RCVBUF)).unwrap() / 2;
    assert_eq!(w.set_int(A, a, option, half), Ok(0));
    for wrong in [half + 1, -1] {
        assert_eq!(w.set_int(A, a, option, wrong), Err(Errno::EINVAL));
    }
    assert_eq!(w.get_int(A, a, option), Ok(half));
}

/// Options that the core cannot do are refused, not ignored.
#[test]
fn unsupported_options_are_refused() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    for name in [
        SCTP_SENDMSG_CONNECT,
        SCTP_SOCKOPT_PEELOFF,
        SCTP_SOCKOPT_PEELOFF_FLAGS,
        SCTP_SOCKOPT_CONNECTX3,
        1000,
    ] {
        let option = (IPPROTO_SCTP, name);
        let refused = Errno::ENOPROTOOPT;
        assert_eq!(w.set_bytes(A, a, option, &[0; 256]), Err(refused), "{name}");
        assert_eq!(w.get_bytes(A, a, option, &[0; 256]), Err(refused), "{name}");
    }
    // SO_BINDTODEVICE, IP_TTL, and options of IPv6 on a socket of IPv4.
    let others = [
        (SOL_SOCKET, 25),
        (IPPROTO_IP, 2),
        (IPPROTO_IPV6, IPV6_V6ONLY),
        (IPPROTO_IPV6, IPV6_TCLASS),
    ];
    for option in others {
        assert_eq!(w.set_int(A, a, option, 1), Err(Errno::ENOPROTOOPT));
    }
    let counted = w.on(A, |s, _| s.statistics().refused_options);
    assert_eq!(counted, 2 * 5 + 4);
}

/// `SCTP_GET_ASSOC_STATS` of Linux
#[test]
fn an_association_has_counters() {
    let mut w = World::new();
    let (a, b) = w.pair();
    let asked = AssocStats::default();
    let stats = |w: &mut World, host, socket| -> AssocStats {
        w.get(host, socket, SCTP_GET_ASSOC_STATS, &asked).unwrap()
    };
    let set_up = stats(&mut w, A, a);
    assert_eq!(
        set_up.control_chunks_sent, 3,
        "INIT, COOKIE ECHO, and HEARTBEAT ACK from the second address"
    );
    assert_eq!(set_up.max_rto_address, at(B, PORT).into());
    assert_eq!(set_up.max_rto, 1000, "RTO.Min, after the first measurement");
    let again = stats(&mut w, A, a);
    assert_eq!((again.max_rto, again.max_rto_address), (0, Storage(None)));
    for (data, flags) in [(&b"in order"[..], 0), (&b"unordered"[..], SCTP_UNORDERED)] {
        let info = SndInfo {
            flags: flags as u16,
            ..SndInfo::default()
        };
        let control = [ControlMessage::sctp(SCTP_SNDINFO, info.encode())];
        w.send_msg(A, a, None, data, &control).unwrap();
    }
    w.run(secs(1));
    // The first of three packets is lost.
    w.set_int(A, a, (IPPROTO_SCTP, SCTP_NODELAY), 1).unwrap();
    w.set_link(0, false);
    w.set_link(1, false);
    w.send(A, a, b"lost").unwrap();
    w.set_link(0, true);
    w.set_link(1, true);
    w.send(A, a, b"behind").unwrap();
    w.run(ms(1));
    w.send(A, a, b"a gap").unwrap();
    w.run(secs(10));
    let (of_a, of_b) = (stats(&mut w, A, a), stats(&mut w, B, b));
    assert_eq!(
        (of_a.ordered_chunks_sent, of_a.unordered_chunks_sent),
        (4, 1)
    );
    assert_eq!(
        (of_b.ordered_chunks_received, of_b.unordered_chunks_received),
        (4, 1)
    );
    assert_eq!(of_a.retransmitted_chunks, 1);
    assert_eq!(of_b.out_of_sequence_tsns, 2);
    assert_eq!(of_a.gap_acks_received, 2);
    assert_eq!(of_a.sacks_received, of_b.sacks_sent);
    // INIT and INIT ACK precede the association of the listening side.
    assert_eq!(of_a.packets_received, of_b.packets_sent + 1);
    assert_eq!(of_a.control_chunks_sent, of_b.control_chunks_received + 1);
    assert_eq!(of_a.control_chunks_received, of_b.control_chunks_sent + 1);
    assert_eq!(of_b.duplicates_received, 0);
    assert!(of_a.max_rto >= 1000, "RTO.Min, after further measurements");
}

/// Section 4.1 of `socket(7)`, `ip(7)` and `ipv6(7)` of Linux: accepted and reported, without an effect in SCTP.
#[test]
fn options_without_effect_are_reported() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    for (option, default, given, reported) in [
        ((SOL_SOCKET, SO_KEEPALIVE), 0, 7, 1),
        ((SOL_SOCKET, SO_BROADCAST), 0, 1, 1),
        ((SOL_SOCKET, SO_OOBINLINE), 0, 1, 1),
        ((SOL_SOCKET, SO_PRIORITY), 0, 3, 3),
        ((SOL_SOCKET, SO_RCVLOWAT), 1, 100, 100),
    ] {
        let value = |w: &mut World| w.get_bytes(A, a, option, &[0; 4]);
        assert_eq!(value(&mut w), Ok(i32::to_ne_bytes(default).to_vec()));
        w.set_int(A, a, option, given).unwrap();
        assert_eq!(value(&mut w), Ok(i32::to_ne_bytes(reported).to_vec()));
    }
    assert_eq!(
        w.get_bytes(A, a, (IPPROTO_IP, IP_TOS), &[7; 4]),
        Ok(vec![0; 4])
    );
    // A single byte, as some programs pass it.
    w.set_bytes(A, a, (IPPROTO_IP, IP_TOS), &[0x28]).unwrap();
    assert_eq!(
        w.get_bytes(A, a, (IPPROTO_IP, IP_TOS), &[0]),
        Ok(vec![0x28])
    );
}

/// RFC 8899, section 5.1.1: `PROBE_TIMER`, with Linux's lower limit
#[test]
fn probes_of_the_path_mtu_have_an_interval() {
    let mut w = World::new();
    let a = w.one_to_one(A);
    let probes = |interval| ProbeInterval {
        interval,
        ..ProbeInterval::default()
    };
    let none = probes(0);
    assert_eq!(w.get(A, a, SCTP_PLPMTUD_PROBE_INTERVAL, &none), Ok(none));
    assert_eq!(
        w.set(A, a, SCTP_PLPMTUD_PROBE_INTERVAL, &probes(4999)),
        Err(Errno::EINVAL)
    );
    w.set(A, a, SCTP_PLPMTUD_PROBE_INTERVAL, &probes(10_000))
        .unwrap();
    w.listener(Style::OneToOne, 5);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    assert_eq!(
        w.get(A, a, SCTP_PLPMTUD_PROBE_INTERVAL, &none),
        Ok(probes(10_000))
    );
    assert_eq!(
        w.set(A, a, SCTP_PLPMTUD_PROBE_INTERVAL, &none),
        Err(Errno::ENOPROTOOPT),
        "the core reads it at set-up"
    );
}

/// RFC 9260, section 7.3: the host sends packets of several ports together, and refuses all of them.
#[test]
fn the_mtu_of_a_route_concerns_all_its_ports() {
    let mut w = World::new();
    w.listener(Style::OneToOne, 5);
    let sockets = [(); 3].map(|()| w.one_to_one(A));
    for socket in sockets {
        w.connect(socket, at(B, PORT)).unwrap_err();
    }
    w.run(secs(1));
    let asked = PaddrInfo {
        address: at(B, PORT).into(),
        ..PaddrInfo::default()
    };
    w.on(A, |s, now| {
        for socket in &sockets[..2] {
            let message = OutgoingMessage {
                data: Bytes::from_static(&[0; 1400]),
                ..OutgoingMessage::default()
            };
            s.sendmsg(now, *socket, &message).unwrap();
        }
        let (mut packets, mut last) = (Vec::new(), None);
        while let Some(transmit) = s.poll_transmit(now, &mut packets) {
            last = Some(transmit);
        }
        let mut transmit = last.unwrap();
        transmit.segment_size = Some(packets.len() / 2);
        transmit.len = packets.len();
        s.handle_oversized(now, &transmit, &packets, |_, _| Some(1300));
    });
    let mtus = sockets.map(|socket| {
        let info = w.get(A, socket, SCTP_GET_PEER_ADDR_INFO, &asked);
        info.unwrap().mtu
    });
    assert_eq!(mtus, [1300, 1300, 1500]);
}

/// Section 4.1 of `socket(7)` of Linux: `SO_SNDBUF` of an existing association
#[test]
fn a_larger_send_buffer_has_room_at_once() {
    let mut w = World::new();
    let (a, _) = w.pair();
    w.set_int(A, a, (SOL_SOCKET, SO_SNDBUF), 5000).unwrap();
    assert_eq!(w.send(A, a, &[0; 10_000]), Ok(10_000));
    assert_eq!(w.send(A, a, b"more"), Err(Errno::EAGAIN));
    w.set_int(A, a, (SOL_SOCKET, SO_SNDBUF), 50_000).unwrap();
    let level = w.look(A).readiness(a).unwrap();
    assert!(level.contains(Readiness::WRITABLE), "{level:?}");
    assert_eq!(w.send(A, a, b"more"), Ok(4));
}

/// RFC 6458, section 9.9, by the option that libsctp uses
#[test]
fn connectx_by_the_option_returns_the_identifier() {
    let mut w = World::new();
    w.listener(Style::OneToOne, 5);
    let a = w.one_to_one(A);
    let peers = write_address(at(B, PORT));
    let option = (IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX);
    assert_eq!(w.set_bytes(A, a, option, &peers), Ok(3));
    w.run(ms(100));
    let header = GetAddrs::default().encode();
    let buffer = [header, vec![0; 100]].concat();
    let option = (IPPROTO_SCTP, SCTP_GET_PEER_ADDRS);
    let list = w.get_bytes(A, a, option, &buffer).unwrap();
    assert_eq!(
        read_addresses(&list[GetAddrs::SIZE..]),
        Ok(vec![at(B, PORT)])
    );
    assert_eq!(w.get_bytes(A, a, option, &buffer[..20]), Err(Errno::ENOMEM));
}

/// RFC 6951, section 6.1
#[test]
fn the_encapsulation_port_is_kept() {
    let mut w = World::new();
    let a = w.one_to_many(A);
    let port = UdpEncaps {
        port: 9900_u16.to_be(),
        ..UdpEncaps::default()
    };
    w.set(A, a, SCTP_REMOTE_UDP_ENCAPS_PORT, &port).unwrap();
    let option = SCTP_REMOTE_UDP_ENCAPS_PORT;
    assert_eq!(w.get(A, a, option, &UdpEncaps::default()), Ok(port));
    let (b, _) = w.pair();
    w.set(A, b, option, &port).unwrap();
    assert_eq!(w.get(A, b, option, &UdpEncaps::default()), Ok(port));
}

/// RFC 6458, section 8.1.2
#[test]
fn association_parameters_describe_both_windows() {
    let mut w = World::new();
    let (a, _) = w.pair();
    let found = w
        .get(A, a, SCTP_ASSOCINFO, &AssocParams::default())
        .unwrap();
    assert_eq!((found.max_retrans, found.cookie_life), (10, 60_000));
    assert_eq!(found.peer_destinations, 1);
    assert!(
        found.peer_rwnd > 100_000 && found.local_rwnd > 100_000,
        "{found:?}"
    );
    let changed = AssocParams {
        max_retrans: 4,
        ..AssocParams::default()
    };
    w.set(A, a, SCTP_ASSOCINFO, &changed).unwrap();
    let found = w
        .get(A, a, SCTP_ASSOCINFO, &AssocParams::default())
        .unwrap();
    assert_eq!(found.max_retrans, 4);
    let life = AssocParams {
        cookie_life: 1000,
        ..AssocParams::default()
    };
    w.set(A, a, SCTP_ASSOCINFO, &life).unwrap();
    let found = w
        .get(A, a, SCTP_ASSOCINFO, &AssocParams::default())
        .unwrap();
    assert_eq!((found.max_retrans, found.cookie_life), (4, 1000));
}

/// RFC 6458, section 8.3.1: without dynamic addresses the peer cannot be asked.
#[test]
fn the_primary_address_of_the_peer_needs_asconf() {
    let mut w = World::new();
    let (a, _) = w.pair();
    let prim = SetPeerPrim {
        assoc_id: 0,
        address: at(A, 0).into(),
    };
    assert_eq!(
        w.set(A, a, SCTP_SET_PEER_PRIMARY_ADDR, &prim),
        Err(Errno::EPERM)
    );
}

/// Reads RTO.Min of future associations.
fn rto_min(w: &mut World, host: usize, socket: carrick_sockets::SocketId) -> u32 {
    let asked = RtoInfo {
        assoc_id: 0,
        initial: 0,
        max: 0,
        min: 0,
    };
    w.get(host, socket, SCTP_RTOINFO, &asked).unwrap().min
}

/// As `net.sctp` of Linux, but also for sockets that exist: what a program has set remains.
#[test]
fn changed_defaults_apply_to_later_associations() {
    let mut w = World::new();
    let (old, own) = (w.one_to_many(A), w.one_to_many(A));
    let rto = RtoInfo {
        assoc_id: 0,
        initial: 0,
        max: 0,
        min: 300,
    };
    w.set(A, own, SCTP_RTOINFO, &rto).unwrap();
    w.listener(Style::OneToMany, 5);
    w.send_to(A, old, at(B, PORT), b"x").unwrap();
    w.run(ms(200));
    let config = carrick_sockets::Config::for_programs(AssociationConfig::signaling());
    w.set_defaults(A, config.clone());
    let contradiction = config.with(|c| c.timers.rto_min = secs(70));
    let changed = w.on(A, |sockets, _| {
        sockets.set_default_association(contradiction)
    });
    assert!(changed.is_err());
    let new = w.one_to_many(A);
    assert_eq!(rto_min(&mut w, A, new), 150);
    assert_eq!(rto_min(&mut w, A, old), 150);
    assert_eq!(rto_min(&mut w, A, own), 300);
    // The association that exists has its parameters.
    let existing = RtoInfo { assoc_id: 3, ..rto };
    assert_eq!(w.get(A, old, SCTP_RTOINFO, &existing).unwrap().min, 1000);
}

#[test]
fn changed_defaults_apply_to_a_listening_socket() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    let config = carrick_sockets::Config::for_programs(AssociationConfig::signaling());
    w.set_defaults(B, config);
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    let (accepted, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
    assert_eq!(rto_min(&mut w, B, accepted), 150);
}
