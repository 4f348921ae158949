//! Number formats for tables and texts.

use carrick_figures::text::trimmed;

/// Formats a measured value with about four significant digits.
pub fn measured(value: f64) -> String {
    format!("{value:.*}", decimals(value))
}

/// Formats the half width of a confidence interval with the decimals of its value.
pub fn interval(ci95: f64, value: f64) -> String {
    format!("{ci95:.*}", decimals(value))
}

/// Formats the half width of a confidence interval of a value, if it has one.
pub(crate) fn interval_of(ci95: Option<f64>, value: Option<f64>) -> Option<String> {
    Some(interval(ci95?, value?))
}

/// Text of a value that does not exist.
pub(crate) const ABSENT: &str = "–";

/// Formats a value, or its absence.
pub(crate) fn or_absent(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or_else(|| ABSENT.into(), show)
}

/// Formats a computed bound with the decimals of a measured value, without trailing zeros.
pub fn bound(value: f64) -> String {
    trimmed(&measured(value))
}

/// Formats a given value, such as a published one, with its own decimals, at most three.
pub fn given(value: f64) -> String {
    trimmed(&format!("{value:.3}"))
}

fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_depend_on_the_magnitude() {
        assert_eq!(measured(1234.56), "1235");
        assert_eq!(measured(765.26), "765.3");
        assert_eq!(measured(-28.957), "-28.96");
        assert_eq!(measured(0.5), "0.500");
        assert_eq!(interval(4.06, 765.26), "4.1");
    }

    #[test]
    fn given_values_keep_their_decimals() {
        assert_eq!(given(708.0), "708");
        assert_eq!(given(1.525), "1.525");
        assert_eq!(given(0.0), "0");
        assert_eq!(given(-0.0001), "0");
        assert_eq!(given(100.0), "100");
        assert_eq!(bound(57.374), "57.37");
        assert_eq!((bound(708.0), bound(1500.0)), ("708".into(), "1500".into()));
    }
}
