//! Counters, gauges and histograms in the text format of Prometheus, and how they are served.

use std::fmt::{Display, Write};
use std::time::Duration;

/// A text of metrics. Each family is told before its values.
#[derive(Debug)]
pub struct Exposition {
    prefix: &'static str,
    text: String,
}

impl Exposition {
    /// All names begin with this and an underscore.
    pub fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            text: String::new(),
        }
    }

    /// A metric: its kind is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = self.prefix;
        self.line(format_args!("# HELP {prefix}_{name} {help}"));
        self.line(format_args!("# TYPE {prefix}_{name} {kind}"));
    }

    /// One value of a metric. Labels may have any letters.
    pub fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let prefix = self.prefix;
        let mut shown = String::new();
        for (label, text) in labels {
            let comma = if shown.is_empty() { "" } else { "," };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            let text = text.replace('\n', "\\n");
            // Writing to a string does not fail.
            let _ = write!(shown, "{comma}{label}=\"{text}\"");
        }
        if shown.is_empty() {
            self.line(format_args!("{prefix}_{name} {value}"));
        } else {
            self.line(format_args!("{prefix}_{name}{{{shown}}} {value}"));
        }
    }

    /// A metric with one value and no labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.value(name, &[], value);
    }

    /// A histogram of times in seconds.
    pub fn histogram<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        Histogram {
            limits,
            counts,
            all,
            sum,
        }: &Histogram<N>,
    ) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (limit, count) in limits.iter().zip(counts) {
            below += count;
            self.value(&bucket, &[("le", &limit.to_string())], below);
        }
        self.value(&bucket, &[("le", "+Inf")], all);
        self.value(&format!("{name}_sum"), &[], sum);
        self.value(&format!("{name}_count"), &[], all);
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.text
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// How long things took: so many in each of `N` classes, and the rest.
#[derive(Clone, Debug)]
pub struct Histogram<const N: usize> {
    limits: &'static [f64; N],
    counts: [u64; N],
    all: u64,
    sum: f64,
}

impl<const N: usize> Histogram<N> {
    /// Nothing yet, in classes with these upper limits in seconds, in order.
    pub const fn new(limits: &'static [f64; N]) -> Self {
        Self {
            limits,
            counts: [0; N],
            all: 0,
            sum: 0.0,
        }
    }

    /// So many things took so long.
    pub fn record(&mut self, time: Duration, count: u64) {
        let seconds = time.as_secs_f64();
        let fits = self.limits.iter().position(|limit| seconds <= *limit);
        if let Some(slot) = fits.and_then(|place| self.counts.get_mut(place)) {
            *slot += count;
        }
        self.all += count;
        self.sum += seconds * count as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_all() {
        let mut times = Histogram::new(&[1e-4, 5e-3, 1.0]);
        times.record(Duration::from_micros(60), 3);
        times.record(Duration::from_millis(3), 2);
        times.record(Duration::from_secs(9), 1);
        let mut text = Exposition::new("some");
        text.histogram("request_seconds", "Times.", &times);
        let text = text.finish();
        for line in [
            "# TYPE some_request_seconds histogram\n",
            "some_request_seconds_bucket{le=\"0.0001\"} 3\n",
            "some_request_seconds_bucket{le=\"0.005\"} 5\n",
            "some_request_seconds_bucket{le=\"1\"} 5\n",
            "some_request_seconds_bucket{le=\"+Inf\"} 6\n",
            "some_request_seconds_count 6\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn names_in_labels_can_have_any_letter() {
        let mut text = Exposition::new("some");
        text.value("x", &[("agent", "a\"b\\c\nd")], 1);
        assert_eq!(text.finish(), "some_x{agent=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}
