//! The format, and the layout that its version stands for.

extern crate std;

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Checksum of all lists of fields and variants and of the codecs of other types, which changes with the version of [`FORMAT`].
const LAYOUT: u32 = 0xa76f_25ca;

/// Finds the lists of fields and variants, and the codecs, in the sources below this directory.
fn lists(directory: &Path, found: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(directory)
        .expect("the sources")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            lists(&path, found);
            continue;
        }
        if path.ends_with("export/tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        let begins = [
            "portable_struct! {",
            "portable_tuple! {",
            "portable_enum! {",
            "Portable for ",
        ];
        for begin in begins {
            for list in text.split(begin).skip(1) {
                let ends = ["\n}\n", " }\n"].iter().filter_map(|end| list.find(end));
                let words = list[..ends.min().unwrap_or(list.len())].split_whitespace();
                found.push(words.collect::<Vec<_>>().join(" "));
            }
        }
    }
}

#[test]
fn version_stands_for_the_layout() {
    let mut found = Vec::new();
    lists(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    found.sort();
    let sum = crc32c(found.join("\n").as_bytes());
    assert_eq!(
        sum, LAYOUT,
        "the exported state changed: increment the version of FORMAT, if a release has it, and set LAYOUT to {sum:#x}"
    );
}

fn returns<T: Portable + PartialEq + core::fmt::Debug>(value: &T) -> bool {
    let now = Time::from_millis(5);
    let bytes = to_bytes(value, now);
    from_bytes(&bytes, now).as_ref() == Some(value)
}

proptest! {
    #[test]
    fn values_return(
        numbers: (u16, u32, u64, u128),
        signed: i128,
        bytes: Vec<u8>,
        list: Vec<Option<(bool, u64)>>,
        nanos in 0..u64::MAX,
    ) {
        prop_assert!(returns(&numbers.0) && returns(&numbers.1) && returns(&numbers.2) && returns(&numbers.3));
        prop_assert!(returns(&signed));
        prop_assert!(returns(&bytes::Bytes::from(bytes)));
        prop_assert!(returns(&list));
        prop_assert!(returns(&Time::from_nanos(nanos)));
        prop_assert!(returns(&core::time::Duration::from_nanos(nanos)));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        let _ = from_bytes::<crate::tx::message::SendOptions>(&bytes, Time::ZERO);
        let _ = from_bytes::<crate::rx::message::Message>(&bytes, Time::ZERO);
        let _ = from_bytes::<crate::event::Event>(&bytes, Time::ZERO);
    }
}

#[test]
fn numbers_have_one_encoding() {
    for wrong in [&[0x80, 0x00][..], &[0x80], &[], &[0xff, 0xff, 0x04]] {
        assert_eq!(from_bytes::<u16>(wrong, Time::ZERO), None, "{wrong:?}");
    }
    assert_eq!(
        from_bytes::<u16>(&[0xff, 0xff, 0x03], Time::ZERO),
        Some(u16::MAX)
    );
    assert_eq!(from_bytes::<bool>(&[2], Time::ZERO), None);
}

#[test]
fn lists_are_no_longer_than_their_bytes() {
    let claims = to_bytes(&u64::MAX, Time::ZERO);
    assert_eq!(from_bytes::<Vec<u8>>(&claims, Time::ZERO), None);
    assert_eq!(from_bytes::<bytes::Bytes>(&claims, Time::ZERO), None);
}

#[test]
fn moments_keep_their_distance() {
    let (then, now) = (Time::from_millis(500), Time::from_millis(90_000));
    let sent = to_bytes(&Time::from_millis(300), then);
    assert_eq!(from_bytes(&sent, now), Some(Time::from_millis(89_800)));
    // Before the epoch of the importing program.
    assert_eq!(from_bytes(&sent, Time::from_millis(100)), Some(Time::ZERO));
}
