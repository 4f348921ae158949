//! `carrick daemon`: SCTP sockets of the host for unmodified programs.

mod settings;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use carrick::{AssociationConfig, DEFAULT_ENCAPSULATION_PORT, Transport};
use carrick_daemon::{
    Config, Daemon, DaemonEnd, DaemonError, Defaults, PortObservers, SocketsConfig, StopRequest,
    service,
};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::endpoint::{address, not_bound};
use crate::event_log::EventLogArguments;
use crate::failure::Failure;
use crate::files::{check_control_socket, check_socket_path};
use crate::log::{self, LogFormat};
use crate::parameters::{ParameterPlace, Parameters, validate};
use crate::runtime::{self, HangUp};
use crate::units;
use settings::{NetworkSettings, Settings, TransportSetting};

/// Serve the SCTP sockets of programs that `carrick run` starts.
///
/// The daemon has one UDP port for all SCTP ports and programs of the host. SIGTERM and SIGINT end it:
/// associations are shut down within the time of --linger, then aborted. Under a service manager it notifies
/// readiness (`NOTIFY_SOCKET`) and takes the control socket that the manager has opened (`LISTEN_FDS`).
///
/// SIGHUP reads section `[defaults]` of the configuration file again, for later associations; an invalid file changes
/// nothing. Without a configuration file it ends the daemon.
///
/// SIGUSR2 starts the command again with --take-over: the successor, such as another release, continues all
/// associations without a loss. SIGUSR1 gives all sockets to the service manager, which passes them to the next
/// process of the service (`FDSTORE`): a restart ends no association.
///
/// Exit code 0: ended by a signal, or a successor has taken over; 1: the configuration is invalid, a socket could not
/// be opened, or the daemon did not hand over; 2: invalid command line.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Configuration file (TOML); options of the command line precede it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration and exit.
    #[arg(long, requires = "config")]
    check: bool,
    /// Continue the sockets of the daemon on the control socket, which then ends. Both have the same user and
    /// the same UDP port; root may continue the daemon of any user.
    #[arg(long)]
    take_over: bool,
    /// Path of the control socket [default: that of the environment variable `CARRICK_DAEMON`,
    /// carrick/socket in `XDG_RUNTIME_DIR`, or /run/carrick/socket].
    #[arg(long, alias = "daemon", value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Serve metrics for Prometheus on this TCP address, such as 127.0.0.1:9143, at /metrics.
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
    /// Number of associations with metrics of their own and of their paths [default: 0].
    #[arg(long, value_name = "N")]
    metrics_associations: Option<usize>,
    /// Format of the log on stderr [default: text].
    #[arg(long, value_name = "FORMAT")]
    log: Option<LogFormat>,
    /// Time for the shutdown of associations when the daemon ends [default: 0].
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    linger: Option<Duration>,
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    parameters: Parameters,
}

/// Options of the network below the sockets.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct NetworkArguments {
    /// Local address; may be given several times [default: all addresses of the host].
    #[arg(long, value_name = "ADDR", value_parser = address)]
    bind: Vec<IpAddr>,
    /// Local UDP port of the encapsulation [default: 9899].
    #[arg(long, value_name = "N", conflicts_with = "raw")]
    udp_port: Option<u16>,
    /// UDP port of peers [default: the local one].
    #[arg(long, value_name = "N", conflicts_with = "raw")]
    peer_udp_port: Option<u16>,
    /// Use SCTP directly on IP (protocol 132, needs `CAP_NET_RAW`) instead of in UDP.
    #[arg(long)]
    raw: bool,
    /// Use SCTP directly on IP (needs `CAP_NET_RAW`) in addition to UDP: replies use the encapsulation of
    /// the peer's packets, and programs connect on IP unless --peer-udp-port is given.
    #[arg(long, conflicts_with = "raw")]
    and_raw: bool,
    #[command(flatten)]
    event_log: EventLogArguments,
}

impl NetworkArguments {
    /// Returns the configuration of the options.
    ///
    /// # Errors
    /// The options contradict each other.
    pub(crate) fn config(&self, parameters: &Parameters) -> Result<Config, Failure> {
        let mut config = self.config_with(&NetworkSettings::default());
        config.association = association(parameters, &Settings::default())?;
        config.observers = self.observers(None)?;
        Ok(config)
    }

    /// Opens the event log of the options, or that of a file, and returns what creates its observers.
    fn observers(&self, file: Option<&PathBuf>) -> Result<Option<PortObservers>, Failure> {
        let log = self.event_log.open(file)?;
        Ok(log.map(|log| PortObservers::new(move || log.observer())))
    }

    /// Returns whether the local UDP port is the one that the user has chosen.
    pub(crate) fn names_udp_port(&self) -> bool {
        self.udp_port.is_some()
    }

    /// Returns the configuration of these options and, where an option is not given, of a file.
    fn config_with(&self, file: &NetworkSettings) -> Config {
        let gives_port = self.udp_port.or(self.peer_udp_port).is_some();
        let transport = match (self.raw, self.and_raw, file.transport) {
            (true, ..) => TransportSetting::Raw,
            (_, true, _) => TransportSetting::Both,
            // An option for UDP.
            (.., TransportSetting::Raw) if gives_port => TransportSetting::Udp,
            (.., transport) => transport,
        };
        let port = self.udp_port.or(file.udp_port);
        let port = port.unwrap_or(DEFAULT_ENCAPSULATION_PORT);
        let transport = match transport {
            TransportSetting::Udp => Transport::Udp { port },
            TransportSetting::Raw => Transport::Raw,
            TransportSetting::Both => Transport::Both { port },
        };
        let mut config = Config::new(transport);
        let peer_port = self.peer_udp_port.or(file.peer_udp_port);
        if !matches!(transport, Transport::Raw) {
            config.peer_port = peer_port.or(config.peer_port);
        }
        let addresses = if self.bind.is_empty() {
            file.addresses()
        } else {
            self.bind.clone()
        };
        config.addresses = addresses;
        config.log = |line| log::warn(line);
        config
    }
}

/// Returns the parameters with which sockets are created: those of the options and, where an option is not given, of
/// a file, with the encryption of the file.
///
/// # Errors
/// They contradict each other.
fn association(options: &Parameters, file: &Settings) -> Result<AssociationConfig, Failure> {
    let defaults = &file.defaults;
    let preset = options.preset.or(defaults.preset).unwrap_or_default();
    let mut association = SocketsConfig::for_programs(preset.config());
    defaults.apply(&mut association);
    options.apply(&mut association);
    if let Some(protection) = &file.protection {
        association.security.protection = Some(protection.offer()?);
    }
    validate(&association, ParameterPlace::CommandLine).map_err(Failure::Run)?;
    Ok(association)
}

impl Arguments {
    /// Returns the configuration of the options and, where an option is not given, of the file.
    ///
    /// # Errors
    /// They contradict each other.
    fn config(&self, file: &Settings) -> Result<Config, Failure> {
        let mut config = self.network.config_with(&file.network);
        if let Some(socket) = self.socket.as_ref().or(file.socket.as_ref()) {
            config.socket.clone_from(socket);
        }
        config.metrics = self.metrics.or(file.metrics);
        config.metrics_associations = self
            .metrics_associations
            .or(file.metrics_associations)
            .unwrap_or(config.metrics_associations);
        config.association_log = Some(|line| log::info(line));
        config.linger = self.linger.or(file.linger()).unwrap_or(config.linger);
        file.limits.apply(&mut config);
        config.association = association(&self.parameters, file)?;
        if self.check {
            check_control_socket(&config.socket)?;
            self.network.event_log.check(file.event_log.as_ref())?;
        } else {
            check_socket_path(&config.socket)?;
            config.observers = self.network.observers(file.event_log.as_ref())?;
        }
        config.reserved_ports = file.reserved_ports();
        Ok(config)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    log::set_format(arguments.log.unwrap_or_default());
    read_and_serve(arguments).map_err(log::logged)
}

fn read_and_serve(arguments: &Arguments) -> Result<(), Failure> {
    let file = arguments.config.as_deref().map(Settings::read);
    let file = file.transpose()?.unwrap_or_default();
    let config = arguments.config(&file)?;
    if arguments.check
        && let Some(path) = &arguments.config
    {
        println!("{}: configuration is valid", path.display());
        return Ok(());
    }
    log::set_format(arguments.log.or(file.log).unwrap_or_default());
    if let Err(error) = service::raise_descriptor_limit() {
        log::warn(format_args!(
            "the limit of open files is not raised: {error}"
        ));
    }
    let hang_up = match arguments.config {
        Some(_) => HangUp::Handled,
        None => HangUp::Ends,
    };
    runtime::run_with(hang_up, serve(arguments, config, file))
}

/// Reads the defaults of the configuration file again, for later associations.
async fn reload(arguments: &Arguments, path: &Path, read: &mut Settings, defaults: &Defaults) {
    let reloaded = Settings::read(path).and_then(|file| {
        let association = association(&arguments.parameters, &file)?;
        Ok((file, association))
    });
    let (file, association) = match reloaded {
        Ok(reloaded) => reloaded,
        Err(failure) => {
            if let Failure::Run(why) = failure {
                log::warn(format_args!("configuration not reloaded: {why}"));
            }
            return;
        }
    };
    if let Err(error) = defaults.set(association).await {
        log::warn(format_args!("configuration not reloaded: {error}"));
        return;
    }
    read.defaults = file.defaults.clone();
    if file == *read {
        log::info("defaults reloaded");
    } else {
        log::warn("defaults reloaded; other changes need --take-over or SIGUSR2");
    }
}

async fn serve(arguments: &Arguments, config: Config, mut file: Settings) -> Result<(), Failure> {
    let takes_over = arguments.take_over;
    let wait_for = |kind| {
        signal(kind).map_err(|error| Failure::Run(format!("cannot wait for signals: {error}")))
    };
    let mut successors = wait_for(SignalKind::user_defined2())?;
    let mut restarts = wait_for(SignalKind::user_defined1())?;
    let reloaded_file = arguments.config.as_deref();
    let mut hang_ups = reloaded_file
        .map(|_| wait_for(SignalKind::hangup()))
        .transpose()?;
    let daemon = if takes_over {
        Daemon::take_over(config)
    } else {
        let passed = service::passed().map_err(|error| {
            Failure::Run(format!(
                "cannot use the socket of the service manager: {error}"
            ))
        })?;
        Daemon::bind_on(config, passed)
    };
    let daemon = daemon.map_err(|error| not_started(&error))?;
    let transport = match daemon.transport() {
        Transport::Udp { port } => format!("UDP port {port}"),
        Transport::Raw => "IP protocol 132".into(),
        Transport::Both { port } => format!("UDP port {port} and IP protocol 132"),
    };
    let socket = daemon.socket().to_owned();
    log::info(format_args!("serving {} on {transport}", socket.display()));
    if daemon.is_successor() {
        log::info(format_args!(
            "took over {} associations",
            daemon.association_count()
        ));
    }
    if let Some(address) = daemon.metrics() {
        log::info(format_args!("metrics http://{address}/metrics"));
    }
    if !takes_over {
        // The manager is notified of a successor by its predecessor.
        notify("READY=1");
    }
    let defaults = daemon.defaults();
    let end = daemon.run_until(async {
        loop {
            let hung_up = async {
                match &mut hang_ups {
                    Some(hang_ups) => hang_ups.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = hung_up => {
                    if let Some(path) = reloaded_file {
                        reload(arguments, path, &mut file, &defaults).await;
                    }
                }
                signal = runtime::signal_received() => {
                    notify("STOPPING=1");
                    log::info(format_args!("ending after {signal}"));
                    return StopRequest::End;
                }
                _ = restarts.recv() => {
                    notify("STOPPING=1");
                    return StopRequest::Hold;
                }
                _ = successors.recv() => {
                    if let Err(error) = start_successor(&socket) {
                        log::warn(format_args!("cannot start a successor: {error}"));
                    }
                }
            }
        }
    });
    match end.await {
        DaemonEnd::HandedOver { process } => {
            notify(&format!("MAINPID={process}\nREADY=1"));
            log::info(format_args!("handed over to process {process}"));
        }
        DaemonEnd::Held => log::info(format_args!("the service manager holds all sockets")),
        DaemonEnd::Stopped => {}
    }
    Ok(())
}

/// Starts this command again, with --take-over. Its program may be another release.
fn start_successor(socket: &Path) -> io::Result<()> {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| "carrick".into());
    let mut command = std::process::Command::new(program);
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_encoded_bytes();
        if bytes == b"--socket" {
            arguments.next();
        } else if bytes != b"--take-over" && !bytes.starts_with(b"--socket=") {
            command.arg(argument);
        }
    }
    command.arg("--take-over").arg("--socket").arg(socket);
    let mut successor = command.spawn()?;
    // One that refuses has ended before this daemon.
    std::thread::spawn(move || successor.wait());
    Ok(())
}

/// Notifies the service manager, if there is one.
fn notify(state: &str) {
    if let Err(error) = service::notify(state) {
        log::warn(format_args!(
            "the service manager is not notified of {state} (NOTIFY_SOCKET): {error}"
        ));
    }
}

/// Returns the failure of a daemon that could not be started.
pub(crate) fn not_started(error: &DaemonError) -> Failure {
    match error {
        DaemonError::Network(error) => not_bound(error),
        error => Failure::Run(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn config(options: &[&str], file: &str) -> Config {
        let cli = Cli::parse_from([&["daemon"], options].concat());
        let config = cli.arguments.config(&Settings::parse("f", file).unwrap());
        config.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    #[test]
    fn options_precede_the_file() {
        let file = "socket = \"/run/a\"\nmetrics = \"127.0.0.1:1\"\nmetrics-associations = 3\nlinger = \"5s\"\n[network]\n\
            addresses = [\"192.0.2.1\"]\nudp-port = 1000\npeer-udp-port = 2000\n";
        let from_file = config(&[], file);
        assert!(matches!(from_file.transport, Transport::Udp { port: 1000 }));
        assert_eq!(from_file.socket, PathBuf::from("/run/a"));
        assert_eq!(from_file.metrics, Some(([127, 0, 0, 1], 1).into()));
        assert_eq!(from_file.metrics_associations, 3);
        assert_eq!(from_file.linger, Duration::from_secs(5));
        assert_eq!(from_file.addresses, [IpAddr::from([192, 0, 2, 1])]);
        assert_eq!(from_file.peer_port, Some(2000));
        let options = [
            "--socket=/run/b",
            "--metrics=127.0.0.1:2",
            "--metrics-associations=4",
            "--linger=1s",
            "--bind=192.0.2.2",
            "--udp-port=1001",
            "--peer-udp-port=2001",
        ];
        let given = config(&options, file);
        assert!(matches!(given.transport, Transport::Udp { port: 1001 }));
        assert_eq!(given.socket, PathBuf::from("/run/b"));
        assert_eq!(given.metrics, Some(([127, 0, 0, 1], 2).into()));
        assert_eq!(given.metrics_associations, 4);
        assert_eq!(given.linger, Duration::from_secs(1));
        assert_eq!(given.addresses, [IpAddr::from([192, 0, 2, 2])]);
        assert_eq!(given.peer_port, Some(2001));
    }

    #[test]
    fn the_transport_is_that_of_option_or_file() {
        let raw = "[network]\ntransport = \"raw\"\n";
        let udp = "[network]\ntransport = \"udp\"\nudp-port = 1000\n";
        let transport = |options: &[&str], file| config(options, file).transport;
        assert!(matches!(transport(&[], raw), Transport::Raw));
        assert!(matches!(
            transport(&["--udp-port=9"], raw),
            Transport::Udp { port: 9 }
        ));
        assert!(matches!(transport(&["--raw"], udp), Transport::Raw));
        assert!(matches!(
            transport(&["--and-raw"], udp),
            Transport::Both { port: 1000 }
        ));
        let default = transport(&[], "");
        assert!(matches!(default, Transport::Udp { port: 9899 }));
        assert_eq!(config(&[], raw).peer_port, None);
        assert_eq!(config(&[], "").peer_port, Some(9899));
    }
}
