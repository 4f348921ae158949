//! `carrick stp`: signal transfer point and signalling gateway.

use std::path::PathBuf;

use carrick::{EventLog, Preset};
use carrick_sigtran_net::stp::{ConfigError, Stp, StpConfig, StpError};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::endpoint;
use crate::event_log::EventLogArguments;
use crate::failure::Failure;
use crate::log::{self, LogFormat, info, warn};
use crate::parameters::preset;
use crate::runtime::{self, HangUp};

/// One thread drives the associations, the other one routes.
const THREADS: usize = 2;

/// Run a signal transfer point: transfer SS7 messages over M3UA (RFC 4666) and M2PA (RFC 4165).
///
/// Routes by point code and priority over link sets and application servers, screens messages, and reports
/// destinations that are unavailable, restricted or congested. SIGHUP reloads the configuration without touching what did not change; an
/// invalid one changes nothing. SIGUSR1 logs the states. SIGTERM and SIGINT end it: associations are shut down.
///
/// Exit code 0: ended by a signal; 1: the configuration is invalid or a socket could not be opened; 2: invalid
/// command line.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Configuration file (TOML), see docs/sigtran.md.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and exit.
    #[arg(long)]
    check: bool,
    /// Parameters of all associations: recommended; signaling, for private networks with round trips below
    /// 50 ms; rfc9260, without extensions [default: that of the configuration, or recommended].
    #[arg(long, value_name = "NAME", value_parser = preset)]
    preset: Option<Preset>,
    #[command(flatten)]
    event_log: EventLogArguments,
    /// Format of the log on stderr [default: that of the configuration, or text].
    #[arg(long, value_name = "FORMAT")]
    log: Option<LogFormat>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut config = read(arguments, None).map_err(|error| not_read(&error))?;
    if arguments.check {
        for warning in config.warnings() {
            eprintln!("carrick: warning: {warning}");
        }
        arguments.event_log.check(None)?;
        println!("{}: configuration is valid", arguments.config.display());
        return Ok(());
    }
    set_log(arguments, &config);
    let log = arguments.event_log.open(None)?;
    if let Some(log) = &log {
        config.set_event_log(log);
    }
    let work = serve(arguments, config, log.as_ref());
    runtime::run_on_threads(THREADS, HangUp::Handled, work).map_err(log::logged)
}

/// Reads the configuration; the options precede it.
fn read(arguments: &Arguments, log: Option<&EventLog>) -> Result<StpConfig, ConfigError> {
    let mut config = StpConfig::read(&arguments.config)?;
    if let Some(preset) = arguments.preset {
        config.set_preset(preset);
    }
    if let Some(log) = log {
        config.set_event_log(log);
    }
    Ok(config)
}

fn set_log(arguments: &Arguments, config: &StpConfig) {
    let configured = if config.json_log {
        LogFormat::Json
    } else {
        LogFormat::Text
    };
    log::set_format(arguments.log.unwrap_or(configured));
}

fn not_read(error: &ConfigError) -> Failure {
    Failure::Run(error.to_string())
}

fn failure(error: &StpError) -> Failure {
    match error {
        StpError::Bind(error) => crate::endpoint::not_bound(error),
        error => Failure::Run(error.to_string()),
    }
}

async fn serve(
    arguments: &Arguments,
    config: StpConfig,
    log: Option<&EventLog>,
) -> Result<(), Failure> {
    let wait_for = |kind| {
        signal(kind).map_err(|error| Failure::Run(format!("cannot wait for signals: {error}")))
    };
    let mut hang_ups = wait_for(SignalKind::hangup())?;
    let mut status_requests = wait_for(SignalKind::user_defined1())?;
    config.warnings().iter().for_each(warn);
    let mut stp = Stp::start(config).await.map_err(|error| failure(&error))?;
    let (port, udp_port) = stp.ports();
    info(endpoint::ports(port, udp_port));
    if let Some(address) = stp.metrics() {
        info(format_args!("metrics http://{address}/metrics"));
    }
    info("started");
    let mut stopping = false;
    loop {
        tokio::select! {
            event = stp.event() => match event {
                Some(event) => info(event),
                None if stopping => break,
                None => return Err(failure(&StpError::Ended)),
            },
            signal = runtime::signal_received(), if !stopping => {
                info(format_args!("ending after {signal}"));
                stopping = true;
                stp.stop();
            }
            _ = hang_ups.recv() => reload(arguments, log, &stp).await,
            _ = status_requests.recv() => {
                let status = stp.status().await.map_err(|error| failure(&error))?;
                status.lines().for_each(|line| info(format_args!("status: {line}")));
            }
        }
    }
    info("stopped");
    Ok(())
}

/// Reloads the configuration. An invalid one changes nothing.
async fn reload(arguments: &Arguments, log: Option<&EventLog>, stp: &Stp) {
    let config = match read(arguments, log) {
        Ok(config) => config,
        Err(error) => {
            if let Failure::Run(why) = not_read(&error) {
                warn(format_args!("configuration not reloaded: {why}"));
            }
            return;
        }
    };
    set_log(arguments, &config);
    config.warnings().iter().for_each(warn);
    match stp.reload(config).await {
        Ok(fixed) if fixed.is_empty() => info("configuration reloaded"),
        Ok(fixed) => warn(format_args!(
            "configuration reloaded; restart needed to change: {}",
            fixed.join(", ")
        )),
        Err(error) => warn(format_args!("configuration not reloaded: {error}")),
    }
}
