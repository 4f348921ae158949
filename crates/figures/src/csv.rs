//! Records of CSV (RFC 4180): CRLF after each record, quotes where required.

use std::borrow::Cow;

/// Appends a record.
pub fn record(out: &mut String, fields: impl IntoIterator<Item = impl AsRef<str>>) {
    let fields = fields.into_iter();
    let fields: Vec<String> = fields
        .map(|text| field(text.as_ref()).into_owned())
        .collect();
    out.push_str(&fields.join(","));
    out.push_str("\r\n");
}

/// Quotes a field if necessary.
pub fn field(text: &str) -> Cow<'_, str> {
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4180, section 2
    #[test]
    fn fields_are_quoted_where_required() {
        let mut out = String::new();
        record(&mut out, ["plain", "a,b", "see \"x\"", "two\nlines", ""]);
        assert_eq!(out, "plain,\"a,b\",\"see \"\"x\"\"\",\"two\nlines\",\r\n");
    }
}
