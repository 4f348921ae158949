//! Quantities with their units: `10 ms`, `1.5 Mbit/s`, `64 KiB`, `6 packets`, `1 %`.

use std::time::Duration;

/// Names of units with their factors.
type Units = &'static [(&'static str, f64)];

const TIMES: Units = &[
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
];

const RATES: Units = &[
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("B/s", 8.0),
    ("kB/s", 8e3),
    ("MB/s", 8e6),
];

const SIZES: Units = &[
    ("byte", 1.0),
    ("bytes", 1.0),
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

/// Parses a time; at most a hundred years.
pub(super) fn time(text: &str) -> Option<Duration> {
    let seconds = quantity(text, TIMES)?;
    // Rounded to the nanosecond, so that 0.1 ms does not become 99,999 ns.
    (seconds < 3.2e9).then(|| Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// Parses a rate in bit/s, above 0.
pub(super) fn rate(text: &str) -> Option<f64> {
    quantity(text, RATES).filter(|rate| *rate > 0.0)
}

/// Parses a size in bytes, rounded.
pub(super) fn size(text: &str) -> Option<u64> {
    let bytes = quantity(text, SIZES)?.round();
    (bytes < 9e15).then_some(bytes as u64)
}

/// Parses a number of packets, `6 packets`.
pub(super) fn packets(text: &str) -> Option<u64> {
    let count = quantity(text, &[("packet", 1.0), ("packets", 1.0)])?;
    (count.fract() == 0.0 && count < 9e15).then_some(count as u64)
}

/// Parses a proportion, `1 %`, as a number from 0 to 1.
pub(super) fn share(text: &str) -> Option<f64> {
    quantity(text, &[("%", 0.01)]).filter(|share| *share <= 1.0)
}

/// Parses a number that is not negative, an optional space, and a unit.
fn quantity(text: &str, units: Units) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')?;
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    let unit = text[end..].trim();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_need_a_valid_unit() {
        assert_eq!(time("10 ms"), Some(Duration::from_millis(10)));
        assert_eq!(time("0.1ms"), Some(Duration::from_micros(100)));
        assert_eq!(time("2 min"), Some(Duration::from_secs(120)));
        assert_eq!(rate("1.5 Mbit/s"), Some(1_500_000.0));
        assert_eq!(rate("30 kB/s"), Some(240_000.0));
        assert_eq!(size("64 KiB"), Some(65_536));
        assert_eq!(size("12 MB"), Some(12_000_000));
        assert_eq!(packets("6 packets"), Some(6));
        assert_eq!(share("1 %"), Some(0.01));
        for wrong in ["10", "", "ms", "-1 ms", "1e3 ms", "10 bit/s", "1.2.3 s"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        assert_eq!(rate("0 bit/s"), None);
        assert_eq!(rate("10 ms"), None);
        assert_eq!(packets("1.5 packets"), None);
        assert_eq!(share("101 %"), None);
    }
}
