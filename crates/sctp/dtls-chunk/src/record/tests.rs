//! Records with fixed keys, for other implementations to compare with.

use proptest::prelude::*;
use std::collections::BTreeSet;

use super::*;
use crate::CipherSuite;

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn text(bytes: &[u8]) -> String {
    let hexadecimal: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    hexadecimal.concat()
}

/// Key material of bytes that count up: record payload key from 0x10, initialization vector from 0xa0, sequence
/// number key from 0x50.
fn material(suite: CipherSuite) -> KeyMaterial {
    let from = |first: u8, len: usize| (first..).take(len).collect::<Vec<u8>>();
    let len = suite.key_len();
    KeyMaterial::new(suite, &from(0x10, len), &from(0xa0, 12), &from(0x50, len)).unwrap()
}

fn contexts(suite: CipherSuite) -> (SendContext, ReceiveContext) {
    let send = SendContext::new(3, material(suite)).unwrap();
    let receive = ReceiveContext::new(3, material(suite), DEFAULT_WINDOW).unwrap();
    (send, receive)
}

/// COOKIE ACK.
const CHUNKS: [u8; 4] = [11, 0, 0, 4];

/// RFC 9001, appendix A.2 and A.5: record number encryption is the header protection of QUIC.
#[test]
fn masks_are_those_of_quic() {
    for (suite, key, sample, mask) in [
        (
            CipherSuite::Aes128Gcm,
            "9f50449e04a0e810283a1e9933adedd2",
            "d1b1c98dd7689fb8ec11d242b123dc9b",
            "437b9aec36",
        ),
        (
            CipherSuite::ChaCha20Poly1305,
            "25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4",
            "5e5cd55c41f69080575d7999c25a5bfb",
            "aefefe7d03",
        ),
    ] {
        let key = bytes(key);
        let material = KeyMaterial::new(suite, &key, &[0; 12], &key).unwrap();
        let schedule = material.schedule().unwrap();
        let value = [&[0; 4], &bytes(sample)[..]].concat();
        assert_eq!(text(&number_mask(&schedule, &value).unwrap()), mask);
    }
}

/// Epoch 3, sequence numbers 0 and 1, a COOKIE ACK.
#[test]
fn records_are_those_of_the_vectors() {
    let vectors = include_str!("vectors.txt");
    let mut lines = vectors.lines().filter(|line| !line.starts_with('#'));
    for suite in CipherSuite::ALL {
        let (mut send, _) = contexts(suite);
        for sequence in 0..2 {
            let mut value = CHUNKS.to_vec();
            assert!(send.seal(&mut value));
            let expected = format!("{:04x} {sequence} {}", suite.number(), text(&value));
            assert_eq!(lines.next(), Some(&expected[..]));
        }
    }
    assert_eq!(lines.next(), None);
}

/// RFC 9147, section 4: the record has the form of the draft's figure 5, and the size that is reserved.
#[test]
fn a_record_has_the_form_of_the_chunk() {
    for suite in CipherSuite::ALL {
        for len in [0, 1, 4, 1400, 16_384] {
            let (mut send, mut receive) = contexts(suite);
            let chunks = vec![7; len];
            let mut value = chunks.clone();
            assert!(send.seal(&mut value));
            assert_eq!(value.len(), len + RECORD_OVERHEAD);
            assert_eq!(value[..2], [0, 0b0010_1011]);
            receive.open(&mut value).unwrap();
            assert_eq!(value, chunks);
        }
    }
}

/// RFC 9147, section 4.5.2: records that are not authentic are discarded.
#[test]
fn any_changed_bit_is_refused() {
    for suite in CipherSuite::ALL {
        let (mut send, mut receive) = contexts(suite);
        let mut value = CHUNKS.to_vec();
        assert!(send.seal(&mut value));
        // Pre-padding is ignored.
        for bit in 8..value.len() * 8 {
            let mut changed = value.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let before = changed.clone();
            assert!(receive.open(&mut changed).is_err(), "bit {bit}");
            assert_eq!(changed, before);
        }
        for len in 0..value.len() {
            assert!(receive.open(&mut value[..len].to_vec()).is_err());
        }
        receive.open(&mut value).expect("the record as it was");
    }
}

/// RFC 9147, section 4.5.1
#[test]
fn a_record_is_opened_once() {
    let (mut send, mut receive) = contexts(CipherSuite::Aes128Gcm);
    let records: Vec<Vec<u8>> = (0..40_000_u32)
        .map(|number| {
            let mut value = number.to_be_bytes().to_vec();
            assert!(send.seal(&mut value));
            value
        })
        .collect();
    // Beyond 16 bits later on, out of order within the window.
    for number in [1, 0, 3, 2, 70, 5, 4000, 71, 8000, 30_000, 39_999, 39_000] {
        receive.open(&mut records[number].clone()).expect("new");
        let again = receive.open(&mut records[number].clone());
        assert_eq!(again, Err(OpenError::Replayed));
    }
    // Older than the window, whose number is taken for one of the next 65,536: it does not authenticate.
    assert!(receive.open(&mut records[9].clone()).is_err());
    let in_16_bits = records[39_000 - 5000].clone();
    assert_eq!(
        receive.open(&mut in_16_bits.clone()),
        Err(OpenError::Replayed)
    );
    assert_eq!(receive.records(), 12);
}

#[test]
fn keys_protect_no_more_records_than_allowed() {
    let (mut send, _) = contexts(CipherSuite::Aes128Gcm);
    send.next = CipherSuite::Aes128Gcm.confidentiality_limit() - 1;
    assert!(send.is_half_used());
    let mut value = CHUNKS.to_vec();
    assert!(send.seal(&mut value));
    let mut value = CHUNKS.to_vec();
    assert!(!send.seal(&mut value));
    assert_eq!(value, CHUNKS, "left as it was");
}

/// RFC 9147, section 4.5.3
#[test]
fn keys_are_abandoned_after_too_many_forgeries() {
    let (mut send, mut receive) = contexts(CipherSuite::Aes128Gcm);
    receive.failed = INTEGRITY_LIMIT - 1;
    let mut forged = CHUNKS.to_vec();
    assert!(send.seal(&mut forged));
    let mut genuine = forged.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(receive.open(&mut forged), Err(OpenError::Forged));
    assert!(receive.is_exhausted());
    assert_eq!(receive.open(&mut genuine), Err(OpenError::NoContext));
}

/// RFC 8446, section 5.4: zeros behind the content type are padding, and only application data is accepted.
#[test]
fn padding_is_removed_and_other_types_are_refused() {
    for (end, opened) in [(&[23, 0, 0, 0][..], true), (&[22], false), (&[0, 0], false)] {
        let (mut send, mut receive) = contexts(CipherSuite::Aes128Gcm);
        let mut plain = [&CHUNKS[..], end].concat();
        // As `seal` does, which appends one more content type.
        let tag = send.schedule.payload.seal_in_place_separate_tag(
            send.schedule.nonce(0),
            Aad::from([0b0010_1011, 0, 0]),
            &mut plain,
        );
        let mut value = [&[0, 0b0010_1011, 0, 0], &plain[..], tag.unwrap().as_ref()].concat();
        let mask = number_mask(&send.schedule, &value).unwrap();
        value[2] ^= mask[0];
        value[3] ^= mask[1];
        assert_eq!(receive.open(&mut value).is_ok(), opened);
        if opened {
            assert_eq!(value, CHUNKS);
        }
        assert!(send.seal(&mut CHUNKS.to_vec()));
    }
}

proptest! {
    /// The window against a set of all numbers that were received.
    #[test]
    fn the_replay_window_is_a_set(
        size in 64..300_u32,
        steps in proptest::collection::vec((0..3_u8, 0..400_u64), 1..200),
    ) {
        let mut window = ReplayWindow::new(size);
        let mut seen = BTreeSet::new();
        let mut highest = 0;
        for (kind, distance) in steps {
            let number = match kind {
                0 => highest + distance,
                _ => highest.saturating_sub(distance),
            };
            let age = (highest + 1).saturating_sub(number);
            let expected = seen.is_empty() || number > highest
                || age <= window.size() && !seen.contains(&number);
            prop_assert_eq!(window.is_new(number), expected);
            prop_assert_eq!(window.complete(number as u16), number);
            if expected {
                window.record(number);
                seen.insert(number);
                highest = highest.max(number);
            }
        }
    }

    /// A window of another size never accepts a number again.
    #[test]
    fn a_resized_window_accepts_nothing_again(
        numbers in proptest::collection::vec(0..600_u64, 1..80),
        sizes in (64..400_u32, 64..400_u32),
    ) {
        let mut window = ReplayWindow::new(sizes.0);
        let received: Vec<u64> = numbers
            .into_iter()
            .filter(|number| {
                let new = window.is_new(*number);
                if new {
                    window.record(*number);
                }
                new
            })
            .collect();
        window.resize(sizes.1);
        for number in received {
            prop_assert!(!window.is_new(number));
        }
    }

    #[test]
    fn any_bytes_are_opened_without_panic(mut value in proptest::collection::vec(any::<u8>(), 0..64)) {
        let (_, mut receive) = contexts(CipherSuite::Aes256Gcm);
        prop_assert!(receive.open(&mut value).is_err());
    }
}
