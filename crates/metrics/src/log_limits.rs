//! Rate limits of log lines that peers and programs can cause: for each source, and in total.

use std::collections::BTreeMap;
use std::time::Duration;

/// Interval of reports about suppressed lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// Sources with a limit of their own. All further sources share one limit.
const MAX_SOURCES: usize = 1024;
/// Minimum interval between searches for idle sources in a full table.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);
/// Sources that a report names: those with the most suppressed lines.
const MAX_REPORTED: usize = 16;

/// Burst of lines, and the interval of further lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineRate {
    /// Lines at once.
    pub burst: u32,
    /// Interval at which one further line is allowed.
    pub interval: Duration,
}

/// Lines that have used up a [`LineRate`]: the time at which the whole burst is available again.
#[derive(Clone, Copy, Default, Debug)]
struct UsedLines(Duration);

impl UsedLines {
    fn has_room(self, rate: LineRate, now: Duration) -> bool {
        self.0.saturating_sub(now) + rate.interval <= rate.interval * rate.burst
    }

    fn charge(&mut self, rate: LineRate, now: Duration) {
        self.0 = self.0.max(now) + rate.interval;
    }
}

/// State of a source.
#[derive(Clone, Copy, Default, Debug)]
struct SourceLines {
    used: UsedLines,
    /// Suppressed lines that were not reported yet.
    suppressed: u64,
}

/// Suppressed lines of a source since the last report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuppressedLines<S> {
    /// The source; `None` for all sources that are not named.
    pub source: Option<S>,
    /// Number of lines.
    pub lines: u64,
}

/// Limits log lines by their source, for example a user or an address, and counts those beyond the limits.
///
/// Times are those since any fixed moment. The state is bounded for any number of sources.
#[derive(Clone, Debug)]
pub struct LogLimits<S> {
    per_source: LineRate,
    in_total: Option<LineRate>,
    sources: BTreeMap<S, SourceLines>,
    /// All sources beyond the table.
    others: SourceLines,
    total: UsedLines,
    /// Time of the next report, while lines wait for one.
    next_report: Option<Duration>,
    /// Time from which a full table is searched for idle sources again.
    next_search: Duration,
    suppressed: u64,
}

impl<S: Ord + Clone> LogLimits<S> {
    /// Creates limits of lines for each source.
    pub const fn new(per_source: LineRate) -> Self {
        Self {
            per_source,
            in_total: None,
            sources: BTreeMap::new(),
            others: SourceLines {
                used: UsedLines(Duration::ZERO),
                suppressed: 0,
            },
            total: UsedLines(Duration::ZERO),
            next_report: None,
            next_search: Duration::ZERO,
            suppressed: 0,
        }
    }

    /// Also limits the lines of all sources together.
    #[must_use]
    pub const fn with_total(mut self, rate: LineRate) -> Self {
        self.in_total = Some(rate);
        self
    }

    /// Returns whether a line of this source is to be logged. Counts it if not.
    pub fn admit(&mut self, now: Duration, source: &S) -> bool {
        let is_known = self.sources.contains_key(source);
        if !is_known && self.sources.len() >= MAX_SOURCES && self.next_search <= now {
            self.forget_idle(now);
        }
        let has_room = self
            .in_total
            .is_none_or(|rate| self.total.has_room(rate, now));
        // A line that is suppressed for the total takes no place in the table.
        let has_entry = is_known || has_room && self.sources.len() < MAX_SOURCES;
        let lines = if has_entry {
            self.sources.entry(source.clone()).or_default()
        } else {
            &mut self.others
        };
        if has_room && lines.used.has_room(self.per_source, now) {
            lines.used.charge(self.per_source, now);
            if let Some(rate) = self.in_total {
                self.total.charge(rate, now);
            }
            return true;
        }
        lines.suppressed += 1;
        self.suppressed += 1;
        self.next_report.get_or_insert(now + REPORT_INTERVAL);
        false
    }

    /// Returns the number of suppressed lines since the start.
    pub const fn suppressed(&self) -> u64 {
        self.suppressed
    }

    /// Returns the time at which [`Self::take_due`] returns the next report.
    pub const fn next_report(&self) -> Option<Duration> {
        self.next_report
    }

    /// Returns the suppressed lines that were not reported, if a report is due: 10 s after the first of them.
    pub fn take_due(&mut self, now: Duration) -> Vec<SuppressedLines<S>> {
        if self.next_report.is_some_and(|at| at <= now) {
            let due = self.take_unreported();
            self.forget_idle(now);
            due
        } else {
            Vec::new()
        }
    }

    /// Returns the suppressed lines that were not reported: up to 16 sources with the most lines, and the sum of all
    /// other sources.
    pub fn take_unreported(&mut self) -> Vec<SuppressedLines<S>> {
        self.next_report = None;
        let mut rest = std::mem::take(&mut self.others.suppressed);
        let counted = self.sources.iter_mut().filter(|(_, s)| s.suppressed > 0);
        let mut due: Vec<_> = counted
            .map(|(source, lines)| SuppressedLines {
                source: Some(source.clone()),
                lines: std::mem::take(&mut lines.suppressed),
            })
            .collect();
        due.sort_by_key(|source| std::cmp::Reverse(source.lines));
        let unnamed = due.split_off(due.len().min(MAX_REPORTED));
        rest += unnamed.iter().map(|source| source.lines).sum::<u64>();
        if rest > 0 {
            due.push(SuppressedLines {
                source: None,
                lines: rest,
            });
        }
        due
    }

    /// Removes sources whose burst is available again and that have nothing to report.
    fn forget_idle(&mut self, now: Duration) {
        self.next_search = now + SEARCH_INTERVAL;
        self.sources
            .retain(|_, lines| lines.used.0 > now || lines.suppressed > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: LineRate = LineRate {
        burst: 20,
        interval: Duration::from_secs(10),
    };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn admitted(limits: &mut LogLimits<u32>, now: Duration, source: u32, lines: u32) -> u32 {
        (0..lines)
            .map(|_| u32::from(limits.admit(now, &source)))
            .sum()
    }

    fn of(source: impl Into<Option<u32>>, lines: u64) -> SuppressedLines<u32> {
        let source = source.into();
        SuppressedLines { source, lines }
    }

    #[test]
    fn each_source_has_its_own_limit() {
        let mut limits = LogLimits::new(RATE);
        assert_eq!(admitted(&mut limits, at(1), 7, 1000), 20);
        assert_eq!(admitted(&mut limits, at(1), 8, 1000), 20);
        // One line in 10 s.
        assert_eq!(admitted(&mut limits, at(31), 7, 1000), 3);
        // The whole burst after 200 s.
        assert_eq!(admitted(&mut limits, at(231), 7, 1000), 20);
    }

    #[test]
    fn suppressed_lines_are_reported_once() {
        let mut limits = LogLimits::new(RATE);
        admitted(&mut limits, at(0), 9, 20);
        assert_eq!(limits.next_report(), None);
        admitted(&mut limits, at(5), 7, 120);
        admitted(&mut limits, at(6), 8, 220);
        assert_eq!(limits.next_report(), Some(at(15)));
        assert!(limits.take_due(at(14)).is_empty());
        assert_eq!(limits.take_due(at(15)), [of(8, 200), of(7, 100)]);
        assert_eq!(
            (limits.take_due(at(30)), limits.suppressed()),
            (vec![], 300)
        );
    }

    #[test]
    fn lines_are_limited_in_total() {
        let total = LineRate {
            burst: 100,
            interval: Duration::from_secs(1),
        };
        let mut limits = LogLimits::new(RATE).with_total(total);
        let lines: u32 = (0..50)
            .map(|source| admitted(&mut limits, at(1), source, 20))
            .sum();
        assert_eq!((lines, limits.sources.len()), (100, 5));
        assert_eq!(admitted(&mut limits, at(4), 99, 20), 3);
    }

    #[test]
    fn sources_and_reports_are_bounded() {
        let mut limits = LogLimits::new(RATE);
        let lines: u32 = (0..100_000)
            .map(|source| admitted(&mut limits, at(1), source, 1))
            .sum();
        // Sources beyond the table share one limit.
        assert_eq!(lines as usize, MAX_SOURCES + 20);
        assert_eq!(limits.sources.len(), MAX_SOURCES);
        for source in 0..100 {
            admitted(&mut limits, at(1), source, 20 + source);
        }
        let due = limits.take_due(at(20));
        assert_eq!(due.len(), MAX_REPORTED + 1);
        assert_eq!(due[0], of(99, 100));
        let sum: u64 = due.iter().map(|source| source.lines).sum();
        assert_eq!(sum, limits.suppressed());
        // Idle sources give their place to others.
        assert_eq!(limits.sources.len(), 100);
        assert_eq!(admitted(&mut limits, at(20), 200_000, 20), 20);
    }
}
