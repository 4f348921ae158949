//! Registration and deregistration of routing keys.

use super::*;

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

/// RFC 4666, section 4.4.1: invalid data and unsupported parameters of a key
#[test]
fn malformed_keys_have_results() {
    let mut bench = registering(RegistrationPolicy::NewKeys, 9);
    let id = |id: u8| [2, 10, 0, 8, 0, 0, 0, id];
    let dpc = |mask: u8, code: u8| [2, 11, 0, 8, mask, 0, 0, code];
    let circuit_range = [2, 15, 0, 12, 0, 0, 0, 9, 0, 1, 0, 9];
    let bad_indicator = [2, 12, 0, 5, 0x10, 0, 0, 0];
    let keys: [&[&[u8]]; 5] = [
        &[&id(1)],
        &[&id(2), &dpc(0, 9), &circuit_range],
        &[&id(3), &dpc(1, 9)],
        &[&id(4), &dpc(0, 9), &bad_indicator],
        &[&id(5), &dpc(0, 77)],
    ];
    let octets = |keys: &[&[&[u8]]]| {
        let mut octets = vec![1, 0, 9, 1, 0, 0, 0, 0];
        for key in keys {
            let content = key.concat();
            octets.extend([2, 7, 0, 4 + content.len() as u8]);
            octets.extend(content);
        }
        octets[7] = octets.len() as u8;
        bytes::Bytes::from(octets)
    };
    let request = octets(&keys);
    let error = Message::decode(&request).expect_err("malformed keys");
    let (asp, now) = (bench.asps[1], bench.now);
    bench.sgp.handle_malformed(now, asp, &error, &request);
    let sent = bench.sent().into_iter();
    let results = sent.filter_map(|(_, message)| match message {
        Message::RegistrationResponse(response) => Some(response.results),
        Message::Error(error) => panic!("{error:?}"),
        _ => None,
    });
    let results: Vec<_> = results
        .flatten()
        .map(|r| (r.local_id.0, r.status))
        .collect();
    assert_eq!(
        results,
        [
            (1, RegistrationStatus::INVALID_ROUTING_KEY),
            (2, RegistrationStatus::UNSUPPORTED_PARAMETER),
            (3, RegistrationStatus::INVALID_DPC),
            (4, RegistrationStatus::INVALID_ROUTING_KEY),
            (5, RegistrationStatus::SUCCESS),
        ]
    );
    // Without an identifier there is no key to answer.
    let request = octets(&[&[&dpc(0, 9)]]);
    let error = Message::decode(&request).expect_err("no identifier");
    bench.sgp.handle_malformed(now, asp, &error, &request);
    bench.sent_error(1, ErrorCode::MISSING_PARAMETER);
}
