//! Sweeps in shards: an interrupted shard continues where it stopped, and all shards together are
//! one run.

use std::fs;
use std::path::{Path, PathBuf};

use carrick_lab::RunOptions;
use carrick_lab::Silent;
use carrick_lab::file::{ScenarioFile, Shard};

const FILE: &str = r#"
duration = "5 s"
repetitions = 3
measure = ["goodput", "delay.p99", "failover"]
[hosts.a]
addresses = { l = "10.0.0.1" }
[hosts.b]
addresses = { l = "10.0.0.2" }
[links.l]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "10 ms"
queue = "10 packets"
[flows.f]
from = "a"
to = "b"
kind = "bulk"
size = "500 bytes"
[[sweep]]
"links.l.loss" = ["0 %", "1 %", "2 %"]
[[sweep]]
"links.l.queue" = ["10 packets", { limit = "10 packets", red = { minimum = 2, maximum = 8 } }]
"#;

const OPTIONS: RunOptions = RunOptions {
    seed: 5,
    reps: None,
    full: false,
};

fn file() -> ScenarioFile {
    ScenarioFile::parse("small.toml", FILE).unwrap_or_else(|error| panic!("{error}"))
}

/// A directory that is removed with its test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("carrick-sweep-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sweep(file: &ScenarioFile, shard: &str, directory: &Path) -> Result<(usize, usize), String> {
    let shard: Shard = shard.parse()?;
    let done = file.sweep(&OPTIONS, shard, directory, &Silent);
    done.map(|done| (done.before, done.added))
        .map_err(|error| error.to_string())
}

#[test]
fn merged_shards_equal_one_run() {
    let directory = Directory::new("together");
    let file = file();
    for (shard, runs) in [("1/4", 5), ("2/4", 5), ("3/4", 4), ("4/4", 4)] {
        assert_eq!(sweep(&file, shard, &directory.0), Ok((0, runs)), "{shard}");
    }
    let merged = file
        .merge(&OPTIONS, &directory.0)
        .expect("all shards are complete");
    let whole = file.run(&OPTIONS, &Silent).expect("it runs");
    assert_eq!(merged.rows, whole.rows);
    assert_eq!(merged.rows.len(), 6 * 3);
    assert!(merged.rows[2].measured.is_none(), "no path failed");
}

#[test]
fn an_interrupted_sweep_continues() {
    let directory = Directory::new("killed");
    let file = file();
    assert_eq!(sweep(&file, "1/2", &directory.0), Ok((0, 9)));
    assert_eq!(
        sweep(&file, "1/2", &directory.0),
        Ok((9, 0)),
        "the shard is complete"
    );
    let path = directory.0.join("small-1-of-2.csv");
    let text = fs::read_to_string(&path).expect("the shard's file");
    let header = text.find('\n').expect("a header") + 1;
    // Interrupted in the header, after it, within a line, before the end of a line, after it.
    let third = text.match_indices('\n').nth(3).expect("four lines").0;
    for (cut, left) in [
        (0, 0),
        (7, 0),
        (header, 0),
        (header + 3, 0),
        (third, 2),
        (third + 1, 3),
        (text.len() - 1, 8),
    ] {
        fs::write(&path, &text[..cut]).expect("written");
        assert_eq!(
            sweep(&file, "1/2", &directory.0),
            Ok((left, 9 - left)),
            "cut at {cut}"
        );
        let now = fs::read_to_string(&path).expect("the shard's file");
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(Into::into).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&now), sorted(&text), "cut at {cut}");
    }
}

#[test]
fn missing_and_foreign_runs_are_reported() {
    let directory = Directory::new("foreign");
    let file = file();
    sweep(&file, "1/2", &directory.0).expect("it runs");
    let missing = file.merge(&OPTIONS, &directory.0).unwrap_err().to_string();
    assert!(missing.contains("only 9 of 18 runs exist"), "{missing}");
    let other = RunOptions { seed: 6, ..OPTIONS };
    let shard: Shard = "1/2".parse().expect("a shard");
    let error = file
        .sweep(&other, shard, &directory.0, &Silent)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("small-1-of-2.csv:2") && error.contains("different scenario file, seed"),
        "{error}"
    );
    let changed =
        ScenarioFile::parse("small.toml", &FILE.replace("10 ms", "11 ms")).expect("a file");
    let error = sweep(&changed, "1/2", &directory.0).unwrap_err();
    assert!(error.contains("different scenario file"), "{error}");
    let changed = ScenarioFile::parse("small.toml", &FILE.replace("\"failover\"", "\"delay.p50\""))
        .expect("a file");
    let error = sweep(&changed, "1/2", &directory.0).unwrap_err();
    assert!(error.contains("different columns"), "{error}");
    // The same run in two files.
    fs::copy(
        directory.0.join("small-1-of-2.csv"),
        directory.0.join("small-1-of-3.csv"),
    )
    .expect("copied");
    let error = file.merge(&OPTIONS, &directory.0).unwrap_err().to_string();
    assert!(error.contains("is also in another shard"), "{error}");
}

#[test]
fn a_shard_number_is_within_the_count() {
    for wrong in ["", "1", "0/3", "4/3", "a/b", "1/0", "-1/2"] {
        assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
    }
    assert_eq!("1/1".parse::<Shard>(), Ok(Shard::ALL));
}
