//! Amounts and times on the command line and in files: `64K`, `1.5GB`, `250ms`.

use std::time::Duration;

/// Parses bytes: a number, alone or with K, M, G, T (powers of 1024) or kB, MB, GB, TB (powers of 1000).
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "m" | "MiB" => 1 << 20,
        "G" | "g" | "GiB" => 1 << 30,
        "T" | "t" | "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => {
            return Err(
                "expected a number of bytes such as 1500, 64K (of 1024 bytes) or 2GB".into(),
            );
        }
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(factor)
            .ok_or_else(|| "more than 2^64 bytes".into());
    }
    let amount = decimal(number)? * factor as f64;
    if amount >= u64::MAX as f64 {
        return Err("more than 2^64 bytes".into());
    }
    Ok(amount as u64)
}

/// Parses the length of a buffer or a message: at least 1 byte, less than 4 GiB.
pub(crate) fn length(text: &str) -> Result<usize, String> {
    match bytes(text)? {
        0 => Err("must be at least 1 byte".into()),
        n => u32::try_from(n)
            .map(|n| n as usize)
            .map_err(|_| "must be less than 4 GiB".into()),
    }
}

/// Parses a rate in bit/s: a number, alone or with k, M or G (powers of 1000), optionally followed by
/// `bit/s`.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let factor = match unit.strip_suffix("bit/s").unwrap_or(unit) {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return Err("expected a rate such as 128k, 1.5M or 10Mbit/s".into()),
    };
    let bits = decimal(number)? * factor;
    if bits < 1.0 || bits >= u64::MAX as f64 {
        return Err("must be at least 1 bit/s and less than 2^64".into());
    }
    Ok(bits as u64)
}

/// Parses a time with its unit, `us`, `ms`, `s`, `m` or `h`; 0 needs none.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "" if decimal(number).is_ok_and(|number| number == 0.0) => 1.0,
        "" if decimal(number).is_ok() => {
            return Err(format!(
                "a time needs its unit: write {number}ms or {number}s"
            ));
        }
        _ => {
            return Err(format!(
                "expected a time with its unit (us, ms, s, m, h), {TIMES}"
            ));
        }
    };
    Duration::try_from_secs_f64(decimal(number)? * factor).map_err(|_| "too long".into())
}

/// Examples of times, for errors.
const TIMES: &str = "such as 250ms, 2.5s or 5m";

/// Parses a time for an option that documents its unit: a number is in s, as other tools have it.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match split(text) {
        (number, "") if !number.is_empty() => duration(&format!("{number}s")),
        _ => duration(text),
    }
}

/// Reads a time of a configuration file by a parser of options. A number, which has no unit, is an error that names
/// two texts to write instead.
pub(crate) fn time_of_file<'de, D: serde::Deserializer<'de>, T>(
    deserializer: D,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(TimeVisitor(parse))
}

struct TimeVisitor<T>(fn(&str) -> Result<T, String>);

impl<T> serde::de::Visitor<'_> for TimeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a time in quotes with its unit, such as \"250ms\" or \"2s\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        Err(without_unit(&number.to_string()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        Err(without_unit(&number.to_string()))
    }
}

/// Returns the error of a number that should be a time.
fn without_unit<E: serde::de::Error>(number: &str) -> E {
    let number = number.trim_start_matches('-');
    E::custom(format!(
        "a time is a text with its unit: write \"{number}ms\" or \"{number}s\""
    ))
}

fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn decimal(number: &str) -> Result<f64, String> {
    number
        .parse()
        .map_err(|_| format!("{number:?} is not a number"))
}

/// Parses bytes in hexadecimal digits; spaces, tabs and colons may separate them.
pub(crate) fn hex_bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.chars().filter(|c| !matches!(c, ' ' | '\t' | ':'));
    let digits = digits.map(|c| {
        let digit = c.to_digit(16);
        digit
            .map(|digit| digit as u8)
            .ok_or("expected hexadecimal digits")
    });
    let digits: Vec<u8> = digits.collect::<Result<_, _>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(format!(
            "expected two hexadecimal digits for each byte, and {} are an odd number",
            digits.len()
        ));
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Formats a quantity with a decimal prefix and three or four digits: `1.234 M`.
pub(crate) fn decimal_prefix(value: f64) -> String {
    let mut value = value;
    for prefix in ["", "k", "M", "G"] {
        if value < 999.95 {
            let digits = if prefix.is_empty() { 0 } else { 2 };
            return format!("{value:.digits$} {prefix}");
        }
        value /= 1000.0;
    }
    format!("{value:.2} T")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (text, value) in [
            ("0", 0),
            ("1500", 1500),
            ("64K", 65_536),
            ("64 KiB", 65_536),
            ("1.5K", 1536),
            ("1GB", 1_000_000_000),
            ("2G", 2 << 30),
        ] {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for text in ["", "K", "1X", "-1", "1.2.3", "99999999999T", "1e3"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(length("1"), Ok(1));
        assert!(length("0").is_err());
        assert!(length("4G").is_err());
    }

    #[test]
    fn times() {
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("24h"), Ok(Duration::from_hours(24)));
        assert_eq!(seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("0.5"), duration("500ms"));
        for text in ["", "s", "1d", "-1", "99999999999999999999999999s"] {
            assert!(duration(text).is_err(), "{text}");
            assert!(seconds(text).is_err(), "{text}");
        }
        let refused = duration("5").unwrap_err();
        assert_eq!(refused, "a time needs its unit: write 5ms or 5s");
    }

    #[test]
    fn rates_count_in_thousands() {
        assert_eq!(rate("128k"), Ok(128_000));
        assert_eq!(rate("1.536Mbit/s"), Ok(1_536_000));
        assert_eq!(rate("9600"), Ok(9600));
        for wrong in ["", "0", "M", "1X", "1e", "-5M"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_take_unit_prefixes() {
        assert_eq!(decimal_prefix(0.0), "0 ");
        assert_eq!(decimal_prefix(999.0), "999 ");
        assert_eq!(decimal_prefix(1000.0), "1.00 k");
        assert_eq!(decimal_prefix(4_123_000_000.0), "4.12 G");
    }
}
