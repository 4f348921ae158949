//! ASP's side of the procedures, in virtual time.

use std::time::Duration;

use carrick_proto::Time;
use carrick_sigtran::m3ua::asp::*;
use carrick_sigtran::m3ua::*;

use crate::samples::{affected, contexts, data};

const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 5,
};
const T_ACK: Duration = Duration::from_secs(2);

fn rc(value: u32) -> RoutingContext {
    RoutingContext(value)
}

/// ASP with what it sends and indicates.
struct Bench {
    asp: Asp,
    now: Time,
}

impl Bench {
    fn new(config: AspConfig) -> Self {
        let asp = Asp::new(config).expect("a valid configuration");
        let now = Time::from_millis(1000);
        Self { asp, now }
    }

    /// ASP with an established association that serves routing contexts 1 and 2.
    fn connected() -> Self {
        let mut bench = Self::new(AspConfig {
            identifier: Some(AspIdentifier(7)),
            application_servers: vec![
                AspApplicationServer::new(rc(1)),
                AspApplicationServer::new(rc(2)),
            ],
            ..AspConfig::default()
        });
        bench.asp.handle_sctp(bench.now, UP);
        bench.indications();
        bench
    }

    fn inactive() -> Self {
        let mut bench = Self::connected();
        bench.asp.asp_up(bench.now).expect("an association");
        bench.receive(&up_ack());
        assert_eq!(bench.states(), [AspState::Inactive; 2]);
        bench.drain();
        bench
    }

    fn active() -> Self {
        let mut bench = Self::inactive();
        bench
            .asp
            .asp_active(bench.now, &[])
            .expect("an ASP that is up");
        bench.receive(&active_ack(&[1, 2]));
        assert_eq!(bench.states(), [AspState::Active; 2]);
        bench.drain();
        bench
    }

    fn states(&self) -> [AspState; 2] {
        [1, 2].map(|context| self.asp.state(Some(rc(context))).expect("a served context"))
    }

    fn receive(&mut self, message: &Message) {
        self.receive_on(1, message);
    }

    fn receive_on(&mut self, stream: u16, message: &Message) {
        self.asp.handle_message(self.now, stream, message);
    }

    fn advance(&mut self, duration: Duration) {
        self.now += duration;
        self.asp.handle_timeout(self.now);
    }

    fn sent(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.asp.poll_transmit())
            .map(|transmit| transmit.message)
            .collect()
    }

    fn indications(&mut self) -> Vec<AspIndication> {
        std::iter::from_fn(|| self.asp.poll_indication()).collect()
    }

    fn drain(&mut self) {
        self.sent();
        self.indications();
    }

    /// Expects one Error message with this code; returns it.
    fn sent_error(&mut self, code: ErrorCode) -> ErrorMessage {
        let sent = self.sent();
        let [Message::Error(error)] = &sent[..] else {
            panic!("not one Error message: {sent:?}");
        };
        assert_eq!(error.code, code);
        error.clone()
    }
}

fn up() -> Message {
    Message::AspUp(AspUp {
        asp_identifier: Some(AspIdentifier(7)),
        info: None,
    })
}

fn up_ack() -> Message {
    Message::AspUpAck(AspUp::default())
}

fn down() -> Message {
    Message::AspDown(AspDown::default())
}

fn down_ack() -> Message {
    Message::AspDownAck(AspDown::default())
}

fn active_body(list: &[u32]) -> AspActive {
    AspActive {
        routing_contexts: contexts(list),
        ..AspActive::default()
    }
}

fn inactive_body(list: &[u32]) -> AspInactive {
    AspInactive {
        routing_contexts: contexts(list),
        info: None,
    }
}

fn active_ack(list: &[u32]) -> Message {
    Message::AspActiveAck(active_body(list))
}

fn inactive_ack(list: &[u32]) -> Message {
    Message::AspInactiveAck(inactive_body(list))
}

fn notify(status: Status, list: &[u32]) -> Notify {
    Notify {
        status,
        asp_identifier: None,
        routing_contexts: contexts(list),
        info: None,
    }
}

/// RFC 4666, section 4.3.1: ASP-DOWN to ASP-INACTIVE
/// RFC 4666, section 4.3.4.1
#[test]
fn asp_up_ack_leads_to_asp_inactive() {
    let mut bench = Bench::connected();
    assert_eq!(bench.states(), [AspState::Down; 2]);
    bench.asp.asp_up(bench.now).expect("an association");
    assert_eq!(bench.sent(), [up()]);
    bench.receive(&up_ack());
    assert_eq!(bench.states(), [AspState::Inactive; 2]);
    let indications = bench.indications();
    assert!(
        indications.contains(&AspIndication::AspUp(Ok(()))),
        "{indications:?}"
    );
    assert_eq!(bench.asp.poll_timeout(), None);
    assert_eq!(bench.sent(), []);
}

/// RFC 4666, section 4.3.1: ASP-INACTIVE to ASP-ACTIVE
/// RFC 4666, section 4.3.4.3
#[test]
fn asp_active_ack_leads_to_asp_active() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .asp_active(bench.now, &[rc(2)])
        .expect("an ASP that is up");
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[2]))]);
    bench.receive(&active_ack(&[2]));
    assert_eq!(bench.states(), [AspState::Inactive, AspState::Active]);
    let indications = bench.indications();
    assert!(indications.contains(&AspIndication::AspActive(Some(rc(2)), Ok(()))));
}

/// RFC 4666, section 4.3.4.3: several acknowledgements of one request
#[test]
fn acknowledgements_may_be_split() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[1, 2]))]);
    bench.receive(&active_ack(&[1]));
    assert_eq!(bench.states(), [AspState::Active, AspState::Inactive]);
    // Only the rest is requested again.
    bench.advance(T_ACK);
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[2]))]);
    bench.receive(&active_ack(&[2]));
    assert_eq!(bench.states(), [AspState::Active; 2]);
    assert_eq!(bench.asp.poll_timeout(), None);
}

/// RFC 4666, section 4.3.4.3: one traffic mode in a message
#[test]
fn each_traffic_mode_has_its_message() {
    let mode = |context, mode| AspApplicationServer {
        traffic_mode: Some(mode),
        ..AspApplicationServer::new(rc(context))
    };
    let mut bench = Bench::new(AspConfig {
        application_servers: vec![
            mode(1, TrafficMode::LOADSHARE),
            mode(2, TrafficMode::OVERRIDE),
            mode(3, TrafficMode::LOADSHARE),
        ],
        ..AspConfig::default()
    });
    bench.asp.handle_sctp(bench.now, UP);
    bench.asp.asp_up(bench.now).expect("an association");
    bench.receive(&up_ack());
    bench.sent();
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    let expected = [
        (TrafficMode::OVERRIDE, &[2][..]),
        (TrafficMode::LOADSHARE, &[1, 3]),
    ];
    let expected = expected.map(|(mode, list)| {
        Message::AspActive(AspActive {
            traffic_mode: Some(mode),
            ..active_body(list)
        })
    });
    assert_eq!(bench.sent(), expected);
}

/// RFC 4666, section 4.3.1: ASP-ACTIVE to ASP-INACTIVE
/// RFC 4666, section 4.3.4.4
#[test]
fn asp_inactive_ack_leads_to_asp_inactive() {
    let mut bench = Bench::active();
    bench
        .asp
        .asp_inactive(bench.now, &[rc(1)])
        .expect("an ASP that is up");
    assert_eq!(bench.sent(), [Message::AspInactive(inactive_body(&[1]))]);
    bench.receive(&inactive_ack(&[1]));
    assert_eq!(bench.states(), [AspState::Inactive, AspState::Active]);
    let indications = bench.indications();
    assert!(indications.contains(&AspIndication::AspInactive(Some(rc(1)), Ok(()))));
    assert_eq!(bench.sent(), []);
}

/// RFC 4666, section 4.3.1: ASP-ACTIVE to ASP-INACTIVE, another ASP overrides
/// RFC 4666, section 4.3.4.3
#[test]
fn alternate_asp_leads_to_asp_inactive() {
    let mut bench = Bench::active();
    let notify = notify(Status::AlternateAspActive, &[1]);
    bench.receive(&Message::Notify(notify.clone()));
    assert_eq!(bench.states(), [AspState::Inactive, AspState::Active]);
    assert!(bench.indications().contains(&AspIndication::Notify(notify)));
    // The ASP does not override in its turn.
    assert_eq!(bench.sent(), []);
    bench.receive(&up_ack());
    let sent = bench.sent();
    assert_eq!(sent[1..], [Message::AspActive(active_body(&[2]))]);
}

/// RFC 4666, section 4.3.1: ASP-INACTIVE to ASP-DOWN
/// RFC 4666, section 4.3.4.2
#[test]
fn asp_down_ack_leads_to_asp_down() {
    for mut bench in [Bench::inactive(), Bench::active()] {
        bench.asp.asp_down(bench.now).expect("an association");
        assert_eq!(bench.sent(), [down()]);
        bench.receive(&down_ack());
        assert_eq!(bench.states(), [AspState::Down; 2]);
        assert!(!bench.asp.is_up());
        assert!(
            bench
                .indications()
                .contains(&AspIndication::AspDown(Ok(())))
        );
        assert_eq!(bench.asp.poll_timeout(), None);
        assert_eq!(bench.sent(), []);
    }
}

/// RFC 4666, section 4.3.1: SCTP CDI and SCTP RI
/// RFC 4666, section 4.3.3
#[test]
fn lost_association_leads_to_asp_down() {
    let restarted = SctpNotification::Restarted {
        outbound_streams: 3,
    };
    for notification in [SctpNotification::Down, restarted] {
        let mut bench = Bench::active();
        bench.asp.handle_sctp(bench.now, notification);
        assert_eq!(bench.states(), [AspState::Down; 2]);
        let indications = bench.indications();
        assert_eq!(indications[0], AspIndication::SctpStatus(notification));
        let paused: Vec<_> = indications
            .iter()
            .filter_map(|indication| match indication {
                AspIndication::MtpPause(pause) => Some(pause.routing_contexts.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(paused, [contexts(&[1]), contexts(&[2])]);
        if notification == SctpNotification::Down {
            assert_eq!(bench.sent(), []);
            let error = bench.asp.asp_up(bench.now);
            assert_eq!(error, Err(AspRequestError::NoAssociation));
            bench.asp.handle_sctp(bench.now, UP);
        }
        // Recovery begins with the ASP Up procedure and ends in the previous state.
        assert_eq!(bench.sent(), [up()]);
        bench.receive(&up_ack());
        assert_eq!(bench.sent(), [Message::AspActive(active_body(&[1, 2]))]);
        bench.receive(&active_ack(&[1, 2]));
        assert_eq!(bench.states(), [AspState::Active; 2]);
    }
}

/// RFC 4666, section 4.3.4.1: T(ack)
#[test]
fn asp_up_is_repeated_until_it_fails() {
    let mut bench = Bench::connected();
    bench.asp.asp_up(bench.now).expect("an association");
    assert_eq!(bench.asp.poll_timeout(), Some(bench.now + T_ACK));
    bench.sent();
    bench.advance(Duration::from_millis(1999));
    assert_eq!(bench.sent(), []);
    bench.advance(Duration::from_millis(1));
    assert_eq!(bench.sent(), [up()]);
    for _ in 0..3 {
        bench.advance(T_ACK);
        assert_eq!(bench.sent(), [up()]);
    }
    assert_eq!(bench.indications(), []);
    bench.advance(T_ACK);
    assert_eq!(bench.sent(), []);
    let failed = AspIndication::AspUp(Err(RequestFailure::TimedOut));
    assert_eq!(bench.indications(), [failed]);
    assert_eq!(bench.asp.poll_timeout(), None);
}

/// RFC 4666, section 4.3.4.2: T(ack)
/// RFC 4666, section 4.3.4.4: T(ack)
#[test]
fn other_requests_are_repeated_until_they_fail() {
    let mut bench = Bench::active();
    bench
        .asp
        .asp_inactive(bench.now, &[rc(1)])
        .expect("an ASP that is up");
    for _ in 0..4 {
        assert_eq!(bench.sent(), [Message::AspInactive(inactive_body(&[1]))]);
        bench.advance(T_ACK);
    }
    bench.drain();
    bench.advance(T_ACK);
    let failure = Err(RequestFailure::TimedOut);
    assert_eq!(
        bench.indications(),
        [AspIndication::AspInactive(Some(rc(1)), failure)]
    );
    bench.asp.asp_down(bench.now).expect("an association");
    for _ in 0..5 {
        assert_eq!(bench.sent(), [down()]);
        bench.advance(T_ACK);
    }
    assert_eq!(bench.indications(), [AspIndication::AspDown(failure)]);
}

/// RFC 4666, section 4.3.4.1: unexpected ASP Up Ack
#[test]
fn unexpected_asp_up_ack_is_answered() {
    let mut bench = Bench::inactive();
    bench.receive(&up_ack());
    assert_eq!((bench.sent(), bench.indications()), (vec![], vec![]));

    let mut bench = Bench::active();
    bench.receive(&up_ack());
    assert_eq!(bench.states(), [AspState::Inactive; 2]);
    let sent = bench.sent();
    assert!(matches!(&sent[0], Message::Error(e) if e.code == ErrorCode::UNEXPECTED_MESSAGE));
    assert_eq!(sent[1..], [Message::AspActive(active_body(&[1, 2]))]);

    let mut bench = Bench::connected();
    bench.receive(&up_ack());
    let sent = bench.sent();
    assert!(matches!(&sent[0], Message::Error(e) if e.code == ErrorCode::UNEXPECTED_MESSAGE));
    assert_eq!(sent[1..], [down()]);
}

/// RFC 4666, section 4.3.4.2: unexpected ASP Down Ack
#[test]
fn unexpected_asp_down_ack_leads_back() {
    let mut bench = Bench::active();
    bench.receive(&down_ack());
    assert_eq!(bench.states(), [AspState::Down; 2]);
    assert_eq!(bench.sent(), [up()]);
    bench.receive(&up_ack());
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[1, 2]))]);
    // In ASP-DOWN it changes nothing.
    let mut bench = Bench::connected();
    bench.receive(&down_ack());
    assert_eq!((bench.sent(), bench.indications()), (vec![], vec![]));
}

/// RFC 4666, section 4.3.4.4: unexpected ASP Inactive Ack
#[test]
fn unexpected_asp_inactive_ack_leads_back() {
    let mut bench = Bench::active();
    bench.receive(&inactive_ack(&[2]));
    assert_eq!(bench.states(), [AspState::Active, AspState::Inactive]);
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[2]))]);
}

/// RFC 4666, section 4.3.4.3: the acknowledgement of a repeated request
#[test]
fn last_acknowledgement_determines_the_state() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    // The request is sent again; another ASP overrides between the two at the SGP.
    bench.advance(T_ACK);
    assert_eq!(bench.sent().len(), 2);
    bench.receive(&active_ack(&[1, 2]));
    bench.receive(&Message::Notify(notify(
        Status::AlternateAspActive,
        &[1, 2],
    )));
    assert_eq!(bench.states(), [AspState::Inactive; 2]);
    bench.receive(&active_ack(&[1, 2]));
    assert_eq!(bench.states(), [AspState::Active; 2]);
    assert_eq!(bench.sent(), []);
}

/// RFC 4666, section 4.3.4.3
#[test]
fn unwanted_activation_is_ended() {
    let mut bench = Bench::inactive();
    bench.receive(&active_ack(&[2]));
    assert_eq!(bench.states(), [AspState::Inactive, AspState::Active]);
    assert_eq!(bench.sent(), [Message::AspInactive(inactive_body(&[2]))]);
}

#[test]
fn repeated_requests_have_one_confirm() {
    let mut bench = Bench::connected();
    for _ in 0..2 {
        bench.asp.asp_up(bench.now).expect("an association");
    }
    assert_eq!(bench.sent(), [up()]);
    bench.receive(&up_ack());
    for _ in 0..2 {
        bench
            .asp
            .asp_active(bench.now, &[rc(1)])
            .expect("an ASP that is up");
    }
    assert_eq!(bench.sent(), [Message::AspActive(active_body(&[1]))]);
    bench.receive(&active_ack(&[1]));
    let confirms = bench.indications();
    let confirm = AspIndication::AspActive(Some(rc(1)), Ok(()));
    assert_eq!(
        confirms
            .iter()
            .filter(|indication| **indication == confirm)
            .count(),
        1
    );
}

/// RFC 4666, section 3.8.1: Refused - Management Blocking
#[test]
fn refused_requests_fail() {
    let refusal = |code| Message::Error(ErrorMessage::new(code));
    let mut bench = Bench::connected();
    bench.asp.asp_up(bench.now).expect("an association");
    bench.sent();
    bench.receive(&refusal(ErrorCode::MANAGEMENT_BLOCKING));
    let failure = Err(RequestFailure::Refused(ErrorCode::MANAGEMENT_BLOCKING));
    assert_eq!(bench.indications()[0], AspIndication::AspUp(failure));
    assert_eq!(bench.asp.poll_timeout(), None);

    let mut bench = Bench::inactive();
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    bench.receive(&Message::Error(ErrorMessage {
        routing_contexts: contexts(&[2]),
        ..ErrorMessage::new(ErrorCode::NO_CONFIGURED_AS)
    }));
    let failure = Err(RequestFailure::Refused(ErrorCode::NO_CONFIGURED_AS));
    assert_eq!(
        bench.indications()[0],
        AspIndication::AspActive(Some(rc(2)), failure)
    );
    bench.receive(&active_ack(&[1]));
    assert_eq!(bench.states(), [AspState::Active, AspState::Inactive]);
    assert_eq!(bench.asp.poll_timeout(), None);
}

/// RFC 4666, section 3.8.1: the diagnostic information names the offending message
#[test]
fn errors_about_other_messages_end_no_request() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    bench.drain();
    let octets = Message::Data(data(1, &[1])).encode().expect("a DATA");
    let error = ErrorMessage {
        diagnostic: Some(DiagnosticInformation(octets)),
        ..ErrorMessage::new(ErrorCode::INVALID_ROUTING_CONTEXT)
    };
    bench.receive(&Message::Error(error.clone()));
    assert_eq!(bench.indications(), [AspIndication::Error(error)]);
    // An Error message is not answered.
    assert_eq!(bench.sent(), []);
    bench.receive(&active_ack(&[1, 2]));
    assert_eq!(bench.states(), [AspState::Active; 2]);
}

/// RFC 4666, section 4.3.4.1: Unexpected Message beside an ASP Up Ack
#[test]
fn unexpected_message_error_does_not_end_asp_up() {
    let mut bench = Bench::connected();
    bench.asp.asp_up(bench.now).expect("an association");
    bench.receive(&Message::Error(ErrorMessage::new(
        ErrorCode::UNEXPECTED_MESSAGE,
    )));
    bench.receive(&up_ack());
    assert_eq!(bench.states(), [AspState::Inactive; 2]);
}

/// RFC 4666, section 4.3.4.6
#[test]
fn heartbeats_are_answered_in_any_state() {
    for mut bench in [Bench::connected(), Bench::inactive(), Bench::active()] {
        let beat = Heartbeat::new(b"beat").expect("a short heartbeat");
        bench.receive(&Message::Heartbeat(beat.clone()));
        assert_eq!(bench.sent(), [Message::HeartbeatAck(beat)]);
    }
}

/// RFC 4666, section 4.3.4.6: 2 × T(beat)
#[test]
fn silent_peer_is_unresponsive() {
    let t_beat = Duration::from_secs(10);
    let mut bench = Bench::new(AspConfig {
        t_beat: Some(t_beat),
        ..AspConfig::default()
    });
    bench.asp.handle_sctp(bench.now, UP);
    bench.indications();
    bench.advance(t_beat);
    let sent = bench.sent();
    let [Message::Heartbeat(beat)] = &sent[..] else {
        panic!("no BEAT: {sent:?}");
    };
    bench.receive(&Message::HeartbeatAck(beat.clone()));
    bench.advance(t_beat);
    assert!(matches!(bench.sent()[..], [Message::Heartbeat(_)]));
    assert_eq!(bench.indications(), []);
    bench.advance(t_beat);
    assert_eq!(bench.indications()[..1], [AspIndication::PeerUnresponsive]);
    assert_eq!((bench.sent(), bench.asp.poll_timeout()), (vec![], None));
}

/// RFC 4666, section 4.1.1
/// RFC 4666, section 1.4.7
#[test]
fn messages_of_an_sls_use_one_stream() {
    let mut bench = Bench::active();
    for sls in 0..16 {
        let protocol_data = data(sls, &[sls]).protocol_data;
        bench
            .asp
            .transfer(Some(rc(1)), protocol_data.clone())
            .expect("an active ASP");
        let transmit = bench.asp.poll_transmit().expect("a DATA");
        assert_eq!(transmit.stream, 1 + u16::from(sls) % 4);
        assert_eq!(transmit.message, Message::Data(data(sls, &[sls])));
    }
    bench.receive(&Message::Data(data(3, &[1, 2])));
    assert_eq!(
        bench.indications(),
        [AspIndication::Transfer(data(3, &[1, 2]))]
    );
}

/// RFC 4666, section 4.3.1
#[test]
fn traffic_needs_asp_active() {
    let mut bench = Bench::inactive();
    let protocol_data = data(0, &[]).protocol_data;
    let mut transfer = |context| bench.asp.transfer(context, protocol_data.clone());
    assert_eq!(transfer(Some(rc(1))), Err(AspRequestError::NotActive));
    let unknown = AspRequestError::UnknownApplicationServer(Some(rc(9)));
    assert_eq!(transfer(Some(rc(9))), Err(unknown));
    let mut bench = Bench::connected();
    assert_eq!(
        bench.asp.asp_active(bench.now, &[]),
        Err(AspRequestError::NotUp)
    );
}

/// RFC 4666, section 1.4.7: DATA is not sent on stream 0
#[test]
fn data_needs_a_second_stream() {
    let mut bench = Bench::connected();
    let one = SctpNotification::Up {
        outbound_streams: 1,
    };
    bench.asp.handle_sctp(bench.now, one);
    bench.asp.asp_up(bench.now).expect("an association");
    bench.receive(&up_ack());
    bench
        .asp
        .asp_active(bench.now, &[])
        .expect("an ASP that is up");
    bench.receive(&active_ack(&[1, 2]));
    let error = bench.asp.transfer(Some(rc(1)), data(0, &[]).protocol_data);
    assert_eq!(error, Err(AspRequestError::NoDataStream));
}

/// RFC 4666, section 3.8.1: Unexpected Message; DATA is discarded silently
#[test]
fn data_in_asp_inactive_is_discarded() {
    for mut bench in [Bench::connected(), Bench::inactive()] {
        bench.receive(&Message::Data(data(1, &[])));
        assert_eq!((bench.sent(), bench.indications()), (vec![], vec![]));
    }
}

/// RFC 4666, section 3.8.1
#[test]
fn wrong_data_is_answered() {
    let mut bench = Bench::active();
    bench.receive_on(0, &Message::Data(data(1, &[])));
    bench.sent_error(ErrorCode::INVALID_STREAM_IDENTIFIER);
    let mut wrong = data(1, &[]);
    wrong.routing_context = Some(rc(9));
    bench.receive(&Message::Data(wrong.clone()));
    let error = bench.sent_error(ErrorCode::INVALID_ROUTING_CONTEXT);
    assert_eq!(error.routing_contexts, contexts(&[9]));
    wrong.routing_context = None;
    bench.receive(&Message::Data(wrong));
    bench.sent_error(ErrorCode::MISSING_PARAMETER);
}

/// RFC 4666, section 3.8.1: Unexpected Message
#[test]
fn messages_for_an_sgp_are_answered() {
    let messages = [
        up(),
        down(),
        Message::AspActive(active_body(&[1])),
        Message::AspInactive(inactive_body(&[1])),
        Message::DestinationStateAudit(DestinationState {
            network_appearance: None,
            routing_contexts: contexts(&[1]),
            affected: affected(),
            info: None,
        }),
        Message::DeregistrationRequest(DeregistrationRequest {
            routing_contexts: contexts(&[1]).expect("one context"),
        }),
    ];
    for message in messages {
        let mut bench = Bench::active();
        bench.receive(&message);
        let error = bench.sent_error(ErrorCode::UNEXPECTED_MESSAGE);
        assert_eq!(error.routing_contexts, message.routing_contexts());
        assert_eq!(bench.states(), [AspState::Active; 2]);
    }
}

/// RFC 4666, section 4.5.2.1
#[test]
fn destination_states_are_indicated() {
    let mut bench = Bench::active();
    let state = DestinationState {
        network_appearance: None,
        routing_contexts: contexts(&[1]),
        affected: affected(),
        info: None,
    };
    bench.receive(&Message::DestinationUnavailable(state.clone()));
    bench.receive(&Message::DestinationRestricted(state.clone()));
    bench.receive(&Message::DestinationAvailable(state.clone()));
    let expected = [
        AspIndication::MtpPause(state.clone()),
        AspIndication::Restricted(state.clone()),
        AspIndication::MtpResume(state.clone()),
    ];
    assert_eq!(bench.indications(), expected);
    bench.receive(&Message::DestinationAvailable(DestinationState {
        routing_contexts: contexts(&[1, 9]),
        ..state
    }));
    let error = bench.sent_error(ErrorCode::INVALID_ROUTING_CONTEXT);
    assert_eq!(error.routing_contexts, contexts(&[9]));
}

/// RFC 4666, section 4.5.3
#[test]
fn audit_is_sent_unordered() {
    let mut bench = Bench::active();
    bench
        .asp
        .audit(Some(rc(2)), affected())
        .expect("an active ASP");
    let transmit = bench.asp.poll_transmit().expect("a DAUD");
    assert!(transmit.unordered);
    let Message::DestinationStateAudit(audit) = transmit.message else {
        panic!("no DAUD");
    };
    assert_eq!(
        (audit.affected, audit.routing_contexts),
        (affected(), contexts(&[2]))
    );
}

fn key(id: u32) -> RoutingKey {
    RoutingKey {
        local_id: LocalRoutingKeyIdentifier(id),
        routing_context: None,
        traffic_mode: None,
        network_appearance: None,
        destinations: vec![RoutingKeyDestination::all(crate::samples::code(id))],
    }
}

fn registration(id: u32, status: RegistrationStatus, context: u32) -> RegistrationResult {
    RegistrationResult {
        local_id: LocalRoutingKeyIdentifier(id),
        status,
        routing_context: rc(context),
    }
}

/// RFC 4666, section 4.4.1
/// RFC 4666, section 4.4.2
#[test]
fn registered_keys_are_served_until_deregistration() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .register(bench.now, vec![key(10), key(11)])
        .expect("an ASP that is up");
    assert!(matches!(
        bench.sent()[..],
        [Message::RegistrationRequest(_)]
    ));
    let in_use = bench.asp.register(bench.now, vec![key(10)]);
    assert_eq!(in_use, Err(AspRequestError::IdentifierInUse(10)));
    bench.receive(&Message::RegistrationResponse(RegistrationResponse {
        results: vec![
            registration(11, RegistrationStatus::PERMISSION_DENIED, 0),
            registration(10, RegistrationStatus::SUCCESS, 50),
        ],
    }));
    let denied = Err(Some(RegistrationStatus::PERMISSION_DENIED));
    let indications = bench.indications();
    let expected = [
        AspIndication::Registered(LocalRoutingKeyIdentifier(11), denied),
        AspIndication::Registered(LocalRoutingKeyIdentifier(10), Ok(rc(50))),
    ];
    assert!(
        expected
            .iter()
            .all(|indication| indications.contains(indication))
    );
    assert_eq!(bench.asp.state(Some(rc(50))), Some(AspState::Inactive));
    assert_eq!(bench.asp.poll_timeout(), None);

    let list = contexts(&[50]).expect("one context");
    bench
        .asp
        .deregister(bench.now, list)
        .expect("a served context");
    assert!(matches!(
        bench.sent()[..],
        [Message::DeregistrationRequest(_)]
    ));
    let result = DeregistrationResult {
        routing_context: rc(50),
        status: DeregistrationStatus::SUCCESS,
    };
    bench.receive(&Message::DeregistrationResponse(DeregistrationResponse {
        results: vec![result],
    }));
    assert!(
        bench
            .indications()
            .contains(&AspIndication::Deregistered(result))
    );
    assert_eq!(bench.asp.state(Some(rc(50))), None);
}

#[test]
fn registrations_without_response_fail() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .register(bench.now, vec![key(10)])
        .expect("an ASP that is up");
    bench.advance(T_ACK * 5);
    let failed = AspIndication::Registered(LocalRoutingKeyIdentifier(10), Err(None));
    assert_eq!(bench.indications(), [failed]);
    let keys = (0..1023).map(key).collect();
    let error = bench.asp.register(bench.now, keys);
    assert_eq!(error, Err(AspRequestError::TooManyRegistrations(1024)));
}

/// RFC 4666, section 4.3.4.2: ASP Down deregisters
#[test]
fn registrations_end_with_asp_down() {
    let mut bench = Bench::inactive();
    bench
        .asp
        .register(bench.now, vec![key(10)])
        .expect("an ASP that is up");
    let results = vec![registration(10, RegistrationStatus::SUCCESS, 50)];
    bench.receive(&Message::RegistrationResponse(RegistrationResponse {
        results,
    }));
    bench.asp.asp_down(bench.now).expect("an association");
    bench.receive(&down_ack());
    assert_eq!(bench.asp.state(Some(rc(50))), None);
    assert_eq!(bench.asp.routing_contexts().count(), 2);
}

/// RFC 4666, section 4.8
#[test]
fn other_version_is_answered() {
    let mut bench = Bench::connected();
    let octets = bytes::Bytes::from_static(&[9, 0, 3, 4, 0, 0, 0, 8]);
    let error = Message::decode(&octets).expect_err("version 9");
    bench.asp.handle_malformed(bench.now, &error, &octets);
    let answer = bench.sent_error(ErrorCode::INVALID_VERSION);
    assert_eq!(bench.indications(), [AspIndication::PeerError(answer)]);
}

#[test]
fn contradictory_configurations_are_refused() {
    let server = AspApplicationServer::new(rc(1));
    let config = |application_servers| AspConfig {
        application_servers,
        ..AspConfig::default()
    };
    let error = Asp::new(config(vec![server, server])).expect_err("a repeated context");
    assert_eq!(error, AspConfigError::IdentifierRepeated(rc(1)));
    let plain = AspApplicationServer {
        routing_context: None,
        ..server
    };
    let error = Asp::new(config(vec![server, plain])).expect_err("a missing context");
    assert_eq!(error, AspConfigError::IdentifierMissing);
    let many = (0..1025).map(|context| AspApplicationServer::new(rc(context)));
    let error = Asp::new(config(many.collect())).expect_err("too many contexts");
    assert!(matches!(error, AspConfigError::TooMany { count: 1025, .. }));
}

/// RFC 4666, section 4.2: NETWORK STATUS CHANGE and SEND FAILURE
#[test]
fn failed_paths_are_indicated_only() {
    let mut bench = Bench::active();
    let address = "192.0.2.1".parse().expect("an address");
    let path = |active| SctpNotification::PathStatus { address, active };
    for notification in [path(false), SctpNotification::SendFailure, path(true)] {
        bench.asp.handle_sctp(bench.now, notification);
        assert_eq!(
            bench.indications(),
            [AspIndication::SctpStatus(notification)]
        );
        assert_eq!(bench.states(), [AspState::Active; 2]);
        assert_eq!(bench.sent(), []);
    }
}
