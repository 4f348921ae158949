//! M2PA: messages in both directions, and the alignment of a link.

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::SctpNotification;
use carrick_sigtran::m2pa::link::{Link, LinkConfig, LinkState as OurState};
use carrick_sigtran::m2pa::{Body, LinkStatus, Message, Msu, SequenceNumber};
use m2pa::{
    LinkState, LinkStatusMessage, M2paMessage, M2paState, M2paStateMachine, UserDataMessage,
};

fn number(value: u32) -> SequenceNumber {
    SequenceNumber::new(value).expect("24 bits")
}

fn ours(body: Body) -> Message {
    Message {
        bsn: number(5),
        fsn: number(0x00ff_fffe),
        body,
    }
}

fn to_theirs(message: &Message) -> M2paMessage {
    let octets = message.encode().expect("a valid message");
    M2paMessage::decode(&octets).unwrap_or_else(|error| panic!("{message:?}: {error}"))
}

fn to_ours(message: &M2paMessage) -> Message {
    let octets = Bytes::from(message.encode().expect("a valid message"));
    Message::decode(&octets).unwrap_or_else(|error| panic!("{message:?}: {error}"))
}

/// RFC 4165, section 2.3.2
#[test]
fn each_link_status_is_the_same_in_both() {
    let filler = Bytes::from_static(&[0; 8]);
    let states = [
        (LinkStatus::Alignment, LinkState::Alignment),
        (
            LinkStatus::ProvingNormal(filler.clone()),
            LinkState::ProvingNormal,
        ),
        (
            LinkStatus::ProvingEmergency(filler),
            LinkState::ProvingEmergency,
        ),
        (LinkStatus::Ready, LinkState::Ready),
        (LinkStatus::ProcessorOutage, LinkState::ProcessorOutage),
        (
            LinkStatus::ProcessorRecovered,
            LinkState::ProcessorRecovered,
        ),
        (LinkStatus::Busy, LinkState::Busy),
        (LinkStatus::BusyEnded, LinkState::BusyEnded),
        (LinkStatus::OutOfService, LinkState::OutOfService),
    ];
    for (status, state) in states {
        let M2paMessage::LinkStatus { bsn, fsn, message } =
            to_theirs(&ours(Body::LinkStatus(status)))
        else {
            panic!("no Link Status for {state}");
        };
        assert_eq!((bsn, fsn, message.state), (5, 0x00ff_fffe, state));
        let message = LinkStatusMessage::new(state);
        let theirs = M2paMessage::LinkStatus { bsn, fsn, message };
        assert!(
            matches!(to_ours(&theirs).body, Body::LinkStatus(_)),
            "{state}"
        );
    }
}

/// RFC 4165, section 2.3.1
#[test]
fn user_data_are_the_same_in_both() {
    let message = ours(Body::UserData(Some(Msu::new(
        0x83,
        Bytes::from_static(b"sif"),
    ))));
    let M2paMessage::UserData {
        bsn,
        fsn,
        message: theirs,
    } = to_theirs(&message)
    else {
        panic!("no User Data");
    };
    assert_eq!(
        (bsn, fsn, &theirs.msu[..]),
        (5, 0x00ff_fffe, &b"\x83sif"[..])
    );
    let message_of_theirs = UserDataMessage::new(0, b"\x83sif".to_vec());
    let theirs = M2paMessage::UserData {
        bsn,
        fsn,
        message: message_of_theirs,
    };
    assert_eq!(to_ours(&theirs), message);
}

/// RFC 4165, section 4.1.3
#[test]
fn a_link_is_aligned_with_their_state_machine() {
    let mut link = Link::new(LinkConfig::default()).expect("a configuration");
    let mut peer = M2paStateMachine::new();
    let mut now = Time::ZERO;
    let up = SctpNotification::Up {
        outbound_streams: 2,
    };
    link.handle_sctp(now, up);
    while link.poll_transmit().is_some() {}
    link.start(now).expect("an association");
    assert!(peer.start());
    let mut answered = M2paState::OutOfService;
    for _ in 0..1000 {
        while let Some(transmit) = link.poll_transmit() {
            if let M2paMessage::LinkStatus { message, .. } = to_theirs(&transmit.message) {
                peer.on_link_status(message.state);
            }
        }
        // Their machine has no output: a peer announces each new state.
        if peer.state() != answered {
            answered = peer.state();
            let status = match answered {
                M2paState::Aligned => LinkState::Alignment,
                M2paState::Proving => LinkState::ProvingNormal,
                _ => LinkState::Ready,
            };
            let message = LinkStatusMessage::new(status);
            let theirs = M2paMessage::LinkStatus {
                bsn: 0x00ff_ffff,
                fsn: 0x00ff_ffff,
                message,
            };
            link.handle_message(now, 0, to_ours(&theirs));
        } else if link.state() == OurState::InService {
            break;
        } else if let Some(at) = link.poll_timeout() {
            now = at;
            link.handle_timeout(now);
        }
    }
    assert_eq!(link.state(), OurState::InService);
    // It waits for a second Ready, which RFC 4165 has after a processor outage only.
    assert_eq!(peer.state(), M2paState::AlignedReady);
}
