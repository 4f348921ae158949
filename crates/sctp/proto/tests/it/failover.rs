//! Quick failover: potentially failed paths and the switchover of the primary (RFC 7829).

use crate::common;

use carrick_proto::{
    AssociationConfig, AssociationId, CloseReason, Event, EventReport, OperationError,
    PathErrorCause, PathId, PathThresholds, SendOptions,
};
use carrick_wire::ChunkType;
use common::*;

const FIRST: PathId = PathId(0);
const SECOND: PathId = PathId(1);

/// Two endpoints with two paths, whose paths are potentially failed beyond this many errors.
fn with_pf(max_retrans: Option<u32>) -> World {
    let mut w = World::new();
    w.config.paths.potentially_failed_max_retrans = max_retrans;
    w
}

/// When DATA first went to an address of endpoint 1, since `from`.
fn first_data_to(w: &World, address: std::net::IpAddr) -> Option<carrick_proto::Time> {
    let sent = w.sent(0, ChunkType::DATA);
    sent.iter().find(|p| p.to() == address).map(|p| p.time)
}

fn heartbeats_to(w: &World, path: usize) -> Vec<carrick_proto::Time> {
    let sent = w.sent(0, ChunkType::HEARTBEAT);
    let to = sent
        .iter()
        .filter(|p| p.to() == addresses(1)[path] && p.source() == addresses(0)[path]);
    to.map(|p| p.time).collect()
}

/// Sends this number of messages, one each 100 ms.
fn talk(w: &mut World, a: AssociationId, seconds: u64) {
    for _ in 0..seconds * 10 {
        w.send(0, a, 0, pattern(100));
        w.run(ms(100));
    }
}

fn thresholds(failed: u32, potentially: Option<u32>, switchover: Option<u32>) -> PathThresholds {
    PathThresholds {
        path_max_retrans: failed,
        potentially_failed_max_retrans: potentially,
        primary_switchover_max_retrans: switchover,
    }
}

/// RFC 7829, section 3: PotentiallyFailed.Max.Retrans 0 is recommended.
#[test]
fn modern_fails_over_at_the_first_timeout() {
    let mut w = World::new();
    w.config = AssociationConfig::modern();
    let (mut w, a, _) = w.connected();
    w.block(addresses(1)[0]);
    let cut = w.now;
    talk(&mut w, a, 10);
    let events = w.events(0);
    assert!(
        events.contains(&Event::PathPotentiallyFailed(FIRST)),
        "{events:?}"
    );
    let moved = first_data_to(&w, addresses(1)[1]).expect("data on the second path");
    // The first message after the failure, the RTO of 1 s, and no later timeout.
    assert!(moved.since(cut) < ms(1300), "{moved:?}");
}

/// RFC 7829, section 3.2
#[test]
fn no_path_is_potentially_failed_without_a_threshold() {
    let (mut w, a, _) = with_pf(None).connected();
    w.block(addresses(1)[0]);
    talk(&mut w, a, 100);
    let events = w.events(0);
    assert!(events.contains(&Event::PathFailed(FIRST)), "{events:?}");
    assert!(!events.contains(&Event::PathPotentiallyFailed(FIRST)));
    assert!(!w.path(0, a, 0).status.potentially_failed);
}

/// RFC 7829, section 3.2
#[test]
fn new_data_leaves_a_path_at_its_first_timeout() {
    let (mut w, a, b) = with_pf(Some(0)).connected();
    w.block(addresses(1)[0]);
    let dead_since = w.now;
    talk(&mut w, a, 5);
    let moved = first_data_to(&w, addresses(1)[1]).expect("a failover");
    assert_eq!(moved - dead_since, secs(1), "one RTO");
    let late = w.sent(0, ChunkType::DATA);
    assert!(
        late.iter()
            .all(|p| p.time < moved || p.to() == addresses(1)[1]),
        "no data to the path that is potentially failed"
    );
    assert_eq!(
        w.events(0)[..2],
        [
            Event::PathPotentiallyFailed(FIRST),
            Event::PrimaryChanged(SECOND)
        ]
    );
    let status = w.path(0, a, 0).status;
    assert!(status.potentially_failed && status.active);
    assert_eq!(w.receive(1, b).len(), 50);
}

/// RFC 9260, section 8.2
#[test]
fn without_pf_new_data_waits_for_path_max_retrans() {
    for (quick, at_least, at_most) in [(None, secs(60), secs(70)), (Some(0), ms(900), ms(1000))] {
        let (mut w, a, _) = with_pf(quick).connected();
        w.block(addresses(1)[0]);
        let dead_since = w.now;
        let changed = |w: &mut World| w.events(0).contains(&Event::PrimaryChanged(SECOND));
        let mut took = None;
        for _ in 0..1000 {
            w.send(0, a, 0, pattern(100));
            w.run(ms(100));
            if changed(&mut w) {
                took = Some(w.now - dead_since);
                break;
            }
        }
        let took = took.expect("a failover");
        let limit = at_most + ms(100);
        assert!(took >= at_least && took <= limit, "{quick:?}: {took:?}");
    }
}

/// RFC 7829, section 3.2
#[test]
fn pf_max_retrans_can_be_raised() {
    let (mut w, a, _) = with_pf(Some(2)).connected();
    w.block(addresses(1)[0]);
    assert!(run_talking(&mut w, a, |w, a| w
        .path(0, a, 0)
        .status
        .potentially_failed));
    assert_eq!(
        w.path(0, a, 0).error_count,
        3,
        "Potentially.Failed.Max.Retrans is exceeded"
    );
}

/// Sends messages until the condition holds, for at most a minute.
fn run_talking(
    w: &mut World,
    a: AssociationId,
    done: impl Fn(&mut World, AssociationId) -> bool,
) -> bool {
    for _ in 0..600 {
        if done(w, a) {
            return true;
        }
        w.send(0, a, 0, pattern(100));
        w.run(ms(100));
    }
    false
}

/// RFC 7829, section 3.2
#[test]
fn pf_max_retrans_above_path_max_retrans_is_void() {
    let mut w = with_pf(Some(3));
    w.config.paths.path_max_retrans = 2;
    let (a, _) = w.connect();
    w.events(0);
    w.block(addresses(1)[0]);
    talk(&mut w, a, 60);
    let events = w.events(0);
    assert!(events.contains(&Event::PathFailed(FIRST)));
    assert!(!events.contains(&Event::PathPotentiallyFailed(FIRST)));
}

/// RFC 7829, section 3.2
#[test]
fn a_pf_path_gets_a_heartbeat_per_rto() {
    let (mut w, a, _) = with_pf(Some(0)).connected();
    w.block(addresses(1)[0]);
    let since = w.now;
    talk(&mut w, a, 100);
    let sent: Vec<_> = heartbeats_to(&w, 0).iter().map(|t| *t - since).collect();
    // At the first timeout, then at each expiration of a timeout that doubles: five more errors.
    let expected = [1, 3, 7, 15, 31].map(secs);
    assert_eq!(sent[..5], expected, "{sent:?}");
    let path = w.path(0, a, 0);
    assert!(!path.status.active && !path.status.potentially_failed);
    let events = w.events(0);
    assert!(events.contains(&Event::PathFailed(FIRST)));
    // From then on HB.interval again.
    w.log.clear();
    talk(&mut w, a, 300);
    let gaps: Vec<_> = heartbeats_to(&w, 0)
        .windows(2)
        .map(|t| t[1] - t[0])
        .collect();
    assert!(
        gaps.len() >= 2 && gaps.iter().all(|g| *g >= secs(30)),
        "{gaps:?}"
    );
}

/// RFC 7829, appendix C
#[test]
fn an_idle_path_becomes_pf_at_a_lost_heartbeat() {
    let (mut w, a, _) = with_pf(Some(0)).connected();
    w.block(addresses(1)[1]);
    assert!(w.run_until(secs(40), |w| w.path(0, a, 1).status.potentially_failed));
    assert_eq!(w.events(0), [Event::PathPotentiallyFailed(SECOND)]);
    assert_eq!(w.stats(0, a).error_count, 0, "not the path of the data");
    let since = w.now;
    assert!(w.run_until(secs(100), |w| !w.path(0, a, 1).status.active));
    // 2 + 4 + 8 + 16 s and HB.interval, not five times HB.interval.
    assert_eq!(w.now - since, secs(60));
}

/// RFC 7829, section 3.2
#[test]
fn a_heartbeat_ack_restores_a_pf_path() {
    let (mut w, a, b) = with_pf(Some(0)).connected();
    w.block(addresses(1)[0]);
    talk(&mut w, a, 2);
    w.events(0);
    w.unblock(addresses(1)[0]);
    let revived = w.now;
    talk(&mut w, a, 5);
    assert_eq!(
        w.events(0),
        [Event::PathRecovered(FIRST), Event::PrimaryChanged(FIRST)]
    );
    let back = w
        .log
        .iter()
        .find(|p| p.time >= revived && p.has(ChunkType::DATA) && p.to() == addresses(1)[0]);
    let waited = back.expect("data returns to the primary path").time - revived;
    assert!(
        waited <= secs(2),
        "within an RTO, not HB.interval: {waited:?}"
    );
    let path = w.path(0, a, 0);
    assert_eq!((path.error_count, path.rto), (0, secs(1)));
    assert_eq!(w.receive(1, b).len(), 70);
    // And then heartbeats have their interval again.
    w.log.clear();
    w.run(secs(25));
    assert_eq!(heartbeats_to(&w, 0), []);
}

/// RFC 7829, section 3.2
#[test]
fn acknowledged_data_restores_a_pf_path() {
    let mut w = with_pf(Some(0));
    w.config.paths.heartbeat = false;
    w.config.transmission.max_burst = 100;
    let (a, _) = w.connect();
    w.events(0);
    // The window of the first path becomes larger than that of the second.
    w.send(0, a, 0, pattern(40_000));
    w.run(secs(2));
    w.events(0);
    // Then its data arrives, but SACKs are lost and the last is late: the timeout is spurious. Not
    // all of the data fits into the window of the second path; the rest went to one path only.
    let mut sacks = 0;
    w.rule(move |p| {
        if !p.has(ChunkType::SACK) || p.to() != addresses(0)[0] {
            return Verdict::Pass;
        }
        sacks += 1;
        match sacks {
            1 | 2 => Verdict::Drop,
            _ => Verdict::Delay(ms(985)),
        }
    });
    w.send(0, a, 0, pattern(14_000));
    w.run(ms(1004));
    assert!(w.path(0, a, 0).status.potentially_failed);
    w.run(ms(200));
    let events = w.events(0);
    let failed = events
        .iter()
        .position(|e| *e == Event::PathPotentiallyFailed(FIRST));
    let recovered = events
        .iter()
        .position(|e| *e == Event::PathRecovered(FIRST));
    assert!(failed.is_some() && failed < recovered, "{events:?}");
    assert_eq!(w.path(0, a, 0).error_count, 0);
}

/// RFC 7829, section 3.2
#[test]
fn ambiguous_acknowledgements_do_not_restore() {
    let mut w = with_pf(Some(0));
    w.config.paths.heartbeat = false;
    let (a, b) = w.connect();
    w.block(addresses(1)[0]);
    talk(&mut w, a, 3);
    w.run(secs(1));
    assert_eq!(w.receive(1, b).len(), 30, "retransmitted");
    let path = w.path(0, a, 0);
    assert!(path.status.potentially_failed);
    assert_eq!(path.error_count, 1, "no heartbeats, no data: it stays");
    assert_eq!(
        w.sent(0, ChunkType::HEARTBEAT).len(),
        1,
        "the verification only"
    );
}

/// RFC 7829, section 3.2
#[test]
fn a_heartbeat_ack_does_not_restore_outstanding_data() {
    // One path whose heartbeats pass and whose data does not.
    let mut w = World::single_homed();
    w.config.paths.potentially_failed_max_retrans = Some(0);
    w.config.timers.no_progress_after = None;
    let (a, _) = w.connect();
    w.events(0);
    w.rule(|p| {
        if p.from == 0 && p.has(ChunkType::DATA) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    w.send(0, a, 0, pattern(1000));
    w.run(secs(2));
    assert!(w.path(0, a, 0).status.potentially_failed);
    assert!(w.path(0, a, 0).heartbeats_answered > 0);
    w.run(secs(200));
    let events = w.events(0);
    assert_eq!(events[0], Event::PathPotentiallyFailed(FIRST));
    assert_eq!(
        events[1],
        Event::PathFailed(FIRST),
        "data decides: {events:?}"
    );
}

/// RFC 7829, section 3.2
#[test]
fn of_pf_paths_the_one_with_fewest_errors_is_used() {
    let (mut w, a, b) = with_pf(Some(0)).connected();
    for address in addresses(1) {
        w.block(address);
    }
    let mut chosen = Vec::new();
    for _ in 0..300 {
        w.send(0, a, 0, pattern(100));
        w.run(ms(100));
        let errors = [0, 1].map(|p| w.path(0, a, p).error_count);
        let current = w.stats(0, a).current.expect("a path");
        let suspects = [0, 1].map(|p| w.path(0, a, p).status.potentially_failed);
        if suspects == [true, true] {
            let other = usize::from(1 - current.0);
            assert!(
                errors[usize::from(current.0)] <= errors[other],
                "{errors:?}"
            );
            chosen.push(current);
        }
    }
    assert!(chosen.len() > 100);
    assert!(!w.events(0).contains(&Event::Dormant));
    w.unblock(addresses(1)[1]);
    talk(&mut w, a, 40);
    w.run(secs(1));
    assert_eq!(
        w.receive(1, b).len(),
        700,
        "all arrive over the one that is back"
    );
    assert_eq!(w.stats(0, a).current, Some(SECOND));
}

/// RFC 7829, section 3.2
#[test]
fn an_active_path_precedes_a_requested_pf_path() {
    let (mut w, a, _) = with_pf(Some(0)).connected();
    w.block(addresses(1)[1]);
    let wanted = SendOptions {
        path: Some(SECOND),
        ..SendOptions::default()
    };
    w.send_with(0, a, wanted, pattern(100));
    w.run(ms(1500));
    assert!(w.path(0, a, 1).status.potentially_failed);
    w.log.clear();
    w.send_with(0, a, wanted, pattern(100));
    w.run(ms(10));
    assert_eq!(w.sent(0, ChunkType::DATA)[0].to(), addresses(1)[0]);
}

/// RFC 7829, section 4.1
#[test]
fn a_dormant_association_uses_the_fewest_errors() {
    let mut w = with_pf(Some(0));
    w.config.paths.path_max_retrans = 1;
    w.config.paths.association_max_retrans = 1000;
    w.config.timers.rto_max = secs(2);
    let (a, b) = w.connect();
    for address in addresses(1) {
        w.block(address);
    }
    talk(&mut w, a, 60);
    assert!(w.events(0).contains(&Event::Dormant));
    let errors = [0, 1].map(|p| w.path(0, a, p).error_count);
    assert!(
        errors[0].abs_diff(errors[1]) <= 2,
        "both are tried: {errors:?}"
    );
    assert!(
        errors.iter().all(|e| *e > 2),
        "counted while inactive: {errors:?}"
    );
    assert!(errors.iter().all(|e| *e <= 20), "up to a limit: {errors:?}");
    w.log.clear();
    w.unblock(addresses(1)[0]);
    talk(&mut w, a, 20);
    w.run(secs(1));
    assert_eq!(w.receive(1, b).len(), 800);
    assert_eq!(w.path(0, a, 0).error_count, 0);
}

/// Time until the association ends after all addresses of the peer failed.
fn time_until_closed(mut w: World, quick: Option<u32>) -> std::time::Duration {
    w.config.paths.potentially_failed_max_retrans = quick;
    let (a, _) = w.connect();
    w.events(0);
    for address in addresses(1) {
        w.block(address);
    }
    w.send(0, a, 0, pattern(100));
    let since = w.now;
    assert!(w.run_until(secs(2000), |w| { w.ends[0].association(a).is_none() }));
    let lost = Event::Closed(CloseReason::PeerUnreachable);
    assert_eq!(w.events(0).last(), Some(&lost));
    w.now - since
}

/// RFC 7829, section 4.1
#[test]
fn pf_does_not_shorten_the_association_limit() {
    for homes in [World::single_homed, World::new] {
        let [standard, quick] = [None, Some(0)].map(|q| time_until_closed(homes(), q));
        assert!(quick >= standard, "{quick:?}, without {standard:?}");
        assert!(
            quick <= standard * 3,
            "it ends: {quick:?}, without {standard:?}"
        );
    }
}

/// RFC 7829, section 5
#[test]
fn primary_switchover_is_permanent() {
    let mut w = with_pf(Some(0));
    w.config.paths.primary_switchover_max_retrans = Some(0);
    let (a, _) = w.connect();
    w.events(0);
    w.block(addresses(1)[0]);
    talk(&mut w, a, 2);
    let events = w.events(0);
    assert!(
        events.contains(&Event::PrimarySwitchover(SECOND)),
        "{events:?}"
    );
    w.unblock(addresses(1)[0]);
    talk(&mut w, a, 10);
    assert!(!w.path(0, a, 0).status.potentially_failed);
    assert_eq!(w.stats(0, a).current, Some(SECOND), "no switchback");
    // The former primary is an alternate like any other.
    w.block(addresses(1)[1]);
    talk(&mut w, a, 2);
    assert_eq!(w.stats(0, a).current, Some(FIRST));
}

/// RFC 7829, section 5
#[test]
fn primary_switchover_follows_potential_failure() {
    let mut w = with_pf(Some(0));
    w.config.paths.primary_switchover_max_retrans = Some(2);
    let (a, _) = w.connect();
    w.events(0);
    w.block(addresses(1)[0]);
    talk(&mut w, a, 2);
    assert_eq!(w.stats(0, a).current, Some(SECOND));
    assert!(!w.events(0).contains(&Event::PrimarySwitchover(SECOND)));
    w.unblock(addresses(1)[0]);
    talk(&mut w, a, 5);
    assert_eq!(
        w.stats(0, a).current,
        Some(FIRST),
        "the primary returned before the switchover"
    );
    w.block(addresses(1)[0]);
    talk(&mut w, a, 10);
    assert!(w.events(0).contains(&Event::PrimarySwitchover(SECOND)));
    assert_eq!(w.path(0, a, 0).error_count, 3);
}

/// RFC 7829, section 5
#[test]
fn primary_switchover_works_without_pf() {
    for switchover in [5, 7] {
        let mut w = with_pf(None);
        w.config.paths.primary_switchover_max_retrans = Some(switchover);
        w.config.paths.hb_interval = secs(5);
        let (a, _) = w.connect();
        w.events(0);
        w.block(addresses(1)[0]);
        talk(&mut w, a, 300);
        let events = w.events(0);
        assert!(
            events.contains(&Event::PrimarySwitchover(SECOND)),
            "{events:?}"
        );
        assert_eq!(w.path(0, a, 0).error_count, switchover + 1);
        w.unblock(addresses(1)[0]);
        talk(&mut w, a, 100);
        assert!(w.path(0, a, 0).status.active);
        assert_eq!(w.stats(0, a).current, Some(SECOND));
    }
}

/// RFC 7829, section 7.2
#[test]
fn thresholds_are_read_and_set_at_run_time() {
    let (mut w, a, _) = with_pf(None).connected();
    let standard = thresholds(5, None, None);
    for path in [None, Some(FIRST), Some(SECOND)] {
        assert_eq!(w.read(0, a).path_thresholds(path), Some(standard));
    }
    let quick = thresholds(3, Some(0), Some(1));
    let set = |w: &mut World, path, t| w.change(0, a).set_path_thresholds(path, t);
    assert_eq!(set(&mut w, Some(SECOND), quick), Ok(()));
    assert_eq!(w.read(0, a).path_thresholds(Some(SECOND)), Some(quick));
    assert_eq!(w.read(0, a).path_thresholds(Some(FIRST)), Some(standard));
    assert_eq!(set(&mut w, None, quick), Ok(()));
    assert_eq!(w.read(0, a).path_thresholds(Some(FIRST)), Some(quick));
    let config: &AssociationConfig = w.read(0, a).config();
    assert_eq!(config.paths.potentially_failed_max_retrans, Some(0));
    let unknown = Some(PathId(9));
    assert_eq!(w.read(0, a).path_thresholds(unknown), None);
    assert_eq!(
        set(&mut w, unknown, quick),
        Err(OperationError::UnknownPath)
    );
    for bad in [
        thresholds(3, Some(2), Some(1)),
        thresholds(3, None, Some(2)),
    ] {
        assert_eq!(
            set(&mut w, None, bad),
            Err(OperationError::InvalidThresholds)
        );
        assert_eq!(w.read(0, a).path_thresholds(None), Some(quick), "unchanged");
    }
    w.block(addresses(1)[0]);
    talk(&mut w, a, 2);
    assert!(w.path(0, a, 0).status.potentially_failed);
    w.events(0);
    // Switched off, the path is active at once and carries its data again.
    assert_eq!(set(&mut w, None, standard), Ok(()));
    assert_eq!(
        w.events(0),
        [Event::PathRecovered(FIRST), Event::PrimaryChanged(FIRST)]
    );
}

/// RFC 7829, section 5
#[test]
fn contradicting_thresholds_are_refused() {
    let config = AssociationConfig::rfc9260().with(|c| {
        c.paths.potentially_failed_max_retrans = Some(3);
        c.paths.primary_switchover_max_retrans = Some(2);
    });
    assert!(config.validate().is_err());
}

/// RFC 7829, section 7.3
#[test]
fn the_pf_state_is_not_exposed_to_the_program() {
    let (mut w, a, _) = with_pf(Some(0)).connected();
    w.change(0, a).set_expose_potentially_failed(false);
    w.block(addresses(1)[0]);
    talk(&mut w, a, 2);
    let unexposed = |potentially_failed| Event::UnexposedPathChange {
        path: FIRST,
        potentially_failed,
    };
    assert_eq!(
        w.events(0),
        [unexposed(true), Event::PrimaryChanged(SECOND)]
    );
    w.unblock(addresses(1)[0]);
    talk(&mut w, a, 10);
    assert_eq!(
        w.events(0),
        [unexposed(false), Event::PrimaryChanged(FIRST)]
    );
}

/// Statistics are those of the operator: the state and the error count of a path from its first timeout,
/// whatever is exposed to the program, and the primary path beside the one in use.
#[test]
fn statistics_show_a_potentially_failed_path() {
    for exposed in [true, false] {
        let mut w = with_pf(Some(0));
        w.config.paths.expose_potentially_failed = exposed;
        let (a, _) = w.connect();
        w.run(secs(1));
        w.block(addresses(1)[0]);
        w.send(0, a, 0, pattern(100));
        assert!(w.run_until(secs(2), |w| w.path(0, a, 0).error_count == 1));
        let path = w.path(0, a, 0);
        assert!(path.status.potentially_failed && path.status.active);
        assert_eq!(path.selected, path.local);
        let stats = w.stats(0, a);
        assert_eq!((stats.primary, stats.current), (Some(FIRST), Some(SECOND)));
        w.unblock(addresses(1)[0]);
        assert!(w.run_until(secs(10), |w| w.path(0, a, 0).error_count == 0));
        assert!(!w.path(0, a, 0).status.potentially_failed);
        assert_eq!(w.stats(0, a).current, Some(FIRST));
    }
}

/// The lines are the same whether the program gets the events or not.
#[test]
fn reports_have_the_state_of_the_path() {
    for exposed in [true, false] {
        let mut w = with_pf(Some(0));
        w.config.paths.expose_potentially_failed = exposed;
        let (a, _) = w.connect();
        w.run(secs(1));
        w.events(0);
        let mut lines = Vec::new();
        for blocked in [true, false] {
            if blocked {
                w.block(addresses(1)[0]);
            } else {
                w.unblock(addresses(1)[0]);
            }
            // Each event is reported with the state at its time.
            for _ in 0..200 {
                w.send(0, a, 0, pattern(100));
                w.run(ms(10));
                let paths: Vec<_> = w.paths(0, a).collect();
                let stats = w.stats(0, a);
                let report = |event: &Event| EventReport::new(event, &paths, Some(&stats));
                let events = w.events(0);
                lines.extend(events.iter().filter_map(report).map(|r| r.to_string()));
            }
        }
        let path = |number: usize| format!("{} -> {}", addresses(0)[number], addresses(1)[number]);
        let (first, second) = (path(0), path(1));
        assert_eq!(
            lines,
            [
                format!("path {first} is potentially failed: error count 1, T3-rtx expired"),
                format!("path {second} carries new data, the primary path is {first}"),
                format!("path {first} is active again"),
                format!("path {first}, the primary path, carries new data"),
            ]
        );
    }
}

#[test]
fn reports_have_the_selected_source() {
    let (w, a, _) = with_pf(Some(0)).connected();
    let mut path = w.path(0, a, 0);
    let (own, other) = (addresses(0)[0], addresses(0)[1]);
    let to = path.remote;
    let report = |path: &carrick_proto::PathStats, event: Event| {
        let report = EventReport::new(&event, &[*path], None);
        report.expect("a report").text
    };
    path.error_count = 6;
    path.last_error = Some(PathErrorCause::HeartbeatUnanswered);
    assert_eq!(
        report(&path, Event::PathFailed(FIRST)),
        format!("path to {to} is inactive: error count 6, no HEARTBEAT ACK")
    );
    path.local = Some(other);
    assert_eq!(
        report(&path, Event::PathLocalAddressChanged(FIRST)),
        format!(
            "path {other} -> {to} has a new source address, the routes select {own}: error count 6, no HEARTBEAT ACK"
        )
    );
    path.selected = Some(other);
    assert_eq!(
        report(&path, Event::PathLocalAddressChanged(FIRST)),
        format!("path {other} -> {to} has a new source address: error count 6, no HEARTBEAT ACK")
    );
    let removed = Event::PathFailed(PathId(9));
    assert_eq!(EventReport::new(&removed, &[path], None), None);
    assert_eq!(
        EventReport::new(&Event::MessageReceived, &[path], None),
        None
    );
}

/// RFC 9260, section 6.2
#[test]
fn sacks_follow_the_data_to_a_pf_path() {
    let (mut w, a, b) = with_pf(Some(0)).connected();
    // Endpoint 0 can't reach the first address, endpoint 1 reaches it from there.
    let first = addresses(1)[0];
    w.rule(move |p| {
        if p.from == 0 && p.to() == first && !p.has(ChunkType::SACK) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    talk(&mut w, a, 2);
    assert!(w.path(0, a, 0).status.potentially_failed);
    w.log.clear();
    w.send(1, b, 0, pattern(100));
    w.run(secs(1));
    let sacks = w.sent(0, ChunkType::SACK);
    assert_eq!(sacks.len(), 1);
    assert_eq!(sacks[0].to(), first, "section 6.4 of RFC 9260");
}

/// RFC 7829, section 3.2
#[test]
fn a_shutdown_avoids_a_pf_path() {
    let (mut w, a, _) = with_pf(Some(0)).connected();
    w.block(addresses(1)[0]);
    talk(&mut w, a, 2);
    w.log.clear();
    let now = w.now;
    w.ends[0].shutdown(now, a).unwrap();
    w.run(ms(500));
    assert_eq!(w.sent(0, ChunkType::SHUTDOWN)[0].to(), addresses(1)[1]);
    assert!(w.ends[0].association(a).is_none(), "done at once");
}
