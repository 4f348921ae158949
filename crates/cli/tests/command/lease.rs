//! `carrick cat`, `perf` and `simco` share the UDP port of a daemon.

use std::process::Stdio;

use crate::simco::{Folder, text_of};
use crate::socket_programs::Served;
use crate::support::{Finished, Running, start_in};

/// Starts the command where the daemon is that of the environment.
fn start(served: &Served, arguments: &[&str]) -> Running {
    let variables = [("CARRICK_DAEMON", &served.socket[..])];
    let program = env!("CARGO_BIN_EXE_carrick");
    start_in(Stdio::piped(), &variables, program, arguments)
}

/// Reads the line about the daemon.
fn shares(running: &mut Running, served: &Served) {
    let line = running.error_line();
    let daemon = format!("through the daemon on {}", served.socket);
    assert!(line.contains(&daemon), "{line}");
}

fn succeeded(finished: &Finished) {
    assert_eq!(finished.code, Some(0), "{}", finished.errors);
}

/// Pair of `cat`.
struct Pair {
    listener: Running,
    client: Running,
}

impl Pair {
    fn start(served: &Served, port: &str) -> Self {
        let mut listener = start(served, &["cat", "-l", port, "--recv-only"]);
        shares(&mut listener, served);
        let line = listener.error_line();
        let place = format!("port {port} over UDP port {}", served.port);
        assert!(line.contains(&place), "{line}");
        listener.read_on();
        let to = ["cat", "127.0.0.1", port, "--peer-udp-port", &served.port];
        let mut client = start(served, &to);
        shares(&mut client, served);
        Self { listener, client }
    }

    /// Ends the input, and returns what was received.
    fn end(mut self) -> Vec<u8> {
        self.client.close_input();
        succeeded(&self.client.finish());
        let listener = self.listener.finish();
        succeeded(&listener);
        listener.out
    }
}

#[test]
fn commands_share_the_port_of_a_daemon() {
    let served = Served::start("lease");
    let mut pairs = ["5007", "5008"].map(|port| Pair::start(&served, port));
    let taken = start(&served, &["cat", "-l", "5007"]).finish();
    taken.assert_failed(1, "another program has the port");
    let mut server = start(&served, &["perf", "server", "--once", "--json"]);
    shares(&mut server, &served);
    let listening = server.json_line();
    assert_eq!(listening["udp_port"].to_string(), served.port);
    assert_eq!(listening["through_daemon"], true);
    let to = [
        "perf",
        "client",
        "127.0.0.1",
        "--peer-udp-port",
        &served.port,
    ];
    let transfer = ["-n", "20M", "--bidir", "--json"];
    let client = start(&served, &[&to[..], &transfer].concat()).finish();
    succeeded(&client);
    assert_eq!(client.json()[0]["through_daemon"], true);
    succeeded(&server.finish());
    let files: [Vec<u8>; 2] = [3, 7].map(|step| {
        let numbers = (0u32..3_000_000).map(|n| (n.wrapping_mul(step) >> 3) as u8);
        numbers.collect()
    });
    for (pair, file) in pairs.iter_mut().zip(&files) {
        pair.client.feed(file.clone());
    }
    for (pair, file) in pairs.into_iter().zip(&files) {
        succeeded(&pair.client.finish());
        let listener = pair.listener.finish();
        succeeded(&listener);
        assert!(listener.out == *file, "{} bytes", listener.out.len());
    }
    // An explicit port does without the daemon.
    let mut apart = start(
        &served,
        &[
            "cat",
            "-l",
            "5007",
            "--udp-port",
            "0",
            "--bind",
            "127.0.0.1",
        ],
    );
    let line = apart.error_line();
    assert!(
        line.contains("listening") && !line.contains("daemon"),
        "{line}"
    );
    apart.interrupt();
    apart.finish();
    let daemon = served.end();
    succeeded(&daemon);
}

/// The daemon ends a lease with the process that has it.
#[test]
fn an_endpoint_at_a_daemon_is_not_handed_over() {
    let served = Served::start("lease-of-an-endpoint");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let config = carrick::Config::udp([[127, 0, 0, 1].into()]).daemon(&served.socket);
        let endpoint = carrick::Endpoint::bind(config).unwrap();
        let error = endpoint.hand_over().await.unwrap_err();
        assert!(error.to_string().contains("Config::daemon"), "{error}");
        assert_eq!(endpoint.associations().await, Ok(0), "it continues");
    });
    succeeded(&served.end());
}

/// Protocol state is in the process: neither a handover nor a crash of the daemon ends the association.
#[test]
fn associations_outlive_the_daemon_that_carries_them() {
    let mut served = Served::start("lease-renewal");
    let mut pair = Pair::start(&served, "5010");
    let mut input = pair.client.input();
    let mut write = |text: &str| {
        use std::io::Write;
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    };
    write("before\n");
    let mut next = start_daemon(&served, &["--take-over"]);
    assert!(next.error_line().contains("serving"));
    let old = std::mem::replace(&mut served.daemon, next).finish();
    succeeded(&old);
    write("after the handover\n");
    served.daemon.kill();
    served.daemon = start_daemon(&served, &[]);
    assert!(served.daemon.error_line().contains("serving"));
    write("after the crash\n");
    drop(input);
    let received = pair.end();
    let text = String::from_utf8(received).unwrap();
    assert_eq!(text, "before\nafter the handover\nafter the crash\n");
    // Without a successor the endpoint ends.
    let mut alone = start(&served, &["cat", "-l", "5011"]);
    shares(&mut alone, &served);
    alone.error_line();
    succeeded(&served.end());
    let finished = alone.finish();
    finished.assert_failed(1, "has ended, and with it the lease of SCTP port 5011");
}

fn start_daemon(served: &Served, options: &[&str]) -> Running {
    let mut arguments = vec!["daemon", "--socket", &served.socket];
    arguments.extend(["--udp-port", &served.port, "--bind", "127.0.0.1"]);
    arguments.extend(options);
    crate::support::start(&arguments)
}

#[test]
fn simco_shares_the_port_of_a_daemon() {
    let served = Served::start("lease-simco");
    let folder = Folder::new("lease");
    let config = "name = \"box\"\n[backend]\nkind = \"memory\"\n\
         [listen]\nsctp = { addresses = [\"127.0.0.1\"], port = 5012 }\n\
         [[agents]]\nname = \"pbx\"\nkey-file = \"key\"\nrights = \"all\"\n";
    std::fs::write(folder.file("lease.toml"), config).unwrap();
    let config = folder.file("lease.toml");
    let mut middlebox = start(&served, &["simco", "middlebox", "--config", &config]);
    let line = middlebox.error_line();
    let place = format!("sctp port 5012 in udp port {}", served.port);
    assert_eq!(text_of(&line), place);
    shares(&mut middlebox, &served);
    while !text_of(&middlebox.error_line()).starts_with("started") {}
    let key = folder.file("key");
    let agent = [
        "simco",
        "agent",
        "--json",
        "--name",
        "pbx",
        "--key-file",
        &key,
    ];
    let place = [
        "--middlebox=sctp://127.0.0.1:5012",
        "--udp-port",
        &served.port,
    ];
    let agent = start(&served, &[&agent[..], &place, &["list"]].concat()).finish();
    succeeded(&agent);
    assert!(
        agent.errors.contains("through the daemon"),
        "{}",
        agent.errors
    );
    assert_eq!(agent.json()[0]["rules"], serde_json::json!([]));
    middlebox.interrupt();
    succeeded(&middlebox.finish());
    served.end();
}
