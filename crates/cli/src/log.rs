//! Log of long-running programs: lines on stderr with time and level.

use std::fmt::Display;
use std::io::{Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

#[cfg(target_os = "linux")]
use crate::failure::Failure;

/// Format of the log.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// Lines with time, level and text.
    #[default]
    Text,
    /// A JSON object a line, with `time`, `level` and `message`.
    Json,
}

/// The format is JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Sets the format of the process's log.
#[cfg(target_os = "linux")]
pub(crate) fn set_format(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Logs why a program ends if its log is JSON; a text log has the line of [`Failure::report`].
#[cfg(target_os = "linux")]
pub(crate) fn logged(failure: Failure) -> Failure {
    match failure {
        Failure::Run(line) if IS_JSON.load(Ordering::Relaxed) => {
            error(line);
            Failure::Logged
        }
        failure => failure,
    }
}

/// Logs an event on stderr with time (UTC) and level, for long-running programs.
pub(crate) fn info(line: impl Display) {
    log("info", line);
}

/// Logs on stderr an event that needs an operator's attention.
pub(crate) fn warn(line: impl Display) {
    log("warn", line);
}

/// Logs on stderr why a long-running program ends.
pub(crate) fn error(line: impl Display) {
    log("error", line);
}

fn log(level: &str, line: impl Display) {
    let mut line = if IS_JSON.load(Ordering::Relaxed) {
        object(level, line)
    } else {
        stamped(level, line)
    };
    line.push('\n');
    // One call, so that lines of several processes do not mix. stderr may be closed.
    let _ = stderr().write_all(line.as_bytes());
}

/// Returns a line of the log in JSON.
fn object(level: &str, line: impl Display) -> String {
    let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    serde_json::json!({ "time": time, "level": level, "message": line.to_string() }).to_string()
}

/// Returns a line of the log.
pub(crate) fn stamped(level: &str, line: impl Display) -> String {
    let now = humantime::format_rfc3339_millis(SystemTime::now());
    format!("{now} {level} carrick: {line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_line_is_one_object() {
        let line = object("warn", "two\nlines with \"quotes\"");
        assert!(!line.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["level"], "warn");
        assert_eq!(value["message"], "two\nlines with \"quotes\"");
        let time = value["time"].as_str().unwrap();
        assert!(humantime::parse_rfc3339(time).is_ok(), "{time}");
    }
}
