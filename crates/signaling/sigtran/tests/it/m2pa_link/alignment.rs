//! Alignment, and the end of a link.

use super::*;

/// RFC 4165, section 4.1.3
#[test]
fn alignment_begins_with_the_association() {
    let mut link = Link::new(LinkConfig::default()).expect("a valid configuration");
    link.start(START).expect("out of service");
    assert_eq!(link.start(START), Err(LinkRequestError::Started));
    assert_eq!(link.poll_transmit(), None);
    link.handle_sctp(START, UP);
    let mut subject = Subject { link, now: START };
    assert_eq!(subject.statuses(), [(0, OutOfService), (0, Alignment)]);
    assert_eq!(subject.link.state(), LinkState::NotAligned);
}

/// RFC 4165, section 4.1.3
#[test]
fn an_association_that_fails_is_reported_after_start() {
    let mut link = Link::new(LinkConfig::default()).expect("a valid configuration");
    link.handle_sctp(START, SctpNotification::Down);
    assert_eq!(link.poll_indication(), None);
    let one = SctpNotification::Up {
        outbound_streams: 1,
    };
    for (notification, reason) in [
        (SctpNotification::Down, OutOfServiceReason::AssociationLost),
        (one, OutOfServiceReason::TooFewStreams),
    ] {
        link.start(START).expect("out of service");
        link.handle_sctp(START, notification);
        let indication = LinkIndication::OutOfService(reason);
        assert_eq!(link.poll_indication(), Some(indication));
        assert_eq!(link.poll_transmit(), None);
    }
}

/// RFC 4165, section 5.1
#[test]
fn initial_alignment_proceeds_as_in_the_figures() {
    let mut subject = Subject::new(LinkConfig::default());
    subject.link.start(START).expect("out of service");
    assert_eq!(subject.statuses(), [(0, Alignment)]);
    subject.receive(Alignment);
    assert_eq!(subject.link.state(), LinkState::Aligned);
    assert_eq!(subject.statuses(), [(0, proving(false))]);
    subject.receive(proving(false));
    assert_eq!(subject.link.state(), LinkState::Proving);
    subject.wait(Duration::from_millis(8199));
    // One at the begin, and one each Proving_Interval.
    assert_eq!(subject.statuses(), vec![(0, proving(false)); 82]);
    subject.wait(Duration::from_millis(1));
    assert_eq!(subject.statuses().last(), Some(&(0, Ready)));
    assert_eq!(subject.link.state(), LinkState::AlignedReady);
    subject.receive(Ready);
    assert_eq!(subject.link.state(), LinkState::InService);
    assert_eq!(subject.indications(), [LinkIndication::InService]);
    assert_eq!(subject.link.poll_timeout(), None);
}

/// RFC 4165, section 4.1.3: a Proving message is as good as an Alignment
#[test]
fn proving_ends_not_aligned() {
    let mut subject = Subject::in_state(LinkState::NotAligned);
    subject.receive(proving(true));
    assert_eq!(subject.link.state(), LinkState::Aligned);
    // The proving period is the emergency one, the state of this side is not.
    assert_eq!(subject.statuses(), [(0, proving(false))]);
    subject.receive(proving(false));
    subject.wait(Duration::from_millis(500));
    assert_eq!(subject.link.state(), LinkState::AlignedReady);
}

/// RFC 4165, section 4.1.3
#[test]
fn emergency_shortens_the_proving_period() {
    let mut before = Subject::new(LinkConfig::default());
    before.link.emergency(START);
    before.link.start(START).expect("out of service");
    before.receive(Alignment);
    let statuses = before.statuses();
    assert_eq!(statuses, [(0, Alignment), (0, proving(true))]);
    let mut aligned = Subject::in_state(LinkState::Aligned);
    aligned.link.emergency(START);
    assert_eq!(aligned.statuses(), [(0, proving(true))]);
    let mut by_peer = Subject::in_state(LinkState::Proving);
    by_peer.receive(proving(true));
    let mut during = Subject::in_state(LinkState::Proving);
    during.link.emergency(START);
    assert_eq!(during.statuses(), [(0, proving(true))]);
    for mut subject in [before, aligned, by_peer, during] {
        subject.receive(proving(false));
        subject.wait(Duration::from_millis(499));
        assert_eq!(subject.link.state(), LinkState::Proving);
        subject.wait(Duration::from_millis(1));
        assert_eq!(subject.link.state(), LinkState::AlignedReady);
    }
    let mut ceased = Subject::new(LinkConfig::default());
    ceased.link.emergency(START);
    ceased.link.emergency_ceases();
    ceased.link.start(START).expect("out of service");
    ceased.receive(Alignment);
    let statuses = ceased.statuses();
    assert_eq!(statuses, [(0, Alignment), (0, proving(false))]);
}

/// RFC 4165, section 2.3.2.1
#[test]
fn fillers_differ() {
    let mut subject = Subject::in_state(LinkState::Proving);
    subject.wait(Duration::from_secs(5));
    let mut fillers: Vec<_> = subject
        .sent()
        .into_iter()
        .map(|transmit| match transmit.message.body {
            Body::LinkStatus(LinkStatus::ProvingNormal(filler)) => filler,
            other => panic!("{other:?} during the proving period"),
        })
        .collect();
    assert!(fillers.iter().all(|filler| filler.len() == 64));
    let count = fillers.len();
    fillers.sort();
    fillers.dedup();
    assert_eq!((count, fillers.len()), (50, 50));
}

/// RFC 4165, section 4.1.3: T1, T2 and T3 of Q.703
#[test]
fn alignment_without_a_peer_fails() {
    let not_possible = OutOfServiceReason::AlignmentNotPossible;
    let not_ready = OutOfServiceReason::PeerNotReady;
    for (state, milliseconds, reason) in [
        (LinkState::NotAligned, 20_000, not_possible),
        (LinkState::Aligned, 1_500, not_possible),
        (LinkState::AlignedReady, 45_000, not_ready),
        (LinkState::AlignedNotReady, 45_000, not_ready),
    ] {
        let mut subject = Subject::in_state(state);
        subject.wait(Duration::from_millis(milliseconds - 1));
        assert_eq!(subject.link.state(), state);
        subject.wait(Duration::from_millis(1));
        subject.failed(reason);
    }
}

/// RFC 4165, section 4.1.6
#[test]
fn out_of_service_of_the_peer_ends_the_link() {
    for state in subject_states() {
        let mut subject = Subject::in_state(state);
        subject.receive(OutOfService);
        if matches!(state, LinkState::OutOfService | LinkState::NotAligned) {
            assert_eq!(subject.link.state(), state);
            assert_eq!(subject.statuses(), []);
        } else {
            subject.failed(OutOfServiceReason::PeerOutOfService);
        }
    }
}

/// RFC 4165, section 4.1.3
#[test]
fn alignment_of_the_peer_restarts_or_ends_the_link() {
    for state in subject_states() {
        let mut subject = Subject::in_state(state);
        subject.receive(Alignment);
        match state {
            LinkState::OutOfService => assert_eq!(subject.link.state(), state),
            LinkState::NotAligned | LinkState::Aligned | LinkState::Proving => {
                assert_eq!(subject.link.state(), LinkState::Aligned);
            }
            _ => subject.failed(OutOfServiceReason::PeerRealigned),
        }
    }
}

/// RFC 4165, section 4.1.2: the streams have no order among each other
#[test]
fn late_proving_is_ignored() {
    for state in &subject_states()[4..] {
        let mut subject = Subject::in_state(*state);
        subject.receive(proving(true));
        assert_eq!(subject.link.state(), *state);
    }
}

/// RFC 4165, section 4.1.2
#[test]
fn messages_on_the_wrong_stream_are_discarded() {
    let mut subject = Subject::in_state(LinkState::InService);
    let mut wrong = |stream, body| {
        subject.receive_on(stream, NONE, number(0), body);
        assert_eq!(subject.link.state(), LinkState::InService);
        assert_eq!(subject.indications(), []);
    };
    wrong(0, Body::UserData(Some(msu(0))));
    wrong(0, Body::LinkStatus(ProcessorOutage));
    wrong(1, Body::LinkStatus(OutOfService));
    wrong(1, Body::LinkStatus(Alignment));
    wrong(2, Body::UserData(Some(msu(0))));
}

/// RFC 4165, section 5.7
#[test]
fn stop_ends_the_link_in_every_state() {
    for state in subject_states() {
        let mut subject = Subject::in_state(state);
        subject.link.stop();
        if state == LinkState::OutOfService {
            assert_eq!(subject.statuses(), []);
        } else {
            subject.failed(OutOfServiceReason::Stopped);
        }
        subject.link.start(START).expect("out of service");
    }
}

/// RFC 4165, section 4.1.7
#[test]
fn association_problems_end_the_link() {
    let restarted = SctpNotification::Restarted {
        outbound_streams: 2,
    };
    for state in &subject_states()[1..] {
        let mut subject = Subject::in_state(*state);
        subject
            .link
            .handle_sctp(START, SctpNotification::SendFailure);
        subject.failed(OutOfServiceReason::SendFailure);
        let lost = OutOfServiceReason::AssociationLost;
        let mut subject = Subject::in_state(*state);
        subject.link.handle_sctp(START, SctpNotification::Down);
        assert_eq!(subject.link.state(), LinkState::OutOfService);
        assert_eq!(subject.sent(), []);
        let indications = subject.indications();
        assert_eq!(indications, [LinkIndication::OutOfService(lost)]);
        let mut subject = Subject::in_state(*state);
        subject.link.handle_sctp(START, restarted);
        subject.failed(lost);
    }
}

/// RFC 4165, section 4.1.3: the peer may have finished its proving first
#[test]
fn ready_during_proving_is_kept() {
    let mut subject = Subject::in_state(LinkState::Proving);
    subject.receive(Ready);
    subject.receive_data(NONE, 0);
    assert_eq!(subject.indications(), []);
    subject.wait(Duration::from_millis(8200));
    assert_eq!(subject.link.state(), LinkState::InService);
    let mut expected = vec![LinkIndication::InService];
    expected.extend(received(&[0]));
    assert_eq!(subject.indications(), expected);
}

/// RFC 4165, section 4.1.3: User Data in place of Ready
#[test]
fn user_data_ends_the_alignment() {
    let mut subject = Subject::in_state(LinkState::AlignedReady);
    // A message of an earlier alignment does not.
    subject.receive_data(NONE, 7);
    assert_eq!(subject.link.state(), LinkState::AlignedReady);
    subject.receive_data(NONE, 0);
    assert_eq!(subject.link.state(), LinkState::InService);
    assert_eq!(subject.data(), [(number(0), NONE, false)]);
}

/// RFC 4165, section 4.1.3: Processor Outage in place of Ready
#[test]
fn alignment_can_end_in_processor_outage() {
    let mut local = Subject::in_state(LinkState::Proving);
    local.link.local_processor_outage();
    local.wait(Duration::from_millis(8200));
    assert_eq!(local.statuses().last(), Some(&(1, ProcessorOutage)));
    assert_eq!(local.link.state(), LinkState::AlignedNotReady);
    local.receive(Ready);
    assert_eq!(local.link.state(), LinkState::ProcessorOutage);
    assert_eq!(local.indications(), [LinkIndication::InService]);

    let expected = [
        LinkIndication::InService,
        LinkIndication::RemoteProcessorOutage,
    ];
    for (state, wait) in [(LinkState::AlignedReady, 0), (LinkState::Proving, 8200)] {
        let mut remote = Subject::in_state(state);
        remote.receive(ProcessorOutage);
        remote.wait(Duration::from_millis(wait));
        assert_eq!(remote.link.state(), LinkState::ProcessorOutage);
        assert_eq!(remote.indications(), expected);
    }

    let mut recovered = Subject::in_state(LinkState::AlignedNotReady);
    recovered.link.local_processor_recovered(START);
    assert_eq!(recovered.link.state(), LinkState::AlignedReady);
    assert_eq!(recovered.statuses(), [(1, ProcessorRecovered)]);
    recovered.receive_on(1, NONE, NONE, Body::LinkStatus(Ready));
    assert_eq!(recovered.link.state(), LinkState::InService);
    assert_eq!(recovered.statuses(), [(1, Ready)]);
}
