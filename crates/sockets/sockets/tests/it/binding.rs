//! Addresses and ports: wildcard and mapped addresses, `sctp_bindx`, ephemeral ports, shared ports.

use std::net::SocketAddr;

use carrick_proto::AssociationConfig;
use carrick_sockets::linux::*;
use carrick_sockets::{Errno, Family, ReservedPorts, SocketId, Style};

use crate::world::*;

fn any(port: u16) -> SocketAddr {
    SocketAddr::from(([0; 4], port))
}

fn bound(w: &mut World, address: SocketAddr) -> Result<SocketId, Errno> {
    let socket = w.one_to_one(B);
    w.look(B).bind(socket, address).map(|()| socket)
}

/// RFC 6458, sections 3.1.2 and 9.5
#[test]
fn a_wildcard_address_lists_all_addresses() {
    let mut w = World::new();
    let v4 = bound(&mut w, any(PORT)).unwrap();
    assert_eq!(w.look(B).local_address(v4), Ok(any(PORT)));
    let list = w.look(B).local_addresses(v4).unwrap();
    assert_eq!(list, [0, 1].map(|link| SocketAddr::new(ip(B, link), PORT)));
    let v6 = w.look(B).socket(Style::OneToMany, Family::Inet6).unwrap();
    w.look(B).bind(v6, "[::]:6000".parse().unwrap()).unwrap();
    let list = w.look(B).local_addresses(v6).unwrap();
    assert_eq!(list.len(), 4);
    assert!(list.contains(&"[::ffff:10.0.0.2]:6000".parse().unwrap()));
    assert!(list.contains(&SocketAddr::new(ip6(B, 1), 6000)));
    let new = "10.0.9.9".parse().unwrap();
    w.look(B).host_address_added(new);
    assert_eq!(w.look(B).local_addresses(v4).unwrap().len(), 3);
    w.on(B, |s, now| s.host_address_removed(now, new));
    assert_eq!(w.look(B).local_addresses(v4).unwrap().len(), 2);
}

/// RFC 6458, section 8.1.23
#[test]
fn wildcard_sockets_follow_the_host() {
    let mut w = World::new();
    let option = (IPPROTO_SCTP, SCTP_AUTO_ASCONF);
    let wildcard = bound(&mut w, any(PORT)).unwrap();
    assert_eq!(w.get_int(B, wildcard, option), Ok(1));
    assert_eq!(w.set_int(B, wildcard, option, 1), Ok(0));
    assert_eq!(w.set_int(B, wildcard, option, 0), Err(Errno::EOPNOTSUPP));
    let one = bound(&mut w, at(B, 6000)).unwrap();
    assert_eq!(w.get_int(B, one, option), Ok(0));
    assert_eq!(w.set_int(B, one, option, 0), Ok(0));
    assert_eq!(w.set_int(B, one, option, 1), Err(Errno::EINVAL));
}

/// RFC 6458, sections 8.1.15 and 3.1.2
#[test]
fn mapped_addresses_work_both_ways() {
    let mut w = World::new();
    w.listener(Style::OneToOne, 5);
    let a = w.look(A).socket(Style::OneToOne, Family::Inet6).unwrap();
    let mapped: SocketAddr = format!("[::ffff:10.0.0.2]:{PORT}").parse().unwrap();
    assert_eq!(w.connect(a, mapped), Err(Errno::EINPROGRESS));
    w.run(ms(100));
    assert_eq!(w.look(A).peer_address(a), Ok(mapped));
    w.set_int(A, a, (IPPROTO_SCTP, SCTP_I_WANT_MAPPED_V4_ADDR), 0)
        .unwrap();
    let list = w.look(A).peer_addresses(a, 0).unwrap();
    assert!(list.contains(&at(B, PORT)), "{list:?}");
    let only = w.look(A).socket(Style::OneToOne, Family::Inet6).unwrap();
    w.set_int(A, only, (IPPROTO_IPV6, IPV6_V6ONLY), 1).unwrap();
    assert_eq!(w.connect(only, mapped), Err(Errno::EINVAL));
    let v4 = w.one_to_one(A);
    assert_eq!(w.connect(v4, mapped), Err(Errno::EINVAL));
}

/// RFC 6458, section 9.1
#[test]
fn bindx_takes_port_zero_or_the_bound_one() {
    let mut w = World::new();
    let socket = bound(&mut w, at(B, PORT)).unwrap();
    let second = |port| SocketAddr::new(ip(B, 1), port);
    assert_eq!(
        w.look(B).bindx_add(socket, &[second(PORT + 1)]),
        Err(Errno::EINVAL)
    );
    let foreign = SocketAddr::new(ip(A, 1), PORT + 1);
    assert_eq!(
        w.look(B).bindx_add(socket, &[foreign]),
        Err(Errno::EINVAL),
        "the port before the address"
    );
    assert_eq!(w.look(B).bindx_add(socket, &[second(0)]), Ok(()));
    assert_eq!(
        w.look(B).bindx_add(socket, &[second(PORT)]),
        Err(Errno::EINVAL)
    );
    assert_eq!(w.look(B).local_addresses(socket).unwrap().len(), 2);
    let remove = |w: &mut World, address| w.on(B, |s, now| s.bindx_remove(now, socket, &[address]));
    let all = [at(B, 0), second(0)];
    let removed = w.on(B, |s, now| s.bindx_remove(now, socket, &all));
    assert_eq!(removed, Err(Errno::EBUSY));
    assert_eq!(w.look(B).local_addresses(socket).unwrap().len(), 2, "none");
    let foreign = SocketAddr::new(ip(A, 0), 0);
    assert_eq!(remove(&mut w, foreign), Err(Errno::EINVAL));
    assert_eq!(remove(&mut w, at(B, 0)), Ok(()));
    assert_eq!(remove(&mut w, second(PORT)), Err(Errno::EBUSY));
    assert_eq!(remove(&mut w, at(B, 0)), Err(Errno::EBUSY), "before others");
    assert_eq!(w.look(B).local_address(socket), Ok(second(PORT)));
    // By the socket options, with packed addresses.
    let option = (IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD);
    w.set_bytes(B, socket, option, &write_address(at(B, 0)))
        .unwrap();
    let list = w
        .get_bytes(B, socket, (IPPROTO_SCTP, SCTP_GET_LOCAL_ADDRS), &[0; 100])
        .unwrap();
    assert_eq!(GetAddrs::read(&list).unwrap().number, 2);
    let list = read_addresses(&list[GetAddrs::SIZE..]).unwrap();
    assert_eq!(list, [second(PORT), at(B, PORT)]);
}

/// RFC 5061, sections 4.2.1 and 4.2.2: addresses are added and removed while associations are up.
#[test]
fn addresses_change_while_an_association_is_up() {
    let mut w = World::with(|config| {
        config.association = AssociationConfig::default().with(|c| {
            c.extensions.dynamic_addresses = true;
            c.security.dynamic_addresses_without_authentication = true;
        });
    });
    w.listener(Style::OneToOne, 5);
    let a = w.one_to_one(A);
    w.look(A).bind(a, at(A, 0)).unwrap();
    w.subscribe(A, a, &[SCTP_PEER_ADDR_CHANGE]);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    let b = SocketId::clone(&w.changes(B)[0].0);
    let (b, _) = w.on(B, |s, _| s.accept(b)).unwrap();
    assert_eq!(w.look(A).peer_addresses(a, 0).unwrap().len(), 1);
    let second = SocketAddr::new(ip(B, 1), 0);
    w.on(B, |s, _| s.bindx_add(b, &[second])).unwrap();
    w.run(secs(5));
    assert_eq!(w.look(A).peer_addresses(a, 0).unwrap().len(), 2);
    w.on(B, |s, now| s.bindx_remove(now, b, &[second])).unwrap();
    w.run(secs(5));
    assert_eq!(w.look(A).peer_addresses(a, 0).unwrap().len(), 1);
    let changes = w.recv_all(A, a);
    let states: Vec<i32> = changes
        .iter()
        .map(|change| PaddrChange::decode(&change.data).unwrap().state)
        .collect();
    assert_eq!(states.first(), Some(&SCTP_ADDR_ADDED), "{states:?}");
    assert_eq!(states.last(), Some(&SCTP_ADDR_REMOVED), "{states:?}");
}

/// RFC 6458, section 3.1.2
#[test]
fn ephemeral_ports_run_out() {
    let mut w = World::with(|config| config.ephemeral_ports = 40_000..=40_002);
    let mut ports: Vec<u16> = (0..3)
        .map(|_| {
            let socket = bound(&mut w, any(0)).unwrap();
            w.look(B).local_address(socket).unwrap().port()
        })
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, [40_000, 40_001, 40_002]);
    assert_eq!(bound(&mut w, any(0)), Err(Errno::EADDRNOTAVAIL));
}

#[test]
fn a_port_is_in_use_at_its_addresses() {
    let mut w = World::new();
    let first = bound(&mut w, at(B, PORT)).unwrap();
    assert_eq!(bound(&mut w, at(B, PORT)), Err(Errno::EADDRINUSE));
    assert_eq!(bound(&mut w, any(PORT)), Err(Errno::EADDRINUSE));
    assert!(
        bound(&mut w, SocketAddr::new(ip(B, 1), PORT)).is_ok(),
        "another address"
    );
    assert_eq!(w.look(B).bind(first, at(B, PORT)), Err(Errno::EINVAL));
    w.on(B, |s, now| s.close(now, first)).unwrap();
    assert!(bound(&mut w, at(B, PORT)).is_ok());
}

fn reusable(w: &mut World, option: i32) -> SocketId {
    let socket = w.one_to_one(B);
    w.set_int(B, socket, (SOL_SOCKET, option), 1).unwrap();
    w.look(B).bind(socket, at(B, PORT)).unwrap();
    socket
}

#[test]
fn reuse_of_addresses_ends_with_listening() {
    let mut w = World::new();
    let first = reusable(&mut w, SO_REUSEADDR);
    let second = reusable(&mut w, SO_REUSEADDR);
    w.on(B, |s, _| s.listen(first, 5)).unwrap();
    assert_eq!(w.on(B, |s, _| s.listen(second, 5)), Err(Errno::EADDRINUSE));
    let third = w.one_to_one(B);
    w.set_int(B, third, (SOL_SOCKET, SO_REUSEADDR), 1).unwrap();
    assert_eq!(w.look(B).bind(third, at(B, PORT)), Err(Errno::EADDRINUSE));
}

/// Returns the socket that a listener accepts for a new client.
fn accepted(w: &mut World, listener: SocketId) -> SocketId {
    w.on(B, |s, _| s.listen(listener, 5)).unwrap();
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    w.on(B, |s, _| s.accept(listener)).unwrap().0
}

/// A server that starts again while associations of its predecessor end.
#[test]
fn a_port_with_ending_associations_is_reusable() {
    let mut w = World::new();
    let listener = reusable(&mut w, SO_REUSEADDR);
    let b = accepted(&mut w, listener);
    for socket in [listener, b] {
        w.on(B, |s, now| s.close(now, socket)).unwrap();
    }
    assert_eq!(bound(&mut w, at(B, PORT)), Err(Errno::EADDRINUSE));
    reusable(&mut w, SO_REUSEADDR);
}

/// The same with several addresses, which are bound one after the other.
#[test]
fn a_multi_homed_port_is_reusable() {
    let mut w = World::new();
    let other = [SocketAddr::new(ip(B, 1), PORT)];
    let listener = reusable(&mut w, SO_REUSEADDR);
    w.look(B).bindx_add(listener, &other).unwrap();
    let b = accepted(&mut w, listener);
    for socket in [listener, b] {
        w.on(B, |s, now| s.close(now, socket)).unwrap();
    }
    let again = reusable(&mut w, SO_REUSEADDR);
    let list = w.look(B).local_addresses(again).unwrap();
    assert_eq!(list, [at(B, PORT)]);
    w.look(B).bindx_add(again, &other).unwrap();
    let b = accepted(&mut w, again);
    assert_eq!(w.look(B).local_addresses(b).unwrap().len(), 2);
}

#[test]
fn listeners_share_a_port_with_reuse_port() {
    let mut w = World::new();
    let listeners = [(); 2].map(|()| reusable(&mut w, SO_REUSEPORT));
    for listener in listeners {
        w.on(B, |s, _| s.listen(listener, 50)).unwrap();
    }
    for _ in 0..20 {
        let a = w.one_to_one(A);
        w.connect(a, at(B, PORT)).unwrap_err();
    }
    w.run(ms(100));
    let accepted = listeners
        .map(|listener| std::iter::from_fn(|| w.on(B, |s, _| s.accept(listener)).ok()).count());
    assert_eq!(accepted.iter().sum::<usize>(), 20);
    assert!(accepted.iter().all(|count| *count > 0), "{accepted:?}");
}

#[test]
fn privileged_ports_need_privileges() {
    let mut w = World::new();
    let socket = w.one_to_one(B);
    assert_eq!(w.look(B).bind(socket, at(B, 1023)), Err(Errno::EACCES));
    w.look(B).set_privileged(socket, true).unwrap();
    assert_eq!(w.look(B).bind(socket, at(B, 1023)), Ok(()));
}

/// IPv6 link-local addresses are refused: the core has no scope identifiers.
#[test]
fn foreign_and_link_local_addresses_are_refused() {
    let mut w = World::with(|config| config.addresses.push("fe80::1".parse().unwrap()));
    assert_eq!(bound(&mut w, at(A, PORT)), Err(Errno::EADDRNOTAVAIL));
    let v6 = w.look(B).socket(Style::OneToOne, Family::Inet6).unwrap();
    let link_local = "[fe80::1%2]:5000".parse().unwrap();
    assert_eq!(w.look(B).bind(v6, link_local), Err(Errno::EADDRNOTAVAIL));
}

#[test]
fn ipv6_peers_have_both_families() {
    let mut w = World::new();
    let b = w.look(B).socket(Style::OneToMany, Family::Inet6).unwrap();
    w.look(B).bind(b, "[::]:5000".parse().unwrap()).unwrap();
    w.on(B, |s, _| s.listen(b, 1)).unwrap();
    let a = w.look(A).socket(Style::OneToMany, Family::Inet6).unwrap();
    let peer = SocketAddr::new(ip6(B, 0), PORT);
    assert_eq!(w.send_to(A, a, peer, b"v6"), Ok(2));
    w.run(ms(200));
    let received = w.recv(B, b).unwrap();
    assert_eq!(received.address.unwrap().ip(), ip6(A, 0));
    let list = w.look(A).peer_addresses(a, 3).unwrap();
    assert!(list.contains(&peer), "{list:?}");
    assert!(
        list.contains(&"[::ffff:10.0.1.2]:5000".parse().unwrap()),
        "{list:?}"
    );
}

/// `EINVAL`, as Linux for a scope that the host does not have: paths have no scopes.
#[test]
fn link_local_peers_are_refused_at_once() {
    let mut w = World::new();
    let peer: SocketAddr = "[fe80::1%2]:5000".parse().unwrap();
    let global = SocketAddr::new(ip6(B, 0), PORT);
    let one = w.look(A).socket(Style::OneToOne, Family::Inet6).unwrap();
    assert_eq!(w.connect(one, peer), Err(Errno::EINVAL));
    let several = w.on(A, |s, now| s.connectx(now, one, &[global, peer]));
    assert_eq!(several, Err(Errno::EINVAL));
    let many = w.look(A).socket(Style::OneToMany, Family::Inet6).unwrap();
    assert_eq!(w.send_to(A, many, peer, b"lost"), Err(Errno::EINVAL));
    assert_eq!(w.look(A).usage().associations, 0);
}

#[test]
fn reserved_ports_are_for_their_owners() {
    let mut w = World::with(|config| {
        for (owner, ports) in [(7, 100..=101), (8, 101..=101), (7, 40_000..=50_000)] {
            config.reserved_ports.push(ReservedPorts { owner, ports });
        }
        config.ephemeral_ports = 39_999..=50_001;
    });
    let mut bind = |owner, number| {
        let socket = w.one_to_one(B);
        w.look(B).set_owner(socket, owner).unwrap();
        let bound = w.look(B).bind(socket, at(B, number));
        let local = w.look(B).local_address(socket).unwrap().port();
        w.on(B, |s, now| s.close(now, socket)).unwrap();
        bound.map(|()| local)
    };
    for (owner, number, expected) in [
        (7, 100, Ok(100)),
        (8, 100, Err(Errno::EACCES)),
        (7, 101, Ok(101)),
        (8, 101, Ok(101)),
        (7, 102, Err(Errno::EACCES)),
        (8, 45_000, Err(Errno::EACCES)),
        (9, 2000, Ok(2000)),
    ] {
        assert_eq!(bind(owner, number), expected, "port {number} of {owner}");
    }
    for _ in 0..20 {
        let ephemeral = bind(8, 0).unwrap();
        assert!([39_999, 50_001].contains(&ephemeral), "{ephemeral}");
    }
    let root = w.one_to_one(B);
    w.look(B).set_privileged(root, true).unwrap();
    assert_eq!(w.look(B).bind(root, at(B, 100)), Ok(()));
}

/// RFC 1122, section 3.2.1.3: all of 127.0.0.0/8 are addresses of the host, which its interface need not list.
#[test]
fn every_loopback_address_is_the_hosts() {
    let loopback = |last, port| SocketAddr::from(([127, 0, 0, last], port));
    let mut w = World::new();
    let error = bound(&mut w, loopback(5, PORT));
    assert_eq!(error, Err(Errno::EADDRNOTAVAIL), "without an interface");
    let mut w = World::with(|config| config.addresses.push(loopback(1, 0).ip()));
    let one = bound(&mut w, loopback(5, PORT)).unwrap();
    assert_eq!(w.look(B).local_addresses(one), Ok(vec![loopback(5, PORT)]));
    w.look(B).bindx_add(one, &[loopback(6, 0)]).unwrap();
    let used = w.look(B).loopback_in_use();
    assert_eq!(used, [5, 6].map(|last| loopback(last, 0).ip()).into());
    // A wildcard address has them all, and lists those of the interface.
    let all = bound(&mut w, any(6000)).unwrap();
    let of = |w: &mut World, last| w.look(B).socket_at(Some(loopback(last, 0).ip()), 6000);
    assert_eq!(of(&mut w, 1), Some(all));
    assert_eq!(of(&mut w, 77), Some(all));
    assert_eq!(w.look(B).local_addresses(all).unwrap().len(), 3);
    let foreign = w.look(B).socket_at(Some("10.9.9.9".parse().unwrap()), 6000);
    assert_eq!(foreign, None);
}
