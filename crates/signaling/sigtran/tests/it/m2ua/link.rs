//! Link at the ASP and at the SGP, with the flows of section 5.3.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::m2ua::link::*;
use carrick_sigtran::m2ua::*;

use super::samples::{LINK, full, text};

use LinkIndication as Indication;

const START: Time = Time::from_millis(1);

/// Both ends of a link. Its MTP2 is the test.
struct Pair {
    asp: AspLink,
    sgp: SgpLink,
}

impl Pair {
    fn new() -> Self {
        Self {
            asp: AspLink::new(AspLinkConfig::default(), LINK),
            sgp: SgpLink::new(SgpLinkConfig::default(), LINK),
        }
    }

    fn in_service() -> Self {
        let mut pair = Self::new();
        pair.sgp.in_service();
        assert_eq!(pair.indications(), [Indication::InService]);
        pair
    }

    /// Exchanges all messages, and returns what MTP2 is requested.
    fn exchange(&mut self) -> Vec<Mtp2Request> {
        loop {
            let sent: Vec<_> = std::iter::from_fn(|| self.asp.poll_transmit()).collect();
            let answers: Vec<_> = std::iter::from_fn(|| self.sgp.poll_transmit()).collect();
            if sent.is_empty() && answers.is_empty() {
                break;
            }
            for message in sent {
                assert_eq!(message.identifier(), Some(&LINK));
                message.encode().expect("a valid message");
                self.sgp.handle_message(&message);
            }
            for message in answers {
                assert_eq!(message.identifier(), Some(&LINK));
                message.encode().expect("a valid message");
                self.asp.handle_message(&message);
            }
        }
        std::iter::from_fn(|| self.sgp.poll_request()).collect()
    }

    fn request(&mut self, request: LinkRequest) -> Vec<Mtp2Request> {
        self.asp.request(START, request);
        self.exchange()
    }

    fn indications(&mut self) -> Vec<Indication> {
        assert_eq!(self.exchange(), []);
        std::iter::from_fn(|| self.asp.poll_indication()).collect()
    }
}

fn msu(value: u8) -> ProtocolData {
    ProtocolData::Mtp2(Bytes::copy_from_slice(&[0x85, value]))
}

/// RFC 3331, section 5.3.1
#[test]
fn links_are_aligned() {
    let mut pair = Pair::new();
    let emergency = LinkRequest::State(State::EmergencySet);
    assert_eq!(
        pair.request(emergency),
        [Mtp2Request::State(State::EmergencySet)]
    );
    pair.sgp.confirm_state(State::EmergencySet);
    assert_eq!(
        pair.indications(),
        [Indication::StateConfirmed(State::EmergencySet)]
    );
    assert_eq!(pair.request(LinkRequest::Establish), [Mtp2Request::Start]);
    assert_eq!(pair.indications(), []);
    pair.sgp.in_service();
    assert_eq!(pair.indications(), [Indication::InService]);
    assert!(pair.asp.is_in_service());
    assert_eq!(pair.asp.poll_timeout(), None);
    // A link that is in service needs no action (section 3.3.1.3).
    assert_eq!(pair.request(LinkRequest::Establish), []);
    assert_eq!(pair.indications(), [Indication::InService]);
}

/// RFC 3331, section 3.3.1.3
#[test]
fn establish_requests_are_repeated() {
    let mut pair = Pair::new();
    assert_eq!(pair.request(LinkRequest::Establish), [Mtp2Request::Start]);
    let mut now = START;
    for _ in 0..20 {
        let next = pair.asp.poll_timeout().expect("a repetition");
        assert_eq!(next, now + Duration::from_secs(30));
        now = next;
        pair.asp.handle_timeout(now);
        // The SGP starts the link once.
        assert_eq!(pair.exchange(), []);
    }
    // The alignment failed: MTP3 decides.
    pair.sgp.out_of_service();
    assert_eq!(pair.indications(), [Indication::OutOfService]);
    assert_eq!(pair.asp.poll_timeout(), None);
    assert_eq!(pair.request(LinkRequest::Establish), [Mtp2Request::Start]);
}

/// RFC 3331, section 5.3.2
#[test]
fn links_are_released() {
    let mut pair = Pair::in_service();
    assert_eq!(pair.request(LinkRequest::Release), [Mtp2Request::Stop]);
    pair.sgp.out_of_service();
    let Some(Message::ReleaseConfirm(confirm)) = pair.sgp.poll_transmit() else {
        panic!("a Release Confirm");
    };
    pair.asp.handle_message(&Message::ReleaseConfirm(confirm));
    assert_eq!(pair.indications(), [Indication::OutOfService]);
    assert!(!pair.asp.is_in_service());
    // A link that is out of service is confirmed at once.
    assert_eq!(pair.request(LinkRequest::Release), []);
    assert_eq!(pair.indications(), [Indication::OutOfService]);
    // A failure of the link.
    let mut pair = Pair::in_service();
    pair.sgp.out_of_service();
    let Some(Message::ReleaseIndication(indication)) = pair.sgp.poll_transmit() else {
        panic!("a Release Indication");
    };
    pair.asp
        .handle_message(&Message::ReleaseIndication(indication));
    assert_eq!(pair.indications(), [Indication::OutOfService]);
}

/// RFC 3331, section 3.3.1.4: requests that follow each other
#[test]
fn later_requests_replace_earlier_ones() {
    let mut pair = Pair::new();
    assert_eq!(pair.request(LinkRequest::Establish), [Mtp2Request::Start]);
    assert_eq!(pair.request(LinkRequest::Release), [Mtp2Request::Stop]);
    assert_eq!(pair.request(LinkRequest::Establish), [Mtp2Request::Start]);
    pair.sgp.out_of_service();
    assert_eq!(pair.indications(), [Indication::OutOfService]);
    assert!(pair.asp.poll_timeout().is_some());
    pair.sgp.in_service();
    assert_eq!(pair.indications(), [Indication::InService]);
    assert_eq!(pair.asp.poll_timeout(), None);
    // Only the repetition of the last request is running.
    let mut asp = AspLink::new(AspLinkConfig::default(), LINK);
    asp.request(START, LinkRequest::Establish);
    asp.request(START, LinkRequest::Release);
    assert_eq!(asp.poll_timeout(), Some(START + Duration::from_secs(2)));
    asp.request(START, LinkRequest::Establish);
    assert_eq!(asp.poll_timeout(), Some(START + Duration::from_secs(30)));
}

/// RFC 3331, sections 5.3.3 and 5.3.7
#[test]
fn states_are_requested_and_confirmed() {
    for state in [
        State::LocalProcessorOutageSet,
        State::LocalProcessorOutageClear,
        State::EmergencyClear,
        State::FlushBuffers,
        State::Continue,
        State::ClearRetransmitQueue,
        State::CongestionClear,
        State::CongestionAccept,
        State::CongestionDiscard,
    ] {
        let mut pair = Pair::in_service();
        let requests = pair.request(LinkRequest::State(state));
        assert_eq!(requests, [Mtp2Request::State(state)]);
        assert!(pair.asp.poll_timeout().is_some());
        pair.sgp.confirm_state(state);
        assert_eq!(pair.indications(), [Indication::StateConfirmed(state)]);
        assert_eq!(pair.asp.poll_timeout(), None);
    }
}

/// RFC 3331, section 5.3.4
#[test]
fn processor_outages_are_indicated() {
    let mut pair = Pair::in_service();
    pair.sgp.remote_processor_outage(true);
    pair.sgp.remote_processor_outage(false);
    pair.sgp.local_processor_outage(true);
    pair.sgp.local_processor_outage(false);
    let events = [
        Event::RemoteProcessorOutageEnter,
        Event::RemoteProcessorOutageExit,
        Event::LocalProcessorOutageEnter,
        Event::LocalProcessorOutageExit,
    ];
    assert_eq!(pair.indications(), events.map(Indication::Event));
}

fn congestion(congestion: CongestionStatus, discard: DiscardStatus) -> Indication {
    Indication::Congestion {
        congestion,
        discard: Some(discard),
    }
}

/// RFC 3331, sections 3.3.1.8 and 5.3.5: changes only, and not too often
#[test]
fn congestion_is_indicated_when_it_changes() {
    let mut pair = Pair::in_service();
    let (level, none) = (CongestionStatus::Level1, DiscardStatus::None);
    pair.sgp.congestion(START, CongestionStatus::None, none);
    assert_eq!(pair.indications(), []);
    pair.sgp.congestion(START, level, none);
    pair.sgp.congestion(START, level, none);
    assert_eq!(pair.indications(), [congestion(level, none)]);
    assert_eq!(pair.sgp.poll_timeout(), None);
    // Changes within the interval are joined.
    pair.sgp.congestion(START, CongestionStatus::Level2, none);
    pair.sgp
        .congestion(START, CongestionStatus::Level3, DiscardStatus::Level1);
    assert_eq!(pair.indications(), []);
    let next = START + Duration::from_millis(500);
    assert_eq!(pair.sgp.poll_timeout(), Some(next));
    pair.sgp.handle_timeout(next);
    let last = congestion(CongestionStatus::Level3, DiscardStatus::Level1);
    assert_eq!(pair.indications(), [last]);
    assert_eq!(pair.sgp.poll_timeout(), None);
    // A change that is taken back is none.
    pair.sgp.congestion(next, CongestionStatus::None, none);
    pair.sgp
        .congestion(next, CongestionStatus::Level3, DiscardStatus::Level1);
    assert_eq!(pair.sgp.poll_timeout(), None);
}

/// RFC 3331, section 5.3.6
#[test]
fn messages_are_retrieved_for_a_changeover() {
    let mut pair = Pair::in_service();
    assert_eq!(
        pair.request(LinkRequest::RetrieveBsn),
        [Mtp2Request::RetrieveBsn]
    );
    let bsn = Some(SequenceNumber(41));
    pair.sgp.confirm_bsn(bsn);
    assert_eq!(pair.indications(), [Indication::Bsn(bsn)]);
    let fsn = SequenceNumber(17);
    let requests = pair.request(LinkRequest::RetrieveMessages(fsn));
    assert_eq!(requests, [Mtp2Request::RetrieveMessages(Some(fsn))]);
    pair.sgp
        .confirm_messages(Some(vec![msu(1), msu(2), msu(3)]));
    assert_eq!(
        pair.indications(),
        [
            Indication::Retrieval,
            Indication::Retrieved(msu(1)),
            Indication::Retrieved(msu(2)),
            Indication::Retrieved(msu(3)),
            Indication::RetrievalComplete,
        ]
    );
    assert_eq!(pair.asp.poll_timeout(), None);
}

/// RFC 3331, sections 3.3.1.10 and 3.3.1.12: failures, and a last message beside the completion
#[test]
fn retrievals_can_fail() {
    let mut pair = Pair::in_service();
    pair.request(LinkRequest::RetrieveBsn);
    pair.sgp.confirm_bsn(None);
    assert_eq!(pair.indications(), [Indication::Bsn(None)]);
    pair.request(LinkRequest::RetrieveMessages(SequenceNumber(17)));
    pair.sgp.confirm_messages(None);
    assert_eq!(pair.indications(), [Indication::RetrievalFailed]);
    pair.request(LinkRequest::RetrieveMessages(SequenceNumber(17)));
    let confirm = RetrievalConfirm {
        identifier: LINK,
        action: Action::RetrieveMessages,
        result: RetrievalResult::Success,
        sequence_number: None,
    };
    pair.asp.handle_message(&Message::RetrievalConfirm(confirm));
    let complete = RetrievalComplete {
        identifier: LINK,
        protocol_data: Some(msu(9)),
    };
    pair.asp
        .handle_message(&Message::RetrievalComplete(complete));
    let expected = [
        Indication::Retrieval,
        Indication::Retrieved(msu(9)),
        Indication::RetrievalComplete,
    ];
    assert_eq!(pair.indications(), expected);
}

/// RFC 3331, section 5.3.8
#[test]
fn audits_answer_with_the_state_of_the_link() {
    let audit = LinkRequest::State(State::Audit);
    let confirmed = Indication::StateConfirmed(State::Audit);
    let mut pair = Pair::new();
    assert_eq!(pair.request(audit), []);
    assert_eq!(
        pair.indications(),
        [Indication::OutOfService, confirmed.clone()]
    );
    let mut pair = Pair::in_service();
    assert_eq!(pair.request(audit), []);
    assert_eq!(
        pair.indications(),
        [Indication::InService, confirmed.clone()]
    );
    pair.sgp
        .congestion(START, CongestionStatus::Level3, DiscardStatus::None);
    pair.sgp.remote_processor_outage(true);
    pair.sgp.local_processor_outage(true);
    pair.indications();
    assert_eq!(pair.request(audit), []);
    let expected = [
        Indication::InService,
        Indication::Event(Event::RemoteProcessorOutageEnter),
        Indication::Event(Event::LocalProcessorOutageEnter),
        congestion(CongestionStatus::Level3, DiscardStatus::None),
        confirmed.clone(),
    ];
    assert_eq!(pair.indications(), expected);
    // The end of the service ends the rest.
    pair.sgp.out_of_service();
    pair.sgp.in_service();
    pair.indications();
    assert_eq!(pair.request(audit), []);
    assert_eq!(pair.indications(), [Indication::InService, confirmed]);
}

/// RFC 3331, sections 3.3.1.1 and 3.3.1.2
#[test]
fn data_with_correlation_ids_are_acknowledged() {
    let mut pair = Pair::in_service();
    pair.asp.send(msu(1), None);
    pair.asp.send(msu(2), Some(CorrelationId(7)));
    assert_eq!(
        pair.exchange(),
        [Mtp2Request::Data(msu(1)), Mtp2Request::Data(msu(2))]
    );
    assert_eq!(
        pair.indications(),
        [Indication::Acknowledged(CorrelationId(7))]
    );
    pair.sgp.send(msu(3), None);
    pair.sgp.send(msu(4), Some(CorrelationId(8)));
    assert_eq!(
        pair.exchange(),
        [Mtp2Request::Acknowledged(CorrelationId(8))]
    );
    assert_eq!(
        pair.indications(),
        [Indication::Data(msu(3)), Indication::Data(msu(4))]
    );
}

/// RFC 3331, section 3.3.1.5: requests without an answer
#[test]
fn unanswered_requests_fail() {
    let requests = [
        LinkRequest::Release,
        LinkRequest::State(State::Audit),
        LinkRequest::RetrieveBsn,
        LinkRequest::RetrieveMessages(SequenceNumber(1)),
    ];
    for request in requests {
        let mut asp = AspLink::new(AspLinkConfig::default(), LINK);
        asp.request(START, request);
        let mut sent = 0;
        while let Some(next) = asp.poll_timeout() {
            sent += std::iter::from_fn(|| asp.poll_transmit()).count();
            asp.handle_timeout(next);
        }
        assert_eq!(sent, 5);
        assert_eq!(asp.poll_indication(), Some(Indication::Unanswered(request)));
        // An ASP that is not active does not repeat them.
        asp.request(START, request);
        asp.handle_inactive();
        assert_eq!(asp.poll_timeout(), None);
    }
}

/// RFC 3331, section 3.3.3.1: Unexpected Message
#[test]
fn messages_of_the_own_side_are_errors() {
    let to_sgp = [
        kinds::ESTABLISH_REQUEST,
        kinds::RELEASE_REQUEST,
        kinds::STATE_REQUEST,
        kinds::RETRIEVAL_REQUEST,
    ];
    // Retrieved messages are unexpected without a retrieval.
    let to_asp = [
        kinds::ESTABLISH_CONFIRM,
        kinds::RELEASE_CONFIRM,
        kinds::RELEASE_INDICATION,
        kinds::STATE_CONFIRM,
        kinds::STATE_INDICATION,
        kinds::CONGESTION_INDICATION,
        kinds::RETRIEVAL_CONFIRM,
        kinds::RETRIEVAL_INDICATION,
        kinds::RETRIEVAL_COMPLETE,
    ];
    let retrieved = [kinds::RETRIEVAL_INDICATION, kinds::RETRIEVAL_COMPLETE];
    let name = InterfaceIdentifier::Text(text("link"));
    for message in full() {
        let kind = message.kind();
        let mut pair = Pair::new();
        let mut sent = Vec::new();
        if to_sgp.contains(&kind) || retrieved.contains(&kind) {
            pair.asp = AspLink::new(AspLinkConfig::default(), name.clone());
            pair.asp.handle_message(&message);
            sent.push(pair.asp.poll_transmit());
        }
        if to_asp.contains(&kind) {
            pair.sgp.handle_message(&message);
            sent.push(pair.sgp.poll_transmit());
        }
        for answer in sent {
            let Some(Message::Error(error)) = answer else {
                panic!("an Error message to {message:?}");
            };
            assert_eq!(error.code, ErrorCode::UNEXPECTED_MESSAGE);
            assert!(error.identifiers.is_some());
            Message::Error(error).encode().expect("a valid message");
        }
    }
}
