//! Quick failover: potentially failed paths and the switchover of the primary (RFC 7829).

use crate::common;

use carrick_proto::{
    AssociationConfig, AssociationId, CloseReason, Event, OperationError, PathId, PathThresholds,
    SendOptions,
};
use carrick_wire::ChunkType;
use common::*;

const FIRST: PathId = PathId(0);
const SECOND: PathId = PathId(1);

/// Two endpoints with two paths, whose paths are potentially failed beyond this many errors.
fn world(max_retrans: Option<u32>) -> World {
    let mut w = World::new();
    w.config.potentially_failed_max_retrans = max_retrans;
    w
}

/// The same, connected.
fn connected(max_retrans: Option<u32>) -> (World, AssociationId, AssociationId) {
    let mut w = world(max_retrans);
    let (a, b) = w.connect();
    w.events(0);
    w.log.clear();
    (w, a, b)
}

/// When DATA first went to an address of endpoint 1, since `from`.
fn first_data_to(w: &World, address: std::net::IpAddr) -> Option<carrick_proto::Time> {
    let sent = w.sent(0, ChunkType::DATA);
    sent.iter().find(|p| p.to() == address).map(|p| p.time)
}

fn heartbeats_to(w: &World, path: usize) -> Vec<carrick_proto::Time> {
    let sent = w.sent(0, ChunkType::HEARTBEAT);
    let to = sent.iter().filter(|p| p.to() == addresses(1)[path]);
    to.map(|p| p.time).collect()
}

/// Sends a message each 100 ms for so long.
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

#[test]
fn off_by_default_nothing_is_potentially_failed() {
    let (mut w, a, _) = connected(None);
    w.kill(addresses(1)[0]);
    talk(&mut w, a, 100);
    let events = w.events(0);
    assert!(events.contains(&Event::PathFailed(FIRST)), "{events:?}");
    assert!(!events.contains(&Event::PathPotentiallyFailed(FIRST)));
    assert!(!w.path(0, a, 0).status.potentially_failed);
}

#[test]
fn new_data_leaves_the_path_at_the_first_timeout_3_2() {
    let (mut w, a, b) = connected(Some(0));
    w.kill(addresses(1)[0]);
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

#[test]
fn without_it_new_data_waits_for_path_max_retrans_8_2() {
    for (quick, at_least, at_most) in [(None, secs(60), secs(70)), (Some(0), ms(900), ms(1000))] {
        let (mut w, a, _) = connected(quick);
        w.kill(addresses(1)[0]);
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

#[test]
fn more_errors_may_be_asked_for_3_2() {
    let (mut w, a, _) = connected(Some(2));
    w.kill(addresses(1)[0]);
    assert!(run_talking(&mut w, a, |w, a| w
        .path(0, a, 0)
        .status
        .potentially_failed));
    assert_eq!(w.path(0, a, 0).error_count, 3, "exceeded");
}

/// Talks until the condition holds, a minute at most.
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

#[test]
fn a_threshold_beyond_path_max_retrans_has_no_effect_3_2() {
    let mut w = world(Some(3));
    w.config.path_max_retrans = 2;
    let (a, _) = w.connect();
    w.events(0);
    w.kill(addresses(1)[0]);
    talk(&mut w, a, 60);
    let events = w.events(0);
    assert!(events.contains(&Event::PathFailed(FIRST)));
    assert!(!events.contains(&Event::PathPotentiallyFailed(FIRST)));
}

#[test]
fn heartbeats_go_there_once_per_rto_until_it_is_inactive_3_2() {
    let (mut w, a, _) = connected(Some(0));
    w.kill(addresses(1)[0]);
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

#[test]
fn an_idle_path_is_potentially_failed_at_its_first_lost_heartbeat_appendix_c() {
    let (mut w, a, _) = connected(Some(0));
    w.kill(addresses(1)[1]);
    assert!(w.run_until(secs(40), |w| w.path(0, a, 1).status.potentially_failed));
    assert_eq!(w.events(0), [Event::PathPotentiallyFailed(SECOND)]);
    assert_eq!(w.stats(0, a).error_count, 0, "not the path of the data");
    let since = w.now;
    assert!(w.run_until(secs(100), |w| !w.path(0, a, 1).status.active));
    // 2 + 4 + 8 + 16 + 32 s, not five times HB.interval.
    assert_eq!(w.now - since, secs(62));
}

#[test]
fn a_heartbeat_ack_brings_the_path_back_3_2() {
    let (mut w, a, b) = connected(Some(0));
    w.kill(addresses(1)[0]);
    talk(&mut w, a, 2);
    w.events(0);
    w.revive(addresses(1)[0]);
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
    let waited = back.expect("data returns").time - revived;
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

#[test]
fn acknowledged_data_of_its_own_brings_the_path_back_3_2() {
    let mut w = world(Some(0));
    w.config.heartbeat = false;
    w.config.max_burst = 100;
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
            return Fate::Pass;
        }
        sacks += 1;
        match sacks {
            1 | 2 => Fate::Drop,
            _ => Fate::Delay(ms(985)),
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

#[test]
fn acknowledged_data_that_two_paths_carried_does_not_bring_it_back_3_2() {
    let mut w = world(Some(0));
    w.config.heartbeat = false;
    let (a, b) = w.connect();
    w.kill(addresses(1)[0]);
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

#[test]
fn a_heartbeat_ack_does_not_decide_while_data_is_outstanding_there_3_2() {
    // One path whose heartbeats pass and whose data does not.
    let mut w = World::single_homed();
    w.config.potentially_failed_max_retrans = Some(0);
    w.config.no_progress_after = None;
    let (a, _) = w.connect();
    w.events(0);
    w.rule(|p| {
        if p.from == 0 && p.has(ChunkType::DATA) {
            Fate::Drop
        } else {
            Fate::Pass
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

#[test]
fn with_all_paths_suspect_the_one_with_the_fewest_errors_is_taken_3_2() {
    let (mut w, a, b) = connected(Some(0));
    for address in addresses(1) {
        w.kill(address);
    }
    let mut chosen = Vec::new();
    for _ in 0..300 {
        w.send(0, a, 0, pattern(100));
        w.run(ms(100));
        let errors = [0, 1].map(|p| w.path(0, a, p).error_count);
        let current = w.stats(0, a).primary.expect("a path");
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
    w.revive(addresses(1)[1]);
    talk(&mut w, a, 40);
    w.run(secs(1));
    assert_eq!(
        w.receive(1, b).len(),
        700,
        "all arrive over the one that is back"
    );
    assert_eq!(w.stats(0, a).primary, Some(SECOND));
}

#[test]
fn an_active_path_is_taken_before_a_suspect_that_the_user_wants_3_2() {
    let (mut w, a, _) = connected(Some(0));
    w.kill(addresses(1)[1]);
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

#[test]
fn a_dormant_association_goes_on_where_errors_are_fewest_4_1() {
    let mut w = world(Some(0));
    w.config.path_max_retrans = 1;
    w.config.association_max_retrans = 1000;
    w.config.rto_max = secs(2);
    let (a, b) = w.connect();
    for address in addresses(1) {
        w.kill(address);
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
    w.revive(addresses(1)[0]);
    talk(&mut w, a, 20);
    assert_eq!(w.receive(1, b).len(), 800);
    assert_eq!(w.path(0, a, 0).error_count, 0);
}

/// How long the association lives after all addresses of the peer died.
fn life_after_death(mut w: World, quick: Option<u32>) -> std::time::Duration {
    w.config.potentially_failed_max_retrans = quick;
    let (a, _) = w.connect();
    w.events(0);
    for address in addresses(1) {
        w.kill(address);
    }
    w.send(0, a, 0, pattern(100));
    let since = w.now;
    assert!(w.run_until(secs(2000), |w| { w.ends[0].association_stats(a).is_none() }));
    let lost = Event::Closed(CloseReason::PeerUnreachable);
    assert_eq!(w.events(0).last(), Some(&lost));
    w.now - since
}

#[test]
fn the_association_does_not_end_sooner_than_without_it_4() {
    for world in [World::single_homed, World::new] {
        let [standard, quick] = [None, Some(0)].map(|q| life_after_death(world(), q));
        assert!(quick >= standard, "{quick:?}, without {standard:?}");
        assert!(
            quick <= standard * 3,
            "it ends: {quick:?}, without {standard:?}"
        );
    }
}

#[test]
fn the_primary_is_switched_over_for_good_5() {
    let mut w = world(Some(0));
    w.config.primary_switchover_max_retrans = Some(0);
    let (a, _) = w.connect();
    w.events(0);
    w.kill(addresses(1)[0]);
    talk(&mut w, a, 2);
    let events = w.events(0);
    assert!(
        events.contains(&Event::PrimarySwitchover(SECOND)),
        "{events:?}"
    );
    w.revive(addresses(1)[0]);
    talk(&mut w, a, 10);
    assert!(!w.path(0, a, 0).status.potentially_failed);
    assert_eq!(w.stats(0, a).primary, Some(SECOND), "no switchback");
    // The former primary is an alternate like any other.
    w.kill(addresses(1)[1]);
    talk(&mut w, a, 2);
    assert_eq!(w.stats(0, a).primary, Some(FIRST));
}

#[test]
fn the_primary_is_switched_over_later_than_data_leaves_5() {
    let mut w = world(Some(0));
    w.config.primary_switchover_max_retrans = Some(2);
    let (a, _) = w.connect();
    w.events(0);
    w.kill(addresses(1)[0]);
    talk(&mut w, a, 2);
    assert_eq!(w.stats(0, a).primary, Some(SECOND));
    assert!(!w.events(0).contains(&Event::PrimarySwitchover(SECOND)));
    w.revive(addresses(1)[0]);
    talk(&mut w, a, 5);
    assert_eq!(w.stats(0, a).primary, Some(FIRST), "back in time");
    w.kill(addresses(1)[0]);
    talk(&mut w, a, 10);
    assert!(w.events(0).contains(&Event::PrimarySwitchover(SECOND)));
    assert_eq!(w.path(0, a, 0).error_count, 3);
}

#[test]
fn the_primary_is_switched_over_without_quick_failover_too_5() {
    for switchover in [5, 7] {
        let mut w = world(None);
        w.config.primary_switchover_max_retrans = Some(switchover);
        w.config.hb_interval = secs(5);
        let (a, _) = w.connect();
        w.events(0);
        w.kill(addresses(1)[0]);
        talk(&mut w, a, 300);
        let events = w.events(0);
        assert!(
            events.contains(&Event::PrimarySwitchover(SECOND)),
            "{events:?}"
        );
        assert_eq!(w.path(0, a, 0).error_count, switchover + 1);
        w.revive(addresses(1)[0]);
        talk(&mut w, a, 100);
        assert!(w.path(0, a, 0).status.active);
        assert_eq!(w.stats(0, a).primary, Some(SECOND));
    }
}

#[test]
fn thresholds_are_read_and_set_while_it_runs_7_2() {
    let (mut w, a, _) = connected(None);
    let standard = thresholds(5, None, None);
    for path in [None, Some(FIRST), Some(SECOND)] {
        assert_eq!(w.ends[0].path_thresholds(a, path), Some(standard));
    }
    let quick = thresholds(3, Some(0), Some(1));
    let set = |w: &mut World, path, t| w.ends[0].set_path_thresholds(w.now, a, path, t);
    assert_eq!(set(&mut w, Some(SECOND), quick), Ok(()));
    assert_eq!(w.ends[0].path_thresholds(a, Some(SECOND)), Some(quick));
    assert_eq!(w.ends[0].path_thresholds(a, Some(FIRST)), Some(standard));
    assert_eq!(set(&mut w, None, quick), Ok(()));
    assert_eq!(w.ends[0].path_thresholds(a, Some(FIRST)), Some(quick));
    let config: &AssociationConfig = w.ends[0].association_config(a).expect("it is there");
    assert_eq!(config.potentially_failed_max_retrans, Some(0));
    let unknown = Some(PathId(9));
    assert_eq!(w.ends[0].path_thresholds(a, unknown), None);
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
        assert_eq!(w.ends[0].path_thresholds(a, None), Some(quick), "unchanged");
    }
    w.kill(addresses(1)[0]);
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

#[test]
fn a_configuration_with_contradicting_thresholds_is_refused_5() {
    let config = AssociationConfig {
        potentially_failed_max_retrans: Some(3),
        primary_switchover_max_retrans: Some(2),
        ..AssociationConfig::default()
    };
    assert!(config.validate().is_err());
}

#[test]
fn the_state_can_be_kept_from_the_user_7_3() {
    let (mut w, a, _) = connected(Some(0));
    let now = w.now;
    w.ends[0]
        .set_expose_potentially_failed(now, a, false)
        .unwrap();
    w.kill(addresses(1)[0]);
    talk(&mut w, a, 2);
    assert!(!w.path(0, a, 0).status.potentially_failed);
    assert_eq!(w.events(0), [Event::PrimaryChanged(SECOND)]);
    w.revive(addresses(1)[0]);
    talk(&mut w, a, 10);
    assert_eq!(w.events(0), [Event::PrimaryChanged(FIRST)]);
}

#[test]
fn sacks_still_go_where_the_data_came_from() {
    let (mut w, a, b) = connected(Some(0));
    // Endpoint 0 can't reach the first address, endpoint 1 reaches it from there.
    let first = addresses(1)[0];
    w.rule(move |p| {
        if p.from == 0 && p.to() == first && !p.has(ChunkType::SACK) {
            Fate::Drop
        } else {
            Fate::Pass
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

#[test]
fn a_shutdown_avoids_a_suspect_path_3_2() {
    let (mut w, a, _) = connected(Some(0));
    w.kill(addresses(1)[0]);
    talk(&mut w, a, 2);
    w.log.clear();
    let now = w.now;
    w.ends[0].shutdown(now, a).unwrap();
    w.run(ms(500));
    assert_eq!(w.sent(0, ChunkType::SHUTDOWN)[0].to(), addresses(1)[1]);
    assert!(w.ends[0].association_stats(a).is_none(), "done at once");
}
