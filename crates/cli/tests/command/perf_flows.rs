//! Flows of `carrick perf`: their messages arrive, are answered or abandoned as specified, and both sides report the same.

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;

use serde_json::Value;

use crate::perf::{client, events, measure, server, summary};
use crate::support::run;

/// Measures with flows; returns the results of the flows.
fn flows(arguments: &[&str]) -> Vec<Value> {
    let summary = measure(&["127.0.0.1"], arguments);
    summary["flows"].as_array().unwrap().clone()
}

fn number(value: &Value, name: &str) -> u64 {
    let number = value[name].as_u64();
    number.unwrap_or_else(|| panic!("{name} is missing in {value}"))
}

#[test]
fn each_flow_reports_its_messages() {
    let flows = flows(&[
        "--flow",
        "stream=1,size=100,messages=50,interval=1ms",
        "--flow",
        "stream=1,size=100K,messages=7,unordered=30%",
        "--flow",
        "stream=9,size=1000,messages=20,reverse,rate=10M",
    ]);
    assert_eq!(flows.len(), 3);
    for (flow, (direction, messages, size)) in flows.iter().zip([
        ("to_server", 50, 100),
        ("to_server", 7, 102_400),
        ("to_client", 20, 1000),
    ]) {
        assert_eq!(flow["direction"], direction);
        assert_eq!(number(flow, "messages"), messages, "{flow}");
        assert_eq!(number(flow, "bytes"), messages * size);
        assert_eq!(number(flow, "lost"), 0);
        assert_eq!(number(&flow["delay"], "messages"), messages);
        assert!(flow["longest_interruption"].as_f64() > Some(0.0));
        assert_eq!(flow["responses"], Value::Null);
    }
}

/// The options of iperf3 are flows, too.
#[test]
fn the_options_of_iperf3_are_flows() {
    let load = ["-n", "100000", "-s", "1000", "--bidir", "--streams", "3"];
    let flows = flows(&load);
    let directions: Vec<_> = flows.iter().map(|flow| &flow["direction"]).collect();
    assert_eq!(directions, ["to_server", "to_client"]);
    for flow in &flows {
        assert_eq!(number(flow, "messages"), 100);
        assert_eq!(number(flow, "bytes"), 100_000);
    }
}

#[test]
fn a_seed_repeats_the_sizes() {
    let flow = "size=exponential:500,messages=300,interval=exponential:100us";
    let bytes = |seed| number(&flows(&["--flow", flow, "--seed", seed])[0], "bytes");
    let first = bytes("7");
    assert_eq!(first, bytes("7"));
    assert_ne!(first, bytes("8"));
    // The mean of 300 is within five standard errors of 500, which also is the deviation.
    let mean = first as f64 / 300.0;
    assert!(
        (mean - 500.0).abs() < 5.0 * 500.0 / 300_f64.sqrt(),
        "{mean}"
    );
}

#[test]
fn the_seed_is_printed() {
    let server = server(&["127.0.0.1"], &["--once"]);
    let flow = ["--flow", "size=uniform:100:200,messages=10"];
    let client = client("127.0.0.1", &server, &flow);
    let begin = &events(&client, "begin")[0]["request"];
    assert!(begin["seed"].as_u64().is_some(), "{begin}");
    assert_eq!(begin["seed"], summary(&client)["request"]["seed"]);
    summary(&server.running.finish());
}

#[test]
fn each_request_has_a_response() {
    let flows = flows(&[
        "--flow",
        "size=64,respond=200,messages=100",
        "--flow",
        "size=2000,respond=100K,messages=9,interval=1ms,reverse",
        "--flow",
        "size=100,respond=8,messages=50,interval=exponential:1ms,unordered",
    ]);
    for (flow, (messages, size)) in flows.iter().zip([(100, 200), (9, 102_400), (50, 8)]) {
        assert_eq!(number(flow, "messages"), messages, "{flow}");
        let responses = &flow["responses"];
        assert_eq!(number(responses, "messages"), messages, "{flow}");
        assert_eq!(number(responses, "bytes"), messages * size);
        assert_eq!(number(responses, "lost"), 0);
        assert_eq!(number(&responses["delay"], "messages"), messages);
        // The response arrives after the request.
        let [request, response] = [&flow["delay"], &responses["delay"]];
        assert!(
            response["max"].as_f64() >= request["min"].as_f64(),
            "{flow}"
        );
    }
}

/// Forwards datagrams between a client and the server's port; drops each seventh one that carries a full packet to the server.
fn lossy_relay(server_port: &str) -> String {
    let near = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let far = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let port = near.local_addr().unwrap().port().to_string();
    far.connect(format!("127.0.0.1:{server_port}")).unwrap();
    let (to_client, from_server) = (Arc::clone(&near), Arc::clone(&far));
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        let mut client = None;
        let mut full = 0;
        // The thread ends with the process.
        while let Ok((length, sender)) = near.recv_from(&mut buffer) {
            if client.is_none() {
                client = Some(sender);
                let (near, far) = (Arc::clone(&to_client), Arc::clone(&from_server));
                thread::spawn(move || {
                    let mut buffer = vec![0; 65_536];
                    while let Ok(length) = far.recv(&mut buffer) {
                        let _ = near.send_to(&buffer[..length], sender);
                    }
                });
            }
            full += u64::from(length > 1000);
            if length <= 1000 || full % 7 != 0 {
                let _ = far.send(&buffer[..length]);
            }
        }
    });
    port
}

/// RFC 7496, section 3.1: messages that are not retransmitted are lost with their packets; other flows lose none.
#[test]
fn abandoned_messages_are_reported_as_lost() {
    let mut server = server(&["127.0.0.1"], &["--once"]);
    server.udp_port = lossy_relay(&server.udp_port);
    let load = [
        "--flow",
        "stream=1,size=1200,interval=2ms,messages=200,retransmissions=0",
        "--flow",
        "stream=2,size=1200,interval=2ms,messages=200",
        "--mtu",
        "1400",
    ];
    let of_client = summary(&client("127.0.0.1", &server, &load));
    assert_eq!(of_client, summary(&server.running.finish()));
    let [partial, reliable] = [0, 1].map(|flow| &of_client["flows"][flow]);
    assert!(number(partial, "lost") > 0, "{partial}");
    let all = number(partial, "lost") + number(partial, "messages");
    assert_eq!(all, 200, "{partial}");
    assert_eq!(number(reliable, "messages"), 200);
    assert_eq!(number(reliable, "lost"), 0);
    assert!(number(&of_client["client"], "retransmissions") > 0);
}

/// A message each 10 ms in 100 ms, then a pause that exceeds the transfer. No delay of this host makes them more.
#[test]
fn a_flow_pauses_in_its_off_phase() {
    let flow = "interval=10ms,on=100ms,off=1h";
    let flows = flows(&["--flow", flow, "-t", "1"]);
    let messages = number(&flows[0], "messages");
    assert!((1..=10).contains(&messages), "{messages}");
}

#[test]
fn each_association_has_all_flows() {
    let server = server(&["127.0.0.1"], &["--once"]);
    let flow = "size=uniform:100:1000,messages=100";
    let load = ["-P", "2", "--seed", "3", "--flow", flow];
    let client = client("127.0.0.1", &server, &load);
    assert_eq!(client.code, Some(0), "{client:?}");
    assert_eq!(server.running.finish().code, Some(0));
    let summaries = events(&client, "summary");
    let flows: Vec<_> = summaries.iter().map(|s| &s["flows"][0]).collect();
    assert_eq!(flows.len(), 2);
    assert!(flows.iter().all(|flow| number(flow, "messages") == 100));
    let [first, second] = [0, 1].map(|n| number(flows[n], "bytes"));
    assert_ne!(first, second, "they draw different numbers");
    assert_eq!(
        number(&events(&client, "sum")[0]["to_server"], "bytes"),
        first + second
    );
}

#[test]
fn intervals_of_flows_add_up() {
    let server = server(&["127.0.0.1"], &["--once", "-i", "0.1"]);
    let load = [
        "--flow",
        "size=100,interval=5ms,messages=60,respond=50",
        "--flow",
        "size=500,interval=10ms,messages=30,reverse",
        "-i",
        "0.1",
    ];
    let client = client("127.0.0.1", &server, &load);
    summary(&client);
    let server = server.running.finish();
    let total = |side, flow: usize, what: &str| -> u64 {
        let lines = events(side, "interval");
        let flows = lines.iter().map(|line| &line["flows"][flow]);
        flows.map(|flow| number(&flow[what], "messages")).sum()
    };
    assert_eq!(total(&client, 0, "sent"), 60);
    assert_eq!(total(&server, 0, "received"), 60);
    assert_eq!(total(&client, 0, "responses"), 60);
    assert_eq!(total(&server, 1, "sent"), 30);
    assert_eq!(total(&client, 1, "received"), 30);
    assert_eq!(total(&client, 1, "sent"), 0);
}

/// The flow that ends before the omitted time has no result, but its loss counts.
#[test]
fn the_omitted_time_is_not_in_the_flows() {
    let load = [
        "-t",
        "0.3",
        "-O",
        "0.7",
        "--flow",
        "interval=20ms,respond=100",
        "--flow",
        "messages=3",
    ];
    let flows = flows(&load);
    // 51 in a second.
    assert!(number(&flows[0], "messages") <= 51, "{}", flows[0]);
    assert_eq!(number(&flows[0], "lost"), 0);
    assert_eq!(number(&flows[0]["responses"], "lost"), 0);
    assert_eq!(number(&flows[1], "messages"), 0);
}

#[test]
fn text_has_a_line_for_each_flow() {
    let server = server(&["127.0.0.1"], &["--once"]);
    let spec = "size=100,messages=5,respond=30";
    let to = ["--peer-udp-port", &server.udp_port, "--flow", spec];
    let client = run(&[&["perf", "client", "127.0.0.1"][..], &to].concat());
    assert_eq!(client.code, Some(0), "{client:?}");
    let text = String::from_utf8(client.out).unwrap();
    for line in [
        "[1] flow 1 to server: size=100,messages=5,respond=30\n",
        "5 messages, 0 lost, longest interruption",
        "[1] flow 1 responses:",
        "[1] flow 1 response time: min",
    ] {
        assert!(text.contains(line), "{line:?} is missing in {text}");
    }
}

#[test]
fn wrong_flows_are_refused_by_name() {
    for (flow, error) in [
        (
            "size=0",
            "'--flow <KEY=VALUE,...>': size: must be at least 1 byte",
        ),
        ("size=7", "size: must be 8 bytes to 1 MiB"),
        (
            "interval=20",
            "interval: a time needs its unit: write 20ms or 20s",
        ),
        ("sise=20", "sise: unknown key; the keys are stream, size"),
        ("respond=64,retransmissions=0", "give interval or rate"),
    ] {
        run(&["perf", "client", "127.0.0.1", "--flow", flow]).assert_failed(2, error);
    }
    for option in [
        ["-n", "1M"],
        ["-s", "100"],
        ["-b", "1M"],
        ["--streams", "3"],
    ] {
        let flow = ["perf", "client", "127.0.0.1", "--flow", "stream=1"];
        run(&[&flow[..], &option].concat()).assert_failed(2, "cannot be used with");
    }
    let many = ["--flow", "stream=1"].repeat(65);
    let client = ["perf", "client", "127.0.0.1"];
    run(&[&client[..], &many].concat()).assert_failed(2, "at most 64 times --flow");
    run(&["perf", "client", "127.0.0.1", "--seed", "1"]).assert_failed(2, "--flow");
}

/// Both sides state it, and the report of the client.
#[test]
fn missing_partial_reliability_is_reported() {
    let report = std::env::temp_dir().join(format!("carrick-perf-pr-{}.html", std::process::id()));
    let flow = "size=100,messages=5,lifetime=1s";
    for (more, in_force) in [(&["--prsctp-enable=false"][..], false), (&[], true)] {
        let server = server(&["127.0.0.1"], &[&["--once"], more].concat());
        let load = ["--flow", "messages=1", "--flow", flow, "--report"];
        let load = [&load[..], &[report.to_str().unwrap()]].concat();
        let client = client("127.0.0.1", &server, &load);
        summary(&client);
        for side in [&client, &server.running.finish()] {
            assert_eq!(events(side, "begin")[0]["partial_reliability"], in_force);
        }
        let page = std::fs::read_to_string(&report).unwrap();
        std::fs::remove_file(&report).unwrap();
        assert_eq!(
            page.contains("no message of flow 2 is abandoned."),
            !in_force
        );
    }
    let server = server(&["127.0.0.1"], &["--once", "--prsctp-enable=false"]);
    let port = &server.udp_port[..];
    let client = ["perf", "client", "127.0.0.1", "--peer-udp-port", port];
    let client = run(&[&client[..], &["--flow", flow]].concat());
    let text = String::from_utf8(client.out).unwrap();
    let line = "[1] one side does not offer partial reliability (RFC 3758)";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    server.running.finish();
}

/// Both sides of the text have a line for each flow, sent or received.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_has_the_lines_of_each_flow() {
    let server = server(&["127.0.0.1"], &["--once"]);
    let mut client = crate::support::start(&[
        "perf",
        "client",
        "127.0.0.1",
        "--peer-udp-port",
        &server.udp_port,
        "-i",
        "0.1",
        "--flow",
        "size=100,interval=1ms,respond=50",
        "--flow",
        "stream=2,size=300,interval=1ms,reverse",
    ]);
    for _ in 0..2 {
        client.wait_for_output("  received ");
    }
    client.interrupt();
    let client = client.finish();
    client.assert_failed(1, "interrupted");
    let text = String::from_utf8(client.out).unwrap();
    for line in [
        "[1] flow 1 to server: sent ",
        "[1] flow 1 responses: ",
        "[1] flow 1 response time: ",
        "[1] flow 2 to client: ",
        "[1] flow 2 delay: ",
    ] {
        assert!(text.contains(line), "{line:?} is missing: {text}");
    }
    let interrupted = &events(&server.running.finish(), "interrupted")[0];
    assert_eq!(interrupted["flows_sent"][0]["flow"], 2, "{interrupted}");
}
