//! SS7 signalling network management, and the route state.

use super::*;

impl Bench {
    fn report(&mut self, event: &DestinationEvent) {
        assert_eq!(self.sgp.report_destinations(None, event), Ok(()));
    }

    /// Returns the answers to a DAUD of the first ASP.
    fn audited(&mut self, ranges: &[(u8, u32)]) -> Vec<Message> {
        self.drain();
        self.receive(0, &Message::DestinationStateAudit(state_of(ranges)));
        assert_eq!(self.indications(), []);
        self.sent()
            .into_iter()
            .map(|(_, message)| message)
            .collect()
    }
}

fn audit(list: &[u32]) -> DestinationState {
    DestinationState {
        network_appearance: None,
        routing_contexts: contexts(list),
        affected: affected(),
        info: None,
    }
}

/// RFC 4666, section 4.5.1
#[test]
fn destinations_are_reported_to_active_asps() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
    bench.up(0);
    bench.up(1);
    bench.activate(1);
    bench.drain();
    let event = DestinationEvent::Unavailable(affected());
    let report = |bench: &mut Bench, network| bench.sgp.report_destinations(network, &event);
    assert_eq!(report(&mut bench, None), Ok(()));
    let message = Message::DestinationUnavailable(audit(&[1]));
    assert_eq!(bench.sent(), [(1, message)]);
    assert_eq!(report(&mut bench, Some(NetworkAppearance(3))), Ok(()));
    assert_eq!(bench.sent(), []);
}

/// RFC 4666, section 4.5.3
#[test]
fn audits_are_answered() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    let asp = bench.asps[0];
    bench.receive(0, &Message::DestinationStateAudit(audit(&[1])));
    assert_eq!(
        bench.indications(),
        [SgpIndication::Audit(asp, audit(&[1]))]
    );
    let restricted = DestinationEvent::Restricted(affected());
    bench
        .sgp
        .answer_audit(asp, &audit(&[1]), &restricted)
        .expect("an ASP that is up");
    let message = Message::DestinationRestricted(audit(&[1]));
    assert_eq!(bench.sent(), [(0, message)]);
    bench
        .sgp
        .refuse_audit(asp, &audit(&[1]))
        .expect("an ASP that is up");
    let error = bench.sent_error(0, ErrorCode::DESTINATION_STATUS_UNKNOWN);
    assert_eq!(
        (error.affected, error.routing_contexts),
        (Some(affected()), contexts(&[1]))
    );
    bench.receive(0, &Message::DestinationStateAudit(audit(&[1, 9])));
    let error = bench.sent_error(0, ErrorCode::INVALID_ROUTING_CONTEXT);
    assert_eq!(error.routing_contexts, contexts(&[9]));
    bench.lose(0);
    let error = bench.sgp.answer_audit(asp, &audit(&[1]), &restricted);
    assert_eq!(error, Err(SgpRequestError::NotUp(asp)));
}

/// SGP with a route state and one ASP, which is active.
fn bench_with_routes(max_route_ranges: usize) -> Bench {
    let config = SgpConfig {
        max_route_ranges,
        ..SgpConfig::default()
    };
    let mut bench = Bench::with(config, vec![server(1, None, 1)], 2);
    bench.up(0);
    bench.up(1);
    bench.activate(0);
    bench.drain();
    bench
}

fn destinations(ranges: &[(u8, u32)]) -> AffectedPointCodes {
    let range = |&(mask, value): &(u8, u32)| AffectedPointCode {
        mask,
        point_code: code(value),
    };
    AffectedPointCodes::new(ranges.iter().map(range)).expect("a range")
}

fn state_of(ranges: &[(u8, u32)]) -> DestinationState {
    DestinationState {
        affected: destinations(ranges),
        ..audit(&[1])
    }
}

fn congestion(ranges: &[(u8, u32)], level: u8) -> Message {
    Message::SignallingCongestion(SignallingCongestion {
        network_appearance: None,
        routing_contexts: contexts(&[1]),
        affected: destinations(ranges),
        concerned: None,
        level: CongestionLevel::new(level),
        info: None,
    })
}

/// RFC 4666, section 5.4: auditing examples
/// RFC 4666, section 4.5.3
#[test]
fn route_state_answers_audits() {
    use Message::{DestinationAvailable, DestinationRestricted, DestinationUnavailable};
    let mut bench = bench_with_routes(100);
    let congested = |ranges: &[_], level| {
        DestinationEvent::Congested(destinations(ranges), CongestionLevel::new(level))
    };
    bench.report(&DestinationEvent::Available(destinations(&[(3, 0)])));
    // 5.4.3: congestion not known, available; congestion without levels is no state
    bench.report(&DestinationEvent::Congested(destinations(&[(0, 5)]), None));
    assert_eq!(
        bench.audited(&[(0, 5)]),
        [DestinationAvailable(state_of(&[(0, 5)]))]
    );
    // 5.4.2: congested, available
    bench.report(&congested(&[(0, 5)], 2));
    let expected = [
        congestion(&[(0, 5)], 2),
        DestinationAvailable(state_of(&[(0, 5)])),
    ];
    assert_eq!(bench.audited(&[(0, 5)]), expected);
    // 5.4.1: uncongested, available
    bench.report(&congested(&[(0, 5)], 0));
    let expected = [
        congestion(&[(0, 5)], 0),
        DestinationAvailable(state_of(&[(0, 5)])),
    ];
    assert_eq!(bench.audited(&[(0, 5)]), expected);
    // 5.4.4: unavailable
    bench.report(&congested(&[(0, 5)], 2));
    bench.report(&DestinationEvent::Unavailable(destinations(&[(0, 5)])));
    assert_eq!(
        bench.audited(&[(0, 5)]),
        [DestinationUnavailable(state_of(&[(0, 5)]))]
    );
    // The SCON precedes the DRST, too.
    bench.report(&DestinationEvent::Restricted(destinations(&[(0, 6)])));
    bench.report(&congested(&[(0, 6)], 3));
    let expected = [
        congestion(&[(0, 6)], 3),
        DestinationRestricted(state_of(&[(0, 6)])),
    ];
    assert_eq!(bench.audited(&[(0, 6)]), expected);
    // A destination that is not known is unavailable.
    assert_eq!(
        bench.audited(&[(0, 9)]),
        [DestinationUnavailable(state_of(&[(0, 9)]))]
    );
}

/// RFC 4666, section 3.4.1: audit of ranges
#[test]
fn audited_range_has_an_answer_for_each_part() {
    use Message::{DestinationAvailable, DestinationRestricted, DestinationUnavailable};
    let mut bench = bench_with_routes(100);
    bench.report(&DestinationEvent::Available(destinations(&[(3, 0)])));
    bench.report(&DestinationEvent::Restricted(destinations(&[(1, 2)])));
    bench.report(&DestinationEvent::Unavailable(destinations(&[(0, 5)])));
    // Overlapping ranges have one answer.
    let answers = bench.audited(&[(4, 9), (0, 5), (0, 5), (3, 0)]);
    let expected = [
        DestinationUnavailable(state_of(&[(0, 5), (3, 8)])),
        DestinationAvailable(state_of(&[(1, 0), (0, 4), (1, 6)])),
        DestinationRestricted(state_of(&[(1, 2)])),
    ];
    assert_eq!(answers, expected);
}

/// RFC 4666, section 4.5.1: an ASP that becomes active gets what is unavailable, restricted or congested
#[test]
fn exceptions_precede_the_asp_active_ack() {
    let mut bench = bench_with_routes(100);
    bench.report(&DestinationEvent::Available(destinations(&[(3, 0)])));
    bench.report(&DestinationEvent::Restricted(destinations(&[(0, 2)])));
    bench.report(&DestinationEvent::Unavailable(destinations(&[(0, 5)])));
    let level = CongestionLevel::new(1);
    bench.report(&DestinationEvent::Congested(destinations(&[(0, 7)]), level));
    bench.drain();
    bench.activate(1);
    let sent: Vec<_> = bench
        .sent()
        .into_iter()
        .filter(|(asp, _)| *asp == 1)
        .collect();
    let expected = [
        (1, Message::DestinationUnavailable(state_of(&[(0, 5)]))),
        (1, congestion(&[(0, 7)], 1)),
        (1, Message::DestinationRestricted(state_of(&[(0, 2)]))),
        (1, active_ack(None, &[1])),
    ];
    assert_eq!(sent, expected);
    // A repeated ASP Active has no reports.
    bench.activate(1);
    assert_eq!(bench.sent(), [(1, active_ack(None, &[1]))]);
}

/// RFC 4666, section 4.6: MTP restart
#[test]
fn isolated_network_is_unavailable() {
    use Message::{DestinationAvailable, DestinationUnavailable};
    let mut bench = bench_with_routes(100);
    bench.report(&DestinationEvent::Available(destinations(&[(3, 0)])));
    bench.drain();
    bench.sgp.set_isolated(None, true);
    let whole = || DestinationUnavailable(state_of(&[(24, 0)]));
    assert_eq!(bench.sent(), [(0, whole())]);
    bench.sgp.set_isolated(None, true);
    assert_eq!(bench.sent(), []);
    // What becomes available during the restart is reported at its end.
    bench.report(&DestinationEvent::Available(destinations(&[(0, 9)])));
    bench.report(&DestinationEvent::Unavailable(destinations(&[(2, 4)])));
    assert_eq!(bench.sent(), []);
    assert_eq!(
        bench.audited(&[(0, 9)]),
        [DestinationUnavailable(state_of(&[(0, 9)]))]
    );
    bench.activate(1);
    assert_eq!(bench.sent()[0], (1, whole()));
    bench.receive(0, &active(None, &[1]));
    bench.drain();
    bench.sgp.set_isolated(None, false);
    let expected = DestinationAvailable(state_of(&[(2, 0), (0, 9)]));
    assert_eq!(bench.sent(), [(0, expected)]);
}

/// RFC 4666, section 4.5.3: bounded memory and answers
#[test]
fn route_state_is_bounded() {
    let mut bench = bench_with_routes(1000);
    for value in 0..1000 {
        bench.report(&DestinationEvent::Available(destinations(&[(
            0,
            2 * value,
        )])));
    }
    let more = DestinationEvent::Available(destinations(&[(0, 5000)]));
    let result = bench.sgp.report_destinations(None, &more);
    assert_eq!(result, Err(RouteStateFull(1000)));
    // Many overlapping ranges are answered as one.
    let ranges: Vec<_> = (0..10_000).map(|value| (24, value)).collect();
    let answers = bench.audited(&ranges);
    let ranges: usize = answers
        .iter()
        .map(|answer| {
            let octets = answer.encode().expect("a message that fits");
            octets.len() / 4
        })
        .sum();
    assert!((2000..2200).contains(&ranges), "{ranges}");
}
