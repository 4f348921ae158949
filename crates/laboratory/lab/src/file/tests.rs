//! Parsing of scenario files, execution of the networks described, and errors with their location.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use carrick_netsim::Loss;

use super::*;
use crate::options::Silent;

mod layers;
mod mobility;
mod presets;
mod simco;
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
fn policy_routing_sends_by_the_source_or_not_at_all() {
    let host = "[hosts.a]\nsettings = \"quick\"\n";
    let with = |keys: &str| TWO_PATHS.replace(host, &format!("{host}{keys}"));
    // The only addresses are of different networks: the route to b's is by the first link.
    let crossed = |keys: &str| {
        let text = with(keys).replace("first = \"10.1.0.1\", ", "");
        let text = text.replace(", second = \"10.2.0.2\"", "");
        let text = text.replace("loss = \"100 %\"", "loss = \"0 %\"");
        let result = parse(&text).run(&RunOptions::default(), &Silent);
        let rows = result.map_or_else(|_| Vec::new(), |result| result.rows);
        let goodput = rows.into_iter().find(|row| row.id == "data.goodput");
        goodput
            .and_then(|row| row.measured)
            .is_some_and(|rate| rate > 0.0)
    };
    assert!(crossed("policy_routing = false\n"));
    assert!(!crossed("policy_routing = true\n"));
    let both = with("policy_routing = true\nsource_routing = true\n");
    let error = ScenarioFile::parse("x.toml", &both).expect_err("two routings");
    let error = error.to_string();
    assert!(
        error.contains("either source_routing or policy_routing"),
        "{error}"
    );
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

#[test]
fn listed_cells_set_their_own_keys_only() {
    let text = format!(
        "{TWO_PATHS}
[[cell]]
name = \"plain\"
[[cell]]
name = \"lossy.long\"
label = \"with loss\"
duration = \"40 s\"
\"links.first.loss\" = \"1 %\"
[[sweep]]
names = [\"\", \"large\"]
\"flows.data.size\" = [250, 500]
"
    );
    let file = parse(&text);
    let names: Vec<&str> = file.cells().map(Cell::name).collect();
    assert_eq!(
        names,
        ["plain", "plain.large", "lossy.long", "lossy.long.large"]
    );
    let labels: Vec<&str> = file.cells().map(Cell::label).collect();
    assert_eq!(labels[1..3], ["plain, size 500", "with loss, size 250"]);
    let columns = file.cells().map(|cell| cell.values().len());
    assert!(columns.eq([3; 4]), "every cell has a column for each key");
    let lengths = file.cells.iter().map(|(_, model)| model.duration.as_secs());
    assert!(lengths.eq([30, 30, 40, 40]));
    assert_eq!(file.cells[0].1.links[0].config[0].loss, Loss::None);
    assert_eq!(file.cells[3].1.links[0].config[0].loss, Loss::Random(0.01));
}

#[test]
fn errors_in_a_listed_cell_have_its_location() {
    let base = TWO_PATHS.lines().count();
    let error = |cell: &str| {
        ScenarioFile::parse("x.toml", &format!("{TWO_PATHS}[[cell]]\n{cell}\n")).expect_err(cell)
    };
    for (cell, line, key, expected) in [
        ("label = \"x\"", 1, "cell[0]", "name: missing"),
        ("name = \"x y\"", 2, "cell[0].name", "letters, digits"),
        (
            "name = \"x\"\nlinks.first.loss = 0",
            3,
            "cell[0].links",
            "in quotes, such as \"links.name.loss\"",
        ),
        (
            "name = \"x\"\nmeasure = []",
            3,
            "cell[0].measure",
            "all cells share it",
        ),
        (
            "name = \"x\"\n\"links.third.loss\" = 0",
            3,
            "cell[0].links.third.loss",
            "has no \"links.third\"",
        ),
        (
            "name = \"x\"\n[[cell]]\nname = \"x\"",
            1,
            "cell",
            "two cells have the name \"x\"",
        ),
    ] {
        let error = error(cell);
        assert_eq!(error.line, base + line, "{error}");
        assert_eq!(error.key, key, "{error}");
        assert!(error.what.contains(expected), "{error}");
    }
}

#[test]
fn cells_of_a_sweep_are_chosen_by_name() {
    let text = format!(
        "only = [\"low.*\", \"p0.5.quick\"]{TWO_PATHS}
[[sweep]]
names = [\"low\", \"p0.5\", \"high\"]
\"links.*.loss\" = [\"0 %\", \"0.5 %\", \"2 %\"]
[[sweep]]
names = [\"quick\", \"plain\"]
\"hosts.*.settings\" = [\"quick\", \"rfc9260\"]
"
    );
    let names = |text: &str| -> Vec<String> {
        parse(text)
            .cells()
            .map(|cell| cell.name().to_owned())
            .collect()
    };
    assert_eq!(names(&text), ["low.quick", "low.plain", "p0.5.quick"]);
    let error = ScenarioFile::parse("x.toml", &text.replace("low.*", "low")).unwrap_err();
    assert_eq!((error.line, error.key.as_str()), (1, "only[0]"), "{error}");
    assert!(error.what.contains("no cell has this name"), "{error}");
}

/// Replaces a line of `TWO_PATHS` and checks the error.
#[track_caller]
fn wrong(old: &str, new: &str, line: usize, key: &str, expected: &str) {
    assert!(TWO_PATHS.contains(old), "{old:?} is not in the file");
    let error = ScenarioFile::parse("x.toml", &TWO_PATHS.replacen(old, new, 1)).expect_err(new);
    assert_eq!((error.line, error.key.as_str()), (line, key), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("x.toml, line {line}: {key}")),
        "{text}"
    );
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
    assert!(error.what.contains("has no \"links.third\""), "{error}");
    let error = parse("\"link.first.delay\" = [\"1 ms\"]").unwrap_err();
    assert!(error.what.contains("has no \"link\""), "{error}");
    let error = parse("\"links.*.delay.mean\" = [\"1 ms\"]").unwrap_err();
    assert!(
        error.what.contains("has no \"links.*.delay.mean\""),
        "{error}"
    );
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
fn stacks_without_a_simulation_are_named() {
    for stack in ["dtls", "quic"] {
        let file = parse(&between(stack, "kind = \"bulk\""));
        let error = file.run(&RunOptions::default(), &Silent).unwrap_err();
        let text = format!("stack \"{stack}\" runs in real time only");
        assert!(error.to_string().contains(&text), "{error}");
    }
    let bulk = between("usrsctp", "kind = \"bulk\"");
    let error = ScenarioFile::parse("x.toml", &bulk).unwrap_err();
    assert!(
        error.to_string().contains("have messages at a rate"),
        "{error}"
    );
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
    let rows = measured(&between("sctp", flow));
    let delivered = value(&rows, "f.delivered");
    assert!((2200.0..2800.0).contains(&delivered), "{delivered} of 2500");
    let by_rate = flow.replace("mean_interval = \"20 ms\"", "rate = \"50 kB/s\"");
    assert_eq!(measured(&between("sctp", &by_rate)), rows);
}

#[test]
fn accepted_chunks_are_counted_without_a_reader() {
    let flow = "kind = \"bulk\"\nmessages = 20\nreader = \"never\"";
    let text = between("sctp", flow).replace("[\"goodput", "[\"accepted\", \"goodput");
    let rows = measured(&text);
    assert!((value(&rows, "f.accepted") - 20.0).abs() < 1e-9);
    assert!(value(&rows, "f.delivered").abs() < 1e-9);
}

#[test]
fn chunks_and_packets_are_counted_without_a_log() {
    let text = between("sctp", "kind = \"bulk\"").replace(
        "[\"goodput\", \"delivered\"",
        "[\"chunks_per_message\", \"throughput\", \"goodput\", \"delivered\"",
    );
    let rows = measured(&text);
    let ratio = value(&rows, "f.chunks_per_message");
    let by_log = value(&rows, "f.sent_per_delivered");
    assert!((ratio - by_log).abs() < 1e-9, "{ratio}, {by_log}");
    let throughput = value(&rows, "f.throughput");
    let used = value(&rows, "links.wire.utilization") * 20.0;
    assert!((throughput - used).abs() < 1e-6, "{throughput}, {used}");
}

#[test]
fn flows_that_are_not_active_set_up_nothing() {
    let other = r#"
[hosts.c]
addresses = { other = "10.1.0.1" }
[hosts.d]
addresses = { other = "10.1.0.2" }
[links.other]
between = ["c", "d"]
rate = "2 Mbit/s"
[flows.g]
active = false
from = "c"
to = "d"
kind = "bulk"
size = 100
"#;
    let text = between("sctp", "kind = \"bulk\"") + other;
    let text = text.replace("[\"goodput", "[\"links.other.utilization\", \"goodput");
    let rows = measured(&text);
    assert!(
        value(&rows, "links.other.utilization").abs() < 1e-9,
        "{rows:?}"
    );
}

#[test]
fn cells_have_their_own_repetitions() {
    let text = between("sctp", "kind = \"bulk\"\nmessages = 10")
        + "[[cell]]\nname = \"often\"\n[[cell]]\nname = \"seldom\"\n\"repetitions\" = { short = 2, full = 3 }\n\
           [[cell]]\nname = \"late\"\n";
    let file = parse(&format!("repetitions = 4\nfull_only = [\"late\"]\n{text}"));
    let counts = |reps, full| {
        let options = RunOptions {
            seed: 1,
            reps,
            full,
        };
        let all = (0..3).map(|cell| file.repetitions_of(cell, &options));
        all.collect::<Vec<u64>>()
    };
    assert_eq!(counts(None, false), [4, 2, 0]);
    assert_eq!(counts(None, true), [4, 3, 4]);
    assert_eq!(counts(Some(9), false), [9, 2, 0]);
    assert_eq!(counts(Some(1), true), [1, 1, 1]);
    let result = file.run(&RunOptions::default(), &Silent).expect("it runs");
    let measured = result.rows.iter().filter(|row| row.measured.is_some());
    assert!(measured.clone().all(|row| !row.id.starts_with("late")));
    assert!(measured.count() > 0);
}

#[test]
fn a_waiting_message_goes_before_bulk_data() {
    let text = between("sctp", "kind = \"bulk\"")
        + "[flows.urgent]\nfrom = \"a\"\nto = \"b\"\nkind = \"constant\"\nsize = 100\ninterval = \"500 ms\"\nblocking = true\n";
    let rows = measured(&text);
    let delivered = value(&rows, "urgent.delivered");
    assert!(delivered > 40.0, "{delivered}");
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

/// A full disk is no fault of the stack, which is to be reported with the seed.
#[cfg(target_os = "linux")]
#[test]
fn a_capture_on_a_full_disk_names_its_place() {
    let file = ScenarioFile::parse("x.toml", TWO_PATHS).unwrap();
    let directory = std::env::temp_dir().join(format!("carrick-full-{}", std::process::id()));
    let options = RunOptions {
        reps: Some(1),
        ..RunOptions::default()
    };
    let run = || file.run_captured(&options, &Silent, Some(&directory));
    run().unwrap();
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/full", path).unwrap();
    }
    let failed = run();
    std::fs::remove_dir_all(&directory).unwrap();
    let Err(LabError::Capture(what)) = failed else {
        panic!("{failed:?}");
    };
    let place = format!("cannot write {}/", directory.display());
    assert!(what.starts_with(&place), "{what}");
    assert!(what.contains(".pcapng: No space left on device"), "{what}");
}

#[test]
fn captures_replace_files_when_they_are_complete() {
    let file = ScenarioFile::parse("x.toml", TWO_PATHS).unwrap();
    let name = format!("carrick-captures-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let options = RunOptions {
        reps: Some(1),
        ..RunOptions::default()
    };
    let contents = || {
        let entries = std::fs::read_dir(&directory).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect::<BTreeMap<_, _>>()
    };
    file.run_captured(&options, &Silent, Some(&directory))
        .unwrap();
    let first = contents();
    let stop = AtomicBool::new(true);
    let extras = Extras {
        capture: Some(&directory),
        stop: Some(&stop),
        ..Extras::default()
    };
    let repetition = Repetition {
        seed: 9,
        number: 0,
        count: 1,
    };
    assert!(run::run(&file.cells[0].1, repetition, extras).is_err());
    let kept = contents();
    let other = RunOptions { seed: 9, ..options };
    file.run_captured(&other, &Silent, Some(&directory))
        .unwrap();
    let replaced = contents();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(!first.is_empty() && kept == first);
    assert!(replaced.keys().eq(first.keys()) && replaced != first);
}
