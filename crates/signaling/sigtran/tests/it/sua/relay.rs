//! Relay function: hop counter, translation of global titles, return and refusal.

use carrick_sigtran::aspm::sgp::GatewayEvent;
use carrick_sigtran::sua::sgp::*;
use carrick_sigtran::sua::translation::*;
use carrick_sigtran::sua::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::sgp::{gt, gt_only, received, served, server, title, to};
use crate::states::{Pair, address};

fn code(value: u32) -> PointCode {
    PointCode::new(value).expect("a point code")
}

fn to_point_code(number: u32, ssn: Option<u8>) -> TranslationTarget {
    TranslationTarget::PointCode {
        point_code: code(number),
        ssn: ssn.map(SubsystemNumber),
    }
}

fn to_server(context: u32, digits: Option<&str>) -> TranslationTarget {
    TranslationTarget::ApplicationServer {
        routing_context: RoutingContext(context),
        digits: digits.map(|digits| AddressSignals::new(digits).expect("digits")),
    }
}

fn rule(digits: &str, target: TranslationTarget) -> TranslationRule {
    TranslationRule {
        network: None,
        title: title(digits),
        target,
    }
}

fn table(rules: impl IntoIterator<Item = TranslationRule>) -> TranslationTable {
    let mut table = TranslationTable::default();
    for rule in rules {
        table.add(rule).expect("room, and no equal rule");
    }
    table
}

/// Returns the point code of a translation.
fn translated(table: &TranslationTable, address: &Address) -> Result<u32, TranslationError> {
    let address = table.translate(None, address)?.address;
    match address.route {
        Route::PointCode { point_code, .. } => Ok(point_code.expect("a point code").value()),
        other => panic!("{other:?}"),
    }
}

/// RFC 3868, section 1.5.3
#[test]
fn longest_rule_of_the_kind_translates() {
    let national = GlobalTitle {
        nature_of_address: 3,
        ..title("49")
    };
    let mut rules = table([
        rule("", to_point_code(1, None)),
        rule("49", to_point_code(2, None)),
        rule("49170", to_point_code(3, None)),
    ]);
    rules
        .add(TranslationRule {
            network: None,
            title: national.clone(),
            target: to_point_code(4, None),
        })
        .expect("another kind");
    for (digits, expected) in [("", 1), ("4", 1), ("49", 2), ("4917", 2), ("491700", 3)] {
        assert_eq!(translated(&rules, &gt(digits)), Ok(expected), "{digits}");
    }
    let with = |title| Address::global_title(title, SubsystemNumber(8));
    assert_eq!(translated(&rules, &with(national.clone())), Ok(4));
    let other_digits = GlobalTitle {
        digits: AddressSignals::new("5").expect("digits"),
        ..national
    };
    let error = Err(TranslationError::Address);
    assert_eq!(translated(&rules, &with(other_digits)), error);
    let other_plan = GlobalTitle {
        numbering_plan: 7,
        ..title("49")
    };
    let error = Err(TranslationError::Nature);
    assert_eq!(translated(&rules, &with(other_plan)), error);
}

/// RFC 3868, section 3.10.2.3: fields that the indicator does not transport
#[test]
fn indicator_determines_the_compared_fields() {
    for (indicator, compared) in [
        (1, [false, false, true]),
        (2, [true, false, false]),
        (3, [true, true, false]),
        (4, [true; 3]),
    ] {
        let own = GlobalTitle {
            indicator,
            ..title("49")
        };
        let rules = table([TranslationRule {
            network: None,
            title: own.clone(),
            target: to_point_code(1, None),
        }]);
        for (field, is_compared) in compared.into_iter().enumerate() {
            let mut other = own.clone();
            match field {
                0 => other.translation_type += 1,
                1 => other.numbering_plan += 1,
                _ => other.nature_of_address += 1,
            }
            let other = Address::global_title(other, SubsystemNumber(8));
            let expected = if is_compared {
                Err(TranslationError::Nature)
            } else {
                Ok(1)
            };
            let result = translated(&rules, &other);
            assert_eq!(result, expected, "indicator {indicator}, field {field}");
        }
    }
}

#[test]
fn translation_table_is_bounded() {
    let mut rules = TranslationTable::new(2);
    for digits in ["1", "2"] {
        rules
            .add(rule(digits, to_point_code(1, None)))
            .expect("room");
    }
    let again = rules.add(rule("1", to_point_code(2, None)));
    assert_eq!(again, Err(TranslationTableError::Exists));
    let third = rule("3", to_point_code(3, None));
    let full = Err(TranslationTableError::Full(2));
    assert_eq!(rules.add(third.clone()), full);
    let removed = rules.remove(None, &title("1"));
    assert_eq!(removed, Some(to_point_code(1, None)));
    assert_eq!(rules.remove(None, &title("1")), None);
    assert_eq!(rules.add(third), Ok(()));
    assert_eq!(rules.len(), 2);
}

/// Rules of a network precede those of all networks.
#[test]
fn rule_of_the_network_translates_first() {
    let network = Some(NetworkAppearance(7));
    let mut rules = table([rule("4917", to_point_code(1, None))]);
    rules
        .add(TranslationRule {
            network,
            ..rule("49", to_point_code(2, None))
        })
        .expect("another network");
    let point_code = |network, digits: &str| {
        let address = rules
            .translate(network, &gt(digits))
            .expect("a rule")
            .address;
        match address.route {
            Route::PointCode { point_code, .. } => point_code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(point_code(network, "4917"), Some(code(2)));
    assert_eq!(point_code(None, "4917"), Some(code(1)));
    assert_eq!(
        point_code(Some(NetworkAppearance(8)), "4917"),
        Some(code(1))
    );
}

/// RFC 3868, section 1.5.3: route on SSN, route on a new global title
#[test]
fn relayed_titles_reach_application_servers() {
    let servers = vec![
        server(1, Destinations::Address(address(7))),
        server(2, Destinations::Unrouted),
        server(3, Destinations::Address(gt("4930"))),
    ];
    let mut pair = Pair::new(SgpConfig::default(), servers);
    let asp = pair.add(vec![served(1), served(2), served(3)]);
    let rules = table([
        rule("49", to_point_code(7, None)),
        rule("44", to_server(2, Some("123"))),
        rule("1", to_point_code(9, Some(6))),
    ]);
    let mut relay = |digits| pair.gateway.relay(None, &rules, None, &to(gt(digits)));
    let delivered = |context| Ok(Relayed::ApplicationServer(RoutingContext(context)));
    assert_eq!(relay("4917"), delivered(1));
    assert_eq!(relay("4420"), delivered(2));
    assert_eq!(relay("4930"), delivered(3), "its own key");
    let Ok(Relayed::Network(message)) = relay("1555") else {
        panic!("a node of the network");
    };
    let Message::ConnectionlessDataTransfer(message) = *message else {
        panic!("a CLDT");
    };
    assert_eq!(message.destination.0.ssn(), Some(SubsystemNumber(6)));
    assert_eq!(message.hop_counter, HopCounter::new(15));
    pair.run();
    let destinations: Vec<_> = received(&mut pair, asp)
        .into_iter()
        .map(|message| match message {
            Message::ConnectionlessDataTransfer(body) => (body.destination.0, body.hop_counter),
            other => panic!("{other:?}"),
        })
        .collect();
    let mut on_ssn = gt("4917");
    on_ssn.route = Route::PointCode {
        ssn: SubsystemNumber(8),
        point_code: Some(code(7)),
        global_title: Some(title("4917")),
    };
    let expected = [
        (on_ssn, HopCounter::new(15)),
        (gt("12320"), HopCounter::new(15)),
        (gt("4930"), None),
    ];
    assert_eq!(destinations, expected);
}

/// Returns the cause of the CLDR that answers a CLDT, and the error.
fn returned(result: Result<Relayed, NotRelayed>) -> (RelayError, Option<ReturnCause>) {
    let failure = result.expect_err("not relayed");
    let cause = failure.answer.map(|answer| match *answer {
        Message::ConnectionlessDataResponse(body) => body.cause,
        other => panic!("{other:?}"),
    });
    (failure.error, cause)
}

/// RFC 3868, sections 1.5.3 and 3.10.6: return on error
#[test]
fn untranslated_messages_are_returned() {
    let servers = vec![server(2, Destinations::Unrouted)];
    let mut gateway = Pair::new(SgpConfig::default(), servers).gateway;
    let rules = table([
        rule("49", to_point_code(7, None)),
        rule("44", to_server(2, None)),
        rule("45", to_server(9, None)),
    ]);
    let mut relay = |message: Message| returned(gateway.relay(None, &rules, None, &message));
    let (error, cause) = relay(to(gt("7")));
    assert_eq!(error, RelayError::Translation(TranslationError::Address));
    assert_eq!(cause, Some(ReturnCause::NO_TRANSLATION));
    let mut other_kind = gt("49");
    if let Route::GlobalTitle { global_title, .. } = &mut other_kind.route {
        global_title.translation_type = 5;
    }
    let (_, cause) = relay(to(other_kind));
    assert_eq!(cause, Some(ReturnCause::NO_TRANSLATION_FOR_NATURE));
    let (_, cause) = relay(to(gt_only("49")));
    assert_eq!(cause, Some(ReturnCause::UNEQUIPPED_USER));
    let (_, cause) = relay(to(gt("44")));
    assert_eq!(cause, Some(ReturnCause::SUBSYSTEM_FAILURE), "no ASP");
    let (_, cause) = relay(to(gt("45")));
    assert_eq!(
        cause,
        Some(ReturnCause::SCCP_FAILURE),
        "no application server"
    );
    let with = |hop_counter, return_on_error| match to(gt("49")) {
        Message::ConnectionlessDataTransfer(mut body) => {
            body.hop_counter = HopCounter::new(hop_counter);
            body.protocol_class.return_on_error = return_on_error;
            Message::ConnectionlessDataTransfer(body)
        }
        other => other,
    };
    let violation = ReturnCause::HOP_COUNTER_VIOLATION;
    let looped = (RelayError::HopCounter, Some(violation));
    assert_eq!(relay(with(1, true)), looped);
    assert_eq!(relay(with(1, false)), (RelayError::HopCounter, None));
    let relayed = gateway.relay(None, &rules, None, &with(2, true));
    let Ok(Relayed::Network(message)) = relayed else {
        panic!("{relayed:?}");
    };
    let Message::ConnectionlessDataTransfer(body) = *message else {
        panic!("a CLDT");
    };
    assert_eq!(body.hop_counter, HopCounter::new(1));
}

/// Returns the CORE of a connection of application server 1.
fn request(destination: Address) -> Message {
    Message::ConnectionRequest(ConnectionRequest {
        routing_context: RoutingContext(1),
        protocol_class: ProtocolClass::new(ServiceClass::Class2),
        source_reference: SourceReferenceNumber(5),
        destination: DestinationAddress(destination),
        sequence_control: SequenceControl(1),
        sequence_numbers: None,
        source: Some(SourceAddress(address(1))),
        hop_counter: None,
        importance: None,
        priority: None,
        credit: None,
        data: None,
    })
}

/// RFC 3868, section 1.5.3: refusal
#[test]
fn untranslated_requests_are_refused() {
    let mut gateway = Pair::new(SgpConfig::default(), Vec::new()).gateway;
    let rules = table([rule("49", to_point_code(7, None))]);
    let failure = gateway.relay(None, &rules, None, &request(gt("7")));
    let answer = failure.expect_err("not relayed").answer.expect("an answer");
    let Message::ConnectionRefused(answer) = *answer else {
        panic!("a COREF");
    };
    assert_eq!(answer.cause, RefusalCause::DESTINATION_UNKNOWN);
    assert_eq!(answer.destination_reference, DestinationReferenceNumber(5));
    assert!(
        gateway
            .relay(None, &rules, None, &request(gt("49")))
            .is_ok()
    );
}

/// Gateway with application server 1 with an active ASP, and application server 2 at point code 7, which is pending.
fn pending_pair() -> (Pair<Sua>, usize) {
    let servers = vec![
        server(1, Destinations::Address(address(6))),
        server(2, Destinations::Address(address(7))),
    ];
    let mut pair = Pair::new(SgpConfig::default(), servers);
    let sender = pair.add(vec![served(1)]);
    let receiver = pair.add(vec![served(2)]);
    let inactive = pair.asps[receiver].1.asp_inactive(pair.now, &[]);
    inactive.expect("an active ASP");
    pair.run();
    let pending = pair.gateway.as_state(RoutingContext(2));
    assert_eq!(pending, Some(AsState::Pending));
    (pair, sender)
}

/// Relays three messages of the ASP, and two of the user, to the pending application server.
fn relay_to_pending(pair: &mut Pair<Sua>, sender: usize) {
    let mut silent = match to(address(7)) {
        Message::ConnectionlessDataTransfer(body) => body,
        other => panic!("{other:?}"),
    };
    silent.protocol_class.return_on_error = false;
    let silent = Message::ConnectionlessDataTransfer(silent);
    let rules = TranslationTable::default();
    let asp = pair.asps[sender].0;
    for message in [to(address(7)), silent, request(address(7))] {
        let relayed = (pair.gateway).relay(Some(asp), &rules, None, &message);
        let buffered = Relayed::ApplicationServer(RoutingContext(2));
        assert_eq!(relayed, Ok(buffered));
    }
    for message in [to(address(7)), request(address(7))] {
        let buffered = pair.gateway.transfer(None, message);
        assert_eq!(buffered, Ok(RoutingContext(2)));
    }
    pair.run();
    assert_eq!(received(pair, sender), [], "messages wait");
}

/// Returns the causes of CLDR and COREF messages.
fn causes(answers: &[Message]) -> Vec<(Option<ReturnCause>, Option<RefusalCause>)> {
    let causes = answers.iter().map(|answer| match answer {
        Message::ConnectionlessDataResponse(body) => (Some(body.cause), None),
        Message::ConnectionRefused(body) => (None, Some(body.cause)),
        other => panic!("{other:?}"),
    });
    causes.collect()
}

/// Returns the answers that the user of the gateway gets, after the number of messages that were discarded.
fn returned_to_user(pair: &mut Pair<Sua>) -> Vec<Message> {
    let mut indications = pair.requests().into_iter();
    let discarded = GatewayEvent::Discarded(RoutingContext(2), 5);
    let discarded = SgpIndication::Gateway(discarded);
    assert!(indications.any(|indication| indication == discarded));
    let returned = indications.filter_map(|indication| match indication {
        SgpIndication::Returned(message) => Some(*message),
        _ => None,
    });
    returned.collect()
}

/// RFC 3868, section 1.5.1: return and refusal after T(r), with the option and to the sender alone
#[test]
fn recovery_expiry_returns_and_refuses() {
    let (mut pair, sender) = pending_pair();
    relay_to_pending(&mut pair, sender);
    let expiry = pair.gateway.poll_timeout().expect("T(r)");
    assert_eq!(expiry - pair.now, std::time::Duration::from_secs(2));
    pair.now = expiry;
    pair.gateway.handle_timeout(expiry);
    pair.run();
    let failure = ReturnCause::SUBSYSTEM_FAILURE;
    let refusal = RefusalCause::SUBSYSTEM_FAILURE;
    let expected = [(Some(failure), None), (None, Some(refusal))];
    let answers = received(&mut pair, sender);
    assert_eq!(causes(&answers), expected);
    assert!(
        answers
            .iter()
            .all(|answer| answer.routing_context() == Some(RoutingContext(1)))
    );
    assert_eq!(causes(&returned_to_user(&mut pair)), expected);
}

/// RFC 3868, section 1.5.1: an application server that is removed gets nothing either
#[test]
fn removal_returns_what_waits() {
    let (mut pair, sender) = pending_pair();
    relay_to_pending(&mut pair, sender);
    let removed = (pair.gateway).remove_application_server(pair.now, RoutingContext(2));
    removed.expect("an application server");
    pair.run();
    let failure = ReturnCause::SCCP_FAILURE;
    let refusal = RefusalCause::SCCP_FAILURE;
    let expected = [(Some(failure), None), (None, Some(refusal))];
    assert_eq!(causes(&received(&mut pair, sender)), expected);
    assert_eq!(causes(&returned_to_user(&mut pair)), expected);
}

/// RFC 3868, section 1.5.1: no answer for an ASP that has left its application server meanwhile
#[test]
fn inactive_senders_get_no_answer() {
    let (mut pair, sender) = pending_pair();
    relay_to_pending(&mut pair, sender);
    let inactive = pair.asps[sender].1.asp_inactive(pair.now, &[]);
    inactive.expect("an active ASP");
    pair.run();
    pair.now = pair.gateway.poll_timeout().expect("T(r)");
    pair.gateway.handle_timeout(pair.now);
    assert_eq!(returned_to_user(&mut pair).len(), 2);
    let sent = std::iter::from_fn(|| pair.gateway.poll_transmit());
    let traffic = sent.filter(|(_, transmit)| transmit.stream != 0);
    assert_eq!(traffic.count(), 0);
}

/// RFC 3868, section 1.5.1: a default application server gets what has no mapping
#[test]
fn default_server_gets_untranslated_titles() {
    let servers = vec![server(2, Destinations::Unrouted)];
    let config = SgpConfig {
        default_application_server: Some(RoutingContext(2)),
        ..SgpConfig::default()
    };
    let mut pair = Pair::new(config, servers);
    pair.add(vec![served(2)]);
    let rules = table([rule("49", to_point_code(7, None))]);
    for digits in ["7", "49"] {
        let relayed = pair.gateway.relay(None, &rules, None, &to(gt(digits)));
        let expected = Ok(Relayed::ApplicationServer(RoutingContext(2)));
        assert_eq!(relayed, expected, "{digits}");
    }
}

proptest! {
    /// The rule of a title is the longest prefix, as a search through all rules finds it.
    #[test]
    fn longest_prefix_agrees_with_a_search(
        prefixes in prop::collection::btree_set("[0-2]{0,4}", 0..20),
        titles in vec("[0-2]{0,6}", 1..20),
    ) {
        let numbered = || prefixes.iter().zip(1..);
        let rules = numbered().map(|(prefix, number)| rule(prefix, to_point_code(number, None)));
        let rules = table(rules);
        for digits in titles {
            let prefixes = numbered().filter(|(prefix, _)| digits.starts_with(*prefix));
            let longest = prefixes.max_by_key(|(prefix, _)| prefix.len());
            let found = translated(&rules, &gt(&digits)).ok();
            prop_assert_eq!(found, longest.map(|(_, number)| number));
        }
    }
}
