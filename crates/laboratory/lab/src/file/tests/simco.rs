//! Flows of SIMCO over SCTP and TCP.

use super::{measured, parse, value};
use crate::file::ScenarioFile;
use crate::options::{RunOptions, Silent};

const FILE: &str = r#"
duration = "65 s"
warmup = "5 s"
measure = [
  "delay.mean", "delay.p50", "delay.max", "delay.early", "delay.late", "delivered", "pending", "pending.mean",
  "abandoned", "timeouts", "survived",
]
[settings.plain]
nagle = false
outbound_streams = 1
policies = { repeated_fast_retransmit = true }
[hosts.agent]
settings = "plain"
addresses = { path = "10.1.0.1" }
tcp = { nagle = false }
[hosts.middlebox]
settings = "plain"
addresses = { path = "10.1.0.2" }
tcp = { nagle = false }
[links.path]
between = ["agent", "middlebox"]
rate = "100 Mbit/s"
delay = "10 ms"
[flows.requests]
from = "agent"
to = "middlebox"
kind = "simco"
interval = "30 ms"
processing = "0.5 ms"
[flows.requests.pinholes]
lifetime = "10 s"
refresh = "6 s"
preload = 333
preload_window = 256
"#;

/// Runs the file with these replacements; returns the value of a measure.
fn run(replaced: &[(&str, &str)]) -> impl Fn(&str) -> f64 + use<> {
    let text = replaced.iter().fold(FILE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    let rows = measured(&text);
    move |measure| value(&rows, &format!("requests.{measure}"))
}

const TCP: (&str, &str) = ("tcp =", "stack = \"tcp\"\ntcp =");

#[test]
fn lossless_transactions_take_one_round_trip() {
    for stack in [&[][..], &[TCP]] {
        let of = run(stack);
        let longest = of("delay.max");
        assert!((20.5..20.6).contains(&of("delay.mean")) && longest < 20.7);
        for half in ["delay.early", "delay.late"] {
            assert!((of(half) - 20.55).abs() < 0.1, "{half}: {}", of(half));
        }
        // 60 s with one PER request every 30 ms.
        let opened = of("delivered");
        assert!((1800.0..2200.0).contains(&opened), "{opened}");
        // A mean lifetime of 10 s with a refresh every 6 s; the number of pending requests follows Little's law.
        let transactions = opened * (2.0 + 1.0 / ((6.0_f64 / 10.0).exp() - 1.0));
        let pending = transactions / 60.0 * 0.02052;
        let mean = of("pending.mean");
        assert!((mean / pending - 1.0).abs() < 0.1, "{mean}, not {pending}");
        assert!(of("abandoned") < 0.5);
    }
}

#[test]
fn more_streams_shorten_response_times_with_loss() {
    let lossy = ("delay = \"10 ms\"", "delay = \"10 ms\"\nloss = \"5 %\"");
    let long = ("duration = \"65 s\"", "duration = \"125 s\"");
    let mean = |streams: &str| {
        let streams = format!("outbound_streams = {streams}");
        let of = run(&[lossy, long, ("outbound_streams = 1", &streams)]);
        assert!(of("survived") > 0.5);
        of("delay.mean")
    };
    let [one, six] = ["1", "6"].map(mean);
    assert!(one > six + 5.0, "{one} and {six}");
    let tcp = run(&[lossy, TCP])("delay.mean");
    assert!(tcp > one, "{tcp} over TCP, {one} over SCTP");
}

#[test]
fn durations_count_from_the_end_of_the_preload() {
    let text = FILE.replace("\"65 s\"", "{ short = \"10 s\", full = \"15 s\" }");
    let delivered = |full| {
        let options = RunOptions {
            full,
            ..RunOptions::default()
        };
        let result = parse(&text).run(&options, &Silent).expect("it runs");
        let rows = result.rows.iter();
        let mut found = rows.filter(|row| row.id == "requests.delivered");
        found.next().and_then(|row| row.measured).expect("measured")
    };
    // One in 30 ms.
    assert!((130.0..210.0).contains(&delivered(false)));
    assert!((280.0..390.0).contains(&delivered(true)));
}

#[test]
fn errors_of_transactions_have_their_location() {
    let wrong = |from: &str, to: &str, line: usize, key: &str, expected: &str| {
        assert!(FILE.contains(from), "{from}");
        let text = FILE.replacen(from, to, 1);
        let error = ScenarioFile::parse("x.toml", &text).expect_err(to);
        assert_eq!((error.line, error.key.as_str()), (line, key), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let flow = "flows.requests";
    let size = format!("{flow}.size");
    wrong(
        "interval",
        "size = 8\ninterval",
        28,
        &size,
        "SIMCO determines its messages",
    );
    wrong(
        "interval = \"30 ms\"",
        "",
        24,
        &format!("{flow}.interval"),
        "two new pinholes",
    );
    wrong(
        "preload =",
        "preloads =",
        33,
        &format!("{flow}.pinholes.preloads"),
        "lifetime, preload, preload_window, refresh",
    );
    wrong(
        "processing",
        "setup_by = \"to\"\nprocessing",
        24,
        flow,
        "expected \"from\"",
    );
    let second = "\n[flows.second]\nfrom = \"agent\"\nto = \"middlebox\"\n";
    for (kind, expected) in [
        ("kind = \"bulk\"\nsize = 100\n", "has no other active flow"),
        (
            "kind = \"simco\"\ninterval = \"1 s\"\n",
            "one flow of SIMCO",
        ),
    ] {
        let text = format!("{FILE}{second}{kind}");
        let error = ScenarioFile::parse("x.toml", &text).expect_err(kind);
        assert!(error.to_string().contains(expected), "{error}");
    }
    let text = format!("{FILE}{second}active = false\nkind = \"bulk\"\nsize = 100\n");
    assert!(ScenarioFile::parse("x.toml", &text).is_ok());
    let udp = FILE.replace("tcp = {", "stack = \"udp\"\ntcp = {");
    let error = ScenarioFile::parse("x.toml", &udp).expect_err("no stack");
    assert!(
        error.to_string().contains("SIMCO needs hosts with stack"),
        "{error}"
    );
}
