//! Passes commit, its date, target and features to `carrick --version`; sources outside of a checkout have no commit.

use std::path::Path;
use std::process::Command;

/// Runs git in the root of the workspace, and returns its first line.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    let line = String::from_utf8(output.stdout).ok()?;
    Some(line.lines().next()?.to_owned())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let version = env!("CARGO_PKG_VERSION");
    // The sources may be part of another repository.
    let top = git(&root, &["rev-parse", "--show-toplevel"]);
    let is_own = top.is_some_and(|top| {
        let (top, root) = (Path::new(&top).canonicalize(), root.canonicalize());
        matches!((top, root), (Ok(top), Ok(root)) if top == root)
    });
    let commit = git(&root, &["rev-parse", "--short=9", "HEAD"]).filter(|_| is_own);
    let features = ["dtls", "lab", "simco"].into_iter().filter(|feature| {
        let variable = format!("CARGO_FEATURE_{}", feature.to_uppercase());
        std::env::var_os(variable).is_some()
    });
    let features = features.collect::<Vec<_>>().join(", ");
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=CARRICK_TARGET={target}");
    println!(
        "cargo::rustc-env=CARRICK_FEATURES={}",
        if features.is_empty() {
            "none"
        } else {
            &features
        }
    );
    let date = git(&root, &["log", "-1", "--format=%cs"]).filter(|_| commit.is_some());
    println!(
        "cargo::rustc-env=CARRICK_COMMIT_DATE={}",
        date.as_deref().unwrap_or("unknown")
    );
    match commit {
        Some(commit) => {
            println!("cargo::rustc-env=CARRICK_VERSION={version} ({commit})");
            // HEAD changes with the branch, its log with each commit.
            for file in ["HEAD", "logs/HEAD"] {
                if let Some(path) = git(&root, &["rev-parse", "--git-path", file]) {
                    println!("cargo::rerun-if-changed={}", root.join(path).display());
                }
            }
        }
        None => println!("cargo::rustc-env=CARRICK_VERSION={version}"),
    }
}
