//! Rows as CSV (RFC 4180): CRLF after each record, quotes where required.

use std::collections::BTreeSet;

use carrick_figures::csv::record;
use serde_json::Value;

use super::{LiveRow, Row, to_value};

/// Header of the rows: names of JSON.
const ROW: &str =
    "id,label,unit,bound,bound_kind,published,published_to,measured,median,ci95,n,verdict,note";
/// Header of live results: names of JSON.
const LIVE: &str =
    "id,label,unit,published,simulated,simulated_ci95,live,ci95,n,difference,agreement,note";

/// Formats rows as CSV with a header line.
pub fn to_csv(rows: &[Row]) -> String {
    table(ROW, rows.iter().map(Row::to_json))
}

/// Formats live results as CSV with a header line.
pub fn live_to_csv(rows: &[LiveRow]) -> String {
    table(LIVE, rows.iter().map(to_value))
}

/// Formats the values of all repetitions as CSV with a header line: the first columns, then one for each swept
/// key. `seed` is that of the run; a repetition draws its random numbers from it and its own number.
pub fn repetitions_to_csv(seed: u64, rows: &[Row]) -> String {
    let swept = rows.iter().flat_map(|row| row.swept.keys());
    let keys: BTreeSet<&str> = swept.map(String::as_str).collect();
    let first = ["id", "unit", "cell", "seed", "repetition", "value"];
    let mut out = String::new();
    record(&mut out, first.into_iter().chain(keys.iter().copied()));
    for row in rows {
        let cell = row.cell.clone().unwrap_or_default();
        for (number, value) in row.repetitions.iter().zip(&row.values) {
            let (seed, number, value) = (seed.to_string(), number.to_string(), value.to_string());
            let first = [
                row.id.clone(),
                row.unit.clone(),
                cell.clone(),
                seed,
                number,
                value,
            ];
            let swept = keys.iter().map(|key| row.swept.get(*key).cloned());
            let swept = swept.map(Option::unwrap_or_default);
            record(&mut out, first.into_iter().chain(swept));
        }
    }
    out
}

fn table(header: &str, rows: impl Iterator<Item = Value>) -> String {
    let mut out = format!("{header}\r\n");
    for row in rows {
        let fields = header.split(',').map(|column| text_of(&row[column]));
        record(&mut out, fields);
    }
    out
}

/// Formats a text or number; an absent one is empty.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        number => number
            .as_f64()
            .map_or_else(String::new, |own| own.to_string()),
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
            Some(
                "id,label,unit,bound,bound_kind,published,published_to,measured,median,ci95,n,verdict,note"
            )
        );
        let first = records.next().unwrap();
        assert!(
            first.starts_with("a.delay,\"delay, \"\"first\"\"\",ms,708,lower,765,,770,770,24.8")
        );
        assert!(csv.ends_with("b.delay,delay of W″,ms,,,,,,,,0,,\"two\r\nlines\"\r\n"));
    }

    #[test]
    fn each_repetition_has_a_record() {
        let mut rows = sample().rows;
        rows[0].cell = Some("lossy".into());
        rows[0].repetitions = vec![0, 2, 3];
        rows[0].swept = [("links.a.loss".into(), "1 %".into())].into();
        let csv = repetitions_to_csv(7, &rows);
        let records: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(
            records[0],
            "id,unit,cell,seed,repetition,value,links.a.loss"
        );
        assert_eq!(records[3], "a.delay,ms,lossy,7,3,780,1 %");
        assert_eq!(records[4..], [""], "a row without values has no record");
    }
}
