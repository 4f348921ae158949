//! Passes the commit of the checkout to `carrick --version`; sources without one have none.

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
