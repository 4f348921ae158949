//! SGP's side of the procedures, in virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::AspState;
use carrick_sigtran::m3ua::route::RouteStateFull;
use carrick_sigtran::m3ua::sgp::*;
use carrick_sigtran::m3ua::*;

use crate::samples::{affected, code, contexts, data};

const T_RECOVERY: Duration = Duration::from_secs(2);
const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 5,
};

pub(crate) fn rc(value: u32) -> RoutingContext {
    RoutingContext(value)
}

fn server(context: u32, mode: Option<TrafficMode>, minimum_asps: usize) -> ApplicationServerConfig {
    let destinations = vec![RoutingKeyDestination::all(code(1000 + context))];
    ApplicationServerConfig {
        traffic_mode: mode,
        minimum_asps,
        ..ApplicationServerConfig::new(rc(context), destinations)
    }
}

/// SGP with ASPs whose associations are established.
struct Bench {
    sgp: SignallingGatewayProcess,
    asps: Vec<AspKey>,
    now: Time,
}

impl Bench {
    /// ASPs 0 to `asps` - 1 are members of these application servers and have the identifiers 100 and above.
    fn with(config: SgpConfig, servers: Vec<ApplicationServerConfig>, asps: usize) -> Self {
        let now = Time::from_millis(1000);
        let mut sgp = SignallingGatewayProcess::new(config);
        let application_servers: Vec<_> = servers.iter().map(|s| s.routing_context).collect();
        for server in servers {
            sgp.add_application_server(server)
                .expect("a valid application server");
        }
        let mut keys = Vec::new();
        for _ in 0..asps {
            let asp = SgpAspConfig {
                identifier: None,
                application_servers: application_servers.clone(),
            };
            let key = sgp.add_asp(asp).expect("a valid ASP");
            sgp.handle_sctp(now, key, UP);
            keys.push(key);
        }
        let asps = keys;
        let mut bench = Self { sgp, asps, now };
        bench.drain();
        bench
    }

    /// One application server, routing context 1.
    fn new(mode: TrafficMode, minimum_asps: usize, asps: usize) -> Self {
        let servers = vec![server(1, Some(mode), minimum_asps)];
        Self::with(SgpConfig::default(), servers, asps)
    }

    fn receive(&mut self, asp: usize, message: &Message) {
        self.sgp
            .handle_message(self.now, self.asps[asp], 1, message);
    }

    fn up(&mut self, asp: usize) {
        self.receive(asp, &up(asp));
    }

    fn activate(&mut self, asp: usize) {
        self.receive(asp, &active(None, &[1]));
    }

    fn lose(&mut self, asp: usize) {
        let asp = self.asps[asp];
        self.sgp.handle_sctp(self.now, asp, SctpNotification::Down);
    }

    fn advance(&mut self, duration: Duration) {
        self.now += duration;
        self.sgp.handle_timeout(self.now);
    }

    fn as_state(&self) -> AsState {
        self.sgp.as_state(rc(1)).expect("an application server")
    }

    fn asp_states(&self) -> Vec<AspState> {
        let state = |asp: &AspKey| self.sgp.asp_state(*asp, rc(1)).expect("a member");
        self.asps.iter().map(state).collect()
    }

    /// Returns what was sent, with the ASP's number.
    fn sent(&mut self) -> Vec<(usize, Message)> {
        let transmits = std::iter::from_fn(|| self.sgp.poll_transmit());
        let asps = &self.asps;
        let number = |key: AspKey| asps.iter().position(|asp| *asp == key).expect("an ASP");
        transmits
            .map(|(asp, transmit)| (number(asp), transmit.message))
            .collect()
    }

    fn indications(&mut self) -> Vec<SgpIndication> {
        std::iter::from_fn(|| self.sgp.poll_indication()).collect()
    }

    fn drain(&mut self) {
        self.sent();
        self.indications();
    }

    /// Expects one Error message to an ASP with this code; returns it.
    fn sent_error(&mut self, asp: usize, code: ErrorCode) -> ErrorMessage {
        let sent = self.sent();
        let [(recipient, Message::Error(error))] = &sent[..] else {
            panic!("not one Error message: {sent:?}");
        };
        assert_eq!((*recipient, error.code), (asp, code));
        error.clone()
    }

    fn transfer(&mut self, sls: u8) -> Result<(), TransferError> {
        let mut data = data(sls, &[sls]).protocol_data;
        data.dpc = code(1001);
        self.sgp.transfer(None, data).map(drop)
    }

    /// Returns the ASPs that got DATA, with the SLS.
    fn sent_data(&mut self) -> Vec<(usize, u8)> {
        self.sent()
            .into_iter()
            .filter_map(|(asp, message)| match message {
                Message::Data(data) => Some((asp, data.protocol_data.sls)),
                _ => None,
            })
            .collect()
    }
}

fn up(asp: usize) -> Message {
    Message::AspUp(AspUp {
        asp_identifier: Some(identifier(asp)),
        info: None,
    })
}

fn identifier(asp: usize) -> AspIdentifier {
    AspIdentifier(100 + asp as u32)
}

fn up_ack() -> Message {
    Message::AspUpAck(AspUp::default())
}

fn active(traffic_mode: Option<TrafficMode>, list: &[u32]) -> Message {
    Message::AspActive(active_body(traffic_mode, list))
}

fn active_ack(traffic_mode: Option<TrafficMode>, list: &[u32]) -> Message {
    Message::AspActiveAck(active_body(traffic_mode, list))
}

fn active_body(traffic_mode: Option<TrafficMode>, list: &[u32]) -> AspActive {
    AspActive {
        traffic_mode,
        routing_contexts: contexts(list),
        info: None,
    }
}

fn inactive(list: &[u32]) -> Message {
    Message::AspInactive(AspInactive {
        routing_contexts: contexts(list),
        info: None,
    })
}

fn inactive_ack(list: &[u32]) -> Message {
    Message::AspInactiveAck(AspInactive {
        routing_contexts: contexts(list),
        info: None,
    })
}

fn notify(status: Status, asp: Option<usize>) -> Message {
    Message::Notify(Notify {
        status,
        asp_identifier: asp.map(identifier),
        routing_contexts: contexts(&[1]),
        info: None,
    })
}

/// RFC 4666, section 4.3.1: ASP-DOWN to ASP-INACTIVE
/// RFC 4666, section 4.3.2: DN2IA
/// RFC 4666, section 4.3.4.5: notification after the acknowledgement
#[test]
fn asp_up_leads_to_as_inactive() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
    assert_eq!(bench.as_state(), AsState::Down);
    bench.up(0);
    assert_eq!(bench.as_state(), AsState::Inactive);
    assert_eq!(bench.asp_states(), [AspState::Inactive, AspState::Down]);
    assert_eq!(
        bench.sent(),
        [(0, up_ack()), (0, notify(Status::AsInactive, None))]
    );
    let expected = [
        SgpIndication::AspUp(bench.asps[0]),
        SgpIndication::AsStatus(rc(1), AsState::Inactive),
    ];
    assert_eq!(bench.indications(), expected);
    // Only the new ASP is notified when the state stays.
    bench.up(1);
    assert_eq!(
        bench.sent(),
        [(1, up_ack()), (1, notify(Status::AsInactive, None))]
    );
}

/// RFC 4666, section 4.3.4.1: ASP Up in ASP-INACTIVE
#[test]
fn repeated_asp_up_is_acknowledged_only() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.drain();
    bench.up(0);
    assert_eq!(
        (bench.sent(), bench.indications()),
        (vec![(0, up_ack())], vec![])
    );
}

/// RFC 4666, section 4.3.1: ASP-INACTIVE to ASP-ACTIVE
/// RFC 4666, section 4.3.2: IA2AC
#[test]
fn asp_active_leads_to_as_active() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
    bench.up(0);
    bench.up(1);
    bench.drain();
    let mode = Some(TrafficMode::OVERRIDE);
    bench.receive(0, &active(mode, &[1]));
    assert_eq!(bench.as_state(), AsState::Active);
    assert_eq!(bench.asp_states(), [AspState::Active, AspState::Inactive]);
    let expected = [
        (0, active_ack(mode, &[1])),
        (0, notify(Status::AsActive, None)),
        (1, notify(Status::AsActive, None)),
    ];
    assert_eq!(bench.sent(), expected);
    // In ASP-ACTIVE, ASP Active is acknowledged again; without a list the acknowledgement has none.
    bench.receive(0, &active(None, &[]));
    assert_eq!(bench.sent(), [(0, active_ack(None, &[]))]);
}

/// RFC 4666, section 4.3.2: n ASPs before AS-ACTIVE, one to keep it
/// RFC 4666, section 4.3.4.3
/// RFC 4666, section 4.3.4.4: insufficient resources
#[test]
fn loadshare_waits_for_its_minimum() {
    let mut bench = Bench::new(TrafficMode::LOADSHARE, 2, 3);
    (0..3).for_each(|asp| bench.up(asp));
    bench.activate(0);
    bench.drain();
    assert_eq!(bench.as_state(), AsState::Inactive);
    assert_eq!(
        bench.transfer(0),
        Err(TransferError::NotActive(AsState::Inactive))
    );
    bench.activate(1);
    assert_eq!(bench.as_state(), AsState::Active);
    bench.drain();
    bench.receive(0, &inactive(&[1]));
    assert_eq!(bench.as_state(), AsState::Active);
    let insufficient = notify(Status::InsufficientAspResources, None);
    let expected = [
        (0, inactive_ack(&[1])),
        (0, insufficient.clone()),
        (2, insufficient),
    ];
    assert_eq!(bench.sent(), expected);
    assert_eq!(bench.transfer(0), Ok(()));
    assert_eq!(bench.sent_data(), [(1, 0)]);
}

/// RFC 4666, section 4.3.1: ASP-ACTIVE to ASP-INACTIVE, another ASP overrides
/// RFC 4666, section 4.3.4.3
#[test]
fn override_notifies_the_previous_asp() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
    bench.up(0);
    bench.up(1);
    bench.activate(0);
    bench.drain();
    bench.activate(1);
    assert_eq!(bench.as_state(), AsState::Active);
    assert_eq!(bench.asp_states(), [AspState::Inactive, AspState::Active]);
    let expected = [
        (1, active_ack(None, &[1])),
        (0, notify(Status::AlternateAspActive, Some(1))),
    ];
    assert_eq!(bench.sent(), expected);
    assert_eq!(bench.transfer(3), Ok(()));
    assert_eq!(bench.sent_data(), [(1, 3)]);
    // The overridden ASP is inactive already; its ASP Inactive is acknowledged.
    bench.receive(0, &inactive(&[1]));
    assert_eq!(bench.sent(), [(0, inactive_ack(&[1]))]);
}

/// RFC 4666, section 4.3.1: ASP-ACTIVE to ASP-INACTIVE
/// RFC 4666, section 4.3.2: AC2PN and PN2AC
/// RFC 4666, section 4.3.4.4: buffered traffic
#[test]
fn pending_buffers_until_an_asp_is_active() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
    bench.up(0);
    bench.up(1);
    bench.activate(0);
    bench.drain();
    bench.receive(0, &inactive(&[1]));
    assert_eq!(bench.as_state(), AsState::Pending);
    let pending = notify(Status::AsPending, None);
    let expected = [(0, inactive_ack(&[1])), (0, pending.clone()), (1, pending)];
    assert_eq!(bench.sent(), expected);
    assert_eq!(bench.sgp.poll_timeout(), Some(bench.now + T_RECOVERY));
    for sls in 0..3 {
        assert_eq!(bench.transfer(sls), Ok(()));
    }
    assert_eq!(bench.sent(), []);
    assert_eq!(bench.sgp.buffered(rc(1)), Some((3, 3)));
    bench.advance(Duration::from_millis(1999));
    bench.activate(1);
    assert_eq!(bench.as_state(), AsState::Active);
    assert_eq!(bench.sent_data(), [(1, 0), (1, 1), (1, 2)]);
    assert_eq!(bench.sgp.poll_timeout(), None);
    assert_eq!(bench.sgp.buffered(rc(1)), Some((0, 0)));
}

/// RFC 4666, section 4.3.2: PN2AC, one ASP suffices
#[test]
fn pending_ends_with_the_first_asp() {
    let mut bench = Bench::new(TrafficMode::LOADSHARE, 2, 2);
    for asp in 0..2 {
        bench.up(asp);
        bench.activate(asp);
    }
    for asp in 0..2 {
        bench.receive(asp, &inactive(&[1]));
    }
    assert_eq!(bench.as_state(), AsState::Pending);
    assert_eq!(bench.transfer(9), Ok(()));
    bench.drain();
    bench.activate(1);
    assert_eq!(bench.as_state(), AsState::Active);
    assert_eq!(bench.sent_data(), [(1, 9)]);
    // After T(r), n ASPs are needed again.
    bench.receive(1, &inactive(&[1]));
    bench.advance(T_RECOVERY);
    bench.activate(1);
    assert_eq!(bench.as_state(), AsState::Inactive);
}

/// RFC 4666, section 4.3.2: PN2IA
#[test]
fn recovery_expiry_leads_to_as_inactive() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.receive(0, &inactive(&[1]));
    assert_eq!(bench.transfer(0), Ok(()));
    bench.drain();
    bench.advance(T_RECOVERY);
    assert_eq!(bench.as_state(), AsState::Inactive);
    assert_eq!(bench.sent(), [(0, notify(Status::AsInactive, None))]);
    let expected = [
        SgpIndication::AsStatus(rc(1), AsState::Inactive),
        SgpIndication::Discarded(rc(1), 1),
    ];
    assert_eq!(bench.indications(), expected);
    assert_eq!(
        bench.transfer(0),
        Err(TransferError::NotActive(AsState::Inactive))
    );
}

/// RFC 4666, section 4.3.1: SCTP CDI in ASP-ACTIVE
/// RFC 4666, section 4.3.2: AC2PN and PN2DN
#[test]
fn recovery_expiry_leads_to_as_down() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    bench.lose(0);
    assert_eq!(bench.as_state(), AsState::Pending);
    assert_eq!(bench.asp_states(), [AspState::Down]);
    assert_eq!(bench.transfer(0), Ok(()));
    let expected = [
        SgpIndication::SctpStatus(bench.asps[0], SctpNotification::Down),
        SgpIndication::AspDown(bench.asps[0]),
        SgpIndication::AsStatus(rc(1), AsState::Pending),
    ];
    assert_eq!(bench.indications(), expected);
    bench.advance(T_RECOVERY);
    assert_eq!(bench.as_state(), AsState::Down);
    let expected = [
        SgpIndication::AsStatus(rc(1), AsState::Down),
        SgpIndication::Discarded(rc(1), 1),
    ];
    assert_eq!(bench.indications(), expected);
    assert_eq!(bench.sent(), []);
}

/// RFC 4666, section 4.3.1: ASPDN in ASP-INACTIVE
/// RFC 4666, section 4.3.2: IA2DN
/// RFC 4666, section 4.3.4.2
#[test]
fn asp_down_leads_to_as_down() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.drain();
    let ack = Message::AspDownAck(AspDown::default());
    bench.receive(0, &Message::AspDown(AspDown::default()));
    assert_eq!(bench.as_state(), AsState::Down);
    assert_eq!(bench.sent(), [(0, ack.clone())]);
    let expected = [
        SgpIndication::AspDown(bench.asps[0]),
        SgpIndication::AsStatus(rc(1), AsState::Down),
    ];
    assert_eq!(bench.indications(), expected);
    // In ASP-DOWN it is acknowledged as well.
    bench.receive(0, &Message::AspDown(AspDown::default()));
    assert_eq!(
        (bench.sent(), bench.indications()),
        (vec![(0, ack)], vec![])
    );
}

/// RFC 4666, section 4.3.1: ASPDN in ASP-ACTIVE
#[test]
fn asp_down_of_the_active_asp_leads_to_as_pending() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
    bench.up(0);
    bench.up(1);
    bench.activate(0);
    bench.drain();
    bench.receive(0, &Message::AspDown(AspDown::default()));
    assert_eq!(bench.asp_states(), [AspState::Down, AspState::Inactive]);
    assert_eq!(bench.as_state(), AsState::Pending);
    let ack = Message::AspDownAck(AspDown::default());
    assert_eq!(
        bench.sent(),
        [(0, ack), (1, notify(Status::AsPending, None))]
    );
}

/// RFC 4666, section 4.3.4.6: 2 × T(beat)
#[test]
fn silent_asp_is_unresponsive() {
    let t_beat = Duration::from_secs(10);
    let config = SgpConfig {
        t_beat: Some(t_beat),
        ..SgpConfig::default()
    };
    let mut bench = Bench::with(config, vec![server(1, None, 1)], 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    bench.advance(t_beat);
    assert!(matches!(bench.sent()[..], [(0, Message::Heartbeat(_))]));
    assert_eq!(bench.indications(), []);
    bench.advance(t_beat);
    let indications = bench.indications();
    assert_eq!(
        indications[0],
        SgpIndication::PeerUnresponsive(bench.asps[0])
    );
    assert_eq!(bench.asp_states(), [AspState::Down]);
    // Of the timers only T(r) is left.
    assert_eq!(bench.sgp.poll_timeout(), Some(bench.now + T_RECOVERY));
}

/// RFC 4666, section 4.3.1: SCTP CDI and SCTP RI
/// RFC 4666, section 4.3.4.5: ASP Identifier of the failed ASP
#[test]
fn failure_is_notified_with_its_asp() {
    let restarted = SctpNotification::Restarted {
        outbound_streams: 5,
    };
    for notification in [SctpNotification::Down, restarted] {
        let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 2);
        bench.up(0);
        bench.up(1);
        bench.activate(0);
        bench.drain();
        bench
            .sgp
            .handle_sctp(bench.now, bench.asps[0], notification);
        assert_eq!(bench.asp_states(), [AspState::Down, AspState::Inactive]);
        let expected = [
            (1, notify(Status::AspFailure, Some(0))),
            (1, notify(Status::AsPending, Some(0))),
        ];
        assert_eq!(bench.sent(), expected);
        // Only a restarted association can be used at once.
        bench.up(0);
        assert_eq!(
            bench.sent().is_empty(),
            notification == SctpNotification::Down
        );
    }
}

/// RFC 4666, section 4.3.4.1: ASP Up in ASP-ACTIVE
#[test]
fn asp_up_in_asp_active_is_unexpected() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    bench.up(0);
    assert_eq!(bench.asp_states(), [AspState::Inactive]);
    let sent = bench.sent();
    assert_eq!(sent[0], (0, up_ack()));
    assert!(matches!(&sent[1].1, Message::Error(e) if e.code == ErrorCode::UNEXPECTED_MESSAGE));
    assert_eq!(sent[2..], [(0, notify(Status::AsPending, None))]);
}

/// RFC 4666, section 4.3.4.1: Refused - Management Blocking
/// RFC 4666, section 4.7
#[test]
fn blocked_asps_are_refused() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    bench
        .sgp
        .set_asp_blocked(bench.now, bench.asps[0], true)
        .expect("an ASP");
    assert_eq!(bench.sent(), [(0, Message::AspDownAck(AspDown::default()))]);
    bench.up(0);
    bench.sent_error(0, ErrorCode::MANAGEMENT_BLOCKING);
    assert_eq!(bench.asp_states(), [AspState::Down]);
    bench
        .sgp
        .set_asp_blocked(bench.now, bench.asps[0], false)
        .expect("an ASP");
    bench.up(0);
    assert_eq!(bench.sent()[0], (0, up_ack()));
}

/// RFC 4666, section 4.3.4.3: Refused - Management Blocking
/// RFC 4666, section 4.7
#[test]
fn blocked_application_servers_are_refused() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    let blocked = bench
        .sgp
        .set_application_server_blocked(bench.now, rc(1), true);
    blocked.expect("an application server");
    let pending = (0, notify(Status::AsPending, None));
    assert_eq!(bench.sent(), [(0, inactive_ack(&[1])), pending]);
    bench.activate(0);
    let error = bench.sent_error(0, ErrorCode::MANAGEMENT_BLOCKING);
    assert_eq!(error.routing_contexts, contexts(&[1]));
}

/// RFC 4666, section 3.8.1: ASP Identifier Required, Invalid ASP Identifier
#[test]
fn asp_identifiers_are_checked() {
    let config = SgpConfig {
        require_asp_identifier: true,
        ..SgpConfig::default()
    };
    let mut bench = Bench::with(config, vec![server(1, None, 1)], 2);
    bench.receive(0, &Message::AspUp(AspUp::default()));
    bench.sent_error(0, ErrorCode::ASP_IDENTIFIER_REQUIRED);
    bench.up(0);
    bench.drain();
    bench.receive(1, &up(0));
    bench.sent_error(1, ErrorCode::INVALID_ASP_IDENTIFIER);
    // The identifier is free after ASP Down.
    bench.receive(0, &Message::AspDown(AspDown::default()));
    bench.drain();
    bench.receive(1, &up(0));
    assert_eq!(bench.sent()[0], (1, up_ack()));
}

/// RFC 4666, section 4.3.4.3: the cases of the Routing Context parameter
#[test]
fn asp_active_is_answered_by_its_contexts() {
    let servers = vec![server(1, None, 1), server(2, None, 1)];
    let mut bench = Bench::with(SgpConfig::default(), servers.clone(), 1);
    bench.up(0);
    bench.drain();
    bench.receive(0, &active(None, &[9, 2]));
    let sent = bench.sent();
    let Message::Error(error) = &sent[0].1 else {
        panic!("no Error message: {sent:?}");
    };
    assert_eq!(error.code, ErrorCode::NO_CONFIGURED_AS);
    assert_eq!(error.routing_contexts, contexts(&[9]));
    assert_eq!(sent[1], (0, active_ack(None, &[2])));
    bench.receive(0, &active(None, &[]));
    assert_eq!(bench.sent()[0], (0, active_ack(None, &[])));
    assert_eq!(bench.sgp.as_state(rc(1)), Some(AsState::Active));

    let mandatory = SgpConfig {
        require_routing_context: true,
        ..SgpConfig::default()
    };
    let mut bench = Bench::with(mandatory, servers, 1);
    bench.up(0);
    bench.drain();
    bench.receive(0, &active(None, &[]));
    bench.sent_error(0, ErrorCode::MISSING_PARAMETER);

    let mut bench = Bench::with(SgpConfig::default(), vec![], 1);
    bench.up(0);
    bench.drain();
    bench.receive(0, &active(None, &[]));
    bench.sent_error(0, ErrorCode::INVALID_ROUTING_CONTEXT);
    bench.receive(0, &inactive(&[]));
    bench.sent_error(0, ErrorCode::NO_CONFIGURED_AS);
}

/// RFC 4666, section 4.3.4.4: an Error message for each invalid routing context
#[test]
fn asp_inactive_is_answered_by_its_contexts() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    bench.receive(0, &inactive(&[8, 1, 9]));
    let sent = bench.sent();
    let invalid: Vec<_> = sent[..2]
        .iter()
        .map(|(_, message)| match message {
            Message::Error(error) if error.code == ErrorCode::INVALID_ROUTING_CONTEXT => {
                error.routing_contexts.clone()
            }
            other => panic!("no Error message: {other:?}"),
        })
        .collect();
    assert_eq!(invalid, [contexts(&[8]), contexts(&[9])]);
    assert_eq!(sent[2], (0, inactive_ack(&[1])));
}

/// RFC 4666, section 4.3.4.3: the mode of the first ASP Active applies
/// RFC 4666, section 3.8.1: Unsupported Traffic Mode Type
#[test]
fn traffic_modes_are_not_mixed() {
    let mut bench = Bench::with(SgpConfig::default(), vec![server(1, None, 1)], 2);
    bench.up(0);
    bench.up(1);
    bench.receive(0, &active(Some(TrafficMode::LOADSHARE), &[1]));
    bench.drain();
    bench.receive(1, &active(Some(TrafficMode::OVERRIDE), &[1]));
    let error = bench.sent_error(1, ErrorCode::UNSUPPORTED_TRAFFIC_MODE_TYPE);
    assert_eq!(error.routing_contexts, contexts(&[1]));
    bench.receive(1, &active(None, &[1]));
    assert_eq!(bench.asp_states(), [AspState::Active; 2]);
}

/// RFC 4666, section 4.3.4.3: loadshare
#[test]
fn loadshare_keeps_an_sls_on_its_asp() {
    let mut bench = Bench::new(TrafficMode::LOADSHARE, 1, 3);
    (0..3).for_each(|asp| bench.up(asp));
    (0..3).for_each(|asp| bench.activate(asp));
    bench.drain();
    let distribution = |bench: &mut Bench| -> Vec<usize> {
        (0..16).for_each(|sls| bench.transfer(sls).expect("an active application server"));
        bench.sent_data().into_iter().map(|(asp, _)| asp).collect()
    };
    let before = distribution(&mut bench);
    let count = |shares: &[usize], asp| shares.iter().filter(|share| **share == asp).count();
    assert_eq!(
        (0..3)
            .map(|asp| count(&before, asp))
            .collect::<BTreeSet<_>>(),
        [5, 6].into()
    );
    assert_eq!(distribution(&mut bench), before);
    // Only the traffic of the ASP that leaves is moved.
    bench.lose(1);
    bench.drain();
    let after = distribution(&mut bench);
    for (old, new) in before.iter().zip(&after) {
        assert!(if *old == 1 { *new != 1 } else { new == old });
    }
    assert_eq!((count(&after, 0), count(&after, 2)), (8, 8));
    // An ASP that returns gets its part.
    let asp = bench.asps[1];
    bench.sgp.handle_sctp(bench.now, asp, UP);
    bench.up(1);
    bench.activate(1);
    bench.drain();
    let returned = distribution(&mut bench);
    assert!(
        (0..3).all(|asp| (5..=6).contains(&count(&returned, asp))),
        "{returned:?}"
    );
}

/// RFC 4666, section 4.3.4.3: broadcast, with a Correlation Id in the first message of each flow
#[test]
fn broadcast_tags_the_first_message_of_a_flow() {
    let mut bench = Bench::new(TrafficMode::BROADCAST, 1, 2);
    bench.up(0);
    bench.up(1);
    bench.activate(0);
    bench.drain();
    let tags = |bench: &mut Bench, sls| -> Vec<(usize, Option<CorrelationId>)> {
        bench.transfer(sls).expect("an active application server");
        let sent = bench.sent().into_iter();
        sent.map(|(asp, message)| match message {
            Message::Data(data) => (asp, data.correlation_id),
            other => panic!("no DATA: {other:?}"),
        })
        .collect()
    };
    assert_eq!(tags(&mut bench, 4), [(0, Some(CorrelationId(1)))]);
    assert_eq!(tags(&mut bench, 4), [(0, None)]);
    bench.activate(1);
    bench.drain();
    let tagged = Some(CorrelationId(2));
    assert_eq!(tags(&mut bench, 4), [(0, tagged), (1, tagged)]);
    assert_eq!(tags(&mut bench, 4), [(0, None), (1, None)]);
    let tagged = Some(CorrelationId(3));
    assert_eq!(tags(&mut bench, 5), [(0, tagged), (1, tagged)]);
}

/// RFC 4666, section 4.3.2: the buffer of AS-PENDING
#[test]
fn buffers_are_bounded() {
    let config = SgpConfig {
        max_buffered_messages: 3,
        max_buffered_octets: 10,
        max_buffered_octets_total: 12,
        ..SgpConfig::default()
    };
    let servers = vec![server(1, None, 1), server(2, None, 1)];
    let mut bench = Bench::with(config, servers, 1);
    bench.up(0);
    bench.receive(0, &active(None, &[]));
    bench.lose(0);
    let mut transfer = |context, octets: usize| {
        let data = data(0, &vec![0; octets]).protocol_data;
        bench.sgp.transfer_to(rc(context), data)
    };
    assert_eq!(transfer(1, 11), Err(TransferError::BufferFull));
    assert_eq!(transfer(1, 8), Ok(()));
    assert_eq!(transfer(1, 0), Ok(()));
    assert_eq!(transfer(1, 0), Ok(()));
    assert_eq!(transfer(1, 0), Err(TransferError::BufferFull));
    assert_eq!(transfer(2, 5), Err(TransferError::BufferFull));
    assert_eq!(transfer(2, 4), Ok(()));
    bench.advance(T_RECOVERY);
    assert_eq!(bench.sgp.buffered(rc(1)), Some((0, 0)));
    // The total is free again.
    bench.sgp.handle_sctp(bench.now, bench.asps[0], UP);
    bench.up(0);
    bench.receive(0, &active(None, &[]));
    bench.lose(0);
    let data = data(0, &[0; 10]).protocol_data;
    assert_eq!(bench.sgp.transfer_to(rc(2), data), Ok(()));
}

/// RFC 4666, section 1.4.2.4
#[test]
fn messages_are_routed_by_their_keys() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    let mut label = data(6, &[]).protocol_data;
    assert_eq!(
        bench.sgp.transfer(None, label.clone()),
        Err(TransferError::NoRoutingKey)
    );
    label.dpc = code(1001);
    assert_eq!(bench.sgp.transfer(None, label), Ok(rc(1)));
    let (_, transmit) = bench.sgp.poll_transmit().expect("a DATA");
    assert_eq!(transmit.stream, 3);
    assert_eq!(transmit.message.routing_contexts(), contexts(&[1]));
}

/// RFC 4666, section 4.1.1
/// RFC 4666, section 3.8.1
#[test]
fn data_of_asps_is_checked() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.drain();
    let message = Message::Data(data(1, &[1]));
    bench.receive(0, &message);
    assert_eq!((bench.sent(), bench.indications()), (vec![], vec![]));
    bench.activate(0);
    bench.drain();
    bench.receive(0, &message);
    let transfer = SgpIndication::Transfer(bench.asps[0], rc(1), data(1, &[1]));
    assert_eq!(bench.indications(), [transfer]);
    bench
        .sgp
        .handle_message(bench.now, bench.asps[0], 0, &message);
    bench.sent_error(0, ErrorCode::INVALID_STREAM_IDENTIFIER);
    let mut wrong = data(1, &[]);
    wrong.network_appearance = Some(NetworkAppearance(4));
    bench.receive(0, &Message::Data(wrong.clone()));
    let error = bench.sent_error(0, ErrorCode::INVALID_NETWORK_APPEARANCE);
    assert_eq!(error.network_appearance, Some(NetworkAppearance(4)));
    wrong.network_appearance = None;
    wrong.routing_context = Some(rc(9));
    bench.receive(0, &Message::Data(wrong));
    let error = bench.sent_error(0, ErrorCode::INVALID_ROUTING_CONTEXT);
    assert_eq!(error.routing_contexts, contexts(&[9]));
}

/// RFC 4666, section 3.8.1: Missing Parameter, No Configured AS for ASP
#[test]
fn implied_contexts_are_unique() {
    let mut plain = data(1, &[]);
    plain.routing_context = None;
    let plain = Message::Data(plain);
    let cases = [
        (vec![], Some(ErrorCode::NO_CONFIGURED_AS)),
        (vec![server(1, None, 1)], None),
        (
            vec![server(1, None, 1), server(2, None, 1)],
            Some(ErrorCode::MISSING_PARAMETER),
        ),
    ];
    for (servers, expected) in cases {
        let mut bench = Bench::with(SgpConfig::default(), servers, 1);
        bench.up(0);
        bench.receive(0, &active(None, &[]));
        bench.drain();
        bench.receive(0, &plain);
        match expected {
            Some(code) => drop(bench.sent_error(0, code)),
            None => assert!(matches!(
                bench.indications()[..],
                [SgpIndication::Transfer(..)]
            )),
        }
    }
}

/// RFC 4666, section 4.3.4.1: other messages before ASP Up
/// RFC 4666, section 3.8.1: Unexpected Message
#[test]
fn messages_before_asp_up_are_unexpected() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    for message in [active(None, &[1]), inactive(&[1])] {
        bench.receive(0, &message);
        let error = bench.sent_error(0, ErrorCode::UNEXPECTED_MESSAGE);
        assert_eq!(error.routing_contexts, contexts(&[1]));
    }
    assert_eq!(bench.as_state(), AsState::Down);
    // Heartbeats are answered in ASP-DOWN.
    let beat = Heartbeat::new(b"x").expect("a short heartbeat");
    bench.receive(0, &Message::Heartbeat(beat.clone()));
    assert_eq!(bench.sent(), [(0, Message::HeartbeatAck(beat))]);
    bench.up(0);
    bench.drain();
    for message in [up_ack(), active_ack(None, &[1]), inactive_ack(&[1])] {
        bench.receive(0, &message);
        bench.sent_error(0, ErrorCode::UNEXPECTED_MESSAGE);
    }
    let error = Message::Error(ErrorMessage::new(ErrorCode::PROTOCOL_ERROR));
    bench.receive(0, &error);
    assert_eq!(bench.sent(), []);
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

/// RFC 4666, section 4.3.2: AS-DOWN after the removal from the configuration
#[test]
fn removed_application_servers_are_down() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    let unknown = bench.sgp.remove_application_server(bench.now, rc(9));
    assert_eq!(
        unknown,
        Err(SgpConfigError::UnknownApplicationServer(rc(9)))
    );
    let removed = bench.sgp.remove_application_server(bench.now, rc(1));
    removed.expect("an application server");
    assert_eq!(bench.sgp.as_state(rc(1)), None);
    assert_eq!(bench.sent()[0], (0, inactive_ack(&[1])));
    let down = SgpIndication::AsStatus(rc(1), AsState::Down);
    assert_eq!(bench.indications().last(), Some(&down));
    assert_eq!(bench.transfer(0), Err(TransferError::NoRoutingKey));
    bench.activate(0);
    let error = bench.sent_error(0, ErrorCode::NO_CONFIGURED_AS);
    assert_eq!(error.routing_contexts, contexts(&[1]));
    assert_eq!(bench.sgp.poll_timeout(), None);
    bench
        .sgp
        .add_application_server(server(2, None, 1))
        .expect("a free routing key");
}

#[test]
fn configuration_is_checked() {
    let config = SgpConfig {
        max_asps: 1,
        max_application_servers: 2,
        ..SgpConfig::default()
    };
    let mut sgp = SignallingGatewayProcess::new(config);
    sgp.add_application_server(server(1, None, 1))
        .expect("the first");
    let repeated = sgp.add_application_server(server(1, None, 1));
    assert_eq!(repeated, Err(SgpConfigError::IdentifierInUse(rc(1))));
    let mut overlapping = server(2, None, 1);
    overlapping.destinations = server(1, None, 1).destinations;
    let overlapping = sgp.add_application_server(overlapping);
    assert_eq!(overlapping, Err(SgpConfigError::OverlappingKey(rc(1))));
    sgp.add_application_server(server(2, None, 1))
        .expect("the second");
    let third = sgp.add_application_server(server(3, None, 1));
    assert_eq!(third, Err(SgpConfigError::TooManyApplicationServers(2)));
    let asp = |context| SgpAspConfig {
        identifier: None,
        application_servers: vec![rc(context)],
    };
    let unknown = sgp.add_asp(asp(3));
    assert_eq!(
        unknown,
        Err(SgpConfigError::UnknownApplicationServer(rc(3)))
    );
    let key = sgp.add_asp(asp(1)).expect("the first");
    assert_eq!(sgp.add_asp(asp(1)), Err(SgpConfigError::TooManyAsps(1)));
    sgp.remove_asp(Time::ZERO, key).expect("an ASP");
    assert_eq!(
        sgp.remove_asp(Time::ZERO, key),
        Err(SgpConfigError::UnknownAsp(key))
    );
    assert_eq!(sgp.asp_state(key, rc(1)), None);
}

fn key(id: u32, dpc: u32) -> RoutingKey {
    RoutingKey {
        local_id: LocalRoutingKeyIdentifier(id),
        routing_context: None,
        traffic_mode: None,
        network_appearance: None,
        destinations: vec![RoutingKeyDestination::all(code(dpc))],
    }
}

fn registering(registration: RegistrationPolicy, limit: usize) -> Bench {
    let config = SgpConfig {
        registration,
        max_application_servers: limit,
        max_destinations: 2,
        ..SgpConfig::default()
    };
    let servers = vec![server(1, Some(TrafficMode::OVERRIDE), 1)];
    let mut bench = Bench::with(config, servers, 1);
    let asp = bench
        .sgp
        .add_asp(SgpAspConfig::default())
        .expect("a valid ASP");
    bench.sgp.handle_sctp(bench.now, asp, UP);
    bench.asps.push(asp);
    bench.up(0);
    bench.up(1);
    bench.drain();
    bench
}

impl Bench {
    /// Registers keys by ASP 1; returns the results.
    fn register(&mut self, routing_keys: Vec<RoutingKey>) -> Vec<(u32, RegistrationStatus, u32)> {
        let request = Message::RegistrationRequest(RegistrationRequest { routing_keys });
        self.receive(1, &request);
        let sent = self.sent();
        let responses = sent.into_iter().filter_map(|(asp, message)| match message {
            Message::RegistrationResponse(response) if asp == 1 => Some(response.results),
            _ => None,
        });
        let results = responses.flatten();
        results
            .map(|r| (r.local_id.0, r.status, r.routing_context.0))
            .collect()
    }

    fn deregister(&mut self, list: &[u32]) -> Vec<(u32, DeregistrationStatus)> {
        let routing_contexts = contexts(list).expect("a context");
        let request = DeregistrationRequest { routing_contexts };
        self.receive(1, &Message::DeregistrationRequest(request));
        let sent = self.sent();
        let responses = sent.into_iter().filter_map(|(_, message)| match message {
            Message::DeregistrationResponse(response) => Some(response.results),
            _ => None,
        });
        responses
            .flatten()
            .map(|r| (r.routing_context.0, r.status))
            .collect()
    }
}

/// RFC 4666, section 4.4.1
#[test]
fn registrations_have_every_result() {
    let mut bench = registering(RegistrationPolicy::NewKeys, 3);
    let success = RegistrationStatus::SUCCESS;
    // The configured key, a new one, and the same again.
    let keys = vec![key(1, 1001), key(2, 2000), key(3, 2000)];
    let already = (3, RegistrationStatus::ALREADY_REGISTERED, 2);
    assert_eq!(
        bench.register(keys),
        [(1, success, 1), (2, success, 2), already]
    );
    assert_eq!(bench.sgp.as_state(rc(2)), Some(AsState::Inactive));

    let mut overlapping = key(1, 2000);
    overlapping.destinations[0].service_indicators = vec![3];
    let mut change = key(2, 2000);
    change.routing_context = Some(rc(2));
    let mut mode = key(3, 3000);
    mode.traffic_mode = Some(TrafficMode(9));
    let mut long = key(4, 3000);
    long.destinations = (0..3)
        .map(|i| RoutingKeyDestination::all(code(3000 + i)))
        .collect();
    let results = bench.register(vec![overlapping, change, mode, long]);
    let expected = [
        (1, RegistrationStatus::NO_UNIQUE_ROUTING, 0),
        (2, RegistrationStatus::CHANGE_REFUSED, 0),
        (3, RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE, 0),
        (4, RegistrationStatus::INSUFFICIENT_RESOURCES, 0),
    ];
    assert_eq!(results, expected);
    let results = bench.register(vec![key(5, 3000), key(6, 4000)]);
    let full = (6, RegistrationStatus::INSUFFICIENT_RESOURCES, 0);
    assert_eq!(results, [(5, success, 3), full]);
}

/// RFC 4666, section 4.4.1
#[test]
fn registrations_follow_the_policy() {
    let mut bench = registering(RegistrationPolicy::ConfiguredKeys, 9);
    let mut other_mode = key(2, 1001);
    other_mode.traffic_mode = Some(TrafficMode::LOADSHARE);
    let results = bench.register(vec![key(1, 2000), other_mode, key(3, 1001)]);
    let expected = [
        (1, RegistrationStatus::NOT_PROVISIONED, 0),
        (2, RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE, 0),
        (3, RegistrationStatus::SUCCESS, 1),
    ];
    assert_eq!(results, expected);

    let mut bench = registering(RegistrationPolicy::Unsupported, 9);
    let routing_keys = vec![key(1, 1001)];
    bench.receive(
        1,
        &Message::RegistrationRequest(RegistrationRequest { routing_keys }),
    );
    let error = bench.sent_error(1, ErrorCode::UNSUPPORTED_MESSAGE_CLASS);
    assert!(
        error
            .diagnostic
            .is_some_and(|diagnostic| diagnostic.0.len() <= 40)
    );
}

/// RFC 4666, section 4.4.2
#[test]
fn deregistrations_have_every_result() {
    let mut bench = registering(RegistrationPolicy::NewKeys, 9);
    bench.register(vec![key(1, 2000), key(2, 3000)]);
    bench.receive(1, &active(None, &[3]));
    bench.drain();
    let expected = [
        (1, DeregistrationStatus::NOT_REGISTERED),
        (2, DeregistrationStatus::SUCCESS),
        (3, DeregistrationStatus::ASP_ACTIVE),
        (9, DeregistrationStatus::INVALID_ROUTING_CONTEXT),
    ];
    assert_eq!(bench.deregister(&[9, 3, 2, 1]), expected);
    // The application server of the registration is gone, its routing key is free.
    assert_eq!(bench.sgp.as_state(rc(2)), None);
    assert_eq!(
        bench.register(vec![key(1, 2000)]),
        [(1, RegistrationStatus::SUCCESS, 4)]
    );
    let request = DeregistrationRequest {
        routing_contexts: contexts(&[1]).expect("a context"),
    };
    bench.receive(0, &Message::DeregistrationRequest(request));
    let sent = bench.sent();
    let [(0, Message::DeregistrationResponse(response))] = &sent[..] else {
        panic!("no response: {sent:?}");
    };
    assert_eq!(
        response.results[0].status,
        DeregistrationStatus::PERMISSION_DENIED
    );
}

/// RFC 4666, section 4.3.4.2: ASP Down deregisters
/// RFC 4666, section 4.3.4.1: ASP Up in ASP-ACTIVE deregisters
#[test]
fn registrations_end_with_the_asp() {
    for message in [Message::AspDown(AspDown::default()), up(1)] {
        let mut bench = registering(RegistrationPolicy::NewKeys, 9);
        bench.register(vec![key(1, 2000), key(2, 1001)]);
        bench.receive(1, &active(None, &[2]));
        bench.drain();
        bench.receive(1, &message);
        assert_eq!(bench.sgp.as_state(rc(2)), None);
        assert_eq!(bench.sgp.asp_state(bench.asps[1], rc(1)), None);
        // The configured application server remains.
        assert_eq!(bench.sgp.as_state(rc(1)), Some(AsState::Inactive));
    }
}

/// RFC 4666, section 4.4.1: floods of registrations
#[test]
fn floods_of_registrations_are_bounded() {
    let mut bench = registering(RegistrationPolicy::NewKeys, 10_000);
    let results: Vec<_> = (0..12)
        .flat_map(|batch| {
            let keys = (0..1000).map(|index| key(index, 10_000 + batch * 1000 + index));
            bench.register(keys.collect())
        })
        .collect();
    let (registered, refused): (Vec<_>, Vec<_>) = results
        .iter()
        .partition(|(_, status, _)| *status == RegistrationStatus::SUCCESS);
    assert_eq!((registered.len(), refused.len()), (9_999, 2_001));
    let expected = RegistrationStatus::INSUFFICIENT_RESOURCES;
    assert!(refused.iter().all(|(_, status, _)| *status == expected));
    bench.receive(1, &Message::AspDown(AspDown::default()));
    assert_eq!(bench.sgp.as_state(rc(2)), None);
}

/// RFC 4666, section 4.2: NETWORK STATUS CHANGE and SEND FAILURE
#[test]
fn failed_paths_are_indicated_only() {
    let mut bench = Bench::new(TrafficMode::OVERRIDE, 1, 1);
    bench.up(0);
    bench.activate(0);
    bench.drain();
    let address = "192.0.2.1".parse().expect("an address");
    let path = |active| SctpNotification::PathStatus { address, active };
    for notification in [path(false), SctpNotification::SendFailure, path(true)] {
        bench
            .sgp
            .handle_sctp(bench.now, bench.asps[0], notification);
        let expected = SgpIndication::SctpStatus(bench.asps[0], notification);
        assert_eq!(bench.indications(), [expected]);
        assert_eq!(bench.as_state(), AsState::Active);
        assert_eq!(bench.sent(), []);
    }
}

/// RFC 4666, section 4.3.2: T(r) of several application servers
#[test]
fn next_timeout_is_the_earliest() {
    let servers = vec![server(1, None, 1), server(2, None, 1)];
    let mut bench = Bench::with(SgpConfig::default(), servers, 2);
    for (asp, context) in [(0, 1), (1, 2)] {
        bench.up(asp);
        bench.receive(asp, &active(None, &[context]));
    }
    let begin = bench.now;
    bench.lose(0);
    bench.advance(Duration::from_millis(500));
    bench.lose(1);
    assert_eq!(bench.sgp.poll_timeout(), Some(begin + T_RECOVERY));
    bench.advance(Duration::from_millis(1500));
    let rest = Duration::from_millis(500);
    assert_eq!(bench.sgp.poll_timeout(), Some(begin + T_RECOVERY + rest));
    bench
        .sgp
        .remove_application_server(bench.now, rc(2))
        .expect("an application server");
    assert_eq!(bench.sgp.poll_timeout(), None);
}

/// RFC 4666, section 1.4.2.4: default application server
#[test]
fn unmatched_traffic_has_a_default() {
    let of_network = ApplicationServerConfig {
        network_appearance: Some(NetworkAppearance(7)),
        ..server(2, None, 1)
    };
    for (default, networks) in [
        (None, &[][..]),
        (
            Some(rc(1)),
            &[None, Some(NetworkAppearance(7)), Some(NetworkAppearance(8))],
        ),
        (Some(rc(2)), &[Some(NetworkAppearance(7))]),
        (Some(rc(3)), &[]),
    ] {
        let config = SgpConfig {
            default_application_server: default,
            ..SgpConfig::default()
        };
        let servers = vec![server(1, None, 1), of_network.clone()];
        let mut bench = Bench::with(config, servers, 1);
        bench.up(0);
        bench.receive(0, &active(None, &[1, 2]));
        let mut unmatched = data(0, &[1]).protocol_data;
        unmatched.dpc = code(5);
        for network in [None, Some(NetworkAppearance(7)), Some(NetworkAppearance(8))] {
            let expected = match default.filter(|_| networks.contains(&network)) {
                Some(context) => Ok(context),
                None => Err(TransferError::NoRoutingKey),
            };
            let result = bench.sgp.transfer(network, unmatched.clone());
            assert_eq!(result, expected, "{default:?}, {network:?}");
        }
        // A routing key that matches has precedence.
        let mut matched = unmatched;
        matched.dpc = code(1001);
        assert_eq!(bench.sgp.transfer(None, matched), Ok(rc(1)));
    }
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
