//! Times of configuration files: text with a unit, such as `"250ms"`.

use core::fmt;
use core::time::Duration;

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;

/// Units with their nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Writes a time with the largest unit of s, ms and us in which it is a whole number.
pub(crate) fn serialize<S: Serializer>(time: &Duration, output: S) -> Result<S::Ok, S::Error> {
    let micros = time.as_micros();
    if micros.is_multiple_of(1_000_000) {
        output.collect_str(&format_args!("{}s", micros / 1_000_000))
    } else if micros.is_multiple_of(1_000) {
        output.collect_str(&format_args!("{}ms", micros / 1_000))
    } else {
        output.collect_str(&format_args!("{micros}us"))
    }
}

/// Reads a time.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    input.deserialize_str(TimeVisitor)
}

/// Times that may be absent.
pub(crate) mod optional {
    use serde::Deserialize;

    use super::{Deserializer, Duration, Serializer};

    /// A time that is there.
    struct Time(Duration);

    impl<'de> Deserialize<'de> for Time {
        fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
            super::deserialize(input).map(Self)
        }
    }

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        output: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, output),
            None => output.serialize_none(),
        }
    }

    /// Reads a time, or that there is none; a file of TOML without one does not have the key.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<Duration>, D::Error> {
        let time = Option::<Time>::deserialize(input)?;
        Ok(time.map(|time| time.0))
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a time in quotes with its unit (us, ms, s, m, h), such as \"250ms\" or \"2.5s\"",
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

/// Returns the time in a text: a decimal number and its unit.
fn parse(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let (_, factor) = *UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let mut nanos = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let mut place = factor;
    if fraction.is_empty() {
        return None;
    }
    for digit in fraction.bytes() {
        place /= 10;
        let digit = (digit as char).to_digit(10)?;
        nanos = nanos.checked_add(u64::from(digit) * place)?;
    }
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("2.5s", 2500),
            ("0.05 s", 50),
            ("3m", 180_000),
            ("1min", 60_000),
            ("0ms", 0),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("1us"), Some(Duration::from_micros(1)));
        for text in [
            "",
            "5",
            "s",
            ".5s",
            "5.s",
            "1.2.3s",
            "-1s",
            "1 day",
            "99999999999999h",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
