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

fn parsed() -> Vec<(String, Script)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let all = scripts(&root).into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a script");
        let name = path
            .strip_prefix(&root)
            .expect("a path")
            .display()
            .to_string();
        let script = Script::parse(&text).unwrap_or_else(|error| panic!("{name}:{error}"));
        (name, script)
    });
    all.collect()
}

#[test]
fn every_script_passes() {
    let failures: Vec<String> = parsed()
        .iter()
        .filter_map(|(name, script)| Some(format!("{name}:{}", script.run().failure?)))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_changed_expectation_fails() {
    let mut passed = Vec::new();
    for (name, script) in parsed() {
        let mutations = script.mutations();
        assert!(!mutations.is_empty(), "{name} expects nothing");
        for mutation in mutations {
            if mutation.script.run().failure.is_none() {
                passed.push(format!("{name}:{}: {}", mutation.position, mutation.change));
            }
        }
    }
    assert!(
        passed.is_empty(),
        "without an effect:\n{}",
        passed.join("\n")
    );
}

#[test]
fn the_first_line_has_the_source() {
    for (name, script) in parsed() {
        let (source, rule) = script.title.split_once(": ").unwrap_or_default();
        let is_source = source.starts_with("RFC ") || source.starts_with("draft-");
        assert!(
            is_source && source.contains(", section ") && !rule.is_empty(),
            "{name}: {}",
            script.title
        );
    }
}
