//! Rows as a table for a terminal.

use carrick_figures::text::wrap;
use unicode_width::UnicodeWidthStr;

use super::{Column, LiveRow, Row, Verdict};
use crate::format::{self, ABSENT, or_absent};

/// Terminal width in columns if it is unknown.
pub const COLUMNS: usize = 100;
/// Minimum width of the label in columns.
const LABEL: usize = 16;
const GAP: usize = 2;

const ROW: [Column<Row>; 9] = [
    ("", |row| row.label.clone()),
    ("unit", |row| row.unit.clone()),
    ("published", |row| {
        row.published_text().unwrap_or_else(|| ABSENT.into())
    }),
    ("bound", |row| {
        row.bound_text().unwrap_or_else(|| ABSENT.into())
    }),
    ("mean", |row| or_absent(row.measured, format::measured)),
    ("median", |row| or_absent(row.median, format::measured)),
    ("± 95 %", |row| interval(row.ci95, row.measured)),
    ("n", |row| row.n.to_string()),
    ("verdict", |row| {
        row.verdict().map_or("", Verdict::words).into()
    }),
];
const LIVE: [Column<LiveRow>; 7] = [
    ("", |row| row.label.clone()),
    ("unit", |row| row.unit.clone()),
    ("published", |row| or_absent(row.published, format::given)),
    ("simulated", |row| {
        or_absent(row.simulated, format::measured)
    }),
    ("live", |row| or_absent(row.live, format::measured)),
    ("± 95 %", |row| interval(row.ci95, row.live)),
    ("differs", |row| {
        or_absent(row.difference, |d| format!("{d:+.1} %"))
    }),
];

fn interval(ci95: Option<f64>, value: Option<f64>) -> String {
    format::interval_of(ci95, value).unwrap_or_else(|| ABSENT.into())
}

/// Formats rows as aligned lines of at most `columns` columns, labels wrapped and notes below their
/// row.
pub fn to_table(rows: &[Row], columns: usize) -> String {
    table(&ROW, rows, |row| &row.note, columns)
}

/// Formats rows without the columns of published experiments.
pub fn to_plain_table(rows: &[Row], columns: usize) -> String {
    let [label, unit, _, _, mean, median, interval, n, _] = ROW;
    let plain = [label, unit, mean, median, interval, n];
    table(&plain, rows, |row| &row.note, columns)
}

/// Formats live rows as aligned lines of at most `columns` columns.
pub fn live_to_table(rows: &[LiveRow], columns: usize) -> String {
    table(&LIVE, rows, |row| &row.note, columns)
}

/// Formats rows as aligned lines, of which the first column is a label and the second a unit.
pub(crate) fn table<T>(
    header: &[Column<T>],
    rows: &[T],
    note: fn(&T) -> &str,
    columns: usize,
) -> String {
    let cells = |row| header.iter().map(|(_, cell)| cell(row)).collect();
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let header: Vec<String> = header.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut widths: Vec<usize> = header.iter().map(|name| name.width()).collect();
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    // The label uses the width that the numbers leave, and is wrapped if it is longer.
    let others: usize = widths[1..].iter().map(|w| w + GAP).sum();
    widths[0] = widths[0].min(columns.saturating_sub(others).max(LABEL));

    let mut out = String::new();
    line(&mut out, &header, &widths);
    let total: usize = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
    out.push_str(&"─".repeat(total));
    out.push('\n');
    for (mut cells, row) in cells.into_iter().zip(rows) {
        let label = wrap(&cells[0], widths[0]);
        cells[0] = label.first().cloned().unwrap_or_default();
        line(&mut out, &cells, &widths);
        for rest in label.iter().skip(1) {
            out.push_str(rest);
            out.push('\n');
        }
        for note in wrap(note(row), columns.saturating_sub(4).max(LABEL)) {
            out.push_str("    ");
            out.push_str(&note);
            out.push('\n');
        }
    }
    out
}

/// Appends a line: label and unit left-aligned, numbers right-aligned.
fn line(out: &mut String, cells: &[String], widths: &[usize]) {
    let mut text = String::new();
    for (i, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let fill = " ".repeat(width.saturating_sub(cell.width()));
        if i > 0 {
            text.push_str(&" ".repeat(GAP));
        }
        if i < 2 {
            text.push_str(cell);
            text.push_str(&fill);
        } else {
            text.push_str(&fill);
            text.push_str(cell);
        }
    }
    out.push_str(text.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn columns_line_up_and_fit_into_the_terminal() {
        let mut rows = sample().rows;
        rows[1].label = "a label of many words, ".repeat(5);
        rows[1].note = "words ".repeat(60);
        for columns in [80, 100, 120] {
            for table in [to_table(&rows, columns), to_plain_table(&rows, columns)] {
                let widest = table.lines().map(UnicodeWidthStr::width).max();
                assert!(
                    widest.is_some_and(|w| w <= columns && w + 10 > columns),
                    "{table}"
                );
            }
        }
        let table = to_table(&rows, COLUMNS);
        let header = table.lines().next().unwrap();
        let first = table.lines().nth(2).unwrap();
        let end =
            |line: &str, what: &str| line.find(what).map(|at| line[..at].width() + what.width());
        assert_eq!(end(header, "mean"), end(first, "770.0"));
        assert!(first.ends_with("interval"), "{first}");
        assert_eq!(end(header, "bound"), end(first, "708"));
        assert_eq!(end(header, "published"), end(first, "765"));
        assert!(table.contains("    one <note>\n"));
    }

    #[test]
    fn live_values_are_next_to_simulated_ones() {
        let rows = super::super::live::tests::sample().rows;
        let table = live_to_table(&rows, COLUMNS);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].ends_with("differs") && lines[0].contains("simulated"));
        assert!(lines[2].ends_with("+2.0 %") && lines[2].contains("102.0"));
        assert!(lines[4].contains("The kernel has <SACK>."), "{table}");
    }

    #[test]
    fn wide_characters_count_twice() {
        let rows = [
            Row::new("a", "漢字", "ms").published(1.0),
            Row::new("b", "abcdef", "ms").published(2.0),
        ];
        let table = to_table(&rows, COLUMNS);
        let column = |n: usize| {
            let line = table.lines().nth(n).unwrap();
            line[..line.find("ms").unwrap()].width()
        };
        assert_eq!(column(2), column(3));
    }
}
