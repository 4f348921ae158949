//! Data, outages, flow control and retrieval.

use super::*;

/// RFC 4165, section 4.2.1
#[test]
fn messages_are_numbered_and_acknowledged() {
    let mut subject = Subject::in_state(LinkState::InService);
    subject.send(10);
    subject.receive_data(NONE, 0);
    subject.receive_data(number(0), 1);
    subject.send(11);
    // An acknowledgement is not acknowledged.
    subject.receive_on(1, number(1), number(1), Body::UserData(None));
    let expected = [
        (NONE, number(0), true),
        (number(0), number(0), false),
        (number(1), number(0), false),
        (number(1), number(1), true),
    ];
    assert_eq!(subject.data(), expected);
    assert_eq!(subject.indications(), received(&[0, 1]));
    assert_eq!(subject.link.poll_timeout(), None);
}

/// RFC 4165, section 4.2.1
#[test]
fn messages_out_of_order_are_discarded() {
    let mut subject = Subject::in_state(LinkState::InService);
    subject.receive_data(NONE, 0);
    for fsn in [0, 2, 0xff_ffff] {
        subject.receive_data(NONE, fsn);
    }
    subject.receive_on(1, NONE, number(1), Body::UserData(None));
    assert_eq!(subject.indications(), received(&[0]));
    assert_eq!(subject.data(), [(number(0), NONE, false)]);
    assert_eq!(subject.link.state(), LinkState::InService);
}

/// RFC 4165, section 4.2.1: abnormal BSNs as in Q.703
#[test]
fn two_abnormal_bsns_of_three_end_the_link() {
    let mut subject = Subject::in_state(LinkState::InService);
    subject.receive_data(number(0), 0);
    subject.receive_data(NONE, 1);
    subject.receive_data(NONE, 2);
    subject.receive_data(number(5), 3);
    subject.receive_data(NONE, 4);
    assert_eq!(subject.link.state(), LinkState::InService);
    subject.receive_data(number(5), 5);
    subject.failed(OutOfServiceReason::AbnormalBsn);
}

/// RFC 4165, section 4.2.1: each message has its T7
#[test]
fn a_missing_acknowledgement_ends_the_link() {
    let mut subject = Subject::in_state(LinkState::InService);
    subject.send(0);
    subject.wait(Duration::from_millis(600));
    subject.send(1);
    subject.receive_on(1, number(0), NONE, Body::UserData(None));
    subject.wait(Duration::from_millis(999));
    assert_eq!(subject.link.state(), LinkState::InService);
    subject.wait(Duration::from_millis(1));
    subject.failed(OutOfServiceReason::ExcessiveAcknowledgementDelay);
}

/// RFC 4165, section 4.1.5
#[test]
fn a_busy_peer_gets_acknowledgements_only() {
    let mut subject = Subject::in_state(LinkState::InService);
    subject.send(0);
    subject.receive(Busy);
    subject.send(1);
    subject.receive_data(NONE, 0);
    let expected = [(NONE, number(0), true), (number(0), number(0), false)];
    assert_eq!(subject.data(), expected);
    // T6 runs in place of T7, and is not restarted.
    subject.wait(Duration::from_millis(3500));
    subject.receive(Busy);
    subject.receive(BusyEnded);
    assert_eq!(subject.data(), [(number(0), number(1), true)]);
    subject.wait(Duration::from_millis(999));
    assert_eq!(subject.link.state(), LinkState::InService);
    subject.wait(Duration::from_millis(1));
    subject.failed(OutOfServiceReason::ExcessiveAcknowledgementDelay);
}

/// RFC 4165, section 4.1.5
#[test]
fn remote_congestion_ends_the_link() {
    let mut subject = Subject::in_state(LinkState::InService);
    subject.send(0);
    subject.receive(Busy);
    subject.wait(Duration::from_millis(3999));
    subject.receive(Busy);
    assert_eq!(subject.link.state(), LinkState::InService);
    subject.wait(Duration::from_millis(1));
    subject.failed(OutOfServiceReason::RemoteCongestion);
    // T6 needs an unacknowledged message.
    let mut idle = Subject::in_state(LinkState::InService);
    idle.receive(Busy);
    assert_eq!(idle.link.poll_timeout(), None);
}

/// RFC 4165, section 4.1.5
#[test]
fn messages_wait_during_receive_congestion() {
    let mut subject = Subject::in_state(LinkState::InService);
    subject.link.local_busy();
    assert_eq!(subject.statuses(), [(0, Busy)]);
    subject.receive_data(NONE, 0);
    subject.receive_data(NONE, 1);
    subject.send(0);
    assert_eq!(subject.indications(), []);
    assert_eq!(subject.data(), [(NONE, number(0), true)]);
    subject.link.local_busy_ended(START);
    assert_eq!(subject.indications(), received(&[0, 1]));
    let sent = subject.sent();
    assert_eq!(sent[0].message.body, Body::LinkStatus(BusyEnded));
    assert_eq!(sent[1].message.body, Body::UserData(None));
    assert_eq!(sent[1].message.bsn, number(1));
}

/// RFC 4165, section 5.4: side A of the second example, with numbers from 0
#[test]
fn a_local_outage_proceeds_as_in_the_example() {
    let mut subject = Subject::in_state(LinkState::InService);
    (0..3).for_each(|value| subject.send(value));
    (0..3).for_each(|fsn| subject.receive_data(NONE, fsn));
    subject.sent();
    subject.link.local_processor_outage();
    (3..6).for_each(|fsn| subject.receive_data(number(2), fsn));
    assert_eq!(subject.statuses(), [(1, ProcessorOutage)]);
    (3..6).for_each(|value| subject.send(value));
    let expected: Vec<_> = (3..6).map(|fsn| (number(2), number(fsn), true)).collect();
    assert_eq!(subject.data(), expected);
    subject.receive_on(1, number(4), number(5), Body::UserData(None));
    assert_eq!(subject.indications(), received(&[0, 1, 2]));

    // Flush discards messages 3 to 5 of the peer, and message 5 of this side.
    subject.link.flush_buffers();
    subject.link.local_processor_recovered(START);
    let sent = subject.sent();
    let recovered = Message {
        bsn: number(2),
        fsn: number(5),
        body: Body::LinkStatus(ProcessorRecovered),
    };
    assert_eq!(
        sent,
        [Transmit {
            stream: 1,
            message: recovered
        }]
    );
    // A message from before the outage ended; User Data of this side waits for the Ready.
    subject.receive_data(number(4), 3);
    subject.send(20);
    assert_eq!(subject.sent(), []);
    subject.receive_on(1, number(4), number(2), Body::LinkStatus(Ready));
    let sent = subject.sent();
    assert_eq!(sent[0].message.body, Body::LinkStatus(Ready));
    assert_eq!((sent[0].stream, sent[0].message.fsn), (1, number(4)));
    assert_eq!(sent[1].message.body, Body::UserData(Some(msu(20))));
    assert_eq!(sent[1].message.fsn, number(5));
    subject.receive_data(number(5), 3);
    assert_eq!(subject.data(), [(number(3), number(5), false)]);
    assert_eq!(subject.indications(), received(&[3]));
    assert_eq!(subject.link.state(), LinkState::InService);
}

/// RFC 4165, section 4.1.4: Continue
#[test]
fn messages_of_a_local_outage_reach_mtp3_after_it() {
    let mut subject = Subject::in_state(LinkState::InService);
    subject.link.local_processor_outage();
    subject.receive_data(NONE, 0);
    assert_eq!(subject.indications(), []);
    subject.sent();
    subject.link.local_processor_recovered(START);
    assert_eq!(subject.indications(), received(&[0]));
    let sent = subject.sent();
    let sent: Vec<_> = sent
        .into_iter()
        .map(|transmit| (transmit.message.bsn, transmit.message.body))
        .collect();
    let expected = [
        (number(0), Body::UserData(None)),
        (number(0), Body::LinkStatus(ProcessorRecovered)),
    ];
    assert_eq!(sent, expected);
}

/// RFC 4165, section 5.4: side B of the second example
#[test]
fn remote_processor_outage_stops_messages() {
    let mut subject = Subject::in_state(LinkState::InService);
    subject.send(0);
    subject.send(1);
    subject.sent();
    subject.receive(ProcessorOutage);
    let outage = LinkIndication::RemoteProcessorOutage;
    assert_eq!(subject.indications(), [outage]);
    // No T7; messages of the peer are acknowledged, those of MTP3 wait.
    subject.wait(Duration::from_secs(100));
    subject.send(2);
    subject.receive_data(NONE, 0);
    assert_eq!(subject.data(), [(number(0), number(1), false)]);
    assert_eq!(subject.indications(), received(&[0]));
    // The peer has discarded message 1: it is sent again, with its number.
    let recovered = Body::LinkStatus(ProcessorRecovered);
    subject.receive_on(1, number(0), number(0), recovered);
    let ceases = LinkIndication::RemoteProcessorOutageCeases;
    assert_eq!(subject.indications(), [ceases]);
    let sent = subject.sent();
    let bodies: Vec<_> = sent
        .iter()
        .map(|transmit| (transmit.message.fsn, transmit.message.body.clone()))
        .collect();
    let expected = [
        (number(0), Body::LinkStatus(Ready)),
        (number(1), Body::UserData(Some(msu(1)))),
        (number(2), Body::UserData(Some(msu(2)))),
    ];
    assert_eq!(bodies, expected);
    assert_eq!(subject.link.state(), LinkState::InService);
}

/// RFC 4165, section 4.1.4
#[test]
fn an_invalid_bsn_after_an_outage_ends_the_link() {
    let mut subject = Subject::in_state(LinkState::ProcessorOutage);
    let recovered = Body::LinkStatus(ProcessorRecovered);
    subject.receive_on(1, number(9), NONE, recovered);
    subject.failed(OutOfServiceReason::AbnormalBsn);
}

/// RFC 4165, section 4.2.2
#[test]
fn transmit_congestion_is_indicated() {
    let config = LinkConfig {
        congestion_onset: 3,
        congestion_abatement: 1,
        transmit_limit: BufferLimit {
            messages: 4,
            octets: 1 << 10,
        },
        ..LinkConfig::default()
    };
    let mut subject = Subject::in_state_with(LinkState::InService, config);
    subject.send(0);
    subject.send(1);
    assert_eq!(subject.indications(), []);
    subject.send(2);
    assert_eq!(subject.indications(), [LinkIndication::CongestionOnset]);
    subject.send(3);
    let full = subject.link.send(START, msu(4));
    assert_eq!(full, Err(LinkRequestError::BufferFull));
    subject.receive_on(1, number(1), NONE, Body::UserData(None));
    assert_eq!(subject.indications(), []);
    subject.receive_on(1, number(2), NONE, Body::UserData(None));
    let abatement = LinkIndication::CongestionAbatement;
    assert_eq!(subject.indications(), [abatement]);
    let long = Msu::new(0x8f, vec![0; 1020].into());
    let full = subject.link.send(START, long);
    assert_eq!(full, Err(LinkRequestError::BufferFull));
}

/// RFC 4165, section 4.1.4
#[test]
fn the_receive_buffer_is_bounded() {
    for (messages, octets) in [(2, 1 << 10), (10, 12)] {
        let config = LinkConfig {
            receive_limit: BufferLimit { messages, octets },
            ..LinkConfig::default()
        };
        let mut subject = Subject::in_state_with(LinkState::InService, config);
        subject.link.local_processor_outage();
        subject.receive_data(NONE, 0);
        subject.receive_data(NONE, 1);
        assert_eq!(subject.link.state(), LinkState::ProcessorOutage);
        subject.receive_data(NONE, 2);
        subject.failed(OutOfServiceReason::ReceiveBufferFull);
        assert_eq!(subject.link.retrieve_bsnt(), NONE);
    }
}

/// RFC 4165, section 4.2.3
#[test]
fn changeover_retrieves_messages() {
    let values = |retrieval| {
        let mut subject = Subject::in_state(LinkState::InService);
        (0..4).for_each(|value| subject.send(value));
        subject.receive_on(1, number(0), NONE, Body::UserData(None));
        subject.receive(Busy);
        subject.send(4);
        let early = subject.link.retrieve(retrieval);
        assert_eq!(early, Err(LinkRequestError::NotOutOfService));
        subject.link.stop();
        let late = subject.link.send(START, msu(5));
        assert_eq!(late, Err(LinkRequestError::NotInService));
        let messages = subject.link.retrieve(retrieval).expect("out of service");
        let again = subject.link.retrieve(Retrieval::All);
        assert_eq!(again, Ok(Vec::new()));
        let values = messages.into_iter().map(|msu| msu.sif[3]);
        values.collect::<Vec<_>>()
    };
    assert_eq!(values(Retrieval::After(number(0))), [1, 2, 3, 4]);
    assert_eq!(values(Retrieval::After(number(2))), [3, 4]);
    assert_eq!(values(Retrieval::After(number(3))), [4]);
    // Invalid numbers, and emergency changeover.
    assert_eq!(values(Retrieval::After(number(4))), [4]);
    assert_eq!(values(Retrieval::After(NONE)), [4]);
    assert_eq!(values(Retrieval::Unsent), [4]);
    assert_eq!(values(Retrieval::All), [1, 2, 3, 4]);
}

/// RFC 4165, section 4
#[test]
fn contradictory_configurations_are_errors() {
    let rejected = |config| Link::new(config).expect_err("a contradictory configuration");
    let base = LinkConfig::default;
    let filler = LinkConfig {
        proving_filler: 4094,
        ..base()
    };
    assert_eq!(rejected(filler), LinkConfigError::FillerTooLong(4094));
    let interval = LinkConfig {
        proving_interval: Duration::ZERO,
        ..base()
    };
    assert_eq!(rejected(interval), LinkConfigError::NoProvingInterval);
    let messages = BufferLimit::MAX_MESSAGES + 1;
    let buffer = LinkConfig {
        transmit_limit: BufferLimit {
            messages,
            octets: 1,
        },
        ..base()
    };
    assert_eq!(rejected(buffer), LinkConfigError::BufferTooLarge(messages));
    let thresholds = LinkConfig {
        congestion_onset: 5,
        congestion_abatement: 5,
        ..base()
    };
    let error = LinkConfigError::CongestionThresholds {
        onset: 5,
        abatement: 5,
    };
    assert_eq!(rejected(thresholds), error);
}

/// RFC 4165, section 4.1.4: the peer answers each Processor Recovered and Ready in order
#[test]
fn a_ready_answers_the_oldest_message() {
    let mut subject = Subject::in_state(LinkState::ProcessorOutage);
    subject.receive(ProcessorRecovered);
    assert_eq!(subject.statuses(), [(1, Ready)]);
    subject.link.local_processor_outage();
    subject.link.local_processor_recovered(START);
    subject.statuses();
    let ready = Body::LinkStatus(Ready);
    // To the Ready, then to Processor Recovered.
    subject.receive_on(1, NONE, NONE, ready.clone());
    assert_eq!(subject.statuses(), []);
    subject.receive_on(1, NONE, NONE, ready.clone());
    assert_eq!(subject.statuses(), [(1, Ready)]);
    subject.receive_on(1, NONE, NONE, ready);
    assert_eq!(subject.statuses(), []);
}

/// RFC 4165, section 4.1.4
#[test]
fn a_peer_that_owes_many_readys_ends_the_link() {
    for state in [LinkState::Proving, LinkState::InService] {
        let mut subject = Subject::in_state(state);
        for _ in 0..64 {
            subject.receive(ProcessorOutage);
            subject.receive(ProcessorRecovered);
        }
        assert_eq!(subject.link.state(), state);
        subject.receive(ProcessorOutage);
        subject.receive(ProcessorRecovered);
        subject.failed(OutOfServiceReason::ReadyMissing);
    }
}

/// RFC 4165, section 4.1.4: an outage of the peer during the proving period
#[test]
fn recovery_during_proving_is_answered_after_it() {
    let mut subject = Subject::in_state(LinkState::Proving);
    subject.receive(ProcessorOutage);
    subject.receive(ProcessorRecovered);
    assert_eq!(subject.statuses(), []);
    subject.wait(Duration::from_millis(8200));
    assert_eq!(subject.link.state(), LinkState::InService);
    let statuses = subject.statuses();
    let end = [(0, Ready), (1, Ready)];
    assert_eq!(statuses[statuses.len() - 2..], end);
}

/// RFC 4165, section 4.1.5: Busy overtakes the Processor Outage that ends the alignment
#[test]
fn busy_before_service_applies_in_service() {
    let mut subject = Subject::in_state(LinkState::AlignedReady);
    subject.receive(Busy);
    subject.receive(Ready);
    subject.send(0);
    assert_eq!(subject.data(), []);
    subject.receive(BusyEnded);
    assert_eq!(subject.data(), [(NONE, number(0), true)]);
}
