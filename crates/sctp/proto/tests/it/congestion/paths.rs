//! Several paths, each with its own window and timer.

use carrick_proto::{PathId, SendOptions};

use crate::common::*;
use crate::congestion::support::*;

/// RFC 9260, section 7.2
#[test]
fn each_path_has_its_own_cwnd() {
    let (mut f, _) = two_paths();
    let on_second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    assert_eq!(f.send(3, FULL).len(), 3);
    assert_eq!(
        f.send_with(on_second, 3, FULL).len(),
        3,
        "the second path has its own cwnd"
    );
    let flights = |f: &Flow| [0, 1].map(|p| f.w.path(0, f.id, p).flight_size);
    assert_eq!(flights(&f), [4404, 4404]);
    // A SACK gives each path what was sent to it, wherever it comes from.
    f.sack(1, &[(3, 4)]);
    assert_eq!(flights(&f), [2 * PMDCS, PMDCS]);
    let cwnds = [0, 1].map(|p| f.w.path(0, f.id, p).cwnd);
    assert_eq!(cwnds, [4404 + PMDCS; 2], "one PMDCS for each path");
}

/// RFC 9260, section 7.2.4
#[test]
fn a_loss_reduces_the_cwnd_of_its_path_only() {
    let (mut f, _) = two_paths();
    let on_second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    f.send(1, FULL);
    f.send_with(on_second, 3, FULL);
    let before = f.w.path(0, f.id, 1);
    lose_one(&mut f, 0);
    assert_eq!(f.fast_retransmissions(), 1);
    let (first, second) = (f.path(), f.w.path(0, f.id, 1));
    assert_eq!((first.cwnd, first.ssthresh), (4 * PMDCS, 4 * PMDCS));
    assert_eq!(second.ssthresh, before.ssthresh);
    assert!(second.cwnd >= before.cwnd);
}

/// RFC 9260, section 6.3.3
#[test]
fn a_timeout_affects_its_path_only() {
    let (mut f, _) = two_paths();
    let on_second = SendOptions {
        path: Some(PathId(1)),
        ..SendOptions::default()
    };
    f.send(3, FULL);
    f.run(ms(500));
    f.send_with(on_second, 1, FULL);
    let before = f.w.path(0, f.id, 1);
    let again = f.run(ms(500));
    assert!(again.iter().flatten().all(|n| *n < 3), "{again:?}");
    let (first, second) = (f.path(), f.w.path(0, f.id, 1));
    assert_eq!(
        (first.cwnd, first.rto, first.error_count),
        (PMDCS, secs(2), 1)
    );
    assert_eq!(
        (second.cwnd, second.ssthresh),
        (before.cwnd, before.ssthresh)
    );
    assert_eq!((second.rto, second.error_count), (secs(1), 0));
}

/// RFC 9260, section 6.3.1
#[test]
fn a_sack_from_another_path_gives_no_rtt() {
    let (mut f, second) = two_paths();
    let srtt = f.path().srtt;
    f.send(1, FULL);
    f.run(ms(700));
    second.sack(&mut f.w, f.p.endpoint_tsn(0), 1 << 20, &[]);
    assert_eq!(f.w.stats(0, f.id).outstanding_chunks, 0);
    assert_eq!(f.path().srtt, srtt);
}
