//! SUA: messages in both directions.

use bytes::Bytes;
use carrick_sigtran::sua::*;
use sua::{SuaAddress, SuaMessage};

use crate::samples::code;
use crate::sua_samples::full;

fn to_theirs(message: &Message) -> SuaMessage {
    let octets = message.encode().expect("a valid message");
    SuaMessage::decode(&octets).unwrap_or_else(|error| panic!("{message:?}: {error}"))
}

fn to_ours(message: &SuaMessage) -> Message {
    let octets = Bytes::from(message.encode());
    Message::decode(&octets).unwrap_or_else(|error| panic!("{message:?}: {error}"))
}

/// RFC 3868, section 3
#[test]
fn each_message_is_the_same_in_both() {
    let messages = full();
    assert!(messages.len() > 30);
    for message in messages {
        assert_eq!(to_ours(&to_theirs(&message)), message);
    }
}

/// RFC 3868, section 3.2.1
#[test]
fn unitdata_have_the_same_fields_in_both() {
    let address = |value, ssn| Address::point_code(code(value), SubsystemNumber(ssn));
    let (source, destination) = (
        SuaAddress::with_ssn_pc(8, 0x0818),
        SuaAddress::with_ssn_pc(6, 0x13a5),
    );
    let theirs = SuaMessage::cldt(1, 0, &source, &destination, 3, Some(15), b"data".to_vec());
    let theirs = theirs.expect("a valid message");
    let Message::ConnectionlessDataTransfer(ours) = to_ours(&theirs) else {
        panic!("no CLDT");
    };
    assert_eq!(ours.routing_context, RoutingContext(1));
    assert_eq!(
        ours.protocol_class,
        ProtocolClass::new(ServiceClass::Class0)
    );
    assert_eq!(ours.source.0, address(0x0818, 8));
    assert_eq!(ours.destination.0, address(0x13a5, 6));
    assert_eq!(ours.sequence_control, SequenceControl(3));
    assert_eq!(ours.hop_counter, HopCounter::new(15));
    assert_eq!(&ours.data.0[..], b"data");
    let back = to_theirs(&Message::ConnectionlessDataTransfer(ours));
    assert_eq!(back.source_address().expect("a source"), source);
    assert_eq!(
        back.destination_address().expect("a destination"),
        destination
    );
    assert_eq!(back.data(), Some(&b"data"[..]));
}

/// RFC 3868, section 3.10.2.3
#[test]
fn global_titles_have_the_same_digits_in_both() {
    for digits in ["491701234567", "49170123456"] {
        let title = sua::GlobalTitle::e164(digits);
        let destination = SuaAddress::with_gt(title, Some(6));
        let source = SuaAddress::with_ssn_pc(8, 0x0818);
        let theirs = SuaMessage::cldt(1, 0, &source, &destination, 3, None, vec![1]);
        let Message::ConnectionlessDataTransfer(ours) = to_ours(&theirs.expect("a message")) else {
            panic!("no CLDT");
        };
        let Route::GlobalTitle {
            global_title, ssn, ..
        } = &ours.destination.0.route
        else {
            panic!("no global title: {:?}", ours.destination);
        };
        assert_eq!(
            global_title.digits,
            AddressSignals::new(digits).expect("digits")
        );
        assert_eq!(*ssn, Some(SubsystemNumber(6)));
        let back = to_theirs(&Message::ConnectionlessDataTransfer(ours));
        assert_eq!(
            back.destination_address().expect("an address").gt_digits(),
            Some(digits)
        );
    }
}
