//! Rows as CSV (RFC 4180): CRLF after each record, quotes where required.

use std::borrow::Cow;

use super::{Agreement, BoundKind, LiveRow, Row, Verdict};

/// Formats rows as CSV with a header line.
pub fn to_csv(rows: &[Row]) -> String {
    let header = [
        "id",
        "label",
        "unit",
        "bound",
        "bound_kind",
        "published",
        "measured",
        "median",
        "ci95",
        "n",
        "verdict",
        "note",
    ];
    table(header, rows.iter().map(fields))
}

fn fields(row: &Row) -> [Cow<'_, str>; 12] {
    [
        row.id.as_str().into(),
        row.label.as_str().into(),
        row.unit.as_str().into(),
        number(row.bound),
        row.bound_kind.map_or("", BoundKind::name).into(),
        number(row.published),
        number(row.measured),
        number(row.median),
        number(row.ci95),
        row.n.to_string().into(),
        row.verdict().map_or("", Verdict::name).into(),
        row.note.as_str().into(),
    ]
}

/// Formats the values of all repetitions as CSV with a header line. `seed` is that of the run; a
/// repetition draws its random numbers from it and its own number.
pub(crate) fn repetitions_to_csv(seed: u64, rows: &[Row]) -> String {
    let values = rows.iter().flat_map(|row| {
        let numbered = row.values.iter().enumerate();
        numbered.map(move |(number, value)| -> [Cow<'_, str>; 5] {
            [
                row.id.as_str().into(),
                row.unit.as_str().into(),
                seed.to_string().into(),
                number.to_string().into(),
                value.to_string().into(),
            ]
        })
    });
    table(["id", "unit", "seed", "repetition", "value"], values)
}

/// Formats live results as CSV with a header line.
pub fn live_to_csv(rows: &[LiveRow]) -> String {
    let header = [
        "id",
        "label",
        "unit",
        "published",
        "simulated",
        "simulated_ci95",
        "live",
        "ci95",
        "n",
        "difference",
        "agreement",
        "note",
    ];
    table(header, rows.iter().map(live_fields))
}

fn live_fields(row: &LiveRow) -> [Cow<'_, str>; 12] {
    [
        row.id.as_str().into(),
        row.label.as_str().into(),
        row.unit.as_str().into(),
        number(row.published),
        number(row.simulated),
        number(row.simulated_ci95),
        number(row.live),
        number(row.ci95),
        row.n.to_string().into(),
        number(row.difference),
        row.agreement.map_or("", Agreement::words).into(),
        row.note.as_str().into(),
    ]
}

/// Formats a number; an absent one is empty.
fn number(value: Option<f64>) -> Cow<'static, str> {
    value.map_or_else(String::new, |v| v.to_string()).into()
}

fn table<'r, const N: usize>(
    header: [&'static str; N],
    rows: impl Iterator<Item = [Cow<'r, str>; N]>,
) -> String {
    let mut out = String::new();
    record(&mut out, &header.map(Cow::Borrowed));
    for row in rows {
        record(&mut out, &row);
    }
    out
}

/// Appends a record.
pub(crate) fn record(out: &mut String, fields: &[Cow<'_, str>]) {
    for (i, text) in fields.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&field(text));
    }
    out.push_str("\r\n");
}

/// Quotes a field if necessary.
pub(crate) fn field(text: &str) -> Cow<'_, str> {
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn live_rows_have_their_own_columns() {
        let csv = live_to_csv(&super::super::live::tests::sample().rows);
        let mut records = csv.split("\r\n");
        assert_eq!(
            records.next(),
            Some(
                "id,label,unit,published,simulated,simulated_ci95,live,ci95,n,difference,agreement,note"
            )
        );
        let first = records.next().unwrap();
        assert!(first.starts_with("a.delay.udp,\"delay, UDP\",ms,99,100,,102,"));
        assert!(first.contains(",2,2."), "{first}");
        assert_eq!(records.filter(|record| !record.is_empty()).count(), 1);
    }

    #[test]
    fn quotes_commas_and_line_breaks_survive() {
        let mut rows = sample().rows;
        rows[1].note = "two\r\nlines".into();
        let csv = to_csv(&rows);
        let mut records = csv.split("\r\n");
        assert_eq!(
            records.next(),
            Some("id,label,unit,bound,bound_kind,published,measured,median,ci95,n,verdict,note")
        );
        let first = records.next().unwrap();
        assert!(
            first.starts_with("a.delay,\"delay, \"\"first\"\"\",ms,708,lower,765,770,770,24.8")
        );
        assert!(csv.ends_with("b.delay,delay of W″,ms,,,,,,,0,,\"two\r\nlines\"\r\n"));
    }

    #[test]
    fn each_repetition_has_a_record() {
        let csv = repetitions_to_csv(7, &sample().rows);
        let records: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(records[0], "id,unit,seed,repetition,value");
        assert_eq!(records[3], "a.delay,ms,7,2,780");
        assert_eq!(records[4..], [""], "a row without values has no record");
    }
}
