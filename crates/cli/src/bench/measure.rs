//! Measurements: how each row gets its values.

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

/// Messages of a round-trip measurement in bytes.
const PING: &str = "100";
/// Round trips for each second of measurement.
const PINGS_PER_SECOND: f64 = 5000.0;
/// Pairs of endpoints whose memory is measured.
const IDLE: &str = "2000";
/// Time that a program has in addition to that of its measurement.
const MARGIN: Duration = Duration::from_secs(60);

/// Simulated link with a queue of one bandwidth-delay product.
pub(super) struct Link {
    megabits: u32,
    /// One way.
    delay: &'static str,
    queue: &'static str,
}

pub(super) const FAT: Link = Link {
    megabits: 1000,
    delay: "50 ms",
    queue: "8333 packets",
};
pub(super) const THIN: Link = Link {
    megabits: 100,
    delay: "25 ms",
    queue: "417 packets",
};

pub(super) fn root() -> Option<String> {
    let reason = "it needs raw sockets or network namespaces: run it as root";
    (!geteuid().is_root()).then(|| reason.into())
}

pub(super) fn namespaces() -> Option<String> {
    let exists = |name: &&str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(name).exists())
    };
    let needed = ["unshare", "nsenter", "ip", "ethtool"];
    let missing = needed.into_iter().find(|name| !exists(name));
    root().or(missing.map(|name| format!("it needs the program {name}")))
}

/// Measures a transfer in a new network namespace, which ends with the measurement.
pub(super) fn without_offload(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
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
pub(super) fn bulk(bench: &Bench, program: &Program, size: u32) -> Result<Vec<f64>, String> {
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
pub(super) fn clients(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
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

pub(super) fn round_trip(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
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

pub(super) fn memory(bench: &Bench, program: &Program, size: &str) -> Result<Vec<f64>, String> {
    let program = in_kept_heap(program);
    let line = alone(bench, &program.with(["memory", size, &seconds(bench)]))?;
    let cpu = positive(&line, "cpu_seconds")?;
    Ok(vec![
        cpu / positive(&line, "messages")? * 1e9,
        cpu / positive(&line, "bytes")? * 1e9,
    ])
}

pub(super) fn set_ups(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
    let line = alone(bench, &program.with(["set-ups", &seconds(bench)]))?;
    Ok(vec![
        number(&line, "count")? / positive(&line, "cpu_seconds")?,
    ])
}

pub(super) fn idle_memory(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
    let line = alone(bench, &program.with(["idle", IDLE]))?;
    Ok(vec![
        positive(&line, "bytes_fresh")?,
        positive(&line, "bytes_used")?,
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
pub(super) fn on_curve(bench: &Bench, point: &Program, name: &str) -> Result<Vec<f64>, String> {
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
pub(super) fn link(
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
pub(super) fn lossy(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
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
pub(super) fn emulated(bench: &Bench, program: &Program) -> Result<Vec<f64>, String> {
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
