//! JSON objects on standard output, one per line.

use std::io::Write;
use std::sync::LazyLock;
use std::time::Instant;

use serde_json::{Value, json};

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the start time of the program; to be called first at its start.
pub(crate) fn started() -> Instant {
    *STARTED
}

/// Prints one line: the event, the time, and these fields.
pub(crate) fn emit(event: &str, fields: Value) {
    let mut line = json!({
        "event": event,
        "ms": u64::try_from(started().elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
        line.extend(fields);
    }
    let mut out = std::io::stdout().lock();
    // Without a reader the output is not needed; the exit status still reports the result.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
