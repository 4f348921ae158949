//! Distribution, buffering and routing of traffic.

use super::*;

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
