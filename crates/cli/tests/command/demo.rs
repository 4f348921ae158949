//! `carrick demo`: two endpoints, and two networks of which one after the other is cut.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Finished, run, start};

/// Number of messages in each direction.
const MESSAGES: u64 = 750;

fn of_event<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// Returns the summary, which is the last line.
fn summary(lines: &[Value]) -> &Value {
    let last = lines.last().unwrap();
    assert_eq!(last["event"], "summary");
    last
}

#[test]
fn all_messages_survive_a_cut_of_each_network() {
    let demo = run(&["demo", "--json"]);
    assert_eq!(demo.code, Some(0), "{demo:?}");
    assert_eq!(demo.errors, "");
    let lines = demo.json();
    assert_eq!(lines[0]["event"], "start");
    assert_eq!(lines[0]["emulated"], true);
    assert_eq!(lines[0]["messages"], MESSAGES);
    let changes = of_event(&lines, "network");
    let changes = changes.iter().map(|line| (&line["path"], &line["state"]));
    let changes: Vec<_> = changes.collect();
    let expected = [(1, "cut"), (1, "up"), (2, "cut"), (2, "up")];
    let expected = expected.map(|(path, state)| (json!(path), json!(state)));
    assert_eq!(
        changes,
        expected.each_ref().map(|(path, state)| (path, state))
    );

    let summary = summary(&lines);
    assert_eq!(summary["outcome"], "complete");
    for direction in ["a_to_b", "b_to_a"] {
        let direction = &summary[direction];
        assert_eq!(direction["sent"], MESSAGES, "{summary}");
        assert_eq!(direction["received"], MESSAGES, "{summary}");
        assert_eq!(direction["repeated"], 0, "{summary}");
        assert_eq!(direction["out_of_order"], 0, "{summary}");
        assert!(direction["longest_silence"].is_f64(), "{summary}");
    }
    let cuts = summary["cuts"].as_array().unwrap();
    assert_eq!(cuts.len(), 2, "{summary}");
    for (cut, path) in cuts.iter().zip(1..) {
        assert_eq!(cut["path"], path, "{summary}");
        assert!(cut["start"].as_f64() <= cut["end"].as_f64(), "{summary}");
        for direction in ["a_to_b", "b_to_a"] {
            assert!(cut["longest_delay"].get(direction).is_some(), "{summary}");
        }
    }
    let lost = cuts
        .iter()
        .map(|cut| cut["packets_discarded"].as_u64().unwrap());
    assert!(lost.sum::<u64>() > 0, "{summary}");

    // B selects path 2 as its primary path.
    let decisions = of_event(&lines, "decision");
    let selects = |line: &&Value| line["decision"] == "carries-new-data" && line["endpoint"] == "B";
    assert_eq!(decisions.into_iter().find(selects).unwrap()["path"], 2);
    let samples = of_event(&lines, "sample");
    assert!(samples.len() >= 2, "{}", samples.len());
    for sample in samples {
        for path in sample["paths"].as_array().unwrap() {
            for end in ["a", "b"] {
                assert!(path[end]["bits_per_second"].is_f64(), "{sample}");
                assert!(path[end]["state"].is_string(), "{sample}");
            }
        }
    }
}

#[test]
fn lines_without_a_terminal_are_plain() {
    let demo = run(&["demo"]);
    assert_eq!(demo.code, Some(0), "{demo:?}");
    let text = String::from_utf8(demo.out).unwrap();
    assert!(!text.contains(['\x1b', '\r']), "{text:?}");
    for words in [
        "emulated in this process",
        "network 1 is cut",
        "network 1 is repaired",
        "network 2 is cut",
        "network 2 is repaired",
        "A to B 750 of 750, B to A 750 of 750",
        "0 lost, 0 repeated, 0 out of order",
        "carrick cat -l 5000",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}

/// Starts the demonstration and ends it by a signal while a network is cut.
fn ended_by(signal: Signal) -> Finished {
    let mut demo = start(&["demo", "--json"]);
    while demo.json_line()["event"] != "network" {}
    demo.signal(signal);
    demo.finish()
}

#[test]
fn a_signal_ends_it_with_the_summary_so_far() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let demo = ended_by(signal);
        demo.assert_failed(1, signal.as_str());
        let lines = demo.json();
        let summary = summary(&lines);
        assert_eq!(summary["outcome"], "interrupted");
        for direction in ["a_to_b", "b_to_a"] {
            let [sent, received] = ["sent", "received"].map(|n| summary[direction][n].as_u64());
            assert!(sent > Some(0) && received <= sent, "{summary}");
        }
        assert_eq!(summary["cuts"][0]["path"], 1);
    }
}
