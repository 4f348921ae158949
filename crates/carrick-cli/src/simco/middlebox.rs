//! `carrick simco middlebox`: the middlebox as a program.

use std::path::PathBuf;

#[cfg(target_os = "linux")]
use carrick_nftables::{NftablesBackend, NftablesConfig, Policy};
#[cfg(target_os = "linux")]
use carrick_simco::backend::PortPool;
use carrick_simco::backend::{MemoryBackend, MemoryLimits};
use carrick_simco::daemon::{
    AnyBackend, BackendEntry, Bound, Daemon, NftablesEntry, Settings, State,
};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

/// Let agents open and close pinholes in a packet filter.
///
/// Runs until it gets SIGINT or SIGTERM. SIGHUP makes it read its configuration again and open its
/// audit log anew, without dropping sessions.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration, see docs/simco.md.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only say whether the configuration is right.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = read(arguments)?;
    if arguments.check {
        println!("{}: right", arguments.config.display());
        return Ok(());
    }
    crate::endpoint::run(serve(arguments, settings))
}

fn read(arguments: &Arguments) -> Result<Settings, Failure> {
    let settings = Settings::read(&arguments.config).map_err(failure)?;
    settings.middlebox().map_err(failure)?;
    if let Some(tls) = &settings.listen.tls {
        carrick_simco::transport::tls::server(&tls.certificate, &tls.key).map_err(failure)?;
    }
    #[cfg(target_os = "linux")]
    if let BackendEntry::Nftables(entry) = &settings.backend {
        let checked = nftables_config(entry).check();
        checked.map_err(|why| Failure::Run(format!("backend: {why}")))?;
    }
    Ok(settings)
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Run(error.to_string())
}

async fn serve(arguments: &Arguments, settings: Settings) -> Result<(), Failure> {
    let backend = backend(&settings)?;
    let state = State::open(settings.state.as_deref()).map_err(failure)?;
    let dropped = state.recovered.dropped;
    let mut hangup = signal(SignalKind::hangup()).map_err(failure)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failure)?;
    let started = Daemon::start(&settings, backend, state).await;
    let mut daemon = started.map_err(failure)?;
    tell(daemon.bound());
    if settings.state.is_some() {
        let restored = daemon.restored();
        eprintln!(
            "carrick: {} rules of before, {} that ended meanwhile",
            restored.rules,
            restored.ended.len()
        );
        if dropped > 0 {
            eprintln!("carrick: the state ended with a batch that was not finished: left out");
        }
    }
    loop {
        tokio::select! {
            ended = daemon.ended() => return ended.map_err(failure),
            _ = tokio::signal::ctrl_c() => break,
            _ = terminate.recv() => break,
            _ = hangup.recv() => reload(arguments, &daemon).await,
        }
    }
    daemon.stop().await.map_err(failure)
}

fn backend(settings: &Settings) -> Result<AnyBackend, Failure> {
    match &settings.backend {
        BackendEntry::Memory { elements } => {
            let limits = MemoryLimits {
                elements: *elements,
            };
            Ok(Box::new(MemoryBackend::new(limits)))
        }
        BackendEntry::Nftables(entry) => nftables(entry),
    }
}

#[cfg(target_os = "linux")]
fn nftables(entry: &NftablesEntry) -> Result<AnyBackend, Failure> {
    let config = nftables_config(entry);
    Ok(Box::new(NftablesBackend::open(config).map_err(failure)?))
}

#[cfg(target_os = "linux")]
fn nftables_config(entry: &NftablesEntry) -> NftablesConfig {
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
        translation: pools.collect(),
        ..NftablesConfig::default()
    }
}

#[cfg(not(target_os = "linux"))]
fn nftables(_: &NftablesEntry) -> Result<AnyBackend, Failure> {
    let why = "backend: nftables is Linux's; this system has memory only";
    Err(Failure::Run(why.into()))
}

/// A wrong configuration changes nothing.
async fn reload(arguments: &Arguments, daemon: &Daemon) {
    let reloaded = match read(arguments) {
        Ok(settings) => daemon.reload(settings).await.map_err(failure),
        Err(error) => Err(error),
    };
    match reloaded {
        Ok(fixed) if fixed.is_empty() => eprintln!("carrick: configuration read again"),
        Ok(fixed) => eprintln!(
            "carrick: configuration read again; a restart is needed for: {}",
            fixed.join(", ")
        ),
        Err(Failure::Run(why) | Failure::Usage(why)) => {
            eprintln!("carrick: the configuration stays as it was: {why}");
        }
        Err(Failure::OutputClosed) => {}
    }
}

/// Where it listens, a line each.
fn tell(bound: &Bound) {
    if let Some((port, udp_port)) = bound.sctp {
        match udp_port {
            Some(udp_port) => eprintln!("carrick: sctp port {port} in udp port {udp_port}"),
            None => eprintln!("carrick: sctp port {port}"),
        }
    }
    for address in &bound.tcp {
        eprintln!("carrick: tcp {address}");
    }
    for address in &bound.tls {
        eprintln!("carrick: tls {address}");
    }
    if let Some(address) = bound.metrics {
        eprintln!("carrick: metrics http://{address}/metrics");
    }
}
