//! `carrick top`: the associations of a daemon and their paths, with their rates, again and again.
//!
//! - `sample`: rates between two lists of a daemon
//! - `screen`: their lines

mod sample;
mod screen;

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use carrick_daemon::{default_socket, list};
use clap::Args;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use crate::failure::Failure;
use crate::files::check_socket_path;
use crate::terminal::{self, LiveView};
use crate::{runtime, ss, units};
use sample::{AssociationRow, Counts, sample};

/// Shortest time between two lists: a daemon with thousands of associations takes milliseconds for one.
const SHORTEST: Duration = Duration::from_millis(100);

/// Show the associations of a daemon and their paths, with rates, until Ctrl-C
///
/// Associations with a path that is not active come first, then those with the highest rates. Rates of an association
/// are those of user data in bit/s, and messages out and in; rates of a path those of packets, with the smoothed round
/// trip and lost chunks. The sign > marks the path that carries new data. On a terminal the list is drawn again,
/// otherwise printed below the last one.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Path of the daemon's control socket [default: that of `carrick daemon`]
    #[arg(long, value_name = "PATH")]
    daemon: Option<PathBuf>,
    /// Time between two lists, at least 100ms; a number without a unit is in s
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = units::seconds)]
    interval: Duration,
    /// End after this number of lists [default: none]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print a JSON object for each list, one a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = arguments.daemon.clone().unwrap_or_else(default_socket);
    check_socket_path(&path)?;
    if arguments.interval < SHORTEST {
        return Err(Failure::Usage("--interval must be at least 100ms".into()));
    }
    runtime::run(async {
        tokio::select! {
            done = show(arguments, &path) => done,
            _ = runtime::signal_received() => Ok(()),
        }
    })
}

async fn show(arguments: &Arguments, path: &Path) -> Result<(), Failure> {
    let mut view = if arguments.json {
        None
    } else {
        LiveView::new()
    };
    let mut ticks = interval(arguments.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut counts = Counts::default();
    let mut before = None;
    let mut shown = 0;
    while arguments.count.is_none_or(|count| shown < count) {
        let now = ticks.tick().await;
        let rows = associations(path)?;
        let elapsed = before.map(|before| now.duration_since(before));
        let associations = sample(&rows, elapsed, &mut counts);
        before = Some(now);
        let time = humantime::format_rfc3339_seconds(SystemTime::now());
        if elapsed.is_none() && view.is_none() {
            // Without rates. The next list has them.
            continue;
        }
        match &mut view {
            Some(view) => {
                let lines = screen::lines(&time, &associations, Some(terminal::rows()));
                view.redraw(lines)?;
            }
            None if arguments.json => {
                let seconds = elapsed.map(|elapsed| elapsed.as_secs_f64());
                let object = json!({"time": time.to_string(), "seconds": seconds, "associations": associations});
                writeln!(stdout(), "{object}")?;
            }
            None => {
                let lines = screen::lines(&time, &associations, None);
                writeln!(stdout(), "{}\n", lines.join("\n"))?;
            }
        }
        shown += 1;
    }
    Ok(())
}

/// Returns the associations of a daemon.
fn associations(path: &Path) -> Result<Vec<AssociationRow>, Failure> {
    let mut rows = Vec::new();
    list(path, |row| {
        if row["association"] != 0 {
            rows.push(serde_json::from_value(row)?);
        }
        Ok(())
    })
    .map_err(|error| ss::no_list(path, &error))?;
    Ok(rows)
}
