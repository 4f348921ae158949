//! Statistics of the host (RFC 3873).

use bytes::Bytes;
use carrick_proto::{Route, StateName};
use carrick_sockets::Style;

use crate::world::*;

/// RFC 3873, section 3.2: counters of the host
#[test]
fn counters_outlast_ports_and_associations() {
    let mut w = World::new();
    let listener = w.listener(Style::OneToOne, 5);
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(100));
    let (b, _) = w.on(B, |s, _| s.accept(listener)).unwrap();
    let statistics = [A, B].map(|host| w.look(host).statistics());
    for of_host in &statistics {
        assert_eq!(of_host.metrics.states[&StateName::Established], 1);
        assert_eq!(of_host.metrics.established(), 1);
        assert!(of_host.metrics.paths.active > 0);
        assert_eq!(of_host.metrics.endpoint.established, 1);
    }
    assert_eq!(statistics[A].metrics.endpoint.accepted, 0);
    assert_eq!(statistics[B].metrics.endpoint.accepted, 1);
    assert_eq!(statistics[B].sockets, 2);
    for (host, socket) in [(A, a), (B, b), (B, listener)] {
        w.on(host, |s, now| s.close(now, socket).map(drop)).unwrap();
    }
    w.run(secs(60));
    for (host, before) in statistics.iter().enumerate() {
        assert_eq!(w.look(host).usage().ports, 0);
        let after = w.look(host).statistics();
        assert_eq!(after.metrics.established(), 0);
        assert!(after.metrics.states.is_empty());
        assert_eq!(after.metrics.endpoint.established, 1);
        assert_eq!(after.metrics.endpoint.shut_down, 1);
        let packets = |of: &carrick_sockets::HostStatistics| of.metrics.associations.packets_sent;
        assert!(packets(&after) > packets(before), "SHUTDOWN");
    }
}

/// RFC 9260, section 8.4
#[test]
fn packets_to_free_ports_are_out_of_the_blue() {
    let mut w = World::new();
    let a = w.one_to_one(A);
    w.connect(a, at(B, 7)).unwrap_err();
    w.run(ms(100));
    let counters = w.look(B).statistics().metrics.endpoint;
    assert_eq!(counters.out_of_the_blue, 1);
    let route = Route::plain(ip(B, 0), ip(A, 0));
    w.on(B, |s, now| {
        s.handle_datagram(now, &route, Bytes::from_static(&[1; 20]));
    });
    assert_eq!(w.look(B).statistics().metrics.endpoint.bad_checksum, 1);
    let again = w.look(B).statistics().metrics.endpoint;
    assert_eq!(again.datagrams_received, counters.datagrams_received + 1);
}
