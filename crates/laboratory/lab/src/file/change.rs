//! Changes of a file's keys by the program that reads the file.

use super::error::FileError;
use super::tree::{self, Node, Value};

/// Applies a document to the tree of a file: each key, such as `"links.far.loss"`, sets that key of the file, with `*`
/// for every name; its `[[sweep]]` follow those of the file. Returns the full paths of the keys that were set.
pub(super) fn apply(tree: &mut Node, changes: &str) -> Result<Vec<Vec<String>>, FileError> {
    let mut changes = tree::parse(changes)?;
    changes.forget_lines();
    let Value::Table(entries) = changes.value else {
        return Ok(Vec::new());
    };
    let mut changed = Vec::new();
    for (key, node) in entries {
        if key == "sweep" {
            append_sweeps(tree, node);
            continue;
        }
        let path: Vec<&str> = key.split('.').collect();
        let places = tree.replace(&path, &node);
        if places.is_empty() {
            let what = format!(
                "cannot be set to {}: the file has no such key; expected a key such as \"links.far.loss\", with * for every name",
                node.describe()
            );
            return Err(FileError::new(0, &key, what));
        }
        changed.extend(places);
    }
    Ok(changed)
}

/// Appends dimensions to those of the file.
fn append_sweeps(tree: &mut Node, own: Node) {
    let Value::Table(entries) = &mut tree.value else {
        return;
    };
    match entries.iter_mut().find(|(key, _)| key == "sweep") {
        Some((_, sweep)) => {
            if let (Value::List(all), Value::List(own)) = (&mut sweep.value, own.value) {
                all.extend(own);
            }
        }
        None => entries.push(("sweep".into(), own)),
    }
}
