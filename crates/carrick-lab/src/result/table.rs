//! Rows as a table for a terminal of at most 100 columns.

use unicode_width::UnicodeWidthStr;

use super::Row;
use crate::format;

const WIDTH: usize = 100;
const HEADER: [&str; 7] = ["", "unit", "published", "bound", "measured", "± 95 %", "n"];
const GAP: usize = 2;

/// The rows as aligned lines, notes wrapped below their row.
pub fn to_table(rows: &[Row]) -> String {
    let cells: Vec<[String; 7]> = rows.iter().map(cells).collect();
    let mut widths = HEADER.map(UnicodeWidthStr::width);
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    // The label gets what the numbers leave, and is wrapped where that is not enough.
    let others: usize = widths[1..].iter().map(|w| w + GAP).sum();
    widths[0] = widths[0].min(WIDTH.saturating_sub(others).max(16));

    let mut out = String::new();
    line(&mut out, &HEADER.map(String::from), &widths);
    let total: usize = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
    out.push_str(&"─".repeat(total));
    out.push('\n');
    for (row, mut cells) in rows.iter().zip(cells) {
        let label = wrap(&cells[0], widths[0]);
        cells[0] = label.first().cloned().unwrap_or_default();
        line(&mut out, &cells, &widths);
        for rest in label.iter().skip(1) {
            out.push_str(rest);
            out.push('\n');
        }
        for note in wrap(&row.note, WIDTH - 4) {
            out.push_str("    ");
            out.push_str(&note);
            out.push('\n');
        }
    }
    out
}

fn cells(row: &Row) -> [String; 7] {
    let given = |value: Option<f64>| value.map_or_else(|| "–".into(), format::given);
    let measured = row.measured.map_or_else(|| "–".into(), format::measured);
    let interval = match (row.ci95, row.measured) {
        (Some(ci95), Some(measured)) => format::interval(ci95, measured),
        _ => "–".into(),
    };
    [
        row.label.clone(),
        row.unit.clone(),
        given(row.published),
        row.bound.map_or_else(|| "–".into(), format::bound),
        measured,
        interval,
        row.n.to_string(),
    ]
}

/// Label and unit to the left, numbers to the right.
fn line(out: &mut String, cells: &[String; 7], widths: &[usize; 7]) {
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

/// `text` in lines of at most `width` columns, broken at spaces; a longer word has its own line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.width() + 1 + word.width() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn columns_line_up_and_fit_in_100() {
        let mut rows = sample().rows;
        rows[1].label = "a label that goes on and on, ".repeat(5);
        rows[1].note = "words ".repeat(60);
        let table = to_table(&rows);
        for line in table.lines() {
            assert!(line.width() <= 100, "{} columns: {line}", line.width());
        }
        let header = table.lines().next().unwrap();
        let first = table.lines().nth(2).unwrap();
        let end =
            |line: &str, what: &str| line.find(what).map(|at| line[..at].width() + what.width());
        assert_eq!(end(header, "measured"), end(first, "770.0"));
        assert_eq!(end(header, "bound"), end(first, "708"));
        assert_eq!(end(header, "published"), end(first, "765"));
        assert!(table.contains("    one <note>\n"));
    }

    #[test]
    fn wide_letters_count_twice() {
        let rows = [
            Row::new("a", "漢字", "ms").published(1.0),
            Row::new("b", "abcdef", "ms").published(2.0),
        ];
        let table = to_table(&rows);
        let column = |n: usize| {
            let line = table.lines().nth(n).unwrap();
            line[..line.find("ms").unwrap()].width()
        };
        assert_eq!(column(2), column(3));
    }

    #[test]
    fn wrapping_keeps_every_word() {
        let text = "one two three four five";
        let lines = wrap(text, 9);
        assert_eq!(lines.join(" "), text);
        assert!(lines.iter().all(|line| line.width() <= 9));
        assert!(wrap("", 9).is_empty());
    }
}
