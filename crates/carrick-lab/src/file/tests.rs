//! Parsing of scenario files, execution of the networks described, and errors with their location.

use super::*;
use crate::scenario::Silent;

mod windows;

const TWO_PATHS: &str = r#"
title = "two paths"
duration = "30 s"
repetitions = 2
measure = ["goodput", "delay.mean", "delay.p99", "retransmissions", "survived"]

[settings.quick]
rto_initial = "80 ms"
rto_min = "80 ms"
rto_max = "150 ms"
potentially_failed_max_retrans = 0
nagle = false
[settings.quick.policies]
loss_detection = "rack"

[hosts.a]
settings = "quick"
addresses = { first = "10.1.0.1", second = "10.2.0.1" }

[hosts.b]
settings = "quick"
addresses = { first = "10.1.0.2", second = "10.2.0.2" }

[links.first]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "20 ms"
queue = "6 packets"

[links.second]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "20 ms"
queue = "6 packets"

[[schedule]]
at = "8 s"
link = "first"
loss = "100 %"

[flows.data]
from = "a"
to = "b"
kind = "constant"
size = "250 bytes"
interval = "10 ms"
start = "1 s"
messages = 1500
"#;

fn parse(text: &str) -> ScenarioFile {
    ScenarioFile::parse("x.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn measured(text: &str) -> Vec<(String, f64)> {
    let result = parse(text)
        .run(&RunOptions::default(), &Silent)
        .expect("it runs");
    let rows = result.rows.into_iter();
    rows.filter_map(|row| Some((row.id, row.measured?)))
        .collect()
}

fn value(rows: &[(String, f64)], id: &str) -> f64 {
    let found = rows.iter().find(|(own, _)| own == id);
    found.unwrap_or_else(|| panic!("no {id} in {rows:?}")).1
}

#[test]
fn a_flow_survives_the_failure_of_its_first_path() {
    let rows = measured(TWO_PATHS);
    assert!((value(&rows, "data.survived") - 1.0).abs() < 1e-9);
    assert!(value(&rows, "data.retransmissions") > 0.0);
    let goodput = value(&rows, "data.goodput");
    assert!((195.0..=201.0).contains(&goodput), "{goodput}");
}

#[test]
fn values_are_equal_for_equal_seeds_only() {
    let lossy = TWO_PATHS.replace("queue = \"6 packets\"", "loss = \"1 %\"");
    let file = parse(&lossy);
    let run = |seed| {
        let options = RunOptions {
            seed,
            ..RunOptions::default()
        };
        file.run(&options, &Silent).expect("it runs").to_json()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1)["rows"], run(2)["rows"]);
}

#[test]
fn a_sweep_multiplies_its_dimensions() {
    let text = format!(
        "{TWO_PATHS}
[[sweep]]
\"links.*.loss\" = [\"0 %\", \"1 %\", \"2 %\"]
[[sweep]]
\"hosts.*.settings\" = [\"quick\", \"rfc9260\"]
\"flows.data.size\" = [250, 500]
labels = [\"quick\", \"standard\"]
"
    );
    let file = parse(&text);
    let labels: Vec<&str> = file.cells().map(Cell::label).collect();
    assert_eq!(
        labels,
        [
            "loss 0 %, quick",
            "loss 0 %, standard",
            "loss 1 %, quick",
            "loss 1 %, standard",
            "loss 2 %, quick",
            "loss 2 %, standard"
        ]
    );
    let result = file.run(&RunOptions::default(), &Silent).expect("it runs");
    assert_eq!(result.rows.len(), 6 * 5);
    assert_eq!(result.rows[5].id, "cell1.data.goodput");
    assert_eq!(result.figures.len(), 5, "over the loss");
}

/// Replaces a line of `TWO_PATHS` and checks the error.
#[track_caller]
fn wrong(old: &str, new: &str, line: usize, key: &str, expected: &str) {
    assert!(TWO_PATHS.contains(old), "{old:?} is not in the file");
    let error = ScenarioFile::parse("x.toml", &TWO_PATHS.replacen(old, new, 1)).expect_err(new);
    assert_eq!((error.line, error.key.as_str()), (line, key), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("x.toml:{line}: {key}")), "{text}");
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn errors_of_settings_and_links_have_their_location() {
    wrong("\"30 s\"", "30", 3, "duration", "a time such as \"10 ms\"");
    wrong("\"30 s\"", "\"30 kbit/s\"", 3, "duration", "a time");
    wrong(
        "nagle = false",
        "nagel = false",
        12,
        "settings.quick.nagel",
        "unknown key; expected one of",
    );
    wrong(
        "nagle = false",
        "nagle = 0",
        12,
        "settings.quick.nagle",
        "true or false",
    );
    wrong(
        "\"80 ms\"\nrto_min",
        "\"1 s\"\nrto_min",
        7,
        "settings.quick",
        "rto_initial",
    );
    wrong(
        "\"rack\"",
        "\"rock\"",
        14,
        "settings.quick.policies.loss_detection",
        "\"missing-reports\", \"every-report\", \"rack\"",
    );
    wrong(
        "\"1 Mbit/s\"",
        "\"1 Mbps\"",
        26,
        "links.first.rate",
        "such as \"1.5 Mbit/s\"",
    );
    wrong(
        "\"6 packets\"",
        "\"6 pakets\"",
        28,
        "links.first.queue",
        "\"6 packets\" or \"64 kB\"",
    );
    wrong(
        "[\"a\", \"b\"]",
        "[\"a\", \"c\"]",
        25,
        "links.first.between[1]",
        "there are: a, b",
    );
    wrong(
        "\"100 %\"",
        "\"101 %\"",
        39,
        "schedule[0].loss",
        "from 0 to 1",
    );
    wrong(
        "first = \"10.1.0.2\"",
        "first = \"10.1.0.1\"",
        22,
        "hosts.b.addresses.first",
        "is an address of \"a\" already; expected each once",
    );
    wrong(
        "second = \"10.2.0.1\"",
        "second = \"10.1.0.1\"",
        18,
        "hosts.a.addresses.second",
        "is listed already",
    );
    let twice = format!("{TWO_PATHS}[hosts.a]\nsettings = \"quick\"\n");
    let error = ScenarioFile::parse("x.toml", &twice).expect_err("a name twice");
    let lines = TWO_PATHS.lines().count();
    assert_eq!(error.line, lines + 1, "{error}");
    assert!(
        error
            .what
            .contains("exists already; expected each name once"),
        "{error}"
    );
}

#[test]
fn errors_of_flows_and_measures_have_their_location() {
    wrong(
        "link = \"first\"",
        "link = \"third\"",
        38,
        "schedule[0].link",
        "there are: first, second",
    );
    wrong(
        "\"constant\"",
        "\"bulk\"",
        46,
        "flows.data.interval",
        "has no effect here",
    );
    wrong(
        "to = \"b\"",
        "to = \"a\"",
        41,
        "flows.data",
        "two different hosts",
    );
    wrong("size = \"250 bytes\"", "", 41, "flows.data.size", "missing");
    wrong(
        "\"250 bytes\"",
        "\"4 bytes\"",
        45,
        "flows.data.size",
        "8 to",
    );
    wrong(
        "\"survived\"",
        "\"alive\"",
        5,
        "measure[4]",
        "expected one of goodput, delay.mean",
    );
    wrong(
        "first = \"10.1.0.1\"",
        "first = \"10.1.0\"",
        18,
        "hosts.a.addresses.first",
        "an IP address",
    );
    wrong("repetitions = 2", "repetitions = ", 4, "", "");
}

#[test]
fn changes_without_effect_are_errors() {
    let late = "a time before the end of the run";
    wrong("\"8 s\"", "\"30 s\"", 37, "schedule[0].at", late);
    wrong("\"8 s\"", "\"31 s\"", 37, "schedule[0].at", late);
    wrong(
        "\"8 s\"",
        "\"8 s\"\nspread = \"23 s\"",
        38,
        "schedule[0].spread",
        "ends after the change",
    );
    let nothing = "changes nothing: expected state";
    wrong("loss = \"100 %\"", "", 36, "schedule[0]", nothing);
    wrong(
        "loss = \"100 %\"",
        "direction = \"forward\"\nnode = \"a\"",
        36,
        "schedule[0]",
        nothing,
    );
    // A cell of a sweep may leave the configuration unchanged.
    parse(&TWO_PATHS.replace("loss = \"100 %\"", "loss = \"0 %\""));
    parse(&TWO_PATHS.replace("\"8 s\"", "\"8 s\"\nspread = \"22 s\""));
}

#[test]
fn ends_without_a_common_ip_version_are_errors() {
    const SIX: &str = "\"2001:db8::2\"";
    let [first, second] = ["\"10.1.0.2\"", "\"10.2.0.2\""];
    let expected = "has no IPv6 address for 2001:db8::2 of \"b\"; expected addresses of one family";
    wrong(first, SIX, 41, "flows.data", expected);
    wrong(second, SIX, 41, "flows.data", expected);
    // The receiver, which sets up the association, reaches all addresses, but the sender waits for
    // all paths.
    let by_receiver = TWO_PATHS.replace(first, SIX).replace(
        "kind = \"constant\"",
        "kind = \"constant\"\nsetup_by = \"to\"",
    );
    let error = ScenarioFile::parse("x.toml", &by_receiver).unwrap_err();
    assert_eq!(
        (error.line, error.key.as_str()),
        (41, "flows.data"),
        "{error}"
    );
    parse(&by_receiver.replace("setup_by", "wait_for_paths = false\nsetup_by"));
    for stack in ["tcp", "udp"] {
        let flow = "kind = \"constant\"\ninterval = \"20 ms\"";
        let text = between(stack, flow).replace("10.0.0.2", "2001:db8::2");
        let error = ScenarioFile::parse("x.toml", &text).expect_err(stack);
        assert_eq!(error.key, "flows.f", "{error}");
        assert!(error.what.contains(expected), "{error}");
    }
}

#[test]
fn errors_in_a_sweep_have_its_location() {
    let base = TWO_PATHS.lines().count();
    let parse =
        |sweep: &str| ScenarioFile::parse("x.toml", &format!("{TWO_PATHS}[[sweep]]\n{sweep}\n"));
    let error = parse("\"links.first.delay\" = [\"1 ms\", \"2\"]").unwrap_err();
    assert_eq!(error.line, base + 2, "{error}");
    assert_eq!(error.key, "links.first.delay");
    let error = parse("\"links.third.delay\" = [\"1 ms\"]").unwrap_err();
    assert!(error.what.contains("no key"), "{error}");
    let error = parse("\"links.first.delai\" = [\"1 ms\"]").unwrap_err();
    assert!(error.what.contains("unknown key"), "{error}");
    let error = parse("\"links.first.delay\" = \"1 ms\"").unwrap_err();
    assert!(error.what.contains("a list of values"), "{error}");
    let error = parse("links.first.delay = [\"1 ms\"]").unwrap_err();
    assert!(error.what.contains("in quotes"), "{error}");
    let error =
        parse("\"links.first.delay\" = [\"1 ms\"]\n\"links.first.loss\" = [0, 0.1]").unwrap_err();
    assert!(error.what.contains("change together"), "{error}");
    let error = parse("\"measure\" = [[\"goodput\"]]").unwrap_err();
    assert!(error.what.contains("can't be swept"), "{error}");
}

#[test]
fn sweeps_that_set_a_key_twice_are_errors() {
    let base = TWO_PATHS.lines().count();
    let parse =
        |sweep: &str| ScenarioFile::parse("x.toml", &format!("{TWO_PATHS}[[sweep]]\n{sweep}\n"));
    let special = "\"links.first.loss\" = [\"0 %\", \"20 %\"]";
    let all = "\"links.*.loss\" = [\"1 %\", \"2 %\"]";
    let whole = "\"links.first\" = [{ between = [\"a\", \"b\"] }]";
    for (first, second) in [
        (special, all),
        (all, special),
        (special, special),
        (special, whole),
    ] {
        let error = parse(&format!("{first}\n[[sweep]]\n{second}")).expect_err(second);
        assert_eq!(error.line, base + 4, "{error}");
        assert!(error.key.starts_with("sweep[1]."), "{error}");
        let earlier = format!("in line {}: expected each key once", base + 2);
        assert!(error.what.contains(&earlier), "{error}");
        assert!(error.what.contains("sets links.first"), "{error}");
    }
    // A table that is set may be refined.
    parse(&format!("{whole}\n[[sweep]]\n{special}")).expect("each is to be seen");
    let both = parse(&format!("{special}\n{all}")).unwrap_err();
    assert_eq!(both.line, base + 3, "{both}");
}

fn between(stack: &str, flow: &str) -> String {
    format!(
        r#"
duration = "60 s"
warmup = "10 s"
measure = ["goodput", "delivered", "delay.mean", "delay.max", "retransmissions", "sent_per_delivered", "links.wire.utilization", "interruption"]
[settings.s]
nagle = false
[hosts.a]
settings = "s"
tcp = {{ nagle = false }}
stack = "{stack}"
addresses = {{ wire = "10.0.0.1" }}
[hosts.b]
settings = "s"
tcp = {{ nagle = false }}
stack = "{stack}"
addresses = {{ wire = "10.0.0.2" }}
[links.wire]
between = ["a", "b"]
rate = "2 Mbit/s"
delay = "30 ms"
queue = "40 packets"
[flows.f]
from = "a"
to = "b"
size = "1000 bytes"
{flow}
"#
    )
}

#[test]
fn bulk_fills_a_link_over_sctp_and_over_tcp() {
    for stack in ["sctp", "tcp"] {
        let rows = measured(&between(stack, "kind = \"bulk\""));
        let goodput = value(&rows, "f.goodput");
        assert!((1700.0..=2000.0).contains(&goodput), "{stack}: {goodput}");
        let used = value(&rows, "links.wire.utilization");
        assert!((90.0..=100.01).contains(&used), "{stack}: {used}");
        let ratio = value(&rows, "f.sent_per_delivered");
        assert!((0.99..1.1).contains(&ratio), "{stack}: {ratio}");
    }
}

#[test]
fn requests_are_answered_over_sctp_and_over_tcp() {
    for stack in ["sctp", "tcp"] {
        let flow = "kind = \"poisson\"\ninterval = \"50 ms\"\nresponse = \"200 bytes\"";
        let rows = measured(&between(stack, flow));
        // Round trip with the transmission of request and response.
        let mean = value(&rows, "f.delay.mean");
        assert!((65.0..110.0).contains(&mean), "{stack}: {mean}");
        let delivered = value(&rows, "f.delivered");
        assert!((800.0..1200.0).contains(&delivered), "{stack}: {delivered}");
    }
}

#[test]
fn datagrams_have_the_delay_of_the_link() {
    let rows = measured(&between(
        "udp",
        "kind = \"constant\"\nrate = \"500 kbit/s\"",
    ));
    assert!((value(&rows, "f.goodput") - 500.0).abs() < 1.0, "{rows:?}");
    let transmission = 1028.0 * 8.0 / 2e6 * 1e3;
    assert!((value(&rows, "f.delay.mean") - 30.0 - transmission).abs() < 0.01);
    let bursts = "kind = \"on-off\"\nrate = \"2 Mbit/s\"\non = { exponential = \"200 ms\" }\noff = { pareto = \"200 ms\", shape = 1.5 }";
    let goodput = value(&measured(&between("udp", bursts)), "f.goodput");
    assert!((600.0..1500.0).contains(&goodput), "{goodput}");
}

#[test]
fn a_slow_reader_has_its_configured_rate() {
    let flow = "kind = \"bulk\"\nreader = { mean_interval = \"20 ms\" }";
    let delivered = value(&measured(&between("sctp", flow)), "f.delivered");
    assert!((2200.0..2800.0).contains(&delivered), "{delivered} of 2500");
}

#[test]
fn a_link_that_is_down_interrupts() {
    let text = between("sctp", "kind = \"constant\"\ninterval = \"20 ms\"")
        + "[[schedule]]\nat = \"20 s\"\nlink = \"wire\"\nstate = \"down\"\n[[schedule]]\nat = \"22 s\"\nlink = \"wire\"\nstate = \"up\"\n";
    let pause = value(&measured(&text), "f.interruption");
    assert!((2000.0..4500.0).contains(&pause), "{pause}");
}

#[test]
fn a_schedule_changes_the_rate() {
    let text = between("sctp", "kind = \"bulk\"")
        + "[[schedule]]\nat = \"10 s\"\nlink = \"wire\"\nrate = \"500 kbit/s\"\n";
    let goodput = value(&measured(&text), "f.goodput");
    assert!((400.0..=500.0).contains(&goodput), "{goodput}");
}
