//! `carrick script`: packet scripts, in virtual time or against another stack (`peer`).

mod peer;

use std::fs;
use std::io::{BufWriter, IsTerminal, Write, stderr, stdout};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use carrick::Preset;
use carrick_netsim::pcapng::{PacketDirection, PcapngWriter};
use carrick_netsim::{Packet, Protocol, Time};
use carrick_script::{Failure as ScriptFailure, Frame, Note, Script, System};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde_json::json;

use crate::failure::Failure;
use crate::parameters::preset;
use crate::progress::bar;
use crate::units;
use peer::Peer;

/// Ending of the names of scripts in directories.
const EXTENSION: &str = "pkt";
/// Time after which the progress is shown.
const PATIENCE: Duration = Duration::from_secs(2);

/// Run packet scripts: packets, calls of the sockets API and their times.
///
/// Scripts have the syntax of packetdrill (see docs/script.md), and run in virtual time against Carrick's sockets,
/// without privileges; with --peer, in real time against another stack. Results are printed in the Test Anything
/// Protocol. Exit code 1: a script failed or has a syntax error.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Scripts, and directories whose scripts (*.pkt) are run, those of their directories included.
    #[arg(required = true, value_name = "FILE|DIRECTORY")]
    paths: Vec<PathBuf>,
    /// Print a JSON object for each script, one a line.
    #[arg(long)]
    json: bool,
    /// Write the packets to a pcapng file, with an interface for each script. The comment of a packet is the line
    /// of the script that sends or expects it.
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Run the lines of scripts for this system (`#ifdef Linux`, `#ifdef FreeBSD`).
    #[arg(long, value_enum, default_value_t)]
    system: ScriptSystem,
    /// Parameters from which those of sockets start, instead of the line `--preset` of scripts: recommended, signaling
    /// or rfc9260 [default: rfc9260].
    #[arg(long, value_name = "NAME", value_parser = preset, conflicts_with = "peer")]
    preset: Option<Preset>,
    /// Fail scripts if the stack sends packets up to the time of the last event that no event expects. Otherwise such
    /// packets are a note.
    #[arg(long)]
    strict_end: bool,
    /// Run the scripts in real time against the stack at this address and SCTP port, where a program waits for
    /// associations and reads. The scripts have the role of its peer: calls that such a program makes are
    /// skipped, and scripts with other calls, such as write, or with several addresses are not run.
    #[arg(long, value_name = "ADDRESS:PORT")]
    peer: Option<SocketAddr>,
    /// UDP port of that stack (RFC 6951).
    #[arg(long, value_name = "PORT", requires = "peer", default_value_t = 9899)]
    udp: u16,
    /// Reach that stack on plain IP (protocol 132, needs `CAP_NET_RAW`) instead of in UDP. The kernel of this host
    /// must have no SCTP, which would abort the associations.
    #[arg(long, requires = "peer", conflicts_with = "udp")]
    raw: bool,
    /// Deviation of times that is accepted from that stack.
    #[arg(long, value_name = "TIME", requires = "peer", default_value = "50ms", value_parser = units::duration)]
    tolerance: Duration,
}

/// System whose lines are part of a script.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ScriptSystem {
    /// Lines for Linux.
    #[default]
    Linux,
    /// Lines for FreeBSD.
    Freebsd,
}

impl From<ScriptSystem> for System {
    fn from(system: ScriptSystem) -> Self {
        match system {
            ScriptSystem::Linux => Self::Linux,
            ScriptSystem::Freebsd => Self::FreeBsd,
        }
    }
}

/// Script that was run.
struct Row {
    name: String,
    title: String,
    result: Result<(), ScriptProblem>,
    notes: Vec<Note>,
    duration: Duration,
    frames: Vec<Frame>,
}

/// Reason why a script did not pass.
enum ScriptProblem {
    Syntax(carrick_script::SyntaxError),
    Failed(Box<ScriptFailure>),
    /// The script cannot be run against another stack.
    Skipped(String),
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut scripts = Vec::new();
    for path in &arguments.paths {
        collect(path, true, &mut scripts)?;
    }
    if scripts.is_empty() {
        let paths: Vec<String> = arguments
            .paths
            .iter()
            .map(|p| p.display().to_string())
            .collect();
        let line = format!("no scripts (*.{EXTENSION}) in {}", paths.join(", "));
        return Err(Failure::Usage(line));
    }
    let mut out = BufWriter::new(stdout().lock());
    if !arguments.json {
        writeln!(out, "TAP version 13\n1..{}", scripts.len())?;
    }
    let mut peer = arguments
        .peer
        .map(|stack| Peer::new(stack, arguments))
        .transpose()?;
    let mut rows = Vec::new();
    let started = Instant::now();
    let mut shown: Option<ProgressBar> = None;
    for (index, path) in scripts.iter().enumerate() {
        let row = run_script(path, arguments, peer.as_mut())?;
        if arguments.json {
            writeln!(out, "{}", as_json(&row))?;
        } else {
            write_tap(&mut out, index + 1, &row)?;
        }
        rows.push(row);
        if shown.is_none() && started.elapsed() > PATIENCE && stderr().is_terminal() {
            shown = Some(bar("scripts", scripts.len() as u64));
        }
        if let Some(shown) = &shown {
            shown.set_position(index as u64 + 1);
        }
    }
    if let Some(shown) = shown {
        shown.finish_and_clear();
    }
    out.flush()?;
    if let Some(path) = &arguments.pcapng {
        let written = capture(path, &rows);
        written.map_err(|e| Failure::Run(format!("cannot write {}: {e}", path.display())))?;
    }
    let failed = |row: &&Row| !matches!(row.result, Ok(()) | Err(ScriptProblem::Skipped(_)));
    match rows.iter().filter(failed).count() {
        0 => Ok(()),
        failed => Err(Failure::Run(format!(
            "{failed} of {} scripts failed",
            rows.len()
        ))),
    }
}

/// Adds a script, or those in a directory in the order of their names.
fn collect(path: &Path, is_given: bool, scripts: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable = |e| Failure::Usage(format!("cannot read {}: {e}", path.display()));
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        if is_given || path.extension().is_some_and(|e| e == EXTENSION) {
            scripts.push(path.to_owned());
        }
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(unreadable)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|e| e.path())).collect();
    let mut paths = paths.map_err(unreadable)?;
    paths.sort();
    paths
        .iter()
        .try_for_each(|path| collect(path, false, scripts))
}

fn run_script(path: &Path, arguments: &Arguments, peer: Option<&mut Peer>) -> Result<Row, Failure> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|e| Failure::Usage(format!("cannot read {}: {e}", path.display())))?;
    let mut row = Row {
        name: path.display().to_string(),
        title: String::new(),
        result: Ok(()),
        notes: Vec::new(),
        duration: Duration::ZERO,
        frames: Vec::new(),
    };
    let mut script = match Script::parse_for(&text, arguments.system.into()) {
        Ok(script) => script,
        Err(error) => {
            row.result = Err(ScriptProblem::Syntax(error));
            return Ok(row);
        }
    };
    if let Some(preset) = arguments.preset {
        script.set_preset(preset);
    }
    row.title.clone_from(&script.title);
    let outcome = match peer {
        None => script.run(),
        Some(peer) => match peer.run(&script)? {
            Ok(outcome) => outcome,
            Err(reason) => {
                row.result = Err(ScriptProblem::Skipped(reason));
                return Ok(row);
            }
        },
    };
    row.duration = outcome.duration;
    row.frames = outcome.frames;
    row.notes = outcome.notes;
    let unexpected = outcome.unexpected;
    if !arguments.strict_end
        && let Some(unexpected) = &unexpected
    {
        row.notes.push(Note {
            position: unexpected.position,
            text: match &unexpected.actual {
                Some(packet) => format!("{}: {packet}", unexpected.message),
                None => unexpected.message.clone(),
            },
        });
    }
    let unexpected = unexpected.filter(|_| arguments.strict_end);
    if let Some(failure) = outcome.failure.or(unexpected) {
        row.result = Err(ScriptProblem::Failed(Box::new(failure)));
    }
    Ok(row)
}

/// Writes a result in the Test Anything Protocol, version 13.
fn write_tap(out: &mut impl Write, number: usize, row: &Row) -> Result<(), Failure> {
    let not = match row.result {
        Ok(()) | Err(ScriptProblem::Skipped(_)) => "",
        Err(_) => "not ",
    };
    let title = match row.title.replace('#', "") {
        title if title.is_empty() => String::new(),
        title => format!(": {title}"),
    };
    write!(out, "{not}ok {number} - {}{title}", row.name)?;
    if let Err(ScriptProblem::Skipped(reason)) = &row.result {
        writeln!(out, " # SKIP {reason}")?;
        return Ok(());
    }
    writeln!(out)?;
    for note in &row.notes {
        writeln!(out, "# {}:{note}", row.name)?;
    }
    let Err(problem) = &row.result else {
        return Ok(());
    };
    writeln!(out, "  ---")?;
    match problem {
        ScriptProblem::Skipped(_) => {}
        ScriptProblem::Syntax(error) => {
            writeln!(out, "  message: {}", quoted(&error.message))?;
            writeln!(out, "  at: {}:{}", row.name, error.position)?;
        }
        ScriptProblem::Failed(failure) => {
            writeln!(out, "  message: {}", quoted(&failure.message))?;
            writeln!(out, "  at: {}:{}", row.name, failure.position)?;
            writeln!(out, "  time: {}", failure.time.as_secs_f64())?;
            if let Some(difference) = &failure.difference {
                writeln!(out, "  field: {}", quoted(&difference.field))?;
            }
            if let Some(expected) = &failure.expected {
                writeln!(out, "  expected: {}", quoted(expected))?;
            }
            if let Some(actual) = &failure.actual {
                writeln!(out, "  actual:   {}", quoted(actual))?;
            }
        }
    }
    writeln!(out, "  ...")?;
    Ok(())
}

/// Returns a text as a quoted scalar of YAML, which those of JSON are.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

fn as_json(row: &Row) -> serde_json::Value {
    let mut object = json!({
        "script": row.name,
        "title": row.title,
        "passed": row.result.is_ok(),
        "seconds": row.duration.as_secs_f64(),
        "packets": row.frames.len(),
        "notes": row.notes.iter().map(Note::to_string).collect::<Vec<_>>(),
    });
    match &row.result {
        Ok(()) => {}
        Err(ScriptProblem::Skipped(reason)) => object["skipped"] = json!(reason),
        Err(ScriptProblem::Syntax(error)) => {
            object["message"] = json!(error.message);
            object["line"] = json!(error.position.line);
            object["column"] = json!(error.position.column);
        }
        Err(ScriptProblem::Failed(failure)) => {
            object["message"] = json!(failure.message);
            object["line"] = json!(failure.position.line);
            object["column"] = json!(failure.position.column);
            object["time"] = json!(failure.time.as_secs_f64());
            object["field"] = json!(failure.difference.as_ref().map(|d| &d.field));
            object["expected"] = json!(failure.expected);
            object["actual"] = json!(failure.actual);
        }
    }
    object
}

/// Writes the packets of all scripts.
fn capture(path: &Path, rows: &[Row]) -> std::io::Result<()> {
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    carrick_netsim::files::replace(path, |file| {
        let mut writer = PcapngWriter::new(BufWriter::new(file), &names)?;
        for (interface, row) in rows.iter().enumerate() {
            for frame in &row.frames {
                let bytes = frame.bytes.clone();
                let packet = Packet::new(frame.source, frame.destination, Protocol::Sctp, bytes);
                let time = Time::from_nanos(frame.time.as_nanos() as u64);
                let comment = frame.comment.as_deref().unwrap_or("not expected");
                let direction = if frame.is_sent {
                    PacketDirection::Outbound
                } else {
                    PacketDirection::Inbound
                };
                writer.write_commented(interface as u32, time, direction, &packet, comment)?;
            }
        }
        writer.flush()
    })
}
