//! Scenario files: the examples in the documentation run unchanged, and it has every key.

use std::path::{Path, PathBuf};

use carrick_lab::RunOptions;
use carrick_lab::Silent;
use carrick_lab::file::ScenarioFile;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn options(reps: u64) -> RunOptions {
    RunOptions {
        seed: 3,
        reps: Some(reps),
        full: false,
    }
}

/// Returns the complete files in the documentation, each with its line.
fn examples() -> Vec<(usize, String)> {
    let path = root().join("docs/scenario-files.md");
    let text = std::fs::read_to_string(path).expect("the documentation");
    let mut all = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        match &mut open {
            None if line == "```toml" => open = Some((number + 1, String::new())),
            Some(_) if line == "```" => all.extend(open.take()),
            Some((_, block)) => {
                block.push_str(line);
                block.push('\n');
            }
            None => {}
        }
    }
    all
}

#[test]
fn every_example_in_the_documentation_runs() {
    let examples = examples();
    assert!(examples.len() >= 4, "{} examples", examples.len());
    for (line, text) in examples {
        let name = format!("docs/scenario-files.md, line {line}");
        let file = ScenarioFile::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        let result = file
            .run(&options(1), &Silent)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            result.rows.iter().any(|row| row.measured.is_some()),
            "{name}"
        );
    }
}

#[test]
fn errors_in_the_documentation_are_printed() {
    let documentation = std::fs::read_to_string(root().join("docs/scenario-files.md")).unwrap();
    let errors: Vec<&str> = documentation
        .lines()
        .filter_map(|line| line.strip_prefix("carrick: "))
        .collect();
    let (_, good) = &examples()[0];
    let bad = good.replace("delay = \"30 ms\"", "delay = \"30\"");
    let printed = ScenarioFile::parse("mine.toml", &bad)
        .unwrap_err()
        .to_string();
    assert_eq!(errors, [printed]);
}

/// Parses a file with an unknown key at `place`, and returns the keys listed in the error.
fn known(place: &str) -> Vec<String> {
    let text = format!("duration = \"2 s\"\n{}\n", place.replace("HERE", "zzz = 1"));
    let error = ScenarioFile::parse("x.toml", &text)
        .expect_err(place)
        .to_string();
    let (_, list) = error
        .split_once("unknown key; expected one of ")
        .unwrap_or_else(|| panic!("{error}"));
    list.split(", ").map(Into::into).collect()
}

#[test]
fn every_key_is_in_the_documentation() {
    const HOSTS: &str = "[hosts.a]\naddresses = { l = \"10.0.0.1\" }\n[hosts.b]\naddresses = { l = \"10.0.0.2\" }\n";
    const LINK: &str = "[links.l]\nbetween = [\"a\", \"b\"]\n";
    const FLOW: &str = "[flows.f]\nfrom = \"a\"\nto = \"b\"\nkind = \"bulk\"\nsize = 100\n";
    const SIMCO: &str =
        "[flows.f]\nfrom = \"a\"\nto = \"b\"\nkind = \"simco\"\ninterval = \"1 s\"\n";
    let places = [
        format!("HERE\n{HOSTS}{LINK}{FLOW}"),
        "[settings.s]\nHERE".into(),
        "[settings.s]\npath_mtu_discovery = { HERE }".into(),
        "[settings.s.extensions]\nHERE".into(),
        "[settings.s.policies]\nHERE".into(),
        "[settings.s.policies.multipath]\nHERE".into(),
        format!("{HOSTS}HERE\n{LINK}{FLOW}"),
        format!("{HOSTS}tcp = {{ HERE }}\n{LINK}{FLOW}"),
        format!("{HOSTS}mobile = {{ home = \"l\", HERE }}\n{LINK}{FLOW}"),
        format!("{HOSTS}[routers.r]\nHERE\n{LINK}{FLOW}"),
        format!("{HOSTS}{LINK}HERE\n{FLOW}"),
        format!("{HOSTS}{LINK}forward = {{ HERE }}\n{FLOW}"),
        format!("{HOSTS}{LINK}loss = {{ HERE }}\n{FLOW}"),
        format!("{HOSTS}{LINK}queue = {{ HERE }}\n{FLOW}"),
        format!("{HOSTS}{LINK}queue = {{ red = {{ minimum = 1, maximum = 2, HERE }} }}\n{FLOW}"),
        format!("{HOSTS}{LINK}jitter = {{ standard_deviation = \"1 ms\", HERE }}\n{FLOW}"),
        format!(
            "{HOSTS}{LINK}reorder = {{ probability = 0, extra_delay = \"1 ms\", HERE }}\n{FLOW}"
        ),
        format!("{HOSTS}{LINK}[[schedule]]\nat = \"1 s\"\nlink = \"l\"\nHERE\n{FLOW}"),
        format!("{HOSTS}{LINK}{FLOW}[live]\nHERE"),
        format!("{HOSTS}{LINK}{FLOW}HERE"),
        format!("{HOSTS}{LINK}{FLOW}reader = {{ mean_interval = \"1 ms\", HERE }}"),
        format!("{HOSTS}{LINK}{FLOW}reliability = {{ HERE }}"),
        format!("{HOSTS}{LINK}{SIMCO}HERE"),
        format!("{HOSTS}{LINK}{SIMCO}pinholes = {{ HERE }}"),
        format!("[live]\nHERE\n{HOSTS}{LINK}{FLOW}"),
    ];
    let text =
        std::fs::read_to_string(root().join("docs/scenario-files.md")).expect("the documentation");
    let mut keys = 0;
    for place in &places {
        for key in known(place) {
            assert!(
                text.contains(&format!("`{key}`")),
                "{key} is not documented"
            );
            keys += 1;
        }
    }
    assert!(keys > 120, "{keys} keys");
    let measures = format!("{HOSTS}{LINK}{FLOW}");
    let text_of = format!("duration = \"1 s\"\nmeasure = [\"zzz\"]\n{measures}");
    let error = ScenarioFile::parse("x.toml", &text_of)
        .expect_err("no such measure")
        .to_string();
    let (_, list) = error.split_once("expected one of ").expect("a list");
    for name in list.split(", ") {
        assert!(
            text.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
    }
}
