//! All scripts under `conformance/` pass, and fail when an expectation is changed.

use std::fs;
use std::path::{Path, PathBuf};

use carrick_script::Script;

/// Returns the scripts below a directory, in the order of their names.
fn scripts(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(scripts(&path));
        } else if path.extension().is_some_and(|e| e == "pkt") {
            found.push(path);
        }
    }
    found
}

/// Returns name and text of all scripts.
fn conformance() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../conformance");
    let all = scripts(&root).into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a script");
        let name = path.strip_prefix(&root).expect("a path");
        (name.display().to_string(), text)
    });
    all.collect()
}

/// Returns the failure of a script, `None` if it passes and the stack sends nothing behind its last event.
#[track_caller]
fn failure(name: &str, text: &str) -> Option<String> {
    let script = Script::parse(text).unwrap_or_else(|error| panic!("{name}:{error}\n{text}"));
    let outcome = script.run();
    let failure = outcome.failure.or(outcome.unexpected);
    Some(format!("{name}:{}", failure?))
}

/// Calls whose result is the number that a script gives to a descriptor.
const OPENING_CALLS: [&str; 3] = ["socket(", "accept(", "sctp_peeloff("];

/// Calls that return more than their result.
const RETURNING_CALLS: [&str; 5] = ["getsockopt(", "recv(", "recvmsg(", "read(", "sctp_recvmsg("];

/// Returns the changes of a line of a script, one value each. Tags and initial TSNs in INIT and INIT ACK remain,
/// since a script chooses them.
fn changes(line: &str) -> Vec<String> {
    let (time, event) = line.split_once(char::is_whitespace).unwrap_or_default();
    let event = event.trim_start();
    let is_comment = line.starts_with("//") || line.starts_with("--");
    if is_comment || event.starts_with('<') || OPENING_CALLS.iter().any(|c| event.starts_with(c)) {
        return Vec::new();
    }
    if !event.starts_with('>') {
        let mut changed: Vec<String> = changed_result(line).into_iter().collect();
        if RETURNING_CALLS.iter().any(|c| event.starts_with(c)) && !line.contains("= -1") {
            changed.extend(changed_values(line, '='));
            changed.extend(changed_values(line, '"').into_iter().take(1));
        }
        return changed;
    }
    let mut changed: Vec<String> = later(time)
        .map(|t| format!("{t} {event}"))
        .into_iter()
        .collect();
    changed.extend(changed_values(line, '='));
    changed
}

/// Changes each value behind a sign, or for `"` the text itself.
fn changed_values(line: &str, sign: char) -> Vec<String> {
    let mut changed = Vec::new();
    for (at, _) in line.match_indices(sign) {
        let (before, value) = line.split_at(at + usize::from(sign == '='));
        let key = before
            .trim_end_matches('=')
            .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
            .next();
        let is_chosen = matches!(key, Some("tag" | "tsn")) && before.contains(": INIT");
        // The result of a call.
        let is_result = before.ends_with(") =");
        if let Some(value) = changed_value(value).filter(|_| !is_chosen && !is_result) {
            changed.push(format!("{before}{value}"));
        }
    }
    changed
}

/// Changes the result of a call.
fn changed_result(line: &str) -> Option<String> {
    let (call, result) = line.rsplit_once(") = ")?;
    match result.trim().parse::<i64>() {
        Ok(number) => Some(format!("{call}) = {}", number + 1)),
        Err(_) if result.starts_with("-1 E") => Some(format!("{call}) = 0")),
        Err(_) => None,
    }
}

/// Moves a time beyond itself; `*` has no other.
fn later(time: &str) -> Option<String> {
    let plus = if time.starts_with('+') { "+" } else { "" };
    let times: Vec<f64> = time
        .split('~')
        .map_while(|t| t.trim_matches('+').parse().ok())
        .collect();
    let moved = times.last()? - times.first()? + 0.001;
    let times: Vec<String> = times
        .iter()
        .map(|t| format!("{plus}{:.6}", t + moved))
        .collect();
    Some(times.join("~"))
}

/// Changes the value at the beginning of a text.
fn changed_value(text: &str) -> Option<String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    if let Some(hex) = text.strip_prefix("0x") {
        let digits = hex.find(|c: char| !c.is_ascii_hexdigit())?;
        let number = u64::from_str_radix(&hex[..digits], 16).ok()?;
        return Some(format!("{:#x}{}", number ^ 1, &hex[digits..]));
    }
    if let Ok(number) = text[..digits].parse::<u64>() {
        return Some(format!("{}{}", number ^ 1, &text[digits..]));
    }
    if let Some(rest) = text.strip_prefix('"') {
        return Some(format!("\"X{}", &rest[1..]));
    }
    if text.starts_with(['B', 'E', 'I', 'T', 'U']) {
        let letters = text.find([',', ']'])?;
        return Some(format!("0{}", &text[letters..]));
    }
    let end = text.find(']')?;
    let first = text.strip_prefix('[')?.chars().next()?;
    let added = match first {
        ']' => "9",
        _ if text[..end].contains(':') => "9:9, ",
        '0'..='9' => "9, ",
        'S' => "7, ",
        _ => return None,
    };
    Some(format!("[{added}{}", &text[1..]))
}

#[test]
fn every_script_passes() {
    let all = conformance();
    let failures: Vec<String> = all
        .iter()
        .filter_map(|(name, text)| failure(name, text))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Each expected time, field and result is changed once.
#[test]
fn a_changed_expectation_fails() {
    let mut passed = Vec::new();
    for (name, text) in conformance() {
        let lines: Vec<&str> = text.lines().collect();
        let mut count = 0;
        for (index, line) in lines.iter().enumerate() {
            for mut changed in changes(line) {
                if changed.contains("gaps=[9]") {
                    changed = changed.replace("gaps=[9]", "gaps=[9:9]");
                }
                let mut copy = lines.clone();
                copy[index] = &changed;
                count += 1;
                if failure(&name, &copy.join("\n")).is_none() {
                    passed.push(format!("{name}:{}: {changed}", index + 1));
                }
            }
        }
        assert!(count > 0, "{name} expects nothing");
    }
    assert!(
        passed.is_empty(),
        "without an effect:\n{}",
        passed.join("\n")
    );
}

#[test]
fn the_first_line_has_the_source() {
    for (name, text) in conformance() {
        let title = Script::parse(&text).expect("a script").title;
        let (source, rule) = title.split_once(": ").unwrap_or_default();
        let is_source = source.starts_with("RFC ") || source.starts_with("draft-");
        assert!(
            is_source && source.contains(", section ") && !rule.is_empty(),
            "{name}: {title}"
        );
    }
}
