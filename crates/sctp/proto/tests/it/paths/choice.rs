//! Path selection for data (section 6.4).

use carrick_proto::{Event, OperationError, PathId, SendOptions};
use carrick_wire::ChunkType;

use crate::common::*;

/// RFC 9260, section 6.4
#[test]
fn the_user_chooses_the_primary_path() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.events(0);
    w.change(0, a).set_primary(PathId(1)).unwrap();
    assert_eq!(w.events(0), [Event::PrimaryChanged(PathId(1))]);
    w.log.clear();
    w.send(0, a, 0, pattern(5000));
    w.run(secs(1));
    let sent = w.sent(0, ChunkType::DATA);
    assert!(sent.iter().all(|p| p.to() == addresses(1)[1]));
    assert_eq!(w.receive_lengths(1, b), [5000]);
    assert_eq!(
        w.change(0, a).set_primary(PathId(9)),
        Err(OperationError::UnknownPath)
    );
}

/// RFC 9260, sections 11.1.6 and 11.1.10
#[test]
fn one_handle_makes_several_changes() {
    let mut w = World::new();
    let (a, _) = w.connect();
    w.events(0);
    w.log.clear();
    let mut association = w.change(0, a);
    association.set_primary(PathId(1)).unwrap();
    association.request_heartbeat(PathId(0)).unwrap();
    association.request_heartbeat(PathId(1)).unwrap();
    drop(association);
    assert_eq!(w.events(0), [Event::PrimaryChanged(PathId(1))]);
    w.pump();
    let sent = w.sent(0, ChunkType::HEARTBEAT);
    let to: Vec<_> = sent.iter().map(|p| p.to()).collect();
    assert_eq!(to, addresses(1)[..2]);
}

/// RFC 9260, section 6.4
#[test]
fn a_message_takes_its_requested_path_while_active() {
    let mut w = World::new();
    let (a, b) = w.connect();
    let second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    w.log.clear();
    w.send_with(0, a, second, pattern(3000));
    w.send(0, a, 1, pattern(100));
    w.run(secs(1));
    let to: Vec<_> = w
        .log
        .iter()
        .flat_map(|p| {
            p.data()
                .iter()
                .map(|d| (d.stream.0, p.to()))
                .collect::<Vec<_>>()
        })
        .collect();
    let [one, two] = addresses(1);
    assert_eq!(to, [(0, two), (0, two), (0, two), (1, one)]);
    w.block(two);
    assert!(w.run_until(secs(1000), |w| !w.path(0, a, 1).status.active));
    w.log.clear();
    w.send_with(0, a, second, pattern(100));
    w.run(secs(1));
    assert_eq!(w.sent(0, ChunkType::DATA)[0].to(), one);
    assert_eq!(w.receive(1, b).len(), 3);
}

/// RFC 9260, section 6.4.1
#[test]
fn a_transfer_survives_the_loss_of_each_path() {
    let mut w = World::new();
    let (a, b) = w.connect();
    w.discard_log = true;
    let mut got = 0;
    let mut sent = 0;
    for round in 0..6 {
        let [one, two] = addresses(1);
        let (dead, live) = if round % 2 == 0 {
            (one, two)
        } else {
            (two, one)
        };
        w.unblock(live);
        w.run(secs(100));
        w.block(dead);
        for _ in 0..50 {
            w.send(0, a, 0, pattern(10_000));
            sent += 1;
        }
        // A minute until Path.Max.Retrans is exceeded, and the reader comes seldom.
        for _ in 0..10 {
            w.run(secs(15));
            got += w.receive_lengths(1, b).len();
        }
        assert_eq!(got, sent, "round {round}");
    }
    assert_eq!(w.states(), [Some("Established"); 2]);
}
