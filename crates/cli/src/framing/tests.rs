//! Framings, over bytes in any pieces.

use super::*;

const DELIMITED: [Framing; 5] = [
    Framing::Lines,
    Framing::Length16,
    Framing::Length32,
    Framing::M3ua,
    Framing::Diameter,
];

/// Reproducible random numbers (Numerical Recipes).
struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % limit
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}

/// Returns a message of the framing with this number of bytes behind its header.
fn message(framing: Framing, body: Vec<u8>) -> Vec<u8> {
    let header = |header: [u8; 4], length: usize, rest: usize| {
        let mut message = header.to_vec();
        message.resize(4 + rest, 0);
        message.extend(&body);
        message.resize(length, 0);
        message
    };
    match framing {
        Framing::Lines => {
            let mut line: Vec<u8> = body.into_iter().filter(|b| *b != b'\n').collect();
            line.push(b'\n');
            line
        }
        Framing::M3ua => {
            let length = 8 + body.len();
            let mut message = header([1, 0, 1, 1], length, 4);
            message[4..8].copy_from_slice(&(length as u32).to_be_bytes());
            message
        }
        Framing::Diameter => {
            let length = (20 + body.len()).next_multiple_of(4);
            let [_, a, b, c] = (length as u32).to_be_bytes();
            header([1, a, b, c], length, 16)
        }
        _ => body,
    }
}

/// Decodes a stream in pieces of the lengths that `piece` returns.
fn decode(
    decoder: &mut FrameDecoder,
    mut stream: &[u8],
    mut piece: impl FnMut() -> usize,
) -> Result<Vec<Bytes>, FramingError> {
    let mut messages = Vec::new();
    while !stream.is_empty() {
        let (now, later) = stream.split_at(piece().clamp(1, stream.len()));
        decoder.buffer().extend_from_slice(now);
        stream = later;
        while let Some(message) = decoder.next_message()? {
            messages.push(message);
        }
    }
    messages.extend(decoder.last_message()?);
    Ok(messages)
}

#[test]
fn any_pieces_of_a_stream_give_the_same_messages() {
    let mut random = Random(1);
    for framing in DELIMITED {
        let bodies: Vec<_> = (0..50).map(|_| random.below(300) + 1).collect();
        let messages: Vec<Vec<u8>> = bodies
            .into_iter()
            .map(|length| message(framing, random.bytes(length)))
            .collect();
        let mut stream = BytesMut::new();
        for message in &messages {
            framing.encode(message, MAX_MESSAGE, &mut stream).unwrap();
        }
        for most in [1, 2, 3, 7, 1000, stream.len()] {
            let mut decoder = FrameDecoder::new(framing, MAX_MESSAGE);
            let decoded = decode(&mut decoder, &stream, || random.below(most) + 1).unwrap();
            assert_eq!(decoded, messages, "{framing:?} {most}");
        }
    }
}

#[test]
fn chunks_lose_no_byte() {
    let mut random = Random(2);
    let stream = random.bytes(10_000);
    for framing in [Framing::Chunks, Framing::Pdu] {
        let mut decoder = FrameDecoder::new(framing, 100);
        let decoded = decode(&mut decoder, &stream, || random.below(500)).unwrap();
        assert!(decoded.iter().all(|m| (1..=100).contains(&m.len())));
        assert_eq!(decoded.concat(), stream);
    }
}

/// Bytes of a hostile peer are an error or messages, and no more is buffered than a message and a read.
#[test]
fn arbitrary_bytes_are_bounded() {
    let mut random = Random(3);
    for round in 0..2000 {
        for framing in DELIMITED {
            let length = random.below(600);
            let mut stream = random.bytes(length);
            // Half of the streams begin as the protocols do.
            if let Some(first) = stream.first_mut().filter(|_| round % 2 == 0) {
                *first = 1;
            }
            let mut decoder = FrameDecoder::new(framing, 64);
            let decoded = decode(&mut decoder, &stream, || random.below(40) + 1);
            assert!(decoder.buffer().len() <= 64 + 4 + 40, "{framing:?}");
            for message in decoded.unwrap_or_default() {
                assert!((1..=64).contains(&message.len()), "{framing:?}");
            }
        }
    }
}

#[test]
fn bad_headers_are_named() {
    let cases: [(Framing, &[u8], &str); 8] = [
        (
            Framing::M3ua,
            &[2],
            "no M3UA header: version 2 instead of 1",
        ),
        (
            Framing::M3ua,
            &[1, 0, 0, 0, 0, 0, 0, 7],
            "length 7 is less than 8",
        ),
        (
            Framing::M3ua,
            &[1, 0, 0, 0, 255, 0, 0, 0],
            "4278190080 bytes",
        ),
        (
            Framing::Diameter,
            b"GET /",
            "no Diameter header: version 71",
        ),
        (
            Framing::Diameter,
            &[1, 0, 0, 19],
            "length 19 is less than 20",
        ),
        (Framing::Diameter, &[1, 0, 0, 22], "no multiple of 4"),
        (Framing::Length16, &[0, 0], "an empty message"),
        (Framing::Length32, &[1, 0, 0, 0], "limit of 1048576"),
    ];
    for (framing, bytes, words) in cases {
        let mut decoder = FrameDecoder::new(framing, MAX_MESSAGE);
        decoder.buffer().extend_from_slice(bytes);
        let error = decoder.next_message().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn an_end_within_a_message_is_an_error() {
    for framing in [Framing::Length16, Framing::M3ua] {
        let mut decoder = FrameDecoder::new(framing, MAX_MESSAGE);
        decoder.buffer().extend_from_slice(&[1, 0, 0]);
        assert_eq!(decoder.next_message(), Ok(None));
        let end = decoder.last_message();
        assert_eq!(end, Err(FramingError::Incomplete(3)));
    }
}

#[test]
fn a_line_gets_its_newline_and_keeps_it() {
    let mut to = BytesMut::new();
    Framing::Lines.encode(b"one\n", 10, &mut to).unwrap();
    Framing::Lines.encode(b"two", 10, &mut to).unwrap();
    assert_eq!(to, &b"one\ntwo\n"[..]);
    let mut decoder = FrameDecoder::new(Framing::Lines, 10);
    decoder.buffer().extend_from_slice(b"last");
    assert_eq!(decoder.next_message(), Ok(None));
    assert_eq!(decoder.last_message(), Ok(Some(Bytes::from("last"))));
}

/// A message that would not be delimited is refused, so that the stream stays readable.
#[test]
fn messages_that_do_not_fit_are_refused() {
    let refused = |framing: Framing, message: &[u8]| {
        let mut to = BytesMut::new();
        let error = framing.encode(message, MAX_MESSAGE, &mut to).unwrap_err();
        assert!(to.is_empty());
        error
    };
    let too_long = FramingError::TooLong {
        length: 65_536,
        limit: 65_535,
    };
    assert_eq!(refused(Framing::Length16, &vec![0; 65_536]), too_long);
    let wrong = FramingError::WrongLength {
        header: 8,
        message: 9,
    };
    assert_eq!(refused(Framing::M3ua, &[1, 0, 0, 0, 0, 0, 0, 8, 0]), wrong);
    let short = refused(Framing::Diameter, &[1, 0]);
    assert!(matches!(short, FramingError::WrongLength { .. }));
}

/// Payload protocol identifiers of IANA.
#[test]
fn protocols_have_their_ppid() {
    assert_eq!(Framing::M3ua.ppid(false), 3);
    assert_eq!(Framing::Diameter.ppid(false), 46);
    assert_eq!(Framing::Diameter.ppid(true), 47);
    assert_eq!(Framing::Lines.ppid(true), 0);
}
