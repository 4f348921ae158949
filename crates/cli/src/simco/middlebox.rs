//! `carrick simco middlebox`: runs a middlebox.

use std::path::{Path, PathBuf};

use carrick::{EventLog, Preset};
#[cfg(target_os = "linux")]
use carrick_nftables::{NftablesBackend, NftablesConfig, Policy};
#[cfg(target_os = "linux")]
use carrick_simco::backend::PortPool;
use carrick_simco::backend::{MemoryBackend, MemoryLimits};
#[cfg(target_os = "linux")]
use carrick_simco_net::daemon::PoolEntry;
use carrick_simco_net::daemon::{
    AnyBackend, BackendEntry, BoundAddresses, ConfigSource, Daemon, DaemonError, DaemonSettings,
    Listeners, NftablesEntry, StoredState,
};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::endpoint::{ports, running_daemon, shared_port};
use crate::event_log::EventLogArguments;
use crate::failure::Failure;
use crate::files;
use crate::log::{error, info, warn};
use crate::parameters::preset;
use crate::runtime::{self, HangUp};

/// Run a middlebox: let agents open and close pinholes in a packet filter.
///
/// Runs until SIGINT or SIGTERM. SIGHUP reloads the configuration and reopens the audit log without
/// dropping sessions.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Configuration file, see docs/simco.md.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and exit.
    #[arg(long)]
    check: bool,
    /// Parameters of SCTP associations: recommended; signaling, for private networks with round trips below
    /// 50 ms; rfc9260, without extensions [default: that of the configuration, or recommended].
    #[arg(long, value_name = "NAME", value_parser = preset)]
    preset: Option<Preset>,
    #[command(flatten)]
    event_log: EventLogArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut settings = read(arguments, None)?;
    if arguments.check {
        check_files(&settings)?;
        arguments.event_log.check(None)?;
        println!("{}: configuration is valid", arguments.config.display());
        if let Some(warning) = settings.backend.warning() {
            println!("{warning}");
        }
        return Ok(());
    }
    let log = arguments.event_log.open(None)?;
    set_event_log(&mut settings, log.as_ref());
    let work = serve(arguments, settings, log.as_ref());
    runtime::run_with(HangUp::Handled, work)
}

/// Checks that the files which the middlebox writes can be written.
fn check_files(settings: &DaemonSettings) -> Result<(), Failure> {
    let wrong = |key: &str, path: &Path, why: String| {
        failure(
            settings
                .source
                .error(key, format!("{}: {why}", path.display())),
        )
    };
    if let Some(folder) = &settings.state {
        files::check_created_folder(folder).map_err(|why| wrong("state", folder, why))?;
    }
    if let Some(file) = &settings.audit {
        files::check_appended(file).map_err(|why| wrong("audit", file, why))?;
    }
    Ok(())
}

fn set_event_log(settings: &mut DaemonSettings, log: Option<&EventLog>) {
    if let Some(sctp) = &mut settings.listen.sctp {
        sctp.event_log = log.cloned();
    }
}

fn read(arguments: &Arguments, log: Option<&EventLog>) -> Result<DaemonSettings, Failure> {
    let mut settings = DaemonSettings::read(&arguments.config).map_err(failure)?;
    set_event_log(&mut settings, log);
    if let Some(sctp) = &mut settings.listen.sctp
        && sctp.udp_port.is_none()
        && !sctp.raw
    {
        sctp.daemon = running_daemon();
    }
    if let (Some(sctp), Some(preset)) = (&mut settings.listen.sctp, arguments.preset) {
        sctp.preset = preset;
    }
    settings.middlebox().map_err(failure)?;
    if let Some(tls) = &settings.listen.tls {
        let read = carrick_simco_net::transport::tls::server(&tls.certificate, &tls.key);
        read.map_err(|error| failure(settings.source.error("listen.tls", error.to_string())))?;
    }
    #[cfg(target_os = "linux")]
    if let BackendEntry::Nftables(entry) = &settings.backend {
        let checked = nftables_config(&settings, entry).check();
        checked.map_err(|why| failure(settings.source.error("backend", why.to_string())))?;
        check_pools(&settings.source, &entry.translation)?;
    }
    Ok(settings)
}

/// Checks that the translation pools have usable addresses and do not overlap.
#[cfg(target_os = "linux")]
fn check_pools(source: &ConfigSource, pools: &[PoolEntry]) -> Result<(), Failure> {
    for (n, pool) in pools.iter().enumerate() {
        let key = format!("backend.translation[{n}]");
        let wrong = |why: String| Err(failure(source.error(&key, why)));
        let address = pool.address;
        if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            return wrong(format!(
                "{address} cannot be an outside address: give a unicast address whose packets are routed to this host"
            ));
        }
        let before = pools.get(..n).unwrap_or_default();
        let overlaps = |other: &&PoolEntry| {
            other.address == address
                && other.first_port <= pool.last_port
                && pool.first_port <= other.last_port
        };
        if let Some(other) = before.iter().find(overlaps) {
            return wrong(format!(
                "ports {} to {} of {address} are in two pools: list each port once",
                pool.first_port.max(other.first_port),
                pool.last_port.min(other.last_port)
            ));
        }
    }
    Ok(())
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Run(error.to_string())
}

/// Logs why a running middlebox has stopped.
fn logged(why: &DaemonError) -> Failure {
    error(format_args!("stopped: {why}"));
    Failure::Logged
}

async fn serve(
    arguments: &Arguments,
    settings: DaemonSettings,
    log: Option<&EventLog>,
) -> Result<(), Failure> {
    // The packet filter is changed last: another middlebox may own the state or the ports.
    let state = StoredState::open(settings.state.as_deref()).map_err(failure)?;
    let listeners = Listeners::open(&settings).await.map_err(failure)?;
    let backend = backend(&settings)?;
    let dropped = state.recovered.dropped;
    let mut hangup = signal(SignalKind::hangup()).map_err(failure)?;
    let started = Daemon::start_on(listeners, &settings, backend, state);
    let mut daemon = started.map_err(failure)?;
    let mut errors = daemon.errors();
    let mut accept_failures = daemon.accept_failures().reports();
    log_listeners(daemon.bound());
    let sctp = settings.listen.sctp.as_ref();
    if let Some(path) = sctp.and_then(|sctp| sctp.daemon.as_deref()) {
        info(shared_port(path));
    }
    if let Some(warning) = settings.backend.warning() {
        warn(warning);
    }
    if settings.state.is_some() {
        let restored = daemon.restored();
        info(format_args!(
            "{} rules restored, {} expired while stopped",
            restored.rules,
            restored.ended.len()
        ));
        if dropped > 0 {
            warn("state file: ignored an incomplete batch at its end");
        }
    }
    info(format_args!("started as middlebox {:?}", settings.name));
    loop {
        tokio::select! {
            ended = daemon.ended() => return ended.map_err(|why| logged(&why)),
            _ = runtime::signal_received() => break,
            _ = hangup.recv() => reload(arguments, log, &daemon).await,
            Some(error) = next(errors.as_mut()) => {
                warn(format_args!("{error}; continuing, will retry"));
            }
            Ok(failure) = accept_failures.recv() => warn(failure),
        }
    }
    info("stopping: ending sessions, keeping rules");
    daemon.stop().await.map_err(|why| logged(&why))?;
    info("stopped");
    Ok(())
}

async fn next<T>(from: Option<&mut mpsc::Receiver<T>>) -> Option<T> {
    match from {
        Some(from) => from.recv().await,
        None => None,
    }
}

fn backend(settings: &DaemonSettings) -> Result<AnyBackend, Failure> {
    match &settings.backend {
        BackendEntry::Memory { elements } => {
            let base = MemoryLimits::default();
            let limits = MemoryLimits {
                elements: *elements,
                blocks: settings.limits.disable_rules.unwrap_or(base.blocks),
            };
            Ok(Box::new(MemoryBackend::new(limits)))
        }
        BackendEntry::Nftables(entry) => nftables(settings, entry),
    }
}

#[cfg(target_os = "linux")]
fn nftables(settings: &DaemonSettings, entry: &NftablesEntry) -> Result<AnyBackend, Failure> {
    let config = nftables_config(settings, entry);
    Ok(Box::new(NftablesBackend::open(config).map_err(failure)?))
}

#[cfg(target_os = "linux")]
fn nftables_config(settings: &DaemonSettings, entry: &NftablesEntry) -> NftablesConfig {
    let base = NftablesConfig::default();
    let pools = entry.translation.iter();
    let pools = pools.map(|pool| PortPool::new(pool.address, pool.first_port..=pool.last_port));
    NftablesConfig {
        table: entry.table.clone(),
        policy: if entry.drop {
            Policy::Drop
        } else {
            Policy::Accept
        },
        priority: entry.priority,
        internal_interface: entry.internal_interface.clone(),
        max_elements: u32::try_from(entry.elements).unwrap_or(u32::MAX),
        max_patterns: entry.patterns,
        max_blocks: settings.limits.disable_rules.unwrap_or(base.max_blocks),
        translation: pools.collect(),
        ..base
    }
}

#[cfg(not(target_os = "linux"))]
fn nftables(_: &DaemonSettings, _: &NftablesEntry) -> Result<AnyBackend, Failure> {
    let why = "backend: nftables is available on Linux only; use kind = \"memory\"";
    Err(Failure::Run(why.into()))
}

/// Reloads the configuration. An invalid one changes nothing.
async fn reload(arguments: &Arguments, log: Option<&EventLog>, daemon: &Daemon) {
    let reloaded = match read(arguments, log) {
        Ok(settings) => daemon.reload(settings).await.map_err(failure),
        Err(error) => Err(error),
    };
    match reloaded {
        Ok(fixed) if fixed.is_empty() => info("configuration reloaded"),
        Ok(fixed) => warn(format_args!(
            "configuration reloaded; restart needed to change: {}",
            fixed.join(", ")
        )),
        Err(Failure::Run(why) | Failure::Usage(why)) => {
            warn(format_args!("configuration not reloaded: {why}"));
        }
        Err(_) => {}
    }
}

/// Logs the addresses on which it listens.
fn log_listeners(bound: &BoundAddresses) {
    if let Some((port, udp_port)) = bound.sctp {
        info(ports(port, udp_port));
    }
    for address in &bound.tcp {
        info(format_args!("tcp {address}"));
    }
    for address in &bound.tls {
        info(format_args!("tls {address}"));
    }
    if let Some(address) = bound.metrics {
        info(format_args!("metrics http://{address}/metrics"));
    }
}
