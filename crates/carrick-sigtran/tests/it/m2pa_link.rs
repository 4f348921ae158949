//! States of a link of M2PA, each transition by itself.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::m2pa::link::*;
use carrick_sigtran::m2pa::*;

use LinkStatus::{
    Alignment, Busy, BusyEnded, OutOfService, ProcessorOutage, ProcessorRecovered, Ready,
};

const UP: SctpNotification = SctpNotification::Up {
    outbound_streams: 2,
};
const START: Time = Time::from_millis(1);

pub(crate) fn msu(value: u32) -> Msu {
    Msu::new(0x8f, Bytes::copy_from_slice(&value.to_be_bytes()))
}

fn number(value: u32) -> SequenceNumber {
    SequenceNumber::new(value).expect("24 bits")
}

/// FSN and BSN before the first message.
const NONE: SequenceNumber = SequenceNumber::MAX;

fn proving(emergency: bool) -> LinkStatus {
    if emergency {
        LinkStatus::ProvingEmergency(Bytes::new())
    } else {
        LinkStatus::ProvingNormal(Bytes::new())
    }
}

/// Link whose peer is the test.
struct Subject {
    link: Link,
    now: Time,
}

impl Subject {
    /// Link with an association, out of service.
    fn new(config: LinkConfig) -> Self {
        let link = Link::new(config).expect("a valid configuration");
        let mut subject = Self { link, now: START };
        subject.link.handle_sctp(START, UP);
        assert_eq!(subject.statuses(), [(0, OutOfService)]);
        subject
    }

    /// Link in a state.
    fn in_state(state: LinkState) -> Self {
        Self::in_state_with(state, LinkConfig::default())
    }

    fn in_state_with(state: LinkState, config: LinkConfig) -> Self {
        let mut subject = Self::new(config);
        let position = |of| subject_states().iter().position(|state| *state == of);
        let reaches = |of| position(state) >= position(of);
        if reaches(LinkState::NotAligned) {
            subject.link.start(START).expect("out of service");
        }
        if reaches(LinkState::Aligned) {
            subject.receive(Alignment);
        }
        if reaches(LinkState::Proving) {
            subject.receive(proving(false));
        }
        if state == LinkState::AlignedNotReady {
            subject.link.local_processor_outage();
        }
        if reaches(LinkState::AlignedReady) {
            subject.wait(Duration::from_millis(8200));
        }
        if reaches(LinkState::InService) {
            subject.receive(Ready);
        }
        if reaches(LinkState::ProcessorOutage) {
            subject.receive(ProcessorOutage);
        }
        assert_eq!(subject.link.state(), state);
        subject.statuses();
        subject.indications();
        subject
    }

    /// Receives a Link Status on its stream.
    fn receive(&mut self, status: LinkStatus) {
        let in_sequence = matches!(status, ProcessorOutage | ProcessorRecovered);
        self.receive_on(u16::from(in_sequence), NONE, NONE, Body::LinkStatus(status));
    }

    fn receive_on(&mut self, stream: u16, bsn: SequenceNumber, fsn: SequenceNumber, body: Body) {
        let message = Message { bsn, fsn, body };
        self.link.handle_message(self.now, stream, message);
    }

    /// Receives a message with data; its content is its FSN.
    fn receive_data(&mut self, bsn: SequenceNumber, fsn: u32) {
        let body = Body::UserData(Some(msu(fsn)));
        self.receive_on(1, bsn, number(fsn), body);
    }

    fn send(&mut self, value: u32) {
        let result = self.link.send(self.now, msu(value));
        result.expect("a link in service with room in its buffers");
    }

    /// Lets time pass, from timeout to timeout.
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(at) = self.link.poll_timeout().filter(|at| *at <= end) {
            self.now = at;
            self.link.handle_timeout(at);
        }
        self.now = end;
    }

    fn sent(&mut self) -> Vec<Transmit> {
        let sent: Vec<_> = std::iter::from_fn(|| self.link.poll_transmit()).collect();
        for transmit in &sent {
            let octets = transmit.message.encode().expect("a message that fits");
            assert_eq!(Message::decode(&octets).as_ref(), Ok(&transmit.message));
        }
        sent
    }

    /// Link Status messages that were sent, with their stream and without filler.
    fn statuses(&mut self) -> Vec<(u16, LinkStatus)> {
        let sent = self.sent().into_iter();
        let statuses = sent.filter_map(|transmit| match transmit.message.body {
            Body::LinkStatus(LinkStatus::ProvingNormal(_)) => {
                Some((transmit.stream, proving(false)))
            }
            Body::LinkStatus(LinkStatus::ProvingEmergency(_)) => {
                Some((transmit.stream, proving(true)))
            }
            Body::LinkStatus(status) => Some((transmit.stream, status)),
            Body::UserData(_) => None,
        });
        statuses.collect()
    }

    /// BSN, FSN and whether there is data, of the User Data that was sent.
    fn data(&mut self) -> Vec<(SequenceNumber, SequenceNumber, bool)> {
        let sent = self.sent().into_iter();
        let data = sent.filter_map(|transmit| match transmit.message.body {
            Body::UserData(msu) => {
                assert_eq!(transmit.stream, 1);
                Some((transmit.message.bsn, transmit.message.fsn, msu.is_some()))
            }
            Body::LinkStatus(_) => None,
        });
        data.collect()
    }

    fn indications(&mut self) -> Vec<LinkIndication> {
        std::iter::from_fn(|| self.link.poll_indication()).collect()
    }

    /// Expects that the link has left service for a reason, and sent Out of Service.
    fn failed(&mut self, reason: OutOfServiceReason) {
        assert_eq!(self.link.state(), LinkState::OutOfService);
        assert!(self.statuses().contains(&(0, OutOfService)));
        let indications = self.indications();
        assert!(indications.contains(&LinkIndication::OutOfService(reason)));
        assert_eq!(self.link.poll_timeout(), None);
    }
}

/// States in the order of an alignment.
fn subject_states() -> [LinkState; 8] {
    [
        LinkState::OutOfService,
        LinkState::NotAligned,
        LinkState::Aligned,
        LinkState::Proving,
        LinkState::AlignedReady,
        LinkState::AlignedNotReady,
        LinkState::InService,
        LinkState::ProcessorOutage,
    ]
}

fn received(values: &[u32]) -> Vec<LinkIndication> {
    let values = values.iter().copied();
    values.map(msu).map(LinkIndication::Received).collect()
}

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
