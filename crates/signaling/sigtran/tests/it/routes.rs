//! Routes to SS7 destinations: a table of one node, and the routes of ASPs through several gateways.

use std::collections::BTreeMap;
use std::time::Duration;

use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::*;
use carrick_sigtran::m3ua::route::*;
use carrick_sigtran::m3ua::*;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::samples::code;

/// Point codes of the random tests.
const CODES: u32 = 64;
const GATEWAYS: u32 = 3;
const CONTEXT: Option<RoutingContext> = Some(RoutingContext(1));
const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 5,
};

fn level(level: u8) -> CongestionLevel {
    CongestionLevel::new(level).expect("a level")
}

fn list(ranges: &[(u8, u32)]) -> AffectedPointCodes {
    let range = |&(mask, value): &(u8, u32)| AffectedPointCode {
        mask,
        point_code: code(value),
    };
    AffectedPointCodes::new(ranges.iter().map(range)).expect("a range")
}

fn unavailable(ranges: &[(u8, u32)]) -> DestinationEvent {
    DestinationEvent::Unavailable(list(ranges))
}

fn available(ranges: &[(u8, u32)]) -> DestinationEvent {
    DestinationEvent::Available(list(ranges))
}

fn availability(table: &DestinationTable, value: u32) -> Option<Availability> {
    table.status(code(value)).map(|status| status.availability)
}

fn asp() -> Asp {
    let server = AspApplicationServer::new(RoutingContext(1));
    Asp::new(AspConfig {
        application_servers: vec![server],
        ..AspConfig::default()
    })
    .expect("a valid configuration")
}

fn indication(event: &DestinationEvent) -> AspIndication {
    let state = |affected: &AffectedPointCodes| DestinationState {
        network_appearance: None,
        routing_contexts: None,
        affected: affected.clone(),
        info: None,
    };
    match event {
        DestinationEvent::Unavailable(affected) => AspIndication::MtpPause(state(affected)),
        DestinationEvent::Available(affected) => AspIndication::MtpResume(state(affected)),
        DestinationEvent::Restricted(affected) => AspIndication::Restricted(state(affected)),
        DestinationEvent::Congested(affected, level) => {
            AspIndication::Congestion(SignallingCongestion {
                network_appearance: None,
                routing_contexts: None,
                affected: affected.clone(),
                concerned: None,
                level: *level,
                info: None,
            })
        }
        DestinationEvent::UserPartUnavailable(point_code, user_cause) => {
            AspIndication::UserPartUnavailable(UserPartUnavailable {
                network_appearance: None,
                routing_contexts: None,
                affected: UnavailableUserPart(*point_code),
                user_cause: *user_cause,
                info: None,
            })
        }
    }
}

/// Route table with the MTP3-User's view of it.
struct Subject {
    routes: RouteTable,
    asp: Asp,
}

impl Subject {
    fn new(config: RouteTableConfig) -> Self {
        Self {
            routes: RouteTable::new(config),
            asp: asp(),
        }
    }

    /// Subject whose ASP is active at the first gateways.
    fn with_gateways(count: u32) -> Self {
        let mut subject = Self::new(RouteTableConfig::default());
        for gateway in 0..count {
            subject.set_state(gateway, AspState::Active);
        }
        subject.indications();
        subject
    }

    fn set_state(&mut self, gateway: u32, state: AspState) {
        let status = AspIndication::AspStatus(CONTEXT, state);
        let result = self
            .routes
            .update(Time::ZERO, GatewayKey(gateway), &self.asp, &status);
        assert_eq!(result, Ok(()));
    }

    fn report(&mut self, gateway: u32, event: &DestinationEvent) {
        let indication = indication(event);
        let result = self
            .routes
            .update(Time::ZERO, GatewayKey(gateway), &self.asp, &indication);
        assert_eq!(result, Ok(()));
    }

    fn indications(&mut self) -> Vec<DestinationEvent> {
        let indications = std::iter::from_fn(|| self.routes.poll_indication());
        indications
            .map(|(network, event)| {
                assert_eq!(network, None);
                event
            })
            .collect()
    }

    fn gateways(&self, value: u32) -> Vec<u32> {
        let gateways = self.routes.gateways(None, code(value));
        gateways.map(|gateway| gateway.0).collect()
    }
}

/// RFC 4666, section 3.4.1: a mask is a range of destinations
#[test]
fn smallest_range_determines_the_status() {
    let mut table = DestinationTable::new(10);
    assert_eq!(availability(&table, 7), None);
    assert_eq!(table.record(&available(&[(24, 0)])), Ok(()));
    assert_eq!(table.record(&unavailable(&[(3, 13), (0, 100)])), Ok(()));
    assert_eq!(table.record(&available(&[(0, 9)])), Ok(()));
    for (value, expected) in [
        (7, Availability::Available),
        (8, Availability::Unavailable),
        (9, Availability::Available),
        (15, Availability::Unavailable),
        (16, Availability::Available),
        (100, Availability::Unavailable),
    ] {
        assert_eq!(availability(&table, value), Some(expected), "{value}");
    }
    // The mask of all bits of an ITU point code, or more, is the whole network.
    for mask in [14, 24, 255] {
        assert_eq!(table.record(&unavailable(&[(mask, 0)])), Ok(()));
        assert_eq!(availability(&table, 9), Some(Availability::Unavailable));
        assert_eq!(table.record(&available(&[(0, 9)])), Ok(()));
    }
}

/// RFC 4666, section 3.4.1: bounded memory
#[test]
fn full_table_refuses_further_ranges_only() {
    let mut table = DestinationTable::new(2);
    assert_eq!(table.record(&unavailable(&[(0, 1), (0, 2)])), Ok(()));
    let full = Err(RouteStateFull(2));
    assert_eq!(table.record(&unavailable(&[(0, 5)])), full);
    assert_eq!(availability(&table, 5), None);
    // A change of a known destination, and a range instead of its parts, have room.
    assert_eq!(table.record(&available(&[(0, 2)])), Ok(()));
    assert_eq!(table.record(&unavailable(&[(2, 0)])), Ok(()));
    assert_eq!(availability(&table, 2), Some(Availability::Unavailable));
    assert_eq!(table.record(&available(&[(0, 5)])), Ok(()));
}

/// RFC 4666, section 4.5.2.2: a destination is paused when the last gateway lost it
#[test]
fn last_gateway_pauses_a_destination() {
    let mut subject = Subject::with_gateways(2);
    subject.report(0, &unavailable(&[(0, 5)]));
    assert_eq!(subject.indications(), []);
    assert_eq!(subject.gateways(5), [1]);
    subject.report(1, &unavailable(&[(2, 4)]));
    assert_eq!(subject.indications(), [unavailable(&[(0, 5)])]);
    assert_eq!(subject.gateways(5), []);
    assert_eq!(subject.gateways(6), [0]);
    subject.report(0, &available(&[(0, 5)]));
    assert_eq!(subject.indications(), [available(&[(0, 5)])]);
    subject.report(1, &available(&[(24, 0)]));
    assert_eq!(subject.indications(), []);
    assert_eq!(subject.gateways(5), [0, 1]);
}

/// RFC 4666, section 3.4.6: restricted destinations use another gateway, if there is one
#[test]
fn restricted_route_is_the_second_choice() {
    let mut subject = Subject::with_gateways(2);
    let restricted = DestinationEvent::Restricted(list(&[(0, 5)]));
    subject.report(0, &restricted);
    assert_eq!(subject.gateways(5), [1]);
    subject.report(1, &unavailable(&[(0, 5)]));
    assert_eq!(subject.gateways(5), [0]);
    assert_eq!(subject.indications(), []);
    // A restricted destination is resumed (section 4.6).
    subject.report(0, &unavailable(&[(0, 5)]));
    subject.report(0, &restricted);
    let expected = [unavailable(&[(0, 5)]), available(&[(0, 5)])];
    assert_eq!(subject.indications(), expected);
}

/// RFC 4666, section 4.5.2.2: congestion of the best routes
#[test]
fn congestion_is_that_of_the_best_gateway() {
    let mut subject = Subject::with_gateways(2);
    let congested = |value| DestinationEvent::Congested(list(&[(0, 5)]), Some(level(value)));
    subject.report(0, &congested(2));
    assert_eq!(subject.indications(), []);
    subject.report(1, &congested(1));
    assert_eq!(subject.indications(), [congested(1)]);
    subject.report(1, &unavailable(&[(0, 5)]));
    assert_eq!(subject.indications(), [congested(2)]);
    subject.report(0, &congested(0));
    assert_eq!(subject.indications(), [congested(0)]);
    // Congestion without level and unavailable user parts are events, not states.
    let cause = UserCause {
        cause: UnavailabilityCause::UNKNOWN,
        user: UserIdentity::ISUP,
    };
    for event in [
        DestinationEvent::Congested(list(&[(0, 5)]), None),
        DestinationEvent::UserPartUnavailable(code(5), cause),
    ] {
        subject.report(0, &event);
        assert_eq!(subject.indications(), [event]);
    }
}

/// RFC 4666, section 4.5.1: DUNA before the ASP Active Ack
#[test]
fn early_reports_apply_after_activation() {
    let mut subject = Subject::new(RouteTableConfig::default());
    subject.report(0, &unavailable(&[(23, 0)]));
    assert_eq!(subject.indications(), []);
    subject.set_state(0, AspState::Active);
    assert_eq!(subject.indications(), [available(&[(23, 1 << 23)])]);
    // What was reported before a loss is forgotten.
    subject.set_state(0, AspState::Down);
    subject.set_state(0, AspState::Active);
    let whole = list(&[(24, 0)]);
    let expected = [
        DestinationEvent::Unavailable(whole.clone()),
        DestinationEvent::Available(whole),
    ];
    assert_eq!(subject.indications(), expected);
}

/// Two ASPs of one process, at a gateway each, which is the test.
struct Process {
    asps: [Asp; 2],
    routes: RouteTable,
    now: Time,
}

impl Process {
    fn new(audited: Vec<(Option<NetworkAppearance>, AffectedPointCode)>) -> Self {
        Self {
            asps: [asp(), asp()],
            routes: RouteTable::new(RouteTableConfig {
                audited,
                ..RouteTableConfig::default()
            }),
            now: Time::from_millis(1),
        }
    }

    fn activate(&mut self, gateway: usize) {
        let asp = &mut self.asps[gateway];
        asp.handle_sctp(self.now, UP);
        asp.asp_up(self.now).expect("an association");
        let ack = Message::AspUpAck(AspUp::default());
        asp.handle_message(self.now, 0, &ack);
        asp.asp_active(self.now, &[]).expect("an ASP that is up");
        let ack = Message::AspActiveAck(AspActive::default());
        asp.handle_message(self.now, 0, &ack);
        while asp.poll_transmit().is_some() {}
        self.update(gateway);
    }

    fn update(&mut self, gateway: usize) {
        let asp = &mut self.asps[gateway];
        while let Some(indication) = asp.poll_indication() {
            let key = GatewayKey(gateway as u32);
            let result = self.routes.update(Time::ZERO, key, asp, &indication);
            assert_eq!(result, Ok(()));
        }
    }

    fn indications(&mut self) -> Vec<DestinationEvent> {
        let indications = std::iter::from_fn(|| self.routes.poll_indication());
        indications.map(|(_, event)| event).collect()
    }
}

/// RFC 4666, section 4.5.3: isolation
/// RFC 4666, section 4.6
#[test]
fn returned_association_is_audited() {
    let audited = AffectedPointCode::single(code(5));
    let mut process = Process::new(vec![(None, audited), (Some(NetworkAppearance(1)), audited)]);
    let whole = || list(&[(24, 0)]);
    for begin in [Duration::ZERO, Duration::from_secs(60)] {
        process.now += begin;
        process.activate(0);
        let expected = DestinationEvent::Available(whole());
        assert_eq!(process.indications(), [expected]);
        let expected = Audit {
            gateway: GatewayKey(0),
            routing_context: CONTEXT,
            affected: list(&[(0, 5)]),
        };
        let audit = process.routes.poll_audit().expect("an audit");
        assert_eq!(audit, expected);
        assert_eq!(process.routes.poll_audit(), None);
        process.asps[0]
            .audit(audit.routing_context, audit.affected)
            .expect("an active ASP");
        let sent = process.asps[0].poll_transmit().expect("a DAUD");
        let sent = sent.message.encode().expect("a message that fits");
        let sent = Message::decode(&sent).expect("a valid message");
        assert!(
            matches!(sent, Message::DestinationStateAudit(audit) if audit.affected == list(&[(0, 5)]))
        );
        process.asps[0].handle_sctp(process.now, SctpNotification::Down);
        process.update(0);
        assert_eq!(
            process.indications(),
            [DestinationEvent::Unavailable(whole())]
        );
    }
}

/// RFC 4666, section 4.5.2.1: the loss of an association pauses destinations that have no other gateway
#[test]
fn lost_gateway_leaves_the_other() {
    let mut process = Process::new(Vec::new());
    process.activate(0);
    process.activate(1);
    process.indications();
    let duna = Message::DestinationUnavailable(DestinationState {
        network_appearance: None,
        routing_contexts: None,
        affected: list(&[(0, 5)]),
        info: None,
    });
    process.asps[1].handle_message(process.now, 0, &duna);
    process.update(1);
    assert_eq!(process.indications(), []);
    process.asps[0].handle_sctp(process.now, SctpNotification::Down);
    process.update(0);
    let expected = DestinationEvent::Unavailable(list(&[(0, 5)]));
    assert_eq!(process.indications(), [expected]);
    let status = |routes: &RouteTable, value| routes.status(None, code(value)).availability;
    let known = list(&[(0, 5)])[0].point_code.value();
    assert_eq!(status(&process.routes, known), Availability::Unavailable);
    assert_eq!(status(&process.routes, known + 1), Availability::Available);
}

fn event() -> impl Strategy<Value = DestinationEvent> {
    let range = (0..8_u8, 0..CODES).prop_map(|(mask, value)| AffectedPointCode {
        mask: if mask == 7 { 24 } else { mask },
        point_code: code(value),
    });
    (vec(range, 1..3), 0..7_u8).prop_map(|(ranges, kind)| {
        let affected = AffectedPointCodes(ranges);
        match kind {
            0 | 1 => DestinationEvent::Unavailable(affected),
            2 => DestinationEvent::Restricted(affected),
            3 => DestinationEvent::Congested(affected, Some(level(2))),
            4 => DestinationEvent::Congested(affected, Some(level(0))),
            _ => DestinationEvent::Available(affected),
        }
    })
}

/// Status of every point code.
type Model = BTreeMap<u32, DestinationStatus>;

fn apply(model: &mut Model, event: &DestinationEvent) {
    let (DestinationEvent::Unavailable(ranges)
    | DestinationEvent::Available(ranges)
    | DestinationEvent::Restricted(ranges)
    | DestinationEvent::Congested(ranges, _)) = event
    else {
        unreachable!("not generated");
    };
    for (value, status) in model {
        if !ranges.iter().any(|range| range.contains(code(*value))) {
            continue;
        }
        match event {
            DestinationEvent::Unavailable(_) => *status = DestinationStatus::default(),
            DestinationEvent::Available(_) => status.availability = Availability::Available,
            DestinationEvent::Restricted(_) => status.availability = Availability::Restricted,
            DestinationEvent::Congested(_, level) => status.congestion = *level,
            DestinationEvent::UserPartUnavailable(..) => {}
        }
    }
}

fn all(status: DestinationStatus) -> Model {
    (0..CODES).map(|value| (value, status)).collect()
}

const AVAILABLE: DestinationStatus = DestinationStatus {
    availability: Availability::Available,
    congestion: None,
};

fn reachable(status: DestinationStatus) -> bool {
    status.availability != Availability::Unavailable
}

fn level_of(status: DestinationStatus) -> CongestionLevel {
    status.congestion.unwrap_or_default()
}

proptest! {
    /// RFC 4666, section 3.4: the table has what a status for each point code has
    #[test]
    fn table_is_equal_to_a_list_of_point_codes(events in vec(event(), 0..40)) {
        let mut table = DestinationTable::new(1000);
        let mut model = all(AVAILABLE);
        prop_assert_eq!(table.record(&available(&[(24, 0)])), Ok(()));
        for event in events {
            prop_assert_eq!(table.record(&event), Ok(()));
            apply(&mut model, &event);
            for (value, status) in &model {
                prop_assert_eq!(table.status(code(*value)), Some(*status), "{}", value);
            }
        }
    }

    /// RFC 4666, section 4.5.2.2: the user's view is that of the best gateway for each destination
    #[test]
    fn user_has_the_status_of_the_best_gateway(
        steps in vec((0..GATEWAYS, 0..12_u8, event()), 0..60),
    ) {
        let mut subject = Subject::new(RouteTableConfig::default());
        let mut gateways: BTreeMap<u32, Model> = BTreeMap::new();
        let mut user = all(DestinationStatus::default());
        for (gateway, kind, event) in steps {
            match kind {
                0 => {
                    subject.set_state(gateway, AspState::Inactive);
                    gateways.remove(&gateway);
                }
                1 | 2 => {
                    subject.set_state(gateway, AspState::Active);
                    gateways.entry(gateway).or_insert_with(|| all(AVAILABLE));
                }
                // Reports before the activation have their own test.
                _ => if let Some(model) = gateways.get_mut(&gateway) {
                    subject.report(gateway, &event);
                    apply(model, &event);
                }
            }
            for event in subject.indications() {
                apply(&mut user, &event);
            }
            for value in 0..CODES {
                let statuses = gateways.values().map(|model| model[&value]);
                let best = statuses
                    .max_by_key(|s| (s.availability, std::cmp::Reverse(level_of(*s))))
                    .filter(|status| reachable(*status))
                    .unwrap_or_default();
                let found = subject.routes.status(None, code(value));
                prop_assert_eq!(found.availability, best.availability, "{}", value);
                prop_assert_eq!(level_of(found), level_of(best), "{}", value);
                prop_assert_eq!(reachable(user[&value]), reachable(best), "{}", value);
                if reachable(best) {
                    prop_assert_eq!(level_of(user[&value]), level_of(best), "{}", value);
                }
                let routes = subject.gateways(value);
                for gateway in &routes {
                    prop_assert_eq!(gateways[gateway][&value].availability, best.availability);
                }
                prop_assert_eq!(routes.is_empty(), !reachable(best));
            }
        }
    }
}

/// RFC 4666, section 4.5.3
#[test]
fn unavailable_destinations_are_audited_again() {
    let mut subject = Subject::new(RouteTableConfig {
        audit_interval: Some(Duration::from_secs(30)),
        ..RouteTableConfig::default()
    });
    subject.set_state(0, AspState::Active);
    assert_eq!(subject.routes.poll_timeout(), None);
    subject.report(0, &unavailable(&[(0, 5), (2, 8)]));
    subject.report(
        0,
        &DestinationEvent::Congested(list(&[(0, 7)]), Some(level(2))),
    );
    let mut now = Time::ZERO;
    for expected in [&[(0, 5), (0, 7), (2, 8)][..], &[(0, 7), (2, 8)], &[]] {
        now += Duration::from_secs(30);
        assert_eq!(subject.routes.poll_timeout(), Some(now));
        subject.routes.handle_timeout(now);
        let audit = subject.routes.poll_audit();
        let expected = (!expected.is_empty()).then(|| Audit {
            gateway: GatewayKey(0),
            routing_context: CONTEXT,
            affected: list(expected),
        });
        assert_eq!(audit, expected);
        assert_eq!(subject.routes.poll_audit(), None);
        // The first destination is available before the second audit, the rest before the third.
        if now == Time::ZERO + Duration::from_secs(30) {
            subject.report(0, &available(&[(0, 5)]));
        } else {
            subject.report(0, &available(&[(2, 8)]));
            subject.report(
                0,
                &DestinationEvent::Congested(list(&[(0, 7)]), Some(level(0))),
            );
        }
    }
    assert_eq!(subject.routes.poll_timeout(), None);
    subject.report(0, &unavailable(&[(0, 5)]));
    subject.set_state(0, AspState::Down);
    assert_eq!(subject.routes.poll_timeout(), None);
}
