//! `carrick ss`: sockets and associations of a daemon.

mod events;
mod holders;
mod proc;

use std::collections::BTreeSet;
use std::io::{self, StdoutLock, Write, stdout};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use carrick_daemon::{default_socket, kill, list};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::files::check_socket_path;
use holders::Holders;

/// List the SCTP sockets and associations of a daemon.
///
/// Without options, associations are listed, as `ss -S` does for those of the kernel. Recv-Q and Send-Q are
/// bytes that the program has not read, and bytes that the peer has not acknowledged; of a listening socket,
/// associations that wait for `accept`, and their limit. Exit code 1: no daemon answers.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Path of the daemon's control socket [default: that of `carrick daemon`].
    #[arg(long, alias = "socket", value_name = "PATH")]
    daemon: Option<PathBuf>,
    /// List listening sockets only.
    #[arg(short, long, conflicts_with = "all")]
    listening: bool,
    /// List all sockets, and associations.
    #[arg(short, long)]
    all: bool,
    /// Show the paths of each association: source and destination, whether it is the primary one and carries new data
    /// (current), state, error count, source that the routes of the host select, RTO and smoothed RTT in
    /// milliseconds, congestion window, bytes in flight and path MTU.
    #[arg(short, long)]
    info: bool,
    /// Show the processes that have the sockets.
    #[arg(short, long)]
    processes: bool,
    /// Show user id and inode of each socket.
    #[arg(short, long)]
    extended: bool,
    /// Show bytes in the receive and send buffers (r, t) and the limits of these (rb, tb), as `skmem` of ss.
    #[arg(short, long)]
    memory: bool,
    /// SCTP sockets; there are no others.
    #[arg(short = 'S', long)]
    sctp: bool,
    /// Addresses and ports as numbers, which they always are.
    #[arg(short, long)]
    numeric: bool,
    /// Print a JSON object for each socket and association, one a line.
    #[arg(long)]
    json: bool,
    /// Print what happens to associations and paths from now on, until Ctrl-C: the lines of the daemon's log.
    #[arg(short = 'E', long, conflicts_with_all = ["listening", "all", "info", "processes", "extended", "memory", "proc", "kill"])]
    events: bool,
    /// Abort these associations, by their numbers in --json and in the log, and print them; several separated by
    /// commas.
    #[arg(short = 'K', long, value_name = "N[,N...]", value_delimiter = ',', conflicts_with_all = ["listening", "all", "info", "processes", "extended", "memory", "proc"])]
    kill: Vec<i32>,
    /// Print a table in the layout of /proc/net/sctp/TABLE of Linux.
    #[arg(long, value_name = "TABLE", conflicts_with_all = ["listening", "all", "info", "json", "processes", "extended", "memory"])]
    proc: Option<proc::Table>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = arguments.daemon.clone().unwrap_or_else(default_socket);
    check_socket_path(&path)?;
    if arguments.events {
        return events::follow(&path, arguments.json);
    }
    let mut out = Output {
        to: stdout().lock(),
        has_failed: false,
    };
    if !arguments.kill.is_empty() {
        return kill_all(arguments, &path, &mut out);
    }
    if let Some(table) = arguments.proc {
        return proc::print(table, &path, &mut out).map_err(|error| failure(&path, error, &out));
    }
    let mut is_headed = arguments.json;
    let mut head = |out: &mut _| {
        if std::mem::replace(&mut is_headed, true) {
            return Ok(());
        }
        let columns = [
            "State",
            "Recv-Q",
            "Send-Q",
            "Local Address:Port",
            "Peer Address:Port",
        ];
        line(out, columns, "")
    };
    let holders = (arguments.processes && !arguments.json).then(Holders::read);
    let further = |row: &Value| further(row, arguments, holders.as_ref());
    let print = |row: Value| {
        head(&mut out)?;
        let is_association = row["association"] != 0;
        let is_listening = !row["backlog"].is_null();
        // The row of its association stands for a one-to-one socket.
        let is_connected = row["style"] == "one-to-one" && row["associations"] != 0;
        let is_wanted = match (arguments.all, arguments.listening) {
            (true, _) => is_association || !is_connected,
            (false, true) => !is_association && is_listening,
            (false, false) => is_association,
        };
        match (is_wanted, arguments.json, is_association) {
            (false, ..) => Ok(()),
            (true, true, _) => writeln!(out, "{row}"),
            (true, false, false) => socket(&mut out, &row, &further(&row)),
            (true, false, true) => {
                association(&mut out, &row, &further(&row))?;
                if arguments.info {
                    paths(&mut out, &row)?;
                }
                Ok(())
            }
        }
    };
    list(&path, print).map_err(|error| failure(&path, error, &out))?;
    // Without a row, the daemon has answered as well.
    Ok(head(&mut out)?)
}

/// Standard output that remembers a failure: a reader that has enough is none of the daemon.
struct Output {
    to: StdoutLock<'static>,
    has_failed: bool,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes).inspect_err(|_| self.has_failed = true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush().inspect_err(|_| self.has_failed = true)
    }
}

/// Aborts associations, up to one that cannot be.
fn kill_all(arguments: &Arguments, path: &Path, out: &mut Output) -> Result<(), Failure> {
    for association in &arguments.kill {
        let row = kill(path, *association).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::InvalidInput => "the daemon has none of this number",
                io::ErrorKind::PermissionDenied => "it is another user's",
                _ => return no_list(path, &error),
            };
            Failure::Run(format!("cannot abort association {association}: {reason}"))
        })?;
        if arguments.json {
            writeln!(out, "{row}")?;
            continue;
        }
        let peer = row["peer"].as_str().unwrap_or_default();
        writeln!(
            out,
            "association {association}, port {} with {peer}, is aborted; {} bytes were not acknowledged",
            row["port"], row["unacknowledged"]
        )?;
    }
    Ok(())
}

fn failure(path: &Path, error: io::Error, out: &Output) -> Failure {
    if out.has_failed {
        error.into()
    } else {
        no_list(path, &error)
    }
}

pub(crate) fn no_list(path: &Path, error: &io::Error) -> Failure {
    Failure::Run(format!(
        "no list from the daemon on {}: {error}; start one with carrick daemon",
        path.display()
    ))
}

/// Writes the columns of a row.
fn line(out: &mut impl Write, columns: [&str; 5], further: &str) -> io::Result<()> {
    let [state, received, sent, local, peer] = columns;
    writeln!(
        out,
        "{state:<18} {received:>7} {sent:>7}  {local:<28} {peer}{further}"
    )
}

fn socket(out: &mut impl Write, row: &Value, further: &str) -> io::Result<()> {
    let number = |of: &Value| of.as_u64().unwrap_or(0).to_string();
    let state = if row["backlog"].is_null() {
        "UNCONN"
    } else {
        "LISTEN"
    };
    let (waiting, backlog) = (number(&row["waiting"]), number(&row["backlog"]));
    let bound = addresses(row["bound"].as_array().into_iter().flatten());
    let columns = [state, &waiting, &backlog, &bound, "*:*"];
    line(out, columns, further)
}

/// Returns what the options add to a line, in the form of `ss`.
fn further(row: &Value, arguments: &Arguments, holders: Option<&Holders>) -> String {
    let number = |of: &Value| of.as_u64().unwrap_or(0);
    let process = row["process"].as_i64().zip(holders);
    let process = process.map(|(process, all)| all.column(row["inode"].as_u64(), process));
    let user = arguments.extended.then(|| {
        let (user, inode) = (number(&row["user"]), number(&row["inode"]));
        format!(" uid:{user} ino:{inode}")
    });
    let has_buffers = arguments.memory && row["association"] != 0;
    let memory = has_buffers.then(|| {
        let (stats, settings) = (&row["stats"], &row["settings"]);
        format!(
            " skmem:(r{},rb{},t{},tb{})",
            number(&stats["receive_buffer_bytes"]),
            number(&settings["receive_buffer"]),
            number(&stats["send_buffer_bytes"]),
            number(&settings["send_buffer"]),
        )
    });
    [process, user, memory].into_iter().flatten().collect()
}

fn association(out: &mut impl Write, row: &Value, further: &str) -> io::Result<()> {
    let number = |of: &Value| of.as_u64().unwrap_or(0).to_string();
    let stats = &row["stats"];
    let (received, sent) = (
        number(&stats["receive_buffer_bytes"]),
        number(&stats["send_buffer_bytes"]),
    );
    let state = state(row["state"].as_str().unwrap_or_default());
    let peer = row["peer"].as_str().unwrap_or("*:*");
    let local = sources(row);
    let columns = [&state[..], &received, &sent, &local, peer];
    line(out, columns, further)
}

/// Writes the paths of an association.
fn paths(out: &mut impl Write, row: &Value) -> io::Result<()> {
    let number = |of: &Value| of.as_u64().unwrap_or(0).to_string();
    let stats = &row["stats"];
    for path in row["paths"].as_array().into_iter().flatten() {
        let status = PathState::deserialize(&path["status"]).map_err(io::Error::other)?;
        let role = |name: &str| {
            let is = path["id"] == stats[name];
            if is {
                format!(" {name}")
            } else {
                String::new()
            }
        };
        let remote = path["remote"].as_str().unwrap_or_default();
        let source = path["local"].as_str().unwrap_or("*");
        let udp = path["encapsulation"]
            .as_u64()
            .map_or(String::new(), |port| format!(" udp:{port}"));
        writeln!(
            out,
            "    {source} -> {remote}{}{} {} errors:{} selected:{}{udp} rto:{:.0} rtt:{} cwnd:{} flight:{} mtu:{}",
            role("primary"),
            role("current"),
            status.name().replace(' ', "-"),
            number(&path["error_count"]),
            path["selected"].as_str().unwrap_or("-"),
            milliseconds(&path["rto"]).unwrap_or(0.0),
            milliseconds(&path["srtt"]).map_or("-".into(), |rtt| format!("{rtt:.1}")),
            number(&path["cwnd"]),
            number(&path["flight_size"]),
            number(&path["mtu"]),
        )?;
    }
    Ok(())
}

/// Member `status` of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct PathState {
    confirmed: bool,
    active: bool,
    potentially_failed: bool,
}

impl PathState {
    pub(crate) const ACTIVE: &str = "active";
    pub(crate) const POTENTIALLY_FAILED: &str = "potentially failed";

    /// Returns the name of the state.
    pub(crate) fn name(self) -> &'static str {
        match (self.confirmed, self.active, self.potentially_failed) {
            (false, ..) => "unconfirmed",
            (_, false, _) => "inactive",
            (_, _, true) => Self::POTENTIALLY_FAILED,
            _ => Self::ACTIVE,
        }
    }
}

/// Returns the first address, and the number of further ones.
fn addresses<'a>(all: impl Iterator<Item = &'a Value>) -> String {
    let mut all = all.filter_map(Value::as_str);
    let first = all.next().unwrap_or("*:*");
    match all.count() {
        0 => first.into(),
        further => format!("{first} (+{further})"),
    }
}

/// Returns the source of the path that carries new data, with the port, and the number of other sources.
fn sources(row: &Value) -> String {
    let list = |name: &str| row[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let current = list("paths")
        .iter()
        .find(|path| path["id"] == row["stats"]["current"])
        .and_then(|path| path["local"].as_str()?.parse::<IpAddr>().ok());
    let ports = list("local").first().and_then(Value::as_str);
    let port = ports.and_then(|first| first.parse::<SocketAddr>().ok());
    let (Some(current), Some(port)) = (current, port) else {
        return addresses(list("bound").iter());
    };
    let sources: BTreeSet<&str> = list("paths")
        .iter()
        .filter_map(|path| path["local"].as_str())
        .collect();
    let current = SocketAddr::new(current, port.port());
    match sources.len() {
        0 | 1 => current.to_string(),
        count => format!("{current} (+{})", count - 1),
    }
}

/// Returns the name of a state as `ss` has it.
pub(crate) fn state(name: &str) -> String {
    if name == "Established" {
        return "ESTAB".into();
    }
    let mut out = String::new();
    for (place, letter) in name.chars().enumerate() {
        if place > 0 && letter.is_uppercase() {
            out.push('-');
        }
        out.extend(letter.to_uppercase());
    }
    out
}

/// Returns a duration in milliseconds.
fn milliseconds(of: &Value) -> Option<f64> {
    Some(of["secs"].as_f64()? * 1e3 + of["nanos"].as_f64()? / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_named_as_ss_names_them() {
        assert_eq!(state("Established"), "ESTAB");
        assert_eq!(state("ShutdownAckSent"), "SHUTDOWN-ACK-SENT");
    }
}
