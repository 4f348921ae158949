//! SUA above the states of ASPs: routing by addresses, labels, registration, destinations and subsystems.

use carrick_proto::Time;
use carrick_sigtran::aspm::asp::AspEvent;
use carrick_sigtran::aspm::sgp::DeliveryError;
use carrick_sigtran::m3ua::route::DestinationEvent;
use carrick_sigtran::sua::asp::*;
use carrick_sigtran::sua::sgp::*;
use carrick_sigtran::sua::*;

use crate::states::{Pair, cldt};

const NOW: Time = Time::ZERO;

fn code(value: u32) -> PointCode {
    PointCode::new(value).expect("a point code")
}

pub(super) fn title(digits: &str) -> GlobalTitle {
    GlobalTitle {
        indicator: 4,
        translation_type: 0,
        numbering_plan: 1,
        nature_of_address: 4,
        digits: AddressSignals::new(digits).expect("digits"),
    }
}

pub(super) fn gt(digits: &str) -> Address {
    Address::global_title(title(digits), SubsystemNumber(8))
}

/// Address on a global title, without a subsystem number.
pub(super) fn gt_only(digits: &str) -> Address {
    let mut address = gt(digits);
    address.route = Route::GlobalTitle {
        global_title: title(digits),
        point_code: None,
        ssn: None,
    };
    address
}

pub(super) fn to(destination: Address) -> Message {
    Message::ConnectionlessDataTransfer(ConnectionlessDataTransfer {
        destination: DestinationAddress(destination),
        ..cldt(1)
    })
}

pub(super) fn server(context: u32, destinations: Destinations) -> ApplicationServerConfig {
    ApplicationServerConfig::new(RoutingContext(context), destinations)
}

/// Returns the messages of the user and the states that an ASP has received.
pub(super) fn received(pair: &mut Pair<Sua>, asp: usize) -> Vec<Message> {
    let indications = pair.indications(asp).into_iter();
    let messages = indications.filter_map(|indication| match indication {
        AspIndication::Traffic(_, message) | AspIndication::State(message) => Some(*message),
        AspIndication::Asp(_) => None,
    });
    messages.collect()
}

pub(super) fn served(context: u32) -> AspApplicationServer {
    AspApplicationServer::new(RoutingContext(context))
}

/// RFC 3868, sections 1.4.2.2 and 3.10.14
#[test]
fn messages_are_routed_by_addresses() {
    let range = |first, last| Destinations::Ranges(vec![[gt_only(first), gt_only(last)]]);
    let servers = vec![
        server(1, Destinations::Address(gt("4917012"))),
        server(2, range("4917000", "4917099")),
        server(
            3,
            Destinations::Address(Address::point_code(code(7), SubsystemNumber(6))),
        ),
        server(4, Destinations::Unrouted),
    ];
    let mut gateway = Pair::new(SgpConfig::default(), servers).gateway;
    let route = |gateway: &SignallingGatewayProcess, address| {
        gateway.route(None, &address).map(|context| context.0)
    };
    assert_eq!(route(&gateway, gt("4917012")), Some(1));
    assert_eq!(route(&gateway, gt("4917013")), Some(2));
    assert_eq!(route(&gateway, gt_only("4917012")), Some(2));
    assert_eq!(
        route(&gateway, gt("49170125")),
        None,
        "another number of digits"
    );
    let point = |number, ssn| Address::point_code(code(number), SubsystemNumber(ssn));
    assert_eq!(route(&gateway, point(7, 6)), Some(3));
    assert_eq!(route(&gateway, point(7, 8)), None);
    assert_eq!(route(&gateway, point(8, 6)), None);
    let overlapping = server(5, range("4917050", "4917200"));
    let refused = gateway.add_application_server(overlapping);
    assert_eq!(
        refused,
        Err(SgpConfigError::OverlappingKey(RoutingContext(2)))
    );
    let reversed = gateway.add_application_server(server(6, range("4917300", "4917200")));
    assert_eq!(
        reversed,
        Err(SgpConfigError::OverlappingKey(RoutingContext(6)))
    );
    gateway
        .remove_application_server(NOW, RoutingContext(2))
        .expect("removed");
    assert_eq!(route(&gateway, gt("4917013")), None);
    assert_eq!(
        gateway.transfer(None, to(gt("1"))),
        Err(TransferError::NoRoutingKey)
    );
}

/// RFC 3868, section 3.1: the routing context is that of the application server
#[test]
fn traffic_passes_in_both_directions() {
    let mut pair = Pair::new(
        SgpConfig::default(),
        vec![server(3, Destinations::Address(gt("49")))],
    );
    let asp = pair.add(vec![served(3)]);
    assert_eq!(
        pair.gateway.transfer(None, to(gt("49"))),
        Ok(RoutingContext(3))
    );
    pair.run();
    let received = received(&mut pair, asp);
    let contexts: Vec<_> = received.iter().map(Message::routing_context).collect();
    assert_eq!(contexts, [Some(RoutingContext(3))]);
    let message = Message::ConnectionlessDataTransfer(cldt(3));
    let sent = pair.asps[asp].1.transfer(message.clone());
    sent.expect("an active ASP");
    pair.run();
    let (key, _) = pair.asps[asp];
    let expected = SgpIndication::Traffic(key, RoutingContext(3), Box::new(message));
    assert_eq!(pair.requests().last(), Some(&expected));
    let unknown = Message::ConnectionlessDataTransfer(cldt(4));
    assert!(pair.asps[asp].1.transfer(unknown).is_err());
}

fn labelled(context: u32, label: u16) -> AspApplicationServer {
    let position = LabelPosition { start: 23, end: 20 };
    let tid = LabelPosition { start: 31, end: 28 };
    AspApplicationServer {
        traffic_mode: Some(TrafficMode::LOADSHARE),
        labels: Labels {
            tid: Some(TidLabel {
                position: tid,
                label,
            }),
            drn: Some(DrnLabel { position, label }),
        },
        ..served(context)
    }
}

/// RFC 3868, sections 4.7.2.1 and 4.7.3
#[test]
fn labels_select_the_asp() {
    let mut pair = Pair::new(
        SgpConfig::default(),
        vec![server(1, Destinations::Unrouted)],
    );
    let first = pair.add(vec![labelled(1, 1)]);
    let second = pair.add(vec![labelled(1, 2)]);
    // The label of the third one is in use.
    let third = pair.add(vec![labelled(1, 2)]);
    let state = pair.asps[third].1.state(Some(RoutingContext(1)));
    assert_eq!(state, Some(AspState::Inactive));
    let refusal = RequestFailure::Refused(ErrorCode::INVALID_LOADSHARING_LABEL);
    let confirm = AspEvent::AspActive(Some(RoutingContext(1)), Err(refusal));
    assert!(
        pair.indications(third)
            .contains(&AspIndication::Asp(confirm))
    );

    // Continue with originating and destination transaction identifiers.
    let tcap = |label: u8| {
        let octets = [0x65, 9, 0x48, 1, 9, 0x49, 4, label << 4, 0, 0, 7];
        let data = UserData(octets.to_vec().into());
        Message::ConnectionlessDataTransfer(ConnectionlessDataTransfer { data, ..cldt(1) })
    };
    let released = |label: u32| {
        Message::ReleaseRequest(ReleaseRequest {
            routing_context: RoutingContext(1),
            destination_reference: DestinationReferenceNumber(label << 20 | 5),
            source_reference: SourceReferenceNumber(6),
            cause: ReleaseCause::END_USER,
            importance: None,
            data: None,
        })
    };
    for (asp, label) in [(first, 1), (second, 2), (first, 1)] {
        for message in [tcap(label), released(label.into())] {
            let context = RoutingContext(1);
            pair.gateway
                .transfer_to(context, message.clone())
                .expect("sent");
            pair.run();
            assert_eq!(received(&mut pair, asp), [message]);
        }
    }
    // No ASP has the label, and the message is discarded (section 4.7.3.2).
    let discarded = pair.gateway.transfer_to(RoutingContext(1), tcap(3));
    let expected = TransferError::Delivery(DeliveryError::NoLabel);
    assert_eq!(discarded, Err(expected));
    // Messages without an identifier are shared.
    for _ in 0..2 {
        let message = Message::ConnectionlessDataTransfer(cldt(1));
        pair.gateway
            .transfer_to(RoutingContext(1), message)
            .expect("sent");
    }
    pair.run();
    assert_eq!(
        received(&mut pair, first).len() + received(&mut pair, second).len(),
        2
    );
}

/// RFC 3868, sections 3.9.22 and 4.4.1
#[test]
fn registrations_have_every_result() {
    let config = SgpConfig {
        registration: RegistrationPolicy::NewKeys,
        max_application_servers: 2,
        ..SgpConfig::default()
    };
    let mut pair = Pair::new(config, vec![server(9, Destinations::Address(gt("1")))]);
    let asp = pair.add(Vec::new());
    let key = |id, destination: Option<Address>| RoutingKey {
        local_id: LocalRoutingKeyIdentifier(id),
        traffic_mode: None,
        network_appearance: None,
        source: None,
        destination: destination.map(DestinationAddress),
        range: None,
    };
    let ranges = |range: AddressRange| RoutingKey {
        range: Some(range),
        ..key(0, None)
    };
    let keys = vec![
        key(1, Some(gt("1"))),
        key(2, Some(gt("2"))),
        key(3, Some(gt("2"))),
        key(4, None),
        RoutingKey {
            local_id: LocalRoutingKeyIdentifier(5),
            ..ranges(AddressRange::Source(vec![[gt("3"), gt("4")]]))
        },
        RoutingKey {
            local_id: LocalRoutingKeyIdentifier(6),
            ..ranges(AddressRange::Destination(vec![[gt("5"), gt("44")]]))
        },
        RoutingKey {
            traffic_mode: Some(RequestedTrafficMode(TrafficMode(9))),
            ..key(7, Some(gt("7")))
        },
        key(8, Some(gt("8"))),
    ];
    let request = pair.asps[asp]
        .1
        .register(NOW, keys, None, Labels::default());
    request.expect("possible");
    pair.run();
    let results = pair
        .indications(asp)
        .into_iter()
        .filter_map(|indication| match indication {
            AspIndication::Asp(AspEvent::Registered(id, result)) => Some((id, result)),
            _ => None,
        });
    let refused = |status: RegistrationStatus| Err(Some(status.0));
    let expected = [
        (1, Ok(RoutingContext(9))),
        (2, Ok(RoutingContext(1))),
        (3, refused(RegistrationStatus::NO_UNIQUE_ROUTING)),
        (4, refused(RegistrationStatus::INVALID_ROUTING_KEY)),
        (5, refused(RegistrationStatus::UNSUPPORTED_PARAMETER)),
        (6, refused(RegistrationStatus::INVALID_DESTINATION_ADDRESS)),
        (7, refused(RegistrationStatus::UNSUPPORTED_TRAFFIC_MODE)),
        (8, refused(RegistrationStatus::INSUFFICIENT_RESOURCES)),
    ];
    assert_eq!(results.collect::<Vec<_>>(), expected);
    assert_eq!(pair.gateway.route(None, &gt("2")), Some(RoutingContext(1)));
    let contexts = RoutingContexts::new([RoutingContext(1), RoutingContext(9)]);
    let contexts = contexts.expect("contexts");
    pair.asps[asp]
        .1
        .deregister(NOW, contexts)
        .expect("possible");
    pair.run();
    assert_eq!(pair.gateway.route(None, &gt("2")), None);
    assert_eq!(
        pair.gateway.as_state(RoutingContext(9)),
        Some(AsState::Down)
    );
    assert_eq!(pair.asps[asp].1.application_servers().count(), 0);
}

fn affected(number: u32) -> AffectedPointCodes {
    AffectedPointCodes(vec![AffectedPointCode::single(code(number))])
}

/// RFC 3868, sections 4.5.1 and 4.5.3
#[test]
fn audits_are_answered_from_the_state() {
    let config = SgpConfig {
        max_route_ranges: 10,
        ..SgpConfig::default()
    };
    let mut pair = Pair::new(config, vec![server(1, Destinations::Unrouted)]);
    let available = DestinationEvent::Available(affected(5));
    let reported = pair.gateway.report_destinations(None, &available);
    reported.expect("room");
    let asp = pair.add(vec![served(1)]);
    received(&mut pair, asp);
    let ssn = SubsystemNumber(8);
    let subsystem = |pair: &mut Pair<Sua>, available| {
        let gateway = &mut pair.gateway;
        let result = gateway.report_subsystem(None, code(5), ssn, available, None);
        result.expect("room");
    };
    // Without information a subsystem is unavailable.
    let audit = |pair: &mut Pair<Sua>, number, ssn| {
        let asp = &mut pair.asps[asp].1;
        let sent = asp.audit(RoutingContext(1), affected(number), ssn);
        sent.expect("an active ASP");
        pair.run();
        let messages = received(pair, 0);
        let kinds: Vec<_> = messages.iter().map(Message::kind).collect();
        kinds
    };
    assert_eq!(audit(&mut pair, 5, None), [kinds::DAVA]);
    assert_eq!(audit(&mut pair, 6, None), [kinds::DUNA]);
    assert_eq!(audit(&mut pair, 5, Some(ssn)), [kinds::DUNA]);
    subsystem(&mut pair, true);
    pair.run();
    assert_eq!(audit(&mut pair, 5, Some(ssn)), [kinds::DAVA, kinds::DAVA]);
    let unavailable = DestinationEvent::Unavailable(affected(5));
    let reported = pair.gateway.report_destinations(None, &unavailable);
    reported.expect("room");
    pair.run();
    assert_eq!(audit(&mut pair, 5, Some(ssn)), [kinds::DUNA, kinds::DUNA]);
    subsystem(&mut pair, false);
    pair.run();
    assert_eq!(received(&mut pair, asp).len(), 1);
    // A range of signalling points has no state of a subsystem.
    let range = AffectedPointCodes(vec![AffectedPointCode::ALL]);
    let asp = &mut pair.asps[asp].1;
    asp.audit(RoutingContext(1), range, Some(ssn))
        .expect("sent");
    pair.run();
    let error = pair
        .indications(0)
        .into_iter()
        .find_map(|indication| match indication {
            AspIndication::Asp(AspEvent::Error(error)) => Some(error.code),
            _ => None,
        });
    assert_eq!(error, Some(ErrorCode::SUBSYSTEM_STATUS_UNKNOWN));
}
