//! DSCP of packets: `IP_TOS`, `IPV6_TCLASS` and `SCTP_PEER_ADDR_PARAMS`.

use std::net::{IpAddr, SocketAddr};

use carrick_sockets::linux::*;
use carrick_sockets::{Errno, Family, SocketId, Style};

use crate::world::*;

const TOS: (i32, i32) = (IPPROTO_IP, IP_TOS);
const CLASS: (i32, i32) = (IPPROTO_IPV6, IPV6_TCLASS);

/// Expedited Forwarding (RFC 3246), and Assured Forwarding class 1 (RFC 2597), as octets.
const EF: u8 = 46 << 2;
const AF11: u8 = 10 << 2;

fn params(address: Option<SocketAddr>, dscp: u8) -> PaddrParams {
    PaddrParams {
        address: Storage(address),
        flags: SPP_DSCP as u32,
        dscp,
        ..PaddrParams::default()
    }
}

/// Returns a connected pair of one-to-one sockets with all IPv4 addresses of both hosts.
fn pair(w: &mut World) -> (SocketId, SocketId) {
    let listener = w.look(B).socket(Style::OneToOne, Family::Inet).unwrap();
    let any = SocketAddr::new(IpAddr::from([0; 4]), PORT);
    w.look(B).bind(listener, any).unwrap();
    w.on(B, |s, _| s.listen(listener, 5)).unwrap();
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(secs(1));
    let (b, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
    (a, b)
}

/// Sets the DSCP of an association, or of one of its paths.
fn mark(w: &mut World, socket: SocketId, address: Option<SocketAddr>, dscp: u8) {
    w.set(A, socket, SCTP_PEER_ADDR_PARAMS, &params(address, dscp))
        .unwrap();
}

fn reported(w: &mut World, socket: SocketId, address: Option<SocketAddr>) -> u8 {
    let asked = params(address, 0);
    w.get(A, socket, SCTP_PEER_ADDR_PARAMS, &asked)
        .unwrap()
        .dscp
}

/// Returns the DSCPs of the packets to an address that A has sent, as octets without the ECN field.
fn sent(w: &mut World, to: IpAddr) -> Vec<u8> {
    let classes = w.sent_classes(A).into_iter();
    let mut classes: Vec<u8> = classes
        .filter(|(remote, _)| *remote == to)
        .map(|(_, class)| class & 0xfc)
        .collect();
    classes.dedup();
    classes
}

/// RFC 6458, section 8.1.12
#[test]
fn packets_have_the_dscp_of_their_association() {
    let mut w = World::new();
    let (a, b) = pair(&mut w);
    w.sent_classes(A);
    w.send(A, a, b"unmarked").unwrap();
    w.run(secs(1));
    assert_eq!(sent(&mut w, ip(B, 0)), [0]);
    mark(&mut w, a, None, EF | 1);
    w.send(A, a, &[7; 5000]).unwrap();
    w.run(secs(100));
    let all = w.sent_classes(A);
    assert!(all.iter().all(|(_, class)| class & 0xfc == EF), "{all:?}");
    assert!(all.iter().any(|(to, _)| *to == ip(B, 1)), "heartbeats");
    // DATA is ECN-capable, control chunks are not (RFC 4960, appendix A).
    for class in [EF, EF | 2] {
        assert!(all.iter().any(|(_, sent)| *sent == class), "{all:?}");
    }
    assert!(w.sent_classes(B).iter().all(|(_, class)| class & 0xfc == 0));
    assert_eq!(reported(&mut w, a, None), EF);
    w.on(A, |s, now| s.close(now, a)).unwrap();
    w.run(secs(1));
    assert_eq!(sent(&mut w, ip(B, 0)), [EF], "SHUTDOWN");
    w.on(B, |s, now| s.close(now, b)).unwrap();
}

/// RFC 6458, section 8.1.12
#[test]
fn paths_differ_in_their_dscp() {
    let mut w = World::new();
    let (a, _) = pair(&mut w);
    let second = Some(SocketAddr::new(ip(B, 1), PORT));
    mark(&mut w, a, second, AF11);
    assert_eq!(reported(&mut w, a, second), AF11);
    assert_eq!(reported(&mut w, a, Some(at(B, PORT))), 0);
    w.sent_classes(A);
    w.hand_over(A);
    w.run(secs(100));
    let classes = w.sent_classes(A);
    for (to, class) in classes {
        let expected = if to == ip(B, 1) { AF11 } else { 0 };
        assert_eq!(class & 0xfc, expected, "{to}");
    }
    // IP_TOS applies where no DSCP is set, and the one of the association to all.
    w.set_int(A, a, TOS, EF.into()).unwrap();
    w.run(secs(100));
    for (to, class) in w.sent_classes(A) {
        let expected = if to == ip(B, 1) { AF11 } else { EF };
        assert_eq!(class & 0xfc, expected, "{to}");
    }
    mark(&mut w, a, None, 0);
    w.set_int(A, a, TOS, EF.into()).unwrap();
    w.run(secs(100));
    let classes = w.sent_classes(A);
    assert!(classes.iter().all(|(_, class)| class & 0xfc == 0));
    let old = &params(None, EF).encode()[..PADDRPARAMS_OLD];
    let option = (IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS);
    assert_eq!(w.set_bytes(A, a, option, old), Err(Errno::EINVAL));
}

/// Sections 1 of `ip(7)` and `ipv6(7)` of Linux
#[test]
fn the_class_of_a_socket_marks_all_packets() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    w.set_int(B, listener, TOS, AF11.into()).unwrap();
    let a = w.one_to_one(A);
    w.set_int(A, a, TOS, i32::from(EF) | 3).unwrap();
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(secs(1));
    let (b, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
    assert_eq!(sent(&mut w, ip(B, 0)), [EF], "INIT and COOKIE ECHO");
    w.send(B, b, b"accepted").unwrap();
    w.run(secs(1));
    let of_b = w.sent_classes(B);
    assert!(of_b.len() > 2, "INIT ACK, COOKIE ACK and DATA");
    assert!(of_b.iter().all(|(_, class)| class & 0xfc == AF11));
    w.sent_classes(A);
    w.set_int(A, a, TOS, 0).unwrap();
    w.send(A, a, b"unmarked again").unwrap();
    w.run(secs(1));
    assert_eq!(sent(&mut w, ip(B, 0)), [0]);
}

/// Section 1 of `ipv6(7)` of Linux
#[test]
fn the_classes_of_both_versions_of_ip_differ() {
    let mut w = World::new();
    let six = w.look(B).socket(Style::OneToOne, Family::Inet6).unwrap();
    let any = SocketAddr::new(IpAddr::from([0_u16; 8]), PORT);
    w.look(B).bind(six, any).unwrap();
    w.on(B, |s, _| s.listen(six, 5)).unwrap();
    let a = w.look(A).socket(Style::OneToOne, Family::Inet6).unwrap();
    w.set_int(A, a, TOS, EF.into()).unwrap();
    w.set_int(A, a, CLASS, AF11.into()).unwrap();
    let peer = SocketAddr::new(ip6(B, 0), PORT);
    w.on(A, |s, now| s.connect(now, a, peer)).unwrap_err();
    w.run(secs(100));
    let classes = w.sent_classes(A);
    let of_v4 = classes.iter().filter(|(to, _)| to.is_ipv4()).count();
    assert!(of_v4 > 0 && of_v4 < classes.len(), "{classes:?}");
    for (to, class) in classes {
        let expected = if to.is_ipv4() { EF } else { AF11 };
        assert_eq!(class & 0xfc, expected, "{to}");
    }
}
