//! Options of endpoints and associations that `perf`, `cat` and `proxy` share, connecting, and closing (`closing`).

mod closing;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::Once;
use std::time::Duration;

use carrick::cc::{Algorithm, CmtRpV1, CmtRpV2, Lia, Olia, algorithms};
use carrick::research::{Multipath, Policies};
use carrick::{
    Association, AssociationConfig, BindError, Config, ConnectOptions, DEFAULT_ENCAPSULATION_PORT,
    Endpoint,
};
use clap::Args;
use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};

pub(crate) use closing::{
    AbortOnDrop, STOP_TIMEOUT, undelivered_text, until_stopped, with, with_undelivered,
};

use crate::capture_file::CaptureOption;
use crate::event_log::EventLogArguments;
use crate::failure::Failure;
use crate::parameters::{ParameterPlace, Parameters, set, validate};
use crate::runtime::until_signal;
use crate::security::EncryptionArguments;
use crate::units;

/// Duration of a set-up after which a line on standard error names the peer.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// The line about the daemon was printed.
#[cfg(target_os = "linux")]
static DAEMON_REPORTED: Once = Once::new();

/// Options of an endpoint.
#[derive(Debug, Clone, Args)]
pub(crate) struct EndpointArguments {
    /// Local address; may be given several times [default: all addresses of the host, or the loopback
    /// address if the peer is on loopback].
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) bind: Vec<IpAddr>,
    /// Local UDP port of the encapsulation; 0 lets the system choose [default: that of the daemon if one
    /// answers, which then carries the packets; otherwise 9899 to listen, 0 to connect].
    #[arg(long, value_name = "N", conflicts_with = "raw")]
    pub(crate) udp_port: Option<u16>,
    /// Use SCTP directly on IP (protocol 132, needs `CAP_NET_RAW`) instead of in UDP.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Use SCTP directly on IP (needs `CAP_NET_RAW`) in addition to UDP; replies use the encapsulation of
    /// the peer's packets.
    #[arg(long, conflicts_with = "raw")]
    pub(crate) and_raw: bool,
    #[command(flatten)]
    pub(crate) event_log: EventLogArguments,
    /// Write the packets that are sent and received to this file for Wireshark (pcapng), at most 1 GiB.
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().map(CaptureOption::new))]
    pub(crate) capture: Option<CaptureOption>,
    #[command(flatten)]
    pub(crate) association: AssociationArguments,
    #[command(flatten)]
    pub(crate) encryption: EncryptionArguments,
}

/// Protocol parameters.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Protocol parameters")]
pub(crate) struct AssociationArguments {
    #[command(flatten)]
    pub(crate) parameters: Parameters,
    /// Size of the receive buffer, advertised as `a_rwnd` [default: grows as needed].
    #[arg(long, value_name = "BYTES", value_parser = units::length)]
    receive_buffer: Option<usize>,
    /// Size of the send buffer [default: grows as needed].
    #[arg(long, value_name = "BYTES", value_parser = units::length)]
    send_buffer: Option<usize>,
    /// Maximum path MTU, IP header included [default: 1500].
    #[arg(long, value_name = "BYTES", value_parser = units::length)]
    mtu: Option<usize>,
    /// Send small messages immediately (disables the Nagle algorithm).
    #[arg(long)]
    no_delay: bool,
    /// Congestion control of each path [default: cubic]. With --multipath, replaces its CONTROL.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(algorithms().iter().map(|a| a.name())))]
    congestion: Option<String>,
    /// Send new data over all paths at once, with this coupled congestion control [default: olia].
    #[arg(
        long,
        value_name = "CONTROL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "olia"
    )]
    multipath: Option<MultipathControl>,
}

/// Returns the congestion control of this name.
fn algorithm(name: &str) -> Option<Arc<dyn Algorithm>> {
    algorithms().into_iter().find(|a| a.name() == name)
}

/// Coupling of the congestion windows of paths that carry data at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MultipathControl {
    /// Opportunistic linked increases: the best paths grow.
    Olia,
    /// Linked increases (RFC 6356).
    Lia,
    /// Resource pooling by slow-start thresholds (CMT/RPv1).
    Rpv1,
    /// Resource pooling by rates (CMT/RPv2).
    Rpv2,
    /// No coupling: takes as many shares of a common bottleneck as there are paths.
    Uncoupled,
}

impl MultipathControl {
    fn apply(self, policies: &mut Policies) {
        policies.multipath = Multipath::concurrent();
        policies.congestion = match self {
            Self::Olia => Arc::new(Olia),
            Self::Lia => Arc::new(Lia),
            Self::Rpv1 => Arc::new(CmtRpV1),
            Self::Rpv2 => Arc::new(CmtRpV2),
            Self::Uncoupled => return,
        };
    }
}

impl AssociationArguments {
    /// Returns the parameters of associations with this number of outbound streams.
    ///
    /// # Errors
    /// Names the option whose value is out of its range.
    pub(crate) fn config(&self, outbound_streams: u16) -> Result<AssociationConfig, Failure> {
        let mut config = self.parameters.base();
        config.streams.outbound_streams = outbound_streams;
        self.parameters.apply(&mut config);
        // A given size is fixed.
        if let Some(bytes) = self.receive_buffer {
            config.buffers.receive_buffer = bytes;
            config.buffers.max_receive_buffer = None;
        }
        if let Some(bytes) = self.send_buffer {
            config.buffers.send_buffer = bytes;
            config.buffers.max_send_buffer = None;
        }
        set(&mut config.mtu.path_mtu, self.mtu);
        config.transmission.nagle &= !self.no_delay;
        if let Some(control) = self.multipath {
            control.apply(&mut config.research.policies);
        }
        set(
            &mut config.research.policies.congestion,
            self.congestion.as_deref().and_then(algorithm),
        );
        validate(&config, ParameterPlace::CommandLine).map_err(Failure::Usage)?;
        Ok(config)
    }
}

/// Endpoint with the way of its packets.
pub(crate) struct OpenedEndpoint {
    pub(crate) endpoint: Endpoint,
    /// Packets pass through the daemon.
    pub(crate) through_daemon: bool,
}

impl EndpointArguments {
    /// Opens an endpoint with this number of shards that accepts associations on this SCTP port.
    pub(crate) fn listen(
        &self,
        port: u16,
        outbound_streams: u16,
        shards: usize,
    ) -> Result<OpenedEndpoint, Failure> {
        let config = self
            .config(self.bind.clone(), DEFAULT_ENCAPSULATION_PORT)
            .port(port)
            .shards(shards)
            .association(self.association.config(outbound_streams)?);
        self.open(config)
    }

    /// Opens an endpoint that only connects, to peers at these addresses.
    pub(crate) fn open_towards(
        &self,
        peers: &[IpAddr],
        outbound_streams: u16,
    ) -> Result<OpenedEndpoint, Failure> {
        let association = self.association.config(outbound_streams)?;
        self.open_towards_with(peers, |config| config.association(association))
    }

    /// Opens an endpoint that only connects, to peers at these addresses, with changes of its configuration.
    pub(crate) fn open_towards_with(
        &self,
        peers: &[IpAddr],
        change: impl FnOnce(Config) -> Config,
    ) -> Result<OpenedEndpoint, Failure> {
        let config = self.config(self.local_addresses(peers), 0);
        self.open(change(config).accept(false))
    }

    /// Opens an endpoint that accepts associations of peers at these addresses on this SCTP port, with changes of its
    /// configuration.
    pub(crate) fn listen_with(
        &self,
        peers: &[IpAddr],
        port: u16,
        change: impl FnOnce(Config) -> Config,
    ) -> Result<OpenedEndpoint, Failure> {
        let config = self.config(self.local_addresses(peers), DEFAULT_ENCAPSULATION_PORT);
        self.open(change(config).port(port))
    }

    /// Opens the event log and the capture, which all endpoints of these options share.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn open_files(&self) -> Result<(), Failure> {
        self.event_log.open(None)?;
        self.capture
            .as_ref()
            .map(CaptureOption::observer)
            .transpose()?;
        Ok(())
    }

    /// Opens an endpoint, through the daemon if one answers and no option selects another transport.
    fn open(&self, config: Config) -> Result<OpenedEndpoint, Failure> {
        let mut config = self.encryption.apply(config)?;
        config.event_log = self.event_log.open(None)?;
        config.packets = self
            .capture
            .as_ref()
            .map(CaptureOption::observer)
            .transpose()?;
        let is_default = self.udp_port.is_none() && !self.raw && !self.and_raw;
        #[cfg(feature = "dtls")]
        let is_default = is_default && config.dtls.is_none();
        #[cfg(target_os = "linux")]
        if is_default && let Some(daemon) = running_daemon() {
            config.encapsulation_port = None;
            let endpoint = Endpoint::bind(config.daemon(&daemon)).map_err(|e| not_bound(&e))?;
            // A program with several endpoints reports it once.
            DAEMON_REPORTED.call_once(|| {
                eprintln!(
                    "carrick: {}; --udp-port N does without it",
                    shared_port(&daemon)
                );
            });
            return Ok(OpenedEndpoint {
                endpoint,
                through_daemon: true,
            });
        }
        let _ = is_default;
        Ok(OpenedEndpoint {
            endpoint: Endpoint::bind(config).map_err(|error| not_bound(&error))?,
            through_daemon: false,
        })
    }

    fn config(&self, addresses: Vec<IpAddr>, udp_port: u16) -> Config {
        if self.raw {
            return Config::raw(addresses);
        }
        let config = Config::udp(addresses);
        let config = config.encapsulation_port(self.udp_port.unwrap_or(udp_port));
        if self.and_raw {
            config.and_plain_ip()
        } else {
            config
        }
    }

    /// Returns the local addresses to bind: other hosts cannot reply to a loopback address, and a peer on
    /// loopback needs no other address.
    fn local_addresses(&self, peers: &[IpAddr]) -> Vec<IpAddr> {
        if !self.bind.is_empty() || !peers.iter().all(IpAddr::is_loopback) {
            return self.bind.clone();
        }
        let v4 = peers.iter().any(IpAddr::is_ipv4);
        let v6 = peers.iter().any(IpAddr::is_ipv6);
        let v4 = v4.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let v6 = v6.then_some(IpAddr::V6(Ipv6Addr::LOCALHOST));
        v4.into_iter().chain(v6).collect()
    }
}

/// Returns the control socket of the daemon that answers, if any.
#[cfg(target_os = "linux")]
pub(crate) fn running_daemon() -> Option<PathBuf> {
    let path = carrick_daemon::default_socket();
    carrick_daemon::answers(&path).then_some(path)
}

/// Other systems have no daemon.
#[cfg(not(target_os = "linux"))]
pub(crate) fn running_daemon() -> Option<PathBuf> {
    None
}

/// Returns the line about the ports of an endpoint that accepts associations.
pub(crate) fn ports(port: u16, udp_port: Option<u16>) -> String {
    match udp_port {
        Some(udp_port) => format!("sctp port {port} in udp port {udp_port}"),
        None => format!("sctp port {port}"),
    }
}

/// Returns the line about a shared UDP port.
pub(crate) fn shared_port(daemon: &Path) -> String {
    format!("packets pass through the daemon on {}", daemon.display())
}

/// Returns the failure of programs whose sockets could not be opened.
pub(crate) fn not_bound(error: &BindError) -> Failure {
    match error {
        // Another SCTP port does not help.
        BindError::PortTaken { address, port } => Failure::Run(format!(
            "UDP port {port} of {address}, which carries SCTP, is in use: stop the program that uses it, or choose \
             another one with --udp-port N here and --peer-udp-port N at the peer"
        )),
        error => Failure::Run(error.to_string()),
    }
}

/// Parses an address without a scope, which SCTP cannot carry. An IPv6 address may be in brackets, as in URLs.
pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let text = inner.filter(|t| t.contains(':')).unwrap_or(text);
    // An interface name follows the address.
    let (address, scope) = match text.split_once('%') {
        Some((address, scope)) => (address, Some(scope)),
        None => (text, None),
    };
    match address.parse() {
        Ok(address) if scope.is_some() || is_link_local(address) => Err(LINK_LOCAL.into()),
        Ok(address) => Ok(address),
        Err(_) => Err("expected an IPv4 or IPv6 address such as 192.0.2.1 or 2001:db8::1".into()),
    }
}

const LINK_LOCAL: &str = "link-local addresses are not supported, because address parameters of SCTP have no interface: use another address";

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Returns whether an address is that of one host.
fn is_of_a_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !is_broadcast && !address.is_multicast() && !address.is_unspecified()
}

/// Options of the peer.
#[derive(Debug, Clone, Args)]
pub(crate) struct PeerArguments {
    /// UDP port of the peer's encapsulation.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_ENCAPSULATION_PORT, conflicts_with = "raw")]
    pub(crate) peer_udp_port: u16,
    /// UDP port of one address of the peer; may be given several times.
    #[arg(long, value_name = "ADDR=PORT", value_parser = address_and_port, conflicts_with = "raw")]
    encap: Vec<(IpAddr, u16)>,
    /// Address of the peer that is reached directly on IP, without UDP; may be given several times.
    #[arg(long, value_name = "ADDR", value_parser = address, requires = "and_raw")]
    plain: Vec<IpAddr>,
    /// Fail if the peer does not answer within this time; a number without a unit is in s.
    #[arg(long, value_name = "TIME", value_parser = units::seconds, default_value = "10s")]
    pub(crate) connect_timeout: Duration,
}

impl PeerArguments {
    /// Sets up an association.
    pub(crate) async fn connect(
        &self,
        endpoint: &Endpoint,
        peers: &[IpAddr],
        port: u16,
    ) -> Result<Association, Failure> {
        let mut options = ConnectOptions::new();
        if endpoint.encapsulation_port().is_some() {
            options = options.encapsulation_port(self.peer_udp_port);
        }
        for &(address, port) in &self.encap {
            options = options.encapsulated(address, port);
        }
        for &address in &self.plain {
            options = options.plain_ip(address);
        }
        let waiting = async {
            tokio::time::sleep(REPORT_AFTER).await;
            eprintln!("carrick: waiting for {} to answer", list(peers));
            std::future::pending::<Infallible>().await
        };
        let connected = tokio::time::timeout(self.connect_timeout, async {
            tokio::select! {
                connected = endpoint.connect_with((peers, port), options) => connected,
                never = waiting => match never {},
            }
        });
        match connected.await {
            Ok(Ok(association)) => Ok(association),
            Ok(Err(e)) => Err(Failure::Run(format!(
                "cannot connect to {} port {port}: {e}",
                list(peers)
            ))),
            Err(_) => Err(Failure::Run(format!(
                "{} port {port} does not answer in {:?}: check its addresses, ports and transport, or wait longer (--connect-timeout)",
                list(peers),
                self.connect_timeout
            ))),
        }
    }
}

/// Parses an address and a UDP port, such as `192.0.2.1=9899`.
fn address_and_port(text: &str) -> Result<(IpAddr, u16), String> {
    let (host, port) = text.split_once('=').ok_or("expected ADDR=PORT")?;
    let address = address(host)?;
    match port.parse() {
        Ok(0) | Err(_) => Err(format!("{port:?} is not a port from 1 to 65535")),
        Ok(port) => Ok((address, port)),
    }
}

/// Resolves a peer given as addresses or names separated by commas. All addresses of a name are used except
/// link-local ones.
pub(crate) async fn resolve(peer: &str) -> Result<Vec<IpAddr>, Failure> {
    let mut addresses = Vec::new();
    for name in peer.split(',').map(str::trim) {
        match address(name) {
            Ok(address) if !is_of_a_host(address) => {
                return Err(Failure::Usage(format!(
                    "{address} is not the address of a host: give one of the peer's"
                )));
            }
            Ok(address) => {
                addresses.push(address);
                continue;
            }
            Err(why) if why == LINK_LOCAL => {
                return Err(Failure::Usage(format!("{name}: {why}")));
            }
            Err(_) => {}
        }
        let unknown = |why: String| {
            Failure::Run(format!(
                "{name:?} is neither an address nor a known name: {why}"
            ))
        };
        if name.is_empty() {
            return Err(unknown("the name is empty".into()));
        }
        let found = until_signal(async {
            let found = tokio::net::lookup_host((name, 0)).await;
            found.map_err(|e| unknown(e.to_string()))
        });
        let known = addresses.len();
        addresses.extend(found.await?.map(|a| a.ip()).filter(|a| !is_link_local(*a)));
        if addresses.len() == known {
            return Err(Failure::Run(format!("{name}: {LINK_LOCAL}")));
        }
    }
    let mut known = Vec::with_capacity(addresses.len());
    addresses.retain(|a| {
        let new = !known.contains(a);
        known.push(*a);
        new
    });
    Ok(addresses)
}

/// Joins addresses with commas.
pub(crate) fn list(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    texts.join(",")
}

/// Returns the line with the addresses and ports of an endpoint that accepts associations.
///
/// # Errors
/// The endpoint has failed.
pub(crate) async fn listening(endpoint: &Endpoint, port: u16) -> Result<String, Failure> {
    let addresses = endpoint.local_addresses().await;
    let addresses = addresses.map_err(|e| Failure::Run(e.to_string()))?;
    let over = endpoint
        .encapsulation_port()
        .map_or("IP".into(), |p| format!("UDP port {p}"));
    Ok(match &addresses[..] {
        // Below DTLS an endpoint has no addresses of the host.
        [] => format!("listening on port {port} over DTLS in {over}"),
        addresses => {
            let addresses = list(addresses);
            format!("listening on {addresses} port {port} over {over}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_rejected() {
        for text in [
            "fe80::1",
            "fe80::1%lo",
            "febf::1%2",
            "2001:db8::1%lo",
            "10.0.0.1%lo",
        ] {
            assert_eq!(address(text), Err(LINK_LOCAL.into()), "{text}");
        }
        for text in ["fec0::1", "169.254.0.1", "::1"] {
            assert_eq!(address(text), Ok(text.parse().unwrap()));
        }
        for text in ["::1", "2001:db8::1"] {
            assert_eq!(address(&format!("[{text}]")), Ok(text.parse().unwrap()));
        }
        for text in ["", "host", "host%lo", "[127.0.0.1]", "[::1", "[]"] {
            assert!(address(text).is_err_and(|why| why != LINK_LOCAL), "{text}");
        }
        assert_eq!(address_and_port("fe80::1=9899"), Err(LINK_LOCAL.into()));
    }

    #[test]
    fn a_udp_port_follows_its_address() {
        let v4: IpAddr = [192, 0, 2, 1].into();
        assert_eq!(address_and_port("192.0.2.1=9899"), Ok((v4, 9899)));
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(address_and_port("2001:db8::1=1"), Ok((v6, 1)));
        for wrong in [
            "192.0.2.1",
            "192.0.2.1=",
            "192.0.2.1=0",
            "192.0.2.1=65536",
            "host=1",
        ] {
            assert!(address_and_port(wrong).is_err(), "{wrong}");
        }
    }
}
