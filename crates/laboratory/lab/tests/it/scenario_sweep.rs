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

/// Returns the curves of a figure over the first key of these sweeps.
fn curves(sweeps: &str) -> Vec<String> {
    let (scenario, _) = FILE.split_once("[[sweep]]").unwrap();
    let text = scenario.replace("repetitions = 3", "repetitions = 1") + sweeps;
    let file = ScenarioFile::parse("small.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let result = file.run(&OPTIONS, &Silent).unwrap();
    let series = result.figures[0].series.iter();
    series.map(|series| series.label.clone()).collect()
}

#[test]
fn legends_have_the_labels_of_a_sweep() {
    let axis = "[[sweep]]\n\"links.l.loss\" = [\"0 %\", \"1 %\"]\nlabels = [\"none\", \"some\"]\n";
    let keys = "[[sweep]]\n\"links.l.delay\" = [\"10 ms\", \"20 ms\"]\n\"links.l.queue\" = [\"9 packets\", \"18 packets\"]\n";
    let labels = format!("{keys}labels = [\"near\", \"far\"]\n");
    assert_eq!(curves(&format!("{axis}{labels}")), ["near", "far"]);
    assert_eq!(
        curves(&format!("{axis}{keys}")),
        [
            "delay 10 ms, queue 9 packets",
            "delay 20 ms, queue 18 packets"
        ]
    );
    assert_eq!(curves(axis), [""]);
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
        error.contains("small-1-of-2.csv, line 2")
            && error.contains("different scenario file, seed"),
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

/// A line of another version, and one that another process has run, are checked before they are appended.
#[test]
fn runs_of_other_versions_are_refused() {
    let directory = Directory::new("version");
    let file = file();
    let shard = file.open_shard(&OPTIONS, Shard::ALL, &directory.0);
    let shard = shard.expect("it is new");
    assert_eq!((shard.before(), shard.missing().len()), (0, 18));
    let line = file.run_line(&OPTIONS, (1, 2), None).expect("it runs");
    let version = env!("CARGO_PKG_VERSION");
    let older = line.replacen(version, "0.0.9", 1);
    let append = |line: &str| {
        let done = file.append(&OPTIONS, &shard, (1, 2), line);
        done.map_err(|error| error.to_string())
    };
    let error = append(&older).unwrap_err();
    assert!(
        error.contains("cell 1, repetition 2 was written by version 0.0.9"),
        "{error}"
    );
    let other = file.run_line(&OPTIONS, (1, 1), None).expect("it runs");
    assert!(append(&other).unwrap_err().contains("not that of this run"));
    assert!(append(&(line.clone() + &line)).is_err() && append(line.trim_end()).is_err());
    append(&line).expect("it is the run");
    drop(shard);
    let path = directory.0.join("small-1-of-1.csv");
    let text = fs::read_to_string(&path).expect("the shard's file");
    fs::write(&path, text.replace(&line, &older)).expect("written");
    for error in [
        sweep(&file, "1/1", &directory.0).unwrap_err(),
        file.merge(&OPTIONS, &directory.0).unwrap_err().to_string(),
    ] {
        assert!(
            error.contains("small-1-of-1.csv, line 2: was written by version 0.0.9"),
            "{error}"
        );
    }
}

#[test]
fn a_set_flag_stops_a_run() {
    let file = file();
    let stop = std::sync::atomic::AtomicBool::new(true);
    let stopped = file.run_line(&OPTIONS, (0, 0), Some(&stop));
    assert!(matches!(stopped, Err(carrick_lab::LabError::Stopped)));
}

#[test]
fn changed_keys_are_those_of_another_file() {
    let parse = |changes: &str| ScenarioFile::parse_changed("small.toml", FILE, changes);
    let changed = parse("\"links.*.delay\" = \"11 ms\"\nduration = \"6 s\"");
    let changed = changed.expect("the keys exist");
    let text = FILE.replace("10 ms", "11 ms").replace("5 s", "6 s");
    let written = ScenarioFile::parse("small.toml", &text).expect("a file");
    let rows = |file: &ScenarioFile| file.run(&OPTIONS, &Silent).expect("it runs").rows;
    assert_eq!(rows(&changed), rows(&written));
    assert_ne!(changed.fingerprint(), file().fingerprint());
    let swept =
        parse("[[sweep]]\nnames = [\"short\", \"long\"]\n\"links.l.delay\" = [\"1 ms\", \"2 ms\"]");
    assert_eq!(
        swept
            .map(|file| file.cells().len())
            .map_err(|error| error.to_string()),
        Err(
            "small.toml, line 19: sweep: two cells have the name \"short\"; expected different names"
                .into()
        )
    );
    let swept = parse("[[sweep]]\n\"links.l.delay\" = [\"1 ms\", \"2 ms\"]").expect("a dimension");
    let labels: Vec<&str> = swept.cells().map(|cell| cell.label()).collect();
    assert_eq!((labels.len(), labels[0].contains("delay 1 ms")), (12, true));
}

#[test]
fn wrong_changes_name_key_and_value() {
    for (changes, expected) in [
        (
            "\"links.far.delay\" = \"11 ms\"",
            "small.toml: links.far.delay: cannot be set to \"11 ms\": the file has no such key",
        ),
        (
            "\"links.l.delay\" = \"eleven\"",
            "small.toml: links.l.delay: \"eleven\" is invalid; expected a time",
        ),
        (
            "\"links.l.loss\" = \"1 %\"",
            "small.toml, line 20: sweep[0].links.l.loss[0]: sets links.l.loss, which is changed, too",
        ),
    ] {
        let error = ScenarioFile::parse_changed("small.toml", FILE, changes);
        let error = error.expect_err(changes).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

/// The shard for these variables of the environment.
fn scheduled(text: &str, variables: &[(&str, &str)]) -> Result<Shard, String> {
    Shard::parse(text, |name| {
        let found = variables.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn shards_are_those_of_a_schedulers_tasks() {
    let slurm = [
        ("SLURM_ARRAY_TASK_ID", "7"),
        ("SLURM_ARRAY_TASK_MIN", "5"),
        ("SLURM_ARRAY_TASK_COUNT", "4"),
        ("SLURM_PROCID", "0"),
        ("SLURM_NTASKS", "1"),
    ];
    let pbs = [("PBS_ARRAY_INDEX", "1"), ("PBS_ARRAY_COUNT", "8")];
    for (text, variables, expected) in [
        ("auto", &slurm[..], "3/4"),
        ("auto", &slurm[3..], "1/1"),
        ("auto/4", &slurm[3..4], "1/4"),
        ("auto", &pbs, "1/8"),
        ("auto/5", &pbs, "1/5"),
        (
            "auto",
            &[("JOB_COMPLETION_INDEX", "0"), ("JOB_COMPLETIONS", "3")],
            "1/3",
        ),
        ("auto/3", &[("JOB_COMPLETION_INDEX", "2")], "3/3"),
        ("2/5", &slurm, "2/5"),
    ] {
        assert_eq!(
            scheduled(text, variables),
            expected.parse(),
            "{text} {variables:?}"
        );
    }
}

#[test]
fn wrong_scheduler_variables_are_named() {
    for (text, variables, expected) in [
        (
            "auto",
            &[][..],
            "none of SLURM_ARRAY_TASK_ID, PBS_ARRAY_INDEX, JOB_COMPLETION_INDEX, SLURM_PROCID is set",
        ),
        (
            "auto",
            &[("SLURM_ARRAY_TASK_ID", "1")],
            "SLURM_ARRAY_TASK_COUNT is not set",
        ),
        (
            "auto/2",
            &[("SLURM_ARRAY_TASK_ID", "1")],
            "SLURM_ARRAY_TASK_MIN is not set",
        ),
        (
            "auto",
            &[("PBS_ARRAY_INDEX", "1")],
            "PBS_ARRAY_COUNT is not set, which PBS does not export",
        ),
        (
            "auto/5",
            &[("PBS_ARRAY_INDEX", "0")],
            "PBS_ARRAY_INDEX is 0; expected 1 to 5, for 5 shards",
        ),
        (
            "auto/3",
            &[("JOB_COMPLETION_INDEX", "3")],
            "JOB_COMPLETION_INDEX is 3; expected 0 to 2",
        ),
        (
            "auto",
            &[("JOB_COMPLETION_INDEX", "x")],
            "JOB_COMPLETION_INDEX is \"x\"; expected a whole number",
        ),
        ("auto/0", &[], "expected auto, or auto/N"),
        ("automatic", &[], "expected auto, or auto/N"),
    ] {
        let error = scheduled(text, variables).unwrap_err();
        assert!(error.contains(expected), "{text} {variables:?}: {error}");
    }
}

#[test]
fn a_shard_number_is_within_the_count() {
    for wrong in ["", "1", "0/3", "4/3", "a/b", "1/0", "-1/2"] {
        assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
    }
    assert_eq!("1/1".parse::<Shard>(), Ok(Shard::ALL));
}
