//! Data link at the ASP and at the SG, with the flows of sections 5.3 and 5.4.

use std::time::Duration;

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::iua::link::*;
use carrick_sigtran::iua::*;

use super::samples::{dlci, full};

use DataLinkIndication as Indication;

const START: Time = Time::from_millis(1);
const INTERFACE: InterfaceIdentifier = InterfaceIdentifier::Integer(7);

/// Both ends of a data link. Its Q.921 is the test.
struct Pair {
    asp: AspDataLink,
    sg: SgDataLink,
}

impl Pair {
    fn new() -> Self {
        Self {
            asp: AspDataLink::new(AspDataLinkConfig::default(), INTERFACE, dlci()),
            sg: SgDataLink::new(INTERFACE, dlci(), TeiStatus::Assigned),
        }
    }

    fn established() -> Self {
        let mut pair = Self::new();
        pair.sg.establish_indication();
        assert_eq!(pair.indications(), [Indication::Established]);
        assert_eq!(pair.asp.state(), DataLinkState::Established);
        pair
    }

    /// Exchanges all messages, and returns what Q.921 is requested.
    fn exchange(&mut self) -> Vec<Q921Request> {
        loop {
            let sent: Vec<_> = std::iter::from_fn(|| self.asp.poll_transmit()).collect();
            let answers: Vec<_> = std::iter::from_fn(|| self.sg.poll_transmit()).collect();
            if sent.is_empty() && answers.is_empty() {
                break;
            }
            for message in sent {
                message.encode().expect("a valid message");
                self.sg.handle_message(&message);
            }
            for message in answers {
                message.encode().expect("a valid message");
                self.asp.handle_message(&message);
            }
        }
        std::iter::from_fn(|| self.sg.poll_request()).collect()
    }

    fn indications(&mut self) -> Vec<Indication> {
        assert_eq!(self.exchange(), []);
        std::iter::from_fn(|| self.asp.poll_indication()).collect()
    }
}

fn data(value: u8) -> ProtocolData {
    ProtocolData(Bytes::copy_from_slice(&[8, 1, value]))
}

const RELEASED: Indication = Indication::Released { reason: None };

/// RFC 4233, section 5.3
#[test]
fn data_links_are_established_and_released() {
    let mut pair = Pair::new();
    pair.asp.establish(START);
    assert_eq!(pair.asp.state(), DataLinkState::AwaitingEstablish);
    let error = DataLinkRequestError::NotEstablished(DataLinkState::AwaitingEstablish);
    assert_eq!(pair.asp.send(data(0)), Err(error));
    assert_eq!(pair.exchange(), [Q921Request::Establish]);
    pair.sg.establish_confirm();
    assert_eq!(pair.indications(), [Indication::Established]);
    assert_eq!(pair.asp.poll_timeout(), None);
    pair.asp.send(data(1)).expect("a data link");
    pair.asp.send_unit(data(2));
    let requests = [Q921Request::Data(data(1)), Q921Request::UnitData(data(2))];
    assert_eq!(pair.exchange(), requests);
    pair.sg.data(data(3));
    pair.sg.unit_data(data(4));
    let indications = [Indication::Data(data(3)), Indication::UnitData(data(4))];
    assert_eq!(pair.indications(), indications);
    pair.asp
        .release(START, ReleaseReason::Management)
        .expect("a valid reason");
    assert_eq!(
        pair.exchange(),
        [Q921Request::Release(ReleaseReason::Management)]
    );
    pair.sg.data(data(5));
    pair.sg.release_confirm();
    assert_eq!(pair.indications(), [Indication::Data(data(5)), RELEASED]);
    assert_eq!(pair.asp.state(), DataLinkState::Released);
    // Data of no data link are discarded, but for the unacknowledged service.
    pair.sg.data(data(6));
    pair.sg.unit_data(data(7));
    assert_eq!(pair.indications(), [Indication::UnitData(data(7))]);
}

/// RFC 4233, section 5.3: a failed attempt
#[test]
fn alarms_end_the_establishment() {
    let mut pair = Pair::new();
    pair.asp.establish(START);
    pair.exchange();
    pair.sg.release_indication(ReleaseReason::Physical);
    let released = Indication::Released {
        reason: Some(ReleaseReason::Physical),
    };
    assert_eq!(pair.indications(), [released]);
    assert_eq!(pair.asp.poll_timeout(), None);
    // A Release Confirm is an answer, too (section 3.3.1.1).
    pair.asp.establish(START);
    pair.exchange();
    pair.sg.release_confirm();
    assert_eq!(pair.indications(), [RELEASED]);
    assert_eq!(pair.asp.state(), DataLinkState::Released);
}

/// RFC 4233, section 3.3.1.1: the MGC may repeat the request
#[test]
fn establish_requests_are_repeated() {
    let mut pair = Pair::new();
    pair.asp.establish(START);
    let mut now = START;
    for _ in 0..20 {
        assert_eq!(pair.exchange(), [Q921Request::Establish]);
        let next = pair.asp.poll_timeout().expect("a repetition");
        assert_eq!(next, now + Duration::from_secs(10));
        now = next;
        pair.asp.handle_timeout(now);
    }
    pair.asp.handle_inactive();
    assert_eq!(pair.asp.poll_timeout(), None);
}

/// RFC 4233, section 3.3.1.2: without a response the data link counts as released
#[test]
fn release_requests_are_repeated() {
    let mut pair = Pair::established();
    let error = pair.asp.release(START, ReleaseReason::Physical);
    assert_eq!(error, Err(DataLinkRequestError::Reason));
    pair.asp
        .release(START, ReleaseReason::Dm)
        .expect("a valid reason");
    let mut sent = 0;
    while let Some(next) = pair.asp.poll_timeout() {
        let requests = pair.exchange();
        assert_eq!(requests, [Q921Request::Release(ReleaseReason::Dm)]);
        sent += 1;
        pair.asp.handle_timeout(next);
    }
    assert_eq!(sent, 5);
    assert_eq!(pair.indications(), [RELEASED]);
    assert_eq!(pair.asp.state(), DataLinkState::Released);
}

/// RFC 4233, section 3.3.1: requests that follow each other
#[test]
fn later_requests_replace_earlier_ones() {
    let mut pair = Pair::established();
    pair.asp
        .release(START, ReleaseReason::Other)
        .expect("a valid reason");
    pair.asp.establish(START);
    let requests = [
        Q921Request::Release(ReleaseReason::Other),
        Q921Request::Establish,
    ];
    assert_eq!(pair.exchange(), requests);
    pair.sg.release_confirm();
    assert_eq!(pair.indications(), [RELEASED]);
    assert_eq!(pair.asp.state(), DataLinkState::AwaitingEstablish);
    pair.sg.establish_confirm();
    assert_eq!(pair.indications(), [Indication::Established]);
    // An establishment before the answer to a Release Request.
    pair.asp
        .release(START, ReleaseReason::Other)
        .expect("a valid reason");
    pair.sg.establish_indication();
    assert_eq!(pair.exchange().len(), 1);
    pair.sg.release_confirm();
    assert_eq!(pair.indications(), [RELEASED]);
    assert_eq!(pair.asp.state(), DataLinkState::Released);
}

/// RFC 4233, sections 3.3.3.3, 3.3.3.4 and 5.4
#[test]
fn tei_status_is_requested_and_indicated() {
    let mut pair = Pair::new();
    pair.asp.request_tei_status(START);
    assert_eq!(
        pair.indications(),
        [Indication::TeiStatus(TeiStatus::Assigned)]
    );
    assert_eq!(pair.asp.poll_timeout(), None);
    pair.sg.set_tei_status(TeiStatus::Assigned);
    assert_eq!(pair.indications(), []);
    pair.sg.set_tei_status(TeiStatus::Unassigned);
    assert_eq!(
        pair.indications(),
        [Indication::TeiStatus(TeiStatus::Unassigned)]
    );
    let query = TeiQuery {
        identifier: INTERFACE,
        dlci: IgnoredDlci,
    };
    pair.sg.handle_message(&Message::TeiQuery(query));
    assert_eq!(
        pair.indications(),
        [Indication::TeiStatus(TeiStatus::Unassigned)]
    );
    // Without an answer.
    pair.asp.request_tei_status(START);
    let mut sent = 0;
    while let Some(next) = pair.asp.poll_timeout() {
        sent += std::iter::from_fn(|| pair.asp.poll_transmit()).count();
        pair.asp.handle_timeout(next);
    }
    assert_eq!(sent, 5);
    assert_eq!(pair.indications(), [Indication::TeiStatusUnanswered]);
}

fn error_of(message: Option<Message>) -> (ErrorCode, Bytes) {
    let Some(Message::Error(error)) = message else {
        panic!("an Error message");
    };
    (error.code, error.diagnostic.expect("a diagnostic").0)
}

/// RFC 4233, section 5.4: Unassigned TEI
#[test]
fn messages_for_unassigned_teis_are_errors() {
    let requests = [
        kinds::ESTABLISH_REQUEST,
        kinds::RELEASE_REQUEST,
        kinds::DATA_REQUEST,
        kinds::UNIT_DATA_REQUEST,
    ];
    for message in full() {
        if !requests.contains(&message.kind()) {
            continue;
        }
        let mut sg = SgDataLink::new(INTERFACE, dlci(), TeiStatus::Unassigned);
        sg.handle_message(&message);
        let octets = message.encode().expect("a valid message");
        let expected = (ErrorCode::UNASSIGNED_TEI, octets);
        assert_eq!(error_of(sg.poll_transmit()), expected);
        assert_eq!(sg.poll_request(), None);
    }
}

/// RFC 4233, section 3.3.3.1: Unexpected Message
#[test]
fn messages_of_the_own_side_are_errors() {
    let to_sg = [
        kinds::ESTABLISH_REQUEST,
        kinds::RELEASE_REQUEST,
        kinds::DATA_REQUEST,
        kinds::UNIT_DATA_REQUEST,
        kinds::TEI_STATUS_REQUEST,
        kinds::TEI_QUERY,
    ];
    for message in full() {
        let kind = message.kind();
        let is_link = kind.class == kinds::QPTM || kind.message_type > 1;
        if !is_link || kind.class == kinds::ASPSM || kind.class == kinds::ASPTM {
            continue;
        }
        let mut pair = Pair::new();
        let answer = if to_sg.contains(&kind) {
            pair.asp.handle_message(&message);
            pair.asp.poll_transmit()
        } else {
            pair.sg.handle_message(&message);
            pair.sg.poll_transmit()
        };
        let octets = message.encode().expect("a valid message");
        assert_eq!(error_of(answer), (ErrorCode::UNEXPECTED_MESSAGE, octets));
    }
}
