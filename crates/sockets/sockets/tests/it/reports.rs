//! Paths and associations as the operator sees them, beside what their programs see.

use std::sync::Arc;

use carrick_proto::{AssociationId, CloseReason, Observer, PathStats, ReportKind};
use carrick_sockets::linux::*;
use carrick_sockets::{OverviewSubject, PortObservers, SocketId};

use crate::world::*;

/// Returns the paths of the only association of host A.
fn paths(w: &mut World) -> Vec<PathStats> {
    let mut rows = w.look(A).overview(None);
    let found = rows.find_map(|row| match row.subject {
        OverviewSubject::Association { paths, .. } => Some(paths),
        OverviewSubject::Socket { .. } => None,
    });
    found.expect("an association")
}

fn lines(w: &mut World, host: usize) -> Vec<String> {
    let sockets = w.look(host);
    let reports = std::iter::from_fn(|| sockets.reports().poll());
    reports.map(|report| report.to_string()).collect()
}

/// Returns the number of events of paths and of ends, by their names.
fn counts(w: &mut World, host: usize) -> Vec<(&'static str, u64)> {
    let events = w.look(host).statistics().events;
    let paths = ReportKind::OF_PATHS.map(ReportKind::name);
    let paths = paths.into_iter().zip(events.paths);
    let ends = CloseReason::NAMES.into_iter().zip(events.ends);
    paths.chain(ends).filter(|(_, count)| *count > 0).collect()
}

/// RFC 7829, section 7.3: the option is about what the program sees.
#[test]
fn the_operator_sees_a_potentially_failed_path() {
    for exposed in [1, 2] {
        see_a_failed_path(exposed);
    }
}

/// Returns the state of the primary path as the program reads it. New data has left it, and it remains the primary one
/// (RFC 7829, section 5).
fn state_of_primary(w: &mut World, socket: SocketId) -> i32 {
    let primary = w.get(A, socket, SCTP_PRIMARY_ADDR, &Prim::default());
    let address = primary.unwrap().address;
    assert_eq!(address, at(B, PORT).into());
    let asked = PaddrInfo {
        address,
        ..PaddrInfo::default()
    };
    let info = w.get(A, socket, SCTP_GET_PEER_ADDR_INFO, &asked);
    info.unwrap().state
}

fn see_a_failed_path(exposed: u32) {
    let mut w = World::new();
    w.keep_sockets();
    let b = w.one_to_one(B);
    let any = format!("0.0.0.0:{PORT}").parse().unwrap();
    w.look(B).bind(b, any).unwrap();
    w.on(B, |s, _| s.listen(b, 5)).unwrap();
    for host in [A, B] {
        w.look(host).reports().enable();
    }
    let a = w.one_to_one(A);
    let value = AssocValue {
        value: exposed,
        ..AssocValue::default()
    };
    w.set(A, a, SCTP_EXPOSE_POTENTIALLY_FAILED_STATE, &value)
        .unwrap();
    w.subscribe(A, a, &[SCTP_PEER_ADDR_CHANGE]);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(secs(10));
    w.recv_all(A, a);
    let (own, other) = ([ip(A, 0), ip(A, 1)], [ip(B, 0), ip(B, 1)]);
    let port = w.look(A).local_address(a).unwrap().port();
    let begin = format!(
        "association 3, {}:{port} with {}:{PORT}: ",
        own[0], other[0]
    );
    let on_first = format!("path {} -> {}", own[0], other[0]);
    let on_second = format!("path {} -> {}", own[1], other[1]);
    assert_eq!(
        lines(&mut w, A),
        [
            format!("{begin}established by this host: {on_first}, {on_second}"),
            format!("{begin}{on_second} is confirmed"),
        ]
    );
    w.set_link(0, false);
    w.send(A, a, b"x").unwrap();
    // One error.
    w.run(ms(900));
    let moved = format!(
        "association 3, {}:{port} with {}:{PORT}: ",
        own[1], other[1]
    );
    let cause = "HEARTBEAT ACKs arrive on other paths only";
    assert_eq!(
        lines(&mut w, A),
        [
            format!("{moved}{on_first} is potentially failed: error count 1, {cause}"),
            format!(
                "{moved}{on_second} carries new data, the primary path is {}",
                &on_first[5..]
            ),
        ]
    );
    let path = paths(&mut w)[0];
    assert!(path.status.potentially_failed && path.status.active);
    assert_eq!(path.error_count, 1);
    assert_eq!(w.look(A).statistics().metrics.paths.potentially_failed, 1);
    // The program.
    let seen = state_of_primary(&mut w, a);
    let notified = w.recv_all(A, a).len();
    if exposed == 2 {
        assert_eq!((seen, notified), (SCTP_PF, 1));
    } else {
        assert_eq!((seen, notified), (SCTP_ACTIVE, 0));
    }
    w.set_link(0, true);
    w.run(secs(10));
    assert_eq!(
        lines(&mut w, A),
        [
            format!("{begin}{on_first} is active again"),
            format!("{begin}{on_first}, the primary path, carries new data"),
        ]
    );
    w.on(A, |s, now| s.close(now, a)).unwrap();
    w.run(secs(1));
    assert_eq!(
        lines(&mut w, A),
        [format!("{begin}ended: SHUTDOWN COMPLETE")]
    );
    assert_eq!(
        counts(&mut w, A),
        [
            ("potentially-failed", 1),
            ("recovered", 1),
            ("current-changed", 2),
            ("confirmed", 1),
            ("shutdown", 1)
        ]
    );
    let of_peer = lines(&mut w, B);
    assert!(
        of_peer[0].contains(": established by the peer: path "),
        "{of_peer:?}"
    );
    assert!(of_peer[1].ends_with(" is confirmed"), "{of_peer:?}");
    assert!(
        of_peer[2].ends_with(": ended: SHUTDOWN COMPLETE"),
        "{of_peer:?}"
    );
}

/// RFC 9260, section 5.4
#[test]
fn an_unconfirmed_path_is_reported() {
    let mut w = World::new();
    w.keep_sockets();
    let b = w.one_to_one(B);
    let any = format!("0.0.0.0:{PORT}").parse().unwrap();
    w.look(B).bind(b, any).unwrap();
    w.on(B, |s, _| s.listen(b, 5)).unwrap();
    w.look(A).reports().enable();
    w.set_link(1, false);
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(ms(1500));
    let on_second = format!("path {} -> {}", ip(A, 1), ip(B, 1));
    let [_, line] = &lines(&mut w, A)[..] else {
        panic!("two lines");
    };
    let report = format!(
        ": {on_second} is not confirmed and carries no data: error count 1, no HEARTBEAT ACK"
    );
    assert!(line.ends_with(&report), "{line}");
    w.set_link(1, true);
    w.run(secs(5));
    let [line] = &lines(&mut w, A)[..] else {
        panic!("one line");
    };
    assert!(
        line.ends_with(&format!(": {on_second} is confirmed")),
        "{line}"
    );
    assert_eq!(counts(&mut w, A), [("confirmed", 1), ("unconfirmed", 1)]);
}

#[test]
fn a_refused_set_up_is_reported() {
    let mut w = World::new();
    w.keep_sockets();
    w.look(A).reports().enable();
    let a = w.one_to_one(A);
    w.connect(a, at(B, PORT)).unwrap_err();
    w.run(secs(1));
    let [line] = &lines(&mut w, A)[..] else {
        panic!("one line");
    };
    assert!(
        line.contains(": ended: ABORT received: ") && line.ends_with(", it was not established"),
        "{line}"
    );
    assert_eq!(counts(&mut w, A), [("aborted-by-peer", 1)]);
}

/// Without a log, nothing waits for one.
#[test]
fn reports_are_bounded() {
    let mut w = World::new();
    w.keep_sockets();
    let refused = |w: &mut World, count| {
        for _ in 0..count {
            let a = w.one_to_one(A);
            w.connect(a, at(B, PORT)).unwrap_err();
            w.run(ms(100));
            w.on(A, |s, now| s.close(now, a)).unwrap();
        }
    };
    refused(&mut w, 1);
    assert!(lines(&mut w, A).is_empty());
    w.look(A).reports().enable();
    refused(&mut w, 1030);
    assert_eq!(lines(&mut w, A).len(), 1024);
    assert_eq!(w.look(A).reports().take_dropped(), 6);
    assert_eq!(w.look(A).reports().take_dropped(), 0);
    assert_eq!(counts(&mut w, A), [("aborted-by-peer", 1031)]);
}

#[test]
fn a_wildcard_address_is_listed() {
    let mut w = World::new();
    let all = w.one_to_one(B);
    let any = format!("0.0.0.0:{PORT}").parse().unwrap();
    w.look(B).bind(all, any).unwrap();
    let single = w.one_to_one(B);
    w.look(B).bind(single, at(B, PORT + 1)).unwrap();
    let rows = w.look(B).overview(None);
    let bound: Vec<_> = rows.map(|row| (row.bound, row.local.len())).collect();
    assert_eq!(bound, [(vec![any], 2), (vec![at(B, PORT + 1)], 1)]);
}

/// Log with names of associations.
#[derive(Debug)]
struct Named;

impl Observer for Named {
    fn trace(&self, association: AssociationId) -> Option<String> {
        Some(format!("log-{association}"))
    }
}

#[test]
fn reports_have_the_name_of_another_log() {
    let mut w =
        World::with(|config| config.observers = Some(PortObservers::new(|| Arc::new(Named))));
    w.keep_sockets();
    w.look(A).reports().enable();
    let (a, _) = w.pair();
    w.on(A, |s, now| s.close(now, a)).unwrap();
    w.run(secs(1));
    let lines = lines(&mut w, A);
    let named = |line: &&String| line.starts_with("association 3 (trace log-0.0), 10.0.0.1:");
    assert_eq!(lines.iter().filter(named).count(), lines.len(), "{lines:?}");
    assert!(lines.len() >= 2, "{lines:?}");
}
