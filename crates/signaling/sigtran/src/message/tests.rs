use super::{FormatErrorKind, MAX_MESSAGE, MessageKind, MessageWriter, RawMessage, WriteError};

const KIND: MessageKind = MessageKind::new(3, 1);

fn error(octets: &[u8]) -> (FormatErrorKind, usize) {
    let error = RawMessage::parse(octets)
        .and_then(|message| message.parameters().try_for_each(|item| item.map(drop)))
        .expect_err("an invalid message");
    (error.kind, error.offset)
}

fn message(parameters: &[u8]) -> Vec<u8> {
    let length = (8 + parameters.len()) as u32;
    [&[1, 0, 3, 1][..], &length.to_be_bytes(), parameters].concat()
}

/// RFC 4666, section 3.1
#[test]
fn header_is_written_in_network_byte_order() {
    let octets = MessageWriter::new(KIND).finish().expect("a message");
    assert_eq!(octets[..], [1, 0, 3, 1, 0, 0, 0, 8]);
}

/// RFC 4666, section 3.1.1
#[test]
fn other_versions_are_rejected() {
    assert_eq!(
        error(&[2, 0, 3, 1, 0, 0, 0, 8]),
        (FormatErrorKind::Version(2), 0)
    );
}

/// RFC 4666, section 3.1.3
#[test]
fn reserved_octet_is_ignored() {
    let message = RawMessage::parse(&[1, 0xff, 3, 1, 0, 0, 0, 8]).expect("a message");
    assert_eq!(message.kind, KIND);
}

/// RFC 4666, section 3.1.4
#[test]
fn message_length_covers_the_message() {
    for (length, received) in [(7, 8), (0, 8), (9, 8), (8, 12), (12, 8), (12, 11), (8, 9)] {
        let mut octets = vec![0; received];
        octets[..8].copy_from_slice(&[1, 0, 3, 1, 0, 0, 0, length]);
        let expected = FormatErrorKind::MessageLength {
            length: u32::from(length),
            received,
        };
        assert_eq!(error(&octets), (expected, 4));
    }
    assert_eq!(
        error(&[1, 0, 3]),
        (FormatErrorKind::HeaderTruncated { length: 3 }, 0)
    );
    let long = vec![1; MAX_MESSAGE + 1];
    assert_eq!(
        error(&long),
        (FormatErrorKind::TooLong { length: long.len() }, 4)
    );
}

/// RFC 4666, section 3.1.4: the final padding may be counted or not, or be absent
#[test]
fn final_padding_may_be_uncounted() {
    let counted = message(&[0, 4, 0, 5, b'x', 0, 0, 0]);
    let mut uncounted = counted.clone();
    uncounted[7] = 13;
    for octets in [&counted[..], &uncounted, &uncounted[..13]] {
        let parameters: Vec<_> = RawMessage::parse(octets)
            .expect("a message")
            .parameters()
            .map(|item| item.expect("a parameter").value.to_vec())
            .collect();
        assert_eq!(parameters, [b"x"]);
    }
}

/// RFC 4666, section 3.2
#[test]
fn cut_parameters_are_rejected() {
    assert_eq!(
        error(&message(&[0, 4, 0])),
        (FormatErrorKind::ParameterTruncated { available: 3 }, 8)
    );
    let small = FormatErrorKind::ParameterLengthTooSmall { tag: 4, length: 3 };
    assert_eq!(error(&message(&[0, 4, 0, 3])), (small, 10));
    let past = FormatErrorKind::ParameterLengthPastEnd {
        tag: 4,
        length: 9,
        available: 8,
    };
    assert_eq!(error(&message(&[0, 4, 0, 9, 1, 2, 3, 4])), (past, 10));
    let padding = FormatErrorKind::PaddingTruncated {
        tag: 4,
        available: 1,
    };
    assert_eq!(error(&message(&[0, 4, 0, 5, 1, 0])), (padding, 13));
}

/// RFC 4666, section 3.2
#[test]
fn content_of_padding_is_ignored() {
    let octets = message(&[0, 4, 0, 5, 1, 9, 9, 9, 0, 9, 0, 4]);
    let tags: Vec<_> = RawMessage::parse(&octets)
        .expect("a message")
        .parameters()
        .map(|item| item.map(|parameter| (parameter.tag, parameter.offset)))
        .collect();
    assert_eq!(tags, [Ok((4, 8)), Ok((9, 16))]);
}

/// RFC 4666, section 3.2
#[test]
fn parameters_are_padded_with_zeros() {
    let mut writer = MessageWriter::new(KIND);
    writer.parameter(4, b"abcde");
    writer.nested(0x207, |writer| writer.number(0x20a, 1));
    let octets = writer.finish().expect("a message");
    let expected = [
        &[1, 0, 3, 1, 0, 0, 0, 32][..],
        &[0, 4, 0, 9, b'a', b'b', b'c', b'd', b'e', 0, 0, 0],
        &[2, 7, 0, 12, 2, 10, 0, 8, 0, 0, 0, 1],
    ];
    assert_eq!(octets[..], expected.concat());
}

#[test]
fn too_long_messages_are_not_written() {
    let mut writer = MessageWriter::new(KIND);
    writer.parameter(4, &vec![0; 65_532]);
    let length = 65_536;
    assert_eq!(
        writer.finish(),
        Err(WriteError::ParameterTooLong { tag: 4, length })
    );
    let mut writer = MessageWriter::new(KIND);
    writer.parameter(4, &vec![0; 65_531]);
    assert_eq!(
        writer.finish().expect("the longest message").len(),
        MAX_MESSAGE
    );
    let mut writer = MessageWriter::new(KIND);
    writer.parameter(4, &vec![0; 65_531]);
    writer.parameter(4, &[]);
    let length = MAX_MESSAGE + 4;
    assert_eq!(writer.finish(), Err(WriteError::MessageTooLong { length }));
}
