//! The format, and the layout that its version stands for.

extern crate std;

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Checksum of all lists of fields and variants and of the codecs of other types, which changes with [`VERSION`].
const LAYOUT: u32 = 0x3e0f_5b28;

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
        "the exported state changed: set LAYOUT to {sum:#x}, and, if a release has this version, increment VERSION, \
         list new fields under `since`, and write the states of the version (tests/it/export.rs, `write_states`)"
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

/// A struct with the fields of its first version.
#[derive(PartialEq, Debug)]
struct First {
    number: u16,
    text: Vec<u8>,
}

portable_struct! { First { number, text } }

/// The same with fields of later versions.
#[derive(PartialEq, Debug)]
struct Third {
    later: Option<u64>,
    number: u16,
    last: bool,
    text: Vec<u8>,
}

portable_struct! {
    Third { number, text }
    since 2 { later: Some(7) }
    since 3 { last: true }
}

#[test]
fn fields_of_later_versions_have_their_values() {
    let text = b"abc".to_vec();
    let first = First { number: 5, text };
    let mut out = ExportWriter::new(Time::ZERO);
    first.write(&mut out);
    let read = |version, bytes: &[u8]| {
        let mut input = ExportReader::new(version, bytes, Time::ZERO, None);
        let read = Third::read(&mut input).expect("a struct");
        input.finish().expect("no byte is left");
        read
    };
    let mut expected = Third {
        later: Some(7),
        number: 5,
        last: true,
        text: first.text,
    };
    assert_eq!(read(1, &out.bytes), expected);
    expected.later = None;
    expected.later.write(&mut out);
    assert_eq!(read(2, &out.bytes), expected);
    expected.last = false;
    expected.last.write(&mut out);
    assert_eq!(read(3, &out.bytes), expected);
}

#[test]
fn numbers_have_one_encoding() {
    let read = |bytes| ExportReader::new(VERSION, bytes, Time::ZERO, None);
    for wrong in [&[0x80, 0x00][..], &[0x80], &[], &[0xff, 0xff, 0x04]] {
        assert!(u16::read(&mut read(wrong)).is_err(), "{wrong:?}");
    }
    assert_eq!(u16::read(&mut read(&[0xff, 0xff, 0x03])), Ok(u16::MAX));
    assert!(bool::read(&mut read(&[2])).is_err());
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
