//! `carrick ss --events`: what happens to associations and paths, as it happens.

use std::io::{Write, stdout};
use std::path::Path;
use std::time::SystemTime;

use carrick_daemon::Events;
use serde_json::Value;

use super::no_list;
use crate::failure::Failure;
use crate::runtime;

/// Prints events until a signal or the end of the daemon, each as a line or as a JSON object with its time.
pub(super) fn follow(path: &Path, is_json: bool) -> Result<(), Failure> {
    runtime::run(async {
        tokio::select! {
            done = print(path, is_json) => done,
            _ = runtime::signal_received() => Ok(()),
        }
    })
}

async fn print(path: &Path, is_json: bool) -> Result<(), Failure> {
    let mut events = start(path)?;
    eprintln!(
        "carrick: events of the daemon on {}, until Ctrl-C",
        path.display()
    );
    let mut missed = 0;
    loop {
        let Some(mut event) = events.next().await? else {
            // Replaced, perhaps: the successor has the associations.
            events = start(path).map_err(|_| Failure::Run("the daemon has ended".into()))?;
            continue;
        };
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let missed_now = event["missed"].as_u64().unwrap_or(0);
        if is_json {
            event["time"] = Value::from(time);
            writeln!(stdout(), "{event}")?;
        } else {
            if missed_now > missed {
                writeln!(
                    stdout(),
                    "{time} {} events were missed",
                    missed_now - missed
                )?;
            }
            let line = event["line"].as_str().unwrap_or_default();
            writeln!(stdout(), "{time} {line}")?;
        }
        missed = missed_now;
    }
}

fn start(path: &Path) -> Result<Events, Failure> {
    Events::start(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Failure::Run(
            "only the user of the daemon and the superuser can follow events of all users".into(),
        ),
        std::io::ErrorKind::Other => Failure::Run(format!(
            "no events from the daemon on {}: {error}",
            path.display()
        )),
        _ => no_list(path, &error),
    })
}
