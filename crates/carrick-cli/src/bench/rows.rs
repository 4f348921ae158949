//! Rows: what is measured, and by which programs.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::id;
use std::time::Duration;

use nix::unistd::geteuid;
use serde_json::Value;

use super::Bench;
use super::process::{Finished, Process};
use super::programs::Program;
use crate::failure::Failure;

/// Messages of a round-trip measurement in bytes.
const PING: &str = "100";
/// Round trips for each second of measurement.
const PINGS_PER_SECOND: f64 = 5000.0;
/// Pairs of endpoints whose memory is measured.
const IDLE: &str = "2000";
/// Time that a program has in addition to that of its measurement.
const MARGIN: Duration = Duration::from_secs(60);

/// Simulated link with a queue of one bandwidth-delay product.
struct Link {
    megabits: u32,
    /// One way.
    delay: &'static str,
    queue: &'static str,
}

const FAT: Link = Link {
    megabits: 1000,
    delay: "50 ms",
    queue: "8333 packets",
};
const THIN: Link = Link {
    megabits: 100,
    delay: "25 ms",
    queue: "417 packets",
};

/// Measured quantity of a row.
#[derive(Clone, Copy)]
pub(super) struct Column {
    /// Name in JSON.
    pub(super) key: &'static str,
    /// Name with unit in tables.
    pub(super) title: &'static str,
}

/// A measurement and the programs that take part.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) columns: &'static [Column],
    /// Programs of this executable; ratios refer to the first.
    own: &'static [&'static str],
    /// Verb that a peer program needs to take part; none takes part without.
    verb: Option<&'static str>,
    /// One round is enough, because nothing is random and no clock is involved.
    pub(super) is_deterministic: bool,
    /// Returns the reason why the row cannot be measured here, and what to do.
    pub(super) obstacle: fn() -> Option<String>,
    /// Measures a program once, and returns a value for each column.
    pub(super) measure: fn(&Bench, &Program) -> Result<Vec<f64>, String>,
}

const COST: &[Column] = &[
    Column {
        key: "cpu_seconds_per_gb",
        title: "CPU s/GB",
    },
    Column {
        key: "megabytes_per_second",
        title: "MB/s",
    },
];

const IN_MEMORY: &[Column] = &[
    Column {
        key: "cpu_ns_per_message",
        title: "CPU ns a message",
    },
    Column {
        key: "cpu_seconds_per_gb",
        title: "CPU s/GB",
    },
];

const LINK: &[Column] = &[
    Column {
        key: "percent_of_link",
        title: "% of the link",
    },
    Column {
        key: "cpu_seconds_per_gb",
        title: "CPU s/GB simulated",
    },
    Column {
        key: "data_packets_per_cpu_second",
        title: "data packets a CPU s",
    },
];

const LOOPBACK: &[&str] = &["carrick", "carrick-9000", "tcp", "udp", "udp-offload"];
const CORE: &[&str] = &["carrick", "carrick-rfc9260"];

/// Values of a row over loopback with the other programs, of which most rows differ in a few fields.
const BULK: Row = Row {
    name: "",
    about: "",
    columns: COST,
    own: LOOPBACK,
    verb: Some("send"),
    is_deterministic: false,
    obstacle: || None,
    measure: |_, _| Err(String::new()),
};

/// Values of a row in memory.
const MEMORY: Row = Row {
    columns: IN_MEMORY,
    own: CORE,
    verb: Some("memory"),
    ..BULK
};

/// Values of a row on a simulated link.
const SIMULATED: Row = Row {
    columns: LINK,
    own: &["carrick", "carrick-bbr"],
    verb: None,
    is_deterministic: true,
    ..BULK
};

/// Returns the row of a curve, whose programs are points.
const fn curve(
    name: &'static str,
    about: &'static str,
    points: &'static [&'static str],
    measure: fn(&Bench, &Program) -> Result<Vec<f64>, String>,
) -> Row {
    Row {
        name,
        about,
        columns: &[Column {
            key: "cpu_ns_per_chunk",
            title: "CPU ns a chunk",
        }],
        own: points,
        verb: None,
        measure,
        ..BULK
    }
}

/// Rows of `--curves`. Messages have 1,400 bytes where nothing else is stated.
pub(super) const CURVES: &[Row] = &[
    curve(
        "size",
        "bytes of a message",
        &[
            "16", "100", "1024", "1400", "4096", "16384", "65536", "262144", "1048576",
        ],
        |bench, point| on_curve(bench, point, "size"),
    ),
    curve(
        "streams",
        "streams with messages of 100 bytes in turn",
        &["1", "10", "100", "1000", "10000", "65535"],
        |bench, point| on_curve(bench, point, "streams"),
    ),
    curve(
        "associations",
        "associations of a server, each with a message of 100 bytes a second",
        &["1", "10", "100", "1000", "10000", "100000"],
        |bench, point| on_curve(bench, point, "associations"),
    ),
    curve(
        "window",
        "bytes of the send and of the receive buffer",
        &["16384", "65536", "262144", "1048576", "4194304", "16777216"],
        |bench, point| on_curve(bench, point, "window"),
    ),
    curve(
        "loss",
        "lost packets of 10,000",
        &["0", "1", "10", "100", "300", "1000"],
        |bench, point| on_curve(bench, point, "loss"),
    ),
    curve(
        "reordering",
        "packets of 1,000 that arrive behind the three after them",
        &["0", "1", "10", "100"],
        |bench, point| on_curve(bench, point, "reordering"),
    ),
    curve(
        "paths",
        "paths of an association, the first with data",
        &["1", "2", "4", "8"],
        |bench, point| on_curve(bench, point, "paths"),
    ),
];

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "bulk-64k",
        about: "messages of 64 KiB one way over loopback, packets of up to 1500 bytes in UDP",
        measure: |bench, program| bulk(bench, program, 65_536),
        ..BULK
    },
    Row {
        name: "no-offload",
        about: "messages of 64 KiB one way in a network namespace whose loopback has an MTU of 1500 and no segmentation \
                or receive offload",
        own: &["carrick", "tcp", "udp"],
        obstacle: namespaces,
        measure: without_offload,
        ..BULK
    },
    Row {
        name: "bulk-1k",
        about: "messages of 1 KiB one way over loopback",
        measure: |bench, program| bulk(bench, program, 1024),
        ..BULK
    },
    Row {
        name: "bulk-100",
        about: "messages of 100 bytes one way over loopback",
        measure: |bench, program| bulk(bench, program, 100),
        ..BULK
    },
    Row {
        name: "clients",
        about: "messages of 64 KiB over loopback from one, two and four clients to one server, at the same time; \
                carrick-4x2: from four clients to a server with two shards",
        columns: &[
            COST[0],
            COST[1],
            Column {
                key: "server_cpu_seconds_per_gb",
                title: "server s/GB",
            },
        ],
        own: &["carrick", "carrick-2", "carrick-4", "carrick-4x2"],
        verb: None,
        measure: clients,
        ..BULK
    },
    Row {
        name: "plain-ip",
        about: "messages of 64 KiB one way over loopback, SCTP in UDP and directly on IP",
        own: &["carrick", "carrick-ip"],
        verb: None,
        obstacle: root,
        measure: |bench, program| bulk(bench, program, 65_536),
        ..BULK
    },
    Row {
        name: "unbatched",
        about: "messages of 64 KiB over an emulated link of 100 Mbit/s with a round trip of 20 ms, whose packets offload \
                cannot batch: CPU time for each packet with data",
        columns: &[
            Column {
                key: "sender_us_per_packet",
                title: "sender us",
            },
            Column {
                key: "receiver_us_per_packet",
                title: "receiver us",
            },
        ],
        own: &["carrick"],
        verb: None,
        obstacle: root,
        measure: emulated,
        ..BULK
    },
    Row {
        name: "emulated-loss-1",
        about: "messages of 64 KiB over the same link with 1 % loss; TCP with CUBIC and with BBR",
        columns: &[Column {
            key: "percent_of_link",
            title: "% of the link",
        }],
        own: &["carrick", "tcp", "tcp-bbr"],
        verb: None,
        obstacle: root,
        measure: lossy,
        ..BULK
    },
    Row {
        name: "round-trip",
        about: "round trips of 100 bytes over loopback, each end a process",
        columns: &[
            Column {
                key: "p50_us",
                title: "p50 us",
            },
            Column {
                key: "p99_us",
                title: "p99 us",
            },
            Column {
                key: "cpu_us",
                title: "CPU us",
            },
        ],
        own: &["carrick", "tcp", "udp"],
        verb: Some("ping"),
        measure: round_trip,
        ..BULK
    },
    Row {
        name: "memory-64k",
        about: "messages of 64 KiB in memory, both ends in one thread",
        measure: |bench, program| memory(bench, program, "65536"),
        ..MEMORY
    },
    Row {
        name: "memory-full",
        about: "messages of 1,400 bytes in memory, each a packet with one DATA chunk",
        measure: |bench, program| memory(bench, program, "1400"),
        ..MEMORY
    },
    Row {
        name: "memory-100",
        about: "messages of 100 bytes in memory, bundled",
        measure: |bench, program| memory(bench, program, "100"),
        ..MEMORY
    },
    Row {
        name: "set-ups",
        about: "associations set up in memory and aborted, both ends in one thread",
        columns: &[Column {
            key: "per_cpu_second",
            title: "a CPU second",
        }],
        verb: Some("set-ups"),
        measure: |bench, program| {
            let line = alone(bench, &program.with(["set-ups", &seconds(bench)]))?;
            Ok(vec![
                number(&line, "count")? / positive(&line, "cpu_seconds")?,
            ])
        },
        ..MEMORY
    },
    Row {
        name: "idle-memory",
        about: "resident memory that an association adds at an end, one path: fresh, and after a message of 100 bytes \
                each way",
        columns: &[
            Column {
                key: "bytes_fresh",
                title: "B fresh",
            },
            Column {
                key: "bytes_used",
                title: "B after use",
            },
        ],
        verb: Some("idle"),
        measure: |bench, program| {
            let line = alone(bench, &program.with(["idle", IDLE]))?;
            Ok(vec![
                positive(&line, "bytes_fresh")?,
                positive(&line, "bytes_used")?,
            ])
        },
        ..MEMORY
    },
    Row {
        name: "long-link",
        about: "1 GB over a simulated link of 1 Gbit/s with a round trip of 100 ms",
        measure: |bench, program| link(bench, program, &FAT, "0 %", 1000),
        ..SIMULATED
    },
    Row {
        name: "long-link-loss-0.1",
        about: "300 MB over the same link with 0.1 % loss",
        measure: |bench, program| link(bench, program, &FAT, "0.1 %", 300),
        ..SIMULATED
    },
    Row {
        name: "long-link-loss-1",
        about: "300 MB over the same link with 1 % loss",
        measure: |bench, program| link(bench, program, &FAT, "1 %", 300),
        ..SIMULATED
    },
    Row {
        name: "lossy-link-0.1",
        about: "250 MB over a simulated link of 100 Mbit/s with a round trip of 50 ms and 0.1 % loss",
        measure: |bench, program| link(bench, program, &THIN, "0.1 %", 250),
        ..SIMULATED
    },
    Row {
        name: "lossy-link-1",
        about: "250 MB over the same link with 1 % loss",
        measure: |bench, program| link(bench, program, &THIN, "1 %", 250),
        ..SIMULATED
    },
];

/// Returns the rows of these names, or all; with `curves`, those of `--curves`.
pub(super) fn select(names: &[String], curves: bool) -> Result<Vec<&'static Row>, Failure> {
    let rows = if curves { CURVES } else { ROWS };
    if names.is_empty() {
        return Ok(rows.iter().collect());
    }
    let row = |name: &String| {
        rows.iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = rows.iter().map(|row| row.name).collect();
            Failure::Usage(format!(
                "there is no row {name:?}; the rows are {}",
                known.join(", ")
            ))
        })
    };
    names.iter().map(row).collect()
}

impl Row {
    /// Returns the names of the programs of this executable.
    pub(super) fn own(&self) -> &'static [&'static str] {
        self.own
    }

    /// Returns whether a peer program takes part.
    pub(super) fn includes(&self, peer: &Program) -> bool {
        self.verb.is_some_and(|verb| peer.is_able(verb))
    }

    /// Returns the programs that take part.
    pub(super) fn programs(&self, peers: &[Program]) -> Vec<Program> {
        let own = self.own.iter().map(|name| Program::own(name));
        let able = peers.iter().filter(|peer| self.includes(peer)).cloned();
        own.chain(able).collect()
    }
}

fn root() -> Option<String> {
    let reason = "it needs raw sockets or network namespaces: run it as root";
    (!geteuid().is_root()).then(|| reason.into())
}

fn namespaces() -> Option<String> {
    let exists = |name: &&str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(name).exists())
    };
    let needed = ["unshare", "nsenter", "ip", "ethtool"];
    let missing = needed.into_iter().find(|name| !exists(name));
    root().or(missing.map(|name| format!("it needs the program {name}")))
}

/// Measures a transfer in a new network namespace, which ends with the measurement.
fn without_offload(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
    const SET_UP: &str = "ip link set lo mtu 1500 up && ethtool -K lo tso off gso off gro off >/dev/null \
                          && echo \"{\\\"pid\\\":$$}\" && exec cat";
    let set_up = ["unshare", "--net", "sh", "-c", SET_UP].map(OsString::from);
    let mut namespace = bench.processes.start(&set_up, bench.time + 2 * MARGIN)?;
    let pid = number(&namespace.line()?, "pid")?;
    let inside = program.behind(vec![
        "nsenter".into(),
        format!("--net=/proc/{pid}/ns/net").into(),
    ]);
    bulk(bench, &inside, 65_536)
}

fn seconds(bench: &Bench) -> String {
    bench.time.as_secs_f64().to_string()
}

fn number(line: &Value, key: &str) -> Result<f64, String> {
    line[key]
        .as_f64()
        .ok_or_else(|| format!("no number {key:?} in its output {line}"))
}

fn positive(line: &Value, key: &str) -> Result<f64, String> {
    match number(line, key)? {
        number if number > 0.0 => Ok(number),
        number => Err(format!("{key} is {number}: measure for longer (--time)")),
    }
}

/// Runs a program, and returns the last line of its output.
fn alone(bench: &Bench, command: &[OsString]) -> Result<Value, String> {
    Ok(last_line(
        &bench
            .processes
            .start(command, bench.time + MARGIN)?
            .finish()?,
    ))
}

fn last_line(finished: &Finished) -> Value {
    finished.lines.last().cloned().unwrap_or_default()
}

/// Runs both ends of a program. Returns the last line of the client, and the CPU seconds of both.
fn both(
    bench: &Bench,
    program: &Program,
    server: &[OsString],
    port: &str,
    client: impl FnOnce(u64) -> Vec<OsString>,
) -> Result<(Value, f64), String> {
    let limit = bench.time + MARGIN;
    let server_failed = |reason| format!("{} serve: {reason}", program.name);
    let mut server = bench.processes.start(server, limit)?;
    let listening = server.line().map_err(server_failed)?;
    let port = number(&listening, port)? as u64;
    let client = bench.processes.start(&client(port), limit)?.finish()?;
    let server = server.finish().map_err(server_failed)?;
    Ok((last_line(&client), client.cpu_seconds + server.cpu_seconds))
}

/// Runs both ends of a program by the common command line.
fn exchange(
    bench: &Bench,
    program: &Program,
    verb: &str,
    arguments: &[&str],
) -> Result<(Value, f64), String> {
    both(bench, program, &program.with(["serve"]), "port", |port| {
        let address = format!("127.0.0.1:{port}");
        program.with([&[verb, &address], arguments].concat())
    })
}

/// Measures a transfer one way. Carrick's ends are those of `carrick perf`.
fn bulk(bench: &Bench, program: &Program, size: u32) -> Result<Vec<f64>, String> {
    let (size, seconds) = (size.to_string(), seconds(bench));
    let (line, cpu) = match program.name.as_str() {
        "carrick" => perf(bench, program, &["--udp-port", "0"], &size, &seconds)?,
        "carrick-9000" => perf(
            bench,
            program,
            &["--udp-port", "0", "--mtu", "9000"],
            &size,
            &seconds,
        )?,
        "carrick-ip" => perf(bench, program, &["--raw", "--mtu", "1500"], &size, &seconds)?,
        _ => exchange(bench, program, "send", &[&size, &seconds])?,
    };
    let bytes = positive(&line, "bytes")?;
    Ok(vec![
        cpu / bytes * 1e9,
        bytes / positive(&line, "seconds")? / 1e6,
    ])
}

/// Runs both ends of `carrick perf`, and returns what the server received.
fn perf(
    bench: &Bench,
    program: &Program,
    transport: &[&str],
    size: &str,
    seconds: &str,
) -> Result<(Value, f64), String> {
    let command =
        |arguments: &[&str]| perf_command(program, &[arguments, transport, &["--json"]].concat());
    let is_raw = transport.contains(&"--raw");
    // The ends on plain IP differ in their addresses, as those of two hosts do.
    let mut server = vec!["server", "--once", "--bind", "127.0.0.1"];
    let port_key = if is_raw { "port" } else { "udp_port" };
    if is_raw {
        server.extend(["--port", "5209"]);
    }
    let (summary, cpu) = both(bench, program, &command(&server), port_key, |port| {
        let port = port.to_string();
        let mut client = vec!["client", "127.0.0.1", "-s", size, "-t", seconds];
        if is_raw {
            client.extend(["--port", &port, "--bind", "127.0.0.2"]);
        } else {
            client.extend(["--peer-udp-port", &port]);
        }
        command(&client)
    })?;
    Ok((summary["to_server"].clone(), cpu))
}

/// Measures transfers of several clients to one server; their number is in the name of the program, with that
/// of the server's shards.
fn clients(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
    let count = program.name.strip_prefix("carrick-").unwrap_or("1");
    let (count, shards) = count.split_once('x').unwrap_or((count, "1"));
    let count: usize = count.parse().map_err(|_| "no number of clients")?;
    let limit = bench.time + MARGIN;
    let server = [
        "server",
        "--json",
        "--udp-port",
        "0",
        "--bind",
        "127.0.0.1",
        "--mtu",
        "1500",
        "--shards",
        shards,
    ];
    let mut server = bench
        .processes
        .start(&perf_command(program, &server), limit)?;
    let port = (number(&server.line()?, "udp_port")? as u64).to_string();
    let time = seconds(bench);
    let client = [
        "client",
        "127.0.0.1",
        "--json",
        "--udp-port",
        "0",
        "--peer-udp-port",
        &port,
        "-t",
        &time,
        "--mtu",
        "1500",
    ];
    let client = perf_command(program, &client);
    let mut running = Vec::new();
    for _ in 0..count {
        running.push(bench.processes.start(&client, limit)?);
    }
    let (mut bytes, mut time, mut cpu) = (0.0, 0.0_f64, 0.0);
    for client in running {
        let finished = client.finish()?;
        let received = &last_line(&finished)["to_server"];
        bytes += positive(received, "bytes")?;
        time = time.max(positive(received, "seconds")?);
        cpu += finished.cpu_seconds;
    }
    let of_server = server.stop()?;
    cpu += of_server;
    Ok(vec![
        cpu / bytes * 1e9,
        bytes / time / 1e6,
        of_server / bytes * 1e9,
    ])
}

/// Returns a command of `carrick perf`.
fn perf_command(program: &Program, arguments: &[&str]) -> Vec<OsString> {
    let mut perf = program.clone();
    perf.command.truncate(1);
    perf.with([&["perf"], arguments].concat())
}

fn round_trip(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
    let count = (bench.time.as_secs_f64() * PINGS_PER_SECOND)
        .ceil()
        .max(100.0);
    let (line, cpu) = exchange(bench, program, "ping", &[PING, &count.to_string()])?;
    Ok(vec![
        positive(&line, "p50_us")?,
        positive(&line, "p99_us")?,
        cpu / count * 1e6,
    ])
}

fn memory(bench: &Bench, program: &Program, size: &str) -> Result<Vec<f64>, String> {
    let program = in_kept_heap(program);
    let line = alone(bench, &program.with(["memory", size, &seconds(bench)]))?;
    let cpu = positive(&line, "cpu_seconds")?;
    Ok(vec![
        cpu / positive(&line, "messages")? * 1e9,
        cpu / positive(&line, "bytes")? * 1e9,
    ])
}

/// The GNU C library returns free memory at the end of the heap to the system, and with windows of megabytes gets it
/// back in the next round: page faults cost as much as the protocol.
const KEEP_HEAP: &str =
    "GLIBC_TUNABLES=glibc.malloc.trim_threshold=1073741824:glibc.malloc.mmap_threshold=1073741824";

/// Returns a program that keeps the memory that it frees.
fn in_kept_heap(program: &Program) -> Program {
    program.behind(vec!["env".into(), KEEP_HEAP.into()])
}

/// Measures a point of a curve; its value is the name of the program.
fn on_curve(bench: &Bench, point: &Program, name: &str) -> Result<Vec<f64>, String> {
    let carrick = in_kept_heap(&Program::own("carrick"));
    let command = carrick.with(["curve", name, &point.name, &seconds(bench)]);
    let line = alone(bench, &command)?;
    let cpu = positive(&line, "cpu_seconds")?;
    Ok(vec![cpu / positive(&line, "chunks")? * 1e9])
}

/// Scenario file for a measurement; removed when it is dropped.
struct ScenarioFile(PathBuf);

impl ScenarioFile {
    fn new(text: &str) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("carrick-bench-{}.toml", id()));
        File::create_new(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        Ok(Self(path))
    }

    /// Returns a command of `carrick lab` with this file.
    fn lab(&self, program: &Program, command: &str, more: &[&str]) -> Vec<OsString> {
        let mut lab = vec![program.command[0].clone(), "lab".into(), command.into()];
        lab.push(self.0.clone().into());
        lab.extend(more.iter().map(OsString::from));
        lab
    }
}

impl Drop for ScenarioFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Measures a transfer over a simulated link by `carrick lab run`.
fn link(
    bench: &Bench,
    program: &Program,
    simulated: &Link,
    loss: &str,
    megabytes: u32,
) -> Result<Vec<f64>, String> {
    let is_bbr = program.name == "carrick-bbr";
    let scenario = include_str!("link.toml")
        .replace("CONGESTION", if is_bbr { "bbr" } else { "cubic" })
        .replace("RATE", &format!("{} Mbit/s", simulated.megabits))
        .replace("DELAY", simulated.delay)
        .replace("QUEUE", simulated.queue)
        .replace("LOSS", loss)
        .replace("BYTES", &format!("{megabytes} MB"));
    let file = ScenarioFile::new(&scenario)?;
    let command = file.lab(program, "run", &["--json"]);
    // The simulation ends in virtual time; the limit is for a machine with much other work.
    let finished = bench.processes.start(&command, 10 * MARGIN)?.finish()?;
    let result = last_line(&finished);
    let rows = result["rows"].as_array();
    let measured = |name: &str| {
        let mut rows = rows.into_iter().flatten();
        let row = rows.find(|row| row["id"].as_str().is_some_and(|id| id.ends_with(name)));
        positive(row.unwrap_or(&Value::Null), "measured")
    };
    Ok(vec![
        measured("goodput")? / (f64::from(simulated.megabits) * 1e3) * 100.0,
        finished.cpu_seconds / f64::from(megabytes) * 1e3,
        measured("accepted")? / finished.cpu_seconds,
    ])
}

/// Rate of the emulated link in Mbit/s.
const EMULATED: f64 = 100.0;

/// Two network namespaces, with a link that `carrick lab up` emulates until this is dropped.
struct Emulation<'a> {
    file: ScenarioFile,
    /// Address of host `b`.
    address: String,
    _network: Process<'a>,
}

impl<'a> Emulation<'a> {
    fn start(bench: &'a Bench, program: &Program, loss: &str) -> Result<Self, String> {
        let scenario = include_str!("link.toml")
            .replace("CONGESTION", "cubic")
            .replace("RATE", &format!("{EMULATED} Mbit/s"))
            .replace("DELAY", "10 ms")
            .replace("QUEUE", "300 packets")
            .replace("LOSS", loss)
            .replace("BYTES", "1 GB");
        let file = ScenarioFile::new(&scenario)?;
        let limit = bench.time + 2 * MARGIN;
        let up = file.lab(program, "up", &["--json"]);
        let mut network = bench.processes.start(&up, limit)?;
        let (_, b) = (network.line()?, network.line()?);
        Ok(Self {
            file,
            address: b["addresses"][0].as_str().unwrap_or_default().to_owned(),
            _network: network,
        })
    }
}

/// Measures a transfer of Carrick, or of TCP with a congestion control, over an emulated link with loss.
fn lossy(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
    let rate = match program.name.strip_prefix("tcp") {
        None => {
            let summary = emulated_transfer(bench, program, "1 %")?;
            let received = &summary["to_server"];
            positive(received, "bytes")? / positive(received, "seconds")?
        }
        Some(variant) => {
            let link = Emulation::start(bench, program, "1 %")?;
            let control = variant.strip_prefix('-').unwrap_or("cubic");
            let tcp = Program::own("tcp");
            let carrick = tcp.command[0].to_string_lossy();
            let end = |host: &str, arguments: &[&str]| {
                let command = [host, "--", &carrick, "bench-end", "tcp"];
                let command = [&command[..], arguments].concat();
                link.file.lab(&tcp, "shell", &command)
            };
            let server = end("b", &["serve", &link.address]);
            let (line, _) = both(bench, program, &server, "port", |port| {
                let (to, time) = (format!("{}:{port}", link.address), seconds(bench));
                end("a", &["send", &to, "65536", &time, "--congestion", control])
            })?;
            positive(&line, "bytes")? / positive(&line, "seconds")?
        }
    };
    Ok(vec![rate * 8.0 / (EMULATED * 1e6) * 100.0])
}

/// Measures a transfer over an emulated link; returns the summary of the server.
fn emulated_transfer(bench: &Bench, program: &Program, loss: &str) -> Result<Value, String> {
    let Emulation {
        file,
        address,
        _network,
    } = Emulation::start(bench, program, loss)?;
    let carrick = program.command[0].to_string_lossy();
    let server = [
        "b",
        "--",
        &carrick,
        "perf",
        "server",
        "--once",
        "--json",
        "--udp-port",
        "0",
        "--bind",
        &address,
    ];
    let server = file.lab(program, "shell", &server);
    let (summary, _) = both(bench, program, &server, "udp_port", |port| {
        let (port, time) = (port.to_string(), seconds(bench));
        let client = [
            "a",
            "--",
            &carrick,
            "perf",
            "client",
            &address,
            "--json",
            "--udp-port",
            "0",
        ];
        let more = ["--peer-udp-port", &port, "-t", &time];
        file.lab(program, "shell", &[&client[..], &more].concat())
    })?;
    Ok(summary)
}

/// Measures the CPU time of a transfer over an emulated link without loss.
fn emulated(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
    let summary = emulated_transfer(bench, program, "0 %")?;
    let cost = |side: &str, packets: &str| {
        let side = &summary[side];
        let cpu = number(side, "cpu_user")? + number(side, "cpu_system")?;
        Ok::<_, String>(cpu / positive(side, packets)? * 1e6)
    };
    Ok(vec![
        cost("client", "packets_sent")?,
        cost("server", "packets_received")?,
    ])
}

#[cfg(test)]
mod tests {
    use super::super::end::memory::curves::Curve;
    use super::*;

    #[test]
    fn rows_have_unique_names() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        assert!(ROWS.iter().all(|row| row.own[0] == "carrick"));
        let known = Curve::ALL.map(|(name, _)| name);
        assert!(CURVES.iter().map(|row| row.name).eq(known));
    }
}
