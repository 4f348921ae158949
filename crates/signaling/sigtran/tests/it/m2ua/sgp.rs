//! Links above the states of ASPs, between MTP3 and MTP2.

use std::time::Duration;

use bytes::Bytes;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::aspm::asp::AspEvent;
use carrick_sigtran::m2ua::asp::*;
use carrick_sigtran::m2ua::link::*;
use carrick_sigtran::m2ua::sgp::*;
use carrick_sigtran::m2ua::*;

use crate::states::Pair;

fn integer(number: u32) -> InterfaceIdentifier {
    InterfaceIdentifier::Integer(number)
}

fn text(text: &str) -> InterfaceIdentifier {
    InterfaceIdentifier::Text(TextIdentifier::new(text).expect("a text"))
}

fn pair(mode: Option<TrafficMode>, identifiers: &[InterfaceIdentifier]) -> Pair<M2ua> {
    let interfaces = identifiers.iter().map(|identifier| SgpInterface {
        traffic_mode: mode,
        ..SgpInterface::new(identifier.clone())
    });
    Pair::new(SgpConfig::default(), interfaces.collect())
}

fn interfaces(identifiers: &[InterfaceIdentifier]) -> Vec<Interface> {
    identifiers.iter().cloned().map(Interface::new).collect()
}

/// Takes the indications of the links of an ASP.
fn links(pair: &mut Pair<M2ua>, asp: usize) -> Vec<LinkIndication> {
    let indications = pair.indications(asp).into_iter();
    let links = indications.filter_map(|indication| match indication {
        AspIndication::Link(_, indication) => Some(indication),
        AspIndication::Asp(_) => None,
    });
    links.collect()
}

/// Takes the requests to MTP2.
fn mtp2(pair: &mut Pair<M2ua>) -> Vec<(InterfaceIdentifier, Mtp2Request)> {
    let requests = pair.requests().into_iter();
    let requests = requests.filter_map(|indication| match indication {
        SgpIndication::Mtp2(identifier, request) => Some((identifier, request)),
        SgpIndication::Gateway(_) => None,
    });
    requests.collect()
}

fn request(pair: &mut Pair<M2ua>, asp: usize, id: &InterfaceIdentifier, request: LinkRequest) {
    let now = pair.now;
    let result = pair.asps[asp].1.link(id, |link| link.request(now, request));
    result.expect("an active ASP");
    pair.run();
}

fn event(pair: &mut Pair<M2ua>, id: &InterfaceIdentifier, event: impl FnOnce(&mut SgpLink)) {
    pair.gateway.link(id, event).expect("an active ASP");
    pair.run();
}

fn data(octet: u8) -> ProtocolData {
    ProtocolData::Mtp2(Bytes::copy_from_slice(&[octet]))
}

/// RFC 3331, sections 3.3.1.3 to 3.3.1.12: requests of MTP3 reach MTP2, and its answers MTP3, for both formats of
/// identifiers
#[test]
fn links_are_used_through_active_asps() {
    for id in [integer(7), text("link 7")] {
        let mut pair = pair(None, std::slice::from_ref(&id));
        pair.add(interfaces(std::slice::from_ref(&id)));
        mtp2(&mut pair);
        links(&mut pair, 0);
        request(&mut pair, 0, &id, LinkRequest::Establish);
        assert_eq!(mtp2(&mut pair), [(id.clone(), Mtp2Request::Start)]);
        event(&mut pair, &id, SgpLink::in_service);
        assert_eq!(links(&mut pair, 0), [LinkIndication::InService]);
        let sent = pair.asps[0].1.link(&id, |link| link.send(data(1), None));
        sent.expect("an active ASP");
        pair.run();
        assert_eq!(mtp2(&mut pair), [(id.clone(), Mtp2Request::Data(data(1)))]);
        event(&mut pair, &id, |link| {
            link.send(data(2), Some(CorrelationId(9)))
        });
        assert_eq!(links(&mut pair, 0), [LinkIndication::Data(data(2))]);
        let acknowledged = Mtp2Request::Acknowledged(CorrelationId(9));
        assert_eq!(mtp2(&mut pair), [(id.clone(), acknowledged)]);
        let state = LinkRequest::State(State::EmergencySet);
        request(&mut pair, 0, &id, state);
        let requested = Mtp2Request::State(State::EmergencySet);
        assert_eq!(mtp2(&mut pair), [(id.clone(), requested)]);
        event(&mut pair, &id, |link| {
            link.confirm_state(State::EmergencySet)
        });
        let confirmed = LinkIndication::StateConfirmed(State::EmergencySet);
        assert_eq!(links(&mut pair, 0), [confirmed]);
        let now = pair.now;
        event(&mut pair, &id, |link| {
            link.congestion(now, CongestionStatus::Level1, DiscardStatus::None);
        });
        let congestion = LinkIndication::Congestion {
            congestion: CongestionStatus::Level1,
            discard: Some(DiscardStatus::None),
        };
        assert_eq!(links(&mut pair, 0), [congestion]);
        request(&mut pair, 0, &id, LinkRequest::Release);
        assert_eq!(mtp2(&mut pair), [(id.clone(), Mtp2Request::Stop)]);
        event(&mut pair, &id, SgpLink::out_of_service);
        assert_eq!(links(&mut pair, 0), [LinkIndication::OutOfService]);
    }
}

/// RFC 3331, section 3.3.1.8: the minimum interval of Congestion Indications is a timer of the gateway
#[test]
fn timers_of_links_are_timers_of_machines() {
    let id = integer(1);
    let mut pair = pair(None, std::slice::from_ref(&id));
    pair.add(interfaces(std::slice::from_ref(&id)));
    let now = pair.now;
    for level in [CongestionStatus::Level1, CongestionStatus::Level2] {
        event(&mut pair, &id, |link| {
            link.congestion(now, level, DiscardStatus::None)
        });
    }
    assert_eq!(links(&mut pair, 0).len(), 1);
    pair.now += Duration::from_millis(500);
    assert_eq!(pair.gateway.poll_timeout(), Some(pair.now));
    pair.gateway.handle_timeout(pair.now);
    pair.run();
    assert_eq!(links(&mut pair, 0).len(), 1);
    assert_eq!(pair.gateway.poll_timeout(), None);
    // A request without an answer is repeated; it ends with the association.
    request(&mut pair, 0, &id, LinkRequest::RetrieveBsn);
    pair.now += Duration::from_secs(2);
    assert_eq!(pair.asps[0].1.poll_timeout(), Some(pair.now));
    let now = pair.now;
    pair.asps[0].1.handle_timeout(now);
    pair.run();
    assert_eq!(mtp2(&mut pair).len(), 2);
    pair.asps[0].1.handle_sctp(now, SctpNotification::Down);
    assert_eq!(pair.asps[0].1.poll_timeout(), None);
}

/// RFC 3331, sections 4.3.4.3 and 5.3.6: in load sharing the state of a link is for all ASPs, a retrieval for the one that
/// requested it
#[test]
fn answers_are_for_those_concerned() {
    let id = integer(1);
    let mut pair = pair(Some(TrafficMode::LOADSHARE), std::slice::from_ref(&id));
    for _ in 0..2 {
        pair.add(interfaces(std::slice::from_ref(&id)));
    }
    for asp in [0, 1] {
        links(&mut pair, asp);
    }
    event(&mut pair, &id, SgpLink::in_service);
    for asp in [0, 1] {
        assert_eq!(links(&mut pair, asp), [LinkIndication::InService]);
    }
    let retrieval = LinkRequest::RetrieveMessages(SequenceNumber(3));
    request(&mut pair, 1, &id, retrieval);
    event(&mut pair, &id, |link| {
        link.confirm_messages(Some(vec![data(1), data(2)]))
    });
    assert_eq!(links(&mut pair, 0), []);
    let expected = [
        LinkIndication::Retrieval,
        LinkIndication::Retrieved(data(1)),
        LinkIndication::Retrieved(data(2)),
        LinkIndication::RetrievalComplete,
    ];
    assert_eq!(links(&mut pair, 1), expected);
    event(&mut pair, &id, |link| link.send(data(4), None));
    let received = links(&mut pair, 0).len() + links(&mut pair, 1).len();
    assert_eq!(received, 1, "one of the ASPs gets data");
}

/// RFC 3331, section 4.3.2: messages of the link wait in AS-PENDING
#[test]
fn messages_of_links_wait_for_an_asp() {
    let id = integer(1);
    let mut pair = pair(None, std::slice::from_ref(&id));
    pair.add(interfaces(std::slice::from_ref(&id)));
    let now = pair.now;
    pair.asps[0].1.asp_inactive(now, &[]).expect("up");
    pair.run();
    links(&mut pair, 0);
    event(&mut pair, &id, SgpLink::in_service);
    event(&mut pair, &id, |link| link.send(data(5), None));
    assert_eq!(links(&mut pair, 0), []);
    assert_eq!(pair.gateway.buffered(id), Some((2, 1)));
    pair.asps[0].1.asp_active(now, &[]).expect("up");
    pair.run();
    let expected = [LinkIndication::InService, LinkIndication::Data(data(5))];
    assert_eq!(links(&mut pair, 0), expected);
}

/// RFC 3331, section 3.3.2.7: ranges address the interfaces in them, each once
#[test]
fn ranges_address_interfaces() {
    let ids: Vec<_> = (1..=5).map(integer).collect();
    let mut pair = pair(None, &ids);
    pair.add(interfaces(&ids));
    let now = pair.now;
    pair.asps[0].1.asp_inactive(now, &[]).expect("up");
    pair.run();
    while pair.gateway.poll_transmit().is_some() {}
    let range = |start, stop| InterfaceRange { start, stop };
    let identifiers = InterfaceIdentifiers::Integers {
        identifiers: vec![4, 4, 9],
        ranges: vec![range(0, 2), range(2, 3), range(100, u32::MAX)],
    };
    let message = Message::AspActive(AspActive {
        traffic_mode: None,
        identifiers: Some(identifiers),
        info: None,
    });
    let key = pair.asps[0].0;
    pair.gateway.handle_message(now, key, 0, &message);
    let sent: Vec<_> = std::iter::from_fn(|| pair.gateway.poll_transmit())
        .map(|(_, transmit)| transmit.message)
        .collect();
    let [Message::Error(error), Message::AspActiveAck(ack), ..] = &sent[..] else {
        panic!("{sent:?}");
    };
    let expected = InterfaceIdentifiers::Integers {
        identifiers: vec![9],
        ranges: vec![range(100, u32::MAX)],
    };
    assert_eq!(error.code, ErrorCode::INVALID_INTERFACE_IDENTIFIER);
    assert_eq!(error.identifiers, Some(expected));
    assert_eq!(ack.identifiers, InterfaceIdentifiers::integers(1..=4));
}

/// Identifiers of both formats are in different messages.
#[test]
fn formats_of_identifiers_are_not_mixed() {
    let ids = [integer(1), text("a"), text("b"), integer(2)];
    let mut pair = pair(None, &ids);
    pair.add(interfaces(&ids));
    for id in ids {
        assert_eq!(pair.asps[0].1.state(Some(id)), Some(AspState::Active));
    }
}

/// RFC 3331, sections 4.4.1 and 4.4.2
#[test]
fn link_keys_are_registered() {
    let mut provisioned = SgpInterface::new(integer(1));
    provisioned.link.key = Some((SdtIdentifier(1), SdlIdentifier(1)));
    let config = SgpConfig {
        registration: RegistrationPolicy::NewKeys,
        max_application_servers: 2,
        ..SgpConfig::default()
    };
    let mut pair = Pair::<M2ua>::new(config, vec![provisioned]);
    pair.add(Vec::new());
    pair.indications(0);
    let key = |id, terminal| LinkKey {
        local_id: LocalLinkKeyIdentifier(id),
        sdt: SdtIdentifier(terminal),
        sdl: SdlIdentifier(terminal),
    };
    let now = pair.now;
    let keys = vec![key(1, 1), key(2, 2), key(3, 2), key(4, 3)];
    pair.asps[0].1.register(now, keys).expect("possible");
    pair.run();
    let results = pair.indications(0).into_iter();
    let results = results.filter_map(|indication| match indication {
        AspIndication::Asp(AspEvent::Registered(id, result)) => Some((id, result)),
        _ => None,
    });
    let refused = |status: RegistrationStatus| Err(Some(status.0));
    let expected = [
        (1, Ok(integer(1))),
        (2, Ok(integer(2))),
        (3, refused(RegistrationStatus::OVERLAPPING_LINK_KEY)),
        (4, refused(RegistrationStatus::INSUFFICIENT_RESOURCES)),
    ];
    assert_eq!(results.collect::<Vec<_>>(), expected);
    // An active ASP is not deregistered.
    pair.asps[0].1.asp_active(now, &[integer(2)]).expect("up");
    pair.run();
    pair.indications(0);
    let both = vec![integer(1), integer(2)];
    pair.asps[0].1.deregister(now, both).expect("up");
    pair.run();
    let results: Vec<_> = pair.indications(0);
    let denied = DeregistrationStatus::PERMISSION_DENIED.0;
    for (id, status) in [(integer(1), 0), (integer(2), denied)] {
        let result = AspIndication::Asp(AspEvent::Deregistered(id, status));
        assert!(results.contains(&result), "{results:?}");
    }
    let code = results.iter().find_map(|indication| match indication {
        AspIndication::Asp(AspEvent::Error(error)) => Some(error.code),
        _ => None,
    });
    assert_eq!(code, Some(ErrorCode::ASP_ACTIVE_FOR_INTERFACE_IDENTIFIER));
    assert_eq!(pair.gateway.as_state(integer(2)), Some(AsState::Active));
    // The registrations end with ASP-DOWN, and the link key is free again.
    pair.asps[0].1.asp_down(now).expect("an association");
    pair.run();
    assert_eq!(pair.gateway.as_state(integer(2)), None);
    assert_eq!(pair.gateway.as_state(integer(1)), Some(AsState::Down));
}

/// RFC 3331, section 3.3.3.1
#[test]
fn inactive_asps_answer_data() {
    let id = integer(1);
    let mut pair = pair(None, std::slice::from_ref(&id));
    pair.add(interfaces(std::slice::from_ref(&id)));
    let now = pair.now;
    pair.asps[0].1.asp_inactive(now, &[]).expect("up");
    pair.run();
    let message = Message::Data(Data {
        identifier: id,
        protocol_data: data(1),
        correlation_id: None,
    });
    let asp = &mut pair.asps[0].1;
    asp.handle_message(now, 1, &message);
    let answer = asp.poll_transmit().map(|transmit| transmit.message);
    let Some(Message::Error(error)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(error.code, ErrorCode::UNEXPECTED_MESSAGE);
    assert_eq!(error.identifiers, InterfaceIdentifiers::integers([1]));
}
